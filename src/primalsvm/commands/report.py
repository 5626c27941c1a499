"""What --report writes, for the commands that train."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..console import check_output
from .data import Before, scaling, widened

if TYPE_CHECKING:
    from ..readers import Data


def check_report(report: Path | None, *inputs: Path | None) -> None:
    """Say before the work that its report could not be written, not after it."""
    if report is None:
        return
    from importlib.util import find_spec

    check_output(report, *inputs)
    if find_spec("plotly") is None:
        raise ImportError('--report draws with plotly, which is missing: pip install "primalsvm[report]"')


def command_line(context: typer.Context) -> str:
    """What was typed, as a shell takes it; options by their long names."""
    arguments: list[str] = []
    options: list[str] = []
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        if source is None or source.name != "COMMANDLINE":
            continue
        value: Any = context.params[str(parameter.name)]
        values = list(value) if isinstance(value, list | tuple) else [value]
        if parameter.param_type_name == "argument":
            arguments += map(str, values)
        elif isinstance(value, bool):
            options.append(max(parameter.opts if value else parameter.secondary_opts, key=len))
        else:
            options += [word for one in values for word in (max(parameter.opts, key=len), str(one))]
    return shlex.join(["primalsvm", str(context.info_name), *arguments, *options])


def write_report(
    report: Path,
    fitted: Any,
    model: Any,
    sets: tuple[Data, Data | None],
    before: Before,
    context: typer.Context,
    **about,
) -> None:
    """The report of a model, or of a search where `fitted` is one; the test rows count where they have labels."""
    from ..report import About, training_report, tuning_report

    training, testing = sets
    given = context.params
    test = None if testing is None or testing.y is None else (testing.X, testing.y)
    story = About(
        data=str(given["data"]),
        test="" if test is None else str(given["test"]),
        command=command_line(context),
        words=before.words is not None,
        scaling=scaling(before),
        predictor=None if testing is None else widened(model, testing.X.shape[1]),
        **about,
    )
    names = None if before.words is None else before.words.get_feature_names_out()
    write = training_report if fitted is model else tuning_report
    write(fitted, training.X, training.y, report, test=test, names=names, about=story)
