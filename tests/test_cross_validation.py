"""LinearSVCCV and SVCCV: the same answers as a grid of refits, each of them proven."""

import os
import signal
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold, LeaveOneOut, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from primalsvm import SVC, SVCCV, LinearSVC, LinearSVCCV, cross_validation, leave_one_out

CS, GAMMAS = [0.3, 1.0, 30.0], [0.02, 0.2]


def data(classes=2, n=240, seed=0, **more):
    settings = {"n_features": 8, "n_informative": 6, "flip_y": 0.1, "class_sep": 0.7} | more
    X, y = make_classification(n, n_classes=classes, random_state=seed, **settings)
    return X, np.array(["a", "b", "c", "d"])[y]


SEARCHES = {
    "linear": (LinearSVCCV(Cs=CS, tol=1e-6), LinearSVC(tol=1e-6), {"C": CS}),
    "linear hinge": (LinearSVCCV("hinge", Cs=CS, tol=1e-6), LinearSVC("hinge", tol=1e-6), {"C": CS}),
    "rbf": (SVCCV(Cs=CS, gammas=GAMMAS, tol=1e-6), SVC(tol=1e-6), {"gamma": GAMMAS, "C": CS}),
    "rbf ovr": (
        SVCCV(Cs=CS, gammas=GAMMAS, tol=1e-6, multi_class="ovr", loss="squared_hinge"),
        SVC(tol=1e-6, multi_class="ovr", loss="squared_hinge"),
        {"gamma": GAMMAS, "C": CS},
    ),
    "in tiles": (
        SVCCV(Cs=CS, gammas=GAMMAS, tol=1e-6, memory_limit=2e5),
        SVC(tol=1e-6, memory_limit=2e5),
        {"gamma": GAMMAS, "C": CS},
    ),
    "no gamma": (SVCCV("linear", Cs=CS, tol=1e-6), SVC("linear", tol=1e-6), {"C": CS}),
}


