"""``fit``: from comparisons to the optimum of one of the models."""

from __future__ import annotations

from typing import Literal

import numpy as np

from bbq_plugin.aggregate import Triples
from bbq_plugin.comparisons import Comparisons
from bbq_plugin.errors import UnsupportedError, UsageError
from bbq_plugin.model.choices import Model, Solver, check_choices, check_priors, warnings_of
from bbq_plugin.model.fitted import (
    LARGEST_COVARIANCE,
    Fit,
    Laplace,
    crowd_of,
    joint_of,
    optimum_at,
)
from bbq_plugin.model.marginal import theta_density
from bbq_plugin.model.objective import Joint
from bbq_plugin.model.population import MOST_ITEMS, Population, estimate_priors
from bbq_plugin.model.priors import CrowdPriors, Priors
from bbq_plugin.model.signed import Signed, SignedPriors
from bbq_plugin.model.solve import Solution, solve_em, solve_newton

__all__ = [
    "LARGEST_COVARIANCE",
    "Fit",
    "Laplace",
    "Model",
    "Solver",
    "check_choices",
    "check_priors",
    "fit",
    "optimum_at",
    "warnings_of",
]


def fit(
    data: Comparisons,
    model: Model = "bbq",
    priors: Priors | SignedPriors | Literal["paper", "auto"] = Priors(),  # noqa: B008 (frozen)
    solver: Solver = "auto",
    tol: float = 1e-6,
) -> Fit:
    """Fit a model to comparisons.

    ``model``: ``bbq``, ``bbq-signed`` (raters may answer upside down), ``bayes-bt`` (every quality
    1) or ``crowd-bt``. ``priors``: the paper's by default (bbq-signed has its own, and takes
    ``SignedPriors``), any ``Priors``, also those that were estimated for another fit, or ``"auto"``
    to estimate them from the data. ``solver``: ``auto`` (Newton guarded by EM) or ``em`` (the
    paper's closed-form steps). ``tol``: the distance to the optimum, in nats of theta, that the
    gradient may still imply; not reaching it is an error.
    """
    check_choices(model, solver, tol)
    check_priors(model, priors)
    if priors == "paper":
        priors = Priors()
    warnings = warnings_of(data, model)
    if model == "bbq-signed" or isinstance(priors, SignedPriors):
        own = priors if isinstance(priors, SignedPriors) else SignedPriors()
        return _fit_signed(data, own, solver, tol, warnings)
    if model == "crowd-bt":
        return _fit_crowd(data, solver, tol, warnings)
    if isinstance(priors, Priors) and priors.guessers and not priors.estimated:
        raise UsageError(
            "a two-part population (guessers > 0) is estimated, not given: use priors='auto'"
        )
    if priors == "auto" and len(data.items) > MOST_ITEMS:
        priors = Priors()
        warnings.append(
            f"with more than {MOST_ITEMS:,} items priors are not estimated: the paper's were used"
        )
    rated = model == "bbq" and data.has_raters
    triples = data.triples if rated else data.triples.without_raters()
    estimated = not isinstance(priors, Priors) or priors.estimated
    if estimated and solver == "em":
        raise UsageError("solver='em' is the paper's, under given priors; use solver='auto'")
    given = Priors() if estimated or not isinstance(priors, Priors) else priors
    first = joint_of(triples, given, fixed=not rated)
    population = None
    if not isinstance(priors, Priors):
        found, population = _fit_auto(first, triples, tol, fixed=not rated)
        priors = population.priors
    elif priors.estimated:
        # Those of another fit: taken as they are, quality integrated out as it was there.
        density = theta_density(triples, priors, fixed=not rated)
        found = solve_newton(density, *first.start(), tol)
    else:
        found = (solve_em if solver == "em" else solve_newton)(first, *first.start(), tol)
    quality = found.quality if rated else np.ones(len(data.raters))
    return Fit(
        data=data, model=model, solver=solver, priors=priors, theta=found.theta, quality=quality,
        trace=np.array(found.trace), error=found.error, converged=True, warnings=tuple(warnings),
        population=population,
    )  # fmt: skip


def _fit_auto(
    first: Joint, triples: Triples, tol: float, *, fixed: bool
) -> tuple[Solution, Population]:
    guess = solve_newton(first, *first.start(), 1e-3)
    population = estimate_priors(triples, guess.theta, fixed=fixed)
    density = theta_density(triples, population.priors, fixed=fixed)
    return solve_newton(density, population.theta, guess.quality, tol), population


def _fit_signed(
    data: Comparisons, priors: SignedPriors, solver: Solver, tol: float, warnings: list[str]
) -> Fit:
    if not data.has_raters:
        raise UsageError("bbq-signed needs raters, and these data have none; fit model='bayes-bt'")
    signed = Signed(data.triples, priors)
    theta, quality = signed.start()
    if solver == "em":
        found = solve_em(signed, theta, signed.split(quality), tol)
        quality = found.quality[:, 0] - found.quality[:, 2]
    else:
        found = solve_newton(signed, theta, quality, tol)
        quality = found.quality
    return Fit(
        data=data, model="bbq-signed", solver=solver, priors=priors, theta=found.theta,
        quality=quality, trace=np.array(found.trace), error=found.error, converged=True,
        warnings=tuple(warnings),
    )  # fmt: skip


def _fit_crowd(data: Comparisons, solver: Solver, tol: float, warnings: list[str]) -> Fit:
    if solver == "em":
        raise UsageError("crowd-bt has no EM; use solver='auto'")
    if not data.has_raters:
        raise UsageError("crowd-bt needs raters, and these data have none; fit model='bayes-bt'")
    if len(data.items) > LARGEST_COVARIANCE:
        raise UnsupportedError(
            f"crowd-bt, a baseline, is built for up to {LARGEST_COVARIANCE} items; fit model='bbq'"
        )
    crowd = crowd_of(data.triples)
    theta, eta, trace = crowd.solve(tol)
    return Fit(
        data=data, model="crowd-bt", solver=solver, priors=CrowdPriors(), theta=theta,
        quality=2.0 * eta - 1.0, trace=np.array(trace), error=crowd.error(theta, eta),
        converged=True, warnings=tuple(warnings),
    )  # fmt: skip
