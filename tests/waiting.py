"""Waiting for what another process or thread brings about.

A test waits for an event, never for a time: how fast the machine is must not decide whether it
passes. The one deadline here ends a hang, and says what was waited for.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

T = TypeVar("T")

# Nothing takes so long even on a busy machine. Sockets, queues and processes get the same.
HANG_S = 600.0
# What is long in coming is looked for less and less often: a look may cost a page.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 0.25


def wait_until(
    true: Callable[[], T],
    what: str,
    *,
    log: Path | Callable[[], str] | None = None,
    ended: Callable[[], bool] = lambda: False,
) -> T:
    """Look again and again until it is true; what was found.

    `log` is shown if it never is. `ended` says that it cannot come any more, because the process
    that should bring it about is gone.
    """
    until_s = time.monotonic() + HANG_S
    pause_s = _FIRST_PAUSE_S
    while True:
        # Asked first: what came just before the end counts.
        over = ended()
        found = true()
        if found:
            return found
        if over or time.monotonic() > until_s:
            why = "the process has ended" if over else f"it did not come in {HANG_S:g} s"
            raise AssertionError(f"waited for {what}, but {why}\n{_end_of(log)}")
        time.sleep(pause_s)
        pause_s = min(1.1 * pause_s, _LONGEST_PAUSE_S)


def _end_of(log: Path | Callable[[], str] | None) -> str:
    if log is None:
        return ""
    if callable(log):
        return log()[-3000:]
    return log.read_text(errors="replace")[-3000:] if log.exists() else ""
