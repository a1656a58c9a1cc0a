"""Optuna: search spaces from its distributions, and runs in its storage, where its dashboard shows them.

A trial of Optuna has one configuration, but a member of a population changes its configuration. So an interval is a
trial: its value is the score at the end of the interval, and its intermediate values are the scores along its lineage,
round by round, as in a learning curve. Member, round, parent and metrics are user attributes.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from ConfigSpace import Constant, OrdinalHyperparameter
from ConfigSpace import UniformFloatHyperparameter as UniformFloat
from ConfigSpace import UniformIntegerHyperparameter as UniformInteger

from popbandits.basics.extras import library
from popbandits.errors import HistoryError, SpaceError
from popbandits.history import History, Key, Observation
from popbandits.space import Numerical, Space
from popbandits.space.parameters import describe

MAX_LEVELS = 256
"""Maximum levels of a range with a step; of more, this many are taken, evenly."""

KEY_ATTRIBUTE = "popbandits"
"""User attribute of a trial: the member and the round of its interval."""


def space_from_optuna(source: Any) -> Space:
    """Read a search space from Optuna.

    A range with a step becomes an ordered list of levels. A study gives the distributions of all its trials.

    >>> from optuna.distributions import CategoricalDistribution, FloatDistribution
    >>> space = space_from_optuna(
    ...     {"lr": FloatDistribution(1e-5, 1e-1, log=True), "act": CategoricalDistribution(("relu", "tanh"))}
    ... )
    >>> space.names
    ('act', 'lr')

    Args:
        source: Distributions by name, or a study or a trial that has some.
    """
    made = {}
    for name, each in _distributions(source).items():
        try:
            made[name] = _hyperparameter(name, each)
        except SpaceError:
            raise
        except (TypeError, ValueError, ArithmeticError) as error:
            raise SpaceError(f"{name!r}: {each} cannot be searched: {error}; narrow its range") from error
    return Space(made)


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


def _distributions(source: Any) -> dict[str, Any]:
    """Return distributions by name; those of a study's trials must agree."""
    if isinstance(source, Mapping):
        return dict(source)
    trials = source.get_trials(deepcopy=False) if hasattr(source, "get_trials") else [source]
    if not all(isinstance(getattr(trial, "distributions", None), Mapping) for trial in trials):
        raise SpaceError(f"distributions by name, a study or a trial of Optuna are expected, got {source!r:.200}")
    found: dict[str, Any] = {}
    for name, each in ((name, each) for trial in trials for name, each in trial.distributions.items()):
        if found.setdefault(name, each) != each:
            raise SpaceError(f"{name!r}: the trials of a study must agree on a range, got {found[name]} and {each}")
    if not found:
        raise SpaceError(f"a study or trial must have suggested something, got no distributions in {source!r}")
    return found


def _hyperparameter(name: str, distribution: Any) -> Any:
    kinds = library("optuna.distributions", "optuna")
    if isinstance(distribution, kinds.CategoricalDistribution):
        return list(distribution.choices) if len(distribution.choices) > 1 else Constant(name, distribution.choices[0])
    if not isinstance(distribution, kinds.FloatDistribution | kinds.IntDistribution):
        raise SpaceError(f"{name!r}: a distribution of Optuna is expected, got {distribution!r}")
    low, high, step, log = distribution.low, distribution.high, distribution.step, distribution.log
    if distribution.single():
        return Constant(name, low)
    if isinstance(distribution, kinds.IntDistribution) and step == 1:
        return UniformInteger(name, low, high, log=log)
    if step is None:
        return UniformFloat(name, low, high, log=log)
    return OrdinalHyperparameter(name, list(_levels(low, high, step)))


def _levels(low: float, high: float, step: float) -> Iterator[float]:
    """Yield the values of a range with a step.

    >>> list(_levels(0.0, 0.3, 0.1)), list(_levels(2, 9, 3))
    ([0.0, 0.1, 0.2, 0.3], [2, 5, 8])
    """
    last = int((high - low) / step + 1e-9)
    for index in np.unique(np.rint(np.linspace(0, last, min(last + 1, MAX_LEVELS)))):
        value = low + int(index) * step
        yield value if isinstance(value, int) else float(f"{value:.12g}")


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
