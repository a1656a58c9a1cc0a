"""Everything that makes a run, in one object: what `tune` takes, a user's file holds, and the record keeps."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, cast, get_args

from popbandits.agent import MakeAgent, MakeAgents
from popbandits.docstrings import complete_args
from popbandits.engines.batched import Batched
from popbandits.engines.checkpoints import Keep
from popbandits.engines.disk import anchored
from popbandits.engines.engine import Engine, InProcess
from popbandits.engines.ray_engine import RayEngine, Resources
from popbandits.engines.recipes import Role, on_record, recipe
from popbandits.engines.spawning import cores
from popbandits.engines.workers import Processes, Threads
from popbandits.errors import ArgumentError, RunError
from popbandits.history import Mode
from popbandits.history.records import plain
from popbandits.history.store import Store
from popbandits.methods import Choice, Explore, choose, find_method
from popbandits.population import Population
from popbandits.population.start import Start, from_record, resolve, to_record
from popbandits.selection import Selection
from popbandits.space import Space
from popbandits.typing import is_real, is_whole
from popbandits.wording import suggestion

EngineName = Literal["in-process", "threads", "processes", "ray", "batched"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)


@complete_args(Population)
@dataclass(frozen=True)
class Experiment:
    """Hold everything that makes a run: `popbandits run file.py:experiment` runs one, and `tune` makes one.

    `Population` says more of the arguments that it takes too.

    >>> Experiment(agent=None, space={"lr": (0.0, 1.0)}, rounds=0)
    Traceback (most recent call last):
    popbandits.errors.ArgumentError: agent must be callable: make_agent(seed) builds an agent, got None; ...

    Args:
        agent: Give what builds an agent from a seed: a function, or the class itself (`popbandits.Agent` is the
            contract). With engine="batched", give what builds all members from a list of seeds
            (`popbandits.BatchedAgents`).
        population: Set the number of members. Default 4. Raise it if you can train more of them: more members try more.
        directory: Say where the run is kept. None (default) is a new folder in `runs`. Give one to choose its
            name.
        engine: Choose what trains: "in-process" (default), one member after another; "threads" for agents that release
            the interpreter's lock or share a GPU; "processes" for agents of pure Python, and to end those that hang;
            "ray" for several machines; "batched" for agents that train all members in one program.
        workers: Limit how many members train at a time. None (default) is all of them with threads and Ray, and one for
            each core with processes. Lower it if memory or the GPU is short.
        resources: Say what a member needs of Ray: `cpus` (1), `gpus` (0; fractions share one), and custom resources by
            name. None (default) is one CPU. For engine="ray" only.
        round_timeout: Limit the seconds of an interval; one that takes longer has failed. None (default) sets no limit.
            Set it if agents can hang.
        max_failures: Limit the intervals that may fail before the run ends. None (default) is any number, as long as
            others complete. Set it to stop an expensive run early.
        keep: Set how many more checkpoints of each member to keep than are needed, or "all". Default 0. Raise it if you
            want to look at earlier ones; each takes disk space.
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

    def __post_init__(self) -> None:
        if not callable(self.agent):
            raise ArgumentError(
                f"agent must be callable: make_agent(seed) builds an agent, got {self.agent!r}; give the class itself, "
                "or a function"
            )
        if not is_whole(self.population, 1):
            raise ArgumentError(f"population must be a whole number of at least 1, got {self.population!r}")
        if self.directory is not None:
            anchored(self.directory)
        if self.engine not in ENGINES:
            close = suggestion(self.engine, ENGINES)
            raise ArgumentError(f"engine must be one of {', '.join(ENGINES)}, got {self.engine!r}{close}")
        if self.workers is not None and not is_whole(self.workers, 1):
            raise ArgumentError(f"workers must be a whole number of at least 1, got {self.workers!r}; leave it out")
        if self.workers not in (None, 1) and self.engine == "in-process":
            raise ArgumentError(f"the in-process engine trains one at a time, got workers={self.workers}; use threads")
        if self.workers is not None and self.engine == "batched":
            raise ArgumentError(f"the batched engine trains all at once, got workers={self.workers}; leave it out")
        if self.round_timeout is not None:
            if not (is_real(self.round_timeout) and self.round_timeout > 0):
                raise ArgumentError(f"round_timeout must be above 0 seconds, got {self.round_timeout!r}; leave it out")
            if self.engine == "in-process":
                raise ArgumentError(
                    "the in-process engine cannot end an agent that hangs, "
                    f"got round_timeout={self.round_timeout:g}; use engine='processes', or 'threads' to leave it behind"
                )
            if self.engine == "batched":
                raise ArgumentError(
                    "the batched engine cannot end a program that hangs, "
                    f"got round_timeout={self.round_timeout:g}; leave it out"
                )
        if self.resources is not None:
            if self.engine != "ray":
                raise ArgumentError(f"only Ray deals out resources, got resources for {self.engine}; use engine='ray'")
            given: Any = self.resources
            if not (isinstance(given, Mapping) and all(is_real(each) and each >= 0 for each in given.values())):
                raise ArgumentError(f"resources must be a dict of amounts of at least 0, got {given!r}")
            if wrong := [name for name in given if str(name).lower() in ("cpu", "gpu")]:  # Ray would wait for one.
                raise ArgumentError(f"resources are called cpus and gpus, got {wrong[0]!r}; add the s")
        if self.max_failures is not None and not is_whole(self.max_failures, 0):
            raise ArgumentError(
                f"max_failures must be a whole number of at least 0, or None for no limit, got {self.max_failures!r}"
            )
        if self.keep != "all" and not is_whole(self.keep, 0):
            raise ArgumentError(f"keep must be a whole number of at least 0, or 'all', got {self.keep!r}")

    def make_population(self, history: Any = ()) -> Population:
        """The population that decides."""
        if isinstance(history, Store):
            with history.blamed():
                return self._population(history)
        return self._population(history)

    def _population(self, history: Any) -> Population:
        return Population(
            self.space,
            self.method,
            size=self.population,
            rounds=self.rounds,
            seed=self.seed,
            mode=self.mode,
            quantile=self.quantile,
            explore=self.explore,
            synchronous=self.synchronous,
            initial_score=self.initial_score,
            history=history,
            start=self.start,
            selection=self.selection,
        )

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
        kept = {
            name: plain(getattr(self, name), name)  # Numpy's numbers cannot be stored.
            for name in (
                "rounds",
                "seed",
                "mode",
                "synchronous",
                "initial_score",
                "engine",
                "workers",
                "resources",
                "round_timeout",
                "max_failures",
                "keep",
            )
        }
        chosen = self.chosen
        made = {"agent": recipe(self.agent), "method": recipe(chosen.method), "selection": recipe(chosen.selection)}
        start = to_record(resolve(self.start, Space(self.space), self.population))
        quantile = getattr(chosen.selection, "quantile", None)
        chosen_too = {"explore": chosen.explore, "quantile": quantile}
        return {**kept, **made, **chosen_too, "size": int(self.population), "start": start}

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
        kept = {f.name: about[f.name] for f in fields(Experiment) if f.name in about}
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
