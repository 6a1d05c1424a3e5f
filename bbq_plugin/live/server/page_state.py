"""What the page shows, computed behind it: the last analysis, its slices and its history.

Beside them: what more answers would buy, and who the raters are, asked of the labelling tool.

A study that ran for weeks before `bbq serve` was started has its weeks in the times of its
answers. Each point is a fit of the answers up to a moment, with the priors of now and one ranking.
"""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from bbq_plugin.analysis import Analysis, Limits
from bbq_plugin.analysis.leaderboard import leaderboard
from bbq_plugin.analysis.slices import SlicedStudy
from bbq_plugin.analysis.stopping import significant_pairs
from bbq_plugin.data.dataset import OWN_TAGS
from bbq_plugin.data.records import HistoryItem, HistoryPoint
from bbq_plugin.errors import BBQError, UsageError
from bbq_plugin.live.engine import CampChange, camp_change
from bbq_plugin.live.health import Problems
from bbq_plugin.live.job_runner import BEHIND, Job, Next
from bbq_plugin.live.tool_connection import report_use
from bbq_plugin.model import fit
from bbq_plugin.model.priors import CrowdPriors
from bbq_plugin.report.history import HISTORY_POINTS, history_rows
from bbq_plugin.report.summary import StopSection, stop_section
from bbq_plugin.store.store import read_store_by, tag_values

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from bbq_plugin.analysis import Analysis
    from bbq_plugin.analysis.agreement import InterRater
    from bbq_plugin.data.records import HistoryPoint, Person, PlanWorth
    from bbq_plugin.live.engine import Engine
    from bbq_plugin.live.health import Problems
    from bbq_plugin.model import Fit


# So often at most the tool is asked about raters that it did not know the last time.
_REST_S = 60.0


class RaterNames:
    """Looked up behind the pages, which show what is known by then."""

    def __init__(
        self, ask: Callable[[], Mapping[str, Person]], on_news: Callable[[], None],
        problems: Problems,
    ) -> None:  # fmt: skip
        self._ask, self._on_news, self._problems = ask, on_news, problems
        self._known: Mapping[str, Person] = {}
        self.job = Job("names", self._look, self._failed)

    def __call__(self, rater: str) -> Person | None:
        """Who a rater is, if that is known by now."""
        found = self._known.get(rater)
        if found is None:
            self.job.wake()
        return found

    def _look(self) -> Next:
        found = self._ask()
        if found != self._known:
            self._known = found
            self._on_news()
        self._problems.over("names")
        return Next(_REST_S)

    def _failed(self, error: Exception) -> Next:
        report_use(self._problems, "names", error, _REST_S)
        return Next(_REST_S, _REST_S)


#: Moments of the past that are fitted.
MOST_POINTS = 30
#: How long all of them may take, roughly; there are fewer points where fits are slow.
MOST_S = 30.0
# Of a shorter past the recorded points tell enough.
_SHORTEST_S = 3600.0
# Answers without a time would be missing from every point.
_LEAST_DATED = 0.9
# Made again when the answers of the past have grown by so much: from a late import, say.
_GROWTH = 1.1


@dataclass(frozen=True)
class PastPoints:
    """Points of the past, and how many answers they were made of."""

    points: list[HistoryPoint]
    n_answers: int = 0
    #: When the newest answer of all was given, if all of them tell.
    newest: float | None = None


