"""Events of a labelling tool: read through its adapter, and put into the store."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from bbq_plugin.data.records import Skipped
from bbq_plugin.errors import UsageError
from bbq_plugin.live.gold import KnownAnswers, keys_of, numbers_of
from bbq_plugin.plugins import chosen_adapter, coerced
from bbq_plugin.protocols import ParsedEvent
from bbq_plugin.store import events, remote

if TYPE_CHECKING:
    from bbq_plugin.protocols import Adapter, EventReader
    from bbq_plugin.store import Store
    from bbq_plugin.store.transaction import Transaction
    from bbq_plugin.store.upsert import Tally

__all__ = ["cancelled_by_push", "event_reader", "kept_plan", "news_reader", "take"]

ReadNews = Callable[[Mapping[str, Any], Collection[str]], ParsedEvent]


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

    def read(event: Mapping[str, Any], given: Collection[str] = ()) -> ParsedEvent:
        del given
        return ParsedEvent("event", records=tuple(plain(event)))

    return read


def take(
    transaction: Transaction,
    news: Iterable[ParsedEvent],
    kind: str,
    name: str,
    at: float,
    *,
    adapter: str | None = None,
    on_partial: Callable[[], None] = lambda: None,
) -> Tally:
    """Put what events say into the store, in whatever order they come.

    Of two records of an answer the newer counts, and what was deleted stays out: so an event
    twice, or before one that should have come first, changes nothing. Of two answers of a rater
    to one task the later counts. `on_partial` is called when a pull would bring more: the later
    one is gone, so that the earlier may count again.
    """
    found = list(news)
    known = KnownAnswers(transaction, found)
    events.add_task_answers(transaction, [pair for one in found for pair in one.answers])
    for task in {task for one in found for task, _ in one.answers}:
        project, own = numbers_of(task)
        # A number with zeros before it names no task of a server.
        if task == f"ls:{project}:task:{own}":
            events.add_task(transaction, project, own)
    plans = {one.project or "": one.plan for one in found if one.plan is not None}
    events.add_plans(transaction, plans)
    records = [record for one in found for record in one.records]
    tally = transaction.add(records, kind, name, at, by_key=False, adapter=adapter, wholes=False)
    gone = [key for one in found for key in one.gone]
    for task in (task for one in found for task in one.gone_tasks):
        gone += keys_of(transaction, task)
        events.forget_task(transaction, task, *numbers_of(task))
    if gone:
        tally.n_retracted += transaction.retract(dict.fromkeys(gone), for_good=True)[0]
    later = _replaced(transaction, dict.fromkeys(task for one in found for task, _ in one.answers))
    if later:
        more = transaction.add(later, kind, name, at, by_key=False, adapter=adapter, wholes=False)
        tally.n_retracted += more.n_retracted
    tally.n_changed += known.settle()
    gone += [one.key for one in records if isinstance(one, Skipped) and one.key is not None]
    if gone and events.has_set_aside(transaction, gone):
        on_partial()
    return tally


def _replaced(transaction: Transaction, tasks: Iterable[str]) -> list[Skipped]:
    """Answers that their raters have replaced by a later one to the same task.

    Which one is the later is decided as for a page of a pull, where all stand side by side.
    """
    found = []
    for task in tasks:
        keys = keys_of(transaction, task)
        if len(keys) < 2:
            continue
        newest: dict[int, tuple[float, float, int, str]] = {}
        said = []
        for key, rater, version, at in events.answers_of(transaction, keys):
            own = (_known(version), _known(at), _own_number(key), key)
            said.append((key, rater, at, own))
            newest[rater] = max(newest.get(rater, own), own)
        found += [
            Skipped(
                key, "replaced by the rater's later answer to the same task", expected=True,
                key=key, version=newest[rater][0], at=at,
            )
            for key, rater, at, own in said
            if newest[rater] != own
        ]  # fmt: skip
    return found


def _known(time: float | None) -> float:
    return float("-inf") if time is None else float(time)


def _own_number(key: str) -> int:
    """Of an annotation; later ones have higher ones."""
    last = key.rpartition(":")[2]
    return int(last) if re.fullmatch(r"[0-9]{1,18}", last) else -1


def kept_plan(store: Store, project: str) -> Mapping[str, Any] | None:
    """How the answers of a project are read, as its events or pages have told last time."""
    if not re.fullmatch(r"[0-9]{1,18}", project):
        return None
    return events.plan_of(store, project)


def cancelled_by_push(store: Store) -> frozenset[str]:
    """Keys of answers that were marked as cancelled from here: their raters did give them."""
    return frozenset(f"ls:{project}:{ref}" for _, project, ref in remote.cancelled_by_push(store))
