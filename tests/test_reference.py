"""The referee is refereed: by hand, by identities that hold exactly, and by SciPy and scikit-learn."""

from fractions import Fraction

import numpy as np
import pytest
from reference import (
    INTERCEPTS,
    LOSSES,
    dual_value,
    is_positive_semidefinite,
    kernel_primal_value,
    optimum,
    primal_value,
)
from scipy.optimize import minimize
from sklearn.svm import SVC

ALL = [(loss, intercept) for loss in LOSSES for intercept in INTERCEPTS]


def options(loss, rng=None):
    """The keyword arguments that a loss needs, drawn at random if a generator is given."""
    h = None if loss != "huber" else 0.5 if rng is None else float(rng.choice([1e-3, 0.1, 0.5, 2.0]))
    return {"h": h, "intercept_scaling": 1.0 if rng is None else float(10 ** rng.uniform(-2, 2))}


def nasty_problem(rng):
    """X, y, cost of every kind that breaks solvers."""
    n, d = int(rng.integers(1, 13)), int(rng.integers(1, 7))
    X = rng.normal(size=(n, d))
    kind = rng.integers(4)
    if kind == 0:
        X *= 10.0 ** rng.uniform(-6, 6, size=d)  # every column on its own scale
    elif kind == 1:
        X = np.round(X)  # ties, singular faces
    elif kind == 2:
        X *= 10.0 ** rng.integers(-6, 7)
    if rng.random() < 0.3:
        X[rng.integers(n)] = X[rng.integers(n)]  # duplicated row, often with the other label
    if rng.random() < 0.2:
        X[rng.integers(n)] = 0.0
    y = np.where(rng.random(n) < rng.choice([0.5, 0.1, 1.0], p=[0.8, 0.1, 0.1]), 1.0, -1.0)
    cost = np.full(n, 10.0 ** rng.uniform(-4, 6))
    if rng.random() < 0.5:
        cost *= rng.random(n)
    if rng.random() < 0.3:
        cost[rng.random(n) < 0.4] = 0.0
    return X, y, cost


def plain_problem(rng, n=8, d=3):
    """Both classes, overlapping, on scale 1: what a float64 solver gets right to 1e-6."""
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] + rng.normal(size=n) > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return X, y, rng.uniform(0.1, 3.0, size=n)


def feasible_alpha(rng, y, cost, loss, intercept):
    """A random exactly feasible dual point, often on the bounds."""
    limit = [Fraction(c) * (3 if loss == "squared_hinge" else 1) for c in cost]
    share = [Fraction(int(k), 4) for k in rng.integers(0, 5, size=len(y))]
    if intercept != "free":
        return [s * u for s, u in zip(share, limit, strict=True)]
    alpha = [Fraction(0)] * len(y)
    positive, negative = np.flatnonzero(y > 0), np.flatnonzero(y < 0)
    for s in share if len(positive) and len(negative) else []:
        i, j = rng.choice(positive), rng.choice(negative)
        moved = s * min(limit[i] - alpha[i], limit[j] - alpha[j])
        alpha[i] += moved
        alpha[j] += moved
    return alpha


# ---------------------------------------------------------------------------------------------- by hand


@pytest.mark.parametrize(
    ("loss", "cost", "value", "alpha"),
    [
        # x = 2, y = 1, no intercept: D = c r(alpha/c) - 2 alpha^2
        ("hinge", 1.0, Fraction(1, 8), Fraction(1, 4)),  # inside the box: 1 = 4 alpha
        ("hinge", 0.125, Fraction(3, 32), Fraction(1, 8)),  # at the bound: 1/8 - 2/64
        ("squared_hinge", 0.25, Fraction(1, 12), Fraction(1, 6)),  # 1 = 2 alpha + 4 alpha
        ("huber", 0.5, Fraction(3, 16), Fraction(1, 4)),  # 3/2 = 2 alpha + 4 alpha (h = 1/2)
        ("huber", 0.125, Fraction(3, 32), Fraction(1, 8)),  # at the bound, like the hinge
    ],
)
def test_one_sample_by_hand(loss, cost, value, alpha):
    best = optimum([[2.0]], [1], [cost], loss, "none", **options(loss))
    assert (best.value_low, best.value_high, best.alpha) == (value, value, [alpha])
    assert best.w == [2 * alpha]
    assert best.b == 0


