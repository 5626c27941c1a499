"""SVC: scikit-learn's checks, agreement with scikit-learn's own, its promises, bad input."""

import _thread
import pickle
import threading
import warnings
import weakref
from decimal import Decimal, localcontext

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import laplacian_kernel, pairwise_kernels, rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC as SklearnSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from primalsvm import SVC, Huber, Record, certify
from primalsvm.expansion import expand_roughly
from primalsvm.gamma import kernel_gamma
from primalsvm.kernel_matrix import TiledKernel
from primalsvm.kernels import Kernel
from primalsvm.multiclass import join, sure_winners, winners
from primalsvm.solve import Solver
from primalsvm.solvers import DualCoordinateAscent, ProjectedGradient

pytestmark = pytest.mark.filterwarnings("ignore:.*SCIPY_ARRAY_API.*")


# a matrix that is not positive has no bound, and is refused with a sentence
NO_KERNEL = {
    "check_estimators_dtypes": "its matrix, rounded to integers, is no kernel matrix any more",
    "check_positive_only_tag_during_fit": "its matrix less its mean is no kernel matrix any more",
}


@parametrize_with_checks(
    [
        SVC(),
        SVC(loss="squared_hinge"),
        SVC(loss=Huber(0.1), fit_intercept="penalized"),
        SVC(multi_class="ovr"),
        SVC("poly", coef0=1.0, degree=2),
        SVC("linear"),
        SVC("laplacian", gamma="auto"),
        SVC("wendland", gamma=0.1),
        SVC("precomputed"),
        SVC(approximation="greedy", n_basis=40),
        SVC(approximation="cholesky", n_basis=40, loss="squared_hinge", grow="validation", multi_class="ovr"),
    ],
    expected_failed_checks=lambda model: NO_KERNEL if model.kernel == "precomputed" else {},
    xfail_strict=True,
)
def test_scikit_learn_checks(estimator, check):
    """All of them, sample-weight equivalence included."""
    with warnings.catch_warnings():
        # rows of length 100 under a polynomial: float64 has not always the digits to prove 1e-3
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), np.array(["setosa", "versicolor", "virginica"])[y]


def noisy(n=1500):
    """Large enough, and noisy enough, that few steps do not solve it."""
    return make_classification(n, 10, n_informative=8, flip_y=0.2, random_state=0)


def rbf_by_hand(A, B):
    return rbf_kernel(A, B, gamma=0.05)


# --- the same answer as others --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"kernel": "rbf", "gamma": "auto", "C": 10.0},
        {"kernel": "linear", "C": 0.1},
        {"kernel": "poly", "coef0": 1.0, "degree": 2, "gamma": 0.1},
        {"class_weight": "balanced"},
    ],
    ids=str,
)
@pytest.mark.parametrize("data", [cancer, iris], ids=["two classes", "three"])
def test_agrees_with_scikit_learn(settings, data):
    X, y = data()
    ours, theirs = SVC(tol=1e-8, **settings).fit(X, y), SklearnSVC(tol=1e-7, **settings).fit(X, y)
    # |f - f*|^2 <= 2 gap, and f moves no score further than that times sqrt(k(x, x))
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-3)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    assert ours.status_ == "converged"
    if data is iris:  # two of its rows are the same, and may share their coefficient in any way
        return
    for one, other in ((ours, theirs), (theirs, ours)):
        assert set(one.support_[np.abs(one.dual_coef_[0]) > 0.01]) <= set(other.support_)
    if settings.get("kernel") == "linear":
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)


@pytest.mark.parametrize("weighted", [False, True])
def test_gamma_is_scikit_learns(weighted):
    rng = np.random.default_rng(0)
    X = rng.normal(3.0, 2.0, size=(5000, 7)) * (rng.random((5000, 7)) < 0.5)
    y, weight = np.arange(5000) % 2, rng.integers(0, 3, 5000)
    rows = np.repeat(X, weight, axis=0) if weighted else X
    for make in (np.asarray, np.float32, sp.csr_array, sp.csr_matrix):
        seen = kernel_gamma("scale", make(X), weight if weighted else None)
        assert seen == pytest.approx(1 / (7 * rows.var()), rel=1e-6 if make is np.float32 else 1e-12)
    small = slice(0, 200)
    theirs = SklearnSVC().fit(sp.csr_matrix(X[small]), y[small])
    assert SVC().fit(X[small], y[small]).gamma_ == pytest.approx(theirs._gamma, rel=1e-12)
    assert SVC(gamma="auto").fit(X[small], y[small]).gamma_ == 1 / 7
    assert SVC(gamma=0.3).fit(X[small], y[small]).gamma_ == 0.3


