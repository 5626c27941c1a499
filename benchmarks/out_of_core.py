r"""Training from files larger than the memory limit: seconds, passes over the file, peak memory, proven gap.

    python -m benchmarks.out_of_core [--rows N] [--features D] [--files npy parquet svmlight] [--losses ...]
                                     [--memory-limits 100M 2G] [--jobs J] [--folder DIR] [--jsonl FILE] [--toy]

Random rows and noisy labels are written to a temporary folder, block by block. Each line of the table is one
`primalsvm train FILE` in a fresh process: seconds from its start to its end, imports and reading included, those of the
processor, those of the fit alone, and the largest resident memory it ever had (getrusage). The bar: 3 000 000 x 20 rows
below 2 GB.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import dump_svmlight_file

from . import commit

BLOCK = 100_000
PROGRAM = [sys.executable, "-c", "from primalsvm.cli import main; main()", "train"]


def blocks(rows: int, features: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    w = rng.standard_normal(features)
    for begin in range(0, rows, BLOCK):
        X = rng.standard_normal((min(BLOCK, rows - begin), features))
        yield X, np.where(X @ w + 2 * rng.standard_normal(len(X)) + 0.5 > 0, 1.0, -1.0)


def write_npy(folder: Path, rows: int, features: int) -> list[str]:
    """Not through a memory map: its pages would count as memory of this process, and of those it starts."""
    with open(folder / "X.npy", "wb") as X_file, open(folder / "y.npy", "wb") as y_file:
        for file, shape in ((X_file, (rows, features)), (y_file, (rows,))):
            header = {"descr": "<f8", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
        for X, y in blocks(rows, features):
            X.tofile(X_file)
            y.tofile(y_file)
    return [str(folder / "X.npy"), "--labels", str(folder / "y.npy")]


def write_parquet(folder: Path, rows: int, features: int) -> list[str]:
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    schema = pa.schema([(f"f{j}", pa.float64()) for j in range(features)] + [("label", pa.float64())])
    with ParquetWriter(folder / "X.parquet", schema) as writer:
        for X, y in blocks(rows, features):
            writer.write_table(pa.table([*X.T, y], schema=schema))
    return [str(folder / "X.parquet")]


def write_svmlight(folder: Path, rows: int, features: int) -> list[str]:
    with open(folder / "X.svm", "wb") as file:
        for X, y in blocks(rows, features):
            dump_svmlight_file(X, y, file, zero_based=False)
    return [str(folder / "X.svm")]


WRITERS = {"npy": write_npy, "parquet": write_parquet, "svmlight": write_svmlight}


def train(arguments: list[str]) -> dict[str, Any]:
    """What the command line reports, with the process's seconds and its largest memory in MB."""
    begin = time.perf_counter()
    process = subprocess.Popen([*PROGRAM, *arguments, "--json"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    output = process.stdout.read()
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)}: ended with {process.returncode}")
    unit = 1 if sys.platform == "darwin" else 1024
    seen = {"total": time.perf_counter() - begin, "cpu_seconds": usage.ru_utime + usage.ru_stime}
    return json.loads(output) | seen | {"peak_MB": usage.ru_maxrss * unit / 1e6}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--files", nargs="+", choices=WRITERS, default=["npy", "parquet"])
    parser.add_argument("--losses", nargs="+", default=["squared_hinge", "hinge"])
    parser.add_argument("--memory-limits", nargs="+", default=["100M", "2G"], help="below and above the file's size")
    parser.add_argument("--jobs", default="1", help="threads")
    parser.add_argument("--folder", help="where the temporary folder is made; tmpfs would be memory")
    parser.add_argument("--jsonl", default=os.devnull, help="append one JSON line per run to this file")
    parser.add_argument("--toy", action="store_true", help="small: seconds, and no measurement")
    options = parser.parse_args(arguments)
    if options.toy:
        options.rows, options.files, options.losses, options.memory_limits = 3000, list(WRITERS), ["hinge"], ["0"]
    columns = f"{'file':10}{'MB':>7}  {'loss':14}{'limit':>7}{'total s':>9}{'cpu s':>7}{'fit s':>7}"
    print(f"{options.rows} x {options.features} rows, {options.jobs} thread(s)")
    print(f"{columns}{'passes':>8}{'peak MB':>9}   gap", flush=True)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder, open(options.jsonl, "a") as jsonl:
        for kind in options.files:
            data = WRITERS[kind](Path(folder), options.rows, options.features)
            size = Path(data[0]).stat().st_size / 1e6
            for loss in options.losses:
                for limit in options.memory_limits:
                    seen = train([*data, "--loss", loss, "--memory-limit", limit, "--jobs", options.jobs])
                    passes = f"{seen['passes']:8.1f}" if "passes" in seen else f"{'memory':>8}"
                    seconds = f"{seen['total']:9.1f}{seen['cpu_seconds']:7.1f}{seen['seconds']:7.1f}"
                    facts = f"{seconds}{passes}{seen['peak_MB']:9.0f}   {seen['relative_gap']:.1e}"
                    print(f"{kind:10}{size:7.0f}  {loss:14}{limit:>7}{facts}", flush=True)
                    line = {"commit": commit(), "file": kind, "file_MB": size, "loss": loss, "memory_limit": limit}
                    print(json.dumps(line | seen), file=jsonl, flush=True)


if __name__ == "__main__":
    main()
