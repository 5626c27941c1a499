"""Kernel matrices, with a bound on the rounding in their entries.

An entry k(x_i, x_j) is computed to within `accuracy` * sqrt(k_ii k_jj); the certificate allows for that much.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.metrics.pairwise import pairwise_kernels

from .losses import Array
from .matrix import as_matrix
from .problem import EPS

NOT_POSITIVE = "the kernel matrix is not positive semidefinite, so no lower bound on its optimum can be proven."
MEMORY_LIMIT = 4 * 2**30  # bytes of one stored kernel matrix


@dataclass(frozen=True)
class Kernel:
    """A positive kernel: "linear", "rbf", "poly", "precomputed", or a function of two blocks of rows."""

    name: str | Callable = "linear"
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0

    def __post_init__(self):
        if self.name == "sigmoid" or (self.name == "poly" and self.coef0 < 0):
            raise ValueError(f"the {self.name} kernel is not positive, so no lower bound on its optimum can be proven.")
        if not callable(self.name) and self.name not in ("linear", "rbf", "poly", "precomputed"):
            raise ValueError(f"kernel must be linear, rbf, poly, precomputed or a function, got {self.name!r}.")

    def matrix(self, Z) -> tuple[Array, float]:
        """(K, accuracy) between all rows of Z; for "precomputed", Z is K."""
        n = Z.shape[0]
        if 8 * n * n > MEMORY_LIMIT:
            raise ValueError(f"a kernel matrix of {n} rows needs {8 * n * n / 2**30:.0f} GiB; take fewer rows.")
        if self.name == "precomputed" or callable(self.name):
            K = np.asarray(self.name(Z, Z) if callable(self.name) else Z, dtype=np.float64)
            accuracy = 8 * EPS
            _require_positive(K, accuracy)
            return K, accuracy
        Z = Z.astype(np.float64)  # scikit-learn answers float32 data in float32
        parameters = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
        K = pairwise_kernels(Z, metric=self.name, filter_params=True, **parameters)
        return np.asarray(K, dtype=np.float64), self._accuracy(Z)

    def _accuracy(self, Z) -> float:
        terms = (Z.shape[1] + 8) * EPS  # of one inner product
        if self.name == "rbf":
            # |x - z|^2 = |x|^2 - 2 <x, z> + |z|^2 cancels: its error is terms * (|x| + |z|)^2, and exp carries it on
            largest = float(np.max(as_matrix(Z).squared_norms, initial=0.0))
            return 8 * EPS + 4 * self.gamma * terms * largest
        return terms * (self.degree + 2) if self.name == "poly" else terms


def _require_positive(K: Array, accuracy: float) -> None:
    """A matrix that is not positive has no dual bound: refuse it rather than print a number that means nothing."""
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        raise ValueError(f"a kernel matrix must be square, got shape {K.shape}.")
    norms = np.sqrt(np.maximum(K.diagonal(), 0.0))
    scales = np.outer(norms, norms)
    if (K.diagonal() < 0).any() or K[scales == 0].any():  # |k_ij| <= sqrt(k_ii k_jj) in every positive matrix
        raise ValueError(NOT_POSITIVE)
    K = np.divide(K, scales, out=np.zeros_like(K), where=scales > 0)
    if not np.allclose(K, K.T, rtol=0.0, atol=accuracy):
        raise ValueError("the kernel matrix is not symmetric.")
    try:
        np.linalg.cholesky(K + (len(K) * accuracy + 1e-300) * np.eye(len(K)))
    except np.linalg.LinAlgError:
        raise ValueError(NOT_POSITIVE) from None
