"""Small causal transformers for many members: one flat row of weights each, applied as batched matrix products."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import layer_norm, scaled_dot_product_attention

from popbandits_experiments.batched.networks import affine, orthogonal
from popbandits_experiments.batched.random import Streams

INITIAL = 0.02
"""Standard deviation of initial embeddings."""
LAYER = 12
"""Tensors of a layer."""


class Transformer:
    """The architecture of a causal transformer (Vaswani et al. 2017); the weights of A members are arguments.

    Layers are normalised before attention and before the perceptron, whose units are rectified.

    | symbol | meaning |
    |---|---|
    | A | members |
    | B | sequences of a member |
    | T | positions of a sequence |
    | S | symbols at a position, whose embeddings add up |
    | W | width: size of a position's vector |
    """

    def __init__(self, symbols: int, outputs: int, length: int, width: int, heads: int, layers: int):
        self.width, self.heads, self.layers = width, heads, layers
        self.length = length
        norm: list[tuple[int, ...]] = [(1, width), (1, width)]
        layer = [*norm, (width, 3 * width), (1, 3 * width), (width, width), (1, width)]
        layer += [*norm, (width, 2 * width), (1, 2 * width), (2 * width, width), (1, width)]
        self.shapes = [(symbols, width), (length, width), *layer * layers, *norm, (width, outputs), (1, outputs)]
        """Shapes of a member's tensors: embeddings, layers, last normalisation and output."""

    def __call__(self, weights: Sequence[Tensor], symbols: Tensor, masks: Tensor | None = None) -> Tensor:
        """Map symbols, (A, B, T, S), to logits, (A, B, T, outputs); `weights` are (A, *shape) each.

        A negative symbol is none.

        `masks`, (A, B, layers, W), multiply what a layer adds to the vectors of a sequence, for example for dropout.
        """
        members, batch, length, _ = symbols.shape
        embedding, position = weights[0], weights[1]
        # A product, not a lookup, whose gradient a GPU would add up in a different order every time.
        there = symbols.flatten(1, 2)[..., None] == torch.arange(embedding.shape[1], device=symbols.device)
        x = there.sum(2).to(embedding.dtype) @ embedding
        x = x.view(members, batch, length, self.width) + position[:, None]
        for layer in range(self.layers):
            own = weights[2 + LAYER * layer : 2 + LAYER * (layer + 1)]
            mask = 1.0 if masks is None else masks[:, :, layer, None]
            x = x + mask * self._attend(own, _normalise(x, own[0], own[1]))
            hidden = _rows(_normalise(x, own[6], own[7]), own[8], own[9]).relu()
            x = x + mask * _rows(hidden, own[10], own[11])
        *_, gain, shift, matrix, bias = weights
        return _rows(_normalise(x, gain, shift), matrix, bias)

    def _attend(self, own: Sequence[Tensor], x: Tensor) -> Tensor:
        """Let every position attend to itself and to those before it."""
        members, batch, length, width = x.shape
        shape = (members * batch, length, 3, self.heads, width // self.heads)
        query, key, value = _rows(x, own[2], own[3]).view(shape).permute(2, 0, 3, 1, 4).unbind(0)
        seen = scaled_dot_product_attention(query, key, value, is_causal=True)
        return _rows(seen.transpose(1, 2).reshape(members, batch, length, width), own[4], own[5])

    def draw(self, streams: Streams) -> list[Tensor]:
        """Draw initial weights: small Gaussian embeddings, orthogonal matrices, gains of one and biases of zero."""
        gains = {len(self.shapes) - 4, *(2 + LAYER * layer + part for layer in range(self.layers) for part in (0, 6))}
        drawn = []
        for number, shape in enumerate(self.shapes):
            if number < 2:
                drawn.append(INITIAL * streams.normal(*shape))
            elif shape[0] > 1:
                drawn.append(orthogonal(streams.normal(*shape)))
            else:
                drawn.append(torch.full_like(drawn[0][:, :1, :1].expand(-1, *shape), float(number in gains)))
        return drawn


def _rows(x: Tensor, matrices: Tensor, biases: Tensor) -> Tensor:
    """Compute x W + b for (A, B, T, inputs)."""
    return affine(x.flatten(1, 2), matrices, biases).view(*x.shape[:3], -1)


def _normalise(x: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
    """Normalise vectors, (A, B, T, W), with each member's gain and shift, (A, 1, W)."""
    return layer_norm(x, x.shape[-1:]) * gain[:, None] + shift[:, None]
