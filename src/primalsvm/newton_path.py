r"""Newton's method in the primal, the proximal point method in the dual: a bound as good as the model, for any loss.

The dual sees a loss as r(a) = tilt a - bend / 2 a^2 on 0 <= a <= u, a = alpha / c. Where r is curved (bend > 0) the
loss is smooth and Newton's method applies. The hinge's is not. Take a little curvature off the dual around a centre,

    D_h(alpha) = D(alpha) - h sum_i c_i (a_i - centre_i)^2
    a_i = clip((tilt + 2 h centre_i - m_i) / (bend + 2 h), 0, u)

and its primal is smooth: with centre_i = 1/2 the loss is Huber's. When Newton has solved it, its a becomes the next
centre and h shrinks. That is the proximal point method on the dual, the method of multipliers on the primal: it
converges for any h, so h stays far larger, and the Newton equation better conditioned, than on Huber's path h -> 0
alone; and points on the margin may be more than there are dimensions. alpha is feasible for the problem itself, so
that a lower bound comes with every step, and

    P(f, b) - D(alpha) = 1/2 |f - f_alpha|^2 + sum_i c_i (l(m_i) + a_i m_i - r(a_i))

says how good it is: the first term is what Newton has still to do in this stage, the second what the stages have to.

A step solves the Newton equation, the intercept eliminated,

    (I + X' W X - v v' / s) p = -g + v g_b / s,        v = X' W 1,   s = 1' W 1 (+ 1 / scaling^2 if penalised)
    W = diag(c_i / (bend + 2 h)) over the curved samples, 0 < a_i < u

with an explicit matrix where there are few features, else by conjugate gradients, or, where those give up, through the
kernel matrix of the curved samples (in a reproducing kernel space the same equation in the space's own inner product),
and goes to the minimum along p.

Costs: a sample whose margin is far from its kinks does not change its a_i, and is left out of play until the rest has
settled: a step takes one pass over those in play, and one over those whose a_i changed. The matrix is kept, and changed
by the samples that enter or leave the curved part of their loss: few, once the path is under way. And a large problem
starts from the solution of a sample of it, as in Chapelle's Algorithm 1.

Chapelle (2007), sections 4.2 and 5; Rockafellar (1976); leaving out is Do & Artieres (2008), section 4.4, with
movements of margins in place of balls.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np

from .losses import Array
from .matrix import ALL, Dense
from .piecewise import newton_in_bracket
from .problem import LinearProblem, Problem
from .triangles import add_outer, factorise, least_squares, multiply, solve_factored, solve_positive

DIRECT = 4000  # curved samples up to which the matrix between them is formed where conjugate gradients give up
EXPLICIT = 1000  # features up to which forming and factorising the Hessian beats conjugate gradients ...
EXPLICIT_DENSE = 2500  # ... and where X is dense, its products fast, the loss smooth, one stage, and samples are many
MANY_SAMPLES = 3  # for each feature, from which second order wins although the features are many
BASIS, BASIS_ROWS = 10_000, 20  # the same, and SAMPLE_ROWS, where the features are an orthonormal basis of a kernel's
STAGE_STEPS = 50  # Newton on a piecewise quadratic ends after a few steps, or h was cut too fast
STAGES, IDLE = 200, 6  # in all, and without a smaller gap
SETTLED = 0.3  # of the gap that is wanted may be left to Newton when the last stage ends,
ROUGHLY = 1.5  # and of the stages' part of the gap when another ends: the next one begins further away anyway
SHRINK = {True: 0.5, False: 0.7}  # h of the next stage over h of this one: a small h is hard on conjugate gradients
FAR = {True: 0.25, False: 1.0}  # of the largest movement of a margin: most move far less, and the next ones too ...
LEAVE = {True: 0.3, False: 0.5}  # ... and fewer of the samples are not worth leaving out
FIRST_H, LAST_H = 2.0, 1e-6
START_H = 20  # h over the relative gap of a given alpha
SAMPLE, SAMPLE_ROWS = 16, 100  # a large problem starts from one in so many samples, and so many for each feature
SAMPLE_GAP = 5e-4  # ... solved to this relative gap: half of what users ask for, so that its h does for the whole
CG_STEPS = 250
CLOSE, WORTH = {"tol": 0.3}, {"tol": 0.01, "worth": 0.3}  # ends of conjugate gradients: many curved samples, few
TOUCH = 0.01  # of the diagonal for the preconditioner where the curved samples are few
WHOLE = 1e-3  # of P: what a whole step may leave to gain along it
LIMIT = 1e-15  # of P: a gap that is rounding
CERTAIN = 1e-8  # of P: a smaller gap is not believed before f_alpha has been summed up anew
FEW = 0.2  # of the samples: so many changes are picked out before they are summed up


@dataclass
class Play:
    """The samples in play: `picked` of all, None for every one."""

    picked: np.ndarray | None
    y: Array
    cost: Array
    centre: Array
    margins: Array
    share: Array  # a_i

    def put_back(self, share: Array) -> None:
        """Write the a_i into those of all samples."""
        share[slice(None) if self.picked is None else self.picked] = self.share


@dataclass
class Curved:
    """The samples with 0 < a_i < u, and their sums  X' C X  (of many features its diagonal),  X' C 1  and  1' C 1.

    The Newton equation has W = C / (bend + 2 h): h may change and the sums stay. Of the first, the lower triangle is.
    """

    mask: np.ndarray  # (n,)
    gram: Array | None
    pull: Array
    diagonal: Array | None = None
    total: float = 0.0
    hard: bool = False  # too hard for conjugate gradients, it has turned out

    def update(self, problem: Problem, play: Play) -> float:
        """Take in what has changed among those in play; passes that took."""
        from .cpu_kernels import note_sides

        bound, picked = problem.loss.bound, ALL if play.picked is None else play.picked
        places = np.empty(len(play.share), dtype=np.int64)

        def work(begin: int, end: int) -> tuple[int, int, int, float]:
            return begin, *note_sides(play.share, play.cost, bound, picked, begin, end, self.mask, places)

        begins, counts, curved, totals = zip(*problem.in_parts(work, len(places)), strict=True)
        changed = np.concatenate([places[k : k + count] for k, count in zip(begins, counts, strict=True)])
        self.total = sum(totals)
        if len(changed) > 0.7 * sum(curved):  # then it is cheaper to begin anew
            changed = np.flatnonzero((play.share > 0.0) & (play.share < bound))
            self.gram = None if self.gram is None else np.zeros_like(self.gram)
            self.diagonal = None if self.diagonal is None else np.zeros_like(self.diagonal)
            self.pull = np.zeros_like(self.pull)
        if len(changed):
            picked = changed if play.picked is None else play.picked[changed]
            cost = np.where(self.mask[picked], play.cost[changed], -play.cost[changed])
            if self.gram is not None:
                problem.X.add_gram(self.gram, cost, picked)  # type: ignore[attr-defined]
            if self.diagonal is not None:
                self.diagonal += problem.X.diagonal(cost, picked)  # type: ignore[attr-defined]
            if problem.intercept != "none":
                self.pull += problem.adjoint(cost, picked)
        return len(changed) / problem.n


@dataclass
class NewtonPath:
    """Where the method stands."""

    exact_b: ClassVar[bool] = True  # a step eliminates b

    f: Array
    b: float
    h: float
    play: Play
    share: Array  # (n,) a_i of all; those in play are written back when needed
    f_alpha: Array
    balance: float  # sum alpha_i y_i
    rest: tuple[Array, float, float]  # of those out of play: their part of f_alpha, of balance, and sum c_i r(a_i)
    cost: Array  # (n,)
    curved: Curved
    value: float = np.inf  # of the smoothed primal at (f, b)
    primal: float = np.inf
    newton: float = np.inf  # Newton's part of the gap ...
    lack: float = np.inf  # ... and the stages'
    inside: float = 0.0  # sum c_i over the curved samples in play
    derived: bool = False  # f_alpha is, in part, from products that the Newton equation had
    steps: int = 0  # in this stage
    moved: float = 0.0  # how far a margin has moved in this stage, at most
    best: float = np.inf  # the least gap so far
    idle: int = 0  # stages since that fell
    stages: int = 0
    seen: float = np.inf  # the gap when all samples were in play the last time
    stage_done: bool = False
    hopeful: bool = False  # those out of play are the judge's to look at: with them it may be done
    over: bool = False  # nothing left to gain
    settled: float = np.inf  # the tol for which nothing is left to do
    passes: float = 0.0
    tol: float = 0.0  # the relative gap that is wanted: worth bringing all samples back
    lifted: Array | None = None  # an alpha that another method has made of this one's ...
    dual: float = -np.inf  # ... and its D
    reach: float = 0.0  # times tol: a gap from which that may come down to tol

    @property
    def alpha(self) -> Array:
        if self.lifted is not None and self.primal - self.dual < self.gap:
            return self.lifted
        self.play.put_back(self.share)
        return self.cost * self.share

    @property
    def gap(self) -> float:
        return self.newton + self.lack

    @property
    def ended(self) -> bool:
        """Until the judge, who may see a larger gap, asks for a smaller tol."""
        return self.over or self.tol >= self.settled

    @property
    def belief(self) -> float:
        """The relative gap; while some samples are out of play none, unless it is time to look at all."""
        if self.play.picked is not None and not self.hopeful:
            return np.inf
        return min(self.gap, max(self.primal - self.dual, 0.0)) / self.primal if self.primal > 0 else 0.0


def begin_path(
    problem: Problem, f: Array | None = None, b: float = 0.0, alpha: Array | None = None, least_h: float = 0.0
) -> NewtonPath:
    """At a given point, and around a given alpha; or at the solution of a sample of the problem."""
    h = 0.0 if problem.loss.smooth else FIRST_H
    passes, learned = 1.0, np.inf
    if f is None:
        f, b, h, learned, passes = _from_sample(problem, h)
    f = np.array(f, dtype=np.float64)
    scores = problem.scores(f)
    margins = problem.margins(scores, b)
    centre = np.full(problem.n, 0.5) if alpha is None else problem.share(np.minimum(alpha, problem.upper))
    if alpha is not None and h:  # a good alpha needs little smoothing
        primal = problem.primal(f, b, scores)
        gap = (primal - problem.dual(problem.repair(alpha))) / primal if primal > 0 else 1.0
        h = float(np.clip(START_H * gap, max(100 * LAST_H, least_h), h))
    play = Play(None, problem.y, problem.cost, centre, margins, np.zeros(problem.n))
    nothing = np.zeros(problem.size)
    gram = np.zeros((problem.size, problem.size)) if is_explicit(problem) else None
    diagonal = np.zeros(problem.size) if gram is None and problem.kind == "linear" else None
    curved = Curved(np.zeros(problem.n, dtype=bool), gram, np.zeros(problem.size), diagonal)
    path = NewtonPath(f, b, h, play, np.zeros(problem.n), nothing, 0.0, (nothing, 0.0, 0.0), problem.cost, curved)
    path.passes = passes
    _look(problem, path)
    misled = path.primal / learned - 1.0 if learned > 0 else 1.0
    if misled > h > 0:  # what a sample has learned of itself only is far from the optimum, and so are its margins
        path.h = min(misled, FIRST_H)
        _look(problem, path)
    return path


def is_explicit(problem: Problem) -> bool:
    """Is the Hessian a matrix that is formed? That of a basis is: conjugate gradients take hundreds of steps there."""
    if not isinstance(problem, LinearProblem):
        return False
    if problem.X.orthonormal:
        return problem.size <= BASIS
    many = isinstance(problem.X, Dense) and problem.loss.smooth and problem.n >= MANY_SAMPLES * problem.size
    return problem.size <= (EXPLICIT_DENSE if many else EXPLICIT)


def sample_size(problem: Problem) -> int:
    """Samples of the smaller problem from whose solution the path begins; 0 where it begins at nothing."""
    if not (isinstance(problem, LinearProblem) and is_explicit(problem)):
        return 0
    size = max(problem.n // SAMPLE, (BASIS_ROWS if problem.X.orthonormal else SAMPLE_ROWS) * problem.size)
    return size if 8 * size <= problem.n else 0


def _from_sample(problem: Problem, h: float) -> tuple[Array, float, float, float, float]:
    """(f, b, h, its P, passes) where the path on a sample has come near the sample's own optimum."""
    size = sample_size(problem)
    if not size:
        return np.zeros(problem.size), 0.0, h, np.inf, 1.0
    picked = np.sort(np.random.default_rng(0).choice(problem.n, size, replace=False))
    share = size / problem.n
    X = problem.X.take(picked)  # type: ignore[attr-defined]
    part = replace(problem, y=problem.y[picked], cost=problem.cost[picked] / share, X=X)  # type: ignore[call-arg]
    path = begin_path(part)
    while not path.ended and path.gap > SAMPLE_GAP * path.primal:
        advance(part, path)
    return path.f, path.b, min(path.h, h), path.primal, path.passes * share + 1.0


