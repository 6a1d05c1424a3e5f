"""The charts of a report as Vega-Lite specifications: for the page, and as files for a paper.

First how they look and are drawn: colours, type, SVG and PNG. Then one function for each chart.

Names never become field names or expressions: they are values, escaped by ``label``.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from functools import partial
from math import floor, isfinite, isnan
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import numpy as np

from bbq_plugin.errors import UnsupportedError
from bbq_plugin.model.objectives import LARGEST_COVARIANCE
from bbq_plugin.model.priors import Priors
from bbq_plugin.report.documents import VERDICTS, open_atomically
from bbq_plugin.text import chance, counted, plain

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from bbq_plugin.analysis import Analysis, Leaderboard
    from bbq_plugin.analysis.agreement import AxisOfTaste, CampRow, PanelDivision
    from bbq_plugin.analysis.leaderboard import ItemRow
    from bbq_plugin.analysis.raters import RaterRow
    from bbq_plugin.analysis.slices import SlicedStudy
    from bbq_plugin.analysis.stability import Evaluation
    from bbq_plugin.data.records import HistoryPoint


Palette = MappingProxyType[str, str]
MATRIX_STEPS = 7

# What the page's style sheet calls --light under the same names.
_VALUES = {
    "ink": "#1c232d", "muted": "#566070", "rule": "#e3e7ec", "axis": "#a9b2be",
    "surface": "#ffffff", "accent": "#0b5cad", "plain": "#7b8796",
    "keep": "#3f7fb5", "watch": "#c98a00", "exclude": "#c2410c",
    "camp1": "#0b5cad", "camp2": "#c2410c", "camp3": "#2f7d4f", "camp4": "#7a4fb5",
    "camp5": "#a06a00", "camp6": "#0f7f8c",
    "m0": "#a84b00", "m1": "#e08a3c", "m2": "#f7d3a8", "m3": "#eef0f3",
    "m4": "#c3dcf0", "m5": "#5fa0d3", "m6": "#10599f",
    "on-m0": "#ffffff", "on-m1": "#1c232d", "on-m2": "#1c232d", "on-m3": "#1c232d",
    "on-m4": "#1c232d", "on-m5": "#1c232d", "on-m6": "#ffffff",
}  # fmt: skip

FILE: Palette = MappingProxyType(_VALUES)
PAGE: Palette = MappingProxyType({role: f"var(--{role})" for role in _VALUES})

# The layout is computed from letter widths; these fonts have similar ones.
FONT = "Inter, 'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', sans-serif"
FONT_SIZE = 13

# Letters that are narrower or wider than most.
_NARROW, _BROAD = frozenset(" .,:;|!'()[]{}/ijlftrI-·"), frozenset("mwMW@%—…")


def text_width(text: str) -> float:
    """An upper estimate of the width of a text in pixels, made without a font."""
    ems = 0.0
    for letter in text:
        if unicodedata.east_asian_width(letter) in "WF":
            ems += 1.05
        elif letter in _NARROW:
            ems += 0.34
        elif letter in _BROAD:
            ems += 0.96
        else:
            ems += 0.7 if letter.isupper() or not letter.isascii() else 0.57
    return FONT_SIZE * ems


def _config(palette: Palette) -> dict[str, Any]:
    """The look that all charts share."""
    words = {
        "labelColor": palette["ink"], "labelFontSize": FONT_SIZE, "titleColor": palette["muted"],
        "titleFontSize": FONT_SIZE, "titleFontWeight": "normal",
    }  # fmt: skip
    return {
        "font": FONT,
        "aria": False,
        "background": None,
        "view": {"stroke": None},
        "axis": {
            **words,
            "titlePadding": 8,
            "gridColor": palette["rule"],
            "domain": False,
            "tickColor": palette["axis"],
            "ticks": False,
            "labelPadding": 6,
        },
        "axisX": {"labelOverlap": "greedy", "labelSeparation": 8, "labelFlush": False},
        "legend": words,
    }


def finished(
    spec: dict[str, Any], rows: list[dict[str, Any]], palette: Palette, **more: Any
) -> dict[str, Any]:
    """A complete specification: what is drawn, its data, the look."""
    look = {"config": _config(palette), "padding": {"left": 0, "top": 2, "right": 2, "bottom": 5}}
    return {**spec, "data": {"values": rows}, **look, **more}


# The renderer escapes what it draws. This allow-list is a second barrier: links, styles, scripts or
# images that a later release may add do not get into the page.
_ELEMENTS = {"svg", "g", "path", "line", "rect", "text", "tspan", "circle"}

_ATTRIBUTES = {
    "d", "dx", "dy", "fill", "fill-opacity", "font-family", "font-size", "font-style",
    "font-weight", "height", "opacity", "r", "stroke", "stroke-dasharray", "stroke-linecap",
    "stroke-linejoin", "stroke-opacity", "stroke-width", "text-anchor", "transform", "viewBox",
    "width", "x", "x1", "x2", "y", "y1", "y2", "cx", "cy",
}  # fmt: skip

_SAYS_NOTHING = {("opacity", "1"), ("x2", "0"), ("y2", "0"), ("transform", "translate(0,0)")}
_LONG_NUMBER = re.compile(r"-?\d+\.\d{2,}(?:e-?\d+)?")
_SVG = "http://www.w3.org/2000/svg"


def to_svg(spec: dict[str, Any]) -> str:
    """Draw a specification as a small, inert SVG element."""
    # The string comes from the renderer, which declares no entities.
    root = ET.fromstring(_converter().vegalite_to_svg(spec))  # noqa: S314
    _clean(root)
    fonts = {node.attrib["font-family"] for node in root.iter() if "font-family" in node.attrib}
    if len(fonts) == 1:
        for node in root.iter():
            node.attrib.pop("font-family", None)
        root.set("font-family", fonts.pop())
    root.set("xmlns", _SVG)
    return ET.tostring(root, encoding="unicode", short_empty_elements=True)


def to_png(spec: dict[str, Any], scale: float = 3.0) -> bytes:
    """Draw a specification as PNG; at scale 3 a chart of 18 cm has 300 dots an inch."""
    png: bytes = _converter().vegalite_to_png(spec, scale=scale)
    return png


def _converter() -> Any:
    try:
        import vl_convert  # noqa: PLC0415 (84 MB that only charts need)
    except ImportError:
        raise UnsupportedError(
            "charts need vl-convert-python, which is not installed; "
            "run: pip install 'bbq-plugin[charts]'"
        ) from None
    return vl_convert


def _clean(node: ET.Element) -> None:
    node.tag = node.tag.removeprefix(f"{{{_SVG}}}")
    node.attrib = {
        key: _shorter(value)
        for key, value in node.attrib.items()
        if key in _ATTRIBUTES and (key, value) not in _SAYS_NOTHING
    }
    for child in list(node):
        if child.tag.removeprefix(f"{{{_SVG}}}") not in _ELEMENTS or _invisible(child):
            node.remove(child)
            continue
        _clean(child)
        if child.tag == "g" and not len(child) and not child.text:
            node.remove(child)


def _invisible(node: ET.Element) -> bool:
    return node.get("display") == "none" or node.get("class") in ("background", "foreground")


def _shorter(value: str) -> str:
    return _LONG_NUMBER.sub(lambda m: f"{float(m[0]):.1f}".removesuffix(".0"), value)


@dataclass(frozen=True)
class Chart:
    """One chart for a wide and for a narrow screen, with a description for screen readers."""

    wide: Any
    narrow: Any
    says: str


def chart(spec: Callable[..., dict[str, Any]], says: str) -> Chart:
    """Draw what a specification gives when it is called with ``narrow``."""
    return Chart(drawn(spec(narrow=False)), drawn(spec(narrow=True)), says)


def drawn(spec: dict[str, Any]) -> Any:
    """The chart as markup: the renderer's output, cleaned of everything but shapes and text."""
    from markupsafe import Markup  # noqa: PLC0415 (comes with jinja2)

    return Markup(to_svg(spec))  # noqa: S704


