"""The agents on a real game, small enough for a CPU. The network's full width is for `test_learner.py`."""

import gc
import json
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from experiments.tests.paper.procgen.narrow import narrow
from popbandits.errors import ArgumentError
from popbandits_experiments.paper.procgen import agent as agent_module
from popbandits_experiments.paper.procgen.agent import PPO, DrAC, Settings, UCBDrAC, threads_a_member
from popbandits_experiments.paper.procgen.augmentations import AUGMENTATIONS
from popbandits_experiments.paper.procgen.environments import FRAME, Levels
from popbandits_experiments.paper.procgen.learner import Sizes
from popbandits_experiments.paper.procgen.task import Task

# Episodes of bossfight are short while nothing is known about the game.
SMALL = Settings("bossfight", interval=64, sizes=Sizes(environments=4, steps=16, epochs=1, minibatches=2), threads=1)
# For tests that need no episode to end.
BRIEF = replace(SMALL, interval=16, sizes=Sizes(environments=2, steps=8, epochs=1, minibatches=2))
CONFIG = {"lr": 5e-4, "clip": 0.2, "entropy": 0.01, "alpha": 0.1, "augmentation": "crop"}


@pytest.fixture(autouse=True)
def few_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow(monkeypatch.setattr)


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def config(kind: type[PPO], **changes: Any) -> dict[str, Any]:
    return {name: changes.get(name, CONFIG[name]) for name in kind.HYPERPARAMETERS}


def parameters(agent: PPO) -> torch.Tensor:
    return agent.learner.state()["parameters"]


def save(agent: PPO, directory: Path) -> Path:
    directory.mkdir()
    agent.save(directory)
    return directory


# DrAC is slow: UCBDrAC saves all that it does, and the state of its bandit.
@pytest.mark.parametrize("kind", [PPO, pytest.param(DrAC, marks=pytest.mark.slow), UCBDrAC])
def test_a_saved_agent_goes_on_bit_for_bit(kind: type[PPO], tmp_path: Path) -> None:
    settings = replace(BRIEF, score_on="validation", episodes=1) if kind is PPO else BRIEF
    agent = kind(3, settings)
    agent.train(config(kind))
    checkpoint = save(agent, tmp_path / "before")
    outcome = agent.train(config(kind, lr=1e-3, augmentation="flip"))

    other = kind(4, settings)  # A checkpoint is all that it needs, whatever it was built with.
    other.load(checkpoint)
    again = other.train(config(kind, lr=1e-3, augmentation="flip"))
    assert torch.equal(parameters(agent), parameters(other))
    assert repr(outcome) == repr(again)  # NaN, where no episode ended, equals nothing.
    for left, right in zip(
        save(agent, tmp_path / "one").iterdir(), save(other, tmp_path / "two").iterdir(), strict=True
    ):
        assert left.read_bytes() == right.read_bytes()


