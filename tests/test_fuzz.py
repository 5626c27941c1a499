"""The fuzzer at toy size: it refutes nothing in the judge as it is, and every judge that is broken on purpose.

A break is applied to the judge, and seeds are tried until one refutes it.
"""

from dataclasses import replace

import fuzz
import numpy as np
import pytest

from primalsvm import certificate as judge
from primalsvm import problem as problem_module
from primalsvm.problem import Feasible, KernelProblem, LinearProblem, Problem

SEED = 7  # of the toy run; any will do


def refuted(seed: int) -> set[str]:
    """The claims that do not hold on the problem of this seed."""
    summary = fuzz.Summary()
    fuzz.refute(seed, summary, solvers=False)
    return {violation.claim.split(": ")[-1] for violation in summary.violations}


# ------------------------------------------------------------------------------------------------------ the judge as is


@pytest.fixture(scope="module")
def toy():
    """What `make fuzz` does, for 300 problems and without the solvers."""
    summary = fuzz.Summary()
    for seed in range(SEED * fuzz.SEEDS_PER_RUN, SEED * fuzz.SEEDS_PER_RUN + 300):
        fuzz.refute(seed, summary, solvers=False)
    return summary


def test_three_hundred_problems_without_a_violation(toy):
    assert not toy.violations, "\n".join(map(str, toy.violations[:20]))
    assert toy.problems == 300 and toy.counts["claims"] > 10_000


@pytest.mark.parametrize("seed", [14722])  # |f_alpha|^2 overflowed to minus infinity, and D to plus
def test_seeds_that_once_refuted_the_judge(seed):
    assert refuted(seed) == set()


def test_the_bounds_are_tight(toy):
    """A judge who always says dual = 0 is never refuted; this one is within 1e-6 of the optimum in most cases."""
    for loss in ("hinge", "squared_hinge", "huber"):
        name = f"dual within 1e-6 of the optimum, {loss}"
        assert toy.counts[name, "is"] > 0.7 * toy.counts[name, "of"] > 20
    assert toy.counts["dual is 0 and the optimum is not", "is"] <= 3
    assert "dual within 1e-6" in fuzz.report(toy)


def test_the_solvers_without_a_violation():
    """On dense float64 data only: every other kind of storage would be compiled first."""
    summary, tried = fuzz.Summary(), 0
    for seed in range(200):
        case = fuzz.make_case(seed)
        if case.storage == "dense" and case.X.dtype == np.float64 and tried < 12:
            tried += 1
            fuzz.attack_solvers(fuzz.Refuter(case, summary))
            fuzz.attack_estimator(fuzz.Refuter(case, summary))
    assert not summary.violations, "\n".join(map(str, summary.violations[:20]))
    assert tried == 12


def test_a_seed_is_a_problem():
    first, second = fuzz.make_case(12345), fuzz.make_case(12345)
    assert first.describe() == second.describe()
    assert all(np.array_equal(a, b) for a, b in zip(fuzz.near_model(first), fuzz.near_model(second), strict=True))


def test_all_kinds_are_drawn():
    cases = [fuzz.make_case(seed) for seed in range(400)]
    assert {case.storage for case in cases} == set(fuzz.STORAGES)
    assert {case.problem.loss.name for case in cases} == {"hinge", "squared_hinge", "huber"}
    assert {case.problem.intercept for case in cases} == {"none", "penalized", "free"}
    assert {(case.problem.n, case.X.shape[1]) for case in cases} >= {(1, 1), (1, 5), (10, 1), (10, 5)}
    assert any((case.problem.cost > 0).sum() == 1 < case.problem.n for case in cases)
    assert any(not case.X[i].any() for case in cases for i in range(case.problem.n))
    assert any(len(np.unique(case.problem.y)) == 1 < case.problem.n for case in cases)


