"""Events of a labelling tool: read through its adapter, and put into the store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from bbq_plugin.data.records import Skipped, TaskRef
from bbq_plugin.errors import UsageError
from bbq_plugin.plugins import chosen_adapter, coerced
from bbq_plugin.protocols import ParsedEvent, Settled
from bbq_plugin.store import events, remote

if TYPE_CHECKING:
    from bbq_plugin.data.records import Comparison, Record
    from bbq_plugin.protocols import Adapter, EventReader
    from bbq_plugin.store import Store
    from bbq_plugin.store.transaction import Transaction
    from bbq_plugin.store.upsert import Tally

__all__ = ["cancelled_by_push", "event_reader", "reader_of", "take"]


def event_reader(adapter: str | Adapter, options: Mapping[str, Any] | None = None) -> EventReader:
    """What reads the events of an adapter's tool; `options` are those of the adapter."""
    chosen, _ = chosen_adapter(adapter, b"", "")
    make = getattr(chosen, "events", None)
    if make is None:
        raise UsageError(f"adapter {chosen.name!r} reads files, and no events")
    return cast("EventReader", make(**coerced(chosen, options or {})))


def reader_of(adapter: Adapter, options: Mapping[str, Any] | None = None) -> EventReader | None:
    """The same for any adapter whose events can be read.

    Instead of `events` an adapter may have a plain `read_event`, which yields the records of one.
    """
    if hasattr(adapter, "events"):
        return event_reader(adapter, options)
    plain = getattr(adapter, "read_event", None)
    return None if plain is None else cast("EventReader", _RecordEvents(plain))


class _RecordEvents:
    """Events that are records and nothing else: each stands alone."""

    def __init__(self, read: Callable[[Mapping[str, Any]], Iterable[Record]]) -> None:
        self._read = read

    def __call__(
        self, event: Mapping[str, Any], given: Collection[tuple[int, int]] = ()
    ) -> ParsedEvent:
        del given
        return ParsedEvent("event", records=tuple(self._read(event)))

    def settle(
        self, before: Sequence[Comparison], now: Sequence[Comparison], told: Collection[str]
    ) -> Settled:
        del before, now, told
        return Settled()

    def task(self, name: str) -> TaskRef:
        return TaskRef(name)


def take(
    transaction: Transaction,
    reader: EventReader,
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
    twice, or before one that should have come first, changes nothing. Which answers of a task
    count beside one another is for the reader to say. `on_partial` is called when a pull would
    bring more: an answer is gone in whose favour another one was taken out.
    """

    def add(records: Iterable[Record]) -> Tally:
        return transaction.add(records, kind, name, at, by_key=False, adapter=adapter, wholes=False)

    def comparisons(task: TaskRef) -> dict[int, Comparison]:
        return events.comparisons_under(transaction, events.task_keys(transaction, task))

    found = list(news)
    told: dict[TaskRef, set[str]] = {}
    for task, key in (pair for one in found for pair in one.answers):
        told.setdefault(task, set()).add(key)
    gone = [key for one in found for key in one.gone]
    # An answer that is deleted is named without its task.
    tasks = {**dict.fromkeys(map(reader.task, events.tasks_of(transaction, gone)), ()), **told}
    before = {task: list(comparisons(task).values()) for task in sorted(tasks)}
    events.add_task_answers(
        transaction, [(task.name, key) for task, keys in told.items() for key in keys]
    )
    for task in told:
        events.add_task(transaction, task)
    plans = {one.project or "": one.plan for one in found if one.plan is not None}
    events.add_plans(transaction, plans)
    records = [record for one in found for record in one.records]
    tally = add(records)
    for task in (task for one in found for task in one.gone_tasks):
        gone += events.task_keys(transaction, task)
        events.forget_task(transaction, task)
    if gone:
        tally.n_retracted += transaction.retract(dict.fromkeys(gone), for_good=True)[0]
    for task, known in before.items():
        now = comparisons(task)
        settled = reader.settle(known, list(now.values()), tasks[task])
        ids = list(now)
        retagged = {ids[place]: tags for place, tags in settled.tags.items()}
        tally.n_changed += transaction.retag(retagged)
        if settled.replaced:
            tally.n_retracted += add(settled.replaced).n_retracted
    gone += [one.key for one in records if isinstance(one, Skipped) and one.key is not None]
    if gone and events.has_set_aside(transaction, gone):
        on_partial()
    return tally


def cancelled_by_push(store: Store) -> frozenset[tuple[int, int]]:
    """Answers that were marked as cancelled from here, as project and answer."""
    return frozenset((project, ref) for _, project, ref in remote.cancelled_by_push(store))
