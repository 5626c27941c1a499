"""Save a fitted model to one file, and load it again. Nothing in a file is ever executed.

    primalsvm model 1          the format's name and version
    <64 hex digits>            sha256 of the line above and of everything below
    {"estimator": ...}         JSON on one line: class, parameters, fitted attributes
    <bytes>                    the arrays, one after another, little-endian, in the order in which the JSON names them

What JSON cannot say is an object of one key, the tag:

    {"array": [dtype, shape]}            numbers, bool or fixed-width text, from the bytes below
    {"csr": [shape, data, indices, ends, kind]}   a sparse matrix of three arrays; kind is "matrix" or "array"
    {"strings": [...]}                   an object array of str, such as feature names
    {"dict": [[key, value], ...]}        class_weight, whose keys are labels
    {"tuple": [...]}                     as distinct from a list
    {"dtype": name}                      a type of numbers
    {"model": {"estimator": ...}}        an estimator inside another, such as the last step of a pipeline
    {"words": {"vectorizer": ...}}       what makes a bag of words of texts: class, parameters, vocabulary, idf
    {"loss": [name, fields]}, {"solver": [name, fields]}, {"kernel": fields}, {"record": [...]}, {"certificate": fields}

Nothing is compressed and each array takes its own bytes, so no file can claim more memory than a small multiple of
its size. The checksum finds damage; it is not a signature.
"""

import hashlib
import json
import os
import re
import secrets
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from .certificate import Certificate
from .kernels import Kernel
from .linear_svc import LinearSVC
from .losses import LOSSES, Loss
from .multiclass import ORDERED, count_parts
from .ordinal_svc import MODELS as ORDINAL_MODELS
from .ordinal_svc import KernelBoundaries, KernelShared, LinearBoundaries, LinearShared, OrdinalSVC
from .solve import Record, Solver
from .svc import SVC

NAME = b"primalsvm model "
VERSION = 1
CSR = {"matrix": sp.csr_matrix, "array": sp.csr_array}
# callback is a function, and memory a folder of pickles: keeping either would mean running code from a file
NOT_KEPT = {"callback", "memory"}
VECTORIZERS = {"CountVectorizer": CountVectorizer, "TfidfVectorizer": TfidfVectorizer}
FITTED_NAME = re.compile(r"[A-Za-z]\w*(?<!_)_")
DTYPE = re.compile(r"\|[biu]1|<[iu][248]|<f[248]|<U[1-9]\d{0,8}")


class ModelError(ValueError):
    """A model that cannot be saved, or a file that cannot be loaded; the message says why and what to do."""


