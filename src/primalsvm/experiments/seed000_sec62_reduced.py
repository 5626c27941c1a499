r"""Chapelle (2007), section 6.2: reduced expansions, f a sum over a few samples, the loss over all of them.

    f(x) = sum over j in S of beta_j k(x_j, x),     S of k samples, at random or greedily                          (6.1)

Data: USPS, 0-4 against 5-9, sigma = 8, quadratic loss, lambda = 1/8. SVC(approximation="random" or "greedy", n_basis=k)
beside the exact SVM. Times are of the processor, on one thread; the paper has no figure of this.

Claims: with k elements the time is O(n k^2); a small subset is enough; S can be chosen at random or be constructed
greedily, and the latter is what Keerthi, Chapelle and DeCoste recommend: it should need fewer.

Expected: all hold; the time at a small k is mostly that of the kernel values, n k d, so the exponent in k is below 2.
"""

from functools import partial

import numpy as np

from ..svc import SVC
from .lab import Lab, Outcome, Plot, Table, Verdict, cpu_seconds, exponent
from .usps_kernel import digits

C, GAMMA = 4.0, 1 / 128
METHODS = ("random", "greedy")


def run(lab: Lab) -> Outcome:
    data = digits(lab, lab.pick(200, 2000, 7291))
    sizes = lab.pick([10, 20, 40], [25, 50, 100, 200, 400], [50, 100, 200, 400, 800, 1600])
    model = partial(SVC, C=C, gamma=GAMMA, loss="squared_hinge", tol=1e-4, random_state=0)
    lab.tell("the exact SVM", 0.0)
    exact_seconds, exact = cpu_seconds(partial(model().fit, data.X, data.y))
    best, nsv = exact.certificate_.dual, len(exact.support_)
    wrong = 100 * (1 - exact.score(data.X_test, data.y_test))
    found: dict[str, list[tuple[float, float, float]]] = {method: [] for method in METHODS}
    for number, k in enumerate(sizes):
        for method in METHODS:
            lab.tell(f"{method}, {k} of {len(data.y)}", 0.2 + 0.8 * number / len(sizes))
            time, fitted = cpu_seconds(partial(model(approximation=method, n_basis=k).fit, data.X, data.y))
            error = 100 * (1 - fitted.score(data.X_test, data.y_test))
            found[method].append((fitted.certificate_.primal / best - 1, error, time))
    excess, errors, times = ({m: np.array([r[i] for r in found[m]]) for m in METHODS} for i in range(3))
    k = np.array(sizes)
    enough = {m: next((s for s, e in zip(sizes, errors[m], strict=True) if e <= wrong + 0.5), 0) for m in METHODS}
    grows = exponent(k[len(k) // 2 :], times["random"][len(k) // 2 :])
    said = {m: f"{enough[m]}" if enough[m] else f"more than {sizes[-1]}" for m in METHODS}
    measured = None if lab.toy else True
    verdicts = [
        Verdict(
            "With k elements training takes O(n k^2).",
            measured and bool(grows <= 2.2),
            f"k^{grows:.2f} from {k[len(k) // 2]} to {k[-1]}, at random: {times['random'][-1]:.2f} s for the last, the "
            f"exact SVM {exact_seconds:.2f} s.",
        ),
        Verdict(
            "A small subset of the samples is enough.",
            measured and bool(0 < enough["greedy"] <= 0.5 * nsv),
            f"Within half a point of the exact error, {wrong:.2f} %: {said['random']} at random, {said['greedy']} "
            f"greedily, of {len(data.y)}; the exact SVM has {nsv} support vectors.",
        ),
        Verdict(
            "A subset constructed greedily is better than one drawn at random.",
            measured and bool(np.all(excess["greedy"] < excess["random"])),
            "Objective above the optimum, greedily and at random: "
            + ", ".join(
                f"k = {s}: {100 * a:.3g} and {100 * b:.3g} %"
                for s, a, b in zip(sizes, excess["greedy"], excess["random"], strict=True)
            )
            + ".",
        ),
    ]
    header = ["k"] + [f"{m}, {what}" for m in METHODS for what in ("objective above, %", "error, %", "s")]
    rows = [
        [f"{s}", *(f"{v:.3g}" for m in METHODS for v in (100 * excess[m][i], errors[m][i], times[m][i]))]
        for i, s in enumerate(sizes)
    ]
    curves = {m: (k, errors[m]) for m in METHODS} | {"exact": (k, np.full(len(k), wrong))}
    above = {m: (k, excess[m].clip(1e-6)) for m in METHODS}
    return Outcome(
        verdicts,
        [Table(f"USPS, n = {len(data.y)}", header, rows)],
        [
            Plot("Test error against the size of the basis", "k", "test error, %", curves, log_x=True),
            Plot("Objective above the exact optimum", "k", "relative", above, log_x=True, log_y=True),
        ],
    )
