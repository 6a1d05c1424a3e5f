"""A fit that follows what is taken back and who joins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bbq_plugin.errors import DataError, UsageError
from bbq_plugin.model import Priors
from bbq_plugin.model.streaming import Streaming
from tests.model.streams import (
    MODELS,
    TENTH_OF_A_POINT,
    cold,
    nothing,
    study_rows,
)


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
