r"""Repeated random rounds: how good classifiers are on rows that they were not trained on, and how sure that is.

In each round some rows are held out at random, every model is fitted on the others, and all face the same rows:

    accuracy                      the share of rows whose class is named rightly
    macro_f1                      the F1 of each class, every class counting the same
    mean_absolute_error           |prediction - label| where labels have an order
    fit_seconds, predict_seconds  the first fit of a model is made twice where it is short: it may have compiled code
    relative_gap                  what is proven about the training, the largest of the binary problems

The class that most training rows have is always among the models: what is no better than it has learned nothing.

Rounds share most of their training rows, so their figures vary less than those of independent data would, and
deviation / sqrt(rounds) is too small an error. `compare` takes the corrected one of Nadeau and Bengio (2003),
"Inference for the generalization error", Machine Learning 52, for the differences d of two models on the same rounds:

    error^2 = (1 / rounds + test rows / training rows) * sample variance of d
"""

import csv
import math
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from inspect import signature
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone, is_regressor
from sklearn.dummy import DummyClassifier
from sklearn.metrics import accuracy_score, f1_score
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples

from .chunks import Chunks
from .claims import certify
from .classifier import is_number

MAJORITY = "majority class"
FIRST_FIT_AGAIN = 20.0  # seconds: longer ones are not repeated, and compiling is a small part of them
MEASURES = ("accuracy", "macro_f1", "mean_absolute_error", "fit_seconds", "predict_seconds", "relative_gap")
LARGER_IS_BETTER = ("accuracy", "macro_f1")
HEADERS = {
    "accuracy": "accuracy %",
    "macro_f1": "macro-F1 %",
    "mean_absolute_error": "abs. error",
    "fit_seconds": "fit s",
    "predict_seconds": "predict s",
    "relative_gap": "proven gap",
}


class Spread(NamedTuple):
    """Over the rounds that have the figure: its mean, its sample standard deviation, and how many they are."""

    mean: float
    deviation: float
    n: int


class Difference(NamedTuple):
    """To another model on the same rounds: the mean, and its standard error with the overlap of the rounds counted."""

    mean: float
    error: float
    n: int


@dataclass(frozen=True)
class Evaluation:
    """What came of the rounds.

    Attributes
    ----------
    rows : list of dict
        One for each round and model: round, model, train_rows, test_rows and the measures. relative_gap is nan where
        nothing can be proven; mean_absolute_error is there where labels have an order.
    interrupted : bool
        Ctrl-C ended it; the rows are those of the rounds that were finished.
    """

    rows: list[dict[str, Any]]
    interrupted: bool = False

    @property
    def models(self) -> list[str]:
        """Their names, in the order given; the majority class is last."""
        return list(dict.fromkeys(row["model"] for row in self.rows))

    @property
    def measures(self) -> list[str]:
        """Those that were taken."""
        return [measure for measure in MEASURES if measure in self.rows[0]]

    @property
    def rounds(self) -> int:
        """How many were finished."""
        return len({row["round"] for row in self.rows})

    def values(self, model: str, measure: str) -> np.ndarray:
        """A figure of one model in each round."""
        self._check(model, measure)
        return np.array([row[measure] for row in self.rows if row["model"] == model], dtype=np.float64)

    def summary(self) -> dict[str, dict[str, Spread]]:
        """{model: {measure: (mean, sample standard deviation, n)}}"""
        return {
            model: {measure: _spread(self.values(model, measure)) for measure in self.measures} for model in self.models
        }

    def best(self, measure: str = "accuracy") -> str:
        """The model with the best mean; of equal ones the first."""
        sign = 1 if measure in LARGER_IS_BETTER else -1
        means = {model: sign * _spread(self.values(model, measure)).mean for model in self.models}
        return max(means, key=lambda model: -math.inf if math.isnan(means[model]) else means[model])

    def compare(self, measure: str = "accuracy", to: str | None = None) -> dict[str, Difference]:
        """How each other model differs from `to`, the best one by default, over the same rounds.

        The standard error counts that rounds overlap (Nadeau and Bengio); it is nan for a single round.
        """
        to = self.best(measure) if to is None else to
        reference = self.values(to, measure)
        overlap = np.mean([row["test_rows"] / row["train_rows"] for row in self.rows])
        found = {}
        for model in self.models:
            if model != to:
                mean, deviation, n = _spread(self.values(model, measure) - reference)
                found[model] = Difference(mean, deviation * math.sqrt(1 / n + overlap) if n else math.nan, n)
        return found

    def to_csv(self, path: str | os.PathLike) -> None:
        """One line for each round and model; what is not known is empty."""
        _write(path, list(self.rows[0]), [list(row.values()) for row in self.rows])

    def summary_to_csv(self, path: str | os.PathLike) -> None:
        """One line for each model: its rounds, and the mean and deviation of each measure."""
        header = ["model", "rounds"]
        header += [f"{measure}_{what}" for measure in self.measures for what in ("mean", "deviation")]
        table = self.summary().items()
        _write(path, header, [[m, self.rounds, *(x for spread in s.values() for x in spread[:2])] for m, s in table])

    def table(self) -> tuple[list[str], list[list[str]]]:
        """The summary as text: the header, and a line for each model."""
        best, behind = self.best(), self.compare()
        header = ["model", *(HEADERS[measure] for measure in self.measures)]
        header.insert(2, "to the best")
        lines = []
        for model, summary in self.summary().items():
            cells = [_cell(measure, *spread[:2]) for measure, spread in summary.items()]
            cells.insert(1, "best" if model == best else _cell("accuracy", *behind[model][:2], sign="+"))
            lines.append([model, *cells])
        return header, lines

    def __str__(self) -> str:
        header, lines = self.table()
        widths = [max(map(len, column)) for column in zip(header, *lines, strict=True)]
        rows = [
            "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))])
            for row in [header, *lines]
        ]
        return "\n".join([*rows, self.note()])

    def note(self) -> str:
        """What the figures of the table are."""
        ended = ", ended by Ctrl-C" if self.interrupted else ""
        rounds = f"{self.rounds} round{'s' if self.rounds > 1 else ''}{ended}"
        if self.rounds == 1:
            return f"{rounds}: how much the figures vary is not known."
        return f"{rounds}: mean ± standard deviation; to the best: ± a standard error that counts their overlap."

    def _check(self, model: str, measure: str) -> None:
        if measure not in self.measures:
            raise ValueError(f"measure must be one of {', '.join(self.measures)}, got {measure!r}.")
        if model not in self.models:
            raise ValueError(f"there is no model {model!r}; there are {', '.join(self.models)}.")