def save(model, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to `path`, whole or not at all.

    Kept are the parameters, except ``callback``, and every fitted attribute; of the certificate everything but its
    dual point, which other attributes hold already. A kernel that is a function cannot be kept.

    Parameters
    ----------
    model : LinearSVC, SVC, OrdinalSVC, or a Pipeline of CountVectorizer, TfidfVectorizer or StandardScaler and one of
        these
    path : path of the file; one that exists is replaced.
    """
    kind = KINDS.get(type(model))
    if kind is None or kind.inner:
        raise ModelError(f"save takes a fitted {_KINDS_SAVED}, got {type(model).__name__}.")
    blobs: list[bytes] = []
    header = _encode_model(model, blobs)
    first = NAME + b"%d\n" % VERSION
    rest = b"".join([json.dumps(header).encode("ascii"), b"\n", *blobs])
    write_whole(path, first + hashlib.sha256(first + rest).hexdigest().encode() + b"\n" + rest)


def load(path: str | os.PathLike[str]):
    """Read a model that `save` wrote: it predicts bit for bit the same and has the same certificate.

    Returns
    -------
    The fitted estimator.
    """
    try:
        header, blob = _read(Path(path))
        decode = _Decoder(blob)
        model = decode.model(header)
        decode.finish()
        if KINDS[type(model)].inner:
            raise ModelError(f"{type(model).__name__} is part of a model, not one")
        check_is_fitted(model, KINDS[type(model)].fitted_by)
    except ModelError as error:
        raise ModelError(f"{path}: {error}.") from None
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        # the checksum holds, so this was written on purpose, or by a version with other parameters or attributes
        raise ModelError(f"{path}: this version cannot read what the file describes; fit and save it again.") from None
    return model


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file whole or not at all: Ctrl-C, an error or a full disk leave what was there before."""
    target = Path(os.path.realpath(path))  # a link stays a link
    if target.exists() and not target.is_file():
        raise OSError(f"{path} is not a regular file; name another one to write to")
    draft = target.with_name(f".{secrets.token_hex(8)}.tmp")  # in the same folder: a rename does not cross disks
    try:
        with open(draft, "xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(draft, target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _read(path: Path) -> tuple[dict[str, Any], memoryview]:
    """The header and the arrays' bytes of a file that is of this format and undamaged."""
    if path.exists() and not path.is_file():
        raise ModelError("expected a model file, found a folder or a device; name a file")
    with open(path, "rb") as stream:
        first = stream.readline(64)
        version = re.fullmatch(re.escape(NAME) + rb"(\d{1,9})\n", first)
        if not version:
            raise ModelError("this is no model of primalsvm, or its beginning is damaged; name a file that save wrote")
        if int(version[1]) > VERSION:
            raise ModelError(
                f"the file has version {int(version[1])} of the format, this primalsvm knows up to {VERSION}; "
                "install a newer primalsvm"
            )
        checksum = stream.readline(65)
        rest = stream.read()
    if checksum != hashlib.sha256(first + rest).hexdigest().encode() + b"\n":
        raise ModelError("the file is damaged or cut off, its checksum does not hold; fetch it or save it again")
    end = rest.index(b"\n")
    return json.loads(rest[:end]), memoryview(rest)[end + 1 :]


def _encode_model(model, blobs: list[bytes], whole: bool = True) -> dict[str, Any]:
    """Class, parameters and fitted attributes. A model that is a parameter need not be fitted: it is not `whole`."""
    if isinstance(model, Pipeline):
        _check_steps(model)
    if whole:
        check_is_fitted(model, KINDS[type(model)].fitted_by)
    if callable(getattr(model, "kernel", None)):
        raise ModelError(
            "kernel is a function, which a model file cannot hold: loading it would mean running code. "
            "Fit with one of the named kernels or with kernel='precomputed', or pickle the model."
        )
    parameters = {name: value for name, value in model.get_params(deep=False).items() if name not in NOT_KEPT}
    fitted = {name: value for name, value in vars(model).items() if FITTED_NAME.fullmatch(name)}
    return {
        "estimator": type(model).__name__,
        "parameters": {name: _encode(value, name, blobs) for name, value in parameters.items()},
        "fitted": {name: _encode(value, name, blobs) for name, value in fitted.items()},
    }


def _encode_words(words: CountVectorizer, blobs: list[bytes]) -> dict[str, Any]:
    """A vectorizer: its words stand in the order of their columns."""
    check_is_fitted(words, "vocabulary_")
    for name in ("tokenizer", "preprocessor", "analyzer"):
        if callable(getattr(words, name)):
            raise ModelError(
                f"the {name} of {type(words).__name__} is a function, which a model file cannot hold: loading it would "
                "mean running code. Fit with a token_pattern instead, or pickle the model."
            )
    if words.input != "content":  # else a file that is loaded could have others opened
        raise ModelError(f"input is {words.input!r}; a model file holds vectorizers that take texts, input='content'.")
    parameters = {name: _encode(value, name, blobs) for name, value in words.get_params(deep=False).items()}
    content = {"vectorizer": type(words).__name__, "parameters": parameters}
    content["vocabulary"] = sorted(words.vocabulary_, key=words.vocabulary_.__getitem__)
    if isinstance(words, TfidfVectorizer) and words.use_idf:
        content["idf"] = _encode(words.idf_, "idf_", blobs)
    if hasattr(words, "feature_names_in_"):
        content["column"] = str(words.feature_names_in_[0])
    return content


def _encode(value, name: str, blobs: list[bytes]):
    """A value as JSON; arrays go to `blobs`. `name` is the parameter or attribute, for the message."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Record):
        return {"record": [_encode(item, name, blobs) for item in value]}
    if isinstance(value, list | tuple):
        items = [_encode(item, name, blobs) for item in value]
        return items if isinstance(value, list) else {"tuple": items}
    if isinstance(value, dict):
        return {"dict": [[_encode(key, name, blobs), _encode(item, name, blobs)] for key, item in value.items()]}
    if type(value) in KINDS:
        return {"model": _encode_model(value, blobs, whole=name != "estimator")}
    if VECTORIZERS.get(type(value).__name__) is type(value):
        return {"words": _encode_words(value, blobs)}
    if isinstance(value, type) and issubclass(value, np.number):
        return {"dtype": np.dtype(value).newbyteorder("<").str}
    if isinstance(value, Certificate):
        return {"certificate": _encode_fields(value, name, blobs, but="alpha")}
    if isinstance(value, Kernel):
        return {"kernel": _encode_fields(value, name, blobs)}
    if sp.issparse(value) and value.format == "csr":
        kind = "array" if isinstance(value, sp.sparray) else "matrix"
        arrays = [_encode(array, name, blobs) for array in (value.data, value.indices, value.indptr)]
        return {"csr": [list(value.shape), *arrays, kind]}
    if isinstance(value, Loss) and LOSSES.get(value.name) is type(value):
        return {"loss": [value.name, _encode_fields(value, name, blobs)]}
    if isinstance(value, Solver) and is_dataclass(value) and Solver.registry.get(value.name) is type(value):
        return {"solver": [value.name, _encode_fields(value, name, blobs)]}
    if isinstance(value, np.ndarray) and value.dtype == object and value.ndim == 1:
        if all(isinstance(item, str) for item in value):
            return {"strings": [str(item) for item in value]}
    elif isinstance(value, np.ndarray) and DTYPE.fullmatch(little := value.dtype.newbyteorder("<").str):
        blobs.append(value.astype(little).tobytes())
        return {"array": [little, list(value.shape)]}
    kind = f"array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
    advice = "an int or None" if name == "random_state" else "numbers, text, or a loss or solver of primalsvm"
    raise ModelError(f"{name} is a value of type {kind}, which a model file cannot hold; make it {advice} first.")


def _encode_fields(value, name: str, blobs: list[bytes], but: str = "") -> dict[str, Any]:
    return {f.name: _encode(getattr(value, f.name), name, blobs) for f in fields(value) if f.name != but}


class _Decoder:
    """_encode backwards; each array takes the next bytes."""

    def __init__(self, blob: memoryview):
        self.blob = blob
        self.at = 0
        self.models: list[Any] = []  # those that have something to check

    def __call__(self, value):
        if isinstance(value, list):
            return [self(item) for item in value]
        if not isinstance(value, dict):
            return value
        ((tag, content),) = value.items()
        if tag == "array":
            return self.array(*content)
        if tag == "csr":
            return self.csr(*content)
        if tag == "model":
            return self.model(content)
        if tag == "words":
            return self.words(**content)
        if tag == "tuple":
            return tuple(self(item) for item in content)
        if tag == "dtype":
            return self.array(content, [0]).dtype.type
        if tag == "kernel":
            return Kernel(**{name: self(item) for name, item in content.items()})
        if tag == "strings":
            return np.array([str(item) for item in content], dtype=object)
        if tag == "dict":
            return {self(key): self(item) for key, item in content}
        if tag == "record":
            return Record(*self(content))
        if tag == "certificate":
            facts = {name: self(item) for name, item in content.items()}
            return Certificate(**{**facts, "parts": tuple(facts.get("parts", ()))})
        known: dict[str, Any] = {"loss": LOSSES, "solver": Solver.registry}
        return known[tag][content[0]](**{name: self(item) for name, item in content[1].items()})

    def array(self, dtype: str, shape: list[int]) -> np.ndarray:
        if not DTYPE.fullmatch(dtype) or any(type(length) is not int or length < 0 for length in shape):
            raise ModelError("an array has an unknown type or shape")
        size = np.dtype(dtype).itemsize * prod(shape)
        if size > len(self.blob) - self.at:
            raise ModelError(f"an array of shape {shape} is announced, but the file has not that many bytes")
        array = np.ndarray(shape, dtype, buffer=self.blob, offset=self.at)
        self.at += size
        if (
            array.dtype.kind == "U"
            and np.ndarray(size // 4, "<u4", self.blob, self.at - size).max(initial=0) > 0x10FFFF
        ):
            raise ModelError("an array of text has bytes that are no text")
        return array.astype(array.dtype.newbyteorder("="))  # a copy: aligned, and its own

    def csr(self, shape: list[int], data, indices, ends, kind: str):
        """A sparse matrix whose indices are checked: compiled code will follow them."""
        n, d = shape
        if type(n) is not int or type(d) is not int or not (0 <= n <= len(self.blob) and 0 <= d < 2**63):
            raise ModelError("a sparse matrix has an impossible shape")
        matrix = CSR[kind]((self(data), self(indices), self(ends)), shape=(n, d))
        matrix.check_format(full_check=True)
        return matrix

    def model(self, content: dict[str, Any]):
        """An estimator, which `finish` checks."""
        name = content["estimator"]
        estimator = {kind.__name__: kind for kind in KINDS}.get(name)
        if estimator is None:
            raise ModelError(f"expected {_KINDS_SAVED}, found {str(name)[:40]!r}")
        if not NOT_KEPT.isdisjoint(content["parameters"]):
            raise ModelError(f"a file cannot say what {' or '.join(sorted(NOT_KEPT))} should be")
        model = estimator(**{name: self(value) for name, value in content["parameters"].items()})
        for name, value in content["fitted"].items():
            if not FITTED_NAME.fullmatch(name):
                raise ModelError(f"{name[:40]!r} is no name of a fitted attribute")
            setattr(model, name, self(value))
        if content["fitted"] or isinstance(model, Pipeline):
            self.models.append(model)
        return model

    def words(self, vectorizer: str, parameters: dict[str, Any], vocabulary: list[str], idf=None, column=None):
        words = VECTORIZERS[vectorizer](**{name: self(value) for name, value in parameters.items()})
        _check_words(words, vocabulary)
        if column is not None:
            words.feature_names_in_ = np.array([str(column)], dtype=object)
        words.fixed_vocabulary_ = words.vocabulary is not None
        words.vocabulary_ = {word: place for place, word in enumerate(vocabulary)}
        if isinstance(words, TfidfVectorizer):
            options = {name: getattr(words, name) for name in ("norm", "use_idf", "smooth_idf", "sublinear_tf")}
            words._tfidf = TfidfTransformer(**options).fit(sp.csr_matrix(np.ones((1, len(vocabulary)))))
            if words.use_idf:
                words._tfidf.idf_ = self(idf)
                if not (_are_numbers(words.idf_, (len(vocabulary),)) and bool(np.all(np.isfinite(words.idf_)))):
                    raise ModelError("idf_ is not a number for each word")
        return words

    def finish(self) -> None:
        if self.at != len(self.blob):
            raise ModelError("the file has more bytes than its arrays need")
        for model in self.models:
            KINDS[type(model)].check(model)


def _check_linear(model) -> None:
    """The shapes, types and ranges that predict and a warm start rely on; so do the checks below."""
    parts = _check_parts(model)
    if not (_are_numbers(model.coef_, (parts, model.n_features_in_)) and _are_numbers(model.intercept_, (parts,))):
        raise ModelError("coef_, intercept_, classes_ and n_features_in_ do not fit together")


def _check_kernel(model) -> None:
    parts = _check_parts(model)
    _check_support(model, parts, parts)


def _check_support(model, parts: int, thresholds: int) -> None:
    _check_parts(model)
    k, d, m = len(model.classes_), model.n_features_in_, len(model.support_)
    stored = model.kernel_.name == "precomputed"
    fits = (
        _are_numbers(model.intercept_, (thresholds,))
        and not callable(model.kernel_.name)
        and _are_numbers(model.dual_coef_, (parts, m))
        and _are_numbers(model.support_vectors_, (0, 0) if stored else (m, d))
        and _are_places(model.support_, m, d if stored else model.n_samples_fit_)
        and _are_places(model.support_class_, m, k)
        and _are_numbers(model.alpha_, (thresholds, model.n_samples_fit_))
    )
    if not fits:
        raise ModelError("the support vectors, their coefficients, classes_ and n_features_in_ do not fit together")


def _check_parts(model) -> int:
    """How many binary problems there are."""
    (k,) = model.classes_.shape
    if k < 2:
        raise ModelError("coef_, intercept_, classes_ and n_features_in_ do not fit together")
    parts = count_parts(k, model.multi_class)
    if hasattr(model, "calibration_") and not _are_curves(model.calibration_, parts):
        raise ModelError("calibration_ is not a curve for each binary problem")
    if hasattr(model, "ensemble_") and not _are_members(model):
        raise ModelError("ensemble_ is not a list of models like the one it belongs to")
    return parts


def _check_linear_shared(model) -> None:
    """One w, and a threshold for each boundary."""
    _check_parts(model)
    boundaries, d = len(model.classes_) - 1, model.n_features_in_
    if not (_are_numbers(model.coef_, (1, d)) and _are_numbers(model.intercept_, (boundaries,))):
        raise ModelError("coef_, intercept_, classes_ and n_features_in_ do not fit together")


def _check_kernel_shared(model) -> None:
    boundaries = len(model.classes_) - 1
    if boundaries > 1:
        shape = (boundaries, len(model.support_))
        if not (_are_numbers(model.boundary_coef_, shape) and float(model.threshold_scale_) > 0):
            raise ModelError("the coefficients of the boundaries and classes_ do not fit together")
    _check_support(model, 1, boundaries)


def _check_ordinal(model: OrdinalSVC) -> None:
    """The model of the boundaries has been checked; here that it is the strategy's, and the table."""
    inner, k = model.model_, len(model.model_.classes_)
    shared = model.strategy == "shared"
    kinds = [kinds[shared] for kinds in ORDINAL_MODELS.values()]
    fits = model.strategy in ORDERED and type(inner) in kinds and inner.multi_class == model.strategy
    if not (fits and np.array_equal(model.classes_, inner.classes_) and len(model.boundaries_) == k - 1):
        raise ModelError("the model of the boundaries is not that of the strategy and classes_")
    if model.strategy == "adjacent" and k > 2:
        n = len(model.patterns_)
        known = model.patterns_.dtype == bool and model.patterns_.shape == (n, k - 1)
        if not (known and _are_numbers(model.table_, (n + 1, k)) and bool(np.all(np.isfinite(model.table_)))):
            raise ModelError("the table and its patterns do not fit together")


def _check_steps(model: Pipeline) -> None:
    """That it is a bag of words or a scaler, and a classifier of ours."""
    kinds = [type(step) for _, step in model.steps]
    fits = len(kinds) == 2 and kinds[0] in (*VECTORIZERS.values(), StandardScaler)
    if not fits or kinds[1] not in KINDS or kinds[1] is Pipeline or KINDS[kinds[1]].inner:
        found = ", ".join(kind.__name__ for kind in kinds)
        first = "a vectorizer of texts or a StandardScaler"
        raise ModelError(f"a pipeline must be {first}, and a classifier of primalsvm, found {found}")


def _check_pipeline(model: Pipeline) -> None:
    _check_steps(model)
    names = [name for name, _ in model.steps]
    if not all(isinstance(name, str) for name in names) or len(set(names)) < 2:
        raise ModelError("the steps of the pipeline have no names")
    width = model[0].n_features_in_ if isinstance(model[0], StandardScaler) else len(model[0].vocabulary_)
    if width != model[-1].n_features_in_:
        raise ModelError("what the steps say of n_features_in_ does not fit together")


def _check_scaler(scaler: StandardScaler) -> None:
    scaler._validate_params()
    shape = (scaler.n_features_in_,)
    wanted = [values for used, values in ((scaler.with_mean, scaler.mean_), (scaler.with_std, scaler.scale_)) if used]
    fits = all(_are_numbers(values, shape) and bool(np.all(np.isfinite(values))) for values in wanted)
    if not fits or (scaler.with_std and not np.all(scaler.scale_ > 0)):
        raise ModelError("the means and deviations of the scaler are none")


def _check_words(words: CountVectorizer, vocabulary) -> None:
    """Before a vectorizer is given its words: what transform relies on, and no more than texts are read."""
    words._validate_params()
    plain = words.input == "content" and not any(map(callable, (words.tokenizer, words.preprocessor, words.analyzer)))
    low, high = words.ngram_range
    if not plain or type(low) is not int or type(high) is not int or not 1 <= low <= high:
        raise ModelError("the vectorizer has parameters that it cannot have")
    if not isinstance(vocabulary, list) or not vocabulary or not all(isinstance(word, str) for word in vocabulary):
        raise ModelError("the vocabulary is no list of words")
    if len(set(vocabulary)) < len(vocabulary):
        raise ModelError("the vocabulary has a word twice")
    if isinstance(words.stop_words, list) and not all(isinstance(word, str) for word in words.stop_words):
        raise ModelError("the stop words are no words")
    try:
        groups = re.compile(words.token_pattern or "").groups
    except (re.error, RecursionError, OverflowError):
        raise ModelError("the token pattern is no regular expression") from None
    if groups > 1:
        raise ModelError("the token pattern has more than one group")


def _are_numbers(values, shape: tuple[int, ...]) -> bool:
    return values.dtype.kind == "f" and values.shape == shape


def _are_curves(values, parts: int) -> bool:
    """(a, b), or scores that rise and their probabilities."""
    return len(values) == parts and all(
        curve.dtype == np.float64
        and bool(np.all(np.isfinite(curve)))
        and curve.shape[0] == 2
        and (curve.ndim == 1 or (curve.ndim == 2 and curve.size > 0 and bool(np.all(np.diff(curve[0]) >= 0))))
        for curve in values
    )


def _are_members(model) -> bool:
    """Models like this one, each with curves; what else they must be is checked as of every model in the file."""
    return len(model.ensemble_) > 0 and all(
        type(each) is type(model)
        and hasattr(each, "calibration_")
        and not hasattr(each, "ensemble_")
        and each.n_features_in_ == model.n_features_in_
        and each.multi_class == model.multi_class
        and np.array_equal(each.classes_, model.classes_)
        for each in model.ensemble_
    )


def _are_places(values: np.ndarray, length: int, end: int) -> bool:
    inside = values.dtype.kind == "i" and values.shape == (length,)
    return inside and bool(np.all((values >= 0) & (values < end)))


class Kind(NamedTuple):
    """What a file may hold: how a fitted one is known, what checks it, and whether it is only part of another."""

    fitted_by: str | None  # an attribute; None where the parts tell
    check: Callable[[Any], None]
    inner: bool = False


KINDS: dict[type, Kind] = {
    LinearSVC: Kind("intercept_", _check_linear),
    SVC: Kind("intercept_", _check_kernel),
    OrdinalSVC: Kind("model_", _check_ordinal),
    Pipeline: Kind(None, _check_pipeline),
    StandardScaler: Kind("scale_", _check_scaler, inner=True),
    LinearBoundaries: Kind("intercept_", _check_linear, inner=True),
    KernelBoundaries: Kind("intercept_", _check_kernel, inner=True),
    LinearShared: Kind("intercept_", _check_linear_shared, inner=True),
    KernelShared: Kind("intercept_", _check_kernel_shared, inner=True),
}
_KINDS_SAVED = " or ".join(kind.__name__ for kind, facts in KINDS.items() if not facts.inner)
