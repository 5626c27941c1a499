"""Saving and loading: the same model comes back, whole or not at all, and no file can do anything but be refused."""

import base64
import errno
import hashlib
import io
import json
import os
import pickle
import stat
import zlib
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import LinearSVC as SklearnLinearSVC

from primalsvm import SVC, Certificate, Huber, LinearSVC, bag_of_words, text_model
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


# --- texts ------------------------------------------------------------------------------------------------------------

TEXTS = ["a fine film", "fine, fine acting", "a dull film", "is n't \u00e9t\u00e9"]
VECTORIZERS = {
    "binary": bag_of_words("binary"),
    "ngrams": bag_of_words("count", ngrams=3),
    "tfidf": bag_of_words("tfidf", dtype=np.float32),
    "plain": CountVectorizer(),
    "letters": CountVectorizer(analyzer="char_wb", ngram_range=(2, 3), lowercase=False, max_features=9),
    "stop words": TfidfVectorizer(stop_words=["a"], sublinear_tf=True, smooth_idf=False, strip_accents="unicode"),
    "no idf": TfidfVectorizer(use_idf=False, norm=None, token_pattern=r"(\w)\w*"),
    "vocabulary": TfidfVectorizer(vocabulary={"film": 1, "fine": 0, "absent": 2}),
}


@pytest.mark.parametrize("make", [LinearSVC, SVC])
@pytest.mark.parametrize("words", VECTORIZERS.values(), ids=VECTORIZERS)
def test_the_same_model_of_texts_comes_back(words, make, tmp_path):
    y = LABELS["text"][[0, 0, 1, 2]]
    model = Pipeline([("w", clone(words)), ("classifier", make())], verbose=False).fit(TEXTS, y)
    save(model, tmp_path / "model.psvm")
    again = load(tmp_path / "model.psvm")
    save(again, tmp_path / "again.psvm")
    assert (tmp_path / "again.psvm").read_bytes() == (tmp_path / "model.psvm").read_bytes()
    new = [*TEXTS, "", "unseen", "\u00c9T\u00c9 a fine is"]
    for left, right in ((model, again), (model.fit(TEXTS, y), again.fit(TEXTS, y))):  # a loaded one can be fitted again
        assert right.decision_function(new).tobytes() == left.decision_function(new).tobytes()
        assert right[0].transform(new).dtype == left[0].transform(new).dtype
        assert right[0].vocabulary_ == left[0].vocabulary_ and right[0].get_params() == left[0].get_params()
        assert right[-1].certificate_ == left[-1].certificate_ and list(right.named_steps) == ["w", "classifier"]
    assert not hasattr(again, "feature_names_in_")


REFUSED_TEXT = {
    "tokenizer": (
        {"words__tokenizer": str.split, "words__token_pattern": None},
        "the tokenizer of CountVectorizer is a",
    ),
    "preprocessor": ({"words__preprocessor": str.lower}, "the preprocessor of CountVectorizer is a function"),
    "analyzer": ({"words__analyzer": str.split}, "the analyzer of CountVectorizer is a function, .* running code"),
    "another classifier": (
        {"svm": SklearnLinearSVC()},
        "a StandardScaler, and a classifier of primalsvm, found Count",
    ),
    "another vectorizer": ({"words": HashingVectorizer()}, "found HashingVectorizer, LinearSVC"),
    "a pipeline": ({"svm": Pipeline([("svm", LinearSVC())])}, "found CountVectorizer, Pipeline"),
    "file names": ({"words__input": "filename"}, "input is 'filename'; a model file holds vectorizers that take texts"),
}


@pytest.mark.filterwarnings("ignore:The parameter 'token_pattern'")
@pytest.mark.parametrize("change, words", REFUSED_TEXT.values(), ids=REFUSED_TEXT)
def test_texts_that_a_file_cannot_hold(change, words, tmp_path):
    model = text_model().set_params(**change)
    texts = TEXTS
    if "words__input" in change:
        texts = [str(tmp_path.parent / f"{tmp_path.name}-{k}") for k in range(4)]
        for path, text in zip(texts, TEXTS, strict=True):
            Path(path).write_text(text)
    model.fit(texts, [0, 0, 1, 1])
    with pytest.raises(ModelError, match=words):
        save(model, tmp_path / "model.psvm")
    assert not list(tmp_path.iterdir())


