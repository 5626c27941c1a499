r"""Where a non-decreasing piecewise linear function crosses zero, exactly.

    g(t) = level + rate t + sum over the breaks at_i <= t of  jump_i + bend_i (t - at_i)

Three questions of an SVM are this one: the best intercept for given scores (List et al. 2007, eq. 19 and 21), the
exact line search of a primal method (Do & Artieres 2008, eq. 18-21), and the projection of alpha onto the box and
the hyperplane. Breaks that cannot matter are folded into level and rate, half of them a round, so the cost is O(n)
without a sort.
"""

from collections.abc import Callable

import numpy as np

from .losses import Array, Loss

SMALL = 64  # below this many breaks a sort is cheaper than another round
MANY = 5000  # samples from which a bracket is looked for first
HALVINGS = 14  # of the bracket


def crossing(level: float, rate: float, at: Array, jump: Array, bend: Array) -> float:
    """The t at which g changes sign; the last (first) break where it never reaches (starts above) zero."""
    if not len(at):
        return -level / rate if rate > 0 else 0.0
    last = float(at.max())
    end = np.inf  # the crossing is known to lie at or before this
    while len(at) > SMALL:
        pivot = float(np.partition(at, len(at) // 2)[len(at) // 2])
        passed = at <= pivot
        level_after = level + float(np.sum((jump - bend * at)[passed]))
        rate_after = rate + float(np.sum(bend[passed]))
        if level_after + rate_after * pivot < 0:  # the crossing lies to the right: fold what was passed
            level, rate, keep = level_after, rate_after, ~passed
        else:
            last = end = pivot
            keep = passed
            if keep.all():  # more than half lie at the pivot, the last break: does zero lie before it?
                keep = at < pivot
                level_before = level + float(np.sum((jump - bend * at)[keep]))
                rate_before = rate + float(np.sum(bend[keep]))
                if level_before + rate_before * pivot < 0:
                    return pivot
                if not keep.any():
                    return min(pivot, -level / rate) if rate > 0 else pivot
                last = float(at[keep].max())
        at, jump, bend = at[keep], jump[keep], bend[keep]
    order = np.argsort(at, kind="stable")
    for place, step, turn in zip(at[order], jump[order], bend[order], strict=True):
        if level + rate * place >= 0:  # zero lies on the straight piece before this break
            return min(float(place), -level / rate) if rate > 0 else float(place)
        level += step - turn * place
        rate += turn
        if level + rate * place >= 0:  # zero lies inside the jump
            return float(place)
    return min(max(last, -level / rate), end) if rate > 0 else last


def minimize_along(
    loss: Loss, cost: Array, margins: Array, change: Array, *, linear: float = 0.0, quadratic: float = 0.0
) -> float:
    r"""argmin over t of  linear t + quadratic / 2 t^2 + sum_i c_i l(m_i + t change_i).

    Its derivative is piecewise linear: the sample i adds c_i change_i l'(m_i + t change_i), which breaks where the
    margin meets a kink of the loss.
    """
    if len(margins) > MANY:
        bracket = _bracket(loss, cost, margins, change, linear, quadratic)
        if bracket is not None:
            return _inside(loss, cost, margins, change, *bracket)
    # a margin that meets its kink at |t| > 1e290 only does not move
    moving = (np.abs(change) > 1e-290 * (1.0 + np.abs(margins))) & (cost > 0)
    cost, margins, change = cost[moving], margins[moving], change[moving]
    rising = change > 0
    pull = cost * change
    # t = -infinity: a rising margin is on the loss's leftmost piece l'(m) = steep_level + steep_rate m, others on 0
    steep_level, steep_rate = (-2.0, 2.0) if np.isinf(loss.bound) else (-1.0, 0.0)
    up = pull[rising]
    level = linear + float(np.sum(up * (steep_level + steep_rate * margins[rising])))
    rate = quadratic + float(np.sum(up * steep_rate * change[rising]))
    at, jump, bend = [], [], []
    for place, slope_jump, curvature_jump in loss.kinks:
        at.append((place - margins) / change)
        jump.append(np.abs(pull) * slope_jump)
        bend.append(pull * np.abs(change) * curvature_jump)
    return crossing(level, rate, np.concatenate(at), np.concatenate(jump), np.concatenate(bend))


def _bracket(loss, cost, margins, change, linear, quadratic) -> tuple[float, float, float, float] | None:
    """(low, high, derivative at low, its own derivative there) with the minimum in between; None if it is far away."""
    from .cpu_kernels import slope_along

    def slope(t: float) -> tuple[float, float]:
        first, second = slope_along(margins, change, t, cost, loss.tilt, loss.bend, loss.bound)
        return linear + quadratic * t + first, quadratic + second

    here = slope(0.0)
    side = 1.0 if here[0] < 0.0 else -1.0
    near, far, at_near = 0.0, side, here
    for _ in range(40):
        at_far = slope(far)
        if side * at_far[0] >= 0.0:
            break
        near, far, at_near = far, 2.0 * far, at_far
    else:
        return None
    low, high, at_low = (near, far, at_near) if side > 0 else (far, near, at_far)
    if not at_low[0] < 0.0:
        return None
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        at_middle = slope(middle)
        if at_middle[0] < 0.0:
            low, at_low = middle, at_middle
        else:
            high = middle
    return low, high, *at_low


def _inside(loss, cost, margins, change, low, high, level, rate) -> float:
    """The crossing in (low, high], where the derivative at low is `level` and rises at `rate`: few breaks are left."""
    at, jump, bend = [], [], []
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for place, slope_jump, curvature_jump in loss.kinks:
            when = (place - margins) / change
            some = np.flatnonzero((when > low) & (when <= high))
            pull = cost[some] * change[some]
            at.append(when[some] - low)
            jump.append(np.abs(pull) * slope_jump)
            bend.append(pull * np.abs(change[some]) * curvature_jump)
    t = crossing(level, rate, np.concatenate(at), np.concatenate(jump), np.concatenate(bend))
    return min(max(low + t, low), high)


def newton_in_bracket(
    slope: Callable[[float], tuple[float, float]], close: Callable[[float, float, float], bool], steps: int = 60
) -> float:
    """Where the derivative of a convex function, below 0 at t = 0, is `close(t, derivative, its own)` to 0: Newton's
    method from t = 1, kept inside a bracket. slope(t) gives the derivative and its own."""
    low, high, t = 0.0, np.inf, 1.0
    for _ in range(steps):
        first, second = slope(t)
        if close(t, first, second):
            break
        low, high = (t, high) if first < 0.0 else (low, t)
        t = t - first / second if second > 0.0 else np.inf
        if not low < t < high:
            t = 0.5 * (low + high) if np.isfinite(high) else 2.0 * low
    return t
