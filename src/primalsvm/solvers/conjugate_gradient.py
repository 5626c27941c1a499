r"""Conjugate gradients on the primal of a kernel problem, preconditioned by K.

With b always the best intercept for f, P is a smooth convex function of f alone. Its gradient as a function is

    g = f - f_alpha,    alpha_i = -c_i l'(m_i),    with coefficients  beta - y alpha

which is the gradient in beta "divided by K": preconditioning by K, or the method in the space of f itself, where
<g, h> = g' K h. The step, with theta by Fletcher and Reeves or by Polak and Ribiere,

    d <- -g + theta d,      f <- f + t d,      t the minimum along d, b following

    theta = <g, g> / <g_before, g_before>      or      max(0, <g, g - g_before> / <g_before, g_before>)

One step is one product of K with alpha, n |support| entries, whose rows are kept while they fit: the scores of f and d
are sums of such. alpha is feasible, sum alpha_i y_i = 0
because b is the best one, and P - D(alpha) = 1/2 <g, g>: the gap comes for nothing.

Chapelle (2007), section 6.1, Algorithm 2, with its scales and signs mended: its gradient is lambda times ours, and its
first direction is +y (here 2 c y).
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..kernel_system import KernelRows
from ..losses import EPS, Array
from ..problem import KernelProblem
from ..solve import Solver, Start

UPDATES = ("fletcher_reeves", "polak_ribiere")
SEARCH_STEPS, SEARCH_TOL = 50, 1e-10
POWELL = 0.2  # of <g, g>: where <g, g_before> is larger, the directions are no longer conjugate (Powell 1977)
NOISE = 64 * EPS  # of P, its lowest change that means something
IDLE = 20  # steps in a row without one


@dataclass
class State:
    f: Array  # (n,) beta
    b: float
    alpha: Array  # (n,) feasible
    scores: Array  # (n,) K beta
    gradient: tuple[Array, Array]  # coefficients, scores
    direction: tuple[Array, Array]
    square: float  # <g, g>
    primal: float
    rows: KernelRows
    idle: int = 0

    @property
    def passes(self) -> float:
        return self.rows.entries / max(len(self.f) ** 2, 1)

    @property
    def belief(self) -> float:
        """The relative gap."""
        return 0.5 * self.square / self.primal if self.primal > 0 else 0.0

    @property
    def ended(self) -> bool:
        return self.idle >= IDLE or not self.square > 0


@dataclass(frozen=True)
class ConjugateGradient(Solver):
    """One step along a conjugate direction, one product with K."""

    name: ClassVar[str] = "conjugate_gradient"
    needs: ClassVar[frozenset[str]] = frozenset({"kernel", "smooth"})
    update: str = "polak_ribiere"

    def __post_init__(self):
        if self.update not in UPDATES:
            raise ValueError(f"update must be one of {', '.join(UPDATES)}, got {self.update!r}.")

    def init(self, problem: KernelProblem, start: Start | None = None) -> State:
        f = np.zeros(problem.n) if start is None else np.array(start.f, dtype=np.float64)
        rows, nothing, moving = KernelRows(problem.K), np.zeros(problem.n), np.flatnonzero(f)
        scores = rows.product(f[moving], moving)
        state = State(f, 0.0, nothing, scores, (f, f), (nothing, nothing), 0.0, np.inf, rows)
        _look(problem, state)
        state.direction = -state.gradient[0], -state.gradient[1]
        return state

    def step(self, problem: KernelProblem, state: State) -> None:
        (g, g_scores), (d, d_scores) = state.gradient, state.direction
        if not float(g @ d_scores) < 0.0:  # not downhill: begin anew
            d, d_scores = -g, -g_scores
        t = _search(problem, state, d, d_scores)
        square, primal = state.square, state.primal
        state.f, state.scores = state.f + t * d, state.scores + t * d_scores
        _look(problem, state)
        across = float(g @ state.gradient[1])
        if self.update == "fletcher_reeves":
            across = state.square if abs(across) > POWELL * state.square else 0.0
        theta = max(0.0, (state.square - across) / square) if square > 0 else 0.0
        state.direction = theta * d - state.gradient[0], theta * d_scores - state.gradient[1]
        state.idle = 0 if state.primal < primal * (1 - NOISE) else state.idle + 1


def _look(problem: KernelProblem, state: State) -> None:
    """Set everything that follows from f and its scores."""
    state.b = problem.best_intercept(state.scores)
    margins = problem.margins(state.scores, state.b)
    state.alpha = problem.repair(problem.slope_alpha(margins))
    slopes, support = problem.y * state.alpha, np.flatnonzero(state.alpha)
    state.gradient = state.f - slopes, state.scores - state.rows.product(slopes[support], support)
    state.square = max(float(state.gradient[0] @ state.gradient[1]), 0.0)
    losses = float(problem.cost @ problem.loss.value(margins))
    state.primal = 0.5 * float(state.f @ state.scores) + problem.penalty(state.b) + losses


def _search(problem: KernelProblem, state: State, d: Array, d_scores: Array) -> float:
    """argmin over t of P(f + t d, its best b): Newton's method on the derivative, which is piecewise linear."""
    linear, quadratic = float(state.f @ d_scores), float(d @ d_scores)
    weight = problem.intercept_scaling**-2 if problem.intercept == "penalized" else 0.0

    def slope(t: float) -> tuple[float, float]:
        scores = state.scores + t * d_scores
        margins = problem.margins(scores, problem.best_intercept(scores))
        curve = problem.cost * problem.loss.curvature(margins)
        first = linear + t * quadratic + float((problem.cost * problem.loss.slope(margins) * problem.y) @ d_scores)
        second = quadratic + float(curve @ (d_scores * d_scores))
        stiffness = float(np.sum(curve)) + weight
        if problem.intercept != "none" and stiffness > 0:  # b moves along
            second -= float(curve @ d_scores) ** 2 / stiffness
        return first, second

    first, second = begin, _ = slope(0.0)
    low, high, t = 0.0, np.inf, 0.0
    for _ in range(SEARCH_STEPS):
        if not abs(first) > SEARCH_TOL * abs(begin):
            break
        low, high = (t, high) if first < 0.0 else (low, t)
        t = t - first / second if second > 0.0 else np.inf
        if not low < t < high:
            t = 0.5 * (low + high) if np.isfinite(high) else max(2.0 * low, 1e-3)
        first, second = slope(t)
    return t
