"""leave_one_out: what a fitted LinearSVC or SVC would say of each sample without it. How it is done: see `left_out`."""

from copy import copy
from dataclasses import dataclass

import numpy as np
from joblib import effective_n_jobs
from scipy.linalg.lapack import dpotrf
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from .approximation import Expanded, _features
from .chunks import Chunks
from .classifier import CertifiedClassifier, Prepared
from .kernel_matrix import SMALL
from .kernels import Points
from .left_out import leave_out
from .linear_svc import LinearSVC
from .losses import Array
from .matrix import one_blas_thread
from .multiclass import join
from .problem import Problem
from .reduced import Basis
from .solve import Start
from .svc import SVC
from .triangles import invert_triangle

SAME = 1e-5  # of P: a model whose P differs by more was not trained on these data


@dataclass(frozen=True)
class LeaveOneOut:
    """What each sample would have been told by a model that had not seen it.

    Attributes
    ----------
    scores : array (n_samples,), or (n_samples, n_classes)
        As `decision_function` gives them.
    predictions : array (n_samples,)
        The classes they stand for.
    errors : array (n_samples,) of bool
        Where that is not the sample's own.
    error : float
        Their share, each sample counting by its weight.
    training_error : float
        The same of the model itself, for comparison.
    """

    scores: Array
    predictions: np.ndarray
    errors: np.ndarray
    error: float
    training_error: float

    def __str__(self):
        wrong = f"{np.count_nonzero(self.errors)} of {len(self.errors)} samples"
        return f"leave-one-out error {self.error:.2%} ({wrong}), training error {self.training_error:.2%}"


def leave_one_out(model, X, y, sample_weight=None, *, folds=None) -> LeaveOneOut:
    """The leave-one-out error of a fitted LinearSVC or SVC, from the model itself: nothing is trained again.

    Parameters
    ----------
    model : a fitted LinearSVC or SVC, or a Pipeline that ends in one (its other steps stay as they are).
    X, y, sample_weight : the data it was fitted with. Others are refused, where that shows.
    folds : array-like (n_samples,), default=None
        Names of folds that are left out as a whole; None: each sample alone. See `fold_scores` for how good that is.

    Returns
    -------
    LeaveOneOut

    Notes
    -----
    One Newton step from the optimum for each sample; exact while no other sample changes to another piece of its loss.
    Where the sign is in doubt and the loss is smooth, more steps, which end at or near the score of a true fit.
    In one-vs-one problems a sample that is not of a pair keeps that pair's score. C, class weights, gamma and the
    basis of an approximation are taken as given. A loosely solved model is a little off: tol=1e-3 is good enough.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from primalsvm import LinearSVC, leave_one_out
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = StandardScaler().fit_transform(X)
    >>> found = leave_one_out(LinearSVC(C=0.1).fit(X, y), X, y)
    >>> found.training_error <= found.error < 0.05
    True
    """
    while isinstance(model, Pipeline):
        X = model[:-1].transform(X) if len(model) > 1 else X
        model = model[-1]
    if not isinstance(model, LinearSVC | SVC):
        raise TypeError(f"leave_one_out is for primalsvm's LinearSVC and SVC, got {type(model).__name__}.")
    check_is_fitted(model, "certificate_")
    _check_shape(model, X)
    own = copy(model)  # validating sets attributes, of this one
    with one_blas_thread():
        data = CertifiedClassifier._prepare(own, X, y, sample_weight)
        if not np.array_equal(model.classes_, data.classes):
            raise ValueError(f"the model was fitted with the classes {model.classes_}, y has {data.classes}.")
        data, starts = _model(own, data)
        folds = None if folds is None else np.asarray(folds)
        pairs = data.parts[0].rows is not None
        plain = np.empty((data.n, len(data.parts)))
        if pairs:
            plain = (model._scores_in_pieces(X) if isinstance(X, Chunks) else model._scores(X)) + model.intercept_
        scores = plain.copy()
        certificates = model.certificate_.parts or (model.certificate_,)
        for k, (part, start, proven) in enumerate(zip(data.parts, starts, certificates, strict=True)):
            problem = own._problem(data, part)
            assert start is not None and start.alpha is not None
            mine = None if folds is None else part.take(folds)
            left = leave_out(problem, start.f, start.b, start.alpha, mine)
            _check_same(problem, start, left.plain, proven)
            rows = slice(None) if part.rows is None else part.rows
            plain[rows, k], scores[rows, k] = left.plain, left.scores
    return _judge(model, data, plain, scores, sample_weight)


