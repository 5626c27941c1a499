"""SMO in working sets: every loss and intercept, held and tiled, shrinking or not; float32 rows, right answers."""

import os

import numpy as np
import pytest
from problems import INTERCEPTS, LOSSES, MAKERS, make_kernel
from reference import optimum
from sklearn.datasets import make_classification
from sklearn.svm import SVC

import primalsvm
from primalsvm import kernel_matrix as matrices
from primalsvm.kernel_matrix import StoredKernel, TiledKernel
from primalsvm.kernel_rows import RowRing, new_room
from primalsvm.kernels import Kernel
from primalsvm.losses import Hinge, Huber, SquaredHinge
from primalsvm.problem import KernelProblem
from primalsvm.solve import Start, solve
from primalsvm.solvers import smo as module
from primalsvm.solvers.smo import SMO


class Unheld(StoredKernel):
    """A stored matrix that is treated as one that is computed: its rows come through the ring."""

    held = False


def name_of(value):
    return value.name if hasattr(value, "name") else str(value)


@pytest.fixture
def tiled(monkeypatch):
    monkeypatch.setattr(matrices, "SMALL", 0)
    monkeypatch.setattr(module, "FEW", 0)


def blobs(n=900, seed=0, noise=0.8, loss=None, C=1.0, intercept="free", gamma=0.5, **options):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] + noise * rng.standard_normal(n) > 0, 1.0, -1.0)
    K = TiledKernel(Kernel("rbf", gamma=gamma), X, **options)
    return KernelProblem(y, np.full(n, float(C)), loss or Hinge(), intercept, K=K), X


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("loss", LOSSES, ids=name_of)
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("name", MAKERS)
def test_the_exact_optimum_is_found(name, intercept, loss, held, monkeypatch):
    problem = make_kernel(name, loss, intercept)
    solver = SMO()
    if not held:
        monkeypatch.setattr(module, "FEW", 0)
        problem.K.__class__ = Unheld
        solver = SMO(size=8)
    result = solve(problem, solver, tol=1e-8, max_iter=20_000)
    assert result.certificate.relative_gap <= 1e-8, (result.status, result.certificate)
    h = loss.h if isinstance(loss, Huber) else None
    best = optimum(None, problem.y, problem.cost, loss.name, intercept, h=h, K=problem.K.array())
    assert result.certificate.dual <= float(best.value_high) * (1 + 1e-14)
    assert result.certificate.primal >= float(best.value_low) * (1 - 1e-14)


@pytest.mark.parametrize("loss", LOSSES, ids=name_of)
@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_float32_rows_reach_what_float64_can(intercept, loss, tiled):
    problem, _ = blobs(600, loss=loss, intercept=intercept)
    result = solve(problem, SMO(size=128), tol=1e-8, max_iter=5000)
    assert not problem.K.held
    assert result.certificate.relative_gap <= 1e-8, (result.status, result.certificate)


