"""Classifiers whose augmentation is tuned: the probability and the magnitude of each operation, as one mixed space.

As in population based augmentation (Ho et al. 2019), all else is fixed, and what a population learns is a schedule.
Paper: each operation is there twice, and an image gets at most 0, 1 or 2, with fixed chances; magnitudes are levels.
Here: once, at most `most`, which is tuned too, by continuous magnitudes, because small images bear fewer operations.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from ConfigSpace import Categorical, ConfigurationSpace, Float, OrdinalHyperparameter
from torch import Tensor

from popbandits.errors import ArgumentError
from popbandits_experiments.batched.networks import Perceptron
from popbandits_experiments.batched.random import Streams
from popbandits_experiments.ground.digits_data import CLASSES
from popbandits_experiments.images.classifiers import Classifiers, centred
from popbandits_experiments.images.operations import FILLS, LARGEST, OPERATIONS, Draws, amounts, augment
from popbandits_experiments.images.sets import Images, Task

MOST = (1, 2, 3, len(OPERATIONS))
"""Numbers of operations that an image may have."""
FIXED = {"lr": 1e-3, "weight_decay": 1e-4, "optimizer": "adam"}
"""Usual settings, which are not tuned."""
HIDDEN = 128
TASK = Task()


def probability(operation: str) -> str:
    """Return the name of an operation's probability in a configuration."""
    return f"{operation}_p"


def magnitude(operation: str) -> str:
    """Return the name of an operation's magnitude in a configuration."""
    return f"{operation}_m"


def space() -> ConfigurationSpace:
    """Build the space; its default augments nothing."""
    made = ConfigurationSpace()
    for operation in OPERATIONS:
        made.add(Float(probability(operation), (0.0, 1.0), default=0.0))
        made.add(Float(magnitude(operation), (0.0, 1.0), default=0.5))
    made.add(OrdinalHyperparameter("most", MOST, default_value=2))
    made.add(Categorical("fill", FILLS, default="blank"))
    return made


def middle() -> dict[str, Any]:
    """Return the middle of the space: every operation with probability and magnitude of a half."""
    numbers = {name(operation): 0.5 for operation in OPERATIONS for name in (probability, magnitude)}
    return {**space().get_default_configuration(), **numbers}


class AugmentedClassifiers(Classifiers):
    """A population of perceptrons with one hidden layer; a configuration says how their images are augmented."""

    def __init__(
        self,
        seeds: Sequence[int],
        images: Images,
        task: Task = TASK,
        epochs: int = 10,
        device: str | torch.device = "cpu",
        splits: Sequence[int] | None = None,
    ):
        self.network = Perceptron((images.side**2, HIDDEN, CLASSES), 1.0)
        super().__init__(seeds, images, task, epochs, [*self.network.shapes], device, splits)

    def _fresh(self, keys: Tensor) -> dict[str, Tensor]:
        """Draw initial weights, a row for each key."""
        return {"weights": self.layout.flatten(self.network.draw(Streams(keys)))}

    def _make_buffers(self, members: int) -> None:
        """Allocate the buffers that the graph reads; their addresses must not change."""
        self._probabilities = torch.zeros(members, len(OPERATIONS), device=self.device)
        self._largest = torch.zeros_like(self._probabilities)
        self._most, self._fill = (torch.zeros(members, dtype=torch.int64, device=self.device) for _ in range(2))
        self._draws = Draws.zeros(members, self.task.training, self.images.side, self.device)

    def _configure(self, configs: Sequence[Mapping[str, Any]]) -> None:
        """Write the hyperparameters of an interval to the buffers that the graph reads."""
        for config in configs:
            for name, options in (("most", MOST), ("fill", FILLS)):
                if config[name] not in options:
                    raise ArgumentError(f"{name} must be one of {options}, got {config[name]!r}")
        self.optimizer.configure([FIXED] * len(configs))
        probabilities = [[float(config[probability(one)]) for one in OPERATIONS] for config in configs]
        largest = [[LARGEST[one] * config[magnitude(one)] for one in OPERATIONS] for config in configs]
        self._probabilities.copy_(torch.tensor(probabilities))
        self._largest.copy_(torch.tensor(largest))
        self._most.copy_(torch.tensor([int(config["most"]) for config in configs]))
        self._fill.copy_(torch.tensor([FILLS.index(config["fill"]) for config in configs]))

    def applied(self) -> list[dict[str, Any]]:
        """Return the hyperparameters of the last interval, read from where they are used."""
        own = (self._probabilities.tolist(), self._largest.tolist(), self._most.tolist(), self._fill.tolist())
        found = []
        for probabilities, largest, most, fill in zip(*own, strict=True):
            config: dict[str, Any] = {"most": most, "fill": FILLS[fill]}
            for one, p, amount in zip(OPERATIONS, probabilities, largest, strict=True):
                config |= {probability(one): p, magnitude(one): amount / LARGEST[one]}
            found.append(config)
        return found

    def _draw(self, streams: Streams) -> None:
        """Draw what happens to each image in an epoch."""
        self._draws.renew(streams)

    def _shown(self) -> tuple[Tensor, Tensor]:
        """Return the augmented images of an epoch, and their labels."""
        amount = amounts(self._draws, self._probabilities, self._largest, self._most)
        return centred(augment(self._seen(), amount, self._draws, self._fill)), self._wanted()

    def _outputs(self, pixels: Tensor, chunk: int | None = None, members: Sequence[int] | None = None) -> Tensor:
        """Compute logits; training is as testing."""
        weights = self.weights if members is None else [each[list(members)] for each in self.weights]
        return self.network(weights, pixels)
