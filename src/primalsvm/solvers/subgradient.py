r"""Subgradient descent on the primal.

    f <- f - eta g,      g = f + sum_i c_i l'(m_i) y_i phi(x_i)

with a given step size, or Polyak's  eta = (P(f) - target) / |g|^2  towards a target below the best value so far,
P_best - delta. When twenty steps bring nothing near the target it was too ambitious: delta is halved and the search
goes on from the best point; when one does, delta is doubled. (The textbook's eta = 1 / t is of no use here: the
subgradient is of the size of n C, and as many steps are needed to forget the first ones.)
A free or penalised intercept is set to its best value before each step, so that g is a subgradient of min_b P(., b).
One step is two passes over the data. The model is the best point seen.

Seed 004, Algorithm 1, with its subgradient corrected; the target: Bertsekas, Convex Optimization Algorithms (2015),
section 3.2.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..losses import Array
from ..problem import Problem
from ..solve import Solver, Start

PATIENCE = 20  # steps


@dataclass
class State:
    f: Array  # the best point seen
    b: float
    iterate: Array
    best: float  # P(f, b)
    delta: float  # the target is best - delta
    waited: int = 0
    alpha: None = None
    passes: float = 0.0


@dataclass(frozen=True)
class Subgradient(Solver):
    """One full subgradient step, of Polyak's size or of a given one."""

    name: ClassVar[str] = "subgradient"
    needs: ClassVar[frozenset[str]] = frozenset({"lipschitz"})
    step_size: float | None = None

    def init(self, problem: Problem, start: Start | None = None) -> State:
        f = np.zeros(problem.size) if start is None else np.array(start.f, dtype=np.float64)
        scores = problem.scores(f)
        b = problem.best_intercept(scores)
        best = problem.primal(f, b, scores)
        return State(f=f, b=b, iterate=f, best=best, delta=0.5 * best)

    def step(self, problem: Problem, state: State) -> None:
        f = state.iterate
        scores = problem.scores(f)
        b = problem.best_intercept(scores)
        primal = problem.primal(f, b, scores)
        state.passes += 2.0
        gradient = f - problem.function(problem.slope_alpha(problem.margins(scores, b)))
        square = problem.inner(gradient, gradient)
        if square == 0.0:
            return
        state.waited += 1
        if primal < state.best - 0.5 * state.delta:
            state.waited = 0
            state.delta *= 2.0
        if primal < state.best:
            state.f, state.b, state.best = f, b, primal
        eta = (primal - state.best + state.delta) / square if self.step_size is None else self.step_size
        state.iterate = f - eta * gradient
        if state.waited >= PATIENCE:
            state.waited = 0
            state.delta *= 0.5
            if self.step_size is None:
                state.iterate = state.f
