"""A fit that follows its data: answers come, change and go, and a refresh costs only those."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bbq_plugin.data.triples import Codes, Floats, Mask, Triples
from bbq_plugin.errors import DataError, UsageError
from bbq_plugin.model.kernels import incremental as kernels
from bbq_plugin.model.kernels import likelihood
from bbq_plugin.model.objectives import Height, Joint, Marginal, theta_density
from bbq_plugin.model.priors import Priors
from bbq_plugin.model.solvers import Solution, dense_is_cheap, hill_solver, solve_newton, with_level

Ints = NDArray[np.int32]
S = TypeVar("S", bound=np.generic)

# Times the largest sum ever held: what rounding may leave of weights that were all taken back.
ZERO = 1e-13
LONG = 64  # rows, and two for each item: below that reading them costs no more than the expansion
HEAVY_SHARE = 0.05  # of a history's weight that may change before it is read again
FARTHEST_Q = 0.05  # joint: the series in q has four terms
FARTHEST_SD = 0.5  # marginal: standard deviations of q; the nodes reach over five
LARGEST_ERROR = 3e-4  # nats: 0.05 points of a rating
SAFETY = 2.0  # the estimate has the leading terms alone
INVERSE_ITERATIONS = 4
PROBE = 0.01  # nats: far enough for the third derivative to show, near enough for it alone
FULL_TOLERANCE = 1e-5  # nats, of a full pass that a refresh asks for
LARGEST_SHARE = 0.5  # of the rows: to read so many twice costs as much as full passes
MOST_ITEMS = 512  # beyond, K x K work is no longer small beside a pass over the data


def grown(array: NDArray[S], used: int, need: int, fill: float) -> NDArray[S]:
    """The same array, or a copy of its first ``used`` with room for ``need`` and as many again."""
    if need <= array.shape[0]:
        return array
    wider = np.full((2 * need, *array.shape[1:]), fill, dtype=array.dtype)
    wider[:used] = array[:used]
    return wider


class ChangedTriples:
    """The current triples of every rater: rows in the base or the tail, plus a list of changes."""

    def __init__(self, triples: Triples) -> None:
        self.largest = float(np.max(triples.weight, initial=0.0))
        self.rest_on(triples)

    def rest_on(self, triples: Triples) -> None:
        """Make these triples the base, with nothing on top of it."""
        self.base = triples
        self.n_raters, self.n_items = triples.n_raters, triples.n_items
        self.low, self.high = triples.start[:-1].copy(), triples.start[1:].copy()
        self.moved = np.zeros(self.n_raters, dtype=np.bool_)
        self.head = np.full(self.n_raters, -1, dtype=np.int64)
        self.tail, self.log = _empty_rows(0), _empty_rows(0)
        self.log_next: Codes = np.empty(0, dtype=np.int64)
        self.tail_size = self.log_size = 0

    def make_room(self, n_raters: int, n_items: int) -> None:
        """Append raters and items without rows."""
        used, self.n_items = self.n_raters, max(n_items, self.n_items)
        if n_raters <= used:
            return
        for name, fill in (("low", 0), ("high", 0), ("moved", False), ("head", -1)):
            setattr(self, name, grown(getattr(self, name), used, n_raters, fill))
        self.n_raters = n_raters

    def push(self, rater: Codes, winner: Ints, loser: Ints, weight: Floats) -> None:
        """Put signed changes on the lists of their raters."""
        used, need = self.log_size, self.log_size + rater.size
        self.log = _grown_rows(self.log, used, need)
        self.log_next = grown(self.log_next, used, need, -1)
        kernels.push(rater, winner, loser, weight, used, self.head, *self.log, self.log_next)
        self.log_size = need

    def counts(self, raters: Codes) -> Codes:
        """How many rows each of these raters has, the lists left out."""
        return np.asarray(self.high[raters] - self.low[raters])

    def rows(self, raters: Codes) -> Triples:
        """The rows of these raters, the lists left out."""
        start = np.concatenate(([0], np.cumsum(self.counts(raters))))
        winner, loser, weight = _empty_rows(int(start[-1]))
        base = self.base
        kernels.gather(
            raters, self.low, self.high, self.moved, base.winner, base.loser, base.weight,
            *self.tail, winner, loser, weight,
        )  # fmt: skip
        return Triples(start, winner, loser, weight, self.n_items)

    def merged(self, raters: Codes, rows: Triples) -> Triples:
        """``rows`` of these raters with their lists, equal ones summed, those taken back gone."""
        length = np.empty(raters.size, dtype=np.int64)
        kernels.list_lengths(raters, self.head, self.log_next, length)
        start = np.zeros(raters.size + 1, dtype=np.int64)
        winner, loser, weight = _empty_rows(rows.size + int(length.sum()))
        bad, largest = kernels.merge(
            raters, self.head, *self.log, self.log_next, self.n_items, ZERO, self.largest,
            rows.start, rows.winner, rows.loser, rows.weight, start, winner, loser, weight,
        )  # fmt: skip
        if bad >= 0:
            raise DataError(
                f"rater {bad}: more was taken back than was ever given for a pair of items; "
                "take back a comparison once, with the weight it was added with"
            )
        self.largest = largest
        end = start[-1]
        return Triples(start, winner[:end], loser[:end], weight[:end], self.n_items)

    def settle(self, raters: Codes, triples: Triples) -> None:
        """Let the merged rows of these raters stand in the tail, their lists used up."""
        used, need = self.tail_size, self.tail_size + triples.size
        self.tail = _grown_rows(self.tail, used, need)
        winner, loser, weight = self.tail
        winner[used:need], loser[used:need] = triples.winner, triples.loser
        weight[used:need] = triples.weight
        self.low[raters] = used + triples.start[:-1]
        self.high[raters] = used + triples.start[1:]
        self.moved[raters] = True
        self.head[raters] = -1
        self.tail_size = need

    def compact(self) -> None:
        """Let the tail's rows take their place in the base once there are as many; lists stay."""
        if self.tail_size <= self.base.size:
            return
        self.base = self.rows(np.arange(self.n_raters))
        start = self.base.start
        self.low[: self.n_raters], self.high[: self.n_raters] = start[:-1], start[1:]
        self.moved[:] = False
        self.tail, self.tail_size = _empty_rows(0), 0

    def touched(self) -> Codes:
        """The raters of whom the base does not tell all."""
        used = slice(0, self.n_raters)
        new = np.arange(self.n_raters) >= self.base.n_raters
        return np.flatnonzero(self.moved[used] | (self.head[used] >= 0) | new)

    def whole(self) -> Triples:
        """All triples as they are now."""
        grew = (self.n_raters, self.n_items) != (self.base.n_raters, self.base.n_items)
        if not self.log_size and not grew:
            return self.base
        everyone = np.arange(self.n_raters)
        return self.merged(everyone, self.rows(everyone))


