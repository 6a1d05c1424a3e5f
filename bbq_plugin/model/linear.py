"""Newton's step: dense while K x K is cheap, by conjugate gradients beyond."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bbq_plugin.model.objective import Floats, Objective, Point

__all__ = ["Step", "dense_is_cheap", "hill_solver", "newton_step", "with_level"]

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
    return k <= 64 or (k <= 2048 and k**3 + t.n_raters * k**2 <= 800 * t.size + 2e7)


def with_level(matrix: Floats, *, flat: bool) -> Floats:
    """Without a prior only differences count: pin the mean, which no difference sees."""
    if not flat:
        return matrix
    k = matrix.shape[0]
    return np.asarray(matrix + max(float(np.trace(matrix)), 1.0) / k**2)


def newton_step(objective: Objective, point: Point, *, need_uphill: bool = False) -> Step:
    """Solve (minus the Hessian) step = gradient, and say so when it is not positive definite."""
    flat = not point.prior_curve.any()
    if not dense_is_cheap(objective):
        return _conjugate_gradients(objective, point, flat=flat)
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
    scaled = matrix * scale[:, None] * scale
    if not _is_hill(scaled):
        return None

    def solve(gradient: Floats) -> Floats:
        return np.asarray(scale * np.linalg.solve(scaled, scale * gradient))

    return solve


def _is_hill(matrix: Floats) -> bool:
    """Whether minus the Hessian is positive definite."""
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


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


def _conjugate_gradients(objective: Objective, point: Point, *, flat: bool) -> Step:
    """Preconditioned conjugate gradients that notice a direction of upward curvature."""
    passes = objective.passes
    diagonal = passes.pair_diagonal(point) + point.prior_curve
    diagonal = np.where(diagonal > 0, diagonal, 1.0)
    x, residual = np.zeros(point.theta.size), point.gradient.copy()
    if flat:
        residual -= residual.mean()
    z = residual / diagonal
    direction, rz = z.copy(), float(residual @ z)
    goal = CG_RELATIVE**2 * rz
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
