"""What a user's own explorer inherits."""

from typing import Any

import numpy as np
import pytest

from popbandits.explorers import Explorer, Proposal
from popbandits.history import History

HISTORY = History({"x": (0.0, 1.0)})


def test_one_method_is_enough_and_each_choice_is_pending_for_the_next() -> None:
    seen = []

    class Counts(Explorer):
        def explore(self, space: Any, history: Any, pending: Any, parent: Any, rng: Any) -> Any:
            seen.append(list(pending))
            return {"x": len(pending) / 10}

    rng = np.random.default_rng(0)
    proposals = Counts().explore_round(HISTORY.space, HISTORY, [{"x": 0.9}], [None, None, None], rng)
    assert [proposal.config["x"] for proposal in proposals] == [0.1, 0.2, 0.3]
    assert seen == [[{"x": 0.9}], [{"x": 0.9}, {"x": 0.1}], [{"x": 0.9}, {"x": 0.1}, {"x": 0.2}]]


def test_one_method_for_a_whole_round_serves_a_single_member_too() -> None:
    class Rounds(Explorer):
        def explore_round(self, space: Any, history: Any, pending: Any, parents: Any, rng: Any) -> Any:
            return [Proposal({"x": 0.25}, {"why": "it is a quarter"}) for _ in parents]

    assert Rounds().explore(HISTORY.space, HISTORY, [], None, np.random.default_rng(0)) == {"x": 0.25}


def test_an_explorer_without_either_method_says_what_to_define() -> None:
    class Nothing(Explorer):
        pass

    with pytest.raises(NotImplementedError, match="Nothing must define explore or explore_round"):
        Nothing().explore_round(HISTORY.space, HISTORY, [], [None], np.random.default_rng(0))


def test_by_default_weak_members_are_replaced_and_nobody_starts_anew() -> None:
    assert Explorer.exploits
    assert not Explorer.restarts
