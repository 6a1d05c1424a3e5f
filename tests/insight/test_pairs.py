from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import bbq_plugin as bbq
from bbq_plugin.errors import UsageError
from bbq_plugin.insight.pairs import _Batch, _fisher, average_quality, information_bits


@pytest.fixture(scope="module")
def fit() -> bbq.Fit:
    study = bbq.simulate(items=7, raters=20, comparisons=700, guessers=0.2, spread=1.0, seed=2)
    return bbq.fit(study.arrays())


def entropy(p: np.ndarray) -> np.ndarray:
    return np.asarray(-(p * np.log2(p) + (1 - p) * np.log2(1 - p)))


@pytest.mark.parametrize(
    ("mean", "variance", "quality"),
    [(0.0, 0.01, 1.0), (0.3, 0.5, 0.7), (-2.0, 0.4, 0.9), (0.1, 25.0, 0.95), (4.0, 9.0, 0.3)],
)
def test_the_information_is_that_of_its_definition(
    mean: float, variance: float, quality: float
) -> None:
    """Against a sum over a fine grid of d, whose midpoint rule is good to 1e-8."""
    step = 24 * variance**0.5 / 200_000
    d = mean + (np.arange(200_000) + 0.5) * step - 12 * variance**0.5
    weight = norm.pdf(d, mean, variance**0.5) * step
    # No cell lies across 0 but one, whose share is put where its middle is.
    p = 0.5 + quality * (1 / (1 + np.exp(-d)) - 0.5)
    above = d > 0
    expected = entropy(np.array([weight @ p]))[0]
    for side in (above, ~above):
        share = weight[side].sum()
        expected -= share * entropy(np.array([weight[side] @ p[side] / share]))[0]
    found = information_bits(np.array([mean]), np.array([variance]), quality)[0]
    assert found == pytest.approx(expected, abs=1e-6)


def test_a_settled_order_or_a_coin_tells_nothing() -> None:
    far, near = np.array([30.0, -30.0]), np.array([1.0, 1.0])
    assert information_bits(far, near, 1.0) == pytest.approx([0, 0], abs=1e-12)
    assert information_bits(np.zeros(2), near, 0.0) == pytest.approx([0, 0], abs=1e-12)


def test_it_does_not_matter_which_item_comes_first() -> None:
    mean, variance = np.array([0.7, 2.0]), np.array([0.5, 3.0])
    assert information_bits(mean, variance, 0.8) == pytest.approx(
        information_bits(-mean, variance, 0.8), rel=1e-12
    )


def test_no_pair_comes_twice_and_the_gains_fall(fit: bbq.Fit) -> None:
    found = bbq.next_pairs(fit, 12)
    pairs = [frozenset((row.item_a, row.item_b)) for row in found]
    assert len(set(pairs)) == len(pairs) == 12
    bits = [row.information_bits for row in found]
    assert bits == sorted(bits, reverse=True)
    assert all(0 < b < 1 for b in bits)
    assert all(row.p_a_better >= 0.5 for row in found)


def test_lazy_choice_is_the_greedy_choice(fit: bbq.Fit) -> None:
    """Against all gains worked out anew after each choice, with the covariance itself updated."""
    mean, covariance = fit.laplace.mean, fit.laplace.covariance.copy()
    quality = average_quality(fit)
    first, second = np.triu_indices(mean.size, 1)
    lazy = _Batch(mean, covariance, quality, first, second).pick(10)
    taken: list[int] = []
    for pair, bits in lazy:
        spread = np.diag(covariance)
        variance = spread[first] + spread[second] - 2 * covariance[first, second]
        gain = information_bits(mean[first] - mean[second], variance, quality)
        gain[taken] = -1
        best = int(np.argmax(gain))
        assert best == pair
        assert bits == pytest.approx(gain[best], rel=1e-9)
        taken.append(best)
        u = np.zeros(mean.size)
        u[first[best]], u[second[best]] = 1, -1
        told = _fisher(float(u @ mean), float(u @ covariance @ u), quality)
        column = covariance @ u
        covariance -= np.outer(column, column) * told / (1 + told * (u @ column))


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
    assert second.information_bits < 0.1 * best.information_bits


def test_all_pairs_there_are(fit: bbq.Fit) -> None:
    found = bbq.next_pairs(fit, 100)
    assert len(found) == 21
    assert found.warnings


def test_many_items_are_no_trouble() -> None:
    study = bbq.simulate(items=300, raters=20, comparisons=6000, seed=1)
    found = bbq.next_pairs(bbq.fit(study.arrays(), model="bayes-bt"), 20)
    assert len(found) == 20
    assert found.quality == 1.0


@pytest.mark.parametrize(
    ("n", "among", "says"),
    [(0, None, "at least one"), (5, ["item-1"], "two items"), (5, ["item-1", "itm-2"], "item-2")],
)
def test_what_makes_no_sense_is_refused(
    fit: bbq.Fit, n: int, among: list[str] | None, says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        bbq.next_pairs(fit, n, among=among)
