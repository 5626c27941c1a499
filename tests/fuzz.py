r"""Try to refute the certificates: random small problems, every claim checked in exact rational arithmetic.

    python tests/fuzz.py --problems 20000 --seed 0 --jobs 2        any violation: exit status 1
    python tests/fuzz.py --only SEED                               that one problem again, described

A problem is drawn from its seed alone (loss, intercept, weights, scales, storage, linear or kernel), and so are the
models and the dual points, right and wrong, that are put before the judge. The truth comes from `reference`. Refuted is

    primal      below P of the model, or P of the model below primal - rounding
    dual        above the optimum; or above D of the alpha that is said to prove it, made exactly feasible
    reachable   below the optimum
    gap, relative_gap, excess    what follows from these three
    alpha       outside its box
    history     a bound that gets worse
    anything    that raises or is not a number

A judge that always says "dual = 0" is never wrong, so the summary also says how tight the bounds are.
"""

import argparse
import math
import multiprocessing
import sys
import time
import traceback
import warnings
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from flint import fmpq
from reference import dual_value, is_positive_semidefinite, kernel_primal_value, optimum, primal_value
from sklearn.exceptions import ConvergenceWarning

from primalsvm import certificate as judge
from primalsvm import chunks as chunks_module
from primalsvm import problem as problem_module
from primalsvm.chunks import Chunked, as_chunks
from primalsvm.kernel_matrix import StoredKernel
from primalsvm.kernels import Kernel
from primalsvm.linear_svc import LinearSVC
from primalsvm.losses import Hinge, Huber, Loss, SquaredHinge
from primalsvm.matrix import Dense, Matrix, as_matrix
from primalsvm.problem import KernelProblem, LinearProblem, Problem
from primalsvm.reduced import Basis, Mapped
from primalsvm.solve import Solver, solve

SEEDS_PER_RUN = 1_000_000  # problem i of run s has the seed s * SEEDS_PER_RUN + i
SOLVE_SHARE = 0.1  # of the problems also go through every solver
ESTIMATOR_SHARE = 0.04  # ... and through LinearSVC
DRAWN = ("dense", "csr32", "csr64", "linear kernel", "rbf kernel")
STORAGES = (*DRAWN, "mapped")
ROUNDED = fmpq(1, 2**51)  # relative error of a quotient of a difference: relative_gap is made of bounds, it is none
EXAMPLES = 5  # seeds named for each remarkable thing


# ------------------------------------------------------------------------------------------------- the random problem


@dataclass
class Case:
    """A problem as primalsvm sees it, and the exact one that it stands for."""

    seed: int
    X: np.ndarray  # (n, d) float32 or float64
    problem: Problem
    storage: str
    kernel: np.ndarray | None  # the exact kernel matrix where there is no X behind it (rbf)
    rng: np.random.Generator  # for what follows: models, dual points

    @property
    def facts(self) -> dict:
        """What `reference` needs besides X or K."""
        p = self.problem
        return {
            "y": p.y,
            "cost": p.cost,
            "loss": p.loss.name,
            "intercept": p.intercept,
            "h": getattr(p.loss, "h", None),
            "intercept_scaling": p.intercept_scaling,
        }

    @cached_property
    def upper(self) -> np.ndarray:
        """Where the box of the alphas ends, from the loss's name alone: the refuter believes the problem nothing."""
        cost = self.problem.cost
        return np.where(cost > 0, np.inf, 0.0) if self.problem.loss.name == "squared_hinge" else cost

    @cached_property
    def optimum(self):
        if self.kernel is not None:
            return optimum(None, K=self.kernel, **self.facts)
        return optimum(self.X, **self.facts)

    @cached_property
    def best(self) -> fmpq:
        assert self.optimum.exact, f"the reference did not finish on seed {self.seed}"
        return rational(self.optimum.value_low)

    @cached_property
    def gram(self) -> list:
        """The exact kernel matrix of a kernel problem."""
        if self.kernel is not None:
            return [[rational(v) for v in row] for row in self.kernel.tolist()]
        rows = [[rational(v) for v in row] for row in self.X.tolist()]
        return [[sum((a * b for a, b in zip(u, v, strict=True)), fmpq(0)) for v in rows] for u in rows]

    def primal(self, f, b) -> fmpq | None:
        """P(f, b); None where the model is not finite: then P is infinite."""
        if not (np.isfinite(f).all() and np.isfinite(b)):
            return None
        if self.problem.kind == "kernel":
            return rational(kernel_primal_value(self.gram, beta=f, b=b, **self.facts))
        return rational(primal_value(self.X, w=f, b=b, **self.facts))

    def dual(self, alpha: list) -> fmpq:
        X, K = (None, self.gram) if self.problem.kind == "kernel" else (self.X, None)
        return rational(dual_value(X, alpha=alpha, K=K, **self.facts))

    def optimal_model(self) -> tuple[np.ndarray, float]:
        f = self.optimum.beta if self.problem.kind == "kernel" else self.optimum.w
        return floats(f), float(self.optimum.b)

    def describe(self) -> str:
        p = self.problem
        stored = p.K.array() if isinstance(p, KernelProblem) else self.X
        with np.printoptions(precision=17, linewidth=115, floatmode="maxprec"):
            return (
                f"seed {self.seed}: {p.loss!r}, intercept {p.intercept} (scaling {p.intercept_scaling}), "
                f"{self.storage}, {stored.dtype}\ny = {p.y!r}\ncost = {p.cost!r}\nX = {self.X!r}\n"
                f"optimum = {float(self.optimum.value_low)!r}"
            )


