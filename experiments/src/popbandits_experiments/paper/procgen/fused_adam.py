"""Adam on a GPU in two kernels, the gradient's norm included."""

from math import log

import torch
import triton  # type: ignore[import-not-found, import-untyped, unused-ignore]
from torch import Tensor

from popbandits_experiments.paper.procgen import adam_kernels
from popbandits_experiments.paper.procgen.optimizer import BETAS, EPSILON, LEAST_NORM, MAX_GRADIENT_NORM, Optimizer

BLOCK = 1024


class FusedAdam(Optimizer):
    """Adam as PyTorch's, but for rounding."""

    def __init__(self, flat: Tensor, gradient: Tensor, rate: Tensor) -> None:
        self._flat, self._gradient, self._rate = flat.detach(), gradient, rate
        self._step = torch.zeros((), device=flat.device)
        self._exp_avg, self._exp_avg_sq = (torch.zeros_like(self._flat) for _ in range(2))
        self._programs = triton.cdiv(flat.numel(), BLOCK)
        self._sums = torch.zeros(triton.next_power_of_2(self._programs), device=flat.device)

    def step(self) -> None:
        """Change the parameters by the gradient, shortened to `MAX_GRADIENT_NORM` if it is longer."""
        grid, size = (self._programs,), self._flat.numel()
        adam_kernels.sum_squares[grid](self._gradient, self._step, self._sums, size, BLOCK=BLOCK)
        adam_kernels.adam[grid](
            self._flat,
            self._gradient,
            self._exp_avg,
            self._exp_avg_sq,
            self._step,
            self._rate,
            self._sums,
            size,
            MAX_NORM=MAX_GRADIENT_NORM,
            LEAST_NORM=LEAST_NORM,
            BETA=BETAS[0],
            BETA_OF_SQUARES=BETAS[1],
            LOG_BETA=log(BETAS[0]),
            LOG_BETA_OF_SQUARES=log(BETAS[1]),
            EPSILON=EPSILON,
            SUMS=len(self._sums),
            BLOCK=BLOCK,
        )

    def state(self) -> dict[str, Tensor]:
        """Return the tensors `step`, `exp_avg` and `exp_avg_sq`."""
        return {"step": self._step, "exp_avg": self._exp_avg, "exp_avg_sq": self._exp_avg_sq}
