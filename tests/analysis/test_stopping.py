from __future__ import annotations

from dataclasses import replace
from math import comb, inf
from typing import Any

import numpy as np
import pytest
from scipy.special import betaln

import bbq_plugin as bbq
from bbq_plugin.analysis.stopping import (
    MIXTURE,
    Forecast,
    Milestone,
    Stopping,
    _log_mixture,
    _Met,
    log_e_value,
    milestones,
    score_interval,
    significant_pairs,
    stopping,
)
from bbq_plugin.analysis.uncertainty import uncertainty
from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.data.records import Comparison
from bbq_plugin.errors import UsageError
from bbq_plugin.report.summary import stopping_lines


def votes(a: float, b: float, *more: tuple[str, str, float]) -> bbq.Fit:
    """Whole votes of weight 1, and one of what is left over."""
    records: list[tuple[str, str, str, float]] = []
    for winner, loser, n in (("a", "b", a), ("b", "a", b), *more):
        records += [("ann", winner, loser, 1.0)] * int(n)
        records += [("ann", winner, loser, n - int(n))] * bool(n > int(n))
    return bbq.fit(Comparisons.from_records(records), model="bayes-bt")


def weighed(a: float, b: float) -> bbq.Fit:
    """The same to a fit, and faster: two rows."""
    rows = [("ann", "a", "b", a), ("ann", "b", "a", b)]
    return bbq.fit(Comparisons.from_records(rows), model="bayes-bt")


# -- the rule that holds at all times


@pytest.mark.parametrize("n", [1, 2, 7, 40, 301])
def test_the_stake_of_a_fair_game_has_mean_1(n: int) -> None:
    won = np.arange(n + 1.0, dtype=np.float64)
    chance = np.array([comb(n, int(w)) / 2**n for w in won])
    assert chance @ np.exp(log_e_value(won, n - won)) == pytest.approx(1, rel=1e-9)


def test_from_one_vote_to_the_next_a_fair_game_stays_fair() -> None:
    won, lost = np.meshgrid(np.arange(30.0, dtype=np.float64), np.arange(30.0, dtype=np.float64))
    now = np.exp(log_e_value(won, lost))
    later = 0.5 * (np.exp(log_e_value(won + 1, lost)) + np.exp(log_e_value(won, lost + 1)))
    assert later == pytest.approx(now, rel=1e-10)


@pytest.mark.parametrize("weight", [0.1, 0.5, 0.778])
def test_ties_and_weights_below_one_can_only_lower_the_stake(weight: float) -> None:
    won, lost = np.meshgrid(np.arange(60.0, dtype=np.float64), np.arange(60.0, dtype=np.float64))
    now = log_e_value(won, lost)
    assert np.all(log_e_value(won + weight / 2, lost + weight / 2) <= now + 1e-12)
    up, down = log_e_value(won + weight, lost), log_e_value(won, lost + weight)
    assert np.all(np.logaddexp(up, down) - np.log(2) <= now + 1e-12)


def test_equal_items_are_significant_pairs_at_most_as_often_as_promised() -> None:
    """A look after every one of 2,000 votes; the exact probability by recursion over the counts."""
    enough, alive, crossed = np.log(20), np.array([1.0]), 0.0
    for n in range(1, 2001):
        alive = 0.5 * (np.append(alive, 0) + np.append(0, alive))
        out = (
            log_e_value(
                np.arange(n + 1.0, dtype=np.float64), n - np.arange(n + 1.0, dtype=np.float64)
            )
            >= enough
        )
        crossed += alive[out].sum()
        alive[out] = 0
    assert 0.02 < crossed < 0.05


def test_the_interval_and_the_evidence_agree() -> None:
    won = np.array([30.0, 31.0, 10.0, 500.0, 0.0, 900.5])
    lost = np.array([10.0, 9.0, 10.0, 400.0, 40.0, 899.5])
    half = np.full(won.size, 0.5)
    # At one half the integral has the closed form of the stake.
    assert _log_mixture(won, won + lost, half) == pytest.approx(log_e_value(won, lost), abs=1e-9)
    lower, upper = score_interval(won, lost)
    outside = (lower > 0.5) | (upper < 0.5)
    assert outside.tolist() == (log_e_value(won, lost) >= np.log(20)).tolist()
    assert outside.any()
    assert not outside.all()
    assert np.all((lower <= won / (won + lost)) & (won / (won + lost) <= upper))


