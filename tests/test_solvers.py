"""Every solver on every problem it accepts: what must hold always, and the right answer."""

from dataclasses import replace

import numpy as np
import pytest
from problems import HARD, INTERCEPTS, LOSSES, MAKERS, STORAGE, dense, make, make_kernel
from reference import optimum

from primalsvm.certificate import certificate
from primalsvm.losses import Hinge, Huber, SquaredHinge
from primalsvm.problem import LinearProblem
from primalsvm.solve import Solver, Start, solve
from primalsvm.solvers import (
    SMO,
    ConjugateGradient,
    CuttingPlane,
    DualCoordinateAscent,
    GradientDescent,
    Hyperpass,
    Newton,
    Pegasos,
    ProjectedGradient,
    Subgradient,
    make_solver,
)

# each with the relative gap it must prove on well-conditioned problems of this size
SOLVERS = (
    (Newton(), 1e-8, 300),
    (DualCoordinateAscent(), 1e-6, 4000),
    (DualCoordinateAscent(shrink=False), 1e-6, 4000),
    (CuttingPlane(), 1e-6, 200),
    (Hyperpass(), 1e-6, 100),
    (Hyperpass(start_passes=0, near=0, shrink="one"), 1e-4, 500),
    (ProjectedGradient(), 1e-3, 5000),
    (ProjectedGradient(step_rule="line_search"), 1e-3, 5000),
    (GradientDescent(), 1e-3, 5000),
    (Subgradient(), 2e-2, 2000),
    (Pegasos(), 1e-1, 2000),
    (Pegasos(batch=5), 1e-1, 2000),
)
ON_KERNELS = (*SOLVERS, (SMO(), 1e-8, 2000), (ConjugateGradient(), 1e-6, 1000))
EASY = [name for name in MAKERS if name not in HARD]


def name_of(value):
    return value.name if hasattr(value, "name") else str(value)


def accepted(solver, problem):
    return solver.needs <= problem.offers


def exact(problem):
    """The exact minimum of a linear problem, as a float."""
    h = problem.loss.h if isinstance(problem.loss, Huber) else None
    best = optimum(dense(problem), problem.y, problem.cost, problem.loss.name, problem.intercept, h=h)
    assert best.exact
    return float(best.value_high)


def check(problem, result, tol):
    primals = [record.primal for record in result.history]
    duals = [record.dual for record in result.history]
    assert all(record.gap >= 0 for record in result.history)
    assert primals == sorted(primals, reverse=True)
    assert duals == sorted(duals)
    judged = certificate(problem, result.f, result.b, result.alpha)
    assert judged.primal == pytest.approx(result.certificate.primal, rel=1e-12)
    assert result.certificate.relative_gap <= tol, (result.status, result.certificate)


@pytest.mark.parametrize("loss", LOSSES, ids=name_of)
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("solver, tol, steps", SOLVERS, ids=[str(s[0]) for s in SOLVERS])
def test_reaches_its_tolerance_on_every_problem(solver, tol, steps, intercept, loss):
    if not accepted(solver, make("wide", loss, intercept)):
        with pytest.raises(ValueError, match=r"Solvers that accept it: .*dual_coordinate_ascent"):
            solve(make("wide", loss, intercept), solver)
        return
    for name in EASY:
        problem = make(name, loss, intercept)
        check(problem, solve(problem, solver, tol=tol, max_iter=steps), tol)


@pytest.mark.parametrize("loss", LOSSES, ids=name_of)
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("solver", [DualCoordinateAscent(), Newton()], ids=name_of)
def test_the_exact_optimum_is_found(solver, name, intercept, loss):
    if solver.name != "newton" and name in HARD:
        pytest.skip("needs a second-order method")
    problem, tol = make(name, loss, intercept), 1e-7
    result = solve(problem, solver, tol=tol, max_iter=10_000)
    check(problem, result, tol)
    best = exact(problem)
    assert result.certificate.dual <= best * (1 + 1e-14)
    assert best * (1 - 1e-14) <= result.certificate.primal <= best / (1 - tol)


