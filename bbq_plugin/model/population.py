"""Priors from the data: who the raters are and how far the items lie apart.

The order of the items survives a wrong prior, their distances do not: a population believed to be
better than it is makes every difference look smaller. So (alpha, beta, share of guessers, a) are
set where the marginal likelihood is highest, each q integrated by quadrature and theta by Laplace:

    M(eta) = max_theta F(theta; eta) - 1/2 log det(-F'') + log h(eta)

``h`` is a weak prior around the paper's values, for studies too small to tell; a study of a few
dozen raters already outweighs it. What remains unknown of eta widens the intervals of theta
(Kass and Steffey 1989): its covariance and d theta / d eta are part of the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isinf, lgamma, log, pi

import numpy as np

from bbq_plugin.data.triples import Floats, Triples
from bbq_plugin.errors import ConvergenceError
from bbq_plugin.model.objectives import theta_density
from bbq_plugin.model.priors import Priors
from bbq_plugin.model.solvers import solve_newton

# eta = (log a[, log(alpha - 1), log(beta - 1)[, logit guessers]]); centres are the paper's values,
# and a tenth of guessers. One unit is a factor of e. The numbers of the Beta have Student tails: a
# small study, which cannot tell, stays near the paper's raters, and a large one is free to leave.
CENTRE = np.array([np.log(5.0), np.log(9.0), 0.0, np.log(1 / 9)])
WIDTH = np.array([1.0, 0.3, 0.3, 1.0])
FREEDOM = np.array([inf, 3.0, 3.0, inf])  # degrees of; infinity is a Gaussian
NUDGE = 0.1
THETA_TOLERANCE = 1e-4  # Newton's last step is then far below it
LONGEST = 1.0
ENOUGH = 0.02  # of a unit of eta: far below what any study can tell
MOST_STEPS = 25
# Triples to find the way by, and to settle on; more raters would not move the estimate visibly.
COARSE_TRIPLES, MOST_TRIPLES = 25_000, 150_000
DECISIVE = 8.0  # nats of evidence on a part of the raters that the whole will not overturn
MOST_ITEMS = 1024  # a determinant for each step; with more items the priors are not estimated
RATE = 0.1  # b sets the level of all theta, which no comparison sees: it stays the paper's


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """The estimate, its covariance, and how theta follows it."""

    priors: Priors
    eta: Floats
    covariance: Floats
    slope: Floats  # (items, parameters): d theta / d eta
    theta: Floats


def priors_of(eta: Floats) -> Priors:
    """The priors that a vector of population parameters stands for."""
    a = float(np.exp(eta[0]))
    if eta.size == 1:
        return Priors(a=a, b=RATE, estimated=True)
    alpha, beta = 1.0 + np.exp(eta[1:3])
    guessers = float(1.0 / (1.0 + np.exp(-eta[3]))) if eta.size == 4 else 0.0
    return Priors(a, RATE, float(alpha), float(beta), guessers, estimated=True)


def log_hyperprior(eta: Floats) -> float:
    """log h(eta), normalised, so that populations of one and two parts can be compared."""
    total = 0.0
    for value, centre, width, nu in zip(eta, CENTRE, WIDTH, FREEDOM, strict=False):
        z = (value - centre) / width
        if isinf(nu):
            total -= 0.5 * z**2 + 0.5 * log(2 * pi)
        else:
            total += lgamma((nu + 1) / 2) - lgamma(nu / 2) - 0.5 * log(nu * pi)
            total -= (nu + 1) / 2 * log(1 + z**2 / nu)
        total -= log(width)
    return float(total)


def few_raters(triples: Triples, most: int = MOST_TRIPLES) -> Triples:
    """Every k-th rater, with k such that about ``most`` triples remain."""
    if triples.size <= most or triples.n_raters < 2:
        return triples
    every = int(np.ceil(triples.size / most))
    chosen = np.arange(0, triples.n_raters, every)
    length = np.diff(triples.start)[chosen]
    start = np.concatenate(([0], np.cumsum(length)))
    at = np.repeat(triples.start[chosen] - start[:-1], length) + np.arange(start[-1])
    winner, loser, weight = triples.winner[at], triples.loser[at], triples.weight[at]
    return Triples(start, winner, loser, weight, triples.n_items)


class PopulationEvidence:
    """M(eta), with theta kept warm from call to call."""

    def __init__(self, triples: Triples, theta: Floats, *, fixed: bool) -> None:
        self.triples, self.theta, self.fixed = triples, theta, fixed
        self.eta: Floats = CENTRE[:0]
        self.slope: Floats = np.empty((theta.size, 0))
        self._ones = np.ones(triples.n_raters)

    def __call__(self, eta: Floats) -> tuple[float, Floats]:
        """M(eta) and the theta at which F is highest."""
        priors = priors_of(eta)
        density = theta_density(self.triples, priors, fixed=self.fixed)
        known = self.slope.shape[1]
        theta = self.theta + self.slope @ (eta[:known] - self.eta[:known])
        # The level that the new prior gives the items is known; only their distances are searched.
        theta += np.log(theta.size * priors.a) - np.log(RATE * np.sum(np.exp(theta)))
        found = solve_newton(density, theta, self._ones, THETA_TOLERANCE)
        constant = theta.size * (priors.a * np.log(priors.b) - lgamma(priors.a))
        log_det = float(np.linalg.slogdet(density.passes.curvature(found.point))[1])
        return found.value + constant + log_hyperprior(eta) - 0.5 * log_det, found.theta


@dataclass(slots=True, eq=False)
class Summit:
    """M around one eta: its value, gradient and curvature, and the theta that goes with it."""

    eta: Floats
    value: float
    gradient: Floats
    curve: Floats  # minus the Hessian of M
    slope: Floats
    theta: Floats

    @property
    def log_evidence(self) -> float:
        """log of the integral over eta, by Laplace: pays for each parameter what it costs."""
        log_det = float(np.linalg.slogdet(self.curve)[1])
        return self.value + 0.5 * self.eta.size * float(np.log(2 * np.pi)) - 0.5 * log_det


def _look(evidence: PopulationEvidence, eta: Floats, *, mixed: bool = True) -> Summit:
    """Value, gradient and Hessian of M by differences (eta has four numbers at most).

    Without ``mixed`` the second derivatives by two different parameters are left at zero.
    """
    n = eta.size
    value, theta = evidence(eta)
    # Where theta was best, and how it follows eta: the start of later calls.
    evidence.eta, evidence.theta = eta, theta
    nudge = NUDGE * np.eye(n)
    ahead, behind = [evidence(eta + h) for h in nudge], [evidence(eta - h) for h in nudge]
    up, down = np.array([m for m, _ in ahead]), np.array([m for m, _ in behind])
    slope = np.array([a - b for (_, a), (_, b) in zip(ahead, behind, strict=True)]).T / (2 * NUDGE)
    evidence.slope = slope
    curve = np.diag(-(up - 2 * value + down) / NUDGE**2)
    for i in range(n if mixed else 0):
        for j in range(i):
            corner = evidence(eta + nudge[i] + nudge[j])[0]
            curve[i, j] = curve[j, i] = -(corner - up[i] - up[j] + value) / NUDGE**2
    return Summit(eta, value, (up - down) / (2 * NUDGE), curve, slope, theta)


def _climb(evidence: PopulationEvidence, eta: Floats, curve: Floats | None = None) -> Summit:
    """Damped Newton on M, every curvature made positive.

    With a first guess of the ``curve`` the steps learn it from the gradients (BFGS), and only at
    the top is it computed.
    """
    guessed = curve is not None
    summit = _look(evidence, eta, mixed=not guessed)
    bend = summit.curve if curve is None else curve
    for _ in range(MOST_STEPS):
        roots, axes = np.linalg.eigh(bend)
        step = axes @ ((axes.T @ summit.gradient) / np.maximum(np.abs(roots), 0.25))
        size = float(np.max(np.abs(step)))
        if size > LONGEST:
            step *= LONGEST / size
        higher = None if size <= ENOUGH else _higher(evidence, summit, step, mixed=not guessed)
        if higher is None:
            summit = _look(evidence, summit.eta) if guessed else summit
            roots, axes = np.linalg.eigh(summit.curve)
            # Differences may see a tail as flat or hollow: nothing is less known than +-1.4 units.
            summit.curve = (axes * np.maximum(roots, 0.5)) @ axes.T
            return summit
        bend = _learn(bend, summit, higher) if guessed else higher.curve
        summit = higher
    raise ConvergenceError(
        "the priors could not be estimated from these data; give them yourself "
        "(priors='paper', on the command line --priors paper)"
    )


def _learn(curve: Floats, before: Summit, after: Summit) -> Floats:
    """The BFGS update: the curvature along the step becomes what the two gradients say."""
    step, pull = after.eta - before.eta, before.gradient - after.gradient
    if step @ pull <= 0:
        return curve
    bent = curve @ step
    curve = curve - np.outer(bent, bent) / (step @ bent)
    return curve + np.outer(pull, pull) / (step @ pull)


def _higher(
    evidence: PopulationEvidence, summit: Summit, step: Floats, *, mixed: bool
) -> Summit | None:
    """M at the step's end, or nearer, if it is higher there."""
    for quartering in range(6):
        eta = summit.eta + step * 0.25**quartering
        if evidence(eta)[0] > summit.value:
            return _look(evidence, eta, mixed=mixed)
    return None


