"""Hyperparameters in PyTorch's optimizers: set and read back, and kept when a checkpoint's state is loaded.

`Optimizer.load_state_dict` also loads the saved options, such as the learning rate, and the state of a learning-rate
schedule contains the rates that it multiplies. Here the options of the live optimizer apply.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from torch.optim import Optimizer

Options = list[dict[str, Any]]
"""The options of each parameter group: lr, weight_decay, ..."""

ALIASES = {"learning_rate": "lr"}
"""Hyperparameters that set an option of another name."""


def options(optimizer: Optimizer) -> Options:
    """Copy the options of an optimizer, group by group."""
    return [{name: value for name, value in group.items() if name != "params"} for group in optimizer.param_groups]


def option(group: Mapping[str, Any], name: str) -> Any:
    """Return an option of a parameter group; a learning rate without its schedule's factor."""
    return group.get("initial_lr", group["lr"]) if name == "lr" else group[name]


def put_back(optimizer: Optimizer, wanted: Options) -> None:
    """Give an optimizer its own options again after its state was loaded.

    If a schedule has changed the learning rate, its current factor applies to the new rate.
    """
    for group, own in zip(optimizer.param_groups, wanted, strict=True):
        loaded = {name: group.pop(name) for name in [*group] if name != "params"}
        group.update(own)
        if "initial_lr" in own and loaded.get("initial_lr"):
            group["lr"] = own["initial_lr"] * loaded["lr"] / loaded["initial_lr"]


def put_back_rates(scheduler: Any) -> None:
    """Let a learning-rate schedule multiply the rates of its live optimizer, after its state was loaded."""
    for inner in getattr(scheduler, "_schedulers", ()):
        put_back_rates(inner)
    groups = scheduler.optimizer.param_groups
    if hasattr(scheduler, "base_lrs"):
        scheduler.base_lrs = [option(group, "lr") for group in groups]
    if hasattr(scheduler, "_last_lr"):
        scheduler._last_lr = [group["lr"] for group in groups]


def set_options(optimizers: Mapping[str, Optimizer], config: Mapping[str, Any]) -> None:
    """Set the options that a configuration names, in every optimizer that has them.

    `{"lr": 0.1}` sets all, `{"actor": {"lr": 0.1}}` sets the optimizer named "actor".
    """
    for name, value, groups in _named_options(optimizers, config):
        for group in groups:
            if "initial_lr" in group and name == "lr":  # A schedule continues from its current factor.
                group["lr"] = value * group["lr"] / group["initial_lr"] if group["initial_lr"] else value
                group["initial_lr"] = value
            else:
                group[name] = value


def read_options(optimizers: Mapping[str, Optimizer], config: Mapping[str, Any]) -> dict[str, Any]:
    """Read back what `set_options` set; a learning rate without its schedule's factor."""
    read: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and key in optimizers:
            read[key] = read_options({key: optimizers[key]}, value)
            continue
        for name, _, groups in _named_options(optimizers, {key: value}):
            found = [option(group, name) for group in groups]
            read[key] = next((each for each in found if each != value), found[0])
    return read


def confirmed(before: Mapping[str, Any], after: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values after a resume of the hyperparameters that were as asked before it: these must be so still."""
    return {name: value for name, value in after.items() if name in before and before[name] == config[name]}


def _named_options(
    optimizers: Mapping[str, Optimizer], config: Mapping[str, Any]
) -> Iterator[tuple[str, Any, list[dict[str, Any]]]]:
    """Yield each option in a configuration: its name, its value, and the groups that have it."""
    for key, value in config.items():
        name, having = ALIASES.get(key, key), optimizers.values()
        if isinstance(value, Mapping):
            if key in optimizers:
                yield from _named_options({key: optimizers[key]}, value)
        elif groups := [group for each in having if name in each.defaults for group in each.param_groups]:
            yield name, value, groups
