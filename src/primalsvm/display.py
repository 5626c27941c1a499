"""Pictures of models and of their training, in scikit-learn's manner: XDisplay.from_estimator(...), then .plot(ax).

    ConvergenceDisplay   the bounds closing on the optimum and the relative gap, for one run or several
    BoundaryDisplay      two features: the boundary, the margins where the score is +-1, the support vectors
    MarginDisplay        how the margins y f(x) are distributed in each class, with the share of errors
    PathDisplay          scores of held-out samples along C, one line for each gamma, and what would be chosen
    TrainingDisplay      objective, accuracy, hyperplane and support vectors along the iterations (seed 004)

A display holds the numbers it draws, so that they can be drawn again or checked. Models may be the last step of a
scikit-learn Pipeline. matplotlib is imported when something is drawn.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .certificate import relative_gap
from .notebook import histories, solved
from .solve import Record

# Okabe and Ito's colours, which colour-blind readers can tell apart, without the yellow that white paper swallows
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "os^Dv<>"
INK = "#444444"
X_LABELS = {"seconds": "seconds of solver time", "passes": "passes over the data", "iteration": "iterations"}


def _pyplot():
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError('primalsvm draws with matplotlib, which is missing: pip install "primalsvm[plot]"') from error
    return plt


def _axes(ax, rows: int, height: float) -> np.ndarray:
    """The axes given, or new ones in a column with one x; an array of `rows`."""
    if ax is None:
        ax = _pyplot().subplots(rows, sharex=True, figsize=(6.4, height), layout="constrained")[1]
    axes = np.atleast_1d(ax)
    if axes.shape != (rows,):
        raise ValueError(f"ax must be None or {rows} matplotlib axes, got {axes.size}.")
    return axes


def _tidy(ax, title: str, *, log_x: bool = False, pad: float = 6, **labels) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    if log_x:
        ax.set_xscale("log", nonpositive="mask")
        ax.grid(True, color="#E6E6E6", linewidth=0.6)
        ax.set_axisbelow(True)
    ax.set_title(title, fontsize="medium", pad=pad)
    ax.set(**labels)


def _colours(n: int) -> list:
    """n colours; beyond the palette, steps of viridis without its yellow end."""
    if n <= len(COLOURS):
        return list(COLOURS[:n])
    return list(_pyplot().get_cmap("viridis")(np.linspace(0.0, 0.88, n)))


def _last_step(model):
    """The fitted classifier itself, where `model` is a Pipeline its last step."""
    last = model[-1] if hasattr(model, "steps") else model
    check_is_fitted(last)
    return last


def _labels(model, n: int, y) -> np.ndarray:
    """y as indices into the classes of the model, checked against the n rows of X."""
    y = np.asarray(y)
    if len(y) != n:
        raise ValueError(f"X and y must have the same length, got {n} and {len(y)}.")
    unknown = np.setdiff1d(y, model.classes_)
    if len(unknown):
        known = ", ".join(str(name) for name in model.classes_)
        raise ValueError(f"y has the label {unknown[0]}, which the model does not know; its classes: {known}.")
    order = np.argsort(model.classes_)  # an OrdinalSVC has them from low to high
    return order[np.searchsorted(model.classes_, y, sorter=order)]


def _leads(scores: np.ndarray) -> np.ndarray:
    """(n, classes): half the lead of each class, its score minus the best other one.

    Two classes have the scores -f and f, so the lead of the true class is y f(x).
    """
    if scores.ndim == 1:
        return np.column_stack([-scores, scores])
    second, first = np.sort(scores, axis=1)[:, -2:].T
    return (scores - np.where(scores == first[:, None], second[:, None], first[:, None])) / 2


def _margins(model, X, y) -> tuple[np.ndarray, np.ndarray]:
    """The lead of the true class of each sample, and the labels."""
    leads = _leads(model.decision_function(X))
    labels = _labels(model, len(leads), y)
    return leads[np.arange(len(labels)), labels], labels


@dataclass
class ConvergenceDisplay:
    """The proven bounds closing on the optimum, and the relative gap between them.

    Parameters
    ----------
    histories : dict of str to sequence of Record
        The best bounds so far at each certificate of a run, by the run's name.
    x : {"seconds", "passes", "iteration"}
    tol : float, default=None
        Where to draw the line that the relative gap must fall below.

    Attributes
    ----------
    ax_ : ndarray of two matplotlib Axes, for the bounds and the relative gap
    figure_ : matplotlib Figure
    lines_ : dict of str to the (primal, dual, gap) lines
    """

    histories: Mapping[str, Sequence[Record]]
    x: str = "seconds"
    tol: float | None = None

    def __post_init__(self):
        if self.x not in X_LABELS:
            raise ValueError(f"x must be one of {', '.join(X_LABELS)}, got {self.x!r}.")
        if not isinstance(self.histories, Mapping):
            raise TypeError(f"histories must be a dict {{name: history}}, got {type(self.histories).__name__}.")
        if not self.histories or not all(len(history) for history in self.histories.values()):
            raise ValueError("ConvergenceDisplay needs at least one history, and in each at least one record.")

    @classmethod
    def from_estimator(cls, estimator, *, x="seconds", ax=None):
        """Draw the history of a fitted model, one line for each of its binary problems; of a search, its best one's."""
        model = solved(_last_step(estimator))
        if not hasattr(model, "history_"):
            raise TypeError(f"{type(model).__name__} keeps no history of its bounds; primalsvm's estimators do.")
        return cls(histories(model), x, model.tol).plot(ax=ax)

    @classmethod
    def from_history(cls, history, *, name="", x="seconds", tol=None, ax=None):
        """Draw one history."""
        return cls({name: history}, x, tol).plot(ax=ax)

    @classmethod
    def from_histories(cls, histories, *, x="seconds", tol=None, ax=None):
        """Draw several histories, {name: history}, for comparison."""
        return cls(histories, x, tol).plot(ax=ax)

    def plot(self, ax=None):
        """Draw on two axes, given or new. Every dot is a certificate."""
        self.ax_ = _axes(ax, 2, 5.6)
        self.figure_ = self.ax_[0].figure
        bounds, gaps = self.ax_
        alone = len(self.histories) == 1
        style: dict[str, Any] = {"marker": ".", "markersize": 5, "linewidth": 1.6}
        self.lines_ = {}
        for (name, history), colour in zip(self.histories.items(), _colours(len(self.histories)), strict=True):
            x = np.array([getattr(record, self.x) for record in history])
            primal, dual = np.array([(record.primal, record.dual) for record in history]).T
            gap = [relative_gap(record.primal, record.dual) for record in history]
            (upper,) = bounds.plot(x, primal, color=colour, **style)
            (lower,) = bounds.plot(x, dual, color=COLOURS[1] if alone else colour, linestyle="--", **style)
            (below,) = gaps.plot(x, gap, color=colour, label=name, **style)
            self.lines_[name] = (upper, lower, below)
            if alone:
                bounds.fill_between(x, dual, primal, color=INK, alpha=0.08, linewidth=0)
        self._dress(bounds, gaps, alone)
        return self

    def _dress(self, bounds, gaps, alone: bool) -> None:
        from matplotlib.lines import Line2D

        records = [record for history in self.histories.values() for record in history]
        shown = [record for record in records if getattr(record, self.x) > 0]
        log_x = len(shown) > 0
        _tidy(bounds, "The optimum lies between the bounds", log_x=log_x, pad=22, ylabel="objective")
        title = "The model is at most this far from the optimum"
        _tidy(gaps, title, log_x=log_x, xlabel=X_LABELS[self.x], ylabel="relative gap")
        if any(record.primal > record.dual for record in records):
            gaps.set_yscale("log", nonpositive="mask")
        # the objective at the start would flatten all the rest; runs on one problem have no dual above any primal
        top = 2.5 * max(min(record.primal for record in records), max(record.dual for record in records))
        top = min(top, 1.05 * max(record.primal for record in shown or records))
        if 0 < top < np.inf:
            bounds.set_ylim(0.0, top)
        first, second = COLOURS[:2] if alone else (INK, INK)
        keys = [Line2D([], [], color=first), Line2D([], [], color=second, linestyle="--")]
        words = ["upper bound: the model's objective", "lower bound: the dual"]
        above = {"loc": "lower center", "bbox_to_anchor": (0.5, 0.98), "ncols": 2}
        bounds.legend(keys, words, fontsize="small", frameon=False, **above)
        if self.tol:
            where = {"xycoords": gaps.get_yaxis_transform(), "xytext": (4, 3), "textcoords": "offset points"}
            gaps.axhline(self.tol, color=INK, linewidth=1.0, linestyle=":")
            gaps.annotate(f"tol = {self.tol:g}", (0.0, self.tol), color=INK, fontsize="small", **where)
        if not alone:
            outside = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)} if len(self.histories) > 5 else {}
            gaps.legend(frameon=False, fontsize="small", **outside)


