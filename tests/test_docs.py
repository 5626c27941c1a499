"""README, docs/ and the examples run and print what they say; the site builds, hangs together and opens."""

import importlib.util
import os
import re
import runpy
import shutil
import subprocess
import sys
import time
import warnings
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import matplotlib
import matplotlib.pyplot as plt
import pytest
from browser import Browser, needs_browser
from pages import PAGES, ROOT, difference, mistake, run_page

import primalsvm
from primalsvm.solvers import __all__ as SOLVERS

matplotlib.use("Agg")
EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))
NEEDED = ("sphinx", "furo", "myst_parser", "sphinx_gallery", "sphinx_copybutton", "ziamath", "plotly")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
needs_sphinx = pytest.mark.skipif(bool(MISSING), reason=f'no {", ".join(MISSING)}: pip install "primalsvm[docs]"')
WIDTHS = (360, 1280)

# What a page leaves to the reader: X and y, texts and labels, and small files under the names that it uses.
README = """
import lzma
import numpy as np
from pathlib import Path
from sklearn.datasets import dump_svmlight_file, load_breast_cancer
from sklearn.preprocessing import StandardScaler

X, y = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit_transform(X)

for name, rows in (("a9a", slice(0, 150)), ("a9a.t", slice(150, 250))):
    dump_svmlight_file(X[rows], 2 * y[rows] - 1, name, zero_based=False)
    Path(f"{name}.xz").write_bytes(lzma.compress(Path(name).read_bytes()))
weights = "".join("0.1 \\n" for _ in range(X.shape[1]))
Path("liblinear.model").write_text(
    f"solver_type L2R_L2LOSS_SVC\\nnr_class 2\\nlabel 1 -1\\nnr_feature {X.shape[1]}\\nbias -1\\nw\\n{weights}"
)

words = ["dreadful", "dull", "film", "fine", "moving"]
texts = [f"a {words[k % 5]} {words[(k // 5 + k) % 5]} film" for k in range(50)]
labels = [k % 5 for k in range(50)]
table = "Phrase\\tSentiment\\n" + "".join(f"{text}\\t{label}\\n" for text, label in zip(texts, labels))
Path("train.tsv.xz").write_bytes(lzma.compress(table.encode()))

import pyarrow
import pyarrow.parquet
columns = {f"x{j}": X[:, j] for j in range(5)} | {"clicked": y}
pyarrow.parquet.write_table(pyarrow.table(columns), "big.parquet")

from primalsvm import save, text_model
save(text_model().fit(texts, labels), "reviews.psvm")

rows = [",".join([*map(str, x), "+-"[label]]) + "\\n" for x, label in zip(1000 * X[:90, :4], y)]
Path("mine.csv").write_text("a,b,c,d,outcome\\n" + "".join(rows[:70]))
Path("new.csv").write_text("a,b,c,d\\n" + "".join(row.rpartition(",")[0] + "\\n" for row in rows[70:]))
"""
PRELUDES = {"README.md": README, "guide.md": README}


# --- code -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs_and_prints_what_it_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wrong = []
    for block, printed in run_page(page, PRELUDES.get(page.name, "")):
        found = mistake(block, printed)
        wrong += [f"{page.name}, line {block.line}: {found}"] if found else []
    assert not wrong, "\n".join(wrong)
    plt.close("all")


def test_a_wrong_output_is_noticed():
    shown = "at most 2e-10% above the optimum (primal 26.5254552, dual 26.5254552)"
    assert not difference(shown, shown.replace("2e-10%", "7e-9%").replace("4552,", "4559,"))
    assert difference(shown, shown.replace("2e-10%", "2%"))
    assert difference(shown, shown.replace("primal 26.5", "primal 26.9"))
    assert difference(shown, shown.replace("above", "below"))
    assert difference(shown, shown + "\nand more")
    assert not difference("seconds       0.65", "seconds       12.1")
    assert not difference("score 0.5", "score 0.9", vary=True) and difference("score 0.5", "error 0.5", vary=True)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_an_example_runs_and_draws(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plt.close("all")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "FigureCanvasAgg is non-interactive")
        runpy.run_path(str(example), run_name="__main__")
    assert plt.get_fignums(), "it draws nothing"
    plt.close("all")


def test_links_between_files_of_the_repository_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text("utf-8")):
            if "://" not in target and not target.startswith("gallery/"):  # which is made with the site
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_target_of_make_is_made_whatever_files_there_are():
    text = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([\w-]+):", text, re.MULTILINE))
    assert targets == set(re.search(r"^\.PHONY: (.*)", text, re.MULTILINE)[1].split())  # docs is a folder


# --- the site ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site. Of several workers of pytest-xdist one builds it, the others wait."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    work, report = base / "site-work", base / "site-report.txt"
    try:
        work.mkdir()
    except FileExistsError:
        while not report.exists():
            time.sleep(0.2)
    else:
        made = shutil.ignore_patterns("gallery", "generated", "__pycache__")
        for name in ("docs", "examples"):
            shutil.copytree(ROOT / name, work / name, ignore=made)
        shutil.copy(ROOT / "CHANGELOG.md", work)
        command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "-q", "-j", "auto"]
        done = subprocess.run([*command, "docs", "site"], cwd=work, capture_output=True, text=True)
        (base / "writing").write_text(done.stderr if done.returncode else "")
        (base / "writing").rename(report)
    assert not report.read_text(), report.read_text()
    return work / "site"


