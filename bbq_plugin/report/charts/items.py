"""The charts of the items as Vega-Lite specifications: a dictionary, nothing drawn yet.

Names never become field names or expressions: they are values, made harmless by ``label``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bbq_plugin.report.charts.drawing import FONT_SIZE, MATRIX_STEPS, Palette, finished, text_width
from bbq_plugin.text import plain

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bbq_plugin.analysis import Leaderboard
    from bbq_plugin.analysis.leaderboard import ItemRow

__all__ = [
    "ITEMS_DRAWN",
    "MATRIX_ITEMS",
    "SCALE_TITLE",
    "label",
    "leaderboard_spec",
    "matrix_limits",
    "matrix_spec",
    "percent",
]

ITEMS_DRAWN = 60  # rows of the leaderboard's chart; the table has all items

MATRIX_ITEMS = 40

# Pixels: the room that the page has for a chart at a desk and on a phone, and how it is shared.
WIDE, NARROW = 790, 335

RANKS, BETWEEN, GAP, EDGE = 170, 32, 10, 18

MATRIX_NUMBERS = 16  # beyond, the squares are too small to hold a number

SCALE_TITLE = {
    "elo": "rating (Elo)",
    "paper": "rating (400 · θ)",
    "theta": "rating (θ, nats)",
}


def label(row: ItemRow, longest: int) -> str:
    """The name in a chart, behind the rank, so that two names cut short stay two."""
    name = plain(row.item)
    cut = name if len(name) <= longest else name[: longest - 1] + "…"
    return f"{row.rank}  {cut}"


def leaderboard_spec(board: Leaderboard, palette: Palette, *, narrow: bool) -> dict[str, Any]:
    """Ratings with their intervals; on a wide page the possible ranks beside them."""
    shown = board[:ITEMS_DRAWN]
    longest = 16 if narrow else 30
    labels = [label(row, longest) for row in shown]
    rows = [
        {
            "item": text,
            "rating": row.rating,
            "lower": row.rating_lower,
            "upper": row.rating_upper,
            "best": row.rank_best - 0.32,
            "worst": row.rank_worst + 0.32,
            "rank": row.rank,
            "group": "may be the best" if row.rank_best == 1 else "is not the best",
        }
        for text, row in zip(labels, shown, strict=True)
    ]
    colour = {
        "field": "group",
        "type": "nominal",
        "legend": None,
        "scale": {
            "domain": ["may be the best", "is not the best"],
            "range": [palette["accent"], palette["plain"]],
        },
    }
    names = {"field": "item", "type": "ordinal", "sort": None, "title": None}
    axis, room = _name_axis(labels, 130 if narrow else 270)
    height = {"step": 28 if len(shown) <= 20 else 23}
    ratings = {
        "width": (NARROW if narrow else WIDE - RANKS - BETWEEN) - EDGE - room,
        "height": height,
        "encoding": {"y": {**names, "axis": axis}, "color": colour},
        "layer": [
            {
                "mark": {"type": "rule", "strokeWidth": 3, "opacity": 0.45, "strokeCap": "round"},
                "encoding": {
                    "x": {
                        "field": "lower",
                        "type": "quantitative",
                        "scale": {"zero": False, "nice": True},
                        "title": SCALE_TITLE[board.scale],
                        "axis": {"tickCount": 4 if narrow else 6},
                    },
                    "x2": {"field": "upper"},
                },
            },
            {
                "mark": {"type": "point", "filled": True, "opacity": 1, "size": 80},
                "encoding": {"x": {"field": "rating", "type": "quantitative"}},
            },
        ],
    }
    if narrow:
        return finished(ratings, rows, palette)
    ranks = {
        "width": RANKS,
        "height": height,
        "mark": {"type": "bar", "height": 10, "cornerRadius": 5, "opacity": 0.75},
        "encoding": {
            "y": {**names, "axis": {"labels": False, "title": None}},
            "color": colour,
            "x": {
                "field": "best",
                "type": "quantitative",
                "title": "possible ranks",
                "scale": {"domain": [0.5, len(board) + 0.5], "nice": False},
                "axis": {"values": _rank_ticks(len(board)), "format": "d"},
            },
            "x2": {"field": "worst"},
        },
    }
    both = {"hconcat": [ratings, ranks], "spacing": BETWEEN, "resolve": {"scale": {"y": "shared"}}}
    return finished(both, rows, palette)


def _rank_ticks(n: int) -> list[int]:
    step = next(s for s in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**9) if n / s <= 8)
    # Steps of two from the first rank: 1 and 2 would run into each other.
    return [*range(1, n + 1, step)] if step <= 2 else [1, *range(step, n + 1, step)]


def matrix_limits(level: float) -> list[float]:
    """Where the colour changes; the outermost steps are differences beyond doubt."""
    sure = (1 + level) / 2
    inner = [0.2, 0.4, 0.6, 0.8] if sure > 0.8 else list(np.linspace(1 - sure, sure, 6)[1:-1])
    return [1 - sure, *inner, sure]


def matrix_spec(
    board: Leaderboard, better: NDArray[np.float64], palette: Palette, *, narrow: bool
) -> dict[str, Any]:
    """P(row is better than column), in steps of colour, the best items first."""
    shown = board[:MATRIX_ITEMS]
    limits = matrix_limits(board.level)
    labels = [label(row, 14 if narrow else 26) for row in shown]
    ranks = [str(row.rank) for row in shown]
    numbers = len(shown) <= MATRIX_NUMBERS
    rows = [
        {
            "row": labels[i],
            "column": ranks[j],
            "step": f"s{np.searchsorted(limits, better[i, j], side='right')}",
            "percent": percent(better[i, j]) if numbers else "",
        }
        for i in range(len(shown))
        for j in range(len(shown))
        if i != j
    ]
    steps = [f"s{k}" for k in range(MATRIX_STEPS)]
    axis, room = _name_axis(labels, 100 if narrow else 220)
    room = (NARROW if narrow else WIDE - EDGE) - room
    least = 13 if not numbers else 27 if narrow else 30
    size = max(least, min(52, int(room / len(shown))))

    def colours(prefix: str) -> dict[str, Any]:
        return {
            "field": "step",
            "type": "nominal",
            "legend": None,
            "scale": {
                "domain": steps,
                "range": [palette[f"{prefix}{k}"] for k in range(MATRIX_STEPS)],
            },
        }

    layers: list[dict[str, Any]] = [{"mark": {"type": "rect"}, "encoding": {"color": colours("m")}}]
    if numbers:
        text = {"type": "text", "fontSize": 13 if size > 38 else 11, "baseline": "middle"}
        layers.append(
            {
                "mark": text,
                "encoding": {
                    "text": {"field": "percent", "type": "nominal"},
                    "color": colours("on-m"),
                },
            }
        )
    spec = {
        "width": {"step": size},
        "height": {"step": size},
        "encoding": {
            "y": {
                "field": "row",
                "type": "ordinal",
                "sort": labels,
                "title": None,
                "axis": {**axis, "labelFontSize": max(9, min(FONT_SIZE, size - 4))},
                "scale": {"paddingInner": 0.06},
            },
            "x": {
                "field": "column",
                "type": "ordinal",
                "sort": ranks,
                "title": "… better than rank" if narrow else "… is better than the item of rank",
                "axis": {
                    "orient": "top",
                    "labelAngle": 0,
                    "titleAnchor": "start",
                    "labelFontSize": FONT_SIZE if size > 24 else 9,
                    "labelOverlap": False,
                },
                "scale": {"paddingInner": 0.06},
            },
        },
        "layer": layers,
        "resolve": {"scale": {"color": "independent"}},
    }
    return finished(spec, rows, palette)


def percent(p: float) -> str:
    """A probability in a small square; nothing estimated is 0 or 100."""
    if p < 0.005:
        return "<1"
    return ">99" if p >= 0.995 else f"{100 * p:.0f}"


def _name_axis(labels: list[str], most: float) -> tuple[dict[str, Any], float]:
    """Names flush left, ranks below each other, and the room for them; too wide ones are cut."""
    width = min(most, max(text_width(text) for text in labels))
    axis = {"labelAlign": "left", "labelPadding": width + GAP, "labelLimit": width}
    return axis, width + GAP
