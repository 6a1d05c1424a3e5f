"""The hook: a program's votes go into a store, and it is told when the result changes."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import threading
import time
from contextvars import ContextVar
from dataclasses import dataclass
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict, Unpack

import msgspec
import numpy as np

from bbq_plugin.analysis import Analysis, Limits
from bbq_plugin.analysis.leaderboard import to_rating
from bbq_plugin.analysis.raters import FALSE_RATE, LEAST
from bbq_plugin.data.records import Comparison
from bbq_plugin.errors import DataError, UnsupportedError, UsageError
from bbq_plugin.live.engine import CampChange, Engine, camp_change, checked_vote, key_text
from bbq_plugin.live.event_ingest import cancelled_by_push, reader_of, take
from bbq_plugin.live.job_runner import Job, Next
from bbq_plugin.model.win_share import panel_shares
from bbq_plugin.plugins import chosen_adapter
from bbq_plugin.store.coded_columns import merged
from bbq_plugin.store.group_commit import GroupCommit, Request

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from bbq_plugin.analysis import Leaderboard, NextPairs, RaterReport
    from bbq_plugin.analysis.raters import Verdict
    from bbq_plugin.data.records import Outcome
    from bbq_plugin.model import Fit, Priors
    from bbq_plugin.model.fit import Model
    from bbq_plugin.protocols import Adapter, EventReader, ParsedEvent
    from bbq_plugin.store import Change
    from bbq_plugin.store.transaction import Transaction

    Suspects = dict[str, tuple[Verdict, tuple[str, ...]]]

_log = logging.getLogger(__name__)

#: The hook whose callback runs here: it waits for its end, so nothing here may wait for the hook.
_inside: ContextVar[Hook | None] = ContextVar("bbq_inside_callback", default=None)


class HookOptions(TypedDict, total=False):
    """The options of a hook."""

    study: str | None
    adapter: str | Adapter | None
    options: Mapping[str, Any] | None
    model: Model
    priors: Priors | Literal["paper", "auto"]
    camps: int | Literal["auto"]
    refresh_every_s: float
    level: float
    false_rate: float
    least: int
    rating_change: float
    clock: Callable[[], float]


class Hook:
    """Takes votes inside your own program; all methods may be called from any thread.

    - `store`: the path of the store (":memory:" keeps nothing). One hook or daemon writes a store;
      a second one is refused with the name of the first.
    - `study`: which of several studies in the store the votes belong to.
    - `adapter`: the name of an adapter whose events `hook(event)` takes; `options` are its own,
      as in `bbq.read`.
    - `model`, `priors` and `camps` are those of `bbq.fit`.
    - `refresh_every_s`: a first vote after a quiet time is fitted at once, and those that come
      meanwhile together, so many seconds after; a fit that takes longer takes half of the time.
    - `level`, `false_rate`, `least`: of intervals and verdicts, as in `bbq.rater_report`.
      `rating_change`: an item whose rating moved by less (in Elo) has not changed in an `Update`.
    """

    def __init__(
        self,
        store: str | os.PathLike[str],
        *,
        study: str | None = None,
        adapter: str | Adapter | None = None,
        options: Mapping[str, Any] | None = None,
        model: Model = "bbq",
        priors: Priors | Literal["paper", "auto"] = "auto",
        camps: int | Literal["auto"] = "auto",
        refresh_every_s: float = 1.0,
        level: float = 0.95,
        false_rate: float = FALSE_RATE,
        least: int = LEAST,
        rating_change: float = 1.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not 0 <= refresh_every_s < math.inf:
            raise UsageError(f"refresh_every_s={refresh_every_s!r}: expected seconds, 0 or more")
        if not rating_change >= 0:
            raise UsageError(f"rating_change={rating_change!r}: expected Elo points, 0 or more")
        if not 0 < level < 1:
            raise UsageError(f"level={level!r}: expected a probability such as 0.95")
        self._adapter = None if adapter is None else chosen_adapter(adapter, b"", "")[0]
        self._reader = None if self._adapter is None else reader_of(self._adapter, options)
        self._refresh_every_s, self._rating_change = refresh_every_s, rating_change
        self._study = study
        self._limits = Limits(level, false_rate, least)
        self._clock, self._pid = clock, os.getpid()
        self._engine = Engine(
            store, study=study, model=model, priors=priors, camps=camps, clock=clock
        )
        # More of them need a writer of this store, and while it is open here there is no other.
        self._given = cancelled_by_push(self._engine.store)
        #: Whatever the threads tell each other is below, and changed under this lock.
        self._news = threading.Condition()
        self._callbacks: list[Callable[[Update], object]] = []
        self._analysis: Analysis | None = None
        self._changes: list[Change] = []
        #: Comparisons that the engine knows of.
        self._n_stored = self._engine.n_comparisons
        #: How many changes there were, up to which of them a fit was started, and done.
        self._n_changes, self._n_started, self._n_fitted = int(self._n_stored > 0), 0, 0
        self._failure: Exception | None = None
        self._closed = False
        self._fitting = Job("hook-fit", self._follow, self._not_fitted)
        self._fitting.start(due=self._n_stored > 0)
        self._commits: GroupCommit[AnyRequest] = GroupCommit(
            self._engine.store,
            lambda transaction, requests: _write(
                transaction, requests, clock(), self._engine.study
            ),
            on_commit=self._take,
            closed="this hook is closed; open another one",
            name="bbq-hook-commits",
        )

    # -- answers

    def vote(
        self,
        *,
        rater: str,
        left: str,
        right: str,
        outcome: Outcome,
        key: str | None = None,
        weight: float = 1.0,
        at: float | None = None,
        time_s: float | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> str:
        """Store one answer; its key. It is on the disk when this returns.

        The same `key` again is the same answer, given again: what comes later counts, or, where
        `at` (seconds since 1970) is given, what is newer. Without a key one is made.
        """
        answer = Comparison(
            "" if key is None else key_text(key), rater, left, right, outcome, weight,
            at=at, time_s=time_s, tags=tags,  # type: ignore[arg-type] # copied when checked
        )  # fmt: skip
        return self.submit(answer).result()

    def submit(self, answer: Comparison) -> Future[str]:
        """Line one answer up; a Future of its key, done when it is on the disk.

        An empty key is replaced by one that is made.
        """
        self._check_process()
        later = answer.at is None and answer.version is None and answer.key != ""
        request = Vote(checked_vote(answer, self._clock()), later)
        self._commits.submit(request)
        return request.done

    def retract(self, key: str) -> bool:
        """Take an answer back, durably; whether there was one under this key."""
        return self.submit_retraction(key).result()

    def submit_retraction(self, key: str) -> Future[bool]:
        """Line up that an answer is taken back; a Future, done when it is on the disk."""
        self._check_process()
        request = Retraction(key_text(key))
        self._commits.submit(request)
        return request.done

    def __call__(self, event: Mapping[str, Any]) -> int:
        """Take an event of the adapter's tool; how many answers came, changed or went."""
        return self.submit_event(event).result()

    def submit_event(self, event: Mapping[str, Any]) -> Future[int]:
        """Line up what the adapter makes of an event; a Future, done when it is on the disk."""
        self._check_process()
        if self._adapter is None:
            raise UsageError(
                "this hook has no adapter for events; give one (adapter='label-studio'), "
                "or call vote()"
            )
        name = self._adapter.name
        if self._reader is None:
            raise UnsupportedError(
                f"the adapter {name!r} reads files and no events; "
                "call vote(), or put exports into a folder for bbq watch"
            )
        told = self._reader(event, self._given)
        if told.problem is not None:
            _log.warning("a part of an event could not be read: %s", told.problem)
        request = ToolEvent(told, self._reader, name, self._study)
        self._commits.submit(request)
        return request.done

    def _check_process(self) -> None:
        # The threads stayed behind in the parent: waiting for them would take for ever.
        if os.getpid() != self._pid:
            raise UsageError(
                f"this hook belongs to process {self._pid}, and this is process {os.getpid()}; "
                "open it after the fork, in the one process that takes the votes"
            )

    # -- results

    def on_update(self, callback: Callable[[Update], object]) -> Callable[[], None]:
        """Have `callback(update)` called after each refit; call what this returns to end that.

        It is called by the hook's own thread, one update after the other; an exception in it is
        logged and stops nothing. The first update of a hook tells everything that is known, also
        what a hook before it has told.
        """
        with self._news:
            self._callbacks.append(callback)

        def stop() -> None:
            with self._news:
                if callback in self._callbacks:
                    self._callbacks.remove(callback)

        return stop

    @property
    def fit(self) -> Fit:
        """The last fit; votes of the last moment may not be in it (see `flush`)."""
        return self._last().fit

    def leaderboard(self) -> Leaderboard:
        """The leaderboard of the last fit."""
        return self._last().leaderboard

    def raters(self) -> RaterReport:
        """The raters of the last fit, with verdicts."""
        return self._last().raters

    def next_pairs(self, n: int = 50, *, among: Sequence[str] | None = None) -> NextPairs:
        """What to compare next, by the last fit."""
        return self._last().pairs(n, among=among)

    def _last(self) -> Analysis:
        if self._analysis is None and _inside.get() is not self:
            self.flush()
        if self._analysis is None:
            raise DataError("there are no comparisons yet; vote first")
        return self._analysis

    def flush(self) -> None:
        """Wait until every vote so far is in the fit and the callbacks were called."""
        self.check_not_inside("flush")
        self._check_process()
        with self._news:
            if self._failure is not None:
                # Tried again, because a caller asks.
                self._failure = None
                self._n_changes += 1
            target = self._n_changes
            if self._n_started < target:
                self._fitting.wake(urgent=True)
            self._news.wait_for(lambda: self._n_fitted >= target or not self._fitting.is_alive())
            if self._failure is not None:
                raise self._failure

    def close(self) -> None:
        """Store and fit what is waiting, call the callbacks a last time, and free the store."""
        self.check_not_inside("close")
        self._check_process()
        self._commits.close()
        self._fitting.stop(finish=True)
        with self._news:
            first, self._closed = not self._closed, True
            self._news.notify_all()
        if first:
            try:
                self._keep_verdicts()
            finally:
                try:
                    self._engine.close()
                finally:
                    # Also where the last fit could not be kept.
                    self._engine.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check_not_inside(self, what: str) -> None:
        """Refuse to wait for a thread that waits for the caller."""
        if _inside.get() is self:
            raise UsageError(f"{what}() inside a callback would wait for itself; call it elsewhere")

    # -- the thread that fits

    def _take(self, change: Change) -> None:
        if not change:
            return
        with self._news:
            self._changes.append(change)
            self._n_changes += 1
            self._fitting.wake()

    def _follow(self) -> Next:
        _inside.set(self)
        with self._news:
            self._n_started = self._n_changes
        if self._n_fitted < self._n_started:
            self._refit()
            self._done(None)
        return self._rest()

    def _not_fitted(self, error: Exception) -> Next:
        _log.error("the votes are stored, but could not be fitted", exc_info=error)
        self._done(error)
        return self._rest()

    def _done(self, failure: Exception | None) -> None:
        with self._news:
            self._n_fitted, self._failure = self._n_started, failure
            self._news.notify_all()

    def _rest(self) -> Next:
        spent_s = self._fitting.spent_s
        return Next(max(self._refresh_every_s - spent_s, spent_s))

    def _refit(self) -> None:
        with self._news:
            changes, self._changes = self._changes, []
            heard = bool(self._callbacks)
        if changes:
            self._engine.apply(merged(changes))
            self._n_stored = self._engine.n_comparisons
        before, now = self._analysis, None
        self._keep_verdicts()
        if self._n_stored:
            self._engine.refresh()
            now = self._engine.analysis(self._limits)
        self._analysis = now
        if heard:
            self._tell(_update_between(before, now, self._rating_change))

    def _keep_verdicts(self) -> None:
        if self._analysis is not None:
            self._engine.keep_verdicts(self._analysis)

    def _tell(self, update: Update) -> None:
        with self._news:
            callbacks = tuple(self._callbacks)
        for callback in callbacks:
            try:
                callback(update)
            except BaseException:  # noqa: BLE001 (a callback that leaves must not end the fits)
                _log.exception("a callback of on_update failed: %r", callback)


