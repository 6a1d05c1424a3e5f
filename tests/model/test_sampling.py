"""Draws from the posterior: exact, and honest about it when they are too few."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.errors import UnsupportedError
from bbq_plugin.model import Priors, fit
from bbq_plugin.model.fit import MODELS
from bbq_plugin.model.objectives import Marginal
from bbq_plugin.model.sampling import effective_sample_size, r_hat
from tests.model.studies import draw_study


def relative(theta: Any) -> Any:
    return theta - theta.mean(axis=1, keepdims=True)


def test_draws_follow_the_posterior_computed_on_a_grid() -> None:
    """Two items: integrate the level out by quadrature and compare the distribution of d."""
    rows = [("r", "a", "b", 7.0), ("r", "b", "a", 2.0), ("s", "a", "b", 3.0), ("s", "b", "a", 3.0)]
    found = fit(Comparisons.from_records(rows), priors="paper")
    density = Marginal(found.data.triples, Priors())
    gaps, levels = np.linspace(-3, 4, 141), np.linspace(0, 7, 141)
    log_p = np.array(
        [[density.value(np.array([m + d / 2, m - d / 2])) for m in levels] for d in gaps]
    )
    p = np.exp(log_p - log_p.max()).sum(axis=1)
    p /= p.sum()
    mean, sd = p @ gaps, np.sqrt(p @ gaps**2 - (p @ gaps) ** 2)
    for method in ("gibbs", "metropolis"):
        draws = found.sample(20_000, seed=1, method=method)
        gap = draws.theta[:, 0] - draws.theta[:, 1]
        error = 4 * sd / np.sqrt(draws.ess)
        assert gap.mean() == pytest.approx(mean, abs=error)
        assert gap.std() == pytest.approx(sd, abs=error)
        assert (gap > 0).mean() == pytest.approx(p[gaps > 0].sum(), abs=0.03)


def test_two_samplers_with_nothing_in_common_agree() -> None:
    found = fit(draw_study(1, guessers=0.2).data, priors="paper")
    one = found.sample(8000, seed=0, method="gibbs")
    two = found.sample(8000, seed=0, method="metropolis")
    assert one.method == "gibbs"
    assert two.method == "metropolis"
    assert one.warnings == two.warnings == ()
    a, b = relative(one.theta), relative(two.theta)
    error = 5 * a.std(axis=0) * np.sqrt(1 / one.ess + 1 / two.ess)
    assert np.all(np.abs(a.mean(axis=0) - b.mean(axis=0)) < error)
    assert a.std(axis=0) == pytest.approx(b.std(axis=0), rel=0.1)
    assert one.quality.mean(axis=0) == pytest.approx(two.quality.mean(axis=0), abs=0.02)
    assert one.quality.std(axis=0) == pytest.approx(two.quality.std(axis=0), abs=0.02)


def test_laplace_is_close_to_the_posterior() -> None:
    found = fit(draw_study(2).data)
    draws = relative(found.sample(8000, seed=0).theta)
    centre = np.eye(8) - 1 / 8
    sd = np.sqrt(np.diag(centre @ found.covariance() @ centre))
    assert sd == pytest.approx(draws.std(axis=0), rel=0.12)
    assert centre @ found.laplace.mean == pytest.approx(draws.mean(axis=0), abs=0.05)


def test_ties_have_one_posterior_whatever_computes_it() -> None:
    """Half weights: the optimum, the curvature and the draws speak of the same p ** w."""
    found = fit(draw_study(3, ties=0.5).data)
    with pytest.raises(UnsupportedError, match="metropolis"):
        found.sample(100, method="gibbs")
    draws = found.sample(6000, seed=0)
    assert draws.method == "metropolis"
    a = relative(draws.theta)
    assert a.mean(axis=0) == pytest.approx(found.laplace.mean - found.laplace.mean.mean(), abs=0.06)


def test_doubling_all_weights_halves_the_variance() -> None:
    """What makes half weights honest: two halves are worth one whole, in every method."""
    study = draw_study(4, votes=200).data
    t = study.triples
    halved = Comparisons.from_arrays(t.rater(), t.winner, t.loser, t.weight * 0.5)
    flat = Priors(a=1, b=0)
    one = fit(study, model="bayes-bt", priors=flat).laplace.covariance
    two = fit(halved, model="bayes-bt", priors=flat).laplace.covariance
    assert two == pytest.approx(2 * one, rel=1e-6)


def test_the_same_seed_gives_the_same_draws() -> None:
    for ties in (0.0, 0.2):
        found = fit(draw_study(5, ties=ties).data)
        one, two, other = (found.sample(40, seed=seed) for seed in (7, 7, 8))
        assert np.array_equal(one.theta, two.theta)
        assert np.array_equal(one.quality, two.quality)
        assert not np.array_equal(one.theta, other.theta)


def test_too_few_draws_are_said_to_be_too_few() -> None:
    draws = fit(draw_study(6, items=12, raters=20, votes=20).data).sample(16, seed=0)
    assert any("ask for more draws" in warning for warning in draws.warnings)


def test_estimated_priors_are_drawn_with_the_rest() -> None:
    found = fit(draw_study(7, guessers=0.3, raters=60).data, priors="auto")
    draws = found.sample(3000, seed=0)
    spread = relative(draws.theta).std(axis=0)
    laplace = np.eye(8) - 1 / 8
    sd = np.sqrt(np.diag(laplace @ found.covariance() @ laplace))
    assert spread == pytest.approx(sd, rel=0.35)
    assert draws.theta.shape == (3000, 8)
    assert draws.quality.shape == (3000, 60)
    assert np.all((draws.quality >= 0) & (draws.quality <= 1))


def test_bayes_bt_is_sampled_too() -> None:
    study = draw_study(8)
    whole = fit(study.data, model="bayes-bt")
    one, two = (relative(whole.sample(6000, method=m).theta) for m in ("gibbs", "metropolis"))
    assert one.mean(axis=0) == pytest.approx(two.mean(axis=0), abs=0.02)
    assert one.std(axis=0) == pytest.approx(two.std(axis=0), rel=0.1)
    auto = fit(study.data, model="bayes-bt", priors="auto")
    assert auto.sample(400).theta.shape == (400, 8)


def test_without_a_prior_there_is_nothing_to_sample() -> None:
    found = fit(draw_study(9).data, model="bayes-bt", priors=Priors(a=1, b=0))
    with pytest.raises(UnsupportedError, match="no posterior to sample"):
        found.sample(100)
    assert found.covariance().sum() == pytest.approx(0, abs=1e-9)


def test_crowd_bt_has_no_sampler_and_says_so() -> None:
    with pytest.raises(UnsupportedError, match="model='bbq'"):
        fit(draw_study(9).data, model="crowd-bt").sample(100)


def test_effective_sample_size_of_a_process_with_known_memory() -> None:
    """AR(1) with coefficient r is worth n (1 - r) / (1 + r) draws."""
    rng = np.random.default_rng(0)
    chains, n, memory = 4, 20_000, 0.8
    x = np.zeros((chains, n))
    for t in range(1, n):
        x[:, t] = memory * x[:, t - 1] + rng.standard_normal(chains)
    expected = chains * n * (1 - memory) / (1 + memory)
    assert float(effective_sample_size(x)) == pytest.approx(expected, rel=0.15)
    assert float(r_hat(x)) == pytest.approx(1.0, abs=0.01)


def test_r_hat_sees_chains_that_disagree_and_chains_that_drift() -> None:
    rng = np.random.default_rng(1)
    same = rng.standard_normal((4, 500))
    apart = same + np.array([[0.0], [0.0], [0.0], [3.0]])
    drifting = same + np.linspace(0, 3, 500)
    assert float(r_hat(same)) < 1.01
    assert float(r_hat(apart)) > 1.3
    assert float(r_hat(drifting)) > 1.2


def test_a_resampled_rater_is_the_same_data_again() -> None:
    """Multiplicities give the fit that copying the raters' rows under new names gives."""
    found = fit(draw_study(10, raters=12).data, priors="paper", camps=1)
    copies = np.array([0, 1, 2, 1, 0, 3, 1, 1, 0, 2, 1, 0], dtype=float)
    t = found.data.triples
    rater = t.rater()
    rows = [
        (f"{rater[k]}.{c}", found.items[t.winner[k]], found.items[t.loser[k]], t.weight[k])
        for k in range(t.size)
        for c in range(int(copies[rater[k]]))
    ]
    by_hand = fit(Comparisons.from_records(rows), priors="paper", camps=1)
    theta = dict(zip(by_hand.items, by_hand.theta, strict=True))
    # The public bootstrap draws its own.
    fast = MODELS[found.model].refit(found, copies)
    assert [theta[name] for name in found.items] == pytest.approx(fast, abs=1e-5)


