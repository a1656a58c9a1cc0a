"""MinAtar's Freeway: cross eight lanes of cars."""

import torch
from torch import Tensor

from popbandits_experiments.batched.tasks.minatar.game import SIDE, Game, field, move, stick
from popbandits_experiments.batched.tasks.task import State, mark

LANES, COLUMN, PAUSE, FRAMES, SPEEDS = 8, 4, 3, 2500, 5


class Freeway(Game):
    """Cross the road; the state is (numbers, cars), actions are none, up and down.

    The numbers are the chicken's row, the steps until it can move, the steps until the game's own limit, and the last
    action. For each lane, a car has a column, the steps until it moves, and the steps between moves, negative if it
    moves left. MinAtar draws a speed and a direction for a car; here both come from one uniform number.
    """

    name = "Freeway-MinAtar"
    observation = (7, SIDE, SIDE)
    actions = 3
    start_noise = LANES
    step_noise = 1 + LANES

    def start(self, noise: Tensor) -> State:
        """Start below the road, with all cars on the left."""
        shape = noise.shape[:-1]
        values = ((1, 9), (1, PAUSE), (1, FRAMES), (1, 0))
        numbers = torch.cat([noise.new_full((*shape, size), value) for size, value in values], -1)
        speed = _speeds(noise)
        return numbers, torch.stack((torch.zeros_like(speed), speed.abs(), speed), -2)

    def observe(self, state: State) -> Tensor:
        """Return the chicken, the cars, and their trails in one map for each speed."""
        numbers, cars = state
        x, _, speed = cars.unbind(-2)
        behind = torch.remainder(x - speed.sign(), SIDE)
        kind = mark(speed.abs(), SPEEDS, 1).transpose(-1, -2)
        trails = torch.where(kind, behind[..., None, :], -1.0)
        maps = mark(torch.cat((x[..., None, :], trails), -2), SIDE)
        return field(maps, SIDE * numbers[..., 0] + COLUMN, numbers.dtype)

    def step(self, state: State, action: Tensor, noise: Tensor) -> tuple[State, Tensor, Tensor]:
        """Move the chicken, then the cars; the far side is worth 1 and draws new speeds, a hit sends it back."""
        numbers, cars = state
        row, pause, left, last = numbers.unbind(-1)
        action = stick(last, action, noise[..., 0])
        taken = action * (pause == 0)
        row = move(row, taken, 0, SIDE - 1)
        pause = (pause.masked_fill(taken > 0, PAUSE) - 1).clamp(min=0)
        across = row == 0

        x, timer, speed = cars.unbind(-2)
        new = _speeds(noise[..., 1:])
        speed = torch.where(across[..., None], new, speed)
        steps = speed.abs()
        timer = torch.where(across[..., None], steps, timer)
        moves = timer == 0
        ahead = torch.where(moves, torch.remainder(x + speed.sign(), SIDE), x)
        timer = torch.where(moves, steps, timer - 1)
        hit = (((x == COLUMN) | (ahead == COLUMN)) & mark(row, LANES, 1)).any(-1)
        row = row.masked_fill(across | hit, SIDE - 1)
        left = left - 1
        numbers = torch.stack((row, pause, left, action), -1)
        return (numbers, torch.stack((ahead, timer, speed), -2)), across.to(row.dtype), left < 0


def _speeds(noise: Tensor) -> Tensor:
    """Map noise to steps between moves, from 1 to 5, negative to the left."""
    drawn = torch.floor(2 * SPEEDS * noise)
    steps = torch.remainder(drawn, SPEEDS) + 1
    return torch.where(drawn < SPEEDS, -steps, steps)
