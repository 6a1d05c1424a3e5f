"""A store of every earlier version, as its code wrote it, opened with the code of today."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import pytest

from bbq_plugin.data.records import Action, TaskRef, TaskState
from bbq_plugin.errors import StoreError
from bbq_plugin.store import Store, coded_columns, project_sync, read_store
from bbq_plugin.store.database_file import slate_code
from bbq_plugin.store.event_inbox import Inbox, settle_events
from bbq_plugin.store.schema import APPLICATION_ID, MIGRATIONS, VERSION
from bbq_plugin.store.store import records_of
from tests.store.answers import answer

if TYPE_CHECKING:
    from pathlib import Path

SERVER = ("label-studio", 1, "http://server")

# Each row as the code wrote it when the table came; no version has written one otherwise since.
ROWS: dict[str, dict[str, list[tuple[Any, ...]]]] = {
    "answers": {
        "item": [(1, "x"), (2, "y"), (3, "z")],
        "rater": [(1, "ann"), (2, "bob")],
        "source": [
            (1, "call", "", "read", None, None, 0, 0, None, None, None, "{}", 6, 0, "{}", "[]",
             5.0),
        ],
        "comparison": [
            (1, "plain", 0, None, 1, 1, 2, 0, 1.0, None, None, None, None, 1),
            (2, "shared", 0, None, 1, 1, 2, 2, 1.0, 10.0, 2.5, None, None, 1),
            (3, "shared", 1, None, 2, 2, 3, 1, 0.5, 11.0, None, None, None, 1),
            (5, "r:0", 0, "r", 2, 1, 2, 0, 1.0, 12.0, None, 12.0, None, 1),
            (6, "r:1", 0, "r", 2, 1, 3, 0, 1.0, 12.0, None, 12.0, None, 1),
            (7, "one", 0, "", 1, 3, 1, 0, 1.0, 13.0, None, 13.0, '{"gold":"left"}', 1),
        ],
        "retracted": [("gone", -1e300, float("inf"))],
        "fit": [(1, 5.0, b'{"how":"full","n_comparisons":6}')],
        "history": [(1, 4.0, 6, "full")],
        "history_item": [(1, 1, 1050.0, 1000.0, 1100.0, 1), (1, 2, 950.0, None, None, 2)],
        "counter": [("last_id", 8), ("n_comparisons", 6)],
    },
    "projects": {
        "remote": [(1, *SERVER, "{}", '{"after":9,"plan":{"kind":"pair"}}', 5.0)],
        "remote_task": [(1, 3, "2024-05-01", 1, 0, '["ls:1:7"]')],
        "journal": [
            (1, 1, "cancel", "answer 7", "excluded", "null", '{"was_cancelled":true}', 7, "begun",
             5.0, None),
        ],
    },
    "events": {
        "event": [(1, 5.0, b'{"action":"A"}', None), (2, 5.0, b'{"action":"B"}', "no project")],
        "task_answer": [
            ("ls:1:task:3", "ls:1:7"), ("ls:1:task:4", "ls:1:8"), ("ls:1:task:04", "ls:1:9"),
        ],
    },
    "event plans": {"event_plan": [("1", '{"kind":"pair"}')]},
    "notes": {"note": [("excluded", '["bob"]')]},
}  # fmt: skip

#: The parts of them that a version has.
SINCE = {"answers": 1, "projects": 2, "events": 3, "event plans": 5, "notes": 6}

#: What columns had and in how many bytes, by the first version of it; `slate` grew within 6, and is
#: a code of the name since 7, whose columns are not rewritten.
OLD_COLUMNS = {
    1: "id:q rater:i left:i right:i outcome:b slate:b weight:d time_s:d",
    4: "id:q rater:i left:i right:i outcome:b slate:b weight:d time_s:d at:d gold:b kept:b",
    6: "id:q rater:i left:i right:i outcome:b slate:i weight:d time_s:d at:d gold:b kept:b",
    7: "id:q rater:i left:i right:i outcome:b slate:i weight:d time_s:d at:d gold:b kept:b",
}


def old_store(path: Path, version: int, layout: str) -> None:
    """Make a store of a version: its tables, its rows, and its columns with one answer gone."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.executescript(
            f"PRAGMA journal_mode = WAL; BEGIN; {''.join(MIGRATIONS[: min(version, 7)])}"
            f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {version}; COMMIT;"
        )
        db.execute("DELETE FROM counter")
        for part, tables in ROWS.items():
            for table, rows in tables.items() if SINCE[part] <= version else ():
                places = ", ".join("?" * len(rows[0]))
                db.executemany(f"INSERT INTO {table} VALUES ({places})", rows)  # noqa: S608
        if version >= 7:
            # Made from the other tables when it came, and kept up to date since.
            db.execute("INSERT INTO told_task VALUES (1, 4)")
        data, ids = packed(layout, named=version >= 7)
        db.execute("INSERT INTO chunk VALUES (1, 7, ?, ?, ?)", (len(ids), data, crc32(data)))
        db.execute("INSERT INTO removed VALUES (4)")
        # The rows are those of 7: later versions are what becomes of it.
        db.executescript(f"BEGIN; {''.join(MIGRATIONS[7:version])} COMMIT;")


