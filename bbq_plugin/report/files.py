"""Writing results: whole, or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomically(path: str | os.PathLike[str], text: str) -> None:
    """Replace a file by a complete new one; who reads it meanwhile sees the old or the new."""
    target = Path(path)
    # In the same folder, because only there replacing is one step.
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        partial.write_text(text, encoding="utf-8", newline="")
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
