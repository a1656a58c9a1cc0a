"""Truncation selection: who is replaced, and by whom."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from popbandits.history import History, Mode, Observation
from popbandits.history.memory import NO_INDEX
from popbandits.selection import Truncation
from popbandits.selection.truncation import replaced_count, sort_best_first
from popbandits.space import Space

SPACE = Space({"x": (0.0, 1.0)})


def turned(scores: list[float | None], sign: float = 1.0) -> Any:
    return np.array([math.nan if score is None else sign * score for score in scores])


def after(rounds: list[list[float | None]], mode: Mode = "max") -> History:
    """A history in which members scored this, round by round, each from its own weights; None for a failure."""
    history = History(SPACE, mode=mode, size=len(rounds[0]))
    for round_, scores in enumerate(rounds):
        for member, score in enumerate(scores):
            own = history.last_completed(member)
            history.append(
                Observation(
                    member,
                    round_,
                    {"x": 0.5},
                    parent=None if own is None else own.key,
                    score=math.nan if score is None else score,
                    status="failed" if score is None else "completed",
                )
            )
    return history


def copies(
    scores: list[float | None],
    seed: int = 0,
    quantile: float = 0.25,
    sign: float = 1.0,
    earlier: list[float | None] | None = None,
) -> dict[int, int | None]:
    """Who explores, and whose weights it loads (None: a fresh start), after a last round with these scores."""
    history = after([*([] if earlier is None else [earlier]), scores], "max" if sign > 0 else "min")
    picks = Truncation(quantile).select(history, np.arange(len(scores)), np.random.default_rng(seed))
    assert picks.config.tolist() == picks.weights.tolist()
    for member in np.flatnonzero(~picks.explores).tolist():
        assert picks.weights[member] == history.member_states().latest[member]
    return {
        member: None if (place := int(picks.weights[member])) == NO_INDEX else history[place].member
        for member in np.flatnonzero(picks.explores).tolist()
    }


@pytest.mark.parametrize(
    ("size", "quantile", "count"),
    [(1, 0.25, 0), (2, 0.25, 1), (3, 0.25, 1), (4, 0.25, 1), (8, 0.25, 2), (12, 0.25, 3), (4, 0.5, 2), (5, 0.5, 2)],
)
def test_a_quantile_is_replaced_at_least_one_and_at_most_half(size: int, quantile: float, count: int) -> None:
    assert replaced_count(size, quantile) == count


@pytest.mark.parametrize(("size", "quantile", "count"), [(6, 0.25, 1), (7, 0.25, 1), (11, 0.25, 2), (9, 0.4, 3)])
def test_a_part_of_a_member_is_not_replaced(size: int, quantile: float, count: int) -> None:
    assert replaced_count(size, quantile) == count
    chosen = copies([float(score) for score in range(size)], quantile=quantile)
    assert chosen.keys() == set(range(count)), "the lowest scores"
    assert set(chosen.values()) <= set(range(size - count, size))


def test_a_quantile_is_not_lost_to_rounding() -> None:
    assert replaced_count(10, 0.1 + 0.2) == replaced_count(10, 0.3) == 3
    assert replaced_count(100, 0.29) == 29


def test_the_worst_load_from_the_best() -> None:
    assert copies([3.0, 1.0, 4.0, 2.0]) == {1: 2}
    assert copies([3.0, 1.0, 4.0, 2.0], sign=-1.0) == {2: 1}


def test_half_the_population_loads_from_the_other_half() -> None:
    for seed in range(20):
        chosen = copies([3.0, 1.0, 4.0, 2.0], seed, quantile=0.5)
        assert chosen.keys() == {1, 3}
        assert set(chosen.values()) <= {0, 2}


def test_each_of_the_worst_draws_a_parent_of_its_own() -> None:
    chosen = [copies([3.0, 1.0, 4.0, 2.0], seed, quantile=0.5) for seed in range(20)]
    assert {len(set(each.values())) for each in chosen} == {1, 2}


def test_a_parent_is_drawn_uniformly_from_the_top() -> None:
    drawn = Counter(copies([float(i) for i in range(12)], seed)[0] for seed in range(900))
    assert drawn.keys() == {9, 10, 11}
    assert all(abs(count - 300) < 4 * math.sqrt(900 * 2 / 9) for count in drawn.values())


def test_ties_are_broken_at_random() -> None:
    replaced = Counter(next(iter(copies([1.0, 1.0, 1.0, 1.0], seed))) for seed in range(800))
    assert all(abs(replaced[member] - 200) < 4 * math.sqrt(800 * 3 / 16) for member in range(4))


def test_failures_rank_last_whatever_the_direction() -> None:
    for sign in (1.0, -1.0):
        order = sort_best_first(turned([None, 5.0, None, -5.0], sign), np.random.default_rng(0))
        assert set(order[:2].tolist()) == {1, 3}


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_every_failure_is_replaced_also_beyond_the_quantile(sign: float) -> None:
    chosen = copies([None, sign * 5.0, None, sign * 7.0, None], sign=sign)
    assert chosen == {0: 3, 2: 3, 4: 3}


def test_with_one_survivor_all_load_from_it() -> None:
    assert copies([None, 1.0, None, None], quantile=0.5) == {0: 1, 2: 1, 3: 1}


def test_if_everyone_failed_weights_come_from_earlier_survivors() -> None:
    assert copies([None, None, None], earlier=[1.0, 9.0, 5.0]) == dict.fromkeys(range(3), 1)


def test_if_nobody_ever_survived_all_start_afresh() -> None:
    assert copies([None, None]) == {0: None, 1: None}


def test_one_member_alone_goes_on_unless_it_failed() -> None:
    assert copies([1.0]) == {}
    assert copies([None]) == {0: None}


maybe = st.one_of(st.none(), st.floats(-1e6, 1e6))


@settings(deadline=None)
@given(st.lists(maybe, min_size=1, max_size=12), st.floats(0.01, 0.5), st.integers(0, 99))
def test_nobody_loads_from_one_that_is_replaced_and_minimising_mirrors_maximising(
    scores: list[float | None], quantile: float, seed: int
) -> None:
    up = copies(scores, seed, quantile)
    down = copies([None if score is None else -score for score in scores], seed, quantile, sign=-1.0)
    assert up == down
    assert not up.keys() & set(up.values())
    for member, parent in up.items():
        assert parent is None or scores[parent] is not None
        if scores[member] is not None:
            assert parent is not None
            assert scores[parent] >= scores[member]  # type: ignore[operator]