ITEMS_DRAWN = 60  # rows of the leaderboard's chart; the table has all items
MATRIX_ITEMS = 40

# Pixels: the room that the page has for a chart at a desk and on a phone, and how it is shared.
WIDE, NARROW = 790, 335
RANKS, BETWEEN, GAP, EDGE = 170, 32, 10, 18
MATRIX_NUMBERS = 16  # beyond, the squares are too small to hold a number
HISTORY_ITEMS = 10  # more lines than this are hard to follow; the leaderboard has all items
HISTORY_DRAWN = 80  # points of a line: about ten pixels apart
_LINE = FONT_SIZE + 4  # pixels between the names at the ends of the lines
_LEADER = 22  # pixels from the end of a line to its name
_AXIS = 58  # pixels for the numbers and the title of the ratings
_GROUPS = ("may be the best", "is not the best")
# Neighbours differ in their strokes, so that one can be followed through a crossing.
_DASHES = ([1, 0], [7, 3], [2, 2])
_SHAPES = {"keep": "circle", "watch": "triangle-up", "exclude": "square"}
DOTS_DRAWN = 400  # raters drawn one by one; beyond, near ones share a dot whose area counts them
GRID = 40  # near: within the same fortieth of either axis

# The small chart on a rater's page: of fixed size, because the page puts a mark into it.
_PLOT_WIDTH, _PLOT_HEIGHT = 250, 150
_MARGIN = {"left": 40, "top": 12, "right": 14, "bottom": 42}
SMALL_WIDTH = _PLOT_WIDTH + _MARGIN["left"] + _MARGIN["right"]
SMALL_HEIGHT = _PLOT_HEIGHT + _MARGIN["top"] + _MARGIN["bottom"]
SCALE_TITLE = {"elo": "rating (Elo)", "paper": "rating (400 · θ)", "theta": "rating (θ, nats)"}


def label(row: ItemRow, longest: int) -> str:
    """Rank and name; the rank keeps two shortened names distinct."""
    return f"{row.rank}  {_cut_name(row.item, longest)}"


def _group(row: ItemRow) -> str:
    return _GROUPS[0] if row.rank_best == 1 else _GROUPS[1]


def _numbers(field: str, **more: Any) -> dict[str, Any]:
    """A column of numbers, as a chart shows it."""
    return {"field": field, "type": "quantitative", **more}


def _kinds(field: str, values: Sequence[str], shown_as: Sequence[Any]) -> dict[str, Any]:
    """A column of few values, and the colour, shape or stroke of each."""
    scale = {"domain": list(values), "range": list(shown_as)}
    return {"field": field, "type": "nominal", "legend": None, "scale": scale}


