r"""Sentiment of movie phrases: Tables 2, 3 and 4 of Duros and Katzman on the same data, and what linear SVMs can do.

    python -m benchmarks.phrases [--data-home DIR] [--only 2,3,4,race,choice] [--rounds 10] [--toy]

The data are the 156060 phrases of Kaggle's 'Sentiment Analysis on Movie Reviews', labels 0 to 4, as bags of words.
Two classes: above 2, or not. 73.0 % of the phrases are of the lower class, so that the paper's 73.3 % is that class.

    2       seconds of Newton's method on the first 1000, 2000, ... phrases. The paper's has an RBF kernel, and gave up
            at 16000; the linear one, which it calls the better choice in hindsight, has all phrases here
    3       its algorithms on all phrases; several classes are adjacent pairs and the table of their signs, as in 3.1
    4       the same on the first 1000 phrases
    race    fits at C = 0.1 beside scikit-learn's LinearSVC and SGDClassifier, a thread each, seconds of whole rounds
    choice  C chosen in each round by holding out a tenth of its training part; one-vs-rest, pairs and OrdinalSVC

Every table has the class that most phrases have, and is made twice: by random rounds of 90/10, as in the paper, and
with all phrases of a sentence on one side. A phrase and its parts are near copies, so random rounds test on what they
trained on. The vocabulary is that of all phrases: a bag of words looks at no label, and a word that training never saw
has no weight. Lines go to --jsonl, tables to --report.
"""

import argparse
import json
import lzma
import os
import warnings
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import GridSearchCV, GroupShuffleSplit, ShuffleSplit
from sklearn.svm import LinearSVC as Liblinear

from primalsvm import SVC, LinearSVC, OrdinalSVC, evaluate
from primalsvm.evaluation import MAJORITY, Evaluation
from primalsvm.text import bag_of_words

from . import ROOT, commit, data_home, timed
from .linear import words

CS = [0.03, 0.1, 0.3, 1.0]
PROTOCOLS = ("random", "sentence")
NEWTON_SECONDS = {1000: 24, 2000: 107, 4000: 410, 8000: 1665, 16000: 6805}  # the paper's Table 2
PAPER = {  # accuracy and seconds of Tables 3 and 4: (table, algorithm, classes, features)
    (3, "gradient descent", 2, "binary"): (0.7328, 184),
    (3, "gradient descent", 5, "binary"): (0.5119, 300),
    (3, "Pegasos", 2, "binary"): (0.7319, 140),
    (3, "Pegasos", 2, "count"): (0.7312, 67),
    (3, "Pegasos", 5, "binary"): (0.5142, 120),
    (3, "Pegasos", 5, "count"): (0.5141, 122),
    (4, "gradient descent", 2, "binary"): (0.8343, 1),
    (4, "gradient descent", 2, "count"): (0.8404, 1),
    (4, "gradient descent", 5, "binary"): (0.6979, 2),
    (4, "gradient descent", 5, "count"): (0.6929, 3),
    (4, "Pegasos", 2, "binary"): (0.8485, 2),
    (4, "Pegasos", 2, "count"): (0.8485, 3),
    (4, "Pegasos", 5, "binary"): (0.7061, 1),
    (4, "Pegasos", 5, "count"): (0.7172, 1),
    (4, "Newton, rbf", 2, "binary"): (0.7959, 470),
    (4, "Newton, rbf", 5, "binary"): (0.6828, 537),
}
BARS = {(2, "random"): 86.0, (2, "sentence"): 81.5, (5, "random"): 64.5, (5, "sentence"): 58.0}
SCIKIT_LEARN = "scikit-learn LinearSVC"


class Phrases(NamedTuple):
    texts: list[str]
    labels: np.ndarray  # 0 ... 4
    sentences: np.ndarray

    def y(self, classes: int) -> np.ndarray:
        return self.labels if classes == 5 else (self.labels > 2).astype(int)

    def first(self, n: int) -> "Phrases":
        return Phrases(self.texts[:n], self.labels[:n], self.sentences[:n])

    def X(self, features: str) -> sp.csr_matrix:
        return bag_of_words(features).fit_transform(self.texts)


def read(home: Path) -> Phrases:
    with lzma.open(home / "rotten_tomatoes/train.tsv.xz", "rt", encoding="utf-8", newline="\n") as file:
        rows = [line.rstrip("\r\n").split("\t") for line in file][1:]
    _, sentences, texts, labels = zip(*rows, strict=True)
    return Phrases(list(texts), np.array(labels, dtype=int), np.array(sentences, dtype=int))


