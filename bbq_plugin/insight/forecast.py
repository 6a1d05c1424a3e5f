"""How many more comparisons until it is known who is best, who the best k are, which order holds.

From the posterior predictive. Let S be the covariance of theta now. After N more comparisons it is
some S_N, and what the posterior mean will then be is, as seen from now, N(mean, S - S_N): a
martingale. So paths of the mean are drawn, and each is followed until the question is answered.

``as so far``  pairs come up as often as they did. With I the information of one such comparison,
               S_N = (S^-1 + N I)^-1, and S and I are made diagonal together, once.
``chosen``     every comparison is on the pair that the question hangs on and that is most in doubt,
               about what `next_pairs` asks for. S_N then depends on the path; each step is of rank
               one, S - c c' h with h = n k / (1 + n k v), and moves the mean by c sqrt(h) N(0, 1).

Answered means: P(best) >= level; P(these are the best k) >= level; P(order) >= (1 + level) / 2 for
each pair of neighbours, as on the leaderboard. The first two are bounded from below by 1 minus
the sum of the chances that one item outside is better than one inside.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bbq_plugin.insight.design import LEAST_VARIANCE, Floats, Ints, eigen, fisher, gap_variance
from bbq_plugin.insight.rows import Row
from bbq_plugin.insight.uncertainty import Uncertainty
from bbq_plugin.model import Fit

__all__ = ["MOST_ITEMS", "Milestone", "forecast"]

Question = Literal["best", "top-k", "neighbours"]

# Nobody runs a study of more: beyond, items are as good as equal.
OUT_OF_REACH = 1_000_000
# Each path has a covariance of its own under ``chosen``.
MOST_ITEMS = 60
# As many paths as take little time: of few items many, since quantiles of so wide distributions
# are coarse.
PATHS, CELLS = (150, 800), 4_000
CHOSEN_PATHS, CHOSEN_CELLS = (16, 150), 20_000
# How much is spent from one look at the paths to the next, as a share of what was spent before.
STRIDE, CHOSEN_STRIDE = 0.2, 0.12
PATIENT = 0.8
# Phi(-z) at points 1/200 apart, good to 1e-3: scipy.special loads slowly.
_FINE, _FAR = 200.0, 8.0
_TAIL = np.array([NormalDist().cdf(-at / _FINE) for at in range(int(_FINE * _FAR) + 1)])


@dataclass(frozen=True, slots=True)
class Milestone(Row):
    """One question, how sure its answer is now, and how many more comparisons it will take.

    ``more`` comparisons as so far answer it with an even chance, ``more_80`` with a chance of 80%;
    ``chosen`` and ``chosen_80`` if each is on the pair most in doubt. Infinite: out of reach.
    """

    question: Question
    top_k: int | None
    probability: float
    known: bool
    more: float
    more_80: float
    chosen: float
    chosen_80: float


def forecast(
    fit: Fit, known: Uncertainty, level: float, top_k: int | None, seed: int = 0
) -> list[Milestone]:
    """The three questions of a fit; the one on the best ``top_k`` only where it is another."""
    n_items = len(fit.items)
    questions: list[tuple[Question, int | None]] = [("best", None)]
    if top_k is not None and 1 < top_k < n_items:
        questions.append(("top-k", top_k))
    if n_items > 2:
        questions.append(("neighbours", None))
    return [_milestone(fit, known, level, name, k, seed) for name, k in questions]


def _milestone(
    fit: Fit, known: Uncertainty, level: float, question: Question, top_k: int | None, seed: int
) -> Milestone:
    mean, covariance = fit.laplace.mean, fit.laplace.covariance
    probability = _probability(known, mean, covariance, question, top_k)
    sure = probability >= ((1 + level) / 2 if question == "neighbours" else level)
    if sure:
        return Milestone(question, top_k, probability, True, 0.0, 0.0, 0.0, 0.0)  # noqa: FBT003
    ask = _Asked(question, top_k, level)
    rng = np.random.default_rng(seed)
    more = _as_so_far(fit, mean, covariance, ask, rng)
    chosen = _chosen(mean, covariance, ask, usual_quality(fit), rng)
    return Milestone(
        question,
        top_k,
        probability,
        False,  # noqa: FBT003
        _quantile(more, 0.5),
        _quantile(more, PATIENT),
        _quantile(chosen, 0.5),
        _quantile(chosen, PATIENT),
    )


def usual_quality(fit: Fit) -> float:
    """The quality whose information is that of the usual answer: information grows like q^2."""
    if not fit.rated:
        return 1.0
    t = fit.data.triples
    n = np.bincount(t.rater(), t.weight, t.n_raters)
    return float(np.sqrt(np.average(np.minimum(np.abs(fit.quality), 1.0) ** 2, weights=n)))


def _probability(
    known: Uncertainty, mean: Floats, covariance: Floats, question: Question, top_k: int | None
) -> float:
    """How sure the likeliest answer is now; of neighbours, the least sure pair."""
    if question == "best":
        return float(known.p_best().max())
    if top_k is not None:
        n = known.n_items
        best = np.sort(np.argpartition(known.draws, n - top_k, axis=1)[:, n - top_k :], axis=1)
        return float(np.unique(best, axis=0, return_counts=True)[1].max() / len(best))
    order = np.argsort(-mean)
    first, second = order[:-1], order[1:]
    z = (mean[first] - mean[second]) / np.sqrt(gap_variance(covariance)[first, second])
    return NormalDist().cdf(float(z.min()))


class _Asked:
    """A question put to many paths at once."""

    def __init__(self, question: Question, top_k: int | None, level: float) -> None:
        self.question, self.inside = question, top_k or 1
        self.doubt = 1 - level
        self.z = NormalDist().inv_cdf((1 + level) / 2)

    def pairs(self, mean: Floats) -> tuple[Ints, Ints]:
        """The pairs that the question hangs on, better one first: paths x pairs."""
        order = np.argsort(-mean, axis=1)
        if self.question == "neighbours":
            return order[:, :-1], order[:, 1:]
        k, n = self.inside, mean.shape[1]
        return np.repeat(order[:, :k], n - k, axis=1), np.tile(order[:, k:], (1, k))

    def answered(self, z: Floats) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Whether each path knows, from the standardised gaps of those pairs."""
        if self.question == "neighbours":
            return np.asarray(z.min(axis=1) >= self.z)
        place = (np.minimum(z, _FAR) * _FINE + 0.5).astype(np.intp)
        return np.asarray(_TAIL[place].sum(axis=1) <= self.doubt)


