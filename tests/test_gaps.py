"""Gaps in Support Vector Optimization (List, Hush, Scovel, Steinwart 2007), theorem by theorem.

Where the numbers are quarters float64 makes no rounding errors and equal means ==. Linear programs are solved by HiGHS,
whose feasibility and optimality tolerance is 1e-7: a gap that comes from one is known to 1e-7 times the size of its
numbers (`HIGHS`).
"""

import numpy as np
import pytest
from drawn import every_intercept, every_kind, for_all, quarters, seeds
from hypothesis import strategies as st
from reference import kernel_primal_value, optimum, primal_value

from primalsvm.gaps import (
    QuadraticProgram,
    backward_gap,
    certified_intercept,
    dual_slopes,
    forward_gap,
    qp_backward_gap,
    qp_forward_gap,
    qp_sigma_gap,
    sigma_gap,
    svm_program,
    violating_pair,
)
from primalsvm.losses import Hinge, Huber, SquaredHinge
from primalsvm.matrix import as_matrix
from primalsvm.problem import EPS, KernelProblem, LinearProblem

HIGHS = 1e-7
SCALING = 2.0


def make(seed, intercept="free", kind="linear", n=8, d=3, loss=Hinge()):  # noqa: B008 (frozen)
    """(problem, X, K): exactly representable, costs of its own for every sample, some of them zero."""
    rng = np.random.default_rng(seed)
    X = quarters(rng, (n, d))
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    cost = rng.choice([0.0, 0.5, 1.0, 2.0, 4.0], n)
    stated = (y, cost, loss, intercept, SCALING)
    K = X @ X.T
    return (LinearProblem(*stated, X=as_matrix(X)) if kind == "linear" else KernelProblem(*stated, K=K)), X, K


def exact_alpha(problem, rng):
    """Feasible, exactly representable, often on the bounds."""
    if problem.intercept != "free":
        return problem.cost * rng.integers(0, 5, problem.n) / 4
    alpha = np.zeros(problem.n)
    positive, negative = np.flatnonzero(problem.y > 0), np.flatnonzero(problem.y < 0)
    for _ in range(problem.n):
        pair = [rng.choice(positive), rng.choice(negative)]
        alpha[pair] += np.min(problem.cost[pair] - alpha[pair]) * rng.choice([0.25, 0.5, 1.0])
    return alpha


def any_alpha(problem, rng):
    """Feasible up to rounding: a random point, projected."""
    return problem.project(problem.cost * rng.uniform(-0.5, 1.5, problem.n))


def rounding(problem, alpha):
    """n + 16 roundings in each of n products c_i m_i; |m_i| <= sum_j alpha_j |K_ij| + |b|, |b| <= 1 + max |score|."""
    reach = 1 + problem.norms * float(alpha @ problem.norms) + SCALING**2 * float(alpha.sum())
    return (problem.n + 16) * 4 * EPS * float(problem.cost.sum() * (1 + 2 * reach.max()))


# --- any convex quadratic program -------------------------------------------------------------------------------------


def random_program(seed, filled):
    """A program with a random Q of low rank, and a lambda in the domain of psi.

    filled: some u of U_lambda is feasible, so that the gap is finite.
    """
    rng = np.random.default_rng(seed)
    p, m = int(rng.integers(1, 9)), int(rng.integers(1, 12))
    B = rng.normal(size=(p, int(rng.integers(0, p + 1))))
    Q, A = B @ B.T, rng.normal(size=(m, p))
    lam = rng.uniform(0, 2, m) * (rng.random(m) < 0.7)
    u = rng.normal(size=p)
    w = Q @ u + A.T @ lam  # w - A' lambda in the image of Q, and u in U_lambda
    d = A @ u + rng.uniform(0, 1, m) * (rng.random(m) < 0.7)
    if not filled:
        d[0] = (A @ rng.normal(size=p))[0] - 1.0
    return QuadraticProgram(Q, w, A, d), lam, u


def program_rounding(program, lam, u):
    """1e-7 of HiGHS, and the roundings of the eigenvalues of Q, on the sizes that are added up."""
    known = np.linalg.eigvalsh(program.Q)
    known = known[known > 1e-10 * known.max(initial=0.0)]
    condition = known.max() / known.min() if len(known) else 1.0
    size = (1 + np.abs(lam).sum()) * (1 + np.abs(program.d).max() + np.abs(program.A).max() * np.abs(u).sum())
    return (HIGHS + 1e3 * EPS * condition) * size * len(lam)


