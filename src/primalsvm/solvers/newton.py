r"""Newton's method on the primal.

One step solves the Newton equation over the samples whose loss is curved, with the intercept eliminated, and goes to
the minimum of P along the direction. The hinge is smoothed around the alpha of the last stage, less and less: the
proximal point method on the dual. alpha comes with every step and is feasible for the hinge itself, so the dual bound
arrives with the primal.

A step costs one pass over the samples in play, one over those whose alpha_i changed, O(d^2) for each that entered or
left the curved part of its loss and O(d^3); beyond `newton_path.EXPLICIT` features the equation is solved by conjugate
gradients instead.

Chapelle (2007), sections 4.2 and 5; the path itself is shared with the judge, see `newton_path`.
"""

from dataclasses import dataclass
from typing import ClassVar

from ..newton_path import NewtonPath, advance, begin_path
from ..problem import Problem
from ..solve import Solver, Start


@dataclass(frozen=True)
class Newton(Solver):
    """One Newton step with exact line search."""

    name: ClassVar[str] = "newton"

    def init(self, problem: Problem, start: Start | None = None) -> NewtonPath:
        return begin_path(problem) if start is None else begin_path(problem, start.f, start.b, start.alpha)

    def step(self, problem: Problem, state: NewtonPath) -> None:
        advance(problem, state)
