r"""Kernel SVMs: seconds of SVC.fit to a proven 1e-3 and 1e-6, beside every peer that installs from PyPI.

    python -m benchmarks.kernel [--data-home DIR] [--sets usps,a9a] [--only primalsvm] [--report-only] [--toy]
    python -m benchmarks.kernel --extras

Cells: seven problems with the RBF kernel, hinge and free intercept, with two classes or one against one (`CELLS`). Each
side climbs its ladder of settings (see `kernel_peers`) until its model has a relative gap of 1e-6; its time to 1e-3 or
1e-6 is that of its fastest rung that gets there. Ours is the fit at tol = 1e-3 or 1e-6, input validation and proof
included. Every model, ours too, is judged outside the clock by our certificate of what was returned.

Each side has a process of its own for each climb, one at a time, with as many threads as the others. Importing,
compiling, and converting the data to a package's own format, are done before the clock starts and written down apart.
A fit that takes longer than --cap is killed with its process, and counts as slower than that.

First all sides climb; then the rungs that decide are measured again, the order of the sides turned round each time, so
that a busy minute of the machine hits all alike. Figures are medians. A rung of more than 30 s is measured again only
for ours and for the fastest peer.

Every fit is a JSON line in --jsonl; the table takes the latest run of each side, so that --only can measure one side
again beside the others' earlier figures.
"""

import argparse
import json
import os
import queue
import time
from pathlib import Path

from . import ROOT, kernel_extras, kernel_report
from .kernel_peers import CELLS, OURS, PEERS, SIDES, TOYS, Cell, Side
from .linear import Worker, available, environment, facts, words
from .linear_report import read

LOAD_SECONDS = 600  # for loading, converting and compiling
JUDGE_SECONDS = 3600  # for predicting and judging
GRACE = 1.0  # seconds beyond the cap, for the news to arrive
LONG = 30.0  # seconds of a rung that is measured again for ours and the fastest peer only


class Bench:
    def __init__(self, options, out):
        self.options, self.out = options, out
        self.base = facts(options, SIDES.values())

    def measure(self, cell: Cell, sides: list[Side]) -> None:
        lines = {side.name: self.run(side, cell, 0, None, []) for side in sides}
        rungs = deciding(lines, self.options.goal)
        for turn in range(1, self.options.repeats):
            for side in sides[:: -1 if turn % 2 else 1]:
                if rungs.get(side.name):
                    lines[side.name] += self.run(side, cell, turn, rungs[side.name], lines[side.name])

    def run(self, side: Side, cell: Cell, turn: int, rungs: list[dict] | None, before: list[dict]) -> list[dict]:
        """One process of a side: all rungs, or those given. What it was judged before need not be judged again."""
        fields = ("primal", "dual", "relative_gap", "judge_seconds")
        judged = {line["digest"]: {name: line[name] for name in fields} for line in before if "digest" in line}
        spec = {"side": side.name, "cell": cell.name, "rungs": rungs, "judged": judged, "cap": self.options.cap}
        spec["goal"] = self.options.goal
        spec |= {"cache": str(self.options.cache), "threads": side.threads or self.options.threads}
        lines: list[dict] = []
        known = self.base | {"cell": cell.name, "side": side.name, "turn": turn}
        limit, doing, ended = float(LOAD_SECONDS), "loading", False
        failure: dict = {}
        with open(self.options.jsonl.with_suffix(".log"), "a") as log:
            worker = Worker(spec, log, "benchmarks.kernel_worker")
            try:
                while (line := worker.next(limit)) is not None:
                    event = line.pop("event")
                    if event == "run":
                        lines.append(self.write(known | line))
                    elif event == "failure":
                        failure = line
                    elif event == "end":
                        ended = True
                    else:  # ready: its times are known from now on; rung: a fit begins; fitted: the judge does
                        known |= line if event in ("ready", "rung") else {}
                        rung = event == "rung"
                        limit, doing = (self.options.cap + GRACE, "fit") if rung else (JUDGE_SECONDS, "judge")
            except queue.Empty:
                capped = {"capped": True, "seconds": self.options.cap} if doing == "fit" else {}
                failure = {"failure": f"killed after {limit - GRACE * (doing == 'fit'):g} s of {doing}"} | capped
            code = worker.close(0 if failure else 30)
        if not failure and not ended:
            failure = {"failure": f"the process ended with code {code}"}
        if failure:
            lines.append(self.write(known | failure))
        return lines

    def write(self, line: dict) -> dict:
        print(json.dumps(line), file=self.out, flush=True)
        what = f"{line['cell']:12} {line['side']:16} {kernel_report.setting_text(line):9}"
        if "failure" in line:
            print(f"{what} {line['failure']}", flush=True)
        else:
            figures = (
                f"{line['seconds']:9.3f} s  gap {line['relative_gap']:.1e}  error {100 * line['test_error']:.2f} %"
            )
            print(f"{what} {figures}  predict {line['predict_seconds']:.3f} s", flush=True)
        return line


