"""Events that wait on disk are read into the store, then the fit follows."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bbq_plugin.errors import BBQError, DataError
from bbq_plugin.live.events import take
from bbq_plugin.live.log import Problems, reason_of
from bbq_plugin.live.runner import Job, Next
from bbq_plugin.store import inbox
from bbq_plugin.store.schema import blames_store
from bbq_plugin.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from bbq_plugin.live.engine import Engine
    from bbq_plugin.protocols import EventReader, ParsedEvent
    from bbq_plugin.store.inbox import ReceivedEvent

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
    fit has followed, `on_partial` when a pull would tell more than the events do.
    """

    def __init__(
        self,
        engine: Engine,
        reader: EventReader,
        *,
        tool: str = "label-studio",
        given: Callable[[], Collection[tuple[int, int]]] = frozenset,
        on_fit: Callable[[], None] = lambda: None,
        on_partial: Callable[[], None] = lambda: None,
        problems: Problems | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self.engine, self.reader, self.tool = engine, reader, tool
        self._given, self._on_fit, self._on_partial = given, on_fit, on_partial
        self._problems = problems or Problems()
        #: The project whose events are taken; None: those of all.
        self.project: str | None = None
        #: When the priors may be estimated again, on that clock.
        self._estimate_from = 0.0
        self.job = Job("worker", self._turn, self._failed, clock=clock)

    def start(self) -> None:
        """Begin, with events that an earlier run has left or refused."""
        inbox.retry_refused(self.engine.store)
        self.job.start(due=True)

    def _failed(self, error: Exception) -> Next:
        """What waits on disk is tried again after a pause."""
        self._problems.report("events", error)
        try:
            waiting = bool(inbox.waiting_events(self.engine.store, 1))
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
        """Let the fit follow the answers, if there are any; the priors not as often."""
        engine, begun = self.engine, self._clock()
        estimates = engine.outgrown and begun >= self._estimate_from
        if not (engine.changed or estimates) or not engine.store.counts().n_comparisons:
            return
        try:
            engine.refresh(hold_priors=not estimates)
        finally:
            if estimates:
                now = self._clock()
                self._estimate_from = now + (now - begun) * (1 / _ESTIMATING - 1)
        self._on_fit()

    def _until_estimate_s(self) -> float | None:
        """How long to wait for events at most, because the priors are due; None for ever."""
        if not self.engine.outgrown:
            return None
        return max(0.0, self._estimate_from - self._clock())

    def work(self) -> int:
        """Work off one batch; how many events it had."""
        waiting = inbox.waiting_events(self.engine.store, _BATCH)
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
            except Exception as error:  # noqa: BLE001 (no event may hold up the others)
                refused[own] = reason_of(error)
        return news, refused

    def _check_project(self, news: ParsedEvent) -> None:
        if self.project is not None and news.project not in (None, self.project):
            raise DataError(
                f"it is of project {news.project}, and --project {self.project} was given; serve "
                "each project from a store of its own, or both without --project"
            )

    def _store_one(self, own: int, news: ParsedEvent) -> None:
        try:
            self._store([news], [own], {})
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
        with self.engine.writing():
            with store.transaction() as transaction:
                found = list(news)
                if found:
                    take(
                        transaction, self.reader, found, "webhook", self.tool, store.clock(),
                        adapter=self.tool, on_partial=self._on_partial,
                    )  # fmt: skip
                inbox.settle_events(transaction, ids, reasons)
            self.engine.apply(transaction.change)
        for reason in dict.fromkeys(reasons.values()):
            self._problems.log("event_refused", reason=reason)
