"""Read the model files of LIBLINEAR (`train`) and LIBSVM (`svm-train`; ThunderSVM writes the same).

Both are text: header lines ``key value ...`` up to a line ``w`` or ``SV``, then numbers. Neither stores C.

LIBLINEAR   after ``w``: one line a feature, one number a score. A `bias` B >= 0 adds a constant feature B,
            the last: b = B w_last, penalised like the rest (whether -R left it free, the file does not say).
            Two classes: one score, positive for the FIRST `label`. More: one score a label, one-vs-rest.
LIBSVM      after ``SV``: one line a support vector: k - 1 coefficients y_i alpha_i, then ``index:value ...``.
            Vectors are grouped by label, `nr_sv` of each. The pair of labels i < j (in the file's order)
            uses row j - 1 of the coefficients for the vectors of i, row i for those of j;
            score = f - rho, positive for label i.
            Values are written with 8 digits: a vector may differ that much from its training row.

Here the classes are sorted and a positive score means the larger one, as in scikit-learn.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

_FIRST_WORD: dict[bytes, Literal["liblinear", "libsvm"]] = {
    b"solver_type": "liblinear",
    b"svm_type": "libsvm",
}
_KEYS = {
    "liblinear": {"solver_type", "nr_class", "label", "nr_feature", "bias", "rho"},
    "libsvm": {"svm_type", "kernel_type", "degree", "gamma", "coef0", "nr_class", "total_sv", "rho", "label"}
    | {"probA", "probB", "prob_density_marks", "nr_sv"},
}
_LAST_KEY = {"liblinear": "w", "libsvm": "SV"}
_LOSSES: dict[str, Literal["hinge", "squared_hinge"]] = {
    "L2R_L2LOSS_SVC_DUAL": "squared_hinge",
    "L2R_L2LOSS_SVC": "squared_hinge",
    "L2R_L1LOSS_SVC_DUAL": "hinge",
}
_OTHER_SOLVERS = {
    "MCSVM_CS": "a Crammer-Singer multi-class model",
    "L1R_L2LOSS_SVC": "an L1-penalised model",
    "L2R_LR": "logistic regression",
    "L1R_LR": "logistic regression",
    "L2R_LR_DUAL": "logistic regression",
    "L2R_L2LOSS_SVR": "regression",
    "L2R_L2LOSS_SVR_DUAL": "regression",
    "L2R_L1LOSS_SVR_DUAL": "regression",
    "ONECLASS_SVM": "a one-class model",
}
_KERNELS = {"linear": "linear", "polynomial": "poly", "rbf": "rbf", "sigmoid": "sigmoid"}
_INT_MAX = 2**31 - 1  # both programs count in C ints


class ModelFileError(ValueError):
    """A model file that cannot be used; the message says what was expected, what came and what to do."""


class BinaryExpansion(NamedTuple):
    """One one-vs-one problem: score(x) = sum_s coef_s k(support_vectors[indices_s], x) + intercept."""

    positive: int  # the label a positive score decides for, the larger one
    negative: int
    indices: np.ndarray  # (m,) rows of support_vectors
    coef: np.ndarray  # (m,) y_i alpha_i, y_i = +1 for the positive label
    intercept: float


@dataclass(frozen=True, eq=False)
class ForeignModel:
    """A model another program trained: the problem it solved, as far as the file says, and its answer."""

    kind: Literal["liblinear", "libsvm"]
    classes: np.ndarray  # (k,) int, ascending
    multi_class: Literal["binary", "ovr", "ovo"]
    loss: Literal["hinge", "squared_hinge"]
    intercept: Literal["none", "penalized", "free"]
    intercept_scaling: float | None = None  # B where the intercept is penalised
    C: None = None  # in neither format
    # LIBLINEAR; row r scores classes[r] against the rest, or classes[1] if there are two
    coef: np.ndarray | None = None  # (1 or k, d)
    intercepts: np.ndarray | None = None  # (1 or k,)
    # LIBSVM, in the order of the file
    kernel: str | None = None  # scikit-learn's names: linear, poly, rbf, sigmoid
    gamma: float | None = None
    coef0: float | None = None
    degree: int | None = None
    labels: np.ndarray | None = None  # (k,)
    n_support: np.ndarray | None = None  # (k,)
    support_vectors: csr_matrix | None = None  # (n_sv, highest index): the data may have more features
    sv_coef: np.ndarray | None = None  # (k - 1, n_sv)
    rho: np.ndarray | None = None  # (k (k - 1) / 2,)

    def binary_problems(self) -> Iterator[BinaryExpansion]:
        """LIBSVM's one-vs-one problems, by (negative, positive) ascending; zero coefficients are left out."""
        if self.labels is None or self.n_support is None or self.sv_coef is None or self.rho is None:
            raise ModelFileError("A LIBLINEAR model has no support vectors; use its coef and intercepts.")
        k = len(self.labels)
        ends = np.cumsum(self.n_support)
        rows = [np.arange(end - count, end) for end, count in zip(ends, self.n_support, strict=True)]
        order = np.argsort(self.labels)
        for a, small in enumerate(order):
            for large in order[a + 1 :]:
                i, j = min(small, large), max(small, large)  # the file's own order, i the positive one
                sign = 1.0 if i == large else -1.0
                indices = np.concatenate([rows[i], rows[j]])
                coef = sign * np.concatenate([self.sv_coef[j - 1, rows[i]], self.sv_coef[i, rows[j]]])
                pair = i * k - i * (i + 1) // 2 + j - i - 1  # (0, 1), (0, 2), ..., (1, 2), ...
                kept = np.flatnonzero(coef)
                labels = int(self.labels[large]), int(self.labels[small])
                yield BinaryExpansion(*labels, indices[kept], coef[kept], float(-sign * self.rho[pair]))


