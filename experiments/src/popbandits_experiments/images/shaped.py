"""Classifiers whose architecture is tuned: width and depth, beside the rest. A change may distil the parent.

All members have tensors of the largest shape, so that one program trains them: units beyond a member's width are 0, and
residual layers beyond its depth are skipped. What a member computes and learns is what a network of its own shape does.

Who changes its architecture loses its weights: it begins with new ones. It may learn them from its parent, as in BG-PBT
(Wan et al. 2022, "Bayesian Generational Population-Based Training"): in the first epochs of the interval the labels are
the parent's probabilities. These epochs are part of the interval, so that every member trains as long as any other.

| symbol | meaning |
|---|---|
| A | members |
| B | rows of a member's input |
| W | largest width |
| L | largest depth: hidden layers |
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import torch
from ConfigSpace import ConfigurationSpace, Float, OrdinalHyperparameter
from torch import Tensor
from torch.nn.functional import softmax

from popbandits.agent import Outcome
from popbandits.errors import ArgumentError
from popbandits_experiments.batched.networks import affine
from popbandits_experiments.batched.random import Streams, derive_keys
from popbandits_experiments.cuda_graphs import Replayed, stream_on
from popbandits_experiments.ground.digits_data import CLASSES
from popbandits_experiments.images.classifiers import CHUNKS, Classifiers, centred
from popbandits_experiments.images.sets import Images, Task

WIDTHS = (8, 16, 32, 64, 128)
DEPTHS = (1, 2, 3, 4)
USUAL = {"width": 64, "depth": 1}
"""Architecture of `ground/digits.py`."""
DEFAULTS: dict[str, Any] = {"lr": 1e-3, "weight_decay": 1e-4, "label_smoothing": 0.0, "dropout": 0.0}
RANGES = {"lr": (1e-4, 1e-1), "weight_decay": (1e-6, 1e-1), "label_smoothing": (0.0, 0.5), "dropout": (0.0, 0.7)}
_LOG = {"lr", "weight_decay"}
_NEW_WEIGHTS = 1
"""Label of the random numbers of new weights."""

Change = Literal["restart", "distil", "again", "inherit"]
"""What becomes of a member whose configuration asks for another architecture:

- restart: it gets new weights
- distil: it gets new weights, which first learn from its parent
- again: the same, but all networks have the usual architecture; this shows what distillation does by itself
- inherit: it keeps the architecture of its weights, so that only first configurations decide
"""


def rest() -> ConfigurationSpace:
    """Build the space without the architecture."""
    made = ConfigurationSpace()
    for name, bounds in RANGES.items():
        made.add(Float(name, bounds, log=name in _LOG, default=DEFAULTS[name]))
    return made


def with_architecture() -> ConfigurationSpace:
    """Build the space of the architecture and the rest."""
    made = rest()
    made.add(OrdinalHyperparameter("width", WIDTHS, default_value=USUAL["width"]))
    made.add(OrdinalHyperparameter("depth", DEPTHS, default_value=USUAL["depth"]))
    return made


@dataclass(frozen=True)
class Settings:
    """Settings that are not tuned."""

    task: Task = field(default_factory=lambda: Task(wrong=0.2))
    epochs: int = 10
    """Passes over the training images per interval."""
    change: Change = "distil"
    distilled: int = 5
    """Epochs of an interval in which a child of another architecture learns from its parent."""
    largest: tuple[int, int] = (WIDTHS[-1], DEPTHS[-1])
    """Largest width and depth: W and L."""

    def __post_init__(self) -> None:
        if self.change not in get_args(Change):
            raise ArgumentError(f"change must be one of {', '.join(get_args(Change))}, got {self.change!r}")
        if not 0 <= self.distilled <= self.epochs:
            raise ArgumentError(f"distilled must be from 0 to epochs, {self.epochs}, got {self.distilled}")


STANDARD = Settings()


class Shaped:
    """Perceptrons of several shapes: a first layer of tanh units, residual layers of them, and a linear last one."""

    def __init__(self, inputs: int, width: int, depth: int):
        self.inputs, self.width, self.depth = inputs, width, depth
        hidden = [(inputs, width), *[(width, width)] * (depth - 1)]
        self.shapes = [shape for each in (*hidden, (width, CLASSES)) for shape in (each, (1, each[1]))]
        """Shapes of a member's tensors: weights and biases of each layer."""

    def __call__(
        self, weights: Sequence[Tensor], rows: Tensor, widths: Tensor, depths: Tensor, kept: Tensor | None = None
    ) -> Tensor:
        """Map (A, B, inputs) to (A, B, 10); widths and depths are (A,), `kept` (A, B, W) multiplies the last units."""
        units = self._units(widths)
        hidden = affine(rows, weights[0], weights[1]).tanh() * units
        for layer in range(1, self.depth):
            there = (depths > layer)[:, None, None]
            added = affine(hidden, weights[2 * layer], weights[2 * layer + 1]).tanh() * units
            hidden = hidden + torch.where(there, added, 0.0)
        return affine(hidden if kept is None else hidden * kept, weights[-2], weights[-1])

    def draw(self, streams: Streams, widths: Tensor) -> list[Tensor]:
        """Draw initial weights: normal with variance 1 over the layer's inputs, which widths limit; biases of zero."""
        drawn = []
        for number, (inputs, outputs) in enumerate(self.shapes[::2]):
            fan_in = widths if number else torch.full_like(widths, self.inputs)
            matrices = streams.normal(inputs, outputs) / fan_in.sqrt()[:, None, None]
            drawn += [matrices, torch.zeros_like(matrices[:, :1])]
        return drawn

    def _units(self, widths: Tensor) -> Tensor:
        """Mark the units that members have, (A, 1, W)."""
        return (torch.arange(self.width, device=widths.device) < widths[:, None]).float()[:, None]


