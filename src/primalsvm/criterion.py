r"""How good C and gamma_1, ..., gamma_d are on samples that a squared-hinge SVM has not seen, and which way is better.

    k(x, z) = exp(-sum_k gamma_k (x_k - z_k)^2),  exp(-sum_k gamma_k |x_k - z_k|),  sum_k gamma_k x_k z_k

    E(C, gamma) = sum_i w_i phi(y_i f^(-i)(x_i)) / sum_i w_i            phi(m) = log(1 + exp(-2 m))

f^(-i) has not seen sample i. phi is the logistic loss of the odds exp(2 f): smooth everywhere, as a gradient wants it,
and linear in a large error, so that a mislabelled sample does not rule. (In trials on made-up data the squared hinge as
phi kept more useless features, and a smooth step, flat far from the boundary, lost useful ones.)

With S the samples of margin below 1, f = sum_S beta_j k(x_j, .) + b solves equations, and so does its derivative:

    [K_SS + D  1] [beta]   [y_S]                                        D = diag(1 / 2 c_S)
    [1'       -w] [b   ] = [0  ]                                        w = 0 free, 1 penalised; no border without b

Cross-validation: the scores of the samples V held out are K_VS beta + b. With g_i = w_i y_i phi'(m_i) and one more
solution, of the right hand side (K_SV g, sum g), whose first part is a,

    dE = g' dK_VS beta - a' (dK_SS + dD) beta                           a matrix of rank one for each fold

Leave-one-out, with A^-1 the S-block of the inverse of the matrix above: for i in S

    f^(-i)(x_i) = y_i - beta_i / A^-1_ii                                exact as long as S stays what it is
    dE = -(A^-1 u)' dM beta - sum_i v_i (A^-1 dM A^-1)_ii               u = dE / dbeta, v = dE / dA^-1_ii, M = K_SS + D

and the others count as samples held out of a fit to S. Where S changes A jumps, and this E with it, a little; that of
cross-validation is continuous, and only its slope jumps.

All of it together is dE = sum_ij G_ij dK_ij + (dE / dlog C) dlog C, and dE / dgamma costs products of K's size with X.
An evaluation costs, for each fold, a few Newton steps, |S|^3 / 3 each, from the S of the last one.

Chapelle, Vapnik, Bousquet, Mukherjee (2002), Choosing multiple parameters for support vector machines; Keerthi,
Sindhwani, Chapelle (2007) for the adjoint; Chapelle (2007), section 6.3.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from .kernel_matrix import StoredKernel
from .kernel_newton import advance_path, begin_path
from .kernels import Kernel
from .losses import Array, SquaredHinge
from .multiclass import Part
from .problem import KernelProblem

POWERS = {"rbf": 0.5, "laplacian": 1.0, "linear": 0.5}  # of gamma_k, as a factor on x_k
EXACT = 1e-11  # relative gap from which S is taken to be known
STEPS = 100
QUICK = 12  # whole Newton steps from the last S
BORDERS = {"none": None, "free": 0.0, "penalized": 1.0}  # w
STEEP = 2.0  # of the logistic loss
Solve = Callable[[Array, float], tuple[Array, float]]  # the equations above, by right hand side


def logistic(margins: Array) -> tuple[Array, Array]:
    """phi and its slope."""
    t = STEEP * margins
    return np.logaddexp(0.0, -t), -0.5 * STEEP * (1.0 - np.tanh(0.5 * t))


class Fold(NamedTuple):
    """A binary problem, and the samples it is judged by: places among all samples, and labels."""

    seen: np.ndarray
    y: Array
    held: np.ndarray  # none of them: leave one out
    y_held: Array


def make_folds(parts: list[Part], n: int, splits: list[tuple[np.ndarray, np.ndarray]] | None) -> list[Fold]:
    """Each binary problem on each of the (seen, held) splits; without splits, on all samples."""
    folds = []
    for part in parts:
        mine = np.arange(n) if part.rows is None else part.rows
        place = np.full(n, -1)
        place[mine] = np.arange(len(mine))
        for seen, held in splits or [(mine, mine[:0])]:
            seen, held = seen[place[seen] >= 0], held[place[held] >= 0]
            if len(seen) and (len(held) or splits is None):
                folds.append(Fold(seen, part.y[place[seen]], held, part.y[place[held]]))
    return folds


class Piece(NamedTuple):
    """What one fold adds: to the sum of losses, to its derivative in log C, and to G, p q' + a block over S."""

    loss: float
    by_log_C: float
    p: Array  # (n,)
    q: Array  # (n,)
    S: np.ndarray
    block: Array | None = None


