from __future__ import annotations

from math import inf, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbq_plugin.data.dataset import SKIPPED_KEPT, Comparisons
from bbq_plugin.data.records import Comparison, Outcome, Skipped
from bbq_plugin.errors import DataError
from tests.strategies import comparisons, records


def wins(data: Comparisons) -> dict[tuple[str | None, str, str], float]:
    """The weight of each named win, however the rows are ordered and coded."""
    total: dict[tuple[str | None, str, str], float] = {}
    for rater, winner, loser, weight in zip(
        data.rater, data.winner, data.loser, data.weight, strict=True
    ):
        key = (
            data.raters[rater] if data.has_raters else None,
            data.items[winner],
            data.items[loser],
        )
        total[key] = total.get(key, 0.0) + float(weight)
    return total


def test_codes_follow_the_order_of_first_appearance() -> None:
    data = Comparisons.from_records([("bob", "c", "a", 2.0), ("ann", "a", "b")])
    assert data.items == ("c", "a", "b")
    assert data.raters == ("bob", "ann")
    assert data.winner.tolist() == [0, 1]
    assert data.loser.tolist() == [1, 2]
    assert data.weight.tolist() == [2.0, 1.0]
    assert (data.n_comparisons, data.n_items, data.n_raters) == (2, 3, 2)
    assert data.winner.dtype == np.int32
    assert data.weight.dtype == np.float64


def test_a_tie_is_two_half_wins_and_one_comparison() -> None:
    data = Comparisons.from_comparisons(
        [Comparison("1", "ann", "a", "b", "tie", 3.0), Comparison("2", "ann", "a", "b", "both_bad")]
    )
    assert wins(data) == {("ann", "a", "b"): 2.0, ("ann", "b", "a"): 2.0}
    assert (data.n_comparisons, data.n_ties, data.n_both_bad) == (2, 1, 1)


def test_the_rate_of_both_bad_is_counted_for_each_item() -> None:
    answers = [
        Comparison("1", None, "a", "b", "both_bad", 7.0),
        Comparison("2", None, "b", "a", "tie"),
        Comparison("3", None, "c", "b", "left"),
        Comparison("4", None, "d", "c", "both_bad"),
    ]
    data = Comparisons.from_comparisons(answers)
    assert data.both_bad_rate is not None
    assert data.both_bad_rate.dtype == np.float64
    rate = dict(zip(data.items, data.both_bad_rate, strict=True))
    assert rate == pytest.approx({"a": 1 / 2, "b": 1 / 3, "c": 1 / 2, "d": 1.0})
    assert Comparisons.from_comparisons(answers[1:3]).both_bad_rate is None
    assert Comparisons.from_records([(None, "a", "b")]).both_bad_rate is None


def test_sides_are_counted_with_and_without_raters() -> None:
    def sides(outcomes: str, raters: list[str | None], slate: str | None = None) -> Any:
        said: dict[str, Outcome] = {"l": "left", "r": "right", "t": "tie", "b": "both_bad"}
        data = Comparisons.from_comparisons(
            Comparison(str(i), rater, "a", "b", said[letter], slate=slate)
            for i, (letter, rater) in enumerate(zip(outcomes, raters, strict=True))
        )
        assert data.has_raters or data.left_rate is None
        return data.n_left, data.n_sided

    nobody: list[str | None] = [None] * 6
    assert sides("llrltb", nobody) == sides("llrltb", ["ann"] * 6) == (3, 4)
    # All on one side: without names that is how a file that puts the winner first looks.
    assert sides("llltll", nobody) == sides("llllll", list("abcdef")) == (0, 0)
    assert sides("rrrrrr", nobody) == sides("tttttb", nobody) == (0, 0)
    assert sides("llllll", ["ann"] * 6) == (6, 6)
    assert sides("llrltt", nobody, slate="s") == (0, 0)


def test_left_and_right_outcomes_name_the_winner() -> None:
    data = Comparisons.from_comparisons(
        [Comparison("1", "ann", "a", "b", "left"), Comparison("2", "ann", "a", "c", "right")]
    )
    assert wins(data) == {("ann", "a", "b"): 1.0, ("ann", "c", "a"): 1.0}


def test_without_raters_nobody_is_invented() -> None:
    data = Comparisons.from_records([(None, "a", "b"), (None, "b", "a")])
    assert not data.has_raters
    assert data.raters == ()
    assert data.n_raters == 0
    assert data.rater.tolist() == [0, 0]
    assert data.triples.n_raters == 1


def test_how_often_a_rater_goes_left_counts_decided_answers_shown_side_by_side() -> None:
    data = Comparisons.from_comparisons(
        [
            Comparison("1", "ann", "a", "b", "left"),
            Comparison("2", "ann", "a", "b", "left"),
            Comparison("3", "ann", "a", "b", "right"),
            Comparison("4", "ann", "a", "b", "tie"),
            Comparison("5", "ann", "a", "b", "left", slate="s1"),
            Comparison("6", "bob", "a", "b", "tie"),
        ]
    )
    assert data.left_rate is not None
    assert data.left_rate[0] == pytest.approx(2 / 3)
    assert np.isnan(data.left_rate[1])


