"""A fit that follows its data: answers come, change and go, and a refresh costs only those.

With q maximised out (or integrated out), the log-posterior of theta is a prior plus one share for
each rater, so the gradient G and minus the Hessian S are sums over raters too. When the answers of
some raters T change,

    G += G_T(new) - G_T(old),    S += S_T(new) - S_T(old),    step = S^-1 G,    theta += step,

and after the step G is what the quadratic model leaves of it. The other raters' shares are not
revisited: their third derivatives, times the square of the way since the last full pass, are the
error. Its estimate is part of the answer, and above a limit full passes take over.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bbq_plugin.aggregate import Triples
from bbq_plugin.errors import UsageError
from bbq_plugin.model.changes import Changes, Codes, grown
from bbq_plugin.model.histories import Histories, Sums
from bbq_plugin.model.linear import dense_is_cheap, hill_solver, with_level
from bbq_plugin.model.marginal import Marginal, theta_density
from bbq_plugin.model.objective import Floats, Joint, Point
from bbq_plugin.model.priors import Priors
from bbq_plugin.model.solve import Solution, solve_newton

__all__ = ["Refreshed", "Streaming"]

LARGEST_ERROR = 3e-4  # nats: 0.05 points of a rating
SAFETY = 2.0  # the estimate has the leading terms alone
INVERSE_ITERATIONS = 4
PROBE = 0.01  # nats: far enough for the third derivative to show, near enough for it alone
FULL_TOLERANCE = 1e-5  # nats, of a full pass that a refresh asks for
LARGEST_SHARE = 0.5  # of the rows: to read so many twice costs as much as full passes
MOST_ITEMS = 512  # beyond, K x K work is no longer small beside a pass over the data


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
        self,
        triples: Triples,
        priors: Priors,
        *,
        fixed: bool = False,
        marginal: bool = False,
        theta: Floats | None = None,
        quality: Floats | None = None,
    ) -> None:
        self.priors, self.fixed, self.marginal = priors, fixed, marginal
        self._n_raters = triples.n_raters
        self._changes = Changes(triples.without_raters() if fixed else triples)
        level, mode = self._start
        self._theta: Floats = np.full(triples.n_items, level)
        if theta is not None:
            self._theta = np.array(theta, float)
        known = np.full(self._changes.n_raters, mode)
        if quality is not None and not fixed:
            known[:] = quality
        self._quality: Floats = known
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
        touched = np.bincount(place, np.abs(weight), raters.size)
        return raters, np.asarray(touched, np.float64), np.asarray(heads, np.int64)

    def _make_room(self) -> None:
        """New items at the prior's level, new raters at the mode of theirs."""
        level, mode = self._start
        used, need = self._quality.size, self._changes.n_raters
        self._quality = np.asarray(grown(self._quality, used, need, mode), np.float64)
        new = self._changes.n_items - self._theta.size
        if new > 0:
            self._theta = np.concatenate((self._theta, np.full(new, level)))

    @cached_property
    def _start(self) -> tuple[float, float]:
        nobody = Triples(np.zeros(2, np.int64), *_no_rows(), n_items=1)
        p = self.priors
        a = (
            p.a + 1.0 if self.marginal else p.a
        )  # the density of theta has a where lambda's has a - 1
        theta, quality = Joint(nobody, a, p.b, p.alpha, p.beta, fixed=self.fixed).start()
        return float(theta[0]), float(quality[0])

    def _objective(self, triples: Triples) -> Joint | Marginal:
        if self.marginal:
            return theta_density(triples, self.priors, fixed=self.fixed)
        p = self.priors
        return Joint(triples, p.a, p.b, p.alpha, p.beta, fixed=self.fixed)

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
        after = Sums(sums.n_items)
        due |= histories.add(1.0, raters, changes.head[raters], changes, self._quality, after)
        if due.any():
            # Who is due goes back to the history alone, which is then read with the list.
            after, lists = Sums(sums.n_items), np.where(due, -1, changes.head[raters])
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

    def _measured_bend(self, objective: Joint | Marginal, point: Point) -> float:
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


def _no_rows() -> tuple[NDArray[np.int32], NDArray[np.int32], Floats]:
    return np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0)
