"""MF-PBT: groups select at intervals of their own, and pass on weights and hyperparameters by its rules."""

from typing import Any

import numpy as np
import pytest

from popbandits.errors import ArgumentError
from popbandits.explorers import PBT
from popbandits.history import History
from popbandits.population import Population
from popbandits.selection import Picks
from popbandits_experiments.methods import MFPBT
from tests.selection.histories import SPACE, history_of

EIGHT = [8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0]
"""Scores by member; the fast group is that of even numbers, and ahead by one in each quarter."""


def select(selection: MFPBT, history: History) -> Picks:
    size = len(history.member_states().latest)
    return selection.select(history, np.arange(size), np.random.default_rng(0))


def test_a_group_whose_interval_has_not_ended_goes_on() -> None:
    picks = select(MFPBT(intervals=(1, 3)), history_of([[4.0, 3.0, 2.0, 1.0]]))
    assert picks.weights.tolist() == picks.config.tolist() == [0, 1, 0, 3]  # Members 0 and 2 are the fast group.
    assert picks.explores.tolist() == [False, False, True, False]


def test_the_last_quarter_copies_the_first_of_its_own_group_and_explores() -> None:
    picks = select(MFPBT(intervals=(1, 1)), history_of([EIGHT]))
    assert picks.weights[[6, 7]].tolist() == picks.config[[6, 7]].tolist() == [0, 1]
    assert np.flatnonzero(picks.explores).tolist() == [6, 7]


def test_the_third_quarter_takes_better_weights_and_hyperparameters_that_are_not_greedier() -> None:
    history = history_of([EIGHT, EIGHT])
    picks = select(MFPBT(intervals=(1, 2)), history)
    fast, slow = 8, 9  # Places of the best of each group.
    assert (picks.weights[4], picks.config[4], picks.explores[4]) == (slow, slow, False)
    assert (picks.weights[5], picks.config[5], picks.explores[5]) == (fast, slow, False)
    same_speed = select(MFPBT(intervals=(2, 2)), history)
    assert (same_speed.weights[4], same_speed.config[4]) == (slow, 8 + 4)


def test_the_third_quarter_goes_on_where_nobody_elsewhere_is_better() -> None:
    scores = [8.0, 0.4, 7.0, 0.3, 6.0, 0.2, 5.0, 0.1]
    picks = select(MFPBT(intervals=(1, 1)), history_of([scores]))
    assert (picks.weights[4], picks.config[4], picks.explores[4]) == (4, 4, False)
    assert (picks.weights[5], picks.config[5], picks.explores[5]) == (0, 5, False)


def test_the_weaker_of_two_explores_its_winners_configuration_on_better_weights_from_elsewhere() -> None:
    scores = [[4.0, 2.0, 3.0, 1.0]] * 3
    picks = select(MFPBT(intervals=(1, 3)), history_of(scores))
    assert (picks.weights[3], picks.config[3], picks.explores[3]) == (8, 9, True)  # Weights of 0, configuration of 1.
    ahead = [[2.0, 4.0, 1.0, 3.0]]
    picks = select(MFPBT(intervals=(1, 3)), history_of(ahead))
    assert (picks.weights[2], picks.config[2], picks.explores[2]) == (1, 1, True)  # From the slower group: both.


def test_a_failure_is_replaced_at_once_by_a_member_of_its_group() -> None:
    picks = select(MFPBT(intervals=(1, 3)), history_of([[4.0, np.nan, 2.0, 1.0]]))
    assert (picks.weights[1], picks.config[1], picks.explores[1]) == (3, 3, True)
    alone = select(MFPBT(intervals=(1, 3)), history_of([[4.0, np.nan, 2.0, np.nan]]))
    assert alone.weights[1] in (0, 2)


def test_a_population_too_small_for_all_groups_does_without_the_slow_ones() -> None:
    picks = select(MFPBT(intervals=(1, 10, 25)), history_of([[3.0, 2.0, 1.0]]))
    assert picks.weights.tolist() == [0, 1, 0]


@pytest.mark.parametrize("synchronous", [True, False])
def test_slow_members_change_at_the_end_of_their_interval_only(synchronous: bool) -> None:
    population = Population(
        SPACE, PBT(), size=4, rounds=10, seed=3, synchronous=synchronous, selection=MFPBT(intervals=(1, 3))
    )
    chance = np.random.default_rng(0)
    waiting: list[Any] = []
    while not population.done:
        waiting += population.ask()
        assignment = waiting.pop(int(chance.integers(len(waiting))))
        population.tell(assignment, float(chance.normal()) - 10 * (assignment.member == 3))
    changed = [o for o in population.history if o.round and o.parent != (o.member, o.round - 1)]
    assert {o.round % 3 for o in changed if o.member % 2} == {0}
    assert {o.round % 3 for o in changed if o.member % 2 == 0} == {0, 1, 2}


@pytest.mark.parametrize("wrong", [(), (0, 3), (1.5, 2), "13", 3])
def test_intervals_are_whole_numbers(wrong: Any) -> None:
    with pytest.raises(ArgumentError, match="intervals must be whole numbers of at least 1, one for each group, got"):
        MFPBT(intervals=wrong)
    with pytest.raises(ArgumentError, match=r"quantile must be above 0 and at most 0.5, got 0.6"):
        MFPBT(quantile=0.6)