def test_gamma_of_constant_and_of_huge_data():
    assert kernel_gamma("scale", np.full((10, 3), 0.1)) == 1.0
    assert kernel_gamma("scale", sp.csr_array(np.full((10, 3), 0.1))) == 1.0
    with pytest.raises(ValueError, match=r"X.var\(\), which is beyond float64"):
        SVC().fit([[1e200], [-1e200]], [0, 1])


@pytest.mark.parametrize("data", [cancer, iris], ids=["two classes", "three"])
def test_precomputed_and_callable_kernels_are_the_named_one(data):
    X, y = data()
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    train, test = slice(0, 120), slice(120, None)
    named = SVC(gamma=0.05).fit(X[train], y[train])
    expected = named.decision_function(X[test])
    called = SVC(rbf_by_hand).fit(X[train], y[train])
    np.testing.assert_allclose(called.decision_function(X[test]), expected, atol=1e-6)
    stored = SVC("precomputed").fit(rbf_by_hand(X[train], X[train]), y[train])
    np.testing.assert_allclose(stored.decision_function(rbf_by_hand(X[test], X[train])), expected, atol=1e-6)
    assert stored.support_vectors_.shape == (0, 0) and stored.n_features_in_ == 120
    np.testing.assert_array_equal(stored.support_, named.support_)
    with pytest.raises(ValueError, match="features"):
        stored.predict(rbf_by_hand(X[test], X[:100]))
    with pytest.raises(ValueError, match="must be square"):
        SVC("precomputed").fit(X[:100, :3], y[:100])
    with pytest.raises(ValueError, match="not positive semidefinite"):
        SVC("precomputed").fit(-rbf_by_hand(X[train], X[train]), y[train])


def test_a_matrix_computed_in_float32_is_one_in_float64_too():
    """Of low rank, with eigenvalues below zero by what float32 is off."""
    X, y = cancer()
    K = (X[:, :3].astype(np.float32) @ X[:, :3].T.astype(np.float32)).astype(np.float64)
    model = SVC("precomputed").fit(K, y)
    exact = SVC("linear").fit(X[:, :3], y).certificate_
    assert model.certificate_.relative_gap <= 1e-3
    assert model.certificate_.primal == pytest.approx(exact.primal, rel=2e-3)
    K[0] *= 1 + 1e-12  # no longer numbers of float32
    K[:, 0] = K[0]
    with pytest.raises(ValueError, match="not positive semidefinite"):
        SVC("precomputed").fit(K, y)


# --- the proof ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "huber"])
@pytest.mark.parametrize("fit_intercept", [True, False, "penalized"])
@pytest.mark.parametrize("data", [cancer, iris], ids=["two classes", "three"])
def test_the_certificate_is_what_certify_says(loss, fit_intercept, data):
    X, y = data()
    model = SVC(loss=loss, fit_intercept=fit_intercept).fit(X, y)
    again = certify(model, X, y)
    assert model.status_ == "converged"
    assert model.certificate_.relative_gap <= 1e-3
    assert model.dual_gap_ == model.certificate_.gap
    assert again.primal == pytest.approx(model.certificate_.primal, rel=1e-9)
    assert again.dual == pytest.approx(model.certificate_.dual, rel=1e-9)
    assert len(again.parts) == len(model.certificate_.parts) == (0 if data is cancer else 3)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "laplacian", "wendland"])
def test_the_model_is_its_expansion(kernel):
    """f(x) = sum_j dual_coef_j k(x_j, x), with kernels written down by hand."""
    X, y = cancer()
    model = SVC(kernel, gamma=0.02, coef0=0.5, degree=2).fit(X, y)
    by_hand = {
        "linear": lambda A, B: A @ B.T,
        "rbf": lambda A, B: rbf_kernel(A, B, gamma=0.02),
        "poly": lambda A, B: (0.02 * (A @ B.T) + 0.5) ** 2,
        "laplacian": lambda A, B: laplacian_kernel(A, B, gamma=0.02),
        "wendland": wendland,
    }[kernel]
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_])
    scores = by_hand(X, model.support_vectors_) @ model.dual_coef_[0] + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), scores, rtol=1e-9, atol=1e-9)
    assert model.dual_coef_.any(axis=0).all()
    assert (np.diff(model.support_) > 0).all()
    np.testing.assert_array_equal(model.classes_[model.support_class_], y[model.support_])


def wendland(A, B, gamma=0.02):
    r, q = gamma * np.sqrt(np.maximum(((A[:, None] - B[None]) ** 2).sum(axis=2), 0.0)), A.shape[1] // 2 + 2
    return np.maximum(1 - r, 0.0) ** (q + 1) * ((q + 1) * r + 1)


