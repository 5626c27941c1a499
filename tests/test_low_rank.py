"""Low-rank approximations of K: what holds of every factor, who is chosen, and what they save as preconditioners."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import INTERCEPTS, make_kernel
from scipy.linalg.lapack import dpstrf
from scipy.stats import chi2

from primalsvm import kernel_system, low_rank
from primalsvm.kernel_matrix import StoredKernel, TiledKernel
from primalsvm.kernel_system import KernelRows, KernelSystem
from primalsvm.kernels import Kernel
from primalsvm.losses import EPS, Huber, SquaredHinge
from primalsvm.low_rank import LowRank, Part, pivoted_cholesky, random_cholesky, uniform
from primalsvm.problem import KernelProblem
from primalsvm.solve import Start, solve
from primalsvm.solvers import ConjugateGradient, Newton
from primalsvm.solvers.conjugate_gradient import UPDATES, Preconditioner

METHODS = (uniform, pivoted_cholesky, random_cholesky)
every_method = pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
every_loss = pytest.mark.parametrize("loss", [SquaredHinge(), Huber(0.3)], ids=lambda loss: loss.name)
every_intercept = pytest.mark.parametrize("intercept", INTERCEPTS)


def points(n=90, d=4, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def uneven(n=90):
    """A precomputed matrix with diagonals from 1e-6 to 1e6, and some zeros."""
    scale = 10.0 ** np.random.default_rng(1).uniform(-3, 3, n)
    scale[::17] = 0.0
    return scale[:, None] * np.asarray(TiledKernel(Kernel("rbf", 0.3), points(n))) * scale


MATRICES = {
    "rbf": lambda: TiledKernel(Kernel("rbf", 0.2), points()),
    "rbf in tiles": lambda: TiledKernel(Kernel("rbf", 0.2), points(), memory_limit=0),
    "poly": lambda: TiledKernel(Kernel("poly", 0.5, 3, 1.0), points()),
    "linear": lambda: TiledKernel(Kernel("linear"), points(d=40)),
    "uneven": lambda: StoredKernel(uneven()),
    "float32": lambda: StoredKernel(np.asarray(TiledKernel(Kernel("rbf", 0.2), points())).astype(np.float32)),
}
every_matrix = pytest.mark.parametrize("name", MATRICES)


def dense(K):
    everyone = np.arange(K.n)
    return K.block(everyone, everyone)


def rounding(K, low):
    """(n, n) by how much F F' may be off K in rows of J: the entries twice, and k + 2 roundings of the factor."""
    norms = np.sqrt(K.diagonal)
    return (2 * K.accuracy + (low.rank + 2) * np.finfo(low.factor.dtype).eps) * np.outer(norms, norms)


# --- what holds of every factor ---------------------------------------------------------------------------------------


@every_method
@every_matrix
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rank", [1, 7, 30])
def test_the_factor_is_exact_where_it_was_chosen_and_below_K_elsewhere(name, method, rank, dtype, monkeypatch):
    monkeypatch.setattr(low_rank, "BLOCK", 8)
    K = MATRICES[name]()
    low = method(K, rank, dtype=dtype)
    F, J, full, slack = low.factor.astype(np.float64), low.samples, dense(K), rounding(K, low)
    assert low.rank == len(set(J.tolist())) == rank if name not in ("uneven", "poly") else low.rank <= rank
    assert low.factor.dtype == dtype and F.shape == (K.n, low.rank)
    np.testing.assert_array_equal(F[J], np.tril(F[J]))
    assert (F[J].diagonal() > 0).all()
    missing = full - F @ F.T
    assert (np.abs(missing[J]) <= slack[J]).all()
    assert (low.residual >= 0).all() and (low.residual[J] == 0).all()
    assert (np.abs(low.residual - missing.diagonal()) <= slack.diagonal()).all()
    assert low.trace_error == pytest.approx(low.residual.sum() / np.trace(full), rel=1e-6, abs=K.accuracy)
    norms = np.sqrt(np.where(K.diagonal > 0, K.diagonal, 1.0))
    least = np.linalg.eigvalsh(missing / np.outer(norms, norms))[0]
    assert least >= -K.n * (low.rank + 2) * (K.accuracy + np.finfo(dtype).eps)
    v = np.random.default_rng(0).standard_normal(K.n)
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(low.matvec(v), F @ (F.T @ v), rtol=0, atol=K.n * eps * np.abs(F).sum() * np.abs(F).max())
    assert low.matvec(v).dtype == np.float64


