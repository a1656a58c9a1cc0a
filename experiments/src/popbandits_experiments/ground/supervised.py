"""Networks that learn from examples with answers, for a whole population in one program, and their spaces.

Every member has its own network, optimizer and hyperparameters, as in `batched/ppo.py`: all of them are tensors, an
epoch is one CUDA graph on a GPU, and members are independent. Only the examples are shared.

| symbol | meaning |
|---|---|
| A | members |
| n | training examples |
| C | chunks of an epoch: the gradients of C / minibatches chunks make one step of the optimizer |
"""

import math
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import torch
from ConfigSpace import Categorical, ConfigurationSpace, OrdinalHyperparameter
from torch import Tensor

from popbandits.agent import Outcome
from popbandits.errors import ArgumentError
from popbandits.rl.threads import use_one_thread
from popbandits_experiments.batched.members import MemberRows
from popbandits_experiments.batched.networks import FlatWeights, Perceptron
from popbandits_experiments.batched.optimizers import (
    CHILDREN,
    MINIBATCHES,
    OPTIMIZERS,
    BatchedOptimizer,
    minibatch_ends,
)
from popbandits_experiments.batched.random import Streams
from popbandits_experiments.batched.spaces import space_with_optimizer
from popbandits_experiments.batched.transformers import Transformer
from popbandits_experiments.cuda_graphs import Replayed, stream_on

Ranges = Mapping[str, tuple[float, float]]
Options = Mapping[str, Sequence[Any]]
"""Options of each choice."""

WIDE: Ranges = {
    "weight_decay": (1e-6, 1e-1),
    "label_smoothing": (0.0, 0.5),
    "dropout": (0.0, 0.7),
    "beta1": (0.5, 0.99),
    "smoothing": (0.9, 0.999),
    "momentum": (0.0, 0.99),
}
"""Wide ranges, for an unknown task, that all tasks share."""
SHIFTED: Ranges = {
    "lr": (1e-6, 1e-2),
    "weight_decay": (1e-5, 1.0),
    "label_smoothing": (0.0, 0.9),
    "dropout": (0.0, 0.9),
    "beta1": (0.0, 0.99),
    "smoothing": (0.5, 0.999),
    "momentum": (0.5, 0.99),
}
"""Wide ranges that are not centred on good values, and that all tasks share."""
NARROW: Ranges = {"beta1": (0.8, 0.95), "smoothing": (0.97, 0.999)}
"""Narrow ranges, of an expert in such networks, who leaves SGD out."""


def make_space(
    ranges: Ranges, log: Collection[str], choices: Options, defaults: Mapping[str, Any]
) -> ConfigurationSpace:
    """Build a space of numbers, an optimizer, of those whose own number has a range, and other choices."""
    optimizers = [name for name in OPTIMIZERS if CHILDREN[name][0] in ranges]
    space = space_with_optimizer(ranges, log, optimizers, defaults)
    for name, options in choices.items():
        if name == "minibatches":
            space.add(OrdinalHyperparameter(name, options, default_value=defaults[name]))
        else:
            space.add(Categorical(name, options, default=defaults[name]))
    return space


