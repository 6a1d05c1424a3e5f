"""The leaderboard over time in the page: the chart, and the same as a table."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from bbq_plugin.report.charts_history import (
    HISTORY_DRAWN,
    HISTORY_ITEMS,
    can_be_drawn,
    history_spec,
)
from bbq_plugin.report.charts_style import PAGE
from bbq_plugin.report.history import moments
from bbq_plugin.report.html_chart import Chart, drawn
from bbq_plugin.report.html_format import UNKNOWN, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bbq_plugin.insight import Leaderboard
    from bbq_plugin.report.history import Moment, Point

__all__ = ["HistorySection", "history_section"]

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
        since=_moment(known[0].at),
        until=_moment(known[-1].at),
    )


def _spread(known: list[Moment]) -> list[Moment]:
    places = np.linspace(0, len(known) - 1, min(COLUMNS, len(known)))
    return [known[i] for i in dict.fromkeys(round(float(place)) for place in places)]


def _cell(moment: Moment, item: str, digits: int) -> str:
    place = moment.items.get(item)
    return UNKNOWN if place is None else f"{number(place.rating, digits)} (#{place.rank})"


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")