@for_all(seed=seeds)
def test_theorem_3_and_lemma_7_the_three_gaps_are_one(seed):
    program, lam, u = random_program(seed, filled=True)
    backward, best = qp_backward_gap(program, lam)
    tolerance = program_rounding(program, lam, best)
    assert qp_forward_gap(program, lam) == pytest.approx(backward, rel=0, abs=tolerance)
    assert qp_sigma_gap(program, lam) == pytest.approx(backward, rel=0, abs=tolerance)
    # u is one candidate of the infimum (10)
    assert -tolerance <= backward <= float(lam @ (program.d - program.A @ u)) + tolerance


@for_all(seed=seeds)
def test_theorem_3_the_gap_is_attained_by_a_feasible_point(seed):
    program, lam, _ = random_program(seed, filled=True)
    gap, u = qp_backward_gap(program, lam)
    tolerance = program_rounding(program, lam, u)
    assert (program.A @ u <= program.d + tolerance).all()
    assert float(lam @ (program.d - program.A @ u)) == pytest.approx(gap, rel=0, abs=tolerance)
    np.testing.assert_allclose(program.Q @ u, program.w - program.A.T @ lam, atol=tolerance)  # u in U_lambda


@for_all(seed=seeds)
def test_lemma_2_the_gradient_is_a_subgradient_of_psi(seed):
    """psi(mu) >= psi(lambda) + grad psi(lambda) . (mu - lambda) for mu in the domain, and >= the value of any u."""
    program, lam, u = random_program(seed, filled=True)
    kernel = np.linalg.svd(program.Q)[0][:, np.linalg.matrix_rank(program.Q) :]
    rng = np.random.default_rng(seed)
    move = rng.normal(size=len(lam))
    if kernel.size:  # stay where w - A' mu is orthogonal to ker Q
        stay = kernel.T @ program.A.T
        move -= np.linalg.pinv(stay) @ (stay @ move)
    tolerance = program_rounding(program, np.abs(lam) + np.abs(move), u)
    linear = program.dual_value(lam) + float(program.dual_gradient(lam) @ move)
    assert program.dual_value(lam + move) >= linear - tolerance
    assert program.dual_value(lam) >= program.value(u) - tolerance  # u is feasible: weak duality (7)


@for_all(seed=seeds)
def test_lemma_4_gaps_bound_the_suboptimality(seed):
    """Without a better solver at hand: no feasible point, and no dual point, is better than the gap allows."""
    program, lam, feasible = random_program(seed, filled=True)
    gap, u = qp_backward_gap(program, lam)
    tolerance = program_rounding(program, lam, u)
    rng = np.random.default_rng(seed)
    for _ in range(20):
        # towards random points, as far as the constraints allow
        way = rng.normal(size=len(u))
        speed, room = program.A @ way, program.d - program.A @ feasible
        reach = np.min(np.where(speed > 0, np.maximum(room, 0) / np.where(speed > 0, speed, 1.0), 10.0))
        other = feasible + rng.uniform() * reach * way
        assert program.value(other) - program.value(u) <= gap + tolerance * (1 + np.abs(other).sum())


def test_without_a_feasible_point_in_U_the_gap_is_infinite():
    # max -u^2/2 subject to u <= -1: at lambda = 0 the maximiser is u = 0, which is not feasible
    program = QuadraticProgram(np.eye(1), np.zeros(1), np.eye(1), -np.ones(1))
    for lam, gap in [(np.zeros(1), np.inf), (np.array([0.5]), np.inf), (np.array([1.0]), 0.0), (np.array([3.0]), 6.0)]:
        # u = -lambda; -lambda (u + 1)
        assert qp_forward_gap(program, lam) == gap
        assert qp_backward_gap(program, lam)[0] == gap
        assert qp_sigma_gap(program, lam) == pytest.approx(gap)


def test_outside_the_domain_of_psi_the_gap_is_infinite():
    """w - A' lambda is not orthogonal to ker Q, so U_lambda is empty and psi(lambda) infinite."""
    # max u subject to 0 <= u <= 2, at lambda = 0
    program = QuadraticProgram(np.zeros((1, 1)), np.ones(1), np.array([[1.0], [-1.0]]), np.array([2.0, 0.0]))
    lam = np.zeros(2)
    assert qp_forward_gap(program, lam) == np.inf
    assert qp_backward_gap(program, lam)[0] == np.inf
    assert qp_sigma_gap(program, lam) == np.inf


