"""How many more comparisons would settle what is still open: an approximation, for planning.

For a pair (i, j) with the gap d = theta_i - theta_j and its variance v from the Laplace
covariance, one more direct comparison by a rater of quality q adds the Fisher information

    I = (q y (1 - y))^2 / (P (1 - P)),     y = 1 / (1 + exp(-d)),   P = 1/2 + q (y - 1/2)

to the precision 1 / v. If the true gap is the estimated one, z = |d| / sd reaches z* of the level
after n = (z*^2 / d^2 - 1 / v) / I comparisons. Then the pair is settled with an even chance; for a
chance of 80% z* becomes z* + 0.84. Comparisons of one pair also help the others a little, and a
gap that is really smaller needs more: both are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import overload

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from bbq_plugin.insight.leaderboard import Leaderboard
from bbq_plugin.insight.pairs import average_quality
from bbq_plugin.insight.rows import Row
from bbq_plugin.insight.uncertainty import Floats
from bbq_plugin.model import Fit
from bbq_plugin.model.fitting import LARGEST_COVARIANCE

__all__ = ["OpenPair", "SettlingPlan", "settling_plan"]

POWER = 0.8
# Nobody runs a study of more: beyond, the two are as good as equal.
OUT_OF_REACH = 1_000_000
KINDS = ("best", "neighbours", "other")

LEAST_QUALITY = 0.01  # no number of answers settles anything if nobody looks


@dataclass(frozen=True, slots=True)
class OpenPair(Row):
    """Two items that cannot be told apart, the better rated first.

    ``more`` direct comparisons settle the pair with an even chance, ``more_80`` with a chance of
    80%; infinite when out of reach. ``kind`` says what hangs on it: who is best, or the order of
    two neighbours, or neither.
    """

    rank: int
    item: str
    other_rank: int
    other: str
    p_better: float
    more: float
    more_80: float
    kind: str


class SettlingPlan(Sequence[OpenPair]):
    """Open pairs: those with the leader first, then neighbours, then the rest, up to a limit."""

    def __init__(self, pairs: list[OpenPair], n_open: int, n_pairs: int, quality: float) -> None:
        self._pairs, self.n_open, self.n_pairs, self.quality = pairs, n_open, n_pairs, quality

    @property
    def n_settled(self) -> int:
        """How many pairs are told apart already."""
        return self.n_pairs - self.n_open

    @overload
    def __getitem__(self, index: int) -> OpenPair: ...
    @overload
    def __getitem__(self, index: slice) -> list[OpenPair]: ...
    def __getitem__(self, index: int | slice) -> OpenPair | list[OpenPair]:
        return self._pairs[index]

    def __len__(self) -> int:
        return len(self._pairs)

    def __iter__(self) -> Iterator[OpenPair]:
        return iter(self._pairs)


def settling_plan(
    fit: Fit, board: Leaderboard, better: Floats | None = None, most: int = 1000
) -> SettlingPlan:
    """The open pairs of a leaderboard, and what each would take.

    ``better`` is the board's matrix, for those who have it already; at most ``most`` pairs are
    listed.
    """
    k = len(board)
    better = board.better if better is None else better
    sure = (1 + board.level) / 2
    first, second = np.nonzero(np.triu((better < sure) & (better > 1 - sure), 1))
    kinds = np.where(first == 0, 0, np.where(second == first + 1, 1, 2))
    listed = np.lexsort((second, first, kinds))[:most]
    n_open, first, second, kinds = first.size, first[listed], second[listed], kinds[listed]
    quality = max(average_quality(fit), LEAST_QUALITY)
    more, more_80 = _needed(fit, board, (first, second), float(ndtri(sure)), quality)
    pairs = [
        OpenPair(
            rank=board[i].rank,
            item=board[i].item,
            other_rank=board[j].rank,
            other=board[j].item,
            p_better=float(better[i, j]),
            more=_whole(n),
            more_80=_whole(n_80),
            kind=KINDS[kind],
        )
        for i, j, kind, n, n_80 in zip(
            first.tolist(), second.tolist(), kinds.tolist(), more, more_80, strict=True
        )
    ]
    return SettlingPlan(pairs, n_open, k * (k - 1) // 2, quality)


def _needed(
    fit: Fit,
    board: Leaderboard,
    places: tuple[NDArray[np.intp], NDArray[np.intp]],
    z: float,
    quality: float,
) -> tuple[Floats, Floats]:
    first, second = places
    if not first.size or len(board) > LARGEST_COVARIANCE:
        unknown = np.full(first.size, inf)
        return unknown, unknown
    code = {name: at for at, name in enumerate(fit.items)}
    order = np.array([code[row.item] for row in board])
    i, j = order[first], order[second]
    mean, covariance = fit.laplace.mean, fit.laplace.covariance
    gap = mean[i] - mean[j]
    spread = np.diag(covariance)
    variance = np.maximum(spread[i] + spread[j] - 2 * covariance[i, j], 1e-300)
    y = 1 / (1 + np.exp(-gap))
    p = 0.5 + quality * (y - 0.5)
    information = (quality * y * (1 - y)) ** 2 / (p * (1 - p))
    # A gap of exactly nothing is never settled.
    squared = np.maximum(gap**2, 1e-300)

    def reach(target: float) -> Floats:
        return np.asarray(np.maximum(target**2 / squared - 1 / variance, 0.0) / information)

    return reach(z), reach(z + float(ndtri(POWER)))


def _whole(n: float) -> float:
    return inf if n > OUT_OF_REACH else float(max(1, ceil(n)))
