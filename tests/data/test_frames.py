"""Comparisons from data frames of every kind, as the same rows of a file would give them."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import bbq_plugin as bbq
from bbq_plugin.errors import DataError, UnsupportedError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

pa = pytest.importorskip("pyarrow", reason="data frames need the extra 'frames'")
pytest.importorskip("narwhals", reason="data frames need the extra 'frames'")

Make = Callable[[dict[str, list[Any]]], Any]


def pandas_frame(columns: dict[str, list[Any]]) -> Any:
    return pytest.importorskip("pandas").DataFrame(columns)


def polars_frame(columns: dict[str, list[Any]]) -> Any:
    return pytest.importorskip("polars").DataFrame(columns)


def polars_query(columns: dict[str, list[Any]]) -> Any:
    return polars_frame(columns).lazy()


def duckdb_relation(columns: dict[str, list[Any]]) -> Any:
    return pytest.importorskip("duckdb").connect().from_arrow(pa.table(columns))


MAKERS = [pandas_frame, polars_frame, polars_query, duckdb_relation, pa.table]
every_kind = pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)

VOTES: dict[str, list[Any]] = {
    "who": ["ann", "bob", "ann", "bob", "ann"],
    "a": ["<script>", "=1+1", "<script>", "x, y", "=1+1"],
    "b": ["=1+1", "x, y", "x, y", "<script>", "<script>"],
    "said": ["left", "right", "tie", "both_bad", "left"],
}
ROLES: dict[str, Any] = {"rater": "who", "left": "a", "right": "b", "outcome": "said"}


@every_kind
def test_a_frame_gives_what_the_same_records_give(make: Make) -> None:
    found = bbq.Comparisons.from_frame(make(VOTES), **ROLES)
    rows = zip(*VOTES.values(), strict=True)
    records = [bbq.Comparison(str(i), *row) for i, row in enumerate(rows)]
    wanted = bbq.Comparisons.from_comparisons(records)
    assert found.digest == wanted.digest
    assert set(found.items) == {"<script>", "=1+1", "x, y"}
    for name in ("n_comparisons", "n_ties", "n_both_bad", "n_sided", "n_left", "n_skipped"):
        assert getattr(found, name) == getattr(wanted, name)
    assert found.left_rate is not None
    assert wanted.left_rate is not None
    assert found.left_rate.tolist() == wanted.left_rate.tolist()


@every_kind
def test_winners_and_losers_have_no_sides(make: Make, tmp_path: Path) -> None:
    columns: dict[str, list[Any]] = {
        "rater": ["ann", "bob", "ann"], "winner": ["a", "b", "a"], "loser": ["b", "c", "c"],
        "weight": [1.0, 0.5, 2.0],
    }  # fmt: skip
    found = bbq.Comparisons.from_frame(
        make(columns), rater="rater", winner="winner", loser="loser", weight="weight"
    )
    path = tmp_path / "wins.csv"
    lines = [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    path.write_text("\n".join([",".join(columns), *lines]) + "\n")
    assert found.digest == bbq.read(path).digest
    assert (found.n_sided, found.left_rate) == (0, None)


@every_kind
def test_missing_values_are_counted_skips(make: Make) -> None:
    columns: dict[str, list[Any]] = {
        "who": ["ann", "ann", "ann", None, "ann", "ann"],
        "a": ["x", None, "x", "x", "y", "x"],
        "b": ["y", "y", "y", "y", "y", " "],
        "said": ["left", "left", None, "right", "left", "left"],
    }
    found = bbq.Comparisons.from_frame(make(columns), **ROLES)
    assert found.n_comparisons == 1
    assert dict(found.skip_reasons) == {
        "an item has no name": 2,
        "an item against itself": 1,
        "no winner recorded": 1,
        "no rater in this row, while others have one": 1,
    }
    assert {skipped.where for skipped in found.skipped} == {f"row {i}" for i in range(1, 6)}
    (warning,) = found.warnings
    assert warning.startswith("5 of 6 rows")


@every_kind
def test_an_unknown_outcome_is_an_error_that_names_row_and_value(make: Make) -> None:
    wrong = {**VOTES, "said": ["left", "right", "tie", "lefty", "left"]}
    with pytest.raises(DataError, match=r"row 3 \(counted from 0\): column 'said' is 'lefty'"):
        bbq.Comparisons.from_frame(make(wrong), **ROLES)


@every_kind
def test_values_say_what_an_outcome_means_and_nothing_else_does(make: Make) -> None:
    # An item is called 1, and 1 means left.
    columns: dict[str, list[Any]] = {"a": ["1", "2"], "b": ["2", "1"], "said": [1, 2]}
    roles: dict[str, Any] = {"left": "a", "right": "b", "outcome": "said"}
    found = bbq.Comparisons.from_frame(make(columns), **roles, values={1: "left", 2: "right"})
    assert [found.items[i] for i in found.winner] == ["1", "1"]
    with pytest.raises(DataError, match=r"row 1 .* is 2; expected 1 "):
        bbq.Comparisons.from_frame(make(columns), **roles, values={1: "left"})
    with pytest.raises(UsageError, match="means 'won'"):
        bbq.Comparisons.from_frame(make(columns), **roles, values={1: "won"})


def test_the_winner_may_be_named_unless_the_name_is_a_word() -> None:
    roles: dict[str, Any] = {"left": "a", "right": "b", "outcome": "said"}
    columns: dict[str, list[Any]] = {"a": ["x", "y"], "b": ["y", "x"], "said": ["y", "tie"]}
    found = bbq.Comparisons.from_frame(pa.table(columns), **roles)
    assert found.items[int(found.winner[0])] == "y"
    assert found.n_ties == 1
    clash = {"a": ["y", "left"], "b": ["left", "y"], "said": ["left", "left"]}
    with pytest.raises(DataError, match=r"row 0 .*'left' is also the name of an item"):
        bbq.Comparisons.from_frame(pa.table(clash), **roles)


@every_kind
def test_large_numbers_as_names_stay_exact(make: Make) -> None:
    first, second = 2**60 + 1, 2**60 + 2
    found = bbq.Comparisons.from_frame(
        make({"won": [first, second, first], "lost": [second, first, second]}),
        winner="won", loser="lost",
    )  # fmt: skip
    assert set(found.items) == {str(first), str(second)}


def test_whole_numbers_of_a_column_with_gaps_have_no_decimal_point() -> None:
    frame = pandas_frame({"won": [1, 2, None], "lost": [2.0, 3, 1]})
    found = bbq.Comparisons.from_frame(frame, winner="won", loser="lost")
    assert found.items == ("1", "2", "3")
    assert found.n_skipped == 1


def test_categories_that_no_row_has_are_no_items() -> None:
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    kinds = ["a", "b", "unused"]
    won = pandas.Categorical(["b", "a", None], categories=kinds)
    frame = pandas.DataFrame({"won": won, "lost": ["a", "b", "a"]})
    found = bbq.Comparisons.from_frame(frame, winner="won", loser="lost")
    assert set(found.items) == {"a", "b"}
    assert found.n_skipped == 1
    enum = polars.DataFrame(
        {"won": ["b", "a"], "lost": ["a", "b"]}, schema={"won": polars.Enum(kinds), "lost": str}
    )
    assert set(bbq.Comparisons.from_frame(enum, winner="won", loser="lost").items) == {"a", "b"}


def test_chunks_with_dictionaries_of_their_own_are_one_column() -> None:
    chunks = [pa.array(["a", "b"]).dictionary_encode(), pa.array(["c", "a"]).dictionary_encode()]
    table = pa.table({"won": pa.chunked_array(chunks), "lost": ["b", "c", "a", "b"]})
    found = bbq.Comparisons.from_frame(table, winner="won", loser="lost")
    assert [found.items[i] for i in found.winner] == ["a", "b", "c", "a"]


@every_kind
def test_moments_durations_and_tags_come_along(make: Make) -> None:
    start = dt.datetime(2024, 1, 1, tzinfo=dt.UTC).replace(tzinfo=None)
    columns: dict[str, list[Any]] = {
        "who": ["u", "u", "v"], "won": ["a", "b", "a"], "lost": ["b", "a", "b"],
        "when": [start + dt.timedelta(days=1), start, start + dt.timedelta(days=2)],
        "took": [1.5, None, 3.0], "scene": ["s1", None, "s2"],
    }  # fmt: skip
    found = bbq.Comparisons.from_frame(
        make(columns), rater="who", winner="won", loser="lost", at="when", time_s="took",
        tags=["scene"],
    )  # fmt: skip
    assert found.answers is not None
    assert found.answers.dated
    assert np.asarray(found.answers.order).tolist() == [1, 0, 2]
    assert np.asarray(found.median_time_s).tolist() == [1.5, 3.0]
    assert found.tags["scene"].tolist() == [0, -1, 1]


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        ([1.0, 0.0], "row 1 .*weight is 0.0"),
        ([float("inf"), 1.0], "row 0 .*weight is inf"),
        (["2", "heavy"], "row 1 .*weight is 'heavy'"),
    ],
)
def test_a_bad_weight_is_an_error_with_its_row(weights: list[Any], says: str) -> None:
    table = pa.table({"won": ["a", "b"], "lost": ["b", "a"], "weight": weights})
    with pytest.raises(DataError, match=says):
        bbq.Comparisons.from_frame(table, winner="won", loser="lost", weight="weight")


@pytest.mark.parametrize(
    ("roles", "says"),
    [
        ({"winner": "won"}, "name left=, right= and outcome=, or winner= and loser="),
        ({"winner": "won", "loser": "list"}, "no column 'list'; did you mean 'lost'"),
        ({"winner": "won", "loser": "lost", "values": {1: "left"}}, "there is no outcome="),
    ],
)
def test_wrong_roles_are_refused(roles: dict[str, Any], says: str) -> None:
    table = pa.table({"won": ["a", "b"], "lost": ["b", "a"]})
    with pytest.raises(UsageError, match=says):
        bbq.Comparisons.from_frame(table, **roles)


def test_what_is_no_frame_or_no_name_is_refused() -> None:
    with pytest.raises(UsageError, match="takes a data frame"):
        bbq.Comparisons.from_frame([("a", "b")], winner="won", loser="lost")
    roles: dict[str, Any] = {"winner": "won", "loser": "lost"}
    with pytest.raises(DataError, match="column 'won' has values that are no names"):
        bbq.Comparisons.from_frame(pa.table({"won": [["a"]], "lost": ["b"]}), **roles)
    with pytest.raises(DataError, match=r"row 0 .*item is True"):
        bbq.Comparisons.from_frame(pa.table({"won": [True], "lost": ["b"]}), **roles)
    with pytest.raises(DataError, match="has no rows"):
        bbq.Comparisons.from_frame(pa.table({"won": [], "lost": []}), **roles)


@pytest.mark.parametrize("package", ["narwhals", "pyarrow"])
def test_without_the_extra_the_message_names_it(
    monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UnsupportedError, match=rf"{package}.*bbq-plugin\[frames\]"):
        bbq.Comparisons.from_frame(pa.table({"w": ["a"], "l": ["b"]}), winner="w", loser="l")
