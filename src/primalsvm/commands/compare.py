"""primalsvm compare"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..console import Progress, check_output, one_line_errors, print_report
from .data import class_counts_of, data_facts, make_before, read_both
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
    Report,
    Seed,
    Standardize,
    Text,
)
from .report import check_report, command_line
from .train import make_model

if TYPE_CHECKING:
    from ..race_result import Race


def compare(
    context: typer.Context,
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
    kernel: Kernel = "linear",
    gamma: Annotated[str | None, typer.Option(help="Of the kernel: scale (the default), auto or a number.")] = None,
    degree: Annotated[int | None, typer.Option(help="Of the poly kernel; 3 by default.")] = None,
    coef0: Annotated[float | None, typer.Option(help="Of the poly kernel; 0 by default.")] = None,
    loss: Loss = None,
    C: Annotated[float, typer.Option("--C", help="Weight of the losses against the norm of the model.")] = 1.0,
    intercept: Intercept = "free",
    multi_class: MultiClass = None,
    class_weight: ClassWeight = None,
    tol: Annotated[float, typer.Option(help="Relative duality gap that the recommendation is about.")] = 1e-3,
    solvers: Annotated[
        str | None, typer.Option(metavar="NAMES", help="As newton,pegasos; all that accept the problem by default.")
    ] = None,
    rivals: Annotated[bool, typer.Option("--rivals", help="scikit-learn's too, judged by our certificate.")] = False,
    seconds: Annotated[float, typer.Option(help="Limit on each fit.")] = 10.0,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the gap against seconds and passes: .png, .svg, .pdf.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a line for each certificate.")] = None,
    jsonl: Annotated[Path | None, typer.Option(metavar="FILE", help="The same, a JSON object a line.")] = None,
    jobs: Jobs = 1,
    seed: Seed = None,
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """Race the solvers on your data, and say which one to take.

    Every solver fits the whole data to a proven gap of 1 %, of 0.1 % and of 0.0001 %, until one of these takes longer
    than --seconds. Code is compiled before. Ctrl-C keeps what is finished.
    """
    with one_line_errors(), Progress() as progress:
        for output in (picture, csv, jsonl):
            check_output(output, data, labels)
        check_report(report, data, labels, picture, csv, jsonl)
        if picture is not None:
            from ..display import _pyplot

            _pyplot()  # it may be missing: not after the race
        progress.say("loading primalsvm")
        from ..race import race
        from ..solvers import make_solver

        wanted = None if solvers is None else [make_solver(name.strip()).name for name in solvers.split(",")]
        before = make_before(standardize, text, encoding, features=features, ngrams=ngrams, min_count=min_count)
        of_kernel = {"gamma": gamma, "degree": degree, "coef0": coef0}
        options = {"loss": loss, "multi_class": multi_class}
        model = make_model(
            kernel,
            {name: value for name, value in of_kernel.items() if value is not None},
            C=C,
            tol=tol,
            fit_intercept=FIT_INTERCEPT[intercept],
            class_weight=class_weight,
            n_jobs=jobs,
            **{name: value for name, value in options.items() if value is not None},
        )
        progress.say(f"reading {data}")
        reading: dict[str, Any] = {"label": label, "format": file_format}
        reading |= {"memory_limit": None} if before.words is None else {"text": text, "encoding": encoding}
        training, _ = read_both(data, None, before, kernel != "linear", labels, None, **reading)
        progress.say("")
        result = race(
            training.X,
            training.y,
            estimator=model,
            solvers=wanted,
            rivals=rivals,
            seconds=seconds,
            random_state=0 if seed is None else seed,
            callback=progress.say_share,
        )
        if picture is not None:
            progress.say(f"drawing {picture}")
            from ..race_display import RaceDisplay

            RaceDisplay.from_race(result).figure_.savefig(picture, dpi=150)
        if csv is not None:
            result.to_csv(csv)
        if jsonl is not None:
            result.to_jsonl(jsonl)
        files = {"picture": picture, "csv": csv, "jsonl": jsonl, "report": report}
        facts = {
            **data_facts(data, training, before),
            "classes": class_counts_of(training),
            "problem": f"{model.loss}, C {C:g}, {result.runners[0].problem}",
            **{name: str(path) for name, path in files.items() if path},
        }
        if report is not None:
            from ..report import race_report

            shown = facts | {"classes": len(facts["classes"])}
            about = {name: value for name, value in shown.items() if name not in files}
            race_report(result, report, title=data.name, facts=about, command=command_line(context))
        progress.stop()
        if as_json:
            print_report(facts | _facts(result), True)
        else:
            print_report(facts, False)
            print_race(result)
    raise typer.Exit(130 if result.interrupted else 0)


def _facts(result: Race) -> dict[str, Any]:
    solvers = {
        runner.name: {
            "ours": runner.ours,
            "problem": runner.problem,
            "seconds_to": {f"{target:g}": result.seconds_to(runner.name, target) for target in result.targets},
            "proven_gap": result.gap(runner.name),
            "status": runner.fits[-1].status,
            "warm_up": runner.warm_up,
        }
        for runner in result.runners
    }
    return {
        "solvers": solvers,
        "not_raced": result.refused,
        "auto": result.auto,
        "notes": result.notes(),
        "recommendation": result.recommendation,
        "interrupted": result.interrupted,
    }


def print_race(result: Race) -> None:
    """The table, what its reader must know, and last what to do."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console()
    shown, best = result.table(), next(iter(result.ranking()), None)
    narrow = sum(max(map(len, column)) + 2 for column in zip(shown.header, *shown.rows, strict=True)) > console.width
    table = Table(box=box.SIMPLE_HEAD, padding=0 if narrow else (0, 1))
    for name in shown.header:
        title = name.replace(" to ", " to\n").replace("proven ", "proven\n") if narrow else name
        table.add_column(title, justify="left" if name in ("solver", "ended") else "right")
    for row in shown.rows:
        table.add_row(*row, style="bold" if row[0] == best else "")
    console.print(table)
    for why in result.refused.values():
        console.print(f"not raced: {why}", style="dim", markup=False, highlight=False)
    for note in result.notes():
        console.print(note, style="dim", markup=False, highlight=False)
    console.print(f"\n{result.recommendation}", style="bold", markup=False, highlight=False)
