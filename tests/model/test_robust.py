"""The covariance that allows for clusters of answers, and the panel's preference."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import t as student

import bbq_plugin as bbq
from bbq_plugin.data.clusters import clusters_of
from bbq_plugin.errors import UnsupportedError, UsageError
from bbq_plugin.model.fit import Fit, Model
from bbq_plugin.model.models import TIE_TO_ZERO
from bbq_plugin.model.objectives import Marginal
from bbq_plugin.model.robust import shrunk, sum_of_products, t_factor, t_quantile
from bbq_plugin.model.win_share import (
    _panel,
    _slope,
    large_win_shares,
    standing,
    win_shares,
)

Floats = NDArray[np.float64]
MODELS: tuple[Model, ...] = ("bbq", "bbq-signed", "bayes-bt", "crowd-bt")


def panel(
    seed: int = 0, items: int = 6, raters: int = 30, each: int = 40, taste: float = 0.0,
    scenes: int = 0, suits: float = 0.0, times: int = 1,
) -> bbq.Comparisons:  # fmt: skip
    """Raters with tastes of their own, scenes that suit one item more than another."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(0, 0.8, items) + taste * rng.standard_normal((raters, items))
    n = raters * each
    rater, first = np.repeat(np.arange(raters), each), rng.integers(items, size=n)
    second = (first + rng.integers(1, items, size=n)) % items
    scene = rng.integers(max(scenes, 1), size=n)
    here = suits * rng.standard_normal((max(scenes, 1), items))
    gap = theta[rater, first] - theta[rater, second] + here[scene, first] - here[scene, second]
    quality = rng.beta(8, 2, raters)[rater]
    won = rng.random(n) < 0.5 + quality * (1 / (1 + np.exp(-gap)) - 0.5)
    data = bbq.Comparisons.from_arrays(
        np.tile(rater, times), np.tile(np.where(won, first, second), times),
        np.tile(np.where(won, second, first), times),
    )  # fmt: skip
    return replace(data, tags={"scene": np.tile(scene, times).astype(np.int32)} if scenes else {})


def scores(fit: Fit, cluster: NDArray[np.int64]) -> Floats:
    """g_c of each cluster, row by row in plain NumPy."""
    data, t = fit.data, fit.data.triples
    push = {
        (int(r), int(w), int(lost)): p / weight
        for r, w, lost, p, weight in zip(
            t.rater(), t.winner, t.loser, fit.moments.push[0], t.weight, strict=True
        )
    }
    out = np.zeros((int(cluster.max()) + 1, len(fit.items)))
    for c, r, w, lost, weight in zip(
        cluster, data.rater, data.winner, data.loser, data.weight, strict=True
    ):
        part = weight * push[int(r), int(w), int(lost)]
        out[c, w] += part
        out[c, lost] -= part
    return out


def products(g: Floats) -> Floats:
    out: Floats = g.T @ g * len(g) / (len(g) - 1)
    return out


def gap_sd(covariance: Floats) -> float:
    k = len(covariance)
    spread = np.trace(covariance) - covariance.sum() / k
    return float(np.sqrt(2 * spread / (k - 1)))


@pytest.mark.parametrize("model", MODELS)
def test_the_scores_of_all_raters_and_of_the_prior_cancel_at_the_top(model: Model) -> None:
    found = bbq.fit(panel(), model=model)
    total = scores(found, found.data.rater.astype(np.int64)).sum(axis=0)
    if model == "crowd-bt":
        # The two comparisons with the virtual item of skill 0.
        assert total == pytest.approx(TIE_TO_ZERO * np.tanh(0.5 * found.theta), abs=1e-3)
        return
    priors = found.priors
    prior = priors.a - priors.b * np.exp(found.laplace.mean)  # type: ignore[union-attr]
    assert total == pytest.approx(-prior, abs=1e-3)


def test_the_sum_over_raters_is_that_of_the_plain_formula() -> None:
    found = bbq.fit(panel())
    (way,) = clusters_of(found.data, ("auto",))
    expected = products(scores(found, found.data.rater.astype(np.int64)))
    assert sum_of_products(found, [way], found.moments.push) == pytest.approx(expected)


