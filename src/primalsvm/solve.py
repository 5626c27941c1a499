"""The one loop: step, judge, record, stop. Time, tolerance, history, printing and Ctrl-C live here and nowhere else.

A solver is a frozen dataclass of hyperparameters with

    needs                     what the problem must offer: "smooth", "lipschitz", "linear", "kernel", "strongly_convex",
                              "rows" (in memory, for compiled loops)
    init(problem, start)      a state: a dataclass with .f, .b, .alpha (None if it has none) and .passes
    step(problem, state)      one iteration, in place

and inherits from Solver, which registers it under its name. A state may also have

    ended                     True when the method has come to an end by itself
    belief                    the relative gap it believes to have: the judge then looks when that is small enough,
                              and does not take its word for it
    tol                       set by the loop: the relative gap that is wanted
    exact_b                   True where its b is about the best one for its f: on the way nobody looks for another
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from .certificate import Certificate, bound_nothing, certificate, relative_gap
from .losses import EPS, Array
from .problem import Problem

PATIENCE = 10  # certificates in a row without any progress, while the number of steps tripled: stalled
FREE_WORK = 1_000_000  # multiplications, a millisecond: below this accuracy costs nothing, see Judge.satisfied
FURTHER = 0.3  # of the gap: the next goal where work is free
JUDGING_SHARE = 0.1  # of the solver's passes over the data may go into certificates


class State(Protocol):
    f: Array
    b: float
    alpha: Array | None
    passes: float


class Start(NamedTuple):
    """Where to start: a primal point, and a dual point if there is one; and what it took to get there."""

    f: Array
    b: float = 0.0
    alpha: Array | None = None
    steps: int = 0
    passes: float = 0.0
    rough: bool = False  # a guess: the judge need not see it


class Solver:
    """Base of all solvers; see the module's text for what one must have."""

    name: ClassVar[str]
    needs: ClassVar[frozenset[str]] = frozenset()
    registry: ClassVar[dict[str, type["Solver"]]] = {}

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        Solver.registry[cls.name] = cls

    def init(self, problem: Any, start: Start | None = None) -> Any:
        raise NotImplementedError

    def step(self, problem: Any, state: Any) -> None:
        raise NotImplementedError


class Record(NamedTuple):
    """One line of the history: the best bounds known after `iteration` steps and `seconds` of the solver's time."""

    iteration: int
    seconds: float
    passes: float
    primal: float
    dual: float
    gap: float


@dataclass(frozen=True)
class Result:
    """The best model found, its certificate, and how the run went."""

    f: Array
    b: float
    alpha: Array  # the feasible dual point that proves the lower bound
    certificate: Certificate
    status: str  # converged, max_iter, max_seconds, interrupted, stopped, stalled, diverged
    iterations: int
    seconds: float
    history: tuple[Record, ...]


WORDS = {
    "smooth": "a smooth loss",
    "lipschitz": "a Lipschitz loss",
    "linear": "a linear problem",
    "kernel": "a kernel problem",
    "strongly_convex": "a penalised intercept or none",
    "rows": "all rows in memory",
}


def check_accepts(problem: Problem, solver: Solver) -> None:
    """Raise ValueError, with a sentence, where the problem lacks what the solver needs."""
    missing = sorted(solver.needs - problem.offers)
    if missing:
        wanted = " and ".join(WORDS.get(trait, trait) for trait in missing)
        others = [name for name, other in Solver.registry.items() if other.needs <= problem.offers]
        raise ValueError(
            f"{solver.name} needs {wanted}; this is a {problem.kind} problem with the {problem.loss.name} loss"
            f"{'' if problem.has_rows else ', whose rows come in pieces'}. "
            f"Solvers that accept it: {', '.join(others) or 'none yet'}."
        )


