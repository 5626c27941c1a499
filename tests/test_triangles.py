"""Factors by blocks against LAPACK's, below and above the size from which they are used; what is not positive."""

import numpy as np
import pytest

from primalsvm import triangles


def positive(n, seed=0, condition=1e4):
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    A = (Q * np.geomspace(1.0, condition, n)) @ Q.T
    return 0.5 * (A + A.T)


@pytest.mark.parametrize("n", [0, 1, 2, 63, 64, 65, 130, triangles.WHOLE + 1, triangles.WHOLE + 65])
@pytest.mark.parametrize("whole", [0, triangles.WHOLE])
def test_a_factor_is_the_factor(n, whole, monkeypatch):
    monkeypatch.setattr(triangles, "WHOLE", whole)
    A = positive(n) if n else np.zeros((0, 0))
    work = A.copy()
    assert triangles.factorise(work)
    L = np.tril(work)
    assert np.allclose(L @ L.T, A, rtol=0, atol=1e-11 * np.max(A, initial=0.0))
    assert np.array_equal(np.triu(work, 1), np.triu(A, 1))


@pytest.mark.parametrize("whole", [0, triangles.WHOLE])
@pytest.mark.parametrize("columns", [(), (1,), (5,)])
def test_solutions_solve(whole, columns, monkeypatch):
    monkeypatch.setattr(triangles, "WHOLE", whole)
    A, rhs = positive(150), np.random.default_rng(1).standard_normal((150, *columns))
    assert np.allclose(A @ triangles.solve_positive(A.copy(), rhs), rhs, rtol=0, atol=1e-9)


@pytest.mark.parametrize("whole", [0, triangles.WHOLE])
@pytest.mark.parametrize("at", [0, 70, 149])
def test_what_is_not_positive_is_solved_by_least_squares(whole, at, monkeypatch):
    """Wherever it shows: in the first panel, in the second, at the very end."""
    monkeypatch.setattr(triangles, "WHOLE", whole)
    A = positive(150)
    A[at, at] = -1.0
    assert not triangles.factorise(A.copy())
    x = np.random.default_rng(2).standard_normal(150)
    assert np.allclose(triangles.solve_positive(A.copy(), A @ x), x, rtol=0, atol=1e-7)


@pytest.mark.parametrize("n", [1, 95, 97, 200])
def test_a_triangle_is_inverted(n):
    L = np.linalg.cholesky(positive(n))
    assert np.allclose(triangles.invert_triangle(L.copy(order="F")) @ L, np.eye(n), atol=1e-10)
