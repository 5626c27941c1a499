"""Leave-one-out from one model: the truth where no sample changes sides, close to it elsewhere, on every route."""

import os
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import problems
import pytest
import scipy.sparse as sp
from drawn import every_intercept, for_all, seeds
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from primalsvm import SVC, KernelProblem, LinearProblem, LinearSVC, Start, as_chunks, leave_one_out, loo, solve
from primalsvm import left_out as module
from primalsvm.kernel_matrix import StoredKernel, TiledKernel
from primalsvm.kernels import Kernel
from primalsvm.left_out import _sides, fold_scores, loo_scores
from primalsvm.loo import LeaveOneOut
from primalsvm.losses import Hinge, Huber, SquaredHinge
from primalsvm.matrix import Dense, as_matrix
from primalsvm.reduced import Mapped, make_basis
from primalsvm.solvers import Newton

LOSSES = {"hinge": Hinge(), "squared_hinge": SquaredHinge(), "huber": Huber(0.3)}
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
every_problem = pytest.mark.parametrize("make", [problems.make, problems.make_kernel], ids=["linear", "kernel"])
SMOOTH = 1e-8  # of a change: the fits are right to 1e-13 in P, and their scores to the root of it at worst ...
ROUGH = 1e-4  # ... which is what the hinge's are


def solved(problem):
    """(f, b, alpha) to as many digits as there are."""
    result = solve(problem, Newton(), tol=1e-14, max_iter=1000)
    return result.f, result.b, result.alpha


def without(problem, out):
    """The same problem, these samples without cost: as if they were not there."""
    cost = problem.cost.copy()
    cost[out] = 0.0
    return replace(problem, cost=cost)


def sides(problem, f, b, alpha):
    """0 for alpha = 0, 1 for the curved ones, 2 at the bound."""
    curved, alpha = _sides(problem, problem.scores(f) + b, alpha)
    out = np.where(alpha > 0, 2, 0)
    out[curved] = 1
    return out


def true_scores(problem, folds=None):
    """(scores by true fits, whether nobody changed sides) of every sample."""
    folds = np.arange(problem.n) if folds is None else folds
    before = sides(problem, *solved(problem))
    scores, exact = np.empty(problem.n), np.zeros(problem.n, dtype=bool)
    for fold in np.unique(folds):
        out = folds == fold
        rest = without(problem, out)
        found = solved(rest)
        scores[out] = problem.scores(found[0])[out] + found[1]
        exact[out] = np.array_equal(sides(rest, *found)[~out], before[~out])
    return scores, exact


