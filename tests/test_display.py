"""The displays: what is drawn is what the model says."""

import subprocess
import sys
from dataclasses import fields
from inspect import Parameter, signature

import matplotlib
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from primalsvm import SVCCV, LinearSVC, LinearSVCCV, OrdinalSVC, Record, TunedSVC
from primalsvm.display import BoundaryDisplay, ConvergenceDisplay, MarginDisplay, PathDisplay, TrainingDisplay
from primalsvm.explain_display import ContributionsDisplay, WeightsDisplay
from primalsvm.race_display import RaceDisplay
from primalsvm.relevance import RelevanceDisplay

matplotlib.use("Agg")
import matplotlib.pyplot as plt

IRIS = load_iris(as_frame=True)
NAMES = ["petal length (cm)", "petal width (cm)"]
X3, Y3 = IRIS.data[NAMES].to_numpy(), IRIS.target_names[IRIS.target]
X2, Y2 = X3[50:], Y3[50:]  # versicolor and virginica, which overlap
FRAME = IRIS.data[NAMES][50:]
SIGNS = np.where(Y2 == "virginica", 1.0, -1.0)


@pytest.fixture(scope="module")
def two():
    return LinearSVC("hinge", max_iter=100_000).fit(X2, Y2)


@pytest.fixture(scope="module")
def three():
    return LinearSVC(max_iter=100_000).fit(X3, Y3)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def render(*displays):
    """As savefig does: a layout that fails and a glyph that is missing are warnings, and those are errors."""
    for display in displays:
        display.figure_.canvas.draw()


def vertices(contour):
    return np.concatenate([path.vertices for path in contour.get_paths()])


def texts(ax):
    return [text.get_text() for text in ax.texts]


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


# --- convergence ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("x", ["seconds", "passes", "iteration"])
def test_convergence_draws_the_history(two, x):
    display = ConvergenceDisplay.from_estimator(two, x=x)
    primal, dual, gap = display.lines_[""]
    for line, values in (
        (primal, [r.primal for r in two.history_]),
        (dual, [r.dual for r in two.history_]),
        (gap, [r.gap / r.primal for r in two.history_]),
    ):
        np.testing.assert_array_equal(line.get_xdata(), [getattr(r, x) for r in two.history_])
        np.testing.assert_allclose(line.get_ydata(), values, rtol=1e-15)
    bounds, gaps = display.ax_
    assert primal.axes is bounds and dual.axes is bounds and gap.axes is gaps
    assert gaps.get_yscale() == "log" and x in gaps.get_xlabel()
    assert display.figure_ is bounds.figure


def test_convergence_marks_the_tolerance(two):
    gaps = ConvergenceDisplay.from_estimator(two).ax_[1]
    assert any(set(line.get_ydata()) == {two.tol} for line in gaps.lines)
    assert texts(gaps) == [f"tol = {two.tol:g}"]
    assert texts(ConvergenceDisplay.from_history(two.history_).ax_[1]) == []


def test_convergence_shows_the_end_and_not_only_the_start():
    steep = [Record(k, 0.1 * k, k, 10.0 + 1e6 * 0.1**k, 10.0 - 9.0 * 0.5**k, 0.0) for k in range(1, 20)]
    low, high = ConvergenceDisplay.from_history(steep).ax_[0].get_ylim()
    assert low <= 1.0 and 10.0 < high < 100.0


