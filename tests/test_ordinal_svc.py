"""OrdinalSVC: its problems against the exact optimum, its table against counting, scikit-learn's checks, bad input."""

import json
import warnings
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks
from test_cli import done, refusal

from primalsvm import SVC, LinearSVC, OrdinalSVC, as_chunks, certify
from primalsvm.kernel_matrix import TiledKernel
from primalsvm.kernels import Kernel
from primalsvm.persistence import ModelError, load, save
from primalsvm.repeated_kernel import RepeatedKernel
from tests.reference import optimum, primal_value

STRATEGIES = ("adjacent", "cumulative", "shared")
pytestmark = pytest.mark.filterwarnings("ignore:.*SCIPY_ARRAY_API.*")


def steps(n=120, q=5, d=4, seed=0, noise=0.3):
    """Labels 0 ... q - 1 that rise along the first feature."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    cuts = np.quantile(X[:, 0], np.arange(1, q) / q)
    return X, np.digitize(X[:, 0] + noise * rng.standard_normal(n), cuts)


@pytest.mark.filterwarnings("ignore:the classes are words")
@parametrize_with_checks(
    [OrdinalSVC(strategy=strategy) for strategy in STRATEGIES]
    + [OrdinalSVC(SVC(), strategy=strategy) for strategy in ("adjacent", "shared")]
)
def test_scikit_learn_checks(estimator, check):
    """All of them, sample-weight equivalence included."""
    check(estimator)


# --- the binary problems and their certificates ----------------------------------------------------------------------


@pytest.mark.parametrize("base", [LinearSVC(C=0.5), SVC("linear", C=0.5)], ids=["linear", "kernel"])
@pytest.mark.parametrize("strategy", ["adjacent", "cumulative"])
def test_boundaries_are_plain_binary_fits(strategy, base):
    X, y = steps()
    model = OrdinalSVC(clone(base).set_params(tol=1e-10), strategy=strategy).fit(X, y)
    for k in range(1, 5):
        rows = np.isin(y, (k - 1, k)) if strategy == "adjacent" else np.full(len(y), True)
        alone = clone(base).set_params(tol=1e-10).fit(X[rows], y[rows] >= k)
        assert np.allclose(model.coef_[k - 1], alone.coef_[0], atol=1e-4)
        part = model.certificate_.parts[k - 1]
        assert part.dual <= alone.certificate_.primal and alone.certificate_.dual <= part.primal


@pytest.mark.parametrize("intercept", [True, False, "penalized"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "huber"])
def test_shared_problem_is_the_one_stated(loss, intercept):
    """P by its definition, plainly summed over samples and boundaries."""
    X, y = steps(n=60, q=4)
    weight = np.random.default_rng(1).uniform(0, 2, len(y))
    model = OrdinalSVC(LinearSVC(loss, C=0.7, fit_intercept=intercept), strategy="shared").fit(X, y, weight)
    w, b, s = model.coef_[0], model.certificate_.b, model.model_.threshold_scale_
    assert s == pytest.approx(np.sqrt(np.average(np.sum(X**2, axis=1), weights=weight)), rel=1e-7)
    t = model.intercept_ - b
    P = 0.5 * w @ w + 0.5 * t @ t / s**2 + (0.5 * b * b if intercept == "penalized" else 0.0)
    for k in range(1, 4):
        margins = np.where(y >= k, 1, -1) * (X @ w + model.intercept_[k - 1])
        gap = np.maximum(0, 1 - margins)
        huber = np.where(margins > 1.5, 0, np.where(abs(1 - margins) <= 0.5, (1.5 - margins) ** 2 / 2, 1 - margins))
        P += 0.7 * weight @ {"hinge": gap, "squared_hinge": gap**2, "huber": huber}[loss]
    assert model.certificate_.primal == pytest.approx(P, rel=1e-9)
    assert np.all(np.diff(model.intercept_) <= 1e-6)  # the thresholds of the optimum are in order


@pytest.mark.parametrize("kernel", [False, True], ids=["linear", "kernel"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("C", [1e-6, 1.0, 1e4])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_certificate_of_shared_holds_against_the_exact_optimum(loss, C, dtype, kernel):
    """In rational arithmetic, with a row twice and a weight of zero."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((5, 2)).astype(dtype)
    X[1] = X[0]
    y, weight = np.array([0, 1, 2, 1, 0]), np.array([1.0, 1.0, 1.0, 2.0, 0.0])
    base = SVC("linear", loss=loss, C=C, tol=1e-6) if kernel else LinearSVC(loss, C=C, tol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # then the bound is wide, and must hold even so
        model = OrdinalSVC(base, strategy="shared").fit(X, y, weight)
    s = model.model_.threshold_scale_
    tall = np.hstack([np.tile(X.astype(float), (2, 1)), s * np.repeat(np.eye(2), 5, axis=0)])
    signs = np.concatenate([np.where(y >= k, 1.0, -1.0) for k in (1, 2)])
    best = optimum(tall, signs, C * np.tile(weight, 2), loss, "free")
    w = np.append(model.coef_[0], (model.intercept_ - model.certificate_.b) / s)
    mine = primal_value(tall, signs, C * np.tile(weight, 2), loss, "free", w, model.certificate_.b)
    proof = model.certificate_
    slack = Fraction(1e-6) * abs(mine)  # coef_ of a kernel model, and s times t / s, are rounded
    assert proof.dual <= best.value_high
    assert Fraction(proof.primal) >= mine - slack
    assert mine - best.value_high <= Fraction(proof.gap) + slack


def test_linear_and_kernel_shared_agree():
    X, y = steps()
    linear = OrdinalSVC(LinearSVC("hinge", tol=1e-8), strategy="shared").fit(X, y)
    kernel = OrdinalSVC(SVC("linear", tol=1e-8), strategy="shared").fit(X, y)
    assert np.allclose(linear.coef_, kernel.coef_, atol=1e-3)
    assert np.allclose(linear.intercept_, kernel.intercept_, atol=1e-3)
    assert linear.certificate_.dual <= kernel.certificate_.primal
    assert kernel.certificate_.dual <= linear.certificate_.primal


@pytest.mark.parametrize("base", [LinearSVC(), LinearSVC("hinge"), SVC(), SVC(loss="squared_hinge")], ids=str)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_certify_says_what_the_fit_said(strategy, base):
    X, y = steps()
    model = OrdinalSVC(base, strategy=strategy).fit(X, y)
    assert model.certificate_.relative_gap <= 1e-3
    again = certify(model, X, y)
    assert again.primal == pytest.approx(model.certificate_.primal, rel=1e-9)
    assert again.relative_gap <= 1e-3 and len(again.parts) == len(model.certificate_.parts)
    other = certify(model, X, y, C=100.0)
    assert other.primal > again.primal and other.relative_gap > 1e-3
    with pytest.raises(ValueError, match="judged on the data that it was trained on"):
        certify(model, X[:-1], y[:-1])


def test_certify_does_not_believe_a_spoiled_model():
    X, y = steps()
    for base in (LinearSVC(), SVC()):
        for strategy in STRATEGIES:
            model = OrdinalSVC(base, strategy=strategy).fit(X, y)
            model.model_.intercept_ = model.model_.intercept_ + 3.0
            if hasattr(model.model_, "boundary_coef_"):
                model.model_.boundary_coef_ = 0 * model.model_.boundary_coef_
            assert certify(model, X, y).relative_gap > 0.05


# --- the repeated kernel ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory_limit", [1.0, 1e9], ids=["tiled", "stored"])
@pytest.mark.parametrize("kernel", [Kernel("rbf", 0.5), Kernel("linear", 0.0), Kernel("laplacian", 0.3)], ids=str)
def test_repeated_kernel_is_its_definition(kernel, memory_limit):
    rng = np.random.default_rng(0)
    X, samples, tags, s = rng.standard_normal((7, 3)), rng.integers(0, 7, 30), rng.integers(0, 3, 30), 1.3
    inner = TiledKernel(kernel, X, memory_limit)
    K = RepeatedKernel(inner, samples, tags, s)
    assert K.held == (memory_limit > 1)
    everyone = np.arange(7)
    want = inner.block(everyone, everyone)[np.ix_(samples, samples)] + s * s * (tags[:, None] == tags)
    rows, v = np.array([4, 0, 29, 4]), rng.standard_normal(30)
    assert np.allclose(K.diagonal, want.diagonal(), rtol=1e-14)
    assert np.allclose(K.matvec(v), want @ v, rtol=1e-12)
    assert np.allclose(K.matvec(v, rows), (want @ v)[rows], rtol=1e-12)
    assert np.allclose(K.block(rows, np.arange(30)), want[rows], rtol=1e-14)
    assert np.allclose(K.take(rows).block(np.arange(4), np.arange(4)), want[np.ix_(rows, rows)], rtol=1e-14)
    columns = K.columns(np.arange(30))
    out = np.zeros((columns.tiles, 2, 1024), dtype=np.float32)
    columns.fill(np.array([3, 8]), out)
    assert np.allclose(out[0, :, :30], want[[3, 8]], rtol=1e-6)
    if memory_limit > 1:
        assert np.allclose(K.array(), want, rtol=1e-14)
    else:
        with pytest.raises(MemoryError, match="once for each boundary"):
            K.array()


@pytest.mark.parametrize("solver", ["smo", "newton", "conjugate_gradient"])
def test_shared_kernel_below_a_memory_limit(solver):
    X, y = steps(n=300)
    base = SVC(loss="squared_hinge", memory_limit=1e5, solver=solver)
    small = OrdinalSVC(base, strategy="shared").fit(X, y)
    large = OrdinalSVC(clone(base).set_params(memory_limit=1e9), strategy="shared").fit(X, y)
    assert small.status_ == large.status_ == "converged"
    assert small.certificate_.dual <= large.certificate_.primal and large.certificate_.dual <= small.certificate_.primal


# --- the table -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("smoothing", [0.0, 1.0, 50.0])
def test_table_counts_labels_by_pattern(smoothing):
    X, y = steps(noise=0.8)
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    model = OrdinalSVC(strategy="adjacent", smoothing=smoothing).fit(X, y, weight)
    signs = [tuple(row) for row in (model.model_.decision_function(X) > 0).tolist()]
    counts = Counter()
    for pattern, label, times in zip(signs, y, weight, strict=True):
        counts[pattern, label] += times
    prior = np.bincount(y, weights=weight) / weight.sum()
    for pattern, row in zip(model.patterns_.tolist(), model.table_, strict=False):
        n = np.array([counts[tuple(pattern), label] for label in range(5)])
        want = (n + smoothing * prior) / (n.sum() + smoothing) if n.sum() + smoothing else prior
        assert np.allclose(row, want)
    assert np.allclose(model.table_[-1], prior) and len(model.table_) == len(model.patterns_) + 1
    assert {tuple(pattern) for pattern in model.patterns_.tolist()} == set(signs)
    assert np.allclose(model.table_.sum(axis=1), 1.0)


def test_a_pattern_never_seen_gets_the_prior():
    X, y = steps(noise=0.1)
    model = OrdinalSVC(strategy="adjacent").fit(X, y)
    seen = {tuple(pattern) for pattern in model.patterns_.tolist()}
    unseen = np.array([pattern for pattern in np.ndindex(2, 2, 2, 2) if pattern not in seen], dtype=bool)
    assert len(unseen)
    assert np.all(model._places(unseen) == len(model.patterns_))
    assert np.array_equal(model.table_[model._places(model.patterns_)], model.table_[:-1])


def test_more_boundaries_than_bits():
    X, y = steps(n=400, q=80, noise=0.0)
    model = OrdinalSVC(strategy="adjacent").fit(X, y)
    assert model.decision_function(X).shape == (400, 80)


# --- answers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_ordered_problem_is_learnt(strategy):
    X, y = steps(n=500, noise=0.1)
    model = OrdinalSVC(LinearSVC(C=10), strategy=strategy).fit(X, y)
    assert np.mean(np.abs(model.predict(X) - y)) < 0.15
    assert model.boundaries_[0] == ("1 against 0" if strategy == "adjacent" else "1 or above")


@settings(max_examples=50, deadline=None)
@given(arrays(float, (6, 4), elements=st.floats(-3, 3)))
def test_the_class_is_the_number_of_boundaries_passed(scores):
    """Also where they contradict each other."""
    model = OrdinalSVC().fit(*steps())
    model._boundary_scores = lambda X: scores
    passed = np.count_nonzero(scores > 0, axis=1)
    assert np.array_equal(model.predict(None), passed)
    decision = model.decision_function(None)
    assert np.allclose(decision[np.arange(6), passed], decision.max(axis=1))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_order_of_classes_can_be_turned_round(strategy):
    """From high to low is the same problem with all signs turned."""
    X, y = steps(noise=0.5)
    up = OrdinalSVC(LinearSVC(tol=1e-10), strategy=strategy).fit(X, y)
    down = OrdinalSVC(LinearSVC(tol=1e-10), strategy=strategy, classes=[4, 3, 2, 1, 0]).fit(X, y)
    assert np.allclose(down.coef_, -up.coef_[::-1], atol=1e-5)
    assert np.mean(down.predict(X) == up.predict(X)) > 0.95  # ties of the table are broken from below


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_storage_and_threads_do_not_matter(strategy):
    X, y = steps()
    X[np.abs(X) < 0.3] = 0.0
    fits = [
        OrdinalSVC(LinearSVC(tol=1e-9, n_jobs=jobs), strategy=strategy).fit(rows, y)
        for rows, jobs in ((X, 1), (sp.csr_matrix(X), 1), (sp.csr_array(X), 2), (X.astype(np.float32), 1))
    ]
    for fit in fits[1:]:
        assert np.allclose(fit.coef_, fits[0].coef_, atol=1e-4)
        assert np.mean(fit.predict(X) == fits[0].predict(X)) > 0.97


def test_pieces():
    X, y = steps(n=300)
    pieces = as_chunks(X, y, memory_limit=3000)
    for strategy in ("adjacent", "cumulative"):
        one = OrdinalSVC(LinearSVC(solver="newton", tol=1e-8), strategy=strategy)
        assert np.allclose(clone(one).fit(pieces).coef_, one.fit(X, y).coef_, atol=1e-5)
    with pytest.raises(ValueError, match="all rows in memory"):
        OrdinalSVC(strategy="shared").fit(pieces)


def test_words_need_an_order():
    X, y = steps(q=3)
    words = np.array(["low", "middle", "high"])[y]
    with pytest.warns(UserWarning, match="order of the alphabet: high, low, middle"):
        OrdinalSVC().fit(X, words)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = OrdinalSVC(classes=["low", "middle", "high"]).fit(X, words)
    assert np.array_equal(model.predict(X), np.array(["low", "middle", "high"])[OrdinalSVC().fit(X, y).predict(X)])
    assert certify(model, X, words).relative_gap <= 1e-3


def test_ordered_categories_of_pandas():
    pd = pytest.importorskip("pandas")
    X, y = steps(q=3)
    words = pd.Series(pd.Categorical.from_codes(y, ["low", "middle", "high", "never"], ordered=True))
    model = OrdinalSVC().fit(pd.DataFrame(X, columns=list("abcd")), words)
    assert model.classes_.tolist() == ["low", "middle", "high"]
    assert model.feature_names_in_.tolist() == list("abcd")


def test_class_weight_by_label():
    X, y = steps(q=3)
    names = np.array(["low", "middle", "high"])
    plain = OrdinalSVC(LinearSVC(class_weight={0: 5.0}), strategy="adjacent").fit(X, y)
    named = OrdinalSVC(LinearSVC(class_weight={"low": 5.0}), strategy="adjacent", classes=names).fit(X, names[y])
    assert np.allclose(plain.coef_, named.coef_)


def test_works_where_scikit_learn_expects_a_classifier():
    X, y = steps()
    search = GridSearchCV(OrdinalSVC(LinearSVC()), {"estimator__C": [0.1, 1.0], "strategy": STRATEGIES}, cv=3)
    assert search.fit(X, y).best_score_ > 0.6
    assert cross_val_score(OrdinalSVC(SVC()), X, y, cv=3, scoring="neg_mean_absolute_error").mean() > -0.6


def test_warm_start_goes_on_from_the_last_fit():
    X, y = steps(n=400)
    model = OrdinalSVC(LinearSVC("hinge", warm_start=True, solver="dual_coordinate_ascent")).fit(X, y)
    model.fit(X, y)
    assert model.n_iter_ == 0


def test_ctrl_c_keeps_what_is_there():
    X, y = steps(n=400)

    def interrupt(record):
        raise KeyboardInterrupt

    for strategy in STRATEGIES:
        model = OrdinalSVC(LinearSVC("hinge", tol=1e-12, callback=interrupt), strategy=strategy)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
        assert model.status_ == "interrupted" and model.predict(X).shape == (400,)


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("q", [2, 4])
@pytest.mark.parametrize("base", [None, LinearSVC("hinge", C=0.3), SVC(), SVC("precomputed")], ids=str)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_same_model_comes_back(strategy, base, q, words, tmp_path):
    X, y = steps(q=q)
    names = np.array(["low", "middle", "high", "top"])[:q] if words else np.arange(q)
    X = X @ X.T if base is not None and getattr(base, "kernel", "") == "precomputed" else X
    model = OrdinalSVC(base, strategy=strategy, classes=names).fit(X, names[y])
    save(model, tmp_path / "model.psvm")
    again = load(tmp_path / "model.psvm")
    assert again.decision_function(X).tobytes() == model.decision_function(X).tobytes()
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.certificate_ == model.certificate_ and again.boundaries_ == model.boundaries_
    assert certify(again, X, names[y]).relative_gap <= 1e-3
    assert np.array_equal(again.fit(X, names[y]).predict(X), model.predict(X))


def test_files_that_contradict_themselves_are_refused(tmp_path):
    X, y = steps()
    path = tmp_path / "model.psvm"

    def refused(model, **changes):
        for name, value in changes.items():
            setattr(model, name, value)
        save(model, path)
        with pytest.raises(ModelError, match=r"do not fit together|is not that of|cannot read"):
            load(path)

    def fresh(strategy="adjacent", base=None):
        return OrdinalSVC(base, strategy=strategy).fit(X, y)

    refused(fresh(), strategy="cumulative")
    refused(fresh("cumulative"), strategy="shared")
    refused(fresh("cumulative"), classes_=np.arange(4))
    refused(fresh(), table_=fresh().table_[:-1])
    refused(fresh(), patterns_=fresh().patterns_[:, :-1])
    refused(fresh(), table_=np.full_like(fresh().table_, np.nan))
    refused(fresh("shared"), boundaries_=["a"])
    for base in (LinearSVC(), SVC()):
        for strategy in STRATEGIES:
            model = fresh(strategy, base)
            model.model_.intercept_ = model.model_.intercept_[:-1]
            refused(model)
    model = fresh("shared", SVC())
    model.model_.boundary_coef_ = model.model_.boundary_coef_[:, :-1]
    refused(model)
    with pytest.raises(ModelError, match="save takes a fitted"):
        save(fresh().model_, path)  # a part of a model is none
    with pytest.raises(NotFittedError):
        save(OrdinalSVC(), path)


# --- the command line ------------------------------------------------------------------------------------------------


@pytest.fixture
def reviews(tmp_path):
    path = tmp_path / "reviews.csv"
    lines = ["a fine fine film,good", "a dull film,bad", "not bad not fine,fair", "so dull,bad", "fine acting,good"]
    path.write_text("\n".join(["text,grade", *lines, "fair enough,fair"]) + "\n")
    return path


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_ordinal_model_from_the_shell(strategy, reviews, tmp_path):
    model = tmp_path / "model.psvm"
    options = ["--label", "grade", "--ordinal", strategy, "--order", "bad, fair,good"]
    report = json.loads(done("train", reviews, "--text", "text", *options, "--json", "-o", model).stdout)
    assert list(report["classes"]) == ["bad", "fair", "good"] and report["relative_gap"] <= 1e-3
    assert load(model)[-1].strategy == strategy
    found, truth = done("predict", model, reviews).stdout.split(), ["good", "bad", "fair", "bad", "good", "fair"]
    assert np.sum(np.array(found) == truth) >= (5 if strategy == "adjacent" else 6)  # two labels have one pattern
    assert "above the optimum" in done("certify", model, reviews, "--label", "grade").stdout
    assert "fine" in done("explain", model).stdout


def test_columns_keep_their_names_in_an_ordinal_model(tmp_path):
    X, y = steps(q=3)
    path = tmp_path / "steps.csv"
    np.savetxt(path, np.column_stack([X, y]), delimiter=",", header="a,b,c,d,y", comments="")
    done("train", path, "--ordinal", "cumulative", "--kernel", "rbf", "-o", tmp_path / "model.psvm")
    model = load(tmp_path / "model.psvm")
    assert model.feature_names_in_.tolist() == list("abcd") and model.boundaries_ == ["1 or above", "2 or above"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--order", "bad,fair,good"], "--order goes with --ordinal"),
        (["--ordinal", "shared", "--multi-class", "ovo"], "--ordinal or --multi-class, not both"),
        (["--ordinal", "shared", "--order", "bad,good"], "y has the label fair"),
        (["--ordinal", "shared", "--order", "bad,fair,good,best"], "no sample of the class best"),
        (["--ordinal", "shared", "--probability", "sigmoid"], "no calibrated probabilities"),
    ],
)
def test_wrong_options_are_one_line(options, words, reviews):
    assert words in refusal("train", reviews, "--text", "text", "--label", "grade", *options)


