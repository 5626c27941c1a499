"""Where the rows lie: their margins, and which of them hold the model in its place."""

import numpy as np
import scipy.sparse as sp
from sklearn.utils.class_weight import compute_class_weight

from ..experiments.lab import Table
from ..losses import make_loss
from .charts import MOST, View
from .page import Page
from .story import Rows, Story

CURVES = 4  # that are shown at first, where there are more: histograms cover each other
BINS = 60
AT_BOUND = 1 - 1e-6  # of the bound: an alpha there differs from it by rounding


def write_margins(page: Page, story: Story) -> None:
    free = make_loss(story.inner.loss).kinks[-1][0]  # from here on the loss is 0: 1, for Huber's 1 + h
    page.section(
        "Margins",
        f"The margin y f(x) of a row is how far it is on the right side: below 0 it is wrong, below {free:g} it costs.",
    )
    groups = {rows.name: _groups(story, rows) for rows in (story.training, story.test) if rows is not None}
    # those with most errors first: where there are many these are shown
    wrong = {name: -float(np.mean(margins < 0)) for name, margins in groups["training"].items() if len(margins)}
    first = sorted(wrong, key=lambda name: wrong[name])[:MOST] if len(wrong) > CURVES else list(wrong)
    views, shares = [], []
    for name, group in groups.items():
        together = np.concatenate(list(group.values()))
        if len(together):
            views.append(_histogram(f"{name} rows", {part: group[part] for part in first}, free))
            shares.append(f"{name}: {_shares(together, free)}")
    several = "" if len(story.classes) == 2 else " In each binary problem, of its own rows."
    if len(wrong) > CURVES:
        several += f" The {CURVES} problems with most errors in training are shown; the buttons show others."
    page.chart("Distribution of the margins", views, f"{'; '.join(shares)}.{several}")


def _shares(margins: np.ndarray, free: float) -> str:
    return f"{np.mean(margins < 0):.1%} below 0, {np.mean(margins < free):.1%} below {free:g}"


def _groups(story: Story, rows: Rows) -> dict[str, np.ndarray]:
    """Margins of each class where there are two, otherwise of each binary problem."""
    known = rows.labels >= 0
    labels, scores = rows.labels[known], rows.scores[known]
    if len(story.classes) == 2:
        margins = np.where(labels == 1, 1.0, -1.0) * scores[:, 0]
        return {name: margins[labels == k] for k, name in enumerate(story.classes)}
    parts = story.parts_of(labels)
    if len(parts) < scores.shape[1]:  # all boundaries in one problem
        return {parts[0].name: parts[0].y * scores.T.ravel()}
    return {part.name: part.y * part.take(scores[:, k]) for k, part in enumerate(parts)}


def _histogram(label: str, groups: dict[str, np.ndarray], free: float) -> View:
    together = np.concatenate(list(groups.values()))
    low, high = np.quantile(together, [0.001, 0.999])
    low, high = min(low, -0.5), max(high, free + 0.5)
    width = (high - low) / BINS
    width = np.ceil(width) if width > 1 else 1 / np.floor(1 / width)  # a bin begins at 0 and, mostly, at 1
    edges = width * np.arange(np.floor(low / width), np.ceil(high / width) + 1)
    view = View(label, {"title": "margin y f(x)"}, {"title": "share of its rows, in %"})
    middles = (edges[:-1] + edges[1:]) / 2
    for k, (name, margins) in enumerate(groups.items()):
        share = 100 * np.histogram(margins, edges)[0] / max(1, len(margins))
        view.draw(view.key(name, k, off=k >= CURVES), middles, share, kind="steps", fill=len(groups) <= 3)
    view.rules = [
        {"axis": "x", "at": 0, "text": "wrong", "side": "right"},
        {"axis": "x", "at": free, "text": "costs nothing", "side": "left"},
    ]
    shares = [f"{name}: {_shares(margins, free)}" for name, margins in groups.items() if len(margins)]
    view.summary = "; ".join(shares[:12]) + "."
    return view


def write_support(page: Page, story: Story) -> None:
    """Of the dual point that proves the bound: rows that have an alpha, and those whose alpha can grow no more."""
    inner, n = story.inner, story.X.shape[0]
    approximate = getattr(inner, "approximation", None) is not None
    alphas = dual_points(inner, n)
    loss = make_loss(inner.loss)
    shared = len(story.parts) < inner.intercept_.size  # alphas of several boundaries are summed up
    has = np.bincount(alphas.indices, minlength=n) > 0
    page.section("Support vectors")
    words = f"{np.count_nonzero(has):,} of {n:,} rows hold the model in its place: they have a dual variable above 0."
    if approximate:
        words += f" The model itself is a sum over a basis of {len(inner.support_):,} rows."
    header = ["class", "rows", "support vectors", "share"]
    bounded = None
    if np.isinf(loss.bound):
        words += f" The {loss.name.replace('_', ' ')} loss has no bound on them: a row may pull as hard as it takes."
    elif not shared:
        bounded = _at_bound(story, alphas, loss.bound)
        words += (
            f" {np.count_nonzero(bounded):,} of them are at the bound C in some problem: inside the margin or wrong."
        )
        header.append("at the bound")
    page.text(words)
    lines = []
    for k, name in enumerate(story.classes):
        mine = story.training.labels == k
        count, support = int(mine.sum()), int((has & mine).sum())
        line = [name, f"{count:,}", f"{support:,}", f"{support / max(1, count):.1%}"]
        lines.append(line if bounded is None else [*line, f"{np.count_nonzero(bounded & mine):,}"])
    page.table(Table("Support vectors of each class", header, lines))


def dual_points(inner, n: int) -> sp.csr_array:
    """(parts, n) the dual point that proves the bounds."""
    if hasattr(inner, "alpha_"):
        return sp.csr_array(inner.alpha_)
    places = inner.support_
    full = sp.csr_array(np.abs(inner.dual_coef_))
    return sp.csr_array((full.data, places[full.indices], full.indptr), shape=(full.shape[0], n))


def _at_bound(story: Story, alphas: sp.csr_array, bound: float) -> np.ndarray:
    """Rows with an alpha at u c_i in some problem."""
    inner, labels = story.inner, story.training.labels
    weight = story.about.sample_weight
    factors = np.ones(len(story.classes))
    if inner.class_weight is not None:
        y = story.model.classes_[labels]
        factors = compute_class_weight(inner.class_weight, classes=story.model.classes_, y=y, sample_weight=weight)
    upper = bound * inner.C_fit_ * factors[labels] * (1.0 if weight is None else np.asarray(weight, dtype=float))
    full = alphas.data >= AT_BOUND * upper[alphas.indices]
    return np.bincount(alphas.indices[full], minlength=len(labels)) > 0
