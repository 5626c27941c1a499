"""The storage seam: every layout says the same numbers, in float64, within the rounding that it states."""

from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest
import scipy.sparse as sp

from primalsvm import Hinge, LinearProblem, matrix, solve
from primalsvm.matrix import ALL, BLOCK_ROWS, Dense, Sparse, as_matrix
from primalsvm.rows import AlikeRows, SparseRows
from primalsvm.solvers import DualCoordinateAscent, Hyperpass, Newton, Pegasos

EPS = 2.0**-52
N, D = BLOCK_ROWS + 37, 5  # more rows than a block


def with_indices(X, dtype):
    X.indices, X.indptr = X.indices.astype(dtype), X.indptr.astype(dtype)
    return X


def with_duplicates(values):
    """The same matrix with every entry stored as two halves: CSR, but not canonical."""
    csr = sp.csr_array(values)
    data, indices = np.repeat(csr.data / 2, 2).astype(values.dtype), np.repeat(csr.indices, 2)
    return sp.csr_array((data, indices, 2 * csr.indptr), shape=csr.shape)


LAYOUTS = {
    "dense": lambda values: values,
    "fortran": np.asfortranarray,
    "strided": lambda values: np.repeat(np.repeat(values, 2, axis=0), 3, axis=1)[::2, ::3],
    "csr int32": lambda values: with_indices(sp.csr_array(values), np.int32),
    "csr int64": lambda values: with_indices(sp.csr_array(values), np.int64),
    "csr_matrix": sp.csr_matrix,
    "csc int32": lambda values: with_indices(sp.csc_array(values), np.int32),
    "csc int64": lambda values: with_indices(sp.csc_array(values), np.int64),
    "coo": sp.coo_array,
    "duplicates": with_duplicates,
}
every_layout = pytest.mark.parametrize("layout", LAYOUTS)
every_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@lru_cache
def values(dtype):
    """(N, D) with half the entries and some whole rows zero; read only, as a memory map would be."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D)) * 10.0 ** rng.uniform(-3, 3, (N, D)) * (rng.random((N, D)) < 0.5)
    X[::100] = 0.0
    X = X.astype(dtype)
    X.flags.writeable = False
    return X


def exact_dots(rows, v):
    """(sum_j x_j v_j rounded once, sum_j |x_j v_j|) for each row, in rational arithmetic."""
    v = [Fraction(float(a)) for a in v]
    terms = [[Fraction(float(x)) * a for x, a in zip(row, v, strict=True)] for row in rows]
    return np.array([float(sum(t)) for t in terms]), np.array([float(sum(map(abs, t))) for t in terms])


def assert_within(computed, exact, size, terms):
    assert computed.dtype == np.float64
    assert (np.abs(computed - exact) <= (terms + 2) * EPS * size).all()


SOME = np.r_[
    :4, 99:103, BLOCK_ROWS - 2 : BLOCK_ROWS + 3, N - 2 : N
]  # rows at the ends, empty rows, both sides of a block
WEIGHTS = np.random.default_rng(1).standard_normal(D)
SAMPLE_WEIGHTS = np.random.default_rng(2).standard_normal(N)


@lru_cache
def exact_scores(dtype):
    return exact_dots(values(dtype)[SOME], WEIGHTS)


@lru_cache
def exact_transpose(dtype):
    return exact_dots(values(dtype).T, SAMPLE_WEIGHTS)


# --- products, within the error they state ----------------------------------------------------------------------------


@pytest.mark.parametrize("block_bytes", [matrix.BLOCK_BYTES, 8 * D * 100], ids=["one block", "blocks of 100 rows"])
@every_dtype
@every_layout
def test_matvec_within_its_terms(layout, dtype, block_bytes, monkeypatch):
    monkeypatch.setattr(matrix, "BLOCK_BYTES", block_bytes)
    X = as_matrix(LAYOUTS[layout](values(dtype)))
    scores = X.matvec(WEIGHTS)
    assert scores.shape == (N,)
    assert_within(scores[SOME], *exact_scores(dtype), X.matvec_terms)


@every_dtype
@every_layout
def test_transpose_matvec_within_its_terms(layout, dtype):
    X = as_matrix(LAYOUTS[layout](values(dtype)))
    assert_within(X.transpose_matvec(SAMPLE_WEIGHTS), *exact_transpose(dtype), X.transpose_terms)


@every_dtype
@every_layout
@pytest.mark.parametrize("threads", [1, 3])
def test_both_ways_within_their_terms(layout, dtype, threads, monkeypatch):
    monkeypatch.setattr(matrix, "THREAD_WORK", 100)
    for wide in (False, True):
        monkeypatch.setattr(matrix, "NARROW", 1 if wide else 200)
        X = as_matrix(LAYOUTS[layout](values(dtype)), threads)
        X.block = 1000  # several, the last one not whole
        scores, back = X.both_ways(WEIGHTS, SAMPLE_WEIGHTS)
        assert_within(scores[SOME], *exact_scores(dtype), X.matvec_terms)
        assert_within(back, *exact_transpose(dtype), X.transpose_terms)
        np.testing.assert_array_equal(scores, X.matvec(WEIGHTS))


@every_dtype
@every_layout
def test_squared_norms(layout, dtype):
    squares = as_matrix(LAYOUTS[layout](values(dtype))).squared_norms
    exact = np.array([float(sum(Fraction(float(x)) ** 2 for x in row)) for row in values(dtype)[SOME]])
    assert squares.shape == (N,)
    assert_within(squares[SOME], exact, exact, D)


@pytest.mark.parametrize("layout", ["dense", "csr int32"])
def test_terms_are_few(layout):
    """The bounds are worth having: one row's entries, and a block plus the number of blocks instead of n."""
    X = as_matrix(LAYOUTS[layout](values(np.float64)))
    assert X.matvec_terms <= D
    assert X.transpose_terms <= BLOCK_ROWS + 4


