"""One writer a store: a lock that the system takes away when its holder dies."""

from __future__ import annotations

import fcntl
import os
import socket
import sys
import weakref
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bbq_plugin.errors import StoreBusyError, StoreError


class Holder(msgspec.Struct, frozen=True):
    """Who holds a store."""

    pid: int
    host: str
    program: str
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} ({self.program}, since {self.since})"


class WriterLock:
    """Held from the moment it is made; the file stays, because removing it would be a race."""

    def __init__(self, store: str) -> None:
        self.path = Path(f"{store}.lock")
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(
                f"{store}: cannot be written ({error.strerror}: {self.path}); check the "
                "permissions, or that the disk is not read-only"
            ) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            who = holder(store)
            raise StoreBusyError(
                f"{store}: this store is being written by {who or 'another process'}; "
                "stop that one first, or name another store (reading does not disturb it)"
            ) from None
        program = Path(sys.argv[0] or "python").name
        since = datetime.now(UTC).isoformat(timespec="seconds")
        me = Holder(os.getpid(), socket.gethostname(), program, since)
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, msgspec.json.encode(me), 0)
        _held.add(self)

    def release(self) -> None:
        """Let another process write."""
        _held.discard(self)
        os.ftruncate(self._file, 0)
        os.close(self._file)

    def let_go(self) -> None:
        """In a child of the holder, which must not keep the lock when its parent is gone."""
        os.close(self._file)


_held: weakref.WeakSet[WriterLock] = weakref.WeakSet()


def _in_child() -> None:
    for lock in list(_held):
        lock.let_go()
    _held.clear()


os.register_at_fork(after_in_child=_in_child)


def holder(store: str) -> Holder | None:
    """Which process writes this store now, if one does."""
    path = Path(f"{store}.lock")
    try:
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return msgspec.json.decode(file.read(), type=Holder)
    except (OSError, msgspec.DecodeError):
        pass
    return None