def looks_like_model_file(path: str | os.PathLike[str]) -> Literal["liblinear", "libsvm"] | None:
    """Which program's model file this is, from its first word; None if it is neither or cannot be read."""
    try:
        with open(path, "rb") as stream:
            words = stream.read(64).split(maxsplit=1)
    except OSError:
        return None
    return _FIRST_WORD.get(words[0]) if len(words) == 2 else None


def read_model_file(path: str | os.PathLike[str], *, regularize_bias: bool = True) -> ForeignModel:
    """Read a LIBLINEAR or LIBSVM model file.

    `regularize_bias=False` says that LIBLINEAR ran with -R: its intercept is then "free".
    """
    path = Path(path)
    try:
        kind = looks_like_model_file(path)
        if kind is None and path.is_file() and os.access(path, os.R_OK):
            raise ModelFileError(
                "expected a LIBLINEAR or LIBSVM model, which begins with 'solver_type' or 'svm_type', "
                "found something else; give the file that train or svm-train wrote"
            )
        if kind is None:
            raise ModelFileError("there is no such file, or it may not be read; check the path")
        header, body = _split(path.read_bytes(), kind)
        if kind == "liblinear":
            return _read_liblinear(header, body, regularize_bias)
        if not regularize_bias:
            raise ModelFileError("regularize_bias=False is for LIBLINEAR; LIBSVM never penalises the intercept")
        return _read_libsvm(header, body)
    except OSError as error:
        raise ModelFileError(f"{path}: the file cannot be read ({error.strerror}); check it.") from None
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}.") from None


Header = dict[str, list[str]]


def _split(text: bytes, kind: str) -> tuple[Header, bytes]:
    """The header lines by key, and everything below the line that ends them."""
    header: Header = {}
    start = 0
    while (end := text.find(b"\n", start)) >= 0:
        words = text[start:end].decode("ascii", "replace").split()
        start = end + 1
        if words == [_LAST_KEY[kind]]:
            if not text.endswith(b"\n"):
                raise ModelFileError("the last line is cut off; fetch or write the file again")
            return header, text[start:]
        if not words or words[0] not in _KEYS[kind] or words[0] in header:
            shown = " ".join(words)[:40]
            raise ModelFileError(f"expected a {kind} header line, found {shown!r}; the file is damaged")
        header[words[0]] = words[1:]
    raise ModelFileError(f"the header has no line {_LAST_KEY[kind]!r} at its end; the file is cut off")


def _read_liblinear(header: Header, body: bytes, regularize_bias: bool) -> ForeignModel:
    (solver,) = _words(header, "solver_type", 1)
    if solver not in _LOSSES:
        what = _OTHER_SOLVERS.get(solver, "of an unknown type")
        raise ModelFileError(
            f"expected an L2-penalised support vector classifier, found {what} ({solver[:40]}); train with -s 1, 2 or 3"
        )
    labels = _labels(header)
    d = _count(header, "nr_feature", low=1)
    (bias,) = _numbers(_words(header, "bias", 1), "bias")
    if not regularize_bias and (bias != 1 or solver != "L2R_L2LOSS_SVC"):
        raise ModelFileError("LIBLINEAR's -R goes with -s 2 -B 1 alone; leave regularize_bias=False out")
    scores = 1 if len(labels) == 2 else len(labels)
    rows = d + (bias >= 0)
    w = _numbers(body.split(), "w")
    if len(w) != rows * scores:
        raise ModelFileError(f"expected {rows} x {scores} numbers after 'w', found {len(w)}; the file is damaged")
    w = w.reshape(rows, scores).T  # (scores, rows)
    if scores > 1:
        w = w[np.argsort(labels)]
    elif labels[0] < labels[1]:
        w = -w
    penalized: Literal["penalized", "free"] = "penalized" if regularize_bias else "free"
    return ForeignModel(
        kind="liblinear",
        classes=np.sort(labels),
        multi_class="binary" if scores == 1 else "ovr",
        loss=_LOSSES[solver],
        intercept=penalized if bias > 0 else "none",  # a constant feature of 0 is no intercept
        intercept_scaling=float(bias) if bias > 0 and regularize_bias else None,
        coef=np.ascontiguousarray(w[:, :d]),
        intercepts=bias * w[:, d] if bias > 0 else np.zeros(scores),
    )


