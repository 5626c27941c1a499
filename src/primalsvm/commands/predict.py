"""primalsvm predict"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..console import check_output, one_line_errors, say
from .data import error_rate, feature_names, label_texts, load_model, memory_bytes, quietly, read_for, widened
from .options import DataPath, Format, Label, Labels, MemoryLimit


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
    memory_limit: MemoryLimit = None,
) -> None:
    """Print one predicted label per line.

    Where the data has labels, the error rate follows on stderr.
    """
    with one_line_errors():
        check_output(output, data, model)
        import numpy as np

        from ..persistence import write_whole

        classifier = load_model(model)
        if proba and (scores or not hasattr(classifier, "calibration_")):
            raise ValueError(
                "--scores or --proba, not both."
                if scores
                else f"{model}: it has no probabilities; train it with --probability sigmoid."
            )
        keep = hasattr(classifier, "kernel_")
        reading: dict[str, Any] = {"label": label, "labels": labels, "format": file_format, "label_required": False}
        if keep and memory_limit:
            raise ValueError("--memory-limit goes with a linear model; one with a kernel has all rows in memory.")
        reading["memory_limit"] = None if keep else memory_bytes(memory_limit)
        samples = read_for(data, classifier.n_features_in_, feature_names(classifier), keep, **reading)
        classifier = widened(classifier, samples.X.shape[1])
        found = quietly(classifier.predict, samples.X)
        values = np.reshape(quietly(classifier.decision_function, samples.X), (len(found), -1)) if scores else None
        if proba:
            values = quietly(classifier.predict_proba, samples.X)

        def lines(start: int) -> str:
            part = slice(start, start + 1000)
            texts = label_texts(found[part])
            if values is not None:
                texts = [
                    "\t".join([text, *map(repr, row)]) for text, row in zip(texts, values[part].tolist(), strict=True)
                ]
            return "".join(text + "\n" for text in texts)

        starts = range(0, len(found), 1000)
        if output is not None:
            write_whole(output, b"".join(lines(start).encode() for start in starts))
        else:  # in pieces: an unbuffered stdout (PYTHONUNBUFFERED) does not notice that a long write was cut short
            for start in starts:
                print(lines(start), end="")
            sys.stdout.flush()
        error = error_rate(classifier, samples, found)
        if error is not None:
            say(f"error rate {error:.2%} ({round(error * len(found))} of {len(found)})")
