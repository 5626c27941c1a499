r"""TunedSVC: C, gamma and the relevance of each feature found by a gradient, then a certified SVC.

Minimised by L-BFGS-B, first over theta = (log C, log gamma), then over (log C, log(gamma_j + floor) for all j), is

    E(C, gamma) + (penalty / n) (log^2 C + sum_j log(gamma_j / floor + 1))          one term if all are equal

with E of `criterion`. Without the last term fifty gammas fit the noise of the folds: E falls on while the error on new
samples rises, and useless features stay. With it, a feature must save the loss of `penalty` samples for each factor e
by which it is more relevant, or it goes, by the bound of theta at floor, to exactly 0; C must save as much for being
far from 1; and many gammas must save more than they cost, or one gamma for all is what is returned. The prices fade as
1 / n. A feature that the first steps send to 0 hardly comes back, since its slope is gamma_j times another: these steps
are taken without the price on features.

From a start that is no better than a constant score, and has no slope that leads anywhere, others are tried. What is
returned is the best of all points that were looked at, the start among them.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import check_cv
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from .classifier import INTERCEPTS, Prepared, is_number
from .criterion import POWERS, Criterion, Value, make_folds
from .gamma import kernel_gamma
from .losses import Array
from .matrix import one_blas_thread
from .multiclass import split
from .notebook import ProofInNotebook
from .svc import SVC

CRITERIA = ("cv", "loo")
FLOOR = 1e-4  # of gamma="scale"; from there on a feature's gamma is 0
CEILING = 1e4
C_RANGE = (1e-4, 1e6)
FREE_STEPS = 15  # without the price on features
FTOL = 1e-6  # what a step must gain, of criteria of about 1
LITTLE = (1e-3, 1e-2, 1e-1)  # relevances below which features are left out on trial
HOPELESS = 0.99  # of a constant's loss
STARTS = ((1.0, 1.0), (100.0, 1.0), (1.0, 10.0), (10.0, 0.1))  # others: C, and gamma over gamma="scale"


class Trial(NamedTuple):
    """One line of the history: a point that was looked at."""

    iteration: int
    seconds: float
    criterion: float  # what is minimised: the loss and the penalty
    loss: float  # E, on samples held out
    C: float
    gamma: float  # the largest
    n_features: int  # whose gamma is not 0


class Stopped(Exception):
    """The callback has said so."""


class TunedSVC(ProofInNotebook, ClassifierMixin, BaseEstimator):
    r"""Kernel SVM with the squared hinge whose C, gamma and feature relevances are learnt from the data.

    The kernel has a gamma for each feature, gamma_j = ``gamma_ * relevances_[j]``: for "rbf"

    .. math:: k(x, z) = \exp(-\sum_j \gamma_j (x_j - z_j)^2)

    and they are found, together with C, by following the gradient of a criterion, see `criterion`. Features that do not
    pay for themselves, see `penalty`, get the relevance 0; where all gammas together do not pay, they stay the same.
    Relevances are per unit of a feature: scale features to similar ranges first.

    Parameters
    ----------
    kernel : {"rbf", "laplacian", "linear"}, default="rbf"
        exp(-sum gamma_j (x_j - z_j)^2), exp(-sum gamma_j \|x_j - z_j\|), sum gamma_j x_j z_j.
    C : float, default=1.0
        Where the search for it starts.
    gamma : {"scale", "auto"} or float, default="scale"
        Where the search for it starts; the words mean what they mean in SVC.
    relevances : array-like (n_features,), default=None
        Where the search for them starts, or, without `ard`, what they are; None: all 1. Features with 0 stay out.
    ard : bool, default=True
        Learn a gamma for each feature; False: one for all.
    criterion : {"cv", "loo"}, default="cv"
        The mean loss log(1 + exp(-2 y f(x))) on samples held out: of each fold of a cross-validation, or one by one,
        by a formula that costs one fit instead of `cv`, but jumps a little where the support vectors change.
    cv : int, splitter or list of splits, default=5
        Folds, the same for all points of the search. An int: each class is dealt out to so many folds, equal rows to
        the same one. Used with criterion="cv" only.
    penalty : float, default=1.0
        Against fitting the noise of the folds: a gamma must save the loss of so many samples for each factor e by which
        it is above 1e-4 of gamma="scale", where it is 0, one for all features counting once; and C as much, times
        log(C)^2. 0: no penalty.
    max_iter : int, default=100
        Limit on the steps of the search for one gamma, and of that for all.
    max_samples : int, default=1000
        The criterion is computed on at most so many samples, drawn from each class by its share. C is the weight of
        one sample's loss, and stays what it is on all samples, on which the last model is fitted.
    tol : float, default=1e-3
        Relative duality gap of the last model.
    fit_intercept : bool or "penalized", default=True
        As in SVC.
    multi_class : {"ovo", "ovr"}, default="ovo"
        As in SVC; all binary problems share C and the relevances, and their losses are added up.
    class_weight : dict or "balanced", default=None
        Factors on C by class, and on the losses of samples held out.
    n_jobs : int, default=None
        Threads: of the folds, and of the last fit.
    random_state : int, RandomState or None, default=None
        Draws folds and samples. None is a fixed seed: the same data give the same model.
    verbose : int, default=0
        1 prints a line for each point of the search, 2 what SVC says too.
    callback : callable, default=None
        Called with each ``Trial`` (iteration, seconds, criterion, loss, C, gamma, n_features); returning True ends the
        search, and the best point so far is fitted.

    Attributes
    ----------
    C_, gamma_ : float
        What was found; gamma_ is the largest gamma_j.
    relevances_ : ndarray (n_features,)
        gamma_j / gamma_, between 0 and 1.
    scales_ : ndarray (n_features,)
        The factors on the features in front of ``estimator_``: ``X * scales_`` is what that one sees.
    criterion_, loss_ : float
        The criterion at that point, with and without the penalty; never above that of the start.
    history_ : list of Trial
        All points that were looked at; the first is the start.
    n_iter_ : int
        Steps of the search.
    estimator_ : SVC
        The last model, with ``loss="squared_hinge"``, fitted on all samples.
    certificate_ : Certificate
        Its certificate.
    classes_, n_features_in_, feature_names_in_ : as everywhere in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from primalsvm import TunedSVC
    >>> X = np.random.default_rng(0).standard_normal((200, 6))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> model = TunedSVC().fit(X, y)
    >>> np.flatnonzero(model.relevances_ > 0.1).tolist()
    [0, 1]
    """

    def __init__(
        self,
        kernel="rbf",
        *,
        C=1.0,
        gamma="scale",
        relevances=None,
        ard=True,
        criterion="cv",
        cv=5,
        penalty=1.0,
        max_iter=100,
        max_samples=1000,
        tol=1e-3,
        fit_intercept=True,
        multi_class="ovo",
        class_weight=None,
        n_jobs=None,
        random_state=None,
        verbose=0,
        callback=None,
    ):
        self.kernel = kernel
        self.C = C
        self.gamma = gamma
        self.relevances = relevances
        self.ard = ard
        self.criterion = criterion
        self.cv = cv
        self.penalty = penalty
        self.max_iter = max_iter
        self.max_samples = max_samples
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.multi_class = multi_class
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def fit(self, X, y, sample_weight=None):
        """Find the parameters, then fit the model and prove how good it is.

        Ctrl-C leaves the model of the best parameters so far fitted, then raises KeyboardInterrupt.

        Parameters
        ----------
        X : array-like (n_samples, n_features)
        y : array-like (n_samples,)
        sample_weight : array-like (n_samples,), default=None
            Factors on C and on the losses of samples held out.

        Returns
        -------
        self
        """
        self._check_params()
        X, y = self._check_rows(X, y)
        data = self._svc(self.C, self.gamma)._prepare(X, y, sample_weight)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        search = self._search(data, weight)
        interrupted = False
        try:
            with one_blas_thread():
                search.run(int(self.max_iter))
        except KeyboardInterrupt:
            interrupted = True
        self._keep(search)
        self.estimator_ = self._svc(self.C_, self.gamma_)
        try:
            self.estimator_.fit(self._scaled(X), y, sample_weight)
        finally:  # SVC has a model when Ctrl-C has stopped it
            if hasattr(self.estimator_, "certificate_"):
                self.classes_, self.certificate_ = self.estimator_.classes_, self.estimator_.certificate_
        if interrupted:
            raise KeyboardInterrupt
        return self

    def decision_function(self, X):
        """Scores: above zero for classes_[1] where there are two classes, else (n_samples, n_classes)."""
        check_is_fitted(self, "certificate_")
        return self.estimator_.decision_function(self._scaled(self._check_rows(X)))

    def predict(self, X):
        """The class of each row."""
        check_is_fitted(self, "certificate_")
        return self.estimator_.predict(self._scaled(self._check_rows(X)))

    # --- from parameters to a search ------------------------------------------------------------------------------

    def _rules(self) -> Iterator[tuple[str, bool, str]]:
        """(parameter, is it right, what it must be); SVC has rules for those that it is given."""
        yield "kernel", isinstance(self.kernel, str) and self.kernel in POWERS, f"one of {', '.join(POWERS)}"
        yield "ard", isinstance(self.ard, bool | np.bool_), "True or False"
        yield "criterion", self.criterion in CRITERIA, "'cv' or 'loo'"
        wrong = is_number(self.cv) and not (isinstance(self.cv, Integral) and int(self.cv) >= 2)
        yield "cv", not (wrong or self.cv is None), "a whole number of at least 2, a splitter or a list of splits"
        yield "penalty", is_number(self.penalty) and 0 <= self.penalty < np.inf, "a finite number of at least 0"
        yield "max_iter", isinstance(self.max_iter, Integral) and int(self.max_iter) >= 0, "a whole number, 0 or more"
        few = isinstance(self.max_samples, Integral) and int(self.max_samples) >= 2
        yield "max_samples", few, "a whole number of at least 2"

    def _check_params(self) -> None:
        for name, right, wanted in self._rules():
            if not right:
                raise ValueError(f"{name} must be {wanted}, got {getattr(self, name)!r}.")

    def _check_rows(self, X, *y):
        return validate_data(self, X, *y, reset=bool(y), dtype=[np.float64, np.float32], order="C")

    def _check_relevances(self, d: int) -> Array:
        if self.relevances is None:
            return np.ones(d)
        given = np.asarray(self.relevances, dtype=np.float64)
        if given.shape != (d,):
            raise ValueError(f"relevances must have one number for each of {d} features, got shape {given.shape}.")
        if not (np.isfinite(given).all() and (given >= 0).all() and given.any()):
            raise ValueError("relevances must be finite numbers of at least 0, and one must be above 0.")
        return given

    def _svc(self, C: float, gamma: str | float) -> SVC:
        names = ("kernel", "tol", "fit_intercept", "multi_class", "class_weight", "n_jobs", "random_state")
        shared = {name: getattr(self, name) for name in names}
        return SVC(C=C, gamma=gamma, loss="squared_hinge", verbose=max(int(self.verbose) - 1, 0), **shared)

    def _search(self, data: Prepared, sample_weight: Array) -> "Search":
        """The search on at most max_samples samples; equal rows are one that weighs more."""
        relevances = self._check_relevances(data.X.shape[1])
        rng = np.random.default_rng(check_random_state(self.random_state or 0).randint(2**31))
        given = None
        if self.criterion == "cv" and not isinstance(self.cv, Integral):
            given = list(check_cv(self.cv, data.labels, classifier=True).split(data.X, data.labels))
        X, labels, weight, roles = merge(data, given)
        picked = draw(labels, int(self.max_samples), rng)
        X, labels, weight, roles = X[picked], labels[picked], weight[picked], roles[picked]
        if self.criterion == "loo":
            splits = None
        elif given is None:
            of = deal(labels, int(self.cv), rng)
            splits = [(np.flatnonzero(of != k), np.flatnonzero(of == k)) for k in range(int(self.cv))]
        else:
            splits = [(np.flatnonzero(roles[:, 2 * k]), np.flatnonzero(roles[:, 2 * k + 1])) for k in range(len(given))]
        folds = make_folds(split(labels, data.classes, self.multi_class), len(X), splits)
        if not folds:
            raise ValueError("the splits of cv hold out no sample of any two classes.")
        criterion = Criterion(
            X, weight, folds, INTERCEPTS[self.fit_intercept], self.kernel, effective_n_jobs(self.n_jobs)
        )
        start = Point(float(self.C), kernel_gamma(self.gamma, data.X, sample_weight) * relevances)
        scale = kernel_gamma("scale", data.X * relevances ** POWERS[self.kernel], sample_weight)
        price = self.penalty * float(np.sum(weight**2)) / float(np.sum(weight)) ** 2
        tell = self._say if self.verbose else None
        return Search(criterion, start, scale * relevances, price, bool(self.ard), tell, self.callback)

    def _say(self, trial: Trial) -> None:
        values = (
            f"criterion {trial.criterion:<9.6g} loss {trial.loss:<9.6g} C {trial.C:<9.4g} gamma {trial.gamma:<9.4g}"
        )
        where = f"step {trial.iteration:<4d} {trial.seconds:7.2f} s"
        print(f"[{type(self).__name__}] {where}   {values} features {trial.n_features}", flush=True)

    # --- from the search to the model -----------------------------------------------------------------------------

    def _keep(self, search: "Search") -> None:
        best = search.best
        self.C_, self.gamma_ = best.C, float(np.max(best.gammas))
        self.relevances_ = best.gammas / self.gamma_
        factor = best.gammas if self.kernel == "linear" else self.relevances_
        self.scales_ = factor ** POWERS[self.kernel]
        self.criterion_, self.loss_ = search.least, search.loss
        self.history_, self.n_iter_ = search.history, search.iteration

    def _scaled(self, X):
        return X * self.scales_.astype(X.dtype, copy=False)


# --- the search -------------------------------------------------------------------------------------------------------


class Point(NamedTuple):
    """Where the search is or was."""

    C: float
    gammas: Array  # (d,)


@dataclass
class Together:
    """theta = (log C, log of a factor on the given gammas)"""

    gammas: Array  # (d,)

    def theta(self, point: Point) -> Array:
        return np.log([point.C, np.max(point.gammas) / np.max(self.gammas)])

    def point(self, theta: Array) -> Point:
        return Point(float(np.exp(theta[0])), np.exp(theta[1]) * self.gammas)

    def slope(self, value: Value, theta: Array) -> Array:
        return np.array([value.by_log_C, value.by_gamma @ (np.exp(theta[1]) * self.gammas)])

    def folds(self, theta: Array) -> Array:
        """Factors e for which features pay."""
        return np.zeros(2)

    @property
    def box(self) -> np.ndarray:
        return np.log([[C_RANGE[0], FLOOR], [C_RANGE[1], CEILING]])


@dataclass
class Each:
    """theta = (log C, log(gamma_j + floor_j) for each feature whose given gamma is not 0)"""

    gammas: Array  # (d,) of the usual size

    def __post_init__(self):
        self.used = np.flatnonzero(self.gammas)
        self.floor = FLOOR * self.gammas[self.used]

    def theta(self, point: Point) -> Array:
        return np.log(np.append(point.C, point.gammas[self.used] + self.floor))

    def point(self, theta: Array) -> Point:
        gammas, low = np.zeros(len(self.gammas)), theta[1:] <= np.log(self.floor)
        gammas[self.used] = np.where(low, 0.0, np.exp(theta[1:]) - self.floor)
        return Point(float(np.exp(theta[0])), gammas)

    def slope(self, value: Value, theta: Array) -> Array:
        return np.append(value.by_log_C, value.by_gamma[self.used] * np.exp(theta[1:]))

    def folds(self, theta: Array) -> Array:
        return np.append(0.0, theta[1:] - np.log(self.floor))

    @property
    def box(self) -> np.ndarray:
        return np.log([[C_RANGE[0], *self.floor], [C_RANGE[1], *(CEILING * self.gammas[self.used])]])


@dataclass
class Search:
    """Of the least E + penalty; see the module's text."""

    criterion: Criterion
    start: Point
    scale: Array  # (d,) gammas of the usual size; 0 for features that stay out
    price: float  # penalty / n
    ard: bool
    tell: Any = None
    callback: Any = None
    best: Point = field(init=False)
    least: float = np.inf
    loss: float = np.inf
    history: list[Trial] = field(default_factory=list)
    iteration: int = 0

    def __post_init__(self):
        self.best, self.begin, self.constant = self.start, time.perf_counter(), self.criterion.constant()
        self.together, self.each = Together(self.scale), Each(self.scale)

    def run(self, max_iter: int) -> None:
        """Look at the start, and follow the slopes from there; from other starts if that leads nowhere."""
        try:
            self.look(self.start)
            for start in [self.start, *(Point(C, factor * self.scale) for C, factor in STARTS)]:
                _, loss = self._descend(self.together, start, max_iter, 0.0)
                if self.ard:
                    loss = min(loss, self._separate(start, max_iter))
                if loss <= HOPELESS * self.constant:
                    return
        except Stopped:
            return

    def _separate(self, start: Point, max_iter: int) -> float:
        """A gamma for each feature: some steps without the price on features, then with it. E in between."""
        free = min(FREE_STEPS, max_iter)
        point, loss = self._descend(self.each, start, free, 0.0)
        if loss <= HOPELESS * self.constant:
            point, _ = self._descend(self.each, point, max_iter - free, self.price)
            self._descend(self.each, self._prune(point), max_iter - free, self.price)
        return loss

    def _prune(self, found: Point) -> Point:
        """Leave out features of little relevance, if that is better: the last steps towards 0 gain next to nothing."""
        points = [found]
        for little in LITTLE:
            kept = found.gammas > little * np.max(found.gammas)
            points.append(Point(found.C, np.where(kept, found.gammas, 0.0)))
        return min(points, key=lambda point: self.look(point).loss + self._penalty(point))

    def look(self, point: Point) -> Value:
        """E there; the best point and the history are kept."""
        value = self.criterion(point.C, point.gammas)
        criterion = value.loss + self._penalty(point)
        if criterion < self.least and point.gammas.any():
            self.best, self.least, self.loss = point, criterion, value.loss
        largest, count = float(np.max(point.gammas)), int(np.count_nonzero(point.gammas))
        seconds = time.perf_counter() - self.begin
        self.history.append(Trial(self.iteration, seconds, criterion, value.loss, point.C, largest, count))
        if self.tell is not None:
            self.tell(self.history[-1])
        if self.callback is not None and self.callback(self.history[-1]):
            raise Stopped
        return value

    def _descend(self, variables: Together | Each, start: Point, steps: int, price: float) -> tuple[Point, float]:
        """So many steps, with this price on features; where that ends, and E there."""
        theta = variables.theta(start)
        low, high = np.minimum(variables.box[0], theta), np.maximum(variables.box[1], theta)
        losses = {}

        def objective(theta: Array) -> tuple[float, Array]:
            value, folds = self.look(variables.point(theta)), variables.folds(theta)
            losses[theta.tobytes()] = value.loss
            slope = variables.slope(value, theta)
            slope[0] += 2 * self.price * theta[0]
            slope[1:] += price  # sum folds is linear
            return value.loss + self.price * theta[0] ** 2 + price * float(np.sum(folds)), slope

        def count(_) -> None:
            self.iteration += 1

        if steps <= 0:
            return start, np.inf
        options = {"maxiter": steps, "ftol": FTOL, "gtol": 0.0}
        bounds = list(zip(low, high, strict=True))
        found = minimize(objective, theta, jac=True, method="L-BFGS-B", bounds=bounds, callback=count, options=options)
        return variables.point(found.x), losses[found.x.tobytes()]

    def _penalty(self, point: Point) -> float:
        """Gammas that are the same for all features, or in the proportions of the start, pay once."""
        shares = point.gammas[self.each.used] / self.scale[self.each.used]
        same = np.ptp(shares) <= 1e-9 * np.max(shares)
        features = float(np.sum(np.log1p((shares[:1] if same else shares) / FLOOR))) if self.ard else 0.0
        return float(self.price * (np.log(point.C) ** 2 + features))


