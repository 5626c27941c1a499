"""
Classes that have an order
==========================

Five grades along a slope in two features. One class against the rest cannot see the grades in the middle, which have
neighbours on both sides; ``OrdinalSVC`` puts a boundary between neighbours.
"""

import matplotlib.pyplot as plt
import numpy as np

from primalsvm import LinearSVC, OrdinalSVC

rng = np.random.default_rng(1)
X = rng.uniform(-2, 2, size=(500, 2))
slope = X @ [1.0, 0.6] + 0.35 * rng.normal(size=500)
y = np.digitize(slope, [-1.6, -0.5, 0.5, 1.6]) + 1

models = {
    "one against the rest": LinearSVC(C=1.0),
    "cumulative": OrdinalSVC(LinearSVC(C=1.0)),
    "shared": OrdinalSVC(LinearSVC(C=1.0), strategy="shared"),
}
figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.6), layout="constrained", sharey=True)
line = np.linspace(-2.1, 2.1, 200)
points = np.column_stack([axis.ravel() for axis in np.meshgrid(line, line)])
for ax, (name, model) in zip(axes, models.items(), strict=True):
    said = model.fit(X, y).predict(points).reshape(200, 200)
    ax.contourf(line, line, said, levels=np.arange(0.5, 6), cmap="viridis", alpha=0.35)
    ax.scatter(*X.T, 9, c=y, cmap="viridis", edgecolor="white", linewidth=0.3)
    error = np.mean(np.abs(model.predict(X) - y))
    ax.set_title(f"{name}\nmean absolute error {error:.2f}", fontsize="medium")
    print(f"{name:<22}{model.certificate_}")
plt.show()
