r"""Reduced expansions: f(x) = sum_j beta_j k(x_j, x) over a few points, the basis (Chapelle 2007, eq. 6.1).

    P(beta, b) = 1/2 beta' K_JJ beta + sum_i c_i l(y_i (g_i' beta + b)),        g_i = (k(x_i, x_j)) over j in the basis

All samples are in the loss, few of them carry the function. With K_JJ = L L' and beta = R w, R = L^-T, it is a linear
problem in w, with the features R' g_i: |w|^2 = beta' K_JJ beta. So Newton's method, the certificate, and all else that
is said of linear problems holds as it stands. `Mapped` is the matrix of these features, G R: R is applied to
vectors of the length of the basis, never to the rows of G, which is held in float32, or made again in every pass; and
Newton's equation is solved for R p, where its matrix is K_JJ + G' W G.

A certificate of a reduced problem speaks of these features as they are stored. It bounds the distance from the best
function over this basis; that from the best function of all is another matter: see `certify`.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf

from .crew import in_parts
from .kernels import Kernel, Points
from .losses import Array
from .matrix import Matrix
from .triangles import invert_triangle

TILE = 512  # rows and basis points of a tile, which stays in the cache
ROWS = 4096  # of X that become points at a time
THREAD_VALUES = 100_000  # what a thread should have to compute, at least, to be worth waking
RANK = 1e-5  # of k(x, x): a basis point with less left beside those before it adds nothing but rounding errors


@dataclass(frozen=True)
class Basis:
    """Some samples, and the R that makes their kernels an orthonormal set."""

    kernel: Kernel
    samples: np.ndarray  # (k,) positions among the training samples
    vectors: Any  # (k, d) their rows of X
    L: Array  # (k, k) lower triangular, L L' = K_JJ
    R: Array  # L^-T
    dtype: Any = np.float32  # of g

    def __len__(self) -> int:
        return len(self.samples)

    @cached_property
    def _points(self) -> Points:
        return Points(self.kernel, self.vectors)

    def values(self, X, threads: int = 1, known: tuple[np.ndarray, np.ndarray] | None = None) -> np.ndarray:
        """g(x) for the rows of X: (n, k), of which some may be known: (rows, their values of the first points).

        Each thread makes the points it needs, some rows of X at a time.
        """
        n, basis = X.shape[0], self._points
        out = np.empty((n, len(self)), dtype=self.dtype)

        def fill(rows: np.ndarray | None, width: int) -> None:
            """Of these rows, or all, what is behind the first `width` columns."""
            mine = basis.take(np.arange(width, len(self)))

            def work(begin: int, end: int) -> None:
                for first in range(begin, end, ROWS):
                    some: Any = slice(first, min(first + ROWS, end))
                    if rows is None:
                        kernel_values(Points(self.kernel, X[some], like=basis), mine, self.dtype, out=out[some])
                    else:
                        some = rows[some]
                        out[some, width:] = kernel_values(Points(self.kernel, X[some], like=basis), mine, self.dtype)

            in_parts(_shares(n if rows is None else len(rows), len(mine), threads), work)

        if known is None or not known[1].size:
            fill(None, 0)
        else:
            rows, values = known
            width = values.shape[1]
            out[rows, :width] = values
            fill(np.delete(np.arange(n), rows), 0)
            if width < len(self):
                fill(rows, width)
        return out


def make_basis(kernel: Kernel, X, samples: np.ndarray, dtype: Any = np.float32) -> Basis:
    """Of the given rows of X, less those that depend on the ones before them."""
    everyone = Points(kernel, X[samples]).features()
    K = np.asarray(kernel.between(everyone, everyone), dtype=np.float64)
    kept, L = independent(0.5 * (K + K.T))
    R = np.ascontiguousarray(invert_triangle(L.copy(order="F")).T)
    return Basis(kernel, samples[kept], X[samples[kept]], L, R, dtype)


def independent(K: Array) -> tuple[np.ndarray, Array]:
    """(positions, L): rows of K of which each adds something to those before it, and the Cholesky factor there."""
    kept = np.flatnonzero(K.diagonal() > 0)
    while len(kept):
        scale = np.sqrt(K.diagonal()[kept])
        part = K[np.ix_(kept, kept)] / np.outer(scale, scale)
        L, failed = dpotrf(part, lower=1, clean=1)
        whole = failed - 1 if failed else len(kept)  # so many rows are factorised
        weak = np.zeros(len(kept), dtype=bool)
        weak[:whole] = L.diagonal()[:whole] ** 2 < RANK
        if failed and not weak.any():  # then look at all others beside them
            inside = solve_triangular(L[:whole, :whole], part[:whole, whole:], lower=True)
            weak[whole:] = 1.0 - np.sum(inside * inside, axis=0) < RANK
            weak[whole] = True
        if not weak.any():
            return kept, scale[:, None] * L
        kept = kept[~weak]
    return kept, np.zeros((0, 0))


def kernel_values(
    points: Points, others: Points, dtype: Any = np.float32, threads: int = 1, out: np.ndarray | None = None
) -> np.ndarray:
    """k(x_i, z_j) for all points x and all others z, which share a centre: (n, k), in tiles, on several threads."""
    n, k = len(points), len(others)
    values = np.empty((n, k), dtype=dtype) if out is None else out
    tiles = [others.features(slice(first, first + TILE), dtype) for first in range(0, k, TILE)]

    def work(begin: int, end: int) -> None:
        for first in range(begin, end, TILE):
            part = slice(first, min(first + TILE, end))
            rows = points.features(part, dtype)
            for t, features in enumerate(tiles):
                values[part, t * TILE : (t + 1) * TILE] = points.kernel.between(rows, features)

    in_parts(_shares(n, k, threads), work)
    return values


def _shares(n: int, k: int, threads: int) -> list[int]:
    """Where to cut n rows of k values for the threads."""
    parts = max(1, min(threads, n * k // THREAD_VALUES, n))
    return [n * p // parts for p in range(parts + 1)]


class Mapped(Matrix):
    """G R, with R upper triangular: rows R' g_i.

    Errors: |R w| and |R' u| are computed to within k eps |R|_F of |w| and |u|. With |R|_F |g_i| in the place of the
    norms, 2 k + 2 roundings in a product G (R w) cover both steps; so do k more in R' (G' a).
    """

    in_memory: ClassVar[bool] = False  # the rows of G are, perhaps; those of G R are not
    orthonormal: ClassVar[bool] = True

    def __init__(self, G: Matrix, basis: Basis, metric: Array | None = None):
        self.G, self.basis, self.R = G, basis, basis.R
        self.metric = basis.L @ basis.L.T if metric is None else metric
        self.shape, self.dtype, self.entries, self.threads = G.shape, G.dtype, G.entries, G.threads
        self.matvec_terms = 2 * (G.matvec_terms + len(self.R) + 2)

    @property
    def transpose_terms(self):
        return self.G.transpose_terms + len(self.R) + 2

    @cached_property
    def squared_norms(self):
        """Not less than |R' g_i|^2: what error bounds need."""
        return self.G.squared_norms * (1.01 * float(np.sum(self.R**2)))

    def matvec(self, w, picked=None):
        return self.G.matvec(self.R @ w, picked)

    def transpose_matvec(self, a, picked=None):
        return self.R.T @ self.G.transpose_matvec(a, picked)

    def normal_matvec(self, w, weights, picked):
        return self.R.T @ self.G.normal_matvec(self.R @ w, weights, picked)

    def _gram(self, weights, picked):
        """G' W G: see `metric`."""
        return self.G._gram(weights, picked)

    def add_gram(self, total, weights, picked):
        self.G.add_gram(total, weights, picked)

    def to_gram(self, w):
        return self.basis.L @ w

    def from_gram(self, q):
        return self.basis.L.T @ q

    def diagonal(self, weights, picked):
        return np.einsum("ij,ij->j", self.R, self._gram(weights, picked) @ self.R)

    def take(self, picked):
        return Mapped(self.G.take(picked), self.basis, self.metric)

    def outer_gram(self):
        values = self.toarray()
        return values @ values.T

    def toarray(self):
        return self.G.toarray() @ self.R
