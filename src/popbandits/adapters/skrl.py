"""A trainer of skrl as an agent."""

from pathlib import Path
from typing import Any

import torch

from popbandits.adapters import optimizers, states
from popbandits.adapters.vectorised import VectorisedAgent, read_tensors
from popbandits.errors import AgentError

SUPPORTED = {"A2C", "PPO", "RPO"}
TUNABLE = (
    *("learning_epochs", "mini_batches", "discount_factor", "gae_lambda", "grad_norm_clip", "ratio_clip", "value_clip"),
    *("entropy_loss_scale", "value_loss_scale", "kl_threshold", "time_limit_bootstrap", "alpha"),
)
"""Fields of the configurations of PPO, A2C and RPO that are read in every update."""


class SkrlAgent(VectorisedAgent):
    """An agent that trains with a trainer of skrl for some iterations in every interval: PPO, A2C or RPO.

        def make_agent(seed):
            return SkrlAgent(make_trainer, seed=seed, iterations=50)

    Hyperparameters have skrl's names: learning_rate, ratio_clip, entropy_loss_scale, discount_factor, gae_lambda,
    learning_epochs, mini_batches, kl_threshold (of early stopping), ... `scheduler_kl_threshold` is the target of a
    `KLAdaptiveLR`. Those of the environments are set by `configure`.

    A checkpoint holds `agent.pt`, which `agent.load` reads, and `rest.pt` with what skrl leaves out: the state of the
    learning rate's schedule and of mixed precision. Environments are not saved: every interval begins with a reset.

    Arguments are those of `VectorisedAgent`; `make` returns a trainer with one agent, and an iteration is `rollouts`
    steps in each environment.
    """

    def save(self, directory: Path) -> None:
        """Write skrl's own checkpoint, and what it leaves out."""
        self._agent.save(str(directory / "agent.pt"))
        torch.save({name: each.state_dict() for name, each in self._rest.items()}, directory / "rest.pt")
        self._write_seeds(directory)

    def load(self, directory: Path) -> None:
        """Load a checkpoint; its learning rate stays only if it is adaptive and not tuned."""
        read_tensors(directory / "agent.pt")  # The agent would unpickle whatever it finds.
        self._agent.load(str(directory / "agent.pt"))
        states.restore_all(self._rest, read_tensors(directory / "rest.pt"))
        self._read_seeds(directory)

    def _build(self, made: Any) -> Any:
        self.trainer, self._agent = made, made.agents
        kinds = {each.__name__ for each in type(self._agent).__mro__}
        if not SUPPORTED & kinds:
            kind = type(self._agent).__name__
            raise AgentError(f"a trainer of skrl must have one agent of {', '.join(sorted(SUPPORTED))}, got {kind}")
        rest = {"scheduler": self._agent.scheduler, "scaler": self._agent.scaler}
        self._rest = {name: each for name, each in rest.items() if each is not None}
        return made.env

    def _places(self) -> dict[str, tuple[Any, str]]:
        places = {name: (self._agent.cfg, name) for name in TUNABLE if hasattr(self._agent.cfg, name)}
        adaptive = {"scheduler_kl_threshold": (self._agent.scheduler, "kl_threshold")}
        return places | (adaptive if self._adapts_rate() else {})

    def _rate(self) -> float:
        [group, *_] = self._agent.optimizer.param_groups
        return float(group["lr"] if self._adapts_rate() else optimizers.option(group, "lr"))

    def _put_rate(self, rate: float) -> None:
        if self._adapts_rate():
            for group in self._agent.optimizer.param_groups:
                group["lr"] = rate
        else:
            optimizers.set_options({"": self._agent.optimizer}, {"lr": rate})
            if self._agent.scheduler is not None:
                optimizers.put_back_rates(self._agent.scheduler)

    def _adapts_rate(self) -> bool:
        return hasattr(self._agent.scheduler, "kl_threshold")

    def _learn(self, seed: int) -> None:
        for name, value in {"_reset_once": True, "_seed": seed}.items():  # Wrappers reset vectorised environments once.
            if name in vars(self.env):
                setattr(self.env, name, value)
        self.trainer.cfg.timesteps = self._iterations * self._agent.cfg.rollouts
        self.trainer.train()
