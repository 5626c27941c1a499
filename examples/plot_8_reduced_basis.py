"""
How many samples must carry the function?
=========================================

With ``approximation=...`` f is a sum over a few samples, chosen as it goes ("greedy"), from a Cholesky factor of K, or
at random; all samples are in the loss. ``certify`` proves how far such a model is from the exact SVM.
"""

import matplotlib.pyplot as plt
import numpy as np

from primalsvm import SVC, certify

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=(4000, 2))
waves = np.sin(5 * X[:, 0]) * np.cos(4 * X[:, 1]) + 0.3 * rng.normal(size=4000)
y = waves > 0
train, test = slice(0, 2000), slice(2000, None)
options = {"gamma": 8.0, "C": 1.0, "loss": "squared_hinge"}

exact = SVC(**options).fit(X[train], y[train])
sizes = [5, 10, 20, 40, 80, 160]
figure, (errors, gaps) = plt.subplots(2, figsize=(6.4, 5.6), layout="constrained", sharex=True)
for method, colour, marker in (("random", "#D55E00", "o"), ("cholesky", "#009E73", "s"), ("greedy", "#0072B2", "^")):
    wrong, above = [], []
    for size in sizes:
        model = SVC(approximation=method, n_basis=size, random_state=0, **options).fit(X[train], y[train])
        wrong.append(100 - 100 * model.score(X[test], y[test]))
        above.append(certify(model, X[train], y[train]).relative_gap)
    style = {"color": colour, "marker": marker, "label": method}
    errors.plot(sizes, wrong, **style)
    gaps.plot(sizes, above, **style)
    print(f"{method:<10}{sizes[-1]} functions: {wrong[-1]:.1f} % test error, relative gap {above[-1]:.1e}")

everyone = 100 - 100 * exact.score(X[test], y[test])
errors.axhline(everyone, color="#444444", linestyle="--", linewidth=1)
errors.annotate(f"exact, {len(exact.support_)} support vectors", (5, everyone - 1.6), color="#444444", fontsize="small")
errors.set(ylabel="test error, %")
gaps.set(xscale="log", yscale="log", xlabel="samples in the basis", ylabel="proven gap to the exact SVM")
gaps.set_xticks(sizes, [str(size) for size in sizes])
gaps.minorticks_off()
errors.legend(frameon=False)
for ax in (errors, gaps):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
