"""Hyperpass by the identities of its paper: Do and Artieres (2008); the small program and the balls it stands on."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from problems import LOSSES, make
from scipy.optimize import minimize

from primalsvm import cpu_kernels, simplex_qp
from primalsvm.balls import Balls
from primalsvm.certificate import certificate
from primalsvm.losses import Hinge, Huber
from primalsvm.matrix import as_matrix
from primalsvm.problem import LinearProblem
from primalsvm.solve import solve
from primalsvm.solvers import CuttingPlane, Hyperpass
from primalsvm.solvers.hyperpass import _unit

INTERCEPTS = ("none", "penalized")


def crowd(n=3000, d=8, lam=1e-3, loss=None, intercept="none", seed=0):
    """Two overlapping clouds, with equal rows, an empty one and unequal costs: large enough for shrinking to matter."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X[n // 2 :: 7] = X[: len(X[n // 2 :: 7])]
    X[5] = 0.0
    y = np.where(X @ rng.standard_normal(d) + rng.standard_normal(n) > 0, 1.0, -1.0)
    cost = rng.choice([1.0, 2.0], n) / (lam * n)
    return LinearProblem(y=y, cost=cost, loss=loss or Hinge(), intercept=intercept, X=as_matrix(X))


def whole(problem, z):
    """P at a point that has the intercept's entry at its end."""
    return problem.primal(z[:-1], _unit(problem) * z[-1])


def plane(problem, alpha, points):
    """1/2 |z|^2 and the plane of alpha, at each point."""
    f = np.append(problem.function(alpha), _unit(problem) * np.sum(alpha * problem.y))
    return [0.5 * z @ z + problem.dual_gain(alpha) - f @ z for z in points]


def third(problem, state, points):
    """g3: the tangent at z, and the near samples' own losses."""
    bounds = plane(problem, state.here.alpha, points)
    out = []
    for bound, z in zip(bounds, points, strict=True):
        margins = problem.margins(problem.scores(z[:-1]), _unit(problem) * z[-1])[state.near]
        out.append(bound + problem.cost[state.near] @ problem.loss.value(margins))
    return out


def walk(problem, solver, steps):
    state = solver.init(problem)
    for t in range(steps):
        yield t, state
        solver.step(problem, state)


SETTINGS = [
    Hyperpass(start_passes=0, near=0, shrink="none"),
    Hyperpass(start_passes=2, near=5, shrink="one"),
    Hyperpass(start_passes=2, near=5),
]


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("solver", SETTINGS, ids=lambda s: f"{s.shrink}-{s.near}")
@pytest.mark.parametrize("loss", [Hinge(), Huber(0.3)], ids=lambda loss: loss.name)
def test_the_three_bounds_lie_below_the_primal(loss, solver, intercept):
    """At random points, near and far; the tangents touch P where they are made, g2 the last g at its minimum."""
    problem, rng = crowd(800, loss=loss, intercept=intercept), np.random.default_rng(1)
    for t, state in walk(problem, solver, 25):
        spread = np.linalg.norm(state.z - state.low) + 1e-3
        points = [state.z, state.low] + [state.z + spread * s * rng.standard_normal(9) for s in (1e-3, 0.1, 1.0, 10.0)]
        if intercept == "none":
            points = [np.append(z[:-1], 0.0) for z in points]
        values = np.array([whole(problem, z) for z in points])
        slack = 1e-11 * np.abs(values)
        for alpha in (state.there.alpha, state.alpha):
            assert (alpha >= 0).all() and (alpha <= problem.upper * (1 + 1e-12)).all()
            assert (plane(problem, alpha, points) <= values + slack).all(), t
        bound = third(problem, state, points)
        assert (bound <= values + slack).all()
        assert bound[0] == pytest.approx(values[0], rel=1e-11)  # g3 touches P at z
        if solver.shrink == "none":
            assert plane(problem, state.there.alpha, points)[1] == pytest.approx(values[1], rel=1e-11)  # g1 at low
        assert plane(problem, state.there.alpha, [state.low])[0] >= values[0] - slack[0]  # what Theorem 3 needs of g1
        assert plane(problem, state.alpha, [state.low])[0] >= state.value - slack[0]
        np.testing.assert_allclose(state.low[:-1], problem.function(state.alpha), atol=1e-9)


