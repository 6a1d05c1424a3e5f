"""A picture of what a terminal showed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def screen_svg(console: Console, title: str) -> str:
    """Draw a recorded console as SVG that fetches nothing."""
    # A fixed id, so that the same screen gives the same file.
    svg = console.export_svg(title=title, unique_id="screen")
    # rich's template loads its font from a content network; a local monospace does as well.
    return re.sub(r"\s*@font-face\s*{[^}]*}", "", svg)
