"""primalsvm evaluate"""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..console import Progress, check_output, one_line_errors, print_report, short_list
from .data import label_texts, make_before, whole_model
from .options import (
    AsJson,
    DataPath,
    Encoding,
    Features,
    Format,
    Jobs,
    Label,
    Labels,
    MinCount,
    Ngrams,
    Standardize,
    Text,
)

if TYPE_CHECKING:
    import numpy as np

    from ..evaluation import Evaluation

MODELS = ("linear", "linear-ovo", "ordinal", "rbf", "sklearn-linear", "sklearn-rbf", "sklearn-sgd")


def evaluate(
    data: DataPath,
    label: Label = None,
    labels: Labels = None,
    file_format: Format = None,
    text: Text = None,
    features: Features = None,
    ngrams: Ngrams = None,
    min_count: MinCount = None,
    encoding: Encoding = None,
    standardize: Standardize = False,
    models: Annotated[str, typer.Option(metavar="NAMES", help="Of " + ", ".join(MODELS) + ".")] = (
        "linear,sklearn-linear"
    ),
    C: Annotated[float, typer.Option("--C", help="Weight of the losses against the norm, in every model.")] = 1.0,
    rounds: Annotated[int, typer.Option(help="How often to split the rows at random.")] = 10,
    test_size: Annotated[float, typer.Option(help="The share of rows, or groups, held out in each round.")] = 0.1,
    groups: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Rows with the same entry here stay together.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a line for each round and model.")] = None,
    jobs: Jobs = 1,
    seed: Annotated[int, typer.Option(help="Seed of the random numbers.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Compare models on rows that they were not trained on.

    Every round splits the rows at random and trains all models on the same part. The class that most rows have is one
    of them: what is no better has learned nothing. Ctrl-C keeps the rounds that are finished.
    """
    with one_line_errors(), Progress() as progress:
        check_output(csv, data)
        names = [name.strip() for name in models.split(",")]
        unknown = [name for name in names if name not in MODELS]
        if unknown:
            raise ValueError(f"models must be some of {', '.join(MODELS)}, separated by commas; got {unknown[0]!r}.")
        progress.say("loading primalsvm")
        from ..evaluation import evaluate as run

        before = make_before(standardize, text, encoding, features=features, ngrams=ngrams, min_count=min_count)
        progress.say(f"reading {data}")
        reading: dict[str, Any] = {"label": label, "labels": labels, "format": file_format}
        if before.words is None:
            X, y, group = _read_rows(data, groups, **reading)
            if before.scaler is not None:
                before.scaler.set_params(with_mean=not hasattr(X, "indptr"))
        else:
            X, y, group = _read_texts(data, groups, text=text, encoding=encoding, **reading)
        # each round learns its own words, or means and deviations, from its training part
        estimators = {name: whole_model(before, _make(name, C, len(y), test_size, jobs, seed)) for name in names}
        progress.say("")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = run(
                estimators,
                X,
                y,
                rounds=rounds,
                test_size=test_size,
                groups=group,
                random_state=seed,
                callback=lambda done, total, name: progress.say_done("fit", done, total),
            )
        if csv is not None:
            result.to_csv(csv)
        progress.stop()
        _report(data, result, y, group, csv, caught, as_json)
    raise typer.Exit(130 if result.interrupted else 0)


def _read_texts(path: Path, groups: str | None, **reading) -> tuple[list[str], np.ndarray, Any]:
    """Texts, labels and groups; those are the labels of another column."""
    from ..readers import DataError
    from ..text import read_texts

    documents = read_texts(path, **reading)
    assert documents.y is not None
    if groups is None:
        return documents.texts, documents.y, None
    try:
        return documents.texts, documents.y, read_texts(path, **(reading | {"label": groups})).y
    except DataError as error:  # it speaks of labels
        said = str(error).replace("label column", "column of groups").replace("--label", "--groups")
        raise ValueError(said) from None


def _read_rows(path: Path, groups: str | None, **reading) -> tuple[Any, np.ndarray, Any]:
    """Numbers, labels and groups, whose column is no feature."""
    from ..readers import read_data

    samples = read_data(path, memory_limit=None, **reading)
    X: Any = samples.X
    y, names = samples.y, samples.feature_names
    assert y is not None
    if groups is None:
        return X, y, None
    if names is None or groups not in names:
        found = "columns without names" if names is None else f"the columns {short_list(list(names))}"
        raise ValueError(f"{path}: expected a column {groups!r} with the groups, found {found}.")
    place = names.index(groups)
    keep = [j for j in range(len(names)) if j != place]
    column = X[:, [place]]
    column = column.toarray() if hasattr(column, "toarray") else column
    return X[:, keep], y, column.ravel()


def _make(name: str, C: float, n: int, test_size: float, jobs: int, seed: int) -> Any:
    """The classifier of a name."""
    if name.startswith("sklearn"):
        if name == "sklearn-sgd":
            from sklearn.linear_model import SGDClassifier

            alpha = 1.0 / (C * max(1.0, n * (1 - test_size)))  # the same problem: 1/2 |w|^2 + C * sum of losses
            return SGDClassifier(alpha=alpha, n_jobs=jobs, random_state=seed)
        from sklearn.svm import SVC, LinearSVC

        return SVC(C=C) if name == "sklearn-rbf" else LinearSVC(C=C, random_state=seed)
    from .. import SVC as OurSVC
    from .. import LinearSVC as OurLinearSVC
    from .. import OrdinalSVC

    if name == "rbf":
        return OurSVC(C=C, n_jobs=jobs, random_state=seed)
    model = OurLinearSVC(C=C, n_jobs=jobs, random_state=seed, multi_class="ovo" if name == "linear-ovo" else "ovr")
    return OrdinalSVC(model) if name == "ordinal" else model


def _report(path: Path, result: Evaluation, y: np.ndarray, group: Any, csv: Path | None, caught, as_json: bool) -> None:
    import numpy as np

    classes, counts = np.unique(y, return_counts=True)
    report: dict[str, Any] = {"data": str(path), "samples": len(y)}
    report["classes"] = dict(zip(label_texts(classes), counts.tolist(), strict=True))
    if group is not None:
        report["groups"] = len(np.unique(group))
    report["rounds"] = result.rounds
    report["csv"] = None if csv is None else str(csv)
    remarks = Counter(" ".join(str(w.message).split()) for w in caught if issubclass(w.category, UserWarning))
    report["warnings"] = [text if n == 1 else f"{n} times: {text}" for text, n in remarks.items()]
    if as_json:
        report["models"] = {
            model: {measure: spread._asdict() for measure, spread in summary.items()}
            for model, summary in result.summary().items()
        }
        report["best"] = result.best()
        report["differences"] = {model: difference._asdict() for model, difference in result.compare().items()}
        report |= {"interrupted": result.interrupted, "table": result.rows}
    else:
        print_table(result)
    print_report(report, as_json)


def print_table(result: Evaluation) -> None:
    """The figures; where the terminal is narrow, deviations stand below the means."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console()
    header, lines = result.table()
    wide = sum(max(map(len, column)) + 2 for column in zip(header, *lines, strict=True)) < console.width - 8
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1) if wide else 0)
    for name in header:
        title = name if wide else "\n".join(name.rsplit(" ", 1))
        table.add_column(title, justify="left" if name == "model" else "right")
    best = result.best()
    for line in lines:
        cells = line if wide else [cell.replace(" ± ", "\n± ") for cell in line]
        table.add_row(*cells, style="bold" if line[0] == best else "")
    console.print(table)
    console.print(result.note(), style="dim", soft_wrap=True)
