r"""The problem, stated once.

    P(f, b)  = 1/2 |f|^2 + sum_i c_i l(m_i)                         m_i = y_i (f(x_i) + b)
    D(alpha) = sum_i c_i r(alpha_i / c_i) - 1/2 |f_alpha|^2         f_alpha = sum_i alpha_i y_i phi(x_i)
               0 <= alpha_i <= u c_i,   and   sum_i alpha_i y_i = 0  when the intercept is free

`intercept` is part of it: "none" (b = 0), "free", or "penalized" (LIBLINEAR's way: a constant feature of value s,
which adds b^2 / 2 s^2 to P and takes s^2 / 2 (sum_i alpha_i y_i)^2 from D; s is `intercept_scaling`).

f is a vector of numbers whose meaning only the problem knows: the weights w (d,) of a linear problem, the expansion
coefficients beta (n,) of a kernel problem, f = sum_j beta_j k(x_j, .). Algorithms use verbs that both understand:

    scores(f)       f(x_i) for all i, without b                 one pass
    adjoint(v)      sum_i v_i phi(x_i) as an f                  one pass (linear), free (kernel)
    both_ways(f, v) the two together                            one pass
    inner(f, g)     <f, g>

The first two take `picked`, positions of samples, where only those are meant.

Each verb has its rounding error beside it; the certificate adds them up.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from .crew import in_parts
from .kernel_matrix import KernelMatrix, as_kernel_matrix
from .losses import EPS, Array, Loss, make_loss
from .matrix import Matrix, as_matrix
from .piecewise import crossing, minimize_along
from .rows import DenseRows

INTERCEPTS = ("none", "penalized", "free")
ROUNDING = 8 * EPS  # of |f|, all coefficients together: changes of f that need no product
WORTHWHILE = 512  # samples from which a product is worth being derived from the last one
AS_GOOD = 4.0  # times the error of a fresh product: one derived from the last may have as much
QUICK = 2**21  # entries of K from which float32 saves more time than to think of it takes
THREAD_SAMPLES = 20_000  # what a thread should have of them to be worth calling
BEYOND, DOUBT = 1e-3, 1.2  # a margin is beyond doubt so far from all losses, and so many times its error

Answer = TypeVar("Answer")


class Feasible(NamedTuple):
    """A feasible dual point, and its sums."""

    alpha: Array
    signed: Array  # y_i alpha_i
    total: float  # sum alpha_i
    bent: float  # sum bend alpha_i^2 / c_i
    balance: float  # sum y_i alpha_i
    largest: float  # alpha_i / c_i


@dataclass(eq=False)
class Problem:
    """What linear and kernel problems share: labels, costs, loss, intercept, and all that follows from margins."""

    y: Array  # (n,) in {-1, +1}
    cost: Array  # (n,) c_i >= 0
    loss: Loss
    intercept: str = "free"
    intercept_scaling: float = 1.0

    def __post_init__(self):
        self.loss = make_loss(self.loss)
        if self.intercept not in INTERCEPTS:
            raise ValueError(f"intercept must be one of {', '.join(INTERCEPTS)}, got {self.intercept!r}.")
        self.y = np.ascontiguousarray(self.y, dtype=np.float64)
        self.cost = np.ascontiguousarray(self.cost, dtype=np.float64)
        if self.y.ndim != 1 or self.cost.ndim != 1:
            raise ValueError(f"y and cost must be vectors, got shapes {self.y.shape} and {self.cost.shape}.")
        fine = self.in_parts(self._checks, len(self.y)) if len(self.y) == len(self.cost) else [self._checks(0, None)]
        if not all(signs for signs, _ in fine):
            raise ValueError("y must hold -1 and +1 only.")
        if not all(costs for _, costs in fine):
            raise ValueError("the costs C * weight must be finite and not negative.")
        square = self.intercept_scaling * self.intercept_scaling
        if self.intercept == "penalized" and not 2.0**-1022 <= square < np.inf:
            raise ValueError(f"intercept_scaling must be a number whose square is one, got {self.intercept_scaling!r}.")
        if len(self.y) != self.n or len(self.cost) != self.n:
            raise ValueError(f"y and cost must have {self.n} entries, got {len(self.y)} and {len(self.cost)}.")

    def _checks(self, begin: int, end: int | None) -> tuple[bool, bool]:
        """Are these labels signs? Are these costs finite and not negative?"""
        y, cost = self.y[begin:end], self.cost[begin:end]
        return bool((np.abs(y) == 1.0).all()), bool((np.isfinite(cost) & (cost >= 0)).all())

    def with_cost(self, cost: Array) -> "Problem":
        """The same problem with other costs."""
        return replace(self, cost=cost)

    # what a kind of problem must say ----------------------------------------------------------------------------
    kind: ClassVar[str]

    @property
    def n(self) -> int:
        raise NotImplementedError

    @property
    def size(self) -> int:
        """The length of f."""
        raise NotImplementedError

    @property
    def rows(self) -> Any:
        """The rows of X or K as plain arrays, for compiled code."""
        raise NotImplementedError

    @property
    def has_rows(self) -> bool:
        return True

    @property
    def entries(self) -> int:
        """How many multiplications one pass takes."""
        raise NotImplementedError

    @property
    def squared_norms(self) -> Array:
        """|phi(x_i)|^2, the penalised intercept's constant feature not included."""
        raise NotImplementedError

    def scores(self, f: Array, picked: np.ndarray | None = None) -> Array:
        raise NotImplementedError

    def adjoint(self, v: Array, picked: np.ndarray | None = None) -> Array:
        raise NotImplementedError

    def both_ways(self, f: Array, v: Array) -> tuple[Array, Array]:
        """(scores(f), adjoint(v))"""
        return self.scores(f), self.adjoint(v)

    def curve(self, f: Array, weights: Array, picked: np.ndarray) -> Array:
        """sum over k of weights[k] <f, phi(x_i)> phi(x_i), i = picked[k]: the losses' part of a Hessian times f."""
        return self.adjoint(weights * self.scores(f, picked), picked)

    def inner(self, f: Array, g: Array) -> float:
        raise NotImplementedError

    def where(self, mask: np.ndarray) -> np.ndarray:
        """The positions of these samples, in the order in which passes over them are fastest."""
        return np.flatnonzero(mask)

    def gram(self, rows: np.ndarray) -> Array:
        """<phi(x_i), phi(x_j)> between the given samples."""
        raise NotImplementedError

    def score_error(self, f: Array) -> Array:
        """A bound on |computed - exact| for each entry of scores(f)."""
        raise NotImplementedError

    def scored(self, f: Array, b: float | None = None) -> tuple[Array, Array]:
        """(scores(f), a bound on the error of each); with b, rough ones where the margin is beyond doubt."""
        return self.scores(f), self.score_error(f)

    def norm_error(self, f: Array) -> float:
        """A bound on |computed - exact| for inner(f, f)."""
        raise NotImplementedError

    def adjoint_error(self, v: Array) -> float:
        """A bound on the norm of computed - exact for adjoint(v)."""
        raise NotImplementedError

    # what follows -------------------------------------------------------------------------------------------------
    @property
    def upper(self) -> Array:
        """u c_i: where the box ends. A sample without cost has an empty box whatever u is."""
        return np.where(self.cost > 0, self.loss.bound, 1.0) * self.cost

    @cached_property
    def norms(self) -> Array:
        out, squares = np.empty(self.n), self.squared_norms
        self.in_parts(lambda begin, end: np.sqrt(squares[begin:end], out=out[begin:end]), self.n)
        return out

    @property
    def offers(self) -> frozenset[str]:
        """What a solver may need of a problem; checked by solve()."""
        traits = {"smooth": self.loss.smooth, "lipschitz": self.loss.lipschitz, self.kind: True}
        traits["strongly_convex"] = self.intercept != "free"  # P is, in f and b together
        traits["rows"] = self.has_rows
        return frozenset(name for name, holds in traits.items() if holds)

    @property
    def threads(self) -> int:
        """That may share vectors of n numbers."""
        return 1

    def in_parts(self, work: Callable[[int, int], Answer], count: int, lump: int = 1) -> list[Answer]:
        """work(begin, end) for parts of so many samples, cut between lumps: the threads share them where it pays."""
        lumps, parts = -(-count // lump), max(1, min(self.threads, count // THREAD_SAMPLES))
        return in_parts([min(lumps * k // parts * lump, count) for k in range(parts + 1)], work)

    def margins(self, scores: Array, b: float) -> Array:
        out = np.empty(self.n)

        def work(begin: int, end: int) -> None:
            part = slice(begin, end)
            np.multiply(self.y[part], scores[part] + b if b else scores[part], out=out[part])

        self.in_parts(work, self.n)
        return out

    def penalty(self, b: float) -> float:
        """What P charges for the intercept."""
        ratio = b / self.intercept_scaling  # not ** 2, which raises where a product is infinite
        return 0.5 * ratio * ratio if self.intercept == "penalized" else 0.0

    def primal(self, f: Array, b: float, scores: Array | None = None) -> float:
        """P(f, b), plainly computed; the certificate has the version with error bounds."""
        margins = self.margins(self.scores(f) if scores is None else scores, b)
        return 0.5 * self.inner(f, f) + self.penalty(b) + float(self.cost @ self.loss.value(margins))

    def dual(self, alpha: Array, f: Array | None = None) -> float:
        """D(alpha) for a feasible alpha, plainly computed."""
        f = self.function(alpha) if f is None else f
        return self.dual_gain(alpha) - 0.5 * self.inner(f, f) - self.penalty(self.intercept_of(alpha))

    def dual_gain(self, alpha: Array) -> float:
        """sum_i c_i r(alpha_i / c_i)"""
        return float(np.sum(self.loss.tilt * alpha - self.loss.bend / 2 * alpha * self.share(alpha)))

    def dual_gradient(self, alpha: Array, margins: Array) -> Array:
        """dD / dalpha_i = r'(alpha_i / c_i) - m_i, with the margins of f_alpha and its intercept."""
        return self.loss.tilt - self.loss.bend * self.share(alpha) - margins

    def share(self, alpha: Array) -> Array:
        """alpha_i / c_i, and 0 where the sample has no cost."""
        return np.divide(alpha, self.cost, out=np.zeros(self.n), where=self.cost > 0)

    def function(self, alpha: Array) -> Array:
        """f_alpha"""
        return self.adjoint(alpha * self.y)

    def intercept_of(self, alpha: Array) -> float:
        """The intercept that belongs to alpha where alpha determines it: s^2 sum alpha_i y_i, penalised; else 0."""
        if self.intercept != "penalized":
            return 0.0
        return self.intercept_scaling**2 * float(np.sum(alpha * self.y))

    def best_intercept(self, scores: Array, allowance: Array | float = 0.0) -> float:
        """argmin over b of P, exactly (List et al. 2007, eq. 19 and 21; their b is minus ours).

        With an allowance, of P at margins lowered by it: what the judge will count.
        """
        if self.intercept == "none":
            return 0.0
        quadratic = self.intercept_scaling**-2 if self.intercept == "penalized" else 0.0
        return minimize_along(self.loss, self.cost, self.y * scores - allowance, self.y, quadratic=quadratic)

    def slope_alpha(self, margins: Array) -> Array:
        """alpha_i = -c_i l'(m_i): the dual point that a primal point suggests.

        Where the intercept is free and b is the best one, some margins sit on the hinge's kink and any slope in
        [-1, 0] is theirs: the one that balances sum alpha_i y_i is taken.
        """
        alpha = -self.cost * self.loss.slope(margins)
        if self.intercept == "free" and not self.loss.smooth:
            surplus = float(np.sum(alpha * self.y))
            kink = np.flatnonzero(np.abs(margins - 1.0) <= 1e-9 * (1.0 + np.abs(margins)))
            falls = self.y[kink] * surplus > 0  # lowering this alpha_i lowers the surplus; raising it otherwise
            room = np.where(falls, alpha[kink], self.cost[kink] - alpha[kink])
            taken = np.clip(abs(surplus) - (np.cumsum(room) - room), 0.0, room)
            alpha[kink] += np.where(falls, -taken, taken)
        return alpha

    def repair(self, alpha: Array) -> Array:
        """A feasible point near alpha, whatever that is. Where little is missing, those at their bounds stay there."""
        return self.feasible(alpha).alpha

    def feasible(self, alpha: Array) -> Feasible:
        """The same with its sums, which are off by no more than 48 EPS of those of the absolute values.

        With a free intercept the surplus of sum alpha_i y_i is shared out by how much room each alpha_i has on both
        sides; the projection would lift every alpha_i = 0 of a class by a trifle and call it a support vector.
        """
        found, room = self._into_box(alpha, 0.0)
        if self.intercept != "free" or found.balance == 0.0:
            return found
        if abs(found.balance) <= 0.5 * room < np.inf:
            return self._into_box(found.alpha, found.balance / room)[0]
        return self._into_box(self.project(found.alpha), 0.0)[0]

    def _into_box(self, alpha: Array, shift: float) -> tuple[Feasible, float]:
        """alpha in its box, and moved by -shift times the room there; and what room all have together."""
        from .cpu_kernels import LUMP, feasible_sums

        alpha = np.ascontiguousarray(alpha, dtype=np.float64)
        if alpha.shape != (self.n,):  # compiled code does not look
            raise ValueError(f"alpha must have shape ({self.n},), got {alpha.shape}.")
        inside, signed, sums = np.empty(self.n), np.empty(self.n), np.empty((5, -(-self.n // LUMP)))
        facts = self.y, self.cost, self.loss.bend, self.loss.bound, shift

        def work(begin: int, end: int) -> None:
            feasible_sums(alpha, *facts, begin, end, inside, signed, sums)

        self.in_parts(work, self.n, LUMP)
        total, bent, balance, room = (float(np.sum(line)) for line in sums[:4])
        return Feasible(inside, signed, total, bent, balance, float(np.max(sums[4], initial=0.0))), room

    def project(self, alpha: Array, metric: Array | None = None) -> Array:
        """The nearest feasible point: into the box and, with a free intercept, onto sum alpha_i y_i = 0.

        alpha_i = clip(a_i - t y_i / metric_i, 0, u c_i) with the t that meets the hyperplane.
        """
        upper = self.upper
        if self.intercept != "free":
            return np.clip(alpha, 0.0, upper)
        ease = np.ones(self.n) if metric is None else 1.0 / metric
        # y_i alpha_i falls with t from its largest value to its least, along slope -ease_i; crossing() wants it to rise
        top = np.where(self.y > 0, upper, 0.0)  # the largest y_i alpha_i, at t = -infinity
        rising = np.isposinf(top)  # ... which an unbounded alpha_i never reaches: it starts on its slope
        level = float(np.sum(np.where(rising, -alpha, -top)))
        rate = float(np.sum(ease[rising]))
        begin = np.where(self.y > 0, alpha - upper, -alpha) / ease
        end = np.where(self.y > 0, alpha, upper - alpha) / ease
        at = np.concatenate([begin, end])
        bend = np.concatenate([ease, -ease])
        finite = np.isfinite(at)
        t = crossing(level, rate, at[finite], np.zeros(int(finite.sum())), bend[finite])
        return np.clip(alpha - t * self.y * ease, 0.0, upper)


@dataclass(eq=False)
class LinearProblem(Problem):
    """f(x) = <w, x>. `f` is w."""

    X: Matrix = field(kw_only=True)

    kind: ClassVar[str] = "linear"

    def __post_init__(self):
        self.X = self.X if isinstance(self.X, Matrix) else as_matrix(self.X)
        super().__post_init__()

    @property
    def n(self):
        return self.X.shape[0]

    @property
    def size(self):
        return self.X.shape[1]

    @property
    def threads(self):
        return self.X.threads

    @property
    def entries(self):
        return self.X.entries

    @property
    def squared_norms(self):
        return self.X.squared_norms

    @property
    def rows(self):
        return self.X.rows

    @property
    def has_rows(self):
        return self.X.in_memory

    def scores(self, f, picked=None):
        if not np.any(f):
            return np.zeros(self.n if picked is None else len(picked))
        return self.X.matvec(f, picked)

    def adjoint(self, v, picked=None):
        return self.X.transpose_matvec(v, picked)

    def both_ways(self, f, v):
        return self.X.both_ways(f, v) if np.any(f) else super().both_ways(f, v)

    def curve(self, f, weights, picked):
        return self.X.normal_matvec(f, weights, picked)

    def inner(self, f, g):
        return float(f @ g)

    def where(self, mask):
        return self.X.where(mask)

    def gram(self, rows):
        return self.X.take(rows).outer_gram()

    def score_error(self, f):
        out, norms, factor = np.empty(self.n), self.norms, (self.X.matvec_terms + 2) * EPS * float(np.linalg.norm(f))
        self.in_parts(lambda begin, end: np.multiply(norms[begin:end], factor, out=out[begin:end]), self.n)
        return out

    def norm_error(self, f):
        return (self.size + 8) * EPS * float(f @ f)

    def adjoint_error(self, v):
        norms = self.norms
        size = sum(self.in_parts(lambda begin, end: float(np.abs(v[begin:end]) @ norms[begin:end]), self.n))
        return (self.X.transpose_terms + 8) * EPS * size


class Scored(NamedTuple):
    """The scores of an f, and what each can be off by."""

    f: Array
    s: Array
    e: Array
    rough: bool  # some of them are not as exact as they could be


@dataclass(eq=False)
class KernelProblem(Problem):
    """f(x) = sum_j beta_j k(x_j, x). `f` is beta.

    The entries of K are k(x_i, x_j) to a relative accuracy of `K.accuracy` times sqrt(k_ii k_jj): they come from
    rounded arithmetic, and a matrix rounded off is no longer quite positive.

    A pass over K is what everything costs here, so the scores of the last f are kept: those of t f + delta follow from
    them by the columns in which delta is not rounding.
    """

    K: KernelMatrix = field(kw_only=True)  # or an array, symmetric and positive up to rounding
    accuracy: float = field(default=-1.0, kw_only=True)  # of an array; below 0: that of entries rounded a few times

    kind: ClassVar[str] = "kernel"

    def __post_init__(self):
        self.K = as_kernel_matrix(self.K, self.accuracy)
        self.accuracy = self.K.accuracy
        self._last: Scored | None = None
        super().__post_init__()

    def with_cost(self, cost):
        other = replace(self, cost=cost)
        other._last = self._last  # scores do not know the costs
        return other

    @property
    def n(self):
        return self.K.n

    @property
    def size(self):
        return self.K.n

    @property
    def entries(self):
        return self.K.work

    @property
    def rows(self):
        return DenseRows(self.K.array())

    @property
    def squared_norms(self):
        return self.K.diagonal

    @cached_property
    def norms(self):
        """|phi(x_i)|, or a little more: the diagonal of K may be too small by its own inaccuracy."""
        return np.sqrt(self.squared_norms / max(1.0 - self.accuracy, 0.0))

    def scores(self, f, picked=None):
        if picked is not None:
            return self.K.matvec(f, picked)
        return self._scores(f)[0].copy()

    def score_error(self, f):
        return self._scores(f)[1]

    def scored(self, f, b=None):
        """With b, a sample that has no part in f is given a float32 score where that shows a margin without loss."""
        if b is None:
            return self._scores(f)
        least = self.loss.tilt * (1.0 + BEYOND)
        return self._scores(f, lambda s, e: (f != 0) | ~(self.y * (s + b) - DOUBT * e >= least), quick=True)

    def _scores(self, f: Array, needed: Callable | None = None, quick: bool = False) -> tuple[Array, Array]:
        """(s, e): the scores of f, s_i to within e_i.

        All of them as exact as float64 allows, or those that needed(s, e) says, looking at rougher ones. Those come
        from the last f, or with `quick` from float32. Nobody may write into s or e.
        """
        last = self._last
        if last is not None and not last.rough and np.array_equal(f, last.f):
            return last.s, last.e
        fresh = self._product_error(f) * self.norms
        known = self._derived(f, fresh, f != 0 if needed else True) or (self._quick(f) if quick else None)
        if known is None:
            self._last = Scored(f.copy(), self.K.matvec(f), fresh, rough=False)
            return self._last.s, self._last.e
        s, e = known
        rough = ~(e <= AS_GOOD * fresh)  # nan too
        wanted = rough if needed is None else rough & needed(s, e)
        if wanted.any():
            some = np.flatnonzero(wanted)
            s, e = s.copy(), e.copy()  # others may hold them
            s[some], e[some] = self.K.matvec(f, some), fresh[some]
        self._last = Scored(f.copy(), s, e, not np.array_equal(rough, wanted))
        return s, e

    def _derived(self, f: Array, fresh: Array, asked: np.ndarray | bool) -> tuple[Array, Array] | None:
        """Scores of f from those of the last one; None where fresh ones of those asked for cost as little."""
        if self._last is None:
            return None
        f0, s0, e0, _ = self._last
        if np.array_equal(f, f0):
            return s0, e0
        if self.n < WORTHWHILE:
            return None
        square, size = float(f0 @ f0), float(np.abs(f) @ self.norms)
        t = float(f @ f0) / square if square > 0 else 0.0
        delta = f - t * f0
        weight = np.abs(delta) * self.norms
        support = max(int(np.count_nonzero(f)), 1)
        far = weight > ROUNDING * size / support
        # what s0 is off by, the product with delta, its part left out, and a few roundings of sums of this size
        more = self._product_error(delta) + float(np.sum(weight[~far])) * (1 + EPS) + 4 * EPS * size
        e = abs(t) * e0 + more * self.norms
        again = np.count_nonzero(~(e <= AS_GOOD * fresh) & asked)  # those that were rough
        dear = 2 * (np.count_nonzero(far) * self.n + again * support) >= support * self.n
        if dear or not np.isfinite(e).all():
            return None
        return t * s0 + (self.K.matvec(np.where(far, delta, 0.0)) if far.any() else 0.0), e

    def _quick(self, f: Array) -> tuple[Array, Array] | None:
        """Rough scores of all samples that have no part in f; of the others none. None where K has no quick way."""
        others = np.flatnonzero(f == 0)
        many = len(others) * (self.n - len(others)) >= QUICK and 2 * len(others) >= self.n
        found = self.K.rough_matvec(f, others) if many else None
        if found is None:
            return None
        s, e = np.zeros(self.n), np.full(self.n, np.inf)
        s[others], e[others] = found
        return s, e

    def _product_error(self, f: Array) -> float:
        """Of K f, for |phi(x_i)| = 1."""
        return ((self.n + 2) * EPS + self.accuracy) * float(np.abs(f) @ self.norms)

    def adjoint(self, v, picked=None):
        out = np.zeros(self.n)
        out[slice(None) if picked is None else picked] = v
        return out

    def inner(self, f, g):
        return float(f @ self._scores(g, lambda s, e: f != 0)[0])

    def gram(self, rows):
        return self.K.block(rows, rows)

    def norm_error(self, f):
        weights, used = np.abs(f), np.flatnonzero(f)
        size, error = float(weights @ self.norms), self._scores(f, lambda s, e: f != 0)[1]
        return float(weights[used] @ error[used]) + (self.n + 8) * EPS * size * size

    def adjoint_error(self, v):
        return 0.0