def test_alpha_is_the_feasible_point_that_proves_the_bound():
    X, y = cancer()
    model = SVC(gamma=0.02, C=2.0).fit(X, y)
    assert model.alpha_.shape == (1, len(y))
    alpha, signs = model.alpha_.toarray()[0], np.where(y == 1, 1.0, -1.0)
    assert (alpha >= 0).all() and (alpha <= 2.0).all()
    assert abs(alpha @ signs) <= 1e-9
    signed = alpha * signs
    dual = alpha.sum() - signed @ rbf_kernel(X, gamma=0.02) @ signed / 2
    assert dual == pytest.approx(model.certificate_.dual, rel=1e-9)


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_more_than_two_classes(multi_class, n_jobs):
    X, y = iris()
    model = SVC(multi_class=multi_class, n_jobs=n_jobs).fit(X, y)
    m = len(model.support_)
    assert model.dual_coef_.shape == (3, m) and model.intercept_.shape == (3,) and model.alpha_.shape == (3, 150)
    assert len(model.certificate_.parts) == len(model.history_) == 3
    assert all(part.relative_gap <= 1e-3 for part in model.certificate_.parts)
    assert model.n_support_.sum() == m
    assert model.decision_function(X).shape == (150, 3)
    assert model.score(X, y) > 0.95
    if multi_class == "ovo":  # the problem of two classes knows the samples of those two only
        assert not model.dual_coef_[0, y[model.support_] == "virginica"].any()
    alone = SVC(multi_class=multi_class).fit(X, y)
    np.testing.assert_array_equal(alone.dual_coef_, model.dual_coef_)


def test_one_against_the_rest_is_that():
    X, y = iris()
    whole = SVC(multi_class="ovr", gamma=0.3, tol=1e-8).fit(X, y)
    for k, name in enumerate(whole.classes_):
        alone = SVC(gamma=0.3, tol=1e-8).fit(X, y == name)
        np.testing.assert_allclose(whole.decision_function(X)[:, k], alone.decision_function(X), atol=1e-4)


@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csc_matrix, sp.csr_array, np.asfortranarray, np.float32])
def test_storage_does_not_matter(make):
    X, y = cancer()
    X = np.round(X, 2)
    base = SVC().fit(X, y)
    other = SVC().fit(make(X), y)
    np.testing.assert_allclose(other.decision_function(make(X)), base.decision_function(X), rtol=1e-4, atol=1e-4)
    assert sp.issparse(other.support_vectors_) == sp.issparse(make(X))
    assert certify(other, make(X), y).relative_gap <= 1e-3


def test_repeated_entries_are_their_sum():
    """CSR as (data, indices, indptr) may name an entry twice; wide enough to stay sparse."""
    rng = np.random.default_rng(0)
    X = sp.random(200, 300_000, 1e-4, format="csr", rng=rng)
    y = np.asarray(X[:, :150_000].sum(axis=1)).ravel() > np.asarray(X[:, 150_000:].sum(axis=1)).ravel()
    twice = sp.csr_array((np.repeat(X.data, 2) / 2, np.repeat(X.indices, 2), 2 * X.indptr), shape=X.shape)
    plain, halves = SVC().fit(X, y), SVC().fit(twice, y)
    assert halves.gamma_ == pytest.approx(plain.gamma_, rel=1e-12)
    np.testing.assert_allclose(halves.decision_function(twice), plain.decision_function(X), atol=1e-9)
    assert certify(halves, twice, y).relative_gap <= 1e-3
    assert twice.nnz == 2 * X.nnz  # ours is a copy


def test_data_frames():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    X, y = load_iris(return_X_y=True, as_frame=True)
    expected = SVC().fit(X.to_numpy(), y)
    for frame, labels in ((X, y), (polars.from_pandas(X), polars.from_pandas(y)), (X.astype("float32"), y)):
        model = SVC().fit(frame, labels)
        assert list(model.feature_names_in_) == list(X.columns)
        np.testing.assert_array_equal(model.predict(frame), expected.predict(X.to_numpy()))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(pandas.DataFrame(X.to_numpy(), columns=list("abcd")))


