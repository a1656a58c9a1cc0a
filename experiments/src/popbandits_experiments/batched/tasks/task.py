"""The contract of a task on the device: start, observe and step as pure functions of tensors.

A batch may have any leading shape, written `...` below, such as (members, copies of the environment). Nothing branches
on data and nothing draws random numbers: uniform noise in [0, 1) is an argument. So a step can be captured in a CUDA
graph, compiled, and reproduced to the last bit.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

from torch import Tensor

State = tuple[Tensor, ...]
"""State of the environments; every tensor has the batch's leading shape."""


class Task(ABC):
    """An environment for a whole batch.

    The caller handles time limits and new episodes: `terminated` is only the end by the rules of the task.
    Floating-point numbers have the type of the noise.
    """

    name: ClassVar[str]
    observation: ClassVar[tuple[int, ...]]
    """Shape of one observation."""
    actions: ClassVar[int]
    """Number of discrete actions, or dimensions of a continuous one."""
    discrete: ClassVar[bool]
    limit: ClassVar[int]
    """Steps until an episode is truncated."""
    start_noise: ClassVar[int]
    """Number of uniform numbers used by a start."""
    step_noise: ClassVar[int]
    """Number of uniform numbers used by a step."""
    random_score: ClassVar[float]
    """Mean return of uniform random actions (continuous ones within one unit of zero) under the limit."""
    solved: ClassVar[float]
    """Mean return that counts as well trained."""

    @abstractmethod
    def start(self, noise: Tensor) -> State:
        """Start episodes from noise of shape (..., start_noise)."""

    @abstractmethod
    def observe(self, state: State) -> Tensor:
        """Return the observation, of shape (..., *observation)."""

    @abstractmethod
    def step(self, state: State, action: Tensor, noise: Tensor) -> tuple[State, Tensor, Tensor]:
        """Return the next state, the reward (float) and whether the episode terminated (bool), each of shape (...).

        Discrete actions are indices of shape (...); continuous ones are real numbers of shape (..., actions), of the
        order of 1, which the task scales and clips. The noise has shape (..., step_noise).
        """
