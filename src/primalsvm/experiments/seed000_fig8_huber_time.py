r"""Chapelle (2007), Fig. 8: LIBSVM and Newton's method for the Huber loss, time against n.

Data: USPS as in Fig. 6, 10 % of the labels flipped, sigma = 8, lambda = 1/8, h = 2^-5; all 7291 samples and halves of
them. The paper's Newton (`huber_newton`), our own, our conjugate gradients, and LIBSVM for the hinge, one thread each;
K is computed beforehand. nsv is LIBSVM's, its support vectors between the bounds.

Claims: the time is O(nsv^3); LIBSVM has the better constant, since Newton takes about 30 steps; not factorising the
Hessian from scratch in each of them, or conjugate gradients, would improve that.

Expected: all hold. At these sizes the n^2 of a product with K is still a part of the time, so the exponent should be
below 3.
"""

import time
from functools import partial

import numpy as np

from ..losses import Huber
from ..matrix import one_blas_thread
from ..solvers import ConjugateGradient
from .huber_newton import huber_newton
from .lab import Lab, Outcome, Plot, Table, Verdict, cpu_seconds, exponent
from .usps_kernel import digits, flipped, gaussian, halvings, make_problem, newton

LAMBDA, H, TOL = 1 / 8, 2.0**-5, 1e-3


def conjugate_gradients(problem) -> float:
    """Seconds to the relative gap TOL."""
    solver, begin = ConjugateGradient(), time.process_time()
    state = solver.init(problem)
    while not state.ended and state.belief > TOL:
        solver.step(problem, state)
    return time.process_time() - begin


def run(lab: Lab) -> Outcome:
    from sklearn.svm import SVC as Libsvm

    data = digits(lab, lab.pick(300, 2000, 7291))
    labels, whole = flipped(data.y), gaussian(data.X)
    sizes = halvings(len(labels), lab.pick(75, 250, 450))
    newton(make_problem(whole[:50, :50], labels[:50], LAMBDA, Huber(H)), TOL)  # compiled, or from the cache
    found = []
    for number, size in enumerate(sizes):
        lab.tell(f"n = {size}", (number / len(sizes)) ** 2)
        K, y = np.ascontiguousarray(whole[:size, :size]), labels[:size]
        problem = make_problem(K, y, LAMBDA, Huber(H), "none")
        with one_blas_thread():
            plain = huber_newton(K, y, LAMBDA, H, TOL)
            ours = newton(problem, TOL)
            gradients = conjugate_gradients(problem)
        C = 1 / (2 * LAMBDA)
        theirs, peer = cpu_seconds(partial(Libsvm(kernel="precomputed", C=C, cache_size=1000).fit, K, y))
        nsv = int(np.sum(np.abs(peer.dual_coef_) < C * (1 - 1e-9)))
        found.append((size, nsv, plain.seconds, theirs, ours.seconds, gradients, plain.steps, ours.steps))
    n, nsvs, first, libsvm, own, cg, steps, _ = np.array(found).T
    cubes = exponent(nsvs, first), exponent(nsvs, libsvm)
    measured = None if lab.toy else True
    verdicts = [
        Verdict(
            "The time complexity is O(nsv^3).",
            measured and bool(all(abs(a - 3) <= 0.5 for a in cubes)),
            f"Newton nsv^{cubes[0]:.2f}, LIBSVM nsv^{cubes[1]:.2f}, nsv from {nsvs[0]:.0f} to {nsvs[-1]:.0f}.",
        ),
        Verdict(
            "The constant is better for LIBSVM.",
            measured and bool(np.all(libsvm < first)),
            f"The paper's Newton takes {(first / libsvm).min():.1f} to {(first / libsvm).max():.1f} times as long.",
        ),
        Verdict(
            "Newton requires on the order of 30 steps.",
            measured and bool(15 <= np.median(steps) <= 60),
            f"{steps.min():.0f} to {steps.max():.0f} steps to a relative gap of {TOL:g}.",
        ),
        Verdict(
            "Not factorising the Hessian from scratch each time improves on that.",
            measured and bool(own[-1] < first[-1]),
            f"Our Newton, which also begins with few samples and a wider h, is {first[-1] / own[-1]:.1f} times faster "
            f"at n = {n[-1]:.0f}; LIBSVM {first[-1] / libsvm[-1]:.1f} times.",
        ),
        Verdict(
            "A more direct optimiser such as conjugate gradients improves on that.",
            measured and bool(cg[-1] < first[-1]),
            f"{first[-1] / cg[-1]:.1f} times faster than the paper's Newton at n = {n[-1]:.0f}, to the same gap.",
        ),
    ]
    header = ["n", "nsv", "Newton, s", "LIBSVM, s", "our Newton, s", "CG, s", "Newton steps", "our steps"]
    rows = [[f"{r[0]}", f"{r[1]}", *(f"{v:.3f}" for v in r[2:6]), f"{r[6]}", f"{r[7]}"] for r in found]
    names = ("the paper's Newton", "LIBSVM", "our Newton", "conjugate gradients")
    curves = {name: (n, values) for name, values in zip(names, (first, libsvm, own, cg), strict=True)}
    curves["nsv^3, scaled"] = (n, nsvs**3 * (first[-1] / nsvs[-1] ** 3))
    return Outcome(
        verdicts,
        [Table("USPS, 10 % of the labels flipped, h = 1/32", header, rows)],
        [Plot("Time against n", "n", "seconds", curves, log_x=True, log_y=True)],
    )
