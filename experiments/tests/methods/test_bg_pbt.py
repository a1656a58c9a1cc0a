"""BG-PBT's trust region: where proposals lie, when it grows and shrinks, and that the history alone decides it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from popbandits.errors import ArgumentError
from popbandits.history import History, Observation
from popbandits.population import Population
from popbandits.space import Space
from popbandits_experiments.contracts import check_explorer, spaces, toy_history
from popbandits_experiments.methods import BGPBT
from popbandits_experiments.methods.bg_pbt import LEAST, Region, box_around, labels_near, region_after

MIXED = {"a": (0.0, 1.0), "b": (0.0, 1.0), "n": (1, 5), "h": ["p", "q", "r"], "g": ["s", "t"], "f": ["u", "v"]}


@pytest.mark.parametrize(
    "space",
    ["one float", "integers", "several categoricals", "nested conditions", "forbidden clauses", "a nested dict"],
)
def test_it_keeps_the_contract(space: str) -> None:
    check_explorer(BGPBT(), spaces()[space])


def proposals(history: History, explorer: BGPBT, count: int = 10) -> list[Any]:
    parent = history.latest(0)
    drawn = [
        explorer.explore_round(history.space, history, [], [parent], np.random.default_rng(seed))[0]
        for seed in range(count)
    ]
    assert all("theta" in each.decision for each in drawn)
    return drawn


def with_region(history: History, region: Region) -> History:
    """The same history, whose last observation was decided with a region."""
    last = history[-1]
    record = {"region": {**vars(region), "rounds": last.round + 1}}
    made = History(history.space, size=history.size, rounds=history.rounds)
    made.extend([*history[:-1], replace(last, decision=record)])
    return made


def test_proposals_lie_in_the_region_around_the_parents_configuration() -> None:
    history = toy_history(MIXED, rounds=8, size=4)
    centre = history.space.encode([history.latest(0).config])  # type: ignore[union-attr]
    for length, labels, most in ((0.2, 0.1, 1), (0.2, 0.67, 2), (0.4, 1.0, 3)):
        given = with_region(history, Region(length, labels))
        found = history.space.encode([p.config for p in proposals(given, BGPBT(per_dimension=False))])
        assert (np.abs(found.x - centre.x)[:, :2] <= length / 2 + 1e-9).all()
        assert (np.abs(found.x - centre.x)[:, 2] <= 0.25 + 1e-9).all()  # Always a level to either side.
        assert (found.h != centre.h).sum(axis=1).max() <= most


def test_without_a_parent_the_region_is_around_the_best() -> None:
    history = with_region(toy_history(MIXED, rounds=8, size=4), Region(0.2, 0.1))
    best = history.space.encode([history.best.config])  # type: ignore[union-attr]
    for seed in range(5):
        explorer, rng = BGPBT(per_dimension=False), np.random.default_rng(seed)
        config = explorer.explore_round(history.space, history, [], [None], rng)[0].config
        assert (np.abs(history.space.encode([config]).x - best.x)[0, :2] <= 0.1 + 1e-9).all()


def test_the_region_is_stretched_by_the_length_scales() -> None:
    space = Space({"a": (0.0, 1.0), "b": (0.0, 1.0)})
    box = box_around(np.array([0.5, np.nan]), 0.2, np.array([2.0, 0.5]), space)
    assert box == pytest.approx(np.array([[0.3, 0.7], [0.0, 1.0]]))
    assert box_around(np.array([0.0, 0.9]), 0.4, np.ones(2), space) == pytest.approx(np.array([[0, 0.2], [0.7, 1]]))


def test_labels_differ_from_the_centre_in_few_variables() -> None:
    space, rng = Space(MIXED), np.random.default_rng(0)
    near = labels_near(np.array([1, 0, 2]), 0.67, space, rng)
    assert near[0].tolist() == [1, 0, 2]
    assert set((near != near[0]).sum(axis=1).tolist()) == {0, 1, 2}
    assert (near.max(axis=0) <= [len(variable.labels) - 1 for variable in space.categorical]).all()
    inactive = labels_near(np.array([-1, 0, 1]), 0.1, space, rng)
    assert (inactive >= 0).all()


def test_three_successes_in_a_row_make_it_larger_and_ten_failures_smaller() -> None:
    region = Region(0.4, 0.5)
    for succeeded in (True, True, False, True, None, True, True):
        assert region.numbers == 0.4
        region = region.after(succeeded, 0.4)
    assert (region.numbers, region.labels, region.rounds) == (pytest.approx(0.6), 0.75, 7)
    for _ in range(10):
        assert region.numbers == pytest.approx(0.6)
        region = region.after(False, 0.4)
    assert (region.numbers, region.labels) == (pytest.approx(0.4), pytest.approx(0.5))
    for _ in range(9):
        region = region.after(True, 0.4)
    assert (region.numbers, region.labels) == (1.0, 1.0)


def test_a_region_that_is_too_small_starts_anew_and_the_model_forgets() -> None:
    region = Region(0.16)
    for _ in range(10):
        region = region.after(False, 0.4)
    assert region == Region(0.4, rounds=10, since=10)
    assert region.numbers > LEAST
    toy = toy_history(MIXED, rounds=8, size=4)
    decisions = []
    for since in (7, 8):
        history = with_region(toy, Region(0.4, since=since))
        asked = history.space, history, [], [history.latest(0)], np.random.default_rng(0)
        decisions.append(BGPBT().explore_round(*asked)[0].decision)
    assert "theta" in decisions[0]
    assert decisions[1]["fallback"] == "nothing was observed yet"


def decided(scores: list[list[float]], explored: set[tuple[int, int]]) -> History:
    """Members' scores by round; the model proposed what is in `explored`."""
    made = History({"x": (0.0, 1.0)}, size=len(scores[0]))
    for round_, row in enumerate(scores):
        for member, score in enumerate(row):
            known = {"theta": [0.0]} if (member, round_) in explored else {}
            status = "completed" if np.isfinite(score) else "failed"
            made.append(Observation(member, round_, {"x": 0.5}, None, np.nan, score, status=status, decision=known))  # type: ignore[arg-type]
    return made


