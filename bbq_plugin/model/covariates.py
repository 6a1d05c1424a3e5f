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

Newton climbs in (theta, beta) at once. The curvature at the top, with what estimated priors leave
open, gives the covariance of both together; it is made robust to clusters as that of theta alone is
(`robust`).
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
LEANS = np.geomspace(0.01, 3.0, 60)  # nats, of tau
USUAL_LEAN = 0.5  # the scale of its prior, tau exp(-tau / 0.5): never quite 0
NODES = 5
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
    x: Floats  # covariates x triples
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
    x = np.array(columns).reshape(len(columns), -1)
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
    return CovariateDesign(
        tuple(names), np.array(unit), triples, np.ascontiguousarray(x[:, first]),
        names.index(SIDE) if leans else None, at, tuple(warnings),
    )  # fmt: skip


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
        k, c, n = t.n_items, len(design.names), t.n_raters
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
        """Leans with the tau under which the answers are most likely; each rater's are Gaussian.

        The posterior of a lean has precision D = h + 1/tau^2 and mean m h / D, of its own m and h.
        These are of the parabola through a rater's best node and the two beside it: the moments
        over the nodes would be those of one node where the answers know more than nodes lie apart.
        """
        raters, best = np.arange(len(place.likely)), place.likely.argmax(axis=1)
        first = np.clip(best - 1, 0, NODES - 3)
        x = [self.leans.node[raters, first + n] for n in range(3)]
        y = [place.likely[raters, first + n] for n in range(3)]
        rise = [(y[n + 1] - y[n]) / (x[n + 1] - x[n]) for n in range(2)]
        told = -2.0 * (rise[1] - rise[0]) / (x[2] - x[0])
        told = np.maximum(told, 1e-3 * self.leans.tau**-2)
        pull = rise[0] + 0.5 * told * (x[0] + x[1])
        square = pull**2 / told
        less = 1.0 + LEANS[:, None] ** 2 * told
        height = -0.5 * np.sum(np.log(less) + square / less, axis=1)
        height += np.log(LEANS) - LEANS / USUAL_LEAN
        tau = float(LEANS[height.argmax()])
        precise = told + tau**-2
        return Leans.around(pull / precise, precise**-0.5, tau)


def _offset_of(triples: Triples) -> Floats:
    """The offsets of a design's triples, to be written."""
    return cast("Floats", triples.offset)


def _solved(matrix: Floats, vector: Floats) -> Floats:
    roots, axes = np.linalg.eigh(matrix)
    roots = np.maximum(np.abs(roots), 1e-10 * float(np.max(np.abs(roots))))
    return np.asarray(axes @ ((axes.T @ vector) / roots))


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """What a fit holds equal: the effects of the covariates, and the fit without them."""

    design: CovariateDesign
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
    beta: Floats = np.zeros(len(names))
    theta, leans = plain.theta, Leans.none(n)
    if leaning:
        leans = Leans.around(np.zeros(n), np.full(n, USUAL_LEAN), USUAL_LEAN)
    for _ in range(ROUNDS):
        for _ in range(ROUNDS):
            hill = Hill(design, _density(design, priors, plain), leans)
            place, _, _ = hill.climb(hill.at(theta, beta), 1e-3)
            theta, beta = place.theta, place.beta
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
        design = design_of(plain.data, names, _counted(plain.data, plain))
    hill = Hill(design, _density(design, priors, plain), leans)
    place, trace, error = hill.climb(hill.at(theta, beta), tol)
    _set_offset(hill, place)
    found = Optimum(
        place.theta, place.point.quality if plain.rated else plain.quality, priors, trace, error,
        population, axis=plain.axis,
    )  # fmt: skip
    return found, Held(design, place.beta, leans, plain)


def _set_offset(hill: Hill, place: HillPoint) -> None:
    """The offsets of the triples as they are on average: for all that takes them as they stand."""
    design, t = hill.design, hill.design.triples
    offset = _offset_of(t)
    offset[:] = place.beta @ design.x
    if design.leaning is not None:
        offset += design.x[design.leaning] * hill.known_leans(place)[0][t.rater()]


