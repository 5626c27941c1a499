"""The command line: primalsvm train, predict, certify, demo.

Results go to stdout; progress, notes and errors to stderr. Whatever is wrong with the input is one line that begins
with "error:". The heavy imports (NumPy, SciPy, scikit-learn, Numba) are inside the commands, so that --help is quick.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

try:
    import rich  # noqa: F401  (used inside the functions; missed here already)
    import typer
except ImportError:
    raise SystemExit('The command line needs typer and rich: pip install "primalsvm[cli]"') from None

if TYPE_CHECKING:
    import numpy as np

    from .certificate import Certificate
    from .linear_svc import LinearSVC
    from .readers import Data
    from .solve import Record

EXIT_CODES = """\b
Exit codes:
  0    done
  1    bad input, with one line "error: ..."
  2    wrong usage
  3    trained, and saved if -o was given, but the tolerance was missed
  130  stopped by Ctrl-C"""
FIT_INTERCEPT = {"free": True, "none": False, "penalized": "penalized"}

app = typer.Typer(
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: narrower, and 0.1 s quicker
    context_settings={"help_option_names": ["-h", "--help"]},
)

LossName = Literal["squared_hinge", "hinge", "huber"]
InterceptName = Literal["free", "none", "penalized"]
DataPath = Annotated[Path, typer.Argument(metavar="DATA", help="svmlight, CSV, TSV or .npz; also .gz, .bz2, .xz.")]
Label = Annotated[str | None, typer.Option(metavar="COLUMN", help="Label column of a CSV: name, or position from 0.")]
FormatName = Literal["svmlight", "csv", "tsv", "npz"]
Format = Annotated[FormatName | None, typer.Option("--format", help="Of the data, where its name does not tell.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")]


def main() -> None:
    """What the shell calls."""
    app(prog_name="primalsvm")


def _print_version(wanted: bool) -> None:
    if wanted:
        from . import __version__

        print(f"primalsvm {__version__}")
        raise typer.Exit


VersionFlag = Annotated[
    bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print it and exit.")
]


@app.callback()
def primalsvm(version: VersionFlag = False) -> None:
    """Support vector machines that prove their answer."""


@app.command(epilog=f"Example: primalsvm train a9a.xz --test a9a.t.xz --loss hinge -o a9a.psvm\n\n{EXIT_CODES}")
def train(
    data: DataPath,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="MODEL", help="Save the model here.")] = None,
    test: Annotated[Path | None, typer.Option(metavar="DATA", help="Count the errors on this data too.")] = None,
    label: Label = None,
    file_format: Format = None,
    loss: Annotated[LossName, typer.Option(help="What a wrong or narrow margin costs.")] = "squared_hinge",
    C: Annotated[float, typer.Option("--C", help="Weight of the losses against the norm of w.")] = 1.0,
    tol: Annotated[float, typer.Option(help="Relative duality gap to reach.")] = 1e-3,
    solver: Annotated[str, typer.Option(help="Algorithm; a wrong name lists them.")] = "auto",
    max_iter: Annotated[int, typer.Option(help="Limit on the solver's steps.")] = 1000,
    max_seconds: Annotated[float | None, typer.Option(help="Limit on the time of training.")] = None,
    intercept: Annotated[InterceptName, typer.Option(help="LIBLINEAR's is penalized.")] = "free",
    multi_class: Annotated[Literal["ovr", "ovo"], typer.Option(help="One class against the rest, or pairs.")] = "ovr",
    class_weight: Annotated[Literal["balanced"] | None, typer.Option(help="All classes count the same.")] = None,
    jobs: Annotated[int, typer.Option(help="Threads; -1 for all cores.")] = 1,
    seed: Annotated[int | None, typer.Option(help="Seed of the random numbers.")] = None,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print warnings and errors only.")] = False,
) -> None:
    """Train a linear classifier and prove how good it is.

    Ctrl-C stops early: the best model so far is kept, with its certificate.
    """
    with _one_line_errors(), _Progress(quiet) as progress:
        _check_output(output, data, test)
        progress.say("loading primalsvm")
        from .linear_svc import LinearSVC
        from .persistence import save
        from .readers import read_data

        progress.say(f"reading {data}")
        reading: dict[str, Any] = {"label": label, "format": file_format}
        training = read_data(data, **reading)
        testing = None if test is None else _read_for(test, training.X.shape[1], training.feature_names, **reading)
        model = LinearSVC(
            loss,
            C=C,
            solver=solver,
            tol=tol,
            max_iter=max_iter,
            max_seconds=max_seconds,
            fit_intercept=FIT_INTERCEPT[intercept],
            multi_class=multi_class,
            class_weight=class_weight,
            n_jobs=jobs,
            random_state=seed,
            callback=progress.record,
        )
        progress.say("training")
        seconds, remarks = _fit(model, training)
        if output is not None:
            save(model, output)
        test_error = None if testing is None else _error_rate(model, testing)
        if testing is not None and test_error is None:
            remarks.append(f"no test error: {test} has none of the model's labels.")
        report = {
            **_data_facts(data, training),
            "classes": _class_counts(model, training),
            "solver": model.solver_.name,
            "steps": model.n_iter_,
            "status": model.status_,
            "seconds": seconds,
            **_proof_facts(model.certificate_),
            "train_error": _error_rate(model, training),
            "test_error": test_error,
            "model": None if output is None else str(output),
            "warnings": remarks,
        }
        progress.stop()
        _print_report(report, as_json, quiet)
    raise typer.Exit({"converged": 0, "interrupted": 130}.get(model.status_, 3))


@app.command(epilog="Example: primalsvm predict a9a.psvm a9a.t.xz -o labels.txt")
def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model of primalsvm or LIBLINEAR.")],
    data: DataPath,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the labels here.")
    ] = None,
    scores: Annotated[bool, typer.Option("--scores", help="After each label its scores, separated by tabs.")] = False,
    label: Label = None,
    file_format: Format = None,
) -> None:
    """Print one predicted label per line.

    Where the data has labels, the error rate follows on stderr.
    """
    with _one_line_errors():
        _check_output(output, data, model)
        import numpy as np

        from .persistence import write_whole

        classifier = _load_model(model)
        reading: dict[str, Any] = {"label": label, "format": file_format, "label_required": False}
        samples = _read_for(data, classifier.n_features_in_, _names(classifier), **reading)
        lines = _texts(_quietly(classifier.predict, samples.X))
        if scores:
            values = np.reshape(_quietly(classifier.decision_function, samples.X), (len(lines), -1))
            lines = ["\t".join([line, *map(repr, row)]) for line, row in zip(lines, values.tolist(), strict=True)]
        if output is not None:
            write_whole(output, "".join(line + "\n" for line in lines).encode())
        else:  # in pieces: an unbuffered stdout (PYTHONUNBUFFERED) does not notice that a long write was cut short
            for start in range(0, len(lines), 1000):
                print("\n".join(lines[start : start + 1000]))
            sys.stdout.flush()
        error = _error_rate(classifier, samples)
        if error is not None:
            _say(f"error rate {error:.2%} ({round(error * len(lines))} of {len(lines)})")


@app.command(epilog="Example: primalsvm certify liblinear.model heart.svm --C 1")
def certify(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model of primalsvm, LIBLINEAR or LIBSVM.")],
    data: DataPath,
    C: Annotated[
        float | None, typer.Option("--C", help="What it was trained with; other programs' files lack it.")
    ] = None,
    loss: Annotated[LossName | None, typer.Option(help="Judge by this loss, not by the model's own.")] = None,
    intercept: Annotated[InterceptName | None, typer.Option(help="Judge by this one, not by the model's own.")] = None,
    label: Label = None,
    file_format: Format = None,
    as_json: AsJson = False,
) -> None:
    """Prove how far from the optimum a model can be.

    It does not matter who trained it. DATA is what it was trained on.
    """
    with _one_line_errors(), _Progress() as progress:
        progress.say("loading primalsvm")
        from .claims import certify as judge
        from .model_files import looks_like_model_file, read_model_file

        progress.say(f"reading {data}")
        reading: dict[str, Any] = {"label": label, "format": file_format}
        kind = looks_like_model_file(model)
        if kind is None:
            judged: Any = _load_model(model)
            own = {"loss": getattr(judged.loss, "name", judged.loss), "C": judged.C}
            own["intercept"] = next(name for name, value in FIT_INTERCEPT.items() if value == judged.fit_intercept)
            samples = _read_for(data, judged.n_features_in_, _names(judged), **reading)
            _check_labels(data, samples, judged.classes_)
        elif C is None:
            raise ValueError(f"{model}: a {kind.upper()} file does not say its C; give the one of its training: --C 1.")
        else:
            judged, foreign = model, read_model_file(model)
            own = {"loss": foreign.loss, "C": C, "intercept": foreign.intercept}
            samples = _read_for(data, None if foreign.coef is None else foreign.coef.shape[1], None, **reading)
            _check_labels(data, samples, foreign.classes)
        progress.say("certifying")
        begin = time.perf_counter()
        given = {"C": C, "loss": loss, "intercept": intercept}
        proof = judge(judged, samples.X, samples.y, **given)  # type: ignore[arg-type]
        report = {"model": str(model), **_data_facts(data, samples)}
        report |= {name: value if given[name] is None else given[name] for name, value in own.items()}
        report |= {"seconds": time.perf_counter() - begin, **_proof_facts(proof)}
        progress.stop()
        _print_report(report, as_json)


OutputFolder = Annotated[Path, typer.Option(metavar="DIR", help="Folder for what the demo writes.")]


@app.command(epilog="Example: primalsvm demo --output demo")
def demo(output: OutputFolder = Path("primalsvm-demo")) -> None:
    """Train, certify and draw small examples."""
    with _one_line_errors():
        from .demo import run

        run(output)


# --- errors, notes and progress: stderr -------------------------------------------------------------------------------


def _say(text: str) -> None:
    """One line on stderr."""
    print(" ".join(text.split()), file=sys.stderr, flush=True)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """Turn whatever bad input raises, and Ctrl-C, into one line and an exit code."""
    try:
        yield
        return
    except KeyboardInterrupt:
        _say("interrupted before there was anything to keep")
        code = 130
    except BrokenPipeError:  # the reader of a pipe had enough, as head has; Python must not flush into it again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except (ValueError, OSError, ImportError, MemoryError) as error:
        where, what = getattr(error, "filename", None), getattr(error, "strerror", None)
        _say("error: " + (f"{where}: {what}" if where and what else str(error) or "not enough memory"))
        code = 1
    raise typer.Exit(code)


class _Progress:
    """One live line on stderr where that is a terminal; nothing elsewhere."""

    def __init__(self, quiet: bool = False):
        self.live: Any = None
        self.say("")
        if not quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self.live = Live(self, console=Console(stderr=True), transient=True, refresh_per_second=8)

    def __enter__(self) -> _Progress:
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(self, *exception) -> None:
        self.stop()

    def stop(self) -> None:
        if self.live is not None:
            self.live.stop()

    def say(self, text: str) -> None:
        self.text, self.begin = text, time.perf_counter()

    def record(self, record: Record) -> None:
        from .certificate import relative_gap

        bounds = f"primal {record.primal:.7g}  dual {record.dual:.7g}"
        self.text = f"step {record.iteration}  {bounds}  relative gap {relative_gap(record.primal, record.dual):.1e}"

    def __rich__(self):
        from rich.text import Text

        return Text.assemble(self.text, (f"  {time.perf_counter() - self.begin:.1f} s", "dim"))


def _check_output(output: Path | None, *inputs: Path | None) -> None:
    """Say before the work that its result could not be written, not after it."""
    if output is None:
        return
    folder = Path(os.path.realpath(output)).parent
    if not folder.is_dir():
        raise OSError(f"{output}: there is no folder {folder}; make it first")
    if not os.access(folder, os.W_OK):
        raise OSError(f"{output}: the folder {folder} may not be written to; check its permissions")
    if output.exists() and not output.is_file():
        raise OSError(f"{output}: this is no regular file; name another one to write to")
    if output.exists() and any(path is not None and path.exists() and path.samefile(output) for path in inputs):
        raise OSError(f"{output}: this is an input too; name another file to write to")


# --- data and models --------------------------------------------------------------------------------------------------


def _load_model(path: Path) -> LinearSVC:
    """A model of ours, or LIBLINEAR's as one of ours."""
    from .linear_svc import LinearSVC
    from .model_files import looks_like_model_file, read_model_file
    from .persistence import load

    kind = looks_like_model_file(path)
    if kind is None:
        return load(path)
    if kind == "libsvm":
        raise ValueError(f"{path}: predict reads models of primalsvm and LIBLINEAR; for LIBSVM's use svm-predict.")
    foreign = read_model_file(path)
    model: Any = LinearSVC(foreign.loss)
    model.coef_, model.intercept_, model.classes_ = foreign.coef, foreign.intercepts, foreign.classes
    model.n_features_in_ = model.coef_.shape[1]
    return model


