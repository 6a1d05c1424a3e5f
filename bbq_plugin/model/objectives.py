"""The functions of theta that solvers climb, with gradient and curvature.

`Joint` is the paper's log-posterior of (theta, q) with q at its best, `Marginal` the log-posterior
of theta with every rater's quality integrated out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import lgamma, log
from typing import Any, Protocol

import numpy as np

from bbq_plugin.data.triples import Floats, Triples, even_chunks, run_chunks
from bbq_plugin.model.kernels import likelihood as kernels
from bbq_plugin.model.kernels import quadrature
from bbq_plugin.model.priors import Priors

LARGEST_COVARIANCE = 4096  # items; beyond, one K x K matrix is a gigabyte and more


@dataclass(slots=True, eq=False)
class Height:
    """An objective at one theta: its value, gradient, and curvature in a form that is never K x K.

    Minus the Hessian is ``diag(prior) + sum_t curve_t e_t e_t' - sum_(r,c) row_rc row_rc'`` with
    ``e_t`` the difference of winner and loser, and ``row_rc = sum_(t of r) rows[c, t] e_t``.
    """

    theta: Floats
    quality: Floats
    value: float
    gradient: Floats
    prior_curve: Floats
    curve: Floats
    rows: Floats


class Objective(Protocol):
    """What a solver needs: a value that it may only raise, with its curvature, and an EM step."""

    passes: Passes

    def at(self, theta: Floats, quality: Floats) -> Height:
        """The objective at theta; ``quality`` is where to look for the best q from."""

    def rounding(self, value: float) -> float:
        """What the sum that makes up this value cannot resolve."""

    def em_step(self, theta: Floats, quality: Floats) -> tuple[Floats, Floats]:
        """The next (theta, q) of EM, at which the objective is no lower."""


class Passes:
    """The triples of a data set, cut into chunks, and what all objectives do with them."""

    def __init__(self, triples: Triples, copies: Floats | None = None) -> None:
        self.triples = triples
        self.chunks = even_chunks(triples.start)
        self.copies = np.ones(triples.n_raters) if copies is None else copies
        self._s = np.empty(triples.size)
        weight = triples.weight
        if copies is not None:
            weight = weight * np.repeat(copies, np.diff(triples.start))
        self.total_weight = float(np.sum(weight))

    def summed(self, kernel: Callable[..., Any], *args: Any, shape: Any) -> tuple[float, Floats]:
        """A kernel over all chunks: the sums of what it returns and of what it adds to its last."""
        t = self.triples

        def work(first: int, last: int) -> tuple[float, Floats]:
            out = np.zeros(shape)
            return kernel(first, last, t.start, t.winner, t.loser, *args, out) or 0.0, out

        found = run_chunks(work, self.chunks)
        return sum(value for value, _ in found), np.sum([out for _, out in found], axis=0)

    def standing(self, theta: Floats) -> Floats:
        """s = y - 1/2 of every triple (overwritten by the next call)."""
        t = self.triples
        table = np.empty(0)
        if t.n_items <= 1024 and t.n_items**2 <= t.size:
            table = (0.5 * np.tanh(0.5 * (theta[:, None] - theta[None, :]))).ravel()

        def work(first: int, last: int) -> None:
            kernels.standing(first, last, t.start, t.winner, t.loser, theta, table, self._s)

        run_chunks(work, self.chunks)
        return self._s

    def curvature(self, point: Height) -> Floats:
        """Minus the Hessian in theta, dense."""
        k = self.triples.n_items
        _, half = self.summed(kernels.schur_dense, point.curve, point.rows, k, shape=(k, k))
        full: Floats = half + half.T
        full[np.diag_indices(k)] = point.prior_curve - full.sum(axis=1)
        return full

    def curvature_times(self, point: Height, vector: Floats) -> Floats:
        """The same matrix times a vector, in one pass over the triples."""
        of = (point.curve, point.rows, vector)
        return (
            self.summed(kernels.schur_times, *of, shape=vector.size)[1] + point.prior_curve * vector
        )

    def pair_diagonal(self, point: Height) -> Floats:
        """The diagonal of the pair part of the curvature: a preconditioner."""
        return self.summed(kernels.schur_diagonal, point.curve, shape=self.triples.n_items)[1]


class Profile(ABC):
    """A log-posterior of (theta, q) with q at its best and skills ~ Gamma(a, b), up to a constant.

    ``copies`` counts each rater so many times: the bootstrap over raters.
    """

    def __init__(self, triples: Triples, a: float, b: float, copies: Floats | None) -> None:
        self.passes, self.a, self.b = Passes(triples, copies), a, b

    def rounding(self, value: float) -> float:
        """A few units in the last place of each w log p, however small log p itself is."""
        return 2e-15 * (self.passes.total_weight + abs(value)) + 1e-13

    def start(self) -> tuple[Floats, Floats]:
        """Equal items at the level the prior puts them, raters at the mode of theirs."""
        level = np.log((self.a - 1) / self.b) if self.b else 0.0
        return np.full(self.passes.triples.n_items, level), self.prior_quality()

    @abstractmethod
    def prior_quality(self) -> Floats:
        """Every rater at the mode of the prior."""

    @abstractmethod
    def at(self, theta: Floats, quality: Floats) -> Height:
        """One fused pass: q at its best from ``quality`` on, value, gradient and curvature."""

    def value(self, theta: Floats) -> float:
        """The value alone, q at its best."""
        return self.at(theta, self.prior_quality()).value

    def prior(self, theta: Floats) -> tuple[float, Floats]:
        """The log of the skills' Gammas, and b lambda of each item."""
        skill = self.b * np.exp(theta) if self.b else np.zeros(theta.size)
        return float(np.sum((self.a - 1) * theta - skill)), skill

    @abstractmethod
    def e_step(self, theta: Floats, quality: Floats) -> tuple[float, Floats, Floats, Floats]:
        """The raters' log-posterior, their next q, and two sums by item.

        These are the expected informed wins, and lambda_i sum_j m_ij / (lambda_i + lambda_j).
        """

    def em_pass(self, theta: Floats, quality: Floats) -> tuple[float, Floats, Floats]:
        """The log-posterior at (theta, q), and the paper's next (theta, q), rescaled."""
        share, new_quality, wins, draw = self.e_step(theta, quality)
        value, skill = self.prior(theta)
        # An item that was never compared has no draw and, without a prior, stays where it is.
        with np.errstate(divide="ignore"):
            up = np.log(wins + self.a - 1) - np.log(draw + skill)
        moved = theta + np.where(draw + skill > 0, up, 0.0)
        return share + value, level_of(moved, self.b, self.a - 1), new_quality

    def em_step(self, theta: Floats, quality: Floats) -> tuple[Floats, Floats]:
        """The paper's next (theta, q), rescaled."""
        return self.em_pass(theta, quality)[1:]


