"""Read training data from files: svmlight text, CSV or TSV, .npz, .npy and Parquet.

The suffix names the format, after .gz, .bz2 or .xz is taken off and opened:

    .csv .tsv .tab   one sample a line, with or without a header; label column by name or position
    .npz             arrays X and y, or what scipy.sparse.save_npz writes plus y; nothing is unpickled
    .npy .parquet    see `chunk_files`; these and svmlight are read in pieces where they are larger than a memory limit
    anything else    looked at: svmlight ``label index:value ...``, or commas, semicolons or tabs

Numbers become float64, but for the float32 of .npy and Parquet. Labels are float64 too, or strings where a column is
not all numbers.
Whatever is wrong with a file is a `DataError` of one sentence.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import itertools
import lzma
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np
from scipy.io import mmread
from scipy.sparse import csr_matrix, load_npz
from sklearn.datasets import load_svmlight_file

from .chunks import Chunks

FORMATS = ("svmlight", "csv", "tsv", "npz", "npy", "parquet")
LABEL_NAMES = ("label", "target", "class", "y")
COMPRESSED: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_BY_SUFFIX = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".npz": "npz", ".npy": "npy"}
_BY_SUFFIX |= {".parquet": "parquet", ".pq": "parquet"}
_BY_MAGIC = {b"PK\x03\x04": "npz", b"\x93NUMPY": "npy", b"PAR1": "parquet"}
_BINARY = frozenset(_BY_MAGIC.values())
_UNPACKED = 4  # bytes of a compressed text for each of its own
_SNIFFED_BYTES = 1 << 16
_SVMLIGHT_LINE = re.compile(rb"\s*[^\s:#]+(?:\s+(?:qid|\d+):[^\s:]+)+\s*(?:#.*)?")


class DataError(ValueError):
    """A data file that cannot be used; the message says what was expected, what came and what to do."""


@dataclass(frozen=True, eq=False)
class Data:
    """What a file held: one row of X a sample."""

    X: np.ndarray | csr_matrix | Chunks  # (n, d)
    y: np.ndarray | None  # (n,) float64 or str; None where the file has no labels
    feature_names: tuple[str, ...] | None  # (d,) from a CSV header


def read_data(
    path: str | os.PathLike[str],
    *,
    label: str | int | None = None,
    labels: str | os.PathLike[str] | None = None,
    n_features: int | None = None,
    format: str | None = None,
    label_required: bool = True,
    memory_limit: float | None = None,
) -> Data:
    """Read one file.

    `label` is the label column of a CSV, Parquet or .npy file: a name, or a position from 0 (from the end if negative);
    without it, the column called label, target, class or y. `labels` is a .npy file that has them instead, for .npy and
    Parquet. `n_features` is what a model expects: svmlight files are widened to it, anything else must match.
    `label_required=False` is for prediction: where the file has no labels, y is None. Files that can be read in pieces
    are where they would take more than `memory_limit` bytes: X is then Chunks.
    """
    path = Path(path)
    if format is not None and format not in FORMATS:
        raise DataError(f"The format must be one of {', '.join(FORMATS)}, not {format!r}.")
    with named_errors(path):
        with open_file(path) as stream:
            kind = format_of(path, stream, format)
            if label is not None and kind in ("svmlight", "npz"):
                refuse(f"a label column was given ({label!r}), but {kind} files have none; leave --label out")
            if labels is not None and kind not in ("npy", "parquet"):
                refuse(f"a file of labels was given, but {kind} files have their own; leave --labels out")
            size = path.stat().st_size * (_UNPACKED if path.suffix.lower() in COMPRESSED else 1)
            if kind in ("npy", "parquet") or (kind == "svmlight" and memory_limit is not None and size > memory_limit):
                data = _read_pieces(path, kind, (label, n_features, label_required), labels, memory_limit)
            elif kind == "svmlight":
                data = _read_svmlight(stream, n_features)
            elif kind == "npz":
                data = _read_npz(stream, label_required)
            else:
                delimiter = "\t" if kind == "tsv" else None
                data = _read_csv(stream, delimiter, label, n_features, label_required)
        _check(data, n_features)
    return data


def _read_pieces(path: Path, kind: str, column: tuple, labels: Any, memory_limit: float | None) -> Data:
    from .chunk_files import chunks_of

    limit = np.inf if memory_limit is None else memory_limit
    chunks = chunks_of(path, kind, column, labels, limit)
    n, d = chunks.shape
    fits = kind != "svmlight" and n * d * chunks.dtype.itemsize <= limit
    return Data(chunks.load() if fits and n and d else chunks, chunks.y, chunks.names)


@contextmanager
def named_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Whatever is raised inside becomes a DataError that begins with the path."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{path}: {error}.") from None
    except (EOFError, lzma.LZMAError, zlib.error, OSError) as error:
        sentence = f"the file breaks off or is not compressed as its name says ({error}); fetch it again"
        raise DataError(f"{path}: {sentence}.") from None


def refuse(sentence: str) -> NoReturn:
    """Raise a DataError; named_errors puts the path in front and the full stop behind."""
    raise DataError(sentence)


def open_file(path: Path) -> IO[bytes]:
    if not path.exists():
        refuse("there is no such file; check the path")
    if path.is_dir():
        refuse("expected a file, found a folder; name a file in it")
    try:
        stream: IO[bytes] = COMPRESSED.get(path.suffix.lower(), open)(path, "rb")
    except PermissionError:
        refuse("the file may not be read; check its permissions")
    return stream


def format_of(path: Path, stream: IO[bytes], format: str | None) -> str:
    """The format: as given, or by the suffix, or from the first bytes."""
    head = stream.read(_SNIFFED_BYTES)
    stream.seek(0)
    if not head:
        refuse("the file is empty; expected one sample a line, or an .npz archive")
    suffixes = [suffix for suffix in path.suffixes if suffix.lower() not in COMPRESSED]
    kind = format or _BY_SUFFIX.get(suffixes[-1].lower() if suffixes else "")
    if kind is None:
        kind = next((kind for magic, kind in _BY_MAGIC.items() if head.startswith(magic)), None) or _kind_of_text(head)
    if kind in ("npy", "parquet") and path.suffix.lower() in COMPRESSED:
        refuse(f"{kind} files are read in place, not compressed as a whole; unpack it")
    if kind not in _BINARY and b"\0" in head:
        refuse("expected text in UTF-8 (svmlight, CSV, TSV), .npz, .npy or Parquet, found binary data; convert it")
    return kind


def _kind_of_text(head: bytes) -> str:
    """By the first line that is no comment; a label alone is an svmlight sample without features."""
    lines = (line for line in head.splitlines() if line.strip() and not line.lstrip().startswith(b"#"))
    first = next(lines, b"")
    return "csv" if re.search(rb"[,;\t]", first) and not _SVMLIGHT_LINE.fullmatch(first) else "svmlight"


def _check(data: Data, n_features: int | None) -> None:
    """The facts that hold for every format: samples, features, the model's width, finite numbers."""
    X: Any = data.X
    n, d = X.shape
    if n == 0 or d == 0:
        refuse(f"expected samples with features, found {n} samples with {d} features; give more data")
    if n_features is not None and d != n_features:
        refuse(f"expected {n_features} features, as many as the model has, found {d}; give matching data")
    if not isinstance(X, Chunks):  # which are checked when they are first read
        dense = isinstance(X, np.ndarray)
        bad = np.flatnonzero(~np.isfinite(X.ravel() if dense else X.data))
        if bad.size:
            k = int(bad[0])
            row, column = divmod(k, d) if dense else (np.searchsorted(X.indptr, k, "right") - 1, X.indices[k])
            refuse(f"sample {row + 1}, feature {column + 1} (from 1) is NaN or infinite; impute or drop it first")
    if data.y is not None and data.y.dtype.kind == "f" and not np.isfinite(data.y).all():
        row = np.flatnonzero(~np.isfinite(data.y))[0]
        refuse(f"sample {row + 1} has a NaN or infinite label; give it a class or drop it")


