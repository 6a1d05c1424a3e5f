"""A data set: names in codes, answers as columns, comparisons as arrays of weighted wins.

`DatasetBuilder` gathers the answers of any number of files in coded columns: what was read, what
was skipped and why. Records of one answer are known by their key, and the newest of them counts.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from array import array
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from math import inf, nan
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bbq_plugin.data.records import (
    AGAINST_ITSELF,
    GOLD,
    LEAST_WEIGHT,
    MOST_WEIGHT,
    NO_ANSWER,
    NO_WINNER,
    OUTCOMES,
    SHOWN_ORDER,
    WEIGHT_BOUNDS,
    Batch,
    Comparison,
    FullExport,
    Note,
    Skipped,
    Source,
)
from bbq_plugin.data.repeated_answers import Repeats, merged_weights, repeats_of
from bbq_plugin.errors import DataError, FormatError, UsageError, did_you_mean
from bbq_plugin.plugins import key_tags
from bbq_plugin.text import (
    MOST_HTML_ROWS,
    brief,
    counted,
    html_notes,
    html_table,
    listed,
    name_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from bbq_plugin.data.records import Record
    from bbq_plugin.data.triples import Triples

    Columns = dict[str, NDArray[Any]]
    Mask = NDArray[np.bool_]


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


# Indices into OUTCOMES; what is not below TIE is a tie of some kind.
LEFT, RIGHT, TIE, BOTH_BAD = range(4)

# One person may click left all day; when so many never do anything else, the
# file puts the winner first and the sides were not recorded.
_ONE_SIDED_RATERS = 5

_KINDS = {
    "rater": "i", "left": "i", "right": "i", "outcome": "b", "key": "q", "weight": "d",
    "time_s": "d", "at": "d", "version": "d", "slate": "b", "part": "i", "gold": "b",
    "kept": "b",
}  # fmt: skip

#: Tags with a column of their own.
OWN_TAGS = frozenset({GOLD, SHOWN_ORDER})

_USUAL: dict[str, Any] = {"weight": 1.0, "time_s": nan, "at": nan, "version": nan}


class AnswerColumns:
    """Rows are added one by one or many at once; what is not given has its usual value."""

    def __init__(self) -> None:
        self.n = 0
        self._columns = {name: array(kind) for name, kind in _KINDS.items()}

    def __len__(self) -> int:
        return self.n

    def append(self, answer: Mapping[str, Any]) -> None:
        """Add one answer."""
        for name, value in answer.items():
            column = self._columns[name]
            if len(column) < self.n:
                self._pad(name)
            column.append(value)
        self.n += 1

    def extend(self, n: int, **given: NDArray[Any]) -> None:
        """Add `n` answers."""
        for name, values in given.items():
            column = self._columns[name]
            if len(column) < self.n:
                self._pad(name)
            column.frombytes(values.data.cast("B"))
        self.n += n

    def arrays(self) -> Columns:
        """All columns, as long as each other."""
        for name in self._columns:
            self._pad(name)
        return {
            name: np.frombuffer(column, dtype=np.dtype(column.typecode))
            for name, column in self._columns.items()
        }

    def _pad(self, name: str) -> None:
        column = self._columns[name]
        column.extend(array(column.typecode, [_USUAL.get(name, 0)]) * (self.n - len(column)))


#: A tag with this many values of which most come once is an identifier: no way to group answers.
_MANY_VALUES = 10_000


def identifies(n_values: int, n_rows: int) -> bool:
    """Whether a tag of so many values in so many answers identifies them."""
    return n_values >= _MANY_VALUES and 2 * n_values > n_rows


class TagColumns:
    """The values of every tag, in codes; -1 where an answer has none."""

    def __init__(self) -> None:
        self._columns: dict[str, tuple[_TagCodes, array[int]]] = {}
        self._dropped: set[str] = set()
        #: Tags that are kept however many values they have.
        self.kept: frozenset[str] = frozenset()

    def append(self, row: int, tags: Mapping[str, str]) -> None:
        """Take the tags of answer number ``row``."""
        for name, value in tags.items():
            if name not in self._dropped and name not in OWN_TAGS:
                codes, column = self._padded(name, row)
                column.append(codes[value])
                self._check(name, row)

    def extend(self, row: int, tags: Mapping[str, Sequence[Any]], good: Mask) -> None:
        """Take those of the ``good`` ones of a batch, the first of which becomes number ``row``."""
        for name, values in tags.items():
            if name not in self._dropped:
                codes, column = self._padded(name, row)
                found = np.fromiter(map(codes.__getitem__, values), np.int32, len(values))
                column.frombytes(found[good].tobytes())
                self._check(name, row)

    def _padded(self, name: str, row: int) -> tuple[_TagCodes, array[int]]:
        if name not in self._columns:
            self._columns[name] = _TagCodes(), array("i")
        codes, column = self._columns[name]
        if len(column) < row:
            column.extend(array("i", [-1]) * (row - len(column)))
        return codes, column

    def _check(self, name: str, row: int) -> None:
        # A difference is a number, and names no answer.
        named = name in self.kept or name.endswith("_diff")
        if not named and identifies(self._columns[name][0].n, row):
            del self._columns[name]
            self._dropped.add(name)

    def arrays(self, n: int) -> dict[str, NDArray[np.int32]]:
        """All columns, as long as there are answers."""
        found = {}
        for name, (_, column) in self._columns.items():
            column.extend(array("i", [-1]) * (n - len(column)))
            # A copy: an array that is looked at cannot grow any more.
            found[name] = np.array(column, dtype=np.int32)
        return found

    def values(self) -> dict[str, tuple[str, ...]]:
        """The values of every tag, by code."""
        return {name: codes.names() for name, (codes, _) in self._columns.items()}


class _TagCodes(dict[Any, int]):
    """The codes of a tag's values as a file has them, text or numbers; -1 for none."""

    def __init__(self) -> None:
        super().__init__({None: -1})
        self.n = 0

    def __missing__(self, raw: str | float) -> int:
        text = name_text(raw)
        if text == raw:
            self[raw], self.n = self.n, self.n + 1
        else:
            self[raw] = self[text]
        return self[raw]

    def names(self) -> tuple[str, ...]:
        """The values as text, by code; a number that is text elsewhere is one value."""
        by_code = {code: name_text(raw) for raw, code in self.items() if code >= 0}
        return tuple(by_code[code] for code in range(self.n))


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """Columns beside the wins of `Comparisons`; None where nothing is known."""

    #: 1: the winner stood on the left, -1: on the right, 0: not side by side, a tie, or not known.
    side: NDArray[np.int8] | None
    #: How long the answer took.
    time_s: NDArray[np.float32] | None
    #: The place of the answer in time; None: the rows stand in order already.
    order: NDArray[np.int32] | None
    #: Whether that order is one of recorded times, and not only that of the rows.
    dated: bool
    #: 1: the right answer to a known question, -1: another one, 0: the question is not a known one.
    gold: NDArray[np.int8] | None
    #: 1: a ranking in the very order in which its items were shown, -1: in another one; on one of
    #: its wins, 0 on all others.
    kept: NDArray[np.int8] | None
    #: 0: a win, 1 and 2: the two halves of a tie; None: there are no ties.
    half: NDArray[np.int8] | None
    #: Of a pair of a ranking or choice: a number of its slate, one for each of a rater's; 0: shown
    #: as a pair. None: all were.
    slate: NDArray[np.int64] | None = None
    #: When the answer was given, in seconds since 1970; NaN where it is not known.
    at: NDArray[np.float64] | None = None
    #: A number of its identifier, 0 for none; None: no two rows have the same.
    key: NDArray[np.int64] | None = None
    #: Whether times, or at least the rows, tell in which order a rater answered.
    ordered: bool = True


