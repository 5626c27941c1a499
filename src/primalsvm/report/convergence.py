"""How the bounds closed on the optimum, as charts."""

from typing import Any

import numpy as np

from ..certificate import relative_gap
from ..solve import Record
from .charts import MOST, View, summarise
from .page import Page
from .story import Story

AXES = {"passes": "passes over the data", "seconds": "seconds of solver time", "iteration": "steps of the solver"}
CURVES = 8  # that are shown at first, where there are more


def write_convergence(page: Page, story: Story) -> None:
    history = story.model.history_
    runs = [history] if isinstance(history[0], Record) else history
    # the largest gaps first: where there are many curves these are shown, in colours of their own
    order = np.argsort([-one.relative_gap for one in story.certificates], kind="stable")
    names = [part.name for part in story.parts]
    histories = {names[k]: runs[k] for k in order[:MOST]}
    page.section("Convergence")
    shown = {axis: title for axis, title in AXES.items() if any(getattr(run[-1], axis) > 0 for run in runs)}
    if not shown:
        page.text("The model was there before the first step; there is no way to show.")
        return
    text = "Every dot is a certificate: the optimum lies between the bounds."
    if len(names) > 1:
        text += " Solid: the model's objective, dashed: the lower bound of the same binary problem."
    if len(names) > CURVES:
        others = "the others" if len(names) <= MOST else f"{MOST - CURVES} others of the {len(names)} in all"
        text += f" The {CURVES} problems with the largest gaps are shown; the buttons show {others}."
    views = [_bounds(histories, axis, title) for axis, title in shown.items()]
    page.chart("The bounds close on the optimum", views, text)
    text = "What is proven at each moment: the model is at most this fraction of its objective above the optimum."
    page.chart("Relative gap", [_gaps(histories, axis, title, story.inner.tol) for axis, title in shown.items()], text)


def _axis(histories: dict[str, list[Record]], axis: str, title: str) -> dict[str, Any]:
    """Logarithmic where the runs span it; that has no place for the start, so runs of few records are linear."""
    runs = [
        [getattr(record, axis) for record in history if getattr(record, axis) > 0] for history in histories.values()
    ]
    above = [value for run in runs for value in run] or [1.0]
    return {"title": title, "log": max(above) > 30 * min(above) and float(np.median([len(run) for run in runs])) >= 4}


def _bounds(histories: dict[str, list[Record]], axis: str, title: str) -> View:
    records = [record for history in histories.values() for record in history]
    # the objective at the start would flatten all the rest
    top = 2.5 * max(min(history[-1].primal for history in histories.values()), max(record.dual for record in records))
    top = min(top, 1.05 * max(record.primal for record in records))
    y: dict[str, Any] = {"title": "objective"} | ({"range": [0.0, top]} if 0 < top < np.inf else {})
    view = View(axis.replace("iteration", "steps"), _axis(histories, axis, title), y)
    for k, (name, history) in enumerate(histories.items()):
        x = [getattr(record, axis) for record in history]
        primal, dual = [record.primal for record in history], [record.dual for record in history]
        if len(histories) == 1:
            view.draw(view.key("upper bound: the model's objective", 0), x, primal)
            view.draw(view.key("lower bound: the dual", 1, dash="dash"), x, dual)
        else:
            key = view.key(name, k, dash="solid", off=k >= CURVES)
            view.draw(key, x, primal, name=f"{name}: upper bound")
            view.draw(key, x, dual, name=f"{name}: lower bound", dash="dash")
    view.summary = summarise(view)
    return view


def _gaps(histories: dict[str, list[Record]], axis: str, title: str, tol: float) -> View:
    log = any(record.primal > record.dual for history in histories.values() for record in history)
    y = {"title": "relative gap", "log": log}
    view = View(axis.replace("iteration", "steps"), _axis(histories, axis, title), y)
    for k, (name, history) in enumerate(histories.items()):
        x = [getattr(record, axis) for record in history]
        gaps = [relative_gap(record.primal, record.dual) for record in history]
        view.draw(view.key(name, k, off=k >= CURVES), x, gaps)
    if log and tol > 0:
        view.rules.append({"axis": "y", "at": tol, "text": f"tol = {tol:g}"})
    view.summary = summarise(view)
    return view
