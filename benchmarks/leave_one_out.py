"""Approximate leave-one-out against the truth, and what it costs beside the fit.

    python -m benchmarks.leave_one_out [--sets german,splice,usps500] [--repeats 7] [--folds 5,10,100] [--toy]

Error: a model is fitted (tol 1e-3, as by default), its leave-one-out error read off by `leave_one_out`, and compared
with that of n true fits at a relative gap of 1e-8, each begun at the solution of all samples. A sample of cost zero is
the same as none, so that all fits share one X or one K. Bar: the two errors differ by at most 0.5 points.

Cost: fit and leave_one_out in turns, medians. leave_one_out validates the data and computes K again, as the model keeps
neither; loo_scores alone has a problem with K at hand, as a caller has who solves problems himself. Bar: a quarter of
the time of the fit.

Folds: the same errors, whole folds left out.
"""

import argparse
import json
import lzma
import os
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from sklearn.datasets import load_svmlight_file

from primalsvm import SVC, LinearSVC, Start, fold_scores, leave_one_out, loo_scores, solve
from primalsvm.classifier import CertifiedClassifier
from primalsvm.matrix import one_blas_thread
from primalsvm.problem import Problem
from primalsvm.solvers import Newton

from . import commit, data_home, load_usps, sets, timed

TRUTH = 1e-8  # relative gap of the true fits
POINTS, SHARE = 0.5, 0.25  # the bars
LOSSES = ("squared_hinge", "huber", "hinge")
KINDS = {"linear": LinearSVC, "rbf": SVC}


class Data(NamedTuple):
    name: str
    X: np.ndarray
    y: np.ndarray


def small(home: Path, file: str, name: str, rows: int | None = None) -> Data:
    with lzma.open(home / file, "rb") as opened:
        X, y = load_svmlight_file(opened)
    return Data(name, X.toarray()[:rows], y[:rows])


def usps500(home: Path) -> Data:
    usps = load_usps(home)
    picked = np.sort(np.random.default_rng(0).choice(len(usps.y), 500, replace=False))
    return Data("usps500", np.asarray(usps.X)[picked], usps.y[picked])


def toy(_home: Path) -> Data:
    clouds = sets.clouds(2, n=60)
    return Data("toy", clouds.X, np.where(clouds.y > 0, 1.0, -1.0))


SETS = {
    "german": lambda home: small(home, "german/german.numer_scale.xz", "german"),
    "splice": lambda home: small(home, "splice/splice_scale.xz", "splice", 1000),
    "usps500": usps500,
    "toy": toy,
}


def stated(model, data: Data) -> tuple[Problem, Start]:
    """The binary problem of a fitted model, and its solution."""
    prepared = CertifiedClassifier._prepare(model, data.X, data.y, None)
    (start,) = model._solutions(prepared, model.C)
    return model._problem(prepared, prepared.parts[0]), start


def true_scores(problem: Problem, folds: np.ndarray) -> np.ndarray:
    """f(x_i) + b of every sample by a model that was trained without its fold."""
    with one_blas_thread():
        whole = solve(problem, Newton(), tol=TRUTH, max_iter=10_000)
        scores = problem.scores(whole.f) + whole.b
        for fold in np.unique(folds):
            out = np.flatnonzero(folds == fold)
            if not whole.alpha[out].any():  # then it is the same model
                continue
            cost, alpha = problem.cost.copy(), whole.alpha.copy()
            cost[out] = alpha[out] = 0.0
            f = whole.f if problem.kind == "linear" else np.where(cost > 0, whole.f, 0.0)
            found = solve(
                replace(problem, cost=cost), Newton(), tol=TRUTH, max_iter=10_000, start=Start(f, whole.b, alpha)
            )
            if found.certificate.relative_gap > 100 * TRUTH:
                print(f"  a true fit ended at a gap of {found.certificate.relative_gap:.1e}")
            scores[out] = problem.scores(found.f, out) + found.b
    return scores


def error(problem: Problem, scores: np.ndarray) -> float:
    """In percent; a score of zero stands for -1, as everywhere."""
    return 100 * float(np.mean(np.where(scores > 0, 1.0, -1.0) != problem.y))


def times(model, data: Data, repeats: int) -> tuple[float, float, float]:
    """(fit, leave_one_out, loo_scores) in seconds: medians, one after the other in every round."""
    model.fit(data.X, data.y)
    problem, start = stated(model, data)
    if problem.kind == "kernel":
        problem.K.array()  # type: ignore[attr-defined]

    def alone() -> None:
        with one_blas_thread():
            loo_scores(problem, *start[:3])

    rounds = [
        [
            timed(what)[1]
            for what in (lambda: model.fit(data.X, data.y), lambda: leave_one_out(model, data.X, data.y), alone)
        ]
        for _ in range(repeats + 1)
    ]
    return tuple(np.median(rounds[1:], axis=0).tolist())


