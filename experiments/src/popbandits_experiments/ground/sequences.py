"""Small transformers that answer questions about short sequences, for a whole population in one program.

A task draws the sequences (`recall.py`, `modular.py`); networks, training, hyperparameters and spaces are the same.

| symbol | meaning |
|---|---|
| A | members |
| n | training sequences |
| T | positions of a sequence |
| Q | values of a sequence that are asked for, at its last positions |
| S | symbols at a position |
| C | chunks of an epoch: the gradients of C / minibatches chunks make one step of the optimizer |
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import torch
from ConfigSpace import ConfigurationSpace, OrdinalHyperparameter
from torch import Tensor
from torch.nn.functional import log_softmax

from popbandits.agent import Outcome
from popbandits.errors import ArgumentError
from popbandits.rl.threads import use_one_thread
from popbandits_experiments.batched.members import MemberRows
from popbandits_experiments.batched.networks import FlatWeights
from popbandits_experiments.batched.optimizers import MINIBATCHES, OPTIMIZERS, BatchedOptimizer, minibatch_ends
from popbandits_experiments.batched.random import Streams
from popbandits_experiments.batched.spaces import space_with_optimizer
from popbandits_experiments.batched.transformers import Transformer
from popbandits_experiments.cuda_graphs import Replayed, stream_on

_NUMBERS = ("label_smoothing", "dropout")
_LOG = {"lr", "weight_decay", "max_grad_norm"}

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
    ranges = {
        "lr": (1e-5, 1e-1),
        "weight_decay": (1e-6, 1e-1),
        "label_smoothing": (0.0, 0.5),
        "dropout": (0.0, 0.7),
        "max_grad_norm": (0.05, 10.0),
        "beta1": (0.5, 0.99),
        "smoothing": (0.9, 0.999),
        "momentum": (0.0, 0.99),
    }
    return _space(ranges, OPTIMIZERS, MINIBATCHES)


def shifted() -> ConfigurationSpace:
    """Build wide ranges that are not centred on good values."""
    ranges = {
        "lr": (1e-6, 1e-2),
        "weight_decay": (1e-5, 1.0),
        "label_smoothing": (0.0, 0.9),
        "dropout": (0.0, 0.9),
        "max_grad_norm": (0.5, 50.0),
        "beta1": (0.0, 0.99),
        "smoothing": (0.5, 0.999),
        "momentum": (0.5, 0.99),
    }
    return _space(ranges, OPTIMIZERS, MINIBATCHES)


def narrow() -> ConfigurationSpace:
    """Build the space of an expert in such networks: narrow ranges."""
    ranges = {
        "lr": (3e-4, 1e-2),
        "weight_decay": (1e-5, 1e-2),
        "label_smoothing": (0.0, 0.2),
        "dropout": (0.0, 0.4),
        "max_grad_norm": (0.3, 3.0),
        "beta1": (0.8, 0.95),
        "smoothing": (0.97, 0.999),
    }
    return _space(ranges, OPTIMIZERS[:2], MINIBATCHES[2:])


def _space(
    ranges: dict[str, tuple[float, float]], optimizers: Sequence[str], minibatches: Sequence[int]
) -> ConfigurationSpace:
    space = space_with_optimizer(ranges, _LOG, optimizers, DEFAULTS)
    space.add(OrdinalHyperparameter("minibatches", minibatches, default_value=DEFAULTS["minibatches"]))
    return space


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


class BatchedSequences(MemberRows, Generic[D]):
    """A population of transformers, as a batched agent; a subclass draws the sequences.

    A configuration holds lr, weight_decay, label_smoothing, dropout, max_grad_norm, minibatches, optimizer, and the
    optimizer's own hyperparameter: beta1 (adam), smoothing (rmsprop) or momentum (sgd).
    """

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
        if settings.training % MINIBATCHES[-1]:
            raise ArgumentError(f"training must be a multiple of {MINIBATCHES[-1]}, got {settings.training}")
        members = len(seeds)
        super().__init__(members, device)
        self.settings = settings
        self.training, *held_out = data
        self.held_out = dict(zip(("validation", "test"), held_out, strict=True))
        self._symbols, self._values = self.training.symbols.to(self.device), self.training.values.to(self.device)
        length = self._symbols.shape[1]
        self.network = Transformer(symbols, values, length, settings.width, settings.heads, settings.layers)
        layout = FlatWeights([*self.network.shapes])
        self.layout, self.flat = layout, torch.zeros(members, layout.size, device=self.device)
        self.weights = [view.requires_grad_() for view in layout.views(self.flat)]
        """Views of `flat`; gradients are taken with respect to these."""
        self.optimizer = BatchedOptimizer(self.flat)
        self._make_buffers(members)
        self._epoch = Replayed(self._learn_epoch, stream_on(self.device))
        self._start(range(members), seeds)

    def _make_buffers(self, members: int) -> None:
        """Allocate the buffers that the graph reads; their addresses must not change."""
        settings = self.settings
        self._numbers = torch.zeros(len(_NUMBERS), members, device=self.device)
        self._own = dict(zip(_NUMBERS, self._numbers, strict=True))
        self._minibatches = torch.ones(members, device=self.device)
        self._due = torch.zeros(MINIBATCHES[-1], members, 1, dtype=torch.bool, device=self.device)
        self._order = torch.zeros(members, settings.training, dtype=torch.int64, device=self.device)
        shape = (members, settings.training, settings.layers, settings.width)
        self._drops = torch.zeros(shape, device=self.device)

    def _rows(self) -> dict[str, Tensor]:
        """Return the learnt tensors by name, a row for each member."""
        return {"weights": self.flat, **self.optimizer.state}

    def _fresh(self, keys: Tensor) -> dict[str, Tensor]:
        """Draw initial weights, a row for each key."""
        return {"weights": self.layout.flatten(self.network.draw(Streams(keys)))}

    def train(self, configs: Sequence[Mapping[str, Any]]) -> list[Outcome]:
        """Train every member for an interval; a score is the accuracy on the validation sequences, in percent.

        It is NaN if weights diverged.
        """
        if self.device.type == "cpu":
            use_one_thread()
        torch.backends.cuda.matmul.allow_tf32 = True  # Products of 11 bits: small differences, much less time.
        self._configure(configs)
        streams = self._streams()
        for _ in range(self.settings.epochs):
            self._order.copy_(streams.uniform(self.settings.training).argsort(dim=1, stable=True))
            self._drops.copy_(streams.uniform(*self._drops.shape[1:]))
            self._epoch()
        self._trained += 1
        self._labels = ()
        scores = self._score("validation", range(len(self.flat))).mean(1).tolist()
        return [Outcome(score, self.settings.epochs * self.settings.training) for score in scores]

    def evaluate(self, members: Sequence[int], episodes: int = 0, seeds: Sequence[int] = ()) -> Tensor:
        """Score the test sequences: 100 for each value that a member knows, else 0, (members, values).

        NaN if weights diverged. All sequences are used: `episodes` and `seeds` have no effect.
        """
        return self._score("test", members)

    def applied(self) -> list[dict[str, Any]]:
        """Return the hyperparameters of the last interval, read from where they are used."""
        own = {name: tensor.tolist() for name, tensor in self._own.items()}
        own["weight_decay"] = self.optimizer.settings["weight_decay"].flatten().tolist()
        own["minibatches"] = [round(count) for count in self._minibatches.tolist()]
        return [
            {**steps, **{name: values[i] for name, values in own.items()}}
            for i, steps in enumerate(self.optimizer.applied())
        ]

    def _configure(self, configs: Sequence[Mapping[str, Any]]) -> None:
        """Write the hyperparameters of an interval to the buffers that the graph reads."""
        for config in configs:
            if config["minibatches"] not in MINIBATCHES:
                raise ArgumentError(f"minibatches must be one of {MINIBATCHES}, got {config['minibatches']!r}")
        self.optimizer.configure(configs)
        self._numbers.copy_(torch.tensor([[float(config[name]) for config in configs] for name in _NUMBERS]))
        self._minibatches.copy_(torch.tensor([float(config["minibatches"]) for config in configs]))
        self._due.copy_(minibatch_ends(self._minibatches))

    def _learn_epoch(self) -> None:
        """Go once through the sequences in the given order; step the optimizers where they are due."""
        chunks = MINIBATCHES[-1]
        dropout = self._own["dropout"][:, None, None, None]
        masks = (self._drops >= dropout) / (1 - dropout)
        share = self._minibatches / chunks
        parts = (each[self._order].chunk(chunks, dim=1) for each in (self._symbols, self._values))
        for chunk, (shown, wanted, mask) in enumerate(zip(*parts, masks.chunk(chunks, dim=1), strict=True)):
            loss = self._loss(self.network(self.weights, shown, mask), wanted) * share
            self.optimizer.step(torch.autograd.grad(loss.sum(), self.weights), self._due[chunk])

    def _loss(self, logits: Tensor, values: Tensor) -> Tensor:
        """Compute each member's mean cross-entropy with smoothed labels, (A,)."""
        logarithms = log_softmax(_asked(logits, values), -1)
        right = logarithms.gather(-1, values[..., None]).squeeze(-1)
        smoothing = self._own["label_smoothing"][:, None, None]
        each: Tensor = (1 - smoothing) * right + smoothing * logarithms.mean(-1)
        return -each.mean((1, 2))

    @torch.no_grad()
    def _score(self, part: str, members: Sequence[int]) -> Tensor:
        """Score the values of members that can be known, (members, values): 100 or 0, NaN if weights diverged."""
        data, chosen = self.held_out[part], list(members)
        shown = data.symbols.to(self.device).expand(len(chosen), -1, -1, -1)
        wanted = data.values.to(self.device)
        found = _asked(self.network([each[chosen] for each in self.weights], shown), wanted).argmax(-1)
        right = (found == wanted)[:, data.known.to(self.device)]
        sound = self.flat[chosen].isfinite().all(1, keepdim=True)
        return torch.where(sound, 100.0 * right, math.nan)


def _asked(logits: Tensor, values: Tensor) -> Tensor:
    """Take the logits of the positions that are asked for values, the last Q of (A, B, T, outputs)."""
    return logits[:, :, -values.shape[-1] :]