def _shorten(text: str) -> str:
    text = text.strip()
    return repr(text if len(text) <= 60 else text[:57] + "...")


# --- svmlight ---------------------------------------------------------------------------------------------


def _read_svmlight(stream: IO[bytes], n_features: int | None) -> Data:
    """Indices count from 1, unless an index 0 occurs anywhere in the file (scikit-learn's rule)."""
    X, y = parse_svmlight(stream)
    width = max(X.shape[1], n_features or 0)
    # Rebuilding narrows scikit-learn's 64-bit indices to 32 bits where they fit.
    return Data(csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], width)), y, None)


def parse_svmlight(stream: IO[bytes], lines_before: int = 0, **options) -> tuple[csr_matrix, np.ndarray]:
    try:
        X, y = load_svmlight_file(stream, **options)
    except (ValueError, OverflowError):
        stream.seek(0)
        number, line = _first_bad_line(stream)
        found = _shorten(line.decode("utf-8", "replace"))
        refuse(
            f"line {lines_before + number}: expected 'label index:value index:value ...', a numeric label and "
            f"ascending indices below 2^31, found {found}; fix the line, or name the format with --format"
        )
    return X, y


def _first_bad_line(stream: IO[bytes]) -> tuple[int, bytes]:
    """scikit-learn's parser does not say where it stopped: parse block by block, then line by line."""
    for start in itertools.count(1, 4096):
        lines = list(itertools.islice(stream, 4096))
        if not lines:
            break
        if not _is_svmlight(b"".join(lines)):
            return next((k, line) for k, line in enumerate(lines, start) if not _is_svmlight(line))
    return 1, b""


