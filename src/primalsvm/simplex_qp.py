r"""The small quadratic program of bundle methods, solved exactly.

    maximise   q'x - 1/2 x'Hx      x = (gamma, beta)
    where      gamma_j >= 0,   sum_j gamma_j <= 1,   0 <= beta_i <= gamma_last

gamma weighs lower bounds of the primal, each linear beside 1/2 |w|^2; beta_i is how much of sample i's slope the last
bound takes, which knows these samples' losses themselves and not only a tangent of them (Do & Artieres 2008, eq. 17).
Without any beta it is the cutting-plane method's program.

Two methods, one after the other. Block pivoting: solve with the constraints that the guess holds tight, then hold and
release all that the solution says, until nothing changes; usually a handful of linear systems, but nobody can promise
that it ends. If it does not, a primal active-set method goes on from the best point it found, brought back between its
bounds: go to the optimum of the face or to the first constraint in the way, which is then held; at a face's optimum
release the constraint that is held most wrongly. There x is feasible all the time and q'x - 1/2 x'Hx never falls, so
whatever happens the answer is a valid lower bound, at least as good as the x that was given.
H may be singular: a ridge of the size of its rounding errors sends the step along the flat direction to its end.
"""

import numpy as np

from .losses import Array

HELD, TOP, FREE = 0, 1, 2  # at zero; beta_i = gamma_last; neither
ROUNDING = 1e-14  # of the terms a gradient is summed from: what is smaller is not a violation
RIDGE = 1e-13  # of the largest diagonal entry
PIVOTS = 15  # rounds of block pivoting; it ends within ten or, mostly, cycles


def maximize(H: Array, q: Array, planes: int, x: Array, status: np.ndarray | None = None) -> tuple[Array, np.ndarray]:
    """(the optimum, its status: HELD, TOP or FREE for each variable), from a feasible x.

    `status` is a guess, from a similar program; the other constraint, sum gamma <= 1, is guessed to be tight.
    """
    ridge = RIDGE * float(np.max(np.diagonal(H), initial=0.0)) + 1e-300
    status = np.where(x > 0, FREE, HELD) if status is None else status.copy()
    best, full = (float(q @ x - 0.5 * x @ (H @ x)), x), True
    for _ in range(PIVOTS):
        trial, price = _face_step(H, q, status, planes, full, ridge, float(full))
        after = _pivot(H, q, planes, trial, status, price)
        before, full = full, price >= 0.0 if full else float(np.sum(trial[:planes])) > 1.0
        if full == before and np.array_equal(after, status):
            return trial, status
        status = after
        trial[:planes] = np.maximum(trial[:planes], 0.0)
        trial[:planes] /= max(float(np.sum(trial[:planes])), 1.0)
        trial[planes:] = np.clip(trial[planes:], 0.0, trial[planes - 1])
        best = max(best, (float(q @ trial - 0.5 * trial @ (H @ trial)), trial), key=lambda pair: pair[0])
    return _ascend(H, q, planes, best[1].copy(), ridge)


def _pivot(H: Array, q: Array, planes: int, x: Array, status: np.ndarray, price: float) -> np.ndarray:
    """What is to be held after x, the solution under `status`; the same where x is the optimum."""
    after = np.where(_violations(H, q, planes, x, status, price) > 0, FREE, status)
    after[(status == FREE) & (x < 0)] = HELD
    after[planes:][(status[planes:] == FREE) & (x[planes:] > x[planes - 1])] = TOP
    if after[planes - 1] == HELD:
        after[planes:] = HELD
    elif status[planes - 1] == HELD:
        after[planes:] = np.where((q - H @ x)[planes:] > 0, TOP, HELD)
    return after


def _violations(H: Array, q: Array, planes: int, x: Array, status: np.ndarray, price: float) -> Array:
    """By how much each constraint held would like to be released; at most 0 where it is held rightly."""
    gradient = q - H @ x
    last, gamma, beta = planes - 1, slice(0, planes), slice(planes, len(q))
    wrong = np.where(status == HELD, gradient, np.where(status == TOP, -gradient, 0.0))
    wrong[gamma][status[gamma] == HELD] -= price
    if status[last] == HELD:  # the last plane offers the best vertex of its box
        wrong[last] += float(np.sum(np.maximum(gradient[beta], 0.0)))
        wrong[beta] = 0.0
    return wrong - ROUNDING * (np.abs(q) + np.abs(H) @ np.abs(x))


