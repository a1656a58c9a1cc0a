"""Schedulers for Ray Tune. They translate between Tune's callbacks and a population, and decide nothing themselves.

A trial is a member. Its interval ends with the first report, `perturbation_interval` after its beginning, that has a
checkpoint. Then the population is told, and its next decision sets the trial's configuration and the checkpoint that it
continues from.
"""

import time
import warnings
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, ClassVar, cast

from ray.tune.experiment import Trial
from ray.tune.result import DEFAULT_METRIC, TIME_TOTAL_S
from ray.tune.schedulers.trial_scheduler import TrialScheduler
from ray.tune.utils import flatten_dict

from popbandits.basics.rules import is_real
from popbandits.errors import ArgumentError, PopbanditsWarning
from popbandits.explorers import Explorer
from popbandits.history import Assignment, Event, Mode
from popbandits.methods import choose
from popbandits.population import Population
from popbandits.population.start import Start, follow, from_record
from popbandits.ray import trials
from popbandits.ray.arguments import check_log_config, check_quantile_fraction, make_explorer, read_wanted
from popbandits.ray.custom import CustomExplorer, Function, shared_constants
from popbandits.ray.intervals import Intervals, Result, check_applied
from popbandits.ray.merge import find_search
from popbandits.ray.record import CHECKPOINT, TIME, Record
from popbandits.ray.space import inherited, of_generator, population_size, recorded, untuned
from popbandits.ray.trials import AnyTrial, KeptActors, has_actor
from popbandits.run.experiment import origin, read_start, record_of
from popbandits.run.recipes import recipe
from popbandits.run.source import updated, versions
from popbandits.selection import Selection
from popbandits.space import Space
from popbandits.storage import Store
from popbandits.storage.schema import RUN_FILE, holds_run

WAITING = (Trial.PENDING, Trial.PAUSED)


