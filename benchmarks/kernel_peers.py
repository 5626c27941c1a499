r"""The sides of the kernel benchmark: ours and every peer, each with a ladder of settings from loose to tight.

All solve, for two classes or for each pair of classes, with the same C and gamma,

    P(f, b) = 1/2 |f|^2 + C sum_i max(0, 1 - y_i (f(x_i) + b)),    k(x, z) = exp(-gamma |x - z|^2),    b free.

A ladder starts two steps looser than the packages' default tolerance of 1e-3, where a gap of 1e-3 is often reached, and
goes down by factors of 10 as far as it leads. Caches are 2000 MB where there is such a setting.

Whatever a package returns is judged in one way: `judge` takes (f, b, alpha) of each pair to the certificate.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from primalsvm.certificate import Certificate, certificate
from primalsvm.kernel_matrix import kernel_matrix
from primalsvm.kernels import Kernel
from primalsvm.matrix import one_blas_thread
from primalsvm.problem import KernelProblem

from .peers import tolerances

CACHE = 2000  # MB
SPARSE = 0.15  # of entries that are not 0: below, CSR is faster for those that take both (a9a: 0.11, MNIST: 0.19)


class Cell(NamedTuple):
    """A problem; `gamma` is a number here, whatever it is called."""

    name: str
    set: str
    C: float
    gamma: float | str

    def numbers(self, X) -> tuple[float, float]:
        """C and gamma; "scale" is 1 / (d var X), as in scikit-learn."""
        return self.C, 1.0 / (X.shape[1] * float(X.var())) if self.gamma == "scale" else float(self.gamma)


CELLS = {
    cell.name: cell
    for cell in (
        Cell("usps", "usps", 10.0, 1 / 128),
        Cell("usps_lambda", "usps", 0.5e8, 1 / 128),  # 1 / (2 lambda), lambda = 1e-8; sigma = 8
        Cell("pendigits", "pendigits", 10.0, "scale"),
        Cell("letter", "letter", 10.0, "scale"),
        Cell("a9a", "a9a", 1.0, 0.05),
        Cell("covtype", "covtype", 10.0, 10.0),
        Cell("mnist", "mnist", 10.0, 0.02),
    )
}
TOYS = {
    cell.name: cell for cell in (Cell("toy_two", "toy_two", 10.0, 0.5), Cell("toy_four", "toy_four", 10.0, "scale"))
}


class Pair(NamedTuple):
    """What a model says of two classes: sum_j coef_j k(x_j, x) + b is above 0 for the first."""

    first: Any
    second: Any
    rows: np.ndarray  # (m,) of X: the support vectors
    coef: np.ndarray  # (m,)
    b: float
    alpha: np.ndarray | None = None  # (n,) the dual point that goes with it, unless that is |coef|


@dataclass
class Fit:
    predict: Callable[[Any], np.ndarray]
    pairs: Callable[[], Iterable[Pair]]
    n_support: int
    arrays: tuple[np.ndarray, ...]  # all that the model is made of
    facts: dict = field(default_factory=dict)  # what it says itself, for the record


@dataclass(frozen=True)
class Side:
    """One package. `fit` gets what `prepare` made of X and y, `predict` what `form` made of X; only they are timed."""

    name: str
    package: str  # on PyPI
    fit: Callable[[Any, float, float, float, int], Fit]  # (prepared, C, gamma, tol, threads)
    ladder: tuple[dict[str, Any], ...] = tolerances(1, 12)
    form: Callable = lambda X: X
    prepare: Callable | None = None
    threads: int | None = None  # if not as many as the others

    def __str__(self) -> str:
        return self.name

    def installed(self) -> bool:
        try:
            version(self.package)
        except PackageNotFoundError:
            return False
        return True

    def ready(self, X, y) -> Any:
        return (self.form(X), y) if self.prepare is None else self.prepare(X, y)


# the judge ------------------------------------------------------------------------------------------------------------
def libsvm_pairs(classes, n_support, support, coef, intercept) -> Iterable[Pair]:
    """LIBSVM's layout: vectors grouped by class; the pair j < k has row k - 1 of the coefficients for those of j."""
    ends = np.cumsum(n_support)
    groups = [np.arange(end - count, end) for end, count in zip(ends, n_support, strict=True)]
    intercepts = iter(intercept)
    for j in range(len(classes)):
        for k in range(j + 1, len(classes)):
            rows = support[np.concatenate([groups[j], groups[k]])]
            values = np.concatenate([coef[k - 1, groups[j]], coef[j, groups[k]]])
            yield Pair(classes[j], classes[k], rows, values, float(next(intercepts)))


def judge(pairs: Iterable[Pair], X, y, C: float, gamma: float, threads: int) -> Certificate:
    """Our certificate of a one-vs-one model, whoever made it: that of the sums over all pairs."""
    parts = []
    with one_blas_thread():
        for pair in pairs:
            rows = np.flatnonzero((y == pair.first) | (y == pair.second))
            labels = np.where(y[rows] == pair.first, 1.0, -1.0)
            coef = np.zeros(len(rows))
            np.add.at(coef, np.searchsorted(rows, pair.rows), pair.coef)
            K = kernel_matrix(Kernel("rbf", gamma), X[rows], threads=threads)
            problem = KernelProblem(labels, np.full(len(rows), C), "hinge", "free", K=K)  # type: ignore[arg-type]
            alpha = np.abs(coef) if pair.alpha is None else pair.alpha[rows]
            parts.append(certificate(problem, coef, pair.b, alpha, deep=False))
    return Certificate.of_parts(parts)


