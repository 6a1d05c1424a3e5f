"""Colours and type of the charts: by CSS variable inside the page, by value in a file.

A specification names roles ("accent", "muted"); the palette says what they are. Blue and orange
are told apart by every common kind of colour vision, and verdicts also differ in shape.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

__all__ = ["FILE", "MATRIX_STEPS", "PAGE", "Palette", "finished"]

Palette = MappingProxyType[str, str]

MATRIX_STEPS = 7

# What the page's style sheet calls --light under the same names.
_VALUES = {
    "ink": "#1c232d",
    "muted": "#566070",
    "rule": "#e3e7ec",
    "axis": "#a9b2be",
    "surface": "#ffffff",
    "accent": "#0b5cad",
    "plain": "#7b8796",
    "keep": "#3f7fb5",
    "watch": "#c98a00",
    "exclude": "#c2410c",
    "m0": "#a84b00",
    "m1": "#e08a3c",
    "m2": "#f7d3a8",
    "m3": "#eef0f3",
    "m4": "#c3dcf0",
    "m5": "#5fa0d3",
    "m6": "#10599f",
    "on-m0": "#ffffff",
    "on-m1": "#1c232d",
    "on-m2": "#1c232d",
    "on-m3": "#1c232d",
    "on-m4": "#1c232d",
    "on-m5": "#1c232d",
    "on-m6": "#ffffff",
}

FILE: Palette = MappingProxyType(_VALUES)
PAGE: Palette = MappingProxyType({role: f"var(--{role})" for role in _VALUES})

# Widths of letters are measured when a chart is laid out; these fonts are alike in width.
FONT = "Inter, 'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', sans-serif"


def _config(palette: Palette) -> dict[str, Any]:
    """The look that all charts share."""
    return {
        "font": FONT,
        "aria": False,
        "background": None,
        "view": {"stroke": None},
        "axis": {
            "labelColor": palette["ink"],
            "labelFontSize": 12,
            "titleColor": palette["muted"],
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "titlePadding": 8,
            "gridColor": palette["rule"],
            "domain": False,
            "tickColor": palette["axis"],
            "ticks": False,
            "labelPadding": 6,
        },
        "legend": {
            "labelColor": palette["ink"],
            "labelFontSize": 12,
            "titleColor": palette["muted"],
            "titleFontSize": 12,
            "titleFontWeight": "normal",
        },
        "title": {
            "color": palette["muted"],
            "fontSize": 12,
            "fontWeight": "normal",
            "anchor": "start",
        },
    }


def finished(
    spec: dict[str, Any], rows: list[dict[str, Any]], palette: Palette, **more: Any
) -> dict[str, Any]:
    """A complete specification: what is drawn, its data, the look."""
    return {**spec, "data": {"values": rows}, "config": _config(palette), **more}