def _empty_rows(n: int) -> tuple[Ints, Ints, Floats]:
    return np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32), np.empty(n)


def _grown_rows(rows: tuple[Ints, Ints, Floats], used: int, need: int) -> tuple[Ints, Ints, Floats]:
    winner, loser, weight = rows
    return grown(winner, used, need, 0), grown(loser, used, need, 0), grown(weight, used, need, 0)


class Sums:
    """A change of the gradient and of minus the Hessian, in parts that are cheap to add up."""

    def __init__(self, n_items: int) -> None:
        self.gradient, self.strain = np.zeros(n_items), np.zeros(n_items)
        self.half, self.outer = np.zeros((n_items, n_items)), np.zeros((n_items, n_items))

    def include(self, other: Sums) -> None:
        """Add another change."""
        self.gradient += other.gradient
        self.half += other.half
        self.outer += other.outer
        self.strain += other.strain

    def curvature(self) -> Floats:
        """The dense change: pairs (whose rows sum to zero) minus outer products."""
        full: Floats = self.half + self.half.T
        np.fill_diagonal(full, -full.sum(axis=1))
        return full - self.outer


class Histories:
    """The expansions of all raters with many rows, and where theta was when each was made."""

    def __init__(self, triples: Triples, objective: Joint | Marginal, point: Height) -> None:
        #: (alpha, beta) where q is at its best; None where it is integrated out.
        self._beta: tuple[float, float] | None = None
        k = triples.n_items
        raters = np.flatnonzero(np.diff(triples.start) > max(LONG, 2 * k))
        self._slot = np.full(triples.n_raters, -1, dtype=np.int64)
        self._slot[raters] = np.arange(raters.size)
        self._trail, self._now = point.theta[None, :].copy(), 0
        n = raters.size
        self._stamp = np.zeros(n, dtype=np.int64)
        self._held, self._changed = np.zeros(n), np.zeros(n)
        if isinstance(objective, Marginal):
            nodes = likelihood.NODES * objective.parts.shape[0]
            self._node, self._mass = np.empty((n, nodes)), np.empty((n, nodes))
            self._cross = np.empty((n, likelihood.ROWS, k))
        else:
            self._beta = objective.alpha, objective.beta
            self._centre, self._moments = np.empty(n), np.empty((n, kernels.MOMENTS))
            self._cross = np.empty((n, 2, k))
        self.expand(raters, raters, triples, objective, point)

    def move(self, theta: Floats) -> None:
        """Remember where theta is now."""
        self._now += 1
        self._trail = grown(self._trail, self._now, self._now + 1, 0.0)
        self._trail[self._now] = theta

    def long(self, raters: Codes) -> Mask:
        """Which of these raters have an expansion."""
        known = raters < self._slot.size
        known[known] = self._slot[raters[known]] >= 0
        return known

    def note(self, raters: Codes, weight: Floats) -> Mask:
        """Count changes of these raters (all long); which of them are due to be read again."""
        slots = self._slot[raters]
        self._changed[slots] += weight
        due: Mask = self._changed[slots] > HEAVY_SHARE * self._held[slots]
        return due

    def expand(
        self, raters: Codes, index: Codes, triples: Triples, objective: Joint | Marginal,
        point: Height,
    ) -> None:  # fmt: skip
        """Expand the histories of these raters, number ``index`` of ``triples``, again."""
        if raters.size == 0:
            return
        t, slots = triples, self._slot[raters]
        if isinstance(objective, Marginal):
            s = objective.passes.standing(point.theta)
            kernels.expand_marginal(
                index, slots, t.start, t.winner, t.loser, t.weight, s, objective.parts,
                objective.tops, point.rows, self._node, self._mass, self._cross,
            )  # fmt: skip
        else:
            kernels.expand_joint(
                index, slots, t.start, t.winner, t.loser, t.weight, pair_table(point.theta),
                t.n_items, point.quality, self._centre, self._moments, self._cross,
            )  # fmt: skip
        total = np.concatenate(([0.0], np.cumsum(t.weight)))
        self._held[slots] = total[t.start[index + 1]] - total[t.start[index]]
        self._changed[slots] = 0.0
        self._stamp[slots] = self._now

    def add(
        self, sign: float, raters: Codes, heads: Codes, changes: ChangedTriples, quality: Floats,
        sums: Sums,
    ) -> Mask:  # fmt: skip
        """Add ``sign`` times what these raters say with the lists from ``heads`` on.

        Sets their quality, and returns who is farther from where the expansion was made than it
        can be trusted.
        """
        k, slots = changes.n_items, self._slot[raters]
        far = np.empty(raters.size)
        trail = self._trail[: self._now + 1]
        log, table = (*changes.log, changes.log_next), pair_table(trail[-1])
        if self._beta is None:
            rows = np.empty((raters.size, likelihood.ROWS, k))
            kernels.near_marginal(
                sign, raters, slots, heads, *log, table, k, trail, self._stamp, self._node,
                self._mass, self._cross, quality, sums.gradient, sums.half, rows, far,
            )  # fmt: skip
            flat, farthest = rows.reshape(-1, k), FARTHEST_SD
        else:
            flat, farthest = np.empty((raters.size, k)), FARTHEST_Q
            kernels.near_joint(
                sign, raters, slots, heads, *log, table, k, *self._beta, trail,
                self._stamp, self._centre, self._moments, self._cross, quality,
                sums.gradient, sums.half, flat, sums.strain, far,
            )  # fmt: skip
        sums.outer += sign * (flat.T @ flat)
        return np.asarray(far > farthest)


