"""Problems that break solvers, in one place. Small, so that the exact reference can judge them."""

import numpy as np
import scipy.sparse as sp

from primalsvm.losses import Hinge, Huber, SquaredHinge
from primalsvm.matrix import as_matrix
from primalsvm.problem import KernelProblem, LinearProblem

LOSSES = (Hinge(), SquaredHinge(), Huber(0.3))
INTERCEPTS = ("none", "penalized", "free")


def _overlapping(rng):
    X = rng.standard_normal((30, 4))
    y = np.where(X @ [1.0, -2.0, 0.5, 0.0] + rng.standard_normal(30) + 0.3 > 0, 1.0, -1.0)
    return X, y, np.full(30, 1.0)


def _separable(rng):
    X = rng.standard_normal((24, 3))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    X[:, 0] += y
    return X, y, np.full(24, 10.0)


def _duplicated(rng):
    X, y, _ = _overlapping(rng)
    X, y = np.vstack([X, X[:10], X[:5]]), np.concatenate([y, y[:10], -y[:5]])
    return X, y, np.full(len(y), 1.0)


def _zero_row(rng):
    X, y, cost = _overlapping(rng)
    X[[3, 17]] = 0.0
    return X, y, cost


def _tiny_class(rng):
    X, y, cost = _overlapping(rng)
    y[:] = -1.0
    y[4] = 1.0
    return X, y, cost


def _wide(rng):
    X = rng.standard_normal((8, 15))
    return X, np.array([1.0, -1.0] * 4), np.full(8, 1.0)


def _weights(rng):
    X, y, cost = _overlapping(rng)
    cost = rng.uniform(0.1, 3.0, 30)
    cost[::4] = 0.0
    return X, y, cost


def _small_C(rng):
    X, y, cost = _overlapping(rng)
    return X, y, 1e-4 * cost


def _large_C(rng):
    X, y, cost = _overlapping(rng)
    return X, y, 1e3 * cost


def _scales(rng):
    X, y, cost = _overlapping(rng)
    return X * [1e-3, 1.0, 1e2, 1.0], y, cost


MAKERS = {
    maker.__name__.strip("_"): maker
    for maker in (
        _overlapping,
        _separable,
        _duplicated,
        _zero_row,
        _tiny_class,
        _wide,
        _weights,
        _small_C,
        _large_C,
        _scales,
    )
}
HARD = ("large_C", "scales")  # badly conditioned: first-order methods need thousands of steps
STORAGE = {
    "dense": np.asarray,
    "csr": sp.csr_matrix,
    "csc": sp.csc_matrix,
    "csr64": lambda X: _wide_indices(sp.csr_matrix(X)),
}


def _wide_indices(csr):
    csr.indices, csr.indptr = csr.indices.astype(np.int64), csr.indptr.astype(np.int64)
    return csr


def make(name, loss, intercept="free", storage="dense", dtype=np.float64):
    """A linear problem by name."""
    X, y, cost = MAKERS[name](np.random.default_rng(sum(map(ord, name))))
    X = STORAGE[storage](X.astype(dtype))
    return LinearProblem(y=y, cost=cost, loss=loss, intercept=intercept, X=as_matrix(X))


def make_kernel(name, loss, intercept="free", gamma=0.5):
    """The same samples under a Gaussian kernel."""
    X, y, cost = MAKERS[name](np.random.default_rng(sum(map(ord, name))))
    square = np.sum(X * X, axis=1)
    K = np.exp(-gamma * np.maximum(square[:, None] + square - 2 * X @ X.T, 0.0))
    return KernelProblem(y=y, cost=cost, loss=loss, intercept=intercept, K=K)


def dense(problem):
    """X of a linear problem as a float64 array."""
    X = problem.X
    return (X.values if hasattr(X, "values") else X.csr.toarray()).astype(np.float64)
