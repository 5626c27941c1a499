r"""Low-rank approximations of a kernel matrix: some of its columns speak for all.

    K ~ F F',      F = K[:, J] L^-T,      K_JJ = L L',  L = F[J] lower triangular

What is missing, E = K - F F', is positive semidefinite and zero in the rows and columns of J. So its diagonal, the
`residual`, says it all: |E_ij| <= sqrt(e_i e_j), and |E| is at most its sum, the trace error. J is chosen

    uniform            at random, each sample alike: Williams and Seeger's Nystroem method
    pivoted_cholesky   where the residual is largest, or at least half of that
    random_cholesky    at random, in proportion to the residual at that time

The last is never far from the best rank there is, whatever the matrix. The first leaves out small clusters, the second
goes to outliers first. None looks at more of K than the columns of J, n k entries, and O(n k^2) operations.

Columns come many at a time. Some samples are proposed, and in the matrix between them, Schur's complement H of what is
chosen already, Cholesky's method takes one after the other, leaving out those whose pivot has by then fallen below
their bar: half of the largest residual at the beginning of the round; or, so that every draw has the chance that it
would have had on its own, u_i times the residual that i was proposed with, u_i uniform on 0..1. Only then come the
columns of those that were taken.

Pivots that are rounding are never taken: after k pivots the entries of a matrix of order k + 1 and the roundings of its
factor, each to within accuracy sqrt(k_ii k_jj), move the next pivot by up to (k + 1) (accuracy + eps) k_ii.

As an operator: products with F F', and its inverse with a diagonal D > 0 added. With D^-1/2 F = Q R,

    (D + F F')^-1 = D^-1/2 (Q (I + R R')^-1 Q' + I - Q Q') D^-1/2

is as accurate as a solution by Cholesky of the whole matrix; Woodbury's formula would lose as many digits as D is
smaller than F F'. As a preconditioner of K + D it is best with D + residual in place of D: that is the diagonal of
K + D, and samples that F hardly knows are neither multiplied by 1 / D nor left to it.

Fine and Scheinberg (2001); Chen, Epperly, Tropp and Webber (2023), and their draws by rejection: Epperly, Tropp and
Webber (2024), Algorithm 2.1.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, qr, solve_triangular

from .kernel_matrix import KernelMatrix, as_kernel_matrix
from .losses import Array

BLOCK = 128  # samples that are proposed at a time
GREED = 0.5  # of the largest residual is large enough

Propose = Callable[[Array, int], tuple[np.ndarray, Array]]  # residual of those open, how many: samples, their bars


@dataclass(frozen=True)
class LowRank:
    """F F' in place of K."""

    samples: np.ndarray  # (k,) J, in the order in which they were chosen
    factor: np.ndarray  # (n, k) F
    residual: Array  # (n,) of the diagonal of K
    trace: float  # of K

    @property
    def rank(self) -> int:
        return len(self.samples)

    @property
    def trace_error(self) -> float:
        return float(np.sum(self.residual)) / self.trace if self.trace > 0 else 0.0

    def matvec(self, v: Array) -> Array:
        F = self.factor
        return (F @ (F.T @ v.astype(F.dtype, copy=False))).astype(np.float64, copy=False)

    def solve(self, D: Array | float, v: Array) -> Array:
        """(D + F F')^-1 v, where D is a positive number or the diagonal of a matrix."""
        return self.inverse(D)(v)

    def inverse(self, D: Array | float) -> Callable[[Array], Array]:
        """The same for many v: 4 n k^2 operations and as much room as F takes, then 8 n k operations for each."""
        root = np.sqrt(np.broadcast_to(np.asarray(D, dtype=np.float64), self.residual.shape))
        if not self.rank:
            return lambda v: v / root / root
        Q, R = qr(self.factor / root[:, None], overwrite_a=True, mode="economic", check_finite=False)
        core = qr(np.vstack([R.T, np.eye(self.rank)]), overwrite_a=True, mode="r", check_finite=False)[0][: self.rank]

        def apply(v: Array) -> Array:
            v = v / root
            inside = Q.T @ v
            outside = v - Q @ inside
            outside -= Q @ (Q.T @ outside)  # once more: a trace of Q left in it would be much in K
            return (Q @ cho_solve((core, False), inside, check_finite=False) + outside) / root

        return apply


class Part(KernelMatrix):
    """The matrix between some of the samples, as far as it is needed here: nothing is copied."""

    def __init__(self, K: KernelMatrix, picked: np.ndarray):
        self.K, self.picked, self.n, self.accuracy = K, picked, len(picked), K.accuracy

    @property
    def held(self):
        return self.K.held

    @property
    def diagonal(self):  # type: ignore[override]
        return self.K.diagonal[self.picked]

    def block(self, rows, cols):
        return self.K.block(self.picked[rows], self.picked[cols])


