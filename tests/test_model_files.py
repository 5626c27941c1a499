"""LIBLINEAR and LIBSVM model files, against what those programs predict themselves.

fixtures/libsvm_* were written by LIBSVM 3.37 (make_libsvm_models.py there); LIBLINEAR runs if installed.
"""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import pairwise_kernels

from primalsvm.model_files import ModelFileError, looks_like_model_file, read_model_file

FIXTURES = Path(__file__).parent / "fixtures"
EXPECTED = json.loads((FIXTURES / "libsvm_expected.json").read_text())
LIBLINEAR_TEXT = """solver_type L2R_L1LOSS_SVC_DUAL
nr_class 2
label 3 7
nr_feature 2
bias 0.5
w
1 
-2 
4 
"""  # noqa: W291  (LIBLINEAR ends its lines with a blank)


@pytest.fixture
def write(tmp_path):
    def write(content):
        path = tmp_path / "some.model"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def libsvm_scores(model, X):
    """{(negative, positive): scores (n,)} from the expansions."""
    S = model.support_vectors.toarray()
    S = np.hstack([S, np.zeros((len(S), X.shape[1] - S.shape[1]))])
    options = {"gamma": model.gamma, "coef0": model.coef0, "degree": model.degree}
    K = pairwise_kernels(X, S, model.kernel, filter_params=True, **options)
    return {(p.negative, p.positive): K[:, p.indices] @ p.coef + p.intercept for p in model.binary_problems()}


# --- LIBSVM -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXPECTED)
def test_libsvm_expansions_reproduce_libsvms_scores_and_votes(name):
    expected = EXPECTED[name]
    model = read_model_file(FIXTURES / f"libsvm_{name}.model")
    scores = libsvm_scores(model, np.array(expected["X"]))

    labels = expected["labels"]
    pairs = [(labels[i], labels[j]) for i in range(len(labels)) for j in range(i + 1, len(labels))]
    for (first, second), theirs in zip(pairs, np.array(expected["scores"]).T, strict=True):
        ours = scores[second, first] if first > second else -scores[first, second]
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)

    for i, predicted in enumerate(expected["predicted"]):
        votes = Counter(pair[1] if values[i] > 0 else pair[0] for pair, values in scores.items())
        assert votes[predicted] == max(votes.values())  # LIBSVM breaks ties by the order of its labels


def test_libsvm_facts_of_the_file():
    model = read_model_file(FIXTURES / "libsvm_rbf.model")
    assert (model.kind, model.multi_class, model.loss, model.intercept) == ("libsvm", "ovo", "hinge", "free")
    assert (model.kernel, model.gamma, model.coef0, model.degree) == ("rbf", 0.375, None, None)
    assert model.classes.tolist() == [-2, 4, 5, 9]
    assert model.C is None and model.coef is None and model.intercept_scaling is None
    assert model.sv_coef.shape == (3, model.support_vectors.shape[0])
    assert [(p.negative, p.positive) for p in model.binary_problems()] == [
        (-2, 4), (-2, 5), (-2, 9), (4, 5), (4, 9), (5, 9)
    ]  # fmt: skip
    poly = read_model_file(FIXTURES / "libsvm_poly.model")
    assert (poly.kernel, poly.gamma, poly.coef0, poly.degree) == ("poly", 0.5, 1.0, 2)
    linear = read_model_file(FIXTURES / "libsvm_linear.model")
    assert (linear.kernel, linear.gamma, linear.multi_class) == ("linear", None, "binary")


@pytest.mark.parametrize("name", EXPECTED)
def test_libsvm_coefficients_are_dual_points_of_the_free_intercept(name):
    """0 < alpha_i <= C and sum_i alpha_i y_i = 0 for every pair, y_i = +1 for its positive label."""
    model = read_model_file(FIXTURES / f"libsvm_{name}.model")
    C = float(EXPECTED[name]["options"].split("-c ")[1].split()[0])
    label_of = np.repeat(model.labels, model.n_support)
    for problem in model.binary_problems():
        y = np.where(label_of[problem.indices] == problem.positive, 1, -1)
        assert set(label_of[problem.indices]) <= {problem.positive, problem.negative}
        alpha = y * problem.coef
        assert (alpha > 0).all() and (alpha <= C).all()
        assert abs(problem.coef.sum()) <= 1e-12 * np.abs(problem.coef).sum()


