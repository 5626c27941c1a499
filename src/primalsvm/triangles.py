"""Cholesky's factor and inverses of triangles, by products of blocks.

SciPy's LAPACK holds Python's lock for as long as it works: binary problems on several threads would factorise one after
the other. NumPy's products let the others run, and are as fast. Leaves of a few dozen rows are LAPACK's.
"""

import numpy as np
from scipy.linalg import cho_solve
from scipy.linalg.blas import dtrmm
from scipy.linalg.lapack import dpotrf, dtrtri

from .losses import Array

WHOLE = 700  # rows up to which LAPACK has a matrix as a whole: it is done before others have noticed
PANEL = 64  # columns of a larger one that are factorised at a time
LEAF = 96  # rows of a triangle that LAPACK inverts


def factorise(A: Array) -> bool:
    """L with L L' = A in the place of A's lower triangle, the diagonal included; what is above it stays as it is.

    False, and the lower triangle spoilt, where A is not positive.
    """
    n = len(A)
    if n <= WHOLE:
        factor, failed = dpotrf(A.T, lower=0, clean=0, overwrite_a=1)  # rows of A are LAPACK's columns
        A[...] = factor.T
        return not failed
    for begin in range(0, n, PANEL):
        own, below = slice(begin, begin + PANEL), slice(begin + PANEL, None)
        left = A[own, :begin]
        corner, failed = dpotrf((A[own, own] - left @ left.T).T, lower=0)
        if failed:
            return False
        A[own, own] = np.triu(A[own, own], 1) + corner.T
        A[below, own] = (A[below, own] - A[below, :begin] @ left.T) @ dtrtri(corner, lower=0)[0]
    return True


def solve_positive(A: Array, rhs: Array) -> Array:
    """A^-1 rhs of a positive A, which is overwritten; by least squares where rounding has made it indefinite."""
    diagonal = A.diagonal().copy()
    if factorise(A):
        return cho_solve((A.T, False), rhs, check_finite=False)
    A = np.triu(A, 1)
    A += A.T
    np.fill_diagonal(A, diagonal)
    return np.asarray(np.linalg.lstsq(A, rhs, rcond=None)[0], dtype=np.float64)


def invert_triangle(L: Array) -> Array:
    """L^-1 of a lower triangular matrix, in its place: by halves, which is twice as fast as LAPACK's own."""
    if len(L) <= LEAF:
        L[:] = dtrtri(L, lower=1)[0]
        return L
    half = len(L) // 2
    first, last = invert_triangle(L[:half, :half]), invert_triangle(L[half:, half:])
    L[half:, :half] = dtrmm(-1.0, first, dtrmm(1.0, last, L[half:, :half], lower=1), side=1, lower=1, overwrite_b=1)
    return L
