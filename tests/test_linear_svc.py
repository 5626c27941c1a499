"""LinearSVC: scikit-learn's checks, its own promises, bad input."""

import _thread
import threading
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from primalsvm import Huber, LinearSVC, Record, certify
from primalsvm.solve import Solver
from primalsvm.solvers import DualCoordinateAscent, GradientDescent, Newton, Pegasos

pytestmark = pytest.mark.filterwarnings("ignore:.*SCIPY_ARRAY_API.*")


@parametrize_with_checks(
    [
        LinearSVC(),
        LinearSVC("hinge"),
        LinearSVC(Huber(0.1)),
        LinearSVC(multi_class="ovo"),
        LinearSVC(fit_intercept="penalized"),
        LinearSVC(solver="dual_coordinate_ascent", tol=1e-13),
    ]
)
def test_scikit_learn_checks(estimator, check):
    """All of them, sample-weight equivalence included; none is expected to fail."""
    with warnings.catch_warnings():
        # tol=1e-13 asks for more than float64 always has; the checks are about the interface
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), np.array(["setosa", "versicolor", "virginica"])[y]


def hard():
    """Large enough, and noisy enough, that few steps do not solve it."""
    X, y = make_classification(4000, 40, n_informative=20, flip_y=0.3, random_state=0)
    return X, y


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "huber"])
@pytest.mark.parametrize("fit_intercept", [True, False, "penalized"])
def test_the_certificate_is_what_certify_says(loss, fit_intercept):
    X, y = cancer()
    model = LinearSVC(loss, fit_intercept=fit_intercept).fit(X, y)
    again = certify(model, X, y)
    assert model.status_ == "converged"
    assert model.certificate_.relative_gap <= 1e-3
    assert model.dual_gap_ == model.certificate_.gap
    assert again.primal == pytest.approx(model.certificate_.primal, rel=1e-12)
    # two proven intervals for the same minimum must meet
    assert again.dual <= model.certificate_.reachable and model.certificate_.dual <= again.reachable


def test_agrees_with_libsvm_where_the_problem_is_the_same():
    X, y = cancer()
    ours = LinearSVC("hinge", tol=1e-9).fit(X, y)
    theirs = SVC(kernel="linear", tol=1e-6).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-4)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=2e-4)


@pytest.mark.parametrize("multi_class, parts", [("ovr", 3), ("ovo", 3)])
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_more_than_two_classes(multi_class, parts, n_jobs):
    X, y = iris()
    model = LinearSVC("hinge", multi_class=multi_class, n_jobs=n_jobs).fit(X, y)
    assert model.coef_.shape == (parts, 4) and model.intercept_.shape == (parts,)
    assert len(model.certificate_.parts) == len(model.history_) == parts
    assert all(part.relative_gap <= 1e-3 for part in model.certificate_.parts)
    assert model.certificate_.primal == pytest.approx(sum(part.primal for part in model.certificate_.parts))
    assert model.decision_function(X).shape == (150, 3)
    assert set(model.predict(X)) == set(y)
    assert model.score(X, y) > 0.9


def test_threads_do_not_change_the_model():
    X, y = iris()
    one, two = (LinearSVC("hinge", solver="pegasos", max_iter=50, tol=0.5, n_jobs=j).fit(X, y) for j in (1, 2))
    np.testing.assert_array_equal(one.coef_, two.coef_)


def test_dual_coefficients_are_the_feasible_point_that_proves_the_bound():
    X, y = cancer()
    model = LinearSVC("hinge").fit(X, y)
    assert model.dual_coef_.shape == (1, len(model.support_))
    signs = np.where(y[model.support_] == 1, 1, -1)
    alpha = model.dual_coef_[0] * signs
    assert (alpha > 0).all() and (alpha <= 1.0).all()
    assert abs(model.dual_coef_.sum()) <= 1e-9
    w = model.dual_coef_[0] @ X[model.support_]
    assert alpha.sum() - w @ w / 2 == pytest.approx(model.certificate_.dual, rel=1e-9)


@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csc_matrix, sp.csr_array, np.asfortranarray, np.float32])
def test_storage_does_not_matter(make):
    X, y = cancer()
    X = np.round(X, 2)
    base = LinearSVC().fit(X, y)
    other = LinearSVC().fit(make(X), y)
    np.testing.assert_allclose(other.decision_function(make(X)), base.decision_function(X), rtol=1e-4, atol=1e-4)


def test_data_frames():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    X, y = load_iris(return_X_y=True, as_frame=True)
    expected = LinearSVC().fit(X.to_numpy(), y)
    for frame, labels in ((X, y), (polars.from_pandas(X), polars.from_pandas(y)), (X.astype("float32"), y)):
        model = LinearSVC().fit(frame, labels)
        assert list(model.feature_names_in_) == list(X.columns)
        assert (model.predict(frame) == expected.predict(X.to_numpy())).mean() > 0.99
    with pytest.raises(ValueError, match="feature names"):
        model.predict(pandas.DataFrame(X.to_numpy(), columns=list("abcd")))


