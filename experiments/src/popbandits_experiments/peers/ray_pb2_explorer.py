"""Ray Tune's PB2 as an explorer: Ray's own code chooses floats, everything else is copied from the parent.

Ray's PB2 takes continuous bounds only, on a linear scale. So labels, ordinals and integers are copied with the weights
and never explored, and a learning rate between 1e-5 and 0.1 is searched on a linear scale.

Ray's scheduler keeps a table, to which we add nothing and from which we leave out only failed intervals: it has
a row for each interval, and one for each new configuration, with the score of the weights that it starts from. As
there is none for the first configurations, the first round teaches it nothing, and the first replacements copy their
parent's numbers too. An inactive parameter has its default in the table.

Its model is scikit-learn's, with noise fixed at 1e-10. From 200 observations on, one is fitted to the last 200, 210,
220, ... of them to choose how many to keep (Ray 2.60): 2 fits for 200 observations, 82 for 1,000.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
import pandas as pd
from ray.tune.schedulers import pb2
from sklearn import gaussian_process as _  # noqa: F401 (without it Ray imports its PB2, which then fails)

from popbandits.explorers.explorer import Explorer, Proposal
from popbandits.explorers.surrogate import one_blas_thread
from popbandits.history import Config, History, Observation
from popbandits.space import Points, Space
from popbandits.space.drawing import complete_point, draw_config


@dataclass(frozen=True)
class RayPB2(Explorer):
    """Decide like `ray.tune.schedulers.pb2.PB2` for trials that copy others."""

    def explore_round(
        self,
        space: Space,
        history: History,
        pending: Sequence[Config],
        parents: Sequence[Observation | None],
        rng: np.random.Generator,
    ) -> list[Proposal]:
        """Ask Ray for the numbers of one member after another; like its scheduler, it knows of those before."""
        numbers = _Numbers(space)
        table, current = _table(numbers, history), None
        proposals = []
        with _seeded(rng), one_blas_thread():
            for place, parent in enumerate(parents):
                if parent is None:  # Ray would have ended the trial.
                    proposals.append(Proposal(draw_config(space, rng)))
                    continue
                new, decision = numbers.of(parent.config), {}
                # The child's row matters from the next round on, whose table is built again: any name will do.
                trials = f"trial_{parent.member}", f"child_{place}"
                try:
                    if numbers.bounds:
                        new, table = pb2._explore(table, numbers.bounds, current, *trials, new)
                except (ValueError, np.linalg.LinAlgError) as error:  # Ray's experiment would have ended.
                    decision = {"fallback": str(error)}
                row = np.array([[new[name] for name in numbers.bounds]])
                current = row if current is None else np.concatenate([current, row])
                proposals.append(Proposal(numbers.put_into(parent.config, new, rng), decision))
        return proposals


class _Numbers:
    """The floats of a space, as Ray sees them."""

    def __init__(self, space: Space):
        self.space = space
        self._columns = {p.name: j for j, p in enumerate(space.numerical) if p.kind == "float"}
        floats = [space.numerical[j] for j in self._columns.values()]
        self.bounds = {p.name: (p.lower, p.upper) for p in floats}
        self._defaults = {p.name: float(space.configuration_space[p.name].default_value) for p in floats}

    def of(self, config: Config) -> dict[str, float]:
        """Return the floats of a configuration; inactive ones have their default."""
        flat = self.space.flatten(config)
        return {name: float(flat.get(name, default)) for name, default in self._defaults.items()}

    def put_into(self, config: Config, new: dict[str, float], rng: np.random.Generator) -> Config:
        """Return the configuration with new floats where they are active; unchanged if that is forbidden."""
        points = self.space.encode([config])
        values = self.space.codes(points.x)
        for name, column in self._columns.items():
            values[0, column] = new[name]
        point = complete_point(self.space, Points(self.space.unit(values), points.h), rng)
        if point is None:
            return config
        flat = self.space.flatten(self.space.decode(point)[0])
        # To the last digit, within bounds that Ray's rounding to 32 bits may leave.
        exact = {name: min(max(new[name], low), high) for name, (low, high) in self.bounds.items() if name in flat}
        return self.space.nest(flat | exact)


def _table(numbers: _Numbers, history: History) -> pd.DataFrame:
    """Write a history as Ray's scheduler logs it: for each time the intervals that end, then those that start."""
    ends: list[list[Any]] = []
    beginnings: list[list[Any]] = []
    for observation in history:
        if observation.failed:  # Its trial would have reported nothing.
            continue
        trial, values = f"trial_{observation.member}", numbers.of(observation.config)
        ends.append([trial, float(observation.round + 1), *values.values(), history.sign * observation.score])
        parent = history.find(observation.parent) if observation.parent else None
        # Where it has nothing to learn from, Ray copies the numbers and logs no row.
        if parent is not None and numbers.of(parent.config) != values:
            beginnings.append([trial, float(parent.round + 1), *values.values(), history.sign * parent.score])
    rows = sorted(ends + beginnings, key=lambda row: row[1])
    return pd.DataFrame(rows, columns=["Trial", "Time", *numbers.bounds, "Reward"])


@contextmanager
def _seeded(rng: np.random.Generator) -> Iterator[None]:
    """Let Ray, which draws from numpy's global generator, depend on `rng` and leave no trace; hide its warnings."""
    before = np.random.get_state()  # noqa: NPY002
    np.random.seed(rng.integers(2**32))  # noqa: NPY002
    try:
        with catch_warnings():
            simplefilter("ignore")  # Its variance ends at a bound, and SciPy deprecates what it passes.
            yield
    finally:
        np.random.set_state(before)  # noqa: NPY002
