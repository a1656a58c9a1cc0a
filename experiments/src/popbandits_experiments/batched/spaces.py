"""Spaces of PPO's hyperparameters: wide ranges, badly centred ones, an expert's narrow ones, and usual defaults."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ConfigSpace import Categorical, ConfigurationSpace, EqualsCondition, Float, Integer, OrdinalHyperparameter

from popbandits_experiments.batched.learning import ADVANTAGES
from popbandits_experiments.batched.optimizers import CHILDREN, MINIBATCHES, OPTIMIZERS

DEFAULTS: dict[str, Any] = {
    "lr": 3e-4,
    "one_minus_gamma": 0.01,
    "gae_lambda": 0.95,
    "clip": 0.2,
    "entropy": 0.0,
    "vf_coef": 0.5,
    "max_grad_norm": 0.5,
    "epochs": 10,
    "minibatches": 16,
    "advantages": "minibatch",
    "value_clip": False,
    "optimizer": "adam",
    "beta1": 0.9,
}
"""PPO's usual settings for small tasks: the defaults of Stable-Baselines3 2.7 (a rollout of 1,024 in minibatches of
64), except that the critic's loss is halved, so that vf_coef = 0.5 means the same as in CleanRL."""


_LOG = {"lr", "one_minus_gamma", "vf_coef", "max_grad_norm"}
_WIDE, _SHIFTED, _NARROW = range(3)
_RANGES: dict[str, tuple[tuple[float, float] | None, ...]] = {
    "lr": ((1e-5, 1e-1), (1e-6, 1e-2), (1e-4, 3e-3)),
    "one_minus_gamma": ((1e-3, 0.2), (1e-4, 0.05), (3e-3, 0.05)),
    "gae_lambda": ((0.8, 1.0), (0.6, 1.0), (0.9, 0.99)),
    "clip": ((0.02, 0.6), (0.1, 1.0), (0.1, 0.4)),
    "entropy": ((0.0, 0.1), (0.0, 0.2), (0.0, 0.02)),
    "vf_coef": ((0.05, 2.0), (0.01, 1.0), (0.25, 1.0)),
    "max_grad_norm": ((0.05, 5.0), (0.2, 20.0), (0.3, 2.0)),
    "beta1": ((0.5, 0.99), (0.0, 0.99), (0.8, 0.95)),
    "smoothing": ((0.9, 0.999), (0.5, 0.999), (0.97, 0.999)),
    "momentum": ((0.0, 0.99), (0.5, 0.99), None),
}
"""Range of each number in the wide, the shifted and the narrow space."""


def wide() -> ConfigurationSpace:
    """Build the space for an unknown task: wide ranges."""
    return _space(_WIDE, (1, 10), MINIBATCHES, OPTIMIZERS, ADVANTAGES)


def shifted() -> ConfigurationSpace:
    """Build wide ranges that are not centred on good values: the usual ones are 0.29 of a range off the middle."""
    return _space(_SHIFTED, (1, 10), MINIBATCHES, OPTIMIZERS, ADVANTAGES)


def narrow() -> ConfigurationSpace:
    """Build the space of an expert in tuning PPO: narrow ranges."""
    return _space(_NARROW, (3, 10), MINIBATCHES[2:], OPTIMIZERS[:2], ADVANTAGES[:2])


def _space(
    kind: int,
    epochs: tuple[int, int],
    minibatches: Sequence[int],
    optimizers: Sequence[str],
    advantages: Sequence[str],
) -> ConfigurationSpace:
    ranges = {name: bounds for name, row in _RANGES.items() if (bounds := row[kind]) is not None}
    space = space_with_optimizer(ranges, _LOG, optimizers, DEFAULTS)
    space.add(
        Integer("epochs", epochs, default=DEFAULTS["epochs"]),
        OrdinalHyperparameter("minibatches", minibatches, default_value=DEFAULTS["minibatches"]),
        Categorical("advantages", advantages, default=DEFAULTS["advantages"]),
        Categorical("value_clip", [True, False], default=DEFAULTS["value_clip"]),
    )
    return space


def space_with_optimizer(
    ranges: Mapping[str, tuple[float, float]],
    log: Collection[str],
    optimizers: Sequence[str],
    defaults: Mapping[str, Any],
) -> ConfigurationSpace:
    """Build a space of numbers and the choice of an optimizer, on which beta1, smoothing and momentum depend.

    Numbers named in `log` have logarithmic ranges. A number without a default gets the middle of its range.
    """
    optimizer = Categorical("optimizer", optimizers, default=defaults["optimizer"])
    numbers = {
        name: Float(name, bounds, log=name in log, default=defaults.get(name)) for name, bounds in ranges.items()
    }
    space = ConfigurationSpace()
    space.add(optimizer, *numbers.values())
    space.add(*(EqualsCondition(numbers[CHILDREN[name][0]], optimizer, name) for name in optimizers))
    return space
