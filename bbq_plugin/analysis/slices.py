"""Slices of one study side by side: a leaderboard each, what differs, and a mix of given shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from statistics import NormalDist

import numpy as np

from bbq_plugin.analysis.analysis import Analysis
from bbq_plugin.analysis.leaderboard import ItemRow, Leaderboard, Row, leaderboard, to_rating
from bbq_plugin.analysis.uncertainty import relative_sd
from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.errors import UsageError, did_you_mean
from bbq_plugin.model import Fit, fit
from bbq_plugin.model.slice_pooling import Pooled, pooled
from bbq_plugin.text import listed

# Beyond, differences between each two slices are more than a reader can use.
MOST_PAIRS = 15


@dataclass(frozen=True, slots=True)
class SliceCell(Row):
    """An item in a slice: its rating there, and how far that is from the mean over all slices.

    ``differs``: the difference is not 0, for all items and slices at once at the level.
    """

    slice: str
    item: str
    rating: float
    rating_lower: float
    rating_upper: float
    difference: float
    difference_lower: float
    difference_upper: float
    differs: bool
    n: float


@dataclass(frozen=True, slots=True)
class SliceDifference(Row):
    """An item in one slice less the same item in another, on the scale of the ratings.

    ``differs``: not 0, for all items and all pairs of slices at once at the level.
    """

    slice: str
    other: str
    item: str
    difference: float
    difference_lower: float
    difference_upper: float
    differs: bool


@dataclass(frozen=True, slots=True)
class SliceSummary(Row):
    """What is known of a slice: its answers and raters, their mean quality, and what is first.

    The interval of the mean quality is that of raters like these.
    """

    slice: str
    n_comparisons: int
    n_raters: int
    quality: float | None
    best: str
    quality_lower: float | None = None
    quality_upper: float | None = None


class SlicedStudy:
    """A fit of all answers, and its slices by the values of ``tag``, partially pooled."""

    def __init__(self, tag: str, overall: Analysis, groups: Mapping[str, Comparisons]) -> None:
        self.tag, self.overall, self.groups = tag, overall, groups
        self._fit = _one_ranking(overall.fit)
        #: Of the mix that was asked for last.
        self.shares: dict[str, float] = {}
        #: What its shares summed to as they were given.
        self.total = 1.0

    @cached_property
    def pooled(self) -> Pooled:
        """The rankings of all slices."""
        return pooled(self._fit, self.groups)

    @cached_property
    def analyses(self) -> dict[str, Analysis]:
        """Each slice as an analysis; raters are judged by all their answers."""
        base = self.overall
        return {
            name: Analysis(
                self.pooled.slice_fit(self._fit, place, data), base.limits,
                base.previously_excluded, at=base.at, raters=base.raters,
            )
            for place, (name, data) in enumerate(self.groups.items())
        }  # fmt: skip

    @property
    def boards(self) -> dict[str, Leaderboard]:
        """The leaderboard of each slice."""
        return {name: one.leaderboard for name, one in self.analyses.items()}

    @cached_property
    def cells(self) -> tuple[SliceCell, ...]:
        """Every item in every slice, the items in the order of the board of all answers."""
        n, to = len(self.groups), self.overall.limits
        items = self._fit.items
        code = {name: i for i, name in enumerate(items)}
        order = [code[row.item] for row in self.overall.leaderboard]
        sure = NormalDist().inv_cdf(1 - (1 - to.level) / (2 * n * len(items)))
        reach = NormalDist().inv_cdf((1 + to.level) / 2)
        unit, out = self._unit, []
        for place, (name, board) in enumerate(self.boards.items()):
            rows = {row.item: row for row in board}
            apart, covariance = self.pooled.of(np.eye(n)[place] - 1 / n)
            apart, sd = apart - apart.mean(), relative_sd(covariance)
            for i in order:
                row = rows[items[i]]
                out.append(
                    SliceCell(
                        name, row.item, row.rating, row.rating_lower, row.rating_upper,
                        float(unit * apart[i]),
                        float(unit * (apart[i] - reach * sd[i])),
                        float(unit * (apart[i] + reach * sd[i])),
                        bool(abs(apart[i]) > sure * sd[i]),
                        row.n,
                    )
                )  # fmt: skip
        return tuple(out)

    @cached_property
    def differences(self) -> tuple[SliceDifference, ...]:
        """Every item between each two slices, where there are not too many pairs of them."""
        names, items, to = list(self.groups), self._fit.items, self.overall.limits
        pairs = list(combinations(range(len(names)), 2))
        if not 0 < len(pairs) <= MOST_PAIRS:
            return ()
        sure = NormalDist().inv_cdf(1 - (1 - to.level) / (2 * len(pairs) * len(items)))
        reach = NormalDist().inv_cdf((1 + to.level) / 2)
        code = {name: i for i, name in enumerate(items)}
        order = [code[row.item] for row in self.overall.leaderboard]
        out, unit = [], np.eye(len(names))
        for one, other in pairs:
            gap, covariance = self.pooled.of(unit[one] - unit[other])
            gap, sd = self._unit * (gap - gap.mean()), self._unit * relative_sd(covariance)
            out += [
                SliceDifference(
                    names[one], names[other], items[i], float(gap[i]),
                    float(gap[i] - reach * sd[i]), float(gap[i] + reach * sd[i]),
                    bool(abs(gap[i]) > sure * sd[i]),
                )
                for i in order
            ]  # fmt: skip
        return tuple(out)

    @cached_property
    def of_raters(self) -> bool:
        """Whether the slices are groups of raters: no rater is in two of them."""
        return self._fit.data.n_raters > 0 and (
            sum(data.n_raters for data in self.groups.values()) == self._fit.data.n_raters
        )

    @property
    def spread(self) -> float:
        """How far slices lie apart, on the scale of the ratings."""
        return self.pooled.tau * self._unit

    @property
    def _unit(self) -> float:
        scale = self.overall.limits.scale
        return float(to_rating(np.ones(1), scale)[0] - to_rating(np.zeros(1), scale)[0])

    def by_item(self) -> list[list[SliceCell]]:
        """The cells of each item in the order of the slices, items as in the board of all."""
        k = len(self._fit.items)
        return [list(self.cells[i::k]) for i in range(k)]

    @cached_property
    def summaries(self) -> tuple[SliceSummary, ...]:
        """The slices in a line each."""
        quality = dict(zip(self._fit.raters, self._fit.quality.tolist(), strict=False))
        reach = NormalDist().inv_cdf((1 + self.overall.limits.level) / 2)
        rows = []
        for name, data in self.groups.items():
            known: tuple[float | None, float | None, float | None] = (None, None, None)
            if self._fit.rated:
                found = np.array([quality[r] for r in data.raters])
                mean = float(found.mean())
                wide = (
                    reach * float(found.std(ddof=1) / np.sqrt(found.size)) if found.size > 1 else 1
                )
                known = mean, max(0.0, mean - wide), min(1.0, mean + wide)
            rows.append(
                SliceSummary(
                    name, data.n_comparisons, data.n_raters, known[0], self.boards[name][0].item,
                    known[1], known[2],
                )
            )  # fmt: skip
        return tuple(rows)

    def target(self, shares: Mapping[str, float]) -> Leaderboard:
        """The leaderboard of a mix of slices with these shares (post-stratification).

        An item's win share is the mean of those in the slices, and so are its ends: what is not
        known of two slices may go together, so that the interval is never too narrow. ``n`` and
        ``wins`` count the slices that have a share.
        """
        weights = checked_shares(shares, list(self.groups), self.tag)
        self.total = float(sum(shares.values()))
        self.shares = dict(zip(self.groups, weights, strict=True))
        mixed = self.pooled.mix_fit(self._fit, weights)
        to = self.overall.limits
        board = leaderboard(mixed, "robust", to.level, to.scale, seed=to.seed)
        parts = [
            (weight, {row.item: row for row in self.boards[name]})
            for name, weight in self.shares.items()
            if weight
        ]
        return board.with_rows([_of_mix(row, parts) for row in board])


def checked_shares(shares: Mapping[str, float], names: Sequence[str], tag: str) -> list[float]:
    """The share of each slice, summing to 1; a name that is no slice is refused."""
    for name in shares:
        if name not in names:
            hint = did_you_mean(name, names, f"{tag} has: {listed(names)}")
            raise UsageError(f"there is no slice {name!r} of {tag}{hint}")
    weights = [float(shares.get(name, 0.0)) for name in names]
    total = sum(weights)
    if min(weights) < 0 or not np.isfinite(total) or total <= 0:
        raise UsageError(f"the shares of {tag} are {dict(shares)}; expected positive numbers")
    return [weight / total for weight in weights]


def _of_mix(row: ItemRow, parts: Sequence[tuple[float, Mapping[str, ItemRow]]]) -> ItemRow:
    """The row of an item in a mix, with what its rows in the slices say of answers and raters."""
    found = [(weight, rows[row.item]) for weight, rows in parts]
    return replace(
        row,
        win_share=sum(weight * one.win_share for weight, one in found),
        win_share_lower=sum(weight * one.win_share_lower for weight, one in found),
        win_share_upper=sum(weight * one.win_share_upper for weight, one in found),
        n=sum(one.n for _, one in found),
        wins=sum(one.wins for _, one in found),
    )


def _one_ranking(found: Fit) -> Fit:
    """Slices are those of one ranking: of a divided panel, of the panel taken as one."""
    if found.division is None:
        return found
    return fit(found.data, found.model, camps=1, ties=found.ties, cluster=found.cluster)
