"""The benchmarks run, and write what they promise. Nothing is said about time: this is no measurement."""

import json
import queue
import subprocess
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("liblinear", reason="LIBLINEAR's own package is the benchmark's rival")

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import (  # noqa: E402
    data_folder,
    kernel,
    kernel_extras,
    kernel_peers,
    kernel_report,
    kernel_worker,
    large,
    linear,
    linear_duel,
    linear_extras,
    linear_report,
    linear_worker,
    peers,
    phrases,
    sets,
)
from primalsvm import certify  # noqa: E402

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


def test_out_of_core_trains_from_every_kind_of_file(tmp_path):
    pytest.importorskip("pyarrow", reason="Parquet needs it")
    done = run("--toy", "--jsonl", str(tmp_path / "runs.jsonl"), module="benchmarks.out_of_core")
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    assert [record["file"] for record in records] == ["npy", "parquet", "svmlight"]
    for record in records:
        assert (record["rows"], record["features"], record["relative_gap"] <= 1e-3) == (3000, 20, True)
        assert record["passes"] > 3 and record["peak_MB"] > 50 and record["total"] > record["seconds"] > 0
        assert f"{record['peak_MB']:.0f}" in done.stdout
    assert max(r["dual"] for r in records) <= min(r["primal"] for r in records) * (1 + 1e-12)  # svmlight has 16 digits


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
    *cells, _, _, _, _ = lines = done.stdout.strip().splitlines()
    assert len(cells) == 2 and all(
        f"  {who} " in cell for cell in cells for who in (*linear_duel.WAYS, "liblinear -s 3")
    )
    for line, (goal, way) in zip(
        lines[-4:], [(goal, way) for goal in ("0.001", "1e-06") for way in linear_duel.WAYS], strict=True
    ):
        assert line.startswith(f"{goal}, {way}: fastest peer / ours") and line.count("(1 of 1 cells") == 2


def decided(lines):
    """What a duel reads in lines: bounds, caps, and the rungs of each cell."""
    known, runs = linear_report.bounds(lines), linear_report.latest(lines, 1)
    caps = {key: {run["cap"] for side in peers.PEERS for run in runs.get((key, side.name), [])} for key in known}
    rungs = {(key, g): linear_duel.rivals(runs, key, known[key][0], g) for key in known for g in linear_report.GOALS}
    return known, caps, rungs


def test_a_few_lines_of_a_climb_decide_a_duel(small, tmp_path):
    _, lines, files = small
    done = run(*SMALL, *files, "--distil", str(tmp_path / "few.jsonl"), module="benchmarks.linear")
    assert done.returncode == 0, done.stderr
    few = linear_report.read(tmp_path / "few.jsonl")
    assert len(few) < len(lines) and decided(few) == decided(lines)
    # a table of ours beside them measures nobody else
    files = tuple(str(tmp_path / "few.jsonl") if part.endswith("runs.jsonl") else part for part in files)
    done = run(*SMALL, *files, "--only", "primalsvm", "--repeats", "1", module="benchmarks.linear")
    assert done.returncode == 0, done.stderr
    more = linear_report.read(tmp_path / "few.jsonl")[len(few) :]
    assert more and {line["side"] for line in more} == {"primalsvm"}
    # where nobody got there, that a ladder was climbed is still known
    lost = [line if line["side"] == "reference" else line | {"primal": 2 * line["primal"]} for line in lines]
    assert decided(linear_report.distil(lost, 1)) == decided(lost)


def test_the_lines_that_are_shipped_know_every_cell():
    known, caps, rungs = decided([line | {"threads": 1} for line in linear_report.read(linear_duel.SHIPPED)])
    assert {key[0] for key in known} == set(sets.LOADERS) and len(known) == 48 and all(caps.values())
    for (key, goal), found in rungs.items():
        assert known[key][1] <= known[key][0] and goal in linear_report.GOALS
        assert all(name in peers.SIDES for name, _ in found)


def test_a_duel_counts_a_cell_that_no_peer_reached_with_the_cap(small, tmp_path):
    _, lines, files = small
    lines = [line if line["side"] == "reference" else line | {"primal": 2 * line["primal"]} for line in lines]
    path = tmp_path / "runs.jsonl"
    path.write_text("".join(json.dumps(line | {"cap": 1e6}) + "\n" for line in lines))
    done = run(*SMALL, *files, "--jsonl", str(path), "--repeats", "1", "--duel", module="benchmarks.linear")
    assert done.returncode == 0, done.stderr
    first, second, *means = done.stdout.strip().splitlines()
    for line in (first, second):
        assert line.endswith("no peer in 1e+06 s") and float(line.split(": ")[1].split()[0]) > 1e4, line
    assert all("(0 of 0 cells" in line and "(1 of 1 cells" in line for line in means)


