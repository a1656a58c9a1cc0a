"""A runner of rsl_rl as an agent."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from popbandits.adapters.vectorised import Configure, Score, VectorisedAgent, read_tensors
from popbandits.basics.rules import whole
from popbandits.errors import AgentError

TUNABLE = (
    *("learning_rate", "schedule", "desired_kl", "clip_param", "entropy_coef", "value_loss_coef", "gamma", "lam"),
    *("num_learning_epochs", "num_mini_batches", "max_grad_norm", "use_clipped_value_loss"),
    "normalize_advantage_per_mini_batch",
)
"""Attributes of rsl_rl's PPO that it reads in every update."""


class RslRlAgent(VectorisedAgent):
    """An agent that trains with an `OnPolicyRunner` of rsl_rl for some iterations in every interval.

        def make_agent(seed):
            return RslRlAgent(make_runner, seed=seed, iterations=50)

    Hyperparameters have the names of PPO's arguments in rsl_rl: learning_rate, clip_param, entropy_coef, gamma, lam,
    num_learning_epochs, num_mini_batches, desired_kl, ... Those of the environments are set by `configure`.

    A checkpoint holds `model.pt`, which `runner.load` reads: networks with their normalisers, optimizer, iteration.
    Environments are not saved: every interval begins with a reset of them.

    Args:
        make_runner: Function that builds the runner from a seed.
        seed: Seed of the agent.
        iterations: Learning iterations of an interval.
        score: None (default) for the mean return of the training episodes that ended in the interval; the name of a
            value in the environments' `extras["log"]`, for its mean over the interval; or a function of the environments.
        configure: Function of the environments and of the hyperparameters that rsl_rl does not know, such as weights of
            rewards. It sets them and returns what it has set. Default None.
        random_lengths: Whether an interval begins with episodes of different ages (rsl_rl's init_at_random_ep_len).
            Default False.
    """

    def __init__(
        self,
        make_runner: Callable[[int], Any],
        *,
        seed: int,
        iterations: int,
        score: Score = None,
        configure: Configure | None = None,
        random_lengths: bool = False,
    ) -> None:
        whole(1).check("iterations", iterations)
        self._make_runner, self._iterations, self._random_lengths = make_runner, iterations, random_lengths
        super().__init__(seed, score, configure)

    @property
    def env(self) -> Any:
        """The runner's environments."""
        return self.runner.env

    def save(self, directory: Path) -> None:
        """Write rsl_rl's own checkpoint."""
        self.runner.save(str(directory / "model.pt"))
        rnd = getattr(self.runner.alg, "rnd", None)
        self._write_seeds(directory, rnd_updates=getattr(rnd, "update_counter", 0))

    def load(self, directory: Path) -> None:
        """Load a checkpoint; its learning rate stays only if it is adaptive and not tuned."""
        updates = self._read_seeds(directory)["rnd_updates"]
        read_tensors(directory / "model.pt")  # The runner would unpickle whatever it finds.
        self.runner.load(str(directory / "model.pt"))
        if getattr(self.runner.alg, "rnd", None) is not None:
            self.runner.alg.rnd.update_counter = updates  # Its weight may follow a schedule.

    def _build(self, seed: int) -> None:
        self.runner = self._make_runner(seed)
        if not callable(getattr(self.env, "reset", None)):
            raise AgentError(f"environments must have a method reset, got {type(self.env).__name__} without it")

    def _read(self) -> dict[str, Any]:
        algorithm = self.runner.alg
        found = {name: getattr(algorithm, name) for name in TUNABLE if hasattr(algorithm, name)}
        return found | {"learning_rate": algorithm.optimizer.param_groups[0]["lr"]}

    def _put(self, values: dict[str, Any]) -> None:
        algorithm = self.runner.alg
        for name, value in values.items():
            setattr(algorithm, name, value)
        for group in algorithm.optimizer.param_groups:
            group["lr"] = algorithm.learning_rate

    def _adapts_rate(self, values: dict[str, Any]) -> bool:
        return bool(values.get("schedule") == "adaptive" and values.get("desired_kl") is not None)

    def _learn(self, seed: int) -> None:
        algorithm = self.runner.alg
        for name in ("actor", "critic", "policy"):  # Recurrent ones remember the last interval; `policy` before 4.0.
            if callable(reset := getattr(getattr(algorithm, name, None), "reset", None)):
                reset()
        if (
            discounted := getattr(getattr(getattr(algorithm, "rnd", None), "reward_normalizer", None), "disc_avg", None)
        ) is not None:
            discounted.avg = None
        self.env.reset()
        self.runner.learn(self._iterations, init_at_random_ep_len=self._random_lengths)
