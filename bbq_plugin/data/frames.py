"""Data frames of any kind: comparisons out of them, results into them.

`narwhals` speaks to pandas, Polars, Arrow tables, DuckDB relations and others in one way, so that
none of them is needed here. Names are coded once for each distinct value, and all else is done by
whole columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import numpy as np

from bbq_plugin.data.dataset import (
    GOLD_CODES,
    LEFT,
    RIGHT,
    SKIPPED_KEPT,
    UNRATED,
    RaterCodes,
    RawCodes,
    SkipLog,
    checked_weight,
    identifies,
    wins_of,
)
from bbq_plugin.data.records import (
    AGAINST_ITSELF,
    GOLD,
    LEAST_WEIGHT,
    MOST_WEIGHT,
    NO_WINNER,
    OUTCOMES,
    Skipped,
)
from bbq_plugin.errors import DataError, UnsupportedError, UsageError, did_you_mean
from bbq_plugin.text import brief, counted, listed, name_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Mask = NDArray[np.bool_]

#: Why a row was left out.
NO_ITEM = "an item has no name"
NO_WEIGHT = "no weight in this row, while others have one"

#: What an outcome may be called without a mapping of one's own.
WORDS: Mapping[Any, str] = MappingProxyType(
    {word: word for word in OUTCOMES}
    | {"model_a": "left", "model_b": "right", "tie (bothbad)": "both_bad"}
)
# More than this share of rows left out is said in a warning.
_FEW = 0.01
_UNKNOWN_OUTCOME, _NO_OUTCOME = 254, 255


def wins_of_frame(
    frame: Any,
    roles: Mapping[str, str | None],
    tags: Sequence[str],
    values: Mapping[Any, str] | None,
) -> dict[str, Any]:
    """The fields of `Comparisons` from the columns of a frame; `roles` says what each one is."""
    columns = {role: name for role, name in roles.items() if name is not None}
    sided = _check_roles(columns, values)
    table = FrameColumns(frame, [*columns.values(), *tags])
    n = table.n
    if n == 0:
        raise DataError("there are no comparisons; the frame has no rows")
    log = _RowSkips(n)
    items, raters = RawCodes("item"), RaterCodes("rater")
    first, second = ("left", "right") if sided else ("winner", "loser")
    one, other = (table.codes(columns[role], items) for role in (first, second))
    log.skip((one < 0) | (other < 0), NO_ITEM)
    log.skip(one == other, AGAINST_ITSELF)
    outcome: NDArray[np.uint8] = np.full(n, LEFT, dtype=np.uint8)
    if sided:
        outcome = _outcomes(table, columns["outcome"], values, (one, other), items)
        log.skip(outcome == _NO_OUTCOME, NO_WINNER)
        _refuse_unknown(table, columns["outcome"], outcome, log.keep, values)
    weight: NDArray[np.float64] = np.ones(n)
    if "weight" in columns:
        weight = table.numbers(columns["weight"], "weight")
        log.skip(np.isnan(weight), NO_WEIGHT)
        _check_weights(weight, log.keep)
    rater: NDArray[np.int32] = np.full(n, -1, dtype=np.int32)
    if "rater" in columns:
        rater = table.codes(columns["rater"], raters)
        if (rater >= 0).any():
            log.skip(rater < 0, UNRATED)
    if not log.keep.any():
        why = "; ".join(f"{m} × {reason}" for reason, m in log.reasons.most_common(3))
        raise DataError(f"there are no comparisons: all {n:,} rows were skipped ({why})")
    gold = table.gold(GOLD) if GOLD in tags else np.zeros(n, dtype=np.int8)
    answers: dict[str, NDArray[Any]] = {
        "rater": rater,
        "left": one,
        "right": other,
        "outcome": outcome,
        "weight": weight,
        "time_s": table.seconds(columns.get("time_s"), "time_s"),
        "at": table.seconds(columns.get("at"), "at"),
        # Of a winner and a loser the sides are not known, as of the pairs of a ranking.
        "slate": np.full(n, not sided, dtype=np.int8),
        "key": np.arange(1, n + 1),
        "gold": gold,
        "kept": np.zeros(n, dtype=np.int8),
    }
    tagged = {name: table.tag(name) for name in tags if name != GOLD}
    wins = wins_of(
        answers, log.keep, items.names, raters.names,
        {name: codes for name, codes in tagged.items() if codes is not None},
    )  # fmt: skip
    return wins | {
        "skipped": tuple(log.first),
        "skip_reasons": MappingProxyType(dict(log.reasons)),
        "warnings": log.warnings(),
    }


def _check_roles(columns: Mapping[str, str], values: Mapping[Any, str] | None) -> bool:
    """Whether the columns are left, right and outcome, and not winner and loser."""
    sided, won = {"left", "right", "outcome"}, {"winner", "loser"}
    given = columns.keys() & (sided | won)
    if given not in (sided, won):
        raise UsageError(
            f"the columns given are {listed(sorted(given))}; "
            "name left=, right= and outcome=, or winner= and loser="
        )
    if values is not None:
        if given == won:
            raise UsageError("values= says what an outcome means, and there is no outcome= here")
        for value, meaning in values.items():
            if meaning not in OUTCOMES:
                raise UsageError(
                    f"values: {value!r} means {meaning!r}; expected one of {', '.join(OUTCOMES)}"
                )
    return given == sided


class _RowSkips(SkipLog):
    """Rows that are left out, by whole columns."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.keep: Mask = np.ones(n, dtype=np.bool_)

    def skip(self, rows: Mask, reason: str) -> None:
        """Leave out these rows, unless another reason came first."""
        rows = rows & self.keep
        n = int(rows.sum())
        if not n:
            return
        room = SKIPPED_KEPT - len(self.first)
        for i in np.flatnonzero(rows)[: max(0, room)].tolist():
            self.first.append(Skipped(f"row {i}", reason))
        self.reasons[reason] += n
        self.keep &= ~rows

    def warnings(self) -> tuple[str, ...]:
        """What is worth saying of them."""
        n, rows = self.reasons.total(), self.keep.size
        if n <= max(1.0, _FEW * rows):
            return ()
        reason, times = self.reasons.most_common(1)[0]
        text = (
            f"{n:,} of {counted(rows, 'row')} of the frame were skipped; "
            f"most often ({times:,} ×): {reason}"
        )
        return (text,)