def test_the_interval_holds_for_raters_of_any_kind_at_all_times() -> None:
    """Chances that change from vote to vote; of 200 runs at most 5% may ever miss their mean."""
    rng, runs, n = np.random.default_rng(8), 200, 600
    p = rng.choice([0.5, 0.62, 0.8, 0.35], (runs, n), p=[0.3, 0.3, 0.3, 0.1])
    won = np.cumsum(rng.random((runs, n)) < p, axis=1, dtype=np.float64)[:, 39::40]
    count = np.arange(1.0, n + 1, dtype=np.float64)[39::40]
    truth = (np.cumsum(p, axis=1) / np.arange(1, n + 1))[:, 39::40]
    lower, upper = score_interval(won.ravel(), (count - won).ravel())
    missed = ((truth.ravel() < lower) | (truth.ravel() > upper)).reshape(won.shape).any(axis=1)
    assert missed.mean() <= 0.05


def test_without_votes_nothing_is_known() -> None:
    lower, upper = score_interval(np.array([0.0]), np.array([0.0]))
    assert (lower[0], upper[0]) == (pytest.approx(0, abs=1e-9), pytest.approx(1, abs=1e-9))
    with pytest.raises(UsageError, match="level"):
        score_interval(np.array([1.0]), np.array([1.0]), 95)


def test_an_item_is_the_best_for_good_only_against_every_other_one() -> None:
    far = ("a", "c", 60.0), ("c", "a", 5.0)
    settled = stopping(fit := votes(80, 20, *far), bbq.leaderboard(fit))
    assert (settled.best, settled.settled, settled.compared) == ("a", 2, 2)
    # b and c never met, which the claim does not need; that a and d did not is another matter.
    gap = stopping(fit := votes(80, 20, *far, ("b", "d", 50.0)), bbq.leaderboard(fit))
    assert gap.best is None
    close = stopping(fit := votes(55, 45), bbq.leaderboard(fit))
    assert close.best is None


def test_the_claim_of_a_best_item_pays_for_the_number_of_items() -> None:
    won = np.arange(51.0, 100, dtype=np.float64)
    enough = float(won[log_e_value(won, 100 - won) >= np.log(20)][0])
    two = stopping(fit := votes(enough, 100 - enough), bbq.leaderboard(fit))
    assert two.best == "a"
    far = (("a", "c", 90.0), ("c", "a", 5.0))
    three = stopping(fit := votes(enough, 100 - enough, *far), bbq.leaderboard(fit))
    assert three.settled == 2
    assert three.best is None


def test_what_is_written_down_is_what_was_voted() -> None:
    stop = stopping(fit := votes(60.5, 39.5), bbq.leaderboard(fit))
    pair = stop.pairs[0]
    assert (pair.item, pair.other, pair.n) == ("a", "b", 100)
    assert pair.score == pytest.approx(0.605)
    expected = 100 * np.log(2) + betaln(60.5 + MIXTURE, 39.5 + MIXTURE) - betaln(MIXTURE, MIXTURE)
    assert pair.e_value == pytest.approx(np.exp(expected))
    assert stop.as_dict()["level"] == 0.95


def test_one_heavy_answer_settles_nothing() -> None:
    rows = [("ann", "x", "y", 50.0), ("bob", "y", "z", 1.0), ("bob", "x", "z", 1.0)]
    fit = bbq.fit(Comparisons.from_records(rows))
    stop = stopping(fit, bbq.leaderboard(fit))
    assert (stop.settled, stop.best) == (0, None)
    assert {pair.n for pair in stop.pairs} == {1.0}


def test_a_heavy_tie_is_one_tie() -> None:
    answers = [Comparison(str(i), "ann", "x", "y", "left") for i in range(10)]
    answers.append(Comparison("t", "ann", "x", "y", "tie", weight=8.0))
    fit = bbq.fit(Comparisons.from_comparisons(answers))
    (pair,) = stopping(fit, bbq.leaderboard(fit)).pairs
    assert pair.n == 11
    assert pair.score == pytest.approx(10.5 / 11)


# -- the forecast


def test_with_too_many_items_it_is_said_that_there_is_no_forecast() -> None:
    study = bbq.simulate(items=61, raters=5, comparisons=600, seed=1)
    fit = bbq.fit(study.arrays())
    stop = stopping(fit, bbq.leaderboard(fit))
    assert stop.as_dict()["no_forecast"] == (
        "no forecast is made for more than 60 items, and these are 61"
    )
    assert "no forecast" in stopping_lines(stop)[0]


def test_a_forecast_reads_as_a_sentence() -> None:
    row = Milestone("best", None, 0.5, False, inf, inf, 1200.0, inf)
    fit = votes(6, 4)
    ahead = Forecast(fit, bbq.leaderboard(fit))
    # As if computed.
    vars(ahead)["milestones"] = (row, replace(row, more=4000.0))
    stop = Stopping(0.95, None, ahead, 1, 0, None, (), inf)
    _, first, second, _ = stopping_lines(stop)
    chosen = "1,200 with pairs chosen by bbq"
    assert first == f"  the best item: out of reach at the current mix of pairs, {chosen}"
    assert second == f"  the best item: 4,000 at the current mix of pairs, {chosen}"


