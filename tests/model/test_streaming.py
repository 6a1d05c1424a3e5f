"""A fit that follows its data: any way to the same data, the same answer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bbq_plugin.model import Priors, fit, streaming
from bbq_plugin.model import streaming as histories
from bbq_plugin.model.solvers import solve_newton
from bbq_plugin.model.streaming import Streaming
from tests.model.streams import (
    MODELS,
    TENTH_OF_A_POINT,
    Rows,
    cold,
    nothing,
    objective,
    study_rows,
)
from tests.model.studies import draw_study


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
    found = fit(data, priors="paper", camps=1)
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


def test_a_refresh_without_changes_moves_nothing() -> None:
    rows, n_raters, n_items = study_rows(16)
    stream = Streaming(rows.triples(n_raters, n_items), Priors())
    stream.solve()
    before = stream.theta.copy()
    stream.change([], [], [], [])
    done = stream.refresh()
    assert (done.how, done.step, done.n_raters) == ("incremental", 0.0, 0)
    assert stream.theta.tolist() == before.tolist()
