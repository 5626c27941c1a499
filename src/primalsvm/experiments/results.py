"""Outcomes on disk: one JSON file an experiment, its plots as PNG beside it, and a page of all verdicts.

    obtain(name, lab, folder, fresh)     from the folder if it is there, else run and put there
    write_page(folder)                   verdicts.md, of all outcomes in the folder

An outcome is taken from the folder where scale, version, data folder, threads and the source of the experiment are the
same, that of the modules it shares with others too. A file that is there is whole.
"""

import ast
import hashlib
import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from .. import __version__
from ..display import COLOURS, MARKERS
from . import FOLDER, load, names, title
from .judged import RULES
from .lab import Lab, Outcome, Plot

WORDS = {True: "held", False: "refuted", None: "too small to tell"}


def obtain(name: str, lab: Lab, folder: Path, fresh: bool = False) -> tuple[dict[str, Any], bool]:
    """(outcome as plain values, was it run?)"""
    key = _key(name, lab)
    kept = None if fresh else read(folder / f"{name}.json")
    if kept is not None and all(kept.get(word) == value for word, value in key.items()):
        return kept, False
    begin = time.perf_counter()
    with threadpool_limits(lab.threads):  # times are those of so many threads, BLAS's among them
        outcome = load(name).run(lab)
    seconds = round(time.perf_counter() - begin, 2)
    result = key | {"name": name, "title": title(name), "text": _text(name), "seconds": seconds} | as_plain(outcome)
    result["notes"] = list(dict.fromkeys(lab.notes + outcome.notes))
    lab.tell("drawing", 1.0)
    folder.mkdir(parents=True, exist_ok=True)
    for number, (plot, plain) in enumerate(zip(outcome.plots, result["plots"], strict=True), start=1):
        plain["file"] = draw(plot, folder / f"{name}_{number}.png")
    _write(folder / f"{name}.json", json.dumps(result, indent=1, allow_nan=False))
    return result, True


def read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def write_page(folder: Path) -> Path:
    """All verdicts of the folder as Markdown."""
    lines = ["# Verdicts", "", "What five papers claim of support vector machines, and whether it held here."]
    found = [result for name in names() if (result := read(folder / f"{name}.json")) is not None]
    lines += ["", summary(found) + ".", ""]
    for result in found:
        where = f"scale {result['scale']}, primalsvm {result['version']}, {result['seconds']:.0f} s"
        lines += [f"## {result['title']}", "", f"`{result['name']}`, {where}", ""]
        lines += [
            f"- **{WORDS[v['held']]}**: {_escaped(v['claim'])} *{_escaped(v['figures'])}*" for v in result["verdicts"]
        ]
        lines += [f"- note: {_escaped(note)}" for note in result["notes"]] + [""]
    lines += ["## How claims are judged", "", RULES, ""]
    page = folder / "verdicts.md"
    _write(page, "\n".join(lines))
    return page


def summary(results: list[dict[str, Any]]) -> str:
    """How many claims held."""
    told = [verdict["held"] for result in results for verdict in result["verdicts"]]
    return f"{len(told)} claims: " + ", ".join(f"{told.count(held)} {word}" for held, word in WORDS.items())


def as_plain(outcome: Outcome) -> dict[str, Any]:
    """Lists and numbers; what is not finite becomes null."""
    verdicts = [asdict(v) | {"held": None if v.held is None else bool(v.held)} for v in outcome.verdicts]
    plots = []
    for plot in outcome.plots:
        curves = {name: [_numbers(x), _numbers(y)] for name, (x, y) in plot.curves.items()}
        plots.append({f: getattr(plot, f) for f in ("title", "x", "y", "log_x", "log_y", "marks")} | {"curves": curves})
    return {"verdicts": verdicts, "tables": [asdict(table) for table in outcome.tables], "plots": plots}


def draw(plot: Plot, path: Path) -> str | None:
    """The name of the picture; None where matplotlib is missing."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return None
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    for number, (name, (x, y)) in enumerate(plot.curves.items()):
        style = "" if plot.marks else ("-", "--", "-.", ":")[number // len(COLOURS) % 4]
        marker = MARKERS[number % len(MARKERS)] if plot.marks or len(x) <= 16 else ""
        colour = COLOURS[number % len(COLOURS)]
        axes.plot(np.asarray(x), np.asarray(y), ls=style, marker=marker, ms=4, lw=1.6, c=colour, label=_text_of(name))
    if plot.log_x:
        axes.set_xscale("log")
    if plot.log_y:
        axes.set_yscale("log")
    axes.set(xlabel=_text_of(plot.x), ylabel=_text_of(plot.y))
    axes.set_title(_text_of(plot.title), fontsize="medium", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    if len(plot.curves) > 1:
        axes.legend(frameon=False, fontsize="small")
    part = path.with_suffix(".part")
    FigureCanvasAgg(figure).print_png(part)
    os.replace(part, path)
    return path.name


def _key(name: str, lab: Lab) -> dict[str, Any]:
    apart = {*names(), "__init__", "results"}
    shared = [path for path in sorted(FOLDER.glob("*.py")) if path.stem not in apart]
    source = hashlib.sha256(b"".join(path.read_bytes() for path in [FOLDER / f"{name}.py", *shared])).hexdigest()[:16]
    home = None if lab.home is None else str(lab.home)
    return {"scale": lab.scale, "version": __version__, "data": home, "threads": lab.threads, "source": source}


def _text(name: str) -> str:
    return ast.get_docstring(ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))) or ""


def _numbers(values: Any) -> list[float | None]:
    return [float(v) if np.isfinite(v) else None for v in np.asarray(values, dtype=float).ravel()]


def _escaped(text: str) -> str:
    """v* and <x, y> mean something to Markdown."""
    return text.replace("*", "\\*").replace("<", "\\<")


def _text_of(text: str) -> str:
    """matplotlib takes dollars for formulas."""
    return text.replace("$", r"\$")


def _write(path: Path, text: str) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)
