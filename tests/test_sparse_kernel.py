"""Kernel matrices as CSR: the promised accuracy also at the border, every verb, no memory beyond the limit, and
certificates that speak of the true kernel."""

import numpy as np
import pytest
import scipy.sparse as sp
from approximate import (
    check_product,
    check_rounded_points,
    cloud,
    complaint,
    far_apart,
    refute,
    scale_of,
    true_matrix,
    weights,
)
from drawn import for_all, seeds

from primalsvm import problem as problems
from primalsvm import sparse_kernel as module
from primalsvm.kernel_matrix import TILE, StoredKernel, TiledKernel
from primalsvm.kernels import Kernel
from primalsvm.losses import Hinge, SquaredHinge
from primalsvm.problem import KernelProblem
from primalsvm.solve import solve
from primalsvm.solvers import SMO, ConjugateGradient, Newton
from primalsvm.sparse_kernel import SparseKernel, sparse_kernel

KERNELS = (Kernel("rbf", gamma=200.0), Kernel("wendland", gamma=3.0))
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
every_search = pytest.mark.parametrize("search", ["tree", "tiles"])


@pytest.fixture
def search_by(monkeypatch):
    def choose(search):
        monkeypatch.setattr(module, "TREE", 0 if search == "tiles" else 15)

    return choose


def sample(n=300, d=2, seed=0):
    return np.random.default_rng(seed).random((n, d))


# --- accuracy ---------------------------------------------------------------------------------------------------------


@every_search
@pytest.mark.parametrize("name", ["rbf", "wendland"])
def test_products_are_as_accurate_as_promised(name, search, monkeypatch):
    monkeypatch.setattr(module, "TREE", 0 if search == "tiles" else 15)
    monkeypatch.setattr(module, "PAIRS", 40)
    monkeypatch.setattr(module, "COUNTED", 4)

    @for_all(seed=seeds)
    def check(seed):
        rng = np.random.default_rng(seed)
        n, d = int(rng.integers(1, 20)), int(rng.integers(1, 5))
        X = cloud(rng, n, d).astype(rng.choice([np.float32, np.float64]))
        gamma = 10.0 ** rng.uniform(-4, 8) if rng.random() < 0.3 else 10.0 ** rng.uniform(-1, 2)
        kernel = Kernel(name, gamma=float(gamma / scale_of(X) ** (2 if name == "rbf" else 1)))
        K = sparse_kernel(kernel, X, 10.0 ** rng.uniform(-15, -1), threads=int(rng.integers(1, 4)))
        check_product(K, kernel, X, weights(rng, n), terms=n + 2)
        csr = K.matrix.csr
        assert (csr != csr.T).nnz == 0 or (search == "tiles" and abs(csr - csr.T).max() <= 2 * K.accuracy)

    check()


@pytest.mark.parametrize("kernel", [Kernel("rbf"), Kernel("wendland", gamma=0.3)], ids=lambda kernel: kernel.name)
def test_the_rounding_of_points_far_apart_is_counted(kernel):
    X = far_apart(2)
    K = sparse_kernel(kernel, X, 1e-15)
    check_rounded_points(K, kernel, X)
    assert K.accuracy < 1e-6


@every_search
@pytest.mark.parametrize("offset", [0.0, 3.0, 1e5])
@pytest.mark.parametrize("name", ["rbf", "wendland"])
def test_no_pair_is_lost_at_the_border(name, offset, search, search_by):
    """Points at the radius, a few roundings within it and beyond: the sum of a row counts them all."""
    search_by(search)
    epsilon, gamma = 1e-3, 0.7
    radius = np.sqrt(-np.log(epsilon) / gamma) if name == "rbf" else 1 / gamma
    steps = radius * (1 + 2.0**-52 * np.array([-1e9, -1e4, -8, -2, -1, 0, 1, 2, 8, 1e4, 1e9]))
    X = offset + np.column_stack([np.append(0.0, steps), np.zeros(12)])
    kernel = Kernel(name, gamma=gamma)
    K = sparse_kernel(kernel, X, epsilon)
    truth = true_matrix(kernel, X).astype(np.float64)
    assert np.abs(K.block(np.arange(12), np.arange(12)) - truth).max() <= K.accuracy
    assert K.accuracy < (1.001 * epsilon if name == "rbf" else 1e-9)
    inside = truth[0] > (epsilon if name == "rbf" else 0) + 1e-9
    assert 1 <= inside.sum() < 12 and (K.block(np.zeros(1, int), np.flatnonzero(inside)) > 0).all()