def advance(problem: Problem, path: NewtonPath) -> None:
    """One Newton step with line search, after moving the centre where the last step finished a stage."""
    if path.ended:
        return
    if path.hopeful:  # in vain
        _bring_back(problem, path)
        _end_stage(problem, path)
        if path.ended:
            return
    if path.stage_done:
        _next_stage(problem, path)
    _newton_step(problem, path)
    if path.play.picked is None:
        path.seen = path.gap
    elif path.gap <= 0.5 * path.tol * path.primal:
        path.hopeful = True
        return
    elif path.gap <= max(1e-4 * path.seen, LIMIT * path.primal):
        _bring_back(problem, path)
    _end_stage(problem, path)


def _end_stage(problem: Problem, path: NewtonPath) -> None:
    """Where the last step has finished a stage: is there anything left to do?"""
    if not path.stage_done:
        return
    path.stages += 1
    path.idle = 0 if path.gap < 0.9 * path.best else path.idle + 1
    path.best = min(path.best, path.gap)
    settled = not path.h and path.newton <= SETTLED * path.tol * path.primal
    over = path.idle >= IDLE or path.stages >= STAGES or path.gap <= LIMIT * path.primal
    if (over or settled) and path.play.picked is not None:
        _bring_back(problem, path)
        path.moved = np.inf  # nobody is left out of the stage that may be the last one
    else:
        path.over, path.settled = over, path.tol if settled else np.inf


