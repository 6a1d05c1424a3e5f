"""The daemon on a folder: which files have arrived, and the loop that reads them."""

from __future__ import annotations

import os
import re
import signal
import stat
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

import msgspec
from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEventHandler,
)

from bbq_plugin.config import OUTPUTS
from bbq_plugin.errors import BBQError, DataError, StoreError
from bbq_plugin.live.engine import Engine, camp_change
from bbq_plugin.live.file_ingest import Offer
from bbq_plugin.live.health import Alerts, Health, Problems, told_by
from bbq_plugin.live.result_files import Outputs, limits_of, output_key, remove_results
from bbq_plugin.plugins import answer_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from watchdog.events import FileSystemEvent
    from watchdog.observers.api import BaseObserver

    from bbq_plugin.config import Settings
    from bbq_plugin.live.file_ingest import Outcome
    from bbq_plugin.live.health import Send
    from bbq_plugin.live.log import Log
    from bbq_plugin.live.push import Pusher, Reach
    from bbq_plugin.live.table_ingest import TableOffer, TablePolls
    from bbq_plugin.model import Fit


# What programs call a file that they are still writing.
TEMPORARY_ENDS = ("~", ".tmp", ".temp", ".part", ".partial", ".crdownload", ".download", ".swp")
TEMPORARY_STARTS = ("~$", "#")

# What SQLite and the writer's lock put beside a store.
_STORE_ENDS = ("", "-wal", "-shm", "-journal", ".lock")

# Inode, size and the times of the last change of content and of anything else. They are compared
# for being different, never for being later: clocks are set back, and copies keep old times.
Stamp = tuple[int, int, int, int]


def stamp_of(found: os.stat_result) -> Stamp:
    """Tell one state of a file from another."""
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def ledger_name(relative: str) -> str:
    """Turn a path below the folder into text that every store and log can hold.

    Bytes that are no UTF-8 become \\xff, and so that no two files share a name, a backslash
    becomes two.
    """
    name = relative.replace(os.sep, "/") if os.sep != "/" else relative.replace("\\", "\\\\")
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def is_temporary(part: str) -> bool:
    """Say whether a file or folder of this name is hidden or not finished yet."""
    return part.startswith((".", *TEMPORARY_STARTS)) or part.lower().endswith(TEMPORARY_ENDS)


@dataclass(frozen=True)
class NotWatched:
    """The files below a folder that are not read: hidden, unfinished, or our own."""

    files: frozenset[str] = frozenset()
    folders: tuple[str, ...] = ()
    #: In the folder of a labelling tool's project only files of this pattern are read.
    only: str | None = None

    @classmethod
    def below(
        cls,
        folder: Path,
        *,
        store: Path | None = None,
        out: Path | None = None,
        outputs: Iterable[str] = (),
        others: Iterable[Path] = (),
        only: str | None = None,
    ) -> NotWatched:
        """Find what of the store, the output folder and other files of ours lies in `folder`.

        Where results go to the watched folder itself, only the files `outputs` are ours.
        """
        files = [*others]
        if store is not None:
            files += [store.with_name(store.name + end) for end in _STORE_ENDS]
        folders = []
        if out is not None:
            inside = _relative(out, folder)
            if inside is None or inside == ".":
                files += [out / name for name in outputs]
            else:
                folders.append(inside + os.sep)
        names = (_relative(file, folder) for file in files)
        return cls(frozenset(name for name in names if name is not None), tuple(folders), only)

    def wants(self, relative: str) -> bool:
        """Say whether the file of this path is one to read, if it is not left out."""
        path, only = PurePath(relative), self.only
        return only is None or (len(path.parts) == only.count("/") + 1 and path.match(only))

    def __contains__(self, relative: str) -> bool:
        """Say whether the file or folder of this path below the folder is left out."""
        return (
            relative in self.files
            or (relative + os.sep).startswith(self.folders)
            or any(is_temporary(part) for part in relative.split(os.sep))  # noqa: PTH206
        )


def _relative(path: Path, folder: Path) -> str | None:
    inside = os.path.relpath(os.path.realpath(path), os.path.realpath(folder))
    return None if inside == os.pardir or inside.startswith(os.pardir + os.sep) else inside


