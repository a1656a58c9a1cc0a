"""Any algorithm of Stable-Baselines3 as an agent."""

import math
import os
import pickle
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from popbandits.adapters import sb3_files, sb3_hyperparameters
from popbandits.adapters.seeding import SeededAgent, seeded
from popbandits.agent import Outcome
from popbandits.basics.extras import library
from popbandits.basics.rules import whole
from popbandits.errors import AgentError, ArgumentError


class SB3Agent(SeededAgent):
    """An agent that trains a model of Stable-Baselines3 (or sb3-contrib) for some steps in every interval.

        def make_agent(seed):
            return SB3Agent(PPO, "MlpPolicy", "CartPole-v1", seed=seed, steps=2048)

    Hyperparameters have the names of the algorithm's arguments: learning_rate, gamma, clip_range, ent_coef, n_epochs,
    batch_size, n_steps (on-policy), tau, train_freq, exploration_final_eps, ... In addition, `optimizer` is the name of
    a class in torch.optim, and options of the optimizer (weight_decay, momentum, ...) have their own names. Settings
    that are fixed in a built model, such as buffer_size or the network, are refused. Values hold for a whole interval.

    A checkpoint holds `model.zip`, which the algorithm's own `load` reads, the replay buffer and the running scales of
    a VecNormalize. Environments cannot be saved: every interval begins with a reset.

    Args:
        algorithm: Class of the algorithm, such as PPO or SAC.
        policy: Policy, as the algorithm takes it.
        env: Name of an environment, or a function that builds one (or a VecEnv); it is called twice, the second time
            for evaluation.
        seed: Seed of the agent.
        steps: Environment steps of an interval; the algorithm rounds up to whole rollouts.
        episodes: Episodes of the evaluation whose mean return is the score, default 10. 0 for the mean return of the
            training episodes that ended in the interval.
        settings: Further arguments of the algorithm.
    """

    def __init__(
        self,
        algorithm: Callable[..., Any],
        policy: Any,
        env: str | Callable[[], Any],
        *,
        seed: int,
        steps: int,
        episodes: int = 10,
        **settings: Any,
    ) -> None:
        if not (isinstance(env, str) or callable(env)):
            raise ArgumentError(f"env must be a name or a function that builds an environment, got {env!r}")
        whole(1).check("steps", steps)
        whole(0).check("episodes", episodes)
        super().__init__(seed)
        self._env, self._steps, self._episodes = env, steps, episodes
        self._config: dict[str, Any] = {}
        self._tuned: set[str] = set()
        self._logger: Any = None  # made in the first interval
        # SB3 writes into the dicts it gets, which other agents get too.
        own = {name: dict(value) if isinstance(value, dict) else value for name, value in settings.items()}
        with self._new_numbers() as number:
            self.model = algorithm(policy, _build(env), seed=number, **own)
            self._evaluation = self.model._wrap_env(_build(env)) if episodes else None
        self._built = sb3_hyperparameters.built_with(self.model)

    def train(self, config: dict[str, Any]) -> Outcome:
        """Set the hyperparameters, and train for one interval."""
        with self._new_numbers() as number:
            model, self._config = self.model, config
            sb3_hyperparameters.take_back(model, self._tuned - config.keys(), self._built)
            sb3_hyperparameters.put(model, config)
            self._tuned = set(config)
            if hasattr(model, "replay_buffer"):
                sb3_files.close_trajectory(model)
            model.set_random_seed(number)
            model._last_obs = None  # makes `learn` reset the environments
            before, trained = model.num_timesteps, list[float]()
            with self._logging():
                model.learn(
                    self._steps, callback=lambda seen, _: _note_returns(seen, trained), reset_num_timesteps=False
                )
            returns = self._evaluate(number, self._episodes) if self._episodes else trained
        if not returns:
            raise AgentError(f"an episode must end within an interval, got none in {self._steps} steps; raise steps")
        metrics = {"training_return": float(np.mean(trained))} if trained else {}
        error = float(np.std(returns, ddof=1)) / math.sqrt(len(returns)) if len(returns) > 1 else None
        return Outcome(float(np.mean(returns)), model.num_timesteps - before, metrics, error)

    def applied(self) -> dict[str, Any]:
        """Read the hyperparameters back from the model, its optimizers and its buffers."""
        return sb3_hyperparameters.read(self.model, self._config)

    def save(self, directory: Path) -> None:
        """Write the model, its replay buffer and the running scales of its environments."""
        model = self.model
        sb3_files.save_model(model, directory / "model.zip")
        if getattr(model, "replay_buffer", None) is not None:
            sb3_files.save_replay(model.replay_buffer, directory / "replay.npz")
        if (scales := model.get_vec_normalize_env()) is not None:
            sb3_files.save_scales(scales, directory / "scales.npz")
        self._write_seeds(directory, tuned=sorted(self._tuned))

    def load(self, directory: Path) -> None:
        """Load a checkpoint; its hyperparameters are replaced by those of the next interval."""
        tuned = self._read_seeds(directory)["tuned"]
        self._tuned |= set(tuned)  # Schedules stay those of the model in memory, and are reset if inactive.
        old = self.model
        with seeded(0), warnings.catch_warnings():  # Building a model seeds the global generators.
            warnings.filterwarnings("ignore", "`n_steps=")  # SB3 takes its own n-step buffer for a user's.
            self.model = sb3_files.load_model(old, directory / "model.zip")
        if old._custom_logger:
            self.model.set_logger(old.logger)
        if (replay := directory / "replay.npz").exists():
            sb3_files.load_replay(self.model.replay_buffer, replay)
        sb3_files.share_spaces(self.model)
        if (scales := self.model.get_vec_normalize_env()) is not None:
            if (earlier := directory / "scales.pkl").exists():  # of an earlier version
                scales.obs_rms, scales.ret_rms = pickle.loads(earlier.read_bytes())
            else:
                sb3_files.load_scales(scales, directory / "scales.npz")

    def close(self) -> None:
        """Close the environments and the logger."""
        for each in (self.model.get_env(), self._evaluation, self._logger):
            if each is not None:
                each.close()

    def evaluate(self, seed: int) -> float:
        """Return the mean return of fresh episodes, as many as a score has; 10 if scores are training returns."""
        with seeded(seed):
            return float(np.mean(self._evaluate(seed, self._episodes or 10)))

    @contextmanager
    def _logging(self) -> Iterator[None]:
        """Log to the same outputs in every interval; a model of SB3 makes new ones whenever it learns."""
        model = self.model
        if model._custom_logger:
            yield
            return
        logger = library("stable_baselines3.common.logger", "sb3")
        if self._logger is None and model.tensorboard_log is None and "SB3_LOGDIR" not in os.environ:
            # SB3's would make a folder in /tmp, and write nothing to it.
            self._logger = logger.Logger(None, [logger.HumanOutputFormat(sys.stdout)] if model.verbose else [])
        if self._logger is not None:
            # A new one, since the former may hold values of its interval that were not written.
            model.set_logger(logger.Logger(self._logger.dir, self._logger.output_formats))
        try:
            yield
        finally:
            self._logger, model._custom_logger = vars(model).get("_logger"), False

    def _evaluate(self, seed: int, episodes: int) -> list[float]:
        vectorised = library("stable_baselines3.common.vec_env", "sb3")
        evaluation = library("stable_baselines3.common.evaluation", "sb3")
        if self._evaluation is None:
            self._evaluation = self.model._wrap_env(_build(self._env))
        vectorised.sync_envs_normalization(self.model.get_env(), self._evaluation)
        if (scales := vectorised.unwrap_vec_normalize(self._evaluation)) is not None:
            scales.training = scales.norm_reward = False
        self._evaluation.seed(seed)
        returns, _ = evaluation.evaluate_policy(
            self.model, self._evaluation, episodes, return_episode_rewards=True, warn=False
        )
        return list(returns)


def _build(env: str | Callable[[], Any]) -> Any:
    return library("gymnasium", "sb3").make(env) if isinstance(env, str) else env()


def _note_returns(seen: dict[str, Any], returns: list[float]) -> bool:
    """Collect the returns of episodes that a step ended; return True, to continue."""
    returns += [float(info["episode"]["r"]) for info in seen["infos"] if "episode" in info]
    return True
