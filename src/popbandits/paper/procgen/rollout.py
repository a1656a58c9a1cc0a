"""What is recorded while acting, in tensors that are allocated once."""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from popbandits.paper.procgen.environments import ACTIONS, FRAME
from popbandits.paper.procgen.losses import Batch, lambda_returns


@dataclass
class Records:
    """What is recorded at each step, (rows, environments) and more; `row` is the index of the row to write.

    It is on the device, so that a captured graph can write to every row.
    """

    row: Tensor
    frames: Tensor
    noise: Tensor
    actions: Tensor
    log_probabilities: Tensor
    values: Tensor

    def part(self, environments: slice) -> "Records":
        """Return a view of some environments, with a row of its own."""
        recorded = (self.frames, self.noise, self.actions, self.log_probabilities, self.values)
        return Records(torch.zeros_like(self.row), *(tensor[:, environments] for tensor in recorded))


class Rollout(Records):
    """Records of a rollout of T steps in N environments, and what is computed from them.

    One more row than steps: the frame after the last step has a value, too.
    """

    def __init__(self, steps: int, environments: int, device: torch.device) -> None:
        shape = steps + 1, environments
        super().__init__(
            row=torch.zeros(1, dtype=torch.int64, device=device),
            frames=torch.zeros(*shape, *FRAME, dtype=torch.uint8, device=device),
            noise=torch.zeros(*shape, ACTIONS, device=device),
            actions=torch.zeros(shape, dtype=torch.int64, device=device),
            log_probabilities=torch.zeros(shape, device=device),
            values=torch.zeros(shape, device=device),
        )
        self.returns, self.advantages = (torch.zeros(steps, environments, device=device) for _ in range(2))

    def begin(self, generator: Generator) -> None:
        """Draw new noise."""
        # Gumbel noise: the argmax of logits plus noise is a draw from the policy.
        self.noise.exponential_(generator=generator).log_().neg_()

    def look_back(self, rewards: Tensor, ended: Tensor) -> None:
        """Compute returns and standardised advantages from rewards and ends (T, N)."""
        self.returns.copy_(lambda_returns(rewards, self.values, ended))
        advantages = self.returns - self.values[:-1]
        self.advantages.copy_((advantages - advantages.mean()) / (advantages.std() + 1e-5))

    def batch(self, order: Tensor) -> Batch:
        """Gather the records of some steps, given by their indices in the flattened rollout."""
        recorded = (
            self.actions[:-1],
            self.log_probabilities[:-1],
            self.values[:-1],
            self.returns,
            self.advantages,
        )
        return Batch(*(tensor.flatten().index_select(0, order) for tensor in recorded))