def _names(model: LinearSVC) -> tuple[str, ...] | None:
    return tuple(model.feature_names_in_) if hasattr(model, "feature_names_in_") else None


def _read_for(path: Path, width: int | None, names: tuple[str, ...] | None, **reading) -> Data:
    """Read data for a model of `width` features called `names`; its columns are brought into the model's order.

    svmlight files leave trailing zero columns out, and a column that the training never saw has weight zero.
    """
    from scipy.sparse import issparse

    from .readers import Data, DataError, read_data

    try:
        data = read_data(path, n_features=width, **reading)
    except DataError:
        wide = read_data(path, **reading)  # whatever else is wrong is raised again
        if width is None or not issparse(wide.X) or wide.X.shape[1] <= width:
            raise
        _say(f"note: {path} has {wide.X.shape[1]} features, the model {width}; the others count for nothing")
        return Data(wide.X[:, :width], wide.y, None)
    if not names or not data.feature_names or data.feature_names == names:
        return data
    if len(set(names)) < len(names) or sorted(data.feature_names) != sorted(names):
        odd = sorted(set(data.feature_names) - set(names)) or ["none, but some come twice"]
        raise ValueError(f"{path}: its columns are not the model's; unknown to the model: {_short_list(odd)}.")
    order = [data.feature_names.index(name) for name in names]
    return Data(data.X[:, order], data.y, names)


