"""What the page shows: the last analysis, and what more answers would buy, computed behind it."""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from bbq_plugin.analysis import Analysis, Limits
from bbq_plugin.analysis.stopping import significant_pairs
from bbq_plugin.live.camp_changes import CampChange, camp_change
from bbq_plugin.live.jobs import Job, Next
from bbq_plugin.live.log import Problems
from bbq_plugin.live.server.study_past import PastPoints, past_points
from bbq_plugin.live.server.study_slices import Slices
from bbq_plugin.report.history import HISTORY_POINTS, history_rows
from bbq_plugin.report.summary import StopSection, stop_section

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from bbq_plugin.analysis.inter_rater import InterRater
    from bbq_plugin.data.feedback_actions import PlanWorth
    from bbq_plugin.data.records import HistoryPoint
    from bbq_plugin.live.engine import Engine

T = TypeVar("T")

#: Items whose pairs the page shows one by one.
MATRIX = 16
#: Pairs that are named as worth comparing next.
PAIRS = 12
#: Answers of which the page says what they would buy.
MORE_ANSWERS = 200
_CHANGES = 20
# This share of the time at most: senders and pages need the rest.
_SHARE = 0.2


@dataclass(frozen=True)
class Outlook:
    """When to stop, and what more answers would buy, by the answers of one analysis."""

    #: When the answers were as they are taken here.
    at: float
    n_comparisons: int
    section: StopSection
    #: Pairs of the best items that are significant under continuous monitoring.
    apart: frozenset[tuple[str, str]]
    #: What more answers would buy; None of too many items.
    worth: PlanWorth | None
    #: Agreement as the field knows it; None over parts.
    inter_rater: InterRater | None
    #: The item that is significantly the best under continuous monitoring.
    best: str | None


def outlook(analysis: Analysis) -> Outlook:
    """What an analysis says about when to stop."""
    # The rule needs nothing but counts of votes: taken from all answers each time, they are what
    # a reader who followed vote by vote would have.
    section = stop_section(analysis.stopping, analysis.fragility)
    shown = [row.item for row in analysis.leaderboard[:MATRIX]]
    apart = significant_pairs(analysis.fit, shown, analysis.limits.level)
    worth = analysis.next_worth(MORE_ANSWERS, PAIRS) if len(analysis.leaderboard) > 1 else None
    n, best = analysis.fit.data.n_comparisons, analysis.stopping.best
    return Outlook(analysis.at, n, section, apart, worth, analysis.inter_rater, best)


class FollowUp(Generic[T]):
    """Makes something of the newest analysis, in the background, when a page asks for it."""

    def __init__(
        self,
        what: str,
        make: Callable[[Analysis], T],
        newest: Callable[[], Analysis | None],
        on_news: Callable[[], None],
        problems: Problems,
    ) -> None:
        self._what, self._work, self._newest = what, make, newest
        self._on_news, self._problems = on_news, problems
        #: Called with each new one.
        self.on_made: Callable[[T], None] = lambda _: None
        self._last: T | None = None
        # The analysis it is of, which may go: it holds all answers.
        self._of: weakref.ref[Analysis] | None = None
        self.job = Job(what, self._make, self._failed)

    def last(self) -> T | None:
        """The last one there is; a newer one will follow, if there is something new."""
        if not self._is_of(self._newest()):
            self.job.wake()
        return self._last

    def _is_of(self, analysis: Analysis | None) -> bool:
        return analysis is None or (self._of is not None and self._of() is analysis)

    def _make(self) -> Next:
        analysis = self._newest()
        if analysis is None or self._is_of(analysis):
            return Next()
        # Of one that fails as well: it is not tried again.
        self._of = weakref.ref(analysis)
        self._last = made = self._work(analysis)
        self.on_made(made)
        self._problems.over(self._what)
        return self._rest()

    def _failed(self, error: Exception) -> Next:
        self._problems.report(self._what, error)
        return self._rest()

    def _rest(self) -> Next:
        self._on_news()
        return Next(self.job.spent_s * (1 / _SHARE - 1))


class Outlooks(FollowUp[Outlook]):
    """Makes an outlook of the newest analysis."""

    def __init__(
        self, newest: Callable[[], Analysis | None], on_news: Callable[[], None], problems: Problems
    ) -> None:
        super().__init__("outlook", outlook, newest, on_news, problems)


# While answers come, the leaderboard is put on record no more often than this.
HISTORY_S = 5.0
# An analysis that takes longer is made behind the pages, which show the last one meanwhile.
_QUICK_S = 0.25


class PageNews:
    """Tells open pages that something on them has changed."""

    def __init__(self) -> None:
        #: Goes up with everything that changes a page; no number of an earlier start.
        self.number = time.time_ns() // 1_000_000
        self._counting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news: asyncio.Event | None = None
        self._closed = False

    def touch(self) -> None:
        """Say that something has changed; from any thread."""
        with self._counting:
            self.number += 1
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._ring)

    def open(self) -> None:
        """Be told of news in the loop that runs now."""
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()

    def close(self) -> None:
        """Let everybody go who waits."""
        self._closed = True
        self._ring()

    def _ring(self) -> None:
        if self._news is not None:
            self._news.set()
            self._news = asyncio.Event()

    async def numbers(self, beat_s: float = 15.0) -> AsyncIterator[int | None]:
        """The number of each change from now on; None now and then, to keep a line open."""
        last = -1
        while not self._closed:
            waiting = self._news
            if self.number != last:
                last = self.number
                yield last
                continue
            if waiting is None:
                return
            try:
                async with asyncio.timeout(beat_s):
                    await waiting.wait()
            except TimeoutError:
                yield None


