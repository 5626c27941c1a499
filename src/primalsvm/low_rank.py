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

Pivots that are rounding are never taken. The one of i is c' K c with c_i = 1 and c_J = -K_JJ^-1 K_Ji, and entries that
are right to within a times sqrt(k_ii k_jj) move it by up to a (sum_j |c_j| sqrt(k_jj))^2.

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
        is_open &= residual > _rounding(K, F, k) * diagonal
        picked = np.flatnonzero(is_open)
        if not len(picked):
            break
        proposed, bars = propose(residual[picked], min(BLOCK, len(picked)))
        new, lower, noise = _eliminate(K, F[:, :k], J, picked[proposed], bars, F.shape[1] - k)
        is_open[noise] = False  # or they might be proposed for ever
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


def _eliminate(
    K: KernelMatrix, F: np.ndarray, J: np.ndarray, proposed: np.ndarray, bars: Array, most: int
) -> tuple[np.ndarray, Array, np.ndarray]:
    """(taken, L, noise): Cholesky's method on H without those below their bar; and who is nothing but rounding."""
    taken: list[int] = []
    some, k = F[proposed], len(J)
    H = K.block(proposed, proposed) - some @ some.T
    norms, rounding = np.sqrt(K.diagonal[np.concatenate([J, proposed])]), _rounding(K, F, k)
    mix, L = np.eye(len(H), k + len(H), k), np.zeros_like(H)  # H = mix K mix'
    if k:
        mix[:, :k] = -solve_triangular(F[J], some.T, lower=True, trans=1, check_finite=False).T
    noise = H.diagonal() <= rounding * (np.abs(mix) @ norms) ** 2
    for i in range(len(H)):
        if len(taken) < most and H[i, i] > max(bars[i], rounding * float(np.abs(mix[i]) @ norms) ** 2):
            share = H[i + 1 :, i] / H[i, i]
            L[i:, len(taken)] = H[i:, i] / np.sqrt(H[i, i])
            H[i + 1 :, i + 1 :] -= np.outer(share, H[i, i + 1 :])
            mix[i + 1 :] -= np.outer(share, mix[i])
            taken.append(i)
    return proposed[taken], L[taken, : len(taken)], proposed[noise]


def _rounding(K: KernelMatrix, F: np.ndarray, k: int) -> float:
    """Of entries of K and of the products of k columns that they are compared with, relative to sqrt(k_ii k_jj)."""
    return K.accuracy + (k + 2) * float(np.finfo(F.dtype).eps)
