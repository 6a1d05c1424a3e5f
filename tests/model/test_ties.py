"""Ties as an outcome of their own: who ties often is no coin; half wins remain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bbq_plugin as bbq
from bbq_plugin.errors import UsageError
from bbq_plugin.live.engine import Engine


def tying(seed: int, rate: float, votes: int = 100) -> bbq.Comparisons:
    """Forty honest raters, of whom every second answers a tie so often, the others one in ten."""
    rng = np.random.default_rng([5, seed])
    rows: list[bbq.Comparison] = []
    theta = rng.normal(0, 1, 8)
    for r in range(40):
        quality, ties = rng.beta(10, 2), rate if r % 2 else 0.1
        for _ in range(votes):
            a, b = rng.choice(8, 2, replace=False).tolist()
            chance = 0.5 + quality * (1 / (1 + np.exp(theta[b] - theta[a])) - 0.5)
            says: Any = "left" if rng.random() < chance else "right"
            says = "tie" if rng.random() < ties else says
            rows.append(bbq.Comparison(str(len(rows)), f"r{r:02}", f"i{a}", f"i{b}", says))
    return bbq.Comparisons.from_comparisons(rows)


def test_honest_raters_who_tie_often_are_not_excluded() -> None:
    out = {"half": 0, "auto": 0}
    for seed in range(3):
        data = tying(seed, 0.88)
        for ties in out:
            report = bbq.rater_report(bbq.fit(data, priors="auto", camps=1, ties=ties))  # type: ignore[arg-type]
            out[ties] += sum(row.verdict == "exclude" for row in list(report)[1::2])
    assert out["half"] > 10
    assert out["auto"] == 0


def test_a_fit_of_modelled_ties_is_one_of_the_decided_answers() -> None:
    data = tying(1, 0.5)
    assert data.answers is not None
    assert data.answers.half is not None
    decided = data.answers.half == 0
    alone = bbq.Comparisons.from_arrays(
        data.rater[decided], data.winner[decided], data.loser[decided], raters=data.raters,
        items=data.items,
    )  # fmt: skip
    found, expected = bbq.fit(data), bbq.fit(alone)
    assert (found.ties, expected.ties) == ("model", "model")
    assert np.allclose(found.theta, expected.theta, atol=1e-9)
    assert np.allclose(found.quality, expected.quality, atol=1e-9)
    assert found.data.n_comparisons == 4000
    assert [row.n for row in bbq.leaderboard(found)] == [
        row.n for row in bbq.leaderboard(bbq.fit(data, ties="half"))
    ]


def test_a_rate_is_pooled_with_those_of_the_others() -> None:
    data = tying(2, 0.6)
    rate = bbq.fit(data).tie_rate
    assert data.answers is not None
    assert data.answers.half is not None
    seen = np.bincount(data.rater[data.answers.half == 1], None, 40) / 100
    middle = seen.mean()
    # Between the rater's own share and that of all, and nearer to the own.
    assert np.all(np.abs(rate - middle) <= np.abs(seen - middle) + 1e-12)
    assert np.all(np.abs(rate - seen) < 0.05)
    assert not bbq.fit(data, ties="half").tie_rate.any()


def test_half_weights_are_no_ties() -> None:
    rows = [("ann", "a", "b", 0.5), ("ann", "b", "a", 0.5), ("bob", "a", "b", 1.0)] * 20
    data = bbq.Comparisons.from_records(rows)
    fits = [bbq.fit(data, ties=ties) for ties in ("auto", "model", "half")]
    assert np.allclose(fits[0].theta, fits[2].theta)
    assert np.allclose(fits[1].theta, fits[2].theta)
    assert not fits[1].tie_rate.any()


def test_auto_takes_half_wins_where_nothing_else_is_to_be_had() -> None:
    data = tying(1, 0.5)
    assert bbq.fit(data, model="bayes-bt").ties == "half"
    assert bbq.fit(data, solver="em", priors="paper").ties == "half"
    only = [bbq.Comparison(str(n), "ann", "a", "b", "tie") for n in range(30)]
    assert bbq.fit(bbq.Comparisons.from_comparisons(only)).ties == "half"


@pytest.mark.parametrize("given", [{"model": "bayes-bt"}, {"solver": "em"}])
def test_what_does_not_go_together_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"ties='model' takes .*; use ties='half'"):
        bbq.fit(tying(1, 0.5, votes=10), ties="model", **given)
    with pytest.raises(UsageError, match="expected one of auto, model, half"):
        bbq.fit(tying(1, 0.5, votes=10), ties="drop")  # type: ignore[arg-type]


def answers(n: int) -> list[bbq.Comparison]:
    rng = np.random.default_rng(8)
    rows = []
    for i in range(n):
        a, b = rng.choice(5, 2, replace=False).tolist()
        says: Any = rng.choice(["left", "right", "tie", "both_bad"], p=[0.4, 0.2, 0.3, 0.1])
        rows.append(bbq.Comparison(f"k{i}", f"r{rng.integers(6)}", f"i{a}", f"i{b}", says))
    return rows


@pytest.mark.parametrize("ties", ["auto", "half"])
def test_an_engine_ends_where_a_cold_fit_does(ties: Any) -> None:
    rows = answers(300)
    with Engine(ties=ties, camps=1, priors="paper") as engine:
        for part in (rows[:100], rows[100:250], rows[250:]):
            engine.add(part)
            engine.refresh()
        engine.retract([row.key for row in rows[40:80]])
        engine.refresh(full=True)
        found = engine.fit
        theta = dict(zip(found.items, found.theta, strict=True))
        rate = dict(zip(found.raters, found.tie_rate, strict=True))
    kept = rows[:40] + rows[80:]
    cold = bbq.fit(bbq.Comparisons.from_comparisons(kept), ties=ties, camps=1, priors="paper")
    assert found.ties == cold.ties == ("model" if ties == "auto" else "half")
    assert [theta[name] for name in cold.items] == pytest.approx(cold.theta.tolist(), abs=1e-6)
    assert [rate[name] for name in cold.raters] == pytest.approx(cold.tie_rate.tolist())


def test_a_stream_that_begins_with_ties_alone_goes_on_with_the_first_decision() -> None:
    rows = answers(120)
    ties = [row for row in rows if row.outcome in ("tie", "both_bad")]
    others = [row for row in rows if row.outcome not in ("tie", "both_bad")]
    with Engine(camps=1, priors="paper") as engine:
        engine.add(ties)
        assert engine.fit.ties == "half"
        engine.add(others)
        engine.refresh(full=True)
        found = engine.fit
    cold = bbq.fit(bbq.Comparisons.from_comparisons(ties + others), camps=1, priors="paper")
    theta = dict(zip(found.items, found.theta, strict=True))
    assert found.ties == "model"
    assert [theta[name] for name in cold.items] == pytest.approx(cold.theta.tolist(), abs=1e-6)


def test_answers_are_predicted_with_their_ties() -> None:
    rng = np.random.default_rng(9)
    theta = np.linspace(-3, 3, 6)
    rows: list[bbq.Comparison] = []
    for r in range(30):
        for _ in range(80):
            a, b = rng.choice(6, 2, replace=False).tolist()
            y = 1 / (1 + np.exp(theta[b] - theta[a]))
            # Davidson's: a tie is likelier between close items.
            tie = 0.5 * 2 * np.sqrt(y * (1 - y))
            says: Any = "tie" if rng.random() < tie else "left" if rng.random() < y else "right"
            rows.append(bbq.Comparison(str(len(rows)), f"r{r}", f"i{a}", f"i{b}", says))
    fit = bbq.fit(bbq.Comparisons.from_comparisons(rows), camps=1)
    p = fit.predict(
        ["r1", "r1", None, "nobody"], ["i2", "i0", "i5", "i5"], ["i3", "i5", "i0", "i0"]
    )
    assert np.allclose(p.sum(axis=1), 1.0)
    near, far, unknown, unheard = p
    assert near[1] > 5 * far[1]
    assert 0.35 < near[1] < 0.65
    assert far[2] > 0.8
    assert unknown[0] > 0.8
    assert np.allclose(unknown, unheard)
    assert fit.tie_model.slope > 0.5
    with pytest.raises(UsageError, match="there is no item 'i9'"):
        fit.predict(["r1"], ["i9"], ["i0"])
    plain = bbq.fit(bbq.Comparisons.from_records([("ann", "a", "b"), ("bob", "b", "a")] * 9))
    assert not plain.predict(["ann"], ["a"], ["b"])[0, 1]
    alone = bbq.fit(bbq.Comparisons.from_records([(None, "a", "b")] * 9))
    assert alone.predict([None], ["a"], ["b"])[0, 0] > 0.6