def leaderboard_spec(board: Leaderboard, palette: Palette, *, narrow: bool) -> dict[str, Any]:
    """Ratings with their intervals; on a wide page the possible ranks beside them.

    Of a divided panel it is the win shares that items are ordered by.
    """
    by = board.ordered_by
    shown = board[:ITEMS_DRAWN]
    longest = 16 if narrow else 30
    labels = [label(row, longest) for row in shown]
    rows = [
        {
            "item": text,
            "rating": row[by],
            "lower": row[f"{by}_lower"],
            "upper": row[f"{by}_upper"],
            "best": row.rank_best - 0.32,
            "worst": row.rank_worst + 0.32,
            "rank": row.rank,
            "group": _group(row),
        }
        for text, row in zip(labels, shown, strict=True)
    ]
    colour = _kinds("group", _GROUPS, (palette["accent"], palette["plain"]))
    names = {"field": "item", "type": "ordinal", "sort": None, "title": None}
    axis, room = _name_axis(labels, 130 if narrow else 270)
    height = {"step": 28 if len(shown) <= 20 else 23}
    lower = _numbers(
        "lower",
        scale={"zero": False, "nice": True},
        title=SCALE_TITLE[board.scale] if by == "rating" else "win share",
        axis={"tickCount": 4 if narrow else 6, **({} if by == "rating" else {"format": "%"})},
    )
    ratings = {
        "width": (NARROW if narrow else WIDE - RANKS - BETWEEN) - EDGE - room,
        "height": height,
        "encoding": {"y": {**names, "axis": axis}, "color": colour},
        "layer": [
            {
                "mark": {"type": "rule", "strokeWidth": 3, "opacity": 0.45, "strokeCap": "round"},
                "encoding": {"x": lower, "x2": {"field": "upper"}},
            },
            {
                "mark": {"type": "point", "filled": True, "opacity": 1, "size": 80},
                "encoding": {"x": _numbers("rating")},
            },
        ],
    }
    if narrow:
        return finished(ratings, rows, palette)
    best = _numbers(
        "best",
        title="possible ranks",
        scale={"domain": [0.5, len(board) + 0.5], "nice": False},
        axis={"values": _rank_ticks(len(board)), "format": "d"},
    )
    no_names = {**names, "axis": {"labels": False, "title": None}}
    ranks = {
        "width": RANKS,
        "height": height,
        "mark": {"type": "bar", "height": 10, "cornerRadius": 5, "opacity": 0.75},
        "encoding": {"y": no_names, "color": colour, "x": best, "x2": {"field": "worst"}},
    }
    both = {"hconcat": [ratings, ranks], "spacing": BETWEEN, "resolve": {"scale": {"y": "shared"}}}
    return finished(both, rows, palette)


def slices_spec(study: SlicedStudy, palette: Palette, *, narrow: bool) -> dict[str, Any]:
    """The ratings of the first slices side by side, items in the order of all answers."""
    board = study.overall.leaderboard
    shown = board[:CAMP_ITEMS]
    labels = {row.item: label(row, 14 if narrow else 28) for row in shown}
    slices = list(study.groups)[: len(_CAMP_SHAPES)]
    # A number keeps two shortened names distinct.
    names = {name: f"{at}  {_cut_name(name, 24)}" for at, name in enumerate(slices, start=1)}
    rows = [
        {
            "item": labels[cell.item], "slice": names[cell.slice], "rating": cell.rating,
            "lower": cell.rating_lower, "upper": cell.rating_upper,
        }
        for cell in study.cells
        if cell.slice in names and cell.item in labels
    ]  # fmt: skip
    kinds = list(names.values())
    legend = {
        "title": None, "orient": "top", "symbolOpacity": 1, "columns": 1 if narrow else 3,
        "labelLimit": 320,
    }  # fmt: skip
    colours = [palette[f"camp{at}"] for at in range(1, len(kinds) + 1)]
    axis, room = _name_axis(list(labels.values()), 120 if narrow else 260)
    down = {
        "field": "item", "type": "ordinal", "sort": list(labels.values()), "title": None,
        "axis": {**axis, "grid": True, "tickBand": "extent"}, "scale": {"paddingInner": 0.3},
    }  # fmt: skip
    lower = _numbers(
        "lower", title=SCALE_TITLE[board.scale], scale={"zero": False}, axis={"tickCount": 5}
    )
    spec = {
        "width": (NARROW if narrow else WIDE) - EDGE - room,
        "height": {"step": 13, "for": "offset"},
        "encoding": {
            "y": down, "yOffset": {"field": "slice", "type": "nominal", "sort": kinds},
            "color": {**_kinds("slice", kinds, colours), "legend": legend},
        },
        "layer": [
            {
                "mark": {"type": "rule", "strokeWidth": 3, "opacity": 0.4, "strokeCap": "round"},
                "encoding": {"x": lower, "x2": {"field": "upper"}},
            },
            {
                "mark": {"type": "point", "filled": True, "opacity": 1, "size": 60},
                "encoding": {
                    "x": _numbers("rating"),
                    "shape": {**_kinds("slice", kinds, _CAMP_SHAPES), "legend": legend},
                },
            },
        ],
    }  # fmt: skip
    return finished(spec, rows, palette)


_WITHOUT, _EQUAL = "without covariates", "covariates held equal"


def held_spec(
    board: Leaderboard, without: Leaderboard, palette: Palette, *, narrow: bool
) -> dict[str, Any]:
    """Ratings with covariates held equal, beside those without: an arrow for each item."""
    shown = board[:ITEMS_DRAWN]
    labels = [label(row, 14 if narrow else 28) for row in shown]
    before = {row.item: row.rating for row in without}
    rows = [
        {
            "item": text, "rating": rating, "which": which, "lower": row.rating_lower,
            "upper": row.rating_upper, "before": before[row.item],
        }
        for text, row in zip(labels, shown, strict=True)
        for which, rating in ((_WITHOUT, before[row.item]), (_EQUAL, row.rating))
    ]  # fmt: skip
    axis, room = _name_axis(labels, 130 if narrow else 270)
    kinds = (_WITHOUT, _EQUAL)
    legend = {"title": None, "orient": "top", "symbolOpacity": 1, "columns": 1 if narrow else 2}
    colour = {
        **_kinds("which", kinds, (palette["plain"], palette["accent"])), "legend": legend,
    }  # fmt: skip
    shape = {**_kinds("which", kinds, ("diamond", "circle")), "legend": legend}
    title = SCALE_TITLE[board.scale]
    lower = _numbers("lower", title=title, scale={"zero": False}, axis={"tickCount": 5})
    down = {"field": "item", "type": "ordinal", "sort": labels, "title": None, "axis": axis}
    spec = {
        "width": (NARROW if narrow else WIDE) - EDGE - room,
        "height": {"step": 28 if len(shown) <= 20 else 23},
        "encoding": {"y": down},
        "layer": [
            {
                "mark": {"type": "rule", "strokeWidth": 3, "opacity": 0.3, "strokeCap": "round",
                         "color": palette["accent"]},
                "encoding": {"x": lower, "x2": {"field": "upper"}},
            },
            {
                "mark": {"type": "rule", "strokeWidth": 1, "color": palette["plain"]},
                "encoding": {"x": _numbers("rating"), "x2": {"field": "before"}},
            },
            {
                "mark": {"type": "point", "filled": True, "opacity": 1, "size": 70},
                "encoding": {"x": _numbers("rating"), "color": colour, "shape": shape},
            },
        ],
    }  # fmt: skip
    return finished(spec, rows, palette)


