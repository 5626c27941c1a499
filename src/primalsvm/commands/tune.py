"""primalsvm tune"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..console import Progress, check_output, one_line_errors, print_report
from .data import (
    class_counts,
    data_facts,
    error_rate,
    fit,
    kernel_facts,
    make_before,
    memory_bytes,
    proof_facts,
    read_both,
    uneven,
    whole_model,
)
from .options import (
    FIT_INTERCEPT,
    AsJson,
    ClassWeight,
    DataPath,
    Encoding,
    Features,
    Format,
    Intercept,
    Jobs,
    Kernel,
    Label,
    Labels,
    Loss,
    MinCount,
    MultiClass,
    Ngrams,
    Probability,
    Quiet,
    Report,
    Seed,
    Standardize,
    TestLabels,
    Text,
)
from .report import check_report, write_report

if TYPE_CHECKING:
    from ..cross_validation import _Search


def tune(
    context: typer.Context,
    data: DataPath,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="MODEL", help="Save the best model here.")
    ] = None,
    picture: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the scores: .png, .svg or .pdf.")] = None,
    test: Annotated[Path | None, typer.Option(metavar="DATA", help="Count its errors on this data too.")] = None,
    label: Label = None,
    labels: Labels = None,
    test_labels: TestLabels = None,
    file_format: Format = None,
    text: Text = None,
    features: Features = None,
    ngrams: Ngrams = None,
    min_count: MinCount = None,
    encoding: Encoding = None,
    standardize: Standardize = False,
    kernel: Kernel = "linear",
    Cs: Annotated[str, typer.Option("--C", help="How many values of C, or the values: 0.1,1,10.")] = "10",
    gammas: Annotated[
        str | None, typer.Option("--gamma", help="The same for the kernel's gamma; 5 by default.")
    ] = None,
    folds: Annotated[str, typer.Option(help="Parts of the data, each held out once; or loo.")] = "5",
    simplest: Annotated[
        bool, typer.Option("--one-standard-error", help="Take the least C that is as good but for chance.")
    ] = False,
    loss: Loss = None,
    tol: Annotated[float, typer.Option(help="Relative duality gap to reach, in every fit.")] = 1e-3,
    intercept: Intercept = "free",
    multi_class: MultiClass = None,
    class_weight: ClassWeight = None,
    probability: Probability = None,
    memory_limit: Annotated[str | None, typer.Option(metavar="SIZE", help="Of kernel matrices, as 500M or 2G.")] = None,
    jobs: Jobs = -1,
    seed: Seed = None,
    report: Report = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Choose C, and a kernel's gamma, by cross-validation, and train with them.

    Every fit on the way is proven to its tolerance. Ctrl-C takes the best of what was tried so far.
    """
    with one_line_errors(), Progress(quiet) as progress:
        check_output(output, data, test)
        check_output(picture, data, test)
        check_report(report, data, test, output, picture)
        progress.say("loading primalsvm")
        from ..persistence import save

        before = make_before(standardize, text, encoding, features=features, ngrams=ngrams, min_count=min_count)
        options: dict[str, Any] = {"loss": loss, "multi_class": multi_class, "gammas": gammas}
        options["memory_limit"] = memory_bytes(memory_limit) if memory_limit else None
        search = make_search(
            kernel,
            Cs,
            folds,
            **options,
            choice="one_standard_error" if simplest else "best",
            tol=tol,
            fit_intercept=FIT_INTERCEPT[intercept],
            class_weight=class_weight,
            probability=probability,
            n_jobs=jobs,
            random_state=seed,
            callback=lambda done, total: progress.say_done("fit", done, total),
        )
        progress.say(f"reading {data}")
        reading: dict[str, Any] = {"label": label, "format": file_format}
        reading |= {"memory_limit": None} if before.words is None else {"text": text, "encoding": encoding}
        # the words, how rare they are for tfidf, and means and deviations are those of all folds: none looks at a label
        training, testing = read_both(data, test, before, kernel != "linear", labels, test_labels, **reading)
        progress.say("tuning")
        seconds, remarks = fit(search, training)
        remarks += uneven(training, before) + at_the_edge(search)
        model = search.best_estimator_
        if training.feature_names:
            model.feature_names_in_ = search.feature_names_in_
        if output is not None:
            save(whole_model(before, model), output)
        if picture is not None:
            draw(search, picture)
        test_error = None if testing is None else error_rate(model, testing)
        if report is not None:
            progress.say("writing the report")
            sets = training, None if test_error is None else testing
            write_report(report, search, model, sets, before, context, seconds=seconds, warnings=remarks)
        facts = {
            **data_facts(data, training, before),
            "classes": class_counts(model, training),
            **grid_facts(search),
            "seconds": seconds,
            **kernel_facts(model),
            "solver": model.solver_.name,
            **proof_facts(model.certificate_),
            "train_error": error_rate(model, training),
            "test_error": test_error,
            "picture": None if picture is None else str(picture),
            "report": None if report is None else str(report),
            "model": None if output is None else str(output),
            "warnings": remarks,
        }
        progress.stop()
        if not (as_json or quiet):
            print_grid(search)
        print_report(facts, as_json, quiet)
    raise typer.Exit(130 if search.interrupted_ else 0 if model.status_ == "converged" else 3)


