"""The expected information of an answer: the maths behind the choice of pairs, on arrays.

Under the Laplace posterior the gap d = theta_i - theta_j is N(m, v). A rater of quality q answers
"i" with probability p(d) = 1/2 + q (sigma(d) - 1/2), so one answer adds the Fisher information

    k = E[p'(d)^2 / (p (1 - p))]

to the precision of d, and the covariance S of all items becomes S - c c' k / (1 + k v) with
c = S (e_i - e_j). (q may be unknown: p is linear in q, so its posterior mean is all that counts.)

What that is worth for the whole ranking. With z = m / sqrt(v), the order of a pair (a, b) is known
up to H(Phi(z)) bits. A reduction of v_ab by a small amount r is expected to tell about it

    g_ab r,     g_ab = phi(z)^2 / (2 ln 2 Phi(z) Phi(-z) v_ab)

(half the curvature of H, times the variance that Phi(z) is about to gain). The sum over all pairs
is a quadratic form of c with the Laplacian matrix G of the weights g, so that the expected
information of one answer on i and j, in bits on the orders of all pairs, is

    k / (1 + k v) (M_ii + M_jj - 2 M_ij),     M = S G S

for every pair at once. G is that of the posterior at hand throughout a batch; S and M follow each
choice by an update of low rank.
"""

from __future__ import annotations

from importlib import import_module
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

# Gauss-Hermite nodes for expectations over a gap; k comes out to three digits and better.
_NODES, _SHARES = np.polynomial.hermite_e.hermegauss(15)
_SHARES = _SHARES / _SHARES.sum()
LEAST_VARIANCE = 1e-12
# Pairs that are looked at for each choice: of very many, those that promise most at the beginning.
MOST_CANDIDATES = 1 << 14
_BLOCK = 1 << 16
# Draws of the posterior that stand for it in Thompson sampling.
DRAWS = 256
_TRIES = 20


def _special() -> Any:
    """scipy.special, which loads slowly and which only these questions need."""
    return import_module("scipy.special")


def fisher(mean: Floats, variance: Floats, quality: float) -> Floats:
    """E[p'(d)^2 / (p (1 - p))] for d ~ N(mean, variance), elementwise."""
    mean, variance = np.asarray(mean), np.asarray(variance)
    told = np.empty(mean.shape)
    flat, sd = mean.reshape(-1), np.sqrt(np.maximum(variance, 0.0)).reshape(-1)
    for begin in range(0, flat.size, _BLOCK):
        part = slice(begin, begin + _BLOCK)
        s = 0.5 * np.tanh(0.5 * (flat[part, None] + sd[part, None] * _NODES))
        # With s = sigma(d) - 1/2: sigma' = 1/4 - s^2 and p (1 - p) = 1/4 - (q s)^2.
        slope = quality * (0.25 - s * s)
        told.reshape(-1)[part] = (
            slope * slope / np.maximum(0.25 - (quality * s) ** 2, 1e-300)
        ) @ _SHARES
    return told


def order_weight(mean: Floats, variance: Floats) -> Floats:
    """g: bits on the order of a pair for each unit by which the variance of its gap falls."""
    ndtr = _special().ndtr
    z = np.abs(mean) / np.sqrt(variance)
    # Far out phi(z) / Phi(-z) grows like z while both vanish: beyond, nothing is left to tell.
    z = np.minimum(z, 30.0)
    density = np.exp(-0.5 * z * z) / sqrt(2 * np.pi)
    weight: Floats = density**2 / (2 * np.log(2) * ndtr(z) * ndtr(-z) * variance)
    return weight


def gap_variance(covariance: Floats) -> Floats:
    """The variance of every difference."""
    own = np.diag(covariance)
    return np.maximum(own[:, None] + own[None, :] - 2 * covariance, LEAST_VARIANCE)


