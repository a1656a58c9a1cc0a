"""Everything that makes a run, in one object: what `tune` takes, a user's file holds, and the record keeps."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from typing import Any, cast

from popbandits.agent import MakeAgent, MakeAgents
from popbandits.docstrings import complete_args
from popbandits.engines.batched import Batched
from popbandits.engines.engine import Engine, InProcess
from popbandits.engines.ray_engine import RayEngine
from popbandits.engines.spawning import cores
from popbandits.engines.workers import Processes, Threads
from popbandits.errors import ArgumentError, RunError
from popbandits.explorers import Proposal
from popbandits.methods import Choice, choose, find_method
from popbandits.population import Population
from popbandits.population.start import Start, from_record, resolve, to_record
from popbandits.records import plain
from popbandits.run.recipes import Role, on_record, recipe
from popbandits.selection import Selection
from popbandits.settings import SETTINGS, TEXTS, Settings
from popbandits.space import Space
from popbandits.storage.store import Store
from popbandits.views.view import View

UNSUITED = {
    ("workers", "in-process"): ("trains one at a time", "use threads"),
    ("workers", "batched"): ("trains all at once", "leave it out"),
    ("round_timeout", "in-process"): (
        "cannot end an agent that hangs",
        "use engine='processes', or 'threads' to leave it behind",
    ),
    ("round_timeout", "batched"): ("cannot end a program that hangs", "leave it out"),
}
"""Settings that an engine cannot do, by name: why, and what to do."""


@complete_args(TEXTS)
@dataclass(frozen=True)
class Experiment(Settings):
    """Hold everything that makes a run: `popbandits run file.py:experiment` runs one, and `tune` makes one.

    `Population` says more of the arguments that it takes too.

    >>> Experiment(agent=None, space={"lr": (0.0, 1.0)}, rounds=0)
    Traceback (most recent call last):
    popbandits.errors.ArgumentError: agent must be callable: make_agent(seed) builds an agent, got None; ...
    """

    # The list of settings cannot name these types: they are defined after it.
    start: Start = None
    selection: Selection | str | None = None
    callbacks: Sequence[View] = field(default=(), kw_only=True)
    progress: bool | View = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.progress, bool | View):
            raise ArgumentError(f"progress must be True, False or a View, got {self.progress!r}")
        if not isinstance(self.callbacks, list | tuple) or not all(isinstance(each, View) for each in self.callbacks):
            raise ArgumentError(f"callbacks must be a list of View objects, got {self.callbacks!r}")
        for (name, engine), (why, fix) in UNSUITED.items():
            value = getattr(self, name)
            if value is not None and engine == self.engine and (name, engine, value) != ("workers", "in-process", 1):
                raise ArgumentError(f"the {engine} engine {why}, got {name}={value:g}; {fix}")
        if self.resources is not None and self.engine != "ray":
            raise ArgumentError(f"only Ray deals out resources, got resources for {self.engine}; use engine='ray'")

    def make_population(self, history: Any = ()) -> Population:
        """The population that decides."""
        known = signature(Population).parameters
        taken = {each.key: getattr(self, name) for name, each in SETTINGS.items() if each.key in known}
        with history.blamed() if isinstance(history, Store) else nullcontext():
            return Population(**taken, history=history)

    @property
    def chosen(self) -> Choice:
        """The method, the selection and who explores: what was named is built, what was left out filled in."""
        return choose(self.method, self.selection, self.quantile, self.explore)

    def make_engine(self) -> Engine:
        """The engine that trains."""
        if self.engine == "batched":
            return Batched(cast(MakeAgents, self.agent), self.population)
        agent = cast(MakeAgent, self.agent)
        if self.engine == "in-process":
            return InProcess(agent)
        if self.engine == "ray":
            return RayEngine(agent, self.at_a_time, Path(self.directory or "."), self.resources, self.round_timeout)
        kind = Threads if self.engine == "threads" else Processes
        return kind(agent, self.at_a_time, self.round_timeout)

    @property
    def at_a_time(self) -> int:
        """How many members train at a time."""
        if self.engine == "in-process":
            return 1
        return min(self.population, self.workers or (cores() if self.engine == "processes" else self.population))

    def record(self) -> dict[str, Any]:
        """What the run's file says of it, in plain values."""
        start = resolve(self.start, Space(self.space), self.population)
        return record_of(self, self.chosen, start, agent=recipe(self.agent))

    @staticmethod
    def recorded(store: Store, trust: bool = False, **changes: Any) -> "Experiment":
        """The experiment of a stored run, with what is not None changed; `trust` as `resume` takes it."""
        about, given = store.about, {name: value for name, value in changes.items() if value is not None}
        if "seed" not in about:
            raise RunError(
                f"{store.path} holds a history but not how it was made; go on by hand with Population(history=…)"
            )
        if isinstance(given.get("method"), str):
            given = find_method(given["method"]).brings | given
        kept = {name: about[each.key] for name, each in SETTINGS.items() if each.recorded and each.key in about}
        kept |= {"space": store.space, "directory": store.path.parent}
        with store.blamed():  # What is on record must hold by itself; what is given is the caller's to answer for.
            kept |= {"population": about["size"], "start": from_record(about.get("start", []))}
            Experiment(**(kept | {"agent": Experiment, "method": None, "selection": None})).make_population()
        before, after = kept["engine"], given.get("engine", kept["engine"])
        if (before == "batched") != (after == "batched") and "agent" not in given:
            one, all_ = "an agent from a seed", "all members from a list of seeds"
            wanted, there = (all_, one) if after == "batched" else (one, all_)
            raise ArgumentError(
                f"engine={after!r} takes what builds {wanted}, got a run whose agent builds {there}; keep "
                f"engine={before!r}, or give another agent too, which reads the same checkpoints"
            )
        if before != after:  # Settings of the one may not suit the other.
            kept |= {"workers": None, "resources": None, "round_timeout": None}
        roles: tuple[Role, ...] = ("agent", "method", "selection")
        for name in roles:
            if name != "selection" or name in about:  # Runs from before there was a choice keep their quantile.
                kept[name] = None if name in given else on_record(about, name, store.path.parent, "resume", trust)
        if "selection" in given:
            kept["quantile"] = None
        made = Experiment(**(kept | given))
        made.make_population()  # Complains about what was given before the record could be blamed for it.
        return made


def record_of(
    run: Experiment | Population, chosen: Choice | Population, start: Sequence[Proposal], **values: Any
) -> dict[str, Any]:
    """Put the settings of a run on record in plain values; those given by name stand above its own."""
    made = {"method": recipe(chosen.method), "selection": recipe(chosen.selection), "start": to_record(start)}
    values = {**made, "explore": chosen.explore, "quantile": getattr(chosen.selection, "quantile", None), **values}
    recorded = [name for name, each in SETTINGS.items() if each.recorded]
    own = {name: plain(getattr(run, name), name) for name in recorded if name not in values and hasattr(run, name)}
    return {SETTINGS[name].key: value for name, value in (own | values).items()}
