"""USPS, digits 0-4 against 5-9, with a Gaussian kernel: what the figures of Chapelle (2007) share.

k(x, z) = exp(-|x - z|^2 / 2 sigma^2); his lambda is our C = 1 / (2 lambda). Kernel matrices are computed beforehand, as
in the paper, and no time includes them. Times are seconds of the processor, on one thread: others on the machine do
not change them.
"""

import time
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

from ..kernel_matrix import StoredKernel
from ..kernel_newton import KernelNewton
from ..losses import Loss
from ..problem import KernelProblem
from ..solvers import Newton
from .data import Set, load
from .lab import Lab


def digits(lab: Lab, n: int) -> Set:
    """n training rows, shuffled, so that the first k of them are a sample too, and all test rows (few for a toy)."""
    data = load(lab, "usps", None if lab.scale == "full" or n > 3000 else max(n, 300))
    order = np.random.default_rng(0).permutation(len(data.y))[:n]
    return data._replace(X=data.X[order], y=data.y[order])


def gaussian(X: np.ndarray, Z: np.ndarray | None = None, sigma: float = 8.0) -> np.ndarray:
    return rbf_kernel(X, Z, gamma=1 / (2 * sigma * sigma))


def make_problem(K: np.ndarray, y: np.ndarray, lam: float, loss: Loss, intercept: str = "free") -> KernelProblem:
    return KernelProblem(y, np.full(len(y), 1 / (2 * lam)), loss, intercept, K=StoredKernel(K))


class Trained(NamedTuple):
    seconds: float  # of the processor
    steps: int  # in all
    last_steps: int  # on all samples; those before are on half of them, on a quarter ...
    state: KernelNewton


def newton(problem: KernelProblem, tol: float, most: int = 300) -> Trained:
    """Our Newton's method until it believes to be within a relative gap of `tol`."""
    solver, begin = Newton(), time.process_time()
    state: Any = solver.init(problem)
    state.tol, steps, last = tol, 0, 0
    while not state.ended and state.belief > tol and steps < most:
        solver.step(problem, state)
        steps += 1
        last += state.picked is None
    return Trained(time.process_time() - begin, steps, last, state)


def halvings(n: int, least: int) -> list[int]:
    """n, n / 2, n / 4 ..., from small to large."""
    sizes = [n]
    while sizes[-1] // 2 >= least:
        sizes.append(sizes[-1] // 2)
    return sizes[::-1]


def flipped(y: np.ndarray, share: float = 0.1, seed: int = 0) -> np.ndarray:
    """Labels of which a share, drawn at random, has been turned round: the noise of section 5.3."""
    return np.where(np.random.default_rng(seed).random(len(y)) < share, -y, y)


def error(scores: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean(np.where(scores > 0, 1.0, -1.0) != y))
