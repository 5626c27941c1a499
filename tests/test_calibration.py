"""Probabilities: scikit-learn's checks and calibrators, honest scores, agreement with predict, files, Ctrl-C."""

import pickle
import time
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV, _SigmoidCalibration
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from primalsvm import SVC, SVCCV, Huber, LinearSVC, LinearSVCCV, calibration, linear_path
from primalsvm.calibration import agree, couple, fit_curve, fit_sigmoid, log_odds, probabilities, row_keys, targets
from primalsvm.chunks import Chunks
from primalsvm.multiclass import count_parts, join, winners
from primalsvm.persistence import ModelError, load, save

pytestmark = pytest.mark.filterwarnings("ignore:.*SCIPY_ARRAY_API.*")
BOTH = [LinearSVC, SVC]
METHODS = calibration.METHODS
RANKS = {"check_decision_proba_consistency": "an ensemble ranks by four models, the decision function by one"}


@parametrize_with_checks(
    [
        LinearSVC(probability="sigmoid"),
        LinearSVC("hinge", probability="sigmoid"),
        LinearSVC(probability="isotonic", multi_class="ovo"),
        SVC(probability="sigmoid"),
        SVC(probability="sigmoid", loss="squared_hinge", multi_class="ovr"),
        SVC(probability="isotonic", loss=Huber(0.1)),
        SVC(probability="sigmoid", approximation="greedy", n_basis=40),
        LinearSVC(probability="ensemble"),
        SVC(probability="ensemble"),
    ],
    expected_failed_checks=lambda model: RANKS if model.probability == "ensemble" else {},
    xfail_strict=True,
)
def test_scikit_learn_checks(estimator, check):
    """All of them: a weight of two is a row that stands twice for the probabilities too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), np.array(["bad", "good"])[y]


def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y + 3


def noisy(n=600, classes=2, seed=0):
    return make_classification(
        n, 8, n_informative=6, n_classes=classes, flip_y=0.1, n_clusters_per_class=1, random_state=seed
    )


def in_pieces(X):
    class Seventy(Chunks):
        def _stream(self, places):
            for k in places:
                yield X[self.bounds[k] : self.bounds[k + 1]]

    return Seventy([*range(0, len(X), 70), len(X)], X.shape[1])


def consistent(model, X):
    """Rows sum to one, all are above zero, and the highest, alone, is what predict says."""
    p = model.predict_proba(X)
    assert p.shape == (X.shape[0], len(model.classes_)) and p.dtype == np.float64
    assert np.all(p > 0) and np.all(p <= 1)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-14)
    np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))
    top = np.sort(p, axis=1)
    assert np.all(top[:, -1] > top[:, -2])
    assert np.isfinite(model.predict_log_proba(X)).all()
    np.testing.assert_array_equal(model.predict_log_proba(X), np.log(p))
    return p


@pytest.fixture
def by_folds(monkeypatch):
    """As if leave-one-out were too dear."""
    monkeypatch.setattr(calibration, "_is_cheap", lambda problem, alpha: False)


# --- what is asked for, and what is not -------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [LinearSVC, SVC, LinearSVCCV, SVCCV])
def test_off_by_default(make, monkeypatch):
    def never(*_):
        raise AssertionError("calibrated")

    monkeypatch.setattr("primalsvm.classifier.CertifiedClassifier._calibrate", never)
    X, y = iris()
    model = make(Cs=[1.0]) if make in (LinearSVCCV, SVCCV) else make()
    assert model.probability is None
    for each in (model, model.fit(X, y)):
        assert not hasattr(each, "predict_proba") and not hasattr(each, "predict_log_proba")
        with pytest.raises(AttributeError) as caught:
            each.predict_proba  # noqa: B018
        assert "set probability='sigmoid', 'isotonic' or 'ensemble'" in str(caught.value.__cause__)
    assert not hasattr(model, "calibration_")


@pytest.mark.parametrize("make", BOTH)
def test_states(make):
    X, y = iris()
    with pytest.raises(ValueError, match="probability must be None, 'sigmoid', 'isotonic' or 'ensemble', got True"):
        make(probability=True).fit(X, y)
    model = make(probability="sigmoid")
    assert hasattr(model, "predict_proba")
    with pytest.raises(NotFittedError):
        model.predict_proba(X)
    late = make().fit(X, y).set_params(probability="sigmoid")
    with pytest.raises(NotFittedError, match=r"has no probabilities.*fit it again"):
        late.predict_proba(X)
    np.testing.assert_array_equal(model.fit(X, y).predict(X), late.predict(X))
    model.set_params(probability="isotonic")  # says nothing yet: the curve is the one of the fit
    assert np.shape(model.calibration_[0]) == (2,)
    consistent(model, X)
    model.set_params(probability=None).fit(X, y)
    assert not hasattr(model, "calibration_")


@pytest.mark.parametrize("probability", METHODS)
@pytest.mark.parametrize("make", BOTH)
def test_the_model_is_the_same_with_and_without(make, probability):
    X, y = noisy(classes=3)
    plain, calibrated = make().fit(X, y), make(probability=probability).fit(X, y)
    assert plain.decision_function(X).tobytes() == calibrated.decision_function(X).tobytes()
    assert plain.certificate_ == calibrated.certificate_


# --- agreement with predict -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("probability", METHODS)
@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("make", BOTH)
def test_predict_is_the_most_probable(make, classes, multi_class, probability):
    X, y = noisy(300, classes)
    rng = np.random.default_rng(0)
    model = make(probability=probability, multi_class=multi_class).fit(X[:200], y[:200])
    far = np.vstack([X, 1e6 * X, 1e-12 * X, np.zeros((1, 8)), rng.normal(size=(2000, 8))])
    for form in (far, far.astype(np.float32), sp.csr_array(far), far[:1], far[:0]):
        if form.shape[0]:
            consistent(model, form)


def test_a_step_steeper_than_any_slope():
    curve = np.array([[-2e-313, 0.0, 1.0], [0.5, 0.75, 0.75]])
    with np.errstate(all="raise", under="ignore"):
        found = log_odds(curve, np.array([-1.0, -1e-313, 0.0, 2.0]))
    np.testing.assert_allclose(found, np.log([1.0, 1.0, 3.0, 3.0]), atol=1e-15)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_agreement_under_attack(data):
    """Any scores, any curves: ties, infinities almost, all the same, denormal."""
    k, how = data.draw(st.integers(2, 6)), data.draw(st.sampled_from(["ovr", "ovo"]))
    parts, n = count_parts(k, how), data.draw(st.integers(1, 6))
    number = st.one_of(st.sampled_from([0.0, -0.0, 1.0, -1.0, 5e-324, -5e-324, 1e300, -1e300]), st.floats(-50, 50))
    scores = data.draw(arrays(np.float64, (n, parts), elements=number))
    curves = []
    for _ in range(parts):
        if data.draw(st.booleans()):
            a = data.draw(st.sampled_from([0.0, 1e-300, 1.0, 40.0, 1e300]) | st.floats(0, 10))
            curves.append(np.array([a, data.draw(st.floats(-800, 800) | st.just(0.0))]))
        else:
            knots = np.sort(data.draw(arrays(np.float64, 3, elements=st.floats(-5, 5))))
            curves.append(np.array([knots, np.sort(data.draw(arrays(np.float64, 3, elements=st.floats(1e-9, 0.999))))]))
    with np.errstate(over="ignore"):
        decision = join(scores, k, how)
    chosen = winners(decision)
    with np.errstate(all="raise", under="ignore"):
        raw = probabilities(curves, scores, k, how)
        p = agree(raw, decision, chosen)
    assert np.all(p > 0) and np.all(np.isfinite(np.log(p)))
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-13)
    ranked = np.sort(p, axis=1)
    assert np.all(p.argmax(axis=1) == chosen) and np.all(ranked[:, -1] > ranked[:, -2])
    right = (raw.argmax(axis=1) == chosen) & (np.sort(raw, axis=1)[:, -1] > np.sort(raw, axis=1)[:, -2] + 1e-6)
    right &= raw.max(axis=1) > 0.5 + 2e-6 if k == 2 else True
    np.testing.assert_allclose(p[right], raw[right], rtol=1e-15, atol=1e-300)  # nothing is changed without need


def test_agreement_changes_as_little_as_it_can():
    """Against the projection onto {p_chosen >= p_j, sum p = 1}, found by trying every set of classes at one level."""
    from itertools import combinations

    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(5, 0.7), 300)
    chosen = rng.integers(5, size=300)
    seen = agree(p.copy(), np.zeros((300, 5)), chosen)
    for mine, before, after in zip(chosen, p, seen, strict=True):
        best = np.inf
        others = [j for j in range(5) if j != mine]
        for size in range(5):
            for group in combinations(others, size):
                q, pool = before.copy(), [mine, *group]
                q[pool] = np.mean(before[pool])
                if np.all(q <= q[mine] * (1 + 1e-12)):
                    best = min(best, np.sum((q - before) ** 2))
        assert np.sum((after - before) ** 2) <= best + 1e-14
    two = agree(np.array([[0.7, 0.3], [0.2, 0.8], [0.5, 0.5]]), np.array([0.4, 3.0, 0.0]), np.array([1, 1, 0]))
    np.testing.assert_allclose(two, [[0.5, 0.5], [0.2, 0.8], [0.5, 0.5]], atol=1e-6)
    assert two[0, 1] > two[0, 0] and two[2, 0] > two[2, 1]


def test_ranks_are_those_of_the_decision_function():
    """Between the sigmoid's zero and that of the score too."""
    s = np.sort(np.random.default_rng(0).normal(size=1000))
    raw = probabilities([np.array([3.0, -2.0])], s[:, None], 2, "ovr")
    assert np.count_nonzero((raw[:, 1] > 0.5) != (s > 0)) > 100
    p = agree(raw, s, (s > 0).astype(int))[:, 1]
    assert np.all(np.diff(p) > 0)


