"""Raters with a long history, in a few numbers each, so that a new answer does not revisit it.

A history is expanded around the (theta, q) at which it was last read. Answers since then are kept
exactly, in a list. When the list has grown to a share of the history the rater is read anew, so
that a new answer costs a bounded number of rows on average, however long the history is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bbq_plugin.aggregate import Triples
from bbq_plugin.model import kernels_quadrature as quadrature
from bbq_plugin.model import kernels_streaming as kernels
from bbq_plugin.model.changes import Changes, Codes, grown
from bbq_plugin.model.marginal import Marginal
from bbq_plugin.model.objective import Floats, Joint, Point

__all__ = ["Histories", "Sums"]

LONG = 64  # rows, and two for each item: below that reading them costs no more than the expansion
LARGEST_SHARE = 0.05  # of a history's weight that may change before it is read anew
FARTHEST_Q = 0.05  # joint: the series in q has four terms
FARTHEST_SD = 0.5  # marginal: standard deviations of q; the nodes reach over five


@dataclass(slots=True, eq=False)
class Sums:
    """A change of the gradient and of minus the Hessian, in parts that are cheap to add up."""

    n_items: int
    gradient: Floats = field(init=False)
    half: Floats = field(init=False)
    outer: Floats = field(init=False)
    strain: Floats = field(init=False)

    def __post_init__(self) -> None:
        k = self.n_items
        self.gradient, self.strain = np.zeros(k), np.zeros(k)
        self.half, self.outer = np.zeros((k, k)), np.zeros((k, k))

    def include(self, other: Sums) -> None:
        """Add another change."""
        self.gradient += other.gradient
        self.half += other.half
        self.outer += other.outer
        self.strain += other.strain

    def curvature(self) -> Floats:
        """The dense change: pairs (whose rows sum to zero) minus outer products."""
        full: Floats = self.half + self.half.T
        full[np.diag_indices(self.n_items)] = -full.sum(axis=1)
        return full - self.outer


class Histories:
    """The expansions of all raters with many rows, and where theta was when each was made."""

    def __init__(self, triples: Triples, objective: Joint | Marginal, point: Point) -> None:
        self.objective_priors = _beta_of(objective)
        k = triples.n_items
        count = np.diff(triples.start)
        raters = np.flatnonzero(count > max(LONG, 2 * k))
        self._slot = np.full(triples.n_raters, -1, dtype=np.int64)
        self._slot[raters] = np.arange(raters.size)
        self._trail, self._now = point.theta[None, :].copy(), 0
        n = raters.size
        self._stamp = np.zeros(n, dtype=np.int64)
        self._held, self._changed = np.zeros(n), np.zeros(n)
        if isinstance(objective, Marginal):
            nodes = quadrature.NODES * objective.parts.shape[0]
            self._node, self._mass = np.empty((n, nodes)), np.empty((n, nodes))
            self._cross = np.empty((n, quadrature.ROWS, k))
        else:
            self._centre, self._moments = np.empty(n), np.empty((n, kernels.MOMENTS))
            self._cross = np.empty((n, 2, k))
        self.expand(raters, raters, triples, objective, point)

    def move(self, theta: Floats) -> None:
        """Remember where theta is now."""
        self._now += 1
        self._trail = np.asarray(grown(self._trail, self._now, self._now + 1, 0.0), np.float64)
        self._trail[self._now] = theta

    def long(self, raters: Codes) -> NDArray[np.bool_]:
        """Which of these raters have an expansion."""
        known = raters < self._slot.size
        known[known] = self._slot[raters[known]] >= 0
        return known

    def note(self, raters: Codes, weight: Floats) -> NDArray[np.bool_]:
        """Count changes of these raters (all long); which of them are due to be read anew."""
        slots = self._slot[raters]
        self._changed[slots] += weight
        due: NDArray[np.bool_] = self._changed[slots] > LARGEST_SHARE * self._held[slots]
        return due

    def expand(
        self, raters: Codes, index: Codes, triples: Triples, objective: Joint | Marginal,
        point: Point,
    ) -> None:  # fmt: skip
        """Expand the histories of these raters, number ``index`` of ``triples``, anew."""
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
        self, sign: float, raters: Codes, heads: Codes, changes: Changes, quality: Floats,
        sums: Sums,
    ) -> NDArray[np.bool_]:  # fmt: skip
        """Add ``sign`` times what these raters say with the lists from ``heads`` on.

        Sets their quality, and returns who is farther from where the expansion was made than it
        can be trusted.
        """
        k, slots = changes.n_items, self._slot[raters]
        far = np.empty(raters.size)
        trail = self._trail[: self._now + 1]
        log, table = (*changes.log, changes.log_next), pair_table(trail[-1])
        if self.objective_priors is None:
            rows = np.empty((raters.size, quadrature.ROWS, k))
            kernels.near_marginal(
                sign, raters, slots, heads, *log, table, k, trail, self._stamp, self._node,
                self._mass, self._cross, quality, sums.gradient, sums.half, rows, far,
            )  # fmt: skip
            flat, farthest = rows.reshape(-1, k), FARTHEST_SD
        else:
            flat, farthest = np.empty((raters.size, k)), FARTHEST_Q
            kernels.near_joint(
                sign, raters, slots, heads, *log, table, k, *self.objective_priors, trail,
                self._stamp, self._centre, self._moments, self._cross, quality,
                sums.gradient, sums.half, flat, sums.strain, far,
            )  # fmt: skip
        sums.outer += sign * (flat.T @ flat)
        return np.asarray(far > farthest)


def pair_table(theta: Floats) -> Floats:
    """s of all pairs of items, winner * K + loser."""
    return np.asarray(0.5 * np.tanh(0.5 * (theta[:, None] - theta[None, :]))).ravel()


def _beta_of(objective: Joint | Marginal) -> tuple[float, float] | None:
    return None if isinstance(objective, Marginal) else (objective.alpha, objective.beta)
