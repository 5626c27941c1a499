"""Rows that come in pieces, for data larger than memory: `Chunks` reads them, `Chunked` is X made of them.

    chunks.shape, chunks.dtype            of the whole
    chunks.y                              the labels, or None; like all that is n numbers long, held in memory
    chunks.pieces()                       (k, piece k) one by one, dense or CSR, as often as asked
    chunks.map(transform, width)          the same rows, each piece transformed: features of a kernel, for instance
    chunks.spooled()                      the same pieces, copied into a temporary file
    chunks.load()                         all of it in memory, as one array

A source of its own kind inherits from Chunks and says `_stream(places)`; `chunk_files` has those that read files.
While a piece is used the next one is read: two are in memory at a time, three for a moment.

A certificate is about one X, so a piece must be the same to the last bit whenever it is read. That is why a transform
sees the same rows together every time, however few of them are asked for, and why a file that changes is an error.
"""

import math
import os
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import cached_property
from itertools import groupby, pairwise
from pathlib import Path
from typing import IO, Any, ClassVar, NamedTuple, NoReturn

import numpy as np
import scipy.sparse as sp

from .kernel_matrix import MEMORY_LIMIT
from .losses import Array
from .matrix import Dense, Matrix, Sparse, as_matrix, one_blas_thread

PIECE_BYTES = 32 * 2**20  # of a piece: long enough to be read at the disk's pace, small beside any memory
KEPT = 0.5  # of the memory limit may go to pieces that are kept; the rest is for samples of the rows

Piece = Any  # (m, d): an array or a CSR matrix


def piece_rows(row_bytes: float) -> int:
    """How many rows of so many bytes a piece has."""
    return max(1, int(PIECE_BYTES / max(row_bytes, 1)))


def cut(n: int, row_bytes: float) -> np.ndarray:
    """Where to cut n rows of so many bytes into pieces."""
    return np.append(np.arange(0, n, piece_rows(row_bytes)), n)


class Chunks:
    """Rows of a data set that come in pieces; see the module's text."""

    def __init__(
        self,
        bounds: Sequence[int] | np.ndarray,
        width: int,
        dtype: Any = np.float64,
        y: np.ndarray | None = None,
        *,
        names: tuple[str, ...] | None = None,
        title: str = "X",
        memory_limit: float = MEMORY_LIMIT,
        sparse: bool = False,
    ):
        self.bounds = np.asarray(bounds, dtype=np.int64)  # piece k has the rows bounds[k] .. bounds[k + 1] - 1
        self.shape = (int(self.bounds[-1]), width)
        self.dtype = np.dtype(dtype if np.dtype(dtype) in (np.float32, np.float64) else np.float64)
        self.y, self.names = y, names  # names of the features, where they have some
        self.title = title  # for messages
        self.sparse = sparse  # the pieces are CSR
        self.memory_limit = memory_limit  # bytes that a Chunked may hold
        self.rows_read = 0
        self.watch: Callable[[Chunks], None] | None = None  # called after each piece
        if y is not None and len(y) != self.shape[0]:
            raise ValueError(f"{title}: expected {self.shape[0]} labels, one a row, found {len(y)}.")

    def _stream(self, places: Sequence[int]) -> Iterator[Piece]:
        """Those pieces, in that order, which is ascending. Several threads may be at it at the same time."""
        raise NotImplementedError

    @property
    def passes(self) -> float:
        """How often all rows have been read."""
        return self.rows_read / max(self.shape[0], 1)

    def pieces(self, places: Sequence[int] | None = None) -> Iterator[tuple[int, Piece]]:
        """(k, piece k), for all of them or for some."""
        places = range(len(self.bounds) - 1) if places is None else places
        for k, piece in zip(places, _ahead(self._stream(places)), strict=True):
            rows = int(self.bounds[k + 1] - self.bounds[k])
            if piece.shape != (rows, self.shape[1]):
                raise ValueError(
                    f"{self.title}: piece {k} must have {rows} rows and {self.shape[1]} columns, its shape is "
                    f"{piece.shape}; give every row the same columns."
                )
            self._count(rows)
            yield k, piece

    def _count(self, rows: int) -> None:
        self.rows_read += rows
        if self.watch is not None:
            self.watch(self)

    def map(
        self, transform: Callable[[Piece], Piece], width: int, dtype: Any = None, row_bytes: float = -1
    ) -> "Chunks":
        """The rows transformed, (m, d) to (m, width), in pieces cut so that the results are not too large.

        `row_bytes` are those of a row of the result, where it is not dense; 0 leaves the pieces as they are.
        """
        return _Mapped(self, transform, width, self.dtype if dtype is None else dtype, row_bytes)

    def spooled(self) -> "Chunks":
        """A copy in a temporary file: read again faster than text is parsed or features are computed."""
        scratch = Scratch()
        for _, piece in self.pieces():
            scratch.add(piece)
        return scratch.close(self.shape[1], dtype=self.dtype, names=self.names, sparse=self.sparse, **self._facts)

    def load(self) -> Piece:
        """All rows as one array or CSR matrix."""
        sparse, whole = [], np.empty((0, 0))
        for k, piece in self.pieces():
            if sp.issparse(piece):
                sparse.append(piece)
            else:
                whole = whole if len(whole) else np.empty(self.shape, self.dtype)
                whole[self.bounds[k] : self.bounds[k + 1]] = piece
        return sp.vstack(sparse, format="csr") if sparse else whole

    @property
    def _facts(self) -> dict[str, Any]:
        """What stays the same when the columns do not."""
        return {"y": self.y, "title": self.title, "memory_limit": self.memory_limit}

    def __array__(self, *_, **__) -> NoReturn:
        raise TypeError(f"{self.title} comes in pieces where an array is needed; chunks.load() makes it one.")


