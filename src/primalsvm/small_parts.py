"""Many small Gaussian problems at once: a rough solution of each, by compiled loops that need Python once for many.

A pair of classes has a thousand samples, and ascending on them takes a millisecond or two: as long as Python takes to
come and go. So `smo`'s own loops go through all pairs first, on all threads, in float32. What they find are starts: the
judge looks at each, in float64, and where it is not content the solver goes on from there.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np

from .kernel_matrix import SMALL, KernelMatrix, TiledKernel
from .multiclass import Part
from .problem import KernelProblem
from .solve import Start

MOST = 2000  # samples of a problem: a larger one is worth all threads
SHARE = 0.2  # of the memory limit for rows of K
BATCH = 500_000  # multiplications of samples, or so, between two looks at Ctrl-C
RATIO = 0.02  # a violation falls to this share of itself before the gap is looked at
ROUNDS = 100  # such falls, at most
CLOSER = 0.7  # of the tolerance: the judge will see float64


def small_parts(K: KernelMatrix | None, parts: Sequence[Part], threads: int) -> list[int]:
    """Those that the loops take: not so small that their K is stored, and then solved to the end of float64."""
    if not isinstance(K, TiledKernel) or K.held:
        return []
    points, most = K.points, min(MOST, np.sqrt(SHARE * K.memory_limit / (4 * threads)))
    if K.kernel.name != "rbf" or points.sparse or points.rough or points.wide:
        return []
    return [k for k, part in enumerate(parts) if part.rows is not None and SMALL < 8 * len(part.y) ** 2 <= 8 * most**2]


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
    from .working_sets import ascend_parts

    if not parts:
        return []
    loss, intercept = facts[0]["loss"], facts[0]["intercept"]
    features = np.ascontiguousarray(K.points.features(slice(None), np.float32).values.T)
    bounds = np.cumsum([0, *(len(part.y) for part in parts)])
    samples = np.concatenate([part.rows for part in parts])  # type: ignore[misc]
    y, cost = (np.concatenate([fact[name] for fact in facts]) for name in ("y", "cost"))
    beta, b, work = np.zeros(len(y)), np.zeros(len(parts)), np.zeros((len(parts), 2))
    constant = KernelProblem.intercept_scaling**2 if intercept == "penalized" else 0.0
    most = min(max_iter, ROUNDS)
    options = (loss.tilt, loss.bend, loss.bound, intercept == "free", constant, RATIO, CLOSER * tol, most)

    def run(first: int, last: int) -> None:
        if not interrupted.is_set():
            ascend_parts(features, samples, bounds, first, last, y, cost, *options, beta, b, work)

    done = np.cumsum(np.diff(bounds).astype(float) * features.shape[0] * 50) // BATCH
    cuts = [0, *(np.flatnonzero(np.diff(done)) + 1).tolist(), len(parts)]
    with ThreadPoolExecutor(threads) as pool:  # whoever is free takes the next
        futures = [pool.submit(run, first, last) for first, last in pairwise(cuts) if first < last]
        try:
            for future in futures:
                future.result()
        except KeyboardInterrupt:
            interrupted.set()
    starts: list[Start | None] = []
    for k, part in enumerate(parts):
        mine, (steps, rows) = slice(bounds[k], bounds[k + 1]), work[k]
        start = Start(beta[mine], float(b[k]), beta[mine] * part.y, int(steps), rows / len(part.y))
        starts.append(start if steps and np.isfinite(start.f).all() and np.isfinite(start.b) else None)
    return starts
