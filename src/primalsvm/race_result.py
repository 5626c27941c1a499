"""What comes of a race, as plain values: see `race`."""

import json
import math
import os
import statistics
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .certificate import relative_gap
from .evaluation import _write as write_csv
from .experiments.lab import Plot, Table
from .solve import Record

SHORT = 1.0  # seconds: fits below this are repeated
REPEATS = 3
CLOSE = 1.25  # times as fast: within this, two are about as fast


@dataclass
class Fit:
    """One tolerance: how long fits took, and what came of them."""

    tol: float
    times: list[float]
    status: str
    records: list[Record]

    @property
    def seconds(self) -> float:
        """The median."""
        return statistics.median(self.times)

    @property
    def last(self) -> Record:
        return self.records[-1]


@dataclass
class Runner:
    """A solver in the race, and its fits from the loosest tolerance to the tightest.

    Attributes
    ----------
    name : str
    ours : bool
    problem : str
        Which problem it solves; runners with the same one share the best lower bound.
    warm_up : float
        Seconds of a fit on a few rows before the race: compiling, mostly.
    fits : list of Fit
    """

    name: str
    ours: bool
    problem: str
    warm_up: float = 0.0
    fits: list[Fit] = field(default_factory=list)

    @property
    def history(self) -> tuple[Record, ...]:
        """Every certificate of all its fits, by seconds."""
        found = [r._replace(seconds=r.seconds * fit.seconds / fit.times[0]) for fit in self.fits for r in fit.records]
        return tuple(sorted(found, key=lambda record: record.seconds))


