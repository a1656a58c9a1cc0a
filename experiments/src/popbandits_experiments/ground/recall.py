"""Small transformers that learn to recall, for a whole population in one program: few sequences, many wrong values.

A sequence names keys, each followed by its value: k₁ v₁ k₂ v₂ … Which value a key has is drawn anew for every sequence,
so that it can only be known from an earlier mention, by attention. A position of the transformer is a key that asks for
its value, with the pair before it. In training three values in ten are drawn at random. The score is the accuracy, in
percent, on values whose key came before, in sequences without errors that were never trained on.

The language is generated, by random numbers of `batched/random.py`, which are the same on every device and with every
version: a text that ships with Python changes from version to version, and a task must not. It is small, and still what
makes transformers hard to train: recall comes suddenly, after a plateau whose length depends on the learning rate, and
too many epochs without regularisation learn the errors by heart. So good settings at the beginning and at the end of
training are not the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from popbandits_experiments.batched.random import Streams, keys_of
from popbandits_experiments.ground import sequences
from popbandits_experiments.ground.sequences import BatchedSequences

KEYS, VALUES = 8, 8
DATA_SEED = 20_261_117


@dataclass(frozen=True, kw_only=True)
class Settings(sequences.Settings):
    """Settings that are not tuned."""

    training: int = 256
    held_out: int = 256
    """Sequences for validation, and as many for the test."""
    pairs: int = 16
    """Keys with their values in a sequence: T."""
    errors: float = 0.3
    """Share of the values in training sequences that are drawn at random."""


STANDARD = Settings()


@dataclass(frozen=True)
class Sequences:
    """Keys and their values, (count, T) each."""

    keys: Tensor
    values: Tensor

    @staticmethod
    def draw(streams: Streams, count: int, pairs: int, errors: float = 0.0) -> "Sequences":
        """Draw sequences with a share of wrong values."""
        meaning = (streams.uniform(count, KEYS)[0] * VALUES).long()
        keys = (streams.uniform(count, pairs)[0] * KEYS).long()
        wrong = streams.uniform(count, pairs)[0] < errors
        drawn = (streams.uniform(count, pairs)[0] * VALUES).long()
        return Sequences(keys, torch.where(wrong, drawn, meaning.gather(1, keys)))

    @property
    def symbols(self) -> Tensor:
        """Symbols at each position, (count, T, 3): the key, and the key and value of the pair before, -1 for none."""
        before = (KEYS + self.keys, 2 * KEYS + self.values)
        return torch.stack((self.keys, *(pad(each[:, :-1], (1, 0), value=-1) for each in before)), -1)

    @property
    def known(self) -> Tensor:
        """True where a key came before, (count, T)."""
        return (self.keys[:, :, None] == self.keys[:, None, :]).tril(-1).any(-1)


class BatchedRecall(BatchedSequences[Sequences]):
    """A population of transformers that recall, as a batched agent."""

    def __init__(self, seeds: Sequence[int], settings: Settings = STANDARD, device: str | torch.device = "cpu"):
        streams = Streams(keys_of([DATA_SEED], torch.device("cpu")))
        data = (
            Sequences.draw(streams.fork(0), settings.training, settings.pairs, settings.errors),
            Sequences.draw(streams.fork(1), settings.held_out, settings.pairs),
            Sequences.draw(streams.fork(2), settings.held_out, settings.pairs),
        )
        super().__init__(seeds, settings, data, 2 * KEYS + VALUES, VALUES, device)
