"""What notebooks show of a model: scikit-learn's diagram whole, and below it what is proven."""

import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from browser import Browser, needs_browser
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr

from primalsvm import SVC, SVCCV, LinearSVC, LinearSVCCV, OrdinalSVC, TunedSVC, load, save
from primalsvm.notebook import LINE, MOST_LINES, histories, proof_html, solved

X, Y = load_iris(return_X_y=True)
X2, Y2 = X[50:], Y[50:]
HOSTILE = np.array(["<script>alert(1)</script>", '"><img src=x onerror=alert(2)>', "a & $b$"])
ESTIMATORS = [
    LinearSVC(),
    LinearSVC("hinge", solver="subgradient", max_iter=50),
    SVC(),
    SVC(approximation="greedy", n_basis=10, grow="gap"),
    OrdinalSVC(),
    OrdinalSVC(strategy="shared"),
    LinearSVCCV(Cs=2, cv=2),
    SVCCV(Cs=2, gammas=2, cv=2),
    TunedSVC(max_iter=2),
]


class Page(HTMLParser):
    """The words and tags of a piece of HTML, whose elements must all be closed."""

    EMPTY = frozenset({"br", "hr", "img", "input", "meta", "link"})

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.attributes, self.words = [], [], [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module", params=ESTIMATORS, ids=repr)
def fitted(request):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some are stopped early
        return clone(request.param).fit(X, Y)


def test_below_scikit_learns_html_stands_the_proof(fitted):
    html = fitted._repr_html_()
    proof = proof_html(fitted)
    assert html.endswith(proof) and "sk-top-container" in html.removesuffix(proof)
    assert fitted._repr_mimebundle_()["text/html"].endswith(proof)
    page, certificate = Page(proof), solved(fitted).certificate_
    assert f"Proven: {str(certificate).partition(' (')[0]}" in page.text
    for words in (f"primal {certificate.primal:.9g}", f"dual {certificate.dual:.9g}"):
        assert words in page.text
    assert f"relative gap {certificate.relative_gap:.1e}, asked for" in page.text
    assert f"solver {certificate.solver}" in page.text and page.tags.count("svg") == 1
    seconds = sum(history[-1].seconds for history in histories(solved(fitted)).values())
    assert f"seconds {seconds:.3g}" in page.text
    status = solved(fitted).status_
    assert (f": {status}" in page.text) == (status != "converged")


def test_a_notebook_shows_nothing_of_an_unfitted_model_but_scikit_learns(fitted):
    fresh = clone(fitted)
    assert proof_html(fresh) == ""
    assert "primalsvm-proof" not in fresh._repr_html_() + fresh._repr_mimebundle_()["text/html"]


def test_plain_text_stays_as_it_was(fitted):
    assert repr(fitted) == repr(clone(fitted)) == fitted._repr_mimebundle_()["text/plain"]
    with config_context(display="text"):
        assert not hasattr(fitted, "_repr_html_") and list(fitted._repr_mimebundle_()) == ["text/plain"]


def test_names_of_classes_are_text_and_nothing_else():
    for model in (LinearSVC(), SVC(), OrdinalSVC(classes=HOSTILE)):
        proof = proof_html(model.fit(X, HOSTILE[Y]))
        page = Page(proof)
        assert any(name in page.text for name in HOSTILE)
        assert not {"script", "img"} & set(page.tags)
        assert not any(name.startswith("on") for name in page.attributes)


def test_the_worst_binary_problem_is_named():
    model = SVC().fit(X, Y)
    worst = int(np.argmax([part.relative_gap for part in model.certificate_.parts]))
    name = ["0 against 1", "0 against 2", "1 against 2"][worst]
    gap = model.certificate_.parts[worst].relative_gap
    assert f"problems 3, the worst {name}: {gap:.1e}" in Page(proof_html(model)).text
    assert "problems" not in Page(proof_html(SVC().fit(X2, Y2))).text


def test_the_gap_to_the_exact_svm_is_there_where_it_is_known():
    model = SVC(approximation="greedy", n_basis=10, grow="gap").fit(X2, Y2)
    assert f"of the exact SVM {str(model.full_certificate_).partition(' (')[0]}" in Page(proof_html(model)).text


@pytest.mark.parametrize("missing", ["matplotlib", "matplotlib.figure"])
def test_without_matplotlib_there_are_words_only(monkeypatch, missing):
    model = LinearSVC().fit(X2, Y2)
    whole = proof_html(model)
    monkeypatch.setitem(sys.modules, missing, None)
    page = Page(proof_html(model))
    assert "svg" not in page.tags and page.text.startswith("Proven: at most")
    assert whole.startswith(proof_html(model).removesuffix("</div></div>"))


def test_the_picture_is_alone_on_its_page():
    """No style or name of its own reaches other elements, the text's colour is the page's, and no figure is left."""
    import matplotlib.pyplot as plt

    proof = proof_html(LinearSVC("hinge").fit(X2, Y2))
    with plt.style.context(["dark_background", {"axes.grid": True, "grid.color": "#ff00ff"}]):
        again = proof_html(LinearSVC("hinge").fit(X2, Y2))
    assert plt.get_fignums() == []
    for page in (Page(proof), Page(again)):
        assert "style" not in page.tags and "metadata" not in page.tags
    assert 'id="figure_1"' not in proof and "currentColor" in proof
    assert "#ff00ff" not in again and "#000000" not in proof + again and "#ffffff" not in proof + again


def test_a_model_that_took_no_time_or_has_no_history_has_no_picture():
    model = LinearSVC().fit(X2, Y2)
    del model.history_
    page = Page(proof_html(model))
    assert "svg" not in page.tags and "seconds" not in page.text and "steps" in page.text


def test_a_loaded_model_shows_its_proof(tmp_path):
    model = LinearSVC().fit(X, Y)
    save(model, tmp_path / "model.psvm")
    assert Page(proof_html(load(tmp_path / "model.psvm"))).text == Page(proof_html(model)).text


def test_many_binary_problems_are_still_a_small_page():
    rng = np.random.default_rng(0)
    y = np.arange(400) % 20
    model = SVC(tol=0.1).fit(rng.normal(size=(400, 3)) + y[:, None], y)
    assert len(model.history_) == 190
    proof = proof_html(model)
    assert proof.count(f"stroke: {LINE.lower()}; stroke-width") == MOST_LINES and len(proof) < 200_000


def test_pipelines_that_end_in_ours_are_scikit_learns():
    pipeline = make_pipeline(StandardScaler(), LinearSVC()).fit(X, Y)
    assert "primalsvm-proof" not in pipeline._repr_html_() and "LinearSVC" in pipeline._repr_html_()
    assert "primalsvm-proof" not in estimator_html_repr(pipeline)
    assert "primalsvm-proof" in pipeline[-1]._repr_html_()


def test_importing_and_printing_an_estimator_loads_no_matplotlib():
    code = "import sys; from primalsvm import LinearSVC; m = LinearSVC().fit([[0.], [1.]], [0, 1]); repr(m); str(m)"
    code += "; LinearSVC()._repr_html_(); sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@needs_browser
def test_a_page_shows_it_in_light_and_dark(tmp_path):
    html = "".join(m.fit(X, HOSTILE[Y])._repr_html_() for m in (LinearSVC(), SVC()))
    lines = {}
    with Browser() as browser:
        for name, colours in (("light", "white; color: rgb(1, 1, 1)"), ("dark", "black; color: rgb(240, 240, 240)")):
            (tmp_path / f"{name}.html").write_text(
                f'<!doctype html><meta charset="utf-8"><body style="background: {colours}">{html}', encoding="utf-8"
            )
            page = browser.open(tmp_path / f"{name}.html", width=900, dark=name == "dark")
            assert page.errors == [] and page.outside() == []
            assert page.run("document.querySelectorAll('.primalsvm-proof svg').length") == 2
            fill = "getComputedStyle(document.querySelector('.primalsvm-proof svg text')).fill"
            lines[name] = page.run(fill)
            size = page.run("document.querySelector('.primalsvm-proof svg').getBoundingClientRect().width")
            assert 200 < size < 500
    assert lines == {"light": "rgb(1, 1, 1)", "dark": "rgb(240, 240, 240)"}
