"""All settings of a run in one object, for `tune`, a user's file and the record."""

import os
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from importlib import import_module
from inspect import isclass, signature
from pathlib import Path
from platform import python_version
from typing import Any, cast, get_args

from popbandits.agent import MakeAgent, MakeAgents
from popbandits.basics.records import plain
from popbandits.basics.settings import SETTINGS, EngineName, Explore, JobOptions, Keep, Mode, Resources, check
from popbandits.basics.wording import visible
from popbandits.engines.batched import BatchedEngine
from popbandits.engines.engine import Engine, InProcess
from popbandits.engines.ray_engine import RayEngine
from popbandits.engines.slurm_engine import SlurmEngine
from popbandits.engines.slurm_engine import pack as pack_for_slurm
from popbandits.engines.spawning import cores
from popbandits.engines.workers import Processes, Threads
from popbandits.engines.workers import pack as pack_for_processes
from popbandits.errors import ArgumentError, RunError, SpaceError
from popbandits.history import History
from popbandits.methods import PARTS, choose, implied
from popbandits.population import Plan, Population
from popbandits.population.start import FORMS, WORDS, PastRun, Start, from_record, to_record
from popbandits.run.recipes import KINDS, Role, is_shipped, on_record, recipe, signed
from popbandits.run.signing import Signer, require_own
from popbandits.run.source import source_of, versions
from popbandits.selection import Selection
from popbandits.space import Space
from popbandits.storage.handed_over import read_handed_over
from popbandits.storage.queries import rounds_done
from popbandits.storage.schema import RUN_FILE, holds_run
from popbandits.storage.store import Store
from popbandits.views.view import View

DECIDING = [name for name, each in SETTINGS.items() if each.key in signature(Plan.make).parameters]
"""Settings that a run's decisions depend on: those of its plan."""

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


