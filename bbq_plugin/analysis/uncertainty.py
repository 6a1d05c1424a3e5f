"""How sure we are of theta: one face for five kinds of intervals.

``robust``     the Gaussian of ``laplace`` with a covariance that allows for clusters of answers
``laplace``    the Gaussian around the top of the posterior with rater quality integrated out
``posterior``  draws from the exact posterior
``bootstrap``  refits on resampled raters
``paper``      the paper's independent Gammas given the expected latents: too narrow, for comparison
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, sqrt
from statistics import NormalDist
from typing import Literal, cast, get_args

import numpy as np

from bbq_plugin.data.triples import Codes, Floats
from bbq_plugin.errors import UnsupportedError, UsageError
from bbq_plugin.model import Fit
from bbq_plugin.model.objectives import LARGEST_COVARIANCE
from bbq_plugin.model.robust import t_factor, t_quantile

Intervals = Literal["auto", "robust", "laplace", "posterior", "bootstrap", "paper"]
FEW_RATERS = 8
MOST_DRAWN, GAP_DRAWS = 100, 4000  # for the largest of all differences
MANY_DRAWS = 1000  # of more items than a covariance has
MANY_ITEMS = 1024  # beyond, the matrix of all pairs is worked off in blocks of columns


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """What is known of theta: draws and, for ``robust`` and ``laplace``, their Gaussian."""

    kind: str
    draws: Floats
    mean: Floats | None = None
    covariance: Floats | None = None
    warnings: tuple[str, ...] = ()
    #: Of the covariance; it holds the factor of Student's 95% interval already.
    freedom: float = inf
    #: Of theta relative to the mean item, where there are too many items for a covariance.
    variances: Floats | None = None

    @property
    def n_items(self) -> int:
        """How many items the draws are of."""
        return int(self.draws.shape[1])

    def relative_sd(self) -> Floats:
        """The standard deviation of each theta relative to the mean of all items."""
        if self.covariance is not None:
            return relative_sd(self.covariance)
        if self.variances is not None:
            return np.asarray(np.sqrt(self.variances))
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
            if self.mean is not None and self.variances is not None:
                middle, spread = self.mean, self.variances
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

    def tiers(self, order: Codes, level: float) -> Codes:
        """The tier of each place of ``order``, from 1: each item is better than all below its tier.

        That holds for all pairs at once with probability ``level``: a tier ends where every item
        above differs from every item below by more than the quantile of the largest of all
        differences, each in its own standard deviation (as in Tukey's test, with any covariance).
        """
        k = self.n_items
        known = self._summed_up()
        enough = known.largest_gap(level)
        last = np.zeros(k, dtype=np.int64)  # the last place that cannot be set apart from a place
        place = np.empty(k, dtype=np.int64)
        place[order] = np.arange(k)
        for first in range(0, k, MANY_ITEMS):
            columns = slice(first, first + MANY_ITEMS)
            z = cast("Floats", known._z(columns))  # of what is summed up it is known
            near = np.where(z[order] < enough, place[columns][None, :], 0)
            last = np.maximum(last, near.max(axis=1, initial=0))
        reach = np.maximum.accumulate(last)
        begins = np.concatenate(([True], np.arange(1, k) > reach[:-1]))
        return np.asarray(np.cumsum(begins), dtype=np.int64)

    def _summed_up(self) -> Uncertainty:
        """The same with a Gaussian, which draws of not too many items are summed up by."""
        if self.covariance is not None or self.n_items > MANY_ITEMS:
            return self
        covariance = np.atleast_2d(np.cov(self.draws, rowvar=False))
        return replace(self, mean=self.draws.mean(axis=0), covariance=covariance)

    def largest_gap(self, level: float) -> float:
        """What no |z| of all pairs exceeds, with probability ``level``, if all items are equal.

        From draws up to MOST_DRAWN items; beyond, and never more than, Bonferroni's bound.
        """
        k = self.n_items
        if k < 2:
            return 0.0
        tail = 1.0 - (1.0 - level) / (k * (k - 1))
        bound = t_quantile(self.freedom, tail)
        if k <= MOST_DRAWN and self.covariance is not None:
            rng = np.random.default_rng(0)
            roots, axes = eigen(self.covariance)
            noise = rng.standard_normal((GAP_DRAWS, k)) @ (axes * np.sqrt(roots)).T
            spread = np.diag(self.covariance)
            largest = np.zeros(GAP_DRAWS)
            for i in range(1, k):
                variance = spread[i] + spread[:i] - 2 * self.covariance[i, :i]
                gaps = np.abs(noise[:, i : i + 1] - noise[:, :i])
                gaps /= np.sqrt(np.maximum(variance, 1e-300))
                np.maximum(largest, gaps.max(axis=1), out=largest)
            if self.freedom < inf:
                largest /= np.sqrt(rng.chisquare(self.freedom, GAP_DRAWS) / self.freedom)
            bound = min(bound, float(np.quantile(largest, level)))
        return bound / sqrt(t_factor(self.freedom))


def relative_sd(covariance: Floats) -> Floats:
    """The standard deviation of each theta relative to the mean of all items."""
    centred = covariance - covariance.mean(axis=0)
    centred = centred - centred.mean(axis=1, keepdims=True)
    return np.asarray(np.sqrt(np.maximum(np.diag(centred), 0.0)))


def uncertainty(
    fit: Fit, intervals: Intervals = "auto", *, draws: int = 4000, seed: int = 0,
    camp: int | None = None,
) -> Uncertainty:  # fmt: skip
    """The uncertainty of a fit.

    ``auto`` is ``robust``, which of very many items has variances alone. It is ``laplace`` where
    answers form no clusters, and says so. ``camp`` (from 0): of that camp's theta, which has these
    two alone.
    """
    if intervals not in get_args(Intervals):
        raise UsageError(
            f"intervals={intervals!r}: expected one of {', '.join(get_args(Intervals))}"
        )
    if intervals == "auto":
        intervals = "robust"
    rng = np.random.default_rng(seed)
    if camp is not None and intervals not in ("robust", "laplace"):
        raise UnsupportedError(
            f"intervals={intervals!r}: those of one camp are robust or laplace; use one of these"
        )
    if intervals == "robust" and len(fit.items) > LARGEST_COVARIANCE:
        return _of_many(fit, min(draws, MANY_DRAWS), rng)
    if intervals in ("robust", "laplace"):
        remarks: tuple[str, ...] = ()
        if camp is not None:
            of_clusters = intervals == "robust" and bool(fit.robust.ways)
            stacked = fit.robust.stacked if of_clusters else fit.robust.own
            kind, remarks = ("robust", fit.robust.remarks) if of_clusters else ("laplace", ())
            covariance = camp_covariance(fit, stacked, camp)
            freedom = fit.robust.freedom if of_clusters else inf
            theta = fit.camp_theta[camp]
            return gaussian(kind, theta, covariance, remarks, draws, seed, freedom)
        mean, covariance, freedom = fit.laplace.mean, fit.laplace.covariance, inf
        if intervals == "robust":
            covariance, remarks = fit.covariance(), fit.robust.remarks
            freedom = fit.robust.freedom
            intervals = "robust" if fit.robust.ways else "laplace"
        return gaussian(intervals, mean, covariance, remarks, draws, seed, freedom)
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


def _of_many(fit: Fit, draws: int, rng: np.random.Generator) -> Uncertainty:
    """Of so many items that there are variances alone."""
    known = fit.robust
    variances = cast("Floats", known.variances)
    drawn = fit.theta + np.sqrt(variances) * rng.standard_normal((draws, variances.size))
    return Uncertainty(
        "robust" if known.ways else "laplace", drawn, fit.theta, None, known.remarks, known.freedom,
        variances,
    )  # fmt: skip


def camp_covariance(fit: Fit, stacked: Floats, camp: int) -> Floats:
    """Of one camp's theta: its block of all camps' covariance; what priors leave open is added."""
    k = len(fit.items)
    mine = slice(camp * k, (camp + 1) * k)
    block = np.asarray(stacked[mine, mine])
    if fit.population is None:
        return block
    slope = fit.population.slope[mine]
    return np.asarray(block + slope @ fit.population.covariance @ slope.T)


def gaussian(
    kind: str, mean: Floats, covariance: Floats, warnings: tuple[str, ...], draws: int, seed: int,
    freedom: float = inf,
) -> Uncertainty:  # fmt: skip
    """That of a Gaussian, with draws from it."""
    roots, axes = eigen(covariance)
    noise = np.random.default_rng(seed).standard_normal((draws, mean.size))
    drawn = mean + noise @ (axes * np.sqrt(roots)).T
    return Uncertainty(kind, drawn, mean, covariance, warnings, freedom)


def eigen(matrix: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues of a symmetric matrix, none below 0, and eigenvectors.

    Without a prior the level of a covariance has no variance: rounding may put it below 0. An
    eigenvector's sign is the library's whim: fixed, so that a seed means the same draws.
    """
    roots, axes = np.linalg.eigh(matrix)
    most = np.abs(axes).argmax(axis=0)
    axes = axes * np.where(axes[most, np.arange(roots.size)] < 0, -1.0, 1.0)
    return np.maximum(roots, 0.0), axes
