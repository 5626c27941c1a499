r"""Kernel matrices most of whose entries are nothing: CSR, found by a search for neighbours.

Wendland's function is 0 beyond its radius. A Gaussian never is, but less than epsilon beyond another,

    exp(-gamma |x - z|^2) < epsilon     where     |x - z|^2 > log(1 / epsilon) / gamma,

and is set to 0 there. Entries are then off by epsilon at most, which is part of `accuracy`: the certificate goes on
speaking of the Gaussian kernel itself. It asks for no more than that every entry be that accurate; the matrix with
holes may well have negative eigenvalues. What it costs in the end is epsilon sum |beta_j| in every score.

Up to TREE features the pairs come from scikit-learn's KDTree on the scaled rows u, within a radius a trifle too large,
and their entries from the differences u - v, whichever way the tree has measured. So both of (i, j) and (j, i) have
the same entry or none, whatever rounding does at the border. Beyond, and for sparse rows, where trees are no use, all
entries are computed in tiles and the large ones kept: n^2 once, twice in fact. In either case they are counted first:
nothing is stored before its size has been held against `memory_limit`.

A product takes as many multiplications as there are entries.

Chapelle (2007), section 6.1; Wendland (1995) for kernels of compact support.
"""

from collections.abc import Callable
from functools import cached_property
from itertools import chain, pairwise

import numpy as np
import scipy.sparse as sp
from sklearn.neighbors import KDTree

from .crew import in_parts
from .kernel_matrix import MEMORY_LIMIT, PANEL, TILE, Columns, KernelMatrix, TiledKernel, _giga
from .kernels import DISTANCES, Kernel, Points, _smoothness, _wendland
from .losses import EPS, Array
from .matrix import Sparse

EPSILON = 1e-10
TREE = 15  # features from which a tree does not pay; scikit-learn's own NearestNeighbors has it so
WIDER = 1 + 1e-9  # of the radius: far more than roundings of a distance
PAIRS = 2**18  # that are computed at a time
COUNTED = 4096  # rows whose pairs are counted at a time


class SparseKernel(KernelMatrix):
    """A symmetric CSR matrix with ones on the diagonal; see sparse_kernel for how it is made."""

    def __init__(self, csr: sp.csr_array, accuracy: float, memory_limit: float = MEMORY_LIMIT, threads: int = 1):
        self.matrix = Sparse(csr, threads)
        self.n, self.accuracy, self.threads = csr.shape[0], accuracy, threads
        self.memory_limit = max(memory_limit - _bytes(csr.nnz), 0.0)  # what it leaves to others
        self._array: np.ndarray | None = None

    @property
    def held(self):
        """As an array."""
        return self._array is not None

    @property
    def work(self):
        return self.matrix.entries

    @cached_property
    def diagonal(self):
        return np.ones(self.n)

    def matvec(self, v, picked=None):
        support = np.flatnonzero(v)
        if picked is None and 2 * len(support) < self.n:  # it is symmetric
            return self.matrix.transpose_matvec(v[support], support)
        return self.matrix.matvec(v, picked)

    def block(self, rows, cols):
        return self.matrix.csr[rows][:, cols].toarray()

    def columns(self, picked, dtype=np.float32):
        return _SparseColumns(self, picked, dtype)

    def take(self, picked):
        csr = self.matrix.csr[picked][:, picked]
        csr.sort_indices()
        return SparseKernel(csr, self.accuracy, self.memory_limit, self.threads)

    def array(self):
        if self._array is None:
            if 8 * self.size > self.memory_limit:
                raise MemoryError(
                    f"the kernel matrix of {self.n} samples needs {_giga(8 * self.size)} as an array, memory_limit has "
                    f"room for {_giga(self.memory_limit)}; raise it, or take a solver that needs products only: "
                    "conjugate_gradient, smo."
                )
            self._array = self.matrix.csr.toarray()
        return self._array


class _SparseColumns(Columns):
    K: SparseKernel

    def __init__(self, K: SparseKernel, picked: np.ndarray, dtype=np.float32):
        super().__init__(K, picked, dtype)
        self.place = np.full(K.n, -1)
        self.place[picked] = np.arange(len(picked))

    def fill(self, rows, out):
        some = self.K.matrix.csr[rows]
        place = self.place[some.indices]
        inside = place >= 0
        tile, column = np.divmod(place[inside], TILE)
        out[...] = 0
        out[tile, np.repeat(np.arange(len(rows)), np.diff(some.indptr))[inside], column] = some.data[inside]

    def block(self, rows, cols):
        return self.K.block(rows, cols).astype(self.dtype, copy=False)


