r"""Introduction to SVM: subgradient descent on the primal, projected gradient and coordinate ascent on the dual.

    primal   min over a       sum_i max(0, 1 - y_i <a, x_i>) + c/2 |a|^2
    dual     max over lambda  -sum_i lambda_i - 1/2c |X'Y lambda|^2,    -1 <= lambda_i <= 0,    a = -X'Y lambda / c

Data: two Gaussian clouds in the plane that overlap, and a constant feature, so that the line has an offset; c = 2.
Subgradient descent has a constant step, as in Algorithm 1, and Polyak's.

Claims: strong duality holds, and the three methods end with the same accuracy, loss, hyperplane and support vectors; a
subgradient need not be a direction of descent, but its step leads closer to the optimum; the dual is concave and each
ascent rises; coordinate ascent converges faster than stochastic gradient descent in most regimes; samples on the right
side have a loss of at most 1, others of at least 1; the conjugate of the hinge is lambda on [-1, 0].

Expected: these hold. As printed some do not: the dual has c in the place of 1/c; the subgradient in the text pulls at
samples with <a, x> y > 0 instead of < 1; Algorithm 3 loops over features instead of samples; the primal is said to be
possibly not convex, and a conjugate to be always concave.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..losses import Hinge
from ..matrix import as_matrix
from ..problem import LinearProblem
from ..solve import solve
from ..solvers import DualCoordinateAscent, Newton, Pegasos, ProjectedGradient, Subgradient
from .judged import ALIKE
from .lab import Lab, Outcome, Plot, Table, Verdict

WEIGHT = 2.0  # c
ASCENTS = ("projected gradient", "coordinate ascent")


def clouds(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    X = rng.normal(size=(n, 2)) + y[:, None] * np.array([1.2, 0.6]) + np.array([0.5, -0.3])
    return np.column_stack([X, np.ones(n)]), y


def state_problem(X: np.ndarray, y: np.ndarray, c: float) -> LinearProblem:
    """Our P is the paper's loss over c, our C = 1 / c."""
    return LinearProblem(y, np.full(len(y), 1 / c), Hinge(), "none", X=as_matrix(X))


def solvers(problem: LinearProblem) -> dict[str, Any]:
    rate = 0.1 / float(problem.cost @ problem.norms)  # no subgradient of the losses is longer than the sum
    return {
        "subgradient, constant step": Subgradient(step_size=rate),
        "subgradient, Polyak's step": Subgradient(),
        "projected gradient": ProjectedGradient(momentum=False),
        "coordinate ascent": DualCoordinateAscent(shrink=False, newton=False),
    }