def polish(problem: Problem, f: Array) -> Iterator[NewtonPath]:
    """The path after each stage, with better and better lower bounds: one object, changed in place.

    The caller judges it and stops.
    """
    path = begin_path(problem, f)
    while not path.ended:
        advance(problem, path)
        if path.stage_done or path.ended:
            yield path


# stages and who is in play --------------------------------------------------------------------------------------------
def _next_stage(problem: Problem, path: NewtonPath) -> None:
    """Move the centre to where alpha is, narrow h, and leave out those that will not notice."""
    wanted = 0.5 * path.tol * path.primal / path.lack if path.lack > 0 else 1.0  # the stages' part falls about as h^2
    shrink = SHRINK[path.curved.gram is not None]
    if path.steps == 1:  # Newton had nothing to do and the gap did not fall: it is h that holds alpha back
        shrink **= 1 + path.idle
    path.h = path.h and max(path.h * min(max(shrink, np.sqrt(wanted)), 0.9), LAST_H)
    path.play.centre = path.play.share.copy()
    if path.steps:  # before the first one nobody knows how far margins move
        _leave_out(problem, path)
    path.steps, path.moved = 0, 0.0
    _look(problem, path)
    path.stage_done = False  # a stage is one step at least: the centre moves on what a step has done


def _leave_out(problem: Problem, path: NewtonPath) -> None:
    """Take those out of play that are far from their kinks beside how far margins moved in the last stage."""
    loss, play = problem.loss, path.play
    explicit = path.curved.gram is not None
    far = FAR[explicit] * path.moved
    at_top = (play.share >= loss.bound) & (play.margins < loss.tilt - loss.bend * min(loss.bound, 1.0) - far)
    out = at_top | ((play.share <= 0.0) & (play.margins > loss.tilt + far))
    if np.count_nonzero(out) < LEAVE[explicit] * len(out):
        return
    play.put_back(path.share)
    path.passes += path.curved.update(problem, play)  # those that leave must not stay in its sums
    everyone = np.arange(problem.n) if play.picked is None else play.picked
    top = np.flatnonzero(at_top)
    pull = play.cost[top] * loss.bound * play.y[top]
    gain = float(np.sum(play.cost[top])) * (loss.tilt - 0.5 * loss.bend * loss.bound) * loss.bound if len(top) else 0.0
    f, balance, gained = path.rest
    path.rest = (f + problem.adjoint(pull, everyone[top]), balance + float(np.sum(pull)), gained + gain)
    path.passes += len(top) / problem.n
    keep = np.flatnonzero(~out)
    parts = (play.y, play.cost, play.centre, play.margins, play.share)
    path.play = Play(everyone[keep], *(part[keep] for part in parts))


