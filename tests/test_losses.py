"""Losses by their identities: Fenchel-Young, derivatives against differences, the numbers that the dual sees.

All losses are piecewise quadratic, so a central difference inside one piece has no truncation error: what is left is
rounding, and the tolerances say how much of it there can be.
"""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from primalsvm.losses import LOSSES, Hinge, Huber, SquaredHinge, make_loss

EPS = 2.0**-52
ALL = [Hinge(), SquaredHinge(), Huber(0.5), Huber(0.001), Huber(3.0)]
every_loss = pytest.mark.parametrize("loss", ALL, ids=repr)

# far away, and around the kinks of Huber(0.001)
margins = st.one_of(st.floats(-20, 20), st.floats(0.995, 1.005), st.sampled_from([1.0, 0.5, 1.5, -2.0, 4.0]))


def for_all(**strategies):
    return lambda test: settings(max_examples=50, deadline=None)(given(**strategies)(test))


def rounding(m, s=1.0):
    """A handful of roundings of numbers no larger than (1 + |m|)^2 and |s m|."""
    return 16 * EPS * ((1 + abs(m)) ** 2 + abs(s) * (4 + abs(m)) + s * s)


def clear_of_kinks(loss, m, step):
    return all(abs(m - place) > step for place, _, _ in loss.kinks)


# --- the conjugate ----------------------------------------------------------------------------------------------------


@every_loss
@for_all(m=margins)
def test_fenchel_young_is_an_equality_at_the_slope(loss, m):
    s = float(loss.slope(m))
    assert loss.value(m) + loss.conjugate(s) == pytest.approx(s * m, rel=0, abs=rounding(m, s))


@every_loss
@for_all(m=margins, share=st.floats(0, 1))
def test_fenchel_young_is_an_inequality_elsewhere(loss, m, share):
    s = -share * min(loss.bound, 30.0)
    assert loss.value(m) + loss.conjugate(s) >= s * m - rounding(m, s)


@every_loss
@for_all(share=st.floats(0, 1))
def test_conjugate_is_the_supremum(loss, share):
    s = -share * min(loss.bound, 10.0)
    step = 1e-3
    grid = np.concatenate([np.arange(-25.0, 25.0, step), [place for place, _, _ in loss.kinks]])
    supremum = np.max(s * grid - loss.value(grid))
    # the grid misses the maximiser by step / 2 at most, and there s m - l(m) has the curvature -l''; the hinge has its
    # maximiser on the grid
    missed = np.max(loss.curvature(grid)) / 8 * step**2
    assert supremum - rounding(25, s) <= loss.conjugate(s) <= supremum + missed + rounding(25, s)


@every_loss
@for_all(s=st.floats(1e-6, 1e6))
def test_conjugate_is_infinite_where_the_supremum_is(loss, s):
    assert loss.conjugate(s) == np.inf  # s m - l(m) grows with m
    if np.isfinite(loss.bound):
        assert loss.conjugate(-loss.bound - s) == np.inf  # ... and towards minus infinity


@every_loss
@for_all(share=st.floats(0, 1))
def test_three_numbers_give_the_dual_form(loss, share):
    a = share * min(loss.bound, 10.0)
    table = {"hinge": a, "squared_hinge": a - a * a / 4, "huber": a + getattr(loss, "h", 0.0) * a * (1 - a)}
    r = loss.tilt * a - loss.bend / 2 * a * a
    assert r == pytest.approx(table[loss.name], rel=0, abs=rounding(0, a))
    assert r == pytest.approx(-float(loss.conjugate(-a)), rel=0, abs=rounding(0, a))


# --- slope and curvature ----------------------------------------------------------------------------------------------


@every_loss
@for_all(m=margins)
def test_slope_is_the_derivative_of_the_value(loss, m):
    step = 2.0**-14
    assume(clear_of_kinks(loss, m, step))
    difference = float(loss.value(m + step) - loss.value(m - step)) / (2 * step)
    assert loss.slope(m) == pytest.approx(difference, rel=0, abs=rounding(m) / step)


