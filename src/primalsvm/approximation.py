"""From prepared data to a basis and its features: what SVC solves where K is too large."""

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .basis_choice import HeldOut, Task, choose_basis, pool_size
from .chunks import Chunked, Chunks, as_chunks, check_finite
from .classifier import Prepared
from .kernels import Kernel
from .losses import Array
from .matrix import Dense
from .reduced import Basis, Mapped
from .solve import Start

FEWEST, HELD_OUT = 20, 20_000  # samples held out: fewer would say nothing, more not much more
SPOOL = 0.5  # of the free disk may go to features of files that are read in pieces
FINISH = 5  # times as many samples as in the pool, for which it pays to begin at its solution
EACH_CLASS = 50  # samples that the choice of a basis sees, at least


class Expanded(NamedTuple):
    """The kernel, a basis of some samples, and its features of all."""

    kernel: Kernel
    basis: Basis
    features: Mapped
    starts: list[Start | None]  # not far from the solutions


def expand_problem(
    data: Prepared,
    facts: list[dict[str, Any]],
    method: str,
    size: int,
    *,
    error: Callable[[Array, np.ndarray], float] | None,
    rng: np.random.Generator,
    memory_limit: float,
    threads: int,
    say: Callable[[str], None] | None,
) -> Expanded:
    """A basis of at most `size` samples for binary problems, of which `facts` are those of Problem.

    With `error`, of scores of some samples, the basis grows until that does not fall on samples held out.
    """
    kernel = data.matrix.kernel
    pool, held = _draw(data, size, rng, error is not None)
    X = rows_of(data.X, pool)
    held_out = None
    if error is not None and len(held):
        held_out = HeldOut(rows_of(data.X, held), lambda scores: error(scores, held))
    tasks = _tasks(data, facts, pool)
    finish = data.n >= FINISH * len(pool)
    basis, values, fits = choose_basis(
        method, kernel, X, tasks, size, rng, held_out=held_out, finish=finish, threads=threads, watch=say
    )
    basis = replace(basis, samples=pool[basis.samples])
    features = _features(data, basis, memory_limit, threads, say, (pool[: len(values)], values))
    starts: list[Start | None] = [Start(fit.w, fit.b, rough=True) for fit in fits]
    return Expanded(kernel, basis, features, starts or [None] * len(tasks))


def _draw(data: Prepared, size: int, rng: np.random.Generator, hold: bool) -> tuple[np.ndarray, np.ndarray]:
    """(pool, held out): samples with a weight, in random order, but some of each class first in the pool."""
    order = rng.permutation(np.flatnonzero(data.weight > 0))
    count = min(len(order) // 10, HELD_OUT)
    held = order[: count if hold and count >= FEWEST else 0]
    rest = order[len(held) :]
    few = [rest[data.labels[rest] == k][:EACH_CLASS] for k in range(len(data.classes))]
    turns = np.argsort(np.concatenate([np.arange(len(each)) for each in few]), kind="stable")  # one of each, again ...
    pool = np.concatenate([np.concatenate(few)[turns], rest[: pool_size(len(rest), size)]])
    first = np.unique(pool, return_index=True)[1]
    return pool[np.sort(first)], np.sort(held)


def _tasks(data: Prepared, facts: list[dict[str, Any]], pool: np.ndarray) -> list[Task]:
    """The binary problems on the pool, each sample standing for those that are not in it."""
    tasks = []
    for part, own in zip(data.parts, facts, strict=True):
        places = np.full(data.n, -1)
        places[part.take(np.arange(data.n))] = np.arange(len(part.y))
        mine = places[pool]
        rows = np.flatnonzero(mine >= 0)
        mine = mine[rows]
        cost = own["cost"][mine] * (data.n / len(pool))
        tasks.append(Task(rows, part.y[mine], cost, own["loss"], own["intercept"]))
    return tasks


def _features(
    data: Prepared,
    basis: Basis,
    memory_limit: float,
    threads: int,
    say: Callable[[str], None] | None,
    known: tuple[np.ndarray, np.ndarray] | None = None,
) -> Mapped:
    """Of all samples: in memory where there is room; in a temporary file; or made again in every pass."""
    X, width = data.X, len(basis)
    size = data.n * width * np.dtype(basis.dtype).itemsize
    fits, pieces = size <= memory_limit, isinstance(X, Chunks)
    spool = pieces and not fits and size <= SPOOL * shutil.disk_usage(tempfile.gettempdir()).free
    if say is not None:
        how = "kept in memory" if fits else "kept in a temporary file" if spool else "computed in every pass"
        limit = "" if fits else f": memory_limit is {memory_limit / 2**30:.3g} GiB"
        say(f"basis: {width} of {data.n} samples; its features, {size / 2**30:.3g} GiB, are {how}{limit}")
    if fits and not pieces:
        return Mapped(Dense(basis.values(X, threads, known), threads), basis)
    chunks = as_chunks(X, memory_limit=memory_limit)

    def values(piece):
        check_finite(piece, 0, chunks.title)
        return basis.values(piece, threads)

    made = chunks.map(values, width, basis.dtype)
    made.memory_limit = memory_limit
    return Mapped(Chunked(made.spooled() if spool else made, threads), basis)


def rows_of(X, picked: np.ndarray):
    """X[picked], in memory."""
    if not isinstance(X, Chunks):
        return X[picked]
    order = np.argsort(picked)  # that of the files
    picked = picked[order]
    ends = np.searchsorted(picked, X.bounds)
    wanted = [k for k in range(len(ends) - 1) if ends[k + 1] > ends[k]]
    parts = []
    for k, piece in X.pieces(wanted):
        check_finite(piece, int(X.bounds[k]), X.title)
        parts.append(piece[picked[ends[k] : ends[k + 1]] - X.bounds[k]])
    rows = sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)
    return rows[np.argsort(order)]
