r"""Twins: samples that are the same but for their labels.

They keep an ascent that moves one alpha_i at a time waiting: what lifts one alpha_i pushes the other's margin down, and
each step of one undoes most of the other's. When both rise by the same t, f = sum alpha_i y_i phi(x_i) stays what it
is, and the balance sum alpha_i y_i too: D changes by r alone, and the best t is a formula,

    t = clip((2 tilt - s_i alpha_i - s_j alpha_j) / (s_i + s_j), -min(alpha), min(u c - alpha))        s = bend / c

which for the hinge, s = 0, is all the room there is. Posts to two newsgroups, phrases that two people have judged,
questionnaires with the same answers: real data have them, and a handful doubles the passes of an ascent.
"""

from typing import NamedTuple

import numpy as np

from .losses import Array
from .problem import Problem


class Twins(NamedTuple):
    """Position by position: the one with the label +1, and the one with -1. Nobody has two twins."""

    one: np.ndarray
    other: np.ndarray


def find_twins(problem: Problem, among: np.ndarray) -> Twins:
    """The twins among these samples, for two products with them at most.

    Rows of the same entries have products with the same bits. Others have the same product with a random vector one
    time in 2^52, and with two of them never, and the judge would notice.
    """
    if len(among) < 2:
        return Twins(among[:0], among[:0])
    rng = np.random.default_rng(0)
    kind = np.zeros(len(among), dtype=np.int64)  # those of a kind are neighbours
    for _ in range(2):
        key = problem.scores(rng.standard_normal(problem.size), among)
        order = np.lexsort((key, kind))
        among, key, kind = among[order], key[order], kind[order]
        same = (key[1:] == key[:-1]) & (kind[1:] == kind[:-1])  # as the one before
        kind = np.append(0, np.cumsum(~same))[: len(among)]
        several = np.append(same, False)[: len(among)] | np.append(False, same)[: len(among)]
        among, kind = among[several], kind[several]
    one, other = (np.flatnonzero(problem.y[among] == label) for label in (1.0, -1.0))
    plus, minus = (_name(kind[some], len(among)) for some in (one, other))
    _, first, second = np.intersect1d(plus, minus, assume_unique=True, return_indices=True)
    return Twins(among[one[first]], among[other[second]])


def _name(kind: np.ndarray, n: int) -> np.ndarray:
    """Of the k-th of a kind, for ascending kinds: the k-th of another label has the same."""
    return kind * (n + 1) + np.arange(len(kind)) - np.searchsorted(kind, kind)


def settle_twins(twins: Twins, alpha: Array, upper: Array, stiffness: Array, tilt: float) -> float:
    """Each pair of alpha_i moved to the best place, in place; what sum c_i r(alpha_i / c_i) has gained."""
    a, b = (alpha[some] for some in twins)
    gain = 2.0 * tilt - stiffness[twins.one] * a - stiffness[twins.other] * b
    bend = stiffness[twins.one] + stiffness[twins.other]
    room = np.minimum(upper[twins.one] - a, upper[twins.other] - b)
    t = np.divide(gain, bend, out=np.full_like(gain, np.inf), where=bend > 0.0)
    t = np.maximum(np.minimum(t, room), -np.minimum(a, b))
    alpha[twins.one] = np.minimum(a + t, upper[twins.one])
    alpha[twins.other] = np.minimum(b + t, upper[twins.other])
    return float(np.sum(t * (gain - 0.5 * bend * t)))
