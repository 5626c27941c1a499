r"""Losses: the facts the rest of the package needs of l, and nothing else.

A loss is a convex, non-increasing, piecewise quadratic function l of the margin m. Every one here has

    value(m)       l(m)
    slope(m)       l'(m), at a kink the left one (the subgradient of larger size)
    curvature(m)   l''(m)
    conjugate(s)   l*(s) = sup_m s m - l(m), plus infinity outside its domain

The dual sees a loss through three numbers only. With a = alpha / c, on 0 <= a <= bound,

    r(a) = -l*(-a) = tilt a - bend / 2 a^2

| loss          | l(m)                                                      | tilt  | bend | bound    |
|---------------|-----------------------------------------------------------|-------|------|----------|
| hinge         | max(0, 1 - m)                                             | 1     | 0    | 1        |
| squared hinge | max(0, 1 - m)^2                                           | 1     | 1/2  | infinity |
| Huber(h)      | 0 over 1+h; (1+h-m)^2 / 4h where |1-m| <= h; 1 - m below  | 1 + h | 2 h  | 1        |

A loss knows no X, no kernel and no solver; compiled code receives the three numbers.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
EPS = 2.0**-52


class Loss:
    """What every loss has in common: the dual form that its three numbers give."""

    name: ClassVar[str]
    smooth: ClassVar[bool]  # is l' continuous?
    lipschitz: ClassVar[bool]  # is |l'| <= 1?
    bound: ClassVar[float]

    @property
    def tilt(self) -> float:
        raise NotImplementedError

    @property
    def bend(self) -> float:
        raise NotImplementedError

    def value(self, margins: Array) -> Array:
        raise NotImplementedError

    def slope(self, margins: Array) -> Array:
        raise NotImplementedError

    def curvature(self, margins: Array) -> Array:
        raise NotImplementedError

    @property
    def kinks(self) -> tuple[tuple[float, float, float], ...]:
        """Where l changes its formula: (margin, jump of l', jump of l'') from left to right."""
        raise NotImplementedError

    def conjugate(self, s: Array) -> Array:
        """l*(s); finite only for -bound <= s <= 0."""
        s = np.asarray(s, dtype=np.float64)
        inside = (s <= 0) & (s >= -self.bound)
        a = np.where(inside, -s, 0.0)
        return np.where(inside, self.bend / 2 * a * a - self.tilt * a, np.inf)


@dataclass(frozen=True)
class Hinge(Loss):
    """max(0, 1 - m)"""

    name: ClassVar[str] = "hinge"
    smooth: ClassVar[bool] = False
    lipschitz: ClassVar[bool] = True
    tilt = 1.0  # type: ignore[assignment]
    bend = 0.0  # type: ignore[assignment]
    bound: ClassVar[float] = 1.0
    kinks = ((1.0, 1.0, 0.0),)  # type: ignore[assignment]

    def value(self, margins):
        return np.maximum(0.0, 1.0 - margins)

    def slope(self, margins):
        return np.where(margins <= 1.0, -1.0, 0.0)

    def curvature(self, margins):
        return np.zeros_like(margins)


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """max(0, 1 - m)^2"""

    name: ClassVar[str] = "squared_hinge"
    smooth: ClassVar[bool] = True
    lipschitz: ClassVar[bool] = False
    tilt = 1.0  # type: ignore[assignment]
    bend = 0.5  # type: ignore[assignment]
    bound: ClassVar[float] = np.inf
    kinks = ((1.0, 0.0, -2.0),)  # type: ignore[assignment]

    def value(self, margins):
        return np.maximum(0.0, 1.0 - margins) ** 2

    def slope(self, margins):
        return -2.0 * np.maximum(0.0, 1.0 - margins)

    def curvature(self, margins):
        return np.where(margins < 1.0, 2.0, 0.0)


@dataclass(frozen=True)
class Huber(Loss):
    """The hinge rounded off over |1 - m| <= h (Chapelle 2007, eq. 2.9 and Fig. 3); within h / 4 of it everywhere."""

    name: ClassVar[str] = "huber"
    smooth: ClassVar[bool] = True
    lipschitz: ClassVar[bool] = True
    bound: ClassVar[float] = 1.0
    h: float = 0.5

    def __post_init__(self):
        if not (np.isfinite(self.h) and self.h > 0):
            raise ValueError(f"Huber needs h > 0, got {self.h!r}; for h = 0 use Hinge().")

    @property
    def tilt(self):
        return 1.0 + self.h

    @property
    def bend(self):
        return 2.0 * self.h

    @property
    def kinks(self):
        return ((1.0 - self.h, 0.0, 0.5 / self.h), (1.0 + self.h, 0.0, -0.5 / self.h))

    def value(self, margins):
        lag = np.maximum(0.0, 1.0 + self.h - margins)  # how far below 1 + h
        return np.where(lag <= 2.0 * self.h, lag * lag / (4.0 * self.h), lag - self.h)

    def slope(self, margins):
        return -np.clip((1.0 + self.h - margins) / (2.0 * self.h), 0.0, 1.0)

    def curvature(self, margins):
        return np.where(np.abs(1.0 - margins) <= self.h, 0.5 / self.h, 0.0)


LOSSES = {loss.name: loss for loss in (Hinge, SquaredHinge, Huber)}


def make_loss(loss: str | Loss) -> Loss:
    """A loss by name or as an object."""
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str) and loss in LOSSES:
        return LOSSES[loss]()
    raise ValueError(f"loss must be one of {', '.join(LOSSES)} or a Loss object, got {loss!r}.")
