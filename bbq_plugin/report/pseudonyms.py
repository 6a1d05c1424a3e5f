"""Rater names replaced by keyed pseudonyms, and where the key comes from."""

from __future__ import annotations

import os
import secrets
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING

from bbq_plugin.data.records import Skipped
from bbq_plugin.errors import BBQError, DataError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from bbq_plugin.data.dataset import Comparisons

# 64 bits: among a million raters the chance that two share one is 3 in 100 million.
_BYTES = 8


def pseudonym(name: str, key: bytes) -> str:
    """The pseudonym of one rater under a key of any length."""
    # BLAKE2 takes keys up to 64 bytes; hashing the key first takes them all.
    secret = blake2b(key).digest()
    name_bytes = name.encode("utf-8", "surrogatepass")
    return "rater-" + blake2b(name_bytes, key=secret, digest_size=_BYTES).hexdigest()


def pseudonymised(data: Comparisons, key: bytes) -> Comparisons:
    """The same comparisons with other names for the raters."""
    raters = tuple(pseudonym(name, key) for name in data.raters)
    if len(set(raters)) < len(raters):
        raise DataError("two raters have the same pseudonym; use another key")
    # What was skipped may quote a rater's name.
    skipped = tuple(Skipped(one.where, one.reason) for one in data.skipped)
    return replace(data, raters=raters, skipped=skipped)


VARIABLE = "BBQ_PSEUDONYM_KEY"

# A shorter key can be found by trying.
_SHORTEST = 16


def pseudonym_key(key_file: Path | None, *, lasting: bool = False) -> tuple[bytes, list[str]]:
    """The key, and what has to be said about it.

    Without a key a random one is used, unless the names are to last beyond this run.
    """
    if key_file is not None:
        key, where = key_file.read_bytes().strip(), str(key_file)
    else:
        key, where = (
            os.environ.get(VARIABLE, "").strip().encode("utf-8", "surrogateescape"),
            VARIABLE,
        )
    if key:
        if len(key) >= _SHORTEST:
            return key, []
        return key, [
            (
                f"the pseudonym key in {where} has {len(key)} bytes; one of at least {_SHORTEST} "
                "keeps the names from being found by trying"
            )
        ]
    if key_file is not None:
        raise BBQError(f"{key_file}: the file is empty; put the key of the pseudonyms into it")
    if lasting:
        raise UsageError(
            f"no pseudonym key in {VARIABLE} or the pseudonym_key_file: names that change with "
            f"every start are of no use; put at least {_SHORTEST} random bytes there"
        )
    note = (
        f"no pseudonym key in {VARIABLE} or --pseudonym-key-file: a random one is used, "
        "so the names will be others in the next run"
    )
    return secrets.token_bytes(32), [note]
