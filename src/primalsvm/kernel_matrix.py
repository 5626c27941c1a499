"""Kernel matrices as operators: the same verbs whether K is stored, or computed in tiles when it is needed.

    K.matvec(v, picked)         K[picked] v in float64                one pass over the columns with v_j != 0
    K.rough_matvec(v, picked)   the same in float32, each with a bound on its error
    K.block(rows, cols)         K[rows, cols] in float64
    K.columns(picked)           those columns made ready for many rows in float32, see Columns
    K.diagonal, K.accuracy      k_ii, and entries are right to within accuracy * sqrt(k_ii k_jj)
    K.take(picked)              the matrix between some of the samples
    K.array()                   all of it, if the memory limit allows

A TiledKernel computes entries from the rows of X and keeps none of them, but for small matrices, and for those that a
solver asks for by array(). No n x n array is made before its size has been held against `memory_limit`.
"""

from collections import deque
from collections.abc import Callable
from functools import cached_property

import numpy as np

from .crew import in_parts
from .kernels import LEAST_ENTRY, Features, Kernel, Points
from .losses import EPS, Array
from .matrix import Dense

MEMORY_LIMIT = 2 * 2**30  # bytes, for kernel matrices and caches of their rows
SMALL = 2**21  # bytes of a float64 matrix that is stored without being asked for
TILE = 1024  # columns of a tile; with as many rows it stays in the cache while it is worked on
PANEL = 32 * 2**20  # bytes of features of the columns that one tiled product holds
EXP = 10  # multiplications that an exponential is worth
NOT_POSITIVE = "the kernel matrix is not positive semidefinite, so no lower bound on its optimum can be proven."


