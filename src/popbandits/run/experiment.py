"""All settings of a run in one object, for `tune`, a user's file and the record."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from inspect import isclass, signature
from pathlib import Path
from typing import Any, cast, get_args

from popbandits.agent import MakeAgent, MakeAgents
from popbandits.docstrings import complete_args
from popbandits.engines.batched import Batched
from popbandits.engines.engine import Engine, InProcess
from popbandits.engines.ray_engine import RayEngine
from popbandits.engines.slurm_engine import SlurmEngine
from popbandits.engines.spawning import cores
from popbandits.engines.workers import Processes, Threads
from popbandits.errors import ArgumentError, RunError
from popbandits.explorers import Proposal
from popbandits.methods import Choice, choose, find_method
from popbandits.population import Population
from popbandits.population.start import Start, from_record, resolve, to_record
from popbandits.records import plain
from popbandits.run.ownership import require_own
from popbandits.run.recipes import Role, is_shipped, on_record, recipe, signed
from popbandits.run.signing import Signer
from popbandits.run.source import source_of
from popbandits.run.start import read_start
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
"""Pairs of setting and engine that do not work together: the reason, and the fix."""


@complete_args(TEXTS)
@dataclass(frozen=True)
class Experiment(Settings):
    """All settings of a run: `popbandits run file.py:experiment` runs one, and `tune` makes one.

    `help(Population)` says more about the arguments that it shares.

    >>> Experiment(agent=None, space={"lr": (0.0, 1.0)}, rounds=0)
    Traceback (most recent call last):
    popbandits.errors.ArgumentError: agent must be callable: make_agent(seed) builds an agent, got None; ...
    """

    # `Settings` cannot name these types: they are defined after it.
    start: Start = None
    selection: Selection | str | None = None
    callbacks: Sequence[View] = field(default=(), kw_only=True)
    progress: bool | View = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.progress, bool | View):
            raise ArgumentError(f"progress must be True, False or a View, got {self.progress!r}")
        object.__setattr__(self, "callbacks", _views(self.callbacks))
        for (name, engine), (why, fix) in UNSUITED.items():
            value = getattr(self, name)
            if value is not None and engine == self.engine and (name, engine, value) != ("workers", "in-process", 1):
                raise ArgumentError(f"the {engine} engine {why}, got {name}={value:g}; {fix}")
        if self.resources is not None and self.engine != "ray":
            raise ArgumentError(f"only Ray assigns resources, got resources for {self.engine}; use engine='ray'")
        if self.slurm is not None and self.engine != "slurm":
            raise ArgumentError(
                f"only SLURM takes options of its jobs, got slurm= for {self.engine}; use engine='slurm'"
            )

    def make_population(self, history: Any = ()) -> Population:
        """Make the population."""
        known = signature(Population).parameters
        taken = {each.key: getattr(self, name) for name, each in SETTINGS.items() if each.key in known}
        taken["start"] = read_start(self.start)
        with history.blamed() if isinstance(history, Store) else nullcontext():
            return Population(**taken, history=history)

    @property
    def chosen(self) -> Choice:
        """Method, selection and explore: names are resolved to objects, and None to defaults."""
        return choose(self.method, self.selection, self.quantile, self.explore)

    def make_engine(self) -> Engine:
        """Make the engine."""
        if self.engine == "batched":
            return Batched(cast(MakeAgents, self.agent), self.population)
        agent = cast(MakeAgent, self.agent)
        if self.engine == "in-process":
            return InProcess(agent)
        if self.engine == "ray":
            return RayEngine(agent, self.at_a_time, Path(self.directory or "."), self.resources, self.round_timeout)
        if self.engine == "slurm":
            return SlurmEngine(agent, self.at_a_time, Path(self.directory or "."), self.slurm, self.round_timeout)
        kind = Threads if self.engine == "threads" else Processes
        return kind(agent, self.at_a_time, self.round_timeout)

    @property
    def at_a_time(self) -> int:
        """Number of members that train at a time."""
        if self.engine == "in-process":
            return 1
        return min(self.population, self.workers or (cores() if self.engine == "processes" else self.population))

    def record(self, signer: Signer | None = None) -> dict[str, Any]:
        """Return the metadata of the run for its file, in plain values; what it names is signed by `signer`."""
        start = resolve(read_start(self.start), Space(self.space), self.population)
        values = record_of(self, self.chosen, start, agent=recipe(self.agent)) | source_of(self.agent, self.space)
        return values if signer is None else values | {role: signed(values[role], signer) for role in get_args(Role)}

    @staticmethod
    def recorded(store: Store, trust: bool = False, **changes: Any) -> "Experiment":
        """Rebuild the experiment of a stored run, with the changes that are not None; `trust` as in `resume`."""
        about, given = store.about, {name: value for name, value in changes.items() if value is not None}
        if "seed" not in about:
            raise RunError(f"{store.path} holds a history without its settings; continue it with Population(history=…)")
        if isinstance(given.get("method"), str):
            given = find_method(given["method"]).brings | given
        stored = {name: about[each.key] for name, each in SETTINGS.items() if each.recorded and each.key in about}
        stored |= {"space": store.space, "directory": store.path.parent}
        with store.blamed():  # Errors here are the record's; below they are the caller's.
            stored |= {"population": about["size"], "start": from_record(about.get("start", []))}
            Experiment(**(stored | {"agent": Experiment, "method": None, "selection": None})).make_population()
        before, after = stored["engine"], given.get("engine", stored["engine"])
        if (before == "batched") != (after == "batched") and "agent" not in given:
            one, all_ = "an agent from a seed", "all members from a list of seeds"
            wanted, there = (all_, one) if after == "batched" else (one, all_)
            raise ArgumentError(
                f"engine={after!r} takes what builds {wanted}, got a run whose agent builds {there}; keep "
                f"engine={before!r}, or give another agent too, which reads the same checkpoints"
            )
        if before != after:  # Settings of one engine may not suit another.
            stored |= {"workers": None, "resources": None, "slurm": None, "round_timeout": None}
        signer, roles = Signer.of(store), cast("tuple[Role, ...]", get_args(Role))
        for name in roles:
            if name != "selection" or name in about:  # Runs from before selections existed keep their quantile.
                stored[name] = (
                    None if name in given else on_record(about, name, store.path.parent, "resume", trust, signer)
                )
        if "selection" in given:
            stored["quantile"] = None
        experiment = Experiment(**(stored | given))
        experiment.make_population()  # Raises here, where an error is not blamed on the record.
        if not (trust or is_shipped(experiment.agent)):
            require_own(store, signer)
        return experiment


def _views(callbacks: Any) -> tuple[View, ...]:
    """Return the callbacks that were meant: a view alone is a list of one, and a class without arguments is called."""
    given = callbacks if isinstance(callbacks, list | tuple) else [callbacks]
    if not all(isinstance(each, View) or (isclass(each) and issubclass(each, View)) for each in given):
        raise ArgumentError(f"callbacks must be a list of View objects, got {callbacks!r}")
    return tuple(map(_view, given))


def _view(given: View | type[View]) -> View:
    if isinstance(given, View):
        return given
    try:
        signature(given).bind()
    except TypeError as error:
        name = given.__name__
        raise ArgumentError(
            f"callbacks must be a list of View objects, got the class {name} ({error}); make one, such as {name}(...)"
        ) from None
    return given()


def record_of(
    run: Experiment | Population, chosen: Choice | Population, start: Sequence[Proposal], **values: Any
) -> dict[str, Any]:
    """Return the settings of a run as plain values for its record; `values` override the run's own."""
    made = {"method": recipe(chosen.method), "selection": recipe(chosen.selection), "start": to_record(start)}
    values = {**made, "explore": chosen.explore, "quantile": getattr(chosen.selection, "quantile", None), **values}
    recorded = [name for name, each in SETTINGS.items() if each.recorded]
    own = {name: plain(getattr(run, name), name) for name in recorded if name not in values and hasattr(run, name)}
    return {SETTINGS[name].key: value for name, value in (own | values).items()}