class Path(NamedTuple):
    """After each step."""

    a: np.ndarray  # (steps, 3)
    primal: np.ndarray  # in our units
    dual: np.ndarray  # nan where there is no dual point
    alpha: np.ndarray | None  # at the end
    support: np.ndarray  # how many samples have alpha > 0; without an alpha, a margin of at most 1

    def angle(self) -> np.ndarray:
        return np.degrees(np.arctan2(self.a[:, 1], self.a[:, 0]))

    def offset(self) -> np.ndarray:
        length = np.hypot(self.a[:, 0], self.a[:, 1])
        return np.divide(-self.a[:, 2], length, out=np.full(len(length), np.nan), where=length > 0)

    def accuracy(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        return 100 * np.mean((X @ self.a.T > 0) == (y > 0)[:, None], axis=0)


def follow(problem: LinearProblem, solver: Any, steps: int) -> Path:
    state, rows, points = solver.init(problem), [], []
    for _ in range(steps):
        solver.step(problem, state)
        # of constant steps the iterate itself; Polyak's jump, and the best point so far is their answer
        a = state.iterate if getattr(solver, "step_size", None) else state.f
        dual, support = np.nan, np.sum(problem.y * problem.scores(a) <= 1)
        if state.alpha is not None:
            a = problem.function(state.alpha)
            dual, support = problem.dual(state.alpha, a), np.sum(state.alpha > 1e-9)
        points.append(a.copy())
        rows.append((problem.primal(a, 0.0), dual, support))
    primal, dual, support = np.array(rows).T
    return Path(np.array(points), primal, dual, state.alpha, support)


# --- as printed -------------------------------------------------------------------------------------------------------


def descend(X: np.ndarray, y: np.ndarray, pulls: Callable[[np.ndarray], np.ndarray], steps: int) -> np.ndarray:
    """Subgradient descent where the samples that `pulls` says of their margins pull at a."""
    a, rate = np.zeros(X.shape[1]), 0.1 / np.sum(np.linalg.norm(X, axis=1))
    for _ in range(steps):
        a = a - rate * (WEIGHT * a - (y * pulls(y * (X @ a))) @ X)
    return a


def ascend(X: np.ndarray, y: np.ndarray, which: range, epochs: int) -> np.ndarray:
    """Algorithm 3 over some of the dual variables, with its 1/c corrected."""
    lam, Q = np.zeros(len(y)), -(y[:, None] * (X @ X.T) * y) / WEIGHT
    for _ in range(epochs):
        for k in which:
            others = Q[k] @ lam - Q[k, k] * lam[k]
            lam[k] = np.clip((1.0 - others) / Q[k, k], -1.0, 0.0)
    return -(X.T @ (y * lam)) / WEIGHT


# --- the experiment ---------------------------------------------------------------------------------------------------


def passes_to(problem: LinearProblem, solver: Any, best: float, most: int) -> float:
    """Passes until P is within 1e-3 of its minimum."""
    state = solver.init(problem)
    for passes in range(1, most + 1):
        solver.step(problem, state)
        if problem.primal(state.f, 0.0) <= best * (1 + 1e-3):
            return passes
    return np.inf


def run(lab: Lab) -> Outcome:
    X, y = clouds(lab.pick(40, 200, 400))
    steps = lab.pick(400, 3000, 20_000)
    problem = state_problem(X, y, WEIGHT)
    known = solve(problem, Newton(), tol=1e-12)
    paths = {}
    for number, (name, solver) in enumerate(solvers(problem).items()):
        lab.tell(name, number / 5)
        paths[name] = follow(problem, solver, steps)
    lab.tell("as printed", 0.8)
    speeds = {}
    for c in (0.1, 1.0, 10.0):
        other = state_problem(X, y, c)
        best = solve(other, Newton(), tol=1e-12).certificate.dual
        rivals = {"coordinate ascent": DualCoordinateAscent(shrink=False, newton=False), "Pegasos": Pegasos()}
        speeds[c] = {name: passes_to(other, solver, best, steps) for name, solver in rivals.items()}
    best = known.certificate.dual
    rows = []
    for name, path in paths.items():
        excess, accuracy = path.primal[-1] / best - 1, path.accuracy(X, y)[-1]
        end = [f"{excess:.1e}", f"{accuracy:.1f}", f"{path.angle()[-1]:.2f}", f"{path.offset()[-1]:.3f}"]
        rows.append([name, *end, f"{path.support[-1]:.0f}"])
    header = ["method", "P / P* - 1", "accuracy %", "angle, degrees", "offset", "support vectors"]
    table = Table(f"After {steps} steps, n = {len(y)}, c = {WEIGHT:g}", header, rows)
    verdicts = agreement(X, y, problem, paths, best) + behaviour(paths, known.f, problem, speeds)
    verdicts += as_printed(X, y, best, steps)
    return Outcome(verdicts, [table], pictures(X, y, paths, best), notes=["The data are two made-up Gaussian clouds."])


def agreement(X, y, problem: LinearProblem, paths: dict[str, Path], best: float) -> list[Verdict]:
    excess = {name: path.primal[-1] / best - 1 for name, path in paths.items()}
    angles = [path.angle()[-1] for path in paths.values()]
    offsets = [path.offset()[-1] for path in paths.values()]
    accuracies = [path.accuracy(X, y)[-1] for path in paths.values()]
    ends = [solve(problem, solvers(problem)[name], tol=1e-8, max_iter=200_000) for name in ASCENTS]
    one, other = (end.alpha > 1e-6 for end in ends)
    lowest = min(float(np.min(path.primal)) for path in paths.values())
    gap = (lowest - max(float(np.max(paths[name].dual)) for name in ASCENTS)) / best
    losses = np.maximum(0.0, 1.0 - y * (X @ paths[ASCENTS[1]].a[-1]))
    right = y * (X @ paths[ASCENTS[1]].a[-1]) > 0
    return [
        Verdict(
            "Strong duality: the maximum of the dual is the minimum of the primal.",
            -1e-12 <= gap <= 1e-6,
            f"The least primal value seen less the largest dual value seen is {gap:.0e} of the minimum.",
        ),
        Verdict(
            "The three methods reach the same loss.",
            max(excess.values()) <= 1e-2,
            "Above the minimum: " + "; ".join(f"{name} {value:.0e}" for name, value in excess.items()) + ".",
        ),
        Verdict(
            "They end with the same hyperplane and accuracy.",
            float(np.ptp(angles)) <= 2.0 and float(np.ptp(offsets)) <= 0.05 and float(np.ptp(accuracies)) <= ALIKE,
            f"Angles differ by {np.ptp(angles):.2f} degrees, offsets by {np.ptp(offsets):.3f}; accuracies "
            f"{', '.join(f'{value:.1f}' for value in accuracies)} %.",
        ),
        Verdict(
            "Both ascents end with the same support vectors.",
            not np.any(one != other),
            f"{np.sum(one)} and {np.sum(other)} of {len(y)} samples, {np.sum(one != other)} in one set only; proven to "
            f"{max(end.certificate.relative_gap for end in ends):.0e} after {ends[0].iterations} and "
            f"{ends[1].iterations} steps.",
        ),
        Verdict(
            "A sample on the right side has a loss of at most 1, one on the wrong side of at least 1.",
            bool(losses[right].max(initial=0.0) <= 1.0 <= losses[~right].min(initial=1.0)),
            f"The largest loss of {np.sum(right)} right ones is {losses[right].max(initial=0.0):.3f}, the least of "
            f"{np.sum(~right)} wrong ones {losses[~right].min(initial=1.0):.3f}.",
        ),
    ]


def behaviour(paths: dict[str, Path], best: np.ndarray, problem: LinearProblem, speeds: dict) -> list[Verdict]:
    constant = paths["subgradient, constant step"]
    minimum = problem.primal(best, 0.0)
    distance = np.linalg.norm(constant.a - best, axis=1)
    moved = np.linalg.norm(np.diff(constant.a, axis=0), axis=1)
    rate = solvers(problem)["subgradient, constant step"].step_size
    # |a' - a*|^2 <= |a - a*|^2 - 2 rate (P(a) - P*) + |a' - a|^2
    short = moved**2 < 2 * rate * (constant.primal[:-1] - minimum)
    closer = np.diff(distance) < 0
    rises = np.diff(constant.primal) > 0
    falls = max(float(np.max(-np.diff(paths[name].dual), initial=0.0)) / minimum for name in ASCENTS)
    wins = [speed["coordinate ascent"] < speed["Pegasos"] for speed in speeds.values()]
    shown = "; ".join(f"c = {c:g}: {s['coordinate ascent']:.0f} and {s['Pegasos']:.0f}" for c, s in speeds.items())
    return [
        Verdict(
            "A subgradient need not be a direction of descent.",
            bool(np.any(rises)),
            f"P rises in {np.sum(rises)} of {len(rises)} steps of constant length.",
        ),
        Verdict(
            "A subgradient step leads closer to the optimum, if it is short enough for the excess that is left.",
            bool(np.all(closer[short])),
            f"{np.sum(closer[short])} of the {np.sum(short)} steps that are short enough did; of all {len(closer)} "
            "steps "
            f"{np.sum(closer)}.",
        ),
        Verdict(
            "The dual is concave, and both ascents rise in every step.",
            falls <= 1e-12,
            f"D falls by {falls:.0e} of the minimum at most.",
        ),
        Verdict(
            "Coordinate ascent converges faster than stochastic gradient descent in most regimes.",
            sum(wins) > len(wins) / 2,
            f"Passes to 1e-3 above the minimum by coordinate ascent and by Pegasos: {shown}.",
        ),
    ]


def as_printed(X: np.ndarray, y: np.ndarray, best: float, steps: int) -> list[Verdict]:
    rng, problem = np.random.default_rng(0), state_problem(X, y, WEIGHT)

    def loss(a: np.ndarray) -> float:
        return WEIGHT * problem.primal(a, 0.0)

    points = rng.normal(size=(200, 2, X.shape[1]))
    bend = max(loss((a + b) / 2) - (loss(a) + loss(b)) / 2 for a, b in points)
    minima = {c: c * solve(state_problem(X, y, c), Newton(), tol=1e-12).certificate.dual for c in (0.1, 1.0, 10.0)}
    lowest = WEIGHT * best
    right, text = (loss(descend(X, y, rule, steps)) for rule in (lambda m: m < 1, lambda m: m >= 0))
    samples, features = (loss(ascend(X, y, range(k), 100)) for k in (len(y), X.shape[1]))
    # conjugates by their definition, on a grid
    m, lam = np.linspace(-50, 50, 20_001), np.linspace(-1, 0, 11)
    hinge = np.array([np.max(value * m - np.maximum(0, 1 - m)) for value in lam])
    square = np.array([np.max(value * m - np.maximum(0, 1 - m) ** 2) for value in lam])
    curved = float(np.max(np.diff(square, 2)))
    off = float(np.max(np.abs(hinge - lam)))
    pairs = "; ".join(f"c = {c:g}: minimum {minima[c]:.4g}, that dual's maximum {minima[1 / c]:.4g}" for c in minima)
    return [
        Verdict(
            "The conjugate of the hinge is lambda on [-1, 0].",
            off <= 1e-9,
            f"By its definition on a grid: off by {off:.0e} at most.",
        ),
        Verdict(
            "The primal objective is possibly not convex.",
            bend > 1e-9 * lowest,
            "It is convex: half-way between 200 pairs of points it is never above the mean; the nearest is "
            f"{bend:.2g}.",
        ),
        Verdict(
            "A conjugate is always concave.",
            curved <= 1e-9,
            f"It is convex: the squared hinge's has second differences of up to {curved:.1e}. It is a maximum of "
            "planes.",
        ),
        Verdict(
            "As printed, the dual has the factor c/2 and the primal's optimal value.",
            all(abs(minima[c] - minima[1 / c]) <= 1e-6 * minima[c] for c in minima),
            f"Only for c = 1, where c = 1/c. {pairs}. The factor is 1/2c.",
        ),
        Verdict(
            "As printed, the subgradient is -x y + c a where <a, x> y >= 0.",
            text <= 1.1 * lowest,
            f"Descent along it ends {text / lowest:.1f} times as high as the minimum; where the margin is below 1 in "
            "its "
            f"place, {right / lowest:.4f} times.",
        ),
        Verdict(
            "As printed, Algorithm 3 passes over the features.",
            features <= 1.1 * lowest,
            f"Over {X.shape[1]} of the {len(y)} dual variables it ends {features / lowest:.2f} times as high as the "
            "minimum; "
            f"over the samples {samples / lowest:.4f} times.",
        ),
    ]


def pictures(X: np.ndarray, y: np.ndarray, paths: dict[str, Path], best: float) -> list[Plot]:
    at = {name: np.arange(1, len(path.primal) + 1) for name, path in paths.items()}
    keep = np.unique(np.geomspace(1, len(next(iter(at.values()))), 300).astype(int)) - 1

    def curves(of: Callable[[Path], np.ndarray]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        return {name: (at[name][keep], of(path)[keep]) for name, path in paths.items()}

    across = np.linspace(X[:, 0].min(), X[:, 0].max(), 80)
    scene = {f"class {sign:+.0f}": (X[y == sign, 0], X[y == sign, 1]) for sign in (-1, 1)}
    for name in ("subgradient, Polyak's step", *ASCENTS):
        a = paths[name].a[-1]
        line = -(a[0] * across + a[2]) / a[1]
        inside = (line >= X[:, 1].min()) & (line <= X[:, 1].max())
        scene[f"line of {name}"] = (across[inside], line[inside])
    return [
        Plot(
            "Loss", "steps", "P / P* - 1", curves(lambda p: (p.primal / best - 1).clip(1e-12)), log_x=True, log_y=True
        ),
        Plot("Accuracy on the training samples", "steps", "%", curves(lambda p: p.accuracy(X, y)), log_x=True),
        Plot("Hyperplane: angle of its normal", "steps", "degrees", curves(Path.angle), log_x=True),
        Plot("Hyperplane: distance from the origin", "steps", "offset", curves(Path.offset), log_x=True),
        Plot("Support vectors", "steps", "samples", curves(lambda p: p.support), log_x=True),
        Plot("The samples and the lines in the end", "x1", "x2", scene, marks=True),
    ]
