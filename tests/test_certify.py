"""certify: every kind of model, judged right, and the figures it must be able to give on real data."""

import lzma
import os
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_iris, load_svmlight_file
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.svm import LinearSVC as SklearnLinearSVC

import primalsvm.claims
from primalsvm import SVC as OurSVC
from primalsvm import LinearSVC, certify
from primalsvm.kernels import Kernel

DATA = Path(os.environ.get("PRIMALSVM_DATA", Path(__file__).parents[2] / "shared" / "data"))


def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), np.where(y == 1, "benign", "malignant")


def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


# each solved far enough that only a reading of the wrong problem could leave a gap
MODELS = {
    "ours": (LinearSVC("hinge"), 1e-3),
    "ours, one against one": (LinearSVC(multi_class="ovo", class_weight="balanced"), 1e-3),
    "our SVC": (OurSVC(C=2.0), 1e-3),
    "our SVC, against the rest": (OurSVC(multi_class="ovr", loss="huber", class_weight="balanced"), 1e-3),
    "our SVC, linear": (OurSVC("linear", loss="squared_hinge"), 1e-3),
    "LinearSVC": (SklearnLinearSVC(C=0.1, tol=1e-9, max_iter=100_000), 1e-6),
    "LinearSVC, hinge, scaled intercept": (
        SklearnLinearSVC(loss="hinge", C=0.1, intercept_scaling=7.0, tol=1e-8, max_iter=1_000_000, random_state=0),
        1e-6,
    ),
    "LinearSVC, no intercept, class weights": (
        SklearnLinearSVC(C=0.1, fit_intercept=False, class_weight="balanced", tol=1e-9, max_iter=100_000),
        1e-6,
    ),
    "SVC, linear": (SVC(kernel="linear", C=0.5, tol=1e-6), 1e-4),
    "SVC, rbf": (SVC(C=2.0, tol=1e-6), 1e-4),
    "SVC, rbf, class weights": (SVC(C=2.0, tol=1e-6, class_weight="balanced"), 1e-4),
    "SVC, poly": (SVC(kernel="poly", coef0=1.0, degree=2, tol=1e-6), 1e-4),
    "SGDClassifier": (SGDClassifier(alpha=0.01, average=True, max_iter=3000, tol=None, random_state=0), 2e-2),
    "SGDClassifier, squared": (
        SGDClassifier(
            "squared_hinge",
            alpha=0.1,
            average=True,
            max_iter=3000,
            tol=None,
            random_state=0,
            learning_rate="adaptive",
            eta0=0.001,
        ),
        2e-2,
    ),
}


@pytest.mark.parametrize("data", [cancer, iris], ids=["two classes", "three"])
@pytest.mark.parametrize("name", MODELS)
def test_a_good_model_is_called_good(name, data):
    X, y = data()
    model, tol = MODELS[name]
    seen = certify(model.fit(X, y), X, y)
    assert seen.dual <= seen.reachable <= seen.primal
    assert seen.relative_gap <= tol
    assert len(seen.parts) == (0 if data is cancer else 3)


@pytest.mark.parametrize("name", MODELS)
def test_a_spoilt_model_is_called_bad(name):
    """Move the intercept: the certificate must see at least what that costs."""
    X, y = cancer()
    model, _ = MODELS[name]
    good = certify(model.fit(X, y), X, y)
    if getattr(model, "fit_intercept", True):
        model.intercept_ = model.intercept_ + 1.0
    else:
        model.coef_ = model.coef_ * 2.0
    bad = certify(model, X, y)
    assert bad.excess[0] > 0.01
    assert bad.dual == pytest.approx(good.dual, rel=3e-2)


def test_weights_are_those_of_the_training():
    X, y = cancer()
    weight = np.random.default_rng(0).uniform(0.0, 2.0, len(y))
    model = SklearnLinearSVC(C=0.1, tol=1e-9, max_iter=100_000).fit(X, y, sample_weight=weight)
    assert certify(model, X, y, sample_weight=weight).relative_gap < 1e-6
    assert certify(model, X, y).excess[0] > 1e-4


def test_sparse_and_float32():
    X, y = cancer()
    X = np.round(X, 2).astype(np.float32)
    model = SVC(tol=1e-6).fit(sp.csr_matrix(X), y)
    assert certify(model, sp.csr_matrix(X), y).relative_gap < 1e-4
    linear = SklearnLinearSVC(C=0.1, tol=1e-8, max_iter=100_000).fit(X, y)
    assert certify(linear, sp.csc_matrix(X), y).relative_gap < 1e-5