class Joint(Profile):
    """The paper's log-posterior of (theta, q), up to a constant.

    sum w log(1/2 + q s) + sum [(a - 1) theta - b exp(theta)]
    + sum [(alpha - 1) log q + (beta - 1) log(1 - q)].

    ``fixed`` holds q where it is (q = 1: Bayes-BT, and with a = 1, b = 0 plain Bradley-Terry).
    """

    def __init__(
        self, triples: Triples, priors: Priors, *, fixed: bool = False, copies: Floats | None = None
    ) -> None:
        super().__init__(triples, priors.a, priors.b, copies)
        self.alpha, self.beta, self.fixed = priors.alpha, priors.beta, fixed

    def prior_quality(self) -> Floats:
        """Every rater at the mode of the prior, or at 1 where quality is fixed."""
        n, sure = self.passes.triples.n_raters, self.alpha + self.beta - 2
        mode = 0.5 if sure <= 0 else (self.alpha - 1) / sure
        return np.ones(n) if self.fixed else np.full(n, min(max(mode, 0.05), 0.95))

    def at(self, theta: Floats, quality: Floats) -> Height:
        """One fused pass: q at its best from ``quality`` on, value, gradient and curvature."""
        passes, t = self.passes, self.passes.triples
        q, curve, rows = quality.copy(), np.empty(t.size), np.empty((1, t.size))
        value, gradient = passes.summed(
            kernels.profile_pass, t.weight, passes.standing(theta), self.alpha, self.beta,
            passes.copies, self.fixed, q, curve, rows[0], shape=theta.size,
        )  # fmt: skip
        prior, skill = self.prior(theta)
        gradient = gradient + (self.a - 1) - skill
        return Height(
            theta, q, value + prior, gradient, skill, curve, rows[:0] if self.fixed else rows
        )

    def e_step(self, theta: Floats, quality: Floats) -> tuple[float, Floats, Floats, Floats]:
        """The raters' log-posterior, their next q, and the two sums by item."""
        passes, t, new = self.passes, self.passes.triples, np.empty(quality.size)
        value, (wins, draw) = passes.summed(
            kernels.em_pass, t.weight, passes.standing(theta), self.alpha, self.beta,
            passes.copies, self.fixed, quality, new, shape=(2, theta.size),
        )  # fmt: skip
        return value, new, wins, draw