@pytest.fixture
def seeds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Seeds of the pools that agents make from here on."""
    seen = []

    class Watched(agent_module.ReservePool):
        def __init__(self, *args: Any, seed: int, **kwargs: Any) -> None:
            seen.append(seed)
            super().__init__(*args, seed=seed, **kwargs)

    monkeypatch.setattr(agent_module, "ReservePool", Watched)
    return seen


def test_a_member_that_takes_over_weights_does_not_relive_the_others_episodes(tmp_path: Path, seeds: list[int]) -> None:
    parent = PPO(0, BRIEF)
    parent.train(config(PPO))
    checkpoint = save(parent, tmp_path / "parent")
    for member, lr in ((0, 1e-4), (0, 2e-4), (1, 1e-4), (0, 1e-4)):
        parent.load(checkpoint)
        parent.assigned(member, 1)
        parent.train(config(PPO, lr=lr))
    own, with_others, by_another, again = seeds[1:]
    assert len({own, with_others, by_another}) == 3
    assert own == again


def test_a_cpu_of_more_cores_trains_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # The network's full width: cores share large sums.
    trained = []
    for cores in (1, 2):
        torch.set_num_threads(cores)
        agent = DrAC(0, BRIEF)
        agent.train(config(DrAC))
        trained.append(parameters(agent))
    assert torch.equal(*trained)


def test_a_checkpoint_has_everything_but_hyperparameters(tmp_path: Path) -> None:
    agent = UCBDrAC(0, SMALL)
    agent.train(config(UCBDrAC))
    checkpoint = save(agent, tmp_path / "checkpoint")
    state = json.loads((checkpoint / "agent.json").read_text())
    assert state["steps"] == 64
    assert state["bandit"]["chosen"] == "crop"
    assert state["reward_statistics"][2] == pytest.approx(64, rel=1e-3)
    tensors = torch.load(checkpoint / "learner.pt", weights_only=True)
    assert tensors["step"] == 2
    assert tensors["exp_avg"].any()
    assert set(tensors) == {"parameters", "step", "exp_avg", "exp_avg_sq"}


def test_hyperparameters_change_between_rounds_without_anything_being_made_anew() -> None:
    agent = DrAC(0, BRIEF)
    learner = agent.learner
    for name, lr in zip(AUGMENTATIONS, np.geomspace(1e-5, 1e-3, 8).tolist(), strict=True):
        before = parameters(agent)
        asked = config(DrAC, augmentation=name, lr=lr, clip=0.1, entropy=0.05, alpha=0.3)
        agent.train(asked)
        assert agent.applied().pop("augmentation") == asked.pop("augmentation")
        assert {k: v for k, v in agent.applied().items() if k != "augmentation"} == pytest.approx(asked)
        assert agent.learner is learner
        assert 0 < (parameters(agent) - before).abs().max() < 10 * lr


def test_a_learning_rate_of_nothing_changes_nothing() -> None:
    agent = DrAC(0, BRIEF)
    before = parameters(agent)
    agent.train(config(DrAC, lr=0.0))
    assert torch.equal(parameters(agent), before)


def test_the_augmentation_and_its_weight_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_module, "_digest", lambda config: 0)  # The same episodes, whatever the hyperparameters.

    def trained(**changes: Any) -> torch.Tensor:
        agent = DrAC(0, BRIEF)
        agent.train(config(DrAC, **changes))
        return parameters(agent)

    crop = trained()
    assert torch.equal(crop, trained())
    assert not torch.equal(crop, trained(augmentation="rotate"))
    assert not torch.equal(crop, trained(alpha=0.5))
    unregularised = PPO(0, BRIEF)
    unregularised.train(config(PPO))
    distance = (trained(alpha=0.0) - parameters(unregularised)).abs().max()
    assert distance < 1e-6  # The same but for the order of sums.


def test_an_interval_ends_at_the_first_rollout_that_reaches_its_multiple() -> None:
    agent = PPO(0, replace(BRIEF, interval=25))
    steps = [agent.train(config(PPO)).steps for _ in range(4)]
    assert steps == [32, 32, 16, 32]  # In all 32, 64, 80 and 112.


def test_the_score_is_the_mean_raw_return_of_the_last_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    raw: list[np.ndarray] = []
    ends: list[np.ndarray] = []

    class Watched(agent_module.ReservePool):
        def step(self, actions: Any, frames: Any) -> Any:
            rewards, ended = super().step(actions, frames)
            rewards = rewards + 0.5  # So that no return is 0.
            raw.append(rewards)
            ends.append(ended)
            return rewards, ended

    monkeypatch.setattr(agent_module, "ReservePool", Watched)
    outcome = PPO(0, replace(SMALL, interval=256)).train(config(PPO))
    returns, running = [], np.zeros(4)
    for rewards, ended in zip(raw, ends, strict=True):
        running += rewards
        returns += running[ended].tolist()
        running[ended] = 0
    assert outcome.metrics["episodes"] == len(returns) > 0
    assert outcome.score == pytest.approx(np.mean(returns))


def test_without_an_episode_there_is_no_score() -> None:
    outcome = PPO(0, replace(SMALL, game="plunder")).train(config(PPO))
    assert np.isnan(outcome.score)
    assert outcome.metrics["episodes"] == 0


def test_weights_that_diverge_are_a_failure() -> None:
    agent = PPO(0, replace(SMALL, interval=256))
    assert np.isnan(agent.train(config(PPO, lr=float("inf"))).score)


def test_a_score_can_be_had_on_levels_that_nobody_trains_on(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = PPO(0, replace(SMALL, score_on="validation"))
    monkeypatch.setattr(agent, "evaluate", lambda levels, seed: {name: [1.0, 2.0] for name in levels})
    outcome = agent.train(config(PPO))
    assert outcome.score == outcome.metrics["validation_return"] == 1.5


class Clockwork:
    """Stands for a pool: the episode of environment i lasts i + 1 steps, each worth 1."""

    made: ClassVar[list["Clockwork"]] = []

    def __init__(self, game: str, levels: object, *, size: int, threads: int, **how: object) -> None:
        self.size, self.threads = size, threads
        self.steps = np.zeros(size, int)
        self.made.append(self)

    def reset(self, frames: Any) -> None:
        frames[:] = 0

    def send(self, actions: Any, ids: Any) -> None:
        self._stepping = ids
        self.steps[ids] += 1

    def receive(self) -> Any:
        ended = self.steps[self._stepping] == self._stepping + 1
        return np.zeros((len(ended), *FRAME)), np.ones(len(ended)), ended

    def close(self) -> None:
        pass


def test_an_evaluation_plays_every_episode_to_its_end_and_steps_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_module, "Pool", Clockwork)
    monkeypatch.setattr(Clockwork, "made", [])
    agent, acted, begun = PPO(0, replace(SMALL, threads=3)), [], []
    act, begin = agent.learner.act, agent.learner.begin
    monkeypatch.setattr(agent.learner, "act", lambda: acted.append(0) or act())
    monkeypatch.setattr(agent.learner, "begin", lambda generator: begun.append(0) or begin(generator))
    returns = agent.evaluate(["train", "test"], seed=0, episodes=9)
    expected = [float(length) for length in range(1, 10)]
    assert returns == {"train": expected, "test": expected}
    assert [pool.steps.tolist() for pool in Clockwork.made] == [expected, expected]
    # Four places, 90 steps: 23 if none were ever free.
    assert (len(acted), len(begun)) == (25, 2)
    assert [pool.threads for pool in Clockwork.made] == [2, 2]  # As many as in training, but for rounding.


def test_evaluating_changes_nothing_that_is_learnt() -> None:
    agent, other = PPO(0, BRIEF), PPO(0, BRIEF)
    agent.train(config(PPO))
    agent.evaluate(["validation"], seed=1, episodes=1)
    agent.train(config(PPO))
    for _ in range(2):
        other.train(config(PPO))
    assert torch.equal(parameters(agent), parameters(other))


def test_the_same_seed_evaluates_to_the_same_returns() -> None:
    agent = PPO(0, replace(SMALL, game="starpilot"))  # Returns differ though nothing is known about the game.
    once, again, other = (agent.evaluate(["train", "test"], seed=seed, episodes=2) for seed in (5, 5, 6))
    assert once == again != other


def test_what_a_closed_agent_had_on_a_device_is_free_before_garbage_is_collected() -> None:
    """Its streams are passed on to the next members."""
    agent = DrAC(0, BRIEF)
    agent.train(config(DrAC))
    learner = weakref.ref(agent.learner)
    gc.disable()
    try:
        agent.close()
        del agent
        assert learner() is None
    finally:
        gc.enable()


def test_a_config_must_have_the_agents_hyperparameters() -> None:
    message = "PPO takes the hyperparameters lr, clip, entropy, got lr, clip; define exactly these in the space"
    with pytest.raises(ArgumentError, match=message):
        PPO(0, SMALL).train({"lr": 1e-3, "clip": 0.2})


REPLAYED = replace(SMALL, levels="replay", interval=256)
REPLAY = {"temperature": 0.1, "staleness": 0.1}


def test_without_level_replay_environments_draw_their_levels_by_the_same_seeds_as_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seeds: list[int]
) -> None:
    monkeypatch.setattr(agent_module, "LevelPool", None)
    agent = DrAC(3, BRIEF)
    agent.train(config(DrAC))
    agent.train(config(DrAC, lr=1e-3))
    assert seeds == [1960868989, 453490163]  # As before levels could be replayed.
    state = json.loads((save(agent, tmp_path / "one") / "agent.json").read_text())
    assert list(state) == ["seed", "steps", "reward_statistics", "returns", "episodes"]
    assert list(agent.applied()) == ["lr", "clip", "entropy", "alpha", "augmentation"]


def test_an_agent_that_replays_levels_goes_on_bit_for_bit_from_its_checkpoint(tmp_path: Path) -> None:
    agent, other = DrAC(3, REPLAYED), DrAC(4, REPLAYED)
    agent.train(config(DrAC) | REPLAY)
    other.load(save(agent, tmp_path / "before"))
    changed = config(DrAC, lr=1e-3) | {"temperature": 0.5, "staleness": 0.3}
    assert repr(agent.train(changed)) == repr(other.train(changed))
    one, two = save(agent, tmp_path / "one"), save(other, tmp_path / "two")
    assert torch.equal(parameters(agent), parameters(other))
    assert (one / "agent.json").read_bytes() == (two / "agent.json").read_bytes()
    levels = json.loads((one / "agent.json").read_text())["levels"]
    assert levels["episodes"] > 4
    assert sum(not np.isnan(score) for score in levels["scores"]) > 4
    assert {name: agent.applied()[name] for name in REPLAY} == {"temperature": 0.5, "staleness": 0.3}


def test_scores_are_the_mean_magnitudes_of_advantages_and_high_ones_are_replayed_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(agent_module.LEVELS, "train", Levels(0, 8))  # type: ignore[arg-type]
    agent = PPO(0, replace(REPLAYED, interval=2_048))
    assert agent._replay is not None
    mailbox, add = agent.learner.mailbox, agent._replay.add
    played: list[np.ndarray] = []

    def watched(levels: np.ndarray, ended: np.ndarray, advantages: np.ndarray) -> None:
        played.append(mailbox.levels.copy())
        rollout = agent.learner._rollout
        assert np.array_equal(levels, mailbox.levels)
        assert advantages == pytest.approx((rollout.returns - rollout.values[:-1]).numpy(), abs=1e-6)
        add(levels, ended, np.where(levels == 5, 9.0, 1.0))  # Level 5 is the one to learn from.

    monkeypatch.setattr(agent._replay, "add", watched)
    agent.train(config(PPO) | {"temperature": 0.1, "staleness": 0.3})
    assert not np.isnan(agent._replay.scores).any()
    late = np.concatenate(played[len(played) // 2 :])
    assert (late == 5).mean() > 0.4  # 1/8 if levels were drawn uniformly.
    assert len(np.unique(late)) > 1


def test_a_config_without_temperature_is_refused_if_levels_are_replayed() -> None:
    with pytest.raises(ArgumentError, match="PPO takes the hyperparameters lr, clip, entropy, temperature, staleness"):
        PPO(0, REPLAYED).train(config(PPO))


def test_an_unknown_augmentation_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"augmentation must be one of crop, .*, got 'blur'"):
        DrAC(0, SMALL).train(config(DrAC, augmentation="blur"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"game": "pong"}, "game must be one of Procgen's, got 'pong'"),
        ({"interval": 0}, "interval must be a whole number of at least 1, got 0"),
        ({"interval": 63}, "interval must be at least a rollout, 4 environments × 16 steps = 64, got 63"),
        ({"difficulty": "medium"}, "difficulty must be 'easy' or 'hard', got 'medium'"),
        ({"score_on": "test"}, "score_on must be 'training' or 'validation', got 'test'"),
        ({"levels": "hardest"}, "levels must be one of uniform, replay, shuffled, got 'hardest'"),
        ({"precision": "float16"}, "precision must be 'float32' or 'bfloat16', got 'float16'"),
        ({"threads": -1}, "threads must be a whole number of at least 0, got -1"),
        ({"episodes": 0}, "episodes must be a whole number of at least 1, got 0"),
        ({"precision": "bfloat16"}, "precision 'bfloat16' needs a GPU, got device 'cpu'"),
        ({"sizes": Sizes(4, 16, 1, 7)}, "minibatches must divide the 64 steps of a rollout, got 7"),
    ],
)
def test_settings_that_cannot_work_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        replace(SMALL, **changes)


@pytest.mark.parametrize("name", ["environments", "steps", "epochs", "minibatches"])
def test_sizes_are_whole_numbers(name: str) -> None:
    with pytest.raises(ArgumentError, match=f"{name} must be a whole number of at least 1, got 0"):
        Sizes(**{name: 0})


@pytest.mark.parametrize(
    ("device", "members", "threads"),
    [("cpu", 1, 6), ("cpu", 4, 1), ("cpu", 12, 1), ("cuda", 1, 6), ("cuda:1", 4, 3), ("cuda", 24, 1)],
)
def test_members_share_the_cores(monkeypatch: pytest.MonkeyPatch, device: str, members: int, threads: int) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(6)))
    assert threads_a_member(members, device) == threads
    task = Task("bigfish", "drac", rounds=1, device=device, at_a_time=members)
    assert task.settings().threads == threads
