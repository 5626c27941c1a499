"""Reports: what is in them, what cannot get out of them, and how they behave in a browser."""

import base64
import hashlib
import json
import re
import shlex
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from browser import Browser, needs_browser
from sklearn.datasets import dump_svmlight_file
from sklearn.metrics import confusion_matrix, f1_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from test_cli import done, refusal

import primalsvm.report.page as page_module
from primalsvm import SVC, SVCCV, Huber, LinearSVC, LinearSVCCV, OrdinalSVC, TunedSVC, text_model
from primalsvm.experiments.lab import Plot, Table, Verdict
from primalsvm.persistence import load, save
from primalsvm.report import About, Page, outcomes_report, race_report, training_report, tuning_report

HOSTILE = [
    "</script><script>hacked=1</script>",
    '"><img src=x onerror=hacked=1>',
    "a'b\"c & <b>d</b> %{x} &lt;",
    "plain",
]
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Outline(HTMLParser):
    """A page as a reader without eyes or mouse meets it. It must be well formed."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.text, self.heads = [], [], "", []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.heads.append([tag, ""])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.text += data
        if self.open and re.fullmatch("h[1-6]", self.open[-1]):
            self.heads[-1][1] += data

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


@pytest.fixture
def light(monkeypatch):
    """Without the charting library, which has 4.8 MB that a parser need not read."""
    monkeypatch.setattr(page_module, "library", lambda: "var Plotly;")


def blobs(classes=2, n=120, d=4, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % classes
    return rng.normal(size=(n, d)) + 1.2 * rng.normal(size=(classes, d))[labels], labels


def outline(path):
    return Outline(Path(path).read_text(encoding="utf-8"))


def numbers(path):
    """What the charts are given."""
    text = Path(path).read_text(encoding="utf-8")
    return [json.loads(data) for data in re.findall(r'<script type="application/json">(.*?)</script>', text, re.S)]


def contrast(one, other):
    def light_of(colour):
        parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return np.dot([0.2126, 0.7152, 0.0722], linear)

    low, high = sorted((light_of(one), light_of(other)))
    return (high + 0.05) / (low + 0.05)


# --- pages ------------------------------------------------------------------------------------------------------------


def whole_page():
    x = np.logspace(-3, 1, 20)
    curves = {name: (x, np.exp(-(k + 1) * x)) for k, name in enumerate(HOSTILE)}
    page = Page(HOSTILE[1], HOSTILE[0]).section(HOSTILE[0], HOSTILE[1]).facts({HOSTILE[2]: HOSTILE[1], "nothing": None})
    page.plot(
        Plot(HOSTILE[0], "seconds", HOSTILE[2], curves, log_x=True, log_y=True), Plot("b", "passes", "gap", curves)
    )
    page.table(Table(HOSTILE[1], HOSTILE[:2], [HOSTILE[:2], ["a", "-1.5e-3"]]), chosen=1)
    page.matrix(HOSTILE[0], HOSTILE[:2], np.array([[3, 1], [0, 4]]))
    page.section("inside", level=3).verdict(*(Verdict(HOSTILE[0], held, HOSTILE[1]) for held in (True, False, None)))
    return page.section("Again").code(HOSTILE[0]).text(HOSTILE[1], "warning")


def test_a_page_is_well_formed_and_in_order(light, tmp_path):
    found = outline(whole_page().write(tmp_path / "page.html"))
    levels = [int(tag[1]) for tag, _ in found.heads]
    assert levels[0] == 1 and levels.count(1) == 1 and all(b - a <= 1 for a, b in pairwise(levels))
    ids = [attrs["id"] for _, attrs in found.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    for _, attrs in found.tags:
        for name in ("aria-labelledby", "aria-describedby"):
            assert attrs.get(name, ids[0]) in ids
        assert attrs.get("href", "#content").removeprefix("#") in [*ids, "data:,"]
    assert all(attrs.get("scope") in ("row", "col") for attrs in found.all("th"))
    for landmark in ("header", "nav", "main", "footer", "figcaption", "caption"):
        assert found.all(landmark)
    assert found.all("html")[0]["lang"] == "en" and "width=device-width" in str(found.all("meta"))


def test_whatever_comes_from_data_is_escaped(light, tmp_path):
    path = whole_page().write(tmp_path / "page.html")
    found = outline(path)
    for text in HOSTILE:
        assert text in found.text
    assert not found.all("img") and not any(name.startswith("on") for _, attrs in found.tags for name in attrs)
    assert len(found.all("script")) == 3  # the numbers, the library, our own
    assert [key["name"] for key in numbers(path)[0][0]["keys"]] == HOSTILE


def test_the_policy_lets_nothing_out_and_only_our_scripts_run(light, tmp_path):
    path = whole_page().write(tmp_path / "page.html")
    policy = next(attrs["content"] for attrs in outline(path).all("meta") if "http-equiv" in attrs)
    assert policy.startswith("default-src 'none'; ") and "http" not in policy
    scripts = re.findall(r"<script>(.*?)</script>", path.read_text(encoding="utf-8"), re.S)
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert re.findall(r"'sha256-([^']+)'", policy) == digests


def test_the_file_is_small_and_a_page_without_charts_has_no_library(tmp_path):
    assert whole_page().write(tmp_path / "a.html").stat().st_size < 6_000_000
    assert Page("a").section("b", "c").write(tmp_path / "b.html").stat().st_size < 60_000


def test_a_missing_library_is_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "plotly.offline", None)
    with pytest.raises(ImportError, match=r"primalsvm\[report\]"):
        whole_page().write(tmp_path / "page.html")


def test_a_section_of_level_3_needs_one_of_level_2():
    with pytest.raises(ValueError, match="level 3"):
        Page("a").section("b", level=3)


def test_plots_leave_out_what_an_axis_cannot_show(light, tmp_path):
    x = np.array([0.0, 1.0, 2.0, np.nan, 4.0])
    y = np.array([1.0, -1.0, 3.0, 4.0, np.inf])
    page = Page("a").section("b").plot(Plot("c", "x", "y", {"d": (x, y)}, log_x=True, log_y=True))
    page.plot(Plot("e", "x", "y", {"d": (x, -np.abs(x))}, log_y=True)).plot(Plot("f", "x", "y", {}))
    (first,), (second,), (third,) = numbers(page.write(tmp_path / "page.html"))
    assert (first["curves"][0]["x"], first["curves"][0]["y"]) == ([2.0], [3.0])
    assert not second["y"]["log"] and len(second["curves"][0]["x"]) == 4 and third["curves"] == []


def test_many_points_are_thinned_with_their_ends(light, tmp_path):
    x = np.arange(50_000.0)
    page = Page("a").section("b").plot(Plot("c", "x", "y", {f"{k}": (x, x) for k in range(20)}))
    path = page.write(tmp_path / "page.html")
    curve = numbers(path)[0][0]["curves"][7]
    assert curve["x"][0] == 0 and curve["x"][-1] == 49_999 and len(curve["x"]) < 1000
    assert path.stat().st_size < 500_000


def test_colours_can_be_read_in_light_and_dark():
    style = (Path(page_module.__file__).parent / "page.css").read_text()
    blocks = re.findall(r"(:root[^{]*)\{([^}]*--paper[^}]*)\}", style)
    themes = [dict(re.findall(r"--(\w+): (#\w{6})", block)) for _, block in blocks]
    assert [name.strip() for name, _ in blocks][1:] == [':root[data-theme="dark"]', ':root:not([data-theme="light"])']
    assert themes[1] == themes[2] and set(themes[0]) == set(themes[1])
    for theme in themes:
        for ground in ("paper", "panel"):
            for ink in ("ink", "quiet", "accent", "good", "bad", "open"):
                assert contrast(theme[ink], theme[ground]) >= 4.5, (ink, ground)
        for line in [*(f"c{k}" for k in range(8)), "edge"]:
            assert contrast(theme[line], theme["paper"]) >= 3.0, line


# --- models -----------------------------------------------------------------------------------------------------------

MODELS = {
    "linear": (LinearSVC(loss="hinge"), 2),
    "one-vs-rest": (LinearSVC(class_weight="balanced"), 4),
    "one-vs-one": (LinearSVC(multi_class="ovo", loss=Huber(0.3)), 3),
    "rbf": (SVC(C=3.0), 3),
    "two with a kernel": (SVC("poly", degree=2), 2),
    "basis": (SVC(approximation="greedy", n_basis=10, loss="squared_hinge"), 2),
    "cumulative": (OrdinalSVC(LinearSVC()), 4),
    "adjacent": (OrdinalSVC(SVC(), strategy="adjacent"), 4),
    "shared": (OrdinalSVC(LinearSVC(loss="hinge"), strategy="shared"), 4),
    "many classes": (LinearSVC(), 25),
}
HEADS = ["In short", "What was trained on what", "The certificate", "Convergence", "Margins", "Support vectors"]
HEADS += ["Predictions"]


@pytest.mark.parametrize(("model", "classes"), MODELS.values(), ids=MODELS)
def test_every_kind_of_model_has_a_report(model, classes, light, tmp_path):
    X, y = blobs(classes, 50 * classes)
    cut = 30 * classes
    model = model.fit(X[:cut], y[:cut])
    path = training_report(model, X[:cut], y[:cut], tmp_path / "r.html", test=(X[cut:], y[cut:]))
    found, charts = outline(path), numbers(path)
    assert [text for tag, text in found.heads if tag == "h2"][:7] == HEADS
    assert f"{model.certificate_.primal:.9g}" in found.text and "Proven: the model's objective is at most" in found.text
    wrong = np.mean(model.predict(X[cut:]) != y[cut:])
    assert f"{wrong:.2%} of {len(y) - cut}" in found.text
    assert f"{f1_score(y[cut:], model.predict(X[cut:]), average='macro'):.4f}" in found.text
    assert [view["label"] for view in charts[0]][:2] == ["passes", "seconds"]
    linear = hasattr(model, "coef_") and not hasattr(model, "kernel_")
    assert ("Heaviest features" in found.text) == linear
    assert all(len(view["curves"]) for chart in charts for view in chart)
    assert len(found.all("figure")) == 3 + linear + (classes > 20)


def test_hundreds_of_binary_problems_stay_within_the_limit(tmp_path):
    """435 pairs, beside 4.8 MB that the library takes."""
    X, y = blobs(30, 150, 3)
    model = LinearSVC(multi_class="ovo").fit(X, y)
    path = training_report(model, X, y, tmp_path / "r.html", test=(X, y))
    assert path.stat().st_size < 5_200_000
    bounds, _, margins, confusions, _ = numbers(path)
    assert len(bounds[0]["keys"]) == len(margins[0]["keys"]) == 40
    counts = confusion_matrix(y, model.predict(X))
    assert confusions[0]["curves"][0]["counts"] == counts.tolist()


def test_the_figures_are_those_of_scikit_learn(light, tmp_path):
    X, y = blobs(3, 240)
    model = LinearSVC().fit(X[:120], y[:120])
    path = training_report(model, X[:120], y[:120], tmp_path / "r.html", test=(X[120:], y[120:]))
    cells = re.findall(r'<td class="number share"[^>]*>([\d,]+)</td>', path.read_text(encoding="utf-8"))
    assert list(map(int, cells)) == confusion_matrix(y[120:], model.predict(X[120:])).ravel().tolist()


def test_without_test_rows_the_figures_say_what_they_are_of(light, tmp_path):
    X, y = blobs()
    found = outline(training_report(LinearSVC().fit(X, y), X, y, tmp_path / "r.html"))
    assert "There were no test rows with labels" in found.text and "test rows, which" not in found.text


def test_support_vectors_and_those_at_the_bound_are_counted(light, tmp_path):
    """Against the margins: at the bound are those below 1, support vectors those at or below it."""
    X, y = blobs(2, 200)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 200)
    for model in (LinearSVC(loss="hinge", C=0.1, class_weight={0: 1, 1: 3}), SVC(C=0.3, tol=1e-6)):
        model.fit(X, y, weight)
        margins = np.where(y == 1, 1, -1) * model.decision_function(X)
        about = About(sample_weight=weight)
        found = outline(training_report(model, X, y, tmp_path / "r.html", about=about))
        support, bound = map(int, re.search(r"(\d+) of 200 rows hold .*? (\d+) of them are at", found.text).groups())
        assert np.sum(margins < 0.999) <= bound <= support <= np.sum(margins < 1.001)


def test_margins_are_those_of_the_rows(light, tmp_path):
    X, y = blobs(2, 300)
    model = LinearSVC(loss=Huber(0.5)).fit(X, y)
    path = training_report(model, X, y, tmp_path / "r.html")
    margins = np.where(y == 1, 1, -1) * model.decision_function(X)
    (view,) = numbers(path)[2]
    assert f"{np.mean(margins < 0):.1%} below 0, {np.mean(margins < 1.5):.1%} below 1.5" in outline(path).text
    assert [rule["at"] for rule in view["rules"]] == [0, 1.5] and [key["name"] for key in view["keys"]] == ["0", "1"]
    assert 97 <= sum(view["curves"][0]["y"]) <= 100.01  # the outermost thousandths are not drawn


def test_convergence_ends_at_the_certificate(light, tmp_path):
    X, y = blobs(2, 300)
    model = LinearSVC(solver="dual_coordinate_ascent", tol=1e-5).fit(X, y)
    bounds, gaps = numbers(training_report(model, X, y, tmp_path / "r.html"))[:2]
    for view in bounds:
        last = [curve["y"][-1] for curve in view["curves"]]
        assert last == pytest.approx([model.certificate_.primal, model.certificate_.dual], rel=1e-5)
    assert gaps[0]["curves"][0]["y"][-1] == pytest.approx(model.certificate_.relative_gap, rel=1e-5)
    assert gaps[0]["rules"] == [{"axis": "y", "at": 1e-5, "text": "tol = 1e-05"}]


def test_a_loaded_model_has_the_same_report(light, tmp_path):
    for name, (model, classes) in list(MODELS.items())[:6]:
        X, y = blobs(classes, 30 * classes)
        save(model.fit(X, y), tmp_path / "m.psvm")
        pages = []
        for one in (model, load(tmp_path / "m.psvm")):
            text = training_report(one, X, y, tmp_path / "r.html").read_text(encoding="utf-8")
            pages.append(re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "", text))
        assert pages[0] == pages[1], name


def test_pipelines_and_searches_take_what_they_predict(light, tmp_path):
    X, y = blobs(2, 100)
    scaled = make_pipeline(StandardScaler(), LinearSVC()).fit(X, y)
    assert (
        f"{np.mean(scaled.predict(X) != y):.2%} of 100"
        in outline(training_report(scaled, X, y, tmp_path / "r.html")).text
    )
    tuned = TunedSVC(cv=3).fit(X, y)
    path = training_report(tuned, X, y, tmp_path / "r.html")
    assert f"{np.mean(tuned.predict(X) != y):.2%} of 100" in outline(path).text
    texts = ["a fine <film>", "fine acting", "a dull film", "not fine"] * 5
    model = text_model().fit(texts, ["+", "+", "-", "-"] * 5)
    path = training_report(model, texts, ["+", "+", "-", "-"] * 5, tmp_path / "t.html", about=About(words=True))
    assert "Heaviest words" in outline(path).text
    assert "dull" in numbers(path)[-1][0]["curves"][0]["notes"]


def test_unknown_labels_count_as_errors_and_are_named(light, tmp_path):
    X, y = blobs(2, 100)
    model = LinearSVC().fit(X, y)
    other = np.where(np.arange(100) < 10, 7, y)
    found = outline(training_report(model, X, y, tmp_path / "r.html", test=(X, other)))
    assert "10 rows have labels that the model does not know (7)" in found.text
    assert f"{np.mean(model.predict(X) != other):.2%} of 100" in found.text


def test_a_bound_that_is_none_is_not_called_proven(light, tmp_path):
    X, y = blobs(2, 200)
    model = LinearSVC(loss="hinge", solver="subgradient", max_iter=1, C=1e6)
    with pytest.warns(match="certified relative gap"):
        model.fit(X, y)
    found = outline(training_report(model, X, y, tmp_path / "r.html", about=About(warnings=["it <ended> early"])))
    assert "it <ended> early" in found.text
    if model.certificate_.excess[1] > 100:
        assert "Proven" not in found.text


def test_only_models_of_ours_have_one(tmp_path):
    from sklearn.svm import LinearSVC as Theirs

    X, y = blobs()
    with pytest.raises(TypeError, match="models of primalsvm"):
        training_report(Theirs().fit(X, y), X, y, tmp_path / "r.html")


def test_searches_show_the_grid_and_the_choice(light, tmp_path):
    X, y = blobs(2, 120)
    for search in (SVCCV(Cs=3, gammas=2, cv=3), LinearSVCCV(Cs=4, cv="loo"), LinearSVCCV(Cs=3, cv=3, scoring="f1")):
        search.fit(X, y)
        path = tuning_report(search, X, y, tmp_path / "r.html", test=(X, y))
        found, text = outline(path), path.read_text(encoding="utf-8")
        assert [title for tag, title in found.heads if tag == "h2"][:2] == ["In short", "The search"]
        assert f"C = {search.best_params_['C']:.4g}" in found.text
        chosen = re.search(r'<tr class="chosen"><th scope="row">(.*?)</th>', text).group(1)
        assert chosen.startswith(f"C {search.best_params_['C']:.4g}")
        (view,) = numbers(path)[0]
        points = search.cv_results_["params"]
        assert sum(len(curve["x"]) for curve in view["curves"][:-1]) == len(points)
        assert view["curves"][-1]["x"] == pytest.approx([search.best_params_["C"]], rel=1e-5)


# --- experiments and races --------------------------------------------------------------------------------------------


def test_experiments_show_their_verdicts_tables_and_plots(light, tmp_path):
    result = {
        "name": "one",
        "title": HOSTILE[0],
        "text": "first\n\n    second",
        "seconds": 1.5,
        "scale": "toy",
        "threads": 2,
    }
    result["verdicts"] = [
        {"claim": HOSTILE[1], "held": held, "figures": "1 of 2"} for held in (True, False, None, True)
    ]
    result |= {"notes": [HOSTILE[2]], "tables": [{"title": "t", "header": ["a", "b"], "rows": [["c", "1"]]}]}
    plot = {"title": "p", "x": "n", "y": "s", "log_x": True, "log_y": False, "marks": False}
    result["plots"] = [plot | {"curves": {"k": [[1.0, 2.0, None], [None, 3.0, 4.0]]}}]
    path = outcomes_report([result, result], tmp_path / "r.html", command="primalsvm reproduce all")
    found = outline(path)
    assert "8 claims: 4 held, 2 refuted, 2 too small to tell." in found.text
    assert all(text in found.text for text in [*HOSTILE[:3], "first\n\n    second", "primalsvm reproduce all"])
    assert numbers(path)[1][0]["curves"][0]["x"] == [2.0]


def test_a_race_shows_who_won_and_who_did_not_run(light, tmp_path):
    class Race:
        recommendation, refused = "Take <newton>.", {"smo": "smo needs a kernel problem"}

        def table(self):
            return Table("Seconds", ["solver", "s to 1 %"], [["pegasos", "-"], ["newton", "0.02"]])

        def ranking(self):
            return ["newton"]

        def notes(self):
            return ["A fit had 1 s."]

        def plots(self):
            curves = {"newton": (np.array([1.0, 2.0]), np.array([0.1, 0.01]))}
            return [Plot(f"Gap against {x}", x, "distance", curves, True, True) for x in ("seconds", "passes")]

    path = race_report(Race(), tmp_path / "r.html", title="data.svm", facts={"rows": 3}, command="primalsvm compare")
    found = outline(path)
    assert "Take <newton>." in found.text and "smo needs" in found.text and found.heads[0] == ["h1", "data.svm"]
    assert '<tr class="chosen"><th scope="row">newton' in path.read_text(encoding="utf-8")
    assert [view["label"] for view in numbers(path)[0]] == ["seconds", "passes"]


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data & <more>")
    X, y = blobs(3, 150, seed=1)
    dump_svmlight_file(X[:100], y[:100], str(folder / "it's.svm"))
    dump_svmlight_file(sp.csr_array(np.c_[X[100:], np.ones(50)]), y[100:], str(folder / "test.svm"))
    return folder


def command_of(path):
    """The command that a report says does it again."""
    return re.search(r"primalsvm (train|tune) .*", outline(path).text).group(0)


def test_train_writes_a_report_whose_command_does_the_same(files, light, tmp_path):
    report = tmp_path / "a report.html"
    options = [
        "--kernel",
        "rbf",
        "--C",
        "3",
        "--test",
        files / "test.svm",
        "--report",
        report,
        "--class-weight",
        "balanced",
    ]
    said = json.loads(done("train", files / "it's.svm", *options, "--json").stdout)
    assert said["report"] == str(report)
    first = report.read_text(encoding="utf-8")
    found = outline(report)
    assert found.heads[0] == ["h1", "it's.svm"] and f"{said['test_error']:.2%} of 50" in found.text
    words = shlex.split(command_of(report))
    assert words[:3] == ["primalsvm", "train", str(files / "it's.svm")] and words[-1] == "--json"
    report.unlink()
    done(*words[1:])
    again = report.read_text(encoding="utf-8")
    pattern = r"\d{4}-\d\d-\d\d.*?UTC|<dt>seconds.*?</dd>"
    charts = r'<script type="application/json">.*?</script>|<figcaption.*?</figcaption>'  # they have seconds too
    assert re.sub(f"{pattern}|{charts}", "", again, flags=re.S) == re.sub(f"{pattern}|{charts}", "", first, flags=re.S)


def test_tune_writes_a_report(files, light, tmp_path):
    report = tmp_path / "r.html"
    done("tune", files / "it's.svm", "--C", "2", "--folds", "3", "--report", report, "--quiet")
    assert "The search" in outline(report).text and command_of(report).endswith("--quiet")


def test_reports_of_text_name_words(light, tmp_path):
    lines = [f"{text}\t{label}" for text, label in [("a fine film", "good"), ("dull <plot>", "bad")] * 10]
    (tmp_path / "r.tsv").write_text("\n".join(["Phrase\tMood", *lines]))
    for more in ([], ["--ordinal", "cumulative", "--order", "bad,good"]):
        done("train", tmp_path / "r.tsv", "--text", "Phrase", "--label", "Mood", "--report", tmp_path / "r.html", *more)
        assert "Heaviest words" in outline(tmp_path / "r.html").text
        assert {"fine", "dull", "plot"} <= set(numbers(tmp_path / "r.html")[-1][0]["curves"][0]["notes"])


def test_reproduce_writes_a_report(light, tmp_path):
    report = tmp_path / "r.html"
    done("reproduce", "seed000_fig1", "--scale", "toy", "--output", tmp_path / "out", "--report", report)
    found = outline(report)
    assert "Chapelle (2007), Fig. 1" in found.text and "primalsvm reproduce seed000_fig1 --scale toy" in found.text
    assert len(found.all("figure")) >= 2


def test_compare_writes_a_report(files, light, tmp_path):
    report = tmp_path / "r.html"
    options = ["--solvers", "newton,smo", "--seconds", "2", "--report", report, "--json"]
    said = json.loads(done("compare", files / "it's.svm", *options).stdout)
    found = outline(report)
    assert said["report"] == str(report) and said["recommendation"] in found.text and found.heads[0][1] == "it's.svm"
    assert "--solvers newton,smo" in found.text and "smo needs a kernel" in found.text


def test_what_cannot_be_written_is_said_before_the_work(files, monkeypatch, tmp_path):
    assert "there is no folder" in refusal("train", files / "it's.svm", "--report", tmp_path / "no" / "r.html")
    assert "input too" in refusal("train", files / "test.svm", "--report", files / "test.svm")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "primalsvm[report]" in refusal("tune", files / "it's.svm", "--report", tmp_path / "r.html")


# --- in a browser -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile_report(tmp_path_factory):
    """A report of three classes and four features whose names attack it."""
    X, y = blobs(3, 150)
    y = np.array(HOSTILE)[y]
    model = LinearSVC(solver="dual_coordinate_ascent").fit(X[:100], y[:100])
    path = tmp_path_factory.mktemp("report") / "report.html"
    about = About(data="<i>data</i>.svm", command="primalsvm train '<i>data</i>.svm'")
    return training_report(model, X[:100], y[:100], path, test=(X[100:], y[100:]), names=HOSTILE, about=about)


@pytest.fixture(scope="module")
def browser():
    with Browser() as browser:
        yield browser


def opened(browser, path, **window):
    page = browser.open(path, **window)
    page.wait("document.documentElement.dataset.drawn")
    return page


@needs_browser
def test_the_report_lives(browser, hostile_report):
    """All that one does with it, on one page: opening it takes a second or two."""
    assert hostile_report.stat().st_size < 6_000_000
    page = opened(browser, hostile_report)
    drawn = "[...document.querySelectorAll('.plot')].map(f => f.querySelectorAll('.scatterlayer .trace, .bars').length)"
    assert page.run(drawn) == [6, 3, 3, 1]
    assert page.overflow() == 0
    assert page.run("document.querySelectorAll('img, main b, main a[href]').length") == 0
    assert page.run("typeof hacked") == "undefined"

    # hover: a label with the name of the curve, as it is written
    assert page.run("document.querySelectorAll('.hoverlayer text').length") == 0
    figure = "#" + page.run("document.querySelectorAll('.plot')[1].id")
    page.hover(f"{figure} .points path:last-child")
    page.wait("document.querySelectorAll('.hoverlayer')[1].textContent")
    label = page.run("document.querySelectorAll('.hoverlayer')[1].textContent")
    assert "relative gap" in label and any(f"{name[:12]}" in label for name in HOSTILE)

    # the legend hides and shows, by mouse and by key
    keys, curves = (
        "document.querySelectorAll('.plot .keys')[1]",
        "document.querySelectorAll('.plot')[1].querySelectorAll",
    )
    names = page.run(f"[...{keys}.children].map(key => key.textContent)")
    assert sorted(names) == sorted(f"{name} against the rest" for name in HOSTILE[:3])
    page.click(f"{figure} .keys button")
    page.wait(f"{curves}('.scatterlayer .trace').length === 2")
    assert page.run(f"{keys}.children[0].ariaPressed") == "false"
    page.press("Enter")
    page.wait(f"{curves}('.scatterlayer .trace').length === 3")

    # another axis, and zoom
    assert page.run(f"document.querySelector('{figure} .xtitle').textContent") == "passes over the data"
    page.click(f"{figure} .switch label:nth-of-type(2) span")
    page.wait(f"document.querySelector('{figure} .xtitle').textContent === 'seconds of solver time'")
    axis = f"document.querySelector('{figure} .chart')._fullLayout.xaxis.range"
    span = f"({axis}[1] - {axis}[0])"
    before = page.run(span)
    page.drag(f"{figure} .nsewdrag", 120, 80)
    page.wait(f"{span} < {0.5 * before}")

    # keys in the chart itself
    page.run(f"document.querySelector('{figure} .chart').focus()")
    page.press("0", "0")
    page.wait(f"Math.abs({span} - {before}) < 1e-9 * {before}")
    page.press("ArrowRight")
    page.press("ArrowRight")
    assert re.search(
        r"against the rest: seconds of solver time [\d.e-]+, relative gap",
        page.run(f"document.querySelector('{figure} .live').textContent"),
    )
    page.press("+", "+")
    page.wait(f"{span} < {0.9 * before}")

    # the numbers as a table
    page.click(f"{figure} summary")
    page.wait(f"document.querySelectorAll('{figure} details tbody tr').length >= 3")

    # light and dark
    ground = "getComputedStyle(document.body).backgroundColor"
    ink = f"getComputedStyle(document.querySelector('{figure} .xtitle')).fill"
    before = page.run(ground), page.run(ink)
    page.click(".theme")
    page.wait(f"{ground} !== '{before[0]}' && {ink} !== '{before[1]}'")
    assert page.run("document.querySelector('.theme').ariaPressed") == "true"
    page.resize(360)
    page.wait("document.querySelector('.chart .main-svg').clientWidth <= 360")
    assert page.overflow() == 0
    assert page.errors == [] and page.outside() == []


@needs_browser
def test_a_phone_in_the_dark(browser, tmp_path):
    path = whole_page().write(tmp_path / "page.html")
    page = opened(browser, path, width=360, dark=True)
    assert page.overflow() == 0
    assert page.run("document.documentElement.dataset.theme") == "dark"
    page.press("Tab")
    assert page.run("document.activeElement.className") == "skip"
    page.press("Enter")
    assert page.run("location.hash") == "#content"
    assert page.errors == [] and page.outside() == []