def eigen(matrix: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues of a symmetric matrix, none below 0, and eigenvectors.

    An eigenvector's sign is the library's whim: fixed, so that a seed means the same draws.
    """
    roots, axes = np.linalg.eigh(matrix)
    most = np.abs(axes).argmax(axis=0)
    axes = axes * np.where(axes[most, np.arange(roots.size)] < 0, -1.0, 1.0)
    return np.maximum(roots, 0.0), axes


class Design:
    """What is left to know while a batch grows: the covariance, and the worth of every pair."""

    def __init__(self, mean: Floats, covariance: Floats, quality: float) -> None:
        self.mean, self.covariance = mean, covariance.copy()
        self._weights = -order_weight(mean[:, None] - mean[None, :], gap_variance(covariance))
        np.fill_diagonal(self._weights, 0.0)
        np.fill_diagonal(self._weights, -self._weights.sum(axis=1))
        self._worth = self.covariance @ self._weights @ self.covariance
        first, second = np.triu_indices(mean.size, 1)
        self.first, self.second = first.astype(np.intp), second.astype(np.intp)
        self._told: dict[float, Floats] = {}
        if self.first.size > MOST_CANDIDATES:
            gain = self.gain(quality)
            kept = np.sort(np.argpartition(gain, -MOST_CANDIDATES)[-MOST_CANDIDATES:])
            self.first, self.second = self.first[kept], self.second[kept]
            self._told = {}

    def variance(self, i: Any, j: Any) -> Any:
        """Of the gap of two items."""
        s = self.covariance
        return np.maximum(s[i, i] + s[j, j] - 2 * s[i, j], LEAST_VARIANCE)

    def gain(self, quality: float) -> Floats:
        """Bits of one answer on each candidate pair, by a rater of this quality."""
        i, j = self.first, self.second
        v = self.variance(i, j)
        if quality not in self._told:
            # As at the beginning of the batch, which is when the answers are drawn.
            self._told[quality] = fisher(self.mean[i] - self.mean[j], v, quality)
        k = self._told[quality]
        m = self._worth
        gain: Floats = k / (1 + k * v) * (m[i, i] + m[j, j] - 2 * m[i, j])
        return np.maximum(gain, 0.0)

    def take(self, i: int, j: int, quality: float) -> tuple[float, Floats, float]:
        """Count on one answer: its bits, the column S (e_i - e_j), and k."""
        v = float(self.variance(i, j))
        k = float(fisher(self.mean[i] - self.mean[j], np.asarray(v), quality))
        column = self.covariance[:, i] - self.covariance[:, j]
        weighted = self._weights @ column
        other = self.covariance @ weighted
        share = k / (1 + k * v)
        bits = share * float(column @ weighted)
        # S G S with S - share c c' in the place of S
        self._worth -= share * (np.outer(column, other) + np.outer(other, column))
        self._worth += share * bits * np.outer(column, column)
        self.covariance -= share * np.outer(column, column)
        return bits, column, k


class Contenders:
    """Top-two Thompson sampling for the best ``top_k`` items.

    Two draws of the posterior that disagree about who the best ``top_k`` are name an item that only
    the first has among them and one that only the second has: these two are compared. For one
    item this is top-two Thompson sampling (Russo 2016) with an even chance for either.
    """

    def __init__(self, design: Design, top_k: int, rng: np.random.Generator) -> None:
        self.design, self.top_k, self.rng = design, top_k, rng
        roots, axes = eigen(design.covariance)
        noise = rng.standard_normal((DRAWS, roots.size))
        self._label = rng.standard_normal(roots.size)
        self.draws = design.mean + noise @ (axes * np.sqrt(roots)).T

    def pick(self, allowed: Callable[[int, int], bool]) -> tuple[int, int]:
        """A pair that may still be asked about."""
        inside = self._inside(self.draws)
        label = inside @ self._label  # the same for the same items, and for no others
        for _ in range(_TRIES):
            one = self.rng.integers(DRAWS)
            others = np.flatnonzero(label != label[one])
            if not others.size:
                break
            mine, theirs = inside[one], inside[others[self.rng.integers(others.size)]]
            i, j = self._any(mine & ~theirs), self._any(theirs & ~mine)
            if allowed(i, j):
                return i, j
        return self._closest(allowed)

    def _any(self, chosen: NDArray[np.bool_]) -> int:
        places = np.flatnonzero(chosen)
        return int(places[self.rng.integers(places.size)])

    def take(self, column: Floats, told: float, i: int, j: int) -> None:
        """Let the draws be of what is left to know after one more answer that changes no mean.

        Matheron's rule: a draw, moved by how far its own noisy observation lies from the expected.
        """
        variance = float(column[i] - column[j])
        if told <= 0:
            return
        seen = self.draws[:, i] - self.draws[:, j]
        seen = seen + self.rng.standard_normal(DRAWS) / sqrt(told)
        expected = float(self.design.mean[i] - self.design.mean[j])
        step = column * (told / (1 + told * variance))
        self.draws += np.outer(expected - seen, step)

    def _inside(self, theta: Floats) -> NDArray[np.bool_]:
        """Whether each item is among the best, by draw."""
        n, k = theta.shape[1], self.top_k
        best = np.argpartition(theta, n - k, axis=1)[:, n - k :]
        inside = np.zeros(theta.shape, dtype=np.bool_)
        np.put_along_axis(inside, best, values=True, axis=1)
        return inside

    def _closest(self, allowed: Callable[[int, int], bool]) -> tuple[int, int]:
        """The pair across the border that is most in doubt; then any other, by the same measure."""
        mean = self.design.mean
        z = np.abs(mean[:, None] - mean[None, :]) / np.sqrt(gap_variance(self.design.covariance))
        inside = self._inside(mean[None, :])[0]
        first, second = np.triu_indices(mean.size, 1)
        across = inside[first] != inside[second]
        order = np.lexsort((z[first, second], ~across))
        return next(
            (int(i), int(j))
            for i, j in zip(first[order], second[order], strict=True)
            if allowed(int(i), int(j))
        )