def _is_svmlight(text: bytes) -> bool:
    try:
        load_svmlight_file(io.BytesIO(text))
    except (ValueError, OverflowError):
        return False
    return True


# --- npz --------------------------------------------------------------------------------------------------


def _read_npz(stream: IO[bytes], label_required: bool) -> Data:
    """allow_pickle stays False, in NumPy's loader and in SciPy's, so that a hostile file runs nothing."""
    if not zipfile.is_zipfile(stream):
        refuse("expected an .npz archive (numpy.savez), found another or a broken file; write it again")
    stream.seek(0)
    try:
        X, y, found = _arrays_of(stream)
    except Exception as error:  # what NumPy, SciPy and zipfile raise on a hostile archive has no common class
        reason = (str(error).splitlines() or [""])[0].rstrip(".") or type(error).__name__
        refuse(f"no usable arrays in the archive ({reason}); write plain numeric arrays X and y")
    if X is None:
        refuse(
            "expected an array X, or a matrix written by scipy.sparse.save_npz, found "
            f"{found or 'nothing'}; write the file with numpy.savez(path, X=X, y=y)"
        )
    if y is None and label_required:
        refuse(f"expected an array y with the labels, found only {found}; add it to the archive")
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        refuse(f"expected a numeric array X of two dimensions, found shape {X.shape} of type {X.dtype}")
    if y is not None and (y.shape != X.shape[:1] or y.dtype.kind not in "biufU"):
        refuse(f"expected {X.shape[0]} labels, one a row of X, found shape {y.shape} of type {y.dtype}")
    if y is not None and y.dtype.kind != "U":
        y = y.astype(np.float64)
    return Data(X.astype(np.float64, copy=False), y, None)


