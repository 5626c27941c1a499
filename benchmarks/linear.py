r"""Linear SVMs: seconds of LinearSVC.fit to a proven 1e-3 and 1e-6, beside every peer that installs from PyPI.

    python -m benchmarks.linear [--data-home DIR] [--sets a9a,w8a] [--only primalsvm] [--report] [--toy]
    python -m benchmarks.linear --extras | --duel | --distil benchmarks/linear_peers.jsonl

Cells: 8 sets x 2 losses x C = 0.01, 1, 100, no intercept. Each side climbs its ladder of settings (see `peers`) until
its w is within 1e-6 of the optimum, and its time to 1e-3 or 1e-6 is that of its fastest rung that gets there. Ours is
the fit at tol = 1e-3 or 1e-6, input validation and proof included, and counts only where its certificate says so.

Every w is judged by the same P in float64, against the least P known and the bound that proves it (`reference`: ours
at a gap of 1e-9, or as far as it comes in --reference-seconds).

Each side has a process of its own on each set, one at a time, with as many threads as the others. Compiling, and
converting the data to a package's own format, are done before the clock starts and written down apart. A process that
crashes, or hangs for twice --cap, costs its cell and no more.

Every run is a JSON line in --jsonl; the table takes the latest run of each side, so that --only can measure one side
again beside the others' earlier figures.
"""

import argparse
import json
import os
import platform
import queue
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from . import ROOT, commit, data_folder, linear_duel, linear_extras, linear_report, sets
from .peers import OURS, PEERS, REFERENCE, SIDES, Side

PINNED = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "BLIS_NUM_THREADS")
LOAD_SECONDS = 600  # for loading, converting and compiling
CERTAIN = 1e-8  # a reference whose relative gap is below needs no other


def environment(threads: int) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    return os.environ | {name: str(threads) for name in PINNED} | {"PYTHONPATH": path}


def facts(options, sides=None) -> dict:
    packages = dict.fromkeys(side.package for side in sides or SIDES.values() if side.installed())
    packages |= dict.fromkeys(("numpy", "scipy", "numba"))
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S"),
        "commit": commit(),
        "versions": {"python": platform.python_version()} | {name: version(name) for name in packages},
        "threads": options.threads,
    }


