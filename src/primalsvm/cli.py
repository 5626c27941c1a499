"""The command line: primalsvm train, tune, predict, certify, demo.

Results go to stdout; progress, notes and errors to stderr. Whatever is wrong with the input is one line that begins
with "error:". The heavy imports (NumPy, SciPy, scikit-learn, Numba) are inside the commands, so that --help is quick.
"""

from __future__ import annotations

import re
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

try:
    import rich  # noqa: F401  (used inside the functions; missed here already)
    import typer
except ImportError:
    raise SystemExit('The command line needs typer and rich: pip install "primalsvm[cli]"') from None

from .console import Progress, check_output, one_line_errors, print_report, say, short_list

if TYPE_CHECKING:
    import numpy as np

    from .certificate import Certificate
    from .linear_svc import LinearSVC
    from .readers import Data
    from .svc import SVC

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

Probability = Annotated[
    Literal["sigmoid", "isotonic"] | None, typer.Option(help="Calibrate probabilities too, for predict --proba.")
]
LossName = Literal["squared_hinge", "hinge", "huber"]
InterceptName = Literal["free", "none", "penalized"]
KernelName = Literal["linear", "rbf", "poly", "laplacian", "wendland"]
DataPath = Annotated[
    Path, typer.Argument(metavar="DATA", help="svmlight, CSV or TSV, also .gz, .bz2, .xz; .npz, .npy, Parquet.")
]
Label = Annotated[str | None, typer.Option(metavar="COLUMN", help="With the labels: name, or position from 0.")]
Labels = Annotated[Path | None, typer.Option(metavar="FILE", help="A .npy file with the labels, of .npy or Parquet.")]
FormatName = Literal["svmlight", "csv", "tsv", "npz", "npy", "parquet"]
MemoryLimit = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Of rows or kernel matrices, as 500M or 2G; larger files are read in pieces."),
]
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
    labels: Labels = None,
    test_labels: Annotated[Path | None, typer.Option(metavar="FILE", help="The same of the test data.")] = None,
    file_format: Format = None,
    kernel: Annotated[KernelName, typer.Option(help="Of the similarity between samples.")] = "linear",
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
    loss: Annotated[
        LossName | None, typer.Option(help="Of margins; squared_hinge by default, with a kernel hinge.")
    ] = None,
    C: Annotated[float, typer.Option("--C", help="Weight of the losses against the norm of the model.")] = 1.0,
    tol: Annotated[float, typer.Option(help="Relative duality gap to reach.")] = 1e-3,
    solver: Annotated[str, typer.Option(help="Algorithm; a wrong name lists them.")] = "auto",
    max_iter: Annotated[int | None, typer.Option(help="Limit on the solver's steps; 1000 if linear.")] = None,
    max_seconds: Annotated[float | None, typer.Option(help="Limit on the time of training.")] = None,
    intercept: Annotated[InterceptName, typer.Option(help="LIBLINEAR's is penalized.")] = "free",
    multi_class: Annotated[
        Literal["ovr", "ovo"] | None, typer.Option(help="One class against the rest (if linear), or pairs.")
    ] = None,
    class_weight: Annotated[Literal["balanced"] | None, typer.Option(help="All classes count the same.")] = None,
    probability: Probability = None,
    jobs: Annotated[int, typer.Option(help="Threads; -1 for all cores.")] = 1,
    seed: Annotated[int | None, typer.Option(help="Seed of the random numbers.")] = None,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print warnings and errors only.")] = False,
) -> None:
    """Train a classifier, linear or with a kernel, and prove how good it is.

    Ctrl-C stops early: the best model so far is kept, with its certificate.
    """
    with one_line_errors(), Progress(quiet) as progress:
        check_output(output, data, test)
        progress.say("loading primalsvm")
        from .persistence import save
        from .readers import read_data

        options = {"loss": loss, "max_iter": max_iter, "multi_class": multi_class}
        of_kernel: dict[str, Any] = {"gamma": gamma, "degree": degree, "coef0": coef0}
        of_kernel |= {"approximation": approximation, "n_basis": basis, "grow": grow}
        limit: float | None = _bytes(memory_limit)
        if kernel != "linear":
            of_kernel["memory_limit"] = limit if memory_limit else None
            if approximation is None or grow == "gap":  # then all rows are in memory
                limit = None
        model = _make_model(
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
        progress.say(f"reading {data}")
        reading: dict[str, Any] = {"label": label, "format": file_format, "memory_limit": limit}
        training = progress.follow(read_data(data, labels=labels, **reading))
        width, names = training.X.shape[1], training.feature_names
        reading["labels"] = test_labels
        testing = None if test is None else _read_for(test, width, names, kernel != "linear", **reading)
        progress.say("training")
        seconds, remarks = _fit(model, training)
        if output is not None:
            save(model, output)
        test_error = None if testing is None else _error_rate(model, testing)
        if testing is not None and test_error is None:
            remarks.append(f"no test error: {test} has none of the model's labels.")
        report = {
            **_data_facts(data, training),
            **_reading_facts(training),
            "classes": _class_counts(model, training),
            **_kernel_facts(model),
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
        print_report(report, as_json, quiet)
    raise typer.Exit({"converged": 0, "interrupted": 130}.get(model.status_, 3))


@app.command(epilog=f"Example: primalsvm tune heart.svm --kernel rbf --picture path.png -o heart.psvm\n\n{EXIT_CODES}")
def tune(
    data: DataPath,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="MODEL", help="Save the best model here.")
    ] = None,
    picture: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the scores: .png, .svg or .pdf.")] = None,
    test: Annotated[Path | None, typer.Option(metavar="DATA", help="Count its errors on this data too.")] = None,
    label: Label = None,
    labels: Labels = None,
    test_labels: Annotated[Path | None, typer.Option(metavar="FILE", help="The same of the test data.")] = None,
    file_format: Format = None,
    kernel: Annotated[KernelName, typer.Option(help="Of the similarity between samples.")] = "linear",
    Cs: Annotated[str, typer.Option("--C", help="How many values of C, or the values: 0.1,1,10.")] = "10",
    gammas: Annotated[
        str | None, typer.Option("--gamma", help="The same for the kernel's gamma; 5 by default.")
    ] = None,
    folds: Annotated[str, typer.Option(help="Parts of the data, each held out once; or loo.")] = "5",
    simplest: Annotated[
        bool, typer.Option("--one-standard-error", help="Take the least C that is as good but for chance.")
    ] = False,
    loss: Annotated[
        LossName | None, typer.Option(help="Of margins; squared_hinge by default, with a kernel hinge.")
    ] = None,
    tol: Annotated[float, typer.Option(help="Relative duality gap to reach, in every fit.")] = 1e-3,
    intercept: Annotated[InterceptName, typer.Option(help="LIBLINEAR's is penalized.")] = "free",
    multi_class: Annotated[
        Literal["ovr", "ovo"] | None, typer.Option(help="One class against the rest (if linear), or pairs.")
    ] = None,
    class_weight: Annotated[Literal["balanced"] | None, typer.Option(help="All classes count the same.")] = None,
    probability: Probability = None,
    memory_limit: Annotated[str | None, typer.Option(metavar="SIZE", help="Of kernel matrices, as 500M or 2G.")] = None,
    jobs: Annotated[int, typer.Option(help="Threads; -1 for all cores.")] = -1,
    seed: Annotated[int | None, typer.Option(help="Seed of the random numbers.")] = None,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print warnings and errors only.")] = False,
) -> None:
    """Choose C, and a kernel's gamma, by cross-validation, and train with them.

    Every fit on the way is proven to its tolerance. Ctrl-C takes the best of what was tried so far.
    """
    with one_line_errors(), Progress(quiet) as progress:
        check_output(output, data, test)
        check_output(picture, data, test)
        progress.say("loading primalsvm")
        from .persistence import save
        from .readers import read_data
        from .tune import draw, grid_facts, make_search, print_grid

        options: dict[str, Any] = {"loss": loss, "multi_class": multi_class, "gammas": gammas}
        options["memory_limit"] = _bytes(memory_limit) if memory_limit else None
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
        reading: dict[str, Any] = {"label": label, "format": file_format, "memory_limit": None}
        training = read_data(data, labels=labels, **reading)
        width, names = training.X.shape[1], training.feature_names
        reading["labels"] = test_labels
        testing = None if test is None else _read_for(test, width, names, kernel != "linear", **reading)
        progress.say("tuning")
        seconds, remarks = _fit(search, training)
        model = search.best_estimator_
        if training.feature_names:
            model.feature_names_in_ = search.feature_names_in_
        if output is not None:
            save(model, output)
        if picture is not None:
            draw(search, picture)
        report = {
            **_data_facts(data, training),
            "classes": _class_counts(model, training),
            **grid_facts(search),
            "seconds": seconds,
            **_kernel_facts(model),
            "solver": model.solver_.name,
            **_proof_facts(model.certificate_),
            "train_error": _error_rate(model, training),
            "test_error": None if testing is None else _error_rate(model, testing),
            "picture": None if picture is None else str(picture),
            "model": None if output is None else str(output),
            "warnings": remarks,
        }
        progress.stop()
        if not (as_json or quiet):
            print_grid(search)
        print_report(report, as_json, quiet)
    raise typer.Exit(130 if search.interrupted_ else 0 if model.status_ == "converged" else 3)


