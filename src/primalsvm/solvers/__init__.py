"""One algorithm per file. A solver is given by name or as an object: make_solver("pegasos"), Pegasos(batch=100)."""

from ..newton_path import EXPLICIT
from ..problem import Problem
from ..solve import Solver
from .cutting_plane import CuttingPlane
from .dual_coordinate_ascent import DualCoordinateAscent
from .gradient_descent import GradientDescent
from .hyperpass import Hyperpass
from .newton import Newton
from .pegasos import Pegasos
from .projected_gradient import ProjectedGradient
from .subgradient import Subgradient

MANY_SAMPLES = 3  # for each feature, from which second order wins although the features are many

__all__ = [
    "CuttingPlane",
    "DualCoordinateAscent",
    "GradientDescent",
    "Hyperpass",
    "Newton",
    "Pegasos",
    "ProjectedGradient",
    "Subgradient",
    "choose_solver",
    "explain_choice",
    "make_solver",
]


def make_solver(solver: str | Solver, problem: Problem | None = None) -> Solver:
    """A solver by name or as an object; "auto" chooses one for the problem."""
    if isinstance(solver, Solver):
        return solver
    if isinstance(solver, str) and solver == "auto":
        return choose_solver(problem) if problem is not None else DualCoordinateAscent()
    if isinstance(solver, str) and solver in Solver.registry:
        return Solver.registry[solver]()
    raise ValueError(f"solver must be auto, one of {', '.join(Solver.registry)}, or a Solver object, got {solver!r}.")


def choose_solver(problem: Problem) -> Solver:
    """Second order where a Hessian of the features is cheap or well determined; else a pass at a time."""
    if problem.kind == "linear" and (problem.size <= EXPLICIT or problem.n >= MANY_SAMPLES * problem.size):
        return Newton()
    return DualCoordinateAscent()


def explain_choice(problem: Problem) -> str:
    """What choose_solver takes and why, in one line."""
    name, n, d = choose_solver(problem).name, problem.n, problem.size
    if problem.kind != "linear":
        return f"{name}, for a kernel problem"
    if d <= EXPLICIT:
        return f"{name}, with a matrix of the {d} features"
    if n >= MANY_SAMPLES * d:
        return f"{name}, by conjugate gradients: {n} samples for {d} features"
    return f"{name}: {d} features are many for {n} samples"
