r"""Hyperpass beside Pegasos and cutting planes: the experiments of Do and Artieres (2008), Fig. 4, 5 and 6.

    python -m benchmarks.hyperpass [--data-home DIR] [--sets a9a w8a rcv1 covtype] [--output DIR] [--jsonl FILE] [--toy]

Hinge, no intercept, C = 1 and C = 1 / (lambda N) for lambda = 1e-4 and 1e-5. For each: the steps and the products
<x_i, .> over N until

    found      P(w) - v* <= 1e-4 P(w),    v* the best proven lower bound, from Newton's method at 1e-8
    proven     P(w) - v  <= 1e-4 P(w),    v the method's own lower bound; Pegasos has none

and, for Hyperpass, the products in a late step: the median over the last quarter of the run, over N. A step of Pegasos
is a pass, and it and a step of cutting planes count as N products. hyperpass is ours, its 200 nearest samples free;
"as published" frees only those whose hyperplane w lies on (near=0). Both start from w = 0 unless "from Pegasos".

Figures: gap_iterations.png (Fig. 4), gap_products.png (Fig. 5a, b), products_per_step.png (5c), start.png (Fig. 6).
"""

import argparse
import json
import lzma
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_svmlight_file
from threadpoolctl import threadpool_limits

from primalsvm import Hinge, LinearProblem, solve
from primalsvm.solvers import CuttingPlane, DualCoordinateAscent, Hyperpass, Newton, Pegasos

from . import Data, commit, data_home, load_covtype, load_rcv1, narrow, synthetic, timed

TARGET, STOP = 1e-4, 1e-6
METHODS: dict[str, tuple[Any, str, str]] = {  # solver, colour, line
    "hyperpass": (Hyperpass(start_passes=0), "C0", "-"),
    "hyperpass from Pegasos": (Hyperpass(), "C2", "-"),
    "hyperpass as published": (Hyperpass(start_passes=0, near=0), "C4", "--"),
    "as published, no shrinking": (Hyperpass(start_passes=0, near=0, shrink="none"), "C7", ":"),
    "Pegasos": (Pegasos(), "C1", "-"),
    "cutting planes": (CuttingPlane(), "C3", "-"),
}


class Curve(NamedTuple):
    """What one run looked like after each step: relative to P, as in the table."""

    products: np.ndarray  # over N, since the beginning
    found: np.ndarray  # (P - v*) / P of the best point so far
    proven: np.ndarray  # (P - v) / P
    seconds: float


def load(name: str) -> Callable[[Path], Data]:
    def loader(home: Path) -> Data:
        with lzma.open(home / name / f"{name}.xz", "rb") as file:
            X, y = load_svmlight_file(file)
        return Data(name, narrow(X), y, 0)

    return loader


LOADERS = {"a9a": load("a9a"), "w8a": load("w8a"), "rcv1": load_rcv1, "covtype": load_covtype}


def run(problem: LinearProblem, solver: Any, best: float, steps: int) -> Curve:
    """Step by step until P is within STOP of v*; judging is not timed."""
    solver.step(problem, solver.init(problem))  # compile
    state, seconds, _ = timed(lambda: solver.init(problem))
    products, found, proven, primal, bound = [], [], [], np.inf, 0.0
    for step in range(1, steps + 1):
        seconds += timed(lambda: solver.step(problem, state))[1]
        primal = min(primal, problem.primal(state.f, state.b))
        if state.alpha is not None:
            bound = max(bound, problem.dual(state.alpha))
        products.append(state.passes if isinstance(solver, Hyperpass) else float(step))
        found.append(max(primal - best, 0.0) / primal)
        proven.append(max(primal - bound, 0.0) / primal)
        if max(found[-1], proven[-1] if bound else 0.0) <= STOP:
            break
    return Curve(np.array(products), np.array(found), np.array(proven), seconds)


def reached(gaps: np.ndarray, counts: np.ndarray | None = None) -> str:
    """At which step (or after how many products) the target was reached."""
    at = np.flatnonzero(gaps <= TARGET)
    if not len(at):
        return f"> {len(gaps)}" if counts is None else "-"
    return str(at[0] + 1) if counts is None else f"{counts[at[0]]:.1f}"


