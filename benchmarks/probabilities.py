"""How good are the probabilities, and what do they cost?

    python -m benchmarks.probabilities [--sets usps,a9a,usps10] [--repeats 5] [--threads 2] [--folds] [--toy]

Quality, on the test part: log loss, Brier score, the expected calibration error (15 bins of the highest probability),
the share of errors, and on how many samples the most probable class is not the one that predict names. Beside ours
stand scikit-learn's CalibratedClassifierCV of its own SVM, same parameters, five folds, sigmoid, as an ensemble of five
models (its default) and with one model. "as calibrated" is ours before it is made to agree with predict.
Bar: our log loss is at most theirs, the standard error of the difference beside it; no sample on which predict and
predict_proba differ.

Cost: fits without and with probabilities in turns. Bar: with them at most three times as long, one fit and two more.

--folds: log loss where scores come from five folds in place of leave-one-out, by the tolerance of the folds' fits.
"""

import argparse
import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import scipy.sparse as sp
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.svm import SVC as SklearnSVC
from sklearn.svm import LinearSVC as SklearnLinearSVC

from primalsvm import SVC, LinearSVC, calibration

from . import commit, data_home, sets, timed

BINS = 15
COST = 3.0  # the bar
AGAINST = {"sigmoid": ("1 model", "5 models"), "ensemble": ("5 models",)}
TINY = 1e-15


class Cell(NamedTuple):
    name: str
    data: Any
    ours: Callable[..., Any]
    theirs: Any


def digits(home: Path) -> sets.Split:
    return sets.svmlight(home, 256, "usps/usps.xz", "usps/usps.t.xz")


def adults(home: Path) -> sets.Split:
    data = sets.split_a9a(home)
    return data._replace(X=sp.csr_matrix(data.X), X_test=sp.csr_matrix(data.X_test))


def mixed(home: Path) -> sets.Split:
    """USPS 0-4/5-9 with training and test part shuffled: the test part as it is comes from other hands."""
    data = sets.split_usps(home)
    return shuffled(np.vstack([data.X, data.X_test]), np.append(data.y, data.y_test), len(data.y))


def news(home: Path) -> sets.Split:
    """Text: many features and many support vectors, so that the scores come from folds."""
    return shuffled(*sets.news20(home), 12_000)


def shuffled(X, y: np.ndarray, n: int) -> sets.Split:
    order = np.random.default_rng(0).permutation(len(y))
    return sets.Split(X[order[:n]], y[order[:n]], X[order[n:]], y[order[n:]])


def cells(options) -> list[Cell]:
    home = Path() if options.toy else data_home(options.data_home)
    rbf: dict[str, Any] = {"C": 10.0, "gamma": 0.1 if options.toy else 1 / 128}
    kernel = (lambda **p: SVC(**rbf, n_jobs=options.threads, **p)), SklearnSVC(**rbf)
    linear = (lambda **p: LinearSVC(n_jobs=options.threads, **p)), SklearnLinearSVC()
    known: dict[str, tuple] = {
        "usps": (sets.split_usps, *kernel),
        "a9a": (adults, *linear),
        "usps10": (digits, *kernel),
        "usps10linear": (digits, *linear),
        "usps_mixed": (mixed, *kernel),
        "news20": (news, *linear),
        "toy2": (lambda _: sets.clouds(2), *kernel),
        "toy4": (lambda _: sets.clouds(4), *linear),
    }
    return [Cell(name, known[name][0](home), *known[name][1:]) for name in options.sets]


def quality(p: np.ndarray, places: np.ndarray, named: np.ndarray) -> dict[str, Any]:
    """Of probabilities, the true classes, and what predict says, both as places among the classes."""
    truth = np.eye(p.shape[1])[places]
    sure, found = p.max(axis=1), p.argmax(axis=1)
    bins = np.minimum((sure * BINS).astype(int), BINS - 1)
    off = np.bincount(bins, sure - (found == places), minlength=BINS)
    return {
        "losses": -np.log(np.maximum(p[np.arange(len(p)), places], TINY)),
        "log_loss": float(log_loss(truth, p)),
        "brier": float(np.mean(np.sum((p - truth) ** 2, axis=1))),
        "calibration_error": float(np.sum(np.abs(off)) / len(p)),
        "error": float(np.mean(found != places)),
        "differ": int(np.count_nonzero(found != named)),
    }


def calibrated(model, X) -> np.ndarray:
    """Ours before it is made to agree with predict."""
    return model._calibrated(X, model._scores(X))


