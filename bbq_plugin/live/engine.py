"""The engine: a store, its answers in memory, and a fit that follows them.

It also knows when new answers may change the number of camps, and tells it when they did.
"""

from __future__ import annotations

import math
import os
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self
from uuid import uuid4

import msgspec
import numpy as np

from bbq_plugin.analysis import Analysis, Limits
from bbq_plugin.analysis.agreement import panel_division
from bbq_plugin.config import ReadSettings
from bbq_plugin.data.clusters import checked_cluster
from bbq_plugin.data.dataset import (
    RIGHT,
    TIE,
    Comparisons,
    RaterCodes,
    RawCodes,
    checked_weight,
    coded,
)
from bbq_plugin.data.records import Comparison, covariate_tags
from bbq_plugin.data.repeated_answers import checked_repeats
from bbq_plugin.data.triples import aggregate
from bbq_plugin.errors import DataError, fit_failures
from bbq_plugin.live.file_ingest import Ingest, Offer, Outcome
from bbq_plugin.model import Priors, fit
from bbq_plugin.model.camps import Surprise, divisible, screen
from bbq_plugin.model.fit import (
    Fit,
    allowed_priors,
    check_choices,
    check_priors,
    check_together,
    checked_camps,
    follow_camps,
    optimum_at,
    warnings_of,
)
from bbq_plugin.model.prior_estimation import Population
from bbq_plugin.model.streaming import Streaming
from bbq_plugin.model.ties import checked_ties, wins_of
from bbq_plugin.report.summary import division_sentences
from bbq_plugin.store import Store
from bbq_plugin.store.coded_columns import VersionedColumns
from bbq_plugin.store.database_file import faults_explained
from bbq_plugin.store.store import comparisons_of, read_store
from bbq_plugin.store.studies import MAIN
from bbq_plugin.store.transaction import checked_key
from bbq_plugin.text import brief

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from bbq_plugin.data.repeated_answers import Treatment
    from bbq_plugin.data.triples import Floats
    from bbq_plugin.live.table_ingest import TableOffer
    from bbq_plugin.model import Fit
    from bbq_plugin.model.camps import Axis
    from bbq_plugin.model.fit import Model
    from bbq_plugin.model.ties import Ties, TiesUsed
    from bbq_plugin.store import Change, SourceEntry
    from bbq_plugin.store.coded_columns import (
        Codebook,
        ColumnArrays,
        ColumnsSnapshot,
        StoredTags,
    )
    from bbq_plugin.store.store import Unusable


@dataclass(frozen=True, slots=True)
class CampChange:
    """Another number of camps than before; ``before`` is None where there was no fit before."""

    before: int | None
    now: int
    text: str


def camp_change(before: int | None, fit: Fit) -> CampChange | None:
    """What changed from so many camps to those of a fit; nothing to tell of a first single one."""
    now = len(fit.camps)
    if now == (before or 1):
        return None
    return CampChange(before, now, panel_text(fit) or "The panel is no longer divided.")


def panel_text(fit: Fit) -> str:
    """That the panel of a fit is divided, and by what; empty if it is not."""
    if fit.division is None:
        return ""
    return " ".join("".join(told) for told in division_sentences(panel_division(fit)))


Refresh = Literal["incremental", "full"]

# Priors are estimated again when the answers have become so many more (or fewer).
_GROWTH = 1.1

# What the changes of can be followed.
_FOLLOWED = ("bbq", "bayes-bt")


