"""How many more comparisons are needed: for each question on the ranking, and for each open pair.

A question (the best item, the best k, the order of all neighbours) is answered along simulated
paths of the posterior, at the current mix of pairs and with pairs chosen by bbq. An open pair is
two items whose order is not decided at the leaderboard's level; its direct comparisons needed
follow from the gap and its variance alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, inf
from statistics import NormalDist
from typing import Literal

import numpy as np

from bbq_plugin.analysis.leaderboard import Leaderboard, Row, Rows
from bbq_plugin.analysis.next_pairs import (
    LEAST_QUALITY,
    LEAST_VARIANCE,
    PanelRanking,
    fisher,
    gap_variance,
    panel_ranking,
)
from bbq_plugin.analysis.uncertainty import Uncertainty, eigen, gaussian
from bbq_plugin.data.triples import Codes, Floats, Mask
from bbq_plugin.model import Fit
from bbq_plugin.model.objectives import LARGEST_COVARIANCE

Question = Literal["best", "top-k", "neighbours"]
Stake = Literal["best", "neighbours", "other"]
TOP_K = 3
# No study has more: beyond, items are as good as equal.
OUT_OF_REACH = 1_000_000
# A number of comparisons is given for an even chance, and for this one.
PATIENT = 0.8
# Each path has a covariance of its own where pairs are chosen.
MOST_ITEMS = 60
DRAWS = 2000
# As many paths as take little time: of few items many, since quantiles of so wide distributions
# are coarse.
PATHS, CELLS = (150, 800), 4_000
CHOSEN_PATHS, CHOSEN_CELLS = (16, 150), 20_000
# How much is spent from one look at the paths to the next, as a share of what was spent before.
STRIDE, CHOSEN_STRIDE = 0.2, 0.12
# Phi(-z) at points 1/200 apart, good to 1e-3: scipy.special loads slowly.
_FINE, _FAR = 200.0, 8.0
_TAIL = np.array([NormalDist().cdf(-at / _FINE) for at in range(int(_FINE * _FAR) + 1)])


@dataclass(frozen=True, slots=True)
class Milestone(Row):
    """One question, how certain its answer is now, and the comparisons needed to answer it.

    ``more`` at the current mix of pairs answer it with an even chance, ``more_80`` with a chance of
    80%; ``chosen`` and ``chosen_80`` with pairs chosen by bbq. Infinite: out of reach.
    """

    question: Question
    top_k: int | None
    probability: float
    known: bool
    more: float
    more_80: float
    chosen: float
    chosen_80: float


@dataclass(frozen=True, slots=True)
class OpenPair(Row):
    """Two items whose order is not decided, the better rated first.

    ``more`` direct comparisons decide the pair with an even chance, ``more_80`` with a chance of
    80%; infinite when out of reach. ``kind`` says what depends on it: which item is best, the order
    of two neighbours, or neither.
    """

    rank: int
    item: str
    other_rank: int
    other: str
    p_better: float
    more: float
    more_80: float
    kind: Stake


class OpenPairs(Rows[OpenPair]):
    """Open pairs, up to a limit: those with the leader first, then neighbours, then the rest."""

    def __init__(self, rows: list[OpenPair], n_open: int, n_pairs: int, quality: float) -> None:
        super().__init__(rows)
        self.n_open, self.n_pairs, self.quality = n_open, n_pairs, quality

    @property
    def n_settled(self) -> int:
        """How many pairs are decided already."""
        return self.n_pairs - self.n_open


@dataclass(frozen=True, eq=False)
class Forecast:
    """The comparisons needed after a fit; each part is computed when it is first asked for."""

    fit: Fit
    board: Leaderboard
    top_k: int | None = TOP_K
    seed: int = 0

    @cached_property
    def milestones(self) -> tuple[Milestone, ...]:
        """The questions; none for too many items, of which ``no_milestones`` tells."""
        if self.no_milestones:
            return ()
        target = panel_ranking(self.fit, self.board.camp)
        known = gaussian("robust", target.mean, target.covariance, (), DRAWS, self.seed)
        level = self.board.level
        return tuple(milestones(self.fit, known, level, self.top_k, self.seed, self.board.camp))

    @property
    def no_milestones(self) -> str:
        """Why there are no milestones; empty if there are."""
        n = len(self.board)
        if n <= MOST_ITEMS:
            return ""
        return f"no forecast is made for more than {MOST_ITEMS} items, and these are {n:,}"

    @cached_property
    def open_pairs(self) -> OpenPairs | None:
        """The pairs that are not decided; None of too many items."""
        if len(self.board) > LARGEST_COVARIANCE:
            return None
        return open_pairs(self.fit, self.board)


def open_pairs(fit: Fit, board: Leaderboard, most: int = 1000) -> OpenPairs:
    """The open pairs of a leaderboard, at most ``most`` of them listed."""
    k, better = len(board), board.better
    sure = (1 + board.level) / 2
    first, second = np.nonzero(np.triu((better < sure) & (better > 1 - sure), 1))
    kinds = np.where(first == 0, 0, np.where(second == first + 1, 1, 2))
    listed = np.lexsort((second, first, kinds))[:most]
    n_open, first, second, kinds = first.size, first[listed], second[listed], kinds[listed]
    target = panel_ranking(fit, board.camp)
    quality = max(target.quality, LEAST_QUALITY)
    code = {name: at for at, name in enumerate(fit.items)}
    order = np.array([code[row.item] for row in board])
    z = NormalDist().inv_cdf(sure)
    targets = (z, z + NormalDist().inv_cdf(PATIENT))
    more, more_80 = _direct(target, order[first], order[second], quality, targets)
    stakes: tuple[Stake, ...] = ("best", "neighbours", "other")
    rows = [
        OpenPair(
            rank=board[i].rank,
            item=board[i].item,
            other_rank=board[j].rank,
            other=board[j].item,
            p_better=float(better[i, j]),
            more=_whole(n),
            more_80=_whole(n_80),
            kind=stakes[kind],
        )
        for i, j, kind, n, n_80 in zip(
            first.tolist(), second.tolist(), kinds.tolist(), more, more_80, strict=True
        )
    ]
    return OpenPairs(rows, n_open, k * (k - 1) // 2, quality)


def _direct(
    known: PanelRanking, i: Codes, j: Codes, quality: float, targets: tuple[float, ...]
) -> list[Floats]:
    """Direct comparisons until each gap is so many (``targets``) of its standard deviations."""
    gap, covariance = known.mean[i] - known.mean[j], known.covariance
    spread = np.diag(covariance)
    variance = np.maximum(spread[i] + spread[j] - 2 * covariance[i, j], 1e-300)
    y = 1 / (1 + np.exp(-gap))
    p = 0.5 + quality * (y - 0.5)
    information = (quality * y * (1 - y)) ** 2 / (p * (1 - p))
    # A gap of exactly nothing is never decided.
    squared = np.maximum(gap**2, 1e-300)
    return [np.maximum(target**2 / squared - 1 / variance, 0.0) / information for target in targets]


def _whole(n: float) -> float:
    return inf if n > OUT_OF_REACH else float(max(1, ceil(n)))


def milestones(
    fit: Fit, known: Uncertainty, level: float, top_k: int | None, seed: int = 0,
    camp: int | None = None,
) -> list[Milestone]:  # fmt: skip
    """The three questions of a fit; the one on the best ``top_k`` only where it is another.

    Of a divided panel they are on its preference, or on that of one ``camp`` (from 1), of whose
    raters the comparisons then are.
    """
    target = panel_ranking(fit, camp)
    n_items = len(fit.items)
    questions: list[tuple[Question, int | None]] = [("best", None)]
    if top_k is not None and 1 < top_k < n_items:
        questions.append(("top-k", top_k))
    if n_items > 2:
        questions.append(("neighbours", None))
    return [_milestone(fit, target, known, level, name, k, seed) for name, k in questions]


def _milestone(
    fit: Fit, target: PanelRanking, known: Uncertainty, level: float, question: Question,
    top_k: int | None, seed: int,
) -> Milestone:  # fmt: skip
    mean, covariance = target.mean, target.covariance
    probability = _probability(known, mean, covariance, question, top_k)
    sure = probability >= ((1 + level) / 2 if question == "neighbours" else level)
    needed = [0.0] * 4
    if not sure:
        ask, rng = _Asked(question, top_k, level), np.random.default_rng(seed)
        more = _current_mix(fit, target, ask, rng)
        chosen = _chosen(mean, covariance, ask, target.informative, rng)
        needed = [_quantile(n, chance) for n in (more, chosen) for chance in (0.5, PATIENT)]
    return Milestone(question, top_k, probability, sure, *needed)


def _probability(
    known: Uncertainty, mean: Floats, covariance: Floats, question: Question, top_k: int | None
) -> float:
    """How certain the likeliest answer is now; of neighbours, the least certain pair."""
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

    def pairs(self, mean: Floats) -> tuple[Codes, Codes]:
        """The pairs that the question depends on, better one first: paths x pairs."""
        order = np.argsort(-mean, axis=1)
        if self.question == "neighbours":
            return order[:, :-1], order[:, 1:]
        k, n = self.inside, mean.shape[1]
        return np.repeat(order[:, :k], n - k, axis=1), np.tile(order[:, k:], (1, k))

    def answered(self, z: Floats) -> Mask:
        """Whether each path knows, from the standardised gaps of those pairs."""
        if self.question == "neighbours":
            return np.asarray(z.min(axis=1) >= self.z)
        place = (np.minimum(z, _FAR) * _FINE + 0.5).astype(np.intp)
        return np.asarray(_TAIL[place].sum(axis=1) <= self.doubt)


def _current_mix(fit: Fit, target: PanelRanking, ask: _Asked, rng: np.random.Generator) -> Floats:
    """When each path knows, at the current mix of pairs."""
    mean = target.mean
    roots, axes = eigen(target.covariance)
    half = axes * np.sqrt(roots)
    told, turn = eigen(half.T @ _information(fit, target) @ half)
    basis = half @ turn
    n_paths = min(max(CELLS // mean.size, PATHS[0]), PATHS[1])
    at: Floats = np.zeros((n_paths, mean.size))
    open_paths: Codes = np.arange(n_paths)
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


def _information(fit: Fit, target: PanelRanking) -> Floats:
    """What one more comparison of weight 1, drawn from those so far, adds to the precision."""
    everyone, mean, n = target.counted is None, target.mean, target.mean.size
    t = fit.data.pooled if everyone else fit.data.triples
    weight = t.weight if target.counted is None else t.weight * target.counted[t.rater()]
    met = np.bincount(t.winner.astype(np.int64) * n + t.loser, weight, n * n).reshape(n, n)
    gaps, variance = mean[:, None] - mean[None, :], gap_variance(target.covariance)
    told = fisher(gaps, variance, target.informative)
    mix = (met + met.T) * told / met.sum()
    np.fill_diagonal(mix, 0.0)
    laplacian: Floats = np.diag(mix.sum(axis=1)) - mix
    return laplacian


def _chosen(
    mean: Floats, covariance: Floats, ask: _Asked, quality: float, rng: np.random.Generator
) -> Floats:
    """When each path knows, every comparison being on the pair most in doubt."""
    n_paths = min(max(CHOSEN_CELLS // mean.size**2, CHOSEN_PATHS[0]), CHOSEN_PATHS[1])
    path, s = np.tile(mean, (n_paths, 1)), np.tile(covariance, (n_paths, 1, 1))
    done, spent, step = np.full(n_paths, inf), 0.0, 1.0
    open_paths: Codes = np.arange(n_paths)
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
