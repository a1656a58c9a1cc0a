"""Tasks on the device: environments as pure PyTorch functions over batches of any shape."""

from popbandits_experiments.batched.tasks.acrobot import Acrobot
from popbandits_experiments.batched.tasks.cartpole import CartPole
from popbandits_experiments.batched.tasks.cliff_walking import CliffWalking
from popbandits_experiments.batched.tasks.detour import Detour
from popbandits_experiments.batched.tasks.frozen_lake import FrozenLake
from popbandits_experiments.batched.tasks.key_door import KeyDoor
from popbandits_experiments.batched.tasks.minatar import GAMES
from popbandits_experiments.batched.tasks.mountain_car import MountainCar, MountainCarContinuous
from popbandits_experiments.batched.tasks.pendulum import Pendulum
from popbandits_experiments.batched.tasks.reach import Reach
from popbandits_experiments.batched.tasks.swing_up import SwingUp
from popbandits_experiments.batched.tasks.task import State, Task
from popbandits_experiments.batched.tasks.taxi import Taxi

CLASSIC = (Pendulum(), Acrobot(), CartPole(), MountainCar(), MountainCarContinuous(), SwingUp(), Detour(), Reach())
TOY_TEXT = (FrozenLake(), Taxi(), CliffWalking(), KeyDoor())
TASKS: dict[str, Task] = {task.name: task for task in (*CLASSIC, *TOY_TEXT, *GAMES)}
"""All tasks by name."""

__all__ = ["TASKS", "State", "Task"]
