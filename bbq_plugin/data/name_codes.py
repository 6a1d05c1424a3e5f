"""Names and answers in codes, with the checks that refuse what cannot be one."""

from __future__ import annotations

import re
from math import nan
from typing import TYPE_CHECKING, Any

import numpy as np

from bbq_plugin.data.records import (
    GOLD,
    LEAST_WEIGHT,
    MOST_WEIGHT,
    OUTCOMES,
    SHOWN_ORDER,
    WEIGHT_BOUNDS,
)
from bbq_plugin.errors import DataError
from bbq_plugin.text import brief, name_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from bbq_plugin.data.records import Comparison

_CODE = {outcome: code for code, outcome in enumerate(OUTCOMES)}
#: Codes of the tag GOLD: one more than that of the right answer, or beyond all; 0: not known.
GOLD_CODES = {name: code + 1 for code, name in enumerate((*OUTCOMES, "other"))}
#: Codes of the tag SHOWN_ORDER; 0: it is not said here.
KEPT_CODES = {"kept": 1, "changed": -1}

# A name stands in tables and charts; what is longer is the content of an item.
_LONGEST_NAME = 10_000

# JSON can spell these, but no text can be written with them.
_UNPAIRED = re.compile("[\ud800-\udfff]")


class Codes:
    """Names to integers in order of first appearance.

    Here and below an error says what is wrong; the caller, who knows the row, adds where:
    writing the place down beforehand would cost more than all the checks.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.code: dict[str, int] = {}

    def __call__(self, name: object) -> int:
        """The code of a name, a new one if it is new."""
        known = self.code.get(name) if type(name) is str else None
        if known is not None:
            return known
        if not isinstance(name, str):
            raise DataError(
                f"{self.kind} is {name!r}, not text; "
                "give names as str, or integer codes to Comparisons.from_arrays"
            )
        if not name.strip():
            raise DataError(f"{self.kind} has an empty name ({name!r}); name it or drop the row")
        if len(name) > _LONGEST_NAME:
            raise DataError(
                f"{self.kind} has a name of {len(name):,} characters ({name[:40]!r}…); "
                f"names have at most {_LONGEST_NAME:,}: give an identifier, not the content"
            )
        if not name.isascii() and _UNPAIRED.search(name):
            raise DataError(
                f"{self.kind} {name!r} has an unpaired surrogate (half a character); rename it"
            )
        return self.code.setdefault(str(name), len(self.code))

    @property
    def names(self) -> tuple[str, ...]:
        """The names in the order of their codes."""
        return tuple(self.code)


class RawCodes(dict[Any, int]):
    """Codes of names as a file has them, text or numbers: `codes[raw]` adds what is new.

    A dict with `__missing__`, because `map(codes.__getitem__, column)` then codes a
    column without a step of Python a row. `renamed` names are coded as their new ones.
    """

    def __init__(self, kind: str, renamed: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.kind = kind
        self.renamed = dict(renamed or {})
        self.codes = Codes(kind)

    def __missing__(self, raw: object) -> int:
        name = as_text(raw, self.kind)
        code = self[raw] = self.codes(self.renamed.get(name, name))
        return code

    def of_column(self, column: Iterable[Any], n: int) -> NDArray[np.int32]:
        """The codes of a column of `n` names."""
        return np.fromiter(map(self.__getitem__, column), dtype=np.int32, count=n)

    @property
    def names(self) -> tuple[str, ...]:
        """The names in the order of their codes."""
        return self.codes.names


class RaterCodes(RawCodes):
    """The same for raters: None and blank text are no rater, code −1."""

    def of_column(self, column: Iterable[Any] | None, n: int) -> NDArray[np.int32]:
        """The codes of a column of `n` raters; None: no rater is named."""
        return np.full(n, -1, dtype=np.int32) if column is None else super().of_column(column, n)

    def __missing__(self, raw: object) -> int:
        if raw is None or (isinstance(raw, str) and not raw.strip()):
            self[raw] = -1
            return -1
        return super().__missing__(raw)


def as_text(raw: object, kind: str = "name") -> str:
    """A name as text, or a refusal of what cannot be one."""
    if isinstance(raw, (str, int, float)) and not isinstance(raw, bool):
        return name_text(raw)
    raise DataError(f"{kind} is {raw!r}, not a name; give text or a number")


def checked_weight(weight: object) -> float:
    """A weight as a number within the bounds."""
    # Comparisons with NaN are false, so one chain catches NaN as well.
    if isinstance(weight, (float, int, np.number)) and LEAST_WEIGHT <= weight <= MOST_WEIGHT:
        return float(weight)
    raise DataError(f"weight is {brief(weight)}; {WEIGHT_BOUNDS} (drop a row of weight 0)")


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
        "rater": rater, "left": left, "right": right, "outcome": _CODE[record.outcome],
        "weight": checked_weight(record.weight),
        "time_s": nan if record.time_s is None else record.time_s,
        "at": nan if record.at is None else record.at,
        "version": nan if record.version is None else record.version,
        "slate": record.slate is not None,
    }  # fmt: skip
    # Rare, and a column that stays empty costs nothing.
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
