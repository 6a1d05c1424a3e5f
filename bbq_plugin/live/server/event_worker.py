"""Events that wait on disk are read into the store, then the fit follows."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bbq_plugin.errors import BBQError, DataError
from bbq_plugin.live.engine import StudyEngines
from bbq_plugin.live.event_ingest import take
from bbq_plugin.live.jobs import Job, Next
from bbq_plugin.live.log import Problems, reason_of
from bbq_plugin.store import event_inbox
from bbq_plugin.store.database_file import blames_store
from bbq_plugin.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from bbq_plugin.live.engine import Engine
    from bbq_plugin.protocols import EventReader, ParsedEvent
    from bbq_plugin.store.event_inbox import ReceivedEvent
    from bbq_plugin.store.studies import Named

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
    fit has followed, `on_partial` when a pull would tell more than the events do, `on_refused` when
    some are held back.
    """

    def __init__(
        self,
        engine: Engine | StudyEngines,
        reader: EventReader,
        *,
        tool: str = "label-studio",
        given: Callable[[], Collection[tuple[int, int]]] = frozenset,
        on_fit: Callable[[Engine], None] = lambda _: None,
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
        self._problems = problems or Problems()
        #: The projects whose events are taken; none: those of all.
        self.projects: frozenset[str] = frozenset()
        #: When the priors of a study may be estimated again, on that clock.
        self._estimate_from: dict[int, float] = {}
        #: Why the fits of some studies failed the last time.
        self._failed_fits: dict[int, Exception] = {}
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
        failed = [error for engine in self.engines if (error := self._follow(engine)) is not None]
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
        if any(one.partial for _, one in news):
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
                if one.problem is not None:
                    # What can be read counts; the event waits for the rest.
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
