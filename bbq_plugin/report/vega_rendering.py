"""How charts look and are drawn: colours, type, and Vega-Lite specifications to SVG and PNG."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from bbq_plugin.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

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
