"""Classifiers of small images for a whole population in one program: what does not depend on what is tuned.

As in `ground/digits.py`, every member has its own network and optimizer, an epoch is one CUDA graph on a GPU, and
members are independent. Here each may have its own split of the images too, so that a figure is not that of one split.

| symbol | meaning |
|---|---|
| A | members |
| n | training images of a member |
| P | pixels |
| C | steps of the optimizer in an epoch |
"""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, one_hot

from popbandits.agent import Outcome
from popbandits.errors import ArgumentError
from popbandits.rl.threads import use_one_thread
from popbandits_experiments.batched.members import MemberRows
from popbandits_experiments.batched.networks import FlatWeights
from popbandits_experiments.batched.optimizers import BatchedOptimizer
from popbandits_experiments.batched.random import Streams
from popbandits_experiments.cuda_graphs import Replayed, stream_on
from popbandits_experiments.ground.digits_data import CLASSES
from popbandits_experiments.images.sets import Images, Task, split

CHUNKS = 16
"""Minibatches of an epoch: C."""


class Classifiers(MemberRows):
    """A population of classifiers, as a batched agent; a subclass has the network, and what is tuned."""

    def __init__(
        self,
        seeds: Sequence[int],
        images: Images,
        task: Task,
        epochs: int,
        shapes: list[tuple[int, ...]],
        device: str | torch.device = "cpu",
        splits: Sequence[int] | None = None,
    ):
        """`epochs`: per interval. `splits`: the seed of each member's split; without it, all have that of seed 0."""
        if task.training % CHUNKS:
            raise ArgumentError(f"training must be a multiple of {CHUNKS}, got {task.training}")
        members = len(seeds)
        super().__init__(members, device)
        self.images, self.task, self.epochs = images, task, epochs
        own = list(splits) if splits is not None else [0] * members
        different = list(dict.fromkeys(own))
        self.parts = split(images, task, different)
        self._split = torch.tensor([different.index(one) for one in own], device=self.device)
        """Index of each member's split, (A,)."""
        self._pixels = images.pixels.to(self.device)
        self._labels_of = images.labels.to(self.device)
        self._rows_of = {name: getattr(self.parts, name).to(self.device) for name in ("training", "validation", "test")}
        self._truth = one_hot(self.parts.labels, CLASSES).float().to(self.device)  # (splits, n, 10)
        self.layout = FlatWeights(shapes)
        self.flat = torch.zeros(members, self.layout.size, device=self.device)
        self.weights = [view.requires_grad_() for view in self.layout.views(self.flat)]
        """Views of `flat`; gradients are taken with respect to these."""
        self.optimizer = BatchedOptimizer(self.flat)
        self._order = torch.zeros(members, task.training, dtype=torch.int64, device=self.device)
        self._always = torch.ones(members, 1, dtype=torch.bool, device=self.device)
        self._make_buffers(members)
        self._epoch = Replayed(self._learn_epoch, stream_on(self.device))
        self._start(range(members), seeds)

    @abstractmethod
    def _make_buffers(self, members: int) -> None:
        """Allocate the buffers that the graph reads; their addresses must not change."""

    @abstractmethod
    def _configure(self, configs: Sequence[Mapping[str, Any]]) -> None:
        """Write the hyperparameters of an interval to the buffers that the graph reads."""

    @abstractmethod
    def _draw(self, streams: Streams) -> None:
        """Draw the random numbers of an epoch, besides the order of the images."""

    @abstractmethod
    def _shown(self) -> tuple[Tensor, Tensor]:
        """Return the images of an epoch, (A, n, P), and the wanted probabilities, (A, n, 10), in their order."""

    @abstractmethod
    def _outputs(self, pixels: Tensor, chunk: int | None = None, members: Sequence[int] | None = None) -> Tensor:
        """Compute logits, (A, B, 10); in training of a chunk of the epoch, else of some members without dropout."""

    def _rows(self) -> dict[str, Tensor]:
        """Return the learnt tensors by name, a row for each member."""
        return {"weights": self.flat, **self.optimizer.state}

    def train(self, configs: Sequence[Mapping[str, Any]]) -> list[Outcome]:
        """Train every member for an interval; a score is the accuracy on the validation images, in percent.

        It is NaN if weights diverged.
        """
        if self.device.type == "cpu":
            use_one_thread()
        torch.backends.cuda.matmul.allow_tf32 = False  # Other code in this process may have set it.
        self._configure(configs)
        streams = self._streams()
        for epoch in range(self.epochs):
            self._order.copy_(streams.uniform(self.task.training).argsort(dim=1, stable=True))
            self._draw(streams)
            self._run_epoch(epoch)
        self._trained += 1
        self._labels = ()
        scores = self._right("validation", range(len(self.flat))).mean(1).tolist()
        return [Outcome(score, self.epochs * self.task.training) for score in scores]

    def evaluate(self, members: Sequence[int], episodes: int = 0, seeds: Sequence[int] = ()) -> Tensor:
        """Classify the test images: 100 for each that a member gets right, else 0, (members, images).

        NaN if weights diverged. All images are used: `episodes` and `seeds` have no effect.
        """
        return self._right("test", members)

    def _run_epoch(self, epoch: int) -> None:
        """Train for one epoch of the interval."""
        self._epoch()

    def _seen(self) -> Tensor:
        """Return the training images in the order of the epoch, (A, n, S, S)."""
        rows = self._rows_of["training"][self._split[:, None], self._order]
        return self._pixels[rows]

    def _wanted(self) -> Tensor:
        """Return the labels of the training images in the order of the epoch, as probabilities, (A, n, 10)."""
        return self._truth[self._split[:, None], self._order]

    def _learn_epoch(self) -> None:
        """Go once through the images in the given order."""
        self._learn(*self._shown())

    def _learn(self, pixels: Tensor, probabilities: Tensor) -> None:
        """Take the steps of an epoch: images, (A, n, P), and wanted probabilities, (A, n, 10)."""
        parts = (each.chunk(CHUNKS, dim=1) for each in (pixels, probabilities))
        for chunk, (seen, wanted) in enumerate(zip(*parts, strict=True)):
            loss = -(wanted * log_softmax(self._outputs(seen, chunk), -1)).sum(-1).mean(1)
            self.optimizer.step(torch.autograd.grad(loss.sum(), self.weights), self._always)

    @torch.no_grad()
    def _right(self, part: str, members: Sequence[int]) -> Tensor:
        """Score the images of a part, (members, images): 100 or 0, NaN if weights diverged."""
        chosen = list(members)
        rows = self._rows_of[part][self._split[chosen]]
        outputs = self._outputs(centred(self._pixels[rows]), members=chosen)
        sound = self.flat[chosen].isfinite().all(1, keepdim=True)
        return torch.where(sound, 100.0 * (outputs.argmax(-1) == self._labels_of[rows]), math.nan)


def centred(images: Tensor) -> Tensor:
    """Flatten images, (A, B, S, S), to pixels between -1 and 1, (A, B, P)."""
    return images.flatten(2) * 2 - 1
