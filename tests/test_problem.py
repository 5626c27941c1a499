"""The problem by its identities: duality, the intercept as a feature, kernels as features, weights as repetitions.

Most numbers here are quarters, and costs are powers of two: float64 adds, multiplies and divides them without rounding,
so what is equal in mathematics is asserted with ==. Where there is rounding, the tolerance says where it comes from.
"""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from drawn import every_intercept, every_kind, for_all, quarters, seeds
from hypothesis import strategies as st
from reference import dual_value, kernel_primal_value, optimum, primal_value

from primalsvm.certificate import bound_dual
from primalsvm.losses import Hinge, Huber, SquaredHinge
from primalsvm.matrix import as_matrix
from primalsvm.problem import EPS, KernelProblem, LinearProblem

LOSSES = [Hinge(), SquaredHinge(), Huber(0.5)]
SCALING = 2.0  # of the penalised intercept

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)


def make(seed, loss, intercept, kind="linear", n=8, d=3, zero_costs=False):
    """A small problem with both classes, exactly representable, and its X."""
    rng = np.random.default_rng(seed)
    X = quarters(rng, (n, d))
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    cost = rng.choice([0.25, 0.5, 1.0, 2.0, 4.0], n)
    if zero_costs:
        cost[rng.random(n) < 0.4] = 0.0
    return wrap(X, y, cost, loss, intercept, kind), X


def wrap(X, y, cost, loss, intercept, kind="linear"):
    stated = (y, cost, loss, intercept, SCALING)
    return LinearProblem(*stated, X=as_matrix(X)) if kind == "linear" else KernelProblem(*stated, K=X @ X.T)


def feasible(problem, rng):
    """A random feasible alpha made of quarters of quarters, often on its bounds: exact."""
    top = np.where(np.isinf(problem.upper), 3 * problem.cost, problem.upper)
    if problem.intercept != "free":
        return top * rng.integers(0, 5, problem.n) / 4
    alpha = np.zeros(problem.n)
    positive, negative = np.flatnonzero(problem.y > 0), np.flatnonzero(problem.y < 0)
    for _ in range(problem.n):  # equal amounts to one of each class
        i, j = rng.choice(positive), rng.choice(negative)
        amount = min(top[i] - alpha[i], top[j] - alpha[j]) * rng.choice([0.25, 0.5, 1.0])
        alpha[[i, j]] += amount
    return alpha


def model(problem, rng):
    """A random (f, b)."""
    return quarters(rng, problem.size), 0.0 if problem.intercept == "none" else float(quarters(rng, 1)[0])


def options(problem):
    return {"h": getattr(problem.loss, "h", None), "intercept_scaling": SCALING}


# --- values and duality -----------------------------------------------------------------------------------------------


@every_kind
@every_intercept
@every_loss
@for_all(seed=seeds)
def test_values_are_the_definition(loss, intercept, kind, seed):
    """Against the reference, which computes P and D in rational arithmetic and shares no code."""
    problem, X = make(seed, loss, intercept, kind, zero_costs=True)
    rng = np.random.default_rng(seed)
    (f, b), alpha = model(problem, rng), feasible(problem, rng)
    stated = (problem.y, problem.cost, loss.name, intercept)
    if kind == "linear":
        assert problem.primal(f, b) == primal_value(X, *stated, f, b, **options(problem))
    else:
        assert problem.primal(f, b) == kernel_primal_value(problem.K.array(), *stated, f, b, **options(problem))
    assert problem.dual(alpha) == dual_value(X, *stated, alpha, **options(problem))


@every_kind
@every_intercept
@every_loss
@for_all(seed=seeds)
def test_weak_duality(loss, intercept, kind, seed):
    problem, _ = make(seed, loss, intercept, kind, zero_costs=True)
    rng = np.random.default_rng(seed)
    alpha = feasible(problem, rng)
    near = problem.function(alpha)  # a point that belongs to alpha, and points that have nothing to do with it
    for f, b in [(near, problem.intercept_of(alpha)), model(problem, rng), model(problem, rng)]:
        assert problem.dual(alpha) <= problem.primal(f, b)


