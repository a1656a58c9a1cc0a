"""A wrong argument of `tune`, `Experiment` or `resume` is refused by the name that the user gave it."""

import inspect
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from popbandits import ArgumentError, Experiment, PopbanditsError, Result, SpaceError, resume, tune
from popbandits.population.start import FORMS
from tests.engines.agents import Walker, space

WHOLE = "must be a whole number of at least"
MEMBERS = "must be a whole number from 1 to 1,000,000"
ROUNDS = "must be a whole number from 1 to 1,000,000,000, or None for no set end"
WRONG: dict[str, list[tuple[Any, str]]] = {
    "agent": [
        (
            None,
            "agent must be callable: make_agent(seed) builds an agent, got None; give the class itself, or a function",
        )
    ],
    "space": [(3, "a space is a dict or a ConfigurationSpace, got 3; write for example {'lr': (0.1, 1.0)}")],
    "method": [(3, "method must be an explorer, an object with a method explore, got 3; make one, such as PBT()")],
    "population": [(value, f"population {MEMBERS}, got {value!r}") for value in (0, 10**6 + 1, 2.5, "4", True, None)],
    "rounds": [(value, f"rounds {ROUNDS}, got {value!r}") for value in (0, 1.5, "5", 10**9 + 1)],
    "seed": [(value, f"seed {WHOLE} 0, got {value!r}") for value in (-1, None, "a")],
    "mode": [("best", "mode must be 'max' or 'min', got 'best'")],
    "quantile": [(0.9, "quantile must be above 0 and at most 0.5, got 0.9; 0.25 is usual")],
    "explore": [("some", "explore must be 'replaced' or 'all', got 'some'")],
    "synchronous": [("no", "synchronous must be True or False, got 'no'")],
    "initial_score": [(math.inf, "initial_score must be finite, or None if unknown, got inf")],
    "directory": [
        (3, "directory must be a path, without null characters, got 3"),
        ("a\0b", "directory must be a path, without null characters, got 'a\\x00b'"),
    ],
    "engine": [("gpu", "engine must be one of in-process, threads, processes, ray, slurm, batched, got 'gpu'")],
    "workers": [
        (0, f"workers {WHOLE} 1, got 0"),
        (2, "the in-process engine trains one at a time, got workers=2; use threads"),
    ],
    "resources": [({"cpus": 2}, "only Ray assigns resources, got resources for in-process; use engine='ray'")],
    "round_timeout": [
        (0, "round_timeout must be above 0 seconds, got 0"),
        (
            5,
            "the in-process engine cannot end an agent that hangs, got round_timeout=5; use engine='processes', "
            "or 'threads' to leave it behind",
        ),
    ],
    "max_failures": [(-1, f"max_failures {WHOLE} 0, or None for no limit, got -1")],
    "keep": [("some", f"keep {WHOLE} 0, or 'all', got 'some'")],
    "start": [
        (3, f"{FORMS}, got 3"),
        ([{}] * 5, "start has at most one configuration for each member, got 5 for 4"),
        ([{"z": 1}], "start[0]: 'z': a value needs a parameter, got 1; there are epochs, lr, optimizer, momentum"),
    ],
    "selection": [(3, "selection must be a Selection, got 3; make one, such as Truncation()")],
    "name": [(value, f"name must be a text, got {value!r}") for value in ("", " ", 3)],
    "task": [(value, f"task must be a text, got {value!r}") for value in ("", " ", 3)],
    "slurm": [({}, "only SLURM takes options of its jobs, got slurm= for in-process; use engine='slurm'")],
    "control": [
        (1, "control must be True or False, got 1"),
        (True, "the control trains with the start, got control=True without one; give start"),
    ],
    "evaluations": [(value, f"evaluations {WHOLE} 0, got {value!r}") for value in (-1, 2.5, None)],
    "max_cost": [
        (value, f"max_cost must be above 0, or None for no limit, got {value!r}")
        for value in (0, -1.0, math.inf, "much")
    ],
    "callbacks": [(value, f"callbacks must be a list of View objects, got {value!r}") for value in ("csv", [1], None)],
    "progress": [(value, f"progress must be True, False or a View, got {value!r}") for value in ("no", None, 1)],
}


def test_every_argument_has_a_wrong_value_here() -> None:
    assert list(WRONG) == list(inspect.signature(tune).parameters)


@pytest.mark.parametrize(("name", "value", "message"), [(n, v, m) for n, rows in WRONG.items() for v, m in rows])
def test_tune_names_the_argument_that_is_wrong(
    name: str, value: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = {"agent": Walker, "space": space(), "rounds": 1, "progress": False} | {name: value}
    with pytest.raises(PopbanditsError) as caught:
        tune(**arguments)
    assert str(caught.value) == message
    assert name in message
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(PopbanditsError) as again:
        Experiment(**arguments).make_population()
    assert str(again.value) == message


def test_labels_that_no_record_can_hold_are_refused_before_there_is_a_folder(tmp_path: Path) -> None:
    with pytest.raises(SpaceError, match=r"^'act': JSON holds strings.* got <built-in function sin>"):
        tune(Walker, {"act": [math.sin, math.cos]}, rounds=1, directory=tmp_path / "run", progress=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wrong", [3, [1], {"cpus": -1}, {"cpus": "two"}])
def test_rays_resources_are_amounts_by_name(wrong: Any) -> None:
    with pytest.raises(
        ArgumentError,
        match=r"^resources must be a dict of amounts of at least 0, with cpus and gpus in the plural, got ",
    ):
        Experiment(Walker, space(), engine="ray", resources=wrong)


def test_resume_names_the_argument_that_is_wrong(tmp_path: Path) -> None:
    tune(Walker, space(), rounds=1, directory=tmp_path, progress=False)
    for arguments, message in (
        ({"directory": 3}, "directory must be a path, without null characters, got 3"),
        ({"rounds": 0}, f"rounds {ROUNDS}, got 0"),
        ({"progress": "no"}, "progress must be True, False or a View, got 'no'"),
        ({"progress": None}, "progress must be True, False or a View, got None"),
        ({"workers": 0}, f"workers {WHOLE} 1, got 0"),
        ({"method": "pb3"}, "method must be an explorer or one of random, pbt"),
        ({"population": 8}, "a resumed run keeps its population, got 8;"),
    ):
        with pytest.raises(ArgumentError) as caught:
            resume(**({"directory": tmp_path, "progress": False} | arguments))  # type: ignore[arg-type]
        assert str(caught.value).startswith(message)
    with pytest.raises(ArgumentError, match=r"^directory must be a path, without null characters, got None$"):
        Result(None)  # type: ignore[arg-type]


def test_numbers_may_be_numpys(tmp_path: Path) -> None:
    one, two = np.int64(1), np.int64(2)
    settings: Any = {"population": two, "rounds": two, "seed": one, "keep": one, "max_failures": two}
    result = tune(Walker, space(), directory=tmp_path, initial_score=np.float32(0.5), progress=False, **settings)
    assert resume(tmp_path, rounds=np.int64(3), progress=False).done
    assert [len(result.history), Result(tmp_path).history.size] == [6, 2]