@pytest.mark.parametrize("below", [0, 20, None], ids=["weights above 0", "some below", "all below"])
@pytest.mark.parametrize("block_bytes", [matrix.BLOCK_BYTES, 8 * D * 10], ids=["one block", "blocks of 10 rows"])
@pytest.mark.parametrize("narrow", [matrix.NARROW, 0], ids=["few features", "many"])
@pytest.mark.parametrize("even", [False, True], ids=["weights", "one weight"])
@every_dtype
@every_layout
def test_gram(layout, dtype, even, narrow, block_bytes, below, monkeypatch):
    monkeypatch.setattr(matrix, "BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(matrix, "SMALL_BYTES", block_bytes)
    monkeypatch.setattr(matrix, "NARROW", narrow)
    rows = np.array([3, 1, 4096, 2, 0, 4132, 3, *range(500, 540)])  # any order, one of them twice
    weights = np.full(len(rows), 1.7) if even else np.random.default_rng(3).uniform(0, 2, len(rows))
    weights[:below] *= -1
    picked = values(dtype)[rows].astype(np.float64)
    exact = np.einsum("ia,i,ib->ab", picked, weights, picked)
    size = np.einsum("ia,i,ib->ab", abs(picked), abs(weights), abs(picked))
    X = as_matrix(LAYOUTS[layout](values(dtype)))
    # 47 sums of two products each; the reference above rounds as often
    assert_within(X.gram(weights, rows), exact, size, 2 * (len(rows) + 2))
    assert (X.gram(weights[:0], rows[:0]) == 0).all()
    total = np.ones_like(exact)
    X.add_gram(total, weights, rows)
    assert_within(np.tril(total - 1.0), np.tril(exact), 1 + size, 2 * (len(rows) + 3))


@pytest.mark.parametrize("density", [0.01, 0.5], ids=["sparse product", "dense product"])
def test_gram_of_a_wide_sparse_matrix(density):
    """Quarters, and weights with roots: nothing is rounded, so both ways through the sparse gram give the same bits."""
    rng = np.random.default_rng(0)
    X = rng.integers(-8, 9, (60, 40)) / 4 * (rng.random((60, 40)) < density)
    rows, weights = np.arange(0, 60, 2), rng.integers(0, 5, 30) ** 2 / 4
    weights[::3] *= -1
    np.testing.assert_array_equal(
        as_matrix(sp.csr_array(X)).gram(weights, rows), X[rows].T @ np.diag(weights) @ X[rows]
    )


# --- some of the rows, and several threads ----------------------------------------------------------------------------


@every_dtype
@pytest.mark.parametrize("layout", ["dense", "csr int32"])
def test_products_with_picked_rows_are_those_of_the_rows_taken(layout, dtype):
    X = as_matrix(LAYOUTS[layout](values(dtype)))
    picked = np.array([5, 4100, 5, 0, 100, 7])  # any order, one of them twice, one empty
    taken = X.take(picked)
    size = np.abs(taken.toarray()) @ np.abs(WEIGHTS)
    assert (np.abs(X.matvec(WEIGHTS, picked) - taken.matvec(WEIGHTS)) <= 4 * D * EPS * size).all()
    a = np.array([1.0, -2.0, 0.5, 3.0, 0.0, 0.25])
    size = np.abs(taken.toarray()).T @ np.abs(a)
    assert (np.abs(X.transpose_matvec(a, picked) - taken.transpose_matvec(a)) <= 16 * EPS * size).all()
    weights = a**2
    size = np.einsum("ia,i,ia->a", taken.toarray(), weights, taken.toarray())
    assert (np.abs(X.diagonal(weights, picked) - X.gram(weights, picked).diagonal()) <= 16 * EPS * size).all()
    np.testing.assert_array_equal(X.matvec(WEIGHTS, picked[:0]), np.zeros(0))
    np.testing.assert_array_equal(X.transpose_matvec(a[:0], picked[:0]), np.zeros(D))


@every_dtype
@pytest.mark.parametrize("layout", ["dense", "csr int32"])
@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_nothing_beyond_rounding_and_repeat_to_the_bit(layout, dtype, threads, monkeypatch):
    monkeypatch.setattr(matrix, "THREAD_WORK", 100)  # small as it is, let it be cut
    one, several = as_matrix(LAYOUTS[layout](values(dtype))), as_matrix(LAYOUTS[layout](values(dtype)), threads)
    assert len(several._cuts(N)) == threads + 1
    np.testing.assert_array_equal(one.matvec(WEIGHTS)[SOME], several.matvec(WEIGHTS)[SOME])
    assert_within(several.transpose_matvec(SAMPLE_WEIGHTS), *exact_transpose(dtype), several.transpose_terms)
    rows, weights = np.arange(0, N, 3), SAMPLE_WEIGHTS[::3] ** 2
    np.testing.assert_allclose(one.gram(weights, rows), several.gram(weights, rows), rtol=1e-12)
    for product in (
        lambda X: X.matvec(WEIGHTS),
        lambda X: X.transpose_matvec(SAMPLE_WEIGHTS),
        lambda X: X.both_ways(WEIGHTS, SAMPLE_WEIGHTS)[1],
        lambda X: X.gram(weights, rows),
    ):
        np.testing.assert_array_equal(product(several), product(several))


@pytest.mark.parametrize("layout", ["dense", "csr int32"])
def test_the_gram_of_all_rows_is_kept_for_the_next_who_asks(layout, monkeypatch):
    X = as_matrix(LAYOUTS[layout](values(np.float64)))
    weights, everyone = SAMPLE_WEIGHTS**2, np.arange(N)
    given = X.gram(weights, everyone)
    first = given.copy()
    given += 1.0  # the caller may change what it got
    monkeypatch.setattr(type(X), "_gram", lambda *_: pytest.fail("made again"))
    np.testing.assert_array_equal(X.gram(weights, everyone), first)
    monkeypatch.undo()
    other = X.gram(weights[::-1].copy(), everyone)  # other weights, or the same for other rows, are another matrix
    again = X.gram(weights[::-1].copy(), everyone[::-1].copy())
    assert not np.allclose(other, first)
    np.testing.assert_allclose(again, first, rtol=1e-12)


# --- rows -------------------------------------------------------------------------------------------------------------


@every_dtype
@every_layout
def test_take_keeps_the_numbers(layout, dtype):
    X = as_matrix(LAYOUTS[layout](values(dtype)))
    rows = np.array([7, 0, 7, BLOCK_ROWS + 4])
    picked = X.take(rows)
    assert (type(picked), picked.dtype, picked.shape) == (type(X), dtype, (4, D))
    for whole, part in ((X.toarray()[rows], picked.toarray()),):
        assert whole.dtype == part.dtype == np.float64
        np.testing.assert_array_equal(whole, values(dtype)[rows])
        np.testing.assert_array_equal(part, values(dtype)[rows])


@every_dtype
@every_layout
def test_compiled_loops_see_the_same_rows(layout, dtype):
    X = as_matrix(LAYOUTS[layout](values(dtype)))
    if isinstance(X, Dense):
        assert X.rows.values.flags.c_contiguous
        np.testing.assert_array_equal(X.rows.values, values(dtype))
    else:
        data, indices, begins, ends = X.rows
        for i in SOME:
            inside = slice(begins[i], ends[i])
            row = np.zeros(D)
            np.add.at(row, indices[inside], data[inside])
            assert len(set(indices[inside])) == ends[i] - begins[i]  # no entry twice
            np.testing.assert_array_equal(row, values(dtype)[i])


# --- what is copied ---------------------------------------------------------------------------------------------------


@every_dtype
def test_a_c_array_is_used_in_place(dtype):
    X = as_matrix(values(dtype))
    assert np.shares_memory(X.values, values(dtype))
    assert X.dtype == dtype


@every_dtype
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("container", [sp.csr_array, sp.csr_matrix])
def test_a_csr_matrix_is_used_in_place(container, index, dtype, monkeypatch):
    monkeypatch.setattr(matrix, "COPIED", 0)  # where its rows are not short
    csr = with_indices(container(values(dtype)), index)
    X = as_matrix(csr)
    assert X.dtype == dtype
    assert np.shares_memory(X.rows.data, csr.data)
    for ours, given in zip(X.rows[1:], (csr.indices, csr.indptr[:-1], csr.indptr[1:]), strict=True):
        assert ours.dtype == np.int32  # 64 bits are more than it takes, and cost a third of every pass
        assert np.shares_memory(ours, given) == (index is np.int32)
        np.testing.assert_array_equal(ours, given)


@every_dtype
@every_layout
def test_the_given_matrix_stays_as_it_was(layout, dtype):
    given = LAYOUTS[layout](values(dtype))
    arrays = [given] if isinstance(given, np.ndarray) else [given.data, *(getattr(given, "indices", ()),)]
    before = [np.array(a) for a in arrays]
    X = as_matrix(given)
    X.matvec(WEIGHTS), X.transpose_matvec(SAMPLE_WEIGHTS), X.gram(np.ones(2), np.arange(2)), X.squared_norms
    after = [given] if isinstance(given, np.ndarray) else [given.data, *(getattr(given, "indices", ()),)]
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)


