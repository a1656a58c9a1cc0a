"""Small networks for many members: one flat row of weights each, applied as batched matrix products."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from popbandits_experiments.batched.random import Streams


class Affine(torch.autograd.Function):
    """x W + b of each member: (A, B, I), (A, I, O), (A, 1, O) to (A, B, O).

    PyTorch's own backward multiplies by a transposed view of W, for which its CPU product takes 40 times as long.
    """

    @staticmethod
    def forward(context: Any, rows: Tensor, matrices: Tensor, biases: Tensor) -> Tensor:
        """Compute x W + b."""
        context.save_for_backward(rows, matrices)
        return torch.baddbmm(biases, rows, matrices)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        """Propagate the gradient of the output."""
        rows, matrices = context.saved_tensors
        (gradient,) = gradients
        transposed = matrices.mT if matrices.is_cuda else matrices.mT.contiguous()
        back = torch.bmm(gradient, transposed) if context.needs_input_grad[0] else None
        return back, torch.bmm(rows.mT, gradient), gradient.sum(1, keepdim=True)


def affine(rows: Tensor, matrices: Tensor, biases: Tensor) -> Tensor:
    """Compute x W + b of each member."""
    result: Tensor = Affine.apply(rows, matrices, biases)  # type: ignore[no-untyped-call]
    return result


class Perceptron:
    """The architecture of a perceptron with tanh units; the weights of A members are arguments.

    | symbol | meaning |
    |---|---|
    | A | members |
    | B | rows of a member's input |
    """

    def __init__(self, widths: tuple[int, ...], last_gain: float):
        self.layers = tuple(pairwise(widths))
        self.last_gain = last_gain
        self.shapes = [shape for inputs, outputs in self.layers for shape in ((inputs, outputs), (1, outputs))]
        """Shapes of a member's tensors: weights and biases of each layer."""

    def __call__(self, weights: list[Tensor], rows: Tensor, masks: Sequence[Tensor] = ()) -> Tensor:
        """Map (A, B, inputs) to (A, B, outputs); `weights` are (A, *shape) each.

        `masks`, (A, B, width) each, multiply the units of the hidden layers, for example for dropout.
        """
        for number in range(len(self.layers)):
            rows = affine(rows, weights[2 * number], weights[2 * number + 1])
            if number < len(self.layers) - 1:
                rows = rows.tanh() * masks[number] if masks else rows.tanh()
        return rows

    def draw(self, streams: Streams) -> list[Tensor]:
        """Draw initial weights: orthogonal matrices scaled by √2, or by the last layer's gain; biases of zero."""
        drawn = []
        for number, (inputs, outputs) in enumerate(self.layers):
            gain = self.last_gain if number == len(self.layers) - 1 else math.sqrt(2)
            matrices = gain * orthogonal(streams.normal(inputs, outputs))
            drawn += [matrices, torch.zeros_like(matrices[:, :1])]
        return drawn


def orthogonal(gaussian: Tensor) -> Tensor:
    """Make matrices (A, n, m) orthonormal along their shorter side, uniformly if their entries are Gaussian.

    Q = G R⁻¹ with RᵀR = GᵀG, the Q of a QR decomposition, in double precision since GᵀG squares the condition number.
    """
    if gaussian.shape[-2] < gaussian.shape[-1]:
        return orthogonal(gaussian.mT).mT
    tall = gaussian.double()
    upper = torch.linalg.cholesky(tall.mT @ tall, upper=True)
    solved: Tensor = torch.linalg.solve_triangular(upper, tall, upper=True, left=False)
    return solved.to(gaussian.dtype)


class FlatWeights:
    """Split a flat tensor (A, P) into views (A, *shape), so that one step updates all weights of a member."""

    def __init__(self, shapes: list[tuple[int, ...]]):
        self.shapes = shapes
        self.sizes = [math.prod(shape) for shape in shapes]
        self.size = sum(self.sizes)
        """Number of weights of a member: P."""

    def views(self, flat: Tensor) -> list[Tensor]:
        """Make a view of each tensor."""
        parts = torch.split(flat, self.sizes, dim=1)
        return [part.view(len(flat), *shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def flatten(self, tensors: list[Tensor]) -> Tensor:
        """Copy tensors (A, *shape) into one flat tensor, (A, P)."""
        return torch.cat([tensor.flatten(1) for tensor in tensors], dim=1)
