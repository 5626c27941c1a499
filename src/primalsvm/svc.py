"""SVC: the kernel SVM in scikit-learn's world."""

from collections.abc import Iterator
from numbers import Integral
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from .approximation import Expanded, expand_problem
from .basis_choice import METHODS
from .certificate import Certificate, certificate
from .chunks import Chunks
from .classifier import CertifiedClassifier, Prepared, is_number
from .expansion import expand, expand_roughly, expansion_error
from .gamma import kernel_gamma
from .kernel_matrix import MEMORY_LIMIT, SMALL, TILE, KernelMatrix, TiledKernel, kernel_matrix
from .kernels import Kernel
from .losses import EPS, Array, make_loss
from .matrix import as_matrix, one_blas_thread
from .multiclass import Part, gather, join, scatter, sure_winners
from .problem import KernelProblem, LinearProblem, Problem
from .small_parts import LEAST, MOST, find_starts, small_parts
from .solve import Start
from .solvers import SMO

FIRST_BASIS = 50
MANY = 20_000  # samples from which products with K that are cheap beat rows of it that are kept
WITH_GAMMA = ("rbf", "poly", "laplacian", "wendland", "sigmoid")


class Kernels(NamedTuple):
    """The kernel, and its matrix between the samples."""

    kernel: Kernel
    K: KernelMatrix | None  # None where a basis takes its place
    taken: dict[str, KernelMatrix] | None = None  # between the samples of binary problems, by name, where it is kept

    def of_part(self, part: Part) -> KernelMatrix:
        """K between the samples of a binary problem."""
        assert self.K is not None
        if part.rows is None:
            return self.K
        if self.taken is None:
            return self.K.take(part.rows)
        if part.name not in self.taken:
            self.taken[part.name] = K = self.K.take(part.rows)
            K.array()
        return self.taken[part.name]

    def kept(self, parts: list[Part], threads: int) -> "Kernels":
        """The same with the matrices that many fits need in memory, if the memory limit allows."""
        K = self.K
        assert K is not None
        pairs = parts[0].rows is not None
        size = 8 * sum(len(part.rows) ** 2 for part in parts if part.rows is not None) if pairs else 8 * K.size
        if not isinstance(K, TiledKernel) or K.held or size > K.memory_limit:
            return self
        if not pairs:
            K.threads, before = threads, K.threads
            K.array()
            K.threads = before
        return self._replace(taken={})


