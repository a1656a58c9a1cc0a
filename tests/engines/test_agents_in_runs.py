"""What a run does with its agents: a seed of its own for each, a configuration of its own, and no second chance."""

import math
from collections import Counter
from functools import partial, wraps
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from popbandits import PBT, CoCaBO, History
from popbandits.agent import Outcome
from popbandits.engines.making import build
from popbandits.engines.work import as_outcome
from popbandits.errors import AgentError, RunError
from popbandits.run import resume, tune
from tests.engines.agents import misbehave

SPACE = {"x": (0.0, 1.0)}


class Plain:
    """Scores what it is told to, and notes everything that is done with it."""

    made: list["Plain"]  # every one of a test, which sets it

    def __init__(self, seed: int):
        self.seed, self.trained, self.closed, self.failed = seed, 0, 0, False
        self.made.append(self)

    def train(self, config: dict[str, Any]) -> float:
        assert not self.closed, "nobody trains what was closed"
        self.trained += 1
        return float(config["x"])

    def save(self, directory: Path) -> None:
        (directory / "trained").write_text(str(self.trained))

    def load(self, directory: Path) -> None:
        int((directory / "trained").read_text())

    def close(self) -> None:
        self.closed += 1


@pytest.fixture(autouse=True)
def made() -> list[Plain]:
    Plain.made = []
    return Plain.made


# Seeds


def seeds(made: list[Plain], directory: Path, **settings: Any) -> list[int]:
    made.clear()
    tune(Plain, SPACE, CoCaBO(), population=3, rounds=3, directory=directory, progress=False, **settings)
    return [agent.seed for agent in made]


def test_every_agent_has_a_seed_of_its_own_and_the_same_in_the_same_run(made: list[Plain], tmp_path: Path) -> None:
    """Every interval of CoCaBO is a fresh start."""
    first = seeds(made, tmp_path / "1")
    assert len(set(first)) == len(first) == 9
    assert seeds(made, tmp_path / "2") == first
    assert not set(seeds(made, tmp_path / "3", seed=1)) & set(first)


# Configurations


class Changes(Plain):
    """Trains with half of what it is given, changes its configuration in place, and says what it did."""

    def train(self, config: dict[str, Any]) -> float:
        config["net"]["x"] /= 2.0
        self.config = config
        return float(config["net"]["x"])

    def applied(self) -> dict[str, Any]:
        return self.config


def test_an_agent_that_changes_its_configuration_does_not_change_what_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(AgentError, match=r"must train with the hyperparameters it is given.*net\.x is .*expected"):
        tune(Changes, {"net": SPACE}, PBT(), directory=tmp_path, progress=False)


# Agents that failed


class FailsFrom(Plain):
    """Trains well for so many intervals of its lineage, and fails from then on."""

    well = 2

    def load(self, directory: Path) -> None:
        self.trained = int((directory / "trained").read_text())

    def train(self, config: dict[str, Any]) -> float:
        assert not self.failed, "an agent that failed must not train again"
        score = super().train(config)
        self.failed = self.trained > self.well
        if self.failed:
            misbehave("raise")
        return score


def test_an_agent_that_failed_is_closed_and_another_takes_its_place(made: list[Plain], tmp_path: Path) -> None:
    with pytest.raises(RunError, match="the last failure: ValueError: the loss exploded"):
        tune(FailsFrom, SPACE, PBT(), directory=tmp_path, progress=False)
    assert sum(agent.failed for agent in made) == len(made) == 8
    assert all(agent.closed == 1 for agent in made)


def test_a_fresh_start_is_made_with_a_new_agent(made: list[Plain], tmp_path: Path) -> None:
    result = tune(Plain, SPACE, CoCaBO(), population=3, rounds=4, directory=tmp_path, progress=False)
    assert len(result.history) == len(made) == 12
    assert {agent.trained for agent in made} == {1}
    assert {agent.closed for agent in made} == {1}


def test_an_agent_that_did_not_fail_is_kept_from_interval_to_interval(made: list[Plain], tmp_path: Path) -> None:
    tune(Plain, SPACE, PBT(), rounds=5, directory=tmp_path, progress=False)
    assert [(agent.trained, agent.closed) for agent in made] == [(5, 1)] * 4


# Runs that only fail


@pytest.mark.parametrize(("population", "failures"), [(2, 8), (6, 12)])
def test_a_run_in_which_nothing_works_any_more_ends_after_two_failures_of_each_member(
    population: int, failures: int, tmp_path: Path
) -> None:
    """Without a last round it would go on for ever. Eight at least: four of two members may be bad luck."""
    with pytest.raises(RunError, match=rf"a run ends when the last {failures} intervals failed"):
        tune(FailsFrom, SPACE, PBT(), population=population, rounds=None, directory=tmp_path, progress=False)
    statuses = [o.status for o in History.load(tmp_path)]
    assert Counter(statuses) == {"completed": 2 * population, "failed": failures}


def test_one_failure_is_told_in_the_singular_and_its_text_ends_once(tmp_path: Path) -> None:
    class Ends(Plain):
        def train(self, config: dict[str, Any]) -> float:
            raise ValueError("The loss exploded.")

    with pytest.raises(RunError, match=r"1 interval failed and max_failures is 0; .* exploded\. Everything so far"):
        tune(Ends, SPACE, PBT(), max_failures=0, directory=tmp_path, progress=False)