class View:
    """The newest analysis of a study that is complete: pages compute nothing."""

    def __init__(
        self,
        engine: Engine,
        limits: Limits = Limits(),  # noqa: B008 (a frozen value)
        problems: Problems | None = None,
        news: PageNews | None = None,
    ) -> None:
        self.engine, self.limits = engine, limits
        self.analysis: Analysis | None = None
        self.touch = (news or PageNews()).touch
        #: When to stop.
        self._problems = problems or Problems()
        self._took_s = 0.0
        self._completing = Job("analysis", self._complete_newest, self._not_completed)
        self._newest: Analysis | None = None
        self.outlooks = Outlooks(lambda: self.analysis, self.touch, self._problems)
        self.past = FollowUp(
            "history", lambda _: self._made_past(), lambda: self.analysis, self.touch,
            self._problems,
        )  # fmt: skip
        self.slices = Slices(engine, lambda: self.analysis, self.touch, self._problems)
        self._past: PastPoints | None = None
        #: When the number of camps changed since the start, the last first.
        self.camp_changes: deque[tuple[float, CampChange]] = deque(maxlen=_CHANGES)
        self._history: list[HistoryPoint] | None = None
        self._recorded_at = 0.0
        #: Called with each analysis that is shown from now on.
        self.on_shown: Callable[[Analysis], None] = lambda _: None

    def start(self) -> None:
        """Begin to work in the background."""
        for job in self._jobs:
            job.start()

    def stop(self, deadline_s: float) -> None:
        """End, and put the last leaderboard on record."""
        for job in self._jobs:
            job.stop(deadline_s)
        self.record()

    @property
    def _jobs(self) -> tuple[Job, ...]:
        return self._completing, self.outlooks.job, self.past.job, self.slices.job

    def publish(self, *, now: bool = False) -> None:
        """Take over the engine's fit, and tell every open page once all of it is computed.

        A large one is completed in the background, the newest only: the fit goes on meanwhile.
        `now` waits for it.
        """
        if self.analysis is not None:
            self.engine.keep_verdicts(self.analysis)
        self._newest = self.engine.analysis(self.limits)
        if now or self._took_s < _QUICK_S or not self._completing.is_alive():
            self._complete_newest()
        else:
            self._completing.wake()

    def _complete_newest(self) -> Next:
        analysis = self._newest
        if analysis is None or analysis is self.analysis:
            return Next()
        begun = time.monotonic()
        complete(analysis)
        self._show(analysis)
        self._took_s = time.monotonic() - begun
        return Next(self._took_s)

    def _not_completed(self, error: Exception) -> Next:
        self._problems.report("fit", error)
        return Next(self._took_s)

    def _show(self, analysis: Analysis) -> None:
        if analysis.at - self._recorded_at >= HISTORY_S:
            self._record(analysis)
        before = None if self.analysis is None else len(self.analysis.fit.camps)
        change = camp_change(before, analysis.fit)
        if change is not None:
            self.camp_changes.appendleft((analysis.at, change))
            told = {"before": change.before, "now": change.now, "text": change.text}
            self._problems.log("camps", **told)
        self.analysis = analysis
        self.touch()
        self.on_shown(analysis)

    def record(self) -> None:
        """Put the last leaderboard on record, if it is not there yet."""
        analysis = self.analysis
        if analysis is None:
            return
        self.engine.keep_verdicts(analysis)
        if analysis.at > self._recorded_at:
            self._record(analysis)

    def _record(self, analysis: Analysis) -> None:
        store = self.engine.store
        how = "full" if analysis.fit.converged else "incremental"
        rows = history_rows(analysis.leaderboard)
        n = self.engine.n_comparisons
        store.add_history(analysis.at, n, how, rows, self.engine.study)
        self._history, self._recorded_at = None, analysis.at

    def history(self) -> list[HistoryPoint]:
        """The leaderboard over time: as it was recorded, and before that by when answers came."""
        past, recorded = self.past.last(), self._recorded()
        if past is None or past.newest is None:
            return recorded
        # A study that ended before it was looked at does not go on until today.
        end = past.newest
        return [*past.points, *(replace(one, at=min(one.at, end)) for one in recorded)]

    def _recorded(self) -> list[HistoryPoint]:
        found = self._history
        if found is None:
            engine = self.engine
            found = self._history = engine.store.history(HISTORY_POINTS, engine.study)
        return found

    def _made_past(self) -> PastPoints:
        """The history before the first leaderboard that was recorded; made again if it grows."""
        recorded, analysis = self._recorded(), self.analysis
        if not recorded or analysis is None:
            return PastPoints([])
        self._past = past_points(
            self.engine, analysis.fit, recorded[0].at, self._past, self.past.job.stopping
        )
        return self._past


def complete(analysis: Analysis) -> None:
    """Compute all that a page asks an analysis for."""
    parts = (analysis.leaderboard, analysis.better, analysis.raters, analysis.division,
             analysis.camp_boards, analysis.n_groups)  # fmt: skip
    del parts
    if len(analysis.leaderboard) > 1:
        analysis.pairs(PAIRS)
