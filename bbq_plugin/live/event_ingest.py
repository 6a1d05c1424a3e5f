"""From the events of a labelling tool to the store, through the reader of its adapter."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from bbq_plugin.data.records import Skipped, TaskRef
from bbq_plugin.errors import UsageError
from bbq_plugin.plugins import chosen_adapter, coerced
from bbq_plugin.protocols import ParsedEvent, Settled
from bbq_plugin.store import project_sync
from bbq_plugin.store.store import comparisons_under
from bbq_plugin.store.studies import MAIN, bind, study_ids
from bbq_plugin.store.transaction import Tally

if TYPE_CHECKING:
    from bbq_plugin.data.records import Comparison, Record
    from bbq_plugin.protocols import Adapter, EventReader, TaskPage
    from bbq_plugin.store import Store
    from bbq_plugin.store.studies import Named
    from bbq_plugin.store.transaction import Transaction


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
    study: int = MAIN,
    named: Named = lambda *_: None,
) -> Tally:
    """Put what events say into the store, in whatever order they come.

    Each question of a project has a study, which `named` may name; `study` is for answers of which
    no question is told.

    Of two records of an answer the newer counts, and what was deleted stays out: so an event
    twice, or before one that should have come first, changes nothing. Which answers of a task
    count beside one another is for the reader to say. `on_partial` is called when a pull would
    bring more: an answer is gone in whose favour another one was taken out.
    """
    total = Tally()

    def add(records: Iterable[Record], own: int) -> None:
        total.include(
            transaction.add(
                records, kind, name, at, study=own, by_key=False, adapter=adapter, wholes=False
            )
        )

    def comparisons(task: TaskRef, study: int) -> dict[int, Comparison]:
        keys = project_sync.task_keys(transaction, task)
        return comparisons_under(transaction, keys, study)

    found = list(news)
    by_study = _by_study(transaction, found, study, named)
    told = _told_answers(found)
    gone = [key for one in found for key in one.gone]
    # An answer that is deleted is named without its task.
    tasks = {
        **dict.fromkeys(map(reader.task, project_sync.tasks_of(transaction, gone)), ()),
        **told,
    }
    before = {
        (task, own): list(comparisons(task, own).values())
        for task in sorted(tasks) for own in study_ids(transaction.db)
    }  # fmt: skip
    project_sync.add_task_answers(
        transaction, [(task.name, key) for task, keys in told.items() for key in keys]
    )
    for task in told:
        project_sync.add_task(transaction, task)
    plans = {one.project or "": one.plan for one in found if one.plan is not None}
    project_sync.add_plans(transaction, plans)
    for own, records in by_study.items():
        add(records, own)
    for task in (task for one in found for task in one.gone_tasks):
        gone += project_sync.task_keys(transaction, task)
        project_sync.forget_task(transaction, task)
    if gone:
        total.n_retracted += transaction.retract(dict.fromkeys(gone), None, for_good=True)[0]
    for (task, own), known in before.items():
        now = comparisons(task, own)
        settled = reader.settle(known, list(now.values()), tasks[task])
        if settled.tags:
            ids = list(now)
            by_id = {ids[place]: tags for place, tags in settled.tags.items()}
            total.n_changed += transaction.retag(by_id)
        if settled.replaced:
            add(settled.replaced, own)
    told_of = [record for records in by_study.values() for record in records]
    gone += [one.key for one in told_of if isinstance(one, Skipped) and one.key is not None]
    if gone and project_sync.has_set_aside(transaction, gone):
        on_partial()
    return total


def _told_answers(news: Iterable[ParsedEvent]) -> dict[TaskRef, set[str]]:
    """The keys of the answers of each task that events tell of."""
    told: dict[TaskRef, set[str]] = {}
    for task, key in (pair for one in news for pair in one.answers):
        told.setdefault(task, set()).add(key)
    return told


def _by_study(
    transaction: Transaction, news: Iterable[ParsedEvent], study: int, named: Named
) -> dict[int, list[Record]]:
    """The records of some events by their study."""
    found: dict[int, list[Record]] = {}
    for one in news:
        for own, records in studied(transaction, one, one.project or "", study, named).items():
            found.setdefault(own, []).extend(records)
    return found


def studied(
    transaction: Transaction,
    told: ParsedEvent | TaskPage,
    project: str,
    study: int = MAIN,
    named: Named = lambda *_: None,
) -> dict[int, list[Record]]:
    """The records of an event or a page by their study; a question without one gets one."""
    by_question = {told.question: told.records, **told.others}
    asked = [question for question in by_question if question]
    bound = bind(transaction.db, project, asked, told.title, named) if asked else {}
    found: dict[int, list[Record]] = {}
    for question, records in by_question.items():
        if records:
            found.setdefault(bound.get(question, study), []).extend(records)
    return found


def cancelled_by_push(store: Store) -> frozenset[tuple[int, int]]:
    """Answers that were marked as cancelled from here, as project and answer."""
    return frozenset((project, ref) for _, project, ref in project_sync.cancelled_by_push(store))
