"""``bbq-signed``: raters may be inverted, and their answers are then used in reverse.

Three latent kinds of answer (informed, guessed, inverted) with a Dirichlet on their shares. The
model is Crowd-BT's family (q = q+ - q- = 2 eta - 1 in [-1, 1]) with guessing as a kind of its own,
and BBQ where q- = 0. EM stays closed-form and monotone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bbq_plugin.data.triples import Floats, Triples
from bbq_plugin.errors import UsageError
from bbq_plugin.model.kernels import likelihood as kernels
from bbq_plugin.model.objectives import Height, Profile
from bbq_plugin.model.priors import AnyPriors, Priors, SignedPriors
from bbq_plugin.model.robust import Moments, known_quality
from bbq_plugin.model.solvers import (
    LAPLACE_TOLERANCE,
    Laplace,
    Optimum,
    inverse,
    solve_em,
    solve_newton,
)

if TYPE_CHECKING:
    from bbq_plugin.data.dataset import Comparisons
    from bbq_plugin.model.fit import Fit


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