def test_two_ways_are_the_sum_of_both_minus_their_intersections() -> None:
    data = panel(scenes=10, suits=0.6)
    found = bbq.fit(data, cluster=("rater", "scene"))
    rater, scene = data.rater.astype(np.int64), data.tags["scene"].astype(np.int64)
    both = np.unique(rater * 10 + scene, return_inverse=True)[1]
    expected = products(scores(found, rater)) + products(scores(found, scene))
    expected = expected - products(scores(found, both))
    ways = clusters_of(data, found.cluster)
    assert sum_of_products(found, ways, found.moments.push) == pytest.approx(expected)
    assert [(way.name, way.n) for way in found.robust.ways] == [("rater", 30), ("scene", 10)]


def test_tastes_widen_the_intervals_and_their_absence_hardly() -> None:
    assert bbq.fit(panel(raters=60)).robust.wider < 1.1
    divided = bbq.fit(panel(raters=60, each=80, taste=0.9), camps=1)
    assert divided.robust.wider > 1.5
    assert gap_sd(divided.covariance()) > 1.4 * gap_sd(divided.laplace.covariance)


def test_scenes_that_suit_one_item_widen_the_intervals_where_they_are_named() -> None:
    data = panel(raters=20, each=60, scenes=12, suits=0.7)
    raters, both = (bbq.fit(data, cluster=names) for names in ("rater", "rater,scene"))
    assert gap_sd(both.covariance()) > 1.3 * gap_sd(raters.covariance())
    # The tag is the only one that names what a question was about: it is found.
    assert np.array_equal(bbq.fit(data).covariance(), both.covariance())


@pytest.mark.parametrize("model", MODELS)
def test_it_is_never_below_the_models_own(model: Model) -> None:
    for raters in (3, 12):
        found = bbq.fit(panel(raters=raters, items=9), model=model)
        excess = np.linalg.eigvalsh(found.covariance() - found.laplace.covariance)
        assert excess.min() > -1e-9


def test_answers_stored_three_times_are_no_news() -> None:
    once, thrice = (
        bbq.fit(panel(taste=0.4, times=times), priors="paper", camps=1) for times in (1, 3)
    )
    assert gap_sd(thrice.laplace.covariance) < 0.7 * gap_sd(once.laplace.covariance)
    assert gap_sd(thrice.covariance()) > 0.85 * gap_sd(once.covariance())


def test_without_clusters_it_is_the_models_own_and_says_so() -> None:
    asked = bbq.fit(panel(), cluster="none")
    assert np.array_equal(asked.covariance(), asked.laplace.covariance)
    assert asked.robust.remarks == ()
    assert bbq.leaderboard(asked).intervals == "laplace"
    for data, why in ((panel(raters=1), "there is one rater"), (_unrated(), "no rater is known")):
        found = bbq.fit(data)
        assert np.array_equal(found.covariance(), found.laplace.covariance)
        assert any(text.startswith(why) for text in bbq.leaderboard(found).warnings)


def _unrated() -> bbq.Comparisons:
    data = panel()
    return bbq.Comparisons.from_arrays(None, data.winner, data.loser)


def of_many_raters(items: int, raters: int, votes: int) -> bbq.Comparisons:
    rng = np.random.default_rng(4)
    theta, quality = rng.normal(0, 1, items), rng.beta(10, 2, raters)
    rater, a = rng.integers(0, raters, votes), rng.integers(0, items, votes)
    b = (a + rng.integers(1, items, votes)) % items
    left = rng.random(votes) < 0.5 + quality[rater] * (1 / (1 + np.exp(theta[b] - theta[a])) - 0.5)
    return bbq.Comparisons.from_arrays(rater, np.where(left, a, b), np.where(left, b, a))


def test_many_raters_of_many_items_have_intervals() -> None:
    """Each has seen hardly any item: steps are found by iteration, the covariance is a matrix."""
    fit = bbq.fit(of_many_raters(70, 6_000, 7_000), priors="paper", camps=1)
    assert np.all(np.diag(fit.covariance()) > 0)


