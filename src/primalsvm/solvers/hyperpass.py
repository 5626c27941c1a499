r"""Hyperpass: three lower bounds, an exact line search, and samples that need not be looked at.

R(w) = sum_i c_i l(m_i). Whatever alpha is in the box, R(w) >= sum_i c_i r(alpha_i / c_i) - <f_alpha, w>. One step

    low <- argmin g,     g(w) = 1/2 |w|^2 + max(g1, g2, g3)(w)
    w   <- the exact minimum of P on the ray from w through low

    g1   the tangent of R at low, alpha_i = -c_i l'(m_i(low))
    g2   the plane of the last g at its minimum: the alpha with low = f_alpha
    g3   the tangent of R at w, except that the samples whose hyperplanes m_i = 1 are nearest to w count with their
         own loss: their alpha_i is free in [0, c_i]

so that g lies below P and min g, which is D(alpha) of the new alpha (`simplex_qp`), never falls. The paper frees the
samples whose hyperplane w lies on, `near=0`: g then equals P around w. Any others may be freed as well, g is the higher
for it, and the number of steps falls by far more than the small program costs; equal rows count as one.

Shrinking: a sample put aside (`balls`) has a slope that is known for as long as w stays in a ball. Along the ray only
the others are looked at; if the minimum found lies outside a ball, the samples this concerns come back, and the search
is made anew. So w is the exact minimum along the ray. g1 is then the tangent at low of P with the losses of those put
aside prolonged as straight lines: a lower bound as well, and the proof of Theorem 3, O(1 / (lambda epsilon)) steps,
needs no more than that it is nowhere on the ray below P at w. shrink="one" has one centre and measures all distances
anew when its ball has become too large (Algorithm 2, where the centre moves in every step); "several" moves the samples
near w to a new centre and leaves the others where they are.

One step costs one product <x_i, low> for each sample not put aside, two for one that comes back, and those of the small
program. `passes` counts nothing else: it is the number of products of a sample with anything, divided by n, the start's
included. A penalised intercept is one more feature.

Do and Artieres (2008), Algorithms 1 and 2, eq. 11-21, with the errata of (14)-(16); the start from Pegasos: section 5.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..balls import Balls
from ..losses import Array
from ..piecewise import minimize_along
from ..problem import LinearProblem
from ..simplex_qp import FREE, HELD, TOP, maximize
from ..solve import Solver, Start
from .pegasos import Pegasos

CENTRES = {"none": 0, "one": 1, "several": 16}
TOUCHING = 1e-9  # a margin this close to its kink lies on it
AHEAD = 2.0  # a sample is put aside when w has that many times as far to go to its hyperplane as it went lately
WORTH = 0.1  # of the samples looked at must leave for a new centre, and as many as this part of those who come back
REST = 1e-15  # relative to |low|: less is no movement, and the next step would be the same
POOL = 5  # times `near` samples have their products with one another remembered


@dataclass
class Tangent:
    """A plane below R: the slopes alpha, f_alpha with the intercept's entry at its end, sum_i c_i r(alpha_i / c_i)."""

    alpha: Array
    f: Array
    gain: float = 0.0


@dataclass
class State:
    f: Array
    b: float
    alpha: Array  # (n,) min g = D(alpha)
    z: Array  # (d + 1,) w and the intercept's entry b / s
    low: Array  # (d + 1,) f_alpha
    gain: float  # of alpha
    margins: Array  # (n,) of z; for a sample put aside, of its centre
    margins_low: Array  # (n,) of low; for a sample put aside, of no meaning
    norms: Array  # (n,) |x_i|, the constant feature included
    twin: np.ndarray  # (n,) equal rows of equal label have the same number
    first: np.ndarray  # (n,) bool: the first of its twins
    active: np.ndarray  # the samples not put aside
    balls: Balls
    here: Tangent  # at z, with alpha_i = 0 for the near ones
    there: Tangent  # at low
    freed: np.ndarray  # for each active one: is its alpha_i free in g3?
    near: np.ndarray  # those that are
    inside: np.ndarray  # (n,) bool: strictly between 0 and c_i in the last small program
    pool: tuple[np.ndarray, Array]  # samples and their products, nan: not known
    value: float = 0.0  # min g
    step: float = np.inf  # how far z goes in a step, the largest of late
    dots: int = 0
    passes: float = 0.0
    ended: bool = False


