"""The log of what a daemon or server did: one event a line, as text or JSON.

File names and the reasons that quote them come from strangers. Whatever they hold, an event stays
one line, and a terminal that shows it is not told to do anything.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, TextIO

from bbq_plugin.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable

LogFormat = Literal["text", "json"]
Field = str | int | float | bool | None | dict[str, int]


class Log:
    """Writes events to a stream, usually standard error."""

    def __init__(
        self, stream: TextIO, style: LogFormat = "text", wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._stream = stream
        self.style = style
        self._wall_clock = wall_clock

    def __call__(self, event: str, **fields: Field) -> None:
        """Write one event; fields that are None are left out."""
        at = datetime.fromtimestamp(self._wall_clock(), UTC).isoformat(timespec="milliseconds")
        known = {name: value for name, value in fields.items() if value is not None}
        if self.style == "json":
            whole = {name: _whole(value) for name, value in known.items()}
            line = json.dumps({"at": at, "event": event, **whole}, allow_nan=False, default=str)
        else:
            line = " ".join(
                [at, event, *(f"{name}={_word(value)}" for name, value in known.items())]
            )
        # A log that cannot be written is no reason to stop reading files.
        with suppress(OSError, ValueError):
            self._stream.write(line + "\n")
            self._stream.flush()


def silent(event: str, **fields: Field) -> None:
    """A log that nobody reads."""


def _whole(value: Field) -> Field:
    """Text without halves of surrogate pairs, which strict readers of JSON refuse."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, float) and not abs(value) < float("inf"):
        return str(value)
    return value


def _word(value: Field) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return _word("; ".join(f"{reason}: {n}" for reason, n in value.items()))
    if not isinstance(value, str):
        return str(value).lower() if isinstance(value, bool) else str(value)
    shown = plain(value)
    if shown and not any(c in ' "=\\' for c in shown) and shown == value:
        return shown
    return '"' + plain(value.replace("\\", "\\\\").replace('"', '\\"')) + '"'