def pair_table(theta: Floats) -> Floats:
    """s of all pairs of items, winner * K + loser."""
    return np.asarray(0.5 * np.tanh(0.5 * (theta[:, None] - theta[None, :]))).ravel()


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What a refresh did: ``step`` is how far theta moved, ``error`` how far it may be off (nats).

    ``n_raters`` had changes; the rows of ``n_read`` of them were read.
    """

    how: Literal["incremental", "full"]
    step: float
    error: float
    n_raters: int
    n_read: int


class Streaming:
    """The triples of a study, changes on top of them, and the optimum that follows.

    ``priors`` are held. ``fixed``: every quality is 1 (bayes-bt, or no rater is known).
    ``marginal``: theta is the maximum with quality integrated out and ``quality`` its posterior
    mean, as under estimated priors; else both are the paper's joint maximum. ``theta`` and
    ``quality`` are where to start from.
    """

    def __init__(
        self, triples: Triples, priors: Priors, *, fixed: bool = False, marginal: bool = False,
        theta: Floats | None = None, quality: Floats | None = None,
    ) -> None:  # fmt: skip
        self.priors, self.fixed, self.marginal = priors, fixed, marginal
        self._n_raters = triples.n_raters
        self._changes = ChangedTriples(triples.without_raters() if fixed else triples)
        level, mode = self._start
        self._theta: Floats = np.full(triples.n_items, level) if theta is None else np.array(theta)
        self._quality: Floats = np.full(self._changes.n_raters, mode)
        if quality is not None and not fixed:
            self._quality[:] = quality
        self._pending: list[tuple[Codes, Codes, Codes, Floats]] = []
        self._gradient: Floats = np.zeros(triples.n_items)
        self._curvature: Floats = np.empty((0, 0))
        self._histories: Histories | None = None  # None: the next refresh needs full passes
        self._rested = self._theta
        self._strain: Floats = np.zeros(triples.n_items)
        self._bend = self._error = np.inf
        self._stale = True

    @property
    def theta(self) -> Floats:
        """Skills in nats, as of the last refresh."""
        return self._theta.copy()

    @property
    def quality(self) -> Floats:
        """Of each rater, at the present theta; one pass over the data if theta has moved."""
        if self.fixed:
            return np.ones(self._n_raters)
        if self._stale:
            self._read_quality()
        return self._quality[: self._n_raters].copy()

    def quality_of(self, raters: Codes) -> Floats:
        """The same for these raters alone, at the cost of their rows."""
        if self.fixed or raters.size == 0:
            return np.ones(raters.size)
        merged = self._changes.merged(raters, self._changes.rows(raters))
        point = self._objective(merged).at(self._theta, self._quality[raters])
        self._quality[raters] = point.quality
        return point.quality

    @property
    def triples(self) -> Triples:
        """The data as of the last refresh (of one rater, where quality is fixed)."""
        return self._changes.whole()

    def change(
        self, rater: ArrayLike, winner: ArrayLike, loser: ArrayLike, weight: ArrayLike
    ) -> None:
        """Add comparisons, or take them back (weight below 0), from the next refresh on.

        Codes beyond the known ones append raters and items.
        """
        raters, winners, losers = (
            np.array(column, dtype=np.int64, ndmin=1) for column in (rater, winner, loser)
        )
        weights = np.array(weight, dtype=np.float64, ndmin=1)
        if not raters.size == winners.size == losers.size == weights.size:
            raise UsageError(
                f"change() got {raters.size} raters, {winners.size} winners, {losers.size} losers "
                f"and {weights.size} weights; each comparison has one of each"
            )
        wrong = (raters < 0) | (winners < 0) | (losers < 0) | (winners == losers)
        wrong |= ~np.isfinite(weights)
        if wrong.any():
            at = int(np.argmax(wrong))
            raise UsageError(
                f"change() row {at}: rater {raters[at]}, winner {winners[at]}, loser {losers[at]}, "
                f"weight {weights[at]}; expected codes from 0 on, two items, a finite weight"
            )
        if raters.size:
            self._pending.append((raters, winners, losers, weights))

    def solve(self, tol: float = 1e-6) -> Solution:
        """Full passes until Newton's step is at most ``tol`` nats: the test of a cold fit."""
        self._histories = None  # an error on the way: full passes next time too
        self._take_in()
        self._make_room()
        triples = self._changes.whole()
        objective = self._objective(triples)
        quality = self._quality[: self._changes.n_raters]
        found = solve_newton(objective, self._theta, quality, tol)
        self._changes.rest_on(triples)
        self._rest(objective, found)
        return found

    def refresh(self) -> Refreshed:
        """Follow the changes since the last refresh."""
        raters, weight, heads = self._take_in()
        if self._histories is None or self._changes.n_items > self._theta.size:
            return self._full(raters.size)
        if raters.size == 0:
            return Refreshed("incremental", 0.0, self._error, 0, 0)
        histories, self._histories = self._histories, None  # an error on the way: full passes next
        self._make_room()
        sums = Sums(self._theta.size)
        read = self._add_long(histories, raters, weight, heads, sums)
        if self._too_much(read):
            return self._full(raters.size)
        curvature = self._curvature + self._add_read(histories, read, sums) + sums.curvature()
        gradient = self._gradient + sums.gradient
        newton = hill_solver(with_level(curvature, flat=self.priors.flat_items))
        if newton is None:
            return self._full(raters.size)
        step = newton(gradient)
        theta, strain = self._theta + step, self._strain + sums.strain
        error = SAFETY * (self._distance(theta) + float(np.max(np.abs(newton(strain)))))
        error = max(error, self._error)  # who went and came back keeps what was left out on the way
        if not error <= LARGEST_ERROR:
            return self._full(raters.size)
        self._gradient, self._curvature = self._after(theta, step, gradient, curvature)
        self._theta, self._strain, self._error, self._stale = theta, strain, error, True
        histories.move(theta)
        self._changes.compact()
        self._histories = histories
        return Refreshed("incremental", float(np.max(np.abs(step))), error, raters.size, read.size)

    def _take_in(self) -> tuple[Codes, Floats, Codes]:
        """Put what is pending on the lists: whose, by what weight, and the lists as they were."""
        changes = self._changes
        if not self._pending:
            return np.empty(0, np.int64), np.empty(0), np.empty(0, np.int64)
        rater, winner, loser, weight = (
            np.concatenate(columns) for columns in zip(*self._pending, strict=True)
        )
        self._pending = []
        self._n_raters = max(self._n_raters, int(rater.max()) + 1)
        if self.fixed:
            rater = np.zeros(rater.size, dtype=np.int64)
        raters, place = np.unique(rater, return_inverse=True)
        changes.make_room(int(raters[-1]) + 1, int(max(winner.max(), loser.max())) + 1)
        heads = changes.head[raters]
        changes.push(rater, winner.astype(np.int32), loser.astype(np.int32), weight)
        touched: Floats = np.bincount(place, np.abs(weight), raters.size).astype(np.float64)
        return raters, touched, heads

    def _make_room(self) -> None:
        """New items at the prior's level, new raters at the mode of theirs."""
        level, mode = self._start
        used, need = self._quality.size, self._changes.n_raters
        self._quality = grown(self._quality, used, need, mode)
        new = self._changes.n_items - self._theta.size
        if new > 0:
            self._theta = np.concatenate((self._theta, np.full(new, level)))

    @cached_property
    def _start(self) -> tuple[float, float]:
        empty = Triples(np.zeros(2, np.int64), *_empty_rows(0), n_items=1)
        joint = Joint(empty, self.priors, fixed=self.fixed)
        if self.marginal:
            joint.a += 1.0  # the density of theta has a where lambda's has a - 1
        theta, quality = joint.start()
        return float(theta[0]), float(quality[0])

    def _objective(self, triples: Triples) -> Joint | Marginal:
        if self.marginal:
            return theta_density(triples, self.priors, fixed=self.fixed)
        return Joint(triples, self.priors, fixed=self.fixed)

    def _full(self, n_raters: int) -> Refreshed:
        before = self._theta
        found = self.solve(FULL_TOLERANCE)
        step = float(np.max(np.abs(found.theta[: before.size] - before), initial=0.0))
        return Refreshed("full", step, found.error, n_raters, self._changes.n_raters)

    def _rest(self, objective: Joint | Marginal, found: Solution) -> None:
        """Start to follow from here."""
        point = found.point
        self._theta = self._rested = point.theta
        self._quality, self._stale = point.quality.copy(), False
        self._gradient, self._strain = point.gradient, np.zeros(point.theta.size)
        self._error = found.error
        self._histories = None
        small = point.theta.size <= MOST_ITEMS and dense_is_cheap(objective)
        if small and not self.fixed:
            self._curvature = objective.passes.curvature(point)
            self._bend = self._measured_bend(objective, point)
            if np.isfinite(self._bend):
                self._histories = Histories(objective.passes.triples, objective, point)

    def _too_much(self, read: Codes) -> bool:
        """Whether to read these raters twice, or to keep the log, costs as much as full passes."""
        rows, all_rows = int(self._changes.counts(read).sum()), self._changes.base.size
        return rows > LARGEST_SHARE * all_rows or self._changes.log_size > all_rows

    def _add_long(
        self, histories: Histories, raters: Codes, weight: Floats, heads: Codes, sums: Sums
    ) -> Codes:
        """Add what raters with a long history say now; returns those whose rows have to be read."""
        long = histories.long(raters)
        if not long.any():
            return raters
        short, raters, heads = raters[~long], raters[long], heads[long]
        changes = self._changes
        due = histories.note(raters, weight[long])
        after = Sums(self._theta.size)
        due |= histories.add(1.0, raters, changes.head[raters], changes, self._quality, after)
        if due.any():
            # Who is due goes back to the history alone, which is then read with the list.
            after, lists = Sums(self._theta.size), np.where(due, -1, changes.head[raters])
            histories.add(1.0, raters, lists, changes, self._quality, after)
        histories.add(-1.0, raters, heads, changes, self._quality, sums)
        sums.include(after)
        return np.concatenate((short, raters[due]))

    def _add_read(self, histories: Histories, raters: Codes, sums: Sums) -> Floats:
        """Read the rows of these raters, without and with their lists; returns their curvature."""
        if raters.size == 0:
            return np.zeros_like(self._curvature)
        rows = self._changes.rows(raters)
        merged = self._changes.merged(raters, rows)
        old = self._objective(rows)
        before = old.at(self._theta, self._quality[raters])
        change = -old.passes.curvature(before)
        new = self._objective(merged)
        after = new.at(self._theta, before.quality)
        change += new.passes.curvature(after)
        sums.gradient += after.gradient - before.gradient
        self._changes.settle(raters, merged)
        self._quality[raters] = after.quality
        index = np.flatnonzero(histories.long(raters))
        histories.expand(raters[index], index, merged, new, after)
        return change

    def _distance(self, theta: Floats) -> float:
        """What Newton's steps since the last full pass left out: the square of the way, bent."""
        way = theta - self._rested
        return self._bend * float(np.max(way) - np.min(way)) ** 2

    def _measured_bend(self, objective: Joint | Marginal, point: Height) -> float:
        """Nats of error for the square of a way, along the way that the data tell least about.

        There theta and the qualities trade off against each other (larger differences, worse
        raters) and third derivatives are largest beside S. One pass at a probe shows them:
        S^-1 [G(theta + v) - G(theta) + S v]. For a lone logistic curve it is at most 1/2.
        """
        matrix = with_level(self._curvature, flat=self.priors.flat_items)
        newton = hill_solver(matrix)
        if newton is None:
            return np.inf
        # Inverse iteration; the level, which no comparison sees, is not the way looked for.
        weak = point.theta + np.linspace(0.0, 0.01, point.theta.size)
        for _ in range(INVERSE_ITERATIONS):
            weak = newton(weak - weak.mean())
            weak *= PROBE / max(float(np.max(weak) - np.min(weak)), 1e-300)
        weak -= weak.mean()
        there = objective.at(point.theta + weak, point.quality)
        left = newton(there.gradient - point.gradient + self._curvature @ weak)
        return max(0.5, float(np.max(np.abs(left))) / PROBE**2)

    def _after(
        self, theta: Floats, step: Floats, gradient: Floats, curvature: Floats
    ) -> tuple[Floats, Floats]:
        """Gradient and curvature after the step: linear, but for the prior, which is known."""
        b = self.priors.b
        bend = b * (np.exp(theta) - np.exp(self._theta)) if b else np.zeros(theta.size)
        gradient = gradient - curvature @ step + (b * np.exp(self._theta) * step if b else 0.0)
        return gradient - bend, curvature + np.diag(bend)

    def _read_quality(self) -> None:
        """q at its best (or its mean) at the present theta: the base in one pass, then the rest."""
        changes = self._changes
        self._make_room()
        known = changes.base.n_raters
        point = self._objective(changes.base).at(self._theta, self._quality[:known])
        self._quality[:known] = point.quality
        self.quality_of(changes.touched())
        self._stale = False
