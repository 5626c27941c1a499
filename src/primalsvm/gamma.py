"""gamma="scale" and "auto" as numbers, of rows in memory or in pieces."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from .chunks import Chunks
from .losses import EPS, Array


def kernel_gamma(gamma: str | float, X, weight: Array | None = None) -> float:
    """gamma as a number: "scale" is 1 / (n_features * X.var()), 1 where X does not vary; "auto" is 1 / n_features."""
    d = X.shape[1]
    if gamma == "auto":
        return 1.0 / d
    if gamma != "scale":
        return float(gamma)
    weight = np.ones(X.shape[0]) if weight is None else weight
    with np.errstate(over="ignore", invalid="ignore"):
        mean, variance = _mean_and_variance(X, weight / np.sum(weight))
    if not np.isfinite(variance):
        raise ValueError("gamma='scale' needs X.var(), which is beyond float64; scale X, or give gamma a number.")
    return 1.0 / (d * variance) if variance > (4 * EPS * mean) ** 2 else 1.0


def _mean_and_variance(X, share: Array) -> tuple[float, float]:
    """Of all entries, each row counting by its share; in blocks, for X need not fit into memory twice, or once."""
    d = X.shape[1]
    sums = [share[rows] @ np.asarray(block.sum(axis=1, dtype=np.float64)).ravel() for rows, block in _blocks(X)]
    mean, total = float(sum(sums)) / d, 0.0
    for rows, block in _blocks(X):
        if sp.issparse(block):
            entries = block.astype(np.float64)
            zeros = d - np.diff(entries.indptr)
            entries.data = (entries.data - mean) ** 2
            total += float(share[rows] @ (np.asarray(entries.sum(axis=1)).ravel() + zeros * mean**2))
        else:
            total += float(share[rows] @ np.sum((block.astype(np.float64) - mean) ** 2, axis=1))
    return mean, total / d


def _blocks(X) -> Iterator[tuple[slice, Any]]:
    """(which rows, these rows) one block after the other."""
    if isinstance(X, Chunks):
        yield from ((slice(*X.bounds[k : k + 2]), piece) for k, piece in X.pieces())
        return
    for first in range(0, X.shape[0], 4096):
        yield slice(first, first + 4096), X[first : first + 4096]
