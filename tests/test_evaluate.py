"""Repeated random rounds: what they measure, what they say, and what they refuse."""

import csv
import json
import math
import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier
from sklearn.metrics import f1_score
from sklearn.model_selection import GridSearchCV, GroupShuffleSplit, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC as SklearnSVC
from sklearn.svm import LinearSVC as SklearnLinearSVC
from sklearn.tree import DecisionTreeClassifier
from test_cli import done, refusal, run

from primalsvm import SVC, LinearSVC, LinearSVCCV, OrdinalSVC, certify, evaluate, text_model
from primalsvm.evaluation import MAJORITY, Evaluation, Spread

X, Y = load_iris(return_X_y=True)
CLOCKS = ("fit_seconds", "predict_seconds")
TREE = DecisionTreeClassifier(max_depth=2, random_state=0)


class Always(ClassifierMixin, BaseEstimator):
    """Names one class, and keeps what it was fitted on."""

    seen: list = []  # noqa: RUF012  (clones share it: that is what it is for)

    def __init__(self, answer=0):
        self.answer = answer

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        Always.seen.append((np.array(X), np.array(y)))
        return self

    def predict(self, X):
        return np.full(len(X), self.answer)


def figures(evaluation, *models):
    """Without the clock, of these models."""
    return [
        {name: value for name, value in row.items() if name not in CLOCKS}
        for row in evaluation.rows
        if not models or row["model"] in models
    ]


# --- what is measured -------------------------------------------------------------------------------------------------


def test_the_figures_are_those_of_fits_made_by_hand():
    model = make_pipeline(StandardScaler(), LinearSVC())
    result = evaluate({"ours": model}, X, Y, rounds=4, test_size=0.2, random_state=3)
    assert not hasattr(model[-1], "coef_")  # clones were fitted
    rounds = ShuffleSplit(4, test_size=0.2, random_state=3).split(X)
    rows = [row for row in result.rows if row["model"] == "ours"]
    assert len(rows) == 4
    for k, (row, (train, test)) in enumerate(zip(rows, rounds, strict=True)):
        found = model.fit(X[train], Y[train]).predict(X[test])
        assert (row["round"], row["train_rows"], row["test_rows"]) == (k + 1, 120, 30)
        assert row["accuracy"] == np.mean(found == Y[test])
        assert row["macro_f1"] == f1_score(Y[test], found, average="macro")
        assert row["mean_absolute_error"] == np.mean(np.abs(found - Y[test]))
        assert row["relative_gap"] == max(part.relative_gap for part in model[-1].certificate_.parts)
        assert row["fit_seconds"] > 0 and row["predict_seconds"] > 0


def test_summary_is_mean_deviation_and_count():
    result = evaluate(TREE, X, Y, rounds=5)
    values = result.values("DecisionTreeClassifier", "accuracy")
    assert result.summary()["DecisionTreeClassifier"]["accuracy"] == pytest.approx(
        (values.mean(), values.std(ddof=1), 5), rel=1e-12
    )
    one = evaluate(TREE, X, Y, rounds=1).summary()["DecisionTreeClassifier"]["accuracy"]
    assert one.n == 1 and math.isnan(one.deviation)


def test_the_majority_class_is_always_there():
    y = np.where(Y == 0, "few", "many")
    result = evaluate(TREE, X, y, rounds=3)
    assert result.models == ["DecisionTreeClassifier", MAJORITY]
    rounds = ShuffleSplit(3, test_size=0.1, random_state=0).split(X)
    assert result.values(MAJORITY, "accuracy").tolist() == [np.mean(y[test] == "many") for _, test in rounds]
    assert np.isnan(result.values(MAJORITY, "relative_gap")).all()


@pytest.mark.parametrize(
    ("model", "judged"),
    [
        (LinearSVC(multi_class="ovo"), True),
        (SVC(), True),
        (LinearSVCCV(Cs=3), True),
        (OrdinalSVC(), True),
        (make_pipeline(StandardScaler(), SklearnLinearSVC()), True),
        (make_pipeline(StandardScaler(), SGDClassifier(random_state=0)), True),
        (SklearnSVC(), True),
        (GridSearchCV(make_pipeline(StandardScaler(), SklearnSVC()), {"svc__C": [1, 2]}), True),
        (GridSearchCV(LinearSVC(), {"C": [1, 2]}), True),
        (make_pipeline(StandardScaler(), GridSearchCV(LinearSVC(), {"C": [1, 2]})), True),
        (SklearnLinearSVC(multi_class="crammer_singer", max_iter=10**6), False),
        (LogisticRegression(max_iter=1000), False),
        (TREE, False),
    ],
    ids=str,
)
def test_gaps_are_proven_where_they_can_be(model, judged):
    gaps = evaluate({"it": model}, X, Y, rounds=2).values("it", "relative_gap")
    assert ((gaps >= 0) & (gaps <= 1)).all() if judged else np.isnan(gaps).all()