def evaluate(
    models,
    X,
    y,
    *,
    rounds: int = 10,
    test_size: float = 0.1,
    groups=None,
    ordered=None,
    random_state=0,
    callback: Callable[[int, int, str], Any] | None = None,
) -> Evaluation:
    """Fit and judge classifiers on random splits of the data, the same splits for all of them.

    Ctrl-C ends it with the rounds that are finished; where there is none, it raises KeyboardInterrupt.

    Parameters
    ----------
    models : classifier, or dict of str to classifier
        Ours, scikit-learn's, or others of its manner; searches such as LinearSVCCV and Pipelines too. Each round fits
        clones. A vectorizer or scaler belongs into a Pipeline with its model, so that it sees training rows only.
    X : whatever the models take: array, sparse matrix, data frame, list or column of texts
    y : array-like (n,)
    rounds : int, default=10
    test_size : float, default=0.1
        The share of rows, or of groups, held out in each round.
    groups : array-like (n,), default=None
        Rows of the same group stay together, in training or in test: phrases of a sentence, photographs of a person.
        A model whose fit takes groups, such as GridSearchCV, is given those of its training rows.
    ordered : bool or sequence of classes, default=None
        Whether to measure the mean absolute error. It is that of the labels' own values; where the classes are given
        from low to high, it counts places in that order. None: where labels are numbers, or ordered categories of
        pandas, and of more than two classes: of two it says no more than the accuracy.
    random_state : int, RandomState or None, default=0
        Of the splits. Models have their own.
    callback : callable, default=None
        Called after each fit with the number of fits done, the number of all, and the model's name.

    Returns
    -------
    Evaluation
        ``print(...)`` shows a table; `rows`, `summary`, `compare` and `to_csv` have the figures.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from primalsvm import LinearSVC, evaluate
    >>> X, y = load_iris(return_X_y=True)
    >>> result = evaluate({"ovr": LinearSVC(), "ovo": LinearSVC(multi_class="ovo")}, X, y, rounds=3)
    >>> result.models
    ['ovr', 'ovo', 'majority class']
    >>> bool(result.summary()["ovo"]["accuracy"].mean > 0.8)
    True
    """
    models = _named(models)
    labels, distance = _labels(X, y, ordered)
    if not hasattr(y, "iloc"):  # a pandas Series may know the order of its classes, and OrdinalSVC asks it
        y = labels
    splits = _splits(labels, rounds, test_size, groups, random_state)
    names = list(models)
    rows: list[dict[str, Any]] = []
    warm: set[str] = set()
    try:
        for k, (train, test) in enumerate(splits):
            finished = {}
            part = _safe_indexing(X, train), _safe_indexing(y, train), _safe_indexing(X, test)
            # the order rotates: whatever slows the machine at the start of a round meets each model in turn
            for name in names[k % len(names) :] + names[: k % len(names)]:
                together = groups is not None and _takes_groups(models[name])
                options = {"groups": _safe_indexing(groups, train)} if together else {}
                try:
                    figures = _figures(models[name], *part, labels[test], distance, name not in warm, options)
                except Exception as error:
                    error.add_note(f"(the model {name!r} in round {k + 1})")
                    raise
                warm.add(name)
                finished[name] = {"round": k + 1, "model": name, "train_rows": len(train), "test_rows": len(test)}
                finished[name] |= figures
                if callback is not None:
                    callback(len(rows) + len(finished), len(splits) * len(names), name)
            rows += [finished[name] for name in names]
    except KeyboardInterrupt:
        if not rows:
            raise
        return Evaluation(rows, interrupted=True)
    return Evaluation(rows)


