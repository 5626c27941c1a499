"""
A path over C and the simplest good model
=========================================

``LinearSVCCV`` goes up a grid of C on every fold, each fit started from the one before, each with its certificate.
Beside the best mean score it knows the *one-standard-error choice*: the smallest C that is no worse than the folds can
tell.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from primalsvm import LinearSVCCV, linear_path
from primalsvm.display import PathDisplay

X, y = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit_transform(X)

search = LinearSVCCV(loss="hinge", Cs=np.logspace(-4, 2, 19), cv=10, choice="one_standard_error").fit(X, y)
print("chosen:", search.best_params_)
print("largest proven gap of all fits:", f"{search.cv_results_['max_relative_gap'].max():.1e}")
PathDisplay.from_estimator(search)
plt.show()

# %%
# Between the points of a grid nothing is known, unless it is proven. ``cover=0.05`` chooses the grid itself: for
# *every* C of the range one of the models is within 5 % of the optimum at that C. A bar is what one model covers.

models = linear_path(X, y, C=[0.001, 100], cover=0.05, loss="hinge")
figure, ax = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
for k, model in enumerate(models):
    ax.plot(model.covers_, [k, k], color="#0072B2", linewidth=6, solid_capstyle="butt", alpha=0.6)
    ax.plot(model.C, k, "o", color="#D55E00", markersize=5)
ax.set(xscale="log", xlabel="C", yticks=[], ylabel=f"{len(models)} models")
ax.set_title("Five decades of C, proven to 5 % everywhere", fontsize="medium")
ax.spines[["top", "right", "left"]].set_visible(False)
plt.show()
