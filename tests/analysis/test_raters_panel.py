"""A panel that does not agree with itself more than coins would is told from one that does."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from bbq_plugin.analysis import leaderboard, rater_report
from bbq_plugin.analysis.agreement import LEVEL, panel_p
from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.data.records import Comparison
from bbq_plugin.model import fit


def panel(
    seed: int, *, items: int, raters: int, votes: int, spread: float, turned: int = 0
) -> Comparisons:
    """Raters of quality ~ Beta(10, 2), some of them upside down; coins at a spread of 0."""
    rng = np.random.default_rng(seed)
    theta, quality = rng.normal(0, 1, items) * spread, rng.beta(10, 2, raters)
    quality[:turned] *= -1
    who = np.repeat(np.arange(raters), votes)
    one = rng.integers(0, items, who.size)
    other = (one + rng.integers(1, items, who.size)) % items
    p = 0.5 + quality[who] * (1 / (1 + np.exp(theta[other] - theta[one])) - 0.5)
    won = rng.random(who.size) < p
    return Comparisons.from_arrays(
        who, np.where(won, one, other), np.where(won, other, one),
        items=[f"i{n}" for n in range(items)], raters=[f"r{n}" for n in range(raters)],
    )  # fmt: skip


@pytest.mark.parametrize(("raters", "votes"), [(3, 60), (9, 30), (10, 50), (40, 12)])
def test_of_coins_no_more_than_the_level_pass_for_a_panel(raters: int, votes: int) -> None:
    runs = 150
    passed = np.mean(
        [
            panel_p(panel(seed, items=6, raters=raters, votes=votes, spread=0)) <= LEVEL
            for seed in range(runs)
        ]
    )
    # Three standard errors of 150 runs.
    assert passed <= LEVEL + 3 * np.sqrt(LEVEL * (1 - LEVEL) / runs)


@pytest.mark.parametrize(("raters", "votes"), [(3, 200), (10, 50), (40, 20)])
def test_a_panel_that_agrees_is_not_warned_of(raters: int, votes: int) -> None:
    warned = [
        panel_p(panel(seed, items=6, raters=raters, votes=votes, spread=1)) > LEVEL
        for seed in range(60)
    ]
    assert np.mean(warned) <= LEVEL


def test_close_items_are_enough_when_there_are_answers_enough() -> None:
    found = [
        panel_p(panel(seed, items=6, raters=20, votes=400, spread=0.2)) > LEVEL
        for seed in range(40)
    ]
    assert np.mean(found) <= LEVEL


def test_two_camps_do_not_agree() -> None:
    data = panel(1, items=6, raters=20, votes=60, spread=1.5, turned=10)
    assert panel_p(data) > LEVEL


def test_a_ranking_by_one_rater_is_no_agreement() -> None:
    """However clear: there is nobody to hold it against."""
    data = panel(1, items=6, raters=1, votes=200, spread=2)
    report = rater_report(fit(data))
    assert np.isnan(report.p_coins)
    assert "no two raters answered about the same items" in report.warnings[0]


def test_weights_and_halves_of_ties_do_not_make_agreement() -> None:
    rng = np.random.default_rng(0)
    passed = 0
    for _ in range(100):
        n = 160
        who, one = np.repeat(np.arange(16), n // 16), rng.integers(0, 4, n)
        other = (one + rng.integers(1, 4, n)) % 4
        weight = rng.choice([0.5, 1.0, 6.0], n)
        passed += panel_p(Comparisons.from_arrays(who, one, other, weight)) <= LEVEL
    assert passed <= 12


def contradicting(*sides: tuple[int, int], items: str = "abcdefghij") -> Comparisons:
    """Raters p0, p1, … with every pair in order, and q0, q1, … in reverse, as often as told."""
    pairs = list(combinations(items, 2))
    return Comparisons.from_records(
        [
            (f"{name}{n}", *(pair if name == "p" else pair[::-1]), 1.0)
            for n, (for_it, against) in enumerate(sides)
            for name, times in (("p", for_it), ("q", against))
            for pair in pairs * times
        ]
    )


@pytest.mark.parametrize("sides", [[(1, 1)], [(3, 3)], [(1, 1), (1, 1)], [(3, 2)]])
def test_where_nothing_tells_who_is_right_no_rater_is_excluded(
    sides: list[tuple[int, int]],
) -> None:
    found = fit(contradicting(*sides))
    report = rater_report(found)
    assert {row.verdict for row in report} == {"watch"}
    for row in report:
        assert any(text.startswith("not excluded: ") for text in row.reasons), row.reasons
        assert not any(text.startswith("inverted") for text in row.reasons)
    assert any("it is not known who is right" in text for text in report.warnings)


def test_two_who_contradict_each_other_are_not_excluded_for_the_side_of_their_items() -> None:
    """Every pair is shown with the same item on the left: who follows that order presses left."""
    answers = [
        Comparison(f"{rater}{a}{b}", rater, a, b, says)  # type: ignore[arg-type]
        for a, b in combinations("abcdefghij", 2)
        for rater, says in (("p", "left"), ("q", "right"))
    ]
    report = rater_report(fit(Comparisons.from_comparisons(answers)))
    assert {row.verdict for row in report} == {"watch"}


@pytest.mark.parametrize("sides", [[(1, 1)], [(3, 3)], [(1, 1), (1, 1)]])
def test_of_raters_who_contradict_each_other_no_item_is_first(sides: list[tuple[int, int]]) -> None:
    """Either ranking explains the answers, with the other raters as guessers: none is taken."""
    found = fit(contradicting(*sides))
    assert any("all count equally" in text for text in found.warnings)
    board = leaderboard(found)
    assert np.ptp([row.rating for row in board]) < 1
    assert {(row.rank_best, row.rank_worst, row.tier) for row in board} == {(1, 10, 1)}
    assert max(row.p_best for row in board) < 0.2
    by_name = {row.item: row for row in board}
    assert by_name["a"].p_best == pytest.approx(by_name["j"].p_best, abs=0.03)


@pytest.mark.parametrize("sides", [[(2, 2), (2, 0)], [(2, 2), (2, 0), (2, 0)]])
def test_one_against_two_who_agree_is_excluded(sides: list[tuple[int, int]]) -> None:
    found = fit(contradicting(*sides))
    assert not any("all count equally" in text for text in found.warnings)
    report = rater_report(found)
    assert report.excluded == ("q0",)
    assert "only without those who are excluded" in report.warnings[0]


@pytest.mark.parametrize(("honest", "turned"), [(1, 1), (2, 2)])
def test_of_small_panels_no_honest_rater_is_excluded(honest: int, turned: int) -> None:
    out = 0
    for seed in range(12):
        data = panel(
            seed, items=8, raters=honest + turned, votes=100, spread=1.5, turned=turned
        )  # fmt: skip
        out += len(rater_report(fit(data)).excluded)
    assert out == 0


@pytest.mark.parametrize(("items", "raters"), [(2, 6), (2, 12), (3, 12)])
def test_where_every_answer_is_a_tie_nobody_is_watched(items: int, raters: int) -> None:
    rows = [
        Comparison(f"{r}-{n}", f"r{r}", f"i{n % items}", f"i{(n + 1) % items}", "tie")
        for r in range(raters)
        for n in range(20)
    ]
    report = rater_report(fit(Comparisons.from_comparisons(rows)))
    assert {row.verdict for row in report} == {"keep"}
    assert np.isnan(report.p_coins)
    (warning,) = report.warnings
    assert warning.startswith("every answer is a tie")


@pytest.mark.parametrize("follows", [True, False])
def test_a_ranking_that_hangs_on_one_busy_rater_is_warned_of(follows: bool) -> None:
    """One who always answers by a ranking of their own, and has a fifth of all answers."""
    rng = np.random.default_rng(1)
    theta = rng.normal(0, 1, 8)
    who = np.concatenate((np.repeat(np.arange(39), 100), np.full(1000, 39)))
    one = rng.integers(0, 8, who.size)
    other = (one + rng.integers(1, 8, who.size)) % 8
    p = 0.5 + 0.8 * (1 / (1 + np.exp(theta[other] - theta[one])) - 0.5)
    won = rng.random(who.size) < p
    won = np.where(who == 39, (theta[one] > theta[other]) if follows else one > other, won)
    data = Comparisons.from_arrays(
        who, np.where(won, one, other), np.where(won, other, one),
        items=[str(i) for i in range(8)], raters=[f"r{r}" for r in range(40)],
    )  # fmt: skip
    report = rater_report(fit(data))
    told = [text for text in report.warnings if "hangs on r39, who gave 20%" in text]
    assert len(told) == (0 if follows else 1)
    assert "exclude" not in {row.verdict for row in list(report)[:39]}
