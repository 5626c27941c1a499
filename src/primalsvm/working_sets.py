"""The compiled loops of SMO. They share nothing with the row loops of `cpu_kernels`: Numba's cache can tell a change.

Everything is said in beta_i = y_i alpha_i and in the gradient of D with respect to it,

    e_i = y_i (tilt - bend alpha_i / c_i) - f(x_i) (- b where b is not free).

With a free intercept sum beta_i = 0, so one beta_i rises and another falls by the same amount, and e_i = b wherever
alpha_i is strictly inside its box. The loops are written so that they vectorise: a sample that may not rise has its e_i
lowered by infinity, maxima are taken first and looked up afterwards.
"""

from typing import Any

import numpy as np
from numba import njit
from numba.extending import intrinsic

LEAST_CURVE = 1e-12  # of the two diagonal entries: duplicates have no curvature between them
AT_BOUND = 1e-14  # of c: an alpha this close to its bound is there, but for rounding

FAST = {"reassoc", "contract", "nsz", "nnan"}
FLAGS = ("nnan", "nsz")


def _larger(typing_context, a, b):
    """max(a, b) of two numbers that are not nan: told so, LLVM vectorises a loop that takes it; of Python's max it does
    not."""

    def generate(context, builder, signature, values):
        return builder.select(builder.fcmp_ordered(">", *values, flags=FLAGS), *values, flags=FLAGS)

    return a(a, a), generate


def _smaller(typing_context, a, b):
    """min(a, b), likewise."""

    def generate(context, builder, signature, values):
        return builder.select(builder.fcmp_ordered("<", *values, flags=FLAGS), *values, flags=FLAGS)

    return a(a, a), generate


larger: Any = intrinsic(_larger)
smaller: Any = intrinsic(_smaller)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST)
def gaussian_row(features, i, out):
    """out_k = exp(-|u_i - u_k|^2 / 2) from features (d + 2, n) with columns (u, 1, -|u|^2 / 2), in float32.

    exp(t) = 2^whole * 2^part, the first put together from bits, the second a polynomial: this way it vectorises.
    """
    d, n = features.shape[0] - 2, out.size
    bits = np.empty(n, dtype=np.int32)
    powers = bits.view(np.float32)
    own = features[d + 1, i]
    for k in range(n):
        out[k] = own + features[d + 1, k]
    for c in range(d):
        value, column = features[c, i], features[c]
        for k in range(n):
            out[k] += value * column[k]
    for k in range(n):
        t = max(min(out[k], np.float32(0.0)), np.float32(-87.0)) * np.float32(1.4426950408889634)
        whole = np.floor(t + np.float32(0.5))
        x = (t - whole) * np.float32(0.6931471805599453)
        bits[k] = (np.int32(whole) + np.int32(127)) << np.int32(23)
        y = np.float32(1 / 720) * x + np.float32(1 / 120)
        y = ((y * x + np.float32(1 / 24)) * x + np.float32(1 / 6)) * x + np.float32(0.5)
        out[k] = (y * x + np.float32(1.0)) * x + np.float32(1.0)
    for k in range(n):
        out[k] *= powers[k]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST)
def _make_row(features, rows, slot, count, i):
    """Row i, if it is not there; returns how many there are then."""
    if slot[i] < 0:
        gaussian_row(features, i, rows[count])
        slot[i] = count
        count += 1
    return count