class Engine:
    """Takes answers in, durably, and keeps a fit of them.

    `path` is the store (":memory:" keeps nothing), or one that is open: several studies share it.
    `study` names the answers that are fitted together, one of several in the store. `model`,
    `priors`, `camps`, `cluster`, `repeats`, `ties` and `tol` are those of `bbq.fit`; `reading` says
    how files are read. All methods may be called from any thread.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | Store = ":memory:",
        *,
        study: str | None = None,
        model: Model = "bbq",
        priors: Priors | Literal["paper", "auto"] = "auto",
        camps: int | Literal["auto"] = "auto",
        cluster: str | Sequence[str] = "auto",
        repeats: Treatment = "keep",
        ties: Ties = "auto",
        covariates: Sequence[str] = (),
        tol: float = 1e-6,
        reading: ReadSettings = ReadSettings(),  # noqa: B008 (a frozen value)
        clock: Callable[[], float] = time.time,
    ) -> None:
        check_choices(model, "auto", tol)
        priors = allowed_priors(model, "auto", priors)
        check_priors(model, priors)
        check_together(
            model=model, solver="auto", priors=priors, camps=checked_camps(camps),
            ties=checked_ties(ties), has_raters=None, covariates=covariates,
        )  # fmt: skip
        self.model: Model = model
        self.priors = Priors() if priors == "paper" else priors
        self.camps = checked_camps(camps)
        self.cluster, self.repeats = checked_cluster(cluster), checked_repeats(repeats)
        self.ties = ties
        #: What `held_equal` holds equal; the fit that follows answers does not.
        self.covariates = tuple(covariates)
        self.tol = tol
        self._mutex = threading.RLock()
        self._owns_store = not isinstance(path, Store)
        self.store = path if isinstance(path, Store) else Store(path, clock=clock)
        try:
            #: The number of the study in the store.
            self.study = MAIN if study is None else self.store.study(study)
            self._tags = self.store.tags(self.cluster)
            self._ingest = Ingest(self.store, reading, self.study)
            self._columns = VersionedColumns(self.store.load(self.study))
            self._saved = self._last_fit()
        except BaseException:
            self._let_go()
            raise
        self._counts = ItemCounts(self._columns.snapshot().alive())
        #: What cannot be followed (other models, no item priors, answers that are to be merged) is
        #: fitted from the start each time.
        flat = isinstance(self.priors, Priors) and self.priors.flat_items
        self._follows = model in _FOLLOWED and not flat and repeats == "keep"
        #: Whether camps are looked for, and whether priors or camps again as the answers grow.
        self._looks = model == "bbq" and camps != 1
        self._examines = priors == "auto" or self._looks
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
        #: How well the answers since then fit; None before, or where nothing is looked for again.
        self._surprise: Surprise | None = None

    def sibling(self, study: str) -> Engine:
        """An engine of another study of the same store, with the same settings."""
        return Engine(
            self.store, study=study, model=self.model, priors=self.priors, camps=self.camps,
            cluster=self.cluster, repeats=self.repeats, ties=self.ties,
            covariates=self.covariates, tol=self.tol, reading=self.reading, clock=self.store.clock,
        )  # fmt: skip

    def _last_fit(self) -> LastFit | None:
        found = self.store.saved_fit(self.study)
        if found is None:
            return None
        with faults_explained(self.store.path):
            last = last_fit(found[1])
        return last if last.fits(self.model, self.priors) else None

    def close(self) -> None:
        """Keep the last fit for the next start, and close the store."""
        with self._mutex:
            try:
                if self._unsaved:
                    self._save("incremental")
            finally:
                self._let_go()

    def _let_go(self) -> None:
        if self._owns_store:
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
            change, tally = self.store.add(map(checked_answer, comparisons), study=self.study)
            self._take(change)
        return tally.n_new + tally.n_changed

    def retract(self, keys: str | Iterable[str]) -> int:
        """Take answers back by their keys (or that of their ranking); how many went."""
        with self.writing():
            wanted = (keys,) if isinstance(keys, str) else keys
            change, _ = self.store.retract(wanted, self.study)
            self._take(change)
        return int(change.removed.size)

    def ingest(self, offers: Iterable[Offer | TableOffer]) -> list[Outcome]:
        """Read files or rows: one transaction for all, in which a bad file spoils only itself."""
        with self.writing():
            with self.store.transaction() as transaction:
                outcomes = [
                    self._ingest(transaction, offer)
                    if isinstance(offer, Offer)
                    else offer(self._ingest, transaction)
                    for offer in offers
                ]
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

        What it says of other studies is passed over.
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
            self._columns = VersionedColumns(self.store.load(self.study))
            self._counts = ItemCounts(self._columns.snapshot().alive())
            self._streaming, self._pending = None, []
            self._dirty = True
            self._followed_id = now
        self._in_doubt = False

    def _take(self, whole: Change) -> None:
        change = whole.of(self.study)
        if not change:
            # Of another study, if of any.
            self._followed_id = max(self._followed_id, whole.last_id)
            return
        self._dirty = True
        added, gone = self._columns.apply(change)
        before = self._counts.rated, self._ties_used
        self._counts.add(added, 1)
        self._counts.add(gone, -1)
        if (self._counts.rated, self._ties_used) != before:
            # Answers without a rater count only as long as there are no others; ties likewise.
            self._streaming = None
        self._pending += [(added, 1.0), (gone, -1.0)]
        # Last, so that whatever cuts this off shows.
        self._followed_id = change.last_id

    @property
    def n_comparisons(self) -> int:
        """How many answers the study has that can be fitted; at once, also during a refresh."""
        return self._counts.n

    @property
    def changed(self) -> bool:
        """Whether answers came or went since the last refresh."""
        return self._dirty or self._in_doubt or self._fit is None

    @property
    def outgrown(self) -> bool:
        """Whether priors and camps are due: so many answers came or went, or they fit worse."""
        with self._mutex:
            return self._counts.n > 0 and self._outgrown()

    # -- the fit

    def refresh(self, *, full: bool = False, hold_priors: bool = False) -> Refresh:
        """Follow what came since the last time; whether by an incremental step or full passes.

        `full` goes on until the optimum is certified to `tol`, as in a cold `bbq.fit`, and
        estimates the priors if they are to be estimated. Else they are estimated when they
        are `outgrown`; with `hold_priors` that waits for a later refresh, if it can. A refresh
        that fails leaves the last fit, and the next one starts again from all answers.
        """
        with self._mutex:
            self._catch_up()
            if not self._counts.n:
                raise DataError("there are no comparisons yet; add some first")
            # Whatever ends this early: what was handed over once is not handed over again.
            pending, self._pending = self._pending, []
            streaming, self._streaming = self._streaming, None
            how: Refresh = "full"
            with fit_failures():
                self._compare(pending)
                if not self._follows:
                    self._fit = self._cold()
                elif self._estimates(full=full, hold=hold_priors):
                    self._start(cold=full or self._worse)
                elif self._fit is not None and self._fit.division is not None:
                    self._fit, how = follow_camps(self.data, self._fit, self.tol), "incremental"
                elif streaming is None:
                    self._start(cold=full)
                else:
                    how = self._follow(streaming, pending, full=full)
            self._dirty = False
            self._unsaved = how != "full"
            if how == "full":
                self._save(how)
        return how

    def _estimates(self, *, full: bool, hold: bool) -> bool:
        return (full and self._examines) or (not hold and self._outgrown())

    def _outgrown(self) -> bool:
        n, then = self._counts.n, self._estimated_at
        grown = not then / _GROWTH <= n <= then * _GROWTH
        return self._examines and (grown or self._worse)

    @property
    def _worse(self) -> bool:
        return self._surprise is not None and self._surprise.worse

    def _compare(self, pending: list[tuple[ColumnArrays, float]]) -> None:
        """Hold answers that came against the fit by which camps were last examined."""
        if self._surprise is None or not self._counts.rated:
            return
        raters, items = self.store.names.raters.names, self.store.names.items.names
        for columns, sign in pending:
            if sign > 0:
                wins = signed_wins(self._counts.counted(columns), sign, self._ties_used)
                who, won, lost = (column.tolist() for column in wins[:3])
                self._surprise.take(
                    [raters[r] for r in who], [items[i] for i in won], [items[i] for i in lost],
                    wins[3],
                )  # fmt: skip

    def _cold(self) -> Fit:
        data, camps = self.data, self.camps
        several = camps not in ("auto", 1)
        if several and not (data.has_raters and divisible(wins_of(data, self._ties_used))):
            # A study begins with few raters: it is divided as soon as it can be.
            camps = 1
        found = fit(
            data, self.model, self.priors, camps, tol=self.tol, cluster=self.cluster,
            repeats=self.repeats, ties=self.ties,
        )  # fmt: skip
        if several and camps == 1:
            waits = f"camps={self.camps} waits for more raters: so far all are in one camp"
            found = replace(found, warnings=(*found.warnings, waits))
        return found

    @property
    def _ties_used(self) -> TiesUsed:
        """As in `ties_used`, of the answers at hand."""
        able = self.model == "bbq" and self._counts.rated and self.ties != "half"
        return "model" if able and self._counts.n > self._counts.n_tied else "half"

    def _follow(
        self, streaming: Streaming, pending: list[tuple[ColumnArrays, float]], *, full: bool
    ) -> Refresh:
        for columns, sign in pending:
            wins = signed_wins(self._counts.counted(columns), sign, self._ties_used)
            streaming.change(*wins)
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
        priors = Priors() if self.priors == "auto" else self.priors
        if self._examines:
            then = 0 if last is None or last.n_camps > 1 else last.estimated_at
            if last is None or not then / _GROWTH <= self._counts.n <= then * _GROWTH:
                self._start_examined()
                return
            self._estimated_at, priors = then, last.given()
            self._population = last.estimate(), tuple(last.theta)
        theta = None
        names = self.store.names.items.names
        if last is not None:
            level = np.log((priors.a - 1) / priors.b) if priors.a > 1 else 0.0
            theta = last.theta_of(names, float(level))
        self._certify(self._streaming_from(priors, theta))

    def _start_examined(self) -> None:
        """Priors, camps and all from the answers alone, as in a cold fit."""
        found = self._cold()
        self._fit, self._estimated_at = found, self._counts.n
        self._surprise = Surprise(found) if self._looks and found.rated else None
        self._population = found.population, found.items
        if found.division is not None or not isinstance(found.priors, Priors):
            # Several camps are followed from the fit itself.
            return
        names = self.store.names.items.names
        theta = np.full(len(names), float(np.mean(found.theta)))
        theta[self._counts.items()] = found.theta
        self._streaming = self._streaming_from(found.priors, theta)

    def _streaming_from(self, priors: Priors, theta: Floats | None) -> Streaming:
        names = self.store.names
        columns = self._counts.counted(self._columns.snapshot().alive())
        rater, winner, loser, weight = signed_wins(columns, 1.0, self._ties_used)
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
            looks=self._looks,
            model=self.model,
            priors=streaming.priors,
            theta=streaming.theta[used],
            error=error,
            converged=certified,
            cluster=self.cluster,
            ties=self._ties_used,
            population=aligned(self._population[0], items, self._population[1]),
        )

    def _save(self, how: Refresh) -> None:
        """Keep the fit for `bbq status` and for the next start."""
        if self._fit is None or not isinstance(self._fit.priors, Priors):
            return
        n, raters = self._counts.n, self.store.counts().n_raters
        data = packed(self._fit, how, n, raters, self._estimated_at)
        self.store.save_fit(data, self.study)
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
        before = self.store.excluded(self.study)
        words = self.store.lead_words()
        return Analysis(self.fit, limits, before, words=words, at=self.store.clock())

    def held_equal(self, limits: Limits = Limits()) -> Analysis:  # noqa: B008
        """With the covariates held equal: a fit of all answers, as `bbq fit --store` makes."""
        names = {one.id: one.name for one in self.store.studies()}
        kept = () if self.cluster in (("auto",), ("none",)) else self.cluster
        data = read_store(
            self.store.path, tags=(*kept, *covariate_tags(self.covariates)), study=names[self.study]
        )
        found = fit(
            data, self.model, priors=self.priors, ties=self.ties, cluster=self.cluster,
            camps=self.camps, repeats=self.repeats, tol=self.tol, covariates=self.covariates,
        )  # fmt: skip
        plain = self.analysis(limits)
        return Analysis(found, limits, plain.previously_excluded, words=plain.words, at=plain.at)

    def keep_verdicts(self, analysis: Analysis) -> None:
        """Remember whom an analysis excludes, if it has verdicts by now."""
        if analysis.judged:
            self.store.keep_excluded(analysis.raters.excluded_by_model, self.study)

    @property
    def data(self) -> Comparisons:
        """All answers, as `bbq.read` would have given them."""
        with self._mutex:
            self._catch_up()
            return self._snapshot().comparisons()

    def answer_times(self) -> Floats:
        """When the answers that count were given, in seconds since 1970; NaN: it is not known."""
        with self._mutex:
            self._catch_up()
            columns, rated = self._columns.snapshot(), self._counts.rated
        alive = columns.alive()
        return alive["at"][alive["rater"] >= 0] if rated else alive["at"]

    def data_until(self, at: float) -> Comparisons:
        """The answers that had been given by a moment, of those of now."""
        with self._mutex:
            self._catch_up()
            found = self._snapshot()
        alive = found.columns.alive()
        given = alive["at"] <= at
        then = {name: column[given] for name, column in alive.items()}
        names = found.names
        return comparisons_of(then, names.items.names, names.raters.names)

    def left_out(self) -> Unusable:
        """What is to be said of answers of an older store that no fit can use."""
        with self._mutex:
            return self.store.left_out(sorted(self._columns.left_out))

    def _snapshot(self) -> AnswerSnapshot:
        store = self.store
        return AnswerSnapshot(
            self._columns.snapshot(), store.names, tuple(store.ledger(self.study)), self.left_out(),
            self._tags,
        )  # fmt: skip


class StudyEngines:
    """The engines of all studies of a store; what is written reaches each that it concerns."""

    def __init__(self, first: Engine) -> None:
        """`first` is the caller's; the others are made, and closed, here."""
        self.first, self.store = first, first.store
        self._all = {first.study: first}
        for study in self.store.studies():
            if study.n_comparisons:
                self._add(study.id, study.name)

    def _add(self, study: int, name: str) -> None:
        if study not in self._all:
            # A new dictionary: others may be going through the old one.
            self._all = {**self._all, study: self.first.sibling(name)}

    def __iter__(self) -> Iterator[Engine]:
        return iter(self._all.values())

    def __getitem__(self, study: int) -> Engine:
        return self._all[study]

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Inside, the caller alone changes the store and the engines."""
        with ExitStack() as stack:
            for engine in self:
                stack.enter_context(engine.writing())
            yield

    def apply(self, change: Change) -> None:
        """Follow a change; a study that begins with it gets an engine."""
        for engine in self:
            engine.apply(change)
        names = {one.id: one.name for one in self.store.studies()} if change else {}
        for study in sorted(change.growth()):
            self._add(study, names[study])

    def close(self) -> None:
        """Keep the last fit of each but the first."""
        for engine in self:
            if engine is not self.first:
                engine.close()


def _keyed(data: Comparisons) -> Iterator[Comparison]:
    """Rows that have no keys: the same set of rows, added again, is the same answers."""
    name = data.digest[:16]
    half = None if data.answers is None else data.answers.half
    half = np.zeros(data.weight.size, dtype=np.int8) if half is None else half
    columns = data.rater, data.winner, data.loser, data.weight, half
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for i, (rater, winner, loser, weight, part) in enumerate(rows):
        if part == 2:
            # The other half of a tie stands for all of it.
            continue
        who = data.raters[rater] if data.has_raters else None
        key, items = f"{name}:{i}", (data.items[winner], data.items[loser])
        if part:
            yield Comparison(key, who, *items, "tie", 2.0 * weight, key)
        else:
            yield Comparison(key, who, *items, "left", weight, key)


# -- answers that a program gives: checked while the caller can still correct them


def checked_answer(answer: object) -> Comparison:
    """The same answer, or an error that says what cannot be stored of it."""
    if not isinstance(answer, Comparison):
        raise DataError(f"is {answer!r}; expected a Comparison")
    key_text(answer.key)
    try:
        checked_weight(answer.weight)
        if answer.slate is not None:
            key_text(answer.slate, "slate")
        for what in ("at", "version", "time_s"):
            value = getattr(answer, what)
            if value is not None:
                seconds(value, what, least=0.0 if what == "time_s" else -math.inf)
        if answer.tags is not None:
            tag_texts(answer.tags)
    except DataError as error:
        raise DataError(f"answer {brief(answer.key)}: {error}") from None
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
    if answer.rater is None:
        raise DataError(
            "rater is None; a vote names its rater, by an identifier of your own if need be "
            "(Engine.add takes answers of which no rater is known)"
        )
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
    #: How many answers there were when priors and camps were looked for.
    estimated_at: int = 0
    n_camps: int = 1
    #: What is said of a divided panel.
    panel: str = ""

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
    last = LastFit(
        fit.model, how, n_comparisons, n_raters, priors, theta, population, estimated_at,
        len(fit.camp_theta), panel_text(fit),
    )  # fmt: skip
    return msgspec.json.encode(last)


def last_fit(data: bytes) -> LastFit:
    """A fit from these bytes."""
    return msgspec.json.decode(data, type=LastFit)


@dataclass(frozen=True, eq=False, slots=True)
class AnswerSnapshot:
    """All answers as they were at one moment, and the names in them."""

    columns: ColumnsSnapshot
    names: Codebook
    entries: tuple[SourceEntry, ...]
    left_out: Unusable
    tags: StoredTags

    def comparisons(self) -> Comparisons:
        """The same as a data set."""
        # Names are only ever added, so those of now hold those of then.
        items, raters, alive = self.names.items.names, self.names.raters.names, self.columns.alive()
        tags = self.tags.of(alive["id"])
        values = self.tags.values() if tags else {}
        return comparisons_of(alive, items, raters, self.entries, self.left_out, tags, values)


class LiveFit(Fit):
    """A `Fit` like any other; its data, qualities and trace are made when first used."""

    _answers: AnswerSnapshot
    _items: tuple[str, ...]
    _looks: bool

    def __init__(
        self, answers: AnswerSnapshot, items: tuple[str, ...], *, looks: bool, **known: Any
    ) -> None:
        # Not the dataclass's own: that would want now what is made later.
        self.__dict__.update(known, solver="auto", _answers=answers, _items=items, _looks=looks)

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
    def axis(self) -> Axis | None:
        """Along which the raters differ most; None where one camp was asked for."""
        return screen(self.triples) if self._looks and self.rated else None

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
        self._n, self._tied = [0, 0], [0, 0]
        self._items: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64) for _ in range(2)]
        self.add(columns, 1)

    def add(self, columns: ColumnArrays, sign: int) -> None:
        """Answers that came (1) or went (-1)."""
        rated = columns["rater"] >= 0
        for kind, mine in enumerate((~rated, rated)):
            both = np.concatenate((columns["left"][mine], columns["right"][mine]))
            self._n[kind] += sign * (both.size // 2)
            self._tied[kind] += sign * int(np.count_nonzero(columns["outcome"][mine] >= TIE))
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

    @property
    def n_tied(self) -> int:
        """How many of them are ties."""
        return self._tied[self.rated]

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


def signed_wins(
    columns: ColumnArrays, sign: float, ties: TiesUsed = "half"
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
    """Rater, winner, loser and signed weight of answers; a tie is half a win each way, or none."""
    if ties == "model":
        decided = columns["outcome"] < TIE
        columns = {name: column[decided] for name, column in columns.items()}
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
