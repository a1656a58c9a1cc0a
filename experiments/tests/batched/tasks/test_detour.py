"""The wall of the detour: what stops at it, what gets round it, and what both are worth."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from popbandits_experiments.batched.tasks import TASKS
from popbandits_experiments.ground.scales import scale_of

TASK = TASKS["Detour"]


def move(x: float, y: float, *action: float) -> list[float]:
    state = (torch.tensor([[x, y]], dtype=torch.float64),)
    (after,), reward, over = TASK.step(state, torch.tensor([action], dtype=torch.float64), torch.empty(1, 0))
    assert float(reward) == pytest.approx(-(float(after[0, 0] ** 2 + (after[0, 1] - 1) ** 2) ** 0.5))
    assert not over.any()
    found: list[float] = after[0].tolist()
    return found


@pytest.mark.parametrize(
    ("start", "action", "end"),
    [
        ((0.0, -0.05), (0.5, 1.0), (0.05, -0.05)),  # along the wall
        ((0.0, 0.05), (0.5, -1.0), (0.05, 0.05)),  # from above
        ((0.99, -0.05), (1.0, 1.0), (1.09, 0.05)),  # round its end, which it crosses at 1.04
        ((1.04, -0.05), (-1.0, 1.0), (0.94, -0.05)),  # into it, from beyond its end
        ((-1.2, -0.05), (0.0, 9.0), (-1.2, 0.05)),  # beyond it, with a step of 0.1
        ((0.0, -0.5), (-1.0, 1.0), (-0.1, -0.4)),
    ],
)
def test_a_point_moves_unless_its_way_crosses_the_wall(
    start: tuple[float, float], action: tuple[float, float], end: tuple[float, float]
) -> None:
    assert move(*start, *action) == pytest.approx(end)


def worth(steer: Callable[[Tensor], Tensor]) -> float:
    state = TASK.start(torch.rand((200, 2), generator=torch.Generator().manual_seed(0)))
    total = torch.zeros(200)
    for _ in range(TASK.limit):
        state, reward, _ = TASK.step(state, steer(state[0]), torch.empty(200, 0))
        total += reward
    return float(total.mean())


def towards(x: float, y: float) -> Tensor:
    return torch.tensor([x, y])


def go_round(position: Tensor) -> Tensor:
    below, inside = position[:, 1:] < 0, position[:, :1] < 1.0
    aim = torch.where(below & inside, towards(1.05, -0.05), torch.where(below, towards(1.05, 0.1), towards(0.0, 1.0)))
    return 20 * (aim - position)


def test_the_straight_way_is_a_trap_that_pays_better_than_waiting() -> None:
    waiting, straight, detour = worth(torch.zeros_like), worth(lambda p: 20 * (towards(0, 1) - p)), worth(go_round)
    assert waiting == pytest.approx(-75, abs=1)
    assert straight == pytest.approx(-53, abs=1)
    assert detour > scale_of("Detour").solved > straight + 15
    # A few steps along the wall and back are worth less than staying at its middle.
    aside = worth(lambda p: 20 * (towards(0.5, 1.0) - p))
    assert aside < straight
