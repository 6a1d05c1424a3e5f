"""What to compare next: the pairs whose answer is expected to tell most about the ranking.

Under the Laplace posterior the gap d = theta_i - theta_j of a pair is N(m, v). A rater of average
quality q answers "i" with probability p(d) = 1/2 + q (sigma(d) - 1/2), so one answer is worth, for
the order of the pair, the mutual information

    I(answer; i above j) = H(E[p]) - P(d > 0) H(E[p | d > 0]) - P(d < 0) H(E[p | d < 0])

in bits, at most one: much where the order is open and the items are far enough apart to be told
apart, little where the order is settled or the answer is a coin's. (The information on d itself
would go on measuring the size of gaps whose sign is known.) A batch is chosen greedily, each pair
once: after each choice the covariance S takes the rank-one update of one answer with the expected
Fisher information k = E[p'(d)^2 / (p (1 - p))],

    S  <-  S - S u u' S k / (1 + k v),      u = e_i - e_j,   v = u' S u

so that the next pair is chosen for what the batch before it will not have told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bbq_plugin.errors import UsageError
from bbq_plugin.insight.rows import Row, Rows
from bbq_plugin.model import Fit

__all__ = ["NextPairs", "PairRow", "next_pairs"]

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

# Gauss-Legendre nodes for the expectation over d on either side of 0, as far out as REACH standard
# deviations: the information comes out to 1e-9 bits.
_REACH = 8.0
_NODES, _SHARES = np.polynomial.legendre.leggauss(32)

# Pairs whose information is worked out at once: memory for this many times the nodes above.
_BLOCK = 1 << 15
# Gains only fall while a batch grows, so an old one is a bound; so many of the highest are renewed
# at a time.
_RENEWED = 128


def _special() -> Any:
    """scipy.special, which loads slowly and which only this question needs."""
    return import_module("scipy.special")


@dataclass(frozen=True, slots=True)
class PairRow(Row):
    """Two items to compare; ``item_a`` is the one that is ahead now.

    ``information_bits`` is what one answer is expected to tell beyond the pairs before it in the
    list; ``n`` is how often (by weight) the two were compared so far.
    """

    item_a: str
    item_b: str
    p_a_better: float
    information_bits: float
    n: float


class NextPairs(Rows[PairRow]):
    """Pairs, the most informative first. ``quality`` is the average rater's, as assumed here."""

    def __init__(self, rows: list[PairRow], quality: float, warnings: tuple[str, ...] = ()) -> None:
        super().__init__(rows)
        self.quality, self.warnings = quality, warnings

    def __repr__(self) -> str:
        return f"<NextPairs: {len(self)}, for raters of quality {self.quality:.2f}>"


def next_pairs(fit: Fit, n: int = 50, *, among: Sequence[str] | None = None) -> NextPairs:
    """The ``n`` pairs to compare next, each once; ``among`` limits them to some of the items."""
    if n < 1:
        raise UsageError(f"n={n}: ask for at least one pair")
    chosen = _codes(fit.items, among)
    if chosen.size < 2:
        raise UsageError("a pair takes two items; name at least two different ones")
    mean, covariance = fit.laplace.mean, fit.laplace.covariance
    quality = average_quality(fit)
    first, second = (chosen[side] for side in np.triu_indices(chosen.size, 1))
    batch = _Batch(mean, covariance, quality, first, second)
    picked = batch.pick(min(n, first.size))
    met = _met(fit)
    rows = []
    for pair, bits in picked:
        i, j = int(first[pair]), int(second[pair])
        if mean[i] < mean[j]:
            i, j = j, i
        spread = covariance[i, i] + covariance[j, j] - 2 * covariance[i, j]
        better = float(_special().ndtr((mean[i] - mean[j]) / np.sqrt(max(spread, 1e-300))))
        n_met = met.get((min(i, j), max(i, j)), 0.0)
        rows.append(PairRow(fit.items[i], fit.items[j], better, bits, n_met))
    warnings = []
    if n > first.size:
        warnings.append(f"there are only {first.size} pairs of {chosen.size} items, all listed")
    if quality == 0:
        warnings.append("the raters answer like coins on average: no comparison will tell anything")
    return NextPairs(rows, quality, tuple(warnings))


def average_quality(fit: Fit) -> float:
    """The quality of the usual answer: raters count by how much they answered so far."""
    if not fit.rated:
        return 1.0
    t = fit.data.triples
    n = np.bincount(t.rater(), t.weight, t.n_raters)
    return float(np.clip(np.average(fit.quality, weights=n), 0.0, 1.0))


def information_bits(mean: Floats, variance: Floats, quality: float) -> Floats:
    """I(answer; sign of d) for d ~ N(mean, variance), elementwise."""
    sd = np.sqrt(np.maximum(variance, 1e-24))
    above, below = _special().ndtr(mean / sd), _special().ndtr(-mean / sd)
    # E[sigma(d) - 1/2; d > 0], and with both signs turned the same of the side below
    up, down = _lean_above(mean, sd), -_lean_above(-mean, sd)
    told: Floats = _entropy(0.5 + quality * (up + down))
    for lean, share in ((up, above), (down, below)):
        sure = np.divide(lean, share, out=np.zeros_like(lean), where=share > 0)
        told = told - share * _entropy(0.5 + quality * np.clip(sure, -0.5, 0.5))
    return np.maximum(told, 0.0)


