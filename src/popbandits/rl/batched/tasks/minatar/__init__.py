"""MinAtar's games on the device."""

from popbandits.rl.batched.tasks.minatar.asterix import Asterix
from popbandits.rl.batched.tasks.minatar.breakout import Breakout
from popbandits.rl.batched.tasks.minatar.freeway import Freeway
from popbandits.rl.batched.tasks.minatar.game import Game
from popbandits.rl.batched.tasks.minatar.space_invaders import SpaceInvaders

GAMES: tuple[Game, ...] = (Breakout(), Asterix(), SpaceInvaders(), Freeway())

__all__ = ["GAMES", "Game"]
