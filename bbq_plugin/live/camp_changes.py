"""When answers that came in may change the number of camps, and what is told when they did."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bbq_plugin.analysis.division import panel_division
from bbq_plugin.report.summary import division_sentences

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bbq_plugin.data.triples import Floats
    from bbq_plugin.model import Fit

WORSE = -4.0  # standard deviations below what a fit expects of new answers


class Surprise:
    """Whether new answers fit worse than the fit by which camps were last examined expects.

    Of a win with probability p it expects p log p + (1 - p) log(1 - p) nats. A rater who is not
    known is a typical one, in any of the camps.
    """

    def __init__(self, fit: Fit) -> None:
        self._item = {name: i for i, name in enumerate(fit.items)}
        self._rater = {name: r for r, name in enumerate(fit.raters)}
        self._theta = fit.camp_theta
        self._belongs = np.vstack((fit.membership, fit.membership.mean(axis=0)))
        self._quality = np.append(fit.quality, fit.quality.mean())
        self._total = self._variance = 0.0

    def take(
        self, raters: Sequence[str], winners: Sequence[str], losers: Sequence[str], weight: Floats
    ) -> None:
        """Take in wins; those of items that the fit has not seen say nothing."""
        won, lost = (
            np.array([self._item.get(name, -1) for name in side], np.int64)
            for side in (winners, losers)
        )
        who = np.array([self._rater.get(name, -1) for name in raters], np.int64)
        known = (won >= 0) & (lost >= 0)
        won, lost, who, weight = won[known], lost[known], who[known], weight[known]
        gap = self._theta[:, won] - self._theta[:, lost]
        s = np.einsum("nc,cn->n", self._belongs[who], 0.5 * np.tanh(0.5 * gap))
        p = np.clip(0.5 + self._quality[who] * s, 1e-9, 1.0 - 1e-9)
        odds = np.log(p) - np.log1p(-p)
        self._total += float(weight @ ((1.0 - p) * odds))
        self._variance += float(weight**2 @ (p * (1.0 - p) * odds**2))

    @property
    def worse(self) -> bool:
        """Whether it is worse by more than chance."""
        return self._total < WORSE * math.sqrt(max(self._variance, 1.0))


@dataclass(frozen=True, slots=True)
class CampChange:
    """Another number of camps than before; ``before`` is None where there was no fit before."""

    before: int | None
    now: int
    text: str


def camp_change(before: int | None, fit: Fit) -> CampChange | None:
    """What changed from so many camps to those of a fit; nothing to tell of a first single one."""
    now = len(fit.camps)
    if now == (before or 1):
        return None
    return CampChange(before, now, panel_text(fit) or "The panel is no longer divided.")


def panel_text(fit: Fit) -> str:
    """That the panel of a fit is divided, and by what; empty if it is not."""
    if fit.division is None:
        return ""
    return " ".join("".join(told) for told in division_sentences(panel_division(fit)))