def sparse_kernel(
    kernel: Kernel, X, epsilon: float = EPSILON, memory_limit: float = MEMORY_LIMIT, threads: int = 1
) -> SparseKernel:
    """The matrix between the rows of X; a Gaussian's without the entries below epsilon."""
    if kernel.name not in DISTANCES:
        raise ValueError(f"a sparse kernel matrix is that of {' or '.join(DISTANCES)}, got {kernel.name!r}.")
    if not 0 < epsilon <= 0.1:
        raise ValueError(f"epsilon must be above 0 and at most 0.1, got {epsilon!r}.")
    points = X if isinstance(X, Points) else kernel.points(X)
    cutoff = epsilon if kernel.name == "rbf" else 0.0
    search = (_Tiles if points.sparse or points.d > TREE else _Tree)(points, cutoff, threads)
    n = len(points)
    evenly = PAIRS // COUNTED * np.arange(n + 1)
    counts = np.concatenate([np.zeros(1, dtype=np.int64), *search.over(evenly, search.count)])
    indptr = np.cumsum(counts)
    size = int(indptr[-1])
    if _bytes(size) > memory_limit:
        raise MemoryError(
            f"the kernel matrix of {n} samples has {size} entries that count and needs {_giga(_bytes(size))}, "
            f"memory_limit is {_giga(memory_limit)}; raise it, or gamma{', or epsilon' if cutoff else ''}, or have the "
            "matrix computed in tiles."
        )
    index = np.int32 if size < 2**31 else np.int64
    data, indices = np.empty(size), np.empty(size, dtype=index)

    def fill(begin: int, end: int) -> None:
        part = slice(indptr[begin], indptr[end])
        indices[part], values = search.entries(begin, end)
        data[part] = np.where(values > cutoff, values, 0.0)  # some that the wider radius has brought

    search.over(indptr, fill)
    csr = sp.csr_array((data, indices, indptr.astype(index)), shape=(n, n))
    csr.has_canonical_format = True
    return SparseKernel(csr, cutoff + search.accuracy, memory_limit, threads)


class _Tree:
    """Pairs by scikit-learn's tree, their entries from differences."""

    def __init__(self, points: Points, cutoff: float, threads: int):
        features, self.kernel, self.threads = points.features(), points.kernel, threads
        self.u = np.ascontiguousarray(features.values[:, : points.d])
        self.q = _smoothness(features.d)
        self.radius = WIDER * float(np.sqrt(-2 * np.log(cutoff)) if cutoff else 1.0)
        self.tree = KDTree(self.u)
        # as in kernels: the roundings of a function of a sum of squares, and of the rows themselves, whose error is
        # `steep` times as large in an entry at most
        longest = float(np.sqrt(np.max(np.einsum("ij,ij->i", self.u, self.u))))
        steep = (self.q + 1.0) * (self.q + 2.0) if self.kernel.name == "wendland" else 1.0
        self.accuracy = EPS * (self.q + 16 + steep * (points.d + 16 + 4 * longest))

    def over(self, sizes: np.ndarray, work: Callable) -> list:
        """work(begin, end) for parts of the rows, on all threads; sizes[i] pairs come before row i."""
        edges = [int(np.searchsorted(sizes, sizes[-1] * k // self.threads)) for k in range(self.threads)]

        def several(begin: int, end: int) -> list:
            cuts = np.searchsorted(sizes, np.arange(sizes[begin], sizes[end], PAIRS), side="right") - 1
            return [work(*pair) for pair in pairwise([*np.unique(cuts).tolist(), end])]

        return list(chain.from_iterable(in_parts([*edges, len(sizes) - 1], several)))

    def count(self, begin: int, end: int) -> np.ndarray:
        return self.tree.query_radius(self.u[begin:end], self.radius, count_only=True)

    def entries(self, begin: int, end: int) -> tuple[np.ndarray, Array]:
        found = self.tree.query_radius(self.u[begin:end], self.radius)
        for own in found:
            own.sort()
        i, j = np.repeat(np.arange(begin, end), [len(own) for own in found]), np.concatenate(found)
        apart = self.u[i]
        apart -= self.u[j]
        G = np.einsum("ij,ij->i", apart, apart)
        G *= -0.5
        np.exp(G, out=G) if self.kernel.name == "rbf" else _wendland(G, self.q)
        return j, G


class _Tiles:
    """All entries in tiles, some rows at a time: what is above the cutoff counts."""

    def __init__(self, points: Points, cutoff: float, threads: int):
        tiled = TiledKernel(points.kernel, points, threads=threads)
        self.columns, self.n = tiled.columns(np.arange(tiled.n), np.float64), tiled.n
        self.cutoff, self.accuracy = cutoff, tiled.accuracy

    def over(self, sizes: np.ndarray, work: Callable) -> list:
        step = max(PANEL // (8 * self.n), 1)
        return [work(first, min(first + step, self.n)) for first in range(0, self.n, step)]

    def _rows(self, begin: int, end: int) -> Array:
        tiles = np.empty((self.columns.tiles, end - begin, TILE))
        self.columns.fill(np.arange(begin, end), tiles)
        return tiles.transpose(1, 0, 2).reshape(end - begin, -1)[:, : self.n]

    def count(self, begin: int, end: int) -> np.ndarray:
        return np.count_nonzero(self._rows(begin, end) > self.cutoff, axis=1)

    def entries(self, begin: int, end: int) -> tuple[np.ndarray, Array]:
        rows = self._rows(begin, end)
        i, j = np.nonzero(rows > self.cutoff)
        return j, rows[i, j]


def _bytes(entries: int) -> int:
    return entries * (12 if entries < 2**31 else 16)
