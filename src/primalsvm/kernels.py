r"""Kernels: k(x, z) between blocks of rows, dense or sparse, with a bound on the rounding in every entry.

| name        | k(x, z)                                                                               | positive       |
|-------------|---------------------------------------------------------------------------------------|----------------|
| linear      | <x, z>                                                                                | yes            |
| rbf         | exp(-gamma |x - z|^2)                                                                 | yes            |
| poly        | (gamma <x, z> + coef0)^degree                                                         | for coef0 >= 0 |
| laplacian   | exp(-gamma |x - z|_1)                                                                 | yes            |
| wendland    | (1 - r)_+^(q+1) ((q + 1) r + 1),   r = gamma |x - z|,  q = floor(d / 2) + 2           | yes            |
| sigmoid     | tanh(gamma <x, z> + coef0)                                                            | no             |
| precomputed | X is the matrix                                                                       | is checked     |
| a function  | of two blocks of rows                                                                 | is checked     |

A block is one matrix product and one function of its entries. For kernels of the distance the rows are first shifted by
their mean (distances do not notice, rounding does), scaled, and given two more columns,

    (u, 1, -|u|^2 / 2)  and  (v, -|v|^2 / 2, 1),    whose product is  -|u - v|^2 / 2,

so that nothing but the exponential is left to do. The sum cancels for close points: where that could matter, those
are found in the block and their distance is summed up from differences.

An entry is computed to within `accuracy` * sqrt(k(x, x) k(z, z)) in float64; the certificate allows for that much. A
float32 block is for solvers that correct themselves.

Wendland's function has compact support, two continuous derivatives, and is positive for up to d features: Wendland
(1995), Schaback (1995).
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from .losses import EPS, Array
from .matrix import Sparse, as_matrix

KERNELS = ("linear", "rbf", "poly", "laplacian", "wendland", "sigmoid", "precomputed")
DISTANCES = ("rbf", "wendland")
ROUGH = 1e-11  # accuracy of rbf and wendland entries from which close points are computed from their differences
CLOSE = 0.01  # of |u|^2 + |v|^2: closer points are close
FILLED = 0.25  # share of nonzeros from which the products of zeros cost less than the bookkeeping of sparse ones
LEAST_WIDTH = 32  # features from which that is worth a thought
WIDE = 1e3  # half of this in an exponent and float32 would be wrong in the fourth digit
RANGE = 1e30  # of float32, with room
LEAST_EXPONENT = -80.0  # exp(-80) is 1e-35, whose square float32 has no room for: nothing beside any accuracy
UNIT32 = 2.0**-24  # unit roundoff of float32
LEAST_ENTRY = 1e-30  # of a float32 block; exp(LEAST_EXPONENT), which is taken for all that is less, is 1e-35
ROUGH_EXPONENT = 0.05  # error of a float32 exponent, at most
CONSTANTS = 32  # features, and rows, from which it pays to look for constant columns
FEATURES = 2**22  # bytes of features of all rows that are kept
CHUNK = 2**19  # bytes of rows that are prepared at a time
PANEL_BYTES = 2**19  # of sparse rows made dense for one product: they should stay in the cache


@dataclass(frozen=True)
class Kernel:
    """A kernel function; see the module's text."""

    name: str | Callable = "rbf"
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0

    def __post_init__(self):
        if not callable(self.name) and self.name not in KERNELS:
            raise ValueError(f"kernel must be one of {', '.join(KERNELS)}, or a function, got {self.name!r}.")
        if self.name in ("rbf", "poly", "laplacian", "wendland", "sigmoid") and not 0 <= self.gamma < np.inf:
            raise ValueError(f"gamma must be a finite number of at least 0, got {self.gamma!r}.")
        if self.name == "poly" and not (self.degree == int(self.degree) and self.degree >= 1):
            raise ValueError(f"degree must be a whole number above 0, got {self.degree!r}.")

    @property
    def positive(self) -> bool:
        """Is every matrix of it positive semidefinite? Those of a function are looked at one by one."""
        return not (self.name == "sigmoid" or (self.name == "poly" and self.coef0 < 0))

    def require_positive(self) -> None:
        if not self.positive:
            detail = " with coef0 < 0" if self.name == "poly" else ""
            raise ValueError(
                f"the {self.name} kernel{detail} is not positive semidefinite: its problem is not convex, and no lower "
                "bound on its optimum can be proven. Take rbf, poly with coef0 >= 0, laplacian, wendland or linear."
            )

    def points(self, Z) -> "Points":
        """The rows of Z as this kernel sees them."""
        return Points(self, Z)

    def between(self, A: "Features", B: "Features", out: np.ndarray | None = None) -> np.ndarray:
        """k(a, b) for all rows of A and B, which must come from the same Points or from some that share a centre."""
        from .cpu_kernels import exp_rows

        a, b = A.values, B.values
        if callable(self.name):
            return _into(np.asarray(self.name(a, b), dtype=A.dtype), out)
        if self.name == "laplacian":
            from sklearn.metrics.pairwise import manhattan_distances  # here: it takes a second, and few need it

            G = manhattan_distances(a, b)
            G *= -self.gamma
            return _into(np.exp(G, out=G).astype(A.dtype, copy=False), out)
        G = _product(a, b, self.name in DISTANCES, out)
        if self.name in DISTANCES:
            if A.rough:
                np.minimum(G, 0.0, out=G)
                _mend(G, a, b)
            if self.name == "rbf" and G.dtype == np.float32 and G.flags.c_contiguous:
                exp_rows(G, np.float32(LEAST_EXPONENT))
                return G
            np.clip(G, LEAST_EXPONENT, 0.0, out=G)  # NumPy's exponential is slow where it underflows
        if self.name == "rbf":
            np.exp(G, out=G)
        elif self.name == "wendland":
            _wendland(G, _smoothness(A.d))
        elif self.name in ("poly", "sigmoid"):
            G *= self.gamma
            G += self.coef0
            _power(G, int(self.degree)) if self.name == "poly" else np.tanh(G, out=G)
        return G


