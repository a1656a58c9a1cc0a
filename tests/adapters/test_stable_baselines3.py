"""Stable-Baselines3 as an agent: every algorithm's hyperparameters reach what trains with them, and stay there."""

import base64
import json
import pickle
import tempfile
import zipfile
from pathlib import Path
from threading import active_count
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from stable_baselines3 import A2C, DQN, PPO, SAC, TD3, HerReplayBuffer
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from popbandits import Outcome
from popbandits.adapters.sb3_hyperparameters import built_with
from popbandits.adapters.stable_baselines3 import SB3Agent
from popbandits.engines.making import find_evaluate
from popbandits.engines.work import differences
from popbandits.errors import AgentError, ArgumentError
from popbandits.testing import check_agent
from tests.adapters.checking import flawless, saved

SMALL = {"net_arch": [8]}
OFF_POLICY: dict[str, Any] = {"buffer_size": 60, "learning_starts": 7, "batch_size": 8, "policy_kwargs": SMALL}


class Line(gymnasium.Env[Any, Any]):
    """Get to a goal on a line; a world that is cheaper than CartPole, with any kind of action and observation."""

    def __init__(self, discrete: bool = True, goal: bool = False) -> None:
        self.discrete, self.goal = discrete, goal
        self.action_space = gymnasium.spaces.Discrete(2) if discrete else Box(-1, 1, (1,))
        number = Box(-9, 9, (1,))
        names = ("observation", "achieved_goal", "desired_goal")
        self.observation_space = gymnasium.spaces.Dict(dict.fromkeys(names, number)) if goal else number

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place, self.left = float(self.np_random.uniform(-2, 2)), 6
        return self.seen(), {}

    def step(self, action: Any) -> Any:
        self.place = float(np.clip(self.place + (2 * action - 1 if self.discrete else action[0]), -9, 9))
        self.left -= 1
        return self.seen(), -abs(self.place), False, self.left == 0, {}

    def seen(self) -> Any:
        here = np.array([self.place], np.float32)
        return {"observation": here, "achieved_goal": here, "desired_goal": 0 * here} if self.goal else here

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return -np.abs(achieved - desired).sum(-1)


def continuous() -> Line:
    return Line(discrete=False)


def goals() -> Line:
    return Line(discrete=False, goal=True)


def scaled() -> VecNormalize:
    return VecNormalize(DummyVecEnv([Line, Line]))


def agent(algorithm: Any, seed: int = 0, env: Any = Line, **settings: Any) -> SB3Agent:
    policy = "MultiInputPolicy" if env is goals else "MlpPolicy"
    return SB3Agent(algorithm, policy, env, **{"seed": seed, "steps": 16, "episodes": 2, "device": "cpu"} | settings)


def ppo(seed: int) -> SB3Agent:
    return agent(PPO, seed, scaled, n_steps=8, batch_size=8, n_epochs=1, policy_kwargs=SMALL)


def dqn(seed: int) -> SB3Agent:
    return agent(DQN, seed, n_steps=2, target_update_interval=2, **OFF_POLICY)


PPO_SPACE = {
    "learning_rate": (1e-3, 1e-2),
    "gamma": (0.5, 0.99),
    "n_steps": [4, 8],
    "optimizer": ["Adam", "RMSprop"],
}
DQN_SPACE = {"learning_rate": (1e-3, 1e-1), "gamma": (0.5, 0.99), "tau": (0.1, 1.0), "train_freq": [1, 2]}


@pytest.mark.parametrize(("make_agent", "space"), [(ppo, PPO_SPACE), (dqn, DQN_SPACE)])
def test_it_passes_the_check(make_agent: Any, space: Any) -> None:
    flawless(check_agent(make_agent, space))


CHANGES: list[tuple[Any, Any, dict[str, Any], dict[str, Any]]] = [
    (
        PPO,
        Line,
        {"n_steps": 8, "batch_size": 4, "policy_kwargs": SMALL},
        {
            "learning_rate": 0.02,
            "n_steps": 4,
            "batch_size": 2,
            "n_epochs": 2,
            "gamma": 0.7,
            "gae_lambda": 0.6,
            "clip_range": 0.3,
            "clip_range_vf": 0.4,
            "ent_coef": 0.05,
            "vf_coef": 0.6,
            "max_grad_norm": 0.7,
            "normalize_advantage": False,
            "target_kl": 0.9,
            "weight_decay": 0.01,
        },
    ),
    (A2C, Line, {"policy_kwargs": SMALL}, {"learning_rate": 0.02, "n_steps": 3, "optimizer": "SGD", "momentum": 0.5}),
    (
        DQN,
        Line,
        {**OFF_POLICY, "n_steps": 2},
        {
            "learning_rate": 0.02,
            "gamma": 0.7,
            "batch_size": 4,
            "tau": 0.5,
            "train_freq": 2,
            "gradient_steps": 2,
            "learning_starts": 3,
            "target_update_interval": 5,
            "exploration_initial_eps": 0.6,
            "exploration_final_eps": 0.1,
            "exploration_fraction": 0.5,
            "max_grad_norm": 3.0,
        },
    ),
    (
        SAC,
        continuous,
        {**OFF_POLICY, "ent_coef": 0.1},
        {"learning_rate": 0.02, "ent_coef": 0.3, "train_freq": (1, "episode")},
    ),
    (SAC, continuous, OFF_POLICY, {"learning_rate": 0.02, "target_entropy": -2.0, "optimizer": "AdamW"}),
    (TD3, continuous, OFF_POLICY, {"learning_rate": 0.02, "policy_delay": 3, "target_policy_noise": 0.4}),
]