def _ahead(stream: Iterator[Piece]) -> Iterator[Piece]:
    """The same pieces, each made by another thread while the one before it is used."""
    with ThreadPoolExecutor(1, thread_name_prefix="primalsvm-read") as reader:
        waiting = reader.submit(next, stream, None)
        while (piece := waiting.result()) is not None:
            waiting = reader.submit(next, stream, None)
            yield piece


def check_finite(piece: Piece, first: int, title: str) -> None:
    """Raise ValueError for the first entry that is no number; `first` is the place of the piece's first row."""
    if not np.isfinite(piece.data if sp.issparse(piece) else piece).all():
        csr = sp.csr_array(piece)
        k = int(np.flatnonzero(~np.isfinite(csr.data))[0])
        row = first + int(np.searchsorted(csr.indptr, k, "right"))
        raise ValueError(
            f"{title}: sample {row}, feature {csr.indices[k] + 1} (from 1) is NaN or infinite; impute or drop it first."
        )


def show_pass(chunks: Chunks) -> None:
    """A bar on stderr, where that is a terminal: `watch` of a fit that talks."""
    if sys.stderr.isatty():
        count, part = divmod(chunks.passes, 1.0)
        print(f"pass {int(count) + 1} [{'#' * int(30 * part):<30}]", end="\r", file=sys.stderr, flush=True)


# --- rows in memory, and pieces made of pieces ------------------------------------------------------------------------


class _Slices(Chunks):
    """Of an array, a CSR matrix, a memmap, or anything else that has a shape and whose rows can be sliced."""

    def __init__(self, X, y: np.ndarray | None, memory_limit: float):
        self.X = X
        entries = X.nnz * 1.5 if sp.issparse(X) else X.shape[0] * X.shape[1]  # an entry of CSR has its index
        row_bytes = X.dtype.itemsize * entries / max(X.shape[0], 1)
        facts = {"memory_limit": memory_limit, "sparse": sp.issparse(X)}
        super().__init__(cut(X.shape[0], row_bytes), X.shape[1], X.dtype, y, **facts)

    def _stream(self, places):
        for k in places:
            yield self.X[self.bounds[k] : self.bounds[k + 1]]


def as_chunks(X, y=None, *, memory_limit: float = MEMORY_LIMIT) -> Chunks:
    """Rows of an array, a CSR matrix, a memmap, an HDF5 or Zarr data set: of what has a shape and slices of rows."""
    if isinstance(X, Chunks):
        return X
    if len(getattr(X, "shape", ())) != 2 or (sp.issparse(X) and X.format != "csr"):
        raise ValueError(f"expected rows that can be sliced, an array (n, d) or a CSR matrix, got {type(X).__name__}.")
    return _Slices(X, None if y is None else np.asarray(y), memory_limit)


class _Mapped(Chunks):
    """Each piece of another, transformed."""

    def __init__(self, base: Chunks, transform: Callable, width: int, dtype: Any, row_bytes: float):
        self.base, self.transform = base, transform
        row_bytes = width * np.dtype(dtype).itemsize if row_bytes < 0 else row_bytes
        begins = [begin + cut(end - begin, row_bytes)[:-1] for begin, end in pairwise(base.bounds)]
        self.origin = np.repeat(np.arange(len(begins)), [len(part) for part in begins])  # the piece it is a part of
        super().__init__(np.concatenate([*begins, base.bounds[-1:]]), width, dtype, **base._facts)

    def _stream(self, places):
        groups = [(int(origin), list(mine)) for origin, mine in groupby(places, self.origin.__getitem__)]
        pieces = self.base._stream([origin for origin, _ in groups])
        for (origin, mine), piece in zip(groups, pieces, strict=True):
            self.base._count(piece.shape[0])
            for k in mine:
                begin, end = self.bounds[k : k + 2] - self.base.bounds[origin]
                yield self.transform(piece[begin:end])


