r"""Sequential minimal optimisation in working sets, for kernels.

D is maximised over a working set of up to a thousand samples at a time, pair by pair, with the matrix between them in
the processor's cache; then the scores of all others follow by one product with the rows of K whose beta_j changed. The
set is made of the samples that violate optimality most,

    e_i = y_i (tilt - bend alpha_i / c_i) - f(x_i),     max over those that may rise  >  min over those that may fall,

and of those of the last set. Rows of K are computed in float32 on the samples in play only, and kept in a ring of
memory. A sample at its bound that cannot be part of any violating pair is left out of play. Small problems are simpler:
all rows that were ever needed are kept, and everybody is in play; so it is where K is held as a whole.

Float32 rows and samples left out make the scores drift. They are therefore computed afresh whenever the solver believes
to be done, in float64 wherever that matters (`KernelProblem.scored`); what it found wrong then, it goes on with. So any
accuracy can be reached, each time with small corrections, and the certificate, which needs the same scores, costs
nothing more.

One step is one working set: q rows of K on the samples in play, at most. `passes` counts entries of K over n^2.

Keerthi, Shevade, Bhattacharyya, Murthy (2001), List et al. (2007) for the violating pair; Fan, Chen, Lin (2005) for the
second-order partner; Joachims (1999) for working sets and shrinking. Without a free intercept single samples take the
place of pairs.
"""

import weakref
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..kernel_matrix import TILE
from ..kernel_rows import NOTHING, KeptRows, RowRing, take_room
from ..losses import EPS, Array
from ..piecewise import minimize_along
from ..problem import KernelProblem
from ..solve import Solver, Start

FEW = 4096  # samples up to which rows are kept for good
FIRST, MORE = 32, 0.25  # how many come at a time: so many at least, and such a share of those there are
PART = 8  # a working set is one sample in so many, but not fewer than 64
NEW = 0.5  # of a working set is chosen afresh
INNER = 0.05  # a working set is solved until its violation has fallen to this share
INNER_KEPT = 0.02  # ... and a small problem to this one, each time
INNER_STEPS = 50  # steps for each of its samples, at most
LEAVE = 0.7  # those in play are gathered anew when they are fewer than this share
EARLY, EARLY_BYTES, LATE = 2, 2**27, 50  # as long as nobody has left, or so many steps: rows of so many sets, or bytes
CACHE_SHARE = 0.2  # of the memory limit for rows of K
NEAR = 0.1  # of the present range of violations beyond it: those at bounds within stay in play
NOISE = 8 * EPS  # of what the scores are sums of: a violation that is rounding
SURE = 0.97  # of the tolerance: a guess below it will not be above it in float64
OFTEN = 500  # steps between two refreshes, at most
PATIENCE = 5  # refreshes without progress, and it is over
ROUGHLY = 1e-6  # of the changes: how far float32 products may be off
LOOK_EVERY = 4  # steps between two looks at who may leave
EVERYBODY = slice(None)


@dataclass
class WorkingSet:
    samples: np.ndarray
    matrix: np.ndarray  # K between them


def _violation(up: Array, down: Array, paired: bool) -> float:
    """Of optimality: by a pair, the largest e_i that may rise over the least that may fall; or by one of them."""
    top, bottom = np.max(up, initial=-np.inf), np.min(down, initial=np.inf)
    return float(top - bottom if paired else max(top, -bottom, 0.0))


@dataclass
class State:
    f: Array  # what is judged: beta, or a multiple of it
    b: float
    alpha: Array
    beta: Array  # y alpha
    scores: Array  # (n,) of beta: exact after a refresh, then with float32 products on top; out of play they are old
    upper: Array
    active: np.ndarray  # samples in play
    kept: KeptRows | None = None  # for small problems, else:
    size: int = 0  # of a working set
    ring: RowRing | None = None
    room: np.ndarray | None = None  # the memory of rings
    early: bool = True  # nobody has left
    set: WorkingSet | None = None
    dual: float = 0.0
    drift: float = 0.0  # sum of k_jj (change of beta_j)^2 since the last refresh, in the changes added in float32
    since: int = 0  # steps since somebody left
    steps: int = 0  # since the last refresh
    fruitless: int = 0  # refreshes that showed no better gap
    violation: float = np.inf
    belief: float = np.inf
    guess: float = np.inf  # of the belief, from scores that are not fresh
    best: float = np.inf  # belief so far
    tol: float = 0.0
    passes: float = 0.0
    ended: bool = False


