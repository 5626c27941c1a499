"""Reduced expansions: features of a basis as a matrix, bases, and models that are proven against the exact problem."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import INTERCEPTS, LOSSES
from reference import optimum
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import rbf_kernel

from primalsvm import SVC, basis_choice, certify, reduced
from primalsvm.approximation import rows_of
from primalsvm.basis_choice import GROWTH, METHODS, HeldOut, Task, _eliminate, _growth, choose_basis
from primalsvm.certificate import certificate
from primalsvm.chunks import Chunked, as_chunks
from primalsvm.kernels import Kernel
from primalsvm.losses import Hinge, SquaredHinge
from primalsvm.matrix import Dense
from primalsvm.problem import KernelProblem, LinearProblem
from primalsvm.reduced import RANK, Mapped, independent, make_basis
from primalsvm.solve import solve
from primalsvm.solvers import Newton, Pegasos, choose_solver


def name_of(value):
    return value.name if hasattr(value, "name") else str(value)


def clouds(n=400, d=3, seed=0, noise=0.6):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, np.where(np.sin(2 * X[:, 0]) + X[:, 1] + noise * rng.standard_normal(n) > 0, 1.0, -1.0)


def mapped(X, k=12, gamma=0.5, dtype=np.float32, pieces=False):
    basis = make_basis(Kernel("rbf", gamma), X, np.arange(k), dtype)
    if pieces:
        return Mapped(Chunked(as_chunks(X, memory_limit=1).map(basis.values, len(basis), dtype)), basis)
    return Mapped(Dense(basis.values(X)), basis)


# --- the matrix -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pieces", [False, True])
@given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 15), dtype=st.sampled_from([np.float32, np.float64]))
@settings(max_examples=15, deadline=None)
def test_products_are_those_of_the_features(pieces, seed, k, dtype):
    rng = np.random.default_rng(seed)
    X, _ = clouds(60, seed=seed % 1000)
    M = mapped(X, k, dtype=dtype, pieces=pieces)
    Z = M.G.toarray() @ M.R
    k = Z.shape[1]
    w, a, picked = rng.standard_normal(k), rng.standard_normal(60), np.flatnonzero(rng.random(60) < 0.4)
    assert M.shape == Z.shape
    np.testing.assert_allclose(M.matvec(w), Z @ w, atol=1e-9)
    np.testing.assert_allclose(M.matvec(w, picked), Z[picked] @ w, atol=1e-9)
    np.testing.assert_allclose(M.transpose_matvec(a), Z.T @ a, atol=1e-9)
    np.testing.assert_allclose(M.take(picked).toarray(), Z[picked], atol=1e-9)
    np.testing.assert_allclose(M.outer_gram(), Z @ Z.T, atol=1e-9)
    weights = rng.random(len(picked))
    hessian = Z[picked].T @ (weights[:, None] * Z[picked])
    np.testing.assert_allclose(M.diagonal(weights, picked), hessian.diagonal(), atol=1e-9)
    # the Newton equation in the coordinates of gram has the solution of the one in those of w
    q = np.linalg.solve(M.gram(weights, picked) + M.metric, M.to_gram(w))
    np.testing.assert_allclose(M.from_gram(q), np.linalg.solve(hessian + np.eye(k), w), atol=1e-6)


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_error_bounds_of_products_hold(seed):
    """Against exact products of G and R as they are stored: extended precision has 11 bits more."""
    rng = np.random.default_rng(seed)
    X, y = clouds(50, seed=seed % 1000)
    M = mapped(X, 20, gamma=float(10.0 ** rng.uniform(-3, 1)))
    problem = LinearProblem(y, np.ones(50), SquaredHinge(), X=M)
    G, R = M.G.toarray().astype(np.longdouble), M.R.astype(np.longdouble)
    w, v = rng.standard_normal(M.shape[1]), rng.standard_normal(50)
    assert (np.abs(problem.scores(w) - G @ (R @ w.astype(np.longdouble))) <= problem.score_error(w)).all()
    exact = R.T @ (G.T @ v.astype(np.longdouble))
    assert np.linalg.norm((problem.adjoint(v) - exact).astype(float)) <= problem.adjoint_error(v)
    assert (problem.squared_norms >= ((G @ R) ** 2).sum(axis=1)).all()


@pytest.mark.parametrize("loss", LOSSES, ids=name_of)
@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_the_exact_optimum_of_the_reduced_problem_is_found(loss, intercept):
    X, y = clouds(40, noise=0.3)
    M = mapped(X, 4)
    problem = LinearProblem(y, np.full(40, 2.0), loss, intercept, X=M)
    result = solve(problem, choose_solver(problem), tol=1e-9, max_iter=500)
    assert result.status == "converged" and isinstance(choose_solver(problem), Newton)
    best = optimum(M.toarray(), y, problem.cost, loss.name, intercept, h=getattr(loss, "h", None))
    assert result.certificate.primal == pytest.approx(float(best.value_high), rel=1e-8)
    assert result.certificate.dual <= float(best.value_high) * (1 + 1e-12)
    assert certificate(problem, result.f * 1.1, result.b).primal >= float(best.value_low)


def test_loops_over_rows_are_refused():
    X, y = clouds(40)
    with pytest.raises(ValueError, match="all rows in memory"):
        solve(LinearProblem(y, np.ones(40), "hinge", X=mapped(X)), Pegasos())


# --- bases ------------------------------------------------------------------------------------------------------------


def test_a_basis_is_orthonormal_and_has_no_copies():
    X, _ = clouds(30)
    X[5], X[7] = X[2], X[3] + 1e-9
    basis = make_basis(Kernel("rbf", 0.5), X, np.arange(12))
    np.testing.assert_array_equal(basis.samples, [0, 1, 2, 3, 4, 6, 8, 9, 10, 11])
    K = rbf_kernel(basis.vectors, gamma=0.5)
    np.testing.assert_allclose(basis.R.T @ K @ basis.R, np.eye(len(basis)), atol=1e-8)
    np.testing.assert_allclose(basis.L @ basis.L.T, K, atol=1e-12)


def test_a_basis_of_a_kernel_of_low_rank_ends():
    X, _ = clouds(30, d=2)
    X[0] = 0.0
    basis = make_basis(Kernel("linear"), X, np.arange(30))
    np.testing.assert_array_equal(basis.samples, [1, 2])
    assert len(make_basis(Kernel("linear"), np.zeros((4, 2)), np.arange(4))) == 0


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 25), rank=st.integers(1, 25))
@settings(max_examples=40, deadline=None)
def test_independent_rows_span_the_rest(seed, n, rank):
    A = np.random.default_rng(seed).standard_normal((n, rank))
    K = A @ A.T
    kept, L = independent(K)
    assert len(kept) <= min(n, rank)
    np.testing.assert_allclose(L @ L.T, K[np.ix_(kept, kept)], atol=1e-8 * K.max())
    inside = np.linalg.solve(L, K[kept])
    rest = K.diagonal() - np.sum(inside**2, axis=0)
    assert (rest <= 1.01 * n * RANK * K.diagonal()).all() or len(kept) == 0


def task_of(X, y, C=1.0, loss=None):
    return Task(np.arange(len(y)), y, np.full(len(y), C), loss or SquaredHinge(), "free")


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array, lambda X: X.astype(np.float32)])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_on_every_storage(method, store):
    X, y = clouds(200, d=40)
    X[np.abs(X) < 1.2] = 0.0
    X[50:60] = X[40:50]
    kernel, task = Kernel("rbf", 0.02), task_of(X, y)
    basis, values, fits = choose_basis(method, kernel, store(X), [task], 30, np.random.default_rng(0))
    assert len(np.unique(basis.samples)) == len(basis) == 30
    assert fits[0].w.shape == (30,)
    np.testing.assert_allclose(values, basis.values(store(X)), rtol=1e-5)
    everyone = choose_basis(method, kernel, store(X), [task], 500, np.random.default_rng(0)).basis
    assert 180 <= len(everyone) <= 190  # ten rows stand twice


@pytest.mark.parametrize("width", [0, 4, 10])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("store", [np.asarray, sp.csr_array])
def test_values_that_are_known_are_taken_as_they_are(store, threads, width, monkeypatch):
    monkeypatch.setattr(reduced, "ROWS", 30)
    monkeypatch.setattr(reduced, "THREAD_VALUES", 1)
    X, _ = clouds(200, d=40)
    basis = make_basis(Kernel("rbf", 0.02), store(X), np.arange(0, 200, 20))
    rows = np.random.default_rng(0).permutation(200)[:70]
    known = np.arange(70.0 * width).reshape(70, width)
    expected = basis.values(store(X))
    expected[rows, :width] = known
    np.testing.assert_allclose(basis.values(store(X), threads, (rows, known)), expected, rtol=1e-6)


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("finish", [True, False])
def test_a_small_basis_looks_at_a_part_of_the_pool(finish, store, monkeypatch):
    """What it has seen is right wherever it ends, and what was not seen then is looked at in the end."""
    monkeypatch.setattr(basis_choice, "PART", 100)
    seen = []
    fit = basis_choice._optimize
    monkeypatch.setattr(basis_choice, "_optimize", lambda *a: seen.append((a[0].shape, a[1])) or fit(*a))
    X, y = clouds(1000, d=40)
    X[np.abs(X) < 1.2] = 0.0
    kernel, whole = Kernel("rbf", 0.02), task_of(X, y, 3.0)
    odd = Task(np.arange(1, 1000, 2), y[1::2], np.full(500, 2.0), Hinge(), "none")
    choice = choose_basis("greedy", kernel, store(X), [whole, odd], 150, np.random.default_rng(0), finish=finish)
    assert [shape[0] for shape, _ in seen[::2]] == [260, 507, 1000] + [1000] * finish  # for 39, 76, 150
    for (rows, _), task in seen:
        assert np.sum(task.cost) == pytest.approx(3000 if task.loss.smooth else 1000, rel=0.01)  # they stand for all
        assert rows - 2 <= task.rows[-1] < rows and len(task.y) == (rows if task.loss.smooth else rows // 2)
    assert choice.values.shape == ((1000, 150) if finish else (1000, 76))
    known = choice.basis.values(store(X))[: len(choice.values), : choice.values.shape[1]]
    np.testing.assert_allclose(choice.values, known, rtol=1e-5)
    assert [fit.w.shape for fit in choice.fits] == [(150,), (150,)]


def test_greedy_is_worth_its_time():
    """Keerthi, Chapelle & DeCoste (2006). That half the points do is their figure for test errors of larger sets."""
    X, digit = load_digits(return_X_y=True)
    X, y = X / 16, np.where(digit < 5, 1.0, -1.0)
    kernel, task = Kernel("rbf", 0.3), task_of(X, y, 10.0)

    def best(method, seed):
        basis = choose_basis(method, kernel, X, [task], 100, np.random.default_rng(seed)).basis
        problem = LinearProblem(y, task.cost, task.loss, X=Mapped(Dense(basis.values(X)), basis))
        return solve(problem, Newton(), tol=1e-6).certificate.primal

    for seed in range(3):
        assert best("greedy", seed) < 0.75 * best("random", seed)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(5))
def test_copies_of_a_choice_are_not_taken_with_it(seed, dtype):
    """Three candidates, ten times each: what is left of the others when one is taken is rounding, or nothing at all."""
    rng = np.random.default_rng(seed)
    factor = np.tile(rng.standard_normal((3, 8)), (10, 1)).astype(dtype)
    slopes = 1e20 * np.tile(rng.standard_normal((3, 2)), (10, 1))  # huge beside what is left
    chosen = _eliminate(factor @ factor.T, slopes, 20)
    assert sorted(np.array(chosen) % 3) == [0, 1, 2]


@pytest.mark.parametrize("k", [10, 15, 20, 40])
def test_greedy_needs_half_as_many_as_random(k):
    """Digits, odd or even, mean of five draws: a small basis is chosen from as many candidates as a large one."""
    X, y = load_digits(return_X_y=True)

    def primal(method, size):
        model = SVC(approximation=method, n_basis=size, loss="squared_hinge", C=10.0, gamma=0.1)
        return np.mean([model.set_params(random_state=s).fit(X / 16, y % 2).certificate_.primal for s in range(5)])

    assert primal("greedy", k) <= primal("random", 2 * k)


@pytest.mark.parametrize("first, size", [(20, 1200), (20, 1000), (6, 25), (1, 2), (1, 1), (5, 4), (20, 21)])
def test_all_growths_are_alike(first, size):
    counts = [first]
    while (more := _growth(counts[-1], size)) > 0:
        counts.append(counts[-1] + more)
    ratios = np.array(counts[1:]) / np.array(counts[:-1])
    assert counts[-1] == max(size, first)
    assert all(ratios <= np.maximum(GROWTH * 1.05, 1 + 1 / np.array(counts[:-1])))
    assert len(ratios) < 2 or min(counts[:-1]) < 10 or max(ratios) <= 1.1 * min(ratios)


def test_a_basis_grows_until_the_error_stays():
    X, y = clouds(1500)
    said = []
    held_out = HeldOut(X[:300], lambda scores: float(np.mean(np.sign(scores[:, 0]) != y[:300])))
    for method in METHODS:
        basis, values, fits = choose_basis(
            method,
            Kernel("rbf", 0.5),
            X[300:],
            [task_of(X[300:], y[300:])],
            1000,
            np.random.default_rng(0),
            held_out=held_out,
            watch=said.append,
        )
        assert 20 <= len(basis) < 500
        assert len(fits[0].w) == len(basis)
        np.testing.assert_allclose(values, basis.values(X[300:]), rtol=1e-5)
        errors = [float(line.split(": ")[1].split(" %")[0]) for line in said if "wrong" in line]
        score = basis.values(X[:300]) @ (basis.R @ fits[0].w) + fits[0].b
        assert 100 * held_out.error(score[:, None]) == pytest.approx(min(errors), abs=0.01)
        said.clear()


# --- models -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES, ids=name_of)
@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
@pytest.mark.parametrize("method", METHODS)
def test_the_bound_against_the_exact_problem_is_one_and_shrinks(method, multi_class, loss):
    X, y = load_digits(n_class=3, return_X_y=True)
    X, y = X[:240] / 16, y[:240]
    exact = SVC(gamma=0.2, C=5, loss=loss, multi_class=multi_class, tol=1e-7).fit(X, y).certificate_
    gaps = []
    for size in (5, 40, 240):
        model = SVC(gamma=0.2, C=5, loss=loss, multi_class=multi_class, approximation=method, n_basis=size).fit(X, y)
        assert model.status_ == "converged" and model.support_vectors_.shape == (len(model.support_), 64)
        full = certify(model, X, y)
        for mine, theirs in zip(full.parts, exact.parts, strict=True):
            assert mine.dual <= theirs.primal and theirs.dual <= mine.primal  # each bound is one
        gaps.append(full.relative_gap)
    assert gaps[0] > gaps[1] > gaps[2] and gaps[2] < 0.02


def test_it_predicts_what_it_was_judged_by():
    X, y = clouds(300)
    model = SVC(C=10, approximation="greedy", n_basis=60, loss="squared_hinge").fit(X, y)
    scores = rbf_kernel(X, model.support_vectors_, gamma=model.gamma_) @ model.dual_coef_[0] + model.intercept_[0]
    np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-9)
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_])
    f = np.zeros(300)
    f[model.support_] = model.dual_coef_[0]
    K = rbf_kernel(X, gamma=model.gamma_)
    problem = KernelProblem(np.where(y > 0, 1.0, -1.0), np.full(300, 10.0), SquaredHinge(), K=K)
    P = problem.primal(f, model.intercept_[0])
    assert model.certificate_.primal == pytest.approx(P, rel=1e-4)  # its features are float32
    assert certify(model, X, y).primal == pytest.approx(P, rel=1e-9)


@pytest.mark.parametrize("loss", LOSSES, ids=name_of)
def test_features_that_do_not_fit_are_made_again(loss, capsys, monkeypatch):
    X, y = clouds(500)
    settings = {"C": 3, "approximation": "cholesky", "n_basis": 50, "loss": loss, "tol": 1e-6}
    kept = SVC(**settings).fit(X, y)
    made = SVC(**settings, memory_limit=20_000, verbose=1).fit(X, y)
    assert "computed in every pass" in capsys.readouterr().out
    np.testing.assert_array_equal(kept.support_, made.support_)
    np.testing.assert_allclose(kept.decision_function(X), made.decision_function(X), atol=1e-3)
    assert made.certificate_.relative_gap <= 1e-6
    pieces = SVC(**settings).fit(as_chunks(X, y, memory_limit=20_000))
    np.testing.assert_allclose(kept.decision_function(X), pieces.decision_function(X), atol=1e-3)
    np.testing.assert_allclose(pieces.decision_function(as_chunks(X)), pieces.decision_function(X), atol=1e-9)


def test_weights_and_classes_count():
    X, y = clouds(300)
    weight = np.random.default_rng(0).integers(0, 3, 300).astype(float)
    basis = {"approximation": "random", "n_basis": 300, "tol": 1e-6, "loss": "squared_hinge"}
    weighed = SVC(**basis).fit(X, y, weight).certificate_.primal
    repeated = SVC(**basis, gamma=SVC(**basis).fit(X, y, weight).gamma_)
    rows = np.repeat(np.arange(300), weight.astype(int))
    assert repeated.fit(X[rows], y[rows]).certificate_.primal == pytest.approx(weighed, rel=1e-4)
    model = SVC(**basis, class_weight={1.0: 100.0}).fit(X, y)
    assert (model.predict(X) > 0).mean() > (SVC(**basis).fit(X, y).predict(X) > 0).mean()
    assert not np.isin(SVC(**(basis | {"n_basis": 50})).fit(X, y, weight).support_, np.flatnonzero(weight == 0)).any()


def test_growing_until_the_gap_is_small(capsys):
    X, y = clouds(400)
    model = SVC(C=1, approximation="greedy", n_basis=400, grow="gap", full_tol=0.01, verbose=1).fit(X, y)
    assert model.full_certificate_.relative_gap <= 0.01
    assert len(model.support_) < 400
    assert "above the exact SVM's optimum" in capsys.readouterr().out
    exact = SVC(C=1, tol=1e-6).fit(X, y).certificate_
    assert model.full_certificate_.dual <= exact.primal
    assert model.full_certificate_.primal * (1 - 0.01) <= exact.primal
    assert not hasattr(model.set_params(grow=None).fit(X, y), "full_certificate_")


def test_growing_on_what_is_held_out(monkeypatch):
    X, y = clouds(2000)
    model = SVC(approximation="cholesky", n_basis=1500, grow="validation").fit(X, y)
    assert 20 <= len(model.support_) < 800
    assert model.score(X, y) > 0.8


def test_the_same_seed_gives_the_same_model_and_another_does_not():
    X, y = clouds(300)
    a, b, c = (SVC(approximation="random", n_basis=20, random_state=seed).fit(X, y) for seed in (None, 0, 1))
    np.testing.assert_array_equal(a.support_, b.support_)
    assert not np.array_equal(a.support_, c.support_)


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array])
def test_rows_of_pieces_come_in_the_order_that_was_asked_for(store):
    X, _ = clouds(300, d=5)
    picked = np.random.default_rng(0).permutation(300)[:80]
    pieces = rows_of(as_chunks(store(X), memory_limit=2000), picked)
    np.testing.assert_array_equal(pieces.toarray() if sp.issparse(pieces) else pieces, X[picked])


def test_a_rare_class_is_in_the_pool(monkeypatch):
    monkeypatch.setattr("primalsvm.basis_choice.POOL", 100)
    X, y = clouds(3000)
    y = np.where(np.arange(3000) < 4, 2.0, y)
    model = SVC(approximation="greedy", n_basis=6, multi_class="ovr").fit(X, y)
    assert model.status_ == "converged" and list(model.classes_) == [-1.0, 1.0, 2.0]


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_a_part_of_the_pool_may_lack_classes(multi_class, monkeypatch):
    """Fewer samples than classes: some of the binary problems have none of theirs, some only one side."""
    monkeypatch.setattr(basis_choice, "PART", 8)
    monkeypatch.setattr(basis_choice, "FIRST", 2)
    X, y = np.random.default_rng(0).standard_normal((600, 3)), np.arange(600) % 12
    X[:, 0] += 4 * y
    model = SVC(approximation="greedy", n_basis=500, multi_class=multi_class, C=10.0, gamma=0.5).fit(X, y)
    assert model.status_ == "converged" and model.score(X, y) > 0.8


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"approximation": "nystroem"}, "approximation must be None or one of random, cholesky, greedy"),
        ({"n_basis": 0}, "n_basis must be a whole number above 0"),
        ({"grow": "always"}, "grow must be None, 'validation' or 'gap'"),
        ({"full_tol": -1.0}, "full_tol must be a number of at least 0"),
        ({"approximation": "random", "kernel": "precomputed"}, "precomputed matrix is there already"),
        ({"approximation": "random", "kernel": "sigmoid"}, "not positive semidefinite"),
        ({"approximation": "random", "solver": "smo"}, "smo needs a kernel problem"),
    ],
)
def test_what_cannot_be_is_said(settings, words):
    X, y = clouds(30)
    with pytest.raises(ValueError, match=words):
        SVC(**settings).fit(X @ X.T if settings.get("kernel") == "precomputed" else X, y)


def test_pieces_need_a_basis():
    X, y = clouds(30)
    with pytest.raises(ValueError, match="approximation"):
        SVC().fit(as_chunks(X, y))
    with pytest.raises(ValueError, match="in memory"):
        SVC(approximation="random", n_basis=5, grow="gap").fit(as_chunks(X, y))
