"""Ordered classes: OrdinalSVC's strategies beside one-vs-rest and pairs, by mean absolute error.

    python -m benchmarks.ordinal [--data-home DIR] [--sets abalone,phrases] [--rounds 10] [--toy]

    abalone   the rings of 4177 shells in 5 bins of about equal size; linear and rbf models
    phrases   156060 phrases of movie reviews, sentiment 0 to 4, binary bags of words; the phrases of a sentence stay
              together; linear models

Random rounds of 90/10, the same for all. Each model chooses its C in every round by three folds of its training part,
or on the phrases by holding out a tenth of the sentences, for the least mean absolute error: the same rule for all.
Bar: the best strategy is no worse than the better of one-vs-rest and pairs.
"""

import argparse
import bz2
import json
import os
import warnings
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_svmlight_file
from sklearn.model_selection import GridSearchCV, GroupShuffleSplit

from primalsvm import SVC, LinearSVC, OrdinalSVC, evaluate

from . import ROOT, commit, data_home, phrases
from .linear import words

STRATEGIES = ("adjacent", "cumulative", "shared")
CS = {"abalone": [0.1, 1.0, 10.0, 100.0], "phrases": [0.03, 0.1, 0.3, 1.0], "toy": [1.0, 10.0]}


class Data(NamedTuple):
    X: Any
    y: np.ndarray
    groups: np.ndarray | None
    bases: dict[str, Any]


def abalone(home: Path, threads: int) -> Data:
    with bz2.open(home / "regression/abalone_scale.bz2") as file:
        X, rings = load_svmlight_file(file)
    y = np.digitize(rings, np.quantile(rings, [0.2, 0.4, 0.6, 0.8]))
    return Data(X.toarray(), y, None, {"linear": LinearSVC(n_jobs=threads), "rbf": SVC(gamma=1.0, n_jobs=threads)})


def movie_phrases(home: Path, threads: int) -> Data:
    read = phrases.read(home)
    return Data(read.X("binary"), read.labels, read.sentences, {"linear": LinearSVC(n_jobs=threads)})


def toy(_home: Path | None, _threads: int) -> Data:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 4))
    y = np.digitize(X[:, 0] + 0.3 * rng.standard_normal(200), [-1.0, -0.3, 0.3, 1.0])
    return Data(X, y, None, {"linear": LinearSVC(), "rbf": SVC()})


SETS = {"abalone": abalone, "phrases": movie_phrases, "toy": toy}


def models(name: str, data: Data) -> dict[str, GridSearchCV]:
    inner = 3 if data.groups is None else GroupShuffleSplit(1, test_size=0.1, random_state=0)
    plain: dict[str, Any] = {}
    for kind, base in data.bases.items():
        plain |= {f"{kind} one-vs-rest": clone(base).set_params(multi_class="ovr")}
        plain |= {f"{kind} one-vs-one": clone(base).set_params(multi_class="ovo")}
        plain |= {f"{kind} {strategy}": OrdinalSVC(base, strategy=strategy) for strategy in STRATEGIES}
    return {
        title: GridSearchCV(
            model,
            {"estimator__C" if isinstance(model, OrdinalSVC) else "C": CS[name]},
            cv=inner,
            scoring="neg_mean_absolute_error",
        )
        for title, model in plain.items()
    }


def verdict(found, kinds) -> list[str]:
    """For each kind of model, the best strategy against the better of the two that know no order."""
    lines = []
    for kind in kinds:
        error = {m: found.summary()[m]["mean_absolute_error"].mean for m in found.models if m.startswith(kind)}
        plain = min((m for m in error if "one-vs" in m), key=error.__getitem__)
        best = min((m for m in error if "one-vs" not in m), key=error.__getitem__)
        apart = found.compare("mean_absolute_error", to=plain)[best]
        lines.append(
            f"{best}: {error[best]:.4f}, {plain}: {error[plain]:.4f}, difference {apart.mean:+.4f} ± "
            f"{apart.error:.4f}; bar {'met' if error[best] <= error[plain] else 'missed'}"
        )
    return lines


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ordinal", description=__doc__.splitlines()[0])
    parser.add_argument("--data-home", default=None)
    parser.add_argument("--sets", type=words, default=("abalone", "phrases"))
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--jsonl", type=Path, default=ROOT / "output" / "bench-ordinal" / "rows.jsonl")
    parser.add_argument("--toy", action="store_true")
    options = parser.parse_args(arguments)
    if options.toy:
        options.sets, options.rounds = ("toy",), min(options.rounds, 2)
    home = None if options.toy else data_home(options.data_home)
    options.jsonl.parent.mkdir(parents=True, exist_ok=True)
    with open(options.jsonl, "w") as out:
        for name in options.sets:
            data = SETS[name](home, options.threads)  # type: ignore[arg-type]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what did not converge shows its gap in the table
                found = evaluate(models(name, data), data.X, data.y, rounds=options.rounds, groups=data.groups)
            print(f"\n{name}\n{found}", *verdict(found, data.bases), sep="\n", flush=True)
            for row in found.rows:
                print(json.dumps({"commit": commit(), "set": name, **row}), file=out)


if __name__ == "__main__":
    main()
