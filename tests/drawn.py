"""What tests of identities on random small problems share."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from primalsvm.problem import INTERCEPTS

every_intercept = pytest.mark.parametrize("intercept", INTERCEPTS)
every_kind = pytest.mark.parametrize("kind", ["linear", "kernel"])
seeds = st.integers(0, 10**6)


def for_all(**strategies):
    return lambda test: settings(max_examples=25, deadline=None)(given(**strategies)(test))


def quarters(rng, size):
    """Numbers whose products and sums are exact."""
    return rng.integers(-8, 9, size) / 4
