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
from .problem import LinearProblem, Problem

EXPLICIT = 1000  # features up to which forming and factorising the Hessian beats conjugate gradients
STAGE_STEPS = 50  # Newton on a piecewise quadratic ends after a few steps, or h was cut too fast
SHRINK = 0.2  # h of the next stage over h of this one
FIRST_H, LAST_H = 0.5, 1e-8  # below, rounding errors over h cost more than h itself
FINISH_POINTS, FINISH_ROUNDS = 500, 10


@dataclass
class NewtonPath:
    """Where the path h -> 0 stands. h = 0 for losses that need no smoothing."""

    f: Array
    b: float
    scores: Array  # (n,) of f
    alpha: Array  # (n,) suggested by the margins; feasible up to sum alpha_i y_i = 0
    f_alpha: Array
    h: float
    value: float = np.inf  # P of the smoothed problem at (f, b)
    steps: int = 0  # in this stage
    stage_done: bool = False
    ended: bool = False  # nothing left to gain, or no progress at this h
    passes: float = 0.0


def begin_path(problem: Problem, f: Array) -> NewtonPath:
    """At f, with the first h."""
    h = 0.0 if problem.loss.smooth else FIRST_H
    f, nothing = np.array(f, dtype=np.float64), np.zeros(problem.n)
    path = NewtonPath(f=f, b=0.0, scores=problem.scores(f), alpha=nothing, f_alpha=np.zeros(problem.size), h=h)
    _look(_smoothed(problem, path.h), path)
    return path


def advance(problem: Problem, path: NewtonPath) -> None:
    """One Newton step with exact line search, after shrinking h where the last step finished a stage."""
    if path.ended:
        return
    if path.stage_done and path.h:
        path.h *= SHRINK
        path.steps = 0
        _look(_smoothed(problem, path.h), path)
    smooth = _smoothed(problem, path.h)
    weight = _intercept_weight(problem)
    if not path.stage_done:
        margins = smooth.margins(path.scores, path.b)
        p, p_scores, p_b = newton_direction(smooth, path.f - path.f_alpha, smooth.cost * smooth.loss.curvature(margins))
        quadratic = smooth.inner(p, p) + weight * p_b * p_b
        t = 0.0
        if quadratic > 0:  # else rounding rules: a direction of no length
            linear = smooth.inner(path.f, p) + weight * path.b * p_b
            change = smooth.y * (p_scores + p_b)
            t = minimize_along(smooth.loss, smooth.cost, margins, change, linear=linear, quadratic=quadratic)
        before = (path.f, path.scores)
        value = path.value
        path.f, path.scores = path.f + t * p, path.scores + t * p_scores
        path.steps += 1
        path.passes += 3.0
        _look(smooth, path)
        if not 0.0 <= path.value < value:  # the step was noise
            path.f, path.scores = before
            _look(smooth, path)
            path.steps = STAGE_STEPS
    if path.stage_done and path.h:
        finish(problem, path)
    stuck = path.steps >= STAGE_STEPS and not path.stage_done
    path.ended |= stuck or (path.stage_done and path.h * SHRINK < LAST_H)


def polish(problem: Problem, f: Array) -> Iterator[NewtonPath]:
    """The path after each stage, with better and better lower bounds: one object, changed in place.

    The caller judges it and stops.
    """
    path = begin_path(problem, f)
    while not path.ended:
        advance(problem, path)
        if path.stage_done or path.ended:
            yield path


