"""Where the solvers stop: at the maximum, by any road, and never downhill."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.data.triples import aggregate
from bbq_plugin.errors import BBQError, ConvergenceError, UnsupportedError, UsageError
from bbq_plugin.model import Priors, fit
from bbq_plugin.model import solvers as linear
from bbq_plugin.model.objectives import Joint
from bbq_plugin.model.solvers import solve_em, solve_newton
from tests.model.studies import Study, draw_study
from tests.strategies import records

HAND_SOLVED = json.loads((Path(__file__).parent / "hand_solved.json").read_text("utf-8"))


def literal_em(data: Comparisons, priors: Priors, steps: int) -> tuple[Any, Any]:
    """The paper's updates, written once more without looking at the package's."""
    t = data.triples
    rater, k = t.rater(), t.n_items
    lam, q = np.ones(k) * (priors.a - 1) / priors.b, np.full(t.n_raters, 0.9)
    n_r = np.bincount(rater, t.weight, t.n_raters)
    for _ in range(steps):
        y = lam[t.winner] / (lam[t.winner] + lam[t.loser])
        gamma = q[rater] * y / (q[rater] * y + (1 - q[rater]) / 2)
        wg = t.weight * gamma
        q = (np.bincount(rater, wg, t.n_raters) + priors.alpha - 1) / (
            n_r + priors.alpha + priors.beta - 2
        )
        below = wg / (lam[t.winner] + lam[t.loser])
        denominator = np.bincount(t.winner, below, k) + np.bincount(t.loser, below, k) + priors.b
        lam = (np.bincount(t.winner, wg, k) + priors.a - 1) / denominator
        lam *= k * (priors.a - 1) / (priors.b * lam.sum())
    return np.log(lam), q


@pytest.mark.parametrize("case", HAND_SOLVED, ids=lambda case: case["desc"][:40])
@pytest.mark.parametrize("solver", ["auto", "em"])
def test_hand_solved_cases(case: dict[str, Any], solver: Any) -> None:
    data = Comparisons.from_records([tuple(row) for row in case["wins"]])
    found = fit(data, model=case["model"], priors=Priors(*case["priors"]), solver=solver, tol=1e-8)
    theta = dict(zip(found.items, found.theta, strict=True))
    assert theta == pytest.approx(case["theta"], abs=1e-6)
    if case["quality"]:
        quality = dict(zip(found.raters, found.quality, strict=True))
        assert quality == pytest.approx(case["quality"], abs=1e-6)


@pytest.mark.parametrize("solve", [solve_newton, solve_em])
def test_two_starting_points_lead_to_one_optimum(solve: Any) -> None:
    triples = draw_study(1).data.triples
    objective = Joint(triples, Priors())
    rng = np.random.default_rng(3)
    here = solve(objective, *objective.start(), 1e-8)
    there = solve(
        objective, rng.normal(3, 1.5, triples.n_items), rng.random(triples.n_raters), 1e-8
    )
    assert there.theta == pytest.approx(here.theta, abs=1e-6)
    assert there.quality == pytest.approx(here.quality, abs=1e-6)


@pytest.mark.parametrize("ties", [0.0, 0.3])
def test_the_optimum_is_where_the_papers_own_steps_rest(ties: float) -> None:
    data = draw_study(2, guessers=0.2, ties=ties).data
    theta, quality = literal_em(data, Priors(), 4000)
    for solver in ("auto", "em"):
        found = fit(data, priors="paper", camps=1, solver=solver, tol=1e-9)
        assert found.theta == pytest.approx(theta, abs=1e-6)
        assert found.quality == pytest.approx(quality, abs=1e-6)


@settings(deadline=None, max_examples=150)
@given(records(max_size=25))
def test_the_log_posterior_never_falls_whatever_the_data(rows: list[Any]) -> None:
    found = fit(Comparisons.from_records(rows))
    assert np.all(np.diff(found.trace) >= 0)
    assert np.all(np.isfinite(found.theta))
    assert np.all((found.quality >= 0) & (found.quality <= 1))


@settings(deadline=None, max_examples=60)
@given(records(max_size=25))
def test_the_papers_steps_never_fall_whatever_the_data(rows: list[Any]) -> None:
    objective = Joint(Comparisons.from_records(rows).triples, Priors())
    theta, quality = objective.start()
    before = -np.inf
    for _ in range(60):
        value, theta, quality = objective.em_pass(theta, quality)
        assert value >= before - objective.rounding(value)
        before = value


plain_rows = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob", "eve", "joe"]),
        st.permutations(["a", "b", "c", "d"]).map(lambda p: (p[0], p[1])),
        st.sampled_from([0.5, 1.0, 2.0, 5.0]),
    ),
    min_size=1,
    max_size=30,
)


@settings(deadline=None, max_examples=80)
@given(plain_rows)
def test_both_solvers_end_at_the_same_optimum(rows: list[Any]) -> None:
    data = Comparisons.from_records([(r, w, x, weight) for r, (w, x), weight in rows])
    newton, em = fit(data, priors="paper", camps=1), fit(data, solver="em")
    assert em.theta == pytest.approx(newton.theta, abs=1e-5)
    assert em.quality == pytest.approx(newton.quality, abs=1e-5)


@settings(deadline=None, max_examples=60)
@given(plain_rows, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(rows: list[Any], random: Any) -> None:
    wins = [(r, w, x, weight) for r, (w, x), weight in rows]
    shuffled = wins.copy()
    random.shuffle(shuffled)
    one, two = (fit(Comparisons.from_records(part)) for part in (wins, shuffled))
    again = dict(zip(two.items, two.theta, strict=True))
    assert [again[name] for name in one.items] == pytest.approx(one.theta, abs=1e-6)


@pytest.mark.parametrize(
    "rows",
    [
        [("r", "a", "b", 1.0)],
        [("r", "a", "b", 1e6)],
        [("r", "a", "b", 1e-6)],
        [("r", "a", "b", 1e6), ("s", "b", "a", 1e6)],
        [("r", "a", "b", 100.0), ("s", "b", "a", 100.0)],
        [("r", "a", x, 50.0) for x in "bcdef"],
        [("r", "a", "b", 1e6), ("s", "c", "d", 1e-6), ("s", "d", "a", 1.0)],
    ],
    ids=["one vote", "heavy", "light", "deadlock", "quarrel", "never loses", "unequal"],
)
def test_odd_data_converge(rows: list[Any]) -> None:
    found = fit(Comparisons.from_records(rows))
    assert found.converged
    assert found.error <= 1e-6
    assert np.all(np.diff(found.trace) >= 0)


def test_raters_who_contradict_each_other_exactly_do_not_hold_the_fit_on_a_saddle() -> None:
    rows = [("r", "a", "b", 1000.0), ("s", "b", "a", 1000.0)]
    for solver in ("auto", "em"):
        found = fit(Comparisons.from_records(rows), priors="paper", solver=solver)
        # One of the two is believed: equal items would be a saddle, not the maximum.
        assert abs(found.theta[0] - found.theta[1]) > 1
        assert abs(found.quality[0] - found.quality[1]) > 0.5


def test_disconnected_groups_are_said_in_warnings() -> None:
    rows = [("r", "a", "b", 1.0), ("r", "c", "d", 1.0), ("s", "d", "c", 1.0)]
    (warning,) = fit(Comparisons.from_records(rows)).warnings
    assert "2 groups" in warning
    assert "{a, b}" in warning
    assert "{c, d}" in warning


def test_an_item_nobody_compared_is_a_group_of_its_own() -> None:
    data = Comparisons.from_arrays([0], [0], [1], items=["a", "b", "idle"], raters=["r"])
    found = fit(data, priors="paper")
    assert any("{idle}" in warning for warning in found.warnings)
    assert found.theta[2] == pytest.approx(np.log(40), abs=0.2)


def test_no_prior_and_an_item_that_never_loses_is_an_error() -> None:
    rows = [("r", "a", "b", 1.0), ("r", "b", "c", 1.0), ("r", "c", "b", 1.0)]
    with pytest.raises(ConvergenceError, match="never wins or never loses"):
        fit(Comparisons.from_records(rows), model="bayes-bt", priors=Priors(a=1, b=0))


def test_too_few_steps_are_an_error_and_not_a_result() -> None:
    objective = Joint(draw_study(3).data.triples, Priors())
    with pytest.raises(ConvergenceError, match="did not converge"):
        solve_em(objective, *objective.start(), 1e-9, most=5)
    with pytest.raises(ConvergenceError, match="did not converge"):
        solve_newton(objective, *objective.start(), 1e-9, most=1)


@pytest.fixture
def sparse_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "dense_is_cheap", lambda _objective: False)


@pytest.mark.usefixtures("sparse_only")
def test_without_a_dense_matrix_the_optimum_is_the_same() -> None:
    data = draw_study(4, items=30, raters=60, guessers=0.2, ties=0.2).data
    found = fit(data, priors="paper", camps=1)
    theta, quality = literal_em(data, Priors(), 6000)
    assert found.theta == pytest.approx(theta, abs=1e-6)
    assert found.quality == pytest.approx(quality, abs=1e-6)


@pytest.mark.usefixtures("sparse_only")
@settings(deadline=None, max_examples=40)
@given(records(max_size=15))
def test_without_a_dense_matrix_it_never_falls_either(rows: list[Any]) -> None:
    try:
        found = fit(Comparisons.from_records(rows))
    except ConvergenceError:
        return
    assert np.all(np.diff(found.trace) >= 0)


def test_many_items_are_fitted_without_a_square_of_them() -> None:
    rng = np.random.default_rng(0)
    items, n = 3000, 60_000
    left = rng.integers(0, items, n)
    data = Comparisons.from_arrays(
        rng.integers(0, 200, n), left, (left + rng.integers(1, items, n)) % items
    )
    found = fit(data)
    assert found.error <= 1e-6


def test_a_covariance_too_large_to_be_sensible_is_refused_with_the_remedy() -> None:
    chain = Comparisons.from_arrays(np.zeros(4999, int), np.arange(4999), np.arange(1, 5000))
    with pytest.raises(UnsupportedError, match=r"5000 x 5000.*robust"):
        fit(chain).covariance()


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    data = draw_study(5, raters=2000, votes=40).data
    fits = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("BBQ_THREADS", threads)
        fits.append(fit(data))
    assert np.array_equal(fits[0].theta, fits[1].theta)
    assert np.array_equal(fits[0].quality, fits[2].quality)


def test_aggregation_sums_equal_triples_and_sorts_by_rater() -> None:
    rng = np.random.default_rng(1)
    for raters, items, n in ((5, 4, 4000), (400, 12, 9000), (3, 60, 9000), (1, 2, 1)):
        rater = rng.integers(0, raters, n).astype(np.int32)
        winner = rng.integers(0, items, n).astype(np.int32)
        loser = ((winner + rng.integers(1, items, n)) % items).astype(np.int32)
        weight = rng.random(n)
        found = aggregate(rater, winner, loser, weight, raters, items)
        code = (rater.astype(np.int64) * items + winner) * items + loser
        expected, inverse = np.unique(code, return_inverse=True)
        assert np.array_equal(
            (found.rater() * items + found.winner) * items + found.loser, expected
        )
        assert found.weight == pytest.approx(np.bincount(inverse, weight))


def test_twice_the_weight_is_the_same_vote_twice() -> None:
    once = [("r", "a", "b", 2.0), ("s", "b", "c", 3.0), ("s", "c", "a", 1.0)]
    twice = [("r", "a", "b", 1.0)] * 2 + [("s", "b", "c", 1.5)] * 2 + [("s", "c", "a", 1.0)]
    one, two = (fit(Comparisons.from_records(rows)) for rows in (once, twice))
    assert np.array_equal(one.theta, two.theta)
    assert np.array_equal(one.quality, two.quality)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda data: fit(data, model=cast("Any", "bqq")), "bbq, bbq-signed, bayes-bt, crowd-bt"),
        (lambda data: fit(data, solver=cast("Any", "newton")), "auto, em"),
        (lambda data: fit(data, tol=0), "tol"),
        (lambda data: fit(data, priors=cast("Any", "papr")), "'paper', 'auto'"),
        (
            lambda data: fit(data, priors=cast("Any", fit(data).priors), solver="em"),
            "solver='auto'",
        ),
        (lambda data: fit(data, model="crowd-bt", priors=Priors(a=3)), "of its own"),
        (lambda data: fit(data, model="crowd-bt", solver="em"), "use solver=.auto."),
        (lambda data: fit(data, priors=Priors(guessers=0.1)), "priors='auto'"),
        (lambda data: fit(data).sample(3), "at least 8"),
        (lambda _: Priors(a=1, b=0.1), "a > 1 with b > 0"),
        (lambda _: Priors(alpha=0.5), "at least 1"),
        (lambda _: Priors(beta=float("nan")), "finite"),
    ],
)
def test_wrong_calls_say_what_to_do(call: Any, says: str) -> None:
    data = Comparisons.from_records([("r", "a", "b", 1.0)])
    with pytest.raises(BBQError, match=says) as caught:
        call(data)
    assert isinstance(caught.value, UsageError)


def test_no_raters_are_fitted_without_quality_and_said() -> None:
    data = Comparisons.from_records([(None, "a", "b", 1.0), (None, "b", "c", 2.0)])
    found = fit(data)
    assert found.raters == ()
    assert found.quality.size == 0
    assert any("no rater is known" in warning for warning in found.warnings)
    assert found.theta == pytest.approx(fit(data, model="bayes-bt").theta)
    assert found.covariance().shape == (3, 3)


def test_guessers_get_a_low_quality() -> None:
    study: Study = draw_study(6, raters=60, votes=100, guessers=0.3)
    quality = fit(study.data).quality
    assert quality[study.quality == 0].mean() < quality[study.quality > 0].mean() - 0.15


def test_a_start_so_far_out_that_answers_are_impossible_is_left_for_equal_items() -> None:
    data = Comparisons.from_records([("a", "x", "y", 1.0), ("b", "y", "x", 1.0)])
    plain = Joint(data.pooled, Priors(), fixed=True)
    assert plain.at(np.array([0.0, 90.0]), np.ones(1)).value == -np.inf
    found = solve_newton(plain, np.array([0.0, 90.0]), np.ones(1), 1e-8)
    assert np.isfinite(found.value)
    assert np.ptp(found.theta) < 1e-6


def test_what_is_not_a_number_is_refused() -> None:
    data = Comparisons.from_records([("a", "x", "y", 1.0), ("b", "y", "x", 1.0)])
    plain = Joint(data.pooled, Priors(), fixed=True)
    with pytest.raises(ConvergenceError, match="cannot be maximised"):
        solve_newton(plain, np.array([0.0, np.nan]), np.ones(1), 1e-8)