def _judge(model, data: Prepared, plain: Array, scores: Array, sample_weight) -> LeaveOneOut:
    joined = join(scores, len(data.classes), model.multi_class)
    told, seen = (_places(each) for each in (joined, join(plain, len(data.classes), model.multi_class)))
    weight = None if sample_weight is None else np.broadcast_to(np.asarray(sample_weight, dtype=np.float64), data.n)
    errors = told != data.labels
    error, training = (float(np.average(wrong, weights=weight)) for wrong in (errors, seen != data.labels))
    return LeaveOneOut(joined, data.classes[told], errors, error, training)


def _places(scores: Array) -> np.ndarray:
    return (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)


def _model(model, data: Prepared) -> tuple[Prepared, list[Start]]:
    """What the problems are made of, and their solutions."""
    if isinstance(model, LinearSVC) or model.approximation is None:
        return data, model._solutions(data, model.C)
    kernel, vectors = model.kernel_, model.support_vectors_
    points = Points(kernel, vectors)
    K = np.asarray(kernel.between(points.features(), points.features()), dtype=np.float64)
    L, failed = dpotrf((0.5 * (K + K.T)).T, lower=1, clean=1)
    if failed:
        raise ValueError("the points of the model's basis depend on each other; it cannot be taken apart again.")
    exact = 8 * data.n * len(L) <= SMALL or callable(kernel.name) or points.wide
    basis = Basis(
        kernel, model.support_, vectors, L, invert_triangle(L.copy(order="F")).T, np.float64 if exact else np.float32
    )
    features = _features(data, basis, model.memory_limit, effective_n_jobs(model.n_jobs), None)
    starts = [
        Start(L.T @ beta, float(b), part.take(model.alpha_[[k]].toarray()[0]))
        for k, (beta, b, part) in enumerate(zip(model.dual_coef_, model.intercept_, data.parts, strict=True))
    ]
    return data._replace(matrix=Expanded(kernel, basis, features, [])), starts


def _check_shape(model, X) -> None:
    """Before anything is computed: are these the data of the fit?"""
    shape: tuple[int, ...] = getattr(X, "shape", None) or (len(X),)
    if shape[0] != model.n_samples_fit_:
        raise ValueError(f"the model was fitted with {model.n_samples_fit_} samples, X has {shape[0]}.")
    if len(shape) == 2 and shape[1] != model.n_features_in_:
        raise ValueError(f"the model was fitted with {model.n_features_in_} features, X has {shape[1]}.")
    if model.C_fit_ != model.C:
        raise ValueError(f"the model was fitted with C={model.C_fit_}, and C is {model.C} now; fit it again.")


def _check_same(problem: Problem, start: Start, plain: Array, proven) -> None:
    """P on these data must be the P that the fit has proven."""
    square = start.f @ (plain - start.b if problem.kind == "kernel" else start.f)
    P = 0.5 * float(square) + problem.penalty(start.b) + float(problem.cost @ problem.loss.value(problem.y * plain))
    if not abs(P - proven.primal) <= proven.rounding + SAME * proven.primal:
        raise ValueError(
            "these are not the data, weights and parameters that the model was fitted with: its objective is "
            f"{P:.9g} on them, and was {proven.primal:.9g} in the fit."
        )
