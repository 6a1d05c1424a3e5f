"""A fit of a prepared set, part by part: the model's own passes, with an engine to map them.

A part is read where it is computed. What comes back are sums over its raters; what belongs to a
single rater is written there as Parquet, and read when it is asked for.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from bbq_plugin.data.clusters import RATER
from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.data.records import is_subject
from bbq_plugin.data.repeated_answers import Repeats
from bbq_plugin.data.triples import Codes, Floats, Triples
from bbq_plugin.errors import FormatError, UnsupportedError, UsageError
from bbq_plugin.model.camps import Division, members_of
from bbq_plugin.model.fit import Camp, Fit, fit, optimum_at
from bbq_plugin.model.objectives import Form, Part, Parts, Resample, Summed
from bbq_plugin.model.priors import Priors
from bbq_plugin.model.robust import (
    LARGE,
    Moments,
    Robust,
    Way,
    of_large,
    own_covariance,
    rater_clusters,
    raters_of,
    sandwich,
    unclustered,
)
from bbq_plugin.model.solvers import Laplace, solve_newton
from bbq_plugin.model.ties import TiesUsed, rates_under, same_counts, tie_counts, tie_population
from bbq_plugin.model.win_share import PanelSums
from bbq_plugin.scale.engines import LocalEngine
from bbq_plugin.scale.prepared_set import PreparedSet, open_dataset, read_table

if TYPE_CHECKING:
    from bbq_plugin.model.prior_estimation import Population
    from bbq_plugin.scale.engines import MapEngine

T = TypeVar("T")
#: Wins of parts that a process keeps between passes.
CACHE_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class PartRef:
    """A part by where it is; a worker reads it."""

    path: str
    digest: str
    part: int
    #: The place of its first rater among all.
    first: int

    def opened(self) -> PreparedSet:
        """The set, as it was when the fit began."""
        found = _opened(self.path, self.digest)
        if found.digest != self.digest:
            raise FormatError(
                "the set is another one where this part is computed, or was changed meanwhile",
                self.path, remedy="wait until bbq prepare is done, and fit again",
            )  # fmt: skip
        return found


@lru_cache(maxsize=4)
def _opened(path: str, digest: str) -> PreparedSet:
    del digest  # a changed set is another entry
    return open_dataset(path)


class _Kept:
    """The wins of the parts read last, within CACHE_BYTES."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int, bool, bool], Triples] = {}

    def triples(self, ref: PartRef, *, decided: bool, once: bool) -> Triples:
        key = ref.digest, ref.part, decided, once
        known = self._found.pop(key, None)
        if known is None:
            known = ref.opened().triples_of(ref.part, decided=decided, once=once)
        self._found[key] = known
        while len(self._found) > 1 and sum(map(_bytes, self._found.values())) > CACHE_BYTES:
            del self._found[next(iter(self._found))]
        return known


def _bytes(t: Triples) -> int:
    return t.start.nbytes + t.winner.nbytes + t.loser.nbytes + t.weight.nbytes


_KEPT = _Kept()


def on_part(
    ref: PartRef, which: tuple[bool, bool], work: Callable[..., T], args: tuple[Any, ...]
) -> T:
    """Read a part and work on it; ``which``: decided, and once, as `PreparedParts` has them."""
    source, (decided, once) = ref.opened(), which
    triples, empty = (
        _KEPT.triples(ref, decided=decided, once=once),
        not source.n_raters_of(ref.part),
    )
    return work(Part(triples, ref.first, empty, lambda: source.raters_of(ref.part)), *args)


def _unequal(ref: PartRef) -> bool:
    """Whether a part has weights above 1 that are no counts, as `Comparisons.once` asks."""
    weight = (ref.opened().rows_of(ref.part) or {"weight": np.ones(1)})["weight"]
    return bool(np.any((weight > 1.0) & (weight != np.floor(weight))))


