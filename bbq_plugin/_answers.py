"""One answer in codes, with the checks that refuse it."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, Any

from bbq_plugin._coding import checked_weight
from bbq_plugin.comparisons import GOLD, OUTCOMES, SHOWN_ORDER
from bbq_plugin.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bbq_plugin._coding import RawCodes
    from bbq_plugin.comparisons import Comparison

_CODE = {outcome: code for code, outcome in enumerate(OUTCOMES)}
#: Codes of the tag GOLD: one more than that of the right answer, or beyond all; 0: not known.
GOLD_CODES: dict[str, int] = {"other": len(_CODE) + 1}
GOLD_CODES.update((outcome, code + 1) for outcome, code in _CODE.items())
#: Codes of the tag SHOWN_ORDER; 0: it is not said here.
KEPT_CODES = {"kept": 1, "changed": -1}


def coded(record: Comparison, items: RawCodes, raters: RawCodes) -> dict[str, Any] | None:
    """One answer in codes, or None if it compares an item with itself."""
    for name in (record.left, record.right):
        if not isinstance(name, str):
            raise DataError(f"item is {name!r}, not text; give names as str")
    if record.rater is not None and not isinstance(record.rater, str):
        raise DataError(f"rater is {record.rater!r}, not text; give names as str")
    if record.outcome not in _CODE:
        raise DataError(f"outcome is {record.outcome!r}; expected one of {', '.join(OUTCOMES)}")
    left, right = items[record.left], items[record.right]
    if left == right:
        return None
    rater = raters[record.rater]
    if rater < 0 and record.rater is not None:
        raise DataError(f"rater has an empty name ({record.rater!r}); name it or drop the row")
    answer: dict[str, Any] = {
        "rater": rater,
        "left": left,
        "right": right,
        "outcome": _CODE[record.outcome],
        "weight": checked_weight(record.weight),
        "time_s": nan if record.time_s is None else record.time_s,
        "at": nan if record.at is None else record.at,
        "version": nan if record.version is None else record.version,
        "slate": record.slate is not None,
    }
    # Rare, and a column that nobody fills costs nothing.
    if record.tags and (GOLD in record.tags or SHOWN_ORDER in record.tags):
        answer["gold"], answer["kept"] = told_by(record.tags)
    return answer


def told_by(tags: object) -> tuple[int, int]:
    """The codes of the tags GOLD and SHOWN_ORDER."""
    return _told(tags, GOLD, GOLD_CODES), _told(tags, SHOWN_ORDER, KEPT_CODES)


def _told(tags: object, tag: str, codes: Mapping[str, int]) -> int:
    """The code of a tag's value, 0 without one; whether tags are tags is not judged here."""
    value = tags.get(tag) if isinstance(tags, dict) else None
    return codes.get(value, 0) if isinstance(value, str) else 0