class AsyncHook:
    """`Hook` with methods to await; options are the same.

        async with bbq.AsyncHook("state.db") as hook:
            key = await hook.vote(rater="ann", left="a", right="b", outcome="left")

    Without `async with`: `await hook.open()` first and `await hook.close()` at the end.
    """

    def __init__(self, store: str | os.PathLike[str], **options: Unpack[HookOptions]) -> None:
        self._store, self._options = store, options
        self._opened: Hook | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def open(self) -> Self:
        """Take the store; reading what is in it may take a moment."""
        if self._opened is not None:
            raise UsageError("this hook is open already")
        self._loop = asyncio.get_running_loop()
        self._opened = await asyncio.to_thread(Hook, self._store, **self._options)
        return self

    async def close(self) -> None:
        """Store and fit what is waiting, call the callbacks a last time, and free the store."""
        self._hook.check_not_inside("close")
        await asyncio.to_thread(self._hook.close)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def _hook(self) -> Hook:
        if self._opened is None:
            raise UsageError(
                "this hook is not open; use 'async with', or await its open() before anything else"
            )
        return self._opened

    # -- answers

    async def vote(
        self,
        *,
        rater: str,
        left: str,
        right: str,
        outcome: Outcome,
        key: str | None = None,
        weight: float = 1.0,
        at: float | None = None,
        time_s: float | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> str:
        """Store one answer; its key. It is on the disk when this returns.

        A task that is cancelled while it waits may have voted or not: give a key of your own
        where that matters, and vote again under it.
        """
        answer = Comparison(
            "" if key is None else key_text(key), rater, left, right, outcome, weight,
            at=at, time_s=time_s, tags=tags,  # type: ignore[arg-type] # copied when checked
        )  # fmt: skip
        return await asyncio.wrap_future(self._hook.submit(answer))

    async def retract(self, key: str) -> bool:
        """Take an answer back, durably; whether there was one under this key."""
        return await asyncio.wrap_future(self._hook.submit_retraction(key))

    async def __call__(self, event: Mapping[str, Any]) -> int:
        """Take an event of the adapter's tool; how many answers came, changed or went."""
        return await asyncio.wrap_future(self._hook.submit_event(event))

    # -- results

    def on_update(
        self, callback: Callable[[Update], Awaitable[object] | object]
    ) -> Callable[[], None]:
        """Have `callback(update)` called on the loop after each refit, and awaited if need be.

        What this returns ends it. An exception in the callback is logged and stops nothing; the
        next update waits until the callback is done with the last.
        """
        loop, hook = self._loop, self._hook

        def tell(update: Update) -> None:
            assert loop is not None  # noqa: S101 (an open hook has one)
            telling = _told(hook, callback, update)
            try:
                done = asyncio.run_coroutine_threadsafe(telling, loop)
            except RuntimeError:
                # The loop has ended.
                telling.close()
                raise
            done.result()

        return hook.on_update(tell)

    @property
    def fit(self) -> Awaitable[Fit]:
        """The last fit: `await hook.fit`."""
        return asyncio.to_thread(lambda: self._hook.fit)

    async def leaderboard(self) -> Leaderboard:
        """The leaderboard of the last fit."""
        return await asyncio.to_thread(self._hook.leaderboard)

    async def raters(self) -> RaterReport:
        """The raters of the last fit, with verdicts."""
        return await asyncio.to_thread(self._hook.raters)

    async def next_pairs(self, n: int = 50, *, among: Sequence[str] | None = None) -> NextPairs:
        """What to compare next, by the last fit."""
        return await asyncio.to_thread(self._hook.next_pairs, n, among=among)

    async def flush(self) -> None:
        """Wait until every vote so far is in the fit and the callbacks were called."""
        self._hook.check_not_inside("flush")
        await asyncio.to_thread(self._hook.flush)


async def _told(
    hook: Hook, callback: Callable[[Update], Awaitable[object] | object], update: Update
) -> None:
    _inside.set(hook)
    result = callback(update)
    if isawaitable(result):
        await result


# -- what the thread that writes is asked for


@dataclass(eq=False)
class Vote(Request[str]):
    """One answer. `later`: whatever is there under its key is older, whatever the clock says."""

    record: Comparison
    later: bool


@dataclass(eq=False)
class Retraction(Request[bool]):
    """Take one answer back; whether it was there."""

    key: str


@dataclass(eq=False)
class ToolEvent(Request[int]):
    """What an adapter made of one event; how many answers came, changed or went."""

    event: ParsedEvent
    reader: EventReader
    adapter: str
    #: What the study of a project with one question is called, if it is named.
    study: str | None = None

    def named(self, project: str, question: str, alone: bool) -> str | None:  # noqa: FBT001 (Named)
        """The study of a question, if that is clear."""
        del project, question
        return self.study if alone else None


AnyRequest = Vote | Retraction | ToolEvent


def _write(
    transaction: Transaction, requests: Sequence[AnyRequest], at: float, study: int
) -> list[object]:
    """Store what callers of a hook have asked for, in their order; the result of each."""
    results: list[object] = []
    for run in _runs(requests):
        first = run[0]
        if isinstance(first, Retraction):
            results.append(transaction.retract([first.key], study)[0] > 0)
        elif isinstance(first, ToolEvent):
            own = first.adapter
            tally = take(
                transaction, first.reader, [first.event], "hook", own, at,
                adapter=own, study=study, named=first.named,
            )  # fmt: skip
            results.append(tally.n_new + tally.n_changed + tally.n_retracted)
        else:
            votes = [request for request in run if isinstance(request, Vote)]
            dated = [_dated(transaction, vote, study) for vote in votes]
            transaction.add(dated, "hook", "", at, study=study)
            results += [vote.record.key for vote in votes]
    return results


def _dated(transaction: Transaction, vote: Vote, study: int) -> Comparison:
    """The record; a later one never has the earlier time, even if the clock was set back."""
    record = vote.record
    last = transaction.newest(record.key, study) if vote.later else None
    if last is None or record.at is None or last <= record.at:
        return record
    return msgspec.structs.replace(record, at=last)


def _runs(requests: Iterable[AnyRequest]) -> Iterator[list[AnyRequest]]:
    """In their order; votes under different keys are written together."""
    run: list[AnyRequest] = []
    keys: set[str] = set()
    for request in requests:
        key = request.record.key if isinstance(request, Vote) else None
        if run and (key is None or key in keys):
            yield run
            run, keys = [], set()
        if key is None:
            yield [request]
        else:
            run.append(request)
            keys.add(key)
    if run:
        yield run


# -- what a refit changed


@dataclass(frozen=True, slots=True)
class ItemChange:
    """An item whose rank or rating (Elo) changed; None where it was not, or is no longer, there."""

    item: str
    rank_before: int | None
    rank: int | None
    rating_before: float | None
    rating: float | None


@dataclass(frozen=True, slots=True)
class VerdictChange:
    """A rater with another verdict than before; of a new rater, the verdict before is keep."""

    rater: str
    verdict_before: Verdict
    verdict: Verdict
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Update:
    """What is different since the refit before; against nothing in the first of a hook."""

    #: None when every answer was taken back.
    fit: Fit | None
    n_comparisons: int
    #: By rank; what is no longer there comes last.
    items: tuple[ItemChange, ...]
    raters: tuple[VerdictChange, ...]
    #: None while the number of camps stays as it was.
    camps: CampChange | None = None

    @property
    def leaderboard_changed(self) -> bool:
        """Whether any item came, went, or changed its rank or rating."""
        return bool(self.items)


def _update_between(before: Analysis | None, now: Analysis | None, rating_change: float) -> Update:
    """What changed from one fit to the next; None is a store without answers."""
    items = tuple(_item_changes(_standing(before), _standing(now), rating_change))
    raters = tuple(_verdict_changes(_suspects(before), _suspects(now)))
    if now is None:
        return Update(None, 0, items, raters)
    n_before = None if before is None else len(before.fit.camps)
    camps = camp_change(n_before, now.fit)
    return Update(now.fit, now.fit.data.n_comparisons, items, raters, camps)


def _standing(analysis: Analysis | None) -> dict[str, tuple[int, float]]:
    """Rank and rating (Elo) of each item, the best first, as the leaderboard has them."""
    if analysis is None:
        return {}
    # Not the leaderboard itself, whose intervals take longer than a refit.
    fit = analysis.fit
    relative = fit.theta - fit.theta.mean()
    by = relative if fit.division is None else panel_shares(fit)
    order = np.argsort(-by, kind="stable").tolist()
    rating = to_rating(relative, "elo").tolist()
    return {fit.items[i]: (rank, rating[i]) for rank, i in enumerate(order, start=1)}


def _suspects(analysis: Analysis | None) -> Suspects:
    """Verdict and reasons of the raters who are watched or excluded."""
    if analysis is None:
        return {}
    return {
        row.rater: (row.verdict, row.reasons) for row in analysis.raters if row.verdict != "keep"
    }


def _item_changes(
    before: dict[str, tuple[int, float]], now: dict[str, tuple[int, float]], rating_change: float
) -> list[ItemChange]:
    changes = []
    for item in (*now, *(item for item in before if item not in now)):
        old_rank, old_rating = before.get(item, (None, None))
        rank, rating = now.get(item, (None, None))
        moved = old_rating is None or rating is None or abs(rating - old_rating) >= rating_change
        if moved or rank != old_rank:
            changes.append(ItemChange(item, old_rank, rank, old_rating, rating))
    return changes


def _verdict_changes(before: Suspects, now: Suspects) -> list[VerdictChange]:
    kept: tuple[Verdict, tuple[str, ...]] = ("keep", ())
    changes = []
    for rater in dict.fromkeys((*now, *before)):
        old, _ = before.get(rater, kept)
        verdict, reasons = now.get(rater, kept)
        if verdict != old:
            changes.append(VerdictChange(rater, old, verdict, reasons))
    return changes