def test_as_matrix_twice_is_once():
    X = as_matrix(values(np.float64))
    assert as_matrix(X) is X


@pytest.mark.parametrize(
    ("layout", "dtype"),
    [(layout, dtype) for layout in LAYOUTS for dtype in (np.int8, np.int64, np.uint16, np.bool_, np.longdouble)]
    + [("fortran", dtype) for dtype in (np.float16, ">f4", ">f8", object)],  # SciPy has no such matrices
)
def test_other_numbers_become_float64(layout, dtype):
    small = np.arange(12).reshape(4, 3) * 2
    small[1] = 0
    X = as_matrix(LAYOUTS[layout](small.astype(np.float64)).astype(dtype))
    expected = small.astype(dtype).astype(np.float64)
    assert X.dtype == np.float64
    np.testing.assert_array_equal(X.matvec(np.array([1.0, 10.0, 100.0])), expected @ [1.0, 10.0, 100.0])


def test_lists_are_welcome():
    np.testing.assert_array_equal(as_matrix([[1, 2], [3, 4]]).matvec(np.array([1.0, 10.0])), [21.0, 43.0])


# --- edges ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1)])
@pytest.mark.parametrize("container", [np.array, sp.csr_array], ids=["dense", "sparse"])
def test_empty_matrices(container, shape):
    X = as_matrix(container(np.zeros(shape)))
    n, d = shape
    assert X.shape == shape
    assert X.entries == (n * d if isinstance(X, Dense) else 0)
    np.testing.assert_array_equal(X.matvec(np.ones(d)), np.zeros(n))
    np.testing.assert_array_equal(X.transpose_matvec(np.ones(n)), np.zeros(d))
    np.testing.assert_array_equal(X.squared_norms, np.zeros(n))
    np.testing.assert_array_equal(X.gram(np.ones(n), np.arange(n)), np.zeros((d, d)))


