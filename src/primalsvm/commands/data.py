"""What the commands share: reading data for a model, loading and fitting models, and the facts of a report."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..console import say, short_list

if TYPE_CHECKING:
    import numpy as np

    from ..certificate import Certificate
    from ..linear_svc import LinearSVC
    from ..readers import Data
    from ..svc import SVC


UNEVEN = 30.0  # the widest column over the median of all
SOME = 10_000  # rows that tell how wide the columns are


def memory_bytes(limit: str | None) -> float:
    """The --memory-limit as a number."""
    from ..kernel_matrix import MEMORY_LIMIT

    size = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)(?:i?B)?", limit or f"{MEMORY_LIMIT}", re.IGNORECASE)
    if not size:
        raise ValueError(f"memory_limit must be a size such as 500M or 2G, got {limit!r}.")
    return float(size[1]) * 1024 ** " KMGT".index(size[2].upper() or " ")


def load_model(path: Path) -> Any:
    """A model of ours, LinearSVC, SVC or a pipeline of texts, or another program's as one of ours."""
    from ..foreign_models import as_estimator
    from ..model_files import looks_like_model_file, read_model_file
    from ..persistence import load

    return load(path) if looks_like_model_file(path) is None else as_estimator(read_model_file(path))


class Before(NamedTuple):
    """What is done to the data before the classifier sees it: at most one of the two."""

    words: Any = None  # makes features of texts
    scaler: Any = None  # standardizes the features


def split_model(model: Any) -> tuple[Before, Any]:
    if not hasattr(model, "steps"):
        return Before(), model
    return Before(model[0]) if hasattr(model[0], "vocabulary_") else Before(scaler=model[0]), model[-1]


def solved(model: Any) -> Any:
    """The LinearSVC or SVC that has the problem and its answer: the model, or of an OrdinalSVC the one inside."""
    return getattr(model, "model_", model)


def has_kernel(model: Any) -> bool:
    return hasattr(solved(model), "kernel_")


def widened(model: Any, width: int) -> Any:
    """The model for data with more features: a kernel sees them, and the support vectors are zero there."""
    if not has_kernel(model) or width <= model.n_features_in_:
        return model
    from copy import copy

    from scipy.sparse import csr_array

    if solved(model) is not model:
        outer = copy(model)
        outer.model_ = widened(solved(model), width)
        return outer
    vectors = csr_array(model.support_vectors_, copy=True)
    vectors.resize((vectors.shape[0], width))
    wide = copy(model)
    wide.support_vectors_, wide.n_features_in_ = vectors, width
    if hasattr(model, "ensemble_"):
        wide.ensemble_ = [widened(each, width) for each in model.ensemble_]
    return wide


def feature_names(model: Any) -> tuple[str, ...] | None:
    return tuple(model.feature_names_in_) if hasattr(model, "feature_names_in_") else None


def read_both(
    data: Path, test: Path | None, before: Before, keep: bool, labels: Path | None, test_labels: Path | None, **reading
) -> tuple[Data, Data | None]:
    """What a model is to be trained on, and tested. Words learn their vocabulary here, a scaler its means."""
    words, scaler = before
    if words is not None:
        training = read_documents(data, words, fit=True, labels=labels, **reading)
        return training, None if test is None else read_documents(test, words, labels=test_labels, **reading)
    from ..readers import read_data

    training, testing = read_data(data, labels=labels, **reading), None
    if test is not None:
        width, names = training.X.shape[1], training.feature_names
        testing = read_for(test, width, names, keep and scaler is None, labels=test_labels, **reading)
    if scaler is not None:
        training = scaled(scaler, training, fit=True)
        testing = None if testing is None else scaled(scaler, testing)
    return training, testing