class PopulationScheduler(TrialScheduler):
    """Base of the schedulers; a subclass names its explorer.

    The search space is what `param_space` leaves open (`tune.uniform`, `tune.choice`, ...), joined with
    `hyperparam_bounds` or `hyperparam_mutations`, as Tune's PB2 and PBT take them; or it is `space`, anything that
    `popbandits.Population` takes. The population chooses its first configurations, spread over `param_space`; `start`
    sets those of the first members. docs/migration_ray.md lists all arguments of Tune's schedulers.

    A trainable may report, as `applied`, the hyperparameters that it really trained with (all, or those it can tell);
    the experiment ends with an error if one differs from its configuration.

    Args:
        time_attr: Entry of a result that measures progress.
        metric: Entry of a result to optimise; here, or in `TuneConfig`.
        mode: "max" or "min"; here, or in `TuneConfig`.
        perturbation_interval: Length of an interval, in units of `time_attr`.
        hyperparam_bounds: Ranges to explore, [lower, upper] by name; the scale and all other names come from
            `param_space`.
        hyperparam_mutations: Values to explore, lists and distributions by name, in the same way.
        burn_in: Time before which nothing is decided; `burn_in_period` is Tune's name for it.
        quantile_fraction: Fraction of members that are replaced; 0.25 if neither this nor `selection` is given.
        selection: Selection of the weights and hyperparameters that a trial continues with, or its name; the method's
            own if left out, or `Truncation(quantile_fraction)`.
        resample_probability: Probability that a number is drawn again, for methods that do so.
        perturbation_factors: Factors by which `PBT` multiplies numbers.
        custom_explore_fn: Function that changes a new configuration before it is trained: it takes tuned values and
            constants, and returns them with changed tuned values.
        log_config: No effect; the record has every configuration.
        require_attrs: Whether a result without `time_attr` or `metric` is an error; otherwise it is skipped.
        synch: Whether members wait for each other at the end of each interval.
        start: Configurations of the first members, as `popbandits.Population` takes them: a list of configurations,
            "defaults", or a past run. A schedule in it spans the rounds that Tune's stopping criterion allows.
    """

    explorer: ClassVar[type[Explorer]]
    _supports_buffered_results = False

    def __init__(
        self,
        time_attr: str = TIME_TOTAL_S,
        metric: str | None = None,
        mode: Mode | None = None,
        perturbation_interval: float = 60.0,
        hyperparam_bounds: Mapping[str, Any] | None = None,
        *,
        hyperparam_mutations: Mapping[str, Any] | None = None,
        space: Any = None,
        burn_in: float = 0.0,
        burn_in_period: float | None = None,
        quantile_fraction: float | None = None,
        selection: Selection | str | None = None,
        resample_probability: float | None = None,
        perturbation_factors: tuple[float, float] | None = None,
        custom_explore_fn: Function | None = None,
        log_config: bool | None = None,
        require_attrs: bool = True,
        synch: bool = False,
        seed: int = 0,
        start: Start = None,
    ):
        super().__init__()  # type: ignore[no-untyped-call]
        if mode not in (None, "max", "min"):
            raise ArgumentError(f"mode must be 'max' or 'min', got {mode!r}")
        check_quantile_fraction(quantile_fraction, selection)
        check_log_config(log_config)
        self._metric, self._mode = metric, mode
        burn_in = burn_in if burn_in_period is None else burn_in_period
        self._intervals = Intervals(time_attr, perturbation_interval, burn_in, require_attrs)
        self._space, self._wanted = space, read_wanted(space, hyperparam_bounds, hyperparam_mutations)
        self._explorer = make_explorer(self.explorer, resample_probability, perturbation_factors)
        self._custom = custom_explore_fn
        self._selection = choose(self._explorer, selection, quantile_fraction).selection
        self._synch, self._seed, self._start = synch, seed, start
        self._forget()

    def _forget(self) -> None:
        """Set what a scheduler knows of an experiment to what it knows before one begins."""
        self._record: Record | None = None
        self._any_trial: AnyTrial = None
        self._trials: dict[int, AnyTrial] = {}  # by member
        self._assigned: dict[int, Assignment] = {}  # pending assignments, by member
        self._gone: set[int] = set()  # members that have ended
        self._actors = KeptActors()

    def __getstate__(self) -> dict[str, Any]:
        """Return the settings; everything else is in the record."""
        forgetful = PopulationScheduler.__new__(PopulationScheduler)
        forgetful._forget()
        return vars(self) | vars(forgetful)

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:
        """Take metric and mode from `TuneConfig`; False if the scheduler has them already."""
        if (self._metric and metric) or (self._mode and mode):
            return False
        self._metric, self._mode = metric or self._metric, cast("Mode | None", mode) or self._mode
        if self._metric is None and self._mode:
            self._metric = DEFAULT_METRIC
        return True

    # Callbacks of Tune

    def on_trial_add(self, tune_controller: Any, trial: AnyTrial) -> None:
        """Add a trial that is new, restored with its experiment, or tried again after a failure."""
        if self._record is None or self._record.store.path != trials.folder(trial) / RUN_FILE:
            self._begin(tune_controller, trial)
        restored = trial.trial_id in self._opened.members
        member = self._opened.join(trial.trial_id)
        if self._trials.get(member) is trial:
            trials.try_again(tune_controller, trial)  # the same assignment, from its last checkpoint
            return
        self._trials[member] = trial
        if restored:
            trials.skip_used_checkpoints(trial)
        if trial.is_finished():
            self._leave(member)
        elif member in self._assigned:
            if not (restored and self._has_begun(trial, self._assigned[member])):
                self._set_up(member)
        else:
            trial.set_status(Trial.PAUSED)  # It waits for its round; Tune starts whatever is pending.

    def on_trial_result(self, tune_controller: Any, trial: AnyTrial, result: dict[str, Any]) -> str:
        """Handle a trial's report: continue the trial, or end its interval."""
        member = self._opened.members[trial.trial_id]
        assignment = self._assigned[member]
        if not self._ends_interval(trial, assignment, result):
            return str(self.CONTINUE)
        if (saved := trials.save(tune_controller, trial, result)) is None:
            if trials.is_function(trial):
                self._intervals.check_patience(trial.trial_id, self._opened.source(assignment), result)
            return str(self.CONTINUE)
        self._tell(assignment, result, trials.location(trial, saved.checkpoint))
        decided = self._decide()
        following = self._assigned.get(member)
        if not self._synch and following is not None and _continues(following, assignment):
            trial.set_experiment_tag(trials.tag(self._opened.population.space, following))
            return str(self.CONTINUE if self._next(tune_controller) is None else self.PAUSE)
        with self._actors.keep(tune_controller, trial):
            trials.pause(tune_controller, trial, saved)
        self._hand_out(decided)
        return str(self.NOOP)

    def on_trial_complete(self, tune_controller: Any, trial: AnyTrial, result: dict[str, Any]) -> None:
        """Handle a trial that has met its stopping criterion."""
        member = self._opened.members[trial.trial_id]
        assignment = self._assigned.get(member)
        if assignment is not None and self._ends_interval(trial, assignment, result):
            self._tell(assignment, result, trials.last_location(trial, self._intervals.time_attr, result))
        self._leave(member)

    def on_trial_error(self, tune_controller: Any, trial: AnyTrial) -> None:
        """Handle a failed trial. Tune tries it again, in the same interval from its last checkpoint, or gives it up."""
        if trial.status == Trial.ERROR:  # It has been stopped already, and is tried again.
            return
        self._give_up(trial, "failed, and max_failures of FailureConfig lets it go")

    def on_trial_remove(self, tune_controller: Any, trial: AnyTrial) -> None:
        """Remove a trial that is stopped while it waits."""
        self._leave(self._opened.members[trial.trial_id])

    def choose_trial_to_run(self, tune_controller: Any) -> AnyTrial | None:
        """Return the trial to start next, if one waits for resources."""
        for member, trial in list(self._trials.items()):
            if trial.status == Trial.ERROR and member not in self._gone:  # Tune does not tell schedulers.
                self._give_up(trial, "could not be started; reset_config must return True if reuse_actors is set")
        chosen = self._next(tune_controller)
        self._actors.release(tune_controller, chosen)
        return chosen

    def _next(self, tune_controller: Any) -> AnyTrial | None:
        """Return the trial furthest behind among those that wait for resources."""
        for assignment in sorted(self._assigned.values(), key=lambda a: (a.round, a.member)):
            if assignment.member in self._gone or (trial := self._trials.get(assignment.member)) is None:
                continue
            if trial.status in WAITING and not has_actor(tune_controller, trial):
                return trial
        return None

    def debug_string(self) -> str:
        """Return the current round as text."""
        rounds = [assignment.round for assignment in self._assigned.values()]
        return f"{type(self).__name__}: round {min(rounds, default=0)}"

    # The population and its record

    @property
    def _opened(self) -> Record:
        assert self._record is not None
        return self._record

    def _begin(self, tune_controller: Any, trial: AnyTrial) -> None:
        """Open the experiment's record, or create it."""
        self._forget()
        self._any_trial = trial
        name, generator = type(self).__name__, tune_controller.search_alg
        if not self._metric or not self._mode:
            raise ArgumentError(
                f"{name} needs a metric and a mode, got {self._metric!r} and {self._mode!r}; "
                "give them to it, or to TuneConfig"
            )
        trials.check_num_to_keep(trial)
        trials.fetch_record(trial)
        if holds_run((directory := trials.folder(trial)) / RUN_FILE):
            store = Store.open(directory)
            about = store.about
            start = from_record(about.get("start", []))
            population = self._population(trial, store.space, about["size"], start, generator, store)
        else:
            size = population_size(generator, name)
            space, begin = self._space, read_start(self._start)
            rounds = self._rounds(trial)
            if space is None:
                space, begin = find_search(
                    self._wanted, tune_controller, self._explorer, size, self._seed, begin, rounds
                )
            space, begin = follow(Space(space), begin, rounds)
            population = self._population(trial, space, size, begin, generator)
            method = recipe(self._explorer)
            about = record_of(population.plan, engine="ray-tune", agent=None, method=method, trials=[]) | origin()
            store = Store.create(directory, population.space, about)
        changes = updated(about)
        store.describe(versions=versions())
        self._record = Record(store, population, partial(trials.keep_record, trial))
        self._untuned = untuned(of_generator(generator), population.space)
        resumed = len(self._record.population.history) > 0
        self._record.say(Event("resumed" if resumed else "started", f"{name} in Ray Tune"))
        for change in changes:
            warnings.warn(change, PopbanditsWarning, stacklevel=2)
            self._record.say(Event("edited", change))
        self._decide()

    def _population(
        self, trial: AnyTrial, space: Space, size: int, start: Start, generator: Any, history: Any = ()
    ) -> Population:
        assert self._mode is not None
        explorer = self._explorer
        if self._custom is not None:
            fixed = shared_constants(trial.config, of_generator(generator), space)
            explorer = CustomExplorer(explorer, self._custom, fixed)
        rounds = self._rounds(trial)
        return Population(
            space,
            explorer,
            size=size,
            rounds=None,
            seed=self._seed,
            mode=self._mode,
            selection=self._selection if rounds is None else self._selection.planned(rounds),
            synchronous=self._synch,
            history=history,
            start=start,
            control=False,  # Tune's own draws are a start too.
        )

    def _rounds(self, trial: AnyTrial) -> int | None:
        """Return the rounds that Tune's stopping criterion allows; None if it has none for the scheduler's time."""
        end = trial.stopping_criterion.get(self._intervals.time_attr)
        return int(end // self._intervals.length) if is_real(end) else None

    def _decide(self) -> list[int]:
        """Ask the population until a member can train, or all wait for others; return the members with assignments."""
        given: list[int] = []
        live = set(range(self._opened.population.size)) - self._gone
        while live:
            if self._synch and not live & self._assigned.keys():
                for member in list(self._assigned):
                    self._fail(member, "its trial has ended")
            if not (assignments := self._opened.ask()):
                break
            for assignment in assignments:
                self._assigned[assignment.member] = assignment
                source = self._opened.source(assignment)
                # Any trial knows where a checkpoint should be.
                is_lost = source is not None and trials.stored(self._any_trial, source) is None
                if is_lost and assignment.member not in self._gone:
                    text = "the checkpoint of member {} in round {} no longer exists".format(*assignment.parent or ())
                    self._fail(assignment.member, text, lost=True)
                else:
                    given.append(assignment.member)
        return given

    def _hand_out(self, members: Iterable[int]) -> None:
        """Set up the trials of members with new assignments."""
        for member in members:
            if member in self._trials and member not in self._gone:
                self._set_up(member)

    def _set_up(self, member: int) -> None:
        """Prepare a waiting trial for its member's assignment."""
        trial, assignment = self._trials[member], self._assigned[member]
        source = self._opened.source(assignment)
        start = None if source is None else trials.stored(trial, source)
        trials.assign(trial, self._opened.population.space, assignment, start, inherited(source, self._untuned))

    def _has_begun(self, trial: AnyTrial, assignment: Assignment) -> bool:
        """Tell whether a restored trial can resume as Tune has it: it was set up for this interval, and its checkpoint
        is from this interval or is the one that the interval begins with."""
        if trial.experiment_tag != trials.tag(self._opened.population.space, assignment):
            return False
        latest = trial.latest_checkpoint_result
        if assignment.parent is None or latest is None:
            return assignment.parent is None
        return float(flatten_dict(latest.metrics).get(self._intervals.time_attr, 0.0)) >= self._intervals.begins(
            self._opened.source(assignment)
        )

    def _tell(self, assignment: Assignment, result: Result, checkpoint: str | None) -> None:
        """Tell the population that an interval has ended."""
        source = self._opened.source(assignment)
        before = 0.0 if source is None else source.metrics.get(TIME_TOTAL_S, 0.0)
        now = float(result[self._intervals.time_attr])
        del self._assigned[assignment.member]
        self._opened.tell(
            assignment,
            result[str(self._metric)],
            steps=now - self._intervals.begins(source),
            seconds=max(0.0, result.get(TIME_TOTAL_S, before) - before),
            metrics=recorded(result, self._untuned) | {TIME: now, CHECKPOINT: checkpoint},
        )

    def _fail(self, member: int, text: str, lost: bool = False) -> None:
        """Tell the population that a member's interval failed."""
        assignment = self._assigned.pop(member)
        kind = "lost" if lost else "raised"
        self._opened.tell(assignment, None, event=Event(kind, text, *assignment.key, time=time.time()))

    def _give_up(self, trial: AnyTrial, text: str) -> None:
        """End the member of a trial that failed for good."""
        member = self._opened.members[trial.trial_id]
        if member in self._assigned:
            self._fail(member, f"trial {trial.trial_id} {text}")
        self._leave(member)

    def _leave(self, member: int) -> None:
        """End a member, so that the others do not wait for it."""
        self._gone.add(member)
        if len(self._gone) == self._opened.population.size:
            self._opened.say(Event("finished", "all trials have ended"))
            self._opened.store.close()
            self._forget()
            return
        self._hand_out(self._decide())

    def _ends_interval(self, trial: AnyTrial, assignment: Assignment, result: Result) -> bool:
        """Check a result, and tell whether it ends the interval."""
        if not self._intervals.is_complete(result, str(self._metric)):
            return False
        check_applied(trial.trial_id, assignment, result)
        return float(result[self._intervals.time_attr]) >= self._intervals.ends(self._opened.source(assignment))


def _continues(following: Assignment, assignment: Assignment) -> bool:
    """Tell whether a member continues with its own weights and the same configuration."""
    return following.parent == assignment.key and following.config == assignment.config