@pytest.mark.parametrize(("algorithm", "env", "settings", "config"), CHANGES)
def test_hyperparameters_hold_after_the_load_of_a_model_that_had_others(
    algorithm: Any, env: Any, settings: Any, config: dict[str, Any], tmp_path: Path
) -> None:
    first = agent(algorithm, 0, env, **settings)
    assert isinstance(first.train({}), Outcome)
    second = agent(algorithm, 1, env, **settings)
    second.load(saved(first, tmp_path / "a"))
    assert second.model.num_timesteps == first.model.num_timesteps
    second.train(config)
    assert second.applied().keys() == config.keys()
    assert differences(config, second.applied()) == []
    third = agent(algorithm, 2, env, **settings)
    third.load(saved(second, tmp_path / "b"))  # A model with these, an optimizer of another class among them.
    third.train({"learning_rate": 0.5})
    assert third.applied() == {"learning_rate": 0.5}
    rates = {group["lr"] for each in third.model._get_torch_save_params()[0] for group in groups(third.model, each)}
    assert rates == {0.5}


@pytest.mark.parametrize(("algorithm", "env", "settings", "config"), CHANGES)
def test_what_is_not_tuned_any_more_is_as_the_model_was_built(
    algorithm: Any, env: Any, settings: Any, config: dict[str, Any], tmp_path: Path
) -> None:
    first, second = (agent(algorithm, seed, env, **settings) for seed in (0, 1))
    built = built_with(second.model)
    first.train(config)
    second.load(saved(first, tmp_path / "a"))
    second.train({"learning_rate": 0.5})
    assert differences(built | {"learning_rate": 0.5}, built_with(second.model)) == []


def groups(model: Any, name: str) -> list[dict[str, Any]]:
    for part in name.split("."):
        model = getattr(model, part)
    return list(model.param_groups) if isinstance(model, torch.optim.Optimizer) else []


def test_buffers_discount_as_asked() -> None:
    on_policy, off_policy = ppo(0), dqn(0)
    on_policy.train({"gamma": 0.6, "gae_lambda": 0.5})
    off_policy.train({"gamma": 0.6})
    buffer = on_policy.model.rollout_buffer
    assert (buffer.gamma, buffer.gae_lambda, off_policy.model.replay_buffer.gamma) == (0.6, 0.5, 0.6)


@pytest.mark.parametrize("env", [continuous, goals])
def test_a_replay_buffer_comes_back_whole(env: Any, tmp_path: Path) -> None:
    her = {"replay_buffer_class": HerReplayBuffer} if env is goals else {}
    first, second = (agent(SAC, seed, env, **OFF_POLICY | her | {"buffer_size": 24}) for seed in (0, 1))
    first.train({})
    second.train({})
    checkpoint = saved(first, tmp_path / "a")
    second.load(checkpoint)
    one, other = first.model.replay_buffer, second.model.replay_buffer
    assert (one.pos, one.full, one.size()) == (other.pos, other.full, other.size()) == (16, False, 16)
    np.testing.assert_array_equal(one.actions, other.actions)
    scores = []
    for each in (first, second):
        for _ in range(2):  # Until it is full, and the oldest rows are overwritten.
            scores.append(each.train({"learning_rate": 0.01}))
    assert scores[:2] == scores[2:]
    assert first.model.replay_buffer.full
    assert (checkpoint / "replay.npz").stat().st_size < (saved(first, tmp_path / "b") / "replay.npz").stat().st_size


def test_an_episode_that_an_interval_cuts_off_is_no_step_of_the_next(tmp_path: Path) -> None:
    trained = agent(DQN, **OFF_POLICY, n_steps=3)
    trained.train({})
    trained.train({})
    buffer = trained.model.replay_buffer
    assert buffer.timeouts[15] == 1  # Episodes take 6 steps, an interval 16.
    assert buffer.dones[15] == 0


