r"""Cutting planes: the bundle method of SVMperf and BMRM.

Any alpha in the box bounds the losses from below by a plane: by Fenchel and Young

    R(w, b) = sum_i c_i l(m_i) >= sum_i c_i r(alpha_i / c_i) - <f_alpha, w> - b sum_i alpha_i y_i

with equality where alpha_i = -c_i l'(m_i). One step adds the plane that touches R at the current point and goes to

    argmin  1/2 |w|^2 + max(0, plane_1, plane_2, ...)

whose dual is a small quadratic program in the planes' multipliers gamma (`simplex_qp`). The minimiser is f_alpha for
alpha = sum_j gamma_j alpha_j, a feasible dual point, and D(alpha) is at least the minimum: the certificate proves the
method's own lower bound. Planes whose multiplier has been zero for a while are dropped.

A penalised intercept is one more feature. A free one is minimised out: the planes touch min_b R(w, b), at the best b
there are slopes with sum_i alpha_i y_i = 0, and a plane of such an alpha does not depend on b.

One step is two passes over the data, for the margins and for f_alpha of the new plane, and O(n) a plane in use.
1 / (lambda epsilon) steps, lambda = 1 / sum_i c_i, for a gap of epsilon sum_i c_i.

Joachims (2006); Teo, Le, Smola, Vishwanathan (2007), Algorithm 1; Do and Artieres (2008), eq. 3 and 10.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ..losses import Array
from ..problem import Problem
from ..simplex_qp import maximize
from ..solve import Solver, Start

IDLE = 50  # steps with multiplier zero after which a plane is dropped, as in SVMperf


@dataclass
class Plane:
    """alpha_j in little memory: most slopes of the hinge are all or nothing."""

    f: Array
    b: float  # the penalised intercept that alpha_j makes
    full: np.ndarray  # (n,) bool: alpha_i = c_i
    part: np.ndarray  # the others that are not 0 ...
    alpha: Array  # ... and their alpha_i
    idle: int = 0


@dataclass
class State:
    f: Array
    b: float
    alpha: Array  # (n,) sum_j gamma_j alpha_j, and f is f_alpha
    planes: list[Plane] = field(default_factory=list)
    gamma: Array = field(default_factory=lambda: np.zeros(0))
    offset: Array = field(default_factory=lambda: np.zeros(0))  # of each plane: sum_i c_i r(alpha_i / c_i)
    inner: Array = field(default_factory=lambda: np.zeros((0, 0)))  # <f_j, f_k>, intercept included
    passes: float = 0.0
    ended: bool = False  # the plane just added changed nothing, and the next one would be the same


@dataclass(frozen=True)
class CuttingPlane(Solver):
    """One more plane below the losses, and the minimum of the bound they make together."""

    name: ClassVar[str] = "cutting_plane"

    def init(self, problem: Problem, start: Start | None = None) -> State:
        state = State(np.zeros(problem.size), 0.0, np.zeros(problem.n))
        if start is not None and start.alpha is not None:
            self._add(problem, state, problem.repair(start.alpha))
            self._minimize(problem, state)
        elif start is not None:
            state.f, state.b = np.array(start.f, dtype=np.float64), start.b
        return state

    def step(self, problem: Problem, state: State) -> None:
        scores = problem.scores(state.f)
        b = problem.best_intercept(scores) if problem.intercept == "free" else state.b
        before = state.f
        self._add(problem, state, problem.slope_alpha(problem.margins(scores, b)))
        self._minimize(problem, state)
        state.ended = np.max(np.abs(state.f - before), initial=0.0) <= 1e-15 * np.max(np.abs(state.f), initial=0.0)
        state.b = b if problem.intercept == "free" else state.b
        state.passes += 2.0

    @staticmethod
    def _add(problem: Problem, state: State, alpha: Array) -> None:
        """One plane more."""
        f, b, full = problem.function(alpha), problem.intercept_of(alpha), (alpha == problem.cost) & (alpha > 0)
        part = np.flatnonzero((alpha > 0) & ~full)
        state.planes.append(Plane(f, b, full, part, alpha[part]))
        image = problem.scores(f) if problem.kind == "kernel" else f
        row = np.array([image @ plane.f + plane.b * b / problem.intercept_scaling**2 for plane in state.planes])
        state.inner = np.block([[state.inner, row[:-1, None]], [row[None, :]]])
        state.offset = np.append(state.offset, problem.dual_gain(alpha))
        state.gamma = np.append(state.gamma, 0.0)

    @staticmethod
    def _minimize(problem: Problem, state: State) -> None:
        """The minimum of the bound, as w, b and alpha; then drop the planes that have long been of no use."""
        state.gamma, _ = maximize(state.inner, state.offset, len(state.planes), state.gamma)
        state.f, state.b, state.alpha = np.zeros(problem.size), 0.0, np.zeros(problem.n)
        for gamma, plane in zip(state.gamma, state.planes, strict=True):
            plane.idle = 0 if gamma else plane.idle + 1
            if gamma:
                state.f += gamma * plane.f
                state.b += gamma * plane.b
                state.alpha += (gamma * plane.full) * problem.cost
                state.alpha[plane.part] += gamma * plane.alpha
        keep = np.array([plane.idle < IDLE for plane in state.planes])
        if not keep.all():
            state.planes = [plane for plane, kept in zip(state.planes, keep, strict=True) if kept]
            state.gamma, state.offset = state.gamma[keep], state.offset[keep]
            state.inner = state.inner[np.ix_(keep, keep)]
