"""The judge's Newton path: what each stage proves, and the linear algebra under it.

A finished stage with width h has a gap of the smoothed problem below a tenth of the smoothing  h S,
S = sum_i c_i a_i (1 - a_i) <= sum_i c_i / 4  with a = alpha / c. The hinge lies below Huber(h) and D_h = D + h S, so

    P(f, b) - D(alpha) <= P_h - D_h + h S <= 1.1 h S <= 1.1 h sum_i c_i / 4

and for the smooth losses, where h = 0, the gap is at the limit of float64: 1e-14 P.
"""

import numpy as np
import pytest
from reference import optimum

from primalsvm import polish as module
from primalsvm.certificate import bound_dual, certificate
from primalsvm.losses import Hinge, Huber, SquaredHinge
from primalsvm.matrix import as_matrix
from primalsvm.polish import conjugate_gradient, newton_direction, polish
from primalsvm.problem import EPS, INTERCEPTS, KernelProblem, LinearProblem

LOSSES = [Hinge(), SquaredHinge(), Huber(0.5)]
SCALING = 2.0

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
every_intercept = pytest.mark.parametrize("intercept", INTERCEPTS)
every_kind = pytest.mark.parametrize("kind", ["linear", "kernel"])
every_way = pytest.mark.parametrize("explicit", [1000, 0], ids=["explicit Hessian", "conjugate gradients"])


def make(seed, loss, intercept, kind="linear", C=1.0, n=10, d=3):
    """(problem, X): a little overlap, both classes, quarters in X, so that K is X X' to the last bit."""
    rng = np.random.default_rng(seed)
    X = np.round(4 * rng.normal(size=(n, d))) / 4
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0.3, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return wrap(X, y, C * rng.uniform(0.5, 1.5, n), loss, intercept, kind), X


def wrap(X, y, cost, loss, intercept, kind):
    stated = (y, cost, loss, intercept, SCALING)
    return LinearProblem(*stated, X=as_matrix(X)) if kind == "linear" else KernelProblem(*stated, K=X @ X.T)


def bad_start(problem, seed=0):
    return 100 * np.random.default_rng(seed).normal(size=problem.size)


def exact_value(problem, X):
    options = {"h": getattr(problem.loss, "h", None), "intercept_scaling": SCALING}
    best = optimum(X, problem.y, problem.cost, problem.loss.name, problem.intercept, **options)
    assert best.exact
    return float(best.value_low)


def rounding(problem, f, b):
    """What the stated errors of scores and norm can do to P, twice over for what D shares with it."""
    margins = np.abs(problem.scores(f) + b)
    error = problem.score_error(f) + 8 * EPS * (1 + margins + abs(b))
    return 4 * (problem.norm_error(f) + float(problem.cost @ ((2 + margins) * error)))


def repair(problem, path):
    """What D can lose when sum alpha_i y_i = 0 is met: the imbalance is moved, at slopes of D up to 1 + |score|."""
    if problem.intercept != "free":
        return 0.0
    return 2 * abs(float(np.sum(path.alpha * problem.y))) * (1 + np.abs(path.scores).max())


# --- what a stage proves ----------------------------------------------------------------------------------------------


@every_way
@every_kind
@every_intercept
@every_loss
def test_every_stage_is_as_good_as_its_width(loss, intercept, kind, explicit, monkeypatch):
    monkeypatch.setattr(module, "EXPLICIT", explicit)
    monkeypatch.setattr(module, "FINISH_POINTS", 0)  # the path alone, without a jump to its end
    problem, X = make(1, loss, intercept, kind)
    best = exact_value(problem, X)
    widths = []
    for path in polish(problem, bad_start(problem)):
        assert ((path.alpha >= 0) & (path.alpha <= problem.upper)).all()
        slack = rounding(problem, path.f, path.b)
        np.testing.assert_allclose(path.scores, problem.scores(path.f), rtol=0, atol=slack / problem.cost.min())
        primal, dual = problem.primal(path.f, path.b), problem.dual(path.alpha)
        assert best - slack <= primal
        if path.stage_done:
            widths.append(path.h)
            most = 1.1 * path.h * problem.cost.sum() / 4 + 1e-14 * primal + slack
            assert primal - dual <= most
            assert dual >= best - most
        elif loss.smooth:  # ended because float64 does: what is left is rounding
            assert primal - dual <= slack
    assert not widths or widths == [0.0] if loss.smooth else (np.diff(widths) < 0).all() and widths[-1] < 1e-6


