"""The demo: our LinearSVC and scikit-learn's on the same problems, each with its certificate, and pictures of it all.

The data are real and come with scikit-learn. Every number printed is measured in the run.
"""

import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC as SklearnLinearSVC

from .certificate import Certificate
from .claims import certify
from .display import BoundaryDisplay, ConvergenceDisplay, MarginDisplay, TrainingDisplay
from .linear_svc import LinearSVC

MANY = 100_000  # iterations: a hundred times scikit-learn's default
SOLVERS = ("subgradient", "pegasos", "projected_gradient", "dual_coordinate_ascent", "newton")


EXPLANATION = """\
sec: seconds of fit alone; primalsvm's proves its bound in that time.
dual: no model has an objective below it. gap: (primal - dual) / primal.
above optimum: by how much of it, at least and at most; proven for both.
+ b: scikit-learn's penalised intercept; elsewhere there is none, so that
both solve the same problem.
error: on the 30 % of the rows held out. How well a problem is solved is one
thing, how good a problem it is another.
"""


class Split(NamedTuple):
    """Training and test data."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


class Row(NamedTuple):
    """One trained model in the table."""

    model: str
    seconds: float
    certificate: Certificate
    test_error: float
    note: str


def run(output: Path) -> None:
    """Print the comparison and write the pictures into the folder `output`, which is made if need be."""
    output = Path(output)
    output.mkdir(parents=True, exist_ok=True)
    raw, digits = split(load_breast_cancer()), standardize(split(load_digits()))
    cancer = standardize(raw)
    print(f"Breast cancer: {cancer.X.shape[0]} training rows, {cancer.X.shape[1]} features, standardised or raw")
    print_table(compare(cancer, raw))
    print(f"Handwritten digits: {digits.X.shape[0]} training rows, ten classes, each against the rest")
    print_table([("squared hinge, C=0.1 + b", both(digits, "squared_hinge", 0.1, "penalized"))])
    print(EXPLANATION)
    try:
        draw(output, cancer, digits)
    except ImportError as error:
        print(f"no pictures: {error}")


def split(data) -> Split:
    """A fixed 70/30 split, with class names as labels."""
    names = data.target_names[data.target]
    X, X_test, y, y_test = train_test_split(data.data, names, test_size=0.3, random_state=0, stratify=names)
    return Split(X, y, X_test, y_test)


def standardize(data: Split) -> Split:
    """Every feature with mean 0 and variance 1 on the training data."""
    scaler = StandardScaler().fit(data.X)
    return data._replace(X=scaler.transform(data.X), X_test=scaler.transform(data.X_test))


# --- the table --------------------------------------------------------------------------------------------------------


def compare(data: Split, raw: Split) -> Iterator[tuple[str, Iterator[Row]]]:
    """Problems from easy to hard, and who solved them how well."""
    for loss, words in (("hinge", "hinge"), ("squared_hinge", "squared hinge")):
        yield f"{words}, C=1", both(data, loss, 1.0, False)
        yield f"{words}, C=1 + b", both(data, loss, 1.0, "penalized")
    yield "hinge, C=100", both(data, "hinge", 100.0, False, longer=True)
    yield "squared hinge, C=100, raw", both(raw, "squared_hinge", 100.0, False, longer=True)


def both(data: Split, loss: str, C: float, intercept: bool | str, *, longer: bool = False) -> Iterator[Row]:
    """Ours and scikit-learn's as they come and, for a `longer` comparison, scikit-learn's with many iterations."""
    yield train("primalsvm", LinearSVC(loss, C=C, fit_intercept=intercept), data)
    theirs = {"loss": loss, "C": C, "fit_intercept": bool(intercept), "random_state": 0}
    yield train("scikit-learn", SklearnLinearSVC(**theirs), data)
    if longer:
        yield train(f"  max_iter={MANY}", SklearnLinearSVC(max_iter=MANY, **theirs), data)


def train(name: str, model: Any, data: Split) -> Row:
    """Fit, and have the judge say how far from the optimum the model is."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        begin = time.perf_counter()
        model.fit(data.X, data.y)
        seconds = time.perf_counter() - begin
    notes = [str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)]
    proof = model.certificate_ if isinstance(model, LinearSVC) else certify(model, data.X, data.y)
    return Row(name, seconds, proof, 1.0 - model.score(data.X_test, data.y_test), notes[0] if notes else "")


