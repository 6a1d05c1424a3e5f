"""Are two items different? As often as stated, and no oftener."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import bbq_plugin as bbq
from bbq_plugin.analysis.leaderboard import compare
from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.errors import UsageError
from bbq_plugin.model import Priors, fit
from bbq_plugin.model.objectives import Marginal
from tests.model.studies import draw_study


@pytest.mark.parametrize("wins", [(26, 24), (35, 15), (49, 1)])
def test_the_probability_is_that_of_the_exact_posterior(wins: tuple[int, int]) -> None:
    rows = [("r", "a", "b", float(wins[0])), ("r", "b", "a", float(wins[1])), ("s", "a", "b", 3.0)]
    # Of two raters nothing can be said of all others: as if their answers were independent.
    found = fit(Comparisons.from_records(rows), priors="paper", cluster="none")
    density = Marginal(found.data.triples, Priors())
    gaps, levels = np.linspace(-6, 10, 641), np.linspace(0.5, 7, 66)
    log_p = np.array(
        [[density.value(np.array([m + d / 2, m - d / 2])) for m in levels] for d in gaps]
    )
    p = np.exp(log_p - log_p.max()).sum(axis=1)
    below = (p[gaps < 0].sum() + 0.5 * p[gaps == 0].sum()) / p.sum()
    found_below = 1 - compare(found, "a", "b").p_better
    assert found_below == pytest.approx(below, rel=0.03)


def test_it_is_the_same_from_both_sides() -> None:
    found = fit(draw_study(0).data, priors="auto")
    one, two = compare(found, "i0", "i3"), compare(found, "i3", "i0")
    assert one.p_better == pytest.approx(1 - two.p_better, abs=1e-6)
    assert one.theta == pytest.approx(-two.theta)
    assert one.p_value == pytest.approx(two.p_value, abs=1e-6)
    assert one.theta_lower < one.theta < one.theta_upper


def test_draws_say_the_same() -> None:
    found = fit(draw_study(1, guessers=0.2).data)
    draws = found.sample(20_000, seed=0).theta
    for other in ("i1", "i2", "i5"):
        p = float((draws[:, 0] > draws[:, found.items.index(other)]).mean())
        assert compare(found, "i0", other).p_better == pytest.approx(p, abs=0.02)


def test_equal_items_are_a_coin() -> None:
    rows = [("r", x, y, 0.5) for x in "abc" for y in "abc" if x != y]
    result = compare(fit(Comparisons.from_records(rows)), "a", "b")
    assert result.p_better == pytest.approx(0.5)
    assert result.p_value == pytest.approx(1.0)


@pytest.mark.parametrize("model", ["bayes-bt", "crowd-bt"])
def test_other_models_compare_too(model: str) -> None:
    found = fit(draw_study(2).data, model=model)  # type: ignore[arg-type] # one of the models
    best, worst = int(np.argmax(found.theta)), int(np.argmin(found.theta))
    assert compare(found, f"i{best}", f"i{worst}").p_better > 0.99


def test_without_a_prior_too() -> None:
    found = fit(draw_study(3).data, model="bayes-bt", priors=Priors(a=1, b=0))
    first, second = np.argsort(-found.theta)[:2]
    result = compare(found, f"i{first}", f"i{second}")
    wald = ndtr(result.theta / ((result.theta_upper - result.theta_lower) / 2 / ndtri(0.975)))
    assert result.p_better == pytest.approx(wald, abs=0.01)


def test_wrong_names_are_refused_with_the_right_ones() -> None:
    found = fit(Comparisons.from_records([("r", "a", "b", 1.0)]))
    with pytest.raises(UsageError, match="it has a, b"):
        compare(found, "a", "c")
    with pytest.raises(UsageError, match="itself"):
        compare(found, "a", "a")
    with pytest.raises(UsageError, match="level"):
        compare(found, "a", "b", level=99)


def test_the_interval_and_the_test_never_contradict_each_other() -> None:
    rng = np.random.default_rng(0)
    for seed in range(12):
        votes = [
            (f"r{rng.integers(3)}", *rng.permutation(["a", "b", "c", "d"])[:2], 1.0)
            for _ in range(10 + 4 * seed)
        ]
        for priors in ("paper", "auto"):
            found = fit(Comparisons.from_records(votes), priors=priors)
            result = compare(found, found.items[0], found.items[1])
            outside = not result.theta_lower <= 0 <= result.theta_upper
            assert outside == (result.p_value < 0.05)


def test_a_divided_panel_is_compared_by_the_win_share_that_ranks_it() -> None:
    """The mean theta of two camps may put first whom fewer raters prefer: one answer, not two."""
    drawn = bbq.simulate(items=6, raters=40, comparisons=4000, minority=0.4, seed=3)
    found = bbq.fit(drawn.arrays())
    assert len(found.camps) > 1
    board = bbq.leaderboard(found)
    for i, j in ((0, 1), (1, 4), (5, 2)):
        told = bbq.compare(found, board[i].item, board[j].item)
        assert told.tested == "win_share"
        assert told.p_better == pytest.approx(board.better[i, j], abs=1e-9)
        assert told.win_share == pytest.approx(board[i].win_share - board[j].win_share)
        assert told.win_share_lower is not None
        assert told.win_share_upper is not None
        assert (told.win_share_lower > 0 or told.win_share_upper < 0) == (told.p_value < 0.05)
    one = bbq.fit(drawn.arrays(), camps=1)
    assert bbq.compare(one, board[0].item, board[1].item).tested == "theta"


def test_of_many_raters_nearly_equal_items_have_the_z_of_a_normal_posterior() -> None:
    raters = np.arange(1024)
    wins = np.random.default_rng(1).binomial(50, 0.5, raters.size)
    # Two answers of 51,200 more for the first item than for the second.
    short = 25 * raters.size + 1 - int(wins.sum())
    wins[: abs(short)] += np.sign(short)
    data = Comparisons.from_arrays(
        np.concatenate((raters, raters)), np.repeat([0, 1], raters.size),
        np.repeat([1, 0], raters.size), np.concatenate((wins, 50 - wins)).astype(float),
        items=["one", "two"],
    )  # fmt: skip
    found = fit(data, priors="paper", cluster="none")
    told = compare(found, "one", "two")
    covariance = found.covariance()
    sd = np.sqrt(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])
    assert 0 < ndtri(told.p_better) == pytest.approx(told.theta / sd, abs=1e-3)
