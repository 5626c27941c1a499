"""Attacks on the judge: inputs made up to turn a bound into something that is none. Every check is in exact arithmetic.

`fuzz.py` draws problems of ordinary size at random. Here is what randomness does not reach: numbers near the limits of
float64, other types, sums over many rows, kernel matrices that are wrong by as much as they say.
"""

import itertools
import math
import sys
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from flint import fmpq
from reference import kernel_primal_value, optimum, primal_value

from primalsvm import LinearSVC
from primalsvm.certificate import Certificate, bound_dual, bound_nothing, bound_primal, certificate
from primalsvm.claims import certify
from primalsvm.kernel_matrix import kernel_matrix
from primalsvm.kernels import Kernel
from primalsvm.losses import Hinge, Huber, SquaredHinge
from primalsvm.matrix import as_matrix
from primalsvm.problem import INTERCEPTS, KernelProblem, LinearProblem

LOSSES = (Hinge(), SquaredHinge(), Huber(0.5))
QUIET = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # overflow on the way to an honest infinity is no fault


def linear(X, y, cost, loss=None, intercept="none", scaling=1.0):
    y, cost = np.array(y, dtype=float), np.array(cost, dtype=float)
    return LinearProblem(y, cost, loss or Hinge(), intercept, scaling, X=as_matrix(X))


def kernel(K, y, cost, loss=None, intercept="none", accuracy=None):
    y, cost = np.array(y, dtype=float), np.array(cost, dtype=float)
    return KernelProblem(y, cost, loss or Hinge(), intercept, K=np.array(K), accuracy=accuracy)


def facts(problem):
    """What the reference wants to know besides X or K."""
    return {
        "y": problem.y,
        "cost": problem.cost,
        "loss": problem.loss.name,
        "intercept": problem.intercept,
        "h": getattr(problem.loss, "h", None),
        "intercept_scaling": problem.intercept_scaling,
    }


def rows_of(problem):
    X = problem.X
    return X.csr.toarray() if hasattr(X, "csr") else X.values


def exact_primal(problem, f, b):
    return primal_value(rows_of(problem), w=f, b=b, **facts(problem))


def exact_optimum(problem):
    best = optimum(rows_of(problem), **facts(problem))
    assert best.exact
    return best.value_low


def assert_true(problem, f, b, seen, best=None):
    """Every claim of a certificate of the linear model (f, b)."""
    best = exact_optimum(problem) if best is None else best
    assert Fraction(seen.dual) <= best
    assert seen.reachable == math.inf or Fraction(seen.reachable) >= best
    if not math.isfinite(seen.primal):
        assert seen.primal == math.inf
        return
    P = exact_primal(problem, f, b)
    assert Fraction(seen.primal) >= P
    assert Fraction(seen.primal) - Fraction(seen.rounding) <= P
    assert Fraction(seen.gap) >= P - best
    least, most = seen.excess
    if best > 0:
        assert Fraction(min(least, sys.float_info.max)) <= P / best - 1  # a ratio beyond float64 is infinite in it
        assert most == math.inf or Fraction(most) >= P / best - 1


def random_problem(rng, loss, intercept, *, n=6, d=3, scale=1.0, cost=1.0, scaling=1.0):
    X, y = rng.standard_normal((n, d)) * scale, rng.choice((-1.0, 1.0), n)
    return linear(X, y, cost * rng.random(n), loss, intercept, scaling)


# ------------------------------------------------------------------------------------- models as others hand them over


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int32, np.int64])
@pytest.mark.parametrize("intercept", ["none", "penalized", "free"])
def test_a_model_of_another_type_is_judged_in_float64(dtype, intercept):
    rng = np.random.default_rng(0)
    for loss in LOSSES:
        problem = random_problem(rng, loss, intercept, n=4)
        f = (100 * rng.standard_normal(3)).astype(dtype)
        b = dtype(0 if intercept == "none" else 7.3)
        assert_true(problem, f.astype(float), float(b), certificate(problem, f, b))


