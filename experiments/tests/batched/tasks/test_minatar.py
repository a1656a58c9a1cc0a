"""MinAtar's games on the device, beside the package's: tens of thousands of steps, every one exactly the same."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from minatar import Environment
from minatar.environments import freeway as their_freeway
from torch import Tensor

from popbandits_experiments.batched.tasks import TASKS, State, Task
from popbandits_experiments.batched.tasks.minatar import freeway


class Draws:
    """Stand for the package's generator: turn the noise that our step was given into the numbers it asks for."""

    def prepare(self, environment: Environment) -> None:
        """Prepare an environment for the numbers that it will get."""

    def __init__(self) -> None:
        self.noise: list[float] = []

    def rand(self) -> float:
        return self.noise.pop(0)

    def randint(self, high: int) -> int:
        return math.floor(high * self.noise.pop(0))


def catch_the_ball(state: State, seen: Tensor, chance: Tensor) -> Tensor:
    """Wait with the paddle where the ball will come down; at times send it back where it came from."""
    paddle, ball, _, across, down, *_ = state[0].unbind(-1)
    x, y = ball % 10, ball // 10
    path = torch.remainder(x + across * torch.where(down > 0, 8 - y, 8 + y), 20)
    target = torch.where(path > 9, 19 - path, path) + across * ((y == 8) & (chance < 0.3))
    return torch.where(target == paddle - 90, 0, torch.where(target < paddle - 90, 1, 2))


def keep_away(state: State, seen: Tensor, chance: Tensor) -> Tensor:
    """Move at random, but next to no enemy."""
    near = torch.nn.functional.max_pool2d(seen[:, 1:2], (1, 5), stride=1, padding=(0, 2))[:, 0]
    x, y = state[0][:, 0].long(), state[0][:, 1].long()
    across, down = torch.tensor([0, -1, 0, 1, 0]), torch.tensor([0, 0, -1, 0, 1])
    column, row = (x[:, None] + across).clamp(0, 9), (y[:, None] + down).clamp(1, 8)
    danger = near[torch.arange(len(x))[:, None], row, column]
    return (danger + torch.remainder(chance[:, None] * torch.tensor([3.0, 5.0, 7.0, 11.0, 13.0]), 1)).argmin(-1)


def shoot_and_dodge(state: State, seen: Tensor, chance: Tensor) -> Tensor:
    """Shoot, but leave a column in which a bullet comes down."""
    falling = seen[:, 5, 5:9].amax(1).gather(1, state[0][:, :1].long())[:, 0] > 0
    return torch.where(falling, 1 + (state[0][:, 0] < 5).long(), torch.where(chance < 0.6, 3, (chance * 50).long() % 3))


def hurry(state: State, seen: Tensor, chance: Tensor) -> Tensor:
    """Go up, and seldom down."""
    return torch.where(chance < 0.9, 1, 2)


class CarDraws(Draws):
    """Give the speed and the direction that follow from one number a car."""

    def randint(self, low: int, high: int, size: int) -> np.ndarray:  # type: ignore[override]
        assert (low, high) == (1, 6)
        self.drawn, self.noise = np.floor(10 * np.array(self.noise[:size])).astype(int), self.noise[size:]
        return self.drawn % 5 + 1

    def rand(self, size: int | None = None) -> Any:
        return self.noise.pop(0) if size is None else np.where(self.drawn < 5, 0.25, 0.75)


def hunt(state: State, seen: Tensor, chance: Tensor) -> Tensor:
    """Dive, shoot, chase divers, and surface with some of them or when the oxygen ends; flee from enemies ahead."""
    numbers, _, divers, _ = state
    x, y, oxygen, held = numbers[:, 0], numbers[:, 1], numbers[:, 10], numbers[:, 11]
    shown = divers[:, 0] >= 0
    nearest = torch.where(shown, (divers[:, 0] - x[:, None]).abs() + (divers[:, 1] - y[:, None]).abs(), 99).argmin(1)
    target = divers[torch.arange(len(x)), :, nearest]
    across, down = target[:, 0] - x, target[:, 1] - y
    chase = torch.where(down > 0, 4, torch.where(down < 0, 2, torch.where(across > 0, 3, 1)))
    action = torch.where(shown.any(1), chase, (chance * 60).long() % 6)
    action = torch.where(chance < 0.4, 5, action)
    enough = (held >= 6) | ((oxygen < 60) & (held > 0)) | ((chance > 0.97) & (held > 0))
    action = torch.where(enough, 2, action)
    return torch.where((y == 0) & ~enough & (oxygen > 150), 4, action)


class SeaDraws(Draws):
    """Give the numbers of an enemy and those of a diver apart, whichever of them comes."""

    def prepare(self, environment: Environment) -> None:
        """Show either its own part of the noise."""
        for name, part in (("_spawn_enemy", slice(3)), ("_spawn_diver", slice(3, 5))):
            setattr(environment.env, name, self._shown(getattr(environment.env, name), part))

    def _shown(self, spawn: Callable[[], None], part: slice) -> Callable[[], None]:
        def draw() -> None:
            whole, self.noise = self.noise, self.noise[part]
            spawn()
            self.noise = whole

        return draw

    def randint(self, low: int, high: int) -> int:  # type: ignore[override]
        return low + super().randint(high - low)


@dataclass(frozen=True)
class Match:
    """Say how a game is played against the package's."""

    package: str
    skilled: Callable[[State, Tensor, Tensor], Tensor]
    """Policy of two copies in three, from our state, the observation and a uniform number: it sees more of the game."""
    copies: int = 12
    steps: int = 1000
    draws: type[Draws] = Draws
    episodes: int = 25
    """At least so many must have ended."""
    best: int = 0
    """At least so much must have been won in one of them."""
    immortal: bool = False
    """One copy in three plays on after each end: it comes to levels that nobody survives to see."""
    begin: Callable[[State, list[Environment]], None] = lambda state, theirs: None
    """Change the first state, ours and theirs."""


