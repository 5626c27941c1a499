r"""Gradient descent on the primal, for smooth losses.

    f <- f - eta g,      g = f + sum_i c_i l'(m_i) y_i phi(x_i)

with a given step size eta, or the eta that minimises P along -g, found exactly: P is piecewise quadratic there.
A free or penalised intercept is set to its best value before each step. One step is two passes over the data.

Seed 001, section 4.1.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..losses import Array
from ..piecewise import minimize_along
from ..problem import Problem
from ..solve import Solver, Start


@dataclass
class State:
    f: Array
    b: float
    scores: Array  # (n,) of f
    alpha: Array | None = None
    passes: float = 0.0


@dataclass(frozen=True)
class GradientDescent(Solver):
    """One gradient step, with a given step size or an exact line search."""

    name: ClassVar[str] = "gradient_descent"
    needs: ClassVar[frozenset[str]] = frozenset({"smooth"})
    step_size: float | None = None

    def init(self, problem: Problem, start: Start | None = None) -> State:
        f = np.zeros(problem.size) if start is None else np.array(start.f, dtype=np.float64)
        scores = problem.scores(f)
        return State(f=f, b=problem.best_intercept(scores), scores=scores)

    def step(self, problem: Problem, state: State) -> None:
        margins = problem.margins(state.scores, state.b)
        direction = problem.function(problem.slope_alpha(margins)) - state.f
        change = problem.scores(direction)
        eta = self.step_size
        if eta is None:
            eta = minimize_along(
                problem.loss,
                problem.cost,
                margins,
                problem.y * change,
                linear=problem.inner(state.f, direction),
                quadratic=problem.inner(direction, direction),
            )
        state.f = state.f + eta * direction
        state.scores = state.scores + eta * change
        state.b = problem.best_intercept(state.scores)
        state.passes += 2.0
