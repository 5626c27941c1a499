r"""Products with kernel matrices that are never made: boxes and CSR beside tiles, as ratios in one run.

    python -m benchmarks.sums [--n 100000] [--rows 2000] [--repeats 3] [--jsonl FILE] [--toy]

Points uniform in the unit square and cube, weights of both signs, one thread. Each line is one kernel matrix:

    made       CPU seconds to make it: place the points in boxes; find the pairs and compute their entries
    product    CPU seconds of K v, the median
    tiles      the same of TiledKernel, from --rows of its rows, for each takes the same time
    ratio      tiles / product
    accuracy   the bound on an entry, of which `used` is the part that the products differed by, over sum |v_j|

and then conjugate gradients to a proven 1e-3 (squared hinge, C = 1) on n / 5 points: CPU seconds with each matrix.
"""

import argparse
import json
import os
from collections.abc import Callable, Iterator

import numpy as np
from threadpoolctl import threadpool_limits

from primalsvm import KernelProblem, SquaredHinge, solve
from primalsvm.kernel_matrix import KernelMatrix, TiledKernel
from primalsvm.kernels import Kernel
from primalsvm.solvers import ConjugateGradient
from primalsvm.sparse_kernel import sparse_kernel
from primalsvm.tree_kernel import TreeKernel

from . import commit, timed

Make = Callable[[np.ndarray], KernelMatrix]


def cases() -> Iterator[tuple[str, int, Kernel, Make]]:
    """(what, d, kernel, how its matrix is made)"""
    for d in (2, 3):
        for gamma in (10.0, 100.0, 1000.0):
            kernel = Kernel("rbf", gamma=gamma)
            for tolerance in (1e-6, 1e-8, 1e-10):
                yield (
                    f"boxes, gamma {gamma:.0f}, tolerance {tolerance:.0e}",
                    d,
                    kernel,
                    lambda X, kernel=kernel, tolerance=tolerance: TreeKernel(kernel, X, tolerance),
                )
    for d, gamma, width in ((2, 3e4, 30.0), (3, 3e3, 12.0)):
        for kernel in (Kernel("rbf", gamma=gamma), Kernel("wendland", gamma=width)):
            what = f"CSR, {kernel.name}, gamma {kernel.gamma:.0f}"
            yield what, d, kernel, lambda X, kernel=kernel: sparse_kernel(kernel, X)


def compare_products(options, record: Callable) -> None:
    print(f"{'d':>1}  {'what':40} {'made':>8} {'product':>9} {'tiles':>9} {'ratio':>7}  accuracy  used")
    slow: dict = {}
    for what, d, kernel, make in cases():
        rng = np.random.default_rng(d)
        X, v = rng.random((options.n, d)), rng.standard_normal(options.n)
        rows = rng.permutation(options.n)[: options.rows]
        K, _, made = timed(lambda make=make, X=X: make(X))
        K.matvec(v)  # compiles
        runs = [timed(lambda K=K, v=v: K.matvec(v)) for _ in range(options.repeats)]
        product = float(np.median([cpu for *_, cpu in runs]))
        if (d, kernel) not in slow:
            tiled = TiledKernel(kernel, X)
            exact, _, cpu = timed(lambda tiled=tiled, v=v, rows=rows: tiled.matvec(v, rows))
            slow[d, kernel] = exact, cpu * options.n / len(rows)
        exact, tiles = slow[d, kernel]
        used = float(np.abs(runs[0][0][rows] - exact).max() / np.abs(v).sum() / K.accuracy)
        ratio = tiles / max(product, 1e-9)
        times = f"{made:6.2f} s {1e3 * product:6.0f} ms {tiles:7.1f} s {ratio:7.0f}"
        print(f"{d}  {what:40} {times}  {K.accuracy:.1e}   {used:.0e}", flush=True)
        facts = {"what": what, "d": d, "kernel": kernel.name, "gamma": kernel.gamma, "made": made, "product": product}
        record(facts | {"tiles": tiles, "ratio": ratio, "accuracy": K.accuracy, "entries": K.work})


def compare_answers(options, record: Callable) -> None:
    n = options.n // 5
    rng = np.random.default_rng(0)
    X = rng.random((n, 2))
    waves = np.sin(9 * X[:, 0]) + np.cos(7 * X[:, 1]) + 0.5 * rng.standard_normal(n)
    kernel = Kernel("rbf", gamma=3e3)
    makers: dict[str, Make] = {
        "boxes": lambda X: TreeKernel(kernel, X),
        "CSR": lambda X: sparse_kernel(kernel, X),
        "tiles": lambda X: TiledKernel(kernel, X),
    }
    for name, make in makers.items():

        def train(make: Make = make):
            problem = KernelProblem(np.where(waves > 0.4, 1.0, -1.0), np.ones(n), SquaredHinge(), K=make(X))
            return solve(problem, ConjugateGradient(), tol=1e-3, max_iter=1000)

        result, _, cpu = timed(train)
        gap = result.certificate.relative_gap
        print(f"conjugate_gradient on {n} points, {name:5}: {cpu:7.2f} s, {result.iterations} steps, gap {gap:.1e}")
        record({"what": f"conjugate_gradient, {name}", "n": n, "cpu_seconds": cpu, "relative_gap": gap})


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--rows", type=int, default=2000, help="of the tiled product, which is scaled up")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--jsonl", default=os.devnull, help="append one JSON line per matrix to this file")
    parser.add_argument("--toy", action="store_true", help="few points: seconds, and no measurement")
    options = parser.parse_args(arguments)
    if options.toy:
        options.n, options.rows, options.repeats = 2000, 100, 1
    facts = {"commit": commit(), "n": options.n, "threads": 1}
    with threadpool_limits(1), open(options.jsonl, "a") as jsonl:

        def record(line: dict) -> None:
            print(json.dumps(facts | line), file=jsonl, flush=True)

        compare_products(options, record)
        compare_answers(options, record)


if __name__ == "__main__":
    main()
