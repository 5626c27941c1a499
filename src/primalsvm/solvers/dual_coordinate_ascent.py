r"""Dual coordinate ascent.

Maximise D over one alpha_i at a time, exactly:

    alpha_i <- clip(alpha_i + g_i / (|phi(x_i)|^2 + bend / c_i), 0, u c_i),     g_i = tilt - bend alpha_i / c_i - m_i

keeping f = f_alpha up to date. Samples at a bound whose gradient says that they will stay there are put aside until the
others have settled. One step is as many updates as there are samples, in random order, O(nnz): one pass over all, or
several over those that are active.

A penalised intercept is one more feature. A free one demands sum_i alpha_i y_i = 0, which no single alpha_i can keep.
It is reached by the proximal point method in b: a pass works on

    P(f, b) + (b - centre)^2 / 2 reach        whose dual has  b = centre + reach sum_i alpha_i y_i,

and the centre then moves to b. The added term vanishes as b settles, whatever `reach` is: the limit is the free
intercept's own optimum, not a penalised one.

Hsieh, Chang, Lin, Keerthi, Sundararajan (2008), Algorithms 1 and 3; seed 004's Algorithm 3; for the intercept
Rockafellar (1976), the method of multipliers on the dual.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..losses import Array
from ..problem import Problem
from ..solve import Solver, Start

SETTLED = 0.1  # of the violation in the last full pass: then those put aside are looked at again
ROUNDS = 10  # passes over the active samples in one step, at most: a call has its price too
REFRESH = 100  # passes after which f is summed up again from alpha, against the drift of rounding


@dataclass
class State:
    f: Array  # always f_alpha
    b: float
    alpha: Array  # (n,)
    work: Array  # what the pass updates: f itself, or the scores of f for a stored kernel matrix
    balance: Array  # (1,) sum of alpha_i y_i
    centre: float
    reach: float
    order: np.ndarray  # the samples that count; the first `active` ones are not put aside
    active: int
    limits: Array  # (4,) largest and least projected gradient, of this pass and of the last
    settled: float  # spread of the projected gradients at which those put aside are called back
    seed: np.ndarray  # (1,) state of the random numbers
    passes: float = 0.0


@dataclass(frozen=True)
class DualCoordinateAscent(Solver):
    """As many updates as there are samples a step, in random order, each alpha_i set to its exact optimum."""

    name: ClassVar[str] = "dual_coordinate_ascent"
    shrink: bool = True
    seed: int = 0

    def init(self, problem: Problem, start: Start | None = None) -> State:
        alpha = np.zeros(problem.n)
        if start is not None and start.alpha is not None:
            alpha = np.clip(start.alpha, 0.0, problem.upper)
        order = np.flatnonzero(problem.cost > 0)
        reach = 0.0
        if problem.intercept == "penalized":
            reach = problem.intercept_scaling**2
        elif problem.intercept == "free":
            reach = float(np.mean(problem.squared_norms)) or 1.0
        state = State(
            f=np.zeros(problem.size),
            b=0.0,
            alpha=alpha,
            work=np.zeros(0),
            balance=np.zeros(1),
            centre=start.b if start is not None and problem.intercept == "free" else 0.0,
            reach=reach,
            order=order,
            active=len(order),
            limits=np.array([0.0, 0.0, np.inf, -np.inf]),
            settled=0.0,
            seed=np.array([self.seed * 2 + 88172645463325253], dtype=np.uint64),
        )
        self._refresh(problem, state)
        state.b = state.centre + state.reach * state.balance[0]
        return state

    def step(self, problem: Problem, state: State) -> None:
        visits, before = 0, state.passes
        for _ in range(ROUNDS):
            visits += self._pass(problem, state)
            if visits >= len(state.order):
                break
        state.passes += visits / max(len(state.order), 1)
        if state.passes // REFRESH > before // REFRESH:
            self._refresh(problem, state)
        elif problem.kind == "kernel":
            state.f = state.alpha * problem.y

    def _pass(self, problem: Problem, state: State) -> int:
        """One pass over the active samples; how many there were."""
        from ..cpu_kernels import dual_coordinate_pass

        loss = problem.loss
        visited = state.active
        state.active = dual_coordinate_pass(
            problem.rows,
            problem.kind == "kernel",
            problem.y,
            problem.cost,
            problem.squared_norms,
            loss.tilt,
            loss.bend,
            loss.bound,
            state.centre,
            state.reach,
            state.alpha,
            state.work,
            state.balance,
            state.order,
            state.active,
            state.limits,
            state.seed,
        )
        state.b = state.centre + state.reach * state.balance[0]
        if problem.intercept == "free":
            state.centre = state.b
        self._call_back(state, visited)
        return visited

    def _call_back(self, state: State, visited: int) -> None:
        """Set the limits for the next pass; once the active ones have settled, take back those put aside."""
        high, low = state.limits[0], state.limits[1]
        if visited == len(state.order):
            state.settled = SETTLED * (high - low)
        if not self.shrink or high - low <= state.settled:
            state.active = len(state.order)
            state.limits[2:] = np.inf, -np.inf
        else:
            state.limits[2] = high if high > 0 else np.inf
            state.limits[3] = low if low < 0 else -np.inf

    @staticmethod
    def _refresh(problem: Problem, state: State) -> None:
        state.f = problem.function(state.alpha)
        state.work = problem.scores(state.f) if problem.kind == "kernel" else state.f
        state.balance[0] = np.sum(state.alpha * problem.y)