def test_a_foreign_model_is_judged_on_the_rows_that_it_saw():
    scale, theirs = StandardScaler(), SklearnLinearSVC(random_state=0)
    (gap,) = evaluate({"it": make_pipeline(scale, theirs)}, X, Y, rounds=1).values("it", "relative_gap")
    ((train, _),) = ShuffleSplit(1, test_size=0.1, random_state=0).split(X)
    rows = scale.fit_transform(X[train])
    proof = certify(theirs.fit(rows, Y[train]), rows, Y[train])
    assert gap == pytest.approx(max(part.relative_gap for part in proof.parts), rel=1e-9)


class Plain:
    """Of scikit-learn's manner, and not of its classes."""

    def get_params(self, deep=True):
        return {}

    def fit(self, X, y):
        self.answer = y[0]

    def predict(self, X):
        return np.full(len(X), self.answer)


def test_a_model_need_not_be_of_scikit_learns_classes():
    assert evaluate({"it": Plain()}, X, Y, rounds=2).rounds == 2


def test_groups_stay_together():
    groups = np.array([f"sentence {k // 3}" for k in range(len(X))], dtype=object)
    Always.seen.clear()
    result = evaluate({"it": Always()}, np.arange(len(X))[:, None], Y, rounds=6, groups=groups)
    assert len(Always.seen) >= 6
    for rows, _ in Always.seen:
        inside, outside = rows[:, 0], np.setdiff1d(np.arange(len(X)), rows[:, 0])
        assert not set(groups[inside]) & set(groups[outside])
    assert {row["test_rows"] for row in result.rows} == {15}


# --- ordered labels ---------------------------------------------------------------------------------------------------


def test_a_search_inside_a_round_is_told_the_groups_of_its_rows():
    """Three copies of each row: a search that holds out one of them would believe in neighbours."""
    rng = np.random.default_rng(0)
    X, y = np.repeat(rng.normal(size=(60, 5)), 3, axis=0), np.repeat(rng.integers(0, 2, 60), 3)
    groups = np.arange(180) // 3
    seen = []

    class Split(GroupShuffleSplit):
        def split(self, X, y=None, groups=None):
            for train, test in super().split(X, y, groups):
                seen.append((len(X), set(groups[train]) & set(groups[test])))
                yield train, test

    search = GridSearchCV(DecisionTreeClassifier(), {"max_depth": [1, 3]}, cv=Split(1, random_state=0))
    evaluate({"search": search, "plain": LinearSVC()}, X, y, rounds=2, groups=groups)
    assert seen and all(rows == 162 and not shared for rows, shared in seen)


def test_the_absolute_error_is_of_values_or_of_places():
    y = np.array([1, 2, 10])[Y]
    result = evaluate({"it": Always(1)}, X, y, rounds=2)
    tests = [test for _, test in ShuffleSplit(2, test_size=0.1, random_state=0).split(X)]
    assert result.values("it", "mean_absolute_error").tolist() == [np.mean(y[test] - 1) for test in tests]
    places = evaluate({"it": Always(1)}, X, y, rounds=2, ordered=[10, 1, 2])
    wanted = [np.mean(np.abs(np.array([1, 2, 0])[Y[test]] - 1)) for test in tests]
    assert places.values("it", "mean_absolute_error").tolist() == wanted


def test_pandas_knows_the_order_of_its_categories():
    words = pd.Series(np.array(["low", "middle", "high"])[Y]).astype(
        pd.CategoricalDtype(["low", "middle", "high"], ordered=True)
    )
    model = OrdinalSVC()
    result = evaluate({"it": model}, X, words, rounds=2)
    numbers = evaluate({"it": model}, X, Y, rounds=2)
    assert np.array_equal(result.values("it", "mean_absolute_error"), numbers.values("it", "mean_absolute_error"))