def test_one_sample_with_a_penalized_intercept_by_hand():
    # s = 2 is a second feature of value 2: |x|^2 = 5, alpha = 1/5, b = s^2 alpha
    best = optimum([[1.0]], [-1], [7.0], "hinge", "penalized", intercept_scaling=2.0)
    assert (best.value_low, best.value_high) == (Fraction(1, 10), Fraction(1, 10))
    assert (best.w, best.b) == ([Fraction(-1, 5)], Fraction(-4, 5))


@pytest.mark.parametrize(
    ("loss", "cost", "value", "w"),
    [
        # x = 3 and 1, y = +1 and -1, free b: by symmetry b = -2w, m = w for both; P = w^2/2 + 2 c l(w)
        ("hinge", 10.0, Fraction(1, 2), Fraction(1)),  # hard margin
        ("hinge", 0.25, Fraction(3, 8), Fraction(1, 2)),  # w = 2c: 1/8 + 1/4
        ("squared_hinge", 0.25, Fraction(1, 4), Fraction(1, 2)),  # w = 4c (1-w): 1/8 + 1/8
        ("huber", 0.5, Fraction(9, 16), Fraction(3, 4)),  # w = 3/2 - w: 9/32 + 9/32
    ],
)
def test_two_samples_with_a_free_intercept_by_hand(loss, cost, value, w):
    best = optimum([[3.0], [1.0]], [1, -1], [cost, cost], loss, "free", **options(loss))
    assert best.w == [w]
    assert best.value_low == best.value_high == value


@pytest.mark.parametrize("label", [1, -1])
@pytest.mark.parametrize("loss", LOSSES)
def test_one_class_with_a_free_intercept_costs_nothing(loss, label):
    best = optimum([[1.5], [-2.0]], [label, label], [3.0, 1e6], loss, "free", **options(loss))
    assert best.value_low == best.value_high == 0
    assert best.w == [0]
    assert best.b == label * (Fraction(3, 2) if loss == "huber" else 1)


@pytest.mark.parametrize(("loss", "intercept"), ALL)
def test_all_weights_zero(loss, intercept):
    best = optimum([[1.0], [2.0]], [1, -1], [0.0, 0.0], loss, intercept, **options(loss))
    assert best.value_low == best.value_high == 0


@pytest.mark.parametrize(
    ("loss", "m", "value"),
    [
        ("hinge", -1, 2),
        ("hinge", 1, 0),
        ("hinge", 2, 0),
        ("squared_hinge", -1, 4),
        ("squared_hinge", 2, 0),
        ("huber", 2, 0),
        ("huber", 1.5, 0),
        ("huber", 1, Fraction(1, 8)),
        ("huber", 0.5, Fraction(1, 2)),
        ("huber", -1, 2),
    ],
)
def test_loss_values_by_hand(loss, m, value):
    # w = 0 and b = -m against y = -1: the margin is m and P is the loss alone
    assert primal_value([[5.0]], [-1], [1.0], loss, "free", [0.0], -m, **options(loss)) == value


# ---------------------------------------------------------------------------------------------- identities


@pytest.mark.parametrize(("loss", "intercept"), ALL)
def test_weak_duality_at_random_points(loss, intercept):
    rng = np.random.default_rng(1)
    for _ in range(30):
        (X, y, cost), more = nasty_problem(rng), options(loss, rng)
        alpha = feasible_alpha(rng, y, cost, loss, intercept)
        w = rng.normal(size=X.shape[1]) / np.abs(X).max(initial=1e-6)
        b = 0.0 if intercept == "none" else rng.normal()
        primal = primal_value(X, y, cost, loss, intercept, w, b, **more)
        dual = dual_value(X, y, cost, loss, intercept, alpha, **more)
        best = optimum(X, y, cost, loss, intercept, **more)
        assert dual <= best.value_low <= best.value_high <= primal


