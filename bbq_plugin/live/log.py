"""What a daemon or server did, one line an event, and what does not work at present.

File names and the reasons that quote them come from strangers. Whatever they hold, an event stays
one line, and a terminal that shows it is not told to do anything.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, TextIO

from bbq_plugin.errors import BBQError
from bbq_plugin.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that does not work at present."""

    what: str
    reason: str
    #: When it began, in seconds since 1970.
    since: float
    remedy: str | None = None


class Problems:
    """The current problems; each is logged when it begins or changes, and when it is over.

    The events are WHAT_failed and WHAT_recovered, unless others are named.
    """

    def __init__(
        self, log: Callable[..., None] = silent, clock: Callable[[], float] = time.time
    ) -> None:
        self.log = log
        self._clock = clock
        self._lock = threading.Lock()
        self._current: dict[str, tuple[Problem, dict[str, Field]]] = {}
        #: How often each was reported since the start.
        self.n_failures: Counter[str] = Counter()
        #: Called after one has begun, changed or ended.
        self.on_change: Callable[[], None] = lambda: None

    def report(
        self,
        what: str,
        error: Exception | str,
        *,
        event: str | None = None,
        remedy: str | None = None,
        **fields: Field,
    ) -> None:
        """Something failed, perhaps again; `fields` are logged with it."""
        reason = error if isinstance(error, str) else reason_of(error)
        remedy = remedy or getattr(error, "remedy", None)
        with self._lock:
            known = self._current.get(what)
            since = self._clock() if known is None else known[0].since
            found = Problem(what, reason, since, remedy), fields
            self._current[what] = found
            self.n_failures[what] += 1
        if known != found:
            self.log(event or f"{what}_failed", reason=reason, **fields)
            self.on_change()

    def over(self, what: str, *, event: str | None = None, **fields: Field) -> None:
        """It works; the end of a problem is logged if there was one."""
        with self._lock:
            known = self._current.pop(what, None)
        if known is not None:
            self.log(event or f"{what}_recovered", **fields)
            self.on_change()

    def __contains__(self, what: str) -> bool:
        return what in self._current

    def __iter__(self) -> Iterator[Problem]:
        """Oldest first."""
        with self._lock:
            found = [problem for problem, _ in self._current.values()]
        return iter(sorted(found, key=lambda problem: problem.since))


def reason_of(error: Exception) -> str:
    """An error in one line: messages meant for people as they are, others with their kind."""
    said = plain(str(error))
    return said if isinstance(error, (BBQError, OSError)) else f"{type(error).__name__}: {said}"


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
