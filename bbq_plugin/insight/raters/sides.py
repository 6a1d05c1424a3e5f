"""Sides: lefts against what the items and the lean of the others explain, and changes of side."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bbq_plugin.insight.raters.answered import Rows, Sign, count_by, p_value, share
from bbq_plugin.insight.uncertainty import Floats

__all__ = ["sides_of"]

LEAN_STEPS = 30


def sides_of(rows: Rows, side: NDArray[np.int8], own: Floats, least: int) -> tuple[Sign, Sign]:
    """Left answers against what the items and the lean of the others explain; changes of side."""
    place = side[rows.row]
    rows, place = rows.where(place != 0), place[place != 0]
    left = (place > 0).astype(np.float64)
    p = 0.5 + own[rows.rater] * rows.s * place
    n, went = rows.count(), rows.count(left)
    shift = _lean_of_each(rows, p, went)
    usual = _shifted(rows, p, _lean_of_others(shift, n >= least))
    expected, variance = rows.count(usual), rows.count(usual * (1 - usual))
    lean = Sign(share(went, n), share(expected, n), n, p_value(went - expected, variance, sides=2))
    return lean, _switches(rows, left, _shifted(rows, p, shift))


def _lean_of_each(rows: Rows, p: Floats, went: Floats) -> Floats:
    """The shift of the log-odds with which as many lefts are expected as there were."""
    n = rows.count()
    goal = np.clip(went, 0.5, np.maximum(n - 0.5, 0.5))
    logit, shift = np.log(p) - np.log1p(-p), np.zeros(n.size)
    for _ in range(LEAN_STEPS):
        moved = 1.0 / (1.0 + np.exp(-(logit + shift[rows.rater])))
        gap, slope = goal - rows.count(moved), rows.count(moved * (1 - moved))
        shift += np.clip(gap / np.maximum(slope, 1e-9), -1.0, 1.0)
    return shift


def _shifted(rows: Rows, p: Floats, shift: Floats) -> Floats:
    """The same chances, shifted on the log-odds."""
    logit = np.log(p) - np.log1p(-p) + shift[rows.rater]
    return np.asarray(1.0 / (1.0 + np.exp(-logit)))


def _lean_of_others(shift: Floats, judged: NDArray[np.bool_]) -> Floats:
    """The lean that the others have in common, for a layout that favours one side.

    Their median, which a few who always press one button do not move, less what chance brings.
    """
    known = np.sort(shift[judged])
    n = known.size - 1  # others
    if n < 3:
        return np.zeros(shift.size)
    # Without a value at or below the middle the median is one place higher, and so on.
    place = np.searchsorted(known, shift)
    low, high = (n - 1) // 2, n // 2
    median = 0.5 * (known[low + (place <= low)] + known[high + (place <= high)])
    median = np.where(judged, median, np.median(known))
    error = 1.2533 * 1.4826 * float(np.median(np.abs(known - np.median(known)))) / np.sqrt(n)
    small = np.maximum(median**2, 1e-300)
    return np.asarray(median * np.maximum(0.0, 1.0 - error**2 / small))


def _switches(rows: Rows, left: Floats, p: Floats) -> Sign:
    """How often the side changes from one answer to the next: alternation, or runs."""
    same = rows.rater[1:] == rows.rater[:-1]
    rater = rows.rater[1:][same]
    seen = (left[1:] != left[:-1])[same].astype(np.float64)
    chance = p[1:] * (1 - p[:-1]) + (1 - p[1:]) * p[:-1]
    n = count_by(rater, rows.n_raters)
    total, expected = (count_by(rater, rows.n_raters, x) for x in (seen, chance[same]))
    variance = count_by(rater, rows.n_raters, (chance * (1 - chance))[same])
    # Two changes in a row share an answer.
    both = p[2:] * (1 - p[1:-1]) * p[:-2] + (1 - p[2:]) * p[1:-1] * (1 - p[:-2])
    linked = rows.rater[2:] == rows.rater[:-2]
    shared = (both - chance[1:] * chance[:-1])[linked]
    variance = variance + 2 * count_by(rows.rater[2:][linked], rows.n_raters, shared)
    return Sign(
        share(total, n), share(expected, n), n, p_value(total - expected, variance, sides=2)
    )
