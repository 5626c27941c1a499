"""What a report is written from: the model, its data, and what it says of them."""

import warnings
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..certificate import Certificate
from ..chunks import Chunks
from ..classifier import CertifiedClassifier
from ..explain import heaviest, label_text
from ..losses import Array
from ..multiclass import Part, split
from ..solvers import explain_choice
from ..tuned_svc import TunedSVC


@dataclass(frozen=True)
class About:
    """What the model does not know of itself."""

    data: str = ""  # what X is called, a file as a rule
    test: str = ""
    command: str = ""  # that does it again
    seconds: float | None = None
    warnings: Sequence[str] = ()
    words: bool = False  # features are words
    scaling: str | None = None  # what was done to the columns before
    sample_weight: Any = None  # (n,) that the fit was given
    predictor: Any = None  # what predicts the test rows, where that is not the model itself


@dataclass(frozen=True)
class Rows:
    """Rows with what the model says of them."""

    name: str
    labels: np.ndarray  # (n,) places in the classes, -1 for labels that the model does not know
    found: np.ndarray  # (n,) places that it predicts
    scores: Array  # (n, parts) of the binary problems, intercepts included
    other: str = ""  # a label that it does not know


@dataclass(frozen=True)
class Story:
    """All that a report is written from."""

    model: Any  # the classifier, OrdinalSVC too
    inner: Any  # what solved the binary problems: the model itself, or what an OrdinalSVC has inside
    weights: dict[Any, Any]  # heaviest features
    X: Any
    training: Rows
    test: Rows | None
    about: About
    why: str  # this solver

    @cached_property
    def classes(self) -> list[str]:
        return [label_text(label) for label in self.model.classes_.tolist()]

    @cached_property
    def parts(self) -> list[Part]:
        return self.parts_of(self.training.labels)

    def parts_of(self, labels: np.ndarray) -> list[Part]:
        return split(labels, self.model.classes_, self.inner.multi_class)

    @property
    def certificates(self) -> list[Certificate]:
        return list(self.model.certificate_.parts) or [self.model.certificate_]


def listen(model, X, y, test, names, about: About) -> Story:
    """Ask the model, inside whatever it is in, what it says of its rows."""
    whole, before = model, []
    while True:
        if hasattr(model, "steps"):
            before.append(model[:-1].transform)
            model = model[-1]
        elif hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        elif isinstance(model, TunedSVC) and hasattr(model, "estimator_"):
            before.append(lambda X, tuned=model: tuned._scaled(tuned._check_rows(X)))
            model = model.estimator_
        else:
            break
    inner = getattr(model, "model_", model)
    if not isinstance(inner, CertifiedClassifier) or not hasattr(inner, "certificate_"):
        raise TypeError(f"reports are of fitted models of primalsvm, got {type(model).__name__}.")

    def features(X):
        for transform in before:
            X = transform(X)
        return X

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        X = features(X)
        y = X.y if y is None else y
        training = _look(model, X, np.asarray(y), "training")
        tested = None
        if test is not None and test[1] is not None:
            tested = _look(about.predictor or model, features(test[0]), np.asarray(test[1]), "test")
        why = _why(inner, X, y, about.sample_weight)
        return Story(model, inner, _weights(whole, names), X, training, tested, about, why)


def _look(model, X, y: np.ndarray, name: str) -> Rows:
    inner = getattr(model, "model_", model)
    raw = inner._scores_of(X)
    known = [label_text(label) for label in model.classes_.tolist()]
    some, places = np.unique(y, return_inverse=True)
    texts = [label_text(label) for label in some.tolist()]
    labels = np.array([known.index(text) if text in known else -1 for text in texts])[places]
    if inner is model or inner.multi_class != "adjacent" or raw.shape[1] == 1:
        found = inner._winners(inner._join(raw))
    else:
        found = model.decision_function(X).argmax(axis=1)
    other = ", ".join(text for text in texts if text not in known)
    return Rows(name, labels, found, raw + inner.intercept_, other)


def _weights(model, names) -> dict[Any, Any]:
    """The heaviest features; none where the model is not linear."""
    try:
        return heaviest(model, 10, names)
    except (TypeError, ValueError, AttributeError):
        return {}


def _why(inner, X, y, sample_weight) -> str:
    """This solver. The choice is made again, which is cheap where X is in memory and there is no basis to choose."""
    name = inner.solver_.name
    if inner.solver != "auto":
        return f"{name}, as asked for"
    if isinstance(X, Chunks) or getattr(inner, "approximation", None) is not None:
        return f"{name}, chosen by solver='auto'"
    fresh = copy(inner)  # validation sets attributes
    data = fresh._prepare(X, y, sample_weight)
    return explain_choice(fresh._problem(data, data.parts[0]), inner.tol)
