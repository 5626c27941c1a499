r"""Text: from files of phrases or documents to a bag of words, and a model that takes raw text.

    text_model().fit(texts, y)     scikit-learn's Pipeline of a vectorizer ("words") and an SVM ("svm"); what is proven
                                   is in model[-1].certificate_
    read_texts(path, ...)          texts and labels from files:

    .csv .tsv .tab   a table with a header; the columns of text and labels by name or position
    a folder         a sub-folder for each class, a file for each document
    .txt, "-"        one document a line, "-" being stdin; labels from a file of their own, one a line
    anything else    plain lines, or a table where a column is asked for

also as .gz, .bz2 and .xz. Text is UTF-8, or UTF-16 that begins with its mark, or what `encoding` says. An empty text is
a document like any other: none of its words is known. Whatever is wrong with a file is a `DataError` of one sentence.
"""

from __future__ import annotations

import csv
import io
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.pipeline import Pipeline

from .linear_svc import LinearSVC
from .readers import COMPRESSED, DataError, as_labels, as_position, find_label_column, named_errors, open_file, refuse

# Words of letters, digits and underscores, with apostrophes (' and U+2019) before and inside: "don't", and "n't" and
# "'s" where a text was split into these. scikit-learn's own pattern wants two characters or more and ends at an
# apostrophe: of "do n't" it drops the negation.
WORDS = r"['\u2019]?\w+(?:['\u2019]\w+)*"
FEATURES = ("binary", "count", "tfidf")
TABLES = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv"}
MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
QUOTED = re.compile(r'"((?:[^"]|"")*)"')


# --- models -----------------------------------------------------------------------------------------------------------


def bag_of_words(
    features: str = "binary", *, ngrams: int = 1, min_count: int = 1, dtype=np.float64
) -> CountVectorizer | TfidfVectorizer:
    """scikit-learn's vectorizer of lower-case words without punctuation.

    Parameters
    ----------
    features : {"binary", "count", "tfidf"}, default="binary"
        1 where a document has the word; how often it has it; that, weighed by how rare the word is, in rows of norm 1.
    ngrams : int, default=1
        Up to so many words in a row count as a word too.
    min_count : int, default=1
        Words in fewer documents are left out.
    dtype : of the features.
    """
    if features not in FEATURES:
        raise ValueError(f"features must be one of {', '.join(FEATURES)}, got {features!r}.")
    for name, value in (("ngrams", ngrams), ("min_count", min_count)):
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name} must be a whole number of 1 or more, got {value!r}.")
    options: dict[str, Any] = {"token_pattern": WORDS, "ngram_range": (1, ngrams), "min_df": min_count, "dtype": dtype}
    return (
        TfidfVectorizer(**options) if features == "tfidf" else CountVectorizer(binary=features == "binary", **options)
    )


def text_model(estimator=None, features: str = "binary", *, ngrams: int = 1, min_count: int = 1) -> Pipeline:
    """A model that takes raw text: a bag of words, and an estimator on it.

    Parameters
    ----------
    estimator : LinearSVC, SVC or another classifier; LinearSVC() by default.
    features, ngrams, min_count : as in `bag_of_words`.

    Returns
    -------
    Pipeline
        With the steps "words" and "svm"; ``primalsvm.save`` keeps both.

    Examples
    --------
    >>> from primalsvm import text_model
    >>> model = text_model().fit(["a fine film", "fine acting", "a dull film", "not fine"], ["+", "+", "-", "-"])
    >>> model.predict(["a dull book"]).tolist()
    ['-']
    >>> model[-1].certificate_.relative_gap <= 1e-3
    True
    """
    words = bag_of_words(features, ngrams=ngrams, min_count=min_count)
    return Pipeline([("words", words), ("svm", LinearSVC() if estimator is None else estimator)])


def fit_words(words: CountVectorizer, documents: Texts, path: str | os.PathLike[str]) -> sp.csr_matrix:
    """Fit the vectorizer; the features (n, d). It keeps the name of the column, for predictions."""
    with named_errors(shown(path)):
        try:
            X = words.fit_transform(documents.texts)
        except ValueError:
            if not any(map(words.build_analyzer(), documents.texts)):
                refuse(f"found no word in {len(documents.texts)} documents; is this the column of the text?")
            if words.min_df > 1:
                refuse(f"no word is in {words.min_df} documents or more; lower --min-count")
            raise
    if documents.column is not None:
        words.feature_names_in_ = np.array([documents.column], dtype=object)
    return X


