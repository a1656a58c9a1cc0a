"""SMAC3's multi-fidelity facade (Lindauer et al. 2022) by its own code: Hyperband, and a random forest for new trials.

SMAC names a configuration and a budget, and is told the cost; here a budget is the interval up to which a trial trains,
and a promoted trial goes on from where it paused. Brackets, promotions, model and search are SMAC's, with its defaults.

SMAC: configurations of the first rung are drawn at random. Here: they are this benchmark's draws, so that beliefs and
seeds mean the same for all rivals; what SMAC draws later is uniform. SMAC with several workers starts the next bracket
early, when they run out of work. Here, as with one worker: a rung waits for the one before it, because an idle slot
costs nothing and a bracket that starts without the results of another wastes its model. The budget ends the run, often
within a bracket.
"""

import copy
import math
import warnings
from collections.abc import Collection, Sequence
from functools import partial
from importlib import import_module
from itertools import cycle
from typing import Any

from ConfigSpace import Configuration

from popbandits.basics.scratch import scratch
from popbandits.errors import ArgumentError
from popbandits_experiments.ground.rivals.halving import ETA
from popbandits_experiments.ground.rivals.trials import Draws, Scheduler, Trial

MODULES = {
    "smac": ("MultiFidelityFacade", "Scenario"),
    "smac.intensifier.hyperband_utils": ("determine_HB",),
    "smac.runhistory.dataclasses": ("TrialValue",),
    "smac.runhistory.enumerations": ("StatusType",),
}
"""What is used of SMAC3, 2.2 or later."""
ALMOST = 1e-9
"""Rounding error of SMAC's budgets."""


def load() -> dict[str, Any]:
    """Import what is used of SMAC3; ArgumentError if it is not installed."""
    try:
        return {name: getattr(import_module(module), name) for module, names in MODULES.items() for name in names}
    except ImportError as error:
        raise ArgumentError(f"the method SMAC3 needs its package, got: {error}; pip install smac") from error


class SMAC(Scheduler):
    """The trials that SMAC3 asks for, rung by rung."""

    def __init__(self, draws: Draws, slots: int, rounds: int):
        super().__init__(draws, slots, rounds)
        smac = load()
        brackets: dict[int, list[int]] = smac["determine_HB"](1, rounds, ETA)["n_configs_in_stage"]
        self._sizes = cycle([(rung, count) for counts in brackets.values() for rung, count in enumerate(counts)])
        """Number of each rung in its bracket, and how many trials SMAC asks for in it."""
        self._left = 0
        """Trials of the rung that SMAC has not been asked for."""
        self._rung: list[Trial] = []
        self._before: list[Trial] = []
        """Trials of the rung before, of which some may still be promoted."""
        self._asked: dict[Trial, Any] = {}
        """What SMAC wants to be told, by trials that train for it."""
        self._drawn: dict[Configuration, dict[str, Any]] = {}
        """Draws for the first rung; SMAC rounds them."""
        self._by_configuration: dict[Configuration, Trial] = {}
        self._failed: list[Any] = []
        """What SMAC is told at the end of the rung, when the worst score is known."""
        self._first: float | None = None
        self._worst = 0.0
        """Highest cost so far; costs count from the first score."""
        self._success = smac["TrialValue"]
        self._failure = partial(smac["TrialValue"], status=smac["StatusType"].CRASHED)
        self._facade = self._make(smac["MultiFidelityFacade"], smac["Scenario"], brackets[0][0])

    def _make(self, facade: Any, scenario: Any, first: int) -> Any:
        """Make SMAC, with draws for its first rung."""
        space = copy.deepcopy(self.draws.space.configuration_space)  # SMAC seeds it.
        for config in [self.draws.draw() for _ in range(first)]:
            self._drawn[Configuration(space, values=config)] = config
        with scratch() as folder:  # It writes what it was made with, and nothing later.
            made = scenario(
                space,
                deterministic=True,
                n_trials=self.budget + first,
                min_budget=1,
                max_budget=self.rounds,
                seed=int(self.draws.rng.integers(2**31)),
                output_directory=folder,
            )
            design = facade.get_initial_design(made, n_configs=0, additional_configs=list(self._drawn))
            with warnings.catch_warnings():  # SMAC calls what ConfigSpace has deprecated.
                warnings.simplefilter("ignore", DeprecationWarning)
                return facade(made, initial_design=design, logging_level=False)

    def choose(self, chosen: Collection[Trial]) -> Trial | None:
        """Choose a trial on its way to a rung, or ask SMAC for the next; None while a rung is not complete."""
        for trial in self._asked:
            if trial not in chosen:
                return trial
        while self._left or not self._asked:
            if not self._left:
                self._next_rung()
            if (asked := self._ask()) is not None:
                return asked
        return None

    def learn(self, trained: Sequence[Trial]) -> None:
        """Tell SMAC the scores of the trials that have reached their rung, or failed."""
        for trial in trained:
            if self._is_done(trial):
                self._tell(trial)

    def may_go_on(self, trial: Trial) -> bool:
        """Tell whether the trial trains for its rung, or may be promoted to the next."""
        return trial.age < self.rounds and not trial.failed and (trial in self._rung or trial in self._before)

    def _next_rung(self) -> None:
        for info in self._failed:  # A hair above the worst: who did not fail is promoted first.
            self._facade.tell(info, self._failure(cost=math.nextafter(self._worst, math.inf)), save=False)
        self._failed = []
        rung, self._left = next(self._sizes)
        self._before, self._rung = (self._rung if rung else []), []

    def _ask(self) -> Trial | None:
        """Ask SMAC for a trial; None if it needs no training, as one that has failed before."""
        info = self._facade.ask()
        self._left -= 1
        trial = self._by_configuration.get(info.config)
        if trial is None:
            config = self._drawn.get(info.config) or self.draws.space.check(dict(info.config))
            trial = Trial(len(self.trials), config)
            self.trials.append(trial)
            self._by_configuration[info.config] = trial
        self._asked[trial] = info
        self._rung.append(trial)
        if not self._left:
            self._before = []
        if not self._is_done(trial):
            return trial
        self._tell(trial)
        return None

    def _is_done(self, trial: Trial) -> bool:
        return trial.failed or trial.age >= int(self._asked[trial].budget + ALMOST)

    def _tell(self, trial: Trial) -> None:
        """Tell SMAC a cost: what the score is behind the first one; a failure costs as much as the worst so far.

        SMAC's own cost of a failure is infinite, which leaves its model without numbers.
        """
        info = self._asked.pop(trial)
        if trial.failed:
            self._failed.append(info)
            return
        self._first = trial.last if self._first is None else self._first
        cost = self._first - trial.last
        self._worst = max(self._worst, cost)
        self._facade.tell(info, self._success(cost=cost), save=False)