def read_for_model(
    path: Path, before: Before, model: Any, *, text: str | None, encoding: str | None, **reading
) -> Data:
    """Read data for a model, whose features it has, or texts, of which words make them."""
    words, scaler = before
    check_text_options(words, text, encoding)
    if words is None:
        if scaler is None:
            return read_for(path, model.n_features_in_, feature_names(model), has_kernel(model), **reading)
        names = feature_names(scaler) or feature_names(model)  # in a pipeline of scikit-learn the first step has them
        return scaled(scaler, read_for(path, scaler.n_features_in_, names, False, **reading))
    from ..text import find_column

    if text is None and (names := feature_names(words)):
        text = find_column(path, names[0], reading["format"])
    return read_documents(path, words, text=text, encoding=encoding, **reading)


def make_before(standardize: bool, text: str | None, *args, **options) -> Before:
    """What the options of a command describe."""
    words = make_words(text, *args, **options)
    if standardize and words is not None:
        raise ValueError("--standardize goes with columns of numbers; of words take --features tfidf.")
    from sklearn.preprocessing import StandardScaler

    return Before(words, StandardScaler() if standardize else None)


def scaled(scaler: Any, data: Data, fit: bool = False) -> Data:
    """The data with columns of mean 0 and deviation 1; sparse ones keep their zeros, and are only divided."""
    from ..chunks import Chunks
    from ..readers import Data

    X: Any = data.X
    sparse = X.sparse if isinstance(X, Chunks) else hasattr(X, "indptr")
    if fit:
        scaler.set_params(with_mean=not sparse)
        for piece in (piece for _, piece in X.pieces()) if isinstance(X, Chunks) else (X,):
            scaler.partial_fit(piece)
        if data.feature_names:
            scaler.feature_names_in_ = as_names(data.feature_names)
    elif sparse and scaler.with_mean:
        raise ValueError("the model was trained on a dense file, whose means it subtracts; this one is sparse.")
    if isinstance(X, Chunks):
        X = X.map(lambda piece: quietly(scaler.transform, piece), X.shape[1], row_bytes=0)
    else:
        X = quietly(scaler.transform, X)
    return Data(X, data.y, data.feature_names)


def check_text_options(words: Any, text: str | None, encoding: str | None) -> None:
    if words is None and (text is not None or encoding is not None):
        option = "--encoding" if text is None else "--text"
        raise ValueError(f"{option} goes with a model of texts, and this is one of numbers; leave it out.")


def make_words(text: str | None, encoding: str | None, memory_limit: str | None = None, **options) -> Any:
    """The vectorizer that the options of train and tune describe; None where they are not about text."""
    given = {name: value for name, value in options.items() if value is not None}
    if text is None:
        if given or encoding is not None:
            option = next(iter(given), "encoding").replace("_", "-")
            raise ValueError(f"--{option} goes with text; say which column has it with --text, or leave it out.")
        return None
    if memory_limit is not None:
        raise ValueError("--memory-limit goes with rows of numbers or a kernel; text is read as a whole: leave it out.")
    from ..text import bag_of_words

    return bag_of_words(**given)


def read_documents(path: Path, words: Any, *, fit: bool = False, **reading) -> Data:
    """Texts as features; where they are not fitted, words that the model does not know count for nothing."""
    from ..readers import Data
    from ..text import fit_words, read_texts, shown

    documents = read_texts(path, **reading)
    if fit:
        return Data(fit_words(words, documents, path), documents.y, None)
    X = words.transform(documents.texts)
    if unknown := int((X.getnnz(axis=1) == 0).sum()):
        say(f"note: {shown(path)}: {unknown} of {X.shape[0]} texts have no word that the model knows")
    return Data(X, documents.y, None)


def whole_model(before: Before, model: Any) -> Any:
    """What is saved: the model, and what is done to the data before."""
    steps = [(name, step) for name, step in before._asdict().items() if step is not None]
    if not steps:
        return model
    from sklearn.pipeline import Pipeline

    return Pipeline([*steps, ("svm", model)])


