"""Saving and loading: the same model comes back, whole or not at all, and no file can do anything but be refused."""

import errno
import hashlib
import io
import json
import os
import pickle
import stat

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.svm import LinearSVC as SklearnLinearSVC

from primalsvm import SVC, Certificate, Huber, LinearSVC
from primalsvm.persistence import ModelError, load, save
from primalsvm.solvers import Pegasos

LABELS = {
    "float": np.array([-1.0, 0.0, 2.0]),
    "int": np.array([3, 5, 70000]),
    "int8": np.array([-3, 0, 7], dtype=np.int8),
    "text": np.array(["a", "bb", "µ"], dtype="<U9"),
    "object": np.array(["a", "bb", "µ"], dtype=object),
    "bool": np.array([False, True]),
}


def problem(labels=LABELS["int"], n=60, d=4):
    rng = np.random.default_rng(0)
    kinds = np.arange(n) % len(labels)
    return rng.normal(size=(n, d)) + kinds[:, None], labels[kinds]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The bytes of a small model file."""
    X, y = problem(LABELS["text"][:2], n=12, d=2)
    path = tmp_path_factory.mktemp("small") / "model.psvm"
    save(LinearSVC().fit(X, y), path)
    return path.read_bytes()


def forge(header, blob=b"", first=b"primalsvm model 1\n"):
    """A file whose checksum holds, whatever it says."""
    rest = (header if isinstance(header, bytes) else json.dumps(header).encode()) + b"\n" + blob
    return first + hashlib.sha256(first + rest).hexdigest().encode() + b"\n" + rest


def pieces(content):
    """Header and arrays of a good file, to make bad ones from."""
    line, blob = content.split(b"\n", 2)[2].split(b"\n", 1)
    return json.loads(line), blob


def refusal(content, tmp_path):
    path = tmp_path / "model.psvm"
    path.write_bytes(content)
    with pytest.raises(ModelError) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and message.endswith(".") and "\n" not in message
    return message


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_the_same_model_comes_back(labels, multi_class, tmp_path):
    X, y = problem(labels)
    model = LinearSVC("hinge", multi_class=multi_class).fit(X, y)
    save(model, tmp_path / "model.psvm")
    again = load(tmp_path / "model.psvm")
    for data in (X, sp.csr_array(X), X.astype(np.float32)):
        assert again.decision_function(data).tobytes() == model.decision_function(data).tobytes()
        np.testing.assert_array_equal(again.predict(data), model.predict(data))
    assert again.predict(X).dtype == model.predict(X).dtype == labels.dtype
    assert again.certificate_ == model.certificate_ and str(again.certificate_) == str(model.certificate_)
    assert again.certificate_.parts == model.certificate_.parts
    assert again.get_params() == model.get_params()
    assert vars(again).keys() == vars(model).keys()
    for name in ("history_", "status_", "n_iter_", "n_features_in_", "n_samples_fit_", "solver_", "dual_gap_"):
        assert getattr(again, name) == getattr(model, name)
        assert type(getattr(again, name)) is type(getattr(model, name))
    for name in ("coef_", "intercept_", "classes_", "support_", "dual_coef_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name), strict=True)
        assert getattr(again, name).flags.writeable and getattr(again, name).flags.aligned


def test_parameters_come_back(tmp_path):
    X, y = problem(LABELS["int"])
    model = LinearSVC(
        Huber(0.3),
        C=np.float32(0.25),
        solver=Pegasos(batch=10, seed=3),
        tol=0.5,
        max_iter=np.int64(77),
        fit_intercept="penalized",
        class_weight={3: 1.0, np.int64(5): 2.0, 70000: 1},
        random_state=5,
        callback=lambda record: None,
    ).fit(X, y)
    save(model, tmp_path / "model.psvm")
    again = load(tmp_path / "model.psvm")
    assert again.callback is None
    assert again.set_params(callback=model.callback).get_params() == model.get_params()
    assert again.solver_ == model.solver_ and again.solver_.batch == 10
    assert again.fit(X, y).solver_ == model.fit(X, y).solver_


def test_feature_names_come_back(tmp_path):
    pd = pytest.importorskip("pandas")
    X, y = problem()
    X = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    save(LinearSVC().fit(X, y), tmp_path / "model.psvm")
    again = load(tmp_path / "model.psvm")
    assert again.feature_names_in_.dtype == object and list(again.feature_names_in_) == list("abcd")
    again.predict(X)
    with pytest.raises(ValueError, match="feature names"):
        again.predict(X[["b", "a", "c", "d"]])


def test_a_loaded_model_starts_warm(tmp_path):
    """The first record of the next fit is the last fit's answer, primal and dual."""
    X, y = problem(LABELS["float"], n=2000, d=30)
    model = LinearSVC(C=0.01, tol=1e-6, warm_start=True).fit(X, y)
    save(model, tmp_path / "model.psvm")
    again = load(tmp_path / "model.psvm").fit(X, y)
    for before, after in zip(model.history_, again.history_, strict=True):
        assert before[0].gap > 0.1 * before[0].primal
        assert after[0].gap <= 1e-6 * after[0].primal