@every_kind
@every_intercept
@every_loss
@pytest.mark.parametrize("seed", range(5))
def test_strong_duality_at_the_exact_optimum(loss, intercept, kind, seed):
    problem, X = make(seed, loss, intercept, kind)
    best = optimum(X, problem.y, problem.cost, loss.name, intercept, **options(problem))
    assert best.exact
    value, alpha, b = float(best.value_low), np.array(best.alpha, dtype=float), float(best.b)
    f = np.array(best.w if kind == "linear" else best.beta, dtype=float)
    # rounding f, b and alpha to float64 moves every margin by n + d roundings of |x_i| |f| + |b|, and P and D with it
    size = 1 + float(problem.cost @ (1 + problem.norms * np.linalg.norm(np.array(best.w, dtype=float)) + abs(b)) ** 2)
    rounding = (8 + 3 + 8) * EPS * size
    assert problem.primal(f, b) == pytest.approx(value, rel=0, abs=rounding)
    assert problem.dual(alpha) == pytest.approx(value, rel=0, abs=rounding)
    np.testing.assert_allclose(problem.function(alpha), f, rtol=0, atol=rounding)
    if intercept == "penalized":
        assert problem.intercept_of(alpha) == pytest.approx(b, rel=0, abs=rounding)


@every_kind
@every_intercept
@every_loss
@for_all(seed=seeds)
def test_dual_gradient_is_the_derivative_of_the_dual(loss, intercept, kind, seed):
    """D is a quadratic: a central difference is its derivative, and with quarters to the last bit."""
    problem, _ = make(seed, loss, intercept, kind)
    alpha = feasible(problem, np.random.default_rng(seed))
    margins = problem.margins(problem.scores(problem.function(alpha)), problem.intercept_of(alpha))
    gradient = problem.dual_gradient(alpha, margins)
    for i, step in enumerate(np.eye(problem.n) / 4):
        assert gradient[i] == (problem.dual(alpha + step) - problem.dual(alpha - step)) / 0.5


# --- one problem, said in two ways ------------------------------------------------------------------------------------


@every_intercept
@every_loss
@for_all(seed=seeds)
def test_kernel_problem_of_inner_products_is_the_linear_problem(loss, intercept, seed):
    linear, X = make(seed, loss, intercept)
    kernel = wrap(X, linear.y, linear.cost, loss, intercept, "kernel")
    rng = np.random.default_rng(seed)
    (beta, b), alpha = model(kernel, rng), feasible(linear, rng)
    assert kernel.primal(beta, b) == linear.primal(X.T @ beta, b)
    assert kernel.dual(alpha) == linear.dual(alpha)
    np.testing.assert_array_equal(kernel.squared_norms, linear.squared_norms)
    some = np.array([3, 0, 5])
    np.testing.assert_array_equal(kernel.gram(some), linear.gram(some))
    np.testing.assert_array_equal(linear.gram(some), X[some] @ X[some].T)
    gamma, _ = model(kernel, rng)
    assert kernel.inner(beta, gamma) == linear.inner(X.T @ beta, X.T @ gamma)
    np.testing.assert_array_equal(kernel.scores(beta), linear.scores(X.T @ beta))


@every_loss
@for_all(seed=seeds)
def test_penalized_intercept_is_a_constant_feature(loss, seed):
    penalized, X = make(seed, loss, "penalized")
    widened = wrap(np.hstack([X, np.full((8, 1), SCALING)]), penalized.y, penalized.cost, loss, "none")
    rng = np.random.default_rng(seed)
    (w, b), alpha = model(penalized, rng), feasible(penalized, rng)
    assert penalized.primal(w, b) == widened.primal(np.append(w, b / SCALING), 0.0)
    assert penalized.dual(alpha) == widened.dual(alpha)
    assert np.append(penalized.function(alpha), penalized.intercept_of(alpha) / SCALING).tolist() == (
        widened.function(alpha).tolist()
    )


