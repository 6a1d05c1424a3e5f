"""The loop: gather what arrived, read it, refresh, write the results; and go on after failures."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from bbq_plugin.config import OUTPUTS
from bbq_plugin.errors import BBQError, DataError, StoreError
from bbq_plugin.live.alerts import Alerts
from bbq_plugin.live.engine import Engine, camp_change
from bbq_plugin.live.file_ingest import Offer
from bbq_plugin.live.health import Health, Problems, told_by
from bbq_plugin.live.result_files import Outputs, limits_of, output_key, remove_results
from bbq_plugin.live.watch.arrivals import Arrivals, NotWatched, Polling, Waits, Wakeup, chosen
from bbq_plugin.plugins import answer_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bbq_plugin.config import Settings
    from bbq_plugin.live.alerts import Send
    from bbq_plugin.live.file_ingest import Outcome
    from bbq_plugin.live.log import Log
    from bbq_plugin.live.push import Pusher, Reach
    from bbq_plugin.live.table_ingest import TableOffer, TablePolls
    from bbq_plugin.model import Fit


@contextmanager
def handled(stop: Callable[[], None], reread: Callable[[], None]) -> Iterator[None]:
    """Call `stop` on SIGTERM and SIGINT, `reread` on SIGHUP; afterwards all is as before.

    Only the main thread may do this; in another one nothing happens.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    wanted = {signal.SIGTERM: stop, signal.SIGINT: stop, signal.SIGHUP: reread}
    before = {number: signal.getsignal(number) for number in wanted}
    for number in wanted:
        signal.signal(number, lambda caught, _: wanted[signal.Signals(caught)]())
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def waits_of(settings: Settings, *, once: bool = False) -> Waits:
    """How long is waited for what; once, a file that grows is not waited for."""
    longest_s = min(settings.max_delay_s, settings.settle_s) if once else settings.max_delay_s
    return Waits(
        settle_s=settings.settle_s,
        debounce_s=min(settings.debounce_s, longest_s),
        max_delay_s=longest_s,
        rescan_s=settings.rescan_s,
    )


# What may be missing for a while: space, a disk, a mount.
PASSING = (StoreError, OSError)
_FIRST_RETRY_S = 1.0
# An alert that hangs is not waited for at the end.
_STOP_S = 15.0
_LAST_RETRY_S = 60.0

# Each file that one of these happened to has a line in the log; of the others there is a count.
_TOLD = ("read", "copy", "refused")