def test_integer_weights_do_not_wrap_around():
    problem = linear([[1.0, 0.0, 0.0]], [1], [1.0])
    f = np.array([3037000500, 3037000500, 3])  # |f|^2 = 1.8e19 > 2^63
    assert Fraction(bound_primal(problem, f, 0.0)[0]) >= exact_primal(problem, f, 0)


def test_a_float32_intercept_is_judged_in_float64():
    problem = linear([[0.0], [0.0]], [1, -1], [1e-3, 1e-3], Hinge(), "penalized", 0.1)
    for b in np.linspace(-1, 1, 50, dtype=np.float32):
        primal, rounding = bound_primal(problem, np.zeros(1), b)
        P = exact_primal(problem, [0.0], float(b))
        assert Fraction(float(primal)) >= P >= Fraction(float(primal)) - Fraction(float(rounding))


@pytest.mark.parametrize("cost", [0.0, 1e-320, 1e-300, 1e-3, 1.0, 1e6, 1e300, 1e308])
@pytest.mark.parametrize("loss", [*LOSSES, Huber(1e-9), Huber(40.0)], ids=str)
def test_the_bound_of_no_model_at_all_needs_no_pass(loss, cost):
    for seed in range(5):
        problem = random_problem(np.random.default_rng(seed), loss, "free", n=9, cost=cost)
        primal, rounding = bound_nothing(problem)
        P = exact_primal(problem, np.zeros(3), 0.0)
        if not math.isfinite(primal):
            assert cost >= 1e300
            continue
        assert Fraction(primal) >= P >= Fraction(primal) - Fraction(rounding)
        assert primal <= bound_primal(problem, np.zeros(3), 0.0)[0] * (1 + 1e-13)
        assert (primal == 0.0) == (cost == 0.0)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_a_dual_point_far_below_its_box_is_stretched_with_care(loss):
    """alpha / c may be below the least number of full precision, or nothing at all."""
    costs, sizes, alphas = (1e-300, 1.0, 1e290, 1e300, 1e308), (1e-155, 1e-150, 1e-8, 1.0), (1e-320, 1e-200, 1e-9, 1e-6)
    for cost, size, alpha in itertools.product(costs, sizes, alphas):
        problem = linear(size * np.array([[1.0, 2.0], [-1.0, 0.5]]), [1, -1], [cost, cost], loss, "none")
        low, feasible = bound_dual(problem, np.full(2, alpha))
        assert Fraction(low) <= exact_optimum(problem)
        assert (feasible >= 0).all() and (feasible <= problem.upper).all()


def test_an_intercept_is_refused_where_the_problem_has_none():
    problem = linear([[1.0], [1.0]], [1, 1], [1.0, 1.0], Hinge(), "none")
    # P "with b = 1" is 0, the minimum without an intercept 1/2: a certificate for it would prove the impossible
    with pytest.raises(ValueError, match="intercept"):
        certificate(problem, np.zeros(1), 1.0)
    with pytest.raises(ValueError, match="intercept"):
        certify(([-0.02], 1.0), [[1.0], [1.0], [100.0]], [1, 1, 0], C=1.0, loss="hinge", intercept="none")


@pytest.mark.parametrize("d", [1, 3])
def test_a_model_of_the_wrong_shape_is_refused(d):
    problem = linear(np.ones((4, d)), [1, -1, 1, 1], np.ones(4), Hinge(), "free")
    for f in (np.ones((1, d)), np.ones((d, 1)), np.ones(d + 1), np.zeros(d + 1)):
        with pytest.raises(ValueError, match="shape"):
            certificate(problem, f, 0.0)


# ------------------------------------------------------------------------------------------------------ the best seen


@pytest.mark.parametrize("size", [1.0, 1e3, 1e8, 1e14, 1e17])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_reachable_is_reached_however_bad_the_model(loss, size):
    """The polish walks from the model to the optimum: scores summed up on the way keep the error of where it began."""
    rng = np.random.default_rng(1)
    for intercept in INTERCEPTS:
        for _ in range(5):
            problem = random_problem(rng, loss, intercept, n=3, d=2)
            f = size * rng.integers(-9, 10, 2)
            assert_true(problem, f, 0.0, certificate(problem, f, 0.0))


