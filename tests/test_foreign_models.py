"""LIBLINEAR's and LIBSVM's models as estimators, against what LIBSVM itself predicts."""

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from primalsvm import expansion
from primalsvm.foreign_models import as_estimator
from primalsvm.model_files import read_model_file
from primalsvm.multiclass import join

FIXTURES = Path(__file__).parent / "fixtures"
EXPECTED = json.loads((FIXTURES / "libsvm_expected.json").read_text())


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("name", EXPECTED)
def test_libsvm(name, make, monkeypatch):
    """Its scores, pair by pair, in our order and with our signs; its labels, but for ties between votes."""
    monkeypatch.setattr(expansion, "LEAST", 1)  # a tile for each class, few as the vectors are
    expected = EXPECTED[name]
    X, labels = np.array(expected["X"]), expected["labels"]
    model = as_estimator(read_model_file(FIXTURES / f"libsvm_{name}.model"))
    theirs = dict(zip(combinations(labels, 2), np.array(expected["scores"]).T, strict=True))
    theirs |= {(second, first): -scores for (first, second), scores in theirs.items()}
    pairs = list(combinations(sorted(labels), 2)) if len(labels) > 2 else [tuple(sorted(labels, reverse=True))]
    scores = np.column_stack([theirs[pair] for pair in pairs])
    decision = model.decision_function(make(X))
    np.testing.assert_allclose(decision, join(scores, len(labels), "ovo"), atol=1e-6)
    votes = np.sort(np.round(decision), axis=-1)
    clear = np.full(len(X), True) if len(labels) == 2 else votes[:, -1] > votes[:, -2]
    np.testing.assert_array_equal(model.predict(make(X))[clear], np.array(expected["predicted"])[clear])
    assert clear.mean() > 0.7


def test_liblinear(tmp_path):
    """score = 1.5 x_1 - 0.5 x_2 + 0.25, positive for the first label of the file."""
    text = "solver_type L2R_L2LOSS_SVC\nnr_class 2\nlabel 1 -1\nnr_feature 2\nbias 1\nw\n1.5 \n-0.5 \n0.25 \n"
    (tmp_path / "model").write_text(text)
    model = as_estimator(read_model_file(tmp_path / "model"))
    np.testing.assert_array_equal(model.decision_function([[1.0, 0.0], [0.0, 1.0]]), [1.75, -0.25])
    np.testing.assert_array_equal(model.predict([[1.0, 0.0], [0.0, 1.0]]), [1, -1])