HEADER = ("", "sec", "primal", "dual", "gap", "above optimum", "error")


def cells(row: Row, notes: list[str]) -> tuple[str, ...]:
    """A row as text; its note, if it is new, goes to the end of `notes`, and its number behind the name."""
    mark = ""
    if row.note:
        if row.note not in notes:
            notes.append(row.note)
        mark = f" [{notes.index(row.note) + 1}]"
    proof = row.certificate
    numbers = (f"{row.seconds:.3f}", f"{proof.primal:.6g}", f"{proof.dual:.6g}", f"{proof.relative_gap:.1e}")
    return (f"  {row.model}{mark}", *numbers, above(proof), f"{row.test_error:.1%}")


def above(proof: Certificate) -> str:
    """How far above the optimum: 'at most' where it may be the optimum, else from at least to at most."""
    least, most = (f"{share:.1e}" if share < 1e-3 else f"{share:.1%}" for share in proof.excess)
    if proof.excess[0] < 1e-9:
        return f"at most {most}"
    return most if least == most else f"{least} to {most}"


def print_table(sections: Iterable[tuple[str, Iterable[Row]]]) -> None:
    """Print (title, rows) after (title, rows), in colours where rich is installed, and then the models' warnings."""
    notes: list[str] = []
    lines: list[tuple[str, ...]] = [HEADER]
    for title, rows in sections:
        lines += [(title, *[""] * (len(HEADER) - 1)), *(cells(row, notes) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        for name, *numbers in lines:
            print(name.ljust(widths[0]), *(text.rjust(width) for text, width in zip(numbers, widths[1:], strict=True)))
    else:
        table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
        for name, width in zip(HEADER, widths, strict=True):
            table.add_column(name, justify="right" if name else "left", min_width=width, no_wrap=True)
        for line in lines[1:]:
            table.add_row(*map(Text, line), style="" if line[1] else "bold")
        console = Console(highlight=False)
        console.width = max(console.width, sum(widths) + len(widths))  # rather wrapped by the terminal than cut
        console.print(table)
    print("".join(f"[{number}] warned: {note}\n" for number, note in enumerate(notes, 1)))


# --- the pictures -----------------------------------------------------------------------------------------------------


def draw(output: Path, cancer: Split, digits: Split) -> None:
    """Write the pictures, and say where."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the slower solvers do not arrive, which is to be seen
        for name, display in displays(cancer, digits):
            from matplotlib.pyplot import close  # a display has been drawn, or has said that matplotlib is missing

            path = output / f"{name}.png"
            display.figure_.savefig(path, dpi=150)
            close(display.figure_)
            print(f"wrote {path}")


def displays(cancer: Split, digits: Split) -> Iterator[tuple[str, Any]]:
    """The pictures by name."""
    runs = {solver: LinearSVC("hinge", fit_intercept=False, solver=solver).fit(*cancer[:2]) for solver in SOLVERS}
    best = runs["newton"]
    yield "convergence", ConvergenceDisplay.from_estimator(runs["dual_coordinate_ascent"], x="passes")
    histories = {name.replace("_", " "): model.history_ for name, model in runs.items()}
    yield "solvers", ConvergenceDisplay.from_histories(histories, x="passes", tol=best.tol)
    yield "margins", MarginDisplay.from_estimator(best, *cancer[:2])
    ten = LinearSVC(C=0.1, fit_intercept="penalized").fit(*digits[:2])
    yield "margins_digits", MarginDisplay.from_estimator(ten, *digits[:2])

    iris, wine = load_iris(as_frame=True), load_wine(as_frame=True)
    X, y = iris.data[["petal length (cm)", "petal width (cm)"]], iris.target_names[iris.target]
    yield "regions", BoundaryDisplay.from_estimator(LinearSVC(C=10.0).fit(X, y), X, y)
    rows = y != "setosa"
    model = LinearSVC("hinge", C=10.0).fit(X[rows], y[rows])
    yield "boundary", BoundaryDisplay.from_estimator(model, X[rows], y[rows])

    rows = wine.target != 0
    X, y = wine.data.loc[rows, ["color_intensity", "flavanoids"]], wine.target_names[wine.target[rows]]
    X = (X - X.mean()) / X.std()
    yield "training", TrainingDisplay.from_estimator(LinearSVC("hinge", solver="subgradient"), X, y)
