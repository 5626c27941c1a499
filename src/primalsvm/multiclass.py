"""More than two classes as several binary problems, and their scores back as one answer.

one-vs-rest: problem k is class k (+1) against all others (-1); one problem where there are two classes.
one-vs-one:  problem (j, k), j < k, is class j (+1) against class k (-1) on their samples only.

Where the classes have an order, a problem for each boundary between neighbours, those above it are +1:

adjacent:    class k + 1 against class k, on their samples only.
cumulative:  all classes above the boundary against all below it.
shared:      the same in one problem: every sample stands once for each boundary, see `ordinal_svc`.

With two classes all are the same: classes[1] is +1, as everywhere in scikit-learn.
"""

from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from .losses import Array

TRIFLE = 1e-12  # decisions so close may be rounded to the same
ORDERED = ("adjacent", "cumulative", "shared")


class Part(NamedTuple):
    """One binary problem: which samples it has (None: all) and their labels, and a name for messages."""

    rows: np.ndarray | None
    y: Array
    name: str

    def take(self, values: np.ndarray) -> np.ndarray:
        """Those of its samples, from the values of all."""
        return values if self.rows is None else values[self.rows]


def label_text(label) -> str:
    """A label in words; 1.0, as numbers from files are, is 1."""
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def split(labels: np.ndarray, classes: np.ndarray, multi_class: str) -> list[Part]:
    """The binary problems of `labels`, given as indices into `classes`."""
    names = list(map(label_text, classes))
    if len(names) == 2:
        return [Part(None, 2.0 * labels - 1.0, f"{names[1]} against {names[0]}")]
    if multi_class == "ovr":
        return [Part(None, np.where(labels == k, 1.0, -1.0), f"{c} against the rest") for k, c in enumerate(names)]
    if multi_class in ORDERED:
        return _split_ordered(labels, names, multi_class)
    parts = []
    members = np.split(np.argsort(labels, kind="stable"), np.cumsum(np.bincount(labels, minlength=len(classes)))[:-1])
    for j in range(len(names)):
        for k in range(j + 1, len(names)):
            rows = np.sort(np.concatenate([members[j], members[k]]))
            parts.append(Part(rows, np.where(labels[rows] == j, 1.0, -1.0), f"{names[j]} against {names[k]}"))
    return parts


def boundary_names(names: list[str], multi_class: str) -> list[str]:
    """What a positive score says at each boundary between classes in order."""
    if multi_class == "adjacent":
        return [f"{high} against {low}" for low, high in pairwise(names)]
    return [f"{name} or above" for name in names[1:]]


def _split_ordered(labels: np.ndarray, names: list[str], multi_class: str) -> list[Part]:
    parts = []
    for k, name in enumerate(boundary_names(names, multi_class), 1):
        if multi_class == "adjacent":
            rows = np.flatnonzero((labels == k) | (labels == k - 1))
            parts.append(Part(rows, np.where(labels[rows] == k, 1.0, -1.0), name))
        else:
            parts.append(Part(None, np.where(labels >= k, 1.0, -1.0), name))
    if multi_class == "shared":
        rows = np.tile(np.arange(len(labels)), len(parts))
        return [Part(rows, np.concatenate([part.y for part in parts]), "all boundaries")]
    return parts


def count_parts(n_classes: int, multi_class: str) -> int:
    """How many binary problems there are."""
    if multi_class == "ovo":
        return n_classes * (n_classes - 1) // 2
    return 1 if n_classes == 2 or multi_class == "shared" else n_classes - (multi_class in ORDERED)


def gather(vectors: list[Array], parts: list[Part], n: int) -> sp.csr_array:
    """One vector per binary problem, over the samples of that one, as the rows of a matrix over all n samples."""
    places, values = [], []
    for vector, part in zip(vectors, parts, strict=True):
        picked = np.flatnonzero(vector)
        places.append(picked if part.rows is None else part.rows[picked])
        values.append(vector[picked])
    ends = np.cumsum([0, *map(len, places)])
    return sp.csr_array((np.concatenate(values), np.concatenate(places), ends), shape=(len(parts), n))


