"""Newton's method on kernel problems: the exact optimum, Chapelle's statements, and the linear algebra under it."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from problems import INTERCEPTS, LOSSES, MAKERS, make_kernel
from reference import optimum
from sklearn.svm import SVC

from primalsvm import kernel_newton, kernel_system
from primalsvm.certificate import bound_dual, bound_primal, certificate
from primalsvm.kernel_matrix import StoredKernel, TiledKernel
from primalsvm.kernel_newton import KernelNewton, advance, advance_path, begin, begin_path, polish
from primalsvm.kernel_system import KernelRows, KernelSystem
from primalsvm.kernels import Kernel
from primalsvm.losses import EPS, Hinge, Huber, SquaredHinge
from primalsvm.problem import KernelProblem
from primalsvm.solve import Start, solve
from primalsvm.solvers import SMO, Newton

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
every_intercept = pytest.mark.parametrize("intercept", INTERCEPTS)


def digits(n, seed=0, flipped=0.0):
    """Ten clusters in two classes, as digits 0-4 against 5-9 are."""
    rng = np.random.default_rng(seed)
    label = rng.integers(10, size=n)
    X = 2 * np.random.default_rng(99).standard_normal((10, 20))[label] + rng.standard_normal((n, 20))
    y = np.where(label < 5, 1.0, -1.0)
    y[rng.random(n) < flipped] *= -1
    return X, y


def wrap(X, y, cost, loss, intercept="free", gamma=1 / 80, **options):
    return KernelProblem(y, cost * np.ones(len(y)), loss, intercept, K=TiledKernel(Kernel("rbf", gamma), X, **options))


def run(problem, state, tol=1e-10, most=500):
    """(state, steps) when it believes to be there, or has ended."""
    steps = 0
    state.tol = tol
    while not (state.ended or state.belief <= tol) and steps < most:
        advance(problem, state)
        steps += 1
    return state, steps


def exact(problem):
    h = getattr(problem.loss, "h", None)
    best = optimum(None, problem.y, problem.cost, problem.loss.name, problem.intercept, K=np.asarray(problem.K), h=h)
    assert best.exact
    return float(best.value_low)


# --- the right answer -------------------------------------------------------------------------------------------------


@every_loss
@every_intercept
@pytest.mark.parametrize("name", MAKERS)
def test_the_exact_optimum_is_found(name, intercept, loss):
    problem = make_kernel(name, loss, intercept)
    result = solve(problem, Newton(), tol=1e-8, max_iter=200)
    best = exact(problem)
    assert result.status == "converged"
    assert result.certificate.dual <= best * (1 + 1e-14)
    assert best * (1 - 1e-14) <= result.certificate.primal <= best / (1 - 1e-8)


@pytest.mark.parametrize("C", [0.1, 10.0, 1000.0])
@pytest.mark.parametrize("flipped", [0.0, 0.1])
def test_scores_are_those_of_libsvm(C, flipped):
    X, y = digits(300, flipped=flipped)
    problem = wrap(X, y, C, Hinge())
    result = solve(problem, Newton(), tol=1e-12)
    peer = SVC(C=C, gamma=1 / 80, tol=1e-10).fit(X, y)
    # |f - f*|^2 / 2 <= gap, so a score is off by sqrt(2 gap); the peer's gap is at most 2 C n tol
    allowed = np.sqrt(2 * result.certificate.gap) + np.sqrt(4 * C * 300 * 1e-10)
    scores = problem.scores(result.f)
    peers = peer.decision_function(X)
    np.testing.assert_allclose(scores, peers - peer.intercept_, rtol=0, atol=allowed)
    if np.any((result.alpha > 1e-6 * C) & (result.alpha < (1 - 1e-6) * C)):  # else b is not determined
        np.testing.assert_allclose(scores + result.b, peers, rtol=0, atol=2 * allowed + 1e-9)


@every_loss
@every_intercept
def test_the_coefficients_are_the_dual_variables(loss, intercept):
    """beta_i = y_i alpha_i, sections 4.1.1 and 4.2, also where h has gone to 0; and none where there is no cost."""
    problem = make_kernel("weights", loss, intercept)
    state, _ = run(problem, begin(problem), 1e-13)
    alpha = state.alpha
    np.testing.assert_allclose(state.f, problem.y * alpha, rtol=0, atol=1e-9 * alpha.max())
    np.testing.assert_array_equal(state.f[problem.cost == 0], 0.0)
    if loss.smooth:
        best = problem.slope_alpha(problem.margins(problem.scores(state.f), state.b))
        np.testing.assert_allclose(alpha, best, rtol=0, atol=1e-6 * alpha.max())


@every_loss
def test_samples_without_cost_do_not_matter(loss):
    problem = make_kernel("weights", loss)
    some = np.flatnonzero(problem.cost > 0)
    fewer = replace(problem, y=problem.y[some], cost=problem.cost[some], K=problem.K.take(some))
    values = [solve(each, Newton(), tol=1e-10).certificate.primal for each in (problem, fewer)]
    assert values[0] == pytest.approx(values[1], rel=1e-10)


@every_loss
@every_intercept
@pytest.mark.parametrize("case", ["no costs", "one class", "no kernel"])
def test_problems_with_nothing_to_find(loss, intercept, case):
    problem = make_kernel("overlapping", loss, intercept)
    y, cost, K = problem.y, problem.cost, np.asarray(problem.K)
    y = np.ones(problem.n) if case == "one class" else y
    problem = replace(problem, y=y, cost=cost * (case != "no costs"), K=K * (case != "no kernel"))
    result = solve(problem, Newton(), tol=1e-8)
    best = exact(problem)
    assert result.certificate.dual <= best <= result.certificate.primal
    margin = 16 * EPS  # what a margin may be off, where the least loss is 0
    assert (
        result.certificate.gap <= 1e-8 * best + 2 * result.certificate.rounding + problem.cost.sum() * margin**2 / 0.3
    )
    assert result.iterations <= 60


# --- badly conditioned kernels ----------------------------------------------------------------------------------------


def hard_samples(case, n=40):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, 3))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(n) > 0, 1.0, -1.0)
    if case != "plain":
        X, y = np.repeat(X, 3, axis=0), np.repeat(y, 3)
    if case == "contradictions":
        y[::3] *= -1
    return X, y


@every_loss
@every_intercept
@pytest.mark.parametrize("gamma", [1e-8, 1e-2, 1.0, 1e8])
@pytest.mark.parametrize("case", ["plain", "duplicates", "contradictions"])
def test_badly_conditioned_kernels_are_solved_as_far_as_rounding_allows(case, gamma, intercept, loss):
    """C = 0.5e8 is the paper's lambda = 1e-8. Where less is proven than asked for, it is the judge's allowance."""
    X, y = hard_samples(case)
    for C in (1.0, 1e4, 0.5e8):
        problem = wrap(X, y, C, loss, intercept, gamma)
        state, _ = run(problem, begin(problem), most=100)
        primal, slack = bound_primal(problem, state.f, state.b)
        gap = problem.primal(state.f, state.b) - problem.dual(state.alpha)
        assert gap <= 1e-6 * primal + 2 * slack
        result = solve(problem, Newton(), tol=1e-6)
        seen, peer = result.certificate, solve(problem, SMO(), tol=1e-3, max_iter=100).certificate
        assert (result.status == "converged") == (seen.relative_gap <= 1e-6)
        assert seen.dual <= peer.primal and peer.dual <= seen.primal  # one optimum lies in both


@every_intercept
def test_costs_of_twelve_decades(intercept):
    """Also without smoothing: no sample is curved then, and along the first direction the kinks lie decades apart."""
    X, y = hard_samples("plain")
    problem = wrap(X, y, 10.0 ** np.linspace(-2, 10, len(y)), Huber(0.3), intercept, 1e8)
    state, steps = run(problem, begin(problem), 1e-6)
    assert state.belief <= 1e-6
    assert steps <= 60
    path = begin_path(problem)
    path.h = 0.0
    kernel_newton._look(path)
    first = path.value
    assert not (kernel_newton._sides(path) == 1).any()
    advance_path(path)
    assert path.value < first


def test_a_matrix_that_is_not_positive_is_solved_with_a_larger_ridge():
    """The equation is then another one, and says so."""
    matrix = np.array([[1.0, 2.0], [2.0, 1.0]])
    system = KernelSystem(StoredKernel(matrix))
    D, rhs = np.full(2, 1e-3), np.array([1.0, -1.0])
    x, _, scores = system.solve(np.arange(2), D, rhs, 0.0, None)
    raised = system.factor.ridge
    assert (raised > 1.0).all()  # the least eigenvalue is -1
    np.testing.assert_allclose(matrix @ x + raised * x, rhs, rtol=1e-12)
    np.testing.assert_allclose(scores, matrix @ x, rtol=1e-12)


def test_steps_that_do_not_lower_the_smoothed_primal_are_not_taken(monkeypatch):
    """An equation solved wrongly stalls; it does not make the model worse."""
    problem = make_kernel("overlapping", Huber(0.3), "none")
    solved = KernelSystem.solve
    monkeypatch.setattr(KernelSystem, "solve", lambda *args: [-3.0 * part for part in solved(*args)])
    path = begin_path(problem)
    values = []
    while not path.ended:
        advance_path(path)
        values.append(path.value if path.h == 0.0 else np.inf)
    assert len(values) <= 500
    assert all(after <= before * (1 + 1e-12) for before, after in pairwise(values))


# --- what the paper states --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("C", [10.0, 0.5e8])
def test_the_number_of_steps_does_not_grow_with_the_samples(C):
    """Section 4.1.2, "rarely more than five": with the support vectors of half of them to begin with."""
    steps, primal, dual = [], [], []
    for n in (250, 500, 1000, 2000, 4000):
        X, y = digits(n)
        problem = wrap(X, y, C, SquaredHinge())
        state, _ = run(problem, begin(problem))
        steps.append(state.path.steps)
        primal.append(problem.primal(state.f, state.b))
        dual.append(problem.dual(state.alpha))
    assert max(steps) <= 10
    assert max(steps[3:]) <= 7  # those that began with half
    np.testing.assert_allclose(primal, dual, rtol=1e-6)


def test_whole_steps_beat_the_line_search_where_C_is_large(monkeypatch):
    """Section 4.1: "the default value of 1 did not result in any convergence problem"."""
    X, y = digits(600)
    problem = wrap(X, y, 0.5e8, SquaredHinge())
    whole = run(problem, begin(problem))
    monkeypatch.setattr(kernel_newton, "BOLD", 0)
    searched = run(problem, begin(problem))
    assert whole[0].path.primal == pytest.approx(searched[0].path.primal, rel=1e-9)
    assert 1.5 * whole[1] <= searched[1]


def test_whole_steps_that_lead_nowhere_are_undone(monkeypatch):
    """No number of changes is small enough for this path: it must come back, and go on by line search."""
    X, y = digits(300)
    problem = wrap(X, y, 0.5e8, SquaredHinge())
    path = begin_path(problem)
    path.fewest = -1.0
    lowest = path.value
    for _ in range(kernel_newton.BOLD):
        advance_path(path)
        lowest = min(lowest, path.value)
    assert path.bold == 0
    assert path.value == lowest
    while not path.ended and path.belief > 1e-8:
        before = path.value
        advance_path(path)
        assert path.value <= before * (1 + 1e-12)
    assert path.belief <= 1e-8


def test_parts_are_nested_and_hold_both_classes():
    X, y = digits(5000)
    y[:] = -1.0
    y[1234] = 1.0
    parts = kernel_newton._parts(wrap(X, y, 1.0, Hinge()))
    assert parts[0] is None
    assert [len(part) for part in parts[1:]] == [2500, 1250, 625]
    for larger, smaller in pairwise(parts[1:]):
        assert np.isin(smaller, larger).all()
    assert 1234 in parts[-1]
    stored = replace(wrap(X[:2500], y[:2500], 1.0, Hinge()), K=StoredKernel(np.zeros((2500, 2500))))
    stored.K.memory_limit = 8 * 1000**2
    assert [len(part) for part in kernel_newton._parts(stored)[1:]] == [625]  # one of 1250 would be too large a copy


@every_loss
def test_doubling_saves_work_and_gives_the_same(loss):
    """Algorithm 1: the first system is not that of all samples."""
    X, y = digits(2500)
    results, work = [], []
    for first in (begin, lambda problem: KernelNewton(problem.n, begin_path(problem))):
        problem = wrap(X, y, 10.0, loss)
        state, _ = run(problem, first(problem), 1e-8)
        results.append(problem.primal(state.f, state.b))
        work.append(state.passes)
    assert results[0] == pytest.approx(results[1], rel=2e-8)
    assert work[0] < 0.7 * work[1]


def test_a_run_that_is_cut_short_has_a_model_of_all_samples():
    X, y = digits(2500)
    problem = wrap(X, y, 10.0, Hinge())
    result = solve(problem, Newton(), max_iter=2)
    assert result.status == "max_iter"
    assert result.f.shape == result.alpha.shape == (2500,)
    assert 0 < np.count_nonzero(result.f) <= 625  # still on the first part
    assert 0 < result.certificate.dual < result.certificate.primal < problem.primal(np.zeros(2500), 0.0)


# --- what the path knows of itself ------------------------------------------------------------------------------------


@every_loss
@every_intercept
def test_every_step_knows_a_bound_on_its_gap(loss, intercept):
    problem = make_kernel("weights", loss, intercept)
    path = begin_path(problem)
    tight = 0
    while not path.ended:
        advance_path(path)
        assert ((path.alpha >= 0) & (path.alpha <= problem.upper)).all()
        balance = float(path.alpha @ problem.y)
        assert intercept != "free" or abs(balance) <= 1e-12 * path.alpha.sum()
        primal, dual = problem.primal(path.f, path.b), problem.dual(path.alpha)
        assert path.primal == pytest.approx(primal, rel=1e-12)
        assert path.gap >= primal - dual - 1e-11 * primal
        if np.allclose(path.f, problem.y * path.alpha, rtol=1e-12, atol=1e-14):
            tight += 1
            assert path.gap == pytest.approx(primal - dual, abs=1e-11 * primal)
    assert tight >= 1
    assert path.gap <= 1e-11 * path.primal


@every_loss
@every_intercept
def test_polish_proves_a_bound_from_any_model(loss, intercept):
    problem = make_kernel("overlapping", loss, intercept)
    best = exact(problem)
    for f in (np.zeros(problem.n), 100 * np.random.default_rng(0).normal(size=problem.n)):
        bounds = [bound_dual(problem, path.alpha)[0] for path in polish(problem, f)]
        assert best * (1 - 1e-8) <= max(bounds) <= best * (1 + 1e-14)


@every_loss
def test_a_good_start_is_made_use_of(loss):
    problem = wrap(*digits(400, flipped=0.1), 10.0, loss)
    near = replace(problem, cost=1.05 * problem.cost)
    first = solve(problem, Newton(), tol=1e-8)
    cold = solve(near, Newton(), tol=1e-8)
    warm = solve(near, Newton(), tol=1e-8, start=Start(first.f, first.b, first.alpha))
    assert warm.certificate.primal == pytest.approx(cold.certificate.primal, rel=2e-8)
    assert warm.iterations < cold.iterations
    if not loss.smooth:
        assert begin_path(problem, first.f, first.b, first.alpha).h <= 1e-3


# --- storage ----------------------------------------------------------------------------------------------------------


@every_loss
@pytest.mark.parametrize("limit", [1e3, 4e5, 1.2e6])
def test_memory_limits_do_not_change_the_answer(loss, limit):
    """Nothing fits; a few rows and small factors do; about half of the rows do."""
    X, y = digits(400, flipped=0.1)
    limited, free = wrap(X, y, 1.0, loss, memory_limit=limit), wrap(X, y, 1.0, loss)
    assert free.K.held and not limited.K.held
    results = [solve(problem, Newton(), tol=1e-6) for problem in (limited, free)]
    assert not limited.K.held
    assert [result.status for result in results] == ["converged"] * 2
    assert results[0].certificate.primal == pytest.approx(results[1].certificate.primal, rel=2e-6)


@every_loss
def test_float32_rows_and_float32_kernels(loss):
    X, y = digits(200, flipped=0.1)
    X = X.astype(np.float32)
    results = [solve(wrap(Z, y, 1.0, loss), Newton(), tol=1e-9) for Z in (X, X.astype(np.float64))]
    assert results[0].certificate.primal == pytest.approx(results[1].certificate.primal, rel=1e-9)
    K = wrap(X, y, 1.0, loss).K.array().astype(np.float32)
    stored = KernelProblem(y, np.ones(200), loss, "free", K=K)
    rounded = solve(stored, Newton(), tol=1e-3)
    assert rounded.status == "converged"
    assert rounded.certificate.primal == pytest.approx(results[0].certificate.primal, rel=1e-3)


@pytest.mark.parametrize("limit, room", [(0, 0), (8 * 50 * 20, 10), (8 * 50 * 200, 100)])
def test_rows_are_right_whether_kept_or_not(limit, room):
    rng = np.random.default_rng(0)
    K = TiledKernel(Kernel("rbf", 0.1), rng.standard_normal((50, 3)), memory_limit=limit)
    full, rows = np.asarray(wrap(K.points.Z, np.ones(50), 1.0, Hinge(), gamma=0.1).K), KernelRows(K)
    assert rows.room == (50 if K.held else room)
    for _ in range(40):
        picked = np.sort(rng.choice(50, rng.integers(0, 15), replace=False))
        v, cols = rng.standard_normal(len(picked)), rng.choice(50, 7)
        np.testing.assert_allclose(rows.product(v, picked), full[:, picked] @ v, rtol=0, atol=1e-13)
        np.testing.assert_allclose(rows.block(picked, cols), full[np.ix_(picked, cols)], rtol=0, atol=1e-13)
        assert len(rows.values) <= max(rows.room, 50 if K.held else 0)


# --- the factor -------------------------------------------------------------------------------------------------------


@pytest.fixture
def factors(monkeypatch):
    """How often a factor was made."""
    made = []
    make = kernel_system.Factor.__init__
    monkeypatch.setattr(kernel_system.Factor, "__init__", lambda *args: (made.append(len(args[2])), make(*args))[1])
    return made


@pytest.mark.parametrize("weight", [None, 0.0, 0.25])
@pytest.mark.parametrize("limit", [1e9, 10.0], ids=["factor", "products"])
def test_the_equation_is_solved_as_samples_come_and_go(weight, limit, factors, monkeypatch):
    """Against the whole bordered matrix; D is uneven, and the factor made once."""
    monkeypatch.setattr(kernel_system, "CG_TOL", 1e-13)
    rng = np.random.default_rng(0)
    K = StoredKernel(np.asarray(wrap(rng.standard_normal((60, 4)), np.ones(60), 1.0, Hinge(), gamma=0.2).K))
    K.memory_limit = limit
    system, D = KernelSystem(K), rng.uniform(0.01, 1.0, 60)
    inside = rng.random(60) < 0.7
    for _ in range(6):
        S = np.flatnonzero(inside)
        rhs, balance = rng.standard_normal(len(S)), float(rng.standard_normal())
        x, t, scores = system.solve(S, D, rhs, balance, weight)
        A = K.values[np.ix_(S, S)] + np.diag(D[S])
        if weight is None:
            expected = np.linalg.solve(A, rhs)
        else:
            border = np.ones((len(S), 1))
            expected = np.linalg.solve(np.block([[A, border], [border.T, -weight]]), np.append(rhs, balance))
        np.testing.assert_allclose(
            np.append(x, t)[: len(expected)], expected, rtol=0, atol=1e-9 * np.abs(expected).max()
        )
        np.testing.assert_allclose(scores, K.values[:, S] @ x, rtol=0, atol=1e-12)
        inside[rng.choice(S)], inside[rng.choice(np.flatnonzero(~inside))] = False, True
    assert len(factors) == (1 if limit > 100 else 0)


def test_another_ridge_needs_another_factor(factors):
    K = StoredKernel(np.eye(4) + 1.0)
    system, S, rhs = KernelSystem(K), np.arange(4), np.arange(4.0)
    for D in (np.ones(4), np.ones(4), 2 * np.ones(4)):
        x, _, _ = system.solve(S, D, rhs, 0.0, None)
        np.testing.assert_allclose((K.values + np.diag(D)) @ x, rhs, rtol=0, atol=1e-12)
    assert len(factors) == 2


def test_a_bordered_solution_that_is_not_one_is_noticed(factors):
    """The kept factor is spoilt: the residual tells, and it is made anew."""
    rng = np.random.default_rng(0)
    K = StoredKernel(np.asarray(wrap(rng.standard_normal((30, 4)), np.ones(30), 1.0, Hinge(), gamma=0.2).K))
    system, S, D, rhs = KernelSystem(K), np.arange(30), np.full(30, 1e-3), rng.standard_normal(30)
    system.solve(S, D, rhs, 0.0, 0.0)
    system.factor.lower[5:] *= 3.0
    x, t, _ = system.solve(S, D, rhs, 0.0, 0.0)
    np.testing.assert_allclose(K.values @ x + D * x + t, rhs, rtol=0, atol=1e-10)
    assert len(factors) == 2


@every_loss
@every_intercept
def test_reusing_the_factor_changes_nothing_but_the_work(loss, intercept, factors, monkeypatch):
    X, y = digits(300, flipped=0.1)
    made, values, steps = [], [], []
    for border in (0.3, -1.0):
        monkeypatch.setattr(kernel_system, "BORDER", border)
        problem = wrap(X, y, 10.0, loss, intercept)
        factors.clear()  # the judge makes some too
        state, count = run(problem, begin(problem), 1e-9)
        made.append(len(factors))
        values.append(certificate(problem, state.f, None if intercept == "free" else state.b, state.alpha).primal)
        steps.append(count)
    assert values[0] == pytest.approx(values[1], rel=2e-9)
    assert steps[0] == pytest.approx(steps[1], abs=3)
    assert made[0] < made[1] == steps[1]


def test_conditioning_of_the_paper_is_within_reach():
    """lambda = 1e-8 and every sample twice: K_sv is singular, the equation is solved to rounding all the same."""
    X, y = digits(200)
    X, y = np.repeat(X, 2, axis=0), np.repeat(y, 2)
    problem = wrap(X, y, 0.5e8, SquaredHinge())
    state, _ = run(problem, begin(problem), 1e-12)
    S = np.flatnonzero(state.alpha)
    assert np.linalg.matrix_rank(np.asarray(problem.K)[np.ix_(S, S)]) < len(S)
    left = np.asarray(problem.K)[S] @ state.f + state.b + 1e-8 * state.f[S] - problem.y[S]
    assert np.abs(left).max() <= 1e3 * EPS * np.abs(state.f).sum()
