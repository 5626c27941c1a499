"""Reports of what `compare` and `reproduce` found."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..experiments.judged import RULES
from ..experiments.lab import Plot, Table, Verdict
from .charts import from_plot
from .environment import environment
from .page import BADGES, Page


def race_report(race: Any, path, *, title: str = "", facts: Mapping[str, Any] | None = None, command: str = "") -> Path:
    """Write the report of a Race: which solver proves how much, and when.

    Parameters
    ----------
    race : Race
    path : where to write
    title : str, what was raced on
    facts : dict of names to values, about the data and the problem
    command : str, that does it again
    """
    page = Page(title or "A race of solvers", "Which solver proves how much, and when")
    page.section("In short").text(race.recommendation, "claim").facts(facts or {})
    table, best = race.table(), next(iter(race.ranking()), None)
    names = [row[0] for row in table.rows]
    page.section("The race").table(table, chosen=names.index(best) if best in names else None)
    for note in race.notes():
        page.text(note)
    page.chart("Proven distance from the optimum", [from_plot(plot) for plot in race.plots()])
    if race.refused:
        page.section("Not raced")
        page.table(Table("Who was not raced, and why", ["solver", "why"], [[*pair] for pair in race.refused.items()]))
    return _end(page, command).write(path)


def outcomes_report(results: Sequence[Mapping[str, Any]], path, *, command: str = "") -> Path:
    """Write the report of experiments, as `experiments.results` keeps them: claims, verdicts, tables and plots.

    Parameters
    ----------
    results : list of dict
    path : where to write
    command : str, that does it again
    """
    page = Page("What five papers claim of SVMs", "and whether it held here: experiments of primalsvm")
    told = [[verdict["held"] for verdict in result["verdicts"]] for result in results]
    everything = [held for each in told for held in each]
    counts = ", ".join(f"{everything.count(held)} {words[2:]}" for held, (_, words) in BADGES.items())
    page.section("In short").text(f"{len(everything)} claims: {counts}.", "claim")
    header = ["experiment", *(words[2:] for _, words in BADGES.values()), "seconds"]
    lines = [
        [result["title"], *(str(each.count(held)) for held in BADGES), f"{result['seconds']:.1f}"]
        for result, each in zip(results, told, strict=True)
    ]
    page.table(Table("Verdicts of each experiment", header, lines))
    page.text(RULES)
    for result in results:
        _write_outcome(page, result)
    return _end(page, command).write(path)


def _write_outcome(page: Page, result: Mapping[str, Any]) -> None:
    page.section(result["title"]).verdict(*(Verdict(**verdict) for verdict in result["verdicts"]))
    for note in result["notes"]:
        page.text(note, "warning")
    page.more("What is claimed, and how it is measured", result["text"])
    for plot in result["plots"]:
        page.plot(_plot(plot))
    for table in result["tables"]:
        page.table(Table(**table))
    page.facts({"name": result["name"], "scale": result["scale"], "threads": str(result["threads"])})


def _plot(plain: Mapping[str, Any]) -> Plot:
    """From lists, in which null is what is not finite."""
    given = {name: plain[name] for name in ("title", "x", "y", "log_x", "log_y", "marks")}
    curves = {name: tuple(np.array(values, dtype=float) for values in pair) for name, pair in plain["curves"].items()}
    return Plot(**given, curves=curves)  # type: ignore[arg-type]


def _end(page: Page, command: str) -> Page:
    page.section("Environment").facts(environment())
    return page.section("Run it again").code(command) if command else page