def test_two_classes_and_words_have_no_absolute_error():
    words = np.array(["a", "b", "c"])[Y]
    for y, ordered in ((Y > 0, None), (1 * (Y > 0), None), (words, None), (Y, False)):
        assert "mean_absolute_error" not in evaluate(TREE, X, y, rounds=1, ordered=ordered).measures
    assert "mean_absolute_error" in evaluate(TREE, X, 1 * (Y > 0), rounds=1, ordered=True).measures


# --- what must not change the figures ---------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**31 - 1), rounds=st.integers(1, 5), test_size=st.floats(0.05, 0.6))
def test_the_same_seed_gives_the_same_rounds_and_a_model_does_not_change_others(seed, rounds, test_size):
    facts = {"rounds": rounds, "test_size": test_size, "random_state": seed}
    alone = evaluate({"tree": TREE}, X, Y, **facts)
    again = evaluate({"tree": TREE}, X, Y, **facts)
    beside = evaluate({"first": Always(), "tree": TREE, "last": Always(1)}, X, Y, **facts)
    # compared as text: nan is nan
    assert str(figures(alone)) == str(figures(again)) == str(figures(beside, "tree", MAJORITY))


def test_kinds_of_rows_do_not_matter():
    dense = np.where(X > 3, X, 0.0)
    wanted = evaluate({"it": LinearSVC()}, dense, Y, rounds=2).values("it", "accuracy").tolist()
    for rows in (sp.csr_matrix(dense), sp.csr_array(dense), pd.DataFrame(dense), dense.tolist()):
        assert evaluate({"it": LinearSVC()}, rows, list(Y), rounds=2).values("it", "accuracy").tolist() == wanted


def test_texts_are_vectorized_inside_each_round():
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat(["bad", "good"], 40))
    texts = [f"{word} film number{k}" for k, word in enumerate(y)]
    model = make_pipeline(TfidfVectorizer(), LinearSVC())
    for rows in (texts, np.array(texts), pd.Series(texts, index=np.arange(80)[::-1])):
        result = evaluate({"words": model}, rows, y, rounds=3)
        assert result.values("words", "accuracy").tolist() == [1.0, 1.0, 1.0]
        assert (result.values("words", "relative_gap") <= 1e-3).all()


def test_the_order_of_the_models_rotates():
    calls = []
    evaluate({"a": Always(), "b": Always()}, X, Y, rounds=4, callback=lambda *call: calls.append(call))
    assert [call[2] for call in calls] == [
        "a",
        "b",
        MAJORITY,
        "b",
        MAJORITY,
        "a",
        MAJORITY,
        "a",
        "b",
        "a",
        "b",
        MAJORITY,
    ]
    assert [call[:2] for call in calls] == [(k, 12) for k in range(1, 13)]


def test_a_short_first_fit_is_made_twice_and_a_long_one_is_not(monkeypatch):
    for limit, fits in ((20.0, 4), (0.0, 3)):
        monkeypatch.setattr("primalsvm.evaluation.FIRST_FIT_AGAIN", limit)
        Always.seen.clear()
        evaluate({"it": Always()}, X, Y, rounds=3)
        assert len(Always.seen) == fits


# --- differences ------------------------------------------------------------------------------------------------------


def made_up(**accuracies):
    """An evaluation with these accuracies, 90 rows to train on and 10 to test."""
    facts = {"train_rows": 90, "test_rows": 10, "fit_seconds": 1.0}
    return Evaluation(
        [
            {"round": k + 1, "model": name, "accuracy": values[k], **facts}
            for k in range(len(next(iter(accuracies.values()))))
            for name, values in accuracies.items()
        ]
    )


def test_the_error_of_a_difference_is_nadeaus_and_bengios():
    result = made_up(a=[0.9, 0.8, 0.7], b=[0.8, 0.8, 0.8], c=[0.5, 0.5, 0.2])
    assert result.best() == "a"
    found = result.compare(to="a")["c"]
    difference = np.array([-0.4, -0.3, -0.5])
    assert found.mean == pytest.approx(-0.4)
    assert found.error == pytest.approx(difference.std(ddof=1) * math.sqrt(1 / 3 + 10 / 90))
    assert found.error > difference.std(ddof=1) / math.sqrt(3)
    assert list(result.compare()) == ["b", "c"] and result.compare()["b"].mean == pytest.approx(0.0)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=8))