class PassJournal:
    """Sums of finished passes on disk, so that a run that was cut off begins from the last one.

    A pass is a function of the set and its arguments alone. Only arrays of numbers are written.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def result(self, name: str, work: Callable[[], Any]) -> Any:
        """What was found before under this name, or what is found now."""
        file = None if self.folder is None else self.folder / f"{name}.npz"
        if file is not None and file.is_file():
            with np.load(file, allow_pickle=False) as found:
                return tuple(found[key][()] for key in found.files)
        total = work()
        if file is not None:
            with suppress(OSError):
                file.parent.mkdir(exist_ok=True)
                fresh = file.with_suffix(".new.npz")
                np.savez(fresh, *total)
                fresh.replace(file)
        return total

    def forget(self) -> None:
        """The fit is done."""
        if self.folder is not None and self.folder.is_dir():
            for file in self.folder.glob("*.npz"):
                file.unlink(missing_ok=True)
            with suppress(OSError):
                self.folder.rmdir()


def passes_of(data: PreparedSet) -> PassJournal:
    """The finished passes over a set, kept beside its votes."""
    return PassJournal(Path(data.path, ".passes") if "://" not in data.path else None)


class PreparedParts(Parts):
    """The wins of a prepared set; ``decided``: without ties, ``once``: as `Comparisons.once`."""

    def __init__(
        self, data: PreparedSet, engine: MapEngine, *, decided: bool, once: bool = False
    ) -> None:
        self.n_items, self.n_raters = len(data.items), data.n_raters
        self.engine, self.which = engine, (decided, once)
        self.refs = part_refs(data)
        self.journal = passes_of(data)
        (size,) = self.summed(_size)
        self.size = int(size)

    def each(self, work: Callable[..., T], *args: Any) -> list[T]:
        """``work(part, *args)`` of every part."""
        return self.engine.map(on_part, self.refs, self.which, work, args)

    def summed(self, work: Callable[..., T], *args: Any) -> T:
        """The sum over all parts."""
        return cast(
            "T",
            self.journal.result(
                self._name(work, args),
                lambda: self.engine.sum(on_part, self.refs, self.which, work, args),
            ),
        )

    def _name(self, work: Callable[..., Any], args: tuple[Any, ...]) -> str:
        told = pickle.dumps((self.refs[0].digest, self.which, work.__qualname__, args))
        return hashlib.sha256(told).hexdigest()


def _size(part: Part) -> tuple[int]:
    return (part.triples.size,)


def part_refs(data: PreparedSet) -> list[PartRef]:
    """All parts of a set."""
    first = np.cumsum([0, *map(data.n_raters_of, range(data.n_parts))]).tolist()
    return [
        PartRef(data.address, data.digest, part, at)
        for part, at in zip(range(data.n_parts), first, strict=False)
    ]


class PartedComparisons(Comparisons):
    """The head of a prepared set: names and counts are here, the answers are in its parts."""

    source: PreparedSet
    engine: MapEngine
    _capped = False

    @classmethod
    def of(cls, source: PreparedSet, engine: MapEngine) -> PartedComparisons:
        """Nothing is read but the names of items."""
        none = np.empty(0, dtype=np.int32)
        batches = source.manifest.batches
        reasons: dict[str, int] = {}
        for batch in batches:
            for why, n in batch.skipped.items():
                reasons[why] = reasons.get(why, 0) + n
        found = cls(
            rater=none, winner=none, loser=none, weight=np.empty(0), items=source.items, raters=(),
            has_raters=source.has_raters, n_comparisons=source.n_comparisons,
            n_ties=sum(b.n_ties * (-1 if b.retracts else 1) for b in batches),
            skip_reasons=reasons, sources=source.sources, warnings=source.warnings,
        )  # fmt: skip
        del found.__dict__["raters"]
        found.__dict__.update(source=source, engine=engine)
        return found

    @cached_property
    def raters(self) -> tuple[str, ...]:
        """The names of all raters, read when they are asked for."""
        return self.source.all_raters()

    @property
    def n_raters(self) -> int:
        """How many raters there are."""
        return self.source.n_raters

    @cached_property
    def triples(self) -> Any:
        """The wins, ties included, in parts."""
        return PreparedParts(self.source, self.engine, decided=False, once=self._capped)

    @cached_property
    def decided(self) -> Any:
        """The same without ties."""
        if not self.n_ties:
            return self.triples
        return PreparedParts(self.source, self.engine, decided=True, once=self._capped)

    @cached_property
    def once(self) -> PartedComparisons:
        """The same with no answer counting more than once."""
        if not any(self.engine.map(_unequal, part_refs(self.source))):
            return self
        found = self.of(self.source, self.engine)
        found.__dict__["_capped"] = True
        return found

    @cached_property
    def repeats(self) -> Repeats:
        """None are known: a prepared set keeps no identifiers."""
        return Repeats(np.empty(0, np.int64), 0, 0, 0, np.empty(0, np.int64))

    @cached_property
    def digest(self) -> str:
        """Of the set's manifest, which has the digests of its files."""
        return self.source.digest


