"""Which files count as arrived, and when. Time is turned by hand here; files are real."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from bbq_plugin.live.file_ingest import Offer
from bbq_plugin.live.health import Problems
from bbq_plugin.live.watch import Arrivals, Native, NotWatched, Waits, Wakeup
from tests.waiting import HANG_S, wait_until

WAITS = Waits(settle_s=2, debounce_s=0.5, max_delay_s=10, rescan_s=30)
NEVER = threading.Event()


class Clock:
    """Stands still until somebody waits."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Hand(Wakeup):
    """A wait that takes no time: it turns the clock instead."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def wait(self, timeout_s: float) -> bool:
        called = super().wait(0)
        if not called:
            self._clock.now_s += max(timeout_s, 0)
        return called


class Folder:
    """A watched folder with a clock of its own and no events but those a test gives."""

    def __init__(self, path: Path, waits: Waits = WAITS, **options: object) -> None:
        self.path = path
        self.clock = Clock()
        self.log: list[tuple[str, dict[str, object]]] = []
        self.arrivals = Arrivals(
            path,
            Silent(),
            waits=waits,
            clock=self.clock,
            wakeup=Hand(self.clock),
            problems=Problems(lambda event, **fields: self.log.append((event, fields))),
            **options,  # type: ignore[arg-type]
        )

    def put(self, name: str, text: str = "x") -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def within(self, time_s: float) -> list[Offer]:
        """What is offered in this time, all batches together."""
        until_s = self.clock.now_s + time_s
        offers = []
        while self.clock.now_s < until_s:
            offers += self.arrivals.wait(NEVER, until_s)
        return offers


class Silent:
    """Events that could be had, and never come: only the rare scans find anything."""

    name = "silent"

    def start(self, folder: Path, tell: object, *, recursive: bool) -> None:
        pass

    def stop(self) -> None:
        pass

    def is_alive(self) -> bool:
        return True


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    (tmp_path / "in").mkdir()
    return Folder(tmp_path / "in")


def names(offers: list[Offer]) -> list[str]:
    return [offer.name for offer in offers]


def test_what_is_there_at_the_start_is_offered_first_and_once(folder: Folder) -> None:
    for age, name in enumerate(("c.jsonl", "a.jsonl", "deep/er/b.jsonl")):
        os.utime(folder.put(name), ns=(0, 10**18 + age))
    offers = folder.within(3)
    assert names(offers) == ["c.jsonl", "a.jsonl", "deep/er/b.jsonl"]
    assert all(offer.settled for offer in offers)
    assert folder.within(100) == []


def test_a_file_that_is_written_to_has_not_arrived(folder: Folder) -> None:
    path = folder.put("a.jsonl")
    for n in range(4):
        assert folder.within(1.5) == []
        path.write_text("x" * (n + 2))
    assert names(folder.within(5)) == ["a.jsonl"]


def test_a_closed_file_is_offered_after_the_debounce(folder: Folder) -> None:
    folder.within(1)
    folder.arrivals.hint(str(folder.put("a.jsonl")), "closed")
    begun_s = folder.clock.now_s
    assert names(folder.arrivals.wait(NEVER, begun_s + 5)) == ["a.jsonl"]
    assert folder.clock.now_s - begun_s == pytest.approx(0.5, abs=0.05)


def test_a_file_opened_again_after_it_was_closed_waits_to_settle(folder: Folder) -> None:
    folder.within(1)
    path = folder.put("a.jsonl")
    folder.arrivals.hint(str(path), "closed")
    folder.arrivals.gather()
    folder.arrivals.hint(str(path), "changed")
    assert folder.within(1.9) == []
    assert folder.within(0.2) == [Offer(path, "a.jsonl", settled=True)]


def test_a_log_that_never_rests_is_offered_unsettled_after_the_maximum_delay(
    folder: Folder,
) -> None:
    path = folder.put("log.jsonl")
    seen: list[tuple[float, bool]] = []
    for _ in range(26):
        seen += [(folder.clock.now_s - 1000, o.settled) for o in folder.within(1)]
        with path.open("a") as log:
            log.write("more\n")
    assert [settled for _, settled in seen] == [False, False]
    assert [at_s for at_s, _ in seen] == pytest.approx([10, 20], abs=1.1)
    assert folder.within(5) == [Offer(path, "log.jsonl", settled=True)]


def test_a_burst_becomes_one_batch_and_never_waits_beyond_the_maximum_delay(
    folder: Folder,
) -> None:
    folder.within(1)
    begun_s = folder.clock.now_s
    batches = []
    for n in range(60):
        folder.arrivals.hint(str(folder.put(f"{n:02}.jsonl")), "closed")
        batch = folder.arrivals.wait(NEVER, folder.clock.now_s + 0.25)
        if batch:
            batches.append((folder.clock.now_s - begun_s, len(batch)))
    batches += [(folder.clock.now_s - begun_s, len(folder.within(5)))]
    assert [n for _, n in batches] == [40, 20]
    assert batches[0][0] == pytest.approx(10, abs=0.3)


@pytest.mark.parametrize("back_s", [10, 10**7])
def test_a_replacement_with_an_older_time_is_seen(folder: Folder, back_s: int) -> None:
    path = folder.put("a.jsonl", "first")
    assert names(folder.within(3)) == ["a.jsonl"]
    other = folder.put(".new", "later")
    old = path.stat().st_mtime - back_s
    os.utime(other, (old, old))
    other.replace(path)
    assert names(folder.within(40)) == ["a.jsonl"]


def test_a_rewrite_of_the_same_size_and_time_in_place_is_seen(folder: Folder) -> None:
    path = folder.put("a.jsonl", "first")
    state = path.stat()
    assert names(folder.within(3)) == ["a.jsonl"]

    def rewritten() -> bool:
        path.write_text("later")
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
        return path.stat().st_ctime_ns != state.st_ctime_ns

    wait_until(rewritten, "the next tick of the kernel's clock for ctime")
    assert names(folder.within(40)) == ["a.jsonl"]


def test_hidden_and_half_made_files_and_our_own_are_left_alone(tmp_path: Path) -> None:
    top = tmp_path / "in"
    top.mkdir()
    out, store = top / "out", top / "sub" / "state.db"
    folder = Folder(top, left_out=NotWatched.below(top, store=store, out=out))
    for name in (
        ".hidden",
        ".git/x.jsonl",
        "a.csv.tmp",
        "b.PART",
        "c.crdownload",
        "d.csv~",
        "~$e.csv",
    ):
        folder.put(name)
    for name in ("out/report.json", "out/deep/x.csv", "sub/state.db", "sub/state.db-wal"):
        folder.put(name)
    for name in ("sub/state.db.lock", "#f.csv#"):
        folder.put(name)
    folder.put("outside.csv")
    folder.put("sub/votes.csv")
    assert sorted(names(folder.within(5))) == ["outside.csv", "sub/votes.csv"]


def test_results_written_to_the_watched_folder_itself_are_not_read_back(tmp_path: Path) -> None:
    left_out = NotWatched.below(tmp_path, out=tmp_path, outputs=["report.json"])
    folder = Folder(tmp_path, left_out=left_out)
    folder.put("report.json")
    folder.put("votes.json")
    folder.put("deep/report.json")
    assert sorted(names(folder.within(5))) == ["deep/report.json", "votes.json"]


def test_names_that_are_no_text_stay_apart_and_can_be_stored(folder: Folder) -> None:
    raw = os.fsencode(folder.path)
    for name in (b"bad-\xff.csv", b"bad-\\xff.csv", b"line\nbreak.csv", b"esc\x1b[2J.csv"):
        with open(os.path.join(raw, name), "wb") as file:  # noqa: PTH118, PTH123 (bytes)
            file.write(b"x")
    offers = folder.within(5)
    assert sorted(names(offers)) == sorted(
        ["bad-\\xff.csv", "bad-\\\\xff.csv", "line\nbreak.csv", "esc\x1b[2J.csv"]
    )
    for offer in offers:
        offer.name.encode("utf-8")
        assert offer.path.read_bytes() == b"x"


def test_a_pipe_a_link_and_a_device_are_offered_without_being_opened(folder: Folder) -> None:
    os.mkfifo(folder.path / "pipe.jsonl")
    (folder.path / "link.jsonl").symlink_to("/etc/hostname")
    (folder.path / "linked-folder").symlink_to("/etc")
    assert sorted(names(folder.within(5))) == ["link.jsonl", "linked-folder", "pipe.jsonl"]


def test_a_file_that_went_away_is_not_offered(folder: Folder) -> None:
    path = folder.put("a.jsonl")
    folder.within(1)
    path.unlink()
    assert folder.within(40) == []


def test_what_could_not_be_stored_is_offered_again(folder: Folder) -> None:
    folder.put("a.jsonl")
    offers = folder.within(3)
    folder.arrivals.give_back(offers)
    assert folder.within(1) == offers
    assert folder.within(40) == []


def test_a_folder_made_again_is_read_again(folder: Folder) -> None:
    folder.put("a.jsonl").unlink()
    folder.within(3)
    folder.path.rmdir()
    assert folder.within(40) == []
    assert [event for event, _ in folder.log] == ["folder_gone"]
    folder.put("b.jsonl")
    assert names(folder.within(5)) == ["b.jsonl"]
    assert [event for event, _ in folder.log] == ["folder_gone", "folder_back"]


def test_stopping_ends_the_wait_at_once(folder: Folder) -> None:
    stop = threading.Event()
    stop.set()
    folder.put("a.jsonl")
    assert folder.arrivals.wait(stop) == []


def test_an_unreadable_folder_inside_is_told_once_and_so_is_its_end(folder: Folder) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads every folder")
    folder.put("closed/a.jsonl")
    (folder.path / "closed").chmod(0)
    try:
        folder.within(100)
        assert [event for event, _ in folder.log] == ["folder_unreadable"]
    finally:
        (folder.path / "closed").chmod(0o700)
    folder.within(40)
    assert [event for event, _ in folder.log] == ["folder_unreadable", "folder_readable"]


# -- with the system's own events and clock


# After any test has given up.
LATER_S = 10 * HANG_S


@pytest.fixture
def watched(tmp_path: Path) -> Arrivals:
    folder = tmp_path / "in"
    folder.mkdir()
    # Nothing but an event can bring a file here: neither settling nor a scan comes in time.
    slow = Waits(settle_s=LATER_S, debounce_s=0.05, max_delay_s=LATER_S, rescan_s=LATER_S)
    arrivals = Arrivals(folder, Native(), waits=slow)
    arrivals.gather()
    return arrivals


def awaited(arrivals: Arrivals, *expected: str) -> list[Offer]:
    """Wait until all of these were offered."""
    offers: list[Offer] = []
    until_s = time.monotonic() + HANG_S
    while set(names(offers)) < set(expected):
        assert time.monotonic() < until_s, f"waited for {expected}, but only {names(offers)} came"
        offers += arrivals.wait(NEVER, until_s)
    assert set(names(offers)) == set(expected)
    return offers


def test_the_system_tells_of_a_file_closed(watched: Arrivals) -> None:
    (watched.folder / "a.jsonl").write_text("x")
    assert awaited(watched, "a.jsonl")[-1].settled
    watched.close()


def test_the_system_tells_of_a_file_renamed_into_place(watched: Arrivals) -> None:
    (watched.folder.parent / "made-elsewhere").write_text("x")
    (watched.folder.parent / "made-elsewhere").rename(watched.folder / "a.jsonl")
    assert awaited(watched, "a.jsonl")[-1].settled
    (watched.folder / ".b.tmp").write_text("x")
    (watched.folder / ".b.tmp").rename(watched.folder / "b.jsonl")
    assert awaited(watched, "b.jsonl")[-1].settled
    watched.close()


def test_a_file_held_open_is_not_offered_by_the_systems_events(watched: Arrivals) -> None:
    with (watched.folder / "open.jsonl").open("w") as file:
        file.write("half")
        file.flush()
        (watched.folder / "closed.jsonl").write_text("x")
        awaited(watched, "closed.jsonl")
    awaited(watched, "open.jsonl")
    watched.close()


def test_files_in_a_folder_that_is_moved_in_or_made_later_are_found(tmp_path: Path) -> None:
    folder, ready = tmp_path / "in", tmp_path / "ready"
    folder.mkdir()
    ready.mkdir()
    (ready / "a.jsonl").write_text("x")
    waits = Waits(settle_s=0.2, debounce_s=0.05, max_delay_s=LATER_S, rescan_s=LATER_S)
    arrivals = Arrivals(folder, Native(), waits=waits)
    arrivals.gather()
    ready.rename(folder / "moved")
    awaited(arrivals, "moved/a.jsonl")
    (folder / "made" / "deep").mkdir(parents=True)
    (folder / "made" / "deep" / "b.jsonl").write_text("x")
    awaited(arrivals, "made/deep/b.jsonl")
    arrivals.close()


def test_the_system_tells_again_after_the_folder_was_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    waits = Waits(settle_s=0.2, debounce_s=0.05, max_delay_s=LATER_S, rescan_s=LATER_S)
    arrivals = Arrivals(folder, Native(), waits=waits)
    arrivals.gather()
    for n in range(3):
        (folder / f"{n}.jsonl").write_text("x")
        awaited(arrivals, f"{n}.jsonl")
        (folder / f"{n}.jsonl").unlink()
        folder.rmdir()
        folder.mkdir()
    arrivals.close()


def test_a_wakeup_before_the_wait_is_not_lost() -> None:
    wakeup = Wakeup()
    wakeup.set()
    wakeup.set()
    assert wakeup.wait(HANG_S)
    assert not wakeup.wait(0)
