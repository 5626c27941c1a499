"""certify: a certificate for a model trained by anyone.

Each reader below turns a model into a Claim: which problem it says it solved, and its answer. The judge does the rest.

| model                              | its problem                                                                     |
|------------------------------------|---------------------------------------------------------------------------------|
| primalsvm's LinearSVC and SVC      | their own                                                                       |
| scikit-learn LinearSVC             | penalised intercept, a constant feature of value intercept_scaling              |
| scikit-learn SVC                   | hinge, free intercept, one-vs-one                                               |
| scikit-learn SGDClassifier         | alpha/2 |w|^2 + 1/n sum of losses: C = 1 / (alpha n), free intercept            |
| LIBLINEAR, LIBSVM model files      | as the file says; C is not in it and must be given                              |
| (coef, intercept)                  | as given; with a kernel, coef are those of f = sum_j coef_j k(x_j, .)           |
| scikit-learn Pipeline              | its last step's, on the transformed data                                        |
"""

import os
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC as SklearnSVC
from sklearn.svm import LinearSVC as SklearnLinearSVC
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, check_X_y

from .certificate import Certificate, certificate
from .classifier import INTERCEPTS
from .gamma import kernel_gamma
from .kernel_matrix import KernelMatrix, kernel_matrix
from .kernels import Kernel
from .linear_svc import LinearSVC
from .losses import Array, Loss, make_loss
from .matrix import Matrix, as_matrix, one_blas_thread
from .model_files import ForeignModel, read_model_file
from .multiclass import Part, scatter, split
from .ordinal_svc import OrdinalSVC
from .ordinal_svc import judge as judge_ordinal
from .problem import LinearProblem
from .svc import SVC, WITH_GAMMA, judge_expansion, plain_rows


class Answer(NamedTuple):
    """What a model found for one binary problem."""

    coef: Array  # (d,) weights; with a kernel (m,) coefficients
    b: float
    alpha: Array | None = None  # (n,) over all samples
    rows: Any = None  # (m,) which samples the coefficients belong to; from n on the claim's `vectors`


@dataclass(frozen=True)
class Claim:
    """The problem that a model says it solved, and its answers, one per binary problem in the order of `split`."""

    classes: np.ndarray
    answers: list[Answer]
    loss: str | Loss | None = None
    C: float | None = None
    intercept: str | None = None
    intercept_scaling: float = 1.0
    multi_class: str = "ovr"
    class_weight: Any = None
    weighed: bool = False  # "balanced" counts each sample by its weight
    kernel: Kernel | None = None
    vectors: Any = None  # support vectors that are no rows of X
    changed: bool = False  # judged by another problem than its own


