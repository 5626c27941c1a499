r"""Dual coordinate ascent, in turns with Newton's method where it is slow.

Maximise D over one alpha_i at a time, exactly:

    alpha_i <- clip(alpha_i + g_i / (|phi(x_i)|^2 + bend / c_i), 0, u c_i),     g_i = tilt - bend alpha_i / c_i - m_i

keeping f = f_alpha up to date. Samples at a bound whose gradient says that they will stay there are put aside until the
others have settled. One step is as many updates as there are samples, in random order, O(nnz): one pass over all, or
several over those that are active.

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

A few samples can keep a whole ascent waiting: of two that are the same and have different labels, both alpha_i have a
long way to go, and each step of one undoes most of the other's. So every few passes all go on along what they have
done since the last time, to the maximum of D on that line; those that leave their boxes go back. It costs O(n + d).

At large C the last f jitters about the optimum: P is judged at the average of recent ones, times the best factor.

Where a turn of passes is not enough, Newton's method (`newton_path`) has the next one, from the best f so far and
around this alpha; then the ascent goes on from Newton's alpha. Each is the other's remedy. Among the eigenvectors of
the Hessian, conjugate gradients leave errors along those of large eigenvalue, which P hardly feels and D feels most;
an ascent one sample at a time removes exactly these first (it is a smoother, in the words of multigrid). And the
directions that take it for ever are the ones Newton finds at once. The best f and the best alpha need not come from
the same turn.

Hsieh, Chang, Lin, Keerthi, Sundararajan (2008), Algorithms 1 and 3; seed 004's Algorithm 3; for the intercept
Rockafellar (1976), the method of multipliers on the dual.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ..crew import in_parts
from ..losses import Array
from ..newton_path import NewtonPath, advance, begin_path
from ..piecewise import minimize_along
from ..problem import LinearProblem, Problem
from ..solve import Solver, Start

SETTLED = 0.1  # of the violation in the last full pass: then those put aside are looked at again
ROUNDS = 10  # passes over the active samples in one step, at most: a call has its price too
REFRESH = 100  # passes after which f is summed up again from alpha, against the drift of rounding
PAGE, CACHE = 4096, 8_000_000  # bytes that the memory fetches at once, and that the processor keeps
MOST = 8  # neighbours visited together: an ascent in cycles, of blocks too, is slower than one in random order
MEETINGS = 8  # of the threads in a pass, at most
PART_ENTRIES, COPIES = 400_000, 10  # of X, and times the length of f: what a thread should do between two meetings
IN_STEP, NEARLY = 0.6, 0.9  # of the sum of what they did: below, one goes on alone; from which on it is done whole
FIRST, LEAP = 12.0, 5.0  # passes before the first mark, and between two leaps: an easy problem is solved before
FARTHEST, FINE = 1000.0, 1e-8  # times what they did, at most; belief from which on rounding would leap too
EARLY, PEEK = 3.0, 3.0  # passes, and times tol a belief, from which on P is computed: f jitters by then
NONE = np.zeros(0)  # no echo
AVERAGE = 16  # passes of a turn before averages are taken, and then in windows of a third of it
REACH = 1000  # times mean |x|^2 over sum c |x|^2: a free b may move so far in a pass; further, and it ties all together
TURN, GROWTH = 25, 1.5  # passes of the first turn, and each turn's length over that of the last one
LIFT_REACH, LIFTS = 100.0, 4  # times tol: a gap from which so many passes may come down to tol
UNFINISHED = 2  # times its turn Newton may take for its first stage


@dataclass
class State:
    f: Array  # what is judged: work, or an average of it
    b: float
    alpha: Array  # (n,)
    work: Array  # what the pass updates: f_alpha, or the scores of f_alpha for a stored kernel matrix
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
    settled: float  # spread of the projected gradients at which those put aside are called back
    seed: np.ndarray  # (1,) state of the random numbers
    total: Array  # sum of f over the window, for the average
    window: int = 0  # how many
    window_end: float = AVERAGE
    passes: float = 0.0
    lack: float = 0.0  # the gap as seen during the last pass
    belief: float = np.inf
    tol: float = 0.0
    mark: Start | None = None  # f and alpha at the last leap ...
    marked: float = 0.0  # ... which was after so many passes
    alone: bool = False  # one thread is enough
    copies: Array | None = None  # (threads, d) of f
    echo: Array | None = None  # (d + 1,) see cpu_kernels.put_together; of the balance the last
    rounds: int = 0  # passes over the active ones
    turn: float = TURN  # length of a turn, in passes ...
    turn_began: float = 0.0
    turn_passes: float = 0.0  # passes before the ascent's turn
    began_with: float = np.inf  # ... and the belief half-way through
    path: NewtonPath | None = None  # Newton's, when it has the turn
    best: Start | None = None  # the best f and b of Newton's turns, and the best alpha of the ascent's,
    primal: float = np.inf  # with their P
    dual: float = -np.inf  # and D
    h: float = 0.0  # Newton's, at the end of its last turn
    least: float = np.inf  # the gap when Newton came to its end the last time
    ended: bool = False

    @property
    def work_done(self) -> float:
        """Passes over all samples; one over the active ones is a fifth at least, be they ever so few."""
        return max(self.passes, 0.2 * self.rounds)


class Visit(NamedTuple):
    """What a thread visits in a pass."""

    samples: np.ndarray
    before: Array  # their alpha_i then

    def share(self, meeting: int, meetings: int) -> "Visit":
        """Those before this meeting and after the last one."""
        begin, end = (len(self.samples) * k // meetings for k in (meeting, meeting + 1))
        return Visit(self.samples[begin:end], self.before[begin:end])


@dataclass(frozen=True)
class DualCoordinateAscent(Solver):
    """As many updates as there are samples a step, in random order, each alpha_i set to its exact optimum."""

    name: ClassVar[str] = "dual_coordinate_ascent"
    needs: ClassVar[frozenset[str]] = frozenset({"rows"})
    shrink: bool = True
    newton: bool = True  # takes turns where the ascent is slow
    seed: int = 0

    def init(self, problem: Problem, start: Start | None = None) -> State:
        from ..cpu_kernels import dual_facts

        alpha = np.zeros(problem.n)
        if start is not None and start.alpha is not None:
            alpha = np.clip(start.alpha, 0.0, problem.upper)
        everyone = problem.where(problem.cost > 0)
        reach = 0.0
        if problem.intercept == "penalized":
            reach = problem.intercept_scaling**2
        elif problem.intercept == "free":
            weight = float(problem.cost @ problem.squared_norms)
            reach = (float(np.mean(problem.squared_norms)) or 1.0) * min(1.0, REACH / weight if weight > 0 else 1.0)
        state = State(
            f=np.zeros(problem.size),
            b=0.0,
            alpha=alpha,
            work=np.zeros(0),
            balance=np.zeros(1),
            gain=0.0,
            centre=start.b if start is not None and problem.intercept == "free" else 0.0,
            reach=reach,
            everyone=everyone,
            active=everyone.copy(),
            block=_block(problem),
            facts=dual_facts(
                problem.y, problem.cost, problem.squared_norms, reach, problem.loss.bend, problem.loss.bound
            ),
            before=np.zeros(problem.n),
            limits=np.array([0.0, 0.0, np.inf, -np.inf, 0.0, 0.0, 0.0]),
            settled=0.0,
            seed=np.array([self.seed * 2 + 88172645463325253], dtype=np.uint64),
            total=np.zeros(problem.size),
        )
        self._refresh(problem, state)
        state.b = state.centre + state.reach * state.balance[0]
        return state

    def rough_start(self, problem: Problem, passes: int) -> Start:
        """Where so many passes lead, for a method that is better off with any start than with none."""
        state = self.init(problem)
        for _ in range(passes):
            self._pass(problem, state)
        return Start(state.work, state.b, state.alpha, passes=passes, rough=True)

    def step(self, problem: Problem, state: State) -> None:
        if state.path is not None:
            turn = state.turn if state.path.stages else UNFINISHED * state.turn
            if not state.path.ended and state.path.passes - state.turn_began < turn:
                self._newton(problem, state, state.path)
                return
            self._take_over(problem, state, state.path)
        visits, before = 0, state.passes
        for _ in range(ROUNDS):
            visits += self._pass(problem, state)
            state.rounds += 1
            if visits >= len(state.everyone) or state.belief <= state.tol:
                break
        state.passes += visits / max(len(state.everyone), 1)
        if state.passes // REFRESH > before // REFRESH:
            self._refresh(problem, state)
        if problem.kind == "kernel":
            state.f = state.alpha * problem.y
            return
        if state.passes >= FIRST and state.passes - state.marked >= LEAP and state.belief > FINE:
            self._leap(problem, state)
        state.f = state.work
        self._average(problem, state)
        peek = state.passes >= EARLY and state.belief <= PEEK * state.tol
        if peek:
            self._peek(problem, state)
        if state.best is not None and state.primal > 0:
            gap = (state.primal - self._dual(problem, state, state.best.b)) / state.primal
            if gap < state.belief or peek:
                state.f, state.b, state.belief = state.best.f, state.best.b, gap
        if self.newton and self._is_slow(state):
            self._hand_over(problem, state)

    @staticmethod
    def _is_slow(state: State) -> bool:
        """Is the turn over, and would another one of the same length not be enough?"""
        done = state.work_done - state.turn_began
        if done < 0.5 * state.turn:
            state.began_with = state.belief
        if done < state.turn:
            return False
        rate = np.log(state.began_with / state.belief) / (0.5 * done) if 0 < state.belief < state.began_with else 0.0
        return state.belief > 0 and bool(np.log(state.belief / max(state.tol, 1e-12)) > rate * state.turn)

    def _hand_over(self, problem: Problem, state: State) -> None:
        """Newton's turn, from the best f known."""
        dual = self._dual(problem, state, state.b)
        kept = None if state.best is None else state.best.alpha
        if dual > state.dual:
            state.dual, kept = dual, state.alpha.copy()
        path = begin_path(problem, state.f, state.b, state.alpha, 0.5 * state.h)
        if state.best is not None and state.primal < path.primal:
            path = begin_path(problem, state.best.f, state.best.b, state.alpha, 0.5 * state.h)
        state.best, state.primal = Start(path.f, path.b, kept), path.primal
        path.passes += state.passes
        path.reach = LIFT_REACH if can_lift(problem, path) else 0.0
        state.path, state.turn_began = path, state.passes

    def _newton(self, problem: Problem, state: State, path: NewtonPath) -> None:
        path.tol = state.tol
        advance(problem, path)
        lift(problem, path)
        state.f, state.b, state.alpha = path.f, path.b, path.alpha
        state.belief, state.passes = path.belief, path.passes
        if path.play.picked is None and state.best is not None:
            if path.primal < state.primal:
                state.best, state.primal = Start(path.f, path.b, state.best.alpha), path.primal
            gap = (path.primal - state.dual) / path.primal if path.primal > 0 else 0.0
            if gap < state.belief and state.best.alpha is not None:
                state.alpha, state.belief = state.best.alpha, gap
        if path.ended:
            state.ended = path.gap > 0.9 * state.least  # nor did the ascent help since the last time
            state.least = min(state.least, path.gap)

    def _take_over(self, problem: Problem, state: State, path: NewtonPath) -> None:
        """The ascent's turn, from Newton's alpha."""
        state.h, state.path, state.alpha = path.h, None, np.minimum(path.alpha, problem.upper)
        if problem.intercept == "free":
            state.centre = path.b
        self._refresh(problem, state)
        state.active = state.everyone.copy()
        state.limits[2:4] = np.inf, -np.inf
        state.lack, state.total[:], state.window = 0.0, 0.0, 0
        state.turn_passes, state.window_end = state.passes, state.passes + AVERAGE
        state.mark = None
        state.turn, state.turn_began = GROWTH * state.turn, state.work_done

    def _pass(self, problem: Problem, state: State) -> int:
        """One pass over the active samples; how many there were."""
        from ..cpu_kernels import shuffle

        visited, parts, meetings = len(state.active), 1, 0
        if isinstance(problem, LinearProblem) and not state.alone:
            parts = min(problem.X.threads, visited)
            share = problem.entries / problem.n * visited / max(parts, 1)
            meetings = min(int(share / (PART_ENTRIES + COPIES * problem.size)), MEETINGS)
        if parts > 1 and meetings:
            self._together(problem, state, parts, meetings)
        else:
            shuffle(state.active, state.block, state.seed)
            _compiled(problem, state, state.active, state.before, state.work, state.balance, state.limits)
            state.gain += state.limits[5] - 0.5 * state.limits[6]
        state.b = state.centre + state.reach * state.balance[0]
        if problem.intercept == "free":
            state.centre = state.b
        lack, state.lack = state.lack, state.limits[4]
        fall = min(state.lack / lack, 1.0) if lack > 0 else 1.0
        lack = state.lack * np.sqrt(fall)  # it was seen half a pass ago on average
        primal = self._dual(problem, state, state.b) + lack
        gap = lack / primal if primal > 0 else np.inf
        state.belief = gap  # as if those put aside were at their optimum; the judge will see
        self._call_back(problem, state, visited, close=gap <= state.tol)
        return visited

    @staticmethod
    def _dual(problem: Problem, state: State, b: float) -> float:
        """D(alpha) without a pass; where a free intercept is not balanced, the bound that would hold if b were best."""
        square = state.work @ (state.work if problem.kind == "linear" else state.alpha * problem.y)
        value = state.gain - 0.5 * float(square)
        if problem.intercept == "free":
            return value - b * float(state.balance[0])
        return value - problem.penalty(state.reach * state.balance[0])

    def _together(self, problem: Problem, state: State, parts: int, meetings: int) -> None:
        """One pass over the active samples by several threads."""
        from ..cpu_kernels import go_back, put_together

        guessed = state.copies is None
        if state.copies is None or state.echo is None or len(state.copies) != parts:
            state.copies, state.echo = np.empty((parts, problem.size)), np.full(problem.size + 1, float(parts))
        copies, echo, change, each = state.copies, state.echo, np.empty(problem.size), list(range(parts + 1))
        visits = in_parts(each, lambda part, _: self._deal(state, parts, part))
        state.seed[0] += np.uint64(parts)
        sums = np.array([-np.inf, np.inf, 0.0])  # what the parts say in limits[0], [1] and [4]
        for meeting in range(meetings):

            def work(part: int, _: int, meeting: int = meeting) -> tuple[float, Array]:
                f, balance, limits = copies[part], state.balance.copy(), state.limits.copy()
                f[:] = state.work
                _compiled(problem, state, *visits[part].share(meeting, meetings), f, balance, limits, echo)
                return (balance[0] - state.balance[0]) / echo[-1], limits

            turns, limits = map(np.array, zip(*in_parts(each, work), strict=True))
            turn, squares = float(np.sum(turns)), float(np.sum(turns * turns))
            inner, square = put_together(state.work, copies, echo, change)
            echo[-1] = max(turn * turn / squares, 1.0) if squares > 0.0 else echo[-1]
            # argmax over t >= 0 of D along what the threads did
            b = state.centre + state.reach * state.balance[0]
            slope, bend = float(np.sum(limits[:, 5])), float(np.sum(limits[:, 6]))
            gain = slope - inner - b * turn
            curve = bend + square + state.reach * turn * turn
            scale = max(gain / curve, 0.0) if curve > 0.0 else 1.0
            state.alone |= scale < IN_STEP and not guessed
            scale, guessed = scale if scale < NEARLY else 1.0, False
            state.gain += scale * slope - 0.5 * scale * scale * bend
            if scale < 1.0:

                def give_way(part: int, _: int, meeting: int = meeting, scale: float = scale) -> None:
                    go_back(*visits[part].share(meeting, meetings), scale, state.alpha)

                in_parts(each, give_way)
                change *= scale
            state.work += change
            state.balance += scale * turn
            sums = np.array([max(sums[0], *limits[:, 0]), min(sums[1], *limits[:, 1]), sums[2] + np.sum(limits[:, 4])])
        state.active = np.concatenate([visit.samples for visit in visits])
        state.limits[[0, 1, 4]] = sums

    @staticmethod
    def _deal(state: State, parts: int, part: int) -> Visit:
        """The samples that this thread has in this pass, in random order."""
        from ..cpu_kernels import deal, shuffle

        samples = np.empty(len(state.active), dtype=np.int64)
        samples = samples[: deal(state.active, parts, part, state.seed[0], samples)]
        shuffle(samples, state.block, state.seed + np.uint64(part + 1))
        return Visit(samples, np.empty(len(samples)))

    def _call_back(self, problem: Problem, state: State, visited: int, close: bool) -> None:
        """Set the limits for the next pass; once the active ones have settled, take back those put aside."""
        high, low = state.limits[0], state.limits[1]
        if visited == len(state.everyone):
            state.settled = SETTLED * (high - low)
        if not self.shrink or close or high - low <= state.settled:
            state.active = state.everyone.copy()
            state.limits[2:4] = np.inf, -np.inf
        else:
            state.active = state.active[state.active >= 0]
            if state.block > 1:
                mask = np.zeros(problem.n, dtype=bool)
                mask[state.active] = True
                state.active = problem.where(mask)  # neighbours in memory again
            state.limits[2] = high if high > 0 else np.inf
            state.limits[3] = low if low < 0 else -np.inf

    def _average(self, problem: Problem, state: State) -> None:
        """At the end of a window, offer the average of its f where that has the smaller gap."""
        done = state.passes - state.turn_passes
        if done < AVERAGE / 2:
            return
        state.total += state.work
        state.window += 1
        if state.passes < state.window_end:
            return
        f = state.total / state.window
        state.total[:], state.window, state.window_end = 0.0, 0, state.passes + max(1.0, done / 3)
        margins = problem.margins(problem.scores(f), state.b)
        factor = 1.0
        if problem.intercept == "none":
            square = float(f @ f)
            factor = minimize_along(problem.loss, problem.cost, 0.0 * margins, margins, quadratic=square)
        primal = problem.primal(factor * f, state.b, factor * (problem.y * margins - state.b))
        gap = primal - self._dual(problem, state, state.b)
        if primal > 0 and gap / primal < state.belief:
            state.f, state.belief = factor * f, gap / primal

    @staticmethod
    def _peek(problem: Problem, state: State) -> None:
        """P itself, for a product. The last f jitters about the optimum: the best of several is worth keeping."""
        primal = problem.primal(state.f, state.b)
        if primal < state.primal:
            kept = None if state.best is None else state.best.alpha
            state.best, state.primal = Start(state.f.copy(), state.b, kept), primal

    @staticmethod
    def _leap(problem: Problem, state: State) -> None:
        """Further along what the passes since the last leap did, to where D is largest."""
        mark, alpha = state.mark, state.alpha
        if mark is not None and mark.alpha is not None:
            did, dw = alpha - mark.alpha, state.work - mark.f
            far_off = min(_along(problem, state, did, dw).best, FARTHEST)
            far = alpha + far_off * did
            to = np.clip(far, 0.0, problem.upper)
            out = np.flatnonzero(far != to)
            did, dw = to - alpha, far_off * dw
            if len(out):  # back into their boxes
                dw -= problem.adjoint((far[out] - to[out]) * problem.y[out], out)
            way = _along(problem, state, did, dw)
            t = min(way.best, 1.0)
            alpha += t * did
            state.work += t * dw
            state.balance += t * way.turn
            state.gain += t * way.slope - 0.5 * t * t * way.bend
            state.passes += len(out) / problem.n
        state.mark, state.marked = Start(state.work.copy(), 0.0, alpha.copy()), state.passes

    @staticmethod
    def _refresh(problem: Problem, state: State) -> None:
        if not state.alpha.any():
            state.f = state.work = np.zeros(problem.size)
            state.balance[0] = state.gain = 0.0
            return
        state.f = f = problem.function(state.alpha)
        state.work = problem.scores(f) if problem.kind == "kernel" else f
        state.balance[0] = np.sum(state.alpha * problem.y)
        state.gain = problem.dual_gain(state.alpha)