def test_entries_count_what_a_pass_reads():
    assert as_matrix(values(np.float32)).entries == N * D
    assert as_matrix(with_duplicates(values(np.float32))).entries == np.count_nonzero(values(np.float32))


def test_dense_or_sparse_stays_what_it_was():
    assert isinstance(as_matrix(values(np.float64)), Dense)
    assert isinstance(as_matrix(sp.csc_array(values(np.float64))), Sparse)


@pytest.mark.parametrize("wrong", [np.zeros(3), np.zeros((2, 2, 2)), 1.0])
def test_what_is_no_matrix_gets_a_sentence(wrong):
    with pytest.raises(ValueError, match=r"^X must be a matrix \(n_samples, n_features\), got \d dimension\(s\)\.$"):
        as_matrix(wrong)


# --- rows whose entries are alike -------------------------------------------------------------------------------------


def alike(dtype, scaled):
    """Entries 1, or one number of few digits for each row; some rows empty, some with a single entry."""
    rng = np.random.default_rng(5)
    X = (rng.random((600, 40)) < rng.uniform(0, 0.4, (600, 1))).astype(dtype)
    X[::50] = 0.0
    return X * (rng.choice([-1, 1], (600, 1)) * rng.integers(1, 24, (600, 1)) / 8).astype(dtype) if scaled else X


