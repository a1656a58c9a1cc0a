"""The contract of a task on the device: start, observe and step as pure functions of tensors.

A batch may have any leading shape, written `...` below; members of a population and copies of the environment are both
part of it. Nothing branches on data and nothing draws random numbers: uniform noise in [0, 1) is an argument. So a step
can be captured in a CUDA graph, compiled, and repeated to the last bit.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

from torch import Tensor

State = tuple[Tensor, ...]
"""Everything a step depends on; every tensor has the batch's leading shape."""


class Task(ABC):
    """Define one environment for a whole batch.

    Time limits and new episodes belong to whoever plays: `terminated` is the end that the rules call one. Floating
    numbers have the type of the noise.
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
    """Uniform numbers that a start consumes."""
    step_noise: ClassVar[int]
    """Uniform numbers that a step consumes."""
    random_score: ClassVar[float]
    """Mean return of uniform random actions (continuous ones within one unit of zero) under the limit."""
    solved: ClassVar[float]
    """Mean return that counts as well trained."""

    @abstractmethod
    def start(self, noise: Tensor) -> State:
        """Begin episodes from noise of shape (..., start_noise)."""

    @abstractmethod
    def observe(self, state: State) -> Tensor:
        """Return what a policy sees, of shape (..., *observation)."""

    @abstractmethod
    def step(self, state: State, action: Tensor, noise: Tensor) -> tuple[State, Tensor, Tensor]:
        """Return the next state, the reward (float) and the rules' end of the episode (bool), each of shape (...).

        Discrete actions are indices of shape (...); continuous ones are any real numbers of shape (..., actions), about
        one unit large, which the task scales and clips. The noise has shape (..., step_noise).
        """
