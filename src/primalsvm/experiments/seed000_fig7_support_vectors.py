r"""Chapelle (2007), Fig. 7: samples in the quadratic and in the linear part of the Huber loss, against its width h.

Data: USPS as in Fig. 6, 10 % of the labels flipped, sigma = 8, lambda = 1/8, n = 1000. The dashed lines of the paper
are LIBSVM's support vectors between the bounds and at the bound; here our SMO's for the hinge, of the same problem.

Claims: when h increases, more samples are in the quadratic part (nsv) and fewer in the linear one; as h goes to 0 the
numbers, and the solution, are those of the hinge.

Expected: all hold; there is a proof of the last one, since the losses differ by h / 4 at most.
"""

import numpy as np

from ..losses import Hinge
from ..solve import solve
from ..solvers import SMO
from .huber_newton import huber_newton
from .lab import Lab, Outcome, Plot, Table, Verdict
from .usps_kernel import digits, flipped, gaussian, make_problem

LAMBDA = 1 / 8


def run(lab: Lab) -> Outcome:
    data = digits(lab, lab.pick(200, 1000, 1000))
    K, y = gaussian(data.X), flipped(data.y)
    n, C = len(y), 1 / (2 * LAMBDA)
    problem = make_problem(K, y, LAMBDA, Hinge(), "none")
    hinge = solve(problem, SMO(), tol=1e-8, max_iter=100_000)
    at_bound = int(np.sum(hinge.alpha > C * (1 - 1e-6)))
    between = int(np.sum(hinge.alpha > C * 1e-6)) - at_bound
    widths = 2.0 ** np.arange(*lab.pick((-6, 1, 3), (-10, 1), (-10, 1)))
    found = []
    for number, h in enumerate(widths):
        lab.tell(f"h = {h:.3g}", number / len(widths))
        trained = huber_newton(K, y, LAMBDA, h)
        excess = problem.primal(trained.beta, 0.0) / hinge.certificate.primal - 1
        found.append((h, trained.quadratic, trained.linear, excess))
    _, quadratic, linear, excess = np.array(found).T
    flat = np.ones(len(widths))
    curves = {
        "quadratic part, nsv": (widths, quadratic),
        "linear part": (widths, linear),
        "hinge, between the bounds": (widths, between * flat),
        "hinge, at the bound": (widths, at_bound * flat),
    }
    close = abs(quadratic[0] - between) <= 0.02 * n and abs(linear[0] - at_bound) <= 0.02 * n
    verdicts = [
        Verdict(
            "When h increases, nsv increases.",
            bool(np.all(np.diff(quadratic) >= 0)),
            f"From {quadratic[0]:.0f} of {n} at h = {widths[0]:.2g} to {quadratic[-1]:.0f} at h = {widths[-1]:g}.",
        ),
        Verdict(
            "When h increases, fewer samples are in the linear part.",
            bool(np.all(np.diff(linear) <= 0)),
            f"From {linear[0]:.0f} to {linear[-1]:.0f}.",
        ),
        Verdict(
            "As h goes to 0 the numbers are those of the hinge.",
            None if lab.toy else bool(close),
            f"At h = {widths[0]:.2g}: {quadratic[0]:.0f} and {linear[0]:.0f}; the hinge has {between} between the "
            f"bounds and {at_bound} at the bound.",
        ),
        Verdict(
            "As h goes to 0 the solution is that of the hinge.",
            bool(excess[0] < excess[-1] and excess[0] <= 2 * widths[0]),
            f"Its hinge objective is {100 * excess[0]:.2g} % above the optimum at h = {widths[0]:.2g}, "
            f"{100 * excess[-1]:.2g} % at h = {widths[-1]:g}.",
        ),
    ]
    rows = [[f"{a:.4g}", f"{b:.0f}", f"{c:.0f}", f"{d:.1e}"] for a, b, c, d in found]
    header = ["h", "quadratic part", "linear part", "hinge objective above its optimum"]
    plot = Plot(f"Support vectors against h, n = {n}", "h", "samples", curves, log_x=True)
    return Outcome(verdicts, [Table(f"USPS, n = {n}", header, rows)], [plot])
