"""A vote as it is stored: checked, with a key and a time."""

from __future__ import annotations

from uuid import uuid4

import msgspec

from bbq_plugin._answers import coded
from bbq_plugin._coding import RaterCodes, RawCodes
from bbq_plugin.comparisons import Comparison
from bbq_plugin.errors import DataError
from bbq_plugin.live.answers import key_text, seconds, tag_texts

__all__ = ["checked_vote"]


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
