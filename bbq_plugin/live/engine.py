"""The engine: a store, its answers in memory, and a fit that follows them."""

from __future__ import annotations

import os
import threading
import time
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Literal, Self

import numpy as np

from bbq_plugin.aggregate import aggregate
from bbq_plugin.comparisons import Comparison, Comparisons
from bbq_plugin.errors import DataError
from bbq_plugin.live.answers import checked_answer
from bbq_plugin.live.counts import Counts
from bbq_plugin.live.ingest import Ingest, Offer, Outcome, Reading
from bbq_plugin.live.livefit import LiveFit, Moment, aligned
from bbq_plugin.live.saved import last_fit, packed
from bbq_plugin.live.store import Store
from bbq_plugin.live.table import Table, comparisons_of, signed_wins
from bbq_plugin.model import Fit, Priors, fit
from bbq_plugin.model.fitting import check_choices, check_priors
from bbq_plugin.model.streaming import Streaming

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from bbq_plugin.live.saved import LastFit
    from bbq_plugin.live.store import Change
    from bbq_plugin.live.store.changes import Columns
    from bbq_plugin.model.fitting import Model
    from bbq_plugin.model.objective import Floats
    from bbq_plugin.model.population import Population

__all__ = ["Engine", "Refresh"]

Refresh = Literal["incremental", "full"]

# Estimated priors are estimated anew when the answers have become so many more (or fewer).
_GROWTH = 1.1

# What the changes of can be followed.
_FOLLOWED = ("bbq", "bayes-bt")


