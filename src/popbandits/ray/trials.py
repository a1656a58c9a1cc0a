"""Operations of the schedulers on Tune's trials and their actors: checkpoints, configurations, tags with the round.

They use Tune's internals; all code that does so (for Ray 2.60) is in this file.
"""

import copy
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pyarrow import fs
from ray.train._internal.session import _TrainingResult
from ray.tune import Checkpoint, Trainable
from ray.tune.experiment import Trial
from ray.tune.result import SHOULD_CHECKPOINT
from ray.tune.search.variant_generator import format_vars
from ray.tune.trainable import FunctionTrainable
from ray.tune.utils import flatten_dict

from popbandits.history import Assignment, Observation
from popbandits.ray.nested import find, leaves
from popbandits.ray.record import CHECKPOINT
from popbandits.space import Space
from popbandits.space.build import put
from popbandits.storage import Store
from popbandits.storage.schema import RUN_FILE

AnyTrial = Any
"""A `ray.tune.experiment.Trial`, whose annotations allow None for much that is always set."""


def unwrapped(tune_controller: Any) -> Any:
    """Return Tune's controller, of which schedulers are mostly given a part."""
    return getattr(tune_controller, "_tune_controller", tune_controller)


def folder(trial: AnyTrial) -> Path:
    """Return the folder of the run's file: the experiment's; if that is not on a disk, one of the driver's."""
    storage = trial.storage
    if isinstance(storage.storage_filesystem, fs.LocalFileSystem):
        return Path(storage.experiment_fs_path)
    # Not in the staging folder itself: Tune would copy the file without its write-ahead log.
    return Path(storage.experiment_driver_staging_path).parent / "record"


def fetch_record(trial: AnyTrial) -> None:
    """Download the run's file from Tune's storage, if that is not on a disk and the file is missing here."""
    system, there, here = _paths(trial)
    if not (here.exists() or isinstance(system, fs.LocalFileSystem) or _is_gone(system, there)):
        here.parent.mkdir(parents=True, exist_ok=True)
        fs.copy_files(there, str(here), source_filesystem=system)


def keep_record(trial: AnyTrial, store: Store) -> None:
    """Upload the run's file to Tune's storage, if that is not on a disk."""
    system, there, here = _paths(trial)
    if isinstance(system, fs.LocalFileSystem):
        return
    whole = here.with_name(f"{here.name}.whole")  # without a log next to it
    store.copy(whole)
    system.create_dir(str(Path(there).parent))
    fs.copy_files(str(whole), there, destination_filesystem=system)


def _paths(trial: AnyTrial) -> tuple[Any, str, Path]:
    """Return Tune's file system, the path of the run's file in it, and the local path of that file."""
    storage = trial.storage
    return storage.storage_filesystem, str(Path(storage.experiment_fs_path, RUN_FILE)), folder(trial) / RUN_FILE


def _is_gone(system: Any, path: str) -> bool:
    return bool(system.get_file_info(path).type == fs.FileType.NotFound)


def location(trial: AnyTrial, checkpoint: Any) -> str:
    """Return a checkpoint's path relative to the experiment's folder, which may be moved."""
    return str(Path(checkpoint.path).relative_to(trial.storage.experiment_fs_path))


def check_num_to_keep(trial: AnyTrial) -> None:
    """Warn if Tune removes checkpoints so early that other trials may miss them."""
    kept = trial.run_metadata.checkpoint_manager.checkpoint_config.num_to_keep
    if kept is not None and kept <= 2:
        warnings.warn(
            f"num_to_keep should be more than 2: other trials may need a removed checkpoint, got {kept}", stacklevel=3
        )


def is_function(trial: AnyTrial) -> bool:
    """Tell whether the trainable is a function; a function reports its checkpoints itself."""
    return issubclass(trial.get_trainable_cls(), FunctionTrainable)


def save(tune_controller: Any, trial: AnyTrial, result: Mapping[str, Any]) -> _TrainingResult | None:
    """Save a checkpoint at a result, and return it; None if there is none."""
    if not is_function(trial):
        future = tune_controller._schedule_trial_save(trial, result=dict(result))
        return None if future is None else future.resolve()
    if not result.get(SHOULD_CHECKPOINT):
        return None
    path = Path(trial.storage.trial_fs_path, str(result["checkpoint_dir_name"]))
    return _TrainingResult(Checkpoint(str(path), trial.storage.storage_filesystem), dict(result))


def pause(tune_controller: Any, trial: AnyTrial, saved: _TrainingResult) -> None:
    """Pause a trial that has saved this checkpoint."""
    # Not by returning PAUSE: once registered, this checkpoint would become the one that the trial resumes from. And not
    # while Tune believes it is saving: Tune would remember to stop the trial, and do so at its next save.
    trial.temporary_state.saving_to = None
    tune_controller.pause_trial(trial, should_checkpoint=False)
    trial.on_checkpoint(saved)


def last_location(trial: AnyTrial, time_attr: str, result: Mapping[str, Any]) -> str | None:
    """Return the location of the checkpoint of a trial's last result; None if it has none."""
    latest = trial.latest_checkpoint_result
    if latest is None or flatten_dict(latest.metrics).get(time_attr) != result[time_attr]:
        return None
    return location(trial, latest.checkpoint)


