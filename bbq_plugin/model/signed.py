"""``bbq-signed``: raters may be inverted, and their answers are then used in reverse.

Three latent kinds of answer (informed, guessed, inverted) with a Dirichlet on their shares. The
model is Crowd-BT's family (q = q+ - q- = 2 eta - 1 in [-1, 1]) with guessing as a kind of its own,
and BBQ where q- = 0. EM stays closed-form and monotone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from bbq_plugin.data.triples import Triples, run_chunks
from bbq_plugin.errors import UsageError
from bbq_plugin.model.kernels import likelihood as kernels
from bbq_plugin.model.objectives import Floats, Height, Passes, level_of
from bbq_plugin.model.priors import AnyPriors, Priors, SignedPriors
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


class Signed:
    """The log-posterior of (theta, q+, q0, q-), up to a constant, for both solvers.

    The solvers' ``quality`` is q = q+ - q- for Newton and rows (q+, q0, q-) for EM.
    """

    def __init__(
        self, triples: Triples, priors: SignedPriors, *, copies: Floats | None = None
    ) -> None:
        self.passes = Passes(triples, copies)
        self.priors = priors
        self.exponents = (priors.informed - 1.0, priors.guessed - 1.0, priors.inverted - 1.0)

    def rounding(self, value: float) -> float:
        """A few units in the last place of each w log p, however small log p itself is."""
        return 2e-15 * (self.passes.total_weight + abs(value)) + 1e-13

    def start(self) -> tuple[Floats, Floats]:
        """Equal items at the level the prior puts them, raters at the mode of theirs."""
        k, r = self.passes.n_items, self.passes.triples.n_raters
        up, _, down = self.exponents
        level = np.log((self.priors.a - 1) / self.priors.b)
        return np.full(k, level), np.full(r, (up - down) / sum(self.exponents))

    def split(self, quality: Floats) -> Floats:
        """(q+, q0, q-) of each rater, the best for a given q+ - q-."""
        u = np.array([kernels.decided_share(q, *self.exponents) for q in quality.tolist()])
        return np.column_stack((0.5 * (u + quality), 1.0 - u, 0.5 * (u - quality)))

    def at(self, theta: Floats, quality: Floats) -> Height:
        """One fused pass: q at its best from ``quality`` on, value, gradient and curvature."""
        passes, t = self.passes, self.passes.triples
        s = passes.standing(theta)
        shares = quality.ndim == 2
        q = quality[:, 0] - quality[:, 2] if shares else quality.copy()
        curve, rows = np.empty(t.size), np.empty((1, t.size))

        def work(first: int, last: int) -> tuple[float, Floats]:
            gradient = np.zeros(theta.size)
            value = kernels.signed_pass(
                first, last, t.start, t.winner, t.loser, t.weight, s, *self.exponents,
                passes.copies, q, gradient, curve, rows[0],
            )  # fmt: skip
            return value, gradient

        parts = run_chunks(work, passes.chunks)
        skill = self.priors.b * np.exp(theta)
        shape = self.priors.a - 1.0
        value = sum(part[0] for part in parts) + float(np.sum(shape * theta - skill))
        gradient = np.sum([part[1] for part in parts], axis=0) + shape - skill
        best = self.split(q) if shares else q
        return Height(theta, best, value, gradient, skill, curve, rows)

    def value(self, theta: Floats) -> float:
        """The value alone, q at its best."""
        return self.at(theta, self.start()[1]).value

    def em_pass(self, theta: Floats, quality: Floats) -> tuple[float, Floats, Floats]:
        """The log-posterior at (theta, shares), and the next of both, in closed form."""
        passes, t = self.passes, self.passes.triples
        s = passes.standing(theta)
        new = np.empty(quality.shape)

        def work(first: int, last: int) -> tuple[float, Floats]:
            sums = np.zeros((2, theta.size))
            value = kernels.signed_em_pass(
                first, last, t.start, t.winner, t.loser, t.weight, s, *self.exponents,
                passes.copies, quality, new, sums[0], sums[1],
            )  # fmt: skip
            return value, sums

        parts = run_chunks(work, passes.chunks)
        wins, draw = np.sum([part[1] for part in parts], axis=0)
        skill = self.priors.b * np.exp(theta)
        shape = self.priors.a - 1.0
        value = sum(part[0] for part in parts) + float(np.sum(shape * theta - skill))
        moved = theta + np.log(wins + shape) - np.log(draw + skill)
        return value, level_of(moved, self.priors.b, shape), new

    def em_step(self, theta: Floats, quality: Floats) -> tuple[Floats, Floats]:
        """The next (theta, q); from q alone the shares are the best for it."""
        shares = quality if quality.ndim == 2 else self.split(quality)
        _, new_theta, new = self.em_pass(theta, shares)
        return new_theta, new if quality.ndim == 2 else new[:, 0] - new[:, 2]


def signed_density(
    triples: Triples, priors: SignedPriors, *, copies: Floats | None = None
) -> Signed:
    """The log-density of theta, q at its best: ``a`` one larger, for the change of variables."""
    return Signed(triples, replace(priors, a=priors.a + 1.0), copies=copies)


class SignedModel:
    """The model ``bbq-signed``."""

    name: Literal["bbq-signed"] = "bbq-signed"
    solvers = ("auto", "em")
    rated = needs_raters = gives_verdicts = uses_inverted = True

    def checked(self, priors: AnyPriors | str) -> SignedPriors:
        """Its own priors; others are refused."""
        if isinstance(priors, SignedPriors):
            return priors
        if priors not in (Priors(), "paper"):
            raise UsageError(
                "bbq-signed has priors of its own, which are not estimated: leave priors out "
                "(in Python SignedPriors may be given), or fit model='bbq'"
            )
        return SignedPriors()

    def solve(self, data: Comparisons, priors: AnyPriors | str, solver: str, tol: float) -> Optimum:
        """The maximum of the log-posterior."""
        own = self.checked(priors)
        signed = Signed(data.triples, own)
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

    def refit(self, fit: Fit, copies: Floats) -> Floats:
        """theta with each rater counted ``copies`` times."""
        signed = Signed(fit.triples, self.checked(fit.priors), copies=copies)
        return solve_newton(signed, fit.theta, fit.quality, 1e-6).theta
