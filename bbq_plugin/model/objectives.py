"""The functions of theta that solvers climb, with gradient and curvature, over raters in parts.

Raters in several parts: what a fit asks of data that one machine does not hold.

A pass over the data is a function of one part; its results are added up. An in-memory fit calls it
once, an engine on every part. The order in which results are added is fixed, so that a fit is the
same to the last bit wherever its parts were computed.

`Joint` is the paper's log-posterior of (theta, q) with q at its best, `Marginal` the log-posterior
of theta with every rater's quality integrated out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import lgamma, log
from typing import Any, Literal, Protocol, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

from bbq_plugin.data.triples import (
    Codes,
    Floats,
    Triples,
    even_chunks,
    of_pairs,
    run_chunks,
    some_raters,
)
from bbq_plugin.model.kernels import likelihood as kernels
from bbq_plugin.model.priors import Priors

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Some raters with all their wins; ``first`` is the place of the first among all raters.

    An ``empty`` part has no raters, and its triples one who does not count.
    """

    triples: Triples
    first: int
    empty: bool = False
    #: Of its raters, read when they are asked for.
    names: Callable[[], Sequence[str]] = tuple

    def named(self) -> Triples:
        """The wins of its raters with their names."""
        if self.empty:
            return some_raters(self.triples, np.empty(0, np.int64))
        return replace(self.triples, names=tuple(self.names()))


class Parts(ABC):
    """The wins of all raters, in parts; in a model it stands where `Triples` do."""

    n_items: int
    n_raters: int
    size: int

    @abstractmethod
    def each(self, work: Callable[..., T], *args: Any) -> list[T]:
        """``work(part, *args)`` of every part, in their order."""

    @abstractmethod
    def summed(self, work: Callable[..., T], *args: Any) -> T:
        """The sum of ``work(part, *args)`` over all parts; each is a tuple of numbers and arrays.

        Neighbours are added first, then their sums: `added_up` says how.
        """

    def without_raters(self) -> Triples:
        """The same wins as if one rater had made them all."""
        (table,) = self.summed(_by_pair)
        return of_pairs(table)


class Blocks(Parts):
    """The raters of one machine in blocks, where a pass cannot hold what it needs of all."""

    def __init__(self, triples: Triples, n_raters: int) -> None:
        """``n_raters``: of a block."""
        self.triples, self._step = triples, max(1, n_raters)
        self.n_items, self.n_raters, self.size = triples.n_items, triples.n_raters, triples.size

    def each(self, work: Callable[..., T], *args: Any) -> list[T]:
        """``work(part, *args)`` of every block."""
        firsts = range(0, self.n_raters, self._step)
        return [work(self._block(first), *args) for first in firsts]

    def summed(self, work: Callable[..., T], *args: Any) -> T:
        """The sum over all blocks."""
        return cast("T", added_up(self.each(work, *args)))

    def without_raters(self) -> Triples:
        """The same wins as if one rater had made them all."""
        return self.triples.without_raters()

    def _block(self, first: int) -> Part:
        t = self.triples
        start = t.start[first : first + self._step + 1]
        at = slice(int(start[0]), int(start[-1]))
        codes = t.winner[at], t.loser[at]
        return Part(Triples(start - start[0], *codes, t.weight[at], t.n_items), first)


def _by_pair(part: Part) -> tuple[Floats]:
    return (part.triples.by_pair(),)


def added(first: tuple[Any, ...], second: tuple[Any, ...]) -> tuple[Any, ...]:
    """Two results, added number by number; an empty one is that of a part without raters."""
    if not first or not second:
        return first or second
    return tuple(a + b for a, b in zip(first, second, strict=True))