def slate_of_row(
    data: Comparisons, named: NDArray[np.int64], rows: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The slates of these rows, numbered as they come; ``named`` is the column of `Answers`."""
    number, rater = named[rows], data.rater[rows].astype(np.int64)
    order = np.lexsort((rater, number))
    differs = (np.diff(number[order]) != 0) | (np.diff(rater[order]) != 0)
    new = np.concatenate(([True], differs))
    group = np.empty(rows.size, dtype=np.int64)
    group[order] = np.cumsum(new) - 1
    # Names are hashed; what is summed later must not depend on their order.
    first = np.unique(group, return_index=True)[1]
    place = np.empty(first.size, dtype=np.int64)
    place[np.argsort(first, kind="stable")] = np.arange(first.size)
    return place[group]


def shown_as_pairs(data: Comparisons, named: NDArray[np.int64]) -> Mask:
    """Which rows are of no slate, or alone in theirs: a choice between two is a pair."""
    found: Mask = named == 0
    rows = np.flatnonzero(~found)
    if rows.size:
        slate = slate_of_row(data, named, rows)
        found[rows] = np.bincount(slate)[slate] == 1
    return found


def _answers_of(
    columns: Columns, row: NDArray[np.int64] | None, half: NDArray[np.int8] | None, *, sides: bool,
    keyed: bool,
) -> Answers:  # fmt: skip
    """From the columns of the answers; `row` is the answer of each win, if some have two."""
    outcome, time_s, gold, kept = (columns[name] for name in ("outcome", "time_s", "gold", "kept"))
    order, dated = _order(columns["at"])
    timed = not np.isnan(time_s).all()
    return Answers(
        side=_by_win(_side(outcome, columns["slate"]), row) if sides else None,
        time_s=_by_win(time_s.astype(np.float32), row) if timed else None,
        order=None if order is None else _by_win(order, row),
        dated=dated,
        gold=_by_win(_right(outcome, gold), row) if gold.any() else None,
        kept=_by_win(kept, row) if kept.any() else None,
        half=half,
        slate=_by_win(_slate(columns), row) if columns["slate"].any() else None,
        at=None if np.isnan(columns["at"]).all() else _by_win(columns["at"], row),
        key=_by_win(columns["key"], row) if keyed else None,
    )


def _slate(columns: Columns) -> NDArray[np.int64]:
    """The pairs of a slate have its name as their key; a store has codes for slates instead."""
    number = columns.get("key", columns["slate"])
    return np.where(columns["slate"] != 0, number, 0).astype(np.int64)


def _by_win(column: NDArray[Any], row: NDArray[np.int64] | None) -> NDArray[Any]:
    return column if row is None else column[row]


def _side(outcome: NDArray[Any], slate: NDArray[Any]) -> NDArray[np.int8]:
    side = np.zeros(outcome.size, dtype=np.int8)
    side[outcome == LEFT] = 1
    side[outcome == RIGHT] = -1
    side[slate != 0] = 0
    return side


def _right(outcome: NDArray[Any], gold: NDArray[Any]) -> NDArray[np.int8]:
    right = np.where(gold == outcome + 1, 1, -1)
    return np.where(gold > 0, right, 0).astype(np.int8)


def _order(at: NDArray[np.float64]) -> tuple[NDArray[np.int32] | None, bool]:
    """Places in time, and whether times are known; rows without a time keep theirs."""
    if np.isnan(at[:1]).all() and np.isnan(at).all():
        return None, False
    if (at[1:] >= at[:-1]).all():
        return None, True
    place = np.empty(at.size, dtype=np.int32)
    place[np.argsort(at, kind="stable")] = np.arange(at.size, dtype=np.int32)
    return place, not np.isnan(at).any()


def left_rate(
    rater: NDArray[np.int32], went_left: NDArray[Any], n_raters: int
) -> NDArray[np.float64]:
    """Share of each rater's decided answers that went left, NaN for those without any."""
    n = np.bincount(rater, minlength=n_raters)
    lefts = np.bincount(rater, weights=went_left, minlength=n_raters)
    rate = np.full(n_raters, np.nan)
    np.divide(lefts, n, out=rate, where=n > 0)
    return rate


def _sides_known(rater: NDArray[np.int32], went_left: NDArray[np.bool_], n_raters: int) -> bool:
    """Whether these decided answers tell sides, and not only that the winner is named first."""
    if not rater.size:
        return False
    if went_left.min() != went_left.max():
        return True
    # Without names nothing tells one stubborn person from a file that puts the winner first.
    return n_raters > 0 and np.unique(rater).size < _ONE_SIDED_RATERS


def median_time_s(
    rater: NDArray[np.int32], time_s: NDArray[np.float64], n_raters: int
) -> NDArray[np.float64] | None:
    """Median time of each rater, NaN for those without any; None without any time at all."""
    if not n_raters or not rater.size:
        return None
    time_s = time_s[np.lexsort((time_s, rater))]
    n = np.bincount(rater, minlength=n_raters)
    start = np.cumsum(n) - n
    medians = np.full(n_raters, np.nan)
    known = n > 0
    low, high = start + (n - 1) // 2, start + n // 2
    medians[known] = (time_s[low[known]] + time_s[high[known]]) / 2
    return medians


def wins_of(
    columns: Columns,
    keep: Mask,
    items: tuple[str, ...],
    raters: tuple[str, ...],
    tags: Mapping[str, NDArray[np.int32]] = MappingProxyType({}),
    *,
    keyed: bool = False,
) -> dict[str, Any]:
    """The arrays and counts of `Comparisons` from those answers that are kept.

    ``keyed``: some keys come twice, also of answers that are kept.
    """
    if not keep.all():
        columns = {name: column[keep] for name, column in columns.items()}
        tags = {name: column[keep] for name, column in tags.items()}
    (rater,), raters = _used(raters, columns["rater"])
    (left, right), items = _used(items, columns["left"], columns["right"])
    outcome, weight = columns["outcome"], columns["weight"]
    decided, shown = outcome < TIE, columns["slate"] == 0
    sided = decided & shown
    went_left = outcome[sided] != RIGHT
    known = _sides_known(rater[sided], went_left, len(raters))
    timed = ~np.isnan(columns["time_s"])
    answers: dict[str, Any] = {
        "n_comparisons": int(outcome.size),
        "n_ties": int((outcome == TIE).sum()),
        "n_both_bad": int((outcome == BOTH_BAD).sum()),
        "both_bad_rate": _both_bad_rate(left, right, outcome == BOTH_BAD, len(items)),
        "n_sided": int(went_left.size) if known else 0,
        "n_left": int(went_left.sum()) if known else 0,
        "left_rate": left_rate(rater[sided], went_left, len(raters)) if known and raters else None,
        "left_excess": _left_excess(left[shown], right[shown], len(items)) if known else None,
        "median_time_s": median_time_s(rater[timed], columns["time_s"][timed], len(raters)),
        "items": items,
        "raters": raters,
        "has_raters": len(raters) > 0,
    }
    first = outcome != RIGHT
    row = half = None
    if not decided.all():
        # A tie is two half wins, one each way, next to each other.
        row = np.repeat(np.arange(outcome.size), np.where(decided, 1, 2))
        again = np.zeros(row.size, dtype=np.bool_)
        again[1:] = row[1:] == row[:-1]
        weight = np.where(decided, weight, weight / 2)[row]
        rater, left, right, first = rater[row], left[row], right[row], first[row] & ~again
        half = np.where(decided[row], 0, 1 + again).astype(np.int8)
    if raters:
        answers["answers"] = _answers_of(columns, row, half, sides=known, keyed=keyed)
    elif columns["slate"].any() or half is not None:
        # What rankings and ties they were is worth knowing without their raters too.
        slate = _by_win(_slate(columns), row) if columns["slate"].any() else None
        answers["answers"] = Answers(None, None, None, False, None, None, half, slate)  # noqa: FBT003
    return answers | {
        "tags": MappingProxyType({name: _by_win(column, row) for name, column in tags.items()}),
        "rater": rater,
        "winner": np.where(first, left, right),
        "loser": np.where(first, right, left),
        "weight": weight,
        "winner_first": first,
    }


def _left_excess(left: NDArray[Any], right: NDArray[Any], n_items: int) -> NDArray[np.int64]:
    excess = np.bincount(left, minlength=n_items) - np.bincount(right, minlength=n_items)
    return np.asarray(excess, dtype=np.int64)


def _both_bad_rate(
    left: NDArray[Any], right: NDArray[Any], both_bad: Mask, n_items: int
) -> NDArray[np.float64] | None:
    if not both_bad.any():
        return None
    n = np.bincount(left, minlength=n_items) + np.bincount(right, minlength=n_items)
    bad = np.bincount(left[both_bad], minlength=n_items)
    bad += np.bincount(right[both_bad], minlength=n_items)
    # Every item that is left here has been compared.
    return np.asarray(bad / n, dtype=np.float64)


def _used(
    names: tuple[str, ...], *columns: NDArray[Any]
) -> tuple[list[NDArray[Any]], tuple[str, ...]]:
    """The codes renumbered over the names that occur; code −1 (no rater) becomes 0."""
    seen = np.zeros(len(names) + 1, dtype=np.bool_)
    for column in columns:
        seen[column] = True
    seen[-1] = False
    code = np.cumsum(seen, dtype=np.int32) - np.int32(1)
    code[-1] = 0
    used = tuple(name for name, is_used in zip(names, seen.tolist(), strict=False) if is_used)
    return [code[column] for column in columns], used


# -- which of several answers under one key counts: the newest, unless it was taken back


# Codes without names must be dense. This much slack is a matter of taste; codes
# beyond it are identifiers that were never coded, and would make empty items.
_MOST_SPARE_CODES = 1_000_000
_MANY_ROWS = 1 << 20


@dataclass(frozen=True, eq=False, repr=False)
class Comparisons:
    """Coded comparisons: one row per win, names interned once.

    Build it with `from_records`, `from_arrays`, `from_frame` or `from_comparisons`. Row i says
    that `raters[rater[i]]` ranked `items[winner[i]]` above `items[loser[i]]`
    with weight `weight[i]`. Without raters (`has_raters` is False) `raters` is
    empty and every `rater[i]` is 0. The arrays are not copied from the caller's
    where they already have the right type: do not write to them.
    """

    rater: NDArray[np.int32]
    winner: NDArray[np.int32]
    loser: NDArray[np.int32]
    weight: NDArray[np.float64]
    items: tuple[str, ...]
    raters: tuple[str, ...]
    has_raters: bool
    #: What people answered; a tie counts once here and has two rows above.
    n_comparisons: int
    n_ties: int = 0
    n_both_bad: int = 0
    #: Share of an item's comparisons that were answered both_bad; None without any such answer.
    both_bad_rate: NDArray[np.float64] | None = None
    #: The first rows left out; `skip_reasons` counts all of them.
    skipped: tuple[Skipped, ...] = ()
    skip_reasons: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    #: Decided answers of which the side is known, and how many of these went left. When all of them
    #: went to one side (with raters: of five or more), the sides count as unknown and both are 0.
    n_sided: int = 0
    n_left: int = 0
    #: Share of a rater's decided answers that went left; NaN without any, None if no side is known.
    left_rate: NDArray[np.float64] | None = None
    #: How much more often an item stood left than right; None if no side is known.
    left_excess: NDArray[np.int64] | None = None
    #: Median answering time of a rater in seconds; NaN without any, None if no time is known.
    median_time_s: NDArray[np.float64] | None = None
    #: Whether the answer names the winner first, on the left; None where rows are wins as such.
    winner_first: NDArray[np.bool_] | None = None
    #: What the wins do not say of the answers they came from; None where nothing is known.
    answers: Answers | None = None
    #: Answers left out because the same key came again, newer or in a later file, perhaps to
    #: take the answer back.
    n_duplicates: int = 0
    #: Answers of the raters that were to be dropped.
    n_dropped: int = 0
    #: Answers that did not match `where`, or have no value of the tag they are split by.
    n_filtered: int = 0
    #: Tags by name: a code of each row's value, -1 without one. Only those of few values are kept.
    tags: Mapping[str, NDArray[np.int32]] = field(default_factory=lambda: MappingProxyType({}))
    #: The values of these tags, by code, where they are known.
    tag_values: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    #: The files that these came from.
    sources: tuple[Source, ...] = ()
    #: What the adapters have to say about the files.
    warnings: tuple[str, ...] = ()

    @classmethod
    def from_records(
        cls, records: Iterable[tuple[str | None, str, str] | tuple[str | None, str, str, float]]
    ) -> Self:
        """Build from (rater, winner, loser) or (rater, winner, loser, weight) rows.

        Errors name the row by its index, counted from 0. A weight is from
        1e-6 to 1e6; a row that should not count is dropped, not given weight 0.
        """
        items, raters = Codes("item"), Codes("rater")
        rater, winner, loser, weight = array("i"), array("i"), array("i"), array("d")
        rated: bool | None = None
        for i, record in enumerate(records):
            try:
                who, won, lost, w = _checked_record(record)
                winner.append(items(won))
                loser.append(items(lost))
                _check_distinct(winner[-1], loser[-1], won)
                rated = _rated_as_before(who, rated=rated, what="row")
                rater.append(raters(who) if rated else 0)
                weight.append(w)
            except DataError as error:
                raise DataError(f"row {i} (counted from 0): {error}") from None
        if rated is None:
            raise DataError("there are no comparisons; give at least one row that is not skipped")
        return cls(
            rater=np.frombuffer(rater, dtype=np.int32),
            winner=np.frombuffer(winner, dtype=np.int32),
            loser=np.frombuffer(loser, dtype=np.int32),
            weight=np.frombuffer(weight, dtype=np.float64),
            items=items.names,
            raters=raters.names,
            has_raters=rated,
            n_comparisons=len(weight),
        )

    @classmethod
    def from_comparisons(
        cls, comparisons: Iterable[Record], skipped: Iterable[Skipped] = ()
    ) -> Self:
        """Build from `Comparison` records, as the adapters yield them.

        `Skipped` records may be mixed in or given apart; they are counted and
        never fitted. Records are taken as they come: two with the same key are
        two answers (upsert by key is the store's business).
        """
        builder = DatasetBuilder(merge=False)
        builder.begin("")
        rated: bool | None = None
        for left_out in skipped:
            builder.add(left_out)
        for i, record in enumerate(comparisons):
            try:
                if isinstance(record, Comparison):
                    rated = _rated_as_before(record.rater, rated=rated, what="record")
                    _check_distinct(record.left, record.right, record.left)
                builder.add(record)
            except DataError as error:
                key = f", key {record.key!r}" if isinstance(record, Comparison) else ""
                raise DataError(f"record {i} (counted from 0{key}): {error}") from None
        return cls(**{**builder.parts()[""], "sources": ()})

    @classmethod
    def from_arrays(
        cls,
        rater: ArrayLike | None,
        winner: ArrayLike,
        loser: ArrayLike,
        weight: ArrayLike | None = None,
        *,
        raters: Sequence[str] | None = None,
        items: Sequence[str] | None = None,
    ) -> Self:
        """Build from integer codes, for millions of rows: vectorised, and copied only to convert.

        `raters[rater[i]]` ranked `items[winner[i]]` above `items[loser[i]]`.
        Names that are not given are "0", "1", …; `rater=None` means that no rater
        is known. Errors name the row by its index, counted from 0.
        """
        winner = _codes_1d(winner, "winner")
        loser = _codes_1d(loser, "loser", like=winner)
        n = winner.size
        if n == 0:
            raise DataError("there are no comparisons; give at least one row")
        item_names = _names_of(items, "item", winner, loser)
        rater_names: tuple[str, ...] = ()
        rater_codes: NDArray[np.int32] = np.zeros(n, dtype=np.int32)
        if rater is not None:
            given = _codes_1d(rater, "rater", like=winner)
            rater_names = _names_of(raters, "rater", given)
            rater_codes = _int32(given)
        elif raters:
            raise DataError("raters are named but rater is None; give both or neither")
        winner32, loser32 = _int32(winner), _int32(loser)
        same = winner32 == loser32
        if same.any():
            i = int(same.argmax())
            with _at_row(i):
                _check_distinct(0, 0, item_names[int(winner32[i])])
        return cls(
            rater=rater_codes,
            winner=winner32,
            loser=loser32,
            weight=_weights_1d(weight, n),
            items=item_names,
            raters=rater_names,
            has_raters=rater is not None,
            n_comparisons=n,
        )

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        rater: str | None = None,
        left: str | None = None,
        right: str | None = None,
        outcome: str | None = None,
        winner: str | None = None,
        loser: str | None = None,
        weight: str | None = None,
        at: str | None = None,
        time_s: str | None = None,
        tags: Sequence[str] = (),
        values: Mapping[Any, str] | None = None,
    ) -> Self:
        """Build from the named columns of a data frame: pandas, Polars, Arrow, DuckDB or others.

        Give `left`, `right` and `outcome`, or `winner` and `loser`. An outcome is `left`, `right`,
        `tie`, `both_bad` (or `model_a`, `model_b`), or the name of the item that won; `values` says
        what other values mean, such as {1: "left", 2: "right", 0: "tie"}. A value that is not known
        is an error that names the row; a row without an item, an outcome or a weight is skipped and
        counted. `at` holds moments and `time_s` durations, as such or in seconds.
        """
        # Here and not above: few programs need it.
        from bbq_plugin.data.frames import wins_of_frame  # noqa: PLC0415

        roles = {
            "rater": rater, "left": left, "right": right, "outcome": outcome, "winner": winner,
            "loser": loser, "weight": weight, "at": at, "time_s": time_s,
        }  # fmt: skip
        return cls(**wins_of_frame(frame, roles, tags, values))

    @property
    def n_items(self) -> int:
        """How many items there are names for."""
        return len(self.items)

    @property
    def n_raters(self) -> int:
        """How many raters there are names for; 0 when raters are unknown."""
        return len(self.raters)

    @property
    def n_skipped(self) -> int:
        """How many rows were left out, kept in `skipped` or not."""
        return sum(self.skip_reasons.values())

    @cached_property
    def triples(self) -> Triples:
        """Distinct (rater, winner, loser) with summed weights, sorted by rater."""
        # Here and not above, because numba takes longer to import than most files to read.
        from bbq_plugin.data.triples import aggregate  # noqa: PLC0415

        columns = self.rater, self.winner, self.loser, self.weight
        return aggregate(*columns, max(1, self.n_raters), self.n_items, self.raters)

    @cached_property
    def pooled(self) -> Triples:
        """The same as if one rater had made all comparisons: what is known of the items alone."""
        return self.triples.without_raters()

    @cached_property
    def repeats(self) -> Repeats:
        """Which rows are one answer: `repeats.answer` has the answer of each row."""
        return repeats_of(self)

    def merged(self) -> Comparisons:
        """The same with each answer counting once, however many rows it has."""
        if not self.repeats or self.repeats.merged:
            return self
        # What was found stays known; what was computed from the weights does not.
        found = replace(self, weight=merged_weights(self, self.repeats))
        found.__dict__["repeats"] = replace(self.repeats, merged=True)
        return found

    @cached_property
    def once(self) -> Comparisons:
        """The same with no answer counting more than once: what is learnt of raters and camps.

        An answer of weight 7.3 is no seven answers that agree. Rows that are wins as such, without
        single answers, are counted by their weights; and so are rows whose weights are whole
        numbers, the counts of equal answers.
        """
        found = self.merged()
        if self.answers is None:
            return found
        most = 1.0 if self.answers.half is None else np.where(self.answers.half == 0, 1.0, 0.5)
        times = found.weight / most
        if np.all((times <= 1.0) | (times == np.floor(times))):
            return found
        less = replace(found, weight=np.minimum(found.weight, most))
        less.__dict__["repeats"] = found.repeats
        return less

    @cached_property
    def decided(self) -> Triples:
        """The same without the answers that were ties."""
        from bbq_plugin.data.triples import aggregate  # noqa: PLC0415

        if self.answers is None or self.answers.half is None:
            return self.triples
        rows = self.answers.half == 0
        columns = (self.rater[rows], self.winner[rows], self.loser[rows], self.weight[rows])
        return aggregate(*columns, max(1, self.n_raters), self.n_items, self.raters)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the wins by name, whatever the order of rows and the names of files.

        The halves of ties are told from half wins.
        """
        item_order = sorted(range(self.n_items), key=self.items.__getitem__)
        rater_order = sorted(range(self.n_raters), key=self.raters.__getitem__)
        item_rank = np.empty(self.n_items, "<i4")
        item_rank[item_order] = np.arange(self.n_items)
        rater_rank = np.zeros(max(1, self.n_raters), "<i4")
        rater_rank[rater_order] = np.arange(self.n_raters)
        ranks = rater_rank[self.rater], item_rank[self.winner], item_rank[self.loser]
        rows: tuple[NDArray[Any], ...] = (*ranks, self.weight.astype("<f8"))
        if self.answers is not None and self.answers.half is not None and self.answers.half.any():
            rows = (*rows, self.answers.half > 0)
        order = np.lexsort(rows[::-1])
        rated = b"rated" if self.has_raters else b"unrated"
        digest = hashlib.sha256(b"bbq.comparisons/1\0" + rated)
        for names in (self.items, self.raters):
            encoded = [name.encode("utf-8", "surrogatepass") for name in sorted(names)]
            digest.update(b"\0".join(b"%d %s" % (len(t), t) for t in encoded) + b"\n")
        for column in rows:
            digest.update(column[order].tobytes())
        return digest.hexdigest()

    def _repr_html_(self) -> str:
        facts = [
            ("comparisons", self.n_comparisons),
            ("items", self.n_items),
            ("raters", self.n_raters if self.has_raters else None),
            ("ties", self.n_ties),
            ("both bad", self.n_both_bad),
            ("skipped rows", self.n_skipped),
            ("duplicates", self.n_duplicates),
        ]
        rows = [(name, "not known" if n is None else f"{n:,}") for name, n in facts]
        # Also below one another: how often each reason to skip a row occurred.
        rows += [(f"skipped: {why}", f"{n:,}") for why, n in self.skip_reasons.items()]
        shown = rows[:MOST_HTML_ROWS]
        table = html_table("Comparisons", ("", "n"), shown, len(rows), words=("",))
        return table + html_notes(self.warnings)

    def __repr__(self) -> str:
        raters = f"{self.n_raters} raters" if self.has_raters else "no raters"
        return f"<Comparisons: {self.n_comparisons} of {self.n_items} items by {raters}>"


def _checked_record(record: Sequence[Any]) -> tuple[Any, Any, Any, float]:
    if isinstance(record, str) or len(record) not in (3, 4):
        raise DataError(
            f"is {record!r}; expected (rater, winner, loser) or (rater, winner, loser, weight)"
        )
    weight = checked_weight(record[3]) if len(record) == 4 else 1.0
    return record[0], record[1], record[2], weight


def _rated_as_before(rater: object, *, rated: bool | None, what: str) -> bool:
    """Whether there is a rater; either all rows have one or none has."""
    now = rater is not None
    if rated not in (None, now):
        this, those = ("a rater", "none") if now else ("no rater", "one")
        raise DataError(
            f"has {this} ({rater!r}) where the {what}s before have {those}; "
            f"give a rater on every {what}, or None on every {what}"
        )
    return now


@contextmanager
def _at_row(i: int, what: str = "row") -> Iterator[None]:
    """Add the place to an error, by the index that the caller knows."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{what} {i} (counted from 0): {error}") from None