@pytest.mark.parametrize(("n_raters", "known"), [(4, True), (5, False)])
def test_a_file_that_always_puts_the_winner_first_has_no_sides(n_raters: int, known: bool) -> None:
    data = Comparisons.from_comparisons(
        Comparison(f"c{i}", f"r{i}", "a", "b", "left") for i in range(n_raters)
    )
    assert (data.left_rate is not None) == known


def test_sides_and_times_that_nobody_recorded_are_none() -> None:
    data = Comparisons.from_comparisons([Comparison("1", "ann", "a", "b", "left", slate="s")])
    assert data.left_rate is None
    assert data.median_time_s is None
    assert Comparisons.from_records([("ann", "a", "b")]).left_rate is None


@given(st.lists(st.tuples(st.integers(0, 3), st.one_of(st.none(), st.floats(0, 100))), min_size=1))
def test_median_time_is_the_median_of_each_rater(answers: list[tuple[int, float | None]]) -> None:
    data = Comparisons.from_comparisons(
        Comparison(f"{i}", f"r{rater}", "a", "b", "left", time_s=time_s)
        for i, (rater, time_s) in enumerate(answers)
    )
    for code, name in enumerate(data.raters):
        times = [t for rater, t in answers if f"r{rater}" == name and t is not None]
        if data.median_time_s is None:
            assert not times
        elif times:
            assert data.median_time_s[code] == pytest.approx(np.median(times))
        else:
            assert np.isnan(data.median_time_s[code])


@given(comparisons())
def test_weight_is_neither_lost_nor_made(answers: list[Comparison]) -> None:
    data = Comparisons.from_comparisons(answers)
    assert data.n_comparisons == len(answers)
    assert data.weight.sum() == pytest.approx(sum(c.weight for c in answers))