def test_our_loosest_tolerance_that_is_near_enough():
    """It is the first on the ladder whose P is near the least one known; the goal itself where none is."""
    tried = []

    def fit(data, loss, C, setting, threads):
        tried.append(setting["tol"])
        return peers.Fit(np.array([setting["tol"]]))

    class Plain:
        def primal(self, w, loss, C):
            return 1.0 + 0.05 * w[0]  # 5 % of the tolerance above the least

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear_duel, "OURS", replace(peers.OURS, fit=fit))
        key = ("a set", "hinge", 1.0)
        assert linear_duel.near_enough(None, Plain(), key, 1e-3, 1.0, 1) == {"tol": 1e-2}
        assert tried == [pytest.approx(0.1), pytest.approx(0.01)]
        assert linear_duel.near_enough(None, Plain(), key, 1e-3, 0.5, 1) == {"tol": 1e-3}


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


# benchmarks.kernel ----------------------------------------------------------------------------------------------------
FEW = ("--toy", "--sets", "toy_four", "--threads", "1", "--cap", "60")
TRAINED = {"primal", "dual", "relative_gap", "test_error", "predict_seconds", "memory", "n_support", "digest"}


@pytest.fixture(scope="module")
def kernels(tmp_path_factory, cache):
    """One run of the kernel benchmark on a toy: what it printed, its lines, its files."""
    path = tmp_path_factory.mktemp("kernel") / "runs.jsonl"
    files = ("--jsonl", str(path), "--cache", str(cache))
    files += ("--table", str(path.with_suffix(".md")), "--figure", str(path.with_suffix(".png")))
    only = ("--only", "primalsvm,scikit-learn")
    done = run(*FEW, *files, *only, "--repeats", "2", module="benchmarks.kernel")
    assert done.returncode == 0, done.stderr
    return done.stdout, linear_report.read(path), files


def kernel_line(side, tol, gap, seconds, **fields):
    line = {"cell": "toy_two", "side": side, "setting": {"tol": tol}, "relative_gap": gap, "seconds": seconds}
    return line | {"threads": 1, "date": "2000-01-01", "commit": "none"} | fields


@pytest.mark.filterwarnings("ignore")  # peers warn as they like
@pytest.mark.parametrize("side", kernel_peers.PEERS, ids=str)
@pytest.mark.parametrize("name", kernel_peers.TOYS)
def test_every_kernel_peer_minimises_our_objective(side, name, cache):
    """A tight rung has a small gap by our certificate, so C, gamma, signs and the order of its classes are right."""
    if not side.installed():
        pytest.skip(f"{side.package} is not installed")
    data = sets.load_split(name, cache)
    fit = side.fit(side.ready(data.X, data.y), 0.7, 0.4, 1e-7, 1)
    seen = kernel_peers.judge(fit.pairs(), data.X, data.y, 0.7, 0.4, 1)
    assert 0 < seen.relative_gap <= (1e-5 if side is kernel_peers.THUNDER else 1e-6)  # that one counts in float32
    assert np.mean(fit.predict(side.form(data.X_test)) == data.y_test) > 0.5
    assert 0 < fit.n_support <= len(data.y)


@pytest.mark.parametrize("name", kernel_peers.TOYS)
def test_the_judge_of_the_kernel_benchmark_says_what_certify_says(name, cache):
    from sklearn.svm import SVC

    data = sets.load_split(name, cache)
    theirs = kernel_peers.SKLEARN.fit((data.X, data.y), 2.0, 0.3, 1e-3, 1)
    seen = kernel_peers.judge(theirs.pairs(), data.X, data.y, 2.0, 0.3, 1)
    same = certify(SVC(C=2.0, gamma=0.3, tol=1e-3).fit(data.X, data.y), data.X, data.y)
    rounding = seen.rounding + same.rounding  # two ways to sum up; D allows for no more than P does
    assert abs(seen.primal - same.primal) <= rounding and abs(seen.dual - same.dual) <= rounding
    ours = kernel_peers.OURS.fit((data.X, data.y), 2.0, 0.3, 1e-3, 1)
    seen = kernel_peers.judge(ours.pairs(), data.X, data.y, 2.0, 0.3, 1)
    assert abs(seen.relative_gap - ours.facts["claimed_gap"]) <= 4 * seen.rounding / seen.primal