@pytest.mark.parametrize("seed", range(10))
def test_the_gaps_vanish_at_an_optimum_with_active_constraints(seed):
    """max w.u - u' Q u / 2, Q of full rank, where lambda is optimal: every constraint with lambda_i > 0 holds with ="""
    rng = np.random.default_rng(seed)
    B, A, u, lam = rng.normal(size=(3, 3)), rng.normal(size=(4, 3)), rng.normal(size=3), rng.uniform(1, 2, 4)
    lam[2:] = 0.0
    program = QuadraticProgram(B @ B.T, B @ B.T @ u + A.T @ lam, A, A @ u + (lam == 0))
    tolerance = program_rounding(program, lam, u)
    for gap in (qp_forward_gap(program, lam), qp_backward_gap(program, lam)[0], qp_sigma_gap(program, lam)):
        assert gap == pytest.approx(0, abs=tolerance)


@for_all(seed=seeds)
def test_the_gaps_are_infinite_together(seed):
    program, lam, _ = random_program(seed, filled=False)
    gaps = [qp_forward_gap(program, lam), qp_backward_gap(program, lam)[0], qp_sigma_gap(program, lam)]
    assert len(set(np.isinf(gaps))) == 1


def test_a_linear_program_is_a_quadratic_one():
    # max u subject to 0 <= u <= 2; only lambda_1 - lambda_2 = 1 is in the domain, and U_lambda is everything
    program = QuadraticProgram(np.zeros((1, 1)), np.ones(1), np.array([[1.0], [-1.0]]), np.array([2.0, 0.0]))
    for spare in (0.0, 1.5):
        lam = np.array([1.0 + spare, spare])
        # inf over u in [0, 2] of (1 + spare) (2 - u) + spare u: at u = 2
        assert qp_forward_gap(program, lam) == pytest.approx(2 * spare)
        assert qp_backward_gap(program, lam)[0] == pytest.approx(2 * spare)
        assert qp_sigma_gap(program, lam) == pytest.approx(2 * spare)


# --- the hinge SVM ----------------------------------------------------------------------------------------------------


@every_kind
@every_intercept
@for_all(seed=seeds)
def test_all_gaps_are_primal_less_dual(intercept, kind, seed):
    problem, _, _ = make(seed, intercept, kind)
    alpha = exact_alpha(problem, np.random.default_rng(seed))
    gap = problem.primal(problem.function(alpha), certified_intercept(problem, alpha)) - problem.dual(alpha)
    assert gap >= 0
    assert forward_gap(problem, alpha) == gap
    assert backward_gap(problem, alpha) == gap
    assert sigma_gap(problem, alpha) == gap


@every_kind
@every_intercept
@for_all(seed=seeds, n=st.sampled_from([2, 8, 40]))
def test_all_gaps_agree_on_projected_points(intercept, kind, seed, n):
    problem, _, _ = make(seed, intercept, kind, n=n)
    alpha = any_alpha(problem, np.random.default_rng(seed))
    gap = problem.primal(problem.function(alpha), certified_intercept(problem, alpha)) - problem.dual(alpha)
    for each in (forward_gap, backward_gap, sigma_gap):
        assert each(problem, alpha) == pytest.approx(gap, rel=0, abs=rounding(problem, alpha))


@every_kind
@for_all(seed=seeds)
def test_the_svm_is_a_quadratic_program(kind, seed):
    """Section 3.2: the general definitions, by linear programs, give what eq. 19 gives by a sort."""
    problem, _, K = make(seed, "free", kind)
    alpha = exact_alpha(problem, np.random.default_rng(seed))
    program, lam = svm_program(problem, K), np.concatenate([alpha, problem.cost - alpha])  # eq. 18
    gap, u = qp_backward_gap(program, lam)
    tolerance = HIGHS * (1 + float(problem.cost.sum())) * (1 + float(np.abs(K @ alpha).max()))
    assert gap == pytest.approx(forward_gap(problem, alpha), rel=0, abs=tolerance)
    assert qp_forward_gap(program, lam) == pytest.approx(gap, rel=0, abs=tolerance)
    assert qp_sigma_gap(program, lam) == pytest.approx(gap, rel=0, abs=tolerance)
    # psi is -D, the value at the certified point is -P; f_alpha is the f of u although beta need not be alpha y
    assert program.dual_value(lam) == pytest.approx(-problem.dual(alpha), rel=0, abs=tolerance)
    beta, b = u[: problem.n], float(u[problem.n])
    np.testing.assert_allclose(K @ beta, K @ (alpha * problem.y), atol=tolerance)
    f = beta if kind == "kernel" else problem.adjoint(beta)
    assert problem.primal(f, b) == pytest.approx(problem.dual(alpha) + gap, rel=0, abs=tolerance)


