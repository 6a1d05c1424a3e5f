"""The models: ``bbq`` and ``bayes-bt``, ``bbq-signed``, and ``crowd-bt`` to compare with.

``bbq``, the paper's model, and ``bayes-bt``, the same with every rater's quality held at 1.

Under given priors a fit is the joint maximum of the paper's log-posterior of (theta, q). Under
estimated priors theta is the maximum with quality integrated out, and quality its posterior mean.

``bbq-signed``: raters may be inverted, and their answers are then used in reverse.

Three latent kinds of answer (informed, guessed, inverted) with a Dirichlet on their shares. The
model is Crowd-BT's family (q = q+ - q- = 2 eta - 1 in [-1, 1]) with guessing as a kind of its own,
and BBQ where q- = 0. EM stays closed-form and monotone.

Crowd-BT (Chen, Bennett, Collins-Thompson and Horvitz 2013), as users compare with it.

    P(r ranks i above j) = eta_r sigma(d) + (1 - eta_r) sigma(-d) = 1/2 + (2 eta_r - 1) s

which is BBQ with q = 2 eta - 1 in [-1, 1]: a rater may be inverted. As in that paper the
items are held together by a virtual item of skill 0 that each has beaten once and lost to once,
with weight ``TIE_TO_ZERO``, and eta ~ Beta(10, 1). The maximum is found by L-BFGS on (theta, eta).
"""

from __future__ import annotations

from dataclasses import astuple, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from bbq_plugin.data.triples import Floats, Mask, Triples, some_raters
from bbq_plugin.errors import ConvergenceError, UnsupportedError, UsageError
from bbq_plugin.model.kernels import likelihood as kernels
from bbq_plugin.model.objectives import (
    LARGEST_COVARIANCE,
    Height,
    Joint,
    Marginal,
    Parts,
    Profile,
    Summed,
    joint_density,
    level_of,
    theta_density,
)
from bbq_plugin.model.prior_estimation import GREAT_DOUBT, MOST_DENSE, estimate_priors
from bbq_plugin.model.priors import AnyPriors, CrowdPriors, Priors, SignedPriors
from bbq_plugin.model.robust import Moments, integrated_quality, known_quality
from bbq_plugin.model.solvers import (
    LAPLACE_TOLERANCE,
    Laplace,
    Optimum,
    dense_is_cheap,
    inverse,
    solve_em,
    solve_newton,
    with_level,
)

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult
    from scipy.sparse import csr_array

    from bbq_plugin.data.dataset import Comparisons
    from bbq_plugin.model.fit import Fit


#: Nats; the climb over the priors moves no item so far that many answers hold.
FAR = 10.0


MANY_RATERS, ONE_OF = 25_000, 16


