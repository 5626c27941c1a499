r"""Approximate leave-one-out: the score that every sample would get from a model trained without it, from one model.

At the optimum sample i holds its own score with the force y_i alpha_i. Without it the score gives way, and one Newton
step from the optimum says how far:

    f^-i(x_i) + b^-i  =  f(x_i) + b  -  y_i alpha_i q_i / (1 - w_i q_i)

    H = I + X' W X,   w_i = c_i / bend where the loss is curved, else 0,   q_i = x_i' H^-1 x_i    (f and b together)

q is the compliance of the model at x_i, and q / (1 - w q) that of the rest of the samples. The loss is piecewise
quadratic, so this is the true answer wherever no other sample goes over to another piece of its loss, and always where
alpha_i = 0: nothing changes there. The step is taken whole: a search along it for the least P would stop where the
first samples change sides, far too early (USPS, C = 10: an error of 3 % in place of 15). What stays as it is: C, the
class weights, gamma, the basis of an approximation.

How far the others change sides goes with the distance that a score gives way, and what they do to it goes with that
again. A sample whose new score is zero to within DOUBT distance^2 gets more than one step, where the loss is curved:
with Q = X H^-1 X', the margins z of the others, and rho the forces they have beyond those of the pieces they were on,

    z = z0 + Q rho(z),     rho_j = clip(w_j (tilt - z_j), 0, upper_j) - (what its old piece would have there)

sample for sample in closed form, in rounds (`cpu_kernels.settle`). It ends at the truth, but for samples that the first
step does not bring near another piece: they take no part. Where it does not end, the one step stands.

Two routes to the same numbers, whichever matrix is smaller:

    features    H, d x d, the intercept eliminated:  q_i = |L^-1 (x_i - mean)|^2 + 1 / sum w,   H = L L'
    samples     A = K_SS + D between the curved samples S,  D = 1 / w,  u = A^-1 1
                in S          q / (1 - w q) = 1 / P_ii - D_i,     P = A^-1 - u u' / 1'u
                at the bound  q = k_ii - k_iS A^-1 k_Si + (1 - u'k_Si)^2 / 1'u

(the last terms are those of a free intercept; a penalised one adds scaling^2 to K, or 1 / scaling^2 to the sum of w).
The second is the span of Chapelle, Vapnik, Bousquet and Mukherjee (2002). It has a limit at D = 0: the hinge, S those
with 0 < alpha < c. There A may be singular (a duplicated row, more free samples than dimensions); D is then a ridge as
small as rounding allows, which says what is true: another sample that can take over the force of i does so, and the
score stays.

Which samples are in S is not read off alpha alone, which a solver leaves inside its box by a trifle, nor off the
margins alone, which at a large C are never exact enough, but off where one step of dual coordinate ascent would go.

With a free intercept and no other curved sample (a tiny C, classes of the same size), b would go as far as the next
kink: it is held as it is instead, which is kinder than the truth.

Costs: O(m^3) once, m = min(d, |S|), and O(m^2) for each sample with alpha_i > 0; 8 m^2 bytes, twice, for which there
must be room. K is looked at in the rows of the support vectors, X twice. Samples in doubt are few where n is large, as
each moves the model less; where they would take more than ROOM bytes or EFFORT, all keep their one step. A large matrix
of samples is inverted in float32 where D keeps its condition small, which leaves four digits or more of the distances.

Chapelle (2007), section 6.3 and appendix B; Opper and Winther (2000); Cook (1977) for squares.
"""

from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.linalg.blas import dtrmm, strmm
from scipy.linalg.lapack import dpotrf, spotrf

from .cpu_kernels import settle
from .kernel_matrix import MEMORY_LIMIT
from .kernel_system import RAISES, SHARE, KernelRows
from .losses import EPS, Array
from .matrix import BLOCK_BYTES, Matrix, Sparse
from .newton_path import _intercept_weight
from .problem import KernelProblem, LinearProblem, Problem
from .reduced import Mapped
from .triangles import invert_triangle, solve_positive

