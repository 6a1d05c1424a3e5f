"""Colours and type of the charts: by CSS variable inside the page, by value in a file.

A specification names roles ("accent", "muted"); the palette says what they are. Blue and orange
are told apart by every common kind of colour vision, and verdicts also differ in shape.
"""

from __future__ import annotations

import unicodedata
from types import MappingProxyType
from typing import Any

__all__ = ["FILE", "FONT_SIZE", "MATRIX_STEPS", "PAGE", "Palette", "finished", "text_width"]

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

FONT_SIZE = 13

# Shares of the font size; what is not here is a small letter or wider than most.
_NARROW, _BROAD = frozenset(" .,:;|!'()[]{}/ijlftrI-·"), frozenset("mwMW@%—…")


def text_width(text: str) -> float:
    """Pixels that a text takes, on the generous side: no font is at hand to measure with."""
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
    return {
        "font": FONT,
        "aria": False,
        "background": None,
        "view": {"stroke": None},
        "axis": {
            "labelColor": palette["ink"],
            "labelFontSize": FONT_SIZE,
            "titleColor": palette["muted"],
            "titleFontSize": FONT_SIZE,
            "titleFontWeight": "normal",
            "titlePadding": 8,
            "gridColor": palette["rule"],
            "domain": False,
            "tickColor": palette["axis"],
            "ticks": False,
            "labelPadding": 6,
        },
        "axisX": {"labelOverlap": "greedy", "labelSeparation": 8, "labelFlush": False},
        "legend": {
            "labelColor": palette["ink"],
            "labelFontSize": FONT_SIZE,
            "titleColor": palette["muted"],
            "titleFontSize": FONT_SIZE,
            "titleFontWeight": "normal",
        },
    }


def finished(
    spec: dict[str, Any], rows: list[dict[str, Any]], palette: Palette, **more: Any
) -> dict[str, Any]:
    """A complete specification: what is drawn, its data, the look."""
    look = {"config": _config(palette), "padding": {"left": 0, "top": 2, "right": 2, "bottom": 5}}
    return {**spec, "data": {"values": rows}, **look, **more}
