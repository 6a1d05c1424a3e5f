"""Writing results: whole, or not at all."""

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
    """Replace a file by a complete new one; who reads it meanwhile sees the old or the new."""
    with open_atomically(path) as file:
        file.write(text.encode("utf-8"))


@contextmanager
def open_atomically(path: str | os.PathLike[str]) -> Iterator[IO[Any]]:
    """Open a file for bytes that takes its place only when all of it was written.

    All of it is on the disk before it takes its place, so that a power cut leaves the old or the
    new file as well.
    """
    target = Path(path)
    # In the same folder, because only there replacing is one step.
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
    """Remove what a process that was killed while it wrote one of these files left behind."""
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
    # A number that is ours again is that of another process that had it before.
    return pid != os.getpid()


def _sync_folder(folder: Path) -> None:
    """Make the new name last; Windows has no such call, and does not need it."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError:
        pass  # Some network file systems refuse to sync a folder; the file itself is synced.
    finally:
        os.close(handle)