def make_search(
    kernel: str, Cs: str, folds: str, *, gammas: str | None, memory_limit: float | None, **options
) -> _Search:
    """LinearSVCCV, or SVCCV for a kernel; options that are None have the default of the class."""
    from ..cross_validation import SVCCV, LinearSVCCV

    given = {name: value for name, value in options.items() if value is not None}
    if not (folds == "loo" or (folds.isdecimal() and int(folds) >= 2)):
        raise ValueError(f"folds must be 2 or more, or loo, got {folds!r}.")
    given["cv"] = folds if folds == "loo" else int(folds)
    if kernel == "linear":
        if gammas is not None or memory_limit is not None:
            option = "--memory-limit" if gammas is None else "--gamma"
            raise ValueError(f"{option} goes with a kernel; add for instance --kernel rbf, or leave it out.")
        return LinearSVCCV(Cs=parse_grid("C", Cs), **given)
    if gammas is not None:
        given["gammas"] = parse_grid("gamma", gammas)
    if memory_limit is not None:
        given["memory_limit"] = memory_limit
    return SVCCV(kernel, Cs=parse_grid("C", Cs), **given)


def parse_grid(name: str, text: str) -> int | list[float]:
    """ "7" is a number of points; "0.1,1,10" and "2.5" are the points themselves."""
    try:
        return int(text) if text.strip().isdecimal() else [float(word) for word in text.split(",")]
    except ValueError:
        raise ValueError(f"{name} must be a number of values, or values such as 0.1,1,10, got {text!r}.") from None


def grid_facts(search: _Search) -> dict[str, Any]:
    """The lines of the report that are about the search."""
    import numpy as np

    table, best = search.cv_results_, search.best_index_
    tried, folds = np.count_nonzero(np.isfinite(table["mean_test_score"])), search.n_splits_
    fits = f"{tried}" if search.cv == "loo" else f"{tried * folds}, on {folds} folds"
    error = table["std_test_score"][best] / np.sqrt(max(search.n_splits_ - 1, 1))
    fields = ("mean_test_score", "std_test_score", "max_relative_gap", "mean_fit_time")
    rows = [
        dict(point) | {field: float(table[field][k]) for field in fields} for k, point in enumerate(table["params"])
    ]
    proven = f"every one proven to a relative gap of {np.nanmax(table['max_relative_gap']):.1e}"
    return {
        "grid points": f"{tried} of {len(rows)}",
        "fits": f"{fits}; {proven}",
        **{f"best {name}": f"{value:.4g}" for name, value in search.best_params_.items()},
        "score": search.best_score_,
        "+-": f"{error:.2%}, one standard error",
        "grid": rows,
    }


def at_the_edge(search: _Search) -> list[str]:
    """A warning for each parameter whose best value is the smallest or the largest that was tried, of three or more."""
    remarks = []
    for name, best in search.best_params_.items():
        tried = sorted({point[name] for point in search.cv_results_["params"]})
        if len(tried) >= 3 and best in (tried[0], tried[-1]):
            side, next_one = ("smallest", best / 10) if best == tried[0] else ("largest", best * 10)
            remarks.append(
                f"the best {name}, {best:.4g}, is the {side} that was tried; there may be a better one beyond, such as "
                f"--{name} {next_one:.2g},{best:.2g}."
            )
    return remarks


def print_grid(search: _Search) -> None:
    """Scores in percent: a line for each C, a column for each gamma."""
    import numpy as np
    from rich import box
    from rich.console import Console
    from rich.table import Table

    results = search.cv_results_
    points, mean = results["params"], results["mean_test_score"]
    error = results["std_test_score"] / np.sqrt(max(search.n_splits_ - 1, 1))
    gammas = sorted({point["gamma"] for point in points if "gamma" in point})
    table = Table(box=box.SIMPLE_HEAD, title="right, in %, of those held out", title_justify="left")
    for name in ("C", *(f"gamma {gamma:.3g}" for gamma in gammas)) if gammas else ("C", "right", "+-", "worst gap"):
        table.add_column(name, justify="right")
    for C in sorted({point["C"] for point in points}):
        places = [k for k, point in enumerate(points) if point["C"] == C]
        cells = [
            f"[bold]{100 * mean[k]:.2f}[/bold] *" if k == search.best_index_ else f"{100 * mean[k]:.2f}" for k in places
        ]
        more = [] if gammas else [f"{100 * error[places[0]]:.2f}", f"{results['max_relative_gap'][places[0]]:.0e}"]
        table.add_row(f"{C:.4g}", *cells, *more)
    Console().print(table)


def draw(search: _Search, path: Path) -> None:
    """The scores along C, as a file; no window is opened."""
    import matplotlib

    matplotlib.use("Agg")
    from ..display import PathDisplay

    PathDisplay.from_estimator(search).figure_.savefig(path, dpi=150)
