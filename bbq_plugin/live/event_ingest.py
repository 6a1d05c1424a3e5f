"""From the events of a labelling tool to the store, through the reader of its adapter.

`Worker` reads the events that wait on disk; then the fit follows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from bbq_plugin.data.records import Skipped, TaskRef
from bbq_plugin.errors import BBQError, DataError, UsageError
from bbq_plugin.live.engine import StudyEngines
from bbq_plugin.live.health import Problems, reason_of
from bbq_plugin.live.job_runner import Job, Next
from bbq_plugin.plugins import chosen_adapter, coerced
from bbq_plugin.protocols import ParsedEvent, Settled
from bbq_plugin.store import event_inbox, project_sync
from bbq_plugin.store.database_file import blames_store
from bbq_plugin.store.store import comparisons_under
from bbq_plugin.store.studies import MAIN, bind, study_ids
from bbq_plugin.store.transaction import Tally
from bbq_plugin.text import plain

if TYPE_CHECKING:
    from bbq_plugin.data.records import Comparison, Record
    from bbq_plugin.live.engine import Engine
    from bbq_plugin.protocols import Adapter, EventReader, TaskPage
    from bbq_plugin.store import Store
    from bbq_plugin.store.event_inbox import ReceivedEvent
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
        bound = bound_questions(transaction, one, one.project or "", study, named)
        for own, records in studied(one, bound).items():
            found.setdefault(own, []).extend(records)
    return found


def bound_questions(
    transaction: Transaction,
    told: ParsedEvent | TaskPage,
    project: str,
    study: int = MAIN,
    named: Named = lambda *_: None,
) -> dict[str, int]:
    """The study of each question of an event or a page; a question without one gets one."""
    questions = (told.question, *told.others)
    asked = [question for question in questions if question]
    bound = bind(transaction.db, project, asked, told.title, named) if asked else {}
    return {question: bound.get(question, study) for question in questions}


def studied(told: ParsedEvent | TaskPage, bound: Mapping[str, int]) -> dict[int, list[Record]]:
    """The records of an event or a page by their study."""
    found: dict[int, list[Record]] = {}
    for question, records in {told.question: told.records, **told.others}.items():
        if records:
            found.setdefault(bound[question], []).extend(records)
    return found


def cancelled_by_push(store: Store) -> frozenset[tuple[int, int]]:
    """Answers that were marked as cancelled from here, as project and answer."""
    return frozenset((project, ref) for _, project, ref in project_sync.cancelled_by_push(store))


#: Events that are worked off in one transaction, which the sender of the next ones waits for.
_BATCH = 64
# The fit follows no more often than this, however fast events come.
_REFRESH_S = 0.5
_LONGEST_PAUSE_S = 1.0
# To estimate the priors takes longer than all else together, and every tenth more answers
# asks for it; it gets this share of the time, until a quiet moment makes up for it.
_ESTIMATING = 0.05
_LONGEST_REASON = 500


class Worker:
    """A thread that wakes up when events are there.

    `given` names the answers that this side has marked as cancelled. `on_fit` is called after the
    fit of a study has followed, `on_followed` after those of all, `on_partial` when a pull would
    tell more than the events do, `on_refused` when some are held back.
    """

    def __init__(
        self,
        engine: Engine | StudyEngines,
        reader: EventReader,
        *,
        tool: str = "label-studio",
        given: Callable[[], Collection[tuple[int, int]]] = frozenset,
        on_fit: Callable[[Engine], None] = lambda _: None,
        on_followed: Callable[[], None] = lambda: None,
        on_partial: Callable[[], None] = lambda: None,
        on_refused: Callable[[], None] = lambda: None,
        problems: Problems | None = None,
        named: Named = lambda *_: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self.engines = engine if isinstance(engine, StudyEngines) else StudyEngines(engine)
        self.engine, self.reader, self.tool = self.engines.first, reader, tool
        self._named, self._on_refused = named, on_refused
        self._given, self._on_fit, self._on_partial = given, on_fit, on_partial
        self._on_followed = on_followed
        self._problems = problems or Problems()
        #: The projects whose events are taken; none: those of all.
        self.projects: frozenset[str] = frozenset()
        #: Those that are pulled as well.
        self.pulled: frozenset[str] = frozenset()
        #: When the priors of a study may be estimated again, on that clock.
        self._estimate_from: dict[int, float] = {}
        #: Why the fits of some studies failed the last time.
        self._failed_fits: dict[int, Exception] = {}
        #: How many fits have followed in this turn.
        self._n_fitted = 0
        #: How long the last fit took.
        self.fit_s: float | None = None
        self.job = Job("worker", self._turn, self._failed, clock=clock)

    def start(self) -> None:
        """Begin, with events that an earlier run has left or refused."""
        event_inbox.retry_refused(self.engine.store)
        self.job.start(due=True)

    def _failed(self, error: Exception) -> Next:
        """What waits on disk is tried again after a pause."""
        self._problems.report("events", error)
        try:
            waiting = bool(event_inbox.waiting_events(self.engine.store, 1))
        except BBQError:
            waiting = True
        return Next(_LONGEST_PAUSE_S, 0.0 if waiting else self._until_estimate_s())

    def _turn(self) -> Next:
        begun = self._clock()
        more = False
        while not self.job.stopping() and not more and self.work():
            more = self._clock() - begun > _REFRESH_S
        self.follow()
        self._problems.over("events")
        # A quarter of the time at most: senders and pages need the rest.
        spent = self._clock() - begun
        rest_s = min(max(_REFRESH_S - spent, 3 * spent), _LONGEST_PAUSE_S)
        return Next(rest_s, 0.0 if more else self._until_estimate_s())

    def follow(self) -> None:
        """Let the fits follow the answers, if there are any; the priors not as often."""
        self._n_fitted = 0
        failed = [error for engine in self.engines if (error := self._follow(engine)) is not None]
        if self._n_fitted:
            self._on_followed()
        if failed:
            # The answers are in; the page shows the last fit.
            self._problems.report("fit", failed[0])
        else:
            self._problems.over("fit")

    def _follow(self, engine: Engine) -> Exception | None:
        begun = self._clock()
        estimates = engine.outgrown and begun >= self._estimate_from.get(engine.study, 0.0)
        if not (engine.changed or estimates) or not engine.n_comparisons:
            return self._failed_fits.get(engine.study)
        self._failed_fits.pop(engine.study, None)
        try:
            engine.refresh(hold_priors=not estimates)
            self._on_fit(engine)
            self._n_fitted += 1
        except Exception as error:
            if blames_store(error):
                raise
            self._failed_fits[engine.study] = error
            return error
        else:
            self.fit_s = self._clock() - begun
            return None
        finally:
            if estimates:
                now = self._clock()
                self._estimate_from[engine.study] = now + (now - begun) * (1 / _ESTIMATING - 1)

    def _until_estimate_s(self) -> float | None:
        """How long to wait for events at most, because the priors are due; None for ever."""
        due = [
            self._estimate_from.get(engine.study, 0.0)
            for engine in self.engines if engine.outgrown
        ]  # fmt: skip
        return max(0.0, min(due) - self._clock()) if due else None

    def work(self) -> int:
        """Work off one batch; how many events it had."""
        waiting = event_inbox.waiting_events(self.engine.store, _BATCH)
        if not waiting:
            return 0
        news, refused = self._read(waiting)
        try:
            self._store([one for _, one in news], [event.id for event in waiting], refused)
        except Exception as error:
            if blames_store(error):
                raise
            # One of them spoils the rest: each for itself.
            for own, one in news:
                self._store_one(own, one)
            self._store([], list(refused), refused)
        if any(one.partial or one.problem is not None for _, one in news):
            self._on_partial()
        return len(waiting)

    def _read(
        self, waiting: Sequence[ReceivedEvent]
    ) -> tuple[list[tuple[int, ParsedEvent]], dict[int, str]]:
        news, refused = [], {}
        given = self._given()
        for own, body in waiting:
            try:
                one = self.reader(body, given)
                self._check_project(one)
                news.append((own, one))
                if one.problem is not None and one.project not in self.pulled:
                    # What can be read counts; the event waits for the rest. A pull brings that too,
                    # and its tasks tell what is held now.
                    refused[own] = one.problem
            except Exception as error:  # noqa: BLE001 (no event may hold up the others)
                refused[own] = reason_of(error)
        return news, refused

    def _check_project(self, news: ParsedEvent) -> None:
        if self.projects and news.project is not None and news.project not in self.projects:
            named = ", ".join(sorted(self.projects))
            raise DataError(
                f"it is of project {news.project}, and --project {named} was given; name it in "
                "[studies] of bbq.toml as well, or serve both without --project"
            )

    def _store_one(self, own: int, news: ParsedEvent) -> None:
        try:
            self._store([news], [own], {} if news.problem is None else {own: news.problem})
        except Exception as error:
            if blames_store(error):
                raise
            self._store([], [own], {own: reason_of(error)})

    def _store(
        self, news: Iterable[ParsedEvent], ids: Iterable[int], refused: dict[int, str]
    ) -> None:
        """Answers in and events out, in one transaction: each event counts once."""
        reasons = {own: plain(reason)[:_LONGEST_REASON] for own, reason in refused.items()}
        store = self.engine.store
        with self.engines.writing():
            with store.transaction() as transaction:
                found = list(news)
                if found:
                    take(
                        transaction, self.reader, found, "webhook", self.tool, store.clock(),
                        adapter=self.tool, on_partial=self._on_partial, named=self._named,
                    )  # fmt: skip
                n_dropped = event_inbox.settle_events(transaction, ids, reasons)
            self.engines.apply(transaction.change)
        for reason in dict.fromkeys(reasons.values()):
            self._problems.log("event_refused", reason=reason)
        if reasons:
            self._on_refused()
        if n_dropped:
            self._problems.log("refused_events_dropped", n=n_dropped, kept=event_inbox.MOST_REFUSED)