class Engine:
    """Takes answers in, durably, and keeps a fit of them.

    `path` is the store (":memory:" keeps nothing). `model`, `priors` and `tol` are those of
    `bbq.fit`; `reading` says how files are read. All methods may be called from any thread.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] = ":memory:",
        *,
        model: Model = "bbq",
        priors: Priors | Literal["paper", "auto"] = Priors(),  # noqa: B008 (a frozen value)
        tol: float = 1e-6,
        reading: Reading = Reading(),  # noqa: B008 (a frozen value)
        clock: Callable[[], float] = time.time,
    ) -> None:
        check_choices(model, "auto", tol)
        check_priors(model, priors)
        self.model: Model = model
        self.priors = Priors() if priors == "paper" else priors
        self.tol = tol
        self._mutex = threading.RLock()
        self.store = Store(path, clock=clock)
        try:
            self._ingest = Ingest(self.store, reading)
            self._table = Table(self.store.load())
            self._saved = self._last_fit()
        except BaseException:
            self.store.close()
            raise
        self._counts = Counts(self._table.view().alive())
        #: Other models are fitted anew each time, and so is one without a prior on the items.
        flat = isinstance(self.priors, Priors) and self.priors.flat_items
        self._follows = model in _FOLLOWED and not flat
        self._streaming: Streaming | None = None
        self._fit: Fit | None = None
        #: The estimate of the population, and the items that it was made with.
        self._population: tuple[Population | None, tuple[str, ...]] = None, ()
        self._pending: list[tuple[Columns, float]] = []
        self._unsaved = False
        #: Whether answers came or went since the last refresh.
        self._dirty = False
        #: Whether a call was cut off, so that the store may hold more than is in memory.
        self._in_doubt = False
        #: The number of the state of the store that all of this is of.
        self._followed_id = self.store.last_id()
        #: How many answers there were when priors were last estimated.
        self._estimated_at = 0

    def _last_fit(self) -> LastFit | None:
        found = self.store.saved_fit()
        if found is None:
            return None
        last = last_fit(found[1])
        return last if last.fits(self.model, self.priors) else None

    def close(self) -> None:
        """Keep the last fit for the next start, and close the store."""
        with self._mutex:
            try:
                if self._unsaved:
                    self._save("incremental")
            finally:
                self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- answers

    def add(self, comparisons: Comparison | Iterable[Comparison] | Comparisons) -> int:
        """Add answers, each under its key; how many are new or changed. Durable on return.

        Of one key the newest counts: by `version`, else by `at`, else what comes later.
        """
        if isinstance(comparisons, Comparison):
            comparisons = (comparisons,)
        elif isinstance(comparisons, Comparisons):
            comparisons = _keyed(comparisons)
        with self._writing():
            change, tally = self.store.add(map(checked_answer, comparisons))
            self._take(change)
        return tally.n_new + tally.n_changed

    def retract(self, keys: str | Iterable[str]) -> int:
        """Take answers back by their keys (or that of their ranking); how many went."""
        with self._writing():
            change, _ = self.store.retract((keys,) if isinstance(keys, str) else keys)
            self._take(change)
        return int(change.removed.size)

    def ingest(self, offers: Iterable[Offer]) -> list[Outcome]:
        """Read files: one transaction for all, in which a bad file spoils only itself."""
        with self._writing():
            with self.store.transaction() as transaction:
                outcomes = [self._ingest(transaction, offer) for offer in offers]
            self._take(transaction.change)
        return outcomes

    @property
    def reading(self) -> Reading:
        """How files are read."""
        return self._ingest.reading

    @reading.setter
    def reading(self, reading: Reading) -> None:
        self._ingest.reading = reading

    def apply(self, change: Change) -> None:
        """Follow a change that was made to the store by other means than these methods.

        Changes have to come in the order in which they were made: where several threads make
        them, each does so and tells of it inside `writing()`.
        """
        with self._mutex:
            self._take(change)

    def writing(self) -> AbstractContextManager[None]:
        """Whoever is inside is the only one to change the store and the engine."""
        return self._writing()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Where an interrupt may come between the store and what is in memory."""
        with self._mutex:
            self._catch_up()
            self._in_doubt = True
            yield
            self._in_doubt = False

    def _catch_up(self) -> None:
        """Start again from the store, if a call that was cut off has changed it."""
        if self._in_doubt and self._followed_id != (now := self.store.last_id()):
            self._table = Table(self.store.load())
            self._counts = Counts(self._table.view().alive())
            self._streaming, self._pending = None, []
            self._dirty = True
            self._followed_id = now
        self._in_doubt = False

    def _take(self, change: Change) -> None:
        if not change:
            return
        self._dirty = True
        gone = self._table.apply(change)
        before = self._counts.rated
        self._counts.add(change.added, 1)
        self._counts.add(gone, -1)
        if self._counts.rated != before:
            # Answers without a rater count only as long as there are no others.
            self._streaming = None
        self._pending += [(change.added, 1.0), (gone, -1.0)]
        # Last, so that whatever cuts this off shows.
        self._followed_id = change.last_id

    @property
    def changed(self) -> bool:
        """Whether answers came or went since the last refresh."""
        return self._dirty or self._in_doubt or self._fit is None

    @property
    def outgrown(self) -> bool:
        """Whether estimated priors are of so many fewer answers, or more, that they are due."""
        with self._mutex:
            return self._counts.n > 0 and self._outgrown()

    # -- the fit

    def refresh(self, *, full: bool = False, hold_priors: bool = False) -> Refresh:
        """Follow what came since the last time; whether by an incremental step or full passes.

        `full` goes on until the optimum is certified to `tol`, as in a cold `bbq.fit`, and
        estimates the priors anew if they are to be estimated. Else they are estimated anew when
        they are `outgrown`; with `hold_priors` that waits for a later refresh, if it can.
        """
        with self._mutex:
            self._catch_up()
            if not self._counts.n:
                raise DataError("there are no comparisons yet; add some first")
            # Whatever ends this early: what was handed over once is not handed over again.
            pending, self._pending = self._pending, []
            streaming, self._streaming = self._streaming, None
            if not self._follows:
                how = self._cold()
            elif streaming is None or self._estimates(full=full, hold=hold_priors):
                how = self._start(anew=full)
            else:
                how = self._follow(streaming, pending, full=full)
            self._dirty = False
            self._unsaved = how != "full"
            if how == "full":
                self._save(how)
        return how

    def _estimates(self, *, full: bool, hold: bool) -> bool:
        return (full and self.priors == "auto") or (not hold and self._outgrown())

    def _outgrown(self) -> bool:
        n, then = self._counts.n, self._estimated_at
        return self.priors == "auto" and not then / _GROWTH <= n <= then * _GROWTH

    def _cold(self) -> Refresh:
        self._fit = fit(self.data, model=self.model, priors=self.priors, tol=self.tol)
        return "full"

    def _follow(
        self, streaming: Streaming, pending: list[tuple[Columns, float]], *, full: bool
    ) -> Refresh:
        for columns, sign in pending:
            streaming.change(*signed_wins(self._counts.counted(columns), sign))
        if full:
            self._certify(streaming)
            return "full"
        found = streaming.refresh()
        self._fit = self._live_fit(streaming, found.error)
        self._streaming = streaming
        return found.how

    def _start(self, *, anew: bool) -> Refresh:
        """Build the state that later changes are followed from."""
        last = None if self._saved is None or anew else self._saved
        if self.priors == "auto":
            then = 0 if last is None else last.estimated_at
            if last is None or not then / _GROWTH <= self._counts.n <= then * _GROWTH:
                return self._start_estimated()
            self._estimated_at, priors = then, last.given()
            self._population = last.estimate(), tuple(last.theta)
        else:
            priors = self.priors
        theta = None
        names = self.store.names.items.names
        if last is not None:
            level = np.log((priors.a - 1) / priors.b) if priors.a > 1 else 0.0
            theta = last.theta_of(names, float(level))
        self._certify(self._streaming_from(priors, theta))
        return "full"

    def _start_estimated(self) -> Refresh:
        """Priors and all from the answers alone, as in a cold fit."""
        found = fit(self.data, model=self.model, priors="auto", tol=self.tol)
        self._fit, self._estimated_at = found, self._counts.n
        self._population = found.population, found.items
        if not isinstance(found.priors, Priors) or not found.priors.estimated:
            # Too many items for an estimate: nothing to follow it from.
            self._streaming = None
            return "full"
        names = self.store.names.items.names
        theta = np.full(len(names), float(np.mean(found.theta)))
        theta[self._counts.items()] = found.theta
        self._streaming = self._streaming_from(found.priors, theta)
        return "full"

    def _streaming_from(self, priors: Priors, theta: Floats | None) -> Streaming:
        names = self.store.names
        columns = self._counts.counted(self._table.view().alive())
        rater, winner, loser, weight = signed_wins(columns, 1.0)
        n_raters = len(names.raters.names) if self._counts.rated else 1
        triples = aggregate(rater, winner, loser, weight, n_raters, len(names.items.names))
        fixed = self.model == "bayes-bt" or not self._counts.rated
        return Streaming(triples, priors, fixed=fixed, marginal=priors.estimated, theta=theta)

    def _certify(self, streaming: Streaming) -> None:
        found = streaming.solve(self.tol)
        self._fit = self._live_fit(streaming, found.error, certified=True)
        self._streaming = streaming

    def _live_fit(self, streaming: Streaming, error: float, *, certified: bool = False) -> Fit:
        names = self.store.names
        used = self._counts.items()
        all_items = names.items.names
        items = tuple(all_items[i] for i in used.tolist())
        moment = Moment(self._table.view(), names, items, tuple(self.store.ledger()))
        return LiveFit(
            moment,
            model=self.model,
            priors=streaming.priors,
            theta=streaming.theta[used],
            error=error,
            converged=certified,
            population=aligned(self._population[0], items, self._population[1]),
        )

    def _save(self, how: Refresh) -> None:
        """Keep the fit for `bbq status` and for the next start."""
        if self._fit is None or not isinstance(self._fit.priors, Priors):
            return
        n, raters = self._counts.n, self.store.counts().n_raters
        data = packed(self._fit, how, n, raters, self._estimated_at)
        self.store.save_fit(data)
        self._saved = last_fit(data)

    @property
    def fit(self) -> Fit:
        """The fit of all answers there are; refreshed first if some came since the last time."""
        with self._mutex:
            if self.changed:
                self.refresh()
            if self._fit is None:
                raise DataError("there is no fit yet")
            return self._fit

    @property
    def data(self) -> Comparisons:
        """All answers, as `bbq.read` would have given them."""
        with self._mutex:
            self._catch_up()
            names = self.store.names
            return comparisons_of(
                self._table.view().alive(),
                names.items.names,
                names.raters.names,
                self.store.ledger(),
            )


def _keyed(data: Comparisons) -> Iterator[Comparison]:
    """Rows that have no keys: the same set of rows, added again, is the same answers."""
    name = data.digest[:16]
    rows = zip(
        data.rater.tolist(), data.winner.tolist(), data.loser.tolist(), data.weight.tolist(),
        strict=True,
    )  # fmt: skip
    for i, (rater, winner, loser, weight) in enumerate(rows):
        who = data.raters[rater] if data.has_raters else None
        key = f"{name}:{i}"
        yield Comparison(key, who, data.items[winner], data.items[loser], "left", weight, key)
