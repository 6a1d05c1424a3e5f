"""A fit that follows its data: any way to the same data, the same answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bbq_plugin.aggregate import Triples, aggregate
from bbq_plugin.errors import DataError, UsageError
from bbq_plugin.model import Priors, fit, histories, streaming
from bbq_plugin.model.changes import Changes
from bbq_plugin.model.marginal import theta_density
from bbq_plugin.model.objective import Joint, Point
from bbq_plugin.model.solve import solve_newton
from bbq_plugin.model.streaming import Streaming
from tests.model.studies import draw_study

TENTH_OF_A_POINT = 0.1 / 173.7  # nats
ESTIMATED = Priors(3.0, 0.1, 6.0, 2.5, 0.15, estimated=True)
MODELS: dict[str, dict[str, Any]] = {
    "given priors": {"priors": Priors()},
    "estimated priors": {"priors": ESTIMATED, "marginal": True},
    "bayes-bt": {"priors": Priors(), "fixed": True},
    "bayes-bt, estimated": {"priors": Priors(2.5, estimated=True), "fixed": True, "marginal": True},
}


@dataclass(frozen=True)
class Rows:
    rater: NDArray[np.int64]
    winner: NDArray[np.int64]
    loser: NDArray[np.int64]
    weight: NDArray[np.float64]

    @staticmethod
    def of(triples: Triples) -> Rows:
        return Rows(
            triples.rater(),
            triples.winner.astype(np.int64),
            triples.loser.astype(np.int64),
            triples.weight,
        )

    def __getitem__(self, at: Any) -> Rows:
        return Rows(self.rater[at], self.winner[at], self.loser[at], self.weight[at])

    def columns(self, sign: float = 1.0) -> tuple[Any, Any, Any, Any]:
        return self.rater, self.winner, self.loser, sign * self.weight

    def triples(self, n_raters: int, n_items: int) -> Triples:
        rater, winner, loser = (
            column.astype(np.int32) for column in (self.rater, self.winner, self.loser)
        )
        return aggregate(rater, winner, loser, self.weight, n_raters, n_items)


def study_rows(seed: int, **options: Any) -> tuple[Rows, int, int]:
    triples = draw_study(seed, **options).data.triples
    return Rows.of(triples), triples.n_raters, triples.n_items


def objective(triples: Triples, priors: Priors, *, fixed: bool, marginal: bool) -> Any:
    triples = triples.without_raters() if fixed else triples
    if marginal:
        return theta_density(triples, priors, fixed=fixed)
    return Joint(triples, priors.a, priors.b, priors.alpha, priors.beta, fixed=fixed)


def cold(
    triples: Triples, priors: Priors, *, fixed: bool = False, marginal: bool = False
) -> tuple[Any, Any]:
    """From the prior's level on, with no memory."""
    target = objective(triples, priors, fixed=fixed, marginal=marginal)
    n = target.passes.triples.n_raters
    found = solve_newton(
        target, np.full(triples.n_items, 3.0), np.full(n, 1.0 if fixed else 0.8), 1e-8
    )
    return found.theta, np.ones(triples.n_raters) if fixed else found.quality


def outer_products(target: Any, point: Point) -> Any:
    """What the curvature of the pairs alone has too much."""
    pairs = replace(point, rows=np.zeros_like(point.rows))
    return target.passes.curvature(pairs) - target.passes.curvature(point)


def nothing(n_raters: int, n_items: int) -> Triples:
    empty = np.empty(0, dtype=np.int64)
    return Rows(empty, empty, empty, np.empty(0)).triples(n_raters, n_items)


