from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from bbq_plugin.data.rankings import break_choice, break_ranking, information_weight
from bbq_plugin.errors import DataError, UsageError
from tests.strategies import level_sizes


def pairs(broken: list[tuple[str, str, float]]) -> set[tuple[str, str]]:
    return {(winner, loser) for winner, loser, _ in broken}


def plackett_luce(order: tuple[int, ...], theta: np.ndarray[Any, Any]) -> float:
    skill = np.exp(theta[list(order)])
    return float(np.prod(skill / np.cumsum(skill[::-1])[::-1]))


def fisher_trace(sizes: list[int]) -> float:
    """Trace of the Fisher information of the levels at equal skills, by listing and differencing.

    Σ over outcomes of (∂P/∂θ_i)² / P, where an outcome is which item is in which level and
    its probability the sum over all full orders that agree with it.
    """
    m, step = sum(sizes), 1e-5
    level_of = np.repeat(np.arange(len(sizes)), sizes)
    orders = list(permutations(range(m)))

    def outcomes(theta: np.ndarray[Any, Any]) -> dict[tuple[int, ...], float]:
        total: dict[tuple[int, ...], float] = {}
        for order in orders:
            levels = tuple(level_of[np.argsort(order)].tolist())
            total[levels] = total.get(levels, 0.0) + plackett_luce(order, theta)
        return total

    # By symmetry every item has the same information, so one of them is enough.
    shift = np.zeros(m)
    shift[0] = step
    up, down, here = outcomes(shift), outcomes(-shift), outcomes(np.zeros(m))
    return m * sum(((up[o] - down[o]) / (2 * step)) ** 2 / here[o] for o in here)


@settings(max_examples=15)
@given(level_sizes)
def test_the_pairs_carry_as_much_information_as_the_ranking(sizes: list[int]) -> None:
    n_pairs = (sum(sizes) ** 2 - sum(s * s for s in sizes)) / 2
    # One comparison of two equal items has a Fisher information of trace 1/2.
    assert information_weight(sizes) * n_pairs / 2 == pytest.approx(fisher_trace(sizes), rel=1e-6)


@pytest.mark.parametrize("m", [2, 3, 4, 7])
def test_known_weights_of_full_rankings_and_choices(m: int) -> None:
    items = [f"i{k}" for k in range(m)]
    full = 4 * sum((s - 1) / s for s in range(2, m + 1)) / (m * (m - 1))
    assert [w for *_, w in break_ranking(items)] == pytest.approx([full] * (m * (m - 1) // 2))
    assert [w for *_, w in break_choice("i0", items)] == pytest.approx([2 / m] * (m - 1))


def test_a_full_ranking_compares_every_pair() -> None:
    assert pairs(break_ranking(["a", "c", "b"])) == {("a", "c"), ("a", "b"), ("c", "b")}
    assert break_ranking(["a", "b"]) == [("a", "b", 1.0)]


def test_items_of_one_level_are_not_compared() -> None:
    for level in (["a", "b"], ("a", "b"), {"a", "b"}):
        assert pairs(break_ranking([level, "c"])) == {("a", "c"), ("b", "c")}


def test_unranked_items_are_below_the_ranked_and_not_compared_among_themselves() -> None:
    broken = break_ranking(["a", "b"], unranked=["c", "d"])
    assert pairs(broken) == {
        ("a", "b"),
        ("a", "c"),
        ("a", "d"),
        ("b", "c"),
        ("b", "d"),
    }
    assert broken == break_ranking(["a", "b", ["c", "d"]])


def test_a_choice_beats_the_others_and_says_nothing_more() -> None:
    broken = break_choice("b", ["a", "b", "c"])
    assert pairs(broken) == {("b", "a"), ("b", "c")}


def test_unit_weights_on_request() -> None:
    assert {w for *_, w in break_ranking(["a", "b", "c"], weights="unit")} == {1.0}
    assert {w for *_, w in break_choice("a", ["a", "b", "c"], weights="unit")} == {1.0}


def test_the_same_set_breaks_the_same_way_in_every_run() -> None:
    assert break_ranking([{"d", "b"}, {"c", "a"}]) == break_ranking([["b", "d"], ["a", "c"]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: break_ranking(["a", "b", "a"]), "'a' is in the ranking more than once"),
        (lambda: break_ranking(["a", "b"], unranked=["b"]), "'b' is in the ranking more than once"),
        (lambda: break_ranking(["a"]), "compares nothing"),
        (lambda: break_ranking([]), "compares nothing"),
        (lambda: break_ranking([["a", "b"]]), "in one level"),
        (lambda: break_ranking(["a", [], "b"]), "level of the ranking is empty"),
        (lambda: break_ranking(["a", ""]), "not the name of an item"),
        (lambda: break_choice("x", ["a", "b"]), "'x' is not among the shown"),
        (lambda: break_choice("a", ["a", "a", "b"]), "'a' is in the ranking more than once"),
        (lambda: break_choice("a", ["a"]), "compares nothing"),
    ],
)
def test_an_impossible_ranking_is_refused(call: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        call()


def test_a_weight_scheme_that_does_not_exist_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="'information' or 'unit'"):
        break_ranking(["a", "b"], weights="equal")  # type: ignore[arg-type]
