"""What the schedulers do to Tune's trials: checkpoints, configurations, and the tags that tell which round it is.

Tune keeps these in places that are its own; all such knowledge (Ray 2.60) is in this file.
"""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyarrow import fs
from ray.train._internal.session import _TrainingResult
from ray.tune import Checkpoint
from ray.tune.experiment import Trial
from ray.tune.result import SHOULD_CHECKPOINT
from ray.tune.search.variant_generator import format_vars
from ray.tune.trainable import FunctionTrainable
from ray.tune.utils import flatten_dict

from popbandits.history import Assignment, Observation
from popbandits.ray.record import CHECKPOINT
from popbandits.space import Space
from popbandits.storage import Store
from popbandits.storage.schema import FILE

AnyTrial = Any
"""A `ray.tune.experiment.Trial`, whose annotations say of much that is always there that it may be None."""


def folder(trial: AnyTrial) -> Path:
    """Where the run's file is used: in the experiment's folder; where that is not on a disk, in one of the driver's."""
    storage = trial.storage
    if isinstance(storage.storage_filesystem, fs.LocalFileSystem):
        return Path(storage.experiment_fs_path)
    # Not in the staging folder itself: Tune would copy the file without what is still in its log.
    return Path(storage.experiment_driver_staging_path).parent / "record"


def fetch_record(trial: AnyTrial) -> None:
    """Get the run's file from where Tune keeps results, if that is not on a disk and the file is not here."""
    system, there, here = _kept(trial)
    if not (here.exists() or isinstance(system, fs.LocalFileSystem) or _is_gone(system, there)):
        here.parent.mkdir(parents=True, exist_ok=True)
        with system.open_input_stream(there) as stream:
            here.write_bytes(stream.readall())


def keep_record(trial: AnyTrial, store: Store) -> None:
    """Put the run's file to where Tune keeps results, if that is not on a disk."""
    system, there, here = _kept(trial)
    if isinstance(system, fs.LocalFileSystem):
        return
    whole = here.with_name(f"{here.name}.whole")  # without the log beside it
    store.copy(whole)
    system.create_dir(str(Path(there).parent))
    with system.open_output_stream(there) as stream:
        stream.write(whole.read_bytes())


def _kept(trial: AnyTrial) -> tuple[Any, str, Path]:
    """Where the run's file is kept, and where it is used."""
    storage = trial.storage
    return storage.storage_filesystem, str(Path(storage.experiment_fs_path, FILE)), folder(trial) / FILE


def _is_gone(system: Any, path: str) -> bool:
    return bool(system.get_file_info(path).type == fs.FileType.NotFound)


def location(trial: AnyTrial, checkpoint: Any) -> str:
    """A checkpoint's path, relative to the experiment's folder, which may be moved."""
    return str(Path(checkpoint.path).relative_to(trial.storage.experiment_fs_path))


def is_function(trial: AnyTrial) -> bool:
    """Whether it is a function that is trained; a function says itself when it has a checkpoint."""
    return issubclass(trial.get_trainable_cls(), FunctionTrainable)


def save(tune_controller: Any, trial: AnyTrial, result: Mapping[str, Any]) -> _TrainingResult | None:
    """The checkpoint of the moment of a result; None if there is none."""
    if not is_function(trial):
        future = tune_controller._schedule_trial_save(trial, result=dict(result))
        return None if future is None else future.resolve()
    if not result.get(SHOULD_CHECKPOINT):
        return None
    path = Path(trial.storage.trial_fs_path, str(result["checkpoint_dir_name"]))
    return _TrainingResult(Checkpoint(str(path), trial.storage.storage_filesystem), dict(result))


def pause(tune_controller: Any, trial: AnyTrial, saved: _TrainingResult) -> None:
    """Let a trial wait, whose checkpoint this is."""
    # Not by returning PAUSE: when the checkpoint is taken in, it would become the one that the trial goes on from. And
    # not while Tune believes it to be saving: it would keep in mind to stop it, and do so the next time that it saves.
    trial.temporary_state.saving_to = None
    tune_controller.pause_trial(trial, should_checkpoint=False)
    trial.on_checkpoint(saved)


