"""The data sets of the linear benchmark: six public ones, two synthetic ones, and two toys.

A loaded set is kept as .npz or .npy files in a folder, so that each process of the benchmark reads it in no time.
Labels are -1 and +1; sparse sets are CSR with sorted 32-bit indices, which every side accepts without a copy.
"""

import bz2
import lzma
from pathlib import Path

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
        X, y = (LOADERS | TOYS)[name](home)
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
