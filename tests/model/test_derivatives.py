"""Every gradient and every curvature against finite differences."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special

from bbq_plugin.model import Priors
from bbq_plugin.model.models import CrowdBT
from bbq_plugin.model.objectives import Joint, Marginal, theta_density
from bbq_plugin.model.prior_estimation import PopulationEvidence
from tests.model.studies import draw_study

PRIORS = [
    Priors(),
    Priors(a=2.0, b=0.5, alpha=3.4, beta=1.2, guessers=0.3),
    Priors(a=1.5, b=0.1, alpha=1.0, beta=1.0),
    Priors(alpha=40.0, beta=6.5),
]
STUDY = draw_study(0, items=4, raters=6, votes=30, ties=0.3)
STEP = 1e-5


def differences(function: Any, x: Any) -> Any:
    return np.array(
        [(function(x + e) - function(x - e)) / (2 * STEP) for e in STEP * np.eye(x.size)]
    )


@pytest.fixture
def theta() -> Any:
    return np.random.default_rng(1).normal(3.5, 0.7, 4)


def objectives() -> list[Any]:
    triples = STUDY.data.triples
    copies = np.array([1.0, 2.0, 0.0, 1.0, 3.0, 1.0])
    return [
        Joint(triples, Priors()),
        Joint(triples, Priors(), copies=copies),
        Joint(triples, Priors(), fixed=True),
        *[Marginal(triples, priors) for priors in PRIORS],
        Marginal(triples, PRIORS[1], copies=copies),
        theta_density(triples, Priors(), fixed=True),
    ]


@pytest.mark.parametrize("objective", objectives(), ids=lambda o: type(o).__name__)
def test_gradient_and_curvature(objective: Any, theta: Any) -> None:
    quality = np.ones(6) if getattr(objective, "fixed", False) else np.full(6, 0.8)

    def at(x: Any) -> Any:
        return objective.at(x, quality)

    point = at(theta)
    assert point.gradient == pytest.approx(differences(lambda x: at(x).value, theta), abs=2e-5)
    curvature = objective.passes.curvature(point)
    slope = -differences(lambda x: at(x).gradient, theta)
    assert curvature == pytest.approx(slope, abs=2e-4 * np.abs(curvature).max())
    assert objective.passes.curvature_times(point, theta) == pytest.approx(curvature @ theta)


@pytest.mark.parametrize("kind", [Joint, Marginal])
def test_a_matrix_summed_on_the_way_is_that_of_all_triples(
    kind: type[Joint | Marginal], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bbq_plugin.model.objectives.TRIPLES_AT_ONCE", 40)
    triples = draw_study(3, items=9, raters=40, votes=30).data.triples
    theta, quality = np.random.default_rng(2).normal(3.5, 0.7, 9), np.full(40, 0.8)
    whole, summed = kind(triples, Priors()), kind(triples, Priors())
    summed.dense = True
    one, other = whole.at(theta, quality), summed.at(theta, quality)
    assert other.value == pytest.approx(one.value, rel=1e-12)
    assert other.gradient == pytest.approx(one.gradient, rel=1e-9)
    assert other.quality == pytest.approx(one.quality, rel=1e-12)
    curvature = whole.passes.curvature(one)
    assert summed.passes.curvature(other) == pytest.approx(curvature, rel=1e-9)


def test_crowd_bt_gradient_and_curvature() -> None:
    crowd = CrowdBT(STUDY.data.triples, np.array([1.0, 2.0, 0.0, 1.0, 3.0, 1.0]))
    rng = np.random.default_rng(2)
    theta, eta = rng.normal(0, 0.7, 4), rng.uniform(0.2, 0.95, 6)
    _, to_theta, to_eta = crowd.value_and_gradient(theta, eta)
    assert to_theta == pytest.approx(
        differences(lambda x: crowd.value_and_gradient(x, eta)[0], theta), abs=1e-5
    )
    assert to_eta == pytest.approx(
        differences(lambda x: crowd.value_and_gradient(theta, x)[0], eta), abs=1e-4
    )
    # Newton's step solves the full system, of which the reduced curvature is the Schur complement.
    both = np.concatenate((theta, eta))

    def gradient(x: Any) -> Any:
        return np.concatenate(crowd.value_and_gradient(x[:4], x[4:])[1:])

    full = -differences(gradient, both)
    seen = np.delete(np.arange(10), 6)  # the rater who counts zero times stays where he is
    step = np.linalg.solve(full[np.ix_(seen, seen)], gradient(both)[seen])
    assert crowd.newton(theta, eta)[0] == pytest.approx(step[:4], rel=1e-4)


@pytest.mark.parametrize("priors", PRIORS, ids=str)
@pytest.mark.parametrize("votes", [3, 30, 3000])
def test_the_integral_over_quality_is_right(priors: Priors, votes: int) -> None:
    triples = draw_study(1, items=4, raters=3, votes=votes, ties=0.2).data.triples
    theta = np.random.default_rng(3).normal(3.5, 0.7, 4)
    expected = float(np.sum(priors.a * theta - priors.b * np.exp(theta)))
    for r in range(3):
        mine = slice(triples.start[r], triples.start[r + 1])
        s = 0.5 * np.tanh(0.5 * (theta[triples.winner[mine]] - theta[triples.loser[mine]]))
        weight = triples.weight[mine]

        def log_likelihood(q: float, s: Any = s, weight: Any = weight) -> float:
            return float(weight @ np.log(0.5 + q * s))

        top = max(log_likelihood(q) for q in np.linspace(0, 1, 2001))

        def density(q: float, ll: Any = log_likelihood, top: float = top) -> float:
            prior = sum(
                share * q ** (al - 1) * (1 - q) ** (be - 1) / special.beta(al, be)
                for share, al, be in priors.components()
            )
            return float(prior * np.exp(ll(q) - top))

        edges = np.linspace(0, 1, 41)
        pieces = [
            integrate.quad(density, a, b, epsabs=0, epsrel=1e-10)[0] for a, b in pairwise(edges)
        ]
        expected += np.log(sum(pieces)) + top
    assert Marginal(triples, priors).value(theta) == pytest.approx(expected, abs=2e-5)


def test_derivatives_by_the_population(theta: Any) -> None:
    triples, eta = STUDY.data.triples, np.array([1.2, 1.1, 0.4, -1.0, 1.5])
    evidence = PopulationEvidence(triples, fixed=False)

    def at(eta: Any, theta: Any = theta) -> Any:
        return evidence.at(theta, eta)

    place = at(eta)
    assert place.gradient == pytest.approx(differences(lambda x: at(x).value, eta), abs=2e-4)
    slope = -differences(lambda x: at(x).gradient, eta)
    assert place.curve == pytest.approx(slope, abs=2e-4 * np.abs(place.curve).max())
    mixed = differences(lambda x: at(x).point.gradient, eta).T
    assert place.mixed == pytest.approx(mixed, abs=2e-4 * np.abs(mixed).max())