@dataclass
class BoundaryDisplay:
    """A classifier of two features: its boundary, its margins and its support vectors.

    Two classes: the boundary (score 0), the margins (score -1 and +1, dashed), the samples, and a ring round each
    support vector. More classes: regions, boundaries and samples only, as each binary problem has its own margins.

    Parameters
    ----------
    grid : ndarray (2, resolution)
        Where the model was evaluated, along each feature.
    leads : ndarray (resolution, resolution, n_classes)
        Half the lead of each class there, rows along the second feature; with two classes leads[..., 1] is the score.
    X : ndarray (n, 2)
    labels : ndarray (n,) of indices into `classes`
    classes : ndarray
    support : ndarray of indices into X
    feature_names : sequence of two str

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    contours_ : list of contours: the margin -1, the boundary, the margin +1; or the boundary of each class
    rings_ : what is drawn round the support vectors, or None
    """

    grid: np.ndarray
    leads: np.ndarray
    X: np.ndarray
    labels: np.ndarray
    classes: np.ndarray
    support: np.ndarray
    feature_names: Sequence[str] = ("feature 0", "feature 1")

    @classmethod
    def from_estimator(cls, estimator, X, y, *, support=None, resolution=300, marker_size=26, ax=None):
        """Draw a fitted classifier, any with a decision_function, on its training data.

        `support` are the samples to ring: None takes estimator.support_, [] rings none.
        """
        last = _last_step(estimator)
        frame, X = X, np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=float)
        if X.ndim != 2 or X.shape[1] != 2 or not len(X):
            raise ValueError(f"BoundaryDisplay draws two features; X must have shape (n, 2), got {X.shape}.")
        labels = _labels(estimator, len(X), y)
        if support is None:
            support = getattr(last, "support_", [])
            rows = getattr(last, "n_samples_fit_", getattr(last, "shape_fit_", X.shape)[0])
            if rows != len(X):
                raise ValueError(
                    f"X has {len(X)} rows, but support_ counts those of the {rows} the model was fitted on: "
                    "give the training data, or support=[] to ring none."
                )
        support = np.asarray(support, dtype=int)
        low, high = X.min(axis=0), X.max(axis=0)
        pad = 0.08 * np.where(high > low, high - low, 1.0)
        grid = np.linspace(low - pad, high + pad, resolution).T
        points: Any = np.column_stack([axis.ravel() for axis in np.meshgrid(*grid)])
        if hasattr(frame, "columns"):  # a data frame: the model knows its features by name
            points = type(frame)(dict(zip(frame.columns, points.T, strict=True)))
        leads = _leads(estimator.decision_function(points)).reshape(resolution, resolution, -1)
        names = getattr(estimator, "feature_names_in_", cls.feature_names)
        return cls(grid, leads, X, labels, estimator.classes_, support, names).plot(ax=ax, marker_size=marker_size)

    def plot(self, ax=None, *, marker_size=26):
        """Draw on the axes given or on new ones."""
        self.ax_ = ax = _axes(ax, 1, 5.0)[0]
        self.figure_ = ax.figure
        two = len(self.classes) == 2
        self.contours_, self.rings_ = [], None
        for k, (name, colour) in enumerate(zip(self.classes, _colours(len(self.classes)), strict=True)):
            lead = self.leads[..., k]
            if lead.max() > 0:
                ax.contourf(*self.grid, lead, [0.0, lead.max()], colors=[colour], alpha=0.1)
            if not two:
                self._contour(lead, 0.0)
            dots = {"marker": MARKERS[k % len(MARKERS)], "edgecolor": "white", "linewidth": 0.5, "zorder": 3}
            ax.scatter(*self.X[self.labels == k].T, marker_size, color=colour, label=str(name), **dots)
        if two:
            for level in (-1.0, 0.0, 1.0):
                self._contour(self.leads[..., 1], level)
            if len(self.support):
                ring = {"facecolor": "none", "edgecolor": INK, "linewidth": 1.0, "zorder": 4}
                label = f"support vectors ({len(self.support)})"
                self.rings_ = ax.scatter(*self.X[self.support].T, 3.5 * marker_size, label=label, **ring)
        title = "Boundary (solid) and margins (dashed)" if two else "Regions of the classes"
        _tidy(ax, title, xlabel=self.feature_names[0], ylabel=self.feature_names[1])
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=4, fontsize="small", frameon=False)
        return self

    def _contour(self, values: np.ndarray, level: float) -> None:
        if values.min() < level < values.max():  # matplotlib warns of a level it does not meet
            style = {"linestyles": "--", "linewidths": 1.1} if level else {"linestyles": "-", "linewidths": 1.8}
            self.contours_.append(self.ax_.contour(*self.grid, values, [level], colors=INK, **style))


