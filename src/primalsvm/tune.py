"""What `primalsvm tune` does besides reading and writing: the search of its options, its table and its picture."""

from pathlib import Path
from typing import Any

import numpy as np

from .cross_validation import SVCCV, LinearSVCCV, _Search


def make_search(
    kernel: str, Cs: str, folds: str, *, gammas: str | None, memory_limit: float | None, **options
) -> _Search:
    """LinearSVCCV, or SVCCV for a kernel; options that are None have the default of the class."""
    given = {name: value for name, value in options.items() if value is not None}
    if not (folds == "loo" or (folds.isdecimal() and int(folds) >= 2)):
        raise ValueError(f"folds must be 2 or more, or loo, got {folds!r}.")
    given["cv"] = folds if folds == "loo" else int(folds)
    if kernel == "linear":
        if gammas is not None or memory_limit is not None:
            option = "--memory-limit" if gammas is None else "--gamma"
            raise ValueError(f"{option} goes with a kernel; add for instance --kernel rbf, or leave it out.")
        return LinearSVCCV(Cs=parse_grid("C", Cs), **given)
    if gammas is not None:
        given["gammas"] = parse_grid("gamma", gammas)
    if memory_limit is not None:
        given["memory_limit"] = memory_limit
    return SVCCV(kernel, Cs=parse_grid("C", Cs), **given)


def parse_grid(name: str, text: str) -> int | list[float]:
    """ "7" is a number of points; "0.1,1,10" and "2.5" are the points themselves."""
    try:
        return int(text) if text.strip().isdecimal() else [float(word) for word in text.split(",")]
    except ValueError:
        raise ValueError(f"{name} must be a number of values, or values such as 0.1,1,10, got {text!r}.") from None


def grid_facts(search: _Search) -> dict[str, Any]:
    """The lines of the report that are about the search."""
    table, best = search.cv_results_, search.best_index_
    tried, folds = np.count_nonzero(np.isfinite(table["mean_test_score"])), search.n_splits_
    fits = f"{tried}" if search.cv == "loo" else f"{tried * folds}, on {folds} folds"
    error = table["std_test_score"][best] / np.sqrt(max(search.n_splits_ - 1, 1))
    fields = ("mean_test_score", "std_test_score", "max_relative_gap", "mean_fit_time")
    rows = [
        dict(point) | {field: float(table[field][k]) for field in fields} for k, point in enumerate(table["params"])
    ]
    proven = f"every one proven to a relative gap of {np.nanmax(table['max_relative_gap']):.1e}"
    return {
        "grid points": f"{tried} of {len(rows)}",
        "fits": f"{fits}; {proven}",
        **{f"best {name}": f"{value:.4g}" for name, value in search.best_params_.items()},
        "score": search.best_score_,
        "+-": f"{error:.2%}, one standard error",
        "grid": rows,
    }


def print_grid(search: _Search) -> None:
    """Scores in percent: a line for each C, a column for each gamma."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    results = search.cv_results_
    points, mean = results["params"], results["mean_test_score"]
    error = results["std_test_score"] / np.sqrt(max(search.n_splits_ - 1, 1))
    gammas = sorted({point["gamma"] for point in points if "gamma" in point})
    table = Table(box=box.SIMPLE_HEAD, title="right, in %, of those held out", title_justify="left")
    for name in ("C", *(f"gamma {gamma:.3g}" for gamma in gammas)) if gammas else ("C", "right", "+-", "worst gap"):
        table.add_column(name, justify="right")
    for C in sorted({point["C"] for point in points}):
        places = [k for k, point in enumerate(points) if point["C"] == C]
        cells = [
            f"[bold]{100 * mean[k]:.2f}[/bold] *" if k == search.best_index_ else f"{100 * mean[k]:.2f}" for k in places
        ]
        more = [] if gammas else [f"{100 * error[places[0]]:.2f}", f"{results['max_relative_gap'][places[0]]:.0e}"]
        table.add_row(f"{C:.4g}", *cells, *more)
    Console().print(table)


def draw(search: _Search, path: Path) -> None:
    """The scores along C, as a file; no window is opened."""
    import matplotlib

    matplotlib.use("Agg")
    from .display import PathDisplay

    PathDisplay.from_estimator(search).figure_.savefig(path, dpi=150)
