"""Reading data files: what each format means, and one clear sentence for whatever is wrong with a file."""

import bz2
import gzip
import io
import lzma
import os
import pickle
import re
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st

from primalsvm import readers
from primalsvm.readers import DataError, read_data

COMPRESS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
SVMLIGHT = b"+1 1:0.5 3:2\n-1\n# a comment\n+1 2:1e-3 # and another\n"
SVMLIGHT_X = [[0.5, 0, 2], [0, 0, 0], [0, 1e-3, 0]]


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def npz(**arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def refusal(path, **options):
    """The sentence of the DataError."""
    with pytest.raises(DataError) as caught:
        read_data(path, **options)
    sentence = str(caught.value)
    assert sentence.startswith(f"{path}: ") and sentence.endswith(".") and "\n" not in sentence
    return sentence.removeprefix(f"{path}: ")


# --- formats and suffixes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", COMPRESS)
@pytest.mark.parametrize("name", ["a.svm", "a.libsvm", "a.svmlight", "a.txt", "a.t", "a.dat", "a", "a.scale"])
def test_svmlight_by_any_name(write, name, packed):
    data = read_data(write(name + packed, COMPRESS[packed](SVMLIGHT)))
    assert data.X.toarray().tolist() == SVMLIGHT_X and data.y.tolist() == [1, -1, 1]
    assert data.X.format == "csr" and data.X.dtype == np.float64 and data.X.indices.dtype == np.int32
    assert data.feature_names is None


@pytest.mark.parametrize("packed", COMPRESS)
@pytest.mark.parametrize(
    "name, content",
    [
        ("a.csv", "u,label,v\n1,7,2\n3,8,4.5\n"),
        ("a.CSV", "u;label;v\r\n1;7;2\r\n3;8;4.5\r\n"),
        ("a.tsv", "u\tlabel\tv\n1\t7\t2\n3\t8\t4.5"),
        ("a.data", 'u,"Label",v\n\n1,7,"2"\n3, 8 ,4.5\n\n'),
        ("a", "\ufeffu,LABEL,v\n1,7,2\n3,8,4.5\n"),
    ],
)
def test_tables(write, name, content, packed):
    data = read_data(write(name + packed, COMPRESS[packed](content.encode())))
    assert data.X.tolist() == [[1, 2], [3, 4.5]] and data.y.tolist() == [7, 8]
    assert data.X.dtype == data.y.dtype == np.float64 and data.X.flags.c_contiguous
    assert data.feature_names == ("u", "v")


@pytest.mark.parametrize("packed", COMPRESS)
@pytest.mark.parametrize("name", ["a.npz", "a.unknown"])
def test_npz_dense(write, name, packed):
    content = npz(X=np.array([[1, 2], [3, 4]], dtype=np.int8), y=np.array(["a", "b"]))
    data = read_data(write(name + packed, COMPRESS[packed](content)))
    assert data.X.tolist() == [[1, 2], [3, 4]] and data.X.dtype == np.float64 and data.y.tolist() == ["a", "b"]


@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
@pytest.mark.parametrize("container", ["matrix", "array"])
def test_npz_sparse_as_scipy_writes_it_plus_y(write, tmp_path, layout, container):
    X = sp.random(5, 4, 0.5, rng=0, dtype=np.float32)
    sp.save_npz(tmp_path / "x.npz", getattr(sp, f"{layout}_{container}")(X))
    pieces = dict(np.load(tmp_path / "x.npz"))
    data = read_data(write("a.npz", npz(y=np.arange(5), **pieces)))
    assert data.X.format == "csr" and data.X.dtype == data.y.dtype == np.float64
    assert data.y.tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(data.X.toarray(), X.toarray())


def test_format_overrules_the_suffix(write):
    assert read_data(write("a.svm", "y,u\n1,2\n"), format="csv").X.tolist() == [[2]]
    assert read_data(write("a.csv", SVMLIGHT), format="svmlight").X.toarray().tolist() == SVMLIGHT_X
    with pytest.raises(DataError, match="svmlight, csv, tsv, npz, npy, parquet, not 'arff'"):
        read_data("a.arff", format="arff")


def test_sniffing_svmlight_lines_without_features_or_with_tabs(write):
    assert read_data(write("a", "-1\n" * 50 + "1 4:1\n")).X.shape == (51, 4)
    assert read_data(write("b", "# a, b\n1\t3:1\t4:1\n")).X.shape == (1, 4)


def test_svmlight_counts_from_0_only_if_index_0_occurs(write):
    assert read_data(write("a", "1 0:5 1:6\n2 1:7\n")).X.toarray().tolist() == [[5, 6], [0, 7]]


# --- CSV: header and label column -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content, label, names, y",
    [
        ("1,2,3\n4,5,6\n", -1, None, [3, 6]),
        ("1,2,3\n4,5,6\n", "0", None, [1, 4]),  # a position, as the command line gives it
        ("1,2,3\n4,5,6\n", "-2", None, [2, 5]),
        ("a,b,c\n4,5,6\n", "b", ("a", "c"), [5]),
        ("a,b,c\n4,5,6\n", 1, ("a", "c"), [5]),
        ("a,2,c\n4,5,6\n", "c", ("a", "2"), [6]),  # the label's name makes it a header
        ("0,1,target\n4,5,6\n", None, ("0", "1"), [6]),  # pandas' own column names
        ("4,0,y\n3,1,n\n", -1, None, ["y", "n"]),  # a label, not a header
        ("x,Class,z\n4,5,6\n", None, ("x", "z"), [5]),
        ("5.1,setosa\n4.2,virginica\n", -1, None, ["setosa", "virginica"]),
        ("f,label\n5.1,1\n4.2,b\n", None, ("f",), ["1", "b"]),
        ("f,label\n5.1, a\n4.2,a \n", None, ("f",), ["a", "a"]),  # blanks around a class are no part of it
        ("label,target,u\n1,2,3\n", "target", ("label", "u"), [2]),
    ],
)
def test_header_and_label_column(write, content, label, names, y):
    data = read_data(write("a.csv", content), label=label)
    assert data.y.tolist() == y and data.feature_names == names
    assert data.X.shape == (len(y), content.split("\n")[0].count(","))


