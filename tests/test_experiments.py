"""The experiments of the papers at toy size, their data, what is kept of them, and the command."""

import json
import math
import os
import signal
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits
from typer.testing import CliRunner

from primalsvm import experiments
from primalsvm.cli import app
from primalsvm.experiments import data, lab, results
from primalsvm.experiments.lab import Lab, Outcome, Plot, Table, Verdict

HOME = Path(os.environ.get("PRIMALSVM_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
public = pytest.mark.skipif(not HOME.is_dir(), reason="the public data are not there: set PRIMALSVM_DATA")
every_home = pytest.mark.parametrize("home", [None, pytest.param(HOME, marks=public)], ids=["made up", "public"])


# --- the experiments --------------------------------------------------------------------------------------------------


def check_outcome(outcome):
    assert outcome.verdicts
    for verdict in outcome.verdicts:
        assert verdict.held in (True, False, None)
        assert verdict.claim.strip().endswith(".") and verdict.figures.strip()
        assert "nan" not in verdict.figures.split()
    for table in outcome.tables:
        assert table.title and table.rows
        assert all(len(row) == len(table.header) for row in table.rows), table.title
        assert all(isinstance(cell, str) for row in table.rows for cell in row), table.title
    for plot in outcome.plots:
        assert plot.title and plot.x and plot.y and plot.curves
        for name, (x, y) in plot.curves.items():
            assert np.shape(x) == np.shape(y) and np.ndim(x) == 1 and len(x), name
            finite = np.asarray(y, dtype=float)[np.isfinite(np.asarray(y, dtype=float))]
            assert len(finite), name
            assert not plot.log_y or (finite > 0).any(), name
            assert not plot.log_x or (np.asarray(x) >= 0).all(), name


@every_home
@pytest.mark.parametrize("name", experiments.names())
def test_an_experiment_at_toy_size(name, home, tmp_path):
    told = []
    bench = Lab("toy", home, tell=lambda what, share: told.append((what, share)))
    with threadpool_limits(1):  # as the command has it; BLAS's threads wait by spinning
        outcome = experiments.load(name).run(bench)
    check_outcome(outcome)
    assert told and all(isinstance(what, str) and 0 <= share <= 1 for what, share in told)
    assert all(results.draw(plot, tmp_path / f"{i}.png") for i, plot in enumerate(outcome.plots))
    json.dumps(results.as_plain(outcome), allow_nan=False)


@pytest.mark.parametrize("name", experiments.names())
def test_an_experiment_states_its_paper(name):
    text = results._text(name)
    assert experiments.title(name) == text.splitlines()[0].rstrip(".")
    assert len(text) > 200 and len(experiments.title(name)) <= 120
    assert callable(experiments.load(name).run)


def test_the_order_is_that_of_the_papers():
    known = experiments.names()
    assert known == sorted(known) and all(name.startswith("seed00") for name in known)
    assert experiments.find(["all"]) == known
    assert experiments.find(["seed000_fig1"]) == ["seed000_fig1_primal_or_dual"]
    assert set(experiments.find(["seed000"])) < set(known) or len(known) == len(experiments.find(["seed000"]))


# --- data -------------------------------------------------------------------------------------------------------------


@every_home
@pytest.mark.parametrize("name", data.SETS)
def test_a_set_at_toy_size(name, home):
    bench, facts = Lab("toy", home), data.SETS[name]
    found = data.load(bench, name)
    assert found.X.shape == (300, facts.d) and found.X_test.shape[1] == facts.d
    assert found.X_test.shape[0] == len(found.y_test) == min(300, facts.n_test)
    classes = {-1.0, 1.0} if facts.positives else set(map(float, range(10)))
    assert set(found.y) == set(found.y_test) == classes
    assert bool(bench.notes) == (home is None)
    again = data.load(bench, name, 100)
    assert again.X.shape[0] == 100 and len(bench.notes) == (home is None)


@pytest.mark.parametrize("name", ["usps", "a9a", "german"])
def test_data_made_up_has_the_sizes_of_the_real(name):
    facts, found = data.SETS[name], data.load(Lab("full"), name)
    assert found.X.shape == (facts.n, facts.d) and found.X_test.shape == (facts.n_test, facts.d)
    assert np.mean(found.y > 0) == pytest.approx(facts.positives, abs=0.06)


@public
@pytest.mark.parametrize("name", ["a9a", "german"])
def test_the_sizes_are_those_of_the_files(name):
    facts, bench = data.SETS[name], Lab("full", HOME)
    found = data.load(bench, name)
    assert found.X.shape == (facts.n, facts.d) and found.X_test.shape == (facts.n_test, facts.d)
    assert np.mean(found.y > 0) == pytest.approx(facts.positives, abs=0.01) and not bench.notes


@every_home
def test_phrases(home):
    bench = Lab("toy", home)
    found = data.phrases(bench)
    assert 1500 <= len(found.texts) < 1600
    assert len(found.texts) == len(found.labels) == len(found.sentences)
    assert set(found.labels) == {0, 1, 2, 3, 4} and np.argmax(np.bincount(found.labels)) == 2
    assert bool(bench.notes) == (home is None)


# --- measuring --------------------------------------------------------------------------------------------------------


def test_exponent_and_seconds():
    x = np.array([1.0, 2.0, 4.0])
    assert lab.exponent(x, 5 * x**2.2) == pytest.approx(2.2)
    ticks = iter([0.0, 3.0, 10.0, 11.0])
    assert lab.seconds(lambda: "done", 2, lambda: next(ticks)) == (1.0, "done")
    assert lab.cpu_seconds(lambda: 7)[1] == 7


# --- what is kept -----------------------------------------------------------------------------------------------------


class Fake:
    """Experiments that count how often they are run."""

    def __init__(self, monkeypatch, tmp_path, names, run=None):
        self.runs, self.names, self.run = [], names, run
        self.folder = tmp_path / "sources"
        self.folder.mkdir()
        for stem in (*names, "shared"):
            (self.folder / f"{stem}.py").write_text("pass")
        for module in (experiments, results):
            monkeypatch.setattr(module, "names", lambda: list(names))
            monkeypatch.setattr(module, "title", lambda name: f"Title of {name}")
            monkeypatch.setattr(module, "load", self.load)
        monkeypatch.setattr(results, "_text", lambda name: "text")
        monkeypatch.setattr(results, "FOLDER", self.folder)

    def load(self, name):
        class Module:
            @staticmethod
            def run(bench):
                self.runs.append(name)
                bench.tell("working", 0.5)
                if self.run is not None:
                    self.run(name, bench)
                return fake_outcome()

        return Module


def fake_outcome():
    line = np.array([1.0, 2.0, np.nan]), np.array([1.0, np.inf, 3.0])
    verdicts = [Verdict("It holds.", np.True_, "1 of 1."), Verdict("It does not.", False, "v* <x, y> 0.")]
    verdicts.append(Verdict("Who knows.", None, "Too few."))
    plot = Plot("Costs in $ and $", "x", "y", {"a": line, "b": line}, log_x=True, log_y=True)
    return Outcome(verdicts, [Table("t", ["a"], [["1"]])], [plot], ["a note"])


def call(*args):
    result = CliRunner().invoke(app, ["reproduce", *map(str, args)], env={"PRIMALSVM_DATA": None})
    assert "Traceback" not in result.output
    return result


def test_what_is_written(monkeypatch, tmp_path):
    Fake(monkeypatch, tmp_path, ["seed000_a"])
    found = call("all", "--scale", "toy", "-o", tmp_path / "out")
    assert found.exit_code == 0, found.output
    kept = json.loads((tmp_path / "out" / "seed000_a.json").read_text())
    assert [verdict["held"] for verdict in kept["verdicts"]] == [True, False, None]
    assert kept["plots"][0]["curves"]["a"] == [[1.0, 2.0, None], [1.0, None, 3.0]]
    assert kept["plots"][0]["file"] == "seed000_a_1.png" and kept["tables"][0]["rows"] == [["1"]]
    assert kept["scale"] == "toy" and kept["version"] and kept["seconds"] >= 0 and kept["notes"] == ["a note"]
    assert (tmp_path / "out" / "seed000_a_1.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "out" / "verdicts.md").read_text()
    for text in ("**held**: It holds.", "**refuted**: It does not.", "**too small to tell**: Who knows.", "a note"):
        assert text in page
    assert r"It does not. *v\* \<x, y> 0.*" in page  # else Markdown takes the star for the end
    assert "1 held, 1 refuted, 1 too small to tell" in page and "How claims are judged" in page
    for text in ("held: It holds. 1 of 1.", "refuted: It does not.", "too small to tell: Who knows."):
        assert text in found.stdout
    assert not list((tmp_path / "out").glob("*.part"))


def test_a_second_run_does_no_work(monkeypatch, tmp_path):
    fake = Fake(monkeypatch, tmp_path, ["seed000_a", "seed000_b"])
    first = call("all", "--scale", "toy", "-o", tmp_path)
    times = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("seed*")}
    second = call("all", "--scale", "toy", "-o", tmp_path)
    assert fake.runs == ["seed000_a", "seed000_b"] and len(times) == 4
    assert times == {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("seed*")}
    assert first.stdout == second.stdout and second.stderr.count("taken from an earlier run") == 2
    call("seed000_a", "--scale", "toy", "-o", tmp_path, "--fresh")
    call("seed000_a", "--scale", "small", "-o", tmp_path)
    call("seed000_a", "--scale", "small", "-o", tmp_path, "--jobs", "2")
    call("seed000_a", "--scale", "small", "-o", tmp_path, "--data-home", tmp_path)
    assert fake.runs[2:] == ["seed000_a"] * 4
    (tmp_path / "seed000_b.json").write_text('{"name": "seed0')  # as a crash would leave it
    call("seed000_b", "--scale", "toy", "-o", tmp_path)
    assert fake.runs[6:] == ["seed000_b"]


@pytest.mark.parametrize("changed, again", [("seed000_a", ["a"]), ("seed000_b", ["b"]), ("shared", ["a", "b"])])
def test_what_has_changed_is_run_again(monkeypatch, tmp_path, changed, again):
    fake = Fake(monkeypatch, tmp_path, ["seed000_a", "seed000_b"])
    call("all", "--scale", "toy", "-o", tmp_path)
    (fake.folder / f"{changed}.py").write_text("pass  # otherwise")
    call("all", "--scale", "toy", "-o", tmp_path)
    assert fake.runs[2:] == [f"seed000_{name}" for name in again]


def test_ctrl_c_keeps_what_is_finished(monkeypatch, tmp_path):
    def press(name, bench):
        if name == "seed000_b":
            raise KeyboardInterrupt

    fake = Fake(monkeypatch, tmp_path, ["seed000_a", "seed000_b", "seed000_c"], press)
    found = call("all", "--scale", "toy", "-o", tmp_path)
    assert found.exit_code == 130 and "goes on from there" in found.stderr
    assert [path.name for path in tmp_path.glob("*.json")] == ["seed000_a.json"]
    assert "seed000_a" in (tmp_path / "verdicts.md").read_text()
    fake.run = None
    assert call("all", "--scale", "toy", "-o", tmp_path).exit_code == 0
    assert fake.runs == ["seed000_a", "seed000_b", "seed000_b", "seed000_c"]


def test_ctrl_c_that_a_solver_has_swallowed(monkeypatch, tmp_path):
    """solve() ends with what it has, and the experiment would go on with a solution that is none."""

    def press(name, bench):
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        bench.tell("going on", 0.9)

    Fake(monkeypatch, tmp_path, ["seed000_a"], press)
    found = call("all", "--scale", "toy", "-o", tmp_path)
    assert found.exit_code == 130 and not list(tmp_path.glob("*.json"))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_one_that_fails_does_not_stop_the_others(monkeypatch, tmp_path):
    def fail(name, bench):
        if name == "seed000_a":
            raise RuntimeError("out of luck")

    Fake(monkeypatch, tmp_path, ["seed000_a", "seed000_b"], fail)
    found = call("all", "--scale", "toy", "-o", tmp_path, "--json")
    assert found.exit_code == 1 and "error: seed000_a: RuntimeError: out of luck" in found.stderr
    told = json.loads(found.stdout)
    assert told["failed"] == ["seed000_a"] and [each["name"] for each in told["experiments"]] == ["seed000_b"]


# --- the command ------------------------------------------------------------------------------------------------------


def test_list_names_all_with_titles():
    found = call("list")
    assert found.exit_code == 0
    assert [line.split()[0] for line in found.stdout.splitlines()] == experiments.names()
    assert "Fig. 1" in found.stdout.splitlines()[0]
    assert list(json.loads(call("list", "--json").stdout)) == experiments.names()


def test_one_experiment(tmp_path):
    found = call("seed000_fig1_primal_or_dual", "--scale", "toy", "-o", tmp_path)
    assert found.exit_code == 0 and "5 held, 0 refuted" in found.stdout
    assert len(list(tmp_path.glob("*.png"))) == 2


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["seed009"], "there is no experiment 'seed009'; there are all, seed000_fig1_primal_or_dual, "),
        (["all", "--data-home", "nowhere"], "there is no such folder"),
        (["all", "-o", __file__], "this is no folder"),
    ],
)
def test_bad_input_is_one_line(args, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = call(*args)
    assert found.exit_code == 1 and found.stderr.startswith("error: ") and text in found.stderr
    assert found.stderr.count("\n") == 1 and not list(tmp_path.iterdir())


def test_numbers_that_are_not_finite_become_null():
    assert results._numbers([1, math.nan, -math.inf]) == [1.0, None, None]


def test_the_report_may_stand_in_the_folder_of_the_outcomes(monkeypatch, tmp_path):
    pytest.importorskip("plotly")
    Fake(monkeypatch, tmp_path, ["seed000_a"])
    folder = tmp_path / "new" / "deep"  # neither is there yet
    assert call("all", "--scale", "toy", "-o", folder, "--report", folder / "report.html").exit_code == 0
    assert "It holds." in (folder / "report.html").read_text()
