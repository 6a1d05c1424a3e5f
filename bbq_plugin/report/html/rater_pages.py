"""The raters of a report: all of them in a table, and a page for each who is excluded."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from typing import TYPE_CHECKING

import numpy as np

from bbq_plugin.analysis.raters.reasons import effect_text
from bbq_plugin.report.html.format import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bbq_plugin.analysis import RaterReport, RaterRow
    from bbq_plugin.analysis.uncertainty import Floats
    from bbq_plugin.model import Fit
    from bbq_plugin.report.charts.scatter import Scatter

__all__ = [
    "Block",
    "Raters",
    "Verdict",
    "raters_section",
]

WATCHED_PAGES = 20  # raters to watch with a page; all excluded have one, the table has everybody

OPEN_ROWS = 60  # a table this long is shown as it is

BLOCK = 250  # a longer one is folded into parts of this many

PAIRS_SHOWN = 5

_SEVERITY = {"exclude": 0, "watch": 1, "keep": 2}


@dataclass(frozen=True)
class Block:
    """Some raters of the table, under a line that says which."""

    title: str
    rows: Sequence[RaterRow]


@dataclass(frozen=True)
class Disagreement:
    """A pair in which the rater went against the ranking of the others more than it expects."""

    better: str
    worse: str
    against: float
    n: float
    expected: float


@dataclass(frozen=True)
class Verdict:
    """A page about one rater."""

    row: RaterRow
    p_guesser: float
    mark: tuple[float, float] | None
    pairs: list[Disagreement]


@dataclass(frozen=True)
class Raters:
    """What the section on raters shows."""

    counts: dict[str, int]
    pages: list[Verdict]
    page_of: dict[str, int]
    without_page: int
    rule: str
    blocks: list[Block]
    folded: bool
    has_verdicts: bool
    has_intervals: bool
    has_sides: bool
    has_times: bool
    median_quality: float
    median_agreement: float
    median_time_s: float
    not_known: tuple[str, ...]
    without_excluded: str


def raters_section(fit: Fit, raters: RaterReport, scatter: Scatter | None) -> Raters:
    """Sort the raters, the worst first, and prepare the pages."""
    at = {row.rater: index for index, row in enumerate(raters)}
    rows = sorted(raters, key=lambda r: (_SEVERITY[r.verdict], isnan(r.quality), r.quality))
    watched = [row for row in rows if row.verdict == "watch"]
    shown = [row for row in rows if row.verdict == "exclude"] + watched[:WATCHED_PAGES]
    pages = [
        Verdict(
            row=row,
            p_guesser=float(raters.p_guesser[at[row.rater]]),
            mark=scatter.place(row) if scatter else None,
            pairs=_disagreements(fit, raters.by_others, at[row.rater]),
        )
        for row in shown
    ]
    return Raters(
        counts={v: sum(row.verdict == v for row in rows) for v in ("keep", "watch", "exclude")},
        pages=pages,
        page_of={page.row.rater: at for at, page in enumerate(pages, 1)},
        without_page=max(0, len(watched) - WATCHED_PAGES),
        rule=raters.rule,
        blocks=_blocks(rows),
        folded=len(rows) > OPEN_ROWS,
        has_verdicts=any(not isnan(p) for p in raters.p_guesser),
        has_intervals=any(not isnan(row.quality_lower) for row in rows),
        has_sides=any(not isnan(row.left_rate) for row in rows),
        has_times=any(not isnan(row.median_time_s) for row in rows),
        median_quality=_median([row.quality for row in rows]),
        median_agreement=_median([row.agreement for row in rows]),
        median_time_s=_median([row.median_time_s for row in rows]),
        not_known=raters.not_known,
        without_excluded=""
        if raters.without_excluded is None
        else effect_text(raters.without_excluded),
    )


def _blocks(rows: list[RaterRow]) -> list[Block]:
    if len(rows) <= OPEN_ROWS:
        return [Block("", rows)] if rows else []
    blocks = []
    for first in range(0, len(rows), BLOCK):
        part = rows[first : first + BLOCK]
        ends = f"quality {number(part[0].quality, 2)} to {number(part[-1].quality, 2)}"
        verdicts = ", ".join(dict.fromkeys(row.verdict for row in part))
        title = f"{first + 1:,}–{first + len(part):,}: {verdicts}"
        blocks.append(Block(title if isnan(part[0].quality) else f"{title}; {ends}", part))
    return blocks


def _median(values: list[float]) -> float:
    known = [value for value in values if not isnan(value)]
    return float(np.median(known)) if known else float("nan")


def _disagreements(fit: Fit, by_others: Floats | None, rater: int) -> list[Disagreement]:
    """The pairs that speak most against the rater: answers against the others beyond chance.

    ``by_others`` is P(winner is better) - 1/2 of each triple, without the rater's own votes.
    """
    if by_others is None:
        return []
    t = fit.data.triples
    rows = slice(int(t.start[rater]), int(t.start[rater + 1]))
    totals: dict[tuple[int, int], list[float]] = {}
    for winner, loser, weight, s in zip(
        t.winner[rows].tolist(),
        t.loser[rows].tolist(),
        t.weight[rows].tolist(),
        by_others[rows].tolist(),
        strict=True,
    ):
        pair = (loser, winner) if s < 0 else (winner, loser)
        total = totals.setdefault(pair, [0.0, 0.0, 0.0])
        total[0] += weight if s < 0 else 0.0
        total[1] += weight
        total[2] += weight * (0.5 - abs(s))
    found = [
        Disagreement(fit.items[better], fit.items[worse], against, n, expected)
        for (better, worse), (against, n, expected) in totals.items()
        if against > expected
    ]
    found.sort(key=lambda pair: pair.expected - pair.against)
    return found[:PAIRS_SHOWN]
