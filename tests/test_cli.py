"""The command line: what it prints, what it leaves behind, and how it exits."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file
from typer.testing import CliRunner

import primalsvm
from primalsvm import SVC, Certificate, LinearSVC, OrdinalSVC, certify
from primalsvm.cli import app
from primalsvm.persistence import load, save
from primalsvm.readers import read_data

PROGRAM = [sys.executable, "-c", "from primalsvm.cli import main; main()"]
FIXTURES = Path(__file__).parent / "fixtures"
LIBLINEAR = "solver_type L2R_L2LOSS_SVC\nnr_class 2\nlabel 1 -1\nnr_feature 2\nbias 1\nw\n1.5 \n-0.5 \n0.25 \n"
LONG = ["--loss", "hinge", "--C", "10000", "--tol", "1e-12", "--solver", "subgradient", "--max-iter", "100000000"]


def run(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args])


def done(*args, code=0):
    """Run a command that must end with `code` and without an error; its output."""
    result = run(*args)
    assert result.exit_code == code, result.stderr
    assert "Traceback" not in result.output and "error:" not in result.stderr
    return result


def refusal(*args):
    """Run a command that must be refused with one sentence; the sentence."""
    result = run(*args)
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == 1 and result.stdout == ""
    assert re.fullmatch(r"error: [^\n]+\n", result.stderr), result.stderr
    return result.stderr


@pytest.mark.parametrize("labels", [["a", "b"], ["1", "2"]], ids=["words", "numbers"])
@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_the_column_that_the_model_does_not_know_is_that_of_the_labels(labels, ending, tmp_path):
    mark, rng = {"csv": ";", "tsv": "\t"}[ending], np.random.default_rng(0)
    lines = [mark.join([f"{x:.3f}", labels[int(x > 0)], f"{z:.3f}"]) for x, z in rng.normal(size=(40, 2))]
    path, model = tmp_path / f"data.{ending}", tmp_path / "model.psvm"
    path.write_text("\n".join([mark.join(["x", "verdict", "z"]), *lines]) + "\n")
    done("train", path, "--label", "verdict", "-o", model)
    result = done("predict", model, path)
    assert len(result.stdout.split()) == 40 and "error rate" in result.stderr
    path.write_text("\n".join([mark.join(["x", "verdict", "z", "more"]), *(f"{line}{mark}0" for line in lines)]) + "\n")
    assert str(path) in refusal("predict", model, path)  # two columns too many: which are the labels?


def read(path, **facts):
    samples = read_data(path, **facts)
    return samples.X, samples.y


def table(result):
    """The printed table as a dict."""
    return {line[:14].strip(): line[14:] for line in result.stdout.splitlines()}


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Two overlapping classes, as svmlight text for training and test, and as arrays."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    y = np.where(np.arange(300) % 3 > 0, 1, -1)
    X = rng.normal(size=(300, 5)) + 0.7 * y[:, None]
    X[:, 4] *= np.arange(300) < 200  # the last feature is missing in the test part
    dump_svmlight_file(X[:200], y[:200], str(folder / "train.svm"), zero_based=False)
    dump_svmlight_file(X[200:], y[200:], str(folder / "test.svm"), zero_based=False)
    return folder, X, y


@pytest.fixture(scope="module")
def model(data):
    path = data[0] / "model.psvm"
    done("train", data[0] / "train.svm", "-o", path, "--loss", "hinge", "--quiet")
    return path


# --- train ------------------------------------------------------------------------------------------------------------


def test_train_prints_its_proof(data, tmp_path):
    folder, X, y = data
    result = done("train", folder / "train.svm", "--test", folder / "test.svm", "-o", tmp_path / "m.psvm")
    rows = table(result)
    model = load(tmp_path / "m.psvm")
    assert list(rows) == [
        *("data", "rows", "features", "classes", "solver", "steps", "status", "seconds", "primal", "dual"),
        *("relative gap", "certificate", "train error", "test error", "model"),
    ]
    assert (rows["rows"], rows["features"], rows["status"]) == ("200", "5", "converged")
    assert rows["classes"] == "2: -1 (67), 1 (133)"
    assert rows["solver"] == model.solver_.name and rows["certificate"] == str(model.certificate_)
    assert float(rows["relative gap"]) <= 1e-3
    assert rows["test error"] == f"{np.mean(model.predict(X[200:]) != y[200:]):.2%}"
    assert rows["train error"] == f"{np.mean(model.predict(X[:200]) != y[:200]):.2%}"
    assert result.stderr == ""


def test_train_takes_every_option(data, tmp_path):
    options = ["--loss", "huber", "--C", "0.5", "--tol", "1e-2", "--solver", "projected_gradient", "--max-iter", "500"]
    options += ["--max-seconds", "50", "--intercept", "penalized", "--multi-class", "ovo", "--class-weight", "balanced"]
    options += ["--jobs", "2", "--seed", "7", "--format", "svmlight", "--quiet"]
    result = done("train", data[0] / "train.svm", "-o", tmp_path / "m.psvm", *options)
    assert result.output == ""
    wanted = LinearSVC(
        *("huber",),
        C=0.5,
        tol=1e-2,
        solver="projected_gradient",
        max_iter=500,
        max_seconds=50.0,
        fit_intercept="penalized",
        multi_class="ovo",
        class_weight="balanced",
        n_jobs=2,
        random_state=7,
    )
    model = load(tmp_path / "m.psvm")
    assert model.get_params() == wanted.get_params()
    wanted.fit(*read(data[0] / "train.svm"))
    assert model.certificate_.primal == pytest.approx(wanted.certificate_.primal, rel=1e-2)  # tol


def test_train_with_a_kernel(data, tmp_path):
    folder, X, _ = data
    options = ["--kernel", "poly", "--gamma", "0.5", "--degree", "2", "--coef0", "1", "--memory-limit", "0.5G"]
    rows = table(done("train", folder / "train.svm", "-o", tmp_path / "m.psvm", *options))
    model = load(tmp_path / "m.psvm")
    wanted = SVC("poly", gamma=0.5, degree=2, coef0=1.0, memory_limit=2.0**29, n_jobs=1)
    assert model.get_params() == wanted.get_params()  # hinge, pairs, and all other defaults of SVC
    assert rows["kernel"] == "poly, gamma 0.5, degree 2, coef0 1" and rows["support"] == str(len(model.support_))
    assert rows["certificate"] == str(model.certificate_) and float(rows["relative gap"]) <= 1e-3
    certified = table(done("certify", tmp_path / "m.psvm", folder / "train.svm"))
    assert float(certified["primal"]) == pytest.approx(model.certificate_.primal, rel=1e-8)
    assert certified["kernel"] == rows["kernel"] and certified["loss"] == "hinge"
    result = done("predict", tmp_path / "m.psvm", folder / "test.svm")
    np.testing.assert_array_equal([int(line) for line in result.stdout.split()], model.predict(X[200:]))
    for size, number in (("1000", 1000), ("64K", 2**16), ("3MiB", 3 * 2**20), ("2gb", 2**31)):
        done("train", folder / "train.svm", "-o", tmp_path / "m.psvm", "--kernel", "rbf", "--memory-limit", size)
        assert load(tmp_path / "m.psvm").memory_limit == number
    assert load(tmp_path / "m.psvm").gamma == "scale"


def test_train_with_a_basis(data, tmp_path):
    data, path = data[0] / "train.svm", tmp_path / "basis.psvm"
    basis = ["--kernel", "rbf", "--approximation", "greedy", "--basis", "12", "--loss", "squared_hinge"]
    rows = table(done("train", data, *basis, "--seed", "3", "-o", path))
    assert rows["approximation"].startswith("greedy") and int(rows["support"]) <= 12
    model = load(path)
    assert (model.approximation, model.n_basis, model.random_state) == ("greedy", 12, 3)
    pieces = table(done("train", data, *basis, "--seed", "3", "--memory-limit", "100"))
    assert float(pieces["passes"]) > 2 and pieces["support"] == rows["support"]
    grown = table(done("train", data, *basis, "--grow", "gap"))
    assert grown["exact gap"].endswith("%")
    assert "--basis goes with a kernel" in refusal("train", data, "--basis", "5")


@pytest.mark.parametrize("intercept, value", [("free", True), ("none", False)])
def test_intercepts(intercept, value, data, tmp_path):
    done("train", data[0] / "train.svm", "-o", tmp_path / "m.psvm", "--intercept", intercept)
    model = load(tmp_path / "m.psvm")
    assert model.fit_intercept is value and bool(model.intercept_[0]) is value


def test_train_without_an_output_writes_nothing(data):
    before = sorted(data[0].iterdir())
    assert table(done("train", data[0] / "train.svm"))["model"] == "not saved; -o FILE saves it"
    assert sorted(data[0].iterdir()) == before


def test_train_as_json(data):
    result = done("train", data[0] / "train.svm", "--test", data[0] / "test.svm", "--json")
    report = json.loads(result.stdout)
    assert report["rows"] == 200 and report["classes"] == {"-1": 67, "1": 133} and report["model"] is None
    assert report["dual"] <= report["primal"] and report["relative_gap"] <= 1e-3 and report["warnings"] == []
    assert 0 <= report["excess"][0] <= report["excess"][1] and 0 < report["test_error"] < 0.3
    assert result.stdout.count("\n") == 1 and result.stderr == ""


def test_an_unbounded_excess_is_null_in_json(data, monkeypatch):
    monkeypatch.setattr(Certificate, "excess", (0.0, np.inf))
    assert json.loads(done("train", data[0] / "train.svm", "--json").stdout)["excess"] == [0.0, None]


def test_several_classes(write, tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{k},{a + 3 * k},{b - 2 * k},{'abc'[k]}" for k in range(3) for a, b in rng.normal(size=(30, 2))]
    path = write("three.csv", "u,v,w,class\n" + "\n".join(lines))
    rows = table(done("train", path, "-o", tmp_path / "m.psvm"))
    assert rows["classes"] == "3: a (30), b (30), c (30)" and rows["parts"].startswith("3 binary problems")
    report = json.loads(done("certify", tmp_path / "m.psvm", path, "--json").stdout)
    assert len(report["parts"]) == 3 and report["relative_gap"] <= 1e-3
    result = done("predict", tmp_path / "m.psvm", path, "--scores")
    assert len(result.stdout.splitlines()) == 90
    for line in result.stdout.splitlines():
        label, *scores = line.split("\t")
        assert label == "abc"[np.argmax([float(score) for score in scores])]


@pytest.mark.parametrize(
    "limit, status", [(["--max-iter", "1"], "max_iter"), (["--max-seconds", "0.2"], "max_seconds")]
)
def test_a_missed_tolerance_is_exit_code_3(limit, status, data, tmp_path):
    args = ["train", data[0] / "train.svm", "-o", tmp_path / "m.psvm", *LONG, *limit]
    rows = table(done(*args, code=3))
    assert rows["status"] == status
    assert rows["warning"].startswith("LinearSVC ended at a certified relative gap of ") and status in rows["warning"]
    assert load(tmp_path / "m.psvm").status_ == status
    result = done(*args, "--json", code=3)
    assert json.loads(result.stdout)["warnings"][0].startswith("LinearSVC ended") and result.stderr == ""
    result = done(*args, "--quiet", code=3)
    assert result.stdout == "" and re.fullmatch(r"warning: LinearSVC ended [^\n]+\n", result.stderr)


def test_a_test_set_of_other_labels(data, write):
    rows = table(done("train", data[0] / "train.svm", "--test", write("other.svm", "7 1:1\n9 2:1\n")))
    assert "test error" not in rows and "none of the model's labels" in rows["warning"]


# --- predict ----------------------------------------------------------------------------------------------------------


def test_predict_prints_labels(data, model, tmp_path):
    folder, X, y = data
    predicted = load(model).predict(X[200:])
    result = done("predict", model, folder / "test.svm")
    assert result.stdout == "".join(f"{label:.0f}\n" for label in predicted)
    wrong = int(np.sum(predicted != y[200:]))
    assert result.stderr == f"error rate {wrong / 100:.2%} ({wrong} of 100)\n"
    to_file = done("predict", model, folder / "test.svm", "-o", tmp_path / "labels")
    assert (tmp_path / "labels").read_text() == result.stdout and to_file.stdout == ""


def test_many_labels_are_printed_in_pieces(model, write, tmp_path):
    path = write("many.svm", "1 1:1\n-1 1:-9\n" * 1500)
    result = done("predict", model, path, "-o", tmp_path / "labels")
    assert done("predict", model, path).stdout == (tmp_path / "labels").read_text() == "1\n-1\n" * 1500
    assert result.stderr == "error rate 0.00% (0 of 3000)\n"


def test_predict_prints_scores_that_round_trip(data, model):
    lines = done("predict", model, data[0] / "test.svm", "--scores").stdout.splitlines()
    scores = np.array([float(line.split("\t")[1]) for line in lines])
    X, _ = read(data[0] / "test.svm", n_features=5)
    np.testing.assert_array_equal(scores, load(model).decision_function(X))


def test_more_features_than_the_model_has(data, model, write):
    """Features that the training never saw have weight zero; LIBLINEAR drops them too."""
    narrow, wide = write("narrow.svm", "1 1:2 2:1\n-1 1:-9\n"), write("wide.svm", "1 1:2 2:1 8:5\n-1 1:-9\n")
    result = done("predict", model, wide, "--scores")
    assert result.stdout == done("predict", model, narrow, "--scores").stdout
    assert result.stderr.startswith(f"note: {wide} has 8 features, the model 5;")
    assert "expected 5 features" in refusal("predict", model, write("w.csv", "a,b,c,d,e,f,g\n1,2,3,4,5,6,7\n"))


def test_columns_are_matched_by_name(write, tmp_path):
    """A test file whose columns stand in another order must not give other predictions."""
    train = write("train.csv", "a,b,y\n1,100,no\n2,-100,yes\n3,120,no\n1,-90,yes\n")
    done("train", train, "-o", tmp_path / "m.psvm", "--test", write("test.csv", "y,b,a\nno,90,2\nyes,-90,3\n"))
    assert done("predict", tmp_path / "m.psvm", write("new.csv", "b,a\n90,2\n-90,3\n")).stdout == "no\nyes\n"
    result = done("predict", tmp_path / "m.psvm", tmp_path / "test.csv")
    assert result.stderr == "error rate 0.00% (0 of 2)\n"
    assert done(
        "certify", tmp_path / "m.psvm", write("moved.csv", "y,b,a\nno,100,1\nyes,-100,2\nno,120,3\nyes,-90,1\n")
    )
    message = refusal("predict", tmp_path / "m.psvm", write("other.csv", "a,q\n90,2\n-90,3\n"))
    assert "columns of the model are not there: b; unknown to the model: q" in message
    fewer = refusal("predict", tmp_path / "m.psvm", write("fewer.csv", "b\n90\n-90\n"))
    assert "columns of the model are not there: a." in fewer
    rows = table(done("train", train, "--test", tmp_path / "test.csv"))
    assert rows["test error"] == "0.00%"


def test_predict_with_liblinear(write):
    """score = 1.5 x_1 - 0.5 x_2 + 0.25, positive for the first label of the file."""
    path = write("liblinear.model", LIBLINEAR)
    result = done("predict", path, write("a.svm", "1 1:1\n-1 2:1\n"), "--scores")
    assert result.stdout == "1\t1.75\n-1\t-0.25\n"


def test_predict_with_libsvm(tmp_path):
    expected = json.loads((FIXTURES / "libsvm_expected.json").read_text())
    for name in ("linear", "poly", "sigmoid"):
        X = np.array(expected[name]["X"])
        dump_svmlight_file(X, np.array(expected[name]["predicted"]), str(tmp_path / "a.svm"), zero_based=False)
        result = done("predict", FIXTURES / f"libsvm_{name}.model", tmp_path / "a.svm")
        assert result.stderr == "error rate 0.00% (0 of 36)\n", name


def test_features_that_a_kernel_never_saw_count(write, tmp_path):
    """Far away in a feature of its own: similar to no support vector, so the score is the intercept."""
    done("train", write("a.svm", "1 1:1\n-1 1:-1\n1 1:2\n"), "-o", tmp_path / "m.psvm", "--kernel", "rbf", "--C", "0.3")
    model = load(tmp_path / "m.psvm")
    result = done("predict", tmp_path / "m.psvm", write("wide.svm", "1 1:-1\n-1 1:-1 3:1000\n"), "--scores")
    scores = [float(line.split("\t")[1]) for line in result.stdout.splitlines()]
    assert scores == [pytest.approx(model.decision_function([[-1.0]])[0]), pytest.approx(model.intercept_[0])]
    assert "has 3 features, the model 1; which are zero in its support vectors" in result.stderr
    tested = done("train", tmp_path / "a.svm", "--test", tmp_path / "wide.svm", "--kernel", "rbf", "--C", "0.3")
    wrong = np.mean(np.sign(scores) != [1, -1])
    assert table(tested)["test error"] == f"{wrong:.2%}"


# --- certify ----------------------------------------------------------------------------------------------------------


def test_certify_our_model(data, model):
    rows = table(done("certify", model, data[0] / "train.svm"))
    assert (rows["loss"], rows["C"], rows["intercept"]) == ("hinge", "1", "free")
    assert "above the optimum" in rows["certificate"]
    assert float(rows["primal"]) == pytest.approx(load(model).certificate_.primal, rel=1e-8)
    report = json.loads(done("certify", model, data[0] / "train.svm", "--json").stdout)
    assert report["loss"] == "hinge" and report["dual"] >= load(model).certificate_.dual * (1 - 1e-12)
    assert report["primal"] - report["dual"] <= load(model).certificate_.gap + 1e-11 * report["primal"]  # rounding


def test_certify_by_another_problem(data, model):
    report = json.loads(
        done(
            "certify", model, data[0] / "train.svm", "--json", "--loss", "huber", "--C", "9", "--intercept", "penalized"
        ).stdout
    )
    assert (report["loss"], report["C"], report["intercept"]) == ("huber", 9.0, "penalized")
    proof = certify(load(model), *read(data[0] / "train.svm"), C=9.0, loss="huber", intercept="penalized")
    assert report["primal"] == proof.primal > 2 * load(model).certificate_.primal


def test_certify_liblinear(data, write):
    """w = (1.5, -0.5), b = 0.25 on one sample of each class: P by hand."""
    path, samples = write("liblinear.model", LIBLINEAR), write("two.svm", "1 1:1\n-1 2:1\n")
    rows = table(done("certify", path, samples, "--C", "2"))
    # |w|^2 + b^2 = 2.5625; margins 1.75 and 0.25: losses 0 and 0.5625
    assert float(rows["primal"]) == pytest.approx(2.5625 / 2 + 2 * 0.5625, rel=1e-8)
    assert (rows["loss"], rows["C"], rows["intercept"]) == ("squared_hinge", "2", "penalized")
    assert re.match(r"(between [\d.]+% and )?[\d.]+% above the optimum", rows["certificate"])
    assert "does not say its C" in refusal("certify", path, samples)


# --- models in an order -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["cumulative", "adjacent", "shared"])
@pytest.mark.parametrize("make", [LinearSVC, SVC])
def test_an_ordinal_model_is_served_and_judged(make, strategy, write, tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(90, 3))
    y = np.digitize(X[:, 0] + 0.3 * rng.normal(size=90), [-0.5, 0.5])
    dump_svmlight_file(X, y, str(tmp_path / "a.svm"), zero_based=False)
    X, y = read(tmp_path / "a.svm")
    model = OrdinalSVC(make(), strategy=strategy).fit(X, y)
    save(model, tmp_path / "m.psvm")
    lines = done("predict", tmp_path / "m.psvm", tmp_path / "a.svm", "--scores").stdout.splitlines()
    np.testing.assert_array_equal([int(line.split("\t")[0]) for line in lines], model.predict(X))
    rows = table(done("certify", tmp_path / "m.psvm", tmp_path / "a.svm"))
    assert float(rows["primal"]) == pytest.approx(model.certificate_.primal, rel=1e-8)
    assert (rows["loss"], rows["intercept"]) == ("hinge" if make is SVC else "squared_hinge", "free")
    assert rows.get("kernel", "").startswith("rbf") == (make is SVC)
    wide = write("wide.svm", "1 1:-1\n1 1:-1 9:1000\n")
    result = done("predict", tmp_path / "m.psvm", wide, "--scores")
    near, far = (line.split("\t")[1:] for line in result.stdout.splitlines())
    if make is LinearSVC:
        assert near == far
    elif strategy != "adjacent":  # similar to no support vector: the intercepts alone
        falling = -np.sort(-model.intercept_)
        np.testing.assert_allclose([float(x) for x in far], [0.0, *np.cumsum(falling)], atol=1e-12)


# --- bad input --------------------------------------------------------------------------------------------------------

SVM, CSV = "+1 1:1\n-1 1:-2\n", "a,b,y\n1,2,0\n3,4,1\n"
BAD_TRAINING = {
    "missing file": (None, [], "there is no such file"),
    "folder": ("", [], "found a folder"),
    "empty": ("", [], "the file is empty"),
    "NaN": ("+1 1:nan\n-1 1:2\n", [], "NaN or infinite"),
    "one class": ("+1 1:1\n+1 1:2\n", [], "two classes or more"),
    "wrong format": ("hello world\n", [], "expected 'label index:value"),
    "wrong format named": (SVM, ["--format", "npz"], "expected an .npz archive"),
    "no label column": (CSV, ["--label", "q"], "expected one label column 'q'"),
    "a label column in capitals": ("a,Tier\n1,x\n2,y\n", ["--label", "tier"], "perhaps 'Tier' is meant"),
    "label column of svmlight": (SVM, ["--label", "y"], "leave --label out"),
    "C = 0": (SVM, ["--C", "0"], "C must be a finite number above 0"),
    "C < 0": (SVM, ["--C", "-1"], "C must be a finite number above 0"),
    "C = nan": (SVM, ["--C", "nan"], "C must be a finite number above 0"),
    "tol < 0": (SVM, ["--tol", "-1"], "tol must be a number of at least 0"),
    "max_iter = 0": (SVM, ["--max-iter", "0"], "max_iter must be 1 or more"),
    "max_seconds = 0": (SVM, ["--max-seconds", "0"], "max_seconds must be"),
    "unknown solver": (SVM, ["--solver", "magic"], "solver must be auto, one of"),
    "solver of another loss": (SVM, ["--solver", "pegasos"], "pegasos needs a Lipschitz loss"),
    "gamma without a kernel": (SVM, ["--gamma", "1"], "--gamma goes with a kernel; add for instance --kernel rbf"),
    "rows in pieces": (SVM, ["--memory-limit", "0", "--solver", "dual_coordinate_ascent"], "needs all rows in memory"),
    "gamma": (SVM, ["--kernel", "rbf", "--gamma", "wide"], "gamma must be scale, auto or a number, got 'wide'"),
    "gamma < 0": (SVM, ["--kernel", "rbf", "--gamma", "-1"], "gamma must be 'scale', 'auto' or a finite number above"),
    "memory": (SVM, ["--kernel", "rbf", "--memory-limit", "much"], "memory_limit must be a size such as 500M or 2G"),
    "coef0 < 0": (SVM, ["--kernel", "poly", "--coef0", "-1"], "not positive semidefinite"),
    "no jobs": (SVM, ["--jobs", "0"], "n_jobs"),
    "seed < 0": (SVM, ["--seed", "-1", "--solver", "dual_coordinate_ascent"], "Seed"),
}


@pytest.mark.parametrize("content, options, words", BAD_TRAINING.values(), ids=BAD_TRAINING)
def test_bad_training(content, options, words, tmp_path):
    path = tmp_path / "a.csv" if content == CSV else tmp_path / "a.svm"
    if words == "found a folder":
        path.mkdir()
    elif content is not None:
        path.write_text(content)
    before = list(tmp_path.iterdir())
    assert words in refusal("train", path, "-o", tmp_path / "m.psvm", *options)
    assert list(tmp_path.iterdir()) == before


def test_outputs_that_cannot_be_written_are_refused_first(write, tmp_path):
    path = write("a.svm", SVM)
    for output, words in (
        (tmp_path / "absent" / "m.psvm", "there is no folder"),
        (tmp_path, "no regular file"),
        (os.devnull, "no regular file"),
        (path, "an input too"),
    ):
        assert words in refusal("train", path, "-o", output)
        assert words in refusal("predict", tmp_path / "absent.psvm", path, "-o", output)
    assert path.read_text() == SVM and [p.name for p in tmp_path.iterdir()] == ["a.svm"]


def test_a_bad_test_set(write):
    path = write("a.svm", SVM)
    assert "there is no such file" in refusal("train", path, "--test", "absent.svm")
    assert "expected 1 features" in refusal("train", path, "--test", write("b.csv", CSV))


@pytest.mark.parametrize("command", ["predict", "certify"])
def test_bad_models(command, data, model, tmp_path):
    content = model.read_bytes()
    samples = data[0] / "train.svm"
    for broken in (content[:-9], content[:100] + b"?" + content[101:], b"", b"PK\x03\x04", b"solver_type x\n"):
        (tmp_path / "m.psvm").write_bytes(broken)
        refusal(command, tmp_path / "m.psvm", samples, *(["--C", "1"] if command == "certify" else []))
    assert "No such file" in refusal(command, tmp_path / "absent", samples)
    assert "there is no such file" in refusal(command, model, tmp_path / "absent")
    assert "found a folder" in refusal(command, tmp_path, samples)
    assert [path.name for path in tmp_path.iterdir()] == ["m.psvm"]


def test_labels_that_the_model_does_not_know(model, write):
    words = write("words.csv", "a,b,c,d,e,y\n1,2,3,4,5,cat\n2,3,4,5,6,dog\n")
    assert "are not the model's: -1, 1" in refusal("certify", model, words)
    assert "which the model does not know" in refusal("certify", model, write("n.svm", "1 1:1\n7 5:1\n"))
    assert done("predict", model, words).stderr == ""


def test_no_memory_and_a_full_disk(data, model, monkeypatch, tmp_path):
    def fail(error):
        def fail(*_, **__):
            raise error

        return fail

    monkeypatch.setattr(LinearSVC, "fit", fail(MemoryError()))
    assert "not enough memory" in refusal("train", data[0] / "train.svm")
    monkeypatch.undo()
    monkeypatch.setattr(os, "fsync", fail(OSError(28, "No space left on device")))
    assert "No space left" in refusal("predict", model, data[0] / "test.svm", "-o", tmp_path / "labels")
    assert "No space left" in refusal("train", data[0] / "train.svm", "-o", tmp_path / "m.psvm")
    assert not list(tmp_path.iterdir())


def test_wrong_usage_is_exit_code_2(data):
    for args in (["train"], ["train", "a", "--loss", "square"], ["nonsense"], ["train", "a", "--C", "x"], ["--wrong"]):
        result = run(*args)
        assert result.exit_code == 2 and "Traceback" not in result.output


# --- the program as the shell sees it ---------------------------------------------------------------------------------


def test_python_runs_the_package():
    found = subprocess.run([sys.executable, "-m", "primalsvm", "--version"], capture_output=True, text=True, check=True)
    assert found.stdout.strip().endswith(primalsvm.__version__)


def test_help_and_version():
    assert done("--version").stdout == f"primalsvm {primalsvm.__version__}\n"
    whole = done("--help").stdout
    for command in ("train", "predict", "certify", "demo"):
        assert f"\n  {command} " in whole
        assert f"Example: primalsvm {command} " in done(command, "-h").stdout
    for text in (whole, done("train", "--help").stdout):
        assert re.search(r"Exit codes:\s+0 +done.*\s1 +bad.*\s2 +wrong.*\s3 +trained.*\s130 ", text, re.DOTALL)


def run_alone(prelude, *args):
    """Run cli in a new process with a stand-in for the package, whose own imports are not cli's doing."""
    code = f"""if True:
        import sys, types
        package = types.ModuleType("primalsvm")
        package.__path__, package.__version__ = {list(primalsvm.__path__)!r}, "0"
        sys.modules["primalsvm"] = package
        {prelude}
        from primalsvm.cli import main
        try:
            main()
        finally:
            print(sorted({{"numpy", "scipy", "sklearn", "numba", "matplotlib"}} & set(sys.modules)))
    """
    return subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True)


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["train", "--help"], ["nonsense"]])
def test_help_imports_nothing_heavy(args):
    result = run_alone("", *args)
    assert result.returncode == 2 * ("nonsense" in args) and result.stdout.splitlines()[-1] == "[]", result.stderr


