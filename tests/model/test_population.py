"""Priors estimated from the data: who the raters are, and how far the items lie apart."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import bbq_plugin as bbq
from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.errors import UsageError
from bbq_plugin.model import Priors, fit
from bbq_plugin.model.objectives import theta_density
from bbq_plugin.model.prior_estimation import few_raters, predicted
from bbq_plugin.model.solvers import solve_newton
from tests.model.studies import draw_study

if TYPE_CHECKING:
    from bbq_plugin.data.triples import Triples


def slope(fitted: object, true: object) -> float:
    return float(np.polyfit(true, fitted, 1)[0])  # type: ignore[call-overload] # arrays


def test_guessers_are_found_as_a_second_part_when_there_are_some() -> None:
    study = draw_study(0, items=12, raters=150, votes=60, guessers=0.25, spread=1.2)
    found = fit(study.data, priors="auto")
    assert isinstance(found.priors, Priors)
    assert found.priors.estimated
    assert found.priors.guessers == pytest.approx((study.quality == 0).mean(), abs=0.12)
    p = found.rater_posterior().p_guesser
    assert p[study.quality == 0].mean() > 0.8
    assert p[study.quality > 0].mean() < 0.1


def test_no_second_part_is_invented_when_all_are_honest() -> None:
    found = fit(draw_study(1, items=12, raters=150, votes=60).data, priors="auto")
    assert isinstance(found.priors, Priors)
    assert found.priors.guessers < 0.05


def test_distances_come_out_right_where_the_papers_priors_shrink_them() -> None:
    """The reason for all of it: a quarter of guessers, and theta still on its true scale."""
    slopes = {"paper": [], "auto": []}  # type: dict[str, list[float]]
    for seed in range(3):
        study = draw_study(seed, items=15, raters=400, votes=50, guessers=0.25)
        for priors in ("paper", "auto"):
            found = fit(study.data, priors=priors)
            slopes[priors].append(slope(found.theta, study.theta))
    assert np.mean(slopes["paper"]) < 0.8
    assert np.mean(slopes["auto"]) == pytest.approx(1.0, abs=0.13)


def test_what_is_not_known_of_the_population_widens_the_intervals() -> None:
    found = fit(draw_study(2, guessers=0.2).data, priors="auto")
    population = found.population
    assert population is not None
    plug_in = found.covariance() - population.slope @ population.covariance @ population.slope.T
    assert np.all(np.linalg.eigvalsh(plug_in) > 0)
    assert np.trace(found.covariance()) > 1.05 * np.trace(plug_in)


def test_the_spread_of_items_is_estimated_without_raters_too() -> None:
    close, far = (
        fit(draw_study(3, items=25, votes=100, spread=s).data, model="bayes-bt", priors="auto")
        for s in (0.1, 1.2)
    )
    assert isinstance(close.priors, Priors)
    assert isinstance(far.priors, Priors)
    assert close.priors.a > 4 * far.priors.a


def test_one_vote_is_enough_to_run_and_leaves_the_papers_values_in_place() -> None:
    found = fit(Comparisons.from_records([("r", "a", "b", 1.0)]), priors="auto")
    assert isinstance(found.priors, Priors)
    assert found.priors.alpha == pytest.approx(10, rel=0.2)
    assert found.priors.beta == pytest.approx(2, rel=0.2)
    assert np.all(np.diff(found.trace) >= 0)


def answers_of(triples: Triples) -> set[tuple[float, ...]]:
    """All that each rater said, one after the other."""
    return {
        tuple(np.concatenate([c[a:b] for c in (triples.winner, triples.loser, triples.weight)]))
        for a, b in pairwise(triples.start.tolist())
    }


def test_a_part_of_the_raters_is_taken_whole() -> None:
    triples = draw_study(4, raters=90, votes=30).data.triples
    part = few_raters(triples, (triples.size // 3, 0))
    assert part.n_raters == 30
    assert len(answers_of(part) & answers_of(triples)) == 30
    assert few_raters(triples, (triples.size, 0)) is triples
    assert few_raters(triples, (0, triples.size)) is triples, "so many for each item"


def test_raters_who_answered_alike_are_not_drawn_together() -> None:
    """200 raters with one answer each, of two kinds: both are in a part of them."""
    rows = [(f"r{i}", *("ab" if i % 2 else "ba")) for i in range(200)]
    part = few_raters(Comparisons.from_records(rows).triples, (50, 0))
    assert part.n_raters == 50
    assert 10 < int(np.sum(part.winner == 0)) < 40


def test_more_answers_hardly_change_who_is_drawn() -> None:
    data = draw_study(4, raters=90, votes=30).data
    rows = [
        (data.raters[r], data.items[w], data.items[x])
        for r, w, x in zip(data.rater, data.winner, data.loser, strict=True)
    ]
    before, after = (
        few_raters(Comparisons.from_records(some).triples, (data.triples.size // 3, 0))
        for some in (rows, [*rows, *rows[:20], ("another", *rows[0][1:])])
    )
    assert 20 < after.n_raters <= before.n_raters
    assert len({*after.names} - {*before.names}) <= 1


def test_priors_describe_themselves() -> None:
    assert str(Priors()).startswith("paper: skill ~ Gamma(5, 0.1)")
    assert Priors(alpha=3).describe()["source"] == "given"
    estimated = fit(draw_study(5).data, priors="auto").priors
    assert estimated.describe()["source"] == "estimated"


def test_priors_of_very_many_items_are_estimated_and_the_approximation_is_named() -> None:
    study = bbq.simulate(items=1100, raters=200, comparisons=40_000, guessers=0.2, seed=1)
    found = fit(study.arrays(), priors="auto")
    assert found.given_priors().estimated
    assert 0.1 < found.given_priors().guessers < 0.35
    assert any("1,024 items" in warning for warning in found.warnings)


@pytest.mark.parametrize("model", ["bbq", "bayes-bt"])
def test_priors_estimated_for_one_fit_can_be_given_to_another(model: Any) -> None:
    """Also where the shape of the skills is below 1, which the paper's own form cannot hold."""
    study = bbq.simulate(
        items=5, raters=6, comparisons=400, inverted=0.34, median_votes=20, spread=1.5, seed=5
    )
    data = study.arrays()
    first = bbq.fit(data, model=model, priors="auto")
    assert isinstance(first.priors, Priors)
    wide = replace(first.priors, a=0.6, b=0.4)
    for priors in (first.priors, wide):
        again = bbq.fit(data, model=model, priors=priors)
        assert np.isfinite(again.theta).all()
        assert again.priors == priors
        # A refit of the same data stays where it is, by the same density.
        assert again.theta_without([]) == pytest.approx(again.theta, abs=1e-4)
    assert bbq.fit(data, model=model, priors=first.priors).theta == pytest.approx(
        first.theta, abs=1e-5
    )
    with pytest.raises(UsageError, match="solver='auto'"):
        bbq.fit(data, model=model, priors=wide, solver="em")