def test_weights():
    X, y = hard()
    rng = np.random.default_rng(0)
    weight = rng.integers(0, 3, len(y)).astype(float)
    repeated = np.repeat(np.arange(len(y)), weight.astype(int))
    weighted = LinearSVC(tol=1e-8).fit(X, y, sample_weight=weight)
    rows = LinearSVC(tol=1e-8).fit(X[repeated], y[repeated])
    assert weighted.certificate_.primal == pytest.approx(rows.certificate_.primal, rel=2e-8)
    doubled = LinearSVC(C=2.0, tol=1e-8).fit(X, y)
    by_class = LinearSVC(class_weight={0: 2.0, 1: 2.0}, tol=1e-8).fit(X, y)
    assert doubled.certificate_.primal == pytest.approx(by_class.certificate_.primal, rel=2e-8)
    share = np.where(y == 1, 0.5 / (y == 1).mean(), 0.5 / (y == 0).mean())
    balanced = LinearSVC(class_weight="balanced", tol=1e-8).fit(X, y)
    by_hand = LinearSVC(tol=1e-8).fit(X, y, sample_weight=share)
    assert balanced.certificate_.primal == pytest.approx(by_hand.certificate_.primal, rel=2e-8)


@pytest.mark.parametrize(
    "solver", ["auto", "newton", "dual_coordinate_ascent", "projected_gradient", "gradient_descent"]
)
def test_solvers_by_name(solver):
    X, y = cancer()
    model = LinearSVC("huber", solver=solver, max_iter=20_000).fit(X, y)
    assert model.status_ == "converged"
    assert isinstance(model.solver_, Solver)


def test_many_classes_are_no_regression():
    """scikit-learn warns where more than half of y are different; thirty classes of ten samples are not."""
    rng = np.random.default_rng(0)
    y = np.arange(300) % 30
    assert LinearSVC(tol=0.1).fit(rng.normal(size=(300, 3)) + y[:, None], y).coef_.shape == (30, 3)
    with pytest.warns(UserWarning, match="could represent a regression problem"):
        LinearSVC(tol=0.1).fit(rng.normal(size=(30, 3)), np.arange(30) % 25)


def test_solver_objects_and_seeds():
    X, y = hard()
    model = LinearSVC("hinge", C=1e-3, solver=Pegasos(batch=100, seed=5), max_iter=3, tol=0.9)
    assert clone(model).get_params()["solver"] == Pegasos(batch=100, seed=5)
    assert model.fit(X, y).solver_ == Pegasos(batch=100, seed=5)
    assert model.set_params(random_state=1).fit(X, y).solver_.seed not in (0, 5)
    coefs = [
        LinearSVC("hinge", C=1e-3, solver="pegasos", max_iter=3, tol=0.9, random_state=r).fit(X, y).coef_
        for r in (1, 1, 2)
    ]
    np.testing.assert_array_equal(coefs[0], coefs[1])
    assert not np.array_equal(coefs[0], coefs[2])
    with pytest.raises(ValueError, match=r"pegasos needs a Lipschitz loss.*Solvers that accept it"):
        LinearSVC("squared_hinge", solver="pegasos").fit(X, y)


def test_auto_chooses_by_the_number_of_features():
    X, y = hard()
    assert isinstance(LinearSVC(tol=0.1).fit(X, y).solver_, Newton)
    wide = sp.random(50, 3000, density=0.01, random_state=0, format="csr")
    assert isinstance(LinearSVC(tol=0.1).fit(wide, y[:50]).solver_, DualCoordinateAscent)


def test_a_missed_tolerance_is_a_warning_with_the_gap_and_one_thing_to_try():
    X, y = hard()
    with pytest.warns(
        ConvergenceWarning, match=r"certified relative gap of [0-9.e+-]+, above tol=1e-09: raise max_iter=2"
    ):
        model = LinearSVC("hinge", solver="pegasos", tol=1e-9, max_iter=2).fit(X, y)
    assert model.status_ == "max_iter" and model.n_iter_ == 2
    with pytest.warns(ConvergenceWarning, match="raise max_seconds=0.1"):
        LinearSVC("hinge", solver="subgradient", tol=1e-12, max_iter=10**8, max_seconds=0.1).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="step size is too large"):
        LinearSVC(solver=GradientDescent(step_size=10.0), C=100.0).fit(X, y)
    X, y = iris()
    with pytest.warns(ConvergenceWarning, match="of 3 binary problems; worst: .* against the rest"):
        LinearSVC("hinge", solver="pegasos", tol=1e-9, max_iter=1).fit(X, y)


def test_callback_and_history():
    X, y = hard()
    seen = []
    model = LinearSVC(
        "hinge", solver="dual_coordinate_ascent", tol=1e-12, callback=lambda r: seen.append(r) or len(seen) >= 4
    )
    model.fit(X, y)  # stopped on request: no warning
    assert model.status_ == "stopped"
    assert all(isinstance(record, Record) for record in seen)
    assert model.history_[1:] == seen


