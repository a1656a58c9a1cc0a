"""The network on a GPU, its gradient by hand: the trunk's kernels, products for the hidden layer, and a loss kernel.

The hidden layer's columns are in the trunk's order of features, (C/8, y, x, C%8); parameters and their gradient keep
PyTorch's, (C, y, x).
"""

import torch
import triton  # type: ignore[import-not-found, import-untyped, unused-ignore]
from torch import Tensor

from popbandits_experiments.paper.procgen import loss_kernels, network
from popbandits_experiments.paper.procgen.environments import ACTIONS
from popbandits_experiments.paper.procgen.fused import FusedTrunk
from popbandits_experiments.paper.procgen.fused_adam import FusedAdam
from popbandits_experiments.paper.procgen.losses import VALUE_WEIGHT, Coefficients
from popbandits_experiments.paper.procgen.network import HIDDEN
from popbandits_experiments.paper.procgen.optimizer import Optimizer
from popbandits_experiments.paper.procgen.packing import GROUP
from popbandits_experiments.paper.procgen.rollout import Rollout

BLOCK, UNITS = 16, 64
"""Rows of a program, and units of the hidden layer that it takes at a time."""

PRECISION = "tf32x3"
"""Products of the heads in three parts on the tensor cores, to the precision of float32."""

PIXELS = network.FEATURES // network.CHANNELS[-1]
TAIL = HIDDEN + (ACTIONS + 1) * (HIDDEN + 1)
"""Number of parameters after the hidden layer's weights."""


class FusedNetwork:
    """A trunk with its own backward pass, followed by the hidden layer and the heads."""

    def __init__(self, trunk: FusedTrunk, device: torch.device, dtype: torch.dtype = torch.bfloat16) -> None:
        self._trunk = trunk
        self._hidden = torch.zeros(HIDDEN, network.FEATURES, dtype=dtype, device=device)
        self.buffer, self.put, self.put_augmented = trunk.buffer, trunk.put, trunk.put_augmented
        self.turn = trunk.turn

    @torch.no_grad()
    def load(self, flat: Tensor) -> None:
        """Pack parameters that have changed; `act` and `gradient` use them from then on."""
        self._trunk.load(flat)
        self._hidden.view(HIDDEN, -1, PIXELS, GROUP).copy_(_in_groups(flat))

    @torch.no_grad()
    def act(self, frames: Tensor, flat: Tensor, rollout: Rollout) -> Tensor:
        """Draw actions for frames, record the step in the next row and return the actions, int32."""
        return self._trunk.act(frames, flat, self._hidden, rollout)

    @torch.no_grad()
    def gradient(
        self, buffer: Tensor, flat: Tensor, rollout: Rollout, order: Tensor, coefficients: Coefficients, out: Tensor
    ) -> None:
        """Write the gradient of the loss of the steps in `order` to out; the buffer has their frames."""
        saved = self._trunk.forward(buffer, flat)
        features = saved.features
        hidden = torch.mm(features, self._hidden.T)
        to_hidden = torch.empty_like(hidden)
        shares = torch.empty(triton.cdiv(len(order), BLOCK), TAIL, device=flat.device)
        loss_kernels.loss_gradient[(len(shares),)](
            hidden,
            flat[-TAIL:],
            order,
            rollout.actions,
            rollout.log_probabilities,
            rollout.values,
            rollout.returns,
            rollout.advantages,
            coefficients.clip,
            coefficients.entropy,
            coefficients.alpha,
            to_hidden,
            shares,
            len(order),
            REGULARISED=len(hidden) > len(order),
            VALUE_WEIGHT=VALUE_WEIGHT,
            HIDDEN=HIDDEN,
            ACTIONS=ACTIONS,
            BLOCK=BLOCK,
            UNITS=UNITS,
            PRECISION=PRECISION,
        )
        torch.sum(shares, 0, out=out[-TAIL:])
        _in_groups(out).copy_(_mm_to_float32(to_hidden.T, features).view(HIDDEN, -1, PIXELS, GROUP))
        self._trunk.backward(saved, torch.mm(to_hidden, self._hidden), out[: network.TRUNK_SIZE])

    def optimizer(self, flat: torch.nn.Parameter, gradient: Tensor, rate: Tensor) -> Optimizer:
        """Make an optimizer of the parameters by a gradient and a learning rate."""
        return FusedAdam(flat, gradient, rate)


def _in_groups(flat: Tensor) -> Tensor:
    """View the hidden layer's weights in the trunk's order of features."""
    weights = flat[network.TRUNK_SIZE : -TAIL]
    return weights.view(HIDDEN, -1, GROUP, PIXELS).transpose(2, 3)


def _mm_to_float32(one: Tensor, other: Tensor) -> Tensor:
    """Multiply without rounding the sums to bfloat16, where PyTorch can: on a GPU, from 2.8 on."""
    if one.is_cuda and torch.__version__ >= "2.8":
        return torch.mm(one, other, out_dtype=torch.float32)
    return torch.mm(one, other)
