"""Zero crossings and exact line searches, against brute force.

`crossing` gets whole numbers, for which float64 makes no rounding error until the one division at the end. What it
returns is judged by exact arithmetic on g itself, never by a second search.
"""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from primalsvm.losses import Hinge, Huber, SquaredHinge
from primalsvm.piecewise import SMALL, crossing, minimize_along

EPS = 2.0**-52
SIZES = (1, 2, 5, SMALL - 1, SMALL, SMALL + 1, 200, 1500)


def for_all(**strategies):
    return lambda test: settings(max_examples=60, deadline=None)(given(**strategies)(test))


# --- crossing ---------------------------------------------------------------------------------------------------------


def rising_function(rng, size, spread, jumps, bends):
    """level, rate, at, jump, bend of a random non-decreasing g with whole numbers; small spread: heavy ties."""
    at = np.sort(rng.integers(-spread, spread + 1, size))
    places, first = np.unique(at, return_index=True)
    rates = rng.integers(0, 4, len(places) + 1) * (rng.random(len(places) + 1) < 0.6) * bends  # many flat pieces
    bend = np.zeros(size)
    bend[first] = np.diff(rates)
    if bends:  # break the turn at a place up among those that tie there, into parts of either sign
        tied = np.flatnonzero(np.diff(at) == 0)
        split = rng.integers(-3, 4, len(tied))
        bend[tied] += split
        bend[tied + 1] -= split
    jump = rng.integers(0, 3, size) * jumps * 1.0
    order = rng.permutation(size)
    low, high = g_limits(0, rates[0], at, jump, bend, at[0] - 1), g_limits(0, rates[0], at, jump, bend, at[-1] + 1)
    level = -int(rng.integers(int(low[0]) - 3, int(high[1]) + 4))  # zero anywhere, also outside the range of g
    return float(level), float(rates[0]), at[order].astype(float), jump[order], bend[order]


def g_limits(level, rate, at, jump, bend, t):
    """g(t-) and g(t+), exactly."""
    t = Fraction(t)
    before = after = Fraction(level) + Fraction(int(rate)) * t
    for place, step, turn in zip(at.tolist(), jump.tolist(), bend.tolist(), strict=True):
        if place <= t:
            after += Fraction(step) + Fraction(turn) * (t - Fraction(place))
        if place < t:
            before += Fraction(step) + Fraction(turn) * (t - Fraction(place))
    return before, after


@for_all(
    seed=st.integers(0, 10**6),
    size=st.sampled_from(SIZES),
    spread=st.sampled_from([0, 1, 3, 40, 10**4]),
    shape=st.sampled_from([(True, True), (True, False), (False, True)]),
)
@example(seed=0, size=1500, spread=0, shape=(True, True))
@example(seed=1, size=1500, spread=1, shape=(True, False))
def test_crossing_is_where_g_changes_sign(seed, size, spread, shape):
    level, rate, at, _, bend = g = rising_function(np.random.default_rng(seed), size, spread, *shape)
    t = crossing(*g)
    first, last = float(at.min()), float(at.max())
    if rate == 0 and level > 0:
        assert t == first  # starts above zero
    elif rate + bend.sum() == 0 and g_limits(*g, last)[1] < 0:
        assert t == last  # never reaches zero
    else:
        # t is a break, or -level / rate with one rounding: zero lies between its neighbours
        left, right = Fraction(t) - Fraction(EPS) * abs(Fraction(t)), Fraction(t) + Fraction(EPS) * abs(Fraction(t))
        assert g_limits(*g, left)[0] <= 0 <= g_limits(*g, right)[1]


