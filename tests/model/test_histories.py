"""Long histories of raters, kept as series: followed without being read."""

from __future__ import annotations

import numpy as np
import pytest

from bbq_plugin.model import streaming as histories
from bbq_plugin.model.streaming import ChangedTriples, Streaming
from tests.model.streams import (
    MODELS,
    Rows,
    cold,
    objective,
    outer_products,
    study_rows,
)


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
    series, changes = histories.Histories(triples, target, point), ChangedTriples(triples)
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
