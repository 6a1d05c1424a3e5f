"""From what was typed to files: patterns and folders."""

from __future__ import annotations

from glob import glob, has_magic
from pathlib import Path

from bbq_plugin.errors import FormatError

STDIN = "-"


def expanded(files: tuple[str, ...]) -> list[str]:
    """The files to read, in the order typed; a shell may have left a pattern as it is."""
    return [name for typed in files for name in _matching(typed)]


def _matching(typed: str) -> list[str]:
    path = Path(typed)
    if path.is_dir():
        raise FormatError("is a folder", typed, remedy=f"name its files, such as {typed}/*.jsonl")
    if typed == STDIN or path.exists() or not has_magic(typed):
        return [typed]
    # Not Path.glob: a pattern may be absolute, relative, or climb out with "..".
    matches = glob(typed, recursive=True)  # noqa: PTH207
    found = sorted(name for name in matches if Path(name).is_file())
    if not found:
        raise FormatError("no file matches this pattern", typed, remedy="check the path")
    return found
