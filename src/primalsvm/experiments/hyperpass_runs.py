r"""What the experiments of seed 002 share: its sets, its methods, and a run of one on the other, step by step.

The paper's objective is  f(w) = lambda/2 |w|^2 + 1/N sum_i max(0, 1 - y_i <x_i, w>)  without an intercept: lambda P of
ours at C = 1 / (lambda N). All values here are in its units.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..losses import Hinge
from ..matrix import as_matrix, one_blas_thread
from ..problem import LinearProblem
from ..solve import solve
from ..solvers import CuttingPlane, Hyperpass, Pegasos, choose_solver
from .data import Set, load
from .lab import Lab

LAMBDAS = {"a9a": 1e-4, "w8a": 1e-6, "covtype": 1e-5, "rcv1": 1e-4, "real-sim": 1e-5}  # see seed002_sets
NAMES = {"a9a": "adult9", "w8a": "web8", "covtype": "covertype", "rcv1": "CCAT", "real-sim": "real-sim"}  # the paper's
BATCH = 1000  # the K of its Pegasos

AS_PUBLISHED = Hyperpass(start_passes=0, near=0)
METHODS: dict[str, Any] = {
    "Hyperpass": Hyperpass(start_passes=0),  # ours, which frees the 200 samples nearest to w
    "Hyperpass as published": AS_PUBLISHED,  # frees those whose hyperplane w lies on
    "Pegasos": Pegasos(batch=BATCH, average=False),
    "cutting planes": CuttingPlane(),
}


def low(lab: Lab) -> tuple[str, ...]:
    """The sets with few features; a toy has no time to read more."""
    return lab.pick(("a9a", "w8a"), ("a9a", "w8a", "covtype"), ("a9a", "w8a", "covtype"))


def high(lab: Lab) -> tuple[str, ...]:
    """Those with many."""
    return lab.pick(("real-sim",), ("rcv1", "real-sim"), ("rcv1", "real-sim"))


def lambda_of(lab: Lab, name: str) -> float:
    """The larger, the fewer rows there are, so that C = 1 / (lambda N) stays as it is."""
    return lab.pick(100, 10, 1) * LAMBDAS[name]


def load_set(lab: Lab, name: str) -> Set:
    """A set of Table 1; real-sim is made up."""
    return load(lab, name) if name != "real-sim" else _made_up_texts(lab)


def whole(data: Set) -> tuple[Any, np.ndarray]:
    """Training and test part as one: the paper's adult9 and web8 are both parts of a9a and w8a."""
    stack = sp.vstack if sp.issparse(data.X) else np.vstack
    return stack([data.X, data.X_test]), np.concatenate([data.y, data.y_test])


def state_problem(X: Any, y: np.ndarray, lam: float) -> LinearProblem:
    return LinearProblem(y, np.full(len(y), 1 / (lam * len(y))), Hinge(), "none", X=as_matrix(X))


def best_bound(problem: LinearProblem, lam: float) -> float:
    """v*: the best proven lower bound, of a solver that is none of those compared."""
    with one_blas_thread():
        return lam * solve(problem, choose_solver(problem), tol=1e-7, max_iter=20_000, max_seconds=60).certificate.dual


class Run(NamedTuple):
    """What a method knows after each step."""

    products: np.ndarray  # <x_i, .> over N, since the beginning
    primal: np.ndarray  # f(w)
    bound: np.ndarray  # its own lower bound, the best so far; 0 where it has none
    free: np.ndarray  # samples that are free in the third lower bound of Hyperpass
    models: list[np.ndarray]  # w, where they are kept

    def steps_to(self, gap: float, v: float, counts: np.ndarray | None = None) -> float:
        """Steps, or another count of each, until f(w) - v <= gap; inf if never."""
        at = np.flatnonzero(self.primal - v <= gap)
        return np.inf if not len(at) else float(at[0] + 1 if counts is None else counts[at[0]])


def walk(problem: LinearProblem, solver: Any, lam: float, steps: int, v: float, stop: float, keep: bool = False) -> Run:
    """Steps of a method until f(w) - v* <= stop. A step of Pegasos is a pass; it and one of cutting planes look at all
    N samples, and so does the one product a sample that Hyperpass needs without shrinking."""
    state, bound = solver.init(problem), 0.0
    rows: list[tuple[float, float, float, int]] = []
    models = []
    for step in range(1, steps + 1):
        with one_blas_thread():  # the small programs are too small for more
            solver.step(problem, state)
        primal = lam * problem.primal(state.f, state.b)
        if state.alpha is not None:  # of which f_alpha is known: that takes no pass
            f = state.low[:-1] if isinstance(solver, Hyperpass) else state.f
            bound = max(bound, lam * problem.dual(state.alpha, f))
        counted = isinstance(solver, Hyperpass)
        rows.append((state.passes if counted else step, primal, bound, len(state.near) if counted else 0))
        if keep:
            models.append(state.f.copy())
        if primal - v <= stop or getattr(state, "ended", False):
            break
    products, primals, bounds, free = np.array(rows).T
    return Run(products, primals, bounds, free, models)


def said(count: float) -> str:
    return "never" if np.isinf(count) else f"{count:.0f}"


def _made_up_texts(lab: Lab) -> Set:
    """72309 texts of 20958 words, 51 each: the sizes of real-sim."""
    note = (
        "real-sim is made up, with the sizes of the real one. C11 and the whole of CCAT are left out: rcv1 is a part "
    )
    note += "of CCAT, 27613 documents of 804414."
    if note not in lab.notes:
        lab.notes.append(note)
    n, d, rng = lab.pick(600, 6000, 72_309), 20_958, np.random.default_rng(0)
    popular = np.cumsum(1 / np.arange(1, d + 1))
    words = np.searchsorted(popular / popular[-1], rng.random(n * 51)).clip(0, d - 1)
    X = sp.csr_matrix((np.ones(n * 51), words, np.arange(0, n * 51 + 1, 51)), shape=(n, d))
    X.sum_duplicates()
    X = sp.csr_matrix(sp.diags_array(1 / np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())) @ X)
    scores = X @ rng.standard_normal(d)
    y = np.where(scores + 0.3 * scores.std() * rng.standard_normal(n) > np.quantile(scores, 0.69), 1.0, -1.0)
    test = n // 5
    return Set(X[test:], y[test:], X[:test], y[:test])
