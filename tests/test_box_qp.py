"""The quadratic program in a box against a bounded least-squares solver, and what it promises wherever it stops."""

import numpy as np
import pytest
from scipy.optimize import lsq_linear

from primalsvm import box_qp


def make(seed, n, rank, infinite):
    """Columns of many lengths; of every other problem they have much in common."""
    rng = np.random.default_rng(seed)
    A = (rng.standard_normal((rank, n)) + 2.0 * (seed % 2) * rng.standard_normal((rank, 1))) * 10.0 ** rng.uniform(
        -1, 1.5, n
    )
    target = rng.standard_normal(rank) * 3
    low, high = -rng.uniform(0, 1, n) * (rng.random(n) < 0.7), rng.uniform(0, 1, n) * (rng.random(n) < 0.7)
    return A, target, low, np.full(n, np.inf) if infinite else high


def value(A, target, x):
    """g'x - x'Qx / 2 with Q = A'A, g = A' target."""
    return float(target @ (A @ x) - 0.5 * np.sum((A @ x) ** 2))


@pytest.mark.parametrize("infinite", [False, True])
@pytest.mark.parametrize("n, rank", [(1, 1), (5, 8), (20, 30), (60, 80)])
def test_it_is_the_maximum(n, rank, infinite):
    for seed in range(20):
        A, target, low, high = make(seed, n, rank, infinite)
        x = box_qp.maximize(A.T @ A, A.T @ target, low, high)
        assert ((low <= x) & (x <= high)).all()
        free = low < high
        best = np.zeros(n)
        if free.any():
            best[free] = lsq_linear(A[:, free], target, (low[free], high[free]), tol=1e-14, max_iter=1000).x
        wanted = value(A, target, best)
        assert value(A, target, x) >= wanted - 1e-5 * wanted - 1e-12


def test_what_is_flat_goes_to_its_bound():
    """Twins with both labels: Q has no curvature where both rise, and both want to."""
    Q = np.array([[1e6, -1e6, 0.0], [-1e6, 1e6, 0.0], [0.0, 0.0, 2.0]])
    x = box_qp.maximize(Q, np.array([1.0, 1.0, 1.0]), np.zeros(3), np.array([0.3, 0.5, 9.0]))
    np.testing.assert_allclose(x, [0.3, 0.3 + 1e-6, 0.5], rtol=1e-9)


def test_a_variable_that_only_the_whole_step_sends_out_of_its_box_is_held():
    """Both slopes lead into the box; the optimum of the face has the second one below its bound."""
    x = box_qp.maximize(np.array([[6.9, 10.64], [10.64, 16.76]]), np.array([1.0, 0.2]), np.zeros(2), np.ones(2))
    np.testing.assert_allclose(x, [1 / 6.9, 0.0], rtol=1e-9)


@pytest.mark.parametrize("rank", [3, 40])
def test_the_gain_never_falls(rank, monkeypatch):
    for seed in range(20):
        A, target, low, high = make(seed, 40, rank, False)
        before = 0.0
        for rounds in range(1, 12):
            monkeypatch.setattr(box_qp, "ROUNDS", rounds)
            x = box_qp.maximize(A.T @ A, A.T @ target, low, high)
            assert value(A, target, x) >= before - 1e-9 * abs(before)
            before = value(A, target, x)


def test_nothing_to_do():
    assert not box_qp.maximize(np.eye(3), np.array([0.0, 1.0, -1.0]), np.zeros(3), np.array([1.0, 0.0, 1.0])).any()
    assert len(box_qp.maximize(np.zeros((0, 0)), np.zeros(0), np.zeros(0), np.zeros(0))) == 0