# ours -----------------------------------------------------------------------------------------------------------------
def fit_ours(data, C: float, gamma: float, tol: float, threads: int) -> Fit:
    from primalsvm import SVC

    model = SVC(kernel="rbf", C=C, gamma=gamma, tol=tol, multi_class="ovo", n_jobs=threads).fit(*data)

    def pairs() -> Iterable[Pair]:
        first, *others = model.classes_
        names = combinations(model.classes_, 2) if len(others) > 1 else [(others[0], first)]
        for part, (positive, negative) in enumerate(names):
            alpha = model.alpha_[[part]].toarray()[0]
            yield Pair(positive, negative, *_of(model, part), float(model.intercept_[part]), alpha)

    arrays = model.support_, model.dual_coef_, model.intercept_, model.alpha_.indices, model.alpha_.data
    facts = {"claimed_gap": model.certificate_.relative_gap, "status": model.status_, "solver": model.solver_.name}
    return Fit(model.predict, pairs, len(model.support_), arrays, facts)


def _of(model, part: int) -> tuple[np.ndarray, np.ndarray]:
    """Those support vectors that a binary problem has, and their coefficients."""
    used = np.flatnonzero(model.dual_coef_[part])
    return model.support_[used], model.dual_coef_[part, used]


# peers ----------------------------------------------------------------------------------------------------------------
def sparse_rows(X) -> Any:
    return sp.csr_matrix(X)


def sparse_if_empty(X) -> Any:
    return sp.csr_matrix(X) if np.count_nonzero(X) < SPARSE * X.size else X


def layout(predict, classes, n_support, support, coef, intercept) -> Fit:
    arrays = tuple(map(np.asarray, (classes, n_support, support, coef, intercept)))
    return Fit(predict, partial(libsvm_pairs, *arrays), len(arrays[2]), arrays)


def fit_sklearn(data, C: float, gamma: float, tol: float, threads: int, intelex: bool = False) -> Fit:
    if intelex:
        from sklearnex.svm import SVC

        model = SVC(C=C, gamma=gamma, tol=tol, cache_size=CACHE, n_jobs=threads).fit(*data)
    else:
        from sklearn.svm import SVC

        model = SVC(C=C, gamma=gamma, tol=tol, cache_size=CACHE).fit(*data)
    coef = model.dual_coef_.toarray() if sp.issparse(model.dual_coef_) else model.dual_coef_
    sign = -1.0 if len(model.classes_) == 2 else 1.0  # of two classes the second is its positive one
    shape = model.classes_, model.n_support_, model.support_
    return layout(model.predict, *shape, sign * coef, sign * model.intercept_)


def prepare_libsvm(X, y):
    from libsvm import svmutil

    return svmutil.svm_problem(y, sp.csr_matrix(X))


def fit_libsvm(data, C: float, gamma: float, tol: float, _threads: int) -> Fit:
    from libsvm import svmutil

    model = svmutil.svm_train(data, f"-t 2 -c {C!r} -g {gamma!r} -e {tol!r} -m {CACHE} -q")
    k, m = model.nr_class, model.l
    coef = np.stack([np.ctypeslib.as_array(model.sv_coef[j], (m,)) for j in range(k - 1)])
    rho = np.ctypeslib.as_array(model.rho, (k * (k - 1) // 2,))
    support = np.array(model.get_sv_indices()) - 1

    def predict(X) -> np.ndarray:
        return np.array(svmutil.svm_predict([], X, model, "-q")[0])

    return layout(predict, model.get_labels(), model.nSV[:k], support, coef, -rho)


def fit_thundersvm(data, C: float, gamma: float, tol: float, threads: int) -> Fit:
    from thundersvm import SVC

    X, y = data
    model = SVC(kernel="rbf", C=C, gamma=gamma, tol=tol, n_jobs=threads).fit(X, y)
    classes = y[model.support_[np.cumsum(model.n_support_) - 1]]  # in an order of its own
    return layout(model.predict, classes, model.n_support_, model.support_, model.dual_coef_, -model.intercept_)


OURS = Side("primalsvm", "primalsvm", fit_ours, ({"tol": 1e-3}, {"tol": 1e-6}))
SKLEARN = Side("scikit-learn", "scikit-learn", fit_sklearn)
INTELEX = Side("intelex", "scikit-learn-intelex", partial(fit_sklearn, intelex=True), form=sparse_if_empty)
LIBSVM = Side("libsvm", "libsvm-official", fit_libsvm, form=sparse_rows, prepare=prepare_libsvm)
LIBSVM_ONE = Side("libsvm 1 thread", "libsvm-official", fit_libsvm, form=sparse_rows, prepare=prepare_libsvm, threads=1)
THUNDER = Side("thundersvm", "thundersvm-cpu", fit_thundersvm)
PEERS = (INTELEX, LIBSVM, LIBSVM_ONE, SKLEARN, THUNDER)
SIDES = {side.name: side for side in (OURS, *PEERS)}
