"""Models that LIBLINEAR and LIBSVM trained, as estimators of ours that predict what those programs would."""

from typing import Any

import numpy as np

from .kernels import Kernel
from .linear_svc import LinearSVC
from .model_files import ForeignModel
from .svc import SVC


def as_estimator(foreign: ForeignModel) -> LinearSVC | SVC:
    """An estimator that predicts; it has no certificate, and no samples of a fit to start another from."""
    return _linear(foreign) if foreign.kind == "liblinear" else _with_kernel(foreign)


def _linear(foreign: ForeignModel) -> LinearSVC:
    model: Any = LinearSVC(foreign.loss)
    model.coef_, model.intercept_, model.classes_ = foreign.coef, foreign.intercepts, foreign.classes
    model.n_features_in_ = model.coef_.shape[1]
    return model


def _with_kernel(foreign: ForeignModel) -> SVC:
    vectors, labels, counts = foreign.support_vectors, foreign.labels, foreign.n_support
    assert vectors is not None and labels is not None and counts is not None
    gamma, degree, coef0 = foreign.gamma or 0.0, foreign.degree or 0, foreign.coef0 or 0.0
    model: Any = SVC(foreign.kernel, gamma=gamma, degree=degree, coef0=coef0)
    pairs = list(foreign.binary_problems())
    # with two classes the larger one is positive; one against one, our parts call the smaller one so
    sign = 1.0 if len(pairs) == 1 else -1.0
    model.dual_coef_ = np.zeros((len(pairs), vectors.shape[0]))
    for coef, pair in zip(model.dual_coef_, pairs, strict=True):
        coef[pair.indices] = sign * pair.coef
    model.intercept_ = np.array([sign * pair.intercept for pair in pairs])
    model.classes_, model.kernel_ = foreign.classes, Kernel(foreign.kernel or "linear", gamma, degree, coef0)
    model.support_vectors_, model.n_features_in_ = vectors, vectors.shape[1]
    model.support_ = np.arange(vectors.shape[0])
    model.support_class_ = np.repeat(np.searchsorted(foreign.classes, labels), counts)
    return model
