"""How far the raters agree: percent agreement, Krippendorff's alpha, camps and what divides them.

Agreement as the field knows it: percent agreement, and Krippendorff's alpha.

A unit is what several raters have answered: the same two items, about the same prompt or scene
where a tag names it. Its values are "the first", "the second" and "a tie". With m raters in a unit
and the share p_rc of rater r's answers with value c,

    A_u = sum over r != s, c of p_rc p_sc / (m (m - 1))            percent agreement of a unit
    D_o = sum over u of m (1 - A_u) / n,     n = sum of m          observed disagreement
    alpha = 1 - D_o / D_e,     D_e = 1 - sum over c of n_c (n_c - 1) / (n (n - 1))

Which of two items is "the first" is arbitrary, so both orders are counted half: n_c of the first
and of the second is the same. Intervals are those of sums over units, each unit a draw of its own
(linearised). No model is asked: raters of low quality count like all others.

A divided panel: who belongs to which camp, what each prefers, and along which items they differ.

A camp of the opposite taste and a group whose keys were swapped answer alike. A group that follows
the reverse of a larger camp's ranking and is less than a quarter of the raters is called inverted;
a larger one is a camp.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from bbq_plugin.analysis.leaderboard import Row, Rows
from bbq_plugin.data.clusters import found_tag
from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.data.triples import Codes, Floats
from bbq_plugin.model import Fit

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


REVERSED = -0.9  # correlation of two rankings, below which one is the reverse of the other
OTHER_TASTE = 0.5  # correlation of two rankings, below which their camps prefer other items
SMALL = 0.25  # of the raters: a smaller reversed group is called inverted
NAMED = 2  # items named at either end of a difference


@dataclass(frozen=True, slots=True)
class CampRow(Row):
    """One camp. ``n_raters`` most probably belong to it; ``best`` is the item it prefers first.

    ``correlation`` is that of its ranking with the largest camp's. ``inverted`` says that it is a
    small group that follows the reverse of a larger camp's ranking.
    """

    camp: int
    share: float
    n_raters: int
    best: str
    correlation: float
    inverted: bool


@dataclass(frozen=True, slots=True, eq=False)
class AxisOfTaste:
    """Along which raters differ most.

    ``raters`` stand where they stand, in standard deviations of raters of one taste. ``items`` have
    the nats by which a rater who stands at 1, with as many answers as the mean, prefers them more
    than the panel does.
    """

    strength: float
    items: tuple[tuple[str, float], ...]  # the most preferred at the positive end first
    raters: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class CampTaste:
    """The items that a camp prefers more than the other raters do, and those it prefers less."""

    more: tuple[str, ...]
    less: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Member:
    """The camp (from 1) that a rater most probably belongs to, and with what probability."""

    camp: int
    p: float


class PanelDivision(Rows[CampRow]):
    """The camps of a fit, the largest first, and the axis along which raters differ."""

    def __init__(
        self, rows: list[CampRow], correlations: Floats, axis: AxisOfTaste | None,
        tastes: tuple[CampTaste, ...], member: Mapping[str, Member],
        asked: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(rows)
        #: Of each rater.
        self.member = member
        #: Of each camp, what it prefers more and less than the others.
        self.tastes = tastes
        #: Between the rankings of all camps.
        self.correlations = correlations
        #: None unless the raters differ in more than quality.
        self.axis = axis
        #: How many camps were asked for; None where the answers decided.
        self.asked = asked

    def reverse_of(self, camp: int) -> int:
        """The camp (from 1) whose ranking is nearest to the reverse of this one's."""
        return int(np.argmin(self.correlations[camp - 1])) + 1

    @property
    def divided(self) -> bool:
        """Whether there is more than one camp."""
        return len(self) > 1

    def __repr__(self) -> str:
        return f"<PanelDivision: {len(self)} camps>"


def panel_division(fit: Fit) -> PanelDivision:
    """Describe the camps of a fit."""
    # Over parts who is where is known where the parts are: here are numbers alone.
    member = np.empty(0, np.int64) if fit.in_parts else fit.membership.argmax(axis=1)
    n = fit.member_counts
    # A ranking of one item has no correlation, nor has one in which all are equal.
    correlations: Floats = np.ones((1, 1))
    if fit.division is not None:
        correlations = np.asarray(np.corrcoef(fit.camp_theta), dtype=np.float64)
    inverted = inverted_camps(fit)
    rows = [
        CampRow(
            c + 1, camp.share, int(n[c]), fit.items[int(camp.theta.argmax())],
            float(correlations[0, c]), c in inverted,
        )
        for c, camp in enumerate(fit.camps)
    ]  # fmt: skip
    named: dict[str, Member] = {}
    if not fit.in_parts:
        belongs = zip(member.tolist(), fit.membership.max(axis=1).tolist(), strict=True)
        members = [Member(camp + 1, p) for camp, p in belongs]
        named = dict(zip(fit.raters, members, strict=True))
    asked = None if fit.division is None else fit.division.asked
    return PanelDivision(rows, correlations, _axis(fit), _tastes(fit), named, asked)


def _tastes(fit: Fit) -> tuple[CampTaste, ...]:
    if fit.division is None:
        return ()
    share, theta = fit.camp_sizes, fit.camp_theta
    theta = theta - theta.mean(axis=1, keepdims=True)
    found = []
    for c, mine in enumerate(theta):
        others = np.average(np.delete(theta, c, axis=0), axis=0, weights=np.delete(share, c))
        order = np.argsort(others - mine, kind="stable")
        names = [fit.items[i] for i in order]
        few = min(NAMED, len(names) // 2)
        found.append(CampTaste(tuple(names[:few]), tuple(names[::-1][:few])))
    return tuple(found)


def inverted_camps(fit: Fit) -> dict[int, int]:
    """The camps (from 0) that are small groups in reverse, and of which larger camp each is."""
    if fit.division is None:
        return {}
    correlations = np.corrcoef(fit.camp_theta)
    share = fit.camp_sizes
    found = {}
    for c in range(len(share)):
        other = int(np.argmin(correlations[c]))
        if correlations[c, other] < REVERSED and share[c] < SMALL and share[c] < share[other]:
            found[c] = other
    return found


def differ_in_taste(fit: Fit) -> bool:
    """Whether some camps prefer other items, not only the same ones more or less clearly.

    Groups in reverse do not count: they are called inverted.
    """
    if fit.division is None:
        return False
    kept = [c for c in range(len(fit.camp_theta)) if c not in inverted_camps(fit)]
    correlations = np.atleast_2d(np.corrcoef(fit.camp_theta[kept]))
    return bool(correlations.min() < OTHER_TASTE)


def _axis(fit: Fit) -> AxisOfTaste | None:
    axis = fit.axis
    if axis is None or not axis.fires:
        return None
    # A rater's own share of the information is 1/R: delta_r = sqrt(R) stand_r items.
    nats = axis.items * np.sqrt(fit.data.n_raters)
    order = np.argsort(-nats, kind="stable")
    raters = np.argsort(-axis.raters, kind="stable")
    return AxisOfTaste(
        axis.strength,
        tuple((fit.items[i], float(nats[i])) for i in order),
        tuple((fit.raters[r], float(axis.raters[r])) for r in raters),
    )
