"""The leaderboard over time: one point for each refresh, in Elo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["HistoryItem", "HistoryPoint", "spread"]


@dataclass(frozen=True, slots=True)
class HistoryItem:
    """An item at one point of the history."""

    rating: float
    lower: float | None
    upper: float | None
    rank: int


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """The leaderboard after one refresh."""

    #: In seconds since 1970.
    at: float
    n_comparisons: int
    #: incremental or full.
    how: str
    items: Mapping[str, HistoryItem]


def spread(counts: Sequence[int], most: int) -> list[int]:
    """Indices of at most so many points, spread over their numbers of comparisons."""
    if len(counts) <= most:
        return list(range(len(counts)))
    low, high = min(counts), max(counts)
    steps = max(1, most - 2)
    # The first and the last are always kept; the others are the newest of their steps.
    newest = {int((n - low) / max(1, high - low) * (steps - 1)): i for i, n in enumerate(counts)}
    return sorted({0, len(counts) - 1, *newest.values()})
