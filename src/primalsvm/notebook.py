"""What a notebook shows of a fitted model: scikit-learn's diagram, and below it what is proven.

    ProofInNotebook   a mixin of our estimators; Jupyter asks for `_repr_html_` or `_repr_mimebundle_`
    proof_html        the block: the certificate in words, a small table, a small picture of the gap

The picture is SVG by matplotlib, where that is installed, in the text's own colour: notebooks may be dark. Without
matplotlib, and for a model that has no history, there is no picture.
"""

import io
import re
from html import escape
from typing import Any

import numpy as np

from .certificate import relative_gap
from .multiclass import split
from .solve import Record

INSIDE = ("model_", "best_estimator_", "estimator_")  # where OrdinalSVC, searches and TunedSVC have their model
LINE = "#3A8FC8"  # stands out from white and from black
INK = "#010203"  # takes the place of the text's colour while matplotlib draws
MOST_LINES = 60
CELL = 'style="text-align: left; padding: 0 1.2em 0 0; border: none; background: none;'


class ProofInNotebook:
    """Adds the proof to scikit-learn's HTML; the plain repr, and that of an unfitted model, stay as they are."""

    def _repr_html_inner(self) -> str:
        return super()._repr_html_inner() + proof_html(self)  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs) -> dict[str, Any]:
        bundle = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:  # scikit-learn's display="text" asks for none
            bundle["text/html"] += proof_html(self)
        return bundle


def solved(model: Any) -> Any:
    """The classifier that has the binary problems, their certificate and their history: the model or one inside."""
    for name in INSIDE:
        if hasattr(model, name):
            return getattr(model, name)
    return model


def histories(model: Any) -> dict[str, list[Record]]:
    """The history of each binary problem of a fitted LinearSVC or SVC, by its name."""
    history = getattr(model, "history_", None) or [[]]
    several = [history] if isinstance(history[0], Record) else history
    if len(several) == 1:
        return {"": several[0]}
    return dict(zip(_names(model), several, strict=True))


def _names(model: Any) -> list[str]:
    """Of the binary problems."""
    return [part.name for part in split(np.arange(len(model.classes_)), model.classes_, model.multi_class)]


def proof_html(model: Any) -> str:
    """The block of a fitted model; "" for one that has no certificate."""
    model = solved(model)
    if not hasattr(model, "certificate_"):
        return ""
    runs = histories(model)
    words = str(model.certificate_).partition(" (primal")[0]
    rows = "".join(
        f'<tr style="background: none;"><td {CELL} opacity: 0.7;">{escape(name)}</td>'
        f'<td {CELL}">{escape(value)}</td></tr>'
        for name, value in _facts(model, runs)
    )
    return (
        '<div class="primalsvm-proof" style="color: inherit; font-size: 90%; margin: 0.6em 0 0 0.2em;">'
        f'<div style="margin-bottom: 0.3em;"><strong>Proven:</strong> {escape(words)}</div>'
        '<div style="display: flex; flex-wrap: wrap; align-items: center; gap: 0.5em;">'
        f'<table style="border: none; margin: 0; color: inherit; font-size: inherit;"><tbody>{rows}</tbody></table>'
        f"{_picture(runs, model.tol)}</div></div>"
    )


def _facts(model: Any, runs: dict[str, list[Record]]) -> list[tuple[str, str]]:
    proof = model.certificate_
    facts = [
        ("primal", f"{proof.primal:.9g}"),
        ("dual", f"{proof.dual:.9g}"),
        ("relative gap", f"{proof.relative_gap:.1e}, asked for {model.tol:g}"),
    ]
    if hasattr(model, "full_certificate_"):
        facts.append(("of the exact SVM", str(model.full_certificate_).partition(" (primal")[0]))
    facts.append(("solver", proof.solver if model.status_ == "converged" else f"{proof.solver}: {model.status_}"))
    seconds = sum(history[-1].seconds for history in runs.values() if history)
    facts += [("steps", str(model.n_iter_)), *([("seconds", f"{seconds:.3g}")] if seconds else [])]
    if proof.parts:
        name, worst = max(zip(_names(model), proof.parts, strict=True), key=lambda pair: pair[1].relative_gap)
        facts.append(("problems", f"{len(proof.parts)}, the worst {name}: {worst.relative_gap:.1e}"))
    return facts


def _picture(runs: dict[str, list[Record]], tol: float) -> str:
    """The relative gap of each binary problem against seconds, as SVG; "" where it cannot be drawn."""
    if not any(record.seconds > 0 for history in runs.values() for record in history):
        return ""
    try:
        from matplotlib import style
        from matplotlib.figure import Figure
    except ImportError:
        return ""
    # not through pyplot, whose figures a notebook shows by itself; and in no style that the user has set
    with style.context(["default", {"svg.fonttype": "none", "svg.hashsalt": "primalsvm", "font.size": 8}]):
        figure = Figure(figsize=(3.4, 1.7), layout="constrained")
        ax = figure.add_subplot()
        last = sorted(runs.values(), key=lambda history: relative_gap(history[-1].primal, history[-1].dual))
        for history in last[-MOST_LINES:]:
            gaps = [relative_gap(record.primal, record.dual) or np.nan for record in history]
            seconds = [record.seconds for record in history]
            ax.plot(seconds, gaps, color=LINE, marker=".", markersize=4, linewidth=1.2)
        ax.set_yscale("log", nonpositive="mask")
        if tol > 0:
            ax.axhline(tol, color=INK, linewidth=0.8, linestyle=":")
        ax.set(xlabel="seconds", ylabel="relative gap")
        ax.locator_params(axis="x", nbins=5)
        ax.minorticks_off()
        ax.patch.set_visible(False)
        ax.spines[["top", "right"]].set_visible(False)
        ax.spines[["left", "bottom"]].set_color(INK)
        ax.tick_params(which="both", colors=INK)
        for label in (ax.xaxis.label, ax.yaxis.label):
            label.set_color(INK)
        drawn = io.StringIO()
        nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
        figure.savefig(drawn, format="svg", transparent=True, metadata=nothing)
    return _inline(drawn.getvalue())


def _inline(svg: str) -> str:
    """An SVG file as an element of a page: no prologue, no names that other pictures have too, the text's colour."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<style.*?</style>", "", svg, flags=re.DOTALL)  # it would be the whole page's
    svg = re.sub(r'<g id="[^"]*"', "<g", svg).replace(INK, "currentColor")
    says = 'role="img" aria-label="relative gap against seconds" style="max-width: 100%; stroke-linejoin: round;"'
    return svg.replace("<svg", f"<svg {says}", 1)
