"""Threads inside a fit: the same problem, the same bits for the same number of them, and nobody converges elsewhere."""

import os
import signal
import time
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from primalsvm import Hinge, Huber, LinearProblem, LinearSVC, SquaredHinge, ascent, cpu_kernels, newton_path, solve
from primalsvm import matrix as storage
from primalsvm.matrix import as_matrix
from primalsvm.solvers import DualCoordinateAscent, Newton, choose_solver, explain_choice
from primalsvm.solvers import dual_coordinate_ascent as turns

LOSSES = [Hinge(), SquaredHinge(), Huber(0.3)]


@pytest.fixture(autouse=True)
def no_part_is_too_small(monkeypatch):
    monkeypatch.setattr(storage, "THREAD_WORK", 50)
    monkeypatch.setattr(ascent, "PART_ENTRIES", 10)
    monkeypatch.setattr(ascent, "COPIES", 0)
    monkeypatch.setattr(ascent, "IN_STEP", 0.0)


def text(threads, loss, intercept="none", n=400, d=600, dense=False, C=1.0):
    """Sparse rows of unit length; or dense ones in few directions, where threads get in each other's way most."""
    rng = np.random.default_rng(0)
    X = sp.random(n, d, 0.02, format="csr", rng=rng) if not dense else rng.standard_normal((n, 3)) @ np.ones((3, 8))
    y = np.where(X @ rng.standard_normal(X.shape[1]) + 0.3 * rng.standard_normal(n) > 0, 1.0, -1.0)
    return LinearProblem(y, C * rng.uniform(0.5, 1.5, n), loss, intercept, X=as_matrix(X, threads))


@pytest.mark.parametrize("dense", [False, True], ids=["sparse", "nearly one direction"])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("intercept", ["none", "penalized", "free"])
@pytest.mark.parametrize("solver", [Newton(), DualCoordinateAscent(newton=False)], ids=lambda s: s.name)
def test_two_threads_find_the_same_optimum(solver, intercept, loss, dense):
    one, two = (
        solve(text(threads, loss, intercept, dense=dense), solver, tol=1e-5, max_iter=3000) for threads in (1, 2)
    )
    assert two.certificate.relative_gap <= 1e-5
    assert one.certificate.dual <= two.certificate.primal and two.certificate.dual <= one.certificate.primal


@pytest.mark.parametrize("dense", [False, True], ids=["sparse", "nearly one direction"])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("intercept", ["none", "penalized"])
@pytest.mark.parametrize("block", [1, 7])
def test_the_dual_never_falls_and_the_sums_stay_true(block, intercept, loss, dense):
    problem = text(3, loss, intercept, dense=dense)
    solver = DualCoordinateAscent(newton=False)
    state = solver.init(problem)
    state.block = block
    before = problem.dual(state.alpha)
    for _ in range(30):
        ascent.make_pass(problem, state)
        now = problem.dual(state.alpha)
        assert now >= before - 1e-12 * abs(now)
        before = now
        assert ((state.alpha >= 0) & (state.alpha <= problem.upper)).all()
        np.testing.assert_allclose(state.work, problem.function(state.alpha), rtol=0, atol=1e-9)
        assert state.balance[0] == pytest.approx(np.sum(state.alpha * problem.y), abs=1e-9)
        assert state.gain == pytest.approx(problem.dual_gain(state.alpha), rel=1e-12)
        assert len(set(state.active)) == len(state.active) and set(state.active) <= set(range(problem.n))


def test_threads_reckon_with_each_other(monkeypatch):
    """Without their echoes, two threads that mend the same fault of f mend it twice: 47, 56 and 86 passes here."""
    monkeypatch.setattr(ascent, "MEETINGS", 1)
    monkeypatch.setattr(turns, "go_further", lambda problem, state: None)
    right = cpu_kernels.put_together

    def deaf(w, copies, echo, change):
        found = right(w, copies, echo, change)
        echo[:] = 1.0
        return found

    def passes(threads):
        problem = text(threads, Hinge(), n=4000)
        return solve(problem, DualCoordinateAscent(newton=False), tol=1e-4, max_iter=3000).history[-1].passes

    alone, reckoning = passes(1), passes(2)
    monkeypatch.setattr(cpu_kernels, "put_together", deaf)
    assert reckoning <= 1.4 * alone <= passes(2)