@every_kind
@every_intercept
@every_loss
@for_all(seed=seeds)
def test_doubled_cost_is_a_duplicated_row(loss, intercept, kind, seed):
    problem, X = make(seed, loss, intercept, kind)
    n = problem.n
    twice = np.r_[0, :n]
    doubled = wrap(X, problem.y, problem.cost * np.where(np.arange(n) == 0, 2, 1), loss, intercept, kind)
    repeated = wrap(X[twice], problem.y[twice], problem.cost[twice], loss, intercept, kind)
    rng = np.random.default_rng(seed)
    f, b = model(doubled, rng)
    same_f = f if kind == "linear" else np.r_[0.0, f]
    alpha = feasible(doubled, rng)
    halved = np.r_[alpha[0] / 2, alpha[0] / 2, alpha[1:]]
    assert doubled.primal(f, b) == repeated.primal(same_f, b)
    assert doubled.dual(alpha) == repeated.dual(halved)
    scores = doubled.scores(f)
    if kind == "linear":
        b = doubled.best_intercept(scores)
        assert doubled.primal(f, b) == doubled.primal(f, repeated.best_intercept(scores[twice]))


@every_loss
@for_all(seed=seeds)
def test_a_sample_without_cost_is_no_sample(loss, seed):
    problem, X = make(seed, loss, "free", zero_costs=True)
    kept = problem.cost > 0
    without = wrap(X[kept], problem.y[kept], problem.cost[kept], loss, "free")
    f, b = model(problem, np.random.default_rng(seed))
    assert problem.primal(f, b) == without.primal(f, b)
    assert (problem.upper[~kept] == 0).all()
    assert problem.best_intercept(problem.scores(f)) == without.best_intercept(without.scores(f))


# --- the best intercept -----------------------------------------------------------------------------------------------


def intercept_cases(rng, n):
    scores = rng.normal(0, 3, n)
    return np.round(scores) if rng.random() < 0.5 else scores  # half of them with ties


@pytest.mark.parametrize("intercept", ["penalized", "free"])
@every_loss
@for_all(seed=seeds, n=st.sampled_from([2, 9, 300]))
def test_best_intercept_by_one_sided_derivatives(loss, intercept, seed, n):
    problem, _ = make(seed, loss, intercept, n=n)
    scores = intercept_cases(np.random.default_rng(seed), n)
    b = problem.best_intercept(scores)
    for side in (-1.0, 1.0):
        # dP/db cannot fall with b, so a step much longer than the rounding of b shows its sign beside it
        at = b + side * 1e-6 * (1 + abs(b))
        margins = problem.margins(scores, at)
        slope = float(np.sum(problem.cost * problem.y * loss.slope(margins)))
        slope += at / SCALING**2 if intercept == "penalized" else 0.0
        rounding = (n + 8) * 4 * EPS * float(problem.cost @ (2 + np.abs(margins)))
        assert side * slope >= -rounding


@pytest.mark.parametrize("intercept", ["penalized", "free"])
@every_loss
@for_all(seed=seeds)
def test_best_intercept_against_a_search(loss, intercept, seed):
    problem, _ = make(seed, loss, intercept)
    scores = intercept_cases(np.random.default_rng(seed), problem.n)
    f = np.zeros(problem.size)
    grid = np.linspace(-15, 15, 601)
    kinks = np.concatenate([problem.y * place - scores for place, _, _ in loss.kinks])  # y (score + b) = place
    found = min(problem.primal(f, b, scores) for b in np.concatenate([grid, kinks]))
    rounding = 16 * EPS * float(problem.cost @ (2 + np.abs(scores)) ** 2)
    assert problem.primal(f, problem.best_intercept(scores), scores) <= found + rounding


