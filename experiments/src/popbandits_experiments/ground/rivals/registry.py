"""Names of the rivals, and how each is made."""

from collections.abc import Callable
from dataclasses import dataclass

from ConfigSpace import ConfigurationSpace

from popbandits_experiments.ground.rivals.annealed import Annealed
from popbandits_experiments.ground.rivals.asha import ASHA
from popbandits_experiments.ground.rivals.bohb import BOHB
from popbandits_experiments.ground.rivals.dyhpo import DyHPO
from popbandits_experiments.ground.rivals.halving import hyperband, mild_halving, successive_halving, to_the_end
from popbandits_experiments.ground.rivals.longer import Longer, Sifted
from popbandits_experiments.ground.rivals.median import MedianTPE
from popbandits_experiments.ground.rivals.smac3 import SMAC
from popbandits_experiments.ground.rivals.trials import Belief, Draws, Scheduler


@dataclass(frozen=True)
class Rival:
    """A scheduler of trials, and where its configurations come from."""

    label: str
    scheduler: Callable[[Draws, int, int], Scheduler]
    """Function that makes it from its draws, the slots, and the intervals of a whole training."""
    belief: Belief = "uniform"

    @property
    def longer(self) -> bool:
        """True if a run lasts more rounds than a population's, while slots idle, as those of halving do."""
        return self.scheduler in (Longer, Sifted, successive_halving, mild_halving, hyperband, BOHB, SMAC)

    def make(self, space: ConfigurationSpace, slots: int, rounds: int, seed: int) -> Scheduler:
        """Make a scheduler for one run; ArgumentError if the budget is too small for it."""
        return self.scheduler(Draws(space, self.belief, seed), slots, rounds)


_WORDS: dict[Belief, str] = {
    "uniform": "",
    "start": ", started from the defaults",
}


def _family(
    name: str, label: str, scheduler: Callable[[Draws, int, int], Scheduler], *beliefs: Belief
) -> dict[str, Rival]:
    """Name a scheduler with several beliefs."""
    return {
        name if belief == "uniform" else f"{name}/{belief}": Rival(label + _WORDS[belief], scheduler, belief)
        for belief in beliefs
    }


RIVALS: dict[str, Rival] = {
    "defaults/annealed": Rival("Defaults, learning rate annealed", Annealed),
    "defaults/longer": Rival("Defaults, one run of the whole budget", Longer, "start"),
    **_family("sifted", "Nine short trials, the best one trained on", Sifted, "uniform", "start"),
    **_family("random", "Random search", to_the_end, "start"),
    **_family("sha", "Successive halving", successive_halving, "uniform", "start"),
    **_family("sha-mild", "Successive halving, mild", mild_halving, "uniform", "start"),
    **_family("asha", "ASHA", ASHA, "uniform", "start"),
    **_family("hyperband", "Hyperband", hyperband, "uniform", "start"),
    **_family("bohb", "BOHB", BOHB, "uniform", "start"),
    **_family("tpe", "TPE with median stopping", MedianTPE, "uniform", "start"),
    **_family("dyhpo", "Freeze-thaw after DyHPO", DyHPO, "uniform", "start"),
    **_family("smac", "SMAC3, multi-fidelity", SMAC, "uniform", "start"),
}
"""Rivals by name. With `/start` they begin with the usual settings, and draw around them as the default does.

`smac` needs its package, which is imported when it is made.
"""