def _rank_ticks(n: int) -> list[int]:
    step = next(s for s in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**9) if n / s <= 8)
    # Steps of two from the first rank: 1 and 2 would run into each other.
    return [*range(1, n + 1, step)] if step <= 2 else [1, *range(step, n + 1, step)]


def matrix_limits(level: float) -> list[float]:
    """Where the colour changes; the outermost steps are significant differences."""
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
    axis, room = _name_axis(labels, 100 if narrow else 220)
    room = (NARROW if narrow else WIDE - EDGE) - room
    least = 13 if not numbers else 27 if narrow else 30
    size = max(least, min(52, int(room / len(shown))))

    def colours(prefix: str) -> dict[str, Any]:
        steps = range(MATRIX_STEPS)
        return _kinds("step", [f"s{k}" for k in steps], [palette[f"{prefix}{k}"] for k in steps])

    layers: list[dict[str, Any]] = [{"mark": {"type": "rect"}, "encoding": {"color": colours("m")}}]
    if numbers:
        text = {"type": "text", "fontSize": 13 if size > 38 else 11, "baseline": "middle"}
        said = {"text": {"field": "percent", "type": "nominal"}, "color": colours("on-m")}
        layers.append({"mark": text, "encoding": said})
    across = {
        "field": "column",
        "sort": ranks,
        "title": "… better than rank" if narrow else "… is better than the item of rank",
        "axis": {
            "orient": "top",
            "labelAngle": 0,
            "titleAnchor": "start",
            "labelFontSize": FONT_SIZE if size > 24 else 9,
            "labelOverlap": False,
        },
    }
    axis["labelFontSize"] = max(9, min(FONT_SIZE, size - 4))
    down = {"field": "row", "sort": labels, "title": None, "axis": axis}
    squares = {"type": "ordinal", "scale": {"paddingInner": 0.06}}
    spec = {
        "width": {"step": size},
        "height": {"step": size},
        "encoding": {"y": {**down, **squares}, "x": {**across, **squares}},
        "layer": layers,
        "resolve": {"scale": {"color": "independent"}},
    }
    return finished(spec, rows, palette)


def percent(p: float) -> str:
    """A probability in a small square; nothing estimated is 0 or 100."""
    return chance(p).removesuffix("%")


def _name_axis(labels: list[str], most: float) -> tuple[dict[str, Any], float]:
    """An axis of left-aligned names and its width; long names are cut."""
    width = min(most, max(text_width(text) for text in labels))
    axis = {"labelAlign": "left", "labelPadding": width + GAP, "labelLimit": width}
    return axis, width + GAP


def can_be_drawn(history: Sequence[HistoryPoint]) -> bool:
    """Whether there is a line to draw: two points that differ in their number of comparisons."""
    return len({point.n_comparisons for point in history}) > 1


def history_spec(
    board: Leaderboard, history: Sequence[HistoryPoint], palette: Palette, *, narrow: bool
) -> dict[str, Any]:
    """Ratings of the best items of today after so many comparisons, with their intervals."""
    shown = board[:HISTORY_ITEMS]
    labels = [label(row, 14 if narrow else 26) for row in shown]
    rows = [
        {
            "line": text,
            "group": _group(row),
            "stroke": f"d{(row.rank - 1) % len(_DASHES)}",
            "order": i,
            "n": point.n_comparisons,
            "rating": place.rating,
            "lower": place.lower,
            "upper": place.upper,
        }
        for row, text in zip(shown, labels, strict=True)
        for i, point in enumerate(history)
        if (place := point.items.get(row.item)) is not None
    ]
    room = min(115 if narrow else 240, max(map(text_width, labels)))
    width = (NARROW if narrow else WIDE) - room - _LEADER - _AXIS
    height = 300 if narrow else 380
    low, high = _limits(rows)
    _cut(rows, low, high)
    ends = _ends(rows, low, high, height)
    colour = _kinds("group", _GROUPS, (palette["accent"], palette["plain"]))
    across = _numbers(
        "n",
        title="comparisons so far",
        scale={"zero": False, "nice": False},
        axis={"tickCount": 2 if narrow else 6, "format": ",d", "labelFlush": not narrow},
    )
    up = {
        "type": "quantitative",
        "title": SCALE_TITLE[board.scale],
        "scale": {"domain": [low, high], "nice": False, "zero": False},
        "axis": {"tickCount": 5},
    }
    lines = {"field": "line", "type": "nominal"}
    dash = _kinds("stroke", [f"d{k}" for k in range(len(_DASHES))], _DASHES)
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
                         "order": _numbers("order")},
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
        {**row, "beside": high - place * per_pixel} for row, place in zip(ends, places, strict=True)
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