@pytest.mark.parametrize("module", ["typer", "rich"])
def test_without_typer_or_rich(module):
    result = run_alone(f"sys.modules[{module!r}] = None", "--help")
    assert result.returncode == 1 and result.stdout == ""
    assert result.stderr == 'The command line needs typer and rich: pip install "primalsvm[cli]"\n'


def test_a_closed_pipe_is_no_traceback(model, tmp_path):
    (tmp_path / "many.svm").write_text("1 1:1\n" * 50_000)
    with subprocess.Popen(
        [*PROGRAM, "predict", model, tmp_path / "many.svm", "--scores"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


def wait_for(words, terminal, seconds=60):
    """Read the program's terminal until it shows `words`."""
    shown, end = b"", time.monotonic() + seconds
    while words not in shown:
        ready, _, _ = select.select([terminal], [], [], max(0.0, end - time.monotonic()))
        assert ready, f"{words!r} not shown in {seconds} s: {shown!r}"
        shown += os.read(terminal, 65536)
    return shown


@pytest.mark.parametrize("classes, jobs", [(2, 1), (3, 2)])
def test_ctrl_c_keeps_the_best_model(classes, jobs, tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50_000, 40)), np.arange(50_000) % classes  # of fewer rows it would stall, and end by itself
    np.savez(tmp_path / "random.npz", X=X, y=y)
    terminal, theirs = pty.openpty()
    command = [*PROGRAM, "train", tmp_path / "random.npz", "-o", tmp_path / "m.psvm", "--jobs", str(jobs), *LONG]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, text=True) as process:
        os.close(theirs)
        try:
            shown = wait_for(b"relative gap", terminal)
            assert re.search(rb"step \d+  primal \S+  dual \S+  relative gap \S+ .* s", shown)
            process.send_signal(signal.SIGINT)
            output = process.communicate(timeout=60)[0]
        finally:
            process.kill()
            os.close(terminal)
    assert process.returncode == 130
    model = load(tmp_path / "m.psvm")
    assert model.status_ == "interrupted" and 0 < model.certificate_.dual <= model.certificate_.primal < np.inf
    assert f"certificate   {model.certificate_}\n" in output and "status        interrupted\n" in output
    np.testing.assert_array_equal(model.predict(X).shape, (50_000,))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.psvm", "random.npz"]


def test_ctrl_c_before_there_is_a_model(monkeypatch, data, tmp_path):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(LinearSVC, "fit", interrupt)
    result = run("train", data[0] / "train.svm", "-o", tmp_path / "m.psvm")
    assert result.exit_code == 130 and result.stderr == "interrupted before there was anything to keep\n"
    assert not list(tmp_path.iterdir())


def test_demo_is_called_with_its_folder(monkeypatch, tmp_path):
    called = []
    monkeypatch.setattr("primalsvm.demo.run", called.append)
    done("demo", "--output", tmp_path / "shown")
    assert called == [tmp_path / "shown"]


def test_a_model_saved_in_python_is_served(data, tmp_path):
    save(LinearSVC().fit(data[1][:200], data[2][:200] > 0), tmp_path / "m.psvm")
    assert set(done("predict", tmp_path / "m.psvm", data[0] / "test.svm").stdout.split()) == {"True", "False"}
