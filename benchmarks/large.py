r"""Kernels past memory: SVC with a basis beside what users take instead, at the same number of basis functions.

    python -m benchmarks.large [--data-home DIR] [--sets covtype,mnist] [--sizes 500,1000,2000] [--only primalsvm]
                               [--draws 1] [--cap SECONDS] [--report-only] [--toy]
    python -m benchmarks.large --halves [--sets usps,a9a] [--draws 5]

    primalsvm greedy, cholesky, random    SVC(approximation=..., n_basis=k, loss="squared_hinge"), gap 1e-3 proven
    nystroem + linear, + sgd              scikit-learn's Nystroem(n_components=k), LinearSVC or SGDClassifier behind it
    nystroem + ours                       the same with our LinearSVC, proven: the error of the first where that is slow
    fourier + linear, + sgd               the same with RBFSampler
    intelex on n rows                     scikit-learn-intelex's exact SVC on subsamples, and on all where it can be

All with the same gamma and, but for intelex, the same C; LinearSVC has the loss and C of ours: with the same basis it
would be the same problem.
SGDClassifier has alpha = 1 / (n C) and its own defaults. X is float32, for all. Each run is a process of its own, with
the same number of threads; seconds are those of fit, features included; memory is its peak beyond the data. A run that
takes longer than --cap is killed and counts as slower than that. A run is a JSON line in --jsonl; the table and the
figure, error against seconds, take the latest of each. Of several --draws of our bases: the mean error, the median of
the seconds.

--halves: does a greedy basis do with half as many functions as a random one (Keerthi, Chapelle, DeCoste 2006)? Test
errors and objectives of k greedy against 2 k random functions, means over draws, with the standard error of the
difference between draws; both have the same test set.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from . import ROOT, commit, sets, timed
from .linear import available, words
from .linear_extras import peak_memory
from .linear_report import read

PROBLEMS = {  # C, intelex's C (all samples as basis need less), gamma, basis functions, rows of intelex's subsamples
    "covtype": (10.0, 10.0, 10.0, (500, 1000, 2000), (10_000, 50_000)),
    "mnist": (15.0, 10.0, 0.02, (500, 1300, 2000), (10_000, 60_000)),
    "usps": (10.0, 10.0, 1 / 128, (50, 100, 200, 400), (7291,)),
    "a9a": (1.0, 1.0, 0.05, (25, 50, 100, 200), (32_561,)),
    "toy_two": (10.0, 10.0, 0.5, (10, 20), (100,)),
    "toy_four": (10.0, 10.0, 0.5, (10, 20), (100,)),
}
OURS = ("primalsvm greedy", "primalsvm cholesky", "primalsvm random")
THEIRS = ("nystroem + linear", "nystroem + ours", "nystroem + sgd", "fourier + linear", "fourier + sgd", "intelex")
TOYS = ("toy_two", "toy_four")
RIVAL = "nystroem + linear"
WARM_UP, FEW = 3000, 100  # rows and basis functions: enough for ours to take the float32 loops of a large problem


def load(name: str, cache: Path) -> sets.Split:
    """In float32; covtype is all of it, a tenth for the test."""
    data = sets.load_split("covtype_all" if name == "covtype" else name, cache)
    return data._replace(X=data.X.astype(np.float32), X_test=data.X_test.astype(np.float32))


# --- one run, in a process of its own ---------------------------------------------------------------------------------


def build(spec: dict, n: int) -> Any:
    """The estimator of a side."""
    from sklearn.kernel_approximation import Nystroem, RBFSampler
    from sklearn.linear_model import SGDClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    from primalsvm import SVC
    from primalsvm import LinearSVC as Certified

    side, k, C, gamma = spec["side"], spec["size"], spec["C"], spec["gamma"]
    if side in OURS:
        method = side.split()[1]
        return SVC(
            approximation=method,
            n_basis=k,
            loss="squared_hinge",
            multi_class="ovr",
            C=C,
            gamma=gamma,
            n_jobs=spec["threads"],
            memory_limit=spec["memory_limit"],
            random_state=spec["draw"],
        )
    if side == "intelex":
        from sklearnex.svm import SVC as Intelex

        return Intelex(C=C, gamma=gamma, tol=1e-2, cache_size=2000)
    first, second = side.split(" + ")
    features = (Nystroem if first == "nystroem" else RBFSampler)(gamma=gamma, n_components=k, random_state=0)
    if second == "linear":
        return make_pipeline(features, LinearSVC(C=C))
    if second == "ours":
        return make_pipeline(features, Certified(C=C, fit_intercept="penalized", n_jobs=spec["threads"]))
    return make_pipeline(features, SGDClassifier(loss="hinge", alpha=1 / (n * C), n_jobs=spec["threads"]))


def work(spec: dict) -> dict:
    data = load(spec["set"], Path(spec["cache"]))
    X, y = data.X, data.y
    if spec["side"] == "intelex":
        X, y = X[: spec["size"]], y[: spec["size"]]
    rows = np.sort(np.unique(y, return_index=True)[1])
    rows = np.unique(np.concatenate([rows, np.arange(min(WARM_UP, len(y)))]))
    build(spec | {"size": len(rows) if spec["side"] == "intelex" else FEW}, len(rows)).fit(X[rows], y[rows])  # compiled
    loaded = peak_memory(forget=True)
    model, seconds, cpu = timed(lambda: build(spec, len(y)).fit(X, y))
    line = {"seconds": seconds, "cpu_seconds": cpu, "memory": peak_memory() - loaded}
    labels, spent, _ = timed(lambda: model.predict(data.X_test))
    line |= {"predict_seconds": spent, "test_error": float(np.mean(labels != data.y_test))}
    if spec["side"] in OURS:
        line |= {"relative_gap": model.certificate_.relative_gap, "basis": len(model.support_)}
    return line


def run(spec: dict, cap: float, log: Path, module: str = "benchmarks.large") -> dict:
    """What `module --work` prints, from a process of its own."""
    threads = {f"{name}_NUM_THREADS": str(spec["threads"]) for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
    command = [sys.executable, "-W", "ignore", "-m", module, "--work", json.dumps(spec)]
    with open(log, "a") as errors:
        try:
            done = subprocess.run(
                command,
                env=os.environ | threads,
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=errors,
                timeout=cap,
                check=True,
                text=True,
            )
        except subprocess.TimeoutExpired:
            return {"capped": True, "seconds": cap}
        except subprocess.CalledProcessError as error:
            return {"failure": f"the process ended with code {error.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


def measure(options) -> None:
    options.jsonl.parent.mkdir(parents=True, exist_ok=True)
    begin = time.perf_counter()
    with open(options.jsonl, "a") as out:
        for name in options.sets:
            if not available("covtype_all" if name == "covtype" else name, options, "load_split"):
                continue
            C, exact_C, gamma, sizes, rows = PROBLEMS[name]
            only = {*(options.only or (*OURS, *THEIRS))}
            wanted = [side for side in (*OURS, *THEIRS) if {side, side.split()[0]} & only]
            runs = [(k, side) for k in options.sizes or sizes for side in wanted if side != "intelex"]
            runs += [(n, "intelex") for n in rows if "intelex" in wanted]
            for size, side in runs:
                spec = {"set": name, "side": side, "size": size, "C": exact_C if side == "intelex" else C}
                spec |= {"gamma": gamma, "threads": options.threads}
                spec |= {"cache": str(options.cache), "memory_limit": options.memory_limit}
                done = []
                for draw in range(options.draws if side in OURS else 1):
                    done.append(run(spec | {"draw": draw}, options.cap, options.jsonl.with_suffix(".log")))
                    print(f"{name:8} {side:20} {size:6d}  {figures(done[-1])}", flush=True)
                print(json.dumps(spec | {"commit": commit()} | together(done)), file=out, flush=True)
    print(f"measured in {time.perf_counter() - begin:.0f} s")


def together(lines: list[dict]) -> dict:
    """One line for several draws of a basis: means of the errors, medians of all else; or one that failed."""
    failed = [line for line in lines if "test_error" not in line]
    if failed or len(lines) == 1:
        return (failed or lines)[0]
    one = {name: float(np.median([line[name] for line in lines])) for name in lines[0]}
    errors = [line["test_error"] for line in lines]
    return one | {"test_error": float(np.mean(errors)), "test_errors": errors}


# --- greedy against twice as many at random ---------------------------------------------------------------------------
HALVES = {"usps": (50, 100, 200), "a9a": (25, 50, 100), "toy_two": (5,)}


def halves(options) -> None:
    """One line for each set and size; in this process, as nothing is timed."""
    for name in options.sets:
        if not available(name, options, "load_split"):
            continue
        data, (C, _, gamma, *_) = load(name, options.cache), PROBLEMS[name]

        def fit(method: str, size: int, draw: int, data=data, C=C, gamma=gamma) -> tuple[float, float]:
            from primalsvm import SVC

            setting = {"loss": "squared_hinge", "C": C, "gamma": gamma, "n_jobs": options.threads}
            model = SVC(approximation=method, n_basis=size, random_state=draw, **setting).fit(data.X, data.y)
            return 100 * float(np.mean(model.predict(data.X_test) != data.y_test)), model.certificate_.primal

        for k in options.sizes or HALVES[name]:
            greedy, drawn = (
                np.array([fit(method, size, draw) for draw in range(options.draws)])
                for method, size in (("greedy", k), ("random", 2 * k))
            )
            noise = np.sqrt(sum(np.var(side[:, 0], ddof=1) for side in (greedy, drawn)) / options.draws)
            (error, objective), (their_error, their_objective) = greedy.mean(axis=0), drawn.mean(axis=0)
            difference = f"difference {error - their_error:+.2f} +- {noise:.2f}"
            print(
                f"{name:8} greedy {k:4d}: {error:6.2f} %   random {2 * k:4d}: {their_error:6.2f} %   {difference}   "
                f"P {objective:.5g} and {their_objective:.5g}",
                flush=True,
            )


# --- the report -------------------------------------------------------------------------------------------------------


def figures(line: dict) -> str:
    if "failure" in line:
        return line["failure"]
    if "capped" in line:
        return f"> {line['seconds']:.0f} s"
    proven = f"  gap {line['relative_gap']:.0e}" if "relative_gap" in line else ""
    memory = f"{line['memory'] / 2**30:.2f} GiB"
    return f"{line['seconds']:8.2f} s  error {100 * line['test_error']:.2f} %  {memory}{proven}"


def latest(lines: list[dict]) -> dict[tuple, dict]:
    return {(line["set"], line["size"], line["side"]): line for line in lines}


def report(lines: list[dict], options) -> None:
    found, text = latest(lines), []
    for name in options.sets:
        mine = {key: line for key, line in found.items() if key[0] == name}
        if not mine:
            continue
        text += [
            f"\n## {name}\n",
            "| basis | side | seconds | test error | memory | seconds of nystroem + linear / its |",
        ]
        text.append("|---|---|---|---|---|---|")
        for (_, size, side), line in sorted(mine.items(), key=lambda item: item[0][1:]):
            rival = mine.get((name, size, RIVAL), {})
            ratio = ""
            if "test_error" in line and "seconds" in rival and side in OURS:
                ratio = f"{'> ' if 'capped' in rival else ''}{rival['seconds'] / line['seconds']:.1f}"
            error = f"{100 * line['test_error']:.2f} %" if "test_error" in line else "-"
            seconds = line.get("failure") or f"{'> ' if 'capped' in line else ''}{line['seconds']:.1f}"
            memory = f"{line['memory'] / 2**30:.2f} GiB" if "memory" in line else "-"
            text.append(f"| {size} | {side} | {seconds} | {error} | {memory} | {ratio} |")
    print("\n".join(text))
    options.table.write_text("\n".join(text) + "\n")
    if found:
        draw(found, options)


def draw(found: dict[tuple, dict], options) -> None:
    """Test error against seconds of fit, a line for each side."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = [name for name in options.sets if any(key[0] == name for key in found)]
    figure, axes = plt.subplots(1, len(names), figsize=(5.2 * len(names), 4.2), squeeze=False, layout="constrained")
    for axis, name in zip(axes[0], names, strict=True):
        for k, side in enumerate((*OURS, *THEIRS)):
            points = [
                (line, key[1]) for key, line in found.items() if key[::2] == (name, side) and "test_error" in line
            ]
            if points:
                points.sort(key=lambda pair: pair[1])
                style = {"lw": 2, "marker": "o"} if side in OURS else {"lw": 1, "marker": "s", "ls": "--"}
                x, y = ([line[what] for line, _ in points] for what in ("seconds", "test_error"))
                axis.plot(x, 100 * np.array(y), color=f"C{k}", label=side, ms=4, **style)
        axis.set(xscale="log", title=name, xlabel="seconds of fit", ylabel="test error, %")
        axis.grid(alpha=0.3, which="both")
    axes[0][0].legend(fontsize=7)
    figure.savefig(options.figure, dpi=130)
    plt.close(figure)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    folder = ROOT / "output" / "bench-large"
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data-home", help="folder with the public data sets (default: PRIMALSVM_DATA)")
    parser.add_argument("--cache", type=Path, default=folder / "sets", help="folder for the loaded sets")
    parser.add_argument("--jsonl", type=Path, default=folder / "runs.jsonl", help="all runs, one line each")
    parser.add_argument("--table", type=Path, default=folder / "large.md")
    parser.add_argument("--figure", type=Path, default=folder / "large.png")
    parser.add_argument("--sets", type=words, help=f"of {', '.join(PROBLEMS)}")
    parser.add_argument("--sizes", type=lambda text: [int(word) for word in words(text)], help="basis functions")
    parser.add_argument("--only", type=words, help="sides by name or first word: primalsvm, nystroem, fourier, intelex")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--memory-limit", type=float, default=5 * 2**30, help="bytes, for ours")
    parser.add_argument("--cap", type=float, default=900.0, help="seconds of a run after which it is killed")
    parser.add_argument("--report-only", action="store_true", help="measure nothing, print what --jsonl holds")
    parser.add_argument("--halves", action="store_true", help="greedy against twice as many at random")
    parser.add_argument("--draws", type=int, help="of each basis of ours (default: 1, for --halves 5)")
    parser.add_argument("--toy", action="store_true", help="small random sets: seconds, and no measurement")
    parser.add_argument("--work", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.draws = options.draws or (5 if options.halves else 1)
    known = HALVES if options.halves else PROBLEMS
    options.sets = options.sets or [name for name in known if (name in TOYS) == options.toy]
    if unknown := set(options.sets) - set(known):
        raise SystemExit(f"There is no set {', '.join(sorted(unknown))}. Sets: {', '.join(known)}.")
    return options


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    if options.work:
        print(json.dumps(work(options.work)))
        return
    if options.halves:
        halves(options)
        return
    if not options.report_only:
        measure(options)
    report(read(options.jsonl), options)


if __name__ == "__main__":
    main()