def _nearer_top(fit: Fit, theta: Floats) -> Floats:
    """From the top with quality at its best to near that with quality integrated out.

    The items lie farther apart there, all by about the same factor: level and scale are found by a
    sixteenth of the raters, which saves a pass over all. What slope these have at the first top,
    where that of all raters and the prior is zero, is chance, and is taken off.
    """
    priors, t = fit.given_priors(), fit.triples
    if priors.estimated:
        return theta  # already there
    some, flat = some_raters(t, np.arange(0, t.n_raters, ONE_OF)), replace(priors, a=1.0, b=0.0)
    chance = Joint(some, flat).at(fit.theta, fit.quality[::ONE_OF]).gradient
    density, times = Marginal(some, flat, dense=True), t.n_raters / some.n_raters
    all_raters = priors.b * np.exp(fit.theta) - (priors.a - 1.0)
    along = np.stack((np.ones(theta.size), theta - theta.mean()))
    for _ in range(2):
        point, skill = density.at(theta, np.ones(1)), priors.b * np.exp(theta)
        slope = times * (point.gradient - chance) + all_raters + priors.a - skill
        curve = times * point.curve + np.diag(skill)
        theta = theta + np.linalg.lstsq(along @ curve @ along.T, along @ slope)[0] @ along
    return theta


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
        if isinstance(first, Joint):
            first.dense = len(data.items) ** 2 < triples.size and dense_is_cheap(first)
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
        if isinstance(density, Marginal) and fit.triples.n_raters >= MANY_RATERS * (1 + k // 100):
            start = _nearer_top(fit, start)
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

            size, theta = refit(triples, priors, fit.division, copies)
            return np.asarray(size @ theta)
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


class Signed(Profile):
    """The log-posterior of (theta, q+, q0, q-), up to a constant, for both solvers.

    The solvers' ``quality`` is q = q+ - q- for Newton and rows (q+, q0, q-) for EM.
    """

    def __init__(
        self, triples: Triples, priors: SignedPriors, *, copies: Floats | None = None
    ) -> None:
        super().__init__(triples, priors.a, priors.b, copies)
        self.exponents = (priors.informed - 1.0, priors.guessed - 1.0, priors.inverted - 1.0)

    def prior_quality(self) -> Floats:
        """Every rater at the mode of the prior."""
        up, none, down = self.exponents
        return np.full(self.passes.triples.n_raters, (up - down) / (up + none + down))

    def split(self, quality: Floats) -> Floats:
        """(q+, q0, q-) of each rater, the best for a given q+ - q-."""
        u = np.array([kernels.decided_share(q, *self.exponents) for q in quality.tolist()])
        return np.column_stack((0.5 * (u + quality), 1.0 - u, 0.5 * (u - quality)))

    def at(self, theta: Floats, quality: Floats) -> Height:
        """One fused pass: q at its best from ``quality`` on, value, gradient and curvature."""
        passes, t, shares = self.passes, self.passes.triples, quality.ndim == 2
        q = quality[:, 0] - quality[:, 2] if shares else quality.copy()
        curve, rows = np.empty(t.size), np.empty((1, t.size))
        value, gradient = passes.summed(
            kernels.signed_pass, t.weight, passes.standing(theta), *self.exponents, passes.copies,
            q, curve, rows[0], shape=theta.size,
        )  # fmt: skip
        prior, skill = self.prior(theta)
        best, gradient = self.split(q) if shares else q, gradient + (self.a - 1) - skill
        return Height(theta, best, value + prior, gradient, skill, curve, rows)

    def e_step(self, theta: Floats, quality: Floats) -> tuple[float, Floats, Floats, Floats]:
        """The raters' log-posterior, their next shares, and the two sums by item."""
        passes, t, new = self.passes, self.passes.triples, np.empty(quality.shape)
        value, (wins, draw) = passes.summed(
            kernels.signed_em_pass, t.weight, passes.standing(theta), *self.exponents,
            passes.copies, quality, new, shape=(2, theta.size),
        )  # fmt: skip
        return value, new, wins, draw

    def em_step(self, theta: Floats, quality: Floats) -> tuple[Floats, Floats]:
        """The next (theta, q); from q alone the shares are the best for it."""
        if quality.ndim == 2:
            return super().em_step(theta, quality)
        new_theta, new = super().em_step(theta, self.split(quality))
        return new_theta, new[:, 0] - new[:, 2]


def signed_density(
    triples: Triples, priors: SignedPriors, *, copies: Floats | None = None
) -> Signed:
    """The log-density of theta, q at its best: ``a`` one larger, for the change of variables."""
    return Signed(triples, replace(priors, a=priors.a + 1.0), copies=copies)


class SignedModel:
    """The model ``bbq-signed``."""

    rated = gives_verdicts = uses_inverted = True

    def checked(self, priors: AnyPriors | str) -> SignedPriors:
        """Its own priors; others are refused."""
        if isinstance(priors, SignedPriors):
            return priors
        if priors not in (Priors(), "paper", "auto"):
            raise UsageError(
                "bbq-signed has priors of its own, which are not estimated: leave priors out "
                "(in Python SignedPriors may be given), or fit model='bbq'"
            )
        return SignedPriors()

    def solve(
        self, data: Comparisons, triples: Triples, priors: AnyPriors | str, solver: str, tol: float
    ) -> Optimum:
        """The maximum of the log-posterior."""
        del data
        own = self.checked(priors)
        signed = Signed(triples, own)
        theta, quality = signed.start()
        if solver == "em":
            found = solve_em(signed, theta, signed.split(quality), tol)
            quality = found.quality[:, 0] - found.quality[:, 2]
        else:
            found = solve_newton(signed, theta, quality, tol)
            quality = found.quality
        return Optimum(found.theta, quality, own, found.trace, found.error)

    def density(self, fit: Fit) -> Signed:
        """The log-density of theta, quality at its best."""
        return signed_density(fit.triples, self.checked(fit.priors))

    def laplace(self, fit: Fit) -> Laplace:
        """Mode and covariance of theta."""
        signed = self.density(fit)
        top = solve_newton(signed, fit.theta, fit.quality, LAPLACE_TOLERANCE)
        return Laplace(top.theta, inverse(signed.passes.curvature(top.point)))

    def moments(self, fit: Fit) -> Moments:
        """The scores at the top, quality at its best."""
        signed, t, theta = self.density(fit), fit.triples, fit.top
        point = signed.at(theta, fit.quality)
        s = signed.passes.standing(theta)
        q = np.repeat(point.quality, np.diff(t.start))
        # A row is cross / sqrt(stiff), with cross = d push / d q and q stiff in its own direction:
        # d q / d gap = cross / stiff.
        cross = t.weight * (0.25 - s * s) * 0.5 / (0.5 + q * s) ** 2
        loose = np.divide(point.rows[0], cross, out=np.zeros(t.size), where=cross > 0)
        variance = np.zeros(t.n_raters)
        variance[t.rater()] = loose**2
        return known_quality(t, theta, point.quality, point.rows[0] * loose, variance)

    def refit(self, fit: Fit, copies: Floats) -> Floats:
        """theta with each rater counted ``copies`` times."""
        signed = Signed(fit.triples, self.checked(fit.priors), copies=copies)
        return solve_newton(signed, fit.theta, fit.quality, 1e-6).theta


TIE_TO_ZERO, ALPHA, BETA = astuple(CrowdPriors())
POLISH_STEPS = 20
EDGE = 1e-6  # eta stays this far from 0 and 1, where the Beta's log is infinite


class CrowdBT:
    """The log-posterior of (theta, eta), its gradient and, at the optimum, its curvature."""

    def __init__(self, triples: Triples, copies: Floats | None = None) -> None:
        self.triples, self.rater = triples, triples.rater()
        self.copies = np.ones(triples.n_raters) if copies is None else copies
        self.weight = triples.weight * self.copies[self.rater]

    def value_and_gradient(self, theta: Floats, eta: Floats) -> tuple[float, Floats, Floats]:
        """log posterior, d / d theta, d / d eta."""
        t = self.triples
        s = 0.5 * np.tanh(0.5 * (theta[t.winner] - theta[t.loser]))
        q = (2.0 * eta - 1.0)[self.rater]
        p = 0.5 + q * s
        push = self.weight * q * (0.25 - s * s) / p
        wins = np.bincount(t.winner, push, t.n_items) - np.bincount(t.loser, push, t.n_items)
        slope = np.bincount(self.rater, self.weight * 2.0 * s / p, t.n_raters)
        share = (ALPHA - 1.0) * np.log(eta) + (BETA - 1.0) * np.log1p(-eta)
        # log sigma(theta) + log sigma(-theta): the two comparisons with the virtual item
        tied = -np.logaddexp(0.0, theta) - np.logaddexp(0.0, -theta)
        value = self.weight @ np.log(p) + self.copies @ share + TIE_TO_ZERO * np.sum(tied)
        to_theta = wins - TIE_TO_ZERO * np.tanh(0.5 * theta)
        to_eta = slope + self.copies * ((ALPHA - 1.0) / eta - (BETA - 1.0) / (1.0 - eta))
        return float(value), to_theta, to_eta

    def solve(
        self, tol: float, first: tuple[Floats, Floats] | None = None
    ) -> tuple[Floats, Floats, list[float], float]:
        """theta, eta, the trace of the log-posterior over the accepted steps, and nats to go.

        ``first`` is where to start: (theta, eta) of a fit to similar data. Nats to go are the
        largest change of theta that Newton's step still asks for.
        """
        from scipy.optimize import minimize  # noqa: PLC0415 (loads slowly, only for this baseline)

        k, r = self.triples.n_items, self.triples.n_raters
        trace: list[float] = []

        def negative(x: Floats) -> tuple[float, Floats]:
            value, to_theta, to_eta = self.value_and_gradient(x[:k], x[k:])
            return -value, -np.concatenate((to_theta, to_eta))

        def record(intermediate_result: OptimizeResult) -> None:
            trace.append(-float(intermediate_result.fun))

        start = np.concatenate(first or (np.zeros(k), np.full(r, ALPHA / (ALPHA + BETA))))
        trace.append(-negative(start)[0])
        result = minimize(
            negative, start, jac=True, method="L-BFGS-B", callback=record,
            bounds=[(None, None)] * k + [(EDGE, 1.0 - EDGE)] * r,
            options={"maxiter": 20_000, "maxfun": 40_000, "ftol": 0.0, "gtol": tol / 10},
        )  # fmt: skip
        theta, eta = self._polish(result.x[:k], result.x[k:], tol, trace)
        error = float(np.max(np.abs(self.newton(theta, eta)[0]), initial=0.0))
        if error > tol:
            raise ConvergenceError(
                f"crowd-bt did not converge: {result.message} after {result.nit} steps, "
                f"with {error:.2g} nats to go by Newton's step (tol {tol:g})"
            )
        return theta, eta, trace, error

    def _polish(
        self, theta: Floats, eta: Floats, tol: float, trace: list[float]
    ) -> tuple[Floats, Floats]:
        """A few Newton steps: L-BFGS stops where the value, not the gradient, is at its limit."""
        for _ in range(POLISH_STEPS):
            to_theta, to_eta = self.newton(theta, eta)
            new = theta + to_theta, np.clip(eta + to_eta, EDGE, 1.0 - EDGE)
            value = self.value_and_gradient(*new)[0]
            if value < trace[-1] - 1e-12 * abs(trace[-1]):
                break
            theta, eta = new
            trace.append(max(value, trace[-1]))
            if np.max(np.abs(to_theta)) <= tol:
                break
        return theta, eta

    def newton(self, theta: Floats, eta: Floats) -> tuple[Floats, Floats]:
        """Newton's step in (theta, eta), raters at the edge held."""
        _, to_theta, to_eta = self.value_and_gradient(theta, eta)
        _, cross, stiff = self._inner(theta, eta)
        free = _free(eta, stiff)
        give = np.where(free, 1.0 / np.where(free, stiff, 1.0), 0.0)
        pull = to_theta + cross @ (give * to_eta)
        step = np.linalg.lstsq(self.curvature(theta, eta), pull, rcond=None)[0]
        return step, give * (to_eta + cross.T @ step)

    def _inner(self, theta: Floats, eta: Floats) -> tuple[Floats, csr_array, Floats]:
        """Minus the second derivatives: theta-theta (dense), theta-eta (sparse), eta-eta."""
        from scipy.sparse import coo_array  # noqa: PLC0415 (loads slowly, only for this baseline)

        t = self.triples
        s = 0.5 * np.tanh(0.5 * (theta[t.winner] - theta[t.loser]))
        q = (2.0 * eta - 1.0)[self.rater]
        p, slope = 0.5 + q * s, 0.25 - s * s
        curve = self.weight * (q * slope / p) * (2.0 * s + q * slope / p)
        k = t.n_items
        inner: Floats = np.zeros((k, k))
        np.add.at(inner, (t.winner, t.loser), -curve)
        inner = inner + inner.T
        inner[np.diag_indices(k)] = -inner.sum(axis=1) + 0.5 * TIE_TO_ZERO * (
            1.0 - np.tanh(0.5 * theta) ** 2
        )
        mixed = self.weight * slope / p**2
        item, rater = np.concatenate((t.winner, t.loser)), np.tile(self.rater, 2)
        both = np.concatenate((mixed, -mixed))
        cross = coo_array((both, (item, rater)), shape=(k, t.n_raters)).tocsr()
        bend = np.bincount(self.rater, self.weight * (2.0 * s / p) ** 2, t.n_raters)
        stiff: Floats = bend + self.copies * (
            (ALPHA - 1.0) / eta**2 + (BETA - 1.0) / (1.0 - eta) ** 2
        )
        return inner, cross, stiff

    def curvature(self, theta: Floats, eta: Floats) -> Floats:
        """Minus the Hessian in theta with eta eliminated: the inverse covariance (Laplace)."""
        inner, cross, stiff = self._inner(theta, eta)
        free = _free(eta, stiff)
        scaled = cross[:, free] / stiff[free]
        reduced: Floats = inner - (scaled @ cross[:, free].T).toarray()
        return reduced


def _free(eta: Floats, stiff: Floats) -> Mask:
    """Raters whose eta follows theta: not at the edge."""
    return np.asarray((eta > 2 * EDGE) & (eta < 1 - 2 * EDGE) & (stiff > 0))


class CrowdModel:
    """The model ``crowd-bt``, a baseline; a fit's quality is 2 eta - 1."""

    rated = True
    gives_verdicts = uses_inverted = False

    def checked(self, priors: AnyPriors | str) -> CrowdPriors:
        """Its own priors; others are refused."""
        if isinstance(priors, SignedPriors):
            raise UsageError("SignedPriors belong to model='bbq-signed', not to 'crowd-bt'")
        if priors not in (Priors(), "paper", "auto", CrowdPriors()):
            raise UsageError("crowd-bt has priors of its own (Chen et al. 2013); leave priors out")
        return CrowdPriors()

    def solve(
        self, data: Comparisons, triples: Triples, priors: AnyPriors | str, solver: str, tol: float
    ) -> Optimum:
        """The maximum of the log-posterior."""
        del solver
        if len(data.items) > LARGEST_COVARIANCE:
            raise UnsupportedError(
                f"crowd-bt, a baseline, is built for up to {LARGEST_COVARIANCE} items; "
                "fit model='bbq'"
            )
        theta, eta, trace, error = CrowdBT(triples).solve(tol)
        return Optimum(theta, 2.0 * eta - 1.0, self.checked(priors), trace, error)

    def density(self, fit: Fit) -> None:
        """There is none with quality integrated out."""

    def laplace(self, fit: Fit) -> Laplace:
        """Mode and covariance of theta."""
        curvature = CrowdBT(fit.triples).curvature(fit.theta, 0.5 * (1.0 + fit.quality))
        return Laplace(fit.theta, inverse(curvature))

    def moments(self, fit: Fit) -> Moments:
        """The scores at the optimum; q = 2 eta - 1 follows theta where eta is not at its edge."""
        t, eta = fit.triples, 0.5 * (1.0 + fit.quality)
        stiff = CrowdBT(t)._inner(fit.theta, eta)[2]
        loose = np.where(_free(eta, stiff), 1.0 / np.where(stiff > 0, stiff, 1.0), 0.0)
        s = 0.5 * np.tanh(0.5 * (fit.theta[t.winner] - fit.theta[t.loser]))
        p = 0.5 + np.repeat(fit.quality, np.diff(t.start)) * s
        follows = 2.0 * np.repeat(loose, np.diff(t.start)) * t.weight * (0.25 - s * s) / p**2
        return known_quality(t, fit.theta, fit.quality, follows, 4.0 * loose)

    def refit(self, fit: Fit, copies: Floats) -> Floats:
        """theta with each rater counted ``copies`` times."""
        here = fit.theta, 0.5 * (1.0 + fit.quality)
        return CrowdBT(fit.triples, copies).solve(1e-5, here)[0]