@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_the_third_bound_is_the_primal_around_z(intercept):
    """Not only at z, as a tangent would be: also on the other side of the hyperplanes through z."""
    problem, rng = crowd(300, intercept=intercept), np.random.default_rng(2)
    for t, state in walk(problem, Hyperpass(start_passes=0, near=0), 12):
        away = np.abs(problem.margins(problem.scores(state.z[:-1]), _unit(problem) * state.z[-1]) - 1.0)
        others = np.setdiff1d(np.arange(problem.n), state.near)
        radius = 0.9 * np.min(away[others] / np.maximum(state.norms[others], 1e-12))
        directions = rng.standard_normal((20, len(state.z)))
        directions[:, -1] *= intercept == "penalized"
        points = [state.z + radius * v / np.linalg.norm(v) for v in directions]
        np.testing.assert_allclose(third(problem, state, points), [whole(problem, z) for z in points], rtol=1e-12)
        assert t < 2 or len(state.near)


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("solver", SETTINGS, ids=lambda s: f"{s.shrink}-{s.near}")
@pytest.mark.parametrize("loss", [Hinge(), Huber(0.3)], ids=lambda loss: loss.name)
def test_bounds_are_monotone_and_what_the_certificate_proves(loss, solver, intercept):
    problem = crowd(800, loss=loss, intercept=intercept)
    value, primal = -np.inf, np.inf
    for _, state in walk(problem, solver, 30):
        now = problem.primal(state.f, state.b)
        assert state.value >= value - 1e-12 * now
        assert now <= primal * (1 + 1e-13)
        value, primal = state.value, now
        seen = certificate(problem, state.f, state.b, state.alpha, tol=1.0, deep=False)
        dual = problem.dual(state.alpha)
        assert seen.primal == pytest.approx(now, rel=1e-10)
        if loss.smooth:  # mixing planes only bounds r of the mixed slopes from below
            assert dual >= value - 1e-11 * now
        else:
            assert dual == pytest.approx(value, abs=1e-11 * now)
            assert seen.gap == pytest.approx(now - value, abs=1e-10 * now) or seen.dual > value  # the best multiple


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("solver", SETTINGS, ids=lambda s: f"{s.shrink}-{s.near}")
@pytest.mark.parametrize("loss", [Hinge(), Huber(0.3)], ids=lambda loss: loss.name)
def test_the_line_search_is_exact(loss, solver, intercept):
    """Against all breakpoints, one by one, with the losses of all samples."""
    problem = crowd(400, loss=loss, intercept=intercept)
    state = solver.init(problem)
    for _ in range(25):
        before = state.z
        solver.step(problem, state)
        direction = state.low - before

        def margins(t, before=before, direction=direction):
            z = before + t * direction
            return problem.margins(problem.scores(z[:-1]), _unit(problem) * z[-1])

        start, change = margins(0.0), margins(1.0) - margins(0.0)
        moving = np.abs(change) > 1e-12
        breaks = np.concatenate([(place - start[moving]) / change[moving] for place, _, _ in loss.kinks])
        breaks = np.unique(np.append(breaks[(breaks > 0) & (breaks < 10)], [0.0, 10.0]))
        best = np.inf
        for left, right in pairwise(breaks):  # P is a parabola between two breaks
            ends = [whole(problem, before + t * direction) for t in (left, (left + right) / 2, right)]
            bend = 2 * (ends[0] - 2 * ends[1] + ends[2])
            slope = 4 * ends[1] - 3 * ends[0] - ends[2]
            t = np.clip(-slope / (2 * bend), 0.0, 1.0) if bend > 0 else 0.0
            best = min(best, ends[0], ends[2], whole(problem, before + (left + t * (right - left)) * direction))
        assert whole(problem, state.z) == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("near", [0, 5])
@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_shrinking_changes_what_is_looked_at_and_not_the_answer(intercept, near):
    problem = crowd(intercept=intercept, lam=1e-2)
    runs = {shrink: Hyperpass(start_passes=0, near=near, shrink=shrink) for shrink in ("none", "one", "several")}
    states = {shrink: solver.init(problem) for shrink, solver in runs.items()}
    same = dict.fromkeys(runs, 0)
    for t in range(150):
        for shrink, solver in runs.items():
            solver.step(problem, states[shrink])
            if same[shrink] == t and np.allclose(states[shrink].z, states["none"].z, rtol=0, atol=1e-9):
                same[shrink] = t + 1
        aside = np.concatenate([centre.samples for centre in states["several"].balls.centres] or [[]]).astype(int)
        assert len(np.intersect1d(aside, states["several"].active)) == 0
        assert len(aside) + len(states["several"].active) == problem.n
    # until g1, the tangent of what is left of the losses, first has a multiplier of its own
    assert min(same.values()) >= 3
    values = [problem.primal(state.f, state.b) for state in states.values()]
    assert values == pytest.approx([values[0]] * 3, rel=1e-4)
    assert states["several"].dots < 0.5 * states["none"].dots
    assert states["several"].dots < states["one"].dots < states["none"].dots