class ShapedClassifiers(Classifiers):
    """A population of networks of several shapes.

    A configuration holds lr, weight_decay, label_smoothing and dropout, and may hold width and depth.
    """

    def __init__(
        self,
        seeds: Sequence[int],
        images: Images,
        settings: Settings = STANDARD,
        device: str | torch.device = "cpu",
        splits: Sequence[int] | None = None,
    ):
        self.settings = settings
        self.network = Shaped(images.side**2, *settings.largest)
        super().__init__(seeds, images, settings.task, settings.epochs, [*self.network.shapes], device, splits)
        self._distilling_epoch = Replayed(self._learn_epoch_from_parents, stream_on(self.device))

    def _fresh(self, keys: Tensor) -> dict[str, Tensor]:
        """Return nothing: weights are drawn when the architecture is known, at the first interval."""
        return {}

    def _rows(self) -> dict[str, Tensor]:
        """Return the learnt tensors by name; a width of 0 says that a member has no weights yet."""
        return {**super()._rows(), "width": self._width, "depth": self._depth}

    def _make_buffers(self, members: int) -> None:
        """Allocate the buffers that the graph reads; their addresses must not change."""

        def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(members, *shape, dtype=dtype, device=self.device)

        self._width, self._depth = zeros(dtype=torch.int64), zeros(dtype=torch.int64)
        self._smoothing, self._dropout = zeros(1, 1), zeros(1, 1)
        self._drops = zeros(self.task.training, self.network.width)
        self._parents = zeros(self.layout.size)
        self._parent_width, self._parent_depth = zeros(dtype=torch.int64), zeros(dtype=torch.int64)
        self._learns = zeros(1, 1, dtype=torch.bool)
        """Whether a member learns from its parent at the beginning of the interval, (A, 1, 1)."""
        self._distils = False

    def train(self, configs: Sequence[Mapping[str, Any]]) -> list[Outcome]:
        """Train every member for an interval, as `Classifiers.train`; steps include those of distillation."""
        outcomes = super().train(configs)
        per_epoch = self.task.training
        epochs = [self.settings.distilled * learns for learns in self._learns.flatten().tolist()]
        return [
            Outcome(outcome.score, outcome.steps, {"distilled_steps": count * per_epoch})
            for outcome, count in zip(outcomes, epochs, strict=True)
        ]

    def applied(self) -> list[dict[str, Any]]:
        """Return the hyperparameters of the last interval, read from where they are used."""
        own = {
            "lr": self.optimizer.settings["lr"],
            "weight_decay": self.optimizer.settings["weight_decay"],
            "label_smoothing": self._smoothing,
            "dropout": self._dropout,
            **dict(zip(("width", "depth"), self._shape(self._width, self._depth), strict=True)),
        }
        values = {name: tensor.flatten().tolist() for name, tensor in own.items()}
        return [{name: each[i] for name, each in values.items()} for i in range(len(self.flat))]

    @torch.no_grad()
    def _configure(self, configs: Sequence[Mapping[str, Any]]) -> None:
        """Write the hyperparameters of an interval; give new weights to members whose architecture changes."""
        for config in configs:
            for name, largest in zip(USUAL, self.settings.largest, strict=True):
                if not 1 <= config.get(name, USUAL[name]) <= largest:
                    raise ArgumentError(f"{name} must be from 1 to {largest}, got {config[name]!r}")
        self.optimizer.configure([{**config, "optimizer": "adam"} for config in configs])
        for buffer, name in ((self._smoothing, "label_smoothing"), (self._dropout, "dropout")):
            buffer.copy_(torch.tensor([[[float(config[name])]] for config in configs]))
        width, depth = (
            torch.tensor([int(config.get(name, USUAL[name])) for config in configs], device=self.device)
            for name in ("width", "depth")
        )
        begins = self._width == 0
        changes = begins | (self._width != width) | (self._depth != depth)
        if self.settings.change == "inherit":
            changes = begins
        self._learns.copy_((changes & ~begins & (self.settings.change in ("distil", "again")))[:, None, None])
        self._distils = bool(self._learns.any())
        if self._distils:
            self._parents.copy_(self.flat)
            self._parent_width.copy_(self._width)
            self._parent_depth.copy_(self._depth)
        self._begin(changes.nonzero().flatten(), width, depth)

    def _begin(self, rows: Tensor, width: Tensor, depth: Tensor) -> None:
        """Give members at these indices a new architecture with new weights, and an optimizer without moments."""
        if not len(rows):
            return
        self._width[rows], self._depth[rows] = width[rows], depth[rows]
        labels = [label[rows] for label in self._labels]
        streams = Streams(derive_keys(self._keys[rows], self._trained[rows], *labels)).fork(_NEW_WEIGHTS)
        self.flat[rows] = self.layout.flatten(self.network.draw(streams, self._shape(width[rows], depth[rows])[0]))
        for name, tensor in self.optimizer.state.items():
            if name != "kind":
                tensor[rows] = 0

    def _shape(self, width: Tensor, depth: Tensor) -> tuple[Tensor, Tensor]:
        """Return the widths and depths of the networks of members that were asked to have these."""
        if self.settings.change == "again":
            return torch.full_like(width, USUAL["width"]), torch.full_like(depth, USUAL["depth"])
        return width, depth

    def _draw(self, streams: Streams) -> None:
        """Draw the units that are dropped."""
        self._drops.copy_(streams.uniform(*self._drops.shape[1:]))

    def _run_epoch(self, epoch: int) -> None:
        """Train for one epoch of the interval; the first ones teach children what their parents know."""
        if self._distils and epoch < self.settings.distilled:
            self._distilling_epoch()
        else:
            self._epoch()

    def _shown(self) -> tuple[Tensor, Tensor]:
        """Return the images of an epoch, and their smoothed labels."""
        return centred(self._seen()), (1 - self._smoothing) * self._wanted() + self._smoothing / CLASSES

    def _learn_epoch_from_parents(self) -> None:
        """Go once through the images; children of another architecture learn their parents' probabilities."""
        pixels, labels = self._shown()
        with torch.no_grad():
            parents = self.layout.views(self._parents)
            known = softmax(self.network(parents, pixels, *self._shape(self._parent_width, self._parent_depth)), -1)
        self._learn(pixels, torch.where(self._learns, known, labels))

    def _outputs(self, pixels: Tensor, chunk: int | None = None, members: Sequence[int] | None = None) -> Tensor:
        """Compute logits; units of the last hidden layer are dropped in training."""
        if members is not None:
            chosen = list(members)
            weights = [each[chosen] for each in self.weights]
            return self.network(weights, pixels, *self._shape(self._width[chosen], self._depth[chosen]))
        assert chunk is not None
        kept = (self._drops.chunk(CHUNKS, dim=1)[chunk] >= self._dropout) / (1 - self._dropout)
        return self.network(self.weights, pixels, *self._shape(self._width, self._depth), kept)
