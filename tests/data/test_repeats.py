"""Rows that are one answer: found by their time or identifier, and never guessed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pytest

import bbq_plugin as bbq
from bbq_plugin.analysis.stopping import stopping
from bbq_plugin.data.rankings import break_ranking
from bbq_plugin.data.records import Outcome
from bbq_plugin.errors import UsageError

ITEMS = ("oak", "elm", "ash", "fir", "yew")


def answers(
    n: int = 60, *, times: int = 1, every_s: float = 7.0, ties: bool = False
) -> Iterator[bbq.Comparison]:
    rng = np.random.default_rng(0)
    for i in range(n):
        left, right = rng.choice(5, size=2, replace=False)
        decided: tuple[Outcome, Outcome] = ("left", "right")
        outcome: Outcome = "tie" if ties and i % 4 == 0 else decided[int(rng.integers(2))]
        for copy in range(times):
            yield bbq.Comparison(
                f"{i}/{copy}", f"r{i % 4}", ITEMS[left], ITEMS[right], outcome,
                at=1e9 + (i // 4) * every_s,
            )  # fmt: skip


def data_of(records: Iterator[bbq.Comparison]) -> bbq.Comparisons:
    return bbq.Comparisons.from_comparisons(records)


@pytest.mark.parametrize("ties", [False, True])
def test_an_answer_stored_three_times_is_one_answer(*, ties: bool) -> None:
    once, thrice = (data_of(answers(times=times, ties=ties)) for times in (1, 3))
    assert not once.repeats
    assert once.repeats.n == 60
    found = thrice.repeats
    assert (found.n, found.n_rows, found.n_copied, found.n_rankings) == (60, 180, 60, 0)
    assert "180 rows are 60 answers stored again" in found.note()
    assert thrice.n_comparisons == 180
    merged = thrice.merged()
    assert merged.weight.sum() == pytest.approx(60)
    t, single = merged.triples, once.triples
    assert np.array_equal(t.winner, single.winner)
    assert t.weight == pytest.approx(single.weight)


def test_the_same_identifier_is_the_same_answer() -> None:
    rows = [bbq.Comparison("a", "ann", "oak", "elm", "left") for _ in range(3)]
    rows += [bbq.Comparison("b", "ann", "oak", "elm", "left")]
    assert data_of(iter(rows)).repeats.answer.tolist() == [0, 0, 0, 1]


def test_a_coarse_time_tells_nothing() -> None:
    """A day holds many answers, and some of them may well be the same."""
    assert not data_of(answers(400, every_s=0.0)).repeats


def test_another_rater_another_outcome_or_other_items_are_other_answers() -> None:
    rows = [
        bbq.Comparison("1", "ann", "oak", "elm", "left", at=1.0),
        bbq.Comparison("2", "bob", "oak", "elm", "left", at=1.0),
        bbq.Comparison("3", "ann", "oak", "elm", "left", at=2.0),
        bbq.Comparison("4", "cid", "oak", "elm", "left", at=3.0),
        bbq.Comparison("5", "cid", "oak", "elm", "right", at=3.0),
        bbq.Comparison("6", "dan", "oak", "elm", "left", at=4.0),
        bbq.Comparison("7", "dan", "elm", "oak", "right", at=4.0),
    ]
    # The last two say the same with the sides swapped.
    assert data_of(iter(rows)).repeats.answer.tolist() == [0, 1, 2, 3, 4, 5, 5]


def rankings(n: int = 20, m: int = 4) -> Iterator[bbq.Comparison]:
    rng = np.random.default_rng(1)
    for i in range(n):
        order = rng.permutation(5)[:m]
        for place, (a, b) in enumerate(combinations(order, 2)):
            sides = ((a, b, "left"), (b, a, "right"))[int(rng.integers(2))]
            yield bbq.Comparison(
                f"{i}.{place}", f"r{i % 3}", ITEMS[sides[0]], ITEMS[sides[1]],
                "left" if sides[2] == "left" else "right", at=1e9 + 60.0 * i,
            )  # fmt: skip


def test_a_ranking_written_as_pairs_is_one_answer_and_weighs_as_one() -> None:
    data = data_of(rankings())
    found = data.repeats
    assert (found.n, found.n_rankings, found.n_rows) == (20, 20, 0)
    assert "20 rankings came as single pairs" in found.note()
    weight = break_ranking(["a", "b", "c", "d"])[0][2]
    assert data.merged().weight == pytest.approx(weight)


def test_pairs_in_no_order_are_no_ranking() -> None:
    rows = [
        bbq.Comparison(f"{i}", "ann", a, b, "left", at=5.0)
        for i, (a, b) in enumerate([("oak", "elm"), ("elm", "ash"), ("ash", "oak")])
    ]
    assert not data_of(iter(rows)).repeats


def test_pairs_of_a_slate_are_one_answer_and_nothing_to_report() -> None:
    rows = [
        bbq.Comparison(f"{i}", "ann", a, b, "left", 0.7, slate="s", at=5.0)
        for i, (a, b) in enumerate([("oak", "elm"), ("oak", "ash"), ("elm", "ash")])
    ]
    found = data_of(iter(rows)).repeats
    assert found.answer.tolist() == [0, 0, 0]
    assert not found


def test_a_fit_tells_of_repeats_and_merges_them_when_asked() -> None:
    once, thrice = (data_of(answers(times=times)) for times in (1, 3))
    kept = bbq.fit(thrice, priors="paper", camps=1)
    assert any("stored again" in text for text in kept.warnings)
    merged = bbq.fit(thrice, priors="paper", camps=1, repeats="merge")
    single = bbq.fit(once, priors="paper", camps=1)
    assert merged.theta == pytest.approx(single.theta, abs=1e-6)
    assert kept.theta != pytest.approx(single.theta, abs=1e-3)
    assert merged.data.n_comparisons == 180
    assert any("counts once, as asked" in text for text in merged.warnings)
    with pytest.raises(UsageError, match="expected keep or merge"):
        bbq.fit(once, repeats="drop")  # type: ignore[arg-type]


def test_the_sequential_test_takes_an_answer_once() -> None:
    once, thrice = (
        bbq.Comparisons.from_comparisons(
            bbq.Comparison(f"{i}.{copy}", f"r{i % 5}", "oak", "elm", "left", at=float(i))
            for i in range(6)
            for copy in range(times)
        )
        for times in (1, 3)
    )
    values = [
        stopping(fit, bbq.leaderboard(fit)).pairs[0].e_value
        for fit in (bbq.fit(data) for data in (once, thrice))
    ]
    assert values[0] == pytest.approx(values[1])