class FrameColumns:
    """Columns of a frame as arrays."""

    def __init__(self, frame: Any, wanted: Sequence[str]) -> None:
        self.nw, self.pa = _narwhals(), _pyarrow()
        try:
            found = self.nw.from_native(frame)
        except (TypeError, self.nw.exceptions.NarwhalsError) as error:
            raise UsageError(
                f"from_frame takes a data frame (pandas, Polars, Arrow, DuckDB, …), "
                f"not {type(frame).__name__} ({error})"
            ) from error
        known = list(found.collect_schema().names())
        for name in wanted:
            if name not in known:
                meant = did_you_mean(name, map(str, known), f"there are: {listed(map(str, known))}")
                raise UsageError(f"the frame has no column {name!r}{meant}")
        found = found.select(list(dict.fromkeys(wanted)))
        # A query, such as a DuckDB relation, is run here, once and for these columns alone.
        self.frame = found.collect() if isinstance(found, self.nw.LazyFrame) else found
        self.n = len(self.frame)

    def _distinct(self, name: str) -> tuple[list[Any], NDArray[np.int32]]:
        """Values of a column without repetition, and each row's place among them; -1: missing."""
        column = self.frame[name]
        if column.dtype.is_float():
            column = column.fill_nan(None)
        try:
            if column.dtype == self.nw.Object:
                return _objects(column.to_list())
            arrow = self.pa.chunked_array(column.to_arrow())
            if not self.pa.types.is_dictionary(arrow.type):
                arrow = arrow.dictionary_encode()
            found = arrow.unify_dictionaries().combine_chunks()
        except (TypeError, self.pa.ArrowException) as error:
            raise DataError(
                f"column {name!r} has values that are no names ({error}); give text or numbers"
            ) from error
        place = found.indices.cast(self.pa.int32()).fill_null(-1)
        return found.dictionary.to_pylist(), place.to_numpy(zero_copy_only=False)

    def codes(self, name: str, names: RawCodes) -> NDArray[np.int32]:
        """The codes of the names in a column; -1 where there is none."""
        distinct, place = self._distinct(name)
        found = np.full(len(distinct) + 1, -1, dtype=np.int32)
        for i, value in enumerate(distinct):
            if value is None or (isinstance(value, str) and not value.strip()):
                continue
            try:
                found[i] = names[value]
            except DataError as error:
                row = int((place == i).argmax())
                raise DataError(f"row {row} (counted from 0), column {name!r}: {error}") from None
        return found[place]

    def numbers(self, name: str, what: str) -> NDArray[np.float64]:
        """A column of numbers; NaN where there is none."""
        column = self.frame[name]
        if column.dtype.is_numeric():
            return np.array(column.cast(self.nw.Float64).to_numpy(), dtype=np.float64)
        distinct, place = self._distinct(name)
        found = np.full(len(distinct) + 1, nan)
        for i, value in enumerate(distinct):
            try:
                found[i] = nan if value is None else float(value)
            except (TypeError, ValueError):
                row = int((place == i).argmax())
                raise DataError(
                    f"row {row} (counted from 0): {what} is {brief(value)} "
                    f"(column {name!r}); expected a number"
                ) from None
        return found[place]

    def seconds(self, name: str | None, what: str) -> NDArray[np.float64]:
        """A column of moments (since 1970) or durations in seconds; NaN where there is none."""
        if name is None:
            return np.full(self.n, nan)
        nw, column = self.nw, self.frame[name]
        if column.dtype == nw.Datetime:
            micro = column.dt.timestamp("us")
        elif column.dtype == nw.Duration:
            micro = column.dt.total_microseconds()
        else:
            return self.numbers(name, what)
        return np.array(micro.cast(nw.Float64).to_numpy(), dtype=np.float64) / 1e6

    def tag(self, name: str) -> NDArray[np.int32] | None:
        """The codes of a tag's values; None for one that identifies single answers."""
        distinct, place = self._distinct(name)
        code: dict[str, int] = {}
        found = np.full(len(distinct) + 1, -1, dtype=np.int32)
        for i, value in enumerate(distinct):
            if value is not None:
                found[i] = code.setdefault(name_text(value), len(code))
        return None if identifies(len(code), self.n) else found[place]

    def gold(self, name: str) -> NDArray[np.int8]:
        """The codes of the right answers; 0 where none is known."""
        distinct, place = self._distinct(name)
        found = [GOLD_CODES.get(value, 0) for value in distinct]
        return np.array([*found, 0], dtype=np.int8)[place]

    def value(self, name: str, row: int) -> Any:
        """What stands in one cell."""
        return self.frame[name][row : row + 1].to_list()[0]

    def outcome_codes(
        self, name: str, words: Mapping[Any, str], items: RawCodes
    ) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
        """By row: the outcome if it is a known word, and the item if it is the name of one."""
        distinct, place = self._distinct(name)
        said = np.full(len(distinct) + 1, _NO_OUTCOME, dtype=np.uint8)
        named = np.full(len(distinct) + 1, -1, dtype=np.int32)
        for i, value in enumerate(distinct):
            if value is None or (isinstance(value, str) and not value.strip()):
                continue
            known = words.get(value)
            said[i] = _UNKNOWN_OUTCOME if known is None else OUTCOMES.index(known)
            if isinstance(value, (str, int, float)) and not isinstance(value, bool):
                named[i] = items.codes.code.get(name_text(value), -1)
        return said[place], named[place]


