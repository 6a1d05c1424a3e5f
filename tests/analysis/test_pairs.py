from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

import bbq_plugin as bbq
from bbq_plugin.analysis import prediction_scores
from bbq_plugin.analysis.next_pairs import DRAWS, Contenders, Design, fisher, order_weight
from bbq_plugin.errors import UsageError


@pytest.fixture(scope="module")
def fit() -> bbq.Fit:
    study = bbq.simulate(items=7, raters=20, comparisons=700, guessers=0.2, spread=1.0, seed=2)
    return bbq.fit(study.arrays())


def entropy(p: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(-(p * np.log2(p) + (1 - p) * np.log2(1 - p)))


def grid(mean: float, variance: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes and weights of a normal distribution; the midpoint rule is good to 1e-8 here."""
    step = 20 * variance**0.5 / 20_000
    d = mean + (np.arange(20_000) + 0.5) * step - 10 * variance**0.5
    return d, norm.pdf(d, mean, variance**0.5) * step


@pytest.mark.parametrize(
    ("mean", "variance", "quality"),
    [(0.0, 0.01, 1.0), (0.3, 0.5, 0.7), (-2.0, 0.4, 0.9), (0.1, 2.0, 0.95), (4.0, 1.0, 0.3)],
)
def test_the_information_of_an_answer_is_that_of_its_definition(
    mean: float, variance: float, quality: float
) -> None:
    d, weight = grid(mean, variance)
    y = 1 / (1 + np.exp(-d))
    p = 0.5 + quality * (y - 0.5)
    expected = weight @ ((quality * y * (1 - y)) ** 2 / (p * (1 - p)))
    found = fisher(np.array([mean]), np.array([variance]), quality)[0]
    # 15 nodes are meant for three digits; the choice of a pair needs no more.
    assert found == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize("mean", [0.0, 0.2, -0.9])
def test_bits_on_an_order_are_the_entropy_that_a_little_more_evidence_removes(mean: float) -> None:
    variance, removed = 0.3, 3e-4
    later, weight = grid(mean, removed)
    remaining = weight @ entropy(norm.cdf(later / (variance - removed) ** 0.5))
    lost = entropy(norm.cdf(np.array([mean / variance**0.5])))[0] - remaining
    found = order_weight(np.array([mean]), np.array([variance]))[0] * removed
    # The next term of the expansion is of relative size removed / variance = 1e-3.
    assert found == pytest.approx(lost, rel=5e-3)


def test_a_worse_rater_tells_less_and_a_settled_order_is_worth_nothing() -> None:
    mean, variance = np.array([0.3]), np.array([0.2])
    told = [fisher(mean, variance, quality)[0] for quality in (0.0, 0.3, 0.6, 1.0)]
    assert told == sorted(told)
    assert told[0] == 0
    assert order_weight(np.array([20.0]), np.array([0.1]))[0] == pytest.approx(0, abs=1e-12)


def test_gains_are_the_sum_over_all_orders_also_while_a_batch_grows(fit: bbq.Fit) -> None:
    """Against the definition, with the covariance itself updated and all pairs summed up."""
    mean, covariance = fit.laplace.mean, fit.laplace.covariance
    design, s = Design(mean, covariance, 0.8), covariance.copy()
    first, second = np.triu_indices(mean.size, 1)
    u = np.zeros((first.size, mean.size))
    u[np.arange(first.size), first], u[np.arange(first.size), second] = 1, -1
    variance = np.einsum("pi,ij,pj->p", u, s, u)
    weight = order_weight(u @ mean, variance)
    told = fisher(u @ mean, variance, 0.8)
    for _ in range(6):
        variance = np.einsum("pi,ij,pj->p", u, s, u)
        removed = (u @ s @ u.T) ** 2 * (told / (1 + told * variance))[None, :]
        expected = weight @ removed
        assert design.gain(0.8) == pytest.approx(expected, rel=1e-8)
        best = int(np.argmax(expected))
        i, j = int(first[best]), int(second[best])
        k = fisher(u[best] @ mean, np.asarray(variance[best]), 0.8)
        column = s @ u[best]
        design.take(i, j, 0.8)
        s -= np.outer(column, column) * k / (1 + k * variance[best])
        assert design.covariance == pytest.approx(s, abs=1e-12)


def test_no_pair_comes_twice(fit: bbq.Fit) -> None:
    found = bbq.next_pairs(fit, 12)
    pairs = [frozenset((row.item_a, row.item_b)) for row in found]
    assert len(set(pairs)) == len(pairs) == 12
    assert all({row.left, row.right} == {row.item_a, row.item_b} for row in found)
    assert all(row.information_bits > 0 and row.rater is None for row in found)
    assert all(row.p_a_better >= 0.5 for row in found)


@pytest.mark.parametrize("goal", ["ranking", "best", "top-k"])
def test_raters_share_the_work_and_see_no_pair_twice(fit: bbq.Fit, goal: str) -> None:
    raters = ["rater-01", "rater-02", "rater-05"]
    found = bbq.next_pairs(
        fit,
        40,
        goal=goal,  # type: ignore[arg-type] # one of the three
        top_k=2 if goal == "top-k" else None,
        raters=raters,
        exclude=(),
    )
    asked = Counter((row.rater, frozenset((row.left, row.right))) for row in found)
    assert len(asked) == len(found) == 40
    assert set(asked.values()) == {1}
    load = Counter(row.rater for row in found)
    assert set(load) == set(raters)
    assert max(load.values()) - min(load.values()) <= 1


@pytest.mark.parametrize("model", ["bayes-bt", "crowd-bt"])
def test_a_model_without_verdicts_does_not_ask_excluded_raters(model: Any) -> None:
    study = bbq.simulate(items=6, raters=20, comparisons=2400, guessers=0.2, spread=1.2, seed=5)
    data = study.arrays()
    out = set(bbq.rater_report(bbq.fit(data, priors="auto")).excluded)
    assert out
    priors: Any = "auto" if model == "bayes-bt" else "paper"
    found = bbq.next_pairs(bbq.fit(data, model=model, priors=priors), 60, raters=data.raters)
    assert {row.rater for row in found} == set(data.raters) - out
    assert "judged by a bbq fit of the same data" in found.warnings[0]


def test_whoever_is_excluded_is_never_asked() -> None:
    study = bbq.simulate(items=7, raters=10, comparisons=3000, guessers=0.2, spread=1.0, seed=2)
    fit = bbq.fit(study.arrays())
    out = {row.rater for row in bbq.rater_report(fit) if row.verdict == "exclude"}
    assert out
    found = bbq.next_pairs(fit, 60, raters=fit.raters)
    assert not {row.rater for row in found} & out
    assert any(name in found.warnings[0] for name in out)
    with pytest.raises(UsageError, match="excluded"):
        bbq.next_pairs(fit, 5, raters=sorted(out))
    named = bbq.next_pairs(fit, 5, raters=["rater-01", "rater-02"], exclude=["rater-01"])
    assert {row.rater for row in named} == {"rater-02"}


def test_better_raters_come_first_and_a_newcomer_counts_as_usual(fit: bbq.Fit) -> None:
    quality = dict(zip(fit.raters, fit.quality, strict=True))
    found = bbq.next_pairs(fit, 20, raters=fit.raters, exclude=())
    asked = [quality[str(row.rater)] for row in found]
    assert asked == sorted(asked, reverse=True)
    new = bbq.next_pairs(fit, 2, raters=["zoe"])
    assert [row.rater for row in new] == ["zoe", "zoe"]
    assert "zoe" in new.warnings[0]


def test_items_that_nobody_compared_come_first() -> None:
    """Two groups that never met: only pairs across them can say how they stand."""
    records = [("ann", "a", "b", 30.0), ("ann", "b", "a", 5.0)]
    records += [("ann", "c", "d", 30.0), ("ann", "d", "c", 5.0)]
    fit = bbq.fit(bbq.Comparisons.from_records(records))
    best = bbq.next_pairs(fit, 1)[0]
    assert len({best.item_a, best.item_b} & {"a", "b"}) == 1
    assert best.n == 0


def test_the_open_order_is_asked_about_and_not_the_size_of_a_settled_gap() -> None:
    """b and c are level; that both beat a and d is beyond doubt, by how much is not."""
    records = [("r", first, second, 40.0) for first in "bc" for second in "ad"]
    records += [("r", second, first, 1.0) for first in "bc" for second in "ad"]
    records += [("r", "a", "d", 40.0), ("r", "d", "a", 1.0), ("r", "b", "c", 9), ("r", "c", "b", 8)]
    fit = bbq.fit(bbq.Comparisons.from_records(records), model="bayes-bt")
    best, second = bbq.next_pairs(fit, 2)
    assert {best.item_a, best.item_b} == {"b", "c"}
    assert second.information_bits < 0.2 * best.information_bits


def test_the_search_for_the_best_leaves_the_bottom_alone(fit: bbq.Fit) -> None:
    order = [row.item for row in bbq.leaderboard(fit)]
    found = bbq.next_pairs(fit, 30, goal="best", raters=[f"r{i}" for i in range(30)])
    asked = Counter(item for row in found for item in (row.left, row.right))
    assert asked[order[0]] + asked[order[1]] > 15
    assert not asked.keys() & set(order[-3:])


def test_the_best_k_are_asked_about_across_their_border(fit: bbq.Fit) -> None:
    order = [row.item for row in bbq.leaderboard(fit)]
    found = bbq.next_pairs(fit, 30, goal="top-k", top_k=3, raters=[f"r{i}" for i in range(30)])
    asked = Counter(item for row in found for item in (row.left, row.right))
    assert asked[order[2]] + asked[order[3]] > max(asked[order[0]], asked[order[-1]])


def test_top_two_thompson_sampling_names_pairs_as_often_as_it_should() -> None:
    """Three items: with f the chances to be best, the pair a, b comes up with
    f_a f_b / (1 - f_a) + f_b f_a / (1 - f_b); f is read off the same draws."""
    mean, covariance = np.array([0.5, 0.3, 0.0]), np.diag([0.09, 0.16, 0.25])
    contenders = Contenders(Design(mean, covariance, 0.9), 1, np.random.default_rng(1))
    f = np.bincount(contenders.draws.argmax(axis=1), minlength=3) / DRAWS
    n = 4000
    seen = Counter(frozenset(contenders.pick(lambda _i, _j: True)) for _ in range(n))
    for a, b in ((0, 1), (0, 2), (1, 2)):
        expected = f[a] * f[b] * (1 / (1 - f[a]) + 1 / (1 - f[b]))
        # Four standard errors of a share.
        assert seen[frozenset((a, b))] / n == pytest.approx(
            expected, abs=4 * (expected * (1 - expected) / n) ** 0.5
        )


def test_draws_follow_the_covariance_that_a_batch_leaves() -> None:
    rng = np.random.default_rng(3)
    root = rng.normal(size=(5, 5))
    mean, covariance = rng.normal(size=5), root @ root.T / 5
    total, n = np.zeros((5, 5)), 60
    for _ in range(n):
        design = Design(mean, covariance, 0.9)
        contenders = Contenders(design, 1, rng)
        for i, j in ((0, 1), (0, 2), (0, 1), (3, 4)):
            _, column, told = design.take(i, j, 0.9)
            contenders.take(column, told, i, j)
        moved = contenders.draws - mean
        total += moved.T @ moved / DRAWS
    # Entries of a covariance from 15,000 draws are good to about 1.2%; four times that.
    assert total / n == pytest.approx(design.covariance, abs=0.05 * np.abs(covariance).max())


def test_sides_are_even_for_every_item_and_make_up_for_the_past(fit: bbq.Fit) -> None:
    found = bbq.next_pairs(fit, 200, raters=[f"r{i}" for i in range(200)])
    left = Counter(row.left for row in found)
    right = Counter(row.right for row in found)
    past = dict(zip(fit.items, fit.data.left_excess.tolist(), strict=True))  # type: ignore[union-attr]
    pairs = Counter((row.left, row.right) for row in found)
    assert all(abs(n - pairs[b, a]) <= 1 for (a, b), n in pairs.items())
    after = {item: past[item] + left[item] - right[item] for item in past}
    for item in left | right:
        # In an odd number of meetings the one gives way that is nearer to even.
        gives_way = sum(
            n != pairs[b, a] and abs(past[b if item == a else a]) > abs(past[item])
            for (a, b), n in pairs.items()
            if item in (a, b) and (a < b or not pairs[b, a])
        )
        assert abs(after[item]) <= max(abs(past[item]), 3) + gives_way
    assert sum(map(abs, after.values())) < sum(map(abs, past.values()))


def test_how_often_an_item_stood_left_is_counted() -> None:
    rows = [("1", "a", "b", "left"), ("2", "a", "b", "right"), ("3", "c", "a", "tie")]
    data = bbq.Comparisons.from_comparisons(
        bbq.Comparison(key, "ann", left, right, outcome)  # type: ignore[arg-type] # three of four
        for key, left, right, outcome in rows
    )
    assert data.left_excess is not None
    assert dict(zip(data.items, data.left_excess.tolist(), strict=True)) == {
        "a": 1,
        "b": -2,
        "c": 1,
    }


@pytest.mark.parametrize("goal", ["ranking", "best"])
def test_a_seed_gives_the_same_pairs_again(fit: bbq.Fit, goal: str) -> None:
    first, again, other = (
        bbq.next_pairs(fit, 30, goal=goal, raters=fit.raters, seed=seed)  # type: ignore[arg-type]
        for seed in (4, 4, 5)
    )
    assert list(first) == list(again)
    # For the ranking only the sides are drawn, and only where nothing else decides.
    assert (list(first) == list(other)) is (goal == "ranking")


def test_all_pairs_there_are(fit: bbq.Fit) -> None:
    for goal in ("ranking", "best"):
        found = bbq.next_pairs(fit, 100, goal=goal)
        assert len({frozenset((row.left, row.right)) for row in found}) == len(found) == 21
        assert "21 pairs" in found.warnings[0]


def test_many_items_are_no_trouble() -> None:
    study = bbq.simulate(items=300, raters=20, comparisons=6000, seed=1)
    fit = bbq.fit(study.arrays(), model="bayes-bt")
    for goal in ("ranking", "best"):
        found = bbq.next_pairs(fit, 20, goal=goal)
        assert len(found) == 20
        assert found.quality == 1.0


def test_tasks_are_served_in_the_order_of_the_list(fit: bbq.Fit) -> None:
    found = bbq.next_pairs(fit, 3)
    tasks = [(found[2].right, found[2].left), (found[0].left, found[0].right), ("x", "y")]
    scores = prediction_scores(found, tasks)
    assert scores == [pytest.approx(2 / 3), 0.0, 1.0]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"n": 0}, "at least one"),
        ({"among": ["item-1"]}, "two items"),
        ({"among": ["item-1", "itm-2"]}, "item-2"),
        ({"goal": "worst"}, "ranking, best, top-k"),
        ({"goal": "top-k"}, "top_k=None"),
        ({"top_k": 2}, "goal='ranking'"),
        ({"goal": "top-k", "top_k": 7}, "from 1 to 6"),
        ({"raters": "ann"}, "list of names"),
        ({"seed": -1}, "0 or more"),
    ],
)
def test_what_makes_no_sense_is_refused(
    fit: bbq.Fit, options: dict[str, object], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        bbq.next_pairs(fit, **options)  # type: ignore[arg-type] # wrong on purpose