def test_a_start_by_some_raters_ends_at_the_same_top(monkeypatch: pytest.MonkeyPatch) -> None:
    data, found = of_many_raters(8, 400, 8_000), []
    for many in (10**9, 100):
        monkeypatch.setattr("bbq_plugin.model.models.MANY_RATERS", many)
        found.append(bbq.fit(data, priors="paper", camps=1).laplace)
    plain, sooner = found
    assert not np.array_equal(plain.mean, sooner.mean)
    assert sooner.mean == pytest.approx(plain.mean, abs=2e-5)
    assert sooner.covariance == pytest.approx(plain.covariance, rel=1e-4)


def test_few_clusters_are_told_and_make_intervals_wider() -> None:
    few = bbq.leaderboard(bbq.fit(panel(raters=4)))
    assert any("only 4 clusters (raters)" in text for text in few.warnings)
    assert bbq.fit(panel(raters=4)).robust.factor > bbq.fit(panel(raters=40)).robust.factor > 1


def test_a_rater_with_half_of_the_votes_does_not_vouch_for_the_own_taste(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The top follows such a rater, whose score is small for it."""
    small = panel(raters=20, taste=0.6)
    busy = panel(1, raters=1, each=800, taste=1.0)
    rater = np.concatenate((small.rater, busy.rater + 20))
    pairs = (np.concatenate((getattr(small, w), getattr(busy, w))) for w in ("winner", "loser"))
    found = bbq.fit(bbq.Comparisons.from_arrays(rater, *pairs), camps=1)
    moved = found.theta_without([20]) - found.theta
    moved -= moved.mean()
    wide = gap_sd(found.covariance())
    monkeypatch.setattr("bbq_plugin.model.robust.LARGE", 1.0)
    narrow = gap_sd(replace(found).covariance())
    assert wide > 1.15 * narrow
    # Half of the votes: without the rater theta moves about as far as a standard deviation.
    assert np.sqrt(2 * np.mean(moved**2)) < 1.5 * wide


def test_a_tag_that_the_data_do_not_have_is_refused() -> None:
    with pytest.raises(UsageError, match="no such tag; did you mean 'scene'"):
        bbq.fit(panel(scenes=9), cluster="rater,scenes").covariance()
    for wrong in ("", "auto,scene", ("rater", "")):
        with pytest.raises(UsageError, match="cluster="):
            bbq.fit(panel(), cluster=wrong)
    with pytest.raises(UsageError, match="at most two"):
        bbq.fit(panel(scenes=9), cluster="rater,scene,rater2").covariance()


def test_more_items_than_clusters_share_one_factor() -> None:
    rng = np.random.default_rng(0)
    own, g = np.eye(30), rng.standard_normal((5, 30)) * np.sqrt(3 / 5)
    steady, freedom = shrunk(own, products(g), 5.0, 29)
    roots = np.linalg.eigvalsh(steady) / t_factor(freedom)
    # Five scores span five directions; what was not seen is taken to be like what was.
    assert roots.min() > 1.5
    assert roots.max() < 3 * roots.min()


@pytest.mark.parametrize("freedom", [1.0, 2.5, 7.0, 60.0, 5000.0])
def test_students_quantile(freedom: float) -> None:
    assert t_quantile(freedom) == pytest.approx(student.ppf(0.975, freedom), abs=1e-9)


# -- the panel's preference


@pytest.mark.parametrize("model", MODELS)
def test_the_win_share_is_the_mean_over_raters_and_other_items(model: Model) -> None:
    found = bbq.fit(panel(), model=model)
    q = found.moments.quality[:, 0]
    sure = 1 / (1 + np.exp(found.theta[None, :] - found.theta[:, None]))
    expected = [
        np.mean([0.5 + one * (sure[i, j] - 0.5) for one in q for j in range(6) if j != i])
        for i in range(6)
    ]
    shares = win_shares(found, 0.95)
    assert shares.share == pytest.approx(np.array(expected))
    assert shares.share.mean() == pytest.approx(0.5)
    assert np.all((shares.lower >= 0) & (shares.lower < shares.share))
    assert np.all((shares.upper <= 1) & (shares.upper > shares.share))


def test_it_follows_theta_as_its_slope_says() -> None:
    """The whole derivative: each rater's quality is integrated again at every theta."""
    found = bbq.fit(panel(), priors="auto")
    priors, triples = found.given_priors(), found.data.triples

    def share(theta: Floats) -> Floats:
        quality = Marginal(triples, priors).at(theta, np.ones(30)).quality
        return np.asarray(0.5 + quality.mean() * standing(theta))

    slope = _slope(found, standing(found.theta)[None], _panel(found))
    step = 1e-4 * np.eye(6)
    numeric = [(share(found.theta + h) - share(found.theta - h)) / 2e-4 for h in step]
    assert slope == pytest.approx(np.array(numeric).T, abs=1e-5)


def test_an_interval_of_one_rater_or_none_is_that_of_the_items() -> None:
    for data in (panel(raters=1, each=400), _unrated()):
        shares = win_shares(bbq.fit(data), 0.95)
        assert np.all(shares.upper - shares.lower > 0.02)


def test_more_raters_say_more() -> None:
    def width(raters: int) -> float:
        shares = win_shares(bbq.fit(panel(raters=raters, taste=0.5)), 0.95)
        return float(np.mean(shares.upper - shares.lower))

    assert width(20) / width(80) == pytest.approx(2, rel=0.25)


def test_of_very_many_items_the_own_theta_counts() -> None:
    found = bbq.fit(panel(items=40, raters=100, each=200), priors="auto")
    known = bbq.leaderboard(found, "laplace")
    middle = found.theta - found.theta.mean()
    sd = {row.item: row.theta_sd for row in known}
    reach = 1.96 * np.array([sd[item] for item in found.items])
    large = large_win_shares(found, middle - reach, middle + reach, 0.95)
    shares = win_shares(found, 0.95, own=True)
    assert large.share == pytest.approx(shares.share, abs=1e-6)
    ratio = (large.upper - large.lower) / (shares.upper - shares.lower)
    assert np.all((ratio > 0.9) & (ratio < 1.5))


@pytest.mark.parametrize("model", ["bbq", "bayes-bt", "bbq-signed"])
def test_of_very_many_items_variances_come_from_random_directions(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few of them are compared with what the whole matrix says."""
    data = panel(items=60, raters=150, each=120, taste=0.6)
    whole = bbq.leaderboard(bbq.fit(data, model=model))
    for module in ("model.fit", "model.robust", "analysis.uncertainty", "analysis.leaderboard"):
        # By its place: `bbq_plugin.model.fit` as a path is the function.
        monkeypatch.setattr(sys.modules[f"bbq_plugin.{module}"], "LARGEST_COVARIANCE", 50)
    fit = bbq.fit(data, model=model)
    board = bbq.leaderboard(fit)
    assert board.intervals == "robust"
    assert any("32 random directions" in warning for warning in board.warnings)
    assert board.wider == pytest.approx(whole.wider, rel=0.1)
    sd = {row.item: row.theta_sd for row in whole}
    ratio = np.array([row.theta_sd / sd[row.item] for row in board])
    # Directions differ in how much raters disagree; here all of them share one factor.
    assert np.mean(ratio) == pytest.approx(1, abs=0.1)
    assert np.all((ratio > 0.7) & (ratio < 1.4))
    with pytest.raises(UnsupportedError, match="60 x 60 matrix"):
        fit.covariance()


def test_tied_slates_of_unknown_raters_have_intervals(tmp_path: Path) -> None:
    """No rater means no camps to average over, and nothing else."""
    scores = np.random.default_rng(5).integers(3, 9, (60, 4)).tolist()
    path = tmp_path / "scores.csv"
    rows = "".join(f"{i % 20},{','.join(map(str, row))}\n" for i, row in enumerate(scores))
    path.write_text("prompt_id,oak,elm,ash,fir\n" + rows)
    data = bbq.read(path, "table", ranks=("oak", "elm", "ash", "fir"), higher="better")
    fit = bbq.fit(data)
    assert fit.cluster
    assert np.all(np.isfinite(fit.covariance()))