def rational(value) -> fmpq:
    return value if isinstance(value, fmpq) else fmpq(*value.as_integer_ratio())


def floats(values) -> np.ndarray:
    return np.array([float(v) for v in values])


def log_uniform(rng, low: float, high: float, size=None):
    return 10.0 ** rng.uniform(np.log10(low), np.log10(high), size)


def make_case(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 11)), int(rng.integers(1, 6))
    storage = str(rng.choice(DRAWN, p=(0.3, 0.15, 0.15, 0.25, 0.15)))
    dtype = np.float32 if rng.random() < 0.4 else np.float64
    y = draw_labels(rng, n)
    X = draw_rows(rng, y, d)
    # a linear kernel rounds off X X' of a float64 X; of a float32 one the products would often be exact
    X = X.astype(np.float64 if "kernel" in storage else dtype)
    common = {
        "y": y,
        "cost": log_uniform(rng, 1e-4, 1e6) * draw_weights(rng, y),
        "loss": draw_loss(rng),
        "intercept": str(rng.choice(("none", "penalized", "free"), p=(0.25, 0.3, 0.45))),
        "intercept_scaling": float(rng.choice((0.1, 1.0, 30.0))),
    }
    if "kernel" not in storage:
        matrix, exact_X, storage = draw_matrix(seed, X, storage)
        return Case(seed, exact_X, LinearProblem(X=matrix, **common), storage, None, rng)
    exact = rbf(rng, X) if storage == "rbf kernel" else None
    K = round_kernel(rng, X, exact, dtype)
    return Case(seed, X, KernelProblem(K=RoughlyToo(K, seed), **common), storage, exact, rng)


class RoughlyToo(StoredKernel):
    """A matrix whose rough products are off by as much as they say they can be, or by less."""

    def __init__(self, values: np.ndarray, seed: int):
        super().__init__(values)
        self.rng = np.random.default_rng([seed, 2])

    def rough_matvec(self, v, picked):
        kind, true = self.rng.random(), self.matvec(v, picked)
        if kind < 0.2 or not np.isfinite(true).all():
            return None
        size = np.abs(v) @ np.sqrt(self.diagonal) * np.sqrt(self.diagonal[picked])
        error = log_uniform(self.rng, 1e-9, 1e2, len(picked)) * size
        shift = self.rng.choice((-1.0, 1.0), len(picked)) if kind < 0.6 else self.rng.uniform(-1, 1, len(picked))
        error[self.rng.random(len(picked)) < 0.1] = np.inf
        off = np.where(np.isfinite(error), shift * error, np.nan)  # one that nothing is known of may be anything
        return true + off, error * (1 + 1e-9) + (self.accuracy + 1e-12) * size


