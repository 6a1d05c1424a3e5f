"""The leaderboard: ratings, honest ranks, the chance of being the best; two items compared.

`Row` and `Rows` are what every result is made of.

Are two items different? The test of the difference, by its own posterior.

Whether separate intervals overlap is not that test (it rejects equal items thirty times too
seldom), and Wald's z = difference / sd is a little shy where the posterior is skewed. So the
probability is computed from the posterior's fall between its top and the best point at which the
two items are equal, corrected to third order (DiCiccio and Martin 1991):

    r = sign(d) sqrt(2 (F(top) - F(equal)))
    v = dF/dd(equal) sqrt(det j_rest(equal) / det j(top))
    P(left better) = Phi(r + log(v / r) / r)

with F the log-density of theta, quality integrated out, and j minus its Hessian. F takes answers as
independent and estimated priors as known: what clusters of answers and the priors add to the
variance of the difference blunts the root by the ratio of the standard deviations.

A panel with several camps is ranked by win_share, its mean theta is nobody's ranking, and the two
may disagree. So there the difference of the win shares is tested, by Wald's z with the covariance
that the leaderboard's ranks use; ``tested`` says which it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import erfc, sqrt
from statistics import NormalDist
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
from bbq_plugin.data.triples import Floats
from bbq_plugin.errors import ConvergenceError, UsageError
from bbq_plugin.model import Fit
from bbq_plugin.model.fit import PartedResult
from bbq_plugin.model.objectives import LARGEST_COVARIANCE, Height, Objective
from bbq_plugin.model.robust import Way
from bbq_plugin.model.solvers import with_level
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
        from bbq_plugin.data.frames import arrow_table  # noqa: PLC0415 (only if wanted)

        return arrow_table(
            {name: fields[name] for name in get_args(base)[0].__dataclass_fields__}, self._rows
        )

    def to_frame(self, backend: str = "pandas") -> Any:
        """As a data frame of pandas, or of another library: `polars`, `pyarrow`."""
        from bbq_plugin.data.frames import as_frame  # noqa: PLC0415 (only if wanted)

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


MOST_STEPS = 50
HALVINGS = 12
SHORTEST = 0.1  # standard deviations, below which any unit will do
NEARLY_EQUAL = 1e-3  # standard deviations, below which the correction is a ratio of two zeros


@dataclass(frozen=True, slots=True)
class Difference(Row):
    """``theta`` is left minus right in nats; ``p_value`` is two-sided.

    Where the panel is divided into camps, the difference of the win shares is what ``p_better`` and
    ``p_value`` speak of (``tested``), as the leaderboard's ranks do; else these three are None.
    """

    left: str
    right: str
    theta: float
    theta_lower: float
    theta_upper: float
    p_better: float
    p_value: float
    tested: Literal["theta", "win_share"] = "theta"
    win_share: float | None = None
    win_share_lower: float | None = None
    win_share_upper: float | None = None


def compare(fit: Fit, left: str, right: str, level: float = 0.95) -> Difference:
    """The difference of two items with its interval, and P(left is better than right)."""
    if not 0 < level < 1:
        raise UsageError(f"level={level!r}: expected a probability such as 0.95")
    i, j = (_place(fit, name) for name in (left, right))
    if i == j:
        raise UsageError(f"compare({left!r}, {right!r}): an item against itself")
    mean, covariance = fit.laplace.mean, fit.covariance()
    gap = float(mean[i] - mean[j])
    sd, own = (_sd_of_gap(c, i, j) for c in (covariance, fit.laplace.covariance))
    if fit.division is not None:
        return _of_shares(fit, i, j, gap, sd, level)
    given = own**2
    if fit.population is not None:
        along = fit.population.slope[i] - fit.population.slope[j]
        given -= float(along @ fit.population.covariance @ along)
    z = _signed_root(fit, i, j, gap / own) * sqrt(max(given, 0.0)) / sd
    # An interval in the same units as the test: 0 lies outside exactly when the test says so.
    unit = gap / z if abs(z) > SHORTEST and gap * z > 0 else sd
    reach = NormalDist().inv_cdf((1 + level) / 2) * unit
    return Difference(left, right, gap, gap - reach, gap + reach, *_p_of(z))


def _of_shares(fit: Fit, i: int, j: int, gap: float, sd: float, level: float) -> Difference:
    """Of a panel with several camps: the difference of the panel's preferences."""
    known = win_shares(fit, level)
    apart = float(known.share[i] - known.share[j])
    spread = _sd_of_gap(np.asarray(known.covariance), i, j)
    times = NormalDist().inv_cdf((1 + level) / 2)
    return Difference(
        fit.items[i], fit.items[j], gap, gap - times * sd, gap + times * sd,
        *_p_of(apart / spread), "win_share", apart, apart - times * spread, apart + times * spread,
    )  # fmt: skip