def test_an_unfitted_model_of_texts(tmp_path):
    with pytest.raises(NotFittedError):
        save(text_model(), tmp_path / "model.psvm")


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
    with pytest.raises(ModelError, match="save takes a fitted LinearSVC or SVC or OrdinalSVC or Pipeline, got"):
        save(model, tmp_path / "model.psvm")


def test_an_unfitted_model(tmp_path):
    with pytest.raises(NotFittedError):
        save(LinearSVC(), tmp_path / "model.psvm")


# --- files of older versions ------------------------------------------------------------------------------------------

# X = [[0, 1], [1, 0], [2, 2], [3, 1]] of no, no, yes, yes: LinearSVC() and SVC(C=0.5, gamma=0.5), as they were saved
# before a model could hold another
OLD = {
    "linear": (
        [-0.9411764705882355, -0.8627450980392158, 0.862745098039216, 0.9411764705882353],
        b"c-nna&2H2%5MJO`i5pzeDmSEdWhc%bLfS*G+z?z=tH?>5U85upw$rj&<rR>Mcpmx;oDfGO-hnGKPP$#xmXQ+6GvCa3K7a1CY<O)hnt7v2QP1f~"
        b"PD#c5G7d<Q(t=eb56X~KNy>sMk3<pqG>B;#h1^eb!qbG1IHp|06(LDXqLaNRjD@OJY46qCdm~%H_1pL7-s#-yxaN(pLK_I}y>s}}1%W_Ob7Qhg"
        b"AvaqK&bF^>@K(}hvITe{I&@pz3vk!UV7_NQ_FRiH+sbw$uzbTmWfI_6mJl*|j3`uFn%lBXUt5{EmRLqzXiRRi4=O)Gbz0>-m$kIJTc_r2shZ4K"
        b"ZpE$FsQSWn^>}X;7PG2`Em;skVF$rn8BD-4U2^RzXdI~m_Qf#HYDMX2X|qaj+iPK9`V3tDp-1Kbhkh%s6_-}E&~iVlhZ`ax(c!q(eCJ@V-vxkK"
        b"`D+I{aC!$;B?zM<tPtADN)|Bd2t0DQedpBU1`Sf5hEWpvF$*aT@Wf?*PmF+gkVnCbEzfK5P;w4|GrC|Yp=m_ogasfwKfzShw<X*-0D=VxA{M4;"
        b"><0{#$ix|Ccy+3lX6x8={5s_!Eo06<H+CQp#c2_-S`Wi?{A|NJ96eq{l!S4T1VKVV#*(SgRvM7`4k4>O3{@zNO;^x@EN*@bRB&Vwd&rNZA6KCW"
        b"WF!q@;-@erV=RT_aIAcnwELL8_vGtg?F5f+1<#H*f|Bl?ZajD{K+XpEb11``t_DfrYlJY)eSWi<Uau0>LsB}OPogt@*C~Bha?;`02y&$VzZ@cm"
        b";iR3-W@<Lt4n6^&f$!%Jv_IF+pP~I;ez`*XwVa@{N7MRvTAxho(-&ypuD?3`_v_E&x_mkMmwy4?(sma",
    ),
    "svc": (
        [-0.6373427230046506, -0.6018547219618223, 0.6018547219618223, 0.6373427230046506],
        b"c-nnbZEo8z49&Xz7<!7pzq`PazlQ-W&?5}npCB+~TTZmvmLbV$yTWJNRd$3OVWjLNPMSo3qlh9Osi!BlO4O{<+j?Hhf>(2L>xN0`vnY&<(#xYD"
        b"Dx$K?qL2i%^aDzxAmeeK$6>+3kWe>{lfnzR>$x=JSrC%jH-~Ejs75O1>)iSN^U=ARJ1tYJ=7uW`#y95?e%(a?8?0@Wd_jL98?ZKARe?FLnAYht"
        b"7we6gSS2rA8|uQU;A_P>EInA1!la^s1UYXp!l;g;83I!yD;q?>ux545_Sx4;J|EzpxN11MIw~u%>Pl*?*V%|>&CyV^msCI!FcQ~}(WrSYn?fJ3"
        b"YF<nAnpUC~SPmtA<i}p<$GF#3Mx^$Lh%UDhv70nwTIdnl8h*)a0trNAEEAP5uLq-IO(E-48)o>ys%5pcRXVIQ7JbKo>mm!VnMsWSnCO`)i=eR5"
        b"67<0Pfl<Q?dtFUha%MWkHE^8barQY<>#)zabaajRz$AWidlu@W^G1p0X}p(y)$gtt5G?>xioM$SZ$CVUU(%Iz+F$8Aw=zaIGPvbj8BvNHNEjR^"
        b"2D@&p(6OF{7rVYoXcPq`OuPuIE4nj#pm~&t;w;~=tm2n~v%Mgd?3x0kf|6YLQA9}`5RcFxNr=b45Y%ZaE1@@*SIe}08_0tVa*ytApc3DX!R_U$"
        b"@5f@(HEUBFK}iz&VH6Rc&?NB3EE}N>$`7O7;0U=?m~jdCwp9B=7w&X;7tBcT6oXnnk9eU+BjS=U^1UPksyuvB=O{YI>)Faz{mSYdpV(ezpzO}7"
        b"1fG8b%&dVt>!n%URv;jJ`ml|6@wi)z&82ELY!rmH@?3)Y{ngz$Dfz46q>~MCePh(<V7GsV4l-oicN2I&(EBEB<+ukOwXsQuvzKjM4+qj++e-ER"
        b"F-!{`1cE@9-V9P;J$G<Jx4jAqbYIO)j}f;#2Lb8}6~I-Yf8XCWv)N3}hVcp?hfmK=$KU(w^KABEoNvbY;|ap2ll67~zkg2Vcll0nPVsJL=f=PL"
        b"<9R<Gj_1!0JHP))9qxD",
    ),
}


