"""A classifier of handwritten digits for a whole population in one program: few images, many of them mislabelled."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from ConfigSpace import ConfigurationSpace
from torch import Tensor
from torch.nn.functional import log_softmax, one_hot

from popbandits_experiments.batched.networks import Perceptron
from popbandits_experiments.batched.optimizers import MINIBATCHES
from popbandits_experiments.batched.random import Streams
from popbandits_experiments.ground.digits_data import AUGMENTATIONS, CLASSES, PIXELS, VIEWS, Digits, Task, split
from popbandits_experiments.ground.supervised import NARROW, SHIFTED, WIDE, BatchedLearners, make_space

LOSSES = ("cross_entropy", "brier", "absolute")
SCHEDULES = ("constant", "linear", "cosine")
_CHOICES = {"augmentation": AUGMENTATIONS, "loss": LOSSES, "schedule": SCHEDULES, "minibatches": MINIBATCHES}
_LOG = {"lr", "weight_decay"}

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
    return make_space({**WIDE, "lr": (1e-5, 1.0), "input_noise": (0.0, 1.0)}, _LOG, _CHOICES, DEFAULTS)


def shifted() -> ConfigurationSpace:
    """Build wide ranges that are not centred on good values."""
    return make_space({**SHIFTED, "input_noise": (0.0, 3.0)}, _LOG, _CHOICES, DEFAULTS)


def narrow() -> ConfigurationSpace:
    """Build the space of an expert in such networks: narrow ranges."""
    own = {"label_smoothing": (0.0, 0.3), "input_noise": (0.0, 0.8), "dropout": (0.0, 0.5)}
    ranges = {**NARROW, **own, "lr": (3e-4, 3e-2), "weight_decay": (1e-5, 3e-2)}
    choices = {**_CHOICES, "loss": LOSSES[:2], "minibatches": MINIBATCHES[1:]}
    return make_space(ranges, _LOG, choices, DEFAULTS)


@dataclass(frozen=True)
class Settings:
    """Settings that are not tuned."""

    task: Task = field(default_factory=Task)
    epochs: int = 10
    """Passes over the training images per interval."""
    hidden: int = 64
    """Units of the hidden layer."""


STANDARD = Settings()


class BatchedDigits(BatchedLearners):
    """A population of classifiers, as a batched agent; besides dropout and noise it tunes views, loss and schedule."""

    network: Perceptron
    numbers = ("label_smoothing", "input_noise", "dropout")
    choices = _CHOICES

    def __init__(
        self,
        seeds: Sequence[int],
        settings: Settings = STANDARD,
        data: Digits | Path | None = None,
        device: str | torch.device = "cpu",
    ):
        """`data`: the images, or the path of a file with them; without it they are scikit-learn's."""
        network = Perceptron((PIXELS, settings.hidden, CLASSES), 1.0)
        super().__init__(seeds, network, settings.task.training, settings.epochs, device)
        self.split = split(data if isinstance(data, Digits) else Digits.load(data), settings.task)
        self._views = self.split.views.flatten(0, 2).to(self.device)  # (augmentations * views * n, 64)
        self._truth = one_hot(self.split.labels, CLASSES).float().to(self.device)  # (n, 10)
        self._shown = {
            name: (images.to(self.device), labels.to(self.device))
            for name, (images, labels) in self.split.shown.items()
        }
        progress = torch.arange(self.epochs, device=self.device) / self.epochs
        falls = (torch.ones_like(progress), 1 - progress, (1 + (math.pi * progress).cos()) / 2)
        self._falls = torch.stack(falls, 1)  # factors of the learning rate, (epochs, schedules)
        # Random numbers of an epoch besides the order: view of each image, noise on pixels, units dropped.
        members = len(seeds)
        self._view = self._zeros(members, self.examples, dtype=torch.int64)
        self._noise = self._zeros(members, self.examples, PIXELS)
        self._drops = self._zeros(members, self.examples, settings.hidden)

    def _draw(self, streams: Streams, epoch: int) -> None:
        """Draw the random numbers of an epoch, and set its learning rate."""
        super()._draw(streams, epoch)
        self._view.copy_(streams.uniform(self.examples) * VIEWS)
        self._noise.copy_(streams.normal(*self._noise.shape[1:]))
        self._drops.copy_(streams.uniform(*self._drops.shape[1:]))
        self.optimizer.settings["lr"].copy_(self._lr * self._falls[epoch][self._choice["schedule"]][:, None])

    def _examples(self) -> tuple[Tensor, Tensor, Tensor]:
        """Make images with noise, masks and wanted probabilities."""
        version = self._choice["augmentation"][:, None] * VIEWS + self._view
        noise = self._own["input_noise"][:, None, None] * self._noise
        pixels = self._views[version * self.examples + self._order] + noise
        smoothing = self._own["label_smoothing"][:, None, None]
        targets = (1 - smoothing) * self._truth[self._order] + smoothing / CLASSES
        return pixels, self._kept(self._drops), targets

    def _loss(self, shown: Tensor, mask: Tensor, wanted: Tensor) -> Tensor:
        """Compute each member's own loss, (A,), of logits against wanted probabilities, (A, B, 10) each.

        -Σ q log p (cross_entropy), Σ (p - q)² (brier) or Σ |p - q| (absolute), the mean over images.
        """
        logarithms = log_softmax(self.network(self.weights, shown, [mask]), -1)
        distance = logarithms.exp() - wanted
        each = torch.stack([-wanted * logarithms, distance.square(), distance.abs()])  # (losses, A, B, 10)
        return each.sum(-1).mean(-1).gather(0, self._choice["loss"][None]).squeeze(0)

    @torch.no_grad()
    def _accuracies(self) -> Tensor:
        """Compute each member's accuracy; the mean before the percent, as stored runs were rounded."""
        return 100 * self._right("validation", range(len(self.flat))).float().mean(1)

    def _right(self, part: str, members: Sequence[int]) -> Tensor:
        """Tell which images of a part members classify, (members, images)."""
        images, labels = self._shown[part]
        outputs = self.network([each[list(members)] for each in self.weights], images.expand(len(members), -1, -1))
        return outputs.argmax(-1) == labels