def _lean_above(mean: Floats, sd: Floats) -> Floats:
    """E[sigma(d) - 1/2; d > 0] for d ~ N(mean, sd^2)."""
    begin = np.maximum(mean - _REACH * sd, 0.0)
    half = 0.5 * np.maximum(mean + _REACH * sd - begin, 0.0)
    d = (begin + half)[:, None] + half[:, None] * _NODES
    density = np.exp(-0.5 * ((d - mean[:, None]) / sd[:, None]) ** 2) / np.sqrt(2 * np.pi)
    lean: Floats = (density * (0.5 * np.tanh(0.5 * d))) @ _SHARES * half / sd
    return lean


def _fisher(mean: float, variance: float, quality: float) -> float:
    """E[p'(d)^2 / (p (1 - p))]: what one answer adds to the curvature in d."""
    d = mean + np.sqrt(max(variance, 0.0)) * _REACH * _NODES
    weight = np.exp(-0.5 * (_REACH * _NODES) ** 2) * _SHARES
    y = _special().expit(d)
    p = 0.5 + quality * (y - 0.5)
    slope = quality * y * (1 - y)
    told = slope**2 / np.maximum(p * (1 - p), 1e-300)
    return float(weight @ told / weight.sum())


def _entropy(p: Floats) -> Floats:
    bits: Floats = -(_special().xlogy(p, p) + _special().xlogy(1 - p, 1 - p)) / np.log(2)
    return bits


class _Batch:
    """Greedy choice of pairs, with the covariance that the pairs chosen so far would leave."""

    def __init__(
        self, mean: Floats, covariance: Floats, quality: float, first: Ints, second: Ints
    ) -> None:
        self.quality, self.covariance = quality, covariance
        self.first, self.second = first, second
        self.gap = mean[first] - mean[second]
        spread = np.diag(covariance)
        self.variance = spread[first] + spread[second] - 2 * covariance[first, second]
        self.gain = np.empty(first.size)
        for begin in range(0, first.size, _BLOCK):
            part = slice(begin, begin + _BLOCK)
            self.gain[part] = information_bits(self.gap[part], self.variance[part], quality)
        self.taken = np.zeros((0, mean.size))  # one row an update: S now = S - taken' taken

    def pick(self, n: int) -> list[tuple[int, float]]:
        """Pairs with the bits that each adds, by lazy evaluation: only the top is kept current."""
        out: list[tuple[int, float]] = []
        current = np.zeros(self.first.size, dtype=np.int64)
        while len(out) < n:
            best = int(np.argmax(self.gain))
            if current[best] == len(out):
                out.append((best, float(self.gain[best])))
                self._take(best)
                self.gain[best] = -np.inf
                continue
            top = np.argpartition(self.gain, -min(_RENEWED, self.gain.size))[-_RENEWED:]
            top = top[(current[top] < len(out)) & np.isfinite(self.gain[top])]
            drop = self.taken[:, self.first[top]] - self.taken[:, self.second[top]]
            variance = self.variance[top] - np.sum(drop * drop, axis=0)
            self.gain[top] = information_bits(self.gap[top], variance, self.quality)
            current[top] = len(out)
        return out

    def _take(self, pair: int) -> None:
        i, j = self.first[pair], self.second[pair]
        column = self.covariance[:, i] - self.covariance[:, j]
        column = column - self.taken.T @ (self.taken[:, i] - self.taken[:, j])
        variance = max(float(column[i] - column[j]), 0.0)
        told = _fisher(float(self.gap[pair]), variance, self.quality)
        row = column * np.sqrt(told / (1.0 + told * variance))
        self.taken = np.vstack((self.taken, row))


def _codes(items: tuple[str, ...], among: Sequence[str] | None) -> Ints:
    if among is None:
        return np.arange(len(items))
    code = {name: i for i, name in enumerate(items)}
    for name in among:
        if name not in code:
            close = get_close_matches(name, items, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise UsageError(f"there is no item {name!r} in these data{hint}")
    return np.unique(np.array([code[name] for name in among], dtype=np.intp))


def _met(fit: Fit) -> dict[tuple[int, int], float]:
    """Weighted number of comparisons of each pair of items that met."""
    t = fit.data.triples
    low, high = np.minimum(t.winner, t.loser), np.maximum(t.winner, t.loser)
    pair, place = np.unique(low.astype(np.int64) * t.n_items + high, return_inverse=True)
    n = np.bincount(place, t.weight)
    return {
        (int(p) // t.n_items, int(p) % t.n_items): float(w)
        for p, w in zip(pair, n, strict=True)
    }  # fmt: skip
