"""Secrets that this side chooses: of the webhook, and of the page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bbq_plugin.errors import UsageError

__all__ = ["read_secret"]

_LEAST = 16
_LONGEST = 1 << 12


def read_secret(file: Path | None, variable: str, environment: Mapping[str, str]) -> bytes | None:
    """A secret from a file or the environment; never from the command line, which all can see."""
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
            f"{where}: expected a secret of at least {_LEAST} ASCII characters without "
            "blanks, such as the output of: python -c 'import secrets; print(secrets.token_hex())'"
        )
    return found
