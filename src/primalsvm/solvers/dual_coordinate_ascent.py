r"""Dual coordinate ascent, in turns with Newton's method where it is slow.

Maximise D over one alpha_i at a time, exactly (the passes, their threads and how they go further: `ascent`):

    alpha_i <- clip(alpha_i + g_i / (|phi(x_i)|^2 + bend / c_i), 0, u c_i),     g_i = tilt - bend alpha_i / c_i - m_i

One step is as many updates as there are samples, in random order, O(nnz): one pass over all, or several over those that
are not put aside.

At large C the last f jitters about the optimum: P is judged at the average of recent ones, times the best factor; and
near the end P itself is looked at after each step, and the best f kept.

Where a turn of passes is not enough, Newton's method (`newton_path`) has the next one, from the best f so far and
around this alpha; then the ascent goes on from Newton's alpha. Each is the other's remedy. Among the eigenvectors of
the Hessian, conjugate gradients leave errors along those of large eigenvalue, which P hardly feels and D feels most;
an ascent one sample at a time removes exactly these first (it is a smoother, in the words of multigrid). And the
directions that take it for ever are the ones Newton finds at once. The best f and the best alpha need not come from
the same turn.

Hsieh, Chang, Lin, Keerthi, Sundararajan (2008), Algorithms 1 and 3; seed 004's Algorithm 3.
"""

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ..ascent import Ascent, begin, begin_again, can_lift, dual_of, go_further, lift, make_pass, sum_up
from ..losses import Array
from ..newton_path import NewtonPath, advance, begin_path, is_explicit
from ..piecewise import minimize_along
from ..problem import Problem
from ..solve import Solver, Start

ROUNDS = 10  # passes over the active samples in one step, at most: a call has its price too
REFRESH = 100  # passes after which f is summed up again from alpha, against the drift of rounding
FINE = 1e-8  # a belief from which on rounding would go further too
EARLY, PEEK = 3.0, 3.0  # passes, and times tol a belief, from which on P is computed: f jitters by then
AVERAGE = 16  # passes of a turn before averages are taken, and then in windows of a third of it
TURN = {True: 25, False: 40}  # passes of the first turn; where the loss is not smooth Newton has stages to go ...
GROWTH = 1.5  # ... and each turn's length over that of the last one
WAIT = 100.0  # passes: an ascent that will be done in so many keeps its turn, where a turn of Newton's is dear
UNFINISHED = 2  # times its turn Newton may take for its first stage
LIFT_REACH = 100.0  # times tol: a gap of Newton's from which a few passes may come down to tol


@dataclass
class State(Ascent):
    f: Array = field(default_factory=lambda: np.zeros(0))  # what is judged: work, or an average of it
    total: Array = field(default_factory=lambda: np.zeros(0))  # sum of f after each pass of the window, for the average
    window: int = 0  # how many
    window_end: float = AVERAGE
    rounds: int = 0  # passes over the active ones
    turn: float = 0.0  # length of a turn, in passes ...
    turn_began: float = 0.0
    turn_passes: float = 0.0  # passes before the ascent's turn
    trail: list[tuple[float, float]] = field(default_factory=list)  # ... and the belief after so many passes of it
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


