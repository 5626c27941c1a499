"""The loop: when it stops, what it keeps, what it says."""

import importlib

import numpy as np
import pytest
from problems import make

from primalsvm.losses import Hinge, SquaredHinge
from primalsvm.problem import LinearProblem
from primalsvm.solve import PATIENCE, Judge, Record, Solver, Start, solve
from primalsvm.solvers import DualCoordinateAscent, GradientDescent, Pegasos, ProjectedGradient, Subgradient

loop = importlib.import_module("primalsvm.solve")  # the package's attribute of that name is the function


def large(loss=None, intercept="free", n=4000, d=30):
    """Big enough that accuracy is not free and certificates have a price."""
    from primalsvm.matrix import as_matrix
    from primalsvm.problem import LinearProblem

    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = np.where(X @ rng.standard_normal(d) + 2 * rng.standard_normal(n) > 0, 1.0, -1.0)
    return LinearProblem(y=y, cost=np.full(n, 1.0), loss=loss or Hinge(), intercept=intercept, X=as_matrix(X))


def test_tolerance_is_the_relative_gap():
    problem = large()
    loose, tight = (solve(problem, DualCoordinateAscent(), tol=tol) for tol in (1e-1, 1e-4))
    assert loose.status == tight.status == "converged"
    assert tight.certificate.relative_gap <= 1e-4 < loose.certificate.relative_gap <= 1e-1
    assert loose.iterations < tight.iterations


def test_small_problems_are_solved_as_far_as_float64_goes():
    assert solve(make("overlapping", SquaredHinge()), DualCoordinateAscent(), tol=0.5).certificate.relative_gap < 1e-12


def test_a_small_problem_is_left_where_nothing_moves_any_more():
    """The ascent goes on for hundreds of passes at 1e-13, each of them judged, if it is let."""
    problem = large(SquaredHinge(), n=100, d=4)
    result = solve(problem, DualCoordinateAscent(), tol=1e-3)
    gaps = [record.gap for record in result.history]
    assert result.status == "converged" and result.certificate.relative_gap < 1e-11
    assert len(gaps) - gaps.index(gaps[-1]) <= 1 + PATIENCE


def test_a_guess_is_not_judged():
    problem = large()
    guess = solve(problem, DualCoordinateAscent(), tol=0.1)
    seen, unseen = (
        solve(problem, DualCoordinateAscent(), start=Start(guess.f, guess.b, guess.alpha, rough=rough))
        for rough in (False, True)
    )
    assert seen.history[0].gap < 0.2 * seen.history[0].primal
    assert unseen.history[0].dual == 0.0 and unseen.history[0].primal == pytest.approx(problem.primal(0 * guess.f, 0.0))
    np.testing.assert_array_equal(seen.f, unseen.f)


def test_max_iter():
    result = solve(large(), DualCoordinateAscent(), tol=1e-12, max_iter=3)
    assert (result.status, result.iterations) == ("max_iter", 3)
    assert result.history[-1].iteration == 3


def test_max_seconds():
    result = solve(large(), Subgradient(), tol=1e-12, max_iter=10**9, max_seconds=0.3)
    assert result.status == "max_seconds"
    assert np.isfinite(result.certificate.relative_gap)


def test_callback_sees_every_record_and_stops_the_run():
    seen = []
    result = solve(
        large(), DualCoordinateAscent(), tol=0.0, certify_every=2, callback=lambda r: seen.append(r) or len(seen) == 3
    )
    assert result.status == "stopped"
    assert [record.iteration for record in seen] == [2, 4, 6]
    assert all(isinstance(record, Record) for record in seen)
    assert tuple(seen) == result.history[1:]


def test_stop_is_asked_after_every_step_and_the_last_one_is_judged():
    asked = []
    result = solve(large(), DualCoordinateAscent(), tol=0.0, stop=lambda: asked.append(1) or len(asked) == 7)
    assert (result.status, result.iterations, result.history[-1].iteration) == ("stopped", 7, 7)


def test_ctrl_c_while_a_solver_sets_out_leaves_a_model_and_its_bound():
    class Interrupted(GradientDescent):
        name = "interrupted"

        def init(self, problem, start=None):
            raise KeyboardInterrupt

    problem = large(SquaredHinge())
    result = solve(problem, Interrupted())
    Solver.registry.pop("interrupted")
    assert result.status == "interrupted"
    assert result.certificate.primal == pytest.approx(problem.primal(np.zeros(problem.size), 0.0))


def test_certificates_take_about_a_tenth_of_the_work():
    result = solve(large(n=200), ProjectedGradient(), tol=0.0, max_iter=300)
    passes = result.history[-1].passes
    assert 0.05 * passes <= result.certificate.passes <= 0.15 * passes + 10
    # early on they come with the doubling of the steps, so that a quick end is seen quickly
    assert [record.iteration for record in result.history][:5] == [0, 1, 2, 4, 8]