@dataclass(frozen=True)
class Features:
    """Some rows, in the form in which their products are taken."""

    values: Any  # (m, d) or with two more columns (m, d + 2): dense or CSR
    d: int  # features of the data, constant ones too
    dtype: Any
    rough: bool = False  # the cancellation for close points matters

    def __len__(self) -> int:
        return self.values.shape[0]

    def part(self, picked) -> "Features":
        return Features(self.values[picked], self.d, self.dtype, self.rough)


class Points:
    """The rows of Z under a kernel: their features, k(x, x), and the accuracy of entries between them."""

    def __init__(self, kernel: Kernel, Z, like: "Points | None" = None):
        self.kernel = kernel
        n, d = Z.shape
        self.Z = _stored(kernel, Z)
        self.index: np.ndarray | None = None  # which rows of Z, None for all
        self.columns: np.ndarray | None = None  # and which columns: see without_constants
        self.centre: Array | None = None
        if kernel.name in DISTANCES and not sp.issparse(self.Z):
            self.centre = np.zeros(d) if n == 0 else np.mean(self.Z, axis=0, dtype=np.float64)
        if like is not None:  # points that meet others must be stored and shifted as those are
            self.centre = like.centre
            if like.sparse != self.sparse:
                self.Z = sp.csr_array(self.Z) if like.sparse else self.Z.toarray()
        self._prepared: dict[Any, Any] = {}  # features of all rows of Z by precision; those who take some share it
        squares = self._squares()
        largest = float(np.max(squares, initial=0.0))
        self._lengths = _scale(kernel) ** 2 * squares if kernel.name == "rbf" else None  # of all rows of Z
        self.accuracy, self.rough = _accuracy(kernel, d, largest)
        self.wide = _is_wide(kernel, d, largest)
        if like is not None:
            self.rough |= like.rough
            self.wide |= like.wide

    @property
    def sparse(self) -> bool:
        return sp.issparse(self.Z)

    @property
    def d(self) -> int:
        return self.Z.shape[1] if self.columns is None else len(self.columns)

    def __len__(self) -> int:
        return self.Z.shape[0] if self.index is None else len(self.index)

    def take(self, picked: np.ndarray) -> "Points":
        """Some of them; Z is not copied."""
        some = copy(self)
        some.index = picked if self.index is None else self.index[picked]
        return some

    def without_constants(self) -> "Points":
        """The same without the columns that are the same number in all rows: distances do not notice."""
        if self.kernel.name not in DISTANCES or self.sparse or self.d < CONSTANTS or len(self) < CONSTANTS:
            return self
        changes = np.zeros(self.Z.shape[1], dtype=bool)
        index = np.arange(self.Z.shape[0]) if self.index is None else self.index
        for first in range(0, len(index), 1024):
            changes |= (self.Z[index[first : first + 1024]] != self.Z[index[0]]).any(axis=0)
        fewer = copy(self)
        fewer.columns, fewer._prepared = np.flatnonzero(changes) if not changes.all() else None, {}
        return fewer

    def _squares(self) -> Array:
        """|x - centre|^2"""
        if self.sparse:
            return Sparse(self.Z if self.index is None else self.Z[self.index]).squared_norms
        out = np.empty(len(self))
        for first in range(0, len(self), 1024):
            part = slice(first, first + 1024)
            rows = self._rows(part if self.index is None else self.index[part], np.float64)
            np.einsum("ij,ij->i", rows, rows, out=out[first : first + 1024])
        return out

    def _rows(self, picked, dtype):
        """These rows of Z, shifted."""
        rows = self.Z[picked]
        if self.columns is not None:
            rows = rows[:, self.columns]
        rows = rows.astype(dtype if self.centre is None else np.float64)
        if self.centre is not None:
            rows -= self.centre if self.columns is None else self.centre[self.columns]
        return rows

    def features(self, picked=slice(None), dtype=np.float64) -> Features:
        """Those of the picked rows; where those of all rows of Z are few, or sparse, they are made once and shared."""
        n, d = self.Z.shape
        dtype, picked = np.dtype(dtype), picked if self.index is None else self.index[picked]
        if self.sparse or 8 * n * (self.d + 2) <= FEATURES:
            if dtype not in self._prepared:
                make = self._sparse_features if self.sparse else self._dense_features
                self._prepared[dtype] = make(slice(0, n), dtype)
            return Features(self._prepared[dtype][picked], d, dtype, self.rough)
        return Features(self._dense_features(picked, dtype), d, dtype, self.rough)

    def _dense_features(self, picked, dtype) -> np.ndarray:
        """Of these rows of Z."""
        if self.kernel.name not in DISTANCES:
            return self._rows(picked, dtype)
        picked = np.arange(self.Z.shape[0])[picked] if isinstance(picked, slice) else picked
        width = self.d
        values = np.empty((len(picked), width + 2), dtype=dtype)
        step = max(1, CHUNK // (8 * max(width, 1)))
        for first in range(0, len(picked), step):  # so that the float64 rows stay in the cache
            part = values[first : first + step]
            rows = self._rows(picked[first : first + step], np.float64)
            rows *= _scale(self.kernel)
            part[:, :width] = rows
            part[:, width] = 1.0
            part[:, width + 1] = -0.5 * np.einsum("ij,ij->i", rows, rows)
        return values

    def _sparse_features(self, picked, dtype) -> sp.csr_array:
        """The same in CSR: for kernels of the distance each row has two more entries, 1 and -|u|^2 / 2."""
        if self.kernel.name not in DISTANCES:
            return self._rows(picked, dtype)
        Z = self.Z[picked]
        n, d = Z.shape
        scaled = Z.astype(np.float64)
        scaled.data *= _scale(self.kernel)
        indptr = Z.indptr + 2 * np.arange(n + 1, dtype=Z.indptr.dtype)
        ends = indptr[1:]
        own = np.ones(indptr[-1], dtype=bool)
        own[ends - 1] = own[ends - 2] = False
        data, indices = np.empty(len(own), dtype=dtype), np.empty(len(own), dtype=Z.indices.dtype)
        data[own], indices[own] = scaled.data, Z.indices
        data[ends - 2], indices[ends - 2] = 1.0, d
        data[ends - 1], indices[ends - 1] = -0.5 * Sparse(scaled).squared_norms, d + 1
        return sp.csr_array((data, indices, indptr), shape=(n, d + 2))

    @property
    def squares(self) -> Array:
        """|u_i|^2 of rbf: -|u_i - u_j|^2 / 2 is the exponent."""
        assert self._lengths is not None
        return self._lengths if self.index is None else self._lengths[self.index]

    @property
    def terms(self) -> Any:
        """Of how many products an entry between row i and others is the sum."""
        if not self.sparse:
            return np.full(len(self), self.d + 2)
        counts = np.diff(self.Z.indptr) + 2
        return counts if self.index is None else counts[self.index]

    @property
    def has_rough(self) -> bool:
        """Is there a bound on the error of float32 entries that is worth something?"""
        if self._lengths is None or self.rough or self.wide:
            return False
        terms, squares = np.max(self.terms, initial=0), np.max(self.squares, initial=0.0)
        return 2 * (int(terms) + 4) * float(squares) * UNIT32 <= ROUGH_EXPONENT

    def rough_error(self, picked: np.ndarray, sizes: Array, weighted: Array) -> Array:
        r"""A bound on the error of sum_j v_j k_ij with float32 entries, for the picked rows i of rbf.

        `sizes` are sum_j |v_j| k_ij and `weighted` sum_j |v_j| q_j k_ij, q_j = |u_j|^2, with the same entries. With the
        unit roundoff u and m products in a row, the exponent t is off by at most  (m + 1.5) u (q_i + q_j): m roundings
        of a sum whose terms have sizes that add up to q_i + q_j, one of each feature, and one of the q themselves. With
        2 u |t| of exp_rows, |t| <= q_i + q_j, that is less than  d = (m + 4) u (q_i + q_j).  An entry is off by
        exp(d) - 1 <= 1.03 d  of itself, and by 8 u of the exponential: 16 are taken. The rounding of float64 is nothing
        beside all that.
        """
        exponent = (self.terms[picked] + 4) * (self.squares[picked] * sizes + weighted)
        return 1.05 * UNIT32 * (exponent + 16 * sizes)

    def rough_share(self, others: "Points") -> Array | None:
        """For each row, of which share of itself an entry with one of the others is off at most; see rough_error."""
        if self._lengths is None or self.rough or self.wide or not len(self):
            return None
        error = (self.terms + 4) * UNIT32 * (self.squares + np.max(others.squares, initial=0.0))
        return error + 16 * UNIT32 if float(np.max(error)) <= ROUGH_EXPONENT else None

    def diagonal(self) -> Array:
        """k(x, x)"""
        name, kernel = self.kernel.name, self.kernel
        if name in ("rbf", "laplacian", "wendland"):
            return np.ones(len(self))
        if name in ("linear", "poly"):
            squares = self._squares()
            return squares if name == "linear" else (kernel.gamma * squares + kernel.coef0) ** int(kernel.degree)
        each = (self.features(slice(i, i + 1)) for i in range(len(self)))
        return np.array([float(kernel.between(point, point)[0, 0]) for point in each])


# what a block is made of ----------------------------------------------------------------------------------------------
def _scale(kernel: Kernel) -> float:
    """|u - v|^2 / 2 is the exponent of rbf; |u - v| is wendland's r."""
    return float(np.sqrt(2 * kernel.gamma)) if kernel.name == "rbf" else float(kernel.gamma)


def _accuracy(kernel: Kernel, d: int, largest: float) -> tuple[float, bool]:
    """(accuracy of a float64 entry, whether close points need care) for rows of squared length up to `largest`.

    With u the rounded rows, -|u - v|^2 / 2 is a sum of d + 2 terms whose sizes add up to (|u| + |v|)^2 / 2 at most; the
    roundings of the rows and of their squares are a few of the same size.
    """
    terms = (d + 16) * EPS
    if kernel.name not in DISTANCES:
        return terms * (int(kernel.degree) + 2) if kernel.name == "poly" else terms, False
    exponent = 2 * terms * _scale(kernel) ** 2 * largest  # error of -|u - v|^2 / 2, whatever the distance
    steep = 1.0  # at most this times the exponent's error is the entry's
    # a relative error of the exponent t moves exp(t) by t exp(t) times as much, 1/e at most; the rounding of the rows
    # themselves is left, of size |u| and not of size |u - v|
    mended = terms / CLOSE + 4 * EPS * _scale(kernel) * float(np.sqrt(largest))
    if kernel.name == "wendland":
        q = _smoothness(d)
        steep = (q + 1.0) * (q + 2.0)
        mended *= steep
    plain = steep * exponent
    rough = plain > ROUGH
    return (q + 16 if kernel.name == "wendland" else 16) * EPS + (min(plain, mended) if rough else plain), rough


def _is_wide(kernel: Kernel, d: int, largest: float) -> bool:
    """Would float32 be wrong in the fourth digit, or too small for the numbers?"""
    if kernel.name in DISTANCES:
        return _scale(kernel) ** 2 * largest > WIDE
    if kernel.name == "laplacian":  # rows are not shifted there: |x|_1 <= sqrt(d) |x|
        return kernel.gamma * float(np.sqrt(d * largest)) > WIDE or largest > RANGE
    degree = int(kernel.degree) if kernel.name == "poly" else 1
    return max(kernel.gamma * largest if degree > 1 else largest, abs(kernel.coef0), largest) > RANGE ** (1 / degree)


def _smoothness(d: int) -> int:
    return d // 2 + 2


def _stored(kernel: Kernel, Z):
    """Rows with few entries as CSR, others dense: whatever they came as."""
    n, d = Z.shape
    if callable(kernel.name) or kernel.name == "laplacian":
        return Z.tocsr() if sp.issparse(Z) else Z
    filled = (Z.nnz if sp.issparse(Z) else np.count_nonzero(Z)) > FILLED * n * d
    if filled or d < LEAST_WIDTH:
        return Z.toarray() if sp.issparse(Z) else Z
    return as_matrix(Z if sp.issparse(Z) else _compressed(Z), ordered=False).csr  # type: ignore[union-attr]


def _compressed(Z: np.ndarray) -> sp.csr_array:
    """A dense array as CSR; SciPy's way goes through triples of 20 bytes."""
    from .cpu_kernels import compress_rows

    n, d = Z.shape
    indptr = np.concatenate([[0], np.cumsum(np.count_nonzero(Z, axis=1))])
    data, indices = np.empty(indptr[-1], dtype=Z.dtype), np.empty(indptr[-1], dtype=np.int32)
    compress_rows(np.ascontiguousarray(Z), indptr, data, indices)
    csr = sp.csr_array((data, indices, indptr), shape=(n, d))
    csr.has_canonical_format = True
    return csr


def _product(a, b, turned: bool, out: np.ndarray | None) -> np.ndarray:
    """a b', with the last two columns of one of them exchanged: (u, 1, h) times (v, g, 1)."""
    from .cpu_kernels import multiply_rows

    if not sp.issparse(b):
        if turned:
            a, b = (_turned(a), b) if len(a) < len(b) else (a, _turned(b))
        return np.dot(a, b.T, out=out) if out is not None else np.dot(a, b.T)
    out = np.empty((a.shape[0], b.shape[0]), dtype=b.dtype) if out is None else out
    most = max(PANEL_BYTES // (b.dtype.itemsize * b.shape[1]), 32)
    width = -(-b.shape[0] // max(-(-b.shape[0] // most), 1)) or 1  # of as many panels as that takes, all alike
    for first in range(0, b.shape[0], width):
        columns = np.ascontiguousarray(b[first : first + width].toarray().T)
        if turned:
            columns[-2:] = columns[:-3:-1].copy()
        multiply_rows(a.data, a.indices, a.indptr, columns, first, out)
    return out


def _turned(rows: np.ndarray) -> np.ndarray:
    rows = rows.copy()
    rows[:, -2:] = rows[:, :-3:-1]
    return rows


def _mend(G: np.ndarray, a, b) -> None:
    """-|u - v|^2 / 2 of close points from their differences."""
    half_a, half_b = (_column(x, -1) for x in (a, b))
    i, j = np.nonzero(CLOSE * (half_a[:, None] + half_b) <= G)  # both negative: -|u - v|^2 / 2 is above
    d = a.shape[1] - 2
    for first in range(0, len(i), 8192):
        some_i, some_j = i[first : first + 8192], j[first : first + 8192]
        if sp.issparse(a):
            difference = (sp.csr_array(a)[some_i] - sp.csr_array(b)[some_j])[:, :d]
            squares = np.asarray(difference.multiply(difference).sum(axis=1)).ravel()
        else:
            difference = a[some_i, :d] - b[some_j, :d]
            squares = np.einsum("ij,ij->i", difference, difference)
        G[some_i, some_j] = -0.5 * squares


def _column(values, k: int) -> np.ndarray:
    column = values[:, [k]]
    return np.asarray(column.todense() if sp.issparse(column) else column).ravel()


def _wendland(G: np.ndarray, q: int) -> None:
    """From -r^2 / 2 to the kernel, in place."""
    r = np.sqrt(-2.0 * G)
    np.subtract(1.0, r, out=G)
    np.maximum(G, 0.0, out=G)
    np.power(G, q + 1, out=G)
    r *= q + 1
    r += 1.0
    G *= r


def _power(G: np.ndarray, degree: int) -> None:
    """In place; NumPy's own power is ten times slower than products."""
    base = G.copy() if degree > 1 else G
    for _ in range(degree - 1):
        G *= base


def _into(block: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    if out is None:
        return block
    out[...] = block
    return out
