r"""Chapelle (2007), Fig. 1 and appendix A: conjugate gradients on the primal and on the dual of least squares.

    primal   min over w      lambda |w|^2 + |X w - y|^2                            (2.1)
    dual     max over alpha  2 alpha'y - alpha'(X X' + lambda I) alpha / lambda    (2.3),   w = X'alpha / lambda

Data: X and y Gaussian, lambda = 1, n = 10 and d = 100, or the other way round; as many draws as the scale allows.

Claims: where n << d there is no difference between the two, where n >> d the dual is much slower in what counts, the
primal objective; the primal is never worse at the same number of steps. Appendix A has the difference after one step,

    1/2 (B^2 - A C)^2 / ((B + lambda A)^2 (C + lambda B)),      A = y'y,  B = y'XX'y,  C = y'XX'XX'y

whose values are halves of those of (2.1), which is what is counted here.

Expected: all hold. After k steps both w lie in the same space, spanned by (X'X)^j X'y, j < k, in which the primal's
is the best one; so the third claim is a theorem.
"""

import numpy as np

from .lab import Lab, Outcome, Plot, Table, Verdict

LAMBDA = 1.0
ENOUGH = 1e-6  # of the first suboptimality
SHAPES = {"n = 10, d = 100": (10, 100), "n = 100, d = 10": (100, 10)}


def conjugate_gradient(A: np.ndarray, rhs: np.ndarray, steps: int) -> list[np.ndarray]:
    """The iterates for A x = rhs, from 0."""
    iterates, residual = [np.zeros_like(rhs)], rhs
    direction = rhs
    for _ in range(steps):
        size = residual @ residual
        if size > 0:
            t = size / (direction @ A @ direction)
            iterates.append(iterates[-1] + t * direction)
            residual = residual - t * (A @ direction)
            direction = residual + (residual @ residual) / size * direction
        else:
            iterates.append(iterates[-1])
    return iterates


def both(X: np.ndarray, y: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Primal suboptimality after each step on the primal and on the dual, and how far (2.2) and (2.4) are apart."""
    n, d = X.shape
    H, G = X.T @ X + LAMBDA * np.eye(d), X @ X.T + LAMBDA * np.eye(n)
    best = np.linalg.solve(H, X.T @ y)
    on_primal = conjugate_gradient(H, X.T @ y, steps)
    on_dual = [X.T @ alpha / LAMBDA for alpha in conjugate_gradient(G, LAMBDA * y, steps)]
    # (w - best)' H (w - best) is P(w) - P(best), and keeps its digits where the two are close
    excess = [np.array([(w - best) @ H @ (w - best) for w in path]) for path in (on_primal, on_dual)]
    primal, dual = y @ y - y @ X @ best, LAMBDA * y @ np.linalg.solve(G, y)
    return excess[0], excess[1], float(abs(primal - dual) / primal)


def appendix(X: np.ndarray, y: np.ndarray) -> float:
    """How much less the primal is after one step on itself, by the formula, twice that of the paper."""
    z = X @ (X.T @ y)
    A, B, C = y @ y, y @ z, z @ z
    return float((B * B - A * C) ** 2 / ((B + LAMBDA * A) ** 2 * (C + LAMBDA * B)))


def run(lab: Lab) -> Outcome:
    draws, steps = lab.pick(20, 100, 500), 16
    rng = np.random.default_rng(0)
    rows, plots, taken = [], [], {}
    worse = off = gap = 0.0
    leaps = []
    for number, (name, (n, d)) in enumerate(SHAPES.items()):
        counts, aligned = [], []
        for draw in range(draws):
            lab.tell(name, (number + draw / draws) / len(SHAPES))
            X, y = rng.standard_normal((n, d)), rng.standard_normal(n)
            primal, dual, apart = both(X, y, steps)
            if draw == 0:
                x, floor = np.arange(steps + 1), 1e-15 * primal[0]  # below is rounding
                curves = {"on the primal": (x, primal.clip(floor)), "on the dual": (x, dual.clip(floor))}
                plots.append(Plot(name, "steps of conjugate gradients", "primal suboptimality", curves, log_y=True))
            counts.append([int(np.argmax(path <= ENOUGH * path[0])) for path in (primal, dual)])
            z = X @ (X.T @ y)
            aligned.append((y @ z) / np.linalg.norm(y) / np.linalg.norm(z))
            worse = max(worse, float(np.max(primal - dual) / primal[0]))
            off = max(off, abs(dual[1] - primal[1] - appendix(X, y)) / primal[0])
            gap = max(gap, apart)
            leaps += [dual[1] / dual[0]] if n > d else []
        taken[name] = np.array(counts)
        middle = np.median(counts, axis=0)
        rows.append([name, f"{middle[0]:.0f}", f"{middle[1]:.0f}", f"{np.mean(aligned):.3f}"])
    few, many = taken.values()
    header = ["sizes", "steps on the primal", "steps on the dual", "cosine of y and XX'y"]
    extra = few[:, 1] - few[:, 0]
    ratio = np.median(many[:, 1] / many[:, 0])
    verdicts = [
        Verdict(
            "Where n << d, primal and dual optimisation make no difference.",
            bool(np.median(extra) <= 1),
            f"n = 10, d = 100: the dual takes {np.mean(extra):.2f} steps more on average, of {np.mean(few[:, 0]):.1f}, "
            f"to {ENOUGH:g} of the first suboptimality; {draws} draws.",
        ),
        Verdict(
            "Where n >> d, the dual can be much slower to converge.",
            bool(ratio > 1.3),
            f"n = 100, d = 10: {np.mean(many[:, 0]):.1f} steps on the primal, {np.mean(many[:, 1]):.1f} on the dual, "
            f"whose first step makes the primal suboptimality {np.median(leaps):.0f} times that of w = 0.",
        ),
        Verdict(
            "At the same number of steps the primal objective is never higher by steps on the primal.",
            worse <= 1e-10,
            f"All steps of {2 * draws} problems: higher by {max(worse, 0.0):.0e} of the first value at most.",
        ),
        Verdict(
            "After one step the difference is that of appendix A, up to the factor 2 that the text has lost.",
            off <= 1e-10,
            f"The formula is off by {off:.0e} of the first value at most; values are halves of (2.1)'s in the paper.",
        ),
        Verdict("The optimal values (2.2) and (2.4) are the same.", gap <= 1e-10, f"To {gap:.0e} at most."),
    ]
    return Outcome(verdicts, [Table(f"Median steps to {ENOUGH:g}", header, rows)], plots)
