"""What the experiments of seed 001 share: bags of words, its algorithms by our solvers, and rounds of both protocols.

Two classes are "above 2, or not"; five are the labels 0 to 4, by adjacent pairs and the table of their signs.
"""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..evaluation import MAJORITY, evaluate
from ..linear_svc import LinearSVC
from ..ordinal_svc import OrdinalSVC
from ..svc import SVC
from ..text import bag_of_words
from .data import Phrases
from .lab import Lab, Plot, Table

PROTOCOLS = {"random": "random 90/10", "sentence": "by sentence"}
GRADIENT, PEGASOS, NEWTON, RBF = "gradient descent", "Pegasos", "Newton, linear", "Newton, rbf"


class Row(NamedTuple):
    """A model in one table: means over the rounds."""

    protocol: str
    features: str
    classes: int
    model: str
    accuracy: float  # %
    deviation: float
    seconds: float  # of a fit
    gap: float  # the largest relative one that is proven


def labels(phrases: Phrases, classes: int) -> np.ndarray:
    return phrases.labels if classes == 5 else (phrases.labels > 2).astype(int)


def first(phrases: Phrases, n: int) -> Phrases:
    return Phrases(phrases.texts[:n], phrases.labels[:n], phrases.sentences[:n])


def words(phrases: Phrases, features: str) -> sp.csr_matrix:
    """The vocabulary is that of all phrases: it looks at no label, and a word never trained on has no weight."""
    return bag_of_words(features).fit_transform(phrases.texts)


def majority(phrases: Phrases, classes: int) -> float:
    """The share of the most frequent class, in %."""
    y = labels(phrases, classes)
    return 100 * float(np.max(np.bincount(y))) / len(y)


def algorithms(lab: Lab, classes: int, kernels: bool) -> dict[str, Any]:
    jobs = lab.threads
    models: dict[str, Any] = {
        GRADIENT: LinearSVC(C=0.1, solver="gradient_descent", max_iter=100, n_jobs=jobs),
        PEGASOS: LinearSVC("hinge", C=0.3, solver="pegasos", max_iter=10, n_jobs=jobs),
        NEWTON: LinearSVC(C=0.1, solver="newton", n_jobs=jobs),
    }
    if kernels:
        models[RBF] = SVC("rbf", loss="squared_hinge", solver="newton", n_jobs=jobs)
    return models if classes == 2 else {name: OrdinalSVC(m, strategy="adjacent") for name, m in models.items()}


def tables_of(lab: Lab, phrases: Phrases, kernels: bool, rounds: int) -> list[Row]:
    """All algorithms with two and five classes, on both features by random rounds, on binary ones by sentence too."""
    rows: list[Row] = []
    ways = [("random", "binary"), ("random", "count"), ("sentence", "binary")]
    cells = [(protocol, features, classes) for protocol, features in ways for classes in (2, 5)]
    matrices = {features: words(phrases, features) for features in ("binary", "count")}
    for number, (protocol, features, classes) in enumerate(cells):
        models = algorithms(lab, classes, kernels)

        def progress(done: int, of: int, name: str, number: int = number) -> None:
            lab.tell(f"{name}, table {number + 1} of {len(cells)}", (number + done / of) / len(cells))

        groups = phrases.sentences if protocol == "sentence" else None
        rows += judge(
            models, matrices[features], labels(phrases, classes), groups, rounds, progress, protocol, features
        )
    return rows


def judge(
    models: dict[str, Any], X: Any, y: np.ndarray, groups, rounds: int, progress: Callable, protocol: str, features: str
) -> list[Row]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what did not converge shows its gap; a rare class may be missing in a round
        found = evaluate(models, X, y, rounds=rounds, groups=groups, callback=progress)
    rows, classes = [], 5 if y.max() > 1 else 2
    for model, summary in found.summary().items():
        gap = float(np.max(found.values(model, "relative_gap")))
        accuracy = summary["accuracy"]
        mean, deviation = 100 * accuracy.mean, 100 * accuracy.deviation
        rows.append(Row(protocol, features, classes, model, mean, deviation, summary["fit_seconds"].mean, gap))
    return rows


def pick(rows: list[Row], **wanted: Any) -> list[Row]:
    return [row for row in rows if all(getattr(row, name) == value for name, value in wanted.items())]


def as_tables(title: str, rows: list[Row], paper: dict[tuple[str, int, str], tuple[float, int]]) -> list[Table]:
    """A table for each protocol, the paper's figures beside ours."""
    header = ["algorithm", "classes", "features", "paper, %", "paper, s", "accuracy, %", "fit, s", "worst proven gap"]
    tables = []
    for protocol, name in PROTOCOLS.items():
        lines = []
        for row in pick(rows, protocol=protocol):
            said = paper.get((row.model, row.classes, row.features))
            theirs = [f"{100 * said[0]:.2f}", str(said[1])] if said else ["", ""]
            ours = f"{row.accuracy:.2f}" + ("" if np.isnan(row.deviation) else f" ± {row.deviation:.2f}")
            gap = "" if row.model == MAJORITY else f"{row.gap:.0e}"
            lines.append([row.model, str(row.classes), row.features, *theirs, ours, f"{row.seconds:.2f}", gap])
        tables.append(Table(f"{title}, split: {name}", header, lines))
    return tables


def pictures(rows: list[Row]) -> list[Plot]:
    """For each number of classes: a point for each model, by each protocol and with each kind of features."""
    plots = []
    for classes in (2, 5):
        curves = {}
        for model in dict.fromkeys(row.model for row in rows):
            found = pick(rows, model=model, classes=classes)
            curves[model] = (np.array([row.seconds for row in found]), np.array([row.accuracy for row in found]))
        title = f"{classes} classes, all splits and features"
        plots.append(Plot(title, "seconds of a fit", "accuracy, %", curves, log_x=True, marks=True))
    return plots
