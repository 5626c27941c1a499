r"""List, Hush, Scovel, Steinwart (2007): the gaps of a dual point, theorem by theorem, as measurements.

    G(alpha)   forward gap, min over b of sum_i alpha_i [m_i - 1]+ + (C - alpha_i) [1 - m_i]+          (19)
    backward   -lambda . c(u) at the primal point u = (f, b, xi) that alpha makes                        (10)
    sigma      sup of grad W(alpha) . (alpha - mu) over the feasible mu                                  (17)
    epsilon    by how much the maximal violating pair violates optimality                                (20)

Data: kernel SVMs with a free offset on german and splice (Gaussian kernel, two C each), along the algorithm of maximal
violating pairs from alpha = 0 to the end; the optimum is proven by its certificate. For what holds of any convex
quadratic program, random ones with a singular Q; their gaps come from linear programs (HiGHS, exact to 1e-7).

Claims: Lemma 2 to Lemma 8, Theorems 1 to 3, Corollaries 1 to 3, Remark 1. They are theorems, so all are expected to
hold. Three are misprinted: Lemma 8 leaves out y_i in f, Corollary 3's b is minus the offset of f(x) + b, Corollary 2
leaves out the inverse of Q. Read literally, these are refuted. A ratio is the quantity over its bound: at most 1.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import null_space
from scipy.spatial.distance import cdist

from ..certificate import Certificate
from ..gaps import (
    QuadraticProgram,
    backward_gap,
    certified_intercept,
    dual_slopes,
    forward_gap,
    qp_backward_gap,
    qp_forward_gap,
    qp_sigma_gap,
    sigma_gap,
    violating_pair,
)
from ..losses import Hinge
from ..problem import KernelProblem
from ..solve import solve
from ..solvers import SMO
from .data import load
from .lab import Lab, Outcome, Plot, Table, Verdict

ROUNDING = 1e-9  # of P*: equal, up to this
COUNTED = 1e-6  # of P*: smaller bounds are not counted, being a few digits before rounding
HIGHS = 1e-6  # of the sizes in a linear program


# --- the support vector machine ---------------------------------------------------------------------------------------


def maximal_violating_pairs(problem: KernelProblem, steps: int) -> Iterator[np.ndarray]:
    """alpha after each step: the pair that violates most moves to the maximum of D along it."""
    K, y, cost = problem.K.array(), problem.y, problem.cost
    alpha, slopes = np.zeros(problem.n), -np.ones(problem.n)  # grad W(0) = -e
    for _ in range(steps):
        value = y * slopes
        i = int(np.argmax(np.where(np.where(y < 0, alpha < cost, alpha > 0), value, -np.inf)))
        j = int(np.argmin(np.where(np.where(y > 0, alpha < cost, alpha > 0), value, np.inf)))
        violation = value[i] - value[j]
        if violation <= 1e-10:
            return
        room_i = alpha[i] if y[i] > 0 else cost[i] - alpha[i]
        room_j = cost[j] - alpha[j] if y[j] > 0 else alpha[j]
        step = min(violation / max(K[i, i] + K[j, j] - 2 * K[i, j], 1e-12), room_i, room_j)
        alpha[i], alpha[j] = alpha[i] - y[i] * step, alpha[j] + y[j] * step
        slopes += y * step * (K[j] - K[i])
        yield np.clip(alpha, 0.0, cost)


class Point(NamedTuple):
    """What is measured at one alpha; all in the units of P."""

    step: int
    forward: float
    backward: float
    sigma: float
    weak: float  # P - D
    primal: float  # P(f, b) - P*, b that of (19)
    dual: float  # D* - D
    lemma_8: float  # C l epsilon
    remark_1: float  # C d epsilon
    between: float  # the largest P(f, b) - P* for b between the pair
    literal_f: float  # P - P* of sum_i alpha_i phi(x_i), without y_i, at its best b
    literal_b: float  # P - P* with the sign of b as printed


def measure(problem: KernelProblem, alpha: np.ndarray, step: int, optimum: Certificate) -> Point:
    """P* lies between two proven bounds; each suboptimality is counted from the one that makes it smaller."""
    f, b = problem.function(alpha), certified_intercept(problem, alpha)
    pair, value = violating_pair(problem, alpha), problem.y * dual_slopes(problem, alpha)
    offsets = np.linspace(value[pair.bottom], value[pair.top], 7) if pair.violation > 0 else [-b]
    primal, dual, best = problem.primal(f, b), problem.dual(alpha, f), optimum.reachable
    wrong = problem.adjoint(alpha)
    return Point(
        step,
        forward_gap(problem, alpha),
        backward_gap(problem, alpha),
        sigma_gap(problem, alpha),
        primal - dual,
        primal - best,
        optimum.dual - dual,
        pair.bound,
        pair.tight_bound,
        max(problem.primal(f, -offset) for offset in offsets) - best,  # the paper's b is minus ours
        problem.primal(wrong, problem.best_intercept(problem.scores(wrong))) - best,
        problem.primal(f, -b) - best,
    )


def follow(problem: KernelProblem, steps: int) -> tuple[list[Point], float, float, float, float]:
    """(points along the way, P*, the part of it that is not known, G / P* there, the worst of Lemma 2 over P*)."""
    known = solve(problem, SMO(), tol=1e-10, max_iter=20_000)
    best = known.certificate.reachable
    wanted = set(np.unique(np.geomspace(1, steps, 60).astype(int)))
    points, kept = [], []
    for step, alpha in enumerate(maximal_violating_pairs(problem, steps), start=1):
        last = (alpha, step)
        if step in wanted:
            points.append(measure(problem, *last, known.certificate))
            kept.append(alpha)
    points.append(measure(problem, *last, known.certificate))
    # Lemma 2: W(mu) >= W(alpha) + grad W(alpha) . (mu - alpha), W = -D
    lacking = max(
        float(problem.dual(mu) - problem.dual(a) + dual_slopes(problem, a) @ (mu - a))
        for a in kept[:: len(kept) // 8 + 1]
        for mu in kept[:: len(kept) // 8 + 1]
    )
    optimal = forward_gap(problem, problem.project(known.alpha))
    return points, best, known.certificate.relative_gap, optimal / best, lacking / best


# --- any convex quadratic program -------------------------------------------------------------------------------------


class Program(NamedTuple):
    apart: float  # forward, backward and sigma gap, the largest difference
    attained: float  # by how much u misses being feasible, or its -lambda . c(u) the gap
    literal: float  # by how much the u of Corollary 2 as printed violates A u <= d
    size: float  # what these are relative to


def random_program(rng: np.random.Generator) -> Program:
    """A singular Q, a lambda in the domain of psi and some feasible u in U_lambda, so that the gap is finite."""
    p, m = int(rng.integers(2, 9)), int(rng.integers(2, 12))
    B, A = rng.normal(size=(p, int(rng.integers(1, p)))), rng.normal(size=(m, p))
    Q, lam, u = B @ B.T, rng.uniform(0, 2, m) * (rng.random(m) < 0.7), rng.normal(size=p)
    program = QuadraticProgram(Q, Q @ u + A.T @ lam, A, A @ u + rng.uniform(0, 1, m) * (rng.random(m) < 0.7))
    backward, best = qp_backward_gap(program, lam)
    gaps = [qp_forward_gap(program, lam), backward, qp_sigma_gap(program, lam)]
    slack = program.d - A @ best
    missed = max(float(np.max(-slack)), abs(float(lam @ slack) - backward), 0.0)
    kernel = null_space(Q)
    printed = program.w - A.T @ lam + kernel @ (kernel.T @ best)  # without the inverse of Q
    size = (1 + np.abs(lam).sum()) * (1 + np.abs(program.d).max() + np.abs(A).max() * np.abs(best).sum())
    return Program(max(gaps) - min(gaps), missed, float(np.max(A @ printed - program.d)), float(size))


# --- the experiment ---------------------------------------------------------------------------------------------------


def run(lab: Lab) -> Outcome:
    runs: dict[str, list[Point]] = {}
    values, rows, plots = {}, [], []
    cases = [(name, C) for name in ("german", "splice") for C in (1.0, 100.0)]
    for number, (name, C) in enumerate(cases):
        lab.tell(f"{name}, C = {C:g}", 0.8 * number / len(cases))
        data = load(lab, name, lab.pick(80, 400, None))
        X = data.X.toarray() if sp.issparse(data.X) else data.X
        squares = cdist(X, X, "sqeuclidean")
        K = np.exp(-squares / np.median(squares))
        problem = KernelProblem(data.y, np.full(len(data.y), C), Hinge(), "free", K=K)
        case = f"{name}, C = {C:g}"
        runs[case], *values[case] = follow(problem, lab.pick(3000, 20_000, 100_000))
        end, best = runs[case][-1], values[case][0]
        shares = [f"{value / best:.1e}" for value in (end.primal, end.forward, end.remark_1, end.lemma_8)]
        rows.append([case, str(problem.n), str(end.step), f"{best:.6g}", *shares])
        plots.append(picture(case, runs[case], best))
    rng = np.random.default_rng(0)
    programs = []
    for draw in range(draws := lab.pick(20, 100, 500)):
        lab.tell("random quadratic programs", 0.8 + 0.2 * draw / draws)
        programs.append(random_program(rng))
    header = ["problem", "n", "steps", "P*", "(P - P*) / P*", "G / P*", "C d eps / P*", "C l eps / P*"]
    table = Table("At the end of the algorithm of maximal violating pairs", header, rows)
    return Outcome(verdicts(runs, values, programs), [table], plots)


def picture(case: str, points: list[Point], best: float) -> Plot:
    x = np.array([p.step for p in points])
    quantities = {
        "C l eps, Lemma 8": "lemma_8",
        "C d eps, Remark 1": "remark_1",
        "G(alpha)": "forward",
        "P - P*": "primal",
        "D* - D": "dual",
    }
    curves = {
        name: (x, np.array([getattr(p, field) for p in points]).clip(1e-10 * best))
        for name, field in quantities.items()
    }
    return Plot(case, "steps of the maximal violating pair", "in units of P", curves, log_x=True, log_y=True)


def verdicts(runs: dict[str, list[Point]], values: dict[str, list[float]], programs: list[Program]) -> list[Verdict]:
    scale = {case: values[case][0] for case in runs}
    count = sum(map(len, runs.values()))
    every = f"over {count} dual points of {len(runs)} problems"

    def ratio(part: str, whole: str) -> float:
        """The largest part / whole."""
        return max(
            getattr(p, part) / getattr(p, whole)
            for case, points in runs.items()
            for p in points
            if getattr(p, whole) > COUNTED * scale[case]
        )

    def apart(one: str, other: str) -> float:
        return max(abs(getattr(p, one) - getattr(p, other)) / scale[case] for case, ps in runs.items() for p in ps)

    bound = 1 + 1e-12 / COUNTED  # rounding of P
    tight = [p.remark_1 / p.lemma_8 for points in runs.values() for p in points if p.lemma_8 > 0]
    loose = [p.forward / p.primal for c, points in runs.items() for p in points if p.primal > 1e-6 * scale[c]]
    worst = max(value[3] for value in values.values())
    optimal = max(value[2] for value in values.values())
    duality = max(abs(points[-1].weak) / scale[case] for case, points in runs.items())
    spread = max(p.apart / p.size for p in programs)
    attained = max(p.attained / p.size for p in programs)
    literal = sum(p.literal > HIGHS * p.size for p in programs)
    found = [
        Verdict(
            "Lemma 2: psi is convex, and minus the constraints at u in U_lambda are a subgradient of it.",
            worst <= ROUNDING,
            f"psi lies below its tangents by {max(worst, 0.0):.0e} of P* at most, pairs of points along the algorithm.",
        ),
        Verdict(
            "Lemma 3: the gap P - D of a dual point and its primal point is -lambda . c(u).",
            apart("weak", "backward") <= ROUNDING,
            f"They differ by {apart('weak', 'backward'):.0e} of P* at most, {every}.",
        ),
        Verdict(
            "Lemma 4: the gap bounds the suboptimality of the dual point.",
            ratio("dual", "forward") <= bound,
            f"(D* - D) / G(alpha) is {ratio('dual', 'forward'):.3f} at most, {every}.",
        ),
        Verdict(
            "Theorem 1: the gap is zero at an optimal dual point.",
            optimal <= 1e-8,
            f"G is {optimal:.0e} of P* at the optimum, which is known to {max(v[1] for v in values.values()):.0e}.",
        ),
        Verdict(
            "Theorem 2: the duality gap is zero, and complementary slackness marks the solutions.",
            duality <= 1e-3,
            f"P - D falls to {duality:.0e} of P* at most by the end of the algorithm.",
        ),
        Verdict(
            "Theorem 3 and Corollary 1: forward gap = backward gap.",
            apart("forward", "backward") <= ROUNDING and spread <= HIGHS,
            f"SVMs: they differ by {apart('forward', 'backward'):.0e} of P* at most, {every}. {len(programs)} random "
            f"quadratic programs: by {spread:.0e} of their numbers, linear programs being solved to 1e-7.",
        ),
        Verdict(
            "Theorem 3: a feasible u in U_lambda attains the gap (strict filling, Lemma 6).",
            attained <= HIGHS,
            f"{len(programs)} random programs: u misses feasibility or the gap by {attained:.0e} of their numbers at "
            "most.",
        ),
        Verdict(
            "Lemma 7: the sigma gap is the same number.",
            apart("sigma", "forward") <= ROUNDING and spread <= HIGHS,
            f"SVMs: sigma and G differ by {apart('sigma', 'forward'):.0e} of P* at most. Random programs: "
            f"{spread:.0e}.",
        ),
        Verdict(
            "Corollaries 2 and 3: the primal point that alpha makes is within G(alpha) of the optimum.",
            ratio("primal", "forward") <= bound,
            f"(P - P*) / G(alpha) is {ratio('primal', 'forward'):.3f} at most, {every}; G is {np.median(loose):.2f} "
            "times "
            f"P - P* in the median. D* - D alone would not do: P - P* is up to {ratio('primal', 'dual'):.1e} times "
            "that.",
        ),
        Verdict(
            "Lemma 8: for any b between the maximal violating pair P - P* is at most C l epsilon.",
            ratio("between", "lemma_8") <= bound,
            f"(P - P*) / (C l epsilon) is {ratio('between', 'lemma_8'):.3f} at most, seven b for each of {count} "
            "points; "
            f"G(alpha) / (C l epsilon) {ratio('forward', 'lemma_8'):.3f}.",
        ),
        Verdict(
            "Remark 1: it is at most C d epsilon, d the samples that can be violated.",
            ratio("between", "remark_1") <= bound and ratio("forward", "remark_1") <= bound,
            f"(P - P*) / (C d epsilon) is {ratio('between', 'remark_1'):.3f} at most, G(alpha) / (C d epsilon) "
            f"{ratio('forward', 'remark_1'):.3f}; d / l is {np.median(tight):.2f} in the median, {min(tight):.3f} at "
            "least.",
        ),
        Verdict(
            "Lemma 8 as printed: f = sum_i alpha_i phi(x_i), without y_i, is C l epsilon-optimal.",
            ratio("literal_f", "lemma_8") <= bound,
            f"(P - P*) / (C l epsilon) reaches {ratio('literal_f', 'lemma_8'):.1e}, at the best b of that f. y_i is "
            "missing.",
        ),
        Verdict(
            "Corollary 3 as printed: with the b of (19) as the offset of f(x) + b, P - P* is at most G(alpha).",
            ratio("literal_b", "forward") <= bound,
            f"(P - P*) / G(alpha) reaches {ratio('literal_b', 'forward'):.1e}. That b is minus the offset.",
        ),
        Verdict(
            "Corollary 2 as printed: u = w - A'lambda + z is a feasible point within sigma of the optimum.",
            literal == 0,
            f"It violates A u <= d in {literal} of {len(programs)} random programs. The inverse of Q is missing; "
            "where Q is "
            "the identity on its image, as in an SVM, nothing is.",
        ),
    ]
    return found