def test_weights():
    X, y = noisy(400)
    rng = np.random.default_rng(0)
    weight = rng.integers(0, 3, len(y)).astype(float)
    repeated = np.repeat(np.arange(len(y)), weight.astype(int))
    kept = weight > 0

    def primal(*data, **settings):
        return SVC(tol=1e-7, **settings).fit(*data).certificate_.primal

    assert primal(X, y, weight) == pytest.approx(primal(X[repeated], y[repeated]), rel=2e-7)
    assert primal(X, y, kept) == pytest.approx(primal(X[kept], y[kept]), rel=2e-7)
    assert primal(X, y, C=2.0) == pytest.approx(primal(X, y, class_weight={0: 2.0, 1: 2.0}), rel=2e-7)
    share = np.where(y == 1, 0.5 / (y == 1).mean(), 0.5 / (y == 0).mean())
    gamma = SVC().fit(X, y).gamma_
    by_hand = primal(X, y, share, gamma=gamma)
    assert primal(X, y, gamma=gamma, class_weight="balanced") == pytest.approx(by_hand, rel=2e-7)
    model = SVC(class_weight="balanced").fit(X, y, weight)
    assert certify(model, X, y, sample_weight=weight).primal == pytest.approx(model.certificate_.primal, rel=1e-9)


def test_linear_kernel_has_weights():
    X, y = iris()
    for make in (np.asarray, sp.csr_array):
        model = SVC("linear").fit(make(X), y)
        assert model.coef_.shape == (3, 4)
        pair = SVC("linear").fit(make(X[y != "setosa"]), y[y != "setosa"])
        np.testing.assert_allclose(X @ pair.coef_[0] + pair.intercept_, pair.decision_function(make(X)), atol=1e-9)
    for other in (SVC("linear"), SVC().fit(X, y)):
        with pytest.raises(AttributeError, match="kernel='linear'"):
            _ = other.coef_


# --- memory and threads ---------------------------------------------------------------------------------------------


def test_a_matrix_that_does_not_fit_is_computed_in_tiles():
    X, y = noisy(600)
    stored, tiled = (SVC(memory_limit=limit, tol=1e-5).fit(X, y) for limit in (2**30, 2**18))
    assert stored.certificate_.primal == pytest.approx(tiled.certificate_.primal, rel=1e-5)
    np.testing.assert_allclose(stored.decision_function(X), tiled.decision_function(X), atol=0.05)
    with pytest.raises(MemoryError, match="memory_limit"):
        SVC(solver="dual_coordinate_ascent", memory_limit=2**18).fit(X, y)


def test_problems_in_flight_share_the_memory_and_the_threads(monkeypatch):
    X, y = iris()
    small = SVC(n_jobs=2, memory_limit=1000)._prepare(X, y, None)
    assert (small.matrix.K.memory_limit, SVC(n_jobs=2)._flying(small.parts)) == (1000, 1)  # not worth threads
    monkeypatch.setattr("primalsvm.svc.MOST", 10)
    K = SVC(n_jobs=2, memory_limit=1000)._prepare(X, y, None).matrix.K
    assert (K.memory_limit, K.threads) == (500, 1)
    K = SVC(n_jobs=2, memory_limit=1000)._prepare(X, y == "setosa", None).matrix.K
    assert (K.memory_limit, K.threads) == (1000, 2)


def test_problems_are_built_when_their_turn_comes(monkeypatch):
    """Of 45 pairs of ten classes, not 45 matrices at a time."""
    X, y = make_classification(300, 8, n_informative=6, n_classes=10, random_state=0)
    build, alive, most = SVC._problem, weakref.WeakSet(), []

    def count(self, data, part):
        problem = build(self, data, part)
        alive.add(problem)
        most.append(len(alive))
        return problem

    monkeypatch.setattr(SVC, "_problem", count)
    SVC().fit(X, y)
    assert len(most) == 45 and max(most) <= 2


def test_verbose_says_which_solver_and_how_the_matrix_is_held(capsys):
    X, y = noisy(2100)
    settings = {"verbose": 1, "max_iter": 1, "tol": 1.0}
    for limit, how in (
        (2**30, "memory_limit, 1 GiB, has room for all of it"),
        (2**24, "computed in tiles, memory_limit is 0.0156 GiB"),
    ):
        model = SVC(memory_limit=limit, **settings).fit(X, y)
        shown = capsys.readouterr().out.splitlines()
        assert shown[0].startswith(f"[SVC] solver: {model.solver_.name}: ")
        assert shown[1] == f"[SVC] kernel matrix: 2100 x 2100, 0.0329 GiB; {how}"
        assert shown[2].startswith("[1 against 0] ")
    SVC(**settings).fit(X, np.arange(2100) % 3)
    shown = capsys.readouterr().out.splitlines()
    assert shown[1].startswith("[SVC] kernel matrix, the largest of 3: 1400 x 1400, 0.0146 GiB; ")
    SVC(solver="dual_coordinate_ascent", **settings).fit(X[:100], y[:100])
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "[SVC] solver: dual_coordinate_ascent, as asked for"
    assert shown[1].startswith("[SVC] kernel matrix: 100 x 100, ") and shown[1].endswith("; stored")