def test_warm_start():
    X, y = hard()
    model = LinearSVC("hinge", solver="dual_coordinate_ascent", tol=1e-3, warm_start=True).fit(X, y)
    first = model.n_iter_
    model.fit(X, y)
    assert model.n_iter_ == 0 < first
    model.set_params(C=1.1).fit(X, y)
    assert model.certificate_.relative_gap <= 1e-3
    model.set_params(C=1e-3).fit(X[:100], y[:100])  # another shape: starts afresh
    assert model.n_samples_fit_ == 100
    assert model.certificate_.relative_gap <= 1e-3


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_ctrl_c_leaves_the_model_fitted_and_is_raised(n_jobs):
    X, y = iris()
    main, fired = threading.main_thread(), []

    class Interrupting(GradientDescent):
        name = "interrupting"

        def step(self, problem, state):
            super().step(problem, state)
            if threading.current_thread() is main and state.passes >= 6:
                raise KeyboardInterrupt
            if threading.current_thread() is not main and not fired:
                fired.append(True)
                _thread.interrupt_main()

    model = LinearSVC(solver=Interrupting(), tol=0.0, max_iter=300, n_jobs=n_jobs)
    try:
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
    finally:
        Solver.registry.pop("interrupting")
    assert model.status_ == "interrupted"
    assert model.coef_.shape == (3, 4)
    assert np.isfinite(model.certificate_.primal)
    assert certify(model, X, y).primal == pytest.approx(model.certificate_.primal, rel=1e-12)


def test_scikit_learn_around_it():
    X, y = load_breast_cancer(return_X_y=True)
    pipe = make_pipeline(StandardScaler(), LinearSVC("hinge"))
    assert cross_val_score(pipe, X, y, cv=3).mean() > 0.95
    grid = GridSearchCV(pipe, {"linearsvc__C": [0.01, 1.0]}, cv=3).fit(X, y)
    assert certify(grid.best_estimator_, X, y).relative_gap < 1e-3
    assert "LinearSVC" in pipe._repr_html_()


def test_metadata_routing():
    import sklearn

    X, y = cancer()
    with sklearn.config_context(enable_metadata_routing=True):
        model = LinearSVC().set_fit_request(sample_weight=True)
        pipe = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
        pipe.fit(X, y, sample_weight=np.where(y == 1, 3.0, 1.0))
    plain = LinearSVC().fit(X, y)
    assert not np.allclose(pipe[-1].coef_, plain.coef_)


X2 = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.2]])
Y2 = np.array([0, 1, 1, 0])


@pytest.mark.parametrize(
    "X, y, weight, sentence",
    [
        (np.array([[np.nan, 1.0], [1.0, 0.0]]), [0, 1], None, "NaN"),
        (np.array([[np.inf, 1.0], [1.0, 0.0]]), [0, 1], None, "infinity"),
        (X2, [1, 1, 1, 1], None, "only one class: "),
        (np.empty((0, 2)), [], None, "0 sample"),
        (X2, Y2[:3], None, "inconsistent numbers of samples"),
        (np.array([["a", "b"], ["c", "d"]]), [0, 1], None, "could not convert string to float|dtype"),
        (X2, [0.1, 0.2, 0.3, 0.4], None, "continuous"),
        (X2, Y2, [1.0, -1.0, 1.0, 1.0], "Negative values"),
        (X2, Y2, np.zeros(4), "zero"),
        (X2, Y2, [0.0, 1.0, 1.0, 0.0], "only one class: "),
        (X2, Y2, [1.0, 1.0], "sample_weight"),
        (X2[0], Y2, None, "1D array"),
    ],
)
def test_bad_data_gets_one_clear_sentence(X, y, weight, sentence):
    with pytest.raises(ValueError, match=sentence):
        LinearSVC().fit(X, y, sample_weight=weight)


@pytest.mark.parametrize(
    "parameters",
    [
        {"C": 0},
        {"C": -1.0},
        {"C": np.inf},
        {"C": "1"},
        {"C": True},
        {"tol": -1},
        {"tol": np.nan},
        {"max_iter": 0},
        {"max_iter": 2.5},
        {"max_seconds": 0},
        {"fit_intercept": "free"},
        {"fit_intercept": 1},
        {"multi_class": "crammer_singer"},
        {"loss": "log"},
        {"solver": "sgd"},
    ],
)
def test_bad_parameters_get_one_clear_sentence(parameters):
    name, value = next(iter(parameters.items()))
    with pytest.raises(ValueError, match=rf"^{name} must be .*got") as caught:
        LinearSVC(**parameters).fit(X2, Y2)
    assert repr(value) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_only_points_that_matter_are_support_vectors():
    """A sample beyond the margin has no dual variable, not one of 1e-17 that the balancing of alpha left behind."""
    X, y = cancer()
    model = LinearSVC("hinge").fit(X, y)
    margins = np.where(y == 1, 1, -1) * model.decision_function(X)
    assert (margins[model.support_] <= 1 + 1e-6).all()
    assert set(np.flatnonzero(margins < 1 - 1e-6)) <= set(model.support_)