def draw_matrix(seed: int, X: np.ndarray, storage: str) -> tuple[Matrix, np.ndarray, str]:
    """(X as it is stored, X exactly, the storage): now and then in pieces, or the features of a basis, G R."""
    rng = np.random.default_rng([seed, 1])  # apart, so that all else stays what it was without this
    kind = rng.random()
    if kind < 0.15:
        return Chunked(as_chunks(store(X, storage), memory_limit=rng.choice((1.0, 1e9)))), X, storage
    if kind < 0.5 and storage == "dense":
        d = X.shape[1]
        R = np.triu(rng.standard_normal((d, d)) * log_uniform(rng, 1e-3, 1e3, (d, 1)))
        R[np.diag_indices(d)] += np.sign(R.diagonal()) * 0.1
        basis = Basis(Kernel(), np.arange(d), X[:0], np.linalg.inv(R).T, R)
        rows, columns = X.tolist(), R.T.tolist()
        exact = [
            [sum((Fraction(a) * Fraction(b) for a, b in zip(g, r, strict=True)), Fraction(0)) for r in columns]
            for g in rows
        ]
        return Mapped(Dense(X), basis), np.array(exact, dtype=object), "mapped"
    return as_matrix(store(X, storage)), X, storage


def draw_labels(rng, n: int) -> np.ndarray:
    y = rng.choice((-1.0, 1.0), n)
    kind = rng.random()
    if kind < 0.08:
        y[:] = y[0]
    elif kind < 0.25:  # one tiny class
        y[:] = 1.0
        y[rng.integers(n)] = -1.0
    return y


def draw_rows(rng, y: np.ndarray, d: int) -> np.ndarray:
    n = len(y)
    kind = rng.integers(5)
    if kind == 0:
        X = rng.integers(-2, 3, (n, d)).astype(np.float64)
    elif kind == 1:  # separable, or nearly
        X = rng.standard_normal((n, d)) + rng.uniform(0, 4) * y[:, None]
    elif kind == 2:  # far from the origin: margins come from a cancellation
        X = rng.standard_normal((n, d)) + log_uniform(rng, 1, 1e4)
    else:
        X = rng.standard_normal((n, d)) * (rng.random((n, d)) < rng.uniform(0.3, 1.0))
    X *= draw_scale(rng, n, d)
    for _ in range(rng.integers(0, 3)):  # duplicates, of the same and of the other class
        X[rng.integers(n)] = X[rng.integers(n)]
    if rng.random() < 0.2:
        X[rng.integers(n)] = 0.0
    return X


def draw_scale(rng, n: int, d: int):
    kind = rng.integers(5)
    if kind < 2:
        return 1.0
    if kind == 2:
        return log_uniform(rng, 1e-6, 1e6)
    if kind == 3:
        return log_uniform(rng, 1e-6, 1e6, d)
    return log_uniform(rng, 1e-6, 1e6, (n, 1))


def draw_weights(rng, y: np.ndarray) -> np.ndarray:
    n = len(y)
    kind = rng.integers(7)
    weights = np.ones(n)
    if kind == 2:
        weights = rng.uniform(0, 3, n)
    elif kind == 3:
        weights = rng.integers(0, 3, n).astype(np.float64)
    elif kind == 4:
        weights[y == rng.choice((-1.0, 1.0))] = 0.0
    elif kind == 5:
        weights[np.arange(n) != rng.integers(n)] = 0.0
    elif kind == 6:
        weights = log_uniform(rng, 1e-6, 1e6, n)
    return weights


def draw_loss(rng) -> Loss:
    kind = rng.integers(3)
    return (Hinge(), SquaredHinge(), Huber(float(rng.choice((1e-3, 1e-2, 0.1, 0.5, 1.0, 2.0)))))[kind]


def store(X: np.ndarray, storage: str):
    if storage == "dense":
        return X
    csr = sp.csr_array(X)
    index = np.int32 if storage == "csr32" else np.int64
    csr.indices, csr.indptr = csr.indices.astype(index), csr.indptr.astype(index)
    return csr


