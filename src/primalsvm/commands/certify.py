"""primalsvm certify"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from ..console import Progress, one_line_errors, print_report
from .data import (
    Before,
    check_labels,
    check_text_options,
    data_facts,
    kernel_facts,
    load_model,
    proof_facts,
    read_for,
    read_for_model,
    solved,
    split_model,
)
from .options import FIT_INTERCEPT, AsJson, DataPath, Encoding, Format, InterceptName, Label, Labels, LossName, Text


def certify(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model of primalsvm, LIBLINEAR or LIBSVM.")],
    data: DataPath,
    C: Annotated[
        float | None, typer.Option("--C", help="What it was trained with; other programs' files lack it.")
    ] = None,
    loss: Annotated[LossName | None, typer.Option(help="Judge by this loss, not by the model's own.")] = None,
    intercept: Annotated[InterceptName | None, typer.Option(help="Judge by this one, not by the model's own.")] = None,
    label: Label = None,
    labels: Labels = None,
    file_format: Format = None,
    text: Text = None,
    encoding: Encoding = None,
    as_json: AsJson = False,
) -> None:
    """Prove how far from the optimum a model can be.

    It does not matter who trained it. DATA is what it was trained on.
    """
    with one_line_errors(), Progress() as progress:
        progress.say("loading primalsvm")
        from ..claims import certify as judge
        from ..model_files import looks_like_model_file, read_model_file

        progress.say(f"reading {data}")
        reading: dict[str, Any] = {"label": label, "labels": labels, "format": file_format}
        kind = looks_like_model_file(model)
        if kind is None:
            before, judged = split_model(load_model(model))
            problem = solved(judged)
            own = {"loss": getattr(problem.loss, "name", problem.loss), "C": problem.C}
            own["intercept"] = next(name for name, value in FIT_INTERCEPT.items() if value == problem.fit_intercept)
            samples = read_for_model(data, before, judged, text=text, encoding=encoding, **reading)
            check_labels(data, samples, judged.classes_)
        elif C is None:
            raise ValueError(f"{model}: a {kind.upper()} file does not say its C; give the one of its training: --C 1.")
        else:
            check_text_options(None, text, encoding)
            before, judged, foreign = Before(), model, read_model_file(model)
            own = {"loss": foreign.loss, "C": C, "intercept": foreign.intercept}
            samples = read_for(data, None if foreign.coef is None else foreign.coef.shape[1], None, False, **reading)
            check_labels(data, samples, foreign.classes)
        progress.say("certifying")
        begin = time.perf_counter()
        given = {"C": C, "loss": loss, "intercept": intercept}
        proof = judge(judged, samples.X, samples.y, **given)  # type: ignore[arg-type]
        report = {"model": str(model), **data_facts(data, samples, before), **kernel_facts(judged)}
        report |= {name: value if given[name] is None else given[name] for name, value in own.items()}
        report |= {"seconds": time.perf_counter() - begin, **proof_facts(proof)}
        progress.stop()
        print_report(report, as_json)
