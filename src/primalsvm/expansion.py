"""f(x) = sum_j beta_j k(x_j, x) at many points, for several functions over the same x_j at once.

Each kernel entry is computed once, in a tile that stays in the cache, and multiplied with the coefficients of all
functions that have some there. Of one against one, each x_j has coefficients in the problems of its own class only:
sorted by class, a tile of them meets k - 1 of the k (k - 1) / 2 functions.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from .crew import in_parts
from .kernels import LEAST_ENTRY, UNIT32, Features, Kernel, Points
from .losses import EPS, Array

ROWS, TILE = 1024, 512  # of a tile: 4 MB in float64
FEW = 4  # functions, for which the sum of their sizes costs little beside the kernel
LEAST = 128  # a class with fewer vectors shares its tile with the next


def expand(kernel: Kernel, vectors, coef: Array, X, groups: np.ndarray | None = None, threads: int = 1) -> Array:
    """f_p(x_i) for all rows of X (n, d): vectors (m, d), coef (p, m).

    Where the functions are those of pairs of classes, in the order of `split`, `groups` are the classes of the vectors.
    """
    known = Points(kernel, vectors)
    return _sums(known, Points(kernel, X, like=known), coef, groups, threads, np.float64)


def expand_roughly(
    kernel: Kernel, vectors, coef: Array, X, groups: np.ndarray | None = None, threads: int = 1
) -> tuple[Array, Array] | None:
    """(scores, a bound on the error of each) in float32: half the price. None where float32 has no bound.

    An entry is off by a share of itself that Points.rough_share knows, and the sum over a tile by TILE + 2 roundings.
    Both are of the size of sum_j |coef_j| k(x_j, x): summed up beside the scores of a few functions, and at most
    sum_j |coef_j| for many.
    """
    known = Points(kernel, vectors)
    points = Points(kernel, X, like=known)
    size = float(np.max(np.abs(coef), initial=0.0))
    share = points.rough_share(known) if 0.0 < size < np.inf else None
    if share is None:
        return None
    functions, unit = len(coef), coef / size  # numbers that float32 has, whatever C is
    if functions <= FEW:
        both = _sums(known, points, np.vstack([unit, np.abs(unit)]), None, threads, np.float32)
        scores, sizes = both[:, :functions], both[:, functions:]
    else:
        scores = _sums(known, points, unit, groups, threads, np.float32)
        sizes = np.sum(np.abs(unit), axis=1)
    error = 1.05 * (share + (TILE + 2) * UNIT32)[:, None] * sizes + LEAST_ENTRY * len(known)
    return size * scores, size * error


def expansion_error(kernel: Kernel, vectors, coef: Array, X) -> Array:
    """For each function, how far two results of `expand` for one row can be apart, whatever rows are beside it."""
    known = Points(kernel, vectors)
    accuracy = max(known.accuracy, Points(kernel, X, like=known).accuracy)
    return 2 * (accuracy + (len(known) + 4) * EPS) * np.sum(np.abs(coef), axis=1)


def _sums(known: Points, points: Points, coef: Array, groups: np.ndarray | None, threads: int, dtype) -> Array:
    n, m = len(points), len(known)
    scores = np.zeros((n, len(coef)))
    if not (n and m):
        return scores
    tiles = list(_tiles(known, coef, groups, dtype))

    def work(begin: int, end: int) -> None:
        room = np.empty(ROWS * TILE, dtype=dtype)
        for first in range(begin, end, ROWS):
            part = slice(first, min(first + ROWS, end))
            rows = points.features(part, dtype)
            for features, used, weights in tiles:
                tile = room[: len(rows) * len(features)].reshape(len(rows), len(features))
                scores[part, used] += points.kernel.between(rows, features, out=tile) @ weights

    parts = max(1, min(threads, n * m // 100_000, n))
    in_parts([n * k // parts for k in range(parts + 1)], work)
    return scores


def _tiles(
    known: Points, coef: Array, groups: np.ndarray | None, dtype
) -> Iterator[tuple[Features, slice | np.ndarray, Array]]:
    """(some vectors, the functions that have coefficients there, these coefficients)"""
    m = len(known)
    order = np.arange(m) if groups is None else np.argsort(groups, kind="stable")
    edges = [0]
    for end in [m] if groups is None else np.cumsum(np.bincount(groups)).tolist():
        while end - edges[-1] > TILE:
            edges.append(edges[-1] + TILE)
        if end - edges[-1] >= LEAST or (end == m > edges[-1]):
            edges.append(end)
    if groups is None:
        for begin, end in pairwise(edges):
            weights = np.ascontiguousarray(coef[:, begin:end].T, dtype=dtype)
            yield known.features(slice(begin, end), dtype), slice(None), weights
        return
    first, second = np.triu_indices(round((1 + (1 + 8 * len(coef)) ** 0.5) / 2), 1)  # k (k - 1) / 2 pairs
    for begin, end in pairwise(edges):
        picked = order[begin:end]
        classes = np.unique(groups[picked])
        used = np.flatnonzero(np.isin(first, classes) | np.isin(second, classes))
        yield known.features(picked, dtype), used, np.ascontiguousarray(coef[np.ix_(used, picked)].T, dtype=dtype)