def _check_distinct(a: object, b: object, name: str) -> None:
    if a == b:
        raise DataError(f"item {name!r} is compared with itself; drop the row")


def _codes_1d(codes: ArrayLike, what: str, like: NDArray[Any] | None = None) -> NDArray[Any]:
    found = np.asarray(codes)
    if found.ndim != 1:
        raise DataError(f"{what} has {found.ndim} dimensions; give a flat array of integer codes")
    if found.dtype.kind not in "iu" and found.size:
        raise DataError(
            f"{what} has type {found.dtype}, not integers; code names first "
            "(numpy.unique with return_inverse) or use Comparisons.from_records"
        )
    if like is not None and found.size != like.size:
        raise DataError(f"{what} has {found.size} rows, winner has {like.size}; give as many")
    return found


def _names_of(given: Sequence[str] | None, kind: str, *columns: NDArray[Any]) -> tuple[str, ...]:
    """The names of one kind, after checking that every code has one."""
    highest = max(int(codes.max()) for codes in columns)
    if given is None:
        limit = 2 * columns[0].size + _MOST_SPARE_CODES
        remedy = "codes run from 0 without large gaps (numpy.unique with return_inverse makes them)"
    else:
        limit = len(given)
        remedy = f"there are {limit} names, so codes run from 0 to {limit - 1}"
    if highest >= limit or min(int(codes.min()) for codes in columns) < 0:
        for codes in columns:
            wrong = (codes < 0) | (codes >= limit)
            if wrong.any():
                i = int(wrong.argmax())
                with _at_row(i):
                    raise DataError(f"{kind} code is {int(codes[i])}; {remedy}")
    if given is None:
        return tuple(map(str, range(highest + 1)))
    # Through the same door as named rows, so that an empty or doubled name is refused here too.
    codes_of = Codes(kind)
    for i, name in enumerate(given):
        with _at_row(i, f"{kind} name"):
            if codes_of(name) != i:
                raise DataError(f"{name!r} is there already; names are unique")
    return codes_of.names