def test_a_first_line_with_numbers_is_a_sample(write):
    sentence = refusal(write("a.csv", "1,0,c\n4,5,6\n"), label="0")
    assert "line 1, column at position 2: expected a finite number, found 'c'" in sentence


@pytest.mark.parametrize(
    "content, label, words",
    [
        ("a,b,c\n1,2,3\n", None, "called label or target or class or y, found 0 among 3 columns (a, b, c)"),
        ("a,b,c\n1,2,3\n", "d", "label column 'd', found 0 among 3 columns (a, b, c)"),
        ("1,2,3\n4,5,6\n", None, "found 0 among 3 columns (no header)"),
        ("1,2,3\n4,5,6\n", 3, "label column 3, found 0"),
        ("1,2,3\n4,5,6\n", -4, "label column -4, found 0"),
        ("label,y,u\n1,2,3\n", None, "found 2 among 3 columns (label, y, u)"),
        ("b,b,u\n1,2,3\n", "b", "found 2 among 3"),
    ],
)
def test_label_column_missing_or_ambiguous(write, content, label, words):
    sentence = refusal(write("a.csv", content), label=label)
    assert words in sentence and "--label" in sentence


@pytest.mark.parametrize(
    "content, label, n_features, d, has_labels",
    [
        ("a,b\n1,2\n", None, 2, 2, False),
        ("a,b,label\n1,2,3\n", None, 2, 2, True),
        ("a,y\n1,2\n", None, 2, 2, False),  # the model knows two features: y is one of them
        ("a,b\n1,2\n", "species", 2, 2, False),
        ("a,b,species\n1,2,x\n", "species", 2, 2, True),
        ("1,2\n", -1, 2, 2, False),
        ("1,2,3\n", -1, 2, 2, True),
        ("1,2\n", None, None, 2, False),
    ],
)
def test_prediction_data_may_have_no_label(write, content, label, n_features, d, has_labels):
    data = read_data(write("a.csv", content), label=label, n_features=n_features, label_required=False)
    assert data.X.shape == (1, d) and (data.y is not None) == has_labels


def test_npz_without_labels_is_for_prediction_alone(write):
    path = write("a.npz", npz(X=np.eye(2)))
    assert read_data(path, label_required=False).y is None
    assert "expected an array y" in refusal(path)


def test_n_features(write):
    assert read_data(write("a.svm", SVMLIGHT), n_features=7).X.shape == (3, 7)
    assert "expected 2 features, as many as the model has, found 3" in refusal(write("a.svm", SVMLIGHT), n_features=2)
    assert "expected 3 features, as many as the model has, found 1" in refusal(
        write("a.csv", "u,y\n1,2\n"), n_features=3
    )
    assert "expected 3 features" in refusal(write("a.npz", npz(X=np.eye(2), y=[1, 2])), n_features=3)


# --- CSV: the fast way and the careful way agree ----------------------------------------------------------

CELLS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(10**20), 10**20).map(str),
    st.text("0123456789.eE+-", max_size=6),
    st.sampled_from(["2020-01-02", "1.2.3", "1.5e", "-", ".5", "5.", "1e999", "1e5.5", "1e1e1", "+1", "", "0x1"]),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(CELLS, min_size=1, max_size=3), min_size=1, max_size=4))
