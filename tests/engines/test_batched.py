"""The batched engine: the histories of single agents, what stays in memory, and stops in the middle of a round."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from popbandits import PBT, Assignment, CoCaBO, resume
from popbandits.engines.batched import BatchedEngine
from popbandits.engines.work import Job, JobReport
from popbandits.errors import ArgumentError
from popbandits.run import Experiment
from popbandits.run.replay import replay
from tests.engines.agents import Walker, space
from tests.engines.batches import Counting, Walkers, one_by_one, stopped, tuned


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


def test_a_parent_is_copied_before_its_own_member_is_loaded_over_it(tmp_path: Path) -> None:
    def job(member: int, round_: int, parent: tuple[int, int] | None = None) -> Job:
        config = {"lr": 0.1, "epochs": 1, "optimizer": "adam"}
        where = None if parent is None else tmp_path / str(parent)
        return Job(Assignment(member, round_, config, parent), member, where, tmp_path / str((member, round_)))

    done: list[Any] = []
    engine = BatchedEngine(partial(Counting, done=done), 3)

    def do(*jobs: Job) -> list[JobReport]:
        for each in jobs:
            engine.submit(each)
        return engine.wait()

    do(*(job(member, 0) for member in range(3)))
    do(job(2, 1, (2, 0)))  # Now (0, 0) and (1, 0) are on disk only.
    swapped = do(job(0, 1, (1, 0)), job(1, 1, (2, 1)), job(2, 2, (0, 0)))
    engine.close()
    assert [each[1:] for each in done if each[0] == "load"] == [(0, "(1, 0)"), (2, "(0, 0)")]
    single = Walker(0)
    for report, parent in zip(swapped, ((1, 0), (2, 1), (0, 0)), strict=True):
        single.load(tmp_path / str(parent))
        assert report.outcome == single.train({"lr": 0.1, "epochs": 1, "optimizer": "adam"})


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