@njit(cache=True, nogil=True)
def _place(values, wanted):
    """Where the value is; -1 where it is not, which only numbers beyond float64 can bring about."""
    for k in range(values.size):
        if values[k] == wanted:
            return k
    return -1


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST)
def _best_partner(row, own, constant, curve, e, down, top, gains):
    """Who gains most by falling while the sample of this row, at e = top, rises; -1 for nobody. Sets all gains."""
    best = 0.0
    for k in range(gains.size):
        rise = larger(top - (e[k] + down[k]), 0.0)
        bend = own + curve[k] - 2.0 * (row[k] + constant)
        gains[k] = rise * rise / larger(bend, LEAST_CURVE * (own + curve[k]) + 1e-300)
        best = larger(best, gains[k])
    return _place(gains, best) if best > 0.0 else -1


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST)
def _best_single(curve, e, up, down, gains):
    """Who gains most by moving alone; -1 for nobody."""
    best = 0.0
    for k in range(gains.size):
        slope = larger(larger(e[k] + up[k], -(e[k] + down[k])), 0.0)
        gains[k] = slope * slope / (curve[k] + 1e-300)
        best = larger(best, gains[k])
    return _place(gains, best) if best > 0.0 else -1


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST)
def ascend_on_rows(rows, slot, features, curve, low, high, beta, e, paired, constant, stop, ratio, max_steps):
    """Ascend on the samples whose rows of K are there until their violation is `ratio` of what it was, or `stop`.

    Row i is rows[slot_i], slot_i < 0 where it is not there; `constant` is added to every entry. Where there are
    features (see gaussian_row) a row that is needed is made, into the next of `rows`, so that all can take part. curve
    is the diagonal plus bend / c; low <= beta <= high. beta and e, that of all samples, are changed in place. Returns
    (steps, gain of D).

    A pair is chosen by the largest e_i that may rise and the partner of the largest gain (Fan, Chen, Lin 2005); without
    a free intercept a single one by its gain.
    """
    n = beta.size
    up, down, rising, gains = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    for k in range(n):
        here = slot[k] >= 0 or features.size > 0
        up[k] = 0.0 if here and beta[k] < high[k] else -np.inf
        down[k] = 0.0 if here and beta[k] > low[k] else np.inf
    count = slot.max() + 1
    first = -1.0
    gain = 0.0
    steps = 0
    while steps < max_steps:
        top, bottom = -np.inf, np.inf
        for k in range(n):
            rising[k] = e[k] + up[k]
            top = larger(top, rising[k])
            bottom = smaller(bottom, e[k] + down[k])
        violation = top - bottom if paired else max(top, -bottom, 0.0)
        first = violation if first < 0.0 else first
        if not violation > max(stop, ratio * first):
            break
        i = _place(rising, top) if paired else _best_single(curve, e, up, down, gains)
        if i < 0:
            break
        count = _make_row(features, rows, slot, count, i)
        row = rows[slot[i]]
        if paired:
            j = _best_partner(row, curve[i], constant, curve, e, down, top, gains)
            if j < 0 or j == i:
                break
            count = _make_row(features, rows, slot, count, j)
            other = rows[slot[j]]
            own = curve[i] + curve[j]
            rise, bend = top - e[j], max(own - 2.0 * (row[j] + constant), LEAST_CURVE * own + 1e-300)
            room_i, room_j = high[i] - beta[i], beta[j] - low[j]
            t = min(rise / bend, room_i, room_j)
            beta[i] = high[i] if t == room_i else min(beta[i] + t, high[i])
            beta[j] = low[j] if t == room_j else max(beta[j] - t, low[j])
            for k in range(n):
                e[k] -= t * (row[k] - other[k])
            e[j] += t * (curve[j] - constant - other[j])
            up[j] = 0.0
            down[j] = 0.0 if beta[j] > low[j] else np.inf
        else:
            rise, bend, before = e[i], curve[i] + 1e-300, beta[i]
            beta[i] = min(max(before + rise / bend, low[i]), high[i])
            t = beta[i] - before
            if t == 0.0:
                break
            for k in range(n):
                e[k] -= t * (row[k] + constant)
        e[i] -= t * (curve[i] - constant - row[i])
        up[i] = 0.0 if beta[i] < high[i] else -np.inf
        down[i] = 0.0 if beta[i] > low[i] else np.inf
        gain += t * (rise - 0.5 * t * bend)
        steps += 1
    return steps, gain


@njit(cache=True, nogil=True, fastmath={"contract"})
def add_cached_rows(cache, slots, weights, begin, end, scores):
    """scores += sum_k weights_k cache[:, slots_k], tiles begin to end of (tiles, slots, width)."""
    width = cache.shape[2]
    total = np.empty(width)
    for t in range(begin, end):
        total[:] = 0.0
        for k in range(slots.size):
            weight, row = weights[k], cache[t, slots[k]]
            for j in range(width):
                total[j] += weight * row[j]
        first = t * width
        for j in range(min(width, scores.size - first)):
            scores[first + j] += total[j]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST)
def survey(scores, y, beta, cost, tilt, bend, bound, b, up, down):
    """Set up_i to e_i where beta_i may rise and to -infinity elsewhere, down_i to e_i or infinity. Returns their
    maximum and minimum, with the intercept b inside the scores."""
    top, bottom = -np.inf, np.inf
    for i in range(scores.size):
        if cost[i] > 0.0:
            share = y[i] * beta[i] / cost[i]
            e = y[i] * (tilt - bend * share) - scores[i] - b
            inside_high, inside_low = share < bound * (1.0 - AT_BOUND), share > AT_BOUND
            up[i] = e if (inside_high if y[i] > 0.0 else inside_low) else -np.inf
            down[i] = e if (inside_low if y[i] > 0.0 else inside_high) else np.inf
        else:
            up[i] = -np.inf
            down[i] = np.inf
        top = larger(top, up[i])
        bottom = smaller(bottom, down[i])
    return top, bottom


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST)
def sample_gaps(scores, y, beta, cost, tilt, bend, bound, b):
    """sum_i c_i (l(m_i) + a_i m_i - r(a_i)): P - D of f_alpha, every term of it at least 0."""
    gap = 0.0
    for i in range(scores.size):
        if cost[i] > 0.0:
            margin = y[i] * (scores[i] + b)
            lag = tilt - margin
            best = bound if lag > 0.0 else 0.0
            if bend > 0.0:
                best = min(max(lag / bend, 0.0), bound)
            share = y[i] * beta[i] / cost[i]
            loss = best * (lag - 0.5 * bend * best)
            gap += cost[i] * (loss - share * (lag - 0.5 * bend * share))
    return gap


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST)
def _gap(y, cost, bends, beta, e, tilt, bend, bound, paired):
    """(P - D as the gradients e show it, the intercept in their middle where that is free)"""
    scores, up, down = np.empty(y.size), np.empty(y.size), np.empty(y.size)
    for k in range(y.size):
        scores[k] = y[k] * tilt - bends[k] * beta[k] - e[k]
    top, bottom = survey(scores, y, beta, cost, tilt, bend, bound, 0.0, up, down)
    b = 0.5 * (top + bottom) if paired and np.isfinite(top) and np.isfinite(bottom) else 0.0
    return sample_gaps(scores, y, beta, cost, tilt, bend, bound, b), b


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST)
def _near(e, beta, low, high, b, reach):
    """Those whose beta is not 0, or would change if their e were nearer to b by `reach`."""
    some = np.empty(e.size, dtype=np.int64)
    count = 0
    for k in range(e.size):
        rises, falls = beta[k] < high[k] and e[k] > b - reach, beta[k] > low[k] and e[k] < b + reach
        if beta[k] != 0.0 or rises or falls:
            some[count] = k
            count += 1
    return some[:count]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST)
