"""Search spaces from Optuna's distributions."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from ConfigSpace import Constant, OrdinalHyperparameter
from ConfigSpace import UniformFloatHyperparameter as UniformFloat
from ConfigSpace import UniformIntegerHyperparameter as UniformInteger

from popbandits.basics.deprecation import moved
from popbandits.basics.extras import library
from popbandits.errors import SpaceError
from popbandits.space import Space

MAX_LEVELS = 256
"""Maximum levels of a range with a step; of more, this many are taken, evenly."""


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


def __getattr__(name: str) -> Any:
    """Return what has moved to the experiments."""
    return moved(__name__, name, "popbandits_experiments.optuna_study", {"write_to_optuna"})
