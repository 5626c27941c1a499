"""Models along a grid of C: the same as one by one, proven one by one, and cheaper together."""

import numpy as np
import pytest
import scipy.sparse as sp

from primalsvm import LinearSVC, linear_path

GRID = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]


def data(n=3000, d=20, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    scores = X @ rng.standard_normal((d, classes)) + 2.0 * rng.standard_normal((n, classes))
    return X, scores.argmax(axis=1)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "huber"])
@pytest.mark.parametrize("solver", ["newton", "dual_coordinate_ascent"])
@pytest.mark.parametrize("fit_intercept", [False, True, "penalized"])
def test_every_model_is_as_good_as_one_fitted_alone(loss, solver, fit_intercept):
    X, y = data(n=800)
    settings = {"loss": loss, "solver": solver, "fit_intercept": fit_intercept, "tol": 1e-4}
    for C, model in zip(GRID, linear_path(X, y, C=GRID, **settings), strict=True):
        assert (model.C, model.status_) == (C, "converged")
        assert model.certificate_.relative_gap <= 1e-4
        alone = LinearSVC(C=C, **settings).fit(X, y).certificate_
        assert alone.dual <= model.certificate_.primal and model.certificate_.dual <= alone.primal


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_together_they_take_less_than_alone(loss):
    X, y = data(n=6000)
    settings = {"loss": loss, "tol": 1e-6}
    together = sum(model.history_[-1].passes for model in linear_path(X, y, C=GRID, **settings))
    alone = sum(LinearSVC(C=C, **settings).fit(X, y).history_[-1].passes for C in GRID)
    assert together < 0.8 * alone


def test_the_order_is_that_of_the_grid_and_repeats_are_solved_once():
    X, y = data(n=300)
    models = linear_path(X, y, C=[1.0, 0.1, 10.0, 0.1])
    assert [model.C for model in models] == [1.0, 0.1, 10.0, 0.1]
    assert models[1] is models[3]


def test_more_classes_weights_names_and_sparse_data():
    pandas = pytest.importorskip("pandas")
    X, y = data(n=600, classes=4)
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    models = linear_path(sp.csr_array(X), y, C=GRID, sample_weight=weight, loss="hinge")
    assert all(len(model.certificate_.parts) == 4 for model in models)
    kept = weight > 0
    repeated = LinearSVC("hinge", C=GRID[-1]).fit(np.repeat(X[kept], weight[kept].astype(int), axis=0),
                                                  np.repeat(y[kept], weight[kept].astype(int)))  # fmt: skip
    assert repeated.certificate_.primal == pytest.approx(models[-1].certificate_.primal, rel=2e-3)
    frame = pandas.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    (model,) = linear_path(frame, y, C=[1.0])
    assert list(model.feature_names_in_) == list(frame.columns)
    assert model.predict(frame).shape == y.shape


@pytest.mark.parametrize("wrong", [[], [1.0, 0.0], [-1.0], [np.inf], [np.nan]])
def test_a_bad_grid_gets_a_sentence(wrong):
    X, y = data(n=50)
    with pytest.raises(ValueError, match=r"^C must be a sequence of finite numbers above 0, got"):
        linear_path(X, y, C=wrong)


def test_other_bad_parameters_get_theirs():
    X, y = data(n=50)
    with pytest.raises(ValueError, match=r"^tol must be"):
        linear_path(X, y, C=[1.0], tol=-1.0)