class Way(NamedTuple):
    """D along a change of alpha: where it is largest, its first part slope t - bend t^2 / 2, and sum change_i y_i."""

    best: float
    slope: float
    bend: float
    turn: float


def _along(problem: Problem, state: State, change: Array, dw: Array) -> Way:
    """With dw = sum change_i y_i x_i."""
    tilt, bend, b = problem.loss.tilt, problem.loss.bend, state.centre + state.reach * float(state.balance[0])
    share, turn = problem.share(change), float(np.sum(change * problem.y))
    slope, curve = tilt * float(np.sum(change)) - bend * float(state.alpha @ share), bend * float(change @ share)
    gain = slope - float(state.work @ dw) - b * turn
    whole = curve + float(dw @ dw) + state.reach * turn * turn
    return Way(max(gain / whole, 0.0) if whole > 0.0 else 0.0, slope, curve, turn)


def _block(problem: Problem) -> int:
    """A page of memory for every sample is slow; neighbours that stay together slow the ascent down a little."""
    size = 12 * problem.entries / max(problem.n, 1)  # bytes of a row, about
    if isinstance(problem, LinearProblem) and len(problem.X.order):  # of the same length
        return MOST
    return 1 if size * problem.n <= CACHE else int(np.clip(PAGE / size, 1, MOST))


