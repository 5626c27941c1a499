"""TunedSVC: slopes against differences, what it finds, never worse than its start, scikit-learn's checks, bad input."""

import pickle
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import LeaveOneOut, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from benchmarks import tuning_ard
from primalsvm import SVC, certify
from primalsvm.criterion import Criterion, make_folds
from primalsvm.multiclass import split
from primalsvm.relevance import RelevanceDisplay
from primalsvm.tuned_svc import Search, Trial, TunedSVC

pytestmark = pytest.mark.filterwarnings("ignore:.*SCIPY_ARRAY_API.*")


@parametrize_with_checks(
    [TunedSVC(max_iter=4), TunedSVC("laplacian", ard=False, criterion="loo", multi_class="ovr", max_iter=4)]
)
def test_scikit_learn_checks(estimator, check):
    """All of them, sample-weight equivalence included."""
    check(estimator)


def product(n=120, d=4, seed=0):
    """The sign of the product of the first two features; the others are noise."""
    X = np.random.default_rng(seed).standard_normal((n, d))
    return X, np.where(X[:, 0] * X[:, 1] > 0, "yes", "no")


def crossed(n=90, seed=0):
    """Three classes, weights, three folds: (X, labels, weight, splits)."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    labels = (X[:, 0] * X[:, 1] + 0.5 * rng.standard_normal(n) > 0).astype(int) + (X[:, 2] > 0.7)
    of = rng.integers(0, 3, n)
    splits = [(np.flatnonzero(of != k), np.flatnonzero(of == k)) for k in range(3)]
    return X, labels, rng.uniform(0.3, 2.0, n), splits


# --- the criterion and its slope ------------------------------------------------------------------------------------


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
@pytest.mark.parametrize("intercept", ["free", "none", "penalized"])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "linear"])
@pytest.mark.parametrize("held", ["cv", "loo"])
def test_slopes_are_those_of_differences(held, kernel, intercept, multi_class):
    """The slope jumps where a sample enters S, and E of leave-one-out itself: a smaller step must then do."""
    X, labels, weight, splits = crossed()
    folds = make_folds(split(labels, np.arange(3), multi_class), len(X), splits if held == "cv" else None)
    criterion = Criterion(X, weight, folds, intercept, kernel)
    at = np.log([2.0, 0.3, 0.2, 0.1, 0.05])

    def loss(theta):
        return criterion(np.exp(theta[0]), np.exp(theta[1:])).loss

    value = criterion(np.exp(at[0]), np.exp(at[1:]))
    slope = np.append(value.by_log_C, value.by_gamma * np.exp(at[1:]))
    errors = []
    for h in (1e-4, 1e-5, 1e-6):
        differences = np.array([(loss(at + h * e) - loss(at - h * e)) / (2 * h) for e in np.eye(5)])
        errors.append(np.max(np.abs(slope - differences)))
    assert min(errors) <= 1e-6 * np.max(np.abs(slope)) + 1e-9  # h^2, and 1e-15 / h


@pytest.mark.parametrize("intercept", ["free", "none"])
def test_the_criterion_is_that_of_separate_fits(intercept):
    X, labels, weight, splits = crossed()
    y = np.where(labels > 0, 1.0, -1.0)
    gammas, C, total = np.array([0.3, 0.0, 0.1, 0.05]), 3.0, 0.0
    for seen, held in splits:
        model = SVC(C=C, gamma=1.0, loss="squared_hinge", tol=1e-9, fit_intercept=intercept == "free")
        model.fit(X[seen] * np.sqrt(gammas), y[seen], weight[seen])
        margins = y[held] * model.decision_function(X[held] * np.sqrt(gammas))
        total += weight[held] @ np.log1p(np.exp(-2 * margins))
    folds = make_folds(split((y > 0).astype(int), np.arange(2), "ovo"), len(X), splits)
    value = Criterion(X, weight, folds, intercept)(C, gammas)
    assert value.loss == pytest.approx(total / np.sum(weight), rel=1e-3)  # |f - f*|^2 <= 2 gap


def test_leave_one_out_is_nearly_that_of_as_many_fits():
    """Exactly that where S stays what it is: at a small C all samples are in it."""
    X, labels, weight, _ = crossed(40)
    parts = split((labels > 0).astype(int), np.arange(2), "ovo")
    splits = list(LeaveOneOut().split(X))
    for C, tolerance in ((1e-3, 1e-9), (1.0, 0.02)):
        closed = Criterion(X, weight, make_folds(parts, 40, None))(C, np.full(4, 0.2))
        each = Criterion(X, weight, make_folds(parts, 40, splits))(C, np.full(4, 0.2))
        assert closed.loss == pytest.approx(each.loss, rel=tolerance)


def test_threads_change_nothing():
    X, labels, weight, splits = crossed()
    folds = make_folds(split(labels, np.arange(3), "ovo"), len(X), splits)
    one, two = (Criterion(X, weight, folds, threads=threads)(1.0, np.full(4, 0.2)) for threads in (1, 2))
    assert one.loss == two.loss and np.array_equal(one.by_gamma, two.by_gamma)


@pytest.mark.parametrize("criterion", ["cv", "loo"])
def test_the_slope_of_what_is_minimised(criterion, monkeypatch):
    """With the penalty, in the variables of each search: one gamma, all without their price, and with it."""
    import primalsvm.tuned_svc as module

    asked = []

    def stay(objective, theta, **_):
        asked.append((objective, theta + 0.1))
        objective(theta)
        return SimpleNamespace(x=theta)

    monkeypatch.setattr(module, "minimize", stay)
    monkeypatch.setattr(module, "HOPELESS", np.inf)
    TunedSVC(C=3.0, criterion=criterion).fit(*product(60))
    assert [len(theta) for _, theta in asked] == [2, 5, 5, 5]
    for objective, theta in asked:
        _, slope = objective(theta)
        differences = [(objective(theta + e)[0] - objective(theta - e)[0]) / 2e-6 for e in 1e-6 * np.eye(len(theta))]
        np.testing.assert_allclose(slope, differences, rtol=1e-5, atol=1e-8)
    (free, theta), (priced, _) = asked[1:3]
    np.testing.assert_allclose(priced(theta)[1] - free(theta)[1], [0.0] + 4 * [1 / 60], atol=1e-12)


def test_the_criterion_charges_for_features():
    """log^2 C / n, and log(gamma_j / floor + 1) / n for each gamma that is not the same as all others."""
    X, y = product(60)
    one = TunedSVC(C=3.0, max_iter=0, gamma="scale").fit(X, y)
    assert one.criterion_ - one.loss_ == pytest.approx((np.log(3.0) ** 2 + np.log1p(1e4)) / 60)
    many = TunedSVC(C=3.0, penalty=0.5).fit(X, y)
    floor = 1e-4 / (4 * X.var())
    price = np.log(many.C_) ** 2 + np.sum(np.log1p(many.gamma_ * many.relevances_ / floor))
    assert np.ptp(many.relevances_) > 0 and many.criterion_ - many.loss_ == pytest.approx(0.5 * price / 60)
    free = TunedSVC(penalty=0.0, max_iter=3).fit(X, y)
    assert free.criterion_ == free.loss_


def test_noise_does_not_get_a_gamma_for_each_feature():
    """Many weak features: one gamma is as good, and costs less."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 10))
    y = X.sum(axis=1) + 3 * rng.standard_normal(200) > 0
    model = TunedSVC().fit(X, y)
    np.testing.assert_allclose(model.relevances_, 1.0)