def _bring_back(problem: Problem, path: NewtonPath) -> None:
    """All samples in play again, with margins computed afresh."""
    path.hopeful = False
    if path.play.picked is None:
        path.seen = path.gap
        return
    play = path.play
    play.put_back(path.share)
    centre = path.share.copy()
    centre[play.picked] = play.centre
    margins = problem.margins(problem.scores(path.f), path.b)
    path.play = Play(None, problem.y, problem.cost, centre, margins, path.share.copy())
    path.rest = (np.zeros(problem.size), 0.0, 0.0)
    path.passes += 1.0
    _look(problem, path)
    path.seen = path.gap


def _look(
    problem: Problem, path: NewtonPath, along: Array | None = None, t: float = 0.0, image: Array | None = None
) -> None:
    """Move the margins by t along, and set everything that follows from f, b, the margins and the centre.

    With `image`, what f_alpha loses by a step of t = 1 if no sample changes sides, only those that do are summed up.
    """
    from .cpu_kernels import proximal_shares

    loss, play = problem.loss, path.play
    margins, share, change = play.margins, play.share, np.empty_like(play.share)
    play.margins, play.share = margins if along is None else np.empty_like(margins), np.empty_like(share)
    before = margins, margins if along is None else along, share

    def work(begin: int, end: int) -> tuple[float, ...]:
        old, direction, a, y, cost, centre, now, new, turned = (
            array[begin:end] for array in (*before, play.y, play.cost, play.centre, play.margins, play.share, change)
        )
        smoothed = cost, centre, path.h, loss.tilt, loss.bend, loss.bound
        return proximal_shares(old, direction, t, image is not None, *smoothed, a, y, now, new, turned)

    value, losses, lack, inside, turn, moved = _sum_over_samples(problem, len(change), work)
    changed = play.picked
    if moved < FEW * len(change) and problem.has_rows:
        some = np.flatnonzero(change != 0.0)  # of booleans, that is ten times as fast
        change, changed = change[some], some if play.picked is None else play.picked[some]
    path.f_alpha = path.f_alpha + problem.adjoint(change, changed)
    if image is not None:
        path.f_alpha -= t * image
        path.derived = True
    path.balance += turn
    path.passes += moved / problem.n
    rest, rest_balance, rest_gain = path.rest
    outside = rest_gain - problem.inner(rest, path.f) - rest_balance * path.b if rest.any() else rest_gain
    norm = 0.5 * problem.inner(path.f, path.f) + problem.penalty(path.b)
    path.value, path.primal, path.lack = norm + outside + value, norm + outside + losses, max(lack, 0.0)
    path.inside = inside
    _measure(problem, path)
    if path.derived and path.gap <= CERTAIN * path.primal:
        path.f_alpha = path.rest[0] + problem.adjoint(play.y * play.cost * play.share, play.picked)
        path.passes += np.count_nonzero(play.share) / problem.n
        path.derived = False
        _measure(problem, path)


