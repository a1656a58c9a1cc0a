"""A runner of rl_games as an agent."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from popbandits.adapters.vectorised import Configure, Score, VectorisedAgent, read_tensors
from popbandits.basics.rules import whole
from popbandits.basics.scratch import scratch
from popbandits.errors import AgentError

ATTRIBUTES = {
    **{name: name for name in ("e_clip", "critic_coef", "bounds_loss_coef", "gamma", "tau", "grad_norm")},
    "mini_epochs": "mini_epochs_num",
}
"""Names in a configuration of rl_games, and the attributes of its algorithm that have their values."""


class RlGamesAgent(VectorisedAgent):
    """An agent that trains with rl_games' PPO (a2c_continuous, a2c_discrete) for some epochs in every interval.

        def make_agent(seed):
            return RlGamesAgent(make_runner, seed=seed, epochs=50)

    Hyperparameters have the names of rl_games' configuration: learning_rate, kl_threshold (of an adaptive schedule),
    e_clip, entropy_coef, critic_coef, gamma, tau, mini_epochs, minibatch_size, grad_norm, ... A central value network
    keeps its own settings. Hyperparameters of the environments are set by `configure`.

    A checkpoint holds `model.pth`, which rl_games' `restore` reads, with what rl_games leaves out of it: the learning
    rate that a schedule has reached, and the scale of advantages. Of environments it holds
    what their `get_env_state` returns; every interval begins with a reset of them.

    Args:
        make_runner: Function that builds a `Runner` from a seed and has it load a configuration.
        seed: Seed of the agent.
        epochs: Epochs of an interval: rollouts of `horizon_length` steps in each environment.
        score: None (default) for the mean return of the training episodes that ended in the interval; the name of a
            value in the environments' `infos["episode"]`, for its mean over the interval; or a function of the
            environments.
        configure: Function of the environments and of the hyperparameters that rl_games does not know, such as weights
            of rewards. It sets them and returns what it has set. Default None.
    """

    def __init__(
        self,
        make_runner: Callable[[int], Any],
        *,
        seed: int,
        epochs: int,
        score: Score = None,
        configure: Configure | None = None,
    ) -> None:
        whole(1).check("epochs", epochs)
        self._make_runner, self._epochs = make_runner, epochs
        super().__init__(seed, score, configure)

    @property
    def env(self) -> Any:
        """The algorithm's environments."""
        return self.algorithm.vec_env

    def save(self, directory: Path) -> None:
        """Write rl_games' own state, and what it leaves out."""
        algorithm = self.algorithm
        state = algorithm.get_full_state_weights()
        if algorithm.normalize_rms_advantage:
            state["advantage_mean_std"] = algorithm.advantage_mean_std.state_dict()
        state["last_lr"] = algorithm.last_lr
        torch.save(state, directory / "model.pth")
        self._write_seeds(directory)

    def load(self, directory: Path) -> None:
        """Load a checkpoint; its learning rate stays only if it is adaptive and not tuned."""
        self._read_seeds(directory)
        state = read_tensors(directory / "model.pth", self.algorithm.device)
        self.algorithm.set_full_state_weights(state)
        self.algorithm.last_lr = state["last_lr"]

    def _build(self, seed: int) -> None:
        runner = self._make_runner(seed)
        self.algorithm = runner.algo_factory.create(runner.algo_name, base_name="run", params=runner.params)
        if not hasattr(self.algorithm, "e_clip"):
            raise AgentError(f"the algorithm must be a2c_continuous or a2c_discrete, got {runner.algo_name}")

    def _read(self) -> dict[str, Any]:
        algorithm, schedule = self.algorithm, self.algorithm.scheduler
        found = {name: getattr(algorithm, each) for name, each in ATTRIBUTES.items() if hasattr(algorithm, each)}
        found["minibatch_size"] = algorithm.dataset.minibatch_size
        found["learning_rate"] = getattr(schedule, "start_lr", algorithm.optimizer.param_groups[0]["lr"])
        found["entropy_coef"] = getattr(schedule, "start_entropy_coef", algorithm.entropy_coef)
        return found | ({"kl_threshold": schedule.kl_threshold} if self._adapts_rate({}) else {})

    def _put(self, values: dict[str, Any]) -> None:
        algorithm, schedule = self.algorithm, self.algorithm.scheduler
        for name in ATTRIBUTES.keys() & values.keys():
            setattr(algorithm, ATTRIBUTES[name], values[name])
        self._put_minibatch_size(values["minibatch_size"])
        algorithm.entropy_coef = values["entropy_coef"]
        algorithm.last_lr = values.get("learning_rate", algorithm.last_lr)
        if self._adapts_rate({}):
            algorithm.kl_threshold = schedule.kl_threshold = values["kl_threshold"]
        else:
            for name, value in {"start_lr": algorithm.last_lr, "start_entropy_coef": algorithm.entropy_coef}.items():
                if hasattr(schedule, name):  # A linear schedule; it goes on from the factor that it had reached.
                    setattr(schedule, name, value)
            now = schedule.update(algorithm.last_lr, algorithm.entropy_coef, algorithm.epoch_num, 0, 0.0)
            algorithm.last_lr, algorithm.entropy_coef = now
        algorithm.update_lr(algorithm.last_lr)  # rl_games does so after every minibatch.

    def _put_minibatch_size(self, size: int) -> None:
        algorithm = self.algorithm
        if size != algorithm.dataset.minibatch_size:
            if algorithm.batch_size % size:
                raise AgentError(f"minibatch_size must divide the batch of {algorithm.batch_size} steps, got {size}")
            algorithm.minibatch_size, algorithm.num_minibatches = size, algorithm.batch_size // size
            kinds = algorithm.is_discrete, algorithm.is_rnn, algorithm.ppo_device, algorithm.seq_length
            algorithm.dataset = type(algorithm.dataset)(algorithm.batch_size, size, *kinds)

    def _adapts_rate(self, values: dict[str, Any]) -> bool:
        return hasattr(self.algorithm.scheduler, "kl_threshold")

    def _learn(self, seed: int) -> None:
        algorithm = self.algorithm
        algorithm.max_epochs, algorithm.max_frames = algorithm.epoch_num + self._epochs, -1
        algorithm.save_freq, algorithm.save_best_after = 0, sys.maxsize  # A run has its own checkpoints, and its end.
        with scratch() as folder:
            algorithm.nn_dir = str(folder)  # rl_games writes a last checkpoint.
            algorithm.train()
