"""What all others say about the pairs a rater has answered: the consensus without the rater.

A rater's own votes pull the ranking towards them. Judged by a ranking that holds these votes, a
busy guesser agrees with himself; so each rater is judged by theta_(-r).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bbq_plugin.aggregate import Triples
from bbq_plugin.model import kernels_leave_out as kernels
from bbq_plugin.model.marginal import Marginal
from bbq_plugin.model.objective import Floats, Point
from bbq_plugin.model.priors import Priors
from bbq_plugin.model.signed import Signed, SignedPriors, signed_density
from bbq_plugin.model.solve import solve_newton
from bbq_plugin.threads import run_chunks

__all__ = ["LeftOut", "leave_each_out"]

TOLERANCE = 1e-4  # nats
LARGE_SHARE = 0.1  # of all weight: without such a rater one Newton step may not be enough
MOST_LOCAL = 400  # items of one rater whose matrix is inverted
MOST_REFITS = 64
MOST_ITEMS = 4096  # K x K numbers beyond are a gigabyte and more
WEAK = Priors()


@dataclass(frozen=True, slots=True, eq=False)
class LeftOut:
    """By triple: theta_winner - theta_loser (nats) without the rater, its variance, and s.

    ``s`` is E[y] - 1/2 over what is not known of the gap (MacKay's moderated output): an
    uncertain consensus asks less of a rater. ``exact`` marks raters without whom was refitted,
    ``within`` those whose own votes could not be left out. ``theta`` is the top with all raters,
    ``inverse`` the covariance there.
    """

    gap: Floats
    spread: Floats
    s: Floats
    theta: Floats
    inverse: Floats
    exact: tuple[int, ...]
    within: tuple[int, ...]
    _triples: Triples
    _point: Point
    _push: Floats

    def theta_without(self, rater: int) -> Floats:
        """One Newton step to the theta of all others, for every item."""
        t = self._triples
        low, high = int(t.start[rater]), int(t.start[rater + 1])
        if low == high or not self.inverse.size:
            return self.theta
        place = np.full(t.n_items, -1, dtype=np.int64)
        seen = kernels.local_items(low, high, t.winner, t.loser, place)
        inner, pull = kernels.own_curvature(
            low, high, t.winner, t.loser, self._push, self._point.curve, self._point.rows, place,
            seen.size,
        )  # fmt: skip
        system = np.eye(seen.size) - inner @ self.inverse[np.ix_(seen, seen)]
        return self.theta - self.inverse[:, seen] @ np.linalg.solve(system, pull)


def leave_each_out(
    triples: Triples, priors: Priors | SignedPriors, theta: Floats, quality: Floats
) -> LeftOut:
    """The consensus without each rater in turn, for the pairs that the rater has answered."""
    if isinstance(priors, Priors) and priors.flat_items:
        # Without a prior two items that only this rater compared would be infinitely uncertain.
        priors = replace(priors, a=WEAK.a, b=WEAK.b)
    objective = _objective(triples, priors)
    found = solve_newton(objective, theta, quality, TOLERANCE)
    gap = found.theta[triples.winner] - found.theta[triples.loser]
    if triples.n_items > MOST_ITEMS:
        everyone = tuple(range(triples.n_raters))
        none = np.zeros(triples.size)
        return LeftOut(
            gap, none, _moderated(gap, none), found.theta, np.empty((0, 0)), (), everyone,
            triples, found.point, none,
        )  # fmt: skip
    inverse = np.ascontiguousarray(np.linalg.inv(objective.passes.curvature(found.point)))
    spread, failed = np.empty(triples.size), np.zeros(triples.n_raters, dtype=np.bool_)
    push, point, t = _push(objective, found.point), found.point, triples

    def work(first: int, last: int) -> None:
        kernels.leave_out(
            first, last, t.start, t.winner, t.loser, push, point.curve, point.rows, found.theta,
            inverse, MOST_LOCAL, gap, spread, failed,
        )  # fmt: skip

    run_chunks(work, objective.passes.chunks)
    exact = _to_refit(t, failed)
    for r in exact:
        _refit(t, priors, found.point, r, gap, spread)
    within = tuple(r for r in np.flatnonzero(failed).tolist() if r not in exact)
    for r in within:
        rows = slice(t.start[r], t.start[r + 1])
        i, j = t.winner[rows], t.loser[rows]
        gap[rows] = found.theta[i] - found.theta[j]
        spread[rows] = inverse[i, i] + inverse[j, j] - 2 * inverse[i, j]
    s = _moderated(gap, spread)
    return LeftOut(gap, spread, s, found.theta, inverse, tuple(exact), within, t, point, push)


def _objective(
    triples: Triples, priors: Priors | SignedPriors, copies: Floats | None = None
) -> Marginal | Signed:
    if isinstance(priors, SignedPriors):
        return signed_density(triples, priors, copies=copies)
    return Marginal(triples, priors, copies=copies)


def _push(objective: Marginal | Signed, point: Point) -> Floats:
    """Each triple's part of the gradient."""
    passes, t = objective.passes, objective.passes.triples
    s = passes.standing(point.theta)
    if isinstance(objective, Signed):
        q = np.repeat(point.quality, np.diff(t.start))
        return np.asarray(t.weight * q * (0.25 - s * s) / (0.5 + q * s))
    push = np.empty(t.size)

    def work(first: int, last: int) -> None:
        kernels.marginal_push(
            first, last, t.start, t.weight, s, objective.parts, objective.tops, push
        )

    run_chunks(work, passes.chunks)
    return push


def _to_refit(t: Triples, failed: NDArray[np.bool_]) -> list[int]:
    """Raters with a large share of all votes, and those whom one step cannot leave out."""
    total = np.add.reduceat(np.append(t.weight, 0.0), t.start[:-1])
    total[np.diff(t.start) == 0] = 0.0
    share = total / max(float(t.weight.sum()), 1e-300)
    wanted = np.flatnonzero((share > LARGE_SHARE) | failed)
    return sorted(wanted[np.argsort(-share[wanted], kind="stable")][:MOST_REFITS].tolist())


def _refit(
    t: Triples, priors: Priors | SignedPriors, top: Point, r: int, gap: Floats, spread: Floats
) -> None:
    copies = np.ones(t.n_raters)
    copies[r] = 0.0
    objective = _objective(t, priors, copies)
    found = solve_newton(objective, top.theta, top.quality, TOLERANCE)
    inverse = np.linalg.inv(objective.passes.curvature(found.point))
    rows = slice(t.start[r], t.start[r + 1])
    i, j = t.winner[rows], t.loser[rows]
    gap[rows] = found.theta[i] - found.theta[j]
    spread[rows] = inverse[i, i] + inverse[j, j] - 2 * inverse[i, j]


def _moderated(gap: Floats, spread: Floats) -> Floats:
    """E[sigma(d)] - 1/2 for d ~ Normal(gap, spread), by sigma(gap / sqrt(1 + pi spread / 8))."""
    return np.asarray(0.5 * np.tanh(0.5 * gap / np.sqrt(1.0 + np.pi * spread / 8.0)))