@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_samples_put_aside_have_the_slopes_they_are_taken_to_have(intercept):
    """The heart of shrinking's exactness: nobody crosses his hyperplane unseen."""
    problem, solver, most = crowd(intercept=intercept, lam=1e-2), Hyperpass(start_passes=1, near=5), 0
    for _, state in walk(problem, solver, 120):
        margins = problem.margins(problem.scores(state.f), state.b)
        wrong = state.here.alpha != -problem.cost * problem.loss.slope(margins)
        wrong[state.near] = False
        assert not wrong[np.abs(margins - 1.0) > 1e-9].any()
        np.testing.assert_allclose(state.margins[state.active], margins[state.active], atol=1e-9)
        most = max(most, problem.n - len(state.active))
    assert most > 0.8 * problem.n


@pytest.mark.parametrize("solver", [*SETTINGS, Hyperpass(start_passes=3)], ids=lambda s: f"{s.shrink}-{s.near}")
def test_every_product_is_counted(monkeypatch, solver):
    """An independent count: in the kernels, in Pegasos' passes and in the products with all of X."""
    problem, counted = crowd(intercept="penalized"), [0]

    def counting(name, number):
        plain = getattr(cpu_kernels, name)

        def kernel(*arguments):
            result = plain(*arguments)
            counted[0] += number(arguments, result)
            return result

        monkeypatch.setattr(cpu_kernels, name, kernel)

    counting("products_of", lambda _, result: result)
    counting("pegasos_pass", lambda _, __: problem.n)
    matvec = problem.X.matvec

    def counted_matvec(w, picked=None):
        counted[0] += problem.n if picked is None else len(picked)
        return matvec(w, picked)

    monkeypatch.setattr(problem.X, "matvec", counted_matvec)
    for _, state in walk(problem, solver, 40):
        assert state.passes * problem.n == pytest.approx(counted[0], rel=1e-12)


def test_products_of_fills_what_is_missing_and_counts_it():
    problem = make("overlapping", Hinge(), "none", "csr")
    X = problem.X.csr.toarray()
    index = np.array([3, 1, 7])
    out = X[index] @ X[index].T
    known = out.copy()
    out[0, 2] = out[2, 0] = out[1, 1] = np.nan
    row = np.zeros(problem.size)
    assert cpu_kernels.products_of(problem.rows, index, row, out) == 2
    np.testing.assert_allclose(out, known, rtol=1e-14)
    assert not row.any()


@pytest.mark.parametrize("near", [0, 5])
@pytest.mark.parametrize("shrink", ["none", "several"])
def test_theorem_3_bounds_the_number_of_steps(shrink, near):
    """In the paper's units: lambda = 1 / sum c, P / sum c, G the largest norm of a subgradient of the losses."""
    problem = crowd(500, 4, lam=0.1)
    total = float(np.sum(problem.cost))
    G2 = (float(problem.cost @ problem.norms) / total) ** 2
    lam = 1.0 / total
    for t, state in walk(problem, Hyperpass(start_passes=0, near=near, shrink=shrink), 60):
        gap = (problem.primal(state.f, state.b) - state.value) / total
        if t and gap < 1:
            before = np.log2(max(lam / (4 * G2), 1.0))
            assert t <= np.ceil(before + 8 * G2 / (lam * gap) - 8 * G2 / lam) + 1
    assert gap < 1e-2


def test_more_near_samples_need_fewer_steps_and_equal_rows_count_as_one():
    def steps_to(problem, near, tol=1e-4):
        result = solve(problem, Hyperpass(start_passes=0, near=near), tol=tol, max_iter=1000, certify_every=1)
        return next(record.iteration for record in result.history if record.gap <= tol * record.primal)

    problem = crowd(lam=1e-3)
    few, many = (steps_to(problem, near) for near in (8, 0))
    assert few < 0.8 * many
    X = np.vstack([problem.X.values] * 3)
    tripled = replace(problem, X=as_matrix(X), y=np.tile(problem.y, 3), cost=np.tile(problem.cost / 3, 3))
    assert steps_to(tripled, 8) <= 1.5 * few
    for _, state in walk(tripled, Hyperpass(start_passes=0, near=8), 5):
        assert len(state.near) >= 3 * 8  # all three of each


def test_a_free_intercept_and_bad_parameters_are_refused_with_a_sentence():
    with pytest.raises(ValueError, match=r"hyperpass needs a penalised intercept or none; .*Solvers that accept it: "):
        solve(make("overlapping", Hinge(), "free"), Hyperpass())
    with pytest.raises(ValueError, match="shrink must be one of none, one, several"):
        Hyperpass(shrink="two")
    for bad in ({"start_passes": -1}, {"near": -1}):
        with pytest.raises(ValueError, match=">= 0"):
            Hyperpass(**bad)