# --- with a kernel ----------------------------------------------------------------------------------------------------

STORAGE = {"dense": np.asarray, "float32": np.float32, "csr_matrix": sp.csr_matrix, "csr_array": sp.csr_array}


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "laplacian", "wendland"])
@pytest.mark.parametrize("make", STORAGE.values(), ids=STORAGE)
def test_the_same_svc_comes_back(make, kernel, tmp_path):
    X, y = problem(LABELS["text"])
    X = make(X)
    model = SVC(kernel, C=0.5, coef0=1.0, degree=2, loss=Huber(0.2)).fit(X, y)
    save(model, tmp_path / "model.psvm")
    again = load(tmp_path / "model.psvm")
    assert again.decision_function(X).tobytes() == model.decision_function(X).tobytes()
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.certificate_ == model.certificate_ and again.kernel_ == model.kernel_
    assert again.get_params() == model.get_params() and vars(again).keys() == vars(model).keys()
    assert type(again.support_vectors_) is type(model.support_vectors_)
    for name in ("support_vectors_", "alpha_"):
        mine, theirs = getattr(again, name), getattr(model, name)
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape and not (mine != theirs).sum()
    for name in ("dual_coef_", "intercept_", "classes_", "support_", "support_class_", "n_support_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name), strict=True)


def test_a_precomputed_svc_comes_back_and_starts_warm(tmp_path):
    X, y = problem(LABELS["float"], n=300)
    K = X @ X.T
    model = SVC("precomputed", warm_start=True, C=0.01).fit(K, y)
    save(model, tmp_path / "model.psvm")
    again = load(tmp_path / "model.psvm")
    assert again.decision_function(K[:50]).tobytes() == model.decision_function(K[:50]).tobytes()
    assert again.fit(K, y).n_iter_ == 0 < model.n_iter_


def test_a_kernel_that_is_a_function_is_refused(tmp_path):
    X, y = problem()
    model = SVC(lambda A, B: A @ B.T).fit(X, y)
    with pytest.raises(ModelError, match=r"kernel is a function, which a model file cannot hold.*precomputed"):
        save(model, tmp_path / "model.psvm")
    assert not list(tmp_path.iterdir())


def test_infinite_bounds_come_back(tmp_path):
    model = LinearSVC().fit(*problem())
    model.certificate_ = Certificate(np.inf, 0.0, np.inf, np.float64(0.1), True)
    save(model, tmp_path / "model.psvm")
    assert load(tmp_path / "model.psvm").certificate_ == model.certificate_


def test_the_same_model_gives_the_same_bytes(small, tmp_path):
    (tmp_path / "one").write_bytes(small)
    save(load(tmp_path / "one"), tmp_path / "two")
    assert (tmp_path / "two").read_bytes() == small


# --- what cannot be saved ---------------------------------------------------------------------------------------------


class Odd(LinearSVC):
    """A subclass, which a file could not name."""


@pytest.mark.parametrize(
    "change, words",
    [
        (
            {"random_state": np.random.RandomState(0)},
            "random_state is a value of type RandomState, .* make it an int or None first",
        ),
        ({"class_weight": {3: object(), 5: 1.0}}, "class_weight is a value of type object"),
        ({"classes_": np.array([3, None], dtype=object)}, "classes_ is a value of type array of object"),
        ({"coef_": np.zeros((1, 2), dtype=complex)}, "coef_ is a value of type array of complex128"),
        ({"solver": print}, "solver is a value of type builtin_function_or_method"),
    ],
)
def test_what_a_file_cannot_hold(change, words, tmp_path):
    model = LinearSVC().fit(*problem(LABELS["int"][:2]))
    vars(model).update(change)
    with pytest.raises(ModelError, match=words):
        save(model, tmp_path / "model.psvm")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("model", [SklearnLinearSVC(), Odd(), "text", None])
def test_what_is_no_model_of_ours(model, tmp_path):
    with pytest.raises(ModelError, match="save takes a fitted LinearSVC or SVC, got"):
        save(model, tmp_path / "model.psvm")


def test_an_unfitted_model(tmp_path):
    with pytest.raises(NotFittedError):
        save(LinearSVC(), tmp_path / "model.psvm")


# --- damage -----------------------------------------------------------------------------------------------------------


def places(content):
    """All of the first two lines, and one place in seven of the rest."""
    return [*range(100), *range(100, len(content), 7), len(content) - 1]


def test_a_flipped_byte_is_noticed(small, tmp_path):
    rng = np.random.default_rng(0)
    for at in places(small):
        flipped = small[at] ^ int(rng.integers(1, 256))
        refusal(small[:at] + bytes([flipped]) + small[at + 1 :], tmp_path)


def test_a_cut_is_noticed(small, tmp_path):
    for length in places(small):
        refusal(small[:length], tmp_path)
    assert "damaged or cut off" in refusal(small[:-1], tmp_path)
    assert "damaged or cut off" in refusal(small + b"\0", tmp_path)


def test_a_newer_version_is_named(small, tmp_path):
    header, blob = pieces(small)
    assert "version 2 of the format" in refusal(forge(header, blob, b"primalsvm model 2\n"), tmp_path)
    for first in (b"primalsvm model -1\n", b"primalsvm model 1" + b"0" * 40 + b"\n", b"primalsvm model x\n", b"\n"):
        assert "no model of primalsvm" in refusal(forge(header, blob, first), tmp_path)


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "absent.psvm")
    for path in (tmp_path, os.devnull):
        with pytest.raises(ModelError, match="found a folder or a device"):
            load(path)