def _measure(problem: Problem, path: NewtonPath) -> None:
    """Newton's part of the gap, and whether it is small enough for this stage."""
    off = path.f - path.f_alpha
    path.newton = max(0.5 * problem.inner(off, off), 0.0)
    if problem.intercept == "penalized":
        path.newton += problem.penalty(path.b - problem.intercept_scaling**2 * path.balance)
    elif problem.intercept == "free" and path.inside > 0:  # what a step in b alone would gain
        path.newton += 0.5 * path.balance * path.balance * (problem.loss.bend + 2 * path.h) / path.inside
    path.stage_done = path.newton <= max(ROUGHLY * path.lack, (SETTLED * path.tol + LIMIT) * path.primal)


def _sum_over_samples(problem: Problem, count: int, work: Callable[[int, int], tuple[float, ...]]) -> tuple[float, ...]:
    """The sums that work says of parts of the samples, added up."""
    return tuple(float(sum(figures)) for figures in zip(*problem.in_parts(work, count), strict=True))


# the Newton equation --------------------------------------------------------------------------------------------------
def _newton_step(problem: Problem, path: NewtonPath) -> None:
    loss, play = problem.loss, path.play
    weight = _intercept_weight(problem)
    path.passes += path.curved.update(problem, play)
    slope_b = weight * path.b - path.balance if problem.intercept != "none" else 0.0
    p, p_b, cost, image = newton_direction(problem, path.f - path.f_alpha, slope_b, path.curved, loss.bend + 2 * path.h)
    change = problem.scores(p, play.picked)

    def to_margins(begin: int, end: int) -> tuple[float, float]:
        part = change[begin:end]
        if p_b:
            part += p_b
        part *= play.y[begin:end]
        return float(np.max(part, initial=0.0)), -float(np.min(part, initial=0.0))

    furthest = max(map(max, problem.in_parts(to_margins, len(change))))
    rest, rest_balance, _ = path.rest
    linear = problem.inner(path.f - rest, p) + (weight * path.b - rest_balance) * p_b
    quadratic = problem.inner(p, p) + weight * p_b * p_b
    t = _search(problem, path, change, linear, quadratic) if quadratic > 0 or (p_b and not p.any()) else 0.0
    kept = ("f", "b", "value", "primal", "newton", "lack", "f_alpha", "balance", "inside", "derived")
    before = {name: getattr(path, name) for name in kept}
    margins, share = play.margins, play.share
    path.f, path.b = path.f + t * p, path.b + t * p_b
    path.steps += 1
    path.moved += abs(t) * furthest
    path.passes += cost + len(play.margins) / problem.n
    _look(problem, path, change, t, image)
    level = path.value - 1e-12 * abs(path.value)
    better = path.value < before["value"] or (level < before["value"] and path.newton < 0.9 * before["newton"])
    if not (better and path.primal >= 0.0):  # the step was noise; or a kernel matrix not quite positive misled it
        for name, value in before.items():
            setattr(path, name, value)
        play.margins, play.share = margins, share
        path.stage_done = True
        path.idle += 1
    path.stage_done |= path.steps >= STAGE_STEPS