def certify(
    model,
    X,
    y,
    *,
    C: float | None = None,
    loss: str | Loss | None = None,
    kernel: Any = None,
    gamma: str | float = "scale",
    degree: int = 3,
    coef0: float = 0.0,
    intercept: str | bool | None = None,
    sample_weight=None,
) -> Certificate:
    """How far from the optimum a trained model can be, whoever trained it.

    Parameters
    ----------
    model : a fitted estimator of primalsvm or scikit-learn (LinearSVC, SVC, OrdinalSVC, SGDClassifier, or a Pipeline
        that ends in one), the path of a LIBLINEAR or LIBSVM model file, or a pair (coef, intercept).
    X, y : the data it was trained on.
    C, loss, intercept : of the problem to judge it by, where the model does not say or should be judged by another.
        intercept is "none", "penalized" or "free" (or False and True).
    kernel, gamma, degree, coef0 : for a pair (coef, intercept) whose coef are coefficients of k(x_i, .), one for each
        row of X: as for SVC, or a Kernel. With "precomputed", X is the kernel matrix.
    sample_weight : as given to the training.

    Returns
    -------
    Certificate
        One part per binary problem where there are more than two classes.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.svm import LinearSVC
    >>> from primalsvm import certify
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LinearSVC(C=0.001, fit_intercept=False).fit(X / X.max(axis=0), y)
    >>> certify(model, X / X.max(axis=0), y).relative_gap < 1e-3
    True
    """
    while isinstance(model, Pipeline):
        X = model[:-1].transform(X) if len(model) > 1 else X
        model = model[-1]
    if isinstance(model, OrdinalSVC):
        if kernel is not None:
            raise ValueError("kernel is for a pair (coef, intercept); this model knows its own.")
        own: dict[Any, Any] = {value: name for name, value in INTERCEPTS.items()}
        changes = {"C": C, "loss": loss, "fit_intercept": own.get(intercept, intercept)}
        given: dict[str, Any] = {name: value for name, value in changes.items() if value is not None}
        return judge_ordinal(model, X, y, sample_weight, **given)
    X, y = check_X_y(X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C")
    X = plain_rows(X)
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if isinstance(model, tuple) and len(model) == 2:
        claim = _read_pair(model, X, y, _make_kernel(kernel, gamma, degree, coef0, X, weight))
    elif kernel is not None:
        raise ValueError("kernel is for a pair (coef, intercept); this model knows its own.")
    else:
        claim = _read(model, X)
    free = None if intercept is None else INTERCEPTS.get(intercept, str(intercept))
    given = {name: value for name, value in {"C": C, "loss": loss, "intercept": free}.items() if value is not None}
    changed = any(getattr(claim, name) not in (None, value) for name, value in given.items())
    claim = replace(claim, changed=changed, **given)
    for name, value in (("C", claim.C), ("loss", claim.loss), ("intercept", claim.intercept)):
        if value is None:
            raise ValueError(f"this model does not say which {name} it was trained with; give certify({name}=...).")
    if not 0 < claim.C < np.inf:  # type: ignore[operator]
        raise ValueError(f"C must be a finite number above 0, got {claim.C!r}.")
    labels = np.minimum(np.searchsorted(claim.classes, y), len(claim.classes) - 1)
    if not np.array_equal(claim.classes[labels], y):
        unknown = y[claim.classes[labels] != y][0]
        raise ValueError(f"y has the label {unknown!r}, which the model does not know; its classes: {claim.classes}.")
    cost = claim.C * weight
    if claim.class_weight is not None:
        counted = weight if claim.weighed else None
        factors = compute_class_weight(claim.class_weight, classes=claim.classes, y=y, sample_weight=counted)
        cost = cost * factors[labels]
    parts = split(labels, claim.classes, claim.multi_class)
    if len(parts) != len(claim.answers):
        raise ValueError(f"{len(claim.classes)} classes need {len(parts)} rows of coef, got {len(claim.answers)}.")
    with one_blas_thread():
        matrix = _matrix(claim, X)
        return Certificate.of_parts(
            [_judge(claim, answer, matrix, cost, part) for answer, part in zip(claim.answers, parts, strict=True)]
        )


def _matrix(claim: Claim, X) -> Matrix | KernelMatrix:
    """What all binary problems are made of: X, or K between its rows and the support vectors that are none of them."""
    if claim.kernel is None:
        return as_matrix(X)
    if claim.vectors is None:
        dense = claim.kernel.name == "precomputed" and sp.issparse(X)
        return kernel_matrix(claim.kernel, X.toarray() if dense else X)
    if sp.issparse(X):
        return kernel_matrix(claim.kernel, sp.vstack([sp.csr_array(X), sp.csr_array(claim.vectors)], format="csr"))
    vectors = claim.vectors.toarray() if sp.issparse(claim.vectors) else claim.vectors
    return kernel_matrix(claim.kernel, np.vstack([X, vectors]))


def _judge(claim: Claim, answer: Answer, matrix: Any, cost: Array, part: Part) -> Certificate:
    alpha = None if answer.alpha is None else part.take(answer.alpha)
    facts: dict[str, Any] = {
        "loss": make_loss(claim.loss),  # type: ignore[arg-type]
        "intercept": claim.intercept,
        "intercept_scaling": claim.intercept_scaling,
    }
    y, cost = part.y, part.take(cost)
    if claim.kernel is None:
        if len(answer.coef) != matrix.shape[1]:
            raise ValueError(f"the model has {len(answer.coef)} features, X has {matrix.shape[1]}.")
        X = matrix if part.rows is None else matrix.take(part.rows)
        return certificate(LinearProblem(y=y, cost=cost, X=X, **facts), answer.coef, answer.b, alpha)
    # polishing works on the full matrix again and again: only where the model brings no dual point of this problem
    deep = alpha is None or claim.changed
    facts |= {"y": y, "cost": cost}
    return judge_expansion(matrix, answer.rows, answer.coef, answer.b, alpha, part, facts, deep=deep)


# --- readers --------------------------------------------------------------------------------------------------------


def _read(model, X) -> Claim:
    """The claim of any model we know."""
    if isinstance(model, str | os.PathLike):
        return _read_file(read_model_file(model), *X.shape)
    for kind, reader in (
        (LinearSVC, _read_our_linear_svc),
        (SVC, _read_our_svc),
        (SklearnLinearSVC, _read_linear_svc),
        (SklearnSVC, _read_svc),
        (SGDClassifier, _read_sgd),
    ):
        if isinstance(model, kind):
            check_is_fitted(model)
            return reader(model, X)
    raise TypeError(
        f"certify does not know {type(model).__name__}; it takes primalsvm's estimators, scikit-learn's LinearSVC, SVC "
        "and SGDClassifier, LIBLINEAR and LIBSVM model files by path, and pairs (coef, intercept)."
    )


def _linear_answers(coef, intercept) -> list[Answer]:
    coef = np.atleast_2d(np.asarray(coef, dtype=np.float64))
    intercept = np.broadcast_to(np.ravel(np.asarray(intercept, dtype=np.float64)), (len(coef),))
    return [Answer(w, float(b)) for w, b in zip(coef, intercept, strict=True)]


def _read_our_linear_svc(model: LinearSVC, X) -> Claim:
    answers = _linear_answers(model.coef_, model.intercept_)
    if model.n_samples_fit_ == X.shape[0]:
        alphas = (scatter(alpha, model.support_, X.shape[0]) for alpha in np.abs(model.dual_coef_))
        answers = [answer._replace(alpha=alpha) for answer, alpha in zip(answers, alphas, strict=True)]
    return Claim(
        model.classes_,
        answers,
        model.loss,
        model.C,
        INTERCEPTS[model.fit_intercept],
        multi_class=model.multi_class,
        class_weight=model.class_weight,
        weighed=True,
    )


def _read_our_svc(model: SVC, X) -> Claim:
    n, kernel = X.shape[0], model.kernel_
    same = n == model.n_samples_fit_
    if kernel.name == "precomputed" and not (same and X.shape[1] == n):
        raise ValueError(f"X is not the kernel matrix of the fit, which was that of {model.n_samples_fit_} samples.")
    if kernel.name != "precomputed":
        if X.shape[1] != model.n_features_in_:
            raise ValueError(f"the model has {model.n_features_in_} features, X has {X.shape[1]}.")
        same = same and _equal(X[model.support_], model.support_vectors_)
    rows = model.support_ if same else n + np.arange(len(model.support_))
    return Claim(
        model.classes_,
        [
            Answer(coef[coef != 0], float(b), model.alpha_[[k]].toarray()[0] if same else None, rows[coef != 0])
            for k, (coef, b) in enumerate(zip(model.dual_coef_, model.intercept_, strict=True))
        ],
        model.loss,
        model.C,
        INTERCEPTS[model.fit_intercept],
        multi_class=model.multi_class,
        class_weight=model.class_weight,
        weighed=True,
        kernel=kernel,
        vectors=None if same else model.support_vectors_,
    )


def _read_linear_svc(model: SklearnLinearSVC, X) -> Claim:
    if model.penalty != "l2" or model.multi_class != "ovr":
        raise ValueError("certify judges LinearSVC with penalty='l2' and multi_class='ovr'; this model has others.")
    return Claim(
        model.classes_,
        _linear_answers(model.coef_, model.intercept_ if model.fit_intercept else 0.0),
        model.loss,
        model.C,
        "penalized" if model.fit_intercept else "none",
        float(model.intercept_scaling),
        class_weight=model.class_weight,
        weighed=True,
    )


def _read_sgd(model: SGDClassifier, X) -> Claim:
    if model.loss not in ("hinge", "squared_hinge") or model.penalty != "l2":
        raise ValueError("certify judges SGDClassifier with loss hinge or squared_hinge and penalty='l2'.")
    return Claim(
        model.classes_,
        _linear_answers(model.coef_, model.intercept_ if model.fit_intercept else 0.0),
        model.loss,
        1.0 / (model.alpha * X.shape[0]),
        "free" if model.fit_intercept else "none",
        class_weight=model.class_weight,
    )


def _read_svc(model: SklearnSVC, X) -> Claim:
    if model.kernel == "precomputed" or callable(model.kernel):  # scikit-learn keeps no vectors then
        same = X.shape[0] == model.shape_fit_[0]
    else:
        same = X.shape == model.shape_fit_ and _equal(X[model.support_], model.support_vectors_)
    if not same:
        raise ValueError("X is not the data this SVC was trained on; its support vectors are other rows.")
    classes, answers = model.classes_, []
    dual_coef = model.dual_coef_.toarray() if sp.issparse(model.dual_coef_) else model.dual_coef_
    begins = np.concatenate([[0], np.cumsum(model.n_support_)])
    intercepts = iter(model.intercept_)
    for j in range(len(classes)):
        for k in range(j + 1, len(classes)):
            first, second = slice(begins[j], begins[j + 1]), slice(begins[k], begins[k + 1])
            row = 0 if len(classes) == 2 else k - 1  # LIBSVM's layout
            coef = np.concatenate([dual_coef[row, first], dual_coef[0 if len(classes) == 2 else j, second]])
            rows = np.concatenate([model.support_[first], model.support_[second]])
            answers.append(Answer(coef, float(next(intercepts)), scatter(np.abs(coef), rows, X.shape[0]), rows))
    kernel = Kernel(model.kernel, gamma=model._gamma, degree=model.degree, coef0=model.coef0)
    if kernel.name == "linear":
        answers = [
            answer._replace(coef=np.asarray(X[answer.rows].T @ answer.coef, dtype=np.float64)) for answer in answers
        ]
    return Claim(
        classes,
        answers,
        "hinge",
        model.C,
        "free",
        multi_class="ovo",
        class_weight=model.class_weight,
        kernel=None if kernel.name == "linear" else kernel,
    )


def _equal(a, b) -> bool:
    return (a != b).nnz == 0 if sp.issparse(a) or sp.issparse(b) else np.array_equal(a, b)


def _read_file(model: ForeignModel, n: int, n_features: int) -> Claim:
    if model.kind == "liblinear":
        coef = np.asarray(model.coef)
        if coef.shape[1] < n_features:  # LIBLINEAR counts features up to the last one it saw
            coef = np.hstack([coef, np.zeros((len(coef), n_features - coef.shape[1]))])
        return Claim(
            model.classes,
            _linear_answers(coef, model.intercepts),
            model.loss,
            intercept=model.intercept,
            intercept_scaling=model.intercept_scaling or 1.0,
        )
    vectors: Any = model.support_vectors
    if vectors.shape[1] > n_features:
        raise ValueError(f"the model has {vectors.shape[1]} features, X has {n_features}.")
    vectors = sp.csr_array((vectors.data, vectors.indices, vectors.indptr), shape=(vectors.shape[0], n_features))
    # split() calls the smaller class of a pair positive where there are more than two
    sign = 1.0 if len(model.classes) == 2 else -1.0
    pairs = [pair._replace(coef=sign * pair.coef, intercept=sign * pair.intercept) for pair in model.binary_problems()]
    if model.kernel is None or model.kernel == "linear":
        answers = [Answer(vectors[pair.indices].T @ pair.coef, pair.intercept) for pair in pairs]
        return Claim(model.classes, answers, "hinge", intercept="free", multi_class="ovo")
    answers = [Answer(pair.coef, pair.intercept, rows=n + pair.indices) for pair in pairs]
    kernel = Kernel(model.kernel, gamma=model.gamma or 0.0, degree=model.degree or 0, coef0=model.coef0 or 0.0)
    return Claim(model.classes, answers, "hinge", intercept="free", multi_class="ovo", kernel=kernel, vectors=vectors)


def _make_kernel(kernel, gamma, degree, coef0, X, sample_weight) -> Kernel | None:
    """The kernel that a pair was given; None for weights of the features."""
    if not isinstance(kernel, Kernel) and kernel is not None:
        kernel = Kernel(kernel, kernel_gamma(gamma, X, sample_weight) if kernel in WITH_GAMMA else 0.0, degree, coef0)
    return None if kernel is None or kernel.name == "linear" else kernel


def _read_pair(model: tuple, X, y, kernel: Kernel | None) -> Claim:
    classes = np.unique(y)
    answers = _linear_answers(*model)
    if len(classes) < 2:
        raise ValueError("y has one class only; a binary problem needs two.")
    multi_class = "ovr" if len(answers) in (1, len(classes)) else "ovo"
    if kernel is None:
        return Claim(classes, answers, multi_class=multi_class)
    n = X.shape[0]
    if any(len(answer.coef) != n for answer in answers):
        raise ValueError(f"with a kernel, coef needs one coefficient for each of the {n} rows of X.")
    answers = [Answer(coef[coef != 0], b, rows=np.flatnonzero(coef)) for coef, b, *_ in answers]
    return Claim(classes, answers, multi_class=multi_class, kernel=kernel)
