"""The log-posterior of theta with every rater's quality integrated out."""

from __future__ import annotations

from math import lgamma, log

import numpy as np

from bbq_plugin.data.aggregate import Triples
from bbq_plugin.model.bbq import Floats, Height, Joint, Passes
from bbq_plugin.model.kernels import quadrature
from bbq_plugin.model.priors import Priors
from bbq_plugin.model.signed import Signed
from bbq_plugin.threads import run_chunks

__all__ = ["Marginal", "ThetaDensity", "population_table", "theta_density"]


def population_table(priors: Priors) -> Floats:
    """The parts of the population of raters as the kernels take them."""
    return np.array(
        [
            [log(share) + lgamma(al + be) - lgamma(al) - lgamma(be), al, be]
            for share, al, be in priors.components()
        ]
    )


class Marginal:
    """sum_r log int prior(q) prod (1/2 + q s)^w dq + sum [a theta - b exp(theta)].

    This is the density of theta itself, hence ``a`` where the paper's mode of lambda has ``a - 1``
    (the change of variables): the form whose curvature describes how theta spreads.
    """

    def __init__(
        self,
        triples: Triples,
        priors: Priors,
        *,
        copies: Floats | None = None,
        passes: Passes | None = None,
    ) -> None:
        self.passes = passes or Passes(triples, copies)
        self.believe(priors)
        self.tops = np.tile(self.parts[:, 1] / self.parts[:, 1:].sum(axis=1), (triples.n_raters, 1))
        self._halves = self.passes.total_weight * np.log(0.5)
        self.summary = np.zeros((triples.n_raters, 3))
        self._wins = self._draw = np.empty(0)

    def believe(self, priors: Priors) -> None:
        """Take other priors, with the same number of parts of the population."""
        self.priors = priors
        self.shape = 0.0 if priors.flat_items else priors.a
        self.parts = population_table(priors)

    def value(self, theta: Floats) -> float:
        """The log-posterior density of theta alone, up to the evidence."""
        passes, t = self.passes, self.passes.triples
        s = passes.standing(theta)

        def work(first: int, last: int) -> float:
            return float(
                quadrature.marginal_value(
                    first, last, t.start, t.weight, s, self.parts, passes.copies, self.tops
                )
            )

        return float(sum(run_chunks(work, passes.chunks)) + self._halves + self._prior(theta))

    def rounding(self, value: float) -> float:
        """The quadrature's error, which moves with its nodes."""
        return 1e-9 * (1.0 + abs(value))

    def _prior(self, theta: Floats) -> float:
        if self.priors.flat_items:
            return 0.0
        return float(np.sum(self.shape * theta - self.priors.b * np.exp(theta)))

    def at(self, theta: Floats, quality: Floats) -> Height:
        """Value, gradient and curvature; ``quality`` becomes the posterior mean of each q."""
        del quality  # integrated out: where it stood does not matter
        passes, t = self.passes, self.passes.triples
        s = passes.standing(theta)
        curve, rows = np.empty(t.size), np.empty((quadrature.ROWS, t.size))

        def work(first: int, last: int) -> tuple[float, Floats]:
            sums = np.zeros((3, theta.size))
            value = quadrature.marginal_pass(
                first, last, t.start, t.winner, t.loser, t.weight, s, self.parts, passes.copies,
                self.tops, sums[0], sums[1], sums[2], curve, rows, self.summary,
            )  # fmt: skip
            return value, sums

        parts = run_chunks(work, passes.chunks)
        gradient, self._wins, self._draw = np.sum([part[1] for part in parts], axis=0)
        skill = np.zeros(theta.size) if self.priors.flat_items else self.priors.b * np.exp(theta)
        value = sum(part[0] for part in parts) + self._halves + self._prior(theta)
        gradient = gradient + self.shape - skill
        return Height(theta, self.summary[:, 0].copy(), value, gradient, skill, curve, rows)

    def em_step(self, theta: Floats, quality: Floats) -> tuple[Floats, Floats]:
        """The closed-form step with gamma averaged over q, then the level that suits the prior."""
        point = self.at(theta, quality)
        with np.errstate(divide="ignore"):
            up = np.log(self._wins + self.shape) - np.log(self._draw + point.prior_curve)
        new = theta + np.where(self._draw + point.prior_curve > 0, up, 0.0)
        if self.priors.flat_items:
            return new - new.mean(), point.quality
        top = float(np.max(new))
        total = np.log(self.priors.b) + top + np.log(np.sum(np.exp(new - top)))
        return new + float(np.log(new.size * self.shape) - total), point.quality


ThetaDensity = Joint | Marginal | Signed


def theta_density(
    triples: Triples, priors: Priors, *, fixed: bool, copies: Floats | None = None
) -> Joint | Marginal:
    """The log-density of theta: q integrated out, or, where ``fixed``, held at 1.

    In the second case it is the paper's form with ``a`` one larger (the change of variables).
    """
    if not fixed:
        return Marginal(triples, priors, copies=copies)
    a = 1.0 if priors.flat_items else priors.a + 1.0
    return Joint(triples, a, priors.b, priors.alpha, priors.beta, fixed=True, copies=copies)
