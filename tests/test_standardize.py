"""--standardize: what is trained, kept, judged and said where columns are brought to one scale."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from test_cli import done, refusal, table

from primalsvm import SVC, LinearSVC, certify
from primalsvm.persistence import load, save

# as of any model of named columns that is given none
pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names")
NAMES = ["age", "income", "height"]


@pytest.fixture(scope="module")
def uneven(tmp_path_factory):
    """Income counts in thousands and says nothing; height says all, in metres."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(160) % 2, "tall", "short")
    X = rng.normal(size=(160, 3)) * [15, 30_000, 0.05] + [40, 50_000, 1.7]
    X[:, 2] += np.where(y == "tall", 0.25, -0.25)
    folder = tmp_path_factory.mktemp("uneven")
    for name, rows in (("train.csv", slice(0, 100)), ("test.csv", slice(100, 160))):
        lines = [",".join([*(f"{v:.17g}" for v in x), label]) for x, label in zip(X[rows], y[rows], strict=True)]
        (folder / name).write_text("\n".join([",".join([*NAMES, "label"]), *lines]) + "\n")
    return folder, X[:100], y[:100], X[100:], y[100:]


@pytest.mark.parametrize("options", [[], ["--kernel", "rbf"]], ids=["linear", "rbf"])
def test_what_is_trained_is_a_pipeline_of_a_scaler_and_the_svm(options, uneven, tmp_path):
    folder, X, y, X_test, y_test = uneven
    path, test = tmp_path / "m.psvm", folder / "test.csv"
    rows = table(done("train", folder / "train.csv", *options, "--standardize", "--test", test, "-o", path))
    assert rows["scaling"] == "columns of deviation 1, means 0" and rows["test error"] == "0.00%"
    assert "warning" not in rows
    same = make_pipeline(StandardScaler(), SVC(kernel="rbf") if options else LinearSVC()).fit(X, y)
    model = load(path)
    assert np.allclose(model.decision_function(X_test), same.decision_function(X_test), rtol=1e-9, atol=1e-9)
    assert list(model[0].feature_names_in_) == NAMES
    result = done("predict", path, test)
    assert result.stdout.split() == list(y_test) and "0.00%" in result.stderr
    proof = json.loads(done("certify", path, folder / "train.csv", "--json").stdout)
    assert proof["primal"] == pytest.approx(certify(same, X, y).primal, rel=1e-9)
    assert proof["relative_gap"] <= 1e-3


def test_uneven_columns_are_said_and_do_harm(uneven):
    folder = uneven[0]
    rows = table(done("train", folder / "train.csv", "--kernel", "rbf", "--test", folder / "test.csv"))
    assert rows["warning"].startswith("'income' varies 18") and "--standardize" in rows["warning"]
    assert float(rows["test error"].rstrip("%")) > 20
    tuned = table(done("tune", folder / "train.csv", "--C", "1", "--folds", "2"))
    assert tuned["warning"] == rows["warning"]


def test_even_columns_are_not_remarked_upon(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)) * [1, 20, 0], np.arange(40) % 2  # a constant column is no reason either
    np.savetxt(tmp_path / "even.csv", np.column_stack([X, y]), delimiter=",", header="a,b,c,label", comments="")
    assert "warning" not in table(done("train", tmp_path / "even.csv"))
    X[:] = 0
    np.savetxt(tmp_path / "flat.csv", np.column_stack([X, y]), delimiter=",", header="a,b,c,label", comments="")
    assert "warning" not in table(done("train", tmp_path / "flat.csv"))


def test_columns_without_names(tmp_path):
    rng = np.random.default_rng(0)
    rows = np.column_stack([np.arange(40) % 2, rng.normal(size=(40, 4)) * [1, 1, 1, 1000]])
    np.savetxt(tmp_path / "rows.csv", rows, delimiter=",")
    found = table(done("train", tmp_path / "rows.csv", "--label", "0"))
    assert found["warning"].startswith("column 3 varies")


def test_sparse_columns_keep_their_zeros(tmp_path):
    rng = np.random.default_rng(1)
    X = sp.random_array((80, 6), density=0.4, rng=rng, format="csr") * 50
    y = np.where(np.arange(80) % 2, 1, -1)
    path, wide, model = tmp_path / "a.svm", tmp_path / "wide.svm", tmp_path / "m.psvm"
    dump_svmlight_file(X, y, str(path))
    dump_svmlight_file(sp.hstack([X, X[:, :2]]).tocsr(), y, str(wide))
    for options in ([], ["--kernel", "rbf"]):
        rows = table(done("train", path, "--standardize", "-o", model, *options))
        assert rows["scaling"] == "columns of deviation 1, means as they are: the data are sparse"
        assert load(model)[0].with_mean is False
        assert np.allclose(load(model)[0].scale_, X.toarray().std(axis=0))
        # columns that the model has no deviation of count for nothing
        assert done("predict", model, wide).stdout == done("predict", model, path).stdout
    done("evaluate", path, "--standardize", "--models", "linear,rbf", "--rounds", "2")


