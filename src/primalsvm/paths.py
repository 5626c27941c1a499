"""Linear SVMs along a grid of C, each started from the one before and each with its own certificate."""

from collections.abc import Sequence

import numpy as np

from .linear_svc import LinearSVC
from .solve import Start


def linear_path(X, y, *, C: Sequence[float], sample_weight=None, **parameters) -> list[LinearSVC]:
    """One fitted LinearSVC for each C, in the order given.

    They are solved from the smallest C to the largest. The start of each is the model before it, and its alpha grown
    with C: at small steps of C both are close to the new optimum, and the certificate says when that is close enough.

    Parameters
    ----------
    X, y, sample_weight : as for ``LinearSVC.fit``; checked and converted once.
    C : sequence of floats
        The grid; any order.
    **parameters :
        All other parameters of LinearSVC.

    Returns
    -------
    list of LinearSVC

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from primalsvm import linear_path
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> models = linear_path(X / X.max(axis=0), y, C=[0.1, 1.0, 10.0])
    >>> max(model.certificate_.relative_gap for model in models) <= 1e-3
    True
    """
    grid = [float(c) for c in C]
    if not grid or not all(0 < c < np.inf for c in grid):
        raise ValueError(f"C must be a sequence of finite numbers above 0, got {C!r}.")
    model = LinearSVC(C=grid[0], **parameters)
    data = model._prepare(X, y, sample_weight)
    found: dict[float, LinearSVC] = {}
    last: LinearSVC | None = None
    for c in sorted(set(grid)):
        starts: list[Start | None] = [None] * len(data.parts) if last is None else last._solutions(data, c)
        found[c] = last = model._at(C=c)._fit(data, starts)
    return [found[c] for c in grid]
