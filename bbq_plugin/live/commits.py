"""Many callers, one writer: what waits at the same moment is stored by the same transaction.

A commit is a wait for the disk, and it takes as long for a hundred answers as for one. So there is
one thread that commits; while it waits for the disk, callers line up, and its next transaction
takes all of them. No interrupt of a caller's thread reaches it in the middle of a transaction.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec
import numpy as np

from bbq_plugin.data.records import Comparison
from bbq_plugin.errors import StoreError, UsageError
from bbq_plugin.live.events import take
from bbq_plugin.store.columns import Change, joined

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from bbq_plugin.protocols import EventReader, ParsedEvent
    from bbq_plugin.store import Store
    from bbq_plugin.store.transaction import Transaction

__all__ = ["Commits", "Event", "Retraction", "Vote", "merged"]

T = TypeVar("T")

# Requests that one transaction takes at most, so that the first of them need not wait for ever.
_MOST_AT_ONCE = 4096
# Callers who shared a transaction come back one by one, within this time; without it the first of
# them would have the next transaction for itself, and a transaction would hold half of them.
_GATHER_S = 0.0002


@dataclass(eq=False)
class Request(Generic[T]):
    """What a caller waits for."""

    done: Future[T] = field(default_factory=Future, init=False)


@dataclass(eq=False)
class Vote(Request[str]):
    """One answer. `later`: whatever is there under its key is older, whatever the clock says."""

    record: Comparison
    later: bool


@dataclass(eq=False)
class Retraction(Request[bool]):
    """Take one answer back; whether it was there."""

    key: str


@dataclass(eq=False)
class Event(Request[int]):
    """What an adapter made of one event; how many answers came, changed or went."""

    news: ParsedEvent
    reader: EventReader
    adapter: str


AnyRequest = Vote | Retraction | Event


class Commits:
    """The thread that writes. `follow` is told each change before the callers are."""

    def __init__(self, store: Store, follow: Callable[[Change], None]) -> None:
        self._store = store
        self._follow = follow
        self._queue: SimpleQueue[AnyRequest | None] = SimpleQueue()
        self._mutex = threading.Lock()
        self._closed = False
        self.n_commits = 0
        self._thread = threading.Thread(target=self._run, name="bbq-hook-commits", daemon=True)
        self._thread.start()

    def submit(self, request: AnyRequest) -> None:
        """Line up; `request.done` has the result once it is on the disk."""
        with self._mutex:
            if self._closed:
                raise UsageError("this hook is closed; open another one")
            self._queue.put(request)

    def close(self) -> None:
        """Write what is lined up, and end."""
        with self._mutex:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        waiting: list[AnyRequest | None] = []
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
            # Who gave up waiting before this moment has not voted.
            self._commit(
                [r for r in waiting if r is not None and r.done.set_running_or_notify_cancel()]
            )

    def _commit(self, requests: list[AnyRequest]) -> None:
        if not requests:
            return
        tell: list[Callable[[], None]] = []
        try:
            with self._store.transaction() as transaction:
                for run in _runs(requests):
                    tell += self._write(transaction, run)
            self.n_commits += 1
            self._follow(transaction.change)
        except Exception as error:  # noqa: BLE001 (the callers raise it)
            if len(requests) > 1 and not isinstance(error, StoreError):
                # One that cannot be stored must not take the others with it.
                for request in requests:
                    self._commit([request])
            else:
                for request in requests:
                    request.done.set_exception(error)
        else:
            for one in tell:
                one()

    def _write(
        self, transaction: Transaction, run: list[AnyRequest]
    ) -> Iterator[Callable[[], None]]:
        """Write requests of one kind; how to tell those who wait, once it is committed."""
        first = run[0]
        at = self._store.clock()
        if isinstance(first, Retraction):
            n, _ = transaction.retract([first.key])
            yield _telling(first, n > 0)
        elif isinstance(first, Event):
            tally = take(
                transaction, first.reader, [first.news], "hook", first.adapter, at,
                adapter=first.adapter,
            )  # fmt: skip
            yield _telling(first, tally.n_new + tally.n_changed + tally.n_retracted)
        else:
            votes = [request for request in run if isinstance(request, Vote)]
            transaction.add([_dated(transaction, vote) for vote in votes], "hook", "", at)
            for vote in votes:
                yield _telling(vote, vote.record.key)


def _telling(request: Request[T], result: T) -> Callable[[], None]:
    return lambda: request.done.set_result(result)


def _dated(transaction: Transaction, vote: Vote) -> Comparison:
    """The record; a later one never has the earlier time, even if the clock was set back."""
    record = vote.record
    if not vote.later:
        return record
    (last,) = transaction.db.execute(
        "SELECT max(coalesce(version, at)) FROM comparison WHERE key = ?", (record.key,)
    ).fetchone()
    if last is None or record.at is None or last <= record.at:
        return record
    return msgspec.structs.replace(record, at=last)


def _runs(requests: Iterable[AnyRequest]) -> Iterator[list[AnyRequest]]:
    """In their order; votes under different keys are written together."""
    run: list[AnyRequest] = []
    keys: set[str] = set()
    for request in requests:
        if isinstance(request, Vote) and request.record.key not in keys:
            run.append(request)
            keys.add(request.record.key)
            continue
        if run:
            yield run
        run, keys = [], set()
        if isinstance(request, Vote):
            run, keys = [request], {request.record.key}
        else:
            yield [request]
    if run:
        yield run


def merged(changes: list[Change]) -> Change:
    """Several changes, in their order, as one; what came and went meanwhile is in neither part."""
    if len(changes) == 1:
        return changes[0]
    added = joined(change.added for change in changes)
    removed = np.concatenate([np.empty(0, np.int64), *(change.removed for change in changes)])
    stays = ~np.isin(added["id"], removed)
    before = np.sort(removed[~np.isin(removed, added["id"])])
    kept = {name: column[stays] for name, column in added.items()}
    return Change(kept, before, changes[-1].last_id)
