"""primalsvm train"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

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
    reading_facts,
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
    MemoryLimit,
    MinCount,
    MultiClass,
    Ngrams,
    Order,
    Ordinal,
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
    import numpy as np


def train(
    context: typer.Context,
    data: DataPath,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="MODEL", help="Save the model here.")] = None,
    test: Annotated[Path | None, typer.Option(metavar="DATA", help="Count the errors on this data too.")] = None,
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
    gamma: Annotated[str | None, typer.Option(help="Of the kernel: scale (the default), auto or a number.")] = None,
    degree: Annotated[int | None, typer.Option(help="Of the poly kernel; 3 by default.")] = None,
    coef0: Annotated[float | None, typer.Option(help="Of the poly kernel; 0 by default.")] = None,
    approximation: Annotated[
        Literal["greedy", "cholesky", "random"] | None, typer.Option(help="Of a kernel's model by a basis of samples.")
    ] = None,
    basis: Annotated[int | None, typer.Option(help="Samples in that basis, at most; 1000 by default.")] = None,
    grow: Annotated[
        Literal["validation", "gap"] | None, typer.Option(help="Until that error, or the gap to the exact, is small.")
    ] = None,
    memory_limit: MemoryLimit = None,
    loss: Loss = None,
    C: Annotated[float, typer.Option("--C", help="Weight of the losses against the norm of the model.")] = 1.0,
    tol: Annotated[float, typer.Option(help="Relative duality gap to reach.")] = 1e-3,
    solver: Annotated[str, typer.Option(help="Algorithm; a wrong name lists them.")] = "auto",
    max_iter: Annotated[int | None, typer.Option(help="Limit on the solver's steps; 1000 if linear.")] = None,
    max_seconds: Annotated[float | None, typer.Option(help="Limit on the time of training.")] = None,
    intercept: Intercept = "free",
    multi_class: MultiClass = None,
    ordinal: Ordinal = None,
    order: Order = None,
    class_weight: ClassWeight = None,
    probability: Probability = None,
    jobs: Jobs = 1,
    seed: Seed = None,
    report: Report = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Train a classifier, linear or with a kernel, and prove how good it is.

    Ctrl-C stops early: the best model so far is kept, with its certificate.
    """
    with one_line_errors(), Progress(quiet) as progress:
        check_output(output, data, test)
        check_report(report, data, test, output)
        progress.say("loading primalsvm")
        from ..persistence import save

        whole = memory_limit if kernel == "linear" else None
        before = make_before(standardize, text, encoding, whole, features=features, ngrams=ngrams, min_count=min_count)
        options = {"loss": loss, "max_iter": max_iter, "multi_class": multi_class}
        of_kernel: dict[str, Any] = {"gamma": gamma, "degree": degree, "coef0": coef0}
        of_kernel |= {"approximation": approximation, "n_basis": basis, "grow": grow}
        limit: float | None = memory_bytes(memory_limit)
        if kernel != "linear":
            of_kernel["memory_limit"] = limit if memory_limit else None
            if approximation is None or grow == "gap":  # then all rows are in memory
                limit = None
        model = make_model(
            kernel,
            {name: value for name, value in of_kernel.items() if value is not None},
            C=C,
            solver=solver,
            tol=tol,
            max_seconds=max_seconds,
            fit_intercept=FIT_INTERCEPT[intercept],
            class_weight=class_weight,
            probability=probability,
            n_jobs=jobs,
            random_state=seed,
            callback=progress.record,
            **{name: value for name, value in options.items() if value is not None},
        )
        if ordinal is None and order is not None:
            raise ValueError("--order goes with --ordinal; say for instance --ordinal cumulative.")
        if ordinal is not None and multi_class is not None:
            raise ValueError("--ordinal or --multi-class, not both.")
        progress.say(f"reading {data}")
        reading: dict[str, Any] = {"label": label, "format": file_format}
        reading |= {"memory_limit": limit} if before.words is None else {"text": text, "encoding": encoding}
        training, testing = read_both(data, test, before, kernel != "linear", labels, test_labels, **reading)
        progress.follow(training)
        if ordinal is not None:
            model = in_order(model, ordinal, order, training.y)
        progress.say("training")
        seconds, remarks = fit(model, training)
        remarks += uneven(training, before)
        if output is not None:
            save(whole_model(before, model), output)
        test_error = None if testing is None else error_rate(model, testing)
        if testing is not None and test_error is None:
            remarks.append(f"no test error: {test} has none of the model's labels.")
        if report is not None:
            progress.say("writing the report")
            sets = training, None if test_error is None else testing
            write_report(report, model, model, sets, before, context, seconds=seconds, warnings=remarks)
        facts = {
            **data_facts(data, training, before),
            **reading_facts(training),
            "classes": class_counts(model, training),
            **kernel_facts(model),
            "solver": model.solver_.name,
            "steps": model.n_iter_,
            "status": model.status_,
            "seconds": seconds,
            **proof_facts(model.certificate_),
            "train_error": error_rate(model, training),
            "test_error": test_error,
            "report": None if report is None else str(report),
            "model": None if output is None else str(output),
            "warnings": remarks,
        }
        progress.stop()
        print_report(facts, as_json, quiet)
    raise typer.Exit({"converged": 0, "interrupted": 130}.get(model.status_, 3))


def make_model(kernel: str, of_kernel: dict[str, Any], **options) -> Any:
    """The estimator that the options of train describe."""
    if kernel == "linear":
        from ..linear_svc import LinearSVC

        if of_kernel:
            option = "--" + next(iter(of_kernel)).replace("n_basis", "basis").replace("_", "-")
            raise ValueError(f"{option} goes with a kernel; add for instance --kernel rbf, or leave it out.")
        return LinearSVC(**options)
    from ..svc import SVC

    gamma = of_kernel.get("gamma", "scale")
    if gamma not in ("scale", "auto"):
        try:
            of_kernel["gamma"] = float(gamma)
        except ValueError:
            raise ValueError(f"gamma must be scale, auto or a number, got {gamma!r}.") from None
    return SVC(kernel, **of_kernel, **options)


def in_order(model: Any, strategy: str, order: str | None, y: np.ndarray | None) -> Any:
    """The model of classes in an order, which --order says; labels that are numbers are looked up as such."""
    from ..ordinal_svc import OrdinalSVC

    classes: list[Any] | None = None
    if order is not None:
        classes = [label.strip() for label in order.split(",")]
        if y is not None and y.dtype.kind == "f":
            try:
                classes = [float(label) for label in classes]
            except ValueError:
                raise ValueError(f"the labels are numbers; --order names others: {order}.") from None
    return OrdinalSVC(model, strategy=strategy, classes=classes)