# --- what it finds --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("criterion", ["cv", "loo"])
def test_it_finds_the_features_and_beats_one_gamma(criterion):
    rng = np.random.default_rng(0)
    X, y = tuning_ard.draw("xor", 300, 30, rng, test=False)
    X_test, y_test = tuning_ard.draw("xor", 2000, 30, rng, test=True)
    model = TunedSVC(criterion=criterion).fit(X, y)
    assert np.min(model.relevances_[:5]) > 5 * np.max(model.relevances_[5:])
    grid = [SVC(C=C, gamma=g / 30).fit(X, y).score(X_test, y_test) for C in (1, 10, 100) for g in (0.1, 0.3, 1)]
    assert 1 - model.score(X_test, y_test) < 0.5 * (1 - max(grid))
    assert model.relevances_.max() == 1.0 and model.certificate_.relative_gap <= 1e-3


@pytest.mark.parametrize("ard", [True, False])
@pytest.mark.parametrize(("C", "gamma"), [(1.0, 1e8), (1.0, 1e-12), (1e9, 1.0), (1e-9, "scale"), (1e9, 1e-6)])
def test_never_worse_than_its_start(C, gamma, ard):
    """And as good as from a good one, if the start is where nothing has a slope."""
    X, y = product()
    model = TunedSVC(C=C, gamma=gamma, ard=ard).fit(X, y)
    start = model.history_[0]
    assert abs(np.log(start.C / C)) < 1e-9 and start.criterion >= model.criterion_
    assert model.criterion_ == min(trial.criterion for trial in model.history_ if trial.n_features)
    assert model.score(*product(1000, seed=1)) > (0.87 if ard else 0.81)  # from a good start: 0.92 and 0.83
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # float64 has not the digits for the last model
        again = TunedSVC(C=C, gamma=gamma, ard=ard, max_iter=0).fit(X, y)
    assert again.criterion_ == start.criterion and again.C_ == C and again.n_iter_ == 0


