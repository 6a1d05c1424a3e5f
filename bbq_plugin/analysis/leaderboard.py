"""The leaderboard: ratings, honest ranks, and the chance of being the best.

`Row` and `Rows` are what every result is made of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import (
    Any,
    ClassVar,
    Generic,
    Literal,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

import numpy as np
from numpy.typing import NDArray

from bbq_plugin.analysis.uncertainty import Intervals, Uncertainty, gaussian, uncertainty
from bbq_plugin.data.frames import arrow_table, as_frame
from bbq_plugin.data.triples import Floats
from bbq_plugin.errors import UsageError
from bbq_plugin.model import Fit
from bbq_plugin.model.fit import PartedResult
from bbq_plugin.model.objectives import LARGEST_COVARIANCE
from bbq_plugin.model.robust import Way
from bbq_plugin.model.win_share import WinShares, large_win_shares, win_shares
from bbq_plugin.text import (
    MOST_HTML_ROWS,
    chance,
    count,
    html_notes,
    html_table,
    level_text,
    number,
    ranks,
    share,
    share_span,
    span,
)

Scale = Literal["elo", "paper", "theta"]

# Rating points per nat, and the rating of an average item.
_UNITS = {"elo": (400 / np.log(10), 1000.0), "paper": (400.0, 0.0), "theta": (1.0, 0.0)}


class Row:
    """``row.rating``, ``row["rating"]`` and ``dict(row)`` are all the same number."""

    __slots__ = ()

    #: Of the dataclass that a row is.
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def keys(self) -> Iterator[str]:
        """The names of the fields, in order."""
        return iter(self.__dataclass_fields__)

    def __getitem__(self, name: str) -> Any:
        if name not in self.__dataclass_fields__:
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

    def to_arrow(self) -> Any:
        """As a `pyarrow.Table` with a column a field; a number that is not known is null."""
        (base,) = (b for b in type(self).__orig_bases__ if get_origin(b) is Rows)  # type: ignore[attr-defined]
        fields = get_type_hints(get_args(base)[0])
        return arrow_table(
            {name: fields[name] for name in get_args(base)[0].__dataclass_fields__}, self._rows
        )

    def to_frame(self, backend: str = "pandas") -> Any:
        """As a data frame of pandas, or of another library: `polars`, `pyarrow`."""
        return as_frame(self.to_arrow(), backend)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The Arrow PyCapsule interface: `polars.DataFrame(board)`, `pyarrow.table(board)`."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)


@dataclass(frozen=True, slots=True)
class ItemRow(Row):
    """One item. ``n`` and ``wins`` are weighted: a tie is half a win for either.

    ``tier``: each item of a tier is better than every item of the tiers below, all of that at once
    with the probability of the level. ``win_share`` is the probability that a random rater of the
    population that this panel was drawn from prefers it to a random other item.
    """

    item: str
    rank: int
    rank_best: int
    rank_worst: int
    tier: int
    rating: float
    rating_lower: float
    rating_upper: float
    win_share: float
    win_share_lower: float
    win_share_upper: float
    theta: float
    theta_sd: float
    p_best: float
    n: float
    wins: float


@dataclass(frozen=True, slots=True)
class EffectRow(Row):
    """A covariate: what ``unit`` more of it on an item is worth, in points of the rating."""

    covariate: str
    unit: float
    effect: float
    effect_lower: float
    effect_upper: float
    theta: float
    theta_sd: float


def effect_rows(fit: Fit, level: float, scale: Scale) -> tuple[EffectRow, ...]:
    """The effects of the covariates of a fit; none without."""
    points = float(_UNITS[scale][0])
    return tuple(
        EffectRow(
            one.name, one.unit, points * one.theta, points * one.theta_lower,
            points * one.theta_upper, one.theta, one.theta_sd,
        )
        for one in fit.effects(level)
    )  # fmt: skip


class Leaderboard(Rows[ItemRow]):
    """Items, the best first. ``better`` is P(row i is better than row j) in the same order.

    ``camp`` (from 1) is whose leaderboard it is; None: the panel's. ``ordered_by`` is rating or,
    of a divided panel, win_share.
    """

    def __init__(
        self, rows: list[ItemRow], order: NDArray[np.intp], known: Uncertainty, level: float,
        scale: Scale, clusters: tuple[Way, ...] = (), wider: float = 1.0, *,
        camp: int | None = None, ordered_by: Literal["rating", "win_share"] = "rating",
    ) -> None:  # fmt: skip
        super().__init__(rows)
        self._order, self._known = order, known
        self.level, self.scale, self.intervals = level, scale, known.kind
        self.warnings = known.warnings
        #: What the answers were clustered by, and how much wider the intervals became for it.
        self.clusters, self.wider = clusters, wider
        self.camp, self.ordered_by = camp, ordered_by

    @cached_property
    def better(self) -> Floats:
        """P(row i is better than row j)."""
        return np.asarray(self._known.better()[np.ix_(self._order, self._order)])

    def with_rows(self, rows: list[ItemRow]) -> Leaderboard:
        """The same leaderboard with other numbers in its rows."""
        return Leaderboard(
            rows, self._order, self._known, self.level, self.scale, self.clusters, self.wider,
            camp=self.camp, ordered_by=self.ordered_by,
        )  # fmt: skip

    def _repr_html_(self) -> str:
        digits = 2 if self.scale == "theta" else 0
        rows = (
            (
                f"{row.rank} ({ranks(row.rank_best, row.rank_worst)})",
                str(row.tier),
                row.item,
                number(row.rating, digits),
                span(row.rating_lower, row.rating_upper, digits),
                f"{share(row.win_share)} ({share_span(row.win_share_lower, row.win_share_upper)})",
                chance(row.p_best),
                count(row.n),
            )
            for row in self._rows[:MOST_HTML_ROWS]
        )
        title = f"Leaderboard ({self.scale}, {level_text(self.level)} {self.intervals})"
        heads = ("rank", "tier", "item", "rating", "interval", "win share", "P(best)", "n")
        table = html_table(title, heads, rows, len(self), words=("item",))
        return table + html_notes(self.warnings)

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
    camp: int | None = None,
) -> Leaderboard:
    """Rate and rank the items of a fit, with intervals of the given kind and level.

    Items are ordered by rating; where the panel is divided into camps, by win_share, and then
    ranks and P(best) are those of the win_share as well. ``camp`` (from 1) asks for the leaderboard
    of one camp instead: its own ranking, win_share among its raters, and the answers of its members
    (by the probability that they are) as ``n`` and ``wins``.
    """
    if not 0 < level < 1:
        raise UsageError(f"level={level!r}: expected a probability such as 0.95")
    if scale not in get_args(Scale):
        raise UsageError(f"scale={scale!r}: expected one of {', '.join(get_args(Scale))}")
    place = None if camp is None else checked_camp(fit, camp)
    known = uncertainty(fit, intervals, draws=draws, seed=seed, camp=place)
    low, high = known.relative_interval(level)
    shares = _win_shares(fit, known, level, place)
    theta = fit.theta if place is None else fit.camp_theta[place]
    relative, sd = theta - theta.mean(), known.relative_sd()
    by, ranked = relative, known
    if place is None and len(fit.camps) > 1 and shares.covariance is not None:
        by = shares.share
        ranked = gaussian(
            known.kind, by, shares.covariance, known.warnings, draws, seed, known.freedom
        )
    best_rank, worst_rank = ranked.rank_interval(level)
    p_best = ranked.p_best()
    wins, lost = counts_of(fit, place)
    played = wins + lost
    order = np.argsort(-by, kind="stable")
    tiers = ranked.tiers(order, level)
    rating, lower, upper = (to_rating(x, scale) for x in (relative, low, high))
    rows = [
        ItemRow(
            item=fit.items[i],
            rank=rank,
            # The point estimate is one of the ranks that cannot be ruled out.
            rank_best=min(int(best_rank[i]), rank),
            rank_worst=max(int(worst_rank[i]), rank),
            tier=int(tiers[rank - 1]),
            rating=float(rating[i]),
            rating_lower=float(min(lower[i], rating[i])),
            rating_upper=float(max(upper[i], rating[i])),
            win_share=float(shares.share[i]),
            win_share_lower=float(shares.lower[i]),
            win_share_upper=float(shares.upper[i]),
            theta=float(theta[i]),
            theta_sd=float(sd[i]),
            p_best=float(p_best[i]),
            n=float(played[i]),
            wins=float(wins[i]),
        )
        for rank, i in enumerate(order, start=1)
    ]
    clusters = (fit.robust.ways, fit.robust.wider) if known.kind == "robust" else ((), 1.0)
    return Leaderboard(
        rows, order, ranked, level, scale, *clusters, camp=camp,
        ordered_by="rating" if ranked is known else "win_share",
    )  # fmt: skip


def counts_of(fit: Fit, place: int | None) -> tuple[Floats, Floats]:
    """How often each item won and lost; among the members of one camp, as probably as they are."""
    if place is not None and fit.in_parts:
        found = cast("PartedResult", fit).by_parts(_counts_of_part, place)
        return np.sum(found, axis=0)[0], np.sum(found, axis=0)[1]
    t = fit.data.pooled if place is None else fit.data.triples
    weight = t.weight if place is None else t.weight * fit.membership[t.rater(), place]
    wins, lost = (np.bincount(side, weight, t.n_items) for side in (t.winner, t.loser))
    return np.asarray(wins), np.asarray(lost)


def _counts_of_part(fit: Fit, first: int, place: int) -> tuple[Floats, Floats]:
    del first
    return counts_of(fit, place)


def checked_camp(fit: Fit, camp: int) -> int:
    """The place of a camp that is named from 1 on."""
    n = len(fit.camps)
    if isinstance(camp, bool) or not isinstance(camp, int) or not 1 <= camp <= n:
        has = "one camp, the whole panel" if n == 1 else f"the camps 1 to {n}"
        raise UsageError(f"camp={camp!r}: this fit has {has}")
    return camp - 1


def _win_shares(fit: Fit, known: Uncertainty, level: float, camp: int | None) -> WinShares:
    if len(fit.items) > LARGEST_COVARIANCE:
        return large_win_shares(fit, *known.relative_interval(level), level)
    return win_shares(fit, level, own=known.kind == "laplace", camp=camp)
