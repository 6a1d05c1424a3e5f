"""How stable a ranking is: refits on resampled raters against the fit of all data.

This is the paper's table. A resample draws as many raters as there are, with replacement; its
ranking is compared with the ranking of all data by Kendall's tau and by whether the same item comes
first. Every model sees the same resamples, so their numbers are paired. The priors, estimated or
given, are those of the fit of all data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from bbq_plugin.analysis.leaderboard import Row, Rows
from bbq_plugin.data.triples import Floats
from bbq_plugin.errors import UnsupportedError, UsageError
from bbq_plugin.model import Fit

# Resamples are drawn in pieces of this many, each from a seed of its own: the size is part of what
# a seed means, and a piece is what a progress bar can show.
PIECE = 50


@dataclass(frozen=True, slots=True)
class StabilityRow(Row):
    """One model: means over the resamples, and their Monte-Carlo standard errors.

    ``tau_lower`` and ``tau_upper`` hold 95% of the resamples. ``seconds`` is for all of them.
    """

    model: str
    tau: float
    tau_se: float
    tau_lower: float
    tau_upper: float
    top1: float
    top1_se: float
    seconds: float


class Stability(Rows[StabilityRow]):
    """One row a model, in the order given."""

    def __init__(self, rows: list[StabilityRow], resamples: int, seed: int) -> None:
        super().__init__(rows)
        self.resamples, self.seed = resamples, seed

    def __repr__(self) -> str:
        return f"<Stability: {len(self)} models, {self.resamples} resamples>"


def stability(
    fits: Sequence[Fit],
    resamples: int = 1000,
    seed: int = 0,
    *,
    advance: Callable[[int], object] | None = None,
) -> Stability:
    """Compare resampled rankings with each fit's own; ``advance(n)`` hears of n more resamples."""
    if resamples < 2:
        raise UsageError(f"resamples={resamples}: ask for at least 2")
    if any(len(fit.items) < 2 for fit in fits):
        raise UsageError("a ranking takes at least two items")
    if any(fit.data.has_raters and len(fit.raters) < 2 for fit in fits):
        raise UnsupportedError("a bootstrap over raters needs at least two; these data have one")
    rows = [_row(fit, resamples, seed, advance or (lambda _: None)) for fit in fits]
    return Stability(rows, resamples, seed)


def _row(fit: Fit, resamples: int, seed: int, advance: Callable[[int], object]) -> StabilityRow:
    sizes = [min(PIECE, resamples - done) for done in range(0, resamples, PIECE)]
    seeds = np.random.SeedSequence(seed).generate_state(len(sizes)).tolist()
    tau, same = [], []
    began = perf_counter()
    for size, its_seed in zip(sizes, seeds, strict=True):
        theta = fit.bootstrap(size, its_seed)
        tau.append(kendall_tau(fit.theta, theta))
        same.append(np.argmax(theta, axis=1) == np.argmax(fit.theta))
        advance(size)
    all_tau, all_same = np.concatenate(tau), np.concatenate(same)
    low, high = np.quantile(all_tau, [0.025, 0.975])
    top1 = float(all_same.mean())
    return StabilityRow(
        model=fit.model,
        tau=float(all_tau.mean()),
        tau_se=float(all_tau.std(ddof=1) / np.sqrt(resamples)),
        tau_lower=float(low),
        tau_upper=float(high),
        top1=top1,
        top1_se=float(np.sqrt(top1 * (1 - top1) / resamples)),
        seconds=perf_counter() - began,
    )


def kendall_tau(reference: Floats, others: Floats) -> Floats:
    """Kendall's tau-b of each row of ``others`` with ``reference``; 0 where a side is all ties."""
    first, second = np.triu_indices(reference.size, 1)
    expected = np.sign(reference[first] - reference[second])
    out = np.empty(len(others))
    for i, theta in enumerate(others):
        found = np.sign(theta[first] - theta[second])
        scale = np.sqrt(np.count_nonzero(expected) * float(np.count_nonzero(found)))
        out[i] = expected @ found / scale if scale else 0.0
    return out
