"""The arithmetic of reports, against other people's."""

import math

import numpy as np
import pytest
import scipy.stats

from popbandits.reports.stats import association, critical, deviation, standard_error


@pytest.mark.parametrize("levels", [2, 5, None], ids=["two values", "five values", "no ties"])
@pytest.mark.parametrize("n", [12, 60, 500])
def test_a_rank_correlation_is_scipys_with_ties_and_without(n: int, levels: int | None) -> None:
    rng = np.random.default_rng(n)
    x, noise = rng.random(n), rng.normal(size=n)
    y = 0.7 * x + noise
    if levels is not None:
        x, y = np.floor(levels * x), np.round(y)
    found = association(x, y)
    assert found is not None
    theirs = scipy.stats.kendalltau(x, y, method="asymptotic")
    assert found.tau == pytest.approx(theirs.statistic)
    assert 2 * scipy.stats.norm.sf(abs(found.z)) == pytest.approx(theirs.pvalue, rel=1e-6)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([0.0, 1, 2, 3, 4, 5, 6], [0.0, 1, 2, 3, 4, 5, 6]),
        ([0.1] * 9, [float(i) for i in range(9)]),
        ([0.0] * 18 + [1.0, 2.0], [float(i) for i in range(20)]),
        ([float(i) for i in range(20)], [0.0] * 18 + [-900.0, -900.0]),
        ([], []),
    ],
    ids=["few points", "one x", "two off the commonest x", "two off the commonest y", "nothing"],
)
def test_what_few_points_carry_is_no_correlation(x: list[float], y: list[float]) -> None:
    assert association(np.array(x, float), np.array(y, float)) is None


def test_one_point_alone_is_never_clear() -> None:
    x, y = np.arange(30.0), np.zeros(30)
    y[:15] = 1e-6 * np.random.default_rng(0).normal(size=15)
    y[29] = -1e9
    found = association(x, y)
    assert found is not None
    assert abs(found.z) < critical(1)


def test_more_comparisons_ask_for_more() -> None:
    assert critical(1) == pytest.approx(scipy.stats.norm.ppf(0.975))
    assert critical(50) == pytest.approx(scipy.stats.norm.ppf(1 - 0.0005))


def test_spreads_are_those_of_a_sample() -> None:
    assert deviation([1.0, 2.0, 3.0]) == pytest.approx(1.0)
    assert standard_error([1.0, 2.0, 3.0]) == pytest.approx(1 / math.sqrt(3))
    assert deviation([0.1, 0.1, 0.1]) == 0.0  # not 1.7e-17
    assert math.isnan(deviation([1.0]))
    assert math.isnan(standard_error([]))
