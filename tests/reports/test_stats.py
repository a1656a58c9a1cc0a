"""The arithmetic of reports, against other people's."""

import math

import numpy as np
import pytest
import scipy.stats

from popbandits.reports.stats import deviation, regression, standard_error
from popbandits.selection.t_test import welch


def t_by_least_squares(x: np.ndarray, y: np.ndarray) -> float:
    """The textbook's formula over numpy's least squares: b / sqrt(s^2 (X'X)^-1_bb)."""
    design = np.column_stack([np.ones_like(x), x])
    solution, (rest,), *_ = np.linalg.lstsq(design, y, rcond=None)
    covariance = rest / (len(x) - 2) * np.linalg.inv(design.T @ design)
    return float(solution[1] / math.sqrt(covariance[1, 1]))


@pytest.mark.parametrize("n", [3, 10, 500])
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_a_t_value_is_that_of_least_squares_and_of_scipy(n: int, scale: float) -> None:
    rng = np.random.default_rng(n)
    x, noise = rng.random(n), rng.normal(size=n)
    y = scale * (0.7 * x + noise)
    found = regression(x, y)
    assert found is not None
    assert found.t == pytest.approx(t_by_least_squares(x, y), rel=1e-6)
    theirs = scipy.stats.linregress(x, y)
    assert found.t == pytest.approx(theirs.slope / theirs.stderr, rel=1e-6)
    assert found.significant == (theirs.pvalue < 0.05)


def test_a_slope_is_clear_beyond_students_limit() -> None:
    found = regression(np.arange(12.0), np.array([0, 2, 1, 3, 2, 4, 3, 5, 4, 6, 5, 7.0]))
    assert found is not None
    assert found.critical == pytest.approx(scipy.stats.t.ppf(0.975, df=10))
    assert found.significant


@pytest.mark.parametrize(
    ("x", "y"),
    [([1.0, 2.0], [3.0, 5.0]), ([0.1] * 9, list(range(9))), ([1.0, 2.0, 3.0], [0.1, 0.2, 0.3]), ([], [])],
    ids=["two points", "one x", "all on the line", "nothing"],
)
def test_what_has_no_standard_error_has_no_t_value(x: list[float], y: list[float]) -> None:
    assert regression(np.array(x, float), np.array(y, float)) is None


def test_welchs_test_is_scipys() -> None:
    rng = np.random.default_rng(0)
    for sizes in [(2, 2), (5, 5), (3, 30)]:
        a, b = rng.normal(1, 2, sizes[0]), rng.normal(0, 0.3, sizes[1])
        assert welch(a, b) == pytest.approx(scipy.stats.ttest_ind(a, b, equal_var=False).pvalue, rel=1e-9)


@pytest.mark.parametrize(("a", "b"), [([1.0], [2.0, 3.0]), ([], [1.0, 2.0]), ([1.0, 1.0], [1.0, 1.0])])
def test_welchs_test_says_nothing_of_what_has_no_spread(a: list[float], b: list[float]) -> None:
    assert math.isnan(welch(a, b))


def test_spreads_are_those_of_a_sample() -> None:
    assert deviation([1.0, 2.0, 3.0]) == pytest.approx(1.0)
    assert standard_error([1.0, 2.0, 3.0]) == pytest.approx(1 / math.sqrt(3))
    assert math.isnan(deviation([1.0]))
    assert math.isnan(standard_error([]))
