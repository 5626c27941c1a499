r"""What a pass costs, ours beside LIBLINEAR's and SGDClassifier's, and what it is worth.

    python -m benchmarks.passes [--data-home DIR] [--repeats 7] [--jsonl FILE] [--synthetic | --toy]

Each line is a ratio ours / theirs of the same work on the same data, C = 1, no intercept, float64, 32-bit indices:

    pass 2..k           dual coordinate ascent: the slope of the training time between 1 and k passes, so that setting
                        up cancels. Both sides put samples aside; passes 2..4 come before that bites.
    to 0.1 %            the whole training until P <= 1.001 P*, setting up included: is a cheap pass a useless pass?
    to a proven 0.1 %   the same beside our solve(), which goes on until its own bound says so
    Pegasos pass 2..k   the same slope against SGDClassifier(loss="hinge", alpha=1/(C n))

scikit-learn's LIBLINEAR is told how many passes to make. LIBLINEAR 2.50 cannot be: it gets the loosest tolerance that
reaches 0.1 %, its number of passes is read off its output, its data are converted before the clock starts.
It keeps no zeros: of covtype's 54 columns it reads 12, where our dense rows hold all.

One thread, one process, the sides in alternating order. The ratios are of CPU seconds, which other work on the machine
disturbs least; wall-clock seconds are in the records. Printed: medians, and the quartiles of the ratio.
"""

import argparse
import os
import warnings
from functools import partial

import numpy as np
from liblinear import liblinear, liblinearutil
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from primalsvm import Hinge, SquaredHinge, solve
from primalsvm.ascent import make_pass
from primalsvm.solvers import DualCoordinateAscent, Newton, Pegasos

from . import BEST, Data, Report, Run, data_home, narrow, real, synthetic, timed

CLOSE = 1e-3
LIBLINEAR_LIMIT = 300  # passes, after which it gives up or becomes another solver


# the sides: each trains from scratch for a number of passes -----------------------------------------------------------
def our_dual(data: Data, loss, passes: int) -> Run:
    solver = DualCoordinateAscent()

    def train():
        problem = data.problem(loss)
        state = solver.init(problem)
        return state, sum(make_pass(problem, state) for _ in range(passes))  # step() may make several

    (state, visits), seconds, cpu = timed(train)
    return Run(solver.name, passes, seconds, cpu, state.f, state.alpha, visits / len(data.y))


def our_pegasos(data: Data, average: bool, passes: int) -> Run:
    solver = Pegasos(average=average)

    def train():
        problem = data.problem(Hinge())
        state = solver.init(problem)
        for _ in range(passes):
            solver.step(problem, state)
        return state

    state, seconds, cpu = timed(train)
    return Run(solver.name, passes, seconds, cpu, state.f, None, state.passes)


def their_estimator(name: str, estimator, data: Data) -> Run:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        _, seconds, cpu = timed(lambda: estimator.fit(data.X, data.y))
    return Run(name, int(estimator.n_iter_), seconds, cpu, estimator.coef_[0])


def sklearn_dual(data: Data, loss, passes: int) -> Run:
    estimator = LinearSVC(loss=loss.name, dual=True, fit_intercept=False, tol=1e-12, max_iter=passes, random_state=0)
    return their_estimator("sklearn LinearSVC", estimator, data)


def sklearn_sgd(data: Data, average: bool, passes: int) -> Run:
    estimator = SGDClassifier(
        alpha=1 / len(data.y), average=average, fit_intercept=False, tol=None, max_iter=passes, random_state=0
    )
    return their_estimator("sklearn SGDClassifier", estimator, data)


def liblinear_dual(converted, loss, eps: float) -> Run:
    said: list[bytes] = []
    parameter = liblinearutil.parameter(f"-s {1 if loss.smooth else 3} -c 1 -e {eps} -q")
    listener = liblinear.PRINT_STRING_FUN(said.append)
    liblinear.liblinear.set_print_string_function(listener)
    liblinear.liblinear.srand(1)  # the C library's: as many passes for a tolerance each time
    model, seconds, cpu = timed(lambda: liblinear.liblinear.train(converted, parameter))
    liblinear.liblinear.set_print_string_function(liblinear.ctypes_print_null)
    model = liblinear.toPyModel(model)
    f = np.ctypeslib.as_array(model.w, (converted.n,)) * model.label[0]
    passes = next(int(text.split(b"=")[1]) for text in said if b"#iter" in text)
    return Run("liblinear", passes, seconds, cpu, f)


# comparisons ----------------------------------------------------------------------------------------------------------
def slope(first: Run, last: Run) -> float:
    """CPU seconds a pass, of the passes after the first."""
    return (last.cpu - first.cpu) / (last.iteration - first.iteration)


def compare_passes(report: Report, data: Data, loss, what: str, against: str, sides, lasts, repeats: int) -> None:
    """The cost of a pass. Each side, ours and theirs, is a function that trains for so many passes."""
    slopes: dict = {(side, last): [] for side in sides for last in lasts}
    for repeat in range(repeats):
        for side in sides if repeat % 2 else sides[::-1]:
            runs = {passes: side(passes) for passes in (1, *lasts)}
            for run in runs.values():
                report.record(data, loss, repeat, run)
            for last in lasts:
                slopes[side, last].append(slope(runs[1], runs[last]))
    for last in lasts:
        report.ratio(data, f"{what} pass 2..{last}", against, *(slopes[side, last] for side in sides))


