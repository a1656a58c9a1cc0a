"""A runner of rl_games as an agent."""

import sys
from pathlib import Path
from typing import Any

import torch

from popbandits.adapters.vectorised import VectorisedAgent, read_tensors
from popbandits.basics.scratch import scratch
from popbandits.errors import AgentError

TUNABLE = ("e_clip", "critic_coef", "bounds_loss_coef", "gamma", "tau", "grad_norm", "minibatch_size")
"""Names in a configuration of rl_games that are attributes of its algorithm, too."""


class RlGamesAgent(VectorisedAgent):
    """An agent that trains with rl_games' PPO (a2c_continuous, a2c_discrete) for some epochs in every interval.

        def make_agent(seed):
            return RlGamesAgent(make_runner, seed=seed, iterations=50)

    Hyperparameters have the names of rl_games' configuration: learning_rate, kl_threshold (of an adaptive schedule),
    e_clip, entropy_coef, critic_coef, gamma, tau, mini_epochs, minibatch_size, grad_norm, ... A central value network
    keeps its own settings. Hyperparameters of the environments are set by `configure`.

    A checkpoint holds `model.pth`, which rl_games' `restore` reads, with the learning rate that a schedule has
    reached, which rl_games leaves out. Of environments it holds what their `get_env_state` returns; every interval
    begins with a reset of them.

    Arguments are those of `VectorisedAgent`; `make` returns a `Runner` that has loaded a configuration, and an
    iteration is an epoch of rl_games.
    """

    def save(self, directory: Path) -> None:
        """Write rl_games' own state, and what it leaves out."""
        state = self.algorithm.get_full_state_weights() | {"last_lr": self.algorithm.last_lr}
        torch.save(state, directory / "model.pth")
        self._write_seeds(directory)

    def load(self, directory: Path) -> None:
        """Load a checkpoint; its learning rate stays only if it is adaptive and not tuned."""
        state = read_tensors(directory / "model.pth", self.algorithm.device)
        self.algorithm.set_full_state_weights(state)
        self.algorithm.last_lr = state["last_lr"]
        self._read_seeds(directory)

    def _build(self, made: Any) -> Any:
        self.algorithm = made.algo_factory.create(made.algo_name, base_name="run", params=made.params)
        if not hasattr(self.algorithm, "e_clip"):
            raise AgentError(f"the algorithm of rl_games must be a2c_continuous or a2c_discrete, got {made.algo_name}")
        return self.algorithm.vec_env

    def _places(self) -> dict[str, tuple[Any, str]]:
        algorithm, schedule = self.algorithm, self.algorithm.scheduler
        places = {name: (algorithm, name) for name in TUNABLE if hasattr(algorithm, name)}
        places["mini_epochs"] = (algorithm, "mini_epochs_num")
        decays = hasattr(schedule, "start_entropy_coef")
        places["entropy_coef"] = (schedule, "start_entropy_coef") if decays else (algorithm, "entropy_coef")
        return places | ({"kl_threshold": (schedule, "kl_threshold")} if self._adapts_rate() else {})

    def _rate(self) -> float:
        return float(getattr(self.algorithm.scheduler, "start_lr", self.algorithm.optimizer.param_groups[0]["lr"]))

    def _put_rate(self, rate: float) -> None:
        algorithm, schedule = self.algorithm, self.algorithm.scheduler
        algorithm.last_lr = rate
        if hasattr(schedule, "start_lr"):  # A linear schedule goes on from the factor that it had reached.
            schedule.start_lr = rate
            now = schedule.update(rate, algorithm.entropy_coef, algorithm.epoch_num, 0, 0.0)
            algorithm.last_lr, algorithm.entropy_coef = now
        algorithm.update_lr(algorithm.last_lr)  # rl_games does so after every minibatch: an optimizer's own is lost.

    def _adapts_rate(self) -> bool:
        return hasattr(self.algorithm.scheduler, "kl_threshold")

    def _learn(self, seed: int) -> None:
        algorithm, size = self.algorithm, self.algorithm.minibatch_size
        kinds = algorithm.is_discrete, algorithm.is_rnn, algorithm.ppo_device, algorithm.seq_length
        algorithm.dataset = type(algorithm.dataset)(algorithm.batch_size, size, *kinds)
        algorithm.num_minibatches = algorithm.batch_size // size
        algorithm.max_epochs, algorithm.max_frames = algorithm.epoch_num + self._iterations, -1
        algorithm.save_freq, algorithm.save_best_after = 0, sys.maxsize  # A run has its own checkpoints, and its end.
        with scratch() as folder:
            algorithm.nn_dir = str(folder)  # rl_games writes a last checkpoint.
            algorithm.train()