@every_kind
@every_intercept
@pytest.mark.parametrize("seed", range(3))
def test_bounds_improve_along_the_path(intercept, kind, seed):
    """Also where the path jumps to its end (`finish`): it takes a better point only."""
    problem, X = make(seed, Hinge(), intercept, kind)
    best = exact_value(problem, X)
    bounds = []
    for path in polish(problem, bad_start(problem)):
        bounds.append(bound_dual(problem, path.alpha)[0])
        if path.stage_done:  # the judge balances alpha and takes off its allowance for rounding
            allowance = repair(problem, path) + 4 * rounding(problem, path.f, path.b)
            assert best - bounds[-1] <= 1.1 * path.h * problem.cost.sum() / 4 + allowance
    assert bounds[-1] > bounds[0]
    assert bounds[-1] >= max(bounds) - 4 * rounding(problem, path.f, path.b)  # the last point is the best one


@every_way
@every_kind
@every_intercept
@every_loss
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_the_bound_gets_tight_from_a_bad_start(loss, intercept, kind, explicit, C, monkeypatch):
    monkeypatch.setattr(module, "EXPLICIT", explicit)
    for seed in range(2):
        problem, X = make(seed, loss, intercept, kind, C)
        best = exact_value(problem, X)
        bound = max(bound_dual(problem, path.alpha)[0] for path in polish(problem, bad_start(problem, seed)))
        assert best * (1 - 1e-6) <= bound <= best


@every_kind
@every_intercept
@every_loss
def test_the_certificate_of_a_bad_model_knows_how_bad_it_is(loss, intercept, kind):
    """The bound's own looseness is at most a fiftieth of the gap."""
    problem, X = make(2, loss, intercept, kind)
    best = exact_value(problem, X)
    f = bad_start(problem)
    verdict = certificate(problem, f, 0.0)
    assert verdict.dual <= best <= verdict.reachable <= verdict.primal
    assert best - verdict.dual <= 0.02 * (verdict.primal - verdict.dual)
    assert verdict.primal - verdict.rounding <= problem.primal(f, 0.0) <= verdict.primal


@every_kind
@every_intercept
@every_loss
def test_the_certificate_of_a_good_model_is_tight(loss, intercept, kind):
    """No alpha is given: the judge finds its own, and stops looking at 1e-6."""
    problem, X = make(3, loss, intercept, kind)
    best = exact_value(problem, X)
    *_, path = polish(problem, np.zeros(problem.size))
    verdict = certificate(problem, path.f, path.b)
    assert verdict.relative_gap <= 1.01e-6
    assert verdict.dual <= best <= verdict.primal


# --- problems with nothing to find ------------------------------------------------------------------------------------


@every_kind
@every_intercept
@every_loss
@pytest.mark.parametrize("case", ["no costs", "one class", "zero rows"])
def test_polish_ends_on_degenerate_problems(loss, intercept, kind, case):
    problem, X = make(0, loss, intercept, kind)
    cost = problem.cost * (case != "no costs")
    y = np.ones(problem.n) if case == "one class" else problem.y
    X = X * (case != "zero rows")
    problem = wrap(X, y, cost, loss, intercept, kind)
    best = exact_value(problem, X)
    bound = max(bound_dual(problem, path.alpha)[0] for path in polish(problem, bad_start(problem)))
    assert best * (1 - 1e-6) <= bound <= best


@every_kind
@every_intercept
@pytest.mark.parametrize("seed", range(3))
def test_finish_jumps_to_the_end_of_the_path(intercept, kind, seed):
    """Long before h itself would be small enough: the smoothing alone would leave about h times the costs."""
    problem, _ = make(seed, Hinge(), intercept, kind)
    gaps = []
    for path in polish(problem, bad_start(problem)):
        primal = problem.primal(path.f, path.b)
        if path.h >= 1e-4:
            gaps.append((primal - bound_dual(problem, path.alpha)[0]) / primal)
    assert min(gaps) <= 1e-10


@every_kind
@every_intercept
@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_finish_may_run_out_of_rounds(intercept, kind, rounds, monkeypatch):
    """Then the path goes on without it."""
    monkeypatch.setattr(module, "FINISH_ROUNDS", rounds)
    for seed in range(3):
        problem, X = make(seed, Hinge(), intercept, kind, C=10.0, n=12)
        best = exact_value(problem, X)
        bound = max(bound_dual(problem, path.alpha)[0] for path in polish(problem, bad_start(problem)))
        assert best * (1 - 1e-6) <= bound <= best


# --- the Newton equation ----------------------------------------------------------------------------------------------