@pytest.mark.parametrize("model", MODELS)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_any_order_grouping_and_retraction_ends_where_a_cold_fit_does(
    model: str, data: st.DataObject
) -> None:
    rows, n_raters, n_items = study_rows(data.draw(st.integers(0, 50)), items=4, raters=9, votes=40)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    weights = st.sampled_from([1.0, 0.5, 0.778, 2 / 3, 3.0])
    weight = np.array([data.draw(weights) for _ in range(7)])[rng.integers(0, 7, rows.weight.size)]
    rows = Rows(rows.rater, rows.winner, rows.loser, weight)
    n = rows.rater.size
    kept = rng.random(n) < data.draw(st.sampled_from([0.5, 0.9, 0.98, 1.0]))
    known = rng.random(n) < data.draw(st.sampled_from([0.0, 0.5, 0.8, 0.95, 1.0]))
    # Each row comes once; rows that are not kept go again; some come twice, and lose their copy.
    events = [*np.flatnonzero(~known), *np.flatnonzero(~kept)]
    signs = [1.0] * int(np.sum(~known)) + [-1.0] * int(np.sum(~kept))
    for copy in rng.integers(0, n, data.draw(st.integers(0, 20))):
        events += [copy, copy]
        signs += [1.0, -1.0]
    # In any order, but that nothing is taken back before it was given.
    order = rng.permutation(len(events))
    who, sign = np.array(events, dtype=int)[order], np.array(signs)[order]
    for row in np.unique(who):
        sign[who == row] = np.sort(sign[who == row])[::-1]
    stream = Streaming(rows[known].triples(n_raters, n_items), **MODELS[model])
    with pytest.MonkeyPatch.context() as patch:
        if data.draw(st.booleans()):
            # Incremental whatever it costs and however far off: a solve forgets all of it.
            patch.setattr(histories, "LONG", 0)
            patch.setattr(streaming, "LARGEST_SHARE", np.inf)
            patch.setattr(streaming, "LARGEST_ERROR", np.inf)
            stream.solve()
        for piece in np.array_split(np.arange(who.size), data.draw(st.integers(1, 6))):
            part = rows[who[piece]]
            stream.change(part.rater, part.winner, part.loser, part.weight * sign[piece])
            if data.draw(st.booleans()):
                stream.refresh()
    stream.solve(1e-8)
    expected = rows[kept].triples(n_raters, n_items)
    theta, quality = cold(expected, **MODELS[model])
    assert stream.theta == pytest.approx(theta, abs=1e-6)
    assert stream.quality == pytest.approx(quality, abs=1e-6)
    held = stream.triples
    pooled = expected.without_raters() if MODELS[model].get("fixed") else expected
    assert held.winner.tolist() == pooled.winner.tolist()
    assert held.start.tolist() == pooled.start.tolist()
    assert held.weight == pytest.approx(pooled.weight, rel=1e-12)


def test_a_solve_equals_the_fit_of_the_same_comparisons() -> None:
    data = draw_study(3, ties=0.3).data
    rows = Rows.of(data.triples)
    stream = Streaming(nothing(1, 2), Priors())
    for piece in np.array_split(np.random.default_rng(0).permutation(rows.rater.size), 7):
        stream.change(*rows[piece].columns())
        stream.refresh()
    stream.solve()
    found = fit(data)
    assert stream.theta == pytest.approx(found.theta, abs=1e-6)
    assert stream.quality == pytest.approx(found.quality, abs=1e-6)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("raters", "votes"), [(600, 30), (12, 1500)])
