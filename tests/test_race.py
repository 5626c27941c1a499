"""A race of solvers: every figure is that of a fit, judged by the certificate."""

import csv
import json
import math
import re
import time
from itertools import pairwise

import matplotlib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler
from test_cli import done, refusal, run

from primalsvm import SVC, LinearSVC, OrdinalSVC, Record, as_chunks, certify
from primalsvm.certificate import relative_gap
from primalsvm.race import _quietly, _Theirs, _together, race
from primalsvm.race_display import RaceDisplay
from primalsvm.race_result import SHORT, Fit, Race, Runner, percent
from primalsvm.rivals import RIVALS
from primalsvm.solvers import Newton, Pegasos, Subgradient

matplotlib.use("Agg")
import matplotlib.pyplot as plt

X2, Y2 = load_breast_cancer(return_X_y=True)
X2 = StandardScaler().fit_transform(X2)
X3, Y3 = load_digits(n_class=3, return_X_y=True)
X3 = X3 / 16
FAST = ["newton", "dual_coordinate_ascent"]
KINDS = {kind.name: kind for kind in RIVALS}


@pytest.fixture(scope="module")
def two():
    """The hinge, all solvers and scikit-learn's."""
    return race(X2, Y2, estimator=LinearSVC("hinge"), rivals=True, seconds=0.5)


@pytest.fixture(scope="module")
def three():
    return race(X3, Y3, solvers=FAST, rivals=True, seconds=5)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


# --- the figures ------------------------------------------------------------------------------------------------------


def test_all_that_accept_the_problem_race_and_the_others_are_told_why(two):
    ours = [runner.name for runner in two.runners if runner.ours]
    assert set(ours) >= {*FAST, "subgradient", "pegasos", "cutting_plane", "projected_gradient"}
    assert two.refused["smo"] == "smo needs a kernel problem; this is a linear problem with the hinge loss."
    assert {"smo", "gradient_descent", "hyperpass", "conjugate_gradient"} <= set(two.refused) - set(ours)
    assert [runner.name for runner in two.runners if not runner.ours] == ["sklearn LinearSVC", "sklearn SGDClassifier"]


@pytest.mark.parametrize("which", ["two", "three"])
def test_every_record_is_a_pair_of_bounds(which, request):
    result = request.getfixturevalue(which)
    for runner in result.runners:
        rivals = [other for other in result.runners if other.problem == runner.problem]
        best = max(record.dual for other in rivals for record in other.history)
        assert result.bounds[runner.problem] >= best
        for record in runner.history:
            assert record.primal >= best and record.gap == max(0.0, record.primal - record.dual)
            assert 0 <= result.distance(runner, record) <= relative_gap(record.primal, record.dual)


@pytest.mark.parametrize(
    ("estimator", "X", "y"),
    [
        (LinearSVC("hinge", C=3.0), X2, Y2),
        (LinearSVC(fit_intercept="penalized"), X3, Y3),
        (LinearSVC(multi_class="ovo", class_weight="balanced"), sp.csr_array(X3), Y3),
        (SVC(C=2.0), X3.astype(np.float32), np.array(["a", "b", "c"])[Y3]),
    ],
    ids=lambda value: repr(value) if hasattr(value, "fit") else "",
)
def test_a_fit_of_the_race_is_a_fit(estimator, X, y):
    names = ["smo"] if isinstance(estimator, SVC) else FAST
    result = race(X, y, estimator=estimator, solvers=names, random_state=3, seconds=60)
    seed = int(np.random.RandomState(3).randint(2**31))
    for name in names:
        assert [fit.tol for fit in result[name].fits] == [1e-2, 1e-3, 1e-6] == list(result.targets)
        for fit in result[name].fits:
            facts = {"solver": name, "tol": fit.tol, "random_state": seed, "max_iter": 10**9}
            wanted = clone(estimator).set_params(**facts).fit(X, y)
            assert (fit.last.primal, fit.last.dual) == (wanted.certificate_.primal, wanted.certificate_.dual)
            assert fit.last.iteration == wanted.n_iter_ and fit.status == wanted.status_ == "converged"
            assert relative_gap(fit.last.primal, fit.last.dual) <= fit.tol
            assert fit.last.seconds == pytest.approx(fit.times[0]) and len(fit.times) == 3


