r"""Newton's method for kernel problems, in the coefficients: f = sum_j beta_j k(x_j, .), with the scores K beta kept.

The loss is smoothed around a centre as in `newton_path`,

    a_i = clip((tilt + 2 h centre_i - m_i) / (bend + 2 h), 0, u)

the hinge, and a narrow Huber loss too for as long as h is wider than it: that takes a third of the steps. The squared
hinge needs none, h = 0. Minus the gradient of the smoothed P, as a function, has the coefficients y c a - beta. With S
the curved samples, 0 < a_i < u, and R all others, Newton's step p leads to beta_R = y c a at once, and in S it solves

    (K_SS + D) p_S + p_b = D (y c a - beta)_S - K_SR p_R          D = diag((bend + 2 h) / c_S)
    sum (beta + p) = (b + p_b) / scaling^2  (penalised),  0  (free);  p_b = 0 without an intercept

From beta = 0, for the squared hinge, this is Chapelle's (K_sv + lambda I) beta_sv = y_sv; written as a step it refines
itself where the matrix is badly conditioned. See `kernel_system` for what it costs: |S|^3 / 3, or |S|^2 for each sample
that entered or left S. The scores take n entries of K for each sample of S and each of R that moves.

Then the minimum of the smoothed P along p is taken. The squared hinge at a large C does better without: there the
whole step is taken, as in Chapelle's Algorithm 1, while fewer and fewer samples change sides, and else what those
steps did is undone.

At the end of a whole step beta = y c a, so y beta, brought into the box, is a dual point whose bound costs nothing: its
f_alpha is f but for the samples that had to be moved. A stage of the hinge ends when that point is nearly the best for
the smoothed problem, compared with how far it is from the centre; it is the next centre, and h is halved.

A large problem starts from the solution of half of it, and so on: S is small before n is large.

Chapelle (2007), sections 4 and 5.2, Algorithm 1, appendix B; Rockafellar (1976) for the stages.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from .kernel_system import KernelSystem
from .losses import Array
from .newton_path import IDLE, LAST_H, LIMIT, STAGE_STEPS, STAGES, START_H
from .piecewise import newton_in_bracket
from .problem import KernelProblem

HALVE = 1000  # samples from which half of them are solved first: Algorithm 1
ROUGH = 0.2  # relative gap to which a part of the samples is solved
FIRST_H = 1.0
SHRINK = 0.5  # h of the next stage over h of this one
SETTLED = 0.1  # of what the centre costs may be left to Newton when a stage ends
BOLD = 3  # whole steps in a row that may change more sides than one before
SEARCHED = 1e-4  # of the first slope, and of t, may be left by a line search
NOISE = 1e-12  # of the smoothed primal: a change that may be rounding
KEPT = ("f", "b", "scores", "share", "alpha", "value", "primal", "gap", "newton")


@dataclass
class KernelPath:
    """Where the method stands on one problem."""

    problem: KernelProblem
    f: Array  # (n,) beta
    b: float
    scores: Array  # (n,) K beta
    h: float
    centre: Array  # (n,)
    system: KernelSystem
    share: Array = field(default_factory=lambda: np.zeros(0))  # (n,) a_i
    alpha: Array = field(default_factory=lambda: np.zeros(0))  # (n,) feasible; y beta, brought into the box
    value: float = np.inf  # of the smoothed primal
    primal: float = np.inf
    gap: float = np.inf  # P(f, b) - D(alpha), or a little more
    newton: float = np.inf  # the same of the smoothed problem: what Newton has still to do in this stage
    best: float = np.inf  # the least gap at the end of a stage
    steps: int = 0  # in this stage
    stages: int = 0
    idle: int = 0  # stages since the gap fell
    bold: int = 0  # whole steps to go before there must be fewer changes of side
    fewest: float = np.inf  # changes of side in a whole step
    lowest: dict = field(default_factory=dict)  # where the smoothed primal was least during whole steps
    fresh: bool = True  # are the scores those of a product with all of beta?
    stage_done: bool = False
    ended: bool = False  # nothing left to gain
    tol: float = 0.0  # the relative gap that is wanted

    @property
    def smoothed(self) -> tuple[Array, Array, float, float, float, float]:
        """The smoothed loss as compiled code wants it."""
        loss = self.problem.loss
        return self.problem.cost, self.centre, self.h, loss.tilt, loss.bend, loss.bound

    @property
    def passes(self) -> float:
        return self.system.rows.entries / max(self.problem.n**2, 1)

    @property
    def belief(self) -> float:
        """The relative gap."""
        return self.gap / self.primal if self.primal > 0 else 0.0


@dataclass
class KernelNewton:
    """The path on a part of the samples, then on twice as many, in the end on all."""

    n: int
    path: KernelPath
    picked: np.ndarray | None = None  # the samples of the path; None for all
    larger: list[np.ndarray | None] = field(default_factory=list)  # those of the parts to come, the next one last
    past: float = 0.0  # passes on smaller parts
    tol: float = 0.0

    @property
    def f(self) -> Array:
        return self._spread(self.path.f)

    @property
    def b(self) -> float:
        return self.path.b

    @property
    def alpha(self) -> Array:
        return self._spread(self.path.alpha)

    @property
    def passes(self) -> float:
        return self.past + self.path.passes * (self.path.problem.n / max(self.n, 1)) ** 2

    @property
    def belief(self) -> float:
        return self.path.belief if self.picked is None else np.inf

    @property
    def ended(self) -> bool:
        return self.path.ended and self.picked is None

    def _spread(self, part: Array) -> Array:
        if self.picked is None:
            return part
        whole = np.zeros(self.n)
        whole[self.picked] = part
        return whole


# parts of the samples -------------------------------------------------------------------------------------------------
def begin(problem: KernelProblem, f: Array | None = None, b: float = 0.0, alpha: Array | None = None) -> KernelNewton:
    """At a given point; or at zero, on the smallest part."""
    if f is not None and np.any(f):
        return KernelNewton(problem.n, begin_path(problem, f, b, alpha))
    parts = _parts(problem)
    picked = parts.pop()
    return KernelNewton(problem.n, begin_path(_part(problem, picked)), picked, parts)


def advance(problem: KernelProblem, state: KernelNewton) -> None:
    """One Newton step, after going over to more samples where the last one has solved its part well enough."""
    if state.larger and (state.path.belief <= ROUGH or state.path.ended):
        f, b, alpha, state.past = state.f, state.b, state.alpha, state.passes
        state.picked = state.larger.pop()
        some = slice(None) if state.picked is None else state.picked
        state.path = begin_path(_part(problem, state.picked), f[some], b, alpha[some])
    state.path.tol = ROUGH if state.larger else state.tol
    advance_path(state.path)


def _parts(problem: KernelProblem) -> list[np.ndarray | None]:
    """All samples, half of them, a quarter ...: each holds the next, and its share of each class."""
    n, K = problem.n, problem.K
    order = np.random.default_rng(0).permutation(n)
    rank = np.empty(n)
    for sign in (-1.0, 1.0):
        mine = order[problem.y[order] == sign]
        rank[mine] = np.arange(len(mine)) / max(len(mine), 1)
    order = order[np.argsort(rank[order], kind="stable")]
    parts: list[np.ndarray | None] = [None]
    size = n
    while size > HALVE:
        size = -(-size // 2)
        if not K.held or 8 * size * size <= K.memory_limit:  # taking a part of a stored matrix copies it
            parts.append(np.sort(order[:size]))
    return parts


def _part(problem: KernelProblem, picked: np.ndarray | None) -> KernelProblem:
    if picked is None:
        return problem
    return replace(problem, y=problem.y[picked], cost=problem.cost[picked], K=problem.K.take(picked))


# the path on one problem ----------------------------------------------------------------------------------------------
def begin_path(
    problem: KernelProblem, f: Array | None = None, b: float = 0.0, alpha: Array | None = None
) -> KernelPath:
    """At a given point, around a given alpha or the one that belongs to f; a good one needs little smoothing."""
    f = np.zeros(problem.n) if f is None else np.array(f, dtype=np.float64)
    system, moving = KernelSystem(problem.K), np.flatnonzero(f)
    scores, h = system.rows.product(f[moving], moving), _smoothing(problem, FIRST_H)
    path = KernelPath(problem, f, b, scores, h, np.zeros(problem.n), system)
    _look(path)
    path.centre = problem.share(path.alpha if alpha is None else problem.repair(alpha))
    path.h = _smoothing(problem, min(max(START_H * path.belief, 100 * LAST_H), FIRST_H))
    path.bold = BOLD if np.isinf(problem.loss.bound) else 0
    _look(path)
    path.stage_done = False
    return path


def advance_path(path: KernelPath) -> None:
    """One Newton step, after moving the centre where the last step finished a stage."""
    if path.ended:
        return
    if path.stage_done:
        wanted = 0.5 * path.tol * path.primal / path.gap if path.gap > 0 else 1.0  # a stage's gap falls about as h^2
        path.h = _smoothing(path.problem, max(path.h * min(max(SHRINK, np.sqrt(wanted)), 0.9), LAST_H))
        path.centre = path.problem.share(path.alpha)
        path.steps = 0
        _look(path)
        path.stage_done = False  # a stage is one step at least
    _newton_step(path)
    if path.stage_done:
        path.stages += 1
        path.idle = 0 if path.gap < 0.9 * path.best else path.idle + 1
        path.best = min(path.best, path.gap)
        path.ended = path.idle >= (IDLE if path.h else 1) or path.stages >= STAGES
    path.ended |= path.gap <= LIMIT * path.primal


def polish(problem: KernelProblem, f: Array) -> Iterator[KernelPath]:
    """The path after each stage, one object changed in place: the caller judges it and stops, as in newton_path."""
    path = begin_path(problem, f)
    while not path.ended:
        advance_path(path)
        if path.stage_done or path.ended:
            yield path


def _smoothing(problem: KernelProblem, h: float) -> float:
    """h, or 0 where the loss is as curved already, or has no second kink that a step could jump over."""
    return h if 2 * h > problem.loss.bend and np.isfinite(problem.loss.bound) else 0.0


def _look(path: KernelPath) -> None:
    """Set everything that follows from beta, b, the scores and the centre."""
    from .cpu_kernels import proximal_shares

    problem = path.problem
    path.share, ignored = np.empty(problem.n), np.zeros(problem.n)
    margins = problem.margins(path.scores, path.b)
    facts = (*path.smoothed, ignored, problem.y, margins, path.share, ignored)
    value, losses = proximal_shares(margins, margins, 0.0, False, *facts)[:2]
    square = float(path.f @ path.scores)
    norm = 0.5 * square + problem.penalty(path.b)
    path.value, path.primal = norm + value, norm + losses
    # |f_alpha|^2 where off = y alpha - beta is not nothing: at most |f|^2 + 2 <f, off> + (sum |off_i| |phi(x_i)|)^2
    path.alpha = problem.repair(problem.y * path.f)
    off = problem.y * path.alpha - path.f
    reach = float(np.abs(off) @ problem.norms)
    square += 2.0 * float(off @ path.scores) + reach * reach
    dual = problem.dual_gain(path.alpha) - 0.5 * square - problem.penalty(problem.intercept_of(path.alpha))
    away = problem.share(path.alpha) - path.centre
    moved = path.h * float(problem.cost @ (away * away))
    path.gap, path.newton = max(path.primal - dual, 0.0), max(path.value - dual + moved, 0.0)
    rest = min(max(path.gap - path.newton, 0.0), moved)
    path.stage_done = path.h > 0 and path.newton <= max(SETTLED * rest, (SETTLED * path.tol + LIMIT) * path.primal)


def _newton_step(path: KernelPath) -> None:
    """The whole of Newton's step while fewer and fewer samples change sides; else to the minimum along it."""
    before, sides = {name: vars(path)[name] for name in KEPT}, _sides(path)
    if path.bold and not path.value >= path.lowest.get("value", np.inf):
        path.lowest = before
    p, p_b, change = _direction(path)
    t = 1.0 if path.bold else _search(path, p, p_b, change)
    path.f, path.b, path.scores = path.f + t * p, path.b + t * p_b, path.scores + t * change
    path.steps += 1
    _look(path)
    if path.bold:
        path.fresh = False
        changes = np.count_nonzero(_sides(path) != sides)
        path.bold = BOLD if changes < path.fewest else path.bold - 1
        path.fewest = min(float(changes), path.fewest)
        if not (changes and np.isfinite(path.value)):  # nothing left to change, or too bold
            path.bold = 0
        if not (path.bold or path.value <= path.lowest["value"]):
            vars(path).update(path.lowest)
    else:
        level = path.value - NOISE * abs(path.value)
        better = path.value < before["value"] or (level < before["value"] and path.newton < 0.9 * before["newton"])
        if better and path.primal >= 0.0:
            path.fresh = False
        else:  # the step was noise: of the scores, or, if those are good, of the equation
            vars(path).update(before)
            path.stage_done = path.fresh
            if not path.fresh:
                moving = np.flatnonzero(path.f)
                path.scores, path.fresh = path.system.rows.product(path.f[moving], moving), True
                _look(path)
    path.stage_done |= path.steps >= STAGE_STEPS


