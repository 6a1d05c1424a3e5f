"""Crowd-BT (Chen, Bennett, Collins-Thompson and Horvitz 2013), as users compare with it.

    P(r ranks i above j) = eta_r sigma(d) + (1 - eta_r) sigma(-d) = 1/2 + (2 eta_r - 1) s

which is BBQ with q = 2 eta - 1 in [-1, 1]: a rater may be inverted. As in that paper the
items are held together by a virtual item of skill 0 that each has beaten once and lost to once,
with weight ``TIE_TO_ZERO``, and eta ~ Beta(10, 1). The maximum is found by L-BFGS on (theta, eta).
"""

from __future__ import annotations

from dataclasses import astuple
from typing import TYPE_CHECKING

import numpy as np

from bbq_plugin.data.triples import Floats, Mask, Triples
from bbq_plugin.errors import ConvergenceError, UnsupportedError, UsageError
from bbq_plugin.model.objectives import LARGEST_COVARIANCE
from bbq_plugin.model.priors import AnyPriors, CrowdPriors, Priors, SignedPriors
from bbq_plugin.model.robust import Moments, known_quality
from bbq_plugin.model.solvers import Laplace, Optimum, inverse

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult
    from scipy.sparse import csr_array

    from bbq_plugin.data.dataset import Comparisons
    from bbq_plugin.model.fit import Fit

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
