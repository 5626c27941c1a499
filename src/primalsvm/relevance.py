"""A picture of which features a TunedSVC uses, in the manner of `display`."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .display import COLOURS, INK, _axes, _last_step, _tidy


@dataclass
class RelevanceDisplay:
    """The relevance of each feature, the largest on top; those at 0 are counted, not drawn.

    Parameters
    ----------
    relevances : ndarray (n_features,)
    feature_names : sequence of str
    max_features : int, default=20
        Bars to draw, at most.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    bars_ : the bars
    order_ : ndarray, the features that are drawn, from the top
    """

    relevances: np.ndarray
    feature_names: Sequence[str]
    max_features: int = 20

    def __post_init__(self):
        self.relevances = np.asarray(self.relevances, dtype=float)
        if self.relevances.ndim != 1 or len(self.feature_names) != len(self.relevances):
            raise ValueError(
                f"RelevanceDisplay needs a name for each relevance, got {len(self.feature_names)} names and relevances "
                f"of shape {self.relevances.shape}."
            )
        if self.max_features < 1:
            raise ValueError(f"max_features must be 1 or more, got {self.max_features!r}.")

    @classmethod
    def from_estimator(cls, estimator, *, max_features=20, ax=None):
        """Draw the relevances of a fitted TunedSVC."""
        last = _last_step(estimator)
        if not hasattr(last, "relevances_"):
            raise ValueError(f"{type(last).__name__} has no relevances_; RelevanceDisplay draws those of a TunedSVC.")
        names = getattr(last, "feature_names_in_", [f"feature {j}" for j in range(len(last.relevances_))])
        return cls(last.relevances_, names, max_features).plot(ax=ax)

    def plot(self, ax=None):
        """Draw on the axes given or on new ones."""
        order = np.argsort(-self.relevances, kind="stable")
        used = int(np.count_nonzero(self.relevances))
        self.order_ = order = order[: min(self.max_features, max(used, 1))]
        self.ax_ = ax = _axes(ax, 1, 1.4 + 0.28 * len(order))[0]
        self.figure_ = ax.figure
        self.bars_ = ax.barh(np.arange(len(order)), self.relevances[order], color=COLOURS[0], height=0.7)
        ax.set_yticks(np.arange(len(order)), [str(self.feature_names[j]) for j in order])
        ax.invert_yaxis()
        left = [f"{used - len(order)} more are smaller"] if used > len(order) else []
        left += [f"{len(self.relevances) - used} are 0"] if used < len(self.relevances) else []
        if left:
            where = {"xycoords": "axes fraction", "ha": "right", "va": "bottom", "color": INK, "fontsize": "small"}
            ax.annotate("; ".join(left), (0.99, 0.02), **where)
        _tidy(ax, "Relevance of the features", xlabel="gamma of the feature / the largest gamma")
        return self