def test_threads_that_are_in_each_others_way_leave_it_to_one(monkeypatch):
    alone = []
    for in_step in (0.0, np.inf):
        monkeypatch.setattr(ascent, "IN_STEP", in_step)
        problem, solver = text(2, SquaredHinge()), DualCoordinateAscent()
        state = solver.init(problem)
        ascent.make_pass(problem, state)
        alone.append(bool(state.alone))
        before = state.copies.copy()
        ascent.make_pass(problem, state)
        assert np.array_equal(before, state.copies) == alone[-1]  # nobody has touched the copies of one that is alone
    assert alone == [False, True]


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_what_threads_did_is_put_together(parts):
    rng = np.random.default_rng(parts)
    d = 1300  # more than one piece of the loop
    w, echo, change = rng.standard_normal(d), rng.uniform(1, parts, d + 1), np.empty(d)
    did = rng.standard_normal((parts, d))
    did[:, :5] = did[0, :5]  # all the same ...
    did[:, 5:10] = 0.0  # ... nothing ...
    did[1:, 10:15] = 0.0  # ... and one alone
    inner, square = cpu_kernels.put_together(w, w + echo[:d] * did, echo, change)
    np.testing.assert_allclose(change, did.sum(axis=0), rtol=0, atol=1e-13 * parts)
    np.testing.assert_allclose([inner, square], [w @ change, change @ change], rtol=1e-12)
    assert (echo[:d] >= 1).all() and (echo[:d] <= parts).all()
    np.testing.assert_allclose(echo[:5], parts)
    np.testing.assert_allclose(echo[5:15], 1.0, atol=1e-9)


@pytest.mark.parametrize("value", [np.inf, np.nan, 1e200])
def test_an_echo_is_a_number_whatever_threads_did(value):
    echo = np.ones(4)
    with np.errstate(all="ignore"):
        cpu_kernels.put_together(np.zeros(3), np.full((2, 3), value), echo, np.empty(3))
    assert np.isfinite(echo).all() and (echo >= 1).all() and (echo <= 2).all()


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_samples_are_dealt_out_once_and_anew_each_time(parts):
    visit = np.random.default_rng(0).permutation(10_000)[:7000]
    hands = []
    for seed in (1, 2):
        dealt = [np.empty(len(visit), dtype=np.int64) for _ in range(parts)]
        each = [d[: cpu_kernels.deal(visit, parts, k, np.uint64(seed), d)] for k, d in enumerate(dealt)]
        assert sorted(np.concatenate(each)) == sorted(visit)
        assert all(0.8 * len(visit) < parts * len(mine) < 1.2 * len(visit) for mine in each)
        assert parts == 1 or not {i // 8 for i in each[0]} & {i // 8 for i in each[1]}  # a cache line has one owner
        hands.append(each[0])
    assert parts == 1 or not np.array_equal(*hands)


def test_a_short_step_takes_back_the_rest():
    alpha, before = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.0, 4.0])
    samples = np.array([2, ~1])
    cpu_kernels.go_back(samples, before, 0.25, alpha)
    np.testing.assert_array_equal(samples, [2, 1])
    np.testing.assert_array_equal(alpha, [1.0, 4.0 + 0.25 * (2.0 - 4.0), 0.25 * 3.0, 4.0])


@pytest.mark.parametrize("solver", ["newton", "dual_coordinate_ascent"])
@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_the_same_threads_give_the_same_bits(solver, jobs):
    problem = text(1, Hinge())
    first, second = (
        LinearSVC("hinge", solver=solver, n_jobs=jobs, tol=1e-4).fit(problem.X.csr, problem.y) for _ in range(2)
    )
    np.testing.assert_array_equal(first.coef_, second.coef_)
    np.testing.assert_array_equal(first.intercept_, second.intercept_)
    np.testing.assert_array_equal(first.dual_coef_, second.dual_coef_)


