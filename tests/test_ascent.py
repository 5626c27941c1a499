"""Passes of dual coordinate ascent: who is visited."""

import numpy as np
import scipy.sparse as sp

from primalsvm import LinearProblem, ascent, solve
from primalsvm.solvers import DualCoordinateAscent


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
