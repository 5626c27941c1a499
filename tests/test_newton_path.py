"""The Newton path: what each stage proves, and the linear algebra under it.

By weak duality and its own account of the gap,

    P(f, b) - D(alpha) = newton + lack,   newton = 1/2 |f - f_alpha|^2,  lack = sum_i c_i (l(m_i) + a_i m_i - r(a_i))

and a stage ends when `newton` is at most SETTLED of `lack`, or what `tol` asks for.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from reference import optimum

from primalsvm import newton_path as module
from primalsvm import problem as problem_module
from primalsvm.certificate import bound_dual, certificate
from primalsvm.cpu_kernels import proximal_shares
from primalsvm.losses import Hinge, Huber, SquaredHinge
from primalsvm.matrix import as_matrix
from primalsvm.newton_path import (
    Curved,
    Play,
    advance,
    begin_path,
    conjugate_gradient,
    newton_direction,
    polish,
)
from primalsvm.problem import EPS, INTERCEPTS, KernelProblem, LinearProblem
from primalsvm.solve import Start, solve
from primalsvm.solvers import Newton, newton

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


# --- what a stage proves ----------------------------------------------------------------------------------------------


def true_gap(problem, path):
    """P - D; a free intercept's leftover balance is charged at D's slope, b, and with what a step in b would gain."""
    gap = problem.primal(path.f, path.b) - problem.dual(path.alpha)
    if problem.intercept == "free":
        inside = float(np.sum(problem.cost[(path.alpha > 0) & (path.alpha < problem.upper)]))
        width = problem.loss.bend + 2 * path.h
        gap += path.b * path.balance + (0.5 * path.balance**2 * width / inside if inside else 0.0)
    return gap


@every_way
@every_kind
@every_intercept
@every_loss
def test_a_stage_knows_its_gap(loss, intercept, kind, explicit, monkeypatch):
    monkeypatch.setattr(module, "EXPLICIT", explicit)
    monkeypatch.setattr(module, "EXPLICIT_DENSE", explicit)
    problem, X = make(1, loss, intercept, kind)
    best = exact_value(problem, X)
    for path in polish(problem, bad_start(problem)):
        assert ((path.alpha >= 0) & (path.alpha <= problem.upper)).all()
        slack = 8 * rounding(problem, path.f, path.b) + 1e-13 * path.primal
        np.testing.assert_allclose(path.primal, problem.primal(path.f, path.b), rtol=0, atol=slack)
        assert path.gap == pytest.approx(true_gap(problem, path), rel=1e-6, abs=slack)
        assert best - slack <= path.primal
    assert path.ended
    assert path.gap <= 1e-9 * best
    assert loss.smooth == (path.h == 0.0)


@pytest.mark.parametrize(
    "store, loss, n, width, expected",
    [
        (np.asarray, Hinge(), 2, 1000, True),
        (np.asarray, Hinge(), 7500, 1001, False),
        (np.asarray, SquaredHinge(), 7500, 2500, True),
        (np.asarray, SquaredHinge(), 7499, 2500, False),  # by the samples, which may be few
        (np.asarray, SquaredHinge(), 9000, 2501, False),
        (sp.csr_array, SquaredHinge(), 7500, 1001, False),
    ],
)
def test_where_the_hessian_is_a_matrix(store, loss, n, width, expected):
    X = store(np.zeros((n, width), dtype=np.float32))
    problem = LinearProblem(np.ones(n), np.ones(n), loss, X=as_matrix(X))
    assert module.is_explicit(problem) == expected


@every_kind
@every_intercept
@pytest.mark.parametrize("seed", range(3))
def test_bounds_improve_along_the_path(intercept, kind, seed):
    problem, X = make(seed, Hinge(), intercept, kind)
    best = exact_value(problem, X)
    bounds = [bound_dual(problem, path.alpha)[0] for path in polish(problem, bad_start(problem))]
    assert bounds[-1] > bounds[0]
    assert best * (1 - 1e-9) <= max(bounds) <= best


def large(loss, intercept, n=6000, d=8, seed=0):
    """Big enough for samples to be left out and for a start from a part; with weights of zero and repeated rows."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X[1::7] = X[0]
    y = np.where(X @ rng.standard_normal(d) + rng.standard_normal(n) > 0.2, 1.0, -1.0)
    cost = rng.uniform(0.5, 1.5, n) * (rng.random(n) < 0.95)
    return LinearProblem(y, cost, loss, intercept, SCALING, X=as_matrix(X))


