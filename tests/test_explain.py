"""Explanations: what they say adds up to what the model says, and the pictures draw what they say."""

import json
import sys

import matplotlib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline, make_union
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC as SklearnSVC
from sklearn.svm import LinearSVC as SklearnLinearSVC
from sklearn.tree import DecisionTreeClassifier
from test_cli import LIBLINEAR, done, refusal

from primalsvm import SVC, LinearSVC, LinearSVCCV, OrdinalSVC, contributions, heaviest, save, text_model
from primalsvm.explain import HIGHER, Contributions, Score, Term, Weights
from primalsvm.explain_display import AGAINST, FOR, ContributionsDisplay, WeightsDisplay

matplotlib.use("Agg")
import matplotlib.pyplot as plt

FRAME, Y3 = load_iris(return_X_y=True, as_frame=True)
X3 = FRAME.to_numpy()
NAMES = list(FRAME.columns)
WORDS3 = np.array(["setosa", "versicolor", "virginica"])[Y3]
X2, Y2 = X3[50:], WORDS3[50:]
TEXTS = ["a very good film", "a bad film", "not a good film", "not bad at all", "really very bad", "good good fun"]
TEXTS += ["dull and long", "great fun and not dull"]
SIDES = ["+", "-", "-", "+", "-", "+", "-", "+"]


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def reader(**options):
    words = TfidfVectorizer(token_pattern=r"\w+", **options)
    return make_pipeline(words, LinearSVC()).fit(TEXTS, SIDES)


def column(X, j, rows=slice(None)):
    return X[rows, j]


# --- weights ----------------------------------------------------------------------------------------------------------


def test_two_classes_have_one_row_that_speaks_for_the_second():
    model = LinearSVC().fit(pd.DataFrame(X2, columns=NAMES), Y2)
    ((label, weights),) = heaviest(model).items()
    assert label == "virginica" and weights.opposite == "versicolor"
    assert dict([*weights.for_, *weights.against]) == dict(zip(NAMES, model.coef_[0].tolist(), strict=True))
    assert [w for _, w in weights.for_] == sorted((w for w in model.coef_[0] if w > 0), reverse=True)
    assert [w for _, w in weights.against] == sorted(w for w in model.coef_[0] if w < 0)


def test_each_class_against_the_rest_has_its_row():
    model = LinearSVC().fit(FRAME, WORDS3)
    found = heaviest(model, k=1)
    for label, row in zip(model.classes_, model.coef_, strict=True):
        assert found[label] == Weights([(NAMES[row.argmax()], row.max())], [(NAMES[row.argmin()], row.min())])


def test_one_against_one_is_the_mean_over_the_pairs_of_a_class():
    model = LinearSVC(multi_class="ovo").fit(FRAME, WORDS3)
    found = heaviest(model, k=4)
    first, second, third = model.coef_  # setosa-versicolor, setosa-virginica, versicolor-virginica
    for label, row in (("setosa", (first + second) / 2), ("versicolor", (third - first) / 2)):
        assert dict([*found[label].for_, *found[label].against]) == pytest.approx(
            dict(zip(NAMES, row.tolist(), strict=True)), rel=1e-12
        )
    theirs = SklearnSVC(kernel="linear").fit(FRAME, WORDS3)
    mine = heaviest(theirs, k=4)["virginica"]
    row = -(theirs.coef_[1] + theirs.coef_[2]) / 2
    assert dict([*mine.for_, *mine.against]) == pytest.approx(dict(zip(NAMES, row.tolist(), strict=True)), rel=1e-12)


def test_boundaries_have_their_names_and_shared_weights_stand_once():
    model = OrdinalSVC().fit(FRAME, Y3)
    found = heaviest(model)
    assert list(found) == model.boundaries_
    top = found[model.boundaries_[1]].for_[0]
    assert top == (NAMES[model.coef_[1].argmax()], model.coef_[1].max())
    shared = OrdinalSVC(strategy="shared").fit(FRAME, Y3)
    assert list(heaviest(shared)) == [HIGHER]
    scores = contributions(shared, X3[70]).scores
    assert list(scores) == shared.boundaries_ and len({score.intercept for score in scores.values()}) == 2