@pytest.mark.parametrize("data", [cancer, iris], ids=["two classes", "three"])
def test_threads_of_a_prediction_do_not_change_it(data):
    X, y = data()
    X = np.tile(X, (20, 1))
    model = SVC().fit(X[: len(y)], y)
    one, two = (clone_fitted(model, n_jobs=jobs).decision_function(X) for jobs in (1, 2))
    np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-12)


def clone_fitted(model, **parameters):
    return pickle.loads(pickle.dumps(model)).set_params(**parameters)


# --- how a fit goes -------------------------------------------------------------------------------------------------


def test_a_missed_tolerance_is_a_warning_with_the_gap_and_one_thing_to_try():
    X, y = noisy()
    words = r"^SVC ended at a certified relative gap of [0-9.e+-]+, above tol=1e-09: raise max_iter=2"
    with pytest.warns(ConvergenceWarning, match=words) as caught:
        model = SVC(tol=1e-9, max_iter=2).fit(X, y)
    assert model.status_ == "max_iter" and model.n_iter_ == 2
    assert caught[0].filename == __file__
    with pytest.warns(ConvergenceWarning, match="raise max_seconds=0.05"):
        model = SVC(solver="projected_gradient", tol=1e-12, max_seconds=0.05).fit(X, y)
    assert model.status_ == "max_seconds"
    X, y = iris()
    with pytest.warns(ConvergenceWarning, match="3 of 3 binary problems; worst: .* against the rest"):
        SVC(multi_class="ovr", solver="projected_gradient", tol=1e-12, max_iter=1).fit(X, y)


def test_callback_and_history():
    X, y = noisy()
    seen = []
    model = SVC(solver="dual_coordinate_ascent", tol=1e-12, callback=lambda r: seen.append(r) or len(seen) >= 4)
    model.fit(X, y)  # stopped on request: no warning
    assert model.status_ == "stopped"
    assert all(isinstance(record, Record) for record in seen)
    assert model.history_[1:] == seen


@pytest.mark.parametrize("data", [noisy, iris], ids=["two classes", "three"])
def test_warm_start(data):
    X, y = data()
    model = SVC(warm_start=True).fit(X, y)
    first = model.n_iter_
    model.fit(X, y)
    assert model.n_iter_ == 0 < first
    model.set_params(C=1.1).fit(X, y)
    assert model.certificate_.relative_gap <= 1e-3
    model.set_params(C=1e-3).fit(X[20:120], y[20:120])  # another shape: starts afresh
    assert model.n_samples_fit_ == 100
    assert model.certificate_.relative_gap <= 1e-3


def test_seeds():
    X, y = noisy(200)
    settings = {"solver": "dual_coordinate_ascent", "max_iter": 1, "tol": 1.0}
    duals = [SVC(random_state=r, **settings).fit(X, y).dual_coef_ for r in (1, 1, 2)]
    np.testing.assert_array_equal(duals[0], duals[1])
    assert not np.array_equal(duals[0], duals[2])
    assert SVC(solver=DualCoordinateAscent(seed=5)).fit(X, y).solver_ == DualCoordinateAscent(seed=5)
    with pytest.raises(ValueError, match=r"hyperpass needs .*Solvers that accept it"):
        SVC(solver="hyperpass", loss="squared_hinge").fit(X, y)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_ctrl_c_leaves_the_model_fitted_and_is_raised(n_jobs):
    X, y = iris()
    main, fired = threading.main_thread(), []

    class Interrupting(ProjectedGradient):
        name = "interrupting"

        def step(self, problem, state):
            super().step(problem, state)
            if threading.current_thread() is main and state.passes >= 6:
                raise KeyboardInterrupt
            if threading.current_thread() is not main and not fired:
                fired.append(True)
                _thread.interrupt_main()

    model = SVC(solver=Interrupting(), tol=0.0, max_iter=300, n_jobs=n_jobs)
    try:
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
    finally:
        Solver.registry.pop("interrupting")
    assert model.status_ == "interrupted"
    assert model.dual_coef_.shape == (3, len(model.support_))
    assert model.predict(X).shape == (150,)
    assert certify(model, X, y).primal == pytest.approx(model.certificate_.primal, rel=1e-9)


