"""What goes wrong in the field, done for real: full and read-only disks, strange files, races."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import socket
import stat
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import bbq_plugin as bbq
from bbq_plugin.live.engine import Engine
from bbq_plugin.live.file_ingest import Offer
from bbq_plugin.plugins import adapters
from bbq_plugin.store import Store
from tests.live.watch.mounting import can_mount, fill, make_read_only, small_disk
from tests.live.watch.running import Nursery, Place, Votes, put
from tests.waiting import HANG_S

if TYPE_CHECKING:
    from collections.abc import Iterator

NOBODY = 65534


def reasons(place: Place) -> dict[str, str | None]:
    with Store(place.store, writable=False) as store:
        return {e.name: e.reason for e in store.ledger() if e.status == "refused"}


def stored(place: Place) -> int:
    with Store(place.store, writable=False) as store:
        assert store.check() == []
        return store.counts().n_comparisons


# -- disks


def test_a_full_disk_is_waited_for_and_nothing_is_lost(
    place: Place, request: pytest.FixtureRequest
) -> None:
    if not can_mount(request, place.top / "scratch"):
        return
    disk = place.top / "disk"
    votes = Votes()
    with small_disk(disk, "3m"):
        place.store, place.out = disk / "state.db", disk / "out"
        put(place.folder / "a.jsonl", votes.lines(100))
        place.start()
        place.await_count(100)
        fill(disk / "filler")
        put(place.folder / "b.jsonl", votes.lines(2000))
        place.await_said("store_failed")
        # It lives, and says so: a second file comes while there is no room.
        put(place.folder / "c.jsonl", votes.lines(100))
        place.await_said("store_failed", 2)
        assert place.reported() == 100
        (disk / "filler").unlink()
        place.await_count(2200)
        assert place.end() == 0
        assert stored(place) == 2200


def test_results_that_find_no_room_do_not_stop_the_reading(
    place: Place, request: pytest.FixtureRequest
) -> None:
    if not can_mount(request, place.top / "scratch"):
        return
    disk = place.top / "disk"
    votes = Votes()
    with small_disk(disk, "256k"):
        place.out = disk / "out"
        put(place.folder / "a.jsonl", votes.lines(100))
        place.start()
        place.await_said("refreshed", comparisons=100)
        fill(disk / "filler")
        put(place.folder / "b.jsonl", votes.lines(100))
        place.await_said("results_failed")
        assert stored(place) == 200
        assert place.reported() == 100
        put(place.folder / "c.jsonl", votes.lines(100))
        place.wait_until(lambda: stored(place) == 300, "300 comparisons stored")
        (disk / "filler").unlink()
        place.await_count(300)
        assert place.end() == 0
        with Store(place.store, writable=False) as store:
            moments = [point.n_comparisons for point in store.history()]
        # However often the writing was tried, a moment is in the history once.
        assert moments == sorted(set(moments))


@pytest.mark.parametrize("exists", [False, True])
def test_a_store_on_a_read_only_disk_is_refused_with_the_remedy(
    place: Place, request: pytest.FixtureRequest, exists: bool
) -> None:
    if not can_mount(request, place.top / "scratch"):
        return
    disk = place.top / "disk"
    put(place.folder / "a.jsonl", Votes().lines(10))
    with small_disk(disk, "2m"):
        place.store = disk / "state.db"
        if exists:
            assert place.once() == 0
        make_read_only(disk)
        place.start()
        assert place.end(None) == 1
        last = place.log.read_text().splitlines()[-1]
        assert last.startswith("Error: ")
        assert str(place.store) in last
        assert "read-only" in last.lower()


# -- folders and files that come and go


def test_a_folder_removed_and_made_again_is_watched_again(place: Place) -> None:
    votes = Votes()
    put(place.folder / "a.jsonl", votes.lines(10))
    place.start()
    place.await_count(10)
    for n in range(1, 4):
        shutil.rmtree(place.folder)
        if n == 2:
            place.await_said("folder_gone")
        place.folder.mkdir()
        put(place.folder / f"{n}.jsonl", votes.lines(10))
        place.await_count(10 + 10 * n)
    assert place.end() == 0


def await_open(place: Place, path: Path) -> None:
    """Wait until the daemon has a file open, or has read it already where it is that fast."""
    folder = Path(f"/proc/{place.pid}/fd")

    def is_open() -> bool:
        for link in folder.iterdir():
            try:
                if str(link.readlink()).startswith(str(path)):
                    return True
            except OSError:
                continue
        return False

    place.wait_until(
        lambda: is_open() or bool(place.said("file_read", file=path.name)), f"{path} to be opened"
    )


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc to see open files")
@pytest.mark.parametrize("how", ["unlink", "truncate", "replace"])
def test_a_file_that_vanishes_while_it_is_read_spoils_nothing(place: Place, how: str) -> None:
    votes = Votes()
    large = put(place.top / "large.jsonl", votes.lines(60_000))
    place.start()
    place.await_said("started")
    large.rename(place.folder / "large.jsonl")
    large = place.folder / "large.jsonl"
    await_open(place, large)
    left = 0
    if how == "unlink":
        large.unlink()
    elif how == "truncate":
        os.truncate(large, 0)
    else:
        put(large, votes.lines(10))
        left = 10
    put(place.folder / "small.jsonl", votes.lines(7))
    place.await_said("file_read", file="small.jsonl")
    if how == "replace":
        place.await_count(17)
    assert place.end() == 0
    # Either it was read whole, before it went, or not at all; a later state counts instead.
    assert stored(place) - 7 - left in ({0} if how == "replace" else {0, 60_000})


def test_files_that_come_and_go_all_the_time_disturb_nobody(place: Place) -> None:
    votes, fleeting = Votes(), Votes(seed=1)
    stop = threading.Event()

    def flicker() -> None:
        n = 0
        while not stop.is_set():
            path = place.folder / f"fleeting-{n % 5}.jsonl"
            path.write_text(fleeting.lines(20).replace('"v', '"fleeting-'))
            path.unlink(missing_ok=True)
            n += 1

    thread = threading.Thread(target=flicker)
    place.start()
    thread.start()
    try:
        for n in range(20):
            put(place.folder / f"{n}.jsonl", votes.lines(5))
            place.await_said("file_read", file=f"{n}.jsonl")
    finally:
        stop.set()
        thread.join()
    assert place.end() == 0
    with Store(place.store, writable=False) as store:
        read = {e.name: e.n_rows for e in store.ledger() if not e.name.startswith("fleeting")}
    assert read == {f"{n}.jsonl": 5 for n in range(20)}


def test_a_log_that_grows_for_ever_is_followed_and_others_are_read_meanwhile(
    place: Place,
) -> None:
    votes, others = Votes(), Votes(seed=1)
    log = place.folder / "log.jsonl"
    stop = threading.Event()

    def grow() -> None:
        with log.open("w") as file:
            while not stop.wait(0.002):
                line = votes.line()
                # In two pieces, so that half a line is what is mostly there.
                file.write(line[:30])
                file.flush()
                file.write(line[30:])

    thread = threading.Thread(target=grow)
    place.start()
    thread.start()
    try:
        seen = 0
        for n in range(4):
            place.await_more_than(seen)
            seen = place.reported() or 0
            put(place.folder / f"{n}.jsonl", others.lines(5).replace('"v', '"other-'))
            place.await_said("file_read", file=f"{n}.jsonl")
    finally:
        stop.set()
        thread.join()
    place.await_count(votes.n + 20)
    assert place.end() == 0
    assert reasons(place) == {}
    # It was taken up where it ended, not read from the start each time.
    assert sum(one["new"] for one in place.said("file_read", file="log.jsonl")) == votes.n


# -- what is no file


def test_pipes_links_devices_and_sockets_are_refused_and_never_waited_for(place: Place) -> None:
    secret = put(place.top / "outside" / "secret.jsonl", Votes(seed=9).lines(50))
    os.mkfifo(place.folder / "pipe.jsonl")
    (place.folder / "link.jsonl").symlink_to(secret)
    (place.folder / "folder").symlink_to(secret.parent)
    (place.folder / "dangling.jsonl").symlink_to("nowhere")
    expected = {"pipe.jsonl", "link.jsonl", "folder", "dangling.jsonl"}
    if os.geteuid() == 0:
        os.mknod(place.folder / "zero.jsonl", stat.S_IFCHR | 0o666, os.makedev(1, 5))
        expected.add("zero.jsonl")
    # The path of a socket must be short.
    with socket.socket(socket.AF_UNIX) as bound, contextlib.chdir(place.folder):
        bound.bind("socket.jsonl")
    expected.add("socket.jsonl")
    place.settings["recursive"] = True
    place.start()
    put(place.folder / "good.jsonl", Votes().lines(10))
    place.await_count(10)
    for name in expected:
        place.await_said("file_refused", file=name)
    assert place.end() == 0
    assert reasons(place).keys() == expected
    assert all(reasons(place).values())
    assert stored(place) == 10


def test_nobody_writing_to_a_pipe_is_cut_off(place: Place) -> None:
    pipe = place.folder / "pipe.jsonl"
    os.mkfifo(pipe)
    put(place.folder / "good.jsonl", Votes().lines(10))

    def write() -> None:
        with pipe.open("wb", buffering=0) as file:
            file.write(b"hello")

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    place.start()
    place.await_count(10)
    assert place.end() == 0
    assert thread.is_alive(), "the daemon opened the pipe"
    with pipe.open("rb", buffering=0) as file:
        assert file.read() == b"hello"
    thread.join(HANG_S)


@pytest.fixture
def open_place(nursery: Nursery) -> Iterator[Place]:
    """A place that another user can get to; pytest's own folders are closed to others."""
    top = Path(tempfile.mkdtemp(prefix="bbq-test-"))
    top.chmod(0o755)
    made = Place(nursery, top)
    yield made
    if made.pid is not None:
        made.end(signal.SIGKILL)
    shutil.rmtree(top)


