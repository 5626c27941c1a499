"""LinearSVC: the linear SVM in scikit-learn's world. Validates, builds the problems, solves, stores, warns."""

import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import is_dataclass, replace
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from .certificate import Certificate
from .losses import Array, make_loss
from .matrix import Matrix, as_matrix, one_blas_thread
from .multiclass import Part, join, split
from .problem import LinearProblem
from .solve import Result, Solver, Start, check_accepts, solve
from .solvers import explain_choice, make_solver

INTERCEPTS = {True: "free", False: "none", "penalized": "penalized"}
STATUSES = ("converged", "stopped", "max_iter", "stalled", "max_seconds", "diverged", "interrupted")  # from good to bad
ADVICE = {
    "max_iter": "raise max_iter={0.max_iter}, or scale the features to similar ranges.",
    "max_seconds": "raise max_seconds={0.max_seconds}.",
    "stalled": "the solver no longer moves; loosen tol, or scale the features to similar ranges.",
    "diverged": "the solver's step size is too large for this data; take solver='auto'.",
}


class Prepared(NamedTuple):
    """Validated data: all that the problems of any C are made of."""

    matrix: Matrix
    weight: Array  # c_i over C
    classes: np.ndarray
    parts: list[Part]


class LinearSVC(ClassifierMixin, BaseEstimator):
    r"""Linear support vector classifier that proves its answer.

    For two classes, with labels y_i = +-1 and c_i = C * sample_weight_i * class_weight, minimises

    .. math:: P(w, b) = \tfrac12 |w|^2 + \sum_i c_i\, l(y_i (\langle w, x_i\rangle + b))

    and stops when a lower bound D on the minimum, computed by a judge that does not trust the solver, shows that
    P - D <= tol * P. The bounds are kept in ``certificate_``.

    Parameters
    ----------
    loss : {"squared_hinge", "hinge", "huber"} or Loss, default="squared_hinge"
        max(0, 1 - m)^2, max(0, 1 - m), or the hinge rounded off over \|1 - m\| <= h (``Huber(h)``; by name, h = 0.5).
    C : float, default=1.0
        Weight of the losses against the norm of w.
    solver : str or Solver, default="auto"
        "auto" takes "newton" for up to a thousand features or many samples for each, "dual_coordinate_ascent" for more
        features and for sparse data at small C; ``verbose=1`` says which and why, ``solver_`` keeps it. Also
        "cutting_plane", "projected_gradient", "gradient_descent" (smooth losses), "subgradient" and "pegasos"
        (Lipschitz losses), "hyperpass" (Lipschitz losses, no free intercept), or an object such as
        ``Pegasos(batch=100)``.
    tol : float, default=1e-3
        Relative duality gap to reach: the model is then proven to be within that fraction of its own objective.
    max_iter : int, default=1000
        Limit on the solver's steps; for most solvers one step is one or two passes over the data.
    max_seconds : float, default=None
        Limit on the time of fit.
    fit_intercept : bool or "penalized", default=True
        True: a free intercept, the SVM of the textbooks. False: none. "penalized": LIBLINEAR's, a constant feature
        whose weight is penalised with the others.
    multi_class : {"ovr", "ovo"}, default="ovr"
        One class against the rest, or one against one, where there are more than two.
    class_weight : dict or "balanced", default=None
        Factors on C by class.
    n_jobs : int, default=None
        Threads of a fit, -1 for all cores: they share the rows of one binary problem, or the problems where there are
        several. The same number gives the same bits.
    random_state : int, RandomState or None, default=None
        Seed of solvers that draw random numbers. None is a fixed seed: the same data give the same model.
    warm_start : bool, default=False
        Start from the last fit's solution if it fits the data's shape.
    verbose : int, default=0
        1 prints a line for each certificate.
    callback : callable, default=None
        Called with each ``Record`` (iteration, seconds, passes, primal, dual, gap); returning True ends the fit.

    Attributes
    ----------
    coef_ : ndarray (n_parts, n_features)
        Weights; one part for two classes, else one per binary problem.
    intercept_ : ndarray (n_parts,)
    classes_ : ndarray (n_classes,)
    certificate_ : Certificate
        The bounds; of the sum of the binary problems, each in ``certificate_.parts``, where there are several.
    dual_gap_ : float
        ``certificate_.gap``: the objective is at most this far above its minimum.
    history_ : list of Record
        Bounds along the way; a list of such lists where there are several binary problems.
    n_iter_ : int
        Steps of the solver, the most that a binary problem took.
    status_ : str
        "converged", or why it stopped: "max_iter", "max_seconds", "stalled", "diverged", "stopped", "interrupted".
    solver_ : Solver
        What was used.
    support_ : ndarray (n_support,)
        Samples with a dual variable above zero in some binary problem.
    dual_coef_ : ndarray (n_parts, n_support)
        Their y_i alpha_i, the feasible dual point that proves the lower bound.
    n_features_in_, feature_names_in_ : as everywhere in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from primalsvm import LinearSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LinearSVC(loss="hinge").fit(StandardScaler().fit_transform(X), y)
    >>> model.certificate_.relative_gap <= 1e-3
    True
    """

    def __init__(
        self,
        loss="squared_hinge",
        *,
        C=1.0,
        solver="auto",
        tol=1e-3,
        max_iter=1000,
        max_seconds=None,
        fit_intercept=True,
        multi_class="ovr",
        class_weight=None,
        n_jobs=None,
        random_state=None,
        warm_start=False,
        verbose=0,
        callback=None,
    ):
        self.loss = loss
        self.C = C
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.fit_intercept = fit_intercept
        self.multi_class = multi_class
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.callback = callback

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X, y, sample_weight=None):
        """Fit the model and prove how good it is.

        Ctrl-C leaves the model fitted with the best iterate and its certificate, then raises KeyboardInterrupt.

        Parameters
        ----------
        X : array-like or sparse matrix (n_samples, n_features)
        y : array-like (n_samples,)
        sample_weight : array-like (n_samples,), default=None
            Factors on C; a weight of zero is the same as leaving the sample out.

        Returns
        -------
        self
        """
        data = self._prepare(X, y, sample_weight)
        return self._fit(data, self._starts(data))

    def decision_function(self, X):
        """Scores: above zero for classes_[1] where there are two classes, else (n_samples, n_classes)."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", reset=False)
        matrix = as_matrix(X, effective_n_jobs(self.n_jobs))
        scores = np.column_stack([matrix.matvec(w) + b for w, b in zip(self.coef_, self.intercept_, strict=True)])
        return join(scores, len(self.classes_), self.multi_class)

    def predict(self, X):
        """The class of each row."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    # --- from parameters to problems ------------------------------------------------------------------------------

    def _prepare(self, X, y, sample_weight) -> "Prepared":
        """Validate everything; what is the same for every C."""
        self._check_params()
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", accept_large_sparse=True
        )
        classes, labels = _classes(y)
        check_classification_targets(classes)
        weight = self._sample_weight(X, sample_weight, classes, y, labels)
        if np.count_nonzero(np.bincount(labels[weight > 0])) < 2:
            raise ValueError(
                "LinearSVC needs samples of two classes or more with a weight above zero; the data has only one class: "
                f"{classes[labels[weight > 0][0]]}."
            )
        parts = split(labels, classes, self.multi_class)
        # one problem has all threads to itself; several are solved side by side
        return Prepared(as_matrix(X, max(1, effective_n_jobs(self.n_jobs) // len(parts))), weight, classes, parts)

    def _fit(self, data: "Prepared", starts: "list[Start | None]"):
        problems = [self._problem(data.matrix, self.C * data.weight, part) for part in data.parts]
        self.solver_ = self._make_solver(problems[0])
        check_accepts(problems[0], self.solver_)
        if self.verbose and self.solver == "auto":
            print(f"[LinearSVC] solver: {explain_choice(problems[0])}", flush=True)
        results = self._solve_all(problems, data.parts, starts)
        self.classes_ = data.classes
        self._store(results, data.parts, data.matrix.shape[0])
        if self.status_ == "interrupted":
            raise KeyboardInterrupt
        self._warn(results, data.parts)
        return self

    def _check_params(self):
        for name, value, ok, wanted in (
            ("C", self.C, _is_number(self.C) and 0 < self.C < np.inf, "a finite number above 0"),
            ("tol", self.tol, _is_number(self.tol) and self.tol >= 0, "a number of at least 0"),
            ("max_iter", self.max_iter, isinstance(self.max_iter, Integral) and int(self.max_iter) >= 1, "1 or more"),
            (
                "max_seconds",
                self.max_seconds,
                self.max_seconds is None or (_is_number(self.max_seconds) and self.max_seconds > 0),
                "None or a number above 0",
            ),
            ("multi_class", self.multi_class, self.multi_class in ("ovr", "ovo"), "'ovr' or 'ovo'"),
            (
                "fit_intercept",
                self.fit_intercept,
                isinstance(self.fit_intercept, bool | np.bool_) or self.fit_intercept == "penalized",
                "True, False or 'penalized'",
            ),
        ):
            if not ok:
                raise ValueError(f"{name} must be {wanted}, got {value!r}.")
        make_loss(self.loss)
        make_solver(self.solver)
        check_random_state(self.random_state)

    def _make_solver(self, problem: LinearProblem) -> Solver:
        solver = make_solver(self.solver, problem)
        if self.random_state is not None and is_dataclass(solver) and hasattr(solver, "seed"):
            solver = replace(solver, seed=int(check_random_state(self.random_state).randint(2**31)))
        return solver

    def _sample_weight(self, X, sample_weight, classes, y, labels):
        """sample_weight_i * class_weight: c_i over C."""
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not weight.any():
            raise ValueError("sample_weight is zero for every sample; at least one class pair needs weight above zero.")
        if self.class_weight is not None:
            factors = compute_class_weight(self.class_weight, classes=classes, y=y, sample_weight=weight)
            weight = weight * factors[labels]
        return weight

    def _problem(self, matrix: Matrix, weight: Array, part: Part) -> LinearProblem:
        return LinearProblem(
            y=part.y,
            cost=weight if part.rows is None else weight[part.rows],
            loss=make_loss(self.loss),
            intercept=INTERCEPTS[self.fit_intercept],
            X=matrix if part.rows is None else matrix.take(part.rows),
        )

    def _starts(self, data: "Prepared") -> "list[Start | None]":
        """The last fit's solutions for warm_start, where they have the shape of this one's."""
        fits = (
            self.warm_start
            and hasattr(self, "coef_")
            and np.array_equal(self.classes_, data.classes)
            and self.coef_.shape == (len(data.parts), data.matrix.shape[1])
            and self.n_samples_fit_ == data.matrix.shape[0]
        )
        return self._solutions(data, self.C) if fits else [None] * len(data.parts)

    def _solutions(self, data: "Prepared", C: float) -> "list[Start | None]":
        """This fit's solutions as starts for another C: alpha grows with it, so that alpha / c stays what it was."""
        alphas = np.zeros((len(data.parts), data.matrix.shape[0]))
        alphas[:, self.support_] = np.abs(self.dual_coef_) * (C / self.C_fit_)
        return [
            Start(w, float(b), alpha if part.rows is None else alpha[part.rows])
            for w, b, alpha, part in zip(self.coef_, self.intercept_, alphas, data.parts, strict=True)
        ]

    def _solve_all(self, problems: list[LinearProblem], parts: list[Part], starts: list[Start | None]) -> list[Result]:
        """Every binary problem, on n_jobs threads. Ctrl-C stops them all, each with its best iterate."""
        interrupted = threading.Event()
        begin = time.perf_counter()

        def run(k: int) -> Result:
            left = None if self.max_seconds is None else self.max_seconds - (time.perf_counter() - begin)
            return solve(
                problems[k],
                self.solver_,
                tol=self.tol,
                max_iter=0 if interrupted.is_set() else self.max_iter,
                max_seconds=left,
                callback=self.callback,
                stop=interrupted.is_set,
                start=starts[k],
                verbose=parts[k].name if self.verbose else "",
            )

        jobs = min(effective_n_jobs(self.n_jobs), len(problems))
        with one_blas_thread():
            results = _run_all(run, len(problems), jobs, interrupted)
        if interrupted.is_set():
            results = [r if r.status == "converged" else replace(r, status="interrupted") for r in results]
        return results

    # --- from results to attributes -------------------------------------------------------------------------------

    def _store(self, results: list[Result], parts: list[Part], n: int) -> None:
        self.coef_ = np.array([result.f for result in results])
        self.intercept_ = np.array([result.b for result in results])
        self.certificate_ = Certificate.of_parts([result.certificate for result in results])
        self.dual_gap_ = self.certificate_.gap
        histories = [list(result.history) for result in results]
        self.history_ = histories[0] if len(results) == 1 else histories
        self.n_iter_ = max(result.iterations for result in results)
        self.status_ = max((result.status for result in results), key=STATUSES.index)
        self.n_samples_fit_, self.C_fit_ = n, self.C
        signed = np.zeros((len(results), n))
        for k, (result, part) in enumerate(zip(results, parts, strict=True)):
            rows = slice(None) if part.rows is None else part.rows
            signed[k, rows] = part.y * result.alpha
        self.support_ = np.flatnonzero(signed.any(axis=0))
        self.dual_coef_ = signed[:, self.support_]

    def _warn(self, results: list[Result], parts: list[Part]) -> None:
        """One warning that names the gap reached and one thing to try, where the tolerance was missed."""
        missed = [k for k, result in enumerate(results) if result.status not in ("converged", "stopped")]
        if not missed:
            return
        worst = max(missed, key=lambda k: results[k].certificate.relative_gap)
        where = (
            "" if len(parts) == 1 else f" ({len(missed)} of {len(parts)} binary problems; worst: {parts[worst].name})"
        )
        warnings.warn(
            f"LinearSVC ended at a certified relative gap of {results[worst].certificate.relative_gap:.1e}, above "
            f"tol={self.tol:g}{where}: {ADVICE[results[worst].status].format(self)}",
            ConvergenceWarning,
            stacklevel=3,
        )


def _run_all(run: Callable[[int], Result], n: int, jobs: int, interrupted: threading.Event) -> list[Result]:
    """run(0), ..., run(n - 1) on so many threads. Ctrl-C sets `interrupted`, upon which every run ends soon."""
    if jobs == 1:
        results = []
        for k in range(n):
            results.append(run(k))
            if results[-1].status == "interrupted":
                interrupted.set()
        return results
    with ThreadPoolExecutor(jobs) as pool:
        futures: list[Future[Result]] = []
        try:
            for k in range(n):
                futures.append(pool.submit(run, k))
            wait(futures)
        except KeyboardInterrupt:
            interrupted.set()
        results = [future.result() for future in futures]
        return results + [run(k) for k in range(len(futures), n)]  # what Ctrl-C kept from starting


def _classes(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The classes in order, and each sample's place among them. For two classes of numbers no sort is needed."""
    if y.dtype.kind in "biuf" and len(y):
        low, high = y.min(), y.max()
        second = y == high
        if low < high and np.all(second | (y == low)):
            return np.array([low, high]), second.astype(np.int64)
    classes = np.unique(y)
    return classes, np.searchsorted(classes, y)  # return_inverse would sort with positions, ten times slower


def _is_number(value) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and not np.isnan(float(value))
