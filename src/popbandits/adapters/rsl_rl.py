"""A runner of rsl_rl as an agent."""

from pathlib import Path
from typing import Any

import torch

from popbandits.adapters.optimizers import set_options
from popbandits.adapters.vectorised import VectorisedAgent, read_tensors
from popbandits.errors import AgentError

TUNABLE = (
    *("schedule", "desired_kl", "clip_param", "entropy_coef", "value_loss_coef", "gamma", "lam", "max_grad_norm"),
    *("num_learning_epochs", "num_mini_batches", "use_clipped_value_loss", "normalize_advantage_per_mini_batch"),
)
"""Attributes of rsl_rl's PPO that it reads in every update."""


class RslRlAgent(VectorisedAgent):
    """An agent that trains with an `OnPolicyRunner` of rsl_rl for some iterations in every interval.

        def make_agent(seed):
            return RslRlAgent(make_runner, seed=seed, iterations=50)

    Hyperparameters have the names of PPO's arguments in rsl_rl: learning_rate, clip_param, entropy_coef, gamma, lam,
    num_learning_epochs, num_mini_batches, desired_kl, ... Those of the environments are set by `configure`.

    A checkpoint holds `model.pt`, which `runner.load` reads: networks with their normalisers, optimizer, iteration.
    Environments are not saved: every interval begins with a reset of them. Let `random_lengths` be True if its first
    episodes are to have different lengths, as with rsl_rl's `init_at_random_ep_len`.

    Arguments are those of `VectorisedAgent`; `make` returns the runner.
    """

    random_lengths = False

    def save(self, directory: Path) -> None:
        """Write rsl_rl's own checkpoint."""
        self.runner.save(str(directory / "model.pt"))
        self._write_seeds(directory, rnd_updates=getattr(self._rnd, "update_counter", 0))

    def load(self, directory: Path) -> None:
        """Load a checkpoint; its learning rate stays only if it is adaptive and not tuned."""
        read_tensors(directory / "model.pt")  # The runner would unpickle whatever it finds.
        self._thaw_buffers()
        self.runner.load(str(directory / "model.pt"))
        self._algorithm.learning_rate = self._rate()  # rsl_rl 5.0 leaves it as it was.
        updates = self._read_seeds(directory)["rnd_updates"]
        if self._rnd is not None:  # rsl_rl does not save how far the schedule of its weight is.
            self._rnd.update_counter = updates

    def _thaw_buffers(self) -> None:
        """Let the scales of observations be loaded into, which rsl_rl 5.0 makes in inference mode."""
        models = [each for each in (self._algorithm.actor, self._algorithm.critic, self._rnd) if each is not None]
        for module in (each for model in models for each in model.modules()):
            for name, buffer in module.named_buffers(recurse=False):
                if buffer.is_inference():
                    setattr(module, name, buffer.clone())

    def _build(self, made: Any) -> Any:
        self.runner, self._algorithm = made, made.alg
        self._rnd = made.alg.rnd
        return made.env

    def _places(self) -> dict[str, tuple[Any, str]]:
        return {name: (self._algorithm, name) for name in TUNABLE if hasattr(self._algorithm, name)}

    def _rate(self) -> float:
        return float(self._algorithm.optimizer.param_groups[0]["lr"])

    def _put_rate(self, rate: float) -> None:
        self._algorithm.learning_rate = rate
        set_options({"": self._algorithm.optimizer}, {"lr": rate})

    def _adapts_rate(self) -> bool:
        return bool(self._algorithm.schedule == "adaptive" and self._algorithm.desired_kl is not None)

    def _learn(self, seed: int) -> None:
        for model in (self._algorithm.actor, self._algorithm.critic):
            model.reset()  # A recurrent one remembers the last interval, and so does the storage of its states.
        self._algorithm.storage.saved_hidden_state_a = self._algorithm.storage.saved_hidden_state_c = None
        if hasattr(self._rnd, "reward_normalizer") and hasattr(self._rnd.reward_normalizer, "disc_avg"):
            self._rnd.reward_normalizer.disc_avg.avg = None  # the running return of the last interval
        resets = [reset for each in self._layers() if callable(reset := getattr(each, "reset", None))]
        if not resets:
            raise AgentError(f"environments must have a method reset, got {type(self.env).__name__} without it")
        with torch.inference_mode():  # as rsl_rl steps them: it forbids changing their tensors in place elsewhere.
            resets[0]()
        self.runner.learn(self._iterations, init_at_random_ep_len=self.random_lengths)
