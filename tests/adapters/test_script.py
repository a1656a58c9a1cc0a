"""A training script as an agent: it runs from its top to its next yield, and what it keeps comes back."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from popbandits import History, Outcome, resume, tune
from popbandits.adapters.script import ScriptAgent, ScriptRun, script
from popbandits.errors import AgentError
from popbandits.testing import check_agent
from tests.adapters.checking import flawless, saved

SPACE = {"lr": (0.01, 0.1), "optimizer": ["Adam", "SGD"], "decay": (0.5, 1.0)}
CLOSED: list[int] = []


@script
def cleanrl(config: dict[str, Any], run: ScriptRun) -> Any:
    """Train as the scripts of cleanrl do: everything at the top, then a loop that anneals the learning rate."""
    network = nn.Linear(3, 1)
    optimizer = getattr(torch.optim, config["optimizer"])(network.parameters(), lr=config["lr"])
    world = np.random.default_rng(run.seed)
    kept = run.keep(network=network, optimizer=optimizer, steps=0, returns=np.zeros(2))
    try:
        while True:
            for step in range(4):
                optimizer.param_groups[0]["lr"] = config["lr"] * config["decay"] ** step
                x = torch.as_tensor(world.normal(size=(8, 3)), dtype=torch.float32)
                loss = ((network(x) - x.sum(1, keepdim=True)) ** 2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                kept.steps += 1
            kept.returns[kept.steps // 4 % 2] = -loss.item()
            yield Outcome(float(kept.returns.sum()), steps=4, metrics={"steps": kept.steps})
    finally:
        CLOSED.append(run.round)


def test_it_passes_the_check() -> None:
    flawless(check_agent(cleanrl, SPACE))


def test_a_run_of_a_script_can_be_resumed_by_its_folder_alone(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"population": 2, "seed": 1, "progress": False}
    whole = tune(cleanrl, SPACE, rounds=4, directory=tmp_path / "whole", **settings)
    tune(cleanrl, SPACE, rounds=2, directory=tmp_path / "parts", **settings)
    resume(tmp_path / "parts", rounds=4, progress=False)
    assert [o.score for o in History.load(tmp_path / "parts")] == [o.score for o in whole.history]
    assert [o.metrics["steps"] for o in whole.history] == [4, 4, 8, 8, 12, 12, 16, 16]


def test_what_is_kept_comes_back_and_options_do_not(tmp_path: Path) -> None:
    agent = cleanrl(0)
    agent.train({"lr": 0.1, "optimizer": "Adam", "decay": 1.0})
    other = cleanrl(1)
    other.load(saved(agent, tmp_path / "a"))
    outcome = other.train({"lr": 0.02, "optimizer": "Adam", "decay": 0.5})
    assert isinstance(outcome, Outcome)
    assert outcome.metrics == {"steps": 8}
    assert other.applied() == {"lr": 0.02}  # As training began; then the script annealed it.


def test_a_script_is_closed_at_the_end_of_its_interval() -> None:
    CLOSED.clear()
    agent = cleanrl(0)
    agent.assigned(3, 17)
    agent.train({"lr": 0.1, "optimizer": "SGD", "decay": 1.0})
    assert CLOSED == [17]


def test_a_function_that_returns_its_score_will_do() -> None:
    def train(config: dict[str, Any], run: ScriptRun) -> float:
        return float(run.keep(count=config["start"]).count) + (0.5 if run.fresh else 0)

    agent = ScriptAgent(train, seed=0)
    assert [agent.train({"start": 3}), agent.train({"start": 9})] == [3.5, 3.0]


def test_a_tensor_that_an_optimizer_trains_is_trained_in_every_interval() -> None:
    def train(config: dict[str, Any], run: ScriptRun) -> float:
        weight = torch.zeros(1, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=config["lr"])
        run.keep(weight=weight, optimizer=optimizer)
        loss = ((weight - 3) ** 2).sum()
        loss.backward()
        optimizer.step()
        return -loss.item()

    agent = ScriptAgent(train, seed=0)
    first, second, third = (agent.train({"lr": 0.1}) for _ in range(3))
    assert first < second < third


def run_once(body: Any) -> None:
    ScriptAgent(body, seed=0).train({"lr": 0.1})


def keeps_twice(config: dict[str, Any], run: ScriptRun) -> Any:
    run.keep(a=1)
    run.keep(b=2)
    yield 0.0


def keeps_nothing(config: dict[str, Any], run: ScriptRun) -> Any:
    yield 0.0


def keeps_no_names(config: dict[str, Any], run: ScriptRun) -> Any:
    run.keep()
    yield 0.0


def keeps_a_world(config: dict[str, Any], run: ScriptRun) -> Any:
    run.keep(world=object())
    yield 0.0


def ends(config: dict[str, Any], run: ScriptRun) -> Any:
    run.keep(a=1)
    yield from ()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (keeps_twice, "keep\\(\\) is called once in an interval"),
        (keeps_nothing, "a script must name what its training continues from, got no call of keep"),
        (keeps_no_names, "keep\\(\\) must name what training continues from, got nothing"),
        (keeps_a_world, "'world': what is kept must have a state_dict.* got object"),
        (ends, "a script must yield its score, but ended without one"),
    ],
)
def test_wrong_use_is_named(body: Any, message: str) -> None:
    with pytest.raises(AgentError, match=message):
        run_once(body)


def test_a_value_that_was_not_named_cannot_be_kept() -> None:
    def train(config: dict[str, Any], run: ScriptRun) -> float:
        run.keep(steps=0).step = 1  # type: ignore[attr-defined]
        return 0.0

    with pytest.raises(AttributeError, match="only what keep\\(\\) was given is kept, got 'step'"):
        run_once(train)