def read_for(path: Path, width: int | None, names: tuple[str, ...] | None, keep: bool, **reading) -> Data:
    """Read data for a model of `width` features called `names`; its columns are brought into the model's order.

    svmlight files leave trailing zero columns out. A column that the training never saw has weight zero in a linear
    model; one with a kernel must see it (`keep`).
    """
    from scipy.sparse import issparse

    from ..chunks import Chunks
    from ..readers import Data, DataError, columns_of, read_data

    if names and (found := columns_of(path, reading.get("format"))):
        missing, others = [name for name in names if name not in found], [name for name in found if name not in names]
        if missing and len(missing) < len(names):
            unknown = f"; unknown to the model: {short_list(others)}" if others else ""
            raise ValueError(f"{path}: columns of the model are not there: {short_list(missing)}{unknown}.")
        if reading.get("label") is None and len(others) == 1 and len(found) == len(names) + 1:
            reading["label"] = others[0]  # the column that is none of the model's is that of the labels
    try:
        data = read_data(path, n_features=width, **reading)
    except DataError:
        wide = read_data(path, **reading)  # whatever else is wrong is raised again
        sparse = wide.X.sparse if isinstance(wide.X, Chunks) else issparse(wide.X)
        if width is None or not sparse or wide.X.shape[1] <= width:
            raise
        effect = "which are zero in its support vectors" if keep else "the others count for nothing"
        say(f"note: {path} has {wide.X.shape[1]} features, the model {width}; {effect}")
        return Data(wide.X if keep else _columns(wide.X, range(width)), wide.y, None)
    if not names or not data.feature_names or data.feature_names == names:
        return data
    if len(set(names)) < len(names) or sorted(data.feature_names) != sorted(names):
        odd = sorted(set(data.feature_names) - set(names)) or ["none, but some come twice"]
        raise ValueError(f"{path}: its columns are not the model's; unknown to the model: {short_list(odd)}.")
    order = [data.feature_names.index(name) for name in names]
    return Data(_columns(data.X, order), data.y, names)


def _columns(X: Any, columns: Sequence[int]) -> Any:
    """X[:, columns]"""
    from ..chunks import Chunks

    if not isinstance(X, Chunks):
        return X[:, columns]
    return X.map(lambda piece: piece[:, columns], len(columns), row_bytes=0)


def check_labels(path: Path, data: Data, classes: np.ndarray) -> None:
    """Words and numbers cannot be compared."""
    assert data.y is not None
    if (data.y.dtype.kind == "U") != (classes.dtype.kind in "UO"):
        raise ValueError(
            f"{path}: its labels ({data.y[0]}, ...) are not the model's: {short_list(label_texts(classes))}."
        )


def fit(model: Any, training: Data) -> tuple[float, list[str]]:
    """Fit; the seconds it took and the warnings. Ctrl-C ends it early, where there is a model to keep."""
    begin = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(training.X, training.y)
        except KeyboardInterrupt:
            if not hasattr(model, "certificate_"):
                raise
    if training.feature_names:
        solved(model).feature_names_in_ = as_names(training.feature_names)
    remarks = [" ".join(str(w.message).split()) for w in caught if issubclass(w.category, UserWarning)]
    return time.perf_counter() - begin, remarks


def as_names(names: Sequence[str]) -> np.ndarray:
    import numpy as np

    return np.array(names, dtype=object)


