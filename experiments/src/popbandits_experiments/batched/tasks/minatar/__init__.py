"""MinAtar's games on the device."""

from popbandits_experiments.batched.tasks.minatar.asterix import Asterix
from popbandits_experiments.batched.tasks.minatar.breakout import Breakout
from popbandits_experiments.batched.tasks.minatar.game import Game
from popbandits_experiments.batched.tasks.minatar.space_invaders import SpaceInvaders

GAMES: tuple[Game, ...] = (Breakout(), Asterix(), SpaceInvaders())

__all__ = ["GAMES", "Game"]
