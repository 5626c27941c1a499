"""What X and K are: the one seam between the algorithms and how numbers are stored.

Everything above says

    X.matvec(w)                 X w                          (n,)   one pass
    X.transpose_matvec(a)       X' a                         (d,)   one pass
    X.gram(weights, rows)       X[rows]' diag(weights) X[rows]   (d, d)
    X.squared_norms             |x_i|^2                      (n,)   computed once
    X.rows                      a NamedTuple of plain arrays for compiled loops over rows

and never asks whether X is dense or sparse, float32 or float64. Results are always float64 and every sum is taken
in float64, so the precision of an answer does not depend on the precision of the data.

`matvec_terms` and `transpose_terms` say how many roundings an entry of a product can have gone through: the
certificate turns them into an error bound. transpose_matvec sums over blocks of rows for that reason: the number is
block + n / block instead of n.
"""

from contextlib import AbstractContextManager
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from .losses import Array

BLOCK_BYTES = 4 * 2**20  # a float64 block of rows of this size stays in the L2/L3 cache while it is used
BLAS_WORK = 5_000_000  # entries of X below which a second BLAS thread costs more, in waiting, than it gives
BLOCK_ROWS = 4096  # keeps the error bound of a sum over n rows near 4096 + n / 4096 roundings


def blas_threads(entries: int, jobs: int = 1) -> AbstractContextManager:
    """Inside, BLAS uses one thread, where X is small or `jobs` threads of ours share the machine already."""
    one = entries < BLAS_WORK or jobs > 1
    return threadpool_limits(1 if one else None, user_api="blas")


class DenseRows(NamedTuple):
    """Rows of a dense matrix, for compiled code."""

    values: np.ndarray  # (n, d) C-contiguous


class SparseRows(NamedTuple):
    """Rows of a CSR matrix, for compiled code."""

    data: np.ndarray  # (nnz,)
    indices: np.ndarray  # (nnz,)
    indptr: np.ndarray  # (n + 1,)


class Dense:
    """A C-contiguous float32 or float64 array; never copied, never upcast as a whole."""

    def __init__(self, values: np.ndarray):
        self.values = values
        self.shape = values.shape
        self.dtype = values.dtype
        self.entries = values.size
        self.rows = DenseRows(values)
        self.matvec_terms = values.shape[1]
        self.transpose_terms = min(len(values), BLOCK_ROWS) + len(values) // BLOCK_ROWS + 1

    def _blocks(self, rows: int | None = None):
        """Float64 views or copies of consecutive blocks of rows."""
        n, d = self.shape
        size = rows or max(1, BLOCK_BYTES // (8 * max(d, 1)))
        for begin in range(0, n, size):
            part = slice(begin, min(begin + size, n))
            yield part, self.values[part].astype(np.float64, copy=False)

    def matvec(self, w: Array) -> Array:
        if self.dtype == np.float64:
            return self.values @ w
        out = np.empty(self.shape[0])
        for part, block in self._blocks():
            np.dot(block, w, out=out[part])
        return out

    def transpose_matvec(self, a: Array) -> Array:
        out = np.zeros(self.shape[1])
        for part, block in self._blocks(BLOCK_ROWS):
            out += a[part] @ block
        return out

    def gram(self, weights: Array, rows: np.ndarray) -> Array:
        d = self.shape[1]
        out = np.zeros((d, d))
        size = max(1, BLOCK_BYTES // (8 * max(d, 1)))
        for begin in range(0, len(rows), size):
            part = slice(begin, begin + size)
            block = self.values[rows[part]].astype(np.float64, copy=False)
            out += (block.T * weights[part]) @ block
        return out

    def take(self, rows: np.ndarray) -> "Dense":
        return Dense(self.values[rows])

    def toarray(self) -> Array:
        return self.values.astype(np.float64)

    @cached_property
    def squared_norms(self) -> Array:
        out = np.empty(self.shape[0])
        for part, block in self._blocks():
            np.einsum("ij,ij->i", block, block, out=out[part])
        return out


class Sparse:
    """A CSR matrix with 32- or 64-bit indices, float32 or float64."""

    def __init__(self, csr: sp.csr_matrix | sp.csr_array):
        self.csr = csr
        self.shape = csr.shape
        self.dtype = csr.dtype
        self.entries = int(csr.nnz)
        self.rows = SparseRows(csr.data, csr.indices, csr.indptr)
        lengths = np.diff(csr.indptr)
        self.matvec_terms = int(lengths.max(initial=0))
        self.transpose_terms = min(csr.shape[0], BLOCK_ROWS) + csr.shape[0] // BLOCK_ROWS + 1

    def _blocks(self):
        """Float64 CSR pieces of BLOCK_ROWS rows each, sharing the index arrays."""
        n, d = self.shape
        data, indices, indptr = self.rows
        for begin in range(0, n, BLOCK_ROWS):
            end = min(begin + BLOCK_ROWS, n)
            inside = slice(indptr[begin], indptr[end])
            values = data[inside].astype(np.float64, copy=False)
            piece = sp.csr_array((end - begin, d), dtype=np.float64)
            # set by hand: the constructor would check, and for 64-bit indices copy, what is already known to be sound
            piece.data, piece.indices, piece.indptr = values, indices[inside], indptr[begin : end + 1] - indptr[begin]
            yield slice(begin, end), piece

    def matvec(self, w: Array) -> Array:
        if self.dtype == np.float64:
            return self.csr @ w
        out = np.empty(self.shape[0])
        for part, block in self._blocks():
            out[part] = block @ w
        return out

    def transpose_matvec(self, a: Array) -> Array:
        out = np.zeros(self.shape[1])
        for part, block in self._blocks():
            out += block.T @ a[part]
        return out

    def gram(self, weights: Array, rows: np.ndarray) -> Array:
        picked = self.csr[rows].astype(np.float64, copy=False)
        n, d = picked.shape
        if picked.nnz > 0.05 * n * d:  # then the products of zeros cost less than the bookkeeping of a sparse product
            return Dense(picked.toarray()).gram(weights, np.arange(n))
        return (picked.T @ sp.diags_array(weights) @ picked).toarray()

    def take(self, rows: np.ndarray) -> "Sparse":
        return Sparse(self.csr[rows])

    def toarray(self) -> Array:
        return self.csr.toarray().astype(np.float64)

    @cached_property
    def squared_norms(self) -> Array:
        data = self.csr.data.astype(np.float64)
        return sp.csr_array((data * data, self.csr.indices, self.csr.indptr), shape=self.shape).sum(axis=1)


Matrix = Dense | Sparse


def as_matrix(X) -> Matrix:
    """X in the form the algorithms use. Copies only what must be: CSC and other layouts, integers, Fortran order."""
    if isinstance(X, Dense | Sparse):
        return X
    dtype = X.dtype if hasattr(X, "dtype") and X.dtype in (np.float32, np.float64) else np.float64
    if sp.issparse(X):
        csr = X.tocsr()
        if csr.dtype != dtype:
            csr = csr.astype(dtype)
        if not csr.has_canonical_format:  # a repeated entry would be counted wrongly by the error bounds
            csr = csr.copy() if csr is X else csr
            csr.sum_duplicates()
        return Sparse(csr)
    values = np.ascontiguousarray(X, dtype=dtype)
    if values.ndim != 2:
        raise ValueError(f"X must be a matrix (n_samples, n_features), got {values.ndim} dimension(s).")
    return Dense(values)
