"""The benchmarks run, and write what they promise. Nothing is said about time: this is no measurement."""

import json
import queue
import subprocess
import sys
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("liblinear", reason="LIBLINEAR's own package is the benchmark's rival")

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import linear, linear_extras, linear_report, linear_worker, peers, sets  # noqa: E402

FIELDS = {
    "commit": str,
    "versions": dict,
    "threads": int,
    "problem": str,
    "loss": str,
    "solver": str,
    "iteration": int,
    "passes": float | None,
    "seconds": float,
    "cpu_seconds": float,
    "primal": float,
    "dual": float,
}


def run(*arguments, module="benchmarks.passes"):
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    path = tmp_path_factory.mktemp("benchmarks") / "passes.jsonl"
    done = run("--toy", "--repeats", "1", "--jsonl", str(path))
    assert done.returncode == 0, done.stderr
    return done.stdout, [json.loads(line) for line in path.read_text().splitlines()]


def test_every_run_is_one_line_with_all_fields(toy):
    _, records = toy
    assert records
    for record in records:
        for name, kind in FIELDS.items():
            assert isinstance(record[name], kind), (name, record[name])
        assert record["threads"] == 1
        assert {"numpy", "scikit-learn", "liblinear-official", "numba", "primalsvm"} <= set(record["versions"])
        assert 0 <= record["dual"] <= record["primal"]
        assert record["seconds"] >= 0 and record["cpu_seconds"] >= 0 and record["iteration"] >= 1


def test_both_sides_of_each_ratio_are_there(toy):
    text, records = toy
    solvers = {(record["problem"], record["solver"]) for record in records}
    for problem in ("sparse", "dense"):
        for solver in ("dual_coordinate_ascent", "pegasos", "sklearn LinearSVC", "sklearn SGDClassifier", "liblinear"):
            assert (problem, solver) in solvers
    for what in ("hinge pass 2..4", "squared_hinge pass 2..4", "to 0.1 %", "averaged Pegasos pass 2..6", "compiled"):
        assert what in text


def test_equal_passes_bring_equal_worth(toy):
    """Ours and LIBLINEAR's minimise the same P: after as many passes neither can be below what the other proves."""
    _, records = toy
    for problem in ("sparse", "dense"):
        for loss in ("hinge", "squared_hinge"):
            own = [r for r in records if (r["problem"], r["loss"]) == (problem, loss)]
            assert max(r["dual"] for r in own) <= min(r["primal"] for r in own)
            ours, theirs = (
                [r["primal"] for r in own if r["solver"] == s] for s in ("dual_coordinate_ascent", "liblinear")
            )
            assert min(ours) <= 1.001 * min(theirs) * (1 + 1e-5)


def test_without_data_it_says_what_to_do(tmp_path):
    done = run("--data-home", str(tmp_path / "nowhere"))
    assert done.returncode != 0
    assert "--data-home" in done.stderr and "--synthetic" in done.stderr and "Traceback" not in done.stderr


