"""Small transformers that learn modular addition, a + b mod p, for a whole population in one program.

A sequence is a pair of numbers, and its value their sum. Members train on a part of all p² pairs, a share of them with
wrong values; the score is the accuracy, in percent, on pairs that were never trained on, without errors. Networks first
learn the pairs by heart, and may find the rule much later (Power et al. 2022, "Grokking"): whether and when depends
on weight decay, the learning rate and the number of steps. As there, b + a may be in training where a + b is scored.

The modulus, the training share and the errors were chosen so that the usual settings end about half way: with fewer
pairs or more errors they learn little, and without errors almost everything.

Which pairs train and which values are wrong is drawn by random numbers of `batched/random.py`, which are the same on
every device and with every version.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from popbandits.errors import ArgumentError
from popbandits_experiments.batched.random import Streams, keys_of
from popbandits_experiments.ground import sequences
from popbandits_experiments.ground.sequences import BatchedSequences

DATA_SEED = 20_261_118


@dataclass(frozen=True, kw_only=True)
class Settings(sequences.Settings):
    """Settings that are not tuned."""

    modulus: int = 31
    """Numbers, and possible sums: p."""
    training: int = 640
    validation: int = 160
    """Pairs for validation; the rest are for the test."""
    errors: float = 0.05
    """Share of the training pairs whose value is drawn at random."""


STANDARD = Settings()


@dataclass(frozen=True)
class Pairs:
    """Pairs of numbers and their sums, (count, 2) and (count, 1)."""

    numbers: Tensor
    values: Tensor

    @staticmethod
    def split(streams: Streams, settings: Settings) -> "tuple[Pairs, Pairs, Pairs]":
        """Divide all pairs into those for training, with errors, for validation and for the test."""
        p = settings.modulus
        used = (settings.training, settings.validation)
        if sum(used) >= p * p:
            raise ArgumentError(
                "training and validation must leave pairs for the test: "
                f"together less than {p * p}, got {used[0]} and {used[1]}"
            )
        order = streams.uniform(p * p)[0].argsort(stable=True)
        numbers = torch.stack((order // p, order % p), -1)
        wrong = streams.uniform(settings.training, 1)[0] < settings.errors
        drawn = (streams.uniform(settings.training, 1)[0] * p).long()
        training, validation, test = (
            Pairs(each, each.sum(1, keepdim=True) % p) for each in numbers.tensor_split((settings.training, sum(used)))
        )
        return Pairs(training.numbers, torch.where(wrong, drawn, training.values)), validation, test

    @property
    def symbols(self) -> Tensor:
        """Symbols at each position, (count, 2, 1): a number each."""
        return self.numbers[..., None]

    @property
    def known(self) -> Tensor:
        """True everywhere, (count, 1): every sum follows from the rule."""
        return torch.ones_like(self.values, dtype=torch.bool)


class BatchedModular(BatchedSequences[Pairs]):
    """A population of transformers that add, as a batched agent."""

    def __init__(self, seeds: Sequence[int], settings: Settings = STANDARD, device: str | torch.device = "cpu"):
        data = Pairs.split(Streams(keys_of([DATA_SEED], torch.device("cpu"))), settings)
        super().__init__(seeds, settings, data, settings.modulus, settings.modulus, device)
