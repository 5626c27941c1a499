"""One algorithm per file. A solver is given by name or as an object: make_solver("pegasos"), Pegasos(batch=100)."""

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

FEW_FEATURES = 500

__all__ = [
    "CuttingPlane",
    "DualCoordinateAscent",
    "GradientDescent",
    "Hyperpass",
    "Newton",
    "Pegasos",
    "ProjectedGradient",
    "Subgradient",
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
    """Second order where a Hessian of the features is cheap, whatever their scales and C; else a pass at a time."""
    few = problem.kind == "linear" and problem.size <= FEW_FEATURES
    return Newton() if few else DualCoordinateAscent()
