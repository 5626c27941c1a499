"""What all classifiers share: check, split into binary problems, solve them side by side, store what is proven, warn.

A classifier says what its problems are made of and what its model is:

    _validate(X, y)               X as the estimator takes it, and y
    _matrix(X, weight, parts)     what the problems are built from, made once: X or K as an operator
    _problem(data, part)          one binary problem
    _solutions(data, C)           the last fit's models, as starts for another fit
    _keep(results, data)          the fitted attributes that are the model
    _scores(X)                    f(x) for each row and binary problem, without b
"""

import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import is_dataclass, replace
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_n_features,
    _check_sample_weight,
    _check_y,
    check_consistent_length,
    check_is_fitted,
)

from .calibration import (
    FOLD_TOL,
    MEMBERS,
    METHODS,
    OutOfSample,
    agree,
    fit_curve,
    out_of_sample,
    probabilities,
    row_keys,
)
from .certificate import Certificate
from .chunks import Chunks, check_finite
from .losses import Array, make_loss
from .matrix import one_blas_thread
from .multiclass import Part, join, split, winners
from .notebook import ProofInNotebook
from .problem import Problem
from .side_by_side import run_all
from .solve import FREE_WORK, Result, Solver, Start, check_accepts, solve
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

    matrix: Any  # the estimator's own: X or K as an operator
    X: Any
    weight: Array  # c_i over C
    classes: np.ndarray
    labels: np.ndarray  # places in `classes`
    parts: list[Part]

    @property
    def n(self) -> int:
        return self.X.shape[0]


def has_probability(model) -> bool:
    """For available_if; the sentence is the cause of the AttributeError that it raises."""
    if model.probability is None:
        raise AttributeError(
            "probabilities are calibrated in fit, where they are asked for: set probability='sigmoid', 'isotonic' or "
            "'ensemble'."
        )
    return True


