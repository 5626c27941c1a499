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
