"""The report as one HTML file: nothing is fetched, nothing runs, every name is text."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

import bbq_plugin
from bbq_plugin.analysis.forecast import SettlingPlan, settling_plan
from bbq_plugin.errors import UnsupportedError
from bbq_plugin.model.fit import LARGEST_COVARIANCE
from bbq_plugin.report.charts.drawing import PAGE, Chart, drawn
from bbq_plugin.report.charts.items import (
    ITEMS_DRAWN,
    MATRIX_ITEMS,
    leaderboard_spec,
    matrix_spec,
    percent,
)
from bbq_plugin.report.charts.scatter import SMALL_HEIGHT, SMALL_WIDTH, Scatter
from bbq_plugin.report.charts.timeline import (
    HISTORY_DRAWN,
    HISTORY_ITEMS,
    can_be_drawn,
    history_spec,
)
from bbq_plugin.report.history import moments
from bbq_plugin.report.html.format import UNKNOWN, number
from bbq_plugin.report.json import all_warnings
from bbq_plugin.report.summary import answer, level_text, stop_section
from bbq_plugin.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bbq_plugin.analysis import Leaderboard, RaterReport, Stopping
    from bbq_plugin.data.dataset import Comparisons
    from bbq_plugin.model import Fit
    from bbq_plugin.report.history import Moment, Point

__all__ = [
    "HistorySection",
    "history_section",
    "report_html",
]

COLUMNS = 6  # moments in the table


@dataclass(frozen=True)
class HistorySection:
    """The chart, and the ratings at a few moments of it."""

    chart: Chart
    shown: int
    heads: list[str]
    rows: list[tuple[str, list[str]]]
    since: str
    until: str


def history_section(board: Leaderboard, history: Sequence[Point]) -> HistorySection | None:
    """What to show of a history; None where there is no line to draw yet."""
    points = moments(history, board.scale, HISTORY_DRAWN)
    shown = board[:HISTORY_ITEMS]
    known = [moment for moment in points if any(row.item in moment.items for row in shown)]
    if not can_be_drawn(known):
        return None
    wide, narrow = (
        drawn(history_spec(board, known, PAGE, narrow=narrow)) for narrow in (False, True)
    )
    says = (
        f"Ratings of the {len(shown)} best items after so many comparisons; "
        "the table below has some of them."
    )
    picked = _spread(known)
    digits = 2 if board.scale == "theta" else 0
    return HistorySection(
        chart=Chart(wide, narrow, says),
        shown=len(shown),
        heads=[number(moment.n_comparisons) for moment in picked],
        rows=[(row.item, [_cell(m, row.item, digits) for m in picked]) for row in shown],
        since=_date(known[0].at),
        until=_date(known[-1].at),
    )


def _spread(known: list[Moment]) -> list[Moment]:
    places = np.linspace(0, len(known) - 1, min(COLUMNS, len(known)))
    return [known[i] for i in dict.fromkeys(round(float(place)) for place in places)]


def _cell(moment: Moment, item: str, digits: int) -> str:
    place = moment.items.get(item)
    return UNKNOWN if place is None else f"{number(place.rating, digits)} (#{place.rank})"


def _date(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")


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
    from bbq_plugin.report.html.rater_pages import raters_section  # noqa: PLC0415
    from bbq_plugin.report.quality import data_quality  # noqa: PLC0415

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
    from bbq_plugin.report.html.format import FILTERS, ranks, span  # noqa: PLC0415

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