DOUBT = 0.1  # of the squared distance that a score gives way: below it, one Newton step may have the wrong sign
MANY, SLIGHT = 300, 1e-3  # samples from which float32 pays; rounding over D, at worst, that is allowed then
EPS32 = float(np.finfo(np.float32).eps)
ROUNDS, STILL = 30, 1e-3  # of `settle`; it ends where a round moves the score by so much of the distance
ROOM, EFFORT = 64 * 2**20, 1e9  # bytes and operations for samples in doubt: about those of an inverse of a thousand


def loo_scores(problem: Problem, f: Array, b: float, alpha: Array) -> Array:
    """f(x_i) + b for every sample i, by the model without it. (f, b) and alpha are the problem's solution."""
    return leave_out(problem, f, b, alpha).scores


def fold_scores(problem: Problem, f: Array, b: float, alpha: Array, folds) -> Array:
    """The same where all samples of a fold are left out together: f(x_i) + b by the model without the fold of i.

    `folds` (n,) names the fold of each sample. One Newton step again, with Q = X_F H^-1 X_F' of a fold F,

        scores_F  <-  scores_F - Q (I - W_F Q)^-1 (y alpha)_F

    O(|F|^3 + |F|^2 m) for each fold, after the same O(m^3). It is good where a fold is small against n, so that few
    other samples change sides, and errs on the pessimistic side elsewhere. Measured at C = 1 against true fits without
    the folds (`python -m benchmarks.leave_one_out --folds 100,10,5`): german and splice, 1000 samples, the error of 100
    and of 10 folds is the true one to within 0.4 points, of 5 to within 0.9; USPS, 500 samples, with a kernel to within
    0.4, but of a linear model that has more features than samples in S, 100 folds 0.6, 10 folds 3.4, 5 folds 6.8.
    """
    return leave_out(problem, f, b, alpha, folds).scores


class Left(NamedTuple):
    plain: Array  # (n,) scores of the model
    scores: Array  # (n,) scores of each sample by the model without it


def leave_out(problem: Problem, f: Array, b: float, alpha: Array, folds=None) -> Left:
    f, alpha = np.asarray(f, dtype=np.float64), np.asarray(alpha, dtype=np.float64)
    if f.shape != (problem.size,) or alpha.shape != (problem.n,):
        wanted = f"f ({problem.size},) and alpha ({problem.n},)"
        raise ValueError(f"a solution of this problem has {wanted}, got {f.shape} and {alpha.shape}.")
    folds = None if folds is None else np.asarray(folds)
    if folds is not None and folds.shape != (problem.n,):
        raise ValueError(f"folds must name the fold of each of the {problem.n} samples, got shape {folds.shape}.")
    rows = _Entries(problem.K) if isinstance(problem, KernelProblem) else _Products(problem)
    plain = rows.scores(f) + b
    curved, alpha = _sides(problem, plain, alpha)
    if not alpha.any():
        return Left(plain, plain.copy())
    compliance = _compliance(problem, rows, curved)
    scores, force = plain.copy(), problem.y * alpha
    if folds is None:
        held = np.flatnonzero(alpha)
        scores[held] -= force[held] * compliance.alone(held)
    else:
        _, names, sizes = np.unique(folds, return_inverse=True, return_counts=True)
        for fold in np.split(np.argsort(names, kind="stable"), np.cumsum(sizes)[:-1]):
            if force[fold].any():
                scores[fold] -= compliance.together(fold) @ force[fold]
        held = np.flatnonzero((alpha > 0) & (sizes[names] == 1))
    _settle_doubtful(problem, compliance, curved, alpha, Left(plain, scores), held)
    return Left(plain, scores)