class Value(NamedTuple):
    """E, and its derivatives in log C and in gamma."""

    loss: float
    by_log_C: float
    by_gamma: Array  # (d,)


@dataclass(eq=False)
class Criterion:
    """E on some samples. It keeps each S, from which the next solution starts."""

    X: Array  # (n, d)
    weight: Array  # (n,) c_i over C
    folds: list[Fold]
    intercept: str = "free"
    kernel: str = "rbf"
    threads: int = 1
    last: dict[int, np.ndarray] = field(default_factory=dict)  # S by fold

    def __post_init__(self):
        judged = [fold.held if len(fold.held) else fold.seen for fold in self.folds]
        self.total = float(sum(np.sum(self.weight[rows]) for rows in judged)) or 1.0

    @property
    def n(self) -> int:
        return len(self.X)

    def __call__(self, C: float, gammas: Array) -> Value:
        K, accuracy = kernel_values(self.kernel, self.X, gammas)

        def piece(k: int) -> Piece:
            return self._piece(k, C, K, accuracy)

        with np.errstate(over="ignore", invalid="ignore"):
            pieces = list(_map(piece, len(self.folds), self.threads))
        G = np.column_stack([one.p for one in pieces]) @ np.column_stack([one.q for one in pieces]).T
        for one in pieces:
            if one.block is not None:
                G[np.ix_(one.S, one.S)] += one.block
        loss, by_log_C = sum(one.loss for one in pieces), sum(one.by_log_C for one in pieces)
        slope = kernel_slope(self.kernel, self.X, K, G)
        return Value(loss / self.total, by_log_C / self.total, slope / self.total)

    def _by_newton(self, K: Array, y: Array, cost: Array, accuracy: float) -> tuple[np.ndarray, Solve]:
        """From nothing, with line searches where they are needed."""
        stored = StoredKernel(K, accuracy)
        problem = KernelProblem(y=y, cost=cost, loss=SquaredHinge(), intercept=self.intercept, K=stored)
        path = begin_path(problem)
        path.tol = EXACT
        for _ in range(STEPS):
            if path.ended or path.belief <= EXACT:
                break
            advance_path(path)
        picked = np.flatnonzero(path.share > 0.0)

        def solve(rhs: Array, balance: float) -> tuple[Array, float]:
            return path.system.solve(picked, 0.5 / cost, rhs, balance, BORDERS[self.intercept])[:2]

        return picked, solve

    def constant(self) -> float:
        """E of the best constant score in each binary problem."""
        best = 0.0
        for fold in self.folds:
            rows, y = (fold.held, fold.y_held) if len(fold.held) else (fold.seen, fold.y)
            total = float(np.sum(self.weight[rows]))
            share = float(np.sum(self.weight[rows[y > 0]])) / total if total else 0.0
            best -= total * sum(s * np.log(s) for s in (share, 1.0 - share) if s > 0)
        return best / self.total

    def _piece(self, k: int, C: float, K: Array, accuracy: float) -> Piece:
        fold, p, q = self.folds[k], np.zeros(self.n), np.zeros(self.n)
        cost = C * self.weight[fold.seen]
        if self.intercept == "free" and np.all(fold.y == fold.y[0]):  # f is that label, whatever the parameters
            loss, _ = logistic(fold.y_held * fold.y[0])
            return Piece(float(self.weight[fold.held] @ loss), 0.0, p, q, fold.seen[:0])
        K_seen, D, w = K[np.ix_(fold.seen, fold.seen)], 0.5 / cost, BORDERS[self.intercept]
        picked = self.last.get(k, np.arange(len(fold.seen)))
        solved = settle(K_seen, fold.y, D, w, picked) or self._by_newton(K_seen, fold.y, cost, accuracy)
        picked, solve = solved
        self.last[k] = picked
        beta, b = solve(fold.y[picked], 0.0)
        S = fold.seen[picked]
        left_out = not len(fold.held)
        rest = np.setdiff1d(np.arange(len(fold.seen)), picked) if left_out else picked[:0]
        held, y = (fold.seen[rest], fold.y[rest]) if left_out else (fold.held, fold.y_held)
        across = K[np.ix_(held, S)]
        loss, slope = logistic(y * (across @ beta + b))
        g = self.weight[held] * y * slope
        a, _ = solve(across.T @ g, float(np.sum(g)))
        total = float(self.weight[held] @ loss)
        block = None
        if left_out:
            inverse = bordered_inverse(K[np.ix_(S, S)], D[picked], w)
            y, kept = fold.y[picked], inverse.diagonal()
            loss, slope = logistic(1.0 - y * beta / kept)
            pull = self.weight[S] * y * slope
            total += float(self.weight[S] @ loss)
            a -= inverse @ (pull / kept)  # u = -pull / A^-1_ii, and v = pull beta_i / A^-1_ii^2
            block = -(inverse * (pull * beta / kept**2)) @ inverse
        p[held], q[S] = g, beta
        p[S] = -a
        by_D = -a * beta if block is None else block.diagonal() - a * beta
        return Piece(total, -float(by_D @ D[picked]), p, q, S, block)


