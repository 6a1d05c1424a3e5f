"""Two roads to the same optimum: the paper's EM, and Newton's method guarded by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from bbq_plugin.data.triples import Floats
from bbq_plugin.errors import ConvergenceError
from bbq_plugin.model.objectives import Height, Marginal, Objective, Parts

if TYPE_CHECKING:
    from bbq_plugin.model.camps import Axis, Division
    from bbq_plugin.model.prior_estimation import Population
    from bbq_plugin.model.priors import AnyPriors

CG_RELATIVE = 1e-4
CG_STEPS = 500


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """``change`` of theta to the top of the quadratic model, or, where the model is no hill, None.

    ``uphill``, if asked for, is then a way up that follows the upward curvature. ``again`` solves
    with the same matrix for another gradient.
    """

    change: Floats | None
    uphill: Floats | None = None
    again: Callable[[Floats], Floats] | None = None


def dense_is_cheap(objective: Objective) -> bool:
    """Whether forming K x K costs no more than some passes over the data."""
    t = objective.passes.triples
    k = t.n_items
    # Over parts the matrix comes with the value.
    return (
        isinstance(t, Parts)
        or k <= 64
        or (k <= 2048 and k**3 + t.n_raters * k**2 <= 800 * t.size + 2e7)
    )


def with_level(matrix: Floats, *, flat: bool) -> Floats:
    """Without a prior only differences count: pin the mean, which no difference sees."""
    if not flat:
        return matrix
    k = matrix.shape[0]
    return np.asarray(matrix + max(float(np.trace(matrix)), 1.0) / k**2)


def newton_step(objective: Objective, point: Height, *, need_uphill: bool = False) -> Step:
    """Solve (minus the Hessian) step = gradient, and say so when it is not positive definite."""
    flat = not point.prior_curve.any()
    if point.curve.ndim == 1 and not dense_is_cheap(objective):
        return conjugate_gradients(objective, point, flat=flat)
    matrix = with_level(objective.passes.curvature(point), flat=flat)
    again = hill_solver(matrix)
    if again is not None:
        return Step(again(point.gradient), again=again)
    return Step(None, _uphill(matrix, point.gradient) if need_uphill else None)


def hill_solver(matrix: Floats) -> Callable[[Floats], Floats] | None:
    """How to solve (minus the Hessian) x = gradient, or None where it is not positive definite."""
    diagonal = np.diag(matrix)
    if not np.all(diagonal > 0):
        return None
    # Weights may differ by a factor of 1e12: with a unit diagonal that does not look singular.
    scale = 1.0 / np.sqrt(diagonal)
    # Transposed, a symmetric matrix is the same, and LAPACK need not copy it.
    factor, failed = dpotrf((matrix * scale[:, None] * scale).T, overwrite_a=True)
    if failed:
        return None

    def solve(gradient: Floats) -> Floats:
        found, _ = dpotrs(factor, (scale * gradient.T).T)
        return np.asarray((scale * found.T).T)

    return solve


def _uphill(matrix: Floats, gradient: Floats) -> Floats:
    """Newton's step with every curvature taken as downward, plus one nat along the most upward.

    The sign of the latter follows the gradient and, where that says nothing (raters who contradict
    each other exactly), a convention: the same data give the same fit.
    """
    roots, axes = np.linalg.eigh(matrix)
    floor = 1e-8 * max(float(np.max(np.abs(roots))), 1e-300)
    step = axes @ ((axes.T @ gradient) / np.maximum(np.abs(roots), floor))
    most = axes[:, 0]
    slope = float(most @ gradient)
    if abs(slope) <= 1e-9 * float(np.max(np.abs(gradient), initial=0.0)) or slope == 0.0:
        slope = float(most[np.argmax(np.abs(most) > 1e-9)])
    uphill: Floats = step + np.sign(slope) * most / float(np.max(np.abs(most)))
    return uphill


def conjugate_gradients(
    objective: Objective, point: Height, *, flat: bool, relative: float = CG_RELATIVE
) -> Step:
    """The step by preconditioned conjugate gradients, which notice upward curvature."""
    passes = objective.passes
    diagonal = passes.pair_diagonal(point) + point.prior_curve
    diagonal = np.where(diagonal > 0, diagonal, 1.0)
    x, residual = np.zeros(point.theta.size), point.gradient.copy()
    if flat:
        residual -= residual.mean()
    z = residual / diagonal
    direction, rz = z.copy(), float(residual @ z)
    goal = relative**2 * rz
    for _ in range(CG_STEPS):
        if rz <= goal:
            break
        product = passes.curvature_times(point, direction)
        bend = float(direction @ product)
        if bend <= 0:
            # Every search direction of the method points up the gradient.
            return Step(None, x + direction / max(float(np.max(np.abs(direction))), 1e-300))
        length = rz / bend
        x += length * direction
        residual -= length * product
        z = residual / diagonal
        rz, before = float(residual @ z), rz
        direction = z + (rz / before) * direction
    return Step(x - x.mean() if flat else x)


LONGEST_STEP = 3.0  # nats; farther than that no quadratic model of a posterior is worth its name
HALVINGS = 8
ROUNDINGS = 1000.0  # a gain that may drown in the rounding of all terms together
CLOSE = 1e-4  # nats: near enough for Newton's step to square the distance
THERE = 0.01  # of the tolerance: a step that is not worth a pass
CREEP = 0.1  # nats: an EM step below it may be one of very many
NEWTON_STEPS = 500
EM_STEPS = 200_000


@dataclass(slots=True, eq=False)
class Solution:
    """Where a solver stopped: at a maximum, with the gradient's word for it."""

    point: Height
    trace: list[float]
    error: float  # nats that Newton's step would still move theta

    @property
    def theta(self) -> Floats:
        """Skills, in nats."""
        return self.point.theta

    @property
    def quality(self) -> Floats:
        """Of each rater."""
        return self.point.quality

    @property
    def value(self) -> float:
        """The objective there."""
        return self.point.value