def _arrays_of(stream: IO[bytes]) -> tuple[Any, Any, str]:
    """X (array, CSR or None), y (array or None) and the names of what is there."""
    with np.load(stream, allow_pickle=False) as archive:
        names = set(archive.files)
        y = np.asarray(archive["y"]) if "y" in names else None
        if "X" in names:
            return np.asarray(archive["X"]), y, ", ".join(archive.files)
        if not {"format", "shape", "data"} <= names:
            return None, y, ", ".join(archive.files)
        layout = archive["format"].item()
        if (layout.decode() if isinstance(layout, bytes) else layout) not in ("csr", "csc", "coo"):
            raise ValueError(f"a sparse matrix must be csr, csc or coo, not {layout!r}")
        stream.seek(0)
        matrix = load_npz(stream)
        if matrix.format != "coo":
            matrix.check_format(full_check=True)  # or compiled code would follow an index out of range
        X = csr_matrix(matrix)
        X.sum_duplicates()
        return X, y, ", ".join(archive.files)


# --- CSV and TSV ------------------------------------------------------------------------------------------


def _read_csv(
    stream: IO[bytes],
    delimiter: str | None,
    label: str | int | None,
    n_features: int | None,
    label_required: bool,
) -> Data:
    raw = stream.read().removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    blank = len(raw) - len(raw.lstrip(b"\n"))
    first, _, rest = raw[blank:].partition(b"\n")
    delimiter = delimiter or _delimiter_of(first)
    row = _first_row(first, delimiter)
    header = _is_header(row, label)
    if header and "" in row:
        refuse(
            f"column {row.index('') + 1} of the header has no name, like a row index written by pandas or R; "
            "write the file without the index (index=False) or name the column"
        )
    at = find_label_column(row if header else None, len(row), label, n_features, label_required)
    table = _Table(
        body=rest if header else first + b"\n" + rest,
        delimiter=delimiter,
        names=[repr(name) if header else f"at position {j}" for j, name in enumerate(row)],
        label_at=at,
        lines_before=blank + header,
    )
    X, y = table.parse_plain() or table.parse_cells()
    return Data(X, y, tuple(name for j, name in enumerate(row) if j != at) if header else None)


def columns_of(path: Path, format: str | None = None) -> list[str]:
    """The first line of a CSV or TSV file as cells; none for other formats."""
    with named_errors(path), open_file(path) as stream:
        kind = format_of(path, stream, format)
        if kind not in ("csv", "tsv"):
            return []
        first = next((line for line in stream if line.strip()), b"").removeprefix(b"\xef\xbb\xbf").rstrip(b"\r\n")
        return _first_row(first, "\t" if kind == "tsv" else _delimiter_of(first))


def _delimiter_of(line: bytes) -> str:
    """Semicolons are what spreadsheets write where the comma is the decimal point."""
    return max(",;\t", key=lambda mark: line.count(mark.encode()))


def _first_row(line: bytes, delimiter: str) -> list[str]:
    try:
        row = next(csv.reader([line.decode("utf-8")], delimiter=delimiter, strict=True), [])
    except (UnicodeDecodeError, csv.Error) as error:
        refuse(f"the first line cannot be read as UTF-8 CSV ({error}); fix its quotes or its encoding")
    if not row:
        refuse("expected CSV lines, found only blank ones; give it some samples")
    return [cell.strip() for cell in row]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def as_labels(labels: list[str], place: Callable[[int], str]) -> np.ndarray:
    """Labels as float64 where all are numbers, as words elsewhere; `place` says for an error where one stands."""
    if all(map(_is_number, labels)):
        y = np.array(labels, dtype=np.float64)
        bad = np.flatnonzero(~np.isfinite(y))
    else:
        y = np.array(labels)
        bad = np.flatnonzero(y == "")
    if bad.size:
        k = int(bad[0])
        refuse(f"{place(k)}: expected a label, found {labels[k]!r}; give it a class or drop the line")
    return y


def as_position(label: str | int | None) -> int | None:
    """A label column given by position: an int, or, from the command line, a string that reads as one."""
    return int(label) if label is not None and re.fullmatch(r"[+-]?\d{1,9}", str(label)) else None


