r"""Explanations of linear models: which features speak for and against a class, and what each adds to a score.

    score(x) = sum_j weight_j x_j + intercept

Every feature adds weight_j x_j, and nothing else is added but the intercept. What the rows of weights speak for:

    two classes    one row, whose positive weights speak for classes_[1] and negative ones for classes_[0]
    one-vs-rest    a row for each class, against all others
    one-vs-one     for each class the mean over the pairs that it is in, each with its sign for that class; votes of the
                   pairs decide, and these means break their ties
    boundaries     of OrdinalSVC: a row for each, such as "3 or above"; one row for all where they share their weights

The score of a model with a kernel is a sum over samples. Its features add up to nothing, unless the kernel is linear.
"""

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils.validation import check_is_fitted

HIGHER = "higher classes"  # what the shared weights of an OrdinalSVC speak for


class Weights(NamedTuple):
    """(name, weight) of the features that speak most for a class, and of those that speak most against it."""

    for_: list[tuple[str, float]]
    against: list[tuple[str, float]]
    opposite: Any = None  # the class that `against` speaks for, where there are two


class Term(NamedTuple):
    """What one feature adds to a score."""

    name: str
    value: float
    contribution: float  # weight * value


class Score(NamedTuple):
    """The sum of its terms, the largest first, and the intercept."""

    terms: list[Term]
    intercept: float
    score: float
    opposite: Any = None  # the class that a score below zero speaks for, where there are two


@dataclass(frozen=True)
class Contributions:
    """Why a model says what it says of one sample.

    Attributes
    ----------
    prediction : the class that the model names
    scores : dict of class or boundary to Score
        With two classes, classes_[1] only.
    order : list of str
        The features that are not zero: as they come in a text, otherwise those that add most first.
    """

    prediction: Any
    scores: dict[Any, Score]
    order: list[str]

    def table(self, most: int | None = None) -> tuple[list[str], list[list[str]]]:
        """As text: a column for each class or boundary, a line for each feature, the intercepts and the scores.

        With `most`, the features that add most stay, and a line sums the others up.
        """
        added = [self.added(label) for label in self.scores]
        shown = self.largest(most)
        lines = [[name, *(f"{terms[name]:+.3f}" for terms in added)] for name in shown]
        if len(shown) < len(self.order):
            rest = set(self.order) - set(shown)
            sums = (math.fsum(terms[name] for name in rest) for terms in added)
            lines.append([f"({len(rest)} others)", *(f"{total:+.3f}" for total in sums)])
        lines.append(["(intercept)", *(f"{score.intercept:+.3f}" for score in self.scores.values())])
        lines.append(["score", *(f"{score.score:+.3f}" for score in self.scores.values())])
        return ["", *(label_text(label) for label in self.scores)], lines

    def largest(self, most: int | None) -> list[str]:
        """The features that add most to some score, at most so many, in their order."""
        if most is None or len(self.order) <= most:
            return list(self.order)
        sizes = dict.fromkeys(self.order, 0.0)
        for label in self.scores:
            for name, amount in self.added(label).items():
                sizes[name] = max(sizes[name], abs(amount))
        kept = set(sorted(sizes, key=lambda name: -sizes[name])[:most])
        return [name for name in self.order if name in kept]

    def added(self, label) -> dict[str, float]:
        """What each feature adds to the score of a class; features of the same name count together."""
        total = dict.fromkeys(self.order, 0.0)
        for term in self.scores[label].terms:
            total[term.name] += term.contribution
        return total

    def __str__(self) -> str:
        header, lines = self.table()
        widths = [max(map(len, column)) for column in zip(header, *lines, strict=True)]
        rows = [
            "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))])
            for row in [header, *lines]
        ]
        return "\n".join([*rows, f"prediction: {label_text(self.prediction)}"])


def label_text(label) -> str:
    """A class as text; 1.0, which readers of files make of 1, is 1."""
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def heaviest(model, k: int = 10, names=None) -> dict[Any, Weights]:
    """The features with the largest weights for and against each class.

    Parameters
    ----------
    model : fitted linear classifier
        Ours or scikit-learn's, with coef_ and classes_; a search or a Pipeline that ends in one.
    k : int, default=10
        How many for, and how many against, at most; weights of 0 are none of them.
    names : sequence of str, default=None
        Of the features. None: what the Pipeline's steps or feature_names_in_ say, otherwise "feature 0" and so on.

    Returns
    -------
    dict of class or boundary to Weights
        With two classes, classes_[1] only: what speaks against it speaks for classes_[0].

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from primalsvm import LinearSVC, heaviest
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> weights = heaviest(LinearSVC().fit(X, y), k=1)
    >>> weights[2].for_[0][0]
    'petal width (cm)'
    """
    if not (isinstance(k, Integral) and not isinstance(k, bool) and int(k) >= 1):
        raise ValueError(f"k must be 1 or more, got {k!r}.")
    rows = _rows(model, names)
    found = {}
    for label, opposite, weights in zip(rows.labels, rows.opposites, rows.weights, strict=True):
        order = np.argsort(-weights, kind="stable")
        above = [(rows.names[j], float(weights[j])) for j in order[:k] if weights[j] > 0]
        below = [(rows.names[j], float(weights[j])) for j in order[::-1][:k] if weights[j] < 0]
        found[label] = Weights(above, below, opposite)
    return {HIGHER: next(iter(found.values()))} if rows.shared else found


