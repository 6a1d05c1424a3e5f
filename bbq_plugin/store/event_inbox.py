"""Events of a labelling tool that were received and wait to be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from bbq_plugin.store.group_commit import GroupCommit, Request
from bbq_plugin.store.sources_and_status import LAST_EVENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from concurrent.futures import Future

    from bbq_plugin.store.store import Store
    from bbq_plugin.store.transaction import Transaction

#: Refused events that are kept for another try; beyond, the oldest go.
MOST_REFUSED = 10_000


class ReceivedEvent(NamedTuple):
    """An event that waits to be read."""

    id: int
    body: bytes


class RefusedEvents(NamedTuple):
    """Events that were refused for one reason, the last of them at this time."""

    reason: str
    n: int
    at: float


@dataclass(eq=False)
class _Arrival(Request[None]):
    body: bytes


class Inbox:
    """Takes events from any thread; `on_arrival` is called when some are on disk."""

    def __init__(self, store: Store, on_arrival: Callable[[], None] = lambda: None) -> None:
        self._store = store
        self._commits = GroupCommit(
            store, self._write, on_commit=lambda _: on_arrival(),
            closed="the server is stopping; send the event again later", name="bbq-inbox",
        )  # fmt: skip

    def close(self) -> None:
        """Write what has come, then end."""
        self._commits.close()

    def put(self, body: bytes) -> Future[None]:
        """Take an event; the future is done when it is on disk."""
        arrival = _Arrival(body)
        self._commits.submit(arrival)
        return arrival.done

    def _write(self, transaction: Transaction, arrivals: Sequence[_Arrival]) -> list[None]:
        now = self._store.clock()
        transaction.db.executemany(
            "INSERT INTO event (at, body) VALUES (?, ?)", [(now, one.body) for one in arrivals]
        )
        return [None] * len(arrivals)


def waiting_events(store: Store, most: int) -> list[ReceivedEvent]:
    """The oldest events that wait to be read."""
    sql = "SELECT id, body FROM event WHERE reason IS NULL ORDER BY id LIMIT ?"
    return [ReceivedEvent(*row) for row in store.rows(sql, (most,))]


def settle_events(transaction: Transaction, ids: Iterable[int], refused: Mapping[int, str]) -> int:
    """Forget events whose answers are in; keep those that were refused, with the reason.

    How many refused ones had to go, the oldest, because they were too many.
    """
    # When events last came, also those that bring no answer.
    transaction.db.execute(
        "INSERT INTO note SELECT ?, at FROM (SELECT at FROM event ORDER BY id DESC LIMIT 1) "
        "WHERE true ON CONFLICT (name) DO UPDATE SET value = "
        "max(CAST(value AS REAL), CAST(excluded.value AS REAL))",
        (LAST_EVENT,),
    )
    done = [(own,) for own in ids if own not in refused]
    transaction.db.executemany("DELETE FROM event WHERE id = ?", done)
    reasons = [(why, own) for own, why in refused.items()]
    transaction.db.executemany("UPDATE event SET reason = ? WHERE id = ?", reasons)
    return _drop_oldest(transaction) if reasons else 0


def _drop_oldest(transaction: Transaction) -> int:
    """Keep so many refused events as there may be; how many went."""
    return transaction.db.execute(
        "DELETE FROM event WHERE reason IS NOT NULL AND id <= (SELECT id FROM event "
        "WHERE reason IS NOT NULL ORDER BY id DESC LIMIT 1 OFFSET ?)",
        (MOST_REFUSED,),
    ).rowcount


def retry_refused(store: Store) -> int:
    """Let refused events wait again; how many there are."""
    with store.transaction() as transaction:
        _drop_oldest(transaction)
        again = "UPDATE event SET reason = NULL WHERE reason IS NOT NULL"
        return transaction.db.execute(again).rowcount


def n_waiting(store: Store) -> int:
    """How many events wait to be read."""
    return int(store.rows("SELECT count(*) FROM event WHERE reason IS NULL")[0][0])


def refused_events(store: Store) -> list[RefusedEvents]:
    """The events that were refused, by reason, the newest reason first."""
    found = store.rows(
        "SELECT reason, count(*), max(at) FROM event WHERE reason IS NOT NULL "
        "GROUP BY reason ORDER BY max(id) DESC"
    )
    return [RefusedEvents(*row) for row in found]
