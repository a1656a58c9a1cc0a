"""Rollouts of members, and the contract of the worlds that produce them."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from popbandits_experiments.batched.brains import Brains
from popbandits_experiments.batched.random import Streams


@dataclass(frozen=True)
class Rollout:
    """Buffers for T steps of A members in N environments each; their addresses do not change."""

    observations: Tensor
    """Observations before each step, (A, T, N, D)."""
    following: Tensor
    """Observations after each step, before a finished episode is replaced by the next, (A, T, N, D)."""
    actions: Tensor
    """(A, T, N) or (A, T, N, K)."""
    rewards: Tensor
    """(A, T, N), like all fields below."""
    discounted: Tensor
    """Sum of the episode's rewards so far, older ones discounted."""
    terminated: Tensor
    """True if the episode ended in a terminal state."""
    over: Tensor
    """True if the episode ended, in a terminal state or by its time limit."""

    @staticmethod
    def empty(brains: Brains, steps: int, copies: int) -> "Rollout":
        """Allocate the buffers of a rollout."""

        def zeros(*more: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(len(brains.flat), steps, copies, *more, dtype=dtype, device=brains.flat.device)

        actions = zeros(dtype=torch.int64) if brains.discrete else zeros(brains.actions)
        ends = (zeros(dtype=torch.bool) for _ in range(2))
        return Rollout(zeros(brains.inputs), zeros(brains.inputs), actions, zeros(), zeros(), *ends)


class Play(ABC):
    """N running environments of each member.

    They go on from one interval to the next: their state belongs to the member, and is copied, saved and restored with
    it. Where it cannot be (`PoolWorld`), a member whose state was copied or restored begins with fresh episodes.
    """

    @property
    def state(self) -> dict[str, Tensor]:
        """Tensors of the environments by name, a row for each member; none if they cannot be saved."""
        return {}

    def fresh(self, streams: Streams) -> dict[str, Tensor]:
        """Return the state of environments at the start of an episode, a row for each stream."""
        return {}

    @abstractmethod
    def begin(self, streams: Streams) -> None:
        """Begin an interval; start fresh episodes for members whose environments could not come with them."""

    @abstractmethod
    def collect(self, streams: Streams) -> None:
        """Fill the rollout with the next T steps."""


Test = Callable[[Streams], Tensor]
"""Plays E fresh episodes of each member, and returns their returns, (A, E)."""


class World(ABC):
    """A task and the place where its environments are stepped, such as a CPU pool or the device."""

    inputs: int
    """Size of an observation."""
    actions: int
    """Number of discrete actions, or dimensions of a continuous one."""
    discrete: bool
    normalise: bool
    """True to normalise observations by a running scale; images of zeros and ones need none."""

    @abstractmethod
    def play(self, brains: Brains, gamma: Tensor, rollout: Rollout, stream: "torch.cuda.Stream | None") -> Play:
        """Make the environments that members train in."""

    @abstractmethod
    def test(self, brains: Brains, episodes: int, stream: "torch.cuda.Stream | None") -> Test:
        """Make the environments that members are scored in."""
