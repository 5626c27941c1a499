r"""Newton's method on the primal, for problems with few features or a stored kernel matrix.

One step solves the Newton equation over the samples whose loss is curved, with the intercept eliminated, and goes to
the exact minimum of P along the direction. The hinge is approached through Huber(h), h -> 0: when a step has brought
the smoothed problem close enough, h shrinks to a fifth. alpha is read off the smoothed slopes and is feasible for the
hinge itself, so the dual bound arrives with the primal.

A step costs three passes over the data and, with d features, O(d^2) for each sample near the margin and O(d^3); beyond
`polish.EXPLICIT` features the equation is solved by conjugate gradients instead.

Chapelle (2007), sections 4.2 and 5; the path itself is shared with the judge, see `polish`.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..polish import NewtonPath, advance, begin_path
from ..problem import Problem
from ..solve import Solver, Start


@dataclass(frozen=True)
class Newton(Solver):
    """One Newton step with exact line search."""

    name: ClassVar[str] = "newton"

    def init(self, problem: Problem, start: Start | None = None) -> NewtonPath:
        return begin_path(problem, np.zeros(problem.size) if start is None else start.f)

    def step(self, problem: Problem, state: NewtonPath) -> None:
        advance(problem, state)