def test_the_best_point_is_kept_when_the_search_goes_astray(monkeypatch):
    import primalsvm.tuned_svc as module

    def stray(objective, theta, **_):
        objective(theta + 8.0)
        return SimpleNamespace(x=theta + 8.0)

    monkeypatch.setattr(module, "minimize", stray)
    model = TunedSVC(C=2.0).fit(*product())
    assert len(model.history_) > 5 and model.criterion_ == model.history_[0].criterion and model.C_ == 2.0


def test_labels_without_a_pattern_give_a_model_all_the_same():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 3)), rng.integers(0, 2, 60)
    model = TunedSVC(max_iter=40).fit(X, y)
    assert model.criterion_ <= model.history_[0].criterion and np.max(model.relevances_) == 1.0
    assert model.certificate_.relative_gap <= 1e-3


def test_the_model_is_an_svc_on_scaled_features():
    X, y = product()
    for kernel in ("rbf", "laplacian", "linear"):
        model = TunedSVC(kernel, max_iter=10).fit(X, y)
        gammas, fitted = model.gamma_ * model.relevances_, model.estimator_
        given = {"rbf": fitted.gamma * model.scales_**2, "laplacian": fitted.gamma * model.scales_}
        np.testing.assert_allclose(given.get(kernel, model.scales_**2), gammas, rtol=1e-12)
        assert fitted.C == model.C_ and fitted.loss == "squared_hinge"
        np.testing.assert_array_equal(model.decision_function(X), fitted.decision_function(X * model.scales_))
        seen = certify(fitted, X * model.scales_, y)
        assert seen.relative_gap <= 1e-3 and model.certificate_.primal == pytest.approx(seen.primal, rel=1e-9)


def test_a_start_with_relevances():
    X, y = product(d=6)
    out = np.array([1.0, 1.0, 0.5, 0.5, 0.0, 0.0])
    first = TunedSVC(relevances=out, gamma=0.3, max_iter=0).fit(X, y)
    np.testing.assert_allclose(first.relevances_, out)
    assert first.gamma_ == pytest.approx(0.3)
    model = TunedSVC(relevances=out).fit(X, y)
    assert not model.relevances_[4:].any() and np.all(model.relevances_[:2] > 0.1)
    again = TunedSVC(C=model.C_, gamma=model.gamma_, relevances=model.relevances_, max_iter=0).fit(X, y)
    assert again.history_[0].loss == pytest.approx(model.loss_, rel=1e-6)
    fixed = TunedSVC(relevances=out, ard=False).fit(X, y)
    np.testing.assert_allclose(fixed.relevances_, out)