def _is_header(row: list[str], label: str | int | None) -> bool:
    """Whether the first line is a header: it names the label column, or none of its cells is a number.

    With a usual label name in it, cells may also count 0, 1, 2, ... or 1, 2, 3, ... (pandas' own names); any
    other number makes it a sample, whose label may well be the word y.
    """
    numbers = [cell for cell in row if _is_number(cell)]
    if not numbers or (label in row and as_position(label) is None):
        return True
    counted = any(numbers == [str(start + j) for j in range(len(numbers))] for start in (0, 1))
    return counted and any(cell.lower() in LABEL_NAMES for cell in row)


def find_label_column(
    names: list[str] | None, columns: int, label: str | int | None, n_features: int | None, required: bool
) -> int | None:
    """The position of the label column; None where there is none and none is required."""
    if label is None:
        found = [j for j, name in enumerate(names or ()) if name.lower() in LABEL_NAMES]
    else:
        found = [j for j, name in enumerate(names or ()) if name == label]
    position = None if found else as_position(label)
    if not required and n_features == columns and (label is None or position is not None):
        return None  # every column is a feature of the model
    if position is not None and -columns <= position < columns:
        found = [position % columns]
    if len(found) == 1:
        return found[0]
    if not found and position is None and not required:
        return None
    wanted = "called " + " or ".join(LABEL_NAMES) if label is None else repr(label)
    shown = "no header" if names is None else ", ".join(names[:100]) + (", ..." if columns > 100 else "")
    by_name = {name.lower(): name for name in names or ()}
    alike = [] if label is None or found else get_close_matches(str(label).lower(), by_name, 1)
    advice = "say which with --label, by name or by position from 0 (-1 is the last)"
    refuse(
        f"expected one label column {wanted}, found {len(found)} among {columns} columns ({shown}); "
        + (f"perhaps {by_name[alike[0]]!r} is meant" if alike else advice)
    )


# What may follow what in a table of plain numbers: any separator is written as a comma, any digit as a 0.
# With at most one '.' and one 'e' a cell, in that order, this is the grammar -?d+(.d+)?(e[+-]?d+)? of a cell.
_MARKS = b",0.e-+"
_FOLLOWERS = (b"0-", b"0.e,", b"0", b"0+-", b"0", b"0")  # of each mark
_PAIRS = bytes(8 * i + _MARKS.index(mark) for i, marks in enumerate(_FOLLOWERS) for mark in marks)
_NO_SEPARATORS = bytes(set(range(256)) - set(b",\n"))
_PIECE_BYTES = 1 << 22
_TO_MARKS = bytes.maketrans(b"\n123456789E", b",000000000e")
_CODES = bytes(_MARKS.find(mark) % 7 for mark in _TO_MARKS)  # 6 for every other character: in no pair


def _plain_numbers(lines: bytes, delimiter: str, columns: int) -> np.ndarray | None:
    """Lines of plain finite numbers as an array (rows, columns), or None if they are not that."""
    if delimiter != ",":
        lines = lines.replace(b",", b"?").replace(delimiter.encode(), b",")
    rows = lines.count(b"\n")
    separators = lines.translate(None, _NO_SEPARATORS)
    if separators != (b"," * (columns - 1) + b"\n") * rows or not _all_plain(lines):
        return None
    banner = b"%%%%MatrixMarket matrix array real general\n%d 1\n" % (rows * columns)
    numbers: np.ndarray = mmread(io.BytesIO(banner + lines.replace(b",", b"\n"))).reshape(rows, columns)
    return numbers if np.isfinite(numbers).all() else None  # 1e999 is infinite


def _all_plain(body: bytes) -> bool:
    """Whether text with commas and line ends as separators is numbers alone, by the grammar above."""
    codes = (b"," + body).translate(_CODES)
    marks = np.frombuffer(codes, dtype=np.uint8)
    if (8 * marks[:-1] + marks[1:]).tobytes().translate(None, _PAIRS):
        return False
    order = codes.translate(None, b"0-+".translate(_CODES))
    return not any(pair.translate(_CODES) in order for pair in (b"..", b"e.", b"ee"))


