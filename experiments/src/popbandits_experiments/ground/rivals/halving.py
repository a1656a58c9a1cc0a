"""Successive halving (Karnin et al. 2013; Jamieson and Talwalkar 2016) and Hyperband (Li et al. 2018) at equal steps.

| symbol | meaning |
|---|---|
| R | intervals of a whole training |
| eta | of eta trials one goes on: 3 |
| s | promotions of a bracket; at most s_max, the largest s with eta^s <= R |
| r_k | intervals of a trial in rung k: floor(R / eta^(s - k)), so that r_s = R |
| n_k | trials in rung k: floor(n_(k-1) / eta), at least 1 |

The number of trials follows from the budget: n_0 is the largest multiple of eta for which the whole bracket costs no
more; what is left then lets more trials into the last rung, and what is left after that starts more in the first. The
120 intervals of a population of 4 x 30 become

    s = 3: 44 / 14 / 4 / 1 trials to 1 / 3 / 10 / 30 intervals
    s = 2: 15 / 5 / 2 trials to 3 / 10 / 30 intervals
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from popbandits.errors import ArgumentError
from popbandits_experiments.ground.rivals.trials import Draws, Scheduler, Trial

ETA = 3


@dataclass(frozen=True)
class Plan:
    """A bracket: how many trials reach each rung, and how long they have trained there.

    >>> plan = Plan.within(120, 30, 3)
    >>> plan, plan.cost
    (Plan(trials=(42, 14, 4, 1), levels=(1, 3, 10, 30)), 118)
    >>> plan.filled(120).trials, plan.filled(120).cost
    ((44, 14, 4, 1), 120)
    >>> Plan.within(120, 30, 2), Plan.within(120, 30, 2).cost
    (Plan(trials=(15, 5, 2), levels=(3, 10, 30)), 120)
    """

    trials: tuple[int, ...]
    levels: tuple[int, ...]

    @property
    def cost(self) -> int:
        """Intervals of the bracket if no trial fails."""
        return sum(n * step for n, step in zip(self.trials, self.steps, strict=True))

    @property
    def steps(self) -> tuple[int, ...]:
        """Intervals that a trial trains in each rung."""
        return tuple(high - low for low, high in zip((0, *self.levels), self.levels, strict=False))

    @staticmethod
    def of(trials: int, rounds: int, promotions: int) -> "Plan":
        """Plan a bracket of so many trials."""
        counts = [trials]
        for _ in range(promotions):
            counts.append(max(1, counts[-1] // ETA))
        return Plan(tuple(counts), levels(rounds, promotions))

    @staticmethod
    def within(budget: int, rounds: int, promotions: int) -> "Plan | None":
        """Plan the largest bracket within a budget of intervals, the first rung not filled; None if none fits."""
        unit = ETA if promotions else 1
        groups = 0
        while Plan.of(unit * (groups + 1), rounds, promotions).cost <= budget:
            groups += 1
        if groups == 0:
            return None
        plan = Plan.of(unit * groups, rounds, promotions)
        if promotions:
            *earlier, before, last = plan.trials
            last = min(before, last + (budget - plan.cost) // plan.steps[-1])
            plan = Plan((*earlier, before, last), plan.levels)
        return plan

    def filled(self, budget: int) -> "Plan":
        """Start more trials in the first rung with what a budget of intervals leaves."""
        first, *others = self.trials
        return Plan((first + (budget - self.cost) // self.levels[0], *others), self.levels)


def most_promotions(rounds: int) -> int:
    """Return s_max.

    >>> most_promotions(30), most_promotions(27), most_promotions(2)
    (3, 3, 0)
    """
    found = 0
    while ETA ** (found + 1) <= rounds:
        found += 1
    return found


def levels(rounds: int, promotions: int) -> tuple[int, ...]:
    """Return the r_k.

    >>> levels(30, 3), levels(30, 2), levels(30, 0)
    ((1, 3, 10, 30), (3, 10, 30), (30,))
    """
    return tuple(rounds // ETA**k for k in reversed(range(promotions + 1)))


def ranked(trials: Collection[Trial], level: int) -> list[Trial]:
    """Sort trials by their score at a level, best first; the earlier trial wins a tie, and failures are left out."""
    reached = [trial for trial in trials if trial.age >= level and math.isfinite(trial.scores[level - 1])]
    return sorted(reached, key=lambda trial: -trial.scores[level - 1])


@dataclass
class Bracket:
    """A bracket in progress: the trials of its current rung."""

    plan: Plan
    rung: int = 0
    trials: list[Trial] = field(default_factory=list)

    @property
    def level(self) -> int:
        """Intervals that the trials of the rung train to."""
        return self.plan.levels[self.rung]

    @property
    def waiting(self) -> list[Trial]:
        """Trials of the rung that have not reached its level."""
        return [trial for trial in self.trials if trial.age < self.level and not trial.failed]

    @property
    def grows(self) -> bool:
        """True if it still has trials to start."""
        return self.rung == 0 and len(self.trials) < self.plan.trials[0]

    def promote(self) -> None:
        """Go on to the next rung with the best trials as soon as all have reached the level."""
        while self.rung + 1 < len(self.plan.levels) and not self.waiting and not self.grows:
            best = ranked(self.trials, self.level)
            self.rung += 1
            self.trials = best[: self.plan.trials[self.rung]]


class Halving(Scheduler):
    """Successive halving: brackets one after the other; a slot that one leaves idle works for the next."""

    def __init__(self, draws: Draws, slots: int, rounds: int, plans: Sequence[Plan]):
        super().__init__(draws, slots, rounds)
        self.brackets = [Bracket(plan) for plan in plans]

    def choose(self, chosen: Collection[Trial]) -> Trial | None:
        """Choose the first waiting trial, or start one."""
        for bracket in self.brackets:
            if waiting := [trial for trial in bracket.waiting if trial not in chosen]:
                return waiting[0]
            if bracket.grows:
                bracket.trials.append(self.start())
                return bracket.trials[-1]
        return None

    def learn(self, trained: Sequence[Trial]) -> None:
        """Promote in the brackets whose rung is complete."""
        for bracket in self.brackets:
            bracket.promote()

    def may_go_on(self, trial: Trial) -> bool:
        """Tell whether a bracket still has the trial, and further intervals for it."""
        return trial.age < self.rounds and any(trial in bracket.trials for bracket in self.brackets)


def successive_halving(draws: Draws, slots: int, rounds: int) -> Halving:
    """Make successive halving with as many promotions as fit into a training."""
    return Halving(draws, slots, rounds, [_whole(slots, rounds, most_promotions(rounds))])


def mild_halving(draws: Draws, slots: int, rounds: int) -> Halving:
    """Make successive halving with a promotion less: fewer trials, and the first decision later."""
    return Halving(draws, slots, rounds, [_whole(slots, rounds, max(0, most_promotions(rounds) - 1))])


def to_the_end(draws: Draws, slots: int, rounds: int) -> Halving:
    """Make random search: as many trials as slots, each trained to the end."""
    return Halving(draws, slots, rounds, [Plan((slots,), (rounds,))])


def hyperband_plans(budget: int, rounds: int) -> list[Plan]:
    """Share a budget among brackets, from the one with the most promotions to those with fewer.

    Paper: s_max + 1 brackets of (s_max + 1) R intervals each, run again and again. Here: one run of as many brackets as
    fit, each with an equal share of what the ones before have left, because a population's budget is far smaller. What
    is left in the end enlarges the first bracket.

    >>> [plan.trials for plan in hyperband_plans(120, 30)]
    [(15, 5, 1, 1), (9, 3, 1)]
    >>> [plan.trials for plan in hyperband_plans(240, 30)]
    [(28, 8, 2, 1), (6, 2, 1), (3, 1), (2,)]
    """
    most = most_promotions(rounds)
    for count in range(most + 1, 0, -1):
        left, plans = budget, list[Plan]()
        for index in range(count):
            plan = Plan.within(left // (count - index), rounds, most - index)
            if plan is None:
                break
            plans.append(plan)
            left -= plan.cost
        else:
            share = plans[0].cost + left
            return [(Plan.within(share, rounds, most) or plans[0]).filled(share), *plans[1:]]
    raise ArgumentError(f"hyperband needs a bracket of {ETA} trials within the budget, got {budget} intervals")


def hyperband(draws: Draws, slots: int, rounds: int) -> Halving:
    """Make Hyperband's brackets."""
    return Halving(draws, slots, rounds, hyperband_plans(slots * rounds, rounds))


def _whole(slots: int, rounds: int, promotions: int) -> Plan:
    plan = Plan.within(slots * rounds, rounds, promotions)
    if plan is None:
        raise ArgumentError(
            f"halving needs {ETA} trials within the budget, got {slots} members x {rounds} rounds; give more members"
        )
    return plan.filled(slots * rounds)