@dataclass(frozen=True)
class Hyperpass(Solver):
    """The minimum of the lower bound, and of P on the way there."""

    name: ClassVar[str] = "hyperpass"
    needs: ClassVar[frozenset[str]] = frozenset({"lipschitz", "linear", "strongly_convex", "rows"})
    start_passes: int = 10
    near: int = 200
    shrink: str = "several"
    seed: int = 0

    def __post_init__(self):
        if self.shrink not in CENTRES:
            raise ValueError(f"shrink must be one of {', '.join(CENTRES)}, got {self.shrink!r}.")
        if self.start_passes < 0 or self.near < 0:
            raise ValueError(f"Hyperpass needs start_passes and near >= 0, got {self.start_passes} and {self.near}.")

    def init(self, problem: LinearProblem, start: Start | None = None) -> State:
        unit, random = _unit(problem), np.random.default_rng(self.seed)
        alpha, f, b = np.zeros(problem.n), np.zeros(problem.size), 0.0
        if start is not None:
            f, b = np.array(start.f, dtype=np.float64), start.b
            alpha = alpha if start.alpha is None else problem.repair(start.alpha)
        elif self.start_passes:
            pegasos = Pegasos(seed=self.seed)
            begun = pegasos.init(problem)
            for _ in range(self.start_passes):
                pegasos.step(problem, begun)
            f, b = begun.f, begun.b
        z = np.append(f, b / unit if unit else 0.0)
        low = np.append(problem.function(alpha), unit * float(np.sum(alpha * problem.y)))
        mark = problem.y * problem.scores(random.standard_normal(problem.size))  # equal rows have equal ones
        _, first, twin = np.unique(mark, return_index=True, return_inverse=True)
        nothing = np.zeros(problem.n)
        state = State(
            f=f,
            b=b,
            alpha=alpha,
            z=z,
            low=low,
            gain=problem.dual_gain(alpha),
            margins=problem.margins(problem.scores(f), b),
            margins_low=problem.margins(problem.scores(low[:-1]), unit * low[-1]),
            norms=np.sqrt(problem.squared_norms + unit * unit),
            twin=twin,
            first=np.isin(np.arange(problem.n), first),
            active=np.flatnonzero(problem.cost > 0),
            balls=Balls(CENTRES[self.shrink]),
            here=Tangent(nothing, np.zeros(len(z))),
            there=Tangent(nothing.copy(), np.zeros(len(z))),
            freed=np.zeros(0, dtype=bool),
            near=np.zeros(0, dtype=np.int64),
            inside=np.zeros(problem.n, dtype=bool),
            pool=(np.zeros(0, dtype=np.int64), np.zeros((0, 0))),
            value=problem.dual(alpha, low[:-1]),
        )
        begun_with = (self.start_passes if start is None else 0) + bool(f.any()) + bool(low[:-1].any()) + 1
        state.dots = problem.n * begun_with
        state.passes = float(begun_with)
        self._look(problem, state)
        return state

    def step(self, problem: LinearProblem, state: State) -> None:
        before, low = state.z, state.low
        self._minimize_bound(problem, state)
        self._search(problem, state)
        self._look(problem, state)
        moved = float(np.linalg.norm(state.z - before))
        state.step = moved if np.isinf(state.step) else max(moved, 0.8 * state.step)
        if self.shrink != "none":
            self._put_aside(problem, state)
        drift = float(np.linalg.norm(state.low - low))
        state.ended = max(moved, drift) <= REST * float(np.linalg.norm(state.low))
        state.f, state.b = state.z[:-1], _unit(problem) * float(state.z[-1])
        state.passes = state.dots / problem.n

    def _minimize_bound(self, problem: LinearProblem, state: State) -> None:
        """low, alpha and value from g1, g2, g3: eq. 15 and 17."""
        near, here, there = state.near, state.here, state.there
        rows = near[state.first[near]]  # one of each set of twins, and their costs together
        order = np.argsort(state.twin[rows])
        rows = rows[order]
        place = np.searchsorted(state.twin[rows], state.twin[near])
        cost = np.bincount(place, weights=problem.cost[near], minlength=len(rows))
        planes = np.stack([there.f, state.low, here.f])
        H = np.empty((3 + len(rows), 3 + len(rows)))
        H[:3, :3] = planes @ planes.T
        H[3:, 0] = cost * _margins(problem, state, rows, there.f)
        H[3:, 1] = cost * state.margins_low[rows]
        H[3:, 2] = cost * _margins(problem, state, rows, here.f)
        H[:3, 3:] = H[3:, :3].T
        H[3:, 3:] = cost[:, None] * self._products(problem, state, rows) * cost
        q = np.concatenate([[there.gain, state.gain, here.gain], cost])
        guess = np.where(state.margins_low[rows] < 1.0, TOP, HELD)
        guess = np.where(state.inside[rows], FREE, guess)
        x, status = maximize(H, q, 3, np.eye(1, len(q), 1)[0], np.concatenate([[HELD, FREE, FREE], guess]))
        state.inside[:] = False
        state.inside[rows[status[3:] == FREE]] = True
        freed = x[3:][place] * problem.cost[near]
        state.alpha = x[0] * there.alpha + x[1] * state.alpha + x[2] * here.alpha
        state.alpha[near] += freed
        state.low = x[:3] @ planes
        _add(problem, near, freed, state.low)
        state.gain = float(q @ x)
        state.value = state.gain - 0.5 * float(state.low @ state.low)

    def _search(self, problem: LinearProblem, state: State) -> None:
        """The minimum of P from z in the direction of low: eq. 18-21 over the samples that are not put aside."""
        old, index = state.z, state.active
        direction = state.low - old
        quadratic = float(direction @ direction)
        constant = float((old - state.here.f) @ direction)
        lowest, highest = problem.loss.kinks[0][0], problem.loss.kinks[-1][0]
        state.margins_low[index] = _margins(problem, state, index, state.low)
        while quadratic > 0.0:
            here, there = state.margins[index], state.margins_low[index]
            bent = np.minimum(here, there) <= highest
            bent &= np.maximum(here, there) >= lowest
            bent[: len(state.freed)] |= state.freed
            t = np.inf
            for part in (index[bent], index):  # the first is enough unless the minimum lies beyond low
                if t >= 1.0:
                    change = state.margins_low[part] - state.margins[part]
                    linear = constant + float(state.here.alpha[part] @ change)
                    cost, margins = problem.cost[part], state.margins[part]
                    t = minimize_along(problem.loss, cost, margins, change, linear=linear, quadratic=quadratic)
            t = max(t, 0.0)
            state.z = old + t * direction
            back = state.balls.reached(state.z)
            if not len(back):
                state.margins[index] += t * (state.margins_low[index] - state.margins[index])
                break
            state.margins[back] = _margins(problem, state, back, old)
            state.margins_low[back] = _margins(problem, state, back, state.low)
            index = state.active = np.concatenate([index, back])

    def _look(self, problem: LinearProblem, state: State) -> None:
        """The near samples, and the slopes at z and at low."""
        index = state.active
        free = np.zeros(len(index), dtype=bool)
        if not problem.loss.smooth:
            rows = np.flatnonzero(state.first[index])
            distance = _distances(problem, state, index[rows])
            most = min(self.near, problem.size, int(np.sqrt(2 * problem.n)))
            count = max(most, int(np.sum(distance <= 0.0)))
            if len(rows) > count:
                rows = rows[np.argpartition(distance, count)[:count]]
            chosen = np.zeros(problem.n, dtype=bool)
            chosen[state.twin[index[rows]]] = True
            free = chosen[state.twin[index]]
        state.freed, state.near = free, index[free]
        slopes = -problem.cost[index] * problem.loss.slope(state.margins[index])
        _turn(problem, state.here, index, np.where(free, 0.0, slopes))
        _turn(problem, state.there, index, -problem.cost[index] * problem.loss.slope(state.margins_low[index]))

    def _put_aside(self, problem: LinearProblem, state: State) -> None:
        """Those far from their hyperplane, under a new centre, where there are enough of them."""

        def far() -> tuple[Array, np.ndarray]:
            distance = _distances(problem, state, state.active)
            kept = min(4 * self.near, len(distance) - 1)
            least = max(AHEAD * state.step, np.partition(distance, kept)[kept] if len(distance) else 0.0)
            return distance, distance > least

        distance, leave = far()
        count = int(np.sum(leave))
        if count <= WORTH * len(state.active) or count <= WORTH * state.balls.smallest:
            return
        if state.balls.smallest:
            back = state.balls.dissolve()
            state.margins[back] = _margins(problem, state, back, state.z)
            state.active = np.concatenate([state.active, back])
            distance, leave = far()
            stay = back[~leave[-len(back) :]]
            state.margins_low[stay] = _margins(problem, state, stay, state.low)
        gone = state.active[leave]
        _turn(problem, state.there, gone, state.here.alpha[gone])  # their losses are straight lines from now on
        state.balls.put_aside(state.z, gone, distance[leave])
        state.freed = np.append(state.freed, np.zeros(len(leave) - len(state.freed), dtype=bool))[~leave]
        state.active = state.active[~leave]

    def _products(self, problem: LinearProblem, state: State, rows: np.ndarray) -> Array:
        """y_i y_j <x_i, x_j> between the given samples; those near lately are remembered."""
        from ..cpu_kernels import products_of

        samples, known = state.pool
        new = np.setdiff1d(rows, samples)
        if len(samples) + len(new) > POOL * max(self.near, len(rows)):
            keep = np.isin(samples, rows)
            samples, known = samples[keep], known[np.ix_(keep, keep)]
        known = np.pad(known, (0, len(new)), constant_values=np.nan)
        samples = np.concatenate([samples, new])
        order = np.argsort(samples)
        place = order[np.searchsorted(samples, rows, sorter=order)]
        products = known[np.ix_(place, place)]
        state.dots += products_of(problem.rows, rows, np.zeros(problem.size), products)
        known[np.ix_(place, place)] = products
        state.pool = (samples, known)
        return np.outer(problem.y[rows], problem.y[rows]) * (products + _unit(problem) ** 2)