def test_the_order_of_numbers_is_of_numbers(tmp_path):
    (tmp_path / "numbers.csv").write_text("x,y\n0,1\n1,2\n2,3\n")
    assert "the labels are numbers" in refusal(
        "train", tmp_path / "numbers.csv", "--ordinal", "shared", "--order", "a,b"
    )


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (OrdinalSVC(strategy="ovr"), "strategy must be one of adjacent, cumulative, shared, got 'ovr'"),
        (OrdinalSVC(smoothing=-1), "smoothing must be a finite number of at least 0"),
        (OrdinalSVC(estimator="svm"), "must be a LinearSVC or SVC of primalsvm"),
        (OrdinalSVC(LinearSVC(probability="sigmoid")), "no calibrated probabilities"),
        (OrdinalSVC(SVC(approximation="random"), strategy="shared"), "approximation must be None with"),
        (OrdinalSVC(LinearSVC(C=-1)), "C must be a finite number above 0"),
        (OrdinalSVC(classes=[0, 1, 1]), "each once"),
        (OrdinalSVC(classes=[0, 1, 2]), "y has the label 3, which is none of the classes: 0, 1, 2"),
        (OrdinalSVC(classes=[0, 1, 2, 3, 4, 5]), "y has no sample of the class 5"),
    ],
)
def test_bad_parameters_are_one_sentence(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(*steps())


def test_not_fitted():
    with pytest.raises(NotFittedError):
        OrdinalSVC().predict(np.zeros((2, 2)))
