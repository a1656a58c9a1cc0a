"""The part that all trackers share: what an observation comes to in numbers and texts, and what is still to write."""

import math
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from popbandits.basics.rules import is_real
from popbandits.history import Observation
from popbandits.history.frame import flat, text
from popbandits.population import Population
from popbandits.storage.disk import write_whole
from popbandits.views.view import View

ID_FILE = "tracking-id"
"""File in a run's folder: the id that its runs in trackers have, or begin with."""


@dataclass(frozen=True)
class Entry:
    """Hold an observation as trackers show it.

    Args:
        observation: What came of the interval.
        index: Its index in the history.
        numbers: Finite numbers by name: "score", "steps" and "seconds" (sums over the member's intervals),
            "metrics/...", "hyperparameters/..." (of labels that are no numbers, the index among the choices),
            "lineage/parent_member" and "lineage/parent_round" (none for a fresh start).
        texts: Texts by name: "status", "lineage/parent", labels as "hyperparameters/...", and "metrics/..." that are
            no numbers.
    """

    observation: Observation
    index: int
    numbers: Mapping[str, float]
    texts: Mapping[str, str]

    @property
    def member(self) -> int:
        """The member that trained."""
        return self.observation.member

    @property
    def round(self) -> int:
        """The round of the member."""
        return self.observation.round


class Tracker(View, ABC):
    """Write every observation of a run somewhere, once. Extend it with `begin` and `write` for a tracker of your own.

    Args:
        per_member: Whether each member has a run of its own in the tracker. Default False: one run for the population,
            with the member in the names.
    """

    def __init__(self, per_member: bool = False):
        self.per_member = per_member

    @abstractmethod
    def begin(self, population: Population, directory: Path) -> Mapping[int, int]:
        """Open the tracker's run, made now or earlier; return how many rounds of each member it has already.

        Args:
            population: The population that decides; not to be changed.
            directory: Folder of the run.
        """

    @abstractmethod
    def write(self, entry: Entry) -> None:
        """Write an observation.

        Args:
            entry: The observation, in numbers and texts.
        """

    def opened(self, population: Population, directory: Path) -> None:
        """Write what the tracker has not yet, of a run that is resumed."""
        self._space, self._history = population.space, population.history
        # The index of each label, by hyperparameter; the steps and seconds of each member so far.
        self._labels = {
            f"hyperparameters/{each.name}": {text(label): float(i) for i, label in enumerate(each.labels)}
            for each in self._space.categorical
        }
        self._spent: dict[tuple[str, int], float] = {}
        written = self.begin(population, directory)
        for index, observation in enumerate(population.history):
            entry = self._enter(observation, index)
            if observation.round >= written.get(observation.member, 0):
                self.write(entry)

    def told(self, observation: Observation) -> None:
        """Write it."""
        self.write(self._enter(observation, len(self._history) - 1))

    def _enter(self, o: Observation, index: int) -> Entry:
        values: dict[str, Any] = {"score": o.score}
        for name, cost in (("steps", o.steps), ("seconds", o.seconds)):
            if cost is not None:
                values[name] = self._spent[name, o.member] = self._spent.get((name, o.member), 0) + cost
        values |= flat(o.metrics, "metrics/")
        config = self._space.flatten(self._space.applied(o.config, o.round))
        values |= {f"hyperparameters/{name}": value for name, value in config.items()}
        texts = {"status": str(o.status)}
        if o.parent is not None:
            values |= {"lineage/parent_member": o.parent[0], "lineage/parent_round": o.parent[1]}
            texts["lineage/parent"] = f"member {o.parent[0]}, round {o.parent[1]}"
        numbers: dict[str, float] = {}
        for name, value in values.items():
            if isinstance(value, bool) or is_real(value):
                if math.isfinite(value):
                    numbers[name] = float(value)
                continue
            texts[name] = text(value)
            if texts[name] in (indices := self._labels.get(name, {})):
                numbers[name] = indices[texts[name]]
        return Entry(o, index, numbers, texts)


def tracking_id(directory: Path) -> str:
    """Return the id of a run in trackers; it is kept in the run's folder, so that a resumed run has the same.

    Args:
        directory: Folder of the run.
    """
    file = directory / ID_FILE
    if not file.exists():
        write_whole(file, uuid.uuid4().hex[:16].encode())
    return file.read_text()


def prefix(entry: Entry, per_member: bool) -> str:
    """Return what begins the names of an entry: its member, unless each member has a run of its own."""
    return "" if per_member else f"member_{entry.member}/"


def describe(population: Population) -> dict[str, Any]:
    """Return what a tracker says of the whole run."""
    method = type(getattr(population.method, "plain", population.method)).__name__
    return {"method": method, "members": population.size, "mode": population.history.mode, "seed": population.seed}
