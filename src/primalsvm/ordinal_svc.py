r"""OrdinalSVC: classes that have an order, as a binary problem for each boundary between neighbours.

With classes 0 < 1 < ... < q and a boundary k between k - 1 and k, for k = 1 ... q:

adjacent     class k against class k - 1, on their samples only. The signs of the q scores are a pattern S; the table

                 P(label | S) = (n(label, S) + a P(label)) / (n(S) + a)

             counts what the training samples with that pattern were, a being `smoothing`: a pattern never seen leaves
             the prior P(label). With a = 0 it is the rule of Duros and Katzman, section 3.1.

cumulative   all classes from k on against all below, a w_k for each; the class is the number of positive scores
             (Frank and Hall 2001, with margins in the place of probabilities).

shared       one w for all boundaries, only their thresholds differ: sample i stands once for each boundary k, with the
             features (x_i, s e_k), so that

                 1/2 |w|^2 + |t|^2 / 2 s^2 + sum_i sum_k c_i l(y_ik (<w, x_i> + t_k + b)),    y_ik = +1 if label_i >= k

             is a binary SVM like any other (Lin and Li 2012). s is the length of a typical x: what a threshold costs
             beside w does not change when X is scaled. The thresholds of the optimum are in order.

Each of these is one problem of the library, solved, judged and kept as all others are.

Duros, Katzman: Comparison of SVM Optimization Techniques in the Primal.
Frank, Hall (2001): A Simple Approach to Ordinal Classification.
Lin, Li (2012): Reduction from Cost-Sensitive Ordinal Ranking to Weighted Binary Classification.
"""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from .certificate import Certificate, certificate
from .chunks import Chunks
from .classifier import CertifiedClassifier, Prepared, is_number, outside
from .linear_svc import LinearSVC
from .losses import Array
from .matrix import as_matrix, one_blas_thread
from .multiclass import ORDERED, boundary_names, label_text, scatter
from .notebook import ProofInNotebook
from .problem import KernelProblem, LinearProblem
from .repeated_kernel import RepeatedKernel
from .solve import Start
from .svc import SVC


def _of_model(name: str) -> property:
    """What the model of the boundaries has."""
    return property(lambda self: getattr(self.model_, name))


