"""The other bars of the kernel benchmark, ours alone.

    python -m benchmarks.kernel --extras

    memory    peak beyond that of the process with X loaded, of a first fit under a memory_limit of 1 GB, on rows whose
              kernel matrix takes ten times that
    newton    steps of Newton's method for the squared hinge to 1e-6, on parts of USPS of growing size: it begins with a
              part of the samples and doubles it, so those with all samples are told apart

Each figure comes from a process of its own; all are kept as JSON lines beside those of the runs.
"""

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from . import ROOT, sets, timed
from .kernel_peers import CELLS, TOYS, Cell
from .linear_extras import peak_memory

MEGA = 1e6
LIMIT = 1e9  # bytes of memory_limit
ROOM = 300 * MEGA  # beyond it, for all the rest
ROWS = 36_000  # of covtype: a matrix of 10.4 GB
SIZES = (500, 1000, 2000, 4000, 7291)
SECONDS = 600  # after which a process is killed


# in a process of its own ----------------------------------------------------------------------------------------------
def fit(spec: dict) -> dict:
    """Seconds, steps and gap of a first fit, and the memory it took."""
    from primalsvm import SVC
    from primalsvm.experiments.usps_kernel import newton
    from primalsvm.kernel_matrix import kernel_matrix
    from primalsvm.kernels import Kernel
    from primalsvm.problem import KernelProblem

    warnings.simplefilter("ignore")
    cell = (CELLS | TOYS)[spec["cell"]]
    data = sets.load_split(cell.set, Path(spec["cache"]))
    C, gamma = cell.numbers(data.X)
    X, y = data.X[: spec["rows"]], data.y[: spec["rows"]]
    before = peak_memory(forget=True)
    model = SVC(C=C, gamma=gamma, n_jobs=spec["threads"], **spec["parameters"])
    _, seconds, _ = timed(lambda: model.fit(X, y))
    seen = {"relative_gap": model.certificate_.relative_gap, "beyond": peak_memory() - before}
    seen |= {"seconds": seconds, "steps": int(model.n_iter_), "solver": model.solver_.name}
    if model.solver_.name == "newton":
        K, labels = kernel_matrix(Kernel("rbf", gamma), X), np.where(y == model.classes_[1], 1.0, -1.0)
        problem = KernelProblem(labels, np.full(len(y), C), model.loss, "free", K=K)
        seen["last_steps"] = newton(problem, model.tol).last_steps
    return seen


# what starts them -----------------------------------------------------------------------------------------------------
class Extras:
    def __init__(self, options, environment, facts: dict):
        self.options, self.environment, self.facts = options, environment, facts
        self.path = options.jsonl.with_name("extras.jsonl")
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def fit(self, what: str, cell: Cell, rows: int, **parameters: Any) -> dict | None:
        """In a new process; None, said and written down, where that takes too long."""
        spec = {"cell": cell.name, "rows": rows, "parameters": parameters, "threads": self.options.threads}
        spec["cache"] = str(self.options.cache)
        command = [sys.executable, "-m", "benchmarks.kernel_extras", json.dumps(spec)]
        try:
            found = json.loads(self.output(command))
        except subprocess.TimeoutExpired:
            found = {"failure": f"killed after {SECONDS} s"}
            print(f"  {rows:6d} rows: {found['failure']}", flush=True)
        with open(self.path, "a") as file:
            print(json.dumps(self.facts | {"what": what} | spec | found), file=file)
        return None if "failure" in found else found

    def output(self, command: list[str]) -> str:
        env = self.environment(self.options.threads)
        done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS)
        if done.returncode:
            raise SystemExit(f"{' '.join(command[1:3])} failed:\n{done.stderr}")
        return done.stdout.splitlines()[-1]

    def memory(self, cell: Cell, rows: int, limit: float) -> None:
        print(f"memory_limit = {limit / MEGA:g} MB, {cell.name}, {rows} rows, K of {8 * rows * rows / MEGA:g} MB:")
        if found := self.fit("memory", cell, rows, memory_limit=limit):
            print(f"  peak {found['beyond'] / MEGA:.0f} MB beyond X (bar: {(limit + ROOM) / MEGA:.0f}), ", end="")
            met = "met" if found["beyond"] <= limit + ROOM else "MISSED"
            print(f"{found['seconds']:.1f} s, gap {found['relative_gap']:.1e}: {met}", flush=True)

    def newton(self, cell: Cell, sizes: list[int]) -> None:
        print(f"Newton for the squared hinge to 1e-6, {cell.name}:")
        steps: dict[int, int] = {}
        for rows in sizes:
            found = self.fit("newton", cell, rows, loss="squared_hinge", solver="newton", tol=1e-6)
            if found is None:
                break
            steps[rows] = found["last_steps"]
            time = f"{found['seconds']:8.3f} s, compilation included"
            counts = f"{found['last_steps']:4d} steps with all samples, {found['steps']:3d} in all"
            print(f"  {rows:6d} rows {counts}  {found['relative_gap']:.1e}  {time}", flush=True)
        if len(steps) > 1:
            growth = np.polyfit(np.log(list(steps)), np.log([max(1, count) for count in steps.values()]), 1)[0]
            print(f"  exponent of the steps with all samples in the number of rows: {growth:.2f}", flush=True)


def report(options, environment, facts: dict, available) -> None:
    extras = Extras(options, environment, facts)
    names = {cell.name for cell in options.cells}
    print(f"primalsvm alone, {options.threads} threads\n")
    plans: list[tuple] = [("usps", extras.newton, list(SIZES)), ("covtype", extras.memory, ROWS, LIMIT)]
    if options.toy:
        plans = [("toy_two", extras.newton, [60, 120, 240]), ("toy_two", extras.memory, 240, 1e5)]
    for name, measure, *rest in plans:
        cell = (CELLS | TOYS)[name]
        if name in names and available(cell.set, options, "load_split"):
            measure(cell, *rest)
    print(f"\nlines: {extras.path}")


if __name__ == "__main__":
    print(json.dumps(fit(json.loads(sys.argv[1]))))