@every_matrix
@pytest.mark.parametrize("method", [pivoted_cholesky, random_cholesky], ids=lambda method: method.__name__)
def test_a_smaller_rank_is_the_beginning_of_a_larger_one(name, method, monkeypatch):
    monkeypatch.setattr(low_rank, "BLOCK", 8)
    K = MATRICES[name]()
    large = method(K, 30)
    for rank in (0, 1, 8, 13):
        small = method(K, rank)
        np.testing.assert_array_equal(small.samples, large.samples[:rank])
        np.testing.assert_allclose(small.factor, large.factor[:, :rank], rtol=0, atol=1e-9 * np.abs(large.factor).max())
        assert (small.residual >= large.residual - 1e-15 * K.diagonal).all()
        assert small.trace_error > large.trace_error


@every_matrix
@pytest.mark.parametrize("method", [pivoted_cholesky, random_cholesky], ids=lambda method: method.__name__)
def test_it_stops_at_the_first_column_that_is_enough(name, method, monkeypatch):
    monkeypatch.setattr(low_rank, "BLOCK", 8)
    K = MATRICES[name]()
    for tol in (0.5, 0.1, 1e-3):
        low = method(K, K.n, tol)
        assert low.trace_error <= tol
        assert method(K, low.rank - 1).trace_error > tol
    assert method(K, K.n, 1.0).rank == 0


@pytest.mark.parametrize("block", [1, 128])
def test_the_order_of_the_samples_does_not_matter(block, monkeypatch):
    """Where no two residuals are equal."""
    monkeypatch.setattr(low_rank, "BLOCK", block)
    X, order = points() * np.linspace(1, 2, 90)[:, None], np.random.default_rng(3).permutation(90)
    one, other = (pivoted_cholesky(TiledKernel(Kernel("poly", 0.5, 3, 1.0), Z), 25) for Z in (X, X[order]))
    np.testing.assert_array_equal(one.samples, order[other.samples])
    np.testing.assert_allclose(one.factor[order], other.factor, rtol=0, atol=1e-9 * np.abs(one.factor).max())


def test_one_at_a_time_it_is_the_pivoted_factor_of_lapack(monkeypatch):
    monkeypatch.setattr(low_rank, "BLOCK", 1)
    K = MATRICES["linear"]()
    low = pivoted_cholesky(K, 20)
    lower, order, _, _ = dpstrf(dense(K), lower=1)
    np.testing.assert_array_equal(low.samples, order[:20] - 1)
    np.testing.assert_allclose(low.factor[order - 1], np.tril(lower)[:, :20], rtol=0, atol=1e-10 * np.abs(lower).max())


def test_every_pivot_has_half_of_the_largest_residual():
    K = MATRICES["poly"]()
    low = pivoted_cholesky(K, 30)
    residual = K.diagonal.copy()
    for j, column in zip(low.samples, low.factor.T, strict=True):
        assert residual[j] >= 0.5 * residual.max() * (1 - 1e-9)
        residual -= column * column


