"""Triangles against NumPy's own; what is not positive; and that other threads run meanwhile."""

import threading
import time

import numpy as np
import pytest

from primalsvm import triangles


def positive(n, seed=0, condition=1e4):
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    A = (Q * np.geomspace(1.0, condition, n)) @ Q.T
    return 0.5 * (A + A.T)


@pytest.mark.parametrize("n", [0, 1, 2, 63, 64, 65, 130, 700])
def test_a_factor_is_the_factor(n):
    A = positive(n) if n else np.zeros((0, 0))
    work = A.copy()
    assert triangles.factorise(work)
    L = np.tril(work)
    assert np.allclose(L @ L.T, A, rtol=0, atol=1e-11 * np.max(A, initial=0.0))
    assert np.array_equal(np.triu(work, 1), np.triu(A, 1))


@pytest.mark.parametrize("rows", [0, 1, 40])
@pytest.mark.parametrize("sign", [1.0, -1.0, 0.5])
def test_a_square_is_added_to_the_lower_triangle(rows, sign):
    rng = np.random.default_rng(3)
    A, block = rng.standard_normal((30, 30)), rng.standard_normal((rows, 30))
    work = A.copy()
    triangles.add_square(work, block, sign)
    assert np.allclose(np.tril(work), np.tril(A + sign * block.T @ block), rtol=0, atol=1e-12)
    assert np.array_equal(np.triu(work, 1), np.triu(A, 1))


@pytest.mark.parametrize("n", [0, 1, 90])
def test_a_product_reads_the_lower_triangle_only(n):
    A, x = positive(n) if n else np.zeros((0, 0)), np.random.default_rng(2).standard_normal(2 * n)[::2]
    product = triangles.multiply(A + np.triu(np.full((n, n), np.nan), 1), x, np.float64(0.5))
    assert np.allclose(product, 0.5 * A @ x, rtol=0, atol=1e-9)


@pytest.mark.parametrize("columns", [(), (1,), (5,)])
@pytest.mark.parametrize("n", [1, 150])
def test_solutions_solve(columns, n):
    A, rhs = positive(n), np.random.default_rng(1).standard_normal((n, *columns))
    before = rhs.copy()
    x = triangles.solve_positive(A.copy(), rhs)
    assert x.shape == rhs.shape and np.array_equal(rhs, before)
    assert np.allclose(A @ x, rhs, rtol=0, atol=1e-9)
    assert triangles.solve_positive(np.zeros((0, 0)), np.zeros((0, *columns))).shape == (0, *columns)


@pytest.mark.parametrize("columns", [(), (1,), (5,)])
@pytest.mark.parametrize("transposed", [False, True])
def test_triangles_are_solved(columns, transposed):
    L, rhs = np.linalg.cholesky(positive(90)), np.random.default_rng(1).standard_normal((90, *columns))
    x = triangles.solve_lower(L + np.triu(np.ones((90, 90)), 1), rhs, transposed)
    assert np.allclose((L.T if transposed else L) @ x, rhs, rtol=0, atol=1e-10)


def test_the_upper_triangle_is_not_read_where_the_lower_one_is_positive():
    A, rhs = positive(80), np.ones(80)
    assert np.array_equal(triangles.solve_positive(np.tril(A), rhs), triangles.solve_positive(A.copy(), rhs))


@pytest.mark.parametrize("at", [0, 70, 149])
def test_what_is_not_positive_is_solved_by_least_squares(at):
    """Wherever it shows."""
    A = positive(150)
    A[at, at] = -1.0
    assert not triangles.factorise(A.copy())
    x = np.random.default_rng(2).standard_normal(150)
    assert np.allclose(triangles.solve_positive(A.copy(), A @ x), x, rtol=0, atol=1e-7)


@pytest.mark.parametrize("n", [1, 95, 97, 200])
def test_a_triangle_is_inverted(n):
    L = np.linalg.cholesky(positive(n))
    assert np.allclose(triangles.invert_triangle(L.copy(order="F")) @ L, np.eye(n), atol=1e-10)


def test_other_threads_run_while_a_matrix_is_factorised():
    """One that counts gets somewhere: with Python's lock held it would not before the end."""
    A = np.eye(1500) + 1e-3
    seen, done = [], threading.Event()

    def count():
        while not done.is_set():
            seen.append(time.perf_counter())

    other = threading.Thread(target=count)
    other.start()
    begin = time.perf_counter()
    assert triangles.factorise(A)
    end = time.perf_counter()
    done.set()
    other.join()
    assert sum(begin + 0.2 * (end - begin) < t < end - 0.2 * (end - begin) for t in seen) > 10


def test_an_outer_product_is_added_to_the_lower_triangle():
    rng = np.random.default_rng(0)
    A, x = rng.standard_normal((7, 7)), rng.standard_normal(14)[::2]
    wanted = A + np.tril(-2.0 * np.outer(x, x))
    triangles.add_outer(A, x, -2.0)
    np.testing.assert_allclose(A, wanted, rtol=1e-14)
