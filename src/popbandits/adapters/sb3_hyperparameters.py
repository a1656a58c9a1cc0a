"""Hyperparameters of Stable-Baselines3 that can change while a model trains: set, and read back.

A model has copies of some: optimizers of the learning rate, buffers of the discount, schedules of the clip range.
Setting the attribute alone would have no effect, or only part of it.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.optim import Optimizer

from popbandits.adapters.optimizers import read_options, set_options
from popbandits.basics.extras import library
from popbandits.errors import AgentError

FIXED_ARGUMENTS = {
    *("policy", "env", "policy_kwargs", "device", "seed", "use_sde", "action_noise", "_init_setup_model"),
    *("buffer_size", "replay_buffer_class", "replay_buffer_kwargs", "optimize_memory_usage"),
    *("rollout_buffer_class", "rollout_buffer_kwargs", "use_rms_prop", "rms_prop_eps"),
    *("stats_window_size", "tensorboard_log", "verbose", "monitor_wrapper", "kwargs", "args"),
}
"""Arguments of a constructor that are fixed for a model, or do not affect learning."""

_UNTUNED_OPTIONS = {
    *("lr", "betas", "maximize", "foreach", "fused", "capturable", "differentiable", "decoupled_weight_decay")
}
"""Options of an optimizer that are not for tuning; its learning rate is the model's."""

_EXPLORATION_ATTRIBUTES = {
    "exploration_initial_eps": "start",
    "exploration_final_eps": "end",
    "exploration_fraction": "end_fraction",
}
"""Their attributes in DQN's exploration schedule."""


def changeable(model: Any) -> set[str]:
    """Name the hyperparameters that a model can change while it trains.

    They are arguments of its constructor, `optimizer` (the name of a class in torch.optim), and its options.
    """
    arguments = {
        name
        for base in type(model).__mro__[:-1]
        for name in inspect.signature(base).parameters
        if name not in FIXED_ARGUMENTS and name in vars(model)
    }
    if _is_off_policy(model):
        arguments -= {"n_steps"}  # The replay buffer was built for it.
    if getattr(model, "ent_coef_optimizer", None) is not None:
        arguments -= {"ent_coef"}  # It is learnt.
    own = {name for optimizer in _own_optimizers(model).values() for name in optimizer.defaults}
    return arguments | {"optimizer"} | own - _UNTUNED_OPTIONS


def put(model: Any, config: Mapping[str, Any]) -> None:
    """Set hyperparameters in a model, after it was loaded.

    Args:
        model: Model of any algorithm.
        config: Values by name; AgentError names those that cannot be changed.
    """
    if "optimizer" in config:
        _put_optimizer(model, config["optimizer"])
    possible = changeable(model)
    if wrong := sorted(config.keys() - possible):
        raise AgentError(
            f"{', '.join(map(repr, wrong))}: {type(model).__name__} cannot change this while it trains; "
            f"leave it out of the space, or give it to SB3Agent as an argument of {type(model).__name__}. "
            f"What can be tuned: {', '.join(sorted(possible))}"
        )
    for name, value in config.items():
        if name != "optimizer":
            _put(model, name, value)


def built_with(model: Any) -> dict[str, Any]:
    """Return the hyperparameters of a model that was just built."""
    return read(model, dict.fromkeys(changeable(model), ()))


def take_back(model: Any, names: set[str], built: Mapping[str, Any]) -> None:
    """Reset hyperparameters that are inactive in an interval to the values that the model was built with.

    Args:
        model: Model that may have been loaded.
        names: Names of the hyperparameters.
        built: Result of `built_with`.
    """
    if "optimizer" in names:
        _put_optimizer(model, built["optimizer"])
        names = names | {name for each in _own_optimizers(model).values() for name in each.defaults} - _UNTUNED_OPTIONS
    for name in names - {"optimizer"}:
        if name in vars(model):
            _put(model, name, built[name])
            continue
        for optimizer in _own_optimizers(model).values():
            values = built if type(optimizer).__name__ == built["optimizer"] else optimizer.defaults
            if name in optimizer.defaults:
                set_options({"": optimizer}, {name: values[name]})


def read(model: Any, config: Mapping[str, Any]) -> dict[str, Any]:
    """Read hyperparameters back from where training uses them."""
    return {name: _read(model, name, asked) for name, asked in config.items()}