@pytest.mark.parametrize("scores, content", OLD.values(), ids=OLD)
def test_files_of_older_versions(scores, content, tmp_path):
    (tmp_path / "model.psvm").write_bytes(zlib.decompress(base64.b85decode(content)))
    model = load(tmp_path / "model.psvm")
    X = [[0.0, 1.0], [1.0, 0.0], [2.0, 2.0], [3.0, 1.0]]
    np.testing.assert_allclose(model.decision_function(X), scores, rtol=1e-12)
    assert model.predict(X).tolist() == ["no", "no", "yes", "yes"] and model.certificate_.relative_gap < 1e-10
    assert model.history_[-1].gap >= 0 and model.solver_.name == ("smo" if isinstance(model, SVC) else "newton")


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
    "class": ({"estimator": "os.system"}, "expected LinearSVC or SVC or OrdinalSVC or Pipeline, found 'os.system'"),
    "no class": ({"estimator": None}, "expected LinearSVC or SVC or OrdinalSVC or Pipeline, found 'None'"),
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


@pytest.fixture(scope="module")
def small_text(tmp_path_factory):
    """The bytes of a small model of texts."""
    path = tmp_path_factory.mktemp("small") / "text.psvm"
    model = text_model(features="tfidf").fit(TEXTS, [0, 0, 1, 1])
    model[0].feature_names_in_ = np.array(["Phrase"], dtype=object)
    save(model, path)
    return path.read_bytes()


def text_header(header):
    """The steps, the vectorizer's part and the classifier's part of a header."""
    steps = header["parameters"]["steps"]
    (_, words), (_, svm) = (step["tuple"] for step in steps)
    return steps, words["words"], svm["model"]


def test_the_column_comes_back(small_text, tmp_path):
    """And the forged files of the next test are refused for what they say."""
    header, blob = pieces(small_text)
    (tmp_path / "model.psvm").write_bytes(forge(header, blob))
    model = load(tmp_path / "model.psvm")
    assert list(model.feature_names_in_) == ["Phrase"] and model.predict(["fine"]).tolist() == [0]


