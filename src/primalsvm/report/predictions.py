"""What the model says of rows, how often it is right, and which features weigh most."""

import numpy as np

from ..experiments.lab import Table
from ..explain import label_text
from .charts import bars, heat
from .page import Page
from .story import Story

MATRIX = 20  # classes up to which the confusion matrix is a table
SHADES = 150  # classes up to which it is shades


def write_predictions(page: Page, story: Story) -> None:
    rows = story.test or story.training
    page.section("Predictions")
    if story.test is None:
        page.text(
            "There were no test rows with labels. These figures are of the training rows, which flatter the model.",
            "warning",
        )
    else:
        page.text(f"Of the {len(rows.labels):,} test rows, which the training has not seen.")
    n, k = len(rows.labels), len(story.classes)
    counts = np.zeros((k, k), dtype=int)
    known = rows.labels >= 0
    np.add.at(counts, (rows.labels[known], rows.found[known]), 1)
    if not known.all():
        page.text(
            f"{n - np.count_nonzero(known):,} rows have labels that the model does not know ({rows.other[:200]}). They "
            "count as errors, and are in none of the tables.",
            "warning",
        )
    lines, f1 = _figures(story.classes, counts)
    wrong = float(np.mean(rows.labels != rows.found))
    chance = float(np.sqrt(wrong * (1 - wrong) / n))
    page.facts(
        {
            "right": f"{1 - wrong:.2%}",
            "error": f"{wrong:.2%} ± {chance:.2%}",
            "rows": n,
            "wrong rows": round(wrong * n),
            "macro-F1": f"{f1:.4f}",
        }
    )
    if k <= MATRIX:
        page.matrix("Confusion matrix", story.classes, counts)
    else:
        _confusions(page, story.classes, counts)
    page.table(Table("Each class", ["class", "rows", "predicted", "precision", "recall", "F1"], lines))


def _figures(classes: list[str], counts: np.ndarray) -> tuple[list[list[str]], float]:
    """Lines of precision, recall and F1, and the mean of F1 over the classes that there are."""
    lines, f1s = [], []
    for k, name in enumerate(classes):
        right, true, said = int(counts[k, k]), int(counts[k].sum()), int(counts[:, k].sum())
        f1 = 2 * right / max(1, true + said)
        if true + said:
            f1s.append(f1)
        shares = [f"{right / said:.1%}" if said else "-", f"{right / true:.1%}" if true else "-", f"{f1:.4f}"]
        lines.append([name, f"{true:,}", f"{said:,}", *shares])
    return lines, float(np.mean(f1s)) if f1s else 0.0


def _confusions(page: Page, classes: list[str], counts: np.ndarray) -> None:
    """Many classes: shades to hover, and the most frequent mistakes as a table."""
    if len(classes) <= SHADES:
        page.chart("Confusion matrix", [heat("rows", classes, counts)], "Shades are roots of the shares of each class.")
    wrong = counts - np.diag(np.diag(counts))
    order = [(i, j) for i, j in zip(*np.unravel_index(np.argsort(-wrong, axis=None)[:15], counts.shape), strict=True)]
    lines = [
        [f"{classes[i]} taken for {classes[j]}", f"{counts[i, j]:,}", f"{counts[i, j] / max(1, counts[i].sum()):.1%}"]
        for i, j in order
        if wrong[i, j]
    ]
    page.table(Table("The most frequent mistakes", ["mistake", "rows", "share of the class"], lines))


def write_features(page: Page, story: Story) -> None:
    if not story.weights:
        return
    views = []
    for label, found in story.weights.items():
        both = [*found.for_, *reversed(found.against)]
        name = label_text(label) if found.opposite is None else f"{label_text(label)} or {label_text(found.opposite)}"
        title = "weight: left against, right for it"
        if found.opposite is not None:
            title = f"weight: left for {label_text(found.opposite)}, right for {label_text(label)}"
        views.append(bars(name, [name for name, _ in both], [weight for _, weight in both], title))
    kind = "words" if story.about.words else "features"
    scale = "compare them where features have the same scale"
    text = "What words speak for." if story.about.words else f"A weight counts for one unit of its feature: {scale}."
    page.section(f"Heaviest {kind}", text)
    page.chart(f"The {kind} that speak most for and against", views)