def packed(layout: str, *, named: bool) -> tuple[bytes, list[int]]:
    rows = {row[0]: row for row in ROWS["answers"]["comparison"]}
    rows[4] = (4, "gone", 0, None, 1, 1, 2, 0, 1.0, None, None, None, None, 1)
    ids = sorted(rows)
    values: dict[str, Any] = {
        "id": ids, "rater": [rows[i][4] - 1 for i in ids], "left": [rows[i][5] - 1 for i in ids],
        "right": [rows[i][6] - 1 for i in ids], "outcome": [rows[i][7] for i in ids],
        "slate": [slate_of(rows[i]) if named else rows[i][3] is not None for i in ids],
        "weight": [rows[i][8] for i in ids],
        "time_s": [rows[i][10] for i in ids], "at": [rows[i][9] for i in ids],
        "gold": [rows[i][12] is not None for i in ids], "kept": [0] * len(ids),
    }  # fmt: skip
    kinds = [field.split(":") for field in layout.split()]
    return b"".join(np.array(values[name], np.dtype(kind)).tobytes() for name, kind in kinds), ids


def slate_of(row: tuple[Any, ...]) -> int:
    return 0 if row[3] is None else slate_code(row[3] or row[1])


def new_store(path: Path) -> None:
    """The same answers, sources, history, events and notes, by the code of today."""
    with Store(path, clock=lambda: 5.0) as store:
        ranked: Any = {"rater": "bob", "at": 12.0, "version": 12.0, "slate": "r"}
        store.add(
            [
                answer("plain"),
                answer("shared", "tie", at=10.0, time_s=2.5),
                answer("shared", "right", "bob", left="y", right="z", weight=0.5, at=11.0),
                answer("gone"),
                answer("r:0", **ranked),
                answer("r:1", right="z", **ranked),
                answer("one", left="z", right="x", slate="one", at=13.0, version=13.0,
                       tags={"gold": "left"}),
            ],
            by_key=False,
        )  # fmt: skip
        store.retract(["gone"], for_good=True)
        store.add_history(
            4.0, 6, "full", [("x", 1050.0, 1000.0, 1100.0, 1), ("y", 950.0, None, None, 2)]
        )
        store.save_fit(b'{"how":"full","n_comparisons":6}')
        store.keep_excluded(["bob"])
        project = project_sync.Memory(store, *SERVER)
        page = TaskState(TaskRef("ls:1:task:3", 1, 3), "2024-05-01", 0.0, 1, 0, ("ls:1:7",))
        answers = [("ls:1:task:3", "ls:1:7"), ("ls:1:task:4", "ls:1:8"), ("ls:1:task:04", "ls:1:9")]
        with store.transaction() as transaction:
            project.save_page(transaction, {"after": 9, "plan": {"kind": "pair"}}, [page], {}, {})
            project_sync.add_task_answers(transaction, answers)
            project_sync.add_task(transaction, TaskRef("ls:1:task:4", 1, 4))
            project_sync.add_plans(transaction, {"1": '{"kind":"pair"}'})
        project.begin(
            [Action("cancel", "answer 7", "excluded", None, {"was_cancelled": True}, ref=7)]
        )
        inbox = Inbox(store)
        for letter in "AB":
            inbox.put(b'{"action":"%s"}' % letter.encode()).result()
        inbox.close()
        with store.transaction() as transaction:
            settle_events(transaction, (), {2: "no project"})


