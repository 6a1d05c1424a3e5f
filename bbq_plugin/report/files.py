"""Writing results: whole, or not at all."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


def write_atomically(path: str | os.PathLike[str], text: str) -> None:
    """Replace a file by a complete new one; who reads it meanwhile sees the old or the new."""
    with open_atomically(path) as file:
        file.write(text.encode("utf-8"))


@contextmanager
def open_atomically(path: str | os.PathLike[str]) -> Iterator[IO[Any]]:
    """Open a file for bytes that takes its place only when all of it was written."""
    target = Path(path)
    # In the same folder, because only there replacing is one step.
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with partial.open("wb") as file:
            yield file
        partial.replace(target)
    except OSError as error:
        # The partial file's name means nothing to the reader of the message.
        raise OSError(error.errno, error.strerror, str(target)) from error
    finally:
        partial.unlink(missing_ok=True)
