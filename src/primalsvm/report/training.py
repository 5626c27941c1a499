"""The report of a fitted model: what it was trained on, what is proven, how it came about, and how well it predicts.

    training_report(model, X, y, "report.html", test=(X_test, y_test))
    tuning_report(search, X, y, "report.html")

`model` is a LinearSVC, SVC or OrdinalSVC, as it was fitted or as it was loaded, or a search or a Pipeline that ends in
one; then X is what the Pipeline takes.
"""

from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..certificate import Certificate
from ..chunks import Chunks
from ..experiments.lab import Table
from ..losses import make_loss
from .convergence import write_convergence
from .environment import environment
from .margins import dual_points, write_margins, write_support
from .page import Page
from .predictions import write_features, write_predictions
from .search import standard_errors, write_search
from .story import About, Story, listen

LINES = 300  # of the table of binary problems
WORDS = {"ovr": "one class against the rest", "ovo": "one class against one", True: "free", False: "none"}


def training_report(model, X, y, path, *, test=None, names=None, about: About | None = None) -> Path:
    """Write the report of a fitted model.

    Parameters
    ----------
    model : LinearSVC, SVC, OrdinalSVC, or a search or Pipeline that ends in one
    X, y : what it was trained on; y may be None for Chunks with labels
    path : where to write
    test : (X, y), default=None
        Other rows, for the figures of its predictions; without them these are of the training rows, and say so.
    names : sequence of str, default=None
        Of the features, where the model does not have them.
    about : About, default=None
        Names of the data, the command, and what else is not in the model.

    Returns
    -------
    Path
    """
    story = listen(model, X, y, test, names, about or About())
    page = Page(_title(story), _subtitle(story))
    page.section("In short")
    _write_in_short(page, story)
    return _write_rest(page, story).write(path)


def tuning_report(search, X, y, path, *, test=None, names=None, about: About | None = None) -> Path:
    """Write the report of a fitted LinearSVCCV or SVCCV: the grid, the choice, and the model that was chosen.

    The parameters are those of `training_report`.
    """
    story = listen(search, X, y, test, names, about or About())
    if hasattr(search, "steps"):
        search = search[-1]
    page = Page(_title(story), f"{type(search).__name__}: a search, and the model that it chose")
    page.section("In short")
    score, error = search.best_score_, standard_errors(search)[search.best_index_]
    chosen = " and ".join(f"{name} = {value:.4g}" for name, value in search.best_params_.items())
    page.text(f"{chosen}: {score:.2%} ± {error:.2%} right of the rows held out.", "claim")
    _write_in_short(page, story)
    write_search(page, search)
    return _write_rest(page, story).write(path)


# --- sections ---------------------------------------------------------------------------------------------------------


def _title(story: Story) -> str:
    return Path(story.about.data).name or "A trained model"


def _subtitle(story: Story) -> str:
    kernel = getattr(story.inner, "kernel_", None)
    said = [type(story.model).__name__, *([] if kernel is None else [f"{kernel.name} kernel"])]
    return ", ".join([*said, _loss(story), f"C = {story.inner.C:g}"])


def _loss(story: Story) -> str:
    return make_loss(story.inner.loss).name.replace("_", " ")


def _write_in_short(page: Page, story: Story) -> None:
    page.text(_claim(story.model.certificate_), "claim")
    for remark in story.about.warnings:
        page.text(remark, "warning")
    facts: dict[str, Any] = {}
    for rows in filter(None, (story.test, story.training)):
        wrong = float(np.mean(rows.found != rows.labels))
        facts[f"{rows.name} error"] = f"{wrong:.2%} of {len(rows.labels):,}"
    facts["relative gap"] = f"{story.model.certificate_.relative_gap:.2e}"
    facts["seconds"] = None if story.about.seconds is None else f"{story.about.seconds:.3g}"
    page.facts(facts)


def _claim(proof: Certificate) -> str:
    above = str(proof).split(" (")[0]
    if above.startswith("no useful"):
        return "No useful bound is proven on how far above the optimum the model is."
    return f"Proven: the model's objective is {above}."


def _write_rest(page: Page, story: Story) -> Page:
    """All sections after the first."""
    for write in (
        _write_trained,
        _write_certificate,
        write_convergence,
        write_margins,
        write_support,
        write_predictions,
        write_features,
    ):
        write(page, story)
    page.section("Environment").facts(environment() | {"threads": _threads(story.inner.n_jobs)})
    page.section("Run it again")
    plain = copy(story.model)
    if hasattr(plain, "callback"):
        plain.callback = None
    return page.code(story.about.command or f"{plain!r}.fit(X, y)")


