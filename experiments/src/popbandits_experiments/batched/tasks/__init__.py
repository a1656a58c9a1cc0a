"""Tasks on the device: environments as pure PyTorch functions over batches of any shape."""

from popbandits_experiments.batched.tasks.acrobot import Acrobot
from popbandits_experiments.batched.tasks.cartpole import CartPole
from popbandits_experiments.batched.tasks.minatar import GAMES
from popbandits_experiments.batched.tasks.mountain_car import MountainCarContinuous
from popbandits_experiments.batched.tasks.pendulum import Pendulum
from popbandits_experiments.batched.tasks.task import State, Task

TASKS: dict[str, Task] = {
    task.name: task for task in (Pendulum(), Acrobot(), CartPole(), MountainCarContinuous(), *GAMES)
}
"""All tasks by name."""

__all__ = ["TASKS", "State", "Task"]