@dataclass(frozen=True)
class _Table:
    """The lines of a CSV below its header. parse_* return the features (n, d) and the labels (n,) or None."""

    body: bytes
    delimiter: str
    names: list[str]  # of the columns, as an error shows them
    label_at: int | None
    lines_before: int

    def parse_plain(self) -> tuple[np.ndarray, np.ndarray | None] | None:
        """A table of nothing but plain numbers, in less than half the time of np.loadtxt; None for any other.

        SciPy's Matrix Market reader is the fastest parser of numbers at hand, but it takes 2020-01-02 for
        2020, so nothing reaches it that has not been checked, character by character, to be a number.
        """
        body = self.body.strip(b"\n") + b"\n"
        columns, rows = len(self.names), body.count(b"\n")
        features = [j for j in range(columns) if j != self.label_at]
        X, y = np.empty((rows, len(features))), np.empty(rows)
        start = row = 0
        while start < len(body):  # in pieces that end with a line, so that only X is ever as large as the file
            end = body.find(b"\n", start + _PIECE_BYTES) + 1 or len(body)
            numbers = _plain_numbers(body[start:end], self.delimiter, columns)
            if numbers is None:
                return None
            X[row : row + len(numbers)] = numbers[:, features]
            y[row : row + len(numbers)] = numbers[:, self.label_at or 0]
            start, row = end, row + len(numbers)
        return X, None if self.label_at is None else y

    def parse_cells(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Any table: quotes, blanks, words as labels; and it names the line and column of what is wrong."""
        blocks: list[np.ndarray] = []
        labels: list[str] = []
        lines: list[int] = []
        rows = self._rows()
        while block := list(itertools.islice(rows, 4096)):
            cells = [row for _, row in block]
            lines += [line for line, _ in block]
            if self.label_at is not None:
                labels += [row.pop(self.label_at).strip() for row in cells]
            blocks.append(self._numbers(cells, lines))
        if not blocks:
            refuse("expected samples below the header, found none; give it some")
        name = self.names[self.label_at or 0]
        y = None if self.label_at is None else as_labels(labels, lambda k: f"line {lines[k]}, column {name}")
        return np.concatenate(blocks), y

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """Line number and cells of each row; blank lines are skipped."""
        try:
            reader = csv.reader(
                io.StringIO(self.body.decode("utf-8"), newline=""), delimiter=self.delimiter, strict=True
            )
        except UnicodeDecodeError as error:
            refuse(f"the text is not UTF-8 ({error}); save it as UTF-8")
        try:
            for row in reader:
                if row and len(row) != len(self.names):
                    line = reader.line_num + self.lines_before
                    refuse(
                        f"line {line} has {len(row)} cells where the first has {len(self.names)}; "
                        "give every line the same columns"
                    )
                if row:
                    yield reader.line_num + self.lines_before, row
        except csv.Error as error:
            refuse(f"line {reader.line_num + self.lines_before} is not valid CSV ({error}); fix its quotes")

    def _numbers(self, rows: list[list[str]], lines: list[int]) -> np.ndarray:
        """The rows, the last ones of `lines`, as numbers."""
        try:
            block = np.array(rows, dtype=np.float64)
        except ValueError:
            block = np.array([[float(cell) if _is_number(cell) else np.nan for cell in row] for row in rows])
        bad = np.argwhere(~np.isfinite(block))
        if bad.size:
            i, j = bad[0]
            name = [name for k, name in enumerate(self.names) if k != self.label_at][j]
            refuse(
                f"line {lines[i - len(rows)]}, column {name}: expected a finite number, found "
                f"{_shorten(rows[i][j])}; encode, impute or drop it first"
            )
        return block