@every_method
def test_stored_and_computed_matrices_and_parts_of_them_give_the_same(method):
    X = points(300)
    some = np.sort(np.random.default_rng(0).choice(300, 120, replace=False))
    whole = TiledKernel(Kernel("poly", 0.2, 3, 1.0), X, memory_limit=0)  # no two residuals are equal
    stored = StoredKernel(dense(whole), whole.accuracy)
    one, other = method(whole, 40), method(stored, 40)
    np.testing.assert_array_equal(one.samples, other.samples)
    np.testing.assert_allclose(one.factor, other.factor, rtol=0, atol=1e-9 * np.abs(one.factor).max())
    for K in (whole, stored):
        parts = [method(part, 40) for part in (Part(K, some), K.take(some), dense(K)[np.ix_(some, some)])]
        for part in parts[1:]:
            np.testing.assert_array_equal(part.samples, parts[0].samples)
            np.testing.assert_allclose(part.factor, parts[0].factor, rtol=0, atol=1e-9 * np.abs(part.factor).max())


# --- matrices of less rank than asked for -----------------------------------------------------------------------------


@every_method
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_rank_of_a_linear_kernel_is_found(method, scale, dtype):
    K = TiledKernel(Kernel("linear"), scale * points(500, 3))
    low = method(K, 50, dtype=dtype)
    assert low.rank == 3
    assert low.trace_error <= 10 * (K.accuracy + np.finfo(dtype).eps)


@every_method
@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_the_rank_of_small_integers_is_found_whatever_their_scale(method, data):
    n, d, r = (data.draw(st.integers(1, most)) for most in (12, 5, 4))
    drawn = [data.draw(st.lists(st.integers(-3, 3), min_size=k, max_size=k)) for k in (n * r, r * d)]
    X = np.array(drawn[0], dtype=float).reshape(n, r) @ np.array(drawn[1], dtype=float).reshape(r, d)
    scale = 2.0 ** np.array(data.draw(st.lists(st.integers(-20, 20), min_size=n, max_size=n)), dtype=float)
    low = method(TiledKernel(Kernel("linear"), scale[:, None] * X), n)
    assert low.rank == np.linalg.matrix_rank(X, tol=1e-8)  # what is not 0 is a root of whole numbers over another