def test_differences_turn_their_sign_with_the_models(pairs):
    a, b = zip(*pairs, strict=True)
    result = made_up(a=a, b=b)
    there, back = result.compare(to="a")["b"], result.compare(to="b")["a"]
    assert there.mean == pytest.approx(-back.mean, abs=1e-12) and there.error == pytest.approx(back.error, abs=1e-12)


def test_the_best_is_the_largest_or_the_smallest():
    result = evaluate({"tree": TREE, "it": Always()}, X, Y, rounds=2)
    assert result.best() == result.best("macro_f1") == result.best("mean_absolute_error") == "tree"
    slow = Evaluation([{**row, "fit_seconds": 9.0 if row["model"] == "tree" else 1.0} for row in result.rows])
    assert slow.best("fit_seconds") == "it"


# --- what is printed and written --------------------------------------------------------------------------------------


def test_the_table_says_it_in_words():
    result = evaluate({"ours": LinearSVC(), "tree": TREE}, X, Y, rounds=3)
    lines = str(result).splitlines()
    assert len({len(line) for line in lines[:4]}) == 1
    assert "accuracy %" in lines[0] and "abs. error" in lines[0] and lines[1].startswith("ours")
    mean, deviation, _ = result.summary()["tree"]["accuracy"]
    assert f"{100 * mean:.2f} ± {100 * deviation:.2f}" in lines[2] and lines[2].endswith(" -")
    assert lines[4].startswith("3 rounds: mean ± standard deviation")
    assert str(lines).count("best") == 3  # the header, the model, the note
    single = str(evaluate(TREE, X, Y, rounds=1))
    assert "±" not in single and "1 round:" in single and "nan" not in single


