"""The chart of the leaderboard over time: a line an item, its name at the end of it.

Names never become field names or expressions: they are values, made harmless by ``label``.
"""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Any

from bbq_plugin.report.charts.drawing import FONT_SIZE, Palette, finished, text_width
from bbq_plugin.report.charts.items import NARROW, SCALE_TITLE, WIDE, label

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bbq_plugin.analysis import Leaderboard
    from bbq_plugin.report.history import Moment

__all__ = [
    "HISTORY_DRAWN",
    "HISTORY_ITEMS",
    "can_be_drawn",
    "history_spec",
]

HISTORY_ITEMS = 10  # more lines than this are a thicket; the leaderboard has all items

HISTORY_DRAWN = 80  # points of a line: about ten pixels apart

_LINE = FONT_SIZE + 4  # pixels between the names at the ends of the lines

_LEADER = 22  # pixels from the end of a line to its name

_AXIS = 58  # pixels for the numbers and the title of the ratings
# Neighbours differ in their strokes, so that one can be followed through a crossing.
_DASHES = ([1, 0], [7, 3], [2, 2])


def can_be_drawn(history: Sequence[Moment]) -> bool:
    """Whether there is a line to draw: two points that differ in their number of comparisons."""
    return len({moment.n_comparisons for moment in history}) > 1


def history_spec(
    board: Leaderboard, history: Sequence[Moment], palette: Palette, *, narrow: bool
) -> dict[str, Any]:
    """Ratings of the best items of today after so many comparisons, with their intervals."""
    shown = board[:HISTORY_ITEMS]
    labels = {row.item: label(row, 14 if narrow else 26) for row in shown}
    groups = {
        row.item: "may be the best" if row.rank_best == 1 else "is not the best" for row in shown
    }
    strokes = {row.item: f"d{(row.rank - 1) % len(_DASHES)}" for row in shown}
    rows = [
        {
            "line": text,
            "group": groups[item],
            "stroke": strokes[item],
            "order": i,
            "n": moment.n_comparisons,
            "rating": place.rating,
            "lower": place.lower,
            "upper": place.upper,
        }
        for item, text in labels.items()
        for i, moment in enumerate(history)
        if (place := moment.items.get(item)) is not None
    ]
    room = min(115 if narrow else 240, max(text_width(text) for text in labels.values()))
    width = (NARROW if narrow else WIDE) - room - _LEADER - _AXIS
    height = 300 if narrow else 380
    low, high = _limits(rows)
    _cut(rows, low, high)
    ends = _ends(rows, low, high, height)
    colour = {
        "field": "group",
        "type": "nominal",
        "legend": None,
        "scale": {
            "domain": ["may be the best", "is not the best"],
            "range": [palette["accent"], palette["plain"]],
        },
    }
    across = {
        "field": "n",
        "type": "quantitative",
        "title": "comparisons so far",
        "scale": {"zero": False, "nice": False},
        "axis": {"tickCount": 2 if narrow else 6, "format": ",d", "labelFlush": not narrow},
    }
    up = {
        "type": "quantitative",
        "title": SCALE_TITLE[board.scale],
        "scale": {"domain": [low, high], "nice": False, "zero": False},
        "axis": {"tickCount": 5},
    }
    lines = {"field": "line", "type": "nominal"}
    dash = {
        "field": "stroke",
        "type": "nominal",
        "legend": None,
        "scale": {"domain": [f"d{k}" for k in range(len(_DASHES))], "range": list(_DASHES)},
    }
    layers = [
        {
            "mark": {"type": "area", "opacity": 0.08},
            "encoding": {"x": across, "y": {**up, "field": "lower"}, "y2": {"field": "upper"},
                         "color": colour, "detail": lines},
        },
        {
            "mark": {"type": "line", "strokeWidth": 2, "strokeJoin": "round"},
            "encoding": {"x": across, "y": {**up, "field": "rating"}, "color": colour,
                         "strokeDash": dash, "detail": lines,
                         "order": {"field": "order", "type": "quantitative"}},
        },
        {
            "data": {"values": ends},
            "mark": {"type": "rule", "opacity": 0.6},
            "encoding": {"x": {"value": width + 3}, "x2": {"value": width + _LEADER - 5},
                         "y": {**up, "field": "rating"}, "y2": {"field": "beside"},
                         "color": colour, "strokeDash": dash},
        },
        {
            "data": {"values": ends},
            "mark": {"type": "text", "align": "left", "baseline": "middle",
                     "fontSize": FONT_SIZE, "limit": room},
            "encoding": {"x": {"value": width + _LEADER}, "y": {**up, "field": "beside"},
                         "text": {"field": "line", "type": "nominal"},
                         "color": {"value": palette["ink"]}},
        },
    ]  # fmt: skip
    return finished({"width": width, "height": height, "layer": layers}, rows, palette)


def _limits(rows: list[dict[str, Any]]) -> tuple[float, float]:
    """Room for every line and for most intervals: the first ones are as wide as the prior."""
    ratings = [row["rating"] for row in rows]
    low, high = min(ratings), max(ratings)
    margin = max(0.12 * (high - low), 1e-6)
    last = max(row["order"] for row in rows)
    now = [row for row in rows if row["order"] == last]
    # An interval that is not known is NaN, which no comparison picks from the second place on.
    return (
        min([low - margin, *(row["lower"] for row in now)]),
        max([high + margin, *(row["upper"] for row in now)]),
    )


def _cut(rows: list[dict[str, Any]], low: float, high: float) -> None:
    """Keep the intervals inside the chart: nothing that clips is let into the page."""
    for row in rows:
        row["lower"] = max(row["rating"] if isnan(row["lower"]) else row["lower"], low)
        row["upper"] = min(row["rating"] if isnan(row["upper"]) else row["upper"], high)


def _ends(rows: list[dict[str, Any]], low: float, high: float, height: int) -> list[dict[str, Any]]:
    """The last point of each line, and where beside it a name has room of its own."""
    last = {row["line"]: row for row in rows}
    ends = sorted(last.values(), key=lambda row: -row["rating"])
    per_pixel = (high - low) / height
    wanted = [(high - row["rating"]) / per_pixel for row in ends]
    places = _apart(wanted, _LINE, height)
    return [
        {
            "line": row["line"],
            "group": row["group"],
            "stroke": row["stroke"],
            "rating": row["rating"],
            "beside": high - place * per_pixel,
        }
        for row, place in zip(ends, places, strict=True)
    ]


def _apart(wanted: list[float], step: float, height: float) -> list[float]:
    """Places in the same order, at least a step apart, each near where it wants to be.

    Names that would overlap form a block around the mean of where they want to be; blocks that
    overlap then become one.
    """
    blocks: list[tuple[float, int]] = []  # sum of (wanted − own offset in the block), number

    def top(total: float, n: int) -> float:
        return min(max(total / n, 0.0), max(0.0, height - (n - 1) * step))

    for want in wanted:
        total, n = want, 1
        while blocks and top(*blocks[-1]) + blocks[-1][1] * step > top(total, n):
            before, m = blocks.pop()
            total, n = before + total - n * m * step, m + n
        blocks.append((total, n))
    return [top(total, n) + i * step for total, n in blocks for i in range(n)]
