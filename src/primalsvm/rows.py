"""Rows of a matrix as plain arrays, the form in which compiled code receives them."""

from typing import NamedTuple

import numpy as np


class DenseRows(NamedTuple):
    """Rows of a dense matrix."""

    values: np.ndarray  # (n, d) C-contiguous


class SparseRows(NamedTuple):
    """Rows of a CSR matrix."""

    data: np.ndarray  # (nnz,)
    indices: np.ndarray  # (nnz,)
    indptr: np.ndarray  # (n + 1,)