def test_weights_of_zero_are_left_out():
    model = LinearSVC().fit(np.column_stack([X2, np.zeros(len(X2))]), Y2)
    ((_, weights),) = heaviest(model, k=9).items()
    assert "feature 4" not in dict([*weights.for_, *weights.against])


def test_names_come_from_where_they_are_known():
    plain = LinearSVC().fit(X2, Y2)
    assert {name for weights in heaviest(plain).values() for name, _ in [*weights.for_, *weights.against]} == {
        f"feature {j}" for j in range(4)
    }
    given = heaviest(plain, names=list("abcd"))["virginica"]
    assert {name for name, _ in [*given.for_, *given.against]} == set("abcd")
    piped = make_pipeline(StandardScaler(), LinearSVC()).fit(pd.DataFrame(X2, columns=NAMES), Y2)
    assert {name for name, _ in [*heaviest(piped)["virginica"].for_, *heaviest(piped)["virginica"].against]} == set(
        NAMES
    )
    hashed = make_pipeline(HashingVectorizer(n_features=64), LinearSVC()).fit(TEXTS, SIDES)
    assert heaviest(hashed)["-"].against[0][0].startswith("feature ")
    assert contributions(hashed, "good fun").order[0].startswith("feature ")


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31 - 1), classes=st.integers(2, 4), way=st.sampled_from(["ovr", "ovo"]))
def test_permuted_columns_keep_their_names_and_weights(seed, classes, way):
    rng = np.random.default_rng(seed)
    model = LinearSVC(multi_class=way)
    rows = 1 if classes == 2 else classes if way == "ovr" else classes * (classes - 1) // 2
    model.classes_, model.intercept_ = np.arange(classes), rng.normal(size=rows)
    model.coef_, names = rng.normal(size=(rows, 6)), np.array(list("abcdef"))
    wanted = heaviest(model, k=3, names=names)
    order = rng.permutation(6)
    model.coef_ = model.coef_[:, order]
    assert heaviest(model, k=3, names=names[order]) == wanted


# --- contributions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        LinearSVC(),
        LinearSVCCV(Cs=3),
        SVC("linear", multi_class="ovr"),
        LogisticRegression(max_iter=1000),
        RidgeClassifier(),
        SGDClassifier(random_state=0),
        SklearnLinearSVC(fit_intercept=False),
        OneVsRestClassifier(LinearSVC()),
        GridSearchCV(LinearSVC(), {"C": [1, 2]}),
        GridSearchCV(make_pipeline(StandardScaler(), LinearSVC()), {"linearsvc__C": [1, 2]}),
    ],
    ids=str,
)
@pytest.mark.parametrize("classes", [2, 3])
def test_the_terms_and_the_intercept_sum_to_the_decision_function(model, classes):
    X, y = (X2, Y2) if classes == 2 else (X3, WORDS3)
    model.fit(X, y)
    scores = np.atleast_2d(model.decision_function(X).T).T
    for k in (0, 40, 77):
        found = contributions(model, X[k])
        assert found.prediction == model.predict(X[[k]])[0]
        assert len(found.scores) == scores.shape[1]
        for score, wanted in zip(found.scores.values(), scores[k], strict=True):
            assert score.score == pytest.approx(wanted, rel=1e-9, abs=1e-9)
            total = sum(term.contribution for term in score.terms) + score.intercept
            assert total == pytest.approx(score.score, rel=1e-12, abs=1e-12)
            sizes = [abs(term.contribution) for term in score.terms]
            assert sizes == sorted(sizes, reverse=True)