class SVC(CertifiedClassifier):
    r"""Kernel support vector classifier that proves its answer.

    For two classes, with labels y_i = +-1 and c_i = C * sample_weight_i * class_weight, minimises

    .. math:: P(f, b) = \tfrac12 |f|^2 + \sum_i c_i\, l(y_i (f(x_i) + b))

    over the functions f of the kernel's space, and stops when a lower bound D on the minimum, computed by a judge that
    does not trust the solver, shows that P - D <= tol * P. The bounds are kept in ``certificate_``.

    Parameters
    ----------
    kernel : {"rbf", "linear", "poly", "laplacian", "wendland", "precomputed"} or callable, default="rbf"
        exp(-gamma \|x - z\|^2), <x, z>, (gamma <x, z> + coef0)^degree, exp(-gamma \|x - z\|_1), Wendland's function
        of gamma \|x - z\| with compact support; "precomputed": X is the kernel matrix, at prediction that between the
        new samples and those of the fit; or a function of two blocks of rows. "sigmoid" is refused: its problem is not
        convex, and nothing can be proven.
    C : float, default=1.0
        Weight of the losses against the norm of f.
    gamma : {"scale", "auto"} or float, default="scale"
        "scale" is 1 / (n_features * X.var()), each sample counting by its sample_weight; "auto" is 1 / n_features.
    degree, coef0 : int, default=3, and float, default=0.0
        Of the polynomial kernel.
    loss : {"hinge", "squared_hinge", "huber"} or Loss, default="hinge"
        max(0, 1 - m), max(0, 1 - m)^2, or the hinge rounded off over \|1 - m\| <= h (``Huber(h)``; by name, h = 0.5).
    solver : str or Solver, default="auto"
        ``verbose=1`` says what "auto" chose and why, ``solver_`` keeps it. A wrong name lists them all.
    tol : float, default=1e-3
        Relative duality gap to reach: the model is then proven to be within that fraction of its own objective.
    max_iter : int, default=1_000_000
        Limit on the solver's steps.
    max_seconds : float, default=None
        Limit on the time of fit.
    memory_limit : float, default=2 * 2**30
        Bytes that kernel matrices, and what is kept of their rows, may take; binary problems solved at the same time
        share them. A matrix that does not fit is computed in tiles.
    fit_intercept : bool or "penalized", default=True
        True: a free intercept, the SVM of the textbooks. False: none. "penalized": that of a constant feature.
    approximation : {"greedy", "cholesky", "random"}, default=None
        Where the samples are too many for the exact problem: f is then a sum over at most `n_basis` samples, chosen
        to lower P most, by a randomly pivoted Cholesky factor of K, or at random; all samples are in the loss.
        ``certificate_`` bounds the distance from the best such f, ``certify(model, X, y)`` that from the exact SVM.
    n_basis : int, default=1000
        Points of the basis, at most. Memory is 4 bytes times n_samples times this, or less: what does not fit into
        memory_limit is computed again in every pass.
    grow : {"validation", "gap"}, default=None
        Let the basis grow, up to n_basis: "validation" until the error on a tenth of the samples, held out, no longer
        falls; "gap" until the distance from the exact SVM is proven to be at most `full_tol`, which costs a pass over
        the kernel matrix each time. The certificate of that is kept as ``full_certificate_``.
    full_tol : float, default=0.1
        Relative gap to the exact problem for grow="gap".
    multi_class : {"ovo", "ovr"}, default="ovo"
        One against one, as scikit-learn and LIBSVM have it, or one class against the rest, where there are more than
        two.
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
        Threads of a fit or a prediction, -1 for all cores: they share one binary problem, or the problems where there
        are several.
    random_state : int, RandomState or None, default=None
        Seed of solvers that draw random numbers. None is a fixed seed: the same data give the same model.
    warm_start : bool, default=False
        Start from the last fit's solution if it fits the data's shape.
    verbose : int, default=0
        1 says which solver and how the kernel matrix is held, and prints a line for each certificate.
    callback : callable, default=None
        Called with each ``Record`` (iteration, seconds, passes, primal, dual, gap); returning True ends the fit.

    Attributes
    ----------
    support_ : ndarray (n_support,)
        Samples with a coefficient in some binary problem, ascending.
    support_vectors_ : ndarray or CSR matrix (n_support, n_features)
        Their rows of X; empty, of shape (0, 0), for a precomputed kernel.
    support_class_ : ndarray (n_support,)
        Their classes, as places in ``classes_``.
    n_support_ : ndarray (n_classes,)
        How many of each class.
    dual_coef_ : ndarray (n_parts, n_support)
        The model: f(x) = sum_j dual_coef_[part, j] k(support_vectors_[j], x); one part for two classes, else one per
        binary problem.
    intercept_ : ndarray (n_parts,)
    coef_ : ndarray (n_parts, n_features)
        Weights of the features, for kernel="linear" only.
    alpha_ : CSR array (n_parts, n_samples)
        The feasible dual points that prove the lower bounds.
    kernel_, gamma_ : Kernel and float
        What was used; gamma_ is 0 where the kernel has none.
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
    calibration_ : list of ndarray
        With `probability`, for each binary problem: (a, b) of p = 1 / (1 + exp(-(a score + b))), or (2, k) scores and
        probabilities between which p is linear.
    ensemble_ : list of SVC
        With `probability="ensemble"`: the models whose probabilities are averaged with its own.
    n_features_in_, feature_names_in_ : as everywhere in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from primalsvm import SVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = SVC().fit(StandardScaler().fit_transform(X), y)
    >>> model.certificate_.relative_gap <= 1e-3
    True
    """

    def __init__(
        self,
        kernel="rbf",
        *,
        C=1.0,
        gamma="scale",
        degree=3,
        coef0=0.0,
        loss="hinge",
        solver="auto",
        tol=1e-3,
        max_iter=1_000_000,
        max_seconds=None,
        memory_limit=MEMORY_LIMIT,
        approximation=None,
        n_basis=1000,
        grow=None,
        full_tol=0.1,
        fit_intercept=True,
        multi_class="ovo",
        class_weight=None,
        probability=None,
        n_jobs=None,
        random_state=None,
        warm_start=False,
        verbose=0,
        callback=None,
    ):
        self.kernel = kernel
        self.C = C
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.loss = loss
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.memory_limit = memory_limit
        self.approximation = approximation
        self.n_basis = n_basis
        self.grow = grow
        self.full_tol = full_tol
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
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = not tags.input_tags.pairwise
        return tags

    @property
    def coef_(self):
        """Weights of the features; of the linear kernel only, as in scikit-learn."""
        if not hasattr(self, "kernel_") or self.kernel_.name != "linear":
            raise AttributeError("coef_ is that of a fitted SVC with kernel='linear'.")
        return (self.support_vectors_.T @ self.dual_coef_.T).T

    # --- from parameters to problems ------------------------------------------------------------------------------

    def _rules(self) -> Iterator[tuple[str, bool, str]]:
        yield from super()._rules()
        known = isinstance(self.gamma, str) and self.gamma in ("scale", "auto")
        number = is_number(self.gamma) and 0 < self.gamma < np.inf
        yield "gamma", known or number, "'scale', 'auto' or a finite number above 0"
        whole = is_number(self.degree) and 1 <= self.degree < np.inf and self.degree == int(self.degree)
        yield "degree", whole, "a whole number above 0"
        yield "coef0", is_number(self.coef0) and abs(self.coef0) < np.inf, "a finite number"
        yield "memory_limit", is_number(self.memory_limit) and self.memory_limit > 0, "a number of bytes above 0"
        known = self.approximation is None or self.approximation in METHODS
        yield "approximation", known, f"None or one of {', '.join(METHODS)}"
        yield "n_basis", isinstance(self.n_basis, Integral) and int(self.n_basis) >= 1, "a whole number above 0"
        yield "grow", self.grow in (None, "validation", "gap"), "None, 'validation' or 'gap'"
        yield "full_tol", is_number(self.full_tol) and self.full_tol >= 0, "a number of at least 0"

    def _check_rows(self, X, *y, kernel, reset: bool = True):
        """X, and y in a fit, as NumPy or CSR in float32 or float64; a precomputed kernel matrix is dense."""
        return validate_data(
            self,
            X,
            *y,
            reset=reset,
            accept_sparse=False if kernel == "precomputed" else "csr",
            accept_large_sparse=True,
            dtype=[np.float64, np.float32],
            order="C",
        )

    def _validate(self, X, y):
        X, y = self._check_rows(X, y, kernel=self.kernel)
        return plain_rows(X), y

    def _validate_pieces(self, X, y):
        if self.approximation is None or self.grow == "gap":
            raise ValueError(
                "the exact problem needs X in memory; for pieces take approximation='greedy', without grow='gap'."
            )
        return super()._validate_pieces(X, y)

    def _prepare(self, X, y, sample_weight):
        data = super()._prepare(X, y, sample_weight)
        if self.approximation is None or self.grow == "gap":
            return data
        return data._replace(matrix=self._expand(data, int(self.n_basis)))

    def _matrix(self, X, weight, parts) -> Kernels:
        gamma = kernel_gamma(self.gamma, X, weight) if self.kernel in WITH_GAMMA else 0.0
        kernel = Kernel(self.kernel, gamma, int(self.degree), float(self.coef0))
        if self.approximation is not None:
            kernel.require_positive()
            if kernel.name == "precomputed":
                raise ValueError(
                    "approximation is for kernels that are computed; a precomputed matrix is there already."
                )
            return Kernels(kernel, None)
        settings = self.memory_limit / self._flying(parts), self._threads(parts)
        with one_blas_thread():
            try:
                return Kernels(kernel, self._operator(kernel, X, *settings))
            except ValueError:
                narrow = X.astype(np.float32) if self.kernel == "precomputed" else X
                if narrow.dtype == X.dtype or not np.array_equal(narrow, X):
                    raise
                return Kernels(kernel, kernel_matrix(kernel, narrow, *settings))  # it was computed in float32

    def _operator(self, kernel: Kernel, X, memory_limit: float, threads: int) -> KernelMatrix:
        """K as the solver wants it: conjugate gradients live on products, which can be cheap without rows that are."""
        products = getattr(self.solver, "name", self.solver) == "conjugate_gradient"
        n, d = X.shape
        products |= self.solver == "auto" and make_loss(self.loss).smooth and n >= MANY
        if products and kernel.name == "rbf" and d <= 3 and not sp.issparse(X):
            from .tree_kernel import TreeKernel

            return TreeKernel(kernel, X, memory_limit=memory_limit, threads=threads)
        if products and kernel.name == "wendland":
            from .sparse_kernel import sparse_kernel

            try:
                return sparse_kernel(kernel, X, memory_limit=memory_limit, threads=threads)
            except MemoryError:  # not sparse enough
                pass
        return kernel_matrix(kernel, X, memory_limit, threads)

    def _flying(self, parts):
        """One at a time where they are small: their time is mostly Python's, whose threads wait for each other."""
        return 1 if max(len(part.y) for part in parts) <= MOST else super()._flying(parts)

    def _closer(self, data, starts, interrupted):
        """Small problems of pairs begin near their solutions, which compiled loops find for all of them at once."""
        matrix, plain = data.matrix, self.solver_ == SMO() and self.max_seconds is None and self.tol >= LEAST
        if not plain or any(starts) or self.approximation is not None or matrix.taken is not None:
            return starts
        threads = effective_n_jobs(self.n_jobs)
        small = small_parts(matrix.K, data.parts, threads)
        parts = [data.parts[k] for k in small]
        facts = [self._facts(data, part) for part in parts]
        found = find_starts(matrix.K, parts, facts, self.tol, self.max_iter, threads, interrupted) if small else []
        by_part = dict(zip(small, found, strict=True))
        return [by_part.get(k) for k in range(len(data.parts))]

    def _problem(self, data: Prepared, part) -> Problem:
        if self.approximation is not None:
            features = data.matrix.features
            X = features if part.rows is None else features.take(part.rows)
            return LinearProblem(X=X, **self._facts(data, part))
        return KernelProblem(K=data.matrix.of_part(part), **self._facts(data, part))

    # --- a basis in the place of the kernel matrix ----------------------------------------------------------------

    def _expand(self, data: Prepared, size: int) -> Expanded:
        """Choose a basis, as the parameters say, and make its features."""

        def error(scores: Array, samples: np.ndarray) -> float:
            guesses = self._winners(join(scores, len(data.classes), self.multi_class))
            return float(np.mean(guesses != data.labels[samples]))

        with one_blas_thread():
            return expand_problem(
                data,
                [self._facts(data, part) for part in data.parts],
                self.approximation,
                size,
                error=error if self.grow == "validation" else None,
                rng=np.random.default_rng(check_random_state(self.random_state or 0).randint(2**31)),
                memory_limit=self.memory_limit,
                threads=effective_n_jobs(self.n_jobs),
                say=self._say if self.verbose else None,
            )

    def _say(self, words: str) -> None:
        print(f"[{type(self).__name__}] {words}", flush=True)

    def _fit_model(self, data, starts):
        """With grow="gap": until the distance from the exact SVM is proven to be small."""
        if self.approximation is None:
            return super()._fit_model(data, starts)
        if self.grow != "gap":
            return super()._fit_model(data, data.matrix.starts)
        K = kernel_matrix(data.matrix.kernel, data.X, self.memory_limit, effective_n_jobs(self.n_jobs))
        size = min(FIRST_BASIS, int(self.n_basis))
        while True:
            expanded = data._replace(matrix=self._expand(data, size))
            fitted = super()._fit_model(expanded, expanded.matrix.starts)
            self.full_certificate_ = self._judge_fully(K, data)
            gap = self.full_certificate_.relative_gap
            if self.verbose:
                self._say(f"basis {size}: at most {100 * gap:.3g} % above the exact SVM's optimum")
            if gap <= self.full_tol or size >= self.n_basis or len(expanded.matrix.basis) < size:
                return fitted
            size = min(2 * size, int(self.n_basis))

    def _judge_fully(self, K: KernelMatrix, data: Prepared) -> Certificate:
        """The model as one of the exact problem."""
        answers = zip(data.parts, self.dual_coef_, self.intercept_, strict=True)
        with one_blas_thread():
            return Certificate.of_parts(
                [
                    judge_expansion(
                        K,
                        self.support_,
                        coef,
                        float(b),
                        part.take(self.alpha_[[k]].toarray()[0]),
                        part,
                        self._facts(data, part),
                    )
                    for k, (part, coef, b) in enumerate(answers)
                ]
            )

    def _tell(self, problem, data):
        super()._tell(problem, data)
        if self.approximation is not None:
            return
        n, limit = max(len(part.y) for part in data.parts), problem.K.memory_limit
        size, which = 8 * n * n, f", the largest of {len(data.parts)}" if data.parts[0].rows is not None else ""
        how = f"computed in tiles, memory_limit is {limit / 2**30:.3g} GiB"
        if self.kernel == "precomputed" or callable(self.kernel) or size <= min(SMALL, limit):
            how = "stored"
        elif size <= limit:
            how = f"memory_limit, {limit / 2**30:.3g} GiB, has room for all of it"
        print(f"[{type(self).__name__}] kernel matrix{which}: {n} x {n}, {size / 2**30:.3g} GiB; {how}", flush=True)

    def _solutions(self, data, C):
        """This fit's solutions as starts for another C: an alpha that has a bound hardly notices C while below it."""
        if self.approximation is not None:  # a basis may be another one
            return [None] * len(data.parts)
        growth = C / self.C_fit_ if np.isinf(make_loss(self.loss).bound) else 1.0
        alphas = (growth * self.alpha_[[k]].toarray()[0] for k in range(len(data.parts)))
        return [
            Start(part.take(scatter(beta, self.support_, data.n)), float(b), part.take(alpha))
            for beta, b, alpha, part in zip(self.dual_coef_, self.intercept_, alphas, data.parts, strict=True)
        ]

    def _fold(self, data, train):
        """Those left out have no weight, and all folds the same kernel matrix."""
        weight = np.zeros(data.n)
        weight[train] = data.weight[train]
        return data._replace(weight=weight)

    def _held_out(self, data, rows):
        K = data.matrix.K
        tiles = [K.block(rows[a : a + TILE], self.support_) @ self.dual_coef_.T for a in range(0, len(rows), TILE)]
        return np.vstack(tiles) if tiles else np.empty((0, len(self.dual_coef_)))

    # --- the model ------------------------------------------------------------------------------------------------

    def _keep(self, results, data):
        self.__dict__.pop("full_certificate_", None)
        self.alpha_ = gather([result.alpha for result in results], data.parts, data.n)
        self.kernel_ = data.matrix.kernel
        self.gamma_ = self.kernel_.gamma
        if self.approximation is None:
            betas = gather([result.f for result in results], data.parts, data.n)
            self.support_ = np.flatnonzero(np.bincount(betas.indices))
            self.dual_coef_ = betas[:, self.support_].toarray()
        else:
            basis = data.matrix.basis
            order = np.argsort(basis.samples)
            self.support_ = basis.samples[order]
            self.dual_coef_ = np.vstack([(basis.R @ result.f)[order] for result in results])
        self.support_class_ = data.labels[self.support_]
        self.n_support_ = np.bincount(self.support_class_, minlength=len(data.classes))
        if self.kernel == "precomputed":
            self.support_vectors_ = np.empty((0, 0))
        else:
            self.support_vectors_ = data.X[self.support_] if self.approximation is None else basis.vectors[order]

    def predict(self, X):
        """The class of each row.

        With an rbf kernel in float32 first: where its proven error leaves a doubt which class has the highest value of
        `decision_function`, again in float64.
        """
        check_is_fitted(self, "intercept_")
        if isinstance(X, Chunks) or self.kernel_.name != "rbf" or self.multi_class not in ("ovo", "ovr"):
            return super().predict(X)
        X = self._rows_of(X)
        with one_blas_thread():
            rough = expand_roughly(*self._expansion(X))
        if rough is None:
            return self.classes_[self._winners(self._join(self._sums(X)))]
        winners, sure = self._sure(*rough)
        doubtful = np.flatnonzero(~sure)
        if len(doubtful):
            few = X[doubtful]
            winners[doubtful], sure = self._sure(self._sums(few), expansion_error(*self._expansion(few)[:4]))
            if not sure.all():  # ties to the last digits, which depend on the rows beside them
                return self.classes_[self._winners(self._join(self._sums(X)))]
        return self.classes_[winners]

    def _sure(self, scores: Array, error: Array) -> tuple[np.ndarray, np.ndarray]:
        """(place of the class, is it so whatever the errors are?) for each sample, from scores without intercepts."""
        error = error + 4 * EPS * (np.abs(scores) + np.abs(self.intercept_))
        return sure_winners(scores + self.intercept_, error, len(self.classes_), self.multi_class)

    def _scores(self, X):
        return self._sums(self._rows_of(X))

    def _rows_of(self, X):
        return plain_rows(self._check_rows(X, kernel=self.kernel_.name, reset=False))

    def _sums(self, X) -> Array:
        """f of each binary problem at rows that have been checked."""
        with one_blas_thread():
            if self.kernel_.name == "precomputed":
                return X[:, self.support_].astype(np.float64, copy=False) @ self.dual_coef_.T
            return expand(*self._expansion(X))

    def _expansion(self, X) -> tuple:
        pairs = self.multi_class == "ovo" and len(self.classes_) > 2 and self.approximation is None
        groups = self.support_class_ if pairs else None
        return self.kernel_, self.support_vectors_, self.dual_coef_, X, groups, effective_n_jobs(self.n_jobs)


def judge_expansion(
    K: KernelMatrix, places: np.ndarray, coef: Array, b: float, alpha: Array | None, part: Part, facts: dict, **how
) -> Certificate:
    """Of f = sum_j coef_j k(x_places_j, .) as a model of one binary problem of the exact kernel.

    facts are those of a Problem; alpha is over the samples of the part. Points of f that are none of them join the
    problem without weight.
    """
    mine = np.arange(len(facts["y"])) if part.rows is None else part.rows
    others = np.setdiff1d(places, mine)
    rows, f = np.concatenate([mine, others]), scatter(coef, places, K.n)
    if not np.array_equal(rows, np.arange(K.n)):
        K, f = K.take(rows), f[rows]
    y, cost = np.append(facts["y"], np.ones(len(others))), np.append(facts["cost"], np.zeros(len(others)))
    alpha = None if alpha is None else np.append(alpha, np.zeros(len(others)))
    return certificate(KernelProblem(**{**facts, "y": y, "cost": cost}, K=K), f, b, alpha, **how)


def plain_rows(X):
    """CSR in which no entry stands twice and indices have 32 bits where these suffice; dense X as it is."""
    return as_matrix(X, ordered=False).csr if sp.issparse(X) else X  # type: ignore[union-attr]
