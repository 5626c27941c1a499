r"""A race of solvers on one problem: which one proves how much, and when.

Every solver that accepts the problem fits all of it, to a relative gap of 1 %, then to 0.1 %, then to 0.0001 %, until
one of these fits runs out of time. A fit counts as a user waits for it: checking the data, solving, and proving. Along
the way its seconds are the solver's own, stretched to that whole. Compiled code is warmed up on a few rows first; fits
below a second are made three times, in an order that rotates, and their median counts.

Others, scikit-learn's, cannot prove anything. They fit over a ladder of their own tolerances, 0.1 to 1e-8, with as many
iterations as the time allows, and our judge says how good each of their models is: its objective against the best lower
bound that is known of the problem it solves,

    distance = (P(model) - D) / P(model),        D <= min P, the largest that any run has proven

Where there are more than two classes, bounds are those of the sum of the binary problems, and a point of a history is
where all of them have come to the same relative gap: what a fit with that tolerance would have taken.
"""

import math
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from .certificate import Certificate, certificate, relative_gap
from .chunks import Chunks
from .claims import _read as read_claim
from .classifier import INTERCEPTS, CertifiedClassifier, Prepared, is_number
from .linear_svc import LinearSVC
from .matrix import one_blas_thread
from .multiclass import scatter
from .notebook import histories
from .race_result import REPEATS, SHORT, Fit, Race, Runner
from .rivals import RIVALS, Rival
from .solve import Record, Solver, check_accepts
from .solvers import choose_solver, make_solver
from .svc import SVC

TARGETS = (1e-2, 1e-3, 1e-6)
LADDER = tuple(10.0**-k for k in range(1, 9))  # tolerances of others
FEW = 200  # rows of the warm-up
MANY = 1_000_000_000  # steps: time is the limit
LEVELS = 60  # points of a history that is a sum
REFERENCE = 1e-8  # relative gap of the lower bound that others are judged by
Tell = Callable[[str, float], Any]


def race(
    X,
    y,
    *,
    estimator: CertifiedClassifier | None = None,
    solvers: Iterable[str | Solver] | None = None,
    rivals: bool = False,
    seconds: float = 10.0,
    targets: Sequence[float] = TARGETS,
    random_state=0,
    callback: Tell | None = None,
) -> Race:
    """Let solvers race on a problem, each judged by the same certificate.

    Ctrl-C ends it with what is finished; where that is nothing, it raises KeyboardInterrupt.

    Parameters
    ----------
    X, y : as LinearSVC and SVC take them, in memory
    estimator : LinearSVC or SVC, default=None
        The problem: C, loss, kernel, intercept and so on; its `solver`, `max_iter` and `callback` have no say here. Its
        `tol` is what the recommendation is about. None is ``LinearSVC()``.
    solvers : sequence of str or Solver, default=None
        Who races; None: all that accept the problem. Those that do not are listed with the reason.
    rivals : bool, default=False
        scikit-learn's too: LinearSVC and SGDClassifier, or SVC.
    seconds : float, default=10
        Limit on each fit.
    targets : sequence of float
        Relative gaps to prove, besides the estimator's tol.
    random_state : int, RandomState or None, default=0
        Of the solvers, of scikit-learn's and of the rows for the warm-up.
    callback : callable, default=None
        Called with what is going on, and the share that is done.

    Returns
    -------
    Race
        ``print(...)`` shows a table and a recommendation; `table`, `plots`, `rows` and `to_csv` have the figures.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from primalsvm.race import race
    >>> X, y = load_iris(return_X_y=True)
    >>> result = race(X, y, solvers=["newton", "dual_coordinate_ascent"])
    >>> result.recommendation.startswith("Take ")
    True
    """
    estimator = LinearSVC() if estimator is None else estimator
    if not isinstance(estimator, LinearSVC | SVC):
        raise TypeError(f"estimator must be a LinearSVC or SVC of primalsvm, got {type(estimator).__name__}.")
    if isinstance(X, Chunks):
        raise ValueError("a race fits the same rows again and again and needs X in memory, not in pieces.")
    if not (is_number(seconds) and 0 < seconds < math.inf):
        raise ValueError(f"seconds must be a number above 0, got {seconds!r}.")
    if not all(is_number(target) and 0 < target < 1 for target in targets):
        raise ValueError(f"targets must be relative gaps between 0 and 1, got {targets!r}.")
    seed = int(check_random_state(random_state).randint(2**31))
    course = _Course(estimator, X, y, seconds, seed, callback or (lambda what, share: None))
    course.targets = tuple(sorted({*targets, *([estimator.tol] if 0 < estimator.tol < 1 else [])}, reverse=True))
    course.enter(solvers, rivals)
    interrupted = False
    try:
        course.warm_up()
        course.run()
    except KeyboardInterrupt:
        interrupted = True
    return course.result(interrupted)