@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("solver, tol, steps", SOLVERS, ids=[str(s[0]) for s in SOLVERS])
def test_storage_and_precision_do_not_change_the_answer(solver, tol, steps, dtype, storage):
    loss = Huber(0.3)
    intercept = "free" if accepted(solver, make("weights", loss)) else "penalized"
    problem = make("weights", loss, intercept, storage, dtype)
    result = solve(problem, solver, tol=tol, max_iter=steps)
    check(problem, result, tol)
    plain = make("weights", loss, intercept)
    reference = solve(replace(plain, X=type(plain.X)(dense(problem))), DualCoordinateAscent(), tol=1e-9, max_iter=5000)
    assert abs(result.certificate.primal - reference.certificate.primal) <= 2 * tol * reference.certificate.primal


@pytest.mark.parametrize("loss", LOSSES, ids=name_of)
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("solver, tol, steps", ON_KERNELS, ids=[str(s[0]) for s in ON_KERNELS])
def test_kernel_problems(solver, tol, steps, intercept, loss):
    for name in ("overlapping", "weights", "duplicated"):
        problem = make_kernel(name, loss, intercept)
        if accepted(solver, problem):
            check(problem, solve(problem, solver, tol=tol, max_iter=steps), tol)


@pytest.mark.parametrize("loss", LOSSES, ids=name_of)
def test_a_linear_kernel_is_the_linear_problem(loss):
    linear = make("overlapping", loss)
    X = dense(linear)
    kernel = make_kernel("overlapping", loss)
    kernel = replace(kernel, K=X @ X.T)
    results = [solve(p, DualCoordinateAscent(), tol=1e-8, max_iter=5000) for p in (linear, kernel)]
    assert results[0].certificate.primal == pytest.approx(results[1].certificate.primal, rel=2e-8)


@pytest.mark.parametrize("loss", LOSSES, ids=name_of)
@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_metamorphic_relations(loss, intercept):
    """A doubled weight, permuted rows, an added zero column, a sample without weight: the same optimum."""
    problem = make("overlapping", loss, intercept)
    X, y, cost = dense(problem), problem.y, problem.cost
    rng = np.random.default_rng(0)
    order = rng.permutation(len(y))
    heavy = cost.copy()
    heavy[:7] *= 2
    base, doubled = (X, y, heavy), (np.vstack([X, X[:7]]), np.append(y, y[:7]), np.append(cost, cost[:7]))
    variants = [
        doubled,
        (X[order], y[order], heavy[order]),
        (np.hstack([X, np.zeros((len(y), 2))]), y, heavy),
        (np.vstack([X, rng.standard_normal((3, 4))]), np.append(y, [1, -1, 1]), np.append(heavy, np.zeros(3))),
    ]
    values = []
    for Xv, yv, cv in [base, *variants]:
        variant = LinearProblem(
            y=yv, cost=cv, loss=loss, intercept=intercept, X=type(problem.X)(np.ascontiguousarray(Xv))
        )
        values.append(solve(variant, DualCoordinateAscent(), tol=1e-9, max_iter=10_000).certificate.primal)
    np.testing.assert_allclose(values, values[0], rtol=2e-9)


def test_the_free_intercept_is_not_a_penalised_one():
    """Far from the origin the two differ by much; the free one does not notice the shift."""
    near = make("overlapping", Hinge())
    far = replace(near, X=type(near.X)(dense(near) + 5.0))
    penalised = replace(far, intercept="penalized", intercept_scaling=0.1)
    for solver in (DualCoordinateAscent(), Newton()):
        values = [solve(p, solver, tol=1e-4, max_iter=20_000).certificate.primal for p in (near, far, penalised)]
        assert values[1] == pytest.approx(values[0], rel=2e-4)
        assert values[2] > 1.01 * values[0]


def test_a_zero_row_does_not_stay_in_the_gap():
    result = solve(make("zero_row", Hinge(), "none"), DualCoordinateAscent(), tol=1e-10, max_iter=5000)
    assert result.status == "converged"
    assert result.alpha[[3, 17]] == pytest.approx(1.0)


