"""Conjugate gradients preconditioned by K: the optimum, the gap that comes for nothing, and the preconditioner."""

from functools import cache

import numpy as np
import pytest
from problems import INTERCEPTS, MAKERS, make, make_kernel
from reference import optimum

from primalsvm.kernel_matrix import TiledKernel
from primalsvm.kernels import Kernel
from primalsvm.losses import EPS, Hinge, Huber, SquaredHinge
from primalsvm.problem import KernelProblem
from primalsvm.solve import Start, solve
from primalsvm.solvers import ConjugateGradient, Newton
from primalsvm.solvers.conjugate_gradient import UPDATES, _search

every_loss = pytest.mark.parametrize("loss", [SquaredHinge(), Huber(0.3)], ids=lambda loss: loss.name)
every_intercept = pytest.mark.parametrize("intercept", INTERCEPTS)
every_update = pytest.mark.parametrize("update", UPDATES)


@cache
def exact(name, loss, intercept):
    problem, h = make_kernel(name, loss, intercept), getattr(loss, "h", None)
    best = optimum(None, problem.y, problem.cost, loss.name, intercept, K=np.asarray(problem.K), h=h)
    assert best.exact
    return float(best.value_low)


@every_update
@every_loss
@every_intercept
@pytest.mark.parametrize("name", MAKERS)
def test_the_exact_optimum_is_found(name, intercept, loss, update):
    """Also at a large C, where Fletcher and Reeves's directions jam without Powell's restart."""
    result = solve(make_kernel(name, loss, intercept), ConjugateGradient(update), tol=1e-8)
    best = exact(name, loss, intercept)
    assert result.status == "converged"
    assert result.certificate.dual <= best * (1 + 1e-14)
    assert best * (1 - 1e-14) <= result.certificate.primal <= best / (1 - 1e-8)


@every_update
@every_loss
@every_intercept
def test_every_step_descends_and_knows_its_gap(loss, intercept, update):
    """P - D = 1/2 <g, g> because alpha is minus the slope at the margins, and balanced because b is the best."""
    problem, solver = make_kernel("weights", loss, intercept), ConjugateGradient(update)
    state = solver.init(problem)
    while not state.ended:
        before = state.primal
        solver.step(problem, state)
        assert state.primal <= before * (1 + 1e-13)
        assert ((state.alpha >= 0) & (state.alpha <= problem.upper)).all()
        assert intercept != "free" or abs(float(state.alpha @ problem.y)) <= 1e-12 * state.alpha.sum()
        primal = problem.primal(state.f, state.b)
        gap = primal - problem.dual(state.alpha)
        assert state.belief * state.primal == pytest.approx(gap, rel=1e-6, abs=1e-12 * primal)
    assert state.belief <= 1e-12


@every_loss
@every_intercept
def test_the_line_search_is_exact_with_b_following(loss, intercept):
    problem, solver = make_kernel("overlapping", loss, intercept), ConjugateGradient()
    state = solver.init(problem)
    for _ in range(5):
        d, d_scores = state.direction
        t = _search(problem, state, d, d_scores)

        def value(step, d=d, d_scores=d_scores):
            scores = state.scores + step * d_scores
            return problem.primal(state.f + step * d, problem.best_intercept(scores), scores)

        assert t > 0
        for factor in (0.99, 1.01):  # a parabola near its bottom: what is lost must show above the rounding
            assert value(t) < value(factor * t) - 4 * EPS * value(t)
        solver.step(problem, state)


@every_update
def test_a_direction_that_leads_uphill_is_given_up(update):
    problem, solver = make_kernel("overlapping", Huber(0.3)), ConjugateGradient(update)
    state, plain = solver.init(problem), solver.init(problem)
    state.direction = state.gradient
    for each in (state, plain):
        solver.step(problem, each)
    np.testing.assert_array_equal(state.f, plain.f)


def test_the_first_direction_is_y():
    """SEEDS.md: Algorithm 2's first direction is +Y; its scale here is 2 c."""
    problem = make_kernel("overlapping", SquaredHinge(), "none")
    state = ConjugateGradient().init(problem)
    np.testing.assert_allclose(state.direction[0], 2 * problem.cost * problem.y)
    np.testing.assert_allclose(state.direction[1], np.asarray(problem.K) @ state.direction[0])


