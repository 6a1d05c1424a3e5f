"""The engine: a store, its answers in memory, and a fit that follows them."""

from __future__ import annotations

import math
import os
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self
from uuid import uuid4

import msgspec
import numpy as np

from bbq_plugin.analysis import Analysis, Limits
from bbq_plugin.config import ReadSettings
from bbq_plugin.data.builder import RIGHT, TIE
from bbq_plugin.data.coding import RaterCodes, RawCodes, coded
from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.data.records import Comparison
from bbq_plugin.data.triples import aggregate
from bbq_plugin.errors import DataError
from bbq_plugin.live.ingest import Ingest, Offer, Outcome
from bbq_plugin.model import Priors, fit
from bbq_plugin.model.fit import Fit, check_choices, check_priors, optimum_at, warnings_of
from bbq_plugin.model.population import Population
from bbq_plugin.model.streaming import Streaming
from bbq_plugin.store import Store
from bbq_plugin.store.read import comparisons_of
from bbq_plugin.store.upsert import checked_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from bbq_plugin.data.triples import Floats
    from bbq_plugin.model.fit import Model
    from bbq_plugin.store import Change, SourceEntry
    from bbq_plugin.store.columns import Codebook, ColumnArrays

Refresh = Literal["incremental", "full"]

# Priors are estimated again when the answers have become so many more (or fewer).
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
        reading: ReadSettings = ReadSettings(),  # noqa: B008 (a frozen value)
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
        self._counts = ItemCounts(self._table.snapshot().alive())
        #: Other models are fitted from the start each time, and so is one without item priors.
        flat = isinstance(self.priors, Priors) and self.priors.flat_items
        self._follows = model in _FOLLOWED and not flat
        self._streaming: Streaming | None = None
        self._fit: Fit | None = None
        #: The estimate of the population, and the items that it was made with.
        self._population: tuple[Population | None, tuple[str, ...]] = None, ()
        self._pending: list[tuple[ColumnArrays, float]] = []
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
        with self.writing():
            change, tally = self.store.add(map(checked_answer, comparisons))
            self._take(change)
        return tally.n_new + tally.n_changed

    def retract(self, keys: str | Iterable[str]) -> int:
        """Take answers back by their keys (or that of their ranking); how many went."""
        with self.writing():
            change, _ = self.store.retract((keys,) if isinstance(keys, str) else keys)
            self._take(change)
        return int(change.removed.size)

    def ingest(self, offers: Iterable[Offer]) -> list[Outcome]:
        """Read files: one transaction for all, in which a bad file spoils only itself."""
        with self.writing():
            with self.store.transaction() as transaction:
                outcomes = [self._ingest(transaction, offer) for offer in offers]
            self._take(transaction.change)
        return outcomes

    @property
    def reading(self) -> ReadSettings:
        """How files are read."""
        return self._ingest.reading

    @reading.setter
    def reading(self, reading: ReadSettings) -> None:
        self._ingest.reading = reading

    def apply(self, change: Change) -> None:
        """Follow a change that was made to the store by other means than these methods.

        Changes have to come in the order in which they were made: where several threads make
        them, each does so and tells of it inside `writing()`.
        """
        with self._mutex:
            self._take(change)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Inside, the caller alone changes the store and the engine.

        An interrupt may come between the two: then the next call starts again from the store.
        """
        with self._mutex:
            self._catch_up()
            self._in_doubt = True
            yield
            self._in_doubt = False

    def _catch_up(self) -> None:
        """Start again from the store, if a call that was cut off has changed it."""
        if self._in_doubt and self._followed_id != (now := self.store.last_id()):
            self._table = Table(self.store.load())
            self._counts = ItemCounts(self._table.snapshot().alive())
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
        estimates the priors if they are to be estimated. Else they are estimated when they
        are `outgrown`; with `hold_priors` that waits for a later refresh, if it can.
        """
        with self._mutex:
            self._catch_up()
            if not self._counts.n:
                raise DataError("there are no comparisons yet; add some first")
            # Whatever ends this early: what was handed over once is not handed over again.
            pending, self._pending = self._pending, []
            streaming, self._streaming = self._streaming, None
            how: Refresh = "full"
            if not self._follows:
                self._fit = fit(self.data, model=self.model, priors=self.priors, tol=self.tol)
            elif streaming is None or self._estimates(full=full, hold=hold_priors):
                self._start(cold=full)
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

    def _follow(
        self, streaming: Streaming, pending: list[tuple[ColumnArrays, float]], *, full: bool
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

    def _start(self, *, cold: bool) -> None:
        """Build the state that later changes are followed from."""
        last = None if self._saved is None or cold else self._saved
        if self.priors == "auto":
            then = 0 if last is None else last.estimated_at
            if last is None or not then / _GROWTH <= self._counts.n <= then * _GROWTH:
                self._start_estimated()
                return
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

    def _start_estimated(self) -> None:
        """Priors and all from the answers alone, as in a cold fit."""
        found = fit(self.data, model=self.model, priors="auto", tol=self.tol)
        self._fit, self._estimated_at = found, self._counts.n
        self._population = found.population, found.items
        if not isinstance(found.priors, Priors) or not found.priors.estimated:
            # Too many items for an estimate: nothing to follow it from.
            return
        names = self.store.names.items.names
        theta = np.full(len(names), float(np.mean(found.theta)))
        theta[self._counts.items()] = found.theta
        self._streaming = self._streaming_from(found.priors, theta)

    def _streaming_from(self, priors: Priors, theta: Floats | None) -> Streaming:
        names = self.store.names
        columns = self._counts.counted(self._table.snapshot().alive())
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
        used, names = self._counts.items(), self.store.names.items.names
        items = tuple(names[i] for i in used.tolist())
        return LiveFit(
            self._snapshot(),
            items,
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

    def analysis(self, limits: Limits = Limits()) -> Analysis:  # noqa: B008 (a frozen value)
        """What follows from the fit; the store remembers who was excluded before."""
        return Analysis(self.fit, limits, self.store.excluded(), at=self.store.clock())

    def keep_verdicts(self, analysis: Analysis) -> None:
        """Remember whom an analysis excludes, if it has verdicts by now."""
        if analysis.judged:
            self.store.keep_excluded(analysis.raters.excluded)

    @property
    def data(self) -> Comparisons:
        """All answers, as `bbq.read` would have given them."""
        with self._mutex:
            self._catch_up()
            return self._snapshot().comparisons()

    def _snapshot(self) -> AnswerSnapshot:
        store = self.store
        return AnswerSnapshot(self._table.snapshot(), store.names, tuple(store.ledger()))


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


# -- answers that a program gives: checked while the caller can still correct them


def checked_answer(answer: object) -> Comparison:
    """The same answer, or an error that says what cannot be stored of it."""
    if not isinstance(answer, Comparison):
        raise DataError(f"is {answer!r}; expected a Comparison")
    key_text(answer.key)
    if answer.slate is not None:
        key_text(answer.slate, "slate")
    for what in ("at", "version", "time_s"):
        value = getattr(answer, what)
        if value is not None:
            seconds(value, what, least=0.0 if what == "time_s" else -math.inf)
    if answer.tags is not None:
        tag_texts(answer.tags)
    return answer


def key_text(key: object, what: str = "key") -> str:
    """A key that a caller gave."""
    return _text(checked_key(key, what), what)


def _text(value: str, what: str) -> str:
    """Text that can be written down."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise DataError(
            f"{what} {value!r} has half a character (an unpaired surrogate); mend it"
        ) from None
    return value


def seconds(value: float, what: str, least: float = -math.inf) -> float:
    """A time, or the length of one, that a caller gave."""
    try:
        found = math.nan if isinstance(value, (str, bytes, bool)) else float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not (math.isfinite(found) and found >= least):
        kind = ", 0 or more" if least == 0 else " since 1970"
        raise DataError(f"{what} is {value!r}; expected seconds{kind}, or None if not known")
    return found


def tag_texts(tags: Mapping[str, str]) -> dict[str, str]:
    """Tags that a caller gave."""
    if not hasattr(tags, "items"):
        raise DataError(f"tags is {tags!r}; expected a mapping of text to text")
    for name, value in tags.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise DataError(f"tag {name!r} is {value!r}; names and values of tags are text")
        _text(name, "the tag")
        _text(value, f"the value of tag {name!r},")
    return dict(tags)


def checked_vote(answer: Comparison, now: float) -> Comparison:
    """The answer as it is stored, or an error that says what is wrong with it.

    It gets a key if it has none, and the time if it has none.
    """
    if coded(answer, RawCodes("item"), RaterCodes("rater")) is None:
        raise DataError(
            f"left and right are both {answer.left!r}; a vote is between two different items"
        )
    if answer.slate is not None:
        raise DataError(
            f"slate is {answer.slate!r}; the pairs of one ranking are stored together: Engine.add"
        )
    return msgspec.structs.replace(
        answer,
        key=key_text(answer.key) if answer.key != "" else f"vote:{uuid4().hex}",
        at=now if answer.at is None else seconds(answer.at, "at"),
        time_s=None if answer.time_s is None else seconds(answer.time_s, "time_s", least=0.0),
        tags=None if answer.tags is None else tag_texts(answer.tags),
    )


# -- fits


class LastFit(msgspec.Struct, frozen=True):
    """The optimum by name, and the priors it was found under."""

    model: str
    #: incremental or full.
    how: str
    n_comparisons: int
    n_raters: int
    priors: dict[str, Any]
    theta: dict[str, float]
    #: The estimate of the population, if priors were estimated: eta, its covariance, the slope.
    population: tuple[list[float], list[list[float]], list[list[float]]] | None = None
    #: How many answers there were when it was estimated.
    estimated_at: int = 0

    def theta_of(self, names: tuple[str, ...], level: float) -> Floats:
        """Where to start for these items; new ones at the level of the prior."""
        return np.array([self.theta.get(name, level) for name in names])

    def given(self) -> Priors:
        """The priors."""
        return Priors(**self.priors)

    def estimate(self) -> Population | None:
        """The population, for the items of `theta` in their order."""
        if self.population is None:
            return None
        eta, covariance, slope = map(np.array, self.population)
        theta = np.array(list(self.theta.values()))
        return Population(self.given(), eta, covariance, slope, theta)

    def fits(self, model: str, priors: Priors | Literal["auto"]) -> bool:
        """Whether it was made under these settings."""
        same = self.population is not None if priors == "auto" else self.given() == priors
        return self.model == model and same


def packed(fit: Fit, how: str, n_comparisons: int, n_raters: int, estimated_at: int) -> bytes:
    """A fit as the store keeps it."""
    population, estimate = None, fit.population
    if estimate is not None:
        population = estimate.eta.tolist(), estimate.covariance.tolist(), estimate.slope.tolist()
    priors = {field: getattr(fit.priors, field) for field in Priors.__dataclass_fields__}
    theta = dict(zip(fit.items, fit.theta.tolist(), strict=True))
    last = LastFit(fit.model, how, n_comparisons, n_raters, priors, theta, population, estimated_at)
    return msgspec.json.encode(last)


def last_fit(data: bytes) -> LastFit:
    """A fit from these bytes."""
    return msgspec.json.decode(data, type=LastFit)


@dataclass(frozen=True, eq=False, slots=True)
class AnswerSnapshot:
    """All answers as they were at one moment, and the names in them."""

    table: TableSnapshot
    names: Codebook
    entries: tuple[SourceEntry, ...]

    def comparisons(self) -> Comparisons:
        """The same as a data set."""
        # Names are only ever added, so those of now hold those of then.
        items, raters = self.names.items.names, self.names.raters.names
        return comparisons_of(self.table.alive(), items, raters, self.entries)


class LiveFit(Fit):
    """A `Fit` like any other; its data, qualities and trace are made when first used."""

    _answers: AnswerSnapshot
    _items: tuple[str, ...]

    def __init__(self, answers: AnswerSnapshot, items: tuple[str, ...], **known: Any) -> None:
        # Not the dataclass's own: that would want now what is made later.
        self.__dict__.update(known, solver="auto", _answers=answers, _items=items)

    @property
    def items(self) -> tuple[str, ...]:
        """Names, aligned with `theta`."""
        return self._items

    @cached_property
    def data(self) -> Comparisons:
        """The answers that were fitted."""
        return self._answers.comparisons()

    @cached_property
    def _optimum(self) -> tuple[Floats, float]:
        return optimum_at(self, self.theta)

    @cached_property
    def quality(self) -> Floats:
        """Of each rater, at `theta`."""
        if not self.rated:
            return np.ones(len(self.raters))
        return self._optimum[0]

    @cached_property
    def trace(self) -> Floats:
        """The height of the log-posterior at `theta`."""
        return np.array([self._optimum[1]])

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What the reader of the results should know."""
        return tuple(warnings_of(self.data, self.model))


def aligned(population: Any, items: tuple[str, ...], then: tuple[str, ...]) -> Any:
    """An estimate of the population for other items than those it was made with."""
    if population is None or items == then:
        return population
    row = {name: i for i, name in enumerate(then)}
    theta = np.zeros(len(items))
    slope = np.zeros((len(items), population.slope.shape[1]))
    for i, name in enumerate(items):
        if name in row:
            theta[i], slope[i] = population.theta[row[name]], population.slope[row[name]]
    return replace(population, slope=slope, theta=theta)


# -- the answers in memory


class ItemCounts:
    """Answers without a rater count only as long as there are no others."""

    def __init__(self, columns: ColumnArrays) -> None:
        self._n = [0, 0]
        self._items: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64) for _ in range(2)]
        self.add(columns, 1)

    def add(self, columns: ColumnArrays, sign: int) -> None:
        """Answers that came (1) or went (-1)."""
        rated = columns["rater"] >= 0
        for kind, mine in enumerate((~rated, rated)):
            both = np.concatenate((columns["left"][mine], columns["right"][mine]))
            self._n[kind] += sign * (both.size // 2)
            old = self._items[kind]
            new = np.bincount(both, minlength=old.size).astype(np.int64) * sign
            new[: old.size] += old
            self._items[kind] = new

    @property
    def rated(self) -> bool:
        """Whether any rater is known."""
        return self._n[1] > 0

    @property
    def n(self) -> int:
        """How many answers count."""
        return self._n[self.rated]

    def items(self) -> NDArray[np.int64]:
        """The codes of the items that were compared, ascending."""
        return np.flatnonzero(self._items[self.rated])

    def counted(self, columns: ColumnArrays) -> ColumnArrays:
        """Those answers that count; the code is 0 where no rater is known."""
        if not self.rated:
            return columns | {"rater": np.zeros(columns["rater"].size, dtype=np.int32)}
        keep: NDArray[Any] = columns["rater"] >= 0
        if keep.all():
            return columns
        return {name: column[keep] for name, column in columns.items()}


_NEVER = np.iinfo(np.int32).max
# Rows that are gone are kept until they are so many, and so large a share.
_MOST_DEAD_ROWS = 100_000
_MOST_DEAD = 0.5


@dataclass(frozen=True, eq=False, slots=True)
class TableSnapshot:
    """The answers as they were at one moment, whatever has come since."""

    columns: ColumnArrays
    died: NDArray[np.int32]
    n: int
    version: int

    def alive(self) -> ColumnArrays:
        """Those that count."""
        stays = self.died[: self.n] > self.version
        if stays.all():
            # Rows are only ever added behind these: no copy is needed.
            return {name: column[: self.n] for name, column in self.columns.items()}
        return {name: column[: self.n][stays] for name, column in self.columns.items()}


class Table:
    """Grows at its end; an answer that is taken back stays, with the version that it left in."""

    def __init__(self, columns: ColumnArrays) -> None:
        self._start(columns)
        self._version = 0

    def _start(self, columns: ColumnArrays) -> None:
        self.n = int(columns["id"].size)
        self._columns = dict(columns)
        self._died: NDArray[np.int32] = np.full(self.n, _NEVER, dtype=np.int32)
        self._n_dead = 0

    def apply(self, change: Change) -> ColumnArrays:
        """Take a change over; the answers that went, as they were."""
        self._version += 1
        ids = self._columns["id"][: self.n]
        rows = np.searchsorted(ids, change.removed)
        if not np.array_equal(ids[rows[rows < self.n]], change.removed):
            raise DataError("a change takes back answers that are not here")
        self._died[rows] = self._version
        self._n_dead += rows.size
        gone = {name: column[rows] for name, column in self._columns.items()}
        self._append(change.added)
        if self._n_dead > max(_MOST_DEAD_ROWS, _MOST_DEAD * self.n):
            # Views keep the old arrays.
            self._start(self.snapshot().alive())
        return gone

    def _append(self, added: ColumnArrays) -> None:
        n = self.n + int(added["id"].size)
        if n > self._died.size:
            room = max(n, int(1.5 * self._died.size), 1024)
            # A new dictionary, because views have the old one; one column after the other, so that
            # without views no more than one of them is there twice.
            self._columns = dict(self._columns)
            for name in self._columns:
                self._columns[name] = _grown(self._columns[name], self.n, room)
            self._died = _grown(self._died, self.n, room)
        for name, column in self._columns.items():
            column[self.n : n] = added[name]
        self._died[self.n : n] = _NEVER
        self.n = n

    def snapshot(self) -> TableSnapshot:
        """The answers as they are now."""
        return TableSnapshot(self._columns, self._died, self.n, self._version)


def _grown(column: NDArray[Any], n: int, room: int) -> NDArray[Any]:
    out = np.empty(room, dtype=column.dtype)
    out[:n] = column[:n]
    return out


def signed_wins(
    columns: ColumnArrays, sign: float
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
    """Rater, winner, loser and signed weight of answers; a tie is half a win each way."""
    outcome, left, right = columns["outcome"], columns["left"], columns["right"]
    tied = outcome >= TIE
    first = outcome != RIGHT
    winner, loser = np.where(first, left, right), np.where(first, right, left)
    weight = sign * np.where(tied, 0.5, 1.0) * columns["weight"]
    return (
        np.concatenate((columns["rater"], columns["rater"][tied])),
        np.concatenate((winner, right[tied])),
        np.concatenate((loser, left[tied])),
        np.concatenate((weight, weight[tied])),
    )
