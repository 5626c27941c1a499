r"""Newton's method on the primal.

One step solves the Newton equation over the samples whose loss is curved, with the intercept eliminated, and goes to
the minimum of P along the direction. The hinge is smoothed around the alpha of the last stage, less and less: the
proximal point method on the dual. alpha comes with every step and is feasible for the hinge itself, so the dual bound
arrives with the primal.

Linear problems, see `newton_path`: a step costs one pass over the samples in play, one over those whose alpha_i
changed, O(d^2) for each that entered or left the curved part of its loss and O(d^3); beyond a thousand features or two
(`newton_path.is_explicit`) the equation is solved by conjugate gradients instead. Those leave errors along eigenvectors
of large eigenvalue, which P hardly feels, and the gap, half the square of the gradient, feels most: at a large C it is
a thousand times what P has left to fall. A few passes of dual coordinate ascent from Newton's alpha, each as dear as
two products, remove just these and leave a tenth to a fortieth of the gap. So they are taken when that will do.

Kernel problems, see `kernel_newton`: with S the curved samples a step costs n |S| entries of K and |S|^3 / 3, or
|S|^2 for each sample that entered or left S. It begins with a part of the samples and doubles it.

From nothing, the first equations are those of samples that mostly will not matter. Where a step is dear, two passes of
coordinate ascent come first; where samples are many, a sample is solved first; a kernel problem begins with a part.

Chapelle (2007), sections 4 and 5, Algorithm 1, appendix B; the linear path is shared with the judge.
"""

from dataclasses import dataclass
from typing import ClassVar

from .. import kernel_newton, newton_path
from ..ascent import can_lift, lift, rough_start
from ..problem import KernelProblem, LinearProblem, Problem
from ..solve import Solver, Start

REACH = 40.0  # times tol: a gap from which a few passes of ascent may come down to tol
DEAR, ASCENT = 200, 2  # features from which a step with a matrix costs more than the passes of ascent that save it


@dataclass(frozen=True)
class Newton(Solver):
    """One Newton step with exact line search."""

    name: ClassVar[str] = "newton"

    def init(self, problem: Problem, start: Start | None = None) -> newton_path.NewtonPath | kernel_newton.KernelNewton:
        if start is None and _is_dear(problem):
            start = rough_start(problem, ASCENT)
        point = () if start is None else (start.f, start.b, start.alpha)
        if isinstance(problem, KernelProblem):
            return kernel_newton.begin(problem, *point)
        path = newton_path.begin_path(problem, *point)
        path.passes += 0.0 if start is None else start.passes
        if can_lift(problem, path):
            path.reach = REACH
        return path

    def step(self, problem: Problem, state: newton_path.NewtonPath | kernel_newton.KernelNewton) -> None:
        if isinstance(state, kernel_newton.KernelNewton):
            kernel_newton.advance(problem, state)  # type: ignore[arg-type]
        else:
            newton_path.advance(problem, state)
            lift(problem, state)


def _is_dear(problem: Problem) -> bool:
    """Is a step dear, and nothing known that is better to begin with?"""
    if not (isinstance(problem, LinearProblem) and problem.has_rows and not problem.X.orthonormal):
        return False
    return problem.size >= DEAR and newton_path.is_explicit(problem) and not newton_path.sample_size(problem)