@every_method
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("limit", [0, 1e9])
def test_no_point_is_chosen_twice(method, dtype, limit):
    X = np.repeat(points(40, 2), 3, axis=0)
    K = TiledKernel(Kernel("rbf", 0.05), X, memory_limit=limit)  # of a numerical rank below 40, too
    low = method(K, 120, dtype=dtype)
    assert len(np.unique(low.samples // 3)) == low.rank <= 40
    assert np.isfinite(low.factor).all()
    assert low.trace_error <= 121 * (K.accuracy + np.finfo(dtype).eps)


@every_method
def test_samples_that_are_nothing_and_samples_that_are_all_alike(method):
    ones = method(np.ones((30, 30)), 10)
    assert (ones.rank, ones.trace_error) == (1, 0.0)
    np.testing.assert_array_equal(ones.factor, np.ones((30, 1)))
    nothing = method(np.zeros((30, 30)), 10)
    assert (nothing.rank, nothing.trace_error, nothing.factor.shape) == (0, 0.0, (30, 0))
    np.testing.assert_array_equal(nothing.matvec(np.ones(30)), np.zeros(30))
    np.testing.assert_allclose(nothing.solve(2.0, np.ones(30)), np.full(30, 0.5))
    some = method(uneven(), 90)
    assert not np.any(some.samples % 17 == 0)
    np.testing.assert_array_equal(some.factor[::17], 0.0)


@every_method
def test_only_those_that_are_offered_are_chosen(method):
    K, among = MATRICES["rbf"](), np.array([3, 17, 18, 40, 77])
    low = method(K, 50, among=among)
    assert set(low.samples.tolist()) == set(among.tolist())
    inside = dense(K)[np.ix_(among, among)]
    best = dense(K)[:, among] @ np.linalg.solve(inside, dense(K)[among])  # K[:, J] K_JJ^-1 K[J]
    np.testing.assert_allclose(low.factor @ low.factor.T, best, rtol=0, atol=1e-12)
    assert method(K, 50, among=np.zeros(0, dtype=np.int64)).rank == 0


# --- who is chosen ----------------------------------------------------------------------------------------------------


def test_draws_by_rejection_have_the_chances_of_draws_one_by_one():
    """P(i, j) = k_ii / tr K times e_jj / tr E, E what is left after i; chi-squared over all pairs."""
    K = np.array([[4.0, 1.8, 0.0, 0.5], [1.8, 1.0, 0.1, 0.0], [0.0, 0.1, 2.0, 1.0], [0.5, 0.0, 1.0, 3.0]])
    expected, seen, draws = np.zeros((4, 4)), np.zeros((4, 4)), 4000
    for i in range(4):
        left = K.diagonal() - K[i] ** 2 / K[i, i]
        expected[i] = K[i, i] / np.trace(K) * left / left.sum()
    rng = np.random.default_rng(0)
    for _ in range(draws):
        seen[tuple(random_cholesky(K, 2, rng=rng).samples)] += 1
    pairs = ~np.eye(4, dtype=bool)
    assert (seen[~pairs] == 0).all()
    statistic = np.sum((seen[pairs] - draws * expected[pairs]) ** 2 / (draws * expected[pairs]))
    assert statistic <= chi2.ppf(0.999, 11)


def test_random_pivots_come_near_the_best_rank():
    """Chen et al. (2023), Theorem 1.1: the mean trace error after r / e + r log(1 / (e eta)) pivots is (1 + e) times
    the least of rank r, eta. Greedy pivots go to the outliers, which are no part of that."""
    rng = np.random.default_rng(0)
    n, r, e = 200, 8, 0.5
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    values = np.append(10.0 ** -np.linspace(0, 2, r), np.full(n - r, 1e-5))
    K = (Q * values) @ Q.T
    best = values[r:].sum() / values.sum()
    k = int(np.ceil(r / e + r * np.log(1 / (e * best))))
    errors = [random_cholesky(K, k, rng=np.random.default_rng(seed)).trace_error for seed in range(40)]
    assert np.mean(errors) <= (1 + e) * best + 3 * np.std(errors) / np.sqrt(40)


def test_each_sample_is_as_likely_as_any_other_under_uniform():
    K, rng = np.diag([1.0, 1.0, 100.0, 1e-6, 1.0]), np.random.default_rng(0)
    counts = np.zeros(5)
    for _ in range(3000):
        counts[uniform(K, 2, rng).samples] += 1
    assert np.sum((counts - 1200) ** 2 / 1200) <= chi2.ppf(0.999, 4)


def test_small_clusters_are_found_by_pivots_and_not_by_uniform():
    X = np.concatenate([points(2000, 2), 50 + points(3, 2)])
    K = TiledKernel(Kernel("rbf", 0.5), X)
    for method, found in ((pivoted_cholesky, True), (random_cholesky, True), (uniform, False)):
        assert (method(K, 60).samples >= 2000).any() == found


def test_the_same_seed_gives_the_same_samples_and_another_one_others():
    K = MATRICES["rbf"]()
    for method in (uniform, random_cholesky):
        one, again, other = (method(K, 20, rng=np.random.default_rng(seed)).samples for seed in (1, 1, 2))
        np.testing.assert_array_equal(one, again)
        assert not np.array_equal(one, other)


# --- the inverse ------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 40), st.integers(-16, 3), st.booleans(), st.integers(0, 1000))
def test_the_inverse_is_as_accurate_as_its_matrix_allows(rank, power, even, seed):
    """|A x - v| <= (a few n + k roundings) |A| |x|, also for v in the directions that F F' makes large: there
    Woodbury's formula loses a digit for each that D is smaller."""
    rng = np.random.default_rng(seed)
    low = random_cholesky(MATRICES["rbf"](), rank, rng=rng)
    D = 10.0**power * (1.0 if even else rng.uniform(0.1, 1.0, 90))
    A = np.diag(np.broadcast_to(D, 90)) + low.factor @ low.factor.T
    for v in (rng.standard_normal(90), low.factor @ (low.factor.T @ np.ones(90)) + 1e-12):
        x = low.solve(D, v)
        spread = np.max(D) / np.min(D)
        assert np.linalg.norm(A @ x - v) <= 4 * (90 + rank) * EPS * spread * (np.linalg.norm(A, 2) * np.linalg.norm(x))


def test_the_inverse_of_a_float32_factor_and_of_a_whole_one():
    K, v = MATRICES["rbf"](), np.ones(90)
    for low in (random_cholesky(K, 30, dtype=np.float32), random_cholesky(K, 90)):
        F = low.factor.astype(np.float64)
        np.testing.assert_allclose(0.1 * low.solve(0.1, v) + F @ (F.T @ low.solve(0.1, v)), v, rtol=0, atol=1e-12)


# --- the equation of Newton's method ----------------------------------------------------------------------------------


def equation(n=600, D=1e-3, limit=8 * 599**2 * 2.0):
    """K between n samples just too large for the memory limit, D, and a right-hand side."""
    K = TiledKernel(Kernel("rbf", 0.02), points(n, 10), memory_limit=limit)
    return K, np.full(n, D), np.where(points(n, 1, 5)[:, 0] > 0, 1.0, -1.0)


@pytest.fixture
def steps(monkeypatch):
    """Products with K_SS of each solve by conjugate gradients."""
    counts = []
    gradients = kernel_system.conjugate_gradient

    def counted(apply, *args, **options):
        counts.append(0)

        def watched(v):
            counts[-1] += 1
            return apply(v)

        return gradients(watched, *args, **options)

    monkeypatch.setattr(kernel_system, "conjugate_gradient", counted)
    return counts


@pytest.mark.parametrize("D", [1e-8, 1e-3, 10.0])
@pytest.mark.parametrize("weight", [None, 0.25])
def test_solutions_agree_and_take_a_fifth_of_the_steps(D, weight, steps, monkeypatch):
    monkeypatch.setattr(kernel_system, "CG_TOL", 1e-12)
    monkeypatch.setattr(kernel_system, "CG_STEPS", 5000)
    K, ridge, rhs = equation(D=D)
    S, full, answers, work = np.arange(600), dense(K) + np.diag(ridge), [], []
    for effort in (0, kernel_system.EFFORT):
        monkeypatch.setattr(kernel_system, "EFFORT", effort)
        steps.clear()
        x, t, scores = KernelSystem(K).solve(S, ridge, rhs, 0.5, weight)
        work.append(sum(steps))
        np.testing.assert_allclose(scores, dense(K) @ x, rtol=0, atol=1e-12 * np.abs(x).sum())
        attainable = (
            work[-1] * EPS * np.linalg.norm(full, 2) * np.linalg.norm(x)
        )  # by a residual that is kept, not made
        np.testing.assert_allclose(full @ x + t, rhs, rtol=0, atol=1e-9 + attainable)
        answers.append(x)
    difference = answers[0] - answers[1]
    assert difference @ full @ difference <= 1e-12 * (answers[0] @ full @ answers[0])
    assert not K.held
    assert work[1] <= work[0] / 5 if D < 1 else work[1] < work[0]


def test_without_room_the_preconditioner_is_the_diagonal():
    K, D, _ = equation(limit=8 * 100)
    S, v = np.arange(0, 600, 2), points(300, 1)[:, 0]
    np.testing.assert_allclose(KernelSystem(K)._preconditioner(S, D[S])(v), v / (1 + D[S]), rtol=1e-12)


def test_no_more_columns_than_D_asks_for():
    """What is missing is at most D, so that the condition number is at most 2."""
    K, D, _ = equation(D=5.0)
    S = np.arange(600)
    inverse = KernelSystem(K)._preconditioner(S, D)
    M = np.linalg.inv(np.column_stack([inverse(e) for e in np.eye(600)]))
    low = random_cholesky(Part(K, S), 600, 5.0 / 600)
    assert 0 < low.rank < 150
    np.testing.assert_allclose(M, low.factor @ low.factor.T + np.diag(D + low.residual), rtol=0, atol=1e-9)
    values = np.linalg.eigvals(np.linalg.solve(M, dense(K) + np.diag(D))).real
    assert values.min() >= 0.5 - 1e-9 and values.max() <= 2 + 1e-9


@every_loss
def test_newton_with_little_memory_comes_to_the_same_in_fewer_passes(loss, monkeypatch):
    X, y = points(500, 10), np.where(points(500, 1, 5)[:, 0] > 0, 1.0, -1.0)
    results = []
    for effort in (0, kernel_system.EFFORT):
        monkeypatch.setattr(kernel_system, "EFFORT", effort)
        K = TiledKernel(Kernel("rbf", 0.02), X, memory_limit=8 * 400**2)
        results.append(solve(KernelProblem(y, np.full(500, 100.0), loss, "free", K=K), Newton(), tol=1e-5))
    plain, helped = results
    assert plain.status == helped.status == "converged"
    assert helped.certificate.primal == pytest.approx(plain.certificate.primal, rel=2e-5)
    assert helped.history[-1].passes < 0.5 * plain.history[-1].passes


# --- conjugate gradients on the primal --------------------------------------------------------------------------------


def clouds(loss, intercept="free", n=300, C=10.0, **options):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 8))
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.standard_normal(n) > 0, 1.0, -1.0)
    K = TiledKernel(Kernel("rbf", 0.05), X, **options)
    return KernelProblem(y, np.full(n, C), loss, intercept, 0.5, K=K)


