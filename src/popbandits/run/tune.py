"""`tune` and `resume`: from an experiment to a result."""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import wraps
from inspect import signature
from itertools import count
from multiprocessing import current_process
from pathlib import Path
from typing import Any, ParamSpec

from popbandits.agent import MakeAgent, MakeAgents
from popbandits.basics.settings import CHANGEABLE, SETTINGS, EngineName, Explore, JobOptions, Keep, Mode, Resources
from popbandits.basics.wording import suggestion
from popbandits.errors import ArgumentError, DiskError, HistoryError, PopbanditsWarning, RunError
from popbandits.population.start import Start
from popbandits.run.experiment import BESIDE, Experiment, origin, read_beside
from popbandits.run.loop import Loop
from popbandits.run.recipes import IMPORTING
from popbandits.run.result import Result
from popbandits.run.signing import ID, Signer, new_id, sign_all
from popbandits.run.source import differences
from popbandits.selection import Selection
from popbandits.storage.checkpoints import CHECKPOINTS, Checkpoints
from popbandits.storage.disk import RECORD_ERRORS, absolute_path, remedy, required, resume_command
from popbandits.storage.lock import Lock
from popbandits.storage.queries import counts, last_turn
from popbandits.storage.schema import RUN_FILE as RECORD
from popbandits.storage.schema import holds_run, is_plain
from popbandits.storage.store import Store
from popbandits.views.group import ViewGroup
from popbandits.views.stopping import StopAtCost
from popbandits.views.view import View

P = ParamSpec("P")


def _refuses_unknown(function: Callable[P, Result]) -> Callable[P, Result]:
    """Let `tune` or `resume` suggest a name for an unknown argument; Python does so from 3.13 on only."""
    known = signature(function).parameters

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Result:
        for name in kwargs:
            if name not in known:
                raise _unknown(function.__name__, name, kwargs[name])
        return function(*args, **kwargs)

    return call


def _unknown(function: str, name: str, value: object) -> Exception:
    may = ", ".join(CHANGEABLE)
    if function == "tune":
        return TypeError(f"tune() got an unexpected keyword argument {name!r}{suggestion(name, SETTINGS)}")
    if name in SETTINGS:
        return ArgumentError(f"a resumed run keeps its {name}, got {value!r:.200}; {may} may change")
    return ArgumentError(f"resume takes {may}, got {name!r}{suggestion(name, CHANGEABLE)}")


@_refuses_unknown
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
    name: str | None = None,
    task: str | None = None,
    *,
    slurm: JobOptions | None = None,
    control: bool | None = None,
    evaluations: int = 10,
    max_cost: float | None = None,
    callbacks: Sequence[View] = (),
    progress: bool | View = True,
) -> Result:
    """Tune the hyperparameters of agents while they train.

    The run is saved in its folder as it trains. After Ctrl-C it returns what there is, with `done` False; `resume`
    continues it, after a crash too.

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
    return run(Experiment(**locals()))


def run(experiment: Experiment, progress: bool | View | None = None) -> Result:
    """Run an experiment in its own folder; `progress` overrides the experiment's, unless it is None."""
    # Commands import the file of an agent, and so does every process of engine="processes". Python has no public name
    # for a spawned process that still imports its program.
    if (file := IMPORTING.get()) or getattr(current_process(), "_inheriting", False):
        raise RunError(
            f"a file that is imported must start no run, got a call of tune{file and ' in '}{file}; put it below "
            "`if __name__ == '__main__':`"
        )
    shown = experiment.progress if progress is None else progress
    _ = experiment.plan  # Raises for bad arguments before anything is written, and so does the next line.
    experiment.require_sendable()
    given = new_folder(time.strftime("%Y-%m-%d-%H%M%S")) if experiment.directory is None else experiment.directory
    directory = absolute_path(given)
    with _disk_errors(directory):
        return _begin(experiment.changed(directory=directory, progress=shown), directory)


