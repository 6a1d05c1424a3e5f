"""Priors from the data: who the raters are and how far the items lie apart.

The order of the items survives a wrong prior, their distances do not: a population believed to be
better than it is makes every difference look smaller. So the population's parameters eta are set
where the marginal likelihood is highest, each q integrated by quadrature and theta by Laplace:

    M(eta) = max_theta F(theta; eta) + L(eta) + log h(eta),   L = -1/2 log det(-F'')

One pass over the data gives F with its first and second derivatives in theta and eta, so Newton
climbs in both at once, theta eliminated. L changes slowly: near the top it is taken as a parabola
along each parameter, from two passes each, and renewed until the top stays where it is.

Where items have few answers each, L misjudges how far apart they lie: Laplace's error of each item
is small, and there are many of them. There log a is set where each answer is best predicted from
all others, and the rest of eta where M is highest for it. To leave out one answer takes one Newton
step (Rad and Maleki 2020). By how much the two differ is added to what is not known of log a. They
differ much where pairs were chosen by earlier answers (equals meet, as in a Swiss tournament): then
each answer is even, and neither can tell items that are equal from items that met their equals.

``h`` is a weak prior around the paper's values, for studies too small to tell; a study of a few
dozen raters already outweighs it. What remains unknown of eta widens the intervals of theta
(Kass and Steffey 1989): its covariance and d theta / d eta are part of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, lgamma

import numpy as np
from numpy.typing import NDArray

from bbq_plugin.data.triples import Floats, Triples, lots, some_raters
from bbq_plugin.errors import ConvergenceError
from bbq_plugin.model.objectives import (
    LEAST_GUESSER_BETA,
    Height,
    Joint,
    Marginal,
    Part,
    Parts,
    theta_density,
)
from bbq_plugin.model.priors import Priors
from bbq_plugin.model.solvers import conjugate_gradients, hill_solver, log_det, solve_newton

# eta = (log a[, log(alpha - 1), log(beta - 1), logit guessers, log(guesser_beta - 3)]); centres are
# the paper's values, a tenth of guessers, and their mean quality of 0.05. One unit is a factor of
# e. The numbers of the Beta have Student tails: a small study, which cannot tell, stays near the
# paper's raters, and a large one is free to leave.
CENTRE = np.array([np.log(5.0), np.log(9.0), 0.0, np.log(1 / 9), np.log(16.0)])
WIDTH = np.array([1.0, 0.3, 0.3, 1.0, 1.0])
FREEDOM = np.array([inf, 3.0, 3.0, inf, inf])  # degrees of; infinity is a Gaussian
NUDGE = 0.1
LONGEST = 1.0
ENOUGH = 0.02  # of a unit of eta: far below what any study can tell
NEAR = 1e-3  # nats of theta, at the same time
NEAR_BY = 0.05  # nats of theta, to begin with
FARTHEST = 0.5  # nats that theta is moved by to see how L changes
MOST_STEPS = 60
MOST_ROUNDS, FEW_ROUNDS = 12, 2  # renewals of L, with few and with very many items
HALVINGS = 8
# Triples to find the way by, and to settle on, at least and for each item; more raters would not
# move the estimate visibly. L's slope is a mean over raters and needs fewer still.
COARSE_TRIPLES, MOST_TRIPLES, LOG_DET_TRIPLES = (25_000, 100), (150_000, 100), (10_000, 100)
HIGHEST = 2**32 - 1  # of the `lots` of raters
LEAST_RATERS = 20  # however many answers each of them has
MOST_DENSE = 1024  # items; beyond, L has the diagonal alone, and systems are solved by iteration
ITERATED = 1e-2  # of the right side, left of it by iteration: steps are corrected by later ones
RATE = 0.1  # b sets the level of all theta, which no comparison sees: it stays the paper's
LEAST_CURVE = 0.5  # nothing is less known of eta than +-1.4 units
# Laplace's error grows with the number of items, and along the one direction that comparisons
# hardly see (better raters, closer items) it would decide: the prior of the Beta grows with it.
ITEMS_A_PRIOR = 50
SPARSE = 30  # answers an item; with more, M and what is predicted best agree
LEAST_SPREAD = np.log(0.3)  # of log a: items 3.5 nats apart
SPREAD_STEP, SPREAD_ROUNDS = 0.5, 2
MOST_DOUBT = 0.7  # of log a, that the two ways to find it leave: a scale is off, no order
GREAT_DOUBT = 1.0  # of which a reader is told
LEAST_LEFT = 0.05  # of the curvature of a pair, without one answer to it


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """The estimate, its covariance, and how theta follows it."""

    priors: Priors
    eta: Floats
    covariance: Floats
    slope: Floats  # (items, parameters): d theta / d eta
    theta: Floats
    #: By how much log a differs between what M says and what predicts answers best.
    doubt: float = 0.0


def priors_of(eta: Floats) -> Priors:
    """The priors that a vector of population parameters stands for."""
    a = float(np.exp(eta[0]))
    if eta.size == 1:
        return Priors(a=a, b=RATE, estimated=True)
    alpha, beta, low = np.exp(eta[[1, 2, 4]])
    return Priors(
        a, RATE, 1.0 + float(alpha), 1.0 + float(beta), float(1.0 / (1.0 + np.exp(-eta[3]))),
        estimated=True, guesser_beta=LEAST_GUESSER_BETA + float(low),
    )  # fmt: skip


def log_hyperprior(eta: Floats, n_items: int) -> tuple[float, Floats, Floats]:
    """log h(eta) up to a constant, its gradient, and minus its second derivatives."""
    times = np.where(np.isfinite(FREEDOM[: eta.size]), max(1.0, n_items / ITEMS_A_PRIOR), 1.0)
    z = (eta - CENTRE[: eta.size]) / WIDTH[: eta.size]
    width, nu = WIDTH[: eta.size], FREEDOM[: eta.size]
    student = np.isfinite(nu)
    n = np.where(student, nu, 1.0)
    heavy = n + z**2
    value = np.where(student, -(n + 1) / 2 * np.log1p(z**2 / n), -0.5 * z**2)
    gradient = np.where(student, -(n + 1) * z / heavy, -z) / width
    bend = np.where(student, (n + 1) * (n - z**2) / heavy**2, 1.0) / width**2
    return float(times @ value), times * gradient, times * bend


def few_raters(triples: Triples | Parts, at_least: tuple[int, int]) -> Triples:
    """So many raters that about as many triples remain as asked for, and `LEAST_RATERS`."""
    most = max(at_least[0], at_least[1] * triples.n_items)
    if not isinstance(triples, Parts) and triples.size <= most:
        return triples
    every = max(1, int(np.ceil(triples.size / most)))
    last = last_lot(triples, max(triples.n_raters // every, LEAST_RATERS))
    if isinstance(triples, Parts):
        return joined(triples.each(_drawn, last))
    return some_raters(triples, np.flatnonzero(lots(triples) <= last))


def last_lot(triples: Triples | Parts, n: int) -> int:
    """The number up to which the `lots` of ``n`` raters are."""
    if n >= triples.n_raters:
        return HIGHEST
    if isinstance(triples, Parts):
        # That fewer than n are below this by chance never happens.
        some = int(HIGHEST * min(1.0, (n + 8 * n**0.5 + 8) / triples.n_raters))
        found = np.concatenate(triples.each(_lots_up_to, some))
    else:
        found = lots(triples)
    return int(np.sort(found)[:n][-1])


def _lots_up_to(part: Part, last: int) -> NDArray[np.uint32]:
    found = lots(part.named())
    return found[found <= last]


def _drawn(part: Part, last: int) -> Triples:
    """The wins of those raters of a part whose lots are low enough."""
    triples = part.named()
    return some_raters(triples, np.flatnonzero(lots(triples) <= last))


def joined(found: list[Triples]) -> Triples:
    """The wins of raters from several parts, one after the other."""
    sizes = np.cumsum([0, *(t.size for t in found)])
    start = [t.start[:-1] + size for t, size in zip(found, sizes, strict=False)]
    offsets = [t.offset for t in found if t.offset is not None]
    return Triples(
        np.append(np.concatenate(start), sizes[-1]), np.concatenate([t.winner for t in found]),
        np.concatenate([t.loser for t in found]), np.concatenate([t.weight for t in found]),
        found[0].n_items, np.concatenate(offsets) if offsets else None,
        tuple(name for t in found for name in t.names),
    )  # fmt: skip


@dataclass(slots=True, eq=False)
class Place:
    """F at one (theta, eta) with all its derivatives, the hyperprior included."""

    point: Height
    eta: Floats
    value: float
    gradient: Floats  # by eta
    curve: Floats  # minus the second derivatives by eta
    mixed: Floats  # items x parameters


@dataclass(slots=True, eq=False)
class LogDet:
    """L around one eta, as a parabola along each parameter."""

    eta: Floats
    gradient: Floats
    curve: Floats  # minus the second derivatives; not negative, so that a step stays a step

    def at(self, eta: Floats) -> tuple[float, Floats]:
        """The value, less that at its own eta, and the gradient."""
        gap = eta - self.eta
        bend = self.curve * gap
        return float(gap @ (self.gradient - 0.5 * bend)), self.gradient - bend


class PopulationEvidence:
    """F(theta; eta) + log h(eta) on some triples; ``fixed`` leaves only the spread of the items.

    L is that of ``study``, of which the triples are a part, from as many raters as it takes;
    ``times``: of a study so many times as large. ``explained``: so many directions of theta are
    explained by something else, and say nothing of the items' spread.
    """

    def __init__(
        self, triples: Triples, *, fixed: bool = False, copies: Floats | None = None,
        study: Triples | None = None, times: float = 1.0, explained: int = 0,
    ) -> None:  # fmt: skip
        self.triples, self.fixed, self._times, self._explained = triples, fixed, times, explained
        self._marginal = None if fixed else Marginal(triples, priors_of(CENTRE), copies=copies)
        self._slope: Floats | None = None
        self._sketch = self
        if study is not None and not fixed:
            part = few_raters(study, LOG_DET_TRIPLES)
            self._sketch = PopulationEvidence(part, times=study.size / part.size)

    def density(self, eta: Floats) -> Joint | Marginal:
        """The log-density of theta under these parameters."""
        priors = priors_of(eta)
        if self._marginal is None:
            return theta_density(self.triples, priors, fixed=True)
        self._marginal.believe(priors)
        return self._marginal

    def at(self, theta: Floats, eta: Floats) -> Place:
        """Everything that a step needs, in one pass."""
        density, k, a = self.density(eta), theta.size, float(np.exp(eta[0]))
        gradient, curve = np.zeros(eta.size), np.zeros((eta.size, eta.size))
        mixed = np.zeros((k, eta.size))
        if isinstance(density, Marginal):
            point, about = density.with_population(theta)
            gradient[1:], curve[1:, 1:], mixed[:, 1:] = about.gradient, -about.hessian, about.mixed
        else:
            point = density.at(theta, np.ones(self.triples.n_raters))
        # sum [a theta - b exp(theta)] + K (a log b - log Gamma(a)), by log a.
        from scipy.special import digamma, polygamma  # noqa: PLC0415 (loads slowly)

        gradient[0] = a * (float(theta.sum()) + k * (np.log(RATE) - float(digamma(a))))
        curve[0, 0] = a**2 * k * float(polygamma(1, a)) - gradient[0]
        mixed[:, 0] = a
        # Each such direction is a factor of 1 / sqrt(a) less: restricted likelihood.
        gradient[0] -= 0.5 * self._explained
        prior, slope, bend = log_hyperprior(eta, k)
        value = point.value + k * (a * np.log(RATE) - lgamma(a)) + prior
        value -= 0.5 * self._explained * float(eta[0])
        return Place(point, eta, value, gradient + slope, curve + np.diag(bend), mixed)

    def solver(self, point: Height, eta: Floats) -> Callable[[Floats], Floats]:
        """How to solve (minus the Hessian in theta) x = y, for one y or several columns."""
        density = self.density(eta)
        if point.theta.size <= MOST_DENSE:
            matrix = density.passes.curvature(point)
            solve = hill_solver(matrix)
            if solve is not None:
                return solve
            # Far from the top the matrix may be no hill: every curvature is taken as downward.
            roots, axes = np.linalg.eigh(matrix)
            roots = np.maximum(np.abs(roots), 1e-6 * float(np.max(np.abs(roots))))
            return lambda y: np.asarray((axes / roots) @ (axes.T @ y))

        def iterate(y: Floats) -> Floats:
            columns = y.reshape(y.shape[0], -1).T
            found = [_iterated(density, point, column) for column in columns]
            return np.column_stack(found).reshape(y.shape)

        return iterate

    def eliminated(self, place: Place) -> tuple[Floats, Floats, Floats]:
        """With theta at its best: its own step, how it follows eta, and the curve by eta."""
        solve = self.solver(place.point, place.eta)
        if self._slope is None or place.point.theta.size <= MOST_DENSE:
            both = solve(np.column_stack((place.point.gradient, place.mixed)))
            alone, self._slope = both[:, 0], both[:, 1:]
        else:
            # It changes little, and by iteration each column costs as much as the step.
            alone = solve(place.point.gradient)
        curve = place.curve - place.mixed.T @ self._slope
        return alone, self._slope, 0.5 * (curve + curve.T)

    def log_det(self, theta: Floats, eta: Floats) -> float:
        """L; with very many items by the diagonal, as if each stood alone."""
        density = self.density(eta)
        point = density.at(theta, np.ones(self.triples.n_raters))
        if theta.size <= MOST_DENSE:
            answers = density.passes.curvature(replace(point, prior_curve=np.zeros(theta.size)))
            matrix = self._times * answers + np.diag(point.prior_curve)
            return -0.5 * log_det(matrix)
        diagonal = self._times * density.passes.pair_diagonal(point) + point.prior_curve
        return -0.5 * float(np.sum(np.log(np.maximum(diagonal, 1e-300))))

    def log_det_around(self, theta: Floats, eta: Floats, slope: Floats) -> LogDet:
        """L as a parabola along each parameter, theta following eta."""
        self._slope = None
        log_det, ends = self._sketch.log_det, []
        middle = log_det(theta, eta)
        for p in range(eta.size):
            nudge = np.zeros(eta.size)
            nudge[p] = NUDGE
            along = np.clip(slope[:, p] * NUDGE, -FARTHEST, FARTHEST)
            ends.append((log_det(theta + along, eta + nudge), log_det(theta - along, eta - nudge)))
        up, down = np.array(ends).T
        curve = np.maximum(-(up - 2 * middle + down) / NUDGE**2, 0.0)
        return LogDet(eta, (up - down) / (2 * NUDGE), curve)


def _iterated(density: Joint | Marginal, point: Height, column: Floats) -> Floats:
    alone = replace(point, gradient=column)
    found = conjugate_gradients(density, alone, flat=False, relative=ITERATED)
    return found.change if found.change is not None else column / (point.prior_curve + 1.0)


@dataclass(slots=True, eq=False)
class Top:
    """Where M is highest, on some triples; ``alone`` is what theta still has to go."""

    place: Place
    alone: Floats
    slope: Floats
    curve: Floats  # minus the Hessian of M by eta
    log_det: LogDet


def _climb(
    evidence: PopulationEvidence, place: Place, log_det: LogDet, *, hold: bool = False
) -> Top:
    """Newton in (theta, eta) at once, for a given L; every step raises F + L + log h.

    It ends where L is no longer known. ``hold``: a stays as it is.
    """
    told, pull = log_det.at(place.eta)
    # What is not a number cannot rise: it is told as a climb that does not end.
    for _ in range(MOST_STEPS if np.isfinite(place.value + told) else 0):
        alone, slope, curve = evidence.eliminated(place)
        curve = curve + np.diag(log_det.curve)
        gradient = place.gradient + pull + place.mixed.T @ alone
        step: Floats = np.zeros(gradient.size)
        free = slice(1 if hold else 0, None)
        roots, axes = np.linalg.eigh(curve[free, free])
        step[free] = axes @ ((axes.T @ gradient[free]) / np.maximum(np.abs(roots), 0.25))
        inside = np.clip(place.eta + step, log_det.eta - LONGEST, log_det.eta + LONGEST)
        step = inside - place.eta
        if float(np.max(np.abs(alone))) > NEAR_BY:
            # From far away a step in both at once leads astray: theta alone first.
            step = np.zeros(step.size)
        move = alone + slope @ step
        size, moved = float(np.max(np.abs(step))), float(np.max(np.abs(move)))
        if size <= 0.25 * ENOUGH and moved <= NEAR:
            return Top(place, alone, slope, curve, log_det)
        for halving in range(HALVINGS):
            by = 0.5**halving
            trial = evidence.at(place.point.theta + by * move, place.eta + by * step)
            trial_told, trial_pull = log_det.at(trial.eta)
            if trial.value + trial_told > place.value + told:
                break
        else:
            # No visible rise is left.
            return Top(place, alone, slope, curve, log_det)
        place, told, pull = trial, trial_told, trial_pull
    raise ConvergenceError(
        "the priors could not be estimated from these data; give them yourself "
        "(priors='paper', on the command line --priors paper)"
    )


def _top(
    evidence: PopulationEvidence, theta: Floats, eta: Floats, most: int = MOST_ROUNDS, *,
    hold: bool = False, log_det: LogDet | None = None,
) -> Top:  # fmt: skip
    """Climb and renew L in turn, until the top stays where it is, or ``most`` times.

    ``log_det``: what was known of L nearby.
    """
    start = solve_newton(evidence.density(eta), theta, np.ones(evidence.triples.n_raters), NEAR_BY)
    place = evidence.at(start.theta, eta)
    if log_det is None:
        _, slope, _ = evidence.eliminated(place)
        log_det = evidence.log_det_around(start.theta, eta, slope)
    top = _climb(evidence, place, log_det, hold=hold)
    for _ in range(most if theta.size <= MOST_DENSE else min(most, FEW_ROUNDS)):
        place, before = top.place, top.log_det.eta
        if float(np.max(np.abs(place.eta - before))) <= ENOUGH:
            break
        log_det = evidence.log_det_around(place.point.theta, place.eta, top.slope)
        top = _climb(evidence, place, log_det, hold=hold)
    return top


def is_sparse(triples: Triples | Parts) -> bool:
    """Whether there are so few single answers that the items' spread is found by predicting them.

    Of rankings, the pairs of which predict each other, it is not: most have a fraction of a weight.
    """
    if isinstance(triples, Parts) or not triples.size:
        return False
    whole = float(np.mean(triples.weight >= 1.0)) > 0.5
    return whole and float(triples.weight.sum()) < SPARSE * triples.n_items


def predicted(density: Joint | Marginal, point: Height) -> float:
    """sum log P(answer | all others) at ``point``, the last that was asked for."""
    t = density.passes.triples
    alone = density.passes.pair_diagonal(point) + point.prior_curve
    if t.n_items <= MOST_DENSE:
        v = np.linalg.inv(density.passes.curvature(point))
        spread = v[t.winner, t.winner] + v[t.loser, t.loser] - 2 * v[t.winner, t.loser]
    else:
        spread = 1.0 / alone[t.winner] + 1.0 / alone[t.loser]
    gap = point.theta[t.winner] - point.theta[t.loser]
    q = np.repeat(point.quality, np.diff(t.start))
    s = 0.5 * np.tanh(0.5 * gap)
    slope = q * (0.25 - s * s) / (0.5 + q * s)
    bend = slope * (slope + 2.0 * s)
    gap = gap - slope * spread / np.maximum(1.0 - bend * spread, LEAST_LEFT)
    if isinstance(density, Marginal):
        unknown = np.repeat(density.summary[:, 1], np.diff(t.start))
        q = np.clip(q - unknown * s / (0.5 + q * s), 0.0, 1.0)
    told = 0.5 + q * 0.5 * np.tanh(0.5 * gap)
    return float(t.weight @ np.log(np.maximum(told, 1e-12)))


def _best_spread(evidence: PopulationEvidence, place: Place) -> Place:
    """The place with log a where answers are best predicted, the rest of eta as it is."""
    near = place.point.theta

    def told(log_a: float) -> float:
        nonlocal near
        eta = np.append(log_a, place.eta[1:])
        density = evidence.density(eta)
        start = np.ones(evidence.triples.n_raters)
        point = solve_newton(density, near, start, NEAR).point
        near = point.theta
        return predicted(density, point) + log_hyperprior(eta[:1], near.size)[0]

    at = [max(float(place.eta[0]), LEAST_SPREAD)]
    value = {at[0]: told(at[0])}
    for way in (-SPREAD_STEP, SPREAD_STEP):
        while True:
            best = max(value, key=value.__getitem__)
            then = max(best + way, LEAST_SPREAD)
            if then in value:
                break
            value[then] = told(then)
            if value[then] <= value[best]:
                break
    best = max(value, key=value.__getitem__)
    low, high = value.get(best - SPREAD_STEP), value.get(best + SPREAD_STEP)
    if low is not None and high is not None:
        # The top of the parabola through the best and its neighbours.
        best += 0.5 * SPREAD_STEP * (low - high) / (low - 2 * value[best] + high)
    eta = np.append(best, place.eta[1:])
    density = evidence.density(eta)
    found = solve_newton(density, near, np.ones(evidence.triples.n_raters), NEAR)
    return evidence.at(found.theta, eta)


def _with_spread(evidence: PopulationEvidence, top: Top) -> Top:
    """The same where items have few answers: a by prediction, the rest for it, in turn."""
    for _ in range(SPREAD_ROUNDS):
        before = top.place.eta
        place = _best_spread(evidence, top.place)
        _, slope, _ = evidence.eliminated(place)
        log_det = evidence.log_det_around(place.point.theta, place.eta, slope)
        top = _climb(evidence, place, log_det, hold=True)
        if float(np.max(np.abs(top.place.eta - before))) <= SPREAD_STEP / 2:
            break
    return top


def estimate_again(
    triples: Triples, copies: Floats, theta: Floats, eta: Floats, *, hold: bool = False,
    log_det: LogDet | None = None, explained: int = 0,
) -> tuple[Population, bool, LogDet]:  # fmt: skip
    """The population from an estimate nearby, each rater counted ``copies`` times.

    Also whether it is still the same, and what is known of L, for the next time. ``hold``: a stays
    as it is. ``explained``: as in `PopulationEvidence`.
    """
    evidence = PopulationEvidence(triples, copies=copies, explained=explained)
    top = _top(evidence, theta, eta, 1 if log_det is None else 2, hold=hold, log_det=log_det)
    same = bool(np.max(np.abs(top.place.eta - eta)) <= ENOUGH)
    return _population(top), same, top.log_det


def estimate_priors(triples: Triples | Parts, theta: Floats, *, fixed: bool) -> Population:
    """The population under which these comparisons are most likely; ``theta`` is a first guess.

    ``fixed`` (no rater quality) leaves only the spread of the items.
    """
    eta = CENTRE[: 1 if fixed else CENTRE.size].copy()
    # The level that the prior gives the items is known; only their distances are searched.
    theta = theta + np.log(theta.size * np.exp(eta[0])) - np.log(RATE * np.sum(np.exp(theta)))
    # A part of the raters shows the way, cheaply; the rest of the climb is short.
    more = few_raters(triples, MOST_TRIPLES)
    part = few_raters(more, COARSE_TRIPLES)
    evidence = PopulationEvidence(part, fixed=fixed, study=more)
    top = _top(evidence, theta, eta, MOST_ROUNDS if part.size == more.size else 1)
    if part.size < more.size:
        evidence = PopulationEvidence(more, fixed=fixed)
        place = evidence.at(top.place.point.theta, top.place.eta)
        top = _climb(evidence, place, top.log_det)
    if not is_sparse(triples):
        return _population(top)
    before = float(top.place.eta[0])
    top = _with_spread(evidence, top)
    return _population(top, abs(before - float(top.place.eta[0])))


def _population(top: Top, doubt: float = 0.0) -> Population:
    roots, axes = np.linalg.eigh(top.curve)
    covariance = (axes / np.maximum(roots, LEAST_CURVE)) @ axes.T
    covariance[0, 0] += min(doubt, MOST_DOUBT) ** 2
    eta, theta = top.place.eta, top.place.point.theta + top.alone
    return Population(priors_of(eta), eta, covariance, top.slope, theta, doubt)