# the parts ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("pivots", [0, simplex_qp.PIVOTS])
def test_the_small_program_is_solved_exactly(monkeypatch, pivots):
    """Against a general method, singular matrices and bad guesses included; with block pivoting and without."""
    monkeypatch.setattr(simplex_qp, "PIVOTS", pivots)
    rng = np.random.default_rng(0)
    for _ in range(60):
        p, k, d = rng.integers(1, 5), rng.integers(0, 9), rng.integers(1, 12)
        A = rng.standard_normal((d, p + k)) * np.repeat([3.0, 1.0], [p, k])
        H, q = A.T @ A, np.concatenate([5 * rng.random(p), rng.choice([0.1, 1.0, 3.0]) * rng.standard_normal(k)])
        start = np.eye(p + k)[min(1, p - 1)]
        guess = np.concatenate([np.where(start[:p] > 0, 2, 0), rng.integers(0, 3, k)])
        guess[p - 1] = simplex_qp.FREE
        x, status = simplex_qp.maximize(H, q, p, start, guess)
        assert (x >= 0).all() and x[:p].sum() <= 1 + 1e-12 and (x[p:] <= x[p - 1] + 1e-15).all()
        assert (x[status == simplex_qp.HELD] == 0).all()
        limits = [lambda x, p=p: 1 - x[:p].sum(), lambda x: x, lambda x, p=p: x[p - 1] - x[p:]]
        other = minimize(
            lambda x, H=H, q=q: 0.5 * x @ H @ x - q @ x,
            start,
            jac=lambda x, H=H, q=q: H @ x - q,
            constraints=[{"type": "ineq", "fun": limit} for limit in limits[: 3 if k else 2]],
            method="SLSQP",
            options={"maxiter": 1000, "ftol": 1e-14},
        )
        assert q @ x - 0.5 * x @ H @ x >= -other.fun - 1e-7


def test_balls_bring_back_exactly_those_within_reach():
    rng = np.random.default_rng(0)
    normals, offsets = rng.standard_normal((200, 3)), rng.standard_normal(200)
    lengths = np.linalg.norm(normals, axis=1)
    balls, point, seen = Balls(2), np.zeros(3), np.zeros(200, dtype=int)
    balls.put_aside(point, np.arange(100), np.abs(normals[:100] @ point - offsets[:100]) / lengths[:100])
    second = rng.standard_normal(3)
    balls.put_aside(second, np.arange(100, 200), np.abs(normals[100:] @ second - offsets[100:]) / lengths[100:])
    assert balls.smallest == 100
    side = np.sign(np.concatenate([normals[:100] @ point, normals[100:] @ second]) - offsets)
    for _ in range(50):
        point = point + 0.05 * rng.standard_normal(3)
        back = balls.reached(point)
        seen[back] += 1
        crossed = np.sign(normals @ point - offsets) != side
        assert seen[crossed].all()
    assert (seen <= 1).all() and 0 < seen.sum() < 200
    left = sum(len(centre.samples) for centre in balls.centres)
    assert seen.sum() + left == 200
    assert len(balls.dissolve()) + sum(len(centre.samples) for centre in balls.centres) == left


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("intercept", ["none", "penalized", "free"])
def test_cutting_planes_touch_and_stay_below(intercept, loss):
    """min over b of P against the bound, at random points; the dual point is feasible and proves the minimum."""
    problem, rng = make("duplicated", loss, intercept), np.random.default_rng(3)
    solver = CuttingPlane()
    state, value = solver.init(problem), -np.inf
    for _ in range(25):
        solver.step(problem, state)
        bound = state.offset @ state.gamma - 0.5 * state.gamma @ state.inner @ state.gamma
        scale = problem.primal(state.f, problem.best_intercept(problem.scores(state.f)))
        assert bound >= value - 1e-12 * scale
        value = bound
        assert problem.dual(state.alpha) >= value - 1e-10 * scale
        if intercept == "free":
            assert abs(np.sum(state.alpha * problem.y)) <= 1e-9 * scale
        np.testing.assert_allclose(state.f, problem.function(state.alpha), atol=1e-8 * scale)
        for w in state.f + rng.standard_normal((5, problem.size)):
            b = problem.best_intercept(problem.scores(w))
            planes = [q - p.f @ w for q, p in zip(state.offset, state.planes, strict=True)]
            if intercept == "penalized":
                planes = [v - p.b * b for v, p in zip(planes, state.planes, strict=True)]
            bound_there = 0.5 * w @ w + problem.penalty(b) + max(0.0, *planes)
            assert bound_there <= problem.primal(w, b) * (1 + 1e-12)


def test_cutting_planes_drop_what_is_of_no_use():
    problem, solver = crowd(300, 5, lam=1e-4), CuttingPlane()
    state = solver.init(problem)
    for _ in range(300):
        solver.step(problem, state)
    assert len(state.planes) < 150
    assert problem.primal(state.f, 0.0) - problem.dual(state.alpha) <= 1e-6 * problem.primal(state.f, 0.0)
