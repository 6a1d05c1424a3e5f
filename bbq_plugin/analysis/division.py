"""A divided panel: who belongs to which camp, what each prefers, and along which items they differ.

A camp of the opposite taste and a group whose keys were swapped answer alike. A group that follows
the reverse of a larger camp's ranking and is less than a quarter of the raters is called inverted;
a larger one is a camp.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bbq_plugin.analysis.leaderboard import Row, Rows
from bbq_plugin.data.triples import Floats
from bbq_plugin.model import Fit

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
