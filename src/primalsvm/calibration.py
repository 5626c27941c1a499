r"""Probabilities from scores: p(y = +1 | x) = 1 / (1 + exp(-(a s + b))) with s = f(x) + b, or a rising step function.

The curve is drawn through scores that each sample got from a model without it. Its own model has been pulled towards
its label, and would promise too much. Where they come from (`out_of_sample`):

    leave-one-out    one Newton step from the solution for each sample, `left_out`; nothing is trained again
    five folds       where that takes an inverse too large to be cheap: each a fit on the rest, begun at the solution

Rows that are the same, with the same label, are one sample with their weight: a copy left behind would tell what was
left out. A weight of two is thus the same as a row that stands twice, here as everywhere.

sigmoid     a and b by maximum likelihood, with Platt's targets, which are those of one more sample of each class:
            t = (N+ + 1) / (N+ + 2) for y = +1, t = 1 / (N- + 2) for y = -1; N are sums of weights. Newton's method.
            a is not below zero: a higher score is never a smaller probability.
isotonic    the rising function closest to the same targets in the square, linear between the scores: never 0, never 1
ensemble    the mean of five models, those of the folds, each with a sigmoid through the scores of its own fifth. Where
            they disagree it is less sure of itself, which new data that are not like the old ones reward, and others
            do not: log loss of USPS 0-4/5-9, C = 10, sigmoid and ensemble, 0.097 and 0.091 on its own test part, which
            other hands have written, 0.043 and 0.046 where both parts are shuffled (`benchmarks/probabilities.py`)

More than two classes:

    one-vs-rest    each problem's own p, divided by their sum
    one-vs-one     the p closest to r_jk = p(j | j or k, x):  min sum_{j<k} (r_kj p_j - r_jk p_k)^2,  sum p = 1

What predict says stays as it is, and is always the most probable class: see `agree`.

Platt (1999); Lin, Lin and Weng (2007); Zadrozny and Elkan (2002); Wu, Lin and Weng (2004), their second method.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, log_expit, logit
from sklearn.isotonic import IsotonicRegression

from .chunks import Chunks
from .kernel_matrix import TiledKernel
from .left_out import leave_out
from .losses import Array
from .problem import Problem
from .solve import FREE_WORK, Result, Solver, Start, solve

METHODS = ("sigmoid", "isotonic", "ensemble")
FOLDS, FOLD_TOL = 5, 1e-2  # at 1e-2 the log loss is that of 1e-5 to four digits: benchmarks/probabilities.py --folds
SPEED = 2000  # passes over the data take as long as so many multiplications each in a product of matrices: five folds
FAR = 700.0  # log-odds beyond which exp leaves float64
LEAST = 1e-7  # of pairwise probabilities, as in LIBSVM
ULP = 2.0**-52
NUDGE = 1e-6  # see `agree`
TINY = float(np.finfo(np.float64).tiny)
HASHED = 1 << 20  # numbers at a time
NEAR = 1e-10  # what a Newton step still gains where whole steps double the digits, and values no longer tell them


# --- scores of samples by models without them -------------------------------------------------------------------------


class OutOfSample(NamedTuple):
    """Of one binary problem."""

    scores: Array  # of distinct samples with a weight
    y: Array
    cost: Array  # of all that are the same together
    relative_gap: float  # the largest of the folds; 0 where there were none
    status: str  # "converged", or "interrupted"
    fits: list["Fold"]  # none for leave-one-out


class Fold(NamedTuple):
    """A model, and who was left out of it."""

    result: Result
    out: np.ndarray  # places in OutOfSample.scores


def out_of_sample(
    problem: Problem,
    result: Result,
    solver: Solver,
    keys: np.ndarray,
    *,
    folds: bool,
    max_iter: int,
    max_seconds: Callable[[], float | None],
    stop: Callable[[], bool],
) -> OutOfSample:
    """f(x_i) + b of the samples of a problem by models without them. Samples of the same key are left out together.

    `folds`: by no other way than folds.
    """
    problem, start, first = _merge(problem, Start(result.f, result.b, result.alpha), keys)
    picked = first[problem.cost[first] > 0]
    y, cost = problem.y[picked], problem.cost[picked]
    scores = None if folds else _by_leave_one_out(problem, start)
    if scores is not None:
        return OutOfSample(scores[picked], y, cost, 0.0, "converged", [])
    limits = {"max_iter": max_iter, "max_seconds": max_seconds, "stop": stop}
    fits = _by_folds(problem, start, solver, keys, picked, **limits)  # type: ignore[arg-type]
    scores, worst = np.zeros(len(picked)), 0.0  # nobody knows a score of the only sample: it stays zero
    for result, out in fits:
        scores[out] = problem.scores(result.f, picked[out]) + result.b
        if np.ptp(y[np.setdiff1d(np.arange(len(y)), out)]):  # of one class there is nothing to learn: the gap is 0 / 0
            worst = max(worst, result.certificate.relative_gap)
    interrupted = stop() or any(fit.result.status == "interrupted" for fit in fits)
    return OutOfSample(scores, y, cost, worst, "interrupted" if interrupted else "converged", fits)


def _merge(problem: Problem, start: Start, keys: np.ndarray) -> tuple[Problem, Start, np.ndarray]:
    """(the same problem with the cost of equal samples at one of them, its solution, which ones)"""
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    if len(first) == problem.n:
        return problem, start, np.arange(problem.n)

    def together(values: Array) -> Array:
        out = np.zeros(problem.n)
        out[first] = np.bincount(group, values)
        return out

    merged = replace(problem, cost=together(problem.cost))
    f = together(start.f) if problem.kind == "kernel" else start.f
    alpha = np.minimum(together(start.alpha), merged.upper)  # type: ignore[arg-type]
    return merged, Start(f, start.b, alpha), np.sort(first)


def _by_leave_one_out(problem: Problem, start: Start) -> Array | None:
    """None where that is no way: too dear, no room, or a matrix that rounding has spoilt."""
    if not _is_cheap(problem, start.alpha):  # type: ignore[arg-type]
        return None
    try:
        assert start.alpha is not None
        left = leave_out(problem, start.f, start.b, start.alpha)
    except (MemoryError, ValueError):
        return None
    # one step goes too far where little else holds a sample; none is further out than the model has them
    most = float(np.max(np.abs(left.plain)))
    return np.clip(left.scores, -most, most) if np.isfinite(left.scores).all() else None


def _is_cheap(problem: Problem, alpha: Array) -> bool:
    """Does leave-one-out take less than folds would: m^2 for each support vector, m the curved ones or the features?"""
    support, m = (int(np.count_nonzero(each)) for each in (alpha > 0, (alpha > 0) & (alpha < problem.upper)))
    if problem.kind == "linear" and problem.loss.bend:
        m = min(problem.size, m)
    return m * m * (m + support) <= max(SPEED * problem.entries, FREE_WORK)


def _by_folds(
    problem: Problem,
    start: Start,
    solver: Solver,
    keys: np.ndarray,
    picked: np.ndarray,
    *,
    max_iter: int,
    max_seconds: Callable[[], float | None],
    stop: Callable[[], bool],
) -> list[Fold]:
    """Five fits, each without a fifth of either class. A sample of cost zero is the same as none: all share the data.

    The fifths follow from the keys, and with them from the rows alone, not from their order.
    """
    K = getattr(problem, "K", None)
    if isinstance(K, TiledKernel) and not K.held and 8 * K.size <= K.memory_limit:
        K.array()  # once for all of them
    order, fits = np.lexsort((keys[picked], problem.y[picked])), []
    for out in (np.sort(order[k::FOLDS]) for k in range(min(FOLDS, len(order)))):
        cost, alpha = problem.cost.copy(), start.alpha.copy()  # type: ignore[union-attr]
        cost[picked[out]] = alpha[picked[out]] = 0.0
        if not cost.any():
            continue
        f = np.where(cost > 0, start.f, 0.0) if problem.kind == "kernel" else start.f
        found = solve(
            replace(problem, cost=cost),
            solver,
            tol=FOLD_TOL,
            max_iter=max_iter,
            max_seconds=max_seconds(),
            stop=stop,
            start=Start(f, start.b, alpha),
        )
        fits.append(Fold(found, out))
        if found.status == "interrupted" or stop():
            break
    return fits


def row_keys(X: Any, labels: np.ndarray, seed: int) -> np.ndarray:
    """A number (n,) for each row and its label: the same for the same, dense or sparse, float32 or float64.

    Modulo 2^64: sum_j r_j h(x_j), with h(0) = 0 and random r. Two rows that differ share one with probability 2^-32
    at most, and then they are only left out together.
    """
    rng = np.random.default_rng(seed)
    factors = rng.integers(2**64, size=X.shape[1] + 1, dtype=np.uint64) | np.uint64(1)
    if isinstance(X, Chunks):
        found = np.concatenate([_hash_rows(piece, factors) for _, piece in X.pieces()])
    else:
        found = _hash_rows(X, factors)
    return found + _mix(labels.astype(np.uint64) + np.uint64(1)) * factors[-1]


def _hash_rows(X: Any, factors: np.ndarray) -> np.ndarray:
    n, d = X.shape
    out = np.zeros(n, dtype=np.uint64)
    if sp.issparse(X):
        X = X.tocsr()
        ends = np.append(np.uint64(0), np.cumsum(_bits(X.data) * factors[X.indices]))
        return ends[X.indptr[1:]] - ends[X.indptr[:-1]]  # modulo 2^64 both
    step = max(1, HASHED // max(d, 1))
    for begin in range(0, n, step):
        piece = slice(begin, begin + step)
        np.sum(_bits(X[piece]) * factors[:d], axis=1, dtype=np.uint64, out=out[piece])
    return out


def _bits(values: np.ndarray) -> np.ndarray:
    return _mix((np.asarray(values, dtype=np.float64) + 0.0).view(np.uint64))  # -0.0 is 0.0


def _mix(bits: np.ndarray) -> np.ndarray:
    """Zero stays zero; numbers with few digits get many."""
    bits = (bits ^ (bits >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    return bits ^ (bits >> np.uint64(29))


# --- one curve --------------------------------------------------------------------------------------------------------


def fit_curve(method: str, scores: Array, y: Array, weight: Array) -> Array:
    """(a, b) of a sigmoid, or (2, k): scores and probabilities between which a line is drawn."""
    if not len(scores):  # of two classes without weight
        return np.zeros(2)
    if method != "isotonic":
        return fit_sigmoid(scores, y, weight)
    rising = IsotonicRegression(out_of_bounds="clip").fit(scores, targets(y, weight), sample_weight=weight)
    return np.array([rising.X_thresholds_, rising.y_thresholds_])


def targets(y: Array, weight: Array) -> Array:
    positive = y > 0
    plus, minus = float(np.sum(weight[positive])), float(np.sum(weight[~positive]))
    return np.where(positive, (plus + 1) / (plus + 2), 1 / (minus + 2))


def fit_sigmoid(scores: Array, y: Array, weight: Array) -> Array:
    """(a, b), a >= 0, least sum_i weight_i (log(1 + exp(z_i)) - t_i z_i),  z = a s + b."""
    t, total = targets(y, weight), float(np.sum(weight))
    flat, size = float(logit(weight @ t / total)), float(np.max(np.abs(scores)))
    s = scores / (size or 1.0)  # Newton's method does not mind, float64 and a 2 x 2 system do
    mean = float(weight @ s) / total
    spread = float(np.sqrt(weight @ (s - mean) ** 2 / total))
    if not spread > 8 * ULP:
        return np.array([0.0, flat])
    s = (s - mean) / spread
    w = weight / total

    def value(a: float, b: float) -> float:
        z = a * s + b
        return float(w @ (-log_expit(-z) - t * z))

    a, b, now = 0.0, flat, np.inf
    for _ in range(100):
        p = expit(a * s + b)
        pull, bend = w * (p - t), w * np.maximum(p * (1 - p), 1e-12)
        gradient = np.array([pull @ s, np.sum(pull)])
        H = np.array([[bend @ (s * s), bend @ s], [bend @ s, np.sum(bend)]])
        step = np.linalg.solve(H, gradient)
        decrement, length = float(gradient @ step), 1.0
        if decrement > NEAR:
            now = value(a, b) if np.isinf(now) else now
            while (then := value(a - length * step[0], b - length * step[1])) > now and length > ULP:
                length /= 2
            now = then
        a, b = a - length * step[0], b - length * step[1]
        if decrement <= NEAR**2:
            break
    return np.array([a / spread / size, b - a * mean / spread]) if a > 0 else np.array([0.0, flat])


def log_odds(curve: Array, scores: Array) -> Array:
    """log p - log(1 - p), where float64 has room for p and 1 - p."""
    scores = np.clip(scores, -1e300, 1e300)
    with np.errstate(over="ignore"):
        z = curve[0] * scores + curve[1] if curve.ndim == 1 else logit(_rising(curve, scores))
    return np.clip(z, -FAR, FAR)


def _rising(curve: Array, scores: Array) -> Array:
    """Straight lines between the points of the curve; a step where two are closer than float64 has slopes for."""
    with np.errstate(invalid="ignore"):
        p = np.interp(scores, *curve)
    steep = ~np.isfinite(p)
    p[steep] = curve[1][np.searchsorted(curve[0], scores[steep], side="right") - 1]
    return p


# --- of all classes ---------------------------------------------------------------------------------------------------


def probabilities(curves: list[Array], scores: Array, n_classes: int, multi_class: str) -> Array:
    """(n, n_classes) from the scores (n, parts) of the binary problems."""
    z = np.column_stack([log_odds(curve, scores[:, k]) for k, curve in enumerate(curves)])
    if n_classes == 2:
        return np.column_stack([expit(-z[:, 0]), expit(z[:, 0])])
    if multi_class == "ovr":
        p = expit(z)
        return p / np.sum(p, axis=1, keepdims=True)
    step = max(1, HASHED // n_classes**2)
    pieces = [couple(np.clip(expit(z[i : i + step]), LEAST, 1 - LEAST), n_classes) for i in range(0, len(z), step)]
    return np.concatenate(pieces) if pieces else np.empty((0, n_classes))


def couple(r: Array, n_classes: int) -> Array:
    """Probabilities (n, n_classes) from those of pairs, r (n, pairs) = p(j | j or k), j < k, inside (0, 1).

    With Q_jj = sum_k r_kj^2, Q_jk = -r_kj r_jk the least p'Qp of sum 1: one linear system for each sample.
    """
    j, k = np.triu_indices(n_classes, 1)
    R = np.zeros((len(r), n_classes, n_classes))
    R[:, j, k], R[:, k, j] = r, 1 - r
    system = np.ones((len(r), n_classes + 1, n_classes + 1))
    system[:, :-1, :-1] = -R * R.swapaxes(1, 2)
    system[:, range(n_classes), range(n_classes)] = np.sum(R * R, axis=1)
    system[:, -1, -1] = 0.0
    right = np.zeros((len(r), n_classes + 1, 1))
    right[:, -1] = 1.0
    p = np.maximum(np.linalg.solve(system, right)[:, :-1, 0], TINY)  # below zero by rounding only
    return p / np.sum(p, axis=1, keepdims=True)


def agree(p: Array, decision: Array, chosen: np.ndarray) -> Array:
    """The probabilities closest to p by which the class chosen is the most probable, and alone so.

    Two classes: p(chosen) is at least a half, and an ulp. A little more, less than 1e-6, follows the score there, so
    that samples are still ranked as the decision function ranks them.
    More: where another class is above the one chosen, they get their mean; so do, from the highest down, all others
    that are above it then. That is the projection onto {p_chosen >= p_j}.
    """
    p, rows = np.maximum(p, TINY), np.arange(len(p))
    if p.shape[1] == 2:
        size = np.abs(np.clip(decision, -1e300, 1e300))
        least = 0.5 + np.maximum(NUDGE * (size / (1 + size)), ULP)
        wrong = p[rows, chosen] < least
        p[rows[wrong], chosen[wrong]], p[rows[wrong], 1 - chosen[wrong]] = least[wrong], 1 - least[wrong]
        return p
    others = p.copy()
    others[rows, chosen] = -1.0
    wrong = np.flatnonzero(p[rows, chosen] <= np.max(others, axis=1) * (1 + 4 * ULP))
    if not len(wrong):
        return p
    mine, q = chosen[wrong], p[wrong]
    ranked = -np.sort(-others[wrong], axis=1)[:, :-1]  # (wrong, classes - 1), falling
    means = (q[range(len(q)), mine, None] + np.cumsum(ranked, axis=1)) / np.arange(2, q.shape[1] + 1)
    level = np.max(means, axis=1)[:, None]  # adding the next raises the mean as long as it is above
    q = np.where(q >= level * (1 - 8 * ULP), level * (1 - 8 * ULP), q)
    q[range(len(q)), mine] = level[:, 0] * (1 + 8 * ULP)
    p[wrong] = q
    return p
