"""Agreement as the field knows it: percent agreement, and Krippendorff's alpha.

A unit is what several raters have answered: the same two items, about the same prompt or scene
where a tag names it. Its values are "the first", "the second" and "a tie". With m raters in a unit
and the share p_rc of rater r's answers with value c,

    A_u = sum over r != s, c of p_rc p_sc / (m (m - 1))            percent agreement of a unit
    D_o = sum over u of m (1 - A_u) / n,     n = sum of m          observed disagreement
    alpha = 1 - D_o / D_e,     D_e = 1 - sum over c of n_c (n_c - 1) / (n (n - 1))

Which of two items is "the first" is arbitrary, so both orders are counted half: n_c of the first
and of the second is the same. Intervals are those of sums over units, each unit a draw of its own
(linearised). No model is asked: raters of low quality count like all others.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from bbq_plugin.analysis.leaderboard import Row
from bbq_plugin.data.clusters import found_tag
from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.data.triples import Codes, Floats

#: Units that are listed, those with the least agreement first.
LISTED = 100


@dataclass(frozen=True, slots=True)
class UnitAgreement(Row):
    """One unit: two items (and the value of the tag), how many raters, and how far they agree."""

    item_a: str
    item_b: str
    value: str
    n_raters: int
    agreement: float
    alpha: float


@dataclass(frozen=True, slots=True)
class RaterAgreement(Row):
    """One rater against the others in the same units; NaN where none is shared."""

    rater: str
    n_units: int
    agreement: float
    agreement_lower: float
    agreement_upper: float
    alpha: float


@dataclass(frozen=True)
class InterRater:
    """Of all raters; ``tag`` is what a unit is besides its two items, if a tag says so."""

    level: float
    tag: str | None
    n_units: int
    agreement: float
    agreement_lower: float
    agreement_upper: float
    alpha: float
    alpha_lower: float
    alpha_upper: float
    raters: tuple[RaterAgreement, ...]
    units: tuple[UnitAgreement, ...]

    @property
    def text(self) -> str:
        """In a sentence."""
        what = "the same two items" + (f" and {self.tag}" if self.tag else "")
        if not self.n_units:
            return f"No two raters have answered about {what}, so there is no percent agreement"
        return (
            f"Two raters who answered about {what} agree in {self.agreement:.0%} "
            f"({self.agreement_lower:.0%} – {self.agreement_upper:.0%}); Krippendorff's alpha is "
            f"{self.alpha:.2f} ({self.alpha_lower:.2f} – {self.alpha_upper:.2f}), over "
            f"{self.n_units:,} questions with two raters or more"
        )

    def as_dict(self) -> dict[str, Any]:
        """For JSON; what is not known is null."""
        found = asdict(self)
        found["raters"] = [_known(row) for row in found["raters"]]
        found["units"] = [_known(row) for row in found["units"]]
        return _known(found)


def _known(values: dict[str, Any]) -> dict[str, Any]:
    return {
        key: None if isinstance(value, float) and np.isnan(value) else value
        for key, value in values.items()
    }


def inter_rater(data: Comparisons, level: float = 0.95) -> InterRater:
    """Percent agreement and Krippendorff's alpha of all answers, by rater and by unit."""
    tag = found_tag(data)
    unit, rater, value, names = _answers(data, tag)
    # One row for each rater in a unit, with the shares of the values.
    n_raters = max(1, data.n_raters)
    group, at = np.unique(unit * n_raters + rater, return_inverse=True)
    counts = np.bincount(at * 3 + value, minlength=3 * group.size).reshape(-1, 3)
    p = counts / counts.sum(axis=1, keepdims=True)
    of_unit, of_rater = np.divmod(group, n_raters)
    n_units = int(of_unit.max()) + 1 if group.size else 0
    m = np.bincount(of_unit, minlength=n_units).astype(np.float64)
    sums = [np.bincount(of_unit, p[:, c], n_units) for c in range(3)]
    total: Floats = np.stack(sums, axis=1).astype(np.float64)
    # Of each rater in a unit: the mean agreement with the others there.
    shared = m[of_unit] > 1
    agree = ((total[of_unit] - p) * p).sum(axis=1)
    agree = np.divide(agree, m[of_unit] - 1, out=np.full(agree.size, np.nan), where=shared)
    kept = np.flatnonzero(m > 1)
    summed = np.bincount(of_unit[shared], agree[shared], n_units)  # m A_u
    by_unit: Floats = np.asarray(summed, dtype=np.float64)[kept]
    z = NormalDist().inv_cdf((1 + level) / 2)
    expected = _expected(total[kept].sum(axis=0))
    overall = _overall(m[kept], by_unit, total[kept], expected, z)
    return InterRater(
        level=level, tag=tag, n_units=kept.size, **overall,
        raters=tuple(_raters(data, of_rater[shared], agree[shared], expected, z)),
        units=tuple(_units(names, kept, m[kept], by_unit / m[kept], expected)),
    )  # fmt: skip


