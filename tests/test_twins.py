"""Samples that are the same but for their labels: found, and settled for good."""

import numpy as np
import pytest
import scipy.sparse as sp

from primalsvm import LinearProblem, solve
from primalsvm import solvers as all_solvers
from primalsvm.ascent import TWINS
from primalsvm.solvers import dual_coordinate_ascent as module
from primalsvm.twins import Twins, find_twins, settle_twins

NOBODY = np.zeros(0, dtype=np.int64)


def with_twins(n=200, d=30, kinds=12, seed=0):
    """X whose last rows are copies of the first ones, some of them several times, and labels by the toss of a coin."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.3), 2)
    X[n - 3 * kinds :] = X[np.tile(np.arange(kinds), 3)]
    return X, np.where(rng.random(n) < 0.5, 1.0, -1.0)


def pairs_by_hand(X, y, among):
    """How many pairs there are: of each kind as many as of its rarer label."""
    kinds = {}
    for i in among:
        kinds.setdefault(X[i].tobytes(), []).append(y[i])
    return sum(min(labels.count(1.0), labels.count(-1.0)) for labels in kinds.values())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("store", [np.asarray, sp.csr_matrix], ids=["dense", "CSR"])
def test_every_pair_is_found_and_no_other(store, dtype):
    for seed in range(5):
        X, y = with_twins(seed=seed)
        X = (X + 0.0).astype(dtype)  # no -0.0, which has other bits
        problem = LinearProblem(y, np.ones(len(y)), "hinge", "none", X=store(X))
        for among in (np.arange(len(y)), np.random.default_rng(seed).permutation(len(y))[:150], NOBODY):
            one, other = find_twins(problem, among)
            assert len(one) == len(other) == pairs_by_hand(X, y, among)
            assert (y[one] == 1.0).all() and (y[other] == -1.0).all()
            assert (X[one] == X[other]).all()
            assert len({*one, *other}) == 2 * len(one)
            assert np.isin(one, among).all() and np.isin(other, among).all()


def test_rows_of_nothing_are_twins_too_and_no_twins_are_none():
    X = np.zeros((4, 3))
    assert len(find_twins(LinearProblem([1, -1, -1, 1], np.ones(4), "hinge", "none", X=X), np.arange(4)).one) == 2
    X = np.arange(12.0).reshape(4, 3)
    assert len(find_twins(LinearProblem([1, -1, -1, 1], np.ones(4), "hinge", "none", X=X), np.arange(4)).one) == 0


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "huber"])
def test_settled_twins_are_at_the_best_place_along_their_line(loss):
    X, y = with_twins(n=60, kinds=10)
    rng = np.random.default_rng(3)
    problem = LinearProblem(y, rng.uniform(0.1, 3.0, len(y)), loss, "none", X=X)
    twins = find_twins(problem, np.arange(len(y)))
    bound = min(problem.loss.bound, 4.0)
    alpha = problem.cost * bound * np.clip(rng.uniform(-0.3, 1.3, len(y)), 0.0, 1.0)
    before = alpha.copy()
    gain = settle_twins(twins, alpha, problem.upper, problem.loss.bend / problem.cost, problem.loss.tilt)
    assert np.allclose(problem.function(alpha), problem.function(before), rtol=0, atol=1e-12)
    assert (alpha >= 0).all() and (alpha <= problem.upper).all()
    assert np.isclose(problem.dual(alpha) - problem.dual(before), gain, rtol=1e-9) and gain > 0
    for i, j in zip(*twins, strict=True):
        for t in np.linspace(-1.0, 1.0, 21):
            moved = alpha.copy()
            moved[[i, j]] = alpha[[i, j]] + t
            if (moved >= 0).all() and (moved <= problem.upper).all():
                assert problem.dual(moved) <= problem.dual(alpha) + 1e-12
    others = np.setdiff1d(np.arange(len(y)), np.concatenate(twins))
    assert (alpha[others] == before[others]).all()


@pytest.mark.parametrize("intercept", ["none", "penalized", "free"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_twins_no_longer_keep_the_ascent_waiting(loss, intercept, monkeypatch):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((400, 60)) * (rng.random((400, 60)) < 0.3)
    y = np.where(rng.random(400) < 0.5, 1.0, -1.0)
    X[:20] *= 10  # steps of theirs are short beside their boxes
    X[-20:], y[-20:] = X[:20], -y[:20]
    problem = LinearProblem(y, np.full(len(y), 1.0), loss, intercept, X=sp.csr_matrix(X))

    def passes():
        solver = all_solvers.DualCoordinateAscent(newton=False)
        result = solve(problem, solver, tol=1e-4, max_iter=20_000, free_work=0)
        assert result.status == "converged" and result.certificate.relative_gap <= 1e-4
        return result.history[-1].passes

    settled = passes()
    monkeypatch.setattr(module, "look_for_twins", lambda problem, state: None)
    assert TWINS < settled < 0.7 * passes()


def test_those_whose_box_is_crossed_in_a_step_are_not_looked_for():
    X, y = with_twins()
    problem = LinearProblem(y, np.full(len(y), 1e-3), "hinge", "none", X=X)
    solver = all_solvers.DualCoordinateAscent()
    state = solver.init(problem)
    state.passes = TWINS
    solver.step(problem, state)
    assert state.twins is not None and len(state.twins.one) == 0
    assert isinstance(state.twins, Twins)
