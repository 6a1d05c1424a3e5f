"""Tables for people. Names go in as plain text: neither markup nor control characters act."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

import bbq_plugin
from bbq_plugin.report.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bbq_plugin.comparisons import Comparisons
    from bbq_plugin.insight import Leaderboard, NextPairs, RaterReport, RaterRow, Stability
    from bbq_plugin.model import Fit
    from bbq_plugin.report.document import Origin

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
        cells: list[str | Text] = [
            _rank(row.rank, row.rank_best, row.rank_worst),
            Text(plain(row.item)),
            _number(row.rating, digits),
            _span(row.rating_lower, row.rating_upper, digits),
        ]
        if true_rating is not None:
            truth = true_rating[row.item]
            missed = not row.rating_lower <= truth <= row.rating_upper
            cells.append(Text(_number(truth, digits), style="red" if missed else "cyan"))
        table.add_row(*cells, _chance(row.p_best), f"{row.n:,.0f}", f"{row.wins:,.1f}")
    return table


def raters_table(
    raters: RaterReport,
    limit: int | None = None,
    *,
    kinds: Mapping[str, str] | None = None,
    reasons: bool = True,
) -> Table:
    """Build the rater report, lowest quality first; beside it what each one truly is, if known."""
    # NaN compares with nothing, so raters of unknown quality are sent to the end by hand.
    rows = sorted(raters, key=lambda row: (isnan(row.quality), row.quality))
    shown = rows if limit is None else rows[:limit]
    columns: list[tuple[str, Callable[[RaterRow], Text]]] = [
        ("rater", lambda row: Text(plain(row.rater))),
        ("n", lambda row: _right(f"{row.n:,.0f}")),
        ("quality", lambda row: _right(_number(row.quality, 2), "bold")),
        ("interval", lambda row: _right(_span(row.quality_lower, row.quality_upper, 2))),
        ("agree", lambda row: _right(_share(row.agreement))),
    ]
    # Not every tool records sides and times; a column of dashes says nothing.
    if any(_known(row.left_rate) for row in rows):
        columns.append(("left", lambda row: _right(_share(row.left_rate))))
    if any(_known(row.median_time_s) for row in rows):
        columns.append(("seconds", lambda row: _right(_number(row.median_time_s, 1))))
    columns.append(("verdict", lambda row: Text(row.verdict, _VERDICT_STYLE[row.verdict])))
    if kinds is not None:
        columns.append(("truth", lambda row: Text(kinds[row.rater], "cyan")))
    if reasons and any(row.reasons for row in shown):
        columns.append(("reasons", lambda row: Text(plain("; ".join(row.reasons)))))
    table = Table(title="Raters, lowest quality first")
    for name, _ in columns:
        table.add_column(name, overflow="fold")
    for row in shown:
        table.add_row(*(show(row) for _, show in columns))
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
    return [*lines, *left_out_lines(data)]


def left_out_lines(data: Comparisons) -> list[str]:
    """Say what was not fitted, and why."""
    lines = []
    if data.n_skipped:
        why = ", ".join(f"{n:,} × {plain(reason)}" for reason, n in data.skip_reasons.items())
        lines.append(f"{data.n_skipped:,} rows skipped: {why}")
    for n, what in (
        (data.n_duplicates, "answers left out because the same one came again"),
        (data.n_dropped, "answers left out with their raters"),
        (data.n_filtered, "answers left out by their tags"),
    ):
        if n:
            lines.append(f"{n:,} {what}")
    return lines


def origin_lines(data: Comparisons, origin: Origin) -> list[str]:
    """Say what it takes to get the same result again."""
    lines = [f"bbq {bbq_plugin.__version__}, data {data.digest[:16]}"]
    if origin.command is not None:
        lines.append(f"$ {plain(origin.command)}")
    return lines


def pairs_table(pairs: NextPairs) -> Table:
    """Build the list of what to compare next."""
    table = Table(title=f"What to compare next (raters of quality {pairs.quality:.2f})")
    for name in ("", "item a", "item b", "P(a better)", "millibits", "n so far"):
        text = name.startswith("item")
        table.add_column(name, justify="left" if text else "right", overflow="fold")
    for place, row in enumerate(pairs, start=1):
        table.add_row(
            f"{place}",
            Text(plain(row.item_a)),
            Text(plain(row.item_b)),
            _chance(row.p_a_better),
            f"{1000 * row.information_bits:.2f}",
            f"{row.n:,.0f}",
        )
    return table


def stability_table(found: Stability) -> Table:
    """Build the table of the paper: tau and top-1 of each model."""
    table = Table(title=f"Stability over {found.resamples:,} resamples of the raters")
    table.add_column("model")
    for name in ("Kendall's tau", "95% of resamples", "same best item", "seconds"):
        table.add_column(name, justify="right")
    for row in found:
        table.add_row(
            row.model,
            f"{row.tau:.4f} ± {row.tau_se:.4f}",
            _span(row.tau_lower, row.tau_upper, 2),
            f"{row.top1:.1%}",
            f"{row.seconds:.2f}",
        )
    return table


def _rank(rank: int, best: int, worst: int) -> str:
    return f"{rank}" if best == worst else f"{rank} ({best}–{worst})"


def _known(value: float | None) -> bool:
    return value is not None and not isnan(value)


def _number(value: float | None, digits: int) -> str:
    return f"{value:,.{digits}f}" if _known(value) else _UNKNOWN


def _share(value: float | None) -> str:
    return f"{value:.0%}" if _known(value) else _UNKNOWN


def _chance(p: float) -> str:
    """A probability; 0% and 100% only where nothing else was seen."""
    if 0 < p < 0.005:
        return "<1%"
    return ">99%" if 0.995 <= p < 1 else f"{p:.0%}"


def _span(lower: float, upper: float, digits: int) -> str:
    return f"{_number(lower, digits)} … {_number(upper, digits)}"


def _right(text: str, style: str = "") -> Text:
    return Text(text, style, justify="right")