def added_up(found: list[Any], add: Callable[[Any, Any], Any] = added) -> Any:
    """All results by a tree: neighbours first, whatever finished first."""
    while len(found) > 1:
        pairs = [found[i : i + 2] for i in range(0, len(found), 2)]
        found = [add(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return found[0]


TRIPLES_AT_ONCE = 1 << 15  # what is written of these stays in the caches
LARGEST_COVARIANCE = 4096  # items; beyond, one K x K matrix is a gigabyte and more


@dataclass(slots=True, eq=False)
class Height:
    """An objective at one theta: its value, gradient, and curvature, by triple or as a matrix.

    Minus the Hessian is ``diag(prior) + sum_t curve_t e_t e_t' - sum_(r,c) row_rc row_rc'`` with
    ``e_t`` the difference of winner and loser, and ``row_rc = sum_(t of r) rows[c, t] e_t``.
    A matrix as ``curve`` is the sum of the last two terms.
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

    @property
    def passes(self) -> Passes | SummedPasses:
        """What it does with the data."""

    def at(self, theta: Floats, quality: Floats) -> Height:
        """The objective at theta; ``quality`` is where to look for the best q from."""

    def rounding(self, value: float) -> float:
        """What the sum that makes up this value cannot resolve."""

    def em_step(self, theta: Floats, quality: Floats) -> tuple[Floats, Floats]:
        """The next (theta, q) of EM, at which the objective is no lower."""


#: The first and last of some raters, where their triples begin, and winners and losers of these.
Where = tuple[int, int, Codes, NDArray[np.int32], NDArray[np.int32]]


class Passes:
    """The triples of a data set, cut into chunks, and what all objectives do with them."""

    def __init__(self, triples: Triples, copies: Floats | None = None) -> None:
        self.triples = triples
        self.chunks = even_chunks(triples.start)
        self.copies = np.ones(triples.n_raters) if copies is None else copies
        self._s = np.empty(0)
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
        total = found[0][1]
        for _, out in found[1:]:
            total += out
        return sum(value for value, _ in found), total

    def dense(
        self, theta: Floats, one: Callable[..., float], n_rows: int, n_sums: int
    ) -> tuple[float, Floats, Floats]:
        """A pass whose curvature is summed as it goes, by few triples at a time.

        ``one(raters, triples, where, s, curve, rows, sums)`` is called for some of both: ``where``
        is what a kernel takes first. Fresh memory for all triples would cost as much as the work.
        """
        t, k, table = self.triples, theta.size, self._table(theta)

        def work(first: int, last: int) -> tuple[float, Floats, Floats]:
            value, sums, half, spare = 0.0, np.zeros((n_sums, k)), np.zeros((k, k)), np.empty(0)
            while first < last:
                low = t.start[first]
                end = int(np.searchsorted(t.start, low + TRIPLES_AT_ONCE, side="right")) - 1
                end = min(max(end, first + 1), last)
                at, n = slice(low, t.start[end]), t.start[end] - low
                if spare.size < (n_rows + 2) * n:
                    spare = np.empty((n_rows + 2) * n)
                s, curve = spare[: 2 * n].reshape(2, n)
                rows = spare[2 * n : (n_rows + 2) * n].reshape(n_rows, n)
                where = 0, end - first, t.start[first : end + 1] - low, t.winner[at], t.loser[at]
                offset = None if t.offset is None else t.offset[at]
                _stand(*where, theta, table, offset, s)
                value += one(slice(first, end), at, where, s, curve, rows, sums)
                kernels.schur_dense(*where, curve, rows, k, half)
                first = end
            return value, sums, half

        found = run_chunks(work, self.chunks)
        values, sums, halves = zip(*found, strict=True)
        return sum(values), np.sum(sums, axis=0), _whole(np.sum(halves, axis=0))

    def _table(self, theta: Floats) -> Floats:
        """s of all pairs of items, where there are more triples than these."""
        k = theta.size
        if k > 1024 or k**2 > self.triples.size:
            return np.empty(0)
        return np.asarray(0.5 * np.tanh(0.5 * (theta[:, None] - theta[None, :]))).ravel()

    def standing(self, theta: Floats) -> Floats:
        """s = y - 1/2 of every triple (overwritten by the next call)."""
        t, table = self.triples, self._table(theta)
        if not self._s.size:
            self._s = np.empty(t.size)

        def work(first: int, last: int) -> None:
            _stand(first, last, t.start, t.winner, t.loser, theta, table, t.offset, self._s)

        run_chunks(work, self.chunks)
        return self._s

    def curvature(self, point: Height) -> Floats:
        """Minus the Hessian in theta, dense."""
        if point.curve.ndim == 2:
            return np.asarray(point.curve + np.diag(point.prior_curve))
        k = self.triples.n_items
        _, half = self.summed(kernels.schur_dense, point.curve, point.rows, k, shape=(k, k))
        return _whole(half) + np.diag(point.prior_curve)

    def curvature_times(self, point: Height, vector: Floats) -> Floats:
        """The same matrix times a vector, in one pass over the triples."""
        of = (point.curve, point.rows, vector)
        return (
            self.summed(kernels.schur_times, *of, shape=vector.size)[1] + point.prior_curve * vector
        )

    def pair_diagonal(self, point: Height) -> Floats:
        """The diagonal of the pair part of the curvature: a preconditioner."""
        return self.summed(kernels.schur_diagonal, point.curve, shape=self.triples.n_items)[1]


def _stand(
    first: int, last: int, start: Any, winner: Any, loser: Any, theta: Floats, table: Floats,
    offset: Floats | None, s: Floats,
) -> None:  # fmt: skip
    """s = y - 1/2 of the triples of these raters."""
    if offset is None:
        kernels.standing(first, last, start, winner, loser, theta, table, s)
        return
    at = slice(start[first], start[last])
    s[at] = 0.5 * np.tanh(0.5 * (theta[winner[at]] - theta[loser[at]] + offset[at]))


def _whole(half: Floats) -> Floats:
    """The matrix of which `schur_dense` has one half without the diagonal; its rows sum to 0."""
    full: Floats = half + half.T
    full[np.diag_indices(len(full))] = -full.sum(axis=1)
    return full


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
        self, triples: Triples, priors: Priors, *, fixed: bool = False,
        copies: Floats | None = None, dense: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(triples, priors.a, priors.b, copies)
        self.alpha, self.beta, self.fixed = priors.alpha, priors.beta, fixed
        #: The curvature of a point is a matrix, not by triple.
        self.dense = dense

    def prior_quality(self) -> Floats:
        """Every rater at the mode of the prior, or at 1 where quality is fixed."""
        n, sure = self.passes.triples.n_raters, self.alpha + self.beta - 2
        mode = 0.5 if sure <= 0 else (self.alpha - 1) / sure
        return np.ones(n) if self.fixed else np.full(n, min(max(mode, 0.05), 0.95))

    def at(self, theta: Floats, quality: Floats) -> Height:
        """One fused pass: q at its best from ``quality`` on, value, gradient and curvature."""
        passes, t, q = self.passes, self.passes.triples, quality.copy()

        def one(
            of: slice, at: slice, where: Where, s: Floats, curve: Floats, rows: Floats, sums: Floats
        ) -> float:
            found: float = kernels.profile_pass(
                *where, t.weight[at], s, self.alpha, self.beta, passes.copies[of], self.fixed,
                q[of], curve, rows[0], sums[0],
            )  # fmt: skip
            return found

        if self.dense and not self.fixed:
            rows = np.empty((0, 0))
            value, (gradient,), curve = passes.dense(theta, one, n_rows=1, n_sums=1)
        else:
            curve, rows = np.empty(t.size), np.empty((1, t.size))
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


@dataclass(frozen=True, slots=True, eq=False)
class PopulationDerivatives:
    """Of the raters' log-likelihood by the population's parameters, and by these and theta."""

    gradient: Floats
    hessian: Floats
    mixed: Floats  # items x parameters


LEAST_GUESSER_BETA = 3.0  # the mean quality of guessers is a quarter at most


def population_turns(priors: Priors) -> tuple[Floats, Floats]:
    """The derivatives of each part's log-density, as `kernels.population_scores` takes them."""
    from scipy.special import digamma, polygamma  # noqa: PLC0415 (loads slowly)

    both, alpha, beta = priors.alpha + priors.beta, priors.alpha, priors.beta
    low = priors.guesser_beta
    of_alpha, of_beta, of_low = alpha - 1.0, beta - 1.0, low - LEAST_GUESSER_BETA
    turn, bend = np.zeros((2, 4, 4)), np.zeros((2, 4, 4))
    # Honest: by log(alpha - 1) and log(beta - 1).
    turn[0, 0] = of_alpha, 0.0, of_alpha * (digamma(both) - digamma(alpha)), 1.0
    turn[0, 1] = 0.0, of_beta, of_beta * (digamma(both) - digamma(beta)), 1.0
    shared = polygamma(1, both)
    bend[0, 0, 0] = of_alpha**2 * (shared - polygamma(1, alpha))
    bend[0, 1, 1] = of_beta**2 * (shared - polygamma(1, beta))
    bend[0, 0, 1] = bend[0, 1, 0] = of_alpha * of_beta * shared
    # The share of guessers, by its logit.
    turn[0, 2, 2], turn[1, 2, 2] = -priors.guessers, 1.0 - priors.guessers
    bend[:, 2, 2] = -priors.guessers * (1.0 - priors.guessers)
    # Guessers: Beta(1, low) is low (1 - q)^(low - 1).
    turn[1, 3] = 0.0, of_low, of_low / low, 1.0
    bend[1, 3, 3] = -((of_low / low) ** 2)
    return turn, bend


class Marginal:
    """sum_r log int prior(q) prod (1/2 + q s)^w dq + sum [a theta - b exp(theta)].

    This is the density of theta itself, hence ``a`` where the paper's mode of lambda has ``a - 1``
    (the change of variables): the form whose curvature describes how theta spreads.
    """

    def __init__(
        self, triples: Triples, priors: Priors, *, copies: Floats | None = None, dense: bool = False
    ) -> None:
        """``dense``: the curvature of a point is a matrix, not by triple."""
        self.passes, self.dense = Passes(triples, copies), dense
        self.believe(priors)
        self.tops = np.tile(self.parts[:, 1] / self.parts[:, 1:].sum(axis=1), (triples.n_raters, 1))
        self._halves = self.passes.total_weight * np.log(0.5)
        #: By rater: mean and variance of q, P(guesser), log-likelihood (less its factors 1/2).
        self.summary = np.zeros((triples.n_raters, 4))
        #: By triple: its part of the gradient.
        self.pushes = np.zeros(triples.size)
        self._wins = self._draw = np.empty(0)
        #: The theta that ``pushes`` and ``summary`` belong to.
        self.asked: Floats = np.empty(0)

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
            return float(kernels.marginal_value(first, last, *common))

        return float(sum(run_chunks(work, passes.chunks)) + self._halves + self._prior(theta)[0])

    def rounding(self, value: float) -> float:
        """The quadrature's error, which moves with its nodes."""
        return 1e-9 * (1.0 + abs(value))

    def _prior(self, theta: Floats) -> tuple[float, Floats]:
        if self.priors.flat_items:
            return 0.0, np.zeros(theta.size)
        # A trial step may be far out, where the density is nothing.
        with np.errstate(over="ignore"):
            skill = self.priors.b * np.exp(theta)
        return float(np.sum(self.shape * theta - skill)), skill

    def at(self, theta: Floats, quality: Floats) -> Height:
        """Value, gradient and curvature; ``quality`` becomes the posterior mean of each q."""
        del quality  # integrated out: where it stood does not matter
        parts, self.asked = len(self.parts), theta
        none = np.empty((parts, 0, 4)), np.empty((parts, 0, 0))
        return self._dense_pass(theta, *none) if self.dense else self._pass(theta, *none)[0]

    def with_population(self, theta: Floats) -> tuple[Height, PopulationDerivatives]:
        """The same, with the derivatives by the parameters of the raters' population.

        These are log(alpha - 1), log(beta - 1), logit guessers and log(guesser_beta - 3).
        """
        turns = population_turns(self.priors)
        point, by_item, about = self._pass(theta, *turns, by_triple=False)
        n, total = len(by_item), about.sum(axis=0)
        return point, PopulationDerivatives(total[:n], total[n:].reshape(n, n), by_item.T)

    def _pass(
        self, theta: Floats, turn: Floats, bend: Floats, *, by_triple: bool = True
    ) -> tuple[Height, Floats, Floats]:
        """One pass; the mixed derivatives are by triple, or summed by item."""
        passes, t, n = self.passes, self.passes.triples, turn.shape[1]
        curve, rows = np.empty(t.size), np.empty((kernels.ROWS, t.size))
        mixed = np.empty((n, t.size if by_triple else 0))
        about = np.empty((t.n_raters, n + n * n))
        value, (gradient, self._wins, self._draw, *by_item) = passes.summed(
            kernels.marginal_pass, t.weight, passes.standing(theta), self.parts, passes.copies,
            self.tops, turn, bend, curve, rows, self.pushes, mixed, self.summary, about,
            shape=(3 + n, theta.size),
        )  # fmt: skip
        prior, skill = self._prior(theta)
        value, gradient = value + self._halves + prior, gradient + self.shape - skill
        point = Height(theta, self.summary[:, 0].copy(), value, gradient, skill, curve, rows)
        return point, mixed if by_triple else np.array(by_item), about

    def _dense_pass(self, theta: Floats, turn: Floats, bend: Floats) -> Height:
        """One pass whose curvature is a matrix."""
        passes, t, mixed = self.passes, self.passes.triples, np.empty((0, 0))

        def one(
            of: slice, at: slice, where: Where, s: Floats, curve: Floats, rows: Floats, sums: Floats
        ) -> float:
            about = np.empty((of.stop - of.start, 0))
            return kernels.marginal_pass(
                *where, t.weight[at], s, self.parts, passes.copies[of], self.tops[of], turn, bend,
                curve, rows, self.pushes[at], mixed, self.summary[of], about, sums,
            )  # fmt: skip

        value, sums, curve = passes.dense(theta, one, n_rows=kernels.ROWS, n_sums=3)
        gradient, self._wins, self._draw = sums
        prior, skill = self._prior(theta)
        value, gradient = value + self._halves + prior, gradient + self.shape - skill
        of_rater = self.summary[:, 0].copy()
        return Height(theta, of_rater, value, gradient, skill, curve, np.empty((0, 0)))

    @property
    def em_sums(self) -> tuple[Floats, Floats]:
        """At the last point: the expected informed wins, and what draws each item down."""
        return self._wins, self._draw

    def em_step(self, theta: Floats, quality: Floats) -> tuple[Floats, Floats]:
        """The closed-form step with gamma averaged over q, then the level that suits the prior."""
        point = self.at(theta, quality)
        with np.errstate(divide="ignore"):
            up = np.log(self._wins + self.shape) - np.log(self._draw + point.prior_curve)
        new = theta + np.where(self._draw + point.prior_curve > 0, up, 0.0)
        return level_of(new, self.priors.b, self.shape), point.quality


# -- the same over parts of the raters


Form = Literal["joint", "marginal"]


@dataclass(frozen=True, slots=True)
class Resample:
    """One resample of all raters with replacement; any part of them finds its own from the seed."""

    seed: int
    number: int
    n_raters: int

    def copies(self, first: int = 0, n: int | None = None) -> Floats:
        """How often each of ``n`` raters from ``first`` on was drawn; without ``n``, of all."""
        rng = np.random.default_rng([self.seed, self.number])
        drawn = rng.integers(0, self.n_raters, self.n_raters)
        if n is not None:
            drawn = drawn[(drawn >= first) & (drawn < first + n)] - first
        return np.bincount(drawn, minlength=self.n_raters if n is None else n).astype(np.float64)


def _of_part(
    part: Part, form: Form, priors: Priors, resample: Resample | None = None
) -> Joint | Marginal:
    """The raters' part of an objective, without the prior of the items, which counts once."""
    flat = replace(priors, a=1.0, b=0.0, estimated=False)
    copies = None
    if resample is not None and not part.empty:
        copies = resample.copies(part.first, part.triples.n_raters)
    if form == "joint":
        return Joint(part.triples, flat, copies=copies, dense=True)
    return Marginal(part.triples, flat, dense=True, copies=copies)


def _start_of(objective: Joint | Marginal) -> Floats:
    return objective.prior_quality() if isinstance(objective, Joint) else np.empty(0)


def part_pass(
    part: Part, form: Form, priors: Priors, theta: Floats, resample: Resample | None = None
) -> tuple[float, Floats, Floats, float]:
    """Value, gradient, minus the Hessian, and the weight of a part's comparisons."""
    objective = _of_part(part, form, priors, resample)
    point = objective.at(theta, _start_of(objective))
    curvature = objective.passes.curvature(point)
    return point.value, point.gradient, curvature, objective.passes.total_weight


def part_em(
    part: Part, form: Form, priors: Priors, theta: Floats, resample: Resample | None = None
) -> tuple[Floats, Floats]:
    """The two sums by item of an EM step, quality at its best or integrated out."""
    objective = _of_part(part, form, priors, resample)
    point = objective.at(theta, _start_of(objective))
    if isinstance(objective, Joint):
        return objective.e_step(theta, point.quality)[2:]
    return objective.em_sums


@dataclass(frozen=True, slots=True)
class SummedPasses:
    """What a solver asks of the passes of `Summed`: its matrix comes with every point."""

    triples: Parts

    def curvature(self, point: Height) -> Floats:
        """Minus the Hessian in theta, dense."""
        return np.asarray(point.curve + np.diag(point.prior_curve))

    def curvature_times(self, point: Height, vector: Floats) -> Floats:
        """The same matrix times a vector."""
        return np.asarray(point.curve @ vector + point.prior_curve * vector)

    def pair_diagonal(self, point: Height) -> Floats:
        """The diagonal without the prior."""
        return np.asarray(np.diag(point.curve))


class Summed:
    """`Joint` or `Marginal` as a sum over parts. ``quality`` stays where the parts are."""

    def __init__(
        self, parts: Parts, priors: Priors, form: Form, resample: Resample | None = None
    ) -> None:
        self.parts, self.priors, self.form = parts, priors, form
        self._drawn = () if resample is None else (resample,)
        self.passes = SummedPasses(parts)
        shape = priors.a if form == "marginal" else priors.a - 1
        self.shape = 0.0 if priors.flat_items else shape
        self._weight = 0.0

    def start(self) -> tuple[Floats, Floats]:
        """Equal items at the level the prior puts them."""
        level = np.log((self.priors.a - 1) / self.priors.b) if self.priors.b else 0.0
        return np.full(self.parts.n_items, level), np.empty(0)

    def rounding(self, value: float) -> float:
        """What the sum that makes up this value cannot resolve."""
        if self.form == "marginal":
            return 1e-9 * (1.0 + abs(value))
        return 2e-15 * (self._weight + abs(value)) + 1e-13

    def at(self, theta: Floats, quality: Floats) -> Height:
        """One pass over all parts."""
        del quality  # each part finds its own
        value, gradient, curve, self._weight = self._sums(theta)
        prior, skill = self._prior(theta)
        gradient = gradient + self.shape - skill
        return Height(theta, np.empty(0), value + prior, gradient, skill, curve, np.empty((0, 0)))

    def _sums(self, theta: Floats) -> tuple[Any, ...]:
        return self.parts.summed(part_pass, self.form, self.priors, theta, *self._drawn)

    def _em_sums(self, theta: Floats) -> tuple[Any, ...]:
        return self.parts.summed(part_em, self.form, self.priors, theta, *self._drawn)

    def _prior(self, theta: Floats) -> tuple[float, Floats]:
        if self.priors.flat_items:
            return 0.0, np.zeros(theta.size)
        with np.errstate(over="ignore"):
            skill = self.priors.b * np.exp(theta)
        return float(np.sum(self.shape * theta - skill)), skill

    def em_step(self, theta: Floats, quality: Floats) -> tuple[Floats, Floats]:
        """The closed-form step, then the level that suits the prior."""
        wins, draw = self._em_sums(theta)
        skill = self._prior(theta)[1]
        with np.errstate(divide="ignore"):
            up = np.log(wins + self.shape) - np.log(draw + skill)
        moved = theta + np.where(draw + skill > 0, up, 0.0)
        return level_of(moved, self.priors.b, self.shape), quality


def joint_density(
    triples: Triples | Parts, priors: Priors, *, fixed: bool = False
) -> Joint | Summed:
    """The paper's log-posterior of (theta, q); over parts none has its quality ``fixed``."""
    if isinstance(triples, Parts):
        return Summed(triples, priors, "joint")
    return Joint(triples, priors, fixed=fixed)


@overload
def theta_density(
    triples: Triples, priors: Priors, *, fixed: bool, copies: Floats | None = None
) -> Joint | Marginal: ...
@overload
def theta_density(
    triples: Triples | Parts, priors: Priors, *, fixed: bool, copies: Floats | None = None
) -> Joint | Marginal | Summed: ...
def theta_density(
    triples: Triples | Parts, priors: Priors, *, fixed: bool, copies: Floats | None = None
) -> Joint | Marginal | Summed:
    """The log-density of theta: q integrated out, or, where ``fixed``, held at 1.

    In the second case it is the paper's form with ``a`` one larger (the change of variables).
    """
    if isinstance(triples, Parts):
        return Summed(triples, priors, "marginal")
    if not fixed:
        return Marginal(triples, priors, copies=copies)
    shape = 1.0 if priors.flat_items else priors.a + 1.0
    return Joint(triples, replace(priors, a=shape), fixed=True, copies=copies)