def test_three_classes_share_their_relevances():
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    noise = np.random.default_rng(0).standard_normal((150, 4))
    for multi_class in ("ovo", "ovr"):
        model = TunedSVC(multi_class=multi_class).fit(np.hstack([X, noise]), y)
        assert np.max(model.relevances_[4:]) < 0.1 and model.score(np.hstack([X, noise]), y) > 0.95
        assert len(model.certificate_.parts) == 3


def test_weights_are_repetitions_and_the_order_of_rows_is_nothing():
    X, y = product(80)
    weight = np.random.default_rng(1).integers(0, 4, 80)
    order = np.random.default_rng(2).permutation(int(weight.sum()))
    for settings in ({}, {"criterion": "loo"}, {"class_weight": "balanced", "max_samples": 40}):
        one = TunedSVC(max_iter=10, **settings).fit(X, y, weight)
        two = TunedSVC(max_iter=10, **settings).fit(X.repeat(weight, axis=0)[order], y.repeat(weight)[order])
        assert one.criterion_ == pytest.approx(two.criterion_, rel=1e-6)
        once = TunedSVC(max_iter=10, **settings).fit(X[weight > 0], y[weight > 0])
        assert abs(once.criterion_ - one.criterion_) > 1e-3
        np.testing.assert_allclose(one.relevances_, two.relevances_, rtol=1e-4, atol=1e-6)


def test_at_most_so_many_samples_are_looked_at(monkeypatch):
    sizes = []
    init = Criterion.__post_init__
    monkeypatch.setattr(Criterion, "__post_init__", lambda self: (sizes.append(self.n), init(self))[1])
    X, y = product(400)
    model = TunedSVC(max_samples=100).fit(X, y)
    assert 98 <= sizes[0] <= 100 and model.estimator_.n_samples_fit_ == 400
    assert np.all(model.relevances_[:2] > 0.1) and not np.any(model.relevances_[2:] > 0.1)


def test_folds_may_be_given():
    X, y = product()
    splits = list(StratifiedKFold(3).split(X, y))
    first, second = (TunedSVC(cv=cv, max_iter=5).fit(X, y) for cv in (StratifiedKFold(3), splits))
    assert first.criterion_ == second.criterion_ != TunedSVC(cv=3, max_iter=5).fit(X, y).criterion_
    folds = make_folds(split((y == "yes").astype(int), np.arange(2), "ovo"), len(X), splits[:1])
    by_hand = Criterion(X, np.ones(len(X)), folds)(1.0, np.full(4, 0.25 / X.var()))
    alone = TunedSVC(cv=splits[:1], max_iter=0).fit(X, y)
    assert alone.loss_ == pytest.approx(by_hand.loss, rel=1e-9)


# --- scikit-learn's world -------------------------------------------------------------------------------------------


def test_names_types_and_pickles():
    pd = pytest.importorskip("pandas")
    X, y = product()
    frame = pd.DataFrame(X.astype(np.float32), columns=list("abcd"))
    model = make_pipeline(StandardScaler().set_output(transform="pandas"), TunedSVC(max_iter=10)).fit(frame, y)
    assert list(model[-1].feature_names_in_) == list("abcd") and model[-1].n_features_in_ == 4
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    plain = TunedSVC(max_iter=10).fit(X.astype(np.float32), y)
    assert plain.estimator_.support_vectors_.dtype == np.float32
    assert plain.decision_function(X.astype(np.float32)).shape == (120,)
    clone(plain)


def test_the_callback_sees_every_point_and_can_stop(capsys):
    X, y = product()
    seen = []
    model = TunedSVC(callback=lambda trial: seen.append(trial) or len(seen) == 6, verbose=1).fit(X, y)
    assert seen == model.history_ and len(seen) == 6 and isinstance(seen[0], Trial)
    assert model.criterion_ == min(trial.criterion for trial in seen)
    assert capsys.readouterr().out.count("[TunedSVC] step") == 6


