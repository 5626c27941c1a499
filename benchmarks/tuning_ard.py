r"""TunedSVC against the best isotropic grid point: five useful features among fifty, and a real set.

    python -m benchmarks.tuning_ard [--rows N ...] [--seeds N] [--data-home DIR] [--toy]

The labels are signs of functions of the first five of 50 standard normal features:

    xor         x1 x2 + x3 x4 + x5
    products    x1 x2 + x3 x4 + x1 x5
    squares     x1^2 + ... + x5^2 - 4.35              (the median of the sum)
    noisy xor   xor, and one label in ten turned over, in the training set only

Errors are those on 5000 other samples, in %. "grid by CV" is scikit-learn's GridSearchCV of its own SVC over 6 values
of C and 7 of gamma, by 5 folds; "grid, best" the grid point that is best on the test set, which nobody can know; "one
gamma" TunedSVC(ard=False). "separation" is the least relevance of a useful feature over the largest of a useless one.
The real set is german.numer, standardised, in random halves: errors there are means over them.
"""

import argparse
import lzma
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from primalsvm.tuned_svc import TunedSVC

from . import data_folder

USEFUL = 5
FUNCTIONS = {
    "xor": lambda X: X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3] + X[:, 4],
    "products": lambda X: X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3] + X[:, 0] * X[:, 4],
    "squares": lambda X: np.sum(X[:, :USEFUL] ** 2, axis=1) - 4.35,
    "noisy xor": lambda X: X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3] + X[:, 4],
}
C_GRID = 10.0 ** np.arange(-1, 5)
GAMMA_GRID = 4.0 ** np.arange(-4, 3)  # over 1 / n_features


def draw(name: str, n: int, d: int, rng: np.random.Generator, *, test: bool) -> tuple[np.ndarray, np.ndarray]:
    X = rng.standard_normal((n, d))
    y = np.where(FUNCTIONS[name](X) > 0, 1, -1)
    return X, np.where(rng.random(n) < 0.1, -y, y) if name == "noisy xor" and not test else y


def compare(X, y, X_test, y_test, *, grid: int = 1) -> dict[str, float]:
    """Errors in % and seconds of the grid, of one gamma and of all; and what was found."""
    values = {"C": C_GRID[::grid], "gamma": GAMMA_GRID[::grid] / X.shape[1]}
    begin = time.perf_counter()
    search = GridSearchCV(SVC(), values, cv=5).fit(X, y)
    row = {"grid_seconds": time.perf_counter() - begin, "grid": 100 * (1 - search.score(X_test, y_test))}
    points = [SVC(C=C, gamma=gamma).fit(X, y) for C in values["C"] for gamma in values["gamma"]]
    row["best"] = 100 * (1 - max(point.score(X_test, y_test) for point in points))
    for key, ard in (("one", False), ("ard", True)):
        begin = time.perf_counter()
        model = TunedSVC(ard=ard).fit(X, y)
        row[f"{key}_seconds"], row[key] = time.perf_counter() - begin, 100 * (1 - model.score(X_test, y_test))
    assert model.criterion_ <= model.history_[0].criterion
    order = np.argsort(-model.relevances_)
    useless = np.max(model.relevances_[USEFUL:], initial=0.0)
    row["top"] = float(len(set(order[:USEFUL]) & set(range(USEFUL))))
    row["separation"] = float(np.min(model.relevances_[:USEFUL])) / useless if useless else np.inf
    return row | {"kept": float(np.count_nonzero(model.relevances_)), "gap": model.certificate_.relative_gap}


def report_made_up(names: list[str], rows: list[int], seeds: int, d: int, grid: int) -> None:
    print(
        "| problem | rows | seed | grid by CV | grid, best | one gamma | TunedSVC | useful on top | separation | kept |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    seconds = {"grid_seconds": 0.0, "one_seconds": 0.0, "ard_seconds": 0.0}
    for name in names:
        for n in rows:
            for seed in range(seeds):
                rng = np.random.default_rng(seed)
                row = compare(*draw(name, n, d, rng, test=False), *draw(name, 5000, d, rng, test=True), grid=grid)
                seconds = {key: total + row[key] for key, total in seconds.items()}
                errors = " | ".join(f"{row[key]:.1f}" for key in ("grid", "best", "one", "ard"))
                found = f"{row['top']:.0f} of {USEFUL} | {row['separation']:.3g} | {row['kept']:.0f}"
                print(f"| {name} | {n} | {seed} | {errors} | {found} |", flush=True)
    print("seconds in all: " + ", ".join(f"{key.split('_')[0]} {total:.1f}" for key, total in seconds.items()))


def report_german(folder: Path, splits: int, grid: int) -> None:
    path = folder / "german" / "german.numer.xz"
    if not path.exists():
        print(f"left out: german, {path} is not there; give the folder by --data-home.")
        return
    with lzma.open(path, "rb") as file:
        X, y = load_svmlight_file(file)
    rows = []
    for seed in range(splits):
        X_seen, X_test, y_seen, y_test = train_test_split(X.toarray(), y, test_size=0.5, stratify=y, random_state=seed)
        scaler = StandardScaler().fit(X_seen)
        rows.append(compare(scaler.transform(X_seen), y_seen, scaler.transform(X_test), y_test, grid=grid))
    print(f"\ngerman, {splits} random halves: mean error in % (standard error), mean seconds")
    for key, title in (("grid", "grid by CV"), ("best", "grid, best"), ("one", "one gamma"), ("ard", "TunedSVC")):
        errors = np.array([row[key] for row in rows])
        spent = f"{np.mean([row[f'{key}_seconds'] for row in rows]):.1f} s" if key != "best" else ""
        print(f"{title:12s} {np.mean(errors):5.1f} ({np.std(errors) / np.sqrt(splits):.1f})  {spent}")
    print(f"features kept: {', '.join(format(row['kept'], '.0f') for row in rows)} of {X.shape[1]}")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[400, 1000])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data-home")
    parser.add_argument("--toy", action="store_true", help="small, to see that it runs")
    options = parser.parse_args(arguments)
    if options.toy:
        report_made_up(["xor"], [150], 1, 8, 3)
        return
    report_made_up(list(FUNCTIONS), options.rows, options.seeds, 50, 1)
    report_german(data_folder(options.data_home), 5, 1)


if __name__ == "__main__":
    main()
