"""Rows of K in float32, kept for solvers that need some of them again and again.

RowRing keeps the newest ones, over the samples in play; KeptRows keeps all it ever had, for problems small enough. What
is kept is counted against the memory limit by whoever makes one.
"""

import mmap
from collections import deque

import numpy as np

from .crew import in_parts
from .kernel_matrix import TILE, Columns, KernelMatrix
from .losses import Array

NOTHING = np.empty((0, 0), dtype=np.float32)


def take_room(rooms: deque[np.ndarray], size: int, dtype: np.dtype) -> np.ndarray:
    """An array of so many numbers for a ring: one that another problem has left, or a new one."""
    try:
        room = rooms.pop()
    except IndexError:
        return new_room(size, dtype)
    return room if len(room) >= size and room.dtype == dtype else new_room(size, dtype)


def new_room(size: int, dtype: np.dtype) -> np.ndarray:
    """An array in small pages. NumPy asks for huge ones, which the system must first make: longer than a small fit."""
    bytes_ = size * np.dtype(dtype).itemsize
    if not (bytes_ and hasattr(mmap, "MAP_PRIVATE")):
        return np.empty(size, dtype=dtype)
    return np.frombuffer(mmap.mmap(-1, bytes_, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), dtype=dtype)


class RowRing:
    """Rows of K over the samples in play, the newest of them kept."""

    def __init__(self, columns: Columns, n: int, capacity: int, room: np.ndarray | None = None):
        """With `room`, of the type of the columns: an array that this ring takes its memory from."""
        self.columns = columns
        shape = columns.tiles, capacity, TILE
        size = columns.tiles * capacity * TILE
        fits = room is not None and size <= len(room)
        self.values = room[:size].reshape(shape) if fits else np.empty(shape, dtype=columns.dtype)  # type: ignore[index]
        self.slot = np.full(n, -1)
        self.owner = np.full(capacity, -1)
        self.hand = 0

    def add(self, rows: np.ndarray, weights: Array, scores: Array) -> int:
        """scores += K[in play, rows] weights; returns how many rows were computed.

        Tile by tile: what was computed is used while it is in the cache.
        """
        from .working_sets import add_cached_rows

        tiles, threads = self.columns.tiles, self.columns.K.threads
        cuts = [tiles * k // threads for k in range(threads + 1)] if tiles >= threads else [0, tiles]
        capacity, computed = len(self.owner), 0
        for first in range(0, len(rows), capacity):
            part = slice(first, first + capacity)
            missing, place = self._make_room(rows[part])
            make = self.columns.maker(missing) if len(missing) else None
            if len(missing) and make is None:
                self.columns.fill(missing, self.values[:, place])
            slots, weight = self.slot[rows[part]], weights[part]

            def work(begin: int, end: int, make=make, place=place, slots=slots, weight=weight) -> None:
                for t in range(begin, end):
                    if make is not None:
                        make(t, self.values[t, place])
                    add_cached_rows(self.values, slots, weight, t, t + 1, scores)

            in_parts(cuts, work)
            computed += len(missing)
        return computed

    def _make_room(self, rows: np.ndarray) -> tuple[np.ndarray, slice]:
        """(those that are not there, where they will be)"""
        missing = rows[self.slot[rows] < 0]
        if not len(missing):
            return missing, slice(0, 0)
        while True:
            if self.hand + len(missing) > len(self.owner):
                self.hand = 0
            place = slice(self.hand, self.hand + len(missing))
            gone = self.owner[place][self.owner[place] >= 0]
            self.slot[gone] = -1
            self.owner[place] = -1
            again = rows[self.slot[rows] < 0]
            if len(again) == len(missing):
                break
            missing = again  # some that are needed now were in the way
        self.slot[missing] = np.arange(place.start, place.stop)
        self.owner[place] = missing
        self.hand = place.stop
        return missing, place


class KeptRows:
    """Rows of K over all samples, as many as were needed so far; all of them where K is held."""

    def __init__(self, K: KernelMatrix):
        self.slot = np.arange(K.n) if K.held else np.full(K.n, -1)
        self.columns = None if K.held else K.columns(np.arange(K.n))
        self.features = NOTHING  # from which the compiled loop can make rows itself
        if self.columns is None:
            self.values = K.array() if K.array().flags.writeable else K.array().copy()  # compiled for one kind only
            return
        gaussian = self.columns.gaussian_features()
        if gaussian is not None:
            self.features = gaussian
        self.values = new_room(K.n * K.n, self.columns.dtype).reshape(K.n, K.n)  # what is never touched costs nothing

    @property
    def count(self) -> int:
        return int(self.slot.max(initial=-1)) + 1

    @property
    def complete(self) -> bool:
        """Is every row there, or made when it is needed?"""
        return self.columns is None or self.features.size > 0

    def bring(self, new: np.ndarray) -> None:
        """Compute these rows, which are not there."""
        assert self.columns is not None
        begin, end = self.count, self.count + len(new)
        self.values[begin:end] = self.columns.block(new, self.columns.picked)
        self.slot[new] = np.arange(begin, end)