def test_a_narrow_search_would_lose_some(monkeypatch):
    """What the test above looks for is there to be found."""
    monkeypatch.setattr(module, "WIDER", 1 - 1e-6)
    with pytest.raises(AssertionError):
        test_no_pair_is_lost_at_the_border("rbf", 0.0, "tree", lambda search: None)


# --- verbs ------------------------------------------------------------------------------------------------------------


@every_search
@every_kernel
@pytest.mark.parametrize("threads", [1, 3])
def test_every_verb_is_that_of_the_array(kernel, search, threads, search_by, monkeypatch):
    search_by(search)
    monkeypatch.setattr(module, "PANEL", 8 * 300 * 7)  # some rows at a time
    n, rng = 300, np.random.default_rng(1)
    X = sample(n)
    K = sparse_kernel(kernel, X, threads=threads)
    truth = TiledKernel(kernel, X).array()
    stored = StoredKernel(np.where(truth > (1e-10 if kernel.name == "rbf" else 0), truth, 0.0))
    assert not K.held and K.work == np.count_nonzero(stored.values) < n * n / 2
    for csr in (K.matrix.csr, K.take(rng.permutation(n)).matrix.csr):
        assert (np.diff(csr.indices + n * np.repeat(np.arange(n), np.diff(csr.indptr))) > 0).all()  # in canonical form
    some, others = rng.permutation(n)[:33], rng.permutation(n)[:21]
    for v in (rng.standard_normal(n), rng.standard_normal(n) * (rng.random(n) < 0.1), np.zeros(n)):
        for part in (K, K.take(np.arange(n))):
            np.testing.assert_allclose(part.matvec(v), stored.matvec(v), rtol=1e-11, atol=1e-11)
            np.testing.assert_allclose(part.matvec(v, some), stored.matvec(v, some), rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(K.block(some, others), stored.block(some, others), atol=1e-13)
    np.testing.assert_allclose(K.take(some).array(), stored.take(some).array(), atol=1e-13)
    np.testing.assert_array_equal(K.diagonal, np.ones(n))
    for dtype, allowed in ((np.float32, 1e-7), (np.float64, 1e-13)):
        columns, few = K.columns(np.sort(some), dtype), some[:11]
        out = np.full((columns.tiles, len(few), TILE), np.nan, dtype=dtype)
        columns.fill(few, out)
        np.testing.assert_allclose(out[0, :, :33], stored.block(few, np.sort(some)), atol=allowed)
        assert columns.block(few, some).dtype == dtype
        np.testing.assert_allclose(columns.block(few, some), stored.block(few, some), atol=allowed)
    np.testing.assert_allclose(K.array(), stored.array(), atol=1e-13)
    assert K.held and K.array() is K.array()


def test_sparse_rows_go_by_tiles():
    X = sp.random(60, 100, 0.05, format="csr", rng=np.random.default_rng(0))
    for kernel in (Kernel("rbf", gamma=4.0), Kernel("wendland", gamma=0.5)):
        K, truth = sparse_kernel(kernel, X), TiledKernel(kernel, X).array()
        assert 60 <= K.work < 3600
        np.testing.assert_allclose(K.array(), truth, atol=2e-10)


def test_nothing_is_filled_beyond_the_limit(monkeypatch):
    X = sample(1000)
    K = sparse_kernel(KERNELS[1], X)
    needed = 12 * K.work
    left = sparse_kernel(KERNELS[1], X, memory_limit=needed + 800)
    assert left.memory_limit == 800
    with pytest.raises(MemoryError, match=r"^the kernel matrix of 1000 samples needs .* as an array, .*: .*smo\.$"):
        left.array()
    monkeypatch.setattr(module._Tree, "entries", None)
    with pytest.raises(MemoryError, match=rf"^the kernel matrix of 1000 samples has {K.work} entries .* in tiles\.$"):
        sparse_kernel(KERNELS[1], X, memory_limit=needed - 1)
    with pytest.raises(MemoryError, match=r"or gamma, or epsilon, or have"):
        sparse_kernel(Kernel("rbf", gamma=0.0), X, memory_limit=2**20)


@pytest.mark.parametrize(
    "kernel, epsilon, sentence",
    [
        (Kernel("linear"), 1e-6, r"^a sparse kernel matrix is that of rbf or wendland, got 'linear'\.$"),
        (Kernel("rbf"), 0.0, r"^epsilon must be above 0 and at most 0\.1, got 0\.0\.$"),
        (Kernel("rbf"), 1.0, r"^epsilon must be"),
    ],
)
def test_wrong_parameters(kernel, epsilon, sentence):
    with pytest.raises(ValueError, match=sentence):
        sparse_kernel(kernel, sample(), epsilon)


# --- certificates -----------------------------------------------------------------------------------------------------


def build(rng, kernel, X):
    return sparse_kernel(kernel, X, 10.0 ** rng.uniform(-14, -1))


def build_broken(rng, kernel, X):
    K = build(rng, kernel, X)
    K.accuracy = 0.0
    return K


@pytest.mark.parametrize("solvers", [False, True], ids=["models", "solvers"])
@pytest.mark.parametrize("name", ["rbf", "wendland"])
def test_certificates_hold_for_the_true_kernel(name, solvers, monkeypatch):
    monkeypatch.setattr(problems, "WORTHWHILE", 1)
    summary = refute(range(50), name, build, solvers=solvers)
    assert not summary.violations, complaint(summary)
    assert summary.problems > 40 and summary.counts["claims"] > 1500


@pytest.mark.parametrize("solvers", [False, True], ids=["models", "solvers"])
def test_they_would_not_without_the_accuracy(solvers):
    assert refute(range(30), "rbf", build_broken, solvers=solvers).violations


def test_they_would_not_with_a_narrow_search(monkeypatch):
    monkeypatch.setattr(module, "WIDER", 0.9)
    assert refute(range(50), "wendland", build).violations


@every_kernel
@pytest.mark.parametrize("solver", [ConjugateGradient(), SMO(), Newton()], ids=lambda solver: solver.name)
def test_solvers_prove_their_answers_on_it(solver, kernel):
    """Also where no row fits into memory and all there is are products."""
    X = sample(1500, seed=2)
    y = np.where(np.sin(9 * X[:, 0]) + np.cos(7 * X[:, 1]) + 0.3 * sample(1500, 1, 3)[:, 0] > 0.4, 1.0, -1.0)
    loss = Hinge() if "smooth" not in solver.needs else SquaredHinge()
    K = sparse_kernel(kernel, X, threads=2)
    scarce = SparseKernel(K.matrix.csr, K.accuracy, 12 * K.work + 2**20)
    best = solve(KernelProblem(y, np.ones(1500), loss, K=TiledKernel(kernel, X)), Newton(), tol=1e-6).certificate
    for matrix in (K, scarce):
        result = solve(KernelProblem(y, np.ones(1500), loss, K=matrix), solver, tol=1e-3, max_iter=500)
        assert result.status == "converged" and result.certificate.relative_gap <= 1e-3
        assert result.certificate.dual <= best.primal and best.dual <= result.certificate.primal
