"""The search of an experiment, from what the scheduler and `param_space` say, and its first configurations."""

import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

from popbandits.errors import SpaceError
from popbandits.explorers import Explorer, Proposal
from popbandits.population import Population
from popbandits.population.start import Start, resolve
from popbandits.ray.merge import Search, merge
from popbandits.ray.nested import Path
from popbandits.ray.space import draw, of_generator
from popbandits.ray.wanted import Wanted
from popbandits.space import Space

ORIGIN = {"start": "param_space"}
"""Where a first configuration comes from, as its record says it."""


def find_search(
    wanted: tuple[str, Mapping[Path, Wanted]],
    tune_controller: Any,
    explorer: Explorer,
    size: int,
    seed: int,
    start: Start,
) -> tuple[Space, Start]:
    """Return what is tuned and what members begin with, and say what is to be said about it.

    Args:
        wanted: What the scheduler is asked to explore, after the name of the argument that says so.
        tune_controller: Tune's, whose generator has the `param_space`.
        explorer: Who explores.
        size: Number of members.
        seed: Seed of what is drawn.
        start: What the first members are to begin with; the others begin as `param_space` does.
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
    given = resolve(start, search.space, size)
    return search.space, [*given, *_first(search, explorer, size, seed)[len(given) :]]


def _first(search: Search, explorer: Explorer, size: int, seed: int) -> list[Proposal]:
    """Return what members begin with, where `param_space` says more than what is explored; else nothing.

    They are the population's own, spread over where the search begins, with Tune's draws and constants put in.
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