def _compiled(problem, state, samples, before, work, balance, limits, echo=NONE) -> None:
    """Visit these samples."""
    from ..cpu_kernels import dual_coordinate_pass

    dual_coordinate_pass(
        problem.rows,
        problem.kind == "kernel",
        state.facts,
        problem.loss.tilt,
        state.centre,
        state.reach,
        echo,
        state.alpha,
        work,
        balance,
        samples,
        before,
        limits,
    )


# the other way round: what passes of ascent do for Newton's method ----------------------------------------------------
def can_lift(problem: Problem, path: NewtonPath) -> bool:
    """Does D lag behind P there? Conjugate gradients leave what P hardly feels, and D most."""
    return problem.has_rows and problem.kind == "linear" and problem.loss.smooth and path.curved.gram is None


def lift(problem: Problem, path: NewtonPath) -> None:
    """An alpha with a larger D, by a few passes of ascent, where that may be all that is missing."""
    wanted, gap = path.tol * path.primal, path.gap
    if path.play.picked is not None or not wanted < min(gap, path.primal - path.dual) or gap > path.reach * wanted:
        return
    ascent = DualCoordinateAscent(newton=False)
    state = ascent.init(problem, Start(path.f, path.b, path.alpha))
    for _ in range(LIFTS):
        path.passes += ascent._pass(problem, state) / problem.n
        alpha = problem.repair(state.alpha)
        dual = problem.dual(alpha) if problem.intercept == "free" else ascent._dual(problem, state, state.b)
        if dual > path.dual:
            path.dual, path.lifted = dual, alpha
        if path.primal - dual <= wanted:
            return
    path.reach = gap / (path.primal - path.dual)
