"""Which files of a folder count, and under which name they go on the record."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

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
class LeftOut:
    """The files below a folder that are nobody's answers: hidden, half made, or our own."""

    files: frozenset[str] = frozenset()
    folders: tuple[str, ...] = ()

    @classmethod
    def below(
        cls,
        folder: Path,
        *,
        store: Path | None = None,
        out: Path | None = None,
        outputs: Iterable[str] = (),
        others: Iterable[Path] = (),
    ) -> LeftOut:
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
        return cls(frozenset(name for name in names if name is not None), tuple(folders))

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


@dataclass
class Found:
    """What a walk through a folder saw: the state of each file, and what it could not look into."""

    files: dict[str, Stamp] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)


def walk(folder: Path, left_out: LeftOut, *, recursive: bool = True) -> Found:
    """Find everything but folders, links and pipes included: they are refused on the record."""
    found = Found()
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
                    state = _state(entry)
                    if state is not None:
                        found.files[name] = stamp_of(state)
        except FileNotFoundError:
            continue
        except OSError as error:
            found.faults[inside] = error.strerror or str(error)
    return found


def _state(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat(follow_symlinks=False)
    except OSError:
        # It went away since the folder was listed.
        return None


def look(path: str) -> os.stat_result | None:
    """Give the state of a file that is there and is no folder."""
    try:
        state = os.lstat(path)
    except (OSError, ValueError):
        return None
    return None if stat.S_ISDIR(state.st_mode) else state