def test_a_run_of_the_kernel_benchmark_is_written_down(kernels):
    _, lines, _ = kernels
    assert {line["side"] for line in lines} == {"primalsvm", "scikit-learn"}
    for line in lines:
        assert "failure" not in line
        assert set(line) >= TRAINED | {
            "commit",
            "versions",
            "threads",
            "date",
            "turn",
            "compile_seconds",
            "cpu_seconds",
        }
        assert 0 < line["dual"] <= line["primal"] and line["seconds"] > 0 and line["memory"] > 0
    ours = [line for line in lines if line["side"] == "primalsvm"]
    assert [(line["turn"], line["setting"]["tol"]) for line in ours] == [(0, 1e-3), (0, 1e-6), (1, 1e-3), (1, 1e-6)]
    assert all(line["claimed_gap"] <= line["setting"]["tol"] for line in ours)
    theirs = [line for line in lines if line["side"] == "scikit-learn"]
    first = [line["relative_gap"] for line in theirs if line["turn"] == 0]
    assert first[0] > 1e-3 and first[-2] > 1e-6 >= first[-1]  # it climbed, and stopped there
    assert 1 <= sum(line["turn"] == 1 for line in theirs) <= 2  # the rungs that decide, again
    assert [line["side"] for line in lines if line["turn"] == 1][-1] == "primalsvm"  # the order is turned round


def test_the_kernel_table_is_printed_again_from_the_lines(kernels):
    text, _, files = kernels
    table = text[text.index("Seconds of fit") :]
    for what in (
        "| toy_four",
        "seconds to 1e-3",
        "met    certified at 1e-3 (all): 1 of 1",
        "scikit-learn / ours",
        "MB",
    ):
        assert what in table
    *_, markdown, _, figure = files
    assert Path(markdown).read_text().strip() == table[: table.index("\ntable:")].strip()
    assert Path(figure).stat().st_size > 10_000
    again = run(*FEW, *files, "--report-only", module="benchmarks.kernel")
    assert again.stdout.strip() == table.strip()


def test_a_kernel_time_is_that_of_the_fastest_rung_that_got_there():
    theirs = [kernel_line("intelex", 1e-2, 5e-3, 1.0), kernel_line("intelex", 1e-3, 5e-4, 3.0)]
    theirs += [kernel_line("intelex", 1e-4, 5e-5, 2.0), kernel_line("intelex", 1e-4, 5e-5, 2.5)]
    assert kernel_report.time_to(1e-3, "intelex", theirs).seconds == 2.25
    never = kernel_report.time_to(1e-6, "intelex", theirs)
    assert never.seconds is None and never.above is None and str(never) == "- (5e-5)"
    killed = [*theirs, {"side": "intelex", "setting": {"tol": 1e-5}, "capped": True, "seconds": 9.0}]
    assert kernel_report.time_to(1e-3, "intelex", killed).seconds == 2.25
    assert str(kernel_report.time_to(1e-6, "intelex", killed)) == "> 9"


def test_our_kernel_time_counts_where_the_fit_and_the_judge_have_proven_it():
    good = kernel_line("primalsvm", 1e-3, 9e-4, 1.0, claimed_gap=9e-4)
    assert kernel_report.time_to(1e-3, "primalsvm", [good]).seconds == 1.0
    assert kernel_report.time_to(1e-6, "primalsvm", [good]).seconds is None
    for doubt in ({"claimed_gap": 2e-3}, {"relative_gap": 2e-3}, {"setting": {"tol": 1e-6}}):
        assert kernel_report.time_to(1e-3, "primalsvm", [good | doubt]).seconds is None


