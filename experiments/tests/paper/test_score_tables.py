"""The paper's tables of scores, worked by hand."""

import math

import numpy as np
import pytest
import scipy.stats

from popbandits_experiments.paper.score_tables import ScoreTable, score_table, welch, welch_interval

SCORES = {
    # Mean 8 and deviation 1 each; their sum over tasks in percent of PB2-Rand's is worked below.
    "bigfish": {"PB2-Rand": [7.0, 8.0, 9.0], "PB2-Mix": [9.0, 10.0, 11.0], "PBT": [4.0, 5.0, 9.0]},
    "leaper": {"PB2-Rand": [1.0, 2.0, 3.0], "PB2-Mix": [2.0, 2.0, 2.0], "PBT": [1.5, 1.5, 1.5]},
}


def the_table() -> ScoreTable:
    """The table of made-up scores."""
    return score_table(SCORES)


def test_bold_is_what_lies_within_one_deviation_of_the_best_mean() -> None:
    rows = the_table().rows
    assert {m for m, cell in rows["bigfish"].items() if cell.best} == {"PB2-Mix"}  # 10 - 1 = 9 > 8
    # Two methods share the mean of 2; the first, PB2-Rand, leads, and 2 - 1 = 1 <= 1.5.
    assert {m for m, cell in rows["leaper"].items() if cell.best} == {"PB2-Rand", "PB2-Mix", "PBT"}


def test_two_runs_are_not_bold() -> None:
    found = score_table({"one": {"PBT": [1.0, 1.1, 1.2], "Ours": [2.0, 2.1]}})
    assert not any(cell.best for cell in (*found.rows["one"].values(), *found.normalised.values()))


def test_a_star_needs_welchs_p_below_five_percent_and_the_better_side() -> None:
    rows = the_table().rows
    # t = 2 / sqrt(1/3 + 1/3) = 2.449 with 4 degrees of freedom: p = 0.0705.
    assert rows["bigfish"]["PB2-Mix"].p == pytest.approx(0.0705, abs=5e-5)
    assert not rows["bigfish"]["PB2-Mix"].starred
    assert math.isnan(rows["bigfish"]["PB2-Rand"].p)
    clear = score_table({"one": {"PBT": [1.0, 1.1, 0.9], "Ours": [2.0, 2.1, 1.9], "Bad": [0.1, 0.2, 0.0]}})
    assert {m for m, cell in clear.rows["one"].items() if cell.starred} == {"Ours"}
    assert clear.rows["one"]["Bad"].p < 0.05


def test_normalised_scores_are_shares_of_the_baselines_mean_on_the_same_task() -> None:
    found = the_table()
    assert found.baseline == "PB2-Rand"
    mix = found.normalised["PB2-Mix"]
    assert mix.values == pytest.approx([112.5, 125.0, 137.5, 100.0, 100.0, 100.0])
    assert mix.mean == pytest.approx(112.5)
    assert found.normalised["PB2-Rand"].mean == pytest.approx(100.0)


def test_shares_of_a_mean_that_is_not_positive_are_not_given() -> None:
    found = score_table({"one": {"PBT": [-1.0, -2.0], "Ours": [1.0, 2.0]}})
    assert found.normalised == {}


def test_welchs_test_is_scipys() -> None:
    rng = np.random.default_rng(0)
    for sizes in [(2, 2), (5, 5), (3, 30)]:
        a, b = rng.normal(1, 2, sizes[0]), rng.normal(0, 0.3, sizes[1])
        expected = scipy.stats.ttest_ind(a, b, equal_var=False)
        assert welch(a, b) == pytest.approx(expected.pvalue, rel=1e-9)
        assert welch_interval(a, b) == pytest.approx(tuple(expected.confidence_interval()), rel=1e-9)


@pytest.mark.parametrize(("a", "b"), [([1.0], [2.0, 3.0]), ([], [1.0, 2.0]), ([1.0, 1.0], [1.0, 1.0])])
def test_welchs_test_says_nothing_of_what_has_no_spread(a: list[float], b: list[float]) -> None:
    assert math.isnan(welch(a, b))
    assert all(math.isnan(end) for end in welch_interval(a, b))
