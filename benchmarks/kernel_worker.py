"""One side in one cell of the kernel benchmark, in a process of its own: climbs the ladder, one JSON line per fit.

    python -m benchmarks.kernel_worker '{"side": "intelex", "cell": "usps", "rungs": null, ...}'

`benchmarks.kernel` starts it, reads its output and ends it where a fit takes too long; whatever a package prints goes
to standard error. Said are: `ready`, once the data are there and the package is warm; before each fit `rung`, after it
`fitted`, so that only the fit is held against the cap; and `run`, with what prediction and judge found.
"""

import gc
import hashlib
import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from . import sets, timed
from .kernel_peers import CELLS, OURS, SIDES, TOYS, Fit, judge
from .linear_extras import peak_memory

PATIENCE = 3  # rungs in a row without an improvement, after which a ladder leads nowhere
WARM_UP, EACH = 1000, 300  # rows, and of each class at least: pairs must be large enough for what fits will need
PREDICTIONS, ENOUGH = 3, 1.0  # times, unless that takes longer than so many seconds


class Work:
    def __init__(self, spec: dict, say):
        self.spec, self.say, self.side = spec, say, SIDES[spec["side"]]
        cell = (CELLS | TOYS)[spec["cell"]]
        self.data = sets.load_split(cell.set, Path(spec["cache"]))
        self.C, self.gamma = cell.numbers(self.data.X)
        self.loaded = peak_memory(forget=True)
        compiling = self.warm_up()
        self.prepared, preparing, _ = timed(lambda: self.side.ready(self.data.X, self.data.y))
        self.test = self.side.form(self.data.X_test)
        say(event="ready", compile_seconds=compiling, prepare_seconds=preparing)

    def fit(self, prepared, setting: dict) -> Fit:
        return self.side.fit(prepared, self.C, self.gamma, setting["tol"], self.spec["threads"])

    def warm_up(self) -> float:
        """Seconds of the first fits and predictions, on a few rows: importing and compiling."""
        X, y = self.data.X, self.data.y
        classes = np.unique(y)
        count = max(EACH, WARM_UP // len(classes))
        rows = np.sort(np.concatenate([np.flatnonzero(y == c)[:count] for c in classes]))
        small = self.side.ready(X[rows], y[rows])

        def once() -> None:
            for setting in self.side.ladder[: 2 if self.side is OURS else 1]:
                self.fit(small, setting).predict(self.side.form(X[rows]))

        return timed(once)[1]

    def run(self, setting: dict) -> dict:
        """One fit: timed, its prediction timed, and judged; all of it said."""
        gc.collect()
        peak_memory(forget=True)
        self.say(event="rung", setting=setting)
        before = machine_cpu()
        fit, seconds, cpu = timed(lambda: self.fit(self.prepared, setting))
        others = max(0.0, machine_cpu() - before - cpu) if before else None
        self.say(event="fitted", seconds=seconds)
        line: dict[str, Any] = {"setting": setting, "seconds": seconds, "cpu_seconds": cpu}
        line |= {"other_cpu": others, "cores": os.cpu_count()}
        line["memory"] = peak_memory() - self.loaded
        line["n_support"] = fit.n_support
        line |= self.predict(fit)
        digest = fingerprint(fit)
        line |= self.spec["judged"].get(digest) or self.judge(fit)
        line |= fit.facts | {"digest": digest}
        self.say(event="run", **line)
        return line

    def predict(self, fit: Fit) -> dict:
        times: list[float] = []
        while len(times) < PREDICTIONS and (not times or sum(times) < ENOUGH):
            labels, seconds, _ = timed(lambda: fit.predict(self.test))
            times.append(seconds)
        error = float(np.mean(labels != self.data.y_test))
        return {"predict_seconds": float(np.median(times)), "test_error": error}

    def judge(self, fit: Fit) -> dict:
        begin = time.perf_counter()
        seen = judge(fit.pairs(), self.data.X, self.data.y, self.C, self.gamma, self.spec["threads"])
        facts = {"primal": seen.primal, "dual": seen.dual, "relative_gap": seen.relative_gap}
        return facts | {"judge_seconds": time.perf_counter() - begin}

    def climb(self) -> None:
        """From loose to tight until it is close, too long, or leads nowhere. Ours is asked for each gap in turn."""
        best, misses = np.inf, 0
        for setting in self.side.ladder:
            line = self.run(setting)
            gap = line["primal"] - line["dual"]
            misses = 0 if gap < 0.9 * best else misses + 1
            best = min(best, gap)
            if self.side is OURS and setting["tol"] > self.spec["goal"]:
                continue
            if line["relative_gap"] <= self.spec["goal"] or line["seconds"] > self.spec["cap"] or misses >= PATIENCE:
                return


def machine_cpu() -> float:
    """Seconds that all programs together have spent on all cores; 0 where nobody knows."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return 0.0
    user, nice, system, _idle, _wait, *interrupts = map(int, stat.read_text().splitlines()[0].split()[1:9])
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def fingerprint(fit: Fit) -> str:
    """The same for the same model: it is judged once."""
    whole = hashlib.sha256()
    for array in fit.arrays:
        whole.update(np.ascontiguousarray(array).tobytes())
    return whole.hexdigest()[:16]


def main() -> None:
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")

    def say(**fields) -> None:
        print(json.dumps(fields), file=channel, flush=True)

    spec = json.loads(sys.argv[1])
    try:
        work = Work(spec, say)
        if spec["rungs"] is None:
            work.climb()
        else:
            for setting in spec["rungs"]:
                work.run(setting)
    except Exception as error:  # a peer's as a rule
        say(event="failure", failure=f"{type(error).__name__}: {error}"[:300])
    say(event="end")


if __name__ == "__main__":
    main()