def _int32(codes: NDArray[Any]) -> NDArray[np.int32]:
    if codes.dtype == np.int32:
        return np.ascontiguousarray(codes)
    found = np.empty(codes.size, dtype=np.int32)
    _filled(found, codes)
    return found


def _filled(array: NDArray[Any], source: NDArray[Any] | float) -> None:
    """Fill an array, a large one on all cores: most of it is waiting for fresh memory."""

    def fill(first: int, last: int) -> None:
        array[first:last] = source[first:last] if isinstance(source, np.ndarray) else source

    if array.size < _MANY_ROWS:
        fill(0, array.size)
        return
    from bbq_plugin.data.triples import run_chunks  # noqa: PLC0415 (numba loads slowly)

    stretch = _MANY_ROWS // 4
    run_chunks(fill, [(first, first + stretch) for first in range(0, array.size, stretch)])


def _weights_1d(weight: ArrayLike | None, n: int) -> NDArray[np.float64]:
    if weight is None:
        ones = np.empty(n)
        _filled(ones, 1.0)
        return ones
    try:
        found = np.ascontiguousarray(weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"weight is not numeric ({error}); give one number a row") from None
    if found.shape != (n,):
        raise DataError(f"weight has shape {found.shape}; give one number a row, {n} in all")
    # NaN goes through min(), so two passes without temporaries decide the good case.
    if not (found.min() >= LEAST_WEIGHT and found.max() <= MOST_WEIGHT):
        i = int(np.argmin((found >= LEAST_WEIGHT) & (found <= MOST_WEIGHT)))
        with _at_row(i):
            checked_weight(float(found[i]))
    return found