def _check_labels(path: Path, data: Data, classes: np.ndarray) -> None:
    """Words and numbers cannot be compared."""
    assert data.y is not None
    if (data.y.dtype.kind == "U") != (classes.dtype.kind in "UO"):
        raise ValueError(f"{path}: its labels ({data.y[0]}, ...) are not the model's: {_short_list(_texts(classes))}.")


def _fit(model: Any, training: Data) -> tuple[float, list[str]]:
    """Fit; the seconds it took and the warnings. Ctrl-C ends it early, where there is a model to keep."""
    import numpy as np

    begin = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(training.X, training.y)
        except KeyboardInterrupt:
            if not hasattr(model, "certificate_"):
                raise
    if training.feature_names:
        model.feature_names_in_ = np.array(training.feature_names, dtype=object)
    remarks = [" ".join(str(w.message).split()) for w in caught if issubclass(w.category, UserWarning)]
    return time.perf_counter() - begin, remarks


def _quietly(predict, X) -> np.ndarray:
    """predict(X), X being in the model's order already, which scikit-learn cannot see and would warn about."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        return predict(X)


def _texts(labels: np.ndarray) -> list[str]:
    """Labels as text; 1.0 is 1."""
    return [str(int(x)) if isinstance(x, float) and x.is_integer() else str(x) for x in labels.tolist()]


def _error_rate(model: LinearSVC, data: Data) -> float | None:
    """The share of wrong predictions; None where the data has no labels, or none that the model knows."""
    if data.y is None:
        return None
    truth = _texts(data.y)
    if set(truth).isdisjoint(_texts(model.classes_)):
        return None
    found = _texts(_quietly(model.predict, data.X))
    return sum(a != b for a, b in zip(found, truth, strict=True)) / len(truth)


# --- results: stdout --------------------------------------------------------------------------------------------------

FORMATS = {"seconds": ".2f", "primal": ".9g", "dual": ".9g", "relative_gap": ".2e", "train_error": ".2%"}
FORMATS |= {"test_error": ".2%", "C": "g"}
STYLES = {"certificate": "bold", "warning": "yellow"}


def _data_facts(path: Path, data: Data) -> dict[str, Any]:
    return {"data": str(path), "rows": data.X.shape[0], "features": data.X.shape[1]}


def _class_counts(model: LinearSVC, data: Data) -> dict[str, int]:
    import numpy as np

    assert data.y is not None
    return dict(zip(_texts(model.classes_), np.unique(data.y, return_counts=True)[1].tolist(), strict=True))


def _proof_facts(proof: Certificate) -> dict[str, Any]:
    facts: dict[str, Any] = {name: getattr(proof, name) for name in ("primal", "dual", "relative_gap", "excess")}
    facts["certificate"] = str(proof)
    return facts | ({"parts": [_proof_facts(part) for part in proof.parts]} if proof.parts else {})


def _short_list(words: list[str], most: int = 8) -> str:
    return ", ".join(words[:most]) + (", ..." if len(words) > most else "")


def _rows(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The lines of the table."""
    for name, value in report.items():
        if name == "classes":
            yield name, f"{len(value)}: " + _short_list([f"{label} ({count})" for label, count in value.items()])
        elif name == "parts":
            worst = max(part["relative_gap"] for part in value)
            yield "parts", f"{len(value)} binary problems, the worst with a relative gap of {worst:.2e}"
        elif name == "warnings":
            yield from (("warning", remark) for remark in value)
        elif name == "model" and value is None:
            yield name, "not saved; -o FILE saves it"
        elif name != "excess" and value is not None:
            yield name.replace("_", " "), format(value, FORMATS.get(name, ""))


def _print_report(report: dict[str, Any], as_json: bool, quiet: bool = False) -> None:
    if as_json:  # infinity is no JSON: null
        print(json.dumps(json.loads(json.dumps(report), parse_constant=lambda _: None)))
    elif quiet:
        for remark in report["warnings"]:
            _say(f"warning: {remark}")
    else:
        from rich.console import Console
        from rich.text import Text

        console = Console()
        for name, value in _rows(report):
            console.print(Text.assemble((f"{name:<14}", "dim"), (value, STYLES.get(name, ""))), soft_wrap=True)