def rbf(rng, X: np.ndarray) -> np.ndarray:
    """A kernel matrix that is its own truth: positive semidefinite to the last bit."""
    distances = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    K = np.exp(-log_uniform(rng, 0.01, 10) * distances / max(distances.mean(), 1e-300))
    jitter = 2.0**-46
    while not is_positive_semidefinite(K):
        K[np.diag_indices_from(K)] = 1.0 + jitter
        jitter *= 16
    return K


def round_kernel(rng, X: np.ndarray, exact: np.ndarray | None, dtype) -> np.ndarray:
    """What a program would store: K or X X', rounded off after or before the products, and symmetric."""
    if exact is not None:
        return exact.astype(dtype)
    Z = X.astype(dtype) if rng.random() < 0.5 else X
    K = (Z @ Z.T).astype(dtype)
    return np.triu(K) + np.triu(K, 1).T


# --------------------------------------------------------------------------------------- what is put before the judge


def near_model(case: Case) -> tuple[np.ndarray, float]:
    """The optimum, rounded and then shaken by 1e-3 to 1e-15, or not at all."""
    rng = case.rng
    f, b = case.optimal_model()
    if rng.random() < 0.3:
        with np.errstate(over="ignore"):
            f, b = f.astype(np.float32).astype(np.float64), float(np.float32(b))
    if rng.random() < 0.7:
        size = log_uniform(rng, 1e-15, 1e-3)
        f = f * (1 + size * rng.standard_normal(len(f)))
        b = b * float(1 + size * rng.standard_normal())
    return f, b if case.problem.intercept != "none" else 0.0


def few_samples(case: Case) -> tuple[np.ndarray, float]:
    """A good model without most of its coefficients: of a kernel problem, one in which few samples have a part."""
    rng = np.random.default_rng([case.seed, 3])  # apart, so that all else stays what it was without this
    f, b = case.optimal_model()
    f[rng.random(len(f)) < 0.7] = 0.0
    return f, b if case.problem.intercept != "none" else 0.0


def any_model(case: Case) -> tuple[np.ndarray, float]:
    """Zero, random, huge, or a good one handed over in another type."""
    rng = case.rng
    kind = rng.integers(6)
    if kind == 4:  # as other programs hand a model over
        f, b = case.optimal_model()
        with np.errstate(over="ignore"):
            return f.astype(np.float32), np.float32(b)
    size = (0.0, 1.0, log_uniform(rng, 1e-6, 1e6), 1e30, 0.0, log_uniform(rng, 1e100, 1e200))[kind]
    f = size * rng.standard_normal(case.problem.size)
    if kind == 5 and rng.random() < 0.3:
        f[rng.integers(len(f))] = rng.choice((np.nan, np.inf, -np.inf))
    return f, float(size * rng.standard_normal()) if case.problem.intercept != "none" else 0.0


ALPHAS = (
    "none",
    "zero",
    "optimal",
    "float32",
    "shaken",
    "shifted",
    "random",
    "negative",
    "beyond",
    "upper",
    "huge",
    "immense",
    "tiny",
    "not numbers",
)


def make_alpha(case: Case, kind: str) -> np.ndarray | None:
    rng, p = case.rng, case.problem
    best, top = floats(case.optimum.alpha), p.cost * log_uniform(rng, 0.1, 10)
    if kind == "none":
        return None
    if kind == "shaken":
        return best * (1 + log_uniform(rng, 1e-15, 1e-1) * rng.standard_normal(p.n))
    if kind == "shifted":  # the projection takes the shift off again, but for its rounding error
        return best + log_uniform(rng, 1e-3, 1e18) * (best.max(initial=0.0) + 1e-300) * p.y
    if kind == "float32":
        with np.errstate(over="ignore", under="ignore"):
            return best.astype(np.float32)
    if kind == "not numbers":
        return np.where(rng.random(p.n) < 0.5, rng.choice((np.nan, np.inf, -np.inf), p.n), best)
    plain = {
        "zero": np.zeros(p.n),
        "optimal": best,
        "random": top * rng.random(p.n),
        "negative": -top * rng.random(p.n),
        "beyond": p.cost * (1 + rng.random(p.n)),
        "upper": p.cost,
        "huge": rng.choice((1e30, -1e30), p.n),
        "immense": log_uniform(rng, 1e100, 1e307, p.n),
        "tiny": best * log_uniform(rng, 1e-300, 1e-100),
    }
    return plain[kind]


