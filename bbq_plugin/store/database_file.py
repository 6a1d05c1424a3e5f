"""The SQLite file of a store: opened, migrated or refused, copied, restored; faults explained.

It has one writer: a lock that the system takes away when its holder dies.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import sqlite3
import sys
import weakref
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from zlib import crc32

import msgspec

from bbq_plugin.errors import BBQError, StoreBusyError, StoreError
from bbq_plugin.store.schema import APPLICATION_ID, VERSION, migrate

if TYPE_CHECKING:
    from collections.abc import Iterator


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


MEMORY = ":memory:"

# Pages of the index of random keys that stay in memory; without them every insert into a
# store of millions is a read from disk.
_CACHE_KIB = 256 * 1024
_BUSY_MS = 30_000


def connect(path: str, *, writable: bool) -> sqlite3.Connection:
    """Open a store, make one where there is none, and refuse what is not ours or too new."""
    with faults_explained(path):
        connection = opened_for(path, writable=writable)
        connection.create_function("slate_code", 1, slate_code, deterministic=True)
        try:
            _prepare(connection, path, writable=writable)
        except BaseException:
            connection.close()
            raise
    return connection


@contextmanager
def reading(path: str) -> Iterator[sqlite3.Connection]:
    """A connection of its own, to look at one moment of a store; no writer waits for it."""
    check_folder(path, writable=False)
    with closing(connect(path, writable=False)) as connection, faults_explained(path):
        connection.execute("BEGIN")
        yield connection


def slate_code(name: str) -> int:
    """A number for the name of a slate, of which two of one rater hardly share theirs."""
    return 1 + crc32(name.encode()) % (2**31 - 1)


def check_folder(path: str, *, writable: bool) -> None:
    """Refuse a path at which no store can be, before anything is made there."""
    file = Path(path)
    if path == MEMORY:
        return
    if file.is_dir():
        raise StoreError(f"{path}: this is a folder; name a file")
    if not writable and not file.exists():
        raise StoreError(f"{path}: there is no such store; check the path (bbq watch makes one)")
    if not file.parent.is_dir():
        raise StoreError(f"{path}: there is no folder {file.parent}; make it first")


def opened_for(path: str, *, writable: bool) -> sqlite3.Connection:
    """A connection to a file, whatever is in it."""
    if path == MEMORY:
        return sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    file = Path(path)
    if writable and not file.exists():
        # Answers may be confidential: only the owner of the file reads it.
        file.touch(mode=0o600)
    if writable:
        return _opened(file, "mode=rw")
    try:
        return _opened(file, "mode=ro")
    except sqlite3.OperationalError as error:
        if not (error.sqlite_errorname or "").startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY")):
            raise
        return _opened_read_only(file)


def _opened(file: Path, how: str) -> sqlite3.Connection:
    uri = f"{file.absolute().as_uri()}?{how}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    try:
        connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
        # Only a look into it opens the log.
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _opened_read_only(file: Path) -> sqlite3.Connection:
    """Open a store where SQLite cannot make the file by which readers and a writer agree.

    So there is no writer. What one that was killed has left in the log is read from a copy.
    """
    log = file.with_name(f"{file.name}-wal")
    if not log.exists() or not log.stat().st_size:
        return _opened(file, "mode=ro&immutable=1")
    with TemporaryDirectory(prefix="bbq-") as folder:
        copy = Path(folder, file.name)
        shutil.copyfile(file, copy)
        shutil.copyfile(log, copy.with_name(log.name))
        # Open, its files need no names any more.
        return _opened(copy, "mode=ro")


def _prepare(connection: sqlite3.Connection, path: str, *, writable: bool) -> None:
    def pragma(name: str) -> int:
        return int(connection.execute(f"PRAGMA {name}").fetchone()[0])

    version = pragma("user_version")
    fresh = not connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    if fresh and not writable:
        raise StoreError(
            f"{path}: this store is empty; check the path, and copy a store that is in use with "
            "'bbq store backup': its newest answers are in another file"
        )
    if not fresh and pragma("application_id") != APPLICATION_ID:
        raise StoreError(
            f"{path}: this is a database of another program; name another file for the store"
        )
    if version > VERSION:
        raise StoreError(
            f"{path}: this store has version {version}, and this installation knows versions "
            f"up to {VERSION}; upgrade bbq-plugin, or name another file"
        )
    if writable:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        migrate(connection, version)
    elif version < VERSION:
        raise StoreError(
            f"{path}: this store has version {version}, older than {VERSION}; "
            f"'bbq store vacuum --store {path}' brings it up to date, and loses nothing"
        )
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    connection.execute("PRAGMA foreign_keys = ON")


@contextmanager
def faults_explained(path: str) -> Iterator[None]:
    """Inside, a store is read: what goes wrong is an error that names it and the remedy.

    Beside SQLite's own errors these are what a value leads to that this package has not written.
    """
    try:
        yield
    except BBQError:
        raise
    except sqlite3.Error as error:
        raise explained(error, path) from error
    except (msgspec.MsgspecError, LookupError, OverflowError, TypeError, ValueError) as error:
        said = f"cannot be read ({type(error).__name__}: {error})"
        raise StoreError(f"{path}: {said}; {DAMAGED}") from error


DAMAGED = (
    "it is damaged or no store at all, and is left as it is: take a copy, restore a backup (bbq "
    "store restore), or name another file and read the exports again"
)


def blames_store(error: Exception) -> bool:
    """Whether the store or its disk is at fault, and not what was to be written."""
    cause = error.__cause__ if isinstance(error, StoreError) else error
    of_record = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError)
    return isinstance(error, (StoreError, sqlite3.Error)) and not isinstance(cause, of_record)


def explained(error: sqlite3.Error, path: str) -> StoreError:
    """What SQLite says, with what can be done about it."""
    text = str(error)
    name = getattr(error, "sqlite_errorname", "")
    remedy = "the disk or its permissions may be at fault"
    if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")) or "malformed" in text:
        remedy = DAMAGED
    elif name.startswith("SQLITE_FULL"):
        remedy = "the disk is full: make room; nothing of this batch was stored"
    elif name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        remedy = "it cannot be written: check the permissions, or that the disk is not read-only"
    elif isinstance(error, sqlite3.ProgrammingError):
        remedy = "open it again" if "closed" in text else "this is a fault of the program"
    elif name.startswith("SQLITE_BUSY"):
        remedy = "another program holds it: wait, or end that program"
    return StoreError(f"{path}: {text}; {remedy}")


def back_up(store: str | os.PathLike[str], target: str | os.PathLike[str]) -> int:
    """Copy a store as it is at one moment, while it is written; how many comparisons it has.

    The copy is one file, which replaces the target as a whole and only when it is complete.
    """
    source, file = Path(store), Path(target)
    check_folder(str(source), writable=False)
    check_folder(str(file), writable=True)
    if file.exists() and file.samefile(source):
        raise StoreError(f"{file}: this is the store itself; name another file for the backup")
    who = holder(str(file))
    if who is not None:
        raise StoreBusyError(
            f"{file}: this is a store that {who} writes; name another file for the backup"
        )
    part = file.with_name(f".{file.name}.part")
    with _alone(part):
        try:
            n = _copied(source, part)
            part.replace(file)
        except BaseException:
            _remove(part, *_companions(part))
            raise
        _sync_folder(file.parent)
    return n


def restore(store: str | os.PathLike[str], backup: str | os.PathLike[str]) -> int:
    """Put a backup in the place of a store; how many comparisons it has.

    The store is the old or the new one, whole, whenever this is cut off. It is refused while a
    process writes the store, and if the backup is none or is damaged.
    """
    file, source = Path(store), Path(backup)
    check_folder(str(source), writable=False)
    check_folder(str(file), writable=True)
    if file.exists() and file.samefile(source):
        raise StoreError(f"{source}: this is the store itself; name its backup")
    lock = WriterLock(str(file))
    try:
        part = file.with_name(f".{file.name}.restore")
        try:
            _remove(part, *_companions(part))
            n = _copied(source, part)
            # With what is in the log inside the file, the log may go: whichever file is there
            # when this is cut off, no log of the other one is beside it.
            _empty_log(file)
            _remove(*_companions(file))
            _sync_folder(file.parent)
            part.replace(file)
            _sync_folder(file.parent)
        except BaseException:
            _remove(part, *_companions(part))
            raise
    finally:
        lock.release()
    return n


@contextmanager
def _alone(part: Path) -> Iterator[None]:
    """Own a file that is being made; the system ends that when the process dies."""
    fd = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StoreBusyError(
                f"{part}: another process writes this backup; wait for its end"
            ) from None
        _remove(*_companions(part))
        os.ftruncate(fd, 0)
        yield
    finally:
        os.close(fd)


def _copied(source: Path, part: Path) -> int:
    """Copy by SQLite itself, which knows what is in the log; the result is whole and on disk."""
    try:
        with closing(opened_for(str(source), writable=False)) as found:
            _check_ours(found, source)
            part.touch(mode=0o600)
            with closing(sqlite3.connect(part, isolation_level=None)) as copy:
                # The file is of no use before it is complete: no need for a journal.
                copy.execute("PRAGMA journal_mode = OFF")
                copy.execute("PRAGMA synchronous = OFF")
                # All pages in one step: a writer does not make it begin again.
                found.backup(copy)
            with closing(sqlite3.connect(part, isolation_level=None)) as copy:
                # One file, and no log beside it.
                copy.execute("PRAGMA journal_mode = DELETE")
                problems = [text for (text,) in copy.execute("PRAGMA quick_check(3)")]
                n = copy.execute("SELECT count(*) FROM comparison")
                ((n_comparisons,),) = n.fetchall() or [(0,)]
    except sqlite3.Error as error:
        raise explained(error, str(source)) from error
    if problems != ["ok"]:
        raise StoreError(
            f"{source}: this store is damaged ({'; '.join(problems)}), and so would be its copy; "
            "nothing was replaced: 'bbq store check' says more"
        )
    with part.open("rb") as file:
        os.fsync(file.fileno())
    return int(n_comparisons)


def _check_ours(connection: sqlite3.Connection, path: Path) -> None:
    (own,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if own != APPLICATION_ID:
        raise StoreError(f"{path}: this is no store of bbq; check the path")
    if version > VERSION:
        raise StoreError(
            f"{path}: this store has version {version}, and this installation knows versions "
            f"up to {VERSION}; upgrade bbq-plugin"
        )


def _empty_log(file: Path) -> None:
    """Bring the log of a store into its file, so that the log holds nothing."""
    log = _companions(file)[0]
    if not file.exists() or not log.exists():
        return
    try:
        with closing(opened_for(str(file), writable=True)) as store:
            busy, *_ = store.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.Error:
        # It cannot be read: that is why it is replaced.
        return
    if busy:
        raise StoreBusyError(f"{file}: another process reads this store; try again when it is done")


def _companions(file: Path) -> tuple[Path, ...]:
    """What SQLite may keep beside a file."""
    return tuple(file.with_name(f"{file.name}{end}") for end in ("-wal", "-shm", "-journal"))


def _remove(*files: Path) -> None:
    for file in files:
        file.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
