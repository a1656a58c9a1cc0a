"""Checkpoints of Stable-Baselines3: its own zip file, the filled part of a replay buffer, and running scales."""

import io
import json
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from popbandits.errors import AgentError

_TRANSIENT_ATTRIBUTES = (
    "start_time",
    "ep_info_buffer",
    "ep_success_buffer",
    "_last_obs",
    "_last_episode_starts",
    "_last_original_obs",
)
"""Attributes with times, or with the state of environments, which is not saved."""

_KNOWN_ATTRIBUTES = {
    *("policy_class", "observation_space", "action_space", "rollout_buffer_class", "replay_buffer_class"),
    *("rollout_buffer_kwargs", "replay_buffer_kwargs", "action_noise", "learning_rate", "lr_schedule", "train_freq"),
    *("clip_range", "clip_range_vf", "exploration_schedule", "_last_lstm_states"),
}
"""Attributes that SB3 pickles, and that every model of an agent has: what it was built with, hyperparameters, which an
interval sets, and the state of environments."""

_ZIP_DATE = (1980, 1, 1, 0, 0, 0)
_NUMBERS_KEY = "numbers"


def save_model(model: Any, path: Path) -> None:
    """Write a model so that equal models give equal files; `PPO.load(path)` and the like read it."""
    written = io.BytesIO()
    model.save(written, exclude=_TRANSIENT_ATTRIBUTES)
    with zipfile.ZipFile(written) as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():  # SB3 writes a time stamp for each.
            target.writestr(zipfile.ZipInfo(name, _ZIP_DATE), source.read(name))


def load_model(model: Any, path: Path) -> Any:
    """Load a model of the same class as another, without unpickling what the other one has: only numbers are learnt.

    An algorithm of your own may keep objects of its own, which are unpickled.
    """
    with zipfile.ZipFile(path) as file:
        data = json.loads(file.read("data"))
    pickled = {name for name, value in data.items() if isinstance(value, dict) and ":serialized:" in value}
    built = {name: vars(model)[name] for name in pickled & _KNOWN_ATTRIBUTES if name in vars(model)}
    if "policy_kwargs" in pickled:
        built["policy_kwargs"] = _policy_arguments(model, data["policy_kwargs"])
    unknown = sorted(pickled - built.keys())
    if unknown and type(model).__module__.partition(".")[0] in ("stable_baselines3", "sb3_contrib"):
        raise AgentError(
            f"a model of {type(model).__name__} pickles none of its state, got {', '.join(unknown)} in {path}"
        )
    return type(model).load(path, env=model.get_env(), device=model.device, custom_objects=built)


def _policy_arguments(model: Any, described: dict[str, Any]) -> dict[str, Any]:
    """Return a model's arguments of its policy, with the optimizer that SB3 describes in another model's file."""
    own: dict[str, Any] = model.policy_kwargs
    known = {str(each): each for each in (*vars(torch.optim).values(), own.get("optimizer_class"))}
    arguments = {name: value for name, value in own.items() if name not in ("optimizer_class", "optimizer_kwargs")}
    if (kind := described.get("optimizer_class")) is not None:
        if kind not in known:
            raise AgentError(f"the optimizer of a model must be the agent's or one of torch.optim, got {kind:.100}")
        arguments["optimizer_class"] = known[kind]
    if isinstance(options := described.get("optimizer_kwargs"), dict):
        arguments["optimizer_kwargs"] = options
    return arguments


def save_scales(scales: Any, path: Path) -> None:
    """Write the running means and variances of a VecNormalize."""
    rows = {name: [each.mean, each.var, each.count] for name, each in _running(scales).items()}
    np.savez(path, **{f"{name}.{part}": row[part] for name, row in rows.items() for part in range(3)})


def load_scales(scales: Any, path: Path) -> None:
    """Set the running means and variances of a VecNormalize."""
    with np.load(path) as saved:
        for name, each in _running(scales).items():
            each.mean, each.var = saved[f"{name}.0"], saved[f"{name}.1"]
            each.count = saved[f"{name}.2"].item()


def _running(scales: Any) -> dict[str, Any]:
    """Return the running scales by name; observations that are dicts have several."""
    several = isinstance(scales.obs_rms, dict)
    of = {f"obs.{name}": each for name, each in scales.obs_rms.items()} if several else {"obs": scales.obs_rms}
    return {**of, "ret": scales.ret_rms}


def save_replay(buffer: Any, path: Path) -> None:
    """Write a replay buffer without its empty rows, which are most of them early in a run."""
    rows = buffer.buffer_size if buffer.full else buffer.pos
    numbers = {name: value for name, value in vars(buffer).items() if type(value) in (bool, int, float)}
    arrays: dict[str, Any] = {
        name: array[:rows] if len(array) == buffer.buffer_size else array for name, array in _arrays(buffer)
    }
    np.savez(path, **arrays | {_NUMBERS_KEY: np.array(json.dumps(numbers))})


def load_replay(buffer: Any, path: Path) -> None:
    """Fill a new replay buffer with the saved rows."""
    objects = any(array.dtype.hasobject for _, array in _arrays(buffer))  # The infos of environments may be.
    with np.load(path, allow_pickle=objects) as saved:
        vars(buffer).update(json.loads(str(saved[_NUMBERS_KEY])))
        for name, array in _arrays(buffer):
            array[: len(saved[name])] = saved[name]


def _arrays(buffer: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the arrays of a buffer, also those in dicts, for observations that are dicts."""
    for name, value in vars(buffer).items():
        for key, each in value.items() if isinstance(value, dict) else [("", value)]:
            if isinstance(each, np.ndarray) and each.ndim > 0:
                yield f"{name}.{key}" if key else name, each


def share_spaces(model: Any) -> None:
    """Let a loaded model sample from the spaces of its environment, as a newly built model does."""
    for owner in (model, getattr(model, "replay_buffer", None)):
        if owner is not None:
            owner.action_space, owner.observation_space = model.env.action_space, model.env.observation_space


def close_trajectory(model: Any) -> None:
    """Mark the last transition in a replay buffer as an episode's end: every interval resets the environments."""
    buffer = model.replay_buffer
    if buffer is None or not (buffer.full or buffer.pos > 0):
        return
    if hasattr(buffer, "truncate_last_trajectory"):  # hindsight experience replay
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The last trajectory in the replay buffer will be truncated")
            buffer.truncate_last_trajectory()
    elif model.optimize_memory_usage:
        buffer.dones[buffer.pos - 1] = True  # The next observation is in the next row, of another episode.
    else:
        ended = buffer.dones[buffer.pos - 1].astype(bool)
        buffer.timeouts[buffer.pos - 1] = np.where(ended, buffer.timeouts[buffer.pos - 1], True)
