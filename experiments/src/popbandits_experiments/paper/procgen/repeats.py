"""Agents that trained in two stored runs with the same seed and values: did they do the same, to the last digit?"""

from collections.abc import Iterator, Sequence
from itertools import combinations, takewhile
from typing import NamedTuple

from rich import box
from rich.table import Table

from popbandits.basics.wording import counted
from popbandits.history import Observation
from popbandits.storage.store import reading
from popbandits_experiments.paper.procgen.tables import Trial

COMPARED = ("training_return", "episodes")
"""What two intervals are compared by: the mean of the last 100 episodes, and the number of all of them."""


class Agent(NamedTuple):
    """A member of a trial, up to its first copy or change of values."""

    trial: Trial
    member: int
    intervals: Sequence[Observation]


class Repeat(NamedTuple):
    """Two agents with the same seed and values, and how many of the intervals that both have are equal."""

    one: Agent
    other: Agent
    both: int
    equal: int


def repeats(given: Sequence[Trial]) -> Iterator[Repeat]:
    """Compare every two agents that began with the same seed, values and settings."""
    groups: dict[tuple[object, ...], list[Agent]] = {}
    for trial in given:
        for member in range(trial.population):
            if intervals := _undisturbed([o for o in trial.run.history if o.member == member]):
                settings = trial.settings["game"], trial.settings["algorithm"], *trial.trained_by
                values = tuple(sorted(intervals[0].config.items()))
                key = (*settings, trial.run.about["seed"], member, values)
                groups.setdefault(key, []).append(Agent(trial, member, intervals))
    for same in groups.values():
        for one, other in combinations(same, 2):
            pairs = list(zip(one.intervals, other.intervals, strict=False))
            equal = sum(all(a.metrics[each] == b.metrics[each] for each in COMPARED) for a, b in pairs)
            yield Repeat(one, other, len(pairs), equal)


def _undisturbed(history: Sequence[Observation]) -> list[Observation]:
    """Return a member's intervals as long as it goes on from its own weights with the values that it began with."""
    if not history or history[0].round != 0:
        return []
    first = history[0]
    same = takewhile(lambda o: o is first or (_goes_on(o) and o.config == first.config), history)
    return list(takewhile(lambda o: all(each in o.metrics for each in COMPARED), same))  # A failed interval has none.


def _goes_on(observation: Observation) -> bool:
    """Return whether an interval began with the member's own weights."""
    return observation.parent == (observation.member, observation.round - 1)


def repeats_table(given: Sequence[Trial], least: int) -> Table:
    """Build a table of the pairs that are equal in at least this many intervals; its caption counts all pairs."""
    table = Table("agent", "again", "intervals of both", "equal to the last digit", box=box.MARKDOWN)
    every = list(repeats(given))
    for pair in every:
        if pair.equal >= least:
            table.add_row(_said(pair.one), _said(pair.other), str(pair.both), str(pair.equal))
    whole, none = sum(pair.equal == pair.both for pair in every), sum(pair.equal == 0 for pair in every)
    table.caption = (
        f"{counted(len(every), 'pair')} of agents that share an interval or more: equal in all of them {whole}, "
        f"in none {none}, in some {len(every) - whole - none}"
    )
    return table


def _said(agent: Agent) -> str:
    directory = agent.trial.run.directory
    with reading(directory) as store:
        sittings = sum(event.kind in ("started", "resumed") for event in store.events())
    return f"{'/'.join(directory.parts[-4:])}, member {agent.member}, {counted(sittings, 'sitting')}"