def measure(data: Data, kind: str, loss: str, options) -> dict:
    model = KINDS[kind](loss=loss, C=options.C, tol=options.tol, solver=options.solver).fit(data.X, data.y)
    found = leave_one_out(model, data.X, data.y)
    problem, start = stated(model, data)
    fit, call, alone = times(model, data, options.repeats)
    line = {
        "commit": commit(), "set": data.name, "kind": kind, "loss": loss, "C": options.C, "tol": options.tol,
        "solver": model.solver_.name, "samples": problem.n, "support": int(np.count_nonzero(start.alpha)),
        "training_error": 100 * found.training_error, "error": 100 * found.error,
        "fit": fit, "leave_one_out": call, "loo_scores": alone,
    }  # fmt: skip
    if not options.no_truth:
        truth = true_scores(problem, np.arange(problem.n))
        line["true_error"] = error(problem, truth)
        line["apart"] = int(np.count_nonzero((truth > 0) != (found.scores > 0)))
    rng = np.random.default_rng(0)
    for k in options.folds:
        folds = rng.permutation(problem.n) % k
        line[f"error_{k}"] = error(problem, fold_scores(problem, *start[:3], folds))
        if not options.no_truth:
            line[f"true_error_{k}"] = error(problem, true_scores(problem, folds))
    return line


def show(line: dict, folds: list[int]) -> None:
    what = f"{line['set']:8} {line['kind']:7} {line['loss']:14} {line['solver']:7} {line['support']:4}"
    truth = "" if "true_error" not in line else f"{line['true_error']:7.2f} {line['apart']:5}"
    spent = [line[name] for name in ("fit", "leave_one_out", "loo_scores")]
    spread = " ".join(f"{1e3 * seconds:8.2f}" for seconds in spent)
    shares = " ".join(f"{100 * seconds / spent[0]:6.0f} %" for seconds in spent[1:])
    print(f"{what}  {line['training_error']:6.2f} {line['error']:6.2f} {truth:13} {spread}   {shares}", flush=True)
    for k in folds:
        truth = f", true {line[f'true_error_{k}']:.2f}" if f"true_error_{k}" in line else ""
        print(f"{'':30} {k} folds: {line[f'error_{k}']:.2f}{truth}", flush=True)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default="german,splice,usps500", type=lambda text: text.split(","))
    parser.add_argument("--kinds", default="linear,rbf", type=lambda text: text.split(","))
    parser.add_argument("--losses", default="squared_hinge,huber", type=lambda text: text.split(","))
    parser.add_argument("--C", default=1.0, type=float)
    parser.add_argument("--tol", default=1e-3, type=float, help="of the fit whose leave-one-out error is read off")
    parser.add_argument("--solver", default="auto", help="of that fit")
    parser.add_argument("--repeats", default=7, type=int)
    parser.add_argument("--folds", default=[], type=lambda text: [int(k) for k in text.split(",")])
    parser.add_argument("--no-truth", action="store_true", help="time only")
    parser.add_argument("--data-home")
    parser.add_argument("--jsonl", type=Path)
    parser.add_argument("--toy", action="store_true", help="generated data, in seconds")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    home = Path() if options.toy else data_home(options.data_home)
    print(f"C = {options.C:g}, tol = {options.tol:g}; errors in %, times in ms and in % of the fit")
    print(f"{'set':8} {'kind':7} {'loss':14} {'solver':7}   SV   train    loo    true apart", end=" ")
    print(f"{'fit':>8} {'call':>8} {'scores':>8}   {'call':>8} {'scores':>8}")
    lines = []
    for name in ["toy"] if options.toy else options.sets:
        data = SETS[name](home)
        for kind in options.kinds:
            for loss in options.losses:
                lines.append(measure(data, kind, loss, options))
                show(lines[-1], options.folds)
                if options.jsonl:
                    with options.jsonl.open("a") as file:
                        print(json.dumps(lines[-1]), file=file)
    if not options.no_truth:
        worst = max(abs(line["error"] - line["true_error"]) for line in lines)
        print(f"leave-one-out errors: at most {worst:.2f} points from the truth (bar: {POINTS})")
    for what in ("leave_one_out", "loo_scores"):
        under = sum(line[what] <= SHARE * line["fit"] for line in lines)
        print(f"{what}: at most {SHARE:.0%} of the fit in {under} of {len(lines)} rows (bar: all)")


if __name__ == "__main__":
    main()
