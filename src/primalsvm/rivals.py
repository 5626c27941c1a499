"""scikit-learn's classifiers in a `race`: what they can take, and how they are made for a problem of ours."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .linear_svc import LinearSVC
from .svc import SVC


@dataclass(frozen=True)
class Rival:
    """A classifier of scikit-learn: what it can take, and how it is made for a problem of ours."""

    name: str
    refusal: Callable[[Any], str | None]  # a sentence; "" where it is about another kind of problem
    make: Callable[..., Any]  # (our estimator, tol=, max_iter=, n=, seed=)
    problem: Callable[[Any], tuple[Any, str]]  # fit_intercept and multi_class of the problem that it solves
    most: int  # iterations


def _refuse_linear(name: str) -> Callable[[Any], str | None]:
    def refusal(model: Any) -> str | None:
        if not isinstance(model, LinearSVC):
            return ""
        if model.loss not in ("hinge", "squared_hinge"):
            return f"{name} has the hinge and the squared hinge only."
        return None

    return refusal


def _refuse_kernel(model: Any) -> str | None:
    if not isinstance(model, SVC):
        return ""
    if model.approximation is not None:
        return "sklearn SVC solves the exact problem only, not one over a basis."
    if model.loss != "hinge":
        return "sklearn SVC has the hinge loss only."
    if model.kernel not in ("rbf", "poly", "precomputed"):
        return f"sklearn SVC is not raced with the kernel {model.kernel}."
    return None


def _make_linear(model: Any, *, tol: float, max_iter: int, n: int, seed: int) -> Any:
    from sklearn.svm import LinearSVC as SklearnLinearSVC

    return SklearnLinearSVC(
        loss=model.loss,
        C=model.C,
        tol=tol,
        max_iter=max_iter,
        fit_intercept=bool(model.fit_intercept),
        class_weight=model.class_weight,
        random_state=seed,
    )


def _make_sgd(model: Any, *, tol: float, max_iter: int, n: int, seed: int) -> Any:
    from sklearn.linear_model import SGDClassifier

    return SGDClassifier(
        loss=model.loss,
        alpha=1.0 / (model.C * n),
        tol=tol,
        max_iter=max_iter,
        fit_intercept=bool(model.fit_intercept),
        class_weight=model.class_weight,
        random_state=seed,
    )


def _make_svc(model: Any, *, tol: float, max_iter: int, n: int, seed: int) -> Any:
    from sklearn.svm import SVC as SklearnSVC

    names = ("kernel", "gamma", "degree", "coef0", "C", "class_weight")
    return SklearnSVC(**{name: getattr(model, name) for name in names}, tol=tol, max_iter=max_iter)


RIVALS = (
    Rival(
        "sklearn LinearSVC",
        _refuse_linear("sklearn LinearSVC"),
        _make_linear,
        lambda model: ("penalized" if model.fit_intercept else False, "ovr"),
        1_000_000,
    ),
    Rival(
        "sklearn SGDClassifier",
        _refuse_linear("sklearn SGDClassifier"),
        _make_sgd,
        lambda model: (bool(model.fit_intercept), "ovr"),
        100_000,
    ),
    Rival("sklearn SVC", _refuse_kernel, _make_svc, lambda model: (True, "ovo"), 1_000_000_000),
)
