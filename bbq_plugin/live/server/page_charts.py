"""The charts of the live page, as places in per cent or pixels that its templates draw."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil, floor, isnan, log10
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bbq_plugin.analysis import ItemRow, Leaderboard, RaterReport
    from bbq_plugin.analysis.agreement import PanelDivision
    from bbq_plugin.data.records import HistoryPoint

#: Items whose history is drawn; as many as there are colours.
LINES = 8
#: Items whose intervals are drawn too; more of them hide one another.
BANDS = 3
#: Raters that are drawn one by one; of more, those to be kept are counted in cells.
DOTS = 1500
_CELLS = (36, 24)
#: Items that are named at either end of the axis, and columns of raters above it.
AXIS_ENDS, COLUMNS = 8, 32


@dataclass(frozen=True)
class Bar:
    """One interval and the estimate inside it, in per cent of the width."""

    lower: float
    upper: float
    at: float


@dataclass(frozen=True)
class Bars:
    """The intervals of a leaderboard on one scale."""

    bars: list[Bar]
    low: float
    high: float
    #: Of the axis, in per cent of the width.
    ticks: list[Tick]


def bars(board: Sequence[ItemRow]) -> Bars:
    """Where the intervals of these rows stand between the lowest and the highest end."""
    low = min(row.rating_lower for row in board)
    high = max(row.rating_upper for row in board)
    span = (high - low) or 1.0

    def place(value: float) -> float:
        return round(2 + 96 * (value - low) / span, 2)

    found = [Bar(place(r.rating_lower), place(r.rating_upper), place(r.rating)) for r in board]
    marks = [Tick(place(t), f"{t:,.0f}") for t in ticks(low, high, 5)]
    return Bars(found, low, high, marks)


@dataclass(frozen=True)
class CampCell:
    """An item in a camp: its rank there, and its win share as a bar."""

    rank: int
    win_share: float
    bar: Bar


def camp_cells(board: Leaderboard, boards: Sequence[Leaderboard]) -> list[list[CampCell]]:
    """Each item of the whole panel's leaderboard in each camp; bars from 0 to 100%."""
    by_item = [{row.item: row for row in one} for one in boards]

    def cell(row: ItemRow) -> CampCell:
        ends = (row.win_share_lower, row.win_share_upper, row.win_share)
        return CampCell(row.rank, row.win_share, Bar(*(round(100 * end, 2) for end in ends)))

    return [[cell(rows[row.item]) for rows in by_item] for row in board]


@dataclass(frozen=True)
class RaterStack:
    """Raters of one camp who stand near each other."""

    x: float
    y: float
    width: float
    height: float
    camp: int
    n: int


@dataclass(frozen=True)
class AxisChart:
    """What divides the raters: bars of items from the middle, and raters by where they stand."""

    items: list[tuple[str, Bar]]
    width: int
    height: int
    left: int
    bottom: int
    blocks: list[RaterStack]
    x_ticks: list[Tick]
    y_ticks: list[Tick]


def axis_chart(division: PanelDivision, *, narrow: bool = False) -> AxisChart | None:
    """The axis along which raters differ most; None where they differ in quality alone."""
    axis = division.axis
    if axis is None:
        return None
    most = max(abs(at) for _, at in axis.items) or 1.0
    shown = axis.items
    if len(shown) > 2 * AXIS_ENDS:
        shown = (*shown[:AXIS_ENDS], *shown[-AXIS_ENDS:])
    bars = [(name, _from_middle(at / most)) for name, at in shown]
    width, height = (360, 200) if narrow else (940, 220)
    left, bottom, top, right = 46, height - 40, 10, 24
    places = [at for _, at in axis.raters]
    low, high = min(places), max(places)
    n = min(COLUMNS, max(8, int(2 * len(places) ** 0.5)))
    step = (high - low) / n or 1.0
    counts = Counter(
        (min(n - 1, int((at - low) / step)), division.member[name].camp) for name, at in axis.raters
    )
    tallest = max(sum(k for (c, _), k in counts.items() if c == column) for column in range(n))
    wide, per_rater = (width - left - right) / n, (bottom - top) / tallest
    blocks, stacked = [], [0] * n
    for (column, camp), k in sorted(counts.items()):
        stacked[column] += k
        y = bottom - stacked[column] * per_rater
        x = left + column * wide + 0.5
        blocks.append(
            RaterStack(
                round(x, 1), round(y, 1), round(wide - 1, 1), round(k * per_rater, 1), camp, k
            )
        )

    def x_of(at: float) -> float:
        return round(left + (at - low) / step * wide, 1)

    return AxisChart(
        bars, width, height, left, bottom, blocks,
        [Tick(x_of(t), f"{t:g}".replace("-", "−")) for t in ticks(low, high, 4 if narrow else 8)],
        [Tick(round(bottom - t * per_rater, 1), f"{t:,.0f}")
         for t in ticks(0, tallest, 3) if float(t).is_integer()],
    )  # fmt: skip


