"""The report as one HTML file: nothing is fetched, nothing runs, every name is text."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import bbq_plugin
from bbq_plugin.errors import UnsupportedError
from bbq_plugin.insight.planning import SettlingPlan, settling_plan
from bbq_plugin.model.fitting import LARGEST_COVARIANCE
from bbq_plugin.report.answer import answer, level_text
from bbq_plugin.report.charts_items import (
    ITEMS_DRAWN,
    MATRIX_ITEMS,
    leaderboard_spec,
    matrix_spec,
    percent,
)
from bbq_plugin.report.charts_raters import SMALL_HEIGHT, SMALL_WIDTH, Scatter
from bbq_plugin.report.charts_style import PAGE
from bbq_plugin.report.document import all_warnings
from bbq_plugin.report.html_chart import Chart, drawn
from bbq_plugin.report.stopping import stop_section
from bbq_plugin.report.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bbq_plugin.comparisons import Comparisons
    from bbq_plugin.insight import Leaderboard, RaterReport, Stopping
    from bbq_plugin.model import Fit
    from bbq_plugin.report.history import Point

__all__ = ["report_html"]

ROWS_SHOWN = 100  # of the leaderboard's table; more are folded
PAIRS_SHOWN = 12
FILES_SHOWN = 10
TITLE = "Leaderboard from pairwise comparisons"


def report_html(
    data: Comparisons,
    fit: Fit,
    board: Leaderboard,
    raters: RaterReport,
    *,
    title: str | None = None,
    stop: Stopping | None = None,
    command: str | None = None,
    history: Sequence[Point] = (),
) -> str:
    """Everything a fit says, for people: one self-contained page that reads well in print too.

    ``history`` is the leaderboard over time, where a store keeps one.
    """
    env = _environment()
    # Only after it is known that the libraries of the extra are there.
    from bbq_plugin.report.html_history import history_section  # noqa: PLC0415
    from bbq_plugin.report.html_quality import data_quality  # noqa: PLC0415
    from bbq_plugin.report.html_raters import raters_section  # noqa: PLC0415

    # A matrix of all pairs of more items would fill the memory for forty rows of it.
    better = board.better if len(board) <= LARGEST_COVARIANCE else None
    quality = data_quality(data)
    scatter = Scatter.of(raters)
    style = env.loader.get_source(env, "report.css")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    page = env.get_template("report.html.j2").render(
        style=style,
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'",
        title=plain(title or TITLE),
        command=plain(command) if command else None,
        data=data,
        fit=fit,
        board=board,
        top=board[:ROWS_SHOWN],
        others=board[ROWS_SHOWN:],
        level=level_text(board.level),
        error=level_text(1 - board.level),
        digits=2 if board.scale == "theta" else 0,
        answer=answer(board, quality.n_groups, better),
        board_chart=_board_chart(board),
        history=history_section(board, history),
        items_drawn=min(ITEMS_DRAWN, len(board)),
        matrix=_matrix(board, better),
        plan=_plan(fit, board, better),
        stop=None if stop is None else stop_section(stop),
        pairs_shown=PAIRS_SHOWN,
        files_shown=FILES_SHOWN,
        raters=raters_section(fit, raters, scatter) if len(raters) else None,
        scatter=_scatter_chart(scatter, raters),
        quality=quality,
        rule=raters.rule,
        threshold=raters.threshold,
        warnings=[plain(text) for text in all_warnings(fit, board, raters)],
        version=bbq_plugin.__version__,
        digest=data.digest,
    )
    return str(page)


def _environment() -> Any:
    try:
        import jinja2  # noqa: PLC0415 (only this report needs it)
    except ImportError:
        raise UnsupportedError(
            "the HTML report needs jinja2, which is not installed; "
            "run: pip install 'bbq-plugin[charts]'"
        ) from None
    from bbq_plugin.report.html_format import FILTERS, ranks, span  # noqa: PLC0415

    env = jinja2.Environment(
        loader=jinja2.PackageLoader("bbq_plugin.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    env.filters.update(FILTERS)
    env.globals.update(span=span, ranks=ranks, percent=percent)
    return env


def _board_chart(board: Leaderboard) -> Chart:
    wide, narrow = (drawn(leaderboard_spec(board, PAGE, narrow=narrow)) for narrow in (False, True))
    return Chart(wide, narrow, "Ratings with intervals, best first; the table below has them all.")


@dataclass(frozen=True)
class Matrix:
    """The win probabilities of the best items, as a chart and as numbers."""

    chart: Chart
    cells: list[list[str]]
    shown: int


def _matrix(board: Leaderboard, better: Any) -> Matrix | None:
    if better is None:
        return None
    shown = min(MATRIX_ITEMS, len(board))
    wide, narrow = (
        drawn(matrix_spec(board, better, PAGE, narrow=narrow)) for narrow in (False, True)
    )
    cells = [
        [(percent(float(better[i, j])) if i != j else "") for j in range(shown)]
        for i in range(shown)
    ]
    says = "For each pair, the probability that the row is better than the column."
    return Matrix(Chart(wide, narrow, says), cells, shown)


def _plan(fit: Fit, board: Leaderboard, better: Any) -> SettlingPlan | None:
    return None if better is None else settling_plan(fit, board, better)


@dataclass(frozen=True)
class ScatterCharts:
    """The chart of all raters, and the small one that the pages of raters share."""

    chart: Chart
    small: Any
    width: int
    height: int
    grouped: bool


def _scatter_chart(scatter: Scatter | None, raters: RaterReport) -> ScatterCharts | None:
    if scatter is None:
        return None
    wide, narrow = (drawn(scatter.spec(PAGE, narrow=narrow)) for narrow in (False, True))
    says = (
        f"Quality of {len(raters):,} raters against their agreement with the ranking; "
        "the table of raters has the numbers."
    )
    small = drawn(scatter.small_spec(PAGE)) if any(r.verdict != "keep" for r in raters) else None
    return ScatterCharts(Chart(wide, narrow, says), small, SMALL_WIDTH, SMALL_HEIGHT,
                         scatter.grouped)  # fmt: skip
