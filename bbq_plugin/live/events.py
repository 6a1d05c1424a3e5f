"""Events of a labelling tool: read through its adapter, and put into the store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from bbq_plugin._options import coerced
from bbq_plugin.errors import UsageError
from bbq_plugin.events import News
from bbq_plugin.live.gold import KnownAnswers, keys_of
from bbq_plugin.registry import chosen_adapter

if TYPE_CHECKING:
    from bbq_plugin.events import EventReader
    from bbq_plugin.live.store import Store
    from bbq_plugin.live.store.transaction import Transaction
    from bbq_plugin.live.store.writing import Tally
    from bbq_plugin.registry import Adapter

__all__ = ["cancelled_by_push", "event_reader", "news_reader", "take"]

ReadNews = Callable[[Mapping[str, Any], Collection[str]], News]


def event_reader(adapter: str | Adapter, options: Mapping[str, Any] | None = None) -> EventReader:
    """What reads the events of an adapter's tool; `options` are those of the adapter."""
    chosen, _ = chosen_adapter(adapter, b"", "")
    make = getattr(chosen, "events", None)
    if make is None:
        raise UsageError(f"adapter {chosen.name!r} reads files, and no events")
    return cast("EventReader", make(**coerced(chosen, options or {})))


def news_reader(adapter: Adapter, options: Mapping[str, Any] | None = None) -> ReadNews | None:
    """How the events of an adapter's tool are read, if they can be.

    Beside `events` an adapter may have a plain `read_event`, which yields the records of one.
    """
    if hasattr(adapter, "events"):
        return event_reader(adapter, options)
    plain = getattr(adapter, "read_event", None)
    if plain is None:
        return None

    def read(event: Mapping[str, Any], given: Collection[str] = ()) -> News:
        del given
        return News("event", records=tuple(plain(event)))

    return read


def take(
    transaction: Transaction,
    news: Iterable[News],
    kind: str,
    name: str,
    at: float,
    *,
    adapter: str | None = None,
) -> Tally:
    """Put what events say into the store, in whatever order they come.

    Of two records of an answer the newer counts, and what was deleted stays out: so an event
    twice, or before one that should have come first, changes nothing.
    """
    found = list(news)
    db = transaction.db
    known = KnownAnswers(db, found)
    db.executemany(
        "INSERT OR IGNORE INTO task_answer VALUES (?, ?)",
        [pair for one in found for pair in one.answers],
    )
    tally = transaction.add(
        [record for one in found for record in one.records],
        kind, name, at, by_key=False, adapter=adapter, wholes=False,
    )  # fmt: skip
    gone = [key for one in found for key in one.gone]
    for task in (task for one in found for task in one.gone_tasks):
        gone += keys_of(db, task)
        db.execute("DELETE FROM task_answer WHERE task = ?", (task,))
    if gone:
        tally.n_retracted += transaction.retract(dict.fromkeys(gone), for_good=True)[0]
    tally.n_changed += known.settle(transaction)
    return tally


def cancelled_by_push(store: Store) -> frozenset[str]:
    """Keys of answers that were marked as cancelled from here: their raters did give them."""
    return frozenset(
        f"ls:{project}:{ref}"
        for project, ref in store.rows(
            "SELECT r.project, j.ref FROM journal j JOIN remote r ON r.id = j.remote "
            "WHERE j.kind = 'cancel' AND j.state IN ('begun', 'done', 'undoing')"
        )
    )
