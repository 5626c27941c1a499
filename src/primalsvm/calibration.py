r"""Probabilities from scores: p(y = +1 | x) = 1 / (1 + exp(-(a s + b))) with s = f(x) + b, or a rising step function.

The curve is drawn through scores that each sample got from a model without it. Its own model has been pulled towards
its label, and would promise too much. Where they come from (`out_of_sample`):

    leave-one-out    one Newton step from the solution for each sample, `left_out`; nothing is trained again
    five folds       where that takes an inverse too large to be cheap: each a fit on the rest

Rows that are the same, with the same label, are one sample with their weight: a copy left behind would tell what was
left out. A weight of two is thus the same as a row that stands twice, here as everywhere.

sigmoid     a and b by maximum likelihood, with Platt's targets, which are those of one more sample of each class:
            t = (N+ + 1) / (N+ + 2) for y = +1, t = 1 / (N- + 2) for y = -1; N are sums of weights. Newton's method.
            a is not below zero: a higher score is never a smaller probability.
isotonic    the rising function closest to the same targets in the square, linear between the scores: never 0, never 1
ensemble    the mean of four models: the model itself, and three fitted without a third of the samples each, with a
            sigmoid through the scores of that third. Where they disagree it is less sure of itself, which new data that
            are not like the old ones reward, and others do not: log loss of USPS 0-4/5-9, C = 10, sigmoid and ensemble,
            0.097 and 0.091 on its own test part, which other hands have written, 0.043 and 0.046 where both parts are
            shuffled (`benchmarks/probabilities.py`). Five models of folds, as scikit-learn has them, say the same.

More than two classes:

    one-vs-rest    each problem's own p, divided by their sum
    one-vs-one     the p closest to r_jk = p(j | j or k, x):  min sum_{j<k} (r_kj p_j - r_jk p_k)^2,  sum p = 1

What predict says stays as it is, and is always the most probable class: see `agree`.

Platt (1999); Lin, Lin and Weng (2007); Zadrozny and Elkan (2002); Wu, Lin and Weng (2004), their second method.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from threading import Event
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, logit
from sklearn.isotonic import IsotonicRegression

from .chunks import Chunks
from .left_out import leave_out
from .losses import Array
from .multiclass import scatter
from .problem import KernelProblem, Problem
from .side_by_side import run_all
from .solve import FREE_WORK, Result, Solver, Start, solve

METHODS = ("sigmoid", "isotonic", "ensemble")
FOLDS, MEMBERS = 5, 3
FOLD_TOL = 1e-2  # at 1e-2 the log loss is that of 1e-5 to four digits: benchmarks/probabilities.py --folds
SPEED = 2000  # passes over the data take as long as so many multiplications each in a product of matrices: five folds
COPIED = 64 * 2**20  # bytes of X of which a copy does not matter
THIN, MANY = 8, 4096  # a sigmoid through more samples begins with one in so many
FAR = 700.0  # log-odds beyond which exp leaves float64
LEAST = 1e-7  # of pairwise probabilities, as in LIBSVM
ULP = 2.0**-52
NUDGE = 1e-6  # see `agree`
TINY = float(np.finfo(np.float64).tiny)
HASHED = 1 << 20  # numbers at a time
NOWHERE = np.zeros(0, dtype=np.int32)
NEAR = 1e-7  # nats a sample that the last Newton step of a sigmoid gains at most; the square of it is left then


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
    folds: int,
    max_iter: int,
    max_seconds: Callable[[], float | None],
    interrupted: Event,
) -> OutOfSample:
    """f(x_i) + b of the samples of a problem by models without them. Samples of the same key are left out together.

    `folds`: by no other way than so many; 0 leaves the way open. Ctrl-C sets `interrupted`.
    """
    problem, start, first = _merge(problem, Start(result.f, result.b, result.alpha), keys)
    picked = first[problem.cost[first] > 0]
    y, cost = problem.y[picked], problem.cost[picked]
    scores = None if folds else _by_leave_one_out(problem, start)
    if scores is not None:
        return OutOfSample(scores[picked], y, cost, 0.0, "converged", [])
    outs = _folds(keys[picked], y, folds or FOLDS)
    side = problem.K.threads if isinstance(problem, KernelProblem) else 1  # a linear fit is too short for a thread
    fits: list[Fold] = []
    while len(fits) < len(outs) and not interrupted.is_set():
        some = outs[len(fits) : len(fits) + side]
        each = max(1, _whole(problem).threads // len(some))

        def fit(k: int, some: list[np.ndarray] = some, each: int = each) -> Result:
            limits = {"max_iter": max_iter, "max_seconds": max_seconds(), "stop": interrupted.is_set}
            return _without(problem, start, picked[some[k]], each, solver, **limits)

        fits += map(Fold, run_all(fit, len(some), len(some), interrupted), some)
    scores, worst = np.zeros(len(picked)), 0.0  # nobody knows a score of the only sample: it stays zero
    for result, out in fits:
        scores[out] = _scores(problem, result.f, picked[out]) + result.b
        mine = np.ones(len(y), dtype=bool)
        mine[out] = False
        if np.ptp(y[mine]):  # of one class there is nothing to learn: the gap is 0 / 0
            worst = max(worst, result.certificate.relative_gap)
    return OutOfSample(scores, y, cost, worst, "interrupted" if interrupted.is_set() else "converged", fits)


def _merge(problem: Problem, start: Start, keys: np.ndarray) -> tuple[Problem, Start, np.ndarray]:
    """(the same problem with the cost of equal samples at one of them, its solution, which ones)"""
    order = np.argsort(keys)
    new = np.append(True, np.diff(keys[order]) != 0)
    if new.all():
        return problem, start, np.arange(problem.n)
    first, group = np.minimum.reduceat(order, np.flatnonzero(new)), np.empty(problem.n, dtype=np.int64)
    group[order] = np.cumsum(new) - 1

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


def _folds(keys: np.ndarray, y: Array, count: int) -> list[np.ndarray]:
    """So many parts with their share of each class. They follow from the keys, and with them from the rows alone."""
    order = np.argsort(keys)
    order = np.concatenate([order[y[order] < 0], order[y[order] > 0]])
    return [np.sort(order[k::count]) for k in range(min(count, len(order)) if len(order) > 1 else 0)]


def _whole(problem: Problem) -> Any:
    """X or K"""
    return problem.K if isinstance(problem, KernelProblem) else problem.X  # type: ignore[attr-defined]


def _scores(problem: Problem, f: Array, picked: np.ndarray) -> Array:
    """f of these samples; of a kernel in float32 where that is cheaper: a curve has no use for more digits."""
    rough = problem.K.rough_matvec(f, picked) if isinstance(problem, KernelProblem) else None
    return problem.scores(f, picked) if rough is None else rough[0]


def _without(problem: Problem, start: Start, out: np.ndarray, threads: int, solver: Solver, **limits) -> Result:
    """The model without some of the samples, which is one of all of them: a sample of cost zero is the same as none.

    The rest is a problem of its own where that is cheap to make, and else has the same X or K.
    """
    cost, whole = problem.cost.copy(), copy(_whole(problem))
    cost[out] = 0.0
    rest = np.flatnonzero(cost)
    kernel = isinstance(problem, KernelProblem)
    light = not whole.held if kernel else whole.in_memory and whole.bytes <= COPIED  # K is only said, not made
    mine = rest if light else np.arange(problem.n)
    whole = whole.take(rest) if light else whole
    whole.threads = threads
    name = "K" if kernel else "X"
    part = replace(problem, y=problem.y[mine], cost=cost[mine], **{name: whole})
    # of a kernel's f, what those left out were for is missed everywhere: worse than nothing
    begin = None if kernel else Start(start.f, start.b, np.where(cost > 0, start.alpha, 0.0)[mine], rough=True)  # type: ignore[arg-type]
    found = solve(part, solver, tol=FOLD_TOL, start=begin, **limits)
    f = scatter(found.f, mine, problem.n) if kernel else found.f
    return replace(found, f=f, alpha=scatter(found.alpha, mine, problem.n))


def row_keys(X: Any, labels: np.ndarray, seed: int) -> np.ndarray:
    """A number (n,) for each row and its label: the same for the same, dense or sparse, float32 or float64.

    Modulo 2^64: sum_j r_j h(x_j), with h(0) = 0 and random r; the label is one more feature. Two rows that differ share
    a key with probability 2^-32 at most, and then they are only left out together.
    """
    rng = np.random.default_rng(seed)
    factors = rng.integers(2**64, size=X.shape[1] + 1, dtype=np.uint64) | np.uint64(1)
    pieces = (piece for _, piece in X.pieces()) if isinstance(X, Chunks) else [X]
    found = np.concatenate([_hash_rows(piece, factors) for piece in pieces])
    return found + _hash_bits(labels.astype(np.uint64)[:, None] + np.uint64(1), factors[-1:])


def _hash_rows(X: Any, factors: np.ndarray) -> np.ndarray:
    if sp.issparse(X):
        X = X.tocsr()
        return _hash_bits(_bits(X.data)[None], factors, X.indices, X.indptr)
    step = max(1, HASHED // max(X.shape[1], 1))  # float32 is copied
    parts = (_bits(X[begin : begin + step]) for begin in range(0, X.shape[0], step))
    return np.concatenate([_hash_bits(part, factors) for part in parts])


def _bits(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)


def _hash_bits(bits: np.ndarray, factors: np.ndarray, indices=NOWHERE, indptr=NOWHERE) -> np.ndarray:
    from .cpu_kernels import hash_rows

    out = np.empty(len(indptr) - 1 if len(indptr) else len(bits), dtype=np.uint64)
    hash_rows(bits, indices, indptr, factors, out)
    return out


# --- one curve --------------------------------------------------------------------------------------------------------


def fit_curve(method: str, scores: Array, y: Array, weight: Array, start: Array | None = None) -> Array:
    """(a, b) of a sigmoid, or (2, k): scores and probabilities between which a line is drawn."""
    if not len(scores):  # of two classes without weight
        return np.zeros(2)
    if method != "isotonic":
        return fit_sigmoid(scores, y, weight, start)
    rising = IsotonicRegression(out_of_bounds="clip").fit(scores, targets(y, weight), sample_weight=weight)
    return np.array([rising.X_thresholds_, rising.y_thresholds_])


def targets(y: Array, weight: Array) -> Array:
    positive = y > 0
    plus, minus = float(np.sum(weight[positive])), float(np.sum(weight[~positive]))
    return np.where(positive, (plus + 1) / (plus + 2), 1 / (minus + 2))


def fit_sigmoid(scores: Array, y: Array, weight: Array, start: Array | None = None) -> Array:
    """(a, b), a >= 0, least sum_i weight_i (log(1 + exp(z_i)) - t_i z_i),  z = a s + b. It may begin at another's."""
    from .cpu_kernels import sigmoid_sums

    t, total = targets(y, weight), float(np.sum(weight))
    flat, size = float(logit(weight @ t / total)), float(np.max(np.abs(scores)))
    s = scores / (size or 1.0)  # Newton's method does not mind, float64 and a 2 x 2 system do
    mean = float(weight @ s) / total
    spread = float(np.sqrt(weight @ (s - mean) ** 2 / total))
    if not spread > 8 * ULP:
        return np.array([0.0, flat])
    s = (s - mean) / spread
    w = weight / total

    if start is None and len(s) > MANY:
        start = fit_sigmoid(scores[::THIN], y[::THIN], weight[::THIN])
    slope, b = (0.0, flat) if start is None else start
    point = np.array([slope * size * spread, b + slope * size * mean])
    value, by_a, by_b, aa, ab, bb = sigmoid_sums(s, t, w, *point)
    for _ in range(100):
        gradient = np.array([by_a, by_b])
        step = -np.linalg.solve(np.array([[aa, ab], [ab, bb]]), gradient)
        if -gradient @ step <= NEAR:  # whole steps double the digits here, and values no longer tell them apart
            point = point + step
            break
        length, before = 1.0, value
        value, by_a, by_b, aa, ab, bb = sigmoid_sums(s, t, w, *(point + step))
        while value > before and length > ULP:
            length /= 2
            value, by_a, by_b, aa, ab, bb = sigmoid_sums(s, t, w, *(point + length * step))
        point = point + length * step
    a, b = point
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
