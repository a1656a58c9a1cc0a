"""KeyDoor on the device, beside a plain one that walks on a drawn map."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch

from popbandits_experiments.batched.tasks import TASKS
from popbandits_experiments.ground.scales import scale_of

TASK = TASKS["KeyDoor"]
MAP = (*("...#...",) * 3, "...D...", *("...#...",) * 3)
MOVES = {0: (-1, 0), 1: (0, 1), 2: (1, 0), 3: (0, -1)}
USE = 4
EPISODES = 200
Place = tuple[int, int]


@dataclass
class Plain:
    """An episode, step by step."""

    agent: Place
    key: Place
    goal: Place
    held: bool = False
    opened: bool = False
    time: int = 0

    def step(self, action: int) -> tuple[float, bool]:
        self.time += 1
        if action == USE:
            before_door = MAP[self.agent[0]][self.agent[1] + 1 :][:1] == "D"
            self.opened |= self.held and before_door
            self.held |= self.agent == self.key
        elif self.free(there := (self.agent[0] + MOVES[action][0], self.agent[1] + MOVES[action][1])):
            self.agent = there
        arrived = self.agent == self.goal
        return (1 - 0.9 * self.time / 100 if arrived else 0.0), arrived

    def free(self, place: Place) -> bool:
        inside = 0 <= place[0] < len(MAP) and 0 <= place[1] < len(MAP[0])
        return inside and (MAP[place[0]][place[1]] == "." or (MAP[place[0]][place[1]] == "D" and self.opened))

    @property
    def state(self) -> list[float]:
        return [*self.agent, *self.key, *self.goal, self.held, self.opened, self.time]

    def shortest(self) -> Iterator[int]:
        """Yield the actions of a shortest way: to the key, to the door, through it and along the goal's row."""
        yield from walk(self.agent, self.key)
        yield USE
        yield from walk(self.key, (3, 2))
        yield USE
        yield from walk((3, 2), (3, 4))
        yield from walk((3, 4), self.goal)


def walk(start: Place, end: Place) -> Iterator[int]:
    down, right = end[0] - start[0], end[1] - start[1]
    yield from [2 if down > 0 else 0] * abs(down)
    yield from [1 if right > 0 else 3] * abs(right)


def begin(seed: int) -> tuple[torch.Tensor, list[Plain]]:
    (state,) = TASK.start(torch.rand((EPISODES, 6), generator=torch.Generator().manual_seed(seed)))
    rows = state.long().tolist()
    return state, [Plain((row[0], row[1]), (row[2], row[3]), (row[4], row[5])) for row in rows]


@pytest.mark.parametrize("skill", [0.0, 0.7, 1.0])
def test_every_step_is_that_of_the_plain_one(skill: float) -> None:
    """Play shortest ways, with random actions in between, so that every kind of step is seen."""
    generator = torch.Generator().manual_seed(1)
    state, plain = begin(seed=0)
    ways = [list(episode.shortest()) for episode in plain]
    arrivals = 0
    for _ in range(TASK.limit):
        actions = torch.randint(5, (EPISODES,), generator=generator)
        skilled = torch.rand(EPISODES, generator=generator) < skill
        for i, way in enumerate(ways):
            if way and skilled[i]:
                actions[i] = way.pop(0)
        (state,), reward, over = TASK.step((state,), actions, torch.empty(EPISODES, 0))
        found = [episode.step(int(action)) for episode, action in zip(plain, actions, strict=True)]
        assert state.tolist() == [episode.state for episode in plain]
        assert reward.tolist() == pytest.approx([reward for reward, _ in found])
        assert over.tolist() == [over for _, over in found]
        arrivals += int(over.sum())
    assert any(episode.held and not episode.opened for episode in plain) or skill == 1
    assert arrivals >= (EPISODES if skill == 1 else 1)


def test_every_place_of_its_room_is_a_start() -> None:
    (state,) = TASK.start(torch.rand((20_000, 6), generator=torch.Generator().manual_seed(0)))
    left = {(row, column) for row in range(7) for column in range(3)}
    right = {(row, column + 4) for row, column in left}
    for columns, room in ((slice(0, 2), left), (slice(2, 4), left), (slice(4, 6), right)):
        assert {(row, column) for row, column in state[:, columns].long().tolist()} == room
    assert not state[:, 6:].any()


def test_shortest_ways_come_to_what_solved_says() -> None:
    _, plain = begin(seed=2)
    steps = [len(list(episode.shortest())) for episode in plain]
    worth = 1 - 0.9 * sum(steps) / EPISODES / TASK.limit
    assert worth == pytest.approx(0.89, abs=0.01)
    assert worth > scale_of("KeyDoor").solved


def test_everything_is_seen() -> None:
    seen = TASK.observe((torch.tensor([[3.0, 5.0, 6.0, 2.0, 0.0, 4.0, 1.0, 0.0, 17.0]]),))
    assert seen.nonzero()[:, 1].tolist() == [3, 7 + 5, 14 + 6, 21 + 0, 28 + 2, 31 + 0, 34]
    assert seen.shape == (1, 36)
