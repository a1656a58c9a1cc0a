"""MinAtar's games on the device."""

from popbandits.rl.batched.tasks.minatar.breakout import Breakout
from popbandits.rl.batched.tasks.minatar.game import Game

GAMES: tuple[Game, ...] = (Breakout(),)

__all__ = ["GAMES", "Game"]