def test_a_killed_kernel_peer_bounds_the_ratio():
    options = kernel.parse(["--toy", "--sets", "toy_two", "--threads", "1"])
    lines = [kernel_line("primalsvm", 1e-3, 9e-4, 2.0, claimed_gap=9e-4, test_error=0.1, predict_seconds=0.1)]
    lines += [kernel_line("intelex", 1e-2, 9e-4, 3.0, test_error=0.103, predict_seconds=0.05)]
    lines += [{k: v for k, v in kernel_line("scikit-learn", 0.1, 1.0, 30.0).items() if k != "relative_gap"}]
    lines[-1] |= {"capped": True, "failure": "killed after 30 s of fit"}
    (row,) = kernel_report.rows(lines, options)
    assert row.fastest(1e-3) == (1.5, False) and row.ratio(1e-3, ["scikit-learn"]) == (15.0, True)
    assert row.fastest(1e-6) is None
    met = {bar.what.split(" at ")[0]: (bar.met, bar.found) for bar in kernel_report.bars([row])[:7]}
    assert met["certified"] == (None, "0 of 0")  # of the cells asked for at 1e-6
    assert met["slower than the fastest peer"] == (True, "never")
    error = next(bar for bar in kernel_report.bars([row]) if bar.what.startswith("test error"))
    assert error.met is False and "10.00 / 10.30 (intelex)" in error.found
    assert not kernel_report.prediction_bar([row]).met
    found = [bar for bar in kernel_report.bars([row]) if bar.what.startswith("scikit-learn / ours at 1e-3")]
    assert found[0].met and found[0].found.startswith("> 15.00")


def test_a_kernel_fit_beyond_the_cap_is_killed_and_the_rest_goes_on(monkeypatch, tmp_path):
    """The climb of one side hangs in its second rung, that of another dies, ours ends well; only the deciding rungs of
    those that got there are measured again, and a model known already is not judged again."""
    limits, specs = [], []
    run_line = {"event": "run", "seconds": 1.0, "relative_gap": 5e-4, "test_error": 0.1, "predict_seconds": 0.1}
    run_line |= {"primal": 2.0, "dual": 1.0, "judge_seconds": 1.0, "digest": "abc"}

    class Scripted:
        def __init__(self, spec, log, module):
            assert module == "benchmarks.kernel_worker"
            specs.append(spec)
            rungs = spec["rungs"] or ([{"tol": 1e-3}] if spec["side"] == "primalsvm" else [{"tol": 0.1}])
            self.play = [{"event": "ready", "compile_seconds": 0.5}]
            for setting in rungs:
                self.play += [{"event": "rung", "setting": setting}, {"event": "fitted"}]
                self.play += [run_line | {"setting": setting, "claimed_gap": 5e-4}]
            if spec["side"] == "intelex" and spec["rungs"] is None:
                self.play += [{"event": "rung", "setting": {"tol": 0.01}}, "hang"]
            elif spec["side"] == "scikit-learn":
                self.play = self.play[:2]
            else:
                self.play += [{"event": "end"}]

        def next(self, seconds):
            limits.append(seconds)
            line = self.play.pop(0) if self.play else None
            if line == "hang":
                raise queue.Empty
            return None if line is None else dict(line)

        def close(self, seconds):
            return -11

    monkeypatch.setattr(kernel, "Worker", Scripted)
    options = kernel.parse([*FEW, "--repeats", "2", "--cap", "7", "--jsonl", str(tmp_path / "runs.jsonl")])
    out = StringIO()
    sides = [kernel_peers.OURS, kernel_peers.INTELEX, kernel_peers.SKLEARN]
    kernel.Bench(options, out).measure(options.cells[0], sides)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    failures = {line["side"]: line for line in lines if "failure" in line}
    assert failures["intelex"]["failure"] == "killed after 7 s of fit" and failures["intelex"]["capped"]
    assert failures["intelex"]["setting"] == {"tol": 0.01} and failures["intelex"]["seconds"] == 7.0
    assert failures["scikit-learn"]["failure"] == "the process ended with code -11"
    assert limits[:4] == [600, 3600, 8.0, 3600]  # loading, until the first rung, its fit, its judge
    again = [(spec["side"], spec["rungs"], list(spec["judged"])) for spec in specs if spec["rungs"] is not None]
    assert again == [("intelex", [{"tol": 0.1}], ["abc"]), ("primalsvm", [{"tol": 1e-3}], ["abc"])]


def climbed(side, gaps, goal):
    """The settings that a side tries whose models have these gaps."""
    work, seen = kernel_worker.Work.__new__(kernel_worker.Work), []
    work.side, work.spec, gaps = side, {"cap": 5.0, "goal": goal}, iter(gaps)

    def one(setting):
        seen.append(setting["tol"])
        gap = next(gaps)
        return {"primal": 1 + gap, "dual": 1.0, "relative_gap": gap, "seconds": 1.0}

    work.run = one
    work.climb()
    return seen


