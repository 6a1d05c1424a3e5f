"""What a reader of the leaderboard may rely on."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm, studentized_range

from bbq_plugin.analysis import leaderboard, uncertainty
from bbq_plugin.analysis.uncertainty import Uncertainty, gaussian
from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.errors import UsageError
from bbq_plugin.model import Priors, fit
from bbq_plugin.model.robust import t_factor
from tests.model.studies import draw_study

KINDS = ["robust", "laplace", "posterior", "bootstrap", "paper"]
FIELDS = [
    *("item", "rank", "rank_best", "rank_worst", "tier", "rating"),
    *("rating_lower", "rating_upper"),
    *("win_share", "win_share_lower", "win_share_upper"),
    *("theta", "theta_sd", "p_best", "n", "wins"),
]


@pytest.fixture(scope="module")
def study() -> Any:
    return draw_study(0, votes=60)


@pytest.fixture(scope="module")
def fitted(study: Any) -> Any:
    return fit(study.data)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_interval_gives_a_consistent_board(fitted: Any, kind: Any) -> None:
    board = leaderboard(fitted, kind, draws=1000)
    assert board.intervals == kind
    assert [row.rank for row in board] == list(range(1, 9))
    assert sum(row.p_best for row in board) == pytest.approx(1)
    assert np.mean([row.rating for row in board]) == pytest.approx(1000)
    for row in board:
        assert row.rating_lower <= row.rating <= row.rating_upper
        assert 1 <= row.rank_best <= row.rank <= row.rank_worst <= 8
        assert row.theta_sd > 0
    assert board.better + board.better.T == pytest.approx(np.ones((8, 8)))
    assert sum(row.wins for row in board) == pytest.approx(fitted.data.n_comparisons)
    assert sum(row.n for row in board) == pytest.approx(2 * fitted.data.n_comparisons)


def test_the_papers_intervals_are_narrower_and_say_so(fitted: Any) -> None:
    honest, paper = leaderboard(fitted), leaderboard(fitted, "paper")
    width = [a.rating_upper - a.rating_lower for a in honest]
    narrow = [a.rating_upper - a.rating_lower for a in paper]
    assert np.mean(narrow) < 0.8 * np.mean(width)
    assert any("too narrow" in warning for warning in paper.warnings)


def test_a_row_reads_as_attributes_as_a_mapping_and_as_a_dict(fitted: Any) -> None:
    row = leaderboard(fitted)[0]
    assert list(dict(row)) == FIELDS
    assert row["rating"] == row.rating == dict(row)["rating"]
    with pytest.raises(KeyError):
        row["score"]


def test_elo_is_173_points_a_nat(fitted: Any) -> None:
    elo, theta = leaderboard(fitted), leaderboard(fitted, scale="theta")
    paper = leaderboard(fitted, scale="paper")
    gap = theta[0].rating - theta[-1].rating
    assert elo[0].rating - elo[-1].rating == pytest.approx(gap * 400 / np.log(10))
    assert paper[0].rating - paper[-1].rating == pytest.approx(gap * 400)
    assert gap == pytest.approx(theta[0].theta - theta[-1].theta)


def test_a_wider_level_gives_wider_intervals_and_ranks(fitted: Any) -> None:
    narrow, wide = leaderboard(fitted, level=0.5), leaderboard(fitted, level=0.999)
    for a, b in zip(narrow, wide, strict=True):
        assert b.rating_lower < a.rating_lower <= a.rating_upper < b.rating_upper
        assert b.rank_best <= a.rank_best <= a.rank_worst <= b.rank_worst


def test_equal_items_share_all_ranks() -> None:
    rows = [("r", x, y, 0.5) for x in "abc" for y in "abc" if x != y]
    for row in leaderboard(fit(Comparisons.from_records(rows))):
        assert (row.rank_best, row.rank_worst) == (1, 3)
        assert row.p_best == pytest.approx(1 / 3, abs=0.05)


def test_an_item_far_ahead_is_first_beyond_doubt() -> None:
    rows = [("r", "a", x, 200.0) for x in "bcd"] + [("r", x, y, 5.0) for x in "bcd" for y in "bcd"
                                                    if x != y]  # fmt: skip
    board = leaderboard(fit(Comparisons.from_records(rows)))
    assert (board[0].item, board[0].rank_best, board[0].rank_worst) == ("a", 1, 1)
    assert board[0].p_best > 0.999
    assert board[1].rank_best == 2


def test_difference_intervals_hold_what_they_say(fitted: Any) -> None:
    known = uncertainty(fitted, "laplace")
    low, high = known.difference_interval(0, 1, 0.95)
    middle = known.mean[0] - known.mean[1]  # type: ignore[index] # laplace has a mean
    assert low < middle < high
    drawn = uncertainty(fitted, "posterior", draws=8000)
    assert drawn.difference_interval(0, 1, 0.95) == pytest.approx((low, high), abs=0.06)
    assert drawn.better() == pytest.approx(known.better(), abs=0.03)


def test_without_a_prior_only_differences_are_known() -> None:
    found = fit(draw_study(1, votes=100).data, model="bayes-bt", priors=Priors(a=1, b=0))
    for row in leaderboard(found):
        assert row.rating_upper - row.rating_lower < 250


def test_very_many_items_are_ranked_by_their_variances() -> None:
    chain = Comparisons.from_arrays(
        np.zeros(8998, int), np.tile(np.arange(4499), 2), np.tile(np.arange(1, 4500), 2)
    )
    for priors in ("paper", "auto"):
        board = leaderboard(fit(chain, model="bayes-bt", priors=priors), draws=64)
        # There is one rater: nothing to cluster by.
        assert board.intervals == "laplace"
        assert any("random directions" in warning for warning in board.warnings)
        assert len(board) == 4500


def test_few_raters_make_a_poor_bootstrap_and_it_says_so() -> None:
    rows = [("r", "a", "b", 3.0), ("s", "b", "a", 1.0)]
    board = leaderboard(fit(Comparisons.from_records(rows)), "bootstrap", draws=50)
    assert any("2 raters are few" in warning for warning in board.warnings)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"level": 95}, "level"),
        ({"scale": "glicko"}, "elo, paper, theta"),
        ({"intervals": "exact"}, "laplace, posterior"),
    ],
)
def test_wrong_options_name_the_right_ones(fitted: Any, options: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        leaderboard(fitted, **options)


# -- tiers


def test_the_largest_difference_of_equal_items_is_that_of_tukeys_test() -> None:
    for freedom in (inf, 8.0):
        known = gaussian("robust", np.zeros(10), np.eye(10), (), 10, 0, freedom)
        reach = studentized_range.ppf(0.95, 10, freedom) / np.sqrt(2)
        # 4,000 draws: the 95% quantile has a standard error of 0.015 to 0.04.
        found = known.largest_gap(0.95) * np.sqrt(t_factor(freedom))
        assert found == pytest.approx(reach, rel=0.04)


def test_of_many_items_the_bound_is_bonferronis() -> None:
    known = gaussian("robust", np.zeros(150), np.eye(150), (), 10, 0)
    assert known.largest_gap(0.95) == pytest.approx(norm.ppf(1 - 0.05 / (150 * 149)))


def test_each_item_of_a_tier_is_better_than_all_below_it() -> None:
    # Places 0-1 and 2-4 lie apart; 5 overlaps with 4 alone, so it belongs to their tier.
    mean = np.array([9.0, 8.5, 4.0, 3.5, 3.0, 1.0])
    known = gaussian("robust", mean, 0.4 * np.eye(6), (), 10, 0)
    assert known.tiers(np.arange(6), 0.95).tolist() == [1, 1, 2, 2, 2, 2]
    mixed = np.array([3, 0, 5, 1, 4, 2])
    shuffled = gaussian("robust", mean[mixed], 0.4 * np.eye(6), (), 10, 0)
    order = np.argsort(-mean[mixed])
    assert shuffled.tiers(order, 0.95).tolist() == [1, 1, 2, 2, 2, 2]


def test_draws_give_the_tiers_of_the_gaussian_that_they_come_from() -> None:
    mean = np.array([9.0, 8.5, 4.0, 3.5, 3.0, 1.0])
    known = gaussian("robust", mean, 0.1 * np.eye(6), (), 20_000, 0)
    drawn = Uncertainty("posterior", known.draws)
    order = np.arange(6)
    assert drawn.tiers(order, 0.95).tolist() == known.tiers(order, 0.95).tolist() != [1] * 6


def test_items_far_apart_have_tiers_and_a_single_item_has_one() -> None:
    rows = [("r" + str(r % 30), "abc"[i], "abc"[j], 1.0) for r in range(900)
            for i, j in [((0, 1), (1, 2), (0, 2))[r % 3]]]  # fmt: skip
    board = leaderboard(fit(Comparisons.from_records(rows)))
    assert [row.tier for row in board] == [1, 2, 3]
