"""Dependent rounding: integers, with the right means, whose sum is exact."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from popbandits.basics.typing import FloatArray
from popbandits.errors import ArgumentError
from popbandits.models.bandit import dependent_rounding


@st.composite
def vectors_with_an_integral_sum(draw: st.DrawFn) -> FloatArray:
    """Non-negative numbers, scaled to an integer sum, so with the errors that such scaling makes."""
    raw = np.array(draw(st.lists(st.floats(0.001, 5.0), min_size=1, max_size=30)))
    scaled: FloatArray = raw * (draw(st.integers(1, 40)) / raw.sum())
    return scaled


@settings(deadline=None)
@given(expected=vectors_with_an_integral_sum(), seed=st.integers(0, 2**32 - 1))
def test_every_count_is_the_floor_or_the_ceiling_and_the_sum_is_exact(expected: FloatArray, seed: int) -> None:
    counts = dependent_rounding(expected, np.random.default_rng(seed))
    assert counts.dtype == np.int64
    assert counts.sum() == np.rint(expected.sum())
    assert np.all(np.abs(counts - expected) < 1.0)


@pytest.mark.parametrize("expected", [[0.95, 0.65, 0.05, 0.35], [1.25, 0.5, 3.0, 0.75, 2.5]])
def test_the_mean_of_every_count_is_what_was_asked_for(expected: list[float]) -> None:
    rng, draws = np.random.default_rng(0), 20_000
    mean = np.mean([dependent_rounding(np.array(expected), rng) for _ in range(draws)], axis=0)
    fraction = np.mod(expected, 1.0)
    # 5.5 standard errors: a false alarm in three million, eight fractions together.
    assert np.all(np.abs(mean - expected) <= 5.5 * np.sqrt(fraction * (1.0 - fraction) / draws))


@pytest.mark.parametrize("counts", [[], [0.0], [3.0], [1.0, 0.0, 2.0]])
def test_integers_are_left_alone(counts: list[float]) -> None:
    assert dependent_rounding(np.array(counts), np.random.default_rng(0)).tolist() == counts


@pytest.mark.parametrize("nearly", [1.0 - 1e-12, 1.0, 1.0 + 1e-12])
def test_an_error_of_the_floats_is_not_a_fraction(nearly: float) -> None:
    rng = np.random.default_rng(0)
    assert all(dependent_rounding(np.array([nearly, 0.5, 0.5]), rng)[0] == 1 for _ in range(100))


def test_many_small_errors_do_not_add_up() -> None:
    assert dependent_rounding(np.full(100_000, 1e-5), np.random.default_rng(0)).sum() == 1


def test_the_generator_moves_as_far_whatever_the_values() -> None:
    after = []
    for expected in ([1.0, 0.0, 1.0], [0.5, 0.7, 0.8]):
        rng = np.random.default_rng(0)
        dependent_rounding(np.array(expected), rng)
        after.append(rng.random())
    assert after[0] == after[1]


@pytest.mark.parametrize("wrong", [[0.5, 0.6], [-0.5, 1.5], [np.nan, 1.0], [np.inf, 1.0]])
def test_what_cannot_be_rounded_is_refused(wrong: list[float]) -> None:
    with pytest.raises(ArgumentError, match="'expected': must be at least 0 each and add up to an integer, got"):
        dependent_rounding(np.array(wrong), np.random.default_rng(0))