class Judge:
    """Keeps the best primal point, the best dual point and the history; decides when judging is worth its time.

    A certificate is due when the solver believes to be there. One without a belief is looked at when the iteration
    number has doubled since the last time, and otherwise whenever all certificates together have taken less than a
    tenth of the solver's work. The deep ones (a polished lower bound, for solvers without an alpha) must pay their way
    in the same manner. Work is counted in passes over the data, not in seconds: the same problem gives the same model
    on a busy machine too.
    """

    def __init__(self, problem: Problem, tol: float, certify_every: int | None, free_work: float = FREE_WORK):
        self.problem, self.tol, self.certify_every, self.free_work = problem, tol, certify_every, free_work
        self.primal, self.dual, self.reachable, self.rounding = np.inf, 0.0, np.inf, 0.0
        self.best = Start(np.zeros(problem.size), 0.0, None)
        self.alpha = np.zeros(problem.n)
        self.polished = False
        self.history: list[Record] = []
        self.passes = self.deep_passes = 0.0
        self.last_iteration = self.moved_at = self.unmoved = 0
        # what a solver should aim at: where accuracy is free, as far as it goes
        self.goal = tol if 100 * problem.entries >= free_work else 0.0

    def due(self, state: State, iteration: int) -> bool:
        if self.certify_every is not None:
            return iteration % self.certify_every == 0
        doubled = iteration >= 2 * self.last_iteration
        if hasattr(state, "belief"):
            affordable = self.passes + 3.0 <= JUDGING_SHARE * state.passes
            hope = max(self.goal, EPS)  # a belief below EPS is one of nothing left
            return state.belief <= hope or (affordable and doubled)
        return self.passes <= JUDGING_SHARE * state.passes or doubled

    def deep_due(self, solver_passes: float) -> bool:
        return self.deep_passes <= JUDGING_SHARE * solver_passes

    def begin(self, seconds: float) -> None:
        """Record what needs no pass: P(0) and D(0) = 0."""
        self.primal, self.rounding = bound_nothing(self.problem)
        self.reachable = self.primal
        self.history.append(Record(0, seconds, 0.0, self.primal, 0.0, self.primal))

    def look(
        self,
        point: Start,
        iteration: int,
        seconds: float,
        passes: float,
        *,
        on_the_way: bool = False,
        deep: bool = False,
        **limits: float,
    ) -> float:
        """Judge a point, record the best bounds known, and return its own relative gap.

        One on the way, with a b that is about the best one for its f, is not worth a search for that.
        """
        any_b = None if on_the_way else self.problem.intercept == "free"
        seen = certificate(self.problem, point.f, point.b, point.alpha, any_b=any_b, tol=self.tol, deep=deep, **limits)
        before = (self.primal, self.dual)
        if seen.primal < self.primal:
            self.primal, self.rounding = seen.primal, seen.rounding
            self.best = Start(point.f.copy(), seen.b)
        if seen.dual > self.dual and seen.alpha is not None:
            self.dual, self.alpha, self.polished = seen.dual, seen.alpha, seen.polished
        self.reachable = min(self.reachable, seen.reachable)
        self.last_iteration = iteration
        self.unmoved += 1
        if before != (self.primal, self.dual):
            self.moved_at, self.unmoved = iteration, 0
        self.passes += seen.passes
        self.deep_passes += seen.passes if deep else 0.0
        self.history.append(
            Record(iteration, seconds, passes, self.primal, self.dual, max(0.0, self.primal - self.dual))
        )
        return seen.relative_gap

    @property
    def relative_gap(self) -> float:
        return relative_gap(self.primal, self.dual)

    def satisfied(self, passes: float) -> bool:
        """Is the tolerance met, and would going on cost more than nothing, or bring nothing?

        A problem of a few thousand numbers is solved as far as float64 goes: then its answer does not depend on the
        order of the rows, on how X is stored, or on whether a row stands twice or weighs double.
        """
        hopeful = self.relative_gap > 1e-14 and self.unmoved < PATIENCE
        cheap = passes * self.problem.entries < self.free_work and hopeful
        return self.relative_gap <= self.tol and not cheap

    def stalled(self, iteration: int) -> bool:
        return self.unmoved >= PATIENCE and iteration >= 3 * self.moved_at

    def line(self) -> str:
        r = self.history[-1]
        bounds = f"primal {r.primal:<14.8g} dual {r.dual:<14.8g} relative gap {self.relative_gap:.1e}"
        return f"step {r.iteration:<6d} {r.seconds:8.2f} s   {bounds}"

    def certificate(self, solver: str) -> Certificate:
        return Certificate(
            self.primal,
            self.dual,
            min(self.reachable, self.primal),
            self.best.b,
            self.rounding,
            self.polished,
            self.passes,
            self.alpha,
            solver,
        )


