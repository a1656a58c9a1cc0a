"""MinAtar's Seaquest: shoot what comes across, collect divers, and surface with them before the oxygen ends."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from popbandits_experiments.batched.tasks.minatar.game import SIDE, Game, stick
from popbandits_experiments.batched.tasks.task import State, mark

FIRE, RELOAD, SHOT = 5, 5, 10
"""Action that shoots; steps between own shots and between an enemy submarine's shots."""
SPAWN, DIVER, MOVE, FASTEST = 20, 30, 5, 2
"""Initial steps between enemies and between divers; steps between moves (slowest, fastest)."""
OXYGEN, FULL, DEPTH = 200, 6, 8
"""Steps under water on a breath; divers that are worth points together; the lowest row."""
ENEMIES, DIVERS = 32, 4
"""Most that can be in the field at once: on the highest level an enemy comes every step and stays for 30 steps."""
NOWHERE = -10.0
"""Column of absent things."""
FIRST = 10_000.0
"""More than any age: what is struck first has a priority above all others."""


class Seaquest(Game):
    """Steer a submarine; actions are none, left, up, right, down and fire.

    The state is (numbers, enemies, divers, bullets). The numbers are the submarine's column, row and direction, the
    steps until an enemy comes, until a diver comes and until it can shoot, the steps between enemies and between their
    moves, how often it surfaced, whether it is at the surface, its oxygen, its divers, and the last action. Enemies
    have a column, a row, a direction, the steps until they move and until they shoot, whether they are submarines, and
    their age; divers a column, a row, a direction, the steps until they move, and their age. Bullets are maps: own ones
    to the right and to the left, then theirs.

    Enemies may share a cell. Which of them a bullet strikes follows from their ages, as it follows in MinAtar from the
    order of its lists.
    """

    name = "Seaquest-MinAtar"
    observation = (10, SIDE, SIDE)
    actions = 6
    step_noise = 6

    def start(self, noise: Tensor) -> State:
        """Start at the surface, facing left, with no one else around."""
        shape = noise.shape[:-1]
        values = (5, 0, -1, SPAWN, DIVER, 0, SPAWN, MOVE, 0, 1, OXYGEN, 0, 0)
        numbers = torch.cat([noise.new_full((*shape, 1), value) for value in values], -1)
        enemies, divers = (noise.new_full((*shape, *size), NOWHERE) for size in ((7, ENEMIES), (5, DIVERS)))
        bullets = torch.zeros((*shape, 4, SIDE, SIDE), dtype=torch.bool, device=noise.device)
        return numbers, enemies, divers, bullets

    def observe(self, state: State) -> Tensor:
        """Return maps of bow, stern, own bullets, trails, their bullets, fish, submarines, two gauges and divers."""
        numbers, enemies, divers, bullets = state
        x, y, facing = numbers[..., :3].unbind(-1)
        hull = mark(torch.stack((_cell(x, y), _cell(x - facing, y)), -1), SIDE * SIDE)
        ex, ey, direction, _, _, kind, _ = enemies.unbind(-2)
        dx, dy, heading, _, _ = divers.unbind(-2)
        fish = _map(_cell(ex, ey).masked_fill(kind == 1, NOWHERE))
        submarines = _map(_cell(ex, ey).masked_fill(kind != 1, NOWHERE))
        behind = torch.cat((_inside(ex - direction, ex, ey), _inside(dx - heading, dx, dy)), -1)
        level = torch.div(numbers[..., 10] * SIDE, OXYGEN, rounding_mode="floor")
        columns = torch.arange(SIDE, device=x.device)
        gauges = (columns < level[..., None], (columns >= 9 - numbers[..., 11:12]) & (columns < 9))
        bottom = pad(torch.stack(gauges, -2)[..., None, :], (0, 0, SIDE - 1, 0))
        theirs = bullets[..., 2, :, :] | bullets[..., 3, :, :]
        shots = torch.stack((bullets[..., 0, :, :] | bullets[..., 1, :, :], theirs), -3).flatten(-2)
        flat = torch.stack((*hull.unbind(-2), shots[..., 0, :], _map(behind), shots[..., 1, :], fish, submarines), -2)
        maps = torch.cat(
            (flat.view(*x.shape, 7, SIDE, SIDE), bottom, _map(_cell(dx, dy)).view(*x.shape, 1, SIDE, SIDE)), -3
        )
        return maps.to(x.dtype)

    def step(self, state: State, action: Tensor, noise: Tensor) -> tuple[State, Tensor, Tensor]:
        """Let things come, steer or shoot, then move the rest; see `_surface` for what divers are worth.

        Enemies that are shot are worth 1. The episode ends when an enemy or its bullet meets the submarine, when the
        oxygen is used up, and when it surfaces without a diver.
        """
        numbers, enemies, divers, bullets = state
        x, y, facing, arrival, diver, reload, spawn, speed, *_ = numbers.unbind(-1)
        action = stick(numbers[..., -1], action, noise[..., 0])
        enemies = _come(enemies, arrival == 0, speed, noise[..., 1:4])
        divers = _dive(divers, diver == 0, noise[..., 4:6])
        arrival = torch.where(arrival == 0, spawn, arrival)
        diver = diver.masked_fill(diver == 0, DIVER)

        fires = (action == FIRE) & (reload == 0)
        reload = reload.masked_fill(fires, RELOAD)
        shot = mark(_cell(x, y).masked_fill(~fires, NOWHERE), SIDE * SIDE).view(*x.shape, SIDE, SIDE)
        left, right = action == 1, action == 3
        facing = torch.where(left, -1.0, torch.where(right, 1.0, facing)).to(x.dtype)
        x = (x + right.to(x.dtype) - left.to(x.dtype)).clamp(0, SIDE - 1)
        y = (y + (action == 4).to(x.dtype) - (action == 2).to(x.dtype)).clamp(0, DEPTH)

        aim = (numbers[..., 2] > 0)[..., None, None]
        own = _fly(bullets[..., 0, :, :] | (shot & aim), bullets[..., 1, :, :] | (shot & ~aim))
        enemies, own, hits = _strike(enemies, own, enemies[..., 0, :] >= 0, fish_first=True)
        divers, held = _collect(divers, x, y, numbers[..., 11])

        here = _met(enemies, x, y)
        enemies, moves = _move(enemies, speed)
        met = _met(enemies, x, y)
        lost = (here | met).any(-1)
        theirs, enemies = _shoot(enemies, bullets[..., 2:, :, :])
        enemies, own, more = _strike(enemies, own, moves & ~met, fish_first=False)
        cell = mark(_cell(x, y), SIDE * SIDE).view(*x.shape, SIDE, SIDE)
        before, theirs = theirs, _fly(*theirs)
        lost = lost | ((before[0] | before[1] | theirs[0] | theirs[1]) & cell).flatten(-2).any(-1)
        enemies = _leave(enemies)

        changed, gain, drowned = _surface(numbers, y, held)
        timers = tuple((timer - 1).clamp(min=0) for timer in (arrival, diver, reload))
        action = action.to(x.dtype)
        after = torch.stack((x, y, facing, *timers, *changed, action), -1)
        return (after, enemies, divers, torch.stack((*own, *theirs), -3)), hits + more + gain, lost | drowned