def test_the_history_of_a_fit_ends_when_the_fit_does(three):
    for runner in three.runners:
        for fit in runner.fits:
            times = [record.seconds for record in fit.records]
            assert times == sorted(times) and times[0] > 0 and times[-1] == pytest.approx(fit.times[0])
        assert [record.seconds for record in runner.history] == sorted(record.seconds for record in runner.history)


def test_binary_problems_are_summed_where_all_are_as_near():
    def history(*bounds):
        return [Record(k, 0.1 * k, 2.0 * k, p, d, p - d) for k, (p, d) in enumerate(bounds)]

    first = history((10.0, 0.0), (8.0, 4.0), (8.0, 7.9))  # gaps 1, 0.5, 0.0125
    second = history((4.0, 0.0), (4.0, 3.0), (4.0, 3.6))  # 1, 0.25, 0.1
    found = _together([first, second], [1.0, 0.5])
    # at 0.5 and 0.25: (first at 1, second at 1), then (2, 1); at 0.1 and 0.0125: (2, 2)
    assert [r.iteration for r in found] == [0, 1, 2, 2] and [r.passes for r in found] == [0.0, 3.0, 5.0, 6.0]
    assert [r.seconds for r in found] == pytest.approx([0.0, 0.2, 0.3, 0.4])
    assert [r.primal for r in found] == pytest.approx([14.0, 12.0, 12.0, 12.0])
    assert [r.dual for r in found] == pytest.approx([0.0, 7.0, 10.9, 11.5])
    assert all(r.primal >= 12.0 and r.dual <= 11.5 for r in found)


def test_a_tighter_fit_proves_the_looser_gap_too(two, three):
    for result in (two, three):
        for runner in result.runners:
            times = [result.seconds_to(runner.name, target) for target in result.targets]
            known = [t for t in times if t is not None]
            assert times[: len(known)] == known and all(a <= b for a, b in pairwise(known))
            assert (times[-1] is not None) == (result.gap(runner.name) <= result.targets[-1])


def test_no_time_left_ends_the_ladder(monkeypatch):
    step = Subgradient.step
    monkeypatch.setattr(Subgradient, "step", lambda *args: (time.sleep(0.4), step(*args)))
    hard = LinearSVC("hinge", C=1e4, fit_intercept=False)
    result = race(X2, Y2, estimator=hard, solvers=["subgradient", "newton"], seconds=2, targets=[1e-9, 1e-10])
    slow, fast = result["subgradient"], result["newton"]
    assert [fit.tol for fit in slow.fits] == [1e-3] and [fit.tol for fit in fast.fits] == [1e-3, 1e-9, 1e-10]
    assert slow.fits[-1].status == "max_seconds" and len(slow.fits[-1].times) == 1
    assert result.ranking() == ["newton"] and "no other came there within 2 s" in result.recommendation
    assert result.table().rows[0][:4] == ["subgradient", "-", "-", "-"] and result.table().rows[0][-1] == "out of time"


def test_solvers_are_warmed_up_before_the_first_fit_and_take_turns():
    said = []
    result = race(X2, Y2, solvers=FAST, callback=lambda what, share: said.append((what, share)))
    words = [what for what, _ in said]
    assert words[:3] == ["checking the data", *(f"warming up {name}" for name in FAST)]
    assert words[3:9] == [f"{name} to {tol:g}" for name in FAST for tol in (1e-2, 1e-3, 1e-6)]
    turns = [FAST[1], FAST[0], FAST[0], FAST[1]]
    assert words[9:] == [f"{name}, again" for name in turns]
    shares = [share for _, share in said]
    assert shares == sorted(shares) and shares[0] == 0.0 and shares[-1] < 1.0
    assert all(runner.warm_up > 0 for runner in result.runners)


def test_long_fits_are_not_repeated(monkeypatch):
    monkeypatch.setattr("primalsvm.race.SHORT", 0.0)
    assert all(len(fit.times) == 1 for fit in race(X2, Y2, solvers=FAST[:1])["newton"].fits)


def test_only_the_problem_of_the_estimator_counts(capsys):
    told = LinearSVC(probability="sigmoid", max_iter=1, max_seconds=1e-9, verbose=1, callback=lambda record: True)
    result = race(X2, Y2, estimator=told.set_params(solver="pegasos"), solvers=["newton"])
    assert [fit.status for fit in result["newton"].fits] == ["converged"] * 3
    assert result["newton"].fits[0].last.iteration > 1 and capsys.readouterr().out == ""
    assert told.max_iter == 1 and not hasattr(told, "coef_")


