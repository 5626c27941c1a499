"""The data of the experiments: public sets from a folder, or made up with the same sizes where it lacks them.

    load(lab, name)    a set with a training and a test part, labels -1 and +1 or the classes
    phrases(lab)       movie phrases with a sentiment from 0 to 4

At toy and at small scale a seeded sample of the rows. What was made up is said in `lab.notes`.
"""

import gzip
import lzma
from functools import lru_cache
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file

from .lab import Lab

ROWS = {"toy": 300, "small": 3000, "full": None}  # of the training part, and of the test part
LINES = 2000  # of a file that are read for a toy: the whole of some takes seconds; they are of all classes
PHRASES = {"toy": 1500, "small": 20_000, "full": None}


class Set(NamedTuple):
    X: Any  # (n, d) array or CSR matrix
    y: np.ndarray  # (n,)
    X_test: Any
    y_test: np.ndarray


class Phrases(NamedTuple):
    texts: list[str]
    labels: np.ndarray  # (n,) 0 to 4
    sentences: np.ndarray  # (n,) which sentence a phrase is from


class Facts(NamedTuple):
    """Where a set is, and its sizes."""

    files: tuple[str, ...]  # training and test; of a single file a seeded fifth is the test part
    n: int
    n_test: int
    d: int
    nonzeros: int  # a row; d where it is dense
    positives: float  # share of +1; 0 where there are ten classes


IMAGES = ("train-images-idx3-ubyte.gz", "t10k-images-idx3-ubyte.gz")
SETS = {
    "usps": Facts(("usps/usps.xz", "usps/usps.t.xz"), 7291, 2007, 256, 256, 0.58),
    "usps10": Facts(("usps/usps.xz", "usps/usps.t.xz"), 7291, 2007, 256, 256, 0),
    "mnist": Facts(tuple(f"mnist/{name}" for name in IMAGES), 60_000, 10_000, 784, 784, 0),
    "a9a": Facts(("a9a/a9a.xz", "a9a/a9a.t.xz"), 32_561, 16_281, 123, 14, 0.241),
    "w8a": Facts(("w8a/w8a.xz", "w8a/w8a.t.xz"), 49_749, 14_951, 300, 12, 0.03),
    "covtype": Facts(("covtype/covtype.csv.xz",), 464_810, 116_202, 54, 54, 0.488),
    "rcv1": Facts(("rcv1_subsets/rcv1_ccat_distinct.svm.xz",), 22_091, 5522, 47_236, 78, 0.452),
    "german": Facts(("german/german.numer_scale.xz",), 800, 200, 24, 24, 0.3),
    "splice": Facts(("splice/splice_scale.xz",), 800, 200, 60, 60, 0.517),
}


def load(lab: Lab, name: str, rows: int | None = None) -> Set:
    """The set called `name`; `rows` of it at most, or as many as the scale says."""
    lab.tell(f"reading {name}", 0.0)
    limit = rows or ROWS[lab.scale]
    files = SETS[name].files
    if lab.home is not None and all((lab.home / file).is_file() for file in files):
        data = _read(lab.home, name, LINES if lab.toy else None)
    else:
        _note(lab, f"{name} is made up, with the sizes of the real one: there is no {files[0]} in the data folder.")
        data = _made_up(name, limit)
    return _sample(data, limit)


def phrases(lab: Lab, rows: int | None = None) -> Phrases:
    """Phrases of whole sentences, `rows` of them or a few more."""
    lab.tell("reading phrases", 0.0)
    limit = rows or PHRASES[lab.scale]
    file = "rotten_tomatoes/train.tsv.xz"
    if lab.home is not None and (lab.home / file).is_file():
        texts, labels, sentences = _read_phrases(lab.home / file)
    else:
        _note(lab, f"The phrases are made up, as many as the real ones: there is no {file} in the data folder.")
        texts, labels, sentences = _made_up_phrases(limit or 156_060)
    if limit is None or limit >= len(texts):
        return Phrases(texts, labels, sentences)
    order = np.random.default_rng(0).permutation(np.unique(sentences))
    counts = np.bincount(sentences)[order]
    keep = np.flatnonzero(np.isin(sentences, order[: np.searchsorted(counts.cumsum(), limit) + 1]))
    return Phrases([texts[i] for i in keep], labels[keep], sentences[keep])


def _note(lab: Lab, text: str) -> None:
    if text not in lab.notes:
        lab.notes.append(text)


def _sample(data: Set, limit: int | None) -> Set:
    """At most `limit` rows of both parts, drawn at random but the same in every run."""
    parts: list[Any] = []
    for X, y in ((data.X, data.y), (data.X_test, data.y_test)):
        if limit is not None and limit < len(y):
            keep = np.sort(np.random.default_rng(0).permutation(len(y))[:limit])
            X, y = X[keep], y[keep]
        parts += [X, y]
    return Set(*parts)


# --- from files -------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def _read(home: Path, name: str, lines: int | None) -> Set:
    facts = SETS[name]
    if name == "mnist":
        return _read_mnist(home / "mnist", lines)
    if name == "covtype":  # class 2 against the rest, columns scaled to [0, 1]
        with lzma.open(home / facts.files[0], "rt") as file:
            table = np.loadtxt(file, delimiter=",", skiprows=1, max_rows=lines)
        X = np.ascontiguousarray(table[:, :54])
        X -= X.min(axis=0)
        X /= np.where(X.any(axis=0), X.max(axis=0), 1.0)
        return _split(X, np.where(table[:, 54] == 2, 1.0, -1.0))
    parts: list[Any] = []
    for path in facts.files:
        with lzma.open(home / path, "rb") as file:
            part = file if lines is None else BytesIO(b"".join(islice(file, lines)))
            X, y = load_svmlight_file(part, n_features=facts.d)
        if name.startswith("usps"):  # the files count classes from 1
            y = np.where(y <= 5, 1.0, -1.0) if name == "usps" else y - 1
        parts += [X if facts.nonzeros < facts.d else X.toarray(), y]
    return Set(*parts) if len(parts) == 4 else _split(*parts)