@every_kind
@pytest.mark.parametrize("seed", range(10))
def test_corollary_3_the_certified_point_is_that_close_to_the_optimum(kind, seed):
    problem, X, K = make(seed, "free", kind)
    alpha = exact_alpha(problem, np.random.default_rng(seed))
    stated = (problem.y, problem.cost, "hinge", "free")
    f, b = problem.function(alpha), certified_intercept(problem, alpha)
    value = primal_value(X, *stated, f, b) if kind == "linear" else kernel_primal_value(K, *stated, f, b)
    best = optimum(X, *stated)
    assert best.exact
    assert 0 <= value - best.value_high <= forward_gap(problem, alpha)


def optimal_alpha(problem, X):
    best = optimum(X, problem.y, problem.cost, "hinge", problem.intercept, intercept_scaling=SCALING)
    return np.array(best.alpha, dtype=float)


@every_kind
@every_intercept
@pytest.mark.parametrize("seed", range(5))
def test_gaps_vanish_at_the_optimum(intercept, kind, seed):
    problem, X, _ = make(seed, intercept, kind)
    alpha = optimal_alpha(problem, X)  # rounded to float64
    for each in (forward_gap, backward_gap, sigma_gap):
        assert each(problem, alpha) == pytest.approx(0, abs=rounding(problem, alpha))


@for_all(seed=seeds)
def test_sigma_gap_of_one_class(seed):
    """Only alpha = 0 is feasible, and it is optimal: a large intercept leaves no loss."""
    rng = np.random.default_rng(seed)
    X, y = quarters(rng, (4, 2)), np.full(4, rng.choice([-1.0, 1.0]))
    problem = LinearProblem(y, np.ones(4), Hinge(), X=as_matrix(X))
    for each in (forward_gap, backward_gap, sigma_gap):
        assert each(problem, np.zeros(4)) == 0
    assert violating_pair(problem, np.zeros(4)).violation == 0


# --- the sign of b ----------------------------------------------------------------------------------------------------


def paper_gap(problem, alpha, b):
    """Eq. 19 before the infimum, as printed, with the paper's b."""
    slopes, y, cost = dual_slopes(problem, alpha), problem.y, problem.cost
    plus = np.maximum
    return float(alpha @ plus(0, slopes - b * y) + (cost - alpha) @ plus(0, b * y - slopes))


@for_all(seed=seeds)
def test_the_papers_b_is_minus_our_intercept(seed):
    problem, _, _ = make(seed)
    alpha = exact_alpha(problem, np.random.default_rng(seed))
    ours = certified_intercept(problem, alpha)
    assert paper_gap(problem, alpha, -ours) == forward_gap(problem, alpha)
    for b in [*np.linspace(-20, 20, 41), *(problem.y * dual_slopes(problem, alpha))]:
        assert forward_gap(problem, alpha) <= paper_gap(problem, alpha, b)


def test_the_sign_of_b_by_hand():
    # x = 6 and 4, labels +1 and -1, alpha = (1/2, 1/2): f(x) = x. Scores 6 and 4 want the intercept -5: the paper's 5
    problem = LinearProblem([1.0, -1.0], [1.0, 1.0], Hinge(), X=as_matrix([[6.0], [4.0]]))
    alpha = np.array([0.5, 0.5])
    assert dual_slopes(problem, alpha).tolist() == [5.0, -5.0]  # y f(x) - 1
    assert certified_intercept(problem, alpha) == -5.0
    assert forward_gap(problem, alpha) == paper_gap(problem, alpha, 5.0) == 0.0
    assert paper_gap(problem, alpha, -5.0) == 10.0
    assert violating_pair(problem, alpha).violation == 0.0


# --- violating pairs --------------------------------------------------------------------------------------------------


@every_kind
@for_all(seed=seeds)
def test_lemma_8_and_remark_1_bound_the_gap(kind, seed):
    problem, _, _ = make(seed, "free", kind)
    alpha = exact_alpha(problem, np.random.default_rng(seed))
    pair = violating_pair(problem, alpha)
    assert 0 <= forward_gap(problem, alpha) <= pair.tight_bound <= pair.bound
    assert pair.bound == pair.violation * problem.cost.sum()