@dataclass(frozen=True)
class Experiment:
    """All settings of a run: `popbandits run file.py:experiment` runs one, and `tune` makes one.

    >>> Experiment(agent=None, space={"lr": (0.0, 1.0)}, rounds=0)
    Traceback (most recent call last):
    popbandits.errors.ArgumentError: agent must be callable: make_agent(seed) builds an agent, got None; ...

    Args:
        agent: Function that builds an agent from a seed, or the class itself (`popbandits.Agent` is the contract). With
            engine="batched", a function that builds all members from a list of seeds (`popbandits.BatchedAgents`).
        space: Hyperparameters to tune: a dict of ranges (tuples, or `log(1e-5, 1e-1)` for a log scale), choices (lists)
            and constants, or a `ConfigurationSpace` of ConfigSpace for conditions and forbidden combinations.
        method: Method that finds new configurations: an explorer such as `PB2Mix()`, any object with an `explore`
            method, or a name such as "pb2-mix". None (default) is `NearPBT()` with a start, else `PBT()`. Change it
            to compare methods, or for one that models scores ("pb2-mix").
        population: Number of members. Default 4. Raise it if you can train more: more members try more.
        rounds: Number of intervals that each member trains. Default 50. None for a run without a set end.
        seed: Seed of all random choices of the tuning. Default 0. Change it to repeat a run with other random choices.
        mode: Direction of better scores. Default "max". Use "min" for losses and errors.
        quantile: Share of members that is replaced in a round, above 0 and at most 0.5. None (default) uses the
            selection's own, 0.25 unless you set it there. Raise it to give up weak members sooner.
        explore: Members that get a new configuration in a round: "replaced", those that load another's weights, or
            "all". None (default) is "replaced", unless a named method sets it. Use "all" to try more at the price of
            changing what works.
        synchronous: Whether members wait for one another at the end of a round. Default True. Use False if intervals
            take unequal time: no member waits, and decisions use the results known by then.
        initial_score: Score of an untrained member. None (default) if unknown; it is then guessed. If you know it,
            methods with a model learn from the first round too.
        directory: Folder of the run. None (default) makes a new one in `runs`, named by date and time.
        engine: Engine that trains members: "in-process" (default), one after another; "threads" for agents that release
            the interpreter's lock or share a GPU; "processes" for agents in pure Python, and to end those that hang;
            "ray" for several machines; "slurm" for a SLURM job each; "batched" for agents that train all members in one
            program.
        workers: Maximum number of members that train at a time. None (default) is all of them with threads, Ray and
            SLURM, and one for each core with processes. Lower it if memory or the GPU is short.
        resources: Ray resources of a member: `cpus` (1), `gpus` (0; fractions share one), and custom resources by name.
            None (default) is one CPU. For engine="ray" only.
        round_timeout: Maximum seconds of an interval; one that takes longer has failed. None (default) is no limit. Use
            one if agents can hang.
        max_failures: Number of intervals that may fail before the run ends. None (default) is any number, as long as
            others complete. Use it to stop an expensive run early.
        keep: Number of checkpoints of each member to keep besides those needed, or "all". Default 0. Raise it if you
            want to look at earlier ones; each takes disk space.
        start: First configurations of the first members, to begin with what you know to work: one, in which a number
            may be a schedule such as `cosine(3e-4, 3e-5)`, or a list; "defaults"; a `History` or the folder of a run;
            "random", spread over the space. None (default) is "defaults" if the space names one, else "random".
            `help(Population)` says more.
        selection: Selection of the weights and configuration that a member continues with: an object such as
            `Truncation(0.5)`, or a name. None (default) is the method's own, or `Truncation()`. Change it for a
            selection of your own, or one of the experiments: if scores are noisy, or early scores mislead.
        name: Name of the run's method in tables and reports. None (default) is the name of its method. Useful if the
            space has nothing to tune: "baseline".
        task: Name of the task that the agents learn, such as a game. Reports compare runs of one task with one another.
            None (default) is the agent's name and settings.
        slurm: Options of the SLURM jobs: those of sbatch such as `partition`, `account`, `gpus_per_node` and
            `cpus_per_task`; `timeout_min` (60) and `mem_gb`; `cluster="local"` runs them as processes on this machine.
            None (default) leaves the others to the cluster. For engine="slurm" only.
        control: Whether member 0 keeps the start to the end, so that the run ends no worse, by more than noise, and
            shows what tuning gained; others may load its weights. Needs a `start`. None (default) is True for `NearPBT`
            with at least four members. Use False if early scores cannot mislead, to search with all members.
        evaluations: Number of evaluations of each candidate at the end of a run, if the agent has an `evaluate`: the
            best mean chooses the checkpoint that is handed over. Default 10. 0 to choose by scores alone. Raise it if
            evaluations are noisy or cheap.
        max_cost: Cost of the run at which it stops: what agents report as the metric `cost`, in any unit, or else their
            seconds of training, summed over all members. None (default) is no limit. Nothing begins that would exceed
            it, judged by the mean so far.
        callbacks: Views that are told what happens: trackers such as `CSVTracker()`, reasons to stop such as
            `StopAtScore(0.9)`, and your own subclasses of `View`. Default (), for none. They are not on record:
            `resume` needs them again.
        progress: Whether the run is shown in the terminal. Default True. False for silence, or an object of a class
            that extends `View`.
    """

    agent: MakeAgent | MakeAgents
    space: Any
    method: Any = None
    population: int = 4
    rounds: int | None = 50
    seed: int = 0
    mode: Mode = "max"
    quantile: float | None = None
    explore: Explore | None = None
    synchronous: bool = True
    initial_score: float | None = None
    directory: str | Path | None = None
    engine: EngineName = "in-process"
    workers: int | None = None
    resources: Resources | None = None
    round_timeout: float | None = None
    max_failures: int | None = None
    keep: Keep = 0
    start: Start = None
    selection: Selection | str | None = None
    name: str | None = None
    task: str | None = None
    _: KW_ONLY
    slurm: JobOptions | None = None
    control: bool | None = None
    evaluations: int = 10
    max_cost: float | None = None
    callbacks: Sequence[View] = ()
    progress: bool | View = True

    def __post_init__(self) -> None:
        for name in SETTINGS:
            check(name, getattr(self, name))
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

    @cached_property
    def plan(self) -> Plan:
        """What the run's decisions depend on: names are resolved to objects, and None to defaults; checked."""
        given = {SETTINGS[name].key: getattr(self, name) for name in DECIDING}
        return Plan.make(**given | {"start": read_start(self.start)})

    def changed(self, **changes: Any) -> "Experiment":
        """Return the experiment with other settings; its plan is kept unless they are part of it."""
        made = replace(self, **changes)
        if "plan" in self.__dict__ and not changes.keys() & set(DECIDING):
            made.__dict__["plan"] = self.plan
        return made

    def make_population(self, history: Any = ()) -> Population:
        """Make the population."""
        with history.blamed() if isinstance(history, Store) else nullcontext():
            return Population.of(self.plan, history)

    def require_sendable(self) -> None:
        """Raise ArgumentError if the engine could not send the agent to its workers; nothing is started."""
        if self.engine == "processes":
            pack_for_processes(cast(MakeAgent, self.agent))
        elif self.engine == "slurm":
            pack_for_slurm(cast(MakeAgent, self.agent))

    def make_engine(self) -> Engine:
        """Make the engine."""
        if self.engine == "batched":
            return BatchedEngine(cast(MakeAgents, self.agent), self.population)
        agent = cast(MakeAgent, self.agent)
        if self.engine == "in-process":
            return InProcess(agent)
        if self.engine == "ray":
            return RayEngine(agent, self.at_a_time, Path(self.directory or "."), self.resources, self.round_timeout)
        if self.engine == "slurm":
            return SlurmEngine(agent, self.at_a_time, Path(self.directory or "."), self.slurm, self.round_timeout)
        return (Threads if self.engine == "threads" else Processes)(agent, self.at_a_time, self.round_timeout)

    @property
    def at_a_time(self) -> int:
        """Number of members that train at a time."""
        if self.engine == "in-process":
            return 1
        return min(self.population, self.workers or (cores() if self.engine == "processes" else self.population))

    def record(self, signer: Signer | None = None) -> dict[str, Any]:
        """Return the metadata of the run for its file, in plain values; what it names is signed by `signer`."""
        recorded = [name for name, each in SETTINGS.items() if each.recorded and name not in ("agent", *DECIDING)]
        others = {name: plain(getattr(self, name), name) for name in recorded}
        values = record_of(self.plan, agent=recipe(self.agent), **others)
        values |= {"source": source_of(self.agent), "versions": versions()}
        names = (name for name, each in _beside(self.agent) if each.space is self.space)
        values[BESIDE] = next(({"name": name, "space": _texts(self.plan.space)} for name in names), None)
        return values if signer is None else values | {role: signed(values[role], signer) for role in get_args(Role)}

    @staticmethod
    def recorded(store: Store, trust: bool = False, **changes: Any) -> "Experiment":
        """Rebuild the experiment of a stored run, with the changes that are not None; `trust` as in `resume`."""
        about, given = store.about, {name: value for name, value in changes.items() if value is not None}
        if "seed" not in about:
            raise RunError(f"{store.path} holds a history without its settings; continue it with Population(history=…)")
        given = implied(given.get("method")) | given
        stored = {name: about[each.key] for name, each in SETTINGS.items() if each.recorded and each.key in about}
        stored = {"control": False} | stored | {"space": store.space, "directory": store.path.parent}
        with store.blamed():  # Errors here are the record's; below they are the caller's.
            stored |= {"population": about["size"], "start": from_record(about.get("start", []))}
            made = Experiment(**(stored | {"agent": Experiment, "method": None, "selection": None}))
            stored["start"] = made.plan.start
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
        parts = choose(**{name: stored.get(name) for name in PARTS}, changes=given, resumed=True)
        experiment = Experiment(**(stored | given | vars(parts) | {"quantile": None}))
        _ = experiment.plan  # Raises here, where an error is not blamed on the record.
        if "rounds" in given and given["rounds"] < (done := rounds_done(store)):
            raise ArgumentError(f"rounds must be at least the {done} that the run has done, got {given['rounds']}")
        if not (trust or is_shipped(experiment.agent)):
            require_own(store, signer)
        return experiment


