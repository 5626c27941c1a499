r"""A quadratic program of a few variables in a box.

    maximise   g'x - 1/2 x'Qx,     low <= x <= high,     low <= 0 <= high

by projected Newton steps: the variables that no bound holds go towards the optimum of their face, straight as far as
the box allows, or on from there with each stopped at its own bound, whichever gains most. The gain never falls, so that
the steps may end at any time. Q may be singular: a ridge of the size of rounding sends x along a flat direction to its
bound.

Bertsekas (1982), Projected Newton methods for optimization problems with simple constraints.
"""

import numpy as np

from .losses import Array
from .triangles import solve_positive

ROUNDS = 50
RIDGE = 1e-12  # of each diagonal entry
TRIFLE = 1e-6  # of what all steps have gained: a face whose optimum gains less is the last one
BENT = (1.0, 0.25, 0.06)  # of the step, beyond the first bound


def maximize(Q: Array, g: Array, low: Array, high: Array) -> Array:
    """The best x found, from x = 0."""
    x, slope, gained = np.zeros(len(g)), g.copy(), 0.0
    ridge = RIDGE * np.diagonal(Q) + 1e-300
    for _ in range(ROUNDS):
        free = np.flatnonzero(((x < high) & (slope > 0.0)) | ((x > low) & (slope < 0.0)))
        while len(free):
            face, here, s = Q[np.ix_(free, free)], x[free], slope[free]
            step = solve_positive(face + np.diag(ridge[free]), s)
            bound = np.where(step > 0.0, high[free], low[free])
            held = (here == bound) & (step != 0.0)  # at its bound, where its slope leads away, but not the whole step
            if not held.any():
                break
            free = free[~held]
        if not len(free):
            break
        until = np.divide(bound - here, step, out=np.full_like(step, np.inf), where=step != 0.0)
        t = min(1.0, float(np.min(until)))
        places = [np.where(until <= t, bound, here + t * step)]  # those that meet their bound are at it, to the bit
        if t < 1.0:
            places += [np.clip(here + part * step, low[free], high[free]) for part in BENT if part > t]
        moves = [place - here for place in places]
        gains = [float(s @ move - 0.5 * move @ (face @ move)) for move in moves]
        best = int(np.argmax(gains))
        if not gains[best] > (TRIFLE * gained if t == 1.0 else 0.0):
            break
        gained += gains[best]
        x[free] = places[best]
        slope -= Q[:, free] @ moves[best]
    return x
