"""One observation: frozen, plain, and equal to what storage gives back."""

import math
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest

from popbandits.history import Observation


def observed(member: int, round_: int, **known: Any) -> Observation:
    return Observation(member, round_, {"x": 0.5}, **{"score": 1.0} | known if "status" not in known else known)


@pytest.mark.parametrize("name", ["member", "score", "config", "decision"])
def test_an_observation_cannot_be_changed(name: str) -> None:
    with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{name}'"):
        setattr(observed(0, 0), name, 3)


def test_an_observation_keeps_its_own_copy_of_what_it_records() -> None:
    metrics = {"losses": [1.0]}
    observation = observed(0, 0, metrics=metrics)
    metrics["losses"].append(2.0)
    assert observation.metrics == {"losses": [1.0]}


def test_records_become_plain_values() -> None:
    observation = observed(
        np.int64(1),
        np.int32(2),
        score=np.float32(0.5),
        steps=np.int64(3),
        metrics={"a": np.float64(1.5), "b": (1, 2), "c": np.array([[1, 2]]), "d": {"e": None, "f": True}},
    )
    assert observation.metrics == {"a": 1.5, "b": [1, 2], "c": [[1, 2]], "d": {"e": None, "f": True}}
    for value in (observation.member, observation.round, observation.steps):
        assert type(value) is int
    assert (type(observation.score), observation.score) == (float, 0.5)


def test_observations_are_equal_field_by_field_and_nan_equals_nan() -> None:
    failed = observed(0, 0, status="failed", metrics={"loss": [math.nan, 1.0]})
    assert failed == observed(0, 0, status="failed", metrics={"loss": [float("nan"), 1.0]})
    assert failed != observed(0, 0, status="failed", metrics={"loss": [math.nan, 2.0]})
    assert failed != replace(failed, round=1)
    assert failed != "an observation"
    assert observed(0, 0, seconds=1.0) == observed(0, 0, seconds=2.0), "the same happened, on another machine"


def test_an_observation_says_why_its_explorer_sampled() -> None:
    assert observed(0, 0).fallback is None
    assert observed(0, 0, decision={"fallback": "too few"}).fallback == "too few"