HOSTILE_TEXT = {
    "a word too few": (lambda h, s, w, m: w["vocabulary"].pop(), "idf_ is not a number for each word"),
    "a word twice": (lambda h, s, w, m: w["vocabulary"].__setitem__(0, w["vocabulary"][1]), "a word twice"),
    "a word that is none": (lambda h, s, w, m: w["vocabulary"].__setitem__(0, 7), "no list of words"),
    "no words": (lambda h, s, w, m: w.update(vocabulary=[]), "no list of words"),
    "words in a text": (lambda h, s, w, m: w.update(vocabulary="film"), "no list of words"),
    "no idf": (lambda h, s, w, m: w.pop("idf"), "cannot read"),
    "idf of text": (lambda h, s, w, m: w.update(idf="film"), "cannot read"),
    "vectorizer": (lambda h, s, w, m: w.update(vectorizer="HashingVectorizer"), "cannot read"),
    "nonsense": (lambda h, s, w, m: w.update(nonsense=1), "cannot read"),
    "bad pattern": (lambda h, s, w, m: w["parameters"].update(token_pattern="(a"), "no regular expression"),
    "deep pattern": (lambda h, s, w, m: w["parameters"].update(token_pattern="(?:" * 9999 + ")" * 9999), "no regular"),
    "huge pattern": (lambda h, s, w, m: w["parameters"].update(token_pattern="a{99999999999999}"), "no regular"),
    "two groups": (lambda h, s, w, m: w["parameters"].update(token_pattern="(a)(b)"), "more than one group"),
    "pattern of numbers": (lambda h, s, w, m: w["parameters"].update(token_pattern=7), "cannot read"),
    "files": (lambda h, s, w, m: w["parameters"].update(input="filename"), "parameters that it cannot have"),
    "open files": (lambda h, s, w, m: w["parameters"].update(input="file"), "parameters that it cannot have"),
    "ngrams": (lambda h, s, w, m: w["parameters"].update(ngram_range={"tuple": [2, 1]}), "parameters that it cannot"),
    "ngrams in fractions": (lambda h, s, w, m: w["parameters"].update(ngram_range={"tuple": [1, 1.5]}), "cannot have"),
    "one ngram": (lambda h, s, w, m: w["parameters"].update(ngram_range={"tuple": [1]}), "cannot read"),
    "stop words": (lambda h, s, w, m: w["parameters"].update(stop_words=[[]]), "the stop words are no words"),
    "tokenizer": (lambda h, s, w, m: w["parameters"].update(tokenizer="os.system"), "cannot read"),
    "a callable": (
        lambda h, s, w, m: w["parameters"].update(tokenizer={"dtype": "<f8"}),
        "parameters that it cannot have",
    ),
    "dtype": (lambda h, s, w, m: w["parameters"].update(dtype={"dtype": "|O"}), "unknown type"),
    "no dtype": (lambda h, s, w, m: w["parameters"].update(dtype={"dtype": 3}), "cannot read"),
    "norm": (lambda h, s, w, m: w["parameters"].update(norm="l9"), "cannot read"),
    "memory": (lambda h, s, w, m: h["parameters"].update(memory="/tmp"), "cannot say what callback or memory should"),
    "callback": (lambda h, s, w, m: m["parameters"].update(callback=1), "cannot say what callback or memory should"),
    "one step": (lambda h, s, w, m: s.pop(), "more bytes than its arrays need"),
    "no steps": (lambda h, s, w, m: s.clear(), "more bytes than its arrays need"),
    "the other way round": (lambda h, s, w, m: s.reverse(), "found LinearSVC, TfidfVectorizer"),
    "names": (lambda h, s, w, m: s[0]["tuple"].__setitem__(0, "svm"), "have no names"),
    "no names": (lambda h, s, w, m: s[0]["tuple"].__setitem__(0, None), "have no names"),
    "width": (lambda h, s, w, m: m["fitted"].update(n_features_in_=3), "do not fit together"),
    "classifier": (
        lambda h, s, w, m: m.update(estimator="CountVectorizer"),
        "expected LinearSVC or SVC or OrdinalSVC or Pipeline",
    ),
    "no estimator": (lambda h, s, w, m: m.pop("estimator"), "cannot read"),
    "classifier alone": (lambda h, s, w, m: s.__setitem__(0, s[1]), "has not that many bytes"),
}


@pytest.mark.parametrize("change, words", HOSTILE_TEXT.values(), ids=HOSTILE_TEXT)
def test_hostile_models_of_texts(change, words, small_text, tmp_path):
    header, blob = pieces(small_text)
    change(header, *text_header(header))
    assert words in refusal(forge(header, blob), tmp_path)