def _threads(jobs: int | None) -> str:
    return {None: "1", -1: "all cores"}.get(jobs, str(jobs))


def _write_trained(page: Page, story: Story) -> None:
    inner, X = story.inner, story.X
    page.section("What was trained on what")
    entries = "in pieces, from disk" if isinstance(X, Chunks) else "dense"
    if sp.issparse(X):
        entries = f"sparse, {X.nnz:,} entries ({X.nnz / max(1, X.shape[0] * X.shape[1]):.2%})"
    kernel = getattr(inner, "kernel_", None)
    said = None if kernel is None else f"{kernel.name}, gamma {kernel.gamma:.6g}"
    if kernel is not None and kernel.name == "poly":
        said = f"{said}, degree {kernel.degree}, coef0 {kernel.coef0:g}"
    several = len(story.classes) > 2
    page.facts(
        {
            "data": story.about.data or None,
            "test data": story.about.test or None,
            "rows": X.shape[0],
            "words" if story.about.words else "features": X.shape[1],
            "storage": f"{entries}; {getattr(X, 'dtype', 'float64')}",
            "scaling": story.about.scaling,
            "model": type(story.model).__name__,
            "kernel": said or "linear",
            "loss": _loss(story),
            "C": f"{inner.C:g}",
            "intercept": WORDS.get(inner.fit_intercept, inner.fit_intercept),
            "class weights": None if inner.class_weight is None else str(inner.class_weight),
            "several classes": WORDS.get(inner.multi_class, f"in order, {inner.multi_class}") if several else None,
            "approximation": getattr(inner, "approximation", None),
            "probabilities": inner.probability,
            "solver": story.why,
            "steps": int(story.model.n_iter_),
            "ended": story.model.status_,
        }
    )
    _write_classes(page, story)


def _write_classes(page: Page, story: Story) -> None:
    sets = [rows for rows in (story.training, story.test) if rows is not None]
    counts = [np.bincount(rows.labels[rows.labels >= 0], minlength=len(story.classes)) for rows in sets]
    header = ["class", *(f"{rows.name} rows" for rows in sets), "share of training"]
    lines = [
        [name, *(f"{count[k]:,}" for count in counts), f"{counts[0][k] / len(story.training.labels):.1%}"]
        for k, name in enumerate(story.classes)
    ]
    page.table(Table("Classes", header, lines))


def _write_certificate(page: Page, story: Story) -> None:
    proof = story.model.certificate_
    page.section(
        "The certificate",
        "No model of this problem, however it is found, has an objective below the lower bound; this one has at most "
        "the upper bound. Both are computed in float64 by a judge that does not trust the solver, and "
        "include what rounding can have done.",
    )
    tol = story.inner.tol
    met = "reached" if proof.relative_gap <= tol else "not reached"
    page.facts(
        {
            "upper bound (primal)": f"{proof.primal:.9g}",
            "lower bound (dual)": f"{proof.dual:.9g}",
            "gap": f"{proof.gap:.3g}",
            "relative gap": f"{proof.relative_gap:.3g}",
            "tolerance": f"{tol:g}, {met}" if not proof.parts else f"{tol:g} for each problem",
            "allowance for rounding": f"{proof.rounding:.2g}",
        }
    )
    if getattr(story.inner, "approximation", None) is not None:
        full = getattr(story.inner, "full_certificate_", None)
        exact = "; `certify` compares with the exact SVM." if full is None else f". Of the exact SVM: {full}."
        page.text(f"The optimum is that over the {len(story.inner.support_)} functions of the basis{exact}")
    if proof.parts:
        support = np.diff(dual_points(story.inner, story.X.shape[0]).indptr)
        lines = [
            [part.name, f"{len(part.y):,}", f"{k:,}", f"{one.primal:.7g}", f"{one.dual:.7g}", f"{one.relative_gap:.2e}"]
            for part, one, k in zip(story.parts, proof.parts, support, strict=True)
        ]
        header = ["binary problem", "rows", "support vectors", "upper bound", "lower bound", "relative gap"]
        title = "The proof of each binary problem"
        if len(lines) > LINES:
            worst = np.argsort([-one.relative_gap for one in proof.parts], kind="stable")[:LINES]
            title = f"Proofs of the {LINES} binary problems with the largest gaps, of {len(lines):,}"
            lines = [lines[k] for k in worst]
        page.table(Table(title, header, lines))