def _from_middle(share: float) -> Bar:
    """A bar from the middle to the right (share above 0) or to the left, in per cent."""
    end = round(50 + 49 * share, 2)
    return Bar(min(50.0, end), max(50.0, end), end)


@dataclass(frozen=True)
class Tick:
    """A mark on an axis."""

    at: float
    label: str


@dataclass(frozen=True)
class Stroke:
    """An item over time; `band` is its interval, of the first few."""

    name: str
    points: str
    band: str
    end: float
    label_y: float


@dataclass(frozen=True)
class Lines:
    """The history of the best items."""

    width: int
    height: int
    left: int
    right: int
    bottom: int
    lines: list[Stroke]
    x_ticks: list[Tick]
    y_ticks: list[Tick]


def history(
    points: Sequence[HistoryPoint], best: Sequence[str], *, narrow: bool = False
) -> Lines | None:
    """The ratings of the best items over time, or against the number of comparisons."""
    if len(points) < 2:
        return None
    timed = by_time(points)
    width, height = (360, 260) if narrow else (940, 330)
    left, right, top, bottom = 46, (96 if narrow else 168), 10, height - 34
    names = [name for name in best if any(name in m.items for m in points)][:LINES]
    low, high = _range(points, names)
    places = [_place(m, timed=timed) for m in points]
    first, last = min(places), max(places)

    def x(n: float) -> float:
        return round(left + (width - left - right) * (n - first) / max(1, last - first), 1)

    def y(rating: float) -> float:
        share = min(1.0, max(0.0, (rating - low) / max(1e-9, high - low)))
        return round(bottom - (bottom - top) * share, 1)

    placed = {
        name: [(_place(m, timed=timed), m.items[name]) for m in points if name in m.items]
        for name in names
    }
    ends = [y(here[-1][1].rating) for here in placed.values()]
    labels = _apart(ends, 15.0, top + 4, bottom)
    lines = []
    for place, (name, here) in enumerate(placed.items()):
        upper = [f"{x(n)},{y(p.rating if p.upper is None else p.upper)}" for n, p in here]
        lower = [f"{x(n)},{y(p.rating if p.lower is None else p.lower)}" for n, p in here]
        line = " ".join(f"{x(n)},{y(p.rating)}" for n, p in here)
        band = " ".join([*upper, *reversed(lower)]) if place < BANDS else ""
        lines.append(Stroke(name, line, band, ends[place], labels[place]))
    return Lines(
        width, height, left, width - right, bottom, lines,
        [Tick(x(n), label) for n, label in _x_ticks(first, last, 3 if narrow else 5, timed=timed)],
        [Tick(y(r), f"{r:,.0f}") for r in ticks(low, high, 5)],
    )  # fmt: skip


#: A history of a shorter time is drawn against the number of comparisons.
LEAST_TIME_S = 3600.0
# Steps of a time axis, in seconds: hours, days, weeks, and so on.
_STEPS_S = tuple(3600.0 * h for h in (1, 2, 3, 6, 12, 24, 48, 168, 336, 672, 2016, 8736))


def by_time(points: Sequence[HistoryPoint]) -> bool:
    """Whether the axis of a history is time."""
    moments = [point.at for point in points]
    return len(moments) > 1 and max(moments) - min(moments) >= LEAST_TIME_S


def _place(point: HistoryPoint, *, timed: bool) -> float:
    return point.at if timed else float(point.n_comparisons)


def _x_ticks(first: float, last: float, most: int, *, timed: bool) -> list[tuple[float, str]]:
    if not timed:
        return [(n, f"{n:,.0f}") for n in ticks(first, last, most)]
    step = next((s for s in _STEPS_S if (last - first) / s <= most), _STEPS_S[-1])
    form = "%d %b %H:%M" if step < 86_400 else "%d %b" if step < 2_000_000 else "%b %Y"
    begin = ceil(first / step)
    return [
        (n * step, datetime.fromtimestamp(n * step, UTC).strftime(form))
        for n in range(begin, floor(last / step) + 1)
    ]