def draw(seed, kind, loss, intercept, n=14, d=3):
    """A small random problem with weights, some of them zero, and a duplicated row."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X[1] = X[0]
    y = np.where(X[:, 0] + rng.standard_normal(n) > 0, 1.0, -1.0)
    y[:2], y[2] = 1.0, -1.0
    cost = rng.uniform(0.2, 3.0, n) * (rng.random(n) < 0.9)
    cost[:3] = 1.0
    facts = {"y": y, "cost": cost, "loss": loss, "intercept": intercept, "intercept_scaling": 1.5}
    if kind == "linear":
        return LinearProblem(**facts, X=as_matrix(X))
    return KernelProblem(**facts, K=TiledKernel(Kernel("rbf", 0.5), X).array())


# --- the truth --------------------------------------------------------------------------------------------------------


@every_problem
@every_loss
@every_intercept
@pytest.mark.parametrize("name", ["overlapping", "duplicated", "weights", "wide", "zero_row", "small_C"])
def test_where_nobody_changes_sides_it_is_the_truth(make, loss, intercept, name):
    problem = make(name, loss, intercept)
    f, b, alpha = solved(problem)
    plain, found = problem.scores(f) + b, loo_scores(problem, f, b, alpha)
    true, exact = true_scores(problem)
    exact &= sides(problem, f, b, alpha) > 0
    change = np.maximum(np.abs(true - plain), 0.01)  # less is a matter of the fits' own digits
    assert np.all((np.abs(found - true) <= (SMOOTH if loss.smooth else ROUGH) * change)[exact])


@every_problem
def test_the_cases_above_are_many(make):
    """Or they would say nothing: so many samples move by so much and are the truth."""
    moved = 0
    for name in ("overlapping", "duplicated", "weights", "small_C"):
        for loss in (SquaredHinge(), Huber(0.3)):
            problem = make(name, loss, "penalized")
            f, b, _ = solved(problem)
            true, exact = true_scores(problem)
            moved += np.count_nonzero(exact & (np.abs(true - problem.scores(f) - b) > 1e-3))
    assert moved >= 30


@for_all(seed=seeds)
@pytest.mark.parametrize("kind", ["linear", "kernel"])
@pytest.mark.parametrize("loss", [SquaredHinge(), Huber(0.5)], ids=["squared_hinge", "huber"])
@every_intercept
def test_it_is_the_truth_on_random_problems_too(kind, loss, intercept, seed):
    problem = draw(seed, kind, loss, intercept)
    f, b, alpha = solved(problem)
    true, exact = true_scores(problem)
    off = np.abs(loo_scores(problem, f, b, alpha) - true)
    assert np.all(off[exact] <= 1e-6 * np.maximum(np.abs(true - problem.scores(f) - b)[exact], 0.1))


# --- more than one step, where the sign is in doubt -------------------------------------------------------------------

smooth_losses = pytest.mark.parametrize("loss", [SquaredHinge(), Huber(0.5)], ids=["squared_hinge", "huber"])


def settled(problem, monkeypatch, everyone=False):
    """(scores, one step's, whose are settled) where all samples are in doubt, and `everyone` may change sides."""
    solution, ended = solved(problem), []
    monkeypatch.setattr(module, "DOUBT", 0.0)
    plain, once = module.leave_out(problem, *solution)
    with monkeypatch.context() as patch:
        patch.setattr(module, "DOUBT", 1e300)
        patch.setattr(module, "ROUNDS", 300)
        patch.setattr(module, "STILL", 1e-10)
        for route in (module._Samples, module._Features):
            if everyone:
                patch.setattr(route, "reach", lambda self, cols, force: np.full(self.rows.n, np.inf))
        work = module.settle
        patch.setattr(module, "settle", lambda *facts: ended.append(work(*facts)) or ended[-1])
        scores = loo_scores(problem, *solution)
    whose = np.flatnonzero(once != plain)
    return scores, once, whose[np.isfinite(ended[0])] if ended else whose[:0]


@for_all(seed=seeds)
@pytest.mark.parametrize("kind", ["linear", "kernel"])
@smooth_losses
@every_intercept
def test_what_has_settled_is_the_truth(kind, loss, intercept, seed):
    problem = draw(seed, kind, loss, intercept)
    with pytest.MonkeyPatch.context() as patch:
        scores, _, whose = settled(problem, patch, everyone=True)
    true, _ = true_scores(problem)
    plain = problem.scores((found := solved(problem))[0]) + found[1]
    assert np.all(np.abs(scores - true)[whose] <= 1e-5 * np.maximum(np.abs(true - plain), 0.1)[whose])


@pytest.mark.parametrize("shape", [(40, 60), (40, 5)], ids=["wide", "tall"])
@smooth_losses
@every_intercept
def test_most_settle_and_are_ten_times_closer_to_the_truth(shape, loss, intercept, monkeypatch):
    """With those alone taking part that the first step brings near another piece."""
    problem = draw(3, "linear", loss, intercept, *shape)
    scores, once, whose = settled(problem, monkeypatch)
    true, exact = true_scores(problem)
    moved = whose[~exact[whose]]
    assert len(moved) >= 5 and len(whose) >= 0.9 * np.count_nonzero(once != scores)
    errors = [np.sqrt(np.mean((each - true)[moved] ** 2)) for each in (scores, once)]
    assert errors[0] <= 0.1 * errors[1]


@smooth_losses
def test_doubtful_signs_are_those_of_true_fits(loss, monkeypatch):
    """More features than samples: each sample moves the model far. One step has some of the signs wrong."""
    wrong = {0.0: 0, module.DOUBT: 0}
    for seed in range(12):
        problem = draw(seed, "linear", loss, "free", 40, 60)
        solution, (true, _) = solved(problem), true_scores(problem)
        for doubt in wrong:
            monkeypatch.setattr(module, "DOUBT", doubt)
            wrong[doubt] += np.count_nonzero((loo_scores(problem, *solution) > 0) != (true > 0))
    once, more = wrong.values()
    assert more <= once / 2 and once >= 4


@every_intercept
@smooth_losses
@pytest.mark.parametrize("name", ["overlapping", "weights", "duplicated", "wide"])
def test_forces_move_scores_as_the_whole_hessian_says(name, loss, intercept):
    """Q = X H^-1 X' with the intercept as a feature, on both routes."""
    problem = problems.make(name, loss, intercept)
    f, b, alpha = solved(problem)
    curved = _sides(problem, problem.scores(f) + b, alpha)[0]
    X, weight = problems.dense(problem), np.zeros(problem.n)
    weight[curved] = problem.cost[curved] / loss.bend
    H = np.eye(X.shape[1])
    if intercept != "none":
        X, H = np.column_stack([X, np.ones(len(X))]), np.diag(np.append(np.ones(X.shape[1]), 0.0))
        H[-1, -1] = 0.0 if intercept == "free" else 1 / problem.intercept_scaling**2
    Q = X @ np.linalg.solve(H + X.T @ (weight[:, None] * X), X.T)
    everyone, some = np.arange(problem.n), np.arange(0, problem.n, 3)
    force = np.linspace(0.5, 2.0, len(some))
    for route in (module._Samples, module._Features):
        compliance = route(problem, module._Products(problem), curved)
        assert np.allclose(compliance.between(everyone, everyone), Q, rtol=1e-6, atol=1e-8)
        assert np.allclose(compliance.between(everyone, some), Q[:, some], rtol=1e-6, atol=1e-8)
        assert np.allclose(compliance.reach(some, force), np.max(np.abs(Q[:, some]) * force, axis=1), rtol=1e-6)


@pytest.mark.parametrize("limit", ["ROOM", "EFFORT"])
def test_doubts_that_take_too_much_stay(limit, monkeypatch):
    problem = draw(0, "linear", Huber(0.5), "free", 40, 60)
    monkeypatch.setattr(module, "DOUBT", 1e300)
    settled, solution = loo_scores(problem, *solved(problem)), solved(problem)
    monkeypatch.setattr(module, limit, 100)
    kept = loo_scores(problem, *solution)
    monkeypatch.setattr(module, "DOUBT", 0.0)
    assert np.array_equal(kept, loo_scores(problem, *solution)) and not np.allclose(kept, settled)


@every_problem
@every_loss
@every_intercept
def test_a_sample_without_alpha_keeps_its_score(make, loss, intercept):
    problem = make("weights", loss, intercept)
    f, b, alpha = solved(problem)
    nothing = sides(problem, f, b, alpha) == 0
    assert nothing[problem.cost == 0].all() and nothing.any()
    assert np.allclose(loo_scores(problem, f, b, alpha)[nothing], (problem.scores(f) + b)[nothing], rtol=1e-13, atol=0)


@every_problem
@every_loss
@every_intercept
def test_a_sample_that_is_left_out_never_gains(make, loss, intercept):
    problem = make("overlapping", loss, intercept)
    f, b, alpha = solved(problem)
    assert np.all(problem.y * (loo_scores(problem, f, b, alpha) - problem.scores(f) - b) <= 1e-12)


def test_another_sample_at_the_same_place_takes_over_at_the_hinge():
    """Both free: the span is zero, the matrix between them singular, and their scores stay."""
    X = np.array([[2.0, 0.5], [2.0, 0.5], [-1.0, 0.2], [-1.0, 0.2]])
    problem = LinearProblem(np.array([1.0, 1.0, -1.0, -1.0]), np.full(4, 10.0), Hinge(), "free", X=as_matrix(X))
    f, b, alpha = solved(problem)
    assert np.all((alpha > 1e-3) & (alpha < 9))
    assert np.allclose(loo_scores(problem, f, b, alpha), problem.scores(f) + b, atol=1e-6)


# --- every route and storage ------------------------------------------------------------------------------------------


@every_loss
@every_intercept
@pytest.mark.parametrize("name", ["overlapping", "weights", "duplicated", "wide"])
def test_features_and_samples_and_the_linear_kernel_agree(loss, intercept, name, monkeypatch):
    monkeypatch.setattr(module, "DOUBT", 0.0)
    problem = problems.make(name, loss, intercept)
    f, b, alpha = solved(problem)
    X = problems.dense(problem)
    facts = {"y": problem.y, "cost": problem.cost, "loss": loss, "intercept": intercept}
    kernel = KernelProblem(**facts, K=X @ X.T)
    curved = _sides(problem, problem.scores(f) + b, alpha)[0]
    rows = module._Products(problem)
    routes = [module._Samples(problem, rows, curved)]
    if loss.bend:
        routes.append(module._Features(problem, rows, curved))
    held = np.flatnonzero(_sides(problem, problem.scores(f) + b, alpha)[1])
    force = (problem.y * alpha)[held]
    found = [(problem.scores(f) + b)[held] - force * route.alone(held) for route in routes]
    found.append(loo_scores(kernel, problem.y * alpha, b, alpha)[held])
    for other in found[1:]:
        assert np.allclose(other, found[0], rtol=0, atol=1e-9 if loss.bend else 1e-5)
    fold = np.arange(0, problem.n, 2)
    blocks = [route.together(fold) for route in routes]
    for other in blocks[1:]:
        assert np.allclose(other, blocks[0], rtol=1e-8, atol=1e-9)


@every_intercept
@pytest.mark.parametrize("loss", [SquaredHinge(), Huber(0.3)], ids=lambda loss: loss.name)
@pytest.mark.parametrize("C", [0.01, 1.0, 1e3])
def test_float32_costs_next_to_nothing_where_it_is_taken(C, loss, intercept, monkeypatch):
    """A large matrix that D keeps well conditioned; with a large C it does not, and nothing is lost."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 6))
    y = np.where(rng.random(500) > 0.5, 1.0, -1.0)
    K = TiledKernel(Kernel("rbf", 0.2), X)
    problem = KernelProblem(y=y, cost=np.full(500, C), loss=loss, intercept=intercept, K=K)
    solution = solved(problem)
    seen, folds = [], np.arange(500) // 5
    work = module._Samples.__init__
    monkeypatch.setattr(module._Samples, "__init__", lambda self, *a: work(self, *a) or seen.append(self))
    monkeypatch.setattr(module, "MANY", 100)
    found = [loo_scores(problem, *solution), fold_scores(problem, *solution, folds)]
    monkeypatch.setattr(module, "MANY", 10**6)
    exact = [loo_scores(problem, *solution), fold_scores(problem, *solution, folds)]
    taken = seen[0].dtype == np.float32
    large = seen[0].size >= 100  # of the huber loss at a small C, nearly all are at the bound
    assert seen[-1].dtype == np.float64 and taken == (large and C < 1e3) and (large or loss.name == "huber")
    for some, all_digits in zip(found, exact, strict=True):
        moved = np.max(np.abs(problem.scores(solution[0]) + solution[1] - all_digits))
        np.testing.assert_allclose(some, all_digits, rtol=0, atol=1e-4 * moved if taken else 0)


def test_the_smaller_matrix_is_the_one_taken():
    wide, tall = (problems.make(name, SquaredHinge()) for name in ("wide", "overlapping"))
    for problem, kind in ((wide, module._Samples), (tall, module._Features)):
        f, b, alpha = solved(problem)
        curved = _sides(problem, problem.scores(f) + b, alpha)[0]
        assert isinstance(module._compliance(problem, module._Products(problem), curved), kind)


@every_loss
@every_intercept
@pytest.mark.parametrize("name", ["weights", "wide"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_storage_does_not_matter(loss, intercept, name, dtype):
    dense, csr = (problems.make(name, loss, intercept, storage, dtype) for storage in ("dense", "csr"))
    twice = replace(dense, X=as_matrix(problems.dense(dense)))
    f, b, alpha = solved(twice)
    expected = loo_scores(twice, f, b, alpha)
    for problem in (dense, csr):
        assert np.allclose(loo_scores(problem, f, b, alpha), expected, rtol=0, atol=1e-9 if loss.bend else 1e-5)
        folds = np.arange(problem.n) % 5
        found, wanted = (fold_scores(each, f, b, alpha, folds) for each in (problem, twice))
        assert np.allclose(found, wanted, rtol=0, atol=1e-8 if loss.bend else 1e-5)


@every_loss
def test_a_kernel_in_tiles_is_as_good_as_a_stored_one(loss, monkeypatch):
    X = np.random.default_rng(0).standard_normal((40, 3))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    kernel = Kernel("rbf", 0.3)
    stored = KernelProblem(y, np.ones(40), loss, K=StoredKernel(TiledKernel(kernel, X).array()))
    f, b, alpha = solved(stored)
    monkeypatch.setattr("primalsvm.kernel_matrix.SMALL", 0)
    for limit in (10_000.0, 2.0**20):  # room for the factor and for some of the rows, for all
        K = TiledKernel(kernel, X, memory_limit=limit)
        assert not K.held
        found = loo_scores(replace(stored, K=K), f, b, alpha)
        assert np.allclose(found, loo_scores(stored, f, b, alpha), rtol=0, atol=1e-9 if loss.bend else 1e-5)


@every_loss
@every_intercept
@pytest.mark.parametrize("size", [4, 25])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_features_of_a_basis_are_features(loss, intercept, size, dtype):
    """Mapped, whose gram speaks in other coordinates, against the same numbers as a plain matrix."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(30) > 0, 1.0, -1.0)
    basis = make_basis(Kernel("rbf", 0.3), X, np.arange(size), dtype)
    mapped = LinearProblem(y, np.ones(30), loss, intercept, X=Mapped(Dense(basis.values(X)), basis))
    plain = replace(mapped, X=as_matrix(mapped.X.toarray()))
    f, b, alpha = solved(plain)
    close = {"rtol": 0, "atol": 1e-8 if loss.bend else 1e-5}
    assert np.allclose(loo_scores(mapped, f, b, alpha), loo_scores(plain, f, b, alpha), **close)
    folds = np.arange(30) % 7
    found, wanted = (fold_scores(problem, f, b, alpha, folds) for problem in (mapped, plain))
    assert np.allclose(found, wanted, **close)


# --- folds ------------------------------------------------------------------------------------------------------------


@every_problem
@every_loss
@every_intercept
def test_a_fold_of_one_is_leave_one_out(make, loss, intercept):
    for name in ("overlapping", "weights", "wide", "tiny_class"):
        problem = make(name, loss, intercept)
        f, b, alpha = solved(problem)
        names = np.random.default_rng(0).permutation(problem.n)
        found = fold_scores(problem, f, b, alpha, names)
        assert np.allclose(found, loo_scores(problem, f, b, alpha), rtol=1e-6, atol=1e-9 if loss.bend else 1e-4)


@every_problem
@every_intercept
@pytest.mark.parametrize("loss", [SquaredHinge(), Huber(0.3)], ids=["squared_hinge", "huber"])
def test_where_nobody_changes_sides_folds_are_the_truth(make, loss, intercept):
    checked = 0
    for name in ("overlapping", "weights", "duplicated"):
        problem = make(name, loss, intercept)
        f, b, alpha = solved(problem)
        folds = np.arange(problem.n) // 2
        true, exact = true_scores(problem, folds)
        found = fold_scores(problem, f, b, alpha, folds)
        assert np.allclose(found[exact], true[exact], rtol=1e-6, atol=1e-7)
        checked += np.count_nonzero(exact)
    assert checked


@every_problem
@every_loss
@every_intercept
def test_all_samples_in_one_fold_leave_nothing_but_the_intercept(make, loss, intercept):
    """f^-F = 0; b is held where it is free, and is 0 with the rest where it is penalised."""
    problem = make("overlapping", loss, intercept)
    f, b, alpha = solved(problem)
    found = fold_scores(problem, f, b, alpha, np.zeros(problem.n))
    assert np.allclose(found, b if intercept == "free" else 0.0, atol=1e-6 if loss.bend else 1e-3)


# --- of a classifier --------------------------------------------------------------------------------------------------


@cache
def digits(n=45, classes=3):
    rng = np.random.default_rng(1)
    y = rng.integers(classes, size=n)
    return rng.standard_normal((n, 4)) + 1.5 * rng.standard_normal((classes, 4))[y], np.array(["a", "b", "c"])[y]


MODELS = {
    "linear": lambda **how: LinearSVC(tol=1e-10, **how),
    "rbf": lambda **how: SVC(tol=1e-10, gamma=0.3, solver="newton", **how),
    "reduced": lambda **how: SVC(tol=1e-10, gamma=0.3, approximation="random", n_basis=12, **how),
}
every_model = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)


