"""Background jobs: when they run, what their errors do, and how they end."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from bbq_plugin.live.job_runner import Job, Next
from tests.waiting import HANG_S


class Clock:
    """Stands still until a test turns it."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Runs:
    """A job whose runs a test sees, and lets end one by one."""

    def __init__(
        self, *found: Next | Exception, held: bool = False, alone: threading.Lock | None = None
    ) -> None:
        self.clock = Clock()
        self.begun: queue.SimpleQueue[float] = queue.SimpleQueue()
        self.errors: queue.SimpleQueue[Exception] = queue.SimpleQueue()
        self.held = threading.Semaphore(0 if held else 1_000_000)
        self._found = iter(found)
        self.job = Job("test", self._work, self._failed, alone=alone, clock=self.clock)

    def _work(self) -> Next:
        self.begun.put(self.clock())
        assert self.held.acquire(timeout=HANG_S)
        found = next(self._found, Next())
        if isinstance(found, Exception):
            raise found
        return found

    def _failed(self, error: Exception) -> Next:
        self.errors.put(error)
        return Next()

    def one(self) -> float:
        return self.begun.get(timeout=HANG_S)

    def none(self) -> bool:
        return self.begun.empty()


@contextmanager
def running(runs: Runs, *, due: bool = False) -> Iterator[Callable[..., None]]:
    runs.job.start(due=due)
    try:
        yield runs.job.wake
    finally:
        runs.held.release(1_000_000)
        assert runs.job.stop(HANG_S)


def test_requests_during_a_run_are_answered_by_one_more() -> None:
    runs = Runs(held=True)
    with running(runs, due=True) as wake:
        runs.one()
        for _ in range(5):
            wake()
        runs.held.release()
        runs.one()
        runs.held.release()
    assert runs.none()


def test_a_job_that_is_not_woken_runs_again_only_if_it_asked_for_that() -> None:
    runs = Runs(Next(again_s=0.0), Next(again_s=0.0), Next())
    with running(runs, due=True):
        for _ in range(3):
            runs.one()
    assert runs.none()


def test_a_rest_collects_requests_and_an_urgent_one_does_not_wait_for_it() -> None:
    runs = Runs(Next(rest_s=60.0), Next(rest_s=60.0))
    with running(runs, due=True) as wake:
        assert runs.one() == 100.0
        wake()
        wake(urgent=True)
        assert runs.one() == 100.0
        wake()
        runs.clock.now = 160.0
        # The clock of a test does not end a wait: a request does.
        wake()
        assert runs.one() == 160.0
    assert runs.none()


def test_a_request_for_later_is_not_answered_by_a_run_before_that() -> None:
    runs = Runs()
    with running(runs) as wake:
        wake(10.0)
        wake()
        assert runs.one() == 100.0
        runs.clock.now = 110.0
        wake(3600.0)
        assert runs.one() == 110.0


def test_an_error_reaches_the_owner_and_the_job_goes_on() -> None:
    runs = Runs(ValueError("no"), Next())
    with running(runs, due=True) as wake:
        runs.one()
        assert str(runs.errors.get(timeout=HANG_S)) == "no"
        wake()
        runs.one()
    assert runs.errors.empty()


def test_an_owner_who_fails_over_an_error_does_not_end_the_job(
    caplog: pytest.LogCaptureFixture,
) -> None:
    runs = Runs(ValueError("no"), Next())

    def failed(error: Exception) -> Next:
        raise OSError("disk full") from error

    runs.job = Job("test", runs._work, failed, clock=runs.clock)
    with running(runs, due=True) as wake:
        runs.one()
        wake(urgent=True)
        runs.one()
    assert "bbq-test: an error could not be reported" in caplog.text
    assert "disk full" in caplog.text


def test_the_end_drops_what_is_due_unless_it_is_to_be_finished() -> None:
    for finish, n in ((False, 1), (True, 2)):
        runs = Runs(Next(rest_s=3600.0), Next(rest_s=3600.0, again_s=0.0))
        runs.job.start(due=True)
        runs.one()
        runs.job.wake()
        assert runs.job.stop(HANG_S, finish=finish)
        assert runs.begun.qsize() == n - 1
        assert not runs.job.is_alive()


def test_a_run_that_hangs_is_not_waited_for_longer_than_the_deadline() -> None:
    runs = Runs(held=True)
    with running(runs, due=True):
        runs.one()
        assert not runs.job.stop(0.01)
        assert runs.job.stopping()


def test_a_job_that_never_started_can_be_stopped() -> None:
    assert Runs().job.stop(finish=True)


def test_jobs_with_the_same_lock_run_one_at_a_time() -> None:
    alone = threading.Lock()
    one, other = Runs(held=True, alone=alone), Runs(alone=alone)
    with running(one, due=True), running(other):
        one.one()
        other.job.wake()
        assert alone.locked()
        assert other.none()
        one.held.release()
        other.one()
        # How long a run takes does not count the wait for the lock.
        assert other.job.spent_s == 0.0


def test_a_job_that_waits_for_its_lock_ends_without_a_run() -> None:
    alone = threading.Lock()
    runs = Runs(alone=alone)
    with alone:
        runs.job.start(due=True)
        runs.job.stop(0.0)
    assert runs.job.stop(HANG_S)
    assert runs.none()
