"""``bbq-signed``: raters who may answer in reverse, and whose answers then still tell something.

Three latent kinds of answer (informed, guessed, inverted) with a Dirichlet on their shares. The
model is Crowd-BT's family (q = q+ - q- = 2 eta - 1 in [-1, 1]) with guessing as a kind of its own,
and BBQ where q- = 0. EM stays closed-form and monotone.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace

import numpy as np

from bbq_plugin.data.aggregate import Triples
from bbq_plugin.errors import UsageError
from bbq_plugin.model.bbq import Floats, Height, Passes
from bbq_plugin.model.kernels import likelihood as kernels
from bbq_plugin.threads import run_chunks

__all__ = ["Signed", "SignedPriors", "signed_density"]


@dataclass(frozen=True, slots=True)
class SignedPriors:
    """Skills ~ Gamma(a, b); (q+, q0, q-) of each rater ~ Dirichlet(informed, guessed, inverted)."""

    a: float = 5.0
    b: float = 0.1
    informed: float = 4.0
    guessed: float = 1.2
    inverted: float = 1.05

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not math.isfinite(value):
                raise UsageError(f"SignedPriors({name}={value}): not a finite number")
        if self.a <= 1 or self.b <= 0:
            raise UsageError(f"SignedPriors(a={self.a}, b={self.b}): use a > 1 with b > 0")
        if self.informed <= 1 or self.guessed <= 1 or self.inverted < 1:
            raise UsageError(
                f"SignedPriors(informed={self.informed}, guessed={self.guessed}, "
                f"inverted={self.inverted}): the first two above 1, the third at least 1, "
                "else the posterior has no maximum"
            )

    @property
    def flat_items(self) -> bool:
        """There always is a prior on the items."""
        return False

    def describe(self) -> dict[str, float | str]:
        """The numbers, and where they come from, for a report."""
        return {"source": "default" if self == SignedPriors() else "given", **asdict(self)}

    def text(self, *, rated: bool = True) -> str:
        """In words; without the part on raters where no rater is named."""
        what = f"skill ~ Gamma({self.a:.4g}, {self.b:.4g})"
        if rated:
            what += (
                ", (informed, guessed, inverted) ~ "
                f"Dirichlet({self.informed:.4g}, {self.guessed:.4g}, {self.inverted:.4g})"
            )
        return f"{self.describe()['source']}: {what}"

    def __str__(self) -> str:
        return self.text()


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
        return value, self._rescale(moved), new

    def em_step(self, theta: Floats, quality: Floats) -> tuple[Floats, Floats]:
        """The next (theta, q); from q alone the shares are the best for it."""
        shares = quality if quality.ndim == 2 else self.split(quality)
        _, new_theta, new = self.em_pass(theta, shares)
        return new_theta, new if quality.ndim == 2 else new[:, 0] - new[:, 2]

    def _rescale(self, theta: Floats) -> Floats:
        """Move all items to the level where b sum(lambda) = K (a - 1), as at any optimum."""
        top = float(np.max(theta))
        total = np.log(self.priors.b) + top + np.log(np.sum(np.exp(theta - top)))
        return theta + float(np.log(theta.size * (self.priors.a - 1)) - total)


def signed_density(
    triples: Triples, priors: SignedPriors, *, copies: Floats | None = None
) -> Signed:
    """The log-density of theta, q at its best: ``a`` one larger, for the change of variables."""
    return Signed(triples, replace(priors, a=priors.a + 1.0), copies=copies)
