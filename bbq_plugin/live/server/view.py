"""What the page shows: the last fit and what follows from it, worked out when it is asked for."""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bbq_plugin.analysis import leaderboard, next_pairs, rater_report, stopping
from bbq_plugin.analysis.stopping import told_apart
from bbq_plugin.live.excluded import Excluded
from bbq_plugin.live.feedback.push import information_of
from bbq_plugin.model.fit import LARGEST_COVARIANCE
from bbq_plugin.report.history import HISTORY_POINTS, history_rows
from bbq_plugin.report.quality import data_quality
from bbq_plugin.report.summary import StopSection, stop_section

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from bbq_plugin.analysis import Leaderboard, RaterReport
    from bbq_plugin.analysis.next_pairs import NextPairs
    from bbq_plugin.data.history import HistoryPoint
    from bbq_plugin.live.engine import Engine
    from bbq_plugin.model import Fit

__all__ = [
    "MATRIX",
    "Moment",
    "Outlook",
    "Outlooks",
    "View",
]

#: Items whose pairs the page shows one by one.
MATRIX = 16
# A share of the time at most: whoever sends or looks needs the rest.
_SHARE = 0.2

_LONGEST_WAIT_S = 5.0


@dataclass(frozen=True)
class Outlook:
    """What the answers of one moment say."""

    #: When the answers were as they are taken here.
    at: float
    n_comparisons: int
    section: StopSection
    #: Pairs of the best items that the rule which holds at all times has told apart.
    apart: frozenset[tuple[str, str]]


def outlook(moment: Moment) -> Outlook:
    """Work it out, from the answers as they stand."""
    board = moment.board
    # The rule needs nothing but counts of votes: to take them anew at each moment gives what
    # somebody who followed vote by vote would have.
    section = stop_section(stopping(moment.fit, board))
    shown = [row.item for row in board[:MATRIX]]
    apart = told_apart(moment.fit, shown, board.level)
    return Outlook(moment.at, moment.fit.data.n_comparisons, section, apart)


