"""A copy of a store, made while it is written, and a store made of such a copy again."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bbq_plugin.errors import StoreBusyError, StoreError
from bbq_plugin.store.database_file import WriterLock, check_folder, explained, holder, opened_for
from bbq_plugin.store.schema import APPLICATION_ID, VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator


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