def test_reachable_of_one_sample():
    problem = linear([[1.33]], [-1], [100.0], SquaredHinge())
    seen = certificate(problem, np.array([3e16]), 0.0)
    assert Fraction(seen.reachable) >= exact_optimum(problem)  # 0.28


# ---------------------------------------------------------------------------------------------- how much is rounding


def test_what_remains_without_the_allowance_is_below_the_primal():
    """P far below its allowance: primal - rounding is then a difference of two numbers that are nearly equal."""
    rng = np.random.default_rng(2)
    for _ in range(300):
        size = 10.0 ** rng.uniform(5, 8)
        x = size * (1 + rng.random(3))
        w = (1 + 1.5e-15) * x / (x @ x)  # the margin is above 1 by less than its error; P = |w|^2 / 2 is small
        problem = linear([x], [1], [10.0 ** rng.uniform(6, 16)])
        primal, rounding = bound_primal(problem, w, 0.0)
        assert Fraction(primal) - Fraction(rounding) <= exact_primal(problem, w, 0)


# ------------------------------------------------------------------------------------------ near the limits of float64


@QUIET
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("size", [1e155, 1e200, 1e307])
def test_immense_dual_points_prove_nothing_wrong(size, loss, intercept):
    rng = np.random.default_rng(3)
    problem = random_problem(rng, loss, intercept)
    dual, alpha = bound_dual(problem, size * rng.random(6))
    assert 0 <= Fraction(dual) <= exact_optimum(problem)
    assert (alpha >= 0).all() and (alpha <= problem.upper).all()


@QUIET
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("size", [1e155, 1e200, 1e307])
def test_immense_models_have_an_honest_bound(size, intercept):
    rng = np.random.default_rng(4)
    b = 0.0 if intercept == "none" else size
    for loss in LOSSES:
        problem = random_problem(rng, loss, intercept)
        f = size * rng.standard_normal(3)
        assert_true(problem, f, b, certificate(problem, f, b))
        K = rows_of(problem) @ rows_of(problem).T
        seen = certificate(kernel(K, problem.y, problem.cost, loss, intercept), size * rng.standard_normal(6), b)
        assert seen.primal > size and Fraction(seen.dual) <= exact_optimum(problem)


@QUIET
@pytest.mark.parametrize("loss", (*LOSSES, Huber(1e-17), Huber(1e-310), Huber(1e6), Huber(1e200)), ids=str)
@pytest.mark.parametrize("cost", [1e-150, 1e20, 1e100, 1e200, 1e300])
def test_extreme_costs_and_widths(cost, loss):
    rng = np.random.default_rng(5)
    for intercept in INTERCEPTS:
        problem = random_problem(rng, loss, intercept, n=5, d=2, cost=cost)
        best = exact_optimum(problem)
        for f in (np.zeros(2), rng.standard_normal(2), 1e-10 * rng.standard_normal(2)):
            assert_true(problem, f, 0.0, certificate(problem, f, 0.0, problem.cost), best)


@QUIET
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e-170, 1e-160, 1e-100, 1e100, 1e150, 1e153, 1e155, 1e300])
def test_extreme_features(scale, intercept):
    rng = np.random.default_rng(6)
    for loss in LOSSES:
        problem = random_problem(rng, loss, intercept, n=5, d=2, scale=scale)
        best = exact_optimum(problem)
        for f in (np.zeros(2), rng.standard_normal(2) * min(1 / scale, 1e150), rng.standard_normal(2)):
            assert_true(problem, f, 0.0, certificate(problem, f, 0.0, rng.random(5)), best)


@QUIET
@pytest.mark.parametrize("scaling", [1e-150, 1e-100, 1e-30, 1e30, 1e100, 1e150])
def test_extreme_intercept_scaling(scaling):
    rng = np.random.default_rng(7)
    for loss in LOSSES:
        problem = random_problem(rng, loss, "penalized", n=5, d=2, scaling=scaling)
        f = rng.standard_normal(2)
        for b in (0.0, 1.0, min(scaling, 1e100), min(scaling**2, 1e100)):
            assert_true(problem, f, b, certificate(problem, f, b, problem.cost))


