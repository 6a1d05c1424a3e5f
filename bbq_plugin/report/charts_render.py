"""From a Vega-Lite specification to SVG and PNG, without a browser and without the network."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree as ET

from bbq_plugin.errors import UnsupportedError

__all__ = ["to_png", "to_svg"]

# The renderer escapes what it draws; this is the second lock on the same door. Whatever a later
# release may add (links, styles, scripts, images) does not get into the page.
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
