"""Log ranges in a dict, ranges that may not be meant, and ranges in the words of other libraries."""

import math
from typing import Any

import numpy as np
import pytest
from ConfigSpace import ConfigurationSpace, Constant, Float, Integer

from popbandits import PBT, Population, Space, SpaceError, log


def test_a_log_range_is_that_of_configspace() -> None:
    ours = Space({"lr": log(1e-5, 1e-1), "net": {"batch": log(8, 512)}})
    theirs = Space(
        {"lr": Float("lr", (1e-5, 1e-1), log=True), "net": {"batch": Integer("net.batch", (8, 512), log=True)}}
    )
    assert ours.configuration_space == theirs.configuration_space
    assert ours.to_json() == theirs.to_json()
    assert [(p.name, p.kind, p.log) for p in ours.numerical] == [("lr", "float", True), ("net.batch", "integer", True)]
    assert Space.from_json(ours.to_json()).configuration_space == ours.configuration_space


@pytest.mark.parametrize("bounds", [(1e-4, 1), (np.float32(0.5), 2), (1, 2.5), (np.int64(1), np.float64(1.5))])
def test_a_bound_with_a_fraction_makes_a_log_range_of_floats(bounds: tuple[Any, Any]) -> None:
    [parameter] = Space({"a": log(*bounds)}).numerical
    assert (parameter.kind, parameter.lower, parameter.upper) == ("float", float(bounds[0]), float(bounds[1]))


def test_the_default_of_a_log_range_is_what_a_member_starts_with() -> None:
    space = {
        "lr": log(1e-5, 1e-1, default=3e-4),
        "net": {"batch": log(8, 512, default=np.int64(16))},
        "decay": log(1e-6, 1e-2),
    }
    first = Population(space, PBT(), size=2, start="defaults").ask()[0].config
    assert first == {"lr": 3e-4, "net": {"batch": 16}, "decay": pytest.approx(1e-4)}
    made = Space(space).configuration_space
    assert made["lr"].default_value == 3e-4
    assert made["net.batch"].default_value == 16
    assert Space({"lr": log(1e-5, 1e-1, default=1e-5)}).complete({}) == {"lr": 1e-5}


def test_a_log_range_prints_as_it_is_written() -> None:
    assert repr(log(8, 512)) == "log(8, 512)"
    assert repr(log(1e-4, 1.0, default=0.5)) == "log(0.0001, 1.0, default=0.5)"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            log(0.0, 1.0),
            "a log range must be above zero, got log(0.0, 1.0); raise the lower bound, or use a linear range",
        ),
        (log(0, 8), "a log range must be above zero, got log(0, 8); raise the lower bound, or use a linear range"),
        (log(0, 1.0), "a log range must be above zero, got log(0, 1.0); raise the lower bound, or use a linear range"),
        (
            log(-1.0, 1.0),
            "a log range must be above zero, got log(-1.0, 1.0); raise the lower bound, or use a linear range",
        ),
        (log(1.0, 0.1), "the lower bound comes first, got log(1.0, 0.1); swap the two"),
        (log(0.1, 0.1), "the bounds must differ, got log(0.1, 0.1); write the bare value for a constant"),
        (log(0.1, math.inf), "bounds must be finite, got log(0.1, inf); give the largest range you would try"),
        (log(1, math.inf), "bounds must be finite, got log(1, inf); give the largest range you would try"),
        (log(1e-14, 1.0), "ConfigSpace keeps 13 decimals of a bound, got log(1e-14, 1.0); use larger units"),
        (log(1, 2**50), f"an integer may be at most 2**40 in size, got log(1, {2**50}); use a float range"),
        (log("a", 1.0), "a log range has two numbers, got log('a', 1.0); write log(lower, upper)"),  # type: ignore[arg-type]
        (log(True, 8), "a log range has two numbers, got log(True, 8); write log(lower, upper)"),
        (
            log(1, 1e5),
            "a log range has two floats or two whole numbers, got log(1, 100000.0); write log(1, 100000) for whole "
            "numbers, or log(1.0, 100000.0) for all numbers between",
        ),
        (
            log(0.1, 1.0, default=0.01),
            "the default must be within the bounds, got log(0.1, 1.0, default=0.01); widen the range, or move it",
        ),
        (
            log(0.1, 1.0, default=math.nan),
            "the default must be within the bounds, got log(0.1, 1.0, default=nan); widen the range, or move it",
        ),
        (log(0.1, 1.0, default="half"), "the default must be a number, got log(0.1, 1.0, default='half'); convert it"),  # type: ignore[arg-type]
        (
            log(8, 512, default=16.0),
            "the default must be a whole number, as its bounds are, got log(8, 512, default=16.0); convert it",
        ),
    ],
    ids=repr,
)
def test_a_log_range_that_cannot_be_one_is_refused(given: Any, message: str) -> None:
    with pytest.raises(SpaceError) as caught:
        Space({"net": {"lr": given}})
    assert str(caught.value) == f"'net.lr': {message}"