class Worker:
    """A process whose lines arrive in a queue, so that a hanging one can be given up."""

    def __init__(self, spec: dict, log, module: str = "benchmarks.linear_worker"):
        command = [sys.executable, "-m", module, json.dumps(spec)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment(spec["threads"]), cwd=ROOT
        )
        self.lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def next(self, seconds: float) -> dict | None:
        """Its next line, None at the end; queue.Empty where none came in time."""
        line = self.lines.get(timeout=seconds)
        return None if line is None else json.loads(line)

    def close(self, seconds: float) -> int:
        """Its exit code, after so many seconds at most."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def run_side(side: Side, name: str, cells: list[tuple], options, base: dict, out) -> None:
    """All cells of a side on a set; a new process for the cells after one that was lost."""
    limit = 2 * options.cap if side is not REFERENCE else 2 * options.reference_seconds + 60
    while cells:
        spec = {"side": side.name, "set": name, "cells": cells, "cache": str(options.cache), "threads": options.threads}
        spec |= {"repeats": options.repeats, "cap": options.cap, "reference_seconds": options.reference_seconds}
        with open(options.jsonl.with_suffix(".log"), "a") as log:
            worker = Worker(spec, log)
            ready, rung, ended, failure = {}, {"loss": cells[0][0], "C": cells[0][1]}, False, ""
            try:
                while (line := worker.next(limit if ready else LOAD_SECONDS)) is not None:
                    event = line.pop("event")
                    if event == "ready":
                        ready = line
                    elif event == "rung":
                        rung = line
                    elif event == "end":
                        ended = True
                    else:
                        write(out, base | {"set": name, "side": side.name} | line | ready)
            except queue.Empty:
                failure = f"no answer for {limit:g} s"
            code = worker.close(0 if failure else 30)
        if ended:  # what it does afterwards is its own affair
            return
        failure = failure or f"the process ended with code {code}"
        write(out, base | {"set": name, "side": side.name} | rung | ready | {"failure": failure})
        lost = [cell[:2] for cell in cells].index((rung["loss"], rung["C"]))
        cells = cells[lost + 1 :] if ready else []


def write(out, line: dict) -> None:
    print(json.dumps(line), file=out, flush=True)
    rung = linear_report.setting_text(line["side"], line.get("setting", {}))
    what = f"{line['set']:10} {line['loss']:13} C={line['C']:<5g} {line['side']:17} {rung:28}"
    if "failure" in line:
        print(f"{what} {line['failure']}", flush=True)
    else:
        known = line["suboptimality"]
        print(f"{what} {line['seconds']:8.3f} s  {'' if known is None else f'{known:.1e}'}", flush=True)


def cells_for(side: Side, name: str, options, measured: str) -> list[tuple]:
    """(loss, C, least P known, best lower bound) of the cells this side has to do on this set.

    The reference leaves out what is proven already, and what this commit has tried in vain; beside --only, what any
    commit has tried.
    """
    lines = linear_report.read(options.jsonl)
    known = linear_report.bounds(lines)
    again = options.only is None or REFERENCE.name in options.only
    tried = {
        linear_report.key_of(line)
        for line in lines
        if line["side"] == REFERENCE.name and (not again or line.get("commit") == measured)
    }
    cells = []
    for loss in (loss for loss in options.losses if loss in side.losses):
        for C in options.C:
            key = name, loss, C
            upper, lower = known.get(key, (None, None))
            if side is REFERENCE and (key in tried or (upper is not None and upper - lower <= CERTAIN * upper)):
                continue
            cells.append((loss, C, upper, lower))
    return cells


def available(name: str, options, load: str = "load") -> bool:
    """The set is in the cache, put there by a process that then gives its memory back."""
    code = "import sys, pathlib; from benchmarks.sets import {0}; {0}(sys.argv[1], *map(pathlib.Path, sys.argv[2:]))"
    folders = str(options.cache), str(data_folder(options.data_home))
    command = [sys.executable, "-c", code.format(load), name, *folders]
    done = subprocess.run(command, env=environment(options.threads), cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        print(f"left out: {name}, which does not load: {done.stderr.strip().splitlines()[-1]}")
        print("  A folder with the public sets is named by --data-home or the variable PRIMALSVM_DATA.")
    return not done.returncode


def chosen_sides(only: list[str] | None) -> list[Side]:
    sides = []
    for side in (REFERENCE, OURS, *PEERS):
        wanted = only is None or side is REFERENCE or side.name in only or (side in PEERS and "peers" in only)
        if wanted and not side.installed():
            print(f"left out: {side.name}, whose package {side.package} is not installed")
        elif wanted:
            sides.append(side)
    return sides


def measure(options) -> None:
    options.jsonl.parent.mkdir(parents=True, exist_ok=True)
    begin, sides = time.perf_counter(), chosen_sides(options.only)
    base = facts(options) | {"cap": options.cap}
    with open(options.jsonl, "a") as out:
        for name in options.sets:
            if not available(name, options):
                continue
            for side in sides:
                run_side(side, name, cells_for(side, name, options, base["commit"]), options, base, out)
    print(f"measured in {time.perf_counter() - begin:.0f} s")


def words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]


def parse(arguments: list[str] | None) -> argparse.Namespace:
    folder = ROOT / "output" / "bench-linear"
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data-home", help="folder with the public data sets (default: PRIMALSVM_DATA)")
    parser.add_argument("--cache", type=Path, default=folder / "sets", help="folder for the loaded sets")
    parser.add_argument("--jsonl", type=Path, default=folder / "runs.jsonl", help="all runs, one line each")
    parser.add_argument("--figure", type=Path, default=folder / "linear.png")
    parser.add_argument("--sets", type=words)
    parser.add_argument("--losses", type=words, default=["hinge", "squared_hinge"])
    parser.add_argument("--C", type=lambda text: [float(C) for C in words(text)], default=[0.01, 1.0, 100.0])
    parser.add_argument("--only", type=words, help="sides to measure, such as primalsvm, or peers for all of them")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--repeats", type=int, default=3, help="of each fit that takes less than 10 s")
    parser.add_argument("--cap", type=float, default=60.0, help="seconds of a fit after which a ladder ends")
    parser.add_argument("--reference-seconds", type=float, default=60.0)
    parser.add_argument("--report", action="store_true", help="measure nothing, print what --jsonl holds")
    parser.add_argument("--extras", action="store_true", help="threads, intercept, growth, memory, a new process")
    parser.add_argument("--duel", action="store_true", help="beside the peers' best rungs in --jsonl, alternating")
    parser.add_argument("--distil", type=Path, help="write what a duel needs of --jsonl, and measure nothing")
    parser.add_argument("--toy", action="store_true", help="small random sets: seconds, and no measurement")
    options = parser.parse_args(arguments)
    options.cache, options.jsonl, options.figure = (
        path.resolve() for path in (options.cache, options.jsonl, options.figure)
    )
    options.sets = options.sets or list(sets.TOYS if options.toy else sets.LOADERS)
    if unknown := set(options.sets) - set(sets.LOADERS) - set(sets.TOYS):
        raise SystemExit(f"There is no set {', '.join(sorted(unknown))}. Sets: {', '.join(sets.LOADERS)}.")
    if unknown := set(options.only or ()) - set(SIDES) - {"peers"}:
        raise SystemExit(f"There is no side {', '.join(sorted(unknown))}. Sides: peers, {', '.join(SIDES)}.")
    return options


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    if options.distil:
        lines = linear_report.distil(linear_report.read(options.jsonl), options.threads)
        options.distil.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return
    if options.extras:
        options.sets = [name for name in options.sets if available(name, options)]
        linear_extras.report(options, environment, facts(options))
        return
    if options.duel:
        options.sets = [name for name in options.sets if available(name, options)]
        linear_duel.report(options)
        return
    if not options.report:
        measure(options)
    linear_report.report(linear_report.read(options.jsonl), options)


if __name__ == "__main__":
    main()
