"""First configurations of a run: given by the user, the space's defaults, or what a past run handed over."""

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from popbandits.basics.records import Config, Observation, plain
from popbandits.basics.rules import is_real
from popbandits.basics.typing import Directory
from popbandits.errors import ArgumentError, HistoryError, SpaceError
from popbandits.explorers import Proposal
from popbandits.history import History
from popbandits.selection.choice import choose_by_scores
from popbandits.space import Numerical, Space
from popbandits.space.build import names_default
from popbandits.space.schedules import Schedule, tabulate
from popbandits.space.storage import pack, unpack


@dataclass(frozen=True)
class PastRun:
    """A past run to start from, and its name in the record of the new one.

    Args:
        history: Its observations.
        name: What the record of the new run calls it.
        handed_over: The interval whose checkpoint it handed over. Default: what its scores alone would choose.
    """

    history: History
    name: str = "history"
    handed_over: Observation | None = None


Start = Mapping[str, Any] | Sequence[Mapping[str, Any] | Proposal] | History | PastRun | Directory | None
"""Configurations, in which a number may be a schedule; "defaults", a past run, or "random" for none of these. None is
"defaults" if the space names a default, else "random"."""

FORMS = "start must be a configuration or a list of them, 'defaults', 'random', a History, or the folder of a run"
WORDS = ("defaults", "random")


def resolve(start: Start, space: Space, size: int) -> tuple[Proposal, ...]:
    """Return the first configurations of the first members: complete, legal, and each with its origin.

    The result can be given as `start` again, and does not change then.

    >>> space = Space({"lr": (0.0, 1.0), "act": ["relu", "tanh"]})
    >>> resolve("defaults", space, size=4)
    (Proposal(config={'act': 'relu', 'lr': 0.5}, decision={'start': 'defaults'}),)
    """
    if start is None:
        start = "defaults" if names_default(space.configuration_space) else "random"
    if start == "random":
        return ()
    if start == "defaults":
        return (_proposal(Proposal({}, {"start": start}), "start='defaults'", space),)
    if isinstance(start, str) or hasattr(start, "__fspath__"):
        start = _load(start)
    if isinstance(start, History):
        start = PastRun(start)
    if isinstance(start, PastRun):
        return _winners(start, space, size)
    if isinstance(start, Mapping):
        start = [start]
    if not isinstance(start, Sequence):
        raise ArgumentError(f"{FORMS}, got {start!r}")
    if len(start) > size:
        raise ArgumentError(f"start has at most one configuration for each member, got {len(start)} for {size}")
    return tuple(_proposal(entry, f"start[{index}]", space) for index, entry in enumerate(start))


def follow(space: Space, start: Start, rounds: int | None) -> tuple[Space, Start]:
    """Return the space whose numbers follow the schedules in a start, and the start with their first values instead.

    >>> space = Space({"lr": (0.0, 1.0), "act": ["relu", "tanh"]})
    >>> space, start = follow(space, {"lr": lambda progress: 1 - progress, "act": "tanh"}, rounds=3)
    >>> space.schedules, start
    ({'lr': (1.0, 0.5, 0.0)}, [{'lr': 1.0, 'act': 'tanh'}])
    """
    entries = [start] if isinstance(start, Mapping) else start
    if not isinstance(entries, list | tuple):
        return space, start
    tables: dict[str, tuple[float, ...]] = {}
    given = [_first(entry, space, rounds, tables) for entry in entries]
    if not tables:
        return space, given
    made = space.with_schedules({**space.schedules, **tables})
    for name, table in tables.items():
        # Configurations are legal with the values at the beginning of the run; later ones could break the rule.
        if len(set(table)) > 1 and (rules := space.rules_on(name)):
            raise SpaceError(
                f"{name!r}: a number that decides a condition or a forbidden clause has no schedule, got one with "
                f"{rules[0]!r}; give a value, or drop the rule"
            )
    return made, given