@pytest.mark.parametrize("scaling", [0.0, np.nan, np.inf])
def test_an_intercept_scaling_that_means_nothing_is_refused(scaling):
    with pytest.raises(ValueError, match="intercept_scaling"):
        linear([[1.0]], [1], [1.0], Hinge(), "penalized", scaling)


@QUIET
@pytest.mark.parametrize("scaling", [1e-200, 1e-160, 1e155, 1e200])
def test_an_intercept_scaling_whose_square_is_no_number(scaling):
    """To refuse it is as good as to judge it rightly."""
    try:
        problem = linear([[1.0], [2.0]], [1, -1], [1.0, 1.0], Hinge(), "penalized", scaling)
    except ValueError:
        return
    assert_true(problem, np.ones(1), 0.5, certificate(problem, np.ones(1), 0.5, np.ones(2)))


@QUIET
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("exponent", [-300, -307, -310, -315, -320, -323])
def test_costs_so_small_that_products_lose_their_digits(exponent, intercept):
    """Below 2^-1022 a rounding error is no longer a fraction of its result."""
    rng = np.random.default_rng(8)
    for loss in LOSSES:
        for _ in range(5):
            problem = random_problem(rng, loss, intercept, n=5, d=2, cost=10.0**exponent)
            best = optimum(rows_of(problem), **facts(problem))
            f, b = np.array([float(v) for v in best.w]), float(best.b)
            assert Fraction(bound_dual(problem, problem.cost)[0]) <= best.value_low
            assert Fraction(bound_primal(problem, f, b)[0]) >= exact_primal(problem, f, b)


def test_the_smallest_problem_there_is():
    problem = linear([[0.0]], [1], [5e-324], Huber(0.5))
    assert Fraction(bound_dual(problem, np.ones(1))[0]) <= exact_optimum(problem)  # = the cost


@QUIET
@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_dual_points_so_small_that_f_alpha_loses_its_digits(intercept):
    """The judge stretches a dual point to its best multiple: what underflow took must not come back as a gain."""
    rng = np.random.default_rng(9)
    for loss in LOSSES:
        for scale in (1.0, 1e100, 1e150):
            problem = random_problem(rng, loss, intercept, n=4, d=2, scale=scale)
            best = exact_optimum(problem)
            for exponent in (-150, -160, -200, -300, -315, -321):
                alpha = rng.random(4) * 10.0**exponent
                assert Fraction(bound_dual(problem, alpha)[0]) <= best


# ------------------------------------------------------------------------------------------------------- uneven things


@QUIET
@pytest.mark.parametrize("ratio", [1e6, 1e12, 1e18, 1e30])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_costs_of_very_different_size(loss, ratio):
    """The projection onto sum alpha_i y_i = 0 takes the large alphas down to the small ones: digits are lost."""
    rng = np.random.default_rng(10)
    for _ in range(20):
        X, y = rng.standard_normal((5, 2)), np.array([1.0, -1.0, 1.0, -1.0, 1.0])
        problem = linear(X, y, np.where(y > 0, ratio, 1.0) * rng.random(5), loss, "free")
        best = exact_optimum(problem)
        for alpha in (problem.cost, problem.cost * rng.random(5), ratio * rng.random(5)):
            assert Fraction(bound_dual(problem, alpha)[0]) <= best


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_a_csr_matrix_with_repeated_and_unsorted_entries(dtype, index):
    data = np.array([3.0, -2.9, 1.0, 0.0, 5.0, -5.0], dtype=dtype)
    indices, indptr = np.array([1, 1, 0, 2, 0, 0], dtype=index), np.array([0, 4, 6], dtype=index)
    X = sp.csr_array((data, indices, indptr), shape=(2, 3))
    before = X.data.copy()
    problem = linear(X, [1, -1], [2.0, 3.0], Hinge(), "free")
    assert (X.data == before).all() and len(X.indices) == 6, "the caller's matrix was changed"
    dense = sp.csr_array((data, indices, indptr), shape=(2, 3)).toarray()
    assert (rows_of(problem) == dense).all()
    f = np.array([1e8, 1e8, 1.0])
    assert_true(problem, f, 0.5, certificate(problem, f, 0.5))


