r"""The sides of the linear benchmark: ours and every peer, each with a ladder of settings from loose to tight.

All minimise, in their own scaling,

    P(w) = 1/2 |w|^2 + C sum_i l(y_i <w, x_i>),    l(m) = max(0, 1 - m)  or  max(0, 1 - m)^2,    no intercept.

    LIBLINEAR, scikit-learn, skglm   the same formula, the same C
    Snap ML                          regularizer = 1 / C
    Cyanure                          1/n sum_i 1/2 l + lambda/2 |w|^2, the squared hinge only: lambda = 1 / (2 C n)

A ladder starts one step looser than the package's default tolerance, where that may pay, and goes down by factors of
10. Where a package gives up after its default number of iterations, the rung is made again with that number raised.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import scipy.sparse as sp

HINGE, SQUARED = "hinge", "squared_hinge"


@dataclass
class Fit:
    w: np.ndarray
    exhausted: bool = False  # it used up its iterations: a tighter tolerance alone changes nothing
    facts: dict = field(default_factory=dict)  # what it says itself, for the record


@dataclass(frozen=True)
class Side:
    """One package with one algorithm. `fit` gets what `prepare` made of (X, y); only `fit` is timed."""

    name: str
    package: str  # on PyPI
    losses: tuple[str, ...]
    ladder: tuple[dict[str, Any], ...]
    limits: tuple[int, ...]  # values of max_iter: the default, then what its users raise it to; () where it has none
    fit: Callable[[Any, str, float, dict, int], Fit]  # (prepared, loss, C, setting, threads)
    prepare: Callable = lambda X, y: (X, y)

    def __str__(self) -> str:
        return self.name

    def installed(self) -> bool:
        try:
            version(self.package)
        except PackageNotFoundError:
            return False
        return True


def tolerances(first: int, last: int) -> tuple[dict[str, Any], ...]:
    """Settings tol = 10^-first, ..., 10^-last."""
    return tuple({"tol": float(f"1e-{k}")} for k in range(first, last + 1))


# ours -----------------------------------------------------------------------------------------------------------------
def fit_ours(data, loss: str, C: float, setting: dict, threads: int) -> Fit:
    from primalsvm import LinearSVC

    setting = {"max_iter": 100_000} | setting  # as high as the peers' users raise it
    model = LinearSVC(loss=loss, C=C, fit_intercept=False, n_jobs=threads, **setting).fit(*data)
    seen = model.certificate_
    facts = {"dual": seen.dual, "relative_gap": seen.relative_gap, "status": model.status_}
    return Fit(model.coef_[0], facts=facts | {"solver": model.solver_.name, "iterations": int(model.n_iter_)})


# peers ----------------------------------------------------------------------------------------------------------------
def prepare_liblinear(X, y):
    from liblinear import liblinearutil

    X = sp.csr_matrix(X)
    return liblinearutil.problem(y, X), X.shape[1]


def fit_liblinear(data, _loss: str, C: float, setting: dict, _threads: int) -> Fit:
    from liblinear import liblinear, liblinearutil

    problem, d = data
    said: list[bytes] = []
    listener = liblinear.PRINT_STRING_FUN(said.append)
    options = liblinearutil.parameter(f"-s {setting['s']} -c {C!r} -e {setting['e']!r}")
    liblinear.liblinear.set_print_string_function(listener)
    try:
        liblinear.liblinear.srand(1)  # the C library's: the same passes each time
        model = liblinear.toPyModel(liblinear.liblinear.train(problem, options))
    finally:
        liblinear.liblinear.set_print_string_function(liblinear.ctypes_print_null)
    text = b"".join(said)
    w = np.zeros(d)
    w[: model.nr_feature] = np.ctypeslib.as_array(model.w, (model.nr_feature,)) * model.label[0]
    return Fit(w, exhausted=b"reaching max" in text and b"Switching" not in text)


def fit_sklearn(dual: bool) -> Callable[..., Fit]:
    def fit(data, loss: str, C: float, setting: dict, _threads: int) -> Fit:
        from sklearn.svm import LinearSVC

        model = LinearSVC(loss=loss, C=C, dual=dual, fit_intercept=False, random_state=0, **setting).fit(*data)
        return Fit(model.coef_[0], exhausted=int(model.n_iter_) >= setting["max_iter"])

    return fit


def fit_cyanure(data, _loss: str, C: float, setting: dict, threads: int) -> Fit:
    from cyanure.estimators import Classifier

    X, y = data
    model = Classifier(
        loss="sqhinge",
        penalty="l2",
        lambda_1=1 / (2 * C * len(y)),
        fit_intercept=False,
        n_threads=threads,
        verbose=False,
        **setting,
    ).fit(X, y)
    return Fit(np.ravel(model.coef_), exhausted=float(np.max(model.n_iter_)) >= setting["max_iter"])


def fit_snapml(data, loss: str, C: float, setting: dict, threads: int) -> Fit:
    from snapml import SupportVectorMachine

    setting = {"n_jobs": threads} | setting
    model = SupportVectorMachine(loss=loss, regularizer=1 / C, fit_intercept=False, random_state=0, **setting)
    model.fit(*data)
    return Fit(np.ravel(model.coef_), exhausted=int(np.max(model.n_iter_ or 0)) >= setting["max_iter"])


def fit_skglm(data, _loss: str, C: float, setting: dict, _threads: int) -> Fit:
    from skglm import LinearSVC

    model = LinearSVC(C=C, fit_intercept=False, **setting).fit(*data)
    return Fit(np.ravel(model.coef_), exhausted=int(np.max(model.n_iter_)) >= setting["max_iter"])


def liblinear(s: int, loss: str, first: int) -> Side:
    ladder = tuple({"s": s, "e": rung["tol"]} for rung in tolerances(first, 8))
    return Side(f"liblinear -s {s}", "liblinear-official", (loss,), ladder, (), fit_liblinear, prepare_liblinear)


ONE_THREAD = tuple(rung | {"n_jobs": 1} for rung in tolerances(1, 9))
BOTH = (HINGE, SQUARED)

OURS = Side("primalsvm", "primalsvm", BOTH, ({"tol": 1e-3}, {"tol": 1e-6}), (), fit_ours)
PEERS = (
    liblinear(2, SQUARED, 1),
    liblinear(1, SQUARED, 0),
    liblinear(3, HINGE, 0),
    Side("cyanure", "cyanure", (SQUARED,), tolerances(1, 9), (500, 10_000), fit_cyanure),
    Side("snapml", "snapml", BOTH, tolerances(1, 9), (1000, 100_000), fit_snapml),
    Side("snapml 1 thread", "snapml", BOTH, ONE_THREAD, (1000, 100_000), fit_snapml),
    Side("skglm", "skglm", (HINGE,), tolerances(1, 8), (50, 1000), fit_skglm),
    Side("sklearn dual", "scikit-learn", BOTH, tolerances(1, 8), (1000, 100_000), fit_sklearn(dual=True)),
    Side("sklearn primal", "scikit-learn", (SQUARED,), tolerances(1, 8), (1000, 100_000), fit_sklearn(dual=False)),
)
# What P* is: ours, far beyond what is asked of it; another of our solvers where the first does not get there.
FAR = {"tol": 1e-9, "max_iter": 1_000_000}
LADDER = (FAR, FAR | {"solver": "newton"}, FAR | {"solver": "dual_coordinate_ascent"})
REFERENCE = Side("reference", "primalsvm", BOTH, LADDER, (), fit_ours)
SIDES = {side.name: side for side in (OURS, *PEERS, REFERENCE)}