def test_the_exit_status(capsys, monkeypatch):
    assert fuzz.main(["--problems", "3", "--jobs", "1"]) == 0
    assert "violations: 0" in capsys.readouterr().out
    monkeypatch.setattr(judge, "bound_dual", lambda problem, alpha: (1e300, problem.cost))
    assert fuzz.main(["--only", "2"]) == 1
    assert "--only 2)" in capsys.readouterr().out


# ------------------------------------------------------------------------------------------- judges broken on purpose


def change_result(monkeypatch, name, change):
    """Replace a function of the judge by one that changes what it returns."""
    true = getattr(judge, name)
    monkeypatch.setattr(judge, name, lambda *args, **options: change(true(*args, **options)))


def dual_too_high(monkeypatch):
    change_result(monkeypatch, "bound_dual", lambda seen: (seen[0] * (1 + 1e-9), seen[1]))


def primal_too_low(monkeypatch):
    change_result(monkeypatch, "bound_primal", lambda seen: (seen[0] * (1 - 1e-9), seen[1]))


def rounding_too_small(monkeypatch):
    change_result(monkeypatch, "bound_primal", lambda seen: (seen[0] * (1 + 1e-9), seen[1]))


def reachable_too_low(monkeypatch):
    change_result(monkeypatch, "certificate", lambda seen: replace(seen, reachable=seen.reachable * (1 - 1e-9)))


def exact_kernel_matrices(monkeypatch):
    """K is believed to the last bit."""
    monkeypatch.setattr(KernelProblem, "norm_error", lambda self, f: 0.0)
    monkeypatch.setattr(KernelProblem, "scored", lambda self, f, b=None: (self.scores(f), np.zeros(self.n)))


def rough_scores_believed(monkeypatch):
    """Those of samples that seem to be beyond the margin are believed whatever their error is."""
    true = problem_module.KernelProblem.scored
    monkeypatch.setattr(problem_module, "DOUBT", -1.0)  # far too many seem to be
    monkeypatch.setattr(problem_module, "QUICK", 0)

    def scored(self, f, b=None):
        s, e = true(self, f, b)
        return s, np.minimum(e, self.score_error(f))

    monkeypatch.setattr(KernelProblem, "scored", scored)


def exact_sums(monkeypatch):
    """Rounding is forgotten altogether, in float64."""
    exact_kernel_matrices(monkeypatch)
    monkeypatch.setattr(LinearProblem, "norm_error", lambda self, f: 0.0)
    monkeypatch.setattr(LinearProblem, "score_error", lambda self, f: np.zeros(self.n))
    monkeypatch.setattr(LinearProblem, "adjoint_error", lambda self, v: 0.0)
    monkeypatch.setattr(judge, "SUM", 0.0)
    monkeypatch.setattr(judge, "EPS", 0.0)


def exact_f_alpha(monkeypatch):
    """Only the rounding of f_alpha is forgotten: it matters where f_alpha is the small rest of a large sum."""
    monkeypatch.setattr(LinearProblem, "adjoint_error", lambda self, v: 0.0)


def sums_in_float32(monkeypatch):
    monkeypatch.setattr(LinearProblem, "inner", lambda self, f, g: float(f.astype(np.float32) @ g.astype(np.float32)))


def as_it_is(problem, alpha):
    """Nothing repaired."""
    share = problem.share(alpha)
    bent = problem.loss.bend * np.sum(alpha * share)
    sums = np.sum(alpha), bent, np.sum(alpha * problem.y)
    return Feasible(alpha, alpha * problem.y, *map(float, sums), float(np.max(share, initial=0.0)))


def no_box(monkeypatch):
    monkeypatch.setattr(Problem, "feasible", lambda self, alpha: as_it_is(self, np.maximum(np.nan_to_num(alpha), 0.0)))


def no_repair(monkeypatch):
    """Into the box, but not onto the hyperplane."""
    monkeypatch.setattr(Problem, "feasible", lambda self, alpha: self._into_box(alpha, 0.0)[0])


def sloppy_repair(monkeypatch):
    """The positive class ends up a little lighter than the negative one."""
    true = Problem.feasible

    def feasible(self, alpha):
        return as_it_is(self, true(self, alpha).alpha * np.where(self.y > 0, 1 - 1e-9, 1.0))

    monkeypatch.setattr(Problem, "feasible", feasible)