def test_refreshes_in_a_row_stay_within_a_tenth_of_a_point(
    model: str, raters: int, votes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(histories, "LONG", 40)
    rows, n_raters, n_items = study_rows(5, items=8, raters=raters, votes=votes, guessers=0.2)
    # One by one: few raters have answered the same pairs many times, and do so again.
    rows = rows[np.repeat(np.arange(rows.rater.size), rows.weight.astype(int))]
    rows = Rows(rows.rater, rows.winner, rows.loser, np.ones(rows.rater.size))
    order = np.random.default_rng(1).permutation(rows.rater.size)
    first = order.size - 1000
    stream = Streaming(rows[order[:first]].triples(n_raters, n_items), **MODELS[model])
    stream.solve()
    seen: list[str] = []
    worst = 0.0
    for piece in np.array_split(order[first:], 40):
        stream.change(*rows[piece].columns())
        done = stream.refresh()
        seen.append(done.how)
        first += piece.size
        theta, _ = cold(rows[order[:first]].triples(n_raters, n_items), **MODELS[model])
        off = float(np.max(np.abs(stream.theta - theta)))
        assert off <= TENTH_OF_A_POINT
        assert off <= done.error + 1e-8
        worst = max(worst, off)
    if not MODELS[model].get("fixed"):
        assert "incremental" in seen
        assert worst > 1e-9  # else nothing was tested


@pytest.mark.parametrize("model", ["given priors", "estimated priors"])
def test_long_histories_are_followed_without_reading_them(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(histories, "LONG", 20)
    rows, n_raters, n_items = study_rows(6, items=7, raters=300, votes=400)
    order = np.random.default_rng(2).permutation(rows.rater.size)
    weight = np.random.default_rng(3).integers(20, 60, rows.rater.size) / 2.0
    rows = Rows(rows.rater, rows.winner, rows.loser, weight)
    stream = Streaming(rows.triples(n_raters, n_items), **MODELS[model])
    stream.solve(1e-8)
    new = rows[order[:150]]
    new = Rows(new.rater, new.loser, new.winner, np.resize([1.0, 0.5, 2 / 3], 150))
    stream.change(*new.columns())
    done = stream.refresh()
    assert (done.how, done.n_read) == ("incremental", 0)
    both = Rows(*(np.concatenate(two) for two in zip(rows.columns(), new.columns(), strict=True)))
    theta, quality = cold(both.triples(n_raters, n_items), **MODELS[model])
    assert stream.theta == pytest.approx(theta, abs=1e-5)
    touched = np.unique(new.rater)
    assert stream.quality_of(touched) == pytest.approx(quality[touched], abs=1e-4)
    assert stream.quality == pytest.approx(quality, abs=1e-4)
    # Taken back again: where it was, and nothing of it is left.
    stream.change(*new.columns(-1.0))
    assert stream.refresh().how == "incremental"
    theta, quality = cold(rows.triples(n_raters, n_items), **MODELS[model])
    assert stream.theta == pytest.approx(theta, abs=1e-5)
    assert stream.triples.weight == pytest.approx(rows.triples(n_raters, n_items).weight)


@pytest.mark.parametrize("model", ["given priors", "estimated priors"])
def test_a_history_as_a_series_says_what_reading_it_says(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(histories, "LONG", 20)
    rows, n_raters, n_items = study_rows(18, items=6, raters=10, votes=300, spread=1.0)
    options = {"fixed": False, "marginal": False, **MODELS[model]}
    triples = rows.triples(n_raters, n_items)
    rng = np.random.default_rng(5)
    everyone = np.arange(n_raters)
    target = objective(triples, **options)
    point = target.at(rng.normal(3.0, 0.5, n_items), np.full(n_raters, 0.8))
    series, changes = histories.Histories(triples, target, point), Changes(triples)
    theta = point.theta + rng.normal(0.0, 0.01, n_items)
    series.move(theta)
    some = rows[rng.integers(0, rows.rater.size, 40)]
    codes = (some.loser.astype(np.int32), some.winner.astype(np.int32))
    changes.push(some.rater, *codes, rng.choice([1.0, 0.5, 2 / 3], 40))
    merged = changes.merged(everyone, changes.rows(everyone))
    before, after = objective(triples, **options), objective(merged, **options)
    old, new = (o.at(theta, point.quality) for o in (before, after))

    sums, quality = histories.Sums(n_items), point.quality.copy()
    none = np.full(n_raters, -1)
    series.add(-1.0, everyone, none, changes, quality, sums)
    # Of second order in the change of theta, here a hundredth of a nat.
    assert quality == pytest.approx(old.quality, abs=2e-4)
    series.add(1.0, everyone, changes.head, changes, quality, sums)
    assert quality == pytest.approx(new.quality, abs=2e-4)
    change = new.gradient - old.gradient
    assert sums.gradient == pytest.approx(change, abs=0.02 * np.max(np.abs(change)))
    # That the history's own pairs bend a little less or more at another q is left out.
    bent = outer_products(after, new) - outer_products(before, old)
    assert sums.outer == pytest.approx(bent, abs=0.1 * np.max(np.abs(bent)))

    # Read anew where theta is now, it has nothing to add, and theta has not moved since.
    changes.settle(everyone, merged)
    series.expand(everyone, everyone, merged, after, new)
    again = histories.Sums(n_items)
    series.add(1.0, everyone, none, changes, quality, again)
    assert quality == pytest.approx(new.quality, abs=1e-8)
    assert np.max(np.abs(again.gradient)) < 1e-6
    outer = outer_products(after, new)
    assert again.outer == pytest.approx(outer, abs=1e-6 * np.max(np.abs(outer)))


@pytest.mark.parametrize("model", ["given priors", "estimated priors"])
def test_a_history_is_read_anew_when_much_of_it_has_changed(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(histories, "LONG", 20)
    rows, n_raters, n_items = study_rows(19, items=6, raters=300, votes=400)
    stream = Streaming(rows.triples(n_raters, n_items), **MODELS[model])
    stream.solve(1e-8)
    read = []
    winner, loser = np.array([1, 2, 3, 1, 5] * 2), np.array([2, 3, 4, 5, 0] * 2)
    for _ in range(5):
        stream.change(np.full(10, 7), winner, loser, np.full(10, 0.5))
        done = stream.refresh()
        assert done.how == "incremental"
        read.append(done.n_read)
    # 5 of 400 each time, in pieces of a half: beyond a twentieth it is read.
    assert read == [0, 0, 0, 0, 1]
    new = Rows(np.full(10, 7), winner, loser, np.full(10, 2.5))
    both = Rows(*(np.concatenate(two) for two in zip(rows.columns(), new.columns(), strict=True)))
    theta, quality = cold(both.triples(n_raters, n_items), **MODELS[model])
    assert stream.theta == pytest.approx(theta, abs=2e-6)
    assert stream.quality == pytest.approx(quality, abs=1e-5)


@pytest.mark.parametrize("model", MODELS)
def test_retracting_a_rater_equals_never_having_seen_them(model: str) -> None:
    rows, n_raters, n_items = study_rows(7, ties=0.3)
    other = rows[rows.rater != 11]
    stream = Streaming(rows.triples(n_raters, n_items), **MODELS[model])
    stream.solve()
    stream.change(*rows[rows.rater == 11].columns(-1.0))
    stream.refresh()
    expected = other.triples(n_raters, n_items)
    theta, quality = cold(expected, **MODELS[model])
    assert stream.theta == pytest.approx(theta, abs=TENTH_OF_A_POINT)
    if not MODELS[model].get("fixed"):
        assert stream.triples.start.tolist() == expected.start.tolist()
    stream.solve(1e-8)
    assert stream.theta == pytest.approx(theta, abs=1e-6)
    assert stream.quality == pytest.approx(quality, abs=1e-6)


def test_an_item_taken_back_is_at_the_priors_level() -> None:
    rows, n_raters, n_items = study_rows(8)
    with_item = (rows.winner == 3) | (rows.loser == 3)
    # Thirds do not add up exactly, and still leave nothing.
    stream = Streaming(rows[~with_item].triples(n_raters, n_items), Priors())
    for _ in range(3):
        some = rows[with_item]
        stream.change(some.rater, some.winner, some.loser, some.weight / 3)
        stream.refresh()
    stream.change(*rows[with_item].columns(-1.0))
    stream.refresh()
    stream.solve(1e-8)
    assert not np.any((stream.triples.winner == 3) | (stream.triples.loser == 3))
    assert stream.theta[3] == pytest.approx(np.log(40.0), abs=1e-9)


@pytest.mark.parametrize("model", MODELS)
def test_new_items_and_raters_join_in_the_middle(model: str) -> None:
    rows, n_raters, n_items = study_rows(9, raters=60)
    early = (rows.rater < 50) & (rows.winner < 6) & (rows.loser < 6)
    stream = Streaming(rows[early].triples(50, 6), **MODELS[model])
    stream.solve()
    fewer = ~early & (rows.winner < 6) & (rows.loser < 6)
    stream.change(*rows[fewer].columns())
    stream.refresh()
    assert stream.theta.size == 6
    assert stream.quality.size == n_raters
    stream.change(*rows[~early & ~fewer].columns())
    assert stream.refresh().how == "full"
    theta, quality = cold(rows.triples(n_raters, n_items), **MODELS[model])
    assert stream.theta == pytest.approx(theta, abs=1e-5)
    assert stream.quality == pytest.approx(quality, abs=1e-4)


def test_new_raters_alone_need_no_full_pass() -> None:
    rows, n_raters, n_items = study_rows(10, raters=900)
    old = rows.rater < 897
    stream = Streaming(rows[old].triples(897, n_items), Priors())
    stream.solve()
    for rater in (897, 898, 899):
        stream.change(*rows[rows.rater == rater].columns())
        assert stream.refresh().how == "incremental"
    theta, quality = cold(rows.triples(n_raters, n_items), Priors())
    assert stream.theta == pytest.approx(theta, abs=TENTH_OF_A_POINT)
    assert stream.quality == pytest.approx(quality, abs=1e-3)


@pytest.mark.parametrize("model", ["given priors", "estimated priors"])
def test_a_refresh_climbs_as_far_as_its_error_allows(model: str) -> None:
    rows, n_raters, n_items = study_rows(11, raters=800)
    order = np.random.default_rng(4).permutation(rows.rater.size)
    first = order.size - 400
    stream = Streaming(rows[order[:first]].triples(n_raters, n_items), **MODELS[model])
    stream.solve(1e-8)
    options = {"fixed": False, "marginal": False, **MODELS[model]}
    for piece in np.array_split(order[first:], 8):
        before = stream.theta
        stream.change(*rows[piece].columns())
        done = stream.refresh()
        first += piece.size
        target = objective(rows[order[:first]].triples(n_raters, n_items), **options)
        was, now = (target.at(theta, stream.quality) for theta in (before, stream.theta))
        top = solve_newton(target, stream.theta, stream.quality, 1e-9)
        # At most what a parabola loses at the stated distance from its top.
        allowed = 0.5 * done.error**2 * np.sum(np.abs(target.passes.curvature(top.point)))
        assert now.value >= top.value - allowed - target.rounding(top.value)
        assert now.value > was.value


def test_a_long_way_falls_back_to_full_passes() -> None:
    rows, n_raters, n_items = study_rows(12, raters=400)
    stream = Streaming(rows.triples(n_raters, n_items), Priors())
    stream.solve()
    # One rater with a thousand answers of one kind moves two items by more than a small step.
    stream.change([0], [1], [2], [1000.0])
    done = stream.refresh()
    assert done.how == "full"
    assert done.step > 0.1
    assert done.error <= streaming.FULL_TOLERANCE


def test_many_items_are_refitted_from_where_they_were() -> None:
    rows, n_raters, n_items = study_rows(13, items=600, raters=200, votes=60)
    half = np.arange(rows.rater.size) % 2 == 0
    stream = Streaming(rows[half].triples(n_raters, n_items), Priors())
    stream.solve()
    stream.change(*rows[~half].columns())
    assert stream.refresh().how == "full"
    theta, _ = cold(rows.triples(n_raters, n_items), Priors())
    assert stream.theta == pytest.approx(theta, abs=1e-4)


def test_without_a_prior_differences_are_followed() -> None:
    rows, n_raters, n_items = study_rows(14, raters=400)
    flat = Priors(a=1, b=0)
    stream = Streaming(rows[:-40].triples(n_raters, n_items), flat)
    stream.solve()
    stream.change(*rows[-40:].columns())
    stream.refresh()
    theta, _ = cold(rows.triples(n_raters, n_items), flat)
    assert stream.theta - stream.theta.mean() == pytest.approx(
        theta - theta.mean(), abs=TENTH_OF_A_POINT
    )


def test_a_restart_from_a_kept_fit_goes_on_where_it_was() -> None:
    rows, n_raters, n_items = study_rows(15)
    triples = rows.triples(n_raters, n_items)
    first = Streaming(triples, Priors())
    found = first.solve()
    again = Streaming(triples, Priors(), theta=first.theta, quality=first.quality)
    assert again.theta.tolist() == first.theta.tolist()
    done = again.refresh()
    assert (done.how, done.step <= 1e-6) == ("full", True)
    assert again.solve().value == pytest.approx(found.value)


def test_a_refresh_without_changes_moves_nothing() -> None:
    rows, n_raters, n_items = study_rows(16)
    stream = Streaming(rows.triples(n_raters, n_items), Priors())
    stream.solve()
    before = stream.theta.copy()
    stream.change([], [], [], [])
    done = stream.refresh()
    assert (done.how, done.step, done.n_raters) == ("incremental", 0.0, 0)
    assert stream.theta.tolist() == before.tolist()


def test_taking_back_more_than_was_given_is_refused_and_can_be_mended() -> None:
    rows, n_raters, n_items = study_rows(17)
    stream = Streaming(rows.triples(n_raters, n_items), Priors())
    stream.solve()
    one = rows[[5]]
    stream.change(*one.columns(-2.0))
    with pytest.raises(DataError, match=f"rater {one.rater[0]}: more was taken back"):
        stream.refresh()
    with pytest.raises(DataError, match="more was taken back"):
        stream.solve()
    stream.change(*one.columns(2.0))
    stream.refresh()
    stream.solve(1e-8)
    assert stream.theta == pytest.approx(cold(stream.triples, Priors())[0], abs=1e-6)
    assert stream.triples.weight == pytest.approx(rows.weight)


@pytest.mark.parametrize(
    "bad",
    [
        ([0], [1], [1], [1.0]),
        ([-1], [0], [1], [1.0]),
        ([0], [0], [1], [np.nan]),
        ([0, 1], [0], [1], [1.0]),
    ],
)
def test_a_change_that_is_no_comparison_is_refused(bad: Any) -> None:
    stream = Streaming(nothing(2, 3), Priors())
    with pytest.raises(UsageError, match=r"change\(\)"):
        stream.change(*bad)
