"""The leaderboard before anything was recorded, by when the answers were given.

A study that ran for weeks before `bbq serve` was started has its weeks in the times of its
answers. Each point is a fit of the answers up to a moment, with the priors of now and one ranking.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bbq_plugin.analysis.leaderboard import leaderboard
from bbq_plugin.data.records import HistoryItem, HistoryPoint
from bbq_plugin.errors import BBQError
from bbq_plugin.model import fit
from bbq_plugin.model.priors import CrowdPriors
from bbq_plugin.report.history import history_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from bbq_plugin.live.engine import Engine
    from bbq_plugin.model import Fit

#: Moments of the past that are fitted.
MOST_POINTS = 30
#: How long all of them may take, roughly; there are fewer points where fits are slow.
MOST_S = 30.0
# Of a shorter past the recorded points tell enough.
_SHORTEST_S = 3600.0
# Answers without a time would be missing from every point.
_LEAST_DATED = 0.9
# Made again when the answers of the past have grown by so much: from a late import, say.
_GROWTH = 1.1


@dataclass(frozen=True)
class PastPoints:
    """Points of the past, and how many answers they were made of."""

    points: list[HistoryPoint]
    n_answers: int = 0
    #: When the newest answer of all was given, if all of them tell.
    newest: float | None = None


def past_points(
    engine: Engine, now: Fit, before: float, known: PastPoints | None,
    stopping: Callable[[], bool] = lambda: False,
) -> PastPoints:  # fmt: skip
    """The points up to `before`, oldest first; those `known`, if there is little new."""
    times = engine.answer_times()
    dated = times[~np.isnan(times)]
    old = np.sort(dated[dated <= before])
    if known is not None and known.n_answers <= old.size <= known.n_answers * _GROWTH:
        newest = None if known.newest is None else float(dated.max())
        return replace(known, newest=newest)
    none = PastPoints([], int(old.size))
    if old.size < 2 or dated.size < _LEAST_DATED * times.size:
        return none
    first, last = float(old[0]), float(old[-1])
    if last - first < _SHORTEST_S:
        return none
    points: list[HistoryPoint] = []
    moments = np.linspace(first, last, MOST_POINTS + 1)[1:]
    begun = time.monotonic()
    ending = _point(engine, now, last)
    spent = max(1e-3, time.monotonic() - begun)
    # The fits of earlier moments are of fewer answers, about half as many in the mean.
    n = int(min(MOST_POINTS, max(6, 2 * MOST_S / spent)))
    chosen = moments[np.unique(np.linspace(0, moments.size - 2, n - 1).round().astype(int))]
    seen = 0
    for moment in chosen.tolist():
        n_then = int(np.searchsorted(old, moment, side="right"))
        if stopping():
            break
        if n_then > seen:
            seen = n_then
            points += [point for point in [_point(engine, now, moment)] if point is not None]
    if ending is not None and last < before:
        points.append(ending)
    return PastPoints(points, int(old.size), float(dated.max()))


def _point(engine: Engine, now: Fit, at: float) -> HistoryPoint | None:
    """The leaderboard of the answers up to a moment; None where they are too few to be fitted."""
    priors: Any = "auto" if isinstance(now.priors, CrowdPriors) else now.priors
    try:
        data = engine.data_until(at)
        found = fit(
            data, now.model, priors, 1, ties=engine.ties, cluster="none", repeats=engine.repeats
        )
        rows = history_rows(leaderboard(found, "laplace"))
    except BBQError:
        return None
    items = {
        name: HistoryItem(rating, lower, upper, rank) for name, rating, lower, upper, rank in rows
    }
    return HistoryPoint(at, data.n_comparisons, "full", items)