@every_loss
@every_intercept
def test_the_preconditioner_is_what_its_formula_says(loss, intercept):
    """M in the space itself, where phi(x_i) are the rows of R, K = R R'; also after the curvatures have changed."""
    problem, rng = clouds(loss, intercept, 60), np.random.default_rng(1)
    K = np.asarray(problem.K)
    R, made = np.linalg.cholesky(K), Preconditioner(problem, 15, KernelRows(problem.K))
    for share in (0.6, 0.62, 0.57, 0.2):
        margins = 1 + loss.bend * (share - (np.arange(60) * 0.618) % 1) if loss.bend < 2 else 1 + share - rng.random(60)
        curves = problem.cost * loss.curvature(margins)
        made.update(curves)
        W, J = np.diag(curves), made.low.samples
        assert (curves[J] > 0).mean() >= 0.5
        if intercept != "none":
            W -= np.outer(curves, curves) / (curves.sum() + (4.0 if intercept == "penalized" else 0.0))
        H = np.eye(60) + R.T @ W @ R
        T = R[J].T @ np.linalg.solve(K[np.ix_(J, J)], R[J])
        M = T @ H @ T + made.mu * (np.eye(60) - T)
        beyond = np.trace((np.eye(60) - T) @ R.T @ np.diag(curves) @ R) / np.count_nonzero(curves)
        assert made.mu == pytest.approx(1 + beyond, rel=1e-9)
        g = rng.standard_normal(60)
        coefficients, scores = made.apply((g, K @ g))
        expected = np.linalg.solve(M, R.T @ g)
        np.testing.assert_allclose(R.T @ coefficients, expected, rtol=0, atol=1e-9 * np.abs(expected).max())
        np.testing.assert_allclose(scores, K @ coefficients, rtol=0, atol=1e-9 * np.abs(scores).max())