# --- before the rounds ------------------------------------------------------------------------------------------------


def _named(models) -> dict[str, Any]:
    """{name: classifier}, the majority class at the end."""
    if not isinstance(models, Mapping):
        models = {type(_last_step(models)).__name__: models}
    if MAJORITY in models:
        raise ValueError(f"{MAJORITY!r} is the name of a model that is always there; give yours another.")
    if not models:
        raise ValueError("models is empty; give a classifier, or a dict of them.")
    for name, model in models.items():
        if isinstance(model, type) or not all(hasattr(model, method) for method in ("fit", "predict", "get_params")):
            what = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
            raise TypeError(f"evaluate takes classifiers with fit, predict and get_params; {name!r} is {what}.")
        if hasattr(model, "__sklearn_tags__") and is_regressor(model):
            raise TypeError(f"evaluate takes classifiers; {name!r} is a regressor, {type(model).__name__}.")
    return {**models, MAJORITY: DummyClassifier(strategy="most_frequent")}


def _last_step(model):
    return model[-1] if isinstance(model, Pipeline) else model


def _labels(X, y, ordered) -> tuple[np.ndarray, Callable | None]:
    """y as an array, and the mean distance of predictions from labels, where it is wanted."""
    if isinstance(X, Chunks):
        raise ValueError("evaluate draws rows at random and needs X in memory, not in pieces.")
    kind: Any = getattr(y, "dtype", None)
    y = np.asarray(y)
    if y.ndim != 1 or len(y) != _num_samples(X):
        raise ValueError(f"y must have one label for each of the {_num_samples(X)} rows, got shape {y.shape}.")
    check_classification_targets(y)
    classes = np.unique(y)
    if len(classes) < 2:
        raise ValueError(f"y has one class only, {classes.tolist()[0]!r}; there is nothing to tell apart.")
    numbers = classes.dtype.kind in "iuf"
    if ordered is None:
        ordered = len(classes) > 2 and (list(kind.categories) if getattr(kind, "ordered", False) else numbers)
    if isinstance(ordered, bool | np.bool_):
        if ordered and not numbers:
            raise ValueError(
                "ordered=True needs labels that are numbers; of others, give the classes from low to high."
            )
        return y, (lambda truth, found: float(np.mean(np.abs(found - truth.astype(float))))) if ordered else None
    order = {label: place for place, label in enumerate(np.asarray(ordered).tolist())}
    missing = [label for label in classes.tolist() if label not in order]
    if missing:
        raise ValueError(f"ordered must name every class from low to high; {missing[0]!r} is missing.")

    def places(labels: np.ndarray) -> np.ndarray:
        return np.array([order[label] for label in labels.tolist()])

    return y, lambda truth, found: float(np.mean(np.abs(places(found) - places(truth))))


def _splits(y, rounds, test_size, groups, random_state) -> list[tuple[np.ndarray, np.ndarray]]:
    """The training and test rows of each round; whether models can learn from them is known before the first fit."""
    if not (isinstance(rounds, Integral) and not isinstance(rounds, bool) and int(rounds) >= 1):
        raise ValueError(f"rounds must be 1 or more, got {rounds!r}.")
    if not (is_number(test_size) and 0 < test_size < 1):
        raise ValueError(f"test_size must be a share between 0 and 1, got {test_size!r}.")
    check_random_state(random_state)
    draw: Any = {"n_splits": int(rounds), "test_size": float(test_size), "random_state": random_state}
    if groups is None:
        splits = list(ShuffleSplit(**draw).split(y))
    else:
        codes = _codes(groups, len(y))
        splits = list(GroupShuffleSplit(**draw).split(y, groups=codes))
    classes, lacking = np.unique(y), {}
    for k, (train, _) in enumerate(splits):
        seen = np.unique(y[train])
        if len(seen) < 2:
            raise ValueError(
                f"round {k + 1} would train on rows of one class only, {seen.tolist()[0]!r}: give more rows, a smaller "
                "test_size, or another random_state."
            )
        if len(seen) < len(classes):
            lacking[k + 1] = np.setdiff1d(classes, seen).tolist()[0]
    if lacking:
        k, label = next(iter(lacking.items()))
        warnings.warn(
            f"{len(lacking)} of {len(splits)} rounds train without a row of some class ({label!r} in round {k}): "
            "whatever they hold out of it counts as an error.",
            stacklevel=3,
        )
    return splits


