"""Answers that a program gives: checked while the caller can still correct them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec

from bbq_plugin.data.coding import RaterCodes, RawCodes, coded
from bbq_plugin.data.records import Comparison
from bbq_plugin.errors import DataError
from bbq_plugin.store.upsert import checked_key

if TYPE_CHECKING:
    from collections.abc import Mapping


def checked_answer(answer: object) -> Comparison:
    """The same answer, or an error that says what cannot be stored of it."""
    if not isinstance(answer, Comparison):
        raise DataError(f"is {answer!r}; expected a Comparison")
    key_text(answer.key)
    if answer.slate is not None:
        key_text(answer.slate, "slate")
    for what in ("at", "version", "time_s"):
        value = getattr(answer, what)
        if value is not None:
            seconds(value, what, least=0.0 if what == "time_s" else -math.inf)
    if answer.tags is not None:
        tag_texts(answer.tags)
    return answer


def key_text(key: object, what: str = "key") -> str:
    """A key that a caller gave."""
    return _text(checked_key(key, what), what)


def _text(value: str, what: str) -> str:
    """Text that can be written down."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise DataError(
            f"{what} {value!r} has half a character (an unpaired surrogate); mend it"
        ) from None
    return value


def seconds(value: float, what: str, least: float = -math.inf) -> float:
    """A time, or the length of one, that a caller gave."""
    try:
        found = math.nan if isinstance(value, (str, bytes, bool)) else float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not (math.isfinite(found) and found >= least):
        kind = ", 0 or more" if least == 0 else " since 1970"
        raise DataError(f"{what} is {value!r}; expected seconds{kind}, or None if not known")
    return found


def tag_texts(tags: Mapping[str, str]) -> dict[str, str]:
    """Tags that a caller gave."""
    if not hasattr(tags, "items"):
        raise DataError(f"tags is {tags!r}; expected a mapping of text to text")
    for name, value in tags.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise DataError(f"tag {name!r} is {value!r}; names and values of tags are text")
        _text(name, "the tag")
        _text(value, f"the value of tag {name!r},")
    return dict(tags)


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
        at=now if answer.at is None else seconds(answer.at, "at"),
        time_s=None if answer.time_s is None else seconds(answer.time_s, "time_s", least=0.0),
        tags=None if answer.tags is None else tag_texts(answer.tags),
    )
