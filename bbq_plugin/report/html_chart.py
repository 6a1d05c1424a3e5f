"""A chart in the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bbq_plugin.report.charts_render import to_svg

__all__ = ["Chart", "drawn"]


@dataclass(frozen=True)
class Chart:
    """One chart at the widths of a desk and of a phone, with what it shows in words."""

    wide: Any
    narrow: Any
    says: str


def drawn(spec: dict[str, Any]) -> Any:
    """The chart as markup: the renderer's output, cleaned of everything but shapes and text."""
    from markupsafe import Markup  # noqa: PLC0415 (comes with jinja2)

    return Markup(to_svg(spec))  # noqa: S704
