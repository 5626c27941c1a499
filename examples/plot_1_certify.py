"""
How good is scikit-learn's answer?
==================================

scikit-learn's ``LinearSVC`` stops after ``max_iter`` passes, warns, and cannot say how far it has come. ``certify``
can: it proves an interval in which the distance from the optimum lies.
"""

import warnings

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC as SklearnLinearSVC

from primalsvm import LinearSVC, certify

X, y = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit_transform(X)

# %%
# The same problem for both: hinge loss, C = 10, no intercept. Ours first.

ours = LinearSVC(loss="hinge", C=10, fit_intercept=False).fit(X, y)
print("primalsvm:  ", ours.certificate_)

# %%
# Theirs after 10, 100, ... 100000 passes. Nothing is trained again to judge them: ``certify`` looks at the model, finds
# a dual point that proves a lower bound, and adds what rounding can have done.

passes = [10, 100, 1000, 10_000, 100_000]
certificates = []
for max_iter in passes:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it says that it has not converged, and no more
        theirs = SklearnLinearSVC(loss="hinge", C=10, fit_intercept=False, max_iter=max_iter, random_state=0).fit(X, y)
    certificates.append(certify(theirs, X, y))
    print(f"{max_iter:>6} passes:", certificates[-1])

# %%
# More passes need not help: at the default the model is no better than after a tenth of them. Its warning is the same.

figure, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
for max_iter, certificate in zip(passes, certificates, strict=True):
    least, most = (100 * share for share in certificate.excess)
    ax.errorbar(max_iter, most, [[most - least], [0]], fmt="o", color="#D55E00", markersize=8, capsize=6)
    ax.annotate(f"{most:.2g} %", (1.25 * max_iter, most), va="center", fontsize="small")
ax.axhline(100 * ours.certificate_.excess[1], color="#0072B2", linewidth=2)
ax.annotate("primalsvm: at most this", (11, 160 * ours.certificate_.excess[1]), color="#0072B2")
ax.axvline(1000, color="#444444", linewidth=0.8, linestyle=":")
ax.annotate("the default", (1150, 1e-5), color="#444444", fontsize="small")
ax.set(
    xscale="log",
    yscale="log",
    xlim=(6, 4e5),
    xlabel="max_iter of scikit-learn's LinearSVC",
    ylabel="% above the optimum",
)
ax.set_title("Proven distance from the optimum", fontsize="medium")
ax.spines[["top", "right"]].set_visible(False)
plt.show()