def uneven(data: Data, before: Before) -> list[str]:
    """A warning where one column is so much wider than the others that an SVM sees little else."""
    import numpy as np

    X: Any = data.X
    if before.scaler is not None or not isinstance(X, np.ndarray):
        return []
    spread = X[:: max(1, len(X) // SOME)].std(axis=0, dtype=np.float64)
    widest, middle = int(np.argmax(spread)), float(np.median(spread[spread > 0])) if spread.any() else 1.0
    if spread[widest] <= UNEVEN * middle:
        return []
    name = f"column {widest}" if data.feature_names is None else repr(data.feature_names[widest])
    return [
        f"{name} varies {spread[widest] / middle:.0f} times as much as a middling column, and counts for so much more; "
        "--standardize gives all the same weight."
    ]


def quietly(predict, X) -> np.ndarray:
    """predict(X), X being in the model's order already, which scikit-learn cannot see and would warn about."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        return predict(X)


def label_texts(labels: np.ndarray) -> list[str]:
    """Labels as text; 1.0 is 1."""
    return [str(int(x)) if isinstance(x, float) and x.is_integer() else str(x) for x in labels.tolist()]


def error_rate(model: LinearSVC | SVC, data: Data, found: np.ndarray | None = None) -> float | None:
    """The share of wrong predictions; None where the data has no labels, or none that the model knows."""
    import numpy as np

    if data.y is None:
        return None
    known = label_texts(model.classes_)

    def places(labels: np.ndarray) -> np.ndarray:
        """Among the model's; not by making a text of each."""
        some, inverse = np.unique(labels, return_inverse=True)
        return np.array([known.index(text) if text in known else -1 for text in label_texts(some)])[inverse]

    truth = places(data.y)
    if (truth < 0).all():
        return None
    if found is None:
        found = quietly(widened(model, data.X.shape[1]).predict, data.X)
    return float(np.mean(places(found) != truth))


def data_facts(path: Path, data: Data, before: Before) -> dict[str, Any]:
    facts = {"data": str(path), "rows": data.X.shape[0]}
    facts["features" if before.words is None else "words"] = data.X.shape[1]
    return facts | ({} if before.scaler is None else {"scaling": scaling(before)})


def scaling(before: Before) -> str | None:
    """What the scaler does, in words."""
    if before.scaler is None:
        return None
    means = "0" if before.scaler.with_mean else "as they are: the data are sparse"
    return f"columns of deviation 1, means {means}"


def reading_facts(data: Data) -> dict[str, Any]:
    """How the rows were read, where that was in pieces."""
    from ..chunks import Chunks

    if not isinstance(data.X, Chunks):
        return {}
    kept = f"those beyond {data.X.memory_limit / 2**20:.3g} MiB (--memory-limit) not kept in memory"
    return {"reading": f"in {len(data.X.bounds) - 1} pieces, {kept}", "passes": data.X.passes}


def kernel_facts(model: Any) -> dict[str, Any]:
    """The kernel and how many support vectors it has; nothing for linear models and other programs' files."""
    if not has_kernel(model):
        return {}
    model = solved(model)
    kernel = model.kernel_
    name = f"{kernel.name}, gamma {kernel.gamma:.6g}"
    if kernel.name == "poly":
        name += f", degree {kernel.degree}, coef0 {kernel.coef0:g}"
    facts = {"kernel": name, "support": len(model.support_)}
    if model.approximation is not None:
        facts["approximation"] = f"{model.approximation}; what is proven is about this basis, see certify"
        if hasattr(model, "full_certificate_"):
            facts["exact_gap"] = model.full_certificate_.relative_gap
    return facts


def class_counts_of(data: Data) -> dict[str, int]:
    import numpy as np

    assert data.y is not None
    labels, counts = np.unique(data.y, return_counts=True)
    return dict(zip(label_texts(labels), counts.tolist(), strict=True))


def class_counts(model: LinearSVC | SVC, data: Data) -> dict[str, int]:
    """In the model's order."""
    found = class_counts_of(data)
    return {label: found[label] for label in label_texts(model.classes_)}


def proof_facts(proof: Certificate) -> dict[str, Any]:
    facts: dict[str, Any] = {name: getattr(proof, name) for name in ("primal", "dual", "relative_gap", "excess")}
    facts["certificate"] = str(proof)
    return facts | ({"parts": [proof_facts(part) for part in proof.parts]} if proof.parts else {})
