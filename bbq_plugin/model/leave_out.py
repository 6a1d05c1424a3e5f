"""What all others say about the pairs a rater has answered: the consensus without the rater.

A rater's own votes pull the ranking towards them. Judged by a ranking that holds these votes, a
busy guesser agrees with himself; so each rater is judged by theta_(-r).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bbq_plugin.data.triples import Floats, Triples, run_chunks
from bbq_plugin.model.kernels import held_out as kernels
from bbq_plugin.model.objectives import LARGEST_COVARIANCE, Height, Joint, Marginal
from bbq_plugin.model.priors import Priors, SignedPriors
from bbq_plugin.model.signed import Signed, signed_density
from bbq_plugin.model.solvers import ThetaMode, inverse, solve_newton

TOLERANCE = 1e-4  # nats
LARGE_SHARE = 0.1  # of all weight: without such a rater one Newton step may not be enough
MOST_LOCAL = 400  # items of one rater whose matrix is inverted
MOST_REFITS = 64
WEAK = Priors()


@dataclass(frozen=True, slots=True, eq=False)
class LeftOut:
    """By triple: theta_winner - theta_loser (nats) without the rater, its variance, and s.

    ``s`` is E[y] - 1/2 over what is not known of the gap (MacKay's moderated output): an
    uncertain consensus asks less of a rater. ``exact`` are raters without whom was refitted,
    ``within`` those whose own votes could not be left out.
    """

    gap: Floats
    spread: Floats
    s: Floats
    exact: tuple[int, ...]
    within: tuple[int, ...]


class Consensus:
    """The top of the log-density of theta with all raters, and the way to those without one."""

    def __init__(
        self, triples: Triples, priors: Priors | SignedPriors, theta: Floats, quality: Floats, *,
        joint: bool = False, copies: Floats | None = None, mode: ThetaMode | None = None,
        covariance: Floats | None = None,
    ) -> None:  # fmt: skip
        """``joint``: the top of the log-posterior of (theta, q) instead, as a fit has it.

        ``covariance``: that of all raters, where these are some of them: theta is the top of all,
        and none of them is refitted without.

        ``mode``: theta is the top already, as that of a fit under estimated priors is.
        ``copies`` counts each rater so many times: of one camp, the probability to belong to it.
        """
        if isinstance(priors, Priors) and priors.flat_items:
            # Without a prior two items that only one rater compared would be infinitely uncertain.
            priors = replace(priors, a=WEAK.a, b=WEAK.b)
        self.triples, self.priors = triples, priors
        self.copies = np.ones(triples.n_raters) if copies is None else copies
        objective: Marginal | Signed | Joint
        self.of_all = covariance is not None
        if mode is not None:
            objective, self.point = mode.density, mode.point
        else:
            objective = _objective(triples, priors, joint=joint, copies=copies)
            if not self.of_all:
                theta = solve_newton(objective, theta, quality, TOLERANCE).theta
            self.point = objective.at(theta, quality)
        self.chunks = objective.passes.chunks
        self.theta = self.point.theta
        #: The covariance of theta; empty with so many items that it is not sensible.
        self.covariance: Floats = np.empty((0, 0))
        if covariance is not None:
            self.covariance = np.ascontiguousarray(covariance)
        elif mode is not None and triples.n_items <= LARGEST_COVARIANCE:
            self.covariance = mode.covariance
        elif triples.n_items <= LARGEST_COVARIANCE:
            curvature = objective.passes.curvature(self.point)
            self.covariance = inverse(curvature)
        self.push = _push(objective, self.point)

    def theta_without(self, rater: int) -> Floats:
        """One Newton step to the theta of all others, for every item."""
        t = self.triples
        low, high = int(t.start[rater]), int(t.start[rater + 1])
        if low == high or not self.covariance.size:
            return self.theta
        return np.asarray(
            kernels.theta_without(
                low, high, t.winner, t.loser, self.push, self.point.curve, self.point.rows,
                self.theta, self.covariance,
            )
        )  # fmt: skip

    def leave_each_out(self) -> LeftOut:
        """Without each rater in turn, for the pairs that the rater has answered."""
        t = self.triples
        gap, spread = np.empty(t.size), np.zeros(t.size)
        failed = np.ones(t.n_raters, dtype=np.bool_)
        exact: list[int] = []
        if self.covariance.size:

            def work(first: int, last: int) -> None:
                kernels.leave_out(
                    first, last, t.start, t.winner, t.loser, self.push, self.point.curve,
                    self.point.rows, self.theta, self.covariance, MOST_LOCAL, gap, spread, failed,
                )  # fmt: skip

            run_chunks(work, self.chunks)
            exact = [] if self.of_all else _to_refit(t, self.copies, failed)
        for r in exact:
            self._without(r, gap, spread)
        within = tuple(r for r in np.flatnonzero(failed).tolist() if r not in exact)
        for r in within:
            self._put(r, self.theta, self.covariance, gap, spread)
        return LeftOut(gap, spread, _moderated(gap, spread), tuple(exact), within)

    def _without(self, r: int, gap: Floats, spread: Floats) -> None:
        """A refit."""
        copies = self.copies.copy()
        copies[r] = 0.0
        objective = _objective(self.triples, self.priors, copies=copies)
        found = solve_newton(objective, self.theta, self.point.quality, TOLERANCE)
        covariance = inverse(objective.passes.curvature(found.point))
        self._put(r, found.theta, covariance, gap, spread)

    def _put(self, r: int, theta: Floats, covariance: Floats, gap: Floats, spread: Floats) -> None:
        t = self.triples
        rows = slice(t.start[r], t.start[r + 1])
        i, j = t.winner[rows], t.loser[rows]
        gap[rows] = theta[i] - theta[j]
        if covariance.size:
            spread[rows] = covariance[i, i] + covariance[j, j] - 2 * covariance[i, j]


def _objective(
    triples: Triples, priors: Priors | SignedPriors, *, joint: bool = False,
    copies: Floats | None = None,
) -> Marginal | Signed | Joint:  # fmt: skip
    if isinstance(priors, SignedPriors):
        return (Signed if joint else signed_density)(triples, priors, copies=copies)
    if joint:
        return Joint(triples, priors, copies=copies)
    return Marginal(triples, priors, copies=copies)


def _push(objective: Marginal | Signed | Joint, point: Height) -> Floats:
    """Each triple's part of the gradient."""
    if isinstance(objective, Marginal):
        return objective.pushes
    passes, t = objective.passes, objective.passes.triples
    s = passes.standing(point.theta)
    q, times = (np.repeat(x, np.diff(t.start)) for x in (point.quality, passes.copies))
    return np.asarray(times * t.weight * q * (0.25 - s * s) / (0.5 + q * s))


def _to_refit(t: Triples, copies: Floats, failed: NDArray[np.bool_]) -> list[int]:
    """Raters with a large share of all votes, and those whom one step cannot leave out."""
    total = copies * np.bincount(t.rater(), t.weight, t.n_raters)
    share = total / max(float(total.sum()), 1e-300)
    wanted = np.flatnonzero((share > LARGE_SHARE) | failed)
    return sorted(wanted[np.argsort(-share[wanted], kind="stable")][:MOST_REFITS].tolist())


def _moderated(gap: Floats, spread: Floats) -> Floats:
    """E[sigma(d)] - 1/2 for d ~ Normal(gap, spread), by sigma(gap / sqrt(1 + pi spread / 8))."""
    return np.asarray(0.5 * np.tanh(0.5 * gap / np.sqrt(1.0 + np.pi * spread / 8.0)))
