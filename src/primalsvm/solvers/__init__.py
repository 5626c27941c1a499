"""One algorithm per file. A solver is given by name or as an object: make_solver("pegasos"), Pegasos(batch=100)."""

import numpy as np

from ..matrix import Sparse
from ..newton_path import EXPLICIT, MANY_SAMPLES, is_explicit
from ..problem import KernelProblem, LinearProblem, Problem
from ..solve import FREE_WORK, Solver
from .conjugate_gradient import ConjugateGradient
from .cutting_plane import CuttingPlane
from .dual_coordinate_ascent import DualCoordinateAscent
from .gradient_descent import GradientDescent
from .hyperpass import Hyperpass
from .newton import Newton
from .pegasos import Pegasos
from .projected_gradient import ProjectedGradient
from .smo import SMO
from .subgradient import Subgradient

# mean of c |x|^2 below which passes over sparse rows win at a usual tol, for smooth losses and the hinge ...
LIGHT = {True: 1.5, False: 2.0}  # ... where second order means conjugate gradients,
LIGHT_EXPLICIT = {True: 0.6, False: 2.0}  # and where it means a matrix. Where samples are many for the features, it
USUAL_TOL, FALL = 1e-3, 0.25  # gives six digits for little more than three, and passes go on: they fall as tol^FALL

__all__ = [
    "SMO",
    "ConjugateGradient",
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


def make_solver(solver: str | Solver, problem: Problem | None = None, tol: float = USUAL_TOL) -> Solver:
    """A solver by name or as an object; "auto" chooses one for the problem."""
    if isinstance(solver, Solver):
        return solver
    if isinstance(solver, str) and solver == "auto":
        return choose_solver(problem, tol) if problem is not None else DualCoordinateAscent()
    if isinstance(solver, str) and solver in Solver.registry:
        return Solver.registry[solver]()
    raise ValueError(f"solver must be auto, one of {', '.join(Solver.registry)}, or a Solver object, got {solver!r}.")


def choose_solver(problem: Problem, tol: float = USUAL_TOL) -> Solver:
    """Second order where a Hessian of the features is cheap or well determined; else a pass at a time."""
    return _choose(problem, tol)[0]


def explain_choice(problem: Problem, tol: float = USUAL_TOL) -> str:
    """What choose_solver takes and why, in one line."""
    solver, why = _choose(problem, tol)
    return f"{solver.name}: {why}"


def _choose(problem: Problem, tol: float) -> tuple[Solver, str]:
    n, d = problem.n, problem.size
    if isinstance(problem, KernelProblem) and problem.K.cheap and problem.loss.smooth:
        return ConjugateGradient(), "products with this kernel matrix are cheap, and the loss is smooth"
    if not isinstance(problem, LinearProblem):
        return SMO(), "a kernel, whose rows are computed as working sets need them"
    if problem.X.orthonormal:
        return Newton(), f"a matrix of the {d} basis functions is cheap"
    if not problem.has_rows:
        return Newton(), "the rows come in pieces, and few passes over them are wanted"
    if d <= EXPLICIT and 100 * problem.entries < FREE_WORK:  # solved as far as float64 goes, which is many passes
        return Newton(), f"a small problem, and a matrix of its {d} features is cheap"
    # c |x|^2 is how far a single alpha_i can move its own margin: where that is little, few passes settle everything
    light = (LIGHT_EXPLICIT if d <= EXPLICIT else LIGHT)[problem.loss.smooth]
    if d <= EXPLICIT or n >= MANY_SAMPLES * d:
        light *= min(tol / USUAL_TOL, 1.0) ** FALL
    if isinstance(problem.X, Sparse) and float(np.mean(problem.cost * problem.squared_norms)) < light:
        return DualCoordinateAscent(), "sparse, and C is small for the length of the rows"
    if d <= EXPLICIT:
        return Newton(), f"a matrix of the {d} features is cheap"
    if n >= MANY_SAMPLES * d:
        how = "" if is_explicit(problem) else "; by conjugate gradients"
        return Newton(), f"{n} samples are many for {d} features{how}"
    return DualCoordinateAscent(), f"{d} features are many for {n} samples"