def _first(entry: Any, space: Space, rounds: int | None, tables: dict[str, tuple[float, ...]]) -> Any:
    """Return an entry with the first values of its schedules, which are added to the tables."""
    if not isinstance(entry, Mapping):
        return entry
    flat = space.flatten(entry)
    for name, schedule in flat.items():
        if _is_schedule(schedule, name, space):
            table = tabulate(name, schedule, rounds)
            if tables.setdefault(name, table) != table:
                raise ArgumentError(f"{name!r}: all members follow one schedule, got two; give the others a value")
            whole = any(number.name == name and number.kind == "integer" for number in space.numerical)
            flat[name] = round(table[0]) if whole else table[0]
    return flat


def _is_schedule(value: Any, name: str, space: Space) -> bool:
    """Tell whether a value is a schedule; for a choice any other function or class is a label, or meant as one."""
    if any(number.name == name and number.kind != "ordinal" for number in space.numerical):
        return callable(value)
    is_label = name in space.names and space.configuration_space[name].legal_value(value)
    return isinstance(value, Schedule) and not is_label


def _load(folder: Any) -> PastRun:
    """Load a past run; for users of `Population` who give its folder, as they could before."""
    try:
        past = PastRun(History.load(folder), str(folder))
    except HistoryError as error:
        raise ArgumentError(f"{FORMS}, got {str(folder)!r}: {error}") from error
    warnings.warn(
        f"Population(start=folder) is deprecated, got {past.name!r}; give start=History.load({past.name!r})",
        DeprecationWarning,
        stacklevel=5,
    )
    return past


def to_record(start: Sequence[Proposal]) -> list[dict[str, Any]]:
    """Convert resolved configurations to plain values, for a run's file."""
    return [{"config": pack(each.config, "start"), "decision": dict(each.decision)} for each in start]


def from_record(record: Sequence[dict[str, Any]]) -> tuple[Proposal, ...]:
    """Return the configurations that `to_record` wrote."""
    return tuple(Proposal(unpack(json.dumps(each["config"])), each["decision"]) for each in record)


def _proposal(entry: Any, where: str, space: Space) -> Proposal:
    """Complete one configuration; one that is already resolved keeps its origin."""
    given = entry if isinstance(entry, Proposal) else Proposal(entry)
    try:
        config = space.nest(space.complete(given.config))
    except SpaceError as error:
        raise SpaceError(f"{where}: {error}") from error
    return Proposal(config, plain({"start": "given", **given.decision}, where))


def _winners(past: PastRun, space: Space, size: int) -> tuple[Proposal, ...]:
    """Return the last distinct configurations of the lineage handed over, newest first; one member stays random."""
    found: list[Proposal] = []
    for observation in past.history.ancestors(past.handed_over or _chosen(past.history)):
        member, round_ = observation.key
        try:
            config, clipped = _translate(past.history.applied(observation), space)
        except SpaceError as error:
            raise SpaceError(f"start from {past.name!r}, member {member} in round {round_}: {error}") from error
        if any(config == each.config for each in found):
            continue
        origin = {"start": past.name, "from": [member, round_]} | ({"clipped": clipped} if clipped else {})
        found.append(Proposal(config, plain(origin, "start")))
        if len(found) >= size - 1:
            break
    if not found:
        raise ArgumentError(f"start needs a run with a completed interval, got {past.name!r} with none; give another")
    return tuple(found)


def _chosen(history: History) -> Observation | None:
    """Return the interval that a run hands over by its scores; None if no interval has completed."""
    choice = choose_by_scores(history)
    return None if choice is None else choice.observation


def _translate(config: Config, space: Space) -> tuple[Config, dict[str, Any]]:
    """Convert a configuration of another space to this one; also return the values that were clipped.

    Constants are this space's own: their values were not chosen.
    """
    chosen = {parameter.name: parameter for parameter in (*space.numerical, *space.categorical)}
    before = {name: value for name, value in space.flatten(config).items() if name in chosen}
    within = {
        # Values of other types pass unchanged, for the space to refuse.
        name: parameter.nearest(value)
        if isinstance(parameter := chosen[name], Numerical) and parameter.kind != "ordinal" and is_real(value)
        else value
        for name, value in before.items()
    }
    after = space.complete(within, drop_inactive=True)
    clipped = {name: value for name, value in before.items() if name in after and after[name] != value}
    return space.nest(after), clipped
