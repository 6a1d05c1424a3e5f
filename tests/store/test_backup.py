"""Backup and restore: under load, killed at each step, over what a killed writer has left."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest

from bbq_plugin.errors import StoreBusyError, StoreError
from bbq_plugin.store import Store
from bbq_plugin.store.database_file import back_up, restore
from bbq_plugin.store.schema import APPLICATION_ID, VERSION
from bbq_plugin.store.sources_and_status import status_of
from tests.live.watch.mounting import can_mount, make_read_only, small_disk
from tests.store.answers import answer
from tests.store.stores import run

if TYPE_CHECKING:
    from collections.abc import Iterator

# Adds ten answers a transaction without end, and says after each how many there are for sure.
_WRITES = """
import sys
from bbq_plugin.data.records import Comparison
from bbq_plugin.store import Store
store = Store(sys.argv[1])
n = store.counts().n_comparisons
while True:
    store.add([Comparison(f"k{n + i}", "ann", "a", "b", "left") for i in range(10)])
    n += 10
    print(n, flush=True)
"""

# Runs a backup or a restore, and stops for good at one of its steps, before or after it.
_STEPS = """
import signal, sys
from pathlib import Path
from bbq_plugin.store import database_file as backup
what, one, other, stop = sys.argv[1:]
left = int(stop)

def stepped(do):
    def step(*args):
        at_step()
        done = do(*args)
        at_step()
        return done
    return step

def at_step():
    global left
    left -= 1
    if left < 0:
        print("here", flush=True)
        signal.pause()

for name in ("_copied", "_empty_log", "_remove", "_sync_folder"):
    setattr(backup, name, stepped(getattr(backup, name)))