def ascend_from_nothing(features, samples, y, cost, tilt, bend, bound, paired, constant, tol, rounds, beta):
    """A whole Gaussian problem, until its gap seems to be at most tol P: beta, which comes as zeros, is set.

    Its samples have the columns `samples` of the features, see gaussian_row; the rest is as above. All of them take
    part at first, then in turns those near the margin, and all again to see whether that was right. A round ends when
    the violation has fallen to a small part of itself. Returns (b, rounds, rows of K made).

    One place calls ascend_on_rows, with the arrays of all or of some: each more would take seconds to compile.
    """
    n = beta.size
    mine = np.empty((features.shape[0], n), dtype=np.float32)
    for c in range(features.shape[0]):
        for k in range(n):
            mine[c, k] = features[c, samples[k]]
    low, high, bends, curve, e = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    for k in range(n):
        most = bound * cost[k] if cost[k] > 0.0 else 0.0
        low[k], high[k] = (0.0, most) if y[k] > 0.0 else (-most, 0.0)
        bends[k] = bend / cost[k] if cost[k] > 0.0 else 0.0
        curve[k] = 1.0 + constant + bends[k]
        e[k] = tilt * y[k]
    rows = np.empty((n, n), dtype=np.float32)  # memory that is never touched costs nothing
    slot, some, limit = np.full(n, -1), np.arange(n), 50 * n + 1000
    # of those that take part: a_...
    whole, idle, done, dual, ratio = True, False, 0, 0.0, 0.05
    a_rows, a_slot, a_mine, a_y, a_cost, a_bends = rows, slot, mine, y.copy(), cost.copy(), bends
    a_curve, a_low, a_high, a_beta, a_e = curve, low, high, beta, e
    while True:
        gap, b = _gap(a_y, a_cost, a_bends, a_beta, a_e, tilt, bend, bound, paired)
        close = idle or done >= rounds or not gap > (tol if whole else 0.5 * tol) * (dual + gap)
        if whole and close:
            break
        if close:  # bring all the others up to date
            count, idle = slot.max() + 1, True
            for i in range(some.size):
                j = some[i]
                change = a_beta[i] - beta[j]
                if change != 0.0:
                    count = _make_row(mine, rows, slot, count, j)
                    row = rows[slot[j]]
                    for k in range(n):
                        e[k] -= change * (row[k] + constant)
                    beta[j] = a_beta[i]
                    idle = False
            for i in range(some.size):
                e[some[i]] = a_e[i]
            whole = True
            a_rows, a_slot, a_mine, a_y, a_cost, a_bends = rows, slot, mine, y.copy(), cost.copy(), bends
            a_curve, a_low, a_high, a_beta, a_e = curve, low, high, beta, e
            continue
        if whole and done > 0:
            some = _near(e, beta, low, high, b, 0.3 * tilt)
            m = some.size
            if 2 * m <= n:
                whole = False
                a_rows, a_slot = np.empty((m, m), dtype=np.float32), np.full(m, -1)
                a_mine, count = np.empty((features.shape[0], m), dtype=np.float32), 0
                for c in range(features.shape[0]):
                    for i in range(m):
                        a_mine[c, i] = mine[c, some[i]]
                for i in range(m):
                    if slot[some[i]] >= 0:
                        for k in range(m):
                            a_rows[count, k] = rows[slot[some[i]], some[k]]
                        a_slot[i] = count
                        count += 1
                a_y, a_cost, a_bends, a_curve = y[some], cost[some], bends[some], curve[some]
                a_low, a_high, a_beta, a_e = low[some], high[some], beta[some], e[some]
        steps, gain = ascend_on_rows(
            a_rows, a_slot, a_mine, a_curve, a_low, a_high, a_beta, a_e, paired, constant, 1e-15, ratio, limit
        )
        dual, done, ratio, idle = dual + gain, done + 1, 0.02, steps == 0
    return b if paired else constant * beta.sum(), done, slot.max() + 1
