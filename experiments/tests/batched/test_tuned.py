"""PPO for a whole population under `tune`: stopped and killed, resumed, checked, and diverging."""

import math
import multiprocessing
import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from popbandits import PBT, History, resume, tune
from popbandits.agent import Outcome
from popbandits.history import Event, Observation
from popbandits.storage.store import Store
from popbandits.testing import check_batched
from popbandits.views.view import View
from popbandits_experiments.batched.device import DeviceWorld
from popbandits_experiments.batched.ppo import BatchedPPO, Settings
from popbandits_experiments.batched.spaces import narrow
from popbandits_experiments.batched.tasks.cartpole import CartPole

TINY = Settings(copies=4, rollout=8, updates=1, episodes=2, hidden=8)


class ShortCartPole(CartPole):
    limit = 20


def make(seeds: list[int]) -> BatchedPPO:
    return BatchedPPO(seeds, DeviceWorld(ShortCartPole()), TINY)


def run(directory: Path, agent: Any = make, progress: Any = False) -> Any:
    return tune(
        agent, narrow(), method=PBT(), rounds=4, seed=1, engine="batched", directory=directory, progress=progress
    )


class Stop(View):
    """Ends the run after some observations: by Ctrl-C, or at once and without a word."""

    def __init__(self, after: int, kill: bool = False):
        self.after, self.kill = after, kill

    def told(self, observation: Observation) -> None:
        self.after -= 1
        if self.after == 0 and self.kill:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.after == 0:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> History:
    """A run that nobody disturbed."""
    history: History = run(tmp_path_factory.mktemp("whole")).history
    assert len(history) == 16
    assert any(o.parent is not None and o.parent[0] != o.member for o in history)
    return history


@pytest.mark.slow  # One below keeps the contract, which saves and loads; tests/run/test_kills.py kills batches.
@pytest.mark.parametrize("after", [3, 10])
def test_a_run_that_is_stopped_goes_on_to_the_same_history(after: int, whole: History, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "x", progress=Stop(after))
    assert len(History.load(tmp_path / "x")) == after
    assert list(resume(tmp_path / "x", agent=make, progress=False).history) == list(whole)


@pytest.mark.slow  # As above.
def test_a_run_that_is_killed_goes_on_to_the_same_history(whole: History, tmp_path: Path) -> None:
    # Spawned: a fork of a process with threads may hang.
    process = multiprocessing.get_context("spawn").Process(target=run, args=(tmp_path / "x", make, Stop(7, kill=True)))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert 0 < len(History.load(tmp_path / "x")) <= 7
    assert list(resume(tmp_path / "x", agent=make, progress=False).history) == list(whole)


def test_batched_ppo_keeps_the_contract_of_batched_agents() -> None:
    report = check_batched(make, narrow(), each=False)
    assert report.ok, str(report)


class Diverging(BatchedPPO):
    """Breaks the weights of member 2 in its second interval."""

    calls = 0

    def train(self, configs: Any) -> list[Outcome]:
        self.calls += 1
        if self.calls == 2:
            with torch.no_grad():
                self.state["weights"][2] = math.nan
        return super().train(configs)


def events(directory: Path) -> list[Event]:
    with Store.open(directory, readonly=True) as store:
        return [event for event in store.events() if event.kind in ("raised", "score")]


def test_a_member_that_diverges_fails_alone(whole: History, tmp_path: Path) -> None:
    make_diverging = partial(Diverging, world=DeviceWorld(ShortCartPole()), settings=TINY)
    result = run(tmp_path / "x", make_diverging)
    assert result.done
    assert [o.key for o in result.history if o.failed] == [(2, 1)]
    assert [(event.kind, event.member, event.round) for event in events(tmp_path / "x")] == [("score", 2, 1)]
    unharmed = [(m, r) for r in range(2) for m in range(4) if (m, r) != (2, 1)]
    assert [result.history.find(key) for key in unharmed] == [whole.find(key) for key in unharmed]
    after = result.history.find((2, 2))
    assert after.parent[1] == 1  # Another's weights,
    assert after.parent[0] != 2
    assert math.isfinite(after.score)  # which it goes on with.
