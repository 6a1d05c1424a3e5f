"""Taste is no guessing: who is not excluded although the ranking does not explain the answers."""

from __future__ import annotations

import numpy as np
import pytest

import bbq_plugin as bbq
from tests.model.test_camps import ITEMS, panel


def with_loners(seed: int, *, coins: bool, votes: int = 150) -> bbq.Comparisons:
    """A panel of one taste, and four raters more, each with another taste, or with none."""
    data, _ = panel(seed, votes=votes, raters=30)
    rng = np.random.default_rng(seed + 1000)
    theta = np.array([rng.permutation(np.linspace(-3, 3, 8)) for _ in range(4)])
    theta = np.zeros((4, 8)) if coins else theta
    who = np.repeat(np.arange(4), votes)
    a = rng.integers(0, 8, who.size)
    b = (a + rng.integers(1, 8, who.size)) % 8
    won = rng.random(who.size) < 1 / (1 + np.exp(theta[who, b] - theta[who, a]))
    return bbq.Comparisons.from_arrays(
        np.append(data.rater, who + 30),
        np.append(data.winner, np.where(won, a, b)), np.append(data.loser, np.where(won, b, a)),
        items=ITEMS, raters=[*data.raters, *(f"loner{n}" for n in range(4))],
    )  # fmt: skip


def test_raters_with_rankings_of_their_own_are_watched_and_coins_are_excluded() -> None:
    found = []
    for coins in (False, True):
        report = bbq.rater_report(bbq.fit(with_loners(1, coins=coins), priors="auto", camps=1))
        loners = list(report)[30:]
        told = ["ranking of its own" in " ".join(row.reasons) for row in loners]
        found.append((len(report.excluded), sum(told), sum(row.p_bad > 0.9 for row in loners)))
    (gone, own, bad), (coins_gone, coins_own, _) = found
    assert (gone, own) == (0, bad)
    assert bad >= 3
    assert coins_gone >= 3
    assert coins_own == 0


@pytest.mark.parametrize("coins", [False, True])
def test_tastes_that_no_other_rater_shares_are_hardly_ever_taken_for_guessing(
    coins: bool,
) -> None:
    """Five raters in 40, each with a ranking of their own, and 100 answers: not very clear."""
    gone = 0
    for seed in range(6):
        rng = np.random.default_rng([2, seed])
        theta = np.tile(rng.normal(0, 0.9, 8), (40, 1))
        theta[:5] = rng.normal(0, 0.0 if coins else 0.9, (5, 8))
        who, quality = np.repeat(np.arange(40), 100), rng.beta(10, 2, 40)
        a = rng.integers(0, 8, who.size)
        b = (a + rng.integers(1, 8, who.size)) % 8
        gap = theta[who, a] - theta[who, b]
        won = rng.random(who.size) < 0.5 + quality[who] * 0.5 * np.tanh(0.5 * gap)
        data = bbq.Comparisons.from_arrays(
            who, np.where(won, a, b), np.where(won, b, a),
            items=ITEMS, raters=[f"r{r:02}" for r in range(40)],
        )  # fmt: skip
        gone += sum(row.verdict == "exclude" for row in list(bbq.rater_report(bbq.fit(data)))[:5])
    assert gone >= 15 if coins else gone <= 7


def test_a_single_inverted_rater_has_no_ranking_of_its_own() -> None:
    data, _ = panel(3, minority=0.03, raters=30, votes=150, reverse=True)
    fit = bbq.fit(data, priors="auto")
    first = bbq.rater_report(fit)[0]
    assert len(fit.camps) == 1
    assert first.verdict == "exclude"
    assert first.p_inverted > 0.9


def test_in_a_divided_panel_coins_are_excluded_and_no_rater_of_a_camp() -> None:
    data, other = panel(1, minority=0.4, guessers=0.1, votes=150)
    fit = bbq.fit(data, priors="auto")
    report = bbq.rater_report(fit)
    assert len(fit.camps) == 2
    guessers = [row for row in report if int(row.rater[1:]) >= 36]
    assert set(report.excluded) <= {row.rater for row in guessers}
    assert len(report.excluded) >= 2
    spared = [row for row in guessers if row.verdict != "exclude"]
    assert all("may be between the camps" in " ".join(row.reasons) for row in spared)
    kept = [row.verdict for row, of_other in zip(report, other, strict=True) if of_other]
    assert kept == ["keep"] * 16


def test_a_minority_too_weak_to_be_a_camp_is_watched_and_not_excluded() -> None:
    data, other = panel(141, minority=0.15, guessers=0.1, votes=70)
    fit = bbq.fit(data)
    assert len(fit.camps) == 1, "the criterion finds too little for a camp"
    report = bbq.rater_report(fit)
    minority = [row for row, mine in zip(report, other, strict=True) if mine]
    assert sum(row.p_bad > 0.9 for row in minority) >= 3
    assert "exclude" not in {row.verdict for row in minority}
    assert any("agree with each other beyond" in text for text in report.warnings)


def test_inverted_raters_who_are_many_are_a_group_also_where_no_camp_is_found() -> None:
    data, other = panel(46, minority=0.15, votes=80, reverse=True)
    fit = bbq.fit(data)
    assert len(fit.camps) == 1
    report = bbq.rater_report(fit)
    assert {row.verdict for row, mine in zip(report, other, strict=True) if mine} == {"watch"}
    assert any("6 raters follow the reverse" in text for text in report.warnings)