@app.command(epilog="Example: primalsvm predict a9a.psvm a9a.t.xz -o labels.txt")
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

        from .persistence import write_whole

        classifier = _load_model(model)
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
        reading["memory_limit"] = None if keep else _bytes(memory_limit)
        samples = _read_for(data, classifier.n_features_in_, _names(classifier), keep, **reading)
        classifier = _widened(classifier, samples.X.shape[1])
        found = _quietly(classifier.predict, samples.X)
        values = np.reshape(_quietly(classifier.decision_function, samples.X), (len(found), -1)) if scores else None
        if proba:
            values = _quietly(classifier.predict_proba, samples.X)

        def lines(start: int) -> str:
            part = slice(start, start + 1000)
            texts = _texts(found[part])
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
        error = _error_rate(classifier, samples, found)
        if error is not None:
            say(f"error rate {error:.2%} ({round(error * len(found))} of {len(found)})")


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
    labels: Labels = None,
    file_format: Format = None,
    as_json: AsJson = False,
) -> None:
    """Prove how far from the optimum a model can be.

    It does not matter who trained it. DATA is what it was trained on.
    """
    with one_line_errors(), Progress() as progress:
        progress.say("loading primalsvm")
        from .claims import certify as judge
        from .model_files import looks_like_model_file, read_model_file

        progress.say(f"reading {data}")
        reading: dict[str, Any] = {"label": label, "labels": labels, "format": file_format}
        kind = looks_like_model_file(model)
        if kind is None:
            judged: Any = _load_model(model)
            own = {"loss": getattr(judged.loss, "name", judged.loss), "C": judged.C}
            own["intercept"] = next(name for name, value in FIT_INTERCEPT.items() if value == judged.fit_intercept)
            samples = _read_for(data, judged.n_features_in_, _names(judged), hasattr(judged, "kernel_"), **reading)
            _check_labels(data, samples, judged.classes_)
        elif C is None:
            raise ValueError(f"{model}: a {kind.upper()} file does not say its C; give the one of its training: --C 1.")
        else:
            judged, foreign = model, read_model_file(model)
            own = {"loss": foreign.loss, "C": C, "intercept": foreign.intercept}
            samples = _read_for(data, None if foreign.coef is None else foreign.coef.shape[1], None, False, **reading)
            _check_labels(data, samples, foreign.classes)
        progress.say("certifying")
        begin = time.perf_counter()
        given = {"C": C, "loss": loss, "intercept": intercept}
        proof = judge(judged, samples.X, samples.y, **given)  # type: ignore[arg-type]
        report = {"model": str(model), **_data_facts(data, samples), **_kernel_facts(judged)}
        report |= {name: value if given[name] is None else given[name] for name, value in own.items()}
        report |= {"seconds": time.perf_counter() - begin, **_proof_facts(proof)}
        progress.stop()
        print_report(report, as_json)


