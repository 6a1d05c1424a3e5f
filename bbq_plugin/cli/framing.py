"""What stands around every table on a screen: what was fitted, warnings, how to get it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import RenderableType

    from bbq_plugin.model import Fit
    from bbq_plugin.report.document import Origin


def framed(
    fit: Fit, origin: Origin, warnings: Iterable[str], tables: Iterable[RenderableType]
) -> Iterator[RenderableType]:
    """Tables with what belongs above and below them; a text is a line of its own."""
    from rich.text import Text

    from bbq_plugin import report
    from bbq_plugin.report.text import plain

    for line in report.summary_lines(fit.data, fit):
        yield Text(line)
    for table in tables:
        yield Text(table) if isinstance(table, str) else table
    for warning in warnings:
        yield Text(f"Warning: {plain(warning)}", style="yellow")
    for line in report.origin_lines(fit.data, origin):
        yield Text(line, style="dim")