def test_what_speaks_for_swapped_keys_is_said_of_a_group_in_reverse() -> None:
    data, other = panel(2, minority=0.2, reverse=True)
    rows = [
        bbq.Comparison(
            str(n), data.raters[r], data.items[w], data.items[x], "left", at=float(n % 2000),
            tags={"project": "new" if other[r] else "old"},
        )
        for n, (r, w, x) in enumerate(
            zip(data.rater.tolist(), data.winner.tolist(), data.loser.tolist(), strict=True)
        )
    ]  # fmt: skip
    (text,) = bbq.rater_report(bbq.fit(bbq.Comparisons.from_comparisons(rows))).warnings
    assert "100% of its answers have the same value of 'project', where 0% of the others'" in text
    assert "which indicates a fault there" in text
    assert "indicates a fault at one time" in text or "indicates no fault at one time" in text


def test_a_small_group_in_reverse_is_watched_and_single_guessers_are_still_excluded() -> None:
    data, other = panel(2, minority=0.15, guessers=0.1, votes=150, reverse=True)
    report = bbq.rater_report(bbq.fit(data, priors="auto"))
    assert [row.verdict for row, of_group in zip(report, other, strict=True) if of_group] == [
        "watch"
    ] * 6
    assert set(report.excluded) <= {"r36", "r37", "r38", "r39"}
    assert len(report.excluded) >= 3, "a guesser may look like one of the group"


def test_quality_in_a_divided_panel_is_not_below_zero() -> None:
    study = bbq.simulate(
        raters=50, comparisons=7500, minority=0.4, guessers=0.15, spread=1.2, seed=11
    )  # fmt: skip
    found = bbq.fit(study.arrays())
    assert len(found.camps) == 2
    report = bbq.rater_report(found)
    assert report.excluded
    for row in report:
        assert 0 <= row.quality_lower <= row.quality <= row.quality_upper <= 1


def test_what_changes_without_the_excluded_is_told_of_the_board_of_a_divided_panel() -> None:
    """Its best item is that of the win share, here not that of the mean rating."""
    study = bbq.simulate(raters=50, comparisons=5000, minority=0.4, guessers=0.15, spread=1, seed=3)
    found = bbq.fit(study.arrays())
    best = bbq.leaderboard(found)[0].item
    assert len(found.camps) == 2
    assert best != found.items[int(found.theta.argmax())]
    report = bbq.rater_report(found)
    assert report.without_excluded is not None
    assert report.without_excluded.best_with == best
    assert report.without_excluded.moved == 0, "coins change no rank"


def answering(seed: int, rule: str) -> bbq.Comparisons:
    """Six raters in 40 who prefer what comes first in the alphabet, or who copy one another."""
    rng = np.random.default_rng([3, seed])
    theta = np.tile(rng.normal(0, 0.9, 8), (40, 1))
    quality = rng.beta(10, 2, 40)
    who = np.repeat(np.arange(40), 100)
    a = rng.integers(0, 8, who.size)
    b = (a + rng.integers(1, 8, who.size)) % 8
    if rule == "alphabet":
        theta[:6], quality[:6] = -9.0 * np.arange(8), 1.0
    gap = theta[who, a] - theta[who, b]
    won = rng.random(who.size) < 0.5 + quality[who] * 0.5 * np.tanh(0.5 * gap)
    if rule == "copies":
        for column in (a, b, won):
            column[:600] = np.tile(column[:100], 6)
    return bbq.Comparisons.from_arrays(
        who, np.where(won, a, b), np.where(won, b, a),
        items=ITEMS, raters=[f"r{r:02}" for r in range(40)],
    )  # fmt: skip


def test_a_camp_that_ranks_by_the_alphabet_is_told_so() -> None:
    warnings = bbq.rater_report(bbq.fit(answering(0, "alphabet"))).warnings
    assert any("camp 2 (6 raters) ranks the items by the alphabet" in text for text in warnings)
    assert not any("gave equal answers" in text for text in warnings)


def test_raters_with_equal_answers_are_named_together() -> None:
    warnings = bbq.rater_report(bbq.fit(answering(0, "copies"))).warnings
    told = "r00, r01, r02, r03, r04, r05 gave equal answers to 100 comparisons"
    assert any(told in text for text in warnings)
    assert not any("alphabet" in text for text in warnings)


def test_of_two_items_who_prefers_the_other_one_is_not_excluded() -> None:
    rng = np.random.default_rng(8)
    theta = rng.normal(1.5, 1.5, 40)  # how much each of them prefers a, honestly
    who = np.repeat(np.arange(40), 20)
    won = rng.random(who.size) < 1 / (1 + np.exp(-theta[who]))
    data = bbq.Comparisons.from_arrays(
        who, np.where(won, 0, 1), np.where(won, 1, 0),
        items=["a", "b"], raters=[f"r{r:02}" for r in range(40)],
    )  # fmt: skip
    report = bbq.rater_report(bbq.fit(data))
    assert any(row.p_bad > 0.9 for row in report)
    assert not report.excluded