def _sides(path: KernelPath) -> np.ndarray:
    """0 where a_i = 0, 1 where the loss is curved, 2 where a_i is at the top."""
    sides = (path.share > 0.0).astype(np.int8) + (path.share >= path.problem.loss.bound)
    return np.where(path.problem.cost > 0, sides, 0)


def _direction(path: KernelPath) -> tuple[Array, float, Array]:
    """(p, p_b, K p) of Newton's step."""
    problem = path.problem
    weight, curved = _intercept_weight(problem), _sides(path) == 1
    S = np.flatnonzero(curved)
    toward = problem.y * problem.cost * path.share - path.f
    p = np.where(curved, 0.0, toward)
    moving = np.flatnonzero(p)
    change = path.system.rows.product(p[moving], moving)
    if not len(S):  # without curvature in b, the line search alone says how far
        slope = 0.0 if weight is None else weight * path.b - float(np.sum(path.f + p))
        return p, -slope / weight if weight else -float(np.sign(slope)), change
    width = problem.loss.bend + 2 * path.h
    D = np.divide(width, problem.cost, out=np.zeros(problem.n), where=problem.cost > 0)
    balance = (weight or 0.0) * path.b - float(np.sum(path.f + p))
    p[S], p_b, inside = path.system.solve(S, D, D[S] * toward[S] - change[S], balance, weight)
    return p, p_b, change + inside