@pytest.mark.parametrize(
    "kernel", [Kernel("rbf", gamma=0.5), Kernel("laplacian"), Kernel("poly", coef0=1.0)], ids=name_of
)
@pytest.mark.parametrize("loss", LOSSES, ids=name_of)
@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_small_problems_keep_the_rows_they_needed(intercept, loss, kernel, monkeypatch):
    """The Gaussian's are made in the compiled loop, others in blocks when that asks for them; few of all either way."""
    monkeypatch.setattr(matrices, "SMALL", 0)
    few, X = blobs(700, noise=0.0, loss=loss, intercept=intercept)
    problem = KernelProblem(few.y, few.cost, loss, intercept, K=TiledKernel(kernel, X))
    result = solve(problem, SMO(), tol=1e-8, max_iter=5000)
    seen = result.certificate  # poly's entries are large, and so is what is allowed for their rounding
    assert seen.gap <= 1e-8 * seen.primal + seen.rounding, (result.status, seen)
    state = SMO().init(problem)
    assert state.kept.features.size > 0 if kernel.name == "rbf" else state.kept.features.size == 0
    for _ in range(5):
        SMO().step(problem, state)
    if loss.name == "hinge":
        assert 0 < state.kept.count < 600
    exact = problem.K.block(np.arange(700), np.arange(700))
    known = np.flatnonzero(state.kept.slot >= 0)
    np.testing.assert_allclose(state.kept.values[state.kept.slot[known]], exact[known], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("noise", [0.0, 0.8])
def test_it_is_libsvms_model(noise, tiled):
    problem, X = blobs(noise=noise, C=10.0)
    result = solve(problem, SMO(), tol=1e-9, max_iter=5000)
    theirs = SVC(C=10.0, gamma=0.5, tol=1e-8).fit(X, problem.y)
    np.testing.assert_allclose(problem.scores(result.f) + result.b, theirs.decision_function(X), atol=1e-4)
    assert np.count_nonzero(result.alpha > 1e-6) == pytest.approx(theirs.n_support_.sum(), abs=2)


@pytest.mark.parametrize("options", [{"shrink": False}, {"size": 64}, {"size": 5000}])
def test_working_sets_and_shrinking_do_not_change_the_answer(options, tiled):
    problem, _ = blobs(C=3.0)
    plain = solve(problem, SMO(), tol=1e-9, max_iter=20_000)
    other = solve(problem, SMO(**options), tol=1e-9, max_iter=20_000)
    assert other.certificate.primal == pytest.approx(plain.certificate.primal, rel=2e-9)
    np.testing.assert_allclose(problem.scores(other.f) + other.b, problem.scores(plain.f) + plain.b, atol=1e-3)


def test_samples_leave_and_come_back(tiled, monkeypatch):
    """Most samples are out of play in the end; and with a rule that throws out too many the answer is still right."""
    problem, _ = blobs(2000, C=3.0, noise=0.2)
    solver, least = SMO(size=128), []
    step = SMO.step

    def watched(self, problem, state):
        step(self, problem, state)
        least.append(len(state.active))

    monkeypatch.setattr(SMO, "step", watched)
    plain = solve(problem, solver, tol=1e-8, max_iter=5000)
    assert min(least) < 1000
    monkeypatch.setattr(module, "NEAR", -0.9)
    monkeypatch.setattr(module, "LOOK_EVERY", 1)
    hasty = solve(problem, solver, tol=1e-8, max_iter=5000)
    assert hasty.certificate.relative_gap <= 1e-8
    assert hasty.certificate.primal == pytest.approx(plain.certificate.primal, rel=2e-8)


@pytest.mark.parametrize("rows", [64, 100, 300])
def test_a_small_ring_of_rows_gives_the_same_model(rows, tiled):
    """Rows are dropped and computed again; also when a working set has more rows than the ring."""
    limit = rows * matrices.TILE * 4 / module.CACHE_SHARE
    results = [solve(blobs(memory_limit=m)[0], SMO(size=256), tol=1e-6, max_iter=500) for m in (limit, 2**30)]
    assert results[0].certificate.primal == pytest.approx(results[1].certificate.primal, rel=2e-6)
    np.testing.assert_allclose(results[0].alpha, results[1].alpha, atol=1e-3)
    assert results[0].history[-1].passes > results[1].history[-1].passes or rows == 300


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_give_the_same_model(threads, tiled):
    results = [solve(blobs(3000, threads=t)[0], SMO(), tol=1e-6, max_iter=500) for t in (1, threads, threads)]
    np.testing.assert_array_equal(results[1].alpha, results[2].alpha)
    assert results[1].certificate.primal == pytest.approx(results[0].certificate.primal, rel=2e-6)


@pytest.mark.parametrize("C", [1e-8, 1e-3, 1e3, 0.5e8])
@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()], ids=name_of)
def test_tiny_and_huge_C(C, loss, tiled):
    """At a huge C the margins are right to eight digits before P is: the best multiple of f is judged."""
    problem, _ = blobs(700, noise=0.0, loss=loss, C=C)
    result = solve(problem, SMO(), tol=1e-6, max_iter=3000)
    assert result.certificate.relative_gap <= 1e-6, (result.status, result.certificate)
    assert result.iterations <= 1500


def test_a_warm_start_is_where_it_starts(tiled):
    problem, _ = blobs()
    first = solve(problem, SMO(), tol=1e-6, max_iter=500)
    again = solve(problem, SMO(), tol=1e-6, max_iter=500, start=Start(first.f, first.b, first.alpha))
    assert again.iterations == 0
    nearby, _ = blobs(C=1.2)
    warm = solve(nearby, SMO(), tol=1e-6, max_iter=500, start=Start(first.f, first.b, 1.2 * first.alpha))
    cold = solve(nearby, SMO(), tol=1e-6, max_iter=500)
    assert warm.history[-1].passes < cold.history[-1].passes
    assert warm.certificate.relative_gap <= 1e-6


