"""Many raters are judged at once: how many of them may be wronged, and who is then on the list."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["benjamini_hochberg", "surest"]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


def benjamini_hochberg(p: Floats, rate: float) -> Mask:
    """Which p-values stand out when at most ``rate`` of those named may be chance; NaN never."""
    chosen = np.zeros(p.size, dtype=np.bool_)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    under = np.flatnonzero(p[order] <= rate * np.arange(1, order.size + 1) / max(order.size, 1))
    if under.size:
        chosen[order[: under[-1] + 1]] = True
    return chosen


def surest(p_bad: Floats, able: Mask, rate: float) -> Mask:
    """The longest list, surest first, of which at most ``rate`` are expected to be honest.

    The Bayesian false discovery rate: the mean of P(honest) over the list.
    """
    chosen = np.zeros(p_bad.size, dtype=np.bool_)
    some = np.flatnonzero(able)
    order = some[np.argsort(-p_bad[some], kind="stable")]
    honest = np.cumsum(1.0 - p_bad[order]) / np.arange(1, order.size + 1)
    # The mean only grows along the list, so this is its longest good beginning.
    chosen[order[honest <= rate]] = True
    return chosen