def deciding(lines: dict[str, list[dict]], least: float) -> dict[str, list[dict]]:
    """Of each side, the settings that decide its times to the goals down to the least."""
    rungs: dict[str, list[dict]] = {}
    for goal in (goal for goal in kernel_report.GOALS if goal >= least):
        found = {name: kernel_report.time_to(goal, name, own) for name, own in lines.items()}
        seconds = {name: time.seconds for name, time in found.items() if time.seconds is not None}
        fastest = min((spent for name, spent in seconds.items() if name != OURS.name), default=None)
        for name, spent in seconds.items():
            setting = found[name].runs[0]["setting"]
            if (name == OURS.name or spent == fastest or spent <= LONG) and setting not in rungs.setdefault(name, []):
                rungs[name].append(setting)
    return rungs


def chosen_sides(only: list[str] | None) -> list[Side]:
    sides = []
    for side in (OURS, *PEERS):
        wanted = only is None or side.name in only or (side in PEERS and "peers" in only)
        if wanted and not side.installed():
            print(f"left out: {side.name}, whose package {side.package} is not installed")
        elif wanted:
            sides.append(side)
    return sides


def measure(options) -> None:
    options.jsonl.parent.mkdir(parents=True, exist_ok=True)
    begin, sides = time.perf_counter(), chosen_sides(options.only)
    with open(options.jsonl, "a") as out:
        bench = Bench(options, out)
        for cell in options.cells:
            if available(cell.set, options, "load_split"):
                bench.measure(cell, sides)
    print(f"measured in {time.perf_counter() - begin:.0f} s")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    folder = ROOT / "output" / "bench-kernel"
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data-home", help="folder with the public data sets (default: PRIMALSVM_DATA)")
    parser.add_argument("--cache", type=Path, default=folder / "sets", help="folder for the loaded sets")
    parser.add_argument("--jsonl", type=Path, default=folder / "runs.jsonl", help="all fits, one line each")
    parser.add_argument("--table", type=Path, default=folder / "kernel.md")
    parser.add_argument("--figure", type=Path, default=folder / "kernel.png")
    parser.add_argument("--sets", type=words, help="cells to measure, such as usps,a9a")
    parser.add_argument("--only", type=words, help="sides to measure, such as primalsvm, or peers for all of them")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--repeats", type=int, default=3, help="of the rungs that decide")
    parser.add_argument("--cap", type=float, default=120.0, help="seconds of a fit after which it is killed")
    parser.add_argument("--goal", type=float, default=1e-6, help="climb to this relative gap: 1e-3 takes far less time")
    parser.add_argument("--report-only", action="store_true", help="measure nothing, print what --jsonl holds")
    parser.add_argument("--extras", action="store_true", help="ours alone: memory under a limit, steps of Newton")
    parser.add_argument("--toy", action="store_true", help="small random sets: seconds, and no measurement")
    options = parser.parse_args(arguments)
    for name in ("cache", "jsonl", "table", "figure"):
        setattr(options, name, getattr(options, name).resolve())
    cells = CELLS | TOYS
    options.sets = options.sets or list(TOYS if options.toy else CELLS)
    if unknown := set(options.sets) - set(cells):
        raise SystemExit(f"There is no cell {', '.join(sorted(unknown))}. Cells: {', '.join(cells)}.")
    if unknown := set(options.only or ()) - set(SIDES) - {"peers"}:
        raise SystemExit(f"There is no side {', '.join(sorted(unknown))}. Sides: peers, {', '.join(SIDES)}.")
    options.cells = [cells[name] for name in options.sets]
    return options


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    if options.extras:
        kernel_extras.report(options, environment, facts(options, SIDES.values()), available)
        return
    if not options.report_only:
        measure(options)
    kernel_report.report(read(options.jsonl), options)


if __name__ == "__main__":
    main()
