"""Your own training loop in PyTorch as an agent, which saves checkpoints and sets hyperparameters."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from popbandits.adapters import optimizers
from popbandits.adapters.seeding import SeededAgent
from popbandits.adapters.states import restore_all, state_of
from popbandits.agent import Outcome
from popbandits.errors import AgentError


class TorchAgent(SeededAgent):
    """Base of an agent that defines `build` and `interval`, and names its state in `kept`.

    `kept` names the attributes that training continues from: modules, optimizers, schedules, generators, tensors,
    arrays and plain values. They are saved and loaded; anything else should be the same in every agent, or be made
    again in `interval`.

    A hyperparameter with the name of an optimizer's option (lr or learning_rate, weight_decay, momentum, ...) is set in
    every parameter group before `interval`, whatever the checkpoint's value, and read back by `applied`. With
    several optimizers, write a nested space to address one: `{"actor": {"lr": ...}, "critic": {"lr": ...}}` for kept
    optimizers of those names.

    Python's, NumPy's and PyTorch's global generators are seeded before `build` and before every `interval`.

    >>> class Line(TorchAgent):
    ...     kept = ("layer", "optimizer")
    ...
    ...     def build(self):
    ...         self.layer = torch.nn.Linear(1, 1)
    ...         self.optimizer = torch.optim.SGD(self.layer.parameters())
    ...
    ...     def interval(self, config):
    ...         x = torch.randn(64, 1)
    ...         loss = ((self.layer(x) - 3 * x) ** 2).mean()
    ...         self.optimizer.zero_grad()
    ...         loss.backward()
    ...         self.optimizer.step()
    ...         return -loss.item()
    >>> agent = Line(seed=0)
    >>> agent.train({"lr": 0.1}) < agent.train({"lr": 0.2}), agent.applied()
    (True, {'lr': 0.2})

    Args:
        seed: Seed of the agent.
    """

    kept: Sequence[str] = ()
    """Names of the attributes that are saved."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._config: dict[str, Any] = {}
        with self._new_numbers():
            self.build()
        if not self.kept or isinstance(self.kept, str):
            raise AgentError(f"kept must name the state of training, got {self.kept!r}; list modules, optimizers")
        if missing := [name for name in self.kept if not hasattr(self, name)]:
            raise AgentError(f"build must set every attribute that kept names, got none called {', '.join(missing)}")

        self._built = {name: optimizers.options(each) for name, each in self._optimizers().items()}

    def build(self) -> None:
        """Set the attributes that `kept` names."""
        raise NotImplementedError("an agent builds what it keeps; define build(self)")

    def interval(self, config: dict[str, Any]) -> float | Outcome:
        """Train for one interval, and return the score at its end.

        Args:
            config: Hyperparameters to train with; those of optimizers are set.
        """
        raise NotImplementedError("an agent trains; define interval(self, config)")

    def train(self, config: dict[str, Any]) -> float | Outcome:
        """Set the hyperparameters, and train for one interval."""
        self._config = config
        for name, optimizer in self._optimizers().items():
            optimizers.put_back(optimizer, self._built[name])  # for options that are inactive now
        optimizers.set_options(self._optimizers(), config)
        for thing in map(self.__getattribute__, self.kept):
            if isinstance(thing, LRScheduler):
                optimizers.put_back_rates(thing)
        with self._new_numbers():
            return self.interval(config)

    def applied(self) -> dict[str, Any]:
        """Read the hyperparameters back from the optimizers."""
        return optimizers.read_options(self._optimizers(), self._config)

    def save(self, directory: Path) -> None:
        """Write the attributes named in `kept`."""
        states = {name: state_of(name, getattr(self, name)) for name in self.kept}
        torch.save({"kept": states, **self._seeds()}, directory / "agent.pt")

    def load(self, directory: Path) -> None:
        """Load a checkpoint, without its hyperparameters."""
        saved = torch.load(directory / "agent.pt", weights_only=True)
        self._set_seeds(saved)
        things = {name: getattr(self, name) for name in self.kept}
        for name, thing in restore_all(things, saved["kept"]).items():
            setattr(self, name, thing)

    def _optimizers(self) -> dict[str, Optimizer]:
        return {name: thing for name in self.kept if isinstance(thing := getattr(self, name), Optimizer)}