def _put(model: Any, name: str, value: Any) -> None:
    if name not in vars(model):
        set_options(_own_optimizers(model), {name: value})
        return
    utilities = library("stable_baselines3.common.utils", "sb3")
    if name == "n_steps" and value != model.n_steps:
        model.n_steps = value
        _rebuild_rollouts(model)
    scheduled = name.startswith("clip_range") and value is not None
    setattr(model, name, utilities.FloatSchedule(value) if scheduled else value)
    match name:
        case "learning_rate":
            model._setup_lr_schedule()
            set_options(optimizers(model), {name: value})
        case "gamma" | "gae_lambda":
            if hasattr(buffer := _buffer(model), name):
                setattr(buffer, name, value)
        case "ent_coef" if hasattr(model, "ent_coef_tensor"):
            model.ent_coef_tensor = torch.tensor(float(value), device=model.device)
        case "train_freq":
            model._convert_train_freq()
        case _ if name in _EXPLORATION_ATTRIBUTES and hasattr(model, "exploration_schedule"):
            setattr(model.exploration_schedule, _EXPLORATION_ATTRIBUTES[name], value)


def _read(model: Any, name: str, asked: Any) -> Any:
    own = _own_optimizers(model)
    match name:
        case "optimizer":
            names = [type(optimizer).__name__ for optimizer in own.values()]
            return next((each for each in names if each != asked), asked)
        case "learning_rate":
            return read_options(optimizers(model), {name: asked})[name]
        case "gamma" | "gae_lambda":
            return getattr(_buffer(model), name, getattr(model, name))
        case "n_steps":
            return model.rollout_buffer.buffer_size
        case "ent_coef" if hasattr(model, "ent_coef_tensor"):
            return model.ent_coef_tensor.item()
        case "train_freq":
            frequency, unit = model.train_freq
            return (frequency, unit.value) if isinstance(asked, tuple) else frequency
        case _ if name in _EXPLORATION_ATTRIBUTES and hasattr(model, "exploration_schedule"):
            return getattr(model.exploration_schedule, _EXPLORATION_ATTRIBUTES[name])
        case _ if name in vars(model):
            value = getattr(model, name)
            return value(1.0) if callable(value) else value
    return read_options(own, {name: asked})[name]


def optimizers(model: Any) -> dict[str, Optimizer]:
    """Find all optimizers of a model, by the names that it saves them under."""
    getter = library("stable_baselines3.common.save_util", "sb3").recursive_getattr
    found = {name: getter(model, name) for name in model._get_torch_save_params()[0]}
    return {name: each for name, each in found.items() if isinstance(each, Optimizer)}


def _own_optimizers(model: Any) -> dict[str, Optimizer]:
    """Find the optimizers without that of the entropy coefficient, which SB3 always makes an Adam."""
    return {name: each for name, each in optimizers(model).items() if "." in name}


def _put_optimizer(model: Any, name: str) -> None:
    """Replace optimizers of another class by new ones, whose moments begin at zero."""
    kind: Any = getattr(torch.optim, str(name), None)
    if not (isinstance(kind, type) and issubclass(kind, Optimizer)):
        raise AgentError(f"optimizer must be the name of a class in torch.optim, such as 'Adam', got {name!r}")
    build: Callable[..., Optimizer] = kind
    getter = library("stable_baselines3.common.save_util", "sb3").recursive_getattr
    for path, optimizer in _own_optimizers(model).items():
        if type(optimizer) is not kind:
            groups = [{"params": group["params"], "lr": group["lr"]} for group in optimizer.param_groups]
            getter(model, path.rpartition(".")[0]).optimizer = build(groups)
            # A loaded model builds its optimizers from these.
            model.policy_kwargs = model.policy_kwargs | {"optimizer_class": kind, "optimizer_kwargs": {}}


def _rebuild_rollouts(model: Any) -> None:
    model.rollout_buffer = model.rollout_buffer_class(
        model.n_steps,
        model.observation_space,
        model.action_space,
        device=model.device,
        gamma=model.gamma,
        gae_lambda=model.gae_lambda,
        n_envs=model.n_envs,
        **model.rollout_buffer_kwargs,
    )


def _buffer(model: Any) -> Any:
    return model.replay_buffer if _is_off_policy(model) else model.rollout_buffer


def _is_off_policy(model: Any) -> bool:
    return hasattr(model, "replay_buffer")