def walk(
    folder: Path, left_out: NotWatched, *, recursive: bool
) -> tuple[dict[str, Stamp], dict[str, str]]:
    """The state of each file in a folder, and why some folders could not be looked into.

    Links and pipes are files here: they are refused on the record.
    """
    files: dict[str, Stamp] = {}
    faults: dict[str, str] = {}
    waiting = [""]
    while waiting:
        inside = waiting.pop()
        try:
            with os.scandir(folder / inside) as entries:
                for entry in entries:
                    name = os.path.join(inside, entry.name)  # noqa: PTH118 (Path takes 5 times as long)
                    if name in left_out:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        if recursive:
                            waiting.append(name)
                        continue
                    if not left_out.wants(name):
                        continue
                    # It may have gone away since the folder was listed.
                    with suppress(OSError):
                        files[name] = stamp_of(entry.stat(follow_symlinks=False))
        except FileNotFoundError:
            continue
        except OSError as error:
            faults[inside] = error.strerror or str(error)
    return files, faults


def look(path: str) -> os.stat_result | None:
    """Give the state of a file that is there and is no folder."""
    try:
        state = os.lstat(path)
    except (OSError, ValueError):
        return None
    return None if stat.S_ISDIR(state.st_mode) else state


# -- how the system tells of changes: its own events, or none and looking by ourselves

# closed: closed after writing or renamed into place. changed: made or written to.
# folder: a folder came or moved, and files with it. lost: the watched folder itself went away.
Hint = Literal["closed", "changed", "folder", "lost"]
NotifierChoice = Literal["auto", "native", "polling"]