@every_loss
@pytest.mark.parametrize("label", [1.0, -1.0])
def test_best_intercept_of_one_class_leaves_no_loss(loss, label):
    problem = wrap(np.zeros((5, 1)), np.full(5, label), np.ones(5), loss, "free")
    scores = np.array([-2.0, 0.0, 1.0, 1.0, 7.0])
    assert problem.primal(np.zeros(1), problem.best_intercept(scores), scores) == 0.0


def test_best_intercept_by_hand():
    # f = 0, three of +1 and one of -1, hinge: any b in [1, 1] is paid by the lonely one: P = 2 at b = 1
    problem = wrap(np.zeros((4, 1)), np.array([1.0, 1.0, 1.0, -1.0]), np.ones(4), Hinge(), "free")
    assert problem.best_intercept(np.zeros(4)) == 1.0
    # the sign: scores that are 5 too high need b = -5
    problem = wrap(np.zeros((2, 1)), np.array([1.0, -1.0]), np.ones(2), Hinge(), "free")
    assert problem.best_intercept(np.array([6.0, 4.0])) == -5.0
    assert wrap(np.zeros((2, 1)), [1.0, -1.0], np.ones(2), Hinge(), "none").best_intercept(np.array([6.0, 4.0])) == 0.0


# --- the dual point that margins suggest ------------------------------------------------------------------------------


@every_kind
@every_intercept
@every_loss
@for_all(seed=seeds, tied=st.booleans())
def test_slope_alpha_is_feasible_and_meets_fenchel_young(loss, intercept, kind, seed, tied):
    problem, _ = make(seed, loss, intercept, kind, zero_costs=True)
    f, _ = model(problem, np.random.default_rng(seed))
    scores = problem.scores(0 * f if tied else f)  # f = 0 puts a whole class on the hinge's kink
    margins = problem.margins(scores, problem.best_intercept(scores))
    alpha = problem.slope_alpha(margins)
    assert ((alpha >= 0) & (alpha <= problem.upper)).all()
    # c l(m) + c l*(-alpha / c) = -alpha m: alpha is c times a subgradient. A margin within 1e-9 of the kink is on it.
    charged = problem.cost > 0
    share = alpha[charged] / problem.cost[charged]
    residual = loss.value(margins[charged]) + loss.conjugate(-share) + share * margins[charged]
    assert (
        np.abs(residual) <= 4e-9 + 16 * EPS * (1 + np.abs(margins[charged])) ** 2 + 4e-9 * np.abs(margins[charged])
    ).all()
    if intercept == "free":  # dP/db = -sum alpha_i y_i is zero at the best b
        size = float(problem.cost @ (2 + np.abs(margins)))
        assert abs(float(np.sum(alpha * problem.y))) <= (problem.n + 8) * 4 * EPS * size


def test_slope_alpha_is_what_the_slope_says_off_the_kinks():
    problem = wrap(np.zeros((3, 1)), [1.0, -1.0, 1.0], [1.0, 2.0, 4.0], Hinge(), "none")
    assert problem.slope_alpha(np.array([0.5, 3.0, -2.0])).tolist() == [1.0, 0.0, 4.0]


# --- the projection ---------------------------------------------------------------------------------------------------


def projection_case(seed, loss, intercept, n=8):
    """(problem, a point near its box or far outside, a metric or None)"""
    rng = np.random.default_rng(seed)
    problem, _ = make(seed, loss, intercept, n=n, zero_costs=True)
    point = problem.cost * rng.normal(0.5, 1, n) + rng.normal(0, 1, n)
    point *= 10.0 ** rng.choice([-3, 0, 0, 1, 3])
    metric = None if rng.random() < 0.5 else 10.0 ** rng.uniform(-1, 1, n)
    return problem, point, metric


def projection_rounding(problem, point, metric):
    """t comes from sums over n samples of the sizes met, each of them in the units of alpha / ease."""
    ratio = 1.0 if metric is None else float(metric.max() / metric.min())
    size = float(np.abs(point).sum() + problem.cost.sum())
    return (problem.n + 8) * 8 * EPS * ratio * size