def test_scores_of_pairs_and_boundaries_are_those_of_the_parts():
    model = LinearSVC(multi_class="ovo").fit(X3, WORDS3)
    pairs = model.coef_ @ X3[3] + model.intercept_
    found = contributions(model, X3[3]).scores
    assert found["versicolor"].score == pytest.approx((pairs[2] - pairs[0]) / 2)
    ordinal = OrdinalSVC().fit(X3, Y3)
    wanted = ordinal.coef_ @ X3[60] + ordinal.intercept_
    scores = [score.score for score in contributions(ordinal, X3[60]).scores.values()]
    assert scores == pytest.approx(wanted.tolist())


def test_a_sample_may_be_an_array_a_sparse_row_or_a_row_of_a_frame():
    model = LinearSVC().fit(FRAME, WORDS3)
    wanted = contributions(model, X3[7])
    for sample in (X3[[7]], list(X3[7]), FRAME.iloc[7], FRAME.iloc[[7]], sp.csr_array(X3[[7]])):
        assert contributions(model, sample) == wanted
    assert str(wanted.scores["setosa"].terms[0].name) in NAMES


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 3), st.floats(1e-3, 1e3), st.integers(0, 149))
def test_a_scaled_column_contributes_what_it_did(place, factor, row):
    """Weights of a column in other units are as much smaller as its values are larger."""
    model = LinearSVC().fit(X3, WORDS3)
    before = contributions(model, X3[row])
    units = np.ones(4)
    units[place] = factor
    model.coef_ = model.coef_ / units
    after = contributions(model, X3[row] * units)
    for label, score in before.scores.items():
        wanted = {term.name: term.contribution for term in score.terms}
        assert {t.name: t.contribution for t in after.scores[label].terms} == pytest.approx(wanted, rel=1e-12)
        assert after.scores[label].score == pytest.approx(score.score, rel=1e-9, abs=1e-12)


def test_words_come_in_the_order_of_the_text():
    model = reader(ngram_range=(1, 2))
    text = "Not a VERY good film, not dull"
    found = contributions(model, text)
    assert found.order == [
        "not",
        "not a",
        "a",
        "a very",
        "very",
        "very good",
        "good",
        "good film",
        "film",
        *["not dull", "dull"],
    ]
    assert found.scores["-"].score == pytest.approx(model.decision_function([text])[0], rel=1e-9)
    assert found.scores["-"].opposite == "+" and found.prediction == model.predict([text])[0]


def test_words_of_unions_and_letters_come_in_order_too():
    union = FeatureUnion(
        [("w", CountVectorizer(token_pattern=r"\w+")), ("c", CountVectorizer(analyzer="char", ngram_range=(2, 2)))]
    )
    model = make_pipeline(union, LinearSVC()).fit(TEXTS, SIDES)
    order = contributions(model, "good fun").order
    assert order[0] == "w__good" and [name for name in order if name.startswith("c__")][:3] == [
        "c__go",
        "c__oo",
        "c__od",
    ]
    unnamed = make_pipeline(make_union(TfidfVectorizer()), LinearSVC()).fit(TEXTS, SIDES)
    assert len(contributions(unnamed, "good fun").order) == 2


def test_a_text_of_unknown_words_has_the_intercept_alone():
    found = contributions(reader(), "zzz")
    ((_, score),) = found.scores.items()
    assert found.order == [] and score.terms == [] and score.score == score.intercept
    assert "(intercept)" in str(found)


def test_the_table_adds_up_and_sums_up_the_rest():
    model = reader(ngram_range=(1, 2))
    found = contributions(model, "not a very good film, not dull")
    header, lines = found.table(3)
    assert header == ["", "-"] and [line[0] for line in lines[3:]] == ["(8 others)", "(intercept)", "score"]
    values = [float(line[1]) for line in lines]
    assert sum(values[:-1]) == pytest.approx(values[-1], abs=3e-3)
    assert [line[0] for line in lines[:3]] == [name for name in found.order if name in {line[0] for line in lines[:3]}]
    assert str(found).splitlines()[-1] == f"prediction: {found.prediction}"


