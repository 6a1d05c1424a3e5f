"""The leaderboard: ratings, honest ranks, and the chance of being the best.

`Row` and `Rows` are what every result is made of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar, get_args, overload

import numpy as np
from numpy.typing import NDArray

from bbq_plugin.analysis.uncertainty import Intervals, Uncertainty, uncertainty
from bbq_plugin.data.triples import Floats
from bbq_plugin.errors import UsageError
from bbq_plugin.model import Fit

Scale = Literal["elo", "paper", "theta"]

# Rating points per nat, and the rating of an average item.
_UNITS = {"elo": (400 / np.log(10), 1000.0), "paper": (400.0, 0.0), "theta": (1.0, 0.0)}


class Row:
    """``row.rating``, ``row["rating"]`` and ``dict(row)`` are all the same number."""

    __slots__ = ()

    def keys(self) -> Iterator[str]:
        """The names of the fields, in order."""
        return iter([f.name for f in fields(self)])  # type: ignore[arg-type] # dataclasses only

    def __getitem__(self, name: str) -> Any:
        if name not in self.keys():
            raise KeyError(name)
        return getattr(self, name)


R = TypeVar("R", bound=Row)


class Rows(Sequence[R], Generic[R]):
    """A result that is a list of rows, with whatever belongs to all of them as attributes."""

    def __init__(self, rows: list[R]) -> None:
        self._rows = rows

    @overload
    def __getitem__(self, index: int) -> R: ...
    @overload
    def __getitem__(self, index: slice) -> list[R]: ...
    def __getitem__(self, index: int | slice) -> R | list[R]:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[R]:
        return iter(self._rows)


@dataclass(frozen=True, slots=True)
class ItemRow(Row):
    """One item. ``n`` and ``wins`` are weighted: a tie is half a win for either."""

    item: str
    rank: int
    rank_best: int
    rank_worst: int
    rating: float
    rating_lower: float
    rating_upper: float
    theta: float
    theta_sd: float
    p_best: float
    n: float
    wins: float


class Leaderboard(Rows[ItemRow]):
    """Items, the best first. ``better`` is P(row i is better than row j) in the same order."""

    def __init__(
        self, rows: list[ItemRow], order: NDArray[np.intp], known: Uncertainty, level: float,
        scale: Scale,
    ) -> None:  # fmt: skip
        super().__init__(rows)
        self._order, self._known = order, known
        self.level, self.scale, self.intervals = level, scale, known.kind
        self.warnings = known.warnings

    @cached_property
    def better(self) -> Floats:
        """P(row i is better than row j)."""
        return np.asarray(self._known.better()[np.ix_(self._order, self._order)])

    def __repr__(self) -> str:
        best = self._rows[0]
        return f"<Leaderboard: {len(self)} items, {best.item} first (P(best) = {best.p_best:.2f})>"


def to_rating(relative_theta: Floats, scale: Scale) -> Floats:
    """Nats above the mean of all items, on a scale: Elo is 1000 + 400 / ln 10 a nat."""
    per_nat, middle = _UNITS[scale]
    return np.asarray(middle + per_nat * relative_theta)


def from_rating(rating: Floats, scale: Scale) -> Floats:
    """Nats above the mean of all items; the inverse of `to_rating`."""
    per_nat, middle = _UNITS[scale]
    return np.asarray((rating - middle) / per_nat)


def leaderboard(
    fit: Fit,
    intervals: Intervals = "auto",
    level: float = 0.95,
    scale: Scale = "elo",
    seed: int = 0,
    draws: int = 4000,
) -> Leaderboard:
    """Rate and rank the items of a fit, with intervals of the given kind and level."""
    if not 0 < level < 1:
        raise UsageError(f"level={level!r}: expected a probability such as 0.95")
    if scale not in get_args(Scale):
        raise UsageError(f"scale={scale!r}: expected one of {', '.join(get_args(Scale))}")
    known = uncertainty(fit, intervals, draws=draws, seed=seed)
    low, high = known.relative_interval(level)
    best_rank, worst_rank = known.rank_interval(level)
    p_best, sd = known.p_best(), known.relative_sd()
    relative = fit.theta - fit.theta.mean()
    t = fit.data.triples
    wins = np.bincount(t.winner, t.weight, t.n_items)
    played = wins + np.bincount(t.loser, t.weight, t.n_items)
    order = np.argsort(-relative, kind="stable")
    rating, lower, upper = (to_rating(x, scale) for x in (relative, low, high))
    rows = [
        ItemRow(
            item=fit.items[i],
            rank=place,
            # The point estimate is one of the ranks that cannot be ruled out.
            rank_best=min(int(best_rank[i]), place),
            rank_worst=max(int(worst_rank[i]), place),
            rating=float(rating[i]),
            rating_lower=float(min(lower[i], rating[i])),
            rating_upper=float(max(upper[i], rating[i])),
            theta=float(fit.theta[i]),
            theta_sd=float(sd[i]),
            p_best=float(p_best[i]),
            n=float(played[i]),
            wins=float(wins[i]),
        )
        for place, i in enumerate(order, start=1)
    ]
    return Leaderboard(rows, order, known, level, scale)