# --- the course -------------------------------------------------------------------------------------------------------


class _Reference(NamedTuple):
    """A model of ours of the problem that others solve, whose dual points judge theirs."""

    model: CertifiedClassifier
    data: Prepared
    alphas: list[np.ndarray]


@dataclass
class _Course:
    """The data, and whoever runs on it."""

    estimator: CertifiedClassifier
    X: Any
    y: Any
    limit: float
    seed: int
    tell: Tell
    targets: tuple[float, ...] = TARGETS
    entries: list["_Ours | _Theirs"] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    bounds: dict[str, float] = field(default_factory=dict)
    references: dict[str, _Reference] = field(default_factory=dict)
    auto: str = ""
    parts: int = 1

    def enter(self, solvers: Iterable[str | Solver] | None, rivals: bool) -> None:
        """Who can take the problem, and why not those who cannot."""
        self.tell("checking the data", 0.0)
        model = self.model(solver="auto")
        with one_blas_thread():
            data = model._prepare(self.X, self.y, None)
            problem = model._problem(data, data.parts[0])
        self.auto, self.parts = choose_solver(problem, model.tol).name, len(data.parts)
        self.classes, self.n = data.classes, data.n
        rows = self._few(data.labels)
        X = data.X[rows][:, rows] if getattr(model, "kernel", None) == "precomputed" else data.X[rows]
        self.few = X, data.classes[data.labels[rows]]
        for solver in map(make_solver, Solver.registry if solvers is None else solvers):
            name = solver.name
            if any(entry.runner.name == name for entry in self.entries):
                name = repr(solver)
            try:
                check_accepts(problem, solver)
            except ValueError as error:
                self.refused[name] = str(error).partition(" Solvers that accept it")[0]
            else:
                self.entries.append(_Ours(Runner(name, True, self.words(self.estimator)), self, solver))
        if not self.entries:
            raise ValueError(f"none of the solvers accepts the problem: {' '.join(self.refused.values())}")
        for kind in RIVALS if rivals else ():
            why = kind.refusal(self.estimator)
            if why is None:
                self.entries.append(_Theirs(Runner(kind.name, False, ""), self, kind))
            elif why:
                self.refused[kind.name] = why

    def model(self, **parameters) -> CertifiedClassifier:
        """An unfitted one of the problem."""
        quiet = {"max_iter": MANY, "warm_start": False, "probability": None, "verbose": 0, "callback": None}
        given = {"max_seconds": self.limit, "random_state": self.seed, **quiet, **parameters}
        return clone(self.estimator).set_params(**given)

    def words(self, model: CertifiedClassifier) -> str:
        """Which problem a model is of, as far as runners can differ."""
        kind = {"free": "free intercept", "penalized": "penalised intercept", "none": "no intercept"}
        several = {"ovr": ", one against the rest", "ovo": ", one against one"}[model.multi_class]
        return kind[INTERCEPTS[model.fit_intercept]] + (several if len(self.classes) > 2 else "")

    def _few(self, labels: np.ndarray) -> np.ndarray:
        """Some rows, of each class two at least where it has them."""
        drawn = np.random.default_rng(self.seed).permutation(len(labels))
        first = [drawn[labels[drawn] == k][:2] for k in range(len(self.classes))]
        return np.unique(np.concatenate([*first, drawn[:FEW]]))

    def warm_up(self) -> None:
        rows = self.few
        for entry in self.entries:
            self.tell(f"warming up {entry.runner.name}", 0.0)
            begin = time.perf_counter()
            entry.warm_up(*rows)
            entry.runner.warm_up = time.perf_counter() - begin

    def run(self) -> None:
        """Every fit once, then the short ones again."""
        for entry in self.entries:
            entry.begin()
        total = len(self.entries) * (len(self.targets) + REPEATS - 1)
        done = 0
        for entry in self.entries:
            for tol in entry.ladder:
                self.tell(f"{entry.runner.name} to {tol:g}", done / total)
                if not entry.climb(tol):
                    break
            done += len(self.targets)
        for k in range(1, REPEATS):
            order = self.entries[k % len(self.entries) :] + self.entries[: k % len(self.entries)]
            for entry in order:
                self.tell(f"{entry.runner.name}, again", done / total)
                done += 1
                for fit in entry.runner.fits:
                    if fit.times[0] < SHORT and fit.status == "converged":
                        fit.times.append(entry.again(fit))

    def reference(self, intercept: Any, multi_class: str) -> tuple[str, _Reference]:
        """The problem in words, and our model of it, solved as far as the time allows."""
        model = self.model(solver="auto", fit_intercept=intercept, multi_class=multi_class, tol=REFERENCE)
        words = self.words(model)
        if words not in self.references:
            self.tell("a lower bound for scikit-learn's", 0.0)
            data = model._prepare(self.X, self.y, None)
            _quietly(lambda: model._fit(data, model._starts(data)))
            answers = model._solutions(data, model.C)
            alphas = [answer.alpha for answer in answers if answer is not None and answer.alpha is not None]
            self.references[words] = _Reference(model, data, alphas)
            self.bound(words, model.certificate_.dual)
        return words, self.references[words]

    def bound(self, problem: str, dual: float) -> None:
        self.bounds[problem] = max(self.bounds.get(problem, 0.0), dual)

    def result(self, interrupted: bool) -> Race:
        runners = [entry.runner for entry in self.entries if entry.runner.fits]
        if not any(runner.ours for runner in runners):
            raise KeyboardInterrupt
        for runner in runners:
            for fit in runner.fits:
                self.bound(runner.problem, fit.last.dual)
        facts = (self.targets, self.estimator.tol, self.limit, self.auto, self.parts, self.bounds, interrupted)
        return Race(runners, self.refused, *facts)


