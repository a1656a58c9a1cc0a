"""Selection by a t-test: who copies whom, and on what evidence."""

from typing import Any

import numpy as np
import pytest

from popbandits.errors import ArgumentError
from popbandits.history import History, Observation
from popbandits.selection import Selection
from popbandits.space import Space
from popbandits_experiments.methods import TTest
from popbandits_experiments.methods.t_test import last_intervals
from tests.selection.histories import history_of

SPACE = Space({"x": (0.0, 1.0), "z": (0.0, 1.0)})


def second(selection: Selection, a: list[float], b: list[float], errors: tuple[Any, Any] = (None, None)) -> Any:
    """Whether two members with these scores copy each other; by member, the member whose weights are loaded."""
    history = History(SPACE, size=2)
    for t, scores in enumerate(zip(a, b, strict=True)):
        for member, score in enumerate(scores):
            metrics = {} if errors[member] is None else {"standard_error": errors[member]}
            history.append(
                Observation(
                    member, t, {"x": 0.5, "z": 0.5}, (member, t - 1) if t else None, score=score, metrics=metrics
                )
            )
    picks = selection.select(history, np.arange(2), np.random.default_rng(0))
    return [history[int(place)].member for place in picks.weights]


def test_a_member_copies_another_that_is_significantly_better() -> None:
    low, high = [1.0, 1.1, 0.9, 1.0, 1.1], [2.0, 2.1, 1.9, 2.2, 2.0]
    assert second(TTest(), low, high) == [1, 1]
    assert second(TTest(), high, low) == [0, 0]
    assert second(TTest(), low, [1.2, 0.7, 1.3, 1.0, 1.1]) == [0, 1]
    assert second(TTest(), low[:1], high[:1]) == [0, 1]


def test_standard_errors_decide_a_test_of_the_last_scores() -> None:
    assert second(TTest(), [1.0], [2.0], (0.1, 0.1)) == [1, 1]
    assert second(TTest(), [1.0], [2.0], (1.0, 1.0)) == [0, 1]
    assert second(TTest(), [1.0], [2.0], (0.0, 0.0)) == [1, 1]


def test_one_that_has_just_copied_is_left_alone() -> None:
    history = History(SPACE, size=2)
    for t in range(8):
        history.append(Observation(0, t, {"x": 0.5, "z": 0.5}, (0, t - 1) if t else None, score=5.0 + 0.1 * (t % 3)))
        parent = None if t == 0 else (0, 6) if t == 7 else (1, t - 1)
        history.append(Observation(1, t, {"x": 0.5, "z": 0.5}, parent, score=1.0 + 0.1 * (t % 3)))
    members = np.arange(2)
    before = TTest().select(history.prefix(14), members, np.random.default_rng(0))
    after = TTest().select(history, members, np.random.default_rng(0))
    assert (before.weights.tolist(), after.weights.tolist()) == ([12, 12], [14, 15])


def test_a_test_looks_at_the_last_ten_intervals_of_each_lineage() -> None:
    history = history_of([[float(t)] for t in range(12)])
    for count in (2, 11, 12, 13):
        assert [o.round for o in last_intervals(history, 11, count)] == list(range(12))[-count:]
    once, low, high = [99.0], [1.0, 1.1] * 5, [2.0, 2.1] * 5
    assert second(TTest(), once + low, low[:1] + high) == [1, 1]
    assert second(TTest(), once + low[1:], low[:1] + high[1:]) == [0, 1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"quantile": 0.0}, "quantile must be above 0 and at most 0.5, got 0.0"),
        ({"level": 1.0}, "level must be between 0 and 1, got 1.0"),
        ({"last": 1}, "last must be a whole number of at least 2, got 1"),
    ],
)
def test_a_wrong_setting_is_refused(settings: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        TTest(**settings)
