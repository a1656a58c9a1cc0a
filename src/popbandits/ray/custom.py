"""Ray's `custom_explore_fn`: a user's function that may change a configuration that a method chose."""

import copy
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from popbandits.basics.rules import is_real
from popbandits.errors import ArgumentError, SpaceError
from popbandits.explorers.explorer import Configs, Explorer, Parents, Proposal
from popbandits.history import Config, History
from popbandits.ray.nested import find, leaves
from popbandits.ray.space import is_drawn, is_open
from popbandits.space import Numerical, Prior, Space
from popbandits.space.build import put, unbox

Function = Callable[[dict[str, Any]], dict[str, Any]]


class CustomExplorer(Explorer):
    """Explores with a method, then lets a function change the result, which is trained and recorded.

    Args:
        method: The method that explores.
        function: Function that takes a configuration, tuned values and constants together, and returns it.
        fixed: The constants, nested as in `param_space`.
    """

    def __init__(self, method: Explorer, function: Function, fixed: Mapping[str, Any]):
        self.method, self.function, self.fixed = method, function, fixed
        self.exploits, self.restarts = method.exploits, method.restarts
        self.selection = method.selection

    def make_prior(self, space: Space, start: Configs) -> Prior | None:
        """Return the method's prior."""
        return self.method.make_prior(space, start)

    def explore_round(
        self, space: Space, history: History, pending: Configs, parents: Parents, rng: np.random.Generator
    ) -> list[Proposal]:
        """Choose configurations with the method, then let the function change them."""
        chosen = self.method.explore_round(space, history, pending, parents, rng)
        return [replace(proposal, config=self._change(space, proposal.config)) for proposal in chosen]

    def _change(self, space: Space, config: Config) -> Config:
        whole = copy.deepcopy(dict(self.fixed))
        for path, value in leaves(space.nest(space.flatten(config))):
            put(whole, path, value)
        before = dict(leaves(copy.deepcopy(whole)))
        changed = self.function(whole)
        if not isinstance(changed, Mapping):
            raise ArgumentError(f"custom_explore_fn must return a configuration, a dict, got {changed!r}")
        after = dict(leaves(changed))
        tuned = {path: unbox(value) for path, value in after.items() if ".".join(path) in space.names}
        for path in before.keys() | after.keys():
            if path not in tuned and (path not in after or path not in before or after[path] != before[path]):
                raise ArgumentError(
                    f"custom_explore_fn may change what is tuned, {', '.join(space.names)}, and nothing else, but it "
                    f"changed {'.'.join(path)!r}; compute that in the trainable"
                )
        flat = {".".join(path): value for path, value in tuned.items()}
        for number in space.numerical:
            if is_real(flat.get(number.name)) and number.kind != "ordinal":
                flat[number.name] = _within(number, flat[number.name])
        try:
            return space.nest(space.check(flat))
        except SpaceError as error:
            raise SpaceError(f"custom_explore_fn must return a configuration of the space: {error}") from error


def _within(number: Numerical, value: float) -> float:
    """Return the nearest value in the range; warn if a value is outside."""
    nearest = number.nearest(value)
    if not number.lower <= value <= number.upper:
        warnings.warn(
            f"{number.name!r}: custom_explore_fn must stay in [{number.lower:g}, {number.upper:g}], got {value!r}; "
            f"{nearest:g} is taken",
            stacklevel=4,
        )
    return nearest


def shared_constants(config: Mapping[str, Any], param_space: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Return the constants of a `param_space`, which all trials share, with the values that a trial has."""
    shared: dict[str, Any] = {}
    for path, value in leaves(param_space):
        if not (is_open(value) or is_drawn(value) or ".".join(path) in space.names):
            put(shared, path, copy.deepcopy(find(config, path)))
    return shared
