"""The kernel matrix between samples that stand several times, each time with a tag:

    k((x_i, g), (x_j, h)) = k(x_i, x_j) + s^2 [g = h]

Products and entries come from the matrix of the samples themselves: a product with n g rows costs one with n.
"""

from functools import cached_property

import numpy as np

from .kernel_matrix import SMALL, TILE, Columns, KernelMatrix
from .losses import EPS


class RepeatedKernel(KernelMatrix):
    """K[samples, samples] + s^2 [tags = tags'] for a positive K."""

    def __init__(self, K: KernelMatrix, samples: np.ndarray, tags: np.ndarray, s: float):
        self.K, self.samples, self.tags, self.square = K, samples, tags, s * s
        self.n, self.threads, self.memory_limit = len(samples), K.threads, K.memory_limit
        self.accuracy = K.accuracy + 2 * EPS  # of the sum; s^2 is part of what both diagonal entries have
        self._stored: np.ndarray | None = None
        if 8 * self.size <= min(SMALL, self.memory_limit):
            self.array()

    @property
    def held(self):
        return self._stored is not None

    @property
    def work(self):
        return self.size if self.held else self.K.work + self.n

    @cached_property
    def diagonal(self):
        return self.K.diagonal[self.samples] + self.square

    def matvec(self, v, picked=None):
        of_samples = np.zeros(self.K.n)
        np.add.at(of_samples, self.samples, v)
        of_tags = self.square * np.bincount(self.tags, weights=v)
        if picked is None:
            return self.K.matvec(of_samples)[self.samples] + of_tags[self.tags]
        distinct, place = np.unique(self.samples[picked], return_inverse=True)
        return self.K.matvec(of_samples, distinct)[place] + of_tags[self.tags[picked]]

    def block(self, rows, cols):
        out = self.K.block(self.samples[rows], self.samples[cols])
        return out + self.square * (self.tags[rows][:, None] == self.tags[cols])

    def columns(self, picked, dtype=np.float32):
        return _RepeatedColumns(self, picked, dtype)

    def take(self, picked):
        return RepeatedKernel(self.K, self.samples[picked], self.tags[picked], float(np.sqrt(self.square)))

    def array(self):
        if self._stored is None:
            if 8 * self.size > self.memory_limit:
                raise MemoryError(
                    f"the kernel matrix of {self.n} rows, a sample once for each boundary, needs "
                    f"{8 * self.size / 2**30:.3g} GiB, memory_limit is {self.memory_limit / 2**30:.3g} GiB; raise it, "
                    "or take the solver smo."
                )
            everything = np.arange(self.n)
            self._stored = self.block(everything, everything)
        return self._stored


class _RepeatedColumns(Columns):
    K: RepeatedKernel

    def fill(self, rows, out):
        for t in range(self.tiles):
            cols = self.picked[t * TILE : (t + 1) * TILE]
            out[t, :, : len(cols)] = self.K.block(rows, cols)

    def block(self, rows, cols):
        return self.K.block(rows, cols).astype(self.dtype, copy=False)