class CertifiedClassifier(ProofInNotebook, ClassifierMixin, BaseEstimator):
    """Base of the classifiers; see the module's text for what one must have."""

    _ways: tuple[str, ...] = ("ovr", "ovo")  # of several classes to binary problems, see `multiclass`

    def fit(self, X, y=None, sample_weight=None):
        """Fit the model and prove how good it is.

        Ctrl-C leaves the model fitted with the best iterate and its certificate, then raises KeyboardInterrupt.

        Parameters
        ----------
        X : array-like, sparse matrix or Chunks (n_samples, n_features); of kernels, Chunks need an approximation
        y : array-like (n_samples,); of Chunks that have labels it may be left out
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
        return self._join(self._scores_of(X))

    def _scores_of(self, X) -> Array:
        check_is_fitted(self, "intercept_")
        return self._scores_in_pieces(X) if isinstance(X, Chunks) else self._scores(X)

    def _join(self, scores: Array) -> Array:
        """The decision function from scores (n, parts) without intercepts."""
        return join(scores + self.intercept_, len(self.classes_), self.multi_class)

    def predict(self, X):
        """The class of each row."""
        scores = self.decision_function(X)
        return self.classes_[self._winners(scores)]

    def _winners(self, scores: Array) -> np.ndarray:
        """The place of the class that a decision function names, for each sample."""
        return winners(scores)

    @available_if(has_probability)
    def predict_proba(self, X):
        """Probabilities of the classes (n_samples, n_classes); what predict says is the most probable, always."""
        scores = self._scores_of(X)
        check_is_fitted(
            self,
            "calibration_",
            msg="this %(name)s has no probabilities: the fit was made without `probability`, or ended before it came "
            "to them; fit it again.",
        )
        decision = self._join(scores)
        return agree(self._calibrated(X, scores), decision, winners(decision))

    def _calibrated(self, X, scores: Array) -> Array:
        """Probabilities before they are made to agree with predict, from scores (n, parts) without intercepts."""
        p = probabilities(self.calibration_, scores + self.intercept_, len(self.classes_), self.multi_class)
        members = getattr(self, "ensemble_", [])
        return np.mean([p, *(model._calibrated(X, model._scores_of(X)) for model in members)], axis=0)

    @available_if(has_probability)
    def predict_log_proba(self, X):
        """Logarithms of the probabilities."""
        return np.log(self.predict_proba(X))

    # --- what a classifier must say -------------------------------------------------------------------------------

    def _validate(self, X, y) -> tuple[Any, np.ndarray]:
        raise NotImplementedError

    def _matrix(self, X, weight: Array, parts: list[Part]) -> Any:
        raise NotImplementedError

    def _problem(self, data: Prepared, part: Part) -> Problem:
        raise NotImplementedError

    def _solutions(self, data: Prepared, C: float) -> list[Start | None]:
        raise NotImplementedError

    def _keep(self, results: list[Result], data: Prepared) -> None:
        raise NotImplementedError

    def _scores(self, X) -> Array:
        raise NotImplementedError

    def _fold(self, data: Prepared, train: np.ndarray) -> Prepared:
        """The data of a fit on some of the samples, sharing what can be shared."""
        raise NotImplementedError

    def _held_out(self, data: Prepared, rows: np.ndarray) -> Array:
        """Scores (rows, parts) without intercepts of a model fitted on a fold, from the data of all."""
        raise NotImplementedError

    # --- from parameters to problems ------------------------------------------------------------------------------

    def _prepare(self, X, y, sample_weight) -> Prepared:
        """Validate everything; what is the same for every C."""
        self._check_params()
        X, y = self._validate_pieces(X, y) if isinstance(X, Chunks) else self._validate(X, y)
        classes, labels = self._sort_classes(y)
        # of the classes, which are few, unless they are most of y: then it warns that y may be a regression's
        few = 2 * len(classes) <= len(y)
        if not (few and classes.dtype.kind in "biuf" and np.all(classes == np.floor(classes))):
            check_classification_targets(np.repeat(classes, 3) if few else y)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not weight.any():
            raise ValueError("sample_weight is zero for every sample; at least one class pair needs weight above zero.")
        by_class = weight
        if self.class_weight is not None:
            factors = compute_class_weight(self.class_weight, classes=classes, y=y, sample_weight=weight)
            by_class = weight * factors[labels]
        present = np.arange(len(classes)) if by_class.all() else np.flatnonzero(np.bincount(labels[by_class > 0]))
        if len(present) < 2:
            raise ValueError(
                f"{type(self).__name__} needs samples of two classes or more with a weight above zero; the data has "
                f"only one class: {classes[present[0]] if len(present) else 'none'}."
            )
        parts = split(labels, classes, self.multi_class)
        return Prepared(self._matrix(X, weight, parts), X, by_class, classes, labels, parts)

    def _sort_classes(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The classes in order, and each sample's place among them."""
        return _classes(y)

    def _validate_pieces(self, X: Chunks, y) -> tuple[Chunks, np.ndarray]:
        y = X.y if y is None else y
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but {X.title} has no labels.")
        self._check_columns(X, reset=True)
        check_consistent_length(X, y)
        return X, _check_y(y, estimator=self)

    def _check_columns(self, X: Chunks, reset: bool) -> None:
        """Their number and their names, as scikit-learn does; their numbers are checked when they are read."""
        _check_n_features(self, X, reset=reset)
        if reset:
            self.__dict__.pop("feature_names_in_", None)
            if X.names is not None:
                self.feature_names_in_ = np.array(X.names, dtype=object)
        elif X.names is not None and tuple(getattr(self, "feature_names_in_", X.names)) != X.names:
            raise ValueError(f"The feature names should match those that were passed during fit; {X.title} has others.")

    def _scores_in_pieces(self, X: Chunks) -> Array:
        self._check_columns(X, reset=False)
        scores = np.empty((X.shape[0], len(self.intercept_)))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "X does not have valid feature names")  # they were checked above
            for k, piece in X.pieces():
                begin, end = X.bounds[k : k + 2]
                check_finite(piece, int(begin), X.title)
                scores[begin:end] = self._scores(piece)
        return scores

    def _rules(self) -> Iterator[tuple[str, bool, str]]:
        """(parameter, is it right, what it must be)"""
        yield "C", is_number(self.C) and 0 < self.C < np.inf, "a finite number above 0"
        yield "tol", is_number(self.tol) and self.tol >= 0, "a number of at least 0"
        yield "max_iter", isinstance(self.max_iter, Integral) and int(self.max_iter) >= 1, "1 or more"
        seconds = self.max_seconds
        yield "max_seconds", seconds is None or (is_number(seconds) and seconds > 0), "None or a number above 0"
        yield "multi_class", self.multi_class in self._ways, " or ".join(map(repr, self._ways))
        known = isinstance(self.fit_intercept, bool | np.bool_) or self.fit_intercept == "penalized"
        yield "fit_intercept", known, "True, False or 'penalized'"
        yield (
            "probability",
            self.probability is None or self.probability in METHODS,
            "None, 'sigmoid', 'isotonic' or 'ensemble'",
        )

    def _check_params(self) -> None:
        for name, right, wanted in self._rules():
            if not right:
                raise ValueError(f"{name} must be {wanted}, got {getattr(self, name)!r}.")
        make_loss(self.loss)
        make_solver(self.solver)
        check_random_state(self.random_state)

    def _facts(self, data: Prepared, part: Part) -> dict[str, Any]:
        """What every binary problem has, linear or not."""
        cost, intercept = self.C * part.take(data.weight), INTERCEPTS[self.fit_intercept]
        return {"y": part.y, "cost": cost, "loss": make_loss(self.loss), "intercept": intercept}

    def _make_solver(self, problem: Problem) -> Solver:
        solver = make_solver(self.solver, problem, self.tol)
        if self.random_state is not None and is_dataclass(solver) and hasattr(solver, "seed"):
            solver = replace(solver, seed=int(check_random_state(self.random_state).randint(2**31)))
        return solver

    def _threads(self, parts: list[Part]) -> int:
        """Of one binary problem: one problem has all to itself, several are solved side by side."""
        return max(1, effective_n_jobs(self.n_jobs) // len(parts))

    def _flying(self, parts: list[Part]) -> int:
        """Binary problems that are solved at the same time."""
        return min(effective_n_jobs(self.n_jobs), len(parts))

    def _starts(self, data: Prepared) -> list[Start | None]:
        """The last fit's solutions for warm_start, where they have the shape of this one's."""
        fits = (
            self.warm_start
            and hasattr(self, "certificate_")
            and np.array_equal(self.classes_, data.classes)
            and len(self.intercept_) == len(data.parts)
            and self.n_samples_fit_ == data.n
        )
        return self._solutions(data, self.C) if fits else [None] * len(data.parts)

    def _closer(
        self, data: Prepared, starts: list[Start | None], interrupted: threading.Event
    ) -> Sequence[Start | Callable[[], Start | None] | None]:
        """Better starts, or who will say them, where there is a quick way to find some. Ctrl-C sets `interrupted`."""
        return starts

    def _at(self, **parameters):
        """An unfitted copy with other parameters, for data that this one has prepared."""
        other = clone(self).set_params(**parameters)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(other, name, getattr(self, name))
        return other

    # --- solving --------------------------------------------------------------------------------------------------

    def _fit(self, data: Prepared, starts: list[Start | None]):
        begin = time.perf_counter()
        for name in ("calibration_", "ensemble_"):  # of the last fit
            self.__dict__.pop(name, None)
        data, results = self._fit_model(data, starts)
        if self.probability is not None:
            self._calibrate(data, results, begin)
        return self

    def _fit_model(self, data: Prepared, starts: list[Start | None]) -> tuple[Prepared, list[Result]]:
        """The data as the problems have them, and their solutions."""
        results = self._train(data, starts)
        self._warn(results, data.parts)
        return data, results

    def _calibrate(self, data: Prepared, results: list[Result], begin: float) -> None:
        """A curve for each binary problem, from scores of its samples by models without them. Ctrl-C leaves none.

        For an ensemble those models too, with curves of their own.
        """
        seed = 0 if self.random_state is None else int(check_random_state(self.random_state).randint(2**31))
        interrupted, parts, together = threading.Event(), data.parts, self.probability == "ensemble"
        keys = row_keys(data.X, data.labels, seed)

        def left() -> float | None:
            return None if self.max_seconds is None else self.max_seconds - (time.perf_counter() - begin)

        def run(k: int) -> OutOfSample:
            if interrupted.is_set():
                return OutOfSample(np.empty(0), np.empty(0), np.empty(0), 0.0, "interrupted", [])
            problem, mine = self._problem(data, parts[k]), parts[k].take(keys)
            limits: dict[str, Any] = {"max_iter": self.max_iter, "max_seconds": left, "interrupted": interrupted}
            return out_of_sample(problem, results[k], self.solver_, mine, folds=MEMBERS if together else 0, **limits)

        with one_blas_thread():
            found = run_all(run, len(parts), self._flying(parts), interrupted)
            if interrupted.is_set():
                raise KeyboardInterrupt
            curves = [fit_curve(self.probability, f.scores, f.y, f.cost / self.C) for f in found]
            if together:
                self.ensemble_ = self._ensemble(data, results, found, curves)
            self.calibration_ = curves
        worst = max(each.relative_gap for each in found)
        if worst > FOLD_TOL:
            warnings.warn(
                f"the probabilities of {type(self).__name__} come from folds that ended at a certified relative gap of "
                f"{worst:.1e}, above {FOLD_TOL:g}; raise max_iter or max_seconds, or scale the features.",
                ConvergenceWarning,
                stacklevel=outside(),
            )

    def _ensemble(
        self, data: Prepared, results: list[Result], found: list[OutOfSample], curves: list[Array]
    ) -> list["CertifiedClassifier"]:
        """A model of each fold. Binary problems with fewer samples than folds take theirs in turns."""
        models = []
        for k in range(max(1, *(len(each.fits) for each in found))):
            model = self._at(probability="sigmoid", tol=FOLD_TOL, warm_start=False, callback=None)
            model.solver_, model.classes_ = self.solver_, self.classes_
            folds = [each.fits[k % len(each.fits)] if each.fits else None for each in found]
            model._store([fold.result if fold else own for fold, own in zip(folds, results, strict=True)], data)
            model.calibration_ = []
            for each, fold, curve in zip(found, folds, curves, strict=True):
                out = fold.out if fold else np.arange(len(each.y))
                own = fit_curve("sigmoid", each.scores[out], each.y[out], each.cost[out] / self.C, curve)
                model.calibration_.append(own)
            models.append(model)
        return models

    def _train(self, data: Prepared, starts: list[Start | None], fits: int = 1) -> list[Result]:
        """Solve, keep the model, and leave it to the caller to warn of what was missed. It is one of so many fits."""
        with one_blas_thread():
            first = self._problem(data, data.parts[0])
            self.solver_ = self._make_solver(first)
            check_accepts(first, self.solver_)
            if self.verbose:
                self._tell(first, data)
            results = self._solve_all(data, first, starts, FREE_WORK / (fits * len(data.parts)))
        self.classes_ = data.classes
        self._store(results, data)
        if self.status_ == "interrupted":
            raise KeyboardInterrupt
        return results

    def _tell(self, problem: Problem, data: Prepared) -> None:
        """What verbose=1 says before the fit."""
        chosen = explain_choice(problem, self.tol) if self.solver == "auto" else f"{self.solver_.name}, as asked for"
        print(f"[{type(self).__name__}] solver: {chosen}", flush=True)

    def _solve_all(self, data: Prepared, first: Problem, starts: list[Start | None], free_work: float) -> list[Result]:
        """Every binary problem, on n_jobs threads. Ctrl-C stops them all, each with its best iterate.

        A problem is built when its turn comes and forgotten when it is solved: a hundred kernel matrices need not fit
        into memory together.
        """
        interrupted = threading.Event()
        begin = time.perf_counter()
        closer = self._closer(data, starts, interrupted)
        parts, built = data.parts, {0: first}
        del first

        def problem(k: int) -> Problem:
            return built.pop(k, None) or self._problem(data, parts[k])

        def run(k: int) -> Result:
            start, find = None, closer[k]
            try:
                mine = problem(k)
                start = find() if callable(find) else find
            except KeyboardInterrupt:  # while a kernel matrix was computed: the model needs a part for it even so
                interrupted.set()
                mine = problem(k)
            left = None if self.max_seconds is None else self.max_seconds - (time.perf_counter() - begin)
            return solve(
                mine,
                self.solver_,
                tol=self.tol,
                max_iter=0 if interrupted.is_set() else self.max_iter,
                max_seconds=left,
                callback=self.callback,
                stop=interrupted.is_set,
                start=start,
                verbose=parts[k].name if self.verbose else "",
                free_work=free_work,
            )

        try:
            results = run_all(run, len(parts), self._flying(parts), interrupted)
        except BaseException:
            interrupted.set()  # nobody goes on finding starts
            raise
        if interrupted.is_set():
            results = [r if r.status == "converged" else replace(r, status="interrupted") for r in results]
        return results

    # --- from results to attributes -------------------------------------------------------------------------------

    def _store(self, results: list[Result], data: Prepared) -> None:
        self.intercept_ = np.array([result.b for result in results])
        self.certificate_ = Certificate.of_parts([result.certificate for result in results])
        self.dual_gap_ = self.certificate_.gap
        histories = [list(result.history) for result in results]
        self.history_ = histories[0] if len(results) == 1 else histories
        self.n_iter_ = max(result.iterations for result in results)
        self.status_ = max((result.status for result in results), key=STATUSES.index)
        self.n_samples_fit_, self.C_fit_ = data.n, self.C
        self._keep(results, data)

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
            f"{type(self).__name__} ended at a certified relative gap of "
            f"{results[worst].certificate.relative_gap:.1e}, above tol={self.tol:g}{where}: "
            f"{ADVICE[results[worst].status].format(self)}",
            ConvergenceWarning,
            stacklevel=outside(),
        )


def outside() -> int:
    """The stacklevel at which _warn's warning points at the caller of the package, however deep that is."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("primalsvm."):
        frame, level = frame.f_back, level + 1
    return level


def _classes(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The classes in order, and each sample's place among them. For two classes of numbers no sort is needed."""
    if y.dtype.kind in "biuf" and len(y):
        low, high = y.min(), y.max()
        second = y == high
        if low < high and np.all(second | (y == low)):
            return np.array([low, high]), second.astype(np.int64)
    classes = np.unique(y)
    return classes, np.searchsorted(classes, y)  # return_inverse would sort with positions, ten times slower


def is_number(value) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and not np.isnan(float(value))
