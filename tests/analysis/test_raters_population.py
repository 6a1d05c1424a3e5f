"""P(bad) means it, also where bad raters are no coins; groups of one mind; fixed sides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bbq_plugin as bbq
from bbq_plugin.data.triples import Floats, Mask
from bbq_plugin.model.rater_population import ALL, CENTRE, CampView, _Table


def drawn(
    seed: int, bad: tuple[float, float] | None, *, raters: int = 400, votes: int = 60
) -> tuple[bbq.Comparisons, Mask]:
    """A fifth are bad, with quality from this Beta, or coins; who they are."""
    rng = np.random.default_rng([12, seed])
    theta = rng.normal(0, 0.9, 15)
    quality = rng.beta(8, 2, raters)
    is_bad = np.arange(raters) % 5 == 0
    n = int(is_bad.sum())
    quality[is_bad] = 0.0 if bad is None else rng.beta(*bad, n)
    who = np.repeat(np.arange(raters), votes)
    a = rng.integers(0, 15, who.size)
    b = (a + rng.integers(1, 15, who.size)) % 15
    chance = 0.5 + quality[who] * 0.5 * np.tanh(0.5 * (theta[a] - theta[b]))
    won = rng.random(who.size) < chance
    return bbq.Comparisons.from_arrays(who, np.where(won, a, b), np.where(won, b, a)), is_bad


@pytest.mark.parametrize("bad", [None, (1.0, 9.0), (2.0, 6.0)], ids=["coins", "1,9", "2,6"])
def test_of_raters_with_a_p_bad_so_many_are_bad(bad: Any) -> None:
    p, truth = [], []
    for seed in range(4):
        data, is_bad = drawn(seed, bad)
        report = bbq.rater_report(bbq.fit(data, priors="auto", camps=1))
        p.append(np.array([row.p_bad for row in report]))
        truth.append(is_bad)
        assert np.allclose(p[-1], [row.p_guesser + row.p_inverted for row in report])
    every, is_bad = np.concatenate(p), np.concatenate(truth)
    place = np.minimum((every / 0.2).astype(int), 4)
    for k in range(5):
        some = place == k
        if some.sum() >= 60:
            slack = 2 * np.sqrt(0.25 / some.sum())
            assert abs(every[some].mean() - is_bad[some].mean()) < 0.1 + slack


def test_the_slope_of_the_population_is_that_of_its_likelihood() -> None:
    data, _ = drawn(1, (1.0, 9.0), raters=40)
    t = data.triples
    s = 0.4 * np.tanh(np.random.default_rng(2).normal(size=t.size))
    table = _Table.of(t, (CampView(0.6, s), CampView(0.4, -s[::-1].copy())), np.arange(40))
    eta: Floats = CENTRE + 0.2 * np.random.default_rng(3).normal(size=ALL.size)
    steps = 1e-5 * np.eye(ALL.size)
    expected = (table.values(eta + steps) - table.values(eta - steps)) / 2e-5
    assert np.allclose(table.gradients(eta[None])[0], expected, atol=1e-5)


def with_group(seed: int, *, share_a_taste: bool) -> bbq.Comparisons:
    """Thirty raters, and six more who share a taste of their own, or guess."""
    rng = np.random.default_rng([13, seed])
    theta = np.linspace(-1.5, 1.5, 8)
    other = rng.permutation(theta) if share_a_taste else np.zeros(8)
    who = np.repeat(np.arange(36), 80)
    a = rng.integers(0, 8, who.size)
    b = (a + rng.integers(1, 8, who.size)) % 8
    gap = np.where(who < 30, theta[a] - theta[b], other[a] - other[b])
    won = rng.random(who.size) < 1 / (1 + np.exp(-gap))
    return bbq.Comparisons.from_arrays(who, np.where(won, a, b), np.where(won, b, a))


def test_raters_of_one_mind_are_not_excluded_and_the_report_says_so() -> None:
    for seed in range(3):
        fit = bbq.fit(with_group(seed, share_a_taste=True), priors="auto", camps=1)
        assert not bbq.rater_report(fit).excluded
    guessing = bbq.fit(with_group(0, share_a_taste=False), priors="auto", camps=1)
    report = bbq.rater_report(guessing)
    assert len(report.excluded) >= 3
    assert not any("agree with each other" in warning for warning in report.warnings)


def sided(*, fixed: bool) -> bbq.Comparisons:
    """Twenty raters compare seven items with a baseline, which stands on the left, or anywhere."""
    rng, rows = np.random.default_rng(14), []
    for r in range(20):
        for n in range(40):
            item, swap = f"m{rng.integers(7)}", not fixed and rng.random() < 0.5
            base = rng.random() < 0.93
            left, right = (item, "base") if swap else ("base", item)
            says: Any = "left" if base != swap else "right"
            if r == 0:
                # Always the button on the left.
                says = "left"
            rows.append(bbq.Comparison(f"{r}-{n}", f"r{r:02}", left, right, says, at=float(n)))
    return bbq.Comparisons.from_comparisons(rows)


def test_sides_say_nothing_where_one_side_always_is_the_baseline() -> None:
    for fixed in (True, False):
        report = bbq.rater_report(bbq.fit(sided(fixed=fixed), priors="auto", camps=1))
        told = [row.rater for row in report if any("button" in why for why in row.reasons)]
        assert told == ([] if fixed else ["r00"])
        assert any("same side" in what for what in report.not_known) is fixed


def test_a_certainly_low_quality_is_remarked_without_a_verdict() -> None:
    rng = np.random.default_rng(15)
    theta = np.linspace(-3, 3, 10)
    votes = np.array([300] * 20 + [1350])
    quality = np.array([0.97] * 14 + [0.7] * 6 + [0.53])
    who = np.repeat(np.arange(21), votes)
    a = rng.integers(0, 10, who.size)
    b = (a + rng.integers(1, 10, who.size)) % 10
    chance = 0.5 + quality[who] * 0.5 * np.tanh(0.5 * (theta[a] - theta[b]))
    won = rng.random(who.size) < chance
    data = bbq.Comparisons.from_arrays(who, np.where(won, a, b), np.where(won, b, a))
    row = bbq.rater_report(bbq.fit(data, priors="auto", camps=1))[20]
    assert row.verdict != "exclude"
    assert any(why.startswith("certainly of low quality") for why in row.reasons)