Maps = tuple[Tensor, Tensor]
"""Bullets that fly to the right, and to the left."""


def _cell(x: Tensor, y: Tensor) -> Tensor:
    """Number the cells of things; absent ones get a negative number."""
    return torch.add(x, y, alpha=SIDE)


def _inside(x: Tensor, of: Tensor, y: Tensor) -> Tensor:
    """Number the cells beside things that are in the field, negative where the cell is not."""
    return _cell(x, y).masked_fill((x != x.clamp(0, SIDE - 1)) | (of < 0), NOWHERE)


def _index(cells: Tensor) -> Tensor:
    """Make indices of cells, one past the last for those that are not in the field."""
    return torch.where(cells < 0, SIDE * SIDE, cells).long()


def _map(cells: Tensor) -> Tensor:
    """Mark cells, (..., things), in a flat map, (..., 100)."""
    nothing = torch.zeros((*cells.shape[:-1], SIDE * SIDE + 1), dtype=torch.bool, device=cells.device)
    return nothing.scatter(-1, _index(cells), True)[..., :-1]


def _place(things: Tensor, here: Tensor, new: tuple[Tensor, ...]) -> Tensor:
    """Put something new into the first free slot of (..., fields, slots), where it comes."""
    free = things[..., 0, :] < 0
    slot = free & (free.cumsum(-1) == 1) & here[..., None]
    return torch.where(slot[..., None, :], torch.stack(new, -1)[..., None], things)


def _side(noise: Tensor) -> tuple[Tensor, Tensor]:
    """Draw a direction and the column from which things come."""
    right = (noise < 0.5).to(noise.dtype)
    return 2 * right - 1, (SIDE - 1) * (1 - right)


def _come(enemies: Tensor, arrives: Tensor, speed: Tensor, noise: Tensor) -> Tensor:
    """Let an enemy come, a submarine once in three times, unless others cross its row the other way."""
    direction, x = _side(noise[..., 0])
    kind = (noise[..., 1] < 1 / 3).to(x.dtype)
    y = torch.floor(noise[..., 2] * DEPTH) + 1
    against = (enemies[..., 1, :] == y[..., None]) & (enemies[..., 2, :] != direction[..., None])
    new = (x, y, direction, speed, torch.full_like(x, SHOT), kind, torch.zeros_like(x))
    return _place(enemies, arrives & ~against.any(-1), new)


def _dive(divers: Tensor, arrives: Tensor, noise: Tensor) -> Tensor:
    """Let a diver come."""
    direction, x = _side(noise[..., 0])
    y = torch.floor(noise[..., 1] * DEPTH) + 1
    return _place(divers, arrives, (x, y, direction, torch.full_like(x, MOVE), torch.zeros_like(x)))


def _fly(right: Tensor, left: Tensor) -> Maps:
    """Move bullets by a cell."""
    return pad(right[..., :-1], (1, 0)), pad(left[..., 1:], (0, 1))


