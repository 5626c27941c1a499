"""The data sets of the linear and of the kernel benchmark: public ones, synthetic ones, and toys.

A loaded set is kept as .npz or .npy files in a folder, so that each process of the benchmark reads it in no time.

linear   labels are -1 and +1; sparse sets are CSR with sorted 32-bit indices, which every side accepts without a copy
kernel   dense float64, two classes or more, and a test part
"""

import bz2
import gzip
import lzma
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file
from sklearn.feature_extraction.text import CountVectorizer

from . import load_covtype, load_rcv1, narrow


def a9a(home: Path) -> tuple:
    with lzma.open(home / "a9a/a9a.xz", "rb") as file:
        return load_svmlight_file(file, n_features=123)


def w8a(home: Path) -> tuple:
    with lzma.open(home / "w8a/w8a.xz", "rb") as file:
        return load_svmlight_file(file, n_features=300)


def covtype(home: Path) -> tuple:
    """Class 2 against the rest, columns scaled to [0, 1]."""
    return load_covtype(home)[1:3]


def rcv1(home: Path) -> tuple:
    return load_rcv1(home)[1:3]


def news20(home: Path) -> tuple:
    """Classes 1-10 against 11-20, counts as they are."""
    with bz2.open(home / "news20/news20.bz2", "rb") as file:
        X, label = load_svmlight_file(file, n_features=62061)
    return X, np.where(label <= 10, -1.0, 1.0)


def rotten(home: Path) -> tuple:
    """Phrases of Rotten Tomatoes as binary bags of words; a sentiment above 2 is +1."""
    import pandas  # only here

    table = pandas.read_csv(home / "rotten_tomatoes/train.tsv.xz", sep="\t")
    words = CountVectorizer(binary=True, token_pattern=r"(?u)\b\w+\b")
    return words.fit_transform(table.Phrase.fillna("")).astype(float), np.where(table.Sentiment > 2, 1.0, -1.0)


def dense(_home: Path, n: int = 1_000_000, d: int = 30) -> tuple:
    """Gaussian features, a linear rule with as much noise as signal."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    scores = X @ rng.standard_normal(d)
    return X, np.where(scores + scores.std() * rng.standard_normal(n) > 0, 1.0, -1.0)


def sparse(_home: Path, n: int = 500_000, d: int = 100_000, k: int = 30) -> tuple:
    """Up to k features a row, drawn with Zipf's popularity, rows of norm 1, half as much noise as signal."""
    rng = np.random.default_rng(0)
    share = 1 / np.arange(1, d + 1)
    columns = np.searchsorted(np.cumsum(share / share.sum()), rng.random((n, k))).clip(0, d - 1).astype(np.int32)
    X = sp.csr_matrix((np.ones(n * k), columns.ravel(), np.arange(0, n * k + 1, k)), shape=(n, d))
    X.sum_duplicates()
    X.data[:] = 1
    X = sp.diags(1 / np.sqrt(X.getnnz(1))) @ X
    scores = X @ rng.standard_normal(d)
    return X, np.where(scores + 0.5 * scores.std() * rng.standard_normal(n) > 0, 1.0, -1.0)


def toy_dense(home: Path) -> tuple:
    return dense(home, 400, 8)


def toy_sparse(home: Path) -> tuple:
    return sparse(home, 400, 100, 6)


LOADERS = {f.__name__: f for f in (a9a, w8a, rcv1, news20, rotten, covtype, dense, sparse)}
TOYS = {f.__name__: f for f in (toy_dense, toy_sparse)}


def load(name: str, cache: Path, home: Path | None = None) -> tuple[sp.csr_matrix | np.ndarray, np.ndarray]:
    """(X, y) from the cache, where it is put first if it is not there yet."""
    labels = cache / f"{name}.y.npy"
    if not labels.exists():
        X, y = (LOADERS | TOYS)[name](home)  # type: ignore[arg-type]
        cache.mkdir(parents=True, exist_ok=True)
        if sp.issparse(X):
            X = narrow(X)
            X.sort_indices()
            sp.save_npz(cache / f"{name}.npz", X, compressed=False)
        else:
            np.save(cache / f"{name}.npy", X)
        np.save(labels, y)  # last: a set with labels is whole
    packed = cache / f"{name}.npz"
    return sp.load_npz(packed) if packed.exists() else np.load(cache / f"{name}.npy"), np.load(labels)