@dataclass(frozen=True)
class Scatter:
    """Dots, and the lower ends of both axes (the upper ends are 1)."""

    dots: list[dict[str, Any]]
    least_agreement: float
    least_quality: float

    @classmethod
    def of(cls, raters: Iterable[RaterRow]) -> Scatter | None:
        """The dots of all raters with a known quality; None if there are none."""
        known = [row for row in raters if isfinite(row.quality) and isfinite(row.agreement)]
        if not known:
            return None
        step = None if len(known) <= DOTS_DRAWN else GRID
        places = Counter(
            (_snap(row.agreement, step), _snap(row.quality, step), row.verdict) for row in known
        )
        # The few that matter are drawn last, on top of the many.
        in_order = sorted(places.items(), key=lambda place: VERDICTS.index(place[0][2]))
        dots = [
            {"agreement": x, "quality": y, "verdict": verdict, "count": count}
            for (x, y, verdict), count in in_order
        ]
        return cls(
            dots,
            _tenth_below(min([0.4, *(row.agreement for row in known)])),
            _tenth_below(min([0.0, *(row.quality for row in known)])),
        )

    @property
    def grouped(self) -> bool:
        """Whether a dot may stand for several raters."""
        return any(dot["count"] > 1 for dot in self.dots)

    def spec(self, palette: Palette, *, narrow: bool) -> dict[str, Any]:
        """The chart of the page, or of a paper."""
        width, height = (285, 250) if narrow else (720, 380)
        layers = self._layers(palette, width, height, ticks=4 if narrow else 6)
        return finished(layers, self.dots, palette)

    def small_spec(self, palette: Palette) -> dict[str, Any]:
        """The chart on a rater's page, into which their own mark is put."""
        layers = self._layers(palette, _PLOT_WIDTH, _PLOT_HEIGHT, ticks=3, small=True)
        return finished(layers, self.dots, palette, autosize={"type": "none"}, padding=_MARGIN)

    def place(self, row: RaterRow) -> tuple[float, float]:
        """Where a rater is in the small chart, in its pixels."""
        across = (row.agreement - self.least_agreement) / (1 - self.least_agreement)
        up = (row.quality - self.least_quality) / (1 - self.least_quality)
        return _MARGIN["left"] + _PLOT_WIDTH * across, _MARGIN["top"] + _PLOT_HEIGHT * (1 - up)

    def _layers(
        self, palette: Palette, width: int, height: int, ticks: int, *, small: bool = False
    ) -> dict[str, Any]:
        present = [v for v in VERDICTS if any(dot["verdict"] == v for dot in self.dots)]
        legend = {"orient": "top", "title": None, "symbolOpacity": 1, "symbolSize": 90}
        shown = {"legend": legend if len(present) > 1 and not small else None}
        across = {"domain": [self.least_agreement, 1], "nice": False, "zero": False}
        dots = {
            "mark": {"type": "point", "filled": True, "opacity": 0.75, "strokeWidth": 0},
            "encoding": {
                "x": _numbers(
                    "agreement",
                    scale=across,
                    title="agreement with the ranking",
                    axis={"format": "%", "tickCount": ticks, "labelFlush": True},
                ),
                "y": _numbers(
                    "quality",
                    scale={"domain": [self.least_quality, 1], "nice": False},
                    title=None if small else "rater quality q",
                    axis={"tickCount": 3 if small else 5},
                ),
                "size": self._size(palette, small=small),
                "color": {**_kinds("verdict", present, [palette[v] for v in present]), **shown},
                "shape": {**_kinds("verdict", present, [_SHAPES[v] for v in present]), **shown},
            },
        }
        chance = {
            "data": {"values": [{"agreement": 0.5, "what": "random"}]},
            "encoding": {"x": _numbers("agreement", scale=across)},
            "layer": [
                {"mark": {"type": "rule", "strokeDash": [4, 4], "color": palette["axis"]}},
                {
                    "mark": {"type": "text", "align": "left", "baseline": "top", "dx": 5, "dy": 5,
                             "fontSize": 11, "color": palette["muted"]},
                    "encoding": {"y": {"value": 0}, "text": {"field": "what"}},
                },
            ],
        }  # fmt: skip
        return {"width": width, "height": height, "layer": [chance, dots]}

    def _size(self, palette: Palette, *, small: bool) -> dict[str, Any]:
        if not self.grouped:
            return {"value": 28 if small else 70 if len(self.dots) <= 150 else 44}
        most = max(dot["count"] for dot in self.dots)
        legend = {
            "title": "raters",
            "values": sorted({1, (most + 1) // 2, most}),
            "orient": "bottom",
            "format": "d",
            "symbolFillColor": palette["muted"],
            "symbolStrokeColor": "transparent",
        }
        # By area, but so that a single rater can still be seen.
        scale = {"domain": [1, most], "range": [12, 100] if small else [20, 420]}
        return _numbers("count", scale=scale, legend=None if small else legend)


def _snap(value: float, step: int | None) -> float:
    return value if step is None else round(value * step) / step


def _tenth_below(value: float) -> float:
    return floor(value * 10) / 10


# -- a divided panel

CAMP_ITEMS = 40  # rows of the chart of camps; their tables have all items
AXIS_ITEMS = 20  # the most dividing ones, half at either end
_BINS = (48, 24)
_CAMP_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")


def camp_name(row: CampRow) -> str:
    """A camp in the legend of a chart."""
    group = "inverted group" if row.inverted else "camp"
    return f"{group} {row.camp} ({counted(row.n_raters, 'rater')})"


def _camp_kinds(
    field: str, division: PanelDivision, palette: Palette, **legend: Any
) -> dict[str, Any]:
    names = [camp_name(row) for row in division]
    colours = [palette[f"camp{row.camp}"] for row in division]
    kinds = _kinds(field, names, colours)
    shown = {"title": None, "orient": "top", "symbolOpacity": 1, "columns": 1, "labelLimit": 320}
    return {**kinds, "legend": {**shown, **legend}} if len(names) > 1 else kinds


def camps_spec(
    board: Leaderboard, division: PanelDivision, boards: Sequence[Leaderboard], palette: Palette,
    *, narrow: bool,
) -> dict[str, Any]:  # fmt: skip
    """The win shares of each camp side by side, items in the order of the whole panel."""
    shown = board[:CAMP_ITEMS]
    labels = {row.item: label(row, 14 if narrow else 28) for row in shown}
    rows = [
        {
            "item": labels[row.item],
            "camp": camp_name(division[at]),
            "share": row.win_share,
            "lower": row.win_share_lower,
            "upper": row.win_share_upper,
        }
        for at, one in enumerate(boards)
        for row in one
        if row.item in labels
    ]
    names = [camp_name(row) for row in division]
    axis, room = _name_axis(list(labels.values()), 120 if narrow else 260)
    colour = _camp_kinds("camp", division, palette, columns=1 if narrow else 3)
    shape = _kinds("camp", names, _CAMP_SHAPES[: len(names)])
    down = {
        "field": "item", "type": "ordinal", "sort": list(labels.values()), "title": None,
        "axis": {**axis, "grid": True, "tickBand": "extent"}, "scale": {"paddingInner": 0.3},
    }  # fmt: skip
    beside = {"field": "camp", "type": "nominal", "sort": names}
    across = _numbers(
        "lower",
        scale={"domain": [0, 1], "nice": False},
        title="win share in the camp" if narrow else "win share among the camp's raters",
        axis={"format": "%", "tickCount": 3 if narrow else 6, "labelFlush": True},
    )
    spec = {
        "width": (NARROW if narrow else WIDE) - EDGE - room,
        "height": {"step": 13, "for": "offset"},
        "encoding": {"y": down, "yOffset": beside, "color": colour},
        "layer": [
            {
                "mark": {"type": "rule", "strokeWidth": 3, "opacity": 0.4, "strokeCap": "round"},
                "encoding": {"x": across, "x2": {"field": "upper"}},
            },
            {
                "mark": {"type": "point", "filled": True, "opacity": 1, "size": 60},
                "encoding": {
                    "x": _numbers("share"), "shape": {**shape, "legend": colour["legend"]},
                },
            },
        ],
    }  # fmt: skip
    return finished(spec, rows, palette)


def axis_spec(
    board: Leaderboard, division: PanelDivision, axis: AxisOfTaste, palette: Palette, *,
    narrow: bool,
) -> dict[str, Any]:  # fmt: skip
    """Which items divide the panel, and below where the raters stand."""
    items = axis.items
    if len(items) > AXIS_ITEMS:
        half = AXIS_ITEMS // 2
        items = (*items[:half], *items[-half:])
    longest = 14 if narrow else 30
    ends = ("right", "left")
    by_item = {row.item: label(row, longest) for row in board}
    names = [by_item[item] for item, _ in items]
    bars = [
        {"item": text, "at": at, "end": ends[at < 0]}
        for text, (_, at) in zip(names, items, strict=True)
    ]
    labels, room = _name_axis(names, 120 if narrow else 260)
    width = (NARROW if narrow else WIDE) - EDGE - room
    end = _kinds("end", ends, (palette["accent"], palette["plain"]))
    preferred = {
        "data": {"values": bars},
        "width": width,
        "height": {"step": 20},
        "mark": {"type": "bar", "height": 10, "cornerRadius": 3},
        "encoding": {
            "y": {"field": "item", "type": "ordinal", "sort": names, "title": None, "axis": labels},
            "x": _numbers("at", title="preference of a rater at +1 (log odds)",
                          axis={"tickCount": 3 if narrow else 6, "labelFlush": True}),
            "color": end,
        },
    }  # fmt: skip
    colour: dict[str, Any] = {"value": palette["accent"]}
    if division.divided:
        colour = _camp_kinds("camp", division, palette, columns=1 if narrow else 3)
    unit = "sd" if narrow else "standard deviations"
    raters = {
        "data": {"values": _binned(axis, division, _BINS[narrow])},
        "width": width,
        "height": 110 if narrow else 140,
        "mark": {"type": "bar"},
        "encoding": {
            "x": _numbers("from", title=f"where each rater stands ({unit})",
                          axis={"tickCount": 4 if narrow else 8, "labelFlush": True}, bin="binned"),
            "x2": {"field": "to"},
            "y": _numbers("n", title="raters", stack="zero",
                          axis={"tickCount": 3, "format": "d", "tickMinStep": 1}),
            "color": colour,
        },
    }  # fmt: skip
    both = {
        "vconcat": [preferred, raters],
        "spacing": 24,
        "resolve": {"scale": {"color": "independent"}},
    }
    return finished(both, [], palette)


def _cut_name(text: str, longest: int) -> str:
    name = plain(text)
    return name if len(name) <= longest else name[: longest - 1] + "…"


def _binned(axis: AxisOfTaste, division: PanelDivision, most: int) -> list[dict[str, Any]]:
    """How many raters stand where, by camp."""
    at = np.array([place for _, place in axis.raters])
    edges = np.histogram_bin_edges(at, bins=min(most, max(8, int(2 * at.size**0.5))))
    camp = np.array([division.member[name].camp for name, _ in axis.raters])
    rows = []
    for row in division:
        counts, _ = np.histogram(at[camp == row.camp], bins=edges)
        rows += [
            {"from": float(low), "to": float(high), "n": int(n), "camp": camp_name(row)}
            for low, high, n in zip(edges[:-1], edges[1:], counts, strict=True)
            if n
        ]
    return rows


def division_specs(
    analysis: Analysis, palette: Palette
) -> dict[str, Callable[..., dict[str, Any]]]:
    """The charts of a divided panel by name, as functions of ``narrow``; none for one taste."""
    board, division = analysis.leaderboard, analysis.division
    specs: dict[str, Callable[..., dict[str, Any]]] = {}
    if division.divided:
        specs["camps"] = partial(camps_spec, board, division, analysis.camp_boards, palette)
    if division.axis is not None:
        specs["disagreement"] = partial(axis_spec, board, division, division.axis, palette)
    return specs


_CURVES = {"top1": "same best item", "tau": "Kendall's τ with all data"}
_AXES = {"raters": "raters", "comparisons": "comparisons of each rater"}


def _model_kinds(models: Sequence[str], palette: Palette, **legend: Any) -> dict[str, Any]:
    colours = [palette[f"camp{at}"] for at in range(1, len(models) + 1)]
    shown = {"title": None, "orient": "top", "symbolOpacity": 1, **legend}
    return {**_kinds("model", models, colours), "legend": shown}


def growth_spec(found: Evaluation, by: str, palette: Palette, *, narrow: bool) -> dict[str, Any]:
    """The same best item, and Kendall's tau, against raters or their comparisons, by model."""
    models = list(dict.fromkeys(row.model for row in found.growth))
    shown = [row for row in found.growth if row.by == by]
    rows = [
        {"model": row.model, "n": row.n}
        | {
            f"{what}{end}": row[f"{what}{end}"]
            for what in _CURVES
            for end in ("", "_lower", "_upper")
        }
        for row in shown
    ]
    top = max(row.n for row in shown)
    ticks = [n for n in (2, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000) if n <= top]
    across = _numbers(
        "n", title=_AXES[by], scale={"type": "log", "nice": False},
        axis={"values": ticks, "grid": False, "format": "d"},
    )  # fmt: skip
    colour = _model_kinds(models, palette, columns=1 if narrow else 3)
    dash = {**_kinds("model", models, _DASHES * 2), "legend": None}
    least = min(0.0, *(row.tau_lower for row in shown))

    def panel(what: str) -> dict[str, Any]:
        up: dict[str, Any] = {
            "title": _CURVES[what],
            "scale": {"domain": [0.0 if what == "top1" else least, 1.0], "nice": False},
        }
        if what == "top1":
            up["axis"] = {"format": "%"}
        return {
            "width": (NARROW if narrow else (WIDE - BETWEEN) // 2) - EDGE - _AXIS,
            "height": 210,
            "encoding": {"x": across, "color": colour},
            "layer": [
                {
                    "mark": {"type": "area", "opacity": 0.12, "line": False},
                    "encoding": {
                        "y": _numbers(f"{what}_lower", **up), "y2": {"field": f"{what}_upper"},
                    },
                },
                {
                    "mark": {"type": "line", "strokeWidth": 2,
                             "point": {"size": 28, "filled": True}},
                    "encoding": {"y": _numbers(what, **up), "strokeDash": dash},
                },
            ],
        }  # fmt: skip

    panels = [panel(what) for what in _CURVES]
    both = {"vconcat" if narrow else "hconcat": panels, "spacing": BETWEEN}
    return finished(both, rows, palette)


def agreement_spec(found: Evaluation, palette: Palette, *, narrow: bool) -> dict[str, Any]:
    """Quality of each rater against agreement with the ranking, by group."""
    groups = sorted({dot.group for dot in found.agreement})[: len(_CAMP_SHAPES)]
    r = {row.group: row.correlation for row in found.correlations}
    names = {
        group: (_cut_name(group, 30) if group else "raters")
        + ("" if isnan(r[group]) else f" (r = {r[group]:.2f})")
        for group in groups
    }
    rows = [
        {"group": names[dot.group], "quality": dot.quality, "agreement": dot.agreement}
        for dot in found.agreement
        if dot.group in names
    ]
    kinds = list(names.values())
    legend = {"title": None, "orient": "top", "symbolOpacity": 1, "columns": 1 if narrow else 3}
    colours = [palette[f"camp{at}"] for at in range(1, len(kinds) + 1)]
    least = _tenth_below(min([0.4, *(dot.agreement for dot in found.agreement)]))
    spec = {
        "width": (NARROW if narrow else WIDE // 2) - EDGE - _AXIS,
        "height": 250,
        "mark": {"type": "point", "filled": True, "opacity": 0.75, "size": 50},
        "encoding": {
            "x": _numbers("agreement", title="agreement with the ranking", axis={"format": "%"},
                          scale={"domain": [least, 1], "nice": False}),
            "y": _numbers("quality", title="quality", scale={"domain": [0, 1], "nice": False}),
            "color": {**_kinds("group", kinds, colours), "legend": legend},
            "shape": {**_kinds("group", kinds, _CAMP_SHAPES), "legend": legend},
        },
    }  # fmt: skip
    return finished(spec, rows, palette)


def times_spec(found: Evaluation, palette: Palette, *, narrow: bool) -> dict[str, Any]:
    """The time of one fit of each model."""
    rows = [
        {"model": row.model, "ms": 1000 * row.seconds / found.stability.resamples}
        for row in found.stability
    ]
    spec = {
        "width": (NARROW if narrow else WIDE // 2) - EDGE - 90,
        "height": {"step": 26},
        "mark": {"type": "bar", "height": 12, "cornerRadius": 3, "color": palette["accent"]},
        "encoding": {
            "y": {"field": "model", "type": "ordinal", "sort": None, "title": None},
            "x": _numbers("ms", title="milliseconds of one fit to a resample"),
        },
    }
    return finished(spec, rows, palette)


def more_raters_spec(found: Evaluation, palette: Palette, *, narrow: bool) -> dict[str, Any]:
    """The forecast: tau with the ranking of all such raters, by the number of raters."""
    rows = [
        {"n": row.n_raters, "tau": row.tau, "lower": row.tau_lower, "upper": row.tau_upper}
        for row in found.forecast
    ]
    least = _tenth_below(min(row.tau_lower for row in found.forecast))
    shared = {"title": "expected τ", "scale": {"domain": [least, 1], "nice": False}}
    spec = {
        "width": (NARROW if narrow else WIDE // 2) - EDGE - _AXIS,
        "height": 210,
        "encoding": {
            "x": _numbers("n", title="raters, the first point is today", scale={"zero": False},
                          axis={"grid": False, "values": [row["n"] for row in rows]}),
        },
        "layer": [
            {
                "mark": {"type": "area", "opacity": 0.15, "color": palette["accent"]},
                "encoding": {"y": _numbers("lower", **shared), "y2": {"field": "upper"}},
            },
            {
                "mark": {"type": "line", "color": palette["accent"],
                         "point": {"size": 36, "filled": True, "color": palette["accent"]}},
                "encoding": {"y": _numbers("tau", **shared)},
            },
        ],
    }  # fmt: skip
    return finished(spec, rows, palette)


def priors_spec(found: Evaluation, palette: Palette, *, narrow: bool) -> dict[str, Any]:
    """The stability under other priors: by a of the skills, and by (alpha, beta) of the raters."""
    rated = {one.model for one in found.fits if one.rated}
    usual, skills = Priors(), []
    cells: dict[tuple[float, float], float] = {}
    for row in found.sensitivity:
        if (row.alpha, row.beta) == (usual.alpha, usual.beta):
            skills.append({"kind": row.model, "x": f"{row.a:g}", "tau": row.tau})
        if row.a == usual.a and row.model in rated:
            cells[row.beta, row.alpha] = row.tau
    skills = list({(row["kind"], row["x"]): row for row in skills}.values())
    raters = [
        {"kind": f"β = {beta:g}", "x": f"{alpha:g}", "tau": cells[beta, alpha]}
        for beta, alpha in sorted(cells)
    ]
    least = _tenth_below(min(row.tau for row in found.sensitivity))

    def panel(rows: list[dict[str, Any]], title: str) -> dict[str, Any]:
        kinds = list(dict.fromkeys(str(row["kind"]) for row in rows))
        colours = [palette[f"camp{at}"] for at in range(1, len(kinds) + 1)]
        legend = {"title": None, "orient": "top", "symbolOpacity": 1}
        return {
            "width": (NARROW if narrow else (WIDE - BETWEEN) // 2) - EDGE - _AXIS,
            "height": 170,
            "data": {"values": rows},
            "mark": {"type": "line", "strokeWidth": 2, "point": {"size": 36, "filled": True}},
            "encoding": {
                "x": {"field": "x", "type": "ordinal", "sort": None, "title": title,
                      "axis": {"labelAngle": 0}},
                "y": _numbers("tau", title="Kendall's τ of resamples",
                              scale={"domain": [least, 1.0], "nice": False}),
                "color": {**_kinds("kind", kinds, colours), "legend": legend},
                "strokeDash": {**_kinds("kind", kinds, _DASHES), "legend": None},
            },
        }  # fmt: skip

    panels = [panel(skills, "shape a of the skills' prior")]
    panels += [panel(raters, "α of the raters' prior (bbq)")] if raters else []
    both: dict[str, Any] = {"vconcat" if narrow else "hconcat": panels, "spacing": BETWEEN}
    both["resolve"] = {"scale": {"color": "independent"}}
    return finished(both, [], palette)


def evaluation_specs(
    found: Evaluation, palette: Palette = FILE
) -> dict[str, Callable[..., dict[str, Any]]]:
    """The charts of an evaluation by name, as functions of ``narrow``."""
    specs: dict[str, Callable[..., dict[str, Any]]] = {
        f"by-{by}": partial(growth_spec, found, by, palette) for by in _AXES
    }
    specs["more-raters"] = partial(more_raters_spec, found, palette)
    if found.agreement:
        specs["agreement"] = partial(agreement_spec, found, palette)
    if found.sensitivity:
        specs["priors"] = partial(priors_spec, found, palette)
    specs["times"] = partial(times_spec, found, palette)
    return specs


def chart_specs(analysis: Analysis, palette: Palette = FILE) -> dict[str, dict[str, Any]]:
    """Vega-Lite specifications of all charts, by file name."""
    board, raters = analysis.leaderboard, analysis.raters
    specs = {"leaderboard": leaderboard_spec(board, palette, narrow=False)}
    if len(board) <= LARGEST_COVARIANCE:
        specs["win-probability"] = matrix_spec(board, board.better, palette, narrow=False)
    scatter = Scatter.of(raters)
    if scatter is not None:
        specs["raters"] = scatter.spec(palette, narrow=False)
    for name, spec in division_specs(analysis, palette).items():
        specs[name] = spec(narrow=False)
    if analysis.without_covariates is not None:
        without = analysis.without_covariates
        specs["covariates"] = held_spec(board, without, palette, narrow=False)
    return specs


def write_charts(directory: str | os.PathLike[str], analysis: Analysis) -> list[Path]:
    """Write every chart as SVG and PNG into a directory, made if missing; the files written."""
    return write_specs(directory, chart_specs(analysis))


def write_specs(
    directory: str | os.PathLike[str], specs: Mapping[str, dict[str, Any]]
) -> list[Path]:
    """Write charts as SVG and PNG into a directory, made if missing; the files written."""
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, spec in specs.items():
        drawn = {**spec, "background": FILE["surface"]}
        for suffix, content in ((".svg", to_svg(drawn).encode()), (".png", to_png(drawn))):
            path = folder / f"{name}{suffix}"
            with open_atomically(path) as file:
                file.write(content)
            written.append(path)
    return written
