"""The benchmarks run, and write what they promise. Nothing is said about time: this is no measurement."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("liblinear", reason="LIBLINEAR's own package is the benchmark's rival")

ROOT = Path(__file__).resolve().parent.parent
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


def run(*arguments, benchmark="passes"):
    command = [sys.executable, "-m", f"benchmarks.{benchmark}", *arguments]
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
    done = run("--toy", "--output", str(tmp_path), "--jsonl", str(records), benchmark="hyperpass")
    assert done.returncode == 0, done.stderr
    for method in ("hyperpass", "hyperpass from Pegasos", "hyperpass as published", "Pegasos", "cutting planes"):
        assert done.stdout.count(f"\n{method} ") >= 2
    for name in ("gap_iterations", "gap_products", "products_per_step", "start"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    for record in map(json.loads, records.read_text().splitlines()):
        assert record["iteration"] >= 1 and record["passes"] > 0 and record["seconds"] > 0