def passes_to(data: Data, loss, target: float) -> int:
    """How many passes of ours it takes until P <= target; not timed."""
    problem, solver = data.problem(loss), DualCoordinateAscent()
    state = solver.init(problem)
    for passes in range(1, 10 * LIBLINEAR_LIMIT):
        make_pass(problem, state)
        if problem.primal(state.f, 0.0) <= target:
            return passes
    raise SystemExit(f"ours did not come within 0.1 % of {target / (1 + CLOSE)} on {data.name}: is that the optimum?")


def our_solve(data: Data, loss) -> Run:
    result, seconds, cpu = timed(lambda: solve(data.problem(loss), DualCoordinateAscent(), tol=CLOSE))
    passes = result.history[-1].passes
    return Run("solve dual_coordinate_ascent", result.iterations, seconds, cpu, result.f, result.alpha, passes)


def loosest_tolerance(converted, problem, target: float) -> tuple[float, int]:
    """LIBLINEAR's tolerance for P <= target, and the passes it takes; its limit where nothing brings it there."""
    short, enough, passes = 128.0, 0.0, LIBLINEAR_LIMIT
    for _ in range(24):  # halve until it is enough, then close in: to a factor of 1.05
        eps = np.sqrt(short * enough) if enough else short / 2
        run = liblinear_dual(converted, problem.loss, eps)
        if problem.primal(run.f, 0.0) <= target and run.iteration > 1:
            enough, passes = eps, run.iteration
        else:
            short = eps
        if short < 1.05 * enough or run.iteration >= LIBLINEAR_LIMIT:
            break
    return enough, passes


def compare_trainings(report: Report, data: Data, loss, repeats: int) -> None:
    """The cost of an answer, and of LIBLINEAR 2.50's own pass on the way there."""
    problem = data.problem(loss)
    solver = Newton() if problem.size <= 1000 else DualCoordinateAscent()
    best = BEST.get((data.name, loss.name)) or solve(problem, solver, tol=1e-5).certificate.primal
    m = passes_to(data, loss, (1 + CLOSE) * best)
    converted = liblinearutil.problem(data.y, narrow(data.X))
    eps, k = loosest_tolerance(converted, problem, (1 + CLOSE) * best)
    if k >= LIBLINEAR_LIMIT:  # what it then returns for the squared hinge is another solver's
        print(
            f"{data.name:8} {loss.name} to 0.1 %: more than LIBLINEAR's limit of {k} passes (ours: {m}); not compared"
        )
        return
    jobs = {
        "our first": lambda: our_dual(data, loss, 1),
        "our k": lambda: our_dual(data, loss, k),
        "ours": lambda: our_dual(data, loss, m),
        "proven": lambda: our_solve(data, loss),
        "their first": lambda: liblinear_dual(converted, loss, 1e9),
        "theirs": lambda: liblinear_dual(converted, loss, eps),
    }
    runs: dict[str, list[Run]] = {name: [] for name in jobs}
    for repeat in range(repeats):
        for name in list(jobs)[:: 1 if repeat % 2 else -1]:
            runs[name].append(jobs[name]())
            report.record(data, loss, repeat, runs[name][-1])
    our_pass = [slope(*pair) for pair in zip(runs["our first"], runs["our k"], strict=True)]
    their_pass = [slope(*pair) for pair in zip(runs["their first"], runs["theirs"], strict=True)]
    report.ratio(data, f"{loss.name} pass 2..{k}", "LIBLINEAR 2.50", our_pass, their_pass)
    cpu = {name: [run.cpu for run in runs[name]] for name in jobs}
    report.ratio(data, f"{loss.name} to 0.1 %", f"LIBLINEAR 2.50 ({m}, {k})", cpu["ours"], cpu["theirs"])
    report.ratio(data, f"{loss.name} to a proven 0.1 %", "LIBLINEAR 2.50", cpu["proven"], cpu["theirs"])


def bench(report: Report, data: Data, repeats: int) -> None:
    rows = slice(0, 50)
    small = data._replace(X=data.X[rows], y=np.sign(np.arange(50) - 24.5))
    _, seconds, _ = timed(lambda: (our_dual(small, Hinge(), 2), our_pegasos(small, True, 2)))
    print(f"{data.name}: {data.X.shape}; Numba compiled our passes, or read them from its cache, in {seconds:.1f} s")
    for loss in (Hinge(), SquaredHinge()):
        sides = (partial(our_dual, data, loss), partial(sklearn_dual, data, loss))
        compare_passes(report, data, loss, loss.name, "LinearSVC", sides, (4, data.passes), repeats)
        compare_trainings(report, data, loss, repeats)
    for average in (False, True):
        sides = (partial(our_pegasos, data, average), partial(sklearn_sgd, data, average))
        what = "averaged Pegasos" if average else "Pegasos"
        compare_passes(report, data, Hinge(), what, "SGDClassifier", sides, (6,), repeats)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data-home", help="folder with the public data sets (default: PRIMALSVM_DATA)")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--jsonl", default=os.devnull, help="append one JSON line per run to this file")
    parser.add_argument("--synthetic", action="store_true", help="random data of the same shapes")
    parser.add_argument("--toy", action="store_true", help="small random data: seconds, and no measurement")
    options = parser.parse_args(arguments)
    random = options.toy or options.synthetic
    sets = synthetic(options.toy) if random else real(data_home(options.data_home))
    with threadpool_limits(1), open(options.jsonl, "a") as jsonl:
        report = Report(jsonl)
        for data in sets:
            bench(report, data, options.repeats)
    print(f"wall-clock / CPU seconds of all runs: {report.seconds / report.cpu:.2f} (1 on a quiet machine)")


if __name__ == "__main__":
    main()