class Outlooks:
    """A thread that makes an outlook for the newest moment when a page asks for it."""

    def __init__(
        self,
        newest: Callable[[], Moment | None],
        on_news: Callable[[], None],
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._newest, self._on_news, self._tell = newest, on_news, tell
        self._last: Outlook | None = None
        # The moment it is of, which may go: it holds all answers.
        self._of: weakref.ref[Moment] | None = None
        self._problem: str | None = None
        self._wanted = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bbq-outlook", daemon=True)

    def last(self) -> Outlook | None:
        """The last one there is; a newer one will follow, if there is something new."""
        if not self._is_of(self._newest()):
            self._wanted.set()
        return self._last

    def _is_of(self, moment: Moment | None) -> bool:
        return moment is None or (self._of is not None and self._of() is moment)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, after what is under way."""
        self._stop.set()
        self._wanted.set()
        if self._thread.is_alive():
            self._thread.join(_LONGEST_WAIT_S)

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            if self._stop.is_set():
                return
            begun = time.monotonic()
            self._make()
            spent = time.monotonic() - begun
            self._stop.wait(spent * (1 / _SHARE - 1))

    def _make(self) -> None:
        moment = self._newest()
        if moment is None or self._is_of(moment):
            return
        try:
            self._last = outlook(moment)
        except Exception as error:  # noqa: BLE001 (the leaderboard is there without it)
            problem = f"{type(error).__name__}: {error}"
            if problem != self._problem:
                self._tell(f"when to stop could not be worked out: {problem}")
            self._problem = problem
        self._of = weakref.ref(moment)
        self._on_news()


#: Pairs that are named as worth comparing next.
PAIRS = 12
# While answers come, the leaderboard is put on record no more often than this.
HISTORY_S = 5.0


@dataclass(frozen=True)
class Thresholds:
    """What verdicts rest on."""

    level: float = 0.95
    false_rate: float = 0.05
    least: int = 10


class Moment:
    """A fit and what is made of it, each part once."""

    def __init__(
        self, fit: Fit, at: float, thresholds: Thresholds, before: frozenset[str] = frozenset()
    ) -> None:
        self.fit, self.at, self.thresholds = fit, at, thresholds
        #: Who was excluded at the moment before: nobody goes in and out with every vote.
        self.before = before
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._made: dict[str, Any] = {}

    def _once(self, name: str, make: Callable[[], Any]) -> Any:
        # Each part has its own lock: nobody waits for the verdicts to see the leaderboard.
        with self._lock:
            lock = self._locks.setdefault(name, threading.Lock())
        with lock:
            if name not in self._made:
                self._made[name] = make()
            return self._made[name]

    @property
    def board(self) -> Leaderboard:
        """The leaderboard."""
        found: Leaderboard = self._once(
            "board", lambda: leaderboard(self.fit, level=self.thresholds.level)
        )
        return found

    @property
    def better(self) -> Any:
        """P(row i is better than row j) in the order of the board; None for too many items."""
        if len(self.board) > LARGEST_COVARIANCE:
            return None
        return self._once("better", lambda: self.board.better)

    @property
    def n_groups(self) -> int:
        """Into how many groups the items fall that never met."""
        return int(self._once("groups", lambda: data_quality(self.fit.data).n_groups))

    @property
    def raters(self) -> RaterReport:
        """The verdicts on raters."""
        limits = self.thresholds
        found: RaterReport = self._once(
            "raters",
            lambda: rater_report(
                self.fit,
                limits.level,
                false_rate=limits.false_rate,
                least=limits.least,
                before=self.before,
            ),
        )
        return found

    @property
    def excluded(self) -> frozenset[str]:
        """Who is excluded; as before, if nobody has looked at the raters of this moment."""
        if "raters" not in self._made:
            return self.before
        return frozenset(row.rater for row in self.raters if row.verdict == "exclude")

    @property
    def pairs(self) -> NextPairs | None:
        """What to compare next."""
        if not 1 < len(self.fit.items) <= LARGEST_COVARIANCE:
            return None
        found: NextPairs = self._once("pairs", lambda: next_pairs(self.fit, PAIRS))
        return found

    def information_bits(self, items: Sequence[str]) -> float | None:
        """What one more answer on these items would tell; None if one of them is not known."""
        if not 1 < len(self.fit.items) <= LARGEST_COVARIANCE:
            return None
        of: Callable[[Sequence[str]], float | None] = self._once("information", self._information)
        return of(items)

    def _information(self) -> Callable[[Sequence[str]], float | None]:
        of = information_of(self.fit)
        # All pairs are worked out with the first one: here, where nobody else asks meanwhile.
        of(self.fit.items[:2])
        return of


class View:
    """The newest moment, and whoever waits for the next one."""

    def __init__(
        self,
        engine: Engine,
        thresholds: Thresholds = Thresholds(),  # noqa: B008 (a frozen value)
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.engine, self.thresholds = engine, thresholds
        self.moment: Moment | None = None
        #: When to stop.
        self.outlooks = Outlooks(lambda: self.moment, self.touch, tell)
        #: Who was excluded last, also before this start.
        self.excluded = Excluded(engine.store)
        #: Goes up with everything that the page may show anew; no number of an earlier start.
        self.number = time.time_ns() // 1_000_000
        self._counting = threading.Lock()
        self._history: list[HistoryPoint] | None = None
        self._recorded_at = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news: asyncio.Event | None = None
        self._closed = False

    # -- from the threads that work

    def publish(self) -> None:
        """Take over the engine's fit, and tell everybody who looks at the page."""
        now = self.engine.store.clock()
        before = self.excluded.names if self.moment is None else self.moment.excluded
        self.excluded.keep(before)
        moment = Moment(self.engine.fit, now, self.thresholds, before)
        if now - self._recorded_at >= HISTORY_S:
            self._record(moment, now)
        self.moment = moment
        self.touch()

    def touch(self) -> None:
        """Say that something else than the fit has changed."""
        with self._counting:
            self.number += 1
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._ring)

    def record(self) -> None:
        """Put the last leaderboard on record, if it is not there yet."""
        if self.moment is not None:
            self.excluded.keep(self.moment.excluded)
        if self.moment is not None and self.moment.at > self._recorded_at:
            self._record(self.moment, self.moment.at)

    def _record(self, moment: Moment, now: float) -> None:
        n = self.engine.store.counts().n_comparisons
        how = "full" if moment.fit.converged else "incremental"
        self.engine.store.add_history(now, n, how, history_rows(moment.board))
        self._history, self._recorded_at = None, now

    def history(self) -> list[HistoryPoint]:
        """The leaderboard over time."""
        found = self._history
        if found is None:
            found = self._history = self.engine.store.history(HISTORY_POINTS)
        return found

    # -- from the loop that serves

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

    async def news(self, beat_s: float = 15.0) -> AsyncIterator[int | None]:
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