def test_the_scales_of_an_environment_are_in_the_checkpoint(tmp_path: Path) -> None:
    first, second = ppo(0), ppo(1)
    first.train({})
    second.load(saved(first, tmp_path / "a"))
    np.testing.assert_array_equal(second.model.env.obs_rms.mean, first.model.env.obs_rms.mean)
    assert second.model.env.ret_rms.var == first.model.env.ret_rms.var


def test_the_checkpoint_is_a_model_that_stable_baselines3_loads(tmp_path: Path) -> None:
    trained = ppo(0)
    trained.train({"learning_rate": 0.002, "clip_range": 0.3})
    model = PPO.load(saved(trained, tmp_path / "a") / "model.zip")
    assert (model.learning_rate, model.clip_range(1.0), model.num_timesteps) == (0.002, 0.3, 16)


def test_the_score_is_a_mean_return_with_its_standard_error() -> None:
    outcome = agent(PPO, n_steps=8, batch_size=8, episodes=5).train({})
    assert outcome.score < 0
    assert outcome.standard_error is not None
    assert outcome.standard_error > 0
    assert outcome.steps == 16
    assert outcome.metrics["training_return"] < 0


def test_the_score_can_be_that_of_the_training_episodes() -> None:
    outcome = agent(PPO, n_steps=8, batch_size=8, episodes=0).train({})
    assert outcome.score == outcome.metrics["training_return"]
    with pytest.raises(AgentError, match="an episode must end within an interval, got none in 4 steps; raise steps"):
        agent(PPO, n_steps=4, batch_size=4, episodes=0, steps=4).train({})


@pytest.mark.parametrize("episodes", [5, 0])
def test_an_evaluation_depends_on_its_seed_alone_and_trains_nothing(episodes: int, tmp_path: Path) -> None:
    trained = agent(PPO, n_steps=8, batch_size=8, episodes=episodes)
    trained.train({})
    before = saved(trained, tmp_path / "before")
    assert find_evaluate(trained) is not None
    first = trained.evaluate(seed=1)
    assert trained.evaluate(seed=2) != first == trained.evaluate(seed=1) < 0
    other = agent(PPO, n_steps=8, batch_size=8, episodes=episodes)
    other.load(before)
    assert other.evaluate(seed=1) == first
    assert trained.train({}) == other.train({}), "evaluations leave no trace"


@pytest.mark.parametrize(
    ("algorithm", "env", "config", "message"),
    [
        (PPO, Line, {"gama": 0.9}, "'gama': PPO cannot change this .* What can be tuned: .*clip_range"),
        (PPO, Line, {"policy_kwargs": 1, "device": 2}, "'device', 'policy_kwargs': PPO cannot change this"),
        (PPO, Line, {"momentum": 0.9}, "'momentum': PPO cannot change this"),
        (DQN, Line, {"buffer_size": 9}, "'buffer_size': DQN cannot change this while it trains; leave it out"),
        (DQN, Line, {"n_steps": 9}, "'n_steps': DQN cannot change this"),
        (SAC, continuous, {"ent_coef": 0.1}, "'ent_coef': SAC cannot change this"),
        (PPO, Line, {"optimizer": "Adamm"}, "optimizer must be the name of a class in torch.optim.* got 'Adamm'"),
    ],
)
def test_what_cannot_be_changed_is_refused_by_name(algorithm: Any, env: Any, config: Any, message: str) -> None:
    settings = {} if algorithm is PPO else OFF_POLICY
    with pytest.raises(AgentError, match=message):
        agent(algorithm, 0, env, **settings).train(config)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"env": Line()}, "env must be a name or a function that builds an environment, got <"),
        ({"steps": 0}, "steps must be a whole number of at least 1, got 0"),
        ({"episodes": 1.5}, "episodes must be a whole number of at least 0, got 1.5"),
    ],
)
def test_wrong_arguments_are_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        agent(PPO, **wrong)


def test_environments_are_closed() -> None:
    closed = []

    class Closing(Line):
        def close(self) -> None:
            closed.append(self)

    agent(PPO, env=Closing).close()
    assert len(closed) == 2


def test_intervals_leave_no_folders_of_logs_and_print_what_a_verbose_model_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    trained = agent(PPO, n_steps=8, batch_size=8, verbose=1)
    for each in range(2):
        capsys.readouterr()
        trained.train({})
        assert "total_timesteps" in capsys.readouterr().out
        trained.load(saved(trained, tmp_path / f"{each}"))
    trained.close()
    assert not list(tmp_path.glob("SB3-*"))


