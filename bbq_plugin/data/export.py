"""Comparisons as files that this and other tools read.

| layout    | columns                      | weights                             | ties |
|-----------|------------------------------|-------------------------------------|------|
| bbq       | rater, winner, loser, weight | as they are                         | two half wins |
| evalica   | left, right, winner, weight  | as they are (its CLI ignores them)  | winner = tie |
| crowd-kit | worker, left, right, label   | by repeating rows                   | a win each way |
| choix     | winner, loser as codes       | by repeating rows                   | a win each way |

The item that won stands left. choix wants numbers, so its file begins with the names of the codes
as comments, which `numpy.loadtxt` passes over.
"""

from __future__ import annotations

import io
import json
from functools import lru_cache
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, Literal, get_args

import msgspec
import numpy as np

from bbq_plugin.errors import DataError, UnsupportedError, UsageError
from bbq_plugin.text import cell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from bbq_plugin.data.dataset import Comparisons

ExportLayout = Literal["bbq", "evalica", "crowd-kit", "choix"]
ExportFormat = Literal["csv", "jsonl", "parquet"]

# Weights are written as repeated rows when they are multiples of one over at most this: a tie is
# 1/2, a ranking of three 7/9.
_LARGEST_DENOMINATOR = 12
_MOST_REPEATED = 50_000_000
_PIECE = 1 << 16
_Row = tuple[Any, ...]
# columns (for choix the lines before the first row), rows, notes
_Written = tuple[list[str], "Iterator[_Row]", list[str]]


def write_comparisons(
    data: Comparisons,
    file: IO[bytes],
    file_format: ExportFormat = "csv",
    layout: ExportLayout = "bbq",
) -> list[str]:
    """Write comparisons and return what a reader of the file should know."""
    for name, value, known in (
        ("layout", layout, get_args(ExportLayout)),
        ("format", file_format, get_args(ExportFormat)),
    ):
        if value not in known:
            raise UsageError(f"the {name} is {value!r}; expected one of {', '.join(known)}")
    if layout == "choix" and file_format != "csv":
        raise UsageError("choix takes pairs of numbers from a CSV file; use the format csv")
    columns, rows, notes = _LAYOUTS[layout](data)
    if file_format == "csv":
        _write_csv(file, ("\n" if layout == "choix" else ",").join(columns), rows)
    elif file_format == "jsonl":
        _write_jsonl(file, columns, rows)
    else:
        _write_parquet(file, columns, rows)
    return notes


def _bbq(data: Comparisons) -> _Written:
    names, who = data.items, data.raters
    rows = zip(*_lists(data.rater, data.winner, data.loser, data.weight), strict=True)
    if not data.has_raters:
        unrated = ((names[won], names[lost], weight) for _, won, lost, weight in rows)
        return ["winner", "loser", "weight"], unrated, []
    rated = ((who[r], names[won], names[lost], weight) for r, won, lost, weight in rows)
    return ["rater", "winner", "loser", "weight"], rated, []


def _evalica(data: Comparisons) -> _Written:
    names, tie = data.items, _ties(data)
    first = ~np.concatenate(([False], tie[:-1]))
    weight = (np.where(tie, 2.0, 1.0) * data.weight)[first]
    columns = _lists(data.winner[first], data.loser[first], tie[first], weight)
    rows = (
        (names[left], names[right], "tie" if tied else "left", weight)
        for left, right, tied, weight in zip(*columns, strict=True)
    )
    note = (
        "some weights are not 1: give the column weight to evalica in Python (weights=), "
        "its command line ignores it"
    )
    notes = [] if (weight == 1.0).all() else [note]
    return ["left", "right", "winner", "weight"], rows, notes


def _crowd_kit(data: Comparisons) -> _Written:
    times, notes = _repeats(data)
    names, who = data.items, data.raters
    if not data.has_raters:
        notes.append("no rater is known: the column worker is empty")
        who = ("",)
    rows = (
        (who[r], names[won], names[lost], names[won])
        for r, won, lost, n in zip(*_lists(data.rater, data.winner, data.loser, times), strict=True)
        for _ in range(n)
    )
    return ["worker", "left", "right", "label"], rows, notes


def _choix(data: Comparisons) -> _Written:
    times, notes = _repeats(data)
    rows = (
        (won, lost)
        for won, lost, n in zip(*_lists(data.winner, data.loser, times), strict=True)
        for _ in range(n)
    )
    # json writes a name on one line, whatever is in it
    heading = [f"# {code} {json.dumps(name)}" for code, name in enumerate(data.items)]
    return heading, rows, notes