@every_intercept
@every_loss
@for_all(seed=seeds, n=st.sampled_from([2, 8, 80]))
def test_project_is_feasible_and_idempotent(loss, intercept, seed, n):
    problem, point, metric = projection_case(seed, loss, intercept, n)
    alpha = problem.project(point, metric)
    rounding = projection_rounding(problem, point, metric)
    assert ((alpha >= 0) & (alpha <= problem.upper)).all()
    if intercept == "free":
        assert abs(float(np.sum(alpha * problem.y))) <= rounding * n
    np.testing.assert_allclose(problem.project(alpha, metric), alpha, rtol=0, atol=rounding * n)


@every_intercept
@every_loss
@for_all(seed=seeds, n=st.sampled_from([2, 8, 80]))
def test_project_finds_the_nearest(loss, intercept, seed, n):
    """p is the nearest to a in a convex set iff <M (a - p), z - p> <= 0 for all z of the set."""
    problem, point, metric = projection_case(seed, loss, intercept, n)
    nearest = problem.project(point, metric)
    weight = np.ones(n) if metric is None else metric
    rng = np.random.default_rng(seed)
    away = weight * (point - nearest)
    for _ in range(8):
        z = feasible(problem, rng)
        slack = 4 * projection_rounding(problem, point, metric) * float(weight.max()) * float(np.abs(z - nearest).sum())
        slack += projection_rounding(problem, point, metric) * n * float(np.abs(away).max())  # nearest is off the plane
        assert float(away @ (z - nearest)) <= slack


def test_project_by_hand():
    problem = wrap(np.zeros((2, 1)), [1.0, -1.0], [4.0, 1.0], Hinge(), "free")
    assert problem.project(np.array([0.0, 1.0])).tolist() == [0.5, 0.5]
    assert problem.project(np.array([3.0, 3.0])).tolist() == [1.0, 1.0]  # the smaller box holds both
    assert problem.project(np.array([-5.0, 100.0])).tolist() == [1.0, 1.0]  # far outside: still the nearest
    assert problem.project(np.array([-5.0, 1.0])).tolist() == [0.0, 0.0]
    # a heavy first coordinate stays, the light one comes: (3 a + b) / 4
    assert problem.project(np.array([0.8, 0.4]), metric=np.array([3.0, 1.0])) == pytest.approx([0.7, 0.7], rel=8 * EPS)
    unbounded = wrap(np.zeros((2, 1)), [1.0, -1.0], [4.0, 1.0], SquaredHinge(), "free")
    assert unbounded.project(np.array([100.0, 50.0])).tolist() == [75.0, 75.0]


@every_intercept
@every_loss
@pytest.mark.parametrize("huge", [1e18, -1e18, 1e300, -1e300])
def test_project_is_feasible_for_huge_entries(loss, intercept, huge):
    for seed in range(10):
        problem, point, _ = projection_case(seed, loss, intercept)
        point[np.random.default_rng(seed).random(problem.n) < 0.4] = huge
        alpha = problem.project(point)
        assert ((alpha >= 0) & (alpha <= problem.upper)).all()
        assert np.isfinite(alpha).all()
        if intercept == "free":  # beside 1e300 nothing else is visible: the balance is off by roundings of that
            assert abs(float(np.sum(alpha * problem.y))) <= (problem.n + 8) * 8 * EPS * float(np.abs(point).sum())


@every_intercept
@every_loss
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
def test_the_judge_makes_sense_of_any_alpha(loss, intercept, bad):
    """What the judge projects is feasible and its bound is one, whatever it was given."""
    for seed in range(5):
        problem, point, _ = projection_case(seed, loss, intercept)
        point[np.random.default_rng(seed).random(problem.n) < 0.4] = bad
        bound, alpha = bound_dual(problem, point)
        assert ((alpha >= 0) & (alpha <= problem.upper)).all()
        assert np.isfinite(alpha).all()
        assert 0 <= bound <= problem.primal(np.zeros(problem.size), 0.0)