OutputFolder = Annotated[Path, typer.Option(metavar="DIR", help="Folder for what the demo writes.")]


@app.command(epilog="Example: primalsvm demo --output demo")
def demo(output: OutputFolder = Path("primalsvm-demo")) -> None:
    """Train, certify and draw small examples."""
    with one_line_errors():
        from .demo import run

        run(output)


# --- data and models --------------------------------------------------------------------------------------------------


def _make_model(kernel: str, of_kernel: dict[str, Any], **options) -> Any:
    """The estimator that the options of train describe."""
    if kernel == "linear":
        from .linear_svc import LinearSVC

        if of_kernel:
            option = "--" + next(iter(of_kernel)).replace("n_basis", "basis").replace("_", "-")
            raise ValueError(f"{option} goes with a kernel; add for instance --kernel rbf, or leave it out.")
        return LinearSVC(**options)
    from .svc import SVC

    gamma = of_kernel.get("gamma", "scale")
    if gamma not in ("scale", "auto"):
        try:
            of_kernel["gamma"] = float(gamma)
        except ValueError:
            raise ValueError(f"gamma must be scale, auto or a number, got {gamma!r}.") from None
    return SVC(kernel, **of_kernel, **options)


def _bytes(limit: str | None) -> float:
    """The --memory-limit as a number."""
    from .kernel_matrix import MEMORY_LIMIT

    size = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)(?:i?B)?", limit or f"{MEMORY_LIMIT}", re.IGNORECASE)
    if not size:
        raise ValueError(f"memory_limit must be a size such as 500M or 2G, got {limit!r}.")
    return float(size[1]) * 1024 ** " KMGT".index(size[2].upper() or " ")