def _lists(*columns: NDArray[Any]) -> list[list[Any]]:
    return [column.tolist() for column in columns]


_LAYOUTS: dict[str, Callable[[Comparisons], _Written]] = {
    "bbq": _bbq, "evalica": _evalica, "crowd-kit": _crowd_kit, "choix": _choix,
}  # fmt: skip


def _ties(data: Comparisons) -> NDArray[np.bool_]:
    """Rows that with the next one make a tie: half a win, and half a win the other way.

    By the data contract that is a tie, whatever it was recorded as.
    """
    rater, won, lost, weight = data.rater, data.winner, data.loser, data.weight
    tie = np.zeros(won.size, dtype=np.bool_)
    tie[:-1] = (won[:-1] == lost[1:]) & (lost[:-1] == won[1:])
    tie[:-1] &= (rater[:-1] == rater[1:]) & (weight[:-1] == 0.5) & (weight[1:] == 0.5)
    # A run such as a>b, b>a, a>b has one tie only: a row is used once.
    for i in np.flatnonzero(tie[:-1] & tie[1:]).tolist():
        if tie[i]:
            tie[i + 1] = False
    return tie


def _repeats(data: Comparisons) -> tuple[NDArray[np.int64], list[str]]:
    """How often each row is written where a file has no weights."""
    weight = data.weight
    for parts in range(1, _LARGEST_DENOMINATOR + 1):
        times = np.rint(weight * parts)
        if (times > 0).all() and np.allclose(times, weight * parts, rtol=0, atol=1e-9):
            break
    else:
        raise DataError(
            "the weights cannot be written as repeated rows (they have no common unit from 1 "
            f"down to 1/{_LARGEST_DENOMINATOR}); use a layout with weights: bbq or evalica"
        )
    whole = times.astype(np.int64)
    if int(whole.sum()) > _MOST_REPEATED:
        raise DataError(
            f"without weights this would be {int(whole.sum()):,} rows; "
            "use a layout with weights: bbq or evalica"
        )
    if (whole == 1).all():
        return whole, []
    note = (
        f"this layout has no weights, so a comparison of weight 1 is written {parts} times; "
        "estimates stay the same, and counts of rows are larger"
    )
    return whole, [note]


def _write_csv(file: IO[bytes], heading: str, rows: Iterable[_Row]) -> None:
    file.write(heading.encode() + b"\n")
    # The same few names and weights come again and again.
    shown = lru_cache(1 << 16, typed=True)(_csv_cell)
    for piece in _pieces(rows):
        lines = (",".join(map(shown, row)) for row in piece)
        file.write(("\n".join(lines) + "\n").encode("utf-8"))


def _csv_cell(value: object) -> str:
    """One cell; exact, except for the guard against formulas, which can be taken back."""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    text = str(cell(value))
    # csv's own writer leaves a carriage return bare in some versions, which splits the line
    if any(c in text for c in ',"\r\n') or text != text.strip():
        return '"' + text.replace('"', '""') + '"'
    return text


def _write_jsonl(file: IO[bytes], columns: list[str], rows: Iterable[_Row]) -> None:
    encode = msgspec.json.Encoder().encode
    for piece in _pieces(rows):
        lines = [encode(dict(zip(columns, row, strict=True))) for row in piece]
        file.write(b"\n".join(lines) + b"\n")


def _write_parquet(file: IO[bytes], columns: list[str], rows: Iterable[_Row]) -> None:
    try:
        import pyarrow as pa  # noqa: PLC0415 (an extra)
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError as error:
        raise UnsupportedError(
            "writing Parquet needs pyarrow; install it with: pip install 'bbq-plugin[parquet]'"
        ) from error
    kinds = {"weight": pa.float64()}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in columns])
    # Into memory first: Parquet wants to know where it is in the file, a pipe does not tell.
    out = io.BytesIO()
    with pq.ParquetWriter(out, schema) as writer:
        for piece in _pieces(rows):
            arrays = [list(column) for column in zip(*piece, strict=True)]
            writer.write_table(pa.table(dict(zip(columns, arrays, strict=True)), schema=schema))
    file.write(out.getvalue())


def _pieces(rows: Iterable[_Row]) -> Iterator[list[_Row]]:
    left = iter(rows)
    while piece := list(islice(left, _PIECE)):
        yield piece
