"""The contract of a task on the device: start, observe and step as pure functions of tensors.

A batch may have any leading shape, written `...` below, such as (members, copies of the environment). Nothing branches
on data and nothing draws random numbers: uniform noise in [0, 1) is an argument. So a step can be captured in a CUDA
graph, compiled, and reproduced to the last bit.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
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
    start_noise: ClassVar[int] = 0
    """Number of uniform numbers used by a start."""
    step_noise: ClassVar[int] = 0
    """Number of uniform numbers used by a step."""

    @abstractmethod
    def start(self, noise: Tensor) -> State:
        """Start episodes from noise of shape (..., start_noise)."""

    def observe(self, state: State) -> Tensor:
        """Return the observation, of shape (..., *observation): the state, unless a task says otherwise."""
        return state[0]

    @abstractmethod
    def step(self, state: State, action: Tensor, noise: Tensor) -> tuple[State, Tensor, Tensor]:
        """Return the next state, the reward (float) and whether the episode terminated (bool), each of shape (...).

        Discrete actions are indices of shape (...); continuous ones are real numbers of shape (..., actions), of the
        order of 1, which the task scales and clips. The noise has shape (..., step_noise).
        """


def mark(positions: Tensor, size: int, first: int = 0) -> Tensor:
    """Return masks of shape (..., size), true where a position is `first` plus the index; all false outside."""
    return positions[..., None] == torch.arange(first, first + size, device=positions.device)


def walk(position: Tensor, action: Tensor, back: int, forth: int, size: int) -> Tensor:
    """Step back or forth along a side of a grid, for the actions with these numbers; its edges stop a step."""
    return (position + (action == forth).int() - (action == back).int()).clamp(0, size - 1)