def test_an_unreadable_file_is_refused_until_it_can_be_read(open_place: Place) -> None:
    place = open_place
    if os.geteuid() == 0:
        # Root reads everything, so the daemon runs as somebody else.
        place.uid = NOBODY
        for path in (place.top, place.folder):
            os.chown(path, NOBODY, NOBODY)
    votes = Votes()
    closed = put(place.folder / "closed.jsonl", votes.lines(10))
    closed.chmod(0)
    locked = place.folder / "locked"
    put(locked / "inside.jsonl", votes.lines(10))
    locked.chmod(0)
    put(place.folder / "good.jsonl", votes.lines(10))
    place.settings["recursive"] = True
    place.start()
    place.await_count(10)
    place.await_said("file_refused", file="closed.jsonl")
    place.await_said("folder_unreadable", folder="locked")
    assert "ermission" in str(reasons(place)["closed.jsonl"])
    closed.chmod(0o644)
    place.await_count(20)
    locked.chmod(0o755)
    place.await_count(30)
    assert place.end() == 0


class Broken:
    """An adapter as somebody may write one."""

    name = "broken"

    def sniff(self, head: bytes, name: str) -> str | None:  # noqa: ARG002
        return "it begins so" if head.startswith(b"BROKEN") else None

    def read(self, stream: io.BufferedReader, name: str) -> Iterator[bbq.Comparison]:
        yield bbq.Comparison(f"{name}:1", "ann", "ape", "bee", "left")
        raise KeyError(stream.readline().decode())