def _search(problem: Problem, path: NewtonPath, change: Array, linear: float, quadratic: float) -> float:
    """The minimum along a direction: Newton's method on the derivative, kept inside a bracket.

    Or 1, where P would fall by no more than a trifle beyond it. After a whole step of an exact Newton equation f_alpha
    is f but for those that changed sides; after one of t, 1 - t of what was between them is still there, and at a large
    C the gap knows of that more than P does.
    """
    from .cpu_kernels import proximal_slope

    loss, play = problem.loss, path.play

    def slope(t: float) -> tuple[float, float]:
        def work(begin: int, end: int) -> tuple[float, ...]:
            part = slice(begin, end)
            smoothed = play.cost[part], play.centre[part], path.h, loss.tilt, loss.bend, loss.bound
            return proximal_slope(play.margins[part], change[part], t, *smoothed)

        first, second = _sum_over_samples(problem, len(change), work)
        return linear + quadratic * t + first, quadratic + second

    begin, _ = slope(0.0)
    if not begin < 0.0:
        return 0.0
    if not path.h and path.curved.gram is not None:
        first, second = slope(1.0)
        if abs(first) <= 0.5 * abs(begin) and first * first <= 2 * WHOLE * path.value * second:
            return 1.0
    return newton_in_bracket(slope, lambda t, first, second: abs(first) <= 1e-4 * abs(begin))


class Direction(NamedTuple):
    f: Array
    b: float
    passes: float
    image: Array | None  # X' W (X f + b), where the equation's solution came with it


def newton_direction(problem: Problem, gradient: Array, slope_b: float, curved: Curved, width: float) -> Direction:
    """The solution of the Newton equation with W = C / width over the curved samples."""
    stiffness = _intercept_weight(problem) + curved.total / width
    has_intercept = problem.intercept != "none" and stiffness > 0
    rhs, v = -gradient, curved.pull / width
    passes = 0.0
    if has_intercept:
        rhs = rhs + v * (slope_b / stiffness)
    if curved.gram is not None:
        X = problem.X  # type: ignore[attr-defined]
        u = X.to_gram(v) / np.sqrt(stiffness) if has_intercept else None
        matrix, right = partial(_newton_matrix, curved.gram, width, X.metric, u), X.to_gram(rhs)
        hessian = matrix()
        p = X.from_gram(solve_factored(hessian, right) if factorise(hessian) else least_squares(matrix(), right))
        image = multiply(curved.gram, p, 1.0 / width) if X.metric is None else None
    else:
        p, passes, image = _by_samples(problem, rhs, curved, width, v, stiffness if has_intercept else 0.0)
    if has_intercept:
        p_b = -(slope_b + problem.inner(v, p)) / stiffness
    else:  # without curvature in b, the line search alone says how far
        p_b = -float(np.sign(slope_b)) if problem.intercept != "none" else 0.0
    return Direction(p, p_b, passes, image if image is None or not p_b else image + v * p_b)


