"""Checkpoints of Stable-Baselines3: its own zip file, the filled part of a replay buffer, and running scales."""

import io
import json
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_PASSING = (
    "start_time",
    "ep_info_buffer",
    "ep_success_buffer",
    "_last_obs",
    "_last_episode_starts",
    "_last_original_obs",
)
"""Attributes with times, or with the state of environments, which is not saved."""

_FIRST_DAY = (1980, 1, 1, 0, 0, 0)
_NUMBERS = "numbers"


def save_model(model: Any, path: Path) -> None:
    """Write a model so that equal models give equal files; `PPO.load(path)` and the like read it."""
    written = io.BytesIO()
    model.save(written, exclude=_PASSING)
    with zipfile.ZipFile(written) as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():  # SB3 writes a time stamp for each.
            target.writestr(zipfile.ZipInfo(name, _FIRST_DAY), source.read(name))


def save_replay(buffer: Any, path: Path) -> None:
    """Write a replay buffer without its empty rows, which are most of them early in a run."""
    rows = buffer.buffer_size if buffer.full else buffer.pos
    numbers = {name: value for name, value in vars(buffer).items() if type(value) in (bool, int, float)}
    arrays: dict[str, Any] = {
        name: array[:rows] if len(array) == buffer.buffer_size else array for name, array in _arrays(buffer)
    }
    np.savez(path, **arrays | {_NUMBERS: np.array(json.dumps(numbers))})


def load_replay(buffer: Any, path: Path) -> None:
    """Fill a new replay buffer with the saved rows."""
    with np.load(path, allow_pickle=True) as saved:  # The infos of environments may be objects.
        vars(buffer).update(json.loads(str(saved[_NUMBERS])))
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