def _unit(problem: LinearProblem) -> float:
    """The value of the constant feature."""
    return problem.intercept_scaling if problem.intercept == "penalized" else 0.0


def _margins(problem: LinearProblem, state: State, index: np.ndarray, z: Array) -> Array:
    """y_i <x_i, z>, and the counting of it."""
    state.dots += len(index)
    return problem.y[index] * (problem.X.matvec(z[: problem.size], index) + _unit(problem) * z[-1])


def _add(problem: LinearProblem, index: np.ndarray, alpha: Array, f: Array) -> None:
    """f += sum_i alpha_i y_i x_i"""
    signed = alpha * problem.y[index]
    f[: problem.size] += problem.adjoint(signed, index)
    f[-1] += _unit(problem) * float(np.sum(signed))


def _turn(problem: LinearProblem, tangent: Tangent, index: np.ndarray, slopes: Array) -> None:
    """Give these samples other slopes."""
    changed = slopes != tangent.alpha[index]
    index, slopes = index[changed], slopes[changed]
    before = tangent.alpha[index]
    _add(problem, index, slopes - before, tangent.f)
    bend = problem.loss.bend / 2 / problem.cost[index]
    tangent.gain += float(np.sum((slopes - before) * (problem.loss.tilt - bend * (slopes + before))))
    tangent.alpha[index] = slopes


def _distances(problem: LinearProblem, state: State, index: np.ndarray) -> Array:
    """How far z is from each hyperplane; 0 within the loss's bend or, for rounding, almost there."""
    margins, norms = state.margins[index], state.norms[index]
    gap = np.maximum(problem.loss.kinks[0][0] - margins, margins - problem.loss.kinks[-1][0])
    away = np.maximum(gap - TOUCHING * (1.0 + np.abs(margins)), 0.0)
    return np.divide(away, norms, out=np.full(len(index), np.inf), where=norms > 0)