@every_loss
@every_intercept
@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("name", ["overlapping", "weights", "duplicated", "separable"])
def test_the_same_optimum_with_and_without(name, update, loss, intercept):
    problem = make_kernel(name, loss, intercept)
    for rank in (3, 1000):
        result = solve(problem, ConjugateGradient(update, rank), tol=1e-8)
        assert result.status == "converged"
        assert result.certificate.primal == pytest.approx(best_value(name, loss, intercept), rel=2e-8)


@cache
def best_value(name, loss, intercept):
    return solve(make_kernel(name, loss, intercept), Newton(), tol=1e-9).certificate.primal


def count(problem, solver, tol):
    state, steps = solver.init(problem), 0
    while state.belief > tol and not state.ended:
        before = state.primal
        solver.step(problem, state)
        assert state.primal <= before * (1 + 1e-13)
        steps += 1
    assert state.belief <= tol
    gap = problem.primal(state.f, state.b) - problem.dual(state.alpha)
    assert state.belief * state.primal == pytest.approx(gap, rel=1e-3, abs=1e-10 * state.primal)
    scores = problem.scores(state.f)
    np.testing.assert_allclose(state.scores, scores, rtol=0, atol=1e-9 * np.abs(scores).max())
    return steps, state


@every_loss
@every_intercept
@pytest.mark.parametrize("update", UPDATES)
def test_steps_fall_with_the_rank(loss, intercept, update):
    problem = clouds(loss, intercept)
    plain, some, many = (count(problem, ConjugateGradient(update, rank), 1e-6)[0] for rank in (0, 50, 300))
    assert many < some < 0.7 * plain
    assert many < plain / 3