# --- the samples it looks at ------------------------------------------------------------------------------------------


def merge(data: Prepared, splits: list | None) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """(X, labels, weight, roles) with equal rows made one, in an order that does not depend on that of the data.

    roles[:, 2 k] says who is seen in split k, and roles[:, 2 k + 1] who is held out; rows are equal if these are too.
    """
    roles = np.zeros((data.n, 2 * len(splits or [])), dtype=bool)
    for k, (seen, held) in enumerate(splits or []):
        roles[seen, 2 * k], roles[held, 2 * k + 1] = True, True
    some = np.flatnonzero(data.weight > 0)
    table = np.column_stack([data.labels[some], data.X[some].astype(np.float64, copy=False), roles[some]])
    _, first, of = np.unique(table, axis=0, return_index=True, return_inverse=True)
    weight = np.bincount(of.ravel(), data.weight[some], len(first))
    first = some[first]
    return data.X[first].astype(np.float64, copy=False), data.labels[first], weight, roles[first]


def draw(labels: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """At most so many samples, of each class its share, and two where it has them; ascending."""
    if len(labels) <= most:
        return np.arange(len(labels))
    share = most / len(labels)
    picked = []
    for label in np.unique(labels):
        mine = np.flatnonzero(labels == label)
        picked.append(rng.permutation(mine)[: max(2, int(share * len(mine)))])
    return np.sort(np.concatenate(picked))


def deal(labels: np.ndarray, n_folds: int, rng: np.random.Generator) -> np.ndarray:
    """The fold of each sample; each class is dealt out like cards, one after the other."""
    order = np.concatenate([rng.permutation(np.flatnonzero(labels == label)) for label in np.unique(labels)])
    folds = np.empty(len(labels), dtype=np.int64)
    folds[order] = np.arange(len(labels)) % n_folds
    return folds