@every_way
@every_intercept
@every_loss
def test_samples_are_left_out_and_brought_back(loss, intercept, explicit, monkeypatch):
    """While some are out, the account is that of the whole problem, as far as those keep still."""
    monkeypatch.setattr(module, "EXPLICIT", explicit)
    monkeypatch.setattr(module, "EXPLICIT_DENSE", explicit)
    problem = large(loss, intercept)
    path = begin_path(problem)
    path.tol = 1e-10
    out = 0
    while not path.ended and path.belief > 1e-10:
        advance(problem, path)
        if path.play.picked is None:
            assert path.gap == pytest.approx(true_gap(problem, path), rel=1e-5, abs=1e-9 * path.primal)
        else:
            out = max(out, problem.n - len(path.play.picked))
            curved = np.flatnonzero(path.curved.mask)
            assert np.isin(curved, path.play.picked).all()
            np.testing.assert_allclose(path.f_alpha, problem.function(path.alpha), rtol=0, atol=1e-8)
    assert certificate(problem, path.f, path.b, path.alpha, deep=False).relative_gap <= 1e-9
    if not loss.smooth:
        assert out > problem.n / 2


@every_intercept
def test_hope_is_offered_and_given_up_when_it_was_in_vain(intercept):
    """A gap small enough while some are out of play is believed once; whoever asks for more brings all of them back."""
    problem = large(Hinge(), intercept)
    path = begin_path(problem)
    path.tol, offered = 1e-6, 0
    while not path.ended and offered < 3:
        advance(problem, path)
        if path.hopeful:
            offered += 1
            assert path.play.picked is not None and path.belief <= path.tol
            gap, seen = true_gap(problem, path), path.seen
            assert gap / path.primal == pytest.approx(path.belief, rel=0.1)  # they have kept still
            path.tol *= 0.1
            advance(problem, path)
            assert path.seen <= 1.1 * gap < seen  # the gap when all were in play the last time
    assert offered


@every_loss
@pytest.mark.parametrize("h", [0.0, 0.3])
def test_what_is_known_of_a_step_need_not_be_summed_up(loss, h):
    """Samples that stay inside their box change by what the Newton equation has multiplied with already."""
    if not (loss.smooth or h):
        return
    rng, n, t = np.random.default_rng(5), 2000, 0.7
    margins, along, cost = rng.normal(1.0, 1.0, n), rng.normal(0.0, 0.2, n), rng.uniform(0.0, 2.0, n)
    y, width = np.where(rng.random(n) < 0.5, 1.0, -1.0), loss.bend + 2 * h
    centre = rng.uniform(0.0, 1.0, n)
    share = np.clip((loss.tilt + 2 * h * centre - margins) / width, 0.0, loss.bound)
    found = {}
    for known in (False, True):
        moved_to, new, change = np.empty((3, n))
        smoothed = cost, centre, h, loss.tilt, loss.bend, loss.bound
        sums = proximal_shares(margins, along, t, known, *smoothed, share, y, moved_to, new, change)
        assert sums[5] == np.count_nonzero(change)
        found[known] = change, sums[:5]
    whole, rest = found[False][0], found[True][0]
    was, now = ((a > 0) & (a < loss.bound) for a in (share, new))
    linear = np.where(was, -t * along * cost * y / width, 0.0)
    np.testing.assert_allclose(whole, linear + rest, rtol=0, atol=1e-14)
    assert not rest[was & now].any() and rest[was != now].any()
    assert 3 * np.count_nonzero(rest) < np.count_nonzero(whole)
    np.testing.assert_array_equal(found[False][1], found[True][1])