def contributions(model, sample, names=None) -> Contributions:
    """What each feature of one sample adds to the scores: the terms and the intercept sum to the score.

    Parameters
    ----------
    model, names : as for `heaviest`
    sample : str, or one row of numbers
        What the model predicts: a text where its Pipeline takes texts; an array, a sparse or data frame row.

    Returns
    -------
    Contributions
        ``print(...)`` shows a table. The scores are those of decision_function, but for one-vs-one and for OrdinalSVC:
        there they are what it is made of, a mean over pairs or the scores of the boundaries.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from primalsvm import LinearSVC, contributions
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = LinearSVC().fit(X, y)
    >>> found = contributions(model, X.iloc[0])
    >>> score = found.scores[0]
    >>> bool(abs(score.score - model.decision_function(X.iloc[:1])[0, 0]) < 1e-9)
    True
    """
    rows = _rows(model, names)
    one = _one_row(model, sample)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")  # a row has none
        features = one
        for steps in rows.before:
            features = steps.transform(features)
        dense = _numbers(features.toarray() if sp.issparse(features) else features)
        if len(dense) != rows.weights.shape[1]:
            raise ValueError(f"the model has {rows.weights.shape[1]} features, the sample has {len(dense)}.")
        prediction = np.asarray(model.predict(one)).tolist()[0]
    places = np.flatnonzero(dense)
    scores = {}
    for label, opposite, weights, b in zip(rows.labels, rows.opposites, rows.weights, rows.intercepts, strict=True):
        added = weights[places] * dense[places]
        terms = [
            Term(rows.names[places[i]], float(dense[places[i]]), float(added[i]))
            for i in np.argsort(-np.abs(added), kind="stable")
        ]
        scores[label] = Score(terms, float(b), math.fsum([*added.tolist(), float(b)]), opposite)
    return Contributions(prediction, scores, _ordered(rows, places, dense, sample))


# --- from a model to rows of weights ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """The rows of weights of a model, and what they speak for."""

    labels: list  # (r,) classes or boundaries
    opposites: list  # (r,) the other class where there are two
    weights: np.ndarray  # (r, d)
    intercepts: np.ndarray  # (r,)
    names: list[str]  # (d,)
    before: list  # what makes features of a sample
    shared: bool = False  # all rows are the same


def _rows(model, names) -> Rows:
    before, last = _inside(model)
    check_is_fitted(last)
    coef, intercept = _coefficients(last)
    labels, opposites, shared = last.classes_.tolist(), [None] * len(last.classes_), False
    if hasattr(last, "boundaries_"):
        shared = len(coef) < len(last.boundaries_)
        labels = list(last.boundaries_)
        opposites = [None] * len(labels)
        coef = np.broadcast_to(coef, (len(labels), coef.shape[1]))
    elif len(labels) == 2 and len(coef) == 1:
        labels, opposites = labels[1:], labels[:1]
    elif _one_against_one(last):
        coef, intercept = _mean_of_pairs(coef, len(labels)), _mean_of_pairs(intercept, len(labels))
    if len(coef) != len(labels):
        raise ValueError(f"{len(labels)} classes need as many rows of coef_, got {len(coef)}.")
    return Rows(labels, opposites, coef, intercept, _names(last, before, coef.shape[1], names), before, shared)


def _inside(model) -> tuple[list, Any]:
    """What transforms a sample, step by step, and the classifier itself, inside searches and Pipelines."""
    before = []
    while True:
        if hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        elif isinstance(model, Pipeline):
            if len(model) > 1:
                before.append(model[:-1])
            model = model[-1]
        else:
            return before, model