# --- arrays in binary files -------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """Where an array is in a file."""

    offset: int
    dtype: np.dtype
    shape: tuple[int, ...]
    stride: int = 0  # bytes from a column to the next, in Fortran's order

    def read(self, file: IO[bytes]) -> np.ndarray:
        """The numbers in the order of the file; too few of them where it breaks off."""
        columns = self.shape[1] if self.stride else 1
        parts = []
        for j in range(columns):
            file.seek(self.offset + j * self.stride)
            parts.append(np.fromfile(file, self.dtype, math.prod(self.shape) // columns))
        return parts[0] if columns == 1 else np.concatenate(parts)

    def shaped(self, numbers: np.ndarray) -> np.ndarray:
        return numbers.reshape(self.shape[::-1]).T if self.stride else numbers.reshape(self.shape)


class Stored(Chunks):
    """Arrays in a file: one for a piece of dense rows; data, indices and indptr for one of sparse rows.

    It is read, not mapped into memory: what a map has touched counts as memory of the process, and a file that is cut
    short while it is mapped kills it.
    """

    def __init__(self, source: Path | IO[bytes], layout: list[list[Place]], *args, first: int = 0, **facts):
        super().__init__(*args, **facts)
        self.source, self.layout, self.first = source, layout, first  # the first column's index
        self.lock = threading.Lock()
        self.stamp = stamp(source)

    def _stream(self, places):
        with open(self.source, "rb") if isinstance(self.source, Path) else nullcontext(self.source) as file:
            for k in places:
                with self.lock:  # a temporary file has one position for all who read it
                    read = [(place, place.read(file)) for place in self.layout[k]]
                check_unchanged(self.source, self.stamp)
                arrays = [place.shaped(numbers) for place, numbers in read]
                if len(arrays) == 1:
                    yield arrays[0]
                else:
                    data, indices, indptr = arrays
                    yield sp.csr_matrix((data, indices - self.first, indptr), (len(indptr) - 1, self.shape[1]))


class Scratch:
    """A temporary file, gone with the last who reads it, to which pieces are added one after the other."""

    def __init__(self):
        self.file = tempfile.TemporaryFile(prefix="primalsvm-")  # noqa: SIM115
        self.ended = weakref.finalize(self, self.file.close)
        self.layout: list[list[Place]] = []
        self.bounds = [0]

    def add(self, piece: Piece) -> None:
        sparse = sp.issparse(piece)
        arrays = [piece.data, piece.indices, piece.indptr] if sparse else [np.ascontiguousarray(piece)]
        self.layout.append([])
        for array in arrays:
            self.layout[-1].append(Place(self.file.tell(), array.dtype, array.shape))
            try:
                array.tofile(self.file)
            except OSError as error:
                raise ValueError(f"no room for a temporary copy ({error}); let TMPDIR name a larger disk.") from None
        self.bounds.append(self.bounds[-1] + piece.shape[0])

    def close(self, width: int, **facts) -> Stored:
        self.file.flush()
        chunks = Stored(self.file, self.layout, self.bounds, width, **facts)
        self.ended.detach()
        weakref.finalize(chunks, self.file.close)
        return chunks


def stamp(source: Path | IO[bytes]) -> tuple[int, int]:
    """What changes with a file; a temporary one is ours alone."""
    if not isinstance(source, Path):
        return 0, 0
    facts = os.stat(source)
    return facts.st_size, facts.st_mtime_ns


def check_unchanged(source: Path | IO[bytes], before: tuple[int, int]) -> None:
    if stamp(source) != before:
        raise ValueError(f"{source}: the file was changed while it was in use; begin again.")


# --- the matrix -------------------------------------------------------------------------------------------------------


class Chunked(Matrix):
    """X in pieces: each verb is one pass over those that it concerns. `picked` must be in ascending order.

    The first pass checks every number and finds the norms; pieces are kept while there is room.
    """

    in_memory: ClassVar[bool] = False

    def __init__(self, chunks: Chunks, threads: int = 1):
        self.chunks, self.threads = chunks, threads
        self.shape, self.dtype = chunks.shape, chunks.dtype
        self.entries = self.bytes = self.matvec_terms = self._piece_terms = 0
        self._squares = np.empty(self.shape[0])
        self.kept: list[Dense | Sparse] = []
        self._pull: tuple[np.ndarray, Array, Array] | None = None  # picked, weights, X[picked]' weights
        with one_blas_thread():  # as in all other passes: a transform must not round in another way
            for k, piece in chunks.pieces():
                self._look(k, piece)

    def _look(self, k: int, piece: Piece) -> None:
        """Check piece k, take down what is asked of it later, and keep it if there is room."""
        begin, end = self.chunks.bounds[k : k + 2]
        check_finite(piece, int(begin), self.chunks.title)
        matrix = as_matrix(piece, self.threads, ordered=False)
        self._squares[begin:end] = matrix.squared_norms
        self.entries += matrix.entries
        self.bytes += matrix.bytes
        self.matvec_terms = max(self.matvec_terms, matrix.matvec_terms)
        self._piece_terms = max(self._piece_terms, matrix.transpose_terms)
        if self.bytes <= KEPT * self.chunks.memory_limit:
            self.kept.append(as_matrix(_raw(matrix), self.threads, ordered=False))  # without its norms

    @cached_property
    def squared_norms(self):
        return self._squares

    @property
    def transpose_terms(self):
        return self._piece_terms + len(self.chunks.bounds)

    @property
    def rows(self):  # type: ignore[override]
        raise ValueError(f"{self.chunks.title} comes in pieces where rows in memory are needed; see chunks.load().")

    def _walk(self, picked: np.ndarray | None, used: Array | None = None) -> Iterator[tuple[Matrix, Any, slice]]:
        """(piece, those picked of its rows or None, their places among all picked) where any is picked, or `used`."""
        bounds = self.chunks.bounds
        if picked is not None and np.any(picked[1:] < picked[:-1]):
            raise ValueError("rows that come in pieces are picked in ascending order.")
        ends = bounds if picked is None else np.searchsorted(picked, bounds)
        parts = [slice(begin, end) for begin, end in pairwise(ends)]
        places = [k for k, part in enumerate(parts) if part.stop > part.start and (used is None or used[part].any())]
        for k, piece in self._pieces(places):
            yield piece, None if picked is None else picked[parts[k]] - bounds[k], parts[k]

    def _pieces(self, places: list[int]) -> Iterator[tuple[int, Matrix]]:
        held = len(self.kept)
        yield from ((k, self.kept[k]) for k in places if k < held)
        if rest := [k for k in places if k >= held]:
            for k, piece in self.chunks.pieces(rest):
                yield k, as_matrix(piece, self.threads, ordered=False)

    def matvec(self, w, picked=None):
        out = np.empty(self.shape[0] if picked is None else len(picked))
        for piece, rows, part in self._walk(picked):
            out[part] = piece.matvec(w, rows)
        return out

    def transpose_matvec(self, a, picked=None):
        if picked is not None and (last := self._pull) is not None and np.array_equal(picked, last[0]):
            for sign in (1.0, -1.0):
                if np.array_equal(a, sign * last[1]):
                    return sign * last[2]
        total = np.zeros(self.shape[1])
        for piece, rows, part in self._walk(picked, used=a):
            total += piece.transpose_matvec(a[part], rows)
        return total

    def normal_matvec(self, w, weights, picked):
        total = np.zeros(self.shape[1])
        for piece, rows, part in self._walk(picked):
            total += piece.normal_matvec(w, weights[part], rows)
        return total

    def _gram(self, weights, picked):
        """And X[picked]' weights in the same pass: Newton's method asks for it next."""
        total, pull = np.zeros((self.shape[1], self.shape[1])), np.zeros(self.shape[1])
        for piece, rows, part in self._walk(picked):
            total += piece._gram(weights[part], rows)
            pull += piece.transpose_matvec(weights[part], rows)
        self._pull = (picked.copy(), weights.copy(), pull)
        return total

    def diagonal(self, weights, picked):
        total = np.zeros(self.shape[1])
        for piece, rows, part in self._walk(picked):
            total += piece.diagonal(weights[part], rows)
        return total

    def take(self, picked: np.ndarray) -> Matrix:
        """In memory where there is room for it, else in pieces in a temporary file."""
        taken = (_raw(piece.take(rows)) for piece, rows, _ in self._walk(picked))
        if self.bytes * len(picked) / max(self.shape[0], 1) <= max((1 - KEPT) * self.chunks.memory_limit, PIECE_BYTES):
            return self._join(list(taken))
        scratch, limit = Scratch(), self.chunks.memory_limit
        for piece in taken:
            scratch.add(piece)
        return Chunked(scratch.close(self.shape[1], dtype=self.dtype, memory_limit=limit), self.threads)

    def outer_gram(self):
        return self._join([_raw(piece) for piece, _, _ in self._walk(None)]).outer_gram()

    def toarray(self):
        return self._join([_raw(piece) for piece, _, _ in self._walk(None)]).toarray()

    def _join(self, pieces: list[Piece]) -> Matrix:
        pieces = pieces or [np.zeros((0, self.shape[1]), self.dtype)]
        return as_matrix(sp.vstack(pieces, "csr") if sp.issparse(pieces[0]) else np.concatenate(pieces), self.threads)


def _raw(matrix: Any) -> Piece:
    return matrix.csr if isinstance(matrix, Sparse) else matrix.values
