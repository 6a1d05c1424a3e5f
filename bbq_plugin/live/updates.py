"""What a refit changed: items that moved, raters who are judged otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bbq_plugin.analysis import Leaderboard, RaterReport, leaderboard, rater_report
from bbq_plugin.analysis.leaderboard import to_rating
from bbq_plugin.analysis.raters import FALSE_RATE, LEAST

if TYPE_CHECKING:
    from bbq_plugin.analysis.raters import Verdict
    from bbq_plugin.model import Fit

__all__ = ["ItemChange", "State", "Thresholds", "Update", "VerdictChange", "update_between"]


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What verdicts and reports rest on; `rating_change` is the least one worth telling."""

    level: float = 0.95
    false_rate: float = FALSE_RATE
    least: int = LEAST
    rating_change: float = 1.0


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
    """A rater who is judged otherwise than before; whoever is new counts as kept before."""

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


class State:
    """One fit, with what is made of it when somebody asks."""

    def __init__(self, fit: Fit | None, thresholds: Thresholds) -> None:
        self.fit = fit
        self._thresholds = thresholds

    @cached_property
    def leaderboard(self) -> Leaderboard:
        """With intervals."""
        return leaderboard(self._fitted, level=self._thresholds.level)

    @cached_property
    def raters(self) -> RaterReport:
        """With verdicts."""
        known = self._thresholds
        return rater_report(
            self._fitted, known.level, false_rate=known.false_rate, least=known.least
        )

    @property
    def _fitted(self) -> Fit:
        assert self.fit is not None  # noqa: S101 (callers look first)
        return self.fit

    @cached_property
    def standing(self) -> dict[str, tuple[int, float]]:
        """Rank and rating of each item, the best first, as the leaderboard has them."""
        if self.fit is None:
            return {}
        relative = self.fit.theta - self.fit.theta.mean()
        order = np.argsort(-relative, kind="stable").tolist()
        rating = to_rating(relative, "elo").tolist()
        items = self.fit.items
        return {items[i]: (rank, rating[i]) for rank, i in enumerate(order, start=1)}

    @cached_property
    def suspects(self) -> dict[str, tuple[Verdict, tuple[str, ...]]]:
        """Verdict and reasons of those who are not simply kept."""
        if self.fit is None:
            return {}
        return {
            row.rater: (row.verdict, row.reasons) for row in self.raters if row.verdict != "keep"
        }

    @property
    def n_comparisons(self) -> int:
        """How many answers were fitted."""
        return 0 if self.fit is None else self.fit.data.n_comparisons


def update_between(before: State, now: State, rating_change: float) -> Update:
    """What changed from one fit to the next."""
    items = tuple(_item_changes(before.standing, now.standing, rating_change))
    return Update(now.fit, now.n_comparisons, items, tuple(_verdict_changes(before, now)))


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


def _verdict_changes(before: State, now: State) -> list[VerdictChange]:
    kept: tuple[Verdict, tuple[str, ...]] = ("keep", ())
    changes = []
    for rater in dict.fromkeys((*now.suspects, *before.suspects)):
        old, _ = before.suspects.get(rater, kept)
        verdict, reasons = now.suspects.get(rater, kept)
        if verdict != old:
            changes.append(VerdictChange(rater, old, verdict, reasons))
    return changes