@every_way
@every_kind
@every_intercept
@pytest.mark.parametrize("seed", range(3))
def test_newton_direction_solves_the_bordered_system(intercept, kind, explicit, seed, monkeypatch):
    """Against the whole system in (w, b), the intercept not eliminated; the zero says dP/db = 0."""
    monkeypatch.setattr(module, "EXPLICIT", explicit)
    problem, X = make(seed, Huber(0.5), intercept, kind)
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0, 2, problem.n) * (rng.random(problem.n) < 0.6)
    gradient = rng.normal(size=problem.size)
    p, scores, p_b = newton_direction(problem, gradient, weights)

    g = gradient if kind == "linear" else X.T @ gradient  # as a function, in the space of w
    columns = X if intercept == "none" else np.column_stack([X, np.ones(problem.n)])
    system = columns.T @ (weights[:, None] * columns)
    system[:3, :3] += np.eye(3)
    if intercept == "penalized":
        system[3, 3] += SCALING**-2
    solution = -np.linalg.solve(system, g if intercept == "none" else np.append(g, 0.0))

    w = p if kind == "linear" else X.T @ p
    # I + ... is at least the identity: an error of the equation is one of p. Conjugate gradients stop at 1e-3 |g|.
    exact = explicit and kind == "linear"
    tolerance = 1e4 * EPS * np.linalg.norm(system) if exact else 1e-3
    assert np.linalg.norm(w - solution[:3]) <= tolerance * np.linalg.norm(g)
    np.testing.assert_allclose(scores, X @ w, rtol=0, atol=1e3 * EPS * np.abs(X).max() * np.linalg.norm(p, 1) * 10)
    reach = float(weights @ np.linalg.norm(X, axis=1)) / max(float(weights.sum()), EPS)  # |dp_b| <= mean |x| |dp|
    assert p_b == pytest.approx(
        0.0 if intercept == "none" else solution[3], rel=0, abs=tolerance * reach * np.linalg.norm(g)
    )


def test_newton_direction_where_nothing_is_near_the_margin():
    problem, _ = make(0, Huber(0.5), "free")
    gradient = np.array([1.0, -2.0, 3.0])
    p, scores, p_b = newton_direction(problem, gradient, np.zeros(problem.n))
    np.testing.assert_array_equal(p, -gradient)  # the Hessian is the identity
    np.testing.assert_array_equal(scores, problem.scores(-gradient))
    assert p_b == 0.0


# --- conjugate gradients ----------------------------------------------------------------------------------------------


def spectrum(rng, values):
    """A symmetric matrix with these eigenvalues."""
    basis, _ = np.linalg.qr(rng.normal(size=(len(values), len(values))))
    return (basis * values) @ basis.T


class Space:
    """R^n with the inner product <u, v> = u' M v, and an operator that is symmetric and positive in it."""

    def __init__(self, seed, eigenvalues):
        rng = np.random.default_rng(seed)
        n = len(eigenvalues)
        self.metric = spectrum(rng, 10.0 ** rng.uniform(-1, 1, n))
        root = np.linalg.cholesky(self.metric).T  # <u, v> = (root u)' (root v)
        self.matrix = np.linalg.solve(root, spectrum(rng, np.asarray(eigenvalues)) @ root)
        self.rhs = rng.normal(size=n)
        self.applied = 0

    def apply(self, v):
        self.applied += 1
        return self.matrix @ v

    def inner(self, u, v):
        return float(u @ self.metric @ v)

    def norm(self, u):
        return np.sqrt(self.inner(u, u))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("tol", [1e-2, 1e-3, 1e-8])
def test_conjugate_gradient_leaves_the_residual_it_was_told(seed, tol):
    space = Space(seed, np.linspace(1, 50, 12))
    x = conjugate_gradient(space.apply, space.rhs, space.inner, tol=tol)
    # the residual it carries along and the true one part by rounding only
    assert space.norm(space.matrix @ x - space.rhs) <= tol * space.norm(space.rhs) * (1 + 1e-4)


@pytest.mark.parametrize("distinct", [1, 2, 4])
def test_conjugate_gradient_takes_as_many_steps_as_there_are_eigenvalues(distinct):
    """True only if it uses the space's own inner product."""
    space = Space(0, np.repeat(np.arange(1.0, distinct + 1), 3))
    x = conjugate_gradient(space.apply, space.rhs, space.inner, tol=1e-10)
    assert space.applied == distinct
    assert space.norm(space.matrix @ x - space.rhs) <= 2e-10 * space.norm(space.rhs)


def test_conjugate_gradient_does_nothing_for_nothing():
    space = Space(0, np.arange(1.0, 6.0))
    np.testing.assert_array_equal(conjugate_gradient(space.apply, np.zeros(5), space.inner), np.zeros(5))
    assert space.applied == 0


def test_conjugate_gradient_stops_when_its_steps_are_spent():
    space = Space(0, np.linspace(1, 1000, 30))
    conjugate_gradient(space.apply, space.rhs, space.inner, tol=1e-12, steps=7)
    assert space.applied == 7
