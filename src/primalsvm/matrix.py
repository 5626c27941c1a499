"""What X and K are: the one seam between the algorithms and how numbers are stored.

Everything above says

    X.matvec(w)                 X w                          (n,)   one pass
    X.transpose_matvec(a)       X' a                         (d,)   one pass over the rows with a_i != 0
    X.both_ways(w, a)           the two together                    one pass, where rows are short
    X.gram(weights, picked)     X[picked]' diag(weights) X[picked]   (d, d);  X.add_gram adds it to a lower triangle
    X.normal_matvec(w, weights, picked)      that times w    (d,)   one pass over these rows
    X.squared_norms             |x_i|^2                      (n,)   computed once
    X.rows                      a NamedTuple of plain arrays for compiled loops over rows, where X is in memory

and never asks whether X is dense or sparse, float32 or float64. The two products take `picked`, positions of rows, to
mean X[picked] without making it. Results are always float64 and every sum is taken in float64, so the precision of an
answer does not depend on the precision of the data.

`threads` of them work on consecutive parts of the rows. Each part is summed for itself and the parts in their order:
the same number of threads gives the same bits.

`matvec_terms` and `transpose_terms` say how many roundings an entry of a product can have gone through: the
certificate turns them into an error bound. transpose_matvec sums over blocks of rows for that reason: the number is
block + n / block instead of n.
"""

import ctypes
from contextlib import AbstractContextManager, suppress
from functools import cache, cached_property, partial
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from threadpoolctl import ThreadpoolController

from .crew import in_parts
from .losses import Array
from .rows import AlikeRows, DenseRows, SparseRows
from .triangles import add_square

BLOCK_BYTES = 4 * 2**20  # a float64 block of rows of this size stays in the L2/L3 cache while it is used
NARROW, SMALL_BYTES = 200, 2**19  # features up to which NumPy's square of a smaller block beats one added in place
BLOCK_ROWS = 4096  # keeps the error bound of a sum over n rows near 4096 + n / 4096 roundings
THREAD_WORK = 60_000  # entries of X: what a thread should have to do, at least, to be worth calling (50 microseconds)
CACHE = 4_000_000  # bytes of rows from which they are asked for ahead of time
MIXED, SHORT, COPIED = 5000, 16, 32_000_000  # rows, entries of one on average, bytes: what is copied by length
MANY_ROWS = 100_000  # from which vectors of all samples are worth keeping the pages of
M_TRIM_THRESHOLD, KEPT = -1, 128 * 2**20  # as in malloc.h, and bytes
LONG = 255  # entries; which of longer rows is the longer one does not matter
FILLED = 0.3  # share of nonzeros from which the products of zeros cost less than the bookkeeping of a sparse gram

ALL = np.zeros(0, dtype=np.int64)


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()  # finding the libraries takes milliseconds: once is enough


def one_blas_thread() -> AbstractContextManager:
    """Inside, BLAS uses one thread: ours share the machine already, and its own wait by spinning."""
    return _blas().limit(limits=1, user_api="blas")


@cache
def keep_pages() -> None:
    """glibc hands freed memory back to the system as soon as there are 16 MB of it or so, and vectors of half a million
    samples are then made of new pages each time, a sixth of a fit. Once it has freed a block of nearly 32 MB, untouched
    or not, blocks of up to that size stay in its heap (mallopt(3), M_MMAP_THRESHOLD), and of that it is told to keep
    KEPT at the end: in this order, as glibc then stops to learn from what is freed. All of the process is meant.
    Elsewhere this does nothing."""
    np.empty(32 * 2**20 - 2**16, dtype=np.uint8)
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(M_TRIM_THRESHOLD, KEPT)


def _sum(parts: list[Array]) -> Array:
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total


