"""The secrets of the webhook and of the page, and whether other users can read them."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from bbq_plugin.errors import UsageError

__all__ = ["SECRET_HEADER", "read_secret", "seen_by_others"]

#: The header in which Label Studio shows the webhook's secret.
SECRET_HEADER = "X-BBQ-Secret"  # noqa: S105 (the name of it)

_LEAST = 16
_LONGEST = 1 << 12


def read_secret(file: Path | None, variable: str, environment: Mapping[str, str]) -> bytes | None:
    """A secret from a file or the environment; never from the command line, which all users see."""
    if file is not None:
        try:
            found = file.read_bytes()[:_LONGEST].strip()
        except OSError as error:
            raise UsageError(f"{file}: the secret cannot be read ({error.strerror})") from error
        where = str(file)
    else:
        found = environment.get(variable, "").encode().strip()
        where = variable
        if not found:
            return None
    if len(found) < _LEAST or not found.isascii() or any(map(str.isspace, found.decode())):
        raise UsageError(
            f"{where}: expected a secret of at least {_LEAST} ASCII characters without spaces; "
            "make one with: python -c 'import secrets; print(secrets.token_hex())'"
        )
    return found


def seen_by_others(file: Path) -> str | None:
    """A warning about a file with a secret that not only its owner can read."""
    if os.name != "posix":
        return None
    try:
        mode = file.stat().st_mode
    except OSError:
        return None
    if not mode & (stat.S_IRGRP | stat.S_IROTH):
        return None
    return f"{file}: other users of this machine can read this secret; run: chmod 600 {file}"
