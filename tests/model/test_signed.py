"""bbq-signed: an inverted rater informs, EM climbs, and both solvers end at the same place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bbq_plugin as bbq
from bbq_plugin.errors import UnsupportedError, UsageError
from bbq_plugin.model.kernels import likelihood as kernels
from bbq_plugin.model.models import Signed
from bbq_plugin.model.priors import SignedPriors
from bbq_plugin.model.solvers import solve_em, solve_newton

PRIORS = [
    SignedPriors(),
    SignedPriors(informed=10, guessed=2, inverted=1),
    SignedPriors(informed=2, guessed=3, inverted=1.5),
]


def _study(seed: int = 0, **more: Any) -> bbq.Comparisons:
    wanted = {"items": 7, "raters": 30, "comparisons": 1500, "spread": 1.0, "inverted": 0.1}
    return bbq.simulate(**(wanted | more), seed=seed).arrays()


def _differences(f: Any, x: Any, h: float = 1e-5) -> Any:
    return np.array([(f(x + h * e) - f(x - h * e)) / (2 * h) for e in np.eye(x.size)])


@pytest.mark.parametrize("priors", PRIORS, ids=str)
def test_gradient_and_curvature_are_those_of_differences(priors: SignedPriors) -> None:
    objective = Signed(_study(ties=0.2).triples, priors)
    theta, quality = objective.start()
    theta = theta + np.random.default_rng(1).normal(0, 0.7, theta.size)
    point = objective.at(theta, quality)
    slope = _differences(objective.value, theta)
    assert np.allclose(point.gradient, slope, atol=1e-5)
    bend = -_differences(lambda x: objective.at(x, quality).gradient, theta)
    # Differences of a gradient that is exact to 1e-12 are exact to about 1e-6.
    assert np.allclose(objective.passes.curvature(point), bend, atol=1e-5)


@pytest.mark.parametrize("priors", PRIORS, ids=str)
def test_the_profiled_prior_is_the_best_split_of_the_dirichlet(priors: SignedPriors) -> None:
    up, none, down = priors.informed - 1, priors.guessed - 1, priors.inverted - 1
    decided = np.linspace(1e-6, 1 - 1e-6, 200_001)
    for q in (-0.9, -0.3, 0.0, 0.2, 0.6, 0.95):
        u = decided[decided > abs(q) + 1e-9]
        grid = up * np.log((u + q) / 2) + none * np.log1p(-u)
        grid = grid + (down * np.log((u - q) / 2) if down else 0)
        assert kernels.prior_value(q, up, none, down) == pytest.approx(grid.max(), abs=1e-4)
        h = 1e-5
        low, high = (kernels.prior_value(q + d, up, none, down) for d in (-h, h))
        first, second = kernels.prior_bend(q, up, none, down)
        assert first == pytest.approx((high - low) / (2 * h), rel=1e-5, abs=1e-5)
        low, high = (kernels.prior_bend(q + d, up, none, down)[0] for d in (-h, h))
        assert second == pytest.approx((high - low) / (2 * h), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("priors", PRIORS, ids=str)
def test_no_step_of_em_lowers_the_log_posterior(priors: SignedPriors) -> None:
    objective = Signed(_study(2, guessers=0.2, ties=0.1).triples, priors)
    theta, quality = objective.start()
    theta = theta + np.random.default_rng(0).normal(0, 2, theta.size)
    shares, last = objective.split(quality), -np.inf
    for _ in range(200):
        value, theta, shares = objective.em_pass(theta, shares)
        assert value >= last - 1e-9
        assert np.allclose(shares.sum(axis=1), 1)
        last = value


@pytest.mark.parametrize("priors", PRIORS, ids=str)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_em_and_newton_end_at_the_same_place(seed: int, priors: SignedPriors) -> None:
    data = _study(seed, guessers=0.1)
    newton = bbq.fit(data, model="bbq-signed", priors=priors)
    em = bbq.fit(data, model="bbq-signed", priors=priors, solver="em")
    assert np.allclose(newton.theta, em.theta, atol=1e-5)
    assert np.allclose(newton.quality, em.quality, atol=1e-4)
    assert newton.log_posterior == pytest.approx(em.log_posterior, abs=1e-6)
    assert np.all(np.diff(newton.trace) >= 0)
    assert np.all(np.diff(em.trace) >= -1e-9)


def test_without_mass_on_inverted_answers_good_raters_fit_as_in_bbq() -> None:
    # With inverted = 1 the best q- is 0 for every q above A / (A + 2C): one model from there on.
    data = _study(3, inverted=0.0, quality=(400.0, 2.0), spread=1.5, comparisons=6000)
    plain = bbq.fit(data, priors=bbq.Priors(alpha=10, beta=2))
    signed = bbq.fit(data, "bbq-signed", bbq.SignedPriors(informed=10, guessed=2, inverted=1))
    assert plain.quality.min() > 9 / 11
    assert np.allclose(signed.theta, plain.theta, atol=1e-6)
    assert np.allclose(signed.quality, plain.quality, atol=1e-6)


def test_someone_upside_down_has_a_quality_below_zero_and_still_informs() -> None:
    study = bbq.simulate(items=8, raters=20, comparisons=4000, inverted=0.2, spread=1.0, seed=4)
    data, turned = study.arrays(), np.array([kind == "inverted" for kind in study.truth.kind])
    fit = bbq.fit(data, model="bbq-signed")
    assert np.all(fit.quality[turned] < 0)
    assert np.all(fit.quality[~turned] > 0)
    flip = turned[data.rater]
    by_hand = bbq.Comparisons.from_arrays(
        data.rater,
        np.where(flip, data.loser, data.winner),
        np.where(flip, data.winner, data.loser),
    )
    upright = bbq.fit(by_hand, model="bbq-signed")
    plain = bbq.fit(data)
    # Scales differ, as the priors do not count a turned rater alike: the shape is what is compared.
    like = [np.corrcoef(one.theta, upright.theta)[0, 1] for one in (fit, plain)]
    assert 1 - like[0] < 0.2 * (1 - like[1])


def test_turning_every_rater_round_changes_the_answer_only_through_the_prior() -> None:
    study = bbq.simulate(items=6, raters=12, comparisons=60_000, spread=1.0, seed=5)
    data = study.arrays()
    some = data.rater < 3
    turned = bbq.Comparisons.from_arrays(
        data.rater,
        np.where(some, data.loser, data.winner),
        np.where(some, data.winner, data.loser),
    )
    a, b = (bbq.fit(one, model="bbq-signed") for one in (data, turned))
    assert np.allclose(a.quality[:3], -b.quality[:3], atol=0.05)
    assert np.allclose(a.quality[3:], b.quality[3:], atol=0.05)


def test_intervals_comparisons_and_resamples_work_on_a_signed_fit() -> None:
    fit = bbq.fit(_study(6), model="bbq-signed")
    board = bbq.leaderboard(fit)
    assert all(row.rating_lower <= row.rating <= row.rating_upper for row in board)
    best, worst = board[0].item, board[-1].item
    assert bbq.compare(fit, best, worst).p_better > 0.9
    assert fit.bootstrap(5).shape == (5, 7)
    for what in (fit.sample, fit.paper_posterior):
        with pytest.raises(UnsupportedError, match="bbq-signed; use intervals='laplace' or"):
            what()


def test_wrong_priors_and_missing_raters_are_refused_with_a_remedy() -> None:
    data = _study()
    with pytest.raises(UsageError, match="SignedPriors"):
        bbq.fit(data, model="bbq-signed", priors=bbq.Priors(a=3))
    with pytest.raises(UsageError, match="bbq-signed"):
        bbq.fit(data, priors=bbq.SignedPriors())
    with pytest.raises(UsageError, match=r"inverted=0\.5"):
        bbq.SignedPriors(inverted=0.5)
    nobody = bbq.Comparisons.from_records([(None, "a", "b"), (None, "b", "c")])
    with pytest.raises(UsageError, match="raters"):
        bbq.fit(nobody, model="bbq-signed")


def test_solvers_take_the_objective_itself() -> None:
    objective = Signed(_study(7).triples, SignedPriors())
    theta, quality = objective.start()
    newton = solve_newton(objective, theta, quality, 1e-8)
    em = solve_em(objective, theta, objective.split(quality), 1e-6)
    assert np.allclose(objective.split(newton.quality), em.quality, atol=1e-4)
