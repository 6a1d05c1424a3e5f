"""Facts about the data, without a model: skipped rows, ties, position bias, connected groups."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from bbq_plugin.model.kernels import likelihood as kernels
from bbq_plugin.report.summary import Name, Sentence, name

if TYPE_CHECKING:
    from bbq_plugin.analysis.uncertainty import Floats
    from bbq_plugin.data.dataset import Comparisons

Z95 = 1.959963984540054
REASONS_SHOWN = 20
WORST_SHOWN = 10


@dataclass(frozen=True)
class Spread:
    """Least, median and most of what each item or rater has."""

    least: float
    median: float
    most: float

    @classmethod
    def of(cls, values: Floats) -> Spread:
        """Of at least one value."""
        return cls(float(values.min()), float(np.median(values)), float(values.max()))


@dataclass(frozen=True)
class PositionBias:
    """Share of decided answers for the left item, with its 95% interval."""

    rate: float
    lower: float
    upper: float
    #: 0: the data name no raters, and the answers are taken as independent.
    n_raters: int

    @property
    def verdict(self) -> str:
        """What the interval says, and what to do."""
        if np.isnan(self.lower):
            return "only one rater, so there is no interval"
        if self.lower <= 0.5 <= self.upper:
            return "no position bias found"
        side = "left" if self.rate > 0.5 else "right"
        return f"position bias to the {side}; show the items in random order"


@dataclass(frozen=True)
class DataQuality:
    """What the section on the data shows."""

    skips: list[tuple[str, int]]
    more_reasons: int
    n_skipped: int
    skip_share: float
    tie_share: float
    both_bad_share: float
    #: Item, share answered both bad, comparisons; the highest shares first.
    both_bad: list[tuple[str, float, float]]
    bias: PositionBias | None
    groups: list[Sentence]
    n_groups: int
    per_item: Spread
    per_rater: Spread | None
    pairs_seen: int
    pairs_possible: int


def data_quality(data: Comparisons) -> DataQuality:
    """Describe the comparisons."""
    t = data.triples
    ends = np.concatenate((t.winner, t.loser))
    per_item = np.asarray(np.bincount(ends, np.tile(t.weight, 2), t.n_items), dtype=np.float64)
    per_rater = np.asarray(np.bincount(t.rater(), t.weight, t.n_raters), dtype=np.float64)
    group = kernels.groups(t.winner, t.loser, t.n_items)
    low, high = np.minimum(t.winner, t.loser), np.maximum(t.winner, t.loser)
    skips = sorted(data.skip_reasons.items(), key=lambda reason: -reason[1])
    read = data.n_comparisons + data.n_skipped
    return DataQuality(
        skips=skips[:REASONS_SHOWN],
        more_reasons=max(0, len(skips) - REASONS_SHOWN),
        n_skipped=data.n_skipped,
        skip_share=data.n_skipped / read,
        tie_share=data.n_ties / data.n_comparisons,
        both_bad_share=data.n_both_bad / data.n_comparisons,
        both_bad=_both_bad(data, per_item),
        bias=position_bias(data.left_rate, per_rater)
        if data.has_raters
        else pooled_bias(data.n_left, data.n_sided),
        groups=_groups(group, data.items),
        n_groups=int(np.unique(group).size),
        per_item=Spread.of(per_item),
        per_rater=Spread.of(per_rater) if data.has_raters else None,
        pairs_seen=int(np.unique(low.astype(np.int64) * t.n_items + high).size),
        pairs_possible=t.n_items * (t.n_items - 1) // 2,
    )


def _both_bad(data: Comparisons, per_item: Floats) -> list[tuple[str, float, float]]:
    if data.both_bad_rate is None:
        return []
    worst = np.argsort(-data.both_bad_rate, kind="stable")[:WORST_SHOWN].tolist()
    rows = ((data.items[i], float(data.both_bad_rate[i]), float(per_item[i])) for i in worst)
    return [row for row in rows if row[1] > 0]


def position_bias(left_rate: Floats | None, answers: Floats) -> PositionBias | None:
    """The mean of the raters' left rates by their number of answers; None if no side is known.

    The interval takes the answers of a rater as one cluster, because a habit belongs to a person.
    """
    if left_rate is None:
        return None
    known = ~np.isnan(left_rate)
    rate, weight = left_rate[known], answers[known]
    if not rate.size or weight.sum() <= 0:
        return None
    mean = float(np.average(rate, weights=weight))
    n = int(rate.size)
    if n == 1:
        return PositionBias(mean, float("nan"), float("nan"), n)
    squares = float(np.sum((weight * (rate - mean)) ** 2))
    reach = Z95 * sqrt(squares * n / (n - 1)) / float(weight.sum())
    return PositionBias(mean, max(0.0, mean - reach), min(1.0, mean + reach), n)


def pooled_bias(n_left: int, n_sided: int) -> PositionBias | None:
    """The share over all answers, for data without raters; None if no side is known.

    Wilson's interval. It is too narrow if several answers come from the same person.
    """
    if not n_sided:
        return None
    rate, z2 = n_left / n_sided, Z95**2
    middle = (n_left + z2 / 2) / (n_sided + z2)
    reach = Z95 * sqrt(n_sided * rate * (1 - rate) + z2 / 4) / (n_sided + z2)
    return PositionBias(rate, middle - reach, middle + reach, 0)


def _groups(group: Floats, items: tuple[str, ...]) -> list[Sentence]:
    """Some names of each group, when there is more than one; the largest first."""
    labels, sizes = np.unique(group, return_counts=True)
    if labels.size < 2:
        return []
    told: list[Sentence] = []
    for at in np.argsort(-sizes, kind="stable")[:6]:
        parts: list[str | Name] = []
        for i in np.flatnonzero(group == labels[at])[:5]:
            parts += [", " if parts else "", name(items[i])]
        if sizes[at] > 5:
            parts.append(f" and {sizes[at] - 5} more")
        told.append(tuple(parts))
    return told
