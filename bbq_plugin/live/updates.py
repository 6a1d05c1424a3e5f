"""What a refit changed: items that moved, raters with another verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bbq_plugin.analysis.leaderboard import to_rating

if TYPE_CHECKING:
    from bbq_plugin.analysis import Analysis
    from bbq_plugin.analysis.raters import Verdict
    from bbq_plugin.model import Fit

    Suspects = dict[str, tuple[Verdict, tuple[str, ...]]]

__all__ = ["ItemChange", "Update", "VerdictChange", "update_between"]


@dataclass(frozen=True, slots=True)
class ItemChange:
    """An item whose rank or rating (Elo) changed; None where it was not, or is no longer, there."""

    item: str
    rank_before: int | None
    rank: int | None
    rating_before: float | None
    rating: float | None


@dataclass(frozen=True, slots=True)
class VerdictChange:
    """A rater with another verdict than before; of a new rater, the verdict before is keep."""

    rater: str
    verdict_before: Verdict
    verdict: Verdict
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Update:
    """What is different since the refit before; against nothing in the first of a hook."""

    #: None when every answer was taken back.
    fit: Fit | None
    n_comparisons: int
    #: By rank; what is no longer there comes last.
    items: tuple[ItemChange, ...]
    raters: tuple[VerdictChange, ...]

    @property
    def leaderboard_changed(self) -> bool:
        """Whether any item came, went, or changed its rank or rating."""
        return bool(self.items)


def update_between(before: Analysis | None, now: Analysis | None, rating_change: float) -> Update:
    """What changed from one fit to the next; None is a store without answers."""
    items = tuple(_item_changes(_standing(before), _standing(now), rating_change))
    raters = tuple(_verdict_changes(_suspects(before), _suspects(now)))
    if now is None:
        return Update(None, 0, items, raters)
    return Update(now.fit, now.fit.data.n_comparisons, items, raters)


def _standing(analysis: Analysis | None) -> dict[str, tuple[int, float]]:
    """Rank and rating (Elo) of each item, the best first, as the leaderboard has them."""
    if analysis is None:
        return {}
    # Not the leaderboard itself, whose intervals take longer than a refit.
    fit = analysis.fit
    relative = fit.theta - fit.theta.mean()
    order = np.argsort(-relative, kind="stable").tolist()
    rating = to_rating(relative, "elo").tolist()
    return {fit.items[i]: (rank, rating[i]) for rank, i in enumerate(order, start=1)}


def _suspects(analysis: Analysis | None) -> Suspects:
    """Verdict and reasons of the raters who are watched or excluded."""
    if analysis is None:
        return {}
    return {
        row.rater: (row.verdict, row.reasons) for row in analysis.raters if row.verdict != "keep"
    }


def _item_changes(
    before: dict[str, tuple[int, float]], now: dict[str, tuple[int, float]], rating_change: float
) -> list[ItemChange]:
    changes = []
    for item in (*now, *(item for item in before if item not in now)):
        old_rank, old_rating = before.get(item, (None, None))
        rank, rating = now.get(item, (None, None))
        moved = old_rating is None or rating is None or abs(rating - old_rating) >= rating_change
        if moved or rank != old_rank:
            changes.append(ItemChange(item, old_rank, rank, old_rating, rating))
    return changes


def _verdict_changes(before: Suspects, now: Suspects) -> list[VerdictChange]:
    kept: tuple[Verdict, tuple[str, ...]] = ("keep", ())
    changes = []
    for rater in dict.fromkeys((*now, *before)):
        old, _ = before.get(rater, kept)
        verdict, reasons = now.get(rater, kept)
        if verdict != old:
            changes.append(VerdictChange(rater, old, verdict, reasons))
    return changes
