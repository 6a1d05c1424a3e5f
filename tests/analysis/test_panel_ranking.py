"""What the next answers are to decide: the preference of a divided panel, or one camp's ranking."""

from __future__ import annotations

import numpy as np
import pytest

import bbq_plugin as bbq
from bbq_plugin.analysis import Analysis, Limits
from bbq_plugin.analysis.next_pairs import panel_ranking
from bbq_plugin.errors import UsageError
from bbq_plugin.model.fit import Fit
from bbq_plugin.model.win_share import share_slope, standing, win_shares
from tests.model.test_camps import panel


@pytest.fixture(scope="module")
def divided() -> Fit:
    """Two camps of 24 and 16 raters."""
    return bbq.fit(panel(3, minority=0.4)[0], priors="auto")


def test_of_one_taste_it_is_the_ranking_itself() -> None:
    fit = bbq.fit(panel(3)[0], priors="auto")
    for camp in (None, 1):
        target = panel_ranking(fit, camp)
        assert np.array_equal(target.mean, fit.laplace.mean)
        assert np.array_equal(target.covariance, fit.covariance())


def test_of_a_divided_panel_it_has_the_panels_win_shares_and_their_covariance(divided: Fit) -> None:
    target, shares = panel_ranking(divided), win_shares(divided, 0.95)
    level = divided.moments.quality.sum(axis=1).mean()
    assert 0.5 + level * standing(target.mean) == pytest.approx(shares.share, abs=1e-9)
    slope = level * share_slope(target.mean)
    middle = np.eye(8) - 1 / 8
    assert shares.covariance is not None
    assert slope @ target.covariance @ slope.T == pytest.approx(
        middle @ shares.covariance @ middle, abs=1e-8
    )


def test_items_are_in_the_leaderboards_order(divided: Fit) -> None:
    target = panel_ranking(divided)
    order = [divided.items[i] for i in np.argsort(-target.mean)]
    assert order == [row.item for row in bbq.leaderboard(divided)]


def test_the_forecast_knows_the_best_as_well_as_the_leaderboard(divided: Fit) -> None:
    found = Analysis(divided)
    best = found.stopping.forecast.milestones[0]
    assert best.probability == pytest.approx(max(r.p_best for r in found.leaderboard), abs=0.05)
    for camp in (1, 2):
        of_camp = Analysis(divided, Limits(for_camp=camp)).stopping.forecast.milestones[0]
        board = found.camp_boards[camp - 1]
        assert of_camp.probability == pytest.approx(max(r.p_best for r in board), abs=0.05)


def test_pairs_of_a_camp_are_for_its_ranking(divided: Fit) -> None:
    for camp in (1, 2):
        theta = dict(zip(divided.items, divided.camp_theta[camp - 1], strict=True))
        found = bbq.next_pairs(divided, 10, camp=camp)
        assert found.camp == camp
        assert all(theta[row.item_a] >= theta[row.item_b] for row in found)
    shares = {row.item: row.win_share for row in bbq.leaderboard(divided)}
    whole = bbq.next_pairs(divided, 10)
    assert whole.camp is None
    assert all(shares[row.item_a] >= shares[row.item_b] for row in whole)


def test_pairs_of_a_camp_are_asked_of_its_raters_and_of_new_ones(divided: Fit) -> None:
    member = Analysis(divided).division.member
    mine = {name for name, one in member.items() if one.camp == 2}
    found = bbq.next_pairs(divided, 60, camp=2, raters=[*divided.raters, "new"], exclude=())
    assert {row.rater for row in found} <= mine | {"new"}
    assert "new" in {row.rater for row in found}
    assert any("another camp" in warning for warning in found.warnings)
    others = [name for name in divided.raters if name not in mine]
    with pytest.raises(UsageError, match="none of the raters named is of camp 2"):
        bbq.next_pairs(divided, 5, camp=2, raters=others, exclude=())


def test_the_closest_pair_of_the_panel_is_worth_most(divided: Fit) -> None:
    """Not the pair that is close in each camp: the panel's preference is what is asked for."""
    target = panel_ranking(divided)
    first = bbq.next_pairs(divided, 1)[0]
    i, j = (divided.items.index(name) for name in (first.item_a, first.item_b))
    c = target.covariance
    z = np.abs(target.mean[:, None] - target.mean) / np.sqrt(
        np.maximum(np.diag(c)[:, None] + np.diag(c) - 2 * c, 1e-12)
    )
    assert z[i, j] <= np.quantile(z[np.triu_indices(8, 1)], 0.5)


def test_a_camp_that_is_not_there_is_refused(divided: Fit) -> None:
    with pytest.raises(UsageError, match="the camps 1 to 2"):
        bbq.next_pairs(divided, 5, camp=3)
    with pytest.raises(UsageError, match="the camps 1 to 2"):
        _ = Analysis(divided, Limits(for_camp=3)).stopping
