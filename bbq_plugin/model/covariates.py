"""Covariates: what moves an answer besides the two items, estimated and held equal.

With x_c what a covariate says of the first item less what it says of the second, and b_r how much
rater r leans to the item on the left,

    P(r ranks i above j) = 1/2 + q_r (sigma(theta_i - theta_j + sum_c beta_c x_c + b_r side) - 1/2)
    beta_c ~ Normal(0, 2^2) for one standard deviation of x_c     b_r ~ Normal(b, tau^2)

as in Arena's style control, with rater quality. side is 1 where i stood on the left, -1 on the
right. theta is then the place of an item among others of the same length, shown on either side
equally often. Each b_r is integrated out, as q_r is: with b_r at its best every rater would look
better than they are. tau is set where the answers are most likely, and priors that are estimated
are estimated again with the effects in place.

Better items may be longer ones. A prior that holds all items together would then have the length
explain some of what the items are, so it holds them around a line in what a covariate says of each
on average, m_ci (Mundlak 1978):

    theta_i = phi_i + sum_c gamma_c m_ci      phi_i as theta of other fits      gamma_c as beta_c

so beta_c is told by answers to the same items with other lengths. Where an item has one length in
all answers there are none, and gamma_c is left out; so is that of the side, which is no property of
an item.

Newton climbs in (phi, beta, gamma) at once. The curvature at the top, with what estimated priors
leave open, gives the covariance; it is made robust to clusters as that of theta alone is
(`robust`). Under estimated priors theta and beta are means, not the top: quality and the distances
of all items explain each other, so the density is skewed towards larger distances
(`posterior_mean`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, cast

import numpy as np

from bbq_plugin.data.clusters import Clusters, clusters_of
from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.data.records import SIDE, covariate_of_side, covariate_pairs
from bbq_plugin.data.triples import Codes, Floats, Mask, Triples
from bbq_plugin.errors import ConvergenceError, UnsupportedError, UsageError, did_you_mean
from bbq_plugin.model.objectives import (
    Height,
    Joint,
    Marginal,
    population_turns,
    theta_density,
)
from bbq_plugin.model.prior_estimation import Population, estimate_again, estimate_priors, joined
from bbq_plugin.model.priors import Priors
from bbq_plugin.model.robust import (
    Robust,
    Way,
    kish,
    mean_gap,
    remarks_on_few,
    shrunk,
    t_quantile,
    unclustered_remarks,
)
from bbq_plugin.model.solvers import Laplace, Optimum, inverse, with_level
from bbq_plugin.text import counted, listed

if TYPE_CHECKING:
    from bbq_plugin.model.fit import Fit

WIDE = 2.0  # nats for one standard deviation: no effect of that size is expected
# More items are a dense matrix too many.
MOST_ITEMS = 1024
# The share of answers up to which side and item are the same thing.
ONE_SIDE = 0.01
# The share of a covariate's mean square up to which it is a property of the items.
ONE_VALUE = 0.01
LEANS = np.geomspace(0.01, 3.0, 60)  # nats, of tau
USUAL_LEAN = 0.5  # the scale of its prior, tau exp(-tau / 0.5): never quite 0
NODES = 5
GRID, FINE = np.linspace(-4.0, 4.0, 21), np.linspace(-4.0, 4.0, 321)  # nats, of a rater's lean
FEW_RATERS = 4096  # at a time
STEPS, HALVINGS, ROUNDS = 100, 12, 6
NEAR = 0.5  # of a step between nodes, within which they stand around what is integrated
SETTLED = 0.02  # of a unit of the priors' parameters, and of log tau


@dataclass(frozen=True, slots=True, eq=False)
class CovariateDesign:
    """The wins with what the covariates say of each: winner less loser, in standard deviations."""

    names: tuple[str, ...]
    #: What one unit of each is in the values of the file: a root mean square; 1 of the side.
    unit: Floats
    triples: Triples
    #: (covariates, then what those of items say on average) x triples.
    x: Floats
    #: What they say of each item on average: (those that vary within items) x items.
    means: Floats
    #: Which covariate has an effect of each rater; None: the side is none, or no rater is known.
    leaning: int | None
    #: The triple of each row of the data; -1: a row that does not count.
    at: Codes
    warnings: tuple[str, ...]


def design_of(data: Comparisons, names: Sequence[str], rows: Mask) -> CovariateDesign:
    """The covariates of these names, on the rows that count."""
    unit, columns, warnings = [], [], []
    for name in names:
        values, note = _values(data, name)
        scale = 1.0
        if _is_side(data, name):
            _check_sides(data)
        else:
            scale = float(np.sqrt(np.mean(values[rows] ** 2)))
            if not scale > 0:
                raise UsageError(f"covariate {name!r}: every difference is 0; leave it out")
        unit.append(scale)
        columns.append(values / scale)
        warnings += [note] if note else []
    x: Floats = np.array(columns).reshape(len(columns), -1)
    kept = np.flatnonzero(rows)
    keys = (*x[::-1, kept], data.loser[kept], data.winner[kept], data.rater[kept])
    order = kept[np.lexsort(keys)]
    parts = np.vstack((x[:, order], data.loser[order], data.winner[order], data.rater[order]))
    new = np.concatenate(([True], (parts[:, 1:] != parts[:, :-1]).any(axis=0)))
    group = np.cumsum(new) - 1
    first = order[new]
    at: Codes = np.full(data.rater.size, -1, dtype=np.int64)
    at[order] = group
    start = np.searchsorted(data.rater[first], np.arange(max(1, data.n_raters) + 1))
    triples = Triples(
        start.astype(np.int64), data.winner[first], data.loser[first],
        np.bincount(group, data.weight[order]).astype(np.float64), data.n_items,
        np.zeros(first.size),
    )  # fmt: skip
    leans = any(_is_side(data, name) for name in names) and data.n_raters > 1
    x = x[:, first]
    means, within = _item_means(triples, x)
    own = np.array([not _is_side(data, name) for name in names])
    for name in np.array(names)[own & (within <= ONE_VALUE)]:
        warnings.append(
            f"{name} of an item is the same in all its answers: its effect is told by which items "
            "are rated higher alone"
        )
    means = means[own & (within > ONE_VALUE)]
    x = np.vstack((x, means[:, triples.winner] - means[:, triples.loser]))
    return CovariateDesign(
        tuple(names), np.array(unit), triples, np.ascontiguousarray(x), means,
        names.index(SIDE) if leans else None, at, tuple(warnings),
    )  # fmt: skip


def _item_means(triples: Triples, x: Floats) -> tuple[Floats, Floats]:
    """What each covariate says of each item, x_t = m_winner - m_loser by least squares.

    And the share of its mean square that the items leave.
    """
    t, k = triples, triples.n_items
    pair = np.bincount(t.winner.astype(np.int64) * k + t.loser, t.weight, k * k).reshape(k, k)
    both = pair + pair.T
    # The level, of each group of items that were compared, is free: it is nearly 0.
    matrix = np.diag(both.sum(axis=1) + 1e-9 * t.weight.sum()) - both
    told = [np.bincount(t.winner, one, k) - np.bincount(t.loser, one, k) for one in t.weight * x]
    means = np.linalg.solve(matrix, np.array(told).T).T
    left = x - means[:, t.winner] + means[:, t.loser]
    return means, (left**2 @ t.weight) / np.maximum(x**2 @ t.weight, 1e-300)


def _is_side(data: Comparisons, name: str) -> bool:
    """Whether a covariate is the side on which an item was shown, and no tag of that name."""
    return name == SIDE and SIDE not in data.tags


def _values(data: Comparisons, name: str) -> tuple[Floats, str]:
    """By row, what a covariate says of the winner less the loser; and a warning."""
    return (_sides(data), "") if _is_side(data, name) else _differences(data, name)


def _sides(data: Comparisons) -> Floats:
    """1 where the winner stood on the left, -1 on the right, 0 where the two were not a pair."""
    if data.winner_first is None or not data.n_sided:
        raise UsageError(
            "covariate 'side': these data do not say on which side an item was shown; leave it out"
        )
    return np.where(_shown(data), np.where(data.winner_first, 1.0, -1.0), 0.0)


def _shown(data: Comparisons) -> Mask:
    """The rows of which the two items were shown as a pair."""
    if data.answers is not None and data.answers.slate is not None:
        return np.asarray(data.answers.slate == 0)
    return np.ones(data.rater.size, dtype=np.bool_)


def _check_sides(data: Comparisons) -> None:
    """Refuse the side where it is the same thing as the item."""
    shown, first = _shown(data), np.asarray(data.winner_first)
    left = np.where(first, data.winner, data.loser)
    on_left = np.bincount(left[shown], minlength=data.n_items)
    right = np.where(first, data.loser, data.winner)
    on_right = np.bincount(right[shown], minlength=data.n_items)
    if np.minimum(on_left, on_right).sum() <= ONE_SIDE * (on_left + on_right).sum():
        raise UsageError(
            "covariate 'side': each item was always shown on the same side, so a preference for a "
            "side is one for the items; leave it out"
        )


def _differences(data: Comparisons, name: str) -> tuple[Floats, str]:
    """What a tag, or the difference of two, says of the winner less the loser; and a warning."""
    known = list(data.tags)
    side = covariate_of_side(name)
    if side is not None and {name, side[1]} <= set(known):
        raise UsageError(
            f"covariate {name!r} is that of one side, and {side[1]!r} that of the other; what "
            f"counts is the difference: use {side[0]!r} alone"
        )
    pairs = covariate_pairs(name)
    pair = next((both for both in pairs if set(both) <= set(known)), None)
    if name not in known and pair is None:
        has = f"the data have: {listed(known)}" if known else "the data have no tags"
        hint = did_you_mean(name, known, has)
        raise UsageError(
            f"there is no covariate {name!r}{hint}; it is 'side', a column of numbers (left less "
            f"right), or two columns such as {pairs[0][0]} and {pairs[0][1]}"
        )
    if data.winner_first is None:
        raise UsageError(f"covariate {name!r}: these data do not say which item was named first")
    if name in known or pair is None:
        values = _numbers(data, name)
    else:
        values = _numbers(data, pair[0]) - _numbers(data, pair[1])
    missing = np.isnan(values)
    note = ""
    if missing.any():
        n = counted(int(missing.sum()), "comparison")
        note = f"{n} without {name}: the two items count as equal in it"
    return np.nan_to_num(np.where(data.winner_first, values, -values)), note


def _numbers(data: Comparisons, name: str) -> Floats:
    """The values of a tag as numbers; NaN where there is none."""
    found = []
    for text in data.tag_values[name]:
        try:
            value = float(text)
        except ValueError:
            value = np.nan
        if not np.isfinite(value):
            raise UsageError(
                f"covariate {name!r} has the value {text!r}; expected a number in every answer"
            )
        found.append(value)
    return np.append(np.array(found, dtype=np.float64), np.nan)[data.tags[name]]


# -- the climb


@dataclass(frozen=True, slots=True, eq=False)
class Leans:
    """Where each rater's lean, less the common one, is integrated: nodes, and the logs of weights.

    Gauss and Hermite's rule around what is known of each (``middle``, ``width``), raters x nodes;
    without leans one node at 0.
    """

    node: Floats
    log_weight: Floats
    tau: float
    #: Of each rater's lean, the variance that comes from what is not known of tau; None: not asked.
    by_tau: Floats | None = None

    @classmethod
    def around(cls, middle: Floats, width: Floats, tau: float) -> Leans:
        """For leans ~ Normal(0, tau^2) that are about ``middle``, by ``width``."""
        x, weight = np.polynomial.hermite.hermgauss(NODES)
        node = middle[:, None] + np.sqrt(2.0) * width[:, None] * x
        log_weight = np.log(weight) + x**2 + np.log(width[:, None] / tau * np.sqrt(1 / np.pi))
        return cls(node, log_weight - 0.5 * (node / tau) ** 2, tau)

    def moved(self, last: Leans) -> float:
        """How far the nodes lie from earlier ones, in steps between them: the farthest rater's."""
        middle = NODES // 2
        step = self.node[:, middle + 1] - self.node[:, middle]
        return float(np.max(np.abs(self.node[:, middle] - last.node[:, middle]) / step))

    @classmethod
    def none(cls, n: int) -> Leans:
        """All raters lean alike."""
        return cls(np.zeros((n, 1)), np.zeros((n, 1)), 0.0)