def test_ctrl_c_while_a_matrix_is_computed(monkeypatch):
    """The third pair's: the model still has three parts."""
    X, y = iris()
    take, calls = TiledKernel.take, []

    def interrupted(self, picked):
        calls.append(len(picked))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return take(self, picked)

    monkeypatch.setattr(TiledKernel, "take", interrupted)
    model = SVC()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert len(calls) == 4 and model.status_ == "interrupted"
    assert [part.relative_gap <= 1e-3 for part in model.certificate_.parts[:2]] == [True, True]
    assert model.predict(X).shape == (150,)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_an_error_in_one_problem_is_raised(n_jobs, monkeypatch):
    X, y = iris()
    build = SVC._problem

    def fail(self, data, part):
        if part.name == "setosa against virginica":
            raise MemoryError("no room")
        return build(self, data, part)

    monkeypatch.setattr(SVC, "_problem", fail)
    model = SVC(n_jobs=n_jobs)
    with pytest.raises(MemoryError, match="no room"):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)


# --- scikit-learn around it -----------------------------------------------------------------------------------------


def test_scikit_learn_around_it():
    X, y = load_breast_cancer(return_X_y=True)
    pipe = make_pipeline(StandardScaler(), SVC())
    assert cross_val_score(pipe, X, y, cv=3).mean() > 0.95
    grid = GridSearchCV(pipe, {"svc__C": [0.01, 1.0], "svc__kernel": ["rbf", "linear"]}, cv=3).fit(X, y)
    assert certify(grid.best_estimator_, X, y).relative_gap < 1e-3
    assert "SVC" in pipe._repr_html_()
    K = pairwise_kernels(StandardScaler().fit_transform(X), metric="rbf", gamma=0.03)
    assert cross_val_score(SVC("precomputed"), K, y, cv=3).mean() > 0.95  # folds of rows and columns


def test_clone_and_pickle():
    X, y = iris()
    model = SVC(rbf_by_hand, C=2.0, memory_limit=2**28, callback=None).fit(X, y)
    assert clone(model).get_params() == model.get_params()
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert again.certificate_ == model.certificate_


def test_a_model_keeps_its_kernel_when_parameters_change():
    X, y = cancer()
    model = SVC(gamma=0.02).fit(X, y)
    expected = model.decision_function(X)
    np.testing.assert_array_equal(model.set_params(kernel="linear", gamma=5.0).decision_function(X), expected)


def test_a_failed_fit_is_no_fit():
    model = SVC(gamma=1.0)
    with pytest.raises(ValueError, match="one class"):
        model.fit(X2, [1, 1, 1, 1])
    with pytest.raises(NotFittedError):
        model.predict(X2)


# --- bad input ------------------------------------------------------------------------------------------------------

X2 = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.2]])
Y2 = np.array([0, 1, 1, 0])


@pytest.mark.parametrize(
    "X, y, weight, sentence",
    [
        (np.array([[np.nan, 1.0], [1.0, 0.0]]), [0, 1], None, "NaN"),
        (np.array([[np.inf, 1.0], [1.0, 0.0]]), [0, 1], None, "infinity"),
        (X2, [1, 1, 1, 1], None, "^SVC needs samples of two classes .* only one class: 1"),
        (np.empty((0, 2)), [], None, "0 sample"),
        (X2, Y2[:3], None, "inconsistent numbers of samples"),
        (X2, [0.1, 0.2, 0.3, 0.4], None, "continuous"),
        (X2, Y2, [1.0, -1.0, 1.0, 1.0], "Negative values"),
        (X2, Y2, np.zeros(4), "zero"),
        (X2, Y2, [0.0, 1.0, 1.0, 0.0], "only one class: 1"),
        (X2, Y2, [1.0, 1.0], "sample_weight"),
        (X2[0], Y2, None, "1D array"),
    ],
)
def test_bad_data_gets_one_clear_sentence(X, y, weight, sentence):
    with pytest.raises(ValueError, match=sentence):
        SVC().fit(X, y, sample_weight=weight)


@pytest.mark.parametrize(
    "parameters",
    [
        {"kernel": "gauss"},
        {"kernel": None},
        {"gamma": 0},
        {"gamma": -1.0},
        {"gamma": "wide"},
        {"gamma": np.inf},
        {"gamma": True},
        {"degree": 0},
        {"degree": 2.5},
        {"degree": "3"},
        {"coef0": np.nan},
        {"coef0": None},
        {"memory_limit": 0},
        {"memory_limit": "2G"},
        {"C": 0},
        {"C": np.inf},
        {"tol": -1},
        {"max_iter": 0},
        {"max_seconds": 0},
        {"fit_intercept": 1},
        {"multi_class": "crammer_singer"},
        {"loss": "log"},
        {"solver": "sgd"},
    ],
    ids=str,
)
def test_bad_parameters_get_one_clear_sentence(parameters):
    name, value = next(iter(parameters.items()))
    with pytest.raises(ValueError, match=rf"^{name} must be .*got") as caught:
        SVC(**parameters).fit(X2, Y2)
    assert repr(value) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("parameters", [{"kernel": "sigmoid"}, {"kernel": "poly", "coef0": -1.0}], ids=str)
