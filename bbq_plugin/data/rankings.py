"""Rankings and choices broken into weighted comparisons.

One weight for every pair of a slate, so that the pairs together carry as much
information about the skills as the answer itself did.

**Derivation.** Under Plackett-Luce the score (derivative of the log-likelihood
with respect to θ_i) of a full ranking of m items at equal skills depends on i's
position p alone: i is chosen once and takes part in the stages 1 … p, at which m,
m − 1, … items are left, so

    S_p = 1 − Σ_{t=1..p} 1 / (m − t + 1)

A partial ranking is a full one of which the order inside a level was not seen.
Its score is the mean of the full scores it leaves possible, and at equal skills
all orders inside a level are equally likely: every item of a level with n_l
members has the mean S̄_l of S_p over the level's positions. All assignments of
items to levels are equally likely too, so the trace of the Fisher information is

    F = Σ_l n_l S̄_l²

One comparison of two equal items has the trace 2 · 1/4. With P pairs across
levels, F = w P / 2 gives **w = 2 F / P**. Special cases: a full ranking has
F = Σ_{s=2..m} (s − 1)/s, so w = 4 Σ (s − 1)/s / (m (m − 1)); the best of m
has F = (m − 1)/m, so w = 2/m; two items have w = 1.

**Ties.** Items that a rater ranked equal are an answer about that pair, not a missing one: the
pair is a tie. Such a ranking speaks of as many pairs as one without ties, so each pair
weighs as if the level were in order: the levels of the formula are the single items.

**Best and worst.** The best beats all others, and all others beat the worst: levels of the sizes
1, m − 2, 1, whose middle was not ordered.

**Consistency.** The pairs of a full ranking, of a top-k and of a best-of-m are
consistent under Plackett-Luce. A level of several items above another level
makes them an approximation: the answer does not say who won which stage.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import combinations, product
from typing import TYPE_CHECKING, Literal

from bbq_plugin.data.records import Comparison, Outcome
from bbq_plugin.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


Weights = Literal["information", "unit"]
Level = Sequence[str] | AbstractSet[str]
Win = tuple[str, str, float]


def break_ranking(
    ranking: Iterable[str | Level],
    *,
    unranked: Iterable[str] = (),
    weights: Weights = "information",
) -> list[Win]:
    """Break a ranking, best first, into (winner, loser, weight).

    An entry is an item, or a level: a list, tuple or set of items that rank
    equal. Pairs are made across levels only. `unranked` items were shown but not
    ranked (a top-k answer): they stand below all the ranked ones, and nothing is
    known among themselves.
    """
    levels = [[entry] if isinstance(entry, str) else _ordered(entry) for entry in ranking]
    rest = list(unranked)
    if rest:
        levels.append(rest)
    _check_items([item for level in levels for item in level])
    if not all(levels):
        raise DataError("a level of the ranking is empty; leave it out")
    if len(levels) < 2:
        raise DataError(
            f"all {len(levels[0])} items of the ranking are in one level, so none ranks above "
            "another; leave this ranking out"
        )
    weight = _weight([len(level) for level in levels], weights)
    return [
        (winner, loser, weight)
        for upper, lower in combinations(levels, 2)
        for winner, loser in product(upper, lower)
    ]


def break_choice(best: str, shown: Iterable[str], *, weights: Weights = "information") -> list[Win]:
    """Break the choice of one item out of those shown into (winner, loser, weight)."""
    items = list(shown)
    if best not in items:
        raise DataError(f"the best item {best!r} is not among the shown ones {items!r}")
    # Checked here, because a doubled best would vanish with the filter below.
    _check_items(items)
    return break_ranking([best], unranked=[i for i in items if i != best], weights=weights)


def break_ties(
    levels: Sequence[Sequence[str]],
    *,
    unranked: Sequence[str] = (),
    weights: Weights = "information",
) -> tuple[list[Win], list[Win]]:
    """Break a ranking with ties, best first, into wins across levels and ties inside them.

    `unranked` items stand below all others, and nothing is known among themselves.
    """
    ranked = [item for level in levels for item in level]
    _check_items([*ranked, *unranked])
    sizes = [1] * len(ranked) + ([len(unranked)] if unranked else [])
    if len(sizes) < 2:
        raise DataError("no item is ranked above another; leave this ranking out")
    weight = _weight(sizes, weights)
    rows = [*levels, unranked]
    wins = [
        (winner, loser, weight)
        for upper, lower in combinations(rows, 2)
        for winner, loser in product(upper, lower)
    ]
    return wins, [(a, b, weight) for level in levels for a, b in combinations(level, 2)]


def _ordered(level: Level) -> list[str]:
    # A set has no order of its own; sorted, the same answer gives the same rows in every run.
    return sorted(level) if isinstance(level, AbstractSet) else list(level)


def _check_items(items: list[str]) -> None:
    for item in items:
        if not isinstance(item, str) or not item.strip():
            raise DataError(f"{item!r} is not the name of an item; items are named by text")
    if len(set(items)) < len(items):
        twice = next(item for item in items if items.count(item) > 1)
        raise DataError(f"item {twice!r} is in the ranking more than once; keep one of them")
    if len(items) < 2:
        raise DataError(f"a ranking of {len(items)} items compares nothing; give two or more")


def _weight(sizes: list[int], weights: Weights) -> float:
    if weights == "unit":
        return 1.0
    if weights != "information":
        raise UsageError(f"weights is {weights!r}; expected 'information' or 'unit'")
    return information_weight(sizes)


def information_weight(sizes: Sequence[int]) -> float:
    """The weight w = 2 F / P of a pair, for levels of these sizes, best first."""
    m = sum(sizes)
    pairs = sum(a * b for a, b in combinations(sizes, 2))
    fisher = 0.0
    position = 0
    harmonic = 0.0
    for size in sizes:
        level_score = 0.0
        for _ in range(size):
            harmonic += 1.0 / (m - position)
            position += 1
            level_score += 1.0 - harmonic
        fisher += level_score**2 / size
    return 2.0 * fisher / pairs


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


def slate_comparisons(
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