def test_a_kernel_ladder_ends_where_it_leads_nowhere_or_at_the_goal():
    assert climbed(kernel_peers.THUNDER, [1.0, 0.5, 0.49, 0.48, 0.47, 0.1], 1e-6) == [0.1, 0.01, 1e-3, 1e-4, 1e-5]
    assert climbed(kernel_peers.THUNDER, [1e-2, 1e-3, 1e-4], 1e-3) == [0.1, 0.01]
    assert climbed(kernel_peers.OURS, [1e-7, 1e-7], 1e-6) == [1e-3, 1e-6]  # whatever it has reached by chance
    assert climbed(kernel_peers.OURS, [1e-4, 1e-7], 1e-3) == [1e-3]


def test_long_kernel_rungs_are_measured_again_for_ours_and_the_fastest_peer_only():
    lines = {
        "primalsvm": [kernel_line("primalsvm", 1e-3, 9e-4, 50.0, claimed_gap=9e-4)],
        "intelex": [kernel_line("intelex", 1e-2, 9e-4, 60.0)],
        "scikit-learn": [kernel_line("scikit-learn", 1e-2, 9e-4, 90.0)],
    }
    assert kernel.deciding(lines, 1e-6) == {"primalsvm": [{"tol": 1e-3}], "intelex": [{"tol": 1e-2}]}


def test_kernel_peers_that_are_missing_are_named(monkeypatch, capsys):
    monkeypatch.setattr(kernel_peers.Side, "installed", lambda side: side is not kernel_peers.THUNDER)
    assert [side.name for side in kernel.chosen_sides(["peers"])] == [
        "intelex",
        "libsvm",
        "libsvm 1 thread",
        "scikit-learn",
    ]
    assert "left out: thundersvm, whose package thundersvm-cpu is not installed" in capsys.readouterr().out
    for wrong in ("--sets", "--only"):
        with pytest.raises(SystemExit, match=r"There is no \w+ nonsense"):
            kernel.parse([wrong, "nonsense"])


def test_a_kernel_set_whose_files_are_not_there_is_left_out_with_a_sentence(tmp_path):
    arguments = ("--sets", "usps", "--data-home", str(tmp_path), "--cache", str(tmp_path / "sets"))
    done = run(*arguments, "--jsonl", str(tmp_path / "runs.jsonl"), module="benchmarks.kernel")
    assert done.returncode == 0 and "left out: usps" in done.stdout and "--data-home" in done.stdout
    assert "Nothing is measured yet." in done.stdout and "Traceback" not in done.stderr


def test_the_kernel_extras_run(monkeypatch, cache, tmp_path, capsys):
    def output(self, command):
        spec = json.loads(command[-1])
        if spec["rows"] == 120:
            raise subprocess.TimeoutExpired(command, 600)
        return json.dumps(kernel_extras.fit(spec))

    monkeypatch.setattr(kernel_extras.Extras, "output", output)
    sets.load_split("toy_two", cache)
    options = kernel.parse(["--toy", "--threads", "1", "--cache", str(cache), "--jsonl", str(tmp_path / "runs.jsonl")])
    kernel_extras.report(options, kernel.environment, kernel.facts(options), lambda *_: True)
    text = capsys.readouterr().out
    for what in ("60 rows", "120 rows: killed after 600 s", "memory_limit = 0.1 MB", "MB beyond X", "met"):
        assert what in text
    small, large, memory = linear_report.read(tmp_path / "extras.jsonl")
    assert [line["what"] for line in (small, large, memory)] == ["newton", "newton", "memory"] and small["commit"]
    assert small["relative_gap"] <= 1e-6 and small["solver"] == "newton" and small["steps"] > 0
    assert "failure" in large and memory["relative_gap"] <= 1e-3


# benchmarks.large -----------------------------------------------------------------------------------------------------
def test_large_puts_every_side_into_the_table(tmp_path):
    folder = ["--cache", tmp_path, "--jsonl", tmp_path / "runs.jsonl", "--table", tmp_path / "t.md"]
    few = ["--sets", "toy_two", "--sizes", "10", "--only", "primalsvm,nystroem", "--cap", "300", "--draws", "2"]
    done = run(*map(str, [*folder, *few, "--figure", tmp_path / "f.png"]), module="benchmarks.large")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    assert [line["side"] for line in lines] == [*large.OURS, "nystroem + linear", "nystroem + ours", "nystroem + sgd"]
    linear, ours = (line["test_error"] for line in lines[3:5])
    assert abs(linear - ours) < 0.02  # the same problem
    assert all(0 <= line["test_error"] <= 0.5 and line["seconds"] > 0 and line["memory"] >= 0 for line in lines)
    assert all(line["relative_gap"] <= 1e-3 for line in lines[:3])
    assert all(line["test_error"] == np.mean(line["test_errors"]) for line in lines[:3])
    assert (tmp_path / "t.md").read_text().count("| 10 | primalsvm") == 3
    assert (tmp_path / "f.png").stat().st_size > 5000