def stored(trial: AnyTrial, source: Observation) -> _TrainingResult | None:
    """Return the checkpoint of any trial's observation; None if it is gone."""
    if (path := source.metrics.get(CHECKPOINT)) is None:
        return None
    system, whole = trial.storage.storage_filesystem, str(Path(trial.storage.experiment_fs_path, path))
    if _is_gone(system, whole):
        return None
    return _TrainingResult(Checkpoint(whole, system), dict(source.metrics))


def assign(
    trial: AnyTrial, space: Space, assignment: Assignment, start: _TrainingResult | None, untuned: Mapping[str, Any]
) -> None:
    """Let a trial that is not running continue with a configuration, from a checkpoint; None for a fresh start.

    Args:
        trial: A trial of Tune.
        space: The search space.
        assignment: Its configuration is set.
        start: The checkpoint.
        untuned: Values that are not in the space, and come with the checkpoint.
    """
    config = copy.deepcopy(trial.config)
    for path, _ in leaves(space.nest(dict.fromkeys(space.names))):
        with suppress(KeyError, TypeError):  # It has no such name, or no such group.
            del find(config, path[:-1])[path[-1]]
    for path, value in [*leaves(untuned), *leaves(assignment.config)]:
        put(config, path, copy.deepcopy(value))
    trial.set_config(config)
    trial.evaluated_params = dict(space.flatten(assignment.config))
    trial.run_metadata.checkpoint_manager._latest_checkpoint_result = start
    trial.run_metadata.invalidate_cache()
    trial.set_experiment_tag(tag(space, assignment))


def tag(space: Space, assignment: Assignment) -> str:
    """Return the tag of a trial with an assignment: Tune shows it, and saves it for a restored experiment."""
    values = format_vars({(name,): value for name, value in space.flatten(assignment.config).items()})
    # Tune names a trial's folder by its first tag.
    return f"{assignment.member}_{values}" + (f"@round={assignment.round}" if assignment.round else "")


def try_again(tune_controller: Any, trial: AnyTrial) -> None:
    """Let a failed trial wait for its turn."""
    # Tune reports twice that an actor died while it was given to another trial. After the first report the trial is
    # pending again, and a pending trial that fails is given up, whatever max_failures says; a paused one is not. And a
    # trial that Tune believes is getting an actor gets no other.
    controller = unwrapped(tune_controller)
    controller._resetting_trials.discard(trial)
    controller._set_trial_status(trial, Trial.PAUSED)


def skip_used_checkpoints(trial: AnyTrial) -> None:
    """Number a restored trial's checkpoints after all that it ever wrote: Tune's snapshot may be older."""
    storage = trial.storage
    selector = fs.FileSelector(storage.trial_fs_path, allow_not_found=True)
    names = [info.base_name for info in storage.storage_filesystem.get_file_info(selector)]
    used = [int(name.removeprefix("checkpoint_")) for name in names if name.startswith("checkpoint_")]
    storage.current_checkpoint_index = max([storage.current_checkpoint_index, *used])


class KeptActors:
    """The paused trials for which Tune keeps an actor, so that these trials need no new ones.

    With `reuse_actors=True`, Tune keeps the actor of a paused trial only while another trial waits for one. Where every
    trial has an actor, nobody waits: Tune ends the actor of a trial that takes another's weights, and starts a new
    process for it. Here the actor is kept until the trial, or one in greater need, runs again.
    """

    def __init__(self) -> None:
        self._trials: set[AnyTrial] = set()

    @contextmanager
    def keep(self, tune_controller: Any, trial: AnyTrial) -> Iterator[None]:
        """Keep the actor of a trial that is paused in this context, if its trainable can be reset."""
        controller = unwrapped(tune_controller)
        if not (getattr(controller, "_reuse_actors", False) and can_reset(trial)):
            yield
            return
        # Tune keeps as many actors as it expects to need, and none if no trial is about to start.
        controller._actor_cache.increase_max(trial.placement_group_factory)
        self._trials.add(trial)
        controller._staged_trials.add(trial)
        try:
            yield
        finally:
            controller._staged_trials.remove(trial)

    def release(self, tune_controller: Any, chosen: AnyTrial | None) -> None:
        """Keep no more actors than needed, now that Tune starts the chosen trial, on one of them if it fits."""
        for trial in list(self._trials):
            resources = trial.placement_group_factory
            fits = chosen is None or chosen.placement_group_factory == resources
            if trial is chosen or trial.status != Trial.PAUSED or not fits:
                self._trials.remove(trial)
                unwrapped(tune_controller)._actor_cache.decrease_max(resources)


def can_reset(trial: AnyTrial) -> bool:
    """Tell whether the trainable says how its actor is used again. A function's always can be."""
    return trial.get_trainable_cls().reset_config is not Trainable.reset_config


def has_actor(tune_controller: Any, trial: AnyTrial) -> bool:
    """Tell whether Tune has an actor for a waiting trial already, which is being started or reset."""
    controller = unwrapped(tune_controller)
    actor = getattr(controller, "_trial_to_actor", {}).get(trial)
    return actor is not None and actor in controller._actor_manager._live_actors_to_ray_actors_resources