def test_an_adapter_that_breaks_spoils_only_its_own_file(tmp_path: Path) -> None:
    votes = Votes()
    put(tmp_path / "a.jsonl", votes.lines(5))
    put(tmp_path / "b.brk", "BROKEN")
    put(tmp_path / "c.jsonl", votes.lines(5))
    offers = [Offer(path, path.name) for path in sorted(tmp_path.iterdir())]
    with Engine(tmp_path / "state.db") as engine:
        engine._ingest.adapters = {**adapters(), "broken": Broken()}
        outcomes = engine.ingest(offers)
        assert [one.status for one in outcomes] == ["read", "refused", "read"]
        assert "KeyError" in str(outcomes[1].reason)
        assert engine.store.counts().n_comparisons == 10


# -- many at once


def test_ten_thousand_files_at_once_are_all_read(place: Place) -> None:
    votes = Votes()
    place.start()
    place.await_said("started")
    for n in range(10_000):
        with (place.folder / f"{n:05}.jsonl").open("w") as file:
            file.write(votes.line())
    place.await_count(10_000)
    assert place.end() == 0
    assert stored(place) == 10_000


def test_two_writers_replacing_the_same_file_leave_what_the_last_one_wrote(place: Place) -> None:
    place.start()
    path = place.folder / "votes.jsonl"
    sources = [Votes(seed=n) for n in range(2)]

    def replace(who: int) -> None:
        for n in range(60):
            text = sources[who].lines(20 + n).replace('"v', f'"{who}-')
            half = place.folder / f".half-{who}"
            half.write_text(text)
            half.replace(path)

    writers = [threading.Thread(target=replace, args=(who,)) for who in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    # 79 rows have the last of either; those before them are taken back.
    place.await_count(79)
    assert place.end() == 0
    expected = bbq.read(path)
    with Store(place.store, writable=False) as store:
        keys = {key for (key,) in store.db.execute("SELECT key FROM comparison")}
    assert keys == {json.loads(line)["id"] for line in path.read_text().splitlines()}
    assert len(keys) == expected.n_comparisons == stored(place)