def _split(X: Any, y: np.ndarray) -> Set:
    """A fifth for the test."""
    test, train = np.split(np.random.default_rng(0).permutation(len(y)), [len(y) // 5])
    return Set(X[train], y[train], X[test], y[test])


def _read_mnist(folder: Path, lines: int | None) -> Set:
    """Grey values from 0 to 1."""

    def read(name: str, width: int) -> np.ndarray:
        with gzip.open(folder / name) as file:
            sizes = file.read(4)[3]  # the fourth byte says how many sizes follow
            file.read(4 * sizes)
            return np.frombuffer(file.read(-1 if lines is None else width * lines), np.uint8).reshape(-1, width)

    parts: list[np.ndarray] = []
    for images in IMAGES:
        labels = read(images.replace("images-idx3", "labels-idx1"), 1)
        parts += [read(images, 784) / 255.0, labels.ravel().astype(float)]
    return Set(*parts)


@lru_cache(maxsize=1)
def _read_phrases(path: Path) -> Phrases:
    with lzma.open(path, "rt", encoding="utf-8") as file:
        next(file)  # the header
        fields = [line.rstrip("\n").split("\t") for line in file]  # quotes are part of the text
    labels = np.array([int(field[3]) for field in fields])
    return Phrases([field[2] for field in fields], labels, np.array([int(field[1]) for field in fields]))


# --- made up ----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def _made_up(name: str, limit: int | None) -> Set:
    """The sizes, density and balance of the real set, and a rule that can be learnt but for some noise."""
    facts = SETS[name]
    n, n_test = (min(size, limit or size) for size in (facts.n, facts.n_test))
    rng = np.random.default_rng(0)
    if facts.n > 2000 and facts.d == facts.nonzeros:
        X, y = _clouds(rng, n + n_test, facts)
    else:
        X = _bags(rng, n + n_test, facts) if facts.nonzeros < facts.d else rng.uniform(-1, 1, (n + n_test, facts.d))
        scores = np.asarray(X @ rng.standard_normal(facts.d)).ravel()
        scores += 0.5 * scores.std() * rng.standard_normal(len(scores))
        y = np.where(scores > np.quantile(scores, 1 - facts.positives), 1.0, -1.0)
    return Set(X[:n], y[:n], X[n:], y[n:])


def _clouds(rng: np.random.Generator, n: int, facts: Facts) -> tuple[np.ndarray, np.ndarray]:
    """Ten classes, each of three clouds in few directions, as digits are; or two where the first `positives` are +1."""
    low, high = (0, 1) if facts.d in (54, 784) else (-1, 1)
    digit = rng.integers(10, size=n)
    centres = rng.standard_normal((10, 3, 12))
    hidden = centres[digit, rng.integers(3, size=n)] + 0.5 * rng.standard_normal((n, 12))
    X = hidden @ (rng.standard_normal((12, facts.d)) / 2) + 0.3 * rng.standard_normal((n, facts.d))
    X = np.clip((low + high) / 2 + (high - low) / 4 * X, low, high)
    return X, np.where(digit < 10 * facts.positives - 0.5, 1.0, -1.0) if facts.positives else digit.astype(float)


def _bags(rng: np.random.Generator, n: int, facts: Facts) -> sp.csr_matrix:
    """Up to `nonzeros` ones a row, popular features more often (Zipf); as text, rows of norm 1."""
    share = 1 / np.arange(1, facts.d + 1) ** (1.0 if facts.d > 1000 else 0.5)
    columns = np.searchsorted(np.cumsum(share / share.sum()), rng.random((n, facts.nonzeros)))
    starts = np.arange(0, columns.size + 1, facts.nonzeros)
    X = sp.csr_matrix((np.ones(columns.size), columns.clip(0, facts.d - 1).ravel(), starts), shape=(n, facts.d))
    X.sum_duplicates()
    X.data[:] = 1.0
    return sp.csr_matrix(sp.diags_array(1 / np.sqrt(X.getnnz(1))) @ X) if facts.d > 1000 else X


@lru_cache(maxsize=1)
def _made_up_phrases(n: int) -> Phrases:
    """Parts of sentences of words with Zipf's popularity; the words' leanings add up to the sentiment."""
    rng = np.random.default_rng(0)
    words, length, parts = 16_500, 19, 18  # as in the real ones: words in all, of a sentence, phrases of a sentence
    share = 1 / np.arange(1, words + 1)
    count = -(-n // parts)
    drawn = np.searchsorted(np.cumsum(share / share.sum()), rng.random((count, length))).clip(0, words - 1)
    leaning = rng.standard_normal(words) * (rng.random(words) < 0.2)
    begin = rng.integers(length, size=n)
    end = np.minimum(begin + 1 + rng.geometric(0.15, n), length)
    sentences = np.arange(n) // parts
    totals = np.hstack([np.zeros((count, 1)), leaning[drawn].cumsum(axis=1)])
    scores = totals[sentences, end] - totals[sentences, begin] + 0.3 * rng.standard_normal(n)
    shares = np.cumsum([7072, 27273, 79582, 32927]) / 156_060
    labels = np.searchsorted(np.quantile(scores, shares), scores)
    texts = [" ".join(f"word{w}" for w in drawn[s, a:b]) for s, a, b in zip(sentences, begin, end, strict=True)]
    return Phrases(texts, labels, sentences + 1)
