r"""Projected gradient ascent on the dual.

    alpha <- z + t (Proj(z + eta g) - z),      g_i = tilt - bend z_i / c_i - m_i(f_z)

Proj goes into the box and, with a free intercept, onto sum_i alpha_i y_i = 0. The step:

    step_rule="spectral"      t = 1, eta_i = 1 / (|X|_2^2 + bend / c_i): the largest constant step that always ascends
    step_rule="line_search"   eta from the last step (Barzilai and Borwein), t the exact maximum of D on [0, 1]

and z is alpha itself or, with momentum, alpha + (theta - 1) / theta+ (alpha - alpha_before), which needs the square
root of the number of steps; the momentum starts afresh whenever it points downhill.
With a penalised intercept X has one more column, of value s. One step is two passes over the data; the spectral norm
costs twenty more at the start.

Seed 004, Algorithm 2, with its 1/c corrected; the momentum: Beck and Teboulle (2009), O'Donoghue and Candes (2015);
the line search: Birgin, Martinez, Raydan (2000), with the maximum along the segment in closed form.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..losses import Array
from ..problem import Problem
from ..solve import Solver, Start


@dataclass
class State:
    f: Array  # always f_alpha
    b: float
    alpha: Array
    scores: Array  # (n,) of f
    eta: Array  # (n,) step of each alpha_i
    before: tuple[Array, Array, Array]  # alpha, f and scores one step earlier
    theta: float = 1.0
    passes: float = 0.0


@dataclass(frozen=True)
class ProjectedGradient(Solver):
    """One projected gradient step on all of alpha."""

    name: ClassVar[str] = "projected_gradient"
    step_rule: str = "spectral"
    momentum: bool = True

    def __post_init__(self):
        if self.step_rule not in ("line_search", "spectral"):
            raise ValueError(f"step_rule must be line_search or spectral, got {self.step_rule!r}.")

    def init(self, problem: Problem, start: Start | None = None) -> State:
        alpha = np.zeros(problem.n) if start is None or start.alpha is None else start.alpha
        alpha = problem.project(alpha)
        f = problem.function(alpha)
        scores = problem.scores(f)
        stiffness = np.divide(problem.loss.bend, problem.cost, out=np.zeros(problem.n), where=problem.cost > 0)
        eta = 1.0 / (_largest_eigenvalue(problem) + stiffness)
        return State(f, _intercept(problem, alpha, scores), alpha, scores, eta, (alpha, f, scores), passes=20.0)

    def step(self, problem: Problem, state: State) -> None:
        now = (state.alpha, state.f, state.scores)
        theta = 0.5 + np.sqrt(0.25 + state.theta**2)
        push = (state.theta - 1.0) / theta if self.momentum and self.step_rule == "spectral" else 0.0
        z, f, scores = (x + push * (x - old) for x, old in zip(now, state.before, strict=True))
        gradient = problem.dual_gradient(z, problem.margins(scores, problem.intercept_of(z)))
        direction = problem.project(z + state.eta * gradient, metric=1.0 / state.eta) - z
        df = problem.function(direction)
        change = problem.scores(df)
        t = 1.0 if self.step_rule == "spectral" else self._search(problem, state, gradient, direction, change)
        state.before = now
        state.alpha, state.f, state.scores = z + t * direction, f + t * df, scores + t * change
        state.theta = 1.0 if gradient @ (state.alpha - now[0]) < 0 else theta
        state.b = _intercept(problem, state.alpha, state.scores)
        state.passes += 2.0

    @staticmethod
    def _search(problem: Problem, state: State, gradient: Array, direction: Array, change: Array) -> float:
        """The best t in [0, 1]; also the next eta, from the curvature of D along the way."""
        curve = (
            float((direction * problem.y) @ change)
            + 2.0 * problem.penalty(problem.intercept_of(direction))
            + problem.loss.bend * float(direction @ problem.share(direction))
        )
        if curve <= 0.0:
            return 1.0
        state.eta = state.eta * np.clip(float(direction @ (direction / state.eta)) / curve, 1e-6, 1e6)
        return min(1.0, float(gradient @ direction) / curve)


def _intercept(problem: Problem, alpha: Array, scores: Array) -> float:
    """What alpha says, or for a free intercept the best for the scores."""
    return problem.best_intercept(scores) if problem.intercept == "free" else problem.intercept_of(alpha)


def _largest_eigenvalue(problem: Problem) -> float:
    """Of the matrix y_i y_j (<phi_i, phi_j> + s^2), by the power method, with a margin for what that misses."""
    v = np.random.default_rng(0).standard_normal(problem.n)
    size = 0.0
    for _ in range(20):
        v /= max(float(np.linalg.norm(v)), 1e-300)
        image = problem.scores(problem.adjoint(v))
        if problem.intercept == "penalized":
            image += problem.intercept_scaling**2 * np.sum(v)
        size, v = float(np.linalg.norm(image)), image
    return 1.1 * size or 1.0
