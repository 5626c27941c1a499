"""primalsvm tune: what it prints, draws and saves."""

import json
import re

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file
from test_cli import done, refusal
from test_cross_validation import data

from primalsvm import SVCCV, LinearSVCCV
from primalsvm.persistence import load


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("tune")
    X, y = data(2)
    y = np.where(y == "a", 1, 2)
    dump_svmlight_file(X[:160], y[:160], str(path / "train.svm"))
    dump_svmlight_file(X[160:], y[160:], str(path / "test.svm"))
    return path, X[:160], y[:160]


def test_the_linear_search_is_that_of_the_class(folder):
    path, X, y = folder
    result = done("tune", path / "train.svm", "--C", "0.1,1,10", "-o", path / "m.psvm", "--test", path / "test.svm")
    search = LinearSVCCV(Cs=[0.1, 1, 10]).fit(X, y)
    assert f"{100 * search.best_score_:.2f} *" in result.stdout
    assert re.search(rf"best C +{search.best_params_['C']:g}\n", result.stdout)
    assert "15, on 5 folds; every one proven" in result.stdout
    assert "test error" in result.stdout and "at most" in result.stdout
    assert np.allclose(load(path / "m.psvm").coef_, search.best_estimator_.coef_, rtol=1e-2, atol=1e-3)


def test_kernels_have_a_column_for_each_gamma_and_a_picture(folder):
    path, X, y = folder
    options = ["--kernel", "rbf", "--C", "3", "--gamma", "0.05,0.2", "--one-standard-error", "--loss", "squared_hinge"]
    result = done("tune", path / "train.svm", *options, "--picture", path / "p.png", "--json")
    report = json.loads(result.stdout)
    wanted = SVCCV(Cs=3, gammas=[0.05, 0.2], loss="squared_hinge", choice="one_standard_error").fit(X, y)
    assert [row["mean_test_score"] for row in report["grid"]] == pytest.approx(wanted.cv_results_["mean_test_score"])
    assert report["score"] == pytest.approx(wanted.best_score_) and report["relative_gap"] <= 1e-3
    assert (path / "p.png").stat().st_size > 5000
    text = done("tune", path / "train.svm", *options).stdout
    assert "gamma 0.05" in text and "gamma 0.2" in text and text.count(" *") == 1


def test_the_edge_of_a_grid_is_said(folder):
    path = folder[0] / "train.svm"
    edge = done("tune", path, "--C", "1e-9,1e-8,1e-7", "--folds", "2").stdout
    assert re.search(r"the best C, 1e-0[79], is the (smallest|largest) that was tried; .* --C 1e-(06|10),", edge)
    assert "that was tried" not in done("tune", path, "--C", "1e-9,1", "--folds", "2").stdout  # two are no grid
    inside = json.loads(done("tune", path, "--C", "1e-9,1,1e-8", "--folds", "2", "--json").stdout)
    assert inside["best C"] == "1" and "largest" in inside["warnings"][0]
    inside = json.loads(done("tune", path, "--C", "1e-9,0.1,1e12", "--folds", "2", "--json").stdout)
    assert inside["best C"] == "0.1" and not inside["warnings"]


def test_leave_one_out_from_the_command_line(folder):
    path, _, _ = folder
    result = done("tune", path / "train.svm", "--C", "4", "--folds", "loo")
    assert "4; every one proven" in result.stdout


def test_quiet_prints_nothing(folder):
    assert done("tune", folder[0] / "train.svm", "--C", "2", "--quiet").stdout == ""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--C", "many"], "C must be"),
        (["--C", "1,-1"], "Cs must be"),
        (["--gamma", "3"], "--gamma goes with a kernel"),
        (["--memory-limit", "1G"], "--memory-limit goes with a kernel"),
        (["--folds", "1"], "folds must be"),
        (["--folds", "few"], "folds must be"),
        (["--folds", "100"], "n_splits=100"),
        (["--picture", "/nowhere/p.png"], "there is no folder"),
    ],
    ids=str,
)
def test_wrong_options_are_one_sentence(folder, options, words):
    assert words in refusal("tune", folder[0] / "train.svm", *options)


def test_probabilities_from_training_to_prediction(folder):
    path, _, _ = folder
    wide = path / "wide.svm"  # one feature more than in training: a kernel sees it
    wide.write_text((path / "test.svm").read_text().replace("\n", " 99:0.25\n"))
    for *command, method, file in (
        ("train", "sigmoid", path / "test.svm"),
        ("tune", "--C", "2", "sigmoid", path / "test.svm"),
        ("train", "ensemble", path / "test.svm"),
        ("train", "--kernel", "rbf", "ensemble", wide),
    ):
        done(*command, path / "train.svm", "--probability", method, "-o", path / "p.psvm")
        lines = done("predict", path / "p.psvm", file, "--proba").stdout.splitlines()
        rows = np.array([[float(word) for word in line.split("\t")] for line in lines])
        assert rows.shape == (80, 3) and np.allclose(rows[:, 1:].sum(axis=1), 1.0)
        assert (rows[:, 0] == np.array([1, 2])[rows[:, 1:].argmax(axis=1)]).all()
    done("train", path / "train.svm", "-o", path / "q.psvm")
    assert "no probabilities" in refusal("predict", path / "q.psvm", path / "test.svm", "--proba")
    assert "not both" in refusal("predict", path / "p.psvm", path / "test.svm", "--proba", "--scores")