def skip_levels(state: State, theirs: list[Environment]) -> None:
    """Go to Seaquest's highest level, where enemies share cells, with divers aboard."""
    numbers = state[0]
    numbers[:, 6], numbers[:, 7], numbers[:, 11] = 1, 2, 5 + torch.arange(len(theirs)) % 2
    for index, environment in enumerate(theirs):
        environment.env.e_spawn_speed, environment.env.move_speed = 1, 2
        environment.env.diver_count = 5 + index % 2


MATCHES = {
    "Breakout-MinAtar": Match("breakout", catch_the_ball, best=32),
    "Asterix-MinAtar": Match("asterix", keep_away, immortal=True),
    "SpaceInvaders-MinAtar": Match("space_invaders", shoot_and_dodge, copies=20, steps=500, best=40, immortal=True),
    "Freeway-MinAtar": Match("freeway", hurry, copies=4, steps=600, draws=CarDraws, episodes=4, best=4),
    "Seaquest-MinAtar": Match("seaquest", hunt, steps=500, draws=SeaDraws, best=3, immortal=True),
    "Seaquest-MinAtar, highest level": Match(
        "seaquest", hunt, steps=300, draws=SeaDraws, immortal=True, begin=skip_levels
    ),
}


def reset(environment: Environment, draws: Draws, noise: Tensor) -> None:
    draws.noise = noise.tolist()
    environment.reset()
    environment.last_action = 0  # Ours begins an episode without one.


def look(task: Task, state: State, theirs: list[Environment]) -> Tensor:
    """Return our observations, which must be theirs."""
    seen = task.observe(state)
    expected = np.stack([environment.state() for environment in theirs]).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(seen, expected)
    return seen


@pytest.fixture
def short_crossing(monkeypatch: pytest.MonkeyPatch) -> None:
    """End a game of Freeway, which only its frames end, after a fifth of them, here and in the package."""
    assert their_freeway.time_limit == freeway.FRAMES
    monkeypatch.setattr(freeway, "FRAMES", 500)
    monkeypatch.setattr(their_freeway, "time_limit", 500)


@pytest.mark.usefixtures("short_crossing")
@pytest.mark.parametrize("name", MATCHES)
def test_every_step_is_the_packages(name: str) -> None:
    task, match = TASKS[name.partition(",")[0]], MATCHES[name]
    generator = torch.Generator().manual_seed(0)
    draws = match.draws()
    theirs = [Environment(match.package) for _ in range(match.copies)]
    actions = theirs[0].minimal_action_set()
    assert task.actions == len(actions)
    noise = torch.rand((match.copies, task.start_noise), generator=generator)
    for environment, row in zip(theirs, noise, strict=True):
        environment.random = environment.env.random = draws
        draws.prepare(environment)
        reset(environment, draws, row)
    state = task.start(noise)
    match.begin(state, theirs)
    seen = look(task, state, theirs)
    skilled = torch.arange(match.copies) % 3 > 0
    immortal = ~skilled & match.immortal
    episodes, best, won = 0, 0.0, torch.zeros(match.copies)
    for _ in range(match.steps):
        action = torch.randint(task.actions, (match.copies,), generator=generator)
        action = torch.where(skilled, match.skilled(state, seen, torch.rand(match.copies, generator=generator)), action)
        noise = torch.rand((match.copies, task.step_noise), generator=generator)
        state, reward, terminated = task.step(state, action, noise)
        outcomes: list[tuple[Any, Any]] = []
        for environment, index, row in zip(theirs, action.tolist(), noise.tolist(), strict=True):
            draws.noise = row
            outcomes.append(environment.act(actions[index]))
            environment.env.terminal = False
        assert [*zip(reward.tolist(), terminated.tolist(), strict=True)] == outcomes
        seen = look(task, state, theirs)
        over = terminated & ~immortal
        won += reward * ~immortal
        best = max(best, float(won.max()))
        if over.any():
            noise = torch.rand((match.copies, task.start_noise), generator=generator)
            for i in over.nonzero().flatten().tolist():
                reset(theirs[i], draws, noise[i])
            state = tuple(
                torch.where(over.view(-1, *[1] * (new.ndim - 1)), new, old)
                for new, old in zip(task.start(noise), state, strict=True)
            )
            seen = look(task, state, theirs)
            episodes += int(over.sum())
            won *= ~over
    assert episodes >= match.episodes
    assert best >= match.best


@pytest.mark.parametrize("interval", [6, 7, 12])
def test_waves_of_aliens_become_faster_up_to_a_limit(interval: int) -> None:
    """Shoot the last alien of a wave that is as fast as hardly any game comes to."""
    task, environment = TASKS["SpaceInvaders-MinAtar"], Environment("space_invaders", sticky_action_prob=0)
    numbers, maps = task.start(torch.empty(0))
    numbers[2] = environment.env.enemy_move_interval = interval
    maps.zero_()
    maps[0, 5, 5] = maps[1, 6, 5] = True
    environment.env.alien_map, environment.env.f_bullet_map = maps[:2].double().numpy().copy()
    (numbers, maps), reward, _ = task.step((numbers, maps), torch.tensor(0), torch.tensor([0.5]))
    assert (float(reward), False) == environment.act(0)
    assert float(numbers[2]) == environment.env.enemy_move_interval == max(6, interval - 1)
    np.testing.assert_array_equal(maps[0], environment.env.alien_map)
