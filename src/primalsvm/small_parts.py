"""Many small Gaussian problems at once: a rough solution of each, mostly by compiled loops, on all threads.

A pair of classes has a thousand samples, and ascending on them takes a millisecond or two: as long as the frame of
solver and judge takes in Python, whose threads wait for each other. So `smo`'s own loops go through all pairs first, in
float32. What they find are starts: the judge looks at each, in float64, and where it is not content the solver goes on
from there.

All samples take part at first, then in turns those near the margin, and all again to see whether that was right.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from .kernel_matrix import SMALL, KernelMatrix, TiledKernel
from .losses import Array, Loss
from .multiclass import Part
from .problem import KernelProblem
from .solve import Start

MOST = 2000  # samples of a problem: a larger one is worth all threads
SHARE = 0.2  # of the memory limit for rows of K
ROUNDS = 100  # of the loops, at most
FIRST, LATER = 0.05, 0.02  # a round ends when the violation has fallen to this share of itself
NEAR = 0.3  # of the tilt: so far from its place may e_i be, and the sample takes part
CLOSER = 0.7  # of the tolerance: the judge will see float64


def small_parts(K: KernelMatrix | None, parts: Sequence[Part], threads: int) -> list[int]:
    """Those that the loops take: not so small that their K is stored, and then solved to the end of float64."""
    if not isinstance(K, TiledKernel) or K.held:
        return []
    points, most = K.points, min(MOST, np.sqrt(SHARE * K.memory_limit / (4 * threads)))
    if K.kernel.name != "rbf" or points.sparse or points.rough or points.wide:
        return []
    sizes = [0 if part.rows is None else len(part.rows) for part in parts]
    return [k for k, n in enumerate(sizes) if 8 * n * n > SMALL and n <= most]


def find_starts(
    K: TiledKernel,
    parts: Sequence[Part],
    facts: Sequence[dict[str, Any]],
    tol: float,
    max_iter: int,
    threads: int,
    interrupted: threading.Event,
) -> list[Start | None]:
    """A start for each part, whose problem has these `facts`. Ctrl-C sets `interrupted`; some have none then."""
    features = np.ascontiguousarray(K.points.features(slice(None), np.float32).values.T)

    def run(part: Part, **fact) -> Start | None:
        if interrupted.is_set() or part.rows is None:
            return None
        problem = _Gaussian(np.take(features, part.rows, axis=1), **fact)
        start = problem.solve(CLOSER * tol, min(max_iter, ROUNDS))
        return start if np.isfinite(start.f).all() and np.isfinite(start.b) else None

    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(run, part, **fact) for part, fact in zip(parts, facts, strict=True)]
        try:
            return [future.result() for future in futures]
        except KeyboardInterrupt:
            interrupted.set()
    return [future.result() if future.exception() is None else None for future in futures]


class _Gaussian:
    """One problem in the terms of `working_sets`: beta = y alpha, and e, the gradient of D with respect to it."""

    def __init__(self, features: np.ndarray, y: Array, cost: Array, loss: Loss, intercept: str):
        n = len(y)
        self.y, self.cost, self.loss, self.paired = y, cost, loss, intercept == "free"
        self.constant = KernelProblem.intercept_scaling**2 if intercept == "penalized" else 0.0
        upper = np.multiply(loss.bound, cost, out=np.zeros(n), where=cost > 0)
        self.low, self.high = np.where(y > 0, 0.0, -upper), np.where(y > 0, upper, 0.0)
        self.bends = np.divide(loss.bend, cost, out=np.zeros(n), where=cost > 0)
        self.beta, self.e = np.zeros(n), loss.tilt * y
        self.features = features  # (d + 2, n), see gaussian_row
        self.rows, self.slot = np.empty((n, n), dtype=np.float32), np.full(n, -1)  # of K; untouched memory is free
        self.dual, self.rounds = 0.0, 0

    def solve(self, tol: float, rounds: int) -> Start:
        """Until the gap seems to be at most tol P."""
        self.ascend(FIRST)
        while True:
            gap, b = self.gap()
            if not gap > tol * (self.dual + gap) or self.rounds >= rounds:
                break
            some = self.near(b)
            before = self.beta.copy()
            if 2 * len(some) > len(self.beta):
                self.ascend(LATER)
            else:
                self.merge(some, self.part(some).finish(0.5 * tol, rounds))
            if np.array_equal(before, self.beta):
                break
        b = b if self.paired else self.constant * float(np.sum(self.beta))
        passes = (int(self.slot.max()) + 1) / len(self.beta)
        return Start(self.beta, b, self.beta * self.y, self.rounds, passes)

    def finish(self, tol: float, rounds: int) -> "_Gaussian":
        """The same with everybody in every round."""
        steps = 1
        while steps and self.rounds < rounds:
            steps = self.ascend(LATER)
            gap, _ = self.gap()
            if not gap > tol * (self.dual + gap):
                break
        return self

    def ascend(self, ratio: float) -> int:
        from .working_sets import ascend_on_rows

        curve, limit = 1.0 + self.constant + self.bends, 50 * len(self.beta) + 1000
        arrays = (self.rows, self.slot, self.features, curve, self.low, self.high, self.beta, self.e)
        steps, gain = ascend_on_rows(*arrays, self.paired, self.constant, 1e-15, ratio, limit)
        self.dual += gain
        self.rounds += 1
        return steps

    def gap(self) -> tuple[float, float]:
        """(P - D as the e show it, the intercept in their middle where that is free)"""
        from .working_sets import sample_gaps, survey

        loss, b = self.loss, 0.0
        args = (self.y * loss.tilt - self.bends * self.beta - self.e, self.y, self.beta, self.cost)
        terms = (loss.tilt, loss.bend, loss.bound)
        top, bottom = survey(*args, *terms, 0.0, np.empty(len(self.y)), np.empty(len(self.y)))
        if self.paired and np.isfinite(top) and np.isfinite(bottom):
            b = 0.5 * (top + bottom)
        return sample_gaps(*args, *terms, b), b

    def near(self, b: float) -> np.ndarray:
        """Those whose beta is not 0, or that nearly may change it."""
        reach = NEAR * self.loss.tilt
        rise, fall = (self.beta < self.high) & (self.e > b - reach), (self.beta > self.low) & (self.e < b + reach)
        return np.flatnonzero((self.beta != 0.0) | rise | fall)

    def part(self, some: np.ndarray) -> "_Gaussian":
        """The problem of these samples, the others as they are."""
        other = object.__new__(_Gaussian)
        other.loss, other.paired, other.constant = self.loss, self.paired, self.constant
        other.dual, other.rounds = self.dual, self.rounds
        for name in ("y", "cost", "low", "high", "bends", "beta", "e"):
            setattr(other, name, getattr(self, name)[some])
        other.features = np.take(self.features, some, axis=1)
        other.rows, other.slot = np.empty((len(some), len(some)), dtype=np.float32), np.full(len(some), -1)
        there = np.flatnonzero(self.slot[some] >= 0)
        other.rows[: len(there)] = np.take(self.rows[self.slot[some[there]]], some, axis=1)
        other.slot[there] = np.arange(len(there))
        return other

    def merge(self, some: np.ndarray, other: "_Gaussian") -> None:
        """Take over what the part has found, and bring the e of all the others up to date."""
        from .working_sets import gaussian_row

        change = other.beta - self.beta[some]
        moved = np.flatnonzero(change)
        count = int(self.slot.max()) + 1
        for j in some[moved]:
            if self.slot[j] < 0:
                gaussian_row(self.features, j, self.rows[count])
                self.slot[j] = count
                count += 1
        self.e -= change[moved] @ self.rows[self.slot[some[moved]]] + self.constant * float(np.sum(change))
        self.e[some], self.beta[some] = other.e, other.beta
        self.dual, self.rounds = other.dual, other.rounds