def test_what_is_known_needs_nothing_more() -> None:
    fit = votes(90, 10)
    (best,) = milestones(fit, uncertainty(fit), 0.95, 3)
    assert best.known
    assert (best.more, best.chosen) == (0, 0)


def test_the_questions_are_those_that_differ() -> None:
    study = bbq.simulate(items=4, raters=6, comparisons=60, spread=0.3, seed=1)
    fit = bbq.fit(study.arrays())
    for top_k, asked in ((3, ["best", "top-k", "neighbours"]), (1, ["best", "neighbours"])):
        found = milestones(fit, uncertainty(fit), 0.95, top_k)
        assert [row.question for row in found] == asked
    assert [row.question for row in milestones(fit, uncertainty(fit), 0.95, 4)] == asked


def test_more_certainty_takes_more_and_choosing_takes_less() -> None:
    study = bbq.simulate(items=10, raters=20, comparisons=600, spread=0.8, seed=3)
    fit = bbq.fit(study.arrays(), priors="paper")
    best, top, neighbours = milestones(fit, uncertainty(fit), 0.95, 3)
    for row in (best, top):
        assert 0 < row.more <= row.more_80
        assert 0 < row.chosen <= row.chosen_80
        assert row.chosen < row.more
    assert neighbours.more >= top.more
    (sure, *_) = milestones(fit, uncertainty(fit), 0.99, 3)
    assert sure.more > best.more


def test_a_close_race_takes_long() -> None:
    (close,), (clear,) = (
        milestones(fit, uncertainty(fit), 0.95, None) for fit in (votes(505, 495), votes(520, 480))
    )
    assert close.more > 3 * clear.more
    assert close.more > 1000


def test_half_of_the_futures_are_settled_after_as_many_votes_as_forecast() -> None:
    """Studies drawn from the posterior itself: two items, the gap and the votes after it."""
    fit = votes(33, 27)
    (best,) = milestones(fit, uncertainty(fit), 0.95, None)
    rng, runs = np.random.default_rng(5), 150
    gap = rng.normal(
        fit.laplace.mean[0] - fit.laplace.mean[1],
        np.sqrt(np.array([1, -1]) @ fit.covariance() @ np.array([1, -1])),
        runs,
    )
    known = np.zeros(runs, dtype=bool)
    looks = np.unique(np.round(np.geomspace(5, best.more, 12)).astype(int))
    won = np.zeros(runs)
    for before, after in zip([0, *looks[:-1]], looks, strict=True):
        won += rng.binomial(after - before, 1 / (1 + np.exp(-gap)))
        for run in np.flatnonzero(~known):
            later = weighed(33 + won[run], 27 + after - won[run])
            d = later.laplace.mean[0] - later.laplace.mean[1]
            v = np.array([1, -1]) @ later.covariance() @ np.array([1, -1])
            known[run] = abs(d) / np.sqrt(v) >= 1.645
    # Three standard errors: of 150 runs here and of 150 paths there.
    assert known.mean() == pytest.approx(0.5, abs=0.17)


def test_settled_pairs_are_those_of_e_bh_among_all_pairs_of_items() -> None:
    """Ten items, 45 pairs: e must be 45 / (k * 0.05) for the k largest."""

    def met(*e: float) -> Any:
        n = len(e)
        return _Met(np.arange(n), np.arange(n), np.ones(n), np.ones(n), np.log(e), 10)

    assert met(899.0, 21.0, 1.0).enough(0.95) == inf
    assert met(901.0, 21.0, 1.0).enough(0.95) == pytest.approx(np.log(900))
    # Two of 451 each are enough together, though neither is alone.
    assert met(451.0, 451.0, 20.0).enough(0.95) == pytest.approx(np.log(450))
    assert met(449.0, 800.0, 20.0).enough(0.95) == inf


def test_a_pair_that_one_lucky_gambler_of_many_would_settle_is_not() -> None:
    """Evidence of 20 is enough for the only pair, and not for one of many."""
    won, lost = 29, 9
    assert 20 < np.exp(log_e_value(np.array(won), np.array(lost))) < 60
    fit = votes(won, lost)
    assert stopping(fit, bbq.leaderboard(fit)).settled == 1
    others = [(f"x{i}", f"x{i + 1}", 1.0) for i in range(6)]
    fit = votes(won, lost, *others)
    stop = stopping(fit, bbq.leaderboard(fit))
    assert stop.settled == 0
    assert not any(pair.settled for pair in stop.pairs)
    assert significant_pairs(fit, fit.items, 0.95) == frozenset()