class Matrix:
    """The verbs; and what dense and sparse share: products with rows through compiled loops, on several threads."""

    in_memory: ClassVar[bool] = True  # has `rows`
    orthonormal: ClassVar[bool] = False  # the features are functions that are: see `reduced`
    metric: Array | None = None  # of the coordinates that gram speaks in; None: those of w, where it is the identity
    shape: tuple[int, int]
    dtype: np.dtype
    entries: int
    rows: DenseRows | SparseRows | AlikeRows
    matvec_terms: int
    threads: int = 1
    block: int  # rows that transpose_matvec sums up at a time
    bytes: int
    order: np.ndarray = ALL  # in which the rows lie in memory, where that is not their own
    _whole: tuple[Array, Array] | None = None  # the last gram of all rows, and its weights

    def _cuts(self, count: int, power: int = 1) -> list[int]:
        """Where to cut so many rows for the threads; `power` 2: the work grows with the square of a row's length."""
        work = count * (self.entries / max(self.shape[0], 1)) ** power
        parts = max(1, min(self.threads, int(work / THREAD_WORK), count))
        return [count * k // parts for k in range(parts + 1)]

    @property
    def transpose_terms(self) -> int:
        n = self.shape[0]
        return min(n, self.block) + n // self.block + self.threads + 1

    def matvec(self, w: Array, picked: np.ndarray | None = None) -> Array:
        from .cpu_kernels import dot_rows

        out = np.empty(self.shape[0] if picked is None else len(picked))
        which = self._which(picked)
        in_parts(self._cuts(len(out)), lambda begin, end: dot_rows(self.rows, *which, begin, end, w, out))
        return out

    def transpose_matvec(self, a: Array, picked: np.ndarray | None = None) -> Array:
        from .cpu_kernels import add_rows

        which = self._which(picked)

        def work(begin: int, end: int) -> Array:
            total = np.zeros(self.shape[1])
            piece = np.empty(self.shape[1] if end - begin > self.block else 0)
            for first in range(begin, end, self.block):
                into = piece if len(piece) else total
                piece[:] = 0.0
                add_rows(self.rows, *which, first, min(first + self.block, end), a, into)
                if len(piece):
                    total += piece
            return total

        return _sum(in_parts(self._cuts(len(a)), work))

    def both_ways(self, w: Array, a: Array) -> tuple[Array, Array]:
        """(X w, X' a), block by block: the second product finds the rows in the cache."""
        from .cpu_kernels import add_rows, dot_rows

        if not self.in_memory:
            return self.matvec(w), self.transpose_matvec(a)
        out, which = np.empty(self.shape[0]), self._which(None)

        def work(begin: int, end: int) -> Array:
            total, piece = np.zeros(self.shape[1]), np.empty(self.shape[1])
            for first in range(begin, end, self.block):
                last = min(first + self.block, end)
                dot_rows(self.rows, *which, first, last, w, out)
                piece[:] = 0.0
                add_rows(self.rows, *which, first, last, a, piece)
                total += piece
            return total

        return out, _sum(in_parts(self._cuts(len(out)), work))

    def normal_matvec(self, w: Array, weights: Array, picked: np.ndarray) -> Array:
        """X[picked]' diag(weights) X[picked] w, for which each row is read once."""
        from .cpu_kernels import normal_rows

        _, order, far = self._which(picked)

        def work(begin: int, end: int) -> Array:
            total = np.zeros(self.shape[1])
            normal_rows(self.rows, order, far, begin, end, weights, w, total)
            return total

        return _sum(in_parts(self._cuts(len(picked)), work))

    def _which(self, picked: np.ndarray | None) -> tuple[int, np.ndarray, bool]:
        """What compiled loops are told: which rows, in which order, and are they far from each other in memory."""
        from .cpu_kernels import EVERY, ORDERED, PICKED

        if picked is None:
            return (ORDERED if len(self.order) else EVERY), self.order, False
        return PICKED, picked, len(picked) > 0 and self.bytes > CACHE

    def where(self, mask: np.ndarray) -> np.ndarray:
        """The positions of these rows in the order in which they lie in memory."""
        from .cpu_kernels import keep_marked

        if not len(self.order):
            return np.flatnonzero(mask)
        found = np.empty_like(self.order)
        return found[: keep_marked(self.order, mask, found)]

    def gram(self, weights: Array, picked: np.ndarray) -> Array:
        """X[picked]' diag(weights) X[picked]; weights below 0 take rows out of an earlier one.

        That of all rows is kept: every class against the rest begins with it.
        """
        whole = len(picked) == self.shape[0] and np.array_equal(picked, np.arange(len(picked)))
        if whole and (last := self._whole) is not None and np.array_equal(last[0], weights):
            return last[1].copy()
        out = self._gram(weights, picked)
        if whole:
            self._whole = (weights.copy(), out.copy())
        return out

    def add_gram(self, total: Array, weights: Array, picked: np.ndarray) -> None:
        """gram(weights, picked) added to the lower triangle of `total`; what is above it has no meaning then."""
        if self.in_memory and len(picked) < self.shape[0]:
            self._add_gram(total, weights, picked)
        else:
            total += self.gram(weights, picked)

    def _gram(self, weights: Array, picked: np.ndarray) -> Array:
        total = np.zeros((self.shape[1], self.shape[1]))
        self._add_gram(total, weights, picked)
        total = np.tril(total)
        return total + np.tril(total, -1).T

    def _add_gram(self, total: Array, weights: Array, picked: np.ndarray) -> None:
        raise NotImplementedError

    def to_gram(self, w: Array) -> Array:
        """A right-hand side w of an equation in w, in the coordinates that gram speaks in."""
        return w

    def from_gram(self, q: Array) -> Array:
        """Its solution back: with metric M and q = from_gram^-1(p),  q' M q = |p|^2."""
        return q

    def diagonal(self, weights: Array, picked: np.ndarray) -> Array:
        """The diagonal of gram(weights, picked)."""
        raise NotImplementedError

    def take(self, picked: np.ndarray) -> "Matrix":
        """X[picked], a copy."""
        raise NotImplementedError

    def outer_gram(self) -> Array:
        """X X'"""
        raise NotImplementedError

    def toarray(self) -> Array:
        raise NotImplementedError

    @cached_property
    def squared_norms(self) -> Array:
        from .cpu_kernels import square_rows

        out = np.empty(self.shape[0])
        in_parts(self._cuts(len(out)), lambda begin, end: square_rows(self.rows, begin, end, out))
        return out


class Dense(Matrix):
    """A C-contiguous float32 or float64 array; never copied, never upcast as a whole."""

    def __init__(self, values: np.ndarray, threads: int = 1):
        self.values = values
        self.shape = values.shape
        self.dtype = values.dtype
        self.entries = values.size
        self.rows = DenseRows(values)
        self.bytes = values.nbytes
        self.threads = threads
        self.block = BLOCK_ROWS
        self.matvec_terms = values.shape[1]

    # BLAS is faster where rows are long. Short ones are all about memory, and its calls take turns on Python's lock.
    def matvec(self, w, picked=None):
        if picked is not None or self.dtype != np.float64 or self.shape[1] <= NARROW:
            return super().matvec(w, picked)
        out = np.empty(self.shape[0])
        in_parts(self._cuts(len(out)), lambda begin, end: np.dot(self.values[begin:end], w, out=out[begin:end]))
        return out

    def transpose_matvec(self, a, picked=None):
        few = picked is not None or self.shape[1] <= NARROW or 2 * np.count_nonzero(a) < len(a)
        if few or self.dtype != np.float64:
            return super().transpose_matvec(a, picked)

        def work(begin: int, end: int) -> Array:
            total = np.zeros(self.shape[1])
            for first in range(begin, end, self.block):
                part = slice(first, min(first + self.block, end))
                total += a[part] @ self.values[part]
            return total

        return _sum(in_parts(self._cuts(len(a)), work))

    def both_ways(self, w, a):
        if self.shape[1] <= NARROW:
            return super().both_ways(w, a)
        return self.matvec(w), self.transpose_matvec(a)

    def _add_gram(self, total, weights, picked):
        negative = weights < 0  # a product of a block with itself has one sign
        if negative.any():
            self._add_squares(total, -weights[negative], picked[negative], -1.0)
            weights, picked = weights[~negative], picked[~negative]
        if len(picked):
            self._add_squares(total, weights, picked, 1.0)

    def _add_squares(self, total: Array, weights: Array, picked: np.ndarray, sign: float) -> None:
        """sign gram(weights, picked) added to the lower triangle of `total`, for weights above 0."""
        d, narrow = self.shape[1], self.shape[1] <= NARROW
        fit = (SMALL_BYTES if narrow else BLOCK_BYTES) // (8 * max(d, 1))
        size = max(1, fit, min(d, 8 * fit))  # more where they are few: to add a product costs d^2 too
        even = bool((weights == weights[0]).all())
        scale = sign * float(weights[0]) if even else sign

        def work(begin: int, end: int) -> Array:
            into = total if begin == 0 else np.zeros((d, d))
            for first in range(begin, end, size):
                part = slice(first, min(first + size, end))
                block = np.take(self.values, picked[part], axis=0).astype(np.float64, copy=False)
                if not even:
                    block *= np.sqrt(weights[part])[:, None]
                if narrow:
                    into += scale * (block.T @ block)
                else:
                    add_square(into, block, scale)
            return into

        _sum(in_parts(self._cuts(len(picked), 2), work))

    def diagonal(self, weights, picked):
        return weights @ self.values[picked].astype(np.float64) ** 2

    def take(self, picked: np.ndarray) -> "Dense":
        return Dense(np.take(self.values, picked, axis=0), self.threads)  # four times as fast as values[picked]

    def outer_gram(self):
        values = self.values.astype(np.float64, copy=False)
        return values @ values.T

    def toarray(self):
        return self.values.astype(np.float64)


class Sparse(Matrix):
    """A CSR matrix in canonical form, float32 or float64; 64-bit indices are kept only where 32 do not suffice."""

    rows: SparseRows | AlikeRows

    def __init__(self, csr: sp.csr_matrix | sp.csr_array, threads: int = 1, ordered: bool = True):
        self.csr = csr
        self.shape = csr.shape
        self.dtype = csr.dtype
        self.entries = int(csr.nnz)
        self.bytes = csr.data.nbytes + csr.indices.nbytes + csr.indptr.nbytes
        self.threads = threads
        self.rows, self.order = _rows_of(csr, self._cuts(csr.shape[0]), ordered)
        # a block's sum of length d should cost little beside its entries
        self.block = max(BLOCK_ROWS, 4 * self.shape[1] * self.shape[0] // max(self.entries, 1))
        self.matvec_terms = int(np.diff(csr.indptr).max(initial=0))

    def _add_gram(self, total, weights, picked):
        from .cpu_kernels import add_gram

        n, d = self.shape
        if self.entries > FILLED * n * d:
            Dense(self.csr[picked].toarray(), self.threads)._add_gram(total, weights, np.arange(len(picked)))
            return

        def work(begin: int, end: int) -> Array:
            into = total if begin == 0 else np.zeros((d, d))
            add_gram(self.rows, picked, begin, end, weights, into)
            return into

        _sum(in_parts(self._cuts(len(picked), 2), work))

    def diagonal(self, weights, picked):
        from .cpu_kernels import add_squares

        out = np.zeros(self.shape[1])
        add_squares(self.rows, picked, weights, out)
        return out

    def take(self, picked: np.ndarray) -> "Sparse":
        return Sparse(self.csr[picked], self.threads)

    def outer_gram(self):
        csr = self.csr.astype(np.float64, copy=False)
        return (csr @ csr.T).toarray()

    def toarray(self):
        return self.csr.toarray().astype(np.float64)


def _rows_of(csr, cuts: list[int], ordered: bool) -> tuple[SparseRows | AlikeRows, np.ndarray]:
    """The rows of a CSR matrix, and the order in which they lie in memory: ALL if it is their own.

    A processor guesses where a loop ends. With short rows of many lengths it guesses wrongly for each of them, and
    that costs as much as a dozen products. So those are copied, 4096 of them by length at a time.
    """
    from .cpu_kernels import gather_rows, order_by_length, values_of_rows

    n, value = csr.shape[0], np.empty(csr.shape[0], dtype=csr.dtype)
    alike = csr.nnz > 0 and (
        _one_number(csr.data, value) or all(in_parts(cuts, partial(values_of_rows, csr.data, csr.indptr, value)))
    )
    begin, end, indices, order, data = csr.indptr[:-1], csr.indptr[1:], csr.indices, ALL, csr.data
    size = csr.nnz * (csr.indices.itemsize + (0 if alike else csr.data.itemsize))
    if ordered and n >= MIXED and csr.nnz <= SHORT * n and size <= COPIED and _differ(end - begin):
        first, last, order, starts = (np.empty(n, dtype=kind) for kind in (begin.dtype, end.dtype, np.int64, np.int64))
        indices, data = (array if alike and array is data else np.empty_like(array) for array in (indices, data))

        def move(low: int, high: int) -> None:
            order_by_length(csr.indptr, BLOCK_ROWS, low, high, order, starts, first, last)
            gather_rows(csr.indices, begin, end, order, starts, low, high, indices)
            if not alike:
                gather_rows(csr.data, begin, end, order, starts, low, high, data)

        in_parts([min(-(-cut // BLOCK_ROWS) * BLOCK_ROWS, n) for cut in cuts], move)
        begin, end = first, last
    return (AlikeRows(value, indices, begin, end) if alike else SparseRows(data, indices, begin, end)), order


def _one_number(data: np.ndarray, value: np.ndarray) -> bool:
    """Are these all the same? Then `value` is filled with it. A look at a few says no as a rule."""
    few, first = data[: -(-len(data) // 100)], data[0]
    same = bool((few == first).all() and (data == first).all())
    if same:
        value[:] = first
    return same


def _differ(lengths: np.ndarray) -> bool:
    """Are a third of these not the most frequent one?"""
    return 3 * np.bincount(np.minimum(lengths, LONG)).max() < 2 * len(lengths)


def as_matrix(X, threads: int = 1, ordered: bool = True) -> Dense | Sparse:
    """X in the form the algorithms use. Copies only what must be: CSC and other layouts, integers, Fortran order, and
    64-bit indices where 32 bits suffice, which make every pass a third faster. And, unless `ordered` is False, short
    sparse rows, which are put in a better order for many products."""
    if isinstance(X, Dense | Sparse):
        return X
    if np.shape(X)[:1] >= (MANY_ROWS,):
        keep_pages()
    dtype = X.dtype if hasattr(X, "dtype") and X.dtype in (np.float32, np.float64) else np.float64
    if sp.issparse(X):
        csr = X.tocsr()
        if csr.dtype != dtype:
            csr = csr.astype(dtype)
        if not csr.has_canonical_format:  # a repeated entry would be counted wrongly by the error bounds
            csr = csr.copy() if csr is X else csr
            csr.sum_duplicates()
        if max(csr.nnz, *csr.shape) < 2**31 and (csr.indices.dtype != np.int32 or csr.indptr.dtype != np.int32):
            narrow = (csr.data, csr.indices.astype(np.int32), csr.indptr.astype(np.int32))
            csr = type(csr)(narrow, shape=csr.shape)
            csr.has_canonical_format = True
        return Sparse(csr, threads, ordered)
    values = np.ascontiguousarray(X, dtype=dtype)
    if values.ndim != 2:
        raise ValueError(f"X must be a matrix (n_samples, n_features), got {values.ndim} dimension(s).")
    return Dense(values, threads)
