"""Prediction with a kernel: tiles, groups and threads change nothing but the time."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import rbf_kernel

from primalsvm import expansion
from primalsvm.expansion import expand
from primalsvm.kernels import Kernel


def some(n=70, m=50, d=3, p=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(m, d)), rng.normal(size=(p, m)), rng.normal(size=(n, d))


@pytest.fixture
def small_tiles(monkeypatch):
    for name, size in (("ROWS", 8), ("TILE", 16), ("LEAST", 5)):
        monkeypatch.setattr(expansion, name, size)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_tiles_give_the_whole(threads, make, small_tiles, monkeypatch):
    vectors, coef, X = some(n=3000)
    expected = rbf_kernel(X, vectors, gamma=0.3) @ coef.T
    found = expand(Kernel("rbf", 0.3), make(vectors), coef, make(X), threads=threads)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("classes", [3, 7, 40])
def test_groups_meet_their_own_functions_only(classes, small_tiles, monkeypatch):
    """One against one: a vector of class c has coefficients in the pairs of c."""
    rng = np.random.default_rng(1)
    vectors, _, X = some(m=90)
    groups = rng.permutation(np.arange(90) % classes)
    pairs = [(j, k) for j in range(classes) for k in range(j + 1, classes)]
    coef = rng.normal(size=(len(pairs), 90)) * [np.isin(groups, pair) for pair in pairs]
    expected = rbf_kernel(X, vectors, gamma=0.3) @ coef.T
    used = []

    def watch(*args):
        for tile in tiles(*args):
            used.append(tile[1] if isinstance(tile[1], slice) else len(tile[1]))
            yield tile

    tiles = expansion._tiles
    monkeypatch.setattr(expansion, "_tiles", watch)
    np.testing.assert_allclose(expand(Kernel("rbf", 0.3), vectors, coef, X, groups), expected, rtol=1e-12, atol=1e-12)
    if classes == 7:
        assert used == [6] * 7  # a tile for each class
    np.testing.assert_allclose(expand(Kernel("rbf", 0.3), vectors, coef, X), expected, rtol=1e-12, atol=1e-12)


def test_nothing_to_sum_or_nowhere_to():
    vectors, coef, X = some()
    np.testing.assert_array_equal(expand(Kernel(), vectors[:0], coef[:, :0], X), np.zeros((70, 4)))
    assert expand(Kernel(), vectors, coef, X[:0]).shape == (0, 4)