def test_a_log_range_in_a_configuration_space_is_refused() -> None:
    with pytest.raises(
        SpaceError, match=r"^'lr': log\(\) belongs in a dict, got log\(0.1, 1.0\) in a ConfigurationSpace"
    ):
        Space(ConfigurationSpace({"lr": log(0.1, 1.0)}))  # type: ignore[dict-item]


# What may not be meant


def linear(name: str, bounds: str, above: str, instead: str) -> str:
    return f"{name}: {bounds} is linear, so that most values tried are above {above}; write {instead}"


def pair(name: str, labels: str, instead: str) -> str:
    return f"{name}: {labels} is a choice of two values, a range is a tuple; write {instead} for all numbers between"


def group(name: str, given: str, makes: str, instead: str) -> str:
    return f"{name}: {given} is a group and makes {makes}; write {instead} to tune {name} itself"


@pytest.mark.parametrize(
    ("space", "doubts"),
    [
        ({"lr": (1e-4, 1e-1)}, [linear("lr", "(0.0001, 0.1)", "0.01", "log(0.0001, 0.1)")]),
        ({"b": (1, 1024)}, [linear("b", "(1, 1024)", "102.4", "log(1, 1024)")]),
        ({"net": {"lr": Float("lr", (1e-4, 1.0))}}, [linear("net.lr", "(0.0001, 1.0)", "0.1", "log(0.0001, 1.0)")]),
        (
            ConfigurationSpace({"lr": (1e-4, 1.0), "b": (1, 2000)}),
            [
                linear("b", "(1, 2000)", "200", "Integer('b', (1, 2000), log=True)"),
                linear("lr", "(0.0001, 1.0)", "0.1", "Float('lr', (0.0001, 1.0), log=True)"),
            ],
        ),
        ({"lr": (2e-4, 1e-1), "a": (0.0, 1e9), "b": (-1e-3, 1e3), "c": log(1e-9, 1e3), "d": (2, 1999)}, []),
        ({"lr": [1e-5, 1e-1]}, [pair("lr", "[1e-05, 0.1]", "log(1e-05, 0.1)")]),
        ({"d": [0, 0.5]}, [pair("d", "[0, 0.5]", "(0.0, 0.5)")]),
        ({"a": [8, 512], "b": [0.2, 0.1], "c": [True, 2.0], "d": [0.1, 0.2, 0.3], "e": ["a", 0.1]}, []),
        (
            {"lr": {"low": 1e-5, "high": 1e-1}},
            [group("lr", "{'low': 1e-05, 'high': 0.1}", "lr.low and lr.high", "log(1e-05, 0.1)")],
        ),
        ({"n": {"b": {"values": [32, 64]}}}, [group("n.b", "{'values': [32, 64]}", "n.b.values", "[32, 64]")]),
        ({"clip": {"min": (0.1, 0.2), "max": (0.5, 0.9)}, "net": {"value": 3}, "a": {"min": 0, "max": 1, "of": 2}}, []),
    ],
)
def test_what_may_not_be_meant_is_doubted_with_what_to_write(space: Any, doubts: list[str]) -> None:
    made = Space(space)
    assert made.doubts == doubts
    assert Space.from_json(made.to_json()).doubts == []  # It can no longer be changed.


# In the words of other libraries


@pytest.mark.parametrize(
    ("described", "instead"),
    [
        ({"type": "loguniform", "low": 1e-5, "high": 1e-1}, "log(1e-05, 0.1)"),
        ({"type": "uniform", "bounds": [0.1, 1.0]}, "(0.1, 1.0)"),
        ({"type": "float", "lower": 0.1, "upper": 0.2, "log": True}, "log(0.1, 0.2)"),
        ({"distribution": "log_uniform_values", "min": 0.1, "max": 0.2}, "log(0.1, 0.2)"),
        ({"distribution": "int_uniform", "min": 1, "max": 2000}, "log(1, 2000)"),
        ({"_type": "choice", "_value": ["adam", "sgd"]}, "['adam', 'sgd']"),
        ({"type": "categorical", "choices": (1, 2)}, "[1, 2]"),
    ],
)
def test_a_described_range_is_refused_with_what_to_write(described: dict[str, Any], instead: str) -> None:
    with pytest.raises(SpaceError) as caught:
        Space({"net": {"lr": described}})
    key, kind = next(iter(described.items()))
    assert str(caught.value) == (
        f"'net.lr': a dict is a group of parameters, not the description of one, got {described}; write {instead}, or "
        f"Constant({key!r}, {kind!r}) if net.lr.{key} is a constant"
    )
    assert Space({"net": {"lr": described | {key: Constant(key, kind)}}})


@pytest.mark.parametrize(
    "given",
    [
        {"type": ["uniform", "normal"], "low": 0.1, "high": 0.2},
        {"type": "adam", "low": 0.1, "high": 0.2},
        {"type": "uniform", "low": (0.1, 0.2), "high": (0.3, 0.4)},
        {"type": "uniform", "scale": 0.1},
        {"grid_search": True},
    ],
)
def test_a_group_that_describes_no_range_is_a_group(given: dict[str, Any]) -> None:
    assert Space({"init": given}).names == tuple(sorted(f"init.{key}" for key in given))