@every_model
@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
@pytest.mark.parametrize("classes", [2, 3])
def test_scores_are_those_of_models_fitted_again(make, multi_class, classes):
    """Close to them for most samples, and the same predictions; the decision function is that of the estimator."""
    X, y = digits()
    X, y = X[np.isin(y, ["a", "b", "c"][:classes])], y[np.isin(y, ["a", "b", "c"][:classes])]
    model = make(loss="squared_hinge", multi_class=multi_class, C=0.05).fit(X, y)
    found = leave_one_out(model, X, y)
    plain = model.decision_function(X)
    assert found.scores.shape == plain.shape == ((len(y),) if classes == 2 else (len(y), 3))
    assert found.training_error == np.mean(model.predict(X) != y)
    if make is MODELS["reduced"]:
        return  # a basis is chosen anew in every fit: see below
    true = np.empty_like(plain)
    for i in range(len(y)):
        weight = np.ones(len(y))
        weight[i] = 0.0
        true[i] = make(loss="squared_hinge", multi_class=multi_class, C=0.05).fit(X, y, weight).decision_function(X)[i]
    off, change = np.abs(found.scores - true), np.abs(true - plain)
    moved = change > 1e-3
    assert np.median(off[moved]) <= 0.1 * np.median(change[moved]) and change.max() > 0.03
    told = model.classes_[(true > 0).astype(int) if classes == 2 else true.argmax(axis=1)]
    assert np.count_nonzero(found.predictions != told) <= 1
    assert np.array_equal(found.errors, found.predictions != y) and found.error == np.mean(found.errors)