@every_update
def test_the_steps_are_those_on_w(update):
    """Section 6.1: on beta with the preconditioner or on w = X' beta, the iterates are the same: on least squares."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((12, 5)), np.where(rng.random(12) < 0.5, 1.0, -1.0)
    C = 1e-3  # all margins stay below 1, so that P is quadratic: w'w / 2 + C |X w - y|^2
    problem = KernelProblem(y, np.full(12, C), SquaredHinge(), "none", K=X @ X.T)
    solver = ConjugateGradient(update)
    state = solver.init(problem)
    H, w = np.eye(5) + 2 * C * X.T @ X, np.zeros(5)
    residual = 2 * C * X.T @ y
    direction = residual.copy()
    for _ in range(4):
        solver.step(problem, state)
        assert (problem.margins(state.scores, 0.0) < 1).all()
        step = (residual @ residual) / (direction @ H @ direction)
        w, after = w + step * direction, residual - step * H @ direction
        direction = after + (after @ after) / (residual @ residual) * direction
        residual = after
        np.testing.assert_allclose(X.T @ state.f, w, rtol=0, atol=1e-9 * np.abs(w).max())


def unpreconditioned(problem, tol, most):
    """Steps of Polak and Ribiere's method on beta itself, its gradient K g, until P - D <= tol P."""
    K = np.asarray(problem.K)
    beta = scores = before = direction = np.zeros(problem.n)
    for steps in range(most):
        margins = problem.margins(scores, 0.0)
        g = beta - problem.y * problem.slope_alpha(margins)
        gradient = K @ g
        if 0.5 * g @ gradient <= tol * problem.primal(beta, 0.0, scores):
            return steps
        theta = max(0.0, gradient @ (gradient - before) / (before @ before)) if steps else 0.0
        direction, before = theta * direction - gradient, gradient
        if direction @ gradient >= 0:
            direction = -gradient
        change = K @ direction
        curve = problem.cost * problem.loss.curvature(margins)
        t = -(direction @ gradient) / (direction @ change + curve @ change**2)
        while problem.primal(beta + t * direction, 0.0, scores + t * change) > problem.primal(beta, 0.0, scores):
            t /= 2
        beta, scores = beta + t * direction, scores + t * change
    return most


def test_the_preconditioner_saves_most_of_the_steps():
    """Section 6.1: the condition number of K in place of that of K^2."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 6))
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.standard_normal(150) > 0, 1.0, -1.0)
    problem = KernelProblem(y, np.full(150, 10.0), SquaredHinge(), "none", K=TiledKernel(Kernel("rbf", 0.1), X))
    solver, steps = ConjugateGradient(), 0
    state = solver.init(problem)
    while state.belief > 1e-3:
        solver.step(problem, state)
        steps += 1
    assert unpreconditioned(problem, 1e-3, 4 * steps) == 4 * steps


@every_loss
@every_intercept
def test_tiles_and_newton_give_the_same(loss, intercept):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 5)).astype(np.float32)
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(300) > 0, 1.0, -1.0)
    values = []
    for solver, limit in ((ConjugateGradient(), 1e9), (ConjugateGradient(), 1e3), (Newton(), 1e9)):
        K = TiledKernel(Kernel("rbf", 0.2), X, memory_limit=limit)
        result = solve(KernelProblem(y, np.full(300, 2.0), loss, intercept, K=K), solver, tol=1e-7)
        assert result.status == "converged"
        assert K.held == (limit == 1e9)
        values.append(result.certificate.primal)
    np.testing.assert_allclose(values, values[0], rtol=2e-7)


@every_intercept
def test_a_start_at_the_optimum_stays_there(intercept):
    problem = make_kernel("overlapping", Huber(0.3), intercept)
    best = solve(problem, Newton(), tol=1e-10)
    result = solve(problem, ConjugateGradient(), tol=1e-9, max_iter=1, start=Start(best.f, best.b, best.alpha))
    assert result.certificate.primal <= best.certificate.primal * (1 + 1e-12)


@every_loss
@pytest.mark.parametrize("case", ["no costs", "one class", "no kernel"])
def test_problems_with_nothing_to_find(loss, case):
    problem = make_kernel("overlapping", loss)
    y = np.ones(30) if case == "one class" else problem.y
    K = np.asarray(problem.K) * (case != "no kernel")
    problem = KernelProblem(y, problem.cost * (case != "no costs"), loss, "free", K=K)
    seen = solve(problem, ConjugateGradient(), tol=1e-8).certificate
    margin = 16 * EPS  # what a margin may be off, where the least loss is 0
    assert seen.gap <= 1e-8 * seen.primal + 2 * seen.rounding + problem.cost.sum() * margin**2 / 0.3


def test_what_it_does_not_accept():
    for problem in (make_kernel("wide", Hinge()), make("wide", SquaredHinge())):
        with pytest.raises(ValueError, match="conjugate_gradient needs a"):
            solve(problem, ConjugateGradient())
    with pytest.raises(ValueError, match="update must be one of"):
        ConjugateGradient("steepest")