def test_precomputed_and_callable_kernels():
    X, y = cancer()
    K = X @ X.T
    assert certify(SVC(kernel="precomputed", C=0.5, tol=1e-6).fit(K, y), K, y).relative_gap < 1e-4
    model = SVC(kernel=lambda A, B: (A @ B.T + 1.0) ** 2, C=0.01, tol=1e-6).fit(X, y)
    assert certify(model, X, y).relative_gap < 1e-3
    beta = np.zeros(len(y))
    assert certify((beta, 0.0), K, y, C=1.0, loss="hinge", intercept="free", kernel="precomputed").excess[0] > 0.5
    with pytest.raises(ValueError, match="not positive semidefinite"):
        certify((beta, 0.0), -K, y, C=1.0, loss="hinge", intercept="free", kernel="precomputed")
    with pytest.raises(ValueError, match="sigmoid kernel is not positive"):
        certify(SVC(kernel="sigmoid").fit(X, y), X, y)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "laplacian", "wendland"])
def test_pairs_with_a_kernel(kernel):
    """Named with its parameters or as an object, the same coefficients get the same certificate."""
    X, y = cancer()
    model = OurSVC(kernel, gamma=0.02, coef0=1.0, degree=2, tol=1e-6).fit(X, y)
    beta = np.zeros(len(y))
    beta[model.support_] = model.dual_coef_[0]
    facts = {"C": 1.0, "loss": "hinge", "intercept": "free"}
    named = certify((beta, model.intercept_), X, y, kernel=kernel, gamma=0.02, coef0=1.0, degree=2, **facts)
    assert named.primal == pytest.approx(model.certificate_.primal, rel=1e-9)
    assert named.relative_gap < 1e-4
    given = certify((beta, model.intercept_), X, y, kernel=Kernel(kernel, 0.02, 2, 1.0), **facts)
    assert given == named
    other = certify((beta, model.intercept_), X, y, kernel=kernel, gamma=0.2, coef0=1.0, degree=2, **facts)
    assert other.primal > 1.01 * named.primal
    with pytest.raises(ValueError, match="one coefficient for each of the 569 rows"):
        certify((beta[1:], 0.0), X, y, kernel=kernel, **facts)
    with pytest.raises(ValueError, match="kernel is for a pair"):
        certify(model, X, y, kernel=kernel)


def test_gamma_of_a_pair_is_that_of_svc():
    X, y = cancer()
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    model = OurSVC(tol=1e-6).fit(X, y, sample_weight=weight)
    beta = np.zeros(len(y))
    beta[model.support_] = model.dual_coef_[0]
    facts = {"C": 1.0, "loss": "hinge", "intercept": "free", "sample_weight": weight}
    seen = certify((beta, model.intercept_), X, y, kernel="rbf", **facts)
    assert seen.primal == pytest.approx(model.certificate_.primal, rel=1e-9)


def test_pairs_whose_functions_are_not_those_of_their_own_samples():
    """One against one of four classes, f = k(x, .) for an x of the third: P by hand."""
    X, y = iris()
    y[:25] = 3
    beta = np.zeros((6, 150))
    beta[0, 140] = 2.0  # of class 2, in the problem of classes 0 and 1
    seen = certify((beta, 0.0), X, y, kernel="rbf", gamma=0.1, C=1.0, loss="hinge", intercept="free")
    rows = (y == 0) | (y == 1)
    scores = 2.0 * rbf_kernel(X[rows], X[140:141], gamma=0.1)[:, 0]
    by_hand = 2.0 + np.maximum(0, 1 - np.where(y[rows] == 0, scores, -scores)).sum()
    assert seen.parts[0].primal == pytest.approx(by_hand, rel=1e-9)
    assert seen.parts[1].primal == pytest.approx(75)  # 25 and 50 samples, f = 0
    assert all(part.dual <= part.primal for part in seen.parts)


def test_one_matrix_serves_all_pairs(monkeypatch):
    X, y = iris()
    made, make = [], primalsvm.claims.kernel_matrix
    monkeypatch.setattr(primalsvm.claims, "kernel_matrix", lambda *args: made.append(args) or make(*args))
    certify(OurSVC().fit(X, y), X, y)
    certify(SVC().fit(X, y), X, y)
    assert len(made) == 2


