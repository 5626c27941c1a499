"""
A kernel's boundary and its support vectors
===========================================

The Gaussian kernel on two moons. Solid is the boundary, dashed are the margins; rings are support vectors. With a
larger C fewer samples may stand on the wrong side, and fewer carry the function.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons

from primalsvm import SVC
from primalsvm.display import BoundaryDisplay

X, y = make_moons(200, noise=0.25, random_state=0)

figure, axes = plt.subplots(1, 2, figsize=(9.2, 4.4), layout="constrained", sharey=True)
for ax, C in zip(axes, (0.3, 30), strict=True):
    model = SVC(kernel="rbf", gamma=1.5, C=C, tol=1e-6).fit(X, y)
    BoundaryDisplay.from_estimator(model, X, y, ax=ax)
    ax.set_title(f"C = {C:g}: {len(model.support_)} support vectors", fontsize="medium")
    print(f"C = {C:<5g}{model.certificate_}")
plt.show()
