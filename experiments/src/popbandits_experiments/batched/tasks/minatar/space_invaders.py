"""MinAtar's Space Invaders: shoot aliens that come down and shoot back."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from popbandits_experiments.batched.tasks.minatar.game import SIDE, Game, move, stick
from popbandits_experiments.batched.tasks.task import State, mark

FIRE, RELOAD, MOVE, FASTEST, SHOT = 3, 5, 12, 6, 10
"""Action that shoots; steps between own shots, aliens' moves (slowest, fastest) and aliens' shots."""


class SpaceInvaders(Game):
    """Shoot aliens; the state is (numbers, maps), actions are none, left, right and fire.

    The numbers are the cannon's column, the aliens' direction, the steps between their moves, the steps until they
    move, until they shoot and until the cannon can shoot, and the last action. The maps are aliens, own bullets and
    alien bullets.
    """

    name = "SpaceInvaders-MinAtar"
    observation = (6, SIDE, SIDE)
    actions = 4
    step_noise = 1

    def start(self, noise: Tensor) -> State:
        """Start with a full wave and no bullets."""
        shape = noise.shape[:-1]
        values = ((1, 5), (1, -1), (2, MOVE), (1, SHOT), (2, 0))
        numbers = torch.cat([noise.new_full((*shape, size), value) for size, value in values], -1)
        maps = pad(_wave(noise)[None], (0, 0, 0, 0, 0, 2))
        return numbers, maps.expand(*shape, 3, SIDE, SIDE).contiguous()

    def observe(self, state: State) -> Tensor:
        """Return the cannon, all aliens, those moving left, those moving right, own bullets and alien bullets."""
        numbers, maps = state
        aliens, left = maps[..., :1, :, :], (numbers[..., 1] < 0)[..., None, None, None]
        cannon = mark(numbers[..., 0] + 9 * SIDE, SIDE * SIDE).view(aliens.shape)
        return torch.cat((cannon, aliens, aliens & left, aliens & ~left, maps[..., 1:, :, :]), -3).to(numbers.dtype)

    def step(self, state: State, action: Tensor, noise: Tensor) -> tuple[State, Tensor, Tensor]:
        """Shoot or move, then move bullets and aliens; a hit is worth 1, being hit or reached ends the episode."""
        numbers, maps = state
        cannon, direction, interval, wait, shot, reload, last = numbers.unbind(-1)
        aliens, own, theirs = maps.unbind(-3)
        action = stick(last, action, noise[..., 0])
        fires = (action == FIRE) & (reload == 0)
        reload = (reload.masked_fill(fires, RELOAD) - 1).clamp(min=0)
        cannon = move(cannon, action, 0, SIDE - 1)
        here = mark(cannon, SIDE)

        nothing = own[..., 9:, :]  # No own bullet stays in the last row.
        own = torch.cat((own[..., 1:9, :], (here & fires[..., None])[..., None, :], nothing), -2)
        theirs = torch.cat((nothing, theirs[..., :9, :]), -2)

        moves = wait == 0
        wait = torch.where(moves, torch.minimum(aliens.sum((-1, -2)), interval), wait)
        edges = aliens[..., ::9].any(-2)
        turns = moves & torch.where(direction < 0, edges[..., 0], edges[..., 1])
        shifted = torch.where((direction < 0)[..., None, None], aliens.roll(-1, -1), aliens.roll(1, -1))
        moved = torch.where(turns[..., None, None], aliens.roll(1, -2), shifted)
        moved = torch.where(moves[..., None, None], moved, aliens)
        low = aliens[..., 9, :]
        lost = ((low | moved[..., 9, :] | theirs[..., 9, :]) & here).any(-1) | (turns & low.any(-1))
        direction = torch.where(turns, -direction, direction)

        shoots = shot == 0
        theirs = theirs | (_nearest(moved, cannon) & shoots[..., None, None])
        hit = moved & own
        aliens = moved ^ hit
        cleared = ~aliens.flatten(-2).any(-1)
        aliens = aliens | (cleared[..., None, None] & _wave(noise))
        interval = torch.where(cleared, interval - 1, interval).clamp(min=FASTEST)
        shot = shot.masked_fill(shoots, SHOT) - 1
        numbers = torch.stack((cannon, direction, interval, wait - 1, shot, reload, action), -1)
        reward = hit.sum((-1, -2)).to(numbers.dtype)
        return (numbers, torch.stack((aliens, own ^ hit, theirs), -3)), reward, lost


def _wave(like: Tensor) -> Tensor:
    """Return the mask of a full wave, shape (10, 10)."""
    return pad(torch.ones((4, 6), dtype=torch.bool, device=like.device), (2, 2, 0, 6))


def _nearest(aliens: Tensor, cannon: Tensor) -> Tensor:
    """Return the mask of the alien that shoots: the lowest in the nearest column, the left one of two."""
    index = torch.arange(SIDE, device=aliens.device)
    distance = (index - cannon[..., None] + 0.25).abs()  # Grows by at least 1/2 from one column to the next.
    rank = (20 * distance)[..., None, :] - index[:, None]
    rank = rank.masked_fill(~aliens, torch.inf)
    return rank == rank.amin((-1, -2), keepdim=True)