def _strike(enemies: Tensor, own: Maps, among: Tensor, fish_first: bool) -> tuple[Tensor, Maps, Tensor]:
    """Remove bullets with the enemies that they meet, one each; return how many.

    Bullets that fly into enemies strike fish first and old ones first; of enemies that swim into bullets, submarines
    and young ones are first.
    """
    x, y, *_, kind, age = enemies.unbind(-2)
    index = _index(_inside(x, x, y))
    bullets = pad((own[0] | own[1]).flatten(-2), (0, 1))
    met = bullets.gather(-1, index) & among
    rank = age - FIRST * kind if fish_first else FIRST * kind - age
    rank = torch.where(met, rank + 2 * FIRST, 0.0).to(x.dtype)
    best = torch.zeros(bullets.shape, dtype=x.dtype, device=x.device).scatter_reduce(-1, index, rank, "amax")
    struck = met & (best.gather(-1, index) == rank)
    spent = (best[..., :-1] > 0).view(own[0].shape)
    own = (own[0] & ~spent, own[1] & ~spent)
    return enemies.masked_fill(struck[..., None, :], NOWHERE), own, struck.sum(-1).to(x.dtype)


def _collect(divers: Tensor, x: Tensor, y: Tensor, held: Tensor) -> tuple[Tensor, Tensor]:
    """Take divers that are met before or after their move aboard, as long as there is room, and move the others."""
    column, row, direction, wait, age = divers.unbind(-2)
    moves = wait == 0
    moved = torch.where(moves, column + direction, column)
    met = ((column == x[..., None]) | (moved == x[..., None])) & (row == y[..., None])
    before = (met[..., None, :] & (age[..., None, :] < age[..., :, None])).sum(-1)
    taken = met & (held[..., None] + before < FULL)
    gone = taken | (moved != moved.clamp(0, SIDE - 1))
    after = torch.stack((moved, row, direction, torch.where(moves, MOVE, wait - 1), age + 1), -2)
    return after.masked_fill(gone[..., None, :], NOWHERE), held + taken.sum(-1)


def _met(enemies: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Tell which enemies are where the submarine is."""
    return (enemies[..., 0, :] == x[..., None]) & (enemies[..., 1, :] == y[..., None])


def _move(enemies: Tensor, speed: Tensor) -> tuple[Tensor, Tensor]:
    """Move the enemies whose turn it is, and tell which."""
    x, y, direction, wait, shot, kind, age = enemies.unbind(-2)
    moves = wait == 0
    x = torch.where(moves, x + direction, x)
    wait = torch.where(moves, speed[..., None], wait - 1)
    return torch.stack((x, y, direction, wait, shot, kind, age + 1), -2), moves


def _shoot(enemies: Tensor, theirs: Tensor) -> tuple[Maps, Tensor]:
    """Let submarines shoot when it is time; return all of their bullets."""
    x, y, direction, wait, shot, kind, age = enemies.unbind(-2)
    shoots = (shot == 0) & (kind == 1)
    cell = _inside(x, x, y).masked_fill(~shoots, NOWHERE)
    new = [_map(cell.masked_fill(direction != side, NOWHERE)).view(theirs[..., 0, :, :].shape) for side in (1, -1)]
    shot = torch.where(shot == 0, SHOT, shot - 1).to(x.dtype)
    maps = (theirs[..., 0, :, :] | new[0], theirs[..., 1, :, :] | new[1])
    return maps, torch.stack((x, y, direction, wait, shot, kind, age), -2)


def _leave(enemies: Tensor) -> Tensor:
    """Remove the enemies that have left the field."""
    x = enemies[..., :1, :]
    return enemies.masked_fill(x != x.clamp(0, SIDE - 1), NOWHERE)


def _surface(numbers: Tensor, y: Tensor, held: Tensor) -> tuple[tuple[Tensor, ...], Tensor, Tensor]:
    """Breathe, or surface with a diver; return what changed, the reward, and whether the submarine drowned.

    Six divers are worth as many points as there are tenths of the oxygen left. Every time one diver leaves, enemies
    come more often, and every second time they move faster.
    """
    spawn, speed, surfaced, surface, oxygen = numbers[..., 6:11].unbind(-1)
    below = y > 0
    rises = ~below & (surface == 0)
    up = rises & (held != 0)
    full = up & (held == FULL)
    gain = torch.div(oxygen * SIDE, OXYGEN, rounding_mode="floor") * full
    held = torch.where(up, held.masked_fill(full, 0) - 1, held)
    ramps = up & ((spawn > 1) | (speed > FASTEST))
    faster = ramps & (speed > FASTEST) & (torch.remainder(surfaced, 2) == 1)
    speed = speed - faster.to(y.dtype)
    spawn = (spawn - ramps.to(y.dtype)).clamp(min=1)
    surfaced = surfaced + ramps.to(y.dtype)
    surface = torch.where(below, 0.0, torch.where(up, 1.0, surface)).to(y.dtype)
    oxygen = oxygen - below.to(y.dtype)
    drowned = (oxygen < 0) | (rises & ~up)
    oxygen = oxygen.masked_fill(up, OXYGEN)
    return (spawn, speed, surfaced, surface, oxygen, held), gain, drowned
