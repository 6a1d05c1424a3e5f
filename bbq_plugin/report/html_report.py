"""The report as one HTML file: nothing is fetched, nothing runs, every name is text."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from math import isnan, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

import bbq_plugin
from bbq_plugin.analysis.raters.verdicts import worst_first
from bbq_plugin.analysis.stability import BAND, EACH
from bbq_plugin.errors import UnsupportedError
from bbq_plugin.model.kernels import likelihood as kernels
from bbq_plugin.report.charts import (
    CAMP_ITEMS,
    HISTORY_DRAWN,
    HISTORY_ITEMS,
    ITEMS_DRAWN,
    MATRIX_ITEMS,
    PAGE,
    SMALL_HEIGHT,
    SMALL_WIDTH,
    Chart,
    Scatter,
    can_be_drawn,
    chart,
    division_specs,
    drawn,
    evaluation_specs,
    held_spec,
    history_spec,
    leaderboard_spec,
    matrix_spec,
    percent,
    slices_spec,
)
from bbq_plugin.report.documents import all_warnings, verdict_counts
from bbq_plugin.report.history import thinned
from bbq_plugin.report.summary import (
    Name,
    Sentence,
    answer,
    camp_sentence,
    camp_title,
    clusters_text,
    effect_lines,
    evaluation_lines,
    name,
    quality_lines,
    rescaled_text,
    slice_lines,
    stop_section,
)
from bbq_plugin.text import UNKNOWN, level_text, number, plain, unit_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bbq_plugin.analysis import Analysis, ItemRow, Leaderboard, RaterReport, RaterRow
    from bbq_plugin.analysis.leaderboard import EffectRow
    from bbq_plugin.analysis.slices import SliceCell, SliceDifference, SlicedStudy, SliceSummary
    from bbq_plugin.analysis.stability import Evaluation
    from bbq_plugin.data.dataset import Comparisons
    from bbq_plugin.data.records import HistoryPoint
    from bbq_plugin.data.triples import Codes, Floats
    from bbq_plugin.model import Fit
    from bbq_plugin.report.summary import Sentence


TITLE = "Leaderboard from pairwise comparisons"
ROWS_SHOWN = 100  # of the leaderboard's table; more are folded
FILES_SHOWN = 10
HISTORY_COLUMNS = 6
WATCHED_PAGES = 20  # raters to watch with a page; all excluded have one, the table has every rater
OPEN_ROWS = 60  # a table of raters this long is shown as it is
BLOCK = 250  # a longer one is folded into parts of this many
DISAGREEMENTS_SHOWN = 5
REASONS_SHOWN = 20
WORST_SHOWN = 10
Z95 = 1.959963984540054


def report_html(
    analysis: Analysis,
    *,
    title: str | None = None,
    command: str | None = None,
    history: Sequence[HistoryPoint] = (),
    slices: SlicedStudy | None = None,
    mix: Leaderboard | None = None,
) -> str:
    """Everything that a fit says, as one self-contained page that can also be printed.

    ``history`` is the leaderboard over time, if a store keeps one. ``mix`` is the leaderboard for
    given shares of the ``slices``.
    """
    env = _environment()
    fit, data = analysis.fit, analysis.fit.data
    board, better, raters = analysis.leaderboard, analysis.better, analysis.raters
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
        rows_shown=ROWS_SHOWN,
        level=level_text(board.level),
        error=level_text(1 - board.level),
        digits=2 if board.scale == "theta" else 0,
        answer=answer(board, quality.n_groups, better, analysis.division),
        division=division_section(analysis),
        clusters=clusters_text(board),
        held=_held_section(analysis),
        slices=None if slices is None else _slices_section(slices, mix),
        board_n=data.n_comparisons,
        board_chart=chart(
            partial(leaderboard_spec, board, PAGE),
            f"{'Ratings' if board.ordered_by == 'rating' else 'Win shares'} with intervals, best "
            "first. The table below has the numbers.",
        ),
        history=history_section(board, history),
        items_drawn=min(ITEMS_DRAWN, len(board)),
        matrix=None if better is None else _matrix(board, better),
        stop=stop_section(analysis.stopping, analysis.fragility),
        files_shown=FILES_SHOWN,
        raters=raters_section(analysis, scatter) if len(raters) else None,
        scatter=_scatter_charts(scatter, raters),
        quality=quality,
        threshold=raters.threshold,
        warnings=[plain(text) for text in all_warnings(analysis)],
        version=bbq_plugin.__version__,
        digest=data.digest,
    )
    return str(page)


def evaluation_html(found: Evaluation, data: Comparisons, command: str | None = None) -> str:
    """An evaluation as one self-contained page."""
    env = _environment()
    style = env.loader.get_source(env, "report.css")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    charts = {
        name: chart(spec, f"{name.replace('-', ' ')}; the JSON document has the numbers.")
        for name, spec in evaluation_specs(found, PAGE).items()
    }
    page = env.get_template("evaluation.html.j2").render(
        style=style,
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'",
        title="Evaluation of the models",
        command=plain(command) if command else None,
        found=found,
        n_comparisons=data.n_comparisons,
        n_items=data.n_items,
        n_raters=data.n_raters,
        lines=evaluation_lines(found),
        charts=charts,
        growth=[one for name, one in charts.items() if name.startswith("by-")],
        each=EACH,
        band=level_text(BAND),
        version=bbq_plugin.__version__,
        digest=data.digest,
    )
    return str(page)


def _environment() -> Any:
    try:
        from bbq_plugin.report.templating import environment  # noqa: PLC0415 (an extra)
    except ImportError:
        raise UnsupportedError(
            "the HTML report needs jinja2, which is not installed; "
            "run: pip install 'bbq-plugin[charts]'"
        ) from None
    return environment("bbq_plugin.report")


@dataclass(frozen=True)
class HeldSection:
    """What covariates.html.j2 shows: the effects, and what they change."""

    rows: list[tuple[EffectRow, str]]
    lines: list[str]
    chart: Chart


def _held_section(analysis: Analysis) -> HeldSection | None:
    without = analysis.without_covariates
    if without is None:
        return None
    return HeldSection(
        [(row, unit_text(row.covariate, row.unit)) for row in analysis.effects],
        effect_lines(analysis),
        chart(
            partial(held_spec, analysis.leaderboard, without, PAGE),
            "Ratings with the covariates held equal, and without. The leaderboard has the numbers.",
        ),
    )


@dataclass(frozen=True)
class SlicesSection:
    """What slices.html.j2 shows: each item with its place in every slice."""

    tag: str
    sentence: str
    summaries: tuple[SliceSummary, ...]
    rows: list[tuple[ItemRow, list[SliceCell]]]
    has_quality: bool
    folded: bool
    mix: Leaderboard | None
    shares: str
    rescaled: str
    #: Between two slices; none where there are more.
    apart: tuple[SliceDifference, ...]
    quality: list[str]
    chart: Chart


def _slices_section(study: SlicedStudy, mix: Leaderboard | None) -> SlicesSection:
    board = study.overall.leaderboard
    return SlicesSection(
        study.tag, slice_lines(study)[0], study.summaries,
        list(zip(board[:ROWS_SHOWN], study.by_item(), strict=False)),
        any(row.quality is not None for row in study.summaries),
        len(board) > ROWS_SHOWN, mix,
        ", ".join(f"{plain(name)} {share:.0%}" for name, share in study.shares.items() if share),
        rescaled_text(study),
        study.differences if len(study.groups) == 2 else (), quality_lines(study),
        chart(partial(slices_spec, study, PAGE), "Ratings by slice. The table has the numbers."),
    )  # fmt: skip


@dataclass(frozen=True)
class DivisionSection:
    """What camps.html.j2 shows: the camps, and what divides the raters."""

    camps: Chart | None
    boards: list[tuple[str, Leaderboard]]
    axis: Chart | None
    correlations: list[list[str]]
    shown: int


def division_section(analysis: Analysis) -> DivisionSection | None:
    """What to show of a divided panel; None where raters differ in nothing but quality."""
    division = analysis.division
    says = {
        "camps": "Win share of each item in each camp. The tables below have the numbers.",
        "disagreement": "The items on which raters disagree most, and where the raters stand.",
    }
    charts = {
        name: chart(spec, says[name]) for name, spec in division_specs(analysis, PAGE).items()
    }
    if not charts:
        return None
    return DivisionSection(
        camps=charts.get("camps"),
        boards=[(camp_title(division, board), board) for board in analysis.camp_boards],
        axis=charts.get("disagreement"),
        correlations=[[number(float(c), 2) for c in row] for row in division.correlations],
        shown=min(CAMP_ITEMS, len(analysis.leaderboard)),
    )


@dataclass(frozen=True)
class Matrix:
    """The pairwise win probabilities of the best items, as a chart and as numbers."""

    chart: Chart
    cells: list[list[str]]
    shown: int


def _matrix(board: Leaderboard, better: Floats) -> Matrix:
    shown = min(MATRIX_ITEMS, len(board))
    cells = [
        [percent(float(better[i, j])) if i != j else "" for j in range(shown)] for i in range(shown)
    ]
    says = "For each pair, the probability that the row is better than the column."
    return Matrix(chart(partial(matrix_spec, board, better, PAGE), says), cells, shown)


@dataclass(frozen=True)
class HistorySection:
    """The chart of the ratings over time, and a table of the ratings at a few points of it."""

    chart: Chart
    shown: int
    heads: list[str]
    rows: list[tuple[str, list[str]]]
    since: str
    until: str


def history_section(board: Leaderboard, history: Sequence[HistoryPoint]) -> HistorySection | None:
    """What to show of a history; None where there is no line to draw yet."""
    points = thinned(history, board.scale, HISTORY_DRAWN)
    shown = board[:HISTORY_ITEMS]
    known = [point for point in points if any(row.item in point.items for row in shown)]
    if not can_be_drawn(known):
        return None
    places = np.linspace(0, len(known) - 1, min(HISTORY_COLUMNS, len(known)))
    picked = [known[i] for i in dict.fromkeys(round(float(place)) for place in places)]
    digits = 2 if board.scale == "theta" else 0
    return HistorySection(
        chart=chart(
            partial(history_spec, board, known, PAGE),
            f"Ratings of the {len(shown)} best items by number of comparisons. "
            "The table below has some of the numbers.",
        ),
        shown=len(shown),
        heads=[number(point.n_comparisons) for point in picked],
        rows=[(row.item, [_rating_at(p, row.item, digits) for p in picked]) for row in shown],
        since=_date(known[0].at),
        until=_date(known[-1].at),
    )


def _rating_at(point: HistoryPoint, item: str, digits: int) -> str:
    found = point.items.get(item)
    return UNKNOWN if found is None else f"{number(found.rating, digits)} (#{found.rank})"


def _date(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")


@dataclass(frozen=True)
class ScatterCharts:
    """The chart of all raters, and the small one that the pages of raters share."""

    chart: Chart
    small: Any
    width: int
    height: int
    grouped: bool


def _scatter_charts(scatter: Scatter | None, raters: RaterReport) -> ScatterCharts | None:
    if scatter is None:
        return None
    says = (
        f"Quality of {len(raters):,} raters against their agreement with the ranking. "
        "The table of raters has the numbers."
    )
    large = chart(partial(scatter.spec, PAGE), says)
    small = drawn(scatter.small_spec(PAGE)) if any(r.verdict != "keep" for r in raters) else None
    return ScatterCharts(large, small, SMALL_WIDTH, SMALL_HEIGHT, scatter.grouped)


@dataclass(frozen=True)
class Block:
    """Some raters of the table, and a title that says which."""

    title: str
    rows: Sequence[RaterRow]


@dataclass(frozen=True)
class Disagreement:
    """A pair that the rater answered against the ranking of the others more than expected."""

    better: str
    worse: str
    against: float
    n: float
    expected: float


@dataclass(frozen=True)
class RaterPage:
    """A page about one rater."""

    row: RaterRow
    mark: tuple[float, float] | None
    pairs: list[Disagreement]
    #: Which camp, and how it differs; None where there is one camp.
    camp: Sentence | None


@dataclass(frozen=True)
class RatersSection:
    """What the section on raters shows."""

    counts: dict[str, int]
    pages: list[RaterPage]
    page_of: dict[str, int]
    without_page: int
    rule: str
    blocks: list[Block]
    folded: bool
    has_verdicts: bool
    has_intervals: bool
    has_sides: bool
    has_ties: bool
    has_times: bool
    median_quality: float
    median_ties: float
    median_time_s: float
    not_known: tuple[str, ...]
    without_excluded: str
    divided: bool


def raters_section(analysis: Analysis, scatter: Scatter | None) -> RatersSection:
    """Sort the raters, the worst first, and prepare their pages."""
    fit, raters, division = analysis.fit, analysis.raters, analysis.division
    at = {row.rater: index for index, row in enumerate(raters)}
    rows = worst_first(raters)
    watched = [row for row in rows if row.verdict == "watch"]
    shown = [row for row in rows if row.verdict == "exclude"] + watched[:WATCHED_PAGES]
    pages = [
        RaterPage(
            row=row,
            mark=scatter.place(row) if scatter else None,
            pairs=_disagreements(fit, raters.by_others, at[row.rater]),
            camp=camp_sentence(division, row.rater) if division.divided else None,
        )
        for row in shown
    ]
    effect = raters.without_excluded
    return RatersSection(
        counts=verdict_counts(raters),
        pages=pages,
        page_of={page.row.rater: number for number, page in enumerate(pages, 1)},
        without_page=max(0, len(watched) - WATCHED_PAGES),
        rule=raters.rule,
        blocks=_blocks(rows),
        folded=len(rows) > OPEN_ROWS,
        has_verdicts=any(not isnan(row.p_bad) for row in rows),
        has_intervals=any(not isnan(row.quality_lower) for row in rows),
        has_sides=any(not isnan(row.left_rate) for row in rows),
        has_ties=any(row.tie_rate > 0 for row in rows),
        has_times=any(not isnan(row.median_time_s) for row in rows),
        median_quality=_median([row.quality for row in rows]),
        median_ties=_median([row.tie_rate for row in rows]),
        median_time_s=_median([row.median_time_s for row in rows]),
        not_known=raters.not_known,
        without_excluded="" if effect is None else effect.text,
        divided=division.divided,
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
    """The pairs that the rater answered against the others most often beyond chance.

    ``by_others`` is P(winner is better) - 1/2 of each triple, without the rater's own votes.
    """
    if by_others is None:
        return []
    t = fit.judged.triples
    rows = slice(int(t.start[rater]), int(t.start[rater + 1]))
    totals: dict[tuple[int, int], list[float]] = {}
    columns = (column[rows].tolist() for column in (t.winner, t.loser, t.weight, by_others))
    for winner, loser, weight, s in zip(*columns, strict=True):
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
    return found[:DISAGREEMENTS_SHOWN]


@dataclass(frozen=True)
class Spread:
    """Least, median and most of what each item or rater has."""

    least: float
    median: float
    most: float

    @classmethod
    def of(cls, values: Floats) -> Spread:
        """Of at least one value."""
        return cls(float(values.min()), float(np.median(values)), float(values.max()))


@dataclass(frozen=True)
class PositionBias:
    """Share of decided answers for the left item, with its 95% interval."""

    rate: float
    lower: float
    upper: float
    #: 0: the data name no raters, and the answers are taken as independent.
    n_raters: int

    @property
    def verdict(self) -> str:
        """What the interval says, and what to do."""
        if np.isnan(self.lower):
            return "only one rater, so there is no interval"
        if self.lower <= 0.5 <= self.upper:
            return "no position bias found"
        side = "left" if self.rate > 0.5 else "right"
        return f"position bias to the {side}; show the items in random order"


@dataclass(frozen=True)
class DataQuality:
    """What the section on the data shows."""

    skips: list[tuple[str, int]]
    more_reasons: int
    skip_share: float
    tie_share: float
    both_bad_share: float
    #: Item, share answered both bad, comparisons; the highest shares first.
    both_bad: list[tuple[str, float, float]]
    bias: PositionBias | None
    groups: list[Sentence]
    n_groups: int
    per_item: Spread
    per_rater: Spread | None
    pairs_seen: int
    pairs_possible: int


def data_quality(data: Comparisons) -> DataQuality:
    """Describe the comparisons."""
    t = data.triples
    ends = np.concatenate((t.winner, t.loser))
    per_item = np.asarray(np.bincount(ends, np.tile(t.weight, 2), t.n_items), dtype=np.float64)
    per_rater = np.asarray(np.bincount(t.rater(), t.weight, t.n_raters), dtype=np.float64)
    group = kernels.groups(t.winner, t.loser, t.n_items)
    low, high = np.minimum(t.winner, t.loser), np.maximum(t.winner, t.loser)
    skips = sorted(data.skip_reasons.items(), key=lambda reason: -reason[1])
    bias = pooled_bias(data.n_left, data.n_sided)
    if data.has_raters:
        bias = position_bias(data.left_rate, per_rater)
    return DataQuality(
        skips=skips[:REASONS_SHOWN],
        more_reasons=max(0, len(skips) - REASONS_SHOWN),
        skip_share=data.n_skipped / (data.n_comparisons + data.n_skipped),
        tie_share=data.n_ties / data.n_comparisons,
        both_bad_share=data.n_both_bad / data.n_comparisons,
        both_bad=_both_bad(data, per_item),
        bias=bias,
        groups=_groups(group, data.items),
        n_groups=int(np.unique(group).size),
        per_item=Spread.of(per_item),
        per_rater=Spread.of(per_rater) if data.has_raters else None,
        pairs_seen=int(np.unique(low.astype(np.int64) * t.n_items + high).size),
        pairs_possible=t.n_items * (t.n_items - 1) // 2,
    )


def _both_bad(data: Comparisons, per_item: Floats) -> list[tuple[str, float, float]]:
    if data.both_bad_rate is None:
        return []
    worst = np.argsort(-data.both_bad_rate, kind="stable")[:WORST_SHOWN].tolist()
    rows = ((data.items[i], float(data.both_bad_rate[i]), float(per_item[i])) for i in worst)
    return [row for row in rows if row[1] > 0]


def position_bias(left_rate: Floats | None, answers: Floats) -> PositionBias | None:
    """The mean of the raters' left rates by their number of answers; None if no side is known.

    The interval takes the answers of a rater as one cluster, because a habit belongs to a person.
    """
    if left_rate is None:
        return None
    known = ~np.isnan(left_rate)
    rate, weight = left_rate[known], answers[known]
    if not rate.size or weight.sum() <= 0:
        return None
    mean, n = float(np.average(rate, weights=weight)), int(rate.size)
    if n == 1:
        return PositionBias(mean, float("nan"), float("nan"), n)
    squares = float(np.sum((weight * (rate - mean)) ** 2))
    reach = Z95 * sqrt(squares * n / (n - 1)) / float(weight.sum())
    return PositionBias(mean, max(0.0, mean - reach), min(1.0, mean + reach), n)


def pooled_bias(n_left: int, n_sided: int) -> PositionBias | None:
    """The share over all answers, for data without raters; None if no side is known.

    Wilson's interval. It is too narrow if several answers come from the same person.
    """
    if not n_sided:
        return None
    rate, z2 = n_left / n_sided, Z95**2
    middle = (n_left + z2 / 2) / (n_sided + z2)
    reach = Z95 * sqrt(n_sided * rate * (1 - rate) + z2 / 4) / (n_sided + z2)
    return PositionBias(rate, middle - reach, middle + reach, 0)


def _groups(group: Codes, items: tuple[str, ...]) -> list[Sentence]:
    """Some names of each group, when there is more than one; the largest first."""
    labels, sizes = np.unique(group, return_counts=True)
    if labels.size < 2:
        return []
    told: list[Sentence] = []
    for at in np.argsort(-sizes, kind="stable")[:6]:
        parts: list[str | Name] = []
        for i in np.flatnonzero(group == labels[at])[:5]:
            parts += [", " if parts else "", name(items[i])]
        if sizes[at] > 5:
            parts.append(f" and {sizes[at] - 5} more")
        told.append(tuple(parts))
    return told