# -------------------------------------------------------------------------------------------------------- the refuter


@dataclass(frozen=True)
class Violation:
    seed: int
    claim: str
    detail: str

    def __str__(self):
        return f"VIOLATION {self.claim}: {self.detail}   (python tests/fuzz.py --only {self.seed})"


@dataclass
class Summary:
    problems: int = 0
    seconds: float = 0.0  # of CPU time
    violations: list = field(default_factory=list)
    counts: Counter = field(default_factory=Counter)
    worst: dict = field(default_factory=dict)  # name -> (largest value, its seed)
    examples: defaultdict = field(default_factory=lambda: defaultdict(list))

    def note(self, name: str, happened: bool, seed: int | None = None) -> None:
        """Count how often something happens, of how many times it could; keep a few seeds."""
        self.counts[name, "of"] += 1
        self.counts[name, "is"] += bool(happened)
        if happened and seed is not None and len(self.examples[name]) < EXAMPLES and seed not in self.examples[name]:
            self.examples[name].append(seed)

    def largest(self, name: str, value: float, seed: int) -> None:
        self.worst[name] = max(self.worst.get(name, (-math.inf, 0)), (value, seed))

    def merge(self, other: "Summary") -> None:
        self.problems += other.problems
        self.seconds += other.seconds
        self.violations += other.violations
        self.counts += other.counts
        for name, (value, seed) in other.worst.items():
            self.largest(name, value, seed)
        for name, seeds in other.examples.items():
            self.examples[name] = (self.examples[name] + seeds)[:EXAMPLES]