def past_points(
    engine: Engine, now: Fit, before: float, known: PastPoints | None,
    stopping: Callable[[], bool] = lambda: False,
) -> PastPoints:  # fmt: skip
    """The points up to `before`, oldest first; those `known`, if there is little new."""
    times = engine.answer_times()
    dated = times[~np.isnan(times)]
    old = np.sort(dated[dated <= before])
    if known is not None and known.n_answers <= old.size <= known.n_answers * _GROWTH:
        newest = None if known.newest is None else float(dated.max())
        return replace(known, newest=newest)
    none = PastPoints([], int(old.size))
    if old.size < 2 or dated.size < _LEAST_DATED * times.size:
        return none
    first, last = float(old[0]), float(old[-1])
    if last - first < _SHORTEST_S:
        return none
    points: list[HistoryPoint] = []
    moments = np.linspace(first, last, MOST_POINTS + 1)[1:]
    begun = time.monotonic()
    ending = _point(engine, now, last)
    spent = max(1e-3, time.monotonic() - begun)
    # The fits of earlier moments are of fewer answers, about half as many in the mean.
    n = int(min(MOST_POINTS, max(6, 2 * MOST_S / spent)))
    chosen = moments[np.unique(np.linspace(0, moments.size - 2, n - 1).round().astype(int))]
    seen = 0
    for moment in chosen.tolist():
        n_then = int(np.searchsorted(old, moment, side="right"))
        if stopping():
            break
        if n_then > seen:
            seen = n_then
            points += [point for point in [_point(engine, now, moment)] if point is not None]
    if ending is not None and last < before:
        points.append(ending)
    return PastPoints(points, int(old.size), float(dated.max()))


def _point(engine: Engine, now: Fit, at: float) -> HistoryPoint | None:
    """The leaderboard of the answers up to a moment; None where they are too few to be fitted."""
    priors: Any = "auto" if isinstance(now.priors, CrowdPriors) else now.priors
    try:
        data = engine.data_until(at)
        found = fit(
            data, now.model, priors, 1, ties=engine.ties, cluster="none", repeats=engine.repeats
        )
        rows = history_rows(leaderboard(found, "laplace"))
    except BBQError:
        return None
    items = {
        name: HistoryItem(rating, lower, upper, rank) for name, rating, lower, upper, rank in rows
    }
    return HistoryPoint(at, data.n_comparisons, "full", items)


#: A tag with more values names single tasks or prompts, and no slices.
MOST_SLICES = 12
#: A slice of fewer answers is left to the pool.
LEAST_ANSWERS = 10
#: Beyond, splitting the answers takes too long to follow them.
MOST_ANSWERS = 1_000_000
# A tag is no slicing if most of its values are too rare to be slices.
_LEAST_SHARE = 0.8
# This share of the time at most: senders and pages need the rest.
_SHARE = 0.2


@dataclass(frozen=True)
class Sliced:
    """The slices by one tag, of one analysis."""

    study: SlicedStudy
    n_comparisons: int


