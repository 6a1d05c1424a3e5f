"""What the first place hangs on: sets without which another item is first."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import bbq_plugin as bbq
from bbq_plugin.analysis import stability
from bbq_plugin.analysis.stability import Fragility, fragility
from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.report.summary import fragility_sentence


def kept(data: Comparisons, rows: Any) -> Comparisons:
    names = ("rater", "winner", "loser", "weight")
    return replace(data, answers=None, **{name: getattr(data, name)[rows] for name in names})


def first_of(data: Comparisons, fit: bbq.Fit) -> str:
    again = bbq.fit(data, fit.model, priors=fit.priors, camps=1, ties="half")  # type: ignore[arg-type]
    return again.items[int(np.argmax(again.theta))]


def study(**options: Any) -> bbq.Fit:
    data = bbq.simulate(**{"items": 6, "raters": 20, "comparisons": 600, "seed": 3, **options})
    return bbq.fit(data.arrays(), camps=1)


def test_the_raters_that_are_named_decide_who_is_first() -> None:
    fit = study()
    found = fragility(fit)
    assert found is not None
    assert found.raters is not None
    assert found.first == bbq.leaderboard(fit)[0].item
    gone = [fit.raters.index(name) for name in found.raters.raters]
    assert len(gone) == found.raters.n <= 10
    rest = kept(fit.data, ~np.isin(fit.data.rater, gone))
    assert first_of(rest, fit) == found.raters.first != found.first


@pytest.mark.parametrize("model", ["bbq", "bayes-bt"])
def test_no_single_comparison_decides_where_more_are_said_to(model: Any) -> None:
    data = bbq.simulate(items=4, raters=6, comparisons=80, seed=5).arrays()
    fit = bbq.fit(data, model, priors="paper", camps=1)
    found = fragility(fit)
    assert found is not None
    assert found.comparisons is not None
    alone = [
        first_of(kept(data, np.arange(data.rater.size) != row), fit) != found.first
        for row in range(data.rater.size)
    ]
    assert any(alone) == (found.comparisons.n == 1)


def test_a_clear_leader_hangs_on_nothing() -> None:
    rows = [(f"r{r}", "best", f"i{n % 3}") for r in range(12) for n in range(30)]
    rows += [(f"r{r}", f"i{n % 3}", f"i{(n + 1) % 3}") for r in range(12) for n in range(9)]
    found = fragility(bbq.fit(Comparisons.from_records(rows), camps=1))
    assert found == Fragility("best", None, None)
    assert "best stays first without any set" in "".join(fragility_sentence(found))


def test_a_leader_by_one_vote_falls_with_it() -> None:
    rows = [("a", "x", "y")] * 11 + [("b", "y", "x")] * 10 + [("a", "x", "z"), ("b", "y", "z")]
    found = fragility(bbq.fit(Comparisons.from_records(rows), "bayes-bt"))
    assert found is not None
    assert found.comparisons is not None
    assert (found.first, found.comparisons.n) == ("x", 2)


def test_comparisons_with_a_winner_are_told_from_all() -> None:
    rows = [("a", "b", said) for said in ["left"] * 5 + ["right"] * 4 + ["tie"]]
    data = Comparisons.from_comparisons(
        [bbq.Comparison(f"{n}", f"r{n}", *row) for n, row in enumerate(rows)]  # type: ignore[arg-type]
    )
    found = fragility(bbq.fit(data, priors="paper", camps=1))
    assert found is not None
    assert "of 9 comparisons with a winner, b would be first" in "".join(fragility_sentence(found))
    found = fragility(bbq.fit(kept(data, data.weight == 1), priors="paper", camps=1))
    assert found is not None
    assert "of 9 comparisons b would be first" in "".join(fragility_sentence(found))


def test_several_camps_have_no_first_place_to_lose() -> None:
    data = bbq.simulate(raters=40, comparisons=4000, minority=0.4, spread=1.2, seed=9).arrays()
    assert fragility(bbq.fit(data, camps=2)) is None


def test_many_items_take_no_memory_for_each_of_them() -> None:
    fit = study(items=120, raters=5, comparisons=12_000)
    fragility(fit)  # what the fit keeps of itself is there
    tracemalloc.start()
    try:
        fragility(fit)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    a_line = 16 * fit.data.rater.size  # its order and what it moves
    assert peak < 40 * a_line


def test_challengers_that_are_passed_over_need_no_fewer() -> None:
    fit = study(items=40, raters=15, comparisons=3000)
    study_of = stability._Study(fit)
    seen: list[tuple[int, int]] = []
    study_of._verified = lambda needed, other, *_: seen.append((needed, other))  # type: ignore[method-assign]
    study_of.fewest(study_of.row_gaps, study_of.row_weights)
    by_size = []
    for other in np.argsort(-fit.theta).tolist():
        if other != study_of.first:
            found = np.sort(study_of.row_gaps(other))[::-1]
            gap = fit.theta[study_of.first] - fit.theta[other]
            moved = np.cumsum(np.maximum(found, 0.0))
            by_size.append((int(np.searchsorted(moved, gap)) + 1, other))
    by_size.sort(key=lambda line: line[0])
    assert seen == by_size[: stability.CHALLENGERS]
