"""A search over C and gamma: its scores and its choice."""

import numpy as np

from ..experiments.lab import Table
from .charts import View, summarise
from .page import Page


def standard_errors(search) -> np.ndarray:
    """Standard errors of the mean scores."""
    return search.cv_results_["std_test_score"] / np.sqrt(max(search.n_splits_ - 1, 1))


def write_search(page: Page, search) -> None:
    results, errors = search.cv_results_, standard_errors(search)
    points, mean = results["params"], np.asarray(results["mean_test_score"])
    tried = np.isfinite(mean)
    folds = "leaving out one row at a time" if search.cv == "loo" else f"on {search.n_splits_} folds"
    worst = np.nanmax(results["max_relative_gap"])
    rule = (
        "the simplest model within one standard error of the best" if search.choice != "best" else "the best mean score"
    )
    page.section(
        "The search",
        f"{np.count_nonzero(tried)} of {len(points)} points were tried, {folds}. Every fit is proven to a relative gap "
        f"of {worst:.1e}. Chosen: {rule}.",
    )
    name = "right, in %" if search.scoring is None else str(search.scoring)
    scale = 100.0 if search.scoring is None else 1.0
    view = View("", {"title": "C", "log": True}, {"title": name})
    gammas = sorted({point["gamma"] for point in points if "gamma" in point})
    for k, gamma in enumerate(gammas or [None]):
        mine = [i for i, point in enumerate(points) if point.get("gamma") == gamma]
        mine.sort(key=lambda i: points[i]["C"])
        key = view.key(name if gamma is None else f"gamma {gamma:.3g}", k)
        view.draw(key, [points[i]["C"] for i in mine], scale * mean[mine], error=scale * errors[mine])
    best = search.best_index_
    key = view.key("chosen", 7)
    view.draw(key, [points[best]["C"]], [scale * mean[best]], kind="marks", symbol="circle-open", size=18)
    view.summary = summarise(view)
    page.chart(
        "Scores of the rows held out",
        [view],
        "Bars are standard errors of the means over the folds; the ring is the choice.",
    )
    order = np.flatnonzero(tried)[np.argsort(-mean[tried], kind="stable")]
    lines = [
        [
            ", ".join(f"{name} {value:.4g}" for name, value in points[i].items()),
            f"{scale * mean[i]:.2f}" if search.scoring is None else f"{mean[i]:.4g}",
            f"{scale * errors[i]:.2g}",
            f"{results['max_relative_gap'][i]:.1e}",
            f"{results['mean_fit_time'][i]:.3g}",
        ]
        for i in order
    ]
    header = ["point", name, "standard error", "largest relative gap", "seconds a fit"]
    page.table(Table("The grid, the best first", header, lines), chosen=list(order).index(best))