LAPLACE_TOLERANCE = 1e-4  # nats, of which the last step leaves the square


@dataclass(frozen=True, slots=True, eq=False)
class Optimum:
    """What a model found: theta and each rater's quality at its maximum, and the priors used."""

    theta: Floats
    quality: Floats
    priors: AnyPriors
    trace: list[float]
    error: float
    population: Population | None = None
    warnings: tuple[str, ...] = ()
    #: What the screen saw, if it looked, and the division into camps, if there are several.
    axis: Axis | None = None
    division: Division | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Laplace:
    """The Gaussian that the posterior of theta looks like near its top, q integrated out."""

    mean: Floats
    covariance: Floats
    #: What was asked at the mean, if it is not to be asked there again.
    density: Marginal | None = None


@dataclass(frozen=True, eq=False)
class ThetaMode:
    """The top of the density of theta with quality integrated out, and what is known there.

    The density was last asked at the top: its ``pushes`` and ``summary`` are those there.
    """

    density: Marginal
    point: Height

    @cached_property
    def covariance(self) -> Floats:
        """Of theta, the priors taken as known."""
        return inverse(self.density.passes.curvature(self.point))


def inverse(matrix: Floats) -> Floats:
    """The inverse of a symmetric matrix, symmetric to the last digit."""
    factor, failed = dpotrf(matrix.T)
    if failed:
        found = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
        return 0.5 * (found + found.T)
    upper = np.triu(dpotri(factor, overwrite_c=True)[0])
    return np.ascontiguousarray(upper + np.triu(upper, 1).T)


def log_det(matrix: Floats) -> float:
    """The logarithm of the determinant of a symmetric matrix, but for its sign."""
    factor, failed = dpotrf(matrix.T)
    if failed:
        return float(np.linalg.slogdet(matrix)[1])
    return 2.0 * float(np.sum(np.log(np.diag(factor))))


def _size(vector: Floats) -> float:
    return float(np.max(np.abs(vector), initial=0.0))


def solve_newton(
    objective: Objective, theta: Floats, quality: Floats, tol: float, most: int = NEWTON_STEPS
) -> Solution:
    """Newton on theta with q maximised out; the EM step wherever Newton's would not rise.

    Steps too small for the log-posterior to show, being less than its rounding, are taken on the
    gradient's word and leave no mark in the trace.
    """
    point = _start(objective, theta, quality)
    trace = [point.value]
    smallest = left = np.inf
    for _ in range(most):
        step = newton_step(objective, point)
        if step.change is None:
            point = _em_or_escape(objective, point)
            trace.append(point.value)
            continue
        left = size = _size(step.change)
        if size <= THERE * tol:
            return Solution(point, trace, size)
        if size <= max(tol, CLOSE):
            last, error = _last_step(objective, point, step)
            if error <= tol:
                if last.value > trace[-1]:
                    trace.append(last.value)
                last.value = trace[-1]
                return Solution(last, trace, error)
            if last.value > point.value:
                point = last
                trace.append(point.value)
                continue
        gain = 0.5 * float(step.change @ point.gradient)
        rounding = objective.rounding(point.value)
        better = None
        if gain > rounding:
            better = _climb(objective, point, step.change * min(1.0, LONGEST_STEP / size))
        if better is None and gain <= ROUNDINGS * rounding:
            if size > 0.5 * smallest:
                break
            smallest = size
            point = objective.at(point.theta + step.change, point.quality)
            point.value = max(point.value, trace[-1])
            continue
        point = better or _em_or_escape(objective, point)
        trace.append(point.value)
    if left <= tol:
        # No step shows in the value any more, and the gradient asks for none.
        return Solution(point, trace, left)
    raise ConvergenceError(
        f"the fit did not converge: after {len(trace)} steps the gradient still asks for "
        f"{left:.2g} nats, more than tol={tol:g}; an item that never wins or never loses needs "
        "a prior (a > 1), very unequal weights a larger tol"
    )