def _objects(values: Sequence[Any]) -> tuple[list[Any], NDArray[np.int32]]:
    """Mixed values of Python, one by one: columns of those cannot be compared by their type."""
    code: dict[Any, int] = {}
    place = np.empty(len(values), dtype=np.int32)
    for i, value in enumerate(values):
        missing = value is None or value != value  # noqa: PLR0124 (NaN alone differs from itself)
        place[i] = -1 if missing else code.setdefault(value, len(code))
    return list(code), place


def _outcomes(
    table: FrameColumns,
    column: str,
    values: Mapping[Any, str] | None,
    sides: tuple[NDArray[np.int32], NDArray[np.int32]],
    items: RawCodes,
) -> NDArray[np.uint8]:
    """The outcome of each row: a word, or without a mapping the name of the item that won."""
    said, named = table.outcome_codes(column, WORDS if values is None else values, items)
    if values is not None:
        # A mapping that was given is all there is.
        return said
    for side, item in zip((LEFT, RIGHT), sides, strict=True):
        wins = (named == item) & (named >= 0)
        clash = wins & (said < _UNKNOWN_OUTCOME) & (said != side)
        if clash.any():
            row = int(clash.argmax())
            value = table.value(column, row)
            raise DataError(
                f"row {row} (counted from 0): the outcome {value!r} is also the name of an item, "
                "so it may mean either; say what outcomes mean with values={…: 'left', …}"
            )
        said[wins] = side
    return said


