"""A trainer of skrl as an agent."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from popbandits.adapters import optimizers, states
from popbandits.adapters.vectorised import Configure, Score, VectorisedAgent, read_tensors
from popbandits.basics.rules import whole
from popbandits.errors import AgentError

TUNABLE = (
    *("learning_epochs", "mini_batches", "discount_factor", "gae_lambda", "grad_norm_clip", "ratio_clip", "value_clip"),
    *("entropy_loss_scale", "value_loss_scale", "kl_threshold", "time_limit_bootstrap", "alpha"),
)
"""Fields of a configuration of skrl that its agents read in every update."""


class SkrlAgent(VectorisedAgent):
    """An agent that trains with a trainer of skrl for some timesteps in every interval: PPO, A2C, RPO, or with an RNN.

        def make_agent(seed):
            return SkrlAgent(make_trainer, seed=seed, timesteps=1600)

    Hyperparameters have skrl's names: learning_rate, ratio_clip, entropy_loss_scale, discount_factor, gae_lambda,
    learning_epochs, mini_batches, kl_threshold (of early stopping), ... `scheduler_kl_threshold` is the target of a
    `KLAdaptiveLR`. Those of the environments are set by `configure`.

    A checkpoint holds `agent.pt`, which `agent.load` reads, and what skrl leaves out of it: the state of the learning
    rate's schedule and of mixed precision. Environments are not saved: every interval begins with a reset of them.

    Args:
        make_trainer: Function that builds a trainer with one agent, from a seed.
        seed: Seed of the agent.
        timesteps: Steps of an interval in each environment; whole rollouts.
        score: None (default) for the mean return of the training episodes that ended in the interval; the name of a
            value in the environments' `infos["log"]`, for its mean over the interval; or a function of the environments.
        configure: Function of the environments and of the hyperparameters that skrl does not know, such as weights of
            rewards. It sets them and returns what it has set. Default None.
    """

    def __init__(
        self,
        make_trainer: Callable[[int], Any],
        *,
        seed: int,
        timesteps: int,
        score: Score = None,
        configure: Configure | None = None,
    ) -> None:
        whole(1).check("timesteps", timesteps)
        self._make_trainer, self._timesteps = make_trainer, timesteps
        super().__init__(seed, score, configure)

    @property
    def env(self) -> Any:
        """The trainer's environments, in skrl's wrapper."""
        return self.trainer.env

    def save(self, directory: Path) -> None:
        """Write skrl's own checkpoint, and what it leaves out."""
        self.trainer.agents.save(str(directory / "agent.pt"))
        torch.save({name: each.state_dict() for name, each in self._rest().items()}, directory / "rest.pt")
        self._write_seeds(directory)

    def load(self, directory: Path) -> None:
        """Load a checkpoint; its learning rate stays only if it is adaptive and not tuned."""
        agent = self.trainer.agents
        self._read_seeds(directory)
        read_tensors(directory / "agent.pt")  # The agent would unpickle whatever it finds.
        own = optimizers.options(agent.optimizer)
        agent.load(str(directory / "agent.pt"))
        if not self._adapts_rate({}):
            optimizers.put_back(agent.optimizer, own)
        states.restore_all(self._rest(), read_tensors(directory / "rest.pt"))

    def _rest(self) -> dict[str, Any]:
        """Return what training continues from, and skrl does not save."""
        agent = self.trainer.agents
        return {name: each for name in ("scheduler", "scaler") if (each := getattr(agent, name, None)) is not None}

    def _build(self, seed: int) -> None:
        self.trainer = self._make_trainer(seed)
        agent = self.trainer.agents
        if not hasattr(getattr(agent, "cfg", None), "gae_lambda") or hasattr(agent, "discriminator"):
            raise AgentError(f"a trainer of skrl must have one agent of PPO, A2C or RPO, got {type(agent).__name__}")
        if self._timesteps % agent.cfg.rollouts:
            raise AgentError(
                f"timesteps must be whole rollouts of {agent.cfg.rollouts} steps, got {self._timesteps}; "
                "what a rollout has begun with would be lost"
            )

    def _read(self) -> dict[str, Any]:
        agent = self.trainer.agents
        found = {each.name: getattr(agent.cfg, each.name) for each in dataclasses.fields(agent.cfg)}
        found = {name: found[name] for name in TUNABLE if name in found}
        if self._adapts_rate({}):
            rate = {"learning_rate": agent.optimizer.param_groups[0]["lr"]}
            return found | rate | {"scheduler_kl_threshold": agent.scheduler.kl_threshold}
        return found | optimizers.read_options({"": agent.optimizer}, {"learning_rate": None})

    def _put(self, values: dict[str, Any]) -> None:
        agent = self.trainer.agents
        for name in values.keys() & set(TUNABLE):
            setattr(agent.cfg, name, values[name])
        if self._adapts_rate({}):
            agent.scheduler.kl_threshold = values["scheduler_kl_threshold"]
            for group in agent.optimizer.param_groups:
                group["lr"] = values.get("learning_rate", group["lr"])
        else:
            optimizers.set_options({"": agent.optimizer}, {"learning_rate": values["learning_rate"]})
            if agent.scheduler is not None:
                optimizers.put_back_rates(agent.scheduler)

    def _adapts_rate(self, values: dict[str, Any]) -> bool:
        return hasattr(getattr(self.trainer.agents, "scheduler", None), "kl_threshold")

    def _learn(self, seed: int) -> None:
        agent = self.trainer.agents
        for name, value in {"_reset_once": True, "_seed": seed}.items():  # Wrappers reset vectorised environments once.
            if name in vars(self.env):
                setattr(self.env, name, value)
        for each in (state for several in getattr(agent, "_rnn_initial_states", {}).values() for state in several):
            each.zero_()
        self.trainer.cfg.timesteps = self._timesteps
        self.trainer.train()