def test_dense_models_refuse_sparse_files(uneven, tmp_path):
    folder, X, y, *_ = uneven
    done("train", folder / "train.csv", "--standardize", "-o", tmp_path / "m.psvm", "--quiet")
    dump_svmlight_file(sp.csr_array(X), (y == "tall").astype(int), str(tmp_path / "sparse.svm"), zero_based=False)
    assert "trained on a dense file" in refusal("predict", tmp_path / "m.psvm", tmp_path / "sparse.svm")


def test_rows_in_pieces(uneven, tmp_path, monkeypatch):
    """Means and deviations are those of all pieces, and of the file as a whole."""
    for module in ("chunks", "chunk_files"):
        monkeypatch.setattr(f"primalsvm.{module}.PIECE_BYTES", 400)
    _, X, y, *_ = uneven
    rows, labels, whole, pieces = (tmp_path / name for name in ("X.npy", "y.npy", "whole.psvm", "pieces.psvm"))
    np.save(rows, X)
    np.save(labels, y == "tall")
    told = [rows, "--labels", labels, "--standardize", "--tol", "1e-9"]
    done("train", *told, "-o", whole, "--quiet")
    assert "in 7 pieces" in table(done("train", *told, "-o", pieces, "--memory-limit", "1K"))["reading"]
    one, other = load(whole), load(pieces)
    assert np.allclose(one[0].mean_, X.mean(axis=0)) and np.allclose(other[0].mean_, one[0].mean_)
    assert np.allclose(other[0].scale_, one[0].scale_)
    assert np.allclose(other[-1].coef_, one[-1].coef_, rtol=1e-4)
    assert done("predict", pieces, rows, "--memory-limit", "1K").stdout == done("predict", whole, rows).stdout


def test_the_other_commands_take_it(uneven, tmp_path):
    folder, X, y, X_test, _ = uneven
    train, test, path = folder / "train.csv", folder / "test.csv", tmp_path / "m.psvm"
    arguments = ("tune", train, "--standardize", "--kernel", "rbf", "--C", "1", "--gamma", "0.3", "--test", test)
    done(*arguments, "-o", path, "--quiet")
    same = make_pipeline(StandardScaler(), SVC(kernel="rbf", gamma=0.3)).fit(X, y)
    assert np.allclose(load(path).decision_function(X_test), same.decision_function(X_test), atol=1e-2)
    found = json.loads(done("evaluate", train, "--standardize", "--models", "rbf", "--rounds", "3", "--json").stdout)
    raw = json.loads(done("evaluate", train, "--models", "rbf", "--rounds", "3", "--json").stdout)
    assert found["models"]["rbf"]["accuracy"]["mean"] > raw["models"]["rbf"]["accuracy"]["mean"] + 0.2
    race = json.loads(done("compare", train, "--standardize", "--solvers", "newton", "--seconds", "1", "--json").stdout)
    assert race["scaling"] == "columns of deviation 1, means 0"
    done("train", train, "--standardize", "-o", path, "--quiet")
    assert "height" in done("explain", path).stdout


@pytest.mark.parametrize("make", [LinearSVC, SVC])
def test_a_pipeline_from_python_knows_its_columns_by_name(make, uneven, tmp_path):
    """There the scaler has their names, and the classifier none; a file in another order must be the same to it."""
    pandas = pytest.importorskip("pandas")
    folder, X, y, X_test, y_test = uneven
    model = make_pipeline(StandardScaler(), make()).fit(pandas.DataFrame(X, columns=NAMES), y)
    save(model, tmp_path / "m.psvm")
    turned = pandas.DataFrame(X_test[:, ::-1], columns=NAMES[::-1])
    turned.to_csv(tmp_path / "turned.csv", index=False)
    assert done("predict", tmp_path / "m.psvm", tmp_path / "turned.csv").stdout.split() == list(y_test)
    proof = json.loads(done("certify", tmp_path / "m.psvm", folder / "train.csv", "--json").stdout)
    assert proof["primal"] == pytest.approx(model[-1].certificate_.primal, rel=1e-9)


def test_the_report_says_so(uneven, tmp_path):
    pytest.importorskip("plotly")
    train, words = uneven[0] / "train.csv", "columns of deviation 1, means 0"
    done("train", train, "--standardize", "--report", tmp_path / "yes.html", "--quiet")
    done("train", train, "--report", tmp_path / "no.html", "--quiet")
    assert words in (tmp_path / "yes.html").read_text() and words not in (tmp_path / "no.html").read_text()


def test_words_need_no_scaling(tmp_path):
    (tmp_path / "t.csv").write_text("text,label\na fine film,1\na dull film,0\n")
    assert "--standardize goes with columns of numbers" in refusal(
        "train", tmp_path / "t.csv", "--text", "text", "--standardize"
    )