def late(curve: Curve) -> float:
    """Products of a late step, over N."""
    each = np.diff(curve.products, prepend=0.0)
    return float(np.median(each[-max(len(each) // 4, 1) :]))


def compare(data: Data, settings: dict[str, float], steps: int, jsonl) -> Iterator[tuple[str, dict[str, Curve]]]:
    for setting, C in settings.items():
        problem = data.problem(Hinge())
        problem = replace(problem, cost=np.full(problem.n, C))
        reference = Newton() if problem.size <= 1000 else DualCoordinateAscent()
        best = solve(problem, reference, tol=1e-8, max_iter=20_000).certificate.dual
        print(f"\n{data.name}, {setting}: {data.X.shape}, v* = {best:.8g}")
        print(f"{'':28} {'found':>8} {'products/N':>11} {'proven':>8} {'late step':>10} {'steps':>6} {'seconds':>8}")
        curves = {}
        for name, (solver, _, _) in METHODS.items():
            curve = curves[name] = run(problem, solver, best, steps)
            row = f"{name:28} {reached(curve.found):>8} {reached(curve.found, curve.products):>11} "
            row += f"{reached(curve.proven) if name != 'Pegasos' else '':>8} {late(curve):10.4f} "
            print(row + f"{len(curve.found):6} {curve.seconds:8.2f}", flush=True)
            record = {"commit": commit(), "problem": data.name, "loss": "hinge", "C": C, "solver": name}
            record |= {"iteration": len(curve.found), "passes": curve.products[-1], "seconds": curve.seconds}
            record |= {"found": reached(curve.found), "proven": reached(curve.proven), "late": late(curve)}
            print(json.dumps(record), file=jsonl, flush=True)
        yield setting, curves


def draw(output: Path, runs: dict[str, dict[str, Curve]]) -> None:
    """The paper's three figures; one panel a problem."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    output.mkdir(parents=True, exist_ok=True)

    def panels(name: str, title: str, across: str, up: str, which: list[str], line: Callable) -> None:
        columns = min(len(runs), 3)
        rows = -(-len(runs) // columns)
        figure, grid = plt.subplots(
            rows, columns, figsize=(4.6 * columns, 3.6 * rows), squeeze=False, layout="constrained"
        )
        for axes in grid.flat[len(runs) :]:
            axes.set_axis_off()
        for axes, (problem, curves) in zip(grid.flat, runs.items(), strict=False):
            for method in which:
                _, colour, style = METHODS[method]
                x, y = line(curves[method])
                axes.plot(x, y, style, color=colour, label=method, linewidth=1.6)
            axes.set(title=problem, xlabel=across, ylabel=up, yscale="log", xscale="log")
            axes.grid(alpha=0.3)
        figure.suptitle(title)
        handles, labels = grid.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 4), frameon=False)
        figure.savefig(output / name, dpi=110)
        plt.close(figure)

    def by_steps(c: Curve) -> tuple:
        return np.arange(1, len(c.found) + 1), np.maximum(c.found, 1e-8)

    def by_products(c: Curve) -> tuple:
        return c.products, np.maximum(c.found, 1e-8)

    def per_step(c: Curve) -> tuple:
        window = np.ones(min(10, len(c.found))) / min(10, len(c.found))
        each = np.convolve(
            np.diff(c.products, prepend=0.0)[1:], window, mode="valid"
        )  # a mean, to see through the noise
        return np.arange(1, len(each) + 1), each

    three = ["hyperpass", "hyperpass as published", "Pegasos", "cutting planes"]
    gap = "(P - v*) / P"
    panels("gap_iterations.png", "Gap against steps (Fig. 4)", "steps", gap, three, by_steps)
    panels("gap_products.png", "Gap against products (Fig. 5 a, b)", "products / N", gap, three, by_products)
    shrunk = ["hyperpass", "hyperpass as published", "as published, no shrinking"]
    panels(
        "products_per_step.png",
        "Products in each step, mean of ten (Fig. 5 c)",
        "step",
        "products / N",
        shrunk,
        per_step,
    )
    started = ["hyperpass", "hyperpass from Pegasos", "Pegasos", "cutting planes"]
    panels("start.png", "The start from ten passes of Pegasos (Fig. 6)", "products / N", gap, started, by_products)
    print(f"\nfigures: {output}")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data-home", help="folder with the public data sets (default: PRIMALSVM_DATA)")
    parser.add_argument("--sets", nargs="+", choices=LOADERS, default=["a9a", "w8a", "rcv1"])
    parser.add_argument("--steps", type=int, default=1000, help="the most of any method")
    parser.add_argument("--output", type=Path, default=Path("output/hyperpass"), help="folder for the figures")
    parser.add_argument("--jsonl", default=os.devnull, help="append one JSON line per run to this file")
    parser.add_argument("--toy", action="store_true", help="small random data: seconds, and no measurement")
    options = parser.parse_args(arguments)
    sets: Iterator[Data] = synthetic(True)
    if not options.toy:
        home = data_home(options.data_home)
        sets = (LOADERS[name](home) for name in options.sets)
    runs = {}
    with threadpool_limits(1), open(options.jsonl, "a") as jsonl:
        for data in sets:
            settings = {"C = 1": 1.0} | {f"lambda = {lam:g}": 1 / (lam * len(data.y)) for lam in (1e-4, 1e-5)}
            if options.toy:
                settings = {"C = 1": 1.0}
            for setting, curves in compare(data, settings, 50 if options.toy else options.steps, jsonl):
                runs[f"{data.name}, {setting}"] = curves
    draw(options.output, runs)


if __name__ == "__main__":
    main()