@dataclass
class MarginDisplay:
    """How far on the right side of the boundary the samples of each class are.

    With two classes the margin of a sample is y f(x). With more it is half the lead of its true class, the score of
    that class minus the best other score, which for the scores -f and f is y f(x) again. Below 0 the sample is
    classified wrongly; below 1 it violates the margin of some one-vs-rest problem.

    Parameters
    ----------
    margins : ndarray (n,)
    labels : ndarray (n,) of indices into `classes`
    classes : ndarray

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    errors_, violations_ : ndarray (n_classes,), shares of margins below 0 and below 1
    """

    margins: np.ndarray
    labels: np.ndarray
    classes: np.ndarray

    @classmethod
    def from_estimator(cls, estimator, X, y, *, ax=None):
        """Draw the margins of a fitted classifier on (X, y), its training data or other."""
        last = _last_step(estimator)
        if len(estimator.classes_) > 2 and getattr(last, "multi_class", "ovr") == "ovo":
            raise ValueError("MarginDisplay needs a score for each class, multi_class='ovr'; votes have no margins.")
        return cls(*_margins(estimator, X, y), estimator.classes_).plot(ax=ax)

    def plot(self, ax=None):
        """Draw a histogram for each class, scaled to its highest bar, one above the other."""
        k = len(self.classes)
        self.ax_ = ax = _axes(ax, 1, 1.5 + 0.9 * min(k, 8))[0]
        self.figure_ = ax.figure
        groups = [self.margins[self.labels == j] for j in range(k)]
        self.errors_ = np.array([np.mean(group < 0) if len(group) else np.nan for group in groups])
        self.violations_ = np.array([np.mean(group < 1) if len(group) else np.nan for group in groups])
        low, high = min(self.margins.min(), -0.5), max(self.margins.max(), 1.5)
        spread = (high - low) / 50
        width = np.ceil(spread) if spread > 1 else 1 / np.floor(1 / spread)  # a bin begins at 0 and, mostly, at 1
        edges = width * np.arange(np.floor(low / width), np.ceil(high / width) + 1)
        for j, (group, colour) in enumerate(zip(groups, _colours(k), strict=True)):
            heights, base = np.histogram(group, edges)[0], k - 1 - j
            bars = base + 0.85 * heights / max(heights.max(), 1)
            ax.stairs(bars, edges, baseline=base, fill=True, color=colour, alpha=0.8)
            share = f"{self.errors_[j]:.1%} wrong\n{self.violations_[j]:.1%} below 1" if len(group) else "no samples"
            where = {"xycoords": ax.get_yaxis_transform(), "fontsize": "small", "color": INK, "va": "center"}
            ax.annotate(share, (1.01, base + 0.3), **where)
        ax.axvline(0.0, color=INK, linewidth=1.4)
        ax.axvline(1.0, color=INK, linewidth=1.1, linestyle="--")
        title = "Margins of each class: errors left of 0, violations left of 1"
        _tidy(ax, title, ylim=(0, k), xlabel="margin y f(x)" if k == 2 else "margin: half the lead of the true class")
        ax.set_yticks(np.arange(k)[::-1] + 0.3, [str(name) for name in self.classes])
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
        return self


