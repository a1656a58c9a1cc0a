"""Results on images as JSON lines, one for each run. Lines are only appended; a kill loses the one in progress."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from popbandits_experiments.ground.statistics import Estimate, FloatArray, estimate, mean
from popbandits_experiments.ground.tables import UNKNOWN, with_interval
from popbandits_experiments.json_lines import append_lines, read_lines


class Key(NamedTuple):
    """Identity of a run."""

    images: str
    method: str
    arm: str
    seed: int


@dataclass(frozen=True)
class Result:
    """Outcome of one run. Runs of one seed have the same split of the images."""

    images: str
    method: str
    arm: str
    seed: int
    budget: int
    """Passes of each member, and of each network that is trained along a schedule, over the training images."""
    epochs: int
    """Passes over the training images that the network which is tested has had, its ancestors included."""
    score: float
    """Last accuracy on the validation images, in percent."""
    final: float
    """Accuracy on the test images, in percent."""
    device: str
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        """Identity of the run."""
        return Key(self.images, self.method, self.arm, self.seed)


def append(results: Iterable[Result], folder: Path) -> None:
    """Append results to the files of their images."""
    by_images: dict[str, list[dict[str, Any]]] = {}
    for result in results:
        by_images.setdefault(result.images, []).append(asdict(result))
    for images, rows in by_images.items():
        append_lines(folder / f"{images}.jsonl", rows)


def read(folder: Path) -> dict[Key, Result]:
    """Return every result of a folder; none if there is no folder."""
    return read_lines(folder, Result, "run")


Row = tuple[str, str]
"""Method and arm."""


@dataclass(frozen=True)
class Compared:
    """The runs of one set of images, with the seeds that every row has."""

    images: str
    rows: Sequence[Row]
    seeds: Sequence[int]
    results: dict[Key, Result]

    @staticmethod
    def among(results: dict[Key, Result], images: str) -> "Compared":
        """Take the rows of a set of images, in the order in which they were stored."""
        own = [key for key in results if key.images == images]
        rows = list(dict.fromkeys((key.method, key.arm) for key in own))
        seeds = sorted({key.seed for key in own})
        common = [seed for seed in seeds if all(Key(images, *row, seed) in results for row in rows)]
        return Compared(images, rows, common, results)

    def of(self, row: Row) -> list[Result]:
        """Return the results of a row, seed by seed."""
        return [self.results[Key(self.images, *row, seed)] for seed in self.seeds]

    def finals(self, row: Row) -> FloatArray:
        """Return the test accuracies of a row, seed by seed."""
        return np.array([result.final for result in self.of(row)])

    def level(self, row: Row) -> Estimate:
        """Return the mean test accuracy of a row."""
        return estimate(mean, [self.finals(row)])

    def difference(self, row: Row, other: Row) -> Estimate:
        """Return the mean difference of two rows on the same seeds."""
        return estimate(mean, [self.finals(row) - self.finals(other)])

    def write_difference(self, row: Row, other: Row) -> str:
        """Write the mean difference of two rows with its interval."""
        return UNKNOWN if row == other else with_interval(self.difference(row, other), "{:+.2f}".format)