def test_linear_svc_on_a_csr_matrix_with_repeated_entries():
    rng = np.random.default_rng(11)
    rows, columns = rng.integers(0, 12, 80), rng.integers(0, 3, 80)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=12))])
    X = sp.csr_array((rng.standard_normal(80), columns, indptr), shape=(12, 3))
    y = np.where(np.arange(12) % 2, 1.0, -1.0)
    model = LinearSVC("hinge", C=2.0, tol=1e-6).fit(X.copy(), y)
    problem = linear(X.toarray(), y, np.full(12, 2.0), Hinge(), "free")
    # toarray() and the estimator may add repeated entries in another order: one rounding each
    best = float(exact_optimum(problem))
    assert model.certificate_.dual <= best * (1 + 1e-12) and model.certificate_.primal >= best * (1 - 1e-12)


# ----------------------------------------------------------------------------------------------------------- many rows


def rational(v):
    return fmpq(*float(v).as_integer_ratio())


def exact_sum(products):
    return sum((rational(a) * rational(b) for a, b in products), fmpq(0))


def large_matrix(storage, dtype, n, d):
    """Equal signs and a value that is rounded the same way every time: errors add up instead of cancelling."""
    rng = np.random.default_rng(12)
    values = (np.full((n, d), 1 / 3) + 1e-3 * rng.random((n, d)) * (np.arange(d) > 0)).astype(dtype)
    values[:, -1] *= (-1.0) ** np.arange(n)  # and one column that cancels
    return values if storage == "dense" else sp.csr_array(values)


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [4096, 4097, 10_000])
def test_the_stated_error_of_a_sum_over_many_rows(storage, dtype, n):
    X = large_matrix(storage, dtype, n, 3)
    problem = linear(X, (-1.0) ** np.arange(n), np.ones(n))
    v = np.full(n, 0.1)
    computed, dense = problem.adjoint(v), rows_of(problem)
    errors = [rational(computed[j]) - exact_sum(zip(v, dense[:, j], strict=True)) for j in range(3)]
    bound = rational(problem.adjoint_error(v))
    assert sum((e * e for e in errors), fmpq(0)) <= bound * bound


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_stated_error_of_scores_and_norms_with_many_features(storage, dtype):
    X = large_matrix(storage, dtype, 10_000, 3).T
    problem = linear(np.ascontiguousarray(X) if storage == "dense" else X.tocsr(), [1, -1, 1], np.ones(3))
    w = np.full(10_000, 0.1)
    computed, bounds, dense = problem.scores(w), problem.score_error(w), rows_of(problem)
    for i in range(3):
        exact = exact_sum(zip(w, dense[i], strict=True))
        assert abs(rational(computed[i]) - exact) <= rational(bounds[i])
    square = exact_sum(zip(w, w, strict=True))
    assert abs(rational(problem.inner(w, w)) - square) <= rational(problem.norm_error(w))


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_both_bounds_at_ten_thousand_samples(loss, intercept):
    """No optimum is known here, but P and D of given points are: both bounds must keep to their side."""
    n = 10_000
    rng = np.random.default_rng(13)
    X = rng.standard_normal((n, 2)) + 5.0
    problem = linear(X, np.where(np.arange(n) % 2, 1.0, -1.0), rng.random(n), loss, intercept)
    f, b = np.array([0.3, -0.2]), 0.0 if intercept == "none" else 0.1
    primal, rounding = bound_primal(problem, f, b)
    P = exact_primal(problem, f, b)
    assert Fraction(primal) >= P >= Fraction(primal) - Fraction(rounding)
    assert rounding <= 1e-9 * primal
    dual, alpha = bound_dual(problem, problem.cost * rng.random(n))
    # weak duality at a given point; a free intercept's leftover is within the allowance
    assert 0 < rational(dual) <= exact_dual(problem, X, alpha)


