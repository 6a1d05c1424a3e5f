"""Are two items different? The test of the difference, by its own posterior.

Whether separate intervals overlap is not that test (it rejects equal items thirty times too
seldom), and Wald's z = difference / sd is a little shy where the posterior is skewed. So the
probability is computed from the posterior's fall between its top and the best point at which the
two items are equal, corrected to third order (DiCiccio and Martin 1991):

    r = sign(d) sqrt(2 (F(top) - F(equal)))
    v = dF/dd(equal) sqrt(det j_rest(equal) / det j(top))
    P(left better) = Phi(r + log(v / r) / r)

with F the log-density of theta, quality integrated out, and j minus its Hessian. F takes answers as
independent and estimated priors as known: what clusters of answers and the priors add to the
variance of the difference blunts the root by the ratio of the standard deviations.

A panel with several camps is ranked by win_share, its mean theta is nobody's ranking, and the two
may disagree. So there the difference of the win shares is tested, by Wald's z with the covariance
that the leaderboard's ranks use; ``tested`` says which it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import erfc, sqrt
from statistics import NormalDist
from typing import Literal

import numpy as np

from bbq_plugin.analysis.leaderboard import Row
from bbq_plugin.data.triples import Floats
from bbq_plugin.errors import ConvergenceError, UsageError
from bbq_plugin.model import Fit
from bbq_plugin.model.objectives import Height, Objective
from bbq_plugin.model.solvers import with_level
from bbq_plugin.model.win_share import win_shares

MOST_STEPS = 50
HALVINGS = 12
SHORTEST = 0.1  # standard deviations, below which any unit will do
NEARLY_EQUAL = 1e-3  # standard deviations, below which the correction is a ratio of two zeros


@dataclass(frozen=True, slots=True)
class Difference(Row):
    """``theta`` is left minus right in nats; ``p_value`` is two-sided.

    Where the panel is divided into camps, the difference of the win shares is what ``p_better`` and
    ``p_value`` speak of (``tested``), as the leaderboard's ranks do; else these three are None.
    """

    left: str
    right: str
    theta: float
    theta_lower: float
    theta_upper: float
    p_better: float
    p_value: float
    tested: Literal["theta", "win_share"] = "theta"
    win_share: float | None = None
    win_share_lower: float | None = None
    win_share_upper: float | None = None


def compare(fit: Fit, left: str, right: str, level: float = 0.95) -> Difference:
    """The difference of two items with its interval, and P(left is better than right)."""
    if not 0 < level < 1:
        raise UsageError(f"level={level!r}: expected a probability such as 0.95")
    i, j = (_place(fit, name) for name in (left, right))
    if i == j:
        raise UsageError(f"compare({left!r}, {right!r}): an item against itself")
    mean, covariance = fit.laplace.mean, fit.covariance()
    gap = float(mean[i] - mean[j])
    sd, own = (_sd_of_gap(c, i, j) for c in (covariance, fit.laplace.covariance))
    if fit.division is not None:
        return _of_shares(fit, i, j, gap, sd, level)
    given = own**2
    if fit.population is not None:
        along = fit.population.slope[i] - fit.population.slope[j]
        given -= float(along @ fit.population.covariance @ along)
    z = _signed_root(fit, i, j, gap / own) * sqrt(max(given, 0.0)) / sd
    # An interval in the same units as the test: 0 lies outside exactly when the test says so.
    unit = gap / z if abs(z) > SHORTEST and gap * z > 0 else sd
    reach = NormalDist().inv_cdf((1 + level) / 2) * unit
    return Difference(left, right, gap, gap - reach, gap + reach, *_p_of(z))


def _of_shares(fit: Fit, i: int, j: int, gap: float, sd: float, level: float) -> Difference:
    """Of a panel with several camps: the difference of the panel's preferences."""
    known = win_shares(fit, level)
    apart = float(known.share[i] - known.share[j])
    spread = _sd_of_gap(np.asarray(known.covariance), i, j)
    times = NormalDist().inv_cdf((1 + level) / 2)
    return Difference(
        fit.items[i], fit.items[j], gap, gap - times * sd, gap + times * sd,
        *_p_of(apart / spread), "win_share", apart, apart - times * spread, apart + times * spread,
    )  # fmt: skip


def _p_of(z: float) -> tuple[float, float]:
    """Phi(z), exact far into both tails, and the two-sided p-value."""
    p, other = 0.5 * erfc(-z / sqrt(2)), 0.5 * erfc(z / sqrt(2))
    return p, 2 * min(p, other)


def _sd_of_gap(covariance: Floats, i: int, j: int) -> float:
    return sqrt(max(float(covariance[i, i] + covariance[j, j] - 2 * covariance[i, j]), 1e-300))


def _place(fit: Fit, name: str) -> int:
    try:
        return fit.items.index(name)
    except ValueError:
        known = ", ".join(fit.items[:10]) + (", …" if len(fit.items) > 10 else "")
        raise UsageError(f"there is no item {name!r} in this fit; it has {known}") from None


def _signed_root(fit: Fit, i: int, j: int, wald: float) -> float:
    """r + log(v / r) / r, and Wald's z where that is not defined."""
    density = fit.theta_density()
    if density is None or abs(wald) < NEARLY_EQUAL:
        return wald
    top = density.at(fit.laplace.mean, np.ones(density.passes.triples.n_raters))
    # Coordinates: half the difference, and every other direction with i and j moving as one.
    apart = np.zeros(top.theta.size)
    apart[i], apart[j] = 0.5, -0.5
    rest = np.delete(np.eye(top.theta.size), j, axis=1)
    rest[j, i - (i > j)] = 1.0
    equal = _best_equal(density, top.theta, rest, i, j)
    fall = top.value - equal.value
    if fall <= 0:
        return wald
    r = float(np.sign(wald) * np.sqrt(2 * fall))
    both = np.column_stack((apart, rest))
    log_ratio = _log_det(density, equal, rest) - _log_det(density, top, both)
    v = float(equal.gradient @ apart) * float(np.exp(0.5 * log_ratio))
    return r + float(np.log(v / r)) / r if v * r > 0 else r


def _matrix(density: Objective, point: Height, basis: Floats) -> Floats:
    curvature = with_level(density.passes.curvature(point), flat=not point.prior_curve.any())
    reduced: Floats = basis.T @ curvature @ basis
    return reduced


def _log_det(density: Objective, point: Height, basis: Floats) -> float:
    return float(np.linalg.slogdet(_matrix(density, point, basis))[1])


def _best_equal(density: Objective, theta: Floats, rest: Floats, i: int, j: int) -> Height:
    """The top of the density among all theta in which items i and j are equal."""
    start = theta.copy()
    start[i] = start[j] = 0.5 * (theta[i] + theta[j])
    quality = np.ones(density.passes.triples.n_raters)
    point = density.at(start, quality)
    for _ in range(MOST_STEPS):
        step = rest @ np.linalg.solve(_matrix(density, point, rest), rest.T @ point.gradient)
        if np.max(np.abs(step)) < 1e-6:
            return point
        for halving in range(HALVINGS):
            trial = density.at(point.theta + step * 0.5**halving, quality)
            if trial.value >= point.value - density.rounding(point.value):
                break
        point = trial
    raise ConvergenceError("the two items could not be set equal; compare their intervals instead")