def _population_with(hill: Hill, place: HillPoint, last: Population) -> Population:
    """The population of raters with the effects in place: one step of EM over the leans.

    A lean that is not known is one standard deviation below or above its mean, half a rater each.
    """
    design, t = hill.design, hill.design.triples
    _set_offset(hill, place)
    if not isinstance(hill.density, Marginal):
        return estimate_priors(t.without_raters(), place.theta, fixed=True)
    copies = np.ones(t.n_raters)
    if design.leaning is not None:
        sd = hill.known_leans(place)[1]
        apart = design.x[design.leaning] * sd[t.rater()]
        middle = _offset_of(t)
        halves = [replace(t, offset=middle + sign * apart) for sign in (-1.0, 1.0)]
        t, copies = joined(halves), np.full(2 * t.n_raters, 0.5)
    return estimate_again(t, copies, place.theta, last.eta)[0]


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
    place, _, _ = hill.climb(hill.at(fit.theta, held.beta), 1e-5)
    full = hill.curvature(place)
    own = inverse(full)
    if priors.flat_items:
        middle = np.eye(len(own))
        middle[:k, :k] -= 1.0 / k
        own = middle @ own @ middle
    slope: Floats | None = None
    beyond: Floats = np.zeros(own.shape)
    if fit.population is not None:
        slope = own @ _by_priors(hill, place, fit.population.eta)
        beyond = slope @ fit.population.covariance @ slope.T
    stacked, freedom, told = _clustered(fit, design, place, own)
    covariance = stacked + beyond
    wider = float(np.sqrt(mean_gap(stacked[:k, :k]) / max(mean_gap(own[:k, :k]), 1e-300)))
    remarks = remarks_on_few(told) if told else unclustered_remarks(fit)
    robust = Robust(covariance[:k, :k], stacked[:k, :k], own[:k, :k], told, freedom, wider, remarks)
    lean: Floats = np.empty(0)
    spread: Floats = np.empty(0)
    if design.leaning is not None:
        lean, spread = _leans_of(hill, place, covariance, design.leaning)
    _set_offset(hill, place)
    laplace = Laplace(place.theta, (own + beyond)[:k, :k])
    mean = np.concatenate((place.theta, place.beta))
    return Known(
        mean, own + beyond, covariance, robust, laplace, lean, spread,
        None if slope is None else slope[:k],
    )  # fmt: skip


def _leans_of(
    hill: Hill, place: HillPoint, covariance: Floats, leaning: int
) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each rater's lean; what is not known of beta counts too."""
    design, t = hill.design, hill.design.triples
    mean, sd = hill.known_leans(place)
    k, rater = t.n_items, t.rater()
    away = (place.share * (hill.leans.node - mean[:, None])).T
    moves = np.einsum("mt,mt->t", away[:, rater], np.array(place.pushes))
    # How the mean follows (theta, beta): its covariance with the score, over the nodes.
    follows = np.zeros((t.n_raters, len(covariance)))
    np.add.at(follows, (rater, t.winner), moves)
    np.add.at(follows, (rater, t.loser), -moves)
    for p, x in enumerate(design.x):
        follows[:, k + p] = np.bincount(rater, moves * x, t.n_raters)
    follows[:, k + leaning] += 1.0
    spread = np.einsum("ri,ij,rj->r", follows, covariance, follows)
    return mean + place.beta[leaning], np.sqrt(spread + sd**2)


def _by_priors(hill: Hill, place: HillPoint, eta: Floats) -> Floats:
    """The mixed derivatives of the density by (theta, beta) and the priors' parameters."""
    design, t = hill.design, hill.design.triples
    k, c, rater = t.n_items, len(design.names), t.rater()
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
        for p, x in enumerate(design.x):
            scores[:, len(fit.items) + p] = np.bincount(code, push * x[at], way.n)
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
