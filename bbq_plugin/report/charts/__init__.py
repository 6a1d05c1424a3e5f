"""The charts of a report. One specification gives the SVG in the page and the files for a paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bbq_plugin.model.objectives import LARGEST_COVARIANCE
from bbq_plugin.report.charts.drawing import FILE, Palette, to_png, to_svg
from bbq_plugin.report.charts.items import leaderboard_spec, matrix_spec
from bbq_plugin.report.charts.scatter import Scatter

if TYPE_CHECKING:
    import os

    from bbq_plugin.analysis import Leaderboard, RaterReport
    from bbq_plugin.data.dataset import Comparisons
    from bbq_plugin.model import Fit

__all__ = [
    "chart_specs",
    "write_charts",
]


def chart_specs(
    board: Leaderboard, raters: RaterReport, palette: Palette = FILE
) -> dict[str, dict[str, Any]]:
    """Vega-Lite specifications of all charts, by file name."""
    specs = {"leaderboard": leaderboard_spec(board, palette, narrow=False)}
    if len(board) <= LARGEST_COVARIANCE:
        specs["win-probability"] = matrix_spec(board, board.better, palette, narrow=False)
    scatter = Scatter.of(raters)
    if scatter is not None:
        specs["raters"] = scatter.spec(palette, narrow=False)
    return specs


def write_charts(
    directory: str | os.PathLike[str],
    data: Comparisons,  # noqa: ARG001 (all reports are called alike)
    fit: Fit,  # noqa: ARG001 (as above)
    board: Leaderboard,
    raters: RaterReport,
) -> list[Path]:
    """Write every chart as SVG and PNG into a directory, made if missing; the files written."""
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, spec in chart_specs(board, raters).items():
        drawn = {**spec, "background": FILE["surface"]}
        for suffix, content in ((".svg", to_svg(drawn).encode()), (".png", to_png(drawn))):
            path = folder / f"{name}{suffix}"
            path.write_bytes(content)
            written.append(path)
    return written
