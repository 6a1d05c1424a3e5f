"""Studies with every kind of result, and names that mean harm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import bbq_plugin as bbq
from bbq_plugin.analysis import Analysis
from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.data.records import Comparison, HistoryItem, HistoryPoint, Skipped
from bbq_plugin.report.history import history_rows
from bbq_plugin.report.html_report import report_html

if TYPE_CHECKING:
    from bbq_plugin.analysis import Leaderboard
    from bbq_plugin.simulation import Study

HOSTILE = (
    "<script>window.pwned=1</script>",
    '"><img src=x onerror=window.pwned=1>',
    "' onmouseover='window.pwned=1",
    "</style><style>*{display:none}",
    "</title></svg><svg onload=window.pwned=1>",
    "{{ 7 * 7 }}{% raw %}",
    "\u202egnp.exe\u2066",
    "a\x00b\x1b[31mc\nd",
    "&lt;b&gt;]]><!--",
    "W" * 300,
    "https://example.invalid/track.png",
    "مرحبا",
)


class Result(Analysis):
    """An analysis under the short names of these tests."""

    @property
    def data(self) -> Comparisons:
        return self.fit.data

    @property
    def board(self) -> Leaderboard:
        return self.leaderboard

    def html(self, **options: Any) -> str:
        return report_html(self, **options)


def history_of(board: Leaderboard, refreshes: int = 12) -> list[HistoryPoint]:
    """A history that ends in a leaderboard: ratings come from afar and intervals narrow."""
    rows = history_rows(board)
    found = []
    for i in range(1, refreshes + 1):
        share = i / refreshes
        places = {
            item: HistoryItem(1000 + (rating - 1000) * share, 1000 + (lower - 1000) / share**0.5,
                   1000 + (upper - 1000) / share**0.5, rank)
            for item, rating, lower, upper, rank in rows
        }  # fmt: skip
        found.append(HistoryPoint(1.7e9 + 600 * i, 250 * i, "full", places))
    return found


def result_of(data: Comparisons, **options: Any) -> Result:
    return Result(bbq.fit(data, **options))


def renamed(study: Study, items: tuple[str, ...], raters: tuple[str, ...]) -> Comparisons:
    """The study under other names, with times, pairs called bad, and rows left out for reasons
    of the same kind."""
    item = dict(zip(study.truth.items, items, strict=True))
    rater = dict(zip(study.truth.raters, raters, strict=True))
    records: list[Comparison | Skipped] = [Skipped("votes:1", name) for name in items]
    for c in study.comparisons():
        who = rater[str(c.rater)]
        outcome = "both_bad" if c.outcome == "tie" else c.outcome
        records.append(
            Comparison(c.key, who, item[c.left], item[c.right], outcome, c.weight, time_s=2.5)
        )
    return Comparisons.from_comparisons(records)
