"""Search space, first draws and number of trials, from Ray Tune's own generator of trials.

Values that it draws for each trial and that are not tuned are copied along with weights, as in Ray.
"""

import sys
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

import numpy as np
from ray.tune.impl.placeholder import resolve_placeholders
from ray.tune.search import BasicVariantGenerator, sample
from ray.tune.search.variant_generator import generate_variants

from popbandits.errors import ArgumentError
from popbandits.history import Observation
from popbandits.ray.domains import FUNCTION, is_placeholder
from popbandits.ray.intervals import Result
from popbandits.ray.nested import is_grid, leaves
from popbandits.ray.trials import unwrapped
from popbandits.space import Space
from popbandits.space.build import put


def is_open(value: Any) -> bool:
    """Tell whether a value of a `param_space` is one of Tune's distributions."""
    return isinstance(value, sample.Domain) and not isinstance(value, sample.Function)


def is_drawn(value: Any) -> bool:
    """Tell whether Tune draws a value for each trial without bounds: sample_from, grid_search, randn."""
    if is_open(value):
        sampler = value.get_sampler()
        return isinstance(getattr(sampler, "sampler", sampler), sample.Normal)
    return is_grid(value) or isinstance(value, sample.Function) or (is_placeholder(value) and value[0] == FUNCTION)


def of_generator(generator: Any) -> dict[str, Any]:
    """Return the `param_space` that Tune's own generator of trials draws from."""
    # Schedulers get no search space; the generator holds the specification as it was written.
    specifications = [iterator.unresolved_spec for iterator in getattr(generator, "_iterators", [])]
    return dict(specifications[0].get("config", {})) if specifications else {}


def draw(param_space: Mapping[str, Any], tune_controller: Any, size: int, seed: int) -> list[dict[str, Any]]:
    """Draw `size` configurations as Tune does; a grid is followed in its order."""
    rng = np.random.default_rng(seed)
    drawn: list[dict[str, Any]] = []
    resolvers = getattr(unwrapped(tune_controller), "_placeholder_resolvers", None)
    while len(drawn) < size:
        variants = generate_variants({"config": dict(param_space)}, random_state=rng)
        for _, specification in islice(variants, size - len(drawn)):
            if resolvers:
                resolve_placeholders(specification["config"], resolvers)
            drawn.append(specification["config"])
    return drawn


def population_size(generator: Any, name: str) -> int:
    """Return the number of trials."""
    if not isinstance(generator, BasicVariantGenerator):
        raise ArgumentError(f"{name} chooses every configuration itself, got search_alg={generator!r}; drop it")
    size, together = generator.total_samples, generator.max_concurrent
    if size >= sys.maxsize:
        raise ArgumentError(f"num_samples must be the size of the population, got -1 for {name}")
    if 0 < together < size:
        raise ArgumentError(
            f"all {size} trials of {name} are trained in turns, got max_concurrent_trials={together}; drop it: "
            "trials wait for resources by themselves"
        )
    return int(size)


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
            put(values, tuple(name.removeprefix(CONFIG).split("/")), metrics[name])
    return values


def _is_plain(value: Any) -> bool:
    """Tell whether a record returns the value as it was."""
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, SCALARS)