def as_if_not_alike(X):
    """The same matrix whose compiled loops read every entry."""
    other = Sparse(X.csr, X.threads)
    other.rows = SparseRows(X.csr.data, X.csr.indices, X.csr.indptr[:-1], X.csr.indptr[1:])
    return other


@every_dtype
@pytest.mark.parametrize("scaled", [False, True])
def test_rows_of_equal_entries_are_read_as_one_number_and_give_the_same_bits(dtype, scaled):
    X = as_matrix(sp.csr_array(alike(dtype, scaled)))
    assert isinstance(X.rows, AlikeRows)
    assert X.rows.value.dtype == dtype
    assert np.shares_memory(X.rows.indices, X.csr.indices)
    rng = np.random.default_rng(6)
    w, a, picked = rng.standard_normal(40), rng.standard_normal(600), rng.permutation(600)[:333]
    other = as_if_not_alike(X)
    for say in (
        lambda M: M.matvec(w),
        lambda M: M.matvec(w, picked),
        lambda M: M.transpose_matvec(a),
        lambda M: M.transpose_matvec(a[:333], picked),
        lambda M: M.gram(a[:333], picked),
        lambda M: M.diagonal(a[:333], picked),
        lambda M: M.squared_norms,
        lambda M: M.take(picked).matvec(w),
    ):
        np.testing.assert_array_equal(say(X), say(other))
    np.testing.assert_allclose(X.matvec(w), alike(dtype, scaled).astype(np.float64) @ w, rtol=1e-12, atol=1e-12)


