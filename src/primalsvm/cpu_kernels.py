"""All compiled code. Row access and the loops that use it share this file: Numba's cache does not notice a change in
a helper that lives in another one. Kernels receive arrays and numbers only; anything else would compile anew in every
process in spite of cache=True.

Dense and CSR rows, float32 and float64, 32- and 64-bit indices share one body: row_dot and row_add are chosen by the
type of `rows`. Sums are float64 always.

Four things make a pass in random order several times as fast as plain loops are. Positions are unsigned: a signed one
may be negative, NumPy's "from the end", and the test for that turns every contiguous load into a gather. What the next
samples need is asked for ahead of time, because the memory cannot guess a random order. Row access is inlined: a call
that is given arrays counts their references before and after, by atomic operations, which cost more than a dozen
products and which two threads do not do at the same time. And sums over sparse rows are written out, four side by side:
left to itself the compiler would gather w into vectors, which is slow for short rows.
"""

from platform import machine
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic, overload

from .rows import AlikeRows, DenseRows

INLINE: Any = {"forceinline": True, "fastmath": {"contract", "nsz"}}
LOOSE: Any = INLINE | {"fastmath": {"reassoc", "contract", "nsz"}}  # sums in any order, and so in vectors


def row_dot(rows, i, w):
    """<x_i, w>"""


def row_square(rows, i):
    """|x_i|^2"""


def row_add(rows, i, scale, w):
    """w += scale x_i"""


def row_add_each(rows, i, scale, each, w):
    """w_j += each_j scale x_ij"""


def row_value(rows, i, place):
    """The entry of the sparse row x_i that stands at this place of the arrays."""


def row_prefetch(rows, i):
    """Ask for x_i, which is needed soon: its first 64 cache lines; after that the hardware has seen where it goes."""


def row_locate(rows, i):
    """Ask for where x_i lies, before it is asked for itself."""


def _is(kind, rows) -> bool:
    return isinstance(rows, types.BaseNamedTuple) and getattr(rows, "instance_class", None) is kind


@overload(row_value, jit_options=INLINE)
def _row_value(rows, i, place):
    if _is(AlikeRows, rows):
        return lambda rows, i, place: rows.value[i]
    return lambda rows, i, place: rows.data[place]


@overload(row_dot, jit_options=LOOSE)
def _dense_dot(rows, i, w):
    if not _is(DenseRows, rows):
        return None

    def dense(rows, i, w):
        x = rows.values[i]
        total = 0.0
        for j in range(x.size):
            total += x[j] * w[j]
        return total

    return dense


@overload(row_dot, jit_options=INLINE)
def _sparse_dot(rows, i, w):
    if _is(DenseRows, rows):
        return None

    def sparse(rows, i, w):
        k, end = np.uint64(rows.begin[i]), np.uint64(rows.end[i])
        one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        while k + four <= end:
            a += row_value(rows, i, k) * w[np.uint64(rows.indices[k])]
            b += row_value(rows, i, k + one) * w[np.uint64(rows.indices[k + one])]
            c += row_value(rows, i, k + two) * w[np.uint64(rows.indices[k + two])]
            d += row_value(rows, i, k + three) * w[np.uint64(rows.indices[k + three])]
            k += four
        while k < end:
            a += row_value(rows, i, k) * w[np.uint64(rows.indices[k])]
            k += one
        return (a + b) + (c + d)

    return sparse


@overload(row_square, jit_options=LOOSE)
def _dense_square(rows, i):
    if not _is(DenseRows, rows):
        return None

    def dense(rows, i):
        x = rows.values[i]
        total = 0.0
        for j in range(x.size):
            total += np.float64(x[j]) * np.float64(x[j])
        return total

    return dense


@overload(row_square, jit_options={"forceinline": True})
def _sparse_square(rows, i):
    if _is(DenseRows, rows):
        return None
    if _is(AlikeRows, rows):
        return lambda rows, i: (rows.end[i] - rows.begin[i]) * np.float64(rows.value[i]) * np.float64(rows.value[i])

    def sparse(rows, i):
        total = 0.0
        for place in range(np.uint64(rows.begin[i]), np.uint64(rows.end[i])):
            value = np.float64(rows.data[place])
            total += value * value
        return total

    return sparse


@overload(row_add, jit_options=INLINE)
def _row_add(rows, i, scale, w):
    if _is(DenseRows, rows):

        def dense(rows, i, scale, w):
            x = rows.values[i]
            for j in range(x.size):
                w[j] += scale * x[j]

        return dense

    def sparse(rows, i, scale, w):
        for k in range(np.uint64(rows.begin[i]), np.uint64(rows.end[i])):
            w[np.uint64(rows.indices[k])] += scale * row_value(rows, i, k)

    return sparse


@overload(row_add_each, jit_options=INLINE)
def _row_add_each(rows, i, scale, each, w):
    if _is(DenseRows, rows):

        def dense(rows, i, scale, each, w):
            x = rows.values[i]
            for j in range(x.size):
                w[j] += each[j] * scale * x[j]

        return dense

    def sparse(rows, i, scale, each, w):
        for k in range(np.uint64(rows.begin[i]), np.uint64(rows.end[i])):
            j = np.uint64(rows.indices[k])
            w[j] += each[j] * scale * row_value(rows, i, k)

    return sparse


