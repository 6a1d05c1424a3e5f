"""A fit that follows its data: answers come, change and go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bbq_plugin.aggregate import Triples, aggregate
from bbq_plugin.model.marginal import theta_density
from bbq_plugin.model.objective import Floats, Joint, Objective
from bbq_plugin.model.priors import Priors
from bbq_plugin.model.solve import Solution, solve_newton

__all__ = ["Refreshed", "Streaming"]


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What a refresh did: ``error`` is how far theta may be off (nats)."""

    how: Literal["incremental", "full"]
    error: float


class Streaming:
    """The triples of a study, changes on top of them, and the optimum that follows."""

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
        self.triples = triples.without_raters() if fixed else triples
        self._n_raters = triples.n_raters
        self._theta, self._quality = theta, quality
        self._pending: list[tuple[NDArray[np.int32], ...]] = []

    @property
    def theta(self) -> Floats:
        """Skills in nats, as of the last refresh."""
        if self._theta is None:
            self.solve()
        assert self._theta is not None  # noqa: S101
        return self._theta

    def change(
        self,
        rater: NDArray[np.int32],
        winner: NDArray[np.int32],
        loser: NDArray[np.int32],
        weight: Floats,
    ) -> None:
        """Add comparisons, or take them back (weight below 0), from the next refresh on."""
        if rater.size:
            self._n_raters = max(self._n_raters, int(rater.max()) + 1)
            self._pending.append((rater * 0 if self.fixed else rater, winner, loser, weight))  # type: ignore[arg-type]

    def refresh(self) -> Refreshed:
        """Follow the changes since the last refresh."""
        return Refreshed("full", self.solve(1e-5).error)

    def solve(self, tol: float = 1e-6) -> Solution:
        """Full passes until Newton's step is at most ``tol`` nats: the test of a cold fit."""
        t = self.triples
        rows = [(t.rater().astype(np.int32), t.winner, t.loser, t.weight), *self._pending]
        rater, winner, loser, weight = (np.concatenate(c) for c in zip(*rows, strict=True))
        n_items = max(t.n_items, int(max(winner.max(), loser.max())) + 1)
        summed = aggregate(rater, winner, loser, weight, int(rater.max()) + 1, n_items)
        keep = summed.weight > 1e-9
        self.triples = t = aggregate(
            summed.rater()[keep].astype(np.int32), summed.winner[keep], summed.loser[keep],
            summed.weight[keep], max(1, 1 if self.fixed else self._n_raters), n_items,
        )  # fmt: skip
        self._pending = []
        p = self.priors
        joint = Joint(t, p.a, p.b, p.alpha, p.beta, fixed=self.fixed)
        objective: Objective = theta_density(t, p, fixed=self.fixed) if self.marginal else joint
        theta, quality = joint.start()
        if self._theta is not None:
            theta[: self._theta.size] = self._theta
        found = solve_newton(objective, theta, quality, tol)
        self._theta, self._quality = found.theta, found.quality
        return found