def test_an_svc_of_ours_on_other_data():
    """Its support vectors join the new samples without weight."""
    X, y = cancer()
    for make in (np.asarray, sp.csr_array):
        model = OurSVC(gamma=0.02).fit(make(X[:400]), y[:400])
        seen = certify(model, make(X[200:]), y[200:])
        scores = np.where(y[200:] == "malignant", 1, -1) * model.decision_function(make(X[200:]))
        K = rbf_kernel(X[:400][model.support_], gamma=0.02)
        norm = model.dual_coef_[0] @ K @ model.dual_coef_[0]
        assert seen.primal == pytest.approx(norm / 2 + np.maximum(0, 1 - scores).sum(), rel=1e-9)
        assert 0 < seen.dual < seen.primal
    moved = certify(model, sp.csr_array(X[::-1][-400:]), y[::-1][-400:])  # the same rows, backwards
    assert moved.primal == pytest.approx(model.certificate_.primal, rel=1e-9)
    stored = OurSVC("precomputed").fit(X[:400] @ X[:400].T, y[:400])
    with pytest.raises(ValueError, match="not the kernel matrix of the fit, which was that of 400 samples"):
        certify(stored, X[:300] @ X[:300].T, y[:300])
    with pytest.raises(ValueError, match="the model has 30 features, X has 29"):
        certify(model, X[:, :29], y)


def test_an_svc_judged_by_another_problem():
    """Its alpha proves nothing there; the bound is polished."""
    X, y = cancer()
    model = OurSVC(gamma=0.02).fit(X, y)
    best = OurSVC(gamma=0.02, loss="squared_hinge", C=3.0, tol=1e-6).fit(X, y).certificate_
    seen = certify(model, X, y, loss="squared_hinge", C=3.0)
    assert seen.dual <= best.primal * (1 + 1e-9) and best.dual <= seen.primal
    assert seen.dual > 0.99 * best.dual


def test_balanced_classes_with_weights():
    """Ours count each sample by its weight, scikit-learn's SVC does not: each is judged by its own problem."""
    X, y = cancer()
    weight = np.where(y == "benign", 3.0, 0.5)
    for model in (OurSVC(class_weight="balanced", gamma=0.02), LinearSVC("hinge", class_weight="balanced")):
        assert certify(model.fit(X, y, weight), X, y, sample_weight=weight).relative_gap <= 1e-3
    theirs = SVC(class_weight="balanced", gamma=0.02, tol=1e-6).fit(X, y, weight)
    assert certify(theirs, X, y, sample_weight=weight).relative_gap <= 1e-4


def test_plain_arrays():
    X, y = cancer()
    model = LinearSVC("hinge", tol=1e-6).fit(X, y)
    seen = certify((model.coef_, model.intercept_), X, y, C=1.0, loss="hinge", intercept="free")
    assert seen.relative_gap < 1e-5
    assert (
        certify((model.coef_[0], float(model.intercept_[0])), X, y, C=1.0, loss="hinge", intercept=True).primal
        == seen.primal
    )
    for missing in ("C", "loss", "intercept"):
        given = {"C": 1.0, "loss": "hinge", "intercept": "free"}
        del given[missing]
        with pytest.raises(ValueError, match=f"does not say which {missing}"):
            certify((model.coef_, model.intercept_), X, y, **given)


def test_a_pipeline_is_its_last_step():
    X, y = load_breast_cancer(return_X_y=True)
    pipe = make_pipeline(StandardScaler(), SklearnLinearSVC(C=0.01)).fit(X, y)
    assert certify(pipe, X, y).relative_gap < 1e-3


def test_liblinear_files(tmp_path):
    liblinear = pytest.importorskip("liblinear.liblinearutil")
    X, y = iris()
    for name, labels in (("two", np.where(y == 2, 1, -1)), ("three", y)):
        for solver, bias, loss in ((2, -1, "squared_hinge"), (1, 1, "squared_hinge"), (3, 2.5, "hinge")):
            model = liblinear.train(labels.tolist(), X.tolist(), f"-s {solver} -B {bias} -c 0.5 -e 1e-8 -q")
            path = tmp_path / f"{name}-{solver}.model"
            liblinear.save_model(str(path), model)
            seen = certify(path, X, labels, C=0.5)
            assert seen.relative_gap < 1e-4, (name, loss)
            assert seen.excess[1] > 0
            wrong = certify(path, X, labels, C=50.0)
            assert wrong.excess[0] > 1e-3
    with pytest.raises(ValueError, match="which C"):
        certify(path, X, y)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_libsvm_files(tmp_path, kernel, classes):
    """Written here from a model of scikit-learn's LIBSVM, in the format of svm-train."""
    X, y = iris()
    keep = slice(None) if classes == 3 else y > 0
    X, y = X[keep], y[keep]
    model = SVC(kernel=kernel, C=2.0, gamma=0.3, coef0=1.0, degree=2, tol=1e-8).fit(X, y)
    path = tmp_path / "model"
    path.write_text(libsvm_text(model))
    seen = certify(str(path), X, y, C=2.0)
    assert seen.relative_gap < 1e-4


