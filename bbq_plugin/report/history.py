"""The leaderboard over time: a point for each refresh, thinned to what can be looked at.

Points are kept in Elo, whatever scale a report has: a daemon may be told another scale later, and
what was kept before still has to mean the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bbq_plugin.analysis import Leaderboard
    from bbq_plugin.analysis.leaderboard import Scale

__all__ = [
    "Moment",
    "Place",
    "Placed",
    "Point",
    "history_dicts",
    "history_rows",
    "moments",
    "most_points",
    "spread",
]

# In a document; the store has more.
HISTORY_POINTS = 200
LEAST_POINTS = 20
PLACES = 20_000  # items times points: some megabytes of JSON


class Placed(Protocol):
    """Where an item stood: its rating with the interval, if one was computed, and its rank."""

    @property
    def rating(self) -> float:
        """In Elo."""

    @property
    def lower(self) -> float | None:
        """The lower end of the interval."""

    @property
    def upper(self) -> float | None:
        """The upper end of the interval."""

    @property
    def rank(self) -> int:
        """1 is the best."""


class Point(Protocol):
    """The leaderboard at one refresh, in Elo."""

    @property
    def at(self) -> float:
        """When, in seconds since 1970."""

    @property
    def n_comparisons(self) -> int:
        """After how many comparisons."""

    @property
    def items(self) -> Mapping[str, Placed]:
        """By name."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an item stood, on the scale of a report; what is not known is NaN."""

    rating: float
    lower: float
    upper: float
    rank: int


@dataclass(frozen=True)
class Moment:
    """A point of the history on the scale of a report."""

    at: float
    n_comparisons: int
    items: Mapping[str, Place]


def history_rows(board: Leaderboard) -> list[tuple[str, float, float, float, int]]:
    """What to keep of a leaderboard: item, rating, lower, upper, rank."""
    ratings = np.array([(row.rating, row.rating_lower, row.rating_upper) for row in board])
    elo = _rescaled(ratings, board.scale, "elo")
    return [
        (row.item, float(rating), float(lower), float(upper), row.rank)
        for row, (rating, lower, upper) in zip(board, elo, strict=True)
    ]


def moments(points: Sequence[Point], scale: Scale, most: int) -> list[Moment]:
    """At most so many points of a history in its order, the first and the last among them.

    The newest is kept of those that fall into the same step of comparisons: a daemon that refreshes
    every second for a month has millions, and most of them say the same.
    """
    kept = spread([point.n_comparisons for point in points], most)
    return [
        Moment(points[i].at, points[i].n_comparisons, _on_scale(points[i].items, scale))
        for i in kept
    ]


def spread(counts: Sequence[int], most: int) -> list[int]:
    """The places of at most so many points, by their numbers of comparisons."""
    if len(counts) <= most:
        return list(range(len(counts)))
    low, high = min(counts), max(counts)
    steps = max(1, most - 2)
    # The first and the last stand for themselves; any other for the step that it ends.
    newest = {int((n - low) / max(1, high - low) * (steps - 1)): i for i, n in enumerate(counts)}
    return sorted({0, len(counts) - 1, *newest.values()})


def most_points(n_items: int) -> int:
    """How many points a document has room for: fewer where each of them is long."""
    return max(LEAST_POINTS, min(HISTORY_POINTS, PLACES // max(1, n_items)))


def history_dicts(history: Sequence[Moment]) -> list[dict[str, Any]]:
    """The history in a JSON document."""
    return [
        {
            "at": datetime.fromtimestamp(moment.at, UTC).isoformat(timespec="seconds"),
            "n_comparisons": moment.n_comparisons,
            "items": [
                {
                    "item": item,
                    "rank": place.rank,
                    "rating": place.rating,
                    "rating_lower": place.lower,
                    "rating_upper": place.upper,
                }
                for item, place in sorted(moment.items.items(), key=lambda one: one[1].rank)
            ],
        }
        for moment in history
    ]


def _on_scale(items: Mapping[str, Placed], scale: Scale) -> dict[str, Place]:
    elo = np.array(
        [(place.rating, place.lower, place.upper) for place in items.values()], dtype=np.float64
    )
    return {
        name: Place(rating, lower, upper, items[name].rank)
        for name, (rating, lower, upper) in zip(
            items, _rescaled(elo, "elo", scale).tolist(), strict=True
        )
    }


def _rescaled(ratings: Any, before: Scale, after: Scale) -> Any:
    if before == after:
        return ratings
    # Not above: documents that hold no fit should not wait for numba.
    from bbq_plugin.analysis.leaderboard import from_rating, to_rating  # noqa: PLC0415

    return to_rating(from_rating(ratings, before), after)
