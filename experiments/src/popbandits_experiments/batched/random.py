"""Random numbers for many members at once; each member's numbers depend only on its own key.

A PyTorch generator fills a tensor from one stream, so a member's numbers would depend on the number of members. Here
every number is a hash of a key and a counter (SplitMix64, Steele et al. 2014): a member draws the same numbers alone
and among others, on every device.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def _signed(value: int) -> int:
    """Read 64 bits as PyTorch's int64 does."""
    return value - (1 << 64) if value >= 1 << 63 else value


_STEP = _signed(0x9E3779B97F4A7C15)
_FIRST, _SECOND = _signed(0xBF58476D1CE4E5B9), _signed(0x94D049BB133111EB)


def _shift(bits: Tensor, count: int) -> Tensor:
    """Shift right, filling with zeros; PyTorch's own shift repeats the sign."""
    return (bits >> count) & ((1 << (64 - count)) - 1)


def mix(bits: Tensor) -> Tensor:
    """Scramble 64-bit integers; a bijection whose output bits each depend on all input bits."""
    bits = (bits ^ _shift(bits, 30)) * _FIRST
    bits = (bits ^ _shift(bits, 27)) * _SECOND
    return bits ^ _shift(bits, 31)


def derive_keys(keys: Tensor, *labels: Tensor | int) -> Tensor:
    """Derive new keys from keys and labels, such as a member and a round.

    >>> keys = torch.tensor([1, 2])
    >>> bool((derive_keys(keys, 3, 4) == derive_keys(keys, 4, 3)).any())
    False
    """
    for label in labels:
        keys = mix(keys + mix(torch.as_tensor(label, device=keys.device) + _STEP) * _STEP)
    return keys


class Streams:
    """A stream of random numbers for each member."""

    def __init__(self, keys: Tensor):
        self._keys = keys  # (A,), int64
        self._drawn = 0

    def fork(self, label: int) -> "Streams":
        """Make streams that do not depend on the numbers drawn from these, and do not advance these."""
        return Streams(derive_keys(self._keys, label))

    def uniform(self, *shape: int) -> Tensor:
        """Draw from [0, 1) for each member, (A, *shape), float32."""
        count = math.prod(shape)
        numbers = torch.arange(self._drawn + 1, self._drawn + count + 1, device=self._keys.device)
        self._drawn += count
        bits = mix(self._keys[:, None] + numbers * _STEP)
        # A float32 below 1 holds 24 bits.
        return ((bits >> 40) & 0xFFFFFF).to(torch.float32).mul_(2.0**-24).view(len(self._keys), *shape)

    def normal(self, *shape: int) -> Tensor:
        """Draw from the standard normal distribution for each member, (A, *shape) (Box and Muller 1958)."""
        radius = self.uniform(*shape).neg_().add_(1).log_().mul_(-2).sqrt_()
        return radius * self.uniform(*shape).mul_(2 * math.pi).cos_()


def keys_of(seeds: Sequence[int], device: torch.device) -> Tensor:
    """Make a key for each seed, (A,)."""
    return mix(torch.tensor([_signed(seed % (1 << 64)) for seed in seeds], device=device) + _STEP)
