"""Comparisons as files that this and other tools read.

| layout    | columns                         | weights                            | ties |
|-----------|---------------------------------|------------------------------------|------|
| bbq       | rater, winner, loser, weight    | as they are                        | a column |
| arena     | model_a, model_b, winner, judge | a column weight if they are not 1  | tie |
| evalica   | left, right, winner, weight     | as they are (its CLI ignores them) | tie |
| crowd-kit | worker, left, right, label      | by repeating rows                  | wins each way |
| choix     | winner, loser as codes          | by repeating rows                  | wins each way |
| preflib   | orders of alternatives, counted | by counting orders                 | {1,2} |

Where it is not known on which side an item stood, the one that won stands left. choix wants
numbers: its CSV file begins with the names of the codes as comments, which `numpy.loadtxt` passes
over, and its JSON file has them beside the pairs. PrefLib's files hold whole rankings where the
answers were rankings. What a layout cannot hold is refused, or said in a note.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from functools import lru_cache
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, Literal, get_args

import msgspec
import numpy as np

from bbq_plugin.data.rankings import information_weight
from bbq_plugin.errors import DataError, UnsupportedError, UsageError
from bbq_plugin.text import cell, counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from bbq_plugin.data.dataset import Comparisons

ExportLayout = Literal["bbq", "arena", "evalica", "crowd-kit", "choix", "preflib"]
ExportFormat = Literal["csv", "jsonl", "json", "parquet", "soc", "soi", "toc", "toi"]
# The formats of layouts that are no plain tables, and what to say to another.
_OWN_FORMATS = {"choix": ("csv", "json"), "preflib": ("toi", "toc", "soi", "soc")}
_TABLES = ("csv", "jsonl", "parquet")

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
    allowed = _OWN_FORMATS.get(layout, _TABLES)
    if file_format not in allowed:
        raise UsageError(
            f"the layout {layout} cannot be written as {file_format}; use one of the formats "
            f"{', '.join(allowed)}"
        )
    if layout == "preflib":
        return _write_preflib(data, file, file_format)
    columns, rows, notes = _LAYOUTS[layout](data)
    notes += _both_bad_note(data)
    if file_format == "csv" and layout != "bbq" and any(cell(x) != x for x in _names(data)):
        notes.append(
            "names that a spreadsheet would take for formulas have an apostrophe in front in this "
            "CSV file; the format jsonl or parquet holds them as they are"
        )
    if file_format == "json":
        pairs = list(rows)
        document = {"n_items": data.n_items, "items": data.items, "data": pairs}
        file.write(msgspec.json.encode(document) + b"\n")
    elif file_format == "csv":
        _write_csv(file, ("\n" if layout == "choix" else ",").join(columns), rows)
    elif file_format == "jsonl":
        _write_jsonl(file, columns, rows)
    else:
        _write_parquet(file, columns, rows)
    return notes


def _bbq(data: Comparisons) -> _Written:
    """One row an answer; where nothing is known of ties, one a weighted win."""
    half = None if data.answers is None else data.answers.half
    columns: list[NDArray[Any]] = [data.winner, data.loser, data.weight]
    heads = ["winner", "loser", "weight"]
    if data.has_raters:
        columns, heads = [data.rater, *columns], ["rater", *heads]
    if half is not None and half.any():
        # The first half of a tie stands for both.
        columns = [*columns[:-1], np.where(half == 1, 2.0, 1.0) * data.weight, half]
        columns, heads = [column[half < 2] for column in columns], [*heads, "tie"]
    names: dict[str, tuple[str, ...]] = {
        "rater": data.raters, "winner": data.items, "loser": data.items
    }  # fmt: skip
    shown = [
        map(names[head].__getitem__, column) if head in names else column
        for head, column in zip(heads, _lists(*columns), strict=True)
    ]
    return heads, zip(*shown, strict=True), []


def _names(data: Comparisons) -> Iterator[str]:
    yield from data.items
    yield from data.raters


def _both_bad_note(data: Comparisons) -> list[str]:
    if not data.n_both_bad:
        return []
    return [f"{counted(data.n_both_bad, 'answer')} 'both bad' written as ties"]


def _no_raters_note(data: Comparisons) -> list[str]:
    if not data.has_raters:
        return []
    return [
        f"this layout has no raters: the names of {counted(data.n_raters, 'rater')} are left out"
    ]


def _votes(data: Comparisons) -> tuple[list[list[Any]], NDArray[np.float64], list[str]]:
    """Rater, left, right and outcome (1: left, -1: right, 0: tie) of each vote, and its weight."""
    tie = _ties(data)
    first = ~np.concatenate(([False], tie[:-1]))
    weight = (np.where(tie, 2.0, 1.0) * data.weight)[first]
    side = None if data.answers is None else data.answers.side
    right = np.zeros(tie.size, dtype=np.bool_) if side is None else side < 0
    left_item = np.where(right, data.loser, data.winner)[first]
    right_item = np.where(right, data.winner, data.loser)[first]
    said = np.where(tie, 0, np.where(right, -1, 1))[first]
    notes = []
    if side is None:
        notes.append("on which side an item was shown is not known: the one that won stands left")
    return _lists(data.rater[first], left_item, right_item, said), weight, notes


def _arena(data: Comparisons) -> _Written:
    columns, weight, notes = _votes(data)
    names, who = data.items, data.raters
    heads = ["model_a", "model_b", "winner"] + ["judge"] * data.has_raters
    words = {1: "model_a", -1: "model_b", 0: "tie"}
    clash = set(words.values()) & set(names)
    if clash:
        raise DataError(
            f"an item is called {min(clash)!r}, which means an outcome in this layout; rename it "
            "(--rename), or use another layout"
        )
    weighted = not (weight == 1.0).all()
    if weighted:
        heads.append("weight")
        notes.append("some weights are not 1: bbq reads the column weight, other tools ignore it")
    rows = (
        (names[left], names[right], words[said])
        + ((who[r],) if data.has_raters else ())
        + ((w,) if weighted else ())
        for r, left, right, said, w in zip(*columns, weight.tolist(), strict=True)
    )
    return heads, rows, notes


def _evalica(data: Comparisons) -> _Written:
    columns, weight, _ = _votes(data)
    names, words = data.items, {1: "left", -1: "right", 0: "tie"}
    rows = (
        (names[left], names[right], words[said], w)
        for _, left, right, said, w in zip(*columns, weight.tolist(), strict=True)
    )
    note = (
        "some weights are not 1: give the column weight to evalica in Python (weights=), "
        "its command line ignores it"
    )
    notes = [] if (weight == 1.0).all() else [note]
    return ["left", "right", "winner", "weight"], rows, notes + _no_raters_note(data)


def _crowd_kit(data: Comparisons) -> _Written:
    times, notes = _repeats(data.weight)
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
    times, notes = _repeats(data.weight)
    rows = (
        (won, lost)
        for won, lost, n in zip(*_lists(data.winner, data.loser, times), strict=True)
        for _ in range(n)
    )
    # json writes a name on one line, whatever is in it
    heading = [f"# {code} {json.dumps(name)}" for code, name in enumerate(data.items)]
    return heading, rows, notes + _no_raters_note(data)


def _lists(*columns: NDArray[Any]) -> list[list[Any]]:
    return [column.tolist() for column in columns]


_LAYOUTS: dict[str, Callable[[Comparisons], _Written]] = {
    "bbq": _bbq, "arena": _arena, "evalica": _evalica, "crowd-kit": _crowd_kit, "choix": _choix,
}  # fmt: skip


def _ties(data: Comparisons) -> NDArray[np.bool_]:
    """Rows that with the next one make a tie: half a win, and half a win the other way.

    Where it is not known which rows are halves of ties, half a win each way is one by the data
    contract, whatever it was recorded as.
    """
    if data.answers is not None and data.answers.half is not None:
        return np.asarray(data.answers.half == 1)
    rater, won, lost, weight = data.rater, data.winner, data.loser, data.weight
    tie = np.zeros(won.size, dtype=np.bool_)
    tie[:-1] = (won[:-1] == lost[1:]) & (lost[:-1] == won[1:])
    tie[:-1] &= (rater[:-1] == rater[1:]) & (weight[:-1] == 0.5) & (weight[1:] == 0.5)
    # A run such as a>b, b>a, a>b has one tie only: a row is used once.
    for i in np.flatnonzero(tie[:-1] & tie[1:]).tolist():
        if tie[i]:
            tie[i + 1] = False
    return tie


def _repeats(weight: NDArray[np.float64]) -> tuple[NDArray[np.int64], list[str]]:
    """How often each row is written where a file has no weights."""
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
    kinds = {"weight": pa.float64(), "tie": pa.int8()}
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


# -- PrefLib: orders of alternatives, and how many voters gave each

#: The best first; alternatives of one level are equal.
_Order = tuple[tuple[int, ...], ...]


def _write_preflib(data: Comparisons, file: IO[bytes], kind: str) -> list[str]:
    for name in data.items:
        if name != name.strip() or len(name.splitlines()) != 1:
            raise DataError(
                f"item {name!r}: PrefLib has one name a line, without spaces around it; "
                "rename it (--rename), or use another layout"
            )
    notes = _both_bad_note(data) + _no_raters_note(data)
    orders = _rankings(data)
    if orders is None:
        orders, more = _pair_orders(data)
        notes += more
    tied = any(len(level) > 1 for order in orders for level in order)
    complete = all(sum(map(len, order)) == data.n_items for order in orders)
    if (tied and kind.startswith("s")) or (not complete and kind.endswith("c")):
        fits = f"{'t' if tied else 's'}o{'c' if complete else 'i'}"
        why = "some items are tied" if tied and kind.startswith("s") else (
            f"not every order has all {data.n_items} items"
        )  # fmt: skip
        kinds = " or ".join(dict.fromkeys((f".{fits}", ".toi")))
        raise DataError(f"this cannot be a .{kind} file, because {why}; write {kinds}")
    head = {
        "DATA TYPE": kind,
        "NUMBER ALTERNATIVES": data.n_items,
        "NUMBER VOTERS": orders.total(),
        "NUMBER UNIQUE ORDERS": len(orders),
    } | {f"ALTERNATIVE NAME {i}": name for i, name in enumerate(data.items, 1)}
    lines = [f"# {field}: {value}" for field, value in head.items()]
    for order, n in sorted(orders.items(), key=lambda one: (-one[1], one[0])):
        levels = (",".join(str(item + 1) for item in level) for level in order)
        braced = (f"{{{text}}}" if "," in text else text for text in levels)
        lines.append(f"{n}: {','.join(braced)}")
    file.write(("\n".join(lines) + "\n").encode("utf-8"))
    return notes


def _pair_orders(data: Comparisons) -> tuple[Counter[_Order], list[str]]:
    """Each comparison as an order of two; weights are counts."""
    (_, left, right, said), weight, _ = _votes(data)
    times, notes = _repeats(weight)
    orders: Counter[_Order] = Counter()
    for a, b, outcome, n in zip(left, right, said, times.tolist(), strict=True):
        orders[_order_of_two(a, b, outcome)] += n
    slate = None if data.answers is None else data.answers.slate
    if slate is not None and np.unique(slate[slate != 0]).size < (slate != 0).sum():
        notes.append("the answers are no complete rankings, so each pair is written by itself")
    return orders, notes


def _order_of_two(left: int, right: int, outcome: int) -> _Order:
    if outcome == 0:
        return ((min(left, right), max(left, right)),)
    return ((left,), (right,)) if outcome > 0 else ((right,), (left,))


def _rankings(data: Comparisons) -> Counter[_Order] | None:
    """The rankings that the pairs were broken out of; None where they are not such.

    Read again, each gives the same pairs with the same weights.
    """
    if data.answers is None or data.answers.slate is None:
        return None
    tie = _ties(data)
    second = np.concatenate(([False], tie[:-1]))
    slate, weight = data.answers.slate, np.where(tie, 2.0, 1.0) * data.weight
    # The pairs of one slate of one rater beside each other.
    rows = np.flatnonzero(~second)
    rows = rows[np.lexsort((rows, slate[rows], data.rater[rows]))]
    starts = (np.diff(slate[rows]) != 0) | (np.diff(data.rater[rows]) != 0) | (slate[rows][1:] == 0)
    orders: Counter[_Order] = Counter()
    for part in np.split(rows, np.flatnonzero(starts) + 1):
        won, lost, tied = _lists(data.winner[part], data.loser[part], tie[part])
        order = _weak_order(list(zip(won, lost, tied, strict=True)))
        if order is None:
            return None
        m = sum(map(len, order))
        times = weight[part] / (1.0 if m == 2 else information_weight([1] * m))
        n = round(float(times[0]))
        if n < 1 or not np.allclose(times, n, rtol=0, atol=1e-9):
            return None
        orders[order] += n
    return orders


def _weak_order(pairs: list[tuple[int, int, bool]]) -> _Order | None:
    """The levels of items whose pairs these are, each once; None if they make no such order."""
    items = {item for won, lost, _ in pairs for item in (won, lost)}
    if len({frozenset(pair[:2]) for pair in pairs}) != len(pairs) or 2 * len(pairs) != len(
        items
    ) * (len(items) - 1):
        return None
    wins = Counter(won for won, _, tied in pairs if not tied)
    for won, lost, tied in pairs:
        if wins[won] < wins[lost] or (wins[won] == wins[lost]) != tied:
            return None
    levels: dict[int, list[int]] = {}
    for item in sorted(items):
        levels.setdefault(wins[item], []).append(item)
    return tuple(tuple(levels[n]) for n in sorted(levels, reverse=True))