@pytest.mark.parametrize("solver", [DualCoordinateAscent(seed=3), Pegasos(seed=3)], ids=str)
def test_the_same_seed_gives_the_same_run(solver):
    problem = make("overlapping", Hinge())
    first, second, other = (
        solve(problem, s, tol=0.0, max_iter=7, certify_every=1) for s in (solver, solver, replace(solver, seed=4))
    )
    np.testing.assert_array_equal(first.f, second.f)
    assert not np.array_equal(first.history[2].primal, other.history[2].primal)


@pytest.mark.parametrize("solver, tol, steps", SOLVERS, ids=[str(s[0]) for s in SOLVERS])
def test_a_warm_start_at_the_optimum_stays_there(solver, tol, steps):
    problem = make("overlapping", Huber(0.3))
    if not accepted(solver, problem):
        problem = replace(problem, intercept="penalized")
    best = solve(problem, DualCoordinateAscent(), tol=1e-9, max_iter=5000)
    result = solve(problem, solver, tol=1e-8, max_iter=1, start=Start(best.f, best.b, best.alpha))
    assert result.certificate.primal <= best.certificate.primal * (1 + 1e-12)


def test_pegasos_divides_by_the_batch_size():
    """Seed 001's erratum: with a batch of all samples the first step is w = sum_i c_i y_i x_i, projected."""
    problem = make("small_C", Hinge(), "none")
    solver = Pegasos(batch=problem.n, average=False, project=False)
    state = solver.init(problem)
    solver.step(problem, state)
    np.testing.assert_allclose(state.f, problem.adjoint(problem.cost * problem.y), rtol=1e-12)


@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_pegasos_lazy_average_is_the_average(intercept):
    """The average kept in O(nnz) a step against one summed up iterate by iterate."""
    problem = make("overlapping", Hinge(), intercept)
    lazy, plain = Pegasos(batch=problem.n), Pegasos(batch=problem.n, average=False)
    one, two = lazy.init(problem), plain.init(problem)
    total, weights = np.zeros(problem.size), 0.0
    for t in range(1, 40):
        lazy.step(problem, one)
        plain.step(problem, two)
        total, weights = total + t * two.f, weights + t
        np.testing.assert_allclose(one.f, total / weights, rtol=1e-9, atol=1e-12)


def test_pegasos_stays_in_the_ball():
    problem = make("large_C", Hinge(), "none")
    solver = Pegasos(average=False)
    state = solver.init(problem)
    for _ in range(20):
        solver.step(problem, state)
        assert np.linalg.norm(state.f) <= np.sqrt(problem.cost.sum()) * (1 + 1e-12)


def test_a_given_step_size_is_used():
    problem = make("small_C", SquaredHinge(), "none")
    state = GradientDescent(step_size=0.25).init(problem)
    GradientDescent(step_size=0.25).step(problem, state)
    np.testing.assert_allclose(state.f, 0.25 * problem.adjoint(2 * problem.cost * problem.y), rtol=1e-12)
    problem = make("small_C", Hinge(), "none")
    solver = Subgradient(step_size=0.25)
    state = solver.init(problem)
    solver.step(problem, state)
    np.testing.assert_allclose(state.iterate, 0.25 * problem.adjoint(problem.cost * problem.y), rtol=1e-12)


def test_a_step_size_too_large_is_reported_as_divergence():
    result = solve(make("large_C", SquaredHinge()), GradientDescent(step_size=1.0), max_iter=500)
    assert result.status == "diverged"
    assert np.isfinite(result.f).all()
    assert np.isfinite(result.certificate.primal)


def test_solvers_by_name_and_bad_ones():
    assert make_solver("pegasos") == Pegasos()
    assert set(Solver.registry) >= {"subgradient", "gradient_descent", "pegasos", "projected_gradient"}
    for bad in ("nonsense", 3, None, Pegasos):
        with pytest.raises(ValueError, match="solver must be auto, one of"):
            make_solver(bad)
    with pytest.raises(ValueError, match="batch >= 1"):
        Pegasos(batch=0)
    with pytest.raises(ValueError, match="step_rule"):
        ProjectedGradient(step_rule="magic")