def uniform(K, rank: int, rng: np.random.Generator | None = None, **options) -> LowRank:
    """By `rank` samples drawn at random; of those that depend on others of them, fewer. Options: among, dtype."""
    among = options.pop("among", None)
    rng = np.random.default_rng(0) if rng is None else rng
    everyone = np.arange(as_kernel_matrix(K).n) if among is None else np.asarray(among)
    drawn = rng.choice(everyone, min(rank, len(everyone)), replace=False)
    return pivoted_cholesky(K, rank, among=drawn, **options)


def pivoted_cholesky(
    K, rank: int, tol: float = 0.0, among: np.ndarray | None = None, dtype: type = np.float64
) -> LowRank:
    """By up to `rank` samples, each of them with the largest residual, or half of it; until the trace error is `tol`.

    Only those `among` these positions are chosen. F is kept in `dtype`.
    """

    def propose(residual: Array, count: int) -> tuple[np.ndarray, Array]:
        largest = np.argpartition(-residual, count - 1)[:count] if count < len(residual) else np.arange(len(residual))
        largest = largest[np.argsort(-residual[largest], kind="stable")]
        return largest, np.full(len(largest), GREED * residual[largest[0]])

    return _grow(as_kernel_matrix(K), rank, tol, among, dtype, propose)


def random_cholesky(
    K,
    rank: int,
    tol: float = 0.0,
    rng: np.random.Generator | None = None,
    among: np.ndarray | None = None,
    dtype: type = np.float64,
) -> LowRank:
    """By up to `rank` samples, each drawn with a chance in proportion to its residual; until the trace error is `tol`.

    Only those `among` these positions are chosen. F is kept in `dtype`.
    """
    dice = np.random.default_rng(0) if rng is None else rng

    def propose(residual: Array, count: int) -> tuple[np.ndarray, Array]:
        drawn = dice.choice(len(residual), count, p=residual / np.sum(residual))
        return drawn, dice.random(count) * residual[drawn]

    return _grow(as_kernel_matrix(K), rank, tol, among, dtype, propose)


def _grow(K: KernelMatrix, rank: int, tol: float, among: np.ndarray | None, dtype: type, propose: Propose) -> LowRank:
    """Round by round: proposals, those of them that are taken, their columns."""
    diagonal, everyone = K.diagonal, np.arange(K.n)
    is_open = np.zeros(K.n, dtype=bool)  # who may still be chosen
    is_open[everyone if among is None else among] = True
    F: np.ndarray = np.empty((K.n, min(rank, int(np.count_nonzero(is_open)))), dtype=dtype, order="F")
    J, residual, trace = np.zeros(0, dtype=np.int64), diagonal.copy(), float(np.sum(diagonal))
    while len(J) < F.shape[1] and np.sum(residual) > tol * trace:
        k = len(J)
        noise = (k + 1) * (K.accuracy + np.finfo(dtype).eps) * diagonal
        is_open &= residual > noise
        picked = np.flatnonzero(is_open)
        if not len(picked):
            break
        proposed, bars = propose(residual[picked], min(BLOCK, len(picked)))
        proposed = picked[proposed]
        H = K.block(proposed, proposed) - F[proposed, :k] @ F[proposed, :k].T
        is_open[proposed[H.diagonal() <= noise[proposed]]] = False  # or they might be proposed for ever
        taken, lower = _eliminate(H, np.maximum(bars, noise[proposed]), F.shape[1] - k)
        new = proposed[taken]
        if not len(new):
            continue
        rows = K.block(new, everyone) if K.held else K.block(everyone, new).T  # (|new|, n); both are the same numbers
        rows = solve_triangular(lower, rows - F[new, :k] @ F[:, :k].T, lower=True, check_finite=False)
        rows[:, J], rows[:, new] = 0.0, lower.T  # what they are but for rounding
        squares = rows * rows
        left = np.sum(residual) - np.cumsum(np.sum(squares, axis=1))
        enough = min(int(np.count_nonzero(left > tol * trace)) + 1, len(new))
        J = np.concatenate([J, new[:enough]])
        F[:, k : len(J)] = rows[:enough].T
        residual = np.maximum(residual - np.sum(squares[:enough], axis=0), 0.0)
        residual[J] = 0.0
        is_open[J] = False
    return LowRank(J, F[:, : len(J)], residual, trace)


def _eliminate(H: Array, bars: Array, most: int) -> tuple[list[int], Array]:
    """(taken, L): Cholesky's method on H, in its order, without those whose pivot is not above their bar."""
    taken: list[int] = []
    L = np.zeros_like(H)
    for i in range(len(H)):
        if H[i, i] > bars[i] and len(taken) < most:
            column = H[i:, i] / np.sqrt(H[i, i])
            H[i:, i:] -= np.outer(column, column)
            L[i:, len(taken)] = column
            taken.append(i)
    return taken, L[taken, : len(taken)]
