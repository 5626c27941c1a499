r"""Passes of dual coordinate ascent, for its solver, for the start of Newton's method and to lift Newton's bound.

Maximise D over one alpha_i at a time, exactly:

    alpha_i <- clip(alpha_i + g_i / (|phi(x_i)|^2 + bend / c_i), 0, u c_i),     g_i = tilt - bend alpha_i / c_i - m_i

keeping f = f_alpha up to date: O(nnz) for a pass. Samples at a bound whose gradient says that they will stay there are
put aside until the others have settled.

A penalised intercept is one more feature. A free one demands sum_i alpha_i y_i = 0, which no single alpha_i can keep.
It is reached by the proximal point method in b: a pass works on

    P(f, b) + (b - centre)^2 / 2 reach        whose dual has  b = centre + reach sum_i alpha_i y_i,

and the centre then moves to b. The added term vanishes as b settles, whatever `reach` is: the limit is the free
intercept's own optimum, not a penalised one. A short reach lets b lag behind, a long one makes it a feature that all
samples share, which slows coordinates down; the curvature of P in b grows as sum c, and the reach falls with it.

Threads work on parts of the active samples, each with its own copy of f, and meet several times a pass. What they did
is put together with the step that maximises D along the sum of their changes: never worse than before, and the same
for the same number of threads. Two that mend the same fault of f mend it twice, and the step that makes good for that
is too short for the rest. So each reckons with the others: what it does to f_j it does to its own copy e_j times,

    e_j = (sum_p c_pj)^2 / sum_p c_pj^2            c_p: what thread p did at the last meeting, 1 <= e_j <= threads

as many times as threads were seen to do the same. Where the step stays short even so, one goes on alone.

A few samples can keep a whole ascent waiting: of two that are nearly the same, each step of one undoes most of the
other's, be their labels the same or not, and both alpha_i have a long way to go. Posts to two newsgroups are such, and
whatever stands twice with a word changed. So every few passes all go further along what they have done since the last
time, to the maximum of D on that line (those that leave their boxes go back); and those that have moved f most are
settled together: the maximum of D over their alpha_i is a quadratic program in a box (`box_qp`).

Hsieh, Chang, Lin, Keerthi, Sundararajan (2008), Algorithms 1 and 3; seed 004's Algorithm 3; for the intercept
Rockafellar (1976), the method of multipliers on the dual.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from . import box_qp
from .crew import in_parts
from .losses import Array
from .newton_path import NewtonPath
from .problem import LinearProblem, Problem
from .solve import Start

SETTLED = 0.1  # of the violation in the last full pass: then those put aside are looked at again
NEAR, AGAIN = 100.0, 3.0  # times tol: so near the end those called back are put aside again in the pass that looks at
# them, beyond so many times the limits of the others; before, in the pass after that
PAGE, CACHE = 4096, 8_000_000  # bytes that the memory fetches at once, and that the processor keeps
MOST = 8  # neighbours visited together: an ascent in cycles, of blocks too, is slower than one in random order
MEETINGS = 8  # of the threads in a pass, at most
PART_ENTRIES, COPIES = 400_000, 10  # of X, and times the length of f: what a thread should do between two meetings
IN_STEP, NEARLY = 0.6, 0.9  # of the sum of what they did: below, one goes on alone; from which on it is done whole
REACH = 1000  # times mean |x|^2 over sum c |x|^2: a free b may move so far in a pass; further, and it ties all together
LIFTS = 4  # passes to lift a bound
BLOCK = 64  # samples that are settled together, at most, and no more pairs than n,
FIRST, SHARE = 4.0, 0.5  # after so many passes at first, then for so much of the time of the passes between at most
BLOCK_CALLS, PASS_CALLS = 500_000, 50_000  # multiplications: what their calls cost
WORTH, LONGEST = 0.1, 4.0  # of what the passes since then gained: with less all wait twice as long, up to so long
FARTHEST = 1000.0  # times what they did: so far all go at most, and rounding in f with it
NO_ECHO = np.zeros(0)


@dataclass
class Ascent:
    """Where the passes have led."""

    alpha: Array  # (n,)
    b: float
    work: Array  # what a pass updates: f_alpha, or the scores of f_alpha for a stored kernel matrix
    balance: Array  # (1,) sum of alpha_i y_i
    gain: float  # sum of c_i r(alpha_i / c_i), the first part of D
    centre: float
    reach: float
    everyone: np.ndarray  # the samples that count ...
    active: np.ndarray  # ... and those of them that are not put aside
    block: int  # how many neighbours in memory are visited together; the blocks come in random order
    facts: Array  # (n, 4): see cpu_kernels.dual_facts
    before: Array  # (n,) and limits (7,): see cpu_kernels.dual_coordinate_pass
    limits: Array
    seed: np.ndarray  # (1,) state of the random numbers
    shrink: bool = True
    settled: float = 0.0  # spread of the projected gradients at which those put aside are called back
    lack: float = 0.0  # the gap as seen during the last pass
    belief: float = np.inf
    tol: float = 0.0
    alone: bool = False  # one thread is enough
    copies: Array | None = None  # (threads, d) of f
    echo: Array | None = None  # (d + 1,) see cpu_kernels.put_together; of the balance the last
    mark: Start | None = None  # f and alpha when all went further the last time ...
    marked: float = 0.0  # ... with this D
    due: float = 0.0  # after how many passes they do the next time ...
    rest: float = 1.0  # ... which is so many times as far away where the last ones were not worth it
    summed: float = 0.0  # passes when f was last summed up
    passes: float = 0.0


def begin(
    problem: Problem, start: Start | None = None, seed: int = 0, shrink: bool = True, kind: type[Ascent] = Ascent
) -> Ascent:
    """At the start's alpha, with its b as the first centre."""
    from .cpu_kernels import dual_facts

    alpha = np.zeros(problem.n)
    if start is not None and start.alpha is not None:
        alpha = np.clip(start.alpha, 0.0, problem.upper)
    everyone, loss, reach = problem.where(problem.cost > 0), problem.loss, 0.0
    if problem.intercept == "penalized":
        reach = problem.intercept_scaling**2
    elif problem.intercept == "free":
        weight = float(problem.cost @ problem.squared_norms)
        reach = (float(np.mean(problem.squared_norms)) or 1.0) * min(1.0, REACH / weight if weight > 0 else 1.0)
    ascent = kind(
        alpha=alpha,
        b=0.0,
        work=np.zeros(0),
        balance=np.zeros(1),
        gain=0.0,
        centre=start.b if start is not None and problem.intercept == "free" else 0.0,
        reach=reach,
        everyone=everyone,
        active=everyone.copy(),
        block=_block(problem),
        facts=dual_facts(problem.y, problem.cost, problem.squared_norms, reach, loss.bend, loss.bound),
        before=np.zeros(problem.n),
        limits=np.array([0.0, 0.0, np.inf, -np.inf, 0.0, 0.0, 0.0]),
        seed=np.array([seed * 2 + 88172645463325253], dtype=np.uint64),
        shrink=shrink,
        due=FIRST,
    )
    sum_up(problem, ascent)
    ascent.b = ascent.centre + ascent.reach * ascent.balance[0]
    return ascent


