"""`tune` and `resume`: from an experiment to a result."""

import sqlite3
import time
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path
from platform import python_version
from typing import Any

from popbandits.agent import MakeAgent, MakeAgents
from popbandits.docstrings import complete_args
from popbandits.engines.checkpoints import Checkpoints, Keep
from popbandits.engines.disk import anchored, required, resume_command
from popbandits.engines.experiment import EngineName, Experiment
from popbandits.engines.lock import Lock
from popbandits.engines.loop import Loop
from popbandits.engines.ray_engine import Resources
from popbandits.engines.result import CHECKPOINTS, Result
from popbandits.engines.view import View
from popbandits.errors import ArgumentError, HistoryError
from popbandits.history import Mode
from popbandits.history.schema import FILE as RECORD
from popbandits.history.schema import holds_run
from popbandits.history.store import Store
from popbandits.methods import Explore
from popbandits.population.start import Start
from popbandits.selection import Selection
from popbandits.wording import suggestion


@complete_args(Experiment)
def tune(
    agent: MakeAgent | MakeAgents,
    space: Any,
    method: Any = None,
    population: int = 4,
    rounds: int | None = 50,
    seed: int = 0,
    mode: Mode = "max",
    quantile: float | None = None,
    explore: Explore | None = None,
    synchronous: bool = True,
    initial_score: float | None = None,
    directory: str | Path | None = None,
    engine: EngineName = "in-process",
    workers: int | None = None,
    resources: Resources | None = None,
    round_timeout: float | None = None,
    max_failures: int | None = None,
    keep: Keep = 0,
    start: Start = None,
    selection: Selection | str | None = None,
    *,
    progress: bool | View = True,
) -> Result:
    """Tune the hyperparameters of agents while they train.

    The run is kept in its folder as it goes: after Ctrl-C or a crash, `resume` goes on.

    >>> class Climber:
    ...     height = 0.0
    ...
    ...     def train(self, config):
    ...         self.height += config["step"] * (2 if config["way"] == "up" else -1)
    ...         return self.height
    ...
    ...     def save(self, directory):
    ...         (directory / "height").write_text(str(self.height))
    ...
    ...     def load(self, directory):
    ...         self.height = float((directory / "height").read_text())
    >>> space = {"step": (0.0, 1.0), "way": ["up", "down"]}
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     result = tune(Climber, space, rounds=5, directory=folder, progress=False)
    ...     print(result.done, len(result.schedule))
    True 5

    Args:
        progress: Show the run in the terminal. Default True. Give False for silence, or a `View` of your own.
    """
    given = dict(locals())
    del given["progress"]
    return run(Experiment(**given), progress)


def run(experiment: Experiment, progress: bool | View = True) -> Result:
    """Run an experiment in a folder of its own."""
    _check_progress(progress)
    directory = anchored(experiment.directory) if experiment.directory is not None else _new_folder()
    experiment = replace(experiment, directory=directory)
    population = experiment.make_population()  # Complains about bad arguments before anything is written.
    experiment = replace(experiment, start=population.start)  # A past run is read once.
    made = {"python": python_version(), "popbandits": import_module("popbandits").__version__, "created": time.time()}
    with required("make", directory):
        if directory.is_file():
            raise ArgumentError(f"directory must be a folder, or a new name, got the file {directory}")
        if not holds_run(directory / RECORD):  # That is complained about below, or by whoever runs it.
            Checkpoints(directory / CHECKPOINTS).require_new()
        directory.mkdir(parents=True, exist_ok=True)
    lock = Lock(directory)
    try:
        if holds_run(directory / RECORD):
            raise HistoryError(
                f"{directory} holds a run already; give another directory, or go on with: {resume_command(directory)}"
            )
        with required("write to", directory):
            Store.create(directory, population.space, experiment.record() | made).close()
        return _go(experiment, directory, progress)
    finally:
        lock.release()


def resume(directory: str | Path, *, trust: bool = False, progress: bool | View = True, **changes: Any) -> Result:
    """Resume a run that was stopped or killed, or that has new rounds to do, as if it had never stopped.

    Args:
        directory: Give the folder of the run.
        trust: Let the record name any code as its agent, method and selection. Default False: it builds what popbandits
            ships, and what this account put on record itself; anything else is refused by its name. Give True for a
            folder from somebody you trust.
        progress: Show the run in the terminal. Default True. Give False for silence, or a `View` of your own.
        changes: Give arguments of `tune` that differ from now on: `rounds`, `engine`, `workers`, `resources`,
            `round_timeout`, `max_failures` and `keep`; also `agent`, `method` and `selection`, which a run needs if its
            record cannot say where they are imported from.
    """
    _check_progress(progress)
    changeable = {
        "agent",
        "method",
        "selection",
        "rounds",
        "engine",
        "workers",
        "resources",
        "round_timeout",
        "max_failures",
        "keep",
    }
    if wrong := changes.keys() - changeable:
        names, may = ", ".join(sorted(wrong)), ", ".join(sorted(changeable))
        if unknown := sorted(wrong - {field.name for field in fields(Experiment)}):
            close = suggestion(unknown[0], changeable)
            raise ArgumentError(f"resume takes {may}, got {unknown[0]!r}{close}")
        raise ArgumentError(f"a resumed run keeps its {names}, got another; {may} may change")
    directory = anchored(directory)
    with required("read", directory):
        recorded = Store.open(directory, readonly=True)
    with required("read", recorded.path, (sqlite3.Error,)), recorded as store:
        experiment = Experiment.recorded(store, trust, **changes)
    lock = Lock(directory)
    try:
        return _go(experiment, directory, progress)
    finally:
        lock.release()


def _go(experiment: Experiment, directory: Path, progress: bool | View) -> Result:
    view = progress if isinstance(progress, View) else _terminal(experiment.at_a_time) if progress else View()
    with required("use", directory / RECORD, (sqlite3.Error,)), Store.open(directory) as store:
        population = experiment.make_population(store)
        store.describe(**experiment.record())
        checkpoints = Checkpoints(directory / CHECKPOINTS, experiment.keep)
        Loop(population, store, checkpoints, experiment.make_engine, view, experiment.max_failures).run()
    return Result(directory)


def _check_progress(progress: object) -> None:
    if not isinstance(progress, bool | View):
        raise ArgumentError(f"progress must be True, False or a View, got {progress!r}")


def _terminal(workers: int) -> View:
    from popbandits.engines.terminal import terminal_view  # rich is slow to import

    return terminal_view(workers)


def _new_folder() -> Path:
    """A folder in `runs` that does not exist yet."""
    stem = time.strftime("%Y-%m-%d-%H%M%S")
    number = 1
    while (path := anchored("runs") / (stem if number == 1 else f"{stem}-{number}")).exists():
        number += 1
    return path
