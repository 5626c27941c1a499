"""Models along a grid of C: the same as one by one, proven one by one, and cheaper together."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from primalsvm import SVC, LinearSVC, kernel_path, linear_path

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
    assert together < 0.85 * alone


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


# every C of a range ---------------------------------------------------------------------------------------------------
def value_at(model, X, y, C, weight=None):
    """P_C of a model's functions: |f|^2 / 2 does not know C, the losses are proportional to it."""
    fixed = model._prepare(X, y, weight)
    problems = [model._problem(fixed, part) for part in fixed.parts]
    starts = model._solutions(fixed, model.C)
    return sum(
        problem.with_cost(problem.cost * (C / model.C)).primal(start.f, start.b)
        for problem, start in zip(problems, starts, strict=True)
    )


@pytest.mark.parametrize("cover", [0.3, 0.03])
@pytest.mark.parametrize("fit_intercept", [False, True, "penalized"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "huber"])
@pytest.mark.parametrize("kernel", [False, True])
def test_for_every_c_of_the_range_a_model_is_as_good_as_promised(kernel, loss, fit_intercept, cover):
    X, y = data(n=150, d=4, classes=3 if fit_intercept is True else 2, seed=3)
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    settings = {"loss": loss, "fit_intercept": fit_intercept}
    low, high = 0.02, 50.0
    if kernel:
        models = kernel_path(X, y, C=[high, low], gamma=0.3, sample_weight=weight, cover=cover, **settings)
    else:
        models = linear_path(X, y, C=[high, low], sample_weight=weight, cover=cover, **settings)
    assert models[0].covers_[0] == low and models[-1].covers_[1] == high
    assert all(a.C < b.C and a.covers_[1] >= b.covers_[0] for a, b in pairwise(models))
    inside = np.exp(np.random.default_rng(1).uniform(np.log(low), np.log(high), 6))
    borders = [model.covers_[1] for model in models]
    for C in [*inside, *borders[:: max(1, len(borders) // 3)]]:
        covering = [model for model in models if model.covers_[0] <= C <= model.covers_[1]]
        assert covering
        exact = clone(models[0]).set_params(C=C, tol=1e-8).fit(X, y, sample_weight=weight).certificate_
        for model in covering:
            assert value_at(model, X, y, C, weight) * (1 - cover) <= exact.primal * (1 + 1e-9)


def test_a_smaller_cover_takes_more_models_and_few_even_so():
    X, y = data(n=400)
    counts = [len(linear_path(X, y, C=[1e-3, 1e3], cover=cover)) for cover in (0.3, 0.1, 0.01)]
    assert counts[0] < counts[1] < counts[2] < 80
    (one,) = linear_path(X, y, C=[1.0], cover=0.1)
    assert one.covers_ == (1.0, 1.0)


def test_a_range_that_ends_cannot_be_covered_by_less_than_nothing():
    X, y = data(n=100)
    for cover in (0.0, 1.0, -1.0):
        with pytest.raises(ValueError, match="cover must be"):
            linear_path(X, y, C=[0.1, 1.0], cover=cover)


# kernels --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("memory_limit", [2**31, 1e5])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_kernel_models_are_as_good_as_ones_fitted_alone(loss, memory_limit):
    X, y = data(n=300, classes=3)
    gammas, grid = [0.3, "scale", 0.02], [10.0, 0.1, 1.0]
    settings = {"loss": loss, "tol": 1e-5, "memory_limit": memory_limit}
    models = kernel_path(X, y, C=grid, gamma=gammas, **settings)
    assert [(model.gamma, model.C) for model in models] == [(gamma, C) for gamma in gammas for C in grid]
    for model in models:
        alone = SVC(C=model.C, gamma=model.gamma, **settings).fit(X, y).certificate_
        assert model.certificate_.relative_gap <= 1e-5
        assert alone.dual <= model.certificate_.primal and model.certificate_.dual <= alone.primal


def test_kernel_path_refuses_what_it_cannot_do():
    X, y = data(n=100)
    with pytest.raises(ValueError, match="exact kernels"):
        kernel_path(X, y, C=[1.0], approximation="random")
    with pytest.raises(ValueError, match="C must be"):
        kernel_path(X, y, C=[])
    with pytest.raises(ValueError, match="gamma must be"):
        kernel_path(X, y, C=[1.0], gamma=[0.1, -1.0])