@dataclass(slots=True, eq=False)
class HillPoint:
    """The objective at one (theta, beta), leans integrated out."""

    beta: Floats
    point: Height
    push: Floats  # by triple
    value: float
    share: Floats  # raters x nodes: P(node)
    likely: Floats  # raters x nodes: the log-likelihood
    pushes: list[Floats]  # by node

    @property
    def theta(self) -> Floats:
        """Skills, in nats."""
        return self.point.theta


class Hill:
    """The log-density of (theta, beta): sum_r log of the integral over rater r's lean."""

    def __init__(self, design: CovariateDesign, density: Joint | Marginal, leans: Leans) -> None:
        self.design, self.density, self.leans = design, density, leans
        self._rater = design.triples.rater()

    def nodes(self, theta: Floats, beta: Floats) -> Iterator[tuple[Height, Floats, Floats]]:
        """At each node of all raters: the height, each rater's log-likelihood, and the pushes."""
        design, t = self.design, self.design.triples
        offset, common = _offset_of(t), beta @ design.x
        quality: Floats = np.ones(t.n_raters)
        for node in self.leans.node.T:
            offset[:] = common
            if design.leaning is not None:
                offset += design.x[design.leaning] * node[self._rater]
            point = self.density.at(theta, quality)
            quality = point.quality
            if isinstance(self.density, Marginal):
                yield point, self.density.summary[:, 3].copy(), self.density.pushes.copy()
                continue
            s = self.density.passes.standing(theta)
            q = np.repeat(quality, np.diff(t.start))
            p = 0.5 + q * s
            told = np.bincount(self._rater, t.weight * np.log(p), t.n_raters)
            likely = np.asarray(told + self._prior_of(quality), dtype=np.float64)
            yield point, likely, t.weight * q * (0.25 - s * s) / p

    def _prior_of(self, quality: Floats) -> Floats | float:
        density = self.density
        if not isinstance(density, Joint) or density.fixed:
            return 0.0
        q = np.clip(quality, 1e-300, 1 - 1e-16)
        found = (density.alpha - 1.0) * np.log(q) + (density.beta - 1.0) * np.log1p(-q)
        return np.asarray(found)

    def at(self, theta: Floats, beta: Floats) -> HillPoint:
        """Value, gradient and curvature, from one pass for each node."""
        t, n = self.design.triples, self.leans.node.shape[1]
        points, told, pushes = zip(*self.nodes(theta, beta), strict=True)
        if n == 1:
            point, push, share = points[0], pushes[0], np.ones((t.n_raters, 1))
            value = point.value
        else:
            height = np.array(told).T + self.leans.log_weight
            top = height.max(axis=1)
            share = np.exp(height - top[:, None])
            total = share.sum(axis=1)
            share = share / total[:, None]
            value = points[0].value - told[0].sum() + float(np.sum(top + np.log(total)))
            by = share[self._rater].T
            push = np.einsum("mt,mt->t", by, np.array(pushes))
            rows = [np.sqrt(w) * row for w, one in zip(by, points, strict=True) for row in one.rows]
            rows += [np.sqrt(w) * (one - push) for w, one in zip(by, pushes, strict=True)]
            curve = np.einsum("mt,mt->t", by, np.array([one.curve for one in points]))
            quality = np.einsum("rm,mr->r", share, np.array([one.quality for one in points]))
            k = t.n_items
            likely = np.bincount(t.winner, push, k) - np.bincount(t.loser, push, k)
            last = points[-1]
            prior = last.gradient - (
                np.bincount(t.winner, pushes[-1], k) - np.bincount(t.loser, pushes[-1], k)
            )
            point = Height(
                theta, quality, value, prior + likely, last.prior_curve, curve, np.array(rows)
            )
        value -= 0.5 * float(beta @ beta) / WIDE**2
        return HillPoint(beta, point, push, value, share, np.array(told).T, list(pushes))

    def curvature(self, place: HillPoint) -> Floats:
        """Minus the Hessian by (theta, beta)."""
        design, t, point = self.design, self.design.triples, place.point
        k, c, n = t.n_items, len(design.x), t.n_raters
        full = np.zeros((k + c, k + c))
        flat = not point.prior_curve.any()
        full[:k, :k] = with_level(self.density.passes.curvature(point), flat=flat)
        full[k:, k:] = (design.x * point.curve) @ design.x.T + np.eye(c) / WIDE**2
        both = [self.by_item(point.curve * x) for x in design.x]
        full[:k, k:] = np.array(both).T
        for row in point.rows:
            beta = np.array([np.bincount(self._rater, row * x, n) for x in design.x])
            full[:k, k:] -= np.array([self.by_item(row * one[self._rater]) for one in beta]).T
            full[k:, k:] -= beta @ beta.T
        full[k:, :k] = full[:k, k:].T
        return full

    def by_item(self, part: Floats) -> Floats:
        """sum_t part_t (e_winner - e_loser)."""
        t = self.design.triples
        found = np.bincount(t.winner, part, t.n_items) - np.bincount(t.loser, part, t.n_items)
        return np.asarray(found, dtype=np.float64)

    def climb(self, place: HillPoint, tol: float) -> tuple[HillPoint, list[float], float]:
        """Newton, each step raising the density; the last place, the values, and what is left."""
        trace, left, k = [place.value], np.inf, place.theta.size
        for _ in range(STEPS):
            by_beta = self.design.x @ place.push - place.beta / WIDE**2
            gradient = np.concatenate((place.point.gradient, by_beta))
            step = _solved(self.curvature(place), gradient)
            size = float(np.max(np.abs(step)))
            if size <= tol or (size <= 1e-4 and size >= 0.5 * left):
                return place, trace, size
            left, length = size, min(1.0, 3.0 / size)
            slack = 1000 * self.density.rounding(place.value) if size < 1e-3 else 0.0
            for halving in range(HALVINGS):
                by = length * 0.5**halving
                trial = self.at(place.theta + by * step[:k], place.beta + by * step[k:])
                if trial.value >= place.value - slack:
                    break
            else:
                break
            trial.value = max(trial.value, trace[-1])
            trace.append(trial.value)
            place = trial
        if left <= 1e-4:
            return place, trace, left
        raise ConvergenceError(
            "the fit with covariates did not converge; leave out a covariate that hardly varies"
        )

    def known_leans(self, place: HillPoint) -> tuple[Floats, Floats]:
        """Mean and standard deviation of each rater's lean, less the common one."""
        mean = np.einsum("rm,rm->r", place.share, self.leans.node)
        square = np.einsum("rm,rm->r", place.share, (self.leans.node - mean[:, None]) ** 2)
        return mean, np.sqrt(square)

    def likeliest(self, place: HillPoint) -> Leans:
        """Leans with the tau under which the answers are most likely, around each rater's own.

        The likelihood of each rater's lean is read off a grid. That of a rater whose lean is far
        from the others' is flat between the two: no parabola.
        """
        from scipy.interpolate import CubicSpline  # noqa: PLC0415 (loads slowly)
        from scipy.special import ndtr  # noqa: PLC0415

        n = self.design.triples.n_raters
        grid = Leans(np.tile(GRID, (n, 1)), np.zeros((n, GRID.size)), self.leans.tau)
        wide = Hill(self.design, self.density, grid)
        likely = np.array([one for _, one, _ in wide.nodes(place.theta, place.beta)]).T
        half = 0.5 * (FINE[1] - FINE[0])
        edges = np.append(FINE - half, FINE[-1] + half)
        masses = np.diff(ndtr(edges / LEANS[:, None]), axis=1)

        def chances() -> Iterator[Floats]:
            for first in range(0, n, FEW_RATERS):
                told = CubicSpline(GRID, likely[first : first + FEW_RATERS], axis=1)(FINE)
                yield np.exp(told - told.max(axis=1, keepdims=True))

        # LEANS lie apart in proportion: even in tau itself is a factor of tau.
        height = 2.0 * np.log(LEANS) - LEANS / USUAL_LEAN
        for chance in chances():
            height = height + np.log(np.maximum(chance @ masses.T, 1e-300)).sum(axis=0)
        best = int((height - np.log(LEANS)).argmax())
        share = np.exp(height - height.max())
        share /= share.sum()
        middle, width, by_tau = [], [], []
        for chance in chances():
            mean, spread = _moments(chance * masses[best])
            among = (share / np.maximum(chance @ masses.T, 1e-300)) @ masses
            middle.append(mean)
            width.append(np.sqrt(np.maximum(spread, half**2)))
            by_tau.append(np.maximum(_moments(chance * among)[1] - spread, 0.0))
        found = Leans.around(np.concatenate(middle), np.concatenate(width), float(LEANS[best]))
        return replace(found, by_tau=np.concatenate(by_tau))

    def followed(self, place: HillPoint) -> Floats:
        """How the mean of each rater's lean, less the common one, follows (phi, beta, gamma)."""
        design, t = self.design, self.design.triples
        k, rater = t.n_items, t.rater()
        away = (place.share * (self.leans.node - self.known_leans(place)[0][:, None])).T
        # The covariance of the lean with the score, over the nodes.
        moves = np.einsum("mt,mt->t", away[:, rater], np.array(place.pushes))
        found = np.zeros((t.n_raters, k + len(design.x)))
        np.add.at(found, (rater, t.winner), moves)
        np.add.at(found, (rater, t.loser), -moves)
        for p, x in enumerate(design.x, start=k):
            found[:, p] = np.bincount(rater, moves * x, t.n_raters)
        return found


