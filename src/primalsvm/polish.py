r"""A lower bound as good as the model: Newton's method on the smoothed problem, for the judge.

The dual point that margins suggest, alpha_i = -c_i l'(m_i), is hopeless for the hinge at large C: one wrong sign near
the margin moves alpha by a whole c_i. Replace the hinge by Huber(h). Its slopes are continuous, so at its optimum

    alpha_i = c_i clip((1 + h - m_i) / 2h, 0, 1)

is feasible for the hinge's dual as well, and  D(alpha) = P_h - sum_i c_i h a_i (1 - a_i),  a_i = alpha_i / c_i:
only the few points within h of the margin cost anything. h shrinks until the bound is tight. Squared hinge and Huber
are smooth already and are taken as they are.

A step solves the Newton equation, the intercept eliminated,

    (I + X' W X - v v' / (1' W 1 + 1 / s^2)) p = -g,      W = diag(c_i l''(m_i)),   v = X' W 1

with an explicit matrix where there are few features and by conjugate gradients otherwise (in a reproducing kernel
space the same equation in the space's own inner product), and goes to the exact minimum along p. Two passes over
the data a step, and one over the points near the margin for the matrix.

Chapelle (2007), sections 4.2 and 5; Huber's path h -> 0: section 5.3.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from .losses import Array, Huber
from .piecewise import minimize_along
from .problem import Problem

EXPLICIT = 1000  # features up to which forming and factorising the Hessian beats conjugate gradients
NEWTON_STEPS = 30  # a stage: Newton on a piecewise quadratic ends after a few, or h was cut too fast
SHRINK = 0.2  # h of the next stage over h of this one


@dataclass
class Point:
    """A primal point and the dual point it suggests."""

    f: Array
    b: float
    scores: Array
    alpha: Array


def polish(problem: Problem, f: Array, b: float) -> Iterator[Point]:
    """Points whose alpha gives better and better lower bounds; the caller judges them and stops."""
    if problem.loss.smooth:
        yield minimize_smooth(problem, f, b)[0]
        return
    h, converged = 0.5, True
    while converged and h > 1e-10:
        point, converged = minimize_smooth(replace(problem, loss=Huber(h)), f, b, path=True)
        f, b = point.f, point.b
        yield point
        h *= SHRINK


def minimize_smooth(problem: Problem, f: Array, b: float, *, path: bool = False) -> tuple[Point, bool]:
    """Newton's method with exact line search from (f, b); the point reached and whether its gap is small enough.

    Small enough is near the limit of float64, or, on the path h -> 0, a tenth of what the smoothing itself costs.
    """
    weight = _intercept_weight(problem)
    scores = problem.scores(f)
    converged = False
    for _ in range(NEWTON_STEPS):
        b = problem.best_intercept(scores)
        margins = problem.margins(scores, b)
        alpha = -problem.cost * problem.loss.slope(margins)
        f_alpha = problem.function(alpha)
        primal = problem.primal(f, b, scores)
        gap = primal - problem.dual(alpha, f_alpha)
        smoothing = float(np.sum(problem.loss.bend / 2 * alpha * (1.0 - problem.share(alpha)))) if path else 0.0
        converged = gap <= max(0.1 * smoothing, 1e-14 * primal)
        if converged:
            break
        weights = problem.cost * problem.loss.curvature(margins)
        p, p_scores, p_b = newton_direction(problem, f - f_alpha, weights)
        t = minimize_along(
            problem.loss,
            problem.cost,
            margins,
            problem.y * (p_scores + p_b),
            linear=problem.inner(f, p) + weight * b * p_b,
            quadratic=problem.inner(p, p) + weight * p_b * p_b,
        )
        f, scores = f + t * p, scores + t * p_scores
    return Point(f, b, scores, alpha), converged


def newton_direction(problem: Problem, gradient: Array, weights: Array) -> tuple[Array, Array, float]:
    """(p, its scores, p_b) solving the Newton equation where the derivative in b is zero."""
    near = np.flatnonzero(weights)
    stiffness = _intercept_weight(problem) + float(np.sum(weights))
    has_intercept = problem.intercept != "none" and stiffness > 0
    if problem.kind == "linear" and problem.size <= EXPLICIT:
        hessian = problem.X.gram(weights[near], near)
        hessian[np.diag_indices_from(hessian)] += 1.0
        if has_intercept:
            v = problem.adjoint(weights)
            hessian -= np.outer(v, v / stiffness)
        p = -_solve_positive(hessian, gradient)
    else:

        def apply(p):
            pull = weights * problem.scores(p)
            if has_intercept:
                pull -= weights * (float(np.sum(pull)) / stiffness)
            return p + problem.adjoint(pull)

        p = -conjugate_gradient(apply, gradient, problem.inner)
    p_scores = problem.scores(p)
    p_b = -float(weights @ p_scores) / stiffness if has_intercept else 0.0
    return p, p_scores, p_b


def conjugate_gradient(
    apply: Callable[[Array], Array], rhs: Array, inner: Callable[[Array, Array], float], *, tol: float = 1e-3, steps: int = 250
) -> Array:
    """Solve apply(x) = rhs, where apply is symmetric and positive in `inner`."""
    x = np.zeros_like(rhs)
    residual = rhs.copy()
    direction = rhs.copy()
    size = start = inner(residual, residual)
    for _ in range(steps):
        if size <= tol * tol * start:
            break
        image = apply(direction)
        step = size / inner(direction, image)
        x += step * direction
        residual -= step * image
        size, before = inner(residual, residual), size
        direction = residual + (size / before) * direction
    return x


def _solve_positive(matrix: Array, rhs: Array) -> Array:
    """By Cholesky; where rounding has made the matrix indefinite, by least squares."""
    try:
        return cho_solve(cho_factor(matrix, check_finite=False), rhs, check_finite=False)
    except LinAlgError:
        return np.linalg.lstsq(matrix, rhs, rcond=None)[0]


def _intercept_weight(problem: Problem) -> float:
    return problem.intercept_scaling**-2 if problem.intercept == "penalized" else 0.0
