"""Agents of rsl_rl, skrl and rl_games, small enough for tests, in an environment that resets at random places."""

import os
import signal
import tempfile
from typing import Any

import torch
from torch import Tensor, nn

STEPS = 0
"""Steps of this process in vectorised environments."""


class Line:
    """Get to the middle of a line, from random places: as many environments as there are rows of a tensor."""

    num_actions, max_episode_length, num_agents, device = 1, 8, 1, "cpu"

    def __init__(self, num_envs: int = 4) -> None:
        self.num_envs, self.cfg, self.closed = num_envs, {}, False
        self.effort = 0.1
        self.reset()

    def reset(self) -> Any:
        self.place = torch.rand(self.num_envs, 1) * 4 - 2
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.long)
        return self.seen()

    def seen(self) -> Any:
        return self.place.clone()

    def advance(self, actions: Tensor) -> tuple[Tensor, Tensor, dict[str, Any]]:
        """Move, and begin again where an episode has ended; return rewards, the ended and the place before."""
        global STEPS
        STEPS += 1
        if str(STEPS) == os.environ.get("KILL_AT_STEP"):
            os.kill(os.getpid(), signal.SIGKILL)
        actions = actions.reshape(self.num_envs, 1).clamp(-1, 1)
        self.place = (self.place + actions).clamp(-9, 9)
        self.episode_length_buf = self.episode_length_buf + 1
        distance = self.place.abs()[:, 0]
        rewards = -distance - self.effort * actions.square()[:, 0]
        ended = self.episode_length_buf >= self.max_episode_length
        fresh = torch.rand(self.num_envs, 1) * 4 - 2
        self.place = torch.where(ended[:, None], fresh, self.place)
        self.episode_length_buf = torch.where(ended, 0, self.episode_length_buf)
        return rewards, ended, {"time_outs": ended, "log": {"Metrics/distance": distance.mean()}}

    def close(self) -> None:
        self.closed = True


def weigh_effort(env: Any, config: dict[str, Any]) -> dict[str, Any]:
    """Set the weight of a reward, as a user does."""
    if "effort" not in config:
        return {}
    env.unwrapped.effort = config["effort"]
    return {"effort": env.unwrapped.effort}


def rsl_rl_runner(seed: int, recurrent: bool = False, **settings: Any) -> Any:
    from rsl_rl.env import VecEnv
    from rsl_rl.runners import OnPolicyRunner
    from tensordict import TensorDict

    class Vectorised(Line, VecEnv):
        @property
        def unwrapped(self) -> Any:
            return self

        def get_observations(self) -> Any:
            return TensorDict({"policy": self.seen()}, batch_size=[self.num_envs])

        def step(self, actions: Tensor) -> Any:
            rewards, ended, extras = self.advance(actions)
            return self.get_observations(), rewards, ended, extras

    model: dict[str, Any] = {
        "class_name": "MLPModel",
        "hidden_dims": [8],
        "activation": "tanh",
        "obs_normalization": True,
    }
    if recurrent:
        model |= {"class_name": "RNNModel", "rnn_type": "gru", "rnn_hidden_dim": 8, "rnn_num_layers": 1}
    std = {"distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 1.0}}
    return OnPolicyRunner(
        Vectorised(),
        {
            "num_steps_per_env": 8,
            "save_interval": 100,
            "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
            "algorithm": {"class_name": "PPO", "num_mini_batches": 2, "num_learning_epochs": 2} | settings,
            "actor": model | std,
            "critic": dict(model),
        },
    )


def rsl_rl(seed: int, **settings: Any) -> Any:
    from popbandits.adapters.rsl_rl import RslRlAgent

    of_agent = {name: settings.pop(name) for name in ("iterations", "score", "random_lengths") if name in settings}
    made = {"iterations": 2, "configure": weigh_effort} | of_agent
    return RslRlAgent(lambda seed: rsl_rl_runner(seed, **settings), seed=seed, **made)


def skrl_trainer(seed: int, recurrent: bool = False, **settings: Any) -> Any:
    from gymnasium.spaces import Box
    from skrl.agents.torch.ppo import PPO
    from skrl.envs.wrappers.torch import Wrapper
    from skrl.memories.torch import RandomMemory
    from skrl.models.torch import DeterministicMixin, GaussianMixin, Model
    from skrl.resources.preprocessors.torch import RunningStandardScaler
    from skrl.trainers.torch import SequentialTrainer

    class Vectorised(Wrapper):
        observation_space, action_space, state_space = Box(-9, 9, (1,)), Box(-1, 1, (1,)), None

        @property
        def unwrapped(self) -> Any:
            return self._env

        def reset(self) -> Any:
            return self._env.reset(), {}

        def step(self, actions: Tensor) -> Any:
            rewards, ended, extras = self._env.advance(actions)
            nothing = torch.zeros_like(ended)
            return self._env.seen(), rewards[:, None], nothing[:, None], ended[:, None], extras

        def state(self) -> None:
            return None

        def render(self, *args: Any, **kwargs: Any) -> None:
            raise AssertionError("nothing is shown in a test")

        def close(self) -> None:
            self._env.close()

    class Policy(GaussianMixin, Model):  # type: ignore[misc]
        def __init__(self, **spaces: Any) -> None:
            Model.__init__(self, **spaces, device="cpu")
            GaussianMixin.__init__(self)
            self.net, self.log_std = (
                nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1)),
                nn.Parameter(torch.zeros(1)),
            )

        def compute(self, inputs: Any, role: str) -> Any:
            return self.net(inputs["observations"]), {"log_std": self.log_std}

    class Value(DeterministicMixin, Model):  # type: ignore[misc]
        def __init__(self, **spaces: Any) -> None:
            Model.__init__(self, **spaces, device="cpu")
            DeterministicMixin.__init__(self)
            self.net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))

        def compute(self, inputs: Any, role: str) -> Any:
            return self.net(inputs["observations"]), {}

    env = Vectorised(Line())
    spaces = {name: getattr(env, name) for name in ("observation_space", "action_space", "state_space")}
    scaled = {"observation_preprocessor": RunningStandardScaler, "observation_preprocessor_kwargs": {"size": 1}}
    quiet = {"experiment": {"write_interval": 0, "checkpoint_interval": 0}}
    agent = PPO(
        models={"policy": Policy(**spaces), "value": Value(**spaces)},
        memory=RandomMemory(memory_size=8, num_envs=env.num_envs, device="cpu"),
        cfg={"rollouts": 8, "learning_epochs": 2, **scaled, **quiet} | settings,
        device="cpu",
        **spaces,
    )
    shown = {"headless": True, "disable_progressbar": True, "close_environment_at_exit": False}
    return SequentialTrainer(env=env, agents=agent, cfg=shown)