def begin_again(problem: Problem, ascent: Ascent, alpha: Array, b: float) -> None:
    """From another method's alpha and b."""
    ascent.alpha = np.minimum(alpha, problem.upper)
    if problem.intercept == "free":
        ascent.centre = b
    sum_up(problem, ascent)
    ascent.active = ascent.everyone.copy()
    ascent.limits[2:4] = np.inf, -np.inf
    ascent.lack = 0.0


def rough_start(problem: Problem, passes: int) -> Start:
    """Where so many passes lead, for a method that is better off with any start than with none."""
    ascent = begin(problem)
    for _ in range(passes):
        make_pass(problem, ascent)
    return Start(ascent.work, ascent.b, ascent.alpha, passes=passes, rough=True)


class Visit(NamedTuple):
    """What a thread visits in a pass."""

    samples: np.ndarray
    before: Array  # their alpha_i then

    def share(self, meeting: int, meetings: int) -> "Visit":
        """Those before this meeting and after the last one."""
        begin, end = (len(self.samples) * k // meetings for k in (meeting, meeting + 1))
        return Visit(self.samples[begin:end], self.before[begin:end])


def make_pass(problem: Problem, ascent: Ascent) -> int:
    """One pass over the active samples; how many there were."""
    from .cpu_kernels import shuffle

    visited, parts, meetings = len(ascent.active), 1, 0
    if isinstance(problem, LinearProblem) and not ascent.alone:
        parts = min(problem.X.threads, visited)
        share = problem.entries / problem.n * visited / max(parts, 1)
        meetings = min(int(share / (PART_ENTRIES + COPIES * problem.size)), MEETINGS)
    if parts > 1 and meetings:
        _together(problem, ascent, parts, meetings)
    else:
        shuffle(ascent.active, ascent.block, ascent.seed)
        _compiled(problem, ascent, ascent.active, ascent.before, ascent.work, ascent.balance, ascent.limits)
        ascent.gain += ascent.limits[5] - 0.5 * ascent.limits[6]
    ascent.b = ascent.centre + ascent.reach * ascent.balance[0]
    if problem.intercept == "free":
        ascent.centre = ascent.b
    lack, ascent.lack = ascent.lack, ascent.limits[4]
    fall = min(ascent.lack / lack, 1.0) if lack > 0 else 1.0
    lack = ascent.lack * np.sqrt(fall)  # it was seen half a pass ago on average
    primal = dual_of(problem, ascent, ascent.b) + lack
    gap = lack / primal if primal > 0 else np.inf
    ascent.belief = gap  # as if those put aside were at their optimum; the judge will see
    _call_back(problem, ascent, visited, close=gap <= ascent.tol)
    return visited


def dual_of(problem: Problem, ascent: Ascent, b: float) -> float:
    """D(alpha) without a pass; where a free intercept is not balanced, the bound that would hold if b were best."""
    square = ascent.work @ (ascent.work if problem.kind == "linear" else ascent.alpha * problem.y)
    value = ascent.gain - 0.5 * float(square)
    if problem.intercept == "free":
        return value - b * float(ascent.balance[0])
    return value - problem.penalty(ascent.reach * ascent.balance[0])


def _together(problem: Problem, ascent: Ascent, parts: int, meetings: int) -> None:
    """One pass over the active samples by several threads."""
    from .cpu_kernels import go_back, put_together

    guessed = ascent.copies is None
    if ascent.copies is None or ascent.echo is None or len(ascent.copies) != parts:
        ascent.copies, ascent.echo = np.empty((parts, problem.size)), np.full(problem.size + 1, float(parts))
    copies, echo, change, each = ascent.copies, ascent.echo, np.empty(problem.size), list(range(parts + 1))
    visits = in_parts(each, lambda part, _: _deal(ascent, parts, part))
    ascent.seed[0] += np.uint64(parts)
    sums = np.array([-np.inf, np.inf, 0.0])  # what the parts say in limits[0], [1] and [4]
    for meeting in range(meetings):

        def work(part: int, _: int, meeting: int = meeting) -> tuple[float, Array]:
            f, balance, limits = copies[part], ascent.balance.copy(), ascent.limits.copy()
            f[:] = ascent.work
            _compiled(problem, ascent, *visits[part].share(meeting, meetings), f, balance, limits, echo)
            return (balance[0] - ascent.balance[0]) / echo[-1], limits

        turns, limits = map(np.array, zip(*in_parts(each, work), strict=True))
        turn, squares = float(np.sum(turns)), float(np.sum(turns * turns))
        inner, square = put_together(ascent.work, copies, echo, change)
        echo[-1] = max(turn * turn / squares, 1.0) if squares > 0.0 else echo[-1]
        # argmax over t >= 0 of D along what the threads did
        b = ascent.centre + ascent.reach * ascent.balance[0]
        slope, bend = float(np.sum(limits[:, 5])), float(np.sum(limits[:, 6]))
        gain = slope - inner - b * turn
        curve = bend + square + ascent.reach * turn * turn
        scale = max(gain / curve, 0.0) if curve > 0.0 else 1.0
        ascent.alone |= scale < IN_STEP and not guessed
        scale, guessed = scale if scale < NEARLY else 1.0, False
        ascent.gain += scale * slope - 0.5 * scale * scale * bend
        if scale < 1.0:

            def give_way(part: int, _: int, meeting: int = meeting, scale: float = scale) -> None:
                go_back(*visits[part].share(meeting, meetings), scale, ascent.alpha)

            in_parts(each, give_way)
            change *= scale
        ascent.work += change
        ascent.balance += scale * turn
        sums = np.array([max(sums[0], *limits[:, 0]), min(sums[1], *limits[:, 1]), sums[2] + np.sum(limits[:, 4])])
    ascent.active = np.concatenate([visit.samples for visit in visits])
    ascent.limits[[0, 1, 4]] = sums


def _deal(ascent: Ascent, parts: int, part: int) -> Visit:
    """The samples that this thread has in this pass, in random order."""
    from .cpu_kernels import deal, shuffle

    samples = np.empty(len(ascent.active), dtype=np.int64)
    samples = samples[: deal(ascent.active, parts, part, ascent.seed[0], samples)]
    shuffle(samples, ascent.block, ascent.seed + np.uint64(part + 1))
    return Visit(samples, np.empty(len(samples)))


def _call_back(problem: Problem, ascent: Ascent, visited: int, close: bool) -> None:
    """Set the limits for the next pass; once the active ones have settled, take back those put aside."""
    high, low = ascent.limits[0], ascent.limits[1]
    if visited == len(ascent.everyone):
        ascent.settled = SETTLED * (high - low)
    loose = 1.0
    if not ascent.shrink or close or high - low <= ascent.settled:
        ascent.active = ascent.everyone.copy()
        loose = AGAIN if ascent.shrink and ascent.belief <= NEAR * ascent.tol else np.inf
    else:
        ascent.active = ascent.active[ascent.active >= 0]
        if ascent.block > 1:
            mask = np.zeros(problem.n, dtype=bool)
            mask[ascent.active] = True
            ascent.active = problem.where(mask)  # neighbours in memory again
    ascent.limits[2] = loose * high if high > 0 else np.inf
    ascent.limits[3] = loose * low if low < 0 else -np.inf


def go_further(problem: Problem, ascent: Ascent) -> None:
    """All along what they did since the last time; then those that moved f most to the maximum over their alpha_i."""
    size = min(BLOCK, math.isqrt(problem.n))
    reached = dual_of(problem, ascent, ascent.b)
    if ascent.mark is not None and ascent.mark.alpha is not None:
        some = np.flatnonzero(ascent.alpha != ascent.mark.alpha)
        before = ascent.mark.alpha[some]
        _leap(problem, ascent, some, ascent.alpha[some] - before, ascent.work - ascent.mark.f)
        if len(some) > size:
            moved = np.abs(ascent.alpha[some] - before) * problem.norms[some]
            some = some[np.argpartition(moved, -size)[-size:]]
        _settle(problem, ascent, some)
        ascent.b = ascent.centre + ascent.reach * float(ascent.balance[0])
        by_passes, reached = reached - ascent.marked, dual_of(problem, ascent, ascent.b)
        ascent.rest = 1.0 if reached - ascent.marked > (1 + WORTH) * by_passes else min(2 * ascent.rest, LONGEST)
    cost = (size * size / problem.n * problem.entries + BLOCK_CALLS) / (problem.entries + PASS_CALLS)
    ascent.due = ascent.passes + ascent.rest * max(cost / SHARE, 1.0)
    ascent.mark, ascent.marked = Start(ascent.work.copy(), 0.0, ascent.alpha.copy()), reached


def _leap(problem: Problem, ascent: Ascent, some: np.ndarray, did: Array, dw: Array) -> None:
    """These along what they did, which moved f by dw, to where D is largest, or as far as their boxes allow."""
    y, upper, stiffness, _ = ascent.facts[some].T
    alpha, b = ascent.alpha[some], ascent.centre + ascent.reach * float(ascent.balance[0])

    def along(did: Array, dw: Array) -> tuple[float, float, float, float]:
        """Where D is largest, its first part slope t - bend t^2 / 2, and sum did_i y_i."""
        stiff, turn = stiffness * did, float(did @ y)
        slope, bend = problem.loss.tilt * float(np.sum(did)) - float(alpha @ stiff), float(did @ stiff)
        gain = slope - float(ascent.work @ dw) - b * turn
        curve = bend + float(dw @ dw) + ascent.reach * turn * turn
        return max(gain / curve, 0.0) if curve > 0.0 else 0.0, slope, bend, turn

    far_off = min(along(did, dw)[0], FARTHEST)
    far = alpha + far_off * did
    to = np.clip(far, 0.0, upper)
    out = np.flatnonzero(far != to)
    did, dw = to - alpha, far_off * dw
    if len(out):  # back into their boxes
        dw -= problem.adjoint((far[out] - to[out]) * y[out], some[out])
    best, slope, bend, turn = along(did, dw)
    t = min(best, 1.0)
    ascent.alpha[some] = to if t == 1.0 else np.clip(alpha + t * did, 0.0, upper)
    ascent.work += t * dw
    ascent.balance += t * turn
    ascent.gain += t * slope - 0.5 * t * t * bend
    ascent.passes += len(out) / problem.n


def _settle(problem: Problem, ascent: Ascent, some: np.ndarray) -> None:
    """These at the maximum of D over all their alpha_i."""
    y, upper, stiffness, _ = ascent.facts[some].T
    before, b = ascent.alpha[some], ascent.centre + ascent.reach * float(ascent.balance[0])
    Q = (problem.gram(some) + ascent.reach) * np.outer(y, y) + np.diag(stiffness)
    slope = problem.loss.tilt - stiffness * before - y * (problem.scores(ascent.work, some) + b)
    room = upper - before
    change = box_qp.maximize(Q, slope, -before, room)
    after = np.where(change >= room, upper, np.clip(before + change, 0.0, upper))  # at a bound to the bit
    change = after - before
    ascent.alpha[some] = after
    ascent.work += problem.adjoint(change * y, some)
    ascent.balance += change @ y
    ascent.gain += float(np.sum(change * (problem.loss.tilt - 0.5 * stiffness * (before + after))))
    ascent.passes += len(some) ** 2 / problem.n


def sum_up(problem: Problem, ascent: Ascent) -> None:
    """f_alpha and all other sums anew from alpha. The mark goes: all would go further along the drift of rounding."""
    ascent.mark, ascent.summed = None, ascent.passes
    if not ascent.alpha.any():
        ascent.work = np.zeros(problem.size)
        ascent.balance[0] = ascent.gain = 0.0
        return
    f = problem.function(ascent.alpha)
    ascent.work = problem.scores(f) if problem.kind == "kernel" else f
    ascent.balance[0] = np.sum(ascent.alpha * problem.y)
    ascent.gain = problem.dual_gain(ascent.alpha)


def _block(problem: Problem) -> int:
    """A page of memory for every sample is slow; neighbours that stay together slow the ascent down a little."""
    size = 12 * problem.entries / max(problem.n, 1)  # bytes of a row, about
    if isinstance(problem, LinearProblem) and len(problem.X.order):  # of the same length
        return MOST
    return 1 if size * problem.n <= CACHE else int(np.clip(PAGE / size, 1, MOST))


def _compiled(problem, ascent, samples, before, work, balance, limits, echo=NO_ECHO) -> None:
    """Visit these samples."""
    from .cpu_kernels import dual_coordinate_pass

    dual_coordinate_pass(
        problem.rows,
        problem.kind == "kernel",
        ascent.facts,
        problem.loss.tilt,
        ascent.centre,
        ascent.reach,
        echo,
        ascent.alpha,
        work,
        balance,
        samples,
        before,
        limits,
    )


# for Newton's method --------------------------------------------------------------------------------------------------
def can_lift(problem: Problem, path: NewtonPath) -> bool:
    """Does D lag behind P there? Conjugate gradients leave what P hardly feels, and D most."""
    return problem.has_rows and problem.kind == "linear" and problem.loss.smooth and path.curved.gram is None


def lift(problem: Problem, path: NewtonPath) -> None:
    """An alpha with a larger D, by a few passes of ascent, where that may be all that is missing."""
    wanted, gap = path.tol * path.primal, path.gap
    if path.play.picked is not None or not wanted < min(gap, path.primal - path.dual) or gap > path.reach * wanted:
        return
    ascent = begin(problem, Start(path.f, path.b, path.alpha))
    for _ in range(LIFTS):
        path.passes += make_pass(problem, ascent) / problem.n
        alpha = problem.repair(ascent.alpha)
        dual = problem.dual(alpha) if problem.intercept == "free" else dual_of(problem, ascent, ascent.b)
        if dual > path.dual:
            path.dual, path.lifted = dual, alpha
        if path.primal - dual <= wanted:
            return
    path.reach = gap / (path.primal - path.dual)
