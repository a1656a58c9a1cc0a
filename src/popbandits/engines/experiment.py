"""Everything that makes a run, in one object: what `tune` takes, a user's file holds, and the record keeps."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, cast, get_args

from popbandits.agent import MakeAgent, MakeAgents
from popbandits.engines.batched import Batched
from popbandits.engines.checkpoints import Keep
from popbandits.engines.engine import Engine, InProcess
from popbandits.engines.ray_engine import RayEngine, Resources
from popbandits.engines.recipes import Role, on_record, recipe
from popbandits.engines.spawning import cores
from popbandits.engines.workers import Processes, Threads
from popbandits.errors import ArgumentError, RunError
from popbandits.history import Mode
from popbandits.history.store import Store
from popbandits.methods import Choice, Explore, choose, find_method
from popbandits.population import Population
from popbandits.population.start import Start, from_record, resolve, to_record
from popbandits.selection import Selection
from popbandits.space import Space
from popbandits.typing import is_real, is_whole

EngineName = Literal["in-process", "threads", "processes", "ray", "batched"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)


@dataclass(frozen=True)
class Experiment:
    """What is tuned, how, and where it runs; `popbandits run file:experiment` runs one, and `tune` makes one.

    >>> Experiment(agent=None, space={"lr": (0.0, 1.0)}, rounds=0)
    Traceback (most recent call last):
    popbandits.errors.ArgumentError: agent must be callable: make_agent(seed) builds an agent, got None; ...
    """

    agent: MakeAgent | MakeAgents
    """Builds an agent from a seed; a class will do. With engine="batched": builds all members from a list of seeds."""
    space: Any
    """A dict or a ConfigurationSpace."""
    method: Any = None
    """An explorer; None for PatientPBT."""
    population: int = 4
    rounds: int | None = 50
    seed: int = 0
    mode: Mode = "max"
    quantile: float | None = None
    """The share of members that truncation selection replaces; None for 0.25, or for that of `selection`."""
    explore: Explore | None = None
    synchronous: bool = True
    initial_score: float | None = None
    """What an agent scores before any training, where that is known."""
    directory: str | Path | None = None
    """Where the run is kept; None for a new folder in `runs`."""
    engine: EngineName = "in-process"
    workers: int | None = None
    """How many members train at a time; None for all of them (threads, Ray), or as many as there are cores
    (processes)."""
    resources: Resources | None = None
    """What a member needs of Ray: `cpus` (1), `gpus` (0; fractions share one) and custom resources, by name."""
    round_timeout: float | None = None
    """Seconds after which an interval has failed."""
    max_failures: int | None = None
    """How many intervals may fail before the run ends; None for any number, as long as others complete."""
    keep: Keep = 0
    """How many checkpoints of each member to keep beyond those that are needed, or "all"."""
    start: Start = None
    """What the first members begin with: a list of configurations, "defaults" for the space's, or a past run (a
    `History` or a folder) for its winning configurations; `Population` says more. None for random ones."""
    selection: Selection | str | None = None
    """Strategy that says whose weights and hyperparameters a member goes on with; None for Truncation(quantile)."""

    def __post_init__(self) -> None:
        if not callable(self.agent):
            raise ArgumentError(
                f"agent must be callable: make_agent(seed) builds an agent, got {self.agent!r}; give a function"
            )
        if not is_whole(self.population, 1):
            raise ArgumentError(f"population must be a whole number of at least 1, got {self.population!r}")
        if self.engine not in ENGINES:
            raise ArgumentError(f"engine must be one of {', '.join(ENGINES)}, got {self.engine!r}")
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
            if not all(is_real(amount) and amount >= 0 for amount in self.resources.values()):
                raise ArgumentError(f"resources must be amounts of at least 0, got {self.resources!r}")
        if self.max_failures is not None and not is_whole(self.max_failures, 0):
            raise ArgumentError(f"max_failures must be a whole number, got {self.max_failures!r}; None for no limit")
        if self.keep != "all" and not is_whole(self.keep, 0):
            raise ArgumentError(f"keep must be a whole number or 'all', got {self.keep!r}; 0 keeps what is needed")

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
            name: getattr(self, name)
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
        return {**kept, **made, **chosen_too, "size": self.population, "start": start}

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
