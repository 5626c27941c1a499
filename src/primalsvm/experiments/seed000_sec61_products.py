r"""Chapelle (2007), section 6.1: products with a kernel matrix that cost less than n^2.

    sparse      the kernel is narrow: entries below 1e-6 are left out                      as many products as entries
    low rank    the kernel is wide: K ~ F F', F of rank p by incomplete Cholesky           2 n p
    trees       boxes and interpolation in at most three dimensions                        about n

Data: USPS and sigma = 1/2, 1, 2, ..., 32 for the first two; Gaussian points in the plane and in space for the third.
Rank is that at which 1 % of the trace is left. Times are of the processor, on one thread; the paper has no figure.

Claims: K is nearly sparse where the width is small, and nearly of low rank where it is large; the cost of a product is
proportional to the nonzero entries; methods of trees are quick in few dimensions and no use in many.

Expected: all hold, with a range of sigma in between where neither helps; our trees refuse more than three features.
"""

from functools import partial

import numpy as np

from ..kernel_matrix import TiledKernel
from ..kernels import Kernel
from ..low_rank import random_cholesky
from ..sparse_kernel import sparse_kernel
from ..tree_kernel import TreeKernel
from .lab import Lab, Outcome, Plot, Table, Verdict, cpu_seconds, exponent
from .usps_kernel import digits, gaussian

SIGMAS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)


def trees(lab: Lab, d: int, sizes: list[int]) -> tuple[np.ndarray, float, float]:
    """Seconds of a product for each n, those of tiles at the last, and how far the two differ there."""
    rng, times = np.random.default_rng(0), []
    for n in sizes:
        X, v = rng.standard_normal((n, d)), rng.standard_normal(n)
        K = TreeKernel(Kernel("rbf", 5.0), X)
        K.matvec(v)  # compiled, or from the cache
        time, product = cpu_seconds(partial(K.matvec, v), 3)
        times.append(time)
    slow, tiled = cpu_seconds(partial(TiledKernel(Kernel("rbf", 5.0), X).matvec, v))
    return np.array(times), slow, float(np.max(np.abs(product - tiled)) / np.sum(np.abs(v)))


def refused() -> str:
    try:
        TreeKernel(Kernel("rbf", 1.0), np.zeros((10, 256)))
    except ValueError as error:
        return str(error)
    return ""


def run(lab: Lab) -> Outcome:
    data = digits(lab, lab.pick(300, 1500, 4000))
    n, v = len(data.y), np.random.default_rng(1).standard_normal(len(data.y))
    found = []
    for number, sigma in enumerate(SIGMAS):
        lab.tell(f"sigma = {sigma:g}", 0.7 * number / len(SIGMAS))
        K = gaussian(data.X, sigma=sigma)
        dense = cpu_seconds(partial(K.dot, v), 3)[0]
        sparse = sparse_kernel(Kernel("rbf", 1 / (2 * sigma * sigma)), data.X, 1e-6)
        few = cpu_seconds(partial(sparse.matvec, v), 3)[0]
        low = random_cholesky(K, n // 4, 0.01)
        rank = low.rank if low.trace_error <= 0.01 else n
        thin = cpu_seconds(partial(low.matvec, v), 3)[0]
        found.append((sigma, np.count_nonzero(K > 1e-6) / n**2, rank / n, dense, few, thin))
    sigmas, filled, ranks, dense_s, few_s, thin_s = np.array(found).T
    sizes = lab.pick([600, 1200], [5000, 10_000, 20_000], [10_000, 20_000, 40_000])
    plane, slow, off = trees(lab, 2, sizes)
    lab.tell("trees", 0.9)
    space = trees(lab, 3, sizes)[0]
    grows, cost = exponent(sizes, plane), exponent(filled, few_s)
    said = [f"rank {r * n:.0f}" if r < 1 else f"no rank up to {n // 4}" for r in ranks]
    measured = None if lab.toy else True
    verdicts = [
        Verdict(
            "Where the width is small, K is well approximated by a sparse matrix.",
            measured and bool(filled[0] <= 0.1 and few_s[0] < dense_s[0]),
            f"sigma = 1/2: {100 * filled[0]:.2g} % of the entries are above 1e-6, and a product takes "
            f"{1e3 * few_s[0]:.2g} ms beside {1e3 * dense_s[0]:.2g}.",
        ),
        Verdict(
            "Time is proportional to the number of nonzero entries.",
            measured and bool(0.7 <= cost <= 1.3),
            f"Entries^{cost:.2f}, from {100 * filled.min():.2g} to {100 * filled.max():.3g} % of n^2.",
        ),
        Verdict(
            "Where the width is large, K is nearly of low rank.",
            measured and bool(ranks[-1] <= 0.2 and thin_s[-1] < dense_s[-1]),
            f"sigma = 32: {said[-1]} of {n} leaves 1 % of the trace, and a product takes {1e3 * thin_s[-1]:.2g} ms "
            f"beside {1e3 * dense_s[-1]:.2g}; sigma = 16: {said[5]}; sigma = 8: {said[4]}.",
        ),
        Verdict(
            "Trees are quick in few dimensions.",
            measured and bool(grows <= 1.3),
            f"In the plane n^{grows:.2f}, {plane[-1]:.3f} s at n = {sizes[-1]} beside {slow:.1f} s, "
            f"right to {off:.0e}; in space {space[-1]:.3f} s.",
        ),
        Verdict(
            "They do not seem to be able to handle high-dimensional data.",
            bool(refused()),
            "Boxes with p nodes along each of 256 features are p^256: ours refuse more than three.",
        ),
    ]
    header = ["sigma", "entries above 1e-6, %", "rank for 1 % of the trace", "dense, ms", "sparse, ms", "low rank, ms"]
    rows = [
        [f"{s:g}", f"{100 * a:.3g}", f"{b * n:.0f}" if b < 1 else f"> {n // 4}", *(f"{1e3 * t:.3g}" for t in times)]
        for s, a, b, *times in found
    ]
    curves = {"entries above 1e-6": (sigmas, 100 * filled), "rank for 1 % of the trace": (sigmas, 100 * ranks)}
    speeds = {"plane": (np.array(sizes), plane), "space": (np.array(sizes), space)}
    return Outcome(
        verdicts,
        [Table(f"USPS, n = {n}: one product", header, rows)],
        [
            Plot("What is left of K", "sigma", "% of n^2, of n", curves, log_x=True, log_y=True),
            Plot("Products by boxes", "n", "seconds", speeds, log_x=True, log_y=True),
        ],
    )
