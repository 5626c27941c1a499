"""What dual coordinate ascent does between its passes: goes further, looks at P, calls back, lifts another's bound."""

import numpy as np
import pytest
import scipy.sparse as sp

from primalsvm import Hinge, Huber, LinearProblem, SquaredHinge, ascent, newton_path, solve
from primalsvm.matrix import as_matrix
from primalsvm.solvers import DualCoordinateAscent
from primalsvm.solvers import dual_coordinate_ascent as turns

LOSSES = [Hinge(), SquaredHinge(), Huber(0.3)]
INTERCEPTS = ["none", "penalized", "free"]


def text(loss, intercept="none", n=300, d=500, C=1.0, twins=0, seed=0):
    """Sparse rows of about unit length; `twins` long rows stand twice, with both labels."""
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, 0.03, format="csr", rng=rng)
    y = np.where(X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n) > 0, 1.0, -1.0)
    if twins:
        X[:twins] *= 20.0
        X, y = sp.vstack([X, X[:twins]], format="csr"), np.r_[y, -y[:twins]]
    return LinearProblem(y, C * rng.uniform(0.5, 1.5, len(y)), loss, intercept, X=as_matrix(X))


def further(way, problem, state, alpha, f):
    """One of the two ways to go further than the passes since alpha and f did."""
    some = np.flatnonzero(state.alpha != alpha)
    if way == "leap":
        ascent._leap(problem, state, some, state.alpha[some] - alpha[some], state.work - f)
    else:
        ascent._settle(problem, state, some[:: max(1, len(some) // 20)])


@pytest.mark.parametrize("way", ["leap", "settle"])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_further_is_a_better_point_whose_sums_are_true(loss, intercept, C, way):
    problem = text(loss, intercept, C=C, twins=4)
    state = ascent.begin(problem)
    went = 0
    for _ in range(12):
        start = state.alpha.copy(), state.work.copy()
        for _ in range(3):
            ascent.make_pass(problem, state)
        b = state.centre
        before, alpha = ascent.dual_of(problem, state, b), state.alpha.copy()
        further(way, problem, state, *start)
        went += not np.array_equal(alpha, state.alpha)
        now = ascent.dual_of(problem, state, b)
        # what a penalised b costs, and what a free one is bound to: D of the problem, or of the proximal one
        spent = 0.5 * state.reach * (np.sum(state.alpha * problem.y) ** 2 - np.sum(alpha * problem.y) ** 2)
        assert now - (spent if intercept == "free" else 0.0) >= before - 1e-9 * abs(before)
        assert ((state.alpha >= 0) & (state.alpha <= problem.upper)).all()
        np.testing.assert_allclose(state.work, problem.function(state.alpha), rtol=0, atol=1e-9 * (1 + C))
        assert state.balance[0] == pytest.approx(np.sum(state.alpha * problem.y), abs=1e-9 * (1 + C))
        assert state.gain == pytest.approx(problem.dual_gain(state.alpha), rel=1e-11)
    assert went >= 6 or C < 1  # where there is little to do, it is done before


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_those_settled_together_have_nothing_left_to_gain(loss, intercept):
    """One alpha_i after the other, the others held: the KKT conditions of the problem in theirs alone."""
    problem = text(loss, intercept, twins=4)
    state = ascent.begin(problem)
    for _ in range(3):
        ascent.make_pass(problem, state)
    some = np.r_[np.arange(12), problem.n - 4 + np.arange(4)]
    ascent._settle(problem, state, some)
    b = state.centre + state.reach * state.balance[0]
    margins = problem.margins(problem.scores(state.work), b)
    slope = problem.dual_gradient(state.alpha, margins)[some]
    room = np.where(slope > 0, problem.upper[some] - state.alpha[some], state.alpha[some])
    assert np.abs(slope * np.minimum(room, problem.cost[some])).max() <= 1e-5 * problem.cost.mean()


@pytest.mark.parametrize(
    "alike, label",
    [(0.0, -1.0), (1e-2, -1.0), (1e-2, 1.0)],
    ids=["twins, both labels", "near twins, both labels", "near twins, the same labels"],
)
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_those_that_are_alike_do_not_keep_the_ascent_waiting(alike, label, loss, intercept, monkeypatch):
    """Each step of one undoes most of the other's: the longer the rows, the more steps."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((400, 60)) * (rng.random((400, 60)) < 0.3)
    y = np.where(rng.random(400) < 0.5, 1.0, -1.0)
    X[:10] *= 20
    X[10:20], y[10:20] = X[:10] + alike * rng.standard_normal((10, 60)), label * y[:10]
    problem = LinearProblem(y, np.full(len(y), 1.0), loss, intercept, X=sp.csr_matrix(X))

    def run():
        return solve(problem, DualCoordinateAscent(newton=False), tol=1e-5, max_iter=6000, free_work=0)

    further = run()
    assert further.status == "converged" and further.certificate.relative_gap <= 1e-5
    monkeypatch.setattr(turns, "go_further", lambda problem, state: None)
    factor = 5.0 if label < 0 else 1.5  # with the same label one can stand for both
    assert factor * further.history[-1].passes < run().history[-1].passes


@pytest.mark.parametrize("seed", [13, 81, 85])
def test_rounding_is_not_gone_further_along(seed):
    """One feature and a huge C: the passes go on and on. f that has drifted is no direction once it is summed up."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((200, 1)) * 10 ** rng.uniform(-1, 1.5)
    X[100:140] = X[:40]
    y = np.where(rng.random(200) < 0.5, 1.0, -1.0)
    cost = 10 ** rng.uniform(0, 5) * rng.uniform(0.3, 1.7, 200)
    problem, solver = LinearProblem(y, cost, "squared_hinge", "penalized", X=X), DualCoordinateAscent(newton=False)
    state = solver.init(problem)
    state.tol = 1e-9
    for _ in range(300):
        solver.step(problem, state)
        assert np.abs(problem.scores(state.work - problem.function(state.alpha))).max() <= 1e-5
    assert state.passes > 3 * turns.REFRESH


def test_f_is_summed_up_again_every_so_often():
    problem, solver = text(SquaredHinge(), C=100.0, twins=4), DualCoordinateAscent(newton=False)
    state, lasts = solver.init(problem), [0.0]
    state.tol = 0.0
    while state.passes < 5 * turns.REFRESH and state.belief > 1e-12:
        solver.step(problem, state)
        lasts.append(state.summed)
    assert state.passes - state.summed <= turns.REFRESH + turns.ROUNDS and len(set(lasts)) >= 4


def test_going_further_waits_where_it_is_not_worth_it():
    problem, rests = easy(), []
    state = ascent.begin(problem)
    for _ in range(12):
        ascent.make_pass(problem, state)
        ascent.go_further(problem, state)
        rests.append(state.rest)
    assert min(rests) == 1.0 < max(rests) <= ascent.LONGEST


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