@pytest.mark.parametrize("model", ["bbq", "bayes-bt", "crowd-bt"])
def test_bootstrap_is_repeatable_and_spreads_like_the_posterior(model: Any) -> None:
    found = fit(draw_study(11, votes=100).data, model=model)
    one, two = found.bootstrap(60, seed=1), found.bootstrap(60, seed=1)
    assert np.array_equal(one, two)
    spread = (one - one.mean(axis=1, keepdims=True)).std(axis=0)
    assert np.all((spread > 0.01) & (spread < 0.3))


@pytest.mark.parametrize("votes", [35, 60])
def test_a_handful_of_votes_mixes_under_estimated_priors_too(votes: int) -> None:
    rng = np.random.default_rng(0)
    rows = [(f"r{rng.integers(3)}", *rng.permutation(list("abcd"))[:2], 1.0) for _ in range(votes)]
    draws = fit(Comparisons.from_records(rows), priors="auto").sample(8000, keep_quality=False)
    assert draws.warnings == ()


def test_bootstrap_of_one_rater_is_refused_and_not_called_certain() -> None:
    with pytest.raises(UnsupportedError, match="at least two raters"):
        fit(Comparisons.from_records([("r", "a", "b", 1.0)])).bootstrap(10)


def test_bootstrap_needs_raters() -> None:
    with pytest.raises(UnsupportedError, match="needs raters"):
        fit(Comparisons.from_records([(None, "a", "b", 1.0)])).bootstrap(10)