def test_nasty_problems_are_solved_exactly():
    rng = np.random.default_rng(2)
    exact = 0
    for k in range(450):
        loss, intercept = ALL[k % len(ALL)]
        (X, y, cost), more = nasty_problem(rng), options(loss, rng)
        best = optimum(X, y, cost, loss, intercept, **more)
        # the returned points are what the values say they are
        assert primal_value(X, y, cost, loss, intercept, best.w, best.b, **more) == best.value_high
        assert dual_value(X, y, cost, loss, intercept, best.alpha, **more) == best.value_low
        exact += best.exact
    assert exact == 450  # the method is finite in exact arithmetic: nothing less will do


@pytest.mark.parametrize(("loss", "intercept"), ALL)
def test_stopped_early_the_enclosure_still_holds(loss, intercept):
    rng = np.random.default_rng(3)
    X, y, cost = plain_problem(rng)
    best = optimum(X, y, cost, loss, intercept, **options(loss))
    early = [optimum(X, y, cost, loss, intercept, max_pivots=k, **options(loss)) for k in range(best.pivots)]
    assert all(e.value_low <= best.value_low <= e.value_high for e in early)
    assert not early[0].exact
    lows = [e.value_low for e in early]
    assert lows == sorted(lows)


@pytest.mark.parametrize(("loss", "intercept"), ALL)
def test_metamorphic(loss, intercept):
    """A duplicated row is a doubled weight; order, zero columns, zero weights and flipped labels change nothing."""
    rng = np.random.default_rng(4)
    for _ in range(12):
        X, y, cost = nasty_problem(rng)
        more = options(loss, rng)

        def value(X, y, cost, more=more):
            return optimum(X, y, cost, loss, intercept, **more).value_high

        first = np.where(np.arange(len(y)) == 0, 2.0, 1.0)
        assert value(np.vstack([X, X[:1]]), np.append(y, y[0]), np.append(cost, cost[0])) == value(X, y, first * cost)
        order = rng.permutation(len(y))
        base = value(X, y, cost)
        assert value(X[order], y[order], cost[order]) == base
        assert value(np.hstack([X, np.zeros((len(y), 1))]), y, cost) == base
        assert value(np.vstack([X, X[:1] + 1]), np.append(y, -y[0]), np.append(cost, 0.0)) == base
        assert value(X, -y, cost) == base


@pytest.mark.parametrize("loss", LOSSES)
def test_penalized_intercept_is_a_constant_feature(loss):
    rng = np.random.default_rng(5)
    for _ in range(12):
        (X, y, cost), more = nasty_problem(rng), options(loss, rng)
        column = np.full((len(y), 1), more["intercept_scaling"])
        penalized = optimum(X, y, cost, loss, "penalized", **more)
        assert penalized.value_high == optimum(np.hstack([X, column]), y, cost, loss, "none", **more).value_high


@pytest.mark.parametrize("loss", LOSSES)
def test_a_free_intercept_ignores_a_shift_of_the_data(loss):
    rng = np.random.default_rng(6)
    for _ in range(12):
        X, y, cost = nasty_problem(rng)
        X = np.round(X)  # so that the shifted data are exact
        shifted = optimum(X + 3.0, y, cost, loss, "free", **options(loss))
        assert shifted.value_high == optimum(X, y, cost, loss, "free", **options(loss)).value_high


@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_huber_lies_between_hinge_and_hinge_plus_a_quarter_h(intercept):
    rng = np.random.default_rng(7)
    X, y, cost = plain_problem(rng)
    hinge = optimum(X, y, cost, "hinge", intercept).value_high
    huber = optimum(X, y, cost, "huber", intercept, h=1e-6).value_high
    assert hinge <= huber <= hinge + Fraction(1e-6) / 4 * sum(map(Fraction, cost))
    assert optimum(X, y, cost, "huber", intercept, h=0.5).value_high > huber


# ---------------------------------------------------------------------------------------------- kernels