class Refuter:
    """Checks what is claimed about one case."""

    def __init__(self, case: Case, summary: Summary):
        self.case, self.summary = case, summary

    def claim(self, name: str, holds: bool, detail="") -> None:
        self.summary.counts["claims"] += 1
        if not holds:
            text = detail() if callable(detail) else detail
            self.summary.violations.append(Violation(self.case.seed, name, text))

    def attempt(self, name: str, function, *args, **kwargs):
        """Call the package; what it raises is a violation, what it warns of is counted."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", ConvergenceWarning)
            try:
                return function(*args, **kwargs)
            except Exception as error:  # whatever it is, it is to be reported
                where = traceback.extract_tb(error.__traceback__)[-1]
                what = f"{type(error).__name__}: {error} at {where.filename.rsplit('/', 1)[-1]}:{where.lineno}"
                self.claim(f"{name} raises", False, what)
                return None
            finally:
                self.summary.note(f"{name} warns", bool(caught), self.case.seed)

    def check_primal(self, where: str, f, b, primal: float, rounding: float) -> None:
        exact = self.case.primal(f, b)
        if exact is None or not math.isfinite(primal):
            self.claim(f"{where}: primal", primal == math.inf, f"primal {primal!r} of a model that is not finite")
            return
        high, allowance = rational(primal), rational(rounding)
        self.claim(f"{where}: primal", exact <= high, lambda: f"P {show(exact)} > primal {primal!r}")
        low = high - allowance
        self.claim(f"{where}: rounding", low <= exact, lambda: f"P {show(exact)} < primal - rounding {show(low)}")
        if exact > 0:
            self.summary.largest(f"anywhere, {self.kind}", real(allowance / exact), self.case.seed)

    @property
    def kind(self) -> str:
        p = self.case.problem
        return f"kernel {p.K.array().dtype}" if isinstance(p, KernelProblem) else f"linear {p.X.dtype}"

    def check_dual(self, where: str, dual: float, alpha) -> None:
        if not math.isfinite(dual):
            self.claim(f"{where}: dual", False, f"dual {dual!r}")
            return
        low, best = rational(dual), self.case.best
        self.claim(f"{where}: dual", low <= best, lambda: f"dual {dual!r} > optimum {show(best)} by {show(low - best)}")
        self.check_box(where, alpha)
        proof = self.proof(alpha, low)
        self.claim(f"{where}: proof", low <= proof, lambda: f"dual {dual!r} > D(alpha) {show(proof)}")

    def check_box(self, where: str, alpha) -> None:
        inside = (alpha >= 0) & (alpha <= self.case.upper)
        self.claim(f"{where}: box", bool(inside.all()) and len(alpha) == self.case.problem.n, f"alpha {alpha!r}")

    def proof(self, alpha, wanted: fmpq) -> fmpq:
        """D of alpha; with a free intercept the best D that taking the leftover off one alpha_j gives."""
        p = self.case.problem
        alpha = [rational(a) for a in np.clip(alpha, 0.0, self.case.upper).tolist()]
        leftover = sum((a if label > 0 else -a for a, label in zip(alpha, p.y, strict=True)), fmpq(0))
        if p.intercept != "free" or leftover == 0:
            return self.case.dual(alpha)
        values = [fmpq(0)]  # alpha = 0 is feasible
        for j in np.argsort(p.squared_norms, kind="stable"):
            if (leftover > 0) == (p.y[j] > 0) and alpha[j] >= abs(leftover):
                moved = alpha.copy()
                moved[j] -= abs(leftover)
                values.append(self.case.dual(moved))
                if values[-1] >= wanted:
                    break
        return max(values)

    def check_certificate(self, where: str, f, b, seen) -> None:
        self.check_primal(where, f, b, seen.primal, seen.rounding)
        self.check_dual(where, seen.dual, seen.alpha)
        best, exact = self.case.best, self.case.primal(f, b)
        reachable = seen.reachable
        self.claim(
            f"{where}: reachable",
            reachable == math.inf or (reachable <= seen.primal and rational(reachable) >= best),
            lambda: f"reachable {reachable!r} < optimum {show(best)} or > primal {seen.primal!r}",
        )
        if exact is None or not math.isfinite(seen.primal):
            return
        above = exact - best
        self.claim(f"{where}: gap", rational(seen.gap) >= above, lambda: f"gap {seen.gap!r} < {show(above)}")
        if exact > 0:
            share, gap = above / exact, seen.relative_gap
            right = rational(gap) * (1 + ROUNDED) >= share
            self.claim(f"{where}: relative_gap", right, lambda: f"{gap!r} < {show(share)}")
        self.check_excess(where, seen, above)

    def check_excess(self, where: str, seen, above: fmpq) -> None:
        least, most = seen.excess
        best = self.case.best
        if best > 0:
            true = above / best
            right = rational(least) <= true if math.isfinite(least) else real(true) == math.inf
            self.claim(f"{where}: excess", right, lambda: f"excess[0] {least!r} > {show(true)}")
            right = most == math.inf or rational(most) >= true
            self.claim(f"{where}: excess", right, lambda: f"excess[1] {most!r} < {show(true)}")
        elif above == 0:
            self.claim(f"{where}: excess", least == 0, lambda: f"excess[0] {least!r} of an optimal model")
        else:
            self.claim(f"{where}: excess", most == math.inf, lambda: f"excess[1] {most!r}, the optimum is 0")

    def check_tightness(self, f, seen) -> None:
        """Of a deep certificate for a good model."""
        best, seed, note = self.case.best, self.case.seed, self.summary.note
        exact = self.case.primal(f, seen.b)
        if best <= 0 or exact is None:
            return
        slack, excess = real((best - rational(seen.dual)) / best), real((exact - best) / best)
        for group in (self.case.problem.loss.name, self.kind):
            note(f"dual within 1e-6 of the optimum, {group}", slack <= 1e-6)
        note("dual more than 1 % below the optimum", slack > 0.01, seed)
        # the judge stops where the looseness of the dual is 1e-6, or a fiftieth of the gap, which has the excess in it
        enough = 0.021 * excess
        note("dual looser than the judge means it to be", slack > max(1.1e-6, enough), seed)
        note("... and by more than 1 % of the optimum", slack > max(0.01, enough), seed)
        note("dual is 0 and the optimum is not", seen.dual == 0.0, seed)
        if exact > 0 and math.isfinite(seen.rounding):
            share = real(rational(seen.rounding) / exact)
            self.summary.largest(f"near the optimum, {self.kind}", share, seed)
            note(f"rounding above 1e-6 P near the optimum, {self.kind}", share > 1e-6, seed)

    def check_result(self, name: str, result) -> None:
        self.check_certificate(name, result.f, result.b, result.certificate)
        history = result.history
        for before, after in pairwise(history):
            moved = after.primal <= before.primal and after.dual >= before.dual
            self.claim(f"{name}: history", moved, lambda a=after, b=before: f"{b} then {a}")
        for record in history:
            right = record.gap >= 0 and record.gap == max(0.0, record.primal - record.dual)
            self.claim(f"{name}: history", right, str(record))
            self.claim(f"{name}: history", rational(record.dual) <= self.case.best, f"dual of {record}")
            right = record.primal == math.inf or rational(record.primal) >= self.case.best
            self.claim(f"{name}: history", right, f"primal of {record}")


def real(value: fmpq) -> float:
    try:
        return int(value.p) / int(value.q)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def show(value: fmpq) -> str:
    return repr(real(value))


# ----------------------------------------------------------------------------------------------- one problem, all jobs


def refute(seed: int, summary: Summary, *, solvers: bool = True) -> Case:
    """Draw the problem of this seed and try everything on it."""
    begin = time.process_time()
    case = make_case(seed)
    refuter = Refuter(case, summary)
    attack_certificates(refuter)
    attack_bounds(refuter)
    if solvers and case.rng.random() < SOLVE_SHARE:
        attack_solvers(refuter)
    if solvers and case.rng.random() < ESTIMATOR_SHARE:
        attack_estimator(refuter)
    summary.problems += 1
    summary.seconds += time.process_time() - begin
    return case


def attack_certificates(refuter: Refuter) -> None:
    case = refuter.case
    for good in (True, False):
        f, b = near_model(case) if good else any_model(case)
        b = None if case.rng.random() < 0.2 else b  # the judge is to find the best one
        alpha = make_alpha(case, str(case.rng.choice(ALPHAS)))
        for deep in (True, False):
            where = f"certificate(deep={deep})"
            seen = refuter.attempt(where, judge.certificate, case.problem, f, b, alpha, deep=deep)
            if seen is None:
                continue
            refuter.check_certificate(where, f, seen.b if b is None else b, seen)
            if good and deep:
                refuter.check_tightness(f, seen)


def attack_bounds(refuter: Refuter) -> None:
    case = refuter.case
    for model in (near_model, any_model, few_samples):
        f, b = model(case)
        seen = refuter.attempt("bound_primal", judge.bound_primal, case.problem, f, b)
        if seen is not None:
            refuter.check_primal("bound_primal", f, b, *seen)
    for kind in case.rng.choice(ALPHAS[1:], 5, replace=False):
        alpha = make_alpha(case, str(kind))
        seen = refuter.attempt("bound_dual", judge.bound_dual, case.problem, alpha)
        if seen is not None:
            refuter.check_dual(f"bound_dual({kind})", *seen)
            if kind == "optimal" and case.best > 0:
                loose = case.best - rational(seen[0]) > case.best * fmpq(1, 10**6)
                refuter.summary.note("bound_dual of the optimal alpha more than 1e-6 below", loose, case.seed)


def attack_solvers(refuter: Refuter) -> None:
    problem = refuter.case.problem
    for name, kind in Solver.registry.items():
        if kind.needs <= problem.offers and kind.__module__.startswith("primalsvm."):
            result = refuter.attempt(f"solve({name})", solve, problem, kind(), tol=1e-6, max_iter=50)
            if result is not None:
                refuter.check_result(f"solve({name})", result)
                refuter.summary.note(f"converged to 1e-6 in 50 steps, {name}", result.status == "converged")


def attack_estimator(refuter: Refuter) -> None:
    """LinearSVC on the same problem; it has no kernels, no intercept_scaling, and wants two classes."""
    case = refuter.case
    p = case.problem
    scaled = p.intercept == "penalized" and p.intercept_scaling != 1.0
    if p.kind != "linear" or case.storage == "mapped" or scaled or len(np.unique(p.y[p.cost > 0])) < 2:
        return
    X = store(case.X, case.storage)
    intercept = {"none": False, "free": True, "penalized": "penalized"}[p.intercept]
    model = LinearSVC(p.loss, C=1.0, fit_intercept=intercept, tol=1e-6, max_iter=50)
    fitted = refuter.attempt("LinearSVC", model.fit, X, p.y, sample_weight=p.cost)
    if fitted is not None:
        refuter.check_certificate("LinearSVC", model.coef_[0], float(model.intercept_[0]), model.certificate_)


def work(seeds: range) -> Summary:
    problem_module.WORTHWHILE = 1  # derive scores from the last ones, as large kernel problems do
    problem_module.QUICK = 0  # ... and take rough ones where they will do
    chunks_module.PIECE_BYTES = 64  # a row or a few
    summary = Summary()
    for seed in seeds:
        refute(seed, summary)
    return summary


def run(problems: int, seed: int = 0, *, jobs: int = 1, minutes: float = math.inf, progress: bool = False) -> Summary:
    """Refute `problems` problems, on `jobs` processes; stop early after `minutes`."""
    if problems > SEEDS_PER_RUN:
        raise ValueError(f"at most {SEEDS_PER_RUN} problems a run; take another --seed for more.")
    first = seed * SEEDS_PER_RUN
    chunks = [range(k, min(k + 50, first + problems)) for k in range(first, first + problems, 50)]
    total, begin = Summary(), time.monotonic()
    shown = begin
    pool = multiprocessing.get_context("spawn").Pool(jobs) if jobs > 1 else None
    try:
        for part in map(work, chunks) if pool is None else pool.imap_unordered(work, chunks):
            total.merge(part)
            for violation in part.violations if progress else ():
                print(violation, flush=True)
            now = time.monotonic()
            if progress and now - shown > 5:
                shown = now
                print(progress_line(total, problems, now - begin), flush=True)
            if now - begin > 60 * minutes:
                break
    except KeyboardInterrupt:
        pass  # what was found so far is reported
    finally:
        if pool is not None:
            pool.terminate()
    return total


def progress_line(total: Summary, problems: int, seconds: float) -> str:
    each = 1e3 * total.seconds / max(total.problems, 1)
    return (
        f"{total.problems:>7d} of {problems} problems   {total.counts['claims']} claims   "
        f"{len(total.violations)} violations   {seconds:.0f} s, {each:.1f} ms of CPU each"
    )


def report(total: Summary) -> str:
    lines = ["", "how tight the bounds are (deep certificates of models near the optimum, unless named otherwise):"]
    for name in sorted({key[0] for key in total.counts if isinstance(key, tuple)}):
        happened, of = total.counts[name, "is"], total.counts[name, "of"]
        seeds = f"   seeds {', '.join(map(str, total.examples[name]))}" if total.examples[name] else ""
        lines.append(f"  {name:<58s} {happened:>7d} of {of:<7d} {100 * happened / of:6.2f} %{seeds}")
    lines.append("largest allowance for rounding, relative to P of the model:")
    for name, (value, seed) in sorted(total.worst.items()):
        lines.append(f"  {name:<58s} {value:.2e}   seed {seed}")
    kinds = Counter(violation.claim for violation in total.violations)
    lines.append(f"violations: {len(total.violations)}")
    for claim, count in kinds.most_common():
        first = next(v for v in total.violations if v.claim == claim)
        lines.append(f"  {claim:<58s} {count:>7d}   first: seed {first.seed}: {first.detail}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after this time")
    parser.add_argument("--only", type=int, default=None, metavar="SEED", help="this problem alone, described")
    options = parser.parse_args(arguments)
    if options.only is not None:
        total = Summary()
        print(refute(options.only, total).describe())
        print(*total.violations, sep="\n")
    else:
        begin = time.monotonic()
        total = run(options.problems, options.seed, jobs=options.jobs, minutes=options.minutes, progress=True)
        print(progress_line(total, options.problems, time.monotonic() - begin))
    print(report(total))
    return 1 if total.violations else 0


if __name__ == "__main__":
    sys.exit(main())
