"""Events that wait on disk are read into the store, then the fit follows."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from bbq_plugin.errors import BBQError, DataError
from bbq_plugin.live.events import take
from bbq_plugin.store import events
from bbq_plugin.store.schema import blames_store
from bbq_plugin.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from bbq_plugin.live.engine import Engine
    from bbq_plugin.protocols import EventReader, ParsedEvent
    from bbq_plugin.store.events import ReceivedEvent

__all__ = ["Worker"]

#: Events that are worked off in one transaction, which whoever sends the next ones waits for.
_BATCH = 64
# The fit follows no more often than this, however fast events come.
_REFRESH_S = 0.5

_LONGEST_PAUSE_S = 1.0
# To estimate the priors anew takes longer than all else together, and every tenth more answers
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
        tell: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self.engine, self.reader, self.tool = engine, reader, tool
        self._given, self._on_fit, self._on_partial, self._tell = given, on_fit, on_partial, tell
        #: The project whose events are taken; None: those of all.
        self.project: str | None = None
        self._problem: str | None = None
        #: When the priors may be estimated anew, on that clock.
        self._estimate_from = 0.0
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bbq-worker", daemon=True)

    def start(self) -> None:
        """Begin, with events that an earlier run has left or refused."""
        events.retry_refused(self.engine.store)
        self._wake.set()
        self._thread.start()

    def wake(self) -> None:
        """Say that there is something to do."""
        self._wake.set()

    def stop(self) -> None:
        """End after the batch under way; what is left waits on disk."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(self._until_estimate_s())
            self._wake.clear()
            if self._stop.is_set():
                return
            try:
                self._turn()
                self._problem = None
            except Exception as error:  # noqa: BLE001 (whatever it is, events go on coming)
                self._failed(error)

    def _failed(self, error: Exception) -> None:
        """Say so once; what waits on disk is tried again after a pause."""
        known = isinstance(error, BBQError)
        problem = plain(str(error)) if known else f"{type(error).__name__}: {plain(str(error))}"
        if problem != self._problem:
            self._tell(f"events could not be worked off: {problem}")
        self._problem = problem
        self._stop.wait(_LONGEST_PAUSE_S)
        try:
            if events.waiting_events(self.engine.store, 1):
                self._wake.set()
        except BBQError:
            self._wake.set()

    def _turn(self) -> None:
        begun = self._clock()
        while not self._stop.is_set():
            if not self.work():
                break
            if self._clock() - begun > _REFRESH_S:
                self._wake.set()
                break
        self.follow()
        # A quarter of the time at most: whoever sends or looks needs the rest.
        spent = self._clock() - begun
        self._stop.wait(min(max(_REFRESH_S - spent, 3 * spent), _LONGEST_PAUSE_S))

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
        waiting = events.waiting_events(self.engine.store, _BATCH)
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
        for own, _, body in waiting:
            try:
                one = self.reader(body, given)
                self._check_project(one)
                news.append((own, one))
            except Exception as error:  # noqa: BLE001 (no event may hold up the others)
                refused[own] = _reason(error)
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
            self._store([], [own], {own: _reason(error)})

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
                events.remove_events(transaction, [own for own in ids if own not in refused])
                events.refuse_events(transaction, reasons)
            self.engine.apply(transaction.change)
        for reason in dict.fromkeys(reasons.values()):
            self._tell(f"an event was refused and is kept: {reason}")


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, BBQError) else f"{type(error).__name__}: {error}"