def test_kernels_that_are_not_positive_are_refused(parameters):
    with pytest.raises(ValueError, match="not positive semidefinite: its problem is not convex"):
        SVC(**parameters).fit(X2, Y2)


def test_a_callable_that_is_no_kernel_is_refused():
    with pytest.raises(ValueError, match="not positive semidefinite"):
        SVC(lambda A, B: -(A @ B.T)).fit(X2, Y2)


@pytest.mark.parametrize("kernel, gamma", [("rbf", 3.0), ("wendland", 2.0)])
def test_few_features_and_small_supports_make_products_cheap(kernel, gamma, monkeypatch, capsys):
    """The same model by conjugate gradients on boxes or on CSR, chosen by themselves where there are many samples."""
    monkeypatch.setattr("primalsvm.svc.MANY", 2000)
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (3000, 2))
    y = np.where(np.sin(3 * X[:, 0]) + X[:, 1] + 0.5 * rng.standard_normal(3000) > 0, 1, -1)
    settings = {"kernel": kernel, "gamma": gamma, "loss": "squared_hinge", "tol": 1e-5}
    cheap = SVC(**settings, verbose=1).fit(X, y)
    assert "products with this kernel matrix are cheap" in capsys.readouterr().out
    rows = SVC(**settings, solver="smo").fit(X, y)
    assert (cheap.solver_.name, rows.solver_.name) == ("conjugate_gradient", "smo")
    assert cheap.certificate_.relative_gap <= 1e-5
    assert cheap.certificate_.primal == pytest.approx(rows.certificate_.primal, rel=2e-5)
    assert SVC(**(settings | {"loss": "hinge"})).fit(X, y).solver_.name == "smo"
    three = SVC(**(settings | {"tol": 1e-3}), solver="conjugate_gradient").fit(X, y + (X[:, 0] > 1))
    assert three.status_ == "converged" and certify(three, X, y + (X[:, 0] > 1)).relative_gap <= 1e-3


# --- prediction in two precisions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize(("classes", "multi_class"), [(2, "ovo"), (4, "ovo"), (4, "ovr"), (7, "ovo")])
def test_predict_says_what_the_decision_function_says(classes, multi_class, storage, dtype):
    rng = np.random.default_rng(classes)
    X = rng.standard_normal((600, 40)) * (rng.random((600, 40)) < 0.2)
    y = rng.integers(classes, size=600)
    X[np.arange(600), y] += 1.0
    X = storage(X.astype(dtype))
    model = SVC(C=10.0, multi_class=multi_class).fit(X[:400], y[:400])
    decision = model.decision_function(X)
    expected = (decision > 0).astype(int) if classes == 2 else decision.argmax(axis=1)
    np.testing.assert_array_equal(model.predict(X), expected)


@pytest.mark.parametrize("halvings", [20, 60])
@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_doubtful_predictions_are_made_in_float64(multi_class, halvings, monkeypatch):
    """Rows near the border between two classes are computed again; for those on it, to the last bit, all are."""
    X, y = iris()
    model = SVC(C=10.0, multi_class=multi_class, gamma=0.1).fit(X, y)
    border = []
    for a, b in ((X[10], X[60]), (X[60], X[110]), (X[20], X[120])):
        first = model.classes_[np.atleast_2d(model.decision_function([a])).argmax()]
        for _ in range(halvings):  # halve the way between two rows of different classes
            middle = 0.5 * (a + b)
            same = model.classes_[np.atleast_2d(model.decision_function([middle])).argmax()] == first
            a, b = (middle, b) if same else (a, middle)
        border += [a, b]
    rows = np.vstack([X, border])
    asked, sums = [], SVC._sums
    monkeypatch.setattr(SVC, "_sums", lambda self, X: asked.append(len(X)) or sums(self, X))
    found = model.predict(rows)
    assert 3 <= asked[0] <= 40 and asked[1:] == ([] if halvings == 20 else [len(rows)])
    np.testing.assert_array_equal(found, model.classes_[model.decision_function(rows).argmax(axis=1)])


