"""LinearSVCCV and SVCCV: C, and gamma, chosen by cross-validation, with a certificate for every fit on the way.

What a grid of refits does again and again is done once. The data are checked once. In a fold the fits go from the
smallest C to the largest, each started from the one before, so that most of the work is done when it begins; its
certificate says when it is close enough. A kernel matrix is computed once for each gamma, and all folds share it: those
held out have no weight, and their scores are sums over the same matrix. The folds run side by side. With cv="loo" there
is one fit for each point of the grid: what it would say of each sample without it is read off the model.
"""

import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .chunks import Chunks
from .classifier import CertifiedClassifier, Prepared, has_probability
from .gamma import kernel_gamma
from .kernel_matrix import MEMORY_LIMIT
from .left_out import loo_scores
from .linear_svc import LinearSVC
from .losses import Array
from .matrix import one_blas_thread
from .multiclass import winners
from .notebook import ProofInNotebook
from .svc import SVC, WITH_GAMMA

GAMMA_RANGE = (-1.0, 1.0)  # decades of a grid given as a number of points
# parameters that are not the model's
OWN = ("Cs", "gammas", "cv", "scoring", "choice", "n_jobs", "verbose", "callback")


class Fold(NamedTuple):
    train: np.ndarray
    test: np.ndarray


class Outcome(NamedTuple):
    """Of one fit."""

    score: float
    relative_gap: float
    fit_seconds: float
    score_seconds: float
    status: str