class OrdinalSVC(ProofInNotebook, ClassifierMixin, BaseEstimator):
    r"""Support vector classifier for classes that have an order, linear or with a kernel, that proves its answer.

    Parameters
    ----------
    estimator : LinearSVC or SVC, default=None
        What solves the binary problems, with its C, loss, kernel and so on; its `multi_class` has no say here. None is
        ``LinearSVC()``.
    strategy : {"cumulative", "adjacent", "shared"}, default="cumulative"
        "cumulative": a problem for each boundary, all classes above it against all below. "adjacent": neighbouring
        classes only, combined by a table of what each pattern of signs meant in training. "shared": one w for all
        boundaries, which differ by their thresholds: the fewest parameters, and a score that ranks samples.
    classes : sequence, default=None
        The classes from low to high. None sorts them, which is right for numbers and wrong for most words.
    smoothing : float, default=1.0
        Of the table of "adjacent": how many samples drawn from the prior each pattern is mixed with.

    Attributes
    ----------
    classes_ : ndarray (n_classes,)
        From low to high.
    boundaries_ : list of str
        What a positive score says at each boundary.
    model_ : the fitted model of the binary problems.
    coef_ : ndarray (n_boundaries, n_features), or (1, n_features) if shared
        Of linear models.
    intercept_ : ndarray (n_boundaries,)
    certificate_ : Certificate
        Of the sum of the binary problems, each in ``certificate_.parts``; of the one problem if shared.
    patterns_, table_ : ndarray (n_patterns, n_boundaries) of bool, ndarray (n_patterns, n_classes)
        Of "adjacent": the patterns that training saw, and P(label | pattern). Below them a line for all others.
    dual_gap_, history_, n_iter_, status_, solver_, n_features_in_, feature_names_in_ : as those of LinearSVC.

    Examples
    --------
    >>> import numpy as np
    >>> from primalsvm import LinearSVC, OrdinalSVC
    >>> X = np.linspace(0, 1, 60)[:, None]
    >>> y = np.array(["low", "middle", "high"])[np.digitize(X[:, 0], [0.3, 0.6])]
    >>> model = OrdinalSVC(LinearSVC(C=100), classes=["low", "middle", "high"]).fit(X, y)
    >>> model.predict([[0.1], [0.5], [0.9]]).tolist()
    ['low', 'middle', 'high']
    >>> model.boundaries_
    ['middle or above', 'high or above']
    """

    def __init__(self, estimator=None, *, strategy="cumulative", classes=None, smoothing=1.0):
        self.estimator = estimator
        self.strategy = strategy
        self.classes = classes
        self.smoothing = smoothing

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags = self._estimator().__sklearn_tags__().input_tags
        assert tags.classifier_tags is not None
        tags.classifier_tags.poor_score = True  # on blobs in no order, which is what scikit-learn's check has
        return tags

    def fit(self, X, y=None, sample_weight=None):
        """Fit a model for each boundary and prove how good they are.

        Ctrl-C leaves what is there fitted, then raises KeyboardInterrupt.

        Parameters
        ----------
        X : array-like, sparse matrix or Chunks (n_samples, n_features)
        y : array-like (n_samples,)
            Labels; a pandas Series of ordered categories has its own order.
        sample_weight : array-like (n_samples,), default=None
            Factors on C, and on the counts of the table.

        Returns
        -------
        self
        """
        self._check_params()
        model = self._model()
        model.order = self._order(y)
        interrupted = False
        try:
            model.fit(X, y, sample_weight)
        except KeyboardInterrupt:
            interrupted = True
            if not hasattr(model, "certificate_"):
                raise
        self._keep(model)
        model.order = self.classes_
        if self.strategy == "adjacent" and len(self.classes_) > 2:
            labels = model._sort_classes(np.ravel(X.y if y is None else y))[1]
            self._count(self._boundary_scores(X) > 0, labels, _check_sample_weight(sample_weight, X, dtype=np.float64))
        if interrupted:
            raise KeyboardInterrupt
        return self

    def decision_function(self, X):
        """Scores (n_samples, n_classes), the largest at the class of a row; of two classes one, above 0 for the upper.

        With "adjacent" they are P(label | pattern). Otherwise that of class k is the sum of the scores of the first k
        boundaries. Where boundaries contradict each other their scores are put in order first, so that the class is the
        number of boundaries passed.
        """
        scores = self._boundary_scores(X)
        if scores.ndim == 1:
            return scores
        if self.strategy == "adjacent":
            return self.table_[self._places(scores > 0)]
        falling = -np.sort(-scores, axis=1)
        return np.hstack([np.zeros((len(scores), 1)), np.cumsum(falling, axis=1)])

    def predict(self, X):
        """The class of each row."""
        scores = self._boundary_scores(X)
        if self.strategy == "adjacent" and scores.ndim == 2:
            return self.classes_[self.table_[self._places(scores > 0)].argmax(axis=1)]
        return self.classes_[self.model_._winners(scores)]

    coef_ = _of_model("coef_")
    intercept_ = _of_model("intercept_")
    certificate_ = _of_model("certificate_")
    dual_gap_ = _of_model("dual_gap_")
    history_ = _of_model("history_")
    n_iter_ = _of_model("n_iter_")
    status_ = _of_model("status_")
    solver_ = _of_model("solver_")
    n_features_in_ = _of_model("n_features_in_")
    feature_names_in_ = _of_model("feature_names_in_")

    def _boundary_scores(self, X) -> Array:
        check_is_fitted(self, "model_")
        return self.model_.decision_function(X)

    # --- from parameters to a model -------------------------------------------------------------------------------

    def _estimator(self) -> CertifiedClassifier:
        return LinearSVC() if self.estimator is None else self.estimator

    def _check_params(self) -> None:
        if self.strategy not in ORDERED:
            raise ValueError(f"strategy must be one of {', '.join(ORDERED)}, got {self.strategy!r}.")
        if not (is_number(self.smoothing) and 0 <= self.smoothing < np.inf):
            raise ValueError(f"smoothing must be a finite number of at least 0, got {self.smoothing!r}.")
        if type(self._estimator()) not in MODELS:
            raise ValueError(f"estimator must be a LinearSVC or SVC of primalsvm, got {self.estimator!r}.")
        if self._estimator().probability is not None:
            raise ValueError(
                "OrdinalSVC has no calibrated probabilities; leave the estimator's `probability` None, and take "
                "scikit-learn's CalibratedClassifierCV around OrdinalSVC."
            )

    def _model(self) -> Any:
        """The model to fit: the last one where it is to be warm-started."""
        base = self._estimator()
        parameters = base.get_params(deep=False) | {"multi_class": self.strategy}
        kind = MODELS[type(base)][self.strategy == "shared"]
        if base.warm_start and type(getattr(self, "model_", None)) is kind:
            return self.model_.set_params(**parameters)
        return kind(**parameters)

    def _order(self, y) -> np.ndarray | None:
        """The classes from low to high where that is not how they sort."""
        if self.classes is not None:
            order = np.asarray(self.classes)
            if order.ndim != 1 or len(np.unique(order)) < max(2, len(order)):
                raise ValueError(f"classes must name two classes or more, each once, got {self.classes!r}.")
            return order
        kind: Any = getattr(y, "dtype", None)  # of pandas
        if getattr(kind, "ordered", False):
            return np.asarray(kind.categories)[np.isin(kind.categories, np.unique(np.asarray(y)))]
        return None

    # --- the model ------------------------------------------------------------------------------------------------

    def _keep(self, model) -> None:
        for name in ("patterns_", "table_"):
            self.__dict__.pop(name, None)
        self.model_ = model
        self.classes_ = model.classes_
        self.boundaries_ = boundary_names([label_text(label) for label in self.classes_], self.strategy)

    def _count(self, signs: np.ndarray, labels: np.ndarray, weight: Array) -> None:
        """The table, its last line for patterns that were never seen."""
        q, a = len(self.classes_), float(self.smoothing)
        prior = np.bincount(labels, weights=weight, minlength=q) / np.sum(weight)
        self.patterns_, place = np.unique(signs, axis=0, return_inverse=True)
        counts = np.zeros((len(self.patterns_), q))
        np.add.at(counts, (place.ravel(), labels), weight)
        totals = counts.sum(axis=1, keepdims=True) + a
        shares = np.divide(counts + a * prior, totals, out=np.tile(prior, (len(counts), 1)), where=totals > 0)
        self.table_ = np.vstack([shares, prior])

    def _places(self, signs: np.ndarray) -> np.ndarray:
        """Lines of the table."""
        known = {pattern.tobytes(): k for k, pattern in enumerate(self.patterns_)}
        found, place = np.unique(signs, axis=0, return_inverse=True)
        lines = np.array([known.get(pattern.tobytes(), len(known)) for pattern in found], dtype=int)
        return lines[place.ravel()]