def _refuse_unknown(
    table: FrameColumns, column: str, outcome: NDArray[np.uint8], keep: Mask,
    values: Mapping[Any, str] | None,
) -> None:  # fmt: skip
    unknown = (outcome == _UNKNOWN_OUTCOME) & keep
    if not unknown.any():
        return
    row = int(unknown.argmax())
    words = listed(map(repr, WORDS if values is None else values))
    or_name = " or the name of one of the two items" if values is None else ""
    raise DataError(
        f"row {row} (counted from 0): column {column!r} is {brief(table.value(column, row))}; "
        f"expected {words}{or_name} (say what others mean with values={{…: 'left', …}})"
    )


def _check_weights(weight: NDArray[np.float64], keep: Mask) -> None:
    wrong = keep & ~((weight >= LEAST_WEIGHT) & (weight <= MOST_WEIGHT))
    if wrong.any():
        row = int(wrong.argmax())
        try:
            checked_weight(float(weight[row]))
        except DataError as error:
            raise DataError(f"row {row} (counted from 0): {error}") from None


def _narwhals() -> Any:
    try:
        import narwhals  # noqa: PLC0415 (an extra)
    except ImportError as error:
        raise _missing("narwhals") from error
    return narwhals


def _pyarrow() -> Any:
    try:
        import pyarrow as pa  # noqa: PLC0415 (an extra)
    except ImportError as error:
        raise _missing("pyarrow") from error
    return pa


def _missing(package: str) -> UnsupportedError:
    return UnsupportedError(
        f"data frames and Arrow tables need {package}; "
        "install it with: pip install 'bbq-plugin[frames]'"
    )


# -- results as frames


def arrow_table(fields: Mapping[str, Any], rows: Sequence[Any]) -> Any:
    """An Arrow table of rows with these fields, by their types; a number not known is null."""
    pa = _pyarrow()
    kinds = {str: pa.string(), float: pa.float64(), int: pa.int64(), bool: pa.bool_()}
    arrays, schema = [], []
    for name, kind in fields.items():
        plain = _plain_type(kind)
        made = pa.list_(pa.string()) if plain is tuple else kinds[plain]
        values = [getattr(row, name) for row in rows]
        if plain is float:
            values = [None if value is None or value != value else value for value in values]  # noqa: PLR0124
        arrays.append(pa.array(values, type=made))
        schema.append(pa.field(name, made))
    return pa.Table.from_arrays(arrays, schema=pa.schema(schema))


def _plain_type(kind: Any) -> type:
    """One of str, float, int, bool and tuple (of texts) for the type of a field."""
    if get_origin(kind) is Literal:
        return type(get_args(kind)[0])
    if get_origin(kind) is tuple:
        return tuple
    if isinstance(kind, type):
        return kind
    # A value or None
    (only,) = (one for one in get_args(kind) if one is not type(None))
    return _plain_type(only)


def as_frame(table: Any, backend: str) -> Any:
    """An Arrow table as a data frame of another library."""
    nw = _narwhals()
    try:
        return nw.from_arrow(table, backend=backend).to_native()
    except ImportError as error:
        raise UnsupportedError(f"a frame of {backend} needs {backend}; install it") from error
    except (ValueError, TypeError) as error:
        raise UsageError(
            f"backend={backend!r}: expected 'pandas', 'polars' or 'pyarrow' ({error})"
        ) from error
