r"""Linear equations of samples under a kernel, one after the other, when few of the samples change in between.

    (K_SS + D) x + t = r,     sum x - weight t = balance          (t = 0 and no second equation without a weight)

A Cholesky factor of A = K_FF + D costs |F|^3 / 3 and is kept. While S differs from F by few samples, those border it,

    [A   G] [x]   [r]       G: the columns of those that came, unit vectors of those that left (to hold x_i = 0), ones
    [G'  M] [z] = [q]       (M - G' A^-1 G) z = q - G' A^-1 r

at |F|^2 for each that is new in the border. The residual of every bordered solution is looked at, and where it is not
small the factor is made anew. D is raised to what the accuracy of K's entries asks for, and further where Cholesky
still finds no positive matrix: the solution is then one of K_SS + the raised D, and `ridge` says so.

Rows of K are kept too, so that each is computed once, as long as they fit. Where K_SS itself does not fit, the equation
is solved by conjugate gradients, |S|^2 entries of K a step, preconditioned by

    M = F F' + diag(D + residual)          K_SS ~ F F' of low rank, see `low_rank`

which has the diagonal of K_SS + D, and is that diagonal where there is no room for F. The residual keeps the equation
well conditioned at a small D too: D alone would leave E / D to the steps, E = K_SS - F F'.

Chapelle (2007), appendix B for the ones; the bordering is the Schur complement method of active sets, Gill, Murray,
Saunders, Wright (1990).
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError

from .kernel_matrix import TILE, Columns, KernelMatrix
from .losses import EPS, Array
from .low_rank import Part, random_cholesky
from .newton_path import conjugate_gradient
from .rows import DenseRows
from .triangles import factorise, solve_lower

SLAB = 256  # rows that are computed at a time
SHARE = 0.5  # of the memory limit for rows of K, and the same for the factor
BORDER = 0.3  # of the factorised samples may have come or gone; beyond that a new factor is cheaper
RESIDUAL = 1e-12  # of the largest term of the equation
REFINEMENTS = 3  # until it is that small; then the factor is made anew
RAISES = 10  # of D, a hundredfold each
CG_STEPS, CG_TOL = 250, 1e-5
EFFORT = 10  # products with K_SS that its low-rank factor may cost


class KernelRows:
    """Rows of K: those of a stored matrix, or computed once and kept while they fit."""

    def __init__(self, K: KernelMatrix):
        self.K, self.n = K, K.n
        self.room = K.n if K.held else int(SHARE * K.memory_limit / (8 * max(K.n, 1)))  # rows
        self.held = np.arange(K.n if K.held else 0)
        self.values = K.array() if K.held else np.zeros((0, K.n))
        self.place = np.full(K.n, -1)  # (n,) of a row among those held
        self.place[self.held] = self.held
        self.entries = 0  # of K that were looked at

    @cached_property
    def columns(self) -> Columns:
        """All columns, made ready for rows to be computed, few at a time."""
        return self.K.columns(np.arange(self.n), np.float64)

    def product(self, v: Array, picked: np.ndarray) -> Array:
        """K[:, picked] v"""
        from .cpu_kernels import PICKED, add_rows

        self.entries += len(picked) * self.n
        out = np.zeros(self.n)
        if not self.K.cheap and self._hold(picked):
            add_rows(DenseRows(self.values), PICKED, self.place[picked], False, 0, len(picked), v, out)
            return out
        out[picked] = v
        return self.K.matvec(out)

    def block(self, rows: np.ndarray, cols: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
        from .cpu_kernels import gather_block

        self.entries += len(rows) * len(cols)
        if not self._hold(rows):
            return self.K.block(rows, cols).astype(dtype, copy=False)
        out: np.ndarray = np.empty((len(rows), len(cols)), dtype=dtype)
        gather_block(self.values, self.place[rows], cols, out)
        return out

    def _hold(self, picked: np.ndarray) -> bool:
        """Have these rows at hand; False where they do not fit."""
        if len(picked) > self.room:
            return False
        new = picked[self.place[picked] < 0]
        if not len(new):
            return True
        if len(self.held) + len(new) > self.room:  # let go of those that are not asked for
            kept = picked[self.place[picked] >= 0]
            self.values[: len(kept)] = self.values[self.place[kept]]
            self._list(kept)
        if not len(self.values):  # pages that are never written to cost nothing
            self.values = np.empty((min(self.room, self.n), self.n))
        size = len(self.held)
        for first in range(0, len(new), SLAB):
            some = new[first : first + SLAB]
            tiles = np.empty((self.columns.tiles, len(some), TILE))
            self.columns.fill(some, tiles)
            rows = tiles.transpose(1, 0, 2).reshape(len(some), -1)
            self.values[size + first : size + first + len(some)] = rows[:, : self.n]
        self._list(np.concatenate([self.held, new]))
        return True

    def _list(self, held: np.ndarray) -> None:
        self.place[self.held] = -1
        self.held = held
        self.place[held] = np.arange(len(held))


class Factor:
    """L L' = K_FF + D, and L^-1 G for the samples that came or left since."""

    def __init__(self, rows: KernelRows, members: np.ndarray, ridge: Array):
        self.rows, self.members, self.ridge = rows, members, ridge  # ridge: D of all samples
        self.lower = np.ascontiguousarray(rows.block(members, members))
        self.lower[np.diag_indices_from(self.lower)] += ridge[members]
        if not factorise(self.lower):
            raise LinAlgError("not positive definite")
        self.place = np.full(rows.n, -1)
        self.place[members] = np.arange(len(members))
        self.column: dict[int, int] = {}  # of a sample in the border
        self.border = np.zeros((len(members), 0))
        self.ones = solve_lower(self.lower, np.ones(len(members)))

    def solve(self, S: np.ndarray, rhs: Array, balance: float, weight: float | None) -> tuple[Array, float]:
        known = self.place[S] >= 0
        came, left = S[~known], np.setdiff1d(self.members, S, assume_unique=True)
        k, size = len(came), len(came) + len(left)
        Z, M, q = self._border(came, left), np.zeros((size, size)), np.zeros(size)
        M[:k, :k] = self.rows.block(came, came) + np.diag(self.ridge[came])
        q[:k] = rhs[~known]
        if weight is not None:
            edge = np.append(np.ones(k), np.zeros(size - k))
            Z, q = np.column_stack([Z, self.ones]), np.append(q, balance)
            M = np.block([[M, edge[:, None]], [edge, np.array(-weight)]])
        inside = np.zeros(len(self.members))
        inside[self.place[S[known]]] = rhs[known]
        z = solve_lower(self.lower, inside)
        y = np.linalg.solve(M - Z.T @ Z, q - Z.T @ z)
        x = solve_lower(self.lower, z - Z @ y, transposed=True)
        out = np.empty(len(S))
        out[known], out[~known] = x[self.place[S[known]]], y[:k]
        return out, float(y[-1]) if weight is not None else 0.0

    def _border(self, came: np.ndarray, left: np.ndarray) -> Array:
        """L^-1 (K_F,came, unit vectors of left)"""
        wanted = [*came.tolist(), *left.tolist()]
        new = np.array([i for i in wanted if i not in self.column], dtype=np.int64)
        if len(new):
            columns, inside = np.zeros((len(self.members), len(new))), self.place[new] >= 0
            columns[self.place[new[inside]], np.flatnonzero(inside)] = 1.0
            columns[:, ~inside] = self.rows.block(new[~inside], self.members).T
            self.column.update(zip(new.tolist(), range(len(self.column), len(self.column) + len(new)), strict=True))
            self.border = np.column_stack([self.border, solve_lower(self.lower, columns)])
        return self.border[:, [self.column[i] for i in wanted]]


