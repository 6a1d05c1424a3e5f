"""The result in sentences and lines: the best item, when to stop, what was fitted and left out."""

from __future__ import annotations

from dataclasses import dataclass
from math import isinf, isnan
from typing import TYPE_CHECKING

import numpy as np

import bbq_plugin
from bbq_plugin.data.clusters import RATER
from bbq_plugin.model.objectives import LARGEST_COVARIANCE
from bbq_plugin.text import (
    capital,
    chance,
    counted,
    level_text,
    needed,
    number,
    p_equals,
    plain,
    share,
    short_name,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from bbq_plugin.analysis import Analysis, Leaderboard
    from bbq_plugin.analysis.agreement import PanelDivision
    from bbq_plugin.analysis.leaderboard import ItemRow
    from bbq_plugin.analysis.raters import RaterReport
    from bbq_plugin.analysis.slices import SlicedStudy
    from bbq_plugin.analysis.stability import Evaluation, Fragility
    from bbq_plugin.analysis.stopping import HeadToHead, Milestone, OpenPairs, Stopping
    from bbq_plugin.data.dataset import Comparisons
    from bbq_plugin.data.records import Skipped
    from bbq_plugin.data.triples import Floats
    from bbq_plugin.model import Fit
    from bbq_plugin.report.documents import Origin

    Bools = NDArray[np.bool_]

MOST_SLICE_LINES = 6
_WORST_SHOWN = 3  # items that the line on both_bad names
NAMED = 4  # a sentence names at most so many items; the table has all


class Name(str):
    """The name of an item or a rater, without control characters."""

    __slots__ = ()


Sentence = tuple["str | Name", ...]


@dataclass(frozen=True)
class Headline:
    """One sentence with the result, and those that say what else is known."""

    headline: Sentence
    details: tuple[Sentence, ...]
    settled: bool

    def text(self) -> str:
        """All of it as plain text."""
        return " ".join("".join(sentence) for sentence in (self.headline, *self.details))


def name(text: str) -> Name:
    """A name from the data, without control characters, and cut where it is very long."""
    return Name(short_name(text))


def answer(
    board: Leaderboard, groups: int = 1, better: Floats | None = None,
    division: PanelDivision | None = None,
) -> Headline:  # fmt: skip
    """Say which item is best, with what probability, and which items are not distinguishable.

    ``groups`` is the number of groups of items never compared with each other. ``better`` is the
    board's matrix, if the caller has it already. Where ``division`` has several camps, they come
    first.
    """
    told = _ranking(board, groups, better)
    if division is None:
        return told
    if not division.divided:
        return Headline(told.headline, (*told.details, *taste_sentences(division)), told.settled)
    head, *more = division_sentences(division)
    panel = ("Whole panel: ", *told.headline)
    return Headline(head, (*more, panel, *told.details), told.settled)


def division_sentences(division: PanelDivision) -> list[Sentence]:
    """That the panel is divided, and by what; groups that may be inverted are named as such."""
    camps = [row for row in division if not row.inverted]
    told: list[Sentence] = []
    if len(camps) > 1:
        told += [_camps(division), _correlations(division)]
    n = sum(row.n_raters for row in division)
    for row in division:
        if row.inverted:
            of = division.reverse_of(row.camp)
            others = "the others'" if len(camps) == 1 else f"camp {of}'s"
            correlation = number(float(division.correlations[row.camp - 1, of - 1]), 2)
            said = f"{row.n_raters:,} of {counted(n, 'rater')} follow the reverse of {others}"
            advice = "Check the wording of the question and the keys of these raters"
            told += [
                (f"{said} ranking (correlation {correlation}): they may be inverted.",),
                (f"{advice}: opposite tastes and inverted answers look alike.",),
            ]
    return told


def _camps(division: PanelDivision) -> Sentence:
    as_asked = "" if division.asked is None else f", as asked (camps={division.asked})"
    camps = [row for row in division if not row.inverted]
    if len({row.best for row in camps}) == 1:
        sizes = ", ".join(f"{row.n_raters:,}" for row in camps[:-1])
        sizes = f"{sizes} and {camps[-1].n_raters:,}"
        into = f"into {len(camps)} camps of {sizes} raters{as_asked}"
        head = f"The panel is divided {into}. All of them prefer "
        return (head, name(camps[0].best), " first; they differ in what follows.")
    into = "" if len(camps) == 2 else f" into {len(camps)} camps"
    parts: list[str | Name] = [f"The panel is divided{into}{as_asked}: "]
    for at, row in enumerate(camps):
        who = counted(row.n_raters, "rater") if at == 0 else f", {row.n_raters:,}"
        parts += [
            f"{who} {'prefers' if row.n_raters == 1 else 'prefer'} ",
            name(row.best),
            " first",
        ]
    return (*parts, ".")


def _correlations(division: PanelDivision) -> Sentence:
    at = [row.camp - 1 for row in division if not row.inverted]
    found = [float(division.correlations[i, j]) for n, i in enumerate(at) for j in at[n + 1 :]]
    if len(found) == 1:
        return (f"Their rankings correlate with {number(found[0], 2)}.",)
    ends = f"{number(min(found), 2)} to {number(max(found), 2)}"
    return (f"The correlations between their rankings are {ends}.",)


def taste_sentences(division: PanelDivision) -> tuple[Sentence, ...]:
    """That raters differ in taste, where they form no camps all the same."""
    axis = division.axis
    if axis is None:
        return ()
    differ = "The raters differ in taste, but form no camps. They disagree most on "
    return ((differ, name(axis.items[0][0]), " and ", name(axis.items[-1][0]), "."),)


def camp_sentence(division: PanelDivision, rater: str) -> Sentence:
    """Which camp a rater belongs to, with what probability, and how that camp differs."""
    belongs = division.member[rater]
    row, taste = division[belongs.camp - 1], division.tastes[belongs.camp - 1]
    head = f"Camp {belongs.camp} of {len(division)}, P {p_equals(belongs.p)}"
    head = f"{head}: {share(row.share)} of the panel"
    told: list[str | Name] = [f"{head}, prefers ", name(row.best), " first."]
    if row.inverted:
        told.append(" It follows the reverse of a larger camp: check the wording and the keys.")
    elif taste.more:
        told += [" Compared with the others it prefers ", *_named(taste.more), " more and "]
        told += [*_named(taste.less), " less."]
    return tuple(told)


def camp_title(division: PanelDivision, board: Leaderboard) -> str:
    """Whose leaderboard it is."""
    row = division[(board.camp or 1) - 1]
    group = "Inverted group" if row.inverted else "Camp"
    return f"{group} {row.camp}, {counted(row.n_raters, 'rater')}"


def _named(items: Sequence[str]) -> Sentence:
    parts: list[str | Name] = []
    for at, item in enumerate(items):
        parts += [" and " if at else "", name(item)]
    return tuple(parts)


def _ranking(board: Leaderboard, groups: int, better: Floats | None) -> Headline:
    rows = list(board)
    if groups > 1:
        return _no_common_scale(rows, groups)
    best = rows[0]
    is_open = _open_pairs(board, better)
    rivals = [row for row in rows[1:] if row.rank_best == 1]
    if len(rows) > 2 and all(row.rank_best == 1 and row.rank_worst == len(rows) for row in rows):
        none = f"none of the {len(rows)} items is distinguishable from the others"
        head: Sentence = (f"Nothing is decided yet: {none}.",)
        return Headline(head, (_lead(best, rows, board.ordered_by),), settled=False)
    if rivals:
        tied = _listed([best, *rivals])
        head = (*tied, f" are not distinguishable at {level_text(board.level)}.")
        rest = _rest(rows, 1 + len(rivals), is_open)
        return Headline(head, (_lead(best, rows, board.ordered_by), *rest), settled=False)
    if len(rows) == 2:
        better_than = (" is better than ", name(rows[1].item))
        head = (name(best.item), *better_than, f", P {p_equals(best.p_best)}.")
        return Headline(head, (), settled=True)
    head = (name(best.item), f" is best, P {p_equals(best.p_best)}.")
    return Headline(head, _rest(rows, 1, is_open), settled=True)


def clusters_text(board: Leaderboard) -> str:
    """Which answers belong together, and what that did to the intervals; empty without clusters."""
    if not board.clusters:
        return ""
    told = " and ".join(_way(way.name, way.n) for way in board.clusters)
    return (
        f"Intervals allow for clusters of answers ({told}): "
        f"{board.wider:.2f} times as wide as the model's own."
    )


def _way(name: str, n: int) -> str:
    named = name in (RATER, "task")
    return counted(n, name) if named else f"{counted(n, 'value')} of {plain(name)}"


def _open_pairs(board: Leaderboard, better: Floats | None) -> Bools | None:
    """Which pairs of rows are not distinguishable; None with too many items for a matrix."""
    if better is None and len(board) > LARGEST_COVARIANCE:
        return None
    better = board.better if better is None else better
    sure = (1 + board.level) / 2
    return np.asarray((better < sure) & (better > 1 - sure))


def _lead(best: ItemRow, rows: list[ItemRow], by: str) -> Sentence:
    likeliest = max(rows, key=lambda row: row.p_best)
    if likeliest is best:
        return (name(best.item), f" is ahead, P(best) {p_equals(best.p_best)}.")
    return (
        name(best.item),
        f" has the highest {by.replace('_', ' ')} (P(best) {p_equals(best.p_best)}), ",
        name(likeliest.item),
        f" the highest probability of being the best (P {p_equals(likeliest.p_best)}).",
    )


def _rest(rows: list[ItemRow], start: int, is_open: Bools | None) -> tuple[Sentence, ...]:
    """What is known of the items from ``start`` on; ``is_open`` is by pair of places."""
    rest = rows[start:]
    if not rest or is_open is None:
        return ()
    if len(rest) == 1:
        return ((name(rest[0].item), " is last."),)
    doubt = [bool(is_open[at, at + 1]) for at in range(start, len(rows) - 1)]
    if not any(doubt):
        return ((f"The order of the other {len(rest)} items is decided.",),)
    runs = _runs(doubt, start)
    named = [run for run in runs if is_open[np.ix_(run, run)][np.triu_indices(len(run), 1)].all()]
    if len(runs) <= 2 and named == runs:
        told, *more = [_listed([rows[at] for at in run]) for run in runs]
        nor: Sentence = (", nor are ", *more[0]) if more else ()
        return ((*told, " are not distinguishable", *nor, "."),)
    if all(doubt):
        return ((f"Of the other {len(rest)} items, no two neighbours are distinguishable.",),)
    return ((f"Below, {sum(doubt)} of {len(doubt)} pairs of neighbours are not distinguishable.",),)


def _runs(doubt: list[bool], start: int) -> list[list[int]]:
    """Runs of rows in which each is not distinguishable from the next."""
    runs: list[list[int]] = []
    for at, open_pair in enumerate(doubt, start):
        if not open_pair:
            continue
        if runs and runs[-1][-1] == at:
            runs[-1].append(at + 1)
        else:
            runs.append([at, at + 1])
    return runs


def _listed(rows: Sequence[ItemRow]) -> Sentence:
    names: list[str | Name] = []
    shown = rows if len(rows) <= NAMED else rows[: NAMED - 1]
    for at, row in enumerate(shown):
        if at:
            names.append(" and " if at == len(rows) - 1 else ", ")
        names.append(name(row.item))
    if len(shown) < len(rows):
        names.append(f" and {len(rows) - len(shown)} more")
    return tuple(names)


def _no_common_scale(rows: list[ItemRow], groups: int) -> Headline:
    best, never = rows[0], "that were never compared with each other"
    head: Sentence = (f"There is no overall best item: the items form {groups} groups {never}.",)
    prior = "Between groups the ratings depend on the prior alone. By it, "
    return Headline(head, ((prior, name(best.item), " is first."),), settled=False)


@dataclass(frozen=True)
class StopSection:
    """What stop.html.j2 shows: the forecast by question and by pair, then the sequential test."""

    forecast: list[tuple[str, Milestone]]
    no_forecast: str
    open_pairs: OpenPairs | None
    monitoring: Sentence
    pairs: tuple[HeadToHead, ...]
    camp: int | None
    #: The same in three sentences.
    brief: tuple[Sentence, ...] = ()
    fragile: Sentence | None = None
    pairs_shown: int = 12


def stop_section(stop: Stopping, fragile: Fragility | None = None) -> StopSection:
    """When to stop, for the report and the live page."""
    ahead = stop.forecast
    asked = [(_question(row), row) for row in ahead.milestones]
    return StopSection(
        asked, ahead.no_milestones, ahead.open_pairs, monitoring(stop), stop.pairs, stop.camp,
        _brief(stop), None if fragile is None else fragility_sentence(fragile),
    )  # fmt: skip


def _brief(stop: Stopping) -> tuple[Sentence, ...]:
    """Whether the best item is known, what is open, and what the test says that may be repeated."""
    ahead, level = stop.forecast, level_text(stop.level)
    best = next((row for row in ahead.milestones if row.question == "best"), None)
    if best is None:
        known = f"{capital(ahead.no_milestones or 'there is no forecast')}."
    elif best.known:
        known = (
            f"The first item is the best with P {p_equals(best.probability)}: at {level} you can "
            "stop asking which one is best."
        )
    elif isinf(best.chosen):
        known = (
            f"The best item is not known at {level}, and is out of reach: the first items are "
            "practically equal."
        )
    else:
        known = (
            f"The best item is not known yet (P {p_equals(best.probability)}): about "
            f"{needed(best.chosen)} more comparisons, with pairs chosen by bbq, decide it at "
            f"{level} with a chance of 50%, {needed(best.chosen_80)} with 80%."
        )
    told: list[Sentence] = [(known,)]
    if ahead.open_pairs is not None:
        n, of = ahead.open_pairs.n_open, counted(ahead.open_pairs.n_pairs, "pair")
        are = "is" if n == 1 else "are"
        undecided = f"By the model, {n:,} of {of} {are} not decided yet."
        told.append((undecided if n else f"By the model, all of {of} are decided.",))
    pairs = f"{stop.settled:,} of {counted(stop.compared, 'pair')}"
    test = f"By the stricter test that may be read after every vote, {pairs} are significant, and "
    if stop.best is None:
        return (*told, (f"{test}there is no best item yet.",))
    return (*told, (test, name(stop.best), " is the best item."))


def rater_sentences(raters: RaterReport) -> list[Sentence]:
    """How many raters are excluded or watched, and whether that changes anything."""
    out = sum(row.verdict == "exclude" for row in raters)
    watched = sum(row.verdict == "watch" for row in raters)
    of = counted(len(raters), "rater")
    if not out and not watched:
        return [(f"None of {of} is to be excluded or watched.",)]
    are = "is" if out == 1 else "are"
    counts = f"Of {of}, {out:,} {are} to be excluded and {watched:,} to be watched."
    told: list[Sentence] = [(counts,)]
    effect = raters.without_excluded
    if effect is not None and effect.matters:
        told.append((f"Leaving out the excluded changes the result: {plain(effect.text)}.",))
    elif effect is not None:
        moved = f"{effect.moved} items change rank" if effect.moved else "no rank changes"
        told.append((f"Leaving out the excluded does not change the result: {moved}.",))
    return told


def fragility_sentence(found: Fragility) -> Sentence:
    """What the first place hangs on, in a sentence."""
    parts: list[str | Name] = []
    for removal, what in ((found.comparisons, "comparison"), (found.raters, "rater")):
        if removal is None:
            continue
        parts.append("; without " if parts else "Without ")
        parts.append(f"{removal.n:,} of {counted(removal.of, what)}")
        if what == "comparison" and found.ties:
            parts.append(" with a winner,")
        if removal.raters:
            parts.append(" (")
            for at, rater in enumerate(removal.raters[:NAMED]):
                parts += [", ", name(rater)] if at else [name(rater)]
            more = len(removal.raters) - NAMED
            parts.append(f" and {more} more)" if more > 0 else ")")
        parts += [" ", name(removal.first), " would be first"]
    if not parts:
        tried = "without any set of comparisons or raters that was tried, up to half of them."
        return (name(found.first), f" stays first {tried}")
    parts.append(" (upper bounds: found step by step and verified by a fit without them).")
    return tuple(parts)


def stopping_lines(stop: Stopping) -> list[str]:
    """A line for each question, and one for the test that is valid under continuous monitoring."""
    lines, ahead = [], stop.forecast
    if ahead.milestones:
        whose = "" if stop.camp is None else f" by raters of camp {stop.camp}, for its ranking"
        about = f"forecast, {level_text(stop.level)} level, 50% chance"
        lines.append(f"Comparisons needed{whose} ({about}):")
        lines += [f"  {_question(row)}: {_forecast(row)}" for row in ahead.milestones]
    elif ahead.no_milestones:
        lines.append(f"Comparisons needed: {ahead.no_milestones}")
    return [*lines, "".join(monitoring(stop))]


def monitoring(stop: Stopping) -> Sentence:
    """The result of the test that may be read after every vote."""
    pairs = f"{stop.settled:,} of {counted(stop.compared, 'pair')}"
    whose = "" if stop.camp is None else ", votes of all camps"
    head = f"Significant under continuous monitoring ({level_text(stop.level)}{whose}): {pairs}. "
    if stop.best is None:
        return (f"{head}Which item is best is not settled yet by this test, which is stricter.",)
    return (head, name(stop.best), " is the best item.")


def effect_lines(analysis: Analysis) -> list[str]:
    """What the effects of the covariates mean, below their table."""
    held = analysis.fit.held
    if held is None:
        return []
    text = (
        "In the ratings these covariates are held equal. An effect is in points of the rating, for "
        "the stated difference of the covariate. Verdicts about raters ignore covariates."
    )
    lines = [text]
    if held.design.leaning is not None:
        known = analysis.fit.known_with
        sure = int((abs(known.lean) > 1.96 * known.lean_sd).sum())
        clearly = f"of {len(known.lean):,} clearly {'leans' if sure == 1 else 'lean'} to one side"
        # Of two equal items, by the logistic function.
        apart = 50 * np.tanh(held.leans.tau / 2)
        lines.append(
            f"{counted(sure, 'rater')} {clearly}. Of two equal items a rater chooses the left one "
            f"more or less often than the panel, by {apart:.0f} percentage points (standard "
            "deviation)."
        )
    return lines


def evaluation_lines(found: Evaluation) -> dict[str, list[str]]:
    """The forecast, the correlations and the sensitivity to the priors, in a line each."""
    forecast, correlated, sensitive = [], [], []
    forecast += [f"{capital(text)}." for text in found.warnings]
    for row in found.forecast:
        extra = "rater" if row.more == 1 else "raters"
        who = f"With {row.more:,} more {extra} of this kind" if row.more else "With today's raters"
        forecast.append(
            f"{who} expect τ {row.tau:.2f} ({row.tau_lower:.2f}–{row.tau_upper:.2f}) with the "
            f"ranking of all such raters, and the same best item with P = {row.top1:.2f}."
        )
    if found.in_several:
        correlated.append(
            f"Each rater is in one group, that of most of their answers; "
            f"{counted(found.in_several, 'rater')} of {len(found.agreement):,} have answers in "
            "several. bbq fit --by groups the answers instead."
        )
    for one in found.correlations:
        who = counted(one.n_raters, "rater") + (f" ({plain(one.group)})" if one.group else "")
        means = f"(mean quality {one.quality:.2f}, agreement {one.agreement:.0%})"
        correlated.append(
            f"Quality or agreement of {who} do not differ, or they are too few to correlate them "
            f"{means}."
            if isnan(one.correlation)
            else f"Quality and agreement of {who} correlate with r = {one.correlation:.2f} {means}."
        )
    for model in dict.fromkeys(row.model for row in found.sensitivity):
        rows = [row for row in found.sensitivity if row.model == model]
        taus, same = [row.tau for row in rows], [row.tau_reference for row in rows]
        sensitive.append(
            f"{model}: under {len(rows)} other priors τ of the resamples is {min(taus):.2f} to "
            f"{max(taus):.2f}, and τ with the ranking of all data at least {min(same):.2f}."
        )
    return {"forecast": forecast, "correlations": correlated, "sensitivity": sensitive}


def slice_lines(study: SlicedStudy) -> list[str]:
    """How far slices lie apart, and what differs significantly."""
    if len(study.groups) == 1:
        only = f"{plain(study.tag)}={plain(next(iter(study.groups)))}"
        return [f"Every answer with a value has {only}: there is nothing to compare."]
    found = [cell for cell in study.cells if cell.differs]
    head = (
        f"{counted(len(study.groups), 'slice')} by {plain(study.tag)}: ratings differ between them "
        f"by {study.spread:,.0f} points (standard deviation)."
    )
    if any(not cell.n for cell in study.cells):
        head += " In brackets: no answer of the slice has the item; its rating is from the others."
    if not found:
        return [f"{head} No item differs significantly in any slice.", *quality_lines(study)]
    differ = "differs" if len(found) == 1 else "differ"
    lines = [
        f"{head} {counted(len(found), 'rating')} of {len(study.cells):,} {differ} significantly."
    ]
    found.sort(key=lambda cell: -abs(cell.difference))
    for cell in found[:MOST_SLICE_LINES]:
        way = "higher" if cell.difference > 0 else "lower"
        ends = sorted((abs(cell.difference_lower), abs(cell.difference_upper)))
        lines.append(
            f"  {plain(cell.item)} is {way} in {plain(cell.slice)}, by {abs(cell.difference):,.0f} "
            f"({ends[0]:,.0f} to {ends[1]:,.0f})"
        )
    if len(found) > MOST_SLICE_LINES:
        lines.append(f"  and {len(found) - MOST_SLICE_LINES} more, marked in the table")
    return [*lines, *quality_lines(study)]


def rescaled_text(study: SlicedStudy) -> str:
    """That the shares of a mix did not sum to 1; empty where they did."""
    if abs(study.total - 1) < 1e-6:
        return ""
    return f"The shares as given sum to {study.total:.4g}; they were divided by it."


def quality_lines(study: SlicedStudy) -> list[str]:
    """The quality of groups of raters side by side; nothing where the slices are no such groups."""
    rows = [row for row in study.summaries if row.quality is not None]
    if not study.of_raters or len(rows) < 2:
        return []
    told = [
        f"{plain(row.slice)} {row.quality:.2f} ({row.quality_lower:.2f}–{row.quality_upper:.2f}, "
        f"{counted(row.n_raters, 'rater')})"
        for row in rows[:MOST_SLICE_LINES]
    ]
    more = "" if len(rows) <= MOST_SLICE_LINES else f", and {len(rows) - MOST_SLICE_LINES} more"
    return [f"Mean quality of the raters: {', '.join(told)}{more}."]


def _question(row: Milestone) -> str:
    if row.question == "top-k":
        return f"the best {row.top_k}"
    return {"best": "the best item", "neighbours": "every pair of neighbours"}[row.question]


def _forecast(row: Milestone) -> str:
    if row.known:
        return f"reached, P {p_equals(row.probability)}"
    if isinf(row.more) and isinf(row.chosen):
        return "out of reach"
    chosen = f"{needed(row.chosen)} with pairs chosen by bbq"
    return f"{needed(row.more)} at the current mix of pairs, {chosen}"


# -- what was fitted, and how to do it again


def summary_lines(data: Comparisons, fit: Fit) -> list[str]:
    """Say what was fitted, and what was left out."""
    raters = counted(data.n_raters, "rater") if data.has_raters else "no rater names"
    compared = f"{counted(data.n_comparisons, 'comparison')} of {counted(data.n_items, 'item')}"
    without = ", without raters: as bayes-bt" if fit.model == "bbq" and not fit.rated else ""
    model = f"model {fit.model}{without}; priors: {fit.priors.text(rated=fit.rated)}"
    return [f"{compared}, {raters}", model, *_both_bad_lines(data), *left_out_lines(data)]


def _both_bad_lines(data: Comparisons) -> list[str]:
    if data.both_bad_rate is None:
        return []
    rates = data.both_bad_rate.tolist()
    worst = sorted(range(len(rates)), key=lambda i: -rates[i])[:_WORST_SHOWN]
    told = ", ".join(f"{plain(data.items[i])} {_seen(rates[i])}" for i in worst if rates[i])
    bad = _seen(data.n_both_bad / data.n_comparisons)
    return [f"{bad} of the comparisons were answered both bad; highest: {told}"]


def left_out_lines(data: Comparisons) -> list[str]:
    """Say what was not fitted, and why."""
    lines = []
    if data.n_skipped:
        first = {one.reason: one for one in reversed(data.skipped) if one.value is not None}
        why = ", ".join(
            f"{n:,} × {plain(reason)}{_first_of(first.get(reason))}"
            for reason, n in data.skip_reasons.items()
        )
        lines.append(f"{counted(data.n_skipped, 'row')} skipped: {why}")
    for n, what in (
        (data.n_duplicates, "left out as duplicates"),
        (data.n_dropped, "left out with dropped raters"),
        (data.n_filtered, "left out by the tag filter"),
    ):
        if n:
            lines.append(f"{counted(n, 'answer')} {what}")
    return lines


def _first_of(skipped: Skipped | None) -> str:
    """Where the first row with a reason stands, and what stands there."""
    return "" if skipped is None else plain(f" (first in {skipped.where}: {skipped.value})")


def origin_lines(data: Comparisons, origin: Origin) -> list[str]:
    """Say how to reproduce the result."""
    lines = [f"bbq {bbq_plugin.__version__}, data {data.digest[:16]}"]
    if origin.command is not None:
        lines.append(f"To reproduce: {plain(origin.command)}")
    return lines


def _seen(counted_share: float) -> str:
    """A share of what was counted; 0% and 100% only where they are exact."""
    return share(counted_share) if counted_share in (0, 1) else chance(counted_share)
