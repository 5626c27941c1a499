"""Halves of symmetric matrices: BLAS and LAPACK on lower triangles of C-contiguous float64 matrices, in their place.

SciPy's own wrappers hold Python's lock for as long as LAPACK works: binary problems on several threads would factorise
one after the other. The routines behind them, which SciPy hands out to compiled code, let the others run. Rows are the
columns of Fortran: what is the lower triangle here is the upper one there.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from scipy.linalg import cython_blas, cython_lapack
from scipy.linalg.blas import dtrmm, strmm
from scipy.linalg.lapack import dtrtri, strtri

from .losses import Array

LEAF = 96  # rows of a triangle that LAPACK inverts


@cache
def _routine(name: str) -> Callable[..., None]:
    capsule = (cython_blas.__pyx_capi__ | cython_lapack.__pyx_capi__)[name]
    find = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
    open_ = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    words = find(capsule)  # a capsule is named by the routine's signature in C
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (words.count(b",") + 1))(open_(capsule, words))


def _call(name: str, *arguments: Any) -> None:
    """With Python's numbers, letters and arrays where Fortran has pointers to them."""
    kinds: dict[type, Any] = {
        str: lambda letter: ctypes.c_char(letter.encode()),
        int: ctypes.c_int,
        float: ctypes.c_double,
    }
    held = [kinds[type(each)](each) if type(each) in kinds else each for each in arguments]
    _routine(name)(*(each.ctypes.data if isinstance(each, np.ndarray) else ctypes.byref(each) for each in held))


def add_square(A: Array, block: Array, scale: float = 1.0) -> None:
    """A += scale block' block, the lower triangle of it."""
    m, n = block.shape
    _call("dsyrk", "U", "N", n, m, scale, block, max(n, 1), 1.0, A, max(n, 1))


def add_outer(A: Array, x: Array, scale: float = 1.0) -> None:
    """A += scale x x', the lower triangle of it."""
    _call("dsyr", "U", len(x), float(scale), np.ascontiguousarray(x), 1, A, max(len(x), 1))


def multiply(A: Array, x: Array, scale: float = 1.0) -> Array:
    """scale A x of a symmetric A, given by its lower triangle."""
    n, out = len(A), np.zeros(len(A))
    _call("dsymv", "U", n, float(scale), A, max(n, 1), np.ascontiguousarray(x), 1, 0.0, out, 1)
    return out


def factorise(A: Array) -> bool:
    """L with L L' = A in the place of A's lower triangle, the diagonal included; what is above it stays as it is.

    False, and the lower triangle spoilt, where A is not positive.
    """
    n, failed = len(A), ctypes.c_int()
    _call("dpotrf", "U", n, A, max(n, 1), failed)
    return not failed.value


def solve_factored(L: Array, rhs: Array) -> Array:
    """(L L')^-1 rhs."""
    n, x = len(L), np.array(rhs, dtype=np.float64, order="F")
    _call("dpotrs", "U", n, x.size // max(n, 1), L, max(n, 1), x, max(n, 1), ctypes.c_int())
    return x


def solve_lower(L: Array, rhs: Array, transposed: bool = False) -> Array:
    """L^-1 rhs, or L'^-1 rhs; what is above the diagonal of L is not read."""
    n, x = len(L), np.array(rhs, dtype=np.float64, order="F")
    columns = x.size // max(n, 1)
    _call("dtrtrs", "U", "N" if transposed else "T", "N", n, columns, L, max(n, 1), x, max(n, 1), ctypes.c_int())
    return x


def least_squares(A: Array, rhs: Array) -> Array:
    """A^-1 rhs of a symmetric A, given by its lower triangle, that rounding may have made indefinite."""
    A = np.tril(A)
    A += np.tril(A, -1).T
    return np.asarray(np.linalg.lstsq(A, rhs, rcond=None)[0], dtype=np.float64)


def solve_positive(A: Array, rhs: Array) -> Array:
    """A^-1 rhs of a positive A, which is overwritten; by least squares where rounding has made it indefinite."""
    A = np.ascontiguousarray(A)
    diagonal = A.diagonal().copy()
    if factorise(A):
        return solve_factored(A, rhs)
    np.fill_diagonal(A, diagonal)
    return least_squares(A.T, rhs)  # what is above the diagonal is as it was


def invert_triangle(L: np.ndarray) -> np.ndarray:
    """L^-1 of a lower triangular matrix, in its place: by halves, which is twice as fast as LAPACK's own."""
    trtri, trmm = (strtri, strmm) if L.dtype == np.float32 else (dtrtri, dtrmm)
    if len(L) <= LEAF:
        L[:] = trtri(L, lower=1)[0]
        return L
    half = len(L) // 2
    first, last = invert_triangle(L[:half, :half]), invert_triangle(L[half:, half:])
    L[half:, :half] = trmm(-1.0, first, trmm(1.0, last, L[half:, :half], lower=1), side=1, lower=1, overwrite_b=1)
    return L