def _begin(experiment: Experiment, directory: Path) -> Result:
    """Make a run's folder and record, and train."""
    run_id, space = new_id(), experiment.plan.space
    record = experiment.record(Signer(run_id, space.to_json())) | origin() | {ID: run_id}  # Or refused: no folder yet.
    with required("make", directory):
        if directory.is_file():
            raise ArgumentError(f"directory must be a folder, or a new name, got the file {directory}")
        if not holds_run(directory / RECORD):  # If it does, an error is raised below, or by the lock.
            Checkpoints(directory / CHECKPOINTS).require_new()
        directory.mkdir(parents=True, exist_ok=True)
    with closing(Lock(directory)):
        if is_taken(directory):
            raise HistoryError(
                f"{directory} holds a run already; give another directory, or resume with: {resume_command(directory)}"
            )
        with required("write to", directory):
            (directory / RECORD).unlink(missing_ok=True)  # A run that is not taken has no results.
            store = Store.create(directory, space, record)
        return _train(experiment, store)


@_refuses_unknown
def resume(
    directory: str | Path,
    *,
    agent: MakeAgent | MakeAgents | None = None,
    method: Any = None,
    rounds: int | None = None,
    engine: EngineName | None = None,
    workers: int | None = None,
    resources: Resources | None = None,
    round_timeout: float | None = None,
    max_failures: int | None = None,
    keep: Keep | None = None,
    selection: Selection | str | None = None,
    slurm: JobOptions | None = None,
    evaluations: int | None = None,
    max_cost: float | None = None,
    callbacks: Sequence[View] | None = None,
    progress: bool | View = True,
    trust: bool = False,
) -> Result:
    """Resume a run that was stopped or killed, or that has new rounds to do, as if it had never stopped.

    It keeps the recorded space and settings, but for the settings that are given here, and trains with today's code. If
    the agent's code was edited meanwhile, a `PopbanditsWarning` says so, and the run's record too.

    Args:
        directory: Folder of the run.
        agent: Function that builds an agent from a seed, or the class itself. None (default) is the recorded one;
            needed if the record does not say where to import it from.
        method: Method that finds new configurations. None (default) is the recorded one; needed if the record does not
            say where to import it from.
        rounds: Number of intervals that each member trains. None (default) is as recorded. Raise it to extend a run.
        engine: Engine that trains members. None (default) is the recorded one. With another, the recorded `workers`,
            `resources`, `round_timeout` and `slurm` are not kept.
        workers: Maximum number of members that train at a time. None (default) is as recorded.
        resources: Ray resources of a member. None (default) is as recorded. For engine="ray" only.
        round_timeout: Maximum seconds of an interval. None (default) is as recorded.
        max_failures: Number of intervals that may fail before the run ends. None (default) is as recorded.
        keep: Number of checkpoints of each member to keep besides those needed, or "all". None (default) is as
            recorded.
        selection: Selection of the weights and configuration that a member continues with. None (default) is the
            recorded one; needed if the record does not say where to import it from.
        slurm: Options of the SLURM jobs. None (default) is as recorded. For engine="slurm" only.
        evaluations: Number of evaluations of each candidate at the end of a run. None (default) is as recorded. A
            finished run is evaluated again if it is given.
        max_cost: Cost of the run at which it stops; what was spent before counts. None (default) is as recorded.
        callbacks: Views that are told what happens. None (default) is none: they are not on record.
        progress: Whether the run is shown in the terminal. Default True. False for silence, or an object of a class
            that extends `View`.
        trust: Whether the record may name any code as its agent, method and selection, and agents may load checkpoints
            that this account did not write. Default False: only code that popbandits ships, or that this account
            recorded for this run, is run; anything else is an error that names it. Use True for a folder from someone
            you trust, and once for a run of yours that an earlier version began.
    """
    changes = {name: value for name, value in locals().items() if name in CHANGEABLE}
    return Resumption(directory, trust, **changes).run(progress)