def _p_of(z: float) -> tuple[float, float]:
    """Phi(z), exact far into both tails, and the two-sided p-value."""
    p, other = 0.5 * erfc(-z / sqrt(2)), 0.5 * erfc(z / sqrt(2))
    return p, 2 * min(p, other)


def _sd_of_gap(covariance: Floats, i: int, j: int) -> float:
    return sqrt(max(float(covariance[i, i] + covariance[j, j] - 2 * covariance[i, j]), 1e-300))


def _place(fit: Fit, name: str) -> int:
    try:
        return fit.items.index(name)
    except ValueError:
        known = ", ".join(fit.items[:10]) + (", …" if len(fit.items) > 10 else "")
        raise UsageError(f"there is no item {name!r} in this fit; it has {known}") from None


def _signed_root(fit: Fit, i: int, j: int, wald: float) -> float:
    """r + log(v / r) / r, and Wald's z where that is not defined."""
    density = fit.theta_density()
    if density is None or abs(wald) < NEARLY_EQUAL:
        return wald
    quality = np.ones(density.passes.triples.n_raters)
    top = density.at(fit.laplace.mean, quality)
    # Coordinates: half the difference, and every other direction with i and j moving as one.
    apart = np.zeros(top.theta.size)
    apart[i], apart[j] = 0.5, -0.5
    rest = np.delete(np.eye(top.theta.size), j, axis=1)
    rest[j, i - (i > j)] = 1.0
    both = np.column_stack((apart, rest))
    # What a fit leaves of the way to the top counts where the items are nearly equal.
    left = np.linalg.solve(_matrix(density, top, both), both.T @ top.gradient)
    top = density.at(top.theta + both @ left, quality)
    equal = _best_equal(density, top.theta, rest, i, j)
    fall = top.value - equal.value
    if fall <= 0:
        return wald
    r = float(np.sign(top.theta[i] - top.theta[j]) * np.sqrt(2 * fall))
    log_ratio = _log_det(density, equal, rest) - _log_det(density, top, both)
    v = float(equal.gradient @ apart) * float(np.exp(0.5 * log_ratio))
    return r + float(np.log(v / r)) / r if v * r > 0 else r


def _matrix(density: Objective, point: Height, basis: Floats) -> Floats:
    curvature = with_level(density.passes.curvature(point), flat=not point.prior_curve.any())
    reduced: Floats = basis.T @ curvature @ basis
    return reduced


def _log_det(density: Objective, point: Height, basis: Floats) -> float:
    return float(np.linalg.slogdet(_matrix(density, point, basis))[1])


def _best_equal(density: Objective, theta: Floats, rest: Floats, i: int, j: int) -> Height:
    """The top of the density among all theta in which items i and j are equal."""
    start = theta.copy()
    start[i] = start[j] = 0.5 * (theta[i] + theta[j])
    quality = np.ones(density.passes.triples.n_raters)
    point = density.at(start, quality)
    for _ in range(MOST_STEPS):
        step = rest @ np.linalg.solve(_matrix(density, point, rest), rest.T @ point.gradient)
        if np.max(np.abs(step)) < 1e-6:
            return point
        for halving in range(HALVINGS):
            trial = density.at(point.theta + step * 0.5**halving, quality)
            if trial.value >= point.value - density.rounding(point.value):
                break
        point = trial
    raise ConvergenceError("the two items could not be set equal; compare their intervals instead")
