"""`tune` and `resume`: from an experiment to a result."""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from importlib import import_module
from inspect import signature
from pathlib import Path
from platform import python_version
from typing import Any, ParamSpec

from popbandits.docstrings import complete_args
from popbandits.errors import ArgumentError, DiskError, HistoryError, PopbanditsWarning
from popbandits.run.experiment import Experiment
from popbandits.run.loop import Loop
from popbandits.run.ownership import sign_all
from popbandits.run.result import Result
from popbandits.run.signing import ID, Signer, new_id
from popbandits.run.source import differences
from popbandits.settings import CHANGEABLE, SETTINGS, TEXTS
from popbandits.space import Space
from popbandits.storage.checkpoints import CHECKPOINTS, Checkpoints
from popbandits.storage.disk import RECORD_ERRORS, anchored, required, resume_command
from popbandits.storage.lock import Lock
from popbandits.storage.schema import FILE as RECORD
from popbandits.storage.schema import holds_run, is_plain
from popbandits.storage.store import Store
from popbandits.views.several import Several
from popbandits.views.view import View
from popbandits.wording import suggestion

P = ParamSpec("P")

_CHANGES = (
    f"Give settings of `tune` that differ from now on:\n        {', '.join(CHANGEABLE)}.\n        "
    "Give the agent, method or selection if the record does not say where to import it from."
)


def _takes(make: Callable[P, Experiment]) -> Callable[[Callable[[Experiment], Result]], Callable[P, Result]]:
    """Let a function of an experiment take the arguments of `make` instead."""

    def decorate(function: Callable[[Experiment], Result]) -> Callable[P, Result]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> Result:
            if unknown := [name for name in kwargs if name not in SETTINGS]:
                close = suggestion(unknown[0], SETTINGS)
                raise TypeError(f"{function.__name__}() got an unexpected keyword argument {unknown[0]!r}{close}")
            return function(make(*args, **kwargs))

        vars(call)["__signature__"] = signature(make).replace(return_annotation=Result)
        del vars(call)["__wrapped__"]  # The reference would show its signature.
        return call

    return decorate


@complete_args(TEXTS)
@_takes(Experiment)
def tune(experiment: Experiment) -> Result:
    """Tune the hyperparameters of agents while they train.

    The run is saved in its folder as it trains: after Ctrl-C or a crash, `resume` continues it.

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
    """
    return run(experiment)


def run(experiment: Experiment, progress: bool | View | None = None) -> Result:
    """Run an experiment in its own folder; `progress` overrides the experiment's, unless it is None."""
    directory = anchored(experiment.directory) if experiment.directory is not None else _new_folder()
    shown = experiment.progress if progress is None else progress
    experiment = replace(experiment, directory=directory, progress=shown)
    population = experiment.make_population()  # Raises for bad arguments before anything is written.
    experiment = replace(experiment, start=population.start)  # A past run is read once.
    with _disk_errors(directory):
        return _begin(experiment, directory, population.space)


def _begin(experiment: Experiment, directory: Path, space: Space) -> Result:
    """Make a run's folder and record, and train."""
    run_id = new_id()
    origin = {
        ID: run_id,
        "python": python_version(),
        "popbandits": import_module("popbandits").__version__,
        "created": time.time(),
    }
    with required("make", directory):
        if directory.is_file():
            raise ArgumentError(f"directory must be a folder, or a new name, got the file {directory}")
        if not holds_run(directory / RECORD):  # If it does, an error is raised below, or by the lock.
            Checkpoints(directory / CHECKPOINTS).require_new()
        directory.mkdir(parents=True, exist_ok=True)
    lock = Lock(directory)
    try:
        if holds_run(directory / RECORD):
            raise HistoryError(
                f"{directory} holds a run already; give another directory, or resume with: {resume_command(directory)}"
            )
        signer = Signer(run_id, space.to_json())
        with required("write to", directory):
            Store.create(directory, space, experiment.record(signer) | origin).close()
        return _train(experiment, directory)
    finally:
        lock.release()


@complete_args({"changes": _CHANGES}, TEXTS)
def resume(directory: str | Path, *, trust: bool = False, progress: bool | View = True, **changes: Any) -> Result:
    """Resume a run that was stopped or killed, or that has new rounds to do, as if it had never stopped.

    It keeps the recorded space and settings, and trains with today's code. If the agent's code or the space in its file
    was edited meanwhile, a `PopbanditsWarning` says so, and the run's record too.

    Args:
        directory: Give the folder of the run.
        trust: Let the record name any code as its agent, method and selection, and let agents load checkpoints that
            this account did not write. Default False: only code that popbandits ships, or that this account recorded
            for this run, is run; anything else is an error that names it. Give True for a folder from someone you
            trust, and once for a run of yours that an earlier version began.
    """
    if wrong := changes.keys() - set(CHANGEABLE):
        names, may = ", ".join(sorted(wrong)), ", ".join(CHANGEABLE)
        if unknown := sorted(wrong - set(SETTINGS)):
            raise ArgumentError(f"resume takes {may}, got {unknown[0]!r}{suggestion(unknown[0], CHANGEABLE)}")
        raise ArgumentError(f"a resumed run keeps its {names}, got another; {may} may change")
    directory = anchored(directory)
    with required("read", directory):
        recorded = Store.open(directory, readonly=True)
    with required("read", recorded.path, RECORD_ERRORS), recorded as store:
        experiment = replace(Experiment.recorded(store, trust, **changes), progress=progress)
        edited = differences(store.about, store.space, experiment.agent)
    for difference in edited:
        warnings.warn(difference, PopbanditsWarning, stacklevel=2)
    with _disk_errors(directory):
        lock = Lock(directory)
        try:
            return _train(experiment, directory, edited, trust)
        finally:
            lock.release()


@contextmanager
def _disk_errors(directory: Path) -> Iterator[None]:
    """Say what is safe, and how to go on, when the disk fails."""
    try:
        yield
    except DiskError as error:
        if isinstance(error, HistoryError):  # Says so itself.
            raise
        begun = is_plain(directory / RECORD)
        safe = "everything so far is in" if begun else "nothing was recorded in"
        way_on = "then resume the run" if begun else "or give another directory"
        raise DiskError(f"{error}; {safe} {directory}: fix the disk, {way_on}") from error


def _train(experiment: Experiment, directory: Path, edited: Sequence[str] = (), trust: bool = False) -> Result:
    progress = experiment.progress
    view = progress if isinstance(progress, View) else _terminal(experiment.at_a_time) if progress else View()
    with required("use", directory / RECORD, RECORD_ERRORS), Store.open(directory) as store:
        population = experiment.make_population(store)
        if not isinstance(store.about.get(ID), str):  # A run of an earlier version.
            store.describe(**{ID: new_id()})
        signer = Signer.of(store)
        store.describe(**experiment.record(signer))
        if trust:
            sign_all(store, signer)
        checkpoints = Checkpoints(directory / CHECKPOINTS, experiment.keep)
        seen = Several(view, experiment.callbacks) if experiment.callbacks else view
        Loop(population, store, checkpoints, experiment.make_engine, seen, experiment.max_failures, edited).run()
    return Result(directory)


def _terminal(workers: int) -> View:
    from popbandits.views.terminal import terminal_view  # rich is slow to import.

    return terminal_view(workers)


def _new_folder() -> Path:
    """Return a folder in `runs` that does not exist yet."""
    stem = time.strftime("%Y-%m-%d-%H%M%S")
    number = 1
    while (path := anchored("runs") / (stem if number == 1 else f"{stem}-{number}")).exists():
        number += 1
    return path