@pytest.mark.parametrize(("loss", "intercept"), ALL)
def test_linear_kernel_is_the_linear_problem(loss, intercept):
    rng = np.random.default_rng(8)
    X = rng.integers(-3, 4, size=(9, 2)).astype(float)  # X X^T is exact in float64, and singular
    y, cost = rng.choice([-1.0, 1.0], size=9), rng.uniform(0.1, 10, size=9)
    linear = optimum(X, y, cost, loss, intercept, **options(loss))
    kernel = optimum(None, y, cost, loss, intercept, K=X @ X.T, **options(loss))
    assert kernel.exact
    assert kernel.w is None
    assert kernel.value_high == linear.value_high
    value = kernel_primal_value(X @ X.T, y, cost, loss, intercept, kernel.beta, kernel.b, **options(loss))
    assert value == kernel.value_high
    assert dual_value(None, y, cost, loss, intercept, kernel.alpha, K=X @ X.T, **options(loss)) == kernel.value_low


@pytest.mark.parametrize(("loss", "intercept"), ALL)
def test_rbf_kernel_is_solved_exactly(loss, intercept):
    X, y, cost = plain_problem(np.random.default_rng(9), n=10)
    K = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2))
    best = optimum(None, y, 100 * cost, loss, intercept, K=K, **options(loss))
    assert best.exact
    beta = np.random.default_rng(0).normal(size=10)
    assert kernel_primal_value(K, y, 100 * cost, loss, intercept, beta, 0.0, **options(loss)) > best.value_high


@pytest.mark.parametrize(
    ("K", "answer"),
    [
        ([[1.0, 1.0], [1.0, 1.0]], True),
        ([[1.0, 1.0], [1.0, 1.0 - 2**-53]], False),
        ([[0.0, 0.0], [0.0, 2.0]], True),
        ([[0.0, 2**-1074], [2**-1074, 2.0]], False),
        ([[-1.0]], False),
        ([], True),
    ],
)
def test_positive_semidefinite(K, answer):
    assert is_positive_semidefinite(K) is answer


# ---------------------------------------------------------------------------------------------- other people's solvers


def float_loss(loss, m, h=0.5):
    """Written for this test alone, in float64: values and slopes of the loss."""
    if loss == "squared_hinge":
        return np.maximum(0, 1 - m) ** 2, -2 * np.maximum(0, 1 - m)
    z = np.clip((1 + h - m) / (2 * h), 0, 1)
    return np.where(m < 1 - h, 1 - m, h * z**2), -z


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("loss", ["squared_hinge", "huber"])
def test_smooth_losses_against_scipy(loss, intercept):
    rng = np.random.default_rng(10)
    for _ in range(5):
        X, y, cost = plain_problem(rng)
        A = np.hstack([X, np.ones((len(y), 1))])
        # weight of w^2 and of b^2 (s = 2); none: the column is zero
        ridge = np.append(np.ones(X.shape[1]), 0.25 if intercept == "penalized" else 0.0)
        if intercept == "none":
            A[:, -1] = 0.0

        def objective(v, A=A, y=y, cost=cost, ridge=ridge):
            values, slopes = float_loss(loss, y * (A @ v))
            return ridge @ v**2 / 2 + cost @ values, ridge * v + A.T @ (cost * y * slopes)

        found = minimize(objective, np.zeros(A.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-7})
        best = optimum(X, y, cost, loss, intercept, h=options(loss)["h"], intercept_scaling=2.0)
        assert float(best.value_high) == pytest.approx(found.fun, rel=1e-6)


