"""A classifier of handwritten digits for a whole population in one program: few images, many of them mislabelled.

Every member has its own perceptron, optimizer and hyperparameters, as in `batched/ppo.py`: all of them are tensors, an
epoch is one CUDA graph on a GPU, and members are independent. Only the images are shared.

| symbol | meaning |
|---|---|
| A | members |
| n | training images |
| H | hidden units |
| C | chunks of an epoch: the gradients of C / minibatches chunks make one step of the optimizer |
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from ConfigSpace import Categorical, ConfigurationSpace, OrdinalHyperparameter
from torch import Tensor
from torch.nn.functional import log_softmax, one_hot

from popbandits.agent import Outcome
from popbandits.errors import ArgumentError
from popbandits.rl.threads import use_one_thread
from popbandits_experiments.batched.members import MemberRows
from popbandits_experiments.batched.networks import FlatWeights, Perceptron
from popbandits_experiments.batched.optimizers import MINIBATCHES, OPTIMIZERS, BatchedOptimizer, minibatch_ends
from popbandits_experiments.batched.random import Streams
from popbandits_experiments.batched.spaces import space_with_optimizer
from popbandits_experiments.cuda_graphs import Replayed, stream_on
from popbandits_experiments.ground.digits_data import AUGMENTATIONS, CLASSES, PIXELS, VIEWS, Digits, Task, split

LOSSES = ("cross_entropy", "brier", "absolute")
SCHEDULES = ("constant", "linear", "cosine")
_CHOICES = {"augmentation": AUGMENTATIONS, "loss": LOSSES, "schedule": SCHEDULES, "minibatches": MINIBATCHES}
_NUMBERS = ("label_smoothing", "input_noise", "dropout")

DEFAULTS: dict[str, Any] = {
    "lr": 1e-3,
    "weight_decay": 1e-4,
    "label_smoothing": 0.0,
    "input_noise": 0.0,
    "dropout": 0.0,
    "minibatches": 2,
    "augmentation": "none",
    "loss": "cross_entropy",
    "schedule": "constant",
    "optimizer": "adam",
    "beta1": 0.9,
}
"""Defaults of scikit-learn's MLPClassifier, where it has the setting: minibatches of 200 images."""


def wide() -> ConfigurationSpace:
    """Build the space for an unknown task: wide ranges."""
    ranges = {
        "lr": (1e-5, 1.0),
        "weight_decay": (1e-6, 1e-1),
        "label_smoothing": (0.0, 0.5),
        "input_noise": (0.0, 1.0),
        "dropout": (0.0, 0.7),
        "beta1": (0.5, 0.99),
        "smoothing": (0.9, 0.999),
        "momentum": (0.0, 0.99),
    }
    return _space(ranges, OPTIMIZERS, _CHOICES)


def shifted() -> ConfigurationSpace:
    """Build wide ranges that are not centred on good values."""
    ranges = {
        "lr": (1e-6, 1e-2),
        "weight_decay": (1e-5, 1.0),
        "label_smoothing": (0.0, 0.9),
        "input_noise": (0.0, 3.0),
        "dropout": (0.0, 0.9),
        "beta1": (0.0, 0.99),
        "smoothing": (0.5, 0.999),
        "momentum": (0.5, 0.99),
    }
    return _space(ranges, OPTIMIZERS, _CHOICES)


def narrow() -> ConfigurationSpace:
    """Build the space of an expert in such networks: narrow ranges."""
    ranges = {
        "lr": (3e-4, 3e-2),
        "weight_decay": (1e-5, 3e-2),
        "label_smoothing": (0.0, 0.3),
        "input_noise": (0.0, 0.8),
        "dropout": (0.0, 0.5),
        "beta1": (0.8, 0.95),
        "smoothing": (0.97, 0.999),
    }
    choices = {**_CHOICES, "loss": LOSSES[:2], "minibatches": MINIBATCHES[1:]}
    return _space(ranges, OPTIMIZERS[:2], choices)


def _space(
    ranges: dict[str, tuple[float, float]], optimizers: Sequence[str], choices: Mapping[str, Sequence[Any]]
) -> ConfigurationSpace:
    space = space_with_optimizer(ranges, {"lr", "weight_decay"}, optimizers, DEFAULTS)
    for name, options in choices.items():
        if name == "minibatches":
            space.add(OrdinalHyperparameter(name, options, default_value=DEFAULTS[name]))
        else:
            space.add(Categorical(name, options, default=DEFAULTS[name]))
    return space


@dataclass(frozen=True)
class Settings:
    """Settings that are not tuned."""

    task: Task = field(default_factory=Task)
    epochs: int = 10
    """Passes over the training images per interval."""
    hidden: int = 64
    """Units of the hidden layer: H."""


