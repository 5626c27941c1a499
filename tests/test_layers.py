"""Imports go one way: down. A module may import from the layers below its own and from its own."""

import ast
from pathlib import Path

import pytest

import primalsvm

LAYERS = (
    {"losses", "rows"},
    {"triangles"},
    {"cpu_kernels", "working_sets", "box_sums"},
    {"crew"},
    {"matrix", "piecewise", "simplex_qp", "box_qp", "balls", "kernels"},
    {"kernel_matrix", "sparse_kernel", "tree_kernel", "expansion", "chunks", "reduced", "gamma", "repeated_kernel"},
    {"problem", "kernel_rows"},
    {"newton_path", "gaps", "low_rank"},
    {"kernel_system", "basis_choice"},
    {"kernel_newton", "left_out"},
    {"certificate"},
    {"solve"},
    {"ascent"},
    {"solvers"},
    {"multiclass", "model_files", "readers", "chunk_files", "side_by_side"},
    {"calibration"},
    {"classifier", "criterion", "notebook"},
    {"approximation", "small_parts"},
    {"linear_svc", "svc"},
    {"ordinal_svc"},
    {
        "claims",
        "paths",
        "cross_validation",
        "loo",
        "tuned_svc",
        "persistence",
        "text",
        "display",
        "relevance",
        "foreign_models",
        "explain",
    },
    {"evaluation", "explain_display"},
    {"demo", "console", "experiments", "race", "race_display", "race_result", "report", "rivals"},
    {"commands"},
    {"cli"},
    {"__main__"},
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
ROOT = Path(primalsvm.__file__).parent
FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def layer_of(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(path):
    """The package's own modules that a file imports, wherever in the file."""
    depth = len(path.relative_to(ROOT).parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == depth:
            names = [node.module.split(".")[0]] if node.module else [alias.name for alias in node.names]
            yield from names
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("primalsvm."):
            yield node.module.split(".")[1]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_down(path):
    mine = LEVEL[layer_of(path)]
    for name in imported(path):
        if name in LEVEL:
            assert LEVEL[name] <= mine, f"{path.name} imports {name}, which lies above it"


def test_importing_the_package_loads_nothing_that_takes_long():
    import subprocess
    import sys

    code = "import sys, primalsvm; sys.exit(any(name in sys.modules for name in ('numba', 'matplotlib', 'sklearn')))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
