"""The paper's EM, written down from its equations in plain NumPy: the benchmarks' measuring stick.

It shares no code with the package: no kernels, no aggregation, no solver.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bbq_plugin import Comparisons

Floats = NDArray[np.float64]

JUDGED_EVERY = 50  # steps
ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class Counts:
    """w_{r,ij} of the paper: the distinct wins with how often (or how heavily) each was seen."""

    rater: NDArray[np.int64]
    winner: NDArray[np.int64]
    loser: NDArray[np.int64]
    weight: Floats
    raters: int
    items: int

    @classmethod
    def of(cls, data: Comparisons) -> Counts:
        """Count equal wins with numpy.unique."""
        K = data.n_items
        key = (data.rater.astype(np.int64) * K + data.winner) * K + data.loser
        distinct, place = np.unique(key, return_inverse=True)
        weight = np.bincount(place, data.weight).astype(np.float64)
        return cls(
            distinct // (K * K), distinct // K % K, distinct % K, weight, max(1, data.n_raters), K
        )


def em(
    counts: Counts,
    *,
    a: float = 5.0,
    b: float = 0.1,
    alpha: float = 10.0,
    beta: float = 2.0,
    rescale: bool,
    quality: bool = True,
) -> Iterator[tuple[Floats, Floats]]:
    """Yield (lambda, q) after each step, for ever.

    `rescale` moves all skills to the level b sum(lambda) = K (a - 1) after each step, which
    changes where the steps lead as little as the likelihood sees of it, and saves most of them.
    Without `quality` every q stays 1 (Bayes-BT).
    """
    r, i, j, w = counts.rater, counts.winner, counts.loser, counts.weight
    K, R = counts.items, counts.raters
    n_r = np.bincount(r, w, R)
    lam = np.full(K, (a - 1) / b)
    q = np.full(R, (alpha - 1) / (alpha + beta - 2)) if quality else np.ones(R)
    while True:
        y = lam[i] / (lam[i] + lam[j])
        gamma = q[r] * y / (q[r] * y + (1 - q[r]) * 0.5)
        wg = w * gamma
        m = np.bincount(i * K + j, wg, K * K).reshape(K, K)
        m = m + m.T
        wins = np.bincount(i, wg, K)
        if quality:
            q = (np.bincount(r, wg, R) + alpha - 1) / (n_r + alpha + beta - 2)
        lam = (wins + a - 1) / ((m / (lam[:, None] + lam[None, :])).sum(axis=1) + b)
        if rescale:
            lam = lam * (K * (a - 1) / (b * lam.sum()))
        yield lam, q


def em_to(
    counts: Counts, distance: float, *, most: int = 500_000, **options: bool
) -> tuple[Floats, Floats, int]:
    """Run until the distance still to go, judged by how the steps shrink, is below `distance`.

    Steps that shrink by a factor rho have step * rho / (1 - rho) to go. Returns theta, q, steps.
    """
    theta, q = np.zeros(counts.items), np.zeros(counts.raters)
    before, rho, to_go = np.inf, 1.0, np.inf
    for n, (lam, new_q) in enumerate(em(counts, rescale=True, **options), start=1):
        new = np.log(lam)
        step = max(float(np.max(np.abs(new - theta))), float(np.max(np.abs(new_q - q))))
        theta, q = new, new_q
        if n % JUDGED_EVERY == 0:
            if ROUNDING < before < np.inf:  # below, steps no longer shrink and say nothing of rho
                rho = (step / before) ** (1 / JUDGED_EVERY)
            before = step
            to_go = step * rho / (1 - rho) if rho < 1 else np.inf
            if n > JUDGED_EVERY and rho == 1.0 and step <= ROUNDING:
                to_go = step  # nothing but rounding since the first judgement
            if to_go < distance:
                return theta, q, n
        if n == most:
            break
    raise RuntimeError(f"the literal EM still had {to_go:.1e} to go after {most} steps")
