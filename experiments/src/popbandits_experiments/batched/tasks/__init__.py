"""Tasks on the device: environments as pure PyTorch functions over batches of any shape."""

from popbandits_experiments.batched.tasks.acrobot import Acrobot
from popbandits_experiments.batched.tasks.cartpole import CartPole, SwingUp
from popbandits_experiments.batched.tasks.detour import Detour
from popbandits_experiments.batched.tasks.key_door import KeyDoor
from popbandits_experiments.batched.tasks.minatar.asterix import Asterix
from popbandits_experiments.batched.tasks.minatar.breakout import Breakout
from popbandits_experiments.batched.tasks.minatar.freeway import Freeway
from popbandits_experiments.batched.tasks.minatar.seaquest import Seaquest
from popbandits_experiments.batched.tasks.minatar.space_invaders import SpaceInvaders
from popbandits_experiments.batched.tasks.mountain_car import MountainCar, MountainCarContinuous
from popbandits_experiments.batched.tasks.pendulum import Pendulum
from popbandits_experiments.batched.tasks.places import CliffWalking, FrozenLake
from popbandits_experiments.batched.tasks.reach import Reach
from popbandits_experiments.batched.tasks.task import State, Task
from popbandits_experiments.batched.tasks.taxi import Taxi

_CLASSIC = (Pendulum(), Acrobot(), CartPole(), MountainCar(), MountainCarContinuous(), SwingUp(), Detour(), Reach())
_GRIDS = (FrozenLake(), Taxi(), CliffWalking(), KeyDoor())
_GAMES = (Breakout(), Asterix(), SpaceInvaders(), Freeway(), Seaquest())
TASKS: dict[str, Task] = {task.name: task for task in (*_CLASSIC, *_GRIDS, *_GAMES)}
"""All tasks by name."""

__all__ = ["TASKS", "State", "Task"]