def _answers(data: Comparisons, tag: str | None) -> tuple[Codes, Codes, Codes, _Names]:
    """Unit, rater and value of each answer; a tie has two rows and is one answer."""
    half = None if data.answers is None else data.answers.half
    rows = np.arange(data.weight.size) if half is None else np.flatnonzero(half != 2)
    winner, loser = data.winner[rows].astype(np.int64), data.loser[rows].astype(np.int64)
    low, high = np.minimum(winner, loser), np.maximum(winner, loser)
    value = (winner > loser).astype(np.int64)
    if half is not None:
        value[half[rows] == 1] = 2
    about = np.zeros(rows.size, np.int64) if tag is None else data.tags[tag][rows].astype(np.int64)
    code, unit = np.unique((about + 1) * data.n_items**2 + low * data.n_items + high,
                           return_inverse=True)  # fmt: skip
    return unit.ravel(), data.rater[rows].astype(np.int64), value, _Names(data, tag, code)


@dataclass(frozen=True, slots=True)
class _Names:
    """What a unit is called."""

    data: Comparisons
    tag: str | None
    code: Codes

    def of(self, unit: int) -> tuple[str, str, str]:
        about, pair = divmod(int(self.code[unit]), self.data.n_items**2)
        low, high = divmod(pair, self.data.n_items)
        names = () if self.tag is None else self.data.tag_values[self.tag]
        value = names[about - 1] if names and about > 0 else ""
        return self.data.items[low], self.data.items[high], value


def _expected(counts: Floats) -> float:
    """D_e, the first and the second of two items taken as equally frequent."""
    n = float(counts.sum())
    if n < 2:
        return float("nan")
    decided = 0.5 * float(counts[0] + counts[1])
    same = 2 * decided * (decided - 0.5) + float(counts[2]) * (float(counts[2]) - 1)
    return 1.0 - same / (n * (n - 1))


def _overall(
    m: Floats, agreed: Floats, total: Floats, expected: float, z: float
) -> dict[str, float]:
    names = ("agreement", "agreement_lower", "agreement_upper", "alpha", "alpha_lower",
             "alpha_upper")  # fmt: skip
    if not m.size:
        return dict.fromkeys(names, float("nan"))
    pairs = m * (m - 1)
    share = float((agreed * (m - 1)).sum() / pairs.sum())
    # The standard error of a ratio of sums over units.
    error = np.sqrt(((agreed * (m - 1) - share * pairs) ** 2).sum()) / pairs.sum()
    n = m.sum()
    observed = float((m - agreed).sum() / n)
    alpha = 1 - observed / expected if expected > 0 else float("nan")
    # D_e = 1 - 2 (d/2)^2 - t^2 of the shares d and t of decided answers and ties.
    d, t = float(total[:, :2].sum() / n), float(total[:, 2].sum() / n)
    per_unit = ((m - agreed) - observed * m) / expected
    slope = -(d * (total[:, :2].sum(axis=1) - d * m) + 2 * t * (total[:, 2] - t * m))
    per_unit = per_unit - observed / expected**2 * slope
    spread = float(np.sqrt((per_unit**2).sum()) / n)
    values = (
        share, max(0.0, share - z * error), min(1.0, share + z * error),
        alpha, alpha - z * spread, min(1.0, alpha + z * spread),
    )  # fmt: skip
    return dict(zip(names, map(float, values), strict=True))


def _raters(
    data: Comparisons, rater: Codes, agree: Floats, expected: float, z: float
) -> list[RaterAgreement]:
    counts = np.bincount(rater, minlength=data.n_raters)
    n = np.where(counts > 0, counts, np.nan)
    share = np.bincount(rater, agree, data.n_raters) / n
    # Wilson's interval: it is one within 0 and 1, also of few units.
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    spread = np.maximum(share * (1 - share) / n, 0.0) + z * z / (4 * n * n)
    reach = z / (1 + z * z / n) * np.sqrt(spread)
    alpha = 1 - (1 - share) / expected
    columns = zip(data.raters, counts, share, middle - reach, middle + reach, alpha, strict=False)
    return [RaterAgreement(name, int(k), *map(float, rest)) for name, k, *rest in columns]


def _units(
    names: _Names, kept: Codes, m: Floats, agree: Floats, expected: float
) -> list[UnitAgreement]:
    order = np.lexsort((-m, agree))[:LISTED]
    found = []
    for k in order.tolist():
        alpha = float(1 - (1 - agree[k]) / expected)
        named = names.of(int(kept[k]))
        found.append(UnitAgreement(*named, int(m[k]), float(agree[k]), alpha))
    return found
