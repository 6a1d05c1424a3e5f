"""Raters with tastes of their own are camps, not guessers."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import bbq_plugin as bbq
from bbq_plugin.errors import ConvergenceError, UnsupportedError, UsageError
from bbq_plugin.model import camps, prior_estimation, rater_population
from bbq_plugin.model.camps import Mixture, screen
from bbq_plugin.model.prior_estimation import CENTRE, priors_of

ITEMS = tuple("abcdefgh")


def panel(
    seed: int, *, minority: float = 0.0, guessers: float = 0.0, votes: int = 100, raters: int = 40,
    reverse: bool = False,
) -> tuple[bbq.Comparisons, Any]:  # fmt: skip
    """A panel of which a part has another ranking (or the reverse one); and who is of it."""
    rng = np.random.default_rng(seed)
    k = len(ITEMS)
    first, second = np.linspace(-1.5, 1.5, k), rng.permutation(np.linspace(-1.5, 1.5, k))
    if reverse:
        second = -first
    other = np.arange(raters) < round(minority * raters)
    quality = rng.beta(10, 2, raters)
    quality[raters - round(guessers * raters) :] = 0.0
    rater = np.repeat(np.arange(raters), votes)
    a = rng.integers(0, k, rater.size)
    b = (a + rng.integers(1, k, rater.size)) % k
    theta = np.where(other[:, None], second, first)
    y = 1 / (1 + np.exp(theta[rater, b] - theta[rater, a]))
    won = rng.random(rater.size) < 0.5 + quality[rater] * (y - 0.5)
    data = bbq.Comparisons.from_arrays(
        rater, np.where(won, a, b), np.where(won, b, a), items=ITEMS,
        raters=[f"r{i:02}" for i in range(raters)],
    )  # fmt: skip
    return data, other


@pytest.mark.parametrize("guessers", [0.0, 0.2, 0.4])
def test_one_taste_is_one_camp_whatever_the_share_of_guessers(guessers: float) -> None:
    for seed in range(4):
        found = bbq.fit(panel(seed, guessers=guessers)[0], priors="auto")
        assert len(found.camps) == 1
        assert found.camps[0].share == 1.0


def test_a_minority_with_its_own_ranking_is_found_with_its_members() -> None:
    data, other = panel(1, minority=0.2)
    found = bbq.fit(data, priors="auto")
    assert [round(camp.share * 40) for camp in found.camps] == [32, 8]
    assert np.array_equal(found.membership[:, 1] > 0.5, other)
    assert found.camps[1].raters["r00"] > 0.99
    assert found.given_priors().guessers < 0.1, "they are no guessers"
    assert found.theta == pytest.approx(found.membership.mean(axis=0) @ found.camp_theta)
    assert all(b >= a for a, b in pairwise(found.trace))


def test_a_group_that_answers_in_reverse_is_found_although_it_looks_like_low_quality() -> None:
    data, other = panel(2, minority=0.2, reverse=True)
    found = bbq.fit(data, priors="auto")
    assert len(found.camps) == 2
    assert np.array_equal(found.membership[:, 1] > 0.5, other)
    assert np.corrcoef(found.camp_theta)[0, 1] < -0.9


def in_another_order(data: bbq.Comparisons) -> bbq.Comparisons:
    """The same rows, shuffled: raters and items come in another order too."""
    order = np.random.default_rng(0).permutation(data.weight.size)
    names = [(data.raters[r], data.items[w], data.items[x]) for r, w, x in zip(
        data.rater[order], data.winner[order], data.loser[order], strict=True)]  # fmt: skip
    return bbq.Comparisons.from_records(names)


def test_the_order_of_rows_does_not_matter() -> None:
    data, _ = panel(3, minority=0.4)
    one, two = bbq.fit(data, priors="auto"), bbq.fit(in_another_order(data), priors="auto")
    assert len(one.camps) == len(two.camps) == 2
    for first, second in zip(one.camps, two.camps, strict=True):
        by_name = dict(zip(two.items, second.theta.tolist(), strict=True))
        assert first.theta == pytest.approx([by_name[i] for i in one.items], abs=1e-4)
        assert first.raters == pytest.approx(dict(second.raters), abs=1e-4)


def test_the_order_of_rows_does_not_matter_where_a_part_of_the_raters_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module, name, few in (
        (prior_estimation, "COARSE_TRIPLES", (800, 0)),
        (prior_estimation, "MOST_TRIPLES", (1500, 0)),
        (prior_estimation, "LOG_DET_TRIPLES", (800, 0)),
        (camps, "MOST_TRIPLES", (1500, 0)),
        (rater_population, "ENOUGH_RATERS", 40),
    ):
        monkeypatch.setattr(module, name, few)
    data, _ = panel(3, minority=0.3, guessers=0.2, raters=120, votes=40)
    one, two = bbq.fit(data), bbq.fit(in_another_order(data))
    assert len(one.camps) == len(two.camps) == 2
    by_name = dict(zip(two.items, two.theta.tolist(), strict=True))
    assert one.theta == pytest.approx([by_name[i] for i in one.items], abs=1e-3)
    first, second = ({row.rater: row for row in bbq.rater_report(found)} for found in (one, two))
    assert {name: row.verdict for name, row in first.items()} == {
        name: row.verdict for name, row in second.items()
    }
    p_bad = {name: row.p_bad for name, row in first.items()}
    assert p_bad == pytest.approx({name: row.p_bad for name, row in second.items()}, abs=1e-3)


def test_the_part_of_a_few_raters_with_very_many_answers_is_all_of_them() -> None:
    data, _ = panel(3, raters=12, votes=100)
    part = prior_estimation.few_raters(data.triples, (100, 0))
    assert part.n_raters == 12


def test_of_very_many_guessers_some_answer_against_the_ranking_by_chance() -> None:
    axis = screen(panel(0, guessers=0.6, raters=8000, votes=100)[0].triples)
    assert axis is not None
    assert axis.against >= 3
    assert not axis.fires
    few = screen(panel(0, minority=0.1, raters=40, reverse=True)[0].triples)
    assert few is not None
    assert few.against >= 3
    assert few.fires


def test_a_number_of_camps_can_be_asked_for() -> None:
    data, _ = panel(4)
    assert len(bbq.fit(data, priors="auto", camps=2).camps) == 2
    assert len(bbq.fit(panel(1, minority=0.2)[0], priors="auto", camps=1).camps) == 1
    few = bbq.Comparisons.from_records([("ann", "a", "b"), ("bob", "b", "c")])
    with pytest.raises(UsageError, match="camps=2"):
        bbq.fit(few, camps=2)


def test_the_screen_tells_a_divided_panel_by_one_pass() -> None:
    divided, one = screen(panel(5, minority=0.5)[0].triples), screen(panel(5)[0].triples)
    assert divided is not None
    assert one is not None
    assert divided.strength > 2
    assert one.strength < 1.2


def test_a_few_raters_with_most_of_the_answers_do_not_look_like_a_division() -> None:
    size: Any = {"items": 50, "raters": 300, "comparisons": 9000, "median_votes": 8.0}
    for seed in range(3):
        data = bbq.simulate(**size, guessers=0.1, seed=seed).arrays()
        votes = np.bincount(data.rater)
        assert votes.max() > 20 * votes.mean()
        one = screen(data.triples)
        assert one is not None
        assert one.strength < 1.1
        assert not one.fires
    other = screen(bbq.simulate(**size, minority=0.5, seed=0).arrays().triples)
    assert other is not None
    assert other.fires


def test_by_chance_the_largest_eigenvalue_is_that_of_drawn_matrices() -> None:
    votes = np.concatenate((np.full(400, 10.0), np.full(40, 40.0)))
    total, free = float(votes.sum()), 80
    edge = camps._largest_by_chance(camps._vote_table(votes, 10.0, np.ones(440)), total, free)
    rng = np.random.default_rng(0)
    drawn = [
        np.linalg.norm(rng.standard_normal((free, 440)) * np.sqrt(votes / total), 2) ** 2
        for _ in range(20)
    ]
    # Finite matrices stay a few per cent below the edge, which is that of very large ones.
    assert 0.93 * edge < np.mean(drawn) < edge
    equal = camps._vote_table(np.full(50, 7.0), 7.0, np.ones(50))
    # Marchenko and Pastur's edge.
    assert camps._largest_by_chance(equal, 350.0, 8) == pytest.approx((1 + 0.4) ** 2)


def test_the_edge_is_finite_where_the_rater_with_most_votes_is_no_member() -> None:
    # One rater has half of all answers and belongs to another camp; a warning is an error here.
    votes = np.array([[20.0, 1e-40], [200.0, 1e-38]])
    assert np.isfinite(camps._largest_by_chance(votes, 200.0, 7))


def test_gradient_and_curvature_of_several_camps() -> None:
    triples = panel(6, minority=0.5, votes=12, raters=12)[0].triples
    mixture = Mixture(triples, replace(priors_of(CENTRE), a=2.0), 2)
    rng = np.random.default_rng(1)
    theta, share = rng.normal(3, 0.7, (2, 8)), np.array([0.6, 0.4])
    now, step = mixture.at(theta, share), 1e-5

    def differences(function: Any) -> Any:
        nudges = step * np.eye(16).reshape(16, 2, 8)
        return np.array([(function(theta + e) - function(theta - e)) / (2 * step) for e in nudges])

    slope = differences(lambda x: mixture.at(x, share).value)
    assert now.gradient.ravel() == pytest.approx(slope, abs=2e-4)

    curvature = -differences(lambda x: mixture.at(x, share).gradient.ravel())
    assert now.curvature == pytest.approx(curvature, abs=1e-3 * np.abs(curvature).max())


def test_leaving_out_a_camp_leaves_the_ranking_of_the_other() -> None:
    data, other = panel(7, minority=0.3)
    found = bbq.fit(data, priors="auto")
    without = found.theta_without(np.flatnonzero(other).tolist())
    assert np.corrcoef(without, found.camps[0].theta)[0, 1] > 0.999


def test_what_speaks_of_one_ranking_alone_is_refused_for_several() -> None:
    found = bbq.fit(panel(1, minority=0.2)[0], priors="auto")
    for intervals in ("posterior", "paper"):
        with pytest.raises(UnsupportedError, match="several camps"):
            bbq.leaderboard(found, intervals)
    difference = bbq.compare(found, "a", "b")
    assert difference.theta == pytest.approx(found.theta[0] - found.theta[1])
    assert difference.theta_lower < difference.theta < difference.theta_upper
    resampled = found.bootstrap(20, seed=1)
    assert resampled.mean(axis=0) == pytest.approx(found.theta, abs=0.5)


def test_camps_that_cannot_be_divided_further_are_the_last_ones() -> None:
    """Raters who answer exactly alike: no cut leaves one of them on each side."""
    votes = []
    for n in range(600):
        rater, often = f"r{n % 12}", n % 20 > 0
        votes.append((rater, *(("a", "b") if often else ("b", "a")), 1.0))
        votes.append((rater, *(("b", "c") if n % 2 else ("c", "b")), 1.0))
    assert len(bbq.fit(bbq.Comparisons.from_records(votes)).camps) == 3


def weighted(data: bbq.Comparisons, weights: Any) -> bbq.Comparisons:
    """The same as single answers, each with a weight."""
    answers = zip(data.rater, data.winner, data.loser, weights, strict=True)
    return bbq.Comparisons.from_comparisons(
        bbq.Comparison(
            key=str(n), rater=data.raters[r], left=data.items[i], right=data.items[j],
            outcome="left", weight=float(weight),
        )
        for n, (r, i, j, weight) in enumerate(answers)
    )  # fmt: skip


def test_an_answer_of_a_large_weight_is_no_agreement_of_several_answers() -> None:
    data, _ = panel(3, guessers=0.1, votes=40)
    weights = np.random.default_rng(3).choice([0.1, 0.37, 1.0, 2.5, 7.3], data.weight.size)
    found, plain = bbq.fit(weighted(data, weights)), bbq.fit(weighted(data, data.weight))
    assert len(found.camps) == 1
    assert found.given_priors().a == pytest.approx(plain.given_priors().a, rel=0.5)
    assert np.corrcoef(found.theta, plain.theta)[0, 1] > 0.95
    # In the ratings each answer has the weight that was given.
    assert found.triples.weight.sum() == pytest.approx(weights.sum())


def test_whole_weights_count_answers_as_rows_of_their_own_do() -> None:
    data, _ = panel(3, guessers=0.1, votes=40)
    thrice = bbq.fit(weighted(data, 3.0 * data.weight))
    rows = np.repeat(np.arange(data.weight.size), 3)
    apart = bbq.Comparisons.from_arrays(
        data.rater[rows], data.winner[rows], data.loser[rows], raters=data.raters, items=data.items
    )
    assert thrice.given_priors().a == pytest.approx(bbq.fit(apart).given_priors().a, rel=1e-4)


def test_where_camps_cannot_be_looked_for_there_is_one_and_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Weights of a million are such a case, on some machines: here the search is made to fail."""
    data, _ = panel(1, minority=0.4)

    def stuck(*_: Any, **__: Any) -> None:
        raise ConvergenceError("stuck")

    monkeypatch.setattr(camps, "_more_camps", stuck)
    found = bbq.fit(data)
    assert len(found.camps) == 1
    assert any("could not be told" in text for text in found.warnings)
    with pytest.raises(ConvergenceError, match="stuck"):
        bbq.fit(data, camps=2)


def test_camps_among_too_few_raters_are_refused_with_how_many_there_are() -> None:
    data, _ = panel(1, raters=4)
    with pytest.raises(UsageError, match=r"6 raters or more.*here are 4 raters.*use camps=1$"):
        bbq.fit(data, camps=2)


def test_one_fraction_of_a_weight_does_not_change_how_the_spread_is_found() -> None:
    data, _ = panel(1, votes=5)
    weight = data.weight.copy()
    assert prior_estimation.is_sparse(data.triples)
    weight[0] = 0.5
    assert prior_estimation.is_sparse(replace(data, weight=weight).triples)
    assert not prior_estimation.is_sparse(replace(data, weight=0.3 * weight).triples)