def judge(model: OrdinalSVC, X, y, sample_weight=None, **given) -> Certificate:
    """How far from the optimum a fitted model can be on the data it was trained on. See `certify`.

    `given` are parameters of the estimator to judge it by in the place of its own.
    """
    check_is_fitted(model, "model_")
    fitted = model.model_
    problems = fitted._at(**given)
    problems.order = fitted.classes_
    data = problems._prepare(X, y, sample_weight)
    vectors = getattr(fitted, "support_vectors_", None)
    same = data.n == fitted.n_samples_fit_ and data.X.shape[1] == fitted.n_features_in_
    if same and vectors is not None and fitted.kernel_.name != "precomputed":
        same = abs(data.X[fitted.support_] - vectors).max() == 0
    if not same:
        raise ValueError("an OrdinalSVC is judged on the data that it was trained on; X is not that.")
    with one_blas_thread():
        return Certificate.of_parts(
            [
                certificate(problems._problem(data, part), answer.f, answer.b, answer.alpha)
                for part, answer in zip(data.parts, fitted._answers(data), strict=True)
            ]
        )


# --- the binary problems ----------------------------------------------------------------------------------------------


class _Boundaries(CertifiedClassifier):
    """A classifier whose binary problems are boundaries between classes in order, one each."""

    _ways = ORDERED
    order: np.ndarray | None = None  # the classes from low to high, where that is not how they sort

    def _sort_classes(self, y):
        if self.order is None:
            classes, labels = super()._sort_classes(y)
            if len(classes) > 2 and classes.dtype.kind not in "biuf":
                warnings.warn(
                    "the classes are words and are taken in the order of the alphabet: "
                    f"{', '.join(map(str, classes))}. Say theirs, from low to high: classes=[...], or --order.",
                    UserWarning,
                    stacklevel=outside(),
                )
            return classes, labels
        sorter = np.argsort(self.order)
        at = np.minimum(np.searchsorted(self.order, y, sorter=sorter), len(self.order) - 1)
        labels = sorter[at]
        wrong = self.order[labels] != y
        if np.any(wrong):
            known = ", ".join(map(label_text, self.order))
            raise ValueError(f"y has the label {label_text(y[wrong][0])}, which is none of the classes: {known}.")
        if len(np.unique(labels)) < len(self.order):
            missing = self.order[np.setdiff1d(np.arange(len(self.order)), labels)[0]]
            raise ValueError(f"y has no sample of the class {label_text(missing)}; leave it out of classes.")
        return self.order, labels

    def _winners(self, scores):
        return (scores > 0).astype(int) if scores.ndim == 1 else np.count_nonzero(scores > 0, axis=1)

    def _answers(self, data: Prepared) -> list[Any]:
        """The model as a point of each binary problem."""
        return self._solutions(data, self.C_fit_)