def test_files_have_every_round_and_the_summary(tmp_path):
    result = evaluate({"a, b": LinearSVC(), "tree": TREE}, X, Y, rounds=3)
    result.to_csv(tmp_path / "rounds.csv")
    with open(tmp_path / "rounds.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 9 and list(rows[0]) == list(result.rows[0])
    for row, wanted in zip(rows, result.rows, strict=True):
        assert float(row["accuracy"]) == wanted["accuracy"] and row["model"] == wanted["model"]
        assert (row["relative_gap"] == "") == math.isnan(wanted["relative_gap"])
    result.summary_to_csv(tmp_path / "summary.csv")
    table = pd.read_csv(tmp_path / "summary.csv", index_col="model")
    for model, summary in result.summary().items():
        assert table.loc[model, "rounds"] == 3
        for measure, (mean, deviation, n) in summary.items():
            found = Spread(table.loc[model, f"{measure}_mean"], table.loc[model, f"{measure}_deviation"], n)
            assert found == pytest.approx((mean, deviation, n), nan_ok=True)


# --- Ctrl-C and what goes wrong ---------------------------------------------------------------------------------------


class Interrupting(Always):
    fits = 0

    def fit(self, X, y):
        Interrupting.fits += 1
        if Interrupting.fits == 4:  # the first fit is made twice: the third round
            raise KeyboardInterrupt
        return super().fit(X, y)


def test_control_c_keeps_the_finished_rounds():
    Interrupting.fits = 0
    result = evaluate({"it": Interrupting(), "tree": TREE}, X, Y, rounds=9)
    assert result.interrupted and result.rounds == 2 and "ended by Ctrl-C" in str(result)
    whole = evaluate({"it": Always(), "tree": TREE}, X, Y, rounds=2)
    assert str(figures(result)) == str(figures(whole)) and not whole.interrupted
    Interrupting.fits = 2
    with pytest.raises(KeyboardInterrupt):
        evaluate(Interrupting(), X, Y, rounds=9)


class Failing(Always):
    def fit(self, X, y):
        raise ValueError("out of luck")


def test_a_failing_fit_is_not_hidden():
    with pytest.raises(ValueError, match="out of luck") as caught:
        evaluate({"it": Failing()}, X, Y)
    assert caught.value.__notes__ == ["(the model 'it' in round 1)"]


@pytest.mark.parametrize(
    ("facts", "error", "sentence"),
    [
        ({"rounds": 0}, ValueError, "rounds must be 1 or more, got 0"),
        ({"rounds": 2.5}, ValueError, "rounds must be 1 or more, got 2.5"),
        ({"test_size": 0.0}, ValueError, "share between 0 and 1, got 0.0"),
        ({"test_size": 1.0}, ValueError, "share between 0 and 1"),
        ({"test_size": 30}, ValueError, "share between 0 and 1, got 30"),
        ({"test_size": math.nan}, ValueError, "share between 0 and 1, got nan"),
        ({"y": np.zeros(150)}, ValueError, "one class only, 0.0"),
        ({"y": Y[1:]}, ValueError, r"each of the 150 rows, got shape \(149,\)"),
        ({"y": X[:, 0]}, ValueError, "continuous"),
        ({"groups": Y[1:]}, ValueError, r"groups must have one entry for each of the 150 rows, got shape \(149,\)"),
        ({"groups": np.ones(150)}, ValueError, "one group only"),
        ({"groups": Y > 0}, ValueError, "round 1 would train on rows of one class only, 0"),
        ({"y": np.array(["a", "b", "c"])[Y], "ordered": True}, ValueError, "numbers; of others"),
        ({"ordered": [0, 1]}, ValueError, "every class from low to high; 2 is missing"),
        ({"models": {}}, ValueError, "models is empty"),
        ({"models": {MAJORITY: TREE}}, ValueError, "always there"),
        ({"models": LinearSVC}, TypeError, "is the class LinearSVC"),
        ({"models": {"it": StandardScaler()}}, TypeError, "fit, predict and get_params; 'it' is StandardScaler"),
        ({"models": Ridge()}, TypeError, "'Ridge' is a regressor"),
        ({"random_state": "today"}, ValueError, "today"),
    ],
    ids=str,
)
def test_wrong_input_gets_one_sentence(facts, error, sentence):
    given = {"models": TREE, "X": X, "y": Y} | facts
    with pytest.raises(error, match=sentence) as caught:
        evaluate(**given)
    assert "\n" not in str(caught.value)


def test_pieces_are_refused():
    from primalsvm import as_chunks

    with pytest.raises(ValueError, match="in memory"):
        evaluate(LinearSVC(), as_chunks(X, Y), Y)


def test_a_class_that_training_lacks_is_said_before_the_first_fit():
    y = np.where(np.arange(150) == 7, "rare", np.where(Y == 0, "a", "b"))
    with pytest.warns(UserWarning, match=r"of 20 rounds train without a row of some class \('rare' in round \d+\)"):
        result = evaluate(TREE, X, y, rounds=20, test_size=0.3)
    assert result.rounds == 20


def test_wrong_names_list_the_right_ones():
    result = evaluate(TREE, X, Y, rounds=1)
    with pytest.raises(ValueError, match=r"one of accuracy, macro_f1, mean_absolute_error, .* got 'speed'"):
        result.best("speed")
    with pytest.raises(ValueError, match="no model 'oak'; there are DecisionTreeClassifier, majority class"):
        result.compare(to="oak")


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Numbers with a column of groups, and texts with one."""
    folder = tmp_path_factory.mktemp("evaluate")
    groups = np.arange(150) % 30
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"]).assign(person=groups, kind=Y)
    frame.to_csv(folder / "rows.csv", index=False)
    rng = np.random.default_rng(0)
    words = np.array([["dull", "mess"], ["fine", "decent"], ["superb", "moving"]])
    texts = [f"the {words[k, rng.integers(2)]} film of {rng.choice(['may', 'june'])}" for k in Y]
    pd.DataFrame({"sentence": [f"s{g}" for g in groups], "phrase": texts, "stars": Y}).to_csv(
        folder / "texts.tsv", sep="\t", index=False
    )
    return folder, texts, groups


def test_the_command_says_what_the_function_does(files, tmp_path):
    folder, _, groups = files
    options = [
        "--label",
        "kind",
        "--groups",
        "person",
        "--rounds",
        "3",
        "--test-size",
        "0.2",
        "--seed",
        "5",
        "--C",
        "2",
    ]
    names = "linear,linear-ovo,ordinal,rbf,sklearn-linear,sklearn-rbf,sklearn-sgd"
    result = done("evaluate", folder / "rows.csv", *options, "--models", names, "--csv", tmp_path / "r.csv", "--json")
    report = json.loads(result.stdout)
    facts = {"rounds": 3, "test_size": 0.2, "groups": groups, "random_state": 5}
    wanted = evaluate({"linear": LinearSVC(C=2), "linear-ovo": LinearSVC(C=2, multi_class="ovo")}, X, Y, **facts)
    for model in wanted.models:
        for measure in ("accuracy", "macro_f1", "mean_absolute_error"):
            mean, deviation, n = wanted.summary()[model][measure]
            assert report["models"][model][measure] == pytest.approx({"mean": mean, "deviation": deviation, "n": n})
    assert list(report["models"]) == [*names.split(","), MAJORITY] and report["groups"] == 30
    assert report["models"][MAJORITY]["relative_gap"]["mean"] is None and report["rounds"] == 3
    for model in names.split(","):
        assert 0 <= report["models"][model]["relative_gap"]["mean"] <= 1
    assert len(report["table"]) == 24 and not report["interrupted"]
    assert len((tmp_path / "r.csv").read_text().splitlines()) == 25


def test_the_command_takes_texts_and_fits_the_words_in_each_round(files):
    folder, texts, groups = files
    options = ["--text", "phrase", "--label", "stars", "--groups", "sentence", "--rounds", "2", "--ngrams", "2"]
    report = json.loads(done("evaluate", folder / "texts.tsv", *options, "--models", "linear", "--json").stdout)
    model = text_model(LinearSVC(), ngrams=2)
    wanted = evaluate({"linear": model}, texts, Y, rounds=2, groups=groups).summary()
    found = report["models"]["linear"]["accuracy"]["mean"]
    assert found == pytest.approx(wanted["linear"]["accuracy"].mean) and found > 0.9
    assert report["groups"] == 30


@pytest.mark.parametrize("width", ["60", "80", "200"])
def test_the_printed_table_has_every_figure(files, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", width)
    output = done("evaluate", files[0] / "rows.csv", "--label", "kind", "--rounds", "2", "--models", "linear").stdout
    result = evaluate({"linear": LinearSVC()}, np.column_stack([X, files[2]]), Y, rounds=2)
    for model, measures in result.summary().items():
        for measure in ("accuracy", "macro_f1", "mean_absolute_error"):
            scale, form = (1, ".3f") if measure == "mean_absolute_error" else (100, ".2f")
            assert f"{scale * measures[measure].mean:{form}}" in output, (model, measure)
    assert "2 rounds: mean ± standard deviation" in output
    assert "…" not in output or width == "60"
    assert (f"{100 * result.summary()['linear']['accuracy'].mean:.2f} ±" in output) == (width == "200")
    assert "classes       3: 0 (50), 1 (50), 2 (50)" in output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--models", "linear,forest"], "models must be some of linear, .* got 'forest'"),
        (["--rounds", "0"], "rounds must be 1 or more"),
        (["--test-size", "1.5"], "test_size must be a share"),
        (["--groups", "nobody"], "expected a column 'nobody' with the groups, found the columns a, b, c, d"),
        (["--csv", "/nowhere/r.csv"], "there is no folder"),
        (["--C", "-1"], "C must be"),
        (["--text", "phrase"], "phrase"),
    ],
    ids=str,
)
def test_wrong_options_are_one_sentence(files, options, words):
    assert re.search(words, refusal("evaluate", files[0] / "rows.csv", "--label", "kind", *options))


def test_a_column_of_groups_that_a_table_of_texts_lacks(files):
    options = ["--text", "phrase", "--label", "stars", "--groups", "nobody"]
    said = refusal("evaluate", files[0] / "texts.tsv", *options)
    assert "expected one column of groups 'nobody', found 0" in said and "--groups" in said and "label" not in said


def test_warnings_are_counted(tmp_path):
    pd.DataFrame(X).assign(kind=np.array(["low", "middle", "high"])[Y]).to_csv(tmp_path / "words.csv", index=False)
    options = ["--label", "kind", "--rounds", "2", "--models", "ordinal"]
    output = done("evaluate", tmp_path / "words.csv", *options).stdout
    assert re.search(r"warning +3 times: the classes are words and ", output)


def test_control_c_prints_the_finished_rounds_and_exits_with_130(files, monkeypatch, tmp_path):
    fit, calls = LinearSVC.fit, []

    def interrupted(self, *args):
        calls.append(self)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return fit(self, *args)

    monkeypatch.setattr(LinearSVC, "fit", interrupted)
    options = ["--label", "kind", "--models", "linear", "--rounds", "9", "--csv", tmp_path / "r.csv"]
    result = done("evaluate", files[0] / "rows.csv", *options, code=130)
    assert "2 rounds, ended by Ctrl-C: mean" in result.stdout
    assert len((tmp_path / "r.csv").read_text().splitlines()) == 5
    calls[:] = [None] * 3
    nothing = run("evaluate", files[0] / "rows.csv", *options)
    assert nothing.exit_code == 130 and nothing.stderr == "interrupted before there was anything to keep\n"