def exact_dual(problem, X, alpha):
    """D without the condition of the free intercept, from the table in losses.py."""
    beta = alpha * problem.y  # exact: a change of sign
    value = fmpq(0)
    for column in X.T:
        value -= exact_sum(zip(beta, column, strict=True)) ** 2 / 2
    if problem.intercept == "penalized":
        value -= exact_sum((v, 1.0) for v in beta) ** 2 / 2
    tilt, bend = rational(problem.loss.tilt), rational(problem.loss.bend)
    for a, c in zip(alpha, problem.cost, strict=True):
        if c > 0:
            value += tilt * rational(a) - bend * rational(a) ** 2 / rational(c) / 2
    return value


# ------------------------------------------------------------------------------------------------------------- kernels


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_a_rounded_kernel_matrix_that_is_no_longer_positive(loss, dtype):
    """K = x x' of rank one, rounded: its other eigenvalues are rounding errors of either sign, C makes them count."""
    rng = np.random.default_rng(14)
    for intercept in INTERCEPTS:
        for _ in range(10):
            x, y = 1 + rng.random((5, 1)), rng.choice((-1.0, 1.0), 5)
            problem = kernel((x @ x.T).astype(dtype), y, np.full(5, 10.0 ** rng.uniform(0, 6)), loss, intercept)
            best = optimum(x, **facts(problem))
            beta = np.array([float(v) for v in best.beta])
            b = float(best.b)
            for f in (beta, np.array([1.0, -1.0, 0.0, 0.0, 0.0]) * 1e6, 1e3 * rng.standard_normal(5)):
                seen = certificate(problem, f, b, np.array([float(a) for a in best.alpha]))
                G = [[rational(u) * rational(v) for v in x[:, 0]] for u in x[:, 0]]
                P = kernel_primal_value(G, beta=f, b=b, **facts(problem))
                assert Fraction(seen.primal) >= P >= Fraction(seen.primal) - Fraction(seen.rounding)
                assert Fraction(seen.dual) <= best.value_low <= Fraction(seen.reachable)


@pytest.mark.parametrize("accuracy", [1e-4, 1e-2, 0.1, 0.5])
def test_a_kernel_matrix_as_inaccurate_as_it_says(accuracy):
    """|K_ij - k_ij| <= accuracy sqrt(k_ii k_jj) with the true k_ii: those on the diagonal of K may be too small."""
    for loss in LOSSES:
        problem = kernel([[1.0 - accuracy]], [1], [100.0], loss, accuracy=accuracy)
        best = optimum(None, K=[[1]], **facts(problem)).value_low
        for alpha in (0.5, 1.0, 2.0, 100.0):
            assert Fraction(bound_dual(problem, np.array([alpha]))[0]) <= best
        for beta in (0.1, 1.0, -3.0):
            P = kernel_primal_value([[1]], beta=[beta], b=0, **facts(problem))
            primal, rounding = bound_primal(problem, np.array([beta]), 0.0)
            assert Fraction(primal) >= P >= Fraction(primal) - Fraction(rounding)


KERNELS = (Kernel("linear"), Kernel("rbf", gamma=0.7), Kernel("poly", gamma=0.5, degree=3, coef0=1.0))


def exact_kernel(kernel, x, z):
    """k(x, z) to 60 digits."""
    x, z = ([Decimal(float(v)) for v in row] for row in (x, z))
    product = sum(a * b for a, b in zip(x, z, strict=True))
    if kernel.name == "linear":
        return product
    if kernel.name == "poly":
        return (Decimal(kernel.gamma) * product + Decimal(kernel.coef0)) ** kernel.degree
    return (-Decimal(kernel.gamma) * sum((a - b) ** 2 for a, b in zip(x, z, strict=True))).exp()


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_kernel_matrices_are_as_accurate_as_they_say(kernel, dtype, offset):
    Z = (np.random.default_rng(16).standard_normal((6, 3)) + offset).astype(dtype)
    for stored in (Z, sp.csr_array(Z)):
        matrix = kernel_matrix(kernel, stored)
        K, accuracy = matrix.array(), matrix.accuracy
        with localcontext(prec=60):
            exact = [[exact_kernel(kernel, x, z) for z in Z] for x in Z]
            for i, j in np.ndindex(K.shape):
                error = abs(Decimal(float(K[i, j])) - exact[i][j])
                assert error <= Decimal(accuracy) * (exact[i][i] * exact[j][j]).sqrt()