@pytest.mark.parametrize("name", ["nu_svc", "one_class", "epsilon_svr", "precomputed"])
def test_libsvm_other_models_are_refused_by_name(name):
    with pytest.raises(ModelFileError, match=rf"found '{name}'; train with .*\.$"):
        read_model_file(FIXTURES / f"libsvm_{name}.model")


def test_libsvm_vector_without_features_and_windows_line_ends(write):
    text = "svm_type c_svc\nkernel_type linear\nnr_class 2\ntotal_sv 2\nrho 0.5\nlabel 1 -1\nnr_sv 1 1\nSV\n"
    model = read_model_file(write((text + "0.25 \n-0.25 2:4 \n").replace("\n", "\r\n")))
    assert model.support_vectors.toarray().tolist() == [[0, 0], [0, 4]]
    (problem,) = model.binary_problems()
    assert problem == (1, -1, problem.indices, problem.coef, -0.5)
    assert problem.coef.tolist() == [0.25, -0.25] and problem.indices.tolist() == [0, 1]


def test_support_vector_indices_must_ascend_within_a_line_only(write):
    text = "svm_type c_svc\nkernel_type linear\nnr_class 2\ntotal_sv 2\nrho 0\nlabel 1 -1\nnr_sv 1 1\nSV\n"
    read_model_file(write(text + "1 2:1 3:1 \n-1 1:1 \n"))
    for bad in (
        "1 3:1 2:1 \n-1 1:1 \n",
        "1 2:1 2:1 \n-1 1:1 \n",
        "1 0:1 \n-1 1:1 \n",
        "1 4294967297:1 \n-1 1:1 \n",
    ):
        with pytest.raises(ModelFileError, match="ascending indices"):
            read_model_file(write(text + bad))


def test_a_liblinear_model_has_no_support_vectors(write):
    with pytest.raises(ModelFileError, match="no support vectors"):
        next(read_model_file(write(LIBLINEAR_TEXT)).binary_problems())


# --- LIBLINEAR --------------------------------------------------------------------------------------------


def liblinear(labels, options, path, n=60, d=4):
    """Train, save; returns X, y and LIBLINEAR's own predictions and scores."""
    util = pytest.importorskip("liblinear.liblinearutil")
    rng = np.random.default_rng(3)
    y = np.array(labels)[np.arange(n) % len(labels)]
    X = rng.normal(size=(n, d)) + 0.7 * (np.arange(n) % len(labels))[:, None]
    model = util.train(y, X, options + " -q")
    util.save_model(str(path), model)
    predicted, _, scores = util.predict(y, X, model, "-q")
    return X, y, np.array(predicted), np.array(scores), model.get_labels()


@pytest.mark.parametrize("labels", [[3, 7], [7, 3], [-1, 1], [1, -1], [2, 0, 1], [5, 9, -4, 1]])
@pytest.mark.parametrize("options", ["-s 1", "-s 2 -B 1", "-s 3 -B 2.5", "-s 3 -B 0"])
def test_liblinear_scores_and_predictions(labels, options, tmp_path):
    path = tmp_path / "m"
    X, _, predicted, theirs, order = liblinear(labels, options, path)
    model = read_model_file(path)
    assert model.classes.tolist() == sorted(labels)
    assert model.loss == ("hinge" if "-s 3" in options else "squared_hinge")
    scores = X @ model.coef.T + model.intercepts
    if len(labels) == 2:
        ours = model.classes[(scores[:, 0] > 0).astype(int)]
        np.testing.assert_allclose(np.abs(scores[:, 0]), np.abs(theirs[:, 0]), rtol=1e-10, atol=1e-12)
        assert model.multi_class == "binary"
    else:
        ours = model.classes[scores.argmax(axis=1)]
        by_label = theirs[:, np.argsort(order)]
        np.testing.assert_allclose(scores, by_label, rtol=1e-10, atol=1e-12)
        assert model.multi_class == "ovr"
    assert (ours == predicted).all()