@parametrize_with_checks([LinearSVCCV(Cs=3), SVCCV(Cs=2, gammas=2)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("name", SEARCHES)
def test_the_scores_are_those_of_a_grid_of_refits(name, jobs, classes):
    search, model, grid = SEARCHES[name]
    X, y = data(classes)
    found = clone(search).set_params(n_jobs=jobs).fit(X, y)
    wanted = GridSearchCV(model, grid, cv=5).fit(X, y)
    points = [(point["C"], point.get("gamma")) for point in found.cv_results_["params"]]
    assert points == [(point["C"], point.get("gamma")) for point in wanted.cv_results_["params"]]
    for k in range(5):
        # a sample at the boundary may fall on either side
        assert np.allclose(found.cv_results_[f"split{k}_test_score"], wanted.cv_results_[f"split{k}_test_score"], atol=0.021)  # fmt: skip  # noqa: E501
    assert np.allclose(found.cv_results_["mean_test_score"], wanted.cv_results_["mean_test_score"], atol=0.005)
    assert (found.cv_results_["max_relative_gap"] <= 1e-6).all()
    assert found.best_score_ == found.cv_results_["mean_test_score"].max()
    assert found.cv_results_["rank_test_score"][found.best_index_] == 1
    refit = clone(model).set_params(**found.best_params_).fit(X, y)
    assert found.certificate_.primal == pytest.approx(refit.certificate_.primal, rel=1e-5)
    assert np.mean(found.predict(X) == refit.predict(X)) > 0.99
    assert found.score(X, y) == np.mean(found.predict(X) == y)


@pytest.mark.parametrize("search", [LinearSVCCV(Cs=CS), SVCCV(Cs=CS, gammas=GAMMAS)], ids=lambda s: type(s).__name__)
def test_sparse_float32_pandas_and_weights(search):
    pandas = pytest.importorskip("pandas")
    X, y = data(3)
    plain = clone(search).fit(X, y)
    for other in (sp.csr_array(X), X.astype(np.float32)):
        assert clone(search).fit(other, y).best_score_ == pytest.approx(plain.best_score_, abs=0.02)
    frame = pandas.DataFrame(X, columns=list("abcdefgh"))
    assert list(clone(search).fit(frame, y).feature_names_in_) == list("abcdefgh")
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    folds = list(KFold(4).split(X))
    weighted = clone(search).set_params(cv=folds, tol=1e-8).fit(X, y, sample_weight=weight)
    places = np.repeat(np.arange(len(y)), weight.astype(int))
    repeated = [(np.flatnonzero(np.isin(places, a)), np.flatnonzero(np.isin(places, b))) for a, b in folds]
    if isinstance(search, SVCCV):  # "scale" is that of the weights too, but for rounding
        search = clone(search).set_params(gammas=GAMMAS)
    other = clone(search).set_params(cv=repeated, tol=1e-8).fit(X[places], y[places])
    assert np.allclose(weighted.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"], atol=0.01)


def test_folds_do_not_leak():
    """Labels that say nothing: what is held out must be guessed no better than by chance."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((400, 30)), np.repeat([0, 1], 200)
    for search in (LinearSVCCV(Cs=CS), SVCCV(Cs=CS, gammas=GAMMAS)):
        scores = search.fit(X, y).cv_results_["mean_test_score"]
        assert np.all(np.abs(scores - 0.5) < 0.1)


def test_scorers_splitters_and_pipelines():
    X, y = data(2)
    cv = StratifiedKFold(3, shuffle=True, random_state=1)
    for search, model, grid in (SEARCHES["linear"], SEARCHES["rbf"]):
        found = clone(search).set_params(cv=cv, scoring="roc_auc").fit(X, y)
        wanted = GridSearchCV(model, grid, cv=cv, scoring="roc_auc").fit(X, y)
        assert np.allclose(found.cv_results_["mean_test_score"], wanted.cv_results_["mean_test_score"], atol=1e-3)
        assert make_pipeline(StandardScaler(), clone(search)).fit(X, y).score(X, y) > 0.6


def test_one_standard_error_takes_the_simplest_that_is_as_good():
    X, y = data(2, n=150)
    best = LinearSVCCV(Cs=9).fit(X, y)
    simple = LinearSVCCV(Cs=9, choice="one_standard_error").fit(X, y)
    mean = best.cv_results_["mean_test_score"]
    error = best.cv_results_["std_test_score"][best.best_index_] / np.sqrt(best.n_splits_ - 1)
    near = [p["C"] for p, m in zip(best.cv_results_["params"], mean, strict=True) if m >= mean.max() - error]
    assert simple.best_params_["C"] == min(near) <= best.best_params_["C"]
    assert simple.best_params_["C"] == simple.best_estimator_.C


def test_what_missed_the_tolerance_is_told_once():
    X, y = data(2)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        LinearSVCCV(Cs=CS, solver="subgradient", loss="hinge", tol=1e-7, max_iter=2).fit(X, y)
    words = [str(warning.message) for warning in told if warning.category is ConvergenceWarning]
    assert len(words) == 2  # of the folds, and of the model
    assert words[1].startswith("15 of 15 fits ended above tol=1e-07")


@pytest.mark.parametrize(
    ("search", "words"),
    [
        (LinearSVCCV(Cs=[]), "Cs must be"),
        (LinearSVCCV(Cs=[1.0, -1.0]), "Cs must be"),
        (LinearSVCCV(Cs="many"), "Cs must be"),
        (SVCCV(gammas=0), "gammas must be"),
        (SVCCV(choice="worst"), "choice must be"),
        (SVCCV(scoring=3), "scoring must be"),
        (SVCCV(tol=-1), "tol must be"),
    ],
    ids=str,
)
def test_bad_parameters_are_named(search, words):
    with pytest.raises(ValueError, match=words):
        search.fit(*data())


def test_pieces_are_refused():
    from primalsvm import as_chunks

    X, y = data()
    with pytest.raises(ValueError, match="in memory"):
        LinearSVCCV().fit(as_chunks(X), y)


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_keeps_what_was_found(monkeypatch, jobs):
    X, y = data(2)
    score, seen = cross_validation._score, []

    def scored(*args):
        seen.append(score(*args))
        if len(seen) == 70:
            os.kill(os.getpid(), signal.SIGINT)
        return seen[-1]

    monkeypatch.setattr(cross_validation, "_score", scored)
    search = SVCCV(Cs=10, gammas=40, n_jobs=jobs)
    with pytest.raises(KeyboardInterrupt):
        search.fit(X, y)
    tried = np.isfinite(search.cv_results_["mean_test_score"])
    assert 0 < tried.sum() < 400
    assert search.certificate_.relative_gap <= 1e-3 and search.predict(X[:5]).shape == (5,)


def test_verbose_says_what_was_found(capsys):
    X, y = data(2)
    SVCCV(Cs=CS, gammas=GAMMAS, verbose=1).fit(X, y)
    told = capsys.readouterr().out
    assert told.count("15 fits, best C=") == 2 and "gamma=0.02" in told


# leave-one-out --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", ["linear", "rbf", "rbf ovr", "in tiles"])
def test_leaving_one_out_is_close_to_leaving_each_out(name, classes):
    search, model, grid = SEARCHES[name]
    X, y = data(classes, n=90)
    found = clone(search).set_params(cv="loo").fit(X, y)
    wanted = GridSearchCV(model, grid, cv=LeaveOneOut()).fit(X, y)
    off = found.cv_results_["mean_test_score"] - wanted.cv_results_["mean_test_score"]
    assert np.abs(off).max() <= 0.07 and np.abs(off).mean() <= 0.02
    single = leave_one_out(clone(model).set_params(**found.best_params_).fit(X, y), X, y)
    assert found.best_score_ == pytest.approx(1 - single.error, abs=0.012)
    assert found.n_splits_ == len(y) and (found.cv_results_["max_relative_gap"] <= 1e-6).all()


def test_leaving_one_out_weighs_its_samples_and_refuses_scorers():
    X, y = data(2)
    weight = (np.arange(len(y)) % 2).astype(float)
    some = LinearSVCCV(Cs=CS, cv="loo", tol=1e-9).fit(X[weight > 0], y[weight > 0])
    weighted = LinearSVCCV(Cs=CS, cv="loo", tol=1e-9).fit(X, y, sample_weight=weight)
    assert np.allclose(some.cv_results_["mean_test_score"], weighted.cv_results_["mean_test_score"])
    with pytest.raises(ValueError, match="take folds"):
        LinearSVCCV(cv="loo", scoring="roc_auc").fit(X, y)
    with pytest.raises(ValueError, match="cv must be"):
        LinearSVCCV(cv="most").fit(X, y)


def test_the_callback_counts_the_fits():
    seen = []
    LinearSVCCV(Cs=CS, callback=lambda done, total: seen.append((done, total))).fit(*data())
    assert seen == [(k, 15) for k in range(1, 16)]