def test_convergence_compares_runs(two):
    runs = {"hinge": two.history_, "half of it": two.history_[: len(two.history_) // 2]}
    display = ConvergenceDisplay.from_histories(runs, x="passes", tol=1e-3)
    assert list(display.lines_) == list(runs) == legend(display.ax_[1])
    assert len({lines[2].get_color() for lines in display.lines_.values()}) == 2
    for name, (primal, dual, gap) in display.lines_.items():
        np.testing.assert_array_equal(primal.get_ydata(), [r.primal for r in runs[name]])
        assert primal.get_color() == dual.get_color() == gap.get_color()
        assert primal.get_linestyle() != dual.get_linestyle()


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
def test_convergence_has_a_line_for_each_binary_problem(multi_class):
    model = LinearSVC(multi_class=multi_class, max_iter=100_000).fit(X3, Y3)
    display = ConvergenceDisplay.from_estimator(model, x="passes")
    assert "virginica" in list(display.lines_)[2] and "setosa" not in list(display.lines_)[2]
    for (_, _, gap), history in zip(display.lines_.values(), model.history_, strict=True):
        np.testing.assert_allclose(gap.get_ydata(), [r.gap / r.primal for r in history], rtol=1e-15)


def test_convergence_of_many_runs_keeps_their_colours_apart(two):
    display = ConvergenceDisplay.from_histories({f"run {k}": two.history_ for k in range(12)})
    assert len({tuple(lines[2].get_color()) for lines in display.lines_.values()}) == 12
    render(display)


def test_convergence_of_a_run_that_ended_where_it_began():
    render(
        ConvergenceDisplay.from_history([Record(0, 0.0, 0.0, 2.0, 0.0, 2.0)], x="passes", tol=1e-3),
        ConvergenceDisplay.from_history([Record(1, 0.1, 1.0, 2.0, 2.0, 0.0)], x="passes", tol=0.0),
    )


def test_displays_draw_on_given_axes(two):
    axes = plt.subplots(4, layout="constrained")[1]
    convergence = ConvergenceDisplay.from_estimator(two, ax=axes[:2])
    boundary = BoundaryDisplay.from_estimator(two, X2, Y2, ax=axes[2])
    margins = MarginDisplay.from_estimator(two, X2, Y2, ax=axes[3])
    assert [*convergence.ax_, boundary.ax_, margins.ax_] == list(axes)
    assert len(plt.get_fignums()) == 1
    render(margins)


def test_displays_render_without_a_warning(two, three, training):
    render(ConvergenceDisplay.from_estimator(two), BoundaryDisplay.from_estimator(three, X3, Y3), training)
    render(MarginDisplay.from_estimator(three, X3, Y3), BoundaryDisplay.from_estimator(two, X2, Y2))


# --- boundary ---------------------------------------------------------------------------------------------------------


def test_boundary_and_margins_lie_where_the_scores_say(two):
    display = BoundaryDisplay.from_estimator(two, X2, Y2)
    for contour, level in zip(display.contours_, (-1.0, 0.0, 1.0), strict=True):
        points = vertices(contour)
        assert len(points) > 10
        np.testing.assert_allclose(two.decision_function(points), level, atol=1e-8)  # linear between grid points
    styles = [contour.get_linestyle()[0][1] for contour in display.contours_]
    assert styles[1] is None and styles[0] is not None and styles[2] is not None  # solid between dashed


def test_support_vectors_are_ringed(two):
    display = BoundaryDisplay.from_estimator(two, X2, Y2)
    np.testing.assert_array_equal(display.rings_.get_offsets(), X2[two.support_])
    assert legend(display.ax_) == ["versicolor", "virginica", f"support vectors ({len(two.support_)})"]
    assert BoundaryDisplay.from_estimator(two, X2, Y2, support=[]).rings_ is None
    chosen = BoundaryDisplay.from_estimator(two, X2[:7], Y2[:7], support=[3])
    np.testing.assert_array_equal(chosen.rings_.get_offsets(), X2[[3]])


def test_samples_are_drawn_by_class(two):
    display = BoundaryDisplay.from_estimator(two, X2, Y2)
    drawn = {c.get_label(): c.get_offsets() for c in display.ax_.collections}
    for name in two.classes_:
        np.testing.assert_array_equal(drawn[name], X2[name == Y2])


def test_regions_of_three_classes_meet_where_the_best_two_scores_tie(three):
    display = BoundaryDisplay.from_estimator(three, X3, Y3)
    assert len(display.contours_) == 3 and display.rings_ is None
    for k, contour in enumerate(display.contours_):
        points = vertices(contour)
        scores = three.decision_function(points)
        others = np.delete(scores, k, axis=1).max(axis=1)
        # where a third class comes in the lead bends, within a grid cell
        assert np.quantile(np.abs(scores[:, k] - others), 0.95) < 1e-6
    assert legend(display.ax_) == list(three.classes_)


@pytest.mark.parametrize("wrap", [lambda model: model, lambda model: make_pipeline(StandardScaler(), model)])
def test_boundary_of_frames_and_pipelines(wrap):
    model = wrap(LinearSVC("hinge", max_iter=100_000)).fit(FRAME, Y2)
    display = BoundaryDisplay.from_estimator(model, FRAME, Y2)
    assert [display.ax_.get_xlabel(), display.ax_.get_ylabel()] == NAMES
    last = model[-1] if hasattr(model, "steps") else model
    np.testing.assert_array_equal(display.rings_.get_offsets(), FRAME.to_numpy()[last.support_])
    points = FRAME.iloc[:0].reindex(range(5))
    points[:] = vertices(display.contours_[1])[:5]
    np.testing.assert_allclose(model.decision_function(points), 0.0, atol=1e-8)
    ConvergenceDisplay.from_estimator(model)
    MarginDisplay.from_estimator(model, FRAME, Y2)


def test_boundary_of_other_peoples_classifiers():
    model = SVC(C=10.0).fit(X2, Y2)
    display = BoundaryDisplay.from_estimator(model, X2, Y2)
    np.testing.assert_array_equal(display.rings_.get_offsets(), X2[model.support_])
    np.testing.assert_allclose(model.decision_function(vertices(display.contours_[1])), 0.0, atol=1e-3)


def test_boundary_where_a_margin_or_the_boundary_is_out_of_sight():
    model = LinearSVC("hinge", C=1e-6).fit(X2, Y2)  # almost no weights: the scores never come to +-1
    display = BoundaryDisplay.from_estimator(model, X2, Y2)
    assert len(display.contours_) <= 1
    render(display)


def test_boundary_takes_a_sparse_matrix_and_a_constant_feature(two):
    BoundaryDisplay.from_estimator(two, sp.csr_array(X2), Y2)
    flat = np.column_stack([X2[:, 0], np.ones(len(X2))])
    display = BoundaryDisplay.from_estimator(LinearSVC().fit(flat, Y2), flat, Y2)
    assert np.all(np.diff(display.grid) > 0)
    render(display)


# --- margins ----------------------------------------------------------------------------------------------------------


def bars(display):
    return [patch for patch in display.ax_.patches if isinstance(patch, matplotlib.patches.StepPatch)]


def test_margins_of_two_classes_are_y_f(two):
    display = MarginDisplay.from_estimator(two, X2, Y2)
    margins = SIGNS * two.decision_function(X2)
    np.testing.assert_array_equal(display.margins, margins)
    for k, name in enumerate(two.classes_):
        mine = margins[name == Y2]
        assert display.errors_[k] == np.mean(mine < 0)
        assert display.errors_[k] == pytest.approx(1 - two.score(X2[name == Y2], Y2[name == Y2]))
        assert display.violations_[k] == np.mean(mine < 1)
        assert texts(display.ax_)[k] == f"{np.mean(mine < 0):.1%} wrong\n{np.mean(mine < 1):.1%} below 1"


def test_margin_bars_count_the_samples_and_keep_errors_left_of_zero(two):
    display = MarginDisplay.from_estimator(two, X2, Y2)
    for k, patch in enumerate(bars(display)):
        values, edges, baseline = patch.get_data()
        heights = values - baseline
        mine = display.margins[display.labels == k]
        counts = np.histogram(mine, edges)[0]
        np.testing.assert_allclose(heights / heights.sum(), counts / len(mine))
        for level in (0.0, 1.0):
            assert np.min(np.abs(edges - level)) < 1e-12
            assert counts[edges[:-1] < level - 1e-9].sum() == np.sum(mine < level)


def test_margins_of_three_classes_are_negative_where_the_prediction_is_wrong(three):
    display = MarginDisplay.from_estimator(three, X3, Y3)
    np.testing.assert_array_equal(display.margins < 0, three.predict(X3) != Y3)
    scores = three.decision_function(X3)
    signs = np.where(Y3[:, None] == three.classes_, 1.0, -1.0)
    violated = (signs * scores < 1).any(axis=1)
    assert violated[display.margins < 1].all()
    assert len(bars(display)) == 3


def test_margins_on_other_data_sparse_data_and_an_absent_class(two):
    display = MarginDisplay.from_estimator(two, sp.csr_array(X2[:10]), Y2[:10])
    assert texts(display.ax_)[1] == "no samples" and np.isnan(display.errors_[1])
    wide = MarginDisplay(1e6 * SIGNS, np.arange(len(SIGNS)) % 2, two.classes_).plot()
    assert len(bars(wide)[0].get_data().edges) < 100
    render(display, wide)


# --- training ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def training():
    model = LinearSVC("hinge", solver="subgradient", max_iter=7, tol=0.5)
    display = TrainingDisplay.from_estimator(model, X2, Y2, iterations=20)
    assert model.get_params()["max_iter"] == 7 and not hasattr(model, "coef_")
    return display


def test_training_snapshots_are_the_models_of_short_fits(training):
    assert [snapshot.iteration for snapshot in training.snapshots] == [1, 2, 4, 8, 16, 20]
    for iteration, passes, accuracy, model in training.snapshots:
        assert model.get_params() == LinearSVC("hinge", solver="subgradient", max_iter=iteration, tol=0.0).get_params()
        assert model.n_iter_ == iteration and model.history_[-1].passes == passes
        assert accuracy == model.score(X2, Y2)
    primals = [snapshot.model.certificate_.primal for snapshot in training.snapshots]
    assert primals[-1] < primals[0]


def test_training_curves_are_the_history_and_the_accuracies(training):
    history = [r for r in training.snapshots[-1].model.history_ if r.iteration > 0]
    primal, dual = training.ax_["objective"].lines
    np.testing.assert_array_equal(primal.get_xydata(), [(r.passes, r.primal) for r in history])
    np.testing.assert_array_equal(dual.get_xydata(), [(r.passes, r.dual) for r in history])
    (accuracy,) = training.ax_["accuracy"].lines
    np.testing.assert_allclose(accuracy.get_ydata(), [100 * s.accuracy for s in training.snapshots])
    np.testing.assert_array_equal(accuracy.get_xdata(), [s.passes for s in training.snapshots])


def test_training_shows_the_hyperplanes_and_support_vectors_of_the_moment(training):
    shown = [training.ax_[str(j)] for j in range(4)]
    for ax, snapshot in zip(shown, [training.snapshots[k] for k in (0, 2, 3, 5)], strict=True):
        inside = SIGNS * snapshot.model.decision_function(X2) <= 1.001
        word = "iteration" if snapshot.iteration == 1 else "iterations"
        assert ax.get_title() == f"{snapshot.iteration} {word}\n{inside.sum()} support vectors"
        (rings,) = [c for c in ax.collections if c.get_label().startswith("support vectors")]
        np.testing.assert_array_equal(rings.get_offsets(), X2[inside])


def test_training_ends_when_the_solver_does():
    display = TrainingDisplay.from_estimator(LinearSVC("hinge"), [[-1.0, 0.0], [1.0, 0.0]], [0, 1], iterations=10_000)
    assert display.snapshots[-1].iteration < 10_000
    assert len({snapshot.iteration for snapshot in display.snapshots}) == len(display.snapshots)


def test_training_with_more_features_leaves_the_plane_out():
    X = IRIS.data.to_numpy()[50:]
    display = TrainingDisplay.from_estimator(LinearSVC("hinge"), X, Y2, iterations=3)
    assert set(display.ax_) == {"objective", "accuracy"}
    render(display)


# --- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("draw", "error", "sentence"),
    [
        (
            lambda m: ConvergenceDisplay.from_estimator(m, x="time"),
            ValueError,
            "seconds, passes, iteration, got 'time'",
        ),
        (lambda m: ConvergenceDisplay.from_estimator(LinearSVC()), NotFittedError, "not fitted"),
        (lambda m: ConvergenceDisplay.from_estimator(SVC().fit(X2, Y2)), TypeError, "SVC keeps no history"),
        (lambda m: ConvergenceDisplay.from_histories({}), ValueError, "at least one history"),
        (lambda m: ConvergenceDisplay.from_histories({"a": []}), ValueError, "at least one record"),
        (lambda m: ConvergenceDisplay.from_histories(m.history_), TypeError, "dict {name: history}, got list"),
        (lambda m: ConvergenceDisplay.from_estimator(m, ax=plt.gca()), ValueError, "2 matplotlib axes, got 1"),
        (lambda m: BoundaryDisplay.from_estimator(LinearSVC(), X2, Y2), NotFittedError, "not fitted"),
        (lambda m: BoundaryDisplay.from_estimator(m, X2[:, :1], Y2), ValueError, r"\(n, 2\), got \(100, 1\)"),
        (lambda m: BoundaryDisplay.from_estimator(m, X2[:0], Y2[:0]), ValueError, r"\(n, 2\), got \(0, 2\)"),
        (lambda m: BoundaryDisplay.from_estimator(m, X2, Y2[1:]), ValueError, "same length, got 100 and 99"),
        (
            lambda m: BoundaryDisplay.from_estimator(m, X3, Y3),
            ValueError,
            "label setosa.*classes: versicolor, virginica",
        ),
        (lambda m: BoundaryDisplay.from_estimator(m, X2[:9], Y2[:9]), ValueError, "X has 9 rows.*100.*support="),
        (lambda m: MarginDisplay.from_estimator(LinearSVC(), X2, Y2), NotFittedError, "not fitted"),
        (lambda m: MarginDisplay.from_estimator(m, X2, Y2[1:]), ValueError, "same length"),
        (lambda m: MarginDisplay.from_estimator(m, X2, Y3[:100]), ValueError, "label setosa"),
        (
            lambda m: MarginDisplay.from_estimator(LinearSVC(multi_class="ovo", max_iter=100_000).fit(X3, Y3), X3, Y3),
            ValueError,
            "multi_class='ovr'",
        ),
        (lambda m: TrainingDisplay.from_estimator(LinearSVC(), X3, Y3), ValueError, "two classes, y has 3"),
        (lambda m: TrainingDisplay.from_estimator(LinearSVC(), X2, Y2, iterations=0), ValueError, "1 or more, got 0"),
    ],
)
def test_wrong_input_gets_one_sentence(two, draw, error, sentence):
    with pytest.raises(error, match=f"(?s){sentence}") as caught:
        draw(two)
    assert "\n" not in str(caught.value)


def test_without_matplotlib_the_error_says_what_to_install(two, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    for draw in (
        lambda: ConvergenceDisplay.from_estimator(two),
        lambda: BoundaryDisplay.from_estimator(two, X2, Y2),
        lambda: MarginDisplay.from_estimator(two, X2, Y2),
        lambda: TrainingDisplay.from_estimator(LinearSVC("hinge"), X2, Y2, iterations=1),
    ):
        with pytest.raises(ImportError, match=r'pip install "primalsvm\[plot\]"'):
            draw()


def test_importing_the_displays_does_not_import_matplotlib():
    code = "import sys, primalsvm.display; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# PathDisplay ----------------------------------------------------------------------------------------------------------
def test_the_path_shows_every_score_and_both_choices():
    search = SVCCV(Cs=[0.01, 0.1, 1, 10], gammas=[0.1, 1.0, 10.0]).fit(X3, Y3)
    shown = PathDisplay.from_estimator(search)
    render(shown)
    points = {(p["C"], p["gamma"]): m for p, m in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True)}  # fmt: skip  # noqa: E501
    for gamma, line in zip(shown.gammas, shown.lines_, strict=True):
        assert [points[C, gamma] for C in line.get_xdata()] == list(line.get_ydata())
    assert shown.mean[shown.best] == search.best_score_ == max(points.values())
    simple = clone(search).set_params(choice="one_standard_error").fit(X3, Y3)
    place = shown.gammas[shown.simplest[0]], shown.Cs[shown.simplest[1]]
    assert place == (simple.best_params_["gamma"], simple.best_params_["C"])
    labels = [text.get_text() for text in shown.ax_.get_legend().get_texts()]
    assert labels[-2].startswith("best: C = ") and len(labels) == 5


def test_the_path_of_a_linear_search_in_axes_of_ones_own():
    search = make_pipeline(StandardScaler(), LinearSVCCV(Cs=4, scoring="f1_macro")).fit(X3, Y3)
    _, ax = plt.subplots()
    shown = PathDisplay.from_estimator(search, ax=ax)
    render(shown)
    assert shown.ax_ is ax and len(shown.lines_) == 1 and ax.get_ylabel() == "f1_macro"
    with pytest.raises(TypeError, match="LinearSVCCV and SVCCV"):
        PathDisplay.from_estimator(LinearSVC().fit(X3, Y3))


# all displays ---------------------------------------------------------------------------------------------------------
def display_cases():
    """(display, a model, what from_estimator takes besides it, options, how many axes it needs)"""
    linear, search = LinearSVC("hinge", max_iter=100_000), SVCCV(Cs=2, gammas=2)
    race = {"solvers": ["newton"], "seconds": 60.0}
    return {
        "ConvergenceDisplay": (ConvergenceDisplay, linear, (), {}, 2),
        "BoundaryDisplay": (BoundaryDisplay, linear, (X2, Y2), {"resolution": 10}, 1),
        "MarginDisplay": (MarginDisplay, linear, (X2, Y2), {}, 1),
        "PathDisplay": (PathDisplay, search, (), {}, 1),
        "TrainingDisplay": (TrainingDisplay, linear, (X2, Y2), {"iterations": 2}, 4),
        "RelevanceDisplay": (RelevanceDisplay, TunedSVC(max_iter=1), (), {}, 1),
        "WeightsDisplay": (WeightsDisplay, linear, (), {}, 1),
        "ContributionsDisplay": (ContributionsDisplay, linear, (X2[0],), {}, 1),
        "RaceDisplay": (RaceDisplay, linear, (X2, Y2), race, 2),
    }


@pytest.mark.parametrize("name", display_cases())
def test_displays_follow_scikit_learn(name):
    """XDisplay.from_estimator(estimator, ..., ax=None) draws by plot(ax=None), which leaves ax_ and figure_."""
    kind, model, arguments, options, count = display_cases()[name]
    parameters = signature(kind.from_estimator).parameters
    assert next(iter(parameters)) == "estimator"
    assert parameters["ax"].kind is Parameter.KEYWORD_ONLY and parameters["ax"].default is None
    assert signature(kind.plot).parameters["ax"].default is None
    assert kind.__doc__ and kind.from_estimator.__doc__ and kind.plot.__doc__
    model = clone(model).fit(X2, Y2)
    shown = kind.from_estimator(model, *arguments, **options)
    assert isinstance(shown, kind)
    render(shown)
    axes = list(shown.ax_.values()) if isinstance(shown.ax_, dict) else list(np.atleast_1d(shown.ax_))
    assert all(ax.figure is shown.figure_ for ax in axes)
    if name == "TrainingDisplay":
        count = len(axes)
    assert len(axes) == count
    # what it holds can be drawn again, on axes of one's own, and made again from its constructor's arguments
    figure, mine = plt.subplots(count)
    again = kind(*(getattr(shown, field.name) for field in fields(kind) if field.init))
    assert not hasattr(again, "ax_") and again.plot(ax=mine) is again
    drawn = list(again.ax_.values()) if isinstance(again.ax_, dict) else list(np.atleast_1d(again.ax_))
    assert drawn == list(np.atleast_1d(mine)) and again.figure_ is figure
    if count > 1:
        with pytest.raises(ValueError, match=rf"ax must be None or {count} matplotlib axes.*got 1"):
            again.plot(ax=plt.subplots()[1])


def test_no_display_is_forgotten():
    import importlib
    import pkgutil

    import primalsvm

    found = set()
    for module in pkgutil.iter_modules(primalsvm.__path__):
        if "display" in module.name or module.name == "relevance":
            found |= {name for name in vars(importlib.import_module(f"primalsvm.{module.name}")) if "Display" in name}
    assert found == set(display_cases())


@pytest.mark.parametrize(
    "model",
    [LinearSVCCV(Cs=2), SVCCV(Cs=2, gammas=2), TunedSVC(max_iter=1), OrdinalSVC(), make_pipeline(OrdinalSVC())],
    ids=str,
)
def test_convergence_of_models_inside_models(model):
    display = ConvergenceDisplay.from_estimator(clone(model).fit(X3, Y3 == "setosa"))
    render(display)
    assert list(display.lines_) == [""]
    several = ConvergenceDisplay.from_estimator(clone(model).fit(X3, IRIS.target))
    assert len(several.lines_) == (2 if "Ordinal" in str(model) else 3)


def test_labels_of_classes_in_an_order_of_their_own():
    order = ["virginica", "setosa", "versicolor"]
    model = OrdinalSVC(classes=order).fit(X3, Y3)
    display = BoundaryDisplay.from_estimator(model, X3, Y3, support=[], resolution=10)
    assert [order[k] for k in display.labels] == list(Y3)