def _as_so_far(
    fit: Fit, mean: Floats, covariance: Floats, ask: _Asked, rng: np.random.Generator
) -> Floats:
    """When each path knows, pairs coming up as often as before."""
    roots, axes = eigen(covariance)
    half = axes * np.sqrt(roots)
    told, turn = eigen(half.T @ _information(fit, mean, covariance) @ half)
    basis = half @ turn
    n_paths = min(max(CELLS // mean.size, PATHS[0]), PATHS[1])
    at: Floats = np.zeros((n_paths, mean.size))
    open_paths: NDArray[np.int64] = np.arange(n_paths)
    passed: Floats = np.zeros(mean.size)
    done, n = np.full(n_paths, inf), 1.0
    while n <= OUT_OF_REACH and len(at) > (1 - PATIENT) * n_paths:
        share = n * told / (1 + n * told)
        at = at + rng.standard_normal(at.shape) * np.sqrt(np.maximum(share - passed, 0.0))
        passed = share
        path = mean + at @ basis.T
        variance = gap_variance((basis * (1 - share)) @ basis.T)
        first, second = ask.pairs(path)
        each = np.arange(len(path))[:, None]
        gap = path[each, first] - path[each, second]
        known = ask.answered(gap / np.sqrt(variance[first, second]))
        done[open_paths[known]] = n
        at, open_paths = at[~known], open_paths[~known]
        n *= 1 + STRIDE
    return done


def _information(fit: Fit, mean: Floats, covariance: Floats) -> Floats:
    """What one more comparison of weight 1, drawn from those so far, adds to the precision."""
    t, n = fit.data.triples, mean.size
    met = np.bincount(t.winner.astype(np.int64) * n + t.loser, t.weight, n * n).reshape(n, n)
    told = fisher(mean[:, None] - mean[None, :], gap_variance(covariance), usual_quality(fit))
    weight = (met + met.T) * told / met.sum()
    np.fill_diagonal(weight, 0.0)
    laplacian: Floats = np.diag(weight.sum(axis=1)) - weight
    return laplacian


def _chosen(
    mean: Floats, covariance: Floats, ask: _Asked, quality: float, rng: np.random.Generator
) -> Floats:
    """When each path knows, every comparison being on the pair most in doubt."""
    n_paths = min(max(CHOSEN_CELLS // mean.size**2, CHOSEN_PATHS[0]), CHOSEN_PATHS[1])
    path, s = np.tile(mean, (n_paths, 1)), np.tile(covariance, (n_paths, 1, 1))
    done, spent, step = np.full(n_paths, inf), 0.0, 1.0
    open_paths: NDArray[np.int64] = np.arange(n_paths)
    # Neighbours take turns, so that a step must be small beside what each of them got.
    stride = min(CHOSEN_STRIDE, 2 / mean.size if ask.question == "neighbours" else 1.0)
    while spent <= OUT_OF_REACH:
        first, second = ask.pairs(path)
        each = np.arange(len(path))[:, None]
        variance = s[each, first, first] + s[each, second, second] - 2 * s[each, first, second]
        gap = path[each, first] - path[each, second]
        z = gap / np.sqrt(np.maximum(variance, LEAST_VARIANCE))
        known = ask.answered(z)
        done[open_paths[known]] = spent
        left = ~known
        if left.sum() <= (1 - PATIENT) * n_paths:
            break
        path, s, open_paths = path[left], s[left], open_paths[left]
        row, worst = np.arange(len(path)), z[left].argmin(axis=1)
        i, j = first[left][row, worst], second[left][row, worst]
        v = np.maximum(variance[left][row, worst], LEAST_VARIANCE)
        told = step * fisher(gap[left][row, worst], v, quality)
        share = told / (1 + told * v)
        column = s[row, :, i] - s[row, :, j]
        path = path + column * (np.sqrt(share) * rng.standard_normal(len(path)))[:, None]
        s = s - share[:, None, None] * column[:, :, None] * column[:, None, :]
        spent += step
        step = max(1.0, stride * spent)
    return done


def _quantile(done: Floats, chance: float) -> float:
    """Comparisons after which so many of the paths know, to two digits."""
    found = float(np.quantile(done, chance, method="higher"))
    if not np.isfinite(found) or found > OUT_OF_REACH:
        return inf
    return float(f"{max(1, ceil(found)):.2g}")