@every_intercept
def test_the_matrix_is_that_of_the_curved_samples(intercept):
    """It is never made anew, only changed, and must not drift."""
    problem = large(Hinge(), intercept)
    path = begin_path(problem)
    for _ in range(25):
        advance(problem, path)
    path.curved.update(problem, path.play)
    inside = np.flatnonzero((path.alpha > 0) & (path.alpha < problem.upper))
    np.testing.assert_array_equal(np.flatnonzero(path.curved.mask & (problem.cost > 0)), inside)
    X, cost = problem.X.toarray()[inside], problem.cost[inside]
    exact = np.tril(X.T @ (cost[:, None] * X))
    np.testing.assert_allclose(np.tril(path.curved.gram), exact, rtol=0, atol=1e-9 * cost.sum())
    assert path.curved.total == pytest.approx(cost.sum(), rel=1e-9)
    if intercept != "none":
        np.testing.assert_allclose(path.curved.pull, X.T @ cost, rtol=0, atol=1e-9 * cost.sum())


@every_loss
def test_a_large_problem_starts_from_a_sample(loss):
    problem = large(loss, "none", n=20000)
    from_sample, from_zero = begin_path(problem), begin_path(problem, np.zeros(problem.size))
    assert from_sample.primal < 0.5 * (from_zero.primal + certificate(problem, from_sample.f, 0.0).dual)
    assert from_sample.passes < 8


