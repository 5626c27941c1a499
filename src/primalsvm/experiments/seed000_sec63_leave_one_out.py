r"""Chapelle (2007), section 6.3: the leave-one-out error from the inverse that Newton's method ends with.

    f^-i(x_i) = f(x_i) - y_i alpha_i S_i,     S_i from the inverse of K_sv + lambda I: one Newton step without sample i

Data: german and splice, Gaussian kernel, quadratic loss, C = 1. The approximate error beside the true one, for which
the SVM is trained again without each support vector. Times are of the processor, on one thread.

Claims: an approximate leave-one-out error needs the inverse, which is available after training, so it costs little
beside it. That it is a good approximation is said in Chapelle et al. (2002).

Expected: both hold.
"""

from functools import partial

import numpy as np

from ..loo import leave_one_out
from ..svc import SVC
from .data import load
from .lab import Lab, Outcome, Plot, Table, Verdict, cpu_seconds


def train_without(model: SVC, X: np.ndarray, y: np.ndarray, left: np.ndarray) -> np.ndarray:
    """Scores of the samples `left`, each by a model that has not seen it."""
    scores = []
    for i in left:
        keep = np.arange(len(y)) != i
        scores.append(float(model.fit(X[keep], y[keep]).decision_function(X[[i]])[0]))
    return np.array(scores)


def run(lab: Lab) -> Outcome:
    rows, plots, off, ratio, apart = [], [], [], [], []
    sets = ("german", "splice")
    for number, name in enumerate(sets):
        data = load(lab, name, lab.pick(60, 200, 400))
        X, y = data.X, data.y
        lab.tell(f"{name}: trained without each sample", (number + 0.1) / len(sets))
        # one gamma for all fits: "scale" would follow the samples that are left
        model = partial(SVC, C=1.0, gamma=1 / (X.shape[1] * X.var()), loss="squared_hinge", solver="newton", tol=1e-6)
        leave_one_out(model().fit(X, y), X, y)  # compiled, or from the cache
        once, fitted = cpu_seconds(partial(model().fit, X, y), 3)
        formula, found = cpu_seconds(partial(leave_one_out, fitted, X, y), 3)
        support = fitted.support_  # without any other sample the model stays what it is
        true = fitted.decision_function(X)
        again, true[support] = cpu_seconds(partial(train_without, model(), X, y, support))
        errors = 100 * np.mean(found.scores * y <= 0), 100 * np.mean(true * y <= 0)
        off.append(abs(errors[0] - errors[1]))
        ratio.append(formula / once)
        apart.append(float(np.median(np.abs(found.scores - true)[support])))
        training = 100 * found.training_error
        cells = [f"{v:.2f}" for v in (training, *errors)] + [f"{v:.3f}" for v in (once, formula, again)]
        rows.append([name, f"{len(y)}", f"{len(support)}", *cells])
        curves = {"+1": (true[y > 0], found.scores[y > 0]), "-1": (true[y < 0], found.scores[y < 0])}
        title = f"{name}: scores without the sample"
        plots.append(Plot(title, "trained again without it", "by the formula", curves, marks=True))
    measured = None if lab.toy else True
    verdicts = [
        Verdict(
            "The approximate leave-one-out error costs little beside training, whose inverse it takes.",
            measured and max(ratio) <= 1.0,
            f"{ratio[0]:.2f} and {ratio[1]:.2f} times the training of one model, on german and splice.",
        ),
        Verdict(
            "It is a good approximation of the true one.",
            measured and max(off) <= 1.0,
            f"{off[0]:.2f} and {off[1]:.2f} points apart; the scores of support vectors by {apart[0]:.1e} and "
            f"{apart[1]:.1e} in the median.",
        ),
    ]
    header = ["set", "n", "support", "training error, %", "by the formula, %", "true, %"]
    header += ["training, s", "formula, s", "all trained again, s"]
    return Outcome(verdicts, [Table("Leave one out", header, rows)], plots)