@dataclass(frozen=True, slots=True, eq=False)
class FitHead:
    """What a part has to know of the fit of all raters."""

    priors: Priors
    theta: Floats
    population: Population | None
    laplace: Laplace
    ties: TiesUsed
    #: (a, b) of the tie rates; None where no answer is a tie.
    tie_shape: tuple[float, float] | None
    cluster: tuple[str, ...]
    #: The camps; None: one.
    division: Division | None

    def fit_of(self, ref: PartRef) -> Fit:
        """The fit as the raters of one part see it."""
        data = ref.opened().part(ref.part)
        found = Fit(
            data=data, model="bbq", solver="auto", priors=self.priors, theta=self.theta,
            quality=np.empty(0), trace=np.zeros(1), error=0.0, converged=True, warnings=(),
            population=self.population, cluster=self.cluster, ties=self.ties,
        )  # fmt: skip
        if self.ties == "model":
            # As the whole has it, whether or not this part has a tie.
            found.__dict__["wins"] = data.decided
        rates: Floats = np.zeros(data.n_raters)
        if self.tie_shape is not None:
            rates = rates_under(self.tie_shape, *tie_counts(data))
        found.__dict__.update(laplace=self.laplace, tie_rate=rates)
        return self._with_raters(found)

    def _with_raters(self, found: Fit) -> Fit:
        """The same with the quality of each rater at its theta, and the camps of each."""
        own, division = found, self.division
        if division is None:
            quality, _ = optimum_at(own, own.theta)
        else:
            part = Part(own.triples, 0)
            belongs, quality = members_of(part, self.priors, division.theta, division.share)
            division = replace(division, membership=belongs, quality=quality)
        complete = replace(own, quality=quality, division=division)
        for name in ("laplace", "tie_rate", "wins"):
            if name in own.__dict__:
                complete.__dict__[name] = own.__dict__[name]
        return complete


def _tie_counts(ref: PartRef) -> tuple[Floats, Floats, Floats]:
    return same_counts(*tie_counts(ref.opened().part(ref.part)))


def _rater_sums(ref: PartRef, head: FitHead) -> tuple[Any, ...]:
    """What win shares and intervals need of a part's raters."""
    found = head.fit_of(ref)
    if not found.data.n_raters:
        return ()
    return (found.panel, *rater_clusters(found))


def _large_raters(
    ref: PartRef, head: FitHead, own: Floats, votes: float, n: int
) -> tuple[Any, ...]:
    found = head.fit_of(ref)
    if not found.data.n_raters:
        return ()
    return (of_large(found, raters_of(found), own, votes, n),)


def _quality(found: Fit, first: int) -> Floats:
    del first
    return found.quality


