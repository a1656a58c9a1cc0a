"""Gymnasium's Taxi-v4: fetch a passenger, and bring them where they want to go."""

import torch
from torch import Tensor

from popbandits_experiments.batched.tasks.task import State, Task, mark, walk

SIDE, STANDS, ABOARD = 5, 4, 4
SOUTH, NORTH, EAST, WEST, PICK_UP, DROP = range(6)


class Taxi(Task):
    """Drive a taxi; actions go south, north, east and west, pick up and drop.

    The state is (row, column, where the passenger is, where they want to go). The latter two are one of four stands, or
    4 for a passenger in the taxi. An observation has a 1 for each of the four, where Gymnasium numbers the 500 states.
    The shortest ways come to 7.9; Gymnasium registers 8.
    """

    name = "Taxi-v4"
    observation = (SIDE + SIDE + STANDS + 1 + STANDS,)
    actions = 6
    discrete = True
    limit = 200
    start_noise = 4

    def start(self, noise: Tensor) -> State:
        """Start anywhere, with a passenger at one stand who wants to go to another."""
        row, column, passenger, further = noise.unbind(-1)
        passenger = (STANDS * passenger).floor()
        goal = (passenger + 1 + ((STANDS - 1) * further).floor()) % STANDS
        return (torch.stack(((SIDE * row).floor(), (SIDE * column).floor(), passenger, goal), -1),)

    def observe(self, state: State) -> Tensor:
        """Return a 1 for the row, the column, the passenger and the goal."""
        sizes = (SIDE, SIDE, STANDS + 1, STANDS)
        parts = [mark(part, size) for part, size in zip(state[0].unbind(-1), sizes, strict=True)]
        return torch.cat(parts, -1).to(state[0].dtype)

    def step(self, state: State, action: Tensor, noise: Tensor) -> tuple[State, Tensor, Tensor]:
        """Act once, which costs 1, or 10 if nobody can be picked up or dropped there; the ride is worth 20."""
        row, column, passenger, goal = state[0].unbind(-1)
        stand = _stand_at(row, column)
        aboard = passenger == ABOARD
        picked = (action == PICK_UP) & (passenger == stand)
        dropped = (action == DROP) & aboard & (stand >= 0)
        arrived = dropped & (stand == goal)
        passenger = torch.where(picked, float(ABOARD), torch.where(dropped, stand, passenger))
        useless = (action >= PICK_UP) & ~picked & ~dropped
        east = (action == EAST) & ~_wall_east_of(row, column)
        west = (action == WEST) & ~_wall_east_of(row, column - 1)
        row = walk(row, action, NORTH, SOUTH, SIDE)
        column = column + east.int() - west.int()
        reward = -torch.ones_like(row) - 9 * useless + 21 * arrived
        return (torch.stack((row, column, passenger, goal), -1),), reward, arrived


def _stand_at(row: Tensor, column: Tensor) -> Tensor:
    """Return the stand at a place, or -1: 0 and 1 are in the upper corners, 2 and 3 below, not all in corners."""
    upper, lower, left = row == 0, row == SIDE - 1, column == 0
    stands = (upper & left, upper & (column == 4), lower & left, lower & (column == 3))
    found = -torch.ones_like(row)
    for stand, there in enumerate(stands):
        found = torch.where(there, float(stand), found)
    return found


def _wall_east_of(row: Tensor, column: Tensor) -> Tensor:
    """Return whether there is a wall to the east: around the map, and three within it, two rows long each."""
    above, below = (row < 2) & (column == 1), (row > 2) & ((column == 0) | (column == 2))
    return above | below | (column < 0) | (column == SIDE - 1)
