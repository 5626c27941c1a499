"""Rows that come in pieces: the same products, models and certificates as in memory; few pieces there at a time."""

import gc
import io
import json
import os
import pty
import re
import sys
import tracemalloc
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from drawn import for_all, quarters, seeds
from hypothesis import strategies as st
from problems import INTERCEPTS, LOSSES, MAKERS, make
from reference import optimum
from sklearn.datasets import dump_svmlight_file, load_iris
from test_cli import done, refusal, table

from primalsvm import SVC, Chunks, LinearProblem, LinearSVC, as_chunks, linear_path, open_chunks, solve
from primalsvm import chunks as module
from primalsvm.certificate import certificate
from primalsvm.chunks import Chunked
from primalsvm.console import Progress
from primalsvm.matrix import as_matrix
from primalsvm.persistence import load
from primalsvm.readers import DataError, read_data
from primalsvm.solve import Solver
from primalsvm.solvers import Newton, choose_solver, explain_choice

EPS = 2.0**-52
pq = pytest.importorskip("pyarrow.parquet", reason="Parquet needs pyarrow")
pa = pytest.importorskip("pyarrow")


class Given(Chunks):
    """Pieces cut anywhere, some of them empty; remembers which were read."""

    def __init__(self, X, bounds, y=None, **facts):
        self.X, self.asked = X, []
        super().__init__(bounds, X.shape[1], X.dtype, y, **facts)

    def _stream(self, places):
        for k in places:
            self.asked.append(k)
            yield self.X[self.bounds[k] : self.bounds[k + 1]]