@every_loss
def test_project_with_one_class_leaves_nothing(loss):
    problem = wrap(np.zeros((3, 1)), np.ones(3), np.ones(3), loss, "free")
    assert problem.project(np.array([0.3, 5.0, -1.0])).tolist() == [0.0, 0.0, 0.0]


# --- the repair -------------------------------------------------------------------------------------------------------


@every_intercept
@every_loss
@for_all(seed=seeds, n=st.sampled_from([2, 8, 80]))
def test_repair_is_feasible(loss, intercept, seed, n):
    problem, point, _ = projection_case(seed, loss, intercept, n)
    alpha = problem.repair(point)
    assert ((alpha >= 0) & (alpha <= problem.upper)).all()
    if intercept == "free":
        assert abs(float(np.sum(alpha * problem.y))) <= projection_rounding(problem, point, None) * n


@every_intercept
@every_loss
@for_all(seed=seeds)
def test_repair_changes_nothing_where_nothing_is_wrong(loss, intercept, seed):
    problem, _ = make(seed, loss, intercept, zero_costs=True)
    alpha = feasible(problem, np.random.default_rng(seed))
    np.testing.assert_array_equal(problem.repair(alpha), alpha)


@every_loss
@for_all(seed=seeds, size=st.sampled_from([1e-12, 1e-3, 0.25]))
def test_repair_of_a_small_fault_keeps_the_support_vectors(loss, seed, size):
    """No more than the surplus is moved, and what is at a bound stays there."""
    problem, _ = make(seed, loss, "free", zero_costs=True)
    alpha = feasible(problem, np.random.default_rng(seed))
    inside = np.flatnonzero((alpha > 0) & (alpha < problem.upper))
    for i in inside:
        room = np.minimum(alpha, problem.upper - alpha)[i]
        wrong = alpha + np.where(np.arange(problem.n) == i, -problem.y * size * room, 0.0)
        right = problem.repair(wrong)
        np.testing.assert_array_equal((right > 0) & (right < problem.upper), (alpha > 0) & (alpha < problem.upper))
        rounding = (problem.n + 8) * 4 * EPS * float(alpha.sum())
        assert float(np.abs(right - wrong).sum()) <= size * room + rounding
        assert abs(float(np.sum(right * problem.y))) <= rounding


# --- stated rounding errors -------------------------------------------------------------------------------------------


def fractions(array):
    return [Fraction(v) for v in array.tolist()]


