"""``bbq``, the paper's model, and ``bayes-bt``, the same with every rater's quality held at 1.

Under given priors a fit is the joint maximum of the paper's log-posterior of (theta, q). Under
estimated priors theta is the maximum with quality integrated out, and quality its posterior mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from bbq_plugin.data.triples import Floats, Triples
from bbq_plugin.errors import UsageError
from bbq_plugin.model.objectives import (
    Joint,
    Marginal,
    Summed,
    joint_density,
    level_of,
    theta_density,
)
from bbq_plugin.model.parts import Parts
from bbq_plugin.model.prior_estimation import GREAT_DOUBT, MOST_DENSE, estimate_priors
from bbq_plugin.model.priors import AnyPriors, Priors
from bbq_plugin.model.robust import Moments, integrated_quality, known_quality
from bbq_plugin.model.solvers import (
    LAPLACE_TOLERANCE,
    Laplace,
    Optimum,
    inverse,
    solve_em,
    solve_newton,
    with_level,
)

if TYPE_CHECKING:
    from bbq_plugin.data.dataset import Comparisons
    from bbq_plugin.model.fit import Fit

#: Nats; the climb over the priors moves no item so far that many answers hold.
FAR = 10.0


class BBQModel:
    """The model of that name; ``rated`` says whether each rater has a quality, to be judged by."""

    uses_inverted = False

    def __init__(self, name: Literal["bbq", "bayes-bt"], *, rated: bool) -> None:
        self.name, self.rated, self.gives_verdicts = name, rated, rated

    def checked(self, priors: AnyPriors | str) -> Priors | Literal["auto"]:
        """Given or estimated priors, or "auto"; others are refused."""
        if priors == "auto":
            return "auto"
        if priors == "paper":
            return Priors()
        if not isinstance(priors, Priors):
            raise UsageError(
                f"{type(priors).__name__} belong to model='bbq-signed', not to {self.name!r}"
            )
        if priors.guessers and not priors.estimated:
            raise UsageError(
                "a two-part population (guessers > 0) is estimated, not given: use priors='auto'"
            )
        return priors

    def solve(
        self, data: Comparisons, triples: Triples | Parts, priors: AnyPriors | str, solver: str,
        tol: float,
    ) -> Optimum:  # fmt: skip
        """The maximum of the log-posterior; "auto" estimates the priors from the data first."""
        chosen, warnings = self.checked(priors), tuple[str, ...]()
        if chosen == "auto" and len(data.items) > MOST_DENSE:
            approximation = (
                f"with more than {MOST_DENSE:,} items the priors are estimated as if items were "
                "known independently of each other: the scale of the ratings may be off, their "
                "order is not"
            )
            warnings = (approximation,)
        rated = self.rated and data.has_raters
        triples = triples if rated else triples.without_raters()
        given = chosen if chosen != "auto" and not chosen.estimated else None
        first, population = joint_density(triples, given or Priors(), fixed=not rated), None
        theta, quality = first.start()
        if chosen == "auto":
            guess = solve_newton(first, theta, quality, 1e-3)
            population = estimate_priors(triples, guess.theta, fixed=not rated)
            chosen, theta, quality = population.priors, population.theta, guess.quality
            if population.doubt > GREAT_DOUBT:
                unknown = (
                    "how far apart the items lie is hardly known, perhaps because pairs were "
                    "chosen by earlier answers: distances may be too large, and intervals are "
                    "wider for it"
                )
                warnings = (*warnings, unknown)
        if given is None:
            # Those estimated for another fit are taken as they are, with quality integrated out.
            density = theta_density(triples, chosen, fixed=not rated)
            if population is not None and np.max(np.abs(theta - guess.theta)) > FAR:
                # An item that hardly any answer holds may be thrown far out with the priors.
                theta = guess.theta
            found = solve_newton(density, theta, quality, tol)
        elif solver == "em" and isinstance(first, Joint):
            found = solve_em(first, theta, quality, tol)
        else:
            found = solve_newton(first, theta, quality, tol)
        quality = found.quality if rated else np.ones(len(data.raters))
        return Optimum(found.theta, quality, chosen, found.trace, found.error, population, warnings)

    def density(self, fit: Fit) -> Joint | Marginal | Summed | None:
        """The log-density of theta with quality integrated out; none of several camps."""
        if fit.division is not None:
            return None
        return theta_density(fit.triples, fit.given_priors(), fixed=not fit.rated)

    def laplace(self, fit: Fit) -> Laplace:
        """Mode and covariance of theta; what is not known of estimated priors is added."""
        if fit.division is not None:
            return Laplace(fit.theta, fit.division.covariance(fit.population))
        if fit.mode is not None:
            return Laplace(fit.theta, _with_population(fit, fit.mode.covariance))
        flat, k = fit.given_priors().flat_items, len(fit.items)
        density = theta_density(fit.triples, fit.given_priors(), fixed=not fit.rated)
        if isinstance(density, Marginal):
            # Where it was best at this theta is where the integrals have their tops.
            density.tops[:, 0] = fit.quality
            density.dense = k * k < fit.triples.size
        # Where quality is integrated out, it does not matter where it stood.
        # The density of theta has ``a`` where the mode of lambda has a - 1: another level.
        a, b = fit.given_priors().a, fit.given_priors().b
        start = fit.theta if flat else level_of(fit.theta, b, a)
        found = solve_newton(density, start, np.ones(1), 10.0 * LAPLACE_TOLERANCE)
        covariance = inverse(with_level(density.passes.curvature(found.point), flat=flat))
        if flat:
            # Only differences are known: what was added to pin the level is taken out again.
            middle = np.eye(k) - 1.0 / k
            covariance = middle @ covariance @ middle
        asked = density if isinstance(density, Marginal) else None
        return Laplace(found.theta, _with_population(fit, covariance), asked)

    def moments(self, fit: Fit) -> Moments:
        """The scores at the top of the density, by rater also where quality is held at 1."""
        if fit.rated:
            return integrated_quality(fit)
        triples = fit.wins
        return known_quality(triples, fit.top, np.ones(triples.n_raters))

    def refit(self, fit: Fit, copies: Floats) -> Floats:
        """theta with each rater counted ``copies`` times; the priors stay as they are."""
        # Not pooled, so that raters can be counted.
        triples, priors = fit.wins, fit.given_priors()
        if fit.division is not None:
            from bbq_plugin.model.camps import refit  # noqa: PLC0415 (few panels have camps)

            return refit(triples, priors, fit.division, copies)
        quality = fit.quality if fit.rated else np.ones(triples.n_raters)
        if priors.estimated:
            density = theta_density(triples, priors, fixed=not fit.rated, copies=copies)
            return solve_newton(density, fit.theta, quality, 1e-5).theta
        joint = Joint(triples, priors, fixed=not fit.rated, copies=copies)
        return solve_newton(joint, fit.theta, quality, 1e-6).theta


def _with_population(fit: Fit, covariance: Floats) -> Floats:
    """The covariance of theta with what is not known of estimated priors."""
    if fit.population is None:
        return covariance
    slope = fit.population.slope
    return np.asarray(covariance + slope @ fit.population.covariance @ slope.T)
