"""
Which features matter
=====================

``TunedSVC`` follows the gradient of the cross-validated loss in C and in a gamma for each feature. Here three of twenty
features decide the class; the others are noise. Those that do not pay for themselves end at exactly 0.
"""

import matplotlib.pyplot as plt
import numpy as np

from primalsvm import SVCCV, TunedSVC
from primalsvm.relevance import RelevanceDisplay

rng = np.random.default_rng(0)
X = rng.normal(size=(900, 20))
inside = X[:, 0] ** 2 + X[:, 1] ** 2 + X[:, 2] < 1.6
y = np.where(inside, "inside", "outside")
train, test = slice(0, 300), slice(300, None)

tuned = TunedSVC().fit(X[train], y[train])
grid = SVCCV(Cs=8, gammas=5).fit(X[train], y[train])
print(f"test error of one gamma for each feature: {1 - tuned.score(X[test], y[test]):.1%}")
print(f"test error of the best point of a grid:   {1 - grid.score(X[test], y[test]):.1%}")
print(f"features at exactly 0:                    {np.count_nonzero(tuned.relevances_ == 0)} of 20")

RelevanceDisplay.from_estimator(tuned)
plt.show()