@pytest.mark.parametrize("when", [0, 5])
def test_ctrl_c_leaves_the_best_so_far(when, monkeypatch):
    X, y = product()
    look = Search.look

    def interrupt(self, point):
        if len(self.history) == when:
            raise KeyboardInterrupt
        return look(self, point)

    monkeypatch.setattr(Search, "look", interrupt)
    model = TunedSVC()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert len(model.history_) == when and model.certificate_.relative_gap <= 1e-3
    if when:
        assert model.criterion_ == min(trial.criterion for trial in model.history_) < model.history_[0].criterion
    else:
        assert model.C_ == 1.0
    assert model.predict(X).shape == (120,)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kernel": "poly"}, "kernel must be one of rbf"),
        ({"kernel": ["rbf"]}, "kernel must be one of rbf"),
        ({"C": 0.0}, "C must be a finite number above 0"),
        ({"gamma": -1.0}, "gamma must be"),
        ({"gamma": "best"}, "gamma must be"),
        ({"ard": "yes"}, "ard must be True or False"),
        ({"criterion": "gcv"}, "criterion must be 'cv' or 'loo'"),
        ({"cv": 1}, "cv must be a whole number of at least 2"),
        ({"cv": None}, "cv must be"),
        ({"penalty": -1.0}, "penalty must be"),
        ({"max_iter": -1}, "max_iter must be"),
        ({"max_samples": 1}, "max_samples must be"),
        ({"tol": -1.0}, "tol must be"),
        ({"fit_intercept": "yes"}, "fit_intercept must be"),
        ({"multi_class": "all"}, "multi_class must be"),
        ({"relevances": [1.0]}, "relevances must have one number for each of 4 features"),
        ({"relevances": [0.0] * 4}, "one must be above 0"),
        ({"relevances": [1.0, -1.0, 1.0, 1.0]}, "relevances must be finite numbers of at least 0"),
        ({"cv": [(np.arange(120), np.arange(0))]}, "hold out no sample"),
    ],
    ids=str,
)
def test_bad_parameters(settings, words):
    with pytest.raises(ValueError, match=words):
        TunedSVC(**settings).fit(*product())


def test_bad_data():
    X, y = product()
    with pytest.raises(TypeError, match="dense data is required"):
        TunedSVC().fit(sp.csr_array(X), y)
    with pytest.raises(ValueError, match="only one class"):
        TunedSVC().fit(X, np.ones(len(X)))
    with pytest.raises(NotFittedError):
        TunedSVC().predict(X)


# --- the picture, and the benchmark ---------------------------------------------------------------------------------


def test_the_relevances_are_drawn():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    pd = pytest.importorskip("pandas")
    X, y = product()
    model = TunedSVC().fit(pd.DataFrame(X, columns=["sun", "wind", "rain", "snow"]), y)
    display = RelevanceDisplay.from_estimator(model)
    names = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert set(names[:2]) == {"sun", "wind"} and len(names) == np.count_nonzero(model.relevances_)
    widths = [bar.get_width() for bar in display.bars_]
    assert widths == sorted(widths, reverse=True) and widths[0] == 1.0
    few = RelevanceDisplay(np.array([0.5, 1.0, 0.0, 0.2]), list("abcd"), max_features=2).plot()
    assert few.order_.tolist() == [1, 0] and few.ax_.texts[0].get_text() == "1 more are smaller; 1 are 0"
    display.figure_.canvas.draw()
    matplotlib.pyplot.close("all")
    with pytest.raises(ValueError, match="SVC has no relevances_"):
        RelevanceDisplay.from_estimator(SVC().fit(X, y))
    with pytest.raises(ValueError, match="a name for each relevance"):
        RelevanceDisplay(np.ones(3), ["a"])


def test_the_benchmark_runs(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tuning_ard.main(["--toy"])
    text = capsys.readouterr().out
    assert "| xor | 150 | 0 |" in text and "seconds in all" in text