def test_an_agent_has_one_writer_for_tensorboard(tmp_path: Path) -> None:
    trained, before = agent(PPO, n_steps=8, batch_size=8, tensorboard_log=str(tmp_path / "log")), active_count()
    for each in range(2):
        trained.train({})
        trained.load(saved(trained, tmp_path / f"{each}"))
    assert len(list((tmp_path / "log" / "PPO_0").iterdir())) == 1
    trained.close()
    assert active_count() == before


def test_a_logger_of_the_users_own_stays(tmp_path: Path) -> None:
    trained, own = agent(PPO, n_steps=8, batch_size=8), configure(str(tmp_path / "log"), ["csv"])
    trained.model.set_logger(own)
    trained.train({})
    trained.load(saved(trained, tmp_path / "0"))
    trained.train({})
    assert trained.model.logger is own
    own.close()
    assert len((tmp_path / "log" / "progress.csv").read_text().splitlines()) == 1 + 2 * 2


class Payload:
    """Leaves a mark when it is unpickled."""

    def __init__(self, marker: Path):
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return eval, (f"open({str(self.marker)!r}, 'w').close()",)


@pytest.mark.parametrize("name", ["lr_schedule", "policy_class", "clip_range", "policy_kwargs", "learning_rate"])
@pytest.mark.parametrize("optimizer", ["Adam", "RMSprop"])
def test_no_object_in_a_model_is_unpickled(name: str, optimizer: str, tmp_path: Path) -> None:
    agent = SB3Agent(PPO, "MlpPolicy", Line, seed=0, steps=8, n_steps=8, batch_size=4, policy_kwargs=SMALL)
    expected = agent.train({"learning_rate": 0.01, "optimizer": optimizer})
    folder = saved(agent, tmp_path / "saved")
    plant(folder / "model.zip", name, tmp_path / "it-ran")
    agent.load(folder)
    assert isinstance(expected, Outcome)
    assert agent.train({"learning_rate": 0.01, "optimizer": optimizer}).steps == expected.steps
    assert not (tmp_path / "it-ran").exists()


def test_an_object_that_no_model_has_is_refused_by_its_name(tmp_path: Path) -> None:
    agent = SB3Agent(PPO, "MlpPolicy", Line, seed=0, steps=8, n_steps=8, batch_size=4, policy_kwargs=SMALL)
    folder = saved(agent, tmp_path / "saved")
    plant(folder / "model.zip", "more", tmp_path / "it-ran")
    with pytest.raises(AgentError, match=r"a model of PPO pickles none of its state, got more in .*model.zip"):
        agent.load(folder)
    assert not (tmp_path / "it-ran").exists()


def plant(path: Path, name: str, marker: Path) -> None:
    """Put an object that leaves a mark among the attributes in a model's file."""
    with zipfile.ZipFile(path) as file:
        parts = {part: file.read(part) for part in file.namelist()}
    data = json.loads(parts["data"])
    pickled = base64.b64encode(pickle.dumps(Payload(marker))).decode()
    before = data.get(name)
    data[name] = {**(before if isinstance(before, dict) else {}), ":type:": "object", ":serialized:": pickled}
    with zipfile.ZipFile(path, "w") as file:
        for part, content in (parts | {"data": json.dumps(data).encode()}).items():
            file.writestr(part, content)


def test_a_replay_buffer_of_numbers_unpickles_nothing(tmp_path: Path) -> None:
    agent = SB3Agent(DQN, "MlpPolicy", Line, seed=0, steps=8, **OFF_POLICY)
    agent.train({})
    folder = saved(agent, tmp_path / "saved")
    with np.load(folder / "replay.npz") as file:
        arrays = dict(file)
    np.savez(folder / "replay.npz", **arrays | {"rewards": np.array([Payload(tmp_path / "it-ran")], object)})
    with pytest.raises(ValueError, match="Object arrays cannot be loaded"):
        agent.load(folder)
    assert not (tmp_path / "it-ran").exists()


def test_running_scales_of_an_earlier_version_are_read(tmp_path: Path) -> None:
    agent = SB3Agent(PPO, "MlpPolicy", scaled, seed=0, steps=8, n_steps=8, batch_size=4, policy_kwargs=SMALL)
    agent.train({})
    folder, scales = saved(agent, tmp_path / "saved"), agent.model.get_vec_normalize_env()
    assert not (folder / "scales.pkl").exists()
    (folder / "scales.npz").unlink()
    (folder / "scales.pkl").write_bytes(pickle.dumps((scales.obs_rms, scales.ret_rms)))
    other = SB3Agent(PPO, "MlpPolicy", scaled, seed=1, steps=8, n_steps=8, batch_size=4, policy_kwargs=SMALL)
    other.load(folder)
    assert other.model.get_vec_normalize_env().obs_rms.mean == scales.obs_rms.mean