@pytest.mark.parametrize("few", [0, 4096])
def test_what_is_judged_is_the_present_model(few, tiled, monkeypatch):
    """Between two refreshes, and after one that offered a multiple: Ctrl-C must not lose the steps since then."""
    monkeypatch.setattr(module, "FEW", few)
    monkeypatch.setattr(module, "OFTEN", 2)
    problem, _ = blobs(3000, C=1e6, noise=0.0)
    solver = SMO(size=64)
    state, multiples = solver.init(problem), 0
    for _ in range(60):
        solver.step(problem, state)
        if state.steps == 0:
            multiples += not np.array_equal(state.f, state.beta)
        else:
            np.testing.assert_array_equal(state.f, problem.y * state.alpha)
    assert multiples > 0


def test_drift_is_corrected_before_it_misleads(tiled, monkeypatch):
    """Float32 products as rough as a percent: no matter, while the scores are computed afresh in time."""
    add = RowRing.add

    def rough(self, rows, weights, scores):
        before = scores.copy()
        computed = add(self, rows, weights, scores)
        scores[:] = before + (scores - before) * (1 + 1e-2 * np.sin(np.arange(len(scores))))
        return computed

    monkeypatch.setattr(RowRing, "add", rough)
    monkeypatch.setattr(module, "ROUGHLY", 1e-2)
    problem, _ = blobs(2000)
    timely = solve(problem, SMO(size=128), tol=1e-6, max_iter=2000)
    assert timely.certificate.relative_gap <= 1e-6
    monkeypatch.setattr(module, "ROUGHLY", 0.0)
    late = solve(problem, SMO(size=128), tol=1e-6, max_iter=timely.iterations)
    assert late.certificate.relative_gap > 1e-6


@pytest.mark.parametrize("few", [0, 4096])
@pytest.mark.parametrize("name", ["rbf", "poly", "linear"])
def test_numbers_beyond_float64_end_with_a_status(name, few, tiled, monkeypatch):
    """No search for a maximum that is nan may leave its array."""
    monkeypatch.setattr(module, "FEW", few)
    X = 1e200 * np.random.default_rng(0).standard_normal((700, 3))
    with np.errstate(all="ignore"):
        problem = KernelProblem(np.sign(X[:, 0]), np.ones(700), Hinge(), "free", K=TiledKernel(Kernel(name), X))
        result = solve(problem, SMO(), tol=1e-3, max_iter=50)
    assert result.status in ("stalled", "diverged", "max_iter")
    assert result.certificate.dual == 0.0


def test_rows_are_kept_only_where_there_is_room(tiled, monkeypatch):
    monkeypatch.setattr(module, "FEW", 4096)
    limit = 8 * 900**2 / module.CACHE_SHARE
    assert SMO().init(blobs(memory_limit=limit)[0]).kept is not None
    small = blobs(memory_limit=limit - 10)[0]
    assert SMO().init(small).kept is None
    assert solve(small, SMO(), tol=1e-6, max_iter=500).certificate.relative_gap <= 1e-6


@pytest.mark.parametrize("gamma", [1e-9, 1e9])
def test_a_flat_and_a_peaked_kernel(gamma, tiled):
    problem, _ = blobs(300, gamma=gamma)
    result = solve(problem, SMO(), tol=1e-6, max_iter=500)
    assert result.certificate.relative_gap <= 1e-6, (result.status, result.certificate)


def test_duplicates_with_opposite_labels(tiled):
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((150, 2)), 3, axis=0)
    y = np.where(rng.random(450) < 0.5, 1.0, -1.0)
    problem = KernelProblem(y, np.full(450, 5.0), Hinge(), "free", K=TiledKernel(Kernel("rbf"), X))
    result = solve(problem, SMO(), tol=1e-8, max_iter=2000)
    assert result.certificate.relative_gap <= 1e-8


