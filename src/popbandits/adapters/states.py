"""States that training continues from: modules, optimizers, schedules, generators, arrays and plain values."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from popbandits.adapters import optimizers
from popbandits.errors import AgentError

_ARRAY_KEY = "numpy array"


def state_of(name: str, thing: Any) -> Any:
    """Return the state of an object in values that `torch.load(weights_only=True)` reads.

    >>> state_of("steps", 3)
    3

    Args:
        name: Name of the object, for an error.
        thing: Anything with a state_dict, a generator of PyTorch or NumPy, or plain values.
    """
    if isinstance(thing, Optimizer):
        return {"class": type(thing).__name__, "state": thing.state_dict()}
    if _has_state_dict(thing):
        return thing.state_dict()
    if isinstance(thing, torch.Generator):
        return thing.get_state()
    if isinstance(thing, np.random.Generator):
        return _plain(name, dict(thing.bit_generator.state))
    return _plain(name, thing)


def restore(thing: Any, state: Any) -> Any:
    """Load the state that `state_of` returned into an object, and return it; return plain values as saved.

    Tensors that are trained keep their identity: an optimizer holds them.
    """
    if isinstance(thing, Optimizer):
        if state["class"] == type(thing).__name__:  # Moments of one class mean nothing to another.
            own = optimizers.options(thing)
            thing.load_state_dict(state["state"])
            optimizers.put_back(thing, own)
    elif isinstance(thing, LRScheduler):
        thing.load_state_dict(state)
        optimizers.put_back_rates(thing)
    elif _has_state_dict(thing):
        thing.load_state_dict(state)
    elif isinstance(thing, torch.Generator):
        thing.set_state(state)
    elif isinstance(thing, np.random.Generator):
        thing.bit_generator.state = _unplain(state)
    else:
        return _unplain(state, thing)
    return thing


def restore_all(things: Mapping[str, Any], states: Mapping[str, Any]) -> dict[str, Any]:
    """Restore objects by name, schedules after the optimizers that they read."""
    if things.keys() != states.keys():
        raise AgentError(
            f"a checkpoint must hold what the agent keeps, got {sorted(states)} where it keeps {sorted(things)}"
        )
    order = sorted(things, key=lambda name: isinstance(things[name], LRScheduler))
    return {name: restore(things[name], states[name]) for name in order}


def _has_state_dict(thing: Any) -> bool:
    return callable(getattr(thing, "state_dict", None)) and callable(getattr(thing, "load_state_dict", None))


def _plain(name: str, value: Any) -> Any:
    """Turn arrays into tensors, and check that all else is plain."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, torch.Tensor) or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return {_ARRAY_KEY: torch.from_numpy(value.copy())}
    if type(value) in (list, tuple):
        return type(value)(_plain(name, each) for each in value)
    if type(value) is dict:
        return {key: _plain(name, each) for key, each in value.items()}
    raise AgentError(
        f"{name!r}: what is kept must have a state_dict, or be a generator, a tensor, an array or plain values, got "
        f"{type(value).__name__}; build it again in every interval"
    )


def _unplain(value: Any, thing: Any = None) -> Any:
    """Return plain values as saved; copy tensors into those of `thing` that are trained."""
    if type(value) in (list, tuple):
        things = thing if type(thing) in (list, tuple) and len(thing) == len(value) else [None] * len(value)
        return type(value)(map(_unplain, value, things))
    if type(value) is dict:
        things = thing if type(thing) is dict else {}
        whole = {key: _unplain(each, things.get(key)) for key, each in value.items()}
        return value[_ARRAY_KEY].numpy() if value.keys() == {_ARRAY_KEY} else whole
    if _is_trained(thing) and isinstance(value, torch.Tensor) and value.shape == thing.shape:
        with torch.no_grad():
            return thing.copy_(value)
    return value


def _is_trained(thing: Any) -> bool:
    return isinstance(thing, torch.Tensor) and thing.is_leaf and thing.requires_grad