AHEAD = 4  # samples: far enough for a row to arrive from memory, near enough to find it still in the cache


def _prefetch(typing_context, array, position):
    """Ask for the cache line of array[position]: a hint, which cannot fail or change a result."""

    def emit(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        hint = builder.module.declare_intrinsic(
            "llvm.prefetch", [byte], ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        )
        # 0: to be read; 3: into the nearest cache; 1: as data
        builder.call(hint, [builder.bitcast(builder.gep(data, [arguments[1]]), byte), word(0), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(array, types.uint64), emit


prefetch: Any = intrinsic(_prefetch)


@overload(row_prefetch, jit_options=INLINE)
def _row_prefetch(rows, i):
    line = [np.uint64(512 // array.dtype.bitwidth) for array in rows.types]  # entries in a cache line of 64 bytes
    line_of_values, most = line[0], np.uint64(64) * line[0]
    if _is(DenseRows, rows):

        def dense(rows, i):
            x = rows.values[i]
            for j in range(np.uint64(0), min(np.uint64(x.size), most), line_of_values):
                prefetch(x, j)

        return dense

    line_of_indices, alike = line[1], _is(AlikeRows, rows)

    def sparse(rows, i):
        begin = np.uint64(rows.begin[i])
        end = min(np.uint64(rows.end[i]), begin + most)
        if alike:
            prefetch(rows.value, np.uint64(i))
        else:
            for k in range(begin, end, line_of_values):
                prefetch(rows.data, k)
        for k in range(begin, end, line_of_indices):
            prefetch(rows.indices, k)

    return sparse


@overload(row_locate, jit_options=INLINE)
def _row_locate(rows, i):
    if _is(DenseRows, rows):
        return lambda rows, i: None

    def sparse(rows, i):
        prefetch(rows.begin, np.uint64(i))
        prefetch(rows.end, np.uint64(i))

    return sparse


# waiting --------------------------------------------------------------------------------------------------------------
def _load_now(typing_context, array, position):
    """array[position] as it is in memory at this moment; after a breath, where the processor knows what that is."""

    def emit(context, builder, signature, arguments):
        if machine() in ("x86_64", "AMD64"):
            nothing = ir.FunctionType(ir.VoidType(), [])
            builder.call(builder.module.declare_intrinsic("llvm.x86.sse2.pause", (), nothing), [])
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.load_atomic(builder.gep(data, [arguments[1]]), "acquire", 8)

    return types.int64(array, types.int64), emit


def _store_now(typing_context, array, position, value):
    """array[position] = value, seen by other threads after all that was written before."""

    def emit(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        builder.store_atomic(arguments[2], builder.gep(data, [arguments[1]]), "release", 8)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), emit


load_now: Any = intrinsic(_load_now)
store_now: Any = intrinsic(_store_now)


@njit(cache=True, nogil=True)
def tell_and_watch(bell, told, number, place, known, looks, rest):
    """bell[told] = number; then bell[place], as soon as it is not what is known any more, or after so many looks.

    All without Python's lock: who hears the bell finds it free. And who rings it is given so many looks more, to let
    go of the lock too: waiting for the lock is sleep.
    """
    store_now(bell, told, number)
    for _ in range(looks):
        seen = load_now(bell, place)
        if seen != known:
            for _ in range(rest):
                load_now(bell, place)
            return seen
    return known


# products with some rows ----------------------------------------------------------------------------------------------
# `rows` says where the entries are, `which` of them are meant: all; those that `order` picks, the k-th of which has the
# k-th place in vectors; or all in that order, the one in which they lie in memory. Rows that are `far` from each other
# are asked for ahead of time.
PICKED, EVERY, ORDERED = 0, 1, 2


@njit(cache=True, nogil=True, fastmath={"contract", "nsz"})
def dot_rows(rows, which, order, far, begin, end, w, out):
    """out[k] = <x_i, w> for the rows from begin to end."""
    for k in range(begin, end):
        if far:
            row_locate(rows, order[min(k + 4 * AHEAD, end - 1)])
            row_prefetch(rows, order[min(k + 2 * AHEAD, end - 1)])
        i = k if which == EVERY else order[k]
        out[i if which == ORDERED else k] = row_dot(rows, i, w)


@njit(cache=True, nogil=True)
def add_rows(rows, which, order, far, begin, end, scale, out):
    """out += the sum of scale[k] x_i over the rows from begin to end; those with a scale of zero are not touched."""
    for k in range(begin, end):
        if far:
            row_locate(rows, order[min(k + 4 * AHEAD, end - 1)])
            row_prefetch(rows, order[min(k + 2 * AHEAD, end - 1)])
        i = k if which == EVERY else order[k]
        by = scale[i if which == ORDERED else k]
        if by != 0.0:
            row_add(rows, i, by, out)


@njit(cache=True, nogil=True, fastmath={"contract", "nsz"})
def normal_rows(rows, order, far, begin, end, weights, w, out):
    """out += the sum of weights[k] <x_i, w> x_i over the picked rows from begin to end."""
    for k in range(begin, end):
        if far:
            row_locate(rows, order[min(k + 4 * AHEAD, end - 1)])
            row_prefetch(rows, order[min(k + 2 * AHEAD, end - 1)])
        i = order[k]
        row_add(rows, i, weights[k] * row_dot(rows, i, w), out)


@njit(cache=True, nogil=True)
def square_rows(rows, begin, end, out):
    """out_i = |x_i|^2, begin <= i < end."""
    for i in range(begin, end):
        out[i] = row_square(rows, i)


@njit(cache=True, nogil=True)
def values_of_rows(data, indptr, value, begin, end):
    """Are the entries of each row from begin to end all the same? If so value_i is that entry, 0 of an empty row."""
    for i in range(begin, end):
        first, last = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        value[i] = data[first] if first < last else 0.0
        for k in range(first, last):
            if data[k] != value[i]:
                return False
    return True


LONG = 255  # entries; longer rows are all of one length to the next function


@njit(cache=True, nogil=True)
def order_by_length(indptr, window, begin, end, order, starts, first, last):
    """The rows begin <= i < end, window by window, those of a window by length: order[k] is the k-th of them.

    It begins at starts[k] then, and row i is from first[i] to last[i]: a window keeps its place.
    """
    counts = np.empty(LONG + 2, dtype=np.int64)
    for low in range(begin, end, window):
        high = min(low + window, end)
        counts[:] = 0
        for i in range(low, high):
            counts[min(indptr[i + 1] - indptr[i], LONG) + 1] += 1
        counts[0] = low
        for length in range(LONG):
            counts[length + 1] += counts[length]
        for i in range(low, high):
            length = min(indptr[i + 1] - indptr[i], LONG)
            order[counts[length]] = i
            counts[length] += 1
        place = indptr[low]
        for k in range(low, high):
            i = order[k]
            starts[k] = first[i] = place
            place += indptr[i + 1] - indptr[i]
            last[i] = place


@njit(cache=True, nogil=True)
def compress_rows(values, indptr, data, indices):
    """The entries of a dense array that are not 0, row i of them from indptr[i] on, and their columns."""
    for i in range(values.shape[0]):
        row, place = values[i], np.uint64(indptr[i])
        for j in range(row.size):
            if row[j] != 0.0:
                data[place] = row[j]
                indices[place] = j
                place += np.uint64(1)


@njit(cache=True, nogil=True)
def gather_block(values, rows, cols, out):
    """out = values[rows][:, cols], each entry read once, in the type of `out`."""
    for k in range(rows.size):
        row = values[np.uint64(rows[k])]
        for j in range(cols.size):
            out[k, j] = row[np.uint64(cols[j])]


@njit(cache=True, nogil=True)
def keep_marked(order, mask, found):
    """Those of `order` that are marked, one behind the other in `found`; returns how many. Without a branch."""
    count = 0
    for k in range(order.size):
        i = np.uint64(order[k])
        found[count] = i
        count += mask[i]
    return count


@njit(cache=True, nogil=True)
def add_squares(rows, picked, scale, out):
    """out_j += sum over k of scale[k] x_ij^2, for CSR rows."""
    for k in range(picked.size):
        i = picked[k]
        for place in range(np.uint64(rows.begin[i]), np.uint64(rows.end[i])):
            value = row_value(rows, i, place)
            out[np.uint64(rows.indices[place])] += scale[k] * value * value


@njit(cache=True, nogil=True)
def add_gram(rows, picked, begin, end, scale, out):
    """The lower triangle of out += sum over begin <= k < end of scale[k] x_i x_i', for CSR rows in canonical order."""
    for k in range(begin, end):
        i = picked[k]
        first = np.uint64(rows.begin[i])
        for place in range(first, np.uint64(rows.end[i])):
            line = out[np.uint64(rows.indices[place])]
            value = scale[k] * row_value(rows, i, place)
            for other in range(first, place + np.uint64(1)):
                line[np.uint64(rows.indices[other])] += value * row_value(rows, i, other)


@njit(cache=True, nogil=True)
def gather_rows(entries, begin, end, picked, starts, first, last, moved):
    """moved: the rows picked, first <= k < last, one behind the other from starts[first] on."""
    for k in range(first, last):
        prefetch(entries, np.uint64(begin[picked[min(k + 2 * AHEAD, last - 1)]]))
        i, place = picked[k], np.uint64(starts[k])
        for old in range(np.uint64(begin[i]), np.uint64(end[i])):
            moved[place] = entries[old]
            place += np.uint64(1)


# the losses near their margin -----------------------------------------------------------------------------------------
# r(a) = tilt a - bend / 2 a^2 on 0 <= a <= bound is what the dual sees of a loss; h (a - centre)^2 is taken off it
@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def multiply_rows(data, indices, indptr, columns, begin, out):
    """out[:, begin:begin + w] = A columns for a CSR matrix A and dense columns (d, w), which should fit in the cache.

    Four entries of a row at a time: what they add to is loaded and stored once for all four.
    """
    one, four = np.uint64(1), np.uint64(4)
    width = columns.shape[1]
    for i in range(out.shape[0]):
        row = out[i][begin : begin + width]
        row[:] = 0.0
        k, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        while k + four <= end:
            v0, v1, v2, v3 = data[k], data[k + one], data[k + one + one], data[k + four - one]
            c0, c1 = columns[np.uint64(indices[k])], columns[np.uint64(indices[k + one])]
            c2, c3 = columns[np.uint64(indices[k + one + one])], columns[np.uint64(indices[k + four - one])]
            for j in range(width):
                row[j] += (v0 * c0[j] + v1 * c1[j]) + (v2 * c2[j] + v3 * c3[j])
            k += four
        while k < end:
            value, column = data[k], columns[np.uint64(indices[k])]
            for j in range(width):
                row[j] += value * column[j]
            k += one


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def exp_rows(block, least):
    """exp of max(min(t, 0), least) for all entries t of a float32 block, in place; least >= -87.

    exp(t) = 2^whole * 2^part, the first put together from bits, the second a polynomial: this way it vectorises, and is
    twice as fast as NumPy's two passes. Off by at most 8 u, and by 2 u |t| for the rounding of t / log 2, of the
    result, u = 2^-24; nan stays nan.
    """
    width = block.shape[1]
    bits = np.empty(width, dtype=np.int32)
    powers = bits.view(np.float32)
    for i in range(block.shape[0]):
        row = block[i]
        for k in range(width):
            t = max(min(row[k], np.float32(0.0)), least) * np.float32(1.4426950408889634)
            whole = np.floor(t + np.float32(0.5))
            x = (t - whole) * np.float32(0.6931471805599453)
            bits[k] = (np.int32(whole) + np.int32(127)) << np.int32(23)
            y = np.float32(1 / 5040) * x + np.float32(1 / 720)
            y = (y * x + np.float32(1 / 120)) * x + np.float32(1 / 24)
            y = (y * x + np.float32(1 / 6)) * x + np.float32(0.5)
            row[k] = (y * x + np.float32(1.0)) * x + np.float32(1.0)
        for k in range(width):
            row[k] *= powers[k]


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def add_row_sums(tile, weights, out, begin):
    """out[:, begin + i] += tile[i] weights' for three rows of weights, in float64 whatever the tile is in."""
    for i in range(tile.shape[0]):
        row = tile[i]
        a, b, c = 0.0, 0.0, 0.0
        for j in range(row.size):
            a += row[j] * weights[0, j]
            b += row[j] * weights[1, j]
            c += row[j] * weights[2, j]
        out[0, begin + i] += a
        out[1, begin + i] += b
        out[2, begin + i] += c


LUMP = 32  # samples whose sums the judge takes in any order; those of the lumps are added pairwise


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def loss_sums(scores, error, y, cost, b, slack, tilt, bend, bound, begin, end, low, high):
    """For each lump of samples between begin and end, which is a multiple of LUMP: low and high get what the sum of
    c_i l(m_i) is at least and at most, with scores off by up to `error`, and `slack` times their size for rounding.

    Returns whether a sample with a cost may have a loss. Where a number is nan, so is the sum.
    """
    some = False
    steep = 1.0 / bend if bend > 0.0 else np.inf
    for first in range(begin, end, LUMP):
        least, most = 0.0, 0.0
        for i in range(first, min(first + LUMP, end)):
            off = error[i] + slack * (abs(scores[i]) + abs(b) + 1.0 + error[i])
            short = tilt - y[i] * (scores[i] + b)
            above, below = short + off, short - off
            a, c = min(above * steep, bound), min(below * steep, bound)  # -l' there
            worst = 0.0 if above <= 0.0 else a * (above - 0.5 * bend * a)
            least += cost[i] * (0.0 if below <= 0.0 else c * (below - 0.5 * bend * c))
            most += cost[i] * worst
            some |= (worst > 0.0) & (cost[i] > 0.0)
        low[first // LUMP] = least
        high[first // LUMP] = most
    return some


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def feasible_sums(alpha, y, cost, bend, bound, shift, begin, end, inside, signed, sums):
    """inside_i = alpha_i brought into its box, then moved by -shift y_i times its room on both sides, and times y_i.

    sums[:, k], of the k-th lump (see `loss_sums`): the sums of alpha_i, of bend alpha_i^2 / c_i, of y_i alpha_i, and of
    the room; and the largest alpha_i / c_i. Short loops and no branch: they vectorise.
    """
    for first in range(begin, end, LUMP):
        last = np.uint64(min(first + LUMP, end))
        total, bent, balance, rooms, largest = 0.0, 0.0, 0.0, 0.0, 0.0
        for i in range(np.uint64(first), last):
            top = bound * cost[i] if cost[i] > 0.0 else 0.0
            a = alpha[i] if abs(alpha[i]) < np.inf else 0.0
            a = min(max(a, 0.0), top)
            inside[i] = min(max(a - shift * y[i] * min(a, top - a), 0.0), top)
        for i in range(np.uint64(first), last):
            signed[i] = inside[i] * y[i]
        for i in range(np.uint64(first), last):
            total += inside[i]
            balance += signed[i]
            rooms += min(inside[i], (bound * cost[i] if cost[i] > 0.0 else 0.0) - inside[i])
        for i in range(np.uint64(first), last):
            share = inside[i] / cost[i]
            share = share if share > 0.0 else 0.0  # nor nan, where there is no cost
            bent += bend * inside[i] * share
            largest = max(largest, share)
        k = first // LUMP
        sums[0, k], sums[1, k], sums[2, k], sums[3, k], sums[4, k] = total, bent, balance, rooms, largest


SPAN = 512  # samples


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def proximal_shares(margins, along, t, known, cost, centre, h, tilt, bend, bound, share, y, moved_to, new, change):
    """At the margins m_i = margins_i + t along_i, which moved_to gets,  new_i = argmax over a of
    r(a) - a m_i - h (a - centre_i)^2,  and change_i, that of c_i y_i a_i, with share_i before. Where those before are
    inside (0, bound) a_i is linear in t until it meets an end: if that is `known`, change_i is what it is beyond.

    Returns  sum c_i times that maximum;  sum c_i l(m_i);  sum c_i (l(m_i) + a_i m_i - r(a_i)), what a_i lacks of being
    minus the slope at m_i;  sum c_i over the a_i inside (0, bound);  the sum of the changes, known or not, and how many
    change_i are not 0.

    One short loop for each array that is written, on numbers that are still in the cache: then they vectorise. And sums
    are taken where nothing is written: a loop that writes too asks first whether its arrays could overlap, as far as
    it can tell from where they lie, and goes one by one if so; the same numbers would have sums of other bits.
    """
    value, losses, lack, inside, turn, count = 0.0, 0.0, 0.0, 0.0, 0.0, 0
    wide, steep = 1.0 / (bend + 2.0 * h), 1.0 / bend if bend > 0.0 else np.inf
    pace = t * wide if known else 0.0
    for first in range(0, margins.size, SPAN):
        one, last = np.uint64(first), np.uint64(min(first + SPAN, margins.size))
        for i in range(one, last):
            moved_to[i] = margins[i] + t * along[i] if t != 0.0 else margins[i]
        for i in range(one, last):
            new[i] = min(max((tilt + 2.0 * h * centre[i] - moved_to[i]) * wide, 0.0), bound)
        for i in range(one, last):
            change[i] = (new[i] - share[i]) * cost[i] * y[i]
        for i in range(one, last):
            turn += change[i]
        if known:
            for i in range(one, last):
                was = (share[i] > 0.0) & (share[i] < bound)
                stays = was & (new[i] > 0.0) & (new[i] < bound)
                beyond = change[i] + (pace * along[i] * cost[i] * y[i] if was else 0.0)
                change[i] = 0.0 if stays else beyond
        for i in range(one, last):
            count += change[i] != 0.0
        for i in range(one, last):
            a, c, short = new[i], cost[i], tilt - moved_to[i]
            best = min(short * steep, bound)  # -l'(m_i), where there is a loss
            gain = a * (short - 0.5 * bend * a)
            loss = best * (short - 0.5 * bend * best) if short > 0.0 else 0.0
            off = a - centre[i]
            value += c * (gain - h * off * off)
            losses += c * loss
            lack += c * (loss - gain)
            inside += c if (a > 0.0) & (a < bound) else 0.0
    return value, losses, lack, inside, turn, count


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def note_sides(share, cost, bound, picked, begin, end, mask, changed):
    """mask says of all samples whether 0 < a_i < bound: those from begin to end of the `picked`, which are all where
    there is none, anew; and `changed` gets, from begin on, the places of those for which that is new.

    Returns how many these are, how many lie inside, and the sum of their costs.
    """
    count, curved, total = begin, 0, 0.0
    for k in range(np.uint64(begin), np.uint64(end)):
        inside = (share[k] > 0.0) & (share[k] < bound)
        total += cost[k] if inside else 0.0
        curved += inside
    for k in range(np.uint64(begin), np.uint64(end)):
        i = np.uint64(picked[k]) if picked.size else k
        inside = (share[k] > 0.0) & (share[k] < bound)
        if mask[i] != inside:
            mask[i] = inside
            changed[count] = k
            count += 1
    return count - begin, curved, total


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def proximal_slope(margins, change, t, cost, centre, h, tilt, bend, bound):
    """First and second derivative in t of the value above at the margins m_i + t change_i.

    A loop for each, which vectorise; one for both does not.
    """
    slope, curvature, wide = 0.0, 0.0, 1.0 / (bend + 2.0 * h)
    for first in range(0, margins.size, SPAN):
        one, last = np.uint64(first), np.uint64(min(first + SPAN, margins.size))
        for i in range(one, last):
            a = (tilt + 2.0 * h * centre[i] - margins[i] - t * change[i]) * wide
            slope -= cost[i] * change[i] * min(max(a, 0.0), bound)
        for i in range(one, last):
            a = (tilt + 2.0 * h * centre[i] - margins[i] - t * change[i]) * wide
            curvature += cost[i] * change[i] * change[i] if (a > 0.0) & (a < bound) else 0.0
    return slope, curvature * wide


@njit(cache=True, nogil=True)
def slope_along(margins, change, t, cost, tilt, bend, bound):
    """Derivative in t of  sum c_i l(m_i + t change_i),  from the right, and its own derivative there."""
    slope, curvature = 0.0, 0.0
    for i in range(margins.size):
        short = tilt - (margins[i] + t * change[i])
        pull = cost[i] * change[i]
        if bend > 0.0:
            if short >= bend * bound:
                slope -= pull * bound
            elif short > 0.0 or (short == 0.0 and change[i] < 0.0):
                slope -= pull * short / bend
                curvature += pull * change[i] / bend
        elif short > 0.0 or (short == 0.0 and change[i] < 0.0):
            slope -= pull * bound
    return slope, curvature


@njit(forceinline=True)
def _random_below(x, n):
    """(the next state, a number in 0 .. n-1) from a xorshift generator, n < 2^32; the same on every machine."""
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    return x, ((x >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32)


TINY = 1e-300


@njit(cache=True, nogil=True)
def shuffle(order, block, seed):
    """Blocks of so many neighbours in random order, and in random order within each: `order` itself, changed."""
    state, n, size = seed[0], np.uint64(order.size), np.uint64(block)
    one, blocks = np.uint64(1), n // size  # what does not fill a block stays at the end
    for k in range(blocks - one, np.uint64(0), -1) if blocks else range(np.uint64(0)):
        state, j = _random_below(state, k + one)
        for m in range(size):
            here, there = k * size + m, j * size + m
            order[here], order[there] = order[there], order[here]
    for begin in range(np.uint64(0), n, size) if block > 1 else range(np.uint64(0)):
        for k in range(min(size, n - begin) - one, np.uint64(0), -1):
            state, j = _random_below(state, k + one)
            order[begin + k], order[begin + j] = order[begin + j], order[begin + k]
    seed[0] = state


OWN = np.uint64(3)  # 2^3 neighbours go to one thread: their alpha_i share a cache line


@njit(cache=True, nogil=True)
def deal(visit, parts, part, seed, mine):
    """Those samples to visit that are this thread's this time, in their order, into `mine`; returns how many."""
    count, parts, part = 0, np.uint64(parts), np.uint64(part)
    for k in range(visit.size):
        i = visit[k]
        x = ((np.uint64(i) >> OWN) + seed) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
        if (x >> np.uint64(32)) % parts == part:
            mine[count] = i
            count += 1
    return count


@njit(cache=True, nogil=True)
def dual_facts(y, cost, squared_norms, reach, bend, bound):
    """(n, 4): y_i; where the box of alpha_i ends; bend / c_i; and one over the curvature of -D in alpha_i.

    Side by side, because a pass in random order waits for the memory, not for the numbers. An empty row has no
    curvature: D is linear in its alpha_i, which then goes to an end.
    """
    facts = np.empty((y.size, 4))
    for i in range(y.size):
        stiffness = bend / cost[i] if bend > 0.0 and cost[i] > 0.0 else 0.0
        facts[i, 0] = y[i]
        facts[i, 1] = bound * cost[i] if cost[i] > 0.0 else 0.0
        facts[i, 2] = stiffness
        facts[i, 3] = 1.0 / max(squared_norms[i] + reach + stiffness, TINY)
    return facts


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def dual_coordinate_pass(rows, stored, facts, tilt, centre, reach, echo, alpha, w, balance, visit, before, limits):
    """Each alpha_i of the samples to visit set to its optimum, in their order; those put aside become ~i in `visit`.

    w is f's weights and `rows` are X's; or, where `stored`, w is the scores K (alpha y) and `rows` are K's.
    The intercept is  b = centre + reach * balance,  balance = sum alpha_i y_i  (reach = 0: b stays where it is).
    Where there is an `echo` (d + 1,), w_j and, last, the balance change by so many times what they should.
    limits: [0] and [1] the largest and least projected gradient of this pass; [2] and [3] those of the last one,
    beyond which an alpha_i at its bound is put aside (Hsieh et al. 2008, section 3.2); [4] the sum over the samples
    of c_i l(m_i) + alpha_i m_i - c_i r(alpha_i / c_i) as they were met, which is about the duality gap.
    Of the changes d_i of alpha_i: [5] sum d_i (tilt - bend alpha_i / c_i), alpha_i as it was before, which is also
    written into `before` for those visited; [6] sum bend d_i^2 / c_i.
    """
    high, low, lack = -np.inf, np.inf, 0.0
    gain, curve = 0.0, 0.0
    total, last = balance[0], visit.size - 1
    above, below = limits[2], limits[3]
    for k in range(visit.size):
        ahead = visit[min(k + 2 * AHEAD, last)]
        if ahead >= 0:
            if not stored:
                row_locate(rows, ahead)
            prefetch(facts, np.uint64(4 * ahead))
            prefetch(alpha, np.uint64(ahead))
        ahead = visit[min(k + AHEAD, last)]
        if not stored and ahead >= 0:
            row_prefetch(rows, ahead)
        i = np.uint64(visit[k])
        y, top, stiffness, step = facts[i, 0], facts[i, 1], facts[i, 2], facts[i, 3]
        a = alpha[i]
        before[k] = a
        score = w[i] if stored else row_dot(rows, i, w)
        short = tilt - y * (score + centre + reach * total)  # tilt - m_i
        best = top if short > 0.0 else 0.0  # the alpha_i that is minus the loss's slope here
        if stiffness > 0.0:
            best = min(max(short / stiffness, 0.0), top)
        lack += (best - a) * (short - 0.5 * stiffness * (best + a))
        g = stiffness * a - short  # of -D in alpha_i
        if (a <= 0.0 and g > above) or (a >= top and g < below):
            visit[k] = ~visit[k]
            continue
        low = min(low, g if a < top else max(g, 0.0))
        high = max(high, g if a > 0.0 else min(g, 0.0))
        moved = min(max(a - g * step, 0.0), top)
        if moved != a and abs(g) > 1e-14:
            change = moved - a
            gain += change * (tilt - stiffness * a)
            curve += change * change * stiffness
            alpha[i] = moved
            if echo.size:
                total += echo[echo.size - 1] * change * y
                row_add_each(rows, i, change * y, echo, w)
            else:
                total += change * y
                row_add(rows, i, change * y, w)
    balance[0] = total
    limits[0] = high
    limits[1] = low
    limits[4] = lack
    limits[5] = gain
    limits[6] = curve


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def put_together(w, copies, echo, change):
    """change = what all threads did to w, each in its copy and echoed. Returns <w, change> and |change|^2.

    And the echoes for the next time: (sum of what they did)^2 / sum of its squares, which is the number of threads
    where all did the same, and 1 where they had nothing to do with each other. Loops that vectorise.
    """
    inner, square, most = 0.0, 0.0, float(copies.shape[0])
    squares = np.empty(SPAN)
    for first in range(0, w.size, SPAN):
        last = min(first + SPAN, w.size)
        old, total, heard = w[first:last], change[first:last], echo[first:last]
        size = np.uint64(last - first)
        total[:] = 0.0
        squares[:] = 0.0
        for j in range(size):
            heard[j] = 1.0 / heard[j]
        for k in range(copies.shape[0]):
            copy = copies[k, first:last]
            for j in range(size):
                moved = (copy[j] - old[j]) * heard[j]
                total[j] += moved
                squares[j] += moved * moved
        for j in range(size):
            inner += old[j] * total[j]
            square += total[j] * total[j]
        for j in range(size):
            alike = total[j] * total[j] / max(squares[j], TINY)
            heard[j] = min(alike, most) if alike > 1.0 else 1.0
    return inner, square


@njit(cache=True, nogil=True)
def go_back(samples, before, scale, alpha):
    """alpha_i = only `scale` of the way from before; none of the samples is put aside for where it is not."""
    for k in range(samples.size):
        i = samples[k]
        i = i if i >= 0 else ~i
        samples[k] = i
        alpha[i] = before[k] + scale * (alpha[i] - before[k])


TINY_SCALE = 1e-6
FREE, PENALIZED = 1, 2  # how pegasos_pass treats the intercept; 0: there is none


@njit(cache=True, nogil=True, fastmath={"contract", "nsz"})
def pegasos_pass(
    rows, y, share, squared_norms, h, lam, batch, project, average, intercept, reach, order, v, u, scalars, seed
):
    """One pass of Pegasos in batches drawn without replacement, w = scale * v.

    share_i = n c_i / sum c weighs the samples; h is Huber's width, 0 for the hinge; reach is s^2 of a penalised
    intercept b = scale * b_v. scalars: [0] t, [1] scale, [2] |v|^2, [3] sum of t * scale, [4] b or b_v,
    [5] to b_v what u is to v, [6] sum of t.
    The average of all w_t with weights t is (scalars[3] v - u) / scalars[6]: u gathers every change of v times the sum
    of weights before it (a lazy average, O(nnz) a step).
    """
    n = order.size
    shuffle(order, 1, seed)
    pull = np.empty(batch)
    t, scale, square, weight, b, b_past, times = scalars
    for begin in range(0, n, batch):
        size = min(batch, n - begin)
        t += 1.0
        shift = b if intercept == FREE else scale * b
        inner = 0.0
        for k in range(size):
            if begin + k + AHEAD < n:
                ahead = order[begin + k + AHEAD]
                row_prefetch(rows, ahead)
                prefetch(y, np.uint64(ahead))
                prefetch(share, np.uint64(ahead))
            i = order[begin + k]
            inner = row_dot(rows, i, v)
            m = y[i] * (scale * inner + shift)
            if m <= 1.0 - h:
                pull[k] = share[i]
            elif m < 1.0 + h:
                pull[k] = share[i] * (1.0 + h - m) / (2.0 * h)
            else:
                pull[k] = 0.0
        if t > 1.0:  # the first step forgets w_1, which is 0
            scale *= 1.0 - 1.0 / t
        shift = 0.0
        for k in range(size):
            if pull[k] > 0.0:
                i = order[begin + k]
                change = y[i] * pull[k] / (lam * t * size * scale)
                if project:
                    if size > 1:  # then v is no longer what it was when inner was computed
                        inner = row_dot(rows, i, v)
                    square += change * (2.0 * inner + change * squared_norms[i])
                row_add(rows, i, change, v)
                if average:
                    row_add(rows, i, change * weight, u)
                if intercept == PENALIZED:
                    square += change * (2.0 * b + change * reach)
                    b += change * reach
                    b_past += change * reach * weight
                shift += y[i] * pull[k] / size
        if intercept == FREE:
            b += shift / np.sqrt(t)
        if project and scale * scale * square * lam > 1.0:
            scale = 1.0 / np.sqrt(lam * square)
        if scale < TINY_SCALE:  # fold it into v before weight v - u cancels; N = weight v - u stays what it is
            for j in range(v.size):
                if average:
                    u[j] -= weight * v[j]
                v[j] *= scale
            if intercept == PENALIZED:
                b_past -= weight * b
                b *= scale
            square *= scale * scale
            weight, scale = 0.0, 1.0
        if average:
            weight += t * scale
            times += t
    scalars[0] = t
    scalars[1] = scale
    scalars[2] = square
    scalars[3] = weight
    scalars[4] = b
    scalars[5] = b_past
    scalars[6] = times


@njit(cache=True, nogil=True, fastmath={"contract", "nsz"})
def products_of(rows, index, row, out):
    """out_kl = <x_i, x_j>, i = index_k and j = index_l, where it is nan; returns how many. `row` (d,) is all zeros."""
    count = 0
    for k in range(index.size):
        row_add(rows, index[k], 1.0, row)
        for m in range(k, index.size):
            if np.isnan(out[k, m]):
                out[k, m] = row_dot(rows, index[m], row)
                out[m, k] = out[k, m]
                count += 1
        row_add(rows, index[k], -1.0, row)
    return count


# --- probabilities ----------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def hash_rows(bits, indices, indptr, factors, out):
    """out_i = sum_j factors_j mix(x_ij) modulo 2^64 of the bits of float64 numbers; a dense matrix has no indptr.

    mix(0) = 0, and numbers with few digits get many.
    """
    for i in range(out.size):
        begin, end = (indptr[i], indptr[i + 1]) if indptr.size else (0, bits.shape[1])
        row = bits[0] if indptr.size else bits[i]
        total = np.uint64(0)
        for k in range(begin, end):
            b = row[k]
            b = np.uint64(0) if b == np.uint64(1 << 63) else b  # -0.0 is 0.0
            b = (b ^ (b >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
            total += (b ^ (b >> np.uint64(29))) * factors[indices[k] if indptr.size else k]
        out[i] = total


@njit(cache=True, nogil=True)
def sigmoid_sums(s, t, weight, a, b):
    """sum w_i (log(1 + exp(z_i)) - t_i z_i) with z = a s + b, its slopes in a and b, curvatures in aa, ab and bb."""
    value, by_a, by_b, aa, ab, bb = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(s.size):
        z = a * s[i] + b
        small = np.exp(-abs(z))
        p = (small if z < 0.0 else 1.0) / (1.0 + small)
        value += weight[i] * (max(z, 0.0) + np.log1p(small) - t[i] * z)
        pull = weight[i] * (p - t[i])
        bend = weight[i] * max(small / (1.0 + small) ** 2, 1e-12)
        by_a += pull * s[i]
        by_b += pull
        aa += bend * s[i] * s[i]
        ab += bend * s[i]
        bb += bend
    return value, by_a, by_b, aa, ab, bb


# --- samples that are left out ----------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, error_model="numpy")
def settle(Q, out, z, top, weight, upper, side, rounds, still):
    """The margin of each sample in `out` when it has no force and all others have found the ones of their new margins.

    z = z0 + Q rho, one sample after the other in closed form. On its piece (side 0) a sample has the force
    w (top - z), between 0 and upper; at side -1 it had none, at side 1 all of it. nan where `rounds` do not do.
    """
    n, found = len(z), np.full(len(out), np.nan)
    for place in range(len(out)):
        i = out[place]
        now, rho, last = z.copy(), np.zeros(n), z[i]
        for _ in range(rounds):
            for k in range(n + 1):
                j = i if k == 0 else k - 1
                if k and j == i:
                    continue
                w, q, t, u = weight[j], Q[j, j], top[j], upper[j]
                rest = now[j] - q * rho[j]  # the margin without what j itself has added
                stiff, loose = 1.0 + q * w, max(1.0 - q * w, 2.0**-52)
                new = 0.0
                if j == i:
                    new = -u if side[j] > 0 else w * (rest - t) / loose
                elif side[j] == 0:
                    if rest > t:
                        new = w * (rest - t) / loose
                    elif w * (t - rest) > u:
                        new = (u - w * (t - rest)) / loose
                elif side[j] < 0:
                    if rest < t:
                        new = min(u, w * (t - rest) / stiff)
                elif w * (t - rest) < u:
                    new = max(-u, (w * (t - rest) - u) / stiff)
                change = new - rho[j]
                if change != 0.0:
                    rho[j] = new
                    for other in range(n):
                        now[other] += change * Q[j, other]
            if abs(now[i] - last) <= still[place]:
                found[place] = now[i]
                break
            last = now[i]
    return found
