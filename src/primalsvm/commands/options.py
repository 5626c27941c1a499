"""Arguments and options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

EXIT_CODES = """\b
Exit codes:
  0    done
  1    bad input, with one line "error: ..."
  2    wrong usage
  3    trained, and saved if -o was given, but the tolerance was missed
  130  stopped by Ctrl-C"""
FIT_INTERCEPT = {"free": True, "none": False, "penalized": "penalized"}

Probability = Annotated[
    Literal["sigmoid", "isotonic", "ensemble"] | None,
    typer.Option(help="Calibrate probabilities too, for predict --proba."),
]
LossName = Literal["squared_hinge", "hinge", "huber"]
InterceptName = Literal["free", "none", "penalized"]
KernelName = Literal["linear", "rbf", "poly", "laplacian", "wendland"]
DataPath = Annotated[
    Path, typer.Argument(metavar="DATA", help="svmlight, CSV or TSV, also .gz, .bz2, .xz; .npz, .npy, Parquet; text.")
]
Label = Annotated[str | None, typer.Option(metavar="COLUMN", help="With the labels: name, or position from 0.")]
Labels = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="With the labels: .npy for .npy and Parquet, one a line for plain text."),
]
Loss = Annotated[LossName | None, typer.Option(help="Of margins; squared_hinge by default, with a kernel hinge.")]
Kernel = Annotated[KernelName, typer.Option(help="Of the similarity between samples.")]
Intercept = Annotated[InterceptName, typer.Option(help="LIBLINEAR's is penalized.")]
MultiClass = Annotated[
    Literal["ovr", "ovo"] | None, typer.Option(help="One class against the rest (if linear), or pairs.")
]
Ordinal = Annotated[
    Literal["cumulative", "adjacent", "shared"] | None,
    typer.Option(help="The classes have an order: a model for each boundary, for neighbours, or one w for all."),
]
Order = Annotated[
    str | None, typer.Option(metavar="LABELS", help="That order, from low to high: bad,fair,good. Numbers have one.")
]
ClassWeight = Annotated[Literal["balanced"] | None, typer.Option(help="All classes count the same.")]
TestLabels = Annotated[Path | None, typer.Option(metavar="FILE", help="The same of the test data.")]
Jobs = Annotated[int, typer.Option(help="Threads; -1 for all cores.")]
Seed = Annotated[int | None, typer.Option(help="Seed of the random numbers.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print warnings and errors only.")]
FormatName = Literal["svmlight", "csv", "tsv", "npz", "npy", "parquet"]
MemoryLimit = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Of rows or kernel matrices, as 500M or 2G; larger files are read in pieces."),
]
Format = Annotated[FormatName | None, typer.Option("--format", help="Of the data, where its name does not tell.")]
Report = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write a report with charts: one HTML file that needs no network.")
]
Standardize = Annotated[
    bool, typer.Option("--standardize", help="Give all columns the mean 0 and the deviation 1 first.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")]

# of text
Text = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Of raw text: name or position; lines for a plain file, files for a folder."),
]
Features = Annotated[
    Literal["binary", "count", "tfidf"] | None, typer.Option(help="Of the words of a text; binary by default.")
]
Ngrams = Annotated[int | None, typer.Option(help="Up to so many words in a row count as a word; 1 by default.")]
MinCount = Annotated[int | None, typer.Option(help="Leave out words in fewer texts than this; 1 by default.")]
Encoding = Annotated[str | None, typer.Option(help="Of the text, as latin-1; UTF-8 by default.")]