def _on_fit(ref: PartRef, head: FitHead, work: Callable[..., T], args: tuple[Any, ...]) -> T:
    return work(head.fit_of(ref), ref.first, *args)


def _membership(found: Fit, first: int) -> Floats:
    del first
    return found.membership[: found.data.n_raters]


def _member_counts(found: Fit, first: int) -> Codes:
    del first
    if not found.data.n_raters:
        return np.zeros(len(found.camp_theta), np.int64)
    return found.member_counts


class _Belongs(Mapping[str, float]):
    """Who belongs to a camp; names and probabilities are read when they are asked for."""

    def __init__(self, found: PartedFit, camp: int) -> None:
        self._fit, self._camp = found, camp

    @cached_property
    def _by_name(self) -> dict[str, float]:
        told = self._fit.membership[:, self._camp].tolist()
        return dict(zip(self._fit.data.raters, told, strict=True))

    def __getitem__(self, name: str) -> float:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fit.data.raters)

    def __len__(self) -> int:
        return self._fit.data.n_raters


class PartedFit(Fit):
    """A fit of a prepared set. ``quality`` and all else about single raters is read when asked."""

    data: PartedComparisons

    @classmethod
    def of(cls, found: Fit) -> PartedFit:
        """The fit that was found over parts."""
        whole = cls(**{field.name: getattr(found, field.name) for field in fields(Fit)})
        # Not known here: the parts have it.
        del whole.__dict__["quality"]
        return whole

    def complete(self) -> None:
        """Compute what needs all raters; what is asked for later is computed in this process."""
        _ = self.robust
        _ = self.panel
        _ = self.data.pooled
        self.data.__dict__["engine"] = LocalEngine()
        for parts in (self.data.triples, self.data.decided):
            parts.engine = self.data.engine

    def forget_passes(self) -> None:
        """The fit is done: what follows is not kept on disk."""
        for name in ("triples", "decided"):
            if name in self.data.__dict__:
                parts = self.data.__dict__[name]
                parts.journal.forget()
                parts.journal = PassJournal(None)

    @cached_property
    def quality(self) -> Floats:
        """Of each rater, computed where the parts are."""
        return np.concatenate(self.by_parts(_quality))

    @property
    def in_parts(self) -> bool:
        """Single raters are known where their part is."""
        return True

    def by_parts(self, work: Callable[..., T], *args: Any) -> list[T]:
        """``work(fit, first, *args)`` of every part: the fit of its raters, the first of whom."""
        return self.data.engine.map(_on_fit, part_refs(self.data.source), self.head, work, args)

    @cached_property
    def results(self) -> str:
        """Where the parts write what they know of their raters: beside the votes."""
        told = hashlib.sha256(self.data.digest.encode() + self.theta.tobytes())
        return f"{self.data.source.address}/results-{told.hexdigest()[:12]}"

    def read_result(self, name: str) -> Any:
        """An Arrow table that a part wrote."""
        folder, _, last = self.results.rpartition("/")
        return read_table(folder, f"{last}/{name}")

    @cached_property
    def membership(self) -> Floats:
        """P(rater belongs to a camp), raters x camps, computed where the parts are."""
        if self.division is None:
            return np.ones((self.data.n_raters, 1))
        return np.concatenate(self.by_parts(_membership))

    @cached_property
    def member_counts(self) -> Codes:
        """How many raters most probably belong to each camp."""
        if self.division is None:
            return np.array([self.data.n_raters])
        return np.asarray(np.sum(self.by_parts(_member_counts), axis=0))

    @cached_property
    def camps(self) -> tuple[Camp, ...]:
        """One or more, the largest first."""
        told = zip(self.camp_sizes.tolist(), self.camp_theta, strict=True)
        return tuple(Camp(share, theta, _Belongs(self, c)) for c, (share, theta) in enumerate(told))

    @cached_property
    def head(self) -> FitHead:
        """What goes out to the parts."""
        shape = None
        if self.ties == "model" and self.data.n_ties:
            counts = self.data.engine.map(_tie_counts, part_refs(self.data.source))
            tied, n, times = (np.concatenate(column) for column in zip(*counts, strict=True))
            shape = tie_population(*same_counts(tied, n, times))
        return FitHead(
            self.given_priors(), self.theta, self.population, self.laplace, self.ties, shape,
            self.cluster, self.division,
        )  # fmt: skip

    @cached_property
    def _sums(self) -> tuple[Any, ...]:
        return self.data.engine.sum(_rater_sums, part_refs(self.data.source), self.head)

    @cached_property
    def panel(self) -> PanelSums:
        """What the win shares need of all raters, in sums."""
        return cast("PanelSums", self._sums[0])

    @cached_property
    def robust(self) -> Robust:
        """The covariance that is robust to clusters by rater."""
        if self.cluster == ("none",) or self.data.n_raters < 2:
            return unclustered(self)
        _, inner, n, votes, squared = self._sums
        way, own, more = Way(RATER, n, votes**2 / max(squared, 1e-300)), own_covariance(self), None
        if squared > (LARGE * votes) ** 2:  # else no rater is large
            asked = part_refs(self.data.source), self.head, own, votes, n
            (more,) = self.data.engine.sum(_large_raters, *asked)
        return sandwich(self, own, inner * (n / (n - 1)), (way,), more)

    @cached_property
    def moments(self) -> Moments:
        """Not as a whole: they are one number a comparison."""
        raise _in_memory("the scores of single comparisons")

    def resampled(self, resample: Resample) -> Floats:
        """theta of one resample of the raters; each part finds its own by the seed."""
        if self.division is not None:
            raise _in_memory("a bootstrap (intervals='bootstrap') of a divided panel")
        priors, parts = self.given_priors(), cast("Parts", self.wins)
        form, tol = ("marginal", 1e-5) if priors.estimated else ("joint", 1e-6)
        density = Summed(parts, priors, cast("Form", form), resample)
        return solve_newton(density, self.theta, np.empty(0), tol).theta

    def sample(self, *_args: Any, **_options: Any) -> Any:
        """Not over parts."""
        raise _in_memory("the exact posterior (intervals='posterior')")

    def theta_without(self, raters: Sequence[int]) -> Floats:
        """Not over parts."""
        del raters
        raise _in_memory("a fit without some raters")


