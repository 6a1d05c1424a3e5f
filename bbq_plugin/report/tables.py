"""Tables for people. Names go in as plain text: neither markup nor control characters act."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from bbq_plugin.report.text import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bbq_plugin.comparisons import Comparisons
    from bbq_plugin.insight import Leaderboard, RaterReport
    from bbq_plugin.model import Fit

_UNKNOWN = "–"
_VERDICT_STYLE = {"keep": "green", "watch": "yellow", "exclude": "bold red"}


def leaderboard_table(board: Leaderboard, true_rating: Mapping[str, float] | None = None) -> Table:
    """Build the leaderboard; beside each rating the true one, where it is known."""
    table = Table(title=f"Leaderboard ({board.scale}, {board.level:.0%} {board.intervals})")
    table.add_column("rank", justify="right")
    table.add_column("item", overflow="fold")
    table.add_column("rating", justify="right", style="bold")
    table.add_column("interval", justify="right")
    if true_rating is not None:
        table.add_column("truth", justify="right", style="cyan")
    table.add_column("P(best)", justify="right")
    table.add_column("n", justify="right")
    table.add_column("wins", justify="right")
    digits = 2 if board.scale == "theta" else 0
    for row in board:
        cells = [
            _rank(row.rank, row.rank_best, row.rank_worst),
            Text(plain(row.item)),
            _number(row.rating, digits),
            f"{_number(row.rating_lower, digits)} … {_number(row.rating_upper, digits)}",
        ]
        if true_rating is not None:
            truth = true_rating[row.item]
            missed = not row.rating_lower <= truth <= row.rating_upper
            cells.append(Text(_number(truth, digits), style="red" if missed else "cyan"))
        table.add_row(*cells, _share(row.p_best), f"{row.n:,.0f}", f"{row.wins:,.1f}")
    return table


def raters_table(
    raters: RaterReport, limit: int | None = None, kinds: Mapping[str, str] | None = None
) -> Table:
    """Build the rater report, lowest quality first; beside it what each one truly is, if known."""
    rows = sorted(raters, key=lambda row: row.quality)
    shown = rows if limit is None else rows[:limit]
    table = Table(title="Raters, lowest quality first")
    table.add_column("rater", overflow="fold")
    table.add_column("n", justify="right")
    table.add_column("quality", justify="right", style="bold")
    table.add_column("interval", justify="right")
    table.add_column("agree", justify="right")
    table.add_column("left", justify="right")
    table.add_column("seconds", justify="right")
    table.add_column("verdict")
    if kinds is not None:
        table.add_column("truth", style="cyan")
    table.add_column("reasons", overflow="fold")
    for row in shown:
        cells = [
            Text(plain(row.rater)),
            f"{row.n:,.0f}",
            _number(row.quality, 2),
            f"{_number(row.quality_lower, 2)} … {_number(row.quality_upper, 2)}",
            _share(row.agreement),
            _share(row.left_rate),
            _number(row.median_time_s, 1),
            Text(row.verdict, style=_VERDICT_STYLE.get(row.verdict, "")),
        ]
        if kinds is not None:
            cells.append(kinds[row.rater])
        table.add_row(*cells, Text(plain("; ".join(row.reasons))))
    if len(rows) > len(shown):
        table.caption = f"and {len(rows) - len(shown):,} more; --format json has all of them"
    return table


def summary_lines(data: Comparisons, fit: Fit) -> list[str]:
    """Say in a few lines what was fitted, and what was left out."""
    raters = f"{data.n_raters:,} raters" if data.has_raters else "no raters named"
    lines = [
        f"{data.n_comparisons:,} comparisons of {data.n_items:,} items, {raters}",
        f"model {fit.model}; priors: {fit.priors}",
    ]
    if data.n_skipped:
        why = ", ".join(f"{n:,} × {plain(reason)}" for reason, n in data.skip_reasons.items())
        lines.append(f"{data.n_skipped:,} rows skipped: {why}")
    return lines


def _rank(rank: int, best: int, worst: int) -> str:
    return f"{rank}" if best == worst else f"{rank} ({best}–{worst})"


def _known(value: float | None) -> bool:
    return value is not None and not isnan(value)


def _number(value: float | None, digits: int) -> str:
    return f"{value:,.{digits}f}" if _known(value) else _UNKNOWN


def _share(value: float | None) -> str:
    return f"{value:.0%}" if _known(value) else _UNKNOWN
