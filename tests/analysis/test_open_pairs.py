from __future__ import annotations

from itertools import pairwise
from math import inf

import numpy as np
import pytest

import bbq_plugin as bbq
from bbq_plugin.analysis.stopping import open_pairs
from bbq_plugin.data.dataset import Comparisons


def two_items(a: int, b: int) -> bbq.Fit:
    records = [("ann", "a", "b")] * a + [("ann", "b", "a")] * b
    return bbq.fit(Comparisons.from_records(records), model="bayes-bt")


def test_a_settled_pair_needs_nothing() -> None:
    fit = two_items(90, 10)
    plan = open_pairs(fit, bbq.leaderboard(fit))
    assert (len(plan), plan.n_open, plan.n_settled, plan.n_pairs) == (0, 0, 1, 1)


@pytest.mark.parametrize(("a", "b"), [(60, 48), (30, 20), (110, 95)])
def test_so_many_more_comparisons_of_the_same_kind_settle_the_pair(a: int, b: int) -> None:
    fit = two_items(a, b)
    pair = open_pairs(fit, bbq.leaderboard(fit))[0]
    assert (pair.item, pair.other, pair.kind) == ("a", "b", "best")
    # Further answers as the fit expects them. The prior, which pulls the two together, is part of
    # the first fit's gap, so the number is right up to its share of the information.
    gap = float(fit.theta[0] - fit.theta[1])
    more_a = pair.more / (1 + np.exp(-gap))
    for extra, settled in ((0.7, False), (1.4, True)):
        later = two_items(a + round(extra * more_a), b + round(extra * (pair.more - more_a)))
        assert (not open_pairs(later, bbq.leaderboard(later)).n_open) is settled


def test_a_better_chance_needs_more_and_worse_raters_need_more() -> None:
    study = bbq.simulate(items=6, raters=12, comparisons=600, spread=0.4, seed=1)
    plan = open_pairs(fit := bbq.fit(study.arrays()), bbq.leaderboard(fit))
    assert all(pair.more < pair.more_80 or pair.more == inf for pair in plan)
    careless = bbq.simulate(items=6, raters=12, comparisons=600, spread=0.4, quality=(2, 8), seed=1)
    fit_careless = bbq.fit(careless.arrays(), priors=bbq.Priors(alpha=2, beta=8))
    assert open_pairs(fit_careless, bbq.leaderboard(fit_careless)).quality < plan.quality


def test_pairs_come_by_what_hangs_on_them_and_no_more_than_asked_for() -> None:
    study = bbq.simulate(items=9, raters=6, comparisons=120, spread=0.1, seed=1)
    fit = bbq.fit(study.arrays())
    board = bbq.leaderboard(fit)
    plan = open_pairs(fit, board)
    kinds = [("best", "neighbours", "other").index(pair.kind) for pair in plan]
    assert all(a <= b for a, b in pairwise(kinds))
    assert all(pair.rank == 1 for pair in plan if pair.kind == "best")
    assert all(pair.other_rank == pair.rank + 1 for pair in plan if pair.kind == "neighbours")
    few = open_pairs(fit, board, most=3)
    assert len(few) == 3
    assert few.n_open == plan.n_open == len(plan)


def test_items_that_are_equal_are_out_of_reach() -> None:
    fit = two_items(50, 50)
    pair = open_pairs(fit, bbq.leaderboard(fit))[0]
    assert pair.more == inf