@every_dtype
@pytest.mark.parametrize("scaled", [False, True])
def test_squares_of_rows_of_equal_entries_are_products(dtype, scaled):
    values = alike(dtype, scaled) * dtype(1.1)
    X = as_matrix(sp.csr_array(values))
    assert isinstance(X.rows, AlikeRows)
    np.testing.assert_allclose(X.squared_norms, np.sum(values.astype(np.float64) ** 2, axis=1), rtol=1e-14)


@pytest.mark.parametrize("solver", [DualCoordinateAscent(), Pegasos(), Newton(), Hyperpass()], ids=lambda s: s.name)
def test_solvers_take_the_same_steps_on_rows_of_equal_entries(solver):
    X = as_matrix(sp.csr_array(alike(np.float64, True)))
    y = np.where(np.random.default_rng(7).random(600) < 0.5, -1.0, 1.0)
    fits = [
        solve(LinearProblem(y, np.ones(600), Hinge(), "none", X=M), solver, tol=1e-3, max_iter=40)
        for M in (X, as_if_not_alike(X))
    ]
    np.testing.assert_array_equal(fits[0].f, fits[1].f)
    assert fits[0].f.any()


@every_dtype
def test_one_entry_that_differs_is_seen(dtype):
    values = alike(dtype, True)
    full = np.flatnonzero(np.count_nonzero(values, axis=1) > 1)
    for row in full[[0, -1]]:
        off = sp.csr_array(values)
        off.data[off.indptr[row + 1] - 1] *= 1.5
        X = as_matrix(off)
        assert isinstance(X.rows, SparseRows)
        np.testing.assert_allclose(X.matvec(np.ones(40)), off.sum(axis=1), rtol=1e-5)
    assert isinstance(as_matrix(sp.csr_array((3, 4))).rows, SparseRows)  # nothing to be alike
    holes = sp.csr_array(values)
    holes.data[3] = np.nan
    assert isinstance(as_matrix(holes).rows, SparseRows)


# --- short rows of many lengths ---------------------------------------------------------------------------------------


def mixed(dtype=np.float64, n=2 * BLOCK_ROWS + 77, d=30, scaled=True):
    """Rows of 0 to 12 entries."""
    rng = np.random.default_rng(8)
    X = (rng.random((n, d)) < rng.uniform(0, 0.4, (n, 1))).astype(dtype)
    return X * rng.uniform(-3, 3, (n, d)).astype(dtype) if scaled else X


@every_dtype
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("scaled", [False, True])
def test_short_rows_lie_by_length_and_mean_the_same(dtype, scaled, threads, monkeypatch):
    monkeypatch.setattr(matrix, "THREAD_WORK", 100)
    values = mixed(dtype, scaled=scaled)
    csr, n = sp.csr_array(values), len(values)
    X = as_matrix(csr, threads)
    assert isinstance(X.rows, SparseRows if scaled else AlikeRows)
    np.testing.assert_array_equal(np.sort(X.order), np.arange(n))
    lengths = np.diff(csr.indptr)
    for first in range(0, n, BLOCK_ROWS):
        window = X.order[first : first + BLOCK_ROWS]
        assert first <= window.min() and window.max() < first + BLOCK_ROWS
        assert (np.diff(lengths[window]) >= 0).all()
    np.testing.assert_array_equal(X.rows.end - X.rows.begin, lengths)
    np.testing.assert_array_equal(X.rows.begin[X.order], np.cumsum(lengths[X.order]) - lengths[X.order])
    rng = np.random.default_rng(9)
    w, a, picked, exact = (
        rng.standard_normal(30),
        rng.standard_normal(n),
        rng.permutation(n)[:999],
        values.astype(float),
    )
    close = {"rtol": 1e-10, "atol": 1e-10}
    np.testing.assert_allclose(X.matvec(w), exact @ w, **close)
    np.testing.assert_allclose(X.matvec(w, picked), exact[picked] @ w, **close)
    np.testing.assert_allclose(X.transpose_matvec(a), a @ exact, **close)
    np.testing.assert_allclose(X.transpose_matvec(a[:999], picked), a[:999] @ exact[picked], **close)
    np.testing.assert_allclose(X.both_ways(w, a)[0], exact @ w, **close)
    np.testing.assert_allclose(X.both_ways(w, a)[1], a @ exact, **close)
    np.testing.assert_allclose(X.squared_norms, (exact**2).sum(axis=1), **close)
    np.testing.assert_allclose(X.diagonal(a[:999], picked), a[:999] @ exact[picked] ** 2, **close)
    np.testing.assert_allclose(X.gram(a[:999], picked), exact[picked].T @ (a[:999, None] * exact[picked]), **close)
    np.testing.assert_array_equal(X.take(picked).toarray(), exact[picked])
    mask = rng.random(n) < 0.3
    np.testing.assert_array_equal(np.sort(X.where(mask)), np.flatnonzero(mask))
    np.testing.assert_array_equal(X.where(np.ones(n, dtype=bool)), X.order)
    np.testing.assert_array_equal(csr.toarray(), values)  # the user's own are as they were