def test_rough_scores_are_within_their_error():
    """Against a hundred digits; many functions have a looser bound than few."""
    rng = np.random.default_rng(0)
    for functions, offset, size in ((1, 0.0, 1.0), (1, 50.0, 1e250), (6, 0.0, 1e-250), (6, 3.0, 1e3)):
        vectors, X = rng.standard_normal((30, 6)) + offset, rng.standard_normal((8, 6)) + offset
        coef = size * rng.standard_normal((functions, 30)) * 10.0 ** rng.uniform(-6, 2, (functions, 30))
        found = expand_roughly(Kernel("rbf", 0.25), vectors, coef, X)
        worst = 0.0
        with localcontext(prec=100):
            for i, p in np.ndindex(8, functions):
                truth = Decimal(0)
                for z, weight in zip(vectors, coef[p], strict=True):
                    square = sum((Decimal(a) - Decimal(b)) ** 2 for a, b in zip(X[i].tolist(), z.tolist(), strict=True))
                    truth += Decimal(float(weight)) * (-Decimal("0.25") * square).exp()
                off = abs(Decimal(float(found[0][i, p])) - truth)
                assert off <= Decimal(float(found[1][i, p]))
                worst = max(worst, float(off / Decimal(float(found[1][i, p]))))
        assert worst > 1e-4


@pytest.mark.parametrize("seed", range(20))
def test_sure_winners_are_winners_whatever_the_errors_are(seed):
    rng = np.random.default_rng(seed)
    classes, multi_class = int(rng.integers(2, 6)), str(rng.choice(["ovo", "ovr"]))
    parts = 1 if classes == 2 else classes * (classes - 1) // 2 if multi_class == "ovo" else classes
    scores, error = rng.standard_normal((200, parts)), rng.uniform(0, 0.5, (200, parts))
    best, sure = sure_winners(scores, error, classes, multi_class)
    assert 0 < sure.sum() < 200
    for _ in range(50):
        shifted = scores + error * rng.choice((-1.0, 1.0), error.shape)
        np.testing.assert_array_equal(winners(join(shifted, classes, multi_class))[sure], best[sure])


def made_by_hand(vectors, coef, intercept, multi_class, gamma):
    """A model with these coefficients."""
    model = SVC(gamma=gamma, multi_class=multi_class)
    model.kernel_, model.dual_coef_, model.intercept_ = Kernel("rbf", gamma), coef, intercept
    model.classes_ = np.arange(max(2, len(coef)))
    model.support_vectors_, model.support_ = vectors, np.arange(len(vectors))
    model.support_class_, model.n_features_in_ = np.zeros(len(vectors), dtype=int), vectors.shape[1]
    return model


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("count", "d", "every"), [(60, 3, 5), (301, 5, 400), (33, 40, 7), (301, 17, 3)])
def test_ties_to_the_last_digit_are_broken_alike(count, d, every, seed):
    """Vectors of one class are the mirror images of the other's, and some rows lie on the mirror."""
    rng = np.random.default_rng(seed)
    Z, c = rng.standard_normal((count, d)), rng.random(count)
    mirrored = np.where(np.arange(d) == 0, -Z, Z)
    X = rng.standard_normal((401, d))
    X[1::every, 0] = 0.0
    two = made_by_hand(np.vstack([Z, mirrored]), np.concatenate([c, -c])[None], np.zeros(1), "ovo", 0.5 / d)
    np.testing.assert_array_equal(two.predict(X), two.decision_function(X) > 0)
    coef = np.zeros((3, 2 * count + 20))
    coef[0, :count], coef[1, count : 2 * count], coef[2, 2 * count :] = c, c, 0.01
    vectors = np.vstack([Z, mirrored, rng.standard_normal((20, d))])
    three = made_by_hand(vectors, coef, np.zeros(3), "ovr", 0.5 / d)
    np.testing.assert_array_equal(three.predict(X), three.decision_function(X).argmax(axis=1))


def test_an_intercept_that_swallows_the_scores():
    """Far from all vectors scores are 1e-13, and 1 plus them is rounded."""
    rng = np.random.default_rng(0)
    Z, c, coef = rng.standard_normal((20, 3)), rng.random(20), np.zeros((3, 60))
    coef[0, :20], coef[1, 20:40], coef[2, 40:] = c, c, -c
    vectors = np.vstack([Z, Z * [-1, 1, 1], rng.standard_normal((20, 3))])
    model = made_by_hand(vectors, coef, np.full(3, -1.0), "ovr", 1.0)
    X = rng.standard_normal((20_000, 3))
    X[:, 0] = 0.0
    X *= rng.uniform(6.0, 8.0, len(X))[:, None] / np.linalg.norm(X, axis=1)[:, None]
    scores, error = expand_roughly(*model._expansion(X))
    best, sure = model._sure(scores, error)
    expected = model.decision_function(X).argmax(axis=1)
    np.testing.assert_array_equal(best[sure], expected[sure])
    np.testing.assert_array_equal(model.predict(X), expected)