@dataclass(frozen=True)
class SMO(Solver):
    """One working set of at most `size` samples."""

    name: ClassVar[str] = "smo"
    needs: ClassVar[frozenset[str]] = frozenset({"kernel"})
    size: int = 1024
    shrink: bool = True

    def init(self, problem: KernelProblem, start: Start | None = None) -> State:
        alpha = np.zeros(problem.n)
        if start is not None and start.alpha is not None:
            alpha = problem.project(start.alpha)
        beta = alpha * problem.y
        state = State(beta, 0.0, alpha, beta, np.zeros(problem.n), problem.upper, self.everyone(problem))
        if problem.K.held or (problem.n <= FEW and 8 * problem.K.size <= CACHE_SHARE * problem.K.memory_limit):
            state.kept = KeptRows(problem.K)
        state.size = min(self.size, max(len(state.active) // PART, 64))
        state.passes = float(problem.K.held)
        if alpha.any():
            b = problem.intercept_of(alpha) if problem.intercept != "free" else start.b  # type: ignore[union-attr]
            state.scores = problem.scored(state.f, b)[0].copy()
            state.dual = problem.dual(alpha, state.f)
            state.passes += np.count_nonzero(alpha) / problem.n
        self._look(problem, state, state.active)
        return state

    def step(self, problem: KernelProblem, state: State) -> None:
        gain = (
            self._with_kept_rows(problem, state) if state.kept is not None else self._with_a_working_set(problem, state)
        )
        state.since += 1
        state.belief = np.inf
        self._look(problem, state, state.active)
        longest = float(np.max(problem.norms))
        idle = not gain > 0.0 or state.violation <= NOISE * (1.0 + longest * float(np.abs(state.beta) @ problem.norms))
        drift = ROUGHLY * longest * float(np.sqrt(state.drift))
        state.steps += 1
        if idle or state.guess <= SURE * state.tol or state.violation <= drift or state.steps >= OFTEN:
            self._refresh(problem, state, idle)
        elif self.shrink and state.kept is None and state.since >= LOOK_EVERY:
            self._leave(problem, state, state.active)
        if state.early and state.steps >= LATE:
            state.ring, state.early = None, False

    # --- one working set ------------------------------------------------------------------------------------------
    def _survey(self, problem: KernelProblem, state: State, who):
        """(top, bottom, up, down) of the given samples: e_i where beta_i may rise, and where it may fall."""
        from ..working_sets import survey

        loss = problem.loss
        b = problem.intercept_of(state.alpha)  # 0 where it is free: then it is the middle of the e_i
        args = (state.scores[who], problem.y[who], state.beta[who], problem.cost[who])
        up, down = np.empty(len(args[0])), np.empty(len(args[0]))
        top, bottom = survey(*args, loss.tilt, loss.bend, loss.bound, b, up, down)
        return top, bottom, up, down

    def _ascend(
        self, problem: KernelProblem, state: State, chosen, rows: np.ndarray, slot: np.ndarray, features: np.ndarray
    ):
        """(beta, scores, gain of D, steps) of the chosen samples, given rows of K between them; b is in the scores."""
        from ..working_sets import ascend_on_rows

        y, cost, upper, loss = problem.y[chosen], problem.cost[chosen], state.upper[chosen], problem.loss
        constant = problem.intercept_scaling**2 if problem.intercept == "penalized" else 0.0
        bend = np.divide(loss.bend, cost, out=np.zeros(len(cost)), where=cost > 0)
        beta = state.beta[chosen].copy()
        e = y * loss.tilt - bend * beta - state.scores[chosen] - problem.intercept_of(state.alpha)
        low, high = np.where(y > 0, 0.0, -upper), np.where(y > 0, upper, 0.0)
        curve = problem.squared_norms[chosen] + constant + bend
        most = INNER_STEPS * len(beta) + 1000
        paired = problem.intercept == "free"
        ratio = INNER if chosen is not EVERYBODY else INNER_KEPT
        steps, gain = ascend_on_rows(
            rows, slot, features, curve, low, high, beta, e, paired, constant, 1e-15, ratio, most
        )
        return beta, y * loss.tilt - bend * beta - e, gain, steps

    def _with_kept_rows(self, problem: KernelProblem, state: State) -> float:
        """Ascend on everybody, with more rows of K if need be. Returns by how much D has grown."""
        kept = state.kept
        assert kept is not None
        before, count = state.beta, kept.count
        if not kept.complete and len(new := self._wanted(problem, state, kept)):
            kept.bring(new)
        state.beta, scores, gain, steps = self._ascend(problem, state, EVERYBODY, kept.values, kept.slot, kept.features)
        brought = kept.count - count
        state.passes += (brought + (steps if problem.K.held else 0)) / problem.n  # rows computed, or read
        state.alpha = problem.y * state.beta
        state.scores = scores - problem.intercept_of(state.alpha)
        state.f = state.beta
        state.dual += gain
        if not problem.K.held:
            state.drift += float(problem.squared_norms @ (state.beta - before) ** 2)
        return gain if gain > 0.0 else EPS * float(brought > 0)

    def _wanted(self, problem: KernelProblem, state: State, kept: KeptRows) -> np.ndarray:
        """Those that violate most on either side and have no row, unless others violate half as much."""
        _, _, up, down = self._survey(problem, state, EVERYBODY)
        missing, known, paired = np.flatnonzero(kept.slot < 0), kept.slot >= 0, problem.intercept == "free"
        if 2.0 * _violation(up[known], down[known], paired) > _violation(up, down, paired):
            return missing[:0]
        half = max(FIRST, int(MORE * kept.count)) // 2
        wanted = []
        for values in (-up[missing], down[missing]):
            few = np.argpartition(values, half)[:half] if half < len(missing) else np.arange(len(missing))
            wanted.append(few[np.isfinite(values[few])])
        return missing[np.unique(np.concatenate(wanted))]

    def _with_a_working_set(self, problem: KernelProblem, state: State) -> float:
        """Ascend on a working set, then bring the scores of all in play up to date. Returns by how much D has grown."""
        if not len(state.active):  # nobody has a cost
            return 0.0
        top, bottom, up, down = self._survey(problem, state, state.active)
        if problem.intercept != "free":  # a single one violates optimality if its e_i is on the wrong side of 0
            top = bottom = 0.0
        state.set = self._working_set(problem, state, self._choose(state, top, bottom, up, down))
        chosen = state.set.samples
        beta, _, gain, _ = self._ascend(problem, state, chosen, state.set.matrix, np.arange(len(chosen)), NOTHING)
        change = beta - state.beta[chosen]
        moved = np.flatnonzero(change)
        if not len(moved):
            return 0.0
        state.beta[chosen] = beta
        state.alpha[chosen] = problem.y[chosen] * beta
        state.f = state.beta
        if problem.K.held:
            state.scores += change[moved] @ problem.K.array()[chosen[moved]]
            state.passes += len(moved) / problem.n
        else:
            part = state.scores[state.active]
            computed = self._ring(problem, state).add(chosen[moved], change[moved], part)
            state.scores[state.active] = part
            state.drift += float(problem.squared_norms[chosen] @ change**2)
            state.passes += computed * len(state.active) / problem.n**2
        state.dual += gain
        return gain

    def _choose(self, state: State, top: float, bottom: float, up: Array, down: Array) -> np.ndarray:
        """The most violating ones on both sides."""
        active = state.active
        half = max(state.size // 2 if state.set is None else int(state.size * NEW) // 2, 1)
        if len(active) <= half:
            return active
        sides = []
        for values, limit in ((-up, -bottom), (down, top)):
            few = np.argpartition(values, half)[:half]
            sides.append(few[values[few] < limit])  # the others violate nothing
        return active[np.unique(np.concatenate(sides))]

    def _working_set(self, problem: KernelProblem, state: State, new: np.ndarray) -> WorkingSet:
        """The new ones and as many of the last set, those inside their boxes first; their matrix is known."""
        last, K, k = state.set, problem.K, len(new)
        if len(new) == len(state.active):
            last = None
        kept = np.zeros(0, dtype=np.int64)
        if last is not None:
            kept = np.flatnonzero(~np.isin(last.samples, new))
            alpha = state.alpha[last.samples[kept]]
            inside = (alpha > 0) & (alpha < state.upper[last.samples[kept]])
            kept = np.concatenate([kept[inside], kept[~inside]])[: max(state.size - k, 0)]
        samples = new if last is None else np.concatenate([new, last.samples[kept]])
        if K.held:
            return WorkingSet(samples, K.block(samples, samples))
        columns = self._ring(problem, state).columns
        matrix = np.empty((len(samples), len(samples)), dtype=columns.dtype)
        matrix[:k] = columns.block(new, samples)
        if last is not None:
            matrix[k:, :k] = matrix[:k, k:].T
            matrix[k:, k:] = last.matrix[np.ix_(kept, kept)]
        state.passes += k * len(samples) / problem.n**2
        return WorkingSet(samples, matrix)

    def _ring(self, problem: KernelProblem, state: State) -> RowRing:
        """Rows over those in play. One ring after the other takes the same memory, which is dear where it is new; and
        as long as nobody has left, sets move on through the samples, and few rows but those of the last are met again.
        """
        if state.ring is None:
            columns = problem.K.columns(state.active)
            if state.room is None:
                size = CACHE_SHARE * problem.K.memory_limit / columns.dtype.itemsize
                size = int(min(size, columns.tiles * TILE * problem.n))
                state.room = take_room(problem.K.rooms, size, columns.dtype)
                weakref.finalize(state, problem.K.rooms.append, state.room)  # for the next pair of classes
            rows = min(max(len(state.room) // (columns.tiles * TILE), 64), problem.n)
            few = max(EARLY * state.size, EARLY_BYTES // (columns.tiles * TILE * columns.dtype.itemsize), 64)
            state.ring = RowRing(columns, problem.n, min(rows, few) if state.early else rows, state.room)
        return state.ring

    # --- who is in play, and how far it is ------------------------------------------------------------------------
    def _look(self, problem: KernelProblem, state: State, who: np.ndarray) -> None:
        """The gap that these samples' scores show, and with a free intercept b: the middle of where e_i should be."""
        from ..working_sets import sample_gaps

        top, bottom, up, down = self._survey(problem, state, who)
        if problem.intercept != "free":
            state.b = problem.intercept_of(state.alpha)
        elif np.isfinite(top) and np.isfinite(bottom):
            state.b = 0.5 * (top + bottom)
        state.violation = _violation(up, down, problem.intercept == "free")
        loss = problem.loss
        args = (state.scores[who], problem.y[who], state.beta[who], problem.cost[who])
        gap = sample_gaps(*args, loss.tilt, loss.bend, loss.bound, state.b)
        primal = state.dual + gap
        state.guess = gap / primal if primal > 0 else (0.0 if gap <= 0 else np.inf)

    def _leave(self, problem: KernelProblem, state: State, among: np.ndarray) -> None:
        """Keep those in play that may be part of a violating pair soon: the others are at a bound, and far from it."""
        state.since = 0
        top, bottom, up, down = self._survey(problem, state, among)
        if problem.intercept == "free":
            near = NEAR * max(top - bottom, 0.0)
            least, most = bottom - near, top + near
        else:
            most = (1 + NEAR) * max(top, -bottom, 0.0)
            least = -most
        rises, falls = np.isfinite(up), np.isfinite(down)
        stays = (rises & falls) | (rises & (up >= least)) | (falls & (down <= most))
        kept = among[stays]
        regather = len(kept) <= LEAVE * len(state.active) or not np.isin(kept, state.active).all()
        if regather:
            state.active, state.ring, state.early = kept, None, False
            if state.set is not None:  # those that left have old scores: they must not be carried on
                stay = np.flatnonzero(np.isin(state.set.samples, kept))
                state.set = WorkingSet(state.set.samples[stay], state.set.matrix[np.ix_(stay, stay)])

    def _refresh(self, problem: KernelProblem, state: State, idle: bool) -> None:
        """Scores of all samples in float64; who was wrongly out of play comes back."""
        state.drift, state.steps = 0.0, 0
        state.alpha = problem.repair(state.alpha)
        state.beta = state.alpha * problem.y
        state.scores = problem.scored(state.beta, state.b)[0].copy()
        state.passes += np.count_nonzero(state.beta) / problem.n
        state.dual = problem.dual(state.alpha, state.beta)
        self._look(problem, state, self.everyone(problem))
        self._offer(problem, state)
        whole = len(state.active) == len(self.everyone(problem))
        state.fruitless = 0 if state.belief < 0.9 * state.best else state.fruitless + 1
        state.ended = whole and (state.fruitless > 0 if idle else state.fruitless >= PATIENCE)
        state.best = min(state.best, state.belief)
        if self.shrink and state.kept is None and not idle:
            self._leave(problem, state, self.everyone(problem))
        elif not whole:
            state.active, state.ring = self.everyone(problem), None

    def _offer(self, problem: KernelProblem, state: State) -> None:
        """What is judged: beta, or the best multiple of it.

        At a large C, where P charges dearly for margins a trifle below 1, that is far better; and what the judge will
        allow for rounding is a trifle too.
        """
        scores, b, cost = state.scores, state.b, problem.cost
        margins = problem.margins(scores, b)
        allowance = 1.1 * problem.scored(state.beta, b)[1] + 16 * EPS * (np.abs(scores) + abs(b) + 1.0)
        quadratic = float(state.beta @ scores) + 2 * problem.penalty(b)

        def primal(t: float) -> float:
            return 0.5 * t * t * quadratic + float(cost @ problem.loss.value(t * margins - allowance))

        state.f, least = state.beta, primal(1.0)
        if least - state.dual > state.tol * least:
            t = minimize_along(problem.loss, cost, -allowance, margins, quadratic=quadratic)
            if primal(t) < 0.5 * (least + state.dual):
                state.f, state.b, least = t * state.beta, t * b, primal(t)
        state.belief = max(least - state.dual, 0.0) / least if least > 0 else 0.0

    @staticmethod
    def everyone(problem: KernelProblem) -> np.ndarray:
        return np.flatnonzero(problem.cost > 0)
