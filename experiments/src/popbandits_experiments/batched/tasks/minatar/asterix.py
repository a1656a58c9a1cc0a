"""MinAtar's Asterix: collect the gold that crosses the field and avoid the enemies."""

import torch
from torch import Tensor

from popbandits_experiments.batched.tasks.minatar.game import SIDE, Game, field, stick
from popbandits_experiments.batched.tasks.task import State, mark

ROWS = 8
NOWHERE = -10.0
"""Column of absent things: outside the field, whichever way they move."""
SPAWN, MOVE, RAMP, LEVELS = 10, 5, 102, 9
"""Initial steps between arrivals and between moves; steps per level, and the highest level."""


class Asterix(Game):
    """Collect gold; the state is (numbers, things), actions are none, left, up, right and down.

    The numbers are the player's column and row, the steps until things move and until one arrives, the episode's steps
    so far (from which the level follows), and the last action. The things are, for each of the eight rows between the
    first and the last, the columns of an enemy, of the trail behind the thing there, and of gold.
    """

    name = "Asterix-MinAtar"
    observation = (4, SIDE, SIDE)
    actions = 5
    step_noise = 4

    def start(self, noise: Tensor) -> State:
        """Start in the middle of an empty field."""
        shape = noise.shape[:-1]
        numbers = (noise.new_full((*shape, 3), 5), noise.new_full((*shape, 1), SPAWN), noise.new_zeros((*shape, 2)))
        return torch.cat(numbers, -1), noise.new_full((*shape, 3, ROWS), NOWHERE)

    def observe(self, state: State) -> Tensor:
        """Return the player, enemies, trails and gold as one map each."""
        numbers, things = state
        return field(mark(things, SIDE), torch.add(numbers[..., 0], numbers[..., 1], alpha=SIDE), numbers.dtype)

    def step(self, state: State, action: Tensor, noise: Tensor) -> tuple[State, Tensor, Tensor]:
        """Let something arrive, move the player, then the rest; gold is worth 1, an enemy ends the episode."""
        numbers, things = state
        _, _, wait, arrival, age, last = numbers.unbind(-1)
        level = torch.div(age, RAMP, rounding_mode="floor").clamp(max=LEVELS)
        action = stick(last, action, noise[..., 0])

        arrives, arrival = _restart(arrival, SPAWN - level)
        things = _arrive(things, arrives, noise[..., 1:])
        # Left and right are one less and one more than 2, up and down than 3.
        turn = action[..., None] - torch.arange(2, 4, device=action.device)
        player = numbers[..., :2] + turn * (turn.abs() == 1)
        x, y = player[..., 0].clamp(0, SIDE - 1), player[..., 1].clamp(1, ROWS)

        moves, wait = _restart(wait, MOVE - torch.div(level, 2, rounding_mode="floor"))
        kinds, trail = things[..., ::2, :], things[..., 1:2, :]
        moved = torch.where(moves[..., None, None], 2 * kinds - trail, kinds)
        trail = torch.where(moves[..., None, None], kinds.amax(-2, keepdim=True), trail)
        column = x[..., None, None]
        met = ((kinds == column) | (moved == column)) & mark(y, ROWS, 1)[..., None, :]
        lost, won = met.any(-1).unbind(-1)
        # An enemy stays when it is met: the episode is over, and the last observation shows it.
        gone = (moved != moved.clamp(0, SIDE - 1)) | (met & won[..., None, None])
        moved = moved.masked_fill(gone, NOWHERE)
        trail = trail.masked_fill(gone.all(-2, keepdim=True), NOWHERE)
        things = torch.cat((moved[..., :1, :], trail, moved[..., 1:, :]), -2)
        numbers = torch.stack((x, y, wait, arrival, age + 1, action), -1)
        return (numbers, things), won.to(numbers.dtype), lost


def _restart(timer: Tensor, interval: Tensor) -> tuple[Tensor, Tensor]:
    """Return which timers ran out, and the timers one step later; those that ran out restart."""
    out = timer == 0
    return out, torch.where(out, interval, timer) - 1


def _arrive(things: Tensor, arrives: Tensor, noise: Tensor) -> Tensor:
    """Place an enemy or gold at an edge of a free row, where one arrives and a row is free."""
    right, gold = noise[..., 0] < 0.5, noise[..., 1] < 1 / 3
    free = things.amax(-2) < 0
    rank = free.cumsum(-1)
    chosen = torch.floor(noise[..., 2] * rank[..., -1]) + 1
    here = free & (rank == chosen[..., None]) & arrives[..., None]
    x = torch.where(right, 0.0, SIDE - 1.0)
    behind = torch.where(right, -1.0, float(SIDE))
    new = torch.stack((x.masked_fill(gold, NOWHERE), behind, x.masked_fill(~gold, NOWHERE)), -1).to(things.dtype)
    return torch.where(here[..., None, :], new[..., None], things)