class Page(HTMLParser):
    """What a page of the site refers to, and the places in it."""

    def __init__(self, path: Path):
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()
        self.images: list[dict] = []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if "id" in given:
            self.places.add(given["id"])
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if tag in ("script", "img", "iframe", "source", "video"):
            self.loads += [given[name] for name in ("src", "srcset") if given.get(name)]
        if tag == "link" and given.get("rel") not in ("canonical", "author"):
            self.loads.append(given["href"])
        if tag == "img":
            self.images.append(given)


@pytest.fixture(scope="module")
def read(site):
    """Every page of the site by its path."""
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


@needs_sphinx
def test_the_site_has_all_its_pages(site):
    for page in PAGES[2:]:
        assert (site / f"{page.stem}.html").exists(), page
    for example in EXAMPLES:
        assert list((site / "_images").glob(f"sphx_glr_{example.stem}_001*.png")), f"{example.name} drew nothing"


@needs_sphinx
def test_every_link_and_every_anchor_leads_somewhere(read):
    for path, page in read.items():
        for link in page.links:
            if re.match(r"(https?|mailto):", link):
                continue
            file, _, place = unquote(link).partition("#")
            target = (path.parent / file).resolve() if file else path
            assert target.exists(), f"{path.name}: {link}"
            if place and target.suffix == ".html":
                assert place in read[target].places, f"{path.name}: {link}"


@needs_sphinx
def test_nothing_is_loaded_from_elsewhere(read, site):
    for path, page in read.items():
        for load in page.loads:
            assert not re.match(r"(https?:)?//", load), f"{path.name}: {load}"
    for style in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", style.read_text("utf-8")), style


@needs_sphinx
def test_every_public_name_is_in_the_reference(site):
    for name in primalsvm.__all__:
        assert (site / "generated" / f"primalsvm.{name}.html").exists(), f"docs/api.md lacks {name}"
    for name in SOLVERS:
        if name[0].isupper():
            assert (site / "generated" / f"primalsvm.solvers.{name}.html").exists(), f"docs/api.md lacks {name}"


@needs_sphinx
def test_every_command_and_option_is_in_the_reference(site):
    from typer.testing import CliRunner

    from primalsvm.cli import app

    text = (site / "command_line.html").read_text("utf-8")
    for command in re.findall(
        r"^  (\w+)  ", CliRunner().invoke(app, ["--help"]).stdout.partition("Commands:")[2], re.M
    ):
        assert f'id="{command}"' in text, command
        for option in re.findall(r"^  (?:-\w, )?(--[\w-]+)", CliRunner().invoke(app, [command, "--help"]).stdout, re.M):
            assert option in text, f"{command} {option}"


@needs_sphinx
def test_pictures_say_what_they_show(read):
    for path, page in read.items():
        for image in page.images:
            decoration = image["src"].endswith("_thumb.png")  # the title stands below it
            assert image.get("alt") or decoration, f"{path.name}: {image}"


# --- in a browser -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    with Browser() as browser:
        yield browser


def pages_to_open(site: Path) -> list[Path]:
    """All that are written by hand, the gallery, and some of the reference."""
    some = ["LinearSVC", "SVC", "Certificate", "certify", "LinearProblem"]
    found = [*site.glob("*.html"), *(site / "gallery").glob("*.html")]
    return sorted(found) + [site / "generated" / f"primalsvm.{name}.html" for name in some]


@needs_sphinx
@needs_browser
@pytest.mark.parametrize("width", WIDTHS)
def test_pages_open_without_errors_requests_or_sideways_scrolling(site, browser, width):
    for path in pages_to_open(site):
        page = browser.open(path, width=width)
        assert page.errors == [], f"{path.name}: {page.errors}"
        assert page.outside() == [], f"{path.name}: {page.outside()}"
        assert page.overflow() <= 0, f"{path.name} is {page.overflow()} pixels too wide at {width}"


@needs_sphinx
@needs_browser
def test_the_dark_is_dark_and_has_a_switch(site, browser):
    background = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
    light, dark = (browser.open(site / "mathematics.html", dark=dark).run(background) for dark in (False, True))
    assert min(light) > 200 and max(dark) < 60
    page = browser.open(site / "mathematics.html")
    for _ in range(3):  # automatic, light, dark, in some order
        page.run("document.querySelector('.theme-toggle').click()")
        if page.run("document.body.dataset.theme") == "dark":
            break
    assert max(page.run(background)) < 60


@needs_sphinx
@needs_browser
def test_formulas_are_drawn_in_the_font_that_comes_with_them(site, browser):
    page = browser.open(site / "mathematics.html")
    assert page.run("document.querySelectorAll('math').length") > 50
    page.wait("document.fonts.check('16px \"Site Math\"') && [...document.fonts].some(f => f.status === 'loaded')")
    assert page.run("document.querySelectorAll('merror, .math-error').length") == 0


@needs_sphinx
@needs_browser
def test_the_search_works_from_the_disk(site, browser):
    page = browser.open(site.joinpath("search.html").as_uri() + "?q=certificate")
    page.wait("document.querySelectorAll('#search-results li').length > 3")
    assert page.errors == [] and page.outside() == []