def test_features_of_one_name_count_together():
    score = Score([Term("a", 1.0, 2.0), Term("a", 1.0, 1.0), Term("b", 1.0, -0.5)], 0.25, 2.75)
    found = Contributions("x", {3.0: score}, ["a", "b"])
    assert found.added(3.0) == {"a": 3.0, "b": -0.5}
    assert found.table()[0] == ["", "3"] and found.table()[1][0] == ["a", "+3.000"]


# --- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ask", "error", "sentence"),
    [
        (lambda: heaviest(LinearSVC()), NotFittedError, "not fitted"),
        (lambda: heaviest(SVC().fit(X2, Y2)), ValueError, "SVC has the rbf kernel: its score is a sum over samples"),
        (lambda: heaviest(OrdinalSVC(SVC()).fit(X3, Y3)), ValueError, "OrdinalSVC has the rbf kernel"),
        (lambda: heaviest(SklearnSVC(kernel=lambda a, b: a @ b.T).fit(X2, Y2)), ValueError, "a kernel of its own"),
        (lambda: heaviest(DecisionTreeClassifier().fit(X2, Y2)), ValueError, "DecisionTreeClassifier has no coef_"),
        (lambda: heaviest(LinearRegression().fit(X2, X2[:, 0])), ValueError, "LinearRegression has no classes_"),
        (lambda: heaviest(LinearSVC().fit(X2, Y2), k=0), ValueError, "k must be 1 or more, got 0"),
        (lambda: heaviest(LinearSVC().fit(X2, Y2), names=["a"]), ValueError, "each of the 4 features, got 1"),
        (lambda: contributions(LinearSVC().fit(X2, Y2), "a text"), ValueError, "takes rows of numbers, not texts"),
        (lambda: contributions(LinearSVC().fit(X2, Y2), X2[:2]), ValueError, r"one sample, got .* \(2, 4\)"),
        (lambda: contributions(LinearSVC().fit(X2, Y2), X2[0, :3]), ValueError, "has 4 features, the sample has 3"),
        (lambda: contributions(LinearSVC().fit(X2, Y2), ["a", "b"]), ValueError, "rows of numbers; the sample has"),
    ],
)
def test_wrong_input_gets_one_sentence(ask, error, sentence):
    with pytest.raises(error, match=sentence) as caught:
        ask()
    assert "\n" not in str(caught.value)


# --- pictures ---------------------------------------------------------------------------------------------------------


def widths(bars):
    return [bar.get_width() for bar in bars]


def no_overlap(display):
    """Draw it, and see that no text lies over another."""
    display.figure_.canvas.draw()
    boxes = []
    for ax in display.ax_:
        low, high = ax.get_xlim()
        ticks = [text for text in ax.get_xticklabels() if low <= text.get_position()[0] <= high]
        shown = [ax.title, ax.xaxis.label, *ticks, *ax.get_yticklabels()]
        boxes += [t.get_window_extent() for t in shown if t.get_text() and t.get_visible()]
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            assert not (a.x0 < b.x1 - 1 and b.x0 < a.x1 - 1 and a.y0 < b.y1 - 1 and b.y0 < a.y1 - 1), (a, b)
    inside = display.figure_.bbox
    assert all(box.x0 >= -1 and box.x1 <= inside.x1 + 1 and box.y0 >= -1 and box.y1 <= inside.y1 + 1 for box in boxes)


def many(classes, long=""):
    rng = np.random.default_rng(0)
    model = LinearSVC()
    model.classes_, model.intercept_ = np.array([f"class {k}{long}" for k in range(classes)]), rng.normal(size=classes)
    model.coef_, model.n_features_in_ = rng.normal(size=(classes, 30)), 30
    if classes == 2:
        model.coef_, model.intercept_ = model.coef_[:1], model.intercept_[:1]
    return model, [f"name number {j}{long}" for j in range(30)]


