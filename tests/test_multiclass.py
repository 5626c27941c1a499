"""More than two classes: which binary problems they become, and how their scores become an answer."""

from itertools import combinations

import numpy as np
import pytest
from sklearn.utils.multiclass import _ovr_decision_function

from primalsvm.multiclass import join, split

every_count = pytest.mark.parametrize("n_classes", [2, 3, 5])
every_way = pytest.mark.parametrize("multi_class", ["ovr", "ovo"])


def names(n_classes):
    return np.array(["ant", "bee", "cat", "dog", "emu"])[:n_classes]


def some_labels(n_classes, n=40):
    labels = np.random.default_rng(0).integers(0, n_classes, n)
    labels[:n_classes] = np.arange(n_classes)
    return labels


# --- split ------------------------------------------------------------------------------------------------------------


@every_way
def test_two_classes_are_one_problem(multi_class):
    labels = np.array([0, 1, 1, 0])
    (part,) = split(labels, names(2), multi_class)
    assert part.rows is None
    assert part.y.tolist() == [-1.0, 1.0, 1.0, -1.0]  # classes[1] is +1
    assert part.name == "bee against ant"


@pytest.mark.parametrize("n_classes", [3, 5])
def test_one_against_the_rest(n_classes):
    labels = some_labels(n_classes)
    parts = split(labels, names(n_classes), "ovr")
    assert len(parts) == n_classes
    for k, part in enumerate(parts):
        assert part.rows is None
        np.testing.assert_array_equal(part.y == 1, labels == k)
        np.testing.assert_array_equal(part.y == -1, labels != k)
        assert part.name == f"{names(n_classes)[k]} against the rest"


@pytest.mark.parametrize("n_classes", [3, 5])
def test_one_against_one(n_classes):
    labels = some_labels(n_classes)
    parts = split(labels, names(n_classes), "ovo")
    pairs = list(combinations(range(n_classes), 2))  # scikit-learn's and LIBSVM's order
    assert len(parts) == len(pairs)
    for (j, k), part in zip(pairs, parts, strict=True):
        np.testing.assert_array_equal(labels[part.rows], np.where(part.y == 1, j, k))  # j is +1, k is -1
        assert len(part.rows) == np.sum((labels == j) | (labels == k))  # all of theirs, and only theirs
        assert part.name == f"{names(n_classes)[j]} against {names(n_classes)[k]}"


@every_count
@every_way
def test_labels_are_signs(n_classes, multi_class):
    for part in split(some_labels(n_classes), names(n_classes), multi_class):
        assert part.y.dtype == np.float64
        assert set(part.y) == {-1.0, 1.0}


# --- join -------------------------------------------------------------------------------------------------------------


@every_way
def test_two_classes_keep_their_scores(multi_class):
    assert join(np.array([[1.5], [-2.0]]), 2, multi_class).tolist() == [1.5, -2.0]


def test_one_against_the_rest_keeps_its_scores():
    scores = np.random.default_rng(0).normal(size=(6, 3))
    np.testing.assert_array_equal(join(scores, 3, "ovr"), scores)


def pairwise_wins(scores, n_classes):
    """votes[i, k]: how many classes k beats on sample i; a score of zero is the second class's, as in LIBSVM."""
    wins = np.zeros((len(scores), n_classes))
    for column, (j, k) in zip(scores.T, combinations(range(n_classes), 2), strict=True):
        for i, score in enumerate(column):
            wins[i, j if score > 0 else k] += 1
    return wins


@pytest.mark.parametrize("n_classes", [3, 5])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e12])
def test_votes_decide_before_confidence_does(n_classes, scale):
    scores = scale * np.random.default_rng(0).normal(size=(200, n_classes * (n_classes - 1) // 2))
    votes = pairwise_wins(scores, n_classes)
    decision = join(scores, n_classes, "ovo")
    assert decision.shape == (200, n_classes)
    assert (np.abs(decision - votes) <= 1 / 3).all()
    np.testing.assert_array_equal(np.round(decision), votes)


def test_confidence_breaks_a_tie():
    # ant beats bee by 1, cat beats ant by 4, bee beats cat by 2: a vote each; sums 1 - 4, -1 + 2, 4 - 2
    decision = join(np.array([[1.0, -4.0, 2.0]]), 3, "ovo")
    np.testing.assert_array_equal(np.round(decision), [[1, 1, 1]])
    assert np.argsort(decision[0]).tolist() == [0, 1, 2]


def test_a_score_of_zero_is_the_second_classs_vote():
    """As in LIBSVM, and as with two classes, where a score must be positive to be classes[1]'s."""
    np.testing.assert_array_equal(join(np.zeros((1, 3)), 3, "ovo"), [[0.0, 1.0, 2.0]])


def test_equal_scores_are_equal_votes():
    """A full circle with equal scores: nobody is preferred."""
    decision = join(np.array([[1.0, -1.0, 1.0]]), 3, "ovo")
    np.testing.assert_array_equal(decision, [[1.0, 1.0, 1.0]])


@pytest.mark.parametrize("n_classes", [3, 5])
def test_one_against_one_is_what_scikit_learn_makes_of_it(n_classes):
    scores = np.random.default_rng(1).normal(size=(100, n_classes * (n_classes - 1) // 2))
    theirs = _ovr_decision_function(scores < 0, -scores, n_classes)
    np.testing.assert_allclose(join(scores, n_classes, "ovo"), theirs, rtol=1e-12)


@every_count
@every_way
def test_perfect_scores_give_the_labels_back(n_classes, multi_class):
    """Every part scores its own samples with their sign, and those of others with anything."""
    labels = some_labels(n_classes)
    parts = split(labels, names(n_classes), multi_class)
    scores = np.random.default_rng(0).normal(size=(len(labels), len(parts)))
    for column, part in enumerate(parts):
        scores[slice(None) if part.rows is None else part.rows, column] = part.y
    decision = join(scores, n_classes, multi_class)
    answer = (decision > 0).astype(int) if n_classes == 2 else decision.argmax(axis=1)
    np.testing.assert_array_equal(answer, labels)
