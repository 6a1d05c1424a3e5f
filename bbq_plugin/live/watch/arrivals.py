"""Which files of a folder count, how changes to them are noticed, and when one has arrived."""

from __future__ import annotations

import os
import re
import stat
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

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

from bbq_plugin.live.file_ingest import Offer
from bbq_plugin.live.health import Problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from watchdog.events import FileSystemEvent
    from watchdog.observers.api import BaseObserver


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
