"""The answer in a sentence, honest when there is none; and when to stop."""

from __future__ import annotations

from dataclasses import dataclass
from math import isinf
from typing import TYPE_CHECKING

import numpy as np

from bbq_plugin.model.fit import LARGEST_COVARIANCE
from bbq_plugin.text import level_text, needed, p_equals, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from bbq_plugin.analysis import Leaderboard
    from bbq_plugin.analysis.leaderboard import ItemRow
    from bbq_plugin.analysis.uncertainty import Floats

    Bools = NDArray[np.bool_]
    from bbq_plugin.analysis.forecast import Milestone
    from bbq_plugin.analysis.stopping import HeadToHead, Stopping

__all__ = [
    "Headline",
    "Name",
    "Sentence",
    "StopSection",
    "answer",
    "name",
    "stop_section",
    "stopping_lines",
]

NAMED = 4  # more names than this in a sentence are a list, which the table is


class Name(str):
    """The name of an item or a rater, harmless as plain text."""

    __slots__ = ()


Sentence = tuple["str | Name", ...]


@dataclass(frozen=True)
class Headline:
    """One sentence that answers, and those that say what else is known."""

    headline: Sentence
    details: tuple[Sentence, ...]
    settled: bool

    def text(self) -> str:
        """All of it as plain text."""
        return " ".join("".join(sentence) for sentence in (self.headline, *self.details))


def name(text: str) -> Name:
    """A name out of the data, made harmless."""
    return Name(plain(text))


def answer(board: Leaderboard, groups: int = 1, better: Floats | None = None) -> Headline:
    """Who is best, how sure that is, and what cannot be told apart.

    ``groups`` is the number of groups of items never compared with each other; ``better`` is the
    board's matrix, for those who have it already.
    """
    rows = list(board)
    if groups > 1:
        return _no_common_scale(rows, groups)
    best = rows[0]
    is_open = _open_pairs(board, better)
    rivals = [row for row in rows[1:] if row.rank_best == 1]
    if len(rows) > 2 and all(_unplaced(row, len(rows)) for row in rows):
        head: Sentence = (
            f"Nothing is settled: none of the {len(rows)} items can be told apart from the others.",
        )
        return Headline(head, (_lead(best, rows),), settled=False)
    if rivals:
        tied = _listed([best, *rivals])
        head = (*tied, f" cannot be told apart at {level_text(board.level)}.")
        return Headline(
            head, (_lead(best, rows), *_rest(rows, 1 + len(rivals), is_open)), settled=False
        )
    if len(rows) == 2:
        head = (
            name(best.item),
            " is better than ",
            name(rows[1].item),
            f", P {p_equals(best.p_best)}.",
        )
        return Headline(head, (), settled=True)
    head = (name(best.item), f" is best, P {p_equals(best.p_best)}.")
    return Headline(head, _rest(rows, 1, is_open), settled=True)


def _open_pairs(board: Leaderboard, better: Floats | None) -> Bools | None:
    """Which pairs are not told apart, by place; None where all pairs are too many to look at."""
    if better is None and len(board) > LARGEST_COVARIANCE:
        return None
    better = board.better if better is None else better
    sure = (1 + board.level) / 2
    return np.asarray((better < sure) & (better > 1 - sure))


def _unplaced(row: ItemRow, n: int) -> bool:
    return row.rank_best == 1 and row.rank_worst == n


def _lead(best: ItemRow, rows: list[ItemRow]) -> Sentence:
    likeliest = max(rows, key=lambda row: row.p_best)
    if likeliest is best:
        return (name(best.item), f" is ahead, P(best) {p_equals(best.p_best)}.")
    return (
        name(best.item),
        f" has the highest rating (P(best) {p_equals(best.p_best)}), ",
        name(likeliest.item),
        f" the highest chance to be the best (P {p_equals(likeliest.p_best)}).",
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
        return ((f"The order of the other {len(rest)} items is settled.",),)
    runs = _runs(doubt, start)
    named = [run for run in runs if is_open[np.ix_(run, run)][np.triu_indices(len(run), 1)].all()]
    if len(runs) <= 2 and named == runs:
        told = [_listed([rows[at] for at in run]) for run in runs]
        return ((*told[0], " cannot be told apart", *_nor(told[1:]), "."),)
    if all(doubt):
        return ((f"Below, no two neighbours among the other {len(rest)} can be told apart.",),)
    return ((f"Below, {sum(doubt)} of {len(doubt)} pairs of neighbours cannot be told apart.",),)


def _nor(told: list[Sentence]) -> Sentence:
    return (", nor can ", *told[0]) if told else ()


def _runs(doubt: list[bool], start: int) -> list[list[int]]:
    """Places that hang together by open pairs of neighbours."""
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
            last = at == len(rows) - 1
            names.append(" and " if last else ", ")
        names.append(name(row.item))
    if len(shown) < len(rows):
        names.append(f" and {len(rows) - len(shown)} more")
    return tuple(names)


def _no_common_scale(rows: list[ItemRow], groups: int) -> Headline:
    best, never = rows[0], "that were never compared with each other"
    head: Sentence = (
        f"No overall best can be named: the items fall into {groups} groups {never}.",
    )
    return Headline(
        head,
        (
            (
                "Across groups the ratings rest on the prior alone; by it, ",
                name(best.item),
                " leads.",
            ),
        ),
        settled=False,
    )


@dataclass(frozen=True)
class StopSection:
    """What stop.html.j2 shows: the forecast by question, the rule in a sentence, its pairs."""

    forecast: list[tuple[str, Milestone]]
    no_forecast: str
    for_good: Sentence
    pairs: tuple[HeadToHead, ...]


def stop_section(stop: Stopping) -> StopSection:
    """When to stop, for the report and the live page."""
    asked = [(question_text(row), row) for row in stop.milestones]
    return StopSection(asked, stop.no_forecast, for_good(stop), stop.pairs)


def stopping_lines(stop: Stopping) -> list[str]:
    """A line for each question, and one on what is settled however often someone looks."""
    lines = []
    if stop.milestones:
        lines.append(f"When to stop ({level_text(stop.level)}), as a forecast with an even chance:")
        lines += [f"  {question_text(row)}: {_forecast(row)}" for row in stop.milestones]
    elif stop.no_forecast:
        lines.append(f"When to stop: {stop.no_forecast}")
    return [*lines, "".join(for_good(stop))]


def for_good(stop: Stopping) -> Sentence:
    """What the rule says that holds at all times."""
    pairs = "pair" if stop.compared == 1 else "pairs"
    told = f"{stop.settled:,} of {stop.compared:,} {pairs} told apart by their own votes"
    begin = f"However often you look ({level_text(stop.level)}): {told}; "
    if stop.best is None:
        return (f"{begin}no item is the best of all yet.",)
    return (begin, name(stop.best), " is best.")


def question_text(row: Milestone) -> str:
    """The question in words."""
    if row.question == "top-k":
        return f"the best {row.top_k}"
    return {"best": "the best item", "neighbours": "every pair of neighbours"}[row.question]


def _forecast(row: Milestone) -> str:
    if row.known:
        return f"reached, P {p_equals(row.probability)}"
    if isinf(row.more) and isinf(row.chosen):
        return "out of reach"
    so_far = "out of reach as so far" if isinf(row.more) else f"{needed(row.more)} more as so far"
    return f"{so_far}, {needed(row.chosen)} if each pair is chosen"
