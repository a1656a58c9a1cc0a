"""Procgen: PPO, DrAC and UCB-DrAC on sixteen games with generated levels, as agents of the contract."""

from popbandits.rl.procgen.agent import PPO, DrAC, Settings, UCBDrAC
from popbandits.rl.procgen.augmentations import AUGMENTATIONS
from popbandits.rl.procgen.environments import GAMES, LEVELS, PAPER_GAMES
from popbandits.rl.procgen.learner import Sizes

__all__ = ["AUGMENTATIONS", "GAMES", "LEVELS", "PAPER_GAMES", "PPO", "DrAC", "Settings", "Sizes", "UCBDrAC"]