def test_the_clock_does_not_decide_the_answer(monkeypatch):
    """On a busy machine every step and every certificate takes another time: the model must be the same."""
    rng = np.random.default_rng(0)
    real = loop.time.perf_counter
    for solver in (Subgradient(), DualCoordinateAscent(), Pegasos()):
        plain = solve(large(n=500), solver, tol=1e-2, max_iter=60)
        monkeypatch.setattr(loop.time, "perf_counter", lambda: real() + rng.uniform(0, 100))
        busy = solve(large(n=500), solver, tol=1e-2, max_iter=60)
        monkeypatch.undo()
        np.testing.assert_array_equal(plain.f, busy.f)


def test_the_best_primal_and_dual_are_kept():
    """Pegasos without averaging jumps about; what is returned is the best that was judged."""
    problem = large(n=300)
    result = solve(problem, Pegasos(average=False), tol=0.0, max_iter=40, certify_every=1)
    primals = [record.primal for record in result.history]
    assert primals == sorted(primals, reverse=True)
    assert result.certificate.primal == min(primals)
    assert problem.primal(result.f, result.b) == pytest.approx(result.certificate.primal, rel=1e-10)


@pytest.mark.parametrize("at", [1, 5])
def test_ctrl_c_returns_the_best_model_so_far(at):
    class Interrupted(GradientDescent):
        name = "interrupted"

        def step(self, problem, state):
            state.count = getattr(state, "count", 0) + 1
            if state.count == at:
                raise KeyboardInterrupt
            super().step(problem, state)

    problem = large(SquaredHinge())
    result = solve(problem, Interrupted(), tol=0.0)
    Solver.registry.pop("interrupted")
    assert result.status == "interrupted"
    assert result.iterations == at - 1
    assert problem.primal(result.f, result.b) <= result.certificate.primal


def test_the_judge_stalls_only_after_patience():
    judge = Judge(make("wide", Hinge()), 0.0, None)
    judge.unmoved, judge.moved_at = loop.PATIENCE, 50
    assert not judge.stalled(149)
    assert judge.stalled(150)


def test_stalled_at_the_limit_of_float64():
    result = solve(make("overlapping", SquaredHinge()), DualCoordinateAscent(), tol=0.0, max_iter=100_000)
    assert result.status == "stalled"
    assert result.certificate.relative_gap < 1e-12


def test_a_start_is_used():
    problem = large()
    first = solve(problem, DualCoordinateAscent(), tol=1e-4)
    again = solve(problem, DualCoordinateAscent(), tol=1e-3, start=Start(first.f, first.b, first.alpha))
    assert again.iterations == 0
    assert again.status == "converged"


def test_verbose_prints_one_line_a_certificate(capsys):
    result = solve(large(), DualCoordinateAscent(), tol=1e-3, verbose="cats against dogs")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(result.history)  # all but the one before the first step, and a closing line
    assert all(line.startswith("[cats against dogs] ") for line in lines)
    assert "above the optimum" in lines[-1]


def test_a_solver_that_cannot_take_the_problem_says_so():
    with pytest.raises(ValueError, match=r"^pegasos needs a Lipschitz loss; .* Solvers that accept it: .*newton"):
        solve(make("wide", SquaredHinge()), Pegasos())


def test_a_user_can_add_a_solver():
    class Lazy(Solver):
        name = "lazy"

        def init(self, problem, start=None):
            return Pegasos().init(problem)

        def step(self, problem, state):
            pass

    try:
        assert solve(make("wide", Hinge()), Lazy(), max_iter=5).certificate.relative_gap > 0
        assert Solver.registry["lazy"] is Lazy
    finally:
        Solver.registry.pop("lazy")


def test_a_judge_on_the_way_looks_for_no_better_intercept(monkeypatch):
    problem = large(n=60, d=3)
    asked = []
    best = type(problem).best_intercept
    monkeypatch.setattr(type(problem), "best_intercept", lambda p, *scores: asked.append(1) or best(p, *scores))
    judge = Judge(problem, 1e-3, None)
    point = Start(np.ones(problem.size), 5.0, np.zeros(problem.n))
    judge.look(point, 1, 0.0, 1.0, on_the_way=True)
    assert not asked and judge.best.b == 5.0
    judge.look(point, 2, 0.0, 1.0)
    assert asked and judge.primal < problem.primal(point.f, 5.0)


def test_free_work_goes_further_and_is_looked_at_when_it_has(monkeypatch):
    """Small enough to be solved beyond its tolerance, not so small that it is solved as far as float64 goes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 30))
    y = np.where(X @ rng.standard_normal(30) + rng.standard_normal(600) > 0, 1.0, -1.0)
    problem = LinearProblem(y, np.ones(600), Hinge(), "none", X=X)
    found = []
    for further in (loop.FURTHER, 1.0):
        monkeypatch.setattr(loop, "FURTHER", further)
        found.append(solve(problem, DualCoordinateAscent(), tol=1e-3))
    wise, blind = found
    assert Judge(problem, 1e-3, None).goal == 1e-3 and wise.status == blind.status == "converged"
    assert 2 * len(wise.history) < len(blind.history)
    assert wise.certificate.relative_gap < blind.certificate.relative_gap