def settle(K: Array, y: Array, D: Array, w: float | None, picked: np.ndarray) -> tuple[np.ndarray, Solve] | None:
    """Chapelle's Algorithm 1 from a good guess of S, which it confirms or mends; None where that does not end."""
    for _ in range(QUICK):
        block = K[np.ix_(picked, picked)]
        block[np.diag_indices_from(block)] += D[picked]
        try:
            factor = cho_factor(block, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            return None
        solve = _bordered(partial(cho_solve, factor, check_finite=False), len(picked), w)
        beta, b = solve(y[picked], 0.0)
        curved = np.flatnonzero(y * (K[:, picked] @ beta + b) < 1.0)
        if np.array_equal(curved, picked):
            return picked, solve
        if not len(curved):
            return None
        picked = curved
    return None


def _bordered(inverse: Callable[[Array], Array], n: int, w: float | None) -> Solve:
    """Solutions of [[M, 1], [1', -w]] by those of M."""
    ones = inverse(np.ones(n))
    total = float(np.sum(ones)) + (w or 0.0)

    def solve(rhs: Array, balance: float) -> tuple[Array, float]:
        x = inverse(rhs)
        if w is None:
            return x, 0.0
        t = (float(np.sum(x)) - balance) / total
        return x - t * ones, t

    return solve


def bordered_inverse(K: Array, D: Array, w: float | None) -> Array:
    """The first block of the inverse of [[K + D, 1], [1', -w]]."""
    inverse = np.linalg.inv(K + np.diag(D))
    inverse = 0.5 * (inverse + inverse.T)
    if w is None:
        return inverse
    ones = inverse.sum(axis=1)
    return inverse - np.outer(ones, ones / (float(np.sum(ones)) + w))


# kernels with a gamma for each feature --------------------------------------------------------------------------------
def kernel_values(name: str, X: Array, gammas: Array) -> tuple[Array, float]:
    """(K, the accuracy of its entries)"""
    used = gammas > 0
    kernel = Kernel(name, 1.0)
    if not used.any():
        return np.full((len(X), len(X)), 0.0 if name == "linear" else 1.0), 0.0
    points = kernel.points(X[:, used] * gammas[used] ** POWERS[name])
    features = points.features()
    K = kernel.between(features, features)
    return 0.5 * (K + K.T), points.accuracy


def kernel_slope(name: str, X: Array, K: Array, G: Array) -> Array:
    """dE / dgamma_k = sum_ij G_ij dK_ij / dgamma_k for all k; no array is larger than K or X."""
    if name == "linear":
        return np.einsum("ij,ij->j", X, G @ X)
    W = G * K
    if name == "rbf":  # (x - z)^2 = x^2 - 2 x z + z^2
        return 2.0 * np.einsum("ij,ij->j", X, W @ X) - (W.sum(axis=0) + W.sum(axis=1)) @ (X * X)
    return -np.array([np.vdot(W, np.abs(np.subtract.outer(x, x))) for x in X.T])


def _map(work: Callable[[int], Piece], n: int, threads: int) -> Iterator[Piece]:
    if min(threads, n) <= 1:
        yield from map(work, range(n))
        return
    with ThreadPoolExecutor(min(threads, n)) as pool:
        yield from pool.map(work, range(n))