class Slices:
    """Which tags a study can be sliced by, and its slices by those that a page asks for."""

    def __init__(
        self,
        engine: Engine,
        newest: Callable[[], Analysis | None],
        on_news: Callable[[], None],
        problems: Problems,
    ) -> None:
        self._engine, self._newest = engine, newest
        self._on_news, self._problems = on_news, problems
        self._made: dict[str, tuple[weakref.ref[Analysis], Sliced | None]] = {}
        self._tags: tuple[str, ...] | None = None
        self._tags_at = 0
        self._wanted: str | None = None
        self.job = Job("slices", self._make, self._failed, alone=BEHIND)

    def tags(self) -> tuple[str, ...] | None:
        """The tags there are slices by; None before they are known."""
        n = self._engine.n_comparisons
        if self._tags is None or not self._tags_at / 1.5 <= n <= self._tags_at * 1.5:
            self.job.wake()
        return self._tags

    def last(self, tag: str) -> Sliced | None:
        """The last slices by a tag; newer ones will follow, if there is something new."""
        made = self._made.get(tag)
        if made is None or made[0]() is not self._newest():
            self._wanted = tag
            self.job.wake()
        return None if made is None else made[1]

    def _make(self) -> Next:
        analysis, engine = self._newest(), self._engine
        if analysis is None:
            return Next()
        n = engine.n_comparisons
        if self._tags is None or not self._tags_at / 1.5 <= n <= self._tags_at * 1.5:
            self._tags, self._tags_at = self._found(), n
        tag, self._wanted = self._wanted, None
        if tag in self._tags:
            # Of one that fails as well: it is not tried again.
            before = self._made.get(tag, (None, None))[1]
            self._made[tag] = weakref.ref(analysis), before
            self._made[tag] = weakref.ref(analysis), self._sliced(tag, analysis)
        self._problems.over("slices")
        return self._rest()

    def _found(self) -> tuple[str, ...]:
        if self._engine.n_comparisons > MOST_ANSWERS:
            return ()
        store, own = self._engine.store, self._engine.study
        tags = [
            tag
            for tag, (values, n) in sorted(tag_values(store.path, own, LEAST_ANSWERS).items())
            if 1 < len(values) <= MOST_SLICES and sum(values.values()) >= _LEAST_SHARE * n
            and tag not in OWN_TAGS
        ]  # fmt: skip
        questions = next(one.questions for one in store.studies() if one.id == own)
        # The key of an answer tells its project.
        several = len({one.project for one in questions}) > 1
        return tuple(dict.fromkeys([*(["project"] if several else []), *tags]))

    def _sliced(self, tag: str, analysis: Analysis) -> Sliced | None:
        engine = self._engine
        names = {one.id: one.name for one in engine.store.studies()}
        parts = read_store_by(engine.store.path, by=tag, study=names[engine.study])
        known, raters = set(analysis.fit.items), set(analysis.fit.raters)
        # There may be newer answers by now, about items that the analysis does not know.
        groups = {
            value: data
            for value, data in parts.items()
            if data.n_comparisons >= LEAST_ANSWERS
            and known.issuperset(data.items)
            and (not analysis.fit.rated or raters.issuperset(data.raters))
        }
        if not 1 < len(groups) <= MOST_SLICES:
            return None
        study = SlicedStudy(tag, analysis, groups)
        parts_of_page = study.cells, study.summaries
        del parts_of_page
        return Sliced(study, analysis.fit.data.n_comparisons)

    def _failed(self, error: Exception) -> Next:
        self._problems.report("slices", error)
        return self._rest()

    def _rest(self) -> Next:
        self._on_news()
        return Next(self.job.spent_s * (1 / _SHARE - 1))


T = TypeVar("T")

#: Items whose pairs the page shows one by one.
MATRIX = 16
#: Pairs that are named as worth comparing next.
PAIRS = 12
#: Answers of which the page says what they would buy.
MORE_ANSWERS = 200
_CHANGES = 20


@dataclass(frozen=True)
class Outlook:
    """When to stop, and what more answers would buy, by the answers of one analysis."""

    #: When the answers were as they are taken here.
    at: float
    n_comparisons: int
    section: StopSection
    #: Pairs of the best items that are significant under continuous monitoring.
    apart: frozenset[tuple[str, str]]
    #: What more answers would buy for the ranking, and for the best item; None of too many items.
    worth: PlanWorth | None
    best_worth: PlanWorth | None
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
    worth = analysis.next_worth(MORE_ANSWERS)
    best_worth = analysis.next_worth(MORE_ANSWERS, "best")
    n, best = analysis.fit.data.n_comparisons, analysis.stopping.best
    return Outlook(analysis.at, n, section, apart, worth, best_worth, analysis.inter_rater, best)


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
        self.job = Job(what, self._make, self._failed, alone=BEHIND)

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
        #: The newest answers with covariates held equal, or why that cannot be.
        self.held = FollowUp(
            "covariates", lambda _: self._held_equal(), lambda: self.analysis, self.touch,
            self._problems,
        )  # fmt: skip
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
        jobs = self.outlooks.job, self.past.job, self.slices.job, self.held.job
        return self._completing, *jobs

    def _held_equal(self) -> Analysis | str:
        engine = self.engine
        if engine.n_comparisons > MOST_ANSWERS:
            return f"covariates are not held equal in more than {MOST_ANSWERS:,} answers"
        try:
            held = engine.held_equal(self.limits)
        except UsageError as error:
            return str(error)
        parts = held.effects, held.leaderboard, held.without_covariates
        del parts
        return held

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