def drawn(seed, dtype=np.float64, sparse=False, limit=0.0):
    """A matrix of quarters, whose sums are exact; the same in pieces; a generator."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 40)), int(rng.integers(1, 6))
    X = (quarters(rng, (n, d)) * (rng.random((n, d)) < 0.6)).astype(dtype)
    bounds = np.sort(np.r_[0, n, rng.integers(0, n + 1, rng.integers(0, 8))])
    X = sp.csr_array(X) if sparse else X
    return as_matrix(X), Chunked(Given(X, bounds, memory_limit=limit * 8 * n * d)), rng


layouts = {"seed": seeds, "dtype": st.sampled_from([np.float32, np.float64]), "sparse": st.booleans()}
limits = st.sampled_from([0.0, 0.5, 4.0])  # of all bytes: nothing is kept, some, everything


# --- the matrix -------------------------------------------------------------------------------------------------------


@for_all(**layouts, limit=limits)
def test_every_verb_is_that_of_the_matrix_in_memory(seed, dtype, sparse, limit):
    whole, X, rng = drawn(seed, dtype, sparse, limit)
    n, d = whole.shape
    assert (X.shape, X.dtype, X.entries) == ((n, d), dtype, whole.entries)
    assert X.matvec_terms == whole.matvec_terms
    np.testing.assert_array_equal(X.squared_norms, whole.squared_norms)
    np.testing.assert_array_equal(X.toarray(), whole.toarray())
    np.testing.assert_array_equal(X.outer_gram(), whole.outer_gram())
    w, a = quarters(rng, d), quarters(rng, n) * (rng.random(n) < 0.5)
    np.testing.assert_array_equal(X.matvec(w), whole.matvec(w))
    np.testing.assert_array_equal(X.transpose_matvec(a), whole.transpose_matvec(a))
    for picked in (np.sort(rng.integers(0, n, rng.integers(0, 2 * n))), np.arange(n), np.arange(0)):
        b, weights = quarters(rng, len(picked)), rng.integers(0, 5, len(picked)) ** 2 / 4
        np.testing.assert_array_equal(X.matvec(w, picked), whole.matvec(w, picked))
        np.testing.assert_array_equal(X.transpose_matvec(b, picked), whole.transpose_matvec(b, picked))
        np.testing.assert_array_equal(X.gram(weights, picked), whole.gram(weights, picked))
        np.testing.assert_array_equal(X.diagonal(weights, picked), whole.diagonal(weights, picked))
        np.testing.assert_array_equal(X.normal_matvec(w, weights, picked), whole.normal_matvec(w, weights, picked))
        for sign in (1.0, -1.0, 2.0):  # the first two come with the gram
            np.testing.assert_array_equal(
                X.transpose_matvec(sign * weights, picked), whole.transpose_matvec(sign * weights, picked)
            )
        taken = X.take(picked)
        assert taken.dtype == dtype
        np.testing.assert_array_equal(taken.toarray(), whole.take(picked).toarray())


@for_all(**layouts)
def test_pieces_with_nothing_picked_are_not_read(seed, dtype, sparse):
    _, X, rng = drawn(seed, dtype, sparse)
    n, d = X.shape
    picked = np.sort(rng.choice(n, int(rng.integers(0, n + 1)), replace=False))
    a = np.zeros(n)
    a[picked] = 1.0
    wanted = sorted(set(np.searchsorted(X.chunks.bounds, picked, "right") - 1))
    for product in (
        lambda: X.matvec(np.ones(d), picked),
        lambda: X.transpose_matvec(a),
        lambda: X.transpose_matvec(2 * a[picked], picked),
        lambda: X.gram(a[picked], picked),
        lambda: X.diagonal(a[picked], picked),
        lambda: X.take(picked),
    ):
        X.chunks.asked.clear()
        X._whole = X._pull = None
        product()
        assert sorted(X.chunks.asked) == wanted


def test_the_error_terms_count_the_pieces():
    """1 + 2^-53 (1 + a little) rounds up, by almost half a unit, in every piece anew."""
    X = np.full((300, 1), 2.0**-53 * (1 + 2.0**-20))
    X[0] = 1.0
    exact = sum(Fraction(float(x)) for x in X[:, 0])
    chunked = Chunked(Given(X, np.arange(301), memory_limit=0))
    error = abs(Fraction(float(chunked.transpose_matvec(np.ones(300))[0])) - exact)
    assert 100 * EPS < error <= chunked.transpose_terms * EPS
    assert chunked.transpose_terms <= 300 + 6  # and is worth having


def test_what_fits_is_kept_and_read_once():
    X = np.random.default_rng(0).standard_normal((100, 3))
    chunks = Given(X, np.arange(0, 101, 10), memory_limit=2 * X.nbytes)
    matrix = Chunked(chunks)
    matrix.matvec(np.ones(3))
    assert chunks.passes == 1.0
    half = Given(X, np.arange(0, 101, 10), memory_limit=X.nbytes)
    matrix = Chunked(half)
    half.asked.clear()
    matrix.matvec(np.ones(3))
    assert half.asked == [5, 6, 7, 8, 9]


def test_a_sample_too_large_for_memory_goes_to_a_file(monkeypatch):
    monkeypatch.setattr(module, "PIECE_BYTES", 100)
    for X in (quarters(np.random.default_rng(0), (50, 4)), sp.random_array((50, 9), density=0.3, rng=0).tocsr()):
        taken = Chunked(as_chunks(X, memory_limit=0)).take(np.arange(5, 45))
        assert isinstance(taken, Chunked)
        np.testing.assert_array_equal(taken.toarray(), X[5:45] if isinstance(X, np.ndarray) else X[5:45].toarray())
        file = taken.chunks.source
        del taken
        gc.collect()
        assert file.closed  # and gone: it has no name


def test_rows_in_any_other_order_are_refused():
    with pytest.raises(ValueError, match="in ascending order"):
        Chunked(as_chunks(np.ones((3, 1)))).matvec(np.ones(1), np.array([1, 0]))


# --- pieces -----------------------------------------------------------------------------------------------------------


@for_all(**layouts, width=st.integers(1, 7))
def test_mapped_pieces_are_those_of_the_rows(seed, dtype, sparse, width):
    _, X, rng = drawn(seed, dtype, sparse)
    W = quarters(rng, (X.shape[1], width))
    mapped = X.chunks.map(lambda piece: piece @ W, width)
    np.testing.assert_array_equal(Chunked(mapped).toarray(), X.toarray() @ W)
    np.testing.assert_array_equal(mapped.load(), X.toarray() @ W)
    np.testing.assert_array_equal(mapped.spooled().load(), X.toarray() @ W)


def test_a_transform_sees_the_same_rows_together_and_few(monkeypatch):
    monkeypatch.setattr(module, "PIECE_BYTES", 8 * 30)
    seen = []

    def transform(piece):
        seen.append((int(piece[0, 0]), len(piece)))
        return np.repeat(piece, 10, axis=1)

    X = np.arange(20.0)[:, None]
    matrix = Chunked(Given(X, [0, 7, 20], memory_limit=0).map(transform, 10))
    first = set(seen)
    assert all(rows <= 3 for _, rows in first)  # of ten numbers: 30 in all
    seen.clear()
    assert matrix.matvec(np.ones(10), np.array([8, 19])).tolist() == [80.0, 190.0]
    assert len(seen) == 2 and set(seen) <= first


def test_the_pieces_have_the_size_they_should():
    chunks = as_chunks(np.zeros((3 * 2**17, 20), np.float32))
    sizes = np.diff(chunks.bounds) * 20 * 4
    assert (sizes[:-1] > 0.99 * module.PIECE_BYTES).all() and (sizes <= module.PIECE_BYTES).all()


class Ragged(Given):
    def _stream(self, places):
        return (piece[:, : 2 if k == 1 else None] for k, piece in zip(places, super()._stream(places), strict=True))


def test_ragged_pieces_and_numbers_that_are_none_get_a_sentence():
    X = np.ones((6, 3))
    with pytest.raises(ValueError, match=r"^there: piece 1 must have 2 rows and 3 columns, its shape is \(2, 2\); "):
        Chunked(Ragged(X, [0, 2, 4, 6], title="there"))
    X[4, 1] = np.inf
    for rows in (X, sp.csr_array(X)):
        with pytest.raises(ValueError, match=r"^X: sample 5, feature 2 \(from 1\) is NaN or infinite; "):
            Chunked(Given(rows, [0, 3, 6]))
        model = LinearSVC().fit(X[:4] * [[1], [2], [3], [4]], [0, 1, 0, 1])
        with pytest.raises(ValueError, match=r"sample 5, feature 2 \(from 1\) is NaN"):
            model.predict(Given(rows, [0, 3, 6]))
    with pytest.raises(ValueError, match=r"expected 6 labels, one a row, found 5"):
        as_chunks(X, np.ones(5))
    with pytest.raises(ValueError, match="rows that can be sliced"):
        as_chunks(sp.coo_array(X))
    with pytest.raises(TypeError, match=r"comes in pieces where an array is needed; chunks\.load\(\)"):
        np.asarray(as_chunks(X[:4]))
    with pytest.raises(ValueError, match="for pieces take approximation='greedy'"):
        SVC().fit(as_chunks(X[:4]), [0, 1, 0, 1])


# --- models from every kind of source ---------------------------------------------------------------------------------


def samples(n=600, classes=2, dtype=np.float64):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, 5)).astype(dtype)
    y = np.digitize(X @ [1.0, -1.0, 0.5, 0.0, 2.0] + rng.standard_normal(n), np.linspace(-1, 1, classes + 1)[1:-1])
    return X, y.astype(np.float64)


def parquet(path, X, y, **options):
    columns = {f"f{j}": X[:, j] for j in range(X.shape[1])} | {"label": y}
    pq.write_table(pa.table(columns), path, **options)
    return path


def npy(path, X):
    np.save(path, X)
    return path


def svmlight(path, X, y, **options):
    dump_svmlight_file(X, y, str(path), **options)
    return path


SOURCES = {
    "array": lambda at, X, y: as_chunks(X, y),
    "csr": lambda at, X, y: as_chunks(sp.csr_matrix(X), y),
    "memmap": lambda at, X, y: as_chunks(np.load(npy(at / "X.npy", X), mmap_mode="r"), y),
    "npy": lambda at, X, y: open_chunks(npy(at / "X.npy", X), labels=npy(at / "y.npy", y)),
    "fortran": lambda at, X, y: open_chunks(npy(at / "X.npy", np.asfortranarray(X)), labels=y),
    "big endian": lambda at, X, y: open_chunks(npy(at / "X.npy", X.astype(">f8")), labels=y),
    "column": lambda at, X, y: open_chunks(npy(at / "X.npy", np.insert(X, 2, y, axis=1)), label=2),
    "parquet": lambda at, X, y: open_chunks(parquet(at / "X.parquet", X, y, row_group_size=70)),
    "svmlight": lambda at, X, y: open_chunks(svmlight(at / "X.svm", X, y, zero_based=False)),
    "from 0": lambda at, X, y: open_chunks(svmlight(at / "X.svm", X, y, zero_based=True)),
    "spooled": lambda at, X, y: open_chunks(parquet(at / "X.parquet", X, y)).spooled(),
}
every_source = pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
every_loss = pytest.mark.parametrize("loss", ["squared_hinge", "huber", "hinge"])


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(module, "PIECE_BYTES", 4000)
    monkeypatch.setattr("primalsvm.chunk_files.PIECE_BYTES", 4000)


def assert_same(ours, theirs, tol=1e-3):
    """Both are within tol of one optimum."""
    for mine, other in zip(parts(ours), parts(theirs), strict=True):
        assert max(mine.relative_gap, other.relative_gap) <= tol
        assert mine.dual <= other.primal and other.dual <= mine.primal


def parts(model):
    return model.certificate_.parts or (model.certificate_,)


@every_loss
@every_source
def test_the_model_is_that_of_the_rows_in_memory(source, loss, tmp_path, small_pieces):
    X, y = samples()
    chunks = source(tmp_path, X, y)
    chunks.memory_limit = 0
    assert chunks.shape == X.shape and len(chunks.bounds) > 4
    np.testing.assert_array_equal(chunks.y, y)
    ours, theirs = LinearSVC(loss).fit(chunks), LinearSVC(loss).fit(X, y)
    assert ours.solver_.name == "newton" and chunks.passes > 3
    assert_same(ours, theirs, 1e-8)  # so small a problem is solved as far as it goes
    judged = certificate(LinearProblem(np.sign(y - 0.5), np.ones(len(y)), loss, X=X), ours.coef_[0], ours.intercept_[0])
    assert judged.primal == pytest.approx(ours.certificate_.primal, rel=1e-12)
    np.testing.assert_allclose(ours.decision_function(chunks), theirs.decision_function(X), rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(ours.predict(chunks), theirs.predict(X))
    assert ours.n_features_in_ == 5


@pytest.mark.parametrize("name", ["array", "csr", "npy", "parquet"])
def test_float32_stays_float32(name, tmp_path, small_pieces):
    X, y = samples(dtype=np.float32)
    chunks = SOURCES[name](tmp_path, X, y)
    assert chunks.dtype == np.float32 == chunks.load().dtype
    assert next(iter(chunks.pieces()))[1].dtype == np.float32
    assert_same(LinearSVC().fit(chunks), LinearSVC().fit(X, y), 1e-8)


def test_integers_become_float64(tmp_path, small_pieces):
    X, y = samples()
    X = (4 * X).astype(np.int8)
    chunks = open_chunks(npy(tmp_path / "X.npy", X), labels=y)
    assert chunks.dtype == np.float64 == Chunked(chunks).take(np.arange(5)).dtype
    assert_same(LinearSVC().fit(chunks), LinearSVC().fit(X, y), 1e-8)


@pytest.mark.parametrize("options", [{}, {"multi_class": "ovo"}, {"n_jobs": 2}, {"class_weight": "balanced"}], ids=str)
def test_three_classes_weights_and_threads(options, small_pieces):
    X, y = samples(classes=3)
    words, weight = np.array(["a", "b", "c"])[y.astype(int)], np.random.default_rng(0).uniform(0, 2, len(y))
    chunks = as_chunks(X, words, memory_limit=0)
    ours = LinearSVC(**options).fit(chunks, sample_weight=weight)
    theirs = LinearSVC(**options).fit(X, words, sample_weight=weight)
    assert len(parts(ours)) == 3
    assert_same(ours, theirs, 1e-8)
    np.testing.assert_array_equal(ours.predict(chunks), theirs.predict(X))


def test_a_large_problem_starts_from_a_sample(tmp_path, small_pieces):
    X, y = samples(20_000)
    for loss in ("squared_hinge", "hinge"):
        chunks = open_chunks(npy(tmp_path / "X.npy", X), labels=y, memory_limit=0)
        ours, theirs = LinearSVC(loss).fit(chunks), LinearSVC(loss).fit(X, y)
        assert_same(ours, theirs)
        assert ours.n_iter_ == theirs.n_iter_
        assert ours.certificate_.primal == pytest.approx(theirs.certificate_.primal, rel=1e-9)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("name", MAKERS)
def test_the_certificate_holds_in_rational_arithmetic(name, loss):
    for intercept, storage in zip(INTERCEPTS, ("dense", "csr", "dense"), strict=True):
        dtype = np.float32 if storage == "csr" else np.float64
        whole = make(name, loss, intercept, storage, dtype)
        X = whole.X.csr if storage == "csr" else whole.X.values
        problem = replace(whole, X=Chunked(Given(X, [0, 1, 1, 5, len(whole.y)], memory_limit=0)))
        result = solve(problem, Newton(), tol=1e-7)
        h = loss.h if loss.name == "huber" else None
        best = optimum(whole.X.toarray(), whole.y, whole.cost, loss.name, intercept, h=h)
        assert best.exact and result.certificate.relative_gap <= 1e-7
        assert result.certificate.dual <= best.value_low and best.value_high <= result.certificate.primal


def test_y_given_beats_the_labels_and_none_at_all_is_an_error():
    X, y = samples()
    assert_same(LinearSVC().fit(as_chunks(X, X[:, 0] > 0), y), LinearSVC().fit(X, y), 1e-8)
    with pytest.raises(ValueError, match="requires y to be passed, but X has no labels"):
        LinearSVC().fit(as_chunks(X))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        LinearSVC().fit(as_chunks(X), y[1:])
    with pytest.raises(ValueError, match="NaN"):
        LinearSVC().fit(as_chunks(X, np.where(y > 0, np.nan, y)))
    with pytest.raises(ValueError, match="only one class"):
        LinearSVC().fit(as_chunks(X, np.ones(len(X))))
    with pytest.raises(ValueError, match="X has 4 features, but LinearSVC is expecting 5"):
        LinearSVC().fit(X, y).predict(as_chunks(X[:, :4]))


def test_a_path_of_models_and_a_warm_start(small_pieces):
    X, y = samples()
    chunks = as_chunks(X, y, memory_limit=0)
    for ours, theirs in zip(linear_path(chunks, None, C=[0.1, 1.0]), linear_path(X, y, C=[0.1, 1.0]), strict=True):
        assert_same(ours, theirs, 1e-8)
    model = LinearSVC(warm_start=True).fit(chunks)
    assert model.fit(chunks).n_iter_ <= 1


def test_solvers_that_loop_over_rows_are_refused():
    X, y = samples()
    problem = LinearProblem(2 * y - 1, np.ones(len(y)), "huber", "none", X=Chunked(as_chunks(X, memory_limit=0)))
    with pytest.raises(ValueError, match=r"^X comes in pieces where rows in memory are needed; see chunks.load\(\)\.$"):
        _ = problem.rows
    assert choose_solver(problem).name == "newton" and "in pieces" in explain_choice(problem)
    accepted = {name for name, kind in Solver.registry.items() if kind.needs <= problem.offers}
    assert {"newton", "cutting_plane", "projected_gradient", "gradient_descent", "subgradient"} <= accepted
    for name in ("dual_coordinate_ascent", "pegasos", "hyperpass"):
        with pytest.raises(ValueError, match=rf"^{name} needs all rows in memory; .*come in pieces\. .*: .*newton"):
            solve(problem, Solver.registry[name]())
    for name in accepted & {"cutting_plane", "projected_gradient", "gradient_descent", "subgradient"}:
        assert solve(problem, Solver.registry[name](), tol=0.1).certificate.relative_gap <= 0.1


def test_names_of_columns_are_remembered(tmp_path):
    X, y = load_iris(return_X_y=True)
    chunks = open_chunks(parquet(tmp_path / "a.parquet", X, y))
    model = LinearSVC().fit(chunks)
    assert list(model.feature_names_in_) == ["f0", "f1", "f2", "f3"]
    model.predict(chunks)
    swapped = pa.table({f"f{j}": X[:, j] for j in (1, 0, 2, 3)} | {"label": y})
    pq.write_table(swapped, tmp_path / "b.parquet")
    with pytest.raises(ValueError, match="The feature names should match those that were passed during fit"):
        model.predict(open_chunks(tmp_path / "b.parquet"))


# --- how much memory, how much reading --------------------------------------------------------------------------------


def test_memory_is_that_of_a_few_pieces_and_of_vectors(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PIECE_BYTES", 2**20)
    rng = np.random.default_rng(0)
    n, d = 20_000, 250
    X = rng.standard_normal((n, d))
    y = np.where(X[:, 0] + rng.standard_normal(n) > 0, 1.0, -1.0)
    chunks = open_chunks(npy(tmp_path / "X.npy", X), labels=y, memory_limit=0)
    size = X.nbytes
    LinearSVC().fit(X[:500], y[:500])  # what is compiled is not counted
    del X
    tracemalloc.start()
    LinearSVC().fit(chunks)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    vectors, squares = 50 * 8 * n, 12 * 8 * d * d  # what Newton's method and the judge have of each at a time, at most
    assert peak <= vectors + squares + 4 * 2**20 < 0.6 * size


def test_few_passes_are_made(tmp_path):
    """One to check, two for a sample, two to begin; three a step, where its matrix is made anew; three to judge."""
    X, y = samples(20_000)
    chunks = open_chunks(npy(tmp_path / "X.npy", X), labels=y, memory_limit=0)
    model = LinearSVC().fit(chunks)
    assert chunks.passes <= 8 + 3 * model.n_iter_


def test_ctrl_c_keeps_the_best_model(small_pieces):
    X, y = samples(20_000)
    chunks = as_chunks(X, y, memory_limit=0)

    def watch(chunks):
        if chunks.passes > 8:  # amid a pass
            chunks.watch = None
            raise KeyboardInterrupt

    chunks.watch = watch
    model = LinearSVC(tol=1e-12)
    with pytest.raises(KeyboardInterrupt):
        model.fit(chunks)
    assert model.status_ == "interrupted"
    assert 0 < model.certificate_.dual <= model.certificate_.primal < np.inf
    assert model.predict(chunks).shape == y.shape


def test_verbose_shows_the_passes_on_a_terminal(monkeypatch, capsys, small_pieces):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    X, y = samples()
    monkeypatch.setattr(sys, "stderr", Terminal())
    LinearSVC(verbose=1).fit(as_chunks(X, y, memory_limit=0))
    assert re.search(r"pass 2 \[#+ +\]\r", sys.stderr.getvalue())
    monkeypatch.setattr(sys, "stderr", Terminal())
    LinearSVC().fit(as_chunks(X, y, memory_limit=0))
    assert sys.stderr.getvalue() == ""


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["npy", "parquet"])
def test_a_file_that_changes_is_an_error(name, tmp_path, small_pieces):
    X, y = samples()
    chunks = SOURCES[name](tmp_path, X, y)
    chunks.memory_limit = 0
    path = tmp_path / f"X.{name}"

    def watch(chunks):
        if chunks.passes > 2:
            os.truncate(path, path.stat().st_size - 1000) if name == "npy" else os.utime(path, (1, 1))

    chunks.watch = watch
    with pytest.raises(ValueError, match=rf"X\.{name}: the file was changed while it was in use; begin again\.$"):
        LinearSVC().fit(chunks)


def test_compressed_svmlight_is_read_in_pieces_too(tmp_path, small_pieces):
    import gzip

    X, y = samples()
    plain = svmlight(tmp_path / "a.svm", X, y, zero_based=False)
    (tmp_path / "a.svm.gz").write_bytes(gzip.compress(plain.read_bytes()))
    np.testing.assert_array_equal(open_chunks(tmp_path / "a.svm.gz").load().toarray(), read_data(plain).X.toarray())


def test_svmlight_indices_count_from_0_wherever_the_0_occurs(tmp_path, small_pieces):
    text = "1 1:2 3:4\n" * 1000 + "# a comment\n-1 0:5\n\n" + "1 2:7\n" * 1000 + "-1"
    (tmp_path / "a.svm").write_text(text)
    chunks, whole = open_chunks(tmp_path / "a.svm"), read_data(tmp_path / "a.svm")
    assert len(chunks.bounds) > 3
    np.testing.assert_array_equal(chunks.load().toarray(), whole.X.toarray())
    np.testing.assert_array_equal(chunks.y, whole.y)


def test_without_labels_there_is_no_y(tmp_path):
    X, _ = samples()
    assert open_chunks(npy(tmp_path / "X.npy", X)).y is None
    pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1]}), tmp_path / "a.parquet")
    assert open_chunks(tmp_path / "a.parquet").y is None


def test_labels_of_parquet_may_be_words_or_categories(tmp_path):
    X, _ = samples(6)
    words = np.array(["no", "yes", "no", "yes", "no", "yes"])
    for column in (pa.array(words), pa.array(words).dictionary_encode()):
        pq.write_table(pa.table({"a": X[:, 0], "class": column}), tmp_path / "a.parquet")
        np.testing.assert_array_equal(open_chunks(tmp_path / "a.parquet").y, words)


def write_table(path, **columns):
    pq.write_table(pa.table(columns), path)


ARRAY, ONES = np.eye(3), np.ones(3)
BAD_FILES = {
    "none.npy": (lambda path: None, {}, "there is no such file"),
    "line.npy": (lambda path: np.save(path, ONES), {}, r"two dimensions, found shape \(3,\)"),
    "words.npy": (lambda path: np.save(path, [["a"]]), {}, "numeric array of two dimensions"),
    "pickle.npy": (lambda path: np.save(path, np.array([[{}]])), {}, "expected an .npy array of numbers"),
    "short.npy": (lambda path: (np.save(path, ARRAY), os.truncate(path, 150)), {}, "expected an .npy array of numbers"),
    "text.npy": (lambda path: path.write_text("hello"), {}, "expected an .npy array of numbers"),
    "column.npy": (lambda path: np.save(path, ARRAY), {"label": 7}, "expected one label column 7, found 0 among 3"),
    "few.npy": (lambda path: np.save(path, ARRAY), {"labels": np.ones(2)}, "expected 3 labels, one a row, found 2"),
    "odd.npy": (lambda path: np.save(path, ARRAY), {"labels": np.array([1j] * 3)}, "numbers or words, found complex"),
    "lost.npy": (lambda path: np.save(path, ARRAY), {"labels": "nowhere.npy"}, "nowhere.npy: there is no such file"),
    "packed.npy.gz": (lambda path: path.write_bytes(b"no"), {"format": "npy"}, "breaks off or is not compressed"),
    "text.parquet": (lambda path: path.write_text("hello"), {}, "expected a Parquet file"),
    "words.parquet": (lambda path: write_table(path, a=["x"], label=[1]), {}, "column 'a' holds string, not numbers"),
    "index.parquet": (lambda path: write_table(path, __index_level_0__=[1], y=[1]), {}, "row index written by pandas"),
    "label.parquet": (lambda path: write_table(path, a=[1.0], y=[None]), {}, "1 labels are missing"),
    "name.parquet": (lambda path: write_table(path, a=[1.0]), {"label": "q"}, "expected one label column 'q'"),
    "comma.csv": (lambda path: path.write_text("y,a\n1,2\n"), {}, "csv files are not read in pieces; convert it to"),
    "bad.svm": (
        lambda path: path.write_text("1 1:2\n" * 5000 + "oops\n"),
        {},
        "line 5001: expected 'label index:value",
    ),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_what_is_wrong_with_a_file_is_one_sentence(name, tmp_path, small_pieces):
    make, options, words = BAD_FILES[name]
    make(tmp_path / name)
    with pytest.raises(ValueError, match=words) as caught:
        open_chunks(tmp_path / name, **options)
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")
    if "labels" not in options:
        assert isinstance(caught.value, DataError) and str(caught.value).startswith(str(tmp_path / name))


def test_empty_cells_are_an_error(tmp_path):
    write_table(tmp_path / "a.parquet", a=[1.0, None, 2.0], y=[1, 2, 1])
    with pytest.raises(ValueError, match=r"a\.parquet: column 'a' has empty cells; impute or drop them first\.$"):
        LinearSVC().fit(open_chunks(tmp_path / "a.parquet"))


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    write_table(tmp_path / "a.parquet", a=[1.0], y=[1])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'Parquet files need pyarrow: pip install "primalsvm\[parquet\]"'):
        open_chunks(tmp_path / "a.parquet")
    assert "primalsvm[parquet]" in refusal("train", tmp_path / "a.parquet")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_a_sentence(tmp_path, monkeypatch):
    path = svmlight(tmp_path / "a.svm", *samples())
    full = open("/dev/full", "wb", buffering=0)  # noqa: SIM115
    monkeypatch.setattr(module.tempfile, "TemporaryFile", lambda **_: full)
    with pytest.raises(ValueError, match=r"^no room for a temporary copy \(.*\); let TMPDIR name a larger disk\.$"):
        open_chunks(path)


# --- the command line -------------------------------------------------------------------------------------------------


def files(at, X, y):
    """Every kind of file that is read in pieces, with the options it takes."""
    npy(at / "y.npy", y)
    yield npy(at / "X.npy", X), ["--labels", at / "y.npy"], ["--test-labels", at / "y.npy"]
    yield npy(at / "Xy.npy", np.column_stack([X, y])), ["--label", "-1"], []
    yield parquet(at / "X.parquet", X, y, row_group_size=70), [], []
    yield parquet(at / "X.pq", X, y), ["--label", "label"], []
    yield svmlight(at / "X.svm", X, y, zero_based=False), [], []


def test_every_kind_of_file_from_the_shell(tmp_path, small_pieces):
    X, y = samples()
    theirs = LinearSVC("hinge").fit(X, y)
    for path, options, of_test in files(tmp_path, X, y):
        options = ["--loss", "hinge", *options]
        model = tmp_path / "m.psvm"
        rows = table(done("train", path, *options, *of_test, "--test", path, "-o", model, "--memory-limit", "1K"))
        assert re.fullmatch(r"in \d+ pieces, .* 0\.000977 MiB \(--memory-limit\) not kept in memory", rows["reading"])
        assert float(rows["passes"]) > 3 and rows["solver"] == "newton"
        assert rows["train error"] == rows["test error"] == f"{np.mean(theirs.predict(X) != y):.2%}"
        assert_same(load(model), theirs, 1e-8)
        whole = table(done("train", path, *options, *of_test, "--test", path))  # by default it is not large
        assert "reading" not in whole and whole["train error"] == rows["train error"]
        assert float(whole["primal"]) == pytest.approx(float(rows["primal"]), rel=1e-8)
        told = [option for option in options if option not in ("--loss", "hinge")]
        found = done("predict", model, path, *told, "--memory-limit", "1K", "--scores", "-o", tmp_path / "found.txt")
        assert found.stderr.startswith(f"error rate {rows['train error']}")
        judged = table(done("certify", model, path, *told))
        assert float(judged["primal"]) == pytest.approx(float(rows["primal"]), rel=1e-8)
        labels, scores = np.loadtxt(tmp_path / "found.txt").T
        np.testing.assert_array_equal(labels, theirs.predict(X))
        np.testing.assert_allclose(scores, theirs.decision_function(X), rtol=1e-3, atol=1e-3)


def test_a_report_in_json_and_a_kernel_with_rows_in_memory(tmp_path):
    X, y = samples(100)
    path = parquet(tmp_path / "X.parquet", X, y)
    report = json.loads(done("train", path, "--json", "--memory-limit", "0").stdout)
    assert report["passes"] > 3 and report["reading"].startswith("in 1 pieces")
    kernel = ["--json", "--kernel", "rbf", "--memory-limit", "1M", "-o", tmp_path / "m.psvm"]
    report = json.loads(done("train", path, *kernel).stdout)
    assert "passes" not in report and report["kernel"].startswith("rbf")
    assert "--memory-limit goes with a linear" in refusal("predict", tmp_path / "m.psvm", path, "--memory-limit", "1M")


def test_columns_of_a_file_are_brought_into_the_models_order(tmp_path, small_pieces):
    X, y = samples()
    train, model = parquet(tmp_path / "a.parquet", X, y), tmp_path / "m.psvm"
    done("train", train, "-o", model, "--memory-limit", "0", "--quiet")
    pq.write_table(pa.table({"label": y} | {f"f{j}": X[:, j] for j in reversed(range(5))}), tmp_path / "b.parquet")
    results = [done("predict", model, tmp_path / f"{name}.parquet", "--memory-limit", "0") for name in "ab"]
    assert results[0].output == results[1].output
    wide = svmlight(tmp_path / "w.svm", np.column_stack([X, np.ones(len(X))]), y, zero_based=False)
    result = done("predict", model, wide, "--memory-limit", "0")
    assert "has 6 features, the model 5; the others count for nothing" in result.stderr
    assert result.stdout == results[0].stdout
    for other in (X[:, :4], np.column_stack([X, y])):
        path = npy(tmp_path / "X.npy", other)
        assert "expected 5 features" in refusal("predict", model, path, "--memory-limit", "0")


def test_errors_from_the_shell(tmp_path):
    X, y = samples(50)
    path = npy(tmp_path / "X.npy", X)
    assert "expected labels: in a .npy file (--labels), or in a column (--label" in refusal("train", path)
    bad = npy(tmp_path / "bad.npy", np.where(X > 2, np.nan, X))
    labels = ["--labels", npy(tmp_path / "y.npy", y)]
    for limit in ("0", "1G"):
        assert "is NaN or infinite; impute or drop it first" in refusal("train", bad, *labels, "--memory-limit", limit)
    text = svmlight(tmp_path / "a.svm", X, y)
    assert "leave --labels out" in refusal("train", text, *labels)
    few = npy(tmp_path / "few.npy", y[1:])
    assert "expected 50 labels, one a row, found 49" in refusal("train", path, "--labels", few)
    message = refusal("train", path, *labels, "--memory-limit", "0", "--solver", "dual_coordinate_ascent")
    assert "dual_coordinate_ascent needs all rows in memory" in message and "newton" in message


def test_the_live_line_shows_the_pass_and_the_gap(monkeypatch, small_pieces):
    """What a terminal sees; that there is one, test_cli sees to."""
    X, y = samples()
    terminal, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        progress = Progress()
        lines = []
        training = progress.follow(read_data_of(as_chunks(X, y, memory_limit=0)))
        LinearSVC(callback=lambda record: (progress.record(record), lines.append(progress.__rich__().plain))[0]).fit(
            training.X
        )
    os.close(terminal)
    assert re.search(r"^pass \d+ ━*─+  step \d+  primal \S+  dual \S+  relative gap \S+  [\d.]+ s$", lines[-1])


def read_data_of(chunks):
    from primalsvm.readers import Data

    return Data(chunks, chunks.y, None)
