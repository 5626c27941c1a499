"""Rough solutions of many small kernel problems: they are starts and nothing else, and the judge decides."""

import threading

import numpy as np
import pytest
import scipy.sparse as sp

from primalsvm import SVC, Hinge, KernelProblem, small_parts, solve, working_sets
from primalsvm.kernel_matrix import TiledKernel
from primalsvm.kernels import Kernel
from primalsvm.losses import Huber, SquaredHinge
from primalsvm.multiclass import split
from primalsvm.solvers import SMO

RBF = Kernel("rbf", 0.3)


def clouds(n=900, classes=3, d=3, dtype=np.float64, seed=0, apart=1.2):
    """Pairs of classes have more samples than those whose matrix is stored."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    return (rng.normal(size=(n, d)) + apart * rng.normal(size=(classes, d))[y]).astype(dtype), y


def cases(y, C=1.0, loss=None, intercept="free", weight=None):
    parts = split(y, np.unique(y), "ovo")
    weight = np.ones(len(y)) if weight is None else weight
    loss = Hinge() if loss is None else loss
    return parts, [{"y": p.y, "cost": C * p.take(weight), "loss": loss, "intercept": intercept} for p in parts]


def starts_of(X, y, tol=1e-3, threads=1, **how):
    K = TiledKernel(RBF, X)
    parts, facts = cases(y, **how)
    found = [tell() for tell in small_parts.find_starts(K, parts, facts, tol, 1000, threads, threading.Event())]
    problems = [KernelProblem(K=K.take(part.rows), **fact) for part, fact in zip(parts, facts, strict=True)]
    return list(zip(problems, found, strict=True))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("intercept", ["free", "none", "penalized"])
@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge(), Huber(0.3)], ids=lambda loss: loss.name)
def test_starts_are_near_the_optimum(loss, intercept, dtype):
    X, y = clouds(dtype=dtype)
    weight = np.random.default_rng(1).integers(0, 4, size=len(y)).astype(float)
    for problem, start in starts_of(X, y, loss=loss, intercept=intercept, weight=weight):
        assert (
            np.all(start.alpha >= 0)
            and np.all(start.alpha <= problem.upper)
            and not start.alpha[problem.cost == 0].any()
        )
        np.testing.assert_array_equal(start.f, problem.y * start.alpha)
        found = solve(problem, SMO(), start=start)
        assert found.status == "converged" and found.iterations == start.steps  # no step more
        assert found.certificate.relative_gap <= 1e-3
        exact = solve(problem, SMO(), tol=1e-8).certificate
        assert exact.dual * (1 - 1e-9) <= found.certificate.primal <= exact.primal / (1 - 1e-3)
        assert 0 < start.passes <= 1.0


@pytest.mark.parametrize("intercept", ["free", "none", "penalized"])
@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge(), Huber(0.3)], ids=lambda loss: loss.name)
def test_those_far_from_the_margin_sit_out_and_are_not_forgotten(loss, intercept):
    """Classes well apart, and few support vectors: after the first round a small part of the samples is left."""
    X, y = clouds(d=2, apart=5.0)
    for problem, start in starts_of(X, y, loss=loss, intercept=intercept, C=10.0, tol=1e-4):
        assert 2 < np.count_nonzero(start.f) < 150 and start.passes < 0.25
        found = solve(problem, SMO(), start=start, tol=1e-4)
        assert found.iterations == start.steps and 1 < start.steps < 10 and found.certificate.relative_gap <= 1e-4


@pytest.mark.parametrize("C", [1e-6, 1e4])
def test_where_the_start_will_not_do_the_solver_goes_on(C):
    X, y = clouds()
    X[1::7] = X[0]  # in all classes
    for problem, start in starts_of(X, y, C=C, tol=1e-4):
        found = solve(problem, SMO(), start=start, tol=1e-4, max_iter=100_000)
        alone = solve(problem, SMO(), tol=1e-4, max_iter=100_000)
        assert found.certificate.relative_gap <= 1e-4 and alone.certificate.relative_gap <= 1e-4
        assert found.certificate.dual <= alone.certificate.primal and alone.certificate.dual <= found.certificate.primal


@pytest.mark.parametrize("spoil", ["wrong", "not numbers"])
def test_a_bad_start_is_found_out(spoil, monkeypatch):
    """Whatever the loops return, what is proven is what the judge saw."""
    X, y = clouds()
    good = SVC(gamma=0.3, tol=1e-3).fit(X, y)
    honest = working_sets.ascend_from_nothing

    def spoilt(*args):
        b, *counts = honest(*args)
        args[-1][:] *= -3.0 if spoil == "wrong" else np.nan
        return b + 7.0, *counts

    monkeypatch.setattr(working_sets, "ascend_from_nothing", spoilt)
    model = SVC(gamma=0.3, tol=1e-3).fit(X, y)
    assert model.status_ == "converged" and max(part.relative_gap for part in model.certificate_.parts) <= 1e-3
    assert model.certificate_.primal == pytest.approx(good.certificate_.primal, rel=2e-3)
    assert model.n_iter_ > good.n_iter_ or spoil != "wrong"


@pytest.mark.parametrize("options", [{}, {"loss": "squared_hinge"}, {"fit_intercept": False}, {"tol": 1e-6}], ids=str)
def test_svc_is_the_same_with_and_without(options, monkeypatch):
    X, y = clouds(classes=4, n=1200)
    ours = SVC(gamma=0.3, **options).fit(X, y)
    monkeypatch.setattr("primalsvm.svc.small_parts", lambda *_: [])
    other = SVC(gamma=0.3, **options).fit(X, y)
    tol = options.get("tol", 1e-3)
    for mine, theirs in zip(ours.certificate_.parts, other.certificate_.parts, strict=True):
        assert max(mine.relative_gap, theirs.relative_gap) <= tol
        assert mine.primal == pytest.approx(theirs.primal, rel=2 * tol)
    assert np.mean(ours.predict(X) == other.predict(X)) >= 0.99


def test_threads_do_not_matter():
    X, y = clouds(classes=4, n=1200)
    one, two = (SVC(gamma=0.3, n_jobs=jobs).fit(X, y) for jobs in (1, 2))
    np.testing.assert_array_equal(one.dual_coef_, two.dual_coef_)
    np.testing.assert_array_equal(one.intercept_, two.intercept_)


def test_limits_and_callbacks():
    X, y = clouds()
    with pytest.warns(match="above tol"):
        model = SVC(gamma=0.3, C=100.0, tol=1e-12, max_iter=1).fit(X, y)
    assert model.n_iter_ == 1 and model.status_ == "max_iter" and 0 < model.certificate_.relative_gap < 1
    seen = []
    SVC(gamma=0.3, callback=seen.append).fit(X, y)
    assert len(seen) >= 3 and all(record.gap <= 1e-3 * record.primal for record in seen)
    stopped = SVC(gamma=0.3, C=100.0, tol=1e-12, callback=lambda record: True).fit(X, y)
    assert stopped.status_ == "stopped"


def test_ctrl_c_keeps_a_model(monkeypatch):
    X, y = clouds()

    def press(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(working_sets, "ascend_from_nothing", press)
    model = SVC(gamma=0.3)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.status_ == "interrupted" and np.isfinite(model.certificate_.primal)
    assert model.predict(X).shape == y.shape


def test_who_is_taken():
    X, y = clouds()
    parts = split(y, np.unique(y), "ovo")
    K = TiledKernel(RBF, X)
    assert small_parts.small_parts(K, parts, 2) == [0, 1, 2]
    few = [parts[0]._replace(rows=parts[0].rows[:300], y=parts[0].y[:300]), *parts[1:]]
    assert small_parts.small_parts(K, few, 2) == [1, 2]  # its matrix is stored
    assert not small_parts.small_parts(K, split(y, np.unique(y), "ovr"), 2)
    assert not small_parts.small_parts(TiledKernel(RBF, X, memory_limit=1e6), parts, 2)  # no room for rows
    assert not small_parts.small_parts(TiledKernel(Kernel("poly", 1.0), X), parts, 2)
    sparse = sp.random_array((900, 200), density=0.01, format="csr", rng=np.random.default_rng(0))
    assert not small_parts.small_parts(TiledKernel(RBF, sparse), parts, 2)
    assert not small_parts.small_parts(TiledKernel(Kernel("rbf", 1e9), X), parts, 2)  # entries need differences
    K.array()
    assert not small_parts.small_parts(K, parts, 2)
    assert not small_parts.small_parts(None, parts, 2)


def test_a_warm_start_is_not_overruled():
    X, y = clouds()
    model = SVC(gamma=0.3, warm_start=True).fit(X, y)
    before = model.dual_coef_.copy()
    model.fit(X, y)
    assert model.n_iter_ == 0
    np.testing.assert_array_equal(model.dual_coef_, before)


def test_ctrl_c_between_two_starts_leaves_nobody_waiting(monkeypatch):
    """It may come after a start has been picked and before anybody knows which."""
    X, y = clouds()
    K, interrupted = TiledKernel(RBF, X), threading.Event()
    parts, facts = cases(y)

    def press(order, default):
        next(order)
        raise KeyboardInterrupt

    monkeypatch.setattr(small_parts, "next", press, raising=False)
    tells = small_parts.find_starts(K, parts, facts, 1e-3, 1000, 1, interrupted)
    with pytest.raises(KeyboardInterrupt):
        tells[0]()
    interrupted.set()
    monkeypatch.delattr(small_parts, "next")
    assert tells[0]() is None
    assert tells[1]() is None and tells[2]() is None


def test_nobody_goes_on_when_the_fit_has_failed(monkeypatch):
    X, y = clouds()
    events, find = [], small_parts.find_starts

    def watched(*args):
        events.append(args[-1])
        return find(*args)

    monkeypatch.setattr("primalsvm.svc.find_starts", watched)

    def fail(record):
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        SVC(gamma=0.3, callback=fail).fit(X, y)
    assert events[0].is_set()


def test_an_error_of_a_thread_reaches_the_caller(monkeypatch):
    X, y = clouds()

    def fail(*_):
        raise MemoryError("full")

    monkeypatch.setattr(working_sets, "ascend_from_nothing", fail)
    with pytest.raises(MemoryError, match="full"):
        SVC(gamma=0.3, n_jobs=2).fit(X, y)