def test_words_that_are_not_the_classifiers(tmp_path):
    model = text_model().fit(TEXTS, [0, 0, 1, 1])
    model[0].fit([*TEXTS, "another"])
    save(model, tmp_path / "model.psvm")
    assert "what the steps say of n_features_in_ does not fit together" in refusal(
        (tmp_path / "model.psvm").read_bytes(), tmp_path
    )


# --- standardized columns ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [LinearSVC, SVC])
@pytest.mark.parametrize("options", [{}, {"with_mean": False}, {"with_std": False}], ids=["both", "std", "mean"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_same_scaled_model_comes_back(make, options, dtype, tmp_path):
    X, y = problem()
    X = (X * [1, 1000, 0, 1e-3]).astype(dtype)  # one column is constant
    model = make_pipeline(StandardScaler(**options), make()).fit(X, y)
    save(model, tmp_path / "model.psvm")
    again = load(tmp_path / "model.psvm")
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    assert again[0].get_params() == model[0].get_params()
    assert again[-1].certificate_.primal == model[-1].certificate_.primal
    if not options:
        other = again.fit(X[::-1], y[::-1])  # it can be trained again
        assert np.allclose(other[0].mean_, model[0].mean_)


def test_names_of_scaled_columns_come_back(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = problem()
    frame = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    save(make_pipeline(StandardScaler(), LinearSVC()).fit(frame, y), tmp_path / "model.psvm")
    again = load(tmp_path / "model.psvm")
    assert list(again.feature_names_in_) == list("abcd")
    assert len(again.predict(frame)) == len(y)


def test_other_scalers_are_refused(tmp_path):
    X, y = problem()
    model = make_pipeline(MinMaxScaler(), LinearSVC()).fit(X, y)
    with pytest.raises(ModelError, match=r"vectorizer of texts or a StandardScaler.*found MinMaxScaler, LinearSVC"):
        save(model, tmp_path / "model.psvm")
    with pytest.raises(ModelError, match="save takes a fitted LinearSVC"):
        save(StandardScaler().fit(X), tmp_path / "model.psvm")
    assert not list(tmp_path.iterdir())


HOSTILE_SCALERS = {
    "zero": ({"scale_": np.array([1.0, 0.0])}, {}, "none"),
    "negative": ({"scale_": np.array([1.0, -1.0])}, {}, "none"),
    "not finite": ({"mean_": np.array([1.0, np.nan])}, {}, "none"),
    "infinite": ({"scale_": np.array([1.0, np.inf])}, {}, "none"),
    "too short": ({"mean_": np.array([1.0])}, {}, "none"),
    "integers": ({"mean_": np.array([1, 2])}, {}, "none"),
    "no deviations": ({"scale_": None}, {}, "cannot read"),
    "parameters": ({}, {"with_mean": "yes"}, "cannot read"),
    "width": ({"n_features_in_": 3, "mean_": np.ones(3), "scale_": np.ones(3)}, {}, "does not fit together"),
}


@pytest.mark.parametrize("fitted, parameters, words", HOSTILE_SCALERS.values(), ids=HOSTILE_SCALERS)
def test_hostile_scalers(fitted, parameters, words, tmp_path):
    X, y = problem(LABELS["int"][:2], n=12, d=2)
    model = make_pipeline(StandardScaler(), LinearSVC()).fit(X, y)
    vars(model[0]).update(fitted | parameters)
    save(model, tmp_path / "model.psvm")
    assert words in refusal((tmp_path / "model.psvm").read_bytes(), tmp_path)


def test_pipelines_in_pipelines(small_text, tmp_path):
    """A file that goes deep is refused, not followed until the stack is used up."""
    header, blob = pieces(small_text)
    opening, closing = b'{"estimator": "Pipeline", "parameters": {"steps": [["a", {"model": ', b'}]]}, "fitted": {}}'
    for depth, words in ((20, "a pipeline must be a vectorizer"), (10_000, "cannot read")):
        whole = opening * depth + json.dumps(header).encode() + closing * depth
        assert words in refusal(forge(whole, blob), tmp_path)


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