def _read_libsvm(header: Header, body: bytes) -> ForeignModel:
    (svm_type,) = _words(header, "svm_type", 1)
    (kernel,) = _words(header, "kernel_type", 1)
    if svm_type != "c_svc":
        raise ModelFileError(f"expected a c_svc model, found {svm_type[:40]!r}; train with svm-train -s 0")
    if kernel not in _KERNELS:
        raise ModelFileError(
            f"expected a kernel among {', '.join(_KERNELS)}, found {kernel[:40]!r}; train with -t 0 to 3"
        )
    labels = _labels(header)
    k = len(labels)
    n_sv = _count(header, "total_sv", low=1)
    n_support = np.array([_integer(word, "nr_sv", 0) for word in _words(header, "nr_sv", k)])
    if n_support.sum() != n_sv:
        raise ModelFileError(f"nr_sv adds up to {n_support.sum()}, total_sv says {n_sv}; the file is damaged")
    sv_coef, support_vectors = _support_vectors(body, k - 1, n_sv)
    return ForeignModel(
        kind="libsvm",
        classes=np.sort(labels),
        multi_class="binary" if k == 2 else "ovo",
        loss="hinge",
        intercept="free",
        kernel=_KERNELS[kernel],
        gamma=None if kernel == "linear" else float(_numbers(_words(header, "gamma", 1), "gamma")[0]),
        coef0=float(_numbers(_words(header, "coef0", 1), "coef0")[0]) if kernel in ("polynomial", "sigmoid") else None,
        degree=_count(header, "degree", low=0) if kernel == "polynomial" else None,
        labels=labels,
        n_support=n_support,
        support_vectors=support_vectors,
        sv_coef=sv_coef,
        rho=_numbers(_words(header, "rho", k * (k - 1) // 2), "rho"),
    )


def _support_vectors(body: bytes, m: int, n_sv: int) -> tuple[np.ndarray, csr_matrix]:
    """The coefficients (m, n_sv) and the vectors (n_sv, highest index)."""
    lines = body.split(b"\n")[:-1]
    if len(lines) != n_sv:
        raise ModelFileError(f"expected {n_sv} lines after 'SV', found {len(lines)}; the file is cut off or damaged")
    row = re.compile(rb"\s*[^\s:]+(?:\s+[^\s:]+){%d}(?:\s+\d+:[^\s:]+)*\s*" % (m - 1))
    for number, line in enumerate(lines, 1):
        if not row.fullmatch(line):
            raise ModelFileError(f"line {number} after 'SV' is not {m} numbers and index:value pairs; it is damaged")
    counts = np.array([line.count(b":") for line in lines])
    cells = _numbers(body.replace(b":", b" ").split(), "SV")
    starts = np.cumsum(m + 2 * counts) - (m + 2 * counts)
    is_coef = np.zeros(len(cells), dtype=bool)
    is_coef[starts[:, None] + np.arange(m)] = True
    index, value = cells[~is_coef].reshape(-1, 2).T
    indptr = np.concatenate([[0], np.cumsum(counts)])
    ascending = np.diff(index, prepend=0) > 0
    ascending[indptr[:-1][counts > 0]] = True  # the first of a line follows another line's last
    if not (ascending & (index >= 1) & (index <= _INT_MAX)).all():
        raise ModelFileError("expected ascending indices from 1 in every support vector; the file is damaged")
    shape = (n_sv, int(index.max(initial=1)))
    return cells[is_coef].reshape(n_sv, m).T.copy(), csr_matrix((value, index.astype(np.int64) - 1, indptr), shape)


def _words(header: Header, key: str, count: int) -> list[str]:
    found = header.get(key)
    if found is None or len(found) != count:
        came = "no such line" if found is None else f"{len(found)}"
        raise ModelFileError(f"expected {count} value(s) on the header line {key!r}, found {came}; it is damaged")
    return found


def _labels(header: Header) -> np.ndarray:
    """The labels, in the order of the file: at least two, all different."""
    k = _count(header, "nr_class", low=2)
    labels = np.array([_integer(word, "label", -_INT_MAX - 1) for word in _words(header, "label", k)])
    if len(np.unique(labels)) != k:
        raise ModelFileError("expected every label once on the header line 'label'; the file is damaged")
    return labels


def _count(header: Header, key: str, low: int) -> int:
    return _integer(_words(header, key, 1)[0], key, low)


def _integer(word: str, key: str, low: int) -> int:
    value = int(word) if re.fullmatch(r"[+-]?[0-9]{1,10}", word) else None
    if value is None or not low <= value <= _INT_MAX:
        raise ModelFileError(f"{key} must be an integer from {low} to {_INT_MAX}, found {word[:40]!r}; it is damaged")
    return value


def _numbers(words: list[str] | list[bytes], key: str) -> np.ndarray:
    try:
        values = np.array(words, dtype=np.float64)
    except ValueError:
        values = np.array([np.nan])
    if not np.isfinite(values).all():
        raise ModelFileError(f"expected finite numbers in {key!r}, found something else; the file is damaged")
    return values
