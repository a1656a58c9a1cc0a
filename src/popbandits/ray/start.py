"""The search space of an experiment, from the scheduler's arguments and `param_space`, and its first configurations."""

import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

from popbandits.errors import SpaceError
from popbandits.explorers import Explorer, Proposal
from popbandits.population import Population
from popbandits.population.start import Start, follow, resolve
from popbandits.ray.merge import Search, merge
from popbandits.ray.nested import Path
from popbandits.ray.space import draw, of_generator
from popbandits.ray.wanted import Wanted
from popbandits.space import Space

ORIGIN = {"start": "param_space"}
"""Origin of a first configuration, as it is recorded."""


def find_search(
    wanted: tuple[str, Mapping[Path, Wanted]],
    tune_controller: Any,
    explorer: Explorer,
    size: int,
    seed: int,
    start: Start,
    rounds: int | None,
) -> tuple[Space, Start]:
    """Return the search space and the first configurations; remarks are given as warnings.

    Args:
        wanted: Name of the scheduler's argument, and the values that it asks to explore.
        tune_controller: Tune's controller, whose generator has the `param_space`.
        explorer: Explorer of the run.
        size: Number of members.
        seed: Seed of the draws.
        start: Configurations of the first members; the others follow `param_space`.
        rounds: Number of rounds, for schedules in the start; None if unknown.
    """
    param_space = of_generator(tune_controller.search_alg)
    search = merge(*wanted, param_space, partial(draw, param_space, tune_controller, size, seed))
    if not search.parts:
        raise SpaceError(
            f"param_space must leave something open, got {param_space!r}; use tune.uniform, tune.choice, ... "
            "in it, or give the scheduler a space"
        )
    for remark in search.remarks:
        warnings.warn(remark, stacklevel=2)
    space, start = follow(search.space, start, rounds)
    given = resolve(start, space, size)
    return space, [*given, *_first(search, explorer, size, seed)[len(given) :]]


def _first(search: Search, explorer: Explorer, size: int, seed: int) -> list[Proposal]:
    """Return the first configurations, if `param_space` restricts them; else an empty list.

    They are the population's own, spread over the first values, with Tune's draws and constants put in.
    """
    begins = search.begins
    if begins is None:
        return []
    assignments = Population(begins, explorer, size=size, rounds=None, seed=seed).ask()
    configs = [begins.flatten(assignment.config) for assignment in assignments]
    for path, part in search.parts.items():
        for member, value in part.first.items():
            configs[member][".".join(path)] = value
    return [Proposal(begins.nest(config), ORIGIN) for config in configs]