def test_one_problem_gets_all_threads_and_several_share_them():
    X, y = np.random.default_rng(0).standard_normal((60, 4)), np.arange(60) % 3
    assert LinearSVC(n_jobs=4)._prepare(X, y == 0, None).matrix.threads == 4
    assert LinearSVC(n_jobs=4)._prepare(X, y, None).matrix.threads == 1
    assert LinearSVC()._prepare(X, y == 0, None).matrix.threads == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own():
    problem = text(2, Hinge())
    expected = problem.scores(np.ones(problem.size))
    child = os.fork()
    if child == 0:  # no pytest in here: say it by the exit status
        same = np.array_equal(problem.scores(np.ones(problem.size)), expected)
        os._exit(0 if same else 1)
    for _ in range(200):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.05)
    else:
        os.kill(child, signal.SIGKILL)
        pytest.fail("the child waits for threads that it does not have")
    assert os.waitstatus_to_exitcode(status) == 0


# --- who solves what --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "d", "chosen", "why"),
    [
        (50, 10, "newton", "newton: a small problem, and a matrix of its 10 features is cheap"),
        (60, 12, "newton", "newton: a small problem, and a matrix of its 12 features is cheap"),
        (6000, 10, "newton", "newton: a matrix of the 10 features is cheap"),
        (4000, 1200, "newton", "newton: 4000 samples are many for 1200 features; by conjugate gradients"),
        (100, 1200, "dual_coordinate_ascent", "dual_coordinate_ascent: 1200 features are many for 100 samples"),
        (
            6000,
            12,
            "dual_coordinate_ascent",
            "dual_coordinate_ascent: sparse, and C is small for the length of the rows",
        ),
    ],
)
def test_auto_says_what_it_chose_and_why(n, d, chosen, why, capsys):
    rng = np.random.default_rng(0)
    X, y = (1e-3 if d == 12 else 10.0) * sp.random(n, d, 0.2, format="csr", rng=rng), np.arange(n) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LinearSVC(verbose=1, max_iter=3, tol=0.5).fit(X, y)
    assert f"[LinearSVC] solver: {why}\n" in capsys.readouterr().out
    assert model.solver_.name == model.certificate_.solver == chosen
    problem = LinearProblem(2.0 * y - 1, np.ones(n), Hinge(), X=as_matrix(X))
    assert explain_choice(problem) == why


