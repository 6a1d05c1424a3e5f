"""What the tests of a fit that follows its data share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bbq_plugin.data.triples import Triples, aggregate
from bbq_plugin.model import Priors
from bbq_plugin.model.objectives import Height, Joint, theta_density
from bbq_plugin.model.solvers import solve_newton
from tests.model.studies import draw_study

TENTH_OF_A_POINT = 0.1 / 173.7  # nats
ESTIMATED = Priors(3.0, 0.1, 6.0, 2.5, 0.15, estimated=True)
MODELS: dict[str, dict[str, Any]] = {
    "given priors": {"priors": Priors()},
    "estimated priors": {"priors": ESTIMATED, "marginal": True},
    "bayes-bt": {"priors": Priors(), "fixed": True},
    "bayes-bt, estimated": {"priors": Priors(2.5, estimated=True), "fixed": True, "marginal": True},
}


@dataclass(frozen=True)
class Rows:
    rater: NDArray[np.int64]
    winner: NDArray[np.int64]
    loser: NDArray[np.int64]
    weight: NDArray[np.float64]

    @staticmethod
    def of(triples: Triples) -> Rows:
        return Rows(
            triples.rater(),
            triples.winner.astype(np.int64),
            triples.loser.astype(np.int64),
            triples.weight,
        )

    def __getitem__(self, at: Any) -> Rows:
        return Rows(self.rater[at], self.winner[at], self.loser[at], self.weight[at])

    def columns(self, sign: float = 1.0) -> tuple[Any, Any, Any, Any]:
        return self.rater, self.winner, self.loser, sign * self.weight

    def triples(self, n_raters: int, n_items: int) -> Triples:
        rater, winner, loser = (
            column.astype(np.int32) for column in (self.rater, self.winner, self.loser)
        )
        return aggregate(rater, winner, loser, self.weight, n_raters, n_items)


def study_rows(seed: int, **options: Any) -> tuple[Rows, int, int]:
    triples = draw_study(seed, **options).data.triples
    return Rows.of(triples), triples.n_raters, triples.n_items


def objective(triples: Triples, priors: Priors, *, fixed: bool, marginal: bool) -> Any:
    triples = triples.without_raters() if fixed else triples
    if marginal:
        return theta_density(triples, priors, fixed=fixed)
    return Joint(triples, priors, fixed=fixed)


def cold(
    triples: Triples, priors: Priors, *, fixed: bool = False, marginal: bool = False
) -> tuple[Any, Any]:
    """From the prior's level on, with no memory."""
    target = objective(triples, priors, fixed=fixed, marginal=marginal)
    n = target.passes.triples.n_raters
    found = solve_newton(
        target, np.full(triples.n_items, 3.0), np.full(n, 1.0 if fixed else 0.8), 1e-8
    )
    return found.theta, np.ones(triples.n_raters) if fixed else found.quality


def outer_products(target: Any, point: Height) -> Any:
    """What the curvature of the pairs alone has too much."""
    pairs = replace(point, rows=np.zeros_like(point.rows))
    return target.passes.curvature(pairs) - target.passes.curvature(point)


def nothing(n_raters: int, n_items: int) -> Triples:
    empty = np.empty(0, dtype=np.int64)
    return Rows(empty, empty, empty, np.empty(0)).triples(n_raters, n_items)