def _load_model(path: Path) -> LinearSVC | SVC:
    """A model of ours, or another program's as one of ours."""
    from .foreign_models import as_estimator
    from .model_files import looks_like_model_file, read_model_file
    from .persistence import load

    return load(path) if looks_like_model_file(path) is None else as_estimator(read_model_file(path))


def _widened(model: Any, width: int) -> Any:
    """The model for data with more features: a kernel sees them, and the support vectors are zero there."""
    if not hasattr(model, "kernel_") or width <= model.n_features_in_:
        return model
    from copy import copy

    from scipy.sparse import csr_array

    vectors = csr_array(model.support_vectors_, copy=True)
    vectors.resize((vectors.shape[0], width))
    wide = copy(model)
    wide.support_vectors_, wide.n_features_in_ = vectors, width
    return wide


def _names(model: LinearSVC | SVC) -> tuple[str, ...] | None:
    return tuple(model.feature_names_in_) if hasattr(model, "feature_names_in_") else None


def _read_for(path: Path, width: int | None, names: tuple[str, ...] | None, keep: bool, **reading) -> Data:
    """Read data for a model of `width` features called `names`; its columns are brought into the model's order.

    svmlight files leave trailing zero columns out. A column that the training never saw has weight zero in a linear
    model; one with a kernel must see it (`keep`).
    """
    from scipy.sparse import issparse

    from .chunks import Chunks
    from .readers import Data, DataError, read_data

    try:
        data = read_data(path, n_features=width, **reading)
    except DataError:
        wide = read_data(path, **reading)  # whatever else is wrong is raised again
        sparse = wide.X.sparse if isinstance(wide.X, Chunks) else issparse(wide.X)
        if width is None or not sparse or wide.X.shape[1] <= width:
            raise
        effect = "which are zero in its support vectors" if keep else "the others count for nothing"
        say(f"note: {path} has {wide.X.shape[1]} features, the model {width}; {effect}")
        return Data(wide.X if keep else _columns(wide.X, range(width)), wide.y, None)
    if not names or not data.feature_names or data.feature_names == names:
        return data
    if len(set(names)) < len(names) or sorted(data.feature_names) != sorted(names):
        odd = sorted(set(data.feature_names) - set(names)) or ["none, but some come twice"]
        raise ValueError(f"{path}: its columns are not the model's; unknown to the model: {short_list(odd)}.")
    order = [data.feature_names.index(name) for name in names]
    return Data(_columns(data.X, order), data.y, names)