def test_calibration_is_no_part_of_the_race(monkeypatch):
    monkeypatch.setattr(LinearSVC, "_calibrate", lambda *args: pytest.fail("it calibrated"))
    race(X2, Y2, estimator=LinearSVC(probability="sigmoid"), solvers=["newton"], targets=[0.1])


def test_objects_race_beside_their_names():
    result = race(X2, Y2, estimator=LinearSVC("hinge"), solvers=["pegasos", Pegasos(batch=10), Newton()], seconds=0.3)
    assert [runner.name for runner in result.runners] == ["pegasos", repr(Pegasos(batch=10)), "newton"]


# --- scikit-learn's ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "X", "y", "names"),
    [
        (LinearSVC("hinge", C=3.0), X2, Y2, ["sklearn LinearSVC", "sklearn SGDClassifier"]),
        (LinearSVC("squared_hinge", fit_intercept=False, C=0.1), sp.csr_array(X3), Y3, ["sklearn LinearSVC"]),
        (LinearSVC("hinge", fit_intercept="penalized", class_weight="balanced"), X3, Y3, ["sklearn LinearSVC"]),
        (SVC(C=5.0), X3, Y3, ["sklearn SVC"]),
        (SVC("poly", degree=2, coef0=1.0), sp.csr_array(X3), Y3, ["sklearn SVC"]),
        (SVC("precomputed"), rbf_kernel(X2), Y2, ["sklearn SVC"]),
        (SVC(multi_class="ovr", fit_intercept=False), X3, Y3, ["sklearn SVC"]),
    ],
    ids=lambda value: repr(value) if hasattr(value, "fit") else "",
)
def test_others_are_judged_as_certify_does(estimator, X, y, names):
    result = race(X, y, estimator=estimator, solvers=[["smo"], FAST][isinstance(estimator, LinearSVC)], rivals=True)
    seed = int(np.random.RandomState(0).randint(2**31))
    for name in names:
        runner = result[name]
        for fit in runner.fits[:3]:
            model = KINDS[name].make(estimator, tol=fit.tol, max_iter=10**6, n=len(y), seed=seed)
            proof = certify(_quietly(lambda model=model: model.fit(X, y)), X, y)
            assert fit.last.primal == pytest.approx(proof.primal, rel=1e-12)
            # both lower bounds hold, so each distance is at least what the other has proven
            assert result.distance(runner, fit.last) >= relative_gap(proof.primal, proof.reachable) - 1e-9
            assert relative_gap(proof.primal, proof.dual) >= 1 - proof.reachable / proof.primal - 1e-9
        assert math.isnan(fit.last.passes)


def test_a_wrong_guess_of_their_speed_stops_none_too_early(monkeypatch):
    monkeypatch.setattr(_Theirs, "warm_up", lambda self, X, y: setattr(self, "rate", 1e3))
    result = race(X2, Y2, estimator=LinearSVC("hinge"), solvers=["newton"], rivals=True)
    fits = result["sklearn LinearSVC"].fits
    assert {fit.status for fit in fits} == {"converged"} and result.gap("sklearn LinearSVC") <= 1e-6
    assert fits[-1].last.iteration > 10
    away = [result.distance(result["sklearn LinearSVC"], fit.last) for fit in fits]
    assert all(distance > 1e-6 for distance in away[:-1])  # the ladder ends where the last target is met


def test_another_problem_is_named_and_has_its_own_bound(two):
    theirs, sgd = two["sklearn LinearSVC"], two["sklearn SGDClassifier"]
    assert (theirs.problem, sgd.problem) == ("penalised intercept", "free intercept")
    assert set(two.bounds) == {"penalised intercept", "free intercept"}
    wanted = LinearSVC("hinge", fit_intercept="penalized", tol=1e-8).fit(X2, Y2).certificate_
    assert wanted.dual * (1 - 1e-7) <= two.bounds["penalised intercept"] <= wanted.primal
    assert any("sklearn LinearSVC solves another problem" in note for note in two.notes())
    assert not any("SGDClassifier solves another" in note for note in two.notes())
    same = race(X2, Y2, estimator=LinearSVC("hinge", fit_intercept="penalized"), solvers=["newton"], rivals=True)
    assert not any("sklearn LinearSVC solves another" in note for note in same.notes())