def test_liblinear_intercept_is_the_one_the_problem_says(tmp_path):
    """With alpha_i = 2 C max(0, 1 - m_i): b = B^2 sum alpha_i y_i if penalised, 0 = that sum if free."""
    path = tmp_path / "m"
    for options, penalized in (
        ("-s 2 -B 2.5 -c 0.5 -e 1e-10", True),
        ("-s 2 -B 1 -R -c 0.5 -e 1e-10", False),
    ):
        X, y, *_ = liblinear([3, 7], options, path)
        model = read_model_file(path, regularize_bias=penalized)
        signs = np.where(y == model.classes[1], 1, -1)
        alpha = 2 * 0.5 * np.maximum(0, 1 - signs * (X @ model.coef[0] + model.intercepts[0]))
        total = (alpha * signs).sum()
        if penalized:
            assert (model.intercept, model.intercept_scaling) == ("penalized", 2.5)
            assert model.intercepts[0] == pytest.approx(2.5**2 * total, rel=1e-6)
        else:
            assert (model.intercept, model.intercept_scaling) == ("free", None)
            assert abs(total) <= 1e-6 * alpha.sum()


def test_liblinear_text_by_hand(write):
    model = read_model_file(write(LIBLINEAR_TEXT))  # score of 3: x1 - 2 x2 + 0.5 * 4
    assert model.coef.tolist() == [[-1, 2]] and model.intercepts.tolist() == [-2]
    assert (model.intercept, model.intercept_scaling, model.loss) == ("penalized", 0.5, "hinge")
    flipped = read_model_file(write(LIBLINEAR_TEXT.replace("3 7", "7 3")))
    assert flipped.coef.tolist() == [[1, -2]] and flipped.intercepts.tolist() == [2]
    zero = read_model_file(write(LIBLINEAR_TEXT.replace("0.5", "0")))
    assert (zero.intercept, zero.intercepts.tolist(), zero.intercept_scaling) == ("none", [0], None)
    none = read_model_file(write(LIBLINEAR_TEXT.replace("0.5", "-1").replace("4 \n", "")))
    assert (none.intercept, none.coef.tolist()) == ("none", [[-1, 2]])


def test_regularize_bias_false_only_where_liblinear_has_it(write):
    with pytest.raises(ModelFileError, match="-s 2 -B 1 alone"):
        read_model_file(write(LIBLINEAR_TEXT), regularize_bias=False)
    with pytest.raises(ModelFileError, match="LIBSVM never penalises"):
        read_model_file(FIXTURES / "libsvm_rbf.model", regularize_bias=False)


@pytest.mark.parametrize(
    "solver, words",
    [
        ("L2R_LR", "logistic"),
        ("MCSVM_CS", "Crammer-Singer"),
        ("L1R_L2LOSS_SVC", "L1-penalised"),
        ("L2R_L1LOSS_SVR_DUAL", "regression"),
        ("ONECLASS_SVM", "one-class"),
        ("NEW_THING", "unknown type"),
    ],
)
def test_liblinear_other_models_are_refused(write, solver, words):
    with pytest.raises(ModelFileError, match=f"{words}.*{solver}.*train with -s 1, 2 or 3"):
        read_model_file(write(LIBLINEAR_TEXT.replace("L2R_L1LOSS_SVC_DUAL", solver)))


# --- files that are not what they should be ---------------------------------------------------------------


