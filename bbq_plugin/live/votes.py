"""The checks that a vote goes through while its caller can still mend it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec

from bbq_plugin._answers import coded
from bbq_plugin._coding import RaterCodes, RawCodes
from bbq_plugin.errors import DataError
from bbq_plugin.live.store.writing import checked_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bbq_plugin.comparisons import Comparison

__all__ = ["checked_vote", "key_text"]


def checked_vote(answer: Comparison, now: float) -> Comparison:
    """The answer as it is stored, or an error that says what is wrong with it.

    It gets a key if it has none, and the time if it has none.
    """
    if coded(answer, RawCodes("item"), RaterCodes("rater")) is None:
        raise DataError(
            f"left and right are both {answer.left!r}; a vote is between two different items"
        )
    if answer.slate is not None:
        raise DataError(
            f"slate is {answer.slate!r}; the pairs of one ranking are stored together: Engine.add"
        )
    return msgspec.structs.replace(
        answer,
        key=key_text(answer.key) if answer.key != "" else f"vote:{uuid4().hex}",
        at=now if answer.at is None else _seconds(answer.at, "at"),
        time_s=None if answer.time_s is None else _seconds(answer.time_s, "time_s", least=0.0),
        tags=None if answer.tags is None else _tags(answer.tags),
    )


def key_text(key: object) -> str:
    """A key that a caller gave."""
    return _text(checked_key(key), "key")


def _text(value: str, what: str) -> str:
    """Text that can be written down."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise DataError(
            f"{what} {value!r} has half a character (an unpaired surrogate); mend it"
        ) from None
    return value


def _seconds(value: float, what: str, least: float = -math.inf) -> float:
    try:
        found = math.nan if isinstance(value, (str, bytes, bool)) else float(value)
    except (TypeError, ValueError):
        found = math.nan
    if not (math.isfinite(found) and found >= least):
        kind = ", 0 or more" if least == 0 else " since 1970"
        raise DataError(f"{what} is {value!r}; expected seconds{kind}, or None if not known")
    return found


def _tags(tags: Mapping[str, str]) -> dict[str, str]:
    if not hasattr(tags, "items"):
        raise DataError(f"tags is {tags!r}; expected a mapping of text to text")
    for name, value in tags.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise DataError(f"tag {name!r} is {value!r}; names and values of tags are text")
        _text(name, "the tag")
        _text(value, f"the value of tag {name!r},")
    return dict(tags)