def _newton_matrix(gram: Array, width: float, metric: Array | None, u: Array | None) -> Array:
    """gram / width + metric - u u', of which the lower triangle has a meaning; without a metric it is the identity."""
    out = gram / width
    if metric is None:
        out[np.diag_indices_from(out)] += 1.0
    else:
        out += metric
    if u is not None:
        add_outer(out, u, -1.0)
    return out


def _by_samples(
    problem: Problem, rhs: Array, curved: Curved, width: float, v: Array, stiffness: float
) -> tuple[Array, float, Array | None]:
    """(p, passes it took, X' W X p if known): the Newton equation without a matrix of the features."""
    picked = problem.where(curved.mask)
    weights = problem.cost[picked] / width
    few = len(picked) <= problem.size  # the matrix is the identity but for as many directions as there are samples
    if curved.hard and 0 < len(picked) <= DIRECT and few and problem.kind == "linear":
        return _by_woodbury(problem, rhs, picked, weights, v, stiffness), 3 * len(picked) / problem.n, None
    products = 0

    def apply(p):
        nonlocal products
        products += 1
        image = p + problem.curve(p, weights, picked)
        return image - v * (problem.inner(v, p) / stiffness) if stiffness else image

    # scaling the features helps where the samples determine them all; a little of it where they do not
    diagonal: Array | float = 1.0
    if curved.diagonal is not None:
        diagonal = curved.diagonal / width - (v * v / stiffness if stiffness else 0.0)
        diagonal = 1.0 + (TOUCH if few else 1.0) * np.maximum(diagonal, 0.0)
    ends = WORTH if few else CLOSE
    residual = rhs.copy()
    p = conjugate_gradient(apply, rhs, problem.inner, lambda r: r / diagonal, steps=CG_STEPS, residual=residual, **ends)
    curved.hard |= products >= CG_STEPS
    image = rhs - residual - p
    if stiffness:
        image += v * (problem.inner(v, p) / stiffness)
    return p, products * len(picked) / problem.n, image


def _by_woodbury(problem: Problem, rhs: Array, picked: np.ndarray, weights: Array, v: Array, stiffness: float) -> Array:
    """The same through the kernel matrix K of the curved samples: (I + X' W X)^-1 = I - X' (K + W^-1)^-1 X."""
    kernel = problem.gram(picked)
    kernel[np.diag_indices_from(kernel)] += 1.0 / weights
    sides = [rhs, v] if stiffness else [rhs]
    scores = np.column_stack([problem.scores(side, picked) for side in sides])
    inner = solve_positive(kernel, scores)
    solved = [side - problem.adjoint(np.ascontiguousarray(u), picked) for side, u in zip(sides, inner.T, strict=True)]
    if stiffness:  # one rank more: - v v' / stiffness
        p, q = solved
        return p + q * (problem.inner(v, p) / (stiffness - problem.inner(v, q)))
    return solved[0]


def conjugate_gradient(
    apply: Callable[[Array], Array],
    rhs: Array,
    inner: Callable[[Array, Array], float],
    precondition: Callable[[Array], Array] | None = None,
    *,
    tol: float = 1e-3,
    worth: float = 0.0,
    steps: int = 250,
    residual: Array | None = None,
) -> Array:
    """Solve apply(x) = rhs, where apply is symmetric and positive in `inner`; `precondition` too, nearly its inverse.

    Ends when the residual has fallen to `tol` of the first one; or when step k has added less than worth / k to what
    1/2 <x, apply(x)> - <rhs, x> has fallen by (Nash & Sofer 1990): then the rest is better left to the next equation.
    An array for the residual, rhs at first, gets  rhs - apply(x).
    """
    x = np.zeros_like(rhs)
    residual = rhs.copy() if residual is None else residual
    scaled = residual if precondition is None else precondition(residual)
    direction = scaled.copy()
    size = start = inner(residual, scaled)
    fallen = 0.0
    for k in range(steps):
        if size <= tol * tol * start:
            break
        image = apply(direction)
        curve = inner(direction, image)
        if not curve > 0.0:  # only a matrix that rounding has made singular or indefinite
            break
        step = size / curve
        x += step * direction
        residual -= step * image
        gain = 0.5 * step * size
        fallen += gain
        if (k + 1) * gain <= worth * fallen:
            break
        scaled = residual if precondition is None else precondition(residual)
        size, before = inner(residual, scaled), size
        direction = scaled + (size / before) * direction
    return x


def _intercept_weight(problem: Problem) -> float:
    return problem.intercept_scaling**-2 if problem.intercept == "penalized" else 0.0