def _coefficients(model) -> tuple[np.ndarray, np.ndarray]:
    """(r, d) weights and (r,) intercepts."""
    parts = model.estimators_ if isinstance(model, OneVsRestClassifier) else [model]
    if not all(hasattr(part, "coef_") for part in parts):
        kernel = getattr(getattr(model, "model_", model), "kernel", None)
        if kernel is not None:
            kernel = f"the {kernel} kernel" if isinstance(kernel, str) else "a kernel of its own"
            raise ValueError(
                f"{type(model).__name__} has {kernel}: its score is a sum over samples, and no feature has a weight of "
                "its own; explain a linear model."
            )
        raise ValueError(f"{type(model).__name__} has no coef_; explanations are of linear classifiers.")
    if not hasattr(model, "classes_"):
        raise ValueError(f"{type(model).__name__} has no classes_; explanations are of classifiers.")
    rows = [part.coef_.toarray() if sp.issparse(part.coef_) else part.coef_ for part in parts]
    coef = np.vstack([np.atleast_2d(np.asarray(row, dtype=np.float64)) for row in rows])
    intercept = np.concatenate([np.ravel(np.asarray(part.intercept_, dtype=np.float64)) for part in parts])
    # a model without intercept may have the number 0, and boundaries that share their weights have one each
    return coef, np.broadcast_to(intercept, (len(coef),)) if len(intercept) == 1 else intercept


def _one_against_one(model) -> bool:
    """scikit-learn's SVC always is, whatever the shape of its decision function."""
    return len(model.classes_) > 2 and (
        getattr(model, "multi_class", "") == "ovo" or hasattr(model, "decision_function_shape")
    )


def _mean_of_pairs(values: np.ndarray, q: int) -> np.ndarray:
    """Of rows for the pairs (j, k), j < k, that are positive for j: for each class the mean over its pairs."""
    total, pair = np.zeros((q, *values.shape[1:])), 0
    for j in range(q):
        for k in range(j + 1, q):
            total[j] += values[pair]
            total[k] -= values[pair]
            pair += 1
    return total / (q - 1)


def _names(last, before: list, d: int, given) -> list[str]:
    if given is not None:
        given = [str(name) for name in given]
        if len(given) != d:
            raise ValueError(f"names must have one name for each of the {d} features, got {len(given)}.")
        return given
    if before:
        try:
            return [str(name) for name in before[-1].get_feature_names_out()]
        except (AttributeError, ValueError):  # a step that does not know: hashed words, functions
            pass
    return [str(name) for name in getattr(last, "feature_names_in_", (f"feature {j}" for j in range(d)))]


# --- from a sample to its terms ---------------------------------------------------------------------------------------


def _one_row(model, sample):
    """The sample as the model takes it: a list of one text, or a matrix of one row."""
    if isinstance(sample, str):
        if not _inside(model)[0]:
            raise ValueError(
                f"{type(model).__name__} takes rows of numbers, not texts; explain a Pipeline that makes them of texts."
            )
        return [sample]
    if hasattr(sample, "to_frame") and hasattr(sample, "iloc"):  # a row of a data frame
        sample = sample.to_frame().T.infer_objects()
    elif not sp.issparse(sample) and not hasattr(sample, "columns"):
        sample = np.atleast_2d(np.asarray(sample))
    elif sp.issparse(sample) and sample.ndim == 1:
        sample = sample.reshape(1, -1)
    if len(sample.shape) != 2 or sample.shape[0] != 1:
        raise ValueError(f"contributions explains one sample, got an array of shape {sample.shape}.")
    return sample


def _numbers(features) -> np.ndarray:
    try:
        return np.ravel(np.asarray(features, dtype=np.float64))
    except (TypeError, ValueError):
        raise ValueError("the model takes rows of numbers; the sample has something else.") from None


def _ordered(rows: Rows, places: np.ndarray, dense: np.ndarray, sample) -> list[str]:
    """The names of the features that are not zero: as they come in the text, those that add most first otherwise."""
    sizes = np.max(np.abs(rows.weights[:, places] * dense[places]), axis=0)
    by_size = list(dict.fromkeys(rows.names[j] for j in places[np.argsort(-sizes, kind="stable")]))
    if not isinstance(sample, str):
        return by_size
    found: dict[str, tuple[int, int]] = {}
    for prefix, analyze, length in _analyzers(rows.before):
        count: dict[int, int] = {}  # the i-th phrase of so many words begins at the i-th word
        for term in analyze(sample):
            size = length(term)
            found.setdefault(prefix + term, (count.setdefault(size, 0), size))
            count[size] += 1
    return sorted(by_size, key=lambda name: found.get(name, (len(sample), 0)))


def _analyzers(steps, prefix: str = "") -> Iterator[tuple[str, Callable, Callable[[str], int]]]:
    """What splits a text into terms, with what stands before them in the names of features, and a term's length."""
    for step in steps:
        if isinstance(step, Pipeline):
            yield from _analyzers([inner for _, inner in step.steps], prefix)
        elif isinstance(step, FeatureUnion):
            for name, inner in step.transformer_list:
                yield from _analyzers([inner], f"{prefix}{name}__" if step.verbose_feature_names_out else prefix)
        elif hasattr(step, "build_analyzer"):
            words = getattr(step, "analyzer", "word") == "word"
            yield prefix, step.build_analyzer(), (lambda term: term.count(" ") + 1) if words else len
