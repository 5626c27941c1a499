r"""Which points carry a reduced expansion: drawn at random, by a pivoted Cholesky factor, or by what they are for.

    random     each sample is as likely as any other
    cholesky   those that the kernel matrix is least explained without: randomly pivoted Cholesky, see `low_rank`
    greedy     those whose addition lowers P most (Keerthi, Chapelle, DeCoste 2006)

Greedy: given the best f over the present basis, let r_j = k_j - (its projection on the basis) for a candidate x_j.
Adding beta_j r_j to f changes P by

    beta_j g_j + 1/2 beta_j^2 h_j,      g_j = sum_i s_i r_j(x_i),    h_j = |r_j|^2 + sum_i D_i r_j(x_i)^2

with s_i and D_i the slope and curvature of the loss at f(x_i): g_j^2 / 2 h_j is what it is worth. Those without either
have no say, and make poor candidates. Those that are worth most are held against each other: after each choice the
others are worth what is left of them, by one step of Cholesky's method on the matrix whose diagonal is h, so that near
copies of a good candidate are not taken with it. The basis grows, by GROWTH at most, then f is optimised again. Of
several binary problems, which share the basis, the worth is the sum.

A basis may also grow until the error on samples that were held out no longer falls.

All of it is done on a part of the samples, the pool, and while the basis is small on a part of that: what is proven in
the end is proven on all of them, whatever the choice.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .crew import in_parts
from .kernel_matrix import TiledKernel
from .kernels import Kernel, Points
from .losses import Array, Huber, Loss
from .matrix import Dense
from .newton_path import advance, begin_path
from .problem import LinearProblem
from .reduced import RANK, Basis, Mapped, kernel_values, make_basis

METHODS = ("random", "cholesky", "greedy")
FIRST = 20  # points of a basis that grows, chosen at random
GROWTH = 2.1  # times as many at a time, at most
CANDIDATES, LEAST, MOST = 10, 500, 4000  # for each that is chosen; and in all
SHORTLIST, SHORT = 3, 300  # the same of those that are held against each other: a few would be copies of one another
POOL, POOL_EACH = 20_000, 15  # samples in the pool, at least, and for each point of the basis
PART = 5000  # of them, at least, are looked at while the basis is small
SOLVED = 0.2  # relative gap at which a basis is ready to grow
STEPS = 50
SMALL = 2**21  # bytes of features up to which they are float64 at no cost
PATIENCE = 2  # growths without a lower error on what was held out


@dataclass(frozen=True)
class Task:
    """One binary problem over samples of the pool."""

    rows: np.ndarray
    y: Array
    cost: Array
    loss: Loss
    intercept: str


@dataclass(frozen=True)
class HeldOut:
    """Samples to try a basis on: `error` says how wrong scores (m, tasks), b included, are."""

    X: object
    error: Callable[[Array], float]


class Choice(NamedTuple):
    """A basis, what is known of its values, and the best f over it of each task, or nearly; or none."""

    basis: Basis
    values: np.ndarray  # at the first samples of the pool, of the first points of the basis
    fits: list["Fit"]


@dataclass
class Fit:
    """The best f over the present basis, and how the loss sees it."""

    w: Array
    b: float
    slope: Array  # s_i = dP / df(x_i)
    curvature: Array  # D_i


def pool_size(n: int, size: int) -> int:
    """How many of n samples to look at for a basis of this size."""
    return min(n, max(POOL, POOL_EACH * size))


def choose_basis(
    method: str,
    kernel: Kernel,
    X,
    tasks: list[Task],
    size: int,
    rng: np.random.Generator,
    *,
    held_out: HeldOut | None = None,
    finish: bool = True,
    threads: int = 1,
    watch: Callable[[str], None] | None = None,
) -> Choice:
    """A basis of up to `size` rows of X, the pool: fewer where more add nothing, or lower no error of `held_out`.

    The rows are in random order: the first of them stand for all. The places of each task's samples rise. Unless told
    to `finish`, the fits are none, or those of a smaller basis.
    """
    n = X.shape[0]
    size = min(size, n)
    growing = _Growing(kernel, X, tasks, size, threads)
    order = np.zeros(0, dtype=np.int64)
    if method == "random":
        order = rng.choice(n, size, replace=False)
    elif method == "cholesky":
        from .low_rank import random_cholesky

        order = random_cholesky(TiledKernel(kernel, X, threads=threads), size, rng=rng).samples
    first = len(order) if len(order) and held_out is None else min(FIRST, max(size // 4, 1))
    growing.add(order[:first] if len(order) else rng.choice(n, first, replace=False))
    best, best_error, idle = (growing.basis, growing.fits), np.inf, 0
    taken = first
    while True:
        words = f"basis {len(growing.basis)} of {size}"
        more = _growth(len(growing.basis), size)
        share = (len(growing.basis) + more) / size if held_out is None else 1.0  # the last growth is the half of it
        growing.look_at(max(PART, round(share * n)))
        if held_out is not None:
            fits, error = growing.optimize(), held_out.error(growing.scores(held_out.X))
            noise = np.sqrt(error * (1 - error) / held_out.X.shape[0])  # type: ignore[attr-defined]
            idle = idle + 1 if error >= best_error - 0.25 * noise else 0
            if error < best_error:
                best, best_error = (growing.basis, fits), error
            words += f": {100 * error:.2f} % wrong of those held out"
        if watch is not None:
            watch(words)
        new = order[taken : taken + more]
        if method == "greedy" and more > 0:
            new = growing.best(more, rng)
        taken += more
        if idle >= PATIENCE or not (len(new) and growing.add(new)):
            basis, fits = best
            if held_out is None:
                growing.look_at(n)
                basis, fits = growing.basis, growing.optimize() if finish else growing.padded()
            return Choice(basis, growing.G[:, : len(basis)], fits)


def _growth(count: int, size: int) -> int:
    """How many more, so that all growths up to `size` are about the same: a small last one would cost a whole fit."""
    if not 0 < count < size:
        return size - count
    ratio = size / count
    return min(max(round(count * (ratio ** (1 / np.ceil(np.log(ratio) / np.log(GROWTH))) - 1)), 1), size - count)


class _Growing:
    """A basis over the pool, with the best f of each task over it."""

    def __init__(self, kernel: Kernel, X, tasks: list[Task], size: int, threads: int):
        self.X, self.whole, self.threads = X, tasks, threads
        self.points = Points(kernel, X)
        small = 8 * X.shape[0] * size <= SMALL
        self.dtype = np.float64 if small or callable(kernel.name) or self.points.wide else np.float32
        nothing = np.empty((0, 0))
        self.basis = Basis(kernel, np.zeros(0, dtype=np.int64), X[:0], nothing, nothing, self.dtype)
        self.G = np.empty((0, 0), dtype=self.dtype)  # its values, as far as they were needed
        self.rows, self.tasks = 0, tasks  # those of the pool that are looked at, and the problems on them
        self.fits: list[Fit] = []
        self.fitted = (0, 0)  # so many rows, and the size of the basis, that the fits are of

    def look_at(self, rows: int) -> None:
        """Only the first so many samples of the pool from now on, each standing for those behind them."""
        n = self.X.shape[0]
        self.rows = min(rows, n)
        self.tasks = []
        for task in self.whole:
            mine = slice(np.searchsorted(task.rows, self.rows))
            cost = task.cost[mine] * (n / self.rows)
            self.tasks.append(replace(task, rows=task.rows[mine], y=task.y[mine], cost=cost))

    def add(self, samples: np.ndarray) -> bool:
        """Those that the basis does not span already; were there any?"""
        before = len(self.basis)
        self.basis = make_basis(self.points.kernel, self.X, np.concatenate([self.basis.samples, samples]), self.dtype)
        return len(self.basis) > before

    def _values(self) -> np.ndarray:
        """G of the present basis at those that are looked at."""
        known, old = self.G.shape
        if (self.rows, len(self.basis)) != (known, old):
            G = np.empty((self.rows, len(self.basis)), dtype=self.dtype)
            G[:known, :old] = self.G
            for rows, first in (range(known), old), (range(known, self.rows), 0):
                new = self.points.take(self.basis.samples[first:])
                part = G[rows.start : rows.stop, first:]
                kernel_values(self.points.take(np.array(rows)), new, self.dtype, self.threads, out=part)
            self.G = G
        return self.G

    def optimize(self) -> list[Fit]:
        """The fits over the present basis; the tasks at the same time, or one with all threads."""
        if self.fitted != (self.rows, len(self.basis)):
            count = len(self.tasks)
            features = Mapped(Dense(self._values(), self.threads if count == 1 else 1), self.basis)
            last: list[Fit | None] = [*self.fits] or [None] * count

            def work(begin: int, end: int) -> list[Fit]:
                return [_optimize(features, self.tasks[k], last[k]) for k in range(begin, end)]

            parts = min(self.threads, count)
            done = in_parts([count * k // parts for k in range(parts + 1)], work)
            self.fits, self.fitted = [fit for some in done for fit in some], (self.rows, len(self.basis))
        return self.fits

    def padded(self) -> list[Fit]:
        """The last fits, as functions over the present basis: R only grows."""
        return [replace(fit, w=np.pad(fit.w, (0, len(self.basis) - len(fit.w)))) for fit in self.fits]

    def scores(self, X) -> Array:
        coef = np.column_stack([self.basis.R @ fit.w for fit in self.optimize()])
        return self.basis.values(X, self.threads) @ coef + np.array([fit.b for fit in self.fits])

    def best(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Up to `count` samples that lower P most, of candidates drawn among those the losses push."""
        slopes = np.zeros((self.rows, len(self.tasks)), dtype=self.dtype)
        curvature = np.zeros(self.rows, dtype=self.dtype)
        for k, (task, fit) in enumerate(zip(self.tasks, self.optimize(), strict=True)):
            slopes[task.rows, k] = fit.slope
            curvature[task.rows] += fit.curvature
        felt = np.flatnonzero(curvature.astype(bool) | slopes.any(axis=1))  # others have no say in it
        candidates = self._candidates(felt, count, rng)
        points = self.points.take(candidates)
        inside, coef = self._projections(points)
        residuals = kernel_values(self.points.take(felt), points, self.dtype, self.threads)
        G, root = self.G[felt], np.sqrt(curvature[felt])[:, None]

        def scores(begin: int, end: int) -> tuple[Array, Array]:
            mine = residuals[begin:end]
            mine -= G[begin:end] @ coef  # r_j(x_i)
            slope = mine.T @ slopes[felt[begin:end]]
            mine *= root[begin:end]
            return slope.astype(np.float64), np.einsum("ij,ij->j", mine, mine, dtype=np.float64)

        bounds = [len(felt) * k // self.threads for k in range(self.threads + 1)]
        done = in_parts(bounds, scores)
        slope = sum((part for part, _ in done), np.zeros(1))
        own = points.diagonal()
        norms = own - np.einsum("ij,ij->j", inside, inside)  # |r_j|^2
        usable = norms > RANK * own
        size = sum((part for _, part in done), norms)
        worth = np.where(usable, np.sum(slope * slope, axis=1) / np.maximum(size, 1e-300), -1.0)
        short = np.sort(np.argsort(-worth)[: min(max(SHORTLIST * count, SHORT), np.count_nonzero(usable))])
        chosen = points.take(short)
        within: Array = inside[:, short].astype(self.dtype)
        matrix = kernel_values(chosen, chosen, self.dtype, self.threads) - within.T @ within

        def products(begin: int, end: int) -> Array:
            mine = residuals[begin:end, short]
            return mine.T @ mine

        matrix = sum(in_parts(bounds, products), matrix)
        return candidates[short[_eliminate(matrix, slope[short], count)]]

    def _projections(self, points: Points) -> tuple[Array, Array]:
        """The kernels of m points, projected on the basis: (k, m) in orthonormal coordinates, and as sums over it."""
        R, own = self.basis.R, self.points.take(self.basis.samples)
        inside = np.empty((len(R), len(points)))
        coef = np.empty((len(R), len(points)), dtype=self.dtype)

        def work(begin: int, end: int) -> None:
            values = kernel_values(own, points.take(np.arange(begin, end)), np.float64)
            inside[:, begin:end] = R.T @ values
            coef[:, begin:end] = R @ inside[:, begin:end]

        in_parts([len(points) * k // self.threads for k in range(self.threads + 1)], work)
        return inside, coef

    def _candidates(self, felt: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
        """Samples to choose from, those that are felt before others."""
        taken = np.zeros(self.X.shape[0], dtype=bool)
        taken[self.basis.samples] = True
        wanted = max(min(max(CANDIDATES * count, LEAST), MOST), count)
        first = felt[~taken[felt]]
        if len(first) >= wanted:
            return rng.choice(first, wanted, replace=False)
        taken[first] = True
        rest = np.flatnonzero(~taken[: self.rows])
        return np.concatenate([first, rng.choice(rest, min(wanted - len(first), len(rest)), replace=False)])


def _optimize(X: Mapped, task: Task, last: Fit | None) -> Fit:
    """Newton's method from the last f: R only grows, so its w is still that function, with zeros behind."""
    loss = task.loss if task.loss.smooth else Huber(0.5)  # a kink has no curvature to count
    mine = X if len(task.rows) == X.shape[0] else X.take(task.rows)
    problem = LinearProblem(task.y, task.cost, loss, task.intercept, X=mine)
    w, b = np.zeros(problem.size), 0.0
    if last is not None:
        w[: len(last.w)], b = last.w, last.b
    if not problem.n:  # none of its samples are looked at yet
        return Fit(w, b, np.empty(0), np.empty(0))
    path = begin_path(problem, w, b)
    for _ in range(STEPS):
        if path.ended or path.gap <= SOLVED * path.primal:
            break
        advance(problem, path)
    margins = problem.margins(problem.scores(path.f), path.b)
    inside = (margins < loss.tilt) & (margins > loss.tilt - loss.bend * min(loss.bound, 1e300))
    curvature = np.where(inside, task.cost / loss.bend, 0.0)
    return Fit(path.f, path.b, task.cost * task.y * loss.slope(margins), curvature)


def _eliminate(matrix: Array, slope: Array, count: int) -> list[int]:
    """Places chosen one after the other: the most worth, the rest less what the choice has taken from them."""
    size, worth = matrix.diagonal().astype(np.float64), slope.copy()
    least, usable = 1e-3 * size, np.ones(len(size), dtype=bool)
    columns = np.zeros((len(size), count))
    chosen: list[int] = []
    for k in range(count):
        usable &= size > least
        if not usable.any():
            break
        value = np.divide(np.sum(worth * worth, axis=1), size, out=np.full(len(size), -1.0), where=usable)
        best = int(np.argmax(value))
        root = np.sqrt(size[best])
        column = (matrix[:, best] - columns[:, :k] @ columns[best, :k]) / root
        columns[:, k] = column
        worth -= np.outer(column, worth[best] / root)
        size -= column * column
        usable[best] = False
        chosen.append(best)
    return chosen