def _codes(groups, n: int) -> np.ndarray:
    """A number for each group, whatever its name is."""
    groups = np.asarray(groups)
    if groups.shape != (n,):
        raise ValueError(f"groups must have one entry for each of the {n} rows, got shape {groups.shape}.")
    known: dict[Any, int] = {}
    codes = np.array([known.setdefault(group, len(known)) for group in groups.tolist()])
    if len(known) < 2:
        raise ValueError("groups has one group only; two are needed, one to train on and one to hold out.")
    return codes


# --- a fit ------------------------------------------------------------------------------------------------------------


def _takes_groups(model) -> bool:
    """Does its fit hold out rows of its own, and ask which belong together? scikit-learn's searches do not say it."""
    return isinstance(model, BaseSearchCV) or "groups" in signature(model.fit).parameters


def _figures(model, X, y, held_out, truth, distance, again: bool, options: dict[str, Any]) -> dict[str, float]:
    """Of a clone of the model, fitted on X and y."""
    fitted, seconds = _timed_fit(model, X, y, options)
    if again and seconds < FIRST_FIT_AGAIN:
        fitted, seconds = _timed_fit(model, X, y, options)
    begin = time.perf_counter()
    found = np.asarray(fitted.predict(held_out))
    predicting = time.perf_counter() - begin
    figures = {"accuracy": float(accuracy_score(truth, found))}
    figures["macro_f1"] = float(f1_score(truth, found, average="macro", zero_division=0))
    if distance is not None:
        figures["mean_absolute_error"] = distance(truth, found)
    figures |= {"fit_seconds": seconds, "predict_seconds": predicting}
    return figures | {"relative_gap": _proven_gap(fitted, X, y)}


def _timed_fit(model, X, y, options: dict[str, Any]) -> tuple[Any, float]:
    fitted = clone(model)
    begin = time.perf_counter()
    fitted.fit(X, y, **options)
    return fitted, time.perf_counter() - begin


def _proven_gap(model, X, y) -> float:
    """The largest relative gap of the binary problems, by the model's certificate or by our judge; nan if it cannot."""
    *before, last = _chain(model)
    proof = getattr(last, "certificate_", None)
    if proof is None:
        for steps in before:
            X = steps.transform(X)
        try:
            proof = certify(last, X, y)
        except (TypeError, ValueError):  # not a model that it knows, or not with these options
            return math.nan
    return float(max(part.relative_gap for part in proof.parts or (proof,)))


def _chain(model) -> Iterator[Any]:
    """What transforms the rows, step by step, and at last the classifier itself, inside searches and Pipelines."""
    while True:
        if hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        elif isinstance(model, Pipeline):
            if len(model) > 1:
                yield model[:-1]
            model = model[-1]
        else:
            yield model
            return


# --- numbers as text --------------------------------------------------------------------------------------------------


def _spread(values: np.ndarray) -> Spread:
    values = values[np.isfinite(values)]
    n = len(values)
    mean = float(np.mean(values)) if n else math.nan
    return Spread(mean, float(np.std(values, ddof=1)) if n > 1 else math.nan, n)


def _cell(measure: str, mean: float, deviation: float, sign: str = "") -> str:
    """Mean ± deviation; a dash for what is not known."""
    if math.isnan(mean):
        return "-"
    scale, form = 100 if measure in ("accuracy", "macro_f1") else 1, ".2f"
    if measure == "mean_absolute_error":
        form = ".3f"
    elif measure.endswith("seconds"):
        form = ".4f" if mean < 0.1 else ".2f" if mean < 100 else ".0f"
    elif measure == "relative_gap":
        form = ".0e"
    return f"{scale * mean:{sign}{form}}" + ("" if math.isnan(deviation) else f" ± {scale * deviation:{form}}")


def _write(path: str | os.PathLike, header: list[str], lines: list[list[Any]]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows([["" if isinstance(x, float) and math.isnan(x) else x for x in line] for line in lines])