@given(records(), st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_the_names_order_and_nothing_else(
    rows: list[tuple[str, str, str, float]], random: Any
) -> None:
    shuffled = rows.copy()
    random.shuffle(shuffled)
    assert wins(Comparisons.from_records(shuffled)) == pytest.approx(
        wins(Comparisons.from_records(rows))
    )


@given(records())
def test_records_and_coded_arrays_are_the_same_data(
    rows: list[tuple[str, str, str, float]],
) -> None:
    named = Comparisons.from_records(rows)
    coded = Comparisons.from_arrays(
        named.rater.astype(np.int64),
        named.winner.astype(np.uint8),
        named.loser.tolist(),
        named.weight,
        raters=named.raters,
        items=named.items,
    )
    assert wins(coded) == wins(named)
    assert coded.n_comparisons == named.n_comparisons


@pytest.mark.parametrize("items", [6, 50_000])
def test_triples_of_many_rows_are_counted_on_several_threads(
    items: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BBQ_THREADS", "3")
    monkeypatch.setattr("bbq_plugin.data.triples.ROWS_SORTED", 20_000)
    rng = np.random.default_rng(0)
    rater, winner = rng.integers(0, 1_000, 90_000), rng.integers(0, items, 90_000)
    loser = (winner + 1) % items
    triples = Comparisons.from_arrays(
        rater, winner, loser, items=list(map(str, range(items)))
    ).triples
    rows, counts = np.unique(np.stack((rater, winner, loser)), axis=1, return_counts=True)
    assert np.array_equal(np.stack((triples.rater(), triples.winner, triples.loser)), rows)
    assert np.array_equal(triples.weight, counts)
    assert np.array_equal(np.diff(triples.start), np.bincount(rows[0], minlength=1_000))


@given(records())
def test_triples_hold_every_distinct_win_once_in_order(
    rows: list[tuple[str, str, str, float]],
) -> None:
    data = Comparisons.from_records(rows)
    triples = data.triples
    assert triples is data.triples
    rater = np.repeat(np.arange(data.n_raters), np.diff(triples.start))
    codes = list(zip(rater.tolist(), triples.winner.tolist(), triples.loser.tolist(), strict=True))
    assert codes == sorted(set(codes))
    named = {
        (data.raters[r], data.items[w], data.items[lo]): weight
        for (r, w, lo), weight in zip(codes, triples.weight.tolist(), strict=True)
    }
    assert named == pytest.approx(wins(data))


def test_arrays_of_the_right_type_are_not_copied() -> None:
    rater, winner, loser = (np.array([c], dtype=np.int32) for c in (0, 1, 0))
    data = Comparisons.from_arrays(rater, winner, loser, np.ones(1))
    assert data.rater is rater
    assert data.winner is winner
    assert data.items == ("0", "1")
    assert data.raters == ("0",)


def test_items_that_were_never_compared_keep_their_names() -> None:
    data = Comparisons.from_arrays(None, [0], [1], items=["a", "b", "c"])
    assert data.items == ("a", "b", "c")
    assert not data.has_raters


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("r", "a", "b", nan)], "row 0 .*weight is nan"),
        ([("r", "a", "b"), ("r", "a", "b", inf)], "row 1 .*weight is inf"),
        ([("r", "a", "b", -1.0)], "weight is -1.0"),
        ([("r", "a", "b", 0.0)], "weight is 0.0.*drop"),
        ([("r", "a", "b", "1")], "weight is '1'"),
        ([("r", "a", "b"), ("r", "c", "c")], "row 1 .*'c' is compared with itself"),
        ([("r", "", "b")], "row 0 .*item has an empty name"),
        ([("r", "a", "  ")], "row 0 .*item has an empty name"),
        ([("", "a", "b")], "row 0 .*rater has an empty name"),
        ([("r", 1, "b")], "row 0 .*item is 1, not text"),
        ([("r", "a")], "row 0 .*expected \\(rater, winner, loser\\)"),
        (["abc"], "row 0 .*'abc'"),
        ([("r", "a", "b"), (None, "a", "b")], "row 1 .*has no rater"),
        ([(None, "a", "b"), ("r", "a", "b")], "row 1 .*has a rater \\('r'\\)"),
        ([], "no comparisons"),
    ],
)
def test_a_bad_record_is_refused_by_its_row(rows: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Comparisons.from_records(rows)


@pytest.mark.parametrize(
    ("arrays", "names", "message"),
    [
        (([0, 0], [0, 1], [1, 1]), {}, "row 1 .*'1' is compared with itself"),
        (([0], [0], [1], [nan]), {}, "row 0 .*weight is nan"),
        (([0, 0], [0, 0], [1, 1], [1.0, inf]), {}, "row 1 .*weight is inf"),
        (([0], [0], [1], [0.0]), {}, "row 0 .*weight is 0.0"),
        (([0], [0], [1], [-2.0]), {}, "row 0 .*weight is -2.0"),
        (([0], [0], [1], ["x"]), {}, "weight is not numeric"),
        (([0], [0], [1], [1.0, 1.0]), {}, "weight has shape"),
        (([0], [-1], [1]), {}, "row 0 .*item code is -1"),
        (([0], [0], [2]), {"items": ["a", "b"]}, "row 0 .*item code is 2; there are 2 names"),
        (([0, 5], [0, 0], [1, 1]), {"raters": ["r"]}, "row 1 .*rater code is 5"),
        (([10**9], [0], [1]), {}, "rater code is 1000000000.*without large gaps"),
        (([0], [0.0], [1]), {}, "winner has type float64"),
        (([0], [[0]], [1]), {}, "winner has 2 dimensions"),
        (([0], [0, 1], [1]), {}, "loser has 1 rows, winner has 2"),
        (([0], [0], [1]), {"items": ["a", ""]}, "item name 1 .*empty"),
        (([0], [0], [1]), {"items": ["a", "a"]}, "'a' is there already"),
        ((None, [0], [1]), {"raters": ["r"]}, "rater is None"),
        (([], [], []), {}, "no comparisons"),
    ],
)
def test_a_bad_code_is_refused_by_its_row(
    arrays: tuple[Any, ...], names: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        Comparisons.from_arrays(*arrays, **names)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (Comparison("k1", "r", "a", "b", "maybe"), "record 0 .*key 'k1'.*outcome is 'maybe'"),  # type: ignore[arg-type]
        (Comparison("k1", "r", "a", "a", "left"), "compared with itself"),
        (Comparison("k1", "r", "a", "b", "left", nan), "weight is nan"),
        (("r", "a", "b"), "expected Comparison or Skipped"),
    ],
)
def test_a_bad_comparison_is_refused_by_its_key(record: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Comparisons.from_comparisons([record])


def test_skipped_rows_are_all_counted_and_the_first_are_kept() -> None:
    n = SKIPPED_KEPT + 5
    data = Comparisons.from_comparisons(
        [
            Comparison("1", None, "a", "b", "left"),
            *(Skipped(f"f:{i}", "an item against itself") for i in range(n)),
        ],
        skipped=[Skipped("f:0", "no winner recorded")],
    )
    assert data.n_skipped == n + 1
    assert data.skip_reasons == {"no winner recorded": 1, "an item against itself": n}
    assert len(data.skipped) == SKIPPED_KEPT
    assert data.skipped[0].reason == "no winner recorded"


def test_when_every_row_was_skipped_the_error_says_why() -> None:
    with pytest.raises(DataError, match="all 2 rows were skipped \\(2 × no winner recorded\\)"):
        Comparisons.from_comparisons([Skipped("f:1", "no winner recorded")] * 2)
