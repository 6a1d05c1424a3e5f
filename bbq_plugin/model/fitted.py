"""A fit: the optimum of a model with the data it belongs to, and what can be asked of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from bbq_plugin.aggregate import Triples
from bbq_plugin.comparisons import Comparisons
from bbq_plugin.errors import UnsupportedError, UsageError
from bbq_plugin.model.bootstrap import resampled
from bbq_plugin.model.choices import Model, Solver
from bbq_plugin.model.linear import with_level
from bbq_plugin.model.marginal import ThetaDensity, theta_density
from bbq_plugin.model.objective import Floats, Joint
from bbq_plugin.model.population import Population
from bbq_plugin.model.priors import CrowdPriors, Priors
from bbq_plugin.model.raters import RaterPosterior, rater_posterior
from bbq_plugin.model.sampling import Draws, gibbs, metropolis, whole_weights
from bbq_plugin.model.signed import Signed, SignedPriors, signed_density
from bbq_plugin.model.solve import solve_newton

if TYPE_CHECKING:
    from bbq_plugin.model.crowd import CrowdBT

__all__ = ["LARGEST_COVARIANCE", "Fit", "Laplace", "crowd_of", "joint_of", "optimum_at"]

LAPLACE_TOLERANCE = 1e-4  # nats, of which the last step leaves the square
_OTHER_INTERVALS = "use intervals='laplace' or 'bootstrap', or fit model='bbq'"
LARGEST_COVARIANCE = 4096  # items; beyond, one K x K matrix is a gigabyte and more


@dataclass(frozen=True, slots=True, eq=False)
class Laplace:
    """The Gaussian that the posterior of theta looks like near its top, q integrated out."""

    mean: Floats
    covariance: Floats


@dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """An optimum with the data it belongs to.

    ``theta`` (nats) and ``quality`` are aligned with ``items`` and ``raters``. Under given priors
    they are the joint maximum of the paper's log-posterior; under estimated priors theta is the
    maximum with quality integrated out and ``quality`` its posterior mean. Of bbq-signed,
    ``quality`` is q+ - q- in [-1, 1]. ``log_posterior`` is the last entry of ``trace``, up to the
    priors' constants.
    """

    data: Comparisons
    model: Model
    solver: Solver
    priors: Priors | SignedPriors | CrowdPriors
    theta: Floats
    quality: Floats
    trace: Floats
    error: float
    converged: bool
    warnings: tuple[str, ...]
    population: Population | None = None

    @property
    def items(self) -> tuple[str, ...]:
        """Names, aligned with ``theta``."""
        return self.data.items

    @property
    def raters(self) -> tuple[str, ...]:
        """Names, aligned with ``quality``; empty when no rater is known."""
        return self.data.raters

    @property
    def log_posterior(self) -> float:
        """The height of the optimum, up to the priors' constants."""
        return float(self.trace[-1])

    @property
    def rated(self) -> bool:
        """Whether the model has a quality for each rater."""
        return self.model != "bayes-bt" and self.data.has_raters

    def __repr__(self) -> str:
        return (
            f"<Fit {self.model}: {len(self.items)} items, {len(self.raters)} raters, "
            f"{self.data.n_comparisons} comparisons, {self.priors}>"
        )

    @property
    def _triples(self) -> Triples:
        return self.data.triples if self.rated else self._pooled

    @cached_property
    def _pooled(self) -> Triples:
        return self.data.triples.without_raters()

    def _given_priors(self, what: str, instead: str = "fit model='bbq'") -> Priors:
        if not isinstance(self.priors, Priors):
            raise UnsupportedError(f"{what} is not defined for {self.model}; {instead}")
        return self.priors

    @cached_property
    def laplace(self) -> Laplace:
        """Mode and covariance of theta, rater quality (and estimated priors) taken into account."""
        k = len(self.items)
        if k > LARGEST_COVARIANCE:
            raise UnsupportedError(
                f"the covariance of {k} items is a {k} x {k} matrix, more than is sensible "
                f"(the limit is {LARGEST_COVARIANCE}); whole weights can be sampled "
                "(intervals='posterior'), ties and other fractions resampled ('bootstrap')"
            )
        if isinstance(self.priors, CrowdPriors):
            crowd = crowd_of(self.data.triples)
            curvature = crowd.curvature(self.theta, 0.5 * (1.0 + self.quality))
            return Laplace(self.theta, _inverse(curvature))
        if isinstance(self.priors, SignedPriors):
            signed = signed_density(self._triples, self.priors)
            top = solve_newton(signed, self.theta, self.quality, LAPLACE_TOLERANCE)
            return Laplace(top.theta, _inverse(signed.passes.curvature(top.point)))
        density = theta_density(self._triples, self.priors, fixed=not self.rated)
        start = self.quality if self.rated else np.ones(1)
        found = solve_newton(density, self.theta, start, LAPLACE_TOLERANCE)
        curvature = density.passes.curvature(found.point)
        covariance = _inverse(with_level(curvature, flat=self.priors.flat_items))
        if self.priors.flat_items:
            # Only differences are known: what was added to pin the level is taken out again.
            middle = np.eye(k) - 1.0 / k
            covariance = middle @ covariance @ middle
        if self.population is not None:
            slope = self.population.slope
            covariance = covariance + slope @ self.population.covariance @ slope.T
        return Laplace(found.theta, covariance)

    def theta_density(self) -> ThetaDensity | None:
        """The log-density of theta with quality integrated out; crowd-bt has none.

        Of bbq-signed it has quality at its best.
        """
        if isinstance(self.priors, CrowdPriors):
            return None
        if isinstance(self.priors, SignedPriors):
            return signed_density(self._triples, self.priors)
        return theta_density(self._triples, self.priors, fixed=not self.rated)

    def covariance(self) -> Floats:
        """Of theta, with rater quality integrated out: the inverse curvature of the posterior."""
        return self.laplace.covariance

    def sample(
        self,
        n: int = 2000,
        seed: int = 0,
        *,
        method: Literal["auto", "gibbs", "metropolis"] = "auto",
        keep_quality: bool = True,
    ) -> Draws:
        """``n`` draws of (theta, quality) from the exact posterior.

        Gibbs where it applies (given priors, whole weights), else Metropolis; under estimated
        priors Metropolis draws the population's parameters too. ``keep_quality=False`` saves the
        memory of draws x raters.
        """
        if n < 8:
            raise UsageError(f"sample(n={n}): at least 8 draws, else nothing can be said of mixing")
        priors = self._given_priors("sample() (intervals='posterior')", _OTHER_INTERVALS)
        if priors.flat_items:
            raise UnsupportedError(
                "without a prior on the items (a = 1, b = 0) there is no posterior to sample; "
                "use intervals='laplace' or 'bootstrap', or give a > 1"
            )
        triples, fixed = self._triples, not self.rated
        if method == "auto":
            suits = not priors.estimated and whole_weights(triples)
            method = "gibbs" if suits else "metropolis"
        if method == "gibbs":
            if not whole_weights(triples):
                raise UnsupportedError(
                    "the Gibbs sampler needs whole weights, and these data have fractions "
                    "(ties or broken rankings); use method='metropolis'"
                )
            quality = self.quality if self.rated else np.ones(1)
            draws = gibbs(
                triples,
                priors,
                self.theta,
                quality,
                n,
                seed,
                fixed=fixed,
                keep_quality=keep_quality,
            )
        else:
            centre, covariance = self._joint_laplace()
            draws = metropolis(
                triples, priors, centre, covariance, n, seed, fixed=fixed, keep_quality=keep_quality
            )
        return draws

    def _joint_laplace(self) -> tuple[Floats, Floats]:
        """Centre and covariance of theta and, when it was estimated, the population's eta."""
        laplace, population = self.laplace, self.population
        if population is None:
            return laplace.mean, laplace.covariance
        both = population.slope @ population.covariance
        return (
            np.concatenate((laplace.mean, population.eta)),
            np.block([[laplace.covariance, both], [both.T, population.covariance]]),
        )

    def bootstrap(self, n: int = 1000, seed: int = 0) -> Floats:
        """theta of ``n`` resamples of raters (rows), each fitted from this fit on."""
        if not self.data.has_raters:
            raise UnsupportedError(
                "a bootstrap over raters needs raters, and these data have none; "
                "use intervals='laplace' or 'posterior'"
            )
        if len(self.raters) < 2:
            raise UnsupportedError(
                "a bootstrap over raters needs at least two raters, and these data have one; "
                "use intervals='laplace' or 'posterior'"
            )
        return resampled(self.data.triples, self._refit, n, seed)

    def theta_without(self, raters: Sequence[int]) -> Floats:
        """theta as it would be without these raters (places in ``raters``); the priors stay."""
        copies = np.ones(self.data.triples.n_raters)
        copies[list(raters)] = 0.0
        return self._refit(copies)

    def _refit(self, copies: Floats) -> Floats:
        """theta with each rater counted ``copies`` times; the priors stay as they are."""
        triples, fixed = self.data.triples, not self.rated
        if isinstance(self.priors, CrowdPriors):
            here = self.theta, 0.5 * (1.0 + self.quality)
            return crowd_of(triples, copies).solve(1e-5, here)[0]
        if isinstance(self.priors, SignedPriors):
            signed = Signed(triples, self.priors, copies=copies)
            return solve_newton(signed, self.theta, self.quality, 1e-6).theta
        quality = self.quality if self.rated else np.ones(triples.n_raters)
        if self.priors.estimated:
            density = theta_density(triples, self.priors, fixed=fixed, copies=copies)
            return solve_newton(density, self.theta, quality, 1e-5).theta
        return solve_newton(
            joint_of(triples, self.priors, fixed=fixed, copies=copies), self.theta, quality, 1e-6
        ).theta

    def paper_posterior(self) -> tuple[Floats, Floats]:
        """Shape and rate of the paper's Gamma for each skill, the latents at their expectation.

        It takes the other skills and every quality as known, hence its intervals are too narrow.
        """
        priors = self._given_priors("the paper's posterior (intervals='paper')", _OTHER_INTERVALS)
        quality = self.quality if self.rated else np.ones(1)
        wins, draw = joint_of(self._triples, priors, fixed=not self.rated).em_sums(
            self.theta, quality
        )
        return priors.a + wins, priors.b + draw / np.exp(self.theta)

    def rater_posterior(self, level: float = 0.95, threshold: float = 0.5) -> RaterPosterior:
        """The posterior of each rater's quality, theta at its mode."""
        return self.rater_posterior_under(
            self._given_priors("the posterior of quality"), level, threshold
        )

    def rater_posterior_under(
        self, priors: Priors, level: float = 0.95, threshold: float = 0.5
    ) -> RaterPosterior:
        """The same, had the raters come from another population."""
        if not self.rated:
            raise UnsupportedError(f"{self.model} has no rater quality; fit model='bbq'")
        return rater_posterior(self.data.triples, priors, self.theta, level, threshold)


def crowd_of(triples: Triples, copies: Floats | None = None) -> CrowdBT:
    """The log-posterior of Crowd-BT."""
    # scipy's optimiser and sparse matrices, which only this baseline needs, load slowly
    from bbq_plugin.model.crowd import CrowdBT  # noqa: PLC0415

    return CrowdBT(triples, copies)


def _inverse(matrix: Floats) -> Floats:
    inverse = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
    return 0.5 * (inverse + inverse.T)


def joint_of(
    triples: Triples, priors: Priors, *, fixed: bool, copies: Floats | None = None
) -> Joint:
    """The paper's log-posterior, each rater counted ``copies`` times."""
    return Joint(triples, priors.a, priors.b, priors.alpha, priors.beta, fixed=fixed, copies=copies)


def optimum_at(found: Fit, theta: Floats) -> tuple[Floats, float]:
    """Quality of each rater at this theta, and the height of the log-posterior there."""
    priors, triples = found._given_priors("quality at theta"), found._triples
    joint = joint_of(triples, priors, fixed=not found.rated)
    objective: Joint | ThetaDensity = joint
    if priors.estimated:
        objective = theta_density(triples, priors, fixed=not found.rated)
    point = objective.at(theta, joint.usual_quality())
    return point.quality, point.value
