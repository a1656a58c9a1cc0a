"""Records of acting, in tensors that are allocated once."""

import torch
from torch import Generator, Tensor

from popbandits_experiments.paper.procgen.environments import ACTIONS, FRAME
from popbandits_experiments.paper.procgen.losses import Batch


class Rollout:
    """Records of a rollout of T steps in N environments, and what is computed from them.

    One more row than steps: the frame after the last step has a value, too.
    """

    def __init__(self, steps: int, environments: int, device: torch.device) -> None:
        shape = steps + 1, environments
        self.row = torch.zeros(1, dtype=torch.int64, device=device)
        """Index of the row to write; on the device, so that a captured graph can write to every row."""
        self.frames = torch.zeros(*shape, *FRAME, dtype=torch.uint8, device=device)
        self.noise = torch.zeros(*shape, ACTIONS, device=device)
        self.actions = torch.zeros(shape, dtype=torch.int64, device=device)
        self.log_probabilities, self.values = (torch.zeros(shape, device=device) for _ in range(2))
        self.returns, self.advantages = (torch.zeros(steps, environments, device=device) for _ in range(2))

    def begin(self, generator: Generator) -> None:
        """Draw new noise."""
        # Gumbel noise: the argmax of logits plus noise is a draw from the policy.
        self.noise.exponential_(generator=generator).log_().neg_()

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