@pytest.mark.parametrize("make", [MODELS["linear"], MODELS["rbf"]], ids=["linear", "rbf"])
def test_each_class_against_the_rest_is_the_truth_where_nobody_changes_sides(make):
    X, y = digits()
    model = make(loss="squared_hinge", multi_class="ovr", C=0.05).fit(X, y)
    found, plain = leave_one_out(model, X, y), model.decision_function(X)
    K = TiledKernel(Kernel("rbf", 0.3), X).array() if make is MODELS["rbf"] else X @ X.T
    moved = 0
    for k, name in enumerate(model.classes_):
        problem = KernelProblem(np.where(y == name, 1.0, -1.0), np.full(len(y), 0.05), SquaredHinge(), K=K)
        true, exact = true_scores(problem)
        assert np.allclose(found.scores[exact, k], true[exact], rtol=0, atol=1e-6)
        moved += np.count_nonzero(exact & (np.abs(true - plain[:, k]) > 1e-2))
    assert moved >= 10


def test_a_reduced_model_is_left_out_on_its_own_basis():
    """The true answer refits the features of the same basis; here by the problem, whose basis does not change."""
    X, y = digits()
    model = MODELS["reduced"](loss="squared_hinge", multi_class="ovr", C=0.5).fit(X, y)
    basis = make_basis(model.kernel_, X, model.support_, np.float64)
    found = leave_one_out(model, X, y)
    for k, name in enumerate(model.classes_):
        label = np.where(y == name, 1.0, -1.0)
        features = Mapped(Dense(basis.values(X)), basis)
        problem = LinearProblem(label, np.full(len(y), 0.5), SquaredHinge(), X=features)
        true, exact = true_scores(problem)
        assert exact.any() and np.allclose(found.scores[exact, k], true[exact], atol=1e-4)