@pytest.mark.parametrize("layout", ["dense", "sparse", "float32"])
def test_linear_errors_are_bounds(layout):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 7)) * 10.0 ** rng.uniform(-4, 4, (30, 7))
    X = X.astype(np.float32) if layout == "float32" else X
    problem = wrap(sp.csr_array(X) if layout == "sparse" else X, np.ones(30), np.ones(30), Hinge(), "none")
    f, v = rng.normal(size=7) * 10.0 ** rng.uniform(-4, 4, 7), rng.normal(size=30)
    exact = [sum(a * b for a, b in zip(fractions(row), fractions(f), strict=True)) for row in X]
    for computed, truth, allowed in zip(problem.scores(f), exact, problem.score_error(f), strict=True):
        assert abs(Fraction(computed) - truth) <= allowed
    assert abs(Fraction(problem.inner(f, f)) - sum(a * a for a in fractions(f))) <= problem.norm_error(f)
    exact = [sum(a * b for a, b in zip(fractions(column), fractions(v), strict=True)) for column in X.T]
    missed = [float(Fraction(c) - t) for c, t in zip(problem.adjoint(v).tolist(), exact, strict=True)]
    assert np.linalg.norm(missed) <= problem.adjoint_error(v)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kernel_errors_are_bounds(dtype):
    """The exact kernel is X X'; K is it rounded to dtype, and the products of K round again."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))  # more rows than one block of a float32 product
    exact_rows = [fractions(row) for row in X[:6]]
    K = (X @ X.T).astype(dtype)
    problem = KernelProblem(np.ones(300), np.ones(300), Hinge(), "none", K=K)
    f = np.zeros(300)
    f[:6] = rng.normal(size=6)
    gram = [[sum(a * b for a, b in zip(p, q, strict=True)) for q in exact_rows] for p in exact_rows]
    scores = [sum(k * b for k, b in zip(row, fractions(f[:6]), strict=True)) for row in gram]
    assert problem.scores(f).dtype == np.float64
    for computed, truth, allowed in zip(problem.scores(f), scores, problem.score_error(f), strict=False):
        assert abs(Fraction(computed) - truth) <= allowed
    square = sum(a * s for a, s in zip(fractions(f[:6]), scores, strict=True))
    assert abs(Fraction(problem.inner(f, f)) - square) <= problem.norm_error(f)
    np.testing.assert_array_equal(problem.adjoint(f), f)
    assert problem.adjoint_error(f) == 0.0
    np.testing.assert_allclose(problem.scores(f), K.astype(float) @ f, rtol=0, atol=310 * EPS * 10)


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"intercept": "maybe"}, "intercept must be one of none, penalized, free, got 'maybe'."),
        ({"y": [1.0, 0.0]}, "y must hold -1 and +1 only."),
        ({"y": [1.0, np.nan]}, "y must hold -1 and +1 only."),
        ({"y": [1.0, -1.0, 1.0]}, "y and cost must have 2 entries, got 3 and 2."),
        ({"cost": [1.0]}, "y and cost must have 2 entries, got 2 and 1."),
        ({"cost": [1.0, -1.0]}, "the costs C * weight must be finite and not negative."),
        ({"cost": [1.0, np.inf]}, "the costs C * weight must be finite and not negative."),
        ({"cost": [1.0, np.nan]}, "the costs C * weight must be finite and not negative."),
    ],
)
@every_kind
def test_a_wrong_problem_gets_one_sentence(kind, wrong, sentence):
    stated = {"y": [1.0, -1.0], "cost": [1.0, 1.0], "loss": Hinge()} | wrong
    with pytest.raises(ValueError) as error:
        LinearProblem(X=as_matrix(np.eye(2)), **stated) if kind == "linear" else KernelProblem(K=np.eye(2), **stated)
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    "wrong",
    [{"intercept_scaling": s} for s in (0.0, np.nan, np.inf)]
    + [{"y": np.array([[1.0], [-1.0]])}, {"cost": np.ones((2, 2))}],
    ids=["scaling 0", "scaling nan", "scaling inf", "y in a column", "cost a matrix"],
)
@every_kind
def test_other_wrong_problems_get_a_sentence_too(kind, wrong):
    stated = {"y": [1.0, -1.0], "cost": [1.0, 1.0], "loss": Hinge(), "intercept": "penalized"} | wrong
    with pytest.raises(ValueError, match=r"^[^\n]+\.$"):
        LinearProblem(X=as_matrix(np.eye(2)), **stated) if kind == "linear" else KernelProblem(K=np.eye(2), **stated)


@pytest.mark.parametrize("K", [np.ones((2, 3)), np.ones(2), np.ones((2, 2, 2))])
def test_a_kernel_matrix_is_square(K):
    with pytest.raises(ValueError, match=r"^a kernel matrix must be square, got shape .*\.$"):
        KernelProblem([1.0, -1.0], [1.0, 1.0], Hinge(), K=K)


@every_loss
def test_offers_say_what_a_solver_may_need(loss):
    offers = wrap(np.eye(2), [1.0, -1.0], [1.0, 1.0], loss, "free").offers
    traits = {"hinge": {"lipschitz"}, "squared_hinge": {"smooth"}, "huber": {"smooth", "lipschitz"}}
    assert offers == {"linear", "rows"} | traits[loss.name]
