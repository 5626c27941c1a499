"""One algorithm per file. A solver is given by name or as an object: make_solver("pegasos"), Pegasos(batch=100)."""

from ..solve import Solver
from .dual_coordinate_ascent import DualCoordinateAscent
from .gradient_descent import GradientDescent
from .pegasos import Pegasos
from .projected_gradient import ProjectedGradient
from .subgradient import Subgradient

__all__ = ["DualCoordinateAscent", "GradientDescent", "Pegasos", "ProjectedGradient", "Subgradient", "make_solver"]


def make_solver(solver: str | Solver) -> Solver:
    """A solver by name or as an object."""
    if isinstance(solver, Solver):
        return solver
    if isinstance(solver, str) and solver == "auto":
        return DualCoordinateAscent()
    if isinstance(solver, str) and solver in Solver.registry:
        return Solver.registry[solver]()
    raise ValueError(f"solver must be auto, one of {', '.join(Solver.registry)}, or a Solver object, got {solver!r}.")
