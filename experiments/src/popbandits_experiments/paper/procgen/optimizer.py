"""Adam on flat parameters, by gradients that are shortened first; its state lies at fixed addresses."""

from typing import Protocol

import torch
from torch import Tensor

MAX_GRADIENT_NORM = 0.5
LEAST_NORM = 1e-6  # Added to the norm, as by `torch.nn.utils.clip_grad_norm_`.
BETAS = (0.9, 0.999)
EPSILON = 1e-5


class Optimizer(Protocol):
    """Changes parameters by a gradient, which it may shorten in place, and a learning rate; their tensors stay."""

    def step(self) -> None:
        """Change the parameters by the gradient, shortened to `MAX_GRADIENT_NORM` if it is longer."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Return the tensors `step`, `exp_avg` and `exp_avg_sq`."""
        ...


class TorchAdam(Optimizer):
    """PyTorch's Adam."""

    def __init__(self, flat: torch.nn.Parameter, gradient: Tensor, rate: Tensor) -> None:
        self._flat, self._gradient = flat, gradient
        flat.grad = gradient.zero_()
        self._adam = torch.optim.Adam([flat], rate, BETAS, EPSILON, fused=True, capturable=flat.is_cuda)
        self._adam.step()  # By a gradient of 0: it allocates the state, whose addresses then stay.
        self.state()["step"].zero_()

    def step(self) -> None:
        """Change the parameters by the gradient, shortened to `MAX_GRADIENT_NORM` if it is longer."""
        gradient = self._gradient
        gradient.mul_((MAX_GRADIENT_NORM / (gradient.norm() + LEAST_NORM)).clamp(max=1))
        self._adam.step()

    def state(self) -> dict[str, Tensor]:
        """Return the tensors `step`, `exp_avg` and `exp_avg_sq`."""
        memory = self._adam.state[self._flat]
        return {name: memory[name] for name in ("step", "exp_avg", "exp_avg_sq")}