# with a test part, for kernels ----------------------------------------------------------------------------------------
class Split(NamedTuple):
    X: np.ndarray  # (n, d)
    y: np.ndarray  # (n,)
    X_test: np.ndarray
    y_test: np.ndarray


def svmlight(home: Path, d: int, *files: str) -> Split:
    """The training and the test file, as they are."""
    parts: list[np.ndarray] = []
    for name in files:
        with lzma.open(home / name, "rb") as file:
            X, y = load_svmlight_file(file, n_features=d)
        parts += [X.toarray(), y]
    return Split(*parts)


def split_usps(home: Path) -> Split:
    """Digits 0-4 against 5-9; the files count from 1."""
    digits = svmlight(home, 256, "usps/usps.xz", "usps/usps.t.xz")
    y, y_test = (np.where(label <= 5, 1.0, -1.0) for label in (digits.y, digits.y_test))
    return digits._replace(y=y, y_test=y_test)


def split_a9a(home: Path) -> Split:
    return svmlight(home, 123, "a9a/a9a.xz", "a9a/a9a.t.xz")


def split_letter(home: Path) -> Split:
    return svmlight(home, 16, "letter/letter.scale.xz", "letter/letter.scale.t.xz")


def split_pendigits(home: Path) -> Split:
    return svmlight(home, 16, "pendigits/pendigits.xz", "pendigits/pendigits.t.xz")


def split_covtype(home: Path, n: int = 50_000) -> Split:
    """Class 2 against the rest, columns scaled to [0, 1]: n rows drawn at random, and as many for the test."""
    X, y = covtype(home)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:n], order[n : 2 * n]
    return Split(X[train], y[train], X[test], y[test])


def split_covtype_all(home: Path) -> Split:
    """The same, all rows: a tenth, drawn at random, for the test."""
    X, y = covtype(home)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = np.split(order, [9 * len(y) // 10])
    return Split(X[train], y[train], X[test], y[test])


def split_mnist(home: Path) -> Split:
    """Grey values from 0 to 1."""

    def read(name: str) -> np.ndarray:
        with gzip.open(home / "mnist" / name) as file:
            raw = file.read()
        return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3])  # the fourth byte says how many sizes follow

    parts: list[np.ndarray] = []
    for name in ("train", "t10k"):
        images = read(f"{name}-images-idx3-ubyte.gz").reshape(-1, 784)
        parts += [images / 255.0, read(f"{name}-labels-idx1-ubyte.gz").astype(float)]
    return Split(*parts)


def clouds(classes: int, n: int = 240, d: int = 4) -> Split:
    """Gaussian clouds that overlap."""
    rng = np.random.default_rng(0)
    y = rng.integers(classes, size=2 * n).astype(float)
    X = rng.standard_normal((2 * n, d)) + 1.5 * rng.standard_normal((classes, d))[y.astype(int)]
    return Split(X[:n], y[:n], X[n:], y[n:])


SPLITS = {
    "usps": split_usps,
    "a9a": split_a9a,
    "letter": split_letter,
    "pendigits": split_pendigits,
    "covtype": split_covtype,
    "covtype_all": split_covtype_all,
    "mnist": split_mnist,
    "toy_two": lambda _home: clouds(2),
    "toy_four": lambda _home: clouds(4),
}


def load_split(name: str, cache: Path, home: Path | None = None) -> Split:
    """From the cache, where it is put first if it is not there yet."""
    packed = cache / f"{name}.split.npz"
    if not packed.exists():
        data = SPLITS[name](home)  # type: ignore[arg-type]
        cache.mkdir(parents=True, exist_ok=True)
        part = cache / f"{name}.part.npz"
        np.savez(part, **data._asdict())
        part.replace(packed)  # a set that is there is whole
    with np.load(packed) as arrays:
        return Split(*(arrays[field] for field in Split._fields))
