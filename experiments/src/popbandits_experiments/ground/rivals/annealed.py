"""The usual settings with a learning rate that falls to zero, as CleanRL's PPO has it (Huang et al. 2022)."""

from collections.abc import Mapping
from typing import Any

from popbandits_experiments.ground.rivals.halving import Halving, Plan
from popbandits_experiments.ground.rivals.trials import Draws, Trial


class Annealed(Halving):
    """Every slot trains the defaults to the end.

    CleanRL: the learning rate falls after every update. Here: after every interval, lr (1 - k / R) in interval k from
    0, because a configuration belongs to an interval.
    """

    def __init__(self, draws: Draws, slots: int, rounds: int):
        super().__init__(draws, slots, rounds, [Plan((slots,), (rounds,))])
        self._defaults: Mapping[str, Any] = dict(draws.space.configuration_space.get_default_configuration())

    def start(self) -> Trial:
        """Start a trial with the defaults."""
        self.trials.append(Trial(len(self.trials), dict(self._defaults)))
        return self.trials[-1]

    def config_of(self, trial: Trial) -> dict[str, Any]:
        """Return the defaults with the learning rate of the trial's next interval."""
        return trial.config | {"lr": trial.config["lr"] * (1 - trial.age / self.rounds)}
