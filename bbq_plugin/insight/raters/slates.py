"""How much one answer may tell about a rater: a ranking is one answer, and so is a heavy row.

The fit takes a ranking as many weighted pairs, which together tell of the *items* what the ranking
does. Of the *rater* they tell less than as many pairs shown one by one: who ranks twelve items
without looking gets all of their pairs wrong at once. So a slate is informed or guessed as a whole,
as a pair is, and what it says is the likelihood of its order against a coin's:

    log R = sum over its pairs of w log(2 y),     P(slate | q) / P(slate | coin) = 1 + q (R - 1)

with the weights w of rank-breaking, under which the pairs have the information of the order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bbq_plugin.aggregate import Triples
from bbq_plugin.breaking import information_weight
from bbq_plugin.comparisons import Comparisons
from bbq_plugin.insight.uncertainty import Floats
from bbq_plugin.model.kinds import Slates

__all__ = ["Given", "SlateSums", "given_by", "slate_of_row", "triple_of_row"]

Ints = NDArray[np.int64]
NEVER = 1e-9  # an answer against a certain consensus is this likely at least


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """The pairs of rankings and choices: slate, place among the triples, and weight of each."""

    slate: Ints
    triple: Ints
    weight: Floats


@dataclass(frozen=True, slots=True, eq=False)
class SlateSums:
    """By slate: who gave it, and two sums over its pairs."""

    rater: Ints
    first: Floats
    second: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """What each rater gave. ``pairs`` are the data's triples, weighted by answers shown as pairs.

    ``weight`` is that of all answers by triple, ``n_answers`` counts by rater what was asked: a
    ranking once, a row of whatever weight once, and ``n_slates`` how many of these are rankings
    or choices. ``tied`` are raters who never decided.
    """

    pairs: Triples
    weight: Floats
    n_answers: Floats
    n_slates: Floats
    tied: NDArray[np.bool_]
    ranked: Ranked | None = None

    def slates(self, s: Floats) -> Slates | None:
        """The likelihood of each slate, ``s`` being y - 1/2 of each triple by the others."""
        told = self.slate_sums(*(np.log(np.maximum(1.0 + x, NEVER)) for x in (2.0 * s, -2.0 * s)))
        if told is None:
            return None
        order = np.argsort(told.rater, kind="stable")
        ends = np.cumsum(np.bincount(told.rater, None, self.pairs.n_raters))
        start = np.concatenate(([0], ends)).astype(np.int64)
        return Slates(start, told.first[order], told.second[order])

    def slate_sums(self, first: Floats, second: Floats) -> SlateSums | None:
        """Two quantities of the triples summed over each slate, with the weights of its pairs."""
        if self.ranked is None:
            return None
        slate, at, weight = self.ranked.slate, self.ranked.triple, self.ranked.weight
        n = int(slate.max()) + 1
        sums = (_sum(slate, weight * x[at], n) for x in (first, second))
        rater = np.zeros(n, dtype=np.int64)
        rater[slate] = np.searchsorted(self.pairs.start, at, side="right") - 1
        return SlateSums(rater, *sums)


def given_by(data: Comparisons) -> Given:
    """Count the answers; data without single answers are taken by their weights."""
    t, answers = data.triples, data.answers
    rater = t.rater()
    if answers is None:
        n = _sum(rater, t.weight, t.n_raters)
        nobody: NDArray[np.bool_] = np.zeros(t.n_raters, dtype=np.bool_)
        return Given(t, t.weight, n, np.zeros(t.n_raters), nobody)
    tied = np.zeros(t.n_raters, dtype=np.bool_)
    most: Floats = np.ones(data.weight.size)
    if answers.half is not None:
        tied = np.bincount(data.rater[answers.half == 0], None, t.n_raters) == 0
        most[answers.half > 0] = 0.5
    if answers.slate is None and not (data.weight > most).any():
        n = _sum(rater, t.weight, t.n_raters)
        return Given(t, t.weight, n, np.zeros(t.n_raters), tied)
    weight = np.minimum(data.weight, most)
    at = triple_of_row(data)
    single = np.ones(weight.size, dtype=np.bool_) if answers.slate is None else answers.slate == 0
    by_pair = _sum(at[single], weight[single], t.size)
    pairs = replace(t, weight=by_pair)
    n = _sum(rater, by_pair, t.n_raters)
    if answers.slate is None or single.all():
        return Given(pairs, by_pair, n, np.zeros(t.n_raters), tied)
    rows = np.flatnonzero(~single)
    slate = slate_of_row(data, answers.slate, rows)
    row_weight = np.minimum(weight[rows], _most_informative(data, rows, slate))
    first = np.unique(slate, return_index=True)[1]
    n_slates = _sum(data.rater[rows[first]], None, t.n_raters)
    by_slate = _sum(at[rows], row_weight, t.size)
    ranked = Ranked(slate, at[rows], row_weight)
    return Given(pairs, by_pair + by_slate, n + n_slates, n_slates, tied, ranked)


def triple_of_row(data: Comparisons, rows: NDArray[np.int64] | None = None) -> Ints:
    """The place of each win among the triples of the data."""
    t, k = data.triples, data.n_items
    codes = (t.rater() * k + t.winner) * k + t.loser
    rater, winner, loser = (
        (column if rows is None else column[rows]).astype(np.int64)
        for column in (data.rater, data.winner, data.loser)
    )
    return np.searchsorted(codes, (rater * k + winner) * k + loser)


def slate_of_row(data: Comparisons, named: Ints, rows: Ints) -> Ints:
    """The slates of these rows, numbered as they come; ``named`` is the column of `Answers`."""
    number, rater = named[rows], data.rater[rows].astype(np.int64)
    order = np.lexsort((rater, number))
    differs = (np.diff(number[order]) != 0) | (np.diff(rater[order]) != 0)
    new = np.concatenate(([True], differs))
    group = np.empty(rows.size, dtype=np.int64)
    group[order] = np.cumsum(new) - 1
    # Names are hashed; what is summed later must not depend on their order.
    first = np.unique(group, return_index=True)[1]
    place = np.empty(first.size, dtype=np.int64)
    place[np.argsort(first, kind="stable")] = np.arange(first.size)
    return place[group]


def _most_informative(data: Comparisons, rows: Ints, slate: Ints) -> Floats:
    """The weight of a pair in a full ranking of as many items: none can tell more."""
    n, k = int(slate.max()) + 1, data.n_items
    seen = np.unique(
        np.concatenate([slate * k + column[rows] for column in (data.winner, data.loser)])
    )
    items = np.bincount(seen // k, None, n)
    by_size = {m: information_weight([1] * m) for m in np.unique(items).tolist()}
    most = np.array([by_size.get(m, 1.0) for m in range(int(items.max()) + 1)])
    return np.asarray(most[items][slate])


def _sum(group: NDArray[np.integer], weight: Floats | None, n: int) -> Floats:
    return np.asarray(np.bincount(group, weight, n), dtype=np.float64)
