"""The camps of a divided panel: their leaderboards, and what a fit of them can be asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bbq_plugin as bbq
from bbq_plugin.analysis import Analysis, Limits
from bbq_plugin.analysis.agreement import panel_division
from bbq_plugin.analysis.uncertainty import Intervals
from bbq_plugin.config import MOST_CAMPS
from bbq_plugin.data.triples import Floats
from bbq_plugin.errors import UnsupportedError, UsageError
from bbq_plugin.model import camps, win_share
from bbq_plugin.model.camps import Mixture
from bbq_plugin.model.fit import TOGETHER, Fit
from bbq_plugin.model.prior_estimation import CENTRE, priors_of
from tests.model.test_camps import panel


@pytest.fixture(scope="module")
def divided() -> Fit:
    """Two camps of 24 and 16 raters."""
    return bbq.fit(panel(3, minority=0.4)[0], priors="auto")


@pytest.fixture(scope="module")
def one_taste() -> Fit:
    return bbq.fit(panel(3)[0], priors="auto")


def test_a_camp_has_a_leaderboard_by_its_own_ranking(divided: Fit) -> None:
    first, second = (bbq.leaderboard(divided, camp=camp) for camp in (1, 2))
    for board, camp in zip((first, second), divided.camps, strict=True):
        order = [divided.items[i] for i in np.argsort(-camp.theta)]
        assert [row.item for row in board] == order
        assert board.intervals == "robust"
        assert board.ordered_by == "rating"
    assert (first.camp, second.camp) == (1, 2)
    assert [row.item for row in first] != [row.item for row in second]


def test_the_answers_of_all_camps_are_all_answers(divided: Fit) -> None:
    whole = {row.item: row for row in bbq.leaderboard(divided)}
    boards = [bbq.leaderboard(divided, camp=camp) for camp in (1, 2)]
    for item, row in whole.items():
        mine = [one for board in boards for one in board if one.item == item]
        assert sum(one.n for one in mine) == pytest.approx(row.n)
        assert sum(one.wins for one in mine) == pytest.approx(row.wins)


def test_the_panels_win_share_is_that_of_the_camps_by_their_share(divided: Fit) -> None:
    boards = [bbq.leaderboard(divided, camp=camp) for camp in (1, 2)]
    for row in bbq.leaderboard(divided):
        mine = [one.win_share for board in boards for one in board if one.item == row.item]
        expected = sum(c.share * share for c, share in zip(divided.camps, mine, strict=True))
        assert row.win_share == pytest.approx(expected, abs=1e-9)


def test_a_camps_intervals_are_its_block_of_the_covariance(divided: Fit) -> None:
    board = bbq.leaderboard(divided, camp=2)
    k = len(divided.items)
    population = divided.population
    assert population is not None
    mine = slice(k, 2 * k)
    slope = population.slope[mine]
    block = divided.robust.stacked[mine, mine] + slope @ population.covariance @ slope.T
    middle = np.eye(k) - 1 / k
    sd = dict(zip(divided.items, np.sqrt(np.diag(middle @ block @ middle)), strict=True))
    for row in board:
        assert row.theta_sd == pytest.approx(sd[row.item])
    own = {row.item: row.theta_sd for row in bbq.leaderboard(divided, "laplace", camp=2)}
    assert all(own[row.item] <= row.theta_sd * 1.0001 for row in board)


def test_the_win_share_of_a_camp_follows_theta_as_its_slope_says(divided: Fit) -> None:
    """The whole derivative: quality and membership of every rater follow theta."""
    triples, priors, camp = divided.data.triples, divided.given_priors(), 1
    share = np.array(divided.division.share if divided.division else [])

    def at(theta: Floats) -> Floats:
        mixture = Mixture(triples, priors, 2)
        told = [one.at(row, np.empty(0)) for one, row in zip(mixture.camps, theta, strict=True)]
        by = np.exp([one.summary[:, 3] for one in mixture.camps]).T * share
        belongs = (by / by.sum(axis=1, keepdims=True))[:, camp]
        level = belongs @ told[camp].quality / belongs.sum()
        return np.asarray(0.5 + level * win_share.standing(theta[camp]))

    stands = np.array([win_share.standing(theta) for theta in divided.camp_theta])
    stands[0] = 0.0
    slope = win_share._slope(divided, stands, win_share._members(divided, camp))
    nudges = 1e-4 * np.eye(16).reshape(16, 2, 8)
    here = divided.camp_theta
    numeric = np.array([(at(here + h) - at(here - h)) / 2e-4 for h in nudges]).T
    assert slope == pytest.approx(numeric, abs=1e-5)


def test_the_interval_of_a_camp_holds_the_truth_of_its_population() -> None:
    inside = total = 0
    theta = np.linspace(-1.5, 1.5, 8)
    gap = 1 / (1 + np.exp(theta[None, :] - theta[:, None])) - 0.5
    # Raters are of quality Beta(10, 2).
    truth = 0.5 + 10 / 12 * gap.sum(axis=1) / 7
    for seed in range(8):
        board = bbq.leaderboard(
            bbq.fit(panel(seed, minority=0.4)[0], priors="auto", camps=2), camp=1
        )
        for row in board:
            true = truth["abcdefgh".index(row.item)]
            inside += row.win_share_lower <= true <= row.win_share_upper
            total += 1
    assert inside / total > 0.85


def test_a_camp_that_does_not_exist_is_refused(divided: Fit, one_taste: Fit) -> None:
    with pytest.raises(UsageError, match="the camps 1 to 2"):
        bbq.leaderboard(divided, camp=3)
    with pytest.raises(UsageError, match="one camp, the whole panel"):
        bbq.leaderboard(one_taste, camp=0)
    assert [row.item for row in bbq.leaderboard(one_taste, camp=1)] == [
        row.item for row in bbq.leaderboard(one_taste)
    ]


def test_what_is_of_one_ranking_is_refused_of_several(divided: Fit) -> None:
    kinds: tuple[Intervals, ...] = ("posterior", "paper")
    for intervals in kinds:
        with pytest.raises(UnsupportedError, match="not defined for several camps; use"):
            bbq.leaderboard(divided, intervals)
    with pytest.raises(UnsupportedError, match="robust or laplace"):
        bbq.leaderboard(divided, "bootstrap", camp=1)


def test_two_items_of_a_divided_panel_are_compared_by_its_covariance(divided: Fit) -> None:
    found = bbq.compare(divided, "a", "b")
    covariance = divided.covariance()
    sd = np.sqrt(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])
    assert found.theta == pytest.approx(divided.theta[0] - divided.theta[1])
    assert found.theta_upper - found.theta == pytest.approx(1.96 * sd, rel=1e-3)


def test_an_analysis_computes_division_and_boards_once(divided: Fit, one_taste: Fit) -> None:
    found = Analysis(divided, Limits(intervals="bootstrap"))
    assert found.division is found.division
    assert found.camp_boards is found.camp_boards
    assert [board.camp for board in found.camp_boards] == [1, 2]
    assert Analysis(one_taste).camp_boards == ()
    assert not Analysis(one_taste).division.divided


def test_the_division_names_size_best_and_members(divided: Fit) -> None:
    found = panel_division(divided)
    assert [row.camp for row in found] == [1, 2]
    assert sum(row.n_raters for row in found) == 40
    assert sum(row.share for row in found) == pytest.approx(1)
    assert found[0].correlation == pytest.approx(1)
    assert found[1].correlation == pytest.approx(np.corrcoef(divided.camp_theta)[0, 1])
    for camp, row in enumerate(found):
        assert row.best == divided.items[int(divided.camp_theta[camp].argmax())]
        assert sum(one.camp == row.camp for one in found.member.values()) == row.n_raters
    assert found.member["r00"].camp == 2
    assert found.member["r00"].p == pytest.approx(divided.membership[0].max())
    taste = found.tastes[1]
    apart = divided.camp_theta[1] - divided.camp_theta[0]
    apart = dict(zip(divided.items, apart - apart.mean(), strict=True))
    assert min(apart[item] for item in taste.more) > max(apart[item] for item in taste.less)


def test_the_axis_has_every_item_and_rater_from_one_end_to_the_other(divided: Fit) -> None:
    axis = panel_division(divided).axis
    assert axis is not None
    assert {item for item, _ in axis.items} == set(divided.items)
    assert [at for _, at in axis.items] == sorted((at for _, at in axis.items), reverse=True)
    # The two camps stand at its two ends.
    member = panel_division(divided).member
    ends = [np.mean([at for name, at in axis.raters if member[name].camp == c]) for c in (1, 2)]
    assert abs(ends[0] - ends[1]) > 2
    # A rater at an end prefers what the axis says: the camps differ by it.
    apart = divided.camp_theta[1] - divided.camp_theta[0]
    along = np.array([dict(axis.items)[item] for item in divided.items])
    assert np.sign(ends[1] - ends[0]) * np.corrcoef(apart, along)[0, 1] > 0.8


def test_a_small_group_in_reverse_is_called_inverted_and_a_large_one_a_camp() -> None:
    small = panel_division(bbq.fit(panel(2, minority=0.2, reverse=True)[0], priors="auto"))
    assert [row.inverted for row in small] == [False, True]
    assert small.reverse_of(2) == 1
    large = panel_division(bbq.fit(panel(2, minority=0.4, reverse=True)[0], priors="auto"))
    assert [row.inverted for row in large] == [False, False]


@pytest.mark.parametrize(
    "records",
    [[("ann", "a", "b")] * 3, [(f"r{n}", "a", "b") for n in range(12)], [(None, "a", "b")] * 3],
)
def test_a_panel_that_cannot_be_divided_has_one_camp(records: Any) -> None:
    found = panel_division(bbq.fit(bbq.Comparisons.from_records(records)))
    assert len(found) == 1
    assert found[0].share == 1
    assert found.axis is None


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"camps": 2, "model": "bayes-bt"}, "camps=2 takes model='bbq', not model='bayes-bt'"),
        ({"camps": 2, "solver": "em", "priors": "paper"}, "camps=2 takes solver='auto'"),
        (
            {"solver": "em", "priors": priors_of(CENTRE)},
            "solver='em' takes given priors, not estimated priors",
        ),
        ({"solver": "em", "model": "crowd-bt"}, "use solver='auto'"),
        ({"camps": 7}, "a number from 1 to 6"),
        ({"camps": "two"}, "'auto' or a number"),
        ({"camps": True}, "'auto' or a number"),
    ],
)
def test_what_does_not_go_together_is_refused_with_what_to_do(asked: Any, says: str) -> None:
    data = panel(1, raters=8, votes=10)[0]
    with pytest.raises(UsageError, match=says):
        bbq.fit(data, **asked)


def test_several_camps_need_raters() -> None:
    with pytest.raises(
        UsageError, match="camps=2 needs raters, and these data have none; use camps=1"
    ):
        bbq.fit(bbq.Comparisons.from_records([(None, "a", "b")] * 9), camps=2)


def test_auto_takes_what_is_allowed() -> None:
    data = panel(3, minority=0.4)[0]
    assert len(bbq.fit(data, solver="em", priors="paper").camps) == 1
    assert len(bbq.fit(data, model="bayes-bt").camps) == 1


def test_every_rule_names_choices_that_exist() -> None:
    choices = {
        "model": {"bbq", "bbq-signed", "bayes-bt", "crowd-bt"}, "solver": {"auto", "em"},
        "priors": {"given", "estimated"}, "raters": {"known", "none"},
        "camps": {"auto", "1", "2 or more"},
    }  # fmt: skip
    for rule in TOGETHER:
        for name, allowed in rule.others.items():
            assert set(allowed) < choices[name]


def documented() -> str:
    """The rules as the documentation has them."""
    lines = ["| choice | takes | instead |", "|---|---|---|"]
    for rule in TOGETHER:
        takes = "; ".join(f"{name}: {' or '.join(one)}" for name, one in rule.others.items())
        lines.append(f"| `{rule.name}`: {rule.value} | {takes} | `{rule.instead}` |")
    return "\n".join(lines)


def test_the_documentation_has_the_table_of_what_goes_together() -> None:
    page = (Path(__file__).parents[2] / "docs" / "method.md").read_text(encoding="utf-8")
    shown = page.partition("<!-- together -->\n")[2].partition("<!-- /together -->")[0]
    assert shown.strip() == documented()


def test_settings_allow_as_many_camps_as_the_model() -> None:
    assert MOST_CAMPS == camps.MOST_CAMPS