def test_one_interval_that_completes_is_enough_to_go_on(tmp_path: Path) -> None:
    intervals = count(1)

    class FailsMostly(Plain):
        def train(self, config: dict[str, Any]) -> float:
            return super().train(config) if next(intervals) % 6 == 0 else math.nan

    result = tune(FailsMostly, SPACE, PBT(), population=6, rounds=10, directory=tmp_path, progress=False)
    assert result.done
    assert sum(o.failed for o in result.history) == 50


def test_a_run_that_only_failed_can_be_resumed_when_its_agent_is_mended(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="the last 8 intervals failed"):
        tune(FailsFrom, SPACE, PBT(), rounds=6, directory=tmp_path, progress=False)
    result = resume(tmp_path, agent=Plain, progress=False)
    assert result.done
    assert len(result.history) == 24


# Scores


@pytest.mark.parametrize("returned", [None, "3", b"3", True, [1.0], {}, 1j, object()], ids=lambda it: type(it).__name__)
def test_what_is_no_score_is_refused_in_words(returned: Any) -> None:
    for given in (returned, Outcome(returned)):
        with pytest.raises(AgentError, match=r"train must return a number or an Outcome, got .*; return the score"):
            as_outcome(given)


@pytest.mark.parametrize("steps", [0, -1, math.inf, math.nan, True, "9"])
def test_steps_are_a_positive_number_or_unknown(steps: Any) -> None:
    with pytest.raises(AgentError, match=f"steps must be a positive number, or None if unknown, got {steps!r}"):
        as_outcome(Outcome(1.0, steps=steps))
    found = as_outcome(Outcome(np.float32(1.5), steps=np.int64(3)))
    assert (type(found.score), found.score, type(found.steps), found.steps) == (float, 1.5, float, 3.0)
    assert as_outcome(2) == Outcome(2.0)


def keywords(**given: Any) -> Any:
    return Plain(given)  # type: ignore[arg-type]


def optional(*, other: int = 0) -> Any:
    return Plain(other)


def by_name(*, seed: int) -> Any:
    return Plain(seed)


@pytest.mark.parametrize(
    ("maker", "given"),
    [
        (Plain, 7),
        (lambda anything, more=1: Plain((anything, more)), (7, 1)),
        (lambda *given: Plain(given), (7,)),
        (lambda: Plain(0), 0),
        (by_name, 7),
        (keywords, {}),
        (optional, 0),
        (lambda width=64: Plain(width), 64),  # It is not asking for a seed.
        (lambda config=None: Plain(config), None),
        (lambda seed=0, width=64: Plain((seed, width)), (7, 64)),
        (lambda width=64, seed=0: Plain((seed, width)), (7, 64)),
        (lambda random_state=None: Plain(random_state), 7),
        (wraps(Plain)(lambda number: Plain(number)), 7),
        (partial(lambda width, seed: Plain((seed, width)), width=64), (7, 64)),
        (partial(lambda width, seed: Plain((seed, width)), 64), (7, 64)),
    ],
)
def test_whoever_makes_agents_is_given_the_seed_if_it_takes_one(maker: Any, given: Any) -> None:
    assert build(maker, 7).seed == given  # type: ignore[attr-defined]


class Configured(Plain):
    def __init__(self, config: Any):
        super().__init__(config["seed"])


class ConfiguredToo(Plain):
    def __init__(self, cfg: Any, seed: int):
        super().__init__(seed)


def objective(trial: Any) -> float:
    return float(trial.suggest_float("lr", 0.0, 1.0))


def needs_more(environment: str, seed: int = 0) -> Any:
    return Plain(seed)


CALLED = "make_agent is called with a seed, and nothing else, got "
IN_TRAIN = "; hyperparameters change as it trains: take them in train(config), and the seed or nothing here"
CLASS = (
    "write a class whose train(config) trains for one interval and returns the score, with save and load for its state"
)
RETURNS = "make_agent(seed) must return an agent, an object with train, save and load, got "


@pytest.mark.parametrize(
    ("maker", "message"),
    [
        (Configured, f"{CALLED}Configured(config: Any){IN_TRAIN}"),
        (ConfiguredToo, f"{CALLED}ConfiguredToo(cfg: Any, seed: int){IN_TRAIN}"),
        (objective, f"{CALLED}objective(trial: Any) -> float, which looks like an objective function; {CLASS}"),
        (lambda x: x**2, f"{RETURNS}49, as an objective function returns; {CLASS}"),
        (lambda x: np.float32(0.5), f"{RETURNS}{np.float32(0.5)!r}, as an objective function returns; {CLASS}"),
        (
            needs_more,
            f"{CALLED}needs_more(environment: str, seed: int = 0) -> Any; give the other arguments with "
            "functools.partial, or in a function that takes the seed",
        ),
    ],
)
def test_whoever_cannot_make_agents_is_told_how(maker: Any, message: str) -> None:
    with pytest.raises(AgentError) as caught:
        build(maker, 7)
    assert str(caught.value).replace("typing.Any", "Any") == message