class Columns:
    """Columns of K made ready for many of its rows, in one precision; the rows must be among them."""

    def __init__(self, K: "KernelMatrix", picked: np.ndarray, dtype=np.float32):
        self.K, self.picked, self.dtype = K, picked, np.dtype(dtype)  # picked must rise
        self.tiles = max(1, -(-len(picked) // TILE))

    def maker(self, rows: np.ndarray) -> Callable[[int, np.ndarray], None] | None:
        """make(t, out) sets out[k, :] = K[rows[k], tile t of the columns]; out has shape (len(rows), TILE).

        None where tiles cannot be made one by one, on any thread; then there is another fill.
        """
        return None

    def fill(self, rows: np.ndarray, out: np.ndarray) -> None:
        """All tiles: out has shape (tiles, len(rows), TILE)."""
        make = self.maker(rows)
        assert make is not None

        def work(begin: int, end: int) -> None:
            for t in range(begin, end):
                make(t, out[t])

        in_parts(_cuts(self.tiles, self.K.threads, len(rows) * TILE), work)

    def block(self, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        """K[rows, cols] in the same precision."""
        raise NotImplementedError

    def gaussian_features(self) -> np.ndarray | None:
        """(d + 2, n) for compiled loops that make rows themselves, in float32; None where that is not possible."""
        return None


class KernelMatrix:
    """What all kernel matrices share."""

    n: int
    accuracy: float
    threads: int = 1
    memory_limit: float = MEMORY_LIMIT

    @cached_property
    def rooms(self) -> deque[np.ndarray]:
        """Memory that solvers of problems with this matrix, or with a part of it, have left for the next."""
        return deque()

    @property
    def shape(self) -> tuple[int, int]:
        return self.n, self.n

    @property
    def size(self) -> int:
        return self.n * self.n

    @property
    def held(self) -> bool:
        """Is all of it in memory?"""
        return True

    @property
    def work(self) -> int:
        """Multiplications of one pass over it."""
        return self.size

    @property
    def cheap(self) -> bool:
        """Does a product cost less than reading all entries would? Then rows are not worth keeping."""
        return not self.held and self.work < self.size

    @cached_property
    def diagonal(self) -> Array:
        raise NotImplementedError

    def matvec(self, v: Array, picked: np.ndarray | None = None) -> Array:
        raise NotImplementedError

    def rough_matvec(self, v: Array, picked: np.ndarray) -> tuple[Array, Array] | None:
        """(K[picked] v, a bound on the error of each) for half the price; None where there is no such way."""
        return None

    def block(self, rows: np.ndarray, cols: np.ndarray) -> Array:
        raise NotImplementedError

    def columns(self, picked: np.ndarray, dtype=np.float32) -> Columns:
        raise NotImplementedError

    def take(self, picked: np.ndarray) -> "KernelMatrix":
        raise NotImplementedError

    def array(self) -> np.ndarray:
        raise NotImplementedError

    def __array__(self, dtype=None, copy=None):
        return np.array(self.array(), dtype=dtype, copy=True if copy is None else copy)


class StoredKernel(KernelMatrix):
    """A float32 or float64 array."""

    def __init__(self, values: np.ndarray, accuracy: float | None = None, threads: int = 1):
        given = np.asarray(values)
        eps = float(np.finfo(given.dtype).eps) if given.dtype.kind == "f" else EPS
        dtype = np.float32 if given.dtype == np.float32 else np.float64
        self.values = np.ascontiguousarray(given, dtype=dtype)
        if self.values.ndim != 2 or self.values.shape[0] != self.values.shape[1]:
            raise ValueError(f"a kernel matrix must be square, got shape {given.shape}.")
        self.n, self.threads = len(self.values), threads
        self.accuracy = 8 * max(eps, EPS) if accuracy is None or accuracy < 0 else accuracy

    @cached_property
    def diagonal(self):
        return np.maximum(self.values.diagonal().astype(np.float64), 0.0)

    def matvec(self, v, picked=None):
        m = self.n if picked is None else len(picked)
        if not np.any(v):
            return np.zeros(m)
        if picked is None and 3 * np.count_nonzero(v) < m:  # K is symmetric: its rows will do, and fewer of them
            return Dense(self.values, self.threads).transpose_matvec(v)
        out = np.empty(m)
        whole = self.values.dtype == np.float64 and picked is None
        step = m if whole else max(1, PANEL // (8 * max(self.n, 1)))

        def work(begin: int, end: int) -> None:
            for first in range(begin, end, max(step, 1)):
                part = slice(first, min(first + step, end))
                rows = self.values[part] if picked is None else self.values[picked[part]]
                np.dot(rows.astype(np.float64, copy=False), v, out=out[part])

        in_parts(_cuts(m, self.threads, self.n), work)
        return out

    def block(self, rows, cols):
        return self.values[np.ix_(rows, cols)].astype(np.float64, copy=False)

    def columns(self, picked, dtype=np.float32):
        return _StoredColumns(self, picked, dtype)

    def take(self, picked):
        return StoredKernel(self.values[np.ix_(picked, picked)], self.accuracy, self.threads)

    def array(self):
        return self.values


class _StoredColumns(Columns):
    def maker(self, rows):
        values = self.K.array()

        def make(t: int, out: np.ndarray) -> None:
            cols = self.picked[t * TILE : (t + 1) * TILE]
            out[:, : len(cols)] = values[np.ix_(rows, cols)]

        return make

    def block(self, rows, cols):
        return self.K.array()[np.ix_(rows, cols)].astype(self.dtype, copy=False)


class TiledKernel(KernelMatrix):
    """k(x_i, x_j) between the rows of X, computed when needed."""

    def __init__(self, kernel: Kernel, X, memory_limit: float = MEMORY_LIMIT, threads: int = 1):
        if kernel.name == "precomputed":
            raise ValueError("a precomputed kernel matrix is stored already; take as_kernel_matrix.")
        self.kernel, self.memory_limit, self.threads = kernel, memory_limit, threads
        self.points = (X if isinstance(X, Points) else kernel.points(X)).without_constants()
        self.n = len(self.points)
        self.accuracy = self.points.accuracy
        self._stored: StoredKernel | None = None
        if 8 * self.size <= min(SMALL, memory_limit):
            self.array()

    @property
    def held(self):
        return self._stored is not None

    @property
    def work(self):
        return self.size * (1 if self.held else self.points.d + EXP)

    @cached_property
    def diagonal(self):
        return self.points.diagonal()

    def matvec(self, v, picked=None):
        if self._stored is not None:
            return self._stored.matvec(v, picked)
        picked = np.arange(self.n) if picked is None else picked
        support, weighs = np.flatnonzero(v), v[picked] != 0
        inside = len(support) > TILE and bool(np.isin(support, picked[weighs]).all())
        if inside and np.count_nonzero(weighs) == len(support):  # rows that are columns too need half of their entries
            out = np.empty(len(picked))
            out[weighs] = self._symmetric_matvec(picked[weighs], v[picked[weighs]])
            out[~weighs] = self._plain_matvec(v, support, picked[~weighs])
            return out
        return self._plain_matvec(v, support, picked)

    def _plain_matvec(self, v: Array, support: np.ndarray, picked: np.ndarray) -> Array:
        out, weights = np.zeros(len(picked)), v[support]

        def add(part: slice, tile: np.ndarray, at: slice) -> None:
            out[part] += tile @ weights[at]

        self._for_tiles(picked, support, np.float64, add)
        return out

    def _symmetric_matvec(self, picked: np.ndarray, weights: Array) -> Array:
        """K[picked, picked] weights: each tile is computed once, and used for its rows and for its columns."""
        count = len(picked)
        parts = len(_cuts(count, self.threads, count)) - 1

        def work(begin: int, end: int) -> Array:
            out, room = np.zeros(count), np.empty(TILE * TILE)
            for at in range(begin, end, TILE):
                rows = slice(at, min(at + TILE, end))
                mine = self.points.features(picked[rows])
                for cols in [*(slice(a, min(a + TILE, at)) for a in range(0, at, TILE)), rows]:
                    theirs = mine if cols == rows else self.points.features(picked[cols])
                    tile = room[: len(mine) * len(theirs)].reshape(len(mine), len(theirs))
                    self.kernel.between(mine, theirs, out=tile)
                    out[rows] += tile @ weights[cols]
                    if cols != rows:
                        out[cols] += weights[rows] @ tile
            return out

        return sum(in_parts([int(count * np.sqrt(k / parts)) for k in range(parts + 1)], work), np.zeros(count))

    def rough_matvec(self, v, picked):
        """In float32, for rbf: sum_j v_j k_ij, and beside it sum_j |v_j| k_ij and sum_j |v_j| q_j k_ij, of which the
        error is made; see Points.rough_error."""
        from .cpu_kernels import add_row_sums

        support = np.flatnonzero(v)
        if self.held or not self.points.has_rough:
            return None
        sizes = np.abs(v[support])
        weights = np.array([v[support], sizes, sizes * self.points.squares[support]])
        out = np.zeros((3, len(picked)))

        def add(part: slice, tile: np.ndarray, at: slice) -> None:
            add_row_sums(tile, np.ascontiguousarray(weights[:, at]), out, part.start)

        self._for_tiles(picked, support, np.float32, add)
        return out[0], self.points.rough_error(picked, out[1], out[2]) + LEAST_ENTRY * float(np.sum(sizes))

    def _for_tiles(
        self, rows: np.ndarray, cols: np.ndarray, dtype, use: Callable[[slice, np.ndarray, slice], None]
    ) -> None:
        """use(part of the rows, tile, part of the columns) for all tiles of K[rows, cols]."""
        step = max(TILE, PANEL // (np.dtype(dtype).itemsize * (self.points.d + 2)))
        for first in range(0, len(cols), step):
            features = self.points.features(cols[first : first + step], dtype)

            def work(begin: int, end: int, first: int = first, features: Features = features) -> None:
                room = np.empty(min(TILE, end - begin) * min(TILE, len(features)), dtype=dtype)
                for at in range(begin, end, TILE):
                    part = slice(at, min(at + TILE, end))
                    mine = self.points.features(rows[part], dtype)
                    for a in range(0, len(features), TILE):
                        some = features.part(slice(a, a + TILE))
                        tile = room[: len(mine) * len(some)].reshape(len(mine), len(some))
                        self.kernel.between(mine, some, out=tile)
                        use(part, tile, slice(first + a, first + a + len(some)))

            in_parts(_cuts(len(rows), self.threads, len(features)), work)

    def block(self, rows, cols):
        if self._stored is not None:
            return self._stored.block(rows, cols)
        out = np.empty((len(rows), len(cols)))
        self._fill(rows, cols, out)
        return out

    def _fill(self, rows, cols, out: np.ndarray) -> None:
        features = self.points.features(cols)

        def work(begin: int, end: int) -> None:
            for at in range(begin, end, TILE):
                some = slice(at, min(at + TILE, end))
                mine = self.points.features(some if isinstance(rows, slice) else rows[some])
                for a in range(0, len(features), TILE):
                    out[some, a : a + TILE] = self.kernel.between(mine, features.part(slice(a, a + TILE)))

        in_parts(_cuts(len(out), self.threads, len(features)), work)

    def columns(self, picked, dtype=np.float32):
        if self._stored is not None:
            return self._stored.columns(picked, dtype)
        return _TiledColumns(self, picked, np.float64 if self.points.wide else dtype)

    def take(self, picked):
        if self._stored is not None:
            return self._stored.take(picked)
        part = TiledKernel(self.kernel, self.points.take(picked), self.memory_limit, self.threads)
        part.rooms = self.rooms
        return part

    def array(self):
        if self._stored is None:
            if 8 * self.size > self.memory_limit:
                raise MemoryError(
                    f"the kernel matrix of {self.n} samples needs {_giga(8 * self.size)}, memory_limit is "
                    f"{_giga(self.memory_limit)}; raise it, or take a solver that computes K in tiles: smo."
                )
            self._stored = StoredKernel(self._whole(), self.accuracy, self.threads)
        return self._stored.values

    def _whole(self) -> Array:
        """All of K: one triangle is computed, the other is its mirror image."""
        out, features = np.empty((self.n, self.n)), self.points.features(slice(0, self.n))
        parts = len(_cuts(self.n, self.threads, self.n)) - 1

        def work(begin: int, end: int) -> None:
            for at in range(begin, end, TILE):
                stop = min(at + TILE, end)
                for a in range(0, stop, TILE):
                    rows, cols = slice(at, stop), slice(a, min(a + TILE, stop))
                    out[rows, cols] = self.kernel.between(features.part(rows), features.part(cols))
                    out[cols, rows] = out[rows, cols].T

        in_parts([int(self.n * np.sqrt(k / parts)) for k in range(parts + 1)], work)  # as many entries for each
        return out


class _TiledColumns(Columns):
    K: TiledKernel

    def __init__(self, K: TiledKernel, picked: np.ndarray, dtype=np.float32):
        super().__init__(K, picked, dtype)
        self.features = K.points.features(slice(0, K.n) if len(picked) == K.n else picked, dtype)

    def gaussian_features(self):
        plain = self.K.kernel.name == "rbf" and not self.K.points.sparse and not self.K.points.rough
        return np.ascontiguousarray(self.features.values.T) if plain and self.dtype == np.float32 else None

    def _some(self, rows: np.ndarray) -> Features:
        return self.features.part(np.searchsorted(self.picked, rows))

    def block(self, rows, cols):
        mine, theirs = self._some(rows), self._some(cols)
        out = np.empty((len(rows), len(cols)), dtype=self.dtype)

        def work(begin: int, end: int) -> None:
            self.K.kernel.between(mine.part(slice(begin, end)), theirs, out=out[begin:end])

        in_parts(_cuts(len(rows), self.K.threads, len(cols)), work)
        return out

    def maker(self, rows):
        kernel, n, mine = self.K.kernel, len(self.picked), self._some(rows)

        def make(t: int, out: np.ndarray) -> None:
            theirs = self.features.part(slice(t * TILE, (t + 1) * TILE))
            if (t + 1) * TILE <= n and out.dtype == self.dtype:
                kernel.between(mine, theirs, out=out)
            else:
                out[:, : n - t * TILE] = kernel.between(mine, theirs)

        return make


def as_kernel_matrix(K, accuracy: float | None = None) -> KernelMatrix:
    """An array or an operator as an operator."""
    return K if isinstance(K, KernelMatrix) else StoredKernel(K, accuracy)


def kernel_matrix(kernel: Kernel, Z, memory_limit: float = MEMORY_LIMIT, threads: int = 1) -> KernelMatrix:
    """The matrix between the rows of Z; for "precomputed", Z is it. Positive, or an error says that it is not."""
    kernel.require_positive()
    if kernel.name == "precomputed":
        K: KernelMatrix = StoredKernel(Z, threads=threads)
        require_positive(K)
        return K
    tiled = TiledKernel(kernel, Z, memory_limit, threads)
    if callable(kernel.name):
        require_positive(StoredKernel(tiled.array(), 8 * EPS))
        tiled.accuracy = 8 * EPS
    return tiled


def require_positive(K: KernelMatrix) -> None:
    """A matrix that is not positive has no dual bound: refuse it rather than print a number that means nothing."""
    values = K.array()
    norms = np.sqrt(np.maximum(values.diagonal(), 0.0)).astype(np.float64)
    scales = np.outer(norms, norms)
    if (values.diagonal() < 0).any() or values[scales == 0].any():  # |k_ij| <= sqrt(k_ii k_jj) in every positive matrix
        raise ValueError(NOT_POSITIVE)
    scaled = np.divide(values, scales, out=np.zeros(scales.shape), where=scales > 0)
    if not np.allclose(scaled, scaled.T, rtol=0.0, atol=K.accuracy):
        raise ValueError("the kernel matrix is not symmetric.")
    try:
        np.linalg.cholesky(scaled + (K.n * K.accuracy + 1e-300) * np.eye(K.n))
    except np.linalg.LinAlgError:
        raise ValueError(NOT_POSITIVE) from None


def _cuts(count: int, threads: int, work: int) -> list[int]:
    """Where to cut `count` pieces for the threads, each piece of so many entries."""
    parts = max(1, min(threads, count, count * work // 100_000))
    return [count * k // parts for k in range(parts + 1)]


def _giga(size: float) -> str:
    return f"{size / 2**30:.3g} GiB"