def estimate_priors(triples: Triples, theta: Floats, *, fixed: bool) -> Population:
    """The population under which these comparisons are most likely; ``theta`` is a first guess.

    ``fixed`` (no rater quality) leaves only the spread of the items. A second part, of guessers,
    is kept when the evidence for it outweighs the cost of its parameter.
    """
    if fixed:
        summit = _climb(PopulationEvidence(triples, theta, fixed=True), CENTRE[:1].copy())
    else:
        # A part of the raters shows the way, cheaply; the rest of the climb is short.
        part = few_raters(triples, COARSE_TRIPLES)
        evidence = PopulationEvidence(part, theta, fixed=False)
        one = _climb(evidence, CENTRE[:3].copy())
        two = _climb(evidence, np.append(one.eta, CENTRE[3]))
        forms = [one, two]
        if part.size < triples.size:
            ahead = two.log_evidence - one.log_evidence
            forms = forms if abs(ahead) < DECISIVE else [two if ahead > 0 else one]
            evidence = PopulationEvidence(
                few_raters(triples, MOST_TRIPLES), forms[0].theta, fixed=False
            )
            growth = evidence.triples.size / part.size
            forms = [_climb(evidence, form.eta, form.curve * growth) for form in forms]
        summit = max(forms, key=lambda form: form.log_evidence)
    covariance = np.asarray(np.linalg.inv(summit.curve), dtype=np.float64)
    return Population(priors_of(summit.eta), summit.eta, covariance, summit.slope, summit.theta)