#: Why a row was left out.
UNRATED = "no rater in this row, while others have one"
MERGED = "one item after renaming"

# Skipped rows are counted without limit but kept only so far: a file of ten
# million self pairs must not fill the memory with the same sentence.
SKIPPED_KEPT = 1000


class SkipLog:
    """Counts every skipped row and keeps the first ones."""

    def __init__(self) -> None:
        self.first: list[Skipped] = []
        self.reasons: Counter[str] = Counter()

    def add(self, record: Skipped) -> None:
        """Count one more."""
        self.reasons[record.reason] += 1
        if len(self.first) < SKIPPED_KEPT:
            self.first.append(record)


@dataclass
class FileLog:
    """What happened in one file."""

    name: str
    adapter: str
    why: str
    first_row: int
    #: Set apart from other files whose rows would have the same `file:line` as key.
    apart: int = 0
    n_skipped: int = 0
    n_answers: int = 0
    sha256: str = ""
    reasons: Counter[str] = field(default_factory=Counter)
    #: For a reason the first row with it, and what stands there.
    first: dict[str, str] = field(default_factory=dict)
    last_slate: str | None = None
    #: Whether the rows have ids of their own.
    has_ids: bool = False

    def skip(self, record: Skipped, *, strict: bool = False) -> None:
        """Count a row that was left out, or refuse it."""
        self.n_skipped += 1
        if record.expected:
            return
        self.reasons[record.reason] += 1
        if record.value is not None:
            self.first.setdefault(record.reason, f"{record.where}: {record.value}")
        if strict:
            raise _strict_error(record, self.name)

    def check(self, max_skipped: float) -> None:
        """Refuse a file of which too much was left out."""
        n = self.reasons.total()
        rows = n + self.n_answers
        # One row is no pattern: without this, a pilot of fifty answers could not have a gap.
        if n <= max(max_skipped * rows, max_skipped > 0):
            return
        raise TooManySkippedError(
            self.name, self.adapter, self.reasons, rows, max_skipped, self.first
        )


