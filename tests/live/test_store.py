"""What the store promises: each answer once, under its key, whatever happens in between."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bbq_plugin.comparisons import Batch, Comparison, Skipped, Whole
from bbq_plugin.errors import DataError, StoreBusyError, StoreError
from bbq_plugin.events import News
from bbq_plugin.feedback import TaskState
from bbq_plugin.live.events import take
from bbq_plugin.live.remote import Memory
from bbq_plugin.live.store import Store, chunks, holder, ledger, read_store
from bbq_plugin.live.store.reading import records_of
from bbq_plugin.live.store.schema import VERSION
from bbq_plugin.live.store.transaction import SourceLog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def answer(key: str, outcome: Any = "left", rater: str | None = "ann", **more: Any) -> Comparison:
    return Comparison(key, rater, more.pop("left", "x"), more.pop("right", "y"), outcome, **more)


@pytest.fixture
def store() -> Iterator[Store]:
    with Store(":memory:") as opened:
        yield opened


def held(store: Store) -> dict[str, str]:
    return {record.key: record.outcome for record in records_of(store)}


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


def ranking(key: str, *pairs: str, version: float = 1.0) -> list[Comparison]:
    return [
        answer(f"{key}:{i}", left=a, right=b, slate=key, version=version, at=1.0)
        for i, (a, b) in enumerate(map(tuple, pairs))
    ]


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
            [*records, Whole("ls:1:", as_of)],
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
        patch.setattr(chunks, "CHUNK_ROWS", 4)
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


# -- columns on disk


def test_columns_hold_what_the_rows_hold_after_any_change(monkeypatch: Any, store: Store) -> None:
    monkeypatch.setattr(chunks, "CHUNK_ROWS", 10)
    for start in range(0, 100, 7):
        store.add(
            [answer(f"k{i}", rater=f"r{i % 5}", time_s=i / 7) for i in range(start, start + 9)]
        )
        store.retract([f"k{start}"])
    rows = chunks.rows_between(store.db, 0)
    loaded = store.load()
    for name, column in rows.items():
        np.testing.assert_array_equal(loaded[name], column)
    (n_chunks,) = store.db.execute("SELECT count(*) FROM chunk").fetchone()
    assert n_chunks > 3


def test_damaged_columns_are_noticed_and_can_be_written_anew(
    monkeypatch: Any, store: Store
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_ROWS", 4)
    store.add([answer(f"k{i}") for i in range(9)])
    store.db.execute("UPDATE chunk SET data = zeroblob(length(data))")
    with pytest.raises(StoreError, match="bbq store vacuum"):
        store.load()
    assert "vacuum" in store.check()[0]
    store.vacuum()
    assert store.load()["id"].size == 9
    assert store.check() == []


def test_a_lost_row_is_noticed(store: Store) -> None:
    store.add([answer("1"), answer("2")])
    store.db.execute("DELETE FROM comparison WHERE key = '2'")
    assert any("the store's own count" in problem for problem in store.check())


def test_a_store_without_raters_is_whole(store: Store) -> None:
    store.add([answer("1", rater=None)])
    assert store.check() == []


# -- opening


def test_a_second_writer_is_told_who_holds_the_store(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with Store(path):
        with pytest.raises(StoreBusyError, match=f"process {os.getpid()} on .*since"):
            Store(path)
        found = holder(str(path))
        assert found is not None
        assert found.pid == os.getpid()
    assert holder(str(path)) is None
    Store(path).close()


def test_a_killed_writer_does_not_lock_the_store_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    script = (
        "import sys, time; from bbq_plugin.live.store import Store; s = Store(sys.argv[1]); "
        "print('open', flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "open\n"
        with pytest.raises(StoreBusyError, match=f"process {child.pid}"):
            Store(path)
        child.send_signal(signal.SIGKILL)
        child.wait()
    with Store(path) as store:
        store.add([answer("1")])


def test_readers_see_whole_transactions_while_a_writer_writes(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with Store(path) as writer:
        writer.add([answer("1")])
        with Store(path, writable=False) as reader:
            with writer.transaction() as transaction:
                transaction.add([answer("2")], "call", "", 0.0)
                assert reader.counts().n_comparisons == 1
            assert reader.counts().n_comparisons == 2
            with pytest.raises(StoreError, match="reading only"):
                reader.add([answer("3")])
        assert read_store(path).n_comparisons == 2


def test_a_reader_sees_names_and_answers_of_one_moment(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    script = (
        "import sys; from bbq_plugin.live.store import Store; "
        "from bbq_plugin.comparisons import Comparison as C; s = Store(sys.argv[1])\n"
        "for i in range(10_000):\n"
        "    s.add([C(f'k{i}', f'r{i}', f'a{i}', f'b{i}', 'left')])\n"
        "    print(i, flush=True)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "0\n"
        for _ in range(60):
            data = read_store(path)
            assert data.n_raters == data.n_comparisons
        child.kill()


def test_a_child_of_the_writer_does_not_keep_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    script = (
        "import os, sys, time; from bbq_plugin.live.store import Store; s = Store(sys.argv[1])\n"
        "if os.fork() == 0:\n    print(os.getpid(), flush=True); time.sleep(60)\n"
        "time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        child = int(writer.stdout.readline())
        writer.kill()
        writer.wait()
        try:
            Store(path).close()
        finally:
            os.kill(child, signal.SIGKILL)


def refuse(path: Path, match: str, *, writable: bool = True) -> None:
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(StoreError, match=match):
        Store(path, writable=writable)
    assert (path.read_bytes() if path.is_file() else None) == before, "never overwritten"


def test_what_is_no_store_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("these are my notes, and I would like to keep them\n" * 40)
    refuse(text, "damaged or no store at all")
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE mine (x)")
    db.close()
    refuse(other, "another program")
    refuse(tmp_path, "this is a folder")
    refuse(tmp_path / "no" / "s.db", "there is no folder")
    refuse(tmp_path / "no.db", "there is no such store", writable=False)


def test_a_damaged_store_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with Store(path) as store:
        store.add([answer(f"{i}") for i in range(2000)])
    data = bytearray(path.read_bytes())
    data[: 4096 * 2] = os.urandom(4096 * 2)
    path.write_bytes(data)
    refuse(path, "damaged")
    refuse(path, "damaged", writable=False)


def test_a_store_of_a_newer_version_is_refused_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    Store(path).close()
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {VERSION + 1}")
    db.close()
    refuse(path, "upgrade bbq-plugin")
    refuse(path, "upgrade bbq-plugin", writable=False)


def test_a_store_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    Store(path).close()
    assert path.stat().st_mode & 0o077 == 0


# -- history


def test_history_keeps_the_leaderboard_of_each_moment(store: Store) -> None:
    store.add([answer("1")])
    store.add_history(
        10.0, 1, "full", [("x", 1050.0, 1000.0, 1100.0, 1), ("y", 950.0, 900.0, None, 2)]
    )
    (point,) = store.history()
    assert (point.at, point.n_comparisons, point.how) == (10.0, 1, "full")
    assert point.items["y"].rank == 2
    assert point.items["y"].upper is None


def test_history_does_not_grow_without_end(monkeypatch: Any, store: Store) -> None:
    monkeypatch.setattr(ledger, "MOST_HISTORY", 20)
    store.add([answer("1")])
    for i in range(100):
        store.add_history(float(i), i, "full", [("x", 1000.0 + i, None, None, 1)])
    times = [point.at for point in store.history()]
    assert len(times) <= 21
    assert times[0] == 0.0
    assert times[-5:] == [95.0, 96.0, 97.0, 98.0, 99.0]
    (rows,) = store.db.execute("SELECT count(*) FROM history_item").fetchone()
    assert rows == len(times)


def test_no_lookup_goes_through_all_answers(store: Store) -> None:
    store.add([*ranking("s", "ab", "ac"), answer("1"), answer("2")], by_key=False)
    said: list[str] = []
    store.db.set_trace_callback(said.append)
    store.add([answer("1", rater="bob"), *ranking("s", "ba", version=2.0)], by_key=False)
    store.add([answer("1", "right"), answer("3")])
    batch = Batch(range(1, 3), ["ann", "bob"], ["x", "x"], ["y", "y"], b"\0\1", keys=["1", "9"])
    with store.transaction() as transaction:
        transaction.write([batch], 1, SourceLog("f", "", "", 0))
    store.retract(["2", "s"])
    known = answer("ls:1:7", tags={"gold": "truth"}, version=1.0, at=1.0)
    others = [answer(f"ls:1:{i}", rater=f"r{i}", version=1.0, at=1.0) for i in (8, 9)]
    for one in (others[0], known, others[1]):
        news = News("made", "1", (one,), answers=(("ls:1:task:3", one.key),))
        with store.transaction() as transaction:
            take(transaction, [news], "webhook", "", 0.0)
    with store.transaction() as transaction:
        take(transaction, [News("gone", "1", gone=(known.key,))], "webhook", "", 0.0)
    store.db.set_trace_callback(None)
    memory = Memory(store, "label-studio", 1, "http://server")
    store.db.set_trace_callback(said.append)
    assert memory.told_tasks() == {3}
    with store.transaction() as transaction:
        assert memory.told_keys(3) == {known.key, *(one.key for one in others)}
        transaction.retract_known([others[0].key], memory.last_id())
        memory.save_page(transaction, {}, [], {3: [others[1].key]})
    store.db.set_trace_callback(None)
    told = "INSERT OR IGNORE INTO told_task SELECT"
    assert any(text.startswith(told) for text in said)
    asked = {text for text in said if text.startswith(("SELECT", "DELETE", "UPDATE", told))}
    plans = [row[3] for text in asked for row in store.db.execute(f"EXPLAIN QUERY PLAN {text}")]
    scans = {plan for plan in plans if plan.startswith("SCAN comparison")}
    # Those that share a key are few, and have an index of their own.
    assert scans <= {"SCAN comparison USING INDEX comparison_twin"}
    assert not {plan for plan in plans if plan.startswith(("SCAN task_answer", "SCAN t"))}


def test_a_store_of_before_knows_which_tasks_only_events_told_of(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with Store(path) as store:
        memory = Memory(store, "label-studio", 1, "http://server")
        pages = [TaskState(task, "", 0.0, 1, 0, ()) for task in (3, 33)]
        with store.transaction() as transaction:
            memory.save_page(transaction, {}, pages, {})
            names = [f"ls:1:task:{own}" for own in (3, 4, "04", "x", 33, 333)] + ["ls:12:task:3"]
            transaction.db.executemany(
                "INSERT INTO task_answer VALUES (?, 'k')", [(name,) for name in names]
            )
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE told_task")
        db.execute("PRAGMA user_version = 6")
    db.close()
    with Store(path) as store:
        assert Memory(store, "label-studio", 1, "http://server").told_tasks() == {4, 333}
        assert store.rows("SELECT task FROM told_task WHERE project = 12") == [(3,)]
