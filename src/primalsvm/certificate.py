r"""The one judge: how far from the optimum a model can possibly be.

For any (f, b) and any feasible alpha,   D(alpha) <= min P <= P(f, b),   so   P - D   bounds the suboptimality.

Nothing a solver says is believed. alpha is brought into the feasible set, f_alpha is computed again, both sides
are evaluated in float64, and what rounding can have done is added, so that the printed bound is a bound:

- P: l falls with the margin, so l at the margins lowered by their error is above the true loss. Where that leaves no
  loss, scores may be rough: `Problem.scored` gives them with their errors.
- D: the error of |f_alpha|^2 and of the sums is taken off. With a free intercept alpha still misses
  sum alpha_i y_i = 0 by a rounding error; taking the leftover off one alpha of the heavier class is exactly
  feasible, and D there follows from a gradient and a curvature.

List, Hush, Scovel, Steinwart (2007); see `gaps` for the quantities of that paper one by one.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import kernel_newton, newton_path
from .losses import Array
from .problem import EPS, Feasible, Problem

# Relative error of a sum of up to 2^40 terms, each with up to ten roundings of its own (a rounding is half an EPS): of
# lumps of 32 in any order, 31 roundings, and then NumPy's pairwise sum, at most 18 in a block of 128 and one for each
# of 28 halvings before.
SUM = 64 * EPS
FAR = 16.0  # a factor up to which sums of squares may be multiplied by its square
TINY = 2.0**-1000  # more than all underflows together: each is below 2^-1074, whatever it is a fraction of


@dataclass(frozen=True)
class Certificate:
    """What is proven about a model: dual <= minimum of P <= reachable <= primal, and P(model) <= primal.

    Attributes
    ----------
    primal : float
        Upper bound on P of the model, rounding included.
    dual : float
        Lower bound on the minimum of P over all models, rounding included.
    reachable : float
        Upper bound on the minimum: the best value that any model seen by the judge has (at most `primal`).
    b : float
        The intercept of the model judged.
    rounding : float
        How much of `primal` is allowance for rounding: P of the model is at least primal - rounding.
    polished : bool
        Whether the lower bound needed more than the model's own dual point.
    passes : float
        Passes over the data that judging took.
    alpha : array of shape (n,)
        The feasible dual point that proves `dual`.
    solver : str
        Who found the model, where that is known: it is not believed either.
    parts : tuple of Certificate
        One for each binary problem where there are more than two classes; empty otherwise.
    """

    primal: float
    dual: float
    reachable: float
    b: float = 0.0
    rounding: float = 0.0
    polished: bool = False
    passes: float = 0.0
    alpha: Array | None = field(default=None, repr=False, compare=False)
    solver: str = ""
    parts: tuple["Certificate", ...] = field(default=(), repr=False)

    @classmethod
    def of_parts(cls, parts: Sequence["Certificate"]) -> "Certificate":
        """The certificate of several problems solved side by side: their sum, with the parts kept."""
        if len(parts) == 1:
            return parts[0]
        primal = math.fsum(part.primal for part in parts) * (1 + EPS)
        return cls(
            primal=primal,
            dual=math.fsum(part.dual for part in parts) * (1 - EPS),
            reachable=math.fsum(part.reachable for part in parts) * (1 + EPS),
            rounding=math.fsum(part.rounding for part in parts) * (1 + EPS) + 4 * EPS * primal,
            polished=any(part.polished for part in parts),
            passes=sum(part.passes for part in parts),
            solver=parts[0].solver,
            parts=tuple(parts),
        )

    @property
    def gap(self) -> float:
        """P(model) is at most this far above the minimum."""
        return max(0.0, self.primal - self.dual)

    @property
    def relative_gap(self) -> float:
        """gap / primal, the quantity that `tol` bounds."""
        return relative_gap(self.primal, self.dual)

    @property
    def excess(self) -> tuple[float, float]:
        """How far above the optimum the model is, as a fraction of the optimum: (at least, at most)."""
        least, most = 0.0, 0.0 if self.primal <= 0 else np.inf
        if self.reachable > 0:
            ratio = (self.primal - self.rounding) / self.reachable * (1 - 4 * EPS)
            least = min(ratio, np.finfo(np.float64).max) - 1.0
        if self.dual > 0:
            most = self.primal / self.dual * (1 + 4 * EPS) - 1.0
        return float(max(0.0, least)), float(most)

    def __str__(self):
        least, most = (_percent(share) for share in self.excess)
        above = least if least == most else f"between {least} and {most}"
        if self.excess[0] < 0.01 * self.excess[1]:  # the lower figure says nothing
            above = f"at most {most}" if self.excess[1] < 100 else "no useful bound on how far"
        return f"{above} above the optimum (primal {self.primal:.9g}, dual {self.dual:.9g})"


def _percent(share: float) -> str:
    """Two or three digits that mean something."""
    return f"{100 * share:.4g}%" if share >= 0.01 else f"{100 * share:.2g}%"


def relative_gap(primal: float, dual: float) -> float:
    if primal <= dual:
        return 0.0
    return (primal - dual) / primal if np.isfinite(primal) else np.inf


def _checked(problem: Problem, f: Array, b: float) -> tuple[Array, float]:
    """The model in float64, whatever type it came in: no sum may be taken in that one."""
    f, b = np.asarray(f, dtype=np.float64), float(b)
    if f.shape != (problem.size,):
        raise ValueError(f"a model of this problem has shape ({problem.size},), got {f.shape}.")
    if problem.intercept == "none" and b != 0.0:
        raise ValueError(f"the problem has no intercept, so b must be 0, got {b!r}.")
    return f, b


@np.errstate(over="ignore", invalid="ignore")  # a model may be absurd; its bound is then infinite
def bound_primal(
    problem: Problem, f: Array, b: float, scored: tuple[Array, Array] | None = None
) -> tuple[float, float]:
    """(upper bound on P(f, b), how much of it is allowance for rounding), from scores with their errors."""
    from .cpu_kernels import LUMP, loss_sums

    f, b = _checked(problem, f, b)
    scores, error = problem.scored(f, b) if scored is None else scored
    square = problem.inner(f, f)
    slack = problem.norm_error(f) + SUM * square
    rest = 0.5 * square + problem.penalty(b)
    loss, low_sums, high_sums = problem.loss, *np.empty((2, -(-problem.n // LUMP)))
    facts = problem.y, problem.cost, b, 4 * EPS, loss.tilt, loss.bend, loss.bound

    def work(begin: int, end: int) -> bool:
        return loss_sums(scores, error, *facts, begin, end, low_sums, high_sums)

    lossy = any(problem.in_parts(work, problem.n, LUMP))
    high = rest + 0.5 * slack + float(np.sum(high_sums))
    low = rest - 0.5 * slack + float(np.sum(low_sums))
    if not np.isfinite(high):
        return np.inf, np.inf
    nothing = not (lossy or f.any() or (b and problem.intercept == "penalized"))
    tiny = 0.0 if nothing else TINY
    primal = high * (1 + SUM) + tiny
    return primal, (primal - low * (1 - SUM)) * (1 + EPS) + tiny


@np.errstate(over="ignore", invalid="ignore")
def bound_nothing(problem: Problem) -> tuple[float, float]:
    """bound_primal of f = 0 and b = 0, without a pass: all margins are 0, so P is l(0) times the sum of the costs."""
    total = float(np.sum(problem.cost))
    primal = float(problem.loss.value(np.zeros(1))[0]) * total * (1 + 2 * SUM)
    tiny = TINY if total > 0 else 0.0
    return (primal + tiny, 4 * SUM * primal + 2 * tiny) if np.isfinite(primal) else (np.inf, np.inf)


@np.errstate(over="ignore", invalid="ignore")
def bound_dual(problem: Problem, alpha: Array, known: tuple[Feasible, Array] | None = None) -> tuple[float, Array]:
    """(lower bound on min P, the feasible alpha it comes from). alpha may be anything: it is made feasible first.
    Where the judge has done so, and computed f_alpha, both are `known`.

    Of the feasible multiples of that alpha the best is taken: D is a parabola along them.
    """
    if known is None:
        point = problem.feasible(alpha)
        known = point, problem.adjoint(point.signed)
    point, f = known
    alpha = point.alpha
    scale = _best_multiple(problem, point, problem.inner(f, f))
    if not 1 / FAR <= scale <= FAR:  # squares of the shorter alpha may have been less than any number
        point = problem.feasible(scale * alpha)
        alpha, f, scale = point.alpha, problem.adjoint(point.signed), 1.0
    if scale != 1.0:  # one rounding more; the error terms have room
        alpha *= scale
        f *= scale
        if problem.loss.bound < np.inf:
            np.minimum(alpha, problem.upper, out=alpha)
    square, error = problem.inner(f, f), problem.norm_error(f)
    # |f_alpha| <= |f| + e, so |f_alpha|^2 / 2 <= |f|^2 / 2 + e |f| + e^2 / 2
    e = problem.adjoint_error(alpha)
    slack = error + SUM * square + 2 * e * np.sqrt(max(square, 0.0)) * (1 + SUM) + e * e
    tilted, quadratic = problem.loss.tilt * scale * point.total, 0.5 * scale * scale * point.bent
    dual = tilted - quadratic - 0.5 * (square + slack) - SUM * (tilted + quadratic)
    imbalance, imbalance_error = scale * point.balance, SUM * scale * point.total
    if problem.intercept == "penalized":
        dual -= problem.penalty(problem.intercept_scaling**2 * (abs(imbalance) + imbalance_error)) * (1 + SUM)
    elif problem.intercept == "free":
        norm = float(np.sqrt(max(square + error, 0.0))) + e
        dual -= _balance_loss(problem, alpha, norm, imbalance, imbalance_error)
    dual -= TINY
    # alpha = 0 is feasible and D(0) = 0: what an alpha beyond float64 seems to prove is worth less than that
    if not (0.0 < dual < np.inf and np.isfinite(square) and np.isfinite(slack)):
        return 0.0, np.zeros(problem.n)
    return float(dual), alpha


def _best_multiple(problem: Problem, point: Feasible, square: float) -> float:
    """argmax over t of D(t alpha), t alpha in the box; `square` is |f_alpha|^2."""
    balance = problem.intercept_scaling**2 * point.balance if problem.intercept == "penalized" else 0.0
    curve, gain = square + 2 * problem.penalty(balance) + point.bent, problem.loss.tilt * point.total
    if not (0.0 < curve < np.inf and 0.0 < gain < np.inf and 0.0 < point.largest < np.inf):
        return 1.0
    return min(gain / curve, problem.loss.bound / point.largest)


def _balance_loss(problem: Problem, alpha: Array, norm: float, imbalance: float, error: float) -> float:
    """What D can lose when the leftover of sum alpha_i y_i is taken off one alpha of the heavier class.

    D(alpha - t e_j) = D(alpha) - t g_j - t^2 / 2 (|phi(x_j)|^2 + bend / c_j),   |g_j| <= |r'| + |phi(x_j)| norm

    with |f_alpha| <= norm.

    Rounding may hide which class is heavier: then both cases are possible and the worse one counts.
    """
    worst = 0.0
    for sign in (1.0, -1.0):
        leftover = sign * imbalance + error
        if leftover <= 0.0:
            continue
        able = np.flatnonzero((problem.y == sign) & (alpha >= leftover))
        if not len(able):
            return np.inf
        j = able[np.argmin(problem.norms[able])]
        bend = problem.loss.bend / problem.cost[j]
        gradient = problem.loss.tilt + bend * alpha[j] + problem.norms[j] * norm
        loss = leftover * gradient + 0.5 * leftover * leftover * (problem.norms[j] * problem.norms[j] + bend)
        worst = max(worst, loss * (1 + SUM))
    return worst


@np.errstate(over="ignore", invalid="ignore")
def certificate(
    problem: Problem,
    f: Array,
    b: float | None = None,
    alpha: Array | None = None,
    *,
    any_b: bool | None = False,
    tol: float = 0.0,
    deep: bool = True,
    max_passes: float = np.inf,
    max_seconds: float = np.inf,
) -> Certificate:
    """Judge the model (f, b), with the dual point alpha if there is one. Without a b, the best one is f's; with `any_b`
    it is too, where b leaves a relative gap above `tol`. With None in its place no other b is looked at, and no other
    alpha but the one given.

    Without an alpha, or where the one given leaves a relative gap above `tol`, the margins suggest another. For the
    hinge that can be hopeless although the model is good, so with `deep` it is then polished until the looseness of
    the lower bound no longer matters beside the model's own suboptimality, or until a limit is passed.
    """
    begin = time.perf_counter()
    f, _ = _checked(problem, f, 0.0 if b is None else b)
    known = None
    if alpha is not None and problem.kind == "linear":  # one pass for both sides
        point = problem.feasible(alpha)
        scores, f_alpha = problem.both_ways(f, point.signed)
        error, known = problem.score_error(f), (point, f_alpha)
    else:
        scores, error = problem.scored(f, b)

    def best_intercept() -> float:
        return problem.best_intercept(scores, error + 8 * EPS * (np.abs(scores) + 1.0))

    best_b: float | None = None
    if b is None:
        b = best_b = best_intercept()
    b = float(b)
    primal, rounding = bound_primal(problem, f, b, (scores, error))
    dual, feasible = bound_dual(problem, alpha, known) if alpha is not None else (0.0, np.zeros(problem.n))
    reachable, polished, passes, walked = primal, False, 3.0, 0.0
    if best_b is None and any_b is not None and relative_gap(primal, dual) > tol:  # else another b is not worth it
        best_b = best_intercept()
        there = bound_primal(problem, f, best_b, (scores, error))
        reachable = min(primal, there[0])
        if any_b and there[0] < primal:
            b, primal, rounding = best_b, *there
    # a kernel's dual point is the model itself as a rule, and another one costs a pass over K
    another = alpha is None or (problem.kind == "linear" and any_b is not None)
    if another and relative_gap(primal, dual) > tol and np.isfinite(primal):
        own = bound_dual(problem, problem.slope_alpha(problem.margins(scores, b)))
        dual, feasible = max((dual, feasible), own, key=lambda pair: pair[0])
    if deep and relative_gap(primal, dual) > tol:
        nothing = np.zeros(problem.size)
        polish: Any = kernel_newton.polish if problem.kind == "kernel" else newton_path.polish
        for point in polish(problem, f if primal < problem.primal(nothing, 0.0, np.zeros(problem.n)) else nothing):
            better, candidate = bound_dual(problem, point.alpha)
            if better > dual:
                dual, feasible, polished = better, candidate, True
            reachable = min(reachable, bound_primal(problem, point.f, point.b)[0])
            passes += point.passes - walked
            walked = point.passes
            if relative_gap(primal, dual) <= tol or reachable - dual <= max(0.02 * (primal - dual), 1e-6 * primal):
                break
            if passes > max_passes or time.perf_counter() - begin > max_seconds:
                break
    return Certificate(primal, dual, reachable, b, rounding, polished, passes, feasible)