def tournament(seed: int, *, spread: float, met: str, items: int = 40) -> tuple[Comparisons, Any]:
    """Ten rounds in which items with as many wins meet, or any two."""
    rng = np.random.default_rng(seed)
    theta, wins, rows = rng.normal(0, spread, items), np.zeros(items), []
    for _ in range(10):
        order = rng.permutation(items)
        if met == "equals":
            order = order[np.argsort(wins[order], kind="stable")]
        for a, b in order.reshape(-1, 2).tolist():
            won, lost = (a, b) if rng.random() < 1 / (1 + np.exp(theta[b] - theta[a])) else (b, a)
            wins[won] += 1
            rows.append((int(rng.integers(10)), won, lost))
    codes = np.array(rows).T
    return Comparisons.from_arrays(*codes, items=[str(i) for i in range(items)]), theta


@pytest.mark.parametrize("fixed", [True, False])
def test_an_answer_is_predicted_from_all_others_as_if_they_were_fitted_without_it(
    *, fixed: bool
) -> None:
    data, _ = tournament(3, spread=1.0, met="any", items=12)
    priors = Priors(a=2.0)
    triples = data.triples.without_raters() if fixed else data.triples
    density = theta_density(triples, priors, fixed=fixed)
    start = np.full(12, 2.0), np.ones(triples.n_raters)
    top = solve_newton(density, *start, 1e-8).point
    exact = []
    for t in range(triples.size):
        weight = triples.weight.copy()
        weight[t] -= 1.0
        without = theta_density(replace(triples, weight=weight), priors, fixed=fixed)
        found = solve_newton(without, *start, 1e-8).point
        gap = found.theta[triples.winner[t]] - found.theta[triples.loser[t]]
        p = 0.5 + found.quality[triples.rater()[t]] * 0.5 * np.tanh(0.5 * gap)
        exact.append(triples.weight[t] * np.log(p))
    density.at(top.theta, start[1])
    assert predicted(density, top) == pytest.approx(sum(exact), rel=0.01)


def test_where_equals_met_the_distances_are_called_unknown_and_intervals_hold_them() -> None:
    """Every answer is even then, whether items are equal or met their equals."""
    inside = []
    for spread in (0.3, 1.5):
        data, theta = tournament(5, spread=spread, met="equals", items=60)
        found = fit(data, camps=1)
        assert any("how far apart the items lie is hardly known" in w for w in found.warnings)
        c, (i, j) = found.covariance(), np.triu_indices(60, 1)
        true = theta[[int(name) for name in found.items]]
        sd = np.sqrt(c[i, i] + c[j, j] - 2 * c[i, j])
        gap = found.theta[i] - found.theta[j] - true[i] + true[j]
        inside.append(float(np.mean(np.abs(gap) <= 1.96 * sd)))
    assert min(inside) > 0.85
    data, _ = tournament(5, spread=1.0, met="any", items=60)
    assert not any("hardly known" in warning for warning in fit(data, camps=1).warnings)