def content(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table, and the tables themselves; not the columns, which load() reads."""
    with closing(sqlite3.connect(path)) as db:
        made = db.execute("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite%'")
        found = {"": sorted((name, re.sub(r"\s+", " ", sql)) for name, sql in made)}
        for name, sql in found[""]:
            if sql.startswith("CREATE TABLE") and name not in ("chunk", "removed"):
                found[name] = sorted(db.execute(f"SELECT * FROM {name}"), key=repr)  # noqa: S608
        return found


def versions() -> list[tuple[int, str]]:
    found = []
    for version in range(1, VERSION):
        newest = max(since for since in OLD_COLUMNS if since <= version)
        found.append((version, OLD_COLUMNS[newest]))
    # The day on which the code of a slate grew is between 6 and 7: there are both.
    return [*found, (6, OLD_COLUMNS[4])]


@pytest.mark.parametrize(("version", "layout"), versions())
def test_a_store_of_every_earlier_version_becomes_what_a_new_one_would_be(
    version: int, layout: str, tmp_path: Path
) -> None:
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    old_store(old, version, layout)
    new_store(new)
    with pytest.raises(
        StoreError, match=f"version {version}, older than {VERSION}; 'bbq store vac"
    ):
        Store(old, writable=False)
    with Store(old) as opened, Store(new) as fresh:
        assert opened.check() == []
        assert list(records_of(opened)) == list(records_of(fresh))
        columns_of_new = fresh.load()
        for name, column in opened.load().items():
            np.testing.assert_array_equal(column, columns_of_new[name])
        assert opened.ledger() == fresh.ledger()
        assert opened.history() == fresh.history()
        assert opened.saved_fit() == fresh.saved_fit()
    assert read_store(old).digest == read_store(new).digest
    found, wanted = content(old), content(new)
    later = {table for part, tables in ROWS.items() if SINCE[part] > version for table in tables}
    if "task_answer" in later:
        later.add("told_task")
    if "remote_task" in later:
        # No page is known that has held the task.
        later.add("remote")
    if "note" in later and "event" not in later:
        # When the last event came is known from the events themselves.
        later.remove("note")
        wanted["note"] = [note for note in wanted["note"] if note[0] == "last event"]
    for table in sorted(found.keys() | wanted.keys()):
        assert found[table] == ([] if table in later else wanted[table]), table


def test_a_store_of_the_first_day_has_what_came_to_its_version_later(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    old_store(path, 1, OLD_COLUMNS[1])
    with closing(sqlite3.connect(path)) as db:
        db.executescript(
            "DROP TABLE adopted; DROP INDEX ledger_content; DROP INDEX comparison_twin;"
        )
    with Store(path) as store:
        store.add([answer("plain", "right"), answer("new")])
        assert store.check() == []
        assert store.counts().n_comparisons == 7
    with Store(tmp_path / "new.db"):
        assert content(path)[""] == content(tmp_path / "new.db")[""]


def test_a_migration_that_is_cut_off_leaves_the_store_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.db"
    old_store(path, 3, OLD_COLUMNS[1])
    before = content(path)

    def fails(_: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(coded_columns, "rewrite", fails)
        with pytest.raises(StoreError, match="disk is full"):
            Store(path)
    assert content(path) == before
    with Store(path) as store:
        assert store.check() == []
