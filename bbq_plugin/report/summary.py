"""The result in sentences: the best item, if one is known, and when to stop."""

from __future__ import annotations

from dataclasses import dataclass
from math import isinf, isnan
from typing import TYPE_CHECKING

import numpy as np

from bbq_plugin.model.objectives import LARGEST_COVARIANCE
from bbq_plugin.text import counted, level_text, needed, p_equals, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from bbq_plugin.analysis import Leaderboard, RaterRow
    from bbq_plugin.analysis.forecast import Milestone, OpenPairs
    from bbq_plugin.analysis.leaderboard import ItemRow
    from bbq_plugin.analysis.stopping import HeadToHead, Stopping
    from bbq_plugin.data.triples import Floats

    Bools = NDArray[np.bool_]

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
    """A name from the data, without control characters."""
    return Name(plain(text))


def answer(board: Leaderboard, groups: int = 1, better: Floats | None = None) -> Headline:
    """Say which item is best, with what probability, and which items are not distinguishable.

    ``groups`` is the number of groups of items never compared with each other. ``better`` is the
    board's matrix, if the caller has it already.
    """
    rows = list(board)
    if groups > 1:
        return _no_common_scale(rows, groups)
    best = rows[0]
    is_open = _open_pairs(board, better)
    rivals = [row for row in rows[1:] if row.rank_best == 1]
    if len(rows) > 2 and all(row.rank_best == 1 and row.rank_worst == len(rows) for row in rows):
        none = f"none of the {len(rows)} items is distinguishable from the others"
        head: Sentence = (f"Nothing is decided yet: {none}.",)
        return Headline(head, (_lead(best, rows),), settled=False)
    if rivals:
        tied = _listed([best, *rivals])
        head = (*tied, f" are not distinguishable at {level_text(board.level)}.")
        rest = _rest(rows, 1 + len(rivals), is_open)
        return Headline(head, (_lead(best, rows), *rest), settled=False)
    if len(rows) == 2:
        better_than = (" is better than ", name(rows[1].item))
        head = (name(best.item), *better_than, f", P {p_equals(best.p_best)}.")
        return Headline(head, (), settled=True)
    head = (name(best.item), f" is best, P {p_equals(best.p_best)}.")
    return Headline(head, _rest(rows, 1, is_open), settled=True)


def _open_pairs(board: Leaderboard, better: Floats | None) -> Bools | None:
    """Which pairs of rows are not distinguishable; None with too many items for a matrix."""
    if better is None and len(board) > LARGEST_COVARIANCE:
        return None
    better = board.better if better is None else better
    sure = (1 + board.level) / 2
    return np.asarray((better < sure) & (better > 1 - sure))


def _lead(best: ItemRow, rows: list[ItemRow]) -> Sentence:
    likeliest = max(rows, key=lambda row: row.p_best)
    if likeliest is best:
        return (name(best.item), f" is ahead, P(best) {p_equals(best.p_best)}.")
    return (
        name(best.item),
        f" has the highest rating (P(best) {p_equals(best.p_best)}), ",
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


def worst_first(raters: Iterable[RaterRow]) -> list[RaterRow]:
    """Excluded raters, then watched ones, then the others, each by quality."""
    severity = {"exclude": 0, "watch": 1, "keep": 2}
    return sorted(raters, key=lambda r: (severity[r.verdict], isnan(r.quality), r.quality))


@dataclass(frozen=True)
class StopSection:
    """What stop.html.j2 shows: the forecast by question and by pair, then the sequential test."""

    forecast: list[tuple[str, Milestone]]
    no_forecast: str
    open_pairs: OpenPairs | None
    monitoring: Sentence
    pairs: tuple[HeadToHead, ...]
    pairs_shown: int = 12


def stop_section(stop: Stopping) -> StopSection:
    """When to stop, for the report and the live page."""
    ahead = stop.forecast
    asked = [(_question(row), row) for row in ahead.milestones]
    return StopSection(asked, ahead.no_milestones, ahead.open_pairs, monitoring(stop), stop.pairs)


def stopping_lines(stop: Stopping) -> list[str]:
    """A line for each question, and one for the test that is valid under continuous monitoring."""
    lines, ahead = [], stop.forecast
    if ahead.milestones:
        lines.append(f"Comparisons needed (forecast, {level_text(stop.level)} level, 50% chance):")
        lines += [f"  {_question(row)}: {_forecast(row)}" for row in ahead.milestones]
    elif ahead.no_milestones:
        lines.append(f"Comparisons needed: {ahead.no_milestones}")
    return [*lines, "".join(monitoring(stop))]


def monitoring(stop: Stopping) -> Sentence:
    """The result of the test that may be read after every vote."""
    pairs = f"{stop.settled:,} of {counted(stop.compared, 'pair')}"
    head = f"Significant under continuous monitoring ({level_text(stop.level)}): {pairs}. "
    if stop.best is None:
        return (f"{head}No item is significantly the best yet.",)
    return (head, name(stop.best), " is the best item.")


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