def test_a_good_alpha_is_a_good_start():
    problem = large(Hinge(), "none")
    first = begin_path(problem)
    first.tol = 1e-8
    steps = 0
    while first.belief > 1e-8:
        advance(problem, first)
        steps += 1
    again = begin_path(problem, first.f, first.b, first.alpha)
    again.tol = 1e-8
    assert again.h < 0.01
    for _ in range(steps // 3):
        advance(problem, again)
    assert again.belief <= 1e-7


@every_way
@every_kind
@every_intercept
@every_loss
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_the_bound_gets_tight_from_a_bad_start(loss, intercept, kind, explicit, C, monkeypatch):
    monkeypatch.setattr(module, "EXPLICIT", explicit)
    monkeypatch.setattr(module, "EXPLICIT_DENSE", explicit)
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


@pytest.mark.parametrize(
    "seed, loss, intercept",
    [(4, SquaredHinge(), "penalized"), (26, Huber(0.5), "penalized"), (52, Huber(0.5), "penalized")],
    ids=str,
)
def test_a_smooth_path_ends_where_rounding_stops_it(seed, loss, intercept):
    """With f_alpha from products: summing it up anew must not take back that a stage is done."""
    problem, _ = make(seed, loss, intercept, "kernel", C=1e3)
    path = begin_path(problem, np.zeros(problem.size))
    for _ in range(1000):
        advance(problem, path)
        if path.ended:
            return
    pytest.fail("a thousand steps on ten samples, and no end")


# --- the Newton equation ----------------------------------------------------------------------------------------------


def curved_of(problem, chosen, explicit, hard=False):
    """The curved samples as the path keeps them: those chosen have a share inside the box."""
    gram = np.zeros((problem.size, problem.size)) if explicit and problem.kind == "linear" else None
    diagonal = np.zeros(problem.size) if gram is None and problem.kind == "linear" else None
    curved = Curved(np.zeros(problem.n, dtype=bool), gram, np.zeros(problem.size), diagonal, hard=hard)
    share = np.where(chosen, 0.5, 0.0)
    curved.update(problem, Play(None, problem.y, problem.cost, share, share, share))
    return curved


WAYS = {"explicit Hessian": (True, False), "conjugate gradients": (False, False), "Woodbury": (False, True)}


@pytest.mark.parametrize("way", WAYS)
@every_kind
@every_intercept
@pytest.mark.parametrize("seed", range(3))
def test_newton_direction_solves_the_bordered_system(intercept, kind, way, seed):
    """Against the whole system in (w, b), the intercept not eliminated."""
    explicit, hard = WAYS[way]
    n, d = (10, 3) if way != "Woodbury" else (7, 12)  # that one is for fewer samples than features
    problem, X = make(seed, Huber(0.5), intercept, kind, n=n, d=d)
    rng = np.random.default_rng(seed)
    chosen, width = rng.random(problem.n) < 0.6, 0.7
    weights = chosen * problem.cost / width
    gradient, slope_b = rng.normal(size=problem.size), float(rng.normal()) if intercept != "none" else 0.0
    curved = curved_of(problem, chosen, explicit, hard)
    p, p_b, _, _ = newton_direction(problem, gradient, slope_b, curved, width)

    g = gradient if kind == "linear" else X.T @ gradient  # as a function, in the space of w
    columns = X if intercept == "none" else np.column_stack([X, np.ones(problem.n)])
    system = columns.T @ (weights[:, None] * columns)
    system[:d, :d] += np.eye(d)
    if intercept == "penalized":
        system[d, d] += SCALING**-2
    solution = -np.linalg.solve(system, g if intercept == "none" else np.append(g, slope_b))

    w = p if kind == "linear" else X.T @ p
    # I + ... is at least the identity: an error of the equation is one of p. Conjugate gradients stop early.
    loose = 0.3 * np.sqrt(np.linalg.cond(system))
    tolerance = loose if way == "conjugate gradients" or kind == "kernel" else 1e4 * EPS * np.linalg.norm(system)
    size = np.linalg.norm(g) + abs(slope_b) * np.linalg.norm(solution)
    assert np.linalg.norm(w - solution[:d]) <= tolerance * size
    reach = float(weights @ np.linalg.norm(X, axis=1)) / max(float(weights.sum()), EPS)  # |dp_b| <= mean |x| |dp|
    expected = 0.0 if intercept == "none" else solution[d]
    assert p_b == pytest.approx(expected, rel=0, abs=tolerance * max(reach, 1.0) * size)


def test_newton_direction_where_nothing_is_near_the_margin():
    problem, _ = make(0, Huber(0.5), "free")
    gradient = np.array([1.0, -2.0, 3.0])
    curved = curved_of(problem, np.zeros(problem.n, dtype=bool), True)
    p, p_b, _, _ = newton_direction(problem, gradient, 0.5, curved, 1.0)
    np.testing.assert_array_equal(p, -gradient)  # the Hessian is the identity
    assert p_b == -1.0  # downhill; the line search says how far


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


@pytest.mark.parametrize("intercept", ["none", "free"])
@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge(), Huber(0.3)], ids=lambda loss: loss.name)
def test_threads_share_the_samples(loss, intercept, monkeypatch):
    """Sums over parts of the samples: the same path but for rounding, and the same bits a second time."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((200, 6))
    y = np.where(X @ rng.standard_normal(6) + rng.standard_normal(200) > 0, 1.0, -1.0)
    monkeypatch.setattr(problem_module, "THREAD_SAMPLES", 11)
    asked = []
    in_parts = problem_module.in_parts
    monkeypatch.setattr(
        problem_module, "in_parts", lambda cuts, work: asked.append(len(cuts) - 1) or in_parts(cuts, work)
    )

    def run(threads):
        problem = LinearProblem(y, np.full(200, 3.0), loss, intercept, X=as_matrix(X, threads))
        path = begin_path(problem)
        for _ in range(6):
            advance(problem, path)
        return path

    one, three, again = run(1), run(3), run(3)
    assert 3 in asked
    np.testing.assert_allclose(three.f, one.f, rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(three.f, again.f)
    assert three.passes == pytest.approx(one.passes)


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_two_passes_of_ascent_come_first_where_a_step_is_dear(loss, intercept, monkeypatch):
    """The same optimum from there, and what it took is counted; a given start is kept."""
    rng = np.random.default_rng(8)
    X = rng.standard_normal((400, 12))
    y = np.where(X @ rng.standard_normal(12) > 4.0, 1.0, -1.0)  # few above 0
    problem = LinearProblem(y, np.full(400, 5.0), loss, intercept, X=as_matrix(X))
    plain = solve(problem, Newton(), tol=1e-9)
    monkeypatch.setattr(newton, "DEAR", 12)
    assert newton._is_dear(problem)
    state = Newton().init(problem)
    assert state.f.any() and state.passes >= newton.ASCENT
    ascended = solve(problem, Newton(), tol=1e-9)
    assert plain.status == ascended.status == "converged"
    assert ascended.certificate.primal == pytest.approx(plain.certificate.primal, rel=2e-9)
    given = Newton().init(problem, Start(np.full(12, 0.25), 0.0))
    np.testing.assert_array_equal(given.f, 0.25)


def test_what_begins_elsewhere_begins_there(monkeypatch):
    monkeypatch.setattr(newton, "DEAR", 1)
    y = np.where(np.arange(4000) % 2, 1.0, -1.0)
    X = np.random.default_rng(0).standard_normal((4000, 2))
    many = LinearProblem(y, np.ones(4000), Hinge(), X=as_matrix(X))
    assert module.sample_size(many) and not newton._is_dear(many)  # at the solution of a sample
    assert not newton._is_dear(KernelProblem(y[:5], np.ones(5), Hinge(), K=np.eye(5)))
    wide = LinearProblem(y[:5], np.ones(5), Hinge(), X=sp.random(5, module.EXPLICIT + 1, density=0.01, format="csr"))
    assert not newton._is_dear(wide)  # conjugate gradients: a step is a few passes


def test_whole_steps_bring_the_dual_along(monkeypatch):
    """Rare binary features at a large C: steps to a gap of 1e-3, with whole steps and with the minimum along each."""
    steps = {}
    for whole in (0.0, module.WHOLE):
        monkeypatch.setattr(module, "WHOLE", whole)
        steps[whole] = 0
        for seed in range(6):
            rng = np.random.default_rng(seed)
            X = (rng.random((2000, 60)) < 0.05 * rng.random(60)).astype(float)
            y = np.where(X @ rng.normal(size=60) + rng.normal(size=2000) > 1, 1.0, -1.0)
            problem = LinearProblem(y=y, cost=np.full(2000, 1e4), loss=SquaredHinge(), intercept="free", X=as_matrix(X))
            found = solve(problem, Newton(), tol=1e-3, free_work=0.0)
            assert found.certificate.relative_gap <= 1e-3
            steps[whole] += found.iterations
    assert steps[module.WHOLE] <= 0.8 * steps[0.0]


# --- a bound lifted by passes of ascent -------------------------------------------------------------------------------


def bag(C, loss, intercept, n=1500, d=300):
    """A bag of words: conjugate gradients leave most of the gap along its most frequent ones."""
    rng = np.random.default_rng(4)
    X = sp.csr_array((rng.random((n, d)) < np.minimum(0.9, 3 / np.arange(1, d + 1))).astype(float))
    y = np.where(X @ rng.standard_normal(d) + rng.standard_normal(n) > 0, 1.0, -1.0)
    return LinearProblem(y, np.full(n, C), loss, intercept, SCALING, X=as_matrix(X))


@every_intercept
@pytest.mark.parametrize("loss", [SquaredHinge(), Huber(0.5)], ids=lambda loss: loss.name)
def test_a_lifted_bound_is_that_of_its_alpha(loss, intercept, monkeypatch):
    monkeypatch.setattr(module, "EXPLICIT", 0)
    problem, solver = bag(1.0, loss, intercept), Newton()
    path, lifted = solver.init(problem), 0
    path.tol, path.reach = 1e-4, 1e9
    for _ in range(12):
        solver.step(problem, path)
        if path.lifted is not None:
            lifted += 1
            np.testing.assert_allclose(problem.dual(path.lifted), path.dual, rtol=1e-9)
            # feasible: all that is left to repair is the rounding of sum alpha_i y_i
            np.testing.assert_allclose(problem.repair(path.lifted), path.lifted, rtol=1e-14)
            better = path.primal - path.dual < path.gap
            assert np.array_equal(path.alpha, path.lifted) == better
    assert lifted


def test_a_lifted_bound_saves_steps(monkeypatch):
    monkeypatch.setattr(module, "EXPLICIT", 0)
    problem, found = bag(1.0, SquaredHinge(), "none"), {}
    for reach in (newton.REACH, 0.0):
        monkeypatch.setattr(newton, "REACH", reach)
        found[reach] = solve(problem, Newton(), tol=1e-4, free_work=0.0)
        assert found[reach].status == "converged" and found[reach].certificate.relative_gap <= 1e-4
    with_lift, without = found.values()
    assert with_lift.iterations < without.iterations


@pytest.mark.parametrize("explicit", [0, 1000], ids=["conjugate gradients", "matrix"])
def test_every_path_comes_to_its_end(explicit, monkeypatch):
    """Also those that leave samples out until the rest moves by rounding, and bring them back, again and again."""
    monkeypatch.setattr(module, "EXPLICIT", explicit)
    for seed in range(4):
        for intercept in INTERCEPTS:
            problem, _ = make(seed, Hinge(), intercept, "linear", 100.0)
            path, steps = begin_path(problem, bad_start(problem, seed)), 0
            while not path.ended and steps < 4 * module.STAGES:
                advance(problem, path)
                steps += 1
            assert path.ended and path.play.picked is None
