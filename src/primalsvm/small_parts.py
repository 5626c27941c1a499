"""Many small Gaussian problems at once: a rough solution of each, by compiled loops that need Python once for many.

A pair of classes has a thousand samples, and ascending on them takes a millisecond or two: as long as Python takes to
come and go. So `smo`'s own loops go ahead of it through all pairs, on threads, in float32. What they find are starts:
the judge looks at each, in float64, and where it is not content the solver goes on from there.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from functools import partial
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
CLOSER = 0.7  # of the tolerance: the judge will see float64
LEAST = 1e-4  # tolerance: float32 goes no further, and to begin twice would cost more than it saves


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
) -> list[Callable[[], Start | None]]:
    """For each part, whose problem has these `facts`, who will say its start: there may be none.

    They are found in the order of the parts by threads that work ahead, while the caller judges what is there; whoever
    asks for one that is not helps to find the next ones. Nobody begins another once `interrupted` is set.
    """
    from .working_sets import ascend_from_nothing

    features = np.ascontiguousarray(K.points.features(slice(None), np.float32).values.T)
    order, found = iter(range(len(parts))), [Future[Start | None]() for _ in parts]

    def run(part: Part, y: Array, cost: Array, loss: Loss, intercept: str) -> Start | None:
        if interrupted.is_set():
            return None
        constant = KernelProblem.intercept_scaling**2 if intercept == "penalized" else 0.0
        options = (loss.tilt, loss.bend, loss.bound, intercept == "free", constant, CLOSER * tol)
        beta = np.zeros(len(y))
        b, steps, rows = ascend_from_nothing(features, part.rows, y, cost, *options, min(max_iter, ROUNDS), beta)
        whole = bool(np.isfinite(beta).all() and np.isfinite(b))
        return Start(beta, b, beta * y, steps, rows / len(y)) if whole else None

    def find_next() -> bool:
        """The next start that nobody has begun with; False if there is none."""
        k = None
        try:
            k = next(order, None)
            if k is None:
                return False
            found[k].set_result(run(parts[k], **facts[k]))
        except BaseException as error:  # Ctrl-C, where this is the main thread
            if k is not None and not found[k].done():
                found[k].set_exception(error)
            raise
        return True

    def find_all() -> None:
        while find_next():
            pass

    def tell(k: int) -> Start | None:
        while not found[k].done() and find_next():
            pass
        while not interrupted.is_set():  # a start that Ctrl-C hit will never be done
            try:
                return found[k].result(timeout=0.1)
            except NotYet:
                pass
        return found[k].result() if found[k].done() else None

    if threads > 1:
        pool = ThreadPoolExecutor(threads - 1)
        for _ in range(threads - 1):
            pool.submit(find_all)
        pool.shutdown(wait=False)
    return [partial(tell, k) for k in range(len(parts))]
