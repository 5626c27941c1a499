"""primalsvm predict"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..console import check_output, one_line_errors, say
from .data import (
    error_rate,
    has_kernel,
    label_texts,
    load_model,
    memory_bytes,
    quietly,
    read_for_model,
    split_model,
    widened,
)
from .options import DataPath, Encoding, Format, Label, Labels, MemoryLimit, Text

if TYPE_CHECKING:
    import numpy as np


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model of primalsvm, LIBLINEAR or LIBSVM.")],
    data: DataPath,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the labels here.")
    ] = None,
    scores: Annotated[bool, typer.Option("--scores", help="After each label its scores, separated by tabs.")] = False,
    proba: Annotated[bool, typer.Option("--proba", help="After each label the probabilities of all classes.")] = False,
    label: Label = None,
    labels: Labels = None,
    file_format: Format = None,
    text: Text = None,
    encoding: Encoding = None,
    memory_limit: MemoryLimit = None,
) -> None:
    """Print one predicted label per line.

    Where the data has labels, the error rate follows on stderr. A model of texts takes the column that it was trained
    on, or the lines of a plain file; - is stdin.
    """
    with one_line_errors():
        check_output(output, data, model)
        from ..persistence import write_whole

        before, classifier = split_model(load_model(model))
        if proba and (scores or not hasattr(classifier, "calibration_")):
            raise ValueError(
                "--scores or --proba, not both."
                if scores
                else f"{model}: it has no probabilities; train it with --probability sigmoid."
            )
        reading: dict[str, Any] = {"label": label, "labels": labels, "format": file_format, "label_required": False}
        if before.words is None and not has_kernel(classifier):
            reading["memory_limit"] = memory_bytes(memory_limit)
        elif memory_limit:
            held = "of texts" if before.words is not None else "with a kernel"
            raise ValueError(f"--memory-limit goes with a linear model of numbers; one {held} has all rows in memory.")
        if before.words is not None and str(data) == "-" and sys.stdin.isatty():
            say("one text a line, please; Ctrl-D ends them")
        samples = read_for_model(data, before, classifier, text=text, encoding=encoding, **reading)
        classifier = widened(classifier, samples.X.shape[1])
        found = quietly(classifier.predict, samples.X)
        values = None
        if scores or proba:
            values = quietly(classifier.decision_function if scores else classifier.predict_proba, samples.X)
        pieces = _lines(found, values)
        if output is not None:
            write_whole(output, b"".join(piece.encode() for piece in pieces))
        else:
            for piece in pieces:
                print(piece, end="")
            sys.stdout.flush()
        error = error_rate(classifier, samples, found)
        if error is not None:
            say(f"error rate {error:.2%} ({round(error * len(found))} of {len(found)})")


def _lines(found: np.ndarray, values: np.ndarray | None) -> Iterator[str]:
    """Labels, and values after them, a thousand lines at a time.

    In pieces: an unbuffered stdout (PYTHONUNBUFFERED) does not notice that a long write was cut short.
    """
    for start in range(0, len(found), 1000):
        part = slice(start, start + 1000)
        texts = label_texts(found[part])
        if values is not None:
            rows = values.reshape(len(found), -1)[part].tolist()
            texts = ["\t".join([text, *map(repr, row)]) for text, row in zip(texts, rows, strict=True)]
        yield "".join(text + "\n" for text in texts)
