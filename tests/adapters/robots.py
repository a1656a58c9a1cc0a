"""Agents of rsl_rl, skrl and rl_games, small enough for tests, in an environment that resets at random places."""

import os
import signal
import tempfile
from typing import Any

import torch
from torch import Tensor

FOLDER = tempfile.TemporaryDirectory()
"""Where rl_games writes its curves."""

STEPS = 0
"""Steps of this process in vectorised environments."""


class Line:
    """Get to the middle of a line, from random places: as many environments as there are rows of a tensor."""

    num_actions, max_episode_length, num_agents, step_dt, device = 1, 8, 1, 1.0, "cpu"

    def __init__(self, num_envs: int = 4) -> None:
        self.num_envs, self.cfg, self.closed = num_envs, {}, False
        self.effort = 0.1
        self.episode_length_buf = torch.zeros(num_envs, dtype=torch.long)
        self.reset()

    def reset(self) -> Any:
        self.place = torch.rand(self.num_envs, 1) * 4 - 2
        self.episode_length_buf[:] = 0
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


def split(settings: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments of an agent, and those of its library."""
    own: dict[str, Any] = {"iterations": 2, "configure": weigh_effort}
    given = settings.keys() & {"iterations", "score", "configure"}
    rest = {name: value for name, value in settings.items() if name not in given}
    return own | {name: settings[name] for name in given}, rest


def rsl_rl_env() -> Any:
    from rsl_rl.env import VecEnv
    from tensordict import TensorDict

    class Vectorised(VecEnv):
        """A wrapper without `reset`, as Isaac Lab's is."""

        def __init__(self) -> None:
            self.env = self.unwrapped = Line()

        def __getattr__(self, name: str) -> Any:
            if name == "reset":
                raise AttributeError(name)
            return getattr(self.env, name)

        def get_observations(self) -> Any:
            return TensorDict({"policy": self.env.seen()}, batch_size=[self.env.num_envs])

        def step(self, actions: Tensor) -> Any:
            rewards, ended, extras = self.env.advance(actions)
            return self.get_observations(), rewards, ended.long(), extras

        @property
        def episode_length_buf(self) -> Tensor:
            return self.env.episode_length_buf

        @episode_length_buf.setter
        def episode_length_buf(self, lengths: Tensor) -> None:
            self.env.episode_length_buf = lengths

    return Vectorised()


def rsl_rl_config(recurrent: bool = False, **settings: Any) -> dict[str, Any]:
    model = {"class_name": "MLPModel", "hidden_dims": [8], "activation": "tanh", "obs_normalization": True}
    if recurrent:
        model |= {"class_name": "RNNModel", "rnn_type": "gru", "rnn_hidden_dim": 8, "rnn_num_layers": 1}
    return {
        "num_steps_per_env": 8,
        "save_interval": 100,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"], "rnd_state": ["policy"]},
        "algorithm": {"class_name": "PPO", "num_mini_batches": 2, "num_learning_epochs": 2} | settings,
        "actor": model | {"distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 1.0}},
        "critic": model,
    }


def rsl_rl(seed: int, **settings: Any) -> Any:
    from rsl_rl.runners import OnPolicyRunner

    from popbandits.adapters.rsl_rl import RslRlAgent

    own, of_library = split(settings)
    return RslRlAgent(lambda _: OnPolicyRunner(rsl_rl_env(), rsl_rl_config(**of_library)), seed=seed, **own)


def skrl_env() -> Any:
    from gymnasium.spaces import Box
    from skrl.envs.wrappers.torch import Wrapper

    class Vectorised(Wrapper):
        observation_space, action_space, state_space = Box(-9, 9, (1,)), Box(-1, 1, (1,)), None

        @property
        def unwrapped(self) -> Any:
            return self._env

        def reset(self) -> Any:
            return self._env.reset(), {}

        def step(self, actions: Tensor) -> Any:
            rewards, ended, extras = self._env.advance(actions)
            never = torch.zeros_like(ended)
            return self._env.seen(), rewards[:, None], never[:, None], ended[:, None], extras

        def state(self) -> None:
            return None

        def render(self, *args: Any, **kwargs: Any) -> None:
            raise AssertionError("nothing is shown in a test")

        def close(self) -> None:
            self._env.close()

    return Vectorised(Line())


def skrl_config(**settings: Any) -> dict[str, Any]:
    network = [{"name": "net", "input": "OBSERVATIONS", "layers": [8], "activations": "tanh"}]
    quiet = {"experiment": {"write_interval": 0, "checkpoint_interval": 0}}
    scaled = {"observation_preprocessor": "RunningStandardScaler", "observation_preprocessor_kwargs": {}}
    agent = {"class": "PPO", "rollouts": 8, "learning_epochs": 2, **scaled, **quiet} | settings
    return {
        "models": {
            "separate": True,
            "policy": {"class": "GaussianMixin", "network": network, "output": "ACTIONS", "initial_log_std": 0.0},
            "value": {"class": "DeterministicMixin", "network": network, "output": "ONE"},
        },
        "memory": {"class": "RandomMemory", "memory_size": -1},
        "agent": {name: value for name, value in agent.items() if value is not None},
        "trainer": {
            "class": "SequentialTrainer",
            "timesteps": 8,
            "headless": True,
            "disable_progressbar": True,
            "close_environment_at_exit": False,
        },
    }


def skrl(seed: int, env: Any = skrl_env, **settings: Any) -> Any:
    from skrl.utils.runner.torch import Runner

    from popbandits.adapters.skrl import SkrlAgent

    own, of_library = split(settings)
    config = skrl_config(**of_library)
    return SkrlAgent(lambda number: Runner(env(), config | {"seed": number}).trainer, seed=seed, **own)


def register_rl_games_env() -> None:
    from gymnasium.spaces import Box
    from rl_games.common import env_configurations, vecenv
    from rl_games.common.ivecenv import IVecEnv

    class Vectorised(Line, IVecEnv):
        @property
        def unwrapped(self) -> Any:
            return self

        def get_env_info(self) -> Any:
            return {"observation_space": Box(-9, 9, (1,)), "action_space": Box(-1, 1, (1,))}

        def step(self, actions: Tensor) -> Any:
            rewards, ended, extras = self.advance(actions)
            return self.seen(), rewards, ended, {"episode": extras.pop("log"), **extras}

    vecenv.register("LINES", lambda name, number, **_: Vectorised(number))
    env_configurations.register("lines", {"vecenv_type": "LINES", "env_creator": None})


def rl_games_config(recurrent: bool = False, algorithm: str = "a2c_continuous", **settings: Any) -> dict[str, Any]:
    network: dict[str, Any] = {
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
        "name": "line",
        "env_name": "lines",
        "train_dir": FOLDER.name,
        "num_actors": 4,
        "device": "cpu",
        "print_stats": False,
        "reward_shaper": {},
        "normalize_input": True,
        "normalize_value": True,
        "normalize_advantage": True,
        "gamma": 0.99,
        "tau": 0.95,
        "learning_rate": 1e-3,
        "lr_schedule": "adaptive",
        "kl_threshold": 0.01,
        "e_clip": 0.2,
        "clip_value": True,
        "entropy_coef": 0.0,
        "critic_coef": 1.0,
        "bounds_loss_coef": 0.001,
        "grad_norm": 1.0,
        "truncate_grads": True,
        "horizon_length": 8,
        "seq_length": 4,
        "minibatch_size": 16,
        "mini_epochs": 2,
    }
    if algorithm == "sac":
        network |= {"name": "soft_actor_critic", "separate": True, "log_std_bounds": [-5, 2]}
    return {
        "algo": {"name": algorithm},
        "model": {"name": "soft_actor_critic" if algorithm == "sac" else "continuous_a2c_logstd"},
        "network": network,
        "config": config | settings,
        "torch_threads": 0,
    }


def rl_games(seed: int, **settings: Any) -> Any:
    from rl_games.torch_runner import Runner

    from popbandits.adapters.rl_games import RlGamesAgent

    register_rl_games_env()
    own, of_library = split(settings)

    def make_runner(number: int) -> Any:
        runner = Runner()
        runner.load({"params": rl_games_config(**of_library) | {"seed": number}})
        return runner

    return RlGamesAgent(make_runner, seed=seed, **own)
