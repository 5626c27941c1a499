"""Rows of a matrix as plain arrays, the form in which compiled code receives them."""

from typing import NamedTuple

import numpy as np


class DenseRows(NamedTuple):
    """Rows of a dense matrix."""

    values: np.ndarray  # (n, d) C-contiguous


class SparseRows(NamedTuple):
    """Rows of a sparse matrix: that of sample i is from begin[i] to end[i], wherever that is."""

    data: np.ndarray  # (nnz,)
    indices: np.ndarray  # (nnz,)
    begin: np.ndarray  # (n,)
    end: np.ndarray  # (n,)


class AlikeRows(NamedTuple):
    """Rows of a sparse matrix whose entries are all the same within a row, as in bags of words, scaled or not, and in
    categories spread over columns: two thirds of the memory that a pass reads are not needed."""

    value: np.ndarray  # (n,) of every entry of a row
    indices: np.ndarray  # (nnz,)
    begin: np.ndarray  # (n,)
    end: np.ndarray  # (n,)
