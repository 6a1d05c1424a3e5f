"""The key of the pseudonyms: from a file or the environment, never from the command line."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

from bbq_plugin.errors import BBQError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

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
