"""Small disks of a test's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def _runs(*command: str | Path) -> bool:
    if shutil.which(str(command[0])) is None:
        return False
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def can_mount(request: pytest.FixtureRequest, scratch: Path) -> bool:
    """Say whether this process may mount.

    One that may not runs the test again where it may, in a namespace of its own; where there is
    none either, the test is skipped.
    """
    scratch.mkdir()
    if os.geteuid() == 0 and _runs("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", scratch):
        _runs("umount", scratch)
        return True
    if not _runs("unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", scratch):
        pytest.skip("mounting a disk needs root or user namespaces")
    again = ["unshare", "-rm", sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        # Not in pytest's usual place, which belongs to somebody else there.
        [*again, f"--basetemp={scratch.parent / 'again'}", request.node.nodeid],
        cwd=request.config.rootpath,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return False


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """Mount a disk of this size in memory."""
    folder.mkdir(parents=True, exist_ok=True)
    assert _runs("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder)
    try:
        yield
    finally:
        _runs("umount", "-l", folder)


def make_read_only(folder: Path) -> None:
    """Let nothing be written to a mounted disk any more."""
    assert _runs("mount", "-o", "remount,bind,ro", folder)


def fill(file: Path) -> None:
    """Write until the disk has no room left."""
    with file.open("wb", buffering=0) as sink:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while sink.write(b"\0" * size) == size:
                    pass
            except OSError:
                continue
