"""What the leaderboard would be without a rater, and whether that matters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bbq_plugin.insight.uncertainty import Floats
from bbq_plugin.model import Fit
from bbq_plugin.model.leave_out import MOST_ITEMS, Consensus
from bbq_plugin.model.priors import CrowdPriors

__all__ = ["Effect", "effects"]

MATTERS = 1.0  # posterior standard deviations that an item has to move by
MOST = 500  # raters whose effect is worked out; nobody reads more


@dataclass(frozen=True, slots=True)
class Effect:
    """``moved`` items change places; ``shift_sd`` is the largest move in the item's own sd."""

    best_with: str
    best_without: str
    moved: int
    shift: float
    shift_sd: float

    @property
    def matters(self) -> bool:
        """Another best item, or an item that moves by more than its standard deviation."""
        return self.best_with != self.best_without or self.shift_sd > MATTERS


def effects(fit: Fit, raters: list[int]) -> tuple[dict[int, Effect], Effect | None]:
    """Of leaving out each of these raters alone (one Newton step each), and all (a refit)."""
    priors = fit.priors
    if not raters or isinstance(priors, CrowdPriors) or len(fit.items) > MOST_ITEMS:
        return {}, None
    consensus = Consensus(fit.data.triples, priors, fit.theta, fit.quality)
    sd = _relative_sd(consensus.covariance)
    alone = {
        r: _compared(fit.items, consensus.theta, consensus.theta_without(r), sd)
        for r in raters[:MOST]
    }
    if len(raters) == len(fit.raters):
        return alone, None
    return alone, _compared(fit.items, fit.theta, fit.theta_without(raters), sd)


def _relative_sd(covariance: Floats) -> Floats:
    centred = covariance - covariance.mean(axis=0)
    centred = centred - centred.mean(axis=1, keepdims=True)
    return np.asarray(np.sqrt(np.maximum(np.diag(centred), 1e-300)))


def _compared(items: tuple[str, ...], before: Floats, after: Floats, sd: Floats) -> Effect:
    before, after = before - before.mean(), after - after.mean()
    first, second = (np.argsort(-theta, kind="stable") for theta in (before, after))
    shift = np.abs(after - before)
    return Effect(
        best_with=items[int(first[0])],
        best_without=items[int(second[0])],
        moved=int(np.count_nonzero(first != second)),
        shift=float(shift.max()),
        shift_sd=float((shift / sd).max()),
    )
