"""What members did, and the contract of the worlds in which they did it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from popbandits.rl.batched.brains import Brains
from popbandits.rl.batched.random import Streams


@dataclass(frozen=True)
class Rollout:
    """T steps of A members in N environments each, at addresses that stay."""

    observations: Tensor
    """Before each step, (A, T, N, D)."""
    following: Tensor
    """After each step, before an episode that is over makes room for the next, (A, T, N, D)."""
    actions: Tensor
    """(A, T, N) or (A, T, N, K)."""
    rewards: Tensor
    """(A, T, N), as all that follow."""
    discounted: Tensor
    """Sum of the episode's rewards so far, older ones discounted."""
    terminated: Tensor
    """Whether the episode ended in a terminal state."""
    over: Tensor
    """Whether it ended, there or by its time limit."""

    @staticmethod
    def empty(brains: Brains, steps: int, copies: int) -> "Rollout":
        """Make room for a rollout."""
        members, device = len(brains.flat), brains.flat.device
        shape = (members, steps, copies)
        observations, following = (torch.zeros(*shape, brains.inputs, device=device) for _ in range(2))
        taken = (
            torch.zeros(shape, dtype=torch.int64, device=device)
            if brains.discrete
            else torch.zeros(*shape, brains.actions, device=device)
        )
        rewards, discounted = (torch.zeros(shape, device=device) for _ in range(2))
        terminated, over = (torch.zeros(shape, dtype=torch.bool, device=device) for _ in range(2))
        return Rollout(observations, following, taken, rewards, discounted, terminated, over)


class Play(ABC):
    """N environments of each member, in progress."""

    @abstractmethod
    def begin(self, streams: Streams) -> None:
        """Start fresh episodes in every environment."""

    @abstractmethod
    def collect(self, streams: Streams) -> None:
        """Fill the rollout with the next T steps."""


class Test(ABC):
    """E fresh episodes of each member."""

    @abstractmethod
    def __call__(self, streams: Streams) -> Tensor:
        """Play them; the return of each, (A, E)."""


class World(ABC):
    """A task, wherever its environments are stepped."""

    inputs: int
    """Numbers in an observation."""
    actions: int
    """Choices, or numbers in an action."""
    discrete: bool
    normalise: bool
    """Whether observations need a running scale; images of zeros and ones do not."""

    @abstractmethod
    def play(self, brains: Brains, gamma: Tensor, rollout: Rollout, stream: "torch.cuda.Stream | None") -> Play:
        """Make the environments that members train in."""

    @abstractmethod
    def test(self, brains: Brains, episodes: int, stream: "torch.cuda.Stream | None") -> Test:
        """Make the environments that members are scored in."""