def _moments(mass: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of each rater's lean, of its mass on `FINE`."""
    known = mass + 1e-300
    known = known / known.sum(axis=1, keepdims=True)
    mean = known @ FINE
    return mean, np.asarray(known @ FINE**2 - mean**2)


def _offset_of(triples: Triples) -> Floats:
    """The offsets of a design's triples, to be written."""
    return cast("Floats", triples.offset)


def _solved(matrix: Floats, vector: Floats) -> Floats:
    roots, axes = np.linalg.eigh(matrix)
    roots = np.maximum(np.abs(roots), 1e-10 * float(np.max(np.abs(roots))))
    return np.asarray(axes @ ((axes.T @ vector) / roots))


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """What a fit holds equal: the effects of the covariates, and the fit without them.

    ``phi`` and ``beta`` (with gamma after it) are where the density is highest.
    """

    design: CovariateDesign
    phi: Floats
    beta: Floats
    leans: Leans
    plain: Fit


def held_equal(plain: Fit, names: Sequence[str], tol: float) -> tuple[Optimum, Held]:
    """The optimum with the effects of these covariates, from a fit of one ranking without them."""
    if len(plain.items) > MOST_ITEMS:
        raise UnsupportedError(
            f"covariates with {len(plain.items)} items are not estimated (the limit is "
            f"{MOST_ITEMS}); leave them out"
        )
    once = plain.data.merged()
    design = design_of(once, names, _counted(once, plain))
    n, leaning = design.triples.n_raters, design.leaning is not None
    priors, population = plain.given_priors(), plain.population
    beta: Floats = np.zeros(len(design.x))
    phi, leans = plain.theta, Leans.none(n)
    if leaning:
        leans = Leans.around(np.zeros(n), np.full(n, USUAL_LEAN), USUAL_LEAN)
    for _ in range(ROUNDS):
        for _ in range(ROUNDS):
            hill = Hill(design, _density(design, priors, plain), leans)
            place, _, _ = hill.climb(hill.at(phi, beta), 1e-3)
            phi, beta = place.theta, place.beta
            if not leaning:
                break
            last, leans = leans, hill.likeliest(place)
            if abs(np.log(leans.tau / last.tau)) <= 5 * SETTLED and leans.moved(last) < NEAR:
                break
        if population is None:
            break
        before, population = population.eta, _population_with(hill, place, population)
        priors = population.priors
        if float(np.max(np.abs(population.eta - before))) <= SETTLED:
            break
    if once is not plain.data:
        phi = phi + beta[len(names) :] @ design.means
        design = design_of(plain.data, names, _counted(plain.data, plain))
        beta = np.append(beta[: len(names)], np.zeros(len(design.means)))
    hill = Hill(design, _density(design, priors, plain), leans)
    place, trace, error = hill.climb(hill.at(phi, beta), tol)
    theta, quality = place.theta + place.beta[len(names) :] @ design.means, place.point.quality
    if priors.estimated:
        mean = posterior_mean(hill, place, inverse(hill.curvature(place)))
        theta = (_without_phi(design) @ mean)[: theta.size]
        quality = hill.at(mean[: theta.size], mean[theta.size :]).point.quality
    _set_offset(hill, place, len(names))
    found = Optimum(
        theta, quality if plain.rated else plain.quality, priors, trace, error, population,
        axis=plain.axis,
    )  # fmt: skip
    return found, Held(design, place.theta, place.beta, leans, plain)


def posterior_mean(hill: Hill, place: HillPoint, own: Floats) -> Floats:
    """The mean of (phi, beta, gamma), to first order: x + V g / 2 from the top x.

    g has the third derivatives of the log-density times the covariance V. Each rater's quality is
    taken as it is on average: that it is not known moves the mean by a tenth of the rest. No number
    moves by more than its standard deviation.
    """
    design, t, k = hill.design, hill.design.triples, hill.design.triples.n_items
    _set_offset(hill, place, len(design.x))
    s = hill.density.passes.standing(place.theta)
    q = np.repeat(place.point.quality, np.diff(t.start))
    rise = q * (0.25 - s * s) / (0.5 + q * s)
    third = 2.0 * rise * ((rise + s) * (rise + 2.0 * s) - (0.25 - s * s))
    items, x, rater = own[:k, :k], design.x, t.rater()
    # Of each win: the variance of all that decides it.
    spread = items[t.winner, t.winner] + items[t.loser, t.loser] - 2.0 * items[t.winner, t.loser]
    spread = spread + np.einsum("ct,cd,dt->t", x, own[k:, k:], x)
    for row, one in zip(own[k:, :k], x, strict=True):
        spread = spread + 2.0 * one * (row[t.winner] - row[t.loser])
    if design.leaning is not None:
        # A lean follows the rest; how much of it is not known is in the density already.
        side, follows = x[design.leaning], hill.followed(place)
        both = follows @ own
        along = both[rater, t.winner] - both[rater, t.loser]
        along = along + sum(row * both[rater, k + p] for p, row in enumerate(x))
        alone = np.einsum("ri,ri->r", both, follows)
        spread = spread + 2.0 * side * along + side**2 * alone[rater]
    turn = t.weight * third * spread
    by_item = hill.by_item(turn) - place.point.prior_curve * np.diag(items)
    turned = np.concatenate((by_item, x @ turn))
    if design.leaning is not None:
        turned = turned + np.bincount(rater, side * turn, t.n_raters) @ follows
    move, most = 0.5 * own @ turned, np.sqrt(np.diag(own))
    mean = np.concatenate((place.theta, place.beta)) + np.clip(move, -most, most)
    return np.asarray(mean)


def _without_phi(design: CovariateDesign) -> Floats:
    """The matrix that makes (theta, beta) of (phi, beta, gamma)."""
    k, c = design.triples.n_items, len(design.names)
    to = np.eye(k + c, k + len(design.x))
    to[:k, k + c :] = design.means.T
    return to


def _set_offset(hill: Hill, place: HillPoint, n: int) -> None:
    """The offsets of the triples as they are on average, of the first ``n`` rows of the design."""
    design, t = hill.design, hill.design.triples
    offset = _offset_of(t)
    offset[:] = place.beta[:n] @ design.x[:n]
    if design.leaning is not None:
        offset += design.x[design.leaning] * hill.known_leans(place)[0][t.rater()]


def _population_with(hill: Hill, place: HillPoint, last: Population) -> Population:
    """The population of raters with the effects in place: one step of EM over the leans.

    A lean that is not known is one standard deviation below or above its mean, half a rater each.
    """
    design, t = hill.design, hill.design.triples
    _set_offset(hill, place, len(design.x))
    if not isinstance(hill.density, Marginal):
        return estimate_priors(t.without_raters(), place.theta, fixed=True)
    copies = np.ones(t.n_raters)
    if design.leaning is not None:
        sd = hill.known_leans(place)[1]
        apart = design.x[design.leaning] * sd[t.rater()]
        middle = _offset_of(t)
        halves = [replace(t, offset=middle + sign * apart) for sign in (-1.0, 1.0)]
        t, copies = joined(halves), np.full(2 * t.n_raters, 0.5)
    return estimate_again(t, copies, place.theta, last.eta, explained=len(design.means))[0]


def _counted(data: Comparisons, plain: Fit) -> Mask:
    """The rows that count: not those of ties where these are an outcome of their own."""
    half = None if data.answers is None else data.answers.half
    if plain.ties == "model" and half is not None:
        return np.asarray(half == 0)
    return np.ones(data.rater.size, dtype=np.bool_)


def _density(design: CovariateDesign, priors: Priors, fit: Fit) -> Joint | Marginal:
    """What the fit climbs: the paper's form under given priors, else that of theta itself."""
    if priors.estimated:
        return theta_density(design.triples, priors, fixed=not fit.rated)
    return Joint(design.triples, priors, fixed=not fit.rated)


# -- what is known of it


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """The Gaussian of (theta, beta), the model's own and robust, and the lean of each rater."""

    mean: Floats
    own: Floats
    covariance: Floats
    robust: Robust
    laplace: Laplace
    #: By rater: mean and standard deviation of b_r; empty without.
    lean: Floats
    lean_sd: Floats
    #: d theta / d eta of estimated priors, with the covariates following.
    slope: Floats | None


def known_with(fit: Fit, held: Held) -> Known:
    """What is known of theta and the effects together."""
    design, k = held.design, len(fit.items)
    priors = fit.given_priors()
    density = theta_density(design.triples, priors, fixed=not fit.rated)
    hill = Hill(design, density, held.leans)
    place, _, _ = hill.climb(hill.at(held.phi, held.beta), 1e-5)
    full, to = inverse(hill.curvature(place)), _without_phi(design)
    top = mean = to @ np.concatenate((place.theta, place.beta))
    if priors.estimated:
        mean = to @ posterior_mean(hill, place, full)
    if priors.flat_items:
        to[:k] -= to[:k].mean(axis=0)
    own = to @ full @ to.T
    slope: Floats | None = None
    beyond: Floats = np.zeros(own.shape)
    if fit.population is not None:
        slope = to @ full @ _by_priors(hill, place, fit.population.eta)
        beyond = slope @ fit.population.covariance @ slope.T
    stacked, freedom, told = _clustered(fit, design, place, own)
    covariance = stacked + beyond
    wider = float(np.sqrt(mean_gap(stacked[:k, :k]) / max(mean_gap(own[:k, :k]), 1e-300)))
    remarks = remarks_on_few(told) if told else unclustered_remarks(fit)
    robust = Robust(covariance[:k, :k], stacked[:k, :k], own[:k, :k], told, freedom, wider, remarks)
    lean: Floats = np.empty(0)
    spread: Floats = np.empty(0)
    if design.leaning is not None:
        moved = mean - top
        lean, spread = _leans_of(hill, place, covariance, moved, design.leaning)
    _set_offset(hill, place, len(design.names))
    laplace = Laplace(mean[:k], (own + beyond)[:k, :k])
    return Known(
        mean, own + beyond, covariance, robust, laplace, lean, spread,
        None if slope is None else slope[:k],
    )  # fmt: skip


def _leans_of(
    hill: Hill, place: HillPoint, covariance: Floats, moved: Floats, leaning: int
) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each rater's lean; what is not known of beta counts too.

    ``moved``: by how much the mean of (theta, beta) is away from the top.
    """
    mean, sd = hill.known_leans(place)
    follows = hill.followed(place)[:, : len(covariance)]
    follows[:, hill.design.triples.n_items + leaning] += 1.0
    spread = np.einsum("ri,ij,rj->r", follows, covariance, follows)
    if hill.leans.by_tau is not None:
        spread = spread + hill.leans.by_tau
    return mean + place.beta[leaning] + follows @ moved, np.sqrt(spread + sd**2)


def _by_priors(hill: Hill, place: HillPoint, eta: Floats) -> Floats:
    """The mixed derivatives of the density by (theta, beta) and the priors' parameters."""
    design, t = hill.design, hill.design.triples
    k, c, rater = t.n_items, len(design.x), t.rater()
    mixed = np.zeros((k + c, eta.size))
    mixed[:k, 0] = np.exp(eta[0])
    density = hill.density
    if not isinstance(density, Marginal):
        return mixed
    turns = population_turns(density.priors)
    found: list[tuple[Floats, Floats]] = []
    for _ in hill.nodes(place.theta, place.beta):
        _, by_triple, about = density._pass(place.theta, *turns)
        found.append((by_triple, about[:, : len(by_triple)].T))
    mean = sum(share * about for share, (_, about) in zip(place.share.T, found, strict=True))
    for share, (by_triple, about), push in zip(place.share.T, found, place.pushes, strict=True):
        apart = (share * (about - mean))[:, rater] * push
        for p, row in enumerate(share[rater] * by_triple + apart, start=1):
            mixed[:k, p] += hill.by_item(row)
            mixed[k:, p] += design.x @ row
    return mixed


def _clustered(
    fit: Fit, design: CovariateDesign, place: HillPoint, own: Floats
) -> tuple[Floats, float, tuple[Way, ...]]:
    """The covariance of (theta, beta) robust to clusters, its degrees of freedom, and the ways."""
    data, ways = fit.data, clusters_of(fit.data, fit.cluster)
    if not ways:
        return own, float("inf"), ()
    rows = np.flatnonzero(design.at >= 0)
    at = design.at[rows]
    push = place.push[at] * data.weight[rows] / design.triples.weight[at]

    def products(way: Clusters) -> Floats:
        code, size = way.code[rows], own.shape[0]
        scores = np.zeros((way.n, size))
        np.add.at(scores, (code, data.winner[rows]), push)
        np.add.at(scores, (code, data.loser[rows]), -push)
        for p in range(len(design.names)):
            scores[:, len(fit.items) + p] = np.bincount(code, push * design.x[p, at], way.n)
        return np.asarray(scores.T @ scores * (way.n / (way.n - 1)))

    inner = products(ways[0])
    if len(ways) == 2:
        both = ways[0].code.astype(np.int64) * ways[1].n + ways[1].code
        _, code = np.unique(both, return_inverse=True)
        inside = Clusters("both", code.astype(np.int64).ravel())
        inner = inner + products(ways[1]) - products(inside)
    told = tuple(
        Way(way.name, way.n, kish(np.bincount(way.code, data.weight, way.n).astype(np.float64)))
        for way in ways
    )
    rank = len(fit.items) - 1 + len(design.names)
    stacked, freedom = shrunk(own, inner, min(way.effective for way in told), rank)
    return stacked, freedom, told


def offsets_in(fit: Fit, data: Comparisons) -> Floats:
    """By row of some of a fit's answers: what its covariates add to the winner's place."""
    total: Floats = np.zeros(data.rater.size)
    if fit.held is None:
        return total
    known, design = fit.known_with, fit.held.design
    for p, name in enumerate(design.names):
        effect = known.mean[len(fit.items) + p]
        if p == design.leaning:
            rater = {one: r for r, one in enumerate(fit.raters)}
            effect = known.lean[[rater[one] for one in data.raters]][data.rater]
        total += effect * _values(data, name)[0] / design.unit[p]
    return total


@dataclass(frozen=True, slots=True)
class CovariateEffect:
    """Of one covariate, in nats: of ``unit`` more of it on the first item, with its interval."""

    name: str
    unit: float
    theta: float
    theta_sd: float
    theta_lower: float
    theta_upper: float


def effects_of(fit: Fit, level: float) -> tuple[CovariateEffect, ...]:
    """The effects of all covariates; none of a fit without."""
    if fit.held is None:
        return ()
    known, k, design = fit.known_with, len(fit.items), fit.held.design
    out = []
    for p, name in enumerate(design.names):
        # The panel's lean is known from as many leans as there are raters.
        freedom = design.triples.n_raters - 1.0 if p == design.leaning else inf
        reach = t_quantile(freedom, (1 + level) / 2)
        mean, sd = float(known.mean[k + p]), float(np.sqrt(known.covariance[k + p, k + p]))
        unit = float(design.unit[p])
        out.append(CovariateEffect(name, unit, mean, sd, mean - reach * sd, mean + reach * sd))
    return tuple(out)
