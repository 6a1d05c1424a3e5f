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
REFITS = 1_000_000  # triples to fit anew, over all raters who are left out alone


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
    """Of leaving out each of these raters alone, and all of them, under the fit's own priors.

    Each is a refit, as far as `REFITS` goes, those with the largest effect first; of the others, in
    large studies, it is one Newton step of the same log-posterior.
    """
    priors = fit.priors
    if not raters or isinstance(priors, CrowdPriors) or len(fit.items) > MOST_ITEMS:
        return {}, None
    raters_shown = raters[:MOST]
    # The mode that the leaderboard shows: joint under given priors, else quality integrated out.
    joint = fit.population is None
    top = Consensus(fit.data.triples, priors, fit.theta, fit.quality, joint=joint)
    sd = _relative_sd(fit.laplace.covariance)
    without = {r: fit.theta + (top.theta_without(r) - top.theta) for r in raters_shown}
    size = {r: float(np.ptp(without[r] - fit.theta)) for r in raters_shown}
    n_refits = max(1, REFITS // max(fit.data.triples.size, 1))
    if len(fit.raters) > 1:
        for r in sorted(raters_shown, key=size.__getitem__, reverse=True)[:n_refits]:
            without[r] = fit.theta_without([r])
    alone = {r: _compared(fit.items, fit.theta, without[r], sd) for r in raters_shown}
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
