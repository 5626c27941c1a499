r"""Choosing C and gamma: SVCCV and LinearSVCCV beside scikit-learn's GridSearchCV over its own SVC and LinearSVC.

    python -m benchmarks.tuning [--data-home DIR] [--sets usps,a9a,rcv1] [--repeats 3] [--only primalsvm] [--toy]

    usps        0-4 against 5-9, 5 folds x 10 values of C (0.1 to 1000) x 5 of gamma (1/1280 to 10/128)
    a9a, rcv1   linear, 5 folds x 20 values of C (0.001 to 100)

The same grid, the same stratified folds, n_jobs = 2, tolerances as each has them by default. Each run is a process of
its own; seconds are those of fit, the refit on all samples included, after a small one that compiles. Sides take turns;
medians. A run is a JSON line in --jsonl.
"""

import argparse
import json
import os
import warnings
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from . import ROOT, commit, sets, timed
from .large import run
from .linear import available, words

PROBLEMS: dict[str, dict[str, Any]] = {
    "usps": {"Cs": list(np.logspace(-1, 3, 10)), "gammas": list(np.logspace(-1, 1, 5) / 128)},
    "a9a": {"Cs": list(np.logspace(-3, 2, 20))},
    "rcv1": {"Cs": list(np.logspace(-3, 2, 20))},
    "toy_two": {"Cs": [0.1, 1.0, 10.0], "gammas": [0.1, 1.0]},
    "toy_sparse": {"Cs": [0.1, 1.0, 10.0]},
}
BARS = {"usps": 5.0, "a9a": 4.0, "rcv1": 4.0}
SIDES = ("primalsvm", "scikit-learn")


def load(name: str, cache: Path, home: Path | None = None) -> tuple[Any, np.ndarray]:
    if "gammas" in PROBLEMS[name]:
        return sets.load_split(name, cache, home)[:2]
    return sets.load(name, cache, home)


def work(spec: dict) -> dict:
    """One search: seconds, the best score, and whose fits are proven."""
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import SVC, LinearSVC

    from primalsvm import SVCCV, LinearSVCCV

    X, y = load(spec["set"], Path(spec["cache"]))
    grid, jobs = PROBLEMS[spec["set"]], spec["threads"]

    def search(points: dict) -> Any:
        if spec["side"] == "primalsvm":
            return (SVCCV if "gammas" in points else LinearSVCCV)(**points, cv=5, n_jobs=jobs)
        if "gammas" in points:
            return GridSearchCV(SVC(), {"C": points["Cs"], "gamma": points["gammas"]}, cv=5, n_jobs=jobs)
        return GridSearchCV(LinearSVC(), {"C": points["Cs"]}, cv=5, n_jobs=jobs)

    few = {name: values[:2] for name, values in grid.items()}
    rows = np.concatenate([np.flatnonzero(y == label)[:50] for label in np.unique(y)])
    search(few).fit(X[rows], y[rows])  # compiled, and the workers started
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, seconds, _ = timed(lambda: search(grid).fit(X, y))
    line = {"seconds": seconds, "score": found.best_score_, "best": found.best_params_}
    if spec["side"] == "primalsvm":
        line["relative_gap"] = float(found.cv_results_["max_relative_gap"].max())
    return line


def measure(options) -> None:
    options.jsonl.parent.mkdir(parents=True, exist_ok=True)
    with open(options.jsonl, "a") as out:
        for name in options.sets:
            if not available(name, options, "load_split" if "gammas" in PROBLEMS[name] else "load"):
                continue
            for repeat in range(options.repeats):
                for side in SIDES if repeat % 2 == 0 else SIDES[::-1]:
                    if options.only is not None and side not in options.only:
                        continue
                    spec = {"set": name, "side": side, "threads": options.threads, "cache": str(options.cache)}
                    found = run(spec, options.cap, options.jsonl.with_suffix(".log"), "benchmarks.tuning")
                    line = spec | {"commit": commit()} | found
                    print(json.dumps(line), file=out, flush=True)
                    print(f"{name:10} {side:13} {figures(line)}", flush=True)


def figures(line: dict) -> str:
    if "failure" in line:
        return line["failure"]
    if "capped" in line:
        return f"> {line['seconds']:.0f} s"
    best = ", ".join(f"{name}={value:.3g}" for name, value in line["best"].items())
    proven = f", every gap <= {line['relative_gap']:.1e}" if "relative_gap" in line else ""
    return f"{line['seconds']:8.2f} s   score {100 * line['score']:.2f} % at {best}{proven}"


def report(options) -> str:
    """Medians side by side, and the ratio against its bar."""
    lines = [json.loads(text) for text in options.jsonl.read_text().splitlines()]
    table = ["| set | primalsvm | GridSearchCV | ratio | bar | scores | gaps |", "|---|---|---|---|---|---|---|"]
    for name in options.sets:
        done = {side: [ln for ln in lines if (ln["set"], ln["side"]) == (name, side)] for side in SIDES}
        good = {side: [ln for ln in found if "score" in ln] for side, found in done.items()}
        if not good["primalsvm"]:
            continue
        ours, theirs = (median([ln["seconds"] for ln in done[s] if "failure" not in ln] or [np.nan]) for s in SIDES)
        more = ">= " if any("capped" in ln for ln in done["scikit-learn"]) else ""
        scores = " / ".join(f"{100 * good[s][-1]['score']:.2f}" if good[s] else "-" for s in SIDES)
        gap = max(ln["relative_gap"] for ln in good["primalsvm"])
        bar = f"{BARS[name]:g}" if name in BARS else ""
        cells = f"{ours:.2f} s", f"{more}{theirs:.2f} s", f"{more}{theirs / ours:.2f}", bar, scores, f"<= {gap:.0e}"
        table.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(table)


def parse(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tuning", description=__doc__.splitlines()[0])
    parser.add_argument("--data-home", type=Path, default=os.environ.get("PRIMALSVM_DATA"))
    parser.add_argument("--sets", type=words, default=("usps", "a9a", "rcv1"))
    parser.add_argument("--only", type=words, help="sides: primalsvm, scikit-learn")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cap", type=float, default=1800.0, help="seconds of a run")
    parser.add_argument("--cache", type=Path, default=ROOT / "output" / "bench-sets")
    parser.add_argument("--jsonl", type=Path, default=ROOT / "output" / "bench-tuning" / "runs.jsonl")
    parser.add_argument("--report-only", action="store_true")
    parser.add_argument("--toy", action="store_true")
    parser.add_argument("--work", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.toy:
        options.sets, options.repeats = ("toy_two", "toy_sparse"), 1
    if options.data_home is not None:
        options.data_home = Path(options.data_home)
    return options


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    if options.work is not None:
        print(json.dumps(work(options.work)))
        return
    if not options.report_only:
        measure(options)
    print(report(options))


if __name__ == "__main__":
    main()