def test_hyperpass_prints_its_table_and_draws_the_figures(tmp_path):
    records = tmp_path / "hyperpass.jsonl"
    done = run("--toy", "--output", str(tmp_path), "--jsonl", str(records), module="benchmarks.hyperpass")
    assert done.returncode == 0, done.stderr
    for method in ("hyperpass", "hyperpass from Pegasos", "hyperpass as published", "Pegasos", "cutting planes"):
        assert done.stdout.count(f"\n{method} ") >= 2
    for name in ("gap_iterations", "gap_products", "products_per_step", "start"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    for record in map(json.loads, records.read_text().splitlines()):
        assert record["iteration"] >= 1 and record["passes"] > 0 and record["seconds"] > 0


# benchmarks.linear ----------------------------------------------------------------------------------------------------
SMALL = ("--toy", "--sets", "toy_sparse", "--C", "1", "--losses", "hinge", "--threads", "1", "--cap", "5")
CLOSEST = {  # of the hinge on toy_dense: they stop there, however tight the tolerance
    "snapml": 5e-3,
    "snapml 1 thread": 5e-3,
    "liblinear -s 3": 1e-3,
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("sets")


@pytest.fixture(scope="module")
def small(tmp_path_factory, cache):
    """One run of the whole benchmark on a toy: what it printed, its lines, its file."""
    path = tmp_path_factory.mktemp("linear") / "runs.jsonl"
    files = ("--jsonl", str(path), "--cache", str(cache), "--figure", str(path.with_suffix(".png")))
    only = "primalsvm,liblinear -s 3,sklearn dual"
    done = run(*SMALL, *files, "--repeats", "2", "--only", only, module="benchmarks.linear")
    assert done.returncode == 0, done.stderr
    return done.stdout, linear_report.read(path), files


@pytest.mark.filterwarnings("ignore")  # peers warn as they like
@pytest.mark.parametrize(("side", "loss"), [(side, loss) for side in peers.PEERS for loss in side.losses], ids=str)
def test_every_peer_minimises_our_objective(side, loss, cache):
    """Its tightest rung comes within 1e-6 of our proven optimum, so its scaling is right: C is not 1 here."""
    if not side.installed():
        pytest.skip(f"{side.package} is not installed")
    C = 0.7
    for name in sets.TOYS:
        X, y = sets.load(name, cache)
        judge = linear_worker.Judge(X, y)
        best = judge.primal(peers.OURS.fit((X, y), loss, C, {"tol": 1e-9}, 1).w, loss, C)
        setting = side.ladder[-1] | ({"max_iter": side.limits[-1]} if side.limits else {})
        w = side.fit(side.prepare(X, y), loss, C, setting, 1).w
        share = judge.primal(w, loss, C) / best - 1
        close = CLOSEST.get(side.name, 1e-6) if (name, loss) == ("toy_dense", "hinge") else 1e-6
        assert -1e-8 <= share <= close, (name, share)
        assert judge.dual(w, loss, C) <= best * (1 + 1e-9)


def test_a_run_of_the_linear_benchmark_is_written_down(small):
    _, lines, _ = small
    assert {line["side"] for line in lines} == {"reference", "primalsvm", "liblinear -s 3", "sklearn dual"}
    for line in lines:
        assert "failure" not in line
        assert {"commit", "versions", "threads", "date", "setting", "repeat", "compile_seconds"} <= set(line)
        assert line["seconds"] > 0 and line["cpu_seconds"] >= 0 and line["prepare_seconds"] >= 0
        assert 0 < line.get("dual", 1.0) <= line["primal"]
    ours = [line for line in lines if line["side"] == "primalsvm"]
    assert [line["setting"]["tol"] for line in ours] == [1e-3, 1e-3, 1e-6, 1e-6]
    assert all(line["relative_gap"] <= line["setting"]["tol"] for line in ours)
    theirs = [line["suboptimality"] for line in lines if line["side"] == "sklearn dual"]
    assert theirs[0] > 1e-6 >= theirs[-1]  # it climbed, and stopped there


def test_the_table_is_printed_again_from_the_lines(small):
    text, _, files = small
    table = text[text.index("Threads:") :]
    assert "toy_sparse hinge         C=1" in table and "1 (bar: all)" in table and "fastest peer / ours" in table
    assert Path(files[-1]).stat().st_size > 10_000
    again = run(*SMALL, *files, "--report", module="benchmarks.linear")
    assert again.stdout.strip() == table.strip()


def test_a_duel_measures_the_rungs_that_decide(small):
    _, _, files = small
    done = run(*SMALL, *files, "--repeats", "2", "--duel", module="benchmarks.linear")
    assert done.returncode == 0, done.stderr
    *cells, loose, tight = done.stdout.strip().splitlines()
    assert len(cells) == 2 and all("ours" in cell and "liblinear -s 3" in cell for cell in cells)
    assert loose.startswith("0.001: fastest peer / ours") and "of 1 of 1 cells" in loose
    assert tight.startswith("1e-06: fastest peer / ours") and "of 1 of 1 cells" in tight


def test_the_latest_run_of_each_side_counts(small):
    _, lines, files = small
    later = [line | {"date": "2999-01-01", "seconds": 9.0} for line in lines if line["side"] == "primalsvm"]
    options = linear.parse([*SMALL, *files])
    (row,) = linear_report.rows(lines + later, options)
    assert row.ours[1e-3].seconds == row.ours[1e-6].seconds == 9.0
    assert row.peer == linear_report.rows(lines, options)[0].peer
    unproven = [line | {"relative_gap": 2e-6} for line in later]
    (row,) = linear_report.rows(lines + unproven, options)
    assert row.ours[1e-3] is not None and row.ours[1e-6] is None and row.ratio(1e-6) is None


def test_a_side_that_hangs_or_dies_costs_its_cell_only(monkeypatch, tmp_path):
    """The process hangs in the second of four cells, a new one dies in the third, the next finishes the fourth."""
    started = []
    plays = [["ready", "rung 1", "failure 1", "rung 2", "hang"], ["ready", "rung 3"], ["ready", "failure 4", "end"]]

    class Scripted:
        def __init__(self, spec, log):
            started.append([cell[1] for cell in spec["cells"]])
            self.play = iter(plays.pop(0))

        def next(self, seconds):
            word, *number = next(self.play, "over").split()
            if word == "hang":
                raise queue.Empty
            cell = {"loss": "hinge", "C": float(number[0])} if number else {}
            cell |= {"failure": "its own"} if word == "failure" else {}
            return (
                None
                if word == "over"
                else {"event": word} | cell | ({"prepare_seconds": 0.0} if word == "ready" else {})
            )

        def close(self, seconds):
            return -11

    monkeypatch.setattr(linear, "Worker", Scripted)
    options = linear.parse([*SMALL, "--jsonl", str(tmp_path / "runs.jsonl")])
    out = StringIO()
    cells = [("hinge", C, None, None) for C in (1.0, 2.0, 3.0, 4.0)]
    linear.run_side(peers.SIDES["skglm"], "toy_sparse", cells, options, {}, out)
    assert started == [[1.0, 2.0, 3.0, 4.0], [3.0, 4.0], [4.0]]
    failures = {line["C"]: line["failure"] for line in map(json.loads, out.getvalue().splitlines())}
    assert failures == {
        1.0: "its own",
        2.0: "no answer for 10 s",
        3.0: "the process ended with code -11",
        4.0: "its own",
    }


def test_a_ladder_raises_the_iterations_that_were_used_up_and_ends_where_it_leads_nowhere(cache):
    X, y = sets.load("toy_dense", cache)
    seen = []

    def fit(data, loss, C, setting, threads):
        seen.append((setting["tol"], setting["max_iter"]))
        return peers.Fit(np.zeros(X.shape[1]), exhausted=setting["max_iter"] == 10 and setting["tol"] < 0.1)

    side = peers.Side("fake", "fake", ("hinge",), peers.tolerances(1, 8), (10, 100), fit)
    options = {"repeats": 1, "threads": 1, "cap": 5.0}
    cell = linear_worker.Cell("hinge", 1.0, 100.0, 100.0)
    linear_worker.climb(side, (X, y), linear_worker.Judge(X, y), cell, options, lambda **fields: None)
    assert seen == [(0.1, 10), (0.01, 10), (0.01, 100), (0.001, 100)]


def test_the_extras_run(monkeypatch, cache, tmp_path, capsys):
    """In this process, but for the one figure that is about a new one."""

    def output(self, command, threads, **variables):
        if command[1] == "-m":
            return json.dumps(linear_extras.fits(json.loads(command[-1])))
        return real(self, command, threads, **variables)

    real = linear_extras.Extras.output
    monkeypatch.setattr(linear_extras.Extras, "output", output)
    sets.load("toy_dense", cache)
    arguments = ("--toy", "--sets", "toy_dense", "--losses", "hinge", "--repeats", "1", "--cache", str(cache))
    options = linear.parse([*arguments, "--jsonl", str(tmp_path / "runs.jsonl")])
    linear_extras.report(options, linear.environment, linear.facts(options))
    text = capsys.readouterr().out
    for what in ("free intercept / none", "MB", "identical", "one thread", "exponent", "filled Numba cache"):
        assert what in text
    lines = linear_report.read(tmp_path / "extras.jsonl")
    assert all(line["commit"] and line["versions"] for line in lines)
    assert {line["what"] for line in lines} == {"intercept", "memory", "threads", "growth", "new process"}


def test_a_set_whose_files_are_not_there_is_left_out_with_a_sentence(tmp_path):
    arguments = ("--sets", "a9a", "--data-home", str(tmp_path), "--cache", str(tmp_path / "sets"))
    done = run(*arguments, "--jsonl", str(tmp_path / "runs.jsonl"), module="benchmarks.linear")
    assert done.returncode == 0 and "left out: a9a" in done.stdout and "--data-home" in done.stdout
    assert "Nothing is measured yet." in done.stdout and "Traceback" not in done.stderr