@dataclass
class _Ours:
    """One of our solvers."""

    runner: Runner
    course: _Course
    solver: Solver

    @property
    def ladder(self) -> tuple[float, ...]:
        return self.course.targets

    def begin(self) -> None:
        pass

    def warm_up(self, X, y) -> None:
        model = self.course.model(solver=self.solver, max_iter=30, max_seconds=min(2.0, self.course.limit))
        _quietly(lambda: model.fit(X, y))

    def climb(self, tol: float) -> bool:
        """Fit to this tolerance; whether a tighter one is worth trying."""
        model, data, prepared, whole = self._fit(tol)
        records = _along(model, data, prepared, whole)
        self.runner.fits.append(Fit(tol, [whole], model.status_, records))
        return model.status_ == "converged"

    def again(self, fit: Fit) -> float:
        return self._fit(fit.tol)[-1]

    def _fit(self, tol: float) -> tuple[CertifiedClassifier, Prepared, float, float]:
        model = self.course.model(solver=self.solver, tol=tol)
        begin = time.perf_counter()
        data = model._prepare(self.course.X, self.course.y, None)
        prepared = time.perf_counter() - begin
        _quietly(lambda: model._fit(data, model._starts(data)))
        return model, data, prepared, time.perf_counter() - begin


def _quietly(work: Callable[[], Any]) -> Any:
    """Those that miss a tolerance would warn, and the table says it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return work()


def _along(model: CertifiedClassifier, data: Prepared, prepared: float, whole: float) -> list[Record]:
    """The history of a fit: its bounds, and the seconds that a user waited for them."""
    several = list(histories(model).values())
    shares = [len(part.y) / data.n for part in data.parts]
    records = several[0] if len(several) == 1 else _together(several, shares)
    solving = records[-1].seconds
    stretch = (whole - prepared) / solving if solving > 0 else 1.0
    return [record._replace(seconds=prepared + stretch * record.seconds) for record in records]


def _together(several: list[list[Record]], shares: list[float]) -> list[Record]:
    """The sum of binary problems, at relative gaps that all of them have reached, and at the end."""
    gaps = [np.array([relative_gap(record.primal, record.dual) for record in history]) for history in several]
    levels = np.unique(np.concatenate(gaps))[::-1]
    levels = levels[np.unique(np.linspace(0, len(levels) - 1, LEVELS).astype(int))]
    common = [level for level in levels if all(gap.min() <= level for gap in gaps)]
    places = [tuple(int(np.argmax(gap <= level)) for gap in gaps) for level in common]
    places.append(tuple(len(history) - 1 for history in several))
    return [
        _sum([history[at] for history, at in zip(several, place, strict=True)], shares)
        for place in dict.fromkeys(places)
    ]


def _sum(records: list[Record], shares: list[float]) -> Record:
    proof = Certificate.of_parts([Certificate(record.primal, record.dual, record.primal) for record in records])
    return Record(
        max(record.iteration for record in records),
        math.fsum(record.seconds for record in records),
        math.fsum(share * record.passes for share, record in zip(shares, records, strict=True)),
        proof.primal,
        proof.dual,
        proof.gap,
    )


# --- others -----------------------------------------------------------------------------------------------------------


@dataclass
class _Theirs:
    """One of scikit-learn's, which no clock can stop: it may take as many iterations as fit into the time."""

    runner: Runner
    course: _Course
    kind: Rival
    rate: float = 0.0  # seconds of an iteration
    idle: int = 0  # tolerances in a row that brought nothing

    @property
    def ladder(self) -> tuple[float, ...]:
        return LADDER

    def begin(self) -> None:
        self.runner.problem, self.judge = self.course.reference(*self.kind.problem(self.course.estimator))

    def warm_up(self, X, y) -> None:
        model = self._make(0.1, 100, len(y))
        begin = time.perf_counter()
        _quietly(lambda: model.fit(X, y))
        self.rate = (time.perf_counter() - begin) / _iterations(model) * self.course.n / len(y)

    def climb(self, tol: float) -> bool:
        stopped, seconds = True, 0.0
        # what an iteration takes is guessed from fewer rows or a looser tolerance: none may be stopped much too early
        while stopped and seconds <= self.course.limit / 2:
            max_iter = int(min(max(self.course.limit / self.rate, 10), self.kind.most))
            seconds, model = self._fit(tol, max_iter)
            steps = _iterations(model)
            self.rate, stopped = seconds / steps, max_iter <= steps < self.kind.most
        record = self._judge(model, seconds, steps)
        best = min((fit.last.primal for fit in self.runner.fits), default=math.inf)
        self.idle = 0 if record.primal < best * (1 - 1e-9) else self.idle + 1
        near = relative_gap(record.primal, self.course.bounds[self.runner.problem]) <= min(self.course.targets)
        late = not near and (stopped or seconds > self.course.limit)
        self.runner.fits.append(Fit(tol, [seconds], "max_seconds" if late else "converged", [record]))
        return not (near or late or self.idle > 1)

    def again(self, fit: Fit) -> float:
        return self._fit(fit.tol, self.kind.most)[0]

    def _fit(self, tol: float, max_iter: int) -> tuple[float, Any]:
        model = self._make(tol, max_iter, self.course.n)
        begin = time.perf_counter()
        _quietly(lambda: model.fit(self.course.X, self.course.y))
        return time.perf_counter() - begin, model

    def _make(self, tol: float, max_iter: int, n: int) -> Any:
        return self.kind.make(self.course.estimator, tol=tol, max_iter=max_iter, n=n, seed=self.course.seed % 2**31)

    def _judge(self, model: Any, seconds: float, steps: int) -> Record:
        ours, data, alphas = self.judge
        answers = read_claim(model, data.X).answers
        found = []
        with one_blas_thread():
            for part, answer, alpha in zip(data.parts, answers, alphas, strict=True):
                f = answer.coef if answer.rows is None else part.take(scatter(answer.coef, answer.rows, data.n))
                found.append(certificate(ours._problem(data, part), f, answer.b, alpha, deep=False))
        proof = Certificate.of_parts(found)
        return Record(steps, seconds, math.nan, proof.primal, proof.dual, proof.gap)


def _iterations(model: Any) -> int:
    """Of one binary problem, the most; LIBSVM counts those of each."""
    return max(1, int(np.max(model.n_iter_)))