# --- files ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Texts:
    """What a file held: one text a sample."""

    texts: list[str]
    y: np.ndarray | None  # (n,) float64 or str; None where there are no labels
    column: str | None  # where the texts stand, in a table


def read_texts(
    path: str | os.PathLike[str],
    text: str | int | None = None,
    label: str | int | None = None,
    labels: str | os.PathLike[str] | None = None,
    *,
    format: str | None = None,
    label_required: bool = True,
    encoding: str | None = None,
) -> Texts:
    """Read texts, and their labels.

    `text` is the column of a table: a name, or a position from 0 (from the end if negative); it may be left out where
    there is no other than that of the labels. Of files that are no tables it is "lines", of a folder "files", or None.
    `label` is the column of the labels; without it, the one called label, target, class or y. `labels` is a text file
    that has them, one a line, for plain files. `label_required=False` is for prediction: y may be None.
    """
    path = Path(path)
    with named_errors(shown(path)):
        kind = kind_of(path, text, format)
        plain = kind in ("lines", "files")
        if plain and text not in (kind, None):
            refuse(f"this is no table with a column {text!r}; say --text {kind}")
        if plain and label is not None:
            refuse(f"a label column was given ({label!r}), but this is no table; leave --label out")
        if labels is not None and kind != "lines":
            refuse("a file of labels was given, but this has its own; leave --labels out")
        if labels is None and kind == "lines" and label_required:
            refuse("expected labels, found plain lines; give a file with one label a line: --labels FILE")
        if kind == "files":
            return _read_folder(path, encoding)
        content = _read(path, encoding)
        if kind != "lines":
            return _read_table(content, kind, text, label, label_required)
        documents = _split_lines(content)
        if not documents:
            refuse("expected one document a line, found none; give it some")
    return Texts(documents, None if labels is None else _read_labels(Path(labels), len(documents), encoding), None)


def shown(path: str | os.PathLike[str]) -> str:
    """A path in a sentence."""
    return "stdin" if str(path) == "-" else str(path)


def kind_of(path: Path, text: str | int | None = None, format: str | None = None) -> str:
    """csv, tsv, lines or files; "table" is one to look at."""
    if str(path) == "-":
        return "lines"
    if path.is_dir():
        return "files"
    if format is not None:
        if format not in TABLES.values():
            refuse(f"text comes in csv, tsv, plain lines or a folder, not in {format}; leave --format out")
        return format
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in COMPRESSED]
    known = TABLES.get(suffixes[-1] if suffixes else "")
    return known or ("lines" if text in (None, "lines") else "table")


def find_column(path: Path, column: str, format: str | None = None) -> str | None:
    """The column that a model was trained on, where `path` is a table; None for plain lines and folders."""
    with named_errors(shown(path)):
        kind = kind_of(path, None, format)
        if kind != "lines" or str(path) == "-":
            return column if kind in TABLES.values() else None
        with open_file(path) as stream:  # a table under a name that does not tell has the column in its header
            cells = re.split(r"[\t,;]", stream.readline(1 << 16).decode("utf-8-sig", "replace").strip())
    return column if len(cells) > 1 and column in (cell.strip('" ') for cell in cells) else None


def _read(path: Path, encoding: str | None) -> str:
    if str(path) == "-":
        raw = sys.stdin.buffer.read()
    else:
        with open_file(path) as stream:
            raw = stream.read()
    return _decode(raw, encoding)


def _decode(raw: bytes, encoding: str | None) -> str:
    """The text of a file, its lines ending with \\n. Nothing is guessed: what is not as it should be has a line."""
    marked = next((name for mark, name in MARKS.items() if raw.startswith(mark)), "utf-8")
    try:
        text = raw.decode(encoding or marked).removeprefix("\ufeff")
    except LookupError:
        refuse(f"no encoding {encoding!r} is known; give one such as utf-8, latin-1 or cp1252")
    except UnicodeError as error:
        line = _line_of(raw[: getattr(error, "start", 0)].decode(encoding or marked, "ignore"))
        advice = "give its own with --encoding" if encoding else "give its encoding, for instance --encoding latin-1"
        refuse(f"line {line} is not {(encoding or marked).removesuffix('-sig').upper()}; {advice}")
    text = _plain_ends(text)
    if "\0" in text:
        line = _line_of(text.partition("\0")[0])
        refuse(f"line {line} has a NUL character, as binary files have and UTF-16; if it is text, give its --encoding")
    return text


def _plain_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _line_of(before: str) -> int:
    """The number of the line that goes on after some text."""
    return _plain_ends(before).count("\n") + 1


