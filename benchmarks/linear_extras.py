r"""The other bars of the linear benchmark, ours alone, at C = 1 and a proven 1e-3.

    python -m benchmarks.linear --extras

    intercept     a free one / none, seconds of fit
    threads       one thread / --threads, seconds of fit, on the large sets
    growth        exponent of the seconds in the number of rows
    memory        peak beyond that of the process with X loaded, of a first fit
    new process   import, and the first fit of a9a with an empty and with a filled Numba cache
    identical     the same bits from fits in one process and in two

Each figure comes from fresh processes; all are kept as JSON lines beside those of the runs.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from . import ROOT, sets, timed

LARGE = ("covtype", "dense", "sparse")
GROWING = ("a9a", "dense", "sparse")
ADULT = (1605, 2265, 3185, 4781, 6414, 11220, 16100, 22696, 32561)  # a1a ... a9a
MEGA = 1e6
BARS = {"intercept": 1.3, "threads": 1.5, "growth": 1.1, "share": 0.6, "runtime": 200 * MEGA}
FIRST_FIT = """
import json, sys, time
clock = [time.perf_counter()]
import primalsvm
clock.append(time.perf_counter())
from primalsvm import LinearSVC
clock.append(time.perf_counter())
import numpy, scipy.sparse
loss, threads, X, y = sys.argv[1:]
X, y = scipy.sparse.load_npz(X) if X.endswith("npz") else numpy.load(X), numpy.load(y)
clock.append(time.perf_counter())
LinearSVC(loss=loss, fit_intercept=False, n_jobs=int(threads)).fit(X, y)
clock.append(time.perf_counter())
print(json.dumps([b - a for a, b in zip(clock, clock[1:])]))
"""


# in a process of its own ----------------------------------------------------------------------------------------------
def peak_memory(forget: bool = False) -> int:
    """Most bytes this process ever held, or held since it was told to forget."""
    status = Path("/proc/self/status")
    if not status.exists():
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    if forget:
        Path("/proc/self/clear_refs").write_text("5")
    return 1024 * int(status.read_text().split("VmHWM:")[1].split()[0])


def fits(spec: dict) -> dict:
    """Seconds and fingerprints of fits on so many rows, and the memory the first of them took."""
    from primalsvm import LinearSVC

    warnings.simplefilter("ignore")
    X, y = sets.load(spec["set"], Path(spec["cache"]))
    parts = [X.data, X.indices, X.indptr] if sp.issparse(X) else [X]
    result: dict = {"bytes": sum(part.nbytes for part in parts), "seconds": [], "digests": []}
    before = peak_memory(forget=True)
    for rows, intercept in spec["fits"]:
        some, labels = (X, y) if rows is None else (X[:rows], y[:rows])
        times = []
        for _ in range(spec["repeats"]):
            model = LinearSVC(loss=spec["loss"], fit_intercept=intercept, n_jobs=spec["threads"])
            times.append(timed(lambda m=model, A=some, b=labels: m.fit(A, b))[1])
            result.setdefault("beyond", peak_memory() - before)
            result["digests"].append(hashlib.sha256(model.coef_.tobytes() + model.intercept_.tobytes()).hexdigest())
        result["seconds"].append(float(np.median(times)))
    return result


# what starts them -----------------------------------------------------------------------------------------------------
class Extras:
    def __init__(self, options, environment, facts: dict):
        self.options, self.environment, self.facts = options, environment, facts
        self.path = options.jsonl.with_name("extras.jsonl")
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def among(self, names: tuple[str, ...]) -> list[str]:
        """Those of the sets that were asked for; toys stand for any."""
        return [name for name in self.options.sets if name in names or name in sets.TOYS]

    def keep(self, what: str, **fields) -> None:
        with open(self.path, "a") as file:
            print(json.dumps(self.facts | {"what": what} | fields), file=file)

    def fits(self, what: str, name: str, loss: str, plan: list, threads: int | None = None, repeats: int = 0) -> dict:
        """Each of (rows, intercept) in one new process."""
        threads = threads or self.options.threads
        spec = {"set": name, "loss": loss, "fits": plan, "threads": threads, "cache": str(self.options.cache)}
        spec["repeats"] = repeats or self.options.repeats
        command = [sys.executable, "-m", "benchmarks.linear_extras", json.dumps(spec)]
        result = json.loads(self.output(command, threads))
        self.keep(what, **spec, **result)
        return result

    def output(self, command: list[str], threads: int, **variables: str) -> str:
        env = self.environment(threads) | variables
        done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(command[1:3])} failed:\n{done.stderr}")
        return done.stdout.splitlines()[-1]

    def cells(self, names: list[str]) -> list[tuple[str, str]]:
        return [(name, loss) for name in names for loss in self.options.losses]

    # the bars ---------------------------------------------------------------------------------------------------------
    def intercept_memory_identity(self) -> None:
        print(f"{'':26} free intercept / none (bar: {BARS['intercept']}); memory beyond X; same bits in two processes")
        for name, loss in self.cells(self.options.sets):
            plan = [(None, False), (None, True)]
            warm = self.fits("intercept", name, loss, [*plan, *plan])  # the first ones compile, or read the cache
            first = self.fits("memory", name, loss, plan[:1], repeats=2)
            _, _, none, free = warm["seconds"]
            same = {*first["digests"], *warm["digests"][: self.options.repeats]}
            room = BARS["share"] * first["bytes"] + BARS["runtime"]
            memory = f"{first['beyond'] / MEGA:.0f} MB of {first['bytes'] / MEGA:.0f} MB (bar: {room / MEGA:.0f})"
            print(
                f"{name:11} {loss:14} {free / none:.2f} ({free:.3f} / {none:.3f} s);  {memory};  "
                f"{'identical' if len(same) == 1 else 'DIFFERENT'}",
                flush=True,
            )

    def threads(self) -> None:
        many = self.options.threads
        print(f"\n{'':26} one thread / {many} threads (bar: {BARS['threads']})")
        for name, loss in self.cells(self.among(LARGE)):
            plan = [(None, False), (None, False)]
            one, more = (self.fits("threads", name, loss, plan, threads=k)["seconds"][1] for k in (1, many))
            print(f"{name:11} {loss:14} {one / more:.2f} ({one:.3f} / {more:.3f} s)", flush=True)

    def growth(self) -> None:
        print(f"\n{'':26} exponent of the seconds in the number of rows (bar: {BARS['growth']})")
        for name, loss in self.cells(self.among(GROWING)):
            n = len(np.load(self.options.cache / f"{name}.y.npy"))
            rows = ADULT if name == "a9a" else [n // k for k in (16, 8, 4, 2, 1)]
            result = self.fits("growth", name, loss, [(rows[0], False), *((k, False) for k in rows)])
            seconds = result["seconds"][1:]
            exponent = np.polyfit(np.log(rows), np.log(seconds), 1)[0]
            print(f"{name:11} {loss:14} {exponent:.2f} ({', '.join(f'{s:.3f}' for s in seconds)} s)", flush=True)

    def new_process(self) -> None:
        name, cache, threads = self.among(("a9a",))[0], self.options.cache, self.options.threads
        packed = cache / f"{name}.npz"
        X = packed if packed.exists() else cache / f"{name}.npy"
        print(f"\nA new process, {name}: import primalsvm, then LinearSVC (bar: 1 s), first fit (bars: 3 s, 0.5 s)")
        for loss in self.options.losses:
            with tempfile.TemporaryDirectory() as folder:
                command = [sys.executable, "-c", FIRST_FIT, loss, str(threads), str(X), str(cache / f"{name}.y.npy")]
                for numba in ("empty", "filled"):
                    times = json.loads(self.output(command, threads, NUMBA_CACHE_DIR=folder))
                    self.keep("new process", set=name, loss=loss, threads=threads, numba_cache=numba, seconds=times)
                    text = f"{times[0]:.2f} s, {times[1]:.2f} s, first fit {times[3]:.2f} s"
                    print(f"{loss:14} {numba + ' Numba cache':20} {text}", flush=True)


def report(options, environment, facts: dict) -> None:
    extras = Extras(options, environment, facts)
    print(f"primalsvm alone, C = 1, tol = 1e-3, {options.threads} threads, medians of {options.repeats}\n")
    extras.intercept_memory_identity()
    if extras.among(LARGE):
        extras.threads()
    if extras.among(GROWING):
        extras.growth()
    if extras.among(("a9a",)):
        extras.new_process()
    print(f"\nlines: {os.path.relpath(extras.path)}")


if __name__ == "__main__":
    print(json.dumps(fits(json.loads(sys.argv[1]))))