def libsvm_text(model):
    kernel = {"poly": "polynomial"}.get(model.kernel, model.kernel)
    flip = -1.0 if len(model.classes_) == 2 else 1.0  # scikit-learn turns the sign of two-class models
    lines = ["svm_type c_svc", f"kernel_type {kernel}"]
    lines += {"poly": ["degree 2", "gamma 0.3", "coef0 1"], "rbf": ["gamma 0.3"]}.get(model.kernel, [])
    lines += [f"nr_class {len(model.classes_)}", f"total_sv {len(model.support_)}"]
    lines += ["rho " + " ".join(f"{-flip * b:.17g}" for b in model.intercept_)]
    lines += ["label " + " ".join(map(str, model.classes_)), "nr_sv " + " ".join(map(str, model.n_support_)), "SV"]
    for coefs, vector in zip(flip * model.dual_coef_.T, model.support_vectors_, strict=True):
        features = " ".join(f"{j + 1}:{v:.8g}" for j, v in enumerate(vector))
        lines.append(" ".join(f"{c:.17g}" for c in coefs) + " " + features)
    return "\n".join(lines) + "\n"


def test_what_it_cannot_judge_it_says():
    X, y = cancer()
    with pytest.raises(TypeError, match="certify does not know LogisticRegression"):
        certify(LogisticRegression().fit(X, y), X, y)
    with pytest.raises(ValueError, match="penalty='l2'"):
        certify(SklearnLinearSVC(penalty="l1").fit(X, y), X, y)
    with pytest.raises(ValueError, match="hinge or squared_hinge"):
        certify(SGDClassifier("log_loss").fit(X, y), X, y)
    model = SVC().fit(X, y)
    with pytest.raises(ValueError, match="not the data this SVC was trained on"):
        certify(model, X[::-1], y[::-1])
    ours = LinearSVC().fit(X, y)
    with pytest.raises(ValueError, match="which the model does not know"):
        certify(ours, X, np.where(y == "benign", "good", "bad"))
    with pytest.raises(ValueError, match="C must be a finite number above 0"):
        certify(ours, X, y, C=-1.0)
    with pytest.raises(ValueError, match="30 features, X has 29"):
        certify(ours, X[:, :29], y)


def test_a_model_of_ours_can_be_judged_on_other_data():
    X, y = cancer()
    seen = certify(LinearSVC().fit(X[:400], y[:400]), X, y)
    assert seen.excess[0] > 0 and seen.relative_gap < 1


@pytest.fixture(scope="module")
def a9a():
    if not (DATA / "a9a" / "a9a.xz").exists():
        pytest.skip("a9a is not here; set PRIMALSVM_DATA to the folder that holds it")
    with lzma.open(DATA / "a9a" / "a9a.xz", "rb") as stream:
        X, y = load_svmlight_file(stream, n_features=123)
    indices, indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return sp.csr_matrix((X.data, indices, indptr), shape=X.shape), y


BEST_A9A = {100: 1142271.5880, 0.01: 118.49171}  # hinge, no intercept; certified by us to 1e-8 and 1e-6


@pytest.mark.parametrize("C", [100, 0.01])
def test_scikit_learn_on_a9a(a9a, C):
    """At C = 100 its LinearSVC stops far above the optimum, and the bound is tight enough to say so."""
    X, y = a9a
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SklearnLinearSVC(loss="hinge", C=C, fit_intercept=False, random_state=0).fit(X, y)
    seen = certify(model, X, y)
    assert seen.dual <= BEST_A9A[C] * (1 + 1e-7)
    if C == 100:
        assert seen.excess[0] >= 0.10
        assert 1 - seen.dual / BEST_A9A[C] < 0.01
    else:
        assert seen.relative_gap <= 1e-4
