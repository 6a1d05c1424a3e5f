"""The leaderboard over time: one point for each refresh, thinned to what a reader can use.

The store keeps points in Elo whatever the scale of a report, because that scale may change later.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from bbq_plugin.data.records import spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bbq_plugin.analysis import Leaderboard
    from bbq_plugin.analysis.leaderboard import Scale
    from bbq_plugin.data.records import HistoryPoint

# In a document; the store has more.
HISTORY_POINTS = 200
LEAST_POINTS = 20
RATINGS = 20_000  # items times points: some megabytes of JSON


def history_rows(board: Leaderboard) -> list[tuple[str, float, float, float, int]]:
    """What the store keeps of a leaderboard: item, rating, lower, upper, rank."""
    ratings = np.array([(row.rating, row.rating_lower, row.rating_upper) for row in board])
    elo = _rescaled(ratings, board.scale, "elo")
    return [
        (row.item, float(rating), float(lower), float(upper), row.rank)
        for row, (rating, lower, upper) in zip(board, elo, strict=True)
    ]


def thinned(points: Sequence[HistoryPoint], scale: Scale, most: int) -> list[HistoryPoint]:
    """At most so many points of a history on a scale, in order, with the first and the last.

    Of the points in the same step of comparisons the newest is kept: a daemon that refreshes every
    second for a month has millions of them, and most are alike.
    """
    kept = spread([point.n_comparisons for point in points], most)
    return [_on_scale(points[i], scale) for i in kept]


def most_points(n_items: int) -> int:
    """How many points a document has room for: the more items, the fewer points."""
    return max(LEAST_POINTS, min(HISTORY_POINTS, RATINGS // max(1, n_items)))


def history_dicts(history: Sequence[HistoryPoint]) -> list[dict[str, Any]]:
    """The history in a JSON document."""
    return [
        {
            "at": datetime.fromtimestamp(point.at, UTC).isoformat(timespec="seconds"),
            "n_comparisons": point.n_comparisons,
            "items": [
                {
                    "item": name, "rank": item.rank, "rating": item.rating,
                    "rating_lower": item.lower, "rating_upper": item.upper,
                }
                for name, item in sorted(point.items.items(), key=lambda one: one[1].rank)
            ],
        }
        for point in history
    ]  # fmt: skip


def _on_scale(point: HistoryPoint, scale: Scale) -> HistoryPoint:
    """The point on another scale; an interval that is not known is NaN."""
    elo = np.array([(i.rating, i.lower, i.upper) for i in point.items.values()], dtype=np.float64)
    rescaled = _rescaled(elo, "elo", scale).tolist()
    items = {
        name: replace(item, rating=rating, lower=lower, upper=upper)
        for (name, item), (rating, lower, upper) in zip(point.items.items(), rescaled, strict=True)
    }
    return replace(point, items=items)


def _rescaled(ratings: Any, before: Scale, after: Scale) -> Any:
    if before == after:
        return ratings
    # Not at the top: a document without a fit must not load numba.
    from bbq_plugin.analysis.leaderboard import from_rating, to_rating  # noqa: PLC0415

    return to_rating(from_rating(ratings, before), after)