# --- the curves -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_the_sigmoid_is_scikit_learns(seed, weighted):
    """Its own minimum is looked for more loosely: ours is at least as low, and the same curve."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(400) < 0.3, 1.0, -1.0)
    s = (y * rng.random() + rng.normal(size=400)) * 10.0 ** rng.integers(-2, 2)
    w = rng.integers(0, 4, 400).astype(float) if weighted else np.ones(400)
    a, b = fit_sigmoid(s, y, w)
    theirs = _SigmoidCalibration().fit(s, y, sample_weight=w)
    np.testing.assert_allclose(1 / (1 + np.exp(-(a * s + b))), theirs.predict(s), atol=2e-4)

    def value(a, b):
        return w @ (np.logaddexp(0, a * s + b) - targets(y, w) * (a * s + b))

    assert value(a, b) <= value(-theirs.a_, -theirs.b_) * (1 + 1e-12)
    for step in (1e-5, -1e-5):  # and it is the minimum
        assert value(a, b) <= min(value(a * (1 + step), b), value(a, b + step))


def test_the_rising_function_is_scikit_learns():
    rng = np.random.default_rng(0)
    y, w = np.where(rng.random(300) < 0.4, 1.0, -1.0), rng.integers(0, 3, 300).astype(float)
    s, at = y + 2 * rng.normal(size=300), np.linspace(-9, 9, 500)
    theirs = IsotonicRegression(out_of_bounds="clip").fit(s, y > 0, sample_weight=w).predict(at)
    low, high = targets(np.array([-1.0, 1.0]), np.ones(2)), targets(y, w)
    low, high = high.min(), high.max()
    z = log_odds(fit_curve("isotonic", s, y, w), at)
    np.testing.assert_allclose(1 / (1 + np.exp(-z)), low + (high - low) * theirs, atol=1e-12)


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_curves_of_odd_scores(method):
    """The same everywhere, the wrong way round, of one class, none, far out, separated by a hair."""
    ones = np.ones(6)
    y = np.array([1.0, 1, 1, -1, -1, -1])
    for s, labels in ((ones, y), (-y, y), (y, ones), (y, -ones), (1e200 * y, y), (1 + 1e-15 * y, y), (1e-200 * y, y)):
        with np.errstate(all="raise", under="ignore"):
            curve = fit_curve(method, s, labels, ones)
            z = log_odds(curve, s)
        assert np.isfinite(curve).all() and np.isfinite(z).all()
        assert np.all(np.diff(log_odds(curve, np.linspace(-3, 3, 50))) >= 0)
    np.testing.assert_allclose(log_odds(fit_curve(method, -y, y, ones), np.zeros(3)), 0, atol=1e-9)
    np.testing.assert_array_equal(fit_curve(method, ones[:0], ones[:0], ones[:0]), [0, 0])


def test_coupling():
    """Pairs that come from probabilities give them back; else the least of the criterion, by trying."""
    rng = np.random.default_rng(0)
    for k in (3, 5, 10):
        p = rng.dirichlet(np.ones(k), 50) + 1e-4
        p /= p.sum(axis=1, keepdims=True)
        i, j = np.triu_indices(k, 1)
        np.testing.assert_allclose(couple(p[:, i] / (p[:, i] + p[:, j]), k), p, atol=1e-8)
    r = rng.uniform(0.01, 0.99, (20, 6))
    i, j = np.triu_indices(4, 1)

    def criterion(p):
        return np.sum(((1 - r) * p[:, i] - r * p[:, j]) ** 2, axis=1)

    best = couple(r, 4)
    assert np.all(best >= 0)
    for _ in range(200):
        other = best + 0.01 * rng.normal(size=best.shape)
        other = np.abs(other) / np.abs(other).sum(axis=1, keepdims=True)
        assert np.all(criterion(best) <= criterion(other) + 1e-15)


# --- honest scores ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [LinearSVC(C=10.0), SVC(C=10.0), SVC(C=10.0, loss="squared_hinge")], ids=repr)
@pytest.mark.parametrize("path", ["leave one out", "folds", "ensemble"])
def test_better_than_the_scores_of_training_and_as_good_as_scikit_learns(make, path, request):
    if path == "folds":
        request.getfixturevalue("by_folds")
    X, y = make_classification(3000, 60, n_informative=8, flip_y=0.1, random_state=1)
    train, test = slice(0, 150), slice(150, None)
    model = clone(make).set_params(probability="ensemble" if path == "ensemble" else "sigmoid").fit(X[train], y[train])
    ours = log_loss(y[test], consistent(model, X[test]))
    naive = fit_sigmoid(model.decision_function(X[train]), np.where(y[train], 1.0, -1.0), np.ones(150))
    scores = model.decision_function(X[test])
    if path != "ensemble":  # whose curves have fifty samples each
        assert ours < log_loss(y[test], probabilities([naive], scores[:, None], 2, "ovr")) - 0.01
    theirs = CalibratedClassifierCV(clone(make), cv=5, ensemble=path == "ensemble").fit(X[train], y[train])
    assert ours < log_loss(y[test], theirs.predict_proba(X[test])) + 0.01
    if path != "ensemble":  # which ranks by three other models too
        assert roc_auc_score(y[test], model.predict_proba(X[test])[:, 1]) == pytest.approx(
            roc_auc_score(y[test], scores)
        )


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
def test_many_classes(multi_class):
    X, y = load_digits(return_X_y=True)
    X = X / 16
    train, test = np.arange(0, 1797, 2), np.arange(1, 1797, 2)
    ours = SVC(probability="sigmoid", C=10.0, multi_class=multi_class).fit(X[train], y[train])
    theirs = CalibratedClassifierCV(SVC(C=10.0), ensemble=False).fit(X[train], y[train])
    assert log_loss(y[test], consistent(ours, X[test])) < log_loss(y[test], theirs.predict_proba(X[test]))


@pytest.mark.parametrize("path", ["leave one out", "folds", "ensemble"])
@pytest.mark.parametrize("make", BOTH)
def test_what_has_no_weight_is_not_there(make, path, request):
    """And a row that stands twice weighs two, wherever it stands; nor does the order matter, or how X is stored."""
    if path == "folds":
        request.getfixturevalue("by_folds")
    rng = np.random.default_rng(0)
    X, y = noisy(120, 3)
    X = X.round(2)
    weight = rng.integers(0, 4, 120)
    expected = make(probability="ensemble" if path == "ensemble" else "sigmoid")
    if make is SVC:
        expected.gamma = 0.1
    again, stored, other = clone(expected), clone(expected), clone(expected).set_params(random_state=7)
    p = expected.fit(X, y, weight).predict_proba(X)
    order = rng.permutation(np.repeat(np.arange(120), weight))
    close = {"rtol": 1e-5, "atol": 1e-7} if path == "leave one out" else {"atol": 0.01}  # folds end at a gap of 1e-2
    np.testing.assert_allclose(again.fit(X[order], y[order]).predict_proba(X), p, **close)
    np.testing.assert_allclose(stored.fit(sp.csr_array(X), y, weight).predict_proba(X), p, **close)
    seeded = other.fit(X, y, weight).predict_proba(X)
    assert np.abs(seeded - p).max() < 0.2 and (np.abs(seeded - p).max() > 1e-9) == (path != "leave one out")


def test_keys_of_rows():
    rng = np.random.default_rng(0)
    X = rng.integers(-2, 3, (400, 5)).astype(float)
    X[rng.random((400, 5)) < 0.5] = 0.0
    labels = rng.integers(0, 2, 400)
    keys = row_keys(X, labels, 0)
    _, groups = np.unique(np.column_stack([X, labels]), axis=0, return_inverse=True)
    assert len(np.unique(keys)) == len(np.unique(np.column_stack([keys, groups.ravel()]), axis=0)) == groups.max() + 1
    stored = sp.csr_array(X)
    for form in (X.astype(np.float32), stored, sp.csr_matrix(X), np.where(X == 0, -0.0, X), in_pieces(X)):
        np.testing.assert_array_equal(row_keys(form, labels, 0), keys)
    assert not np.array_equal(row_keys(X, labels, 1), keys)


def test_copies_do_not_tell():
    """Every row twice: left out alone, its copy would know it."""
    X, y = noisy(150)
    once = SVC(C=50.0, probability="sigmoid", gamma=0.2, tol=1e-8).fit(X, y, np.full(150, 2))
    twice = clone(once).fit(np.vstack([X, X]), np.append(y, y))
    np.testing.assert_allclose(twice.calibration_[0], once.calibration_[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("make", BOTH)
def test_copies_made_one_are_the_same_problem(make):
    X, y = noisy(60)
    X, y = np.vstack([X, X[:30], X[:10]]), np.concatenate([y, y[:30], y[:10]])
    model = make().fit(X, y)
    problem = model._problem(data := model._prepare(X, y, None), data.parts[0])
    (start,) = model._solutions(data, 1.0)
    merged, point, first = calibration._merge(problem, start, row_keys(X, data.labels, 0))
    np.testing.assert_array_equal(first, np.arange(60))
    scores = problem.scores(start.f) + start.b
    np.testing.assert_allclose(merged.scores(point.f) + point.b, scores, atol=1e-12)
    assert merged.cost @ merged.loss.value(y * scores) == pytest.approx(problem.cost @ problem.loss.value(y * scores))
    assert np.all(point.alpha <= merged.upper) and point.alpha.sum() == pytest.approx(start.alpha.sum())
    for values in (merged.cost, point.alpha, *([point.f] if make is SVC else [])):
        assert not values[60:].any()


def test_class_weight_is_the_world_in_which_predict_decides():
    X, y = make_classification(2000, 6, weights=[0.9], flip_y=0.1, random_state=0)
    model = LinearSVC(probability="sigmoid", class_weight="balanced").fit(X, y)
    p, weight = consistent(model, X)[:, 1], np.where(y == 1, 1 / np.mean(y), 1 / np.mean(1 - y))
    assert np.average(p, weights=weight) == pytest.approx(0.5, abs=0.03)
    assert np.average(p) > 1.5 * np.mean(y)


# --- all kinds of data ------------------------------------------------------------------------------------------------


def test_pandas_and_labels():
    pd = pytest.importorskip("pandas")
    X, y = cancer()
    X = pd.DataFrame(X, columns=[f"c{k}" for k in range(X.shape[1])])
    model = LinearSVC(probability="sigmoid").fit(X, pd.Series(y))
    consistent(model, X)
    assert log_loss(y, model.predict_proba(X)) < 0.15


@pytest.mark.parametrize("path", ["leave one out", "folds", "ensemble"])
def test_rows_in_pieces(path, request):
    if path == "folds":
        request.getfixturevalue("by_folds")
    X, y = noisy(500, 3)
    model = LinearSVC(probability="ensemble" if path == "ensemble" else "sigmoid", solver="newton")
    p = model.fit(X, y).predict_proba(X)
    pieces = clone(model).fit(in_pieces(X), y).predict_proba(in_pieces(X))
    np.testing.assert_allclose(pieces, p, atol=1e-6 if path == "leave one out" else 0.01)


@pytest.mark.parametrize("path", ["leave one out", "folds", "ensemble"])
@pytest.mark.parametrize(
    "model",
    [
        SVC(approximation="greedy", n_basis=30),
        SVC(approximation="cholesky", n_basis=30, multi_class="ovr", loss="squared_hinge"),
        SVC(approximation="greedy", n_basis=100, grow="gap", full_tol=0.2),
        SVC("linear", n_jobs=2),
        SVC("precomputed"),
        LinearSVC("hinge", solver="dual_coordinate_ascent", n_jobs=2),
        LinearSVC(fit_intercept=False, multi_class="ovo", n_jobs=2),
        LinearSVC(Huber(0.3), fit_intercept="penalized"),
    ],
    ids=repr,
)
def test_all_kinds_of_models(model, path, request):
    if path == "folds":
        request.getfixturevalue("by_folds")
    X, y = noisy(500, 3)
    train, A, B = slice(0, 250), X[:250], X[250:]
    if getattr(model, "kernel", "") == "precomputed":
        A, B = A @ A.T, B @ A.T
    model = clone(model).set_params(probability="ensemble" if path == "ensemble" else "sigmoid").fit(A, y[train])
    assert log_loss(y[250:], consistent(model, B)) < 0.8


def test_too_dear_for_leave_one_out():
    """Many features and many support vectors: by folds; a small one, or one of few features: not."""
    rng = np.random.default_rng(0)
    for n, d, cheap in ((2000, 5000, False), (100, 300, True), (5000, 20, True)):
        X = sp.random(n, d, min(1.0, 10 / d), format="csr", rng=rng)
        y = np.where(X @ rng.normal(size=d) + 0.5 * rng.normal(size=n) > 0, 1, 0)
        model = LinearSVC().fit(X, y)
        problem = model._problem(data := model._prepare(X, y, None), data.parts[0])
        assert calibration._is_cheap(problem, model._solutions(data, 1.0)[0].alpha) == cheap


def test_no_room_for_the_inverse_and_a_spoilt_matrix(monkeypatch):
    X, y = noisy(300)
    for error in (MemoryError, ValueError):

        def fail(*_, error=error):
            raise error

        monkeypatch.setattr("primalsvm.calibration.leave_out", fail)
        consistent(SVC(probability="sigmoid").fit(X, y), X)


@pytest.mark.parametrize("path", ["leave one out", "folds"])
@pytest.mark.parametrize("probability", METHODS)
@pytest.mark.parametrize("make", BOTH)
def test_few_samples(make, probability, path, request):
    """Two, three, one of a class, all rows the same, a class without weight."""
    if path == "folds":
        request.getfixturevalue("by_folds")
    X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [2.0, 1.0], [3.0, 0.0], [3.0, 2.0]])
    for rows, y, weight in (
        (X[:2], [0, 1], None),
        (X[:3], [0, 1, 2], None),
        (X, [0, 1, 1, 1, 1, 1], None),
        (np.ones((6, 2)), [0, 1, 0, 1, 0, 1], None),
        (X, [0, 1, 2, 0, 1, 2], [1, 1, 0, 1, 1, 0]),
        (X, [0, 1, 2, 2, 1, 2], [0, 1, 0, 1, 1, 0]),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            consistent(make(probability=probability).fit(rows, y, weight), X)


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
@pytest.mark.parametrize("make", BOTH)
def test_an_ensemble_is_the_model_and_three_without_a_third_each(make, multi_class):
    X, y = noisy(400, 3)
    model = make(probability="ensemble", multi_class=multi_class).fit(X, y)
    parts = count_parts(3, multi_class)
    assert len(model.calibration_) == parts and len(model.ensemble_) == 3
    for k, each in enumerate(model.ensemble_):
        assert type(each) is make and each.certificate_.relative_gap <= calibration.FOLD_TOL
        assert each.probability == "sigmoid" and len(each.calibration_) == parts
        consistent(each, X)
        for others in [model, *model.ensemble_[:k]]:
            assert not np.allclose(others.decision_function(X), each.decision_function(X), atol=1e-3)
    own = probabilities(model.calibration_, model._scores(X) + model.intercept_, 3, multi_class)
    mean = np.mean([own, *(each._calibrated(X, each._scores(X)) for each in model.ensemble_)], axis=0)
    p, agreed = model.predict_proba(X), mean.argmax(axis=1) == model.predict(X)
    assert np.mean(agreed) > 0.9
    np.testing.assert_allclose(p[agreed], mean[agreed], rtol=1e-12)
    for again in (model.fit(X, y), model.set_params(probability="sigmoid").fit(X, y)):
        assert again is model
    assert not hasattr(model, "ensemble_")


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("where", ["small", "tiles", "not copied"])
@pytest.mark.parametrize("make", BOTH)
def test_members_of_an_ensemble_do_not_know_their_third(make, where, jobs, monkeypatch):
    """Their curves are drawn through scores that they give to samples with no force in them, and their certificates are
    those of the problem without these samples, whichever way it was made."""
    X, y = noisy(300)
    if where == "tiles":
        monkeypatch.setattr("primalsvm.kernel_matrix.SMALL", 0)
    if where == "not copied":
        monkeypatch.setattr(calibration, "COPIED", 0)
    seen = []
    work = calibration.out_of_sample
    monkeypatch.setattr("primalsvm.classifier.out_of_sample", lambda *a, **k: seen.append(work(*a, **k)) or seen[-1])
    model = make(probability="ensemble", tol=1e-6, n_jobs=jobs).fit(X, y)
    everyone = np.concatenate([out for _, out in seen[0].fits])
    assert sorted(everyone) == list(range(300))
    signs = np.where(y, 1.0, -1.0)
    np.testing.assert_allclose(model.calibration_[0], fit_sigmoid(seen[0].scores, signs, np.ones(300)), rtol=1e-6)
    for each, (_, out) in zip(model.ensemble_, seen[0].fits, strict=True):
        assert len(out) == 100 and abs(np.mean(y[out]) - np.mean(y)) < 0.02
        assert not np.isin(each.support_, out).any()
        np.testing.assert_allclose(each.decision_function(X[out]), seen[0].scores[out], rtol=1e-5, atol=1e-5)
        curve = fit_sigmoid(seen[0].scores[out], signs[out], np.ones(100))
        np.testing.assert_allclose(each.calibration_[0], curve, rtol=1e-6)
        rest = np.setdiff1d(np.arange(300), out)
        exact = {"tol": 1e-9, "gamma": model.gamma_} if make is SVC else {"tol": 1e-9}
        alone = make(**exact).fit(X[rest], y[rest]).certificate_
        slack = 1e-8 * alone.primal
        assert each.certificate_.dual - slack <= alone.primal and alone.dual <= each.certificate_.primal + slack
        assert each.certificate_.gap <= calibration.FOLD_TOL * each.certificate_.primal


def test_a_curve_through_many_samples_begins_with_few(monkeypatch):
    rng = np.random.default_rng(0)
    y = np.where(rng.random(9000) < 0.2, 1.0, -1.0)
    scores, weight = rng.normal(size=9000) + y, rng.integers(1, 3, 9000).astype(float)
    quick = fit_sigmoid(scores, y, weight)
    monkeypatch.setattr(calibration, "MANY", 10_000)
    slow = fit_sigmoid(scores, y, weight)
    for other in (quick, fit_sigmoid(scores, y, weight, np.array([3.0, 2.0]))):
        np.testing.assert_allclose(other, slow, rtol=1e-6)


# --- searches and paths -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [LinearSVCCV, SVCCV])
def test_searches_pass_it_through(make):
    X, y = iris()
    search = make(Cs=[0.1, 1.0], probability="sigmoid", cv=3).fit(X, y)
    assert search.best_estimator_.probability == "sigmoid"
    p = consistent(search, X)
    np.testing.assert_array_equal(p, search.best_estimator_.predict_proba(X))
    with pytest.raises(NotFittedError):
        make(probability="sigmoid").predict_proba(X)


def test_a_search_by_log_loss():
    X, y = noisy(300)
    search = LinearSVCCV(Cs=[1e-5, 1.0], probability="sigmoid", scoring="neg_log_loss", cv=3).fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    assert -0.7 < scores[0] < scores[1] < -0.1 and search.best_params_ == {"C": 1.0}


def test_a_path_has_probabilities():
    X, y = noisy(300)
    for model in linear_path(X, y, C=[0.1, 1.0], probability="sigmoid"):
        consistent(model, X)


# --- time, Ctrl-C, warm starts, files ---------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("classes", [2, 3])
def test_ctrl_c_in_the_folds_leaves_the_model(jobs, classes, by_folds, monkeypatch):
    X, y = noisy(400, classes)
    model = SVC(probability="sigmoid", n_jobs=jobs).fit(X, y)
    expected = model.decision_function(X)
    true_solve, calls = calibration.solve, []

    def interrupted(*args, **options):
        calls.append(1)
        if len(calls) == 3:
            from dataclasses import replace

            return replace(true_solve(*args, **options), status="interrupted")  # what solve makes of Ctrl-C
        return true_solve(*args, **options)

    monkeypatch.setattr(calibration, "solve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert len(calls) < 3 + 5 * jobs
    np.testing.assert_array_equal(model.decision_function(X), expected)
    assert model.status_ == "converged"
    with pytest.raises(NotFittedError, match="has no probabilities"):
        model.predict_proba(X)


def test_ctrl_c_in_leave_one_out(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    X, y = noisy(200)
    monkeypatch.setattr("primalsvm.calibration.leave_out", interrupt)
    model = LinearSVC(probability="sigmoid")
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.predict(X).shape == (200,) and not hasattr(model, "calibration_")


def test_max_seconds_counts_for_the_folds(by_folds):
    X, y = make_classification(4000, 20, n_informative=10, flip_y=0.2, random_state=0)
    model = LinearSVC(
        "hinge", C=1e4, solver="subgradient", max_iter=10**9, max_seconds=0.5, tol=1e-10, probability="sigmoid"
    )
    begin = time.perf_counter()
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(X, y)
    assert time.perf_counter() - begin < 30
    assert any("come from folds that ended at" in str(warning.message) for warning in caught)
    consistent(model, X)


def test_max_iter_counts_for_the_folds(by_folds, monkeypatch):
    X, y = noisy(500)
    true_solve, limits = calibration.solve, []

    def seen(*args, **options):
        limits.append(options["max_iter"])
        return true_solve(*args, **options)

    monkeypatch.setattr(calibration, "solve", seen)
    LinearSVC(probability="sigmoid", max_iter=77).fit(X, y)
    assert limits == [77] * 5


def test_warm_start_calibrates_again():
    X, y = noisy(400)
    model = SVC(probability="sigmoid", warm_start=True).fit(X, y)
    first = model.calibration_[0]
    model.fit(X, np.where(np.arange(400) % 5 == 0, 1 - y, y))
    assert model.calibration_[0][0] < first[0]
    np.testing.assert_allclose(model.fit(X, y).calibration_[0], first, rtol=0.05)


@pytest.mark.parametrize("probability", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("make", BOTH)
def test_files(make, probability, tmp_path):
    X, y = noisy(300, 3)
    model = make(probability=probability).fit(X, y)
    p = model.predict_proba(X)
    save(model, tmp_path / "model.psvm")
    again = load(tmp_path / "model.psvm")
    assert again.predict_proba(X).tobytes() == p.tobytes()
    assert pickle.loads(pickle.dumps(model)).predict_proba(X).tobytes() == p.tobytes()
    curves = model.calibration_
    for bad in (curves[:1], [curve[:1] for curve in curves], [np.full(2, np.nan)] * 3, [np.ones((2, 0))] * 3):
        model.calibration_ = bad
        save(model, tmp_path / "bad.psvm")
        with pytest.raises(ModelError, match="calibration_"):
            load(tmp_path / "bad.psvm")
    model.calibration_ = [np.array([[1.0, 0.0], [0.1, 0.2]])] * 3
    save(model, tmp_path / "bad.psvm")
    with pytest.raises(ModelError, match="calibration_"):
        load(tmp_path / "bad.psvm")


@pytest.mark.parametrize("make", BOTH)
def test_files_of_an_ensemble(make, tmp_path):
    X, y = noisy(300, 3)
    model = make(probability="ensemble").fit(X, y)
    p = model.predict_proba(X)
    save(model, tmp_path / "model.psvm")
    assert load(tmp_path / "model.psvm").predict_proba(X).tobytes() == p.tobytes()
    assert pickle.loads(pickle.dumps(model)).predict_proba(X).tobytes() == p.tobytes()
    whole, two = model.ensemble_, make(probability="sigmoid").fit(*noisy(100))
    other = (SVC if make is LinearSVC else LinearSVC)(probability="sigmoid").fit(X, y)
    for bad in ([], [make().fit(X, y)], [two], [other], [*whole, two]):
        model.ensemble_ = bad
        save(model, tmp_path / "bad.psvm")
        with pytest.raises(ModelError, match="ensemble_"):
            load(tmp_path / "bad.psvm")


def test_files_from_before(tmp_path):
    import hashlib
    import json

    X, y = noisy(100)
    save(LinearSVC().fit(X, y), tmp_path / "model.psvm")
    first, _, line, blob = (tmp_path / "model.psvm").read_bytes().split(b"\n", 3)
    header = json.loads(line)
    del header["parameters"]["probability"]
    rest = json.dumps(header).encode() + b"\n" + blob
    whole = first + b"\n" + hashlib.sha256(first + b"\n" + rest).hexdigest().encode() + b"\n" + rest
    (tmp_path / "old.psvm").write_bytes(whole)
    assert load(tmp_path / "old.psvm").probability is None


def test_the_command_line(tmp_path):
    pytest.importorskip("typer")
    from sklearn.datasets import dump_svmlight_file
    from typer.testing import CliRunner

    from primalsvm.cli import app

    X, y = noisy(200, 3)
    data, model, plain = (str(tmp_path / name) for name in ("a.svm", "m.psvm", "plain.psvm"))
    dump_svmlight_file(X, y, data, zero_based=False)
    run = CliRunner().invoke
    assert run(app, ["train", data, "-o", model, "--probability", "sigmoid", "-q"]).exit_code == 0
    assert run(app, ["train", data, "-o", plain, "-q"]).exit_code == 0
    done = run(app, ["predict", model, data, "--proba"])
    rows = np.array([line.split("\t") for line in done.stdout.splitlines()], dtype=float)
    np.testing.assert_array_equal(rows[:, 1:].argmax(axis=1), rows[:, 0])
    np.testing.assert_allclose(rows[:, 1:].sum(axis=1), 1)
    assert "train it with --probability" in run(app, ["predict", plain, data, "--proba"]).stderr
    assert "not both" in run(app, ["predict", model, data, "--proba", "--scores"]).stderr


def test_the_benchmark_runs(tmp_path):
    import json
    import sys
    from pathlib import Path

    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from benchmarks import probabilities as benchmark

    benchmark.main(["--toy", "--repeats", "1", "--folds", "--threads", "1", "--jsonl", str(tmp_path / "runs.jsonl")])
    lines = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    assert len(lines) == 18
    assert all(line["differ"] == 0 for line in lines if line["side"].startswith("primalsvm"))