def level_of(theta: Floats, b: float, shape: float) -> Floats:
    """All items moved to the level where b sum(lambda) = K shape, as at any optimum.

    The likelihood does not see the level; without a prior (b = 0) their mean becomes 0.
    """
    if not b:
        return theta - float(np.mean(theta))
    top = float(np.max(theta))
    total = np.log(b) + top + np.log(np.sum(np.exp(theta - top)))
    return theta + float(np.log(theta.size * shape) - total)


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

    def __init__(self, triples: Triples, priors: Priors, *, copies: Floats | None = None) -> None:
        self.passes = Passes(triples, copies)
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
        common = t.start, t.weight, passes.standing(theta), self.parts, passes.copies, self.tops

        def work(first: int, last: int) -> float:
            return float(quadrature.marginal_value(first, last, *common))

        return float(sum(run_chunks(work, passes.chunks)) + self._halves + self._prior(theta)[0])

    def rounding(self, value: float) -> float:
        """The quadrature's error, which moves with its nodes."""
        return 1e-9 * (1.0 + abs(value))

    def _prior(self, theta: Floats) -> tuple[float, Floats]:
        if self.priors.flat_items:
            return 0.0, np.zeros(theta.size)
        skill = self.priors.b * np.exp(theta)
        return float(np.sum(self.shape * theta - skill)), skill

    def at(self, theta: Floats, quality: Floats) -> Height:
        """Value, gradient and curvature; ``quality`` becomes the posterior mean of each q."""
        del quality  # integrated out: where it stood does not matter
        passes, t = self.passes, self.passes.triples
        curve, rows = np.empty(t.size), np.empty((quadrature.ROWS, t.size))
        value, (gradient, self._wins, self._draw) = passes.summed(
            quadrature.marginal_pass, t.weight, passes.standing(theta), self.parts, passes.copies,
            self.tops, curve, rows, self.summary, shape=(3, theta.size),
        )  # fmt: skip
        prior, skill = self._prior(theta)
        value, gradient = value + self._halves + prior, gradient + self.shape - skill
        return Height(theta, self.summary[:, 0].copy(), value, gradient, skill, curve, rows)

    def em_step(self, theta: Floats, quality: Floats) -> tuple[Floats, Floats]:
        """The closed-form step with gamma averaged over q, then the level that suits the prior."""
        point = self.at(theta, quality)
        with np.errstate(divide="ignore"):
            up = np.log(self._wins + self.shape) - np.log(self._draw + point.prior_curve)
        new = theta + np.where(self._draw + point.prior_curve > 0, up, 0.0)
        return level_of(new, self.priors.b, self.shape), point.quality


def theta_density(
    triples: Triples, priors: Priors, *, fixed: bool, copies: Floats | None = None
) -> Joint | Marginal:
    """The log-density of theta: q integrated out, or, where ``fixed``, held at 1.

    In the second case it is the paper's form with ``a`` one larger (the change of variables).
    """
    if not fixed:
        return Marginal(triples, priors, copies=copies)
    shape = 1.0 if priors.flat_items else priors.a + 1.0
    return Joint(triples, replace(priors, a=shape), fixed=True, copies=copies)