class KernelSystem:
    """The equations of one kernel matrix."""

    def __init__(self, K: KernelMatrix):
        self.K, self.rows = K, KernelRows(K)
        self.factor: Factor | None = None
        self.given = np.zeros(0)  # D that the factor was asked for

    def solve(
        self, S: np.ndarray, D: Array, rhs: Array, balance: float, weight: float | None
    ) -> tuple[Array, float, Array]:
        """(x, t, K[:, S] x); D is that of all samples, rhs that of S."""
        if 8 * len(S) ** 2 > SHARE * self.K.memory_limit:
            x, t = self._by_products(S, D[S], rhs, balance, weight)
            return x, t, self.rows.product(x, S)
        solved = self._refined(S, rhs, balance, weight) if self._near(S, D) else None
        if solved is None:
            self.factor, self.given = self._factorise(S, D), D
            solved = self._refined(S, rhs, balance, weight, accept=True)
        return solved or (np.zeros(len(S)), 0.0, np.zeros(self.K.n))  # no factor of what is not even numbers

    def _refined(
        self, S: np.ndarray, rhs: Array, balance: float, weight: float | None, accept: bool = False
    ) -> tuple[Array, float, Array] | None:
        """The solution by the factor at hand, its residual solved for again where it is large; None if that fails."""
        if self.factor is None:
            return None
        x, t, scores, left, missing = np.zeros(len(S)), 0.0, np.zeros(self.K.n), rhs, balance
        for _ in range(REFINEMENTS):
            try:
                dx, dt = self.factor.solve(S, left, missing, weight)
            except LinAlgError:
                return None
            x, t, scores = x + dx, t + dt, scores + self.rows.product(dx, S)
            pull, inside = self.factor.ridge[S] * x, scores[S]
            left, missing = rhs - inside - pull - t, balance - float(np.sum(x)) + (weight or 0.0) * t
            if np.max(np.abs(left)) <= RESIDUAL * max(np.max(np.abs(term)) for term in (rhs, inside, pull, t)):
                return x, t, scores
        return (x, t, scores) if accept else None

    def _near(self, S: np.ndarray, D: Array) -> bool:
        """Is the factor that of about these samples?"""
        if self.factor is None or not np.array_equal(D, self.given):
            return False
        room = BORDER * len(self.factor.members)
        return len(np.setxor1d(S, self.factor.members, assume_unique=True)) <= room and len(self.factor.column) <= room

    def _factorise(self, S: np.ndarray, D: Array) -> Factor | None:
        least = _least(self.K, S)
        for _ in range(RAISES):
            try:
                return Factor(self.rows, S, np.maximum(D, least))
            except LinAlgError:
                least = max(100 * least, EPS * float(np.min(D)))
        return None

    def _by_products(
        self, S: np.ndarray, D: Array, rhs: Array, balance: float, weight: float | None
    ) -> tuple[Array, float]:
        precondition = self._preconditioner(S, D)

        def apply(x: Array) -> Array:
            self.rows.entries += len(S) ** 2
            whole = np.zeros(self.K.n)
            whole[S] = x
            return self.K.matvec(whole, S) + D * x

        def solve(side: Array) -> Array:
            return conjugate_gradient(apply, side, lambda u, v: float(u @ v), precondition, tol=CG_TOL, steps=CG_STEPS)

        x = solve(rhs)
        if weight is None:
            return x, 0.0
        ones = solve(np.ones(len(S)))
        t = (float(np.sum(x)) - balance) / (float(np.sum(ones)) + weight)
        return x - t * ones, t

    def _preconditioner(self, S: np.ndarray, D: Array) -> Callable[[Array], Array]:
        """M^-1, as good as room and effort allow."""
        trace = float(np.sum(self.K.diagonal[S]))
        room = SHARE * self.K.memory_limit / (8 * len(S) * 2)  # F, and an orthogonal basis of it
        worth = np.sqrt(EFFORT * len(S) * self.K.work / self.K.size / 4)  # 4 |S| k^2 operations for k columns
        # what is missing from K_SS is at most D, and more of it would not help, when its trace is
        low = random_cholesky(Part(self.K, S), int(min(room, worth)), float(np.min(D)) / trace if trace else 0.0)
        self.rows.entries += low.rank * len(S)
        return low.inverse(np.maximum(D + low.residual, _least(self.K, S)))


def _least(K: KernelMatrix, S: np.ndarray) -> float:
    """More than the entries of K_SS and the roundings of its factor are off."""
    return (K.accuracy + (len(S) + 1) * EPS) * float(np.sum(K.diagonal[S]))