def _columns(X: Any, columns: Sequence[int]) -> Any:
    """X[:, columns]"""
    from .chunks import Chunks

    if not isinstance(X, Chunks):
        return X[:, columns]
    return X.map(lambda piece: piece[:, columns], len(columns), row_bytes=0)


def _check_labels(path: Path, data: Data, classes: np.ndarray) -> None:
    """Words and numbers cannot be compared."""
    assert data.y is not None
    if (data.y.dtype.kind == "U") != (classes.dtype.kind in "UO"):
        raise ValueError(f"{path}: its labels ({data.y[0]}, ...) are not the model's: {short_list(_texts(classes))}.")


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


def _error_rate(model: LinearSVC | SVC, data: Data, found: np.ndarray | None = None) -> float | None:
    """The share of wrong predictions; None where the data has no labels, or none that the model knows."""
    import numpy as np

    if data.y is None:
        return None
    known = _texts(model.classes_)

    def places(labels: np.ndarray) -> np.ndarray:
        """Among the model's; not by making a text of each."""
        some, inverse = np.unique(labels, return_inverse=True)
        return np.array([known.index(text) if text in known else -1 for text in _texts(some)])[inverse]

    truth = places(data.y)
    if (truth < 0).all():
        return None
    if found is None:
        found = _quietly(_widened(model, data.X.shape[1]).predict, data.X)
    return float(np.mean(places(found) != truth))


def _data_facts(path: Path, data: Data) -> dict[str, Any]:
    return {"data": str(path), "rows": data.X.shape[0], "features": data.X.shape[1]}


def _reading_facts(data: Data) -> dict[str, Any]:
    """How the rows were read, where that was in pieces."""
    from .chunks import Chunks

    if not isinstance(data.X, Chunks):
        return {}
    kept = f"those beyond {data.X.memory_limit / 2**20:.3g} MiB (--memory-limit) not kept in memory"
    return {"reading": f"in {len(data.X.bounds) - 1} pieces, {kept}", "passes": data.X.passes}


def _kernel_facts(model: Any) -> dict[str, Any]:
    """The kernel and how many support vectors it has; nothing for linear models and other programs' files."""
    if not hasattr(model, "kernel_"):
        return {}
    kernel = model.kernel_
    name = f"{kernel.name}, gamma {kernel.gamma:.6g}"
    if kernel.name == "poly":
        name += f", degree {kernel.degree}, coef0 {kernel.coef0:g}"
    facts = {"kernel": name, "support": len(model.support_)}
    if model.approximation is not None:
        facts["approximation"] = f"{model.approximation}; what is proven is about this basis, see certify"
        if hasattr(model, "full_certificate_"):
            facts["exact_gap"] = model.full_certificate_.relative_gap
    return facts


def _class_counts(model: LinearSVC | SVC, data: Data) -> dict[str, int]:
    import numpy as np

    assert data.y is not None
    return dict(zip(_texts(model.classes_), np.unique(data.y, return_counts=True)[1].tolist(), strict=True))


def _proof_facts(proof: Certificate) -> dict[str, Any]:
    facts: dict[str, Any] = {name: getattr(proof, name) for name in ("primal", "dual", "relative_gap", "excess")}
    facts["certificate"] = str(proof)
    return facts | ({"parts": [_proof_facts(part) for part in proof.parts]} if proof.parts else {})
