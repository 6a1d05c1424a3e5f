"""Answers about several items at once, as pairs: rankings, and the best and the worst."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bbq_plugin.data.rankings import Weights, break_ranking, break_ties
from bbq_plugin.data.records import Comparison, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Pair:
    """One comparison of an answer; those of a slate were not shown side by side."""

    left: str
    right: str
    outcome: Outcome
    weight: float = 1.0
    in_slate: bool = False


def ranked_pairs(
    ranks: Sequence[tuple[str, float]],
    unranked: Sequence[str] = (),
    weights: Weights = "information",
    *,
    higher: bool = False,
) -> list[Pair]:
    """The pairs of items with their ranks, or with scores where `higher` is better.

    Equal ranks are ties. Two items keep the sides on which they are named.
    """
    if len(ranks) == 2 and not unranked:
        (left, first), (right, second) = ranks
        better = (first > second) if higher else (first < second)
        return [Pair(left, right, "tie" if first == second else "left" if better else "right")]
    levels: dict[float, list[str]] = {}
    for name, rank in ranks:
        levels.setdefault(rank, []).append(name)
    ordered = [levels[rank] for rank in sorted(levels, reverse=higher)]
    wins, ties = break_ties(ordered, unranked=unranked, weights=weights)
    return [Pair(a, b, "left", weight, in_slate=True) for a, b, weight in wins] + [
        Pair(a, b, "tie", weight, in_slate=True) for a, b, weight in ties
    ]


def best_worst_pairs(
    best: str, worst: str | None, shown: Sequence[str], weights: Weights = "information"
) -> list[Pair]:
    """The best beats all others and, where it is known, all others beat the worst."""
    middle = [name for name in shown if name not in (best, worst)]
    levels = [level for level in ([best], middle, [worst] if worst else []) if level]
    return [
        Pair(a, b, "left", weight, in_slate=True)
        for a, b, weight in break_ranking(levels, weights=weights)
    ]


def comparisons(
    pairs: Sequence[Pair],
    key: str,
    rater: str | None,
    *,
    at: float | None = None,
    time_s: float | None = None,
    tags: Mapping[str, str] | None = None,
    sided: bool = True,
) -> Iterator[Comparison]:
    """The records of one answer; where it is not `sided`, left and right mean nothing."""
    for i, pair in enumerate(pairs):
        yield Comparison(
            f"{key}/{i}" if pair.in_slate else key,
            rater,
            pair.left,
            pair.right,
            pair.outcome,
            pair.weight,
            slate=key if pair.in_slate or not sided else None,
            at=at,
            # One answer took one time, however many pairs it is broken into.
            time_s=None if i else time_s,
            tags=None if tags is None else dict(tags),
        )