@example([["2020-01-02", "1"]])
@example([["1", "2", "3"], ["4"], ["5", "6"]])
@example([["1.5", "-2e-3"], ["1E+5", "007"]])
def test_plain_parser_accepts_only_numbers_and_reads_them_exactly(rows):
    lines = "".join(",".join(row) + "\n" for row in rows).encode()
    numbers = readers._plain_numbers(lines, ",", len(rows[0]))
    if numbers is not None:
        assert numbers.tolist() == [[float(cell) for cell in row] for row in rows]
    elif len({len(row) for row in rows}) == 1:
        plain = [[re.fullmatch(r"-?\d+(\.\d+)?([eE][+-]?\d+)?", cell) for cell in row] for row in rows]
        assert not all(map(all, plain)) or any(np.isinf(float(cell)) for row in rows for cell in row)


def test_tables_of_many_pieces(write, monkeypatch):
    monkeypatch.setattr(readers, "_PIECE_BYTES", 50_000)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(9000, 3)), rng.integers(0, 3, 9000)
    lines = [",".join([repr(float(v)) for v in row] + [str(k)]) for row, k in zip(X, y, strict=True)]
    fast = read_data(write("a.csv", "\n".join(lines)), label=-1)
    slow = read_data(write("b.csv", "\n".join([*lines[:-1], lines[-1] + " "])), label=-1)  # a blank is not plain
    for data in (fast, slow):
        np.testing.assert_array_equal(data.X, X)
        np.testing.assert_array_equal(data.y, y)


def test_the_fast_way_is_taken(write, monkeypatch):
    monkeypatch.setattr(readers._Table, "parse_cells", None)
    for end in ("\n", "\r\n", "\r"):
        assert read_data(write("a.csv", f"u;y{end}-1.5e-3;2{end}{end}")).X.tolist() == [[-1.5e-3]]


# --- what is wrong with a file ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content, words",
    [
        ("u,v,y\n1,2,3\n\n1,x,3\n", "line 4, column 'v': expected a finite number, found 'x'"),
        ("u,v,y\n1,,3\n", "line 2, column 'v': expected a finite number, found ''"),
        ("u,v,y\n1,nan,3\n", "line 2, column 'v': expected a finite number, found 'nan'"),
        ("u,v,y\n1,1e999,3\n", "line 2, column 'v': expected a finite number, found '1e999'"),
        ("y,u,v\n1,2,2020-01-02\n", "line 2, column 'v': expected a finite number, found '2020-01-02'"),
        ("u,v,y\n" + "1,2,3\n" * 5000 + "1,-inf,3\n", "line 5002, column 'v'"),
        ("u,v,y\n1,2,3\n1,2\n", "line 3 has 2 cells where the first has 3"),
        ("u,v,y\n1,2,3\n1,2,3,4\n1,2\n", "line 3 has 4 cells where the first has 3"),
        ("u,v,y\n1,2,\n1,2,3\n", "line 2, column 'y': expected a label, found ''"),
        ("u,v,y\n1,2,nan\n", "line 2, column 'y': expected a label, found 'nan'"),
        ("u,v,y\n", "expected samples below the header"),
        ("\n\n", "only blank ones"),
        (",u,y\n0,1,2\n", "column 1 of the header has no name, like a row index"),
        ("y\n1\n2\n", "2 samples with 0 features"),
        ('u,y\n1,"2\n', "line 2 is not valid CSV"),
        ('u,"y\n1,2\n', "first line cannot be read"),
        (b"u,y\n1,\xff\n", "not UTF-8"),
        ("u,y\n1,2\n".encode("utf-16"), "found binary data"),
        ("u,y\n" + "a" * 200_000 + ",1\n", "line 2 is not valid CSV (field larger than field limit"),
    ],
)
def test_bad_csv(write, content, words):
    assert words in refusal(write("a.csv", content))


@pytest.mark.parametrize(
    "content, words",
    [
        ("+1 1:2\n+1 x:2\n", "line 2: expected 'label index:value"),
        ("+1 1:2\n" * 5000 + "+1 3:1 2:2\n", "line 5001"),
        ("spam 1:2\n", "found 'spam 1:2'"),
        ("+1 99999999999:3\n", "indices below 2^31, found '+1 99999999999:3'"),
        ("1.0 2.0 3.0\n", "line 1: expected 'label index:value"),
        ("<!DOCTYPE html>\n", "found '<!DOCTYPE html>'"),
        ("1,2 1:3\n", "numeric label"),
        ("+1 1:2\n-1 2:nan\n", "sample 2, feature 2 (from 1) is NaN or infinite"),
        ("+1 1:2\nnan 2:1\n", "sample 2 has a NaN or infinite label"),
        ("# nothing\n", "0 samples"),
        (b"\x7fELF\0\0\0", "found binary data"),
        (b"", "the file is empty"),
    ],
)
def test_bad_svmlight(write, content, words):
    assert words in refusal(write("a.svm", content))


