"""Data files read in pieces: .npy, Parquet and svmlight text, of any size.

    .npy        rows of the file are pieces; labels in a .npy of their own, or in a column
    .parquet    row groups, cut where they are long; one column has the labels. Needs pyarrow
    svmlight    parsed once, into a temporary file (TMPDIR says where) which the pieces then come from

Only the labels are held in memory. Whatever is wrong with a file is a `DataError` of one sentence.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from itertools import groupby, pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np
from scipy.sparse import csr_matrix

from .chunks import PIECE_BYTES, Chunks, Place, Scratch, Stored, check_unchanged, cut, piece_rows, stamp
from .kernel_matrix import MEMORY_LIMIT
from .readers import find_label_column, format_of, named_errors, open_file, parse_svmlight, refuse


def open_chunks(
    path: str | os.PathLike[str],
    *,
    label: str | int | None = None,
    labels: str | os.PathLike[str] | np.ndarray | None = None,
    format: str | None = None,
    memory_limit: float = MEMORY_LIMIT,
) -> Chunks:
    """The rows of a file, to be trained on or predicted in pieces.

    Parameters
    ----------
    path : a .npy, Parquet or svmlight file; the last also compressed.
    label : the column with the labels, by name (Parquet; by default one called label, target, class or y) or by
        position.
    labels : the labels instead, as an array or a .npy file.
    format : "npy", "parquet" or "svmlight", where the name does not tell.
    memory_limit : bytes of rows that a fit may hold in memory.

    Returns
    -------
    Chunks
        With ``y`` None where the file has no labels; then ``fit`` takes them.

    Examples
    --------
    >>> from primalsvm import LinearSVC, open_chunks
    >>> LinearSVC().fit(open_chunks("big.parquet", label="clicked"))  # doctest: +SKIP
    """
    path = Path(path)
    with named_errors(path):
        with open_file(path) as stream:
            kind = format_of(path, stream, format)
        return chunks_of(path, kind, (label, None, label is not None), labels, memory_limit)


def chunks_of(path: Path, kind: str, column: tuple[Any, int | None, bool], labels: Any, memory_limit: float) -> Chunks:
    """open_chunks without the path in its errors; `column` are label, n_features and label_required of read_data."""
    facts = {"title": str(path), "memory_limit": memory_limit}
    given = None if labels is None else _read_labels(labels)
    if kind == "npy":
        return _open_npy(path, column, given, facts)
    if kind == "parquet":
        return _Parquet(path, column, given, facts)
    if kind == "svmlight":
        return _spool_svmlight(path, column[1], facts)
    refuse(f"{kind} files are not read in pieces; convert it to Parquet or .npy")


def _read_labels(labels: Any) -> np.ndarray:
    if isinstance(labels, str | os.PathLike):
        with named_errors(Path(labels)), open_file(Path(labels)) as stream:
            try:
                labels = np.load(stream, allow_pickle=False)
            except ValueError as error:
                refuse(f"expected a .npy file of labels ({error})")
    return _as_labels(np.ravel(labels))


def _as_labels(y: np.ndarray) -> np.ndarray:
    """Numbers as float64, words as they are."""
    if y.dtype == object and all(isinstance(value, str) for value in y):
        return y.astype(str)
    if y.dtype.kind not in "biufU":
        refuse(f"expected labels that are numbers or words, found {y.dtype}")
    return y if y.dtype.kind == "U" else y.astype(np.float64)


# --- .npy -------------------------------------------------------------------------------------------------------------


def _open_npy(path: Path, column: tuple, y: np.ndarray | None, facts: dict[str, Any]) -> Chunks:
    try:
        whole = np.load(path, mmap_mode="r", allow_pickle=False)  # for its header only
    except ValueError as error:
        refuse(f"expected an .npy array of numbers ({error}); write it with numpy.save")
    if whole.ndim != 2 or whole.dtype.kind not in "biuf":
        refuse(f"expected a numeric array of two dimensions, found shape {whole.shape} of type {whole.dtype}")
    (n, d), dtype, item = whole.shape, whole.dtype, whole.dtype.itemsize
    bounds = cut(n, d * (4 if dtype == np.float32 else 8))
    step, stride = (d * item, 0) if whole.flags.c_contiguous else (item, n * item)
    layout = [[Place(whole.offset + a * step, dtype, (b - a, d), stride)] for a, b in pairwise(bounds.tolist())]
    chunks = Stored(path, layout, bounds, d, dtype, y, **facts)
    if y is None and column[0] is None and column[2]:
        refuse("expected labels: in a .npy file (--labels), or in a column (--label; from 0, -1 is the last)")
    at = None if y is not None else find_label_column(None, d, *column)
    if at is None:
        return chunks
    chunks.y = _as_labels(np.concatenate([piece[:, at] for _, piece in chunks.pieces()]))
    return chunks.map(lambda piece: np.delete(piece, at, axis=1), d - 1)


# --- Parquet ----------------------------------------------------------------------------------------------------------


class _Parquet(Chunks):
    """Batches of rows of the row groups. Every column is a feature, but for the labels."""

    def __init__(self, path: Path, column: tuple, y: np.ndarray | None, facts: dict[str, Any]):
        self.path, self.stamp = path, stamp(path)
        with self._open() as file:
            schema, groups = file.schema_arrow, file.metadata.num_row_groups
            sizes = [file.metadata.row_group(g).num_rows for g in range(groups)]
            at = None if y is not None else find_label_column(schema.names, len(schema.names), *column)
            if at is not None:
                y = _label_values(file.read(columns=[schema.names[at]]).column(0))
        fields = [schema.field(j) for j in range(len(schema.names)) if j != at]
        _check_columns(fields)
        self.columns = names = tuple(field.name for field in fields)
        dtype = np.dtype(np.float32 if {str(field.type) for field in fields} == {"float"} else np.float64)
        starts, row_bytes = np.cumsum([0, *sizes]), len(names) * dtype.itemsize
        begins = [start + cut(size, row_bytes)[:-1] for start, size in zip(starts[:-1], sizes, strict=True)]
        self.rows = piece_rows(row_bytes)
        self.group = np.repeat(np.arange(groups), [len(part) for part in begins])  # of each piece
        super().__init__(np.concatenate([*begins, starts[-1:]]), len(names), dtype, y, names=names, **facts)

    def _open(self) -> Any:
        try:
            from pyarrow import ArrowInvalid
            from pyarrow.parquet import ParquetFile
        except ImportError:
            raise ImportError('Parquet files need pyarrow: pip install "primalsvm[parquet]"') from None
        check_unchanged(self.path, self.stamp)
        try:
            return ParquetFile(self.path)
        except ArrowInvalid as error:
            refuse(f"expected a Parquet file ({str(error).splitlines()[0]}); write it again")

    def _stream(self, places):
        with self._open() as file:
            for group, mine in groupby(places, self.group.__getitem__):
                wanted, first = set(mine), int(np.searchsorted(self.group, group))
                for k, batch in enumerate(file.iter_batches(self.rows, [int(group)], list(self.columns)), first):
                    if k in wanted:
                        piece = self._as_array(batch)
                        check_unchanged(self.path, self.stamp)
                        yield piece

    def _as_array(self, batch: Any) -> np.ndarray:
        piece = np.empty((batch.num_rows, batch.num_columns), self.dtype)
        for j, values in enumerate(batch.columns):
            if values.null_count:
                raise ValueError(
                    f"{self.title}: column {self.columns[j]!r} has empty cells; impute or drop them first."
                )
            piece[:, j] = values.to_numpy(zero_copy_only=False)
        return piece


def _check_columns(fields: list[Any]) -> None:
    for field in fields:
        if field.name.startswith("__index_level_"):
            refuse(f"column {field.name!r} is a row index written by pandas; write the file without it (index=False)")
        if not str(field.type).startswith(("int", "uint", "float", "halffloat", "double", "bool")):
            refuse(f"column {field.name!r} holds {field.type}, not numbers; encode or drop it, or name it with --label")


def _label_values(values: Any) -> np.ndarray:
    if values.null_count:
        refuse(f"{values.null_count} labels are missing; give them a class or drop the rows")
    return _as_labels(values.to_numpy())


# --- svmlight ---------------------------------------------------------------------------------------------------------


def _spool_svmlight(path: Path, n_features: int | None, facts: dict[str, Any]) -> Chunks:
    """Parsed once and kept as CSR in a temporary file: to parse text costs a hundred times as much as a product."""
    scratch, labels = Scratch(), []
    lines, width, least = 0, 0, 1
    with open_file(path) as stream:
        for text in _blocks(stream):
            X, y = parse_svmlight(io.BytesIO(text), lines, zero_based=True)
            lines += text.count(b"\n")
            labels.append(y)
            if X.nnz:  # an index 0 anywhere means that they count from 0: scikit-learn's rule
                width, least = max(width, X.shape[1]), min(least, int(X.indices.min()))
            narrow = (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32))
            scratch.add(csr_matrix(narrow, shape=X.shape))
    width = max(width - least, n_features or 0)
    return scratch.close(width, y=np.concatenate(labels), first=least, sparse=True, **facts)


def _blocks(stream: IO[bytes]) -> Iterator[bytes]:
    """The text in pieces that end with a line; half as long as other pieces, for parsing takes room too."""
    rest = b""
    while block := stream.read(PIECE_BYTES // 2):
        end = block.rfind(b"\n") + 1
        if end:
            yield rest + block[:end]
            rest = b""
        rest += block[end:]
    if rest:
        yield rest