@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_hinge_against_scipy(intercept):
    """min 1/2 |w|^2 + cost.xi  subject to  xi >= 0,  xi >= 1 - m, by sequential quadratic programming."""
    rng = np.random.default_rng(11)
    for _ in range(3):
        X, y, cost = plain_problem(rng)
        n, d = X.shape
        ridge = np.append(np.ones(d), 0.25 if intercept == "penalized" else 0.0)
        A = y[:, None] * np.hstack([X, np.full((n, 1), float(intercept != "none"))])
        found = minimize(
            lambda v, cost=cost, ridge=ridge, d=d: ridge @ v[: d + 1] ** 2 / 2 + cost @ v[d + 1 :],
            np.append(np.zeros(d + 1), np.ones(n)),
            jac=lambda v, cost=cost, ridge=ridge, d=d: np.append(ridge * v[: d + 1], cost),
            bounds=[(None, None)] * (d + 1) + [(0, None)] * n,
            constraints={
                "type": "ineq",
                "fun": lambda v, A=A, d=d: A @ v[: d + 1] + v[d + 1 :] - 1,
                "jac": lambda v, A=A, n=n: np.hstack([A, np.eye(n)]),
            },
            method="SLSQP",
            options={"ftol": 1e-12, "maxiter": 500},
        )
        assert found.success
        best = optimum(X, y, cost, "hinge", intercept, intercept_scaling=2.0)
        assert float(best.value_high) == pytest.approx(found.fun, rel=1e-6)


@pytest.mark.parametrize("C", [1e-2, 1.0, 1e3])
def test_hinge_with_a_free_intercept_against_libsvm(C):
    """The dual value is compared: LIBSVM keeps Q in float32, an error that P feels at first order in C, D at second."""
    rng = np.random.default_rng(12)
    for _ in range(5):
        X, y, cost = plain_problem(rng, n=10)
        model = SVC(kernel="linear", C=C, tol=1e-12).fit(X, y, sample_weight=cost)
        best = optimum(X, y, C * cost, "hinge", "free")
        dual = np.abs(model.dual_coef_).sum() - np.sum(model.coef_**2) / 2
        assert float(best.value_low) == pytest.approx(dual, rel=1e-6)
        found = primal_value(X, y, C * cost, "hinge", "free", model.coef_[0], model.intercept_[0])
        assert best.value_high <= found


# ---------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("loss", "intercept", "alpha", "cost"),
    [
        ("hinge", "none", [1.0, 1.0 + 2**-52], [1.0, 1.0]),
        ("huber", "none", [1.0, 2.0], [1.0, 1.0]),
        ("squared_hinge", "none", [-(2**-1074), 0.0], [1.0, 1.0]),
        ("squared_hinge", "none", [1.0, 1.0], [1.0, 0.0]),
        ("hinge", "free", [0.5, 0.5 + 2**-53], [1.0, 1.0]),
    ],
)
def test_an_infeasible_alpha_is_refused(loss, intercept, alpha, cost):
    with pytest.raises(ValueError, match="alpha"):
        dual_value([[1.0], [2.0]], [1, -1], cost, loss, intercept, alpha, **options(loss))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"loss": "logistic"}, "loss is one of"),
        ({"intercept": True}, "intercept is one of"),
        ({"h": 0.5}, "h belongs to"),
        ({"loss": "huber"}, "h belongs to"),
        ({"loss": "huber", "h": 0.0}, "h must be positive"),
        ({"intercept_scaling": 0.0}, "intercept_scaling"),
        ({"y": [1]}, "1 labels but 2 costs"),
        ({"y": [1, 0]}, "labels are"),
        ({"cost": [1.0, -1.0]}, "not negative"),
        ({"X": [[1.0]]}, "1 rows but 2 labels"),
        ({"X": None}, "pass X or K"),
        ({"K": [[1.0, 0.0], [0.0, 1.0]]}, "pass X or K"),
        ({"X": None, "K": [[1.0, 0.5], [0.0, 1.0]]}, "not symmetric"),
        ({"X": None, "K": [[1.0], [0.0]]}, "not square"),
        ({"X": None, "K": [[1.0, 2.0], [2.0, 1.0]]}, "not positive semidefinite"),
    ],
)
def test_a_malformed_problem_is_refused(change, sentence):
    problem = {"X": [[1.0], [2.0]], "y": [1, -1], "cost": [1.0, 1.0], "loss": "hinge", "intercept": "free"}
    with pytest.raises(ValueError, match=sentence):
        optimum(**(problem | change))


def test_no_intercept_means_b_is_zero():
    with pytest.raises(ValueError, match="b must be 0"):
        primal_value([[1.0]], [1], [1.0], "hinge", "none", [1.0], 0.5)
