"""Pictures of what `explain` finds, in the manner of `display`.

WeightsDisplay         the heaviest features for and against each class, a panel for each
ContributionsDisplay   what each word of a text, or feature of a sample, adds to the score of each class
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .display import COLOURS, INK, _pyplot, _tidy
from .explain import Contributions, Weights, contributions, heaviest, label_text

FOR, AGAINST = COLOURS[0], COLOURS[1]
LONGEST = 32  # characters of a name; the middle of longer ones is left out
LINE = 0.24  # inches


@dataclass
class WeightsDisplay:
    """The heaviest features for and against each class.

    Parameters
    ----------
    weights : dict of class or boundary to Weights

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes, one for each class
    figure_ : matplotlib Figure
    bars_ : dict of class or boundary to the bars, from the top
    """

    weights: Mapping[Any, Weights]

    def __post_init__(self):
        if not self.weights:
            raise ValueError("WeightsDisplay needs the weights of one class at least.")

    @classmethod
    def from_estimator(cls, estimator, *, k=8, names=None, ax=None):
        """Draw the k heaviest features for, and the k against, each class of a fitted linear model."""
        return cls(heaviest(estimator, k, names)).plot(ax=ax)

    def plot(self, ax=None):
        """Draw on the axes given, one for each class, or on new ones."""
        panels = [[*weights.for_, *reversed(weights.against)] for weights in self.weights.values()]
        columns = min(3, len(panels)) if len(panels) != 4 else 2
        lines = math.ceil(len(panels) / columns)
        titles = [_title(label, weights.opposite, LONGEST) for label, weights in self.weights.items()]
        width = _width([name for panel in panels for name, _ in panel]) + max(2.4, *map(_title_width, titles))
        size = width * columns, lines * (0.75 + LINE * max(2, *map(len, panels)))
        self.ax_ = axes = _panels(ax, len(panels), columns, size)
        self.figure_ = axes[0].figure
        self.bars_ = {}
        # one scale for all: a class with small weights should look like one
        largest = max((abs(weight) for panel in panels for _, weight in panel), default=0.0) or 1.0
        for panel, label, title, one in zip(panels, self.weights, titles, axes, strict=True):
            self.bars_[label] = _bars(one, [weight for _, weight in panel])
            one.set_yticks(range(len(panel)), [_short(name) for name, _ in panel], fontsize="small")
            _dress(one, title, len(panel), (-1.08 * largest, 1.08 * largest))
            if not panel:
                one.annotate("all weights are 0", (0.5, 0.4), xycoords="axes fraction", ha="center", color=INK)
        two = len(panels) == 1 and next(iter(self.weights.values())).opposite is not None
        for one in axes[-columns:]:
            one.set_xlabel("weight" if two else "weight: against  ←    →  for", fontsize="small")
        return self


@dataclass
class ContributionsDisplay:
    """What each word of a text, in its order, or each feature of a sample adds to the score of each class.

    Parameters
    ----------
    contributions : Contributions
    max_features : int, default=20
        Lines to draw, at most; the others, which add least, are summed up in one more.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes, one for each class or boundary, side by side
    figure_ : matplotlib Figure
    bars_ : dict of class or boundary to the bars; the intercept has none, it would dwarf them, and stands below
    names_ : list of str, what the bars belong to, from the top
    """

    contributions: Contributions
    max_features: int = 20

    def __post_init__(self):
        if self.max_features < 1:
            raise ValueError(f"max_features must be 1 or more, got {self.max_features!r}.")

    @classmethod
    def from_estimator(cls, estimator, sample, *, max_features=20, names=None, ax=None):
        """Draw what a fitted linear model makes of one text or row."""
        return cls(contributions(estimator, sample, names), max_features).plot(ax=ax)

    def plot(self, ax=None):
        """Draw on the axes given, one for each class or boundary, or on new ones."""
        found = self.contributions
        shown = found.largest(self.max_features)
        rest = set(found.order) - set(shown)
        self.names_ = [*shown, *([f"({len(rest)} others)"] if rest else [])]
        values = {}
        for label in found.scores:
            added = found.added(label)
            others = [math.fsum(added[name] for name in rest)] if rest else []
            values[label] = [*(added[name] for name in shown), *others]
        n, k = len(self.names_), len(values)
        titles = [_title(label, score.opposite, 16) for label, score in found.scores.items()]
        size = _width(self.names_) + max(3.6, k * max(1.45, *map(_title_width, titles))), 1.5 + LINE * max(n, 2)
        self.ax_ = axes = _panels(ax, k, k, size, sharey=True)
        self.figure_ = axes[0].figure
        self.bars_ = {}
        largest = max((abs(value) for row in values.values() for value in row), default=0.0) or 1.0
        for (label, score), title, panel in zip(found.scores.items(), titles, axes, strict=True):
            self.bars_[label] = _bars(panel, values[label])
            _dress(panel, title, n, (-1.08 * largest, 1.08 * largest))
            below = f"intercept {score.intercept:+.2f}\nscore {score.score:+.2f}".replace("-", "\N{MINUS SIGN}")
            panel.set_xlabel(below, fontsize="small")
            if label == found.prediction and score.opposite is None:
                panel.title.set_fontweight("bold")
        axes[0].set_yticks(range(n), [_short(name) for name in self.names_], fontsize="small")
        if ax is None:
            self.figure_.suptitle(f"prediction: {_short(found.prediction)}", fontsize="medium")
        return self


def _panels(ax, n: int, columns: int, size: tuple[float, float], sharey: bool = False) -> np.ndarray:
    """The axes given, or new ones in lines of so many; an array of n."""
    if ax is None:
        lines = math.ceil(n / columns)
        grid = _pyplot().subplots(lines, columns, figsize=size, sharey=sharey, squeeze=False, layout="constrained")[1]
        for spare in grid.ravel()[n:]:
            spare.remove()
        return grid.ravel()[:n]
    axes = np.atleast_1d(ax)
    if axes.shape != (n,):
        raise ValueError(f"ax must be None or {n} matplotlib axes, one for each class, got {axes.size}.")
    return axes


def _bars(ax, values):
    colours = [FOR if value > 0 else AGAINST for value in values]
    return ax.barh(range(len(values)), values, color=colours, height=0.72, zorder=2)


def _dress(ax, title: str, n: int, limits: tuple[float, float]) -> None:
    _tidy(ax, title, xlim=limits, ylim=(n - 0.4, -0.6))
    ax.grid(axis="y", color="#EEEEEE", linewidth=0.8, zorder=0)  # leads the eye from a name to its bar
    ax.axvline(0.0, color=INK, linewidth=0.8, zorder=3)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", labelsize="small")
    ax.locator_params(axis="x", nbins=4)


def _title(label, opposite, longest: int) -> str:
    return _short(label, longest) if opposite is None else f"{_short(opposite, 24)}  ←    →  {_short(label, 24)}"


def _title_width(title: str) -> float:
    """Inches."""
    return 0.09 * len(title)


def _width(names: list[str]) -> float:
    """Inches that names take."""
    return 0.3 + 0.075 * max((min(len(name), LONGEST) for name in names), default=0)


def _short(name, longest: int = LONGEST) -> str:
    """Without its middle, where it is long; a bare "$" would begin a formula."""
    name = " ".join(label_text(name).split())
    half = (longest - 1) // 2
    return (name if len(name) <= longest else f"{name[:half]}…{name[-half:]}").replace("$", r"\$")
