r"""Low-rank preconditioners on USPS, 0-4 against 5-9, sigma = 8: steps of conjugate gradients with and without.

    python -m benchmarks.low_rank [--data-home DIR] [--rows N] [--ranks 250 500 1000] [--most N] [--jsonl FILE] [--toy]

Squared hinge with a free intercept, at C = 10 and at lambda = 1e-8, which is C = 0.5e8, as in Chapelle (2007).

    primal      steps of the solver ConjugateGradient(rank) from 0 to a relative gap of 1e-1, 1e-3 and 1e-6
    equation    steps on (K_SS + D) x = y_S, D = 1 / 2 C, from 0 to |residual| = 1e-5 |y_S|: for S the support vectors,
                Newton's last equation, and for all samples, its first. At rank 0 the preconditioner is the diagonal,
                else M = F F' + D + residual, as in `kernel_system`, F by each of the three methods.

A ratio is that of the steps at rank 0 to the steps; passes are entries of K that were looked at, over n^2. K is held in
memory: seconds say what a preconditioner costs beside the cheapest products there are. "-" is not reached, "+" cut off.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator

import numpy as np

from primalsvm import kernel_newton
from primalsvm.kernel_matrix import TiledKernel
from primalsvm.kernels import Kernel
from primalsvm.losses import SquaredHinge
from primalsvm.low_rank import Part, pivoted_cholesky, random_cholesky, uniform
from primalsvm.newton_path import conjugate_gradient
from primalsvm.problem import KernelProblem
from primalsvm.solvers import ConjugateGradient

from . import commit, data_home
from .sets import clouds, split_usps

SIGMA = 8.0
SETTINGS = {"C = 10": 10.0, "lambda = 1e-8": 0.5e8}
GAPS = (1e-1, 1e-3, 1e-6)
RESIDUAL = 1e-5
MOST = 300  # steps on the primal: at lambda = 1e-8 it takes many thousand


class Watched:
    """A preconditioner that counts, and ends the steps when the residual itself is small, and not its norm in M."""

    def __init__(self, precondition: Callable[[np.ndarray], np.ndarray], enough: float):
        self.precondition, self.enough, self.steps = precondition, enough, -1

    def __call__(self, residual: np.ndarray) -> np.ndarray:
        self.steps += 1
        return self.precondition(residual) if np.linalg.norm(residual) > self.enough else np.zeros_like(residual)


def solve_primal(problem: KernelProblem, rank: int, most: int) -> dict:
    """When each gap was reached, None where it was not."""
    solver, begin = ConjugateGradient(rank=rank), time.perf_counter()
    state, steps, reached = solver.init(problem), 0, dict.fromkeys(GAPS)
    while True:
        for gap in GAPS:
            if reached[gap] is None and state.belief <= gap:
                reached[gap] = steps
        if reached[GAPS[-1]] is not None or state.ended or steps == most:
            break
        solver.step(problem, state)
        steps += 1
    seconds = time.perf_counter() - begin
    run = {"steps": steps, "reached": list(reached.values()), "relative_gap": state.belief, "passes": state.passes}
    return run | {"seconds": seconds}


def solve_equation(problem: KernelProblem, S: np.ndarray, method: Callable | None, rank: int, most: int) -> dict:
    """Preconditioned by a factor of this rank, or not at all."""
    K, D, rhs, begin = problem.K, 0.5 / float(problem.cost[0]), problem.y[S], time.perf_counter()
    low = method(Part(K, S), rank) if method else uniform(Part(K, S), 0)
    precondition = low.inverse(D + low.residual)

    def apply(x: np.ndarray) -> np.ndarray:
        whole = np.zeros(K.n)
        whole[S] = x
        return K.matvec(whole, S) + D * x

    watched = Watched(precondition, RESIDUAL * float(np.linalg.norm(rhs)))
    conjugate_gradient(apply, rhs, lambda u, v: float(u @ v), watched, tol=0.0, steps=most)
    seconds = time.perf_counter() - begin
    return {"steps": watched.steps, "rank": low.rank, "trace_error": low.trace_error, "seconds": seconds}


def support(problem: KernelProblem) -> np.ndarray:
    state = kernel_newton.begin(problem)
    while not (state.ended or state.belief <= 1e-9):
        kernel_newton.advance(problem, state)
    return np.flatnonzero(state.alpha)


def compare_primal(problem: KernelProblem, setting: str, ranks: list[int], most: int) -> Iterator[dict]:
    print(f"\nprimal, {setting}: steps to a relative gap of {', '.join(f'{gap:g}' for gap in GAPS)}; and ratios")
    plain: list = []
    for rank in (0, *ranks):
        run = solve_primal(problem, rank, min(most, MOST))
        plain = plain or run["reached"]
        counts = "".join(f"{'-' if at is None else at:>7}" for at in run["reached"])
        ratios = "".join(f"{ratio(a, b):>7}" for a, b in zip(plain, run["reached"], strict=True))
        end = f"{run['relative_gap']:8.0e} in the end {run['passes']:6.1f} passes {run['seconds']:7.1f} s"
        print(f"rank {rank:<5} {counts}   {ratios} {end}", flush=True)
        yield run | {"what": "primal", "setting": setting, "rank": rank}


def compare_equation(problem: KernelProblem, setting: str, ranks: list[int], most: int) -> Iterator[dict]:
    for who, S in (("support vectors", support(problem)), ("all samples", np.arange(problem.n))):
        print(f"\nequation, {setting}, {len(S)} {who}: steps, ratio, trace error, seconds")
        plain = 0
        for rank in (0, *(rank for rank in ranks if rank < len(S))):
            for method in (uniform, pivoted_cholesky, random_cholesky) if rank else (None,):
                run, name = solve_equation(problem, S, method, rank, most), method.__name__ if method else "none"
                plain = plain or run["steps"]
                row = f"rank {rank:<5} {name:16} {run['steps']:6}{'+' if run['steps'] == most else ' '}"
                row += f"{ratio(plain, run['steps']):>6}"
                print(f"{row} {run['trace_error']:7.3f} {run['seconds']:8.1f} s", flush=True)
                yield run | {"what": "equation", "setting": setting, "samples": who, "method": name}


def ratio(without: int | None, with_it: int | None) -> str:
    return "-" if without is None or with_it is None else f"{without / max(with_it, 1):.1f}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data-home", help="folder with the public data sets (default: PRIMALSVM_DATA)")
    parser.add_argument("--rows", type=int, default=7291, help="of USPS, drawn at random")
    parser.add_argument("--ranks", type=int, nargs="+", default=[250, 500, 1000])
    parser.add_argument("--most", type=int, default=2000, help="steps of any run")
    parser.add_argument("--jsonl", default=os.devnull, help="append one JSON line per run to this file")
    parser.add_argument("--toy", action="store_true", help="small random data: seconds, and no measurement")
    options = parser.parse_args(arguments)
    data = clouds(2) if options.toy else split_usps(data_home(options.data_home))
    picked = np.random.default_rng(0).permutation(len(data.y))[: options.rows]
    X, y = data.X[picked], np.where(data.y[picked] > 0, 1.0, -1.0)
    ranks, most = ([20], 100) if options.toy else (options.ranks, options.most)
    K = TiledKernel(Kernel("rbf", 0.5 / SIGMA**2), X, memory_limit=np.inf)
    K.array()
    with open(options.jsonl, "a") as jsonl:
        for setting, C in SETTINGS.items():
            problem = KernelProblem(y, np.full(len(y), C), SquaredHinge(), "free", K=K)
            for compare in (compare_primal, compare_equation):
                for record in compare(problem, setting, ranks, most):
                    line = {"commit": commit(), "problem": "toy" if options.toy else "usps", "n": len(y)} | record
                    print(json.dumps(line), file=jsonl, flush=True)


if __name__ == "__main__":
    main()
