"""The consensus without a rater: one Newton step against a real fit without their votes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bbq_plugin as bbq
from bbq_plugin.analysis.raters.leave_one_out import Consensus
from bbq_plugin.model.models import signed_density
from bbq_plugin.model.objectives import Marginal
from bbq_plugin.model.priors import SignedPriors
from bbq_plugin.model.rater_population import CampView, honest_evidence, kinds_of
from bbq_plugin.model.solvers import solve_newton

PRIORS = [bbq.Priors(), SignedPriors()]


def _data(raters: int = 40, votes: int = 60, **more: Any) -> bbq.Comparisons:
    wanted = {"items": 8, "spread": 1.0, "guessers": 0.2, "ties": 0.1, "seed": 11}
    return bbq.simulate(raters=raters, comparisons=raters * votes, **(wanted | more)).arrays()


def _refitted(data: bbq.Comparisons, priors: Any, rater: int) -> Any:
    """theta and its covariance, truly without the rater."""
    kept = data.rater != rater
    rest = bbq.Comparisons.from_arrays(
        data.rater[kept], data.winner[kept], data.loser[kept], data.weight[kept],
        raters=data.raters, items=data.items,
    ).triples  # fmt: skip
    objective = (
        signed_density(rest, priors) if isinstance(priors, SignedPriors) else Marginal(rest, priors)
    )
    start = np.zeros(data.n_items), np.full(data.n_raters, 0.5)
    found = solve_newton(objective, *start, 1e-9)
    return found.theta, np.linalg.inv(objective.passes.curvature(found.point))


@pytest.mark.parametrize("priors", PRIORS, ids=["bbq", "signed"])
def test_one_step_is_nearly_a_fit_without_the_rater(priors: Any) -> None:
    data = _data()
    fit = bbq.fit(data)
    consensus = Consensus(data.triples, priors, fit.theta, fit.quality)
    left_out, t = consensus.leave_each_out(), data.triples
    assert left_out.within == left_out.exact == ()
    for rater in (0, 7, 23):
        theta, covariance = _refitted(data, priors, rater)
        moved = np.abs(theta - consensus.theta).max()
        assert np.abs(consensus.theta_without(rater) - theta).max() < 0.1 * moved + 1e-3
        rows = slice(t.start[rater], t.start[rater + 1])
        i, j = t.winner[rows], t.loser[rows]
        assert np.allclose(left_out.gap[rows], theta[i] - theta[j], atol=0.15 * moved + 1e-3)
        spread = covariance[i, i] + covariance[j, j] - 2 * covariance[i, j]
        assert np.allclose(left_out.spread[rows], spread, rtol=0.1)


def test_a_rater_with_a_large_share_of_all_votes_is_left_out_by_a_refit() -> None:
    data = _data(raters=5, votes=100)
    fit = bbq.fit(data)
    consensus = Consensus(data.triples, SignedPriors(), fit.theta, fit.quality)
    left_out, t = consensus.leave_each_out(), data.triples
    assert left_out.exact == (0, 1, 2, 3, 4)
    theta, _ = _refitted(data, SignedPriors(), 2)
    rows = slice(t.start[2], t.start[3])
    expected = theta[t.winner[rows]] - theta[t.loser[rows]]
    assert np.allclose(left_out.gap[rows], expected, atol=1e-3)


def test_someone_who_alone_compared_two_items_is_not_their_own_witness() -> None:
    rows = [("ann", "a", "b"), ("bob", "b", "a"), ("cyd", "a", "b")] * 20
    rows += [("dan", "x", "y")] * 30 + [("dan", "a", "x"), ("bob", "x", "a")]
    data = bbq.Comparisons.from_records(rows)
    fit = bbq.fit(data)
    left_out = Consensus(data.triples, SignedPriors(), fit.theta, fit.quality).leave_each_out()
    t, names = data.triples, data.items
    mine = (t.rater() == data.raters.index("dan")) & (t.winner == names.index("x"))
    mine &= t.loser == names.index("y")
    # With the votes, x is far ahead; without them nobody has an opinion.
    ahead = fit.theta[names.index("x")] - fit.theta[names.index("y")]
    assert ahead > 0.5
    assert abs(left_out.gap[mine][0]) < 0.2 * ahead
    assert abs(left_out.s[mine][0]) < 0.05


def test_an_uncertain_consensus_asks_less_of_a_rater() -> None:
    data = _data()
    fit = bbq.fit(data)
    left_out = Consensus(data.triples, SignedPriors(), fit.theta, fit.quality).leave_each_out()
    sure = 0.5 * np.tanh(0.5 * left_out.gap)
    assert np.all(np.abs(left_out.s) <= np.abs(sure) + 1e-12)


def test_kinds_are_found_and_their_shares_estimated() -> None:
    study = bbq.simulate(
        items=10, raters=300, comparisons=24_000, guessers=0.2, inverted=0.1, spread=1.2, seed=12
    )
    t, theta = study.arrays().triples, study.truth.theta
    kinds = kinds_of(t, (CampView(1.0, 0.5 * np.tanh(0.5 * (theta[t.winner] - theta[t.loser]))),))
    assert kinds.population.guessers == pytest.approx(0.2, abs=0.04)
    assert kinds.population.inverted == pytest.approx(0.1, abs=0.04)
    assert kinds.population.typical_quality == pytest.approx(10 / 12, abs=0.05)
    likely = np.stack((1 - kinds.p_guesser - kinds.p_inverted, kinds.p_guesser, kinds.p_inverted))
    names = np.array(["honest", "guesser", "inverted"])[np.argmax(likely, axis=0)]
    assert np.mean(names == np.array(study.truth.kind)) > 0.97


def test_the_evidence_of_one_answer_is_the_ratio_of_its_probabilities() -> None:
    t = bbq.Comparisons.from_records([("ann", "a", "b")]).triples
    s = np.array([0.3])
    # P(answer | honest) / P(answer | coin) = 1 + 2 E[q] s.
    expected = np.log(1 + 2 * (8 / 10) * 0.3)
    assert honest_evidence(t, s, 8.0, 2.0)[0] == pytest.approx(expected, abs=1e-6)


def test_more_raters_than_a_block_are_judged_like_few(monkeypatch: pytest.MonkeyPatch) -> None:
    data = _data()
    fit = bbq.fit(data)
    s = Consensus(data.triples, SignedPriors(), fit.theta, fit.quality).leave_each_out().s
    whole = kinds_of(data.triples, (CampView(1.0, s),))
    monkeypatch.setattr("bbq_plugin.model.rater_population.BLOCK", 17)
    monkeypatch.setattr("bbq_plugin.model.rater_population.ENOUGH_RATERS", 39)
    blocks = kinds_of(data.triples, (CampView(1.0, s),))
    # The population is estimated without one of the forty.
    assert np.allclose(whole.p_guesser, blocks.p_guesser, atol=0.05)
