"""Benchmarks: each prints ratios and writes one JSON line per record; all run at toy size in the test suite.

Here: the data and the record. No data are shipped: a folder (--data-home, or the variable PRIMALSVM_DATA) holds the
public sets, and where there is none random data of the same shapes can stand in.
"""

import json
import lzma
import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file
from threadpoolctl import threadpool_info

from primalsvm import LinearProblem
from primalsvm.certificate import certificate
from primalsvm.matrix import as_matrix

ROOT = Path(__file__).resolve().parent.parent
BEST = {  # the least P known, which our gap proves to be P* up to 1e-7; covtype's hinge up to 1.3e-4
    ("rcv1", "hinge"): 3685.4534,
    ("rcv1", "squared_hinge"): 3138.5622,
    ("usps", "hinge"): 2174.3572,
    ("usps", "squared_hinge"): 2878.1427,
    ("covtype", "hinge"): 337953.2,
    ("covtype", "squared_hinge"): 403423.63,
}


class Data(NamedTuple):
    name: str
    X: sp.csr_matrix | np.ndarray
    y: np.ndarray
    passes: int  # how many the long comparison makes

    def problem(self, loss) -> LinearProblem:
        return LinearProblem(self.y, np.ones(len(self.y)), loss, "none", X=as_matrix(self.X))


def narrow(X) -> sp.csr_matrix:
    """32-bit indices for everybody: LIBLINEAR has no others, and scikit-learn's reader returns 64-bit ones."""
    X = sp.csr_matrix(X)
    return sp.csr_matrix((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)


def load_rcv1(home: Path) -> Data:
    with lzma.open(home / "rcv1_subsets/rcv1_ccat_distinct.svm.xz", "rb") as file:
        X, y = load_svmlight_file(file, n_features=47236)
    return Data("rcv1", narrow(X), y, 20)


def load_usps(home: Path) -> Data:
    with lzma.open(home / "usps/usps.xz", "rb") as file:
        X, label = load_svmlight_file(file, n_features=256)
    return Data("usps", X.toarray(), np.where(label <= 5, 1.0, -1.0), 20)  # 0-4 against 5-9


def load_covtype(home: Path) -> Data:
    with lzma.open(home / "covtype/covtype.csv.xz", "rt") as file:
        table = np.loadtxt(file, delimiter=",", skiprows=1)
    X = np.ascontiguousarray(table[:, :54])
    X -= X.min(axis=0)
    X /= np.where(X.any(axis=0), X.max(axis=0), 1.0)
    return Data("covtype", X, np.where(table[:, 54] == 2, 1.0, -1.0), 8)


def synthetic(toy: bool) -> Iterator[Data]:
    """Random data of the shapes of rcv1 and USPS, or small."""
    rng = np.random.default_rng(0)
    n, d, density = (300, 200, 0.05) if toy else (27613, 47236, 2144845 / 27613 / 47236)
    sparse = narrow(sp.random(n, d, density, format="csr", rng=rng))
    dense = rng.standard_normal((200, 10) if toy else (7291, 256))
    for name, X in (("sparse", sparse), ("dense", dense)):
        scores = X @ rng.standard_normal(X.shape[1])
        y = np.where(scores + scores.std() * rng.standard_normal(len(scores)) > 0, 1.0, -1.0)
        yield Data(name, X, y, 6)


def real(home: Path) -> Iterator[Data]:
    for loader in (load_rcv1, load_usps, load_covtype):
        try:
            yield loader(home)
        except FileNotFoundError as error:
            print(f"left out: there is no {error.filename}")


def data_folder(given: str | None) -> Path:
    return Path(given or os.environ.get("PRIMALSVM_DATA") or ROOT.parent / "shared" / "data").resolve()


def data_home(given: str | None) -> Path:
    """The folder with the data, or the end of the program with a sentence."""
    home = data_folder(given)
    if not home.is_dir():
        raise SystemExit(
            f"There is no data folder {home}. Name one that has rcv1_subsets/, usps/ or covtype/ by --data-home or the "
            "variable PRIMALSVM_DATA, or take random data of the same shapes by --synthetic (or --toy, in seconds)."
        )
    return home


class Run(NamedTuple):
    """One training from scratch."""

    solver: str
    iteration: int
    seconds: float
    cpu: float
    f: np.ndarray
    alpha: np.ndarray | None = None
    passes: float | None = None  # samples visited / n, where we know


def timed(train: Callable) -> tuple:
    seconds, cpu = time.perf_counter(), time.process_time()
    result = train()
    return result, time.perf_counter() - seconds, time.process_time() - cpu


def commit() -> str:
    """The commit that was measured, with a + where files differ from it."""
    ask = ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+"]
    try:
        return subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


class Report:
    """Prints the ratios; writes every run down, judged by our bounds whoever made it."""

    def __init__(self, jsonl):
        self.jsonl = jsonl
        self.seconds = self.cpu = 0.0
        packages = ("primalsvm", "numpy", "scipy", "scikit-learn", "numba", "liblinear-official")
        self.facts = {
            "commit": commit(),
            "versions": {"python": platform.python_version()} | {name: version(name) for name in packages},
            "threads": max([pool["num_threads"] for pool in threadpool_info()], default=1),
        }
        print(f"{'data':8} {'what':32} {'against':24} {'ours':>9} {'theirs':>9}   ratio  quartiles")

    def record(self, data: Data, loss, repeat: int, run: Run) -> None:
        seen = certificate(data.problem(loss), run.f, 0.0, run.alpha, deep=False)
        self.seconds, self.cpu = self.seconds + run.seconds, self.cpu + run.cpu
        line = self.facts | {"problem": data.name, "loss": loss.name, "C": 1.0, "solver": run.solver, "repeat": repeat}
        line |= {"iteration": run.iteration, "passes": run.passes, "seconds": run.seconds, "cpu_seconds": run.cpu}
        line |= {"primal": seen.primal, "dual": seen.dual, "relative_gap": seen.relative_gap}
        print(json.dumps(line), file=self.jsonl, flush=True)

    def ratio(self, data: Data, what: str, against: str, ours: list[float], theirs: list[float]) -> None:
        a, b = np.array(ours), np.array(theirs)
        low, middle, high = np.quantile(a / b, (0.25, 0.5, 0.75))
        times = f"{1e3 * np.median(a):6.2f} ms {1e3 * np.median(b):6.2f} ms"
        print(f"{data.name:8} {what:32} {against:24} {times}  {middle:6.2f}  {low:.2f} .. {high:.2f}", flush=True)
