"""The report that the tutorial speaks of, written by the command that it shows: reports/cells.html in the site."""

import contextlib
import csv
import tempfile
from pathlib import Path

from sklearn.datasets import load_breast_cancer
from sphinx.application import Sphinx
from typer.testing import CliRunner

from primalsvm.cli import app as program

COMMAND = ["train", "cells.csv", "--label", "diagnosis", "--loss", "hinge", "--report", "cells.html"]


def write_report(app: Sphinx, exception: Exception | None) -> None:
    path = Path(app.outdir) / "reports" / "cells.html"
    if exception is not None or app.builder.format != "html" or path.exists():
        return
    data = load_breast_cancer()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        with open("cells.csv", "w", newline="") as file:
            table = csv.writer(file)
            table.writerow([*data.feature_names, "diagnosis"])
            table.writerows([*row, data.target_names[k]] for row, k in zip(data.data, data.target, strict=True))
        result = CliRunner().invoke(program, COMMAND, prog_name="primalsvm")
        assert result.exit_code == 0, result.output
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(Path("cells.html").read_bytes())


def setup(app: Sphinx):
    app.connect("build-finished", write_report)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