def _settle_doubtful(
    problem: Problem, compliance: "_Compliance", curved: np.ndarray, alpha: Array, left: Left, held: np.ndarray
) -> None:
    """Scores that one step may have left on the wrong side of zero, in their place; of those left out alone, `held`."""
    bend, y = problem.loss.bend, problem.y
    gives = np.abs(left.plain - left.scores)
    doubtful = held[(np.abs(left.scores[held]) <= DOUBT * gives[held] ** 2) & (gives[held] > 0)]
    if not len(doubtful) or not bend or (problem.intercept == "free" and len(curved) < 2):  # b is held: see above
        return
    if 8 * len(doubtful) * compliance.size > ROOM:
        return
    side = np.where(alpha > 0, 1, -1).astype(np.int8)
    side[curved] = 0
    z, weight, upper = y * left.plain, problem.cost / bend, problem.upper
    lag = np.divide(alpha, weight, out=np.zeros(problem.n), where=weight > 0)
    top = z + lag  # the margin at which a sample's piece ends: none of them moves before another one does
    top[side < 0] = np.minimum(problem.loss.tilt, z[side < 0])
    top[side > 0] = np.maximum(problem.loss.tilt, top[side > 0])
    slack = np.where(side == 0, np.minimum(lag, upper / np.maximum(weight, EPS) - lag), np.abs(z - top + lag))
    pull = alpha + np.where(side == 0, weight * gives, 0.0)  # force that is gone when the score has given way
    reached = 2 * compliance.reach(doubtful, pull[doubtful]) >= slack  # twice: others follow those that are
    reached[doubtful] = True
    near = np.flatnonzero(reached)
    if 8 * len(near) * max(len(near), compliance.size) > ROOM or len(doubtful) * len(near) ** 2 > EFFORT:
        return
    Q = y[near, None] * compliance.between(near, near) * y[near]
    settled = settle(
        Q, np.searchsorted(near, doubtful), z[near], top[near], weight[near], upper[near], side[near],
        ROUNDS, STILL * gives[doubtful],
    )  # fmt: skip
    ended = np.isfinite(settled)
    left.scores[doubtful[ended]] = y[doubtful[ended]] * settled[ended]


def _sides(problem: Problem, scores: Array, alpha: Array) -> tuple[np.ndarray, Array]:
    """(who is curved, alpha with those at a bound set to it): where one step of dual coordinate ascent would go.

    At the optimum that is nowhere, whatever the length of the step.
    """
    bend, upper = problem.loss.bend, problem.upper
    square = _squares(problem) + (problem.intercept_scaling**2 if problem.intercept == "penalized" else 0.0)
    square = square + (float(np.mean(square)) or 1.0)  # a zero row has a score too
    paid = problem.cost > 0
    curve = square + np.divide(bend, problem.cost, out=np.zeros(problem.n), where=paid)
    to = alpha + problem.dual_gradient(alpha, problem.y * scores) / curve
    low, high = (to <= 0) | ~paid, paid & (to >= upper)
    return np.flatnonzero(~low & ~high), np.where(low, 0.0, np.where(high, upper, np.clip(alpha, 0.0, upper)))


def _squares(problem: Problem) -> Array:
    """|phi(x_i)|^2, about."""
    if isinstance(problem, LinearProblem) and isinstance(problem.X, Mapped):  # its own are for error bounds only
        return np.full(problem.n, float(np.max(problem.X.metric.diagonal(), initial=0.0)))  # type: ignore[union-attr]
    return problem.squared_norms


# --- the compliance of the model at its samples -----------------------------------------------------------------------


class _Compliance(Protocol):
    def alone(self, held: np.ndarray) -> Array:
        """How far the score of each of these samples gives way to a unit force, without the sample itself."""

    def together(self, fold: np.ndarray) -> Array:
        """The same as a matrix between the samples of a fold, without all of them."""

    def between(self, rows: np.ndarray, cols: np.ndarray) -> Array:
        """Q: how far the scores of `rows` give way to unit forces at `cols`, with all samples in their places."""

    def reach(self, cols: np.ndarray, force: Array) -> Array:
        """(n,) the largest |Q_ij force_j| over these j."""

    @property
    def size(self) -> int:
        """m"""


def _compliance(problem: Problem, rows: Any, curved: np.ndarray) -> _Compliance:
    few = problem.kind == "kernel" or len(curved) <= problem.size or not problem.loss.bend
    size = len(curved) if few else problem.size
    limit = SHARE * (problem.K.memory_limit if isinstance(problem, KernelProblem) else MEMORY_LIMIT)
    if 8 * size * size > limit:
        advice = "; raise memory_limit, or take approximation='greedy'" if problem.kind == "kernel" else ""
        raise MemoryError(
            f"leave-one-out needs the inverse of a matrix of {size} {'samples' if few else 'features'}, for which "
            f"there is no room in {limit / 2**30:.3g} GiB{advice}."
        )
    return _Samples(problem, rows, curved) if few else _Features(problem, rows, curved)  # type: ignore[arg-type]


