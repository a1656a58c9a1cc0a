"""The batched engine: what stays in memory, who pays for a failure, and a run that ends in the middle of a round."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from popbandits import PBT, Assignment, CoCaBO, History, RandomSearch, resume, tune
from popbandits.engines import Experiment, Result
from popbandits.engines.batched import Batch
from popbandits.engines.replay import replay
from popbandits.engines.view import View
from popbandits.engines.work import Job
from popbandits.errors import ArgumentError, RunError
from popbandits.history import Event, Observation
from popbandits.history.store import Store
from tests.engines.agents import Walker, space
from tests.engines.batches import Walkers


def tuned(agent: Any, directory: Path, **settings: Any) -> Result:
    settings = {"method": PBT(), "rounds": 4, "progress": False, "engine": "batched"} | settings
    return tune(agent, space(), directory=directory, **settings)


def one_by_one(directory: Path, agent: Any = Walker, **settings: Any) -> History:
    """The history that a batch must make too."""
    return tuned(agent, directory / "one by one", engine="in-process", **settings).history


def events(directory: Path, *kinds: str) -> list[Event]:
    with Store.open(directory, readonly=True) as store:
        return [event for event in store.events() if event.kind in kinds]


class Counting(Walkers):
    """Notes what is done to it."""

    def __init__(self, seeds: list[int], done: list[Any]):
        super().__init__(seeds)
        self.done = done
        done.append(("built", len(seeds)))

    def train(self, configs: list[dict[str, Any]]) -> Any:
        self.done.append(("train", len(configs)))
        return super().train(configs)

    def copy(self, sources: list[int]) -> None:
        self.done.append(("copy", tuple(sources)))
        super().copy(sources)

    def load(self, member: int, directory: Path) -> None:
        self.done.append(("load", member, directory.name))
        super().load(member, directory)

    def close(self) -> None:
        self.done.append(("close",))


class StopAfter(View):
    """Stops at once after some observations, in the middle of a round or not."""

    def __init__(self, after: int):
        self.after = after

    def told(self, observation: Observation) -> None:
        self.after -= 1
        if self.after == 0:
            raise KeyboardInterrupt


def stopped(agent: Any, directory: Path, after: int, **settings: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        tuned(agent, directory, progress=StopAfter(after), **settings)
    assert len(History.load(directory)) == after


@pytest.mark.parametrize(
    "settings",
    [
        {"population": 8, "rounds": 6},
        {"synchronous": False, "rounds": 6},
        {"explore": "all", "mode": "min", "population": 3},
        {"method": CoCaBO(), "rounds": 2},  # which starts members afresh
        {"population": 1},
    ],
    ids=str,
)
def test_a_vectorised_batch_makes_the_history_of_single_agents(settings: dict[str, Any], tmp_path: Path) -> None:
    result = tuned(Walkers, tmp_path / "batch", **settings)
    assert result.done
    assert list(result.history) == list(one_by_one(tmp_path, **settings))
    agent = Walker(0)
    agent.load(result.checkpoint)
    assert -float(np.sum(agent.weights**2)) == result.best.score


def test_members_go_on_from_memory_and_parents_are_copied_there(tmp_path: Path) -> None:
    done: list[Any] = []
    history = tuned(partial(Counting, done=done), tmp_path, population=8, rounds=5).history
    copies = [
        tuple(history.find((m, r)).parent[0] for m in range(8))
        for r in range(1, 5)
        if any(history.find((m, r)).parent[0] != m for m in range(8))
    ]
    assert copies
    assert [each[1] for each in done if each[0] == "copy"] == copies
    assert Counter(each[0] for each in done) == {"built": 1, "train": 5, "copy": len(copies), "close": 1}


def test_256_members_train_in_one_batch(tmp_path: Path) -> None:
    done: list[Any] = []
    result = tuned(partial(Counting, done=done), tmp_path, population=256, rounds=2)
    assert result.done
    assert [each for each in done if each[0] in ("built", "train")] == [("built", 256), *[("train", 256)] * 2]
    assert {o.key for o in result.history} == {(m, r) for m in range(256) for r in range(2)}
    assert sum(o.parent is not None and o.parent[0] != o.member for o in result.history) == 64


@pytest.mark.parametrize("synchronous", [True, False])
def test_a_run_stopped_anywhere_in_a_round_goes_on_to_the_same_history(synchronous: bool, tmp_path: Path) -> None:
    whole = one_by_one(tmp_path, synchronous=synchronous)
    for after in (1, 2, 4, 6, 7, 11):
        done: list[Any] = []
        stopped(Walkers, tmp_path / str(after), after, synchronous=synchronous)
        resumed = resume(tmp_path / str(after), agent=partial(Counting, done=done), progress=False)
        assert list(resumed.history) == list(whole)
        assert {each for each in done if each[0] == "train"} == {("train", 4)}


def test_a_member_that_is_not_due_trains_as_a_copy_of_one_that_is_and_is_loaded_before_it_is_used(
    tmp_path: Path,
) -> None:
    class Told(Counting):
        def assigned(self, keys: list[tuple[int, int]]) -> None:
            self.done.append(("assigned", keys))

        def train(self, configs: list[dict[str, Any]]) -> Any:
            self.done.append(("same", [i for i in range(4) if (self.weights[i] == self.weights[-1]).all()]))
            assert [configs[i] for i in self.done[-1][1]] == [configs[-1]] * len(self.done[-1][1])
            return super().train(configs)

    stopped(Walkers, tmp_path, 6, method=PBT(), quantile=0.01)  # Members 2 and 3 have round 1 to do.
    done: list[Any] = []
    resume(tmp_path, agent=partial(Told, done=done), rounds=3, progress=False)
    loads = [each[1:] for each in done if each[0] == "load"]
    assert [each for each in done if each[0] == "assigned"] == [
        ("assigned", [(2, 1), (2, 1), (2, 1), (3, 1)]),
        ("assigned", [(m, 2) for m in range(4)]),
    ]
    assert next(each[1] for each in done if each[0] == "copy") == (2, 2, 2, 3)
    assert [member for member, _ in loads[:2]] == [2, 3]
    assert {member for member, _ in loads[2:]} >= {0, 1}


# Failures


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


def test_a_parent_is_copied_before_its_own_member_is_loaded_over_it(tmp_path: Path) -> None:
    def job(member: int, round_: int, parent: tuple[int, int] | None = None) -> Job:
        config = {"lr": 0.1, "epochs": 1, "optimizer": "adam"}
        where = None if parent is None else tmp_path / str(parent)
        return Job(Assignment(member, round_, config, parent), member, where, tmp_path / str((member, round_)))

    done: list[Any] = []
    batch = Batch(partial(Counting, done=done), 3)
    batch.do([job(member, 0) for member in range(3)])
    batch.do([job(2, 1, (2, 0))])  # Now (0, 0) and (1, 0) are on disk only.
    swapped = batch.do([job(0, 1, (1, 0)), job(1, 1, (2, 1)), job(2, 2, (0, 0))])
    batch.close()
    assert [each[1:] for each in done if each[0] == "load"] == [(0, "(1, 0)"), (2, "(0, 0)")]
    single = Walker(0)
    for report, parent in zip(swapped, ((1, 0), (2, 1), (0, 0)), strict=True):
        single.load(tmp_path / str(parent))
        assert report.outcome == single.train({"lr": 0.1, "epochs": 1, "optimizer": "adam"})


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
    assert all(reason in e.text and "Traceback" in e.data["traceback"] for e in recorded)
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
        (Walker, r"batched agents have train, copy, reset, save, load, got .*Walker object.* without copy, reset; add"),
        (lambda seeds: 1 / 0, "ZeroDivisionError"),
        (
            type("Mute", (Walkers,), {"applied": lambda self: [{}]}),
            r"applied must return a configuration for each of 4",
        ),
    ],
)
def test_what_is_no_batch_ends_the_run_with_the_reason(agents: Any, reason: str, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=f"(?s)no interval has completed yet.*{reason}"):
        tuned(agents, tmp_path)


# Other ways in and out


def test_a_batched_run_goes_on_with_another_engine_only_if_its_agent_is_given(tmp_path: Path) -> None:
    stopped(Walkers, tmp_path / "x", 6)
    with pytest.raises(
        ArgumentError,
        match=r"engine='threads' takes what builds an agent from a seed, got a run whose agent builds all members from "
        "a list of seeds; keep engine='batched', or give another agent",
    ):
        resume(tmp_path / "x", engine="threads", progress=False)
    assert resume(tmp_path / "x", engine="in-process", agent=Walker, rounds=3, progress=False).done
    with pytest.raises(
        ArgumentError, match="engine='batched' takes what builds all members from a list of seeds, got a"
    ):
        resume(tmp_path / "x", engine="batched", rounds=4, progress=False)
    back = resume(tmp_path / "x", engine="batched", agent=Walkers, rounds=4, progress=False)
    assert back.history == one_by_one(tmp_path)


def test_the_winning_schedule_of_a_batched_run_can_be_replayed(tmp_path: Path) -> None:
    result = tuned(Walkers, tmp_path / "x", rounds=5, seed=6)
    assert len({o.member for o in result.history.lineage()}) > 1
    again = replay(tmp_path / "x", save=tmp_path / "kept")
    assert again.scores == tuple(o.score for o in again.recorded)
    agent = Walker(0)
    agent.load(tmp_path / "kept")
    assert -float(np.sum(agent.weights**2)) == result.best.score
    assert replay(tmp_path / "x", seed=5).score != again.score


def test_members_share_the_seconds_of_their_call_and_all_are_in_training_at_once(tmp_path: Path) -> None:
    result = tuned(Walkers, tmp_path, rounds=2)
    for round_ in range(2):
        assert len({o.seconds for o in result.history if o.round == round_}) == 1
    assert Experiment(Walkers, space(), engine="batched", population=7).at_a_time == 7


def test_configurations_are_the_batchs_own_to_change(tmp_path: Path) -> None:
    class Pops(Walkers):
        def train(self, configs: list[dict[str, Any]]) -> Sequence[Any]:
            results = super().train(configs)
            self.configs = [dict(config) for config in configs]
            for config in configs:
                config.clear()
            return results

    assert tuned(Pops, tmp_path / "x").history == one_by_one(tmp_path)
