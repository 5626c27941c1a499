"""What dual coordinate ascent does between its passes: leaps, looks at P, calls back, lifts another method's bound."""

import numpy as np
import pytest
import scipy.sparse as sp

from primalsvm import Hinge, Huber, LinearProblem, SquaredHinge, ascent, newton_path, solve
from primalsvm.matrix import as_matrix
from primalsvm.solvers import DualCoordinateAscent
from primalsvm.solvers import dual_coordinate_ascent as turns

LOSSES = [Hinge(), SquaredHinge(), Huber(0.3)]
INTERCEPTS = ["none", "penalized", "free"]


def text(loss, intercept="none", n=300, d=500, C=1.0, twins=0, alike=1.0, seed=0):
    """Sparse rows of about unit length; `twins` long rows stand twice, with both labels, alike or nearly."""
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, 0.03, format="csr", rng=rng)
    y = np.where(X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n) > 0, 1.0, -1.0)
    if twins:
        X[:twins] *= 20.0
        X, y = sp.vstack([X, alike * X[:twins]], format="csr"), np.r_[y, -y[:twins]]
    return LinearProblem(y, C * rng.uniform(0.5, 1.5, len(y)), loss, intercept, X=as_matrix(X))


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_a_leap_is_to_a_better_point_whose_sums_are_true(loss, intercept, C):
    problem = text(loss, intercept, C=C, twins=4)
    state = ascent.begin(problem)
    leapt = 0
    for _ in range(12):
        for _ in range(3):
            ascent.make_pass(problem, state)
        b = state.centre
        before, alpha = ascent.dual_of(problem, state, b), state.alpha.copy()
        ascent.leap(problem, state)
        leapt += not np.array_equal(alpha, state.alpha)
        now = ascent.dual_of(problem, state, b)
        # what a penalised b costs, and what a free one is bound to: D of the problem, or of the proximal one
        spent = 0.5 * state.reach * (np.sum(state.alpha * problem.y) ** 2 - np.sum(alpha * problem.y) ** 2)
        assert now - (spent if intercept == "free" else 0.0) >= before - 1e-9 * abs(before)
        assert ((state.alpha >= 0) & (state.alpha <= problem.upper)).all()
        np.testing.assert_allclose(state.work, problem.function(state.alpha), rtol=0, atol=1e-9 * (1 + C))
        assert state.balance[0] == pytest.approx(np.sum(state.alpha * problem.y), abs=1e-9 * (1 + C))
        assert state.gain == pytest.approx(problem.dual_gain(state.alpha), rel=1e-11)
    assert leapt >= 6 or C < 1  # where there is little to do, it is done before


def test_leaps_spare_near_twins_with_both_labels_most_of_their_way(monkeypatch):
    """Each step of one undoes most of the other's: the longer the rows, the more steps. Twins would be settled."""

    def passes():
        problem, solver = text(SquaredHinge(), C=0.01, twins=4, alike=1.0001), DualCoordinateAscent(newton=False)
        return solve(problem, solver, tol=1e-4, free_work=0, max_iter=3000).history[-1][2]

    leaping = passes()
    monkeypatch.setattr(turns, "LEAP", np.inf)
    assert 1.5 * leaping <= passes()


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("intercept", ["none", "penalized"])
def test_a_belief_near_tol_is_the_gap_itself(loss, intercept):
    problem, solver = text(loss, intercept, C=0.05, twins=2), DualCoordinateAscent(newton=False)
    state = solver.init(problem)
    state.tol, looked = 1e-3, 0
    for _ in range(400):
        solver.step(problem, state)
        if state.passes >= turns.EARLY and state.belief <= state.tol:
            primal = problem.primal(state.f, state.b)
            assert state.belief == pytest.approx((primal - problem.dual(state.alpha)) / primal, rel=1e-6, abs=1e-12)
            looked += 1
    assert looked > 10


@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_a_lift_is_a_larger_feasible_bound(intercept):
    problem = text(SquaredHinge(), intercept, n=800, C=10.0, twins=4)
    path = newton_path.begin_path(problem)
    path.curved.gram, path.reach, path.tol = None, np.inf, 1e-6
    path.curved.diagonal = np.zeros(problem.size)
    assert ascent.can_lift(problem, path)
    for _ in range(4):
        newton_path.advance(problem, path)
    plain = problem.dual(problem.repair(path.alpha))
    ascent.lift(problem, path)
    assert path.lifted is not None and path.dual > plain
    np.testing.assert_allclose(path.lifted, problem.repair(path.lifted), atol=1e-9)
    assert problem.dual(path.lifted) == pytest.approx(path.dual, rel=1e-9)
    assert path.dual <= path.primal and np.array_equal(path.alpha, path.lifted)


# --- who is visited ---------------------------------------------------------------------------------------------------


def easy(n=3000, d=400, seed=0):
    """Sparse, and C so small that most alpha_i end at a bound and a few passes settle everything."""
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, d), density=0.05, rng=rng, format="csr")
    y = np.where(X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n) > 0, 1.0, -1.0)
    return LinearProblem(y, np.full(n, 0.1), "hinge", "none", X=X)


def after_calls(problem, tol):
    """How many are visited in the pass after each one that looks at those called back; passes until tol."""
    state = ascent.begin(problem)
    state.tol, visited = tol, []
    while state.belief > tol and len(visited) < 30:
        visited.append(ascent.make_pass(problem, state))
    called = [k for k in range(1, len(visited) - 1) if visited[k] == problem.n > visited[k - 1]]
    return [visited[k + 1] for k in called], len(visited)


def test_near_the_end_those_called_back_are_put_aside_in_the_pass_that_looks_at_them(monkeypatch):
    problem = easy()
    after, passes = after_calls(problem, 1e-5)
    assert after and after[-1] < 0.5 * problem.n
    monkeypatch.setattr(ascent, "NEAR", 0.0)
    after, before = after_calls(problem, 1e-5)
    assert after == [problem.n] * len(after) and after and passes <= before
    assert solve(problem, DualCoordinateAscent(newton=False), tol=1e-6).status == "converged"


def test_before_that_all_are_visited_twice():
    """Limits of a few that have settled say little about all when much is still to come."""
    problem = easy()
    after, _ = after_calls(problem, 1e-12)
    assert after and after[0] == problem.n