class _Samples:
    """Through the kernel matrix between the curved samples S: L^-1 with L L' = A = K_SS + shift + D.

    The shift, a number added to all of K, is scaling^2 for a penalised intercept, which is a feature as any other. A
    free one takes any shift, as sum_i y_i alpha_i = 0, and needs one: d + 1 free samples of the hinge determine f and b
    while K_SS, of rank d, is singular.
    """

    def __init__(self, problem: Problem, rows: Any, S: np.ndarray):
        self.rows, self.S, self.free = rows, S, problem.intercept == "free"
        self.dtype: Any = np.float64  # of matrices
        self.ridge = problem.loss.bend / problem.cost[S]
        self.shift = problem.intercept_scaling**2 if problem.intercept == "penalized" else 0.0
        if self.free:
            self.shift = (float(np.mean(rows.diagonal[S])) or 1.0) if len(S) else 0.0
        self.inverse = self._factorise()
        ones = np.ones(len(S), dtype=self.dtype)
        self.u = (self.inverse.T @ (self.inverse @ ones)).astype(np.float64)
        self.loose = 1.0 / float(np.sum(self.u)) if self.free and len(S) else 0.0  # of b

    def block(self, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        out = self.rows.block(rows, cols, self.dtype)
        out += self.shift
        return out

    def _factorise(self) -> np.ndarray:
        """L^-1; D is raised to what the accuracy of K asks for, and further while Cholesky finds no positive matrix.

        In float32 where A is large and D keeps its condition small: what that costs of a score is a hundred times less
        than what a model with tol=1e-3 is off by itself.
        """
        size, given, trace = len(self.S), self.ridge, float(np.sum(self.rows.diagonal[self.S] + self.shift))
        least = (self.rows.accuracy + (size + 1) * EPS) * trace
        if not size:
            return np.zeros((0, 0))
        for _ in range(RAISES):
            self.ridge = np.maximum(given, least)
            tame = EPS32 * (trace + float(np.sum(self.ridge))) <= SLIGHT * float(np.min(self.ridge))
            self.dtype = np.float32 if size >= MANY and tame else np.float64
            A = self.block(self.S, self.S)
            A[np.diag_indices_from(A)] += self.ridge
            L, failed = (dpotrf if self.dtype == np.float64 else spotrf)(A.T, lower=1, clean=1, overwrite_a=1)
            if not failed:
                return invert_triangle(L)
            least = max(100 * least, EPS * float(np.min(self.ridge)))
        raise ValueError("the kernel matrix of the curved samples is not positive, even with a ridge.")

    def alone(self, held):
        place = np.full(self.rows.n, -1)
        place[self.S] = np.arange(len(self.S))
        mine, out = place[held] >= 0, np.empty(len(held))
        P = np.einsum("ij,ij->i", self.inverse.T, self.inverse.T).astype(np.float64)
        P = np.maximum(P - self.loose * self.u**2, EPS * P)
        last = self.free and len(self.S) == 1  # nothing else holds b: see `together`
        out[mine] = self.rows.diagonal[held[mine]] if last else (1.0 / P - self.ridge)[place[held[mine]]]
        out[~mine] = self._outside(held[~mine])
        return np.maximum(out, 0.0)

    def _outside(self, others: np.ndarray) -> Array:
        """q of samples that are not curved."""
        q = self.rows.diagonal[others] + self.shift
        step = max(1, BLOCK_BYTES // (8 * max(len(self.S), 1)))
        for first in range(0, len(others) if len(self.S) else 0, step):
            part = slice(first, first + step)
            k = self.block(others[part], self.S)
            q[part] += self.loose * (1.0 - k @ self.u) ** 2
            trmm = strmm if self.dtype == np.float32 else dtrmm
            inside = trmm(1.0, self.inverse, k.T, lower=1, overwrite_b=1)
            q[part] -= np.einsum("ij,ij->j", inside, inside)
        return q

    @property
    def size(self):
        return len(self.S)

    def _columns(self, picked: np.ndarray) -> tuple[Array, Array, np.ndarray]:
        """(V, g, inside S): Q_ij = k_ij - V_i'V_j + loose g_i g_j, where k_ij is D_ij if i in S or j in S."""
        inside = np.isin(picked, self.S)
        T, g = np.searchsorted(self.S, picked[inside]), np.empty(len(picked))
        V = np.empty((self.size, len(picked)), dtype=self.dtype)
        V[:, inside], g[inside] = self.inverse[:, T] * -self.ridge[T].astype(self.dtype), self.ridge[T] * self.u[T]
        k = self.block(picked[~inside], self.S)
        V[:, ~inside], g[~inside] = self.inverse @ k.T, 1.0 - k @ self.u
        return V, g, inside

    def between(self, rows, cols):
        V, g, inside = self._columns(rows)
        W, h, within = (V, g, inside) if rows is cols else self._columns(cols)
        Q = self.loose * np.outer(g, h) - V.T @ W
        Q[np.ix_(~inside, ~within)] += self.block(rows[~inside], cols[~within])
        T, U = rows[inside], cols[within]
        Q[np.ix_(inside, within)] += np.where(T[:, None] == U, self.ridge[np.searchsorted(self.S, U)], 0.0)
        return Q

    def reach(self, cols, force):
        V, g, within = self._columns(cols)
        back, out, T = self.inverse.T @ V, np.empty(self.rows.n), np.searchsorted(self.S, cols[within])
        mine = self.ridge[:, None] * (back + self.loose * np.outer(self.u, g))
        mine[T, np.flatnonzero(within)] += self.ridge[T]
        out[self.S] = np.max(np.abs(mine) * force, axis=1, initial=0.0)
        others = np.setdiff1d(np.arange(self.rows.n), self.S, assume_unique=True)
        step = max(1, BLOCK_BYTES // (8 * max(self.size, 1)))
        for first in range(0, len(others), step):
            part = others[first : first + step]
            k = self.block(part, self.S)
            Q = self.loose * np.outer(1.0 - k @ self.u, g) - k @ back
            Q[:, ~within] += self.block(part, cols[~within])
            out[part] = np.max(np.abs(Q) * force, axis=1)
        return out

    def together(self, fold):
        """With T those of the fold in S, E the others:   P_TT^-1 - D        P_TT^-1 G
                                                          G' P_TT^-1         Q_EE + G' P_TT^-1 G

        G is the weight of T when the score at E is told from those of S, Q_EE what is then still open of it.
        """
        inside = np.isin(fold, self.S)
        T, E = np.searchsorted(self.S, fold[inside]), fold[~inside]
        if self.free and len(T) == len(self.S):  # nothing is left but |f|^2, and b is held
            return self.rows.block(fold, fold)
        k, u, columns = self.block(E, self.S), self.u[T], self.inverse[:, T]
        V, g = self.inverse @ k.T, 1.0 - k @ self.u
        Q = self.block(E, E) - V.T @ V + self.loose * np.outer(g, g)
        G = columns.T @ V + self.loose * np.outer(u, g)
        rest = solve_positive((columns.T @ columns).astype(np.float64) - self.loose * np.outer(u, u), np.eye(len(T)))
        out, to = np.empty((len(fold), len(fold))), rest @ G
        out[np.ix_(inside, inside)] = rest - np.diag(self.ridge[T])
        out[np.ix_(inside, ~inside)], out[np.ix_(~inside, inside)] = to, to.T
        out[np.ix_(~inside, ~inside)] = Q + G.T @ to
        return out


class _Features:
    """Through the Hessian of the features: L^-1 with L L' = H, the intercept eliminated."""

    def __init__(self, problem: LinearProblem, rows: "_Products", S: np.ndarray):
        X = problem.X
        self.rows, self.weights = rows, np.zeros(problem.n)  # w_i
        self.weights[S] = problem.cost[S] / problem.loss.bend
        w = self.weights[S]
        H, d = X.gram(w, S), problem.size
        if X.metric is None:
            H[np.diag_indices_from(H)] += 1.0
        else:
            H += X.metric
        self.curved, self.free, self.loose, self.mean = len(S), problem.intercept == "free", 0.0, np.zeros(d)
        if problem.intercept != "none":
            pull, self.loose = X.to_gram(problem.adjoint(w, S)), 1.0 / (float(np.sum(w)) + _intercept_weight(problem))
            self.mean = pull * self.loose
            H -= np.outer(pull, self.mean)
        self.inverse = self._invert(H)

    def _invert(self, H: Array) -> Array:
        least = 0.0
        for _ in range(RAISES):  # more than one only where rounding has made H indefinite
            L, failed = dpotrf((H + least * np.eye(len(H))).T if least else H.T, lower=1, clean=1)
            if not failed:
                return invert_triangle(L)
            least = max(100 * least, len(H) * EPS * float(np.max(H.diagonal())))
        raise ValueError("the Hessian is not positive; scale the features to similar ranges.")

    def images(self, picked: np.ndarray) -> Array:
        """L^-1 (x_i - mean) of these samples, in columns."""
        x = self.rows.features(picked)
        shift = (self.inverse @ self.mean)[:, None]
        if isinstance(x, np.ndarray):
            return dtrmm(1.0, self.inverse, x.T, lower=1) - shift
        return (x @ self.inverse.T).T - shift

    def alone(self, held):
        q = np.empty(len(held))
        step = max(1, BLOCK_BYTES // (8 * max(len(self.mean), 1)))
        for first in range(0, len(held), step):
            part = slice(first, first + step)
            images = self.images(held[part])
            q[part] = np.einsum("ij,ij->j", images, images) + self.loose
        return q / np.maximum(1.0 - self.weights[held] * q, EPS)

    @property
    def size(self):
        return len(self.mean)

    def between(self, rows, cols):
        images = self.images(rows)
        return images.T @ (images if rows is cols else self.images(cols)) + self.loose

    def reach(self, cols, force):
        G, out = self.inverse.T @ self.images(cols), np.empty(self.rows.n)
        step = max(1, BLOCK_BYTES // (8 * max(self.size, 1)))
        for first in range(0, self.rows.n, step):
            part = np.arange(first, min(first + step, self.rows.n))
            out[part] = np.max(np.abs(self.rows.features(part) @ G - self.mean @ G + self.loose) * force, axis=1)
        return out

    def together(self, fold):
        images, w = self.images(fold), self.weights[fold]
        T = np.flatnonzero(w)
        if self.free and len(T) == self.curved:  # nothing is left but |f|^2, and b is held
            return self.rows.block(fold, fold)
        Q = images.T @ images + self.loose
        return Q + Q[:, T] @ solve_positive(np.diag(1.0 / w[T]) - Q[np.ix_(T, T)], Q[T])


class _Entries(KernelRows):
    """Of K: rows that the scores needed are there for the rest."""

    @property
    def accuracy(self) -> float:
        return self.K.accuracy

    @property
    def diagonal(self) -> Array:
        return self.K.diagonal

    def scores(self, f: Array) -> Array:
        used = np.flatnonzero(f)
        return self.product(f[used], used)


class _Products:
    """X X', in the parts that are asked for, and rows of X in the coordinates that gram speaks in."""

    def __init__(self, problem: Any):
        self.X, self.n, self.scores = problem.X, problem.n, problem.scores
        self.accuracy = (problem.size + 2) * EPS
        self.last: tuple[np.ndarray, Any] | None = None  # columns that block was asked for, and their rows of X

    @cached_property
    def diagonal(self) -> Array:
        if not isinstance(self.X, Mapped):
            return self.X.squared_norms
        step = max(1, BLOCK_BYTES // (8 * max(self.X.shape[1], 1)))
        parts = [np.arange(first, min(first + step, self.n)) for first in range(0, self.n, step)]
        return np.concatenate([np.einsum("ij,ij->i", x, x) for x in map(self.own, parts)])

    def own(self, picked: np.ndarray) -> Any:
        """Rows of X itself: an array, or CSR."""
        return _plain(self.X.G.take(picked)) @ self.X.R if isinstance(self.X, Mapped) else _plain(self.X.take(picked))

    def features(self, picked: np.ndarray) -> Any:
        return _plain((self.X.G if isinstance(self.X, Mapped) else self.X).take(picked))

    def block(self, rows: np.ndarray, cols: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
        if self.last is None or self.last[0] is not cols:
            self.last = (cols, self.own(cols))
        theirs = self.last[1]
        product = (theirs if rows is cols else self.own(rows)) @ theirs.T
        return (product if isinstance(product, np.ndarray) else product.toarray()).astype(dtype, copy=False)


def _plain(X: Matrix) -> Any:
    return X.csr.astype(np.float64, copy=False) if isinstance(X, Sparse) else X.toarray()
