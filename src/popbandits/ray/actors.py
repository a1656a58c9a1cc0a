"""Actors of paused trials, kept so that these trials need no new ones.

With `reuse_actors=True`, Tune keeps the actor of a paused trial only while another trial waits for one. Where every
trial has an actor, nobody waits: Tune ends the actor of a trial that takes another's weights, and starts a new process
for it. Here the actor is kept until the trial, or one in greater need, runs again.

As in `trials.py`, Tune's internals (Ray 2.60) are used.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ray.tune import Trainable
from ray.tune.experiment import Trial

from popbandits.ray.trials import AnyTrial, unwrapped


class KeptActors:
    """The paused trials for which Tune keeps an actor."""

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