def _start(objective: Objective, theta: Floats, quality: Floats) -> Height:
    """Where a climb begins: at this theta or, where it has no finite height, with all items equal.

    Items 40 nats apart have answers of probability 0 in double precision.
    """
    point = objective.at(theta, quality)
    if not np.isfinite(point.value):
        point = objective.at(np.full(theta.size, theta.mean()), quality)
    if not np.isfinite(point.value):
        raise ConvergenceError(
            f"the log-posterior of these data is {point.value}, which cannot be maximised; "
            "give other priors (priors='paper', on the command line --priors paper)"
        )
    return point


def _last_step(objective: Objective, point: Height, step: Step) -> tuple[Height, float]:
    """Take a small step; what the gradient there asks for is far less, and the old matrix tells."""
    change = step.change if step.change is not None else np.zeros(point.theta.size)
    last = objective.at(point.theta + change, point.quality)
    fell = last.value < point.value - ROUNDINGS * objective.rounding(point.value)
    left = change if step.again is None else step.again(last.gradient)
    return last, np.inf if fell else _size(left)


def _climb(
    objective: Objective, point: Height, change: Floats, halvings: int = HALVINGS
) -> Height | None:
    """The step, or a shorter one, if it raises the objective."""
    for halving in range(halvings):
        trial = objective.at(point.theta + change * 0.5**halving, point.quality)
        if trial.value > point.value:
            return trial
    return None


def _em_or_escape(objective: Objective, point: Height) -> Height:
    """An EM step, which cannot fall; where it only creeps, or rests at a saddle, the way uphill."""
    theta, quality = objective.em_step(point.theta, point.quality)
    stepped = objective.at(theta, quality)
    if _size(theta - point.theta) > CREEP and stepped.value > point.value:
        return stepped
    escaped = _escape(objective, point)
    best = stepped if escaped is None or stepped.value > escaped.value else escaped
    if best.value > point.value:
        return best
    raise ConvergenceError(
        "the fit is stuck: no step of EM or along the curvature increases the log-posterior; "
        "the data may be too large for double precision: scale the weights down"
    )


def _escape(objective: Objective, point: Height) -> Height | None:
    uphill = newton_step(objective, point, need_uphill=True).uphill
    if uphill is None:
        return None
    uphill = uphill * min(1.0, LONGEST_STEP / max(_size(uphill), 1e-300))
    return _climb(objective, point, uphill, 4 * HALVINGS) or _climb(
        objective, point, -uphill, 4 * HALVINGS
    )


class Stepping(Objective, Protocol):
    """An objective that can say, in one pass, where it is and where EM leads."""

    def em_pass(self, theta: Floats, quality: Floats) -> tuple[float, Floats, Floats]:
        """The value at (theta, q), and the next of both."""


def solve_em(
    objective: Stepping, theta: Floats, quality: Floats, tol: float, most: int = EM_STEPS
) -> Solution:
    """The paper's closed-form steps, rescaled, until Newton's step says that nothing is left.

    The size of an EM step says little of the distance to go (the steps shrink long before the
    distance does), so a small step only prompts the check by the gradient.
    """
    trace: list[float] = []
    prompt = tol
    for _ in range(most):
        value, new_theta, new_quality = objective.em_pass(theta, quality)
        if not trace or value > trace[-1] or value < trace[-1] - objective.rounding(value):
            trace.append(value)
        moved = max(_size(new_theta - theta), _size(new_quality - quality))
        theta, quality = new_theta, new_quality
        if moved > prompt:
            continue
        point = objective.at(theta, quality)
        step = newton_step(objective, point)
        if step.change is None:
            if (escaped := _escape(objective, point)) is not None:
                theta, quality = escaped.theta, escaped.quality
            continue
        error = max(_size(step.change), _size(point.quality - quality))
        if error <= 0.1 * tol:
            value = objective.em_pass(theta, quality)[0]
            trace.append(max(value, trace[-1]))
            return Solution(replace(point, quality=quality, value=trace[-1]), trace, error)
        prompt = max(prompt * 0.25, 1e-15)
    raise ConvergenceError(
        f"EM did not converge in {most} steps: the last moved {moved:.2g}, tol is {tol:g}; "
        "use solver='auto', which needs a few dozen steps where EM needs many thousands"
    )