def test_a_sample_that_is_not_of_a_pair_keeps_its_score_of_it():
    X, y = digits()
    model = LinearSVC(multi_class="ovo").fit(X, y)
    data = model._prepare(X, y, None)
    seen = []
    real = loo.join

    def spy(scores, *how):
        seen.append(scores.copy())
        return real(scores, *how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loo, "join", spy)
        leave_one_out(model, X, y)
    plain = X @ model.coef_.T + model.intercept_
    for k, part in enumerate(data.parts):
        others = np.setdiff1d(np.arange(len(y)), part.rows)
        assert np.allclose(seen[0][others, k], plain[others, k], rtol=1e-12, atol=1e-12)
        assert not np.allclose(seen[0][part.rows, k], plain[part.rows, k], atol=1e-3)


@every_model
@every_loss
def test_weights_sparse_rows_and_pipelines(make, loss):
    X, y = digits()
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    model = make(loss=loss, C=0.7, class_weight="balanced").fit(X, y, weight)
    found = leave_one_out(model, X, y, weight)
    assert found.error == pytest.approx(np.average(found.predictions != y, weights=weight))
    nothing = weight == 0
    assert np.allclose(found.scores[nothing], model.decision_function(X)[nothing], atol=1e-9)
    sparse = make(loss=loss, C=0.7, class_weight="balanced").fit(sp.csr_array(X), y, weight)
    again = leave_one_out(sparse, sp.csr_array(X), y, weight)
    assert np.allclose(again.scores, found.scores, atol=1e-6 if LOSSES[loss.name].smooth else 1e-2)
    piped = make_pipeline(StandardScaler(), make(loss=loss)).fit(X, y)
    scaled = StandardScaler().fit_transform(X)
    assert leave_one_out(piped, X, y).error == leave_one_out(piped[-1], scaled, y).error


