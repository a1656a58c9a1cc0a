"""FrozenLake, Taxi and CliffWalking on the device, beside Gymnasium's tables: every action in every state."""

from collections import Counter

import gymnasium
import numpy as np
import torch

from popbandits_experiments.batched.tasks import TASKS

STEPS = 20_000


def test_every_step_on_the_ice_is_gymnasiums() -> None:
    task, table = TASKS["FrozenLake8x8-v1"], gymnasium.make("FrozenLake8x8-v1").unwrapped.P  # type: ignore[attr-defined]
    lands = 0
    for place, by_action in table.items():
        for action, outcomes in by_action.items():
            if len(outcomes) == 1:
                continue  # A hole, or the goal: episodes end there.
            ours = Counter()
            for slip in (1 / 6, 3 / 6, 5 / 6):
                given = torch.tensor(float(place)), torch.tensor(action), torch.tensor([slip])
                (after,), reward, over = task.step((given[0],), *given[1:])
                ours[int(after), float(reward), bool(over)] += 1
            theirs = Counter((after, float(reward), bool(over)) for _, after, reward, over in outcomes)
            assert ours == theirs, (place, action)
            lands += 1
    assert lands == 4 * (64 - 10 - 1)


def test_ice_is_seen_by_its_place() -> None:
    task = TASKS["FrozenLake8x8-v1"]
    assert torch.equal(task.observe((torch.arange(64.0),)), torch.eye(64))
    assert task.start(torch.rand(3, 0))[0].tolist() == [0, 0, 0]


def test_every_step_of_a_taxi_is_gymnasiums() -> None:
    task, theirs = TASKS["Taxi-v4"], gymnasium.make("Taxi-v4").unwrapped
    for number, by_action in theirs.P.items():  # type: ignore[attr-defined]
        state = torch.tensor([float(part) for part in theirs.decode(number)])  # type: ignore[attr-defined]
        if state[2] == state[3]:
            continue  # The passenger is where they want to be: episodes end there.
        for action, ((_, expected, reward, over),) in by_action.items():
            (after,), our_reward, our_end = task.step((state,), torch.tensor(action), torch.empty(0))
            found = theirs.encode(*(int(part) for part in after))  # type: ignore[attr-defined]
            assert (found, float(our_reward), bool(our_end)) == (expected, reward, over), (number, action)


def test_a_taxi_starts_as_gymnasiums_does() -> None:
    task, theirs = TASKS["Taxi-v4"], gymnasium.make("Taxi-v4").unwrapped
    (starts,) = task.start(torch.rand((STEPS, 4), generator=torch.Generator().manual_seed(0)))
    numbers = np.array([theirs.encode(*row) for row in starts.long().tolist()])  # type: ignore[attr-defined]
    expected = theirs.initial_state_distrib  # type: ignore[attr-defined]
    counts = np.bincount(numbers, minlength=500)
    assert not counts[expected == 0].any()
    deviations = (counts - STEPS * expected)[expected > 0] / np.sqrt(STEPS * expected[expected > 0])
    assert np.abs(deviations).max() < 4.5  # 300 states: a larger one has a probability of 0.002.


def test_a_taxi_sees_where_everything_is() -> None:
    seen = TASKS["Taxi-v4"].observe((torch.tensor([[2.0, 4.0, 4.0, 1.0]]),))
    assert seen.nonzero()[:, 1].tolist() == [2, 5 + 4, 10 + 4, 15 + 1]
    assert seen.shape == (1, 19)


def test_every_step_along_the_cliff_is_gymnasiums() -> None:
    task, theirs = TASKS["CliffWalking-v1"], gymnasium.make("CliffWalking-v1").unwrapped
    for place, by_action in theirs.P.items():  # type: ignore[attr-defined]
        if place > 36:
            continue  # The cliff, or the goal: nobody is there at the start of a step.
        for action, ((_, expected, reward, over),) in by_action.items():
            given = torch.tensor(float(place)), torch.tensor(action), torch.empty(0)
            (after,), our_reward, our_end = task.step((given[0],), *given[1:])
            assert (int(after), float(our_reward), bool(our_end)) == (expected, reward, over), (place, action)


def test_the_cliff_is_seen_by_its_place_from_gymnasiums_start() -> None:
    task, theirs = TASKS["CliffWalking-v1"], gymnasium.make("CliffWalking-v1").unwrapped
    assert torch.equal(task.observe((torch.arange(48.0),)), torch.eye(48))
    assert task.start(torch.rand(3, 0))[0].tolist() == [theirs.reset()[0]] * 3