class LinearBoundaries(_Boundaries, LinearSVC):
    pass


class KernelBoundaries(_Boundaries, SVC):
    pass


class _Shared(_Boundaries):
    """All boundaries in one problem, in which a sample stands once for each, with a feature s for that boundary."""

    def _solutions(self, data, C):
        """Nothing to start from: the dual point is not kept."""
        return super()._solutions(data, C) if len(data.classes) == 2 else [None] * len(data.parts)

    def _prepare(self, X, y, sample_weight):
        if isinstance(X, Chunks):
            raise ValueError("strategy 'shared' needs all rows in memory; take 'cumulative' for pieces.")
        return super()._prepare(X, y, sample_weight)

    def _scale(self, squares: Array, weight: Array) -> float:
        """The length of a typical sample, as a float32: X may be in that precision."""
        return float(np.float32(np.sqrt(squares @ weight / np.sum(weight)))) or 1.0


class LinearShared(_Shared, LinearSVC):
    def _problem(self, data, part):
        if len(data.classes) == 2:
            return super()._problem(data, part)
        boundaries = len(data.classes) - 1
        self.threshold_scale_ = s = self._scale(data.matrix.squared_norms, data.weight)
        tags = np.repeat(np.eye(boundaries), data.n, axis=0) * s
        if sp.issparse(data.X):
            X = sp.csr_array(sp.hstack([sp.vstack([data.X] * boundaries), sp.csr_array(tags)], dtype=data.X.dtype))
        else:
            X = np.hstack([np.tile(data.X, (boundaries, 1)), tags.astype(data.X.dtype)])
        return LinearProblem(X=as_matrix(X, self._threads(data.parts)), **self._facts(data, part))

    def _keep(self, results, data):
        (result,) = results
        super()._keep([replace(result, f=result.f[: data.X.shape[1]])], data)
        if len(data.classes) > 2:
            self.intercept_ = result.b + self.threshold_scale_ * result.f[data.X.shape[1] :]

    def _answers(self, data):
        if len(data.classes) == 2:
            return super()._answers(data)
        b = self.certificate_.b
        return [Start(np.append(self.coef_[0], (self.intercept_ - b) / self.threshold_scale_), b)]


class KernelShared(_Shared, SVC):
    def _rules(self):
        yield from super()._rules()
        yield "approximation", self.approximation is None, "None with strategy 'shared'"

    def _closer(self, data, starts, interrupted):
        return starts  # its one problem has another matrix

    def _problem(self, data, part):
        if len(data.classes) == 2:
            return super()._problem(data, part)
        K, boundaries = data.matrix.K, len(data.classes) - 1
        self.threshold_scale_ = self._scale(K.diagonal, data.weight)
        repeated = RepeatedKernel(K, part.rows, np.repeat(np.arange(boundaries), data.n), self.threshold_scale_)
        return KernelProblem(K=repeated, **self._facts(data, part))

    def _keep(self, results, data):
        super()._keep(results, data)
        if len(data.classes) > 2:
            of_boundary = results[0].f.reshape(-1, data.n)
            self.boundary_coef_ = of_boundary[:, self.support_]
            self.alpha_ = sp.csr_array(results[0].alpha.reshape(-1, data.n))
            self.intercept_ = results[0].b + self.threshold_scale_**2 * of_boundary.sum(axis=1)

    def _answers(self, data):
        if len(data.classes) == 2:
            return super()._answers(data)
        f = np.concatenate([scatter(coef, self.support_, data.n) for coef in self.boundary_coef_])
        return [Start(f, self.certificate_.b, self.alpha_.toarray().ravel())]


MODELS: dict[type, tuple[type[_Boundaries], type[_Boundaries]]] = {
    LinearSVC: (LinearBoundaries, LinearShared),
    SVC: (KernelBoundaries, KernelShared),
}