def test_folds_of_a_classifier():
    X, y = digits()
    model = LinearSVC(C=0.5).fit(X, y)
    each = leave_one_out(model, X, y, folds=np.arange(len(y)))
    assert np.allclose(each.scores, leave_one_out(model, X, y).scores, atol=1e-9)
    assert not np.allclose(leave_one_out(model, X, y, folds=np.arange(len(y)) % 5).scores, each.scores, atol=1e-3)
    with pytest.raises(ValueError, match="folds must name the fold of each"):
        leave_one_out(model, X, y, folds=[0, 1])


@every_problem
@every_intercept
@pytest.mark.parametrize("loss", [Hinge(), Huber(0.3)], ids=["hinge", "huber"])
def test_an_alpha_that_is_a_trifle_off_its_bounds_is_known_all_the_same(make, loss, intercept):
    """A certificate's is: scaled, so that those at the bound lie a little below it, and projected, above zero."""
    problem = make("weights", loss, intercept)
    f, b, alpha = solved(problem)
    off = np.clip((1 - 1e-6) * alpha, 1e-8 * problem.cost, None)
    assert np.array_equal(sides(problem, f, b, off), sides(problem, f, b, alpha))
    assert np.allclose(loo_scores(problem, f, b, off), loo_scores(problem, f, b, alpha), atol=1e-4)


