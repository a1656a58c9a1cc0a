"""Global random generators, which threads share: a run says so, once, if its members used them."""

import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from popbandits import Observation, PopbanditsWarning, View, tune
from popbandits.engines.generators import read_states, used_since
from tests.engines.agents import Walker, space


class DrawsFromPython(Walker):
    def train(self, config: dict[str, Any]) -> Any:
        self.weights = self.weights + 0.01 * random.random()
        return super().train(config)


class SeedsNumPy(Walker):
    def __init__(self, seed: int):
        np.random.seed(seed)  # noqa: NPY002 (what users do)
        super().__init__(seed)


class Draws(View):
    """A callback that draws, which does not concern the members."""

    def told(self, observation: Observation) -> None:
        random.random()


def said(agent: Any, folder: Path, **settings: Any) -> list[str]:
    """Return the warnings of a run."""
    made: dict[str, Any] = {"population": 3, "rounds": 3, "engine": "threads", "progress": False} | settings
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tune(agent, space(), directory=folder, **made)
    assert all(each.category is PopbanditsWarning for each in caught)
    return [str(each.message) for each in caught]


@pytest.mark.parametrize(("agent", "library"), [(DrawsFromPython, "random"), (SeedsNumPy, "numpy.random")])
def test_members_in_threads_that_use_a_global_generator_are_warned_about_once(
    agent: Any, library: str, tmp_path: Path
) -> None:
    assert said(agent, tmp_path / "run") == [
        f"engine='threads' lets members share the global generator of {library}, which was used while they trained: "
        "the same seed may not give the same history; use engine='processes', or draw from generators of the agent's "
        "own"
    ]


@pytest.mark.parametrize(
    ("agent", "settings"),
    [
        (Walker, {}),
        (Walker, {"callbacks": [Draws()]}),
        (DrawsFromPython, {"workers": 1}),
        (DrawsFromPython, {"engine": "in-process"}),
        (DrawsFromPython, {"engine": "processes", "workers": 2}),
    ],
    ids=["generators of their own", "a callback draws", "one thread", "in process", "processes"],
)
def test_runs_whose_members_share_no_generator_are_not_warned_about(
    agent: Any, settings: dict[str, Any], tmp_path: Path
) -> None:
    assert said(agent, tmp_path / "run", **settings) == []


def test_what_was_used_is_named_and_what_was_only_read_is_not() -> None:
    before = read_states()
    assert used_since(before) == []
    random.random()
    np.random.normal()  # noqa: NPY002 (what users do)
    assert used_since(before) == ["random", "numpy.random"]
