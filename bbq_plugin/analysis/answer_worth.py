"""What more answers on given pairs are expected to change: the leader, and what is undecided.

With the notation of `next_pairs`: n answers of typical raters on the items i and j add n k to the
precision of their gap. Before they are given, the means of all items will move by c s along
c = S (e_i - e_j), with

    s ~ N(0, h),    h = n k / (1 + n k v),

and the covariance becomes S - h c c'. So whether the leader changes, or a pair of items becomes
decided or open again, depends on one number s: each of these is an interval of s, and the chance
that anything changes is what the Gaussian has outside of their intersection.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np

from bbq_plugin.analysis.leaderboard import Leaderboard
from bbq_plugin.analysis.next_pairs import (
    LEAST_QUALITY,
    LEAST_VARIANCE,
    Design,
    fisher,
    gap_variance,
)
from bbq_plugin.analysis.panel_ranking import panel_ranking
from bbq_plugin.analysis.uncertainty import eigen
from bbq_plugin.data.feedback_actions import PlanWorth
from bbq_plugin.data.triples import Floats
from bbq_plugin.model import Fit

# How the future is drawn: means after the answers, and thetas around each of these.
_FUTURES, _DRAWS = 64, 512
_CLOSE = 1e-12
_PHI = NormalDist().cdf


class AnswerWorth:
    """The worth of answers that are not given yet, by the posterior of a fit."""

    def __init__(self, fit: Fit, board: Leaderboard, seed: int = 0) -> None:
        target = panel_ranking(fit)
        self._quality = max(target.quality, LEAST_QUALITY)
        self._mean, self._covariance = target.mean, target.covariance
        self._code = {name: i for i, name in enumerate(fit.items)}
        self._board, self._seed = board, seed
        self._z = NormalDist().inv_cdf((1 + board.level) / 2)
        self._pairs = np.triu_indices(len(fit.items), 1)

    @cached_property
    def _gain(self) -> tuple[Design, Floats]:
        design = Design(self._mean, self._covariance, self._quality)
        return design, design.gain(self._quality)

    def _pair(self, items: Sequence[str]) -> tuple[int, int] | None:
        """The two items of a task; of several, those on which an answer tells most."""
        codes = sorted({self._code[name] for name in items if name in self._code})
        if len(codes) < len(set(items)) or len(codes) < 2:
            return None
        if len(codes) > 2:
            design, gain = self._gain
            inside = np.isin(design.first, codes) & np.isin(design.second, codes)
            if inside.any():
                at = int(np.argmax(np.where(inside, gain, -1.0)))
                return int(design.first[at]), int(design.second[at])
        return codes[0], codes[1]

    def _told(self, i: int, j: int, variance: float) -> float:
        """h of one answer more, k / (1 + k v)."""
        gap = self._mean[i] - self._mean[j]
        k = float(fisher(gap, np.asarray(variance), self._quality))
        return k / (1 + k * variance)

    def chance(self, items: Sequence[str], n: int) -> float | None:
        """P(n answers on these items change the leader, or decide or open a pair).

        None: one of the items is not known yet.
        """
        pair = self._pair(items)
        if pair is None:
            return None
        i, j = pair
        column = self._covariance[:, i] - self._covariance[:, j]
        v = now = max(float(column[i] - column[j]), LEAST_VARIANCE)
        for _ in range(n):
            now -= self._told(i, j, now) * now * now
        h = (v - now) / (v * v)
        if h <= 0:
            return 0.0
        low, high = self._unchanged(column, h)
        inside = _PHI(high / h**0.5) - _PHI(low / h**0.5) if low < high else 0.0
        return min(1.0, max(0.0, 1.0 - inside))

    def _unchanged(self, column: Floats, h: float) -> tuple[float, float]:
        """The values of s that change nothing."""
        a, b = self._pairs
        gap, along = self._mean[a] - self._mean[b], column[a] - column[b]
        variance = gap_variance(self._covariance)[a, b]
        reach = self._z * np.sqrt(variance)
        after = self._z * np.sqrt(np.maximum(variance - h * along**2, _CLOSE))
        side = np.sign(gap)
        decided = np.abs(gap) >= reach
        # side (gap + along s) >= after where decided, else between -after and after.
        ends = [(side * gap - after, side * along, decided)]
        ends += [(after - sign * gap, -sign * along, ~decided) for sign in (1.0, -1.0)]
        best = int(np.argmax(self._mean))
        ends.append((side * gap, side * along, (a == best) | (b == best)))
        low, high = -np.inf, np.inf
        for level, slope, counts in ends:
            # level + slope s >= 0
            moves = counts & (np.abs(slope) > _CLOSE)
            with np.errstate(divide="ignore"):
                bound = -level[moves] / slope[moves]
            up = slope[moves] > 0
            low = max(low, float(bound[up].max(initial=-np.inf)))
            high = min(high, float(bound[~up].min(initial=np.inf)))
            if (level[counts & ~moves] < -_CLOSE).any():
                return 0.0, 0.0
        return low, high

    def together(self, asked: Iterable[tuple[Sequence[str], int]]) -> PlanWorth:
        """What all of these answers are expected to change; items that are not known count not."""
        after, n = self._covariance.copy(), 0
        for items, some in asked:
            n += some
            pair = self._pair(items)
            for _ in range(0 if pair is None else some):
                i, j = pair or (0, 0)
                column = after[:, i] - after[:, j]
                v = max(float(column[i] - column[j]), LEAST_VARIANCE)
                after -= self._told(i, j, v) * np.outer(column, column)
        a, b = self._pairs
        now, then = gap_variance(self._covariance)[a, b], gap_variance(after)[a, b]
        gap = self._mean[a] - self._mean[b]
        n_open = int(np.count_nonzero(np.abs(gap) < self._z * np.sqrt(now)))
        leader = self._board[0]
        gained = self._gained(after, self._code[leader.item]) if n else 0.0
        return PlanWorth(
            n_answers=n,
            leader=leader.item,
            p_best=leader.p_best,
            p_best_expected=float(np.clip(leader.p_best + gained, 0.0, 1.0)),
            n_pairs=gap.size,
            n_open=n_open,
            n_open_expected=float(_p_open(gap, now, then, self._z).sum()) if n else float(n_open),
        )

    def _gained(self, after: Floats, leader: int) -> float:
        """E[max over items of P(best)] after the answers, less P(best) of today's leader.

        The leader's P(best) is the same on average after answers as it is before: what is gained
        is that another item may be ahead by then, and surely so.
        """
        rng = np.random.default_rng(self._seed)
        k = self._mean.size
        future = rng.standard_normal((_FUTURES, k)) @ _root(self._covariance - after)
        around = rng.standard_normal((_DRAWS, k)) @ _root(after)
        gains = []
        for mean in self._mean + future:
            best = np.bincount(np.argmax(mean + around, axis=1), minlength=k) / _DRAWS
            gains.append(best.max() - best[leader])
        return float(np.mean(gains))


def _p_open(gap: Floats, now: Floats, then: Floats, z: float) -> Floats:
    """P(a pair is open after the answers): its mean moves by N(0, now - then)."""
    from scipy.special import ndtr  # noqa: PLC0415 (loads slowly)

    sd = np.sqrt(np.maximum(now - then, 0.0))
    reach = z * np.sqrt(then)
    moving = sd > 1e-9
    safe: Any = np.where(moving, sd, 1.0)
    inside = ndtr((reach - gap) / safe) - ndtr((-reach - gap) / safe)
    return np.where(moving, inside, (np.abs(gap) < reach).astype(np.float64))


def _root(covariance: Floats) -> Floats:
    roots, axes = eigen(covariance)
    return np.asarray((axes * np.sqrt(roots)).T)