def test_a_loose_fit_is_good_enough():
    X, y = digits(400, 2)
    for loss in ("hinge", "huber", "squared_hinge"):
        loose, tight = (leave_one_out(SVC(loss=loss, tol=tol).fit(X, y), X, y).scores for tol in (1e-3, 1e-9))
        assert np.mean((loose > 0) != (tight > 0)) <= 0.02


def test_the_model_stays_as_it_was():
    pandas = pytest.importorskip("pandas")
    X, y = digits()
    frame = pandas.DataFrame(X, columns=list("wxyz"))
    for make in MODELS.values():
        model = make(loss="squared_hinge").fit(frame, y)
        before = set(vars(model))
        leave_one_out(model, frame, y)
        assert set(vars(model)) == before and list(model.feature_names_in_) == list("wxyz")


def test_pieces_are_as_good_as_the_whole(monkeypatch):
    X, y = digits()
    monkeypatch.setattr("primalsvm.chunks.PIECE_BYTES", 320)
    chunks = as_chunks(X, y)
    assert len(chunks.bounds) > 3
    for make in (MODELS["linear"], MODELS["reduced"]):
        for multi_class in ("ovr", "ovo"):
            whole = make(loss="squared_hinge", multi_class=multi_class).fit(X, y)
            found = leave_one_out(make(loss="squared_hinge", multi_class=multi_class).fit(chunks), chunks, None)
            assert np.allclose(found.scores, leave_one_out(whole, X, y).scores, atol=1e-4)


@pytest.mark.parametrize("kernel", ["rbf", "wendland", "linear", "precomputed", "callable"])
def test_every_kind_of_kernel_matrix(kernel):
    """Also those that are products first and rows second: they have rows all the same."""
    X, y = digits()
    X, y = X[:, :2], np.where(y == "a", "a", "b")
    given = X @ X.T if kernel == "precomputed" else X
    how = {"kernel": (lambda A, B: (A @ B.T + 1.0) ** 2) if kernel == "callable" else kernel, "gamma": 0.2}
    found = []
    for solver in ("newton", "conjugate_gradient", "smo"):
        model = SVC(loss="squared_hinge", solver=solver, tol=1e-8, C=0.3, **how).fit(given, y)
        found.append(leave_one_out(model, given, y).scores)
    assert np.ptp(found, axis=0).max() <= 1e-2


def test_rows_without_features_have_their_intercept():
    y = np.array([1.0, 1.0, 1.0, -1.0, -1.0])
    for loss in LOSSES.values():
        for intercept in ("none", "penalized", "free"):
            problem = LinearProblem(y, np.ones(5), loss, intercept, X=as_matrix(np.zeros((5, 2))))
            f, b, alpha = solved(problem)
            assert np.isfinite(loo_scores(problem, f, b, alpha)).all()
            assert np.isfinite(fold_scores(problem, f, b, alpha, np.arange(5) % 2)).all()


