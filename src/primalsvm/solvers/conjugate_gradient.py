r"""Conjugate gradients on the primal of a kernel problem, preconditioned by K.

With b always the best intercept for f, P is a smooth convex function of f alone. Its gradient as a function is

    g = f - f_alpha,    alpha_i = -c_i l'(m_i),    with coefficients  beta - y alpha

which is the gradient in beta "divided by K": preconditioning by K, or the method in the space of f itself, where
<g, h> = g' K h. The step, with theta by Fletcher and Reeves or by Polak and Ribiere,

    d <- -g + theta d,      f <- f + t d,      t the minimum along d, b following

    theta = <g, g> / <g_before, g_before>      or      max(0, <g, g - g_before> / <g_before, g_before>)

One step is one product of K with alpha, n |support| entries, whose rows are kept while they fit: the scores of f and d
are sums of such. alpha is feasible, sum alpha_i y_i = 0 because b is the best one, and P - D(alpha) = 1/2 <g, g>: the
gap comes for nothing.

With a `rank`, g in d and on one side of each <., .> is M^-1 g. The Hessian of P is H = I + Phi' W Phi, where Phi f are
the scores of f and W = diag(c l''(m)) - u u' / s, u = c l''(m), s = 1'u (+ 1 / scaling^2 if penalised), for b. Let J be
some of the curved samples, T the projection on the span of their k(x_j, .), and K ~ F F' as in `low_rank`, L = F[J].
M is H on that span and a multiple of the identity beside it,

    M = T H T + mu (I - T),      mu = 1 + mean of c_i l''(m_i) residual_i over the curved samples

    M^-1 g:   coefficients  g / mu  and, added in J,  L^-T q          q = (I + F' W F)^-1 v - v / mu
              scores  Phi g / mu + F q                                v = L^-1 (Phi g)_J

so that its scores need no product with K. mu is what H is beside the span, on average over what the curved samples span
there. With mu = 1 the condition number would be the square of what is left, and most of the gain lost. F' W F follows
the samples that become curved or flat, k^2 for each, and k^3 / 3 a step; J is chosen anew when they are others.

That helps where the steps are spent on one quadratic, not on finding it: while C times the residual is moderate.

Chapelle (2007), section 6.1, Algorithm 2, with its scales and signs mended: its gradient is lambda times ours, and its
first direction is +y (here 2 c y). mu is from Frangella, Tropp and Udell (2023).
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from ..kernel_system import SHARE, KernelRows
from ..losses import EPS, Array
from ..low_rank import LowRank, random_cholesky
from ..problem import KernelProblem
from ..solve import Solver, Start

UPDATES = ("fletcher_reeves", "polak_ribiere")
SEARCH_STEPS, SEARCH_TOL = 50, 1e-10
POWELL = 0.2  # of <g, g>: where <g, g_before> is larger, the directions are no longer conjugate (Powell 1977)
NOISE = 64 * EPS  # of P, its lowest change that means something
IDLE = 20  # steps in a row without one
OTHERS = 0.3  # of the curved samples that were not, or the other way round, when J was chosen: it is chosen anew
BUDGET = 0.5  # of the entries of K that were looked at, for choosing

Function = tuple[Array, Array]  # coefficients, scores


@dataclass
class State:
    f: Array  # (n,) beta
    b: float
    alpha: Array  # (n,) feasible
    scores: Array  # (n,) K beta
    gradient: Function
    direction: Function
    square: float  # <g, g>
    primal: float
    rows: KernelRows
    preconditioner: "Preconditioner | None" = None
    scaled: Function = field(default_factory=lambda: (np.zeros(0), np.zeros(0)))  # M^-1 g
    idle: int = 0

    @property
    def passes(self) -> float:
        return self.rows.entries / max(len(self.f) ** 2, 1)

    @property
    def belief(self) -> float:
        """The relative gap."""
        return 0.5 * self.square / self.primal if self.primal > 0 else 0.0

    @property
    def ended(self) -> bool:
        return self.idle >= IDLE or not self.square > 0


class Preconditioner:
    """M^-1, for curvatures that change from step to step."""

    def __init__(self, problem: KernelProblem, rank: int, rows: KernelRows):
        self.problem, self.rows = problem, rows
        self.rank = int(min(rank, SHARE * problem.K.memory_limit / (8 * max(problem.n, 1))))
        self.curves = np.zeros(problem.n)  # c l''
        self.chosen = np.zeros(problem.n, dtype=bool)  # who was curved when J was chosen
        self.low: LowRank | None = None
        self.spent = 0  # entries of K
        self.mu = 1.0

    def update(self, curves: Array) -> None:
        """Let these be the curvatures."""
        curved, changed = curves > 0, np.flatnonzero(curves != self.curves)
        others = np.count_nonzero(curved != self.chosen) > OTHERS * np.count_nonzero(curved)
        if self.low is None or (others and self.spent <= BUDGET * self.rows.entries):
            self.low = random_cholesky(self.problem.K, self.rank, among=np.flatnonzero(curved))
            self.lower = self.low.factor[self.low.samples]
            self.gram = np.zeros((self.low.rank, self.low.rank))
            self.curves, self.chosen, changed = np.zeros(self.problem.n), curved, np.flatnonzero(curved)
            self.spent += self.low.rank * self.problem.n
            self.rows.entries += self.low.rank * self.problem.n
        if len(changed) and self.low.rank:
            self._follow(curves, changed)
        self.curves = curves
        self.mu = 1.0 + float(curves @ self.low.residual) / max(int(np.count_nonzero(curved)), 1)

    def _follow(self, curves: Array, changed: np.ndarray) -> None:
        """F' W F where W has changed for few samples, and the factor of I + F' W F."""
        F = self.low.factor  # type: ignore[union-attr]
        rows = F[changed]
        self.gram += rows.T @ ((curves - self.curves)[changed, None] * rows)
        hessian = self.gram.copy()
        stiffness = float(np.sum(curves)) + _weight(self.problem)
        if self.problem.intercept != "none" and stiffness > 0:
            pull = F.T @ curves
            hessian -= np.outer(pull, pull / stiffness)
        rounding = len(F) * EPS * float(np.trace(self.gram))
        hessian[np.diag_indices_from(hessian)] += 1.0 + rounding
        self.core = cho_factor(hessian, lower=True, overwrite_a=True, check_finite=False)

    def apply(self, g: Function) -> Function:
        coefficients, scores = g[0] / self.mu, g[1] / self.mu
        if self.low is not None and self.low.rank:
            J = self.low.samples
            v = solve_triangular(self.lower, g[1][J], lower=True, check_finite=False)
            q = cho_solve(self.core, v, check_finite=False) - v / self.mu
            coefficients[J] += solve_triangular(self.lower, q, lower=True, trans=1, check_finite=False)
            scores += self.low.factor @ q
        return coefficients, scores


@dataclass(frozen=True)
class ConjugateGradient(Solver):
    """One step along a conjugate direction, one product with K."""

    name: ClassVar[str] = "conjugate_gradient"
    needs: ClassVar[frozenset[str]] = frozenset({"kernel", "smooth"})
    update: str = "polak_ribiere"
    rank: int = 0  # of the preconditioner, at most: what fits into half of the memory limit; 0 for none

    def __post_init__(self):
        if self.update not in UPDATES:
            raise ValueError(f"update must be one of {', '.join(UPDATES)}, got {self.update!r}.")
        if self.rank < 0:
            raise ValueError(f"rank must be at least 0, got {self.rank!r}.")

    def init(self, problem: KernelProblem, start: Start | None = None) -> State:
        f = np.zeros(problem.n) if start is None else np.array(start.f, dtype=np.float64)
        rows, nothing, moving = KernelRows(problem.K), np.zeros(problem.n), np.flatnonzero(f)
        scores = rows.product(f[moving], moving)
        preconditioner = Preconditioner(problem, self.rank, rows) if self.rank else None
        state = State(f, 0.0, nothing, scores, (f, f), (nothing, nothing), 0.0, np.inf, rows, preconditioner)
        _look(problem, state)
        state.direction = -state.scaled[0], -state.scaled[1]
        return state

    def step(self, problem: KernelProblem, state: State) -> None:
        g_scores, (z, z_scores), (d, d_scores) = state.gradient[1], state.scaled, state.direction
        size, primal = float(z @ g_scores), state.primal
        if not float(d @ g_scores) < 0.0:  # not downhill: begin anew
            d, d_scores = -z, -z_scores
        t = _search(problem, state, d, d_scores)
        state.f, state.scores = state.f + t * d, state.scores + t * d_scores
        _look(problem, state)
        z, z_scores = state.scaled
        after, across = float(z @ state.gradient[1]), float(z @ g_scores)
        if self.update == "fletcher_reeves":
            across = after if abs(across) > POWELL * after else 0.0
        theta = max(0.0, (after - across) / size) if size > 0 else 0.0
        state.direction = theta * d - z, theta * d_scores - z_scores
        state.idle = 0 if state.primal < primal * (1 - NOISE) else state.idle + 1


def _look(problem: KernelProblem, state: State) -> None:
    """Set everything that follows from f and its scores."""
    state.b = problem.best_intercept(state.scores)
    margins = problem.margins(state.scores, state.b)
    state.alpha = problem.repair(problem.slope_alpha(margins))
    slopes, support = problem.y * state.alpha, np.flatnonzero(state.alpha)
    state.gradient = state.f - slopes, state.scores - state.rows.product(slopes[support], support)
    state.square = max(float(state.gradient[0] @ state.gradient[1]), 0.0)
    losses = float(problem.cost @ problem.loss.value(margins))
    state.primal = 0.5 * float(state.f @ state.scores) + problem.penalty(state.b) + losses
    state.scaled = state.gradient
    if state.preconditioner is not None:
        state.preconditioner.update(problem.cost * problem.loss.curvature(margins))
        state.scaled = state.preconditioner.apply(state.gradient)


def _search(problem: KernelProblem, state: State, d: Array, d_scores: Array) -> float:
    """argmin over t of P(f + t d, its best b): Newton's method on the derivative, which is piecewise linear."""
    linear, quadratic = float(state.f @ d_scores), float(d @ d_scores)
    weight = _weight(problem)

    def slope(t: float) -> tuple[float, float]:
        scores = state.scores + t * d_scores
        margins = problem.margins(scores, problem.best_intercept(scores))
        curve = problem.cost * problem.loss.curvature(margins)
        first = linear + t * quadratic + float((problem.cost * problem.loss.slope(margins) * problem.y) @ d_scores)
        second = quadratic + float(curve @ (d_scores * d_scores))
        stiffness = float(np.sum(curve)) + weight
        if problem.intercept != "none" and stiffness > 0:  # b moves along
            second -= float(curve @ d_scores) ** 2 / stiffness
        return first, second

    first, second = begin, _ = slope(0.0)
    low, high, t = 0.0, np.inf, 0.0
    for _ in range(SEARCH_STEPS):
        if not abs(first) > SEARCH_TOL * abs(begin):
            break
        low, high = (t, high) if first < 0.0 else (low, t)
        t = t - first / second if second > 0.0 else np.inf
        if not low < t < high:
            t = 0.5 * (low + high) if np.isfinite(high) else max(2.0 * low, 1e-3)
        first, second = slope(t)
    return t


def _weight(problem: KernelProblem) -> float:
    """Of b^2 / 2 in P."""
    return problem.intercept_scaling**-2 if problem.intercept == "penalized" else 0.0
