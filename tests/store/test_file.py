"""The file of a store: who may open it, its columns, its history, and how it is looked up."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from bbq_plugin.data.records import Batch, TaskRef
from bbq_plugin.errors import DataError, StoreBusyError, StoreError
from bbq_plugin.live.event_ingest import event_reader, take
from bbq_plugin.protocols import ParsedEvent
from bbq_plugin.store import Store, coded_columns, holder, read_store, studies
from bbq_plugin.store.database_file import blames_store
from bbq_plugin.store.project_sync import Memory
from bbq_plugin.store.schema import APPLICATION_ID, MIGRATIONS, VERSION
from bbq_plugin.store.transaction import SourceLog
from tests.store.answers import answer, ranking

if TYPE_CHECKING:
    from pathlib import Path


# -- columns on disk


def test_columns_hold_what_the_rows_hold_after_any_change(monkeypatch: Any, store: Store) -> None:
    monkeypatch.setattr(coded_columns, "CHUNK_ROWS", 10)
    for start in range(0, 100, 7):
        store.add(
            [answer(f"k{i}", rater=f"r{i % 5}", time_s=i / 7) for i in range(start, start + 9)]
        )
        store.retract([f"k{start}"])
    rows = coded_columns.rows_between(store.db, 0)
    loaded = store.load()
    for name, column in rows.items():
        np.testing.assert_array_equal(loaded[name], column)
    (n_chunks,) = store.db.execute("SELECT count(*) FROM chunk").fetchone()
    assert n_chunks > 3


def test_damaged_columns_are_noticed_and_can_be_written_anew(
    monkeypatch: Any, store: Store
) -> None:
    monkeypatch.setattr(coded_columns, "CHUNK_ROWS", 4)
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
        "import signal, sys; from bbq_plugin.store import Store; s = Store(sys.argv[1]); "
        "print('open', flush=True); signal.pause()"
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
        "import sys; from bbq_plugin.store import Store; "
        "from bbq_plugin.data.records import Comparison as C; s = Store(sys.argv[1])\n"
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
        "import os, signal, sys; from bbq_plugin.store import Store; s = Store(sys.argv[1])\n"
        "if os.fork() == 0:\n    print(os.getpid(), flush=True); signal.pause()\n"
        "signal.pause()"
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


@pytest.mark.parametrize(
    ("error", "blamed"),
    [
        (sqlite3.OperationalError("disk I/O error"), True),
        (sqlite3.DatabaseError("database disk image is malformed"), True),
        (StoreError("it is full"), True),
        (sqlite3.IntegrityError("NOT NULL constraint failed"), False),
        (DataError("is no answer"), False),
        (ValueError("of an adapter"), False),
    ],
)
def test_a_fault_of_the_disk_is_not_blamed_on_what_was_to_be_stored(
    error: Exception, blamed: bool
) -> None:
    assert blames_store(error) == blamed


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
    monkeypatch.setattr(studies, "MOST_HISTORY", 20)
    store.add([answer("1")])
    for i in range(100):
        store.add_history(float(i), i, "full", [("x", 1000.0 + i, None, None, 1)])
    times = [point.at for point in store.history()]
    assert len(times) <= 21
    assert times[0] == 0.0
    assert times[-5:] == [95.0, 96.0, 97.0, 98.0, 99.0]
    (rows,) = store.db.execute("SELECT count(*) FROM history_item").fetchone()
    assert rows == len(times)


# -- lookups, and stores of before


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
    reader, task = event_reader("label-studio"), TaskRef("ls:1:task:3", 1, 3)
    for one in (others[0], known, others[1]):
        news = ParsedEvent("made", "1", (one,), answers=((task, one.key),))
        with store.transaction() as transaction:
            take(transaction, reader, [news], "webhook", "", 0.0)
    with store.transaction() as transaction:
        take(transaction, reader, [ParsedEvent("gone", "1", gone=(known.key,))], "webhook", "", 0.0)
    store.db.set_trace_callback(None)
    memory = Memory(store, "label-studio", 1, "http://server")
    store.db.set_trace_callback(said.append)
    assert memory.told_tasks() == {3}
    with store.transaction() as transaction:
        assert memory.told_keys(task) == {known.key, *(one.key for one in others)}
        transaction.retract_known([others[0].key], memory.last_id())
        memory.save_page(transaction, {}, [], {task: [others[1].key]}, {})
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
    with sqlite3.connect(path) as db:
        db.executescript(
            f"{''.join(MIGRATIONS[:6])} PRAGMA application_id = {APPLICATION_ID};"
            "PRAGMA user_version = 6;"
        )
        project = (1, "label-studio", 1, "http://server", "{}", "{}", 0.0)
        db.execute("INSERT INTO remote VALUES (?, ?, ?, ?, ?, ?, ?)", project)
        pages = [(1, task, "", 1, 0, "[]") for task in (3, 33)]
        db.executemany("INSERT INTO remote_task VALUES (?, ?, ?, ?, ?, ?)", pages)
        names = [f"ls:1:task:{own}" for own in (3, 4, "04", "x", 33, 333)] + ["ls:12:task:3"]
        db.executemany("INSERT INTO task_answer VALUES (?, 'k')", [(name,) for name in names])
    db.close()
    with Store(path) as store:
        assert Memory(store, "label-studio", 1, "http://server").told_tasks() == {4, 333}
        assert store.rows("SELECT task FROM told_task WHERE project = 12") == [(3,)]


def test_a_plain_copy_of_a_store_in_use_names_the_way_to_copy_it(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        store.add([answer("a")])
        copy = tmp_path / "copy.db"
        copy.write_bytes((tmp_path / "s.db").read_bytes())
        with pytest.raises(StoreError, match=r"this store is empty; .*'bbq store backup'"):
            Store(copy, writable=False)


def test_a_store_whose_pulls_counted_rows_again_lets_the_next_one_count_them_all(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s.db"
    with sqlite3.connect(path) as db:
        db.executescript(
            f"{''.join(MIGRATIONS[:10])} PRAGMA application_id = {APPLICATION_ID};"
            "PRAGMA user_version = 10;"
        )
        db.executescript(
            "INSERT INTO source (study, kind, name, status, n_rows, n_skipped, skipped, at) VALUES "
            "(1, 'pull', 'p', 'read', 9, 6, '{\"cancelled\":6}', 0.0), "
            "(1, 'file', 'f', 'read', 5, 1, '{\"cancelled\":1}', 0.0);"
        )
        state = '{"fingerprint":"abc","plan":{"controls":["pw"]}}'
        project = (1, "label-studio", 1, "http://server", "{}", state, 0.0)
        db.execute("INSERT INTO remote VALUES (?, ?, ?, ?, ?, ?, ?)", project)
    db.close()
    with Store(path) as store:
        assert [(one.n_rows, dict(one.skipped)) for one in store.ledger()] == [
            (0, {}), (5, {"cancelled": 1})
        ]  # fmt: skip
        # Without the fingerprint all is read again; how it was read helps.
        known = Memory(store, "label-studio", 1, "http://server").state
    assert known == {"plan": {"controls": ["pw"]}}
