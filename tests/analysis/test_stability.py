from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kendalltau

import bbq_plugin as bbq
from bbq_plugin.analysis.stability import kendall_tau, stability
from bbq_plugin.errors import UnsupportedError, UsageError


@pytest.fixture(scope="module")
def fit() -> bbq.Fit:
    return bbq.fit(bbq.simulate(items=5, raters=15, comparisons=600, seed=2).arrays())


def test_tau_is_kendalls() -> None:
    rng = np.random.default_rng(0)
    reference = rng.integers(0, 6, 12).astype(float)
    others = rng.integers(0, 6, (20, 12)).astype(float)
    expected = [kendalltau(reference, other).statistic for other in others]
    assert kendall_tau(reference, others) == pytest.approx(expected, abs=1e-12)
    assert kendall_tau(np.zeros(3), np.zeros((1, 3))) == pytest.approx([0])


def test_clear_data_are_stable_and_noise_is_not() -> None:
    def tau(spread: float, seed: int) -> float:
        study = bbq.simulate(items=6, raters=30, comparisons=1500, spread=spread, seed=seed)
        return stability([bbq.fit(study.arrays())], 30)[0].tau

    assert tau(3.0, 1) > 0.85
    # Of one study of noise it is 0.45 to 0.75: a resample shares two thirds of its raters.
    assert sum(tau(0.01, seed) for seed in (1, 2, 3)) / 3 < 0.75


def test_every_model_sees_the_same_resamples_and_a_seed_repeats_them(fit: bbq.Fit) -> None:
    first, second = stability([fit, fit], 60, seed=1)
    assert (first.tau, first.top1) == (second.tau, second.top1)
    assert stability([fit], 60, seed=1)[0].tau == first.tau
    assert stability([fit], 60, seed=2)[0].tau != first.tau


def test_the_numbers_are_those_of_the_resamples(fit: bbq.Fit) -> None:
    heard: list[int] = []
    row = stability([fit], 70, advance=heard.append)[0]
    assert sum(heard) == 70
    assert row.tau_lower <= row.tau <= row.tau_upper
    assert row.top1_se == pytest.approx((row.top1 * (1 - row.top1) / 70) ** 0.5)


def test_what_makes_no_sense_is_refused(fit: bbq.Fit) -> None:
    with pytest.raises(UsageError, match="at least 2"):
        stability([fit], 1)
    alone = bbq.fit(bbq.Comparisons.from_records([("ann", "a", "b")]))
    with pytest.raises(UnsupportedError, match="at least two"):
        stability([alone], 5)
    unknown = bbq.fit(bbq.Comparisons.from_records([(None, "a", "b")]), model="bayes-bt")
    with pytest.raises(UnsupportedError, match="needs raters"):
        stability([unknown], 5)
