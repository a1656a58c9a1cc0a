"""A Ray Tune experiment without a cluster: real trials, a real generator and a real scheduler, in one process.

A function call reslots training in an actor, so that only the scheduler is measured, and a thousand intervals take
seconds. Trials run in turns, as on a cluster with fewer slots than trials. Ray's classes, which have few types, are Any
here.
"""

import copy
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from ray.train._internal.session import _FutureTrainingResult, _TrainingResult
from ray.tune import Checkpoint, Trainable
from ray.tune.experiment import Experiment, Trial
from ray.tune.result import SHOULD_CHECKPOINT
from ray.tune.schedulers import TrialScheduler
from ray.tune.search import BasicVariantGenerator
from ray.tune.utils import flatten_dict

State = dict[str, Any]
Step = Callable[[State, Mapping[str, Any], np.random.Generator], float]
"""Function that trains a state (empty at first) for one iteration in place, and returns the score."""


class ClassTrainable(Trainable):
    """A class trainable for Tune, which is told when to save."""


def function_trainable(config: dict[str, Any]) -> None:
    """Stand in for a function trainable, which saves whenever it reports."""


class FinishedSave(_FutureTrainingResult):
    """A finished save."""

    def __init__(self, result: _TrainingResult):
        self.result = result

    def resolve(self, block: bool = True) -> _TrainingResult:
        """Return the result."""
        return self.result


class Simulation:
    """The part of `Tuner.fit` that drives a scheduler, and the controller that the scheduler sees."""

    def __init__(
        self,
        scheduler: Any,
        step: Step,
        param_space: Mapping[str, Any],
        folder: Path,
        size: int,
        iterations: int,
        slots: int | None = None,
        seed: int = 0,
        trainable: Any = ClassTrainable,
    ):
        self.scheduler, self.step, self.iterations = scheduler, step, iterations
        self.slots, self.rng = slots or size, np.random.default_rng(seed)
        self.seconds = 0.0
        """Processor time spent in the scheduler."""
        self.search_alg = BasicVariantGenerator(random_state=seed)
        self.function = trainable is function_trainable
        experiment = Experiment(
            "simulated",
            trainable,
            stop={"training_iteration": iterations},
            config=dict(param_space),
            num_samples=size,
            storage_path=str(folder),
        )
        scheduler.set_search_properties("score", "max", **experiment.public_spec)
        self.search_alg.add_configurations([experiment])
        self.trials: list[Any] = []
        self.states: dict[Any, State] = {}
        self.saved: dict[Any, Any] = {}
        while (trial := self.search_alg.next_trial()) is not None:  # type: ignore[no-untyped-call]
            trial.create_placement_group_factory()
            self.trials.append(trial)
        for trial in self.trials:
            self._timed(scheduler.on_trial_add, self, trial)

    def restored(self, scheduler: Any) -> "Simulation":
        """Restore the simulation as `Tuner.restore` does, with a scheduler in its initial state."""
        again = copy.copy(self)
        again.scheduler, again.trials, again.states, again.saved = scheduler, [], {}, {}
        scheduler.set_search_properties("score", "max")
        for state, metadata in [trial.get_json_state() for trial in reversed(self.trials)]:
            trial: Any = Trial.from_json_state(state)
            trial.restore_run_metadata(metadata)
            if not trial.is_finished():
                trial.set_status(Trial.PENDING)
            again.trials.append(trial)
            scheduler.on_trial_add(again, trial)
        return again

    def fail(self, trial: Any, told: bool = True) -> None:
        """Give up a trial; Tune does not always tell the scheduler."""
        if told:
            self.scheduler.on_trial_error(self, trial)
        self.states.pop(trial, None)
        trial.set_status(Trial.ERROR)

    # The part of a controller that schedulers use

    def get_trials(self) -> list[Any]:
        """Return all trials."""
        return self.trials

    def get_live_trials(self) -> set[Any]:
        """Return the trials that have not ended."""
        return {trial for trial in self.trials if not trial.is_finished()}

    def pause_trial(self, trial: Any, should_checkpoint: bool = True) -> None:
        """Pause a trial, with a checkpoint unless it has one."""
        if should_checkpoint:
            trial.on_checkpoint(self._schedule_trial_save(trial).result)
        self.saved.pop(trial, None)
        self.states.pop(trial, None)
        trial.set_status(Trial.PAUSED)

    def _schedule_trial_save(self, trial: Any, result: Mapping[str, Any] | None = None) -> FinishedSave:
        storage = trial.storage
        storage.current_checkpoint_index += 1
        path = Path(storage.checkpoint_fs_path)
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        (path / "state.json").write_text(json.dumps(self.states[trial]))
        storage.current_checkpoint_index -= 1  # as on an actor; the driver counts when it registers the checkpoint
        self.saved[trial] = _TrainingResult(Checkpoint(str(path)), dict(result or trial.last_result))
        return FinishedSave(self.saved[trial])

    # The experiment

    def run(self, results: int | None = None) -> bool:
        """Run until every trial is done, or for this number of results; return whether all are done."""
        while self.get_live_trials() and results != 0:
            self._start()
            running = [trial for trial in self.trials if trial.status == Trial.RUNNING]
            if not running:
                raise RuntimeError(f"no trial is running: {[trial.status for trial in self.trials]}")
            self._train(running[self.rng.integers(len(running))])
            results = None if results is None else results - 1
        return not self.get_live_trials()

    def _start(self) -> None:
        """Start waiting trials in the free slots."""
        free = self.slots - sum(trial.status == Trial.RUNNING for trial in self.trials)
        for _ in range(free):
            trial = self._timed(self.scheduler.choose_trial_to_run, self)
            trial = trial or next((each for each in self.trials if each.status == Trial.PENDING), None)
            if trial is None:
                return
            trial.storage.trial_dir_name = trial.trial_id  # else it is named when an actor is made
            checkpoint = trial.checkpoint
            path = None if checkpoint is None else Path(checkpoint.path, "state.json")
            self.states[trial] = json.loads(path.read_text()) if path else {"iteration": 0}
            trial.set_status(Trial.RUNNING)

    def _train(self, trial: Any) -> None:
        state = self.states[trial]
        state["iteration"] += 1
        score = self.step(state, trial.config, self.rng)
        result = {"score": score, "training_iteration": state["iteration"], "time_total_s": float(state["iteration"])}
        result["config"] = trial.config
        if self.function:
            self._schedule_trial_save(trial, result)
            result |= {SHOULD_CHECKPOINT: True, "checkpoint_dir_name": Path(self.saved[trial].checkpoint.path).name}
        flat = flatten_dict(result)
        if state["iteration"] >= self.iterations:
            trial.update_last_result(result)
            if not self.function:
                self._schedule_trial_save(trial)
            trial.on_checkpoint(self.saved.pop(trial))
            self._timed(self.scheduler.on_trial_complete, self, trial, flat)
            trial.set_status(Trial.TERMINATED)
            return
        decision = self._timed(self.scheduler.on_trial_result, self, trial, flat)
        trial.update_last_result(result)
        if (saved := self.saved.pop(trial, None)) is not None:
            trial.on_checkpoint(saved)
        if decision == TrialScheduler.PAUSE:
            self.pause_trial(trial, should_checkpoint=saved is None)

    def _timed(self, call: Callable[..., Any], *arguments: Any) -> Any:
        start = process_time()
        try:
            return call(*arguments)
        finally:
            self.seconds += process_time() - start