INDEFINITE = {
    "beside a large entry": [[1e10, 0.0, 0.0], [0.0, 1e-10, 5e-10], [0.0, 5e-10, 1e-10]],
    "beside a small entry": [[1e-10, 0.0, 0.0], [0.0, 1.0, 1.1], [0.0, 1.1, 1.0]],
    "negative diagonal": [[-1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, -1.0]],
    "one negative entry": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, -1e-3]],
    "zero diagonal": [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]],
}


@pytest.mark.parametrize("K", INDEFINITE.values(), ids=INDEFINITE)
def test_an_indefinite_kernel_matrix_is_refused(K):
    """P has no minimum: a beta with beta' K beta < 0, stretched, takes it below any number."""
    with pytest.raises(ValueError, match="positive"):
        certify((np.zeros(3), 0.0), np.array(K), [1, 1, 0], C=1.0, loss="hinge", intercept="none", kernel="precomputed")


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_a_kernel_matrix_of_low_rank_is_not_refused(scale):
    """What rounding makes of X X' is positive enough, whatever the scales of its rows; zero rows too."""
    rng = np.random.default_rng(17)
    x = rng.standard_normal((8, 2)) * np.array([1.0, 1.0, scale, scale, 1e-3, 1.0, 0.0, 1.0])[:, None]
    seen = certify((np.zeros(8), 0.0), x @ x.T, [0, 1] * 4, C=1.0, loss="hinge", intercept="none", kernel="precomputed")
    assert Fraction(seen.dual) <= optimum(x, [-1.0, 1.0] * 4, np.ones(8), "hinge", "none").value_low


# -------------------------------------------------------------------------------------------------------- several parts


def test_the_sum_of_many_certificates_is_rounded_to_the_safe_side():
    rng = np.random.default_rng(15)
    for values in (np.full(5000, 0.1), rng.random(5000)):
        parts = [Certificate(primal=v, dual=v, reachable=v, rounding=v) for v in values.tolist()]
        total = Certificate.of_parts(parts)
        exact = sum(Fraction(part.primal) for part in parts)
        assert Fraction(total.primal) >= exact
        assert Fraction(total.reachable) >= exact
        assert Fraction(total.dual) <= exact
        assert Fraction(total.primal) - Fraction(total.rounding) <= 0


# ------------------------------------------------------------------------------------------------- sums over samples


def exact_loss(loss, m):
    """l(m) of a rational margin, from the table in losses.py."""
    short = rational(loss.tilt) - m
    if short <= 0:
        return fmpq(0)
    if loss.bend == 0.0:
        return short
    a = short / rational(loss.bend)
    a = min(a, rational(loss.bound)) if loss.bound < math.inf else a
    return a * (short - rational(loss.bend) * a / 2)


def wild(rng, n):
    """Numbers of all sizes; many of them cancel in differences."""
    return 10.0 ** rng.uniform(-12, 12, n) * np.where(rng.random(n) < 0.3, 1.0, rng.random(n))


