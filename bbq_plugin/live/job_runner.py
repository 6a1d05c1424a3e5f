"""Background jobs: each has a thread of its own and runs when it is due.

A job is due when it is woken, or when the time comes that its last run asked for. Requests that
come during a run or a rest are answered by one more run. Whatever a run raises goes to the job's
owner, so that no error is lost and the thread goes on.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


_log = logging.getLogger(__name__)

# A wait that is longer is made of several: the system's own limit is below what a float can hold.
_LONGEST_WAIT_S = 3600.0
# After an error that its owner could not deal with.
_RETRY_S = 10.0
#: Of what is computed behind the pages. All at once, such work would need the memory of all of it,
#: and the time of those who answer events and pages.
BEHIND = threading.Lock()


@dataclass(frozen=True, slots=True)
class Next:
    """When a job may run next, in seconds from the end of its last run."""

    #: No run starts before that.
    rest_s: float = 0.0
    #: A run is due then even if the job is not woken; None: only when it is woken.
    again_s: float | None = None


class Job:
    """Runs `work` in the background whenever it is due.

    `work` and `failed`, which gets what `work` raises, say when the next run may start. Jobs with
    the same lock `alone` run one at a time.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[], Next],
        failed: Callable[[Exception], Next],
        *,
        alone: threading.Lock | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._work, self._failed, self.clock = work, failed, clock
        self._alone = alone or threading.Lock()
        #: Guards everything below.
        self._changed = threading.Condition()
        self._due: float | None = None
        self._latest_request = -math.inf
        self._rest_until = -math.inf
        self._urgent = False
        self._stopping = False
        self._finish = False
        self._begun = 0.0
        self._thread = threading.Thread(target=self._run, name=f"bbq-{name}", daemon=True)

    def start(self, *, due: bool = False) -> None:
        """Start the thread; `due`: with a run."""
        if due:
            self.wake()
        self._thread.start()

    def wake(self, in_s: float = 0.0, *, urgent: bool = False) -> None:
        """Ask for a run, in so many seconds; an urgent one does not wait for the rest."""
        with self._changed:
            at = self.clock() + in_s
            self._due = at if self._due is None else min(self._due, at)
            self._latest_request = max(self._latest_request, at)
            self._urgent = self._urgent or urgent
            self._changed.notify_all()

    def stop(self, deadline_s: float | None = None, *, finish: bool = False) -> bool:
        """End after the run in progress; whether the thread has ended within the deadline.

        `finish`: a run that is due comes first, without a rest. A thread that has not ended, as in
        a request that hangs, ends with the process.
        """
        with self._changed:
            self._stopping, self._finish = True, self._finish or finish
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(deadline_s)
        return not self._thread.is_alive()

    def stopping(self) -> bool:
        """Whether the job has to end."""
        return self._stopping

    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    @property
    def spent_s(self) -> float:
        """How long the run in progress has taken so far."""
        return self.clock() - self._begun

    def _run(self) -> None:
        while self._wait():
            with self._alone:
                if self._stopping and not self._finish:
                    return
                self._begun = self.clock()
                try:
                    found = self._work()
                except Exception as error:  # noqa: BLE001 (whatever it is, its owner reports it)
                    found = self._after(error)
            self._schedule(found)

    def _after(self, error: Exception) -> Next:
        try:
            return self._failed(error)
        except Exception:  # noqa: BLE001 (the thread has to go on)
            # As a full disk may fail the work, and then the report of it.
            _log.exception("%s: an error could not be reported", self._thread.name)
            return Next(_RETRY_S, 0.0)

    def _wait(self) -> bool:
        """Wait until a run is due; False at the end."""
        with self._changed:
            while True:
                at = self._start_at()
                now = self.clock()
                if self._stopping:
                    if not self._finish or at is None:
                        return False
                    at = now
                if at is not None and at <= now:
                    later = self._latest_request > now and not self._stopping
                    self._due = self._latest_request if later else None
                    self._urgent = False
                    return True
                self._changed.wait(None if at is None else min(at - now, _LONGEST_WAIT_S))

    def _start_at(self) -> float | None:
        if self._due is None or self._urgent:
            return self._due
        return max(self._due, self._rest_until)

    def _schedule(self, found: Next) -> None:
        with self._changed:
            now = self.clock()
            self._rest_until = now + found.rest_s
            if found.again_s is not None and not self._stopping:
                at = now + found.again_s
                self._due = at if self._due is None else min(self._due, at)