class BatchedLearners(MemberRows):
    """A population of networks, as a batched agent; a subclass has the examples and the loss.

    A configuration holds lr, weight_decay, minibatches, optimizer, the optimizer's own hyperparameter, beta1 (adam),
    smoothing (rmsprop) or momentum (sgd), and the numbers and choices of the subclass.
    """

    network: Perceptron | Transformer
    numbers: ClassVar[tuple[str, ...]]
    """Numbers that are not the optimizer's."""
    choices: ClassVar[Options]
    """Options of each choice but the optimizer, minibatches among them."""
    tf32: ClassVar[bool] = False
    """Whether products have 11 bits: small differences, much less time."""

    def __init__(
        self,
        seeds: Sequence[int],
        network: Perceptron | Transformer,
        training: int,
        epochs: int,
        device: str | torch.device,
    ):
        """Make members that go through so many training examples `epochs` times in an interval."""
        if training % MINIBATCHES[-1]:
            raise ArgumentError(f"training must be a multiple of {MINIBATCHES[-1]}, got {training}")
        members = len(seeds)
        super().__init__(members, device)
        self.network, self.examples, self.epochs = network, training, epochs
        self.layout = FlatWeights([*network.shapes])
        self.flat = self._zeros(members, self.layout.size)
        self.weights = [view.requires_grad_() for view in self.layout.views(self.flat)]
        """Views of `flat`; gradients are taken with respect to these."""
        self.optimizer = BatchedOptimizer(self.flat)
        # Buffers that the graph reads: their addresses must not change.
        self._numbers = self._zeros(len(self.numbers), members)
        self._chosen = self._zeros(len(self.choices), members, dtype=torch.int64)
        self._own = dict(zip(self.numbers, self._numbers, strict=True))
        self._choice = dict(zip(self.choices, self._chosen, strict=True))
        self._lr = self._zeros(members, 1)
        self._due = self._zeros(MINIBATCHES[-1], members, 1, dtype=torch.bool)
        self._sizes = torch.tensor(MINIBATCHES, device=self.device)
        self._order = self._zeros(members, training, dtype=torch.int64)
        self._epoch = Replayed(self._learn_epoch, stream_on(self.device))
        self._start(range(members), seeds)

    def _zeros(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.zeros(*shape, dtype=dtype, device=self.device)

    def _rows(self) -> dict[str, Tensor]:
        """Return the learnt tensors by name, a row for each member."""
        return {"weights": self.flat, **self.optimizer.state}

    def _fresh(self, keys: Tensor) -> dict[str, Tensor]:
        """Draw initial weights, a row for each key."""
        return {"weights": self.layout.flatten(self.network.draw(Streams(keys)))}

    def train(self, configs: Sequence[Mapping[str, Any]]) -> list[Outcome]:
        """Train every member for an interval; a score is the accuracy on validation examples, in percent.

        It is NaN if weights diverged.
        """
        if self.device.type == "cpu":
            use_one_thread()
        torch.backends.cuda.matmul.allow_tf32 = self.tf32  # Other code in this process may have set it.
        self._configure(configs)
        streams = self._streams()
        for epoch in range(self.epochs):
            self._draw(streams, epoch)
            self._epoch()
        self._trained += 1
        self._labels = ()
        scores = torch.where(self._sound(range(len(self.flat))), self._accuracies(), math.nan).tolist()
        return [Outcome(score, self.epochs * self.examples) for score in scores]

    @torch.no_grad()
    def evaluate(self, members: Sequence[int], episodes: int = 0, seeds: Sequence[int] = ()) -> Tensor:
        """Score the test examples: 100 for each answer that a member gets right, else 0, (members, answers).

        NaN if weights diverged. All examples are used: `episodes` and `seeds` have no effect.
        """
        return torch.where(self._sound(members)[:, None], 100.0 * self._right("test", members), math.nan)

    def _sound(self, members: Sequence[int]) -> Tensor:
        return self.flat[list(members)].isfinite().all(1)

    @torch.no_grad()
    def _accuracies(self) -> Tensor:
        """Compute each member's accuracy on the validation examples, in percent."""
        return (100.0 * self._right("validation", range(len(self.flat)))).mean(1)

    def applied(self) -> list[dict[str, Any]]:
        """Return the hyperparameters of the last interval, read from where they are used."""
        own = {name: tensor.tolist() for name, tensor in self._own.items()}
        own["lr"] = self._lr.flatten().tolist()
        own["weight_decay"] = self.optimizer.settings["weight_decay"].flatten().tolist()
        own |= {
            name: [options[index] for index in self._choice[name].tolist()] for name, options in self.choices.items()
        }
        return [
            {**steps, **{name: values[i] for name, values in own.items()}}
            for i, steps in enumerate(self.optimizer.applied())
        ]

    def _configure(self, configs: Sequence[Mapping[str, Any]]) -> None:
        """Write the hyperparameters of an interval to the buffers that the graph reads."""
        for config in configs:
            for name, options in self.choices.items():
                if config[name] not in options:
                    raise ArgumentError(f"{name} must be one of {options}, got {config[name]!r}")
        self.optimizer.configure(configs)
        self._lr.copy_(self.optimizer.settings["lr"])
        self._numbers.copy_(torch.tensor([[float(config[name]) for config in configs] for name in self.numbers]))
        chosen = [[options.index(config[name]) for config in configs] for name, options in self.choices.items()]
        self._chosen.copy_(torch.tensor(chosen))
        self._due.copy_(minibatch_ends(self._minibatches))

    @property
    def _minibatches(self) -> Tensor:
        """Minibatches of each member, (A,)."""
        return self._sizes[self._choice["minibatches"]]

    def _draw(self, streams: Streams, epoch: int) -> None:
        """Draw the random numbers of an epoch; a subclass draws its own after the order of the examples."""
        self._order.copy_(streams.uniform(self.examples).argsort(dim=1, stable=True))

    def _learn_epoch(self) -> None:
        """Go once through the examples in the given order; step the optimizers where they are due."""
        chunks = MINIBATCHES[-1]
        share = self._minibatches / chunks
        parts = (each.chunk(chunks, dim=1) for each in self._examples())
        for chunk, part in enumerate(zip(*parts, strict=True)):
            loss = self._loss(*part) * share
            self.optimizer.step(torch.autograd.grad(loss.sum(), self.weights), self._due[chunk])

    @abstractmethod
    def _examples(self) -> tuple[Tensor, ...]:
        """Make the examples of an epoch in their order, as the arguments of `_loss`, (A, n, ...) each."""

    @abstractmethod
    def _loss(self, shown: Tensor, mask: Tensor, wanted: Tensor) -> Tensor:
        """Compute each member's mean loss, (A,), of what is shown with units dropped by a mask."""

    def _kept(self, drops: Tensor) -> Tensor:
        """Make the mask of dropout from uniform numbers, (A, n, ...)."""
        dropout = self._own["dropout"].view(-1, *[1] * (drops.dim() - 1))
        mask: Tensor = (drops >= dropout) / (1 - dropout)
        return mask

    @abstractmethod
    def _right(self, part: str, members: Sequence[int]) -> Tensor:
        """Tell which answers of a part, "validation" or "test", members get right, (members, answers)."""
