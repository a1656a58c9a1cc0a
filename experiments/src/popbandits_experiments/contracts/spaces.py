"""Small spaces of every kind that a user may write."""

from collections.abc import Callable
from typing import Any

import ConfigSpace as cs

from popbandits.space import Space


def spaces() -> dict[str, Space]:
    """Build one space of each kind, by name.

    >>> list(spaces())[:3]
    ['one float', 'a log float', 'integers']
    """
    return {name: Space(build()) for name, build in _SPACES.items()}


def _conditional(
    hyperparameters: dict[str, Any], *conditions: tuple[str, Callable[..., Any], str, Any]
) -> cs.ConfigurationSpace:
    """Build a space from hyperparameters and conditions: child, kind of condition, parent, value of the parent."""
    made = cs.ConfigurationSpace(hyperparameters)
    made.add(*(kind(made[child], made[parent], value) for child, kind, parent, value in conditions))
    return made


def _conditional_numbers() -> cs.ConfigurationSpace:
    numbers = {"momentum": (0.0, 0.99), "beta": cs.Float("beta", (0.8, 0.999)), "warmup": (0, 10), "clip": (0.1, 1.0)}
    return _conditional(
        {"optimizer": ["sgd", "adam", "none"], **numbers},
        ("momentum", cs.EqualsCondition, "optimizer", "sgd"),
        ("beta", cs.EqualsCondition, "optimizer", "adam"),
        ("warmup", cs.InCondition, "optimizer", ["sgd", "adam"]),
    )


def _conditional_labels() -> cs.ConfigurationSpace:
    labels = {"network": ["mlp", "cnn", "resnet"], "pooling": ["max", "mean"], "activation": ["relu", "tanh", "elu"]}
    return _conditional(
        {**labels, "note": cs.Constant("note", "pooled"), "lr": (0.0, 1.0)},
        ("pooling", cs.InCondition, "network", ["cnn", "resnet"]),
        ("activation", cs.NotEqualsCondition, "network", "resnet"),
        ("note", cs.EqualsCondition, "pooling", "max"),
    )


def _nested_conditions() -> cs.ConfigurationSpace:
    """Build a space with chains of conditions: a label activates an integer, the integer a float, the float a label."""
    size, power = cs.OrdinalHyperparameter("size", ["s", "m", "l"]), cs.Float("power", (0.1, 10.0), log=True)
    labels = {"kind": ["deep", "flat"], "schedule": ["linear", "cosine"], "size": size}
    return _conditional(
        {**labels, "depth": (1, 6), "dropout": (0.0, 0.9), "power": power, "margin": (0.0, 1.0)},
        ("depth", cs.EqualsCondition, "kind", "deep"),
        ("dropout", cs.GreaterThanCondition, "depth", 2),
        ("schedule", cs.GreaterThanCondition, "dropout", 0.3),
        ("power", cs.EqualsCondition, "schedule", "cosine"),
        ("margin", cs.GreaterThanCondition, "size", "s"),
    )


def _forbidden() -> cs.ConfigurationSpace:
    """Build a space that forbids a pair of labels, a label with a range, an order of two numbers, and a level."""
    made = cs.ConfigurationSpace(
        {"loss": ["l1", "l2", "huber"], "norm": ["batch", "layer"], "low": (0.0, 1.0), "high": (0.0, 1.0), "k": (1, 5)}
    )
    made["high"].default_value = 1.0  # ConfigSpace wants a legal default.
    made.add(
        cs.ForbiddenAndConjunction(
            cs.ForbiddenEqualsClause(made["loss"], "huber"), cs.ForbiddenEqualsClause(made["norm"], "layer")
        ),
        cs.ForbiddenAndConjunction(
            cs.ForbiddenEqualsClause(made["loss"], "l2"), cs.ForbiddenGreaterThanClause(made["high"], 0.6)
        ),
        cs.ForbiddenGreaterThanRelation(made["low"], made["high"]),
        cs.ForbiddenEqualsClause(made["k"], 4),
    )
    return made


def _priors() -> cs.ConfigurationSpace:
    return cs.ConfigurationSpace(
        {
            "lr": cs.Float("lr", (1e-4, 1.0), log=True, distribution=cs.Normal(0.01, 0.1)),
            "decay": cs.Float("decay", (0.0, 1.0), distribution=cs.Beta(2, 5)),
            "layers": cs.Integer("layers", (1, 9), distribution=cs.Normal(4, 2)),
            "aug": cs.Categorical("aug", ["crop", "flip", "none"], weights=[1, 2, 5]),
        }
    )


_SPACES: dict[str, Callable[[], Any]] = {
    "one float": lambda: {"lr": (0.0, 1.0)},
    "a log float": lambda: {"lr": cs.Float("lr", (1e-5, 1e-1), log=True)},
    "integers": lambda: {"depth": (1, 4), "width": (-100, 1000)},
    "log integers": lambda: {"batch": cs.Integer("batch", (1, 1024), log=True), "lr": (0.1, 0.2)},
    "ordinals": lambda: {
        "size": cs.OrdinalHyperparameter("size", ["s", "m", "l", "xl"]),
        "power": cs.OrdinalHyperparameter("power", [1, 10, 100]),
    },
    "labels of every type": lambda: {"choice": ["relu", 3, 0.5, True, None, (3, "same")], "lr": (0.0, 1.0)},
    "several categoricals": lambda: {"a": ["x", "y"], "b": ["x", "y", "z"], "c": [True, False], "lr": (0.0, 1.0)},
    "conditional numbers": _conditional_numbers,
    "conditional labels": _conditional_labels,
    "nested conditions": _nested_conditions,
    "forbidden clauses": _forbidden,
    "constants": lambda: {"seed": 7, "name": None, "lr": (0.0, 1.0), "only": ["one"], "aug": ["crop", "flip"]},
    "a nested dict": lambda: {
        "optimizer": {"lr": (0.1, 1.0), "kind": {"name": ["sgd", "adam"], "nesterov": [True, False]}},
        "depth": (1, 5),
    },
    "categoricals only": lambda: {"a": ["x", "y", "z"], "b": [1, 2]},
    "numbers only": lambda: {"a": (0.0, 1.0), "b": cs.Float("b", (1e-3, 1e3), log=True), "c": (0, 9), "d": (-1.0, 1.0)},
    "twenty labels": lambda: {"arm": [f"arm {i}" for i in range(20)], "x": (0.0, 1.0)},
    "priors and weights": _priors,
}
