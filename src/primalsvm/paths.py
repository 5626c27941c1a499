r"""SVMs along a grid of C, and of gamma, each started from the one before and each with its own certificate.

For a range of C there is more to prove. With V(C) the minimum over f of

    P_C(f) = 1/2 |f|^2 + C sum_i weight_i l(y_i f(x_i))

P_C(f) is linear in C and V, a minimum of such lines, is concave. So for any f and any share q the function
V(C) - (1 - q) P_C(f) is concave too: where it is at least 0 at two values of C, it is so at all between them. A model
whose relative gap is proven to be at most q for C = low and for C = high is therefore proven to be within q of the
optimum for every C in between. At each end the judge gives that proof from alpha * C' / C. At the optimum for C it
costs, to first order, nothing to be off by a little: the gap grows with (C' / C - 1)^2 / 2 |f|^2, so a few models for
each decade of C cover it to a few percent.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from joblib import effective_n_jobs

from .certificate import Certificate, certificate
from .classifier import CertifiedClassifier, Prepared
from .linear_svc import LinearSVC
from .matrix import one_blas_thread
from .solve import Start
from .svc import SVC

SHARE = 0.25  # of `cover` is the tolerance of each model, at most
REACH = 1.02  # how closely the ends of what a model covers are found
FARTHEST = 1e3  # from its C, as a factor


def linear_path(X, y, *, C: Sequence[float], sample_weight=None, cover: float | None = None, **parameters) -> list:
    """One fitted LinearSVC for each C, in the order given; or as many as cover a range of C.

    They are solved from the smallest C to the largest. The start of each is the model before it, and its alpha grown
    with C: at small steps of C both are close to the new optimum, and the certificate says when that is close enough.

    Parameters
    ----------
    X, y, sample_weight : as for ``LinearSVC.fit``; checked and converted once.
    C : sequence of floats
        The grid, in any order; with `cover`, the two ends of the range.
    cover : float, default=None
        Choose the grid: for every C of the range one of the models is proven to be within this relative gap of the
        optimum at that C. Its ``covers_`` says from which C to which it is.
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
    >>> models = linear_path(X / X.max(axis=0), y, C=[0.1, 10.0], cover=0.1)
    >>> all(a.covers_[1] >= b.covers_[0] for a, b in zip(models, models[1:]))
    True
    """
    model = LinearSVC(**parameters)
    grid = _checked("C", C)
    data = model._prepare(X, y, sample_weight)
    return _along(model, data, grid) if cover is None else _covering(model, data, grid, cover)


def kernel_path(
    X, y, *, C: Sequence[float], gamma: Any = "scale", sample_weight=None, cover: float | None = None, **parameters
) -> list:
    """One fitted SVC for each gamma and each C, gamma by gamma, in the order given; or as many as cover a range of C.

    The kernel matrix of a gamma is computed once, where it fits into ``memory_limit``. For each gamma the models are
    solved from the smallest C to the largest, each started from the one before; the first from that of the last gamma.

    Parameters
    ----------
    X, y, sample_weight : as for ``SVC.fit``.
    C : sequence of floats
        The grid, in any order; with `cover`, the two ends of the range.
    gamma : float, "scale", "auto", or a sequence of them
    cover : float, default=None
        As for ``linear_path``, for each gamma.
    **parameters :
        All other parameters of SVC, but approximation.

    Returns
    -------
    list of SVC

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from primalsvm import kernel_path
    >>> X, y = load_iris(return_X_y=True)
    >>> [(model.gamma, model.C) for model in kernel_path(X, y, C=[1.0, 10.0], gamma=[0.1, 0.5])]
    [(0.1, 1.0), (0.1, 10.0), (0.5, 1.0), (0.5, 10.0)]
    """
    if parameters.get("approximation") is not None:
        raise ValueError("kernel_path is for exact kernels; fit SVC(approximation=...) once for each C.")
    grid = _checked("C", C)
    gammas = [gamma] if isinstance(gamma, str) or np.ndim(gamma) == 0 else list(gamma)
    model = SVC(gamma=gammas[0] if gammas else gamma, **parameters)
    data = model._prepare(X, y, sample_weight)
    models: list[SVC] = []
    first: CertifiedClassifier | None = None
    for k, value in enumerate(gammas):
        mine = model._at(gamma=value)
        mine._check_params()
        kernels = data.matrix if k == 0 else mine._matrix(data.X, data.weight, data.parts)
        shared = data._replace(matrix=kernels.kept(data.parts, effective_n_jobs(mine.n_jobs)))
        some = _along(mine, shared, grid, first) if cover is None else _covering(mine, shared, grid, cover, first)
        models += some
        first = min(some, key=lambda fitted: fitted.C)
    return models


def _checked(name: str, values: Sequence[float]) -> list[float]:
    grid = [float(value) for value in values] if np.ndim(values) == 1 else []
    if not grid or not all(0 < value < np.inf for value in grid):
        raise ValueError(f"{name} must be a sequence of finite numbers above 0, got {values!r}.")
    return grid


def _along(model, data: Prepared, grid: list[float], before: CertifiedClassifier | None = None) -> list:
    """A model for each C of the grid, from the smallest to the largest."""
    found: dict[float, Any] = {}
    for c in sorted(set(grid)):
        found[c] = before = model._at(C=c)._fit(data, _starts(data, before, c))
    return [found[c] for c in grid]


def _starts(data: Prepared, before: CertifiedClassifier | None, C: float) -> list[Start | None]:
    return [None] * len(data.parts) if before is None else before._solutions(data, C)


# for every C of a range -----------------------------------------------------------------------------------------------
def _covering(
    model, data: Prepared, ends: list[float], cover: float, before: CertifiedClassifier | None = None
) -> list:
    """Models of rising C, what they cover without a hole; what each covers, as `covers_`."""
    if not 0 < cover < 1:
        raise ValueError(f"cover must be a number between 0 and 1, got {cover!r}.")
    low, high = min(ends), max(ends)
    tol = min(model.tol, SHARE * cover)

    def fit(C: float, start: CertifiedClassifier | None):
        fitted = model._at(C=C, tol=tol)._fit(data, _starts(data, start, C))
        judge = _judge(fitted, data, cover)
        if judge(C).relative_gap > cover:
            raise RuntimeError(f"at C={C:g} the solver ended at a gap of {judge(C).relative_gap:.1e}, above {cover:g}.")
        fitted.covers_ = tuple(_end(judge, C, limit, cover) for limit in (low, high))
        return fitted

    models = [fit(low, before)]
    while models[-1].covers_[1] < high:
        last = models[-1]
        reached = last.covers_[1]
        C = min(reached * (reached / last.C), high)  # it should reach as far down as the last one does up
        following = fit(C, last)
        while following.covers_[0] > reached:
            C = float(np.sqrt(C * reached)) if REACH * reached < C else reached
            following = fit(C, last)
        models.append(following)
    return models


def _judge(fitted, data: Prepared, cover: float) -> Callable[[float], Certificate]:
    """The certificate of a model as one for another C, given the same f."""
    solutions = fitted._solutions(data, fitted.C)
    problems = [fitted._problem(data, part) for part in data.parts]

    def judge(C: float) -> Certificate:
        seen = []
        with one_blas_thread():
            for problem, start in zip(problems, solutions, strict=True):
                growth = C / fitted.C
                other = problem.with_cost(growth * problem.cost)
                seen.append(certificate(other, start.f, start.b, growth * start.alpha, tol=cover, deep=False))
        return Certificate.of_parts(seen)

    return judge


def _end(judge: Callable[[float], Certificate], C: float, limit: float, cover: float) -> float:
    """The farthest value toward `limit` for which the gap is proven; by bisection of the logarithm."""
    if judge(limit).relative_gap <= cover:
        return limit
    near, far = C, min(max(limit, C / FARTHEST), C * FARTHEST)
    while max(near / far, far / near) > REACH:
        middle = float(np.sqrt(near * far))
        near, far = (middle, far) if judge(middle).relative_gap <= cover else (near, middle)
    return near