@pytest.mark.parametrize(
    ("estimator", "sentence"),
    [
        (LinearSVC("huber"), "the hinge and the squared hinge only"),
        (SVC(loss="squared_hinge"), "the hinge loss only"),
        (SVC("laplacian"), "not raced with the kernel laplacian"),
        (SVC(approximation="greedy", n_basis=20), "not one over a basis"),
    ],
    ids=str,
)
def test_others_that_cannot_take_the_problem_are_told_why(estimator, sentence):
    names = ["newton"] if isinstance(estimator, LinearSVC) or estimator.approximation else ["smo"]
    result = race(X2, Y2, estimator=estimator, solvers=names, rivals=True)
    assert all(runner.ours for runner in result.runners)
    refused = {name: why for name, why in result.refused.items() if name.startswith("sklearn")}
    assert refused and all(sentence in why and why.startswith(name) for name, why in refused.items())


# --- what it says -----------------------------------------------------------------------------------------------------


def made_up(auto="a", tol=1e-3, **runners):
    """Seconds to 1 % and to 0.1 %; a missing one was not reached."""
    ends = Record(1, 1.0, 1.0, 100.5, 99.95, 0.55), Record(1, 1.0, 1.0, 100.0, 99.95, 0.05)
    lost = Record(1, 1.0, 1.0, 100.0, 60.0, 40.0)
    found = []
    for name, times in runners.items():
        fits = [Fit(t, [s], "converged", [end]) for t, s, end in zip((1e-2, 1e-3), times, ends, strict=False)]
        if len(times) < 2:
            fits.append(Fit((1e-2, 1e-3)[len(times)], [10.0], "max_seconds", [lost]))
        found.append(Runner(name, not name.startswith("sklearn"), "free intercept", 0.1, fits))
    return Race(found, {}, (1e-2, 1e-3), tol, 10.0, auto, 1, {"free intercept": 99.95})


