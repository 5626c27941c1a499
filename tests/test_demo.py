"""The demo: it runs, it is quick, and what it prints is what the models say."""

import contextlib
import io
import re
import sys
import time

import matplotlib
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.svm import LinearSVC as SklearnLinearSVC

from primalsvm import Certificate, LinearSVC, demo
from primalsvm.claims import certify

matplotlib.use("Agg")

ROW = re.compile(r"^  +(?P<name>\S+)(?: \[\d\])? +(?P<numbers>[\d.]+ .*%)", re.MULTILINE)
PICTURES = ["boundary", "convergence", "margins", "margins_digits", "regions", "solvers", "training"]


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """(what it printed, where it wrote, seconds of computing)"""
    folder = tmp_path_factory.mktemp("demo") / "made" / "by it"
    begin = time.process_time()  # other work on the machine is not the demo's
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        demo.run(folder)
    return printed.getvalue(), folder, time.process_time() - begin


def rows(text):
    """(name, primal, dual, gap) of each model, section by section."""
    found = []
    for section in re.split(r"\n(?=\S)", text):
        for match in ROW.finditer(section):
            seconds, primal, dual, gap, *_ = match["numbers"].split()
            assert float(seconds) >= 0
            found.append((section.split("\n")[0].strip(), match["name"], float(primal), float(dual), float(gap)))
    return found


def test_the_demo_is_quick(ran):
    assert ran[2] < 30


def test_pictures_are_written_and_named(ran):
    printed, folder, _ = ran
    assert sorted(path.stem for path in folder.iterdir()) == PICTURES
    for path in folder.iterdir():
        assert f"wrote {path}\n" in printed
        assert path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 10_000


def test_the_table_has_every_problem_solved_by_both(ran):
    table = rows(ran[0])
    problems = dict.fromkeys(row[0] for row in table)
    assert len(problems) == 7
    for problem in problems:
        names = [row[1] for row in table if row[0] == problem]
        assert names in (["primalsvm", "scikit-learn"], ["primalsvm", "scikit-learn", "max_iter=100000"])


def test_bounds_in_the_table_are_bounds(ran):
    table = rows(ran[0])
    for problem in dict.fromkeys(row[0] for row in table):
        mine = [row for row in table if row[0] == problem]
        assert max(row[3] for row in mine) <= min(row[2] for row in mine) * (1 + 1e-5)  # of six printed digits
    for _, name, primal, dual, gap in table:
        assert gap == pytest.approx((primal - dual) / primal, rel=0.06, abs=1e-5)
        assert name != "primalsvm" or gap <= 1e-3


@pytest.mark.parametrize(
    ("title", "model", "prepare"),
    [
        ("squared hinge, C=1", SklearnLinearSVC(fit_intercept=False, random_state=0), demo.standardize),
        ("squared hinge, C=1 + b", SklearnLinearSVC(random_state=0), demo.standardize),
        (
            "squared hinge, C=100, raw",
            SklearnLinearSVC(C=100.0, fit_intercept=False, random_state=0),
            lambda data: data,
        ),
    ],
)
def test_the_rows_of_scikit_learn_are_its_models(ran, title, model, prepare):
    data = prepare(demo.split(load_breast_cancer()))
    proof = certify(model.fit(data.X, data.y), data.X, data.y)
    (row,) = [row for row in rows(ran[0]) if row[:2] == (title, "scikit-learn")]
    assert row[2:4] == pytest.approx((proof.primal, proof.dual), rel=1e-5)


def test_a_warning_becomes_a_note(ran, recwarn):
    printed = ran[0]
    assert re.search(r"hinge, C=100 .*\n.*\n  scikit-learn \[1\]", printed)
    assert "[1] warned: Liblinear failed to converge" in printed
    data = demo.split(load_breast_cancer())
    row = demo.train("ours", LinearSVC("hinge", C=100.0, solver="subgradient", max_iter=1), data)
    assert "certified relative gap" in row.note and not recwarn.list


@pytest.mark.parametrize(
    ("proof", "text"),
    [
        (Certificate(2.0, 2.0 - 1e-6, 2.0), "at most 5.0e-07"),
        (Certificate(3.0, 1.5, 2.0), "50.0% to 100.0%"),
        (Certificate(3.0, 2.0, 2.0), "50.0%"),
        (Certificate(1.0, 0.0, 1.0), "at most inf%"),
    ],
)
def test_above_says_at_least_and_at_most(proof, text):
    assert demo.above(proof) == text


def fake_sections():
    proof = Certificate(3.0, 1.5, 2.0)
    yield "some problem", [demo.Row("[red]a", 0.5, proof, 0.25, ""), demo.Row("b", 1.5, proof, 0.125, "[red]beware")]
    yield "another", [demo.Row("b", 1.5, proof, 0.125, "[red]beware"), demo.Row("c", 1.5, proof, 0.125, "again")]


def test_without_rich_the_same_table_is_plain(capsys, monkeypatch):
    demo.print_table(fake_sections())
    with_rich = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    monkeypatch.setitem(sys.modules, "rich.console", None)
    demo.print_table(fake_sections())
    plain = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert plain == with_rich
    assert any(
        line.split() == ["[red]a", "0.500", "3", "1.5", "5.0e-01", "50.0%", "to", "100.0%", "25.0%"] for line in plain
    )
    assert [line for line in plain if "warned" in line] == ["[1] warned: [red]beware", "[2] warned: again"]
    assert [line.split()[:2] for line in plain if line.startswith("  b")] == [["b", "[1]"]] * 2


def test_without_matplotlib_there_is_a_sentence_in_place_of_pictures(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.setattr(demo, "compare", lambda *data: fake_sections())
    monkeypatch.setattr(demo, "both", lambda *problem: [])
    demo.run(tmp_path)
    assert 'no pictures: primalsvm draws with matplotlib, which is missing: pip install "primalsvm[plot]"' in (
        capsys.readouterr().out
    )
    assert not list(tmp_path.iterdir())


def test_a_file_in_the_way_is_an_error_before_any_work(tmp_path, capsys):
    path = tmp_path / "file"
    path.touch()
    with pytest.raises(FileExistsError):
        demo.run(path)
    assert not capsys.readouterr().out