def scatter(values: Array, places: np.ndarray, n: int) -> Array:
    """A vector over all n samples that is zero but in some places."""
    full = np.zeros(n)
    full[places] = values
    return full


def join(scores: Array, n_classes: int, multi_class: str) -> Array:
    """Scores (n, parts) as the decision function: (n,) for two classes, else (n, n_classes); of boundaries one each."""
    if n_classes == 2:
        return scores[:, 0]
    if multi_class == "ovr" or multi_class in ORDERED:
        return scores
    votes, confidence = _tally(scores, n_classes)
    # the confidences break ties between votes and never more: squashed into (-1/3, 1/3)
    return votes + confidence / (3 * (np.abs(confidence) + 1))


def _tally(scores: Array, n_classes: int) -> tuple[Array, Array]:
    """(how many others each class beats, the sum of its scores) for each sample."""
    votes, confidence = np.zeros((n_classes, len(scores))), np.zeros((n_classes, len(scores)))
    for score, (j, k) in zip(np.ascontiguousarray(scores.T), combinations(range(n_classes), 2), strict=True):
        wins = score > 0
        votes[j] += wins
        votes[k] += ~wins
        confidence[j] += score
        confidence[k] -= score
    return votes.T, confidence.T


def winners(scores: Array) -> np.ndarray:
    """The place of the class that a decision function names, for each sample."""
    return (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)


def sure_winners(scores: Array, error: Array, n_classes: int, multi_class: str) -> tuple[np.ndarray, np.ndarray]:
    """(the winner of each sample, whether it is so for all scores within the error): scores (n, parts), one for each
    class or pair of classes.

    Of one against one, whoever surely beats each of the others has more votes than any other can have. Others win
    surely if it is sure who wins each pair, and a tie between votes is broken by more than the errors add up to.
    """
    if n_classes == 2:
        return (scores[:, 0] > 0).astype(np.int64), np.abs(scores[:, 0]) > error[:, 0]
    samples = np.arange(len(scores))[:, None]
    if multi_class == "ovr":
        best = scores.argmax(axis=1)[:, None]
        others = scores + error
        others[samples, best] = -np.inf
        return best[:, 0], (scores - error)[samples, best][:, 0] > others.max(axis=1)
    best = join(scores, n_classes, multi_class).argmax(axis=1)
    first, second = np.triu_indices(n_classes, 1)
    own = np.array([np.flatnonzero((first == c) | (second == c)) for c in range(n_classes)])[best]  # pairs of the best
    leads = np.where(first[own] == best[:, None], 1.0, -1.0) * scores[samples, own]
    sure = (leads > error[samples, own]).all(axis=1)
    rest = np.flatnonzero(~sure)
    sure[rest] = _are_settled(scores[rest], error[rest], best[rest, None], n_classes)
    return best, sure


def _are_settled(scores: Array, error: Array, best: np.ndarray, n_classes: int) -> np.ndarray:
    """Is it sure who wins each pair, and by more than the errors who wins ties between votes?"""
    samples, doubt = np.arange(len(scores))[:, None], np.zeros((len(scores), n_classes))
    for part, (j, k) in enumerate(combinations(range(n_classes), 2)):
        doubt[:, j] += error[:, part]
        doubt[:, k] += error[:, part]
    votes, confidence = _tally(scores, n_classes)
    decision = join(scores, n_classes, "ovo")
    ahead = (confidence - doubt)[samples, best] > confidence + doubt
    ahead &= decision[samples, best] > decision + TRIFLE  # in float64 too
    behind = (votes < votes[samples, best]) | ((votes == votes[samples, best]) & ahead)
    behind[samples, best] = True
    return (np.abs(scores) > error).all(axis=1) & behind.all(axis=1)