@pytest.mark.parametrize(
    ("result", "sentence"),
    [
        (
            made_up(a=(0.1, 0.21), b=(0.3, 0.651)),
            "Take a: proven to 0.1 % in 0.210 s, 3.1 times as fast as the next (b); solver='auto' takes it too.",
        ),
        (
            made_up(auto="b", a=(0.1, 2.0), b=(0.3, 2.2)),
            "Take a: proven to 0.1 % in 2.00 s, about as fast as b; solver='auto' would take b, 2.20 s.",
        ),
        (
            made_up(auto="z", a=(0.1, 2.0), b=(0.3,)),
            "Take a: proven to 0.1 % in 2.00 s, and no other came there within 10 s; solver='auto' would take z.",
        ),
        (made_up(a=(0.1, 120.4)), "Take a: proven to 0.1 % in 120 s; solver='auto' takes it too."),
        (
            made_up(a=(3.0,), b=(1.0,)),
            "Take b: proven to 1 % in 1.00 s, 3.0 times as fast as the next (a); solver='auto' would take a, 3.00 s.",
        ),
        (
            made_up(a=(), b=()),
            "No solver was proven to 1 % within 10 s: a came nearest, to 40 %; give it more seconds, or scale the "
            "features to similar ranges.",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_recommendation_is_one_sentence(result, sentence):
    assert result.recommendation == sentence
    assert str(result).endswith(sentence)


def test_a_faster_rival_is_not_hidden():
    result = made_up(a=(0.1, 0.2), **{"sklearn LinearSVC": (0.05, 0.06)})
    assert result.recommendation.startswith("Take a: proven to 0.1 % in 0.200 s; ")
    assert "sklearn LinearSVC had a model that is within 0.1 % after 0.060 s." in result.notes()
    slow = made_up(a=(0.1, 0.2), **{"sklearn LinearSVC": (0.5, 0.6)})
    assert not any("had a model" in note for note in slow.notes())


def test_others_are_measured_by_the_best_bound_and_ours_by_their_own():
    result = made_up(a=(0.1, 0.2), **{"sklearn LinearSVC": (0.1, 0.2)})
    for runner in result.runners:
        for fit in runner.fits:
            fit.records[:] = [fit.last._replace(dual=50.0)]
    assert result.gap("sklearn LinearSVC") == pytest.approx(0.0005) and result.gap("a") == pytest.approx(0.5)
    assert result.seconds_to("sklearn LinearSVC", 1e-3) == 0.2 and result.seconds_to("a", 1e-3) is None


def test_seconds_on_the_way_are_those_of_the_median():
    result = made_up(a=(4.0, 8.0))
    result["a"].fits[1].times += [2.0, 2.0]
    assert [record.seconds for record in result["a"].history] == [0.25, 1.0]  # records of 1 s each, the second / 4
    assert sorted(row["seconds"] for row in result.rows()) == [0.25, 1.0]


def test_the_estimators_tolerance_is_what_the_advice_is_about():
    result = race(X2, Y2, estimator=LinearSVC(tol=1e-4), solvers=["newton"])
    assert result.targets == (1e-2, 1e-3, 1e-4, 1e-6) and "proven to 0.01 % in" in result.recommendation


def test_auto_is_what_a_fit_takes():
    for estimator, X, y in ((LinearSVC(), X2, Y2), (SVC(), X3, Y3), (LinearSVC(C=1e-3), sp.random(300, 2000, 0.01), 0)):
        y = np.arange(X.shape[0]) % 2 if np.isscalar(y) else y
        taken = race(X, y, estimator=estimator, solvers=[*FAST, "smo"], targets=[0.1]).auto
        assert taken == clone(estimator).fit(X, y).solver_.name


def test_percent():
    shares = (1.0, 0.35, 1e-2, 1e-3, 1e-4, 3e-5, 1e-6, 1e-9)
    words = ["100 %", "35 %", "1 %", "0.1 %", "0.01 %", "0.003 %", "0.0001 %", "1e-07 %"]
    assert [percent(share) for share in shares] == words


def test_the_table_has_a_line_for_each(two):
    table = two.table()
    assert table.header == ["solver", "s to 1 %", "s to 0.1 %", "s to 0.0001 %", "proven gap", "ended"]
    assert [row[0] for row in table.rows] == [runner.name for runner in two.runners]
    for row in table.rows:
        assert len(row) == 6 and float(row[4]) == pytest.approx(two.gap(row[0]), rel=0.06)
        for cell, target in zip(row[1:4], two.targets, strict=True):
            took = two.seconds_to(row[0], target)
            assert cell == "-" if took is None else float(cell) == pytest.approx(took, rel=0.01, abs=6e-4)
    printed = str(two)
    assert "not raced: smo needs a kernel problem" in printed and "warmed up" in printed


def test_plots_are_the_best_model_so_far(two):
    seconds, passes = two.plots()
    assert seconds.log_x and seconds.log_y and "seconds" in seconds.x and "passes" in passes.x
    assert set(seconds.curves) == {runner.name for runner in two.runners}
    assert set(passes.curves) == {runner.name for runner in two.runners if runner.ours}
    for plot in (seconds, passes):
        for name, (x, y) in plot.curves.items():
            assert (np.diff(x) >= 0).all() and (np.diff(y) < 0).all()
            nearest = min(two.distance(two[name], record) for record in two[name].history)
            assert y[-1] == nearest


def test_files_have_every_certificate(two, tmp_path):
    two.to_csv(tmp_path / "race.csv")
    two.to_jsonl(tmp_path / "race.jsonl")
    with open(tmp_path / "race.csv", newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    objects = [json.loads(line) for line in (tmp_path / "race.jsonl").read_text().splitlines()]
    rows = two.rows()
    assert len(lines) == len(objects) == len(rows) == sum(len(runner.history) for runner in two.runners)
    for row, line, known in zip(rows, lines, objects, strict=True):
        assert list(row) == list(line) == list(known)
        assert float(line["primal"]) == known["primal"] == row["primal"] and known["solver"] == row["solver"]
        assert (line["passes"] == "") == (known["passes"] is None) == math.isnan(row["passes"]) == (not row["ours"])


# --- Ctrl-C and what is wrong -----------------------------------------------------------------------------------------


def interrupt(monkeypatch, at):
    fit, calls = LinearSVC._fit, []

    def interrupted(self, *args):
        calls.append(self)
        if len(calls) == at:
            raise KeyboardInterrupt
        return fit(self, *args)

    monkeypatch.setattr(LinearSVC, "_fit", interrupted)


def test_control_c_keeps_what_is_finished(monkeypatch):
    interrupt(monkeypatch, 2 + 5)  # two warm-ups, three fits of the first solver and one of the second
    result = race(X2, Y2, solvers=FAST)
    assert result.interrupted and [len(runner.fits) for runner in result.runners] == [3, 1]
    assert "Ctrl-C ended the race early." in result.notes() and result.recommendation.startswith("Take newton")
    monkeypatch.undo()
    interrupt(monkeypatch, 2)
    with pytest.raises(KeyboardInterrupt):
        race(X2, Y2, solvers=FAST)


@pytest.mark.parametrize(
    ("facts", "error", "sentence"),
    [
        ({"estimator": OrdinalSVC()}, TypeError, "LinearSVC or SVC of primalsvm, got OrdinalSVC"),
        ({"seconds": 0}, ValueError, "seconds must be a number above 0, got 0"),
        ({"seconds": math.inf}, ValueError, "seconds must be a number above 0, got inf"),
        ({"targets": [0.0]}, ValueError, r"between 0 and 1, got \[0.0\]"),
        ({"solvers": ["fast"]}, ValueError, "solver must be auto, one of .* got 'fast'"),
        ({"solvers": ["smo"]}, ValueError, "none of the solvers accepts the problem: smo needs a kernel problem"),
        ({"y": Y2[1:]}, ValueError, "inconsistent numbers of samples"),
        ({"estimator": LinearSVC(C=-1)}, ValueError, "C must be"),
    ],
    ids=str,
)
def test_wrong_input_gets_one_sentence(facts, error, sentence):
    with pytest.raises(error, match=sentence) as caught:
        race(**{"X": X2, "y": Y2} | facts)
    assert "\n" not in str(caught.value)


def test_pieces_are_refused():
    with pytest.raises(ValueError, match="in memory"):
        race(as_chunks(X2, Y2), Y2)


def test_a_runner_that_is_not_there(two):
    with pytest.raises(KeyError, match="'smo' did not race; cutting_plane, "):
        two["smo"]


# --- the picture ------------------------------------------------------------------------------------------------------


def test_the_picture_shows_the_curves(two):
    shown = RaceDisplay.from_race(two)
    shown.figure_.canvas.draw()
    for plot, ax, k in zip(two.plots(), shown.ax_, range(2), strict=True):
        for name, (x, y) in plot.curves.items():
            line = shown.lines_[name][k]
            assert line.axes is ax
            np.testing.assert_array_equal(line.get_xdata(), x)
            np.testing.assert_array_equal(line.get_ydata(), np.where(y > 0, y, np.nan))
            assert (line.get_linestyle() == "--") == (not two[name].ours)
        assert ax.get_yscale() == "log" and ax.get_xlabel() == plot.x
    looks = {(str(lines[0].get_color()), lines[0].get_marker()) for lines in shown.lines_.values()}
    assert len(looks) == len(two.runners)
    legend = [text.get_text() for text in shown.ax_[1].get_legend().get_texts()]
    assert legend == [runner.name for runner in two.runners]


def test_the_picture_of_an_estimator():
    axes = plt.subplots(1, 2)[1]
    shown = RaceDisplay.from_estimator(LinearSVC(), X2, Y2, solvers=["newton"], ax=axes)
    assert list(shown.ax_) == list(axes) and list(shown.lines_) == ["newton"]


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("race")
    pd.DataFrame(X3, columns=[f"x{j}" for j in range(64)]).assign(kind=np.array(["low", "middle", "high"])[Y3]).to_csv(
        folder / "rows.csv", index=False
    )
    texts = [f"the {['dull', 'fine', 'superb'][k]} film" for k in Y3]
    pd.DataFrame({"phrase": texts, "stars": Y3}).to_csv(folder / "texts.tsv", sep="\t", index=False)
    return folder


def test_the_command_says_what_the_function_does(files, tmp_path):
    outputs = ["--picture", tmp_path / "r.png", "--csv", tmp_path / "r.csv", "--jsonl", tmp_path / "r.jsonl"]
    options = ["--label", "kind", "--loss", "hinge", "--C", "2", "--solvers", "newton, dual_coordinate_ascent,smo"]
    options += ["--intercept", "penalized", "--multi-class", "ovo", "--rivals", "--seed", "4", "--tol", "1e-4"]
    options += ["--seconds", "60"]
    report = json.loads(done("compare", files / "rows.csv", *options, *outputs, "--json").stdout)
    model = LinearSVC("hinge", C=2, fit_intercept="penalized", multi_class="ovo", tol=1e-4)
    names = np.array(["low", "middle", "high"])[Y3]
    wanted = race(X3, names, estimator=model, solvers=[*FAST, "smo"], rivals=True, random_state=4, seconds=60)
    assert list(report["solvers"]) == [runner.name for runner in wanted.runners]
    for name in FAST:
        assert report["solvers"][name]["proven_gap"] == pytest.approx(wanted.gap(name))
        assert set(report["solvers"][name]["seconds_to"]) == {"0.01", "0.001", "0.0001", "1e-06"}
        assert report["solvers"][name]["status"] == "converged" and report["solvers"][name]["warm_up"] > 0
    assert report["not_raced"] == wanted.refused and report["auto"] == wanted.auto
    assert report["recommendation"].startswith("Take ") and not report["interrupted"]
    assert report["problem"] == "hinge, C 2, penalised intercept, one against one"
    assert (tmp_path / "r.png").read_bytes().startswith(b"\x89PNG")
    lines = (tmp_path / "r.jsonl").read_text().splitlines()
    assert len((tmp_path / "r.csv").read_text().splitlines()) == len(lines) + 1
    assert json.loads(lines[0])["solver"] == "newton"


@pytest.mark.parametrize("width", ["60", "80", "200"])
def test_the_printed_table_ends_with_the_advice(files, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", width)
    result = done("compare", files / "rows.csv", "--label", "kind", "--solvers", "newton,smo,dual_coordinate_ascent")
    words = " ".join(result.stdout.split())
    assert re.search(r"Take \w+: proven to 0\.1 % in [\d.]+ s, .*solver='auto' .*\.$", words)
    assert "not raced: smo needs a kernel problem; this is a linear problem" in words
    assert "classes 3: high (177), low (178), middle (182)" in words and "proven to 0.0001 %" in words
    assert "3 binary problems" in words and result.stderr == ""
    for line in result.stdout.splitlines():
        assert len(line) <= int(width) or line.startswith(("data", "problem"))  # facts are not wrapped


def test_the_command_takes_kernels_and_texts(files):
    kernel = ["--kernel", "poly", "--degree", "2", "--coef0", "1", "--gamma", "0.5", "--solvers", "smo", "--json"]
    report = json.loads(done("compare", files / "rows.csv", "--label", "kind", *kernel).stdout)
    assert list(report["solvers"]) == ["smo"] and report["problem"].startswith(
        "hinge, C 1, free intercept, one against"
    )
    texts = ["--text", "phrase", "--label", "stars", "--solvers", "newton", "--json"]
    report = json.loads(done("compare", files / "texts.tsv", *texts).stdout)
    assert report["words"] == 5 and list(report["solvers"]) == ["newton"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--solvers", "newton,fast"], "solver must be auto, one of .* got 'fast'"),
        (["--solvers", "smo"], "none of the solvers accepts the problem"),
        (["--seconds", "0"], "seconds must be a number above 0"),
        (["--picture", "/nowhere/r.png"], "there is no folder"),
        (["--picture", "r.xyz"], "xyz"),
        (["--jsonl", "/nowhere/r.jsonl"], "there is no folder"),
        (["--gamma", "2"], "--gamma goes with a kernel"),
        (["--C", "0"], "C must be"),
        (["--ngrams", "2"], "--ngrams goes with text"),
    ],
    ids=str,
)
def test_wrong_options_are_one_sentence(files, options, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert re.search(words, refusal("compare", files / "rows.csv", "--label", "kind", *options))


def test_without_matplotlib_a_picture_is_refused_before_the_race(files, monkeypatch, tmp_path):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.setattr("primalsvm.race.race", lambda *args, **facts: pytest.fail("it raced"))
    said = refusal("compare", files / "rows.csv", "--label", "kind", "--picture", tmp_path / "r.png")
    assert 'pip install "primalsvm[plot]"' in said


def test_control_c_prints_what_is_finished_and_exits_with_130(files, monkeypatch):
    interrupt(monkeypatch, 2 + 5)
    options = ["--label", "kind", "--solvers", ",".join(FAST)]
    result = done("compare", files / "rows.csv", *options, code=130)
    assert "Ctrl-C ended the race early." in result.stdout and "Take newton" in result.stdout
    monkeypatch.undo()
    interrupt(monkeypatch, 1)
    nothing = run("compare", files / "rows.csv", *options)
    assert nothing.exit_code == 130 and nothing.stderr == "interrupted before there was anything to keep\n"


def test_short_is_a_second():
    assert SHORT == 1.0  # the notes and the documentation say so
