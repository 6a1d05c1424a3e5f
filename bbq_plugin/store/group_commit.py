"""Group commit: what callers of many threads want stored at one moment, by one transaction."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from bbq_plugin.errors import StoreError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bbq_plugin.store.coded_columns import Change
    from bbq_plugin.store.store import Store
    from bbq_plugin.store.transaction import Transaction

T = TypeVar("T")

# Requests that one transaction takes at most, so that the first of them need not wait for ever.
_MOST_AT_ONCE = 4096
# Callers who shared a transaction come back one by one, within this time; without it the first of
# them would have the next transaction for itself, and a transaction would hold half of them.
_GATHER_S = 0.0002


@dataclass(eq=False)
class Request(Generic[T]):
    """What a caller wants to have stored; `done` has the result once it is on the disk."""

    done: Future[T] = field(default_factory=Future, init=False)


R = TypeVar("R", bound=Request[Any])


class GroupCommit(Generic[R]):
    """A thread that stores what waits at the same moment by the same transaction.

    A commit is a wait for the disk, and it takes as long for a hundred answers as for one. While
    the thread waits, callers line up, and its next transaction takes all of them. No interrupt of
    a caller's thread reaches it in the middle of a transaction.

    `write` puts requests into a transaction, and gives their results in the same order.
    `on_commit` is told each change before the callers are; it must not fail. `closed` says to a
    caller who comes too late what to do.
    """

    def __init__(
        self,
        store: Store,
        write: Callable[[Transaction, Sequence[R]], Sequence[object]],
        *,
        on_commit: Callable[[Change], None],
        closed: str,
        name: str,
    ) -> None:
        self._store = store
        self._write = write
        self._on_commit = on_commit
        self._closed_reason = closed
        self._queue: SimpleQueue[R | None] = SimpleQueue()
        self._mutex = threading.Lock()
        self._closed = False
        self.n_commits = 0
        #: Started by the first request.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def submit(self, request: R) -> None:
        """Line up."""
        with self._mutex:
            if self._closed:
                raise UsageError(self._closed_reason)
            self._queue.put(request)
            if self._thread.ident is None:
                self._thread.start()

    def close(self) -> None:
        """Write what is lined up, and end."""
        with self._mutex:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        waiting: list[R | None] = []
        while None not in waiting:
            shared = len(waiting) > 1
            waiting = [self._queue.get()]
            if shared:
                time.sleep(_GATHER_S)
            try:
                while len(waiting) < _MOST_AT_ONCE:
                    waiting.append(self._queue.get_nowait())
            except Empty:
                pass
            # A caller who gave up before this moment has asked for nothing.
            self._commit(
                [r for r in waiting if r is not None and r.done.set_running_or_notify_cancel()]
            )

    def _commit(self, requests: list[R]) -> None:
        if not requests:
            return
        try:
            with self._store.transaction() as transaction:
                results = self._write(transaction, requests)
        except Exception as error:  # noqa: BLE001 (the callers raise it)
            if len(requests) > 1 and not isinstance(error, StoreError):
                # One that cannot be stored must not take the others with it.
                for request in requests:
                    self._commit([request])
            else:
                for request in requests:
                    request.done.set_exception(error)
            return
        self.n_commits += 1
        try:
            self._on_commit(transaction.change)
        except Exception as error:  # noqa: BLE001 (the callers raise it)
            for request in requests:
                request.done.set_exception(error)
            return
        for request, result in zip(requests, results, strict=True):
            request.done.set_result(result)