@pytest.mark.parametrize("classes", [2, 3, 4, 5, 7])
@pytest.mark.parametrize("long", ["", " that goes on for ever and ever at $5 an hour, and a bit"])
def test_pictures_have_room_for_their_words(classes, long):
    model, names = many(classes, long)
    no_overlap(WeightsDisplay.from_estimator(model, names=names))
    no_overlap(ContributionsDisplay.from_estimator(model, np.ones(30), names=names))


def test_dollars_are_no_formulas():
    model, _ = many(2)
    names = [f"$\\frac{j}$" for j in range(30)]  # as a formula, a mistake
    no_overlap(WeightsDisplay.from_estimator(model, names=names))
    no_overlap(ContributionsDisplay.from_estimator(model, np.ones(30), names=names))


def test_the_weights_that_are_drawn_are_those_of_the_model():
    model, names = many(3)
    display = WeightsDisplay.from_estimator(model, k=4, names=names)
    wanted = heaviest(model, 4, names)
    for (label, weights), ax in zip(wanted.items(), display.ax_, strict=True):
        pairs = [*weights.for_, *weights.against[::-1]]
        assert widths(display.bars_[label]) == [weight for _, weight in pairs]
        assert [text.get_text() for text in ax.get_yticklabels()] == [name for name, _ in pairs]
        assert ax.get_title() == label
        colours = [matplotlib.colors.to_hex(bar.get_facecolor()).upper() for bar in display.bars_[label]]
        assert colours == [FOR] * 4 + [AGAINST] * 4
    two = WeightsDisplay.from_estimator(reader())
    assert two.ax_[0].get_title() == "+  ←    →  -"


def test_the_contributions_that_are_drawn_are_in_the_order_of_the_text():
    model = reader(ngram_range=(1, 2))
    text = "not a very good film, not dull"
    found = contributions(model, text)
    display = ContributionsDisplay.from_estimator(model, text, max_features=4)
    assert display.names_[:-1] == found.largest(4) and display.names_[-1] == "(7 others)"
    assert [label.get_text() for label in display.ax_[0].get_yticklabels()] == display.names_
    added = found.added("-")
    assert widths(display.bars_["-"])[:-1] == [added[name] for name in found.largest(4)]
    total = sum(widths(display.bars_["-"])) + found.scores["-"].intercept
    assert total == pytest.approx(found.scores["-"].score, abs=1e-12)
    top, bottom = display.ax_[0].get_ylim()[::-1]
    assert top < bottom  # the first word is at the top
    assert f"prediction: {found.prediction}" == display.figure_.get_suptitle()


def test_pictures_of_nothing_and_on_axes_of_ones_own():
    model = LinearSVC().fit(np.zeros((4, 2)), [0, 1, 0, 1])
    empty = WeightsDisplay.from_estimator(model)
    assert [text.get_text() for text in empty.ax_[0].texts] == ["all weights are 0"]
    no_overlap(empty)
    no_overlap(ContributionsDisplay.from_estimator(reader(), "zzz"))
    plt.close("all")
    model, names = many(3)
    axes = plt.subplots(2, 3, figsize=(14, 9), layout="constrained")[1]
    weights = WeightsDisplay.from_estimator(model, names=names, ax=axes[0])
    words = ContributionsDisplay.from_estimator(model, np.ones(30), names=names, ax=axes[1])
    assert list(weights.ax_) == list(axes[0]) and list(words.ax_) == list(axes[1]) and len(plt.get_fignums()) == 1
    no_overlap(weights)
    for draw in (
        WeightsDisplay.from_estimator,
        lambda m, **k: ContributionsDisplay.from_estimator(m, np.ones(30), **k),
    ):
        with pytest.raises(ValueError, match="3 matplotlib axes, one for each class, got 2"):
            draw(model, ax=axes[0, :2])
    with pytest.raises(ValueError, match="max_features must be 1 or more"):
        ContributionsDisplay.from_estimator(model, np.ones(30), max_features=0)
    with pytest.raises(ValueError, match="one class at least"):
        WeightsDisplay({})


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r'pip install "primalsvm\[plot\]"'):
        WeightsDisplay.from_estimator(reader())


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("explain")
    models = {
        "text": text_model().fit(TEXTS, SIDES),
        "frame": LinearSVC().fit(FRAME, WORDS3),
        "numbers": LinearSVC().fit(FRAME, Y3.to_numpy(dtype=float)),
        "rbf": SVC().fit(X2, Y2),
    }
    for name, model in models.items():
        save(model, folder / f"{name}.psvm")
    return folder, models


