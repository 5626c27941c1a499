"""primalsvm: support vector machines that prove their answer."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from .certificate import Certificate
from .chunks import Chunks, as_chunks
from .losses import Hinge, Huber, SquaredHinge
from .problem import KernelProblem, LinearProblem
from .solve import Record, Result, Solver, Start, solve

if TYPE_CHECKING:
    from .chunk_files import open_chunks
    from .claims import certify
    from .cross_validation import SVCCV, LinearSVCCV
    from .evaluation import evaluate
    from .explain import contributions, heaviest
    from .left_out import fold_scores, loo_scores
    from .linear_svc import LinearSVC
    from .loo import leave_one_out
    from .ordinal_svc import OrdinalSVC
    from .paths import kernel_path, linear_path
    from .persistence import load, save
    from .svc import SVC
    from .text import bag_of_words, text_model
    from .tuned_svc import TunedSVC

__all__ = [
    "SVC",
    "SVCCV",
    "Certificate",
    "Chunks",
    "Hinge",
    "Huber",
    "KernelProblem",
    "LinearProblem",
    "LinearSVC",
    "LinearSVCCV",
    "OrdinalSVC",
    "Record",
    "Result",
    "Solver",
    "SquaredHinge",
    "Start",
    "TunedSVC",
    "as_chunks",
    "bag_of_words",
    "certify",
    "contributions",
    "evaluate",
    "fold_scores",
    "heaviest",
    "kernel_path",
    "leave_one_out",
    "linear_path",
    "load",
    "loo_scores",
    "open_chunks",
    "save",
    "solve",
    "text_model",
]

# what stands on scikit-learn is imported when it is first used: `primalsvm --help` should not wait for it
_LATER = {
    "SVC": "svc",
    "LinearSVC": "linear_svc",
    "LinearSVCCV": "cross_validation",
    "OrdinalSVC": "ordinal_svc",
    "SVCCV": "cross_validation",
    "bag_of_words": "text",
    "certify": "claims",
    "contributions": "explain",
    "evaluate": "evaluation",
    "heaviest": "explain",
    "fold_scores": "left_out",
    "kernel_path": "paths",
    "leave_one_out": "loo",
    "loo_scores": "left_out",
    "linear_path": "paths",
    "load": "persistence",
    "open_chunks": "chunk_files",
    "TunedSVC": "tuned_svc",
    "save": "persistence",
    "text_model": "text",
}


def __getattr__(name: str):
    if name in _LATER:
        value = globals()[name] = getattr(import_module(f".{_LATER[name]}", __name__), name)
        return value
    if name == "__version__":
        try:
            return version("primalsvm")
        except PackageNotFoundError:  # used from a source tree that was never installed
            return "0+unknown"
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_LATER, "__version__"])
