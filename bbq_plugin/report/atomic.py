"""Atomic writes: a reader sees the old file or the complete new one."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_PART = re.compile(r"\.(?P<name>.+)\.(?P<pid>\d+)\.part")


def write_atomically(path: str | os.PathLike[str], text: str) -> None:
    """Replace a file by a complete new one."""
    with open_atomically(path) as file:
        file.write(text.encode("utf-8"))


@contextmanager
def open_atomically(path: str | os.PathLike[str]) -> Iterator[IO[Any]]:
    """Open a binary file that replaces the old one when it is closed without an error.

    It is synced to disk before it replaces the old one, so this holds for a power cut as well.
    """
    target = Path(path)
    # In the same folder: a rename within a file system is atomic.
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with partial.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
        _sync_folder(target.parent)
    except OSError as error:
        # The partial file's name means nothing to the reader of the message.
        raise OSError(error.errno, error.strerror, str(target)) from error
    finally:
        partial.unlink(missing_ok=True)


def remove_leftovers(folder: Path, names: frozenset[str]) -> None:
    """Remove partial files of processes that were killed while writing one of these files."""
    for path in folder.iterdir():
        part = _PART.fullmatch(path.name)
        if part and part["name"] in names and not _lives(int(part["pid"])):
            path.unlink(missing_ok=True)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    # An earlier process had the same id as this one.
    return pid != os.getpid()


def _sync_folder(folder: Path) -> None:
    """Sync the new directory entry; Windows has no such call and does not need it."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError:
        pass  # Some network file systems refuse to sync a folder; the file itself is synced.
    finally:
        os.close(handle)
