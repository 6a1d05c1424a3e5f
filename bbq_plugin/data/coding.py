"""How rows become arrays: names to codes, answers to wins, and the checks that name a bad row."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from bbq_plugin.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from bbq_plugin.data.records import Skipped

# Skipped rows are counted without limit but kept only so far: a file of ten
# million self pairs must not fill the memory with the same sentence.
SKIPPED_KEPT = 1000

# Codes without names must be dense. This much slack is a matter of taste; codes
# beyond it are identifiers that were never coded, and would make empty items.
_MOST_SPARE_CODES = 1_000_000

# A name stands in tables and charts; what is longer is the content of an item.
_LONGEST_NAME = 10_000

# JSON can spell these, but no text can be written with them.
_UNPAIRED = re.compile("[\ud800-\udfff]")

# One person may click left all day; when so many never do anything else, the
# file puts the winner first and the sides were not recorded.
_ONE_SIDED_RATERS = 5


@contextmanager
def at_row(i: int, what: str = "row") -> Iterator[None]:
    """Add the place to an error, by the index that the caller knows."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{what} {i} (counted from 0): {error}") from None


class Codes:
    """Names to integers in order of first appearance.

    Here and below an error says what is wrong; the caller, who knows the row, adds where:
    writing the place down beforehand would cost more than all the checks.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.code: dict[str, int] = {}

    def __call__(self, name: object) -> int:
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
                f"{self.kind} {name!r} has half a character (an unpaired surrogate); mend the name"
            )
        return self.code.setdefault(str(name), len(self.code))

    @property
    def names(self) -> tuple[str, ...]:
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

    @property
    def names(self) -> tuple[str, ...]:
        return self.codes.names


class RaterCodes(RawCodes):
    """The same for raters: None and blank text are nobody, code −1."""

    def __missing__(self, raw: object) -> int:
        if raw is None or (isinstance(raw, str) and not raw.strip()):
            self[raw] = -1
            return -1
        return super().__missing__(raw)


def as_text(raw: object, kind: str = "name") -> str:
    """A name as text; whole numbers without the `.0` that a column with gaps gives them."""
    if isinstance(raw, str):
        return raw
    if isinstance(raw, float) and raw.is_integer():
        return str(int(raw))
    if isinstance(raw, (int, float)) and not isinstance(raw, bool):
        return str(raw)
    raise DataError(f"{kind} is {raw!r}, not a name; give text or a number")


class Wins:
    """Collects coded wins from named rows and refuses bad ones, naming the row."""

    def __init__(self) -> None:
        self.items = Codes("item")
        self.raters = Codes("rater")
        self.has_raters: bool | None = None
        self.rater = array("i")
        self.winner = array("i")
        self.loser = array("i")
        self.weight = array("d")

    def rater_code(self, rater: object) -> int:
        has_rater = rater is not None
        if self.has_raters is None:
            self.has_raters = has_rater
        elif self.has_raters is not has_rater:
            now, before = ("a rater", "none") if has_rater else ("no rater", "one")
            raise DataError(
                f"has {now} ({rater!r}) where the rows before have {before}; "
                "give a rater on every row, or None on every row"
            )
        return self.raters(rater) if has_rater else 0

    def add(self, rater: int, winner: int, loser: int, weight: float) -> None:
        self.rater.append(rater)
        self.winner.append(winner)
        self.loser.append(loser)
        self.weight.append(weight)

    def arrays(self) -> dict[str, Any]:
        if not self.weight:
            raise DataError("there are no comparisons; give at least one row that is not skipped")
        return {
            "rater": np.frombuffer(self.rater, dtype=np.int32),
            "winner": np.frombuffer(self.winner, dtype=np.int32),
            "loser": np.frombuffer(self.loser, dtype=np.int32),
            "weight": np.frombuffer(self.weight, dtype=np.float64),
            "items": self.items.names,
            "raters": self.raters.names,
            "has_raters": bool(self.has_raters),
        }


def left_rate(
    rater: NDArray[np.int32], went_left: NDArray[Any], n_raters: int
) -> NDArray[np.float64]:
    """Share of each rater's decided answers that went left, NaN for those without any."""
    n = np.bincount(rater, minlength=n_raters)
    lefts = np.bincount(rater, weights=went_left, minlength=n_raters)
    rate = np.full(n_raters, np.nan)
    np.divide(lefts, n, out=rate, where=n > 0)
    return rate


def sides_known(rater: NDArray[np.int32], went_left: NDArray[np.bool_], n_raters: int) -> bool:
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


class SkipLog:
    """Counts every skipped row and keeps the first ones."""

    def __init__(self) -> None:
        self.first: list[Skipped] = []
        self.reasons: Counter[str] = Counter()

    def add(self, record: Skipped) -> None:
        self.reasons[record.reason] += 1
        if len(self.first) < SKIPPED_KEPT:
            self.first.append(record)


def check_distinct(a: object, b: object, name: str) -> None:
    if a == b:
        raise DataError(f"item {name!r} is compared with itself; drop the row")


def checked_weight(weight: object) -> float:
    # Comparisons with NaN are false, so one chain catches NaN, infinity, 0 and below.
    if isinstance(weight, (float, int, np.number)) and 0.0 < float(weight) < inf:
        return float(weight)
    raise DataError(
        f"weight is {weight!r}; a weight is finite and above 0 (drop a row of weight 0)"
    )


def codes_1d(codes: ArrayLike, what: str, like: NDArray[Any] | None = None) -> NDArray[Any]:
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


def names_of(given: Sequence[str] | None, kind: str, *columns: NDArray[Any]) -> tuple[str, ...]:
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
                raise DataError(
                    f"row {i} (counted from 0): {kind} code is {int(codes[i])}; {remedy}"
                )
    if given is None:
        return tuple(map(str, range(highest + 1)))
    # Through the same door as named rows, so that an empty or doubled name is refused here too.
    codes_of = Codes(kind)
    for i, name in enumerate(given):
        with at_row(i, f"{kind} name"):
            if codes_of(name) != i:
                raise DataError(f"{name!r} is there already; names are unique")
    return codes_of.names


def int32(codes: NDArray[Any]) -> NDArray[np.int32]:
    return np.ascontiguousarray(codes, dtype=np.int32)


def weights_1d(weight: ArrayLike | None, n: int) -> NDArray[np.float64]:
    if weight is None:
        return np.ones(n)
    try:
        found = np.ascontiguousarray(weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"weight is not numeric ({error}); give one number a row") from None
    if found.shape != (n,):
        raise DataError(f"weight has shape {found.shape}; give one number a row, {n} in all")
    # NaN goes through min(), so two passes without temporaries decide the good case.
    if not (found.min() > 0.0 and found.max() < inf):
        i = int(np.argmin((found > 0.0) & (found < inf)))
        with at_row(i):
            checked_weight(float(found[i]))
    return found
