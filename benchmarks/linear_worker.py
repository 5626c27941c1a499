"""One side on one data set, in a process of its own: climbs the ladder in each cell, one JSON line per run.

    python -m benchmarks.linear_worker '{"side": "cyanure", "set": "a9a", "cells": [...], ...}'

`benchmarks.linear` starts it and reads its output; whatever a package prints goes to standard error.
"""

import json
import os
import statistics
import sys
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from primalsvm import LinearProblem
from primalsvm.certificate import certificate
from primalsvm.losses import make_loss
from primalsvm.matrix import as_matrix, one_blas_thread

from . import sets, timed
from .peers import OURS, REFERENCE, SIDES, Fit, Side

CLOSE = 1e-6
PATIENCE = 3  # rungs in a row without an improvement, after which a ladder leads nowhere
LONG = 10.0  # seconds; longer runs are not repeated
WARM_UP = 1000  # rows of each class


class Cell(NamedTuple):
    loss: str
    C: float
    upper: float | None  # the least P known
    lower: float | None  # what P* is proven to be above

    @property
    def target(self) -> float:
        """P within 1e-6 of the optimum; of the lower bound as long as nobody has proven the optimum."""
        if self.upper is None or self.lower is None:
            return -np.inf
        return (1 + CLOSE) * (self.upper if self.upper - self.lower <= 0.1 * CLOSE * self.upper else self.lower)


class Judge:
    """Our objective in float64, and our lower bound, for whoever made w.

    On one BLAS thread: those of OpenBLAS spin for a tenth of a second after their last call, on the processor of
    whoever is timed next.
    """

    def __init__(self, X, y):
        self.X, self.y, self.matrix = X, y, as_matrix(X)

    def primal(self, w, loss: str, C: float) -> float:
        with one_blas_thread():
            slack = np.maximum(0.0, 1.0 - self.y * (self.X @ w))
            return float(0.5 * (w @ w) + C * (slack.sum() if loss == "hinge" else slack @ slack))

    def dual(self, w, loss: str, C: float) -> float:
        cost = np.full(len(self.y), float(C))
        problem = LinearProblem(self.y, cost, make_loss(loss), "none", X=self.matrix)
        with one_blas_thread():
            return certificate(problem, w, 0.0, deep=False).dual


def warm_up(side: Side, X, y, threads: int) -> float:
    """Seconds of compiling, on a few rows of the same type."""
    rows = np.sort(np.r_[np.flatnonzero(y > 0)[:WARM_UP], np.flatnonzero(y < 0)[:WARM_UP]])
    small = side.prepare(X[rows], y[rows])
    setting = {"tol": 0.1} if side is REFERENCE else with_limit(side.ladder[0], side.limits)

    def once():
        for loss in side.losses:
            side.fit(small, loss, 1.0, setting, threads)

    return timed(once)[1]


def with_limit(setting: dict, limits) -> dict:
    return setting | {"max_iter": limits[0]} if limits else setting


def run_rung(side: Side, setting: dict, data, judge: Judge, cell: Cell, options: dict, say) -> tuple[Fit, float, float]:
    """(the fit, P, median seconds) of one setting; every repeat is said."""
    say(event="rung", loss=cell.loss, C=cell.C, setting=setting)
    walls: list[float] = []
    for repeat in range(1 if side is REFERENCE else options["repeats"]):
        fit, seconds, cpu = timed(lambda: side.fit(data, cell.loss, cell.C, setting, options["threads"]))
        walls.append(seconds)
        primal = judge.primal(fit.w, cell.loss, cell.C)
        line: dict[str, Any] = {"loss": cell.loss, "C": cell.C, "setting": setting, "repeat": repeat}
        line |= {"seconds": seconds, "cpu_seconds": cpu, "primal": primal, "exhausted": fit.exhausted}
        line["suboptimality"] = None if cell.upper is None else (primal - cell.upper) / cell.upper
        if repeat == 0 and "dual" not in fit.facts:
            line["dual"] = judge.dual(fit.w, cell.loss, cell.C)
        say(event="run", **line, **fit.facts)
        if seconds > LONG:
            break
    return fit, primal, statistics.median(walls)


def climb(side: Side, data, judge: Judge, cell: Cell, options: dict, say) -> None:
    """From loose to tight until it is close, too long, or leads nowhere. A rung that was cut short is made again."""
    rungs, limits = list(side.ladder), list(side.limits)
    best, misses, spent = np.inf, 0, 0.0
    while rungs:
        fit, primal, seconds = run_rung(side, with_limit(rungs[0], limits), data, judge, cell, options, say)
        spent += seconds
        misses = 0 if primal < best * (1 - 0.1 * CLOSE) else misses + 1
        best = min(best, primal)
        if primal <= cell.target or seconds > options["cap"] or spent > 2 * options["cap"] or misses >= PATIENCE:
            return
        if not fit.exhausted:
            rungs.pop(0)
        elif len(limits) > 1:
            limits.pop(0)
        else:
            return


def run_ours(side: Side, data, judge: Judge, cell: Cell, options: dict, say) -> None:
    """Both tolerances; for the reference one solver after the other until P* is as good as known."""
    used = set()
    for rung in side.ladder:
        if rung.get("solver") in used:
            continue
        setting = rung if side is OURS else rung | {"max_seconds": options["reference_seconds"]}
        fit, _, _ = run_rung(side, setting, data, judge, cell, options, say)
        used.add(fit.facts["solver"])
        if side is REFERENCE and fit.facts["relative_gap"] <= 0.01 * CLOSE:
            return


def work(options: dict, say) -> None:
    side = SIDES[options["side"]]
    X, y = sets.load(options["set"], Path(options["cache"]))
    compiling = warm_up(side, X, y, options["threads"])
    data, preparing, _ = timed(lambda: side.prepare(X, y))
    judge = Judge(X, y)
    say(event="ready", compile_seconds=compiling, prepare_seconds=preparing)
    for cell in (Cell(*cell) for cell in options["cells"]):
        try:
            (run_ours if side in (OURS, REFERENCE) else climb)(side, data, judge, cell, options, say)
        except Exception as error:  # a peer's: the other cells may do
            say(event="failure", loss=cell.loss, C=cell.C, failure=f"{type(error).__name__}: {error}"[:300])
    say(event="end")


def main() -> None:
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")

    def say(**fields) -> None:
        print(json.dumps(fields), file=channel, flush=True)

    work(json.loads(sys.argv[1]), say)


if __name__ == "__main__":
    main()
