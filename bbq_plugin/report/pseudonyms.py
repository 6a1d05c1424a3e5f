"""Rater names replaced by keyed pseudonyms.

A pseudonym is a keyed BLAKE2 hash: whoever has the key gets the same names again, whoever has not
cannot even check a guess. So the key is a secret: it comes from a file or the environment.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING

from bbq_plugin.comparisons import Skipped
from bbq_plugin.errors import DataError

if TYPE_CHECKING:
    from bbq_plugin.comparisons import Comparisons

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
