"""A picture of a race, in the manner of `display`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .display import INK, MARKERS, _axes, _colours, _pyplot, _tidy
from .race import race
from .race_result import Race, percent

GREYS = ("#222222", "#888888")


@dataclass
class RaceDisplay:
    """How near to the optimum each solver is proven to be, against seconds and against passes over the data.

    Dashed lines with open markers are scikit-learn's, a dot for each fit; passes they do not count. All are measured by
    the best lower bound that any of them has proven.

    Parameters
    ----------
    race : Race

    Attributes
    ----------
    ax_ : ndarray of two matplotlib Axes, for seconds and for passes
    figure_ : matplotlib Figure
    lines_ : dict of str to the lines of a solver, against seconds and, for ours, against passes
    """

    race: Race

    @classmethod
    def from_estimator(cls, estimator, X, y, *, ax=None, **options):
        """Race solvers on the problem of an estimator, fitted or not, and draw it; options as those of `race`."""
        return cls(race(X, y, estimator=estimator, **options)).plot(ax=ax)

    @classmethod
    def from_race(cls, race, *, ax=None):
        """Draw a race."""
        return cls(race).plot(ax=ax)

    def plot(self, ax=None):
        """Draw on two axes, given or new."""
        if ax is None:
            ax = _pyplot().subplots(1, 2, sharey=True, figsize=(10.0, 4.6), layout="constrained")[1]
        self.ax_ = _axes(ax, 2, 0.0)
        self.figure_ = self.ax_[0].figure
        names = [runner.name for runner in self.race.runners]
        self.lines_: dict[str, list] = {name: [] for name in names}
        looks = dict(zip(names, self._looks(), strict=True))
        for plot, panel in zip(self.race.plots(), self.ax_, strict=True):
            for name, (x, y) in plot.curves.items():
                self.lines_[name] += panel.plot(x, np.where(y > 0, y, np.nan), label=name, linewidth=1.6, **looks[name])
            for target in self.race.targets:
                panel.axhline(target, color=INK, linewidth=0.8, linestyle=":", zorder=1)
            _tidy(panel, plot.title, log_x=True, xlabel=plot.x)
            if any((y > 0).any() for _, y in plot.curves.values()):
                panel.set_yscale("log", nonpositive="mask")
        self.ax_[0].set_ylabel(plot.y)
        for target in self.race.targets:
            where = {"xycoords": self.ax_[0].get_yaxis_transform(), "xytext": (3, 2), "textcoords": "offset points"}
            self.ax_[0].annotate(percent(target), (0.0, target), fontsize="small", color=INK, **where)
        keys, words = self.ax_[0].get_legend_handles_labels()
        above = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "borderaxespad": 0.0}
        self.ax_[1].legend(keys, words, frameon=False, fontsize="small", **above)
        return self

    def _looks(self) -> Iterator[dict[str, Any]]:
        """Ours have colours, others shades of grey."""
        n = sum(runner.ours for runner in self.race.runners)
        colours = [*_colours(n), *(GREYS[k % len(GREYS)] for k in range(len(self.race.runners) - n))]
        for k, (runner, colour) in enumerate(zip(self.race.runners, colours, strict=True)):
            looks = {"color": colour, "marker": MARKERS[k % len(MARKERS)], "markersize": 4}
            yield looks if runner.ours else looks | {"markersize": 5, "linestyle": "--", "markerfacecolor": "white"}