class Daemon:
    """Watches a folder, or the table of a database, until it is told to stop."""

    def __init__(
        self,
        settings: Settings,
        reload: Callable[[], Settings],
        log: Log,
        *,
        reach: Reach | None = None,
        alert: Send | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """`reload` gives the settings again on SIGHUP, `reach` opens the project for feedback.

        `alert` sends an alert. `wall_clock` gives the seconds since 1970 that go on record.
        """
        self.settings, self._reload, self._log, self._reach = settings, reload, log, reach
        self._clock, self._wall_clock, self._wakeup = clock, wall_clock, Wakeup()
        self._alert = alert
        self._pusher: Pusher | None = None
        self._alerts: Alerts | None = None
        #: What does not work at present.
        self.problems = Problems(log, wall_clock)
        self._stopping = self._rereading = self._once = False
        # The results are older than what is stored: so it is after any end, however sudden.
        self._stale = True
        self._has_read = self._exact = False
        self._n_camps: int | None = None
        # Whether what came last is not in the history yet; None: not looked at so far.
        self._news: bool | None = None
        self._news_s = clock()
        self._retry_s = _FIRST_RETRY_S
        self._not_before_s = clock()

    # -- from signal handlers and other threads

    def stop(self) -> None:
        """Finish the batch in hand and leave."""
        self._stopping = True
        self._wakeup.set()

    def reread(self) -> None:
        """Read the configuration again as soon as the batch in hand is done."""
        self._rereading = True
        self._wakeup.set()

    def is_set(self) -> bool:
        """Say whether waiting has to end."""
        return self._stopping or self._rereading

    # -- the loop

    def run(self, *, once: bool = False) -> None:
        """Watch until told to stop; or, `once`, until all that is there was read and reported."""
        self._once = once
        try:
            with handled(self.stop, self.reread):
                self._run()
        except (BBQError, OSError) as error:
            # A reader of the log as JSON does not see the line that the command prints.
            self._log("failed", reason=str(error))
            raise
        self._log("stopped")

    def _run(self) -> None:
        store = self.settings.path("store")
        database = self.settings.database
        folder = None if database else self.settings.path("folder")
        if folder is not None and not folder.is_dir():
            raise DataError(f"{folder}: there is no such folder to watch; make it, or name another")
        self.settings.feedback.check()
        _, notes = output_key(self.settings)
        for note in notes:
            self._log("note", text=note)
        self._engine = self._opened_engine(self.settings)
        try:
            self._store_inode = store.stat().st_ino
            n = self._engine.n_comparisons
            what = {"folder": str(folder)} if folder else {"table": self.settings.table}
            self._log("started", **what, store=str(store), comparisons=n)
            for note in self._engine.left_out().notes:
                self._log("note", text=note)
            self._arrivals = self._watching()
            self._push()
            try:
                self._loop()
                if self._once and self._pusher is not None and not self._stopping:
                    self._pusher.now()
            finally:
                self._end_push()
                self._arrivals.close()
        finally:
            self._engine.close()

    def _loop(self) -> None:
        while not self._stopping:
            if self._rereading:
                self._rereading = False
                self._take_over()
            offers = self._arrivals.wait(self, self._due_s())
            if offers and not self._ingest(offers):
                continue
            if self._is_due(after_batch=bool(offers)):
                self._update(full=self._once or not self._stale)
            if self._once and self._arrivals.is_idle() and not self._stale:
                break
        if self._stale and self._has_read and not self._once:
            # The files that were read before the signal belong into the results.
            self._update(full=False)

    def _opened_engine(self, settings: Settings) -> Engine:
        """Open the store for writing, or say who writes it."""
        return Engine(
            settings.path("store"),
            study=settings.study,
            model=settings.model.model,
            **settings.model.fit_options(),
            reading=settings.read,
            clock=self._wall_clock,
        )

    def _watching(self) -> Arrivals | TablePolls:
        """Watch the folder; once, it is looked at with no need for events."""
        settings = self.settings
        if settings.database is not None:
            from bbq_plugin.live.table_ingest import TablePolls  # noqa: PLC0415 (only if wanted)

            return TablePolls(
                settings, self._engine, once=self._once, problems=self.problems,
                wakeup=self._wakeup, clock=self._clock, wall_clock=self._wall_clock,
            )  # fmt: skip
        folder = settings.path("folder").absolute()
        project = answer_files(folder) if folder.is_dir() else None
        notifier, why = (Polling(), None) if self._once else chosen(settings.observer, folder)
        if why is not None:
            self._log("polling", reason=why)
        return Arrivals(
            folder,
            notifier,
            waits=waits_of(settings, once=self._once),
            left_out=NotWatched.below(
                folder,
                store=settings.store,
                out=settings.out,
                outputs=OUTPUTS,
                only=None if project is None else project[1],
            ),
            recursive=settings.recursive or project is not None,
            fall_back=settings.observer == "auto",
            problems=self.problems,
            clock=self._clock,
            wakeup=self._wakeup,
        )

    def _push(self) -> None:
        """Begin to take verdicts back to the project, and to send alerts, if that is wanted."""
        if self._alert is not None:
            self._alerts = Alerts(
                self._alert, self._engine.store, self.problems, self.settings.alerts.alert_on
            )
            self.problems.on_change = self._tell_health
            self._alerts.job.start(due=True)
            self._tell_health()
        if not self.settings.feedback.push or self._reach is None:
            return
        from bbq_plugin.live.push import Pusher  # noqa: PLC0415 (only if wanted)

        self._pusher = Pusher(self.settings, self._engine, self._reach, self.problems)
        if not self._once:
            self._pusher.start()

    def _end_push(self) -> None:
        pusher, self._pusher = self._pusher, None
        if pusher is not None:
            pusher.stop()
        alerts, self._alerts = self._alerts, None
        if alerts is not None:
            # What came last is told before the end.
            alerts.job.stop(_STOP_S, finish=True)

    def _tell_health(self) -> None:
        if self._alerts is not None:
            self._alerts.health(Health(tuple(told_by(self.problems))))

    def _due_s(self) -> float | None:
        """When there is something to do even if no file comes."""
        if self._stale and self._arrivals.is_idle():
            return self._not_before_s
        if not self._stale and not self._exact:
            return max(self._news_s + self.settings.idle_full_s, self._not_before_s)
        return None

    def _is_due(self, *, after_batch: bool) -> bool:
        if self.is_set() or self._clock() < self._not_before_s:
            return False
        due_s = self._due_s()
        return (after_batch and self._stale) or (due_s is not None and self._clock() >= due_s)

    # -- reading

    def _ingest(self, offers: Sequence[Offer | TableOffer]) -> bool:
        """Read a batch in one transaction; say whether it is stored."""
        self._check_store()
        began_s = self._clock()
        try:
            outcomes = self._engine.ingest(offers)
        except PASSING as error:
            if self._once:
                raise
            self._arrivals.give_back([offer for offer in offers if isinstance(offer, Offer)])
            self._failed("store", error, files=len(offers))
            self._pause()
            return False
        self._retry_s = _FIRST_RETRY_S
        self.problems.over("store")
        self._tell(outcomes, self._clock() - began_s)
        if any(one.n_new or one.n_changed or one.n_retracted for one in outcomes):
            self._news = True
            self._news_s = self._clock()
        # The results also say what was refused and what was left out.
        if any(one.status in _TOLD for one in outcomes):
            self._stale = self._has_read = True
        return True

    def _check_store(self) -> None:
        """Leave if the store is another file by now: what is written would be lost."""
        try:
            found: int | None = self.settings.path("store").stat().st_ino
        except OSError:
            found = None
        if found != self._store_inode:
            raise StoreError(
                f"{self.settings.path('store')}: the store was removed or replaced while it was "
                "in use; start again: the files in the folder are then read again"
            )

    def _tell(self, outcomes: list[Outcome], took_s: float) -> None:
        for one in outcomes:
            if one.status in _TOLD:
                self._log(
                    f"{one.what}_{one.status}",
                    **{one.what: one.name},
                    adapter=one.adapter,
                    new=one.n_new,
                    changed=one.n_changed,
                    retracted=one.n_retracted,
                    skipped=one.n_skipped,
                    reason=one.reason,
                )
        counts = Counter(one.status for one in outcomes)
        self._log("batch", files=len(outcomes), **dict(counts), took_s=took_s)

    # -- results

    def _update(self, *, full: bool) -> None:
        """Refresh and write the results; what fails is tried again later."""
        began_s = self._clock()
        try:
            n = self._engine.n_comparisons
            if not n:
                # Nothing to fit, and nothing to be made exact later.
                self._stale, self._exact = False, True
                self._remove_results()
                return
            how = self._engine.refresh(full=full)
            fitted_s = self._clock()
            self._tell_camps(self._engine.fit)
            analysis = self._engine.analysis(limits_of(self.settings))
            held = self.settings.model.covariate
            told = self._engine.held_equal(held, analysis.limits) if held else analysis
            outputs = Outputs(self._engine.store, told, self.settings, self._engine.study)
            if self._has_news(analysis.fit.data.n_comparisons):
                outputs.record(how)
            self._news = False
            done = outputs.write()
        except PASSING as error:
            if self._once:
                raise
            self._failed("results", error)
            return
        except Exception as error:
            if self._once:
                raise
            # The data are at fault, or the program: trying again needs other data.
            self.problems.report("results", error)
            self._stale, self._exact = False, True
            return
        self._stale, self._exact = False, analysis.fit.converged
        self._retry_s, self._not_before_s = _FIRST_RETRY_S, self._clock()
        self.problems.over("results")
        if self._pusher is not None:
            self._pusher.offer(analysis)
        if self._alerts is not None:
            study = self._engine.study
            name = next(one.name for one in self._engine.store.studies() if one.id == study)
            self._alerts.analysed(study, name, outputs.shown)
            self._alerts.settled(study, name, outputs.shown.stopping.best, analysis.at)
        self._log(
            "refreshed",
            how=how,
            comparisons=n,
            wrote=", ".join(file.name for file in done.files),
            note="; ".join(done.notes) or None,
            fit_s=fitted_s - began_s,
            write_s=self._clock() - fitted_s,
        )

    def _tell_camps(self, fit: Fit) -> None:
        """Say so when the panel has another number of camps than before."""
        change = camp_change(self._n_camps, fit)
        self._n_camps = len(fit.camps)
        if change is not None:
            self._log("camps", before=change.before, now=change.now, text=change.text)

    def _remove_results(self) -> None:
        if gone := remove_results(self.settings):
            self._log("results_removed", files=", ".join(gone), reason="no answer is left")

    def _has_news(self, n_comparisons: int) -> bool:
        if self._news is not None:
            return self._news
        # The last process may have been killed between storing a batch and telling of it.
        points = self._engine.store.history(2, self._engine.study)
        return not points or points[-1].n_comparisons != n_comparisons

    def _failed(self, what: str, error: Exception, files: int | None = None) -> None:
        self.problems.report(what, error, retry_s=self._retry_s, files=files)
        self._not_before_s = self._clock() + self._retry_s
        self._retry_s = min(2 * self._retry_s, _LAST_RETRY_S)

    def _pause(self) -> None:
        while not self.is_set() and (left_s := self._not_before_s - self._clock()) > 0:
            self._wakeup.wait(left_s)

    # -- configuration

    def _take_over(self) -> None:
        """Go on with the configuration as it is now; a bad one changes nothing."""
        old = self.settings
        try:
            new = self._reload()
            output_key(new)
            new.feedback.check()
        except (BBQError, OSError) as error:
            self._log("config_refused", reason=str(error))
            return
        for key in ("folder", "database", "table", "store"):
            if getattr(new, key) != getattr(old, key):
                self._log("config_needs_restart", key=key, kept=str(getattr(old, key)))
                new = msgspec.structs.replace(new, **{key: getattr(old, key)})
        # It holds the store that is about to be closed, and the settings of before.
        self._end_push()
        if new.model != old.model:
            self._engine.close()
            try:
                self._engine = self._opened_engine(new)
            except BBQError as error:
                self._log("config_refused", reason=str(error))
                self._engine = self._opened_engine(old)
                self._push()
                return
        self._engine.reading = new.read
        self.settings = new
        self._push()
        self._log.style = new.log_format
        self._arrivals.close()
        self._arrivals = self._watching()
        self._stale = True
        self._log("config_reread")