class _Search(ProofInNotebook, ClassifierMixin, BaseEstimator):
    """What both have in common; `_blocks` says which fits share prepared data."""

    _model: type[CertifiedClassifier]
    _decades: tuple[float, float]  # of C, where Cs is a number of points

    def fit(self, X, y, sample_weight=None):
        """Try every point of the grid on every fold, then fit the one chosen on all samples.

        Ctrl-C leaves the best of what was tried so far, fitted, and its results, then raises KeyboardInterrupt.

        Parameters
        ----------
        X : array-like or sparse matrix (n_samples, n_features)
        y : array-like (n_samples,)
        sample_weight : array-like (n_samples,), default=None
            Factors on C; samples count by them in the scores too.

        Returns
        -------
        self
        """
        if isinstance(X, Chunks):
            raise ValueError("cross-validation needs X in memory; for pieces fit once for each C.")
        self._check()
        model = self._model(**self._shared())
        first = model._prepare(X, y, sample_weight)
        self.classes_, self.n_features_in_ = first.classes, model.n_features_in_
        self.__dict__.pop("feature_names_in_", None)
        if hasattr(model, "feature_names_in_"):
            self.feature_names_in_ = model.feature_names_in_
        names, everyone = first.classes[first.labels], np.arange(first.n)
        folds = [Fold(everyone, everyone)]
        if not self._leaves_one_out:
            folds = [Fold(*fold) for fold in check_cv(self.cv, names, classifier=True).split(first.X, names)]
        grid = self._grid(model, first)
        outcomes: dict[tuple[int, int], Outcome] = {}
        weight = np.ones(first.n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        interrupted = threading.Event()
        with one_blas_thread():
            self._run(model, first, grid, folds, weight, outcomes, interrupted)
        self.n_splits_ = first.n if self._leaves_one_out else len(folds)
        self._tabulate(grid, len(folds), outcomes)
        self.best_estimator_ = model._at(**self.best_params_, n_jobs=self.n_jobs).fit(X, y, sample_weight)
        self.certificate_, self.n_iter_ = self.best_estimator_.certificate_, self.best_estimator_.n_iter_
        self.interrupted_ = interrupted.is_set()
        if self.interrupted_:
            raise KeyboardInterrupt
        self._warn_of(outcomes)
        return self

    # --- prediction, by the model that was chosen -----------------------------------------------------------------

    def predict(self, X):
        """The class of each row."""
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    def decision_function(self, X):
        """Scores: above zero for classes_[1] where there are two classes, else (n_samples, n_classes)."""
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)

    @available_if(has_probability)
    def predict_proba(self, X):
        """Probabilities of the classes (n_samples, n_classes); what predict says is the most probable, always."""
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(X)

    @available_if(has_probability)
    def predict_log_proba(self, X):
        """Logarithms of the probabilities."""
        check_is_fitted(self)
        return self.best_estimator_.predict_log_proba(X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags = self._model(**self._shared()).__sklearn_tags__().input_tags
        return tags

    # --- the grid -------------------------------------------------------------------------------------------------

    def _shared(self) -> dict[str, Any]:
        """The model's parameters; each fit has one thread, the folds run side by side."""
        given = {name: value for name, value in self.get_params(deep=False).items() if name not in OWN}
        return given | {"n_jobs": 1}

    def _check(self) -> None:
        if not (self.scoring is None or isinstance(self.scoring, str) or callable(self.scoring)):
            raise ValueError(f"scoring must be None, a name or a function, got {self.scoring!r}.")
        if isinstance(self.cv, str) and self.cv != "loo":
            raise ValueError(
                f"cv must be a number of folds, a splitter, (train, test) pairs or 'loo', got {self.cv!r}."
            )
        if self._leaves_one_out and self.scoring is not None:
            raise ValueError("cv='loo' counts errors; for another scoring take folds.")
        if self.choice not in ("best", "one_standard_error"):
            raise ValueError(f"choice must be 'best' or 'one_standard_error', got {self.choice!r}.")

    @property
    def _leaves_one_out(self) -> bool:
        return isinstance(self.cv, str) and self.cv == "loo"

    def _grid(self, model: CertifiedClassifier, data: Prepared) -> list[dict[str, float]]:
        """The points, in the order of GridSearchCV; C rises."""
        return [{"C": c} for c in grid_of("Cs", self.Cs, self._decades)]

    def _blocks(self, model: CertifiedClassifier, data: Prepared, grid: list[dict[str, float]]) -> Iterator[tuple]:
        """(data, places in the grid) of the points that share data."""
        yield model, data, list(range(len(grid)))

    # --- the fits -------------------------------------------------------------------------------------------------

    def _run(self, model, first, grid, folds, weight, outcomes, interrupted) -> None:
        """Fill `outcomes`, keyed by place in the grid and fold, until done or interrupted."""
        scorer = None if self.scoring is None else check_scoring(model, self.scoring)
        asked = getattr(scorer, "_response_method", "predict_proba")  # of a scorer that does not say: that too
        by_probability = scorer is not None and self.probability is not None and "predict_proba" in asked
        begin = time.perf_counter()
        firsts: list[Any] = [None] * len(folds)  # the first model of each fold, near the first of the next block
        for mine, data, places in self._blocks(model, first, grid):

            def run(k: int, mine=mine, data=data, places=places) -> None:
                last, part = firsts[k], mine._fold(data, folds[k].train)
                for place in places:
                    C, clock = grid[place]["C"], time.perf_counter()
                    fitted = mine._at(C=C, callback=lambda record: interrupted.is_set())
                    starts = [None] * len(part.parts) if last is None else last._solutions(part, C)
                    results = fitted._train(part, starts, len(grid) * len(folds))
                    if interrupted.is_set():
                        return
                    if by_probability:
                        fitted._calibrate(part, results, clock)
                    fitted.callback = None
                    seconds, clock = time.perf_counter() - clock, time.perf_counter()
                    if self._leaves_one_out:
                        score = _score_of_left_out(fitted, part, weight)
                    else:
                        score = _score(fitted, data, folds[k], weight, scorer)
                    gap = fitted.certificate_.relative_gap
                    outcomes[place, k] = Outcome(score, gap, seconds, time.perf_counter() - clock, fitted.status_)
                    last, firsts[k] = fitted, fitted if place == places[0] else firsts[k]
                    if self.callback is not None:
                        self.callback(len(outcomes), len(grid) * len(folds))

            _side_by_side(run, len(folds), effective_n_jobs(self.n_jobs), interrupted)
            if self.verbose:
                self._say(grid, places, outcomes, len(folds), time.perf_counter() - begin)
            if interrupted.is_set():
                break

    def _say(self, grid, places, outcomes, folds: int, seconds: float) -> None:
        scores = {place: [outcomes[place, k].score for k in range(folds) if (place, k) in outcomes] for place in places}
        best = max((place for place in places if scores[place]), key=lambda place: np.mean(scores[place]), default=None)
        if best is not None:
            shared = "".join(f" {name}={value:.3g}:" for name, value in grid[best].items() if name != "C")
            found = f"best C={grid[best]['C']:.3g}, score {np.mean(scores[best]):.4f}"
            print(f"[{type(self).__name__}]{shared} {len(places) * folds} fits, {found} ({seconds:.1f} s)", flush=True)

    # --- what came of it ------------------------------------------------------------------------------------------

    def _tabulate(self, grid: list[dict[str, float]], folds: int, outcomes: dict[tuple[int, int], Outcome]) -> None:
        """cv_results_ as GridSearchCV has it, with the gaps beside the scores, and the point that is chosen."""

        def table(field: str) -> Array:
            return np.array(
                [
                    [getattr(outcomes[p, k], field) if (p, k) in outcomes else np.nan for k in range(folds)]
                    for p in range(len(grid))
                ]
            )

        scores, gaps, seconds = table("score"), table("relative_gap"), table("fit_seconds")
        mean, spread = scores.mean(axis=1), scores.std(axis=1)
        if self._leaves_one_out:  # of a sample that is right or wrong
            spread = np.sqrt(mean * (1 - mean))
        if not np.isfinite(mean).any():
            raise KeyboardInterrupt("no point of the grid was tried on all folds")
        results: dict[str, Any] = {"params": grid}
        for name in grid[0]:
            results[f"param_{name}"] = np.ma.MaskedArray([point[name] for point in grid])
        for k in range(0 if self._leaves_one_out else folds):
            results[f"split{k}_test_score"], results[f"split{k}_relative_gap"] = scores[:, k], gaps[:, k]
        results |= {"mean_test_score": mean, "std_test_score": spread, "max_relative_gap": gaps.max(axis=1)}
        results["rank_test_score"] = rankdata(-np.nan_to_num(mean, nan=-np.inf), method="min").astype(np.int32)
        results["mean_fit_time"], results["std_fit_time"] = seconds.mean(axis=1), seconds.std(axis=1)
        results["mean_score_time"] = table("score_seconds").mean(axis=1)
        self.cv_results_ = results
        self.best_index_ = self.choose(self.choice)
        self.best_params_, self.best_score_ = grid[self.best_index_], float(mean[self.best_index_])

    def choose(self, rule: str = "best") -> int:
        """The place in cv_results_ of the best point; or, by "one_standard_error", of the simplest near it."""
        mean, points = self.cv_results_["mean_test_score"], self.cv_results_["params"]
        best = int(np.nanargmax(mean))
        if rule == "best":
            return best
        error = self.cv_results_["std_test_score"][best] / np.sqrt(max(self.n_splits_ - 1, 1))
        near = np.flatnonzero(mean >= mean[best] - error)
        return int(min(near, key=lambda place: tuple(points[place].values())))

    def _warn_of(self, outcomes: dict[tuple[int, int], Outcome]) -> None:
        missed = [outcome for outcome in outcomes.values() if outcome.status not in ("converged", "stopped")]
        if missed:
            worst = max(outcome.relative_gap for outcome in missed)
            warnings.warn(
                f"{len(missed)} of {len(outcomes)} fits ended above tol={self.tol:g}, at a certified relative gap of "
                f"{worst:.1e} at most; see cv_results_['max_relative_gap'].",
                ConvergenceWarning,
                stacklevel=3,
            )


def _score(model: CertifiedClassifier, data: Prepared, fold: Fold, weight: Array, scorer: Callable | None) -> float:
    """Of those held out: the scorer's, or the share that is right."""
    if scorer is not None:
        return float(scorer(model, data.X[fold.test], data.classes[data.labels[fold.test]]))
    guesses = winners(model._join(model._held_out(data, fold.test)))
    return _share(guesses == data.labels[fold.test], weight[fold.test])


def _score_of_left_out(model: CertifiedClassifier, data: Prepared, weight: Array) -> float:
    """The share that is right of samples judged by the model without them, as `left_out` estimates it."""
    scores = np.empty((data.n, len(data.parts)))
    if data.parts[0].rows is not None:  # a pair's model has not seen the samples of other classes
        scores = model._held_out(data, np.arange(data.n)) + model.intercept_
    for k, (part, start) in enumerate(zip(data.parts, model._solutions(data, model.C), strict=True)):
        rows = slice(None) if part.rows is None else part.rows
        scores[rows, k] = loo_scores(model._problem(data, part), start.f, start.b, start.alpha)  # type: ignore[union-attr, arg-type]
    return _share(winners(model._join(scores - model.intercept_)) == data.labels, weight)


def _share(right: np.ndarray, weight: Array) -> float:
    return float(np.average(right, weights=weight if weight.any() else None))


def _side_by_side(run: Callable[[int], None], count: int, jobs: int, interrupted: threading.Event) -> None:
    """run(0), ..., run(count - 1) on so many threads; Ctrl-C sets `interrupted`, upon which every run ends soon."""
    try:
        if min(jobs, count) == 1:
            for k in range(count):
                run(k)
            return
        with ThreadPoolExecutor(min(jobs, count)) as pool:
            futures = [pool.submit(run, k) for k in range(count)]
            try:
                wait(futures)
            except KeyboardInterrupt:
                interrupted.set()
                for future in futures:
                    future.cancel()
                raise
            for future in futures:
                future.result()
    except KeyboardInterrupt:
        interrupted.set()


def grid_of(name: str, given, decades: tuple[float, float], around: float = 1.0) -> list[float]:
    """A number of points spread evenly in the logarithm, or the points themselves; rising."""
    if isinstance(given, Integral) and not isinstance(given, bool) and int(given) >= 1:
        points = around * np.logspace(*decades, int(given)) if int(given) > 1 else np.array([around])
    else:
        points = np.atleast_1d(np.asarray(given, dtype=np.float64)) if np.ndim(given) == 1 else np.zeros(0)
    if not len(points) or not np.all((points > 0) & (points < np.inf)):
        raise ValueError(f"{name} must be a number of points or a sequence of finite numbers above 0, got {given!r}.")
    return [float(point) for point in np.unique(points)]


class LinearSVCCV(_Search):
    r"""LinearSVC with C chosen by cross-validation; every fit on the way has its certificate.

    Parameters
    ----------
    loss, solver, tol, max_iter, fit_intercept, multi_class, class_weight, probability, random_state :
        As for LinearSVC; probabilities are those of best_estimator_.
    Cs : int or sequence of floats, default=10
        The values of C, or how many of them between 0.001 and 100, evenly in the logarithm.
    cv : int, splitter, iterable or "loo", default=5
        As in GridSearchCV: a number of stratified folds, one of scikit-learn's splitters, or (train, test) pairs.
        "loo": the leave-one-out error as `leave_one_out` estimates it, one fit for each point of the grid.
    scoring : str or callable, default=None
        One of scikit-learn's scorers; None: the share of samples, by their weights, that are classified rightly.
    choice : {"best", "one_standard_error"}, default="best"
        The point with the best mean score, or the least C within one standard error of it.
    n_jobs : int, default=None
        Folds at the same time, as threads; -1 for all cores.
    verbose : int, default=0
        1 prints what was found.
    callback : callable, default=None
        Called after each fit with the number of fits done and the number of all.

    Attributes
    ----------
    best_estimator_ : LinearSVC
        Fitted on all samples with best_params_.
    best_params_, best_score_, best_index_, cv_results_, n_splits_ :
        As in GridSearchCV; ``cv_results_`` has ``split0_relative_gap``, ... and ``max_relative_gap`` too.
    certificate_, n_iter_ : Certificate and int
        Of best_estimator_.
    classes_, n_features_in_, feature_names_in_ : as everywhere in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from primalsvm import LinearSVCCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> search = LinearSVCCV(Cs=7).fit(StandardScaler().fit_transform(X), y)
    >>> bool(search.cv_results_["max_relative_gap"].max() <= 1e-3)
    True
    """

    _model = LinearSVC
    _decades = -3.0, 2.0

    def __init__(
        self,
        loss="squared_hinge",
        *,
        Cs=10,
        cv=5,
        scoring=None,
        choice="best",
        solver="auto",
        tol=1e-3,
        max_iter=1000,
        fit_intercept=True,
        multi_class="ovr",
        class_weight=None,
        probability=None,
        n_jobs=None,
        random_state=None,
        verbose=0,
        callback=None,
    ):
        self.loss = loss
        self.Cs = Cs
        self.cv = cv
        self.scoring = scoring
        self.choice = choice
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.multi_class = multi_class
        self.class_weight = class_weight
        self.probability = probability
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback


class SVCCV(_Search):
    r"""SVC with C and gamma chosen by cross-validation; every fit on the way has its certificate.

    Parameters
    ----------
    kernel, degree, coef0, loss, solver, tol, max_iter, fit_intercept, multi_class, class_weight : as for SVC.
    probability, random_state : as for SVC.
    memory_limit : float, default=2 * 2**30
        As for SVC. A kernel matrix that fits into it is computed once for each gamma and shared by all fits.
    Cs : int or sequence of floats, default=10
        The values of C, or how many of them between 0.01 and 1000, evenly in the logarithm.
    gammas : int or sequence of floats, default=5
        The same for gamma, between a tenth and ten times what SVC calls "scale"; kernels without gamma have none.
    cv, scoring, choice, n_jobs, verbose, callback :
        As for LinearSVCCV; "one_standard_error" takes the least C, and of those the least gamma.

    Attributes
    ----------
    best_estimator_ : SVC
        Fitted on all samples with best_params_.
    best_params_, best_score_, best_index_, cv_results_, n_splits_ :
        As in GridSearchCV; ``cv_results_`` has ``split0_relative_gap``, ... and ``max_relative_gap`` too.
    certificate_, n_iter_ : Certificate and int
        Of best_estimator_.
    classes_, n_features_in_, feature_names_in_ : as everywhere in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from primalsvm import SVCCV
    >>> X, y = load_iris(return_X_y=True)
    >>> search = SVCCV(Cs=[0.1, 1, 10], gammas=3).fit(X, y)
    >>> sorted(search.best_params_)
    ['C', 'gamma']
    """

    _model = SVC
    _decades = -2.0, 3.0

    def __init__(
        self,
        kernel="rbf",
        *,
        Cs=10,
        gammas=5,
        cv=5,
        scoring=None,
        choice="best",
        degree=3,
        coef0=0.0,
        loss="hinge",
        solver="auto",
        tol=1e-3,
        max_iter=1_000_000,
        memory_limit=MEMORY_LIMIT,
        fit_intercept=True,
        multi_class="ovo",
        class_weight=None,
        probability=None,
        n_jobs=None,
        random_state=None,
        verbose=0,
        callback=None,
    ):
        self.kernel = kernel
        self.Cs = Cs
        self.gammas = gammas
        self.cv = cv
        self.scoring = scoring
        self.choice = choice
        self.degree = degree
        self.coef0 = coef0
        self.loss = loss
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.memory_limit = memory_limit
        self.fit_intercept = fit_intercept
        self.multi_class = multi_class
        self.class_weight = class_weight
        self.probability = probability
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def _grid(self, model, data):
        Cs = super()._grid(model, data)
        if self.kernel not in WITH_GAMMA:
            return Cs
        gammas = grid_of("gammas", self.gammas, GAMMA_RANGE, kernel_gamma("scale", data.X, data.weight))
        return [{**point, "gamma": gamma} for point in Cs for gamma in gammas]

    def _blocks(self, model, data, grid):
        threads = effective_n_jobs(self.n_jobs)
        for gamma in dict.fromkeys(point.get("gamma") for point in grid):
            places = [k for k, point in enumerate(grid) if point.get("gamma") == gamma]
            mine = model if gamma is None else model._at(gamma=gamma)
            kernels = data.matrix if gamma is None else mine._matrix(data.X, data.weight, data.parts)
            yield mine, data._replace(matrix=kernels.kept(data.parts, threads)), places
