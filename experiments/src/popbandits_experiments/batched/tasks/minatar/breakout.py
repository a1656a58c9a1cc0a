"""MinAtar's Breakout: bounce a ball off a paddle, break three rows of bricks."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from popbandits_experiments.batched.tasks.minatar.game import SIDE, Game, move, stick
from popbandits_experiments.batched.tasks.task import State, mark

WALL, BRICKS, BOTTOM = SIDE, 3 * SIDE, 9 * SIDE
"""First cell with a brick, number of bricks, first cell of the paddle's row."""


class Breakout(Game):
    """Break bricks; the state is (numbers, bricks), actions are none, left and right.

    The numbers are the cells of the paddle, the ball and the ball one step before, the ball's direction across and
    down, whether it was in a brick, and the last action. The bricks are a mask of the second to the fourth row.
    """

    name = "Breakout-MinAtar"
    observation = (4, SIDE, SIDE)
    actions = 3
    start_noise = 1
    step_noise = 1

    def start(self, noise: Tensor) -> State:
        """Start with the ball in one of two corners under the wall's edge."""
        right = (noise[..., 0] >= 0.5).to(noise.dtype)
        nothing = torch.zeros_like(right)
        ball = 9 * right + 3 * SIDE
        numbers = (nothing + (BOTTOM + 4), ball, ball, 1 - 2 * right, nothing + 1, nothing, nothing)
        return torch.stack(numbers, -1), torch.ones((*right.shape, BRICKS), dtype=torch.bool, device=noise.device)

    def observe(self, state: State) -> Tensor:
        """Return the paddle, the ball, its trail and the bricks as one map each."""
        numbers, bricks = state
        points = mark(numbers[..., :3], SIDE * SIDE).flatten(-2)
        wall = pad(bricks, (WALL, SIDE * SIDE - WALL - BRICKS))
        return torch.cat((points, wall), -1).to(numbers.dtype).view(*wall.shape[:-1], *self.observation)

    def step(self, state: State, action: Tensor, noise: Tensor) -> tuple[State, Tensor, Tensor]:
        """Move paddle and ball; a brick is worth 1, a ball that passes the paddle ends the episode."""
        numbers, bricks = state
        paddle, ball, _, across, down, inside, last = numbers.unbind(-1)
        action = stick(last, action, noise[..., 0])
        paddle = move(paddle, action, BOTTOM, BOTTOM + 9)

        x = torch.remainder(ball, SIDE)
        y = (ball - x) / SIDE
        ahead, below = x + across, y + down
        column, row = ahead.clamp(0, 9), below.clamp(min=0)
        cell = torch.add(column, row, alpha=SIDE)
        struck = mark(cell, BRICKS, WALL) & bricks
        hit = struck.any(-1)
        broken = hit > inside  # A ball inside a brick continues through the wall.
        bottom = row == 9
        above = bottom & (x + BOTTOM == paddle)
        aside = (cell == paddle) & ~above
        caught = above | aside
        held = broken | caught  # The ball stays in its row.

        across = torch.where((ahead != column) ^ aside, -across, across)
        down = torch.where(held | (below < 0), -down, down)
        cell = torch.where(held, torch.add(column, y, alpha=SIDE), cell)
        refilled = bottom & ~bricks.any(-1)
        bricks = (bricks ^ (struck & broken[..., None])) | refilled[..., None]
        numbers = torch.stack((paddle, cell, ball, across, down, hit.to(ball.dtype), action), -1)
        return (numbers, bricks), broken.to(ball.dtype), bottom & ~caught