def last_location(trial: AnyTrial, time_attr: str, result: Mapping[str, Any]) -> str | None:
    """Where the checkpoint of a trial's last result is; None if it has none."""
    latest = trial.latest_checkpoint_result
    if latest is None or flatten_dict(latest.metrics).get(time_attr) != result[time_attr]:
        return None
    return location(trial, latest.checkpoint)


def stored(trial: AnyTrial, source: Observation) -> _TrainingResult | None:
    """The checkpoint of any trial's observation; None if it is gone."""
    if (path := source.metrics.get(CHECKPOINT)) is None:
        return None
    system, whole = trial.storage.storage_filesystem, str(Path(trial.storage.experiment_fs_path, path))
    if _is_gone(system, whole):
        return None
    return _TrainingResult(Checkpoint(whole, system), dict(source.metrics))


def assign(trial: AnyTrial, space: Space, assignment: Assignment, start: _TrainingResult | None) -> None:
    """Let a trial that is not running go on with a configuration, from a checkpoint; None for a fresh start."""
    config = copy.deepcopy(trial.config)
    _without(config, space.nest(dict.fromkeys(space.names)))
    _merge(config, copy.deepcopy(assignment.config))
    trial.set_config(config)
    trial.evaluated_params = dict(space.flatten(assignment.config))
    trial.run_metadata.checkpoint_manager._latest_checkpoint_result = start
    trial.run_metadata.invalidate_cache()
    mark(trial, space, assignment)


def mark(trial: AnyTrial, space: Space, assignment: Assignment) -> None:
    """Say in a trial's tag what it trains: Tune shows it, and keeps it for a restored experiment."""
    trial.set_experiment_tag(_tag(space, assignment))


def is_marked(trial: AnyTrial, space: Space, assignment: Assignment) -> bool:
    """Whether this is what a trial trains."""
    return bool(trial.experiment_tag == _tag(space, assignment))


def _tag(space: Space, assignment: Assignment) -> str:
    values = format_vars({(name,): value for name, value in space.flatten(assignment.config).items()})
    # Tune names a trial's folder by its first tag.
    return f"{assignment.member}_{values}" + (f"@round={assignment.round}" if assignment.round else "")


def try_again(tune_controller: Any, trial: AnyTrial) -> None:
    """Let a trial that has failed wait for its turn."""
    # Tune tells twice of an actor that dies while it is given to another trial. After the first time the trial is
    # pending again, and a pending trial that fails is given up, whatever max_failures says; a paused one is not. And
    # what Tune believes to be given an actor gets no other.
    controller = getattr(tune_controller, "_tune_controller", tune_controller)
    controller._resetting_trials.discard(trial)
    controller._set_trial_status(trial, Trial.PAUSED)


def skip_used_checkpoints(trial: AnyTrial) -> None:
    """Let a restored trial number its checkpoints after all that it ever wrote: Tune's snapshot of it may be older."""
    storage = trial.storage
    selector = fs.FileSelector(storage.trial_fs_path, allow_not_found=True)
    names = [info.base_name for info in storage.storage_filesystem.get_file_info(selector)]
    used = [int(name.removeprefix("checkpoint_")) for name in names if name.startswith("checkpoint_")]
    storage.current_checkpoint_index = max([storage.current_checkpoint_index, *used])


def _without(config: dict[str, Any], names: Mapping[str, Any]) -> None:
    """Take names out of a nested dict."""
    for key, inner in names.items():
        if isinstance(inner, Mapping):
            if isinstance(config.get(key), dict):
                _without(config[key], inner)
        else:
            config.pop(key, None)


def _merge(config: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Put values into a nested dict."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            _merge(config.setdefault(key, {}), value)
        else:
            config[key] = value
