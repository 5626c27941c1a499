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
def ascend_on_rows(rows, slot, features, curve, low, high, beta, e, paired, constant, stop, ratio, max_steps):
    """Ascend until the violation is `ratio` of what it was, or `stop`; or until the samples without a row violate more
    than twice as much as those that have one.

    Row i of K is rows[slot_i], slot_i < 0 where it is not there; `constant` is added to every entry. Where there are
    features (see gaussian_row) a row that is needed is made, into the next of `rows`. curve is the diagonal plus
    bend / c; low <= beta <= high. beta and e are changed in place. Returns (steps, gain of D).

    A pair is chosen by the largest e_i that may rise and the partner of the largest gain (Fan, Chen, Lin 2005); without
    a free intercept a single one by its gain.
    """
    n = beta.size
    up, down = np.empty(n), np.empty(n)
    hidden = np.empty(n)  # infinity for those without a row
    gains = np.empty(n)
    for k in range(n):
        up[k] = 0.0 if beta[k] < high[k] else -np.inf
        down[k] = 0.0 if beta[k] > low[k] else np.inf
        hidden[k] = 0.0 if slot[k] >= 0 or features.size > 0 else np.inf
    count = slot.max() + 1
    first = last = -1.0
    gain = 0.0
    steps = 0
    while steps < max_steps:
        top, bottom, known_top, known_bottom = -np.inf, np.inf, -np.inf, np.inf
        for k in range(n):
            rise, fall = e[k] + up[k], e[k] + down[k]
            top = larger(top, rise)
            bottom = smaller(bottom, fall)
            known_top = larger(known_top, rise - hidden[k])
            known_bottom = smaller(known_bottom, fall + hidden[k])
        last = top - bottom if paired else max(top, -bottom, 0.0)
        known = known_top - known_bottom if paired else max(known_top, -known_bottom, 0.0)
        if first < 0.0:
            first = last
        if not last > max(stop, ratio * first) or not known > 0.5 * last:
            break
        best = 0.0
        i = 0
        if paired:
            while e[i] + up[i] - hidden[i] != known_top:
                i += 1
            if slot[i] < 0:
                gaussian_row(features, i, rows[count])
                slot[i] = count
                count += 1
            row, own = rows[slot[i]], curve[i]
            for k in range(n):
                rise = larger(known_top - (e[k] + down[k] + hidden[k]), 0.0)
                bend = own + curve[k] - 2.0 * (row[k] + constant)
                gains[k] = rise * rise / larger(bend, LEAST_CURVE * (own + curve[k]) + 1e-300)
                best = larger(best, gains[k])
            j = 0
            while gains[j] != best:
                j += 1
            if j == i or not best > 0.0:
                break
            bend = max(own + curve[j] - 2.0 * (row[j] + constant), LEAST_CURVE * (own + curve[j]) + 1e-300)
            rise = known_top - e[j]
            room_i, room_j = high[i] - beta[i], beta[j] - low[j]
            t = min(rise / bend, room_i, room_j)
            beta[i] = high[i] if t == room_i else min(beta[i] + t, high[i])
            beta[j] = low[j] if t == room_j else max(beta[j] - t, low[j])
            if slot[j] < 0:
                gaussian_row(features, j, rows[count])
                slot[j] = count
                count += 1
            other = rows[slot[j]]
            for k in range(n):
                e[k] -= t * (row[k] - other[k])
            e[i] -= t * (curve[i] - constant - row[i])
            e[j] += t * (curve[j] - constant - other[j])
            up[j] = 0.0
            down[j] = 0.0 if beta[j] > low[j] else np.inf
        else:
            for k in range(n):
                slope = larger(larger(e[k] + up[k] - hidden[k], -(e[k] + down[k] + hidden[k])), 0.0)
                gains[k] = slope * slope / (curve[k] + 1e-300)
                best = larger(best, gains[k])
            while gains[i] != best:
                i += 1
            rise, bend = e[i], curve[i] + 1e-300
            t = min(max(beta[i] + rise / bend, low[i]), high[i]) - beta[i]
            if t == 0.0:
                break
            if slot[i] < 0:
                gaussian_row(features, i, rows[count])
                slot[i] = count
                count += 1
            row = rows[slot[i]]
            beta[i] = min(max(beta[i] + rise / bend, low[i]), high[i])
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
            inside_high, inside_low = share < bound, share > 0.0
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