@pytest.mark.parametrize(
    "old, new, words",
    [
        ("nr_class 2", "nr_class -2", "nr_class must be an integer from 2"),
        ("nr_class 2", "nr_class 1", "nr_class must be an integer from 2"),
        ("nr_class 2", "nr_class 2000000000", "expected 2000000000 value"),
        ("nr_class 2", "nr_class " + "9" * 5000, "nr_class must be an integer"),
        ("nr_feature 2", "nr_feature 2147483647", "expected 2147483648 x 1 numbers"),
        ("nr_feature 2", "nr_feature -3", "nr_feature must be an integer"),
        ("nr_feature 2", "nr_feature two", "nr_feature must be an integer"),
        ("nr_feature 2", "nr_feature", "found 0"),
        ("nr_feature 2\n", "", "no such line"),
        ("nr_feature 2", "nr_feature 3", "expected 4 x 1 numbers after 'w', found 3"),
        ("label 3 7", "label 3 3", "every label once"),
        ("label 3 7", "label 3 7 8", "found 3"),
        ("bias 0.5", "bias nan", "finite numbers in 'bias'"),
        ("bias 0.5", "bias 0.5\nbias 1", "header line"),
        ("-2 ", "inf ", "finite numbers in 'w'"),
        ("-2 ", "x ", "finite numbers in 'w'"),
        ("w\n", "v\n", "header line, found 'v'"),
        ("solver_type", "solver", "begins with 'solver_type' or 'svm_type'"),
    ],
)
def test_damaged_liblinear_files(write, old, new, words):
    assert old in LIBLINEAR_TEXT
    with pytest.raises(ModelFileError, match=words) as caught:
        read_model_file(write(LIBLINEAR_TEXT.replace(old, new)))
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".") and len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "old, new, words",
    [
        (b"total_sv 31", b"total_sv 2147483647", "nr_sv adds up to 31"),
        (b"total_sv 31", b"total_sv -1", "total_sv must be"),
        (b"nr_sv 5 9", b"nr_sv 5 -9", "nr_sv must be"),
        (b"nr_sv 5", b"nr_sv 6", "nr_sv adds up"),
        (b"rho ", b"rho 1 ", "expected 6 value"),
        (b"3:-0.27", b"3:-0.27:1", "line 1 after 'SV'"),
        (b"3:-0.27", b"3:", "line 1 after 'SV'"),
        (b"3:-0.27", b"3:abc", "finite numbers in 'SV'"),
        (b"gamma 0.375\n", b"", "'gamma'"),
        (b"kernel_type rbf", b"kernel_type magic", "kernel among"),
    ],
)
def test_damaged_libsvm_files(write, old, new, words):
    content = (FIXTURES / "libsvm_rbf.model").read_bytes()
    assert old in content
    with pytest.raises(ModelFileError, match=words):
        read_model_file(write(content.replace(old, new, 1)))


@pytest.mark.parametrize("kind", ["liblinear", "libsvm"])
def test_a_file_cut_anywhere_is_refused(write, kind):
    content = {
        "liblinear": LIBLINEAR_TEXT.encode(),
        "libsvm": (FIXTURES / "libsvm_linear.model").read_bytes(),
    }[kind]
    read_model_file(write(content))
    for length in range(len(content)):
        with pytest.raises(ModelFileError):
            read_model_file(write(content[:length]))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_damage_raises_anything_else(tmp_path_factory, data):
    content = bytearray(
        data.draw(st.sampled_from([LIBLINEAR_TEXT.encode(), (FIXTURES / "libsvm_rbf.model").read_bytes()]))
    )
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    path = tmp_path_factory.getbasetemp() / "damaged.model"
    path.write_bytes(content)
    try:
        model = read_model_file(path)
        list(model.binary_problems()) if model.kind == "libsvm" else None
    except ModelFileError as error:
        assert "\n" not in str(error)


def test_looks_like_model_file(write, tmp_path):
    assert looks_like_model_file(FIXTURES / "libsvm_rbf.model") == "libsvm"
    assert looks_like_model_file(write(LIBLINEAR_TEXT)) == "liblinear"
    for other in (b"", b"solver_type", b"+1 1:2\n", b"solver_types L2R\n", bytes(range(256))):
        assert looks_like_model_file(write(other)) is None
    assert looks_like_model_file(tmp_path) is None and looks_like_model_file(tmp_path / "absent") is None


def test_absent_file_and_folder(tmp_path):
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(ModelFileError, match="no such file"):
            read_model_file(path)