BESIDE = "experiment"
"""Key, in a run's metadata, of the Experiment in the agent's module that has the run's space, or None: its name, and
its space in words, as it was when the run was last started."""


def read_beside(store: Store, agent: Any) -> tuple[Any, str | None]:
    """Return today's value of BESIDE, and how its space differs from the recorded one, if it was edited since then."""
    seen = store.about.get(BESIDE)
    if not isinstance(seen, dict) or (named := dict(_beside(agent)).get(str(seen.get("name")))) is None:
        return seen, None
    try:
        now, recorded = _texts(Space(named.space)), _texts(store.space)
    except SpaceError:  # It is not used.
        return seen, None
    today = seen | {"space": now}
    if now == recorded or today == seen:
        return today, None
    edited = [name for name in recorded | now if recorded.get(name) != now.get(name)]
    said = (f"{name} is {now.get(name, 'absent')} (recorded: {recorded.get(name, 'absent')})" for name in edited)
    return today, visible(f"the space of {seen['name']} was edited, and the recorded one is kept: {'; '.join(said)}")


def _beside(agent: Any) -> list[tuple[str, Experiment]]:
    """List the Experiments of an agent in its module, with their names."""
    if (own := recipe(agent)) is None:
        return []
    where = next(own[kind] for kind in KINDS if kind in own)
    there = vars(sys.modules.get(where.rpartition(":")[0]) or object).items()
    return [(name, each) for name, each in there if isinstance(each, Experiment) and recipe(each.agent) == own]


def _texts(space: Space) -> dict[str, str]:
    """Map each parameter to its values and conditions, in words."""
    texts: dict[str, str] = {}
    for name, text in space.rules():
        texts[name] = f"{texts[name]}, {text}" if name in texts else text
    return texts


def read_start(start: Start) -> Start:
    """Read the past run in a folder that is given as a start, and what it handed over; return others unchanged."""
    if not isinstance(start, str | os.PathLike) or start in WORDS:
        return start
    folder = os.fspath(start)
    if not holds_run(Path(folder) / RUN_FILE):
        raise ArgumentError(f"{FORMS}, got {folder!r}, which holds no run")
    choice = read_handed_over(folder)
    return PastRun(History.load(folder), folder, None if choice is None else choice.observation)


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


def origin() -> dict[str, Any]:
    """Return what made a new run, and when, for its record."""
    return {"python": python_version(), "popbandits": import_module("popbandits").__version__, "created": time.time()}


def record_of(plan: Plan, **others: Any) -> dict[str, Any]:
    """Return the settings of a run as plain values for its record: those of its plan, and others, which override."""
    made = {"method": recipe(plan.method), "selection": recipe(plan.selection), "start": to_record(plan.start)}
    keys = [SETTINGS[name].key for name in DECIDING if SETTINGS[name].recorded]
    return {key: plain(getattr(plan, key), key) for key in keys if key not in made} | made | others
