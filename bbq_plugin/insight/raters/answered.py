"""Decided answers of each rater in order, and what a sign in them is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bbq_plugin.insight.raters.evidence import phi
from bbq_plugin.insight.uncertainty import Floats

__all__ = ["Rows", "Sign", "count_by", "p_value", "share"]


@dataclass(frozen=True, slots=True, eq=False)
class Sign:
    """By rater: what was seen, what was to be expected, of how many answers, and the p-value."""

    seen: Floats
    expected: Floats
    n: Floats
    p: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Decided answers in the order of raters and, within a rater, of time."""

    rater: NDArray[np.int64]
    winner: NDArray[np.int64]
    loser: NDArray[np.int64]
    weight: Floats
    s: Floats  # y - 1/2 of the winner against the loser, by the others
    row: NDArray[np.int64]
    n_raters: int
    slate: NDArray[np.int64] | None = None  # -1: shown as a pair

    def where(self, mask: NDArray[np.bool_]) -> Rows:
        """Some of them."""
        return Rows(
            self.rater[mask], self.winner[mask], self.loser[mask], self.weight[mask], self.s[mask],
            self.row[mask], self.n_raters, None if self.slate is None else self.slate[mask],
        )  # fmt: skip

    def count(self, weights: NDArray[np.float64] | None = None) -> Floats:
        """How many by rater, or the sum of these weights."""
        return count_by(self.rater, self.n_raters, weights)


def count_by(
    rater: NDArray[Any], n_raters: int, weights: NDArray[np.float64] | None = None
) -> Floats:
    """How many by rater, or the sum of these weights."""
    return np.asarray(np.bincount(rater, weights, n_raters), dtype=np.float64)


def share(part: Floats, n: Floats) -> Floats:
    """part / n, NaN without any."""
    return np.asarray(np.divide(part, n, out=np.full(n.size, np.nan), where=n > 0))


def p_value(total: Floats, variance: Floats, *, sides: int) -> Floats:
    """Of a sum that is near normal: two sides, or -1 for the lower tail alone; NaN without any."""
    z = np.divide(total, np.sqrt(variance), out=np.full(total.size, np.nan), where=variance > 0)
    return np.asarray(phi(z) if sides < 0 else 2.0 * phi(-np.abs(z)))