def test_samples_without_weight_take_no_part(tiled):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((400, 2)), np.where(rng.random(400) < 0.5, 1.0, -1.0)
    cost = np.where(rng.random(400) < 0.5, 2.0, 0.0)
    K = TiledKernel(Kernel("rbf"), X)
    result = solve(KernelProblem(y, cost, SquaredHinge(), "free", K=K), SMO(), tol=1e-8, max_iter=2000)
    kept = np.flatnonzero(cost)
    fewer = solve(KernelProblem(y[kept], cost[kept], SquaredHinge(), "free", K=K.take(kept)), SMO(), tol=1e-8)
    assert not result.alpha[cost == 0].any()
    assert result.certificate.primal == pytest.approx(fewer.certificate.primal, rel=2e-8)


def test_nobody_is_free_and_rounding_does_not_say_otherwise():
    """At a small C everyone is at a bound, but for rounding; b is then anywhere between those that hold it."""
    settings = {"n_features": 8, "n_informative": 6, "flip_y": 0.1, "class_sep": 0.7, "random_state": 0}
    X, y = make_classification(90, n_classes=3, **settings)
    for left_out in (14, 38, 43):  # those that ended at gaps of 3e-6 to 1e-4
        mine = np.arange(90) != left_out
        model = primalsvm.SVC(C=0.3, gamma=0.02, tol=1e-6).fit(X[mine], y[mine])
        assert model.status_ == "converged" and model.certificate_.relative_gap <= 1e-6


def test_rings_take_the_same_memory_and_few_rows_at_first(tiled, monkeypatch):
    """As long as nobody has left; then all there is room for. The model is the same."""
    monkeypatch.setattr(module, "EARLY_BYTES", 0)
    rings, init = [], RowRing.__init__

    def watched(self, columns, n, capacity, room=None):
        init(self, columns, n, capacity, room)
        rings.append((len(columns.picked), capacity, np.shares_memory(self.values, room)))

    monkeypatch.setattr(RowRing, "__init__", watched)
    results = []
    for early in (2, 1000):
        monkeypatch.setattr(module, "EARLY", early)
        rings.clear()
        results.append(solve(blobs(3000)[0], SMO(size=128), tol=1e-6, max_iter=3000))
        assert rings[0][1] == min(early * 128, 3000)
        assert len(rings) > 1 and all(capacity == 3000 and same for _, capacity, same in rings[1:])
    assert max(result.certificate.relative_gap for result in results) <= 1e-6
    assert results[0].certificate.primal == pytest.approx(results[1].certificate.primal, rel=2e-6)


def test_who_never_leaves_gets_room_in_the_end(tiled, monkeypatch):
    monkeypatch.setattr(module, "EARLY_BYTES", 0)
    monkeypatch.setattr(module, "LATE", 3)
    monkeypatch.setattr(module, "LEAVE", -1.0)
    problem, _ = blobs(1500)
    state = SMO(size=64).init(problem)
    state.tol = 1e-6
    for _ in range(6):
        SMO(size=64).step(problem, state)
    assert not state.early and state.ring is not None and len(state.ring.owner) == 1500


def test_the_memory_of_rings_goes_to_the_next_problem(tiled):
    """And not before the first is done with it."""
    first = blobs(1500)[0]
    whole = first.K
    both = [KernelProblem(first.y, first.cost, Hinge(), "free", K=whole.take(np.arange(1500))) for _ in range(2)]
    states = [SMO().init(problem) for problem in both]
    for problem, state in zip(both, states, strict=True):
        SMO().step(problem, state)
    del state
    assert not np.shares_memory(states[0].room, states[1].room) and not whole.rooms
    left = states.pop().room
    assert whole.rooms[0] is left
    alone = solve(blobs(1500)[0], SMO(), tol=1e-6)
    after = solve(KernelProblem(first.y, first.cost, Hinge(), "free", K=whole.take(np.arange(1500))), SMO(), tol=1e-6)
    np.testing.assert_array_equal(after.alpha, alone.alpha)
    assert any(room is left for room in whole.rooms)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [0, 1, 3000])
def test_memory_for_rows_is_an_array_as_any_other(size, dtype):
    room = new_room(size, np.dtype(dtype))
    room[:] = 1.0
    assert room.shape == (size,) and room.dtype == dtype and room.flags.c_contiguous and room.sum() == size


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_memory_for_rows_is_not_shared_with_a_child():
    room = new_room(10_000, np.dtype(np.float32))
    room[:] = 1.0
    child = os.fork()
    if not child:
        room[:] = 2.0
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert (room == 1.0).all()
