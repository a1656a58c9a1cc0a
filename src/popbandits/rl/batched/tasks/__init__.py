"""Tasks on the device: environments as pure PyTorch functions over batches of any shape."""

from popbandits.rl.batched.tasks.acrobot import Acrobot
from popbandits.rl.batched.tasks.cartpole import CartPole
from popbandits.rl.batched.tasks.minatar import GAMES
from popbandits.rl.batched.tasks.mountain_car import MountainCarContinuous
from popbandits.rl.batched.tasks.pendulum import Pendulum
from popbandits.rl.batched.tasks.task import State, Task

TASKS: dict[str, Task] = {
    task.name: task for task in (Pendulum(), Acrobot(), CartPole(), MountainCarContinuous(), *GAMES)
}
"""All tasks by name."""

__all__ = ["TASKS", "State", "Task"]