STANDARD = Settings()


class BatchedDigits(MemberRows):
    """A population of classifiers, as a batched agent.

    A configuration holds lr, weight_decay, label_smoothing, input_noise, dropout, minibatches, augmentation, loss,
    schedule, optimizer, and the optimizer's own hyperparameter: beta1 (adam), smoothing (rmsprop) or momentum (sgd).
    """

    def __init__(
        self,
        seeds: Sequence[int],
        settings: Settings = STANDARD,
        data: Digits | Path | None = None,
        device: str | torch.device = "cpu",
    ):
        """`data`: the images, or the path of a file with them; without it they are scikit-learn's."""
        if settings.task.training % MINIBATCHES[-1]:
            raise ArgumentError(f"training must be a multiple of {MINIBATCHES[-1]}, got {settings.task.training}")
        members = len(seeds)
        super().__init__(members, device)
        self.settings = settings
        self.split = split(data if isinstance(data, Digits) else Digits.load(data), settings.task)
        self._views = self.split.views.flatten(0, 2).to(self.device)  # (augmentations * views * n, 64)
        self._truth = one_hot(self.split.labels, CLASSES).float().to(self.device)  # (n, 10)
        self._shown = {
            name: (images.to(self.device), labels.to(self.device))
            for name, (images, labels) in self.split.shown.items()
        }
        self.network = Perceptron((PIXELS, settings.hidden, CLASSES), 1.0)
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

        def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(*shape, dtype=dtype, device=self.device)

        images, epochs = self.settings.task.training, self.settings.epochs
        self._numbers, self._chosen = zeros(len(_NUMBERS), members), zeros(len(_CHOICES), members, dtype=torch.int64)
        self._own = dict(zip(_NUMBERS, self._numbers, strict=True))
        self._choice = dict(zip(_CHOICES, self._chosen, strict=True))
        self._lr = zeros(members, 1)
        self._due = zeros(MINIBATCHES[-1], members, 1, dtype=torch.bool)
        self._sizes = torch.tensor(MINIBATCHES, device=self.device)
        progress = torch.arange(epochs, device=self.device) / epochs
        falls = (torch.ones_like(progress), 1 - progress, (1 + (math.pi * progress).cos()) / 2)
        self._falls = torch.stack(falls, 1)  # factors of the learning rate, (epochs, schedules)
        # Random numbers of an epoch: order of the images, view of each, noise on pixels, units dropped.
        self._order, self._view = (zeros(members, images, dtype=torch.int64) for _ in range(2))
        self._noise, self._drops = zeros(members, images, PIXELS), zeros(members, images, self.settings.hidden)

    def _rows(self) -> dict[str, Tensor]:
        """Return the learnt tensors by name, a row for each member."""
        return {"weights": self.flat, **self.optimizer.state}

    def _fresh(self, keys: Tensor) -> dict[str, Tensor]:
        """Draw initial weights, a row for each key."""
        return {"weights": self.layout.flatten(self.network.draw(Streams(keys)))}

    def train(self, configs: Sequence[Mapping[str, Any]]) -> list[Outcome]:
        """Train every member for an interval; a score is the accuracy on the validation images, in percent.

        It is NaN if weights diverged.
        """
        if self.device.type == "cpu":
            use_one_thread()
        torch.backends.cuda.matmul.allow_tf32 = False  # Other code in this process may have set it.
        self._configure(configs)
        streams = self._streams()
        for epoch in range(self.settings.epochs):
            self._draw(streams)
            self.optimizer.settings["lr"].copy_(self._lr * self._falls[epoch][self._choice["schedule"]][:, None])
            self._epoch()
        self._trained += 1
        self._labels = ()
        accuracies, losses = self._validate()
        steps = self.settings.epochs * self.settings.task.training
        return [
            Outcome(accuracy, steps, {"validation_loss": loss} if math.isfinite(loss) else {})
            for accuracy, loss in zip(accuracies, losses, strict=True)
        ]

    @torch.no_grad()
    def evaluate(self, members: Sequence[int], episodes: int = 0, seeds: Sequence[int] = ()) -> Tensor:
        """Classify the test images: 100 for each that a member gets right, else 0, (members, images).

        NaN if weights diverged. All images are used: `episodes` and `seeds` have no effect.
        """
        outputs, labels = self._classify("test", members)
        sound = self.flat[list(members)].isfinite().all(1, keepdim=True)
        return torch.where(sound, 100.0 * (outputs.argmax(-1) == labels), math.nan)

    def evaluate_test(self, members: Sequence[int]) -> list[float]:
        """Compute the accuracy of members on the test images, in percent; NaN if weights diverged."""
        return self.evaluate(members).mean(1).tolist()

    def applied(self) -> list[dict[str, Any]]:
        """Return the hyperparameters of the last interval, read from where they are used."""
        numbers = {name: tensor.tolist() for name, tensor in self._own.items()}
        numbers["lr"] = self._lr.flatten().tolist()
        numbers["weight_decay"] = self.optimizer.settings["weight_decay"].flatten().tolist()
        choices = {name: tensor.tolist() for name, tensor in self._choice.items()}
        return [
            {
                **{name: values[i] for name, values in numbers.items()},
                **{name: _CHOICES[name][values[i]] for name, values in choices.items()},
                "optimizer": OPTIMIZERS[kind],
            }
            for i, kind in enumerate(self.optimizer.kind.tolist())
        ]

    def _configure(self, configs: Sequence[Mapping[str, Any]]) -> None:
        """Write the hyperparameters of an interval to the buffers that the graph reads."""
        for config in configs:
            for name, options in _CHOICES.items():
                if config[name] not in options:
                    raise ArgumentError(f"{name} must be one of {options}, got {config[name]!r}")
        self.optimizer.configure(configs)
        self._lr.copy_(self.optimizer.settings["lr"])
        self._numbers.copy_(torch.tensor([[float(config[name]) for config in configs] for name in _NUMBERS]))
        chosen = [[options.index(config[name]) for config in configs] for name, options in _CHOICES.items()]
        self._chosen.copy_(torch.tensor(chosen))
        self._due.copy_(minibatch_ends(self._sizes[self._choice["minibatches"]]))

    def _draw(self, streams: Streams) -> None:
        """Draw the random numbers of an epoch."""
        images = self.settings.task.training
        self._order.copy_(streams.uniform(images).argsort(dim=1, stable=True))
        self._view.copy_(streams.uniform(images) * VIEWS)
        self._noise.copy_(streams.normal(images, PIXELS))
        self._drops.copy_(streams.uniform(images, self.settings.hidden))

    def _learn_epoch(self) -> None:
        """Go once through the images in the given order; step the optimizers where they are due."""
        own, images, chunks = self._own, self.settings.task.training, MINIBATCHES[-1]
        version = self._choice["augmentation"][:, None] * VIEWS + self._view
        pixels = self._views[version * images + self._order] + own["input_noise"][:, None, None] * self._noise
        dropout = own["dropout"][:, None, None]
        kept = (self._drops >= dropout) / (1 - dropout)
        smoothing = own["label_smoothing"][:, None, None]
        targets = (1 - smoothing) * self._truth[self._order] + smoothing / CLASSES
        share = self._sizes[self._choice["minibatches"]] / chunks
        parts = (each.chunk(chunks, dim=1) for each in (pixels, kept, targets))
        for chunk, (seen, mask, wanted) in enumerate(zip(*parts, strict=True)):
            loss = self._loss(self.network(self.weights, seen, [mask]), wanted) * share
            self.optimizer.step(torch.autograd.grad(loss.sum(), self.weights), self._due[chunk])

    def _loss(self, outputs: Tensor, wanted: Tensor) -> Tensor:
        """Compute each member's own loss, (A,), of logits against wanted probabilities, (A, B, 10) each.

        -Σ q log p (cross_entropy), Σ (p - q)² (brier) or Σ |p - q| (absolute), the mean over images.
        """
        logarithms = log_softmax(outputs, -1)
        distance = logarithms.exp() - wanted
        each = torch.stack([-wanted * logarithms, distance.square(), distance.abs()])  # (losses, A, B, 10)
        return each.sum(-1).mean(-1).gather(0, self._choice["loss"][None]).squeeze(0)

    @torch.no_grad()
    def _validate(self) -> tuple[list[float], list[float]]:
        """Compute each member's accuracy in percent, and its cross-entropy, on the validation images."""
        outputs, labels = self._classify("validation", range(len(self.flat)))
        right = 100 * (outputs.argmax(-1) == labels).float().mean(1)
        losses = -log_softmax(outputs, -1).gather(-1, labels[..., None]).mean((1, 2))
        return torch.where(self.flat.isfinite().all(1), right, math.nan).tolist(), losses.tolist()

    def _classify(self, part: str, members: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Compute the logits of members, (members, images, 10), and the true labels, (members, images)."""
        images, labels = self._shown[part]
        outputs = self.network([each[list(members)] for each in self.weights], images.expand(len(members), -1, -1))
        return outputs, labels.expand(len(members), -1)