def skrl(seed: int, **settings: Any) -> Any:
    from popbandits.adapters.skrl import SkrlAgent

    of_agent = {name: settings.pop(name) for name in ("timesteps", "score") if name in settings}
    made = {"timesteps": 16, "configure": weigh_effort} | of_agent
    return SkrlAgent(lambda seed: skrl_trainer(seed, **settings), seed=seed, **made)


def rl_games_runner(seed: int, recurrent: bool = False, **settings: Any) -> Any:
    from gymnasium.spaces import Box
    from rl_games.common import env_configurations, vecenv
    from rl_games.common.ivecenv import IVecEnv
    from rl_games.torch_runner import Runner

    class Vectorised(Line, IVecEnv):
        @property
        def unwrapped(self) -> Any:
            return self

        def get_env_info(self) -> Any:
            return {"observation_space": Box(-9, 9, (1,)), "action_space": Box(-1, 1, (1,))}

        def step(self, actions: Tensor) -> Any:
            rewards, ended, extras = self.advance(actions)
            return self.seen(), rewards, ended, extras

    vecenv.register("LINES", lambda name, number, **_: Vectorised(number))
    env_configurations.register("lines", {"vecenv_type": "LINES", "env_creator": None})
    network = {
        "name": "actor_critic",
        "separate": False,
        "space": {
            "continuous": {
                "mu_activation": "None",
                "sigma_activation": "None",
                "mu_init": {"name": "default"},
                "sigma_init": {"name": "const_initializer", "val": 0},
                "fixed_sigma": True,
            }
        },
        "mlp": {"units": [8], "activation": "elu", "initializer": {"name": "default"}},
    }
    if recurrent:
        network["rnn"] = {"name": "gru", "units": 8, "layers": 1}
    config = {
        **{"name": "line", "env_name": "lines", "num_actors": 4, "device": "cpu", "reward_shaper": {}, "ppo": True},
        **{"normalize_input": True, "normalize_value": True, "normalize_advantage": True, "print_stats": False},
        **{"gamma": 0.99, "tau": 0.95, "learning_rate": 1e-3, "lr_schedule": "adaptive", "kl_threshold": 0.01},
        **{"e_clip": 0.2, "clip_value": True, "entropy_coef": 0.0, "critic_coef": 1.0, "bounds_loss_coef": 0.001},
        **{"grad_norm": 1.0, "truncate_grads": True, "horizon_length": 8, "minibatch_size": 16, "mini_epochs": 2},
        **{"train_dir": tempfile.mkdtemp(), "seq_length": 4},
    }
    params = {"seed": seed, "algo": {"name": "a2c_continuous"}, "model": {"name": "continuous_a2c_logstd"}}
    runner = Runner()
    runner.load({"params": {**params, "network": network, "config": config | settings, "torch_threads": 0}})
    return runner


def rl_games(seed: int, **settings: Any) -> Any:
    from popbandits.adapters.rl_games import RlGamesAgent

    of_agent = {name: settings.pop(name) for name in ("epochs", "score") if name in settings}
    made = {"epochs": 2, "configure": weigh_effort} | of_agent
    return RlGamesAgent(lambda seed: rl_games_runner(seed, **settings), seed=seed, **made)