def finish(problem: Problem, path: NewtonPath) -> None:
    r"""Try to jump to the path's end: the hinge's own optimum, if the points near the margin are the right ones.

    Away from the margin alpha_i is 0 or c_i. On it, m_i = 1, which with f = f_alpha is a linear system in the alpha_i
    of the near points (and b, with sum alpha_i y_i = 0). Those that leave the box are fixed at its bound and the rest
    is solved again. The point is taken only if its own gap is the smaller one.
    """
    upper, y = problem.upper, problem.y
    near = np.flatnonzero((path.alpha > 0) & (path.alpha < upper))
    if not 0 < len(near) <= FINISH_POINTS:
        return
    alpha = path.alpha.copy()
    signed = y[near, None] * problem.gram(near) * y[near]
    if problem.intercept == "penalized":
        signed += problem.intercept_scaling**2 * np.outer(y[near], y[near])
    alpha[near] = 0.0
    inside = np.ones(len(near), dtype=bool)
    for _ in range(FINISH_ROUNDS):
        # what the fixed ones leave for those inside to reach
        f = problem.function(alpha)
        target = 1.0 - problem.margins(problem.scores(f), problem.intercept_of(alpha))[near[inside]]
        system, balance = signed[np.ix_(inside, inside)], y[near[inside]]
        if problem.intercept == "free":
            system = np.block([[system, balance[:, None]], [balance[None, :], np.zeros((1, 1))]])
            target = np.append(target, -float(np.sum(alpha * y)))
        found = np.linalg.lstsq(system, target, rcond=1e-12)[0][: int(inside.sum())]
        top = upper[near[inside]]
        out = (found < 0) | (found > top)
        if not out.any():
            break
        places = np.flatnonzero(inside)[out]
        alpha[near[places]] = np.where(found[out] < 0, 0.0, top[out])
        inside[places] = False
        if not inside.any():
            return
    else:
        return
    alpha[near[inside]] = np.clip(found, 0.0, top)
    alpha = problem.repair(alpha)
    f = problem.function(alpha)
    scores = problem.scores(f)
    b = problem.best_intercept(scores)
    primal = problem.primal(f, b, scores)
    gap = primal - problem.dual(alpha, f)
    if gap < problem.primal(path.f, path.b, path.scores) - problem.dual(problem.repair(path.alpha)):
        path.f, path.scores, path.b, path.alpha = f, scores, b, alpha
        path.ended = gap <= 1e-12 * primal


def _smoothed(problem: Problem, h: float) -> Problem:
    return replace(problem, loss=Huber(h)) if h else problem


def _look(smooth: Problem, path: NewtonPath) -> None:
    """Set b, alpha, f_alpha, value and stage_done at the path's f.

    A stage is done when the gap of the smoothed problem is a tenth of what the smoothing itself costs in the bound, or
    near the limit of float64.
    """
    path.b = smooth.best_intercept(path.scores)
    path.alpha = -smooth.cost * smooth.loss.slope(smooth.margins(path.scores, path.b))
    path.f_alpha = smooth.function(path.alpha)
    path.value = smooth.primal(path.f, path.b, path.scores)
    gap = path.value - smooth.dual(path.alpha, path.f_alpha)
    smoothing = path.h * float(np.sum(path.alpha * (1.0 - smooth.share(path.alpha)))) if path.h else 0.0
    path.stage_done = gap <= max(0.1 * smoothing, 1e-14 * path.value)


def newton_direction(problem: Problem, gradient: Array, weights: Array) -> tuple[Array, Array, float]:
    """(p, its scores, p_b) solving the Newton equation where the derivative in b is zero."""
    near = np.flatnonzero(weights)
    stiffness = _intercept_weight(problem) + float(np.sum(weights))
    has_intercept = problem.intercept != "none" and stiffness > 0
    if isinstance(problem, LinearProblem) and problem.size <= EXPLICIT:
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
    apply: Callable[[Array], Array],
    rhs: Array,
    inner: Callable[[Array, Array], float],
    *,
    tol: float = 1e-3,
    steps: int = 250,
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
        curve = inner(direction, image)
        if not curve > 0.0:  # only a matrix that rounding has made singular or indefinite
            break
        step = size / curve
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
        return np.asarray(np.linalg.lstsq(matrix, rhs, rcond=None)[0], dtype=np.float64)


def _intercept_weight(problem: Problem) -> float:
    return problem.intercept_scaling**-2 if problem.intercept == "penalized" else 0.0
