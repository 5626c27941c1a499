"""What the tests of approximate kernel matrices share: the true kernel in many digits, points that are hard to tell
apart or lie at borders, and the fuzzer's attacks on certificates that must speak of the true kernel all the same."""

from decimal import localcontext
from fractions import Fraction

import fuzz
import numpy as np
from reference import is_positive_semidefinite
from test_kernels import exactly

from primalsvm.kernels import Kernel
from primalsvm.losses import EPS
from primalsvm.problem import INTERCEPTS, KernelProblem
from primalsvm.solve import Solver, solve

SOLVERS = ("conjugate_gradient", "newton", "smo")
DIGITS = 300  # after the point: a matrix of close points is positive only in its hundredth


def true_matrix(kernel, X, digits=50) -> np.ndarray:
    """Fractions, right to so many digits after the point."""
    n = len(X)
    K = np.empty((n, n), dtype=object)
    with localcontext(prec=2 * digits, Emin=-(10**9), Emax=10**9):
        for i, j in zip(*np.tril_indices(n), strict=True):
            shifted = exactly(kernel, X[i], X[j]).scaleb(digits).to_integral_value()
            K[i, j] = K[j, i] = Fraction(int(shifted), 10**digits)
    return K


def cloud(rng, n: int, d: int) -> np.ndarray:
    """Points in a box, in clusters, on a lattice, on a line, far from the origin; with outliers and duplicates."""
    X = rng.random((n, d))
    kind = rng.integers(6)
    if kind == 1:
        X = rng.standard_normal((3, d))[rng.integers(3, size=n)] + 10.0 ** rng.uniform(-9, -1) * X
    elif kind == 2:
        X = rng.integers(0, 4, (n, d)) / 3.0
    elif kind == 3:
        X[:, 1:] = X[:, :1]
    elif kind == 4:
        X += 10.0 ** rng.uniform(0, 6)
    elif kind == 5:
        X *= 10.0 ** rng.uniform(-3, 3, (n, 1))
    X[rng.integers(n, size=n // 4)] = X[rng.integers(n, size=n // 4)]
    return X


def scale_of(X) -> float:
    """A distance between them that is neither tiny nor huge."""
    apart = np.abs(X - X[::-1]).max()
    return float(apart) if apart > 0 else 1.0


def weights(rng, n: int) -> np.ndarray:
    """Of both signs or one, of many sizes, most of them zero."""
    v = rng.standard_normal(n) * 10.0 ** rng.uniform(-3, 3, n)
    return [v, np.abs(v), v * (rng.random(n) < 0.2), np.zeros(n)][rng.integers(4)]


def check_product(K, kernel, X, v, terms: int = 0) -> None:
    """|computed - true| <= accuracy sum |v_j|, with the roundings of so many terms where accuracy has them not."""
    truth = true_matrix(kernel, X) @ np.array([Fraction(x) for x in v])
    allowed = (Fraction(K.accuracy) + Fraction(terms * EPS)) * sum(abs(Fraction(x)) for x in v)
    for picked in (np.arange(len(v)), np.flatnonzero(v)[::2]):
        computed = K.matvec(v) if len(picked) == len(v) else K.matvec(v, picked)
        assert all(abs(Fraction(a) - b) <= allowed for a, b in zip(computed.tolist(), truth[picked], strict=True))


def far_apart(d: int) -> np.ndarray:
    """Two clusters so far from each other that shifting and scaling the points rounds them off within each."""
    rng = np.random.default_rng(0)
    return np.repeat([[-1e6], [1e6]], 6, axis=0) + rng.random((12, d))


def check_rounded_points(K, kernel, X) -> None:
    """Where that is most of what is off: the promise is kept, and would not be without it."""
    for v in np.eye(len(X)):
        check_product(K, kernel, X, v)
    true = true_matrix(kernel, X).astype(np.float64)
    off = max(np.abs(K.matvec(v) - column).max() for v, column in zip(np.eye(len(X)), true, strict=True))
    assert off > 1e4 * EPS


class Refuter(fuzz.Refuter):
    kind = "approximate kernel"  # the fuzzer's own would ask for the array


def make_case(seed: int, kernel_name: str, build) -> fuzz.Case | None:
    """A random problem on a true kernel, the problem's own matrix an approximation: build(rng, kernel, X)."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 8)), int(rng.integers(1, 4))
    y = fuzz.draw_labels(rng, n)
    X = cloud(rng, n, d) if rng.random() < 0.5 else fuzz.draw_rows(rng, y, d)
    gamma = float(fuzz.log_uniform(rng, 1e-2, 1e2)) / scale_of(X) ** (2 if kernel_name == "rbf" else 1)
    kernel = Kernel(kernel_name, gamma=gamma)
    truth = true_matrix(kernel, X, DIGITS)
    if not is_positive_semidefinite(truth):
        return None
    cost = fuzz.log_uniform(rng, 1e-4, 1e6) * fuzz.draw_weights(rng, y)
    stated = (y, cost, fuzz.draw_loss(rng), str(rng.choice(INTERCEPTS)), float(rng.choice((0.1, 1.0, 30.0))))
    return fuzz.Case(seed, X, KernelProblem(*stated, K=build(rng, kernel, X)), "approximate", truth, rng)


def refute(seeds, kernel_name: str, build, *, solvers: bool = False) -> fuzz.Summary:
    """Right and wrong models and dual points before the judge; and what the solvers bring."""
    summary = fuzz.Summary()
    for seed in seeds:
        case = make_case(seed, kernel_name, build)
        if case is None:
            continue
        summary.problems += 1
        refuter = Refuter(case, summary)
        if not solvers:
            fuzz.attack_certificates(refuter)
            fuzz.attack_bounds(refuter)
            continue
        for name in SOLVERS if case.problem.cost.any() else ():  # else there is nothing to solve
            kind = Solver.registry[name]
            if kind.needs <= case.problem.offers:
                result = refuter.attempt(f"solve({name})", solve, case.problem, kind(), tol=1e-6, max_iter=30)
                if result is not None:
                    refuter.check_result(f"solve({name})", result)
    return summary


def complaint(summary: fuzz.Summary) -> str:
    return "\n".join(map(str, summary.violations[:10]))