@pytest.mark.parametrize("n", [1, 31, 32, 33, 300])
@pytest.mark.parametrize("loss", (*LOSSES, Huber(1e-9), Huber(1e6)), ids=str)
def test_losses_at_scores_with_errors_of_any_size(loss, n):
    """Scores anywhere within their errors: P is between the two sums, be they of numbers that cancel."""
    rng = np.random.default_rng(n)
    for b in (0.0, 1e-9, -3e7, *wild(rng, 100 if n == 1 else 0)):
        y, cost = np.where(rng.random(n) < 0.5, 1.0, -1.0), wild(rng, n) * (rng.random(n) < 0.9)
        error = wild(rng, n) * (rng.random(n) < 0.7)
        near = rng.choice([-1.0, 1.0], n) * (loss.tilt + rng.choice([-1.0, 0.0, 1.0], n) * error)  # the kink
        scores = np.where(rng.random(n) < 0.5, near - b, wild(rng, n))
        problem = linear(np.zeros((n, 1)), y, cost, loss, "free")
        primal, rounding = bound_primal(problem, np.zeros(1), b, (scores, error))
        margins = [rational(t) * (rational(s) + rational(b)) for t, s in zip(y, scores, strict=True)]
        sizes = np.abs(scores) + abs(b) + 1.0 + error

        def P(lowered_by, cost=cost, margins=margins):
            return sum(
                rational(c) * exact_loss(loss, m - rational(e))
                for c, m, e in zip(cost, margins, lowered_by, strict=True)
            )

        assert rational(primal) >= P(error) >= P(-error) >= rational(primal) - rational(rounding)
        assert primal <= float(P(error + 1e-14 * sizes)) * (1 + 1e-12)  # and not much more


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_one_score_that_is_no_number_leaves_no_bound(loss, number):
    n = 100
    problem = linear(np.zeros((n, 1)), np.ones(n), np.ones(n), loss)
    for place, where in itertools.product((0, 31, 32, 50, 99), (0, 1)):
        scored = np.full(n, 2.0), np.zeros(n)
        scored[where][place] = number
        if number == (-math.inf if where else math.inf):
            continue  # a margin as large as can be has no loss, and errors are not below 0
        assert bound_primal(problem, np.zeros(1), 0.0, scored) == (math.inf, math.inf)


@QUIET
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_any_alpha_becomes_a_feasible_one_with_true_sums(loss, intercept, monkeypatch):
    """Also where threads share the samples: the same bits."""
    from primalsvm import problem as module

    monkeypatch.setattr(module, "THREAD_SAMPLES", 40)
    rng = np.random.default_rng(21)
    for n in (1, 31, 33, 200):
        y, cost = np.where(np.arange(n) % 3, 1.0, -1.0), wild(rng, n) * (rng.random(n) < 0.9)
        alpha = wild(rng, n) * rng.choice([-1.0, 0.0, 1.0, 1.0], n)
        alpha[:: n // 5 + 1] = rng.choice(
            [math.nan, math.inf, -math.inf, -0.0, 5e-324, 1e300], len(alpha[:: n // 5 + 1])
        )
        found = [
            LinearProblem(y, cost, loss, intercept, X=as_matrix(np.zeros((n, 1)), threads)).feasible(alpha)
            for threads in (1, 3)
        ]
        for one, other in zip(*found, strict=True):
            np.testing.assert_array_equal(one, other)
        point, problem = found[0], linear(np.zeros((n, 1)), y, cost, loss, intercept)
        assert ((point.alpha >= 0) & (point.alpha <= problem.upper)).all()
        np.testing.assert_array_equal(point.signed, y * point.alpha)
        assert point.largest == np.max(problem.share(point.alpha), initial=0.0)
        a = [rational(v) for v in point.alpha]
        sums = {
            "total": a,
            "balance": [v * rational(t) for v, t in zip(a, y, strict=True)],
            "bent": [rational(loss.bend) * v * v / rational(c) for v, c in zip(a, cost, strict=True) if c > 0],
        }
        for name, terms in sums.items():
            said, size = getattr(point, name), sum(map(abs, terms), fmpq(0))
            if math.isfinite(said):
                assert abs(rational(said) - sum(terms, fmpq(0))) <= size * rational(48 * 2.0**-52), name


def test_an_alpha_of_another_length_is_refused():
    problem = linear(np.ones((3, 1)), [1, -1, 1], np.ones(3))
    for n in (1, 2, 4):
        with pytest.raises(ValueError, match="alpha must have shape"):
            bound_dual(problem, np.ones(n))