# --- hostile files ----------------------------------------------------------------------------------------------------


class Bomb:
    """Unpickling this makes a folder."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_pickles_are_not_executed(small, tmp_path):
    trace = tmp_path / "executed"
    pickled = pickle.dumps(Bomb(trace))
    pickle.loads(pickled)  # it does work
    trace.rmdir()
    archive = io.BytesIO()
    np.savez(archive, coef_=np.array([Bomb(trace)], dtype=object))
    header, _ = pieces(small)
    header["fitted"]["coef_"] = {"array": ["|O", [1]]}
    for content in (pickled, archive.getvalue(), forge(header, pickled), forge(pickled.replace(b"\n", b""))):
        refusal(content, tmp_path)
    assert not trace.exists()


def test_a_forged_file_can_be_read(small, tmp_path):
    """What the next test relies on: its files are refused for what they say, not for how they are made."""
    header, blob = pieces(small)
    (tmp_path / "model.psvm").write_bytes(forge(header, blob))
    assert load(tmp_path / "model.psvm").status_ == "converged"


HOSTILE = {
    "class": ({"estimator": "os.system"}, "expected LinearSVC or SVC, found 'os.system'"),
    "no class": ({"estimator": None}, "expected LinearSVC or SVC, found 'None'"),
    "unhashable class": ({"estimator": []}, "cannot read"),
    "huge array": ({"fitted": {"coef_": {"array": ["<f8", [10**12, 10**12]]}}}, "has not that many bytes"),
    "negative shape": ({"fitted": {"coef_": {"array": ["<f8", [-1, -1]]}}}, "unknown type or shape"),
    "shape of bools": ({"fitted": {"coef_": {"array": ["<f8", [True, True]]}}}, "unknown type or shape"),
    "shape of text": ({"fitted": {"coef_": {"array": ["<f8", "11"]}}}, "unknown type or shape"),
    "object array": ({"fitted": {"coef_": {"array": ["|O", [1]]}}}, "unknown type or shape"),
    "empty text": ({"fitted": {"classes_": {"array": ["<U0", [10**15]]}}}, "unknown type or shape"),
    "wide nothing": ({"fitted": {"coef_": {"array": ["<f8", [10**30, 0]]}}}, "cannot read"),
    "no text": ({"fitted": {"classes_": {"array": ["<U1", [2]]}}}, "no text"),
    "method": ({"fitted": {"predict": 1}}, "no name of a fitted attribute"),
    "dunder": ({"fitted": {"__class__": 1}}, "no name of a fitted attribute"),
    "parameter": ({"parameters": {"nonsense": 1}}, "cannot read"),
    "solver": ({"parameters": {"solver": {"solver": ["nonsense", {}]}}}, "cannot read"),
    "solver's fields": ({"parameters": {"solver": {"solver": ["pegasos", {"batch": 0}]}}}, "cannot read"),
    "loss": ({"parameters": {"loss": {"loss": ["huber", {"h": "x"}]}}}, "cannot read"),
    "tag": ({"parameters": {"loss": {"eval": "1"}}}, "cannot read"),
    "two tags": ({"parameters": {"loss": {"array": 1, "dict": 2}}}, "cannot read"),
    "dict": ({"parameters": {"class_weight": {"dict": [[[], 1]]}}}, "cannot read"),
    "certificate": ({"fitted": {"certificate_": {"certificate": {"primal": 1.0}}}}, "cannot read"),
    "coef": ({"fitted": {"coef_": "text"}}, "more bytes than its arrays need"),
    "intercept": ({"fitted": {"intercept_": {"strings": ["a", "b"]}}}, "more bytes than its arrays need"),
    "width": ({"fitted": {"n_features_in_": 3}}, "do not fit together"),
    "classes": ({"fitted": {"classes_": {"array": ["<U1", [0]]}}}, "more bytes than its arrays need"),
}


@pytest.mark.parametrize("change, words", HOSTILE.values(), ids=HOSTILE)
def test_hostile_headers(change, words, small, tmp_path):
    header, blob = pieces(small)
    for key, value in change.items():
        header[key] = {**header[key], **value} if isinstance(value, dict) else value
    if words == "no text":
        blob = b"\xff" * len(blob)
    assert words in refusal(forge(header, blob), tmp_path)


@pytest.fixture(scope="module")
def small_svc(tmp_path_factory):
    """A small SVC with a sparse matrix of support vectors, and its file."""
    X, y = problem(n=30)
    model = SVC(C=0.5).fit(sp.csr_array(X), y)
    path = tmp_path_factory.mktemp("small") / "svc.psvm"
    save(model, path)
    return model, path.read_bytes()


HOSTILE_SVC = {
    "as it is": ("intercept_", lambda x: x, None),
    "fewer coefficients": ("dual_coef_", lambda x: x[:, 1:], "do not fit together"),
    "a part too few": ("dual_coef_", lambda x: x[1:], "do not fit together"),
    "text for coefficients": ("dual_coef_", lambda x: x.astype("U9"), "do not fit together"),
    "fewer vectors": ("support_vectors_", lambda x: x[1:], "do not fit together"),
    "vectors of another width": ("support_vectors_", lambda x: x[:, 1:], "do not fit together"),
    "vectors of integers": ("support_vectors_", lambda x: x.astype(int), "do not fit together"),
    "no vectors": ("support_vectors_", lambda x: None, "cannot read"),
    "support below zero": ("support_", lambda x: x - 10**9, "do not fit together"),
    "support beyond the samples": ("support_", lambda x: x + 30, "do not fit together"),
    "support in fractions": ("support_", lambda x: x + 0.5, "do not fit together"),
    "a class that is none": ("support_class_", lambda x: x + 3, "do not fit together"),
    "alpha of other samples": ("alpha_", lambda x: x[:, 1:], "do not fit together"),
    "intercepts": ("intercept_", lambda x: x[:1], "do not fit together"),
    "no kernel": ("kernel_", lambda x: "rbf", "cannot read"),
    "samples": ("n_samples_fit_", lambda x: 5, "do not fit together"),
}


@pytest.mark.parametrize("name, change, words", HOSTILE_SVC.values(), ids=HOSTILE_SVC)
def test_hostile_svcs(name, change, words, small_svc, tmp_path):
    model = pickle.loads(pickle.dumps(small_svc[0]))
    setattr(model, name, change(getattr(model, name)))
    save(model, tmp_path / "model.psvm")
    if words is None:
        assert load(tmp_path / "model.psvm").n_iter_ == model.n_iter_
    else:
        assert words in refusal((tmp_path / "model.psvm").read_bytes(), tmp_path)


HOSTILE_CSR = {
    "huge": lambda shape, data, indices, ends, kind: [[10**15, 10**15], data, indices, ends, kind],
    "negative": lambda shape, data, indices, ends, kind: [[-1, 4], data, indices, ends, kind],
    "no numbers": lambda shape, data, indices, ends, kind: [["a", None], data, indices, ends, kind],
    "narrower than its indices": lambda shape, data, indices, ends, kind: [[shape[0], 1], data, indices, ends, kind],
    "indices as ends": lambda shape, data, indices, ends, kind: [shape, data, ends, indices, kind],
    "another kind": lambda shape, data, indices, ends, kind: [shape, data, indices, ends, "os.system"],
    "no arrays": lambda shape, data, indices, ends, kind: [shape, 1, 2, 3, kind],
    "too few": lambda shape, *_: [shape],
}


@pytest.mark.parametrize("change", HOSTILE_CSR.values(), ids=HOSTILE_CSR)
def test_hostile_sparse_matrices(change, small_svc, tmp_path):
    header, blob = pieces(small_svc[1])
    header["fitted"]["support_vectors_"]["csr"] = change(*header["fitted"]["support_vectors_"]["csr"])
    refusal(forge(header, blob), tmp_path)


@pytest.mark.parametrize("field, value", [("indices", 10**6), ("indices", -1), ("indptr", -5), ("indptr", 10**6)])
def test_indices_that_lead_astray(field, value, small_svc, tmp_path):
    """Compiled code would follow them into any memory."""
    model = pickle.loads(pickle.dumps(small_svc[0]))
    getattr(model.support_vectors_, field)[1] = value
    save(model, tmp_path / "model.psvm")
    refusal((tmp_path / "model.psvm").read_bytes(), tmp_path)


@pytest.mark.parametrize("kernel", [{"name": "system"}, {"name": ["rbf"]}, {"gamma": -1.0}, {"nonsense": 1}], ids=str)
def test_hostile_kernels(kernel, small_svc, tmp_path):
    header, blob = pieces(small_svc[1])
    header["fitted"]["kernel_"]["kernel"] |= kernel
    assert "cannot read" in refusal(forge(header, blob), tmp_path)


@pytest.mark.parametrize(
    "header", [b"[" * 100_000, b"", b"[]", b"null", b"{}", b'{"estimator": 1' + b"0" * 5000, b"\xff"]
)
def test_headers_that_are_none(header, tmp_path):
    refusal(forge(header), tmp_path)


# --- whole or not at all ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failed_save_leaves_what_was_there(call, error, monkeypatch, tmp_path):
    model = LinearSVC().fit(*problem())
    save(model, tmp_path / "model.psvm")
    before = (tmp_path / "model.psvm").read_bytes()

    def fail(*_):
        raise error

    monkeypatch.setattr(os, call, fail)
    for name in ("model.psvm", "new.psvm"):
        with pytest.raises(type(error)):
            save(model.set_params(C=2.0), tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["model.psvm"]
    assert (tmp_path / "model.psvm").read_bytes() == before


def test_links_and_permissions_are_kept(tmp_path):
    model = LinearSVC().fit(*problem())
    (tmp_path / "link").symlink_to(tmp_path / "target")
    before = os.umask(0o027)
    try:
        save(model, tmp_path / "link")
        save(model, tmp_path / "link")
    finally:
        os.umask(before)
    assert (tmp_path / "link").is_symlink()
    assert stat.S_IMODE((tmp_path / "target").stat().st_mode) == 0o640
    assert load(tmp_path / "link").certificate_ == model.certificate_


def test_devices_and_folders_are_not_replaced(tmp_path):
    """A rename onto /dev/null, by root, would replace it for everyone."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(OSError, match="not a regular file"):
            save(LinearSVC().fit(*problem()), path)
    with pytest.raises(FileNotFoundError):
        save(LinearSVC().fit(*problem()), tmp_path / "absent" / "model.psvm")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode) and len(list(tmp_path.iterdir())) == 1