@every_loss
@for_all(m=margins)
def test_curvature_is_the_derivative_of_the_slope(loss, m):
    step = 2.0**-14
    assume(clear_of_kinks(loss, m, step))
    difference = float(loss.slope(m + step) - loss.slope(m - step)) / (2 * step)
    steepest = 1 + np.max(
        loss.curvature(np.array([m, 1.0 - 1e-9]))
    )  # a rounding of the margin moves l' by l'' times it
    assert loss.curvature(m) == pytest.approx(difference, rel=0, abs=steepest * rounding(m) / step)


@every_loss
@for_all(m=margins)
def test_kinks_tell_the_whole_slope(loss, m):
    """Right of the last kink l' = 0; going left, every kink takes its jumps back. At a kink the left slope counts."""
    ahead = [(place, step, turn) for place, step, turn in loss.kinks if place >= m]
    slope = -sum(step + turn * (m - place) for place, step, turn in ahead)
    assert loss.slope(m) == pytest.approx(slope, rel=0, abs=rounding(m) * (1 + max(abs(k[2]) for k in loss.kinks)))
    if clear_of_kinks(loss, m, 0.0):
        assert loss.curvature(m) == pytest.approx(-sum(turn for _, _, turn in ahead))


@every_loss
def test_flags_say_what_the_kinks_and_the_bound_say(loss):
    assert loss.smooth == all(jump == 0 for _, jump, _ in loss.kinks)
    assert loss.lipschitz == (loss.bound <= 1)
    steepest = -float(loss.slope(-1e6))
    assert steepest == loss.bound if loss.lipschitz else steepest > 1e6


# --- shape ------------------------------------------------------------------------------------------------------------


@every_loss
@for_all(m=margins, ahead=st.floats(0, 10))
def test_convex_and_not_increasing(loss, m, ahead):
    first, middle, last = loss.value(np.array([m, m + ahead / 2, m + ahead]))
    slack = rounding(abs(m) + ahead)
    assert first >= middle - slack >= last - 2 * slack >= -3 * slack
    assert middle <= (first + last) / 2 + slack
    left, right = loss.slope(np.array([m, m + ahead]))
    assert -loss.bound <= left <= right <= 0
    assert loss.curvature(m) >= 0


@for_all(m=margins, h=st.floats(1e-6, 5))
def test_huber_is_within_a_quarter_h_of_the_hinge(m, h):
    excess = float(Huber(h).value(m) - Hinge().value(m))
    assert -rounding(m) <= excess <= h / 4 + rounding(m) + 4 * EPS * h


def test_huber_is_furthest_from_the_hinge_at_the_kink():
    assert Huber(0.5).value(1.0) - Hinge().value(1.0) == 0.5 / 4


@every_loss
def test_values_by_hand(loss):
    at = np.array([-9.0, 0.0, 1.0, 9.0])
    by_hand = {
        "Hinge()": [10, 1, 0, 0],
        "SquaredHinge()": [100, 1, 0, 0],
        "Huber(h=0.5)": [10, 1, 0.125, 0],  # (1 + h - m)^2 / 4h at m = 1 is h / 4
        "Huber(h=0.001)": [10, 1, 0.00025, 0],
        "Huber(h=3.0)": [10, 4 / 3, 0.75, 0],
    }
    np.testing.assert_allclose(loss.value(at), by_hand[repr(loss)], rtol=1e-12)


# --- names and errors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("h", [0, -0.5, np.nan, np.inf, -np.inf])
def test_huber_refuses_a_width_that_is_none(h):
    with pytest.raises(ValueError, match=r"^Huber needs h > 0, got .*; for h = 0 use Hinge\(\)\.$"):
        Huber(h)


@pytest.mark.parametrize("name", LOSSES)
def test_make_loss_by_name(name):
    assert make_loss(name).name == name


@every_loss
def test_make_loss_takes_an_object_as_it_is(loss):
    assert make_loss(loss) is loss


@pytest.mark.parametrize("wrong", ["logistic", "", None, 1, Hinge, ["hinge"]])
def test_make_loss_says_what_there_is(wrong):
    with pytest.raises(
        ValueError, match=r"^loss must be one of hinge, squared_hinge, huber or a Loss object, got .*\.$"
    ):
        make_loss(wrong)