@dataclass(frozen=True)
class Race:
    """What came of it.

    Attributes
    ----------
    runners : list of Runner
        Ours, then others.
    refused : dict of str to str
        Who was not raced, and why.
    targets : tuple of float
        Relative gaps, falling.
    tol : float
        The one that the recommendation is about, where it was reached.
    limit : float
        Seconds that a fit may take.
    auto : str
        What solver="auto" takes here.
    parts : int
        Binary problems.
    bounds : dict of str to float
        The best lower bound of each problem.
    interrupted : bool
        Ctrl-C ended it; what was finished is here.
    """

    runners: list[Runner]
    refused: dict[str, str]
    targets: tuple[float, ...]
    tol: float
    limit: float
    auto: str
    parts: int
    bounds: dict[str, float]
    interrupted: bool = False

    def __getitem__(self, name: str) -> Runner:
        for runner in self.runners:
            if runner.name == name:
                return runner
        raise KeyError(f"{name!r} did not race; {', '.join(runner.name for runner in self.runners)} did.")

    def distance(self, runner: Runner, record: Record) -> float:
        """How far from the optimum, as a fraction of the objective, by the best lower bound that is known."""
        return relative_gap(record.primal, self.bounds[runner.problem])

    def gap(self, name: str) -> float:
        """What is proven at the end: by itself for ours, by the best lower bound for others."""
        runner = self[name]
        return min(self._proven(runner, fit) for fit in runner.fits)

    def _proven(self, runner: Runner, fit: Fit) -> float:
        own = relative_gap(fit.last.primal, fit.last.dual)
        return own if runner.ours else self.distance(runner, fit.last)

    def seconds_to(self, name: str, target: float) -> float | None:
        """Of the fastest fit that proved this gap; others come so near without knowing it. None: no fit did."""
        runner = self[name]
        there = [fit.seconds for fit in runner.fits if self._proven(runner, fit) <= target]
        return min(there, default=None)

    def ranking(self, target: float | None = None, ours: bool = True) -> list[str]:
        """Those that came to `target`, the fastest first."""
        target = self.tol if target is None else target
        times = {r.name: self.seconds_to(r.name, target) for r in self.runners if r.ours or not ours}
        return sorted((name for name, t in times.items() if t is not None), key=lambda name: times[name] or 0.0)

    def curve(self, name: str, x: str = "seconds") -> tuple[np.ndarray, np.ndarray]:
        """The distance of the best model so far, against "seconds" or "passes"; others do not count their passes."""
        runner, points, best = self[name], [], math.inf
        for record in sorted(runner.history, key=lambda record: getattr(record, x)):
            where, away = getattr(record, x), self.distance(runner, record)
            if math.isfinite(where) and away < best:
                best = away
                points.append((where, away))
        return np.array(points).reshape(-1, 2)[:, 0], np.array(points).reshape(-1, 2)[:, 1]

    @property
    def recommendation(self) -> str:
        """One sentence."""
        for target in [self.tol, *(t for t in reversed(self.targets) if t > self.tol)]:
            ranking = self.ranking(target)
            if ranking:
                break
        else:
            best = min((r.name for r in self.runners if r.ours), key=self.gap)
            return (
                f"No solver was proven to {percent(max(self.targets))} within {self.limit:g} s: {best} came nearest, "
                f"to {percent(self.gap(best))}; give it more seconds, or scale the features to similar ranges."
            )
        first = ranking[0]
        seconds = self.seconds_to(first, target) or 0.0
        said = f"Take {first}: proven to {percent(target)} in {_seconds(seconds)} s"
        if len(ranking) > 1:
            ratio = (self.seconds_to(ranking[1], target) or 0.0) / seconds
            near = f"about as fast as {ranking[1]}"
            said += ", " + (near if ratio < CLOSE else f"{ratio:.1f} times as fast as the next ({ranking[1]})")
        elif sum(runner.ours for runner in self.runners) > 1:
            said += f", and no other came there within {self.limit:g} s"
        if self.auto == first:
            return f"{said}; solver='auto' takes it too."
        theirs = next((r.name for r in self.runners if r.name == self.auto), None)
        took = None if theirs is None else self.seconds_to(theirs, target)
        return f"{said}; solver='auto' would take {self.auto}" + (f", {_seconds(took)} s." if took else ".")

    def table(self) -> Table:
        """A line for each runner: seconds to each target, and what is proven at the end."""
        header = ["solver", *(f"s to {percent(target)}" for target in self.targets), "proven gap", "ended"]
        rows = []
        for runner in self.runners:
            times = [self.seconds_to(runner.name, target) for target in self.targets]
            cells = ["-" if t is None else _seconds(t) for t in times]
            rows.append([runner.name, *cells, f"{self.gap(runner.name):.1e}", _ended(runner)])
        return Table("Seconds to a proven relative gap", header, rows)

    def plots(self) -> list[Plot]:
        """Distance from the optimum against seconds and against passes."""
        found = []
        for x, label in (("seconds", "seconds of fit"), ("passes", "passes over the data")):
            curves = {runner.name: self.curve(runner.name, x) for runner in self.runners}
            curves = {name: curve for name, curve in curves.items() if len(curve[0])}
            found.append(Plot(f"Gap against {x}", label, "proven distance from the optimum", curves, True, True))
        return found

    def notes(self) -> list[str]:
        """What a reader of the table must know."""
        compiled = sum(runner.warm_up for runner in self.runners if runner.ours)
        said = [
            f"A fit had {self.limit:g} s. Seconds are those of the whole fit, proof included; before the race the "
            f"solvers were warmed up on a few rows, {compiled:.1f} s with compiling. Of fits below {SHORT:g} s, the "
            f"median of {REPEATS}."
        ]
        if self.parts > 1:
            said.append(f"{self.parts} binary problems; bounds are those of their sum.")
        others = [runner for runner in self.runners if not runner.ours]
        if others:
            said.append(
                "scikit-learn's seconds are those of the fit alone, over tolerances from 0.1 to 1e-8: how good a model "
                "is was found out afterwards, by the best lower bound that is known."
            )
        mine = next(runner.problem for runner in self.runners if runner.ours)
        for runner in others:
            if runner.problem != mine:
                said.append(
                    f"{runner.name} solves another problem ({runner.problem}; ours: {mine}), and is judged by the "
                    "optimum of that one."
                )
        ranking = self.ranking(self.tol, ours=False)
        if ranking and not self[ranking[0]].ours:
            took = _seconds(self.seconds_to(ranking[0], self.tol) or 0.0)
            said.append(f"{ranking[0]} had a model that is within {percent(self.tol)} after {took} s.")
        if self.interrupted:
            said.append("Ctrl-C ended the race early.")
        return said

    def rows(self) -> list[dict[str, Any]]:
        """One for each certificate of each fit; what is not known is nan."""
        return [
            {
                "solver": runner.name,
                "ours": runner.ours,
                "problem": runner.problem,
                "tol": fit.tol,
                "status": fit.status,
                **record._replace(seconds=record.seconds * fit.seconds / fit.times[0])._asdict(),
                "relative_gap": relative_gap(record.primal, record.dual),
                "distance": self.distance(runner, record),
            }
            for runner in self.runners
            for fit in runner.fits
            for record in fit.records
        ]

    def to_csv(self, path: str | os.PathLike) -> None:
        """A line for each certificate."""
        rows = self.rows()
        write_csv(path, list(rows[0]), [list(row.values()) for row in rows])

    def to_jsonl(self, path: str | os.PathLike) -> None:
        """A JSON object a line, for each certificate."""
        with open(path, "w", encoding="utf-8") as file:
            for row in self.rows():
                known = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
                file.write(json.dumps(known) + "\n")

    def __str__(self) -> str:
        table = self.table()
        widths = [max(map(len, column)) for column in zip(table.header, *table.rows, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(width) if k in (0, len(widths) - 1) else cell.rjust(width)
                for k, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in [table.header, *table.rows]
        ]
        lines += [f"not raced: {why}" for why in self.refused.values()]
        return "\n".join([*lines, *self.notes(), self.recommendation])


# --- words ------------------------------------------------------------------------------------------------------------


def percent(share: float) -> str:
    if not 1e-7 <= share < 1e-4:
        return f"{100 * share:.3g} %"
    return f"{100 * share:.9f}".rstrip("0") + " %"  # no powers of ten where zeros can be counted


def _seconds(value: float) -> str:
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def _ended(runner: Runner) -> str:
    fit = runner.fits[-1]
    if fit.status == "converged":
        return f"proven to {percent(fit.tol)}" if runner.ours else f"its tol {fit.tol:g} met"
    return "out of time" if fit.status == "max_seconds" else fit.status
