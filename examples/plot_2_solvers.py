"""
Solvers closing in on the optimum
=================================

Every solver goes through the same loop and the same judge. Solid lines are the best objective so far, dashed lines the
best proven lower bound: the optimum lies between them, whoever does the solving.
"""

import warnings

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from primalsvm import LinearSVC
from primalsvm.display import ConvergenceDisplay

X, y = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit_transform(X)

# %%
# Passes over the data are what solvers have in common; seconds depend on the machine.

histories = {}
for name in ("subgradient", "pegasos", "projected_gradient", "dual_coordinate_ascent", "newton"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # some do not get to 1e-6 in 500 steps, which is the point
        model = LinearSVC(loss="hinge", C=1.0, solver=name, tol=1e-6, max_iter=500).fit(X, y)
    histories[name] = model.history_
    print(f"{name:<24}{model.n_iter_:>4} steps   {model.certificate_}")

ConvergenceDisplay.from_histories(histories, x="passes", tol=1e-6)
plt.show()