@pytest.mark.parametrize("limit", [0, 8 * 300 * 40, np.inf])
def test_what_it_takes_of_K_is_counted_and_fits_the_memory(limit):
    problem = clouds(SquaredHinge(), memory_limit=limit)
    _, state = count(problem, ConjugateGradient(rank=50), 1e-6)
    made = state.preconditioner
    assert made.rank == (20 if limit == 8 * 300 * 40 else 0 if not limit else 50)
    assert made.low.rank == made.rank
    plain = ConjugateGradient().init(problem)
    first = ConjugateGradient(rank=50).init(problem)
    assert first.rows.entries - plain.rows.entries == made.rank * 300


def test_a_start_at_the_optimum_stays_there():
    problem = clouds(Huber(0.3))
    best = solve(problem, Newton(), tol=1e-10)
    start = Start(best.f, best.b, best.alpha)
    result = solve(problem, ConjugateGradient(rank=50), tol=1e-9, max_iter=1, start=start)
    # the bounds hold what rounding can have done, by scores computed afresh or from those before
    assert result.certificate.primal <= best.certificate.primal * (1 + 1e-12) + result.certificate.rounding


@pytest.mark.parametrize("case", ["no costs", "one class", "no kernel", "large C"])
def test_problems_with_nothing_to_find_or_too_much(case):
    problem = clouds(SquaredHinge(), n=60)
    y = np.ones(60) if case == "one class" else problem.y
    cost = problem.cost * {"no costs": 0.0, "large C": 1e12}.get(case, 1.0)
    problem = KernelProblem(y, cost, SquaredHinge(), "free", K=np.asarray(problem.K) * (case != "no kernel"))
    seen = solve(problem, ConjugateGradient(rank=20), tol=1e-8, max_iter=200).certificate
    assert 0 <= seen.dual <= seen.primal < np.inf
    if case != "large C":
        assert seen.gap <= 1e-8 * seen.primal + 2 * seen.rounding + problem.cost.sum() * (16 * EPS) ** 2


def test_a_rank_below_zero_is_refused():
    with pytest.raises(ValueError, match="rank must be at least 0, got -1"):
        ConjugateGradient(rank=-1)


def test_low_rank_holds_no_more_than_it_says():
    low = random_cholesky(MATRICES["rbf"](), 30, 0.5)
    assert isinstance(low, LowRank) and low.factor.flags.f_contiguous
    with pytest.raises(AttributeError):
        low.trace = 0.0


# --- the benchmark ----------------------------------------------------------------------------------------------------


def test_the_benchmark_prints_steps_and_ratios(tmp_path):
    command = [sys.executable, "-m", "benchmarks.low_rank", "--toy", "--jsonl", str(tmp_path / "runs.jsonl")]
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    assert {record["what"] for record in records} == {"primal", "equation"}
    for record in records:
        assert record["steps"] >= 1 and record["rank"] >= 0
    for method in ("uniform", "pivoted_cholesky", "random_cholesky"):
        assert method in done.stdout
