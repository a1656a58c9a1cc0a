"""Runs in Optuna's storage, where its dashboard shows them.

A trial of Optuna has one configuration, but a member of a population changes its configuration. So an interval is a
trial: its value is the score at the end of the interval, and its intermediate values are the scores along its lineage,
round by round, as in a learning curve. Member, round, parent and metrics are user attributes.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from popbandits.basics.extras import library
from popbandits.errors import HistoryError
from popbandits.history import History, Key, Observation
from popbandits.space import Numerical, Space
from popbandits.space.parameters import describe

KEY_ATTRIBUTE = "popbandits"
"""User attribute of a trial: the member and the round of its interval."""


def write_to_optuna(run: History | str | Path, storage: Any, study_name: str) -> Any:
    """Write the intervals of a run as trials of a study, and return the study.

    Trials that the study already has are left alone, so it can be called again as the run continues.

    Args:
        run: History of the run, or its folder.
        storage: Storage of Optuna: a URL such as "sqlite:///runs.db", or a storage object.
        study_name: Name of the study, one for each run. It is created if it does not exist.
    """
    optuna = library("optuna", "optuna")
    history = run if isinstance(run, History) else History.load(run)
    direction = {"max": "maximize", "min": "minimize"}[history.mode]
    study = optuna.create_study(storage=storage, study_name=study_name, direction=direction, load_if_exists=True)
    directions = [each.name.lower() for each in study.directions]
    if directions != [direction]:
        raise HistoryError(
            f"study {study_name!r} must {direction}, as the run does, got {' and '.join(directions)}; choose another "
            "study_name"
        )
    known = {str(trial.user_attrs.get(KEY_ATTRIBUTE)): trial for trial in study.get_trials(deepcopy=False)}
    distributions = _as_distributions(history.space)
    curves: dict[Key, dict[int, float]] = {}
    new = []
    for observation in history:
        curve = dict(curves.get(observation.parent or (-1, -1), {}))
        if not observation.failed:
            curve[observation.round] = observation.score
        curves[observation.key] = curve
        trial = _trial(optuna, history.space, observation, distributions, curve)
        if (written := known.get(str(list(observation.key)))) is None:
            new.append(trial)
        elif (written.params, written.value) != (trial.params, trial.value):
            raise HistoryError(
                f"study {study_name!r} holds another run: {observation.key} has {written.params} there and "
                f"{trial.params} here; choose another study_name"
            )
    study.add_trials(new)
    return study


def _trial(
    optuna: Any, space: Space, observation: Observation, distributions: Mapping[str, Any], curve: dict[int, float]
) -> Any:
    config = space.flatten(observation.config)
    attributes = {
        **observation.metrics,  # First: a metric may have one of our names, by which an interval is found again.
        KEY_ATTRIBUTE: list(observation.key),
        "member": observation.member,
        "round": observation.round,
        "parent": None if observation.parent is None else list(observation.parent),
        "status": observation.status,
        "steps": observation.steps,
        "seconds": observation.seconds,
    }
    states = optuna.trial.TrialState
    return optuna.trial.create_trial(
        state=states.FAIL if observation.failed else states.COMPLETE,
        value=None if observation.failed else observation.score,
        params={name: _choice(value) for name, value in config.items()},
        distributions={name: distributions[name] for name in config},
        user_attrs=attributes,
        intermediate_values=curve,
    )


def _as_distributions(space: Space) -> dict[str, Any]:
    """Convert a space to Optuna's distributions, by dotted name."""
    kinds = library("optuna.distributions", "optuna")
    made: dict[str, Any] = {}
    for name, hyperparameter in space.configuration_space.items():
        each = describe(hyperparameter, conditional=False)
        if not isinstance(each, Numerical) or each.kind == "ordinal":
            made[name] = kinds.CategoricalDistribution(tuple(map(_choice, each.labels)))
        elif each.kind == "float":
            made[name] = kinds.FloatDistribution(each.lower, each.upper, log=each.log)
        else:
            made[name] = kinds.IntDistribution(int(each.lower), int(each.upper), log=each.log)
    return made


def _choice(label: Any) -> Any:
    """Convert a label for Optuna's storages: tuples and the like become text."""
    label = label.item() if isinstance(label, np.generic) else label
    return label if label is None or isinstance(label, bool | int | float | str) else repr(label)