def solve(
    problem: Problem,
    solver: Solver,
    *,
    tol: float = 1e-3,
    max_iter: int = 1000,
    max_seconds: float | None = None,
    certify_every: int | None = None,
    callback: Callable[[Record], Any] | None = None,
    stop: Callable[[], bool] | None = None,
    start: Start | None = None,
    verbose: str = "",
    free_work: float = FREE_WORK,
) -> Result:
    """Run `solver` on `problem` until P - D <= tol P, proven by the judge, or until something else ends the run.

    Ctrl-C ends it with status "interrupted" and the best model so far; the caller decides what to raise.

    Parameters
    ----------
    tol : relative duality gap to reach.
    max_iter, max_seconds : limits on the number of steps and on wall-clock time.
    certify_every : judge every so many steps; None lets judging take about a tenth of the work.
    callback : called with each Record; returning True stops the run with status "stopped".
    stop : asked after every step; True ends the run with status "stopped".
    start : a point to start from, for instance that of a problem with a similar C.
    verbose : a name to print one line per certificate under; "" prints nothing.
    free_work : multiplications within which a problem is solved as far as float64 goes, whatever the tolerance.
    """
    check_accepts(problem, solver)
    judge = Judge(problem, tol, certify_every, free_work)
    clock = time.perf_counter()
    seconds, iteration, status = 0.0, 0, ""
    state: Any = None
    try:
        if start is None or start.rough:
            judge.begin(seconds)
        else:  # the start's own f, which need not be what a dual solver makes of its alpha
            iteration = start.steps
            judge.look(start, iteration, seconds, start.passes)
            status = "converged" if judge.relative_gap <= tol else ""
            if not status and 0 < max_iter <= iteration:
                status = "max_iter"
            if callback is not None and callback(judge.history[-1]) and not status:
                status = "stopped"
        if not status:
            begin = time.perf_counter()
            state = solver.init(problem, start)
            seconds += time.perf_counter() - begin
        while not status:
            begin = time.perf_counter()
            if hasattr(state, "tol"):
                state.tol = judge.goal
            with np.errstate(over="ignore", invalid="ignore"):
                solver.step(problem, state)
            seconds += time.perf_counter() - begin
            iteration += 1
            out_of_time = max_seconds is not None and time.perf_counter() - clock >= max_seconds
            ended = getattr(state, "ended", False)  # a solver may know that it has nothing left to do
            halted = stop is not None and stop()
            if not np.isfinite(state.f).all():
                status = "diverged"
            elif judge.due(state, iteration) or iteration >= max_iter or out_of_time or ended or halted:
                point, believed = Start(state.f, state.b, state.alpha), getattr(state, "belief", np.inf)
                # a solver without an alpha may need the deep look to see a small gap at all
                deep = point.alpha is None and iteration > 1 and judge.deep_due(state.passes)
                limit = JUDGING_SHARE * state.passes
                last = iteration >= max_iter or out_of_time or ended or halted
                way = not last and getattr(state, "exact_b", False) and believed > max(judge.goal, EPS)
                found = judge.look(point, iteration, seconds, state.passes, on_the_way=way, deep=deep, max_passes=limit)
                if believed <= judge.goal < found:  # too much: let it go further before the next look
                    judge.goal *= min(max(0.9 * judge.goal / found, 0.3), 0.9)
                    if hasattr(state, "tol"):
                        state.tol = judge.goal
                        ended = getattr(state, "ended", False)
                if judge.relative_gap <= tol:  # what follows is free, and worth a look when it is some way further
                    judge.goal = min(judge.goal, FURTHER * judge.relative_gap)
                if verbose:
                    print(f"[{verbose}] {judge.line()}", flush=True)
                if judge.satisfied(state.passes):
                    status = "converged"
                elif (callback is not None and callback(judge.history[-1])) or halted:
                    status = "stopped"
                elif ended or judge.stalled(iteration):
                    status = "stalled"
            if not status and iteration >= max_iter:
                status = "max_iter"
            if not status and out_of_time:
                status = "max_seconds"
    except KeyboardInterrupt:
        status = "interrupted"
        if state is not None and np.isfinite(state.f).all():
            judge.look(Start(state.f, state.b, state.alpha), iteration, seconds, state.passes)
    unproven = judge.relative_gap > tol and state is not None and state.alpha is None
    if unproven and status in ("max_iter", "max_seconds", "stalled"):
        limit = np.inf if max_seconds is None else JUDGING_SHARE * max_seconds
        judge.look(judge.best, iteration, seconds, state.passes, deep=True, max_seconds=limit)
    if judge.relative_gap <= tol and status not in ("interrupted", "stopped"):
        status = "converged"
    if verbose:
        print(f"[{verbose}] {status} after {iteration} steps: {judge.certificate(solver.name)}", flush=True)
    f, b = judge.best[:2]
    return Result(f, b, judge.alpha, judge.certificate(solver.name), status, iteration, seconds, tuple(judge.history))