@pytest.mark.parametrize("size", SIZES)
def test_crossing_inside_a_jump_shared_by_all(size):
    at, jump = np.full(size, 7.0), np.ones(size)
    for level in (-size, -(size // 2), -1, 0):
        assert crossing(float(level), 0.0, at, jump, np.zeros(size)) == 7.0


@pytest.mark.parametrize("size", SIZES)
def test_crossing_is_met_exactly_at_every_break(size):
    """g(t) = t - target, cut into many breaks of which each adds nothing: the answer is the target to the last bit."""
    at = np.arange(size, dtype=float)
    for target in (-3.0, 0.0, size / 2, size - 1.0, size + 5.0):
        assert crossing(-target, 1.0, at, np.zeros(size), np.zeros(size)) == target


def test_crossing_without_breaks():
    nothing = np.zeros(0)
    assert crossing(-6.0, 2.0, nothing, nothing, nothing) == 3.0
    assert crossing(-6.0, 0.0, nothing, nothing, nothing) == 0.0


def test_crossing_leaves_its_arguments_alone():
    rng = np.random.default_rng(0)
    g = rising_function(rng, 200, 40, True, True)
    before = [np.copy(a) for a in g]
    crossing(*g)
    for old, new in zip(before, g, strict=True):
        np.testing.assert_array_equal(old, new)


# --- minimize_along ---------------------------------------------------------------------------------------------------

LOSSES = [Hinge(), SquaredHinge(), Huber(0.5), Huber(0.01)]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)


def line(loss, cost, margins, change, linear, quadratic, t):
    """The function minimised, for an array of t."""
    t = np.asarray(t, dtype=float)
    values = loss.value(margins + t[..., None] * change)
    return linear * t + quadratic / 2 * t**2 + values @ cost


def least_value(loss, cost, margins, change, linear, quadratic):
    """The minimum over all kinks and over the stationary point of the parabola between any two of them."""
    moving = change != 0
    kinks = [(place - margins[moving]) / change[moving] for place, _, _ in loss.kinks]
    ends = np.sort(np.concatenate([*kinks, [0.0]]))
    ends = np.concatenate([[ends[0] - 1e3], ends, [ends[-1] + 1e3]])
    middle = (ends[1:] + ends[:-1]) / 2
    at = margins + middle[:, None] * change
    slope = linear + quadratic * middle + loss.slope(at) @ (cost * change)
    curvature = quadratic + loss.curvature(at) @ (cost * change**2)
    stationary = middle - np.divide(slope, curvature, out=np.zeros_like(slope), where=curvature > 0)
    return line(loss, cost, margins, change, linear, quadratic, np.concatenate([ends, stationary])).min()


def rounding(loss, cost, margins, change, linear, quadratic, t):
    """n + 8 roundings of the sizes that are added up; those of t count twice, the value being flat around it."""
    sizes = (2 + np.abs(margins) + np.abs(t * change)) ** 2
    return (len(cost) + 8) * 8 * EPS * (abs(linear * t) + quadratic * t * t + float(cost @ sizes))


@st.composite
def lines(draw, bounded_by):
    """cost, margins, change, linear, quadratic with a minimum: a parabola, or losses alone (which are not negative)."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n = draw(st.sampled_from([1, 2, 10, 100]))
    cost, margins, change = rng.uniform(0, 3, n), rng.normal(0, 2, n), rng.normal(size=n)
    if draw(st.booleans()):  # ties: few distinct margins, steps of +-1
        margins, change = np.round(margins), np.sign(change)
    cost[rng.random(n) < 0.2] = 0.0
    change[rng.random(n) < 0.2] = 0.0
    change *= draw(st.sampled_from([1.0, -1.0, 1e-3, 1e3]))
    if bounded_by == "losses":
        return cost, margins, change, 0.0, 0.0
    return cost, margins, change, float(rng.normal(0, 5)), float(10 ** rng.uniform(-2, 2))


@every_loss
@pytest.mark.parametrize("bounded_by", ["a parabola", "losses"])
def test_minimize_along_against_brute_force(loss, bounded_by):
    @for_all(case=lines(bounded_by))
    def check(case):
        cost, margins, change, linear, quadratic = case
        t = minimize_along(loss, cost, margins, change, linear=linear, quadratic=quadratic)
        reached = float(line(loss, *case, t))
        assert reached <= least_value(loss, *case) + rounding(loss, *case, t)

    check()


@every_loss
@pytest.mark.parametrize("bounded_by", ["a parabola", "losses"])
def test_minimize_along_by_one_sided_derivatives(loss, bounded_by):
    @for_all(case=lines(bounded_by))
    def check(case):
        cost, margins, change, linear, quadratic = case
        t = minimize_along(loss, cost, margins, change, linear=linear, quadratic=quadratic)
        for side in (-1.0, 1.0):
            # the derivative cannot fall, so a step much longer than the rounding of t shows the sign beside it
            at = t + side * 1e-6 * (1 + abs(t))
            derivative = linear + quadratic * at + float((cost * change) @ loss.slope(margins + at * change))
            sizes = 2 + np.abs(margins) + np.abs(at * change)
            size = abs(linear) + quadratic * abs(at) + float((cost * np.abs(change)) @ (sizes / loss_width(loss)))
            assert side * derivative >= -(len(cost) + 8) * 8 * EPS * size

    check()


def loss_width(loss):
    """A rounding of the margin is a rounding of l' times l''; the narrowest piece of Huber(h) has l'' = 1 / 2h."""
    return min(1.0, getattr(loss, "h", 1.0))


@every_loss
def test_minimize_along_a_direction_that_moves_no_margin(loss):
    cost, margins, change = np.ones(3), np.array([0.0, 1.0, 2.0]), np.zeros(3)
    assert minimize_along(loss, cost, margins, change, linear=-6.0, quadratic=2.0) == 3.0
    assert minimize_along(loss, np.zeros(3), margins, np.ones(3), linear=-6.0, quadratic=2.0) == 3.0


@every_loss
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_minimize_along_where_all_losses_vanish(loss, sign):
    """With one class the losses can all be brought to zero; any t that does so is right."""
    cost, margins, change = np.ones(300), np.linspace(-3, 0, 300), np.full(300, sign)
    t = minimize_along(loss, cost, margins, change)
    assert float(line(loss, cost, margins, change, 0.0, 0.0, t)) <= 300 * 8 * EPS * 16


def test_minimize_along_by_hand():
    # t^2 / 2 + [1 - t]+ : 1 at the kink; with cost 1/2 the parabola wins before it, at t = 1/2
    one = np.ones(1)
    assert minimize_along(Hinge(), one, 0 * one, one, quadratic=1.0) == 1.0
    assert minimize_along(Hinge(), one / 2, 0 * one, one, quadratic=1.0) == 0.5
    # t^2 / 2 + [1 - t]+^2 : t = 2 (1 - t)
    assert minimize_along(SquaredHinge(), one, 0 * one, one, quadratic=1.0) == pytest.approx(2 / 3, rel=4 * EPS)
    # the same seen from the other side
    assert minimize_along(SquaredHinge(), one, 0 * one, -one, quadratic=1.0) == pytest.approx(-2 / 3, rel=4 * EPS)
    # t^2 / 2 + huber(t), h = 1/2 : t = 3/2 - t
    assert minimize_along(Huber(0.5), one, 0 * one, one, quadratic=1.0) == pytest.approx(3 / 4, rel=4 * EPS)


@every_loss
def test_minimize_along_survives_a_change_next_to_nothing(loss):
    """1e10 / 1e-300 overflows: such a margin meets its kink at infinity, that is never."""
    cost, margins = np.ones(2), np.array([0.0, 1e10])
    t = minimize_along(loss, cost, margins, np.array([1.0, 1e-300]), quadratic=1.0)
    assert t == minimize_along(loss, cost, margins, np.array([1.0, 0.0]), quadratic=1.0)
