"""Keyed pseudonyms of raters, for results that others read."""

from __future__ import annotations

import os
import secrets
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from bbq_plugin.data.records import Skipped
from bbq_plugin.errors import BBQError, DataError, UsageError

if TYPE_CHECKING:
    from bbq_plugin.data.dataset import Comparisons


# 64 bits: among a million raters the chance that two share one is 3 in 100 million.
_BYTES = 8


VARIABLE = "BBQ_PSEUDONYM_KEY"


# A shorter key can be found by brute force.
_SHORTEST = 16


def pseudonym(name: str, key: bytes) -> str:
    """The pseudonym of one rater under a key of any length."""
    # BLAKE2 takes keys up to 64 bytes; hashing the key first takes them all.
    secret = blake2b(key).digest()
    name_bytes = name.encode("utf-8", "surrogatepass")
    return "rater-" + blake2b(name_bytes, key=secret, digest_size=_BYTES).hexdigest()


def pseudonymised(data: Comparisons, key: bytes) -> Comparisons:
    """The same comparisons with pseudonyms of the raters."""
    raters = tuple(pseudonym(name, key) for name in data.raters)
    if len(set(raters)) < len(raters):
        raise DataError("two raters have the same pseudonym; use another key")
    # The text of a skipped row may contain a rater's name.
    skipped = tuple(Skipped(one.where, one.reason) for one in data.skipped)
    return replace(data, raters=raters, skipped=skipped)


def pseudonym_key(key_file: Path | None, *, lasting: bool = False) -> tuple[bytes, list[str]]:
    """The key, and notes for the user.

    Without a key a random one is used, except for a store (``lasting``), which outlives this run.
    """
    key = os.environ.get(VARIABLE, "").strip().encode("utf-8", "surrogateescape")
    if key_file is not None:
        key = key_file.read_bytes().strip()
    if key:
        short = (
            f"the pseudonym key in {key_file or VARIABLE} has only {len(key)} bytes and can be "
            f"guessed; use at least {_SHORTEST}"
        )
        return key, [] if len(key) >= _SHORTEST else [short]
    if key_file is not None:
        raise BBQError(f"{key_file}: the file is empty; write the pseudonym key into it")
    if lasting:
        raise UsageError(
            f"there is no pseudonym key in {VARIABLE} or pseudonym_key_file, so the names would "
            f"change with every start; put at least {_SHORTEST} random bytes there"
        )
    note = (
        f"there is no pseudonym key in {VARIABLE} or --pseudonym-key-file; a random key is used, "
        "so the pseudonyms will be different in the next run"
    )
    return secrets.token_bytes(32), [note]