Path.replace = stepped(Path.replace)
getattr(backup, what)(one, other)
print("done", flush=True)
"""


@contextmanager
def child(code: str, *arguments: object) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    words = [sys.executable, "-c", code, *map(str, arguments)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout
        finally:
            process.kill()


def killed_writer(path: Path, n: int = 30) -> int:
    """Leave a store as a killed writer does, with its log; how many comparisons it has at least."""
    with child(_WRITES, path) as (process, said):
        last = 0
        while last < n:
            last = int(said.readline())
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert path.with_name(f"{path.name}-wal").stat().st_size > 0
    return last


def whole(path: Path) -> int:
    """The number of comparisons of a store that is intact."""
    with Store(path, writable=False) as store:
        assert store.check() == []
        n = store.counts().n_comparisons
        assert store.load()["id"].size == n
    return n


def filled(path: Path, n: int) -> Path:
    with Store(path) as store:
        store.add([answer(f"k{i}") for i in range(n)])
    return path


# -- backup


def test_a_backup_is_whole_and_of_one_moment_while_a_writer_writes(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    with child(_WRITES, store) as (process, said):
        for turn in range(5):
            before = int(said.readline())
            copy = tmp_path / f"copy {turn}.db"
            result = run("store", "backup", "--store", store, "-o", copy)
            assert result.exit_code == 0, result.output
            found = whole(copy)
            assert f"is a backup of {found:,} comparisons" in result.output
            assert found >= before
            assert found % 10 == 0
            # One file, for its owner alone.
            assert not list(tmp_path.glob(f"*copy {turn}.db?*"))
            assert stat.S_IMODE(copy.stat().st_mode) == 0o600
        process.send_signal(signal.SIGKILL)
    assert whole(store) >= found


def test_a_backup_has_what_a_killed_writer_left_in_the_log(tmp_path: Path) -> None:
    n = killed_writer(tmp_path / "s.db")
    back_up(tmp_path / "s.db", tmp_path / "copy.db")
    assert whole(tmp_path / "copy.db") >= n


def test_a_backup_killed_at_any_step_leaves_the_one_before_or_a_whole_new_one(
    tmp_path: Path,
) -> None:
    store, copy = tmp_path / "s.db", tmp_path / "copy.db"
    filled(store, 10)
    back_up(store, copy)
    filled(store, 20)
    seen, step = set(), 0
    while True:
        shutil.copyfile(copy, tmp_path / "before.db")
        with child(_STEPS, "back_up", store, copy, step) as (process, said):
            if said.readline() == "done\n":
                break
            process.send_signal(signal.SIGKILL)
            process.wait()
        seen.add(whole(copy))
        assert whole(store) == 20
        shutil.copyfile(tmp_path / "before.db", copy)
        step += 1
    assert step >= 5
    assert seen == {10, 20}
    # The next one takes away what they left.
    back_up(store, copy)
    assert whole(copy) == 20
    assert not list(tmp_path.glob(".*"))


def test_a_backup_replaces_no_store_that_is_in_use_nor_itself(tmp_path: Path) -> None:
    store = filled(tmp_path / "s.db", 10)
    with pytest.raises(StoreError, match="the store itself"):
        back_up(store, store)
    with Store(tmp_path / "other.db"), pytest.raises(StoreBusyError, match="writes"):
        back_up(store, tmp_path / "other.db")
    with pytest.raises(StoreError, match="no folder"):
        back_up(store, tmp_path / "none" / "copy.db")
    with pytest.raises(StoreError, match="no such store"):
        back_up(tmp_path / "none.db", tmp_path / "copy.db")
    assert not list(tmp_path.glob(".*"))


def test_a_damaged_store_makes_no_backup_and_spoils_none(tmp_path: Path) -> None:
    store, copy = filled(tmp_path / "s.db", 2000), tmp_path / "copy.db"
    back_up(store, copy)
    before = copy.read_bytes()
    damage(store)
    result = run("store", "backup", "--store", store, "-o", copy)
    assert result.exit_code == 1
    assert "damaged" in result.stderr
    assert copy.read_bytes() == before
    assert not list(tmp_path.glob(".*"))


def damage(path: Path) -> None:
    """Overwrite the middle of a store."""
    with path.open("r+b") as file:
        size = path.stat().st_size
        file.seek(size // 4)
        file.write(b"\xa5" * (size // 2))


# -- restore


def test_a_backup_is_restored_over_the_log_of_a_killed_writer(tmp_path: Path) -> None:
    for turn in range(5):
        store, copy = tmp_path / "s.db", tmp_path / "copy.db"
        killed_writer(store)
        back_up(store, copy)
        n = whole(copy)
        assert killed_writer(store, n + 30) > n
        result = run("store", "restore", "--store", store, copy)
        assert result.exit_code == 0, result.output
        assert f"is restored: {n:,} comparisons" in result.output
        assert whole(store) == n
        with Store(store) as opened:
            opened.add([answer(f"more {turn}")])
        assert whole(store) == n + 1
        assert stat.S_IMODE(store.stat().st_mode) == 0o600


def test_a_restore_killed_at_any_step_leaves_the_old_or_the_new_store_whole(
    tmp_path: Path,
) -> None:
    store, copy = tmp_path / "s.db", filled(tmp_path / "copy.db", 10)
    old, step, seen = 0, 0, set()
    while True:
        for end in ("", "-wal", "-shm"):
            Path(f"{store}{end}").unlink(missing_ok=True)
        old = killed_writer(store)
        with child(_STEPS, "restore", store, copy, step) as (process, said):
            if said.readline() == "done\n":
                break
            process.send_signal(signal.SIGKILL)
            process.wait()
        found = whole(store)
        assert found == 10 or found >= old, step
        seen.add(found == 10)
        # It can be opened and written, and what the kill left is in nobody's way.
        with Store(store) as opened:
            opened.add([answer("more")])
        restore(store, copy)
        assert whole(store) == 10
        step += 1
    assert step >= 5
    assert seen == {True, False}
    assert whole(store) == 10
    assert not list(tmp_path.glob(".*"))


def test_a_store_in_use_is_not_replaced(tmp_path: Path) -> None:
    store, copy = tmp_path / "s.db", filled(tmp_path / "copy.db", 10)
    with child(_WRITES, store) as (process, said):
        said.readline()
        result = run("store", "restore", "--store", store, copy)
        assert result.exit_code == 1
        assert f"being written by process {process.pid}" in result.stderr
        n = int(said.readline())
    assert whole(store) >= n


def test_a_damaged_store_is_replaced_and_a_missing_one_made(tmp_path: Path) -> None:
    copy = filled(tmp_path / "copy.db", 10)
    store = tmp_path / "s.db"
    killed_writer(store)
    store.write_bytes(b"no store at all" * 1000)
    restore(store, copy)
    assert whole(store) == 10
    restore(tmp_path / "new.db", copy)
    assert whole(tmp_path / "new.db") == 10


def test_what_is_no_whole_store_replaces_none(tmp_path: Path) -> None:
    store = filled(tmp_path / "s.db", 10)
    bad = filled(tmp_path / "bad.db", 2000)
    damage(bad)
    text, newer, other = tmp_path / "a.txt", tmp_path / "newer.db", tmp_path / "other.db"
    text.write_text("no database\n" * 1000)
    for path, own, version in ((newer, APPLICATION_ID, VERSION + 1), (other, 0, 1)):
        with sqlite3.connect(path) as db:
            db.execute(f"PRAGMA application_id = {own}")
            db.execute(f"PRAGMA user_version = {version}")
            db.execute("CREATE TABLE t (x)")
        db.close()
    for file, why in (
        (bad, "damaged"), (text, "damaged or no store"), (newer, "upgrade"),
        (other, "no store of bbq"), (tmp_path / "none.db", "no such store"), (store, "itself"),
    ):  # fmt: skip
        with pytest.raises(StoreError, match=why):
            restore(store, file)
        assert whole(store) == 10
    assert not list(tmp_path.glob(".*"))


# -- where nothing can be written


@pytest.mark.parametrize("killed", [False, True])
def test_a_store_is_read_where_nothing_can_be_written(
    tmp_path: Path, request: pytest.FixtureRequest, killed: bool
) -> None:
    if not can_mount(request, tmp_path / "scratch"):
        return
    disk = tmp_path / "disk"
    with small_disk(disk, "8m"):
        store = disk / "s.db"
        n = killed_writer(store) if killed else 10
        if not killed:
            filled(store, n)
        # Only what a clean copy of these files has: the index of the log is no part of it.
        (disk / "s.db-shm").unlink(missing_ok=True)
        before = sorted(disk.iterdir())
        make_read_only(disk)
        assert status_of(store).counts.n_comparisons >= n
        assert whole(store) >= n
        for command in (["status"], ["fit"], ["store", "check"]):
            result = run(*command, "--store", store)
            assert result.exit_code == 0, result.output
        back_up(store, tmp_path / "copy.db")
        assert whole(tmp_path / "copy.db") >= n
        assert sorted(disk.iterdir()) == before