def test_the_benchmark_runs(capsys, tmp_path):
    import json
    import sys

    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from benchmarks import leave_one_out as benchmark

    benchmark.main(["--toy", "--repeats", "1", "--folds", "5", "--jsonl", str(tmp_path / "runs.jsonl")])
    text = capsys.readouterr().out
    assert text.count("5 folds:") == 4 and "points from the truth" in text and "of the fit in" in text
    for line in map(json.loads, (tmp_path / "runs.jsonl").read_text().splitlines()):
        assert abs(line["error"] - line["true_error"]) <= 5 and line["loo_scores"] > 0 and line["commit"]


def test_it_says_what_it_found():
    found = LeaveOneOut(np.zeros(4), np.zeros(4), np.array([True, False, False, False]), 0.25, 0.125)
    assert str(found) == "leave-one-out error 25.00% (1 of 4 samples), training error 12.50%"


# --- what is refused --------------------------------------------------------------------------------------------------


@every_model
def test_other_data_are_refused(make):
    X, y = digits()
    model = make(loss="squared_hinge").fit(X, y)
    other = X.copy()
    other[:5] += 1.0
    swapped = y.copy()
    swapped[[0, np.flatnonzero(y != y[0])[0]]] = swapped[[np.flatnonzero(y != y[0])[0], 0]]
    for wrong, sentence in (
        ((X[:-1], y[:-1]), "was fitted with 45 samples, X has 44"),
        ((X[:, :-1], y), "was fitted with 4 features, X has 3"),
        ((X, np.where(y == "a", "d", y)), "was fitted with the classes"),
        ((other, y), "these are not the data"),
        ((X, swapped), "these are not the data"),
        ((X, y, np.arange(45.0)), "these are not the data"),
    ):
        with pytest.raises(ValueError, match=sentence):
            leave_one_out(model, *wrong)
    with pytest.raises(ValueError, match=r"was fitted with C=1.0, and C is 2.0 now"):
        leave_one_out(model.set_params(C=2.0), X, y)


def test_other_models_are_refused():
    from sklearn.svm import LinearSVC as Another

    X, y = digits()
    with pytest.raises(TypeError, match="for primalsvm's LinearSVC and SVC, got LinearSVC"):
        leave_one_out(Another(), X, y)
    with pytest.raises(NotFittedError):
        leave_one_out(LinearSVC(), X, y)


def test_what_does_not_fit_into_memory_and_wrong_shapes_get_a_sentence():
    X, y = digits()
    label = np.where(y == "a", 1.0, -1.0)
    K = TiledKernel(Kernel("rbf", 0.3), X)
    problem = KernelProblem(label, np.ones(len(y)), SquaredHinge(), K=K)
    f, b, alpha = solved(problem)
    K.memory_limit = 8.0
    with pytest.raises(MemoryError, match=r"a matrix of \d+ samples, for which there is no room"):
        loo_scores(problem, f, b, alpha)
    with pytest.raises(ValueError, match=r"a solution of this problem has f \(45,\) and alpha \(45,\), got"):
        loo_scores(problem, f, b, alpha[:-1])


# --- public data ------------------------------------------------------------------------------------------------------
HOME = Path(os.environ.get("PRIMALSVM_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


@pytest.mark.skipif(not (HOME / "german").is_dir(), reason="the public data are not there: set PRIMALSVM_DATA")
@pytest.mark.parametrize("loss", ["squared_hinge", "huber"])
def test_german_is_within_half_a_point_of_the_truth(loss):
    import lzma

    from sklearn.datasets import load_svmlight_file

    with lzma.open(HOME / "german/german.numer_scale.xz", "rb") as file:
        X, y = load_svmlight_file(file)
    X = X.toarray()
    model = LinearSVC(loss).fit(X, y)
    found = leave_one_out(model, X, y)
    problem = LinearProblem(y, np.ones(len(y)), model.loss, X=as_matrix(X))
    f, b, alpha = solved(problem)
    true = problem.scores(f) + b
    for i in np.flatnonzero(alpha):
        rest = without(problem, i)
        again = solve(rest, Newton(), tol=1e-8, start=Start(f, b, rest.cost * problem.share(alpha)))
        true[i] = problem.scores(again.f, np.array([i]))[0] + again.b
    assert abs(found.error - np.mean(np.where(true > 0, 1.0, -1.0) != y)) <= 0.005
