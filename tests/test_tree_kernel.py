"""Gaussian sums over boxes: the proven bound, every verb, when they are taken, and certificates for the true kernel."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from approximate import check_product, check_rounded_points, cloud, complaint, far_apart, refute, scale_of, weights
from drawn import for_all, seeds

from primalsvm import kernel_matrix as matrices
from primalsvm import problem as problems
from primalsvm import tree_kernel as module
from primalsvm.kernel_matrix import TiledKernel
from primalsvm.kernels import Kernel
from primalsvm.losses import Hinge, SquaredHinge
from primalsvm.problem import KernelProblem
from primalsvm.solve import solve
from primalsvm.solvers import SMO, ConjugateGradient, Newton
from primalsvm.tree_kernel import ORDERS, TreeKernel, interpolation_error

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def always_boxes(monkeypatch):
    """Also where they cost more than tiles."""
    monkeypatch.setattr(matrices, "SMALL", 0)
    monkeypatch.setattr(module, "WORTH", 1e300)
    monkeypatch.setattr(module, "SHARE", np.inf)


def sample(n=2000, d=2, seed=0):
    return np.random.default_rng(seed).random((n, d))


# --- the bound --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", ORDERS)
def test_the_interpolation_misses_by_less_than_its_bound(p):
    """In both arguments, boxes at any distance; and by more than a thousandth of it, so that it is not idle."""
    nodes = np.cos((2 * np.arange(p) + 1) * np.pi / (2 * p))
    t = np.linspace(-1, 1, 401)
    basis = np.ones((401, p))
    for a in range(p):
        for b in set(range(p)) - {a}:
            basis[:, a] *= (t - nodes[b]) / (nodes[a] - nodes[b])
    for tolerance in (1e-3, 1e-6, 1e-9):
        half = module._widest(p, tolerance, 1)
        assert interpolation_error(p, half, 1) == pytest.approx(tolerance, rel=1e-9)
        worst = 0.0
        for shift in np.linspace(0, 6, 13):
            close = np.exp(-0.5 * (half * (nodes[:, None] - nodes) + shift) ** 2)
            exact = np.exp(-0.5 * (half * (t[:, None] - t) + shift) ** 2)
            worst = max(worst, float(np.abs(basis @ close @ basis.T - exact).max()))
        assert 0.001 * tolerance < worst < tolerance


def test_products_are_as_accurate_as_promised(always_boxes, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 3)
    monkeypatch.setattr(module, "SLAB", 16)

    @for_all(seed=seeds)
    def check(seed):
        rng = np.random.default_rng(seed)
        n, d = int(rng.integers(1, 25)), int(rng.integers(1, 4))
        X = cloud(rng, n, d).astype(rng.choice([np.float32, np.float64]))
        gamma = 10.0 ** rng.uniform(-8, 4) if rng.random() < 0.3 else 10.0 ** rng.uniform(-2, 1)
        kernel = Kernel("rbf", gamma=float(gamma / scale_of(X) ** 2))
        K = TreeKernel(kernel, X, 10.0 ** rng.uniform(-14, -1), threads=int(rng.integers(1, 4)))
        assert K.boxes is not None
        check_product(K, kernel, X, weights(rng, n))

    check()


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_rounding_of_points_far_apart_is_counted(d, always_boxes):
    X, kernel = far_apart(d), Kernel("rbf")
    K = TreeKernel(kernel, X, 1e-15)
    assert K.boxes is not None
    K.accuracy = K.boxes.accuracy  # without what tiles may need
    check_rounded_points(K, kernel, X)
    assert K.accuracy < 1e-6


def test_the_tests_above_would_notice(always_boxes, monkeypatch):
    """Boxes a little too wide, neighbours left out: each breaks the promise."""
    monkeypatch.setattr(module, "SLAB", 1)
    rng = np.random.default_rng(0)
    X, kernel = sample(30, 1), Kernel("rbf", gamma=200.0)
    for name, value in (("CRAMER", 0.1), ("FAR", 1.0)):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, value)
            with pytest.raises(AssertionError):
                for v in np.eye(30):
                    check_product(TreeKernel(kernel, X, 1e-6), kernel, X, v)
    K = TreeKernel(kernel, X, 1e-6)
    K.accuracy = 0.0
    with pytest.raises(AssertionError):
        check_product(K, kernel, X, rng.standard_normal(30))


# --- verbs and choices ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_every_verb_is_that_of_tiles(d, threads, always_boxes):
    X, kernel, rng = sample(500, d), Kernel("rbf", gamma=20.0), np.random.default_rng(1)
    K, tiled = (kind(kernel, X, threads=threads) for kind in (TreeKernel, TiledKernel))
    v, few = rng.standard_normal(500), rng.standard_normal(500) * (rng.random(500) < 0.02)
    some, others = rng.permutation(500)[:33], rng.permutation(500)[:21]
    for weight in (v, few, np.zeros(500)):
        for part in (K, K.take(np.arange(500))):
            assert part.boxes is not None and not part.held
            allowed = 2 * part.accuracy * np.abs(weight).sum()
            np.testing.assert_allclose(part.matvec(weight), tiled.matvec(weight), rtol=0, atol=allowed)
            np.testing.assert_allclose(part.matvec(weight, some), tiled.matvec(weight, some), rtol=0, atol=allowed)
    np.testing.assert_array_equal(K.matvec(v, some[:0]), [])
    np.testing.assert_array_equal(K.block(some, others), tiled.block(some, others))
    np.testing.assert_array_equal(K.take(some).array(), tiled.take(some).array())
    np.testing.assert_array_equal(K.diagonal, np.ones(500))
    np.testing.assert_array_equal(
        K.columns(np.sort(some)).block(some, some), tiled.columns(np.sort(some)).block(some, some)
    )
    np.testing.assert_array_equal(K.array(), tiled.array())
    assert K.held
    np.testing.assert_array_equal(K.matvec(v), tiled.matvec(v))


def test_boxes_are_taken_where_they_cost_less():
    X, kernel = sample(3000), Kernel("rbf", gamma=20.0)
    K, tiled = TreeKernel(kernel, X), TiledKernel(kernel, X)
    assert K.boxes is not None and K.work < tiled.work / 10
    v = np.zeros(3000)
    v[7] = 1.0  # a column is a column
    np.testing.assert_array_equal(K.matvec(v), tiled.matvec(v))
    assert K.take(np.arange(100)).held  # small ones are stored
    for hopeless in (TreeKernel(Kernel("rbf", gamma=1e9), X), TreeKernel(kernel, X, memory_limit=2**16)):
        assert hopeless.boxes is None and hopeless.accuracy < 1e-10 and hopeless.work == tiled.work
        np.testing.assert_array_equal(hopeless.matvec(v), TiledKernel(hopeless.kernel, X).matvec(v))


def test_empty_space_costs_nothing():
    X = sample(3000, 3)
    near = TreeKernel(Kernel("rbf", gamma=3.0), X)
    X[:3] = [[1e3, 0, 0], [0, -1e5, 7], [4, 4, 1e7]]
    far = TreeKernel(Kernel("rbf", gamma=3.0), X, tolerance=near.tolerance)
    assert near.boxes is not None and far.boxes is not None and far.work < 10 * near.work
    v = np.random.default_rng(0).standard_normal(3000)
    exact = TiledKernel(far.kernel, X).matvec(v)
    np.testing.assert_allclose(far.matvec(v), exact, rtol=0, atol=2 * far.accuracy * np.abs(v).sum())


def test_points_in_one_place():
    """No extent at all, and half of the points on one spot: many in one box."""
    for X in (np.full((3000, 2), 7.0), np.vstack([np.zeros((1500, 2)), sample(1500)])):
        K = TreeKernel(Kernel("rbf", gamma=10.0), X)
        assert K.boxes is not None and K.accuracy < 1e-9
        v = np.random.default_rng(0).standard_normal(3000)
        exact = TiledKernel(K.kernel, X).matvec(v)
        np.testing.assert_allclose(K.matvec(v), exact, rtol=0, atol=2 * K.accuracy * np.abs(v).sum())


@pytest.mark.parametrize(
    "kernel, d, tolerance, sentence",
    [
        (
            Kernel("wendland"),
            2,
            1e-6,
            r"^TreeKernel needs the rbf kernel and 1 to 3 features, got 'wendland' and 2; .*$",
        ),
        (Kernel("rbf"), 4, 1e-6, r"^TreeKernel needs .* got 'rbf' and 4; .*\.$"),
        (Kernel("rbf"), 2, 0.0, r"^tolerance must be above 0 and at most 0\.1, got 0\.0\.$"),
        (Kernel("rbf"), 2, 0.5, r"^tolerance must be"),
    ],
)
def test_wrong_parameters(kernel, d, tolerance, sentence):
    with pytest.raises(ValueError, match=sentence):
        TreeKernel(kernel, sample(10, d), tolerance)


# --- certificates -----------------------------------------------------------------------------------------------------


def build(rng, kernel, X):
    """Half of them with memory for one row, so that solvers have products only."""
    limit = 16 * len(X) if rng.random() < 0.5 else 2**30
    K = TreeKernel(kernel, X, 10.0 ** rng.uniform(-12, -1), limit)
    assert K.boxes is not None
    return K


def build_broken(rng, kernel, X):
    K = build(rng, kernel, X)
    K.accuracy = 0.0
    return K


@pytest.mark.parametrize("solvers", [False, True], ids=["models", "solvers"])
def test_certificates_hold_for_the_true_kernel(solvers, always_boxes, monkeypatch):
    monkeypatch.setattr(problems, "WORTHWHILE", 1)
    summary = refute(range(50), "rbf", build, solvers=solvers)
    assert not summary.violations, complaint(summary)
    assert summary.problems > 40 and summary.counts["claims"] > 1500
    assert refute(range(5), "rbf", build_broken, solvers=solvers).violations


@pytest.mark.parametrize("solver", [ConjugateGradient(), SMO(), Newton()], ids=lambda solver: solver.name)
def test_solvers_prove_their_answers_on_it(solver):
    """Also where few rows fit into memory and all there is are products."""
    X, kernel = sample(1500, seed=2), Kernel("rbf", gamma=30.0)
    y = np.where(np.sin(9 * X[:, 0]) + np.cos(7 * X[:, 1]) + 0.3 * sample(1500, 1, 3)[:, 0] > 0.4, 1.0, -1.0)
    loss = Hinge() if "smooth" not in solver.needs else SquaredHinge()
    best = solve(KernelProblem(y, np.ones(1500), loss, K=TiledKernel(kernel, X)), Newton(), tol=1e-6).certificate
    for limit in (2**30, 2**21):
        K = TreeKernel(kernel, X, memory_limit=limit, threads=2)
        assert K.boxes is not None
        result = solve(KernelProblem(y, np.ones(1500), loss, K=K), solver, tol=1e-3, max_iter=500)
        assert result.status == "converged" and result.certificate.relative_gap <= 1e-3
        assert result.certificate.dual <= best.primal and best.dual <= result.certificate.primal


# --- the benchmark ----------------------------------------------------------------------------------------------------


def test_the_benchmark_prints_its_ratios(tmp_path):
    records = tmp_path / "sums.jsonl"
    command = [sys.executable, "-m", "benchmarks.sums", "--toy", "--jsonl", str(records)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for what in ("boxes, gamma 10", "CSR, rbf", "CSR, wendland", "conjugate_gradient"):
        assert what in done.stdout
    for record in map(json.loads, records.read_text().splitlines()):
        assert record["ratio"] > 0 if "ratio" in record else record["relative_gap"] <= 1e-3
