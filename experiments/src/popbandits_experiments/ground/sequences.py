"""Small transformers that answer questions about short sequences, for a whole population in one program.

A task draws the sequences (`recall.py`, `modular.py`); networks, training, hyperparameters and spaces are the same.

| symbol | meaning |
|---|---|
| T | positions of a sequence |
| Q | values of a sequence that are asked for, at its last positions |
| S | symbols at a position |
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import torch
from ConfigSpace import ConfigurationSpace
from torch import Tensor
from torch.nn.functional import log_softmax

from popbandits_experiments.batched.optimizers import MINIBATCHES
from popbandits_experiments.batched.random import Streams
from popbandits_experiments.batched.transformers import Transformer
from popbandits_experiments.ground.supervised import NARROW, SHIFTED, WIDE, BatchedLearners, make_space

_LOG = {"lr", "weight_decay", "max_grad_norm"}
_CHOICES = {"minibatches": MINIBATCHES}

DEFAULTS: dict[str, Any] = {
    "lr": 1e-3,
    "weight_decay": 1e-4,
    "label_smoothing": 0.0,
    "dropout": 0.2,
    "max_grad_norm": 1.0,
    "minibatches": 16,
    "optimizer": "adam",
    "beta1": 0.9,
}
"""Usual settings of small character models such as nanoGPT's: Adam, dropout, clipping; small minibatches."""


def wide() -> ConfigurationSpace:
    """Build the space for an unknown task: wide ranges."""
    return make_space({**WIDE, "lr": (1e-5, 1e-1), "max_grad_norm": (0.05, 10.0)}, _LOG, _CHOICES, DEFAULTS)


def shifted() -> ConfigurationSpace:
    """Build wide ranges that are not centred on good values."""
    return make_space({**SHIFTED, "max_grad_norm": (0.5, 50.0)}, _LOG, _CHOICES, DEFAULTS)


def narrow() -> ConfigurationSpace:
    """Build the space of an expert in such networks: narrow ranges."""
    own = {"label_smoothing": (0.0, 0.2), "dropout": (0.0, 0.4), "max_grad_norm": (0.3, 3.0)}
    ranges = {**NARROW, **own, "lr": (3e-4, 1e-2), "weight_decay": (1e-5, 1e-2)}
    return make_space(ranges, _LOG, {"minibatches": MINIBATCHES[2:]}, DEFAULTS)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings that are not tuned, of every task."""

    training: int
    """Training sequences: n."""
    epochs: int = 10
    """Passes over the training sequences per interval."""
    width: int = 32
    heads: int = 2
    layers: int = 2


class Data(Protocol):
    """Sequences of a task."""

    @property
    def symbols(self) -> Tensor:
        """Symbols at each position, (count, T, S), -1 for none."""

    @property
    def values(self) -> Tensor:
        """Values that are asked for, (count, Q)."""

    @property
    def known(self) -> Tensor:
        """True where a value can be known, and is scored, (count, Q)."""


D = TypeVar("D", bound=Data)


class BatchedSequences(BatchedLearners, Generic[D]):
    """A population of transformers, as a batched agent; a subclass draws the sequences."""

    network: Transformer
    numbers = ("label_smoothing", "dropout")
    choices = _CHOICES
    tf32 = True

    def __init__(
        self,
        seeds: Sequence[int],
        settings: Settings,
        data: tuple[D, D, D],
        symbols: int,
        values: int,
        device: str | torch.device,
    ):
        """Make members that know so many symbols and values; `data` are for training, validation and test."""
        self.training, *held_out = data
        self.held_out = dict(zip(("validation", "test"), held_out, strict=True))
        length = self.training.symbols.shape[1]
        network = Transformer(symbols, values, length, settings.width, settings.heads, settings.layers)
        super().__init__(seeds, network, settings.training, settings.epochs, device)
        self._symbols, self._values = self.training.symbols.to(self.device), self.training.values.to(self.device)
        self._drops = self._zeros(len(seeds), self.examples, settings.layers, settings.width)

    def _draw(self, streams: Streams, epoch: int) -> None:
        """Draw the order of an epoch, and the units that are dropped."""
        super()._draw(streams, epoch)
        self._drops.copy_(streams.uniform(*self._drops.shape[1:]))

    def _examples(self) -> tuple[Tensor, Tensor, Tensor]:
        """Make symbols, masks and values."""
        return self._symbols[self._order], self._kept(self._drops), self._values[self._order]

    def _loss(self, shown: Tensor, mask: Tensor, wanted: Tensor) -> Tensor:
        """Compute each member's mean cross-entropy with smoothed labels, (A,)."""
        logarithms = log_softmax(_asked(self.network(self.weights, shown, mask), wanted), -1)
        right = logarithms.gather(-1, wanted[..., None]).squeeze(-1)
        smoothing = self._own["label_smoothing"][:, None, None]
        each: Tensor = (1 - smoothing) * right + smoothing * logarithms.mean(-1)
        return -each.mean((1, 2))

    def _right(self, part: str, members: Sequence[int]) -> Tensor:
        """Tell which values that can be known members know, (members, values)."""
        data, chosen = self.held_out[part], list(members)
        shown = data.symbols.to(self.device).expand(len(chosen), -1, -1, -1)
        wanted = data.values.to(self.device)
        found = _asked(self.network([each[chosen] for each in self.weights], shown), wanted).argmax(-1)
        return (found == wanted)[:, data.known.to(self.device)]


def _asked(logits: Tensor, values: Tensor) -> Tensor:
    """Take the logits of the positions that are asked for values, the last Q of (A, B, T, outputs)."""
    return logits[:, :, -values.shape[-1] :]