def _search(path: KernelPath, p: Array, p_b: float, p_scores: Array) -> float:
    """The minimum along a direction: Newton's method on the derivative, kept inside a bracket."""
    from .cpu_kernels import proximal_slope

    problem = path.problem
    margins, change = problem.margins(path.scores, path.b), problem.y * (p_scores + p_b)
    weight = _intercept_weight(problem) or 0.0
    linear = float(path.f @ p_scores) + weight * path.b * p_b
    quadratic = float(p @ p_scores) + weight * p_b * p_b

    def slope(t: float) -> tuple[float, float]:
        first, second = proximal_slope(margins, change, t, *path.smoothed)
        return linear + quadratic * t + first, quadratic + second

    begin, _ = slope(0.0)
    if not begin < -NOISE * abs(path.value):  # f hardly moves, but beta may, where K has a null space
        return 1.0

    def close(t: float, first: float, second: float) -> bool:  # of t too: kinks may lie decades apart
        return abs(first) <= SEARCHED * min(abs(begin), t * second)

    return newton_in_bracket(slope, close, steps=100)


def _intercept_weight(problem: KernelProblem) -> float | None:
    """The weight of b^2 / 2 in P; None where there is no b."""
    return {"none": None, "free": 0.0, "penalized": problem.intercept_scaling**-2}[problem.intercept]
