"""How sure we are of theta: one face for four kinds of intervals.

``laplace``    the Gaussian around the top of the posterior with rater quality integrated out
``posterior``  draws from the exact posterior
``bootstrap``  refits on resampled raters
``paper``      the paper's independent Gammas given the expected latents: too narrow, for comparison
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal, get_args

import numpy as np

from bbq_plugin.data.triples import Codes, Floats
from bbq_plugin.errors import UsageError
from bbq_plugin.model import Fit
from bbq_plugin.model.objectives import LARGEST_COVARIANCE

Intervals = Literal["auto", "laplace", "posterior", "bootstrap", "paper"]
FEW_RATERS = 8
MANY_ITEMS = 1024  # beyond, the matrix of all pairs is worked off in blocks of columns


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """What is known of theta: draws of it and, for ``laplace``, the Gaussian they come from."""

    kind: str
    draws: Floats
    mean: Floats | None = None
    covariance: Floats | None = None
    warnings: tuple[str, ...] = ()

    @property
    def n_items(self) -> int:
        """How many items the draws are of."""
        return int(self.draws.shape[1])

    def relative_sd(self) -> Floats:
        """The standard deviation of each theta relative to the mean of all items."""
        if self.covariance is not None:
            return relative_sd(self.covariance)
        return np.asarray((self.draws - self.draws.mean(axis=1, keepdims=True)).std(axis=0))

    def relative_interval(self, level: float) -> tuple[Floats, Floats]:
        """Ends of the interval of each theta relative to the mean of all items."""
        if self.mean is not None:
            reach = NormalDist().inv_cdf((1 + level) / 2) * self.relative_sd()
            middle = self.mean - self.mean.mean()
            return middle - reach, middle + reach
        relative = self.draws - self.draws.mean(axis=1, keepdims=True)
        low, high = np.quantile(relative, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return low, high

    def difference_interval(self, i: int, j: int, level: float) -> tuple[float, float]:
        """Ends of the interval of theta_i - theta_j."""
        if self.mean is not None and self.covariance is not None:
            c = self.covariance
            sd = np.sqrt(max(c[i, i] + c[j, j] - 2 * c[i, j], 0.0))
            reach, middle = NormalDist().inv_cdf((1 + level) / 2) * sd, self.mean[i] - self.mean[j]
            return float(middle - reach), float(middle + reach)
        gap = self.draws[:, i] - self.draws[:, j]
        low, high = np.quantile(gap, [(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)

    def _z(self, columns: slice) -> Floats | None:
        """Differences in their own standard deviations, where the Gaussian is known.

        Of very many items, each compared with few of the others, draws are summed up in the same
        way, two items taken as independent: all pairs of draws would take hours.
        """
        if self.mean is None or self.covariance is None:
            if self.n_items <= MANY_ITEMS:
                return None
            middle, spread = self.draws.mean(axis=0), self.draws.var(axis=0)
            gap = middle[:, None] - middle[None, columns]
            return np.asarray(gap / np.sqrt(spread[:, None] + spread[None, columns] + 1e-300))
        spread = np.diag(self.covariance)
        gap = self.mean[:, None] - self.mean[None, columns]
        variance = spread[:, None] + spread[None, columns] - 2 * self.covariance[:, columns]
        return np.asarray(gap / np.sqrt(np.maximum(variance, 1e-300)))

    def better(self, columns: slice = slice(None)) -> Floats:
        """P(item i is better than item j), rows i, for the given columns j; 1/2 on the diagonal."""
        z = self._z(columns)
        if z is not None:
            from scipy.special import ndtr  # noqa: PLC0415 (loads slowly; ranks do without it)

            return np.asarray(ndtr(z))
        chosen = np.arange(self.n_items)[columns]
        out = np.empty((self.n_items, chosen.size))
        for c, j in enumerate(chosen):
            column = self.draws[:, j : j + 1]
            out[:, c] = (self.draws > column).mean(axis=0)
            out[:, c] += 0.5 * (self.draws == column).mean(axis=0)
        return out

    def p_best(self) -> Floats:
        """P(item is the best of all)."""
        top = np.argmax(self.draws, axis=1)
        return np.asarray(np.bincount(top, minlength=self.n_items) / top.size)

    def rank_interval(self, level: float) -> tuple[Codes, Codes]:
        """Best and worst rank of each item: only items better (worse) beyond doubt count.

        "Beyond doubt" is P >= (1 + level) / 2: the item lies outside the two-sided interval.
        """
        sure, k = (1 + level) / 2, self.n_items
        above, below = np.zeros(k, dtype=np.int64), np.zeros(k, dtype=np.int64)
        for first in range(0, k, MANY_ITEMS):
            columns = slice(first, first + MANY_ITEMS)
            z = self._z(columns)
            known = self.better(columns) >= sure if z is None else z >= NormalDist().inv_cdf(sure)
            below += known.sum(axis=1)
            above[columns] = known.sum(axis=0)
        return 1 + above, k - below


def relative_sd(covariance: Floats) -> Floats:
    """The standard deviation of each theta relative to the mean of all items."""
    centred = covariance - covariance.mean(axis=0)
    centred = centred - centred.mean(axis=1, keepdims=True)
    return np.asarray(np.sqrt(np.maximum(np.diag(centred), 0.0)))


def uncertainty(
    fit: Fit, intervals: Intervals = "auto", *, draws: int = 4000, seed: int = 0
) -> Uncertainty:
    """The uncertainty of a fit.

    ``auto`` is ``laplace``; for very many items ``posterior``, or ``bootstrap`` if weights are
    fractions.
    """
    if intervals not in get_args(Intervals):
        raise UsageError(
            f"intervals={intervals!r}: expected one of {', '.join(get_args(Intervals))}"
        )
    if intervals == "auto":
        intervals = "laplace"
        if len(fit.items) > LARGEST_COVARIANCE:
            from bbq_plugin.model.sampling import whole_weights  # noqa: PLC0415 (for few fits)

            intervals = "posterior" if whole_weights(fit.data.triples) else "bootstrap"
    rng = np.random.default_rng(seed)
    if intervals == "laplace":
        mean, covariance = fit.laplace.mean, fit.laplace.covariance
        roots, axes = eigen(covariance)
        noise = rng.standard_normal((draws, mean.size)) @ (axes * np.sqrt(roots)).T
        return Uncertainty("laplace", mean + noise, mean, covariance)
    if intervals == "posterior":
        sample = fit.sample(draws, seed, keep_quality=False)
        return Uncertainty("posterior", sample.theta, warnings=sample.warnings)
    if intervals == "bootstrap":
        few = f"{len(fit.raters)} raters are few for a bootstrap over raters: intervals too narrow"
        warnings = (few,) if len(fit.raters) < FEW_RATERS else ()
        return Uncertainty("bootstrap", fit.bootstrap(min(draws, 1000), seed), warnings=warnings)
    shape, rate = fit.paper_posterior()
    theta = np.log(np.maximum(rng.standard_gamma(shape, (draws, shape.size)) / rate, 1e-300))
    narrow = "the paper's intervals are too narrow (77% instead of 95%): do not decide by them"
    return Uncertainty("paper", theta, warnings=(narrow,))


def eigen(matrix: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues of a symmetric matrix, none below 0, and eigenvectors.

    Without a prior the level of a covariance has no variance: rounding may put it below 0. An
    eigenvector's sign is the library's whim: fixed, so that a seed means the same draws.
    """
    roots, axes = np.linalg.eigh(matrix)
    most = np.abs(axes).argmax(axis=0)
    axes = axes * np.where(axes[most, np.arange(roots.size)] < 0, -1.0, 1.0)
    return np.maximum(roots, 0.0), axes
