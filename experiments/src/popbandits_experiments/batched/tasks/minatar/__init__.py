"""MinAtar's games on the device."""

from popbandits_experiments.batched.tasks.minatar.asterix import Asterix
from popbandits_experiments.batched.tasks.minatar.breakout import Breakout
from popbandits_experiments.batched.tasks.minatar.freeway import Freeway
from popbandits_experiments.batched.tasks.minatar.game import Game
from popbandits_experiments.batched.tasks.minatar.seaquest import Seaquest
from popbandits_experiments.batched.tasks.minatar.space_invaders import SpaceInvaders

GAMES: tuple[Game, ...] = (Breakout(), Asterix(), SpaceInvaders(), Freeway(), Seaquest())

__all__ = ["GAMES", "Game"]