class Resumption:
    """A run that is about to be resumed: its settings are read from its folder, changed and checked.

    Args:
        directory: Folder of the run.
        trust: Whether the record may name any code; see `resume`.
        changes: New values of settings that a resume may change; None changes nothing.
    """

    def __init__(self, directory: str | Path, trust: bool = False, **changes: Any):
        self.trust, directory = trust, absolute_path(directory)
        self.evaluates = changes.get("evaluations") is not None
        """True if it is to evaluate candidates also if it is finished."""
        with required("read", directory):
            recorded = Store.open(directory, readonly=True)
        with required("read", recorded.path, RECORD_ERRORS), recorded as store:
            self.experiment = Experiment.recorded(store, trust, **changes)
            self.edited = differences(store.about, self.experiment.agent)
            """Differences of today's code from the record, a sentence each."""
            self.beside, edited = read_beside(store, self.experiment.agent)
            if edited is not None:
                self.edited.append(edited)
        self.directory = directory

    def run(self, progress: bool | View = True) -> Result:
        """Train, as `resume` does."""
        experiment, directory = self.experiment.changed(progress=progress), self.directory
        for difference in self.edited:
            warnings.warn(difference, PopbanditsWarning, stacklevel=4)
        experiment.require_sendable()  # Else the record would name an agent and an engine that do not go together.
        with _disk_errors(directory), closing(Lock(directory)):
            with required("use", directory / RECORD, RECORD_ERRORS):
                store = Store.open(directory)
            return _train(experiment, store, self)


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
        raise DiskError(f"{error}; {safe} {directory}: {remedy(error)}, {way_on}") from error


def _train(experiment: Experiment, store: Store, resumed: "Resumption | None" = None) -> Result:
    """Train a run whose file is open, and close the file."""
    progress, directory = experiment.progress, store.path.parent
    view = progress if isinstance(progress, View) else _terminal(experiment.at_a_time) if progress else View()
    with required("use", store.path, RECORD_ERRORS), store:
        population = experiment.make_population(store)
        if resumed is not None:
            _describe(experiment, store, resumed)
        limits = [] if experiment.max_cost is None else [StopAtCost(experiment.max_cost)]
        callbacks = [*limits, *experiment.callbacks]
        seen = ViewGroup(view, callbacks) if callbacks else view
        edited, again = ([], False) if resumed is None else (resumed.edited, resumed.evaluates)
        Loop(experiment, population, store, seen, edited, again).run()
    return Result(directory)


def _describe(experiment: Experiment, store: Store, resumed: Resumption) -> None:
    """Record the settings with which a run is resumed; if it is trusted, sign all that is there."""
    if not isinstance(store.about.get(ID), str):  # A run of an earlier version.
        store.describe(**{ID: new_id()})
    signer = Signer.of(store)
    store.describe(**experiment.record(signer) | {BESIDE: resumed.beside})
    if resumed.trust:
        sign_all(store, signer)


def _terminal(workers: int) -> View:
    from popbandits.views.terminal import terminal_view  # rich is slow to import.

    return terminal_view(workers)


def is_taken(directory: Path) -> bool:
    """Tell whether a folder holds a run that a new one must not replace.

    A run that ended before an interval completed makes way. One that was killed may still have jobs of a cluster in
    training, so it keeps its folder.
    """
    if not holds_run(directory / RECORD):
        return False
    try:
        with Store.open(directory, readonly=True) as store:
            ended, (told, failed, _) = last_turn(store) in (None, "stopped"), counts(store)
            return told > failed or not ended or ID not in store.about  # Others than `tune` record runs too.
    except HistoryError:
        return True


def new_folder(name: str) -> Path:
    """Make a folder in `runs` that did not exist, so that of runs that begin at the same time each has its own."""
    for number in count(1):
        path = Path("runs", name if number == 1 else f"{name}-{number}")
        with _disk_errors(absolute_path(path)), required("make", path.absolute()):
            try:
                path.mkdir(parents=True)
                break
            except FileExistsError:
                if not path.exists():  # Something else is in the place of `runs`.
                    raise
    return path
