"""LinearSVC: the linear SVM in scikit-learn's world."""

import numpy as np
from joblib import effective_n_jobs
from sklearn.utils.validation import assert_all_finite, validate_data

from .chunks import Chunked, Chunks, show_pass
from .classifier import CertifiedClassifier, Prepared
from .matrix import Matrix, as_matrix
from .multiclass import gather, scatter, split
from .problem import LinearProblem
from .solve import Start

MANY_PRODUCTS = 8  # from which on rows are worth a better order
ACCEPTED = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "order": "C", "accept_large_sparse": True}


class LinearSVC(CertifiedClassifier):
    r"""Linear support vector classifier that proves its answer.

    For two classes, with labels y_i = +-1 and c_i = C * sample_weight_i * class_weight, minimises

    .. math:: P(w, b) = \tfrac12 |w|^2 + \sum_i c_i\, l(y_i (\langle w, x_i\rangle + b))

    and stops when a lower bound D on the minimum, computed by a judge that does not trust the solver, shows that
    P - D <= tol * P. The bounds are kept in ``certificate_``.

    Parameters
    ----------
    loss : {"squared_hinge", "hinge", "huber"} or Loss, default="squared_hinge"
        max(0, 1 - m)^2, max(0, 1 - m), or the hinge rounded off over \|1 - m\| <= h (``Huber(h)``; by name, h = 0.5).
    C : float, default=1.0
        Weight of the losses against the norm of w.
    solver : str or Solver, default="auto"
        "auto" takes "newton" for up to a thousand features or many samples for each, "dual_coordinate_ascent" for more
        features and for sparse data at small C; ``verbose=1`` says which and why, ``solver_`` keeps it. Also
        "cutting_plane", "projected_gradient", "gradient_descent" (smooth losses), "subgradient" and "pegasos"
        (Lipschitz losses), "hyperpass" (Lipschitz losses, no free intercept), or an object such as
        ``Pegasos(batch=100)``. For Chunks (``open_chunks``: files larger than memory) "newton" or one that takes whole
        passes: no coordinate ascent, "pegasos" or "hyperpass".
    tol : float, default=1e-3
        Relative duality gap to reach: the model is then proven to be within that fraction of its own objective.
    max_iter : int, default=1000
        Limit on the solver's steps; for most solvers one step is one or two passes over the data.
    max_seconds : float, default=None
        Limit on the time of fit.
    fit_intercept : bool or "penalized", default=True
        True: a free intercept, the SVM of the textbooks. False: none. "penalized": LIBLINEAR's, a constant feature
        whose weight is penalised with the others.
    multi_class : {"ovr", "ovo"}, default="ovr"
        One class against the rest, or one against one, where there are more than two.
    class_weight : dict or "balanced", default=None
        Factors on C by class.
    probability : {"sigmoid", "isotonic", "ensemble"}, default=None
        Calibrate probabilities in fit, for `predict_proba`: by Platt's sigmoid, or by a rising step function, which
        needs a thousand samples or more. They are drawn through the scores that each sample gets from a model without
        it, and are those of a world in which samples count by their weights, class_weight included: in that world
        predict decides, and its class is always the most probable one. The cost is about that of one more fit; of two
        or three where support vectors and features are both many (text). "ensemble" keeps three more models, each
        fitted without a third of the samples and with a sigmoid of its own, and takes the mean of what the four say:
        better where new data are not quite like the old. It costs about two fits more, and four predictions for one.
    n_jobs : int, default=None
        Threads of a fit, -1 for all cores: they share the rows of one binary problem, or the problems where there are
        several. The same number gives the same bits.
    random_state : int, RandomState or None, default=None
        Seed of solvers that draw random numbers. None is a fixed seed: the same data give the same model.
    warm_start : bool, default=False
        Start from the last fit's solution if it fits the data's shape.
    verbose : int, default=0
        1 prints a line for each certificate; for Chunks, a bar for each pass over them on a terminal.
    callback : callable, default=None
        Called with each ``Record`` (iteration, seconds, passes, primal, dual, gap); returning True ends the fit.

    Attributes
    ----------
    coef_ : ndarray (n_parts, n_features)
        Weights; one part for two classes, else one per binary problem.
    intercept_ : ndarray (n_parts,)
    classes_ : ndarray (n_classes,)
    certificate_ : Certificate
        The bounds; of the sum of the binary problems, each in ``certificate_.parts``, where there are several.
    dual_gap_ : float
        ``certificate_.gap``: the objective is at most this far above its minimum.
    history_ : list of Record
        Bounds along the way; a list of such lists where there are several binary problems.
    n_iter_ : int
        Steps of the solver, the most that a binary problem took.
    status_ : str
        "converged", or why it stopped: "max_iter", "max_seconds", "stalled", "diverged", "stopped", "interrupted".
    solver_ : Solver
        What was used.
    support_ : ndarray (n_support,)
        Samples with a dual variable above zero in some binary problem.
    dual_coef_ : ndarray (n_parts, n_support)
        Their y_i alpha_i, the feasible dual point that proves the lower bound.
    calibration_ : list of ndarray
        With `probability`, for each binary problem: (a, b) of p = 1 / (1 + exp(-(a score + b))), or (2, k) scores and
        probabilities between which p is linear.
    ensemble_ : list of LinearSVC
        With `probability="ensemble"`: the models whose probabilities are averaged with its own.
    n_features_in_, feature_names_in_ : as everywhere in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from primalsvm import LinearSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LinearSVC(loss="hinge").fit(StandardScaler().fit_transform(X), y)
    >>> model.certificate_.relative_gap <= 1e-3
    True
    """

    def __init__(
        self,
        loss="squared_hinge",
        *,
        C=1.0,
        solver="auto",
        tol=1e-3,
        max_iter=1000,
        max_seconds=None,
        fit_intercept=True,
        multi_class="ovr",
        class_weight=None,
        probability=None,
        n_jobs=None,
        random_state=None,
        warm_start=False,
        verbose=0,
        callback=None,
    ):
        self.loss = loss
        self.C = C
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.fit_intercept = fit_intercept
        self.multi_class = multi_class
        self.class_weight = class_weight
        self.probability = probability
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.callback = callback

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _validate(self, X, y):
        return validate_data(self, X, y, ensure_all_finite=False, **ACCEPTED)  # of X; that is for _matrix

    def _matrix(self, X, weight, parts) -> Matrix:
        if not isinstance(X, Chunks):
            matrix = as_matrix(X, self._threads(parts))
            if not np.isfinite(np.sum(matrix.squared_norms)):  # norms are needed anyway, and say it of all numbers
                assert_all_finite(X, estimator_name=type(self).__name__, input_name="X")
            return matrix
        X.watch = X.watch or (show_pass if self.verbose else None)
        return Chunked(X, self._threads(parts))

    def _problem(self, data: Prepared, part) -> LinearProblem:
        X = data.matrix if part.rows is None else data.matrix.take(part.rows)
        return LinearProblem(X=X, **self._facts(data, part))

    def _solutions(self, data, C):
        """This fit's solutions as starts for another C: alpha grows with it, so that alpha / c stays what it was."""
        if self.coef_.shape[1] != data.X.shape[1]:
            return [None] * len(data.parts)
        alphas = np.abs(self.dual_coef_) * (C / self.C_fit_)
        return [
            Start(w, float(b), part.take(scatter(alpha, self.support_, data.n)))
            for w, b, alpha, part in zip(self.coef_, self.intercept_, alphas, data.parts, strict=True)
        ]

    def _fold(self, data, train):
        X, labels = data.X[train], data.labels[train]
        parts = split(labels, data.classes, self.multi_class)
        return Prepared(as_matrix(X, self._threads(parts)), X, data.weight[train], data.classes, labels, parts)

    def _held_out(self, data, rows):
        return np.column_stack([data.matrix.matvec(w, rows) for w in self.coef_])

    def _keep(self, results, data):
        self.coef_ = np.array([result.f for result in results])
        if len(results) == 1 and data.parts[0].rows is None:
            alpha = results[0].alpha
            self.support_ = np.flatnonzero(alpha != 0)  # of booleans that is ten times as fast
            self.dual_coef_ = (data.parts[0].y[self.support_] * alpha[self.support_])[None, :]
            return
        signed = [part.y * result.alpha for result, part in zip(results, data.parts, strict=True)]
        duals = gather(signed, data.parts, data.n)
        self.support_ = np.flatnonzero(np.bincount(duals.indices))
        self.dual_coef_ = duals[:, self.support_].toarray()

    def _scores(self, X):
        X = validate_data(self, X, reset=False, **ACCEPTED)
        matrix = as_matrix(X, effective_n_jobs(self.n_jobs), ordered=len(self.coef_) > MANY_PRODUCTS)
        return np.column_stack([matrix.matvec(w) for w in self.coef_])