def test_what_would_gain_nothing_or_is_large_is_not_copied(monkeypatch):
    values = mixed()
    same = np.zeros_like(values)
    same[:, :5] = values[:, :5] + 10.0
    few, monkey = sp.csr_array(values[:100]), sp.csr_array(values)
    for csr in (few, sp.csr_array(same)):
        assert np.shares_memory(as_matrix(csr).rows.indices, csr.indices) and not len(as_matrix(csr).order)
    assert len(as_matrix(monkey).order)
    assert np.shares_memory(as_matrix(monkey, ordered=False).rows.indices, monkey.indices)
    monkeypatch.setattr(matrix, "COPIED", 12 * monkey.nnz - 1)
    assert np.shares_memory(as_matrix(monkey).rows.data, monkey.data) and not len(as_matrix(monkey).order)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("intercept", ["none", "penalized", "free"])
@pytest.mark.parametrize("solver", [DualCoordinateAscent(), Newton()], ids=lambda s: s.name)
def test_solvers_do_not_care_how_rows_lie(solver, loss, intercept, monkeypatch):
    csr = sp.csr_array(mixed())
    y = np.where(csr @ np.random.default_rng(1).standard_normal(30) > 0.5, 1.0, -1.0)
    cost = np.random.default_rng(2).uniform(0, 0.1, len(y)) * (np.arange(len(y)) % 7 > 0)
    fits = []
    for least in (1, 10**9):
        monkeypatch.setattr(matrix, "MIXED", least)
        problem = LinearProblem(y, cost, loss, intercept, X=as_matrix(csr))
        assert bool(len(problem.X.order)) == (least == 1)
        fits.append(solve(problem, solver, tol=1e-5).certificate)
    assert max(fit.relative_gap for fit in fits) <= 1e-5
    assert fits[0].dual <= fits[1].primal and fits[1].dual <= fits[0].primal


@every_dtype
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_normal_product_is_that_of_its_two_halves(storage, dtype, threads, monkeypatch):
    monkeypatch.setattr(matrix, "THREAD_WORK", 100)
    rng = np.random.default_rng(3)
    w = rng.standard_normal(30)
    for cache in (0, 10**9):  # rows are asked for ahead of time, or not
        monkeypatch.setattr(matrix, "CACHE", cache)
        X = as_matrix(storage(mixed(dtype)), threads)
        shuffled = rng.permutation(X.shape[0])
        for picked in (X.where(rng.random(X.shape[0]) < 0.4), shuffled[:700], np.array([7, 7, 0]), ALL):
            weights = rng.random(len(picked))
            wanted = X.transpose_matvec(weights * X.matvec(w, picked), picked)
            np.testing.assert_allclose(X.normal_matvec(w, weights, picked), wanted, rtol=1e-9, atol=1e-9)