@for_all(seed=seeds)
def test_lemma_8_any_intercept_between_will_do(seed):
    problem, _, _ = make(seed)
    alpha = exact_alpha(problem, np.random.default_rng(seed))
    pair = violating_pair(problem, alpha)
    value = problem.y * dual_slopes(problem, alpha)
    f = problem.function(alpha)
    for share in (0.0, 0.25, 0.5, 1.0) if pair.violation > 0 else ():
        b = share * value[pair.top] + (1 - share) * value[pair.bottom]  # the paper's
        assert problem.primal(f, -b) - problem.dual(alpha) <= pair.tight_bound
    assert problem.primal(f, certified_intercept(problem, alpha)) - problem.dual(alpha) <= pair.tight_bound


@for_all(seed=seeds)
def test_the_pair_is_the_steepest_way_up(seed):
    """Moving along y_i, -y_j changes D at the rate of the violation, and no feasible pair does so faster."""
    problem, _, _ = make(seed)
    alpha, y = exact_alpha(problem, np.random.default_rng(seed)), problem.y
    pair = violating_pair(problem, alpha)
    steepest = 0.0
    for i in range(problem.n):
        for j in range(problem.n):
            way = np.zeros(problem.n)
            way[i] -= y[i]
            way[j] += y[j]
            step = 2.0**-20
            moved = alpha + step * way
            if i != j and ((moved >= 0) & (moved <= problem.cost)).all():
                # D is a quadratic: a central difference is its slope
                rate = (problem.dual(moved) - problem.dual(alpha - step * way)) / (2 * step)
                steepest = max(steepest, rate)
                if (i, j) == (pair.top, pair.bottom):
                    assert rate == pair.violation
    assert steepest == pair.violation


@every_kind
@pytest.mark.parametrize("seed", range(5))
def test_no_pair_violates_the_optimum(kind, seed):
    problem, X, _ = make(seed, "free", kind)
    alpha = optimal_alpha(problem, X)
    assert violating_pair(problem, alpha).bound <= rounding(problem, alpha)


def test_no_pair_violates_where_the_best_intercept_is_an_interval():
    # x = 0 twice: alpha = c is optimal, every b in [-1, 1] is, and the top lies below the bottom
    problem = LinearProblem([1.0, -1.0], [1.0, 1.0], Hinge(), X=as_matrix([[0.0], [0.0]]))
    pair = violating_pair(problem, np.ones(2))
    assert (pair.top, pair.bottom, pair.violation, pair.bound, pair.tight_bound) == (0, 1, 0.0, 0.0, 0.0)


def test_a_problem_without_costs_has_no_violation():
    problem = LinearProblem([1.0, -1.0], [0.0, 0.0], Hinge(), X=as_matrix([[1.0], [2.0]]))
    pair = violating_pair(problem, np.zeros(2))
    assert (pair.violation, pair.bound, pair.tight_bound) == (0.0, 0.0, 0.0)
    assert forward_gap(problem, np.zeros(2)) == sigma_gap(problem, np.zeros(2)) == 0.0


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [SquaredHinge(), Huber(0.5)], ids=lambda loss: loss.name)
@pytest.mark.parametrize("gap", [forward_gap, backward_gap, sigma_gap, violating_pair])
def test_other_losses_get_a_sentence(gap, loss):
    problem, _, _ = make(0, loss=loss)
    with pytest.raises(ValueError, match=rf"^this gap is defined for the hinge, not for {loss.name}\.$"):
        gap(problem, np.zeros(problem.n))


@pytest.mark.parametrize("intercept", ["none", "penalized"])
def test_a_violating_pair_needs_a_free_intercept(intercept):
    problem, _, _ = make(0, intercept)
    with pytest.raises(ValueError, match=r"^a violating pair is defined where the intercept is free\.$"):
        violating_pair(problem, np.zeros(problem.n))


@pytest.mark.parametrize(
    "problem", [make(0, "penalized")[0], make(0, "none")[0], make(0, loss=SquaredHinge())[0]], ids=["b", "none", "loss"]
)
def test_svm_program_is_for_the_hinge_with_a_free_intercept(problem):
    """Its matrix A knows neither another loss nor another intercept: better no answer than one to another question."""
    with pytest.raises(ValueError, match=r"^[^\n]+\.$"):
        svm_program(problem, np.eye(problem.n))