def _range(points: Sequence[HistoryPoint], names: Sequence[str]) -> tuple[float, float]:
    """All ratings, and the intervals of the newer half: the first ones are as wide as the sky."""
    values = [m.items[name].rating for m in points for name in names if name in m.items]
    for moment in points[len(points) // 2 :]:
        for name in names[:BANDS]:
            place = moment.items.get(name)
            if place is not None:
                values += [end for end in (place.lower, place.upper) if end is not None]
    return min(values), max(values)


def _apart(wanted: list[float], gap: float, top: float, bottom: float) -> list[float]:
    """Labels near where they belong and not over one another."""
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    placed = list(wanted)
    at = top - gap
    for i in order:
        at = placed[i] = max(wanted[i], at + gap)
    over = max(0.0, at - bottom)
    limit = bottom
    for i in reversed(order):
        if over:
            placed[i] = min(placed[i], limit)
            limit = placed[i] - gap
    return [round(y, 1) for y in placed]


def ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers between both ends."""
    span = high - low
    if span <= 0 or isnan(span):
        return [low]
    step = 10 ** floor(log10(span / most))
    for factor in (1, 2, 5, 10):
        if span / (step * factor) <= most:
            step *= factor
            break
    first = ceil(low / step)
    return [n * step for n in range(first, floor(high / step) + 1)]


@dataclass(frozen=True)
class Dot:
    """A rater, or a number of them."""

    x: float
    y: float
    r: float
    verdict: str
    title: str


@dataclass(frozen=True)
class Points:
    """Raters by agreement and quality."""

    width: int
    height: int
    left: int
    bottom: int
    dots: list[Dot]
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    counted: bool
    #: Whether a quality below 0 is shown.
    signed: bool = False


def scatter(raters: RaterReport, *, narrow: bool = False) -> Points | None:
    """Quality against agreement with the ranking."""
    known = [r for r in raters if not (isnan(r.quality) or isnan(r.agreement))]
    if not known:
        return None
    width, height = (360, 280) if narrow else (940, 340)
    left, bottom, top, right = 46, height - 40, 10, 24
    lowest = min(0.4, *(r.agreement for r in known))
    # Below 0 only under bbq-signed.
    least = floor(10 * min(0.0, *(r.quality for r in known))) / 10

    def x(agreement: float) -> float:
        return round(left + 8 + (width - left - right - 8) * (agreement - lowest) / (1 - lowest), 1)

    def y(quality: float) -> float:
        up = (min(1.0, quality) - least) / (1 - least)
        return round(bottom - 6 - (bottom - top - 6) * up, 1)

    counted = len(known) > DOTS
    shown = [r for r in known if r.verdict != "keep"][:DOTS] if counted else known
    dots = [
        Dot(x(r.agreement), y(r.quality), 4.0, r.verdict, f"{r.rater}: {r.verdict}") for r in shown
    ]
    if counted:
        kept = ((x(r.agreement), y(r.quality)) for r in known if r.verdict == "keep")
        dots = _cells(kept, width, height) + dots
    shares = [t / 10 for t in range(ceil(lowest * 10), 11)]
    return Points(
        width, height, left, bottom, dots,
        [Tick(x(share), f"{share:.0%}") for share in shares][:: 2 if narrow else 1],
        [Tick(y(q / 4), f"{q / 4:g}".replace("-", "−")) for q in range(ceil(4 * least), 5)],
        counted,
        signed=least < 0,
    )  # fmt: skip


def _cells(places: Iterable[tuple[float, float]], width: int, height: int) -> list[Dot]:
    """How many raters there are in each cell of a grid."""
    wide, high = width / _CELLS[0], height / _CELLS[1]
    counts = Counter((int(x / wide), int(y / high)) for x, y in places)
    most = max(counts.values(), default=1)
    return [
        Dot(
            round((i + 0.5) * wide, 1), round((j + 0.5) * high, 1),
            round(1.5 + 6.5 * (n / most) ** 0.5, 1), "keep", f"{n:,} raters",
        )
        for (i, j), n in sorted(counts.items())
    ]  # fmt: skip