def _ascend(H: Array, q: Array, planes: int, x: Array, ridge: float) -> tuple[Array, np.ndarray]:
    """The active-set method, from a feasible x."""
    size, last = len(q), planes - 1
    gamma, beta = slice(0, planes), slice(planes, size)
    status = np.where(x > 0, FREE, HELD)
    status[beta][(x[beta] >= x[last]) & (x[last] > 0)] = TOP
    full = float(np.sum(x[gamma])) >= 1.0 - 1e-14  # is sum gamma = 1 held?
    for _ in range(20 * size + 20):
        gradient = q - H @ x
        step, price = _face_step(H, gradient, status, planes, full, ridge, 0.0)
        length, block = _first_block(x, step, status, planes, full)
        x += length * step
        if block == size:
            full = True
            x[gamma] /= np.sum(x[gamma])
        elif block == last:
            x[last:] = 0.0
            status[last:] = HELD
        elif block >= 0:
            status[block] = TOP if block >= planes and step[block] > step[last] else HELD
            x[block] = 0.0
        x[status == TOP] = x[last]
        if block >= 0:
            continue
        wrong = _violations(H, q, planes, x, status, price)
        worst = int(np.argmax(wrong))
        if full and price < min(0.0, -float(wrong[worst])):
            full = False
        elif wrong[worst] <= 0.0:
            break
        else:
            status[worst] = FREE
            if worst == last:
                status[beta] = np.where((q - H @ x)[beta] > 0, TOP, HELD)
    return x, status


def _face_step(
    H: Array, gradient: Array, status: np.ndarray, planes: int, full: bool, ridge: float, total: float
) -> tuple[Array, float]:
    """(the step to the optimum of the face, whose gammas add up to `total`, and the price of that sum)."""
    moving, tied = np.flatnonzero(status == FREE), np.flatnonzero(status == TOP)  # the tied move with gamma_last
    step = np.zeros(len(gradient))
    m, k = len(moving), int(full and (status[:planes] == FREE).any())
    if not m:
        return step, 0.0
    system = np.zeros((m + k, m + k))
    system[:m, :m] = H[np.ix_(moving, moving)]
    pull = np.append(gradient[moving], np.full(k, total))
    if len(tied):
        at = int(np.flatnonzero(moving == planes - 1)[0])
        cross = H[np.ix_(moving, tied)].sum(axis=1)
        system[at, :m] += cross
        system[:m, at] += cross
        system[at, at] += float(H[np.ix_(tied, tied)].sum())
        pull[at] += float(gradient[tied].sum())
    system[np.arange(m), np.arange(m)] += ridge
    if k:
        system[:m, m] = system[m, :m] = moving < planes
    found = np.linalg.solve(system, pull)
    step[moving] = found[:m]
    step[tied] = step[planes - 1]
    return step, float(found[m]) if k else 0.0


def _first_block(x: Array, step: Array, status: Array, planes: int, full: bool) -> tuple[float, int]:
    """(how much of the step is feasible, what ends it: an index, len(x) for sum gamma = 1, -1 for nothing)."""
    last = planes - 1
    length, block = 1.0, -1
    beta = planes + np.flatnonzero(status[planes:] == FREE)
    rising = beta[step[beta] > step[last]]
    falling = np.flatnonzero((status == FREE) & (step < 0))
    for index, room in (
        (rising, np.maximum(x[last] - x[rising], 0.0) / (step[rising] - step[last])),
        (falling[::-1], x[falling[::-1]] / -step[falling[::-1]]),  # a beta before its gamma_last, where both end
    ):
        k = int(np.argmin(room)) if len(index) else 0
        if len(index) and room[k] < length:
            length, block = float(room[k]), int(index[k])
    growth = float(np.sum(step[:planes]))
    if not full and growth > 0 and max(1.0 - float(np.sum(x[:planes])), 0.0) < length * growth:
        length, block = max(1.0 - float(np.sum(x[:planes])), 0.0) / growth, len(x)
    return length, block