def made_up(n: int = 600) -> Phrases:
    """Sentences of words that are good, bad or neither, each with two of its parts."""
    rng = np.random.default_rng(0)
    value = np.concatenate([np.full(20, -1), np.zeros(40), np.full(20, 1)]).astype(int)
    texts, labels, sentences = [], [], []
    for sentence in range(n // 3):
        whole = rng.integers(0, len(value), 6)
        for part in (whole, whole[:4], whole[3:]):
            texts.append(" ".join(f"w{word}" for word in part))
            labels.append(int(np.clip(np.sum(value[part]), -2, 2)) + 2)
            sentences.append(sentence)
    return Phrases(texts, np.array(labels), np.array(sentences))


# --- the models -------------------------------------------------------------------------------------------------------


def of_paper(classes: int, kernels: bool) -> dict[str, Any]:
    """Its algorithms by our solvers. Where it has several classes, it has adjacent pairs and the table."""
    models: dict[str, Any] = {
        "gradient descent": LinearSVC(C=0.1, solver="gradient_descent", max_iter=100),
        "Pegasos": LinearSVC("hinge", C=0.3, solver="pegasos", max_iter=10),
        "Newton, linear": LinearSVC(C=0.1, solver="newton"),
    }
    if kernels:
        models["Newton, rbf"] = SVC("rbf", loss="squared_hinge", solver="newton")
    return models if classes == 2 else {name: OrdinalSVC(m, strategy="adjacent") for name, m in models.items()}


def racers() -> dict[str, Any]:
    return {"primalsvm LinearSVC": LinearSVC(C=0.1), SCIKIT_LEARN: Liblinear(C=0.1), "SGDClassifier": SGDClassifier()}


def chosen(classes: int, protocol: str, jobs: int) -> dict[str, Any]:
    """C by the same protocol inside the training part."""
    split = (GroupShuffleSplit if protocol == "sentence" else ShuffleSplit)(1, test_size=0.1, random_state=0)

    def search(model) -> GridSearchCV:
        name = "estimator__C" if isinstance(model, OrdinalSVC) else "C"
        return GridSearchCV(model, {name: CS}, cv=split)

    base = LinearSVC(n_jobs=jobs)
    if classes == 2:
        return {"LinearSVC": search(base)}
    models = {"one-vs-rest": base, "one-vs-one": clone(base).set_params(multi_class="ovo")}
    models |= {f"OrdinalSVC {s}": OrdinalSVC(base, strategy=s) for s in ("adjacent", "cumulative", "shared")}
    return {name: search(model) for name, model in models.items()}


# --- the tables -------------------------------------------------------------------------------------------------------


class Book:
    """Prints tables and keeps them, with a JSON line for each row."""

    def __init__(self, options):
        self.options, self.tables, self.lines = options, [], []

    def say(self, text: str) -> None:
        print(text, flush=True)
        self.tables.append(text)

    def keep(self, **line) -> None:
        self.lines.append({"commit": commit(), **line})

    def table(self, title: str, header: list[str], rows: list[list[str]]) -> None:
        lines = [f"\n### {title}\n", f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
        self.say("\n".join(lines + [f"| {' | '.join(row)} |" for row in rows]))

    def close(self) -> None:
        for path, text in (
            (self.options.jsonl, "".join(json.dumps(line) + "\n" for line in self.lines)),
            (self.options.report, "\n".join(self.tables) + "\n"),
        ):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def rounds(models: dict[str, Any], X, phrases: Phrases, classes: int, protocol: str, options) -> Evaluation:
    groups = phrases.sentences if protocol == "sentence" else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what did not converge shows its gap in the table
        return evaluate(models, X, phrases.y(classes), rounds=options.rounds, groups=groups)


def figures(found: Evaluation, model: str) -> dict[str, Any]:
    """Means, the spread of the accuracy, and the largest gap of all rounds."""
    summary = found.summary()[model]
    means = {measure: spread.mean for measure, spread in summary.items()}
    worst = float(np.max(found.values(model, "relative_gap")))
    return means | {"deviation": summary["accuracy"].deviation, "relative_gap": worst}


def cells(f: dict[str, Any]) -> list[str]:
    spread = "" if np.isnan(f["deviation"]) else f" ± {100 * f['deviation']:.2f}"
    error = f"{f['mean_absolute_error']:.3f}" if "mean_absolute_error" in f else ""
    gap = "-" if np.isnan(f["relative_gap"]) else f"{f['relative_gap']:.0e}"
    return [f"{100 * f['accuracy']:.2f}{spread}", f"{100 * f['macro_f1']:.1f}", error, f"{f['fit_seconds']:.2f}", gap]


COLUMNS = ["accuracy %", "macro-F1 %", "abs. error", "fit s", "worst gap"]


def table_2(phrases: Phrases, book: Book, options) -> None:
    y, X, rows = phrases.y(2), phrases.X("binary"), []
    n = len(y)
    sizes = [m for m in NEWTON_SECONDS if m <= n] + ([n] if n not in NEWTON_SECONDS else [])
    LinearSVC(solver="newton").fit(X[:300], y[:300])
    SVC(loss="squared_hinge", solver="newton").fit(X[:300], y[:300])  # compiled
    for m in sizes:
        line: dict[str, Any] = {"table": 2, "rows": m, "paper": NEWTON_SECONDS.get(m)}
        model, line["linear"], _ = timed(lambda m=m: LinearSVC(C=0.1, solver="newton").fit(X[:m], y[:m]))
        line["linear_gap"] = model.certificate_.relative_gap
        if m <= max(NEWTON_SECONDS):
            kernel = SVC("rbf", loss="squared_hinge", solver="newton", memory_limit=6e9, n_jobs=options.threads)
            model, line["rbf"], _ = timed(lambda m=m, kernel=kernel: kernel.fit(X[:m], y[:m]))
            line["rbf_gap"] = model.certificate_.relative_gap
        book.keep(**line)
        paper = f"{line['paper']}" if line["paper"] else "gave up"
        rbf = [f"{line['rbf']:.2f}", f"{line['rbf_gap']:.0e}"] if "rbf" in line else ["", ""]
        rows.append([str(m), paper, *rbf, f"{line['linear']:.3f}", f"{line['linear_gap']:.0e}"])
    header = ["phrases", "paper, rbf, s", "ours, rbf, s", "proven gap", "ours, linear, s", "proven gap"]
    book.table("Table 2: Newton's method, two classes", header, rows)


def table_of_paper(number: int, phrases: Phrases, book: Book, options) -> None:
    for protocol in PROTOCOLS:
        rows = []
        for features in ("binary", "count"):
            X = phrases.X(features)
            for classes in (2, 5):
                found = rounds(of_paper(classes, number == 4), X, phrases, classes, protocol, options)
                for model in found.models:
                    f = figures(found, model)
                    paper = PAPER.get((number, model, classes, features), (None, None))
                    facts = {"table": number, "protocol": protocol, "features": features, "classes": classes}
                    book.keep(**facts, model=model, paper=paper, **f)
                    said = [f"{100 * paper[0]:.2f}", str(paper[1])] if paper[0] else ["", ""]
                    rows.append([model, str(classes), features, *said, *cells(f)])
        header = ["algorithm", "classes", "features", "paper %", "paper s", *COLUMNS]
        what = "all phrases" if number == 3 else f"the first {len(phrases.labels)} phrases"
        book.table(f"Table {number}: {what}, {options.rounds} rounds, split: {protocol}", header, rows)


def race(phrases: Phrases, book: Book, options) -> None:
    X, rows = phrases.X("binary"), []
    for classes in (2, 5):
        found = rounds(racers(), X, phrases, classes, "random", options)
        spent = {m: found.values(m, "fit_seconds") + found.values(m, "predict_seconds") for m in found.models}
        for model in found.models:
            f, total = figures(found, model), float(np.sum(spent[model]))
            ratio = float(np.sum(spent[SCIKIT_LEARN]) / total)
            book.keep(table="race", classes=classes, model=model, seconds=total, ratio=ratio, **f)
            faster = "" if model in (SCIKIT_LEARN, MAJORITY) else f"{ratio:.1f}"
            rows.append([model, str(classes), *cells(f), f"{total:.1f}", faster])
    header = ["model", "classes", *COLUMNS, f"s of {options.rounds} rounds", "times as fast (bar 2)"]
    book.table(f"Whole rounds at C = 0.1, a thread each, {options.rounds} rounds", header, rows)


def choice(phrases: Phrases, book: Book, options) -> None:
    X = phrases.X("binary")
    for protocol in PROTOCOLS:
        rows = []
        for classes in (2, 5):
            found = rounds(chosen(classes, protocol, options.threads), X, phrases, classes, protocol, options)
            for model in found.models:
                f = figures(found, model)
                book.keep(table="choice", protocol=protocol, classes=classes, model=model, **f)
                bar = f"{BARS[classes, protocol]}" if model == found.best() else ""
                rows.append([model, str(classes), *cells(f), bar])
        header = ["model", "classes", *COLUMNS, "bar %"]
        book.table(f"C chosen inside the training part, {options.rounds} rounds, split: {protocol}", header, rows)


def parse(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.phrases", description=__doc__.splitlines()[0])
    parser.add_argument("--data-home", default=None)
    parser.add_argument("--only", type=words, default=("2", "3", "4", "race", "choice"), help="2, 3, 4, race, choice")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2, help="of the tables that are no race")
    parser.add_argument("--jsonl", type=Path, default=ROOT / "output" / "bench-phrases" / "rows.jsonl")
    parser.add_argument("--report", type=Path, default=ROOT / "output" / "bench-phrases" / "tables.md")
    parser.add_argument("--toy", action="store_true", help="made-up phrases, two rounds")
    options = parser.parse_args(arguments)
    if options.toy:
        options.rounds = min(options.rounds, 2)
    return options


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    phrases = made_up() if options.toy else read(data_home(options.data_home))
    book = Book(options)
    tables = {
        "2": lambda: table_2(phrases, book, options),
        "3": lambda: table_of_paper(3, phrases, book, options),
        "4": lambda: table_of_paper(4, phrases.first(1000), book, options),
        "race": lambda: race(phrases, book, options),
        "choice": lambda: choice(phrases, book, options),
    }
    try:
        for name in options.only:
            tables[name]()
    finally:  # Ctrl-C keeps the tables that are finished
        book.close()


if __name__ == "__main__":
    main()