def measure(cell: Cell, options) -> list[dict]:
    d, lines = cell.data, []

    def add(side: str, p: np.ndarray, model, seconds: float) -> None:
        places = np.searchsorted(model.classes_, d.y_test)
        named = np.searchsorted(model.classes_, model.predict(d.X_test))
        facts = {"commit": commit(), "set": cell.name, "side": side, "seconds": seconds}
        lines.append(facts | quality(p, places, named))
        show(lines[-1])

    for method in calibration.METHODS:
        model, seconds, _ = timed(lambda method=method: cell.ours(probability=method).fit(d.X, d.y))
        add(f"primalsvm {method}", model.predict_proba(d.X_test), model, seconds)
        add(f"  {method}, as calibrated", calibrated(model, d.X_test), model, seconds)
    for ensemble in (True, False):
        rival = CalibratedClassifierCV(cell.theirs, method="sigmoid", cv=5, ensemble=ensemble, n_jobs=options.threads)
        model, seconds, _ = timed(lambda rival=rival: rival.fit(d.X, d.y))
        add(f"scikit-learn, {'5 models' if ensemble else '1 model'}", model.predict_proba(d.X_test), model, seconds)
    return lines


def cost(cell: Cell, methods: tuple[str, ...], repeats: int) -> list[float]:
    """Times of fits with probabilities over one without: medians of turns."""
    d, ratios = cell.data, []
    for _ in range(repeats + 1):
        plain, *rest = (timed(lambda p=p: cell.ours(probability=p).fit(d.X, d.y))[1] for p in (None, *methods))
        ratios.append([seconds / plain for seconds in rest])
    return np.median(ratios[1:], axis=0).tolist()


def by_folds(cell: Cell) -> None:
    d, before = cell.data, (calibration._is_cheap, calibration.FOLD_TOL)
    try:
        calibration._is_cheap = lambda *_: False  # type: ignore[assignment]
        for tol in (1e-1, 1e-2, 1e-3, 1e-5):
            calibration.FOLD_TOL = tol
            _, once, _ = timed(lambda: cell.ours().fit(d.X, d.y))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # loose is what is measured
                model, seconds, _ = timed(lambda: cell.ours(probability="sigmoid").fit(d.X, d.y))
            found = log_loss(d.y_test, model.predict_proba(d.X_test))
            what = f"  five folds, tol {tol:g}"
            print(f"{cell.name:13} {what:28} {found:8.5f}; a fit takes {seconds / once:.2f} times as long", flush=True)
    finally:
        calibration._is_cheap, calibration.FOLD_TOL = before


def show(line: dict) -> None:
    what = f"{line['set']:13} {line['side']:28} {line['log_loss']:8.5f} {line['brier']:8.5f}"
    rest = f"{line['calibration_error']:8.5f} {100 * line['error']:6.2f} {line['differ']:5} {line['seconds']:8.2f}"
    print(what, rest, flush=True)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default="usps,a9a,usps10", type=lambda text: text.split(","))
    parser.add_argument("--repeats", default=5, type=int)
    parser.add_argument("--threads", default=2, type=int)
    parser.add_argument("--folds", action="store_true")
    parser.add_argument("--data-home")
    parser.add_argument("--jsonl", type=Path)
    parser.add_argument("--toy", action="store_true", help="generated data, in seconds")
    options = parser.parse_args(arguments)
    options.sets = ["toy2", "toy4"] if options.toy else options.sets
    return options


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    print(f"{'set':13} {'side':28} {'log loss':>8} {'Brier':>8} {'ECE':>8} {'err %':>6} differ  seconds")
    for cell in cells(options):
        lines = measure(cell, options)
        times = dict(zip(AGAINST, cost(cell, tuple(AGAINST), options.repeats), strict=True))
        by_side = {line["side"]: line for line in lines}
        for method, rivals in AGAINST.items():
            ours = by_side[f"primalsvm {method}"]
            for rival in rivals:
                apart = ours["losses"] - by_side[f"scikit-learn, {rival}"]["losses"]
                mean, error = float(np.mean(apart)), float(np.std(apart) / np.sqrt(len(apart)))
                verdict = "held" if mean <= 0 else "within the noise" if mean <= 2 * error else "missed"
                what = f"{cell.name}: log loss of {method} less that of {rival}"
                print(f"{what}: {mean:+.5f} +- {error:.5f} (bar: 0, {verdict})")
            held = "held" if times[method] <= COST else "missed"
            print(
                f"{cell.name}: a fit with {method} takes {times[method]:.2f} times as long (bar: {COST:g}, {held}); "
                f"predict differs on {ours['differ']} samples (bar: 0)",
                flush=True,
            )
        if options.folds:
            by_folds(cell)
        if options.jsonl:
            with options.jsonl.open("a") as file:
                kept = [{name: value for name, value in line.items() if name != "losses"} for line in lines]
                for line in [*kept, {"set": cell.name, "side": "cost", "ratios": times, "repeats": options.repeats}]:
                    print(json.dumps(line), file=file)


if __name__ == "__main__":
    main()
