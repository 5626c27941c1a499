"""primalsvm: support vector machines that prove their answer."""

from importlib.metadata import PackageNotFoundError, version

from .certificate import Certificate
from .certify import certify
from .linear_svc import LinearSVC
from .losses import Hinge, Huber, SquaredHinge
from .persistence import load, save
from .problem import KernelProblem, LinearProblem
from .solve import Record, Result, Solver, Start, solve

try:
    __version__ = version("primalsvm")
except PackageNotFoundError:  # used from a source tree that was never installed
    __version__ = "0+unknown"

__all__ = [
    "Certificate",
    "Hinge",
    "Huber",
    "KernelProblem",
    "LinearProblem",
    "LinearSVC",
    "Record",
    "Result",
    "Solver",
    "SquaredHinge",
    "Start",
    "certify",
    "load",
    "save",
    "solve",
]