class Hostile:
    """Unpickling this makes a folder."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("name", ["X", "y", "data", "format"])
def test_npz_is_never_unpickled(write, tmp_path, name):
    trap = tmp_path / "trap"
    hostile = np.array([Hostile(trap)], dtype=object)
    arrays = dict(np.load(io.BytesIO(npz(X=np.eye(2), y=[1, 2]))))
    if name in ("data", "format"):
        stream = io.BytesIO()
        sp.save_npz(stream, sp.csr_matrix(np.eye(2)))
        stream.seek(0)
        arrays = dict(np.load(stream), y=np.array([1, 2]))
    assert "no usable arrays" in refusal(write("a.npz", npz(**{**arrays, name: hostile})))
    assert "expected an .npz archive" in refusal(write("b.npz", pickle.dumps(Hostile(trap))))
    assert not trap.exists()


def broken_sparse(**changed):
    pieces = {"format": b"csr", "shape": [2, 2], "data": [1.0, 2.0], "indices": [0, 1], "indptr": [0, 1, 2]}
    return npz(**{**pieces, "y": [1, 2], **changed})


@pytest.mark.parametrize(
    "content, words",
    [
        (
            npz(A=np.eye(2), y=[1, 2]),
            "expected an array X, or a matrix written by scipy.sparse.save_npz, found A, y",
        ),
        (npz(), "found nothing"),
        (npz(X=[1.0, 2.0], y=[1, 2]), "two dimensions, found shape (2,)"),
        (npz(X=[["a"]], y=[1]), "expected a numeric array X"),
        (npz(X=[[1j]], y=[1]), "expected a numeric array X"),
        (npz(X=np.eye(2), y=[1, 2, 3]), "expected 2 labels, one a row of X, found shape (3,)"),
        (npz(X=[[1.0, np.inf]], y=[1]), "sample 1, feature 2 (from 1) is NaN or infinite"),
        (npz(X=np.eye(2), y=[1, np.nan]), "sample 2 has a NaN"),
        (npz(X=np.zeros((0, 2)), y=[]), "0 samples"),
        (npz(X=np.eye(2), y=[1, 2])[:-30], "broken file"),
        (b"garbage\0", "expected an .npz archive"),
        (broken_sparse(indices=[0, 10**6]), "no usable arrays"),
        (broken_sparse(indices=[0, -7]), "no usable arrays"),
        (broken_sparse(indptr=[0, 5, 2]), "no usable arrays"),
        (broken_sparse(indptr=[0, 1]), "no usable arrays"),
        (broken_sparse(shape=[2, 2, 2]), "no usable arrays"),
        (broken_sparse(format=b"bsr"), "must be csr, csc or coo"),
        (broken_sparse(data=["a", "b"]), "expected a numeric array X"),
    ],
)
def test_bad_npz(write, content, words):
    assert words in refusal(write("a.npz", content))


def test_npz_that_claims_to_be_huge(write):
    """A header that announces 8 TB is an error of the file, not of the memory."""
    header, stream = io.BytesIO(), io.BytesIO()
    facts = {"descr": "<f8", "fortran_order": False, "shape": (10**6, 10**6)}
    np.lib.format.write_array_header_1_0(header, facts)
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("X.npy", header.getvalue() + bytes(80))
    assert "no usable arrays" in refusal(write("a.npz", stream.getvalue()), label_required=False)


@pytest.mark.parametrize("packed", [".gz", ".bz2", ".xz"])
@pytest.mark.parametrize("name, content", [("a.svm", SVMLIGHT * 9999), ("a.csv", b"u,y\n" + b"1,2\n" * 40_000)])
def test_truncated_or_false_compression(write, name, content, packed):
    whole = COMPRESS[packed](content)
    for broken in (
        whole[: len(whole) // 2],
        whole[:-3],
        b"not compressed at all",
        whole[:20] + b"\0\1\2" + whole[23:],
    ):
        assert "breaks off or is not compressed as its name says" in refusal(write(name + packed, broken))
    assert "the file is empty" in refusal(write(name + packed, COMPRESS[packed](b"")))


def test_missing_file_and_folder(tmp_path):
    assert "no such file" in refusal(tmp_path / "absent.csv")
    assert "found a folder" in refusal(tmp_path)


def test_a_label_is_for_tables_alone(write):
    assert "leave --label out" in refusal(write("a.svm", SVMLIGHT), label="y")
    assert "leave --label out" in refusal(write("a.npz", npz(X=np.eye(2), y=[1, 2])), label=0)