# What so many rows of one reason may mean about the mapping.
_SUSPICIONS = {
    AGAINST_ITSELF: "the names of the items may span two columns: compose them with "
    "--items a+b,c+d",
    NO_WINNER: "the column of choices may be another one",
    UNRATED: "the column of raters may be another one",
}
# A reason that more rows have than this is no gap here and there.
_MOST_GAPS = 0.3


class TooManySkippedError(FormatError):
    """More of a file was skipped than is allowed."""

    def __init__(
        self,
        file: str,
        adapter: str,
        reasons: Mapping[str, int],
        rows: int,
        allowed: float,
        first: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        n = sum(reasons.values())
        ordered = sorted(reasons.items(), key=lambda one: -one[1])
        most, times = ordered[0]
        named = "; ".join(f"{count:,} × {reason}" for reason, count in ordered[:3])
        problem = (
            f"{n:,} of {rows:,} rows ({n / rows:.2%}) were skipped, more than the {allowed:.2%} "
            f"allowed; most often ({times:,} ×): {most}"
        )
        if most in first:
            problem += f", first in {first[most]}"
        if len(ordered) > 1:
            problem += f" (in all: {named})"
        suspicion = _SUSPICIONS.get(most)
        wrong = most == AGAINST_ITSELF or times > _MOST_GAPS * rows
        # The first whole percent with which the check passes.
        percent = next(p for p in range(1, 101) if n <= p / 100 * rows)
        if wrong:
            remedy = suspicion or f"adapter {adapter!r} or its mapping may be the wrong one"
            remedy += f"; see what is in the file with: bbq inspect {shlex.quote(file)}"
        else:
            remedy = (
                f"if these rows are no answers, allow more (--max-skipped {percent}%, "
                f"in Python max_skipped={percent / 100})"
            )
        super().__init__(problem, file, remedy=remedy)
        self.args = (file, adapter, dict(reasons), rows, allowed, dict(first))
        #: What would let the file in, added to the command.
        self.more_words = () if wrong else (("--max-skipped", f"{percent}%"),)


# Rows that are there exactly twice are worth a word where nearly all of so many are.
_FEW_TWINS, _NEARLY_ALL = 20, 0.95


class DatasetBuilder:
    """Takes records and batches file by file; `parts` makes the arrays of them."""

    def __init__(
        self,
        *,
        strict: bool = False,
        merge: bool = True,
        where: Mapping[str, str] | None = None,
        by: str | None = None,
        rename: Mapping[str, str] | None = None,
        drop_raters: Iterable[str] = (),
    ) -> None:
        self.strict = strict
        self.merge = merge
        self.where = dict(where or {})
        self.by = by
        #: Whether all tags are needed, also of files that are read faster without.
        self.tagged = bool(self.where) or by is not None
        self.rename = dict(rename or {})
        self.drop_raters = tuple(drop_raters)
        self.items = RawCodes("item", self.rename)
        self.raters = RaterCodes("rater")
        self.values = RawCodes("tag")
        self.tags: Counter[str] = Counter()
        #: What to add where a tag that is asked for is not there.
        self.tags_remedy = ""
        self.log = SkipLog()
        self.notes: dict[str, None] = {}
        self.files: list[FileLog] = []
        self.unrated: list[tuple[int, str]] = []
        self.n_filtered = 0
        self.columns = AnswerColumns()
        self.tag_columns = TagColumns()
        self.retracted = Retractions()

    # -- rows in

    def begin(self, name: str, adapter: str = "", why: str = "") -> FileLog:
        """Start a file; what is added from now on is its."""
        base = PurePath(name).name
        clash = any(PurePath(file.name).name == base for file in self.files)
        apart = len(self.files) if clash else 0
        self.files.append(FileLog(name, adapter, why, len(self.columns), apart))
        return self.files[-1]

    def add(self, record: Record | Batch) -> None:
        """Take one record, or a batch of them."""
        if isinstance(record, Comparison):
            self._add_comparison(record)
        elif isinstance(record, Skipped):
            self._skip(record)
        elif isinstance(record, Batch):
            self._add_batch(record)
        elif isinstance(record, Note):
            self.notes[record.text] = None
        elif not isinstance(record, FullExport):
            raise DataError(f"is {record!r}; expected Comparison or Skipped")

    def _skip(self, record: Skipped) -> None:
        self.log.add(record)
        if record.key is not None:
            self._retract(record.key, record)
        self.files[-1].skip(record, strict=self.strict)

    def _add_comparison(self, record: Comparison) -> None:
        tags = record.tags
        if self.where or self.by is not None:
            tags = {**key_tags(record.slate or record.key), **(tags or {})}
            self.tags.update(list(tags))
        if not self._matches(tags):
            if record.version is not None:
                self._retract(record.slate or record.key, record)
            return
        answer = coded(record, self.items, self.raters)
        file = self.files[-1]
        if answer is None:
            self._skip(_itself(_place(record.key, file.name), record.left, record.right))
            if record.version is not None and record.slate is None:
                self._retract(record.key, record)
            return
        if answer["rater"] < 0 and len(self.unrated) < SKIPPED_KEPT:
            self.unrated.append((len(self.columns), _place(record.key, file.name)))
        if record.slate is None or record.slate != file.last_slate:
            file.n_answers += 1
        file.last_slate = record.slate
        # The pairs of one ranking are corrected together, whatever their own keys are.
        answer["key"] = self._key(record.key if record.slate is None else record.slate)
        if self.by is not None:
            answer["part"] = self.values[(tags or {})[self.by]]
        if record.tags:
            self.tag_columns.append(len(self.columns), record.tags)
        self.columns.append(answer)

    def _retract(self, key: str, by: Comparison | Skipped) -> None:
        self.retracted.add(self._key(key), by.at, by.version, len(self.columns))

    def _matches(self, tags: Mapping[str, str] | None) -> bool:
        found = tags or {}
        ok = all(found.get(tag) == value for tag, value in self.where.items())
        ok = ok and (self.by is None or bool(found.get(self.by)))
        self.n_filtered += not ok
        return ok

    def _key(self, key: str) -> int:
        file = self.files[-1]
        if file.apart and key.startswith(f"{PurePath(file.name).name}:"):
            return hash((file.apart, key)) or 1
        if not file.has_ids:
            base = PurePath(file.name).name
            file.has_ids = not key.startswith((f"{base}:", f"{file.name}:"))
        return hash(key) or 1

    def _add_batch(self, batch: Batch) -> None:
        n = len(batch.lines)
        file = self.files[-1]
        try:
            # Row by row, because names are numbered in the order in which they appear.
            both = chain.from_iterable(zip(batch.left, batch.right, strict=True))
            left, right = self.items.of_column(both, 2 * n).reshape(n, 2).T.copy()
            rater = self.raters.of_column(batch.rater, n)
            usable = not any(word in self.items for word in batch.reserved)
        except DataError:
            if batch.records is None:
                raise
            usable = False
        if not usable and batch.records:
            for record in batch.records():
                self.add(record)
            return
        outcome = np.frombuffer(batch.outcome, dtype=np.uint8)
        good = (left != right) & (outcome != NO_ANSWER)
        columns: Columns = {"rater": rater, "left": left, "right": right, "outcome": outcome}
        if batch.keys is not None:
            columns["key"] = key_hashes(batch.keys, n)
            file.has_ids = True
        if batch.at is not None:
            columns["at"] = np.array(batch.at, dtype=np.float64)
        lines: Any = batch.lines
        if not good.all():
            for i in np.flatnonzero(~good).tolist():
                where = f"{file.name}:{lines[i]}"
                name, other = as_text(batch.left[i]), as_text(batch.right[i])
                # Two names that only `rename` made one: that there is no winner was so before.
                itself = name == other or outcome[i] != NO_ANSWER
                self._skip(_itself(where, name, other) if itself else Skipped(where, NO_WINNER))
            columns = {name: column[good] for name, column in columns.items()}
            lines = np.asarray(lines)[good]
            if not len(lines):
                return
        self._note_unrated(columns["rater"], lines, file.name)
        self.tag_columns.extend(len(self.columns), batch.tags, good)
        file.n_answers += len(lines)
        self.columns.extend(len(lines), **columns)

    def _note_unrated(self, rater: NDArray[Any], lines: Any, name: str) -> None:
        room = SKIPPED_KEPT - len(self.unrated)
        if room > 0 and rater.size and rater.min() < 0:
            start = len(self.columns)
            for i in np.flatnonzero(rater < 0)[:room].tolist():
                self.unrated.append((start + i, f"{name}:{lines[i]}"))

    # -- arrays out

    def parts(self, max_skipped: float = 1.0) -> dict[str, dict[str, Any]]:
        """The fields of `Comparisons`, by value of the tag `by` ("" without one)."""
        columns = self.columns.arrays()
        tags = self.tag_columns.arrays(columns["key"].size)
        first = [*(log.first_row for log in self.files), columns["key"].size]
        file = np.repeat(np.arange(len(self.files)), np.diff(first))
        keep = self._skip_unrated(columns["rater"], columns["slate"], file)
        for log in self.files:
            log.check(max_skipped)
        self._check_tags()
        n_once = int(keep.sum())
        keyed = bool(_has_twins(columns["key"][columns["key"] != 0]))
        latests = (newest(columns, file) if keyed else None, self.retracted.of(columns))
        for latest in latests if self.merge else ():
            if latest is not None:
                keep &= latest
        n_kept = int(keep.sum())
        self._check_duplicates(columns, keep, file, max_skipped)
        if dropped := self._dropped():
            keep &= ~np.isin(columns["rater"], dropped)
        n_dropped = n_kept - int(keep.sum())
        for old in self.rename:
            if old not in self.items:
                self.notes[f"there is no item {old!r} to rename"] = None
        if not keep.any():
            raise DataError(self._why_nothing(n_dropped))
        self._note_combined()
        for codes in (self.items, self.raters):
            self._note_case(codes)
        if self.merge:
            self._note_twice(columns, tags, file)
        whole = {
            "skipped": tuple(self.log.first),
            "skip_reasons": MappingProxyType(dict(self.log.reasons)),
            "n_duplicates": n_once - n_kept,
            "n_dropped": n_dropped,
            "n_filtered": self.n_filtered,
            "warnings": tuple(self.notes),
            "tag_values": MappingProxyType(self.tag_columns.values()),
        }
        found = {}
        for code, value in enumerate(self.values.names if self.by is not None else ("",)):
            mine = keep if self.by is None else keep & (columns["part"] == code)
            if mine.any():
                counts = np.bincount(file[mine], minlength=len(self.files)).tolist()
                sources = tuple(
                    Source(f.name, f.adapter, f.why, n, f.n_skipped, f.sha256)
                    for f, n in zip(self.files, counts, strict=True)
                )
                wins = wins_of(
                    columns, mine, self.items.names, self.raters.names, tags, keyed=keyed
                )
                found[value] = wins | whole | {"sources": sources}
        return found

    def _note_combined(self) -> None:
        """Say that names such as `A+B` may be one output of two items."""
        names = set(self.items.names)
        combined = sorted(
            name for name in names
            if "+" in name and names.issuperset(part.strip() for part in name.split("+"))
        )  # fmt: skip
        if combined:
            n, first = counted(len(combined), "name"), combined[0]
            self.notes[
                f"{n} such as {first!r} combine names that occur alone as well; if they are one "
                "output of several items, say --adapter table -O split=+"
            ] = None

    def _note_twice(
        self, columns: Columns, tags: Mapping[str, NDArray[np.int32]], file: NDArray[Any]
    ) -> None:
        """Say where nearly every row is there exactly twice, and nothing tells them apart."""
        known = [log.has_ids or not log.n_answers for log in self.files]
        if all(known) or not len(self.raters.names) or not np.isnan(columns["at"]).all():
            return
        names = ("rater", "left", "right", "outcome", "slate")
        same: NDArray[Any] = np.zeros(file.size, dtype=np.int64)
        for column in (*(columns[name] for name in names), *tags.values()):
            same = _mixed(same, column)
        for name in ("weight", "time_s"):
            same = _mixed(same, columns[name].view(np.int64))
        for i, log in enumerate(self.files):
            mine = file == i
            rows = int(mine.sum())
            if known[i] or rows < _FEW_TWINS:
                continue
            _, times = np.unique(same[mine], return_counts=True)
            twice = 2 * int((times == 2).sum())
            if twice >= _NEARLY_ALL * rows:
                self.notes[
                    f"{log.name}: {twice / rows:.0%} of the rows are there exactly twice, rater "
                    "included, without ids or times: the votes may be stored twice; all of them "
                    "count"
                ] = None

    def _note_case(self, codes: RawCodes) -> None:
        """Say which names differ only in case."""
        first: dict[str, str] = {}
        twins = [(name, first.setdefault(name.casefold(), name)) for name in codes.names]
        twins = [(name, other) for name, other in twins if name != other]
        if twins:
            (name, other), kind = twins[0], codes.kind
            remedy = "; --rename makes them one" if kind == "item" else ""
            more = f", and {len(twins) - 1:,} more" if len(twins) > 1 else ""
            self.notes[
                f"{kind}s {other!r} and {name!r} differ only in case{more}: they count as two"
                f"{remedy}"
            ] = None

    def _check_duplicates(
        self, columns: Columns, keep: Mask, file: NDArray[Any], max_skipped: float
    ) -> None:
        """Refuse a file of which many rows are dropped as the same answer again.

        A tool that tells of versions knows what it says; and of several files each may hold all.
        """
        if not self.merge or max_skipped >= 1:
            return
        for i, log in enumerate(self.files):
            mine = (file == i) & np.isnan(columns["version"]) & (columns["key"] != 0)
            again = int((mine & ~keep).sum())
            if not again or again <= max(max_skipped * int((file == i).sum()), 1):
                continue
            single = mine & (columns["slate"] == 0)
            twins = again - (int(single.sum()) - np.unique(columns["key"][single]).size)
            if twins > 0:
                # The other files hold the same answers: that is what several exports are.
                again -= twins
            if again <= max(max_skipped * int((file == i).sum()), 1):
                continue
            raise FormatError(
                f"{again:,} of {int((file == i).sum()):,} rows are the same answer again: they "
                "have the id, the rater and the items of another row, so only the last would count",
                log.name,
                remedy="if each row is an answer of its own, drop or rename the column of the id; "
                "to keep the last one of each, allow it with --max-skipped 100% (in Python "
                "max_skipped=1)",
            )

    def _skip_unrated(self, rater: NDArray[Any], slate: NDArray[Any], file: NDArray[Any]) -> Mask:
        rated: Mask = rater >= 0
        if rated.all() or not rated.any():
            return np.ones(rater.size, dtype=np.bool_)
        for row, where in self.unrated:
            skipped = Skipped(where, UNRATED)
            if self.strict:
                raise _strict_error(skipped, self.files[file[row]].name)
            if len(self.log.first) < SKIPPED_KEPT:
                self.log.first.append(skipped)
        # A ranking is one answer, of many rows.
        counted_rows = ~rated
        counted_rows[1:] &= (slate[1:] == 0) | (slate[1:] != slate[:-1])
        self.log.reasons[UNRATED] += int(counted_rows.sum())
        counts = np.bincount(file[counted_rows], minlength=len(self.files)).tolist()
        for log, n in zip(self.files, counts, strict=True):
            if n:
                log.n_skipped += n
                log.n_answers -= n
                log.reasons[UNRATED] += n
        return rated

    def _check_tags(self) -> None:
        if not self.n_filtered or len(self.columns):
            return
        for tag in (*self.where, *([] if self.by is None else [self.by])):
            if tag not in self.tags:
                known = f"known: {listed(self.tags)}"
                meant = did_you_mean(tag, self.tags, known)
                raise UsageError(f"no row has a tag {tag!r}{meant}{self.tags_remedy}")
        wanted = ", ".join(f"{tag}={value}" for tag, value in self.where.items())
        raise DataError(
            f"none of the {self.n_filtered:,} answers has {wanted or self.by}; "
            "look at the values that the file has"
        )

    def _dropped(self) -> list[int]:
        known = self.raters.codes.code
        for name in self.drop_raters:
            if name not in known:
                meant = did_you_mean(name, known, f"known: {listed(known)}")
                raise UsageError(f"there is no rater {name!r} to drop{meant}")
        return [known[name] for name in self.drop_raters]

    def _why_nothing(self, n_dropped: int) -> str:
        if n_dropped:
            return f"there are no comparisons left: all {n_dropped:,} are of raters to be dropped"
        if not self.log.reasons:
            return "there are no comparisons; give at least one row that is not skipped"
        why = "; ".join(f"{n} × {reason}" for reason, n in self.log.reasons.most_common(3))
        return (
            f"there are no comparisons: all {self.log.reasons.total()} rows were skipped ({why}); "
            "correct the rows or give other data"
        )


def _place(key: str, name: str) -> str:
    base = f"{PurePath(name).name}:"
    return f"{name}:{key.removeprefix(base)}" if key.startswith(base) else f"{name}, key {key!r}"


def _strict_error(skipped: Skipped, name: str) -> FormatError:
    remedy = "correct the row, or read without strict to skip and count such rows"
    line = skipped.where.removeprefix(f"{name}:")
    if line.isdigit():
        return FormatError(skipped.reason, name, int(line), skipped.value, remedy)
    return FormatError(f"{skipped.where}: {skipped.reason}", None, None, skipped.value, remedy)


def _itself(where: str, left: str, right: str) -> Skipped:
    """A row of one item: by mistake, or because the user made one of the two."""
    if as_text(left) == as_text(right):
        return Skipped(where, AGAINST_ITSELF, left)
    return Skipped(where, MERGED, left, expected=True)


def key_hashes(keys: Sequence[str | int | float], n: int) -> NDArray[np.int64]:
    """The keys as numbers; 0 stands for no key."""
    if set(map(type, keys)) != {str}:
        keys = [as_text(key, "key") for key in keys]
    hashes = np.fromiter(map(hash, keys), dtype=np.int64, count=n)
    hashes[hashes == 0] = 1
    return hashes


def newest(columns: Columns, file: NDArray[Any]) -> Mask | None:
    """Which rows are the last word under their key; None if no key comes twice.

    The newest `version` wins, or `at` for want of one, else what comes later. A slate
    is one answer of many rows: it is taken from one file as a whole. Key 0 stands for no
    key. A key says nothing about other people or other items: an `id` may be that of a
    pair, which many have seen. Only who gives a version speaks of one answer that
    changes, its items and all, and tells it from others of that key by when it was made.
    """
    slate = columns["slate"] != 0
    keep = np.ones(slate.size, dtype=np.bool_)
    single = np.flatnonzero(~slate & (columns["key"] != 0))
    if _has_twins(columns["key"][single]):
        when = _when(columns)
        same = columns["key"]
        for name in ("rater", "left", "right"):
            same = _mixed(same, columns[name])
        keep[_older(same, single, when)] = False
        versioned = single[~np.isnan(columns["version"][single])]
        same = _mixed(columns["key"], columns["at"].view(np.int64))
        keep[_older(same, versioned, when)] = False
    many = np.flatnonzero(slate)
    if many.size and file[many].min() != file[many].max():
        _, group = np.unique(columns["key"][many], return_inverse=True)
        order = np.lexsort((many, _when(columns)[many], group))
        chosen = np.empty(int(group.max()) + 1, dtype=np.int64)
        chosen[group[order]] = file[many][order]
        keep[many] = file[many] == chosen[group]
    return None if keep.all() else keep


class Retractions:
    """Rows left out that take back what an older row said under the same key."""

    def __init__(self) -> None:
        # by key and time of creation: how new, and before which row it came
        self._last: dict[tuple[int, float | None], tuple[float, int]] = {}

    def add(self, key: int, at: float | None, version: float | None, row: int) -> None:
        """Take one; `row` is the number of answers before it."""
        when = next((time for time in (version, at) if time is not None), -inf)
        self._last[key, at] = max(self._last.get((key, at), (-inf, 0)), (when, row))

    def of(self, columns: Columns) -> Mask | None:
        """Which answers still stand; None if all do."""
        if not self._last:
            return None
        keys = np.array([key for key, _ in self._last], dtype=np.int64)
        rows = np.flatnonzero(np.isin(columns["key"], keys))
        when, at = _when(columns)[rows].tolist(), columns["at"][rows].tolist()
        key = columns["key"][rows].tolist()
        keep = np.ones(columns["key"].size, dtype=np.bool_)
        for i, row in enumerate(rows.tolist()):
            # NaN is not equal to itself.
            last = self._last.get((key[i], at[i] if at[i] == at[i] else None))
            keep[row] = last is None or (when[i], row) >= last
        return None if keep.all() else keep


def _when(columns: Columns) -> NDArray[np.float64]:
    """How new each row is."""
    version, at = columns["version"], columns["at"]
    return np.nan_to_num(np.where(np.isnan(version), at, version), nan=-np.inf)


def _older(same: NDArray[Any], rows: NDArray[Any], when: NDArray[Any]) -> NDArray[Any]:
    """Those of these rows, in ascending order, after which a newer one of the same comes."""
    same = same[rows]
    if not _has_twins(same):
        return rows[:0]
    order = np.lexsort((rows, when[rows], same))
    return np.asarray(rows[order[:-1][same[order][1:] == same[order][:-1]]])


def _has_twins(key: NDArray[Any]) -> bool:
    in_order = np.sort(key)
    return bool((in_order[1:] == in_order[:-1]).any())


def _mixed(key: NDArray[Any], code: NDArray[Any]) -> NDArray[Any]:
    """Both in one number: a step of the hash that SplitMix64 is made of."""
    mixed = (key.astype(np.uint64) ^ code.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed ^ (mixed >> np.uint64(29))).astype(np.int64)