def leftover_ignored(monkeypatch):
    monkeypatch.setattr(judge, "_balance_loss", lambda *args: 0.0)


def wrong_sign_of_b(monkeypatch):
    true = judge.bound_primal
    monkeypatch.setattr(judge, "bound_primal", lambda problem, f, b, *rest: true(problem, f, -b, *rest))


def intercept_free_of_charge(monkeypatch):
    monkeypatch.setattr(Problem, "penalty", lambda self, b: 0.0)


def bend_forgotten(monkeypatch):
    """r(a) = tilt a"""
    true = Problem.feasible
    monkeypatch.setattr(Problem, "feasible", lambda self, alpha: true(self, alpha)._replace(bent=0.0))


BREAKS = [
    ((dual_too_high,), {"dual", "proof", "gap", "excess"}, 30),
    ((primal_too_low,), {"primal", "gap", "excess"}, 30),
    ((rounding_too_small,), {"rounding"}, 30),
    ((reachable_too_low,), {"reachable", "excess"}, 30),
    ((exact_kernel_matrices,), {"primal", "rounding", "dual", "proof"}, 50),
    ((rough_scores_believed,), {"primal", "rounding"}, 400),
    ((exact_sums,), {"primal", "rounding", "dual", "proof", "reachable"}, 30),
    ((exact_f_alpha,), {"proof"}, 400),
    ((sums_in_float32,), {"primal", "rounding", "dual", "proof", "reachable"}, 30),
    ((no_box,), {"box", "dual", "proof"}, 30),
    ((no_repair, leftover_ignored), {"dual", "proof"}, 30),
    ((sloppy_repair, leftover_ignored), {"proof"}, 50),
    ((wrong_sign_of_b,), {"primal", "rounding"}, 30),
    ((intercept_free_of_charge,), {"primal", "dual", "proof"}, 30),
    ((bend_forgotten,), {"dual", "proof"}, 30),
]


@pytest.mark.parametrize(
    ("breaks", "wrong", "seeds"), BREAKS, ids=lambda v: v[0].__name__ if isinstance(v, tuple) else ""
)
def test_a_broken_judge_is_refuted(breaks, wrong, seeds, monkeypatch):
    """... in each of the claims named."""
    for break_it in breaks:
        break_it(monkeypatch)
    found = set()
    for seed in range(seeds):
        found |= refuted(seed)
        if found >= wrong:
            return
    pytest.fail(f"not refuted: {', '.join(sorted(wrong - found))}")


@pytest.mark.parametrize("worsen", [no_repair, sloppy_repair])
def test_a_bad_repair_makes_bounds_loose_but_not_wrong(worsen, monkeypatch):
    worsen(monkeypatch)
    for seed in range(40):
        case = fuzz.make_case(seed)
        if case.problem.intercept == "free":
            assert not refuted(seed)


def test_a_history_that_gets_worse_is_refuted(monkeypatch):
    case = next(case for case in map(fuzz.make_case, range(1000)) if is_plain(case))
    true = fuzz.solve
    for worsen in (lambda history: history[::-1], lambda history: [history[0]._replace(gap=-1.0), *history[1:]]):

        def solve(*args, worsen=worsen, **options):
            result = true(*args, **options)
            return replace(result, history=tuple(worsen(list(result.history))))

        monkeypatch.setattr(fuzz, "solve", solve)
        summary = fuzz.Summary()
        fuzz.attack_solvers(fuzz.Refuter(case, summary))
        assert any(violation.claim.endswith("history") for violation in summary.violations)


def is_plain(case: fuzz.Case) -> bool:
    """Dense float64 data of two classes that is not solved in one step."""
    costs = case.problem.cost > 0
    dense = case.storage == "dense" and case.X.dtype == np.float64
    return dense and costs.sum() > 5 and len(np.unique(case.problem.y[costs])) == 2
