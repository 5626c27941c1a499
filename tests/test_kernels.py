"""Kernels and their matrices: the formulas, every storage, the promised accuracy, and no array beyond the limit."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import pairwise_kernels

from primalsvm import kernel_matrix as matrices
from primalsvm import problem as problems
from primalsvm.cpu_kernels import exp_rows
from primalsvm.kernel_matrix import StoredKernel, TiledKernel, kernel_matrix
from primalsvm.kernels import KERNELS, Kernel, Points
from primalsvm.losses import Hinge
from primalsvm.problem import KernelProblem
from primalsvm.tree_kernel import TreeKernel

NAMED = (
    Kernel("linear"),
    Kernel("rbf", gamma=0.3),
    Kernel("poly", gamma=0.5, degree=2, coef0=1.0),
    Kernel("laplacian", gamma=0.2),
    Kernel("sigmoid", gamma=0.1, coef0=0.5),
)
POSITIVE = (*(kernel for kernel in NAMED if kernel.positive), Kernel("wendland", gamma=0.1))
STORAGE = {"dense": np.asarray, "csr": sp.csr_matrix, "csc": sp.csc_array}


def name_of(kernel):
    return kernel.name


def block(kernel, A, B, dtype=np.float64):
    a = kernel.points(A)
    return kernel.between(a.features(dtype=dtype), Points(kernel, B, like=a).features(dtype=dtype))


def sample(n=40, d=5, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal((n, d)).astype(dtype)


@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", NAMED, ids=name_of)
def test_blocks_are_scikit_learns(kernel, dtype, storage):
    A, B = sample(dtype=dtype), sample(17, seed=1, dtype=dtype)
    parameters = {"gamma": kernel.gamma, "degree": kernel.degree, "coef0": kernel.coef0}
    theirs = pairwise_kernels(A.astype(float), B.astype(float), metric=kernel.name, filter_params=True, **parameters)
    ours = block(kernel, STORAGE[storage](A), STORAGE[storage](B), dtype)
    assert ours.dtype == dtype
    np.testing.assert_allclose(
        ours, theirs, rtol=2e-5 if dtype == np.float32 else 1e-12, atol=1e-6 * (dtype == np.float32)
    )


@pytest.mark.parametrize("d", [1, 2, 5, 40])
def test_wendlands_function(d):
    """Its formula; 0 beyond its radius; and positive."""
    X, kernel = sample(60, d), Kernel("wendland", gamma=0.3)
    r = 0.3 * np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
    q = d // 2 + 2
    K = block(kernel, X, X)
    np.testing.assert_allclose(K, np.maximum(1 - r, 0) ** (q + 1) * ((q + 1) * r + 1), rtol=1e-7, atol=1e-12)
    assert (K[r >= 1] == 0).all()
    assert np.linalg.eigvalsh(K).min() > -1e-12


def test_rows_with_few_entries_are_sparse_whatever_they_came_as(monkeypatch):
    monkeypatch.setattr("primalsvm.kernels.PANEL_BYTES", 8 * 300 * 50)  # several panels
    X = sp.random(50, 300, 0.02, format="csr", rng=np.random.default_rng(0))
    X = sp.csr_matrix(sp.diags_array((np.arange(50) != 3).astype(float)) @ X)  # an empty row
    full = 1.0 + X.toarray()
    for kernel in POSITIVE:
        for stored in (X, X.toarray()):
            points = kernel.points(stored)
            assert points.sparse == (sp.issparse(stored) or kernel.name != "laplacian")
            parameters = {"gamma": kernel.gamma, "degree": kernel.degree, "coef0": kernel.coef0}
            if kernel.name != "wendland":
                theirs = pairwise_kernels(X, X[:20], metric=kernel.name, filter_params=True, **parameters)
                np.testing.assert_allclose(block(kernel, stored, stored[:20]), theirs, atol=1e-12)
            np.testing.assert_allclose(
                points.diagonal(), block(kernel, stored, stored).diagonal(), rtol=1e-12, atol=1e-14
            )
            # rows of another kind meet them all the same
            np.testing.assert_allclose(block(kernel, stored, full), block(kernel, full, stored).T, atol=1e-11)
        assert not kernel.points(sp.csr_array(full)).sparse or kernel.name == "laplacian"


# --- accuracy ---------------------------------------------------------------------------------------------------------


def exactly(kernel, x, z):
    x, z = ([Decimal(float(v)) for v in row] for row in (x, z))
    product = sum(a * b for a, b in zip(x, z, strict=True))
    gamma = Decimal(kernel.gamma)
    if kernel.name == "linear":
        return product
    if kernel.name == "poly":
        return (gamma * product + Decimal(kernel.coef0)) ** kernel.degree
    if kernel.name == "laplacian":
        return (-gamma * sum(abs(a - b) for a, b in zip(x, z, strict=True))).exp()
    square = sum((a - b) ** 2 for a, b in zip(x, z, strict=True))
    if kernel.name == "rbf":
        return (-gamma * square).exp()
    r, q = gamma * square.sqrt(), len(x) // 2 + 2
    return max(1 - r, Decimal(0)) ** (q + 1) * ((q + 1) * r + 1)


@pytest.mark.parametrize("name", ["linear", "rbf", "poly", "laplacian", "wendland"])
@pytest.mark.parametrize("offset", [0.0, 100.0, 1e7])
@pytest.mark.parametrize("gamma", [1e-6, 1.0, 1e5])
def test_entries_are_as_accurate_as_promised(name, offset, gamma):
    """Rows that are close, far and equal, near the origin and far from it: also where the distance cancels."""
    rng = np.random.default_rng(1)
    Z = rng.standard_normal((5, 3)) + offset
    Z = np.vstack([Z, Z[:2] + 1e-3 / np.sqrt(gamma) * rng.standard_normal((2, 3)), Z[:1], 1e4 * Z[1:2]])
    for dtype in (np.float32, np.float64):
        for store in (np.asarray, sp.csr_array):
            matrix = kernel_matrix(Kernel(name, gamma=gamma, coef0=0.5), store(Z.astype(dtype)))
            K = matrix.array()
            with localcontext(prec=60):
                exact = [[exactly(matrix.kernel, x, z) for z in Z.astype(dtype)] for x in Z.astype(dtype)]
                for i, j in np.ndindex(K.shape):
                    error = abs(Decimal(float(K[i, j])) - exact[i][j])
                    assert error <= Decimal(matrix.accuracy) * (exact[i][i] * exact[j][j]).sqrt()


def test_the_care_for_close_points_is_needed():
    """Without it the promise of the test above could not be kept: the plain product is off by far more."""
    rng = np.random.default_rng(2)
    Z = np.repeat(rng.standard_normal((4, 3)), 2, axis=0)
    Z[1::2] += 1e-6 * rng.standard_normal((4, 3))
    Z = np.vstack([Z, 1e2 * rng.standard_normal((2, 3))])
    kernel = Kernel("rbf", gamma=1e11)
    points = kernel.points(Z)
    assert points.rough
    square = ((Z[:, None] - Z) ** 2).sum(axis=2)
    with_care = kernel.between(points.features(), points.features())
    np.testing.assert_allclose(with_care, np.exp(-1e11 * square), atol=points.accuracy)
    assert points.accuracy < 1e-6
    points.rough = False
    without = kernel.between(points.features(), points.features())
    assert np.abs(without - np.exp(-1e11 * square)).max() > 1e-6


# --- matrices ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def no_storing(monkeypatch):
    monkeypatch.setattr(matrices, "SMALL", 0)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("kernel", POSITIVE, ids=name_of)
def test_tiles_are_the_stored_matrix(kernel, threads, no_storing, monkeypatch):
    monkeypatch.setattr(matrices, "TILE", 16)
    monkeypatch.setattr(matrices, "PANEL", 8 * 20 * 7)  # several panels of columns
    X = sample(100)
    tiled, stored = TiledKernel(kernel, X, threads=threads), StoredKernel(block(kernel, X, X))
    assert not tiled.held
    rng = np.random.default_rng(3)
    v = rng.standard_normal(100) * (rng.random(100) < 0.4)
    some, others = rng.permutation(100)[:33], rng.permutation(100)[:21]
    for K in (tiled, tiled.take(np.arange(100))):
        np.testing.assert_allclose(K.matvec(v), stored.matvec(v), rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(K.matvec(v, some), stored.matvec(v)[some], rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(K.block(some, others), stored.block(some, others), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(K.diagonal, stored.diagonal, rtol=1e-12)
    np.testing.assert_allclose(tiled.take(some).array(), stored.take(some).array(), rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(tiled.take(some).take(others[others < 33]).array().shape, [sum(others < 33)] * 2)
    for K in (tiled, stored):
        columns, few = K.columns(np.sort(some)), some[:11]
        out = np.zeros((columns.tiles, len(few), 16), dtype=columns.dtype)
        columns.fill(few, out)
        rows = np.concatenate(list(out), axis=1)[:, :33]
        np.testing.assert_allclose(rows, stored.block(few, np.sort(some)), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(columns.block(few, some), stored.block(few, some), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(tiled.array(), stored.array(), rtol=1e-10, atol=1e-12)
    assert tiled.held


def test_constant_columns_take_no_part(no_storing):
    """... in distances; each of several parts of the samples has its own. Inner products do notice them."""
    X = sample(120, 160)
    X[:, ::2] = 3.0
    X[60:, 1::4] = -1.0
    for kernel in (*POSITIVE[:-1], Kernel("rbf", gamma=0.01), Kernel("wendland", gamma=0.001)):
        K = TiledKernel(kernel, X)
        whole = block(kernel, X, X)
        np.testing.assert_allclose(K.block(np.arange(120), np.arange(120)), whole, rtol=1e-10, atol=1e-12)
        half = K.take(np.arange(60, 120))
        np.testing.assert_allclose(half.block(np.arange(60), np.arange(60)), whole[60:, 60:], rtol=1e-10, atol=1e-12)
        assert (K.points.d, half.points.d) == ((80, 40) if kernel.name in ("rbf", "wendland") else (160, 160))


def test_no_array_is_made_beyond_the_limit(no_storing):
    K = TiledKernel(Kernel("rbf"), sample(100), memory_limit=8 * 100 * 100 - 1)
    with pytest.raises(MemoryError, match=r"^the kernel matrix of 100 samples needs .* memory_limit is .*smo\.$"):
        K.array()
    assert TiledKernel(Kernel("rbf"), sample(100), memory_limit=8 * 100 * 100).array().shape == (100, 100)


def test_wide_exponents_are_not_left_to_float32(no_storing):
    narrow, wide = (TiledKernel(Kernel("rbf", gamma=g), sample(30)) for g in (1.0, 1e4))
    assert narrow.columns(np.arange(30)).dtype == np.float32
    assert wide.columns(np.arange(30)).dtype == np.float64
    far = 1e7 + sample(30)
    for kernel, X in ((Kernel("laplacian"), far), (Kernel("linear"), 1e16 * far), (Kernel("poly"), 1e4 * far)):
        assert TiledKernel(kernel, sample(30)).columns(np.arange(30)).dtype == np.float32
        columns = TiledKernel(kernel, X).columns(np.arange(30))
        assert columns.dtype == np.float64
        np.testing.assert_allclose(columns.block(np.arange(30), np.arange(30)), block(kernel, X, X), rtol=1e-12)


def test_a_function_is_a_kernel_and_is_checked():
    X = sample()
    K = kernel_matrix(Kernel(lambda a, b: np.exp(-0.3 * ((a[:, None] - b) ** 2).sum(axis=2))), X)
    np.testing.assert_allclose(K.array(), kernel_matrix(Kernel("rbf", gamma=0.3), X).array(), rtol=1e-12)
    with pytest.raises(ValueError, match="not positive semidefinite"):
        kernel_matrix(Kernel(lambda a, b: -(a @ b.T)), X)


@pytest.mark.parametrize(
    "kernel, sentence",
    [
        (Kernel("sigmoid"), r"^the sigmoid kernel is not positive semidefinite: .* Take rbf, .*\.$"),
        (Kernel("poly", coef0=-1.0), r"^the poly kernel with coef0 < 0 is not positive semidefinite: .*\.$"),
    ],
    ids=["sigmoid", "poly"],
)
def test_kernels_without_a_lower_bound_are_refused(kernel, sentence):
    with pytest.raises(ValueError, match=sentence):
        kernel_matrix(kernel, sample())


@pytest.mark.parametrize(
    "wrong, sentence",
    [
        ({"name": "gaussian"}, rf"^kernel must be one of {', '.join(KERNELS)}, or a function, got 'gaussian'\.$"),
        ({"gamma": -1.0}, r"^gamma must be a finite number of at least 0, got -1\.0\.$"),
        ({"gamma": np.inf}, r"^gamma must be a finite number"),
        ({"name": "poly", "degree": 2.5}, r"^degree must be a whole number above 0, got 2\.5\.$"),
    ],
)
def test_wrong_parameters(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        Kernel(**wrong)


# --- remembered scores ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_scores_derived_from_the_last_ones_are_within_their_error(seed, monkeypatch):
    """Chains of models, each a change of the last: multiples, a few coefficients, trifles, all of them."""
    monkeypatch.setattr(problems, "WORTHWHILE", 1)
    rng = np.random.default_rng(seed)
    n = 14
    X = rng.standard_normal((n, 3))
    exact = [
        [sum(Fraction(a) * Fraction(b) for a, b in zip(x, z, strict=True)) for z in X.tolist()] for x in X.tolist()
    ]
    problem = KernelProblem(np.ones(n), np.ones(n), Hinge(), "none", K=X @ X.T)
    products = 0
    matvec = StoredKernel.matvec

    def counted(self, v, picked=None):
        nonlocal products
        products += np.count_nonzero(v)
        return matvec(self, v, picked)

    monkeypatch.setattr(StoredKernel, "matvec", counted)
    f = rng.standard_normal(n)
    for step in range(60):
        kind = rng.integers(5)
        if kind == 0:
            f = f * rng.uniform(-2, 2)
        elif kind == 1:
            f = f.copy()
            f[rng.integers(n, size=2)] += 10.0 ** rng.uniform(-12, 3)
        elif kind == 2:
            f = f * (1 + 1e-16 * rng.standard_normal(n))
        elif kind == 3:
            f = 1e-9 * f + 1e-7 * np.eye(n)[rng.integers(n)]
        elif step % 10 == 0:
            f = rng.standard_normal(n) * 10.0 ** rng.uniform(-5, 5)
        scores, allowed = problem.scores(f), problem.score_error(f)
        for i in range(n):
            truth = sum(k * Fraction(b) for k, b in zip(exact[i], f.tolist(), strict=True))
            assert abs(Fraction(scores[i]) - truth) <= Fraction(allowed[i])
        square = sum(
            Fraction(a) * k * Fraction(b)
            for a, r in zip(f.tolist(), exact, strict=True)
            for k, b in zip(r, f.tolist(), strict=True)
        )
        assert abs(Fraction(problem.inner(f, f)) - square) <= problem.norm_error(f)
    assert products < 45 * n  # many of the sixty were not computed afresh


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 5, 33, 57, 90])
def test_half_of_the_entries_between_samples_of_the_model_will_do(count, threads, monkeypatch):
    """Tiles of all shapes: K is symmetric, and rows that are columns too are computed once."""
    monkeypatch.setattr(matrices, "TILE", 16)
    monkeypatch.setattr(matrices, "_cuts", lambda n, threads, work: [n * k // threads for k in range(threads + 1)])
    rng = np.random.default_rng(count)
    X = sample(90)
    K, whole = TiledKernel(Kernel("rbf", 0.3), X, memory_limit=0, threads=threads), Kernel("rbf", 0.3)
    v = np.zeros(90)
    v[rng.permutation(90)[:count]] = rng.standard_normal(count)
    expected = block(whole, X, X) @ v
    np.testing.assert_allclose(K.matvec(v), expected, rtol=1e-12, atol=1e-12)
    twice = np.repeat(rng.permutation(90)[:45], 2)
    for picked in (rng.permutation(90), np.flatnonzero(v), np.flatnonzero(v == 0), rng.permutation(90)[:30], twice):
        np.testing.assert_allclose(K.matvec(v, picked), expected[picked], rtol=1e-12, atol=1e-12)


# --- rough products ---------------------------------------------------------------------------------------------------


def test_the_exponential_of_float32_blocks_is_as_exact_as_it_says():
    t = -np.concatenate([np.linspace(0, 80, 400_001), np.logspace(-40, 0, 40_001)]).astype(np.float32)
    block = t[None].copy()
    exp_rows(block, np.float32(-80.0))
    truth = np.exp(t.astype(np.longdouble))
    assert (np.abs(block[0] - truth) <= 2.0**-24 * (8 + 2 * np.abs(t)) * truth).all()
    odd = np.array([[np.nan, np.inf, 1.0, 0.0, -0.0, -81.0, -1e30, -np.inf]], dtype=np.float32)
    exp_rows(odd, np.float32(-80.0))
    least = np.exp(-80.0)
    np.testing.assert_allclose(odd[0], [np.nan, 1, 1, 1, 1, least, least, least], rtol=2e-5)


def exact_gaussian(X, gamma, i, j):
    """In a hundred digits, of the numbers that X holds."""
    with localcontext(prec=100):
        return (
            -Decimal(gamma) * sum((Decimal(float(a)) - Decimal(float(b))) ** 2 for a, b in zip(X[i], X[j], strict=True))
        ).exp()


def rows_to_try(kind, rng):
    n = 24
    if kind == "far away":
        return rng.standard_normal((n, 4)) + 1e3
    if kind == "wide":  # 300 products in an entry, and exponents of hundreds
        return rng.standard_normal((n, 300))
    if kind == "duplicates":
        return np.repeat(rng.standard_normal((n // 4, 3)), 4, axis=0)
    if kind == "sparse":  # kept as CSR
        return rng.standard_normal((n, 60)) * (rng.random((n, 60)) < 0.1)
    if kind == "tiny":
        return rng.standard_normal((n, 3)) * 1e-20
    return rng.standard_normal((n, 5)) * 10.0 ** rng.uniform(-3, 1, 5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["plain", "far away", "wide", "duplicates", "sparse", "tiny"])
def test_rough_products_are_within_their_error(kind, dtype):
    rng = np.random.default_rng(3)
    X = rows_to_try(kind, rng).astype(dtype)
    n, worst = len(X), 0.0
    for gamma in (1e-6, 0.01, 0.3, 2.0):
        K = TiledKernel(Kernel("rbf", gamma), X, memory_limit=0)
        exact = [[exact_gaussian(X, gamma, i, j) for j in range(n)] for i in range(n)]
        for size in (1.0, 1e-200, 1e200):
            v = size * rng.standard_normal(n) * 10.0 ** rng.uniform(-9, 3, n) * (rng.random(n) < 0.6)
            picked = rng.permutation(n)[: n // 2]
            found = K.rough_matvec(v, picked)
            if found is None:
                assert K.points.wide or K.points.rough
                continue
            weights = [Decimal(float(weight)) for weight in v]
            with localcontext(prec=100):
                for i, value, error in zip(picked, *found, strict=True):
                    truth = sum(k * weight for k, weight in zip(exact[i], weights, strict=True))
                    off = abs(Decimal(float(value)) - truth)
                    assert off <= Decimal(float(error))
                    worst = max(worst, float(off) / float(error))
    assert worst > 1e-2 or kind == "tiny"  # and they are not far more than that; of tiny rows every entry is 1


def test_who_has_no_rough_products():
    """Nobody whose entries float32 cannot have, or whose kernel has no bound on them."""
    X, v, some = sample(40), np.ones(40), np.arange(3)
    assert TiledKernel(Kernel("rbf", 0.1), X, memory_limit=0).rough_matvec(v, some) is not None
    for kernel in (Kernel("linear"), Kernel("poly"), Kernel("laplacian"), Kernel("wendland"), Kernel("rbf", 1e4)):
        assert TiledKernel(kernel, X, memory_limit=0).rough_matvec(v, some) is None
    assert TiledKernel(Kernel("rbf", 0.1), X).rough_matvec(v, some) is None  # held
    assert StoredKernel(np.eye(40)).rough_matvec(v, some) is None
    tree = TreeKernel(Kernel("rbf", 0.1), sample(3000, 2))
    assert tree.boxes is not None and tree.rough_matvec(np.ones(3000), some) is None  # boxes cost less


def test_an_absurd_model_leaves_nothing_behind(monkeypatch):
    """Its scores are no numbers: those of the next are not derived from them."""
    problem, f, K = rough_problem(monkeypatch)
    expected = f @ K.matvec(f)
    for wild in (np.inf, np.nan, 1e308):
        absurd = np.where(np.arange(problem.n) == 3, wild, f)
        with np.errstate(all="ignore"):
            problem.scored(absurd, 0.0)
            assert problem.inner(f, f) == pytest.approx(expected, rel=1e-12)
            problem.scored(absurd, 0.0)
            assert problem.inner(2.0 * f, 2.0 * f) == pytest.approx(4 * expected, rel=1e-12)


def rough_problem(monkeypatch, n=60, spread=4.0, loss="hinge"):
    """Two clouds, a model of few samples, and no K in memory."""
    monkeypatch.setattr(problems, "QUICK", 0)
    monkeypatch.setattr(problems, "WORTHWHILE", 1)
    rng = np.random.default_rng(5)
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    X = rng.standard_normal((n, 2)) + spread * y[:, None]
    K = TiledKernel(Kernel("rbf", 0.05), X, memory_limit=0)
    problem = KernelProblem(y, np.full(n, 10.0), loss, "free", K=K)
    f = np.where(rng.random(n) < 0.15, y * rng.uniform(0.5, 1.0, n), 0.0)
    return problem, f, StoredKernel(np.array(K.kernel.between(K.points.features(), K.points.features())))


def test_far_samples_have_rough_scores_and_the_others_exact_ones(monkeypatch):
    problem, f, K = rough_problem(monkeypatch)
    truth, fine = K.matvec(f), problem._product_error(f) * problem.norms
    b = 0.1
    s, e = problem.scored(f, b)
    assert (np.abs(s - truth) <= e + 1e-13).all()
    rough = e > 4 * fine
    assert 10 < rough.sum() < 60 and not rough[f != 0].any()
    assert (problem.y * (truth + b))[rough].min() > 1.0  # beyond doubt
    assert (problem.loss.value(problem.y * (s + b) - e) == 0)[rough].all()
    held, errors = s.copy(), e.copy()
    np.testing.assert_allclose(problem.inner(f, f), f @ truth, rtol=1e-13)  # those with a part in f are exact
    assert problem.norm_error(f) < 1e-10
    g = np.where(rough, 1.0, 0.0)
    np.testing.assert_allclose(problem.inner(g, f), g @ truth, rtol=1e-13)  # of a g that asks for the rough ones
    np.testing.assert_allclose(problem.scores(f), truth, rtol=1e-13)  # and of one who asks for all
    assert (problem.score_error(f) <= 4 * fine).all()
    np.testing.assert_array_equal(s, held)  # what somebody holds is not written into
    np.testing.assert_array_equal(e, errors)


def test_another_intercept_asks_for_more(monkeypatch):
    problem, f, K = rough_problem(monkeypatch)
    first = problem.scored(f, 0.0)[1]
    b = -3.0
    s, e = problem.scored(f, b)
    assert np.count_nonzero(e > 1e-9) < np.count_nonzero(first > 1e-9)
    assert (np.abs(s - K.matvec(f)) <= e + 1e-13).all()
    doubtful = problem.y * (K.matvec(f) + b) < 1.0
    assert doubtful.any() and (e[doubtful] < 1e-9).all()


@pytest.mark.parametrize("seed", range(6))
def test_chains_of_questions_to_a_problem_with_rough_scores(seed, monkeypatch):
    """Whoever asks for what, in whatever order: each answer is within its error, of multiples and changes too."""
    problem, f, K = rough_problem(monkeypatch, loss=("hinge", "squared_hinge", "huber")[seed % 3])
    rng, exact = np.random.default_rng(seed), K.values.astype(np.longdouble)
    for _ in range(60):
        kind = rng.integers(5)
        if kind == 0:
            f = f * rng.uniform(0.5, 1.5)
        elif kind == 1:
            f = f.copy()
            f[rng.integers(problem.n)] += rng.standard_normal()
        elif kind == 2:
            f = np.where(rng.random(problem.n) < 0.1, problem.y, 0.0)
        truth, slack = exact @ f, 1e-12 * (1 + np.abs(f).sum())
        question = rng.integers(4)
        if question == 0:
            s, e = problem.scored(f, float(rng.normal()))
            assert (np.abs(s - truth) <= e + slack).all()
        elif question == 1:
            assert (np.abs(problem.scores(f) - truth) <= problem.score_error(f) + slack).all()
            assert (problem.score_error(f) < 1e-9 * (1 + np.abs(f).sum())).all()
        elif question == 2:
            assert abs(problem.inner(f, f) - f @ truth) <= problem.norm_error(f) + slack * (1 + np.abs(f).sum())
        else:
            g = rng.standard_normal(problem.n)
            assert abs(problem.inner(g, f) - g @ truth) <= 1e-9 * (1 + np.abs(f).sum() * np.abs(g).sum())


def test_a_model_beyond_float64_is_not_derived_from(monkeypatch):
    monkeypatch.setattr(problems, "WORTHWHILE", 1)
    problem = KernelProblem(np.ones(3), np.ones(3), Hinge(), "none", K=np.eye(3))
    with np.errstate(all="ignore"):
        for wild in (np.inf, np.nan, 1e308):
            problem.scores(np.full(3, wild))
            np.testing.assert_array_equal(problem.scores(np.array([1.0, 2.0, 0.0])), [1.0, 2.0, 0.0])
            problem.scores(np.zeros(3))
