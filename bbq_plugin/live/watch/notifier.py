"""How the system tells of changes in a folder: its own events, or none and looking by ourselves."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
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

if TYPE_CHECKING:
    from collections.abc import Callable

    from watchdog.events import FileSystemEvent
    from watchdog.observers.api import BaseObserver

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
    """Whoever knows that something happened in a folder. Hints may be wrong, late or missing."""

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
        return (
            observer is not None
            and observer.is_alive()
            and all(emitter.is_alive() for emitter in observer.emitters)
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
        self._folder = folder
        self._tell = tell

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
    """Find the type of the file system that a folder is on, or None where nobody can say."""
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