# The kernel tells of changes made on this machine; these file systems change elsewhere too.
NETWORK = frozenset(
    {"9p", "acfs", "afs", "autofs", "beegfs", "ceph", "cifs", "coda", "davfs", "drvfs", "fuse"}
    | {"gfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncp", "ncpfs", "nfs", "nfs4", "ocfs2"}
    | {"orangefs", "prl_fs", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs"}
)

_EVENTS: list[type[FileSystemEvent]] = [
    FileClosedEvent,
    FileCreatedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
]


class Notifier(Protocol):
    """Tells that something happened in a folder. Hints may be wrong, late or missing."""

    name: str

    def start(self, folder: Path, tell: Callable[[str, Hint], None], *, recursive: bool) -> None:
        """Begin to tell, from a thread of its own; an OSError says that it cannot."""

    def stop(self) -> None:
        """Stop telling. Without a start before, nothing happens."""

    def is_alive(self) -> bool:
        """Say whether hints can still come."""


class Polling:
    """Tells nothing: the folder is looked through again and again."""

    name = "polling"

    def start(self, folder: Path, tell: Callable[[str, Hint], None], *, recursive: bool) -> None:
        """Nothing to begin."""

    def stop(self) -> None:
        """Nothing to stop."""

    def is_alive(self) -> bool:
        """Say that there is nothing to start again."""
        return True


class Native:
    """The system's events by watchdog: inotify, FSEvents, kqueue or Windows' own."""

    name = "native"

    def __init__(self) -> None:
        self._observer: BaseObserver | None = None

    def start(self, folder: Path, tell: Callable[[str, Hint], None], *, recursive: bool) -> None:
        """Watch the folder."""
        observer = _observer()
        handler = _Handler(os.fsdecode(folder), tell)
        observer.schedule(handler, str(folder), recursive=recursive, event_filter=_EVENTS)
        observer.start()
        self._observer = observer

    def stop(self) -> None:
        """Stop watching."""
        observer, self._observer = self._observer, None
        if observer is not None:
            observer.stop()
            with suppress(RuntimeError):
                observer.join(5)

    def is_alive(self) -> bool:
        """Say whether the threads are there that read the events."""
        observer = self._observer
        return observer is not None and all(
            thread.is_alive() for thread in (observer, *observer.emitters)
        )


def _observer() -> BaseObserver:
    from watchdog.observers import Observer  # noqa: PLC0415 (loads what the system has)

    if getattr(Observer, "__name__", "") == "InotifyObserver":
        # Else a file renamed into the folder from outside looks like one just created.
        return cast("Any", Observer)(generate_full_events=True)  # type: ignore[no-any-return]
    return Observer()


class _Handler(FileSystemEventHandler):
    """Turns watchdog's events into hints."""

    def __init__(self, folder: str, tell: Callable[[str, Hint], None]) -> None:
        self._folder, self._tell = folder, tell

    def dispatch(self, event: FileSystemEvent) -> None:
        source, target = os.fsdecode(event.src_path), os.fsdecode(event.dest_path)
        if isinstance(event, DirDeletedEvent):
            if source == self._folder:
                self._tell(source, "lost")
        elif isinstance(event, DirCreatedEvent | DirMovedEvent):
            if target or source:
                self._tell(target or source, "folder")
        elif isinstance(event, FileMovedEvent):
            if target:
                self._tell(target, "closed")
        elif isinstance(event, FileClosedEvent):
            self._tell(source, "closed")
        elif not event.is_directory:
            self._tell(source, "changed")


def is_network(kind: str) -> bool:
    """Say whether files on such a file system may be changed by other machines."""
    return kind in NETWORK or kind.startswith("fuse.")


def file_system(folder: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str | None:
    """Find the type of the file system that a folder is on, or None where that is not known."""
    try:
        lines = mounts.read_bytes().splitlines()
    except OSError:
        return None
    real = os.fsencode(os.path.realpath(folder))
    best, kind = b"", None
    for line in lines:
        before, dash, after = line.partition(b" - ")
        fields = before.split(b" ")
        if not dash or len(fields) < 5:
            continue
        # The kernel writes spaces and the like as three octal digits.
        point = re.sub(rb"\\([0-7]{3})", lambda code: bytes([int(code[1], 8)]), fields[4])
        inside = real == point or real.startswith(point.rstrip(b"/") + b"/")
        # Of two mounts on one point the later one is seen.
        if inside and len(point) >= len(best):
            best, kind = point, after.split(b" ", 1)[0].decode("ascii", "replace")
    return kind


def chosen(
    choice: NotifierChoice, folder: Path, kind_of: Callable[[Path], str | None] = file_system
) -> tuple[Notifier, str | None]:
    """Pick how to watch this folder, with the reason where it is not the system's events."""
    if choice == "polling":
        return Polling(), "observer is set to polling"
    if choice == "auto" and (kind := kind_of(folder)) is not None and is_network(kind):
        return Polling(), f"the folder is on a network file system ({kind})"
    return Native(), None


# -- when a file has arrived

# Hints that come within this time are looked at together.
_GATHER_S = 0.02
# After so many hints at once the kernel's queue may have overflowed: look for oneself.
_MANY_HINTS = 1000
# Looking through a folder may take this share of the time at most.
_SCAN_SHARE = 0.1


class StopEvent(Protocol):
    """Anything that knows whether to stop, such as `threading.Event`."""

    def is_set(self) -> bool:
        """Say whether to stop."""


@dataclass(frozen=True)
class Waits:
    """How long is waited for what, in seconds."""

    settle_s: float = 2.0
    debounce_s: float = 0.5
    max_delay_s: float = 10.0
    rescan_s: float = 30.0


class Wakeup:
    """Ends a wait; `set` may be called by other threads and by signal handlers."""

    def __init__(self) -> None:
        # `put` of this queue alone is safe in a signal handler; an Event's lock is not.
        self._calls: SimpleQueue[None] = SimpleQueue()

    def set(self) -> None:
        """End the wait in progress, or the next one."""
        self._calls.put(None)

    def wait(self, timeout_s: float) -> bool:
        """Wait; whether `set` was called. Several calls end one wait."""
        try:
            self._calls.get(timeout=max(timeout_s, 0.0))
        except Empty:
            return False
        while not self._calls.empty():
            self._calls.get()
        return True


@dataclass(slots=True)
class _Pending:
    """A file that changed and was not offered as settled since."""

    stamp: Stamp
    changed_s: float  # when its state was last seen to be another
    waiting_s: float  # since when it waits to be offered
    closed: bool = False  # and not touched since
    was_offered: bool = False  # though not as settled

    def due_s(self, waits: Waits) -> float:
        if self.closed:
            return self.changed_s
        return min(self.changed_s + waits.settle_s, self.waiting_s + waits.max_delay_s)


class Arrivals:
    """Watches one folder and gathers what has arrived into batches."""

    def __init__(
        self,
        folder: Path,
        notifier: Notifier,
        *,
        waits: Waits,
        left_out: NotWatched | None = None,
        recursive: bool = True,
        fall_back: bool = True,
        problems: Problems | None = None,
        clock: Callable[[], float] = time.monotonic,
        wakeup: Wakeup | None = None,
    ) -> None:
        """`fall_back`: where the system's events cannot be had, look by ourselves instead."""
        self.folder, self.waits, self.wakeup = folder, waits, wakeup or Wakeup()
        self.left_out = NotWatched() if left_out is None else left_out
        self._notifier, self._recursive, self._fall_back = notifier, recursive, fall_back
        self._problems, self._clock = problems or Problems(), clock
        self._top = os.path.join(os.fspath(folder), "")  # noqa: PTH118 (Path drops the slash)
        self._lock = threading.Lock()
        self._hints: dict[str, Hint] = {}
        self._pending: dict[str, _Pending] = {}
        self._offered: dict[str, Stamp] = {}
        self._faults: dict[str, str] = {}
        self._folder_id: tuple[int, int] | None = None
        self._restart = True
        self._last_change_s = self._next_scan_s = clock()

    # -- what happens in other threads

    def hint(self, path: str, what: Hint) -> None:
        """Take a hint; any thread may give one."""
        with self._lock:
            first = not self._hints
            self._hints[path] = what
        if first:
            self.wakeup.set()

    # -- what happens in the daemon's thread

    def wait(self, stop: StopEvent, until_s: float | None = None) -> list[Offer]:
        """Wait for the next batch, at most until this moment of the clock; stopped: no batch."""
        while not stop.is_set():
            offers = self.gather()
            now_s = self._clock()
            if offers or (until_s is not None and now_s >= until_s):
                return offers
            wake_s = self._wake_s() if until_s is None else min(self._wake_s(), until_s)
            if self.wakeup.wait(wake_s - now_s) and not stop.is_set():
                self.wakeup.wait(_GATHER_S)
        return []

    def gather(self) -> list[Offer]:
        """Look at what changed, and give what is to be read now."""
        now_s = self._clock()
        self._take_hints(now_s)
        if now_s >= self._next_scan_s:
            self._scan(now_s)
        return self._ready(now_s)

    def give_back(self, offers: Iterable[Offer]) -> None:
        """Offer these again: they could not be stored."""
        now_s = self._clock()
        for offer in offers:
            name = os.fspath(offer.path).removeprefix(self._top)
            state = look(self._top + name)
            if state is not None and name not in self._pending:
                self._offered.pop(name, None)
                self._pending[name] = _Pending(stamp_of(state), now_s, now_s, offer.settled)

    def is_idle(self) -> bool:
        """Say whether nothing waits to be offered but files that keep growing."""
        return not self._hints and all(entry.was_offered for entry in self._pending.values())

    def close(self) -> None:
        """Stop watching."""
        self._notifier.stop()

    def _take_hints(self, now_s: float) -> None:
        with self._lock:
            hints, self._hints = self._hints, {}
        if len(hints) >= _MANY_HINTS:
            self._next_scan_s = now_s
        for path, what in hints.items():
            if what == "lost":
                self._restart = True
            if what in {"lost", "folder"}:
                self._next_scan_s = now_s
                continue
            name = path.removeprefix(self._top)
            if name == path or name in self.left_out or not self.left_out.wants(name):
                continue
            state = look(path)
            if state is None:
                self._pending.pop(name, None)
            else:
                self._changed(name, stamp_of(state), now_s, closed=what == "closed")

    def _changed(self, name: str, stamp: Stamp, now_s: float, *, closed: bool = False) -> None:
        self._last_change_s = now_s
        entry = self._pending.get(name)
        if entry is None:
            self._pending[name] = _Pending(stamp, now_s, now_s, closed)
        else:
            entry.stamp, entry.changed_s, entry.closed = stamp, now_s, closed

    def _scan(self, now_s: float) -> None:
        """Look through the whole folder; an event may have been lost, or the folder itself."""
        self._watch_again()
        files, faults = walk(self.folder, self.left_out, recursive=self._recursive)
        for name, stamp in files.items():
            entry = self._pending.get(name)
            known = self._offered.get(name) if entry is None else entry.stamp
            if known != stamp:
                self._changed(name, stamp, now_s)
        for known_files in (self._pending, self._offered):
            for name in [name for name in known_files if name not in files]:
                del known_files[name]
        self._report_faults(faults)
        self._next_scan_s = now_s + self._scan_every_s(self._clock() - now_s)

    def _report_faults(self, faults: dict[str, str]) -> None:
        for name in self._faults.keys() - faults.keys():
            self._problems.over(f"folder {name}", event="folder_readable", folder=_shown(name))
        for name, fault in faults.items():
            self._problems.report(
                f"folder {name}", fault, event="folder_unreadable", folder=_shown(name)
            )
        self._faults = faults

    def _scan_every_s(self, took_s: float) -> float:
        if self._folder_id is not None and not isinstance(self._notifier, Polling):
            return self.waits.rescan_s
        return min(max(self.waits.settle_s, took_s / _SCAN_SHARE), self.waits.rescan_s)

    def _watch_again(self) -> None:
        """Begin to watch, or begin again where the folder is another one under the same name."""
        try:
            state = self.folder.stat()
            folder_id = (state.st_dev, state.st_ino)
        except OSError:
            folder_id = None
        if folder_id == self._folder_id and not self._restart and self._notifier.is_alive():
            return
        shown = str(self.folder)
        if folder_id is None:
            self._problems.report("folder", "it is gone", event="folder_gone", folder=shown)
        elif self._folder_id is not None:
            self._problems.log("folder_back", folder=shown)
        else:
            self._problems.over("folder", event="folder_back", folder=shown)
        self._notifier.stop()
        self._folder_id, self._restart = folder_id, False
        if folder_id is not None:
            self._start()

    def _start(self) -> None:
        try:
            self._notifier.start(self.folder, self.hint, recursive=self._recursive)
        except FileNotFoundError:
            # Gone again already; the next scan sees to it.
            self._restart = True
        except OSError as error:
            if not self._fall_back:
                raise
            self._problems.log("polling", reason=f"no events from the system ({error})")
            self._notifier = Polling()

    def _ready(self, now_s: float) -> list[Offer]:
        due = {n: e for n, e in self._pending.items() if now_s >= e.due_s(self.waits)}
        quiet = now_s >= self._last_change_s + self.waits.debounce_s
        if not quiet and not any(
            now_s >= entry.waiting_s + self.waits.max_delay_s for entry in due.values()
        ):
            return []
        ready = []
        for name, entry in due.items():
            state = look(self._top + name)
            if state is None:
                del self._pending[name]
                continue
            stamp = stamp_of(state)
            settled = stamp == entry.stamp and (
                entry.closed or now_s >= entry.changed_s + self.waits.settle_s
            )
            if settled:
                del self._pending[name]
                self._offered[name] = stamp
            else:
                if stamp != entry.stamp:
                    entry.stamp, entry.changed_s, entry.closed = stamp, now_s, False
                if now_s < entry.waiting_s + self.waits.max_delay_s:
                    continue
                entry.waiting_s, entry.was_offered = now_s, True
            path = self.folder / name
            ready.append((state.st_mtime_ns, Offer(path, ledger_name(name), settled)))
        # The older file first, as far as that can be told.
        return [offer for _, offer in sorted(ready, key=lambda pair: (pair[0], pair[1].name))]

    def _wake_s(self) -> float:
        """Find when there is something to do even if no hint comes."""
        if not self._pending:
            return self._next_scan_s
        quiet_s = self._last_change_s + self.waits.debounce_s
        due_s = min(
            min(max(e.due_s(self.waits), quiet_s), e.waiting_s + self.waits.max_delay_s)
            for e in self._pending.values()
        )
        return min(due_s, self._next_scan_s)


def _shown(name: str) -> str:
    return ledger_name(name) or "."


@contextmanager
def handled(stop: Callable[[], None], reread: Callable[[], None]) -> Iterator[None]:
    """Call `stop` on SIGTERM and SIGINT, `reread` on SIGHUP; afterwards all is as before.

    Only the main thread may do this; in another one nothing happens.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    wanted = {signal.SIGTERM: stop, signal.SIGINT: stop, signal.SIGHUP: reread}
    before = {number: signal.getsignal(number) for number in wanted}
    for number in wanted:
        signal.signal(number, lambda caught, _: wanted[signal.Signals(caught)]())
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def waits_of(settings: Settings, *, once: bool = False) -> Waits:
    """How long is waited for what; once, a file that grows is not waited for."""
    longest_s = min(settings.max_delay_s, settings.settle_s) if once else settings.max_delay_s
    return Waits(
        settle_s=settings.settle_s,
        debounce_s=min(settings.debounce_s, longest_s),
        max_delay_s=longest_s,
        rescan_s=settings.rescan_s,
    )


# What may be missing for a while: space, a disk, a mount.
PASSING = (StoreError, OSError)
_FIRST_RETRY_S = 1.0
# An alert that hangs is not waited for at the end.
_STOP_S = 15.0
_LAST_RETRY_S = 60.0

# Each file that one of these happened to has a line in the log; of the others there is a count.
_TOLD = ("read", "copy", "refused")


class Daemon:
    """Watches a folder, or the table of a database, until it is told to stop."""

    def __init__(
        self,
        settings: Settings,
        reload: Callable[[], Settings],
        log: Log,
        *,
        reach: Reach | None = None,
        alert: Send | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """`reload` gives the settings again on SIGHUP, `reach` opens the project for feedback.

        `alert` sends an alert. `wall_clock` gives the seconds since 1970 that go on record.
        """
        self.settings, self._reload, self._log, self._reach = settings, reload, log, reach
        self._clock, self._wall_clock, self._wakeup = clock, wall_clock, Wakeup()
        self._alert = alert
        self._pusher: Pusher | None = None
        self._alerts: Alerts | None = None
        #: What does not work at present.
        self.problems = Problems(log, wall_clock)
        self._stopping = self._rereading = self._once = False
        # The results are older than what is stored: so it is after any end, however sudden.
        self._stale = True
        self._has_read = self._exact = False
        self._n_camps: int | None = None
        #: Files and tables of which nothing is taken as they are now, with the reason.
        self.refused: dict[str, str] = {}
        # Whether what came last is not in the history yet; None: not looked at so far.
        self._news: bool | None = None
        self._news_s = clock()
        self._retry_s = _FIRST_RETRY_S
        self._not_before_s = clock()

    # -- from signal handlers and other threads

    def stop(self) -> None:
        """Finish the batch in hand and leave."""
        self._stopping = True
        self._wakeup.set()

    def reread(self) -> None:
        """Read the configuration again as soon as the batch in hand is done."""
        self._rereading = True
        self._wakeup.set()

    def is_set(self) -> bool:
        """Say whether waiting has to end."""
        return self._stopping or self._rereading

    # -- the loop

    def run(self, *, once: bool = False) -> None:
        """Watch until told to stop; or, `once`, until all that is there was read and reported."""
        self._once = once
        try:
            with handled(self.stop, self.reread):
                self._run()
        except (BBQError, OSError) as error:
            # A reader of the log as JSON does not see the line that the command prints.
            self._log("failed", reason=str(error))
            raise
        self._log("stopped")

    def _run(self) -> None:
        store = self.settings.path("store")
        database = self.settings.database
        folder = None if database else self.settings.path("folder")
        if folder is not None and not folder.is_dir():
            raise DataError(f"{folder}: there is no such folder to watch; make it, or name another")
        self.settings.feedback.check()
        _, notes = output_key(self.settings)
        for note in notes:
            self._log("note", text=note)
        self._engine = self._opened_engine(self.settings)
        try:
            self._store_inode = store.stat().st_ino
            n = self._engine.n_comparisons
            what = {"folder": str(folder)} if folder else {"table": self.settings.table}
            self._log("started", **what, store=str(store), comparisons=n)
            for note in self._engine.left_out().notes:
                self._log("note", text=note)
            self._arrivals = self._watching()
            self._push()
            try:
                self._loop()
                if self._once and self._pusher is not None and not self._stopping:
                    self._pusher.now()
            finally:
                self._end_push()
                self._arrivals.close()
        finally:
            self._engine.close()

    def _loop(self) -> None:
        while not self._stopping:
            if self._rereading:
                self._rereading = False
                self._take_over()
            offers = self._arrivals.wait(self, self._due_s())
            if offers and not self._ingest(offers):
                continue
            if self._is_due(after_batch=bool(offers)):
                self._update(full=self._once or not self._stale)
            if self._once and self._arrivals.is_idle() and not self._stale:
                break
        if self._stale and self._has_read and not self._once:
            # The files that were read before the signal belong into the results.
            self._update(full=False)

    def _opened_engine(self, settings: Settings) -> Engine:
        """Open the store for writing, or say who writes it."""
        return Engine(
            settings.path("store"),
            study=settings.study,
            model=settings.model.model,
            **settings.model.fit_options(),
            covariates=settings.model.covariate,
            reading=settings.read,
            clock=self._wall_clock,
        )

    def _watching(self) -> Arrivals | TablePolls:
        """Watch the folder; once, it is looked at with no need for events."""
        settings = self.settings
        if settings.database is not None:
            from bbq_plugin.live.table_ingest import TablePolls  # noqa: PLC0415 (only if wanted)

            return TablePolls(
                settings, self._engine, once=self._once, problems=self.problems,
                wakeup=self._wakeup, clock=self._clock, wall_clock=self._wall_clock,
            )  # fmt: skip
        folder = settings.path("folder").absolute()
        project = answer_files(folder) if folder.is_dir() else None
        notifier, why = (Polling(), None) if self._once else chosen(settings.observer, folder)
        if why is not None:
            self._log("polling", reason=why)
        return Arrivals(
            folder,
            notifier,
            waits=waits_of(settings, once=self._once),
            left_out=NotWatched.below(
                folder,
                store=settings.store,
                out=settings.out,
                outputs=OUTPUTS,
                only=None if project is None else project[1],
            ),
            recursive=settings.recursive or project is not None,
            fall_back=settings.observer == "auto",
            problems=self.problems,
            clock=self._clock,
            wakeup=self._wakeup,
        )

    def _push(self) -> None:
        """Begin to take verdicts back to the project, and to send alerts, if that is wanted."""
        if self._alert is not None:
            self._alerts = Alerts(
                self._alert, self._engine.store, self.problems, self.settings.alerts.alert_on
            )
            self.problems.on_change = self._tell_health
            self._alerts.job.start(due=True)
            self._tell_health()
        if not self.settings.feedback.push or self._reach is None:
            return
        from bbq_plugin.live.push import Pusher  # noqa: PLC0415 (only if wanted)

        self._pusher = Pusher(self.settings, self._engine, self._reach, self.problems)
        if not self._once:
            self._pusher.start()

    def _end_push(self) -> None:
        pusher, self._pusher = self._pusher, None
        if pusher is not None:
            pusher.stop()
        alerts, self._alerts = self._alerts, None
        if alerts is not None:
            # What came last is told before the end.
            alerts.job.stop(_STOP_S, finish=True)

    def _tell_health(self) -> None:
        if self._alerts is not None:
            self._alerts.health(Health(tuple(told_by(self.problems))))

    def _due_s(self) -> float | None:
        """When there is something to do even if no file comes."""
        if self._stale and self._arrivals.is_idle():
            return self._not_before_s
        if not self._stale and not self._exact:
            return max(self._news_s + self.settings.idle_full_s, self._not_before_s)
        return None

    def _is_due(self, *, after_batch: bool) -> bool:
        if self.is_set() or self._clock() < self._not_before_s:
            return False
        due_s = self._due_s()
        return (after_batch and self._stale) or (due_s is not None and self._clock() >= due_s)

    # -- reading

    def _ingest(self, offers: Sequence[Offer | TableOffer]) -> bool:
        """Read a batch in one transaction; say whether it is stored."""
        self._check_store()
        began_s = self._clock()
        try:
            outcomes = self._engine.ingest(offers)
        except PASSING as error:
            if self._once:
                raise
            self._arrivals.give_back([offer for offer in offers if isinstance(offer, Offer)])
            self._failed("store", error, files=len(offers))
            self._pause()
            return False
        self._retry_s = _FIRST_RETRY_S
        self.problems.over("store")
        for one in outcomes:
            self.refused.pop(one.name, None)
            if one.status in ("refused", "unchanged") and one.reason:
                self.refused[one.name] = one.reason
        self._tell(outcomes, self._clock() - began_s)
        if any(one.n_new or one.n_changed or one.n_retracted for one in outcomes):
            self._news = True
            self._news_s = self._clock()
        # The results also say what was refused and what was left out.
        if any(one.status in _TOLD for one in outcomes):
            self._stale = self._has_read = True
        return True

    def _check_store(self) -> None:
        """Leave if the store is another file by now: what is written would be lost."""
        try:
            found: int | None = self.settings.path("store").stat().st_ino
        except OSError:
            found = None
        if found != self._store_inode:
            raise StoreError(
                f"{self.settings.path('store')}: the store was removed or replaced while it was "
                "in use; start again: the files in the folder are then read again"
            )

    def _tell(self, outcomes: list[Outcome], took_s: float) -> None:
        for one in outcomes:
            if one.status in _TOLD:
                self._log(
                    f"{one.what}_{one.status}",
                    **{one.what: one.name},
                    adapter=one.adapter,
                    new=one.n_new,
                    changed=one.n_changed,
                    retracted=one.n_retracted,
                    skipped=one.n_skipped,
                    reason=one.reason,
                )
        counts = Counter(one.status for one in outcomes)
        self._log("batch", files=len(outcomes), **dict(counts), took_s=took_s)

    # -- results

    def _update(self, *, full: bool) -> None:
        """Refresh and write the results; what fails is tried again later."""
        began_s = self._clock()
        try:
            n = self._engine.n_comparisons
            if not n:
                # Nothing to fit, and nothing to be made exact later.
                self._stale, self._exact = False, True
                self._remove_results()
                return
            how = self._engine.refresh(full=full)
            fitted_s = self._clock()
            self._tell_camps(self._engine.fit)
            analysis = self._engine.analysis(limits_of(self.settings))
            told = analysis
            if self._engine.covariates:
                told = self._engine.held_equal(analysis.limits)
            outputs = Outputs(self._engine.store, told, self.settings, self._engine.study)
            if self._has_news(analysis.fit.data.n_comparisons):
                outputs.record(how)
            self._news = False
            done = outputs.write()
        except PASSING as error:
            if self._once:
                raise
            self._failed("results", error)
            return
        except Exception as error:
            if self._once:
                raise
            # The data are at fault, or the program: trying again needs other data.
            self.problems.report("results", error)
            self._stale, self._exact = False, True
            return
        self._stale, self._exact = False, analysis.fit.converged
        self._retry_s, self._not_before_s = _FIRST_RETRY_S, self._clock()
        self.problems.over("results")
        if self._pusher is not None:
            self._pusher.offer(analysis)
        if self._alerts is not None:
            study = self._engine.study
            name = next(one.name for one in self._engine.store.studies() if one.id == study)
            self._alerts.analysed(study, name, outputs.shown)
            self._alerts.settled(study, name, outputs.shown.stopping.best, analysis.at)
        self._log(
            "refreshed",
            how=how,
            comparisons=n,
            wrote=", ".join(file.name for file in done.files),
            note="; ".join(done.notes) or None,
            fit_s=fitted_s - began_s,
            write_s=self._clock() - fitted_s,
        )

    def _tell_camps(self, fit: Fit) -> None:
        """Say so when the panel has another number of camps than before."""
        change = camp_change(self._n_camps, fit)
        self._n_camps = len(fit.camps)
        if change is not None:
            self._log("camps", before=change.before, now=change.now, text=change.text)

    def _remove_results(self) -> None:
        if gone := remove_results(self.settings):
            self._log("results_removed", files=", ".join(gone), reason="no answer is left")

    def _has_news(self, n_comparisons: int) -> bool:
        if self._news is not None:
            return self._news
        # The last process may have been killed between storing a batch and telling of it.
        points = self._engine.store.history(2, self._engine.study)
        return not points or points[-1].n_comparisons != n_comparisons

    def _failed(self, what: str, error: Exception, files: int | None = None) -> None:
        self.problems.report(what, error, retry_s=self._retry_s, files=files)
        self._not_before_s = self._clock() + self._retry_s
        self._retry_s = min(2 * self._retry_s, _LAST_RETRY_S)

    def _pause(self) -> None:
        while not self.is_set() and (left_s := self._not_before_s - self._clock()) > 0:
            self._wakeup.wait(left_s)

    # -- configuration

    def _take_over(self) -> None:
        """Go on with the configuration as it is now; a bad one changes nothing."""
        old = self.settings
        try:
            new = self._reload()
            output_key(new)
            new.feedback.check()
        except (BBQError, OSError) as error:
            self._log("config_refused", reason=str(error))
            return
        for key in ("folder", "database", "table", "store"):
            if getattr(new, key) != getattr(old, key):
                self._log("config_needs_restart", key=key, kept=str(getattr(old, key)))
                new = msgspec.structs.replace(new, **{key: getattr(old, key)})
        # It holds the store that is about to be closed, and the settings of before.
        self._end_push()
        if new.model != old.model:
            self._engine.close()
            try:
                self._engine = self._opened_engine(new)
            except BBQError as error:
                self._log("config_refused", reason=str(error))
                self._engine = self._opened_engine(old)
                self._push()
                return
        self._engine.reading = new.read
        self.settings = new
        self._push()
        self._log.style = new.log_format
        self._arrivals.close()
        self._arrivals = self._watching()
        self._stale = True
        self._log("config_reread")
