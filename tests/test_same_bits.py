"""Compiled sums have the same bits wherever their arrays lie: loops that read and write ask whether those overlap."""

import numpy as np
import pytest

from primalsvm.cpu_kernels import LUMP, feasible_sums, loss_sums, proximal_shares, proximal_slope, put_together

PLACES = 16


class Shelf:
    """Arrays in one piece of memory, in any order, close to each other or not."""

    def __init__(self, seed, size):
        rng = np.random.default_rng(seed)
        self.size = size + int(rng.choice([0, 5, 1000]))
        self.memory, self.places = np.zeros(PLACES * self.size), list(rng.permutation(PLACES))

    def put(self, *arrays):
        return [self.place(np.shape(array), array) for array in arrays]

    def place(self, shape, values=0.0):
        begin = self.places.pop() * self.size
        array = self.memory[begin : begin + int(np.prod(shape))].reshape(shape)
        array[...] = values
        return array


def shares(shelf, rng, n):
    margins, along, centre, cost = shelf.put(*rng.standard_normal((2, n)), rng.random(n), rng.random(n))
    share, y = shelf.put(np.clip(rng.standard_normal(n), 0, 1), np.sign(rng.standard_normal(n)))
    loss, figures = (cost, centre, 0.2, 1.0, 0.0, 1.0), []
    for t, known in ((0.3, True), (0.3, False), (0.0, False)):
        written = [shelf.place(n) for _ in range(3)]
        figures += [*proximal_shares(margins, along, t, known, *loss, share, y, *written), *written]
    return *figures, *proximal_slope(margins, along, 0.3, *loss)


def judged(shelf, rng, n):
    alpha, cost, y, scores = shelf.put(rng.standard_normal(n), rng.random(n), *np.sign(rng.standard_normal((2, n))))
    error, lumps = shelf.place(n, 1e-9), -(-n // LUMP)
    inside, signed, sums, low, high = (shelf.place(shape) for shape in (n, n, (5, lumps), lumps, lumps))
    feasible_sums(alpha, y, cost, 0.5, np.inf, 0.1, 0, n, inside, signed, sums)
    loss_sums(scores, error, y, cost, 0.1, 1e-15, 1.0, 0.5, np.inf, 0, n, low, high)
    return inside, signed, sums, low, high


def together(shelf, rng, n):
    w, copies, echo = shelf.put(rng.standard_normal(n), rng.standard_normal((2, n)), np.ones(n))
    change = shelf.place(n)
    return *put_together(w, copies, echo, change), change, echo


@pytest.mark.parametrize("kernel", [shares, judged, together])
@pytest.mark.parametrize("n", [5, 15, 67, 700])
def test_the_same_bits_wherever_arrays_lie(kernel, n):
    runs = [kernel(Shelf(seed, 2 * n), np.random.default_rng(n), n) for seed in range(30)]
    for run in runs[1:]:
        for figure, first in zip(run, runs[0], strict=True):
            np.testing.assert_array_equal(figure, first)
