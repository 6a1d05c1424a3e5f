"""What webhooks have missed, pulled now and then: Label Studio sends an event once, and no more."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from bbq_plugin.errors import BBQError
from bbq_plugin.report.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Reconcile"]

# After an event that tells of more than it brings, and before what it tells of is all there.
_SOON_S = 1.0


class Reconcile:
    """A thread that pulls at the start, every so often, and soon after it is asked to.

    `pull` brings the store up to date and says what it did, or None if there was nothing new.
    """

    def __init__(
        self,
        pull: Callable[[], str | None],
        every_s: float,
        *,
        after: Callable[[], None] = lambda: None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._pull, self._every_s, self._after, self._tell = pull, every_s, after, tell
        self._stop = threading.Event()
        self._asked = threading.Event()
        self._problem: str | None = None
        self._thread = threading.Thread(target=self._run, name="bbq-reconcile", daemon=True)

    def start(self) -> None:
        """Begin, with what was missed while nobody listened."""
        self._thread.start()

    def soon(self) -> None:
        """Do not wait for the next time."""
        self._asked.set()

    def stop(self) -> None:
        """End after the page under way; a pull that is cut off goes on where it was."""
        self._stop.set()
        self._asked.set()
        if self._thread.is_alive():
            # A request that hangs is not waited for: the thread dies with the process.
            self._thread.join(timeout=5.0)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                done = self._pull()
                if done is not None:
                    self._tell(done)
                self._after()
                self._problem = None
            except BBQError as error:
                self._failed(plain(str(error)))
            except Exception as error:  # noqa: BLE001 (whatever it is, the next time may be better)
                self._failed(f"{type(error).__name__}: {plain(str(error))}")
            if self._asked.wait(self._every_s) and not self._stop.is_set():
                self._asked.clear()
                self._stop.wait(_SOON_S)

    def _failed(self, problem: str) -> None:
        """Tell it once: an outage may last for many times."""
        if problem != self._problem:
            self._tell(f"pulling failed, will be tried again: {problem}")
        self._problem = problem