def test_large_holds_greedy_against_twice_as_many_at_random(tmp_path):
    done = run("--halves", "--toy", "--draws", "2", "--cache", str(tmp_path), module="benchmarks.large")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("toy_two  greedy    5:") and "random   10:" in done.stdout
    with pytest.raises(SystemExit, match="There is no set covtype"):
        large.parse(["--halves", "--sets", "covtype"])


def test_large_counts_a_run_that_takes_too_long(tmp_path):
    options = large.parse(["--sets", "toy_two", "--table", str(tmp_path / "t.md"), "--figure", str(tmp_path / "f.png")])
    spec = {"set": "toy_two", "size": 10}
    slow = spec | {"side": large.RIVAL} | large.run({"threads": 1, "side": "greedy"}, 0.01, tmp_path / "log")
    assert slow["capped"]
    fast = spec | {"side": large.OURS[0], "seconds": 0.001, "test_error": 0.1, "memory": 0}
    large.report([slow, fast], options)
    assert "| > 10.0 |" in (tmp_path / "t.md").read_text()


# benchmarks.tuning ----------------------------------------------------------------------------------------------------
def test_tuning_puts_both_sides_into_the_table(tmp_path):
    done = run("--toy", "--cache", str(tmp_path), "--jsonl", str(tmp_path / "r.jsonl"), module="benchmarks.tuning")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert [(line["set"], line["side"]) for line in lines] == [
        (name, side) for name in ("toy_two", "toy_sparse") for side in ("primalsvm", "scikit-learn")
    ]
    for ours, theirs in zip(lines[::2], lines[1::2], strict=True):
        assert ours["score"] == pytest.approx(theirs["score"], abs=0.01) and ours["relative_gap"] <= 1e-3
    assert done.stdout.count("| toy_") == 2


# benchmarks.phrases, benchmarks.ordinal -------------------------------------------------------------------------------
def test_the_phrases_have_all_their_tables(tmp_path):
    rows, tables = tmp_path / "rows.jsonl", tmp_path / "tables.md"
    done = run("--toy", "--jsonl", str(rows), "--report", str(tables), module="benchmarks.phrases")
    assert done.returncode == 0, done.stderr
    assert tables.read_text().strip() == done.stdout.strip()
    for title in ("Table 2", "Table 3: all phrases", "Table 4", "Whole rounds at C = 0.1", "C chosen inside"):
        assert f"### {title}" in done.stdout
    assert done.stdout.count("split: sentence") == done.stdout.count("split: random") == 3
    lines = [json.loads(line) for line in rows.read_text().splitlines()]
    kept = [line for line in lines if line["table"] == 3]
    assert {line["model"] for line in kept} == {"gradient descent", "Pegasos", "Newton, linear", "majority class"}
    assert {(ln["classes"], ln["features"]) for ln in kept} == {(k, f) for k in (2, 5) for f in ("binary", "count")}
    for line in lines:
        if line["table"] in ("race", "choice") and line["model"] not in ("majority class", "SGDClassifier"):
            assert line["relative_gap"] <= 1e-3 and line["accuracy"] > 0.4


def test_the_phrases_are_read_as_they_stand_in_the_file():
    home = data_folder(None) / "rotten_tomatoes"
    if not home.is_dir():
        pytest.skip("the folder PRIMALSVM_DATA has no rotten_tomatoes")
    read = phrases.read(home.parent)
    assert np.bincount(read.labels).tolist() == [7072, 27273, 79582, 32927, 9206]
    assert len(read.texts) == 156060 and len(np.unique(read.sentences)) == 8529
    assert np.mean(read.y(2) == 0) == pytest.approx(0.730, abs=5e-4)  # what the paper takes for a result


def test_ordinal_names_the_best_strategy(tmp_path):
    done = run("--toy", "--jsonl", str(tmp_path / "rows.jsonl"), module="benchmarks.ordinal")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("bar met") + done.stdout.count("bar missed") == 2
    lines = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert len(lines) == 2 * 11 and all(line["mean_absolute_error"] >= 0 for line in lines)
