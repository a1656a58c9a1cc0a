"""Values that Tune draws for each trial and that are not tuned. As in Ray, a trial copies them along with weights."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from popbandits.history import Observation
from popbandits.ray.intervals import Result
from popbandits.ray.nested import Path, leaves, put
from popbandits.ray.space import is_drawn, is_open
from popbandits.space import Space

CONFIG = "config/"
"""Beginning of the names under which a trial's results have its configuration."""
SCALARS = (bool, int, float, str, np.generic)


def untuned(param_space: Mapping[str, Any], space: Space) -> list[str]:
    """List the names, as in results, that a `param_space` draws for each trial and a space does not have.

    >>> from ray import tune
    >>> drawn = {"lr": tune.uniform(0, 1), "net": {"depth": tune.grid_search([2, 4])}, "env": "CartPole-v1"}
    >>> untuned(drawn, Space({"lr": (0.0, 1.0)}))
    ['config/net/depth']
    """
    found = [path for path, value in leaves(param_space) if is_open(value) or is_drawn(value)]
    return [CONFIG + "/".join(path) for path in found if ".".join(path) not in space.names]


def recorded(result: Result, names: Iterable[str]) -> dict[str, Any]:
    """Return the entries of a result that are recorded: scalars, and of the configuration what is not tuned."""
    metrics = {name: v for name, v in result.items() if isinstance(v, SCALARS) and not name.startswith(CONFIG)}
    return metrics | {name: result[name] for name in names if name in result and _is_plain(result[name])}


def inherited(source: Observation | None, names: Iterable[str]) -> dict[str, Any]:
    """Return the values, nested, that an observation was trained with; only those of these names."""
    values: dict[str, Any] = {}
    metrics = {} if source is None else source.metrics
    for name in names:
        if name in metrics:
            put(values, _path(name), metrics[name])
    return values


def _is_plain(value: Any) -> bool:
    """Tell whether a record returns the value as it was."""
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, SCALARS)


def _path(name: str) -> Path:
    return tuple(name.removeprefix(CONFIG).split("/"))
