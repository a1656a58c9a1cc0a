"""Failures on the batched engine: whose they are, and how a batch goes on after them."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from popbandits import CoCaBO, History, RandomSearch, resume
from popbandits.errors import AgentError, RunError
from popbandits.history import Observation
from popbandits.views.view import View
from tests.engines.agents import Walker
from tests.engines.batches import Counting, Walkers, events, one_by_one, stopped, tuned


class Wild(Walker):
    """Diverges with some hyperparameters, and its weights with it."""

    def train(self, config: dict[str, Any]) -> Any:
        super().train(config)
        if config["optimizer"] == "sgd" and config["epochs"] > 2:
            self.weights = self.weights * np.nan
        return -float(np.sum(self.weights**2))


class WildWalkers(Walkers):
    """The same, in one array."""

    def train(self, configs: list[dict[str, Any]]) -> Any:
        super().train(configs)
        for member, config in enumerate(configs):
            if config["optimizer"] == "sgd" and config["epochs"] > 2:
                self.weights[member] = np.nan
        return -(self.weights**2).sum(axis=1)


@pytest.mark.parametrize(
    "settings",
    [
        {"synchronous": True},
        {"synchronous": False},
        {"method": RandomSearch()},  # A member that failed goes on from its own last checkpoint.
    ],
    ids=str,
)
def test_a_member_that_diverges_fails_alone(settings: dict[str, Any], tmp_path: Path) -> None:
    settings = settings | {"population": 6, "rounds": 5, "explore": "all"}
    result = tuned(WildWalkers, tmp_path / "batch", **settings)
    assert list(result.history) == list(one_by_one(tmp_path, Wild, **settings))
    failed = [o.key for o in result.history if o.failed]
    assert 0 < len(failed) < 20
    assert [(e.member, e.round) for e in events(tmp_path / "batch", "score")] == failed


class Trouble(Counting):
    """Does something in the call of a given number."""

    def __init__(self, seeds: list[int], done: list[Any], trouble: Callable[["Trouble"], Any], call: int = 2):
        super().__init__(seeds, done)
        self.trouble, self.call = trouble, call

    def train(self, configs: list[dict[str, Any]]) -> Any:
        results = super().train(configs)
        if sum(each[0] == "train" for each in self.done) == self.call:
            return self.trouble(self)
        return results


def explode(batch: Trouble) -> None:
    batch.weights[:] = np.nan
    raise ValueError("out of memory")


def leave(batch: Trouble) -> None:
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (explode, "ValueError: out of memory"),
        (leave, "SystemExit: 3"),
        (
            lambda batch: [1.0, 2.0],
            "AgentError: train must return a score or an Outcome for each of 4 members, got [1.0",
        ),
        (lambda batch: 0.5, "AgentError: train must return a score or an Outcome for each of 4 members, got 0.5"),
        (
            lambda batch: {0: 1, 1: 1, 2: 1, 3: 1},
            "train must return a score or an Outcome for each of 4 members, got {0",
        ),
    ],
)
def test_what_goes_wrong_with_the_batch_fails_all_of_its_call_and_it_is_built_again(
    trouble: Any, reason: str, tmp_path: Path
) -> None:
    done: list[Any] = []
    result = tuned(partial(Trouble, done=done, trouble=trouble), tmp_path, rounds=4)
    assert result.done
    assert [o.key for o in result.history if o.failed] == [(m, 1) for m in range(4)]
    recorded = events(tmp_path, "raised")
    assert [(e.member, e.round) for e in recorded] == [(m, 1) for m in range(4)]
    assert all(reason in e.text for e in recorded)
    assert all(("traceback" in e.data) is ("AgentError" not in e.text) for e in recorded)  # Our own errors say it all.
    again = done.index(("built", 4), 1)
    assert done[again - 1] == ("close",)
    assert [each[1] for each in done[again + 1 : again + 5]] == [0, 1, 2, 3]  # loaded
    assert {each[2].rpartition("-")[2] for each in done if each[0] == "load"} == {"0"}


def test_what_cannot_be_told_of_one_member_is_its_own_failure(tmp_path: Path) -> None:
    trouble = partial(Trouble, done=[], trouble=lambda batch: [1.0, None, "high", float("-inf")])
    result = tuned(trouble, tmp_path)
    assert [o.key for o in result.history if o.failed] == [(1, 1), (2, 1), (3, 1)]
    assert [e.kind for e in events(tmp_path, "raised", "score")] == ["raised", "raised", "score"]


class Clumsy(Counting):
    """Fails to save, load or reset member 2, for some time."""

    def __init__(self, seeds: list[int], done: list[Any], method: str, times: int):
        super().__init__(seeds, done)
        self.method, self.times = method, times

    def fail(self, method: str, member: int) -> None:
        if method == self.method and member == 2 and self.times > 0:
            self.times -= 1
            raise LookupError(f"no {method} today")

    def save(self, member: int, directory: Path) -> None:
        (directory / "half").touch()
        self.fail("save", member)
        super().save(member, directory)
        (directory / "half").unlink()

    def load(self, member: int, directory: Path) -> None:
        self.weights[member] = np.nan
        self.fail("load", member)
        super().load(member, directory)

    def reset(self, member: int, seed: int) -> None:
        self.fail("reset", member)
        super().reset(member, seed)


def test_a_save_that_fails_is_its_members_failure(tmp_path: Path) -> None:
    result = tuned(partial(Clumsy, done=[], method="save", times=1), tmp_path, rounds=3)
    assert [o.key for o in result.history if o.failed] == [(2, 0)]
    (event,) = events(tmp_path, "raised")
    assert event.text == "LookupError: no save today"
    assert not list((tmp_path / "checkpoints").glob("draft-*"))


def test_a_load_that_fails_is_its_members_failure_and_nobody_elses(tmp_path: Path) -> None:
    stopped(Walkers, tmp_path / "x", 4)
    result = resume(tmp_path / "x", agent=partial(Clumsy, done=[], method="load", times=1), progress=False)
    assert result.done
    assert [o.key for o in result.history if o.failed] == [(2, 1)]
    whole = one_by_one(tmp_path)
    assert [o for o in result.history if o.round == 1 and o.member != 2] == [
        o for o in whole if o.round == 1 and o.member != 2
    ]


def test_a_reset_that_fails_is_its_members_failure(tmp_path: Path) -> None:
    agent = partial(Clumsy, done=[], method="reset", times=1)
    result = tuned(agent, tmp_path, method=CoCaBO(), rounds=2)
    assert [o.key for o in result.history if o.failed] == [(2, 1)]


class Vandal(View):
    """Empties the checkpoints of member 1 as soon as they are recorded."""

    def __init__(self, directory: Path, stop: int = 99):
        self.directory, self.left = directory, stop

    def told(self, observation: Observation) -> None:
        if observation.member == 1:
            (self.directory / "checkpoints" / f"member-1-round-{observation.round}" / "arrays.npz").write_bytes(b"")
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


def test_a_spoilt_checkpoint_costs_nothing_while_its_state_is_in_memory_and_is_found_when_it_is_not(
    tmp_path: Path,
) -> None:
    whole = one_by_one(tmp_path)
    assert tuned(Walkers, tmp_path / "x", progress=Vandal(tmp_path / "x")).history == whole
    with pytest.raises(KeyboardInterrupt):
        tuned(Walkers, tmp_path / "y", progress=Vandal(tmp_path / "y", stop=4))
    resumed = resume(tmp_path / "y", progress=False)
    assert resumed.done
    lost = [o for o in resumed.history if o.status == "lost"]
    assert {o.parent for o in lost} == {(1, 0)}
    assert all("arrays.npz is not what was saved" in e.text for e in events(tmp_path / "y", "lost"))


@pytest.mark.parametrize(
    ("agents", "reason"),
    [
        (lambda seeds: 1 / 0, "ZeroDivisionError"),
        (
            type("Mute", (Walkers,), {"applied": lambda self: [{}]}),
            r"applied must return a configuration for each of 4",
        ),
    ],
)
def test_a_batch_that_never_works_ends_the_run_with_the_reason(agents: Any, reason: str, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=f"(?s)no interval has completed yet.*{reason}"):
        tuned(agents, tmp_path)


def test_a_batch_without_a_method_is_refused_before_it_trains(tmp_path: Path) -> None:
    words = r"batched agents have train, copy, reset, save, load, got .*Walker object.* without copy, reset; add"
    with pytest.raises(AgentError, match=words):
        tuned(Walker, tmp_path)
    assert len(History.load(tmp_path)) == 0
