"""Replaying a schedule: the same scores where everything is the same, and a clear word where it is not."""

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from popbandits import PBT, Population
from popbandits.agent import Outcome
from popbandits.errors import DiskError, HistoryError, RunError
from popbandits.run import Result, tune
from popbandits.run.loop import agent_seed
from popbandits.run.replay import replay
from popbandits.storage import Store
from popbandits.storage.checkpoints import verify
from tests.engines.agents import Faulty, Walker, space


def tuned(agent: Any, directory: Path, **settings: Any) -> Result:
    return tune(
        agent, space(), **({"method": PBT(), "rounds": 5, "progress": False, "directory": directory} | settings)
    )


class Failing(Faulty):
    ways = ("raise", "nan")


class Told(Failing):
    """Its noise depends on the member and the round that it is told of."""

    def assigned(self, member: int, round_: int) -> None:
        self.weights = self.weights + 1e-3 * np.random.default_rng([member, round_]).normal(size=4)


def test_agents_are_told_which_interval_comes_next(tmp_path: Path) -> None:
    class Asked(Walker):
        def assigned(self, member: int, round_: int) -> None:
            self.told = member, round_

        def train(self, config: dict[str, Any]) -> Outcome:
            super().train(config)
            return Outcome(float(-self.weights @ self.weights), metrics={"told": list(self.told)})

    history = tuned(Asked, tmp_path, population=4).history
    assert [o.metrics["told"] for o in history] == [[o.member, o.round] for o in history]
    assert any(o.parent is not None and o.parent[0] != o.member for o in history)


@pytest.mark.parametrize("agent", [Walker, Failing, Told])
@pytest.mark.parametrize("settings", [{}, {"engine": "threads", "mode": "min"}, {"synchronous": False, "seed": 3}])
def test_a_replay_of_a_deterministic_agent_scores_what_the_run_recorded(
    agent: Any, settings: dict[str, Any], tmp_path: Path
) -> None:
    result = tuned(agent, tmp_path, **settings)
    again = replay(tmp_path)
    lineage = result.history.lineage()
    assert again.recorded == tuple(lineage)
    assert again.scores == tuple(observation.score for observation in lineage)
    assert again.score == result.best.score
    assert again.seed == agent_seed(settings.get("seed", 0), lineage[0].key)


def test_another_seed_gives_other_scores(tmp_path: Path) -> None:
    tuned(Walker, tmp_path)
    first, second = replay(tmp_path, seed=1), replay(tmp_path, seed=2)
    assert first.seed == 1
    assert first.score != second.score
    assert replay(tmp_path, seed=1) == first


class Loading(Walker):
    """Remembers what is done to it."""

    done: list[str]

    def __init__(self, seed: int, done: list[str]):
        super().__init__(seed)
        self.done = done
        done.append("built")

    def load(self, directory: Path) -> None:
        super().load(directory)
        self.done.append("loaded")

    def train(self, config: dict[str, Any]) -> Any:
        self.done.append("trained")
        return super().train(config)

    def close(self) -> None:
        self.done.append("closed")


def test_one_agent_is_built_and_every_later_interval_begins_with_a_load_as_in_the_run(tmp_path: Path) -> None:
    tuned(Walker, tmp_path, rounds=3)
    done: list[str] = []
    replay(tmp_path, agent=partial(Loading, done=done))
    assert done == ["built", "trained", "loaded", "trained", "loaded", "trained", "closed"]


def test_each_interval_is_reported_when_it_is_done(tmp_path: Path) -> None:
    tuned(Walker, tmp_path, rounds=3)
    seen: list[tuple[Any, float]] = []
    again = replay(tmp_path, seed=7, after=lambda observation, score: seen.append((observation, score)))
    assert seen == list(zip(again.recorded, again.scores, strict=True))


def test_a_replay_keeps_no_more_checkpoints_than_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned(Walker, tmp_path / "run")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    kept: list[int] = []
    again = replay(tmp_path / "run", after=lambda *_: kept.append(len(list(tmp_path.glob("temporary/*/*/arrays.npz")))))
    assert len(again.scores) > 3
    assert kept == [1, *[2] * (len(again.scores) - 1)]  # with that which the interval began with
    assert not list((tmp_path / "temporary").iterdir())


def test_the_agent_at_the_end_can_be_kept(tmp_path: Path) -> None:
    result = tuned(Walker, tmp_path / "run")
    replay(tmp_path / "run", save=tmp_path / "kept" / "agent")
    verify(tmp_path / "kept" / "agent")
    agents = Walker(1), Walker(2)
    agents[0].load(tmp_path / "kept" / "agent")
    agents[1].load(result.checkpoint)
    assert agents[0].weights.tolist() == agents[1].weights.tolist()
    with pytest.raises(RunError, match=r"saved to a new folder, got .*agent, which exists; give another"):
        replay(tmp_path / "run", save=tmp_path / "kept" / "agent")


def test_a_place_that_cannot_be_saved_to_is_known_before_it_trains(tmp_path: Path) -> None:
    tuned(Walker, tmp_path / "run")
    (tmp_path / "file").touch()
    trained: list[float] = []
    with pytest.raises(DiskError, match=r"could not make .*agent: Not a directory"):
        replay(tmp_path / "run", save=tmp_path / "file" / "agent", after=lambda _, score: trained.append(score))
    assert not trained


def test_a_schedule_that_does_not_train_any_more_says_where_and_why(tmp_path: Path) -> None:
    tuned(Walker, tmp_path, rounds=2)

    class Broken(Walker):
        def load(self, directory: Path) -> None:
            raise ValueError("the file has another format")

    with pytest.raises(RunError, match="its interval 1 failed: ValueError: the file has another format\nTraceback"):
        replay(tmp_path, agent=Broken)


def test_an_agent_that_cannot_be_imported_must_be_given(tmp_path: Path) -> None:
    tuned(lambda seed: Walker(seed), tmp_path, rounds=2)
    with pytest.raises(RunError, match="does not say where that can be imported from; give it with agent="):
        replay(tmp_path)
    assert replay(tmp_path, agent=Walker).score == Result(tmp_path).best.score


def test_a_history_kept_by_hand_can_be_replayed_with_an_agent(tmp_path: Path) -> None:
    population = Population(space(), PBT(), size=2, rounds=2)
    while not population.done:
        for assignment in population.ask():
            population.tell(assignment, 1.0)
    population.history.save(tmp_path)
    assert len(replay(tmp_path, agent=Walker).scores) == 2


def test_a_run_in_which_nothing_completed_has_no_schedule(tmp_path: Path) -> None:
    population = Population(space(), PBT(), size=2, rounds=1)
    for assignment in population.ask():
        population.tell(assignment, None)
    population.history.save(tmp_path)
    with pytest.raises(HistoryError, match=r"no interval of .* has completed, so there is no schedule to replay"):
        replay(tmp_path, agent=Walker)


def test_an_agent_that_is_gone_is_named(tmp_path: Path) -> None:
    tuned(Walker, tmp_path, rounds=1)
    with Store.open(tmp_path) as store:
        store.describe(agent={"import": "a_module_that_is_gone:Agent", "settings": {}, "root": ""})
    with pytest.raises(RunError, match="is not where it was: No module named 'a_module_that_is_gone'; give it"):
        replay(tmp_path, trust=True)