def test_a_round_succeeds_if_something_new_of_the_models_has_its_best_score() -> None:
    best, worse, failed = [1.0, 2.0], [2.0, 1.0], [1.0, np.nan]
    ours = {(1, round_) for round_ in range(9)}
    assert region_after(decided([best] * 2, ours), 0.4).successes == 2
    assert region_after(decided([best] * 3, ours), 0.4).numbers == pytest.approx(0.6)
    assert region_after(decided([best, worse, worse], ours), 0.4).failures == 2
    assert region_after(decided([best, failed], ours), 0.4).failures == 1
    assert region_after(decided([best] * 3, {(0, 1)}), 0.4) == Region(0.4, failures=1, rounds=3)


def test_the_recorded_region_is_what_a_replay_of_the_whole_run_finds() -> None:
    population = Population(MIXED, BGPBT(), size=4, rounds=14, seed=1)
    while not population.done:
        for a in population.ask():
            population.tell(a, a.round + a.config["a"] - abs(a.config["b"] - 0.3) + (a.config["h"] == "q"))
    history = population.history
    records = [o.decision["region"] for o in history if "region" in o.decision]
    assert {r["numbers"] for r in records} != {0.4}
    bare = [replace(o, decision={k: v for k, v in o.decision.items() if k != "region"}) for o in history]
    replayed = History(history.space, bare, size=4)
    for record in records:
        assert Region(**record) == region_after(replayed.prefix(4 * record["rounds"]), 0.4)
    assert region_after(history, 0.4) == region_after(replayed, 0.4)


def test_a_length_outside_its_range_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"length must be above 0.15 and at most 1, got 0.1; 0.4 is usual"):
        BGPBT(length=0.1)