class Snapshot(NamedTuple):
    """What a fit that is stopped after `iteration` steps returns."""

    iteration: int
    passes: float
    accuracy: float
    model: Any


@dataclass
class PathDisplay:
    """Cross-validated scores along C, one line for each gamma, with their standard errors and two choices.

    The dot is the best mean score. The diamond is the simplest model within one standard error of it, the dashed line:
    the least C, and of those the least gamma.

    Parameters
    ----------
    Cs, gammas : ndarray (k,), and (g,) or None
    mean, error : ndarray (g, k)
        Mean score of the folds, and its standard error; nan where it was not tried on all of them.
    best, simplest : (place in gammas, place in Cs)
    score_name : str

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    lines_ : list of lines, one for each gamma
    """

    Cs: np.ndarray
    gammas: np.ndarray | None
    mean: np.ndarray
    error: np.ndarray
    best: tuple[int, int]
    simplest: tuple[int, int]
    score_name: str = "accuracy"

    @classmethod
    def from_estimator(cls, estimator, *, ax=None):
        """Draw the search of a fitted LinearSVCCV or SVCCV."""
        search = _last_step(estimator)
        if not hasattr(search, "cv_results_"):
            raise TypeError(f"PathDisplay draws LinearSVCCV and SVCCV, got {type(search).__name__}.")
        points = search.cv_results_["params"]
        Cs, place_C = np.unique([point["C"] for point in points], return_inverse=True)
        gammas, place_gamma = np.unique([point.get("gamma", 0.0) for point in points], return_inverse=True)
        mean, error = (np.full((len(gammas), len(Cs)), np.nan) for _ in range(2))
        mean[place_gamma, place_C] = search.cv_results_["mean_test_score"]
        error[place_gamma, place_C] = search.cv_results_["std_test_score"] / np.sqrt(max(search.n_splits_ - 1, 1))
        chosen = (search.choose(rule) for rule in ("best", "one_standard_error"))
        best, simplest = ((int(place_gamma[k]), int(place_C[k])) for k in chosen)
        has_gamma = "gamma" in points[0]
        name = "accuracy" if search.scoring is None else str(search.scoring)
        return cls(Cs, gammas if has_gamma else None, mean, error, best, simplest, name).plot(ax=ax)

    def plot(self, ax=None):
        """Draw on the axes given or on new ones."""
        (ax,) = _axes(ax, 1, 4.2)
        colours = _colours(len(self.mean))
        self.lines_ = []
        for k, (mean, error) in enumerate(zip(self.mean, self.error, strict=True)):
            name = None if self.gammas is None else f"gamma = {self.gammas[k]:.3g}"
            strong = k in (self.best[0], self.simplest[0])
            self.lines_ += ax.plot(self.Cs, mean, color=colours[k], label=name, linewidth=1.8 if strong else 1.0)
            if strong:
                ax.fill_between(self.Cs, mean - error, mean + error, color=colours[k], alpha=0.15, linewidth=0)
        top, lack = self.mean[self.best], self.error[self.best]
        ax.axhline(top - lack, color=INK, linewidth=0.8, linestyle="--")
        for place, marker, name in ((self.best, "o", "best"), (self.simplest, "D", "within one standard error")):
            label = f"{name}: C = {self.Cs[place[1]]:.3g}"
            if self.gammas is not None:
                label += f", gamma = {self.gammas[place[0]]:.3g}"
            face = INK if marker == "o" else "white"
            ax.plot(self.Cs[place[1]], self.mean[place], marker, ms=7, mfc=face, mec=INK, label=label, zorder=5, ls="")
        _tidy(ax, f"held-out {self.score_name}", log_x=True, xlabel="C", ylabel=self.score_name)
        ax.legend(frameon=False, fontsize="small")
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass
class TrainingDisplay:
    """Objective, accuracy, hyperplane and support vectors along the iterations; two classes.

    Parameters
    ----------
    snapshots : list of Snapshot
    X : array-like (n, d)
    y : array-like (n,)

    Attributes
    ----------
    ax_ : dict of str to matplotlib Axes: "objective", "accuracy" and, with two features, "0" to "3"
    figure_ : matplotlib Figure
    """

    snapshots: list[Snapshot]
    X: Any
    y: Any

    @classmethod
    def from_estimator(cls, estimator, X, y, *, iterations=1000, ax=None):
        """Fit copies of a LinearSVC from scratch, for 1, 2, 4, ... and at last `iterations` steps, and draw them.

        The estimator's own tol and max_iter are not used, and it is not changed.
        """
        if len(np.unique(y)) != 2:
            raise ValueError(f"TrainingDisplay draws two classes, y has {len(np.unique(y))}.")
        if iterations < 1:
            raise ValueError(f"iterations must be 1 or more, got {iterations!r}.")
        snapshots: list[Snapshot] = []
        for steps in [*(2**k for k in range((iterations - 1).bit_length())), iterations]:
            copy = clone(estimator).set_params(max_iter=steps, tol=0.0, warm_start=False)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # to be stopped early is the point
                copy.fit(X, y)
            if not snapshots or copy.n_iter_ > snapshots[-1].iteration:
                snapshots.append(Snapshot(copy.n_iter_, copy.history_[-1].passes, copy.score(X, y), copy))
            if copy.n_iter_ < steps:  # as far as the solver can go
                break
        return cls(snapshots, X, y).plot(ax=ax)

    def plot(self, ax=None):
        """Draw on the axes given, those of the hyperplanes first, or on a new figure."""
        plane = np.shape(self.X)[1] == 2
        picks = np.unique(np.linspace(0, len(self.snapshots) - 1, 4 if plane else 0).round().astype(int))
        rows = [[str(j) for j in range(len(picks)) for _ in range(12 // len(picks))]] if plane else []
        rows.append(["objective"] * 6 + ["accuracy"] * 6)
        names = list(dict.fromkeys(name for row in rows for name in row))
        if ax is None:
            size = (11.0, 3.2 * len(rows))
            self.figure_, self.ax_ = _pyplot().subplot_mosaic(rows, figsize=size, layout="constrained")
        else:
            self.ax_ = dict(zip(names, _axes(ax, len(names), 0.0), strict=True))
            self.figure_ = self.ax_["objective"].figure
        for j, pick in enumerate(picks):
            self._draw_hyperplane(self.ax_[str(j)], self.snapshots[pick])
        if plane:
            for panel in list(self.ax_.values())[1 : len(picks)]:
                panel.set_ylabel("")
            keys, words = self.ax_["0"].get_legend_handles_labels()
            words = [word.split(" (")[0] if word.startswith("support") else word for word in words]
            if ax is None:
                self.figure_.legend(keys, words, loc="outside upper center", ncols=3, frameon=False)
            else:  # the figure is not ours
                self.ax_["0"].legend(keys, words, frameon=False, fontsize="small")
        self._draw_curves(self.ax_["objective"], self.ax_["accuracy"])
        return self

    def _draw_hyperplane(self, ax, snapshot: Snapshot) -> None:
        """The support vectors of the moment: samples at or inside the margins, where the loss acts."""
        margins, _ = _margins(snapshot.model, self.X, self.y)
        support = np.flatnonzero(margins <= 1.0 + 1e-3)  # the solver meets a margin of 1 up to its accuracy
        BoundaryDisplay.from_estimator(snapshot.model, self.X, self.y, support=support, marker_size=14, ax=ax)
        ax.get_legend().remove()
        steps = f"{snapshot.iteration} iteration{'s' if snapshot.iteration > 1 else ''}"
        ax.set_title(f"{steps}\n{len(support)} support vectors", fontsize="medium")

    def _draw_curves(self, objective, accuracy) -> None:
        history = [record for record in self.snapshots[-1].model.history_ if record.iteration > 0]
        passes, primal, dual = np.array([(record.passes, record.primal, record.dual) for record in history]).T
        objective.plot(passes, primal, color=COLOURS[0], marker=".", label="primal, best so far")
        objective.plot(passes, dual, color=COLOURS[1], marker=".", linestyle="--", label="dual, best so far")
        objective.legend(frameon=False, fontsize="small")
        shares = [100 * snapshot.accuracy for snapshot in self.snapshots]
        accuracy.plot([snapshot.passes for snapshot in self.snapshots], shares, color=COLOURS[2], marker="o")
        accuracy.set_ylim(min(min(shares), 90.0) - 2.0, 101.0)
        passes_label = X_LABELS["passes"]
        _tidy(objective, "Primal and dual meet at the optimum", log_x=True, xlabel=passes_label, ylabel="objective")
        _tidy(accuracy, "Accuracy on the training data", log_x=True, xlabel=passes_label, ylabel="correct, in %")
