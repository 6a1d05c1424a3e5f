"""What the store promises: each answer once, under its key, whatever happens in between."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bbq_plugin.data.records import Comparison, FullExport, Skipped
from bbq_plugin.errors import DataError
from bbq_plugin.store import Store, coded_columns
from bbq_plugin.store.store import records_of
from tests.store.answers import answer, held, ranking

# -- which record of an answer counts


def test_what_comes_later_under_the_same_key_replaces_what_was_there(store: Store) -> None:
    store.add([answer("1"), answer("2", "tie")])
    change, tally = store.add([answer("1", "right"), answer("2", "tie")])
    assert held(store) == {"1": "right", "2": "tie"}
    assert (tally.n_new, tally.n_changed, tally.n_same) == (0, 1, 1)
    assert (change.n_added, change.removed.size) == (1, 1)


@pytest.mark.parametrize("field", ["at", "version"])
def test_an_older_record_that_comes_late_changes_nothing(store: Store, field: str) -> None:
    older: dict[str, Any] = {field: 10.0}
    store.add([answer("1", "right", **{**older, field: 20.0})])
    _, tally = store.add([answer("1", "left", **older)])
    assert held(store) == {"1": "right"}
    assert tally.n_stale == 1


def test_the_same_key_twice_in_one_call_is_one_answer(store: Store) -> None:
    store.add([answer("1"), answer("1", "right"), answer("1", "tie")])
    assert held(store) == {"1": "tie"}
    assert store.counts().n_comparisons == 1


def test_an_id_that_names_a_pair_is_not_one_answer_of_many_people(store: Store) -> None:
    votes = [answer("pair 7", rater="ann"), answer("pair 7", "right", rater="bob")]
    store.add(votes, by_key=False)
    store.add(votes, by_key=False)
    assert store.counts().n_comparisons == 2
    assert sorted((r.rater, r.outcome) for r in records_of(store)) == [
        ("ann", "left"),
        ("bob", "right"),
    ]


def test_an_answer_with_a_version_may_change_its_items_and_its_rater(store: Store) -> None:
    store.add([answer("ls:1:5", version=1.0, at=1.0)], by_key=False)
    changed = answer("ls:1:5", rater="eve", left="p", right="q", version=2.0, at=1.0)
    store.add([changed], by_key=False)
    assert list(records_of(store)) == [changed]


def test_the_pairs_of_a_ranking_are_replaced_together(store: Store) -> None:
    store.add(ranking("s", "ab", "ac", "bc"), by_key=False)
    store.add(ranking("s", "ba", version=2.0), by_key=False)
    assert [(r.left, r.right) for r in records_of(store)] == [("b", "a")]
    store.add(ranking("s", "ab", "ac", "bc"), by_key=False)
    assert [(r.left, r.right) for r in records_of(store)] == [("b", "a")], "older"


def test_a_ranking_that_comes_again_keeps_its_place(store: Store) -> None:
    store.add(ranking("s", "ab", "ac", "bc"), by_key=False)
    change, tally = store.add(ranking("s", "ab", "ac", "bc"), by_key=False)
    assert not change
    assert tally.n_same == 3


def test_retracting_a_ranking_takes_all_its_pairs(store: Store) -> None:
    store.add([*ranking("s", "ab", "ac"), answer("1")], by_key=False)
    change, unknown = store.retract(["s", "nobody"])
    assert change.removed.size == 2
    assert unknown == ["nobody"]
    assert held(store) == {"1": "left"}


def test_what_was_retracted_may_be_added_again_but_not_what_was_deleted_at_its_source(
    store: Store,
) -> None:
    record = answer("ls:1:5", version=3.0, at=1.0)
    store.add([record], by_key=False)
    store.retract([record.key])
    store.add([record], by_key=False)
    assert held(store) == {"ls:1:5": "left"}
    store.retract([record.key], for_good=True)
    _, tally = store.add([record], by_key=False)
    assert held(store) == {}
    assert tally.n_stale == 1


def test_what_is_taken_back_as_of_a_time_spares_what_is_newer(store: Store) -> None:
    older, newer = (answer(f"ls:1:{i}", version=float(i), at=1.0) for i in (5, 9))
    store.add([older, newer], by_key=False)
    with store.transaction() as transaction:
        transaction.retract([older.key, newer.key], as_of=7.0)
    assert set(held(store)) == {newer.key}
    store.add([older], by_key=False)
    assert set(held(store)) == {newer.key}
    store.add([answer(older.key, "right", version=8.0, at=1.0)], by_key=False)
    assert set(held(store)) == {older.key, newer.key}


def test_what_was_known_at_a_moment_is_taken_back_and_what_came_since_is_not(
    store: Store,
) -> None:
    before = [answer("ls:1:5", version=5.0, at=1.0), *ranking("ls:1:6", "ab", "ac", version=5.0)]
    store.add([*before, answer("ls:1:7", version=5.0, at=1.0)], by_key=False)
    (moment,) = store.db.execute("SELECT max(id) FROM comparison").fetchone()
    store.add([answer("ls:1:7", "right", version=6.0, at=1.0)], by_key=False)
    with store.transaction() as transaction:
        taken = transaction.retract_known(["ls:1:5", "ls:1:6", "ls:1:7", "ls:1:8"], moment)
    assert taken == (3, ["ls:1:7"])
    store.add(before, by_key=False)
    assert held(store) == {"ls:1:7": "right"}
    store.add([answer("ls:1:5", "right", version=5.000001, at=1.0)], by_key=False)
    assert held(store) == {"ls:1:5": "right", "ls:1:7": "right"}


def test_an_answer_that_was_cancelled_later_is_taken_back_in_any_order(store: Store) -> None:
    record = answer("ls:1:5", version=1.0, at=1.0)
    cancelled = Skipped("e.json:1", "cancelled", key="ls:1:5", version=2.0, at=1.0, expected=True)
    store.add([record, cancelled], by_key=False)
    assert held(store) == {}
    store.add([record], by_key=False)
    assert held(store) == {}
    again = answer("ls:1:5", "right", version=3.0, at=1.0)
    store.add([again], by_key=False)
    assert held(store) == {"ls:1:5": "right"}


def full(store: Store, name: str, as_of: float, *records: Comparison) -> int:
    with store.transaction() as transaction:
        tally = transaction.add(
            [*records, FullExport("ls:1:", as_of)],
            "file",
            name,
            0.0,
            by_key=False,
        )
    return tally.n_retracted


def test_a_full_export_takes_back_what_it_no_longer_holds(store: Store) -> None:
    one, two = (answer(f"ls:1:{i}", version=float(i), at=1.0) for i in (1, 2))
    other = answer("ls:10:1", version=1.0, at=1.0)
    full(store, "old", 2.0, one, two)
    store.add([other], by_key=False)
    newer = answer("ls:1:3", version=3.0, at=1.0)
    assert full(store, "new", 3.0, two, newer) == 1
    assert set(held(store)) == {"ls:1:2", "ls:1:3", "ls:10:1"}


def test_an_older_full_export_that_comes_late_takes_nothing_back_and_brings_nothing_back(
    store: Store,
) -> None:
    one, two, three = (answer(f"ls:1:{i}", version=float(i), at=1.0) for i in (1, 2, 3))
    full(store, "new", 3.0, two, three)
    assert full(store, "old", 2.0, one, two) == 0
    assert set(held(store)) == {"ls:1:2", "ls:1:3"}


def test_an_answer_newer_than_the_export_stays(store: Store) -> None:
    one, two = (answer(f"ls:1:{i}", version=float(i), at=1.0) for i in (1, 9))
    store.add([two], by_key=False)
    full(store, "export", 1.0, one)
    assert set(held(store)) == {"ls:1:1", "ls:1:9"}


# -- whole transactions


def test_a_transaction_that_fails_leaves_nothing_behind(store: Store) -> None:
    store.add([answer("1")])
    with pytest.raises(DataError, match="outcome is 'banana'"):
        store.add([answer("2", left="new item", rater="new rater"), answer("3", "banana")])
    assert held(store) == {"1": "left"}
    assert store.counts() == (1, 2, 1)
    store.add([answer("4", left="new item")])
    assert store.check() == []


def test_a_part_that_fails_undoes_only_itself(store: Store) -> None:
    with store.transaction() as transaction:
        transaction.add([answer("1")], "call", "", 0.0)
        with pytest.raises(DataError), transaction.attempt():
            transaction.add([answer("1", "right"), answer("2", "banana")], "call", "", 0.0)
        transaction.add([answer("3", left="z")], "call", "", 0.0)
    assert held(store) == {"1": "left", "3": "left"}
    assert store.check() == []
    assert sorted(transaction.change.added["id"].tolist()) == store.load()["id"].tolist()


def test_names_are_only_ever_text(store: Store) -> None:
    nasty = "Robert'); DROP TABLE comparison;-- \u202e=cmd|' /C calc'!A0"
    store.add([answer(nasty, rater=nasty, left=nasty)])
    (back,) = records_of(store)
    assert (back.key, back.rater, back.left) == (nasty, nasty, nasty)
    assert store.retract([nasty])[0].removed.size == 1


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(
            st.just("add"),
            st.lists(
                st.tuples(
                    st.integers(0, 12), st.sampled_from(["left", "right", "tie"]),
                    st.sampled_from(["ann", "bob"]),
                ),
                max_size=6,
            ),
        ),
        st.tuples(st.just("retract"), st.lists(st.integers(0, 14), max_size=3)),
    ),
    max_size=12,
)  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(OPERATIONS)
def test_any_sequence_of_changes_is_what_a_dict_would_hold(operations: list[Any]) -> None:
    expected: dict[str, tuple[str, str]] = {}
    with Store(":memory:") as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr(coded_columns, "CHUNK_ROWS", 4)
        for what, values in operations:
            if what == "add":
                store.add([answer(f"k{i}", outcome, rater) for i, outcome, rater in values])
                expected |= {f"k{i}": (outcome, rater) for i, outcome, rater in values}
            else:
                store.retract([f"k{i}" for i in values])
                for i in values:
                    expected.pop(f"k{i}", None)
        found = {record.key: (record.outcome, record.rater) for record in records_of(store)}
        assert found == expected
        assert store.counts().n_comparisons == len(expected)
        assert store.check() == []