def _split_lines(text: str) -> list[str]:
    """Not str.splitlines, which ends lines at form feeds and other characters that may stand inside a text."""
    return text.removesuffix("\n").split("\n") if text else []


def _read_labels(path: Path, n: int, encoding: str | None) -> np.ndarray:
    with named_errors(path):
        words = [word.strip() for word in _split_lines(_read(path, encoding))]
        if len(words) != n:
            refuse(f"expected {n} labels, one a line as the documents, found {len(words)}; give as many")
        return as_labels(words, lambda k: f"line {k + 1}")


def _read_folder(path: Path, encoding: str | None) -> Texts:
    """A document in each file, its class the name of the folder; hidden files are none."""
    texts, labels = [], []
    folders = sorted(folder for folder in path.iterdir() if folder.is_dir() and not folder.name.startswith("."))
    for folder in folders:
        for file in sorted(folder.iterdir()):
            if not file.name.startswith("."):
                try:
                    texts.append(_read(file, encoding))
                except DataError as error:
                    refuse(f"{file.relative_to(path)}: {error}")
                labels.append(folder.name)
    if not texts:
        refuse("expected a folder with a sub-folder for each class and a file for each document, found none")
    return Texts(texts, as_labels(labels, lambda k: f"the folder {labels[k]!r}"), None)


# --- tables -----------------------------------------------------------------------------------------------------------


def _read_table(text: str, kind: str, column: str | int | None, label: str | int | None, required: bool) -> Texts:
    first = text.lstrip("\n").partition("\n")[0]
    if kind == "table":
        kind = "tsv" if "\t" in first else "csv"
    rows = _tab_rows(text) if kind == "tsv" else _comma_rows(text, max(",;\t", key=first.count))
    names = next((row for _, row in rows if row), None)
    if names is None:
        refuse("expected a header and lines below it, found nothing; give it some")
    names = [name.strip() for name in names]
    label_at = find_label_column(names, len(names), label, None, required)
    text_at = _find_text_column(names, column, label_at)
    lines, texts, classes = [], [], []
    for line, row in rows:
        if not row:
            if len(names) > 1:
                continue  # where there is no other column, an empty line is an empty text
            row = [""]
        if len(row) != len(names):
            refuse(
                f"line {line} has {len(row)} cells where the header has {len(names)}; give every line the same columns"
            )
        texts.append(row[text_at])
        if label_at is not None:
            lines.append(line)
            classes.append(row[label_at].strip())
    if not texts:
        refuse("expected lines below the header, found none; give it some")
    y = None
    if label_at is not None:
        y = as_labels(classes, lambda k: f"line {lines[k]}, column {names[label_at]!r}")
        if as_position(label) is not None and label not in names and names[label_at] in classes:
            refuse(
                f"the first line looks like a sample: its label {names[label_at]!r} comes again below; put a header "
                "with the names of the columns above it"
            )
    return Texts(texts, y, names[text_at])


def _find_text_column(names: list[str], column: str | int | None, label_at: int | None) -> int:
    found = [j for j, name in enumerate(names) if (name == column if column is not None else j != label_at)]
    position = None if found else as_position(column)
    if position is not None and -len(names) <= position < len(names):
        found = [position % len(names)]
    if len(found) != 1:
        wanted = "" if column is None else f" {column!r}"
        listed = ", ".join(name if len(name) <= 40 else name[:37] + "..." for name in names[:100])
        refuse(
            f"expected one text column{wanted}, found {len(found)} among {len(names)} columns ({listed}); "
            "say which with --text, by name or by position from 0 (-1 is the last)"
        )
    if found[0] == label_at:
        refuse(f"the column {names[found[0]]!r} cannot be both text and label; say which with --text and --label")
    return found[0]


def _tab_rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells. A quote means nothing, unless a cell is quoted as a whole; no cell has two lines."""
    for number, line in enumerate(_split_lines(text), 1):
        cells = line.split("\t") if line else []
        if '"' in line:
            cells = [quoted[1].replace('""', '"') if (quoted := QUOTED.fullmatch(cell)) else cell for cell in cells]
        yield number, cells


def _comma_rows(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Line number, the first where a quoted cell goes over several, and cells."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    number, rows = 1, []
    before = csv.field_size_limit(2**31 - 1)  # 128 KiB by default, and a document may be longer; it is one for all
    try:
        for row in reader:
            rows.append((number, row))
            number = reader.line_num + 1
    except csv.Error as error:
        refuse(f"line {number} is not valid CSV ({error}); fix its quotes")
    finally:
        csv.field_size_limit(before)
    return iter(rows)