def test_the_command_prints_the_heaviest_features(saved):
    folder, models = saved
    output = done("explain", folder / "frame.psvm", "--top", "2").stdout
    for label, weights in heaviest(models["frame"], 2).items():
        assert f"for {label}" in output
        for name, weight in [*weights.for_, *weights.against]:
            assert name in output and f"{weight:+.2f}" in output
    report = json.loads(done("explain", folder / "text.psvm", "--json").stdout)
    wanted = heaviest(models["text"])["-"]
    assert report["weights"]["-"]["for"] == [{"name": name, "weight": weight} for name, weight in wanted.for_]
    assert report["weights"]["-"]["opposite"] == "+"
    assert "for +" in done("explain", folder / "text.psvm").stdout
    assert list(json.loads(done("explain", folder / "numbers.psvm", "--json").stdout)["weights"]) == ["0", "1", "2"]


def test_the_command_explains_phrases(saved):
    folder, models = saved
    phrases = ["not [bold]bad", "good fun", "zzz"]
    output = done("explain", folder / "text.psvm", *(word for text in phrases for word in ("--text", text))).stdout
    for text in phrases:
        found = contributions(models["text"], text)
        ((_, score),) = found.scores.items()
        assert text in output and f"{score.score:+.3f}" in output
        assert all(f"{term.contribution:+.3f}" in output for term in score.terms)
    assert output.count("prediction    ") == 3 and output.count("no word of it is known") == 1
    assert "- (+), + (-)" in output
    report = json.loads(done("explain", folder / "text.psvm", "--text", "good fun", "--json").stdout)
    (facts,) = report["texts"]
    found = contributions(models["text"], "good fun")
    assert facts["prediction"] == found.prediction and facts["scores"]["-"]["score"] == found.scores["-"].score
    assert [term["name"] for term in facts["scores"]["-"]["terms"]] == [t.name for t in found.scores["-"].terms]


def test_the_command_draws(saved, tmp_path):
    folder, _ = saved
    result = done("explain", folder / "text.psvm", "--picture", tmp_path / "w.png")
    assert (tmp_path / "w.png").stat().st_size > 5000 and "w.png" in result.stdout
    done("explain", folder / "text.psvm", "--text", "good fun", "--picture", tmp_path / "c.svg")
    assert b"prediction" in (tmp_path / "c.svg").read_bytes() or (tmp_path / "c.svg").stat().st_size > 5000


def test_the_command_explains_other_programs_models(tmp_path):
    (tmp_path / "liblinear.model").write_text(LIBLINEAR)
    assert "feature 0" in done("explain", tmp_path / "liblinear.model").stdout


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        ("rbf", [], "SVC has the rbf kernel"),
        ("frame", ["--text", "good"], "takes rows of numbers, not texts"),
        ("text", ["--top", "0"], "top must be 1 or more"),
        ("text", ["--text", "a", "--text", "b", "--picture", "p.png"], "draws one phrase"),
        ("text", ["--picture", "/nowhere/p.png"], "there is no folder"),
        ("nothing", [], "nothing.psvm"),
    ],
    ids=str,
)
def test_wrong_options_are_one_sentence(saved, model, options, words):
    assert words in refusal("explain", saved[0] / f"{model}.psvm", *options)