@pytest.mark.parametrize("d, at_1e_6", [(40, "newton"), (1500, "dual_coordinate_ascent")])
def test_auto_takes_a_matrix_sooner_where_more_digits_are_wanted(d, at_1e_6):
    """Passes go on with each digit, a matrix gives them at once; where there is none, both go on."""
    X = sp.random(3000, d, 8 / d, format="csr", rng=np.random.default_rng(0), data_rvs=np.ones)
    y = np.where(np.arange(3000) % 2, 1.0, -1.0)
    problem = LinearProblem(y, np.full(3000, 0.3 / 8), SquaredHinge(), X=as_matrix(X))
    assert choose_solver(problem).name == choose_solver(problem, 0.1).name == "dual_coordinate_ascent"
    assert choose_solver(problem, 1e-6).name == at_1e_6
    assert explain_choice(problem, 1e-6).startswith(at_1e_6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LinearSVC(C=0.3 / 8, tol=1e-6, max_iter=1, fit_intercept=False).fit(X, y)
    assert model.solver_.name == at_1e_6


# --- what the ascent believes, averages and hands over ----------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_the_belief_is_about_the_gap(loss):
    """Met along the pass, so of alpha a little earlier: about the gap at its end, about below the one before."""
    problem = text(1, loss)
    for seed in range(8):
        solver = DualCoordinateAscent(shrink=False, newton=False, seed=seed)
        state = solver.init(problem)
        gaps, beliefs = [], []
        for _ in range(12):
            ascent.make_pass(problem, state)
            primal = problem.primal(state.work, 0.0)
            gaps.append((primal - problem.dual(state.alpha)) / primal)
            beliefs.append(state.belief)
        assert all(now <= 1.25 * belief for now, belief in zip(gaps, beliefs, strict=True))
        assert all(belief <= 1.5 * before for belief, before in zip(beliefs[1:], gaps, strict=False))


def hard():
    """Nearly separable with a large C: the ascent crawls."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((150, 200)) * 10.0 ** rng.uniform(-1, 1, 200)
    y = np.where(X @ rng.standard_normal(200) + 3 * rng.standard_normal(150) > 0, 1.0, -1.0)
    return X, y


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()], ids=lambda loss: loss.name)
@pytest.mark.parametrize("intercept", ["none", "free"])
def test_newton_does_what_the_ascent_cannot(loss, intercept):
    X, y = hard()
    problem = LinearProblem(y, np.full(len(y), 100.0), loss, intercept, X=as_matrix(X))
    alone, helped = (
        solve(problem, DualCoordinateAscent(newton=newton), tol=1e-7, max_iter=90) for newton in (False, True)
    )
    assert helped.certificate.relative_gap <= min(1e-7, 1e-3 * alone.certificate.relative_gap)


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()], ids=lambda loss: loss.name)
@pytest.mark.parametrize("intercept", ["none", "penalized"])
def test_they_take_turns_and_keep_the_best_of_both(loss, intercept, monkeypatch):
    """Newton's f and the ascent's alpha, each as good as it says, and neither ever worse than before."""
    monkeypatch.setattr(newton_path, "DIRECT", 0)
    X, y = hard()
    problem = LinearProblem(y, np.full(len(y), 1000.0), loss, intercept, X=as_matrix(X))
    solver = DualCoordinateAscent()
    state = solver.init(problem)
    state.tol, state.turn = 1e-9, 8.0  # too short for either alone
    turns, primal, dual = [], np.inf, -np.inf
    for _ in range(400):
        solver.step(problem, state)
        whose = "newton" if state.path is not None else "ascent"
        turns += [whose] if not turns or turns[-1] != whose else []
        if state.best is not None:
            assert state.primal == pytest.approx(problem.primal(state.best.f, state.best.b), rel=1e-9)
            if state.best.alpha is not None:
                assert state.dual == pytest.approx(problem.dual(state.best.alpha), rel=1e-9)
            assert state.primal <= primal * (1 + 1e-9) and state.dual >= dual  # P is computed again at every turn
            primal, dual = state.primal, state.dual
        if state.belief <= state.tol or state.ended:
            break
    assert turns[:2] == ["ascent", "newton"] and (len(turns) > 2 or loss.smooth)
    gap = problem.primal(state.f, state.b) - problem.dual(problem.repair(state.alpha))
    assert gap <= 2e-9 * primal


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("intercept", ["none", "penalized", "free"])
def test_the_ascent_knows_its_gap_without_a_pass(intercept, loss):
    """P - D as the ascent sees it without a pass, at (f_alpha, b), also where a free intercept is not balanced."""
    problem, solver = text(1, loss, intercept), DualCoordinateAscent(newton=False)
    state = solver.init(problem)
    for _ in range(3):
        ascent.make_pass(problem, state)
    seen = problem.primal(state.work, state.b) - ascent.dual_of(problem, state, state.b)
    margins, share = problem.margins(problem.scores(state.work), state.b), problem.share(state.alpha)
    lack = problem.cost * (loss.value(margins) + share * margins - loss.tilt * share + 0.5 * loss.bend * share**2)
    assert seen == pytest.approx(float(np.sum(lack)), rel=1e-9)


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()], ids=lambda loss: loss.name)
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_a_free_intercept_costs_few_passes(C, loss):
    problems = [text(1, loss, intercept, n=1500, d=1500, C=C) for intercept in ("none", "free")]
    none, free = (solve(problem, DualCoordinateAscent(), tol=1e-4).history[-1].passes for problem in problems)
    assert free <= 2 * none


def test_the_average_is_offered_where_it_is_better():
    """A window's average, times the best factor, has a smaller P than the last f at large C."""
    X, y = hard()
    problem = LinearProblem(y, np.full(len(y), 100.0), Hinge(), "none", X=as_matrix(X))
    solver = DualCoordinateAscent(newton=False)
    state = solver.init(problem)
    offered = 0
    for _ in range(120):
        solver.step(problem, state)
        if state.f is not state.work:
            offered += 1
            assert problem.primal(state.f, 0.0) <= problem.primal(state.work, 0.0)
    assert offered >= 2