def _in_memory(what: str) -> UnsupportedError:
    return UnsupportedError(
        f"{what} is not computed over the parts of a prepared set; fit it in memory (--engine "
        "memory, in Python bbq.fit(data.read()))"
    )


def fitted(data: PreparedSet, engine: MapEngine, **chosen: Any) -> PartedFit:
    """Fit the parts of a set; ``chosen`` as in `bbq.fit`."""
    for name, allowed in (("model", ("bbq",)), ("solver", ("auto",))):
        if chosen.get(name, allowed[0]) not in allowed:
            raise UsageError(
                f"{name}={chosen[name]!r} is not fitted over parts (they take {name}="
                f"{allowed[0]}); fit it in memory (--engine memory, in Python "
                "bbq.fit(data.read()))"
            )
    cluster = chosen.get("cluster", "auto")
    if cluster not in ("auto", "none", RATER, ("auto",), ("none",), (RATER,)):
        raise _in_memory(f"a covariance robust to cluster={cluster}")
    if not data.has_raters:
        raise _in_memory("a set without raters, which is small,")
    parted = PartedComparisons.of(data, engine)
    found = PartedFit.of(fit(parted, **chosen))
    tags = [name for name in data.keep if is_subject(name)]
    if tags and cluster in ("auto", ("auto",)):
        note = f"intervals allow for clusters by rater alone, not by {', '.join(tags)}"
        found.__dict__["warnings"] = (*found.warnings, note)
    return found
