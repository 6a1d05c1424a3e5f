"""Events on their way into the store: received and on disk first, worked off behind.

Whoever sends an event waits for it to be on disk. Events that arrive while the disk is busy go
there together, in one transaction.
"""

from __future__ import annotations

import queue
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bbq_plugin.live.store import Store

__all__ = ["Inbox", "Letter"]

# Events that go to disk together at most.
_MOST_AT_ONCE = 512
#: Refused events that are kept for another try; beyond, the oldest go.
MOST_REFUSED = 10_000

Letter = tuple[int, float, bytes]


class Inbox:
    """Takes events from any thread; `on_arrival` is called when some are on disk."""

    def __init__(self, store: Store, on_arrival: Callable[[], None] = lambda: None) -> None:
        self._store = store
        self._on_arrival = on_arrival
        self._queue: queue.SimpleQueue[tuple[bytes, Future[None]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="bbq-inbox", daemon=True)
        self._closed = threading.Event()

    def start(self) -> None:
        """Begin to take events."""
        self._thread.start()

    def stop(self) -> None:
        """Write what has come, then end."""
        self._closed.set()
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def put(self, body: bytes) -> Future[None]:
        """Take an event; the future is done when it is on disk."""
        done: Future[None] = Future()
        if self._closed.is_set():
            done.set_exception(RuntimeError("the server is stopping"))
        else:
            self._queue.put((body, done))
        return done

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            some = [first]
            last = False
            while len(some) < _MOST_AT_ONCE and not self._queue.empty():
                one = self._queue.get()
                if one is None:
                    last = True
                    break
                some.append(one)
            self._write(some)
            if last:
                return

    def _write(self, some: Sequence[tuple[bytes, Future[None]]]) -> None:
        now = self._store.clock()
        try:
            with self._store.transaction() as transaction:
                transaction.db.executemany(
                    "INSERT INTO event (at, body) VALUES (?, ?)", [(now, body) for body, _ in some]
                )
        except Exception as error:  # noqa: BLE001 (the senders hear of it)
            for _, done in some:
                done.set_exception(error)
            return
        for _, done in some:
            done.set_result(None)
        self._on_arrival()

    # -- the other side

    def letters(self, most: int) -> list[Letter]:
        """The oldest events that wait to be worked off."""
        sql = "SELECT id, at, body FROM event WHERE reason IS NULL ORDER BY id LIMIT ?"
        return [(own, at, body) for own, at, body in self._store.rows(sql, (most,))]

    def retry(self) -> int:
        """Give refused events another try; how many there are."""
        with self._store.transaction() as transaction:
            db = transaction.db
            db.execute(
                "DELETE FROM event WHERE reason IS NOT NULL AND id NOT IN "
                "(SELECT id FROM event WHERE reason IS NOT NULL ORDER BY id DESC LIMIT ?)",
                (MOST_REFUSED,),
            )
            return db.execute("UPDATE event SET reason = NULL WHERE reason IS NOT NULL").rowcount