@dataclass(frozen=True)
class DualCoordinateAscent(Solver):
    """As many updates as there are samples a step, in random order, each alpha_i set to its exact optimum."""

    name: ClassVar[str] = "dual_coordinate_ascent"
    needs: ClassVar[frozenset[str]] = frozenset({"rows"})
    shrink: bool = True
    newton: bool = True  # takes turns where the ascent is slow
    seed: int = 0

    def init(self, problem: Problem, start: Start | None = None) -> State:
        state = begin(problem, start, self.seed, self.shrink, State)
        assert isinstance(state, State)
        state.f = state.work if problem.kind == "linear" else state.alpha * problem.y
        state.total, state.turn = np.zeros(problem.size), TURN[problem.loss.smooth]
        return state

    def step(self, problem: Problem, state: State) -> None:
        if state.path is not None:
            turn = state.turn if state.path.stages else UNFINISHED * state.turn
            goes_on = state.path.hopeful or state.path.passes - state.turn_began < turn
            if not state.path.ended and goes_on:
                self._newton(problem, state, state.path)
                return
            self._take_over(problem, state, state.path)
        visits = 0
        averaging = problem.kind == "linear" and state.passes - state.turn_passes >= AVERAGE / 2
        for _ in range(ROUNDS):
            visits += make_pass(problem, state)
            state.rounds += 1
            if averaging:
                state.total += state.work
                state.window += 1
            if visits >= len(state.everyone) or state.belief <= state.tol:
                break
        state.passes += visits / max(len(state.everyone), 1)
        if state.passes - state.summed >= REFRESH:
            sum_up(problem, state)
        if problem.kind == "kernel":
            state.f = state.alpha * problem.y
            return
        if state.passes >= state.due and state.belief > max(FINE, state.tol):
            go_further(problem, state)
        state.f = state.work
        self._average(problem, state)
        peek = state.passes >= EARLY and state.belief <= PEEK * state.tol
        if peek:
            self._peek(problem, state)
        if state.best is not None and state.primal > 0:
            gap = (state.primal - dual_of(problem, state, state.best.b)) / state.primal
            if gap > 0.0 and (gap < state.belief or peek):  # with an unbalanced alpha and another b it can be anything
                state.f, state.b, state.belief = state.best.f, state.best.b, gap
        if self.newton and self._is_slow(state, state.turn if is_explicit(problem) else WAIT):
            self._hand_over(problem, state)

    @staticmethod
    def _is_slow(state: State, wait: float) -> bool:
        """Is the turn over, and tol more than so many passes away, at the rate of the second half of what was done?"""
        done, trail = state.work_done - state.turn_began, state.trail
        trail.append((done, state.belief))
        if done < state.turn:
            return False
        half, belief = trail[bisect_left(trail, (0.5 * done,)) - 1]
        rate = np.log(belief / state.belief) / (done - half) if 0 < state.belief < belief else 0.0
        return state.belief > 0 and bool(np.log(state.belief / max(state.tol, 1e-12)) > wait * rate)

    @staticmethod
    def _hand_over(problem: Problem, state: State) -> None:
        """Newton's turn, from the best f known."""
        dual = dual_of(problem, state, state.b)
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

    @staticmethod
    def _newton(problem: Problem, state: State, path: NewtonPath) -> None:
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

    @staticmethod
    def _take_over(problem: Problem, state: State, path: NewtonPath) -> None:
        """The ascent's turn, from Newton's alpha."""
        begin_again(problem, state, path.alpha, path.b)
        state.h, state.path = path.h, None
        state.total[:], state.window = 0.0, 0
        state.turn_passes, state.window_end = state.passes, state.passes + AVERAGE
        state.turn, state.turn_began, state.trail = GROWTH * state.turn, state.work_done, []

    @staticmethod
    def _average(problem: Problem, state: State) -> None:
        """At the end of a window, offer the average of its f where that has the smaller gap."""
        if not state.window or state.passes < state.window_end:
            return
        done = state.passes - state.turn_passes
        f = state.total / state.window
        state.total[:], state.window, state.window_end = 0.0, 0, state.passes + max(1.0, done / 3)
        margins = problem.margins(problem.scores(f), state.b)
        factor = 1.0
        if problem.intercept == "none":
            square = float(f @ f)
            factor = minimize_along(problem.loss, problem.cost, 0.0 * margins, margins, quadratic=square)
        primal = problem.primal(factor * f, state.b, factor * (problem.y * margins - state.b))
        gap = primal - dual_of(problem, state, state.b)
        if primal > 0 and gap / primal < state.belief:
            state.f, state.belief = factor * f, gap / primal

    @staticmethod
    def _peek(problem: Problem, state: State) -> None:
        """P itself, for a product. The last f jitters about the optimum: the best of several is worth keeping."""
        primal = problem.primal(state.f, state.b)
        if primal < state.primal:
            kept = None if state.best is None else state.best.alpha
            state.best, state.primal = Start(state.f.copy(), state.b, kept), primal
